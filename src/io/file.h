/* Reading and replacing files: every failure is an error that names the file and says what the system said. */
#ifndef FAC_SRC_IO_FILE_H
#define FAC_SRC_IO_FILE_H

#include "base/base.h"
#include <sys/types.h>

/* The system calls that can fail while a file is saved. Tests replace them to fail the n-th. */
typedef struct fac_file_calls {
    ssize_t (*write)(int fd, const void *bytes, size_t n);
    ssize_t (*pwrite)(int fd, const void *bytes, size_t n, off_t at);
    int (*fsync)(int fd);
    int (*rename)(const char *from, const char *to);
} fac_file_calls;
extern fac_file_calls fac__file_calls;

/* A file being written beside the one it will replace. Zero-initialise. */
typedef struct fac_new_file {
    int fd;
    char *path, *temporary; /* owned; temporary is NULL when there is nothing to remove */
    uint32_t crc;           /* CRC-32 of what fac__new_file_write has written */
} fac_new_file;

fac_status fac__new_file_open(fac_new_file *f, const char *path);
fac_status fac__new_file_write(fac_new_file *f, const void *bytes, size_t n);
/* Overwrites bytes that were written before; the checksum stays as it is. */
fac_status fac__new_file_patch(fac_new_file *f, int64_t at, const void *bytes, size_t n);
/* Puts the file in place of the old one: flushed, renamed, and the folder flushed. */
fac_status fac__new_file_commit(fac_new_file *f);
/* Removes the temporary file unless it was committed, and frees. Always call it. */
void fac__new_file_close(fac_new_file *f);

/* Opens a regular file for reading; out_bytes is its length. */
fac_status fac__file_open(const char *path, int *out_fd, int64_t *out_bytes);
/* Reads exactly n bytes at a position; a file that ends before is an error. */
fac_status fac__file_read(int fd, const char *path, int64_t at, void *out, size_t n);

#endif
