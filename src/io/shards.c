/* Sets of safetensors files: an index, which is JSON, names the part that each tensor is in. */
#include "base/file.h"
#include "io/json.h"
#include "io/safetensors_file.h"
#include "io/tensor_file.h"
#include <unistd.h>

enum { MOST_INDEX = 100000000, MOST_PARTS = 4096 };

typedef struct part {
    char *name;              /* owned */
    fac_safetensors *opened; /* owned */
} part;

typedef struct shards_file {
    fac_tensor_file base;
    const char *path; /* the caller's, while it is opened */
    struct parts {
        part *v;
        size_t n, cap;
    } parts;
    fac_map by_name; /* -> index of a part and 1, as a pointer */
} shards_file;

static fac_tensor *read_shard(fac_tensor_file *file, const tensor_entry *e) {
    return fac_safetensors_read(((shards_file *)file)->parts.v[e->part].opened, e->number);
}

static fac_tensor *map_shard(fac_tensor_file *file, const tensor_entry *e) {
    return fac_safetensors_map(((shards_file *)file)->parts.v[e->part].opened, e->number);
}

static void close_shards(fac_tensor_file *file) {
    shards_file *f = (shards_file *)file;
    for (size_t i = 0; i < f->parts.n; i++) {
        fac_safetensors_close(f->parts.v[i].opened);
        fac__free(f->parts.v[i].name);
    }
    fac__free(f->parts.v);
    fac__map_free(&f->by_name);
}

static fac_status bad(const shards_file *f, const char *format, ...) FAC_PRINTF(2, 3);
static fac_status bad(const shards_file *f, const char *format, ...) {
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return FAC_FAIL(FAC_ERR_FORMAT, "'%s' is not an index of safetensors files: %s", f->path, text);
}

/* Only names in the index's own folder: an index must not make other files be opened. */
static fac_status open_part(shards_file *f, const char *name, size_t *out) {
    const size_t known = (size_t)(uintptr_t)fac__map_get(&f->by_name, name);
    *out = known - 1;
    if (known) return FAC_OK;
    if (!name[0] || strchr(name, '/') || strcmp(name, "..") == 0 || strcmp(name, ".") == 0)
        return bad(f, "'%.100s' is no name of a file in its folder", name);
    if (f->parts.n == MOST_PARTS) return bad(f, "it has more than %d parts", MOST_PARTS);
    FAC_TRY(FAC_VEC_GROW(&f->parts));
    part *p = &f->parts.v[f->parts.n];
    *p = (part){.name = fac__strdup(name)};
    if (!p->name) return fac_error();
    *out = f->parts.n++;
    const char *slash = strrchr(f->path, '/');
    char *path = fac__format("%.*s%s", slash ? (int)(slash + 1 - f->path) : 0, f->path, name);
    if (path) p->opened = fac_safetensors_open(path);
    fac__free(path);
    return p->opened ? fac__map_set(&f->by_name, p->name, (void *)(uintptr_t)f->parts.n) : fac_error();
}

static fac_status add_tensor(shards_file *f, const char *name, const json_t *value) {
    if (!json_is_string(value)) return bad(f, "the part of '%.100s' is no text", name);
    size_t i;
    FAC_TRY(open_part(f, json_string_value(value), &i));
    fac_safetensors *opened = f->parts.v[i].opened;
    const int64_t number = fac_safetensors_find(opened, name);
    FAC_CHECK(number >= 0, FAC_ERR_NOT_FOUND, "'%s' says that '%.100s' is in '%s', which has no such tensor", f->path,
              name, f->parts.v[i].name);
    const fac_safetensors_item *item = &opened->items[number];
    tensor_entry *e = fac__tensor_file_add(&f->base, name, item->dtype, item->sizes, item->ndim);
    if (!e) return fac_error();
    e->part = i;
    e->number = (size_t)number;
    return FAC_OK;
}

static fac_status read_index(shards_file *f, const json_t *root) {
    json_t *map = json_object_get(root, "weight_map");
    if (!json_is_object(map)) return bad(f, "it has no weight_map");
    const char *name;
    json_t *value;
    json_object_foreach(map, name, value) FAC_TRY(add_tensor(f, name, value));
    return fac__tensor_file_index(&f->base, f->path);
}

static fac_status read_text(const char *path, char **out, size_t *out_n) {
    int fd;
    int64_t bytes;
    FAC_TRY(fac__file_open(path, &fd, &bytes));
    fac_status st = FAC_OK;
    if (bytes > MOST_INDEX)
        st = FAC_FAIL(FAC_ERR_FORMAT, "'%s' is not an index of safetensors files: it has %lld bytes", path,
                      (long long)bytes);
    char *text = st ? NULL : fac__alloc((size_t)bytes);
    if (text) st = fac__file_read(fd, path, 0, text, (size_t)bytes);
    close(fd);
    if (st) fac__free(text);
    *out = st ? NULL : text;
    *out_n = (size_t)bytes;
    return fac_error();
}

static fac_status open_index(shards_file *f) {
    char *text;
    size_t n;
    json_error_t error;
    FAC_TRY(read_text(f->path, &text, &n));
    json_t *root = fac__json_parse(text, n, &error);
    fac__free(text);
    if (!root) return bad(f, "%.200s", error.text);
    const fac_status st = read_index(f, root);
    json_decref(root);
    return st;
}

fac_tensor_file *fac_safetensors_open_index(const char *path) {
    if (fac_error() || !fac__given(path, "path to read")) return NULL;
    shards_file *f = fac__alloc_zero(sizeof *f);
    if (!f) return NULL;
    f->base.read = read_shard;
    f->base.map = map_shard;
    f->base.close = close_shards;
    f->path = path;
    if (open_index(f) == FAC_OK) return &f->base;
    fac_tensor_file_close(&f->base);
    return NULL;
}
