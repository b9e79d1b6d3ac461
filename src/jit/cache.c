/* Keeps compiled code in files: an entry is read whole and checked, or written anew beside and renamed. */
#include "jit/cache.h"
#include "base/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the folder ------------------------------------------------------------------------------------------------------- */

static int open_folder(int at, const char *name, int flags) {
    if (mkdirat(at, name, 0700) != 0 && errno != EEXIST) return -1;
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
}

static int open_root(void) {
    const char *root = fac__env("XDG_CACHE_HOME"), *home = fac__env("HOME");
    char path[4096];
    if (root && root[0] == '/') return open_folder(AT_FDCWD, root, 0);
    if (!home || home[0] != '/' || snprintf(path, sizeof path, "%s/.cache", home) >= (int)sizeof path) return -1;
    return open_folder(AT_FDCWD, path, 0);
}

/* Others may read it at most; then they no longer may. */
static bool is_private(int folder) {
    struct stat s;
    if (fstat(folder, &s) != 0 || s.st_uid != geteuid() || (s.st_mode & 022)) return false;
    return (s.st_mode & 077) == 0 || fchmod(folder, 0700) == 0;
}

static void say_it_is_not_used(void) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&said))
        fac__warn(
            "compiled code is not kept: the cache's folder 'facula' belongs to another user, is a link, or others may "
            "write to it");
}

int fac__jit_cache_open(void) {
    const int root = fac__env_trusted() ? open_root() : -1;
    if (root < 0) return -1;
    int folder = open_folder(root, "facula", O_NOFOLLOW);
    const bool foreign = folder < 0 ? errno == ELOOP || errno == ENOTDIR : !is_private(folder);
    close(root);
    if (foreign) say_it_is_not_used();
    if (foreign && folder >= 0) {
        close(folder);
        folder = -1;
    }
    return folder;
}

/* ---- entries ------------------------------------------------------------------------------------------------------------ */

typedef struct footer {
    char mark[8];
    unsigned char bytes[8]; /* of what stands before the footer, little-endian */
    unsigned char key[FAC_SHA256_BYTES];
    unsigned char digest[FAC_SHA256_BYTES]; /* of all that stands before it */
} footer;
_Static_assert(sizeof(footer) == 80, "a footer is written as it lies in memory");

static footer footer_of(const fac_jit_key *key, const char *data, size_t bytes) {
    footer f = {.mark = "FACJIT01"};
    fac_sha256 h;
    for (int i = 0; i < 8; i++) f.bytes[i] = (unsigned char)((uint64_t)bytes >> 8 * i);
    memcpy(f.key, key->bytes, sizeof f.key);
    fac__sha256_begin(&h);
    fac__sha256_add(&h, data, bytes);
    fac__sha256_add(&h, &f, offsetof(footer, digest));
    fac__sha256_end(&h, f.digest);
    return f;
}

static void entry_name(const fac_jit_key *key, const char *suffix, char name[100]) {
    snprintf(name, 100, "%s%.20s", key->text, suffix);
}

/* A regular file of the user's own that nobody else may write to, and that is as long as an entry can be. */
static bool is_own(int fd, size_t *out_bytes) {
    struct stat s;
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_uid != geteuid() || (s.st_mode & 022)) return false;
    if (s.st_size <= (off_t)sizeof(footer) || s.st_size > FAC_JIT_ENTRY_MAX + (off_t)sizeof(footer)) return false;
    *out_bytes = (size_t)s.st_size;
    return true;
}

static bool read_whole(int fd, char *data, size_t n) {
    for (size_t at = 0; at < n;) {
        const ssize_t done = pread(fd, data + at, n - at, (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        at += (size_t)done;
    }
    return true;
}

/* The entry in *out if it is sound, else NULL. */
static fac_status read_entry(int fd, const fac_jit_key *key, char **out, size_t *out_bytes) {
    size_t bytes;
    if (!is_own(fd, &bytes)) return FAC_OK;
    char *data = fac__alloc(bytes);
    if (!data) return fac_error();
    const size_t n = bytes - sizeof(footer);
    bool sound = read_whole(fd, data, bytes);
    if (sound) {
        const footer expected = footer_of(key, data, n);
        sound = memcmp(&expected, data + n, sizeof expected) == 0;
    }
    if (sound) {
        *out = data;
        *out_bytes = n;
    } else
        fac__free(data);
    return FAC_OK;
}

fac_status fac__jit_cache_read(int folder, const fac_jit_key *key, const char *suffix, char **out, size_t *out_bytes) {
    char name[100];
    *out = NULL;
    if (folder < 0) return FAC_OK;
    entry_name(key, suffix, name);
    const int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) return FAC_OK;
    const fac_status st = fd < 0 ? FAC_OK : read_entry(fd, key, out, out_bytes);
    if (fd >= 0) close(fd);
    if (st == FAC_OK && !*out) unlinkat(folder, name, 0);
    return st;
}

static fac_status write_entry(fac_new_file *f, int folder, const char *name, const footer *end, const char *data,
                              size_t bytes) {
    FAC_TRY(fac__new_file_open_at(f, folder, name, 0600));
    FAC_TRY(fac__new_file_write(f, data, bytes));
    FAC_TRY(fac__new_file_write(f, end, sizeof *end));
    return fac__new_file_commit(f);
}

void fac__jit_cache_write(int folder, const fac_jit_key *key, const char *suffix, const char *data, size_t bytes) {
    char name[100];
    fac_new_file f = FAC_NEW_FILE;
    if (folder < 0 || bytes == 0 || bytes > FAC_JIT_ENTRY_MAX) return;
    entry_name(key, suffix, name);
    const footer end = footer_of(key, data, bytes);
    const bool written = write_entry(&f, folder, name, &end, data, bytes) == FAC_OK;
    fac__new_file_close(&f);
    if (!written) fac_error_clear();
    fac__jit_cache_trim(folder, FAC_JIT_CACHE_MAX);
}
