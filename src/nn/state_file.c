/* Lists of named tensors as files, and put together of parts and taken apart. */
#include "io/any_file.h"
#include "nn/module.h"

/* ---- parts ---- */

/* The name behind a prefix, or NULL if it does not begin so. */
static const char *behind(const char *name, const char *prefix) {
    const size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

static fac_status add_with_prefix(fac_state *s, const char *prefix, const fac_named *e) {
    char *name = fac__format("%s%s", prefix, e->name);
    if (!name) return fac_error();
    fac_status st = fac_state_set(s, name, e->tensor);
    fac__free(name);
    return st;
}

fac_status fac_state_add(fac_state *s, const char *prefix, const fac_state *from) {
    if (fac_error()) return fac_error();
    FAC_CHECK(s && prefix && from, FAC_ERR_ARGUMENT, "a list or the prefix is NULL");
    FAC_CHECK(s != from, FAC_ERR_ARGUMENT, "a list cannot be added to itself");
    for (size_t i = 0; i < from->n; i++) FAC_TRY(add_with_prefix(s, prefix, &from->v[i]));
    return FAC_OK;
}

static fac_status take_part(fac_state *part, const fac_state *s, const char *prefix) {
    for (size_t i = 0; i < s->n; i++) {
        const char *name = behind(s->v[i].name, prefix);
        if (name) FAC_TRY(fac_state_set(part, name, s->v[i].tensor));
    }
    return FAC_OK;
}

fac_state *fac_state_part(const fac_state *s, const char *prefix) {
    if (fac_error() || !fac__given(s, "list") || !fac__given(prefix, "prefix")) return NULL;
    fac_state *part = fac_state_new();
    if (part && take_part(part, s, prefix) == FAC_OK) return part;
    fac_state_free(part);
    return NULL;
}

/* ---- files ---- */

fac_status fac__state_write(const fac_state *s, const char *path, const fac_metadata *meta, size_t n_meta) {
    fac_named_tensor *v = fac__alloc_array(s->n ? s->n : 1, sizeof *v);
    if (!v) return fac_error();
    for (size_t i = 0; i < s->n; i++) v[i] = (fac_named_tensor){s->v[i].name, s->v[i].tensor};
    const fac_status st = fac_safetensors_save(path, v, s->n, meta, n_meta);
    fac__free(v);
    return st;
}

fac_status fac_state_save(const fac_state *s, const char *path) {
    if (fac_error() || !fac__given(s, "list to save")) return fac_error();
    for (size_t i = 0; i < s->n; i++)
        FAC_CHECK(s->v[i].tensor, FAC_ERR_ARGUMENT, "'%s' is no tensor and cannot be saved", s->v[i].name);
    return fac__state_write(s, path, NULL, 0);
}

fac_status fac__state_read(fac_safetensors *f, fac_state *s) {
    for (size_t i = 0; i < fac_safetensors_count(f); i++) {
        fac_safetensors_entry e;
        FAC_TRY(fac_safetensors_get(f, i, &e));
        fac_scope scope = fac_scope_begin();
        fac_tensor *t = fac_safetensors_read(f, i);
        fac_status st = t ? fac_state_set(s, e.name, t) : fac_error();
        fac_scope_end(&scope);
        if (st) return st;
    }
    return FAC_OK;
}

/* ---- files of others ----------------------------------------------------------------------------------------------- */

/* All of its tensors; what else it has is left out. */
static fac_status read_tensors(fac_tensor_file *f, fac_state *s) {
    for (size_t i = 0; i < fac_tensor_file_count(f); i++) {
        fac_tensor_file_entry e;
        FAC_TRY(fac_tensor_file_get(f, i, &e));
        if (e.text) continue;
        FAC_SCOPE(scope);
        fac_tensor *t = fac_tensor_file_read(f, i);
        FAC_TRY(t ? fac_state_set(s, e.name, t) : fac_error());
    }
    return FAC_OK;
}

static fac_state *load_tensors(fac_tensor_file *f) {
    fac_state *s = fac_state_new();
    const fac_status st = s ? read_tensors(f, s) : fac_error();
    fac_tensor_file_close(f);
    if (st == FAC_OK) return s;
    fac_state_free(s);
    return NULL;
}

fac_state *fac_state_load(const char *path) {
    fac_tensor_file *other = fac_error() ? NULL : fac__tensor_file_open_any(path);
    if (other) return load_tensors(other);
    fac_safetensors *f = fac_error() ? NULL : fac_safetensors_open(path);
    if (!f) return NULL;
    fac_state *s = fac_state_new();
    fac_status st = s ? fac_safetensors_verify(f) : fac_error();
    if (!st) st = fac__state_read(f, s);
    fac_safetensors_close(f);
    if (!st) return s;
    fac_state_free(s);
    return NULL;
}
