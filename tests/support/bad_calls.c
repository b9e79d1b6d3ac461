/* Spoils one argument of a valid call, in each way that its type allows. */
#include "bad_calls.h"

#include <math.h>

/* The call being spoilt, and who is told of the result. */
typedef struct spoiler {
    const sample_call *valid;
    const fac_schema *schema;
    sample_call bad;
    bad_call_fn fn;
    void *context;
} spoiler;

/* Hands out what was spoilt, and begins again with the valid call. */
static void emit(spoiler *s) {
    s->fn(s->context, &s->bad);
    s->bad = *s->valid;
}

/* ---- tensors ------------------------------------------------------------------------------------------------------ */

static void other_dtypes(spoiler *s, int i) {
    static const fac_dtype dtypes[] = {FAC_BOOL, FAC_U8, FAC_I32, FAC_I64, FAC_F16, FAC_F32, FAC_F64, FAC_C64};
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++) {
        if (s->valid->tensors[i].dtype == dtypes[d]) continue;
        s->bad.tensors[i].dtype = dtypes[d];
        emit(s);
    }
}

static void set_sizes(sample_tensor *t, int ndim, const int64_t *sizes) {
    t->ndim = ndim;
    t->strided = false;
    if (ndim) memcpy(t->sizes, sizes, (size_t)ndim * sizeof *sizes);
}

static void other_sizes(spoiler *s, int i) {
    sample_tensor *t = &s->bad.tensors[i];
    set_sizes(t, 0, NULL);
    emit(s);
    set_sizes(t, 1, (const int64_t[]){7});
    emit(s);
    set_sizes(t, 1, (const int64_t[]){0});
    emit(s);
    set_sizes(t, 3, (const int64_t[]){2, 5, 7});
    emit(s);
    set_sizes(t, 6, (const int64_t[]){1, 2, 1, 3, 1, 2});
    emit(s);
    for (int d = 0; d < t->ndim; d++) {
        t->sizes[d]++;
        t->strided = false;
        emit(s);
    }
}

/* All elements in one place; strides that let two meet. */
static void overlapping_itself(spoiler *s, int i) {
    sample_tensor *t = &s->bad.tensors[i];
    if (t->base >= 0 || t->ndim == 0) return;
    for (int step = 0; step < 2; step++) {
        t->strided = true;
        for (int d = 0; d < t->ndim; d++) t->strides[d] = step;
        emit(s);
    }
}

static void put_first(spoiler *s, int64_t numel, fac_dtype dtype) {
    sample_call *c = &s->bad;
    memmove(c->tensors + 1, c->tensors, (size_t)c->n_tensors * sizeof *c->tensors);
    c->tensors[0] = (sample_tensor){.dtype = dtype, .ndim = 1, .sizes = {numel}, .base = -1};
    c->n_tensors++;
    for (int i = 1; i < c->n_tensors; i++) c->tensors[i].base += c->tensors[i].base >= 0;
    for (int i = 0; i < c->n_args; i++) c->args[i].i += c->args[i].kind == SAMPLE_TENSOR;
    for (int i = 0; i < c->n_items; i++) c->items[i].i += c->items[i].kind == SAMPLE_TENSOR;
}

static void place_in_first(sample_tensor *t, fac_dtype dtype, int64_t offset) {
    int64_t stride = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        t->strides[d] = stride;
        stride *= t->sizes[d];
    }
    t->strided = true;
    t->dtype = dtype;
    t->base = 0;
    t->offset = offset;
}

/* Tensors i and j in one storage, one element apart. */
static void overlapping(spoiler *s, int i, int j) {
    const sample_tensor *a = &s->valid->tensors[i], *b = &s->valid->tensors[j];
    if (a->base >= 0 || b->base >= 0 || s->valid->n_tensors == SAMPLE_TENSORS) return;
    int64_t room = 8;
    for (int k = 0; k < 2; k++) {
        int64_t n = 1;
        for (int d = 0; d < (k ? b : a)->ndim; d++) n *= (k ? b : a)->sizes[d];
        room += n;
    }
    for (int64_t apart = 0; apart < 2; apart++) {
        put_first(s, room, a->dtype);
        place_in_first(&s->bad.tensors[i + 1], a->dtype, 1);
        place_in_first(&s->bad.tensors[j + 1], a->dtype, 1 + apart);
        emit(s);
    }
}

static void other_flags(spoiler *s, int i) {
    static const unsigned flags[] = {SAMPLE_GRAD, SAMPLE_GRAD | SAMPLE_NONLEAF, SAMPLE_INFERENCE};
    for (size_t k = 0; k < FAC_COUNT(flags); k++) {
        s->bad.tensors[i].flags = flags[k];
        emit(s);
    }
    s->bad.tensors[i].place = SAMPLE_META;
    emit(s);
}

/* Zero divisors, indices out of range (the last only, too), probabilities outside [0, 1], numbers that are none. */
static void other_elements(spoiler *s, int i) {
    static const struct {
        int n;
        double v[5];
    } elements[] = {{1, {0}},
                    {1, {-1}},
                    {1, {100}},
                    {5, {1, 1, 1, 1, 0}},
                    {5, {0, 0, 0, 0, 100}},
                    {5, {0, 1, 0, 1, -100}},
                    {2, {0.5, (double)NAN}},
                    {1, {1e30}},
                    {3, {1, 0, 1}}};
    for (size_t k = 0; k < FAC_COUNT(elements); k++) {
        sample_tensor *t = &s->bad.tensors[i];
        t->n_elements = elements[k].n;
        memcpy(t->elements, elements[k].v, sizeof elements[k].v);
        emit(s);
    }
}

static void spoil_tensor(spoiler *s, int i) {
    other_dtypes(s, i);
    other_sizes(s, i);
    overlapping_itself(s, i);
    for (int j = 0; j < i; j++) overlapping(s, j, i);
    other_flags(s, i);
    other_elements(s, i);
}

/* ---- other values ---------------------------------------------------------------------------------------------------- */

static void spoil_number(spoiler *s, sample_value *v) {
    static const int64_t ints[] = {0, -1, 2, 100, -100, INT64_MAX, INT64_MIN};
    static const double floats[] = {-1, 0, 2.5, 1e300, (double)NAN, (double)INFINITY};
    for (size_t k = 0; k < FAC_COUNT(ints); k++) {
        *v = (sample_value){.kind = SAMPLE_INT, .i = ints[k]};
        emit(s);
    }
    for (size_t k = 0; k < FAC_COUNT(floats); k++) {
        *v = (sample_value){.kind = SAMPLE_FLOAT, .re = floats[k]};
        emit(s);
    }
    *v = (sample_value){.kind = SAMPLE_COMPLEX, .re = 1, .im = 2};
    emit(s);
}

static void spoil_text(spoiler *s, sample_value *v) {
    *v = (sample_value){.kind = SAMPLE_STRING, .i = 1, .text = "bogus"};
    emit(s);
}

static void spoil_dtype(spoiler *s, sample_value *v) {
    for (int d = FAC_BOOL; d < FAC_DTYPE_COUNT; d++) {
        *v = (sample_value){.kind = SAMPLE_DTYPE, .i = d};
        emit(s);
    }
}

static void spoil_list(spoiler *s, sample_value *v) {
    int64_t first = v->i, n = v->n;
    for (int64_t k = 0; k < n; k++)
        if (s->valid->items[first + k].kind != SAMPLE_TENSOR) spoil_number(s, &s->bad.items[first + k]);
    for (int64_t left = 0; left < n && left < 3; left++) {
        v->n = left;
        emit(s);
    }
}

static void spoil_value(spoiler *s, int i) {
    sample_value *v = &s->bad.args[i];
    fac_type_kind kind = s->schema->args[i].type.kind;
    if (v->kind == SAMPLE_LIST)
        spoil_list(s, v);
    else if (kind == FAC_TYPE_INT || kind == FAC_TYPE_FLOAT || kind == FAC_TYPE_SCALAR)
        spoil_number(s, v);
    else if (kind == FAC_TYPE_STRING)
        spoil_text(s, v);
    else if (kind == FAC_TYPE_DTYPE)
        spoil_dtype(s, v);
    else if (kind == FAC_TYPE_BOOL) {
        *v = (sample_value){.kind = SAMPLE_BOOL, .i = !v->i};
        emit(s);
    }
}

/* Nothing, text and a list of a number where something else is expected. */
static void wrong_kinds(spoiler *s, int i) {
    s->bad.args[i] = (sample_value){.kind = SAMPLE_NONE};
    emit(s);
    spoil_text(s, &s->bad.args[i]);
    s->bad.args[i] = (sample_value){.kind = SAMPLE_COMPLEX, .re = 1, .im = 1};
    emit(s);
}

void bad_calls(const sample_call *valid, const fac_schema *schema, bad_call_fn fn, void *context) {
    static spoiler s; /* too large for the stack of a thread */
    s = (spoiler){.valid = valid, .schema = schema, .bad = *valid, .fn = fn, .context = context};
    for (int i = 0; i < valid->n_tensors; i++) spoil_tensor(&s, i);
    for (int i = 0; i < valid->n_args; i++) {
        if (valid->args[i].kind != SAMPLE_TENSOR) spoil_value(&s, i);
        wrong_kinds(&s, i);
    }
}

/* ---- valid variants -------------------------------------------------------------------------------------------------- */

static void transpose(sample_tensor *t) {
    int64_t stride = 1;
    if (t->base >= 0) return;
    for (int d = 0; d < t->ndim; d++) {
        t->strides[d] = stride;
        stride *= t->sizes[d] ? t->sizes[d] : 1;
    }
    t->strided = true;
}

/* Tensor 0 becomes a view of the result of a recorded operation. */
static bool view_of_result(sample_call *c) {
    static spoiler s;
    const sample_tensor *t = &c->tensors[0];
    int64_t numel = 1;
    if (t->base >= 0 || c->n_tensors == SAMPLE_TENSORS || !fac_dtype_is_floating(t->dtype)) return false;
    for (int d = 0; d < t->ndim; d++) numel *= t->sizes[d];
    s.bad = *c;
    put_first(&s, numel + 2, t->dtype);
    place_in_first(&s.bad.tensors[1], t->dtype, 1);
    s.bad.tensors[0].flags = SAMPLE_GRAD | SAMPLE_NONLEAF;
    *c = s.bad;
    return true;
}

bool bad_calls_variant(const sample_call *valid, int n, sample_call *out) {
    static const fac_dtype dtypes[] = {FAC_I64, FAC_U8, FAC_BF16, FAC_F64, FAC_C64};
    *out = *valid;
    if (n == 0) return true;
    if (n <= (int)FAC_COUNT(dtypes)) {
        sample_set_dtype(out, dtypes[n - 1]);
        return true;
    }
    switch (n - (int)FAC_COUNT(dtypes)) {
    case 1:
        for (int i = 0; i < out->n_tensors; i++) transpose(&out->tensors[i]);
        return true;
    case 2:
        for (int i = 0; i < out->n_tensors; i++) out->tensors[i].flags = SAMPLE_GRAD | SAMPLE_NONLEAF;
        return true;
    case 3: return view_of_result(out);
    default: return false;
    }
}

bool bad_calls_resize_outs(sample_call *c, const fac_schema *schema, int64_t n) {
    bool any = false;
    for (int i = 0; i < c->n_args; i++) {
        const fac_schema_arg *a = &schema->args[i];
        if (!a->type.write || !a->kwarg_only || c->args[i].kind != SAMPLE_TENSOR) continue;
        set_sizes(&c->tensors[c->args[i].i], 1, &n);
        any = true;
    }
    return any;
}
