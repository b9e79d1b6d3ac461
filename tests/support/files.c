/* Makes the tests' folder and removes it at exit. */
#define _GNU_SOURCE /* nftw */
#include "files.h"
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

static char folder[64];

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info, (void)type, (void)where;
    return remove(path);
}

static void remove_folder(void) { nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS); }

static void make_folder(void) {
    if (folder[0]) return;
    strcpy(folder, "/tmp/facula-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    atexit(remove_folder);
}

const char *files_path(const char *name) {
    static char paths[16][512];
    static int next;
    make_folder();
    char *path = paths[next++ % 16];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void files_write(const char *path, const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

unsigned char *files_read(const char *path, size_t *out_n) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *out_n = (size_t)ftell(f);
    rewind(f);
    unsigned char *bytes = malloc(*out_n + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *out_n, f), *out_n);
    fclose(f);
    return bytes;
}

int files_count(void) {
    make_folder();
    DIR *d = opendir(folder);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

const char *files_safetensors(const char *header, size_t data_bytes) {
    const size_t length = strlen(header), n = 8 + length + data_bytes;
    unsigned char *bytes = calloc(n, 1);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)length >> 8 * i);
    memcpy(bytes + 8, header, length);
    const char *path = files_path("made.safetensors");
    files_write(path, bytes, n);
    free(bytes);
    return path;
}
