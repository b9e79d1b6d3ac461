/* fuzz_NAME FOLDER: the main of a fuzzer where there is no libFuzzer. Each file of the folder goes in as it is, cut off after
   each byte, and with each bit turned over. Large files are cut and turned at random places only. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MOST_BYTES = 1 << 20, WHOLE = 512 };

static unsigned long runs;

/* In a block of its own size, so that AddressSanitizer sees a step outside. */
static void one(const uint8_t *data, size_t n) {
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy) abort();
    if (n) memcpy(copy, data, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
    runs++;
}

static void around(uint8_t *data, size_t n) {
    size_t step = n / WHOLE + 1;
    one(data, n);
    for (size_t i = 0; i < n; i += step) one(data, i);
    for (size_t i = 0; i < n * 8; i += step) {
        data[i / 8] ^= (uint8_t)(1u << i % 8);
        one(data, n);
        data[i / 8] ^= (uint8_t)(1u << i % 8);
    }
}

static bool file(const char *path) {
    static uint8_t data[MOST_BYTES];
    FILE *f = fopen(path, "rb");
    if (!f) return perror(path), false;
    size_t n = fread(data, 1, sizeof data, f);
    fclose(f);
    around(data, n);
    return true;
}

static int count_files(const char *folder) {
    struct dirent **names;
    int n = scandir(folder, &names, NULL, alphasort), files = 0;
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (names[i]->d_name[0] != '.') files += file(path);
        free(names[i]);
    }
    if (n >= 0) free(names);
    return files;
}

int main(int argc, char **argv) {
    int files = argc == 2 ? count_files(argv[1]) : 0;
    printf("%d files, %lu runs\n", files, runs);
    return files == 0; /* a corpus that is not there is no success */
}
