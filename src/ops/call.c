/* Services of the generated call stubs and gradient formulas. */
#include "ops/call.h"
#include "core/resize.h"
#include "core/tensor_make.h"
#include "ops/composite/below.h"
#include "ops/composite/view.h"
#include "ops/structured.h"
#include "ops_gen.h"
#include <complex.h>

/* ---- lists ---- */

fac_status fac__copy_list(fac_tensors l, fac_tensor_list *out) {
    fac_status st = fac__list_new(l.n, out);
    for (; !st && out->n < l.n; out->n++)
        if ((st = fac__c_clone(l.v[out->n], FAC_FORMAT_DEFAULT, &out->v[out->n]))) break;
    if (st) fac__tensor_list_free(out);
    return st;
}

/* ---- keyword structs ---- */

fac_status fac__kw_take(const char *op, void *local, const void *kw, size_t size) {
    const struct fac_kw_head *h = kw;
    if (!h) return FAC_OK;
    if (h->kw_size < sizeof *h || h->kw_size > size) {
        FAC_FAIL(FAC_ERR_ARGUMENT,
                 h->kw_size > size && h->kw_size < 4096
                     ? "the keywords are those of a later version of the library"
                     : "what stands in the keywords' place is no keyword struct that fac_..._kw_init has filled");
        return fac__error_context(op, NULL);
    }
    memcpy(local, kw, h->kw_size);
    return FAC_OK;
}

void fac__kw_stray_error(const char *op, size_t most) {
    FAC_FAIL(
        FAC_ERR_ARGUMENT,
        "at most %zu arguments may be given by position; further ones by name, .name = value, and several sizes as "
        "one list, FAC_SHAPE(2, 3)",
        most);
    fac__error_context(op, NULL);
}

void fac__kw_list_error(const char *op, const char *one, const char *many, size_t n) {
    if (n != SIZE_MAX)
        FAC_FAIL(FAC_ERR_ARGUMENT, "keywords .%s and .%s are two names of one argument; give one of them", one, many);
    else if (one)
        FAC_FAIL(FAC_ERR_ARGUMENT, "keyword .%s takes a list, FAC_INTS(...); one number is .%s", many, one);
    else
        FAC_FAIL(FAC_ERR_ARGUMENT, "keyword .%s takes a list, FAC_INTS(...) or FAC_FLOATS(...)", many);
    fac__error_context(op, many);
}

void fac__kw_device_error(const char *op, const char *keyword) {
    FAC_FAIL(FAC_ERR_ARGUMENT,
             "keyword .%s takes a device, fac_device_make(FAC_CUDA, 0) or fac_device_parse(\"cuda:0\")", keyword);
    fac__error_context(op, keyword);
}

void fac__kw_bool_error(const char *op, const char *keyword, int given) {
    FAC_FAIL(FAC_ERR_ARGUMENT, "keyword .%s takes true or false, not %d", keyword, given);
    fac__error_context(op, keyword);
}

void fac__kw_enum_error(const char *op, const char *keyword, const char *type, int given) {
    FAC_FAIL(FAC_ERR_ARGUMENT, "keyword .%s takes a %s, and none has the value %d", keyword, type, given);
    fac__error_context(op, keyword);
}

fac_status fac__kw_scalar_given(fac_opt_num *out, double plain, fac_scalar exact, const char *op,
                                const char *plain_name, const char *exact_name) {
    const bool has_plain = plain != FAC_UNSET_FLOAT, has_exact = exact.kind != -1;
    if (has_plain ? has_exact || exact.bits != FAC_UNSET
                  : exact.kind < FAC_KIND_BOOL || exact.kind > FAC_KIND_COMPLEX) {
        if (has_plain)
            FAC_FAIL(FAC_ERR_ARGUMENT, "keywords .%s and .%s are two names of one argument; give one of them",
                     plain_name, exact_name);
        else
            FAC_FAIL(FAC_ERR_ARGUMENT, "keyword .%s takes FAC_SCALAR(x); a plain number is .%s", exact_name,
                     plain_name);
        return fac__error_context(op, exact_name);
    }
    *out = fac_opt_num_(has_plain ? fac__plain_scalar(plain) : exact);
    return FAC_OK;
}

/* ---- a call that failed ---- */

static void put(char *text, size_t size, const char *format, ...) {
    const size_t n = strlen(text);
    va_list args;
    va_start(args, format);
    if ((size_t)vsnprintf(text + n, size - n, format, args) >= size - n) memcpy(text + size - 4, "...", 4);
    va_end(args);
}

/* "float32[2, 3] on cuda:0" */
static void put_tensor(char *text, size_t size, const fac_tensor *t) {
    if (!t) {
        put(text, size, "None");
        return;
    }
    put(text, size, "%s%s", fac_dtype_name((fac_dtype)t->dtype), FAC_SHAPE_TEXT(t));
    if (!fac__is_cpu(t)) put(text, size, " on %s", fac_device_format(t->device, (char[24]){0}, 24));
}

static void put_list(char *text, size_t size, fac_tensors l) {
    for (size_t i = 0; i < l.n; i++) {
        put(text, size, i ? ", " : "[");
        put_tensor(text, size, l.v[i]);
    }
    put(text, size, l.n ? "]" : "[]");
}

void fac__call_failed(const fac_operator *op, const char *name, ...) {
    fac__error_context(name, NULL);
    fac_error_facts *f = fac__error_facts();
    const fac_schema *s = atomic_load_explicit(&op->schema, memory_order_acquire);
    if (!f || f->operands[0] || !s) return;
    va_list args;
    va_start(args, name);
    for (size_t i = 0; i < s->n_args; i++) {
        if (s->args[i].type.kind != FAC_TYPE_TENSOR) continue;
        put(f->operands, sizeof f->operands, "%s%s ", f->operands[0] ? ", " : "", s->args[i].name);
        if (s->args[i].type.list)
            put_list(f->operands, sizeof f->operands, va_arg(args, fac_tensors));
        else
            put_tensor(f->operands, sizeof f->operands, va_arg(args, fac_tensor *));
    }
    va_end(args);
}

/* ---- lists of tensors ---- */

fac_tensor *const fac__nulls[1024] = {NULL};

fac_status fac__check_list(fac_tensors l, bool optional, const char *op, const char *argument) {
    if (l.n && !l.v) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "a list of %zu tensors without an array", l.n);
        return fac__error_context(op, argument);
    }
    for (size_t i = 0; i < l.n; i++) {
        if (optional && !l.v[i]) continue;
        FAC_TRY(fac__check_header(l.v[i], op, argument));
    }
    return FAC_OK;
}

void fac__null_given(const char *op, const char *argument) {
    FAC_FAIL(FAC_ERR_ARGUMENT, "NULL was given where a value is needed");
    fac__error_context(op, argument);
}

/* The array itself lives in the storage of a hidden byte tensor of the same scope. */
fac_tensors fac__adopt_list(fac_thread *th, fac_tensor_list *l) {
    fac_tensors none = fac__no_tensors();
    fac_tensor *holder = NULL;
    const int64_t bytes = (int64_t)(l->n * sizeof *l->v);
    if (fac__empty(&bytes, 1, FAC_U8, fac_device_make(FAC_CPU, -1), &holder) || !fac__adopt(th, holder)) {
        fac__tensor_list_free(l);
        return none;
    }
    fac_tensor **v = fac__data(holder);
    size_t n = l->n, adopted = 0;
    while (adopted < n && (v[adopted] = fac__adopt(th, l->v[adopted]))) {
        l->v[adopted] = NULL;
        adopted++;
    }
    if (adopted < n) l->v[adopted] = NULL; /* fac__adopt has released it */
    fac__tensor_list_free(l);
    if (adopted < n) return none;
    return (fac_tensors){n ? v : NULL, n};
}

/* ---- results of functional forms into given tensors ---- */

static fac_status check_castable(const fac_tensor *from, const fac_tensor *to) {
    FAC_CHECK(fac_can_cast((fac_dtype)from->dtype, (fac_dtype)to->dtype), FAC_ERR_DTYPE,
              "result type %s can't be cast to the desired output type %s", fac_dtype_name((fac_dtype)from->dtype),
              fac_dtype_name((fac_dtype)to->dtype));
    return FAC_OK;
}

static fac_status copy_into(fac_tensor *to, fac_tensor *from) {
    fac_tensor *same = NULL;
    fac_status st = fac__c_copy_(to, from, false, &same);
    fac__unref(same);
    return st;
}

fac_status fac__check_out_overlap(fac_tensor *const *outs, size_t n_outs, fac_tensor *const *reads, size_t n_reads,
                                  bool whole_allowed) {
    for (size_t i = 0; i < n_outs; i++)
        for (size_t k = 0; k < n_reads; k++) {
            fac_overlap o = reads[k] ? fac__overlap(outs[i], reads[k]) : FAC_OVERLAP_NO;
            FAC_TRY(o == FAC_OVERLAP_PARTIAL || (o == FAC_OVERLAP_FULL && !whole_allowed) ? fac__shared_memory()
                                                                                          : FAC_OK);
        }
    return FAC_OK;
}

static fac_status check_out(fac_tensor *out, const fac_tensor *result) {
    FAC_TRY(fac__check_writable(out));
    FAC_TRY(fac__version_make(out));
    FAC_TRY(check_castable(result, out));
    FAC_CHECK(fac_device_equal(out->device, result->device), FAC_ERR_DEVICE, "out is not on the device of the result");
    return fac__same_sizes(out, result) ? fac__check_no_overlap(out) : FAC_OK;
}

/* What an out is written as: itself, or resized, which the out becomes in the end; its memory may be the out's. */
static fac_status begin_out(fac_tensor *out, const fac_tensor *result, fac_tensor **becomes) {
    if (!fac__same_sizes(out, result)) return fac__resize_begin(out, result->sizes, NULL, result->ndim, false, becomes);
    *becomes = fac__ref(out);
    return FAC_OK;
}

/* Two outs of one storage cannot both be resized: each would have a storage of its own. */
static fac_status check_resized_apart(fac_tensor *const *outs, fac_tensor *const *becomes, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (outs[i]->storage && outs[i]->storage == outs[k]->storage && becomes[i] != outs[i] &&
                becomes[k] != outs[k])
                return fac__shared_memory();
    return FAC_OK;
}

static void end_out(fac_tensor *out, fac_tensor *becomes, fac_status st) {
    if (st == FAC_OK && becomes != out)
        fac__resize_out_end(out, becomes);
    else
        fac__unref(becomes);
}

/* Every out has its room before one of them is written. */
fac_status fac__copy_to_outs(fac_tensor *const *outs, fac_tensor *const *results, size_t n) {
    fac_tensor *becomes[FAC_MAX_OUT] = {NULL};
    FAC_TRY(fac_error()); /* a composite may have met an error and still have a result */
    for (size_t i = 0; i < n; i++) FAC_TRY(check_out(outs[i], results[i]));
    fac_status st = FAC_OK;
    for (size_t i = 0; i < n && !st; i++) st = begin_out(outs[i], results[i], &becomes[i]);
    if (!st) st = check_resized_apart(outs, becomes, n);
    for (size_t i = 0; i < n && !st; i++) st = copy_into(becomes[i], results[i]);
    for (size_t i = 0; i < n; i++) end_out(outs[i], becomes[i], st);
    return st;
}

fac_status fac__before_change(fac_tensor *const *reads, size_t n, fac_tensor **out_before) {
    bool recorded = false;
    for (size_t i = 0; i < n && !recorded; i++) recorded = fac__wants_derivative(reads[i]);
    if (recorded) return fac__c_clone(reads[0], FAC_FORMAT_DEFAULT, out_before);
    *out_before = fac__ref(reads[0]);
    return FAC_OK;
}

fac_status fac__copy_over(fac_tensor *self, fac_tensor *result) {
    FAC_TRY(fac_error());
    FAC_TRY(check_castable(result, self));
    FAC_CHECK(fac__same_sizes(self, result), FAC_ERR_SHAPE, "output with shape %s doesn't match the broadcast shape %s",
              FAC_SHAPE_TEXT(self), FAC_SHAPE_TEXT(result));
    return copy_into(self, result);
}

/* ---- tensors that an operator moves along ---- */

static fac_status drop_kept(fac_tensor **kept, size_t n, fac_status st) {
    for (size_t i = 0; i < n; i++) fac__unref(kept[i]);
    return st;
}

fac_status fac__keep_values(fac_tensor *const *moved, fac_tensor **out_kept, size_t n) {
    fac_status st = FAC_OK;
    for (size_t i = 0; i < n; i++) out_kept[i] = NULL;
    for (size_t i = 0; i < n && st == FAC_OK; i++)
        if (moved[i]) st = fac__clone_below(moved[i], &out_kept[i]);
    return st == FAC_OK ? st : drop_kept(out_kept, n, st);
}

fac_status fac__put_back(fac_tensor *const *moved, fac_tensor **kept, size_t n, fac_status st) {
    for (size_t i = 0; i < n && st != FAC_OK; i++)
        if (kept[i]) (void)fac__copy_below(moved[i], kept[i]);
    return drop_kept(kept, n, st);
}

/* ---- numbers ---- */

static double _Complex complex_of(fac_scalar s) {
    double v[2];
    fac__scalar_c128(s, v);
    return __builtin_complex(v[0], v[1]);
}

static fac_scalar complex_into(double _Complex z, double re_im[2]) {
    re_im[0] = creal(z);
    re_im[1] = cimag(z);
    return fac_scalar_c_(re_im);
}

/* The kind that holds both: complex over float over integer (bools count as integers). */
static int common_kind(fac_scalar a, fac_scalar b) {
    int64_t k = a.kind > b.kind ? a.kind : b.kind;
    return k < FAC_KIND_INT ? FAC_KIND_INT : (int)k;
}

fac_scalar fac__scalar_conj(fac_scalar a, double re_im[2]) {
    return a.kind == FAC_KIND_COMPLEX ? complex_into(conj(complex_of(a)), re_im) : a;
}

fac_scalar fac__scalar_neg(fac_scalar a, double re_im[2]) { return fac__scalar_sub(fac_scalar_i_(0), a, re_im); }

fac_scalar fac__scalar_add(fac_scalar a, fac_scalar b, double re_im[2]) {
    int64_t i;
    switch (common_kind(a, b)) {
    case FAC_KIND_COMPLEX: return complex_into(complex_of(a) + complex_of(b), re_im);
    case FAC_KIND_INT:
        if (fac__add(a.bits, b.bits, &i)) return fac_scalar_i_(i);
    }
    return fac_scalar_f_(fac__scalar_f64(a) + fac__scalar_f64(b));
}

fac_scalar fac__scalar_sub(fac_scalar a, fac_scalar b, double re_im[2]) {
    int64_t i;
    switch (common_kind(a, b)) {
    case FAC_KIND_COMPLEX: return complex_into(complex_of(a) - complex_of(b), re_im);
    case FAC_KIND_INT:
        if (fac__sub(a.bits, b.bits, &i)) return fac_scalar_i_(i);
    }
    return fac_scalar_f_(fac__scalar_f64(a) - fac__scalar_f64(b));
}

fac_scalar fac__scalar_mul(fac_scalar a, fac_scalar b, double re_im[2]) {
    int64_t i;
    switch (common_kind(a, b)) {
    case FAC_KIND_COMPLEX: return complex_into(complex_of(a) * complex_of(b), re_im);
    case FAC_KIND_INT:
        if (fac__mul(a.bits, b.bits, &i)) return fac_scalar_i_(i);
    }
    return fac_scalar_f_(fac__scalar_f64(a) * fac__scalar_f64(b));
}

fac_scalar fac__scalar_div(fac_scalar a, fac_scalar b, double re_im[2]) {
    if (common_kind(a, b) == FAC_KIND_COMPLEX) return complex_into(complex_of(a) / complex_of(b), re_im);
    return fac_scalar_f_(fac__scalar_f64(a) / fac__scalar_f64(b));
}

bool fac__scalar_is(fac_scalar a, double v) {
    double z[2];
    fac__scalar_c128(a, z);
    return z[0] == v && z[1] == 0;
}

int64_t fac__at(fac_ints l, int64_t i) {
    int64_t n = (int64_t)l.n, k = i < 0 ? i + n : i;
    if (k >= 0 && k < n) return l.v[k];
    FAC_FAIL(FAC_ERR_INDEX, "index %lld of a list of %lld", (long long)i, (long long)n);
    return 0;
}
