/* A fuzzer's input as the readers take it: a path, or a text with an end. */
#ifndef FAC_TESTS_FUZZ_INPUT_H
#define FAC_TESTS_FUZZ_INPUT_H

#define _GNU_SOURCE /* memfd_create */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Path of a file in memory that holds the input; the same file each time. */
static inline const char *input_path(const uint8_t *data, size_t n) {
    static int fd = -1;
    static char path[32];
    if (fd < 0) {
        fd = memfd_create("input", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, n, 0) != (ssize_t)n) abort();
    return path;
}

/* A copy that ends with a zero byte; free it. */
static inline char *input_text(const uint8_t *data, size_t n) {
    char *text = malloc(n + 1);
    if (!text) abort();
    if (n) memcpy(text, data, n);
    text[n] = '\0';
    return text;
}

#endif
