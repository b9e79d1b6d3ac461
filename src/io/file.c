/* Saving: the bytes go to a temporary file in the same folder, are flushed, and take the old file's name in one step; then
   the folder is flushed, since the new name lives there. A crash at any point leaves the old file or the new one. */
#include "io/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

fac_file_calls fac__file_calls = {write, pwrite, fsync, rename};

static fac_status io_failed(const char *what, const char *path) {
    int code = errno;
    return FAC_FAIL(FAC_ERR_IO, "cannot %s '%s': %s", what, path, strerror(code));
}

/* ---- writing -------------------------------------------------------------------------------------------------- */

fac_status fac__new_file_open(fac_new_file *f, const char *path) {
    static atomic_uint serial;
    *f = (fac_new_file){.fd = -1};
    f->path = fac__strdup(path);
    if (!f->path) return fac_error();
    unsigned number = atomic_fetch_add(&serial, 1);
    f->temporary = fac__format("%s.%ld-%u.tmp", path, (long)getpid(), number);
    if (!f->temporary) return fac_error();
    f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (f->fd >= 0) return FAC_OK;
    fac_status st = io_failed("create", f->temporary);
    fac__free(f->temporary);
    f->temporary = NULL;
    return st;
}

fac_status fac__new_file_write(fac_new_file *f, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    while (n > 0) {
        size_t piece = n < (1u << 30) ? n : 1u << 30;
        ssize_t done = fac__file_calls.write(f->fd, p, piece);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return io_failed("write", f->path);
        f->crc = (uint32_t)crc32_z(f->crc, p, (size_t)done);
        p += done;
        n -= (size_t)done;
    }
    return FAC_OK;
}

fac_status fac__new_file_patch(fac_new_file *f, int64_t at, const void *bytes, size_t n) {
    ssize_t done = fac__file_calls.pwrite(f->fd, bytes, n, at);
    if (done < 0) return io_failed("write", f->path);
    FAC_CHECK((size_t)done == n, FAC_ERR_IO, "cannot write '%s': the disk is full", f->path);
    return FAC_OK;
}

static fac_status flush_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash ? fac__format("%.*s", (int)(slash - path + 1), path) : fac__strdup(".");
    if (!folder) return fac_error();
    fac_status st = FAC_OK;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some file systems cannot flush folders and say EINVAL; there the rename is as safe as it gets. */
    if (fd < 0 || (fac__file_calls.fsync(fd) != 0 && errno != EINVAL)) st = io_failed("flush the folder", folder);
    if (fd >= 0) close(fd);
    fac__free(folder);
    return st;
}

fac_status fac__new_file_commit(fac_new_file *f) {
    if (fac__file_calls.fsync(f->fd) != 0) return io_failed("flush", f->path);
    int closed = close(f->fd);
    f->fd = -1;
    if (closed != 0) return io_failed("close", f->path);
    if (fac__file_calls.rename(f->temporary, f->path) != 0) return io_failed("replace", f->path);
    fac__free(f->temporary);
    f->temporary = NULL;
    return flush_folder(f->path);
}

void fac__new_file_close(fac_new_file *f) {
    if (f->fd >= 0) close(f->fd);
    if (f->temporary) unlink(f->temporary);
    fac__free(f->temporary);
    fac__free(f->path);
    *f = (fac_new_file){.fd = -1};
}

/* ---- reading -------------------------------------------------------------------------------------------------- */

fac_status fac__file_open(const char *path, int *out_fd, int64_t *out_bytes) {
    *out_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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
        ssize_t done = pread(fd, p, n < (1u << 30) ? n : 1u << 30, at);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return io_failed("read", path);
        FAC_CHECK(done > 0, FAC_ERR_IO, "'%s' ends at byte %lld: it was cut while being read", path, (long long)at);
        p += done;
        n -= (size_t)done;
        at += done;
    }
    return FAC_OK;
}
