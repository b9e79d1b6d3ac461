/* Boxed values. Tensors and generators bring counts of their own; strings, lists, complex numbers and objects are one
   counted block each, which copies of the value share and nobody changes.

   A tensor is held by its handle, since users read and copy values; its reference counts as one that the user keeps. The
   block of a list has the handles and, behind them, the headers. */
#include "dispatch/value.h"
#include "core/handle.h"

/* The block behind a pointer payload. */
typedef struct block {
    atomic_int refs;
    size_t n;     /* elements, or bytes of a string */
    size_t bytes; /* of the whole block */
    void *object; /* of an object: the user's pointer and how to let go of it */
    void (*release)(void *object);
    _Alignas(16) char data[];
} block;

static block *block_of(fac_value v) { return (block *)(intptr_t)v.payload; }
static void *data_of(fac_value v) { return block_of(v)->data; }
static fac_value make(int64_t tag, int64_t payload) { return (fac_value){payload, tag}; }
static fac_value make_pointer(int64_t tag, const void *p) { return make(tag, (int64_t)(intptr_t)p); }

static bool has_block(int64_t tag) {
    return tag == FAC_TAG_COMPLEX || tag == FAC_TAG_STRING || (tag >= FAC_TAG_INTS && tag <= FAC_TAG_SCALARS) ||
           tag == FAC_TAG_OBJECT;
}

bool fac__value_is_counted(const fac_value *v) { return v->tag == FAC_TAG_GENERATOR || has_block(v->tag); }

/* A block for n elements, not filled; NULL with an error pending. */
static block *block_new(size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || __builtin_add_overflow(bytes, sizeof(block), &bytes)) {
        FAC_FAIL(FAC_ERR_OVERFLOW, "a list of %zu elements of %zu bytes does not fit the address space", n, size);
        return NULL;
    }
    fac_thread *th = fac__thread();
    block *b = fac__block_new(th, bytes);
    if (!b) return NULL;
    *b = (block){.n = n, .bytes = bytes};
    atomic_init(&b->refs, 1);
    fac__count(&th->live, 1);
    return b;
}

static fac_value make_block(int64_t tag, const void *data, size_t n, size_t size) {
    block *b = block_new(n, size);
    if (!b) return fac_value_none();
    if (n) memcpy(b->data, data, n * size);
    return make_pointer(tag, b);
}

/* ---- makers ------------------------------------------------------------------------------------------------------ */

fac_value fac_value_none(void) { return make(FAC_TAG_NONE, 0); }

fac_value fac_value_tensor(fac_tensor *t) {
    FAC_OPEN_OPTIONAL(t, "fac_value_tensor", "t", fac_value_none());
    return fac__value_tensor(t);
}

fac_value fac__value_tensor(fac_tensor *header) { return fac__value_owned_tensor(fac__ref(header)); }

fac_value fac__value_owned_tensor(fac_tensor *owned) {
    if (!owned) return fac_value_none();
    fac__count_kept(owned);
    return make_pointer(FAC_TAG_TENSOR, fac__handle(owned));
}

fac_value fac_value_int(int64_t x) { return make(FAC_TAG_INT, x); }
fac_value fac_value_bool(bool x) { return make(FAC_TAG_BOOL, x); }
fac_value fac_value_dtype(fac_dtype d) { return make(FAC_TAG_DTYPE, (int64_t)d); }
fac_value fac_value_layout(fac_layout l) { return make(FAC_TAG_LAYOUT, (int64_t)l); }
fac_value fac_value_format(fac_memory_format f) { return make(FAC_TAG_FORMAT, (int64_t)f); }

fac_value fac_value_float(double x) {
    fac_value v = {0, FAC_TAG_FLOAT};
    memcpy(&v.payload, &x, sizeof x);
    return v;
}

fac_value fac_value_complex(double re, double im) {
    const double re_im[2] = {re, im};
    return make_block(FAC_TAG_COMPLEX, re_im, 2, sizeof(double));
}

fac_value fac_value_scalar(fac_scalar x) {
    switch (x.kind) {
    case FAC_KIND_NONE: return fac_value_none();
    case FAC_KIND_BOOL: return fac_value_bool(x.bits != 0);
    case FAC_KIND_INT: return fac_value_int(x.bits);
    case FAC_KIND_FLOAT: return make(FAC_TAG_FLOAT, x.bits);
    case FAC_KIND_COMPLEX: return make_block(FAC_TAG_COMPLEX, (const void *)(intptr_t)x.bits, 2, sizeof(double));
    default:
        FAC_FAIL(FAC_ERR_ARGUMENT, "a scalar of unknown kind %lld; make scalars with FAC_SCALAR", (long long)x.kind);
        return fac_value_none();
    }
}

fac_value fac_value_string(const char *s) {
    return s ? make_block(FAC_TAG_STRING, s, strlen(s) + 1, 1) : fac_value_none();
}

/* A list of numbers that lie in an array of the caller's. */
static fac_value make_numbers(int64_t tag, const void *v, size_t n, size_t size) {
    return fac__list_given(v, n, "numbers") ? make_block(tag, v, n, size) : fac_value_none();
}

fac_value fac_value_ints(const int64_t *v, size_t n) { return make_numbers(FAC_TAG_INTS, v, n, sizeof *v); }
fac_value fac_value_floats(const double *v, size_t n) { return make_numbers(FAC_TAG_FLOATS, v, n, sizeof *v); }

/* Held as integers, so that a list of bools reads as one of integers too. */
fac_value fac_value_bools(const bool *v, size_t n) {
    if (!fac__list_given(v, n, "bools")) return fac_value_none();
    block *b = block_new(n, sizeof(int64_t));
    if (!b) return fac_value_none();
    int64_t *to = (int64_t *)(void *)b->data;
    for (size_t i = 0; i < n; i++) to[i] = v[i];
    return make_pointer(FAC_TAG_BOOLS, b);
}

/* Complex entries point at doubles that follow the list in the same block. */
fac_value fac_value_scalars(const fac_scalar *v, size_t n) {
    if (!fac__list_given(v, n, "scalars")) return fac_value_none();
    block *b = block_new(n, sizeof(fac_scalar) + 2 * sizeof(double));
    if (!b) return fac_value_none();
    fac_scalar *to = (fac_scalar *)(void *)b->data;
    double *parts = (double *)(void *)(to + n);
    for (size_t i = 0; i < n; i++, parts += 2) {
        to[i] = v[i];
        if (v[i].kind != FAC_KIND_COMPLEX) continue;
        memcpy(parts, (const void *)(intptr_t)v[i].bits, 2 * sizeof(double));
        to[i].bits = (int64_t)(intptr_t)parts;
    }
    return make_pointer(FAC_TAG_SCALARS, b);
}

fac_value fac_value_tensors(fac_tensor *const *v, size_t n) {
    fac_handle_list open;
    fac_value list = fac_value_none();
    if (fac__open_list(&open, (fac_tensors){v, n}, true, "fac_value_tensors", "v") == FAC_OK)
        list = fac__value_tensors(open.v, n);
    fac__handle_list_free(&open);
    return list;
}

/* Takes the references, unless it fails. */
static fac_value make_list(fac_tensor *const *headers, size_t n) {
    block *b = block_new(n, 2 * sizeof *headers);
    if (!b) return fac_value_none();
    fac_tensor **to = (fac_tensor **)(void *)b->data;
    for (size_t i = 0; i < n; i++) {
        to[i] = fac__handle(headers[i]);
        to[n + i] = headers[i];
    }
    return make_pointer(FAC_TAG_TENSORS, b);
}

fac_value fac__value_tensors(fac_tensor *const *headers, size_t n) {
    fac_value list = make_list(headers, n);
    for (size_t i = 0; list.tag != FAC_TAG_NONE && i < n; i++) fac__ref(headers[i]);
    return list;
}

fac_value fac__value_owned_tensors(fac_tensor **v, size_t n) {
    fac_value list = make_list(v, n);
    for (size_t i = 0; list.tag == FAC_TAG_NONE && i < n; i++) fac__unref(v[i]);
    fac__free(v);
    return list;
}

fac_tensors fac__value_headers(const fac_value *v) {
    if (v->tag != FAC_TAG_TENSORS) return (fac_tensors){NULL, 0};
    size_t n = block_of(*v)->n;
    return (fac_tensors){(fac_tensor **)data_of(*v) + n, n};
}

fac_tensor *fac__value_header(const fac_value *v) {
    return v->tag == FAC_TAG_TENSOR ? fac__header((const fac_tensor *)(intptr_t)v->payload) : NULL;
}

/* The header of a value that holds a tensor; NULL, with an error, if the value's reference was released. */
static fac_tensor *open_value(fac_value v, const char *function) {
    return fac__open((const fac_tensor *)(intptr_t)v.payload, function, "v");
}

fac_value fac_value_device(fac_device d) {
    return make(FAC_TAG_DEVICE, (int64_t)(((uint64_t)(uint32_t)d.index_plus << 32) | (uint32_t)d.type));
}

fac_value fac_value_generator(fac_generator *g) {
    return g ? make_pointer(FAC_TAG_GENERATOR, fac_generator_keep(g)) : fac_value_none();
}

fac_value fac_value_object(void *object, void (*release)(void *object)) {
    block *b = block_new(0, 1);
    if (!b) {
        if (release) release(object);
        return fac_value_none();
    }
    b->object = object;
    b->release = release;
    return make_pointer(FAC_TAG_OBJECT, b);
}

/* ---- references -------------------------------------------------------------------------------------------------- */

fac_value fac_value_copy(fac_value v) {
    if (v.tag == FAC_TAG_TENSOR) return fac__value_tensor(open_value(v, "fac_value_copy"));
    if (v.tag == FAC_TAG_GENERATOR)
        fac_generator_keep((fac_generator *)(intptr_t)v.payload);
    else if (has_block(v.tag))
        atomic_fetch_add_explicit(&block_of(v)->refs, 1, memory_order_relaxed);
    return v;
}

static void release_block(fac_value v) {
    block *b = block_of(v);
    if (!fac__last_ref(&b->refs)) return;
    if (v.tag == FAC_TAG_TENSORS) {
        fac_tensors headers = fac__value_headers(&v);
        for (size_t i = 0; i < headers.n; i++) fac__unref(headers.v[i]);
    }
    if (b->release) FAC_CALLBACK(b->release(b->object));
    fac__block_free(b, b->bytes);
    fac__live_add(-1);
}

static void release_tensor(fac_value v) {
    fac_tensor *t = open_value(v, "fac_value_release");
    if (!t) return;
    if (fac__unkeep(t)) {
        fac__unref(t);
    } else if (!fac_error()) {
        FAC_FAIL(FAC_ERR_STATE, "the value's reference was released already, through a copy of the value");
        fac__error_context("fac_value_release", "v");
    }
}

void fac_value_release(fac_value *v) {
    if (!v) return;
    fac_value old = *v;
    *v = fac_value_none();
    if (old.tag == FAC_TAG_TENSOR)
        release_tensor(old);
    else if (old.tag == FAC_TAG_GENERATOR)
        fac_generator_release((fac_generator *)(intptr_t)old.payload);
    else if (has_block(old.tag))
        release_block(old);
}

/* ---- readers ----------------------------------------------------------------------------------------------------- */

const char *fac__tag_name(int64_t tag) {
    static const char *const names[] = {"None",       "Tensor", "int",     "float",        "bool",      "complex",
                                        "str",        "int[]",  "float[]", "bool[]",       "Tensor[]",  "Scalar[]",
                                        "ScalarType", "Device", "Layout",  "MemoryFormat", "Generator", "Object"};
    return tag >= 0 && (size_t)tag < FAC_COUNT(names) ? names[tag] : "a value with a broken tag";
}

/* True if v has the tag; else an error, unless v is NONE and that reads as "nothing". */
static bool is(fac_value v, int64_t tag, bool none_is_null) {
    if (FAC_LIKELY(v.tag == tag)) return true;
    if (v.tag == FAC_TAG_NONE && none_is_null) return false;
    FAC_FAIL(FAC_ERR_ARGUMENT, "a value that holds %s was read as %s", fac__tag_name(v.tag), fac__tag_name(tag));
    return false;
}

fac_tensor *fac_value_as_tensor(fac_value v) {
    return is(v, FAC_TAG_TENSOR, true) ? (fac_tensor *)(intptr_t)v.payload : NULL;
}

int64_t fac_value_as_int(fac_value v) { return is(v, FAC_TAG_INT, false) ? v.payload : 0; }
bool fac_value_as_bool(fac_value v) { return is(v, FAC_TAG_BOOL, false) && v.payload; }

double fac_value_as_float(fac_value v) {
    if (v.tag == FAC_TAG_INT || v.tag == FAC_TAG_BOOL) return (double)v.payload;
    double x = 0;
    if (is(v, FAC_TAG_FLOAT, false)) memcpy(&x, &v.payload, sizeof x);
    return x;
}

fac_scalar fac_value_as_scalar(fac_value v) {
    switch (v.tag) {
    case FAC_TAG_BOOL: return (fac_scalar){v.payload, FAC_KIND_BOOL};
    case FAC_TAG_INT: return (fac_scalar){v.payload, FAC_KIND_INT};
    case FAC_TAG_FLOAT: return (fac_scalar){v.payload, FAC_KIND_FLOAT};
    case FAC_TAG_COMPLEX: return fac_scalar_c_(data_of(v));
    default:
        FAC_FAIL(FAC_ERR_ARGUMENT, "a value that holds %s was read as a Scalar", fac__tag_name(v.tag));
        return (fac_scalar){0, FAC_KIND_NONE};
    }
}

const char *fac_value_as_string(fac_value v) { return is(v, FAC_TAG_STRING, true) ? data_of(v) : NULL; }

fac_ints fac_value_as_ints(fac_value v) {
    if (v.tag != FAC_TAG_BOOLS && !is(v, FAC_TAG_INTS, true)) return (fac_ints){NULL, 0};
    return (fac_ints){data_of(v), block_of(v)->n};
}

fac_floats fac_value_as_floats(fac_value v) {
    if (!is(v, FAC_TAG_FLOATS, true)) return (fac_floats){NULL, 0};
    return (fac_floats){data_of(v), block_of(v)->n};
}

fac_tensors fac_value_as_tensors(fac_value v) {
    if (!is(v, FAC_TAG_TENSORS, true)) return (fac_tensors){NULL, 0};
    return (fac_tensors){data_of(v), block_of(v)->n};
}

const fac_scalar *fac_value_as_scalars(fac_value v, size_t *out_n) {
    if (out_n) *out_n = 0;
    if (!is(v, FAC_TAG_SCALARS, true)) return NULL;
    if (out_n) *out_n = block_of(v)->n;
    return data_of(v);
}

fac_dtype fac_value_as_dtype(fac_value v) {
    return is(v, FAC_TAG_DTYPE, true) ? (fac_dtype)v.payload : FAC_DTYPE_DEFAULT;
}
fac_layout fac_value_as_layout(fac_value v) {
    return is(v, FAC_TAG_LAYOUT, true) ? (fac_layout)v.payload : FAC_STRIDED;
}

fac_memory_format fac_value_as_format(fac_value v) {
    return is(v, FAC_TAG_FORMAT, true) ? (fac_memory_format)v.payload : FAC_FORMAT_DEFAULT;
}

fac_device fac_value_as_device(fac_value v) {
    if (!is(v, FAC_TAG_DEVICE, true)) return (fac_device){0, 0};
    return (fac_device){(int32_t)(uint32_t)v.payload, (int32_t)((uint64_t)v.payload >> 32)};
}

fac_generator *fac_value_as_generator(fac_value v) {
    return is(v, FAC_TAG_GENERATOR, true) ? (fac_generator *)(intptr_t)v.payload : NULL;
}

void *fac_value_as_object(fac_value v) { return is(v, FAC_TAG_OBJECT, true) ? block_of(v)->object : NULL; }
