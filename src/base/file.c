/* Files: see file.h. A system call that a signal interrupts is made again. */
#include "base/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

fac_file_calls fac__file_calls = {write, pwrite, fsync, close, renameat};

static fac_status io_failed(const char *what, const char *path) {
    int code = errno;
    return FAC_FAIL(FAC_ERR_IO, "cannot %s '%s': %s", what, path, strerror(code));
}

/* The length of the folder's part of a path, with its slash; 0 if it has none. */
static size_t folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

static int open_again(int folder, const char *path, int flags, mode_t mode) {
    int fd;
    do fd = openat(folder, path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static int fsync_again(int fd) {
    int failed;
    do failed = fac__file_calls.fsync(fd);
    while (failed != 0 && errno == EINTR);
    return failed;
}

/* ---- the limit on file sizes ------------------------------------------------------------------------------------ */

/* A write beyond RLIMIT_FSIZE raises SIGXFSZ in its thread, which ends the process. Held back and taken away afterwards, it
   leaves the error EFBIG alone. */
typedef struct held_signal {
    sigset_t mask;
    bool was_pending;
} held_signal;

static bool size_signal_pending(void) {
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ);
}

static sigset_t size_signal(void) {
    sigset_t s;
    sigemptyset(&s);
    sigaddset(&s, SIGXFSZ);
    return s;
}

static held_signal hold_size_signal(void) {
    sigset_t s = size_signal();
    held_signal h = {.was_pending = size_signal_pending()};
    pthread_sigmask(SIG_BLOCK, &s, &h.mask);
    return h;
}

static void let_size_signal_go(const held_signal *h) {
    sigset_t s = size_signal();
    int code = errno, taken;
    if (!h->was_pending && size_signal_pending()) sigwait(&s, &taken);
    pthread_sigmask(SIG_SETMASK, &h->mask, NULL);
    errno = code;
}

/* ---- writing -------------------------------------------------------------------------------------------------- */

enum { RANDOM_DIGITS = 16, NAME_TRIES = 100, PIECE = 1 << 30 /* bytes a system call is asked for at most */ };

/* A name that nobody can foresee, so that nothing can be put in its place beforehand. */
static char *temporary_name(const char *base) {
    uint64_t number;
    if (getentropy(&number, sizeof number) != 0) return io_failed("find a random name beside", base), NULL;
    return fac__format("%s.%016" PRIx64 ".tmp", base, number);
}

/* Whether a name is one that a writer of the file `base` (both without folder) gives to its temporary file. */
static bool is_temporary(const char *name, const char *base) {
    size_t n = strlen(base);
    if (strncmp(name, base, n) != 0 || name[n] != '.') return false;
    const char *digits = name + n + 1;
    return strspn(digits, "0123456789abcdef") == RANDOM_DIGITS && strcmp(digits + RANDOM_DIGITS, ".tmp") == 0;
}

static fac_status open_folder(const char *path, const char *what, int *out) {
    size_t n = folder_length(path);
    char *folder = n ? fac__format("%.*s", (int)n, path) : fac__strdup(".");
    if (!folder) return fac_error();
    *out = open_again(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY, 0);
    fac_status st = *out < 0 ? io_failed(what, path) : FAC_OK;
    fac__free(folder);
    return st;
}

/* A file takes the place of a file or a link, not of a device or a pipe. */
static fac_status check_target(const fac_new_file *f) {
    struct stat info;
    if (fstatat(f->folder, f->name, &info, AT_SYMLINK_NOFOLLOW) != 0) return FAC_OK;
    FAC_CHECK(S_ISREG(info.st_mode) || S_ISLNK(info.st_mode), FAC_ERR_IO,
              "cannot replace '%s': it is not a regular file", f->path);
    return FAC_OK;
}

static fac_status open_temporary(fac_new_file *f, mode_t mode) {
    for (int i = 0; i < NAME_TRIES && f->fd < 0; i++) {
        fac__free(f->temporary);
        f->temporary = temporary_name(f->name);
        if (!f->temporary) return fac_error();
        f->fd = open_again(f->folder, f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
        if (f->fd < 0 && errno != EEXIST) break;
    }
    if (f->fd >= 0) return FAC_OK;
    fac_status st = io_failed("create a temporary file beside", f->path);
    fac__free(f->temporary);
    f->temporary = NULL;
    return st;
}

fac_status fac__new_file_open(fac_new_file *f, const char *path, mode_t mode) {
    *f = FAC_NEW_FILE;
    f->path = fac__strdup(path);
    if (!f->path) return fac_error();
    f->name = f->path + folder_length(f->path);
    FAC_CHECK(*f->name, FAC_ERR_ARGUMENT, "'%s' names no file", path);
    FAC_TRY(open_folder(path, "create", &f->folder));
    FAC_TRY(check_target(f));
    return open_temporary(f, mode);
}

fac_status fac__new_file_open_at(fac_new_file *f, int folder, const char *name, mode_t mode) {
    *f = FAC_NEW_FILE;
    f->path = fac__strdup(name);
    if (!f->path) return fac_error();
    f->name = f->path;
    f->folder = fcntl(folder, F_DUPFD_CLOEXEC, 0);
    if (f->folder < 0) return io_failed("open the folder of", name);
    FAC_TRY(check_target(f));
    return open_temporary(f, mode);
}

/* At a position, or with -1 behind what is there. */
static ssize_t write_piece(int fd, const char *p, size_t n, int64_t at) {
    n = n < PIECE ? n : PIECE;
    return at < 0 ? fac__file_calls.write(fd, p, n) : fac__file_calls.pwrite(fd, p, n, at);
}

static fac_status write_all(fac_new_file *f, const char *p, size_t n, int64_t at) {
    while (n > 0) {
        ssize_t done = write_piece(f->fd, p, n, at);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return io_failed("write", f->path);
        FAC_CHECK(done > 0, FAC_ERR_IO, "cannot write '%s': the system takes no more bytes and does not say why",
                  f->path);
        p += done;
        n -= (size_t)done;
        if (at >= 0) at += done;
    }
    return FAC_OK;
}

static fac_status write_held(fac_new_file *f, const void *bytes, size_t n, int64_t at) {
    held_signal h = hold_size_signal();
    fac_status st = write_all(f, bytes, n, at);
    let_size_signal_go(&h);
    return st;
}

fac_status fac__new_file_write(fac_new_file *f, const void *bytes, size_t n) { return write_held(f, bytes, n, -1); }

fac_status fac__new_file_patch(fac_new_file *f, int64_t at, const void *bytes, size_t n) {
    return write_held(f, bytes, n, at);
}

fac_status fac__new_file_commit(fac_new_file *f) {
    if (fsync_again(f->fd) != 0) return io_failed("flush", f->path);
    int closed = fac__file_calls.close(f->fd);
    f->fd = -1;
    /* Interrupted or not, the descriptor is gone, and the bytes were flushed. */
    if (closed != 0 && errno != EINTR) return io_failed("close", f->path);
    if (fac__file_calls.renameat(f->folder, f->temporary, f->folder, f->name) != 0)
        return io_failed("replace", f->path);
    fac__free(f->temporary);
    f->temporary = NULL;
    /* Some file systems cannot flush folders and say EINVAL; there the rename is as safe as it gets. */
    if (fsync_again(f->folder) != 0 && errno != EINVAL) return io_failed("flush the folder of", f->path);
    return FAC_OK;
}

void fac__new_file_close(fac_new_file *f) {
    if (f->fd >= 0) close(f->fd);
    if (f->temporary) unlinkat(f->folder, f->temporary, 0);
    if (f->folder >= 0) close(f->folder);
    fac__free(f->temporary);
    fac__free(f->path);
    *f = FAC_NEW_FILE;
}

fac_status fac__file_replace(const char *path, const void *bytes, size_t n) {
    fac_new_file f = FAC_NEW_FILE;
    fac_status st = fac__new_file_open(&f, path, 0666);
    if (st == FAC_OK) st = fac__new_file_write(&f, bytes, n);
    if (st == FAC_OK) st = fac__new_file_commit(&f);
    fac__new_file_close(&f);
    return st;
}

/* ---- what killed writers left ------------------------------------------------------------------------------------ */

static fac_status sweep(DIR *folder, const char *base, const char *path) {
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        struct stat info;
        if (!is_temporary(e->d_name, base)) continue;
        if (fstatat(dirfd(folder), e->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
        if (unlinkat(dirfd(folder), e->d_name, 0) != 0 && errno != ENOENT)
            return io_failed("remove an old temporary file of", path);
    }
    return FAC_OK;
}

fac_status fac__file_sweep(const char *path) {
    int fd = -1;
    FAC_TRY(open_folder(path, "read the folder of", &fd));
    DIR *folder = fdopendir(fd);
    if (!folder) {
        close(fd);
        return FAC_FAIL(FAC_ERR_MEMORY, "out of memory: cannot read the folder of '%s'", path);
    }
    fac_status st = sweep(folder, path + folder_length(path), path);
    closedir(folder);
    return st;
}

/* ---- reading -------------------------------------------------------------------------------------------------- */

fac_status fac__file_open(const char *path, int *out_fd, int64_t *out_bytes) {
    *out_fd = open_again(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0);
    if (*out_fd < 0) return io_failed("open", path);
    struct stat info;
    fac_status st = FAC_OK;
    if (fstat(*out_fd, &info) != 0)
        st = io_failed("read", path);
    else if (!S_ISREG(info.st_mode))
        st = FAC_FAIL(FAC_ERR_IO, "cannot read '%s': it is not a regular file", path);
    if (st) {
        close(*out_fd);
        *out_fd = -1;
        return st;
    }
    *out_bytes = info.st_size;
    return FAC_OK;
}

fac_status fac__file_read(int fd, const char *path, int64_t at, void *out, size_t n) {
    char *p = out;
    while (n > 0) {
        ssize_t done = pread(fd, p, n < PIECE ? n : PIECE, at);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return io_failed("read", path);
        FAC_CHECK(done > 0, FAC_ERR_IO, "'%s' ends at byte %lld: it was cut while being read", path, (long long)at);
        p += done;
        n -= (size_t)done;
        at += done;
    }
    return FAC_OK;
}

fac_status fac__file_map(int fd, const char *path, int64_t at, size_t n, fac_file_map *out) {
    const int64_t begin = at - at % sysconf(_SC_PAGESIZE);
    struct stat st;
    if (fstat(fd, &st) != 0) return io_failed("look at", path);
    FAC_CHECK(at <= st.st_size && (int64_t)n <= st.st_size - at, FAC_ERR_IO,
              "'%s' ends at byte %lld: it was cut after it was opened", path, (long long)st.st_size);
    out->bytes = n + (size_t)(at - begin);
    out->pages = mmap(NULL, out->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, begin);
    if (out->pages == MAP_FAILED) return io_failed("map", path);
    out->first = (char *)out->pages + (at - begin);
    return FAC_OK;
}

void fac__file_unmap(const fac_file_map *m) { (void)munmap(m->pages, m->bytes); }
