/* What all files of several tensors share. */
#include "io/tensor_file.h"
#include "base/file.h"
#include "io/any_file.h"
#include "io/zip.h"
#include <unistd.h>

tensor_entry *fac__tensor_file_add(fac_tensor_file *f, const char *name, fac_dtype dtype, const int64_t *sizes,
                                   int ndim) {
    if (FAC_VEC_GROW(&f->entries) != FAC_OK) return NULL;
    tensor_entry *e = &f->entries.v[f->entries.n];
    *e = (tensor_entry){.name = fac__strdup(name), .dtype = dtype, .ndim = ndim};
    e->sizes = e->name ? fac__alloc_array((size_t)ndim, sizeof *e->sizes) : NULL;
    if (!e->sizes) {
        fac__free(e->name);
        return NULL;
    }
    if (ndim) memcpy(e->sizes, sizes, (size_t)ndim * sizeof *sizes);
    f->entries.n++;
    return e;
}

fac_status fac__tensor_file_index(fac_tensor_file *f, const char *path) {
    for (size_t i = 0; i < f->entries.n; i++) {
        tensor_entry *e = &f->entries.v[i];
        FAC_CHECK(!fac__map_get(&f->by_name, e->name), FAC_ERR_FORMAT, "'%s' has two entries '%.100s'", path, e->name);
        FAC_TRY(fac__map_set(&f->by_name, e->name, e));
    }
    return FAC_OK;
}

void fac_tensor_file_close(fac_tensor_file *f) {
    if (!f) return;
    f->close(f);
    for (size_t i = 0; i < f->entries.n; i++) {
        fac__free(f->entries.v[i].name);
        fac__free(f->entries.v[i].text);
        fac__free(f->entries.v[i].sizes);
        fac__free(f->entries.v[i].strides);
    }
    fac__free(f->entries.v);
    fac__map_free(&f->by_name);
    fac__free(f);
}

size_t fac_tensor_file_count(const fac_tensor_file *f) { return fac__given(f, "file") ? f->entries.n : 0; }

fac_status fac_tensor_file_get(const fac_tensor_file *f, size_t i, fac_tensor_file_entry *out) {
    if (!fac__given(f, "file") || !fac__given(out, "place for the entry")) return fac_error();
    FAC_CHECK(i < f->entries.n, FAC_ERR_INDEX, "the file has %zu entries; there is no number %zu", f->entries.n, i);
    const tensor_entry *e = &f->entries.v[i];
    *out = (fac_tensor_file_entry){e->name, e->dtype, {e->sizes, (size_t)e->ndim}, e->text};
    return FAC_OK;
}

int64_t fac_tensor_file_find(const fac_tensor_file *f, const char *name) {
    const tensor_entry *e = fac__given(f, "file") && name ? fac__map_get(&f->by_name, name) : NULL;
    return e ? e - f->entries.v : -1;
}

static const tensor_entry *tensor_at(const fac_tensor_file *f, size_t i) {
    fac_tensor_file_entry e;
    if (fac_error() || fac_tensor_file_get(f, i, &e)) return NULL;
    if (e.text) return FAC_FAIL(FAC_ERR_ARGUMENT, "entry '%.100s' is no tensor, but '%.100s'", e.name, e.text), NULL;
    return &f->entries.v[i];
}

fac_tensor *fac_tensor_file_read(fac_tensor_file *f, size_t i) {
    const tensor_entry *e = tensor_at(f, i);
    return e ? f->read(f, e) : NULL;
}

fac_tensor *fac_tensor_file_map(fac_tensor_file *f, size_t i) {
    const tensor_entry *e = tensor_at(f, i);
    return e ? (f->map ? f->map : f->read)(f, e) : NULL;
}

/* ---- of any kind -------------------------------------------------------------------------------------------------------- */

static fac_status begins_as_zip(const char *path, bool *out) {
    int fd;
    int64_t n;
    char first[4];
    *out = false;
    FAC_TRY(fac__file_open(path, &fd, &n));
    fac_status st = n >= 4 ? fac__file_read(fd, path, 0, first, sizeof first) : FAC_OK;
    if (st == FAC_OK && n >= 4) *out = memcmp(first, "PK\3\4", 4) == 0;
    close(fd);
    return st;
}

static fac_status has_pickle(const char *path, bool *out) {
    fac_zip z;
    const fac_status st = fac__zip_open(&z, path, "a file of tensors");
    *out = false;
    for (size_t i = 0; i < z.members.n && st == FAC_OK; i++) {
        const char *slash = strchr(z.members.v[i].name, '/');
        *out |= slash && strcmp(slash, "/data.pkl") == 0;
    }
    fac__zip_close(&z);
    return st;
}

fac_tensor_file *fac__tensor_file_open_any(const char *path) {
    static const char end[] = ".index.json";
    bool zip, pickle;
    if (!path) return NULL;
    const size_t n = strlen(path), m = sizeof end - 1;
    if (n >= m && strcmp(path + n - m, end) == 0) return fac_safetensors_open_index(path);
    if (begins_as_zip(path, &zip) || !zip || has_pickle(path, &pickle)) return NULL;
    return pickle ? fac_pt_open(path) : fac_npz_open(path);
}
