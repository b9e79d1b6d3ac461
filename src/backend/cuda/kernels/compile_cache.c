/* Results of compilers on disk, by a hash of everything that went in. */
#include "backend/cuda/kernels/compile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Two hashes of FNV's kind with different starts make a key of 128 bits: nobody attacks it, and chance does not hit it. */
typedef struct hash {
    uint64_t a, b;
} hash;

static void add_text(hash *h, const char *text) {
    for (const unsigned char *p = (const unsigned char *)text;; p++) {
        h->a = (h->a ^ *p) * UINT64_C(0x100000001b3);
        h->b = (h->b ^ *p) * UINT64_C(0x100000001b3);
        h->b ^= h->b >> 29;
        if (!*p) return; /* the NUL is part of it: "ab", "c" is not "a", "bc" */
    }
}

static void add_headers(hash *h, const fac_cuda_header *v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        add_text(h, v[i].name);
        add_text(h, v[i].text);
    }
}

void fac__compile_key(const fac_cuda_source *source, const char *compiler, char key[33]) {
    hash h = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x9ae16a3b2f90404f)};
    add_text(&h, compiler);
    add_text(&h, source->name);
    add_text(&h, source->text);
    add_headers(&h, fac__cuda_dialect, fac__cuda_n_dialect);
    add_headers(&h, source->headers, source->n_headers);
    for (size_t i = 0; i < source->n_options; i++) add_text(&h, source->options[i]);
    snprintf(key, 33, "%016llx%016llx", (unsigned long long)h.a, (unsigned long long)h.b);
}

static bool make_folder(const char *path) { return mkdir(path, 0700) == 0 || errno == EEXIST; }

bool fac__compile_cache_path(const char *key, const char *suffix, char *path, size_t size) {
    const char *root = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char folder[3072];
    int n = root && *root   ? snprintf(folder, sizeof folder, "%s", root)
            : home && *home ? snprintf(folder, sizeof folder, "%s/.cache", home)
                            : -1;
    if (n < 0 || (size_t)n >= sizeof folder - 16 || !make_folder(folder)) return false;
    memcpy(folder + n, "/facula", 8);
    if (!make_folder(folder)) return false;
    n = snprintf(path, size, "%s/%s%s", folder, key, suffix);
    return n > 0 && (size_t)n < size;
}

static fac_status read_all(FILE *f, char **out, size_t *out_bytes) {
    if (fseek(f, 0, SEEK_END) != 0) return FAC_OK;
    long size = ftell(f);
    if (size <= 0 || fseek(f, 0, SEEK_SET) != 0) return FAC_OK;
    char *data = fac__alloc((size_t)size);
    if (!data) return fac_error();
    if (fread(data, 1, (size_t)size, f) != (size_t)size) {
        fac__free(data);
        return FAC_OK;
    }
    *out = data;
    *out_bytes = (size_t)size;
    return FAC_OK;
}

fac_status fac__compile_cache_read(const char *path, char **out, size_t *out_bytes) {
    *out = NULL;
    FILE *f = fopen(path, "rb");
    if (!f) return FAC_OK;
    fac_status st = read_all(f, out, out_bytes);
    fclose(f);
    return st;
}

void fac__compile_cache_write(const char *path, const char *data, size_t bytes) {
    char aside[4096];
    int n = snprintf(aside, sizeof aside, "%s.XXXXXX", path);
    if (n < 0 || (size_t)n >= sizeof aside) return;
    int fd = mkstemp(aside);
    if (fd < 0) return;
    FILE *f = fdopen(fd, "wb");
    if (!f) {
        close(fd);
        unlink(aside);
        return;
    }
    bool written = fwrite(data, 1, bytes, f) == bytes;
    if (fclose(f) != 0 || !written || rename(aside, path) != 0) unlink(aside);
}
