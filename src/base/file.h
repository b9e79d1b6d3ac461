/* Reading and replacing files: every failure is an error that names the file and says what the system said.

   A file is replaced as a whole: the bytes go to a temporary file in the same folder, are flushed, and take the old file's
   name in one step; then the folder is flushed, since the new name lives there. Whatever happens, and whenever the process
   or the machine dies, the name leads to the old file or to the new one. A writer that is killed leaves its temporary file
   behind, under a name that fac__file_sweep knows again. */
#ifndef FAC_SRC_BASE_FILE_H
#define FAC_SRC_BASE_FILE_H

#include "base/base.h"
#include <sys/types.h>

/* The system calls that can fail while a file is saved. Tests replace them to fail the n-th. */
typedef struct fac_file_calls {
    ssize_t (*write)(int fd, const void *bytes, size_t n);
    ssize_t (*pwrite)(int fd, const void *bytes, size_t n, off_t at);
    int (*fsync)(int fd);
    int (*close)(int fd);
    int (*renameat)(int from_folder, const char *from, int to_folder, const char *to);
} fac_file_calls;
extern fac_file_calls fac__file_calls;

/* A file being written beside the one it will replace. */
typedef struct fac_new_file {
    int fd, folder;   /* -1: not open. All names are taken within the folder, wherever it is moved meanwhile */
    char *path;       /* owned: as the caller calls it */
    const char *name; /* its last part, within path */
    char *temporary;  /* owned: a name in the folder; NULL when there is nothing to remove */
} fac_new_file;
#define FAC_NEW_FILE ((fac_new_file){.fd = -1, .folder = -1})

/* Begins a file that will have this mode, but for the process's umask. */
fac_status fac__new_file_open(fac_new_file *f, const char *path, mode_t mode);
/* The same in a folder that is open already, by a name without one. */
fac_status fac__new_file_open_at(fac_new_file *f, int folder, const char *name, mode_t mode);
fac_status fac__new_file_write(fac_new_file *f, const void *bytes, size_t n);
/* Overwrites bytes that were written before. */
fac_status fac__new_file_patch(fac_new_file *f, int64_t at, const void *bytes, size_t n);
/* Puts the file in place of the old one: flushed, renamed, and the folder flushed. */
fac_status fac__new_file_commit(fac_new_file *f);
/* Removes the temporary file unless it was committed, and frees. Always call it. */
void fac__new_file_close(fac_new_file *f);

/* All of the above for bytes that are there already. */
fac_status fac__file_replace(const char *path, const void *bytes, size_t n);
/* Removes the temporary files of killed writers of `path`. Nobody may be writing to it at this moment. */
fac_status fac__file_sweep(const char *path);

/* Opens a regular file for reading; out_bytes is its length. */
fac_status fac__file_open(const char *path, int *out_fd, int64_t *out_bytes);
/* Reads exactly n bytes at a position; a file that ends before is an error. */
fac_status fac__file_read(int fd, const char *path, int64_t at, void *out, size_t n);

/* Bytes of a file as memory. The file may be closed; what is written into the memory does not reach it. */
typedef struct fac_file_map {
    void *pages;
    size_t bytes; /* of the pages */
    char *first;  /* byte that was asked for */
} fac_file_map;
/* Maps n bytes, not 0, at a position. A file that ends before is an error; one that is cut later kills who reads there. */
fac_status fac__file_map(int fd, const char *path, int64_t at, size_t n, fac_file_map *out);
void fac__file_unmap(const fac_file_map *m);

#endif
