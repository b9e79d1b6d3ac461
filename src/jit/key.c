/* Digests all that decides what a compiler makes: sources, options, compiler, and this library itself. */
#define _GNU_SOURCE 1 /* dl_iterate_phdr, dladdr */
#include "jit/key.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <sys/stat.h>

/* The digest of parts, told apart by their lengths: "ab", "c" is not "a", "bc". */
static void add_part(fac_sha256 *h, const void *bytes, size_t n) {
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)n >> 8 * i);
    fac__sha256_add(h, length, sizeof length);
    fac__sha256_add(h, bytes, n);
}

static void add_text(fac_sha256 *h, const char *text) { add_part(h, text, strlen(text)); }

static void add_count(fac_sha256 *h, size_t n) { add_part(h, &n, sizeof n); }

void fac__jit_file_identity(const char *path, char *out, size_t size) {
    struct stat s;
    out[0] = 0;
    if (stat(path, &s) != 0) return;
    snprintf(out, size, "%lld bytes, %lld.%09ld, %llu:%llu", (long long)s.st_size, (long long)s.st_mtim.tv_sec,
             (long)s.st_mtim.tv_nsec, (unsigned long long)s.st_dev, (unsigned long long)s.st_ino);
}

/* ---- this build --------------------------------------------------------------------------------------------------- */

typedef struct build_search {
    char *out;
    size_t size;
} build_search;

static bool holds(const struct dl_phdr_info *o, uintptr_t address) {
    for (int i = 0; i < o->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &o->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && address - (o->dlpi_addr + p->p_vaddr) < p->p_memsz) return true;
    }
    return false;
}

/* A note is three words (lengths of name and description, type), the name and the description, each filled up to words. */
static void read_notes(const char *p, size_t n, const build_search *s) {
    while (n >= 12) {
        uint32_t word[3];
        memcpy(word, p, sizeof word);
        const size_t name = (word[0] + 3u) & ~3u, text = (word[1] + 3u) & ~3u;
        if (name > n - 12 || text > n - 12 - name) return;
        if (word[2] == NT_GNU_BUILD_ID && word[0] == 4 && memcmp(p + 12, "GNU", 4) == 0)
            for (size_t i = 0; i < word[1] && 2 * i + 3 <= s->size; i++)
                snprintf(s->out + 2 * i, 3, "%02x", (unsigned char)p[12 + name + i]);
        p += 12 + name + text;
        n -= 12 + name + text;
    }
}

static int visit(struct dl_phdr_info *o, size_t size, void *context) {
    (void)size;
    if (!holds(o, (uintptr_t)&fac__jit_build_id)) return 0;
    for (int i = 0; i < o->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &o->dlpi_phdr[i];
        if (p->p_type == PT_NOTE) read_notes((const char *)o->dlpi_addr + p->p_vaddr, p->p_memsz, context);
    }
    return 1;
}

void fac__jit_build_id(char *out, size_t size) {
    Dl_info own;
    out[0] = 0;
    dl_iterate_phdr(visit, &(build_search){out, size});
    if (out[0] || !dladdr((void *)(uintptr_t)&fac__jit_build_id, &own) || !own.dli_fname) return;
    fac__jit_file_identity(own.dli_fname, out, size);
}

/* ---- keys ---------------------------------------------------------------------------------------------------------- */

static void add_texts(fac_sha256 *h, const fac_jit_text *v, size_t n) {
    add_count(h, n);
    for (size_t i = 0; i < n; i++) {
        add_text(h, v[i].name);
        add_text(h, v[i].text);
    }
}

static void add_inputs(fac_sha256 *h, const char *const *v, size_t n) {
    char identity[160];
    add_count(h, n);
    for (size_t i = 0; i < n; i++) {
        fac__jit_file_identity(v[i], identity, sizeof identity);
        add_text(h, v[i]);
        add_text(h, identity);
    }
}

void fac__jit_key_of(const fac_jit_source *s, const char *compiler, fac_jit_key *out) {
    fac_sha256 h;
    char build[160];
    fac__jit_build_id(build, sizeof build);
    fac__sha256_begin(&h);
    add_text(&h, build);
    add_text(&h, compiler);
    add_text(&h, s->name);
    add_text(&h, s->text);
    add_texts(&h, s->headers, s->n_headers);
    add_count(&h, s->n_options);
    for (size_t i = 0; i < s->n_options; i++) add_text(&h, s->options[i]);
    add_inputs(&h, s->inputs, s->n_inputs);
    fac__sha256_end(&h, out->bytes);
    for (size_t i = 0; i < sizeof out->bytes; i++) snprintf(out->text + 2 * i, 3, "%02x", out->bytes[i]);
}
