/* A fuzzer's input as a file in memory, since the readers take paths. */
#ifndef FAC_TESTS_FUZZ_INPUT_H
#define FAC_TESTS_FUZZ_INPUT_H

#define _GNU_SOURCE /* memfd_create */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* Path of a file that holds the input; the same file each time. */
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

#endif
