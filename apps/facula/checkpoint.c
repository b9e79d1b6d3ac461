/* Writes and reads the checkpoint of a run folder. */
#include "checkpoint.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- notes ---- */

/* The note of that key; a new one, whose value is NULL, if there is none. NULL without memory. */
static note *find_or_add(notes *n, const char *key) {
    for (size_t i = 0; i < n->n; i++)
        if (strcmp(n->v[i].key, key) == 0) return &n->v[i];
    if (n->n == n->cap) {
        const size_t cap = n->cap ? 2 * n->cap : 64;
        note *v = realloc(n->v, cap * sizeof *v);
        if (!v) return NULL;
        n->v = v;
        n->cap = cap;
    }
    note *new = &n->v[n->n++];
    *new = (note){.value = NULL};
    snprintf(new->key, sizeof new->key, "%s", key);
    return new;
}

void notes_set(notes *n, const char *key, const char *value) {
    char *copy = strdup(value);
    note *at = copy ? find_or_add(n, key) : NULL;
    if (!at) {
        free(copy);
        fac_error_set(FAC_ERR_MEMORY, "no memory for '%s' of a checkpoint", key);
        return;
    }
    free(at->value);
    at->value = copy;
}

void notes_remove(notes *n, const char *key) {
    size_t i = 0;
    while (i < n->n && strcmp(n->v[i].key, key) != 0) i++;
    if (i == n->n) return;
    free(n->v[i].value);
    memmove(&n->v[i], &n->v[i + 1], (--n->n - i) * sizeof *n->v);
}

void notes_set_int(notes *n, const char *key, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    notes_set(n, key, text);
}

void notes_set_double(notes *n, const char *key, double value) {
    char text[40];
    snprintf(text, sizeof text, "%.17g", value);
    notes_set(n, key, text);
}

char *notes_edit(notes *n, const char *key) {
    for (size_t i = 0; i < n->n; i++)
        if (strcmp(n->v[i].key, key) == 0) return n->v[i].value;
    return NULL;
}

const char *notes_get(const notes *n, const char *key) { return notes_edit((notes *)(uintptr_t)n, key); }

static const char *need(const notes *n, const char *key) {
    const char *text = notes_get(n, key);
    if (!text)
        fac_error_set(FAC_ERR_FORMAT, "the checkpoint does not say '%s'; it is not one of a facula training", key);
    return text;
}

int64_t notes_int(const notes *n, const char *key) {
    const char *text = need(n, key);
    char *end = NULL;
    errno = 0;
    const long long v = text ? strtoll(text, &end, 10) : 0;
    if (text && (errno || end == text || *end))
        fac_error_set(FAC_ERR_FORMAT, "'%s' of the checkpoint is '%s', not an integer", key, text);
    return v;
}

double notes_double(const notes *n, const char *key) {
    const char *text = need(n, key);
    char *end = NULL;
    const double v = text ? strtod(text, &end) : 0;
    if (text && (end == text || *end))
        fac_error_set(FAC_ERR_FORMAT, "'%s' of the checkpoint is '%s', not a number", key, text);
    return v;
}

void notes_free(notes *n) {
    for (size_t i = 0; i < n->n; i++) free(n->v[i].value);
    free(n->v);
    *n = (notes){0};
}

/* ---- folders ---- */

fac_status run_path(const char *dir, const char *name, char *buf, size_t size) {
    if (snprintf(buf, size, "%s/%s", dir, name) < (int)size) return FAC_OK;
    return fac_error_set(FAC_ERR_ARGUMENT, "the path '%s/%s' is too long", dir, name);
}

static fac_status make_one(const char *path, size_t *made) {
    struct stat st;
    if (mkdir(path, 0777) == 0) {
        if (!*made) *made = strlen(path);
        return FAC_OK;
    }
    if (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return FAC_OK;
    return fac_error_set(FAC_ERR_IO, "cannot make the folder '%s': %s", path, strerror(errno));
}

fac_status run_make_dir(const char *dir, size_t *made) {
    char part[4096];
    *made = 0;
    if (!dir[0] || strlen(dir) >= sizeof part)
        return fac_error_set(FAC_ERR_ARGUMENT, "'%s' cannot be a folder's path", dir);
    snprintf(part, sizeof part, "%s", dir);
    for (char *p = part + 1; *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        fac_status st = make_one(part, made);
        if (st) return st;
        *p = '/';
    }
    return make_one(part, made);
}

void run_remove_dirs(const char *dir, size_t made) {
    char part[4096];
    const size_t length = strlen(dir);
    memcpy(part, dir, length + 1);
    for (size_t n = length; n >= made && n > 0; n--) {
        if (n < length && dir[n] != '/') continue;
        part[n] = 0;
        if (rmdir(part) != 0 && errno != ENOENT) return;
    }
}

fac_status run_sweep(const char *dir) {
    static const char *const written[] = {CHECKPOINT_NAME, BEST_NAME,    "log.tsv",  "loss.svg",
                                          HELD_OUT_NAME,   COLUMNS_NAME, REPORT_NAME};
    char path[4096];
    fac_status st = FAC_OK;
    for (size_t i = 0; i < sizeof written / sizeof *written && !st; i++) {
        st = run_path(dir, written[i], path, sizeof path);
        if (!st) st = fac_file_sweep(path);
    }
    return st;
}

/* ---- saving ---- */

static void note_generator(notes *n) {
    uint64_t seed, offset;
    fac_generator_get_state(fac_default_generator(), &seed, &offset);
    notes_set_int(n, "generator.seed", (int64_t)seed);
    notes_set_int(n, "generator.offset", (int64_t)offset);
}

static fac_status write_state(const char *path, const fac_state *all, const notes *n) {
    fac_named_tensor *t = malloc((all->n + 1) * sizeof *t);
    fac_metadata *meta = malloc((n->n + 1) * sizeof *meta);
    if (!t || !meta) {
        free(t);
        free(meta);
        return fac_error_set(FAC_ERR_MEMORY, "no memory to save a checkpoint");
    }
    for (size_t i = 0; i < all->n; i++) t[i] = (fac_named_tensor){all->v[i].name, all->v[i].tensor};
    for (size_t i = 0; i < n->n; i++) meta[i] = (fac_metadata){n->v[i].key, n->v[i].value};
    fac_status st = fac_safetensors_save(path, t, all->n, meta, n->n);
    free(t);
    free(meta);
    return st;
}

/* Takes over the state, which may be NULL with an error pending. */
static fac_status add_part(fac_state *all, const char *prefix, fac_state *part) {
    const fac_status st = part ? fac_state_add(all, prefix, part) : fac_error();
    fac_state_free(part);
    return st;
}

fac_status checkpoint_save(const char *dir, const char *name, const checkpoint_parts *p, notes *n) {
    char path[4096];
    fac_state *all = fac_state_new();
    note_generator(n);
    fac_status st = fac_error();
    if (!st) st = run_path(dir, name, path, sizeof path);
    if (!st) st = add_part(all, "model.", fac_module_state_dict(p->model));
    if (!st && p->averaged) st = add_part(all, "ema.", fac_module_state_dict(p->averaged));
    if (!st && p->optimizer) st = add_part(all, "optim.", fac_optimizer_state_dict(p->optimizer));
    if (!st && p->scaler) st = add_part(all, "scaler.", fac_grad_scaler_state_dict(p->scaler));
    if (!st) st = write_state(path, all, n);
    fac_state_free(all);
    return st;
}

/* ---- loading ---- */

fac_safetensors *checkpoint_open(const char *dir) {
    char path[4096];
    struct stat st;
    if (stat(dir, &st) == 0 && S_ISREG(st.st_mode)) return fac_safetensors_open(dir);
    return run_path(dir, CHECKPOINT_NAME, path, sizeof path) ? NULL : fac_safetensors_open(path);
}

fac_status checkpoint_read_notes(const char *dir, notes *out) {
    fac_safetensors *f = checkpoint_open(dir);
    if (!f) return fac_error();
    for (size_t i = 0; i < fac_safetensors_metadata_count(f); i++) {
        fac_metadata m = fac_safetensors_metadata_at(f, i);
        if (strncmp(m.key, "facula.", 7) != 0) notes_set(out, m.key, m.value);
    }
    fac_safetensors_close(f);
    return fac_error();
}

/* Reads the tensors whose names begin with prefix, without it. */
static fac_status read_part(fac_safetensors *f, const char *prefix, fac_state *out) {
    const size_t skip = strlen(prefix);
    for (size_t i = 0; i < fac_safetensors_count(f); i++) {
        fac_safetensors_entry e;
        fac_status st = fac_safetensors_get(f, i, &e);
        if (st || strncmp(e.name, prefix, skip) != 0) {
            if (st) return st;
            continue;
        }
        FAC_SCOPE(s);
        fac_tensor *t = fac_safetensors_read(f, i);
        st = t ? fac_state_set(out, e.name + skip, t) : fac_error();
        if (st) return st;
    }
    return FAC_OK;
}

static bool has_part(fac_safetensors *f, const char *prefix) {
    fac_safetensors_entry e;
    for (size_t i = 0; i < fac_safetensors_count(f); i++)
        if (!fac_safetensors_get(f, i, &e) && strncmp(e.name, prefix, strlen(prefix)) == 0) return true;
    return false;
}

static fac_status load_module(fac_safetensors *f, const char *prefix, fac_module *m) {
    fac_state *s = fac_state_new();
    fac_status st = fac_error();
    if (!st) st = read_part(f, prefix, s);
    if (!st) st = fac_module_load_state_dict(m, s, true);
    fac_state_free(s);
    return st;
}

static fac_status load_optimizer(fac_safetensors *f, fac_optimizer *o) {
    fac_state *s = fac_state_new();
    fac_status st = fac_error();
    if (!st) st = read_part(f, "optim.", s);
    if (!st) st = fac_optimizer_load_state_dict(o, s);
    fac_state_free(s);
    return st;
}

static fac_status load_scaler(fac_safetensors *f, fac_grad_scaler *g) {
    fac_state *s = fac_state_new();
    fac_status st = fac_error();
    if (!st) st = read_part(f, "scaler.", s);
    if (!st) st = fac_grad_scaler_load_state_dict(g, s);
    fac_state_free(s);
    return st;
}

static fac_status load_parts(fac_safetensors *f, const checkpoint_parts *p) {
    fac_status st = fac_safetensors_verify(f);
    if (!st) st = load_module(f, "model.", p->model);
    if (!st && p->averaged && has_part(f, "ema.")) st = load_module(f, "ema.", p->averaged);
    if (!st && p->optimizer) st = load_optimizer(f, p->optimizer);
    if (!st && p->scaler && has_part(f, "scaler.")) st = load_scaler(f, p->scaler);
    return st;
}

static void load_generator(const notes *n) {
    const int64_t seed = notes_int(n, "generator.seed"), offset = notes_int(n, "generator.offset");
    if (!fac_error()) fac_generator_set_state(fac_default_generator(), (uint64_t)seed, (uint64_t)offset);
}

fac_status checkpoint_load(const char *dir, const checkpoint_parts *p) {
    notes n = {0};
    fac_safetensors *f = checkpoint_open(dir);
    fac_status st = f ? load_parts(f, p) : fac_error();
    fac_safetensors_close(f);
    if (!st) st = checkpoint_read_notes(dir, &n);
    if (!st) load_generator(&n);
    notes_free(&n);
    return st ? st : fac_error();
}

fac_status checkpoint_check_matrix(const char *dir, const char *name, int64_t rows, int64_t columns) {
    fac_safetensors *f = checkpoint_open(dir);
    if (!f) return fac_error();
    fac_safetensors_entry e;
    const int64_t i = fac_safetensors_find(f, name);
    const bool there = i >= 0 && !fac_safetensors_get(f, (size_t)i, &e);
    if (!there || e.sizes.n != 2 || e.sizes.v[0] != rows || e.sizes.v[1] != columns)
        fac_error_set(FAC_ERR_FORMAT,
                      "the checkpoint of '%s' has no matrix '%s' of %lld by %lld, which its settings make", dir, name,
                      (long long)rows, (long long)columns);
    fac_safetensors_close(f);
    return fac_error();
}

fac_status checkpoint_load_model(const char *dir, const char *weights, fac_module *model) {
    fac_safetensors *f = checkpoint_open(dir);
    fac_status st = f ? fac_safetensors_verify(f) : fac_error();
    const bool mean = !st && has_part(f, "ema.module.");
    if (!st && strcmp(weights, "ema") == 0 && !mean)
        st = fac_error_set(FAC_ERR_NOT_FOUND, "the run in '%s' kept no mean of the weights: only one with --ema does",
                           dir);
    if (!st) st = load_module(f, mean && strcmp(weights, "last") != 0 ? "ema.module." : "model.", model);
    fac_safetensors_close(f);
    return st;
}
