/* From an iterator to a launch: the kernel is found by loop and by the type computed in; the iterator's shape, strides and
   numbers are copied into the plan that kernels take by value. */
#include "backend/cuda/ops/pointwise.h"
#include "backend/cuda/kernels/dtype.h"
#include "core/fill.h"
#include "ops_gen.h"

/* The types that kernels compute in. */
typedef enum kind { KIND_F32, KIND_F64, KIND_I64, KIND_BOOL, KIND_COUNT } kind;

static kind kind_of(fac_dtype d) {
    if (d == FAC_BOOL) return KIND_BOOL;
    if (fac_dtype_is_integral(d, true)) return KIND_I64;
    return d == FAC_F64 ? KIND_F64 : KIND_F32;
}
static fac_dtype dtype_of(kind k) {
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_I64, FAC_BOOL};
    return dtypes[k];
}

/* ---- the kernels, by loop and type ---------------------------------------------------------------------------------------------- */

#define NAME(name, suffix) FAC_CUDA_KERNEL(pointwise_##name##_##suffix)
#define DECLARE_REAL(name, ...) extern fac_cuda_kernel NAME(name, f32), NAME(name, f64);
#define DECLARE_INTEGER(name, ...) extern fac_cuda_kernel NAME(name, i64);
#define DECLARE_BOOLEAN(name, ...) extern fac_cuda_kernel NAME(name, bool);
#define ROW_F32(name, ...) [FAC_LOOP_##name] = &NAME(name, f32),
#define ROW_F64(name, ...) [FAC_LOOP_##name] = &NAME(name, f64),
#define ROW_INTEGER(name, ...) [FAC_LOOP_##name] = &NAME(name, i64),
#define ROW_BOOLEAN(name, ...) [FAC_LOOP_##name] = &NAME(name, bool),

FAC_LOOPS_OF_REAL(DECLARE_REAL)
FAC_LOOPS_OF_INTEGERS(DECLARE_INTEGER)
FAC_LOOPS_OF_TRUTHS(DECLARE_BOOLEAN)
DECLARE_REAL(copy)
DECLARE_INTEGER(copy)
DECLARE_BOOLEAN(copy) extern fac_cuda_kernel NAME(copy, complex), NAME(conj, complex), NAME(neg, complex);

static fac_cuda_kernel *const kernels[KIND_COUNT][FAC_LOOP_COUNT] = {
    [KIND_F32] = {FAC_LOOPS_OF_REAL(ROW_F32)},
    [KIND_F64] = {FAC_LOOPS_OF_REAL(ROW_F64)},
    [KIND_I64] = {FAC_LOOPS_OF_INTEGERS(ROW_INTEGER)},
    [KIND_BOOL] = {FAC_LOOPS_OF_TRUTHS(ROW_BOOLEAN)},
};
static fac_cuda_kernel *const copy_kernels[KIND_COUNT] = {&NAME(copy, f32), &NAME(copy, f64), &NAME(copy, i64),
                                                          &NAME(copy, bool)};

/* The arithmetic of complex numbers that there is. */
static fac_cuda_kernel *complex_kernel(fac_loop_id id) {
    return id == FAC_LOOP_conj ? &NAME(conj, complex) : id == FAC_LOOP_neg ? &NAME(neg, complex) : NULL;
}

_Static_assert(K_BOOL == (int)FAC_BOOL && K_I64 == (int)FAC_I64 && K_F16 == (int)FAC_F16 && K_BF16 == (int)FAC_BF16 &&
                   K_F32 == (int)FAC_F32 && K_F64 == (int)FAC_F64 && K_C128 == (int)FAC_C128,
               "kernels know dtypes by the same numbers");

/* ---- operands --------------------------------------------------------------------------------------------------------------------- */

static void set_operand(const fac_iter *it, int i, k_operand *out) {
    const fac_iter_operand *o = &it->op[i];
    memset(out, 0, sizeof *out);
    out->dtype = o->dtype;
    if (o->is_scalar || (o->t && fac__is_cpu(o->t))) {
        fac_iter_number(it, i, FAC_C128, out->number);
        fac_iter_number(it, i, FAC_I64, &out->integer);
        return;
    }
    out->data = o->data;
    for (int d = 0; d < it->nest.ndim && d < K_DIMS; d++) out->strides[d] = it->nest.stride[i][d];
    if (i >= it->n_out && fac__is_half(it->common) && o->dtype != it->common) out->round = (int32_t)it->common;
}

/* True if every operand is a number or lies without gaps in `in`; the output in `out`. */
static bool is_plain(const fac_iter *it, const k_plan *p, fac_dtype in, fac_dtype out) {
    if (!it->flat || it->n_out != 1) return false;
    for (int i = 0; i < it->n; i++) {
        fac_dtype want = i ? in : out;
        if (p->op[i].data && (p->op[i].dtype != (int)want || it->nest.stride[i][0] != fac__dtype_size(want)))
            return false;
    }
    return true;
}

/* ---- launching ---------------------------------------------------------------------------------------------------------------------- */

/* Dimensions beyond what a plan holds are walked here, a launch for each of their points. */
static fac_status launch_plan(const fac_iter *it, k_plan *p, fac_cuda_run *r) {
    int64_t launches = 1;
    p->ndim = (int32_t)fac__min(it->nest.ndim, K_DIMS);
    p->numel = 1;
    for (int d = 0; d < it->nest.ndim; d++) {
        if (d < K_DIMS) p->shape[d] = it->nest.size[d];
        *(d < K_DIMS ? &p->numel : &launches) *= it->nest.size[d];
    }
    r->device = it->device.index_plus - 1;
    for (int i = 0; i < it->n; i++) {
        if (i < it->n_out)
            fac__cuda_writes(r, it->op[i].t);
        else
            fac__cuda_reads(r, it->op[i].t);
    }
    for (int64_t at = 0; at < launches; at++) {
        int64_t rest = at;
        for (int i = 0; i < it->n; i++)
            if (p->op[i].data) p->op[i].data = it->op[i].data;
        for (int d = K_DIMS; d < it->nest.ndim; d++, rest /= it->nest.size[d - 1])
            for (int i = 0; i < it->n; i++)
                if (p->op[i].data) p->op[i].data += rest % it->nest.size[d] * it->nest.stride[i][d];
        FAC_TRY(fac__cuda_run_items(r, FAC_CUDA_ARGS(p), p->numel));
    }
    return FAC_OK;
}

static fac_status launch(const fac_iter *it, fac_cuda_kernel *kernel, const fac_operator *op, kind k, fac_dtype out,
                         const fac_loop_args *args) {
    k_plan p;
    fac_cuda_run r = {.kernel = kernel, .op = op};
    for (int i = 0; i < it->n; i++) set_operand(it, i, &p.op[i]);
    p.plain = is_plain(it, &p, dtype_of(k), out ? out : dtype_of(k));
    for (size_t i = 0; i < FAC_COUNT(p.f); i++) {
        p.f[i] = args ? args->v[i].real : 0;
        p.i[i] = args ? args->v[i].integer : 0;
    }
    return launch_plan(it, &p, &r);
}

static fac_status run_loop(const fac_structured *s, fac_loop_id id, fac_dtype out, const fac_loop_args *args) {
    const fac_iter *it = &s->iter;
    const bool complex_numbers = fac_dtype_is_complex(it->common);
    kind k = complex_numbers ? KIND_F64 : kind_of(it->common);
    fac_cuda_kernel *kernel = complex_numbers ? complex_kernel(id) : kernels[k][id];
    FAC_CHECK(kernel, FAC_ERR_UNSUPPORTED, "there is no CUDA kernel for %s", fac_dtype_name(it->common));
    return it->nest.count ? launch(it, kernel, s->call->op, k, out, args) : FAC_OK;
}

fac_status fac__cuda_ops_init(void) {
    fac__pointwise_register(FAC_CUDA, run_loop);
    return FAC_OK;
}

/* ---- copies and fills ------------------------------------------------------------------------------------------------------------------ */

/* Through complex numbers, int64, double or float, whichever holds every element of the source. */
static fac_status copy_by(const fac_iter *it, fac_dtype from) {
    bool complex_numbers = fac_dtype_is_complex(from);
    kind k = complex_numbers ? KIND_F64 : kind_of(from);
    return launch(it, complex_numbers ? &NAME(copy, complex) : copy_kernels[k], NULL, k, 0, NULL);
}

fac_status fac__cuda_copy_elements(fac_tensor *dst, fac_tensor *src) {
    fac_iter it;
    fac_iter_begin(&it, FAC_ITER_ANY_DTYPE | FAC_ITER_OUT_SHAPE);
    FAC_TRY(fac_iter_out(&it, dst));
    FAC_TRY(fac_iter_in(&it, src));
    FAC_TRY(fac_iter_build(&it));
    return it.nest.count ? copy_by(&it, (fac_dtype)src->dtype) : FAC_OK;
}

fac_status fac__cuda_fill(fac_tensor *dst, fac_scalar v) {
    fac_iter it;
    fac_dtype d = (fac_dtype)dst->dtype;
    fac_iter_begin(&it, FAC_ITER_ANY_DTYPE | FAC_ITER_ROUND_NUMBERS);
    FAC_TRY(fac_iter_out(&it, dst));
    FAC_TRY(fac_iter_scalar(&it, v));
    FAC_TRY(fac_iter_build(&it));
    if (it.nest.count == 0) return FAC_OK;
    it.common = d; /* the number is as the dtype has it, so that the kernel changes nothing */
    k_plan p = {.plain = 0};
    fac_cuda_run r = {.kernel = fac_dtype_is_complex(d) ? &NAME(copy, complex) : copy_kernels[kind_of(d)]};
    for (int i = 0; i < 2; i++) set_operand(&it, i, &p.op[i]);
    p.plain = !fac_dtype_is_complex(d) && is_plain(&it, &p, dtype_of(kind_of(d)), dtype_of(kind_of(d)));
    return launch_plan(&it, &p, &r);
}

fac_status fill_cuda(fac_structured *s, fac_tensor *self, fac_scalar value) {
    (void)self;
    return fac__fill_once(s->out[0], value, fac__cuda_fill);
}

fac_status fill_tensor_cuda(fac_structured *s, fac_tensor *self, fac_tensor *value) {
    (void)self;
    return fac__cuda_copy_tensor(s->out[0], value, false);
}

fac_status zero_cuda(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    if (self->numel && fac__is_contiguous(self))
        FAC_TRY(fac__cuda_memset(fac__cuda_index(self), fac__data(self), 0, self->numel * fac__item_size(self)));
    else
        FAC_TRY(fac__fill_once(self, fac_scalar_i_(0), fac__cuda_fill));
    *out = fac__ref(self);
    return FAC_OK;
}
