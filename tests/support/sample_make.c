/* Calls to boxed arguments. */
#include "core/scalar.h"
#include "sample.h"

#include "dispatch/operator.h"
#include <facula/facula.h>

#include <math.h>
#include <stdlib.h>

/* ---- elements ---------------------------------------------------------------------------------------------------- */

/* Small numbers that differ: floats in (0, 1), integers below 3. */
static double small_number(fac_dtype d, int64_t i) {
    if (d == FAC_BOOL) return (double)(i % 2);
    if (fac_dtype_is_integral(d, true)) return (double)(i % 3);
    return 0.05 + 0.9 * fmod(0.618034 * (double)(i + 1), 1.0);
}

static void fill(char *p, const sample_tensor *t, int64_t n) {
    size_t item = fac_dtype_size(t->dtype);
    for (int64_t i = 0; i < n; i++) {
        double x = t->n_elements ? t->elements[i % t->n_elements] : small_number(t->dtype, i);
        double pair[2] = {x, 0.5 * x};
        fac_scalar s = fac_dtype_is_complex(t->dtype) ? fac_scalar_c_(pair) : fac_scalar_f_(x);
        fac__store(p + (size_t)i * item, t->dtype, s);
    }
}

/* Elements from the storage's start to the last that the tensor reaches; false if they cannot be had. */
static bool extent(const sample_tensor *t, int64_t *out) {
    int64_t last = t->offset, step;
    *out = 0;
    for (int d = 0; d < t->ndim; d++)
        if (t->sizes[d] == 0) return true;
    for (int d = 0; d < t->ndim; d++)
        if (t->sizes[d] < 0 || __builtin_mul_overflow(t->sizes[d] - 1, t->strides[d], &step) ||
            __builtin_add_overflow(last, step, &last))
            return false;
    if (last < 0 || last >= 1 << 24) return false;
    *out = last + 1;
    return true;
}

/* ---- tensors ------------------------------------------------------------------------------------------------------ */

static fac_device device_of(sample_place p, fac_device here) {
    switch (p) {
    case SAMPLE_HERE: return here;
    case SAMPLE_META: return fac_device_make(FAC_META, -1);
    case SAMPLE_NEXT: return here.type == FAC_CUDA ? fac_device_make(FAC_CUDA, here.index_plus % 2) : here;
    default: return fac_device_make(FAC_CPU, -1);
    }
}

/* Calls an operator with one result, a tensor; takes the arguments. */
static fac_status one_result(const char *op, fac_value *args, size_t n, fac_value *out) {
    *out = fac_value_none();
    fac_status st = fac_error();
    if (st == FAC_OK) st = fac_call(op, args, n, out);
    for (size_t i = 0; i < n; i++) fac_value_release(&args[i]);
    return st;
}

static fac_status meta_tensor(const sample_tensor *t, fac_value *out) {
    fac_value args[] = {fac_value_ints(t->sizes, (size_t)t->ndim),
                        fac_value_ints(t->strides, (size_t)t->ndim),
                        fac_value_dtype(t->dtype),
                        fac_value_none(),
                        fac_value_device(fac_device_make(FAC_META, -1)),
                        fac_value_none()};
    return one_result("aten::empty_strided", args, FAC_COUNT(args), out);
}

/* A row-major tensor of its own: the library's memory, which an operator may resize. */
static fac_status plain_tensor(const sample_tensor *t, fac_value *out) {
    int64_t n;
    FAC_CHECK(fac__numel(t->sizes, t->ndim, &n) && n < (1 << 24), FAC_ERR_MEMORY, "too many elements for a sample");
    FAC_SCOPE(s);
    char *data = calloc((size_t)n + 1, 16);
    FAC_CHECK(data, FAC_ERR_MEMORY, "no memory for a sample");
    fill(data, t, n);
    *out = fac_value_tensor(fac_tensor_from(data, t->dtype, (fac_ints){t->sizes, (size_t)t->ndim}));
    free(data);
    return fac_error();
}

static void free_block(void *block) { free(block); }

/* A tensor over a block of its own that ends where the last element does. */
static fac_status strided_tensor(const sample_tensor *t, fac_value *out) {
    int64_t n;
    FAC_CHECK(extent(t, &n), FAC_ERR_MEMORY, "too many elements for a sample");
    FAC_SCOPE(s);
    size_t bytes = (size_t)n * fac_dtype_size(t->dtype);
    void *block = NULL;
    FAC_CHECK(posix_memalign(&block, 64, bytes) == 0, FAC_ERR_MEMORY, "no memory for a sample");
    fill(block, t, n);
    fac_tensor *made = fac_tensor_wrap(block, bytes, t->dtype, (fac_ints){t->sizes, (size_t)t->ndim},
                                       (fac_ints){t->strides, (size_t)t->ndim}, n ? t->offset : 0, free_block, block);
    *out = fac_value_tensor(made);
    if (!made) free(block);
    return fac_error();
}

static fac_status view_of(fac_value base, const sample_tensor *t, fac_value *out) {
    fac_value args[] = {fac_value_copy(base), fac_value_ints(t->sizes, (size_t)t->ndim),
                        fac_value_ints(t->strides, (size_t)t->ndim), fac_value_int(t->offset)};
    return one_result("aten::as_strided", args, FAC_COUNT(args), out);
}

static fac_status moved(fac_value *t, fac_dtype dtype, fac_device device) {
    fac_value args[] = {*t, fac_value_device(device), fac_value_dtype(dtype)};
    return one_result("aten::to.device", args, FAC_COUNT(args), t);
}

/* On a device with memory of its own: what the tensor reaches of its storage is copied there, then viewed. */
static fac_status device_tensor(const sample_tensor *t, fac_device device, fac_value *out) {
    sample_tensor storage = {.dtype = t->dtype, .ndim = 1, .n_elements = t->n_elements};
    memcpy(storage.elements, t->elements, sizeof storage.elements);
    FAC_CHECK(extent(t, &storage.sizes[0]), FAC_ERR_MEMORY, "too many elements for a sample");
    if (!t->strided && !t->offset) {
        FAC_TRY(plain_tensor(t, out));
        return moved(out, t->dtype, device);
    }
    FAC_TRY(plain_tensor(&storage, out));
    FAC_TRY(moved(out, t->dtype, device));
    fac_value flat = *out;
    fac_status st = view_of(flat, t, out);
    fac_value_release(&flat);
    return st;
}

static fac_status fresh_tensor(const sample_tensor *t, fac_device device, fac_value *out);

/* Quantized by one scale and zero point: small numbers have codes that differ. */
static fac_status quantized_tensor(const sample_tensor *t, fac_device device, fac_value *out) {
    sample_tensor numbers = *t;
    numbers.dtype = FAC_F32;
    FAC_TRY(fresh_tensor(&numbers, device, out));
    if (t->flags & SAMPLE_CHANNELS && t->ndim) {
        sample_tensor scales = {.dtype = FAC_F64, .ndim = 1, .sizes = {t->sizes[0]}, .strides = {1}}, zeros = scales;
        zeros.dtype = FAC_I64;
        fac_value by[] = {*out, fac_value_none(), fac_value_none(), fac_value_int(0), fac_value_dtype(t->dtype)};
        const fac_device cpu = fac_device_make(FAC_CPU, -1);
        if (fresh_tensor(&scales, cpu, &by[1]) == FAC_OK && fresh_tensor(&zeros, cpu, &by[2]) != FAC_OK)
            by[2] = fac_value_none();
        return one_result("aten::quantize_per_channel", by, FAC_COUNT(by), out);
    }
    fac_value args[] = {*out, fac_value_float(0.0625), fac_value_int(3), fac_value_dtype(t->dtype)};
    return one_result("aten::quantize_per_tensor", args, FAC_COUNT(args), out);
}

static fac_status fresh_tensor(const sample_tensor *t, fac_device device, fac_value *out) {
    if (fac_dtype_is_quantized(t->dtype)) return quantized_tensor(t, device, out);
    if (device.type == FAC_META) return meta_tensor(t, out);
    if (device.type != FAC_CPU) return device_tensor(t, device, out);
    return t->strided || t->offset ? strided_tensor(t, out) : plain_tensor(t, out);
}

/* ---- sparse ones -------------------------------------------------------------------------------------------------- */

static fac_value block_of(const sample_tensor *t) {
    const bool blocks = t->layout == FAC_SPARSE_BSR || t->layout == FAC_SPARSE_BSC;
    return blocks ? fac_value_ints((const int64_t[]){1, 1}, 2) : fac_value_none();
}

enum { META_ELEMENTS = 3 };

static fac_value meta_part(fac_dtype dtype, const int64_t *sizes, size_t n) {
    fac_value part, args[] = {fac_value_ints(sizes, n), fac_value_dtype(dtype), fac_value_none(),
                              fac_value_device(fac_device_make(FAC_META, -1))};
    return one_result("aten::empty.memory_format", args, FAC_COUNT(args), &part) == FAC_OK ? part : fac_value_none();
}

/* With a few elements, as how many there are cannot be found on the meta device. */
static fac_status sparse_on_meta(const sample_tensor *t, fac_value *out) {
    const fac_value none = fac_value_none(), meta = fac_value_device(fac_device_make(FAC_META, -1));
    if (t->layout == FAC_SPARSE_COO) {
        int64_t sizes[SAMPLE_DIMS + 1] = {META_ELEMENTS};
        if (t->sparse_dim < 0 || t->sparse_dim > t->ndim) return FAC_FAIL(FAC_ERR_ARGUMENT, "a sample's sparse_dim");
        for (int i = (int)t->sparse_dim; i < t->ndim; i++) sizes[1 + i - t->sparse_dim] = t->sizes[i];
        fac_value args[] = {fac_value_int(t->sparse_dim),
                            fac_value_int(t->ndim - t->sparse_dim),
                            fac_value_ints(t->sizes, (size_t)t->ndim),
                            meta_part(FAC_I64, (const int64_t[]){t->sparse_dim, META_ELEMENTS}, 2),
                            meta_part(t->dtype, sizes, (size_t)(1 + t->ndim - t->sparse_dim)),
                            none,
                            none,
                            none,
                            none,
                            fac_value_bool(!t->uncoalesced)};
        return one_result("aten::_sparse_coo_tensor_with_dims_and_tensors", args, FAC_COUNT(args), out);
    }
    fac_value block = block_of(t);
    if (block.tag == FAC_TAG_NONE) block = fac_value_ints(NULL, 0);
    fac_value args[] = {fac_value_int(META_ELEMENTS),
                        fac_value_int(0),
                        fac_value_ints(t->sizes, (size_t)t->ndim),
                        block,
                        fac_value_dtype(FAC_I64),
                        fac_value_dtype(t->dtype),
                        fac_value_layout(t->layout),
                        meta};
    return one_result("aten::_sparse_compressed_tensor_with_dims", args, FAC_COUNT(args), out);
}

/* The strided tensor *t as a sparse one on a device. */
static fac_status made_sparse(const sample_tensor *s, fac_device device, fac_value *t) {
    fac_status st;
    if (s->layout == FAC_SPARSE_COO) {
        fac_value args[] = {*t, fac_value_int(s->sparse_dim)};
        st = one_result("aten::to_sparse.sparse_dim", args, FAC_COUNT(args), t);
        if (st == FAC_OK && s->uncoalesced) {
            fac_value mark[] = {*t, fac_value_bool(false)};
            st = one_result("aten::_coalesced_", mark, FAC_COUNT(mark), t);
        }
    } else {
        fac_value args[] = {*t, fac_value_layout(s->layout), block_of(s), fac_value_none()};
        st = one_result("aten::to_sparse", args, FAC_COUNT(args), t);
    }
    return st == FAC_OK && device.type != FAC_CPU ? moved(t, s->dtype, device) : st;
}

static fac_status vendor_tensor(const sample_tensor *t, fac_value *out) {
    FAC_TRY(fresh_tensor(t, fac_device_make(FAC_CPU, -1), out));
    fac_value args[] = {*out};
    return one_result("aten::to_mkldnn", args, 1, out);
}

static fac_status sparse_tensor(const sample_tensor *t, fac_device device, fac_value *out) {
    if (t->layout == FAC_VENDOR_LAYOUT) return vendor_tensor(t, out);
    if (device.type == FAC_META) return sparse_on_meta(t, out);
    FAC_TRY(fresh_tensor(t, fac_device_make(FAC_CPU, -1), out));
    return made_sparse(t, device, out);
}

/* ---- nested ones -------------------------------------------------------------------------------------------------- */

static fac_status nested_tensor(const sample_tensor *t, fac_device device, fac_value *out) {
    fac_tensor *parts[SAMPLE_ITEMS];
    fac_value whole;
    FAC_TRY(fresh_tensor(t, device, &whole));
    FAC_SCOPE(s);
    const fac_tensors entries = fac_unbind(fac_value_as_tensor(whole));
    size_t n = 0;
    for (; n < entries.n && n < SAMPLE_ITEMS; n++) {
        const bool shorter = n % 2 && t->ndim > 1 && t->sizes[1] > 0;
        parts[n] = shorter ? fac_narrow(entries.v[n], 0, 0, t->sizes[1] - 1) : entries.v[n];
    }
    const fac_tensors l = {parts, n};
    *out = fac_value_tensor(fac_as_nested_tensor(l));
    fac_value_release(&whole);
    return fac_error();
}

/* Requires a gradient where that is possible. */
static fac_status require(const sample_tensor *t, fac_value *v) {
    bool can = fac_dtype_is_floating(t->dtype) || fac_dtype_is_complex(t->dtype);
    if (!(t->flags & SAMPLE_GRAD) || !can || t->flags & SAMPLE_INFERENCE || t->base >= 0) return FAC_OK;
    if (!fac_set_requires_grad(fac_value_as_tensor(*v), true)) return fac_error();
    if (!(t->flags & SAMPLE_NONLEAF)) return FAC_OK;
    fac_value args[] = {*v};
    return one_result("aten::clone", args, 1, v);
}

static fac_status make_tensor(const sample_call *c, int i, fac_device here, sample_made *m) {
    sample_tensor t = c->tensors[i];
    if (!t.strided) {
        int64_t n;
        FAC_CHECK(fac__numel(t.sizes, t.ndim, &n), FAC_ERR_OVERFLOW, "a sample's sizes overflow");
        fac__row_major(t.sizes, t.ndim, t.strides);
    }
    bool was = fac_set_inference_mode((t.flags & SAMPLE_INFERENCE) != 0);
    fac_status st = t.base >= 0 ? view_of(m->tensors[t.base], &t, &m->tensors[i])
                    : t.nested  ? nested_tensor(&t, device_of(t.place, here), &m->tensors[i])
                    : t.layout  ? sparse_tensor(&t, device_of(t.place, here), &m->tensors[i])
                                : fresh_tensor(&t, device_of(t.place, here), &m->tensors[i]);
    fac_set_inference_mode(was);
    return st == FAC_OK ? require(&t, &m->tensors[i]) : st;
}

/* ---- values ------------------------------------------------------------------------------------------------------- */

static fac_value make_string(const sample_value *v) {
    size_t n = strlen(v->text), times = v->i < 0 ? 0 : (size_t)v->i;
    char *s = malloc(n * times + 1);
    if (!s) return fac_value_none();
    for (size_t k = 0; k < times; k++) memcpy(s + k * n, v->text, n);
    s[n * times] = '\0';
    fac_value made = fac_value_string(s);
    free(s);
    return made;
}

static fac_value make_device(const sample_value *v, fac_device here) {
    bool known = v->i >= 0 && v->i < SAMPLE_PLACES;
    return fac_value_device(known ? device_of((sample_place)v->i, here) : (fac_device){(int32_t)v->i, 0});
}

/* Everything but lists. */
static fac_value make_item(const sample_value *v, fac_device here, const sample_made *m) {
    switch (v->kind) {
    case SAMPLE_TENSOR: return fac_value_copy(m->tensors[v->i]);
    case SAMPLE_INT: return fac_value_int(v->i);
    case SAMPLE_FLOAT: return fac_value_float(v->re);
    case SAMPLE_BOOL: return fac_value_bool(v->i != 0);
    case SAMPLE_COMPLEX: return fac_value_complex(v->re, v->im);
    case SAMPLE_STRING: return make_string(v);
    case SAMPLE_DTYPE: return fac_value_dtype((fac_dtype)v->i);
    case SAMPLE_DEVICE: return make_device(v, here);
    case SAMPLE_LAYOUT: return fac_value_layout((fac_layout)v->i);
    case SAMPLE_FORMAT: return fac_value_format((fac_memory_format)v->i);
    case SAMPLE_GENERATOR: return fac_value_generator(fac_default_generator());
    default: return fac_value_none();
    }
}

static fac_value tensor_list(const sample_value *items, size_t n, const sample_made *m) {
    fac_tensor *v[SAMPLE_ITEMS];
    for (size_t i = 0; i < n; i++)
        v[i] = items[i].kind == SAMPLE_TENSOR ? fac_value_as_tensor(m->tensors[items[i].i]) : NULL;
    return fac_value_tensors(v, n);
}

static fac_value scalar_list(const sample_value *items, size_t n) {
    fac_scalar v[SAMPLE_ITEMS];
    for (size_t i = 0; i < n; i++) {
        const sample_value *item = &items[i];
        v[i] = item->kind == SAMPLE_COMPLEX ? fac_scalar_c_(&item->re)
               : item->kind == SAMPLE_FLOAT ? fac_scalar_f_(item->re)
               : item->kind == SAMPLE_BOOL  ? fac_scalar_b_(item->i != 0)
                                            : fac_scalar_i_(item->i);
    }
    return fac_value_scalars(v, n);
}

static fac_value number_list(const sample_value *items, size_t n, fac_type_kind kind) {
    int64_t ints[SAMPLE_ITEMS];
    double floats[SAMPLE_ITEMS];
    bool bools[SAMPLE_ITEMS], whole = true;
    for (size_t i = 0; i < n; i++) {
        floats[i] = items[i].kind == SAMPLE_FLOAT ? items[i].re : (double)items[i].i;
        ints[i] = items[i].i;
        bools[i] = items[i].i != 0;
        whole = whole && items[i].kind != SAMPLE_FLOAT;
    }
    if (!whole || kind == FAC_TYPE_FLOAT) return fac_value_floats(floats, n);
    return kind == FAC_TYPE_BOOL ? fac_value_bools(bools, n) : fac_value_ints(ints, n);
}

/* What the list holds says its type; the schema does where it is empty. */
static fac_value make_list(const sample_call *c, const sample_value *v, const fac_schema_arg *a, const sample_made *m) {
    fac_type_kind kind = a ? a->type.kind : FAC_TYPE_INT;
    const sample_value *items = c->items + v->i;
    bool tensors = kind == FAC_TYPE_TENSOR;
    for (int64_t i = 0; i < v->n; i++)
        tensors = items[i].kind == SAMPLE_TENSOR || (tensors && items[i].kind == SAMPLE_NONE);
    if (!tensors && kind == FAC_TYPE_SCALAR) return scalar_list(items, (size_t)v->n);
    return tensors ? tensor_list(items, (size_t)v->n, m) : number_list(items, (size_t)v->n, kind);
}

static fac_status make_values(const sample_call *c, fac_device here, sample_made *m) {
    const fac_operator *op = fac_operator_lookup(c->op);
    const fac_schema *s = op ? atomic_load(&op->schema) : NULL;
    for (int i = 0; i < c->n_args; i++, m->n_args++) {
        const fac_schema_arg *a = s && (size_t)i < s->n_args ? &s->args[i] : NULL;
        const sample_value *v = &c->args[i];
        m->args[i] = v->kind == SAMPLE_LIST ? make_list(c, v, a, m) : make_item(v, here, m);
        FAC_TRY(fac_error());
    }
    return FAC_OK;
}

fac_status sample_make(const sample_call *c, fac_device device, sample_made *out) {
    fac_status st = FAC_OK;
    out->n_args = out->n_tensors = 0;
    for (int i = 0; i < c->n_tensors && st == FAC_OK; i++) {
        out->tensors[out->n_tensors++] = fac_value_none();
        st = make_tensor(c, i, device, out);
    }
    if (st == FAC_OK) st = make_values(c, device, out);
    if (st != FAC_OK) sample_unmake(out);
    return st;
}

void sample_unmake(sample_made *m) {
    for (size_t i = 0; i < m->n_args; i++) fac_value_release(&m->args[i]);
    for (size_t i = 0; i < m->n_tensors; i++) fac_value_release(&m->tensors[i]);
    m->n_args = m->n_tensors = 0;
}
