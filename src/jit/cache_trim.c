/* Keeping the cache small. Other processes may do the same at the same time: what is gone already is no failure. */
#include "jit/cache.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct entry {
    char name[128];
    int64_t bytes;
    struct timespec time;
} entry;

typedef struct entries {
    entry *v;
    size_t n, cap;
} entries;

static int by_age(const void *a, const void *b) {
    const struct timespec *x = &((const entry *)a)->time, *y = &((const entry *)b)->time;
    if (x->tv_sec != y->tv_sec) return (x->tv_sec > y->tv_sec) - (x->tv_sec < y->tv_sec);
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static bool begins_with_key(const char *name) {
    return strspn(name, "0123456789abcdef") == 2 * FAC_SHA256_BYTES && name[2 * FAC_SHA256_BYTES] == '.';
}

static bool is_temporary(const char *name) {
    const size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, ".tmp") == 0;
}

static void list(DIR *d, entries *all) {
    const time_t old = time(NULL) - FAC_JIT_TEMPORARY_SECONDS;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        struct stat s;
        if (!begins_with_key(e->d_name) || strlen(e->d_name) >= sizeof all->v->name) continue;
        if (fstatat(dirfd(d), e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(s.st_mode)) continue;
        if (is_temporary(e->d_name)) {
            if (s.st_mtime < old) unlinkat(dirfd(d), e->d_name, 0);
            continue;
        }
        if (FAC_VEC_GROW(all) != FAC_OK) {
            fac_error_clear();
            return;
        }
        entry *it = &all->v[all->n++];
        *it = (entry){.bytes = s.st_size, .time = s.st_mtim};
        memcpy(it->name, e->d_name, strlen(e->d_name) + 1); /* short enough: see above */
    }
}

void fac__jit_cache_trim(int folder, int64_t most) {
    entries all = {0};
    int64_t total = 0;
    const int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        if (fd >= 0) close(fd);
        return;
    }
    list(d, &all);
    for (size_t i = 0; i < all.n; i++) total += all.v[i].bytes;
    if (total > most) qsort(all.v, all.n, sizeof *all.v, by_age);
    for (size_t i = 0; i < all.n && total > most; i++) {
        unlinkat(folder, all.v[i].name, 0);
        total -= all.v[i].bytes;
    }
    fac__free(all.v);
    closedir(d);
}
