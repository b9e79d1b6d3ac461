/* Files for tests, in a folder that is made for the test program and removed at its end. */
#ifndef FAC_TESTS_FILES_H
#define FAC_TESTS_FILES_H

#include <stddef.h>

/* A path in the folder; good until the sixteenth next call. */
const char *files_path(const char *name);
void files_write(const char *path, const void *bytes, size_t n);
/* Writes a safetensors file of this header and so many zeros, and returns its path. */
const char *files_safetensors(const char *header, size_t data_bytes);
/* The bytes of a file, to be freed with free(). */
unsigned char *files_read(const char *path, size_t *out_n);
/* Number of entries in the folder, hidden ones aside. */
int files_count(void);

#endif
