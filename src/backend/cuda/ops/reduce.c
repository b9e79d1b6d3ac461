/* Reductions: which elements each output folds is planned as for every device (fac__split); long folds are cut in parts, whose
   results lie in scratch memory and are folded by a second launch. The cut depends on the shape alone. */
#include "ops/meta/reduce.h"
#include "backend/cuda/kernels/fold.h"
#include "backend/cuda/ops/pointwise.h"
#include "core/tensor_make.h"
#include "iter/reduction.h"
#include "ops_gen.h"

_Static_assert(K_SUM == (int)FAC_FOLD_SUM && K_MIN == (int)FAC_FOLD_MIN && K_MAP_POW == (int)FAC_MAP_POW &&
                   K_MAP_NONZERO == (int)FAC_MAP_NONZERO && K_FINISH_ROOT == (int)FAC_FINISH_ROOT,
               "kernels know operations by the same numbers");

enum { PART = 8192, SHORT = 32 }; /* elements of a part; folds that one thread does */

extern fac_cuda_kernel FAC_CUDA_KERNEL(reduce_fold_threads_f32), FAC_CUDA_KERNEL(reduce_fold_threads_f64),
    FAC_CUDA_KERNEL(reduce_fold_threads_i64), FAC_CUDA_KERNEL(reduce_fold_threads_c128),
    FAC_CUDA_KERNEL(reduce_fold_blocks_f32), FAC_CUDA_KERNEL(reduce_fold_blocks_f64),
    FAC_CUDA_KERNEL(reduce_fold_blocks_i64), FAC_CUDA_KERNEL(reduce_place_f32), FAC_CUDA_KERNEL(reduce_place_f64),
    FAC_CUDA_KERNEL(reduce_place_i64);

static fac_cuda_kernel *const by_threads[FAC_ACC_COUNT] = {
    [FAC_ACC_F32] = &FAC_CUDA_KERNEL(reduce_fold_threads_f32),
    [FAC_ACC_F64] = &FAC_CUDA_KERNEL(reduce_fold_threads_f64),
    [FAC_ACC_I64] = &FAC_CUDA_KERNEL(reduce_fold_threads_i64),
    [FAC_ACC_C128] = &FAC_CUDA_KERNEL(reduce_fold_threads_c128),
};
static fac_cuda_kernel *const by_blocks[FAC_ACC_COUNT] = {
    [FAC_ACC_F32] = &FAC_CUDA_KERNEL(reduce_fold_blocks_f32),
    [FAC_ACC_F64] = &FAC_CUDA_KERNEL(reduce_fold_blocks_f64),
    [FAC_ACC_I64] = &FAC_CUDA_KERNEL(reduce_fold_blocks_i64),
};
static fac_cuda_kernel *const of_places[FAC_ACC_COUNT] = {
    [FAC_ACC_F32] = &FAC_CUDA_KERNEL(reduce_place_f32),
    [FAC_ACC_F64] = &FAC_CUDA_KERNEL(reduce_place_f64),
    [FAC_ACC_I64] = &FAC_CUDA_KERNEL(reduce_place_i64),
};
static const fac_dtype scratch_dtype[FAC_ACC_COUNT] = {FAC_F32, FAC_F64, FAC_I64, FAC_C128};

/* ---- plans ---------------------------------------------------------------------------------------------------------------- */

static void set_sizes(const fac_nest *n, int64_t *size) {
    for (int d = 0; d < n->ndim; d++) size[d] = n->size[d];
}
static void set_strides(const fac_nest *n, int operand, const fac_tensor *t, int64_t *stride) {
    int64_t item = fac__item_size(t);
    for (int d = 0; d < n->ndim; d++) stride[d] = n->stride[operand][d] * item;
}

/* outs[0] is where results go; outs[1], if not NULL, where places do. */
static fac_status plan(k_fold *f, fac_tensor *in, uint64_t mask, fac_tensor *const *outs, bool ordered) {
    fac_dim_split s;
    fac__split(&s, in, mask, outs, outs[1] ? 2 : 1, ordered);
    FAC_CHECK(s.kept.ndim <= K_FOLD_DIMS && s.reduced.ndim <= K_FOLD_DIMS, FAC_ERR_UNSUPPORTED,
              "a reduction on CUDA takes %d dimensions that cannot be merged, not %d; make the tensor contiguous first",
              (int)K_FOLD_DIMS, (int)fac__max(s.kept.ndim, s.reduced.ndim));
    *f = (k_fold){.in = fac__data(in),
                  .out = fac__data(outs[0]),
                  .n_out = s.kept.count,
                  .n_fold = s.reduced.count,
                  .in_dtype = in->dtype,
                  .out_dtype = outs[0]->dtype,
                  .kept_ndim = s.kept.ndim,
                  .fold_ndim = s.reduced.ndim};
    f->part = f->n_fold <= PART ? fac__max(1, f->n_fold) : PART;
    f->parts = fac__max(1, fac__div_up(f->n_fold, f->part));
    set_sizes(&s.kept, f->kept_size);
    set_sizes(&s.reduced, f->fold_size);
    set_strides(&s.kept, 0, in, f->kept_in);
    set_strides(&s.kept, 1, outs[0], f->kept_out);
    set_strides(&s.reduced, 0, in, f->fold_in);
    if (outs[1]) set_strides(&s.kept, 2, outs[1], f->kept_index);
    return FAC_OK;
}

/* The plan of the second launch: folds [parts][n_out] of scratch. */
static k_fold plan_of_parts(const k_fold *f, const fac_tensor *scratch) {
    k_fold g = *f;
    int64_t item = fac__item_size(scratch);
    g.in = fac__data(scratch);
    g.in_dtype = scratch->dtype;
    g.n_fold = f->parts;
    g.part = f->parts;
    g.parts = 1;
    g.map = K_MAP_NONE;
    g.via = 0;
    g.fold_ndim = 1;
    g.fold_size[0] = f->parts;
    g.fold_in[0] = f->n_out * item;
    /* outputs one after the other, in the order in which the first launch counted them */
    int64_t step = item;
    for (int d = 0; d < g.kept_ndim; d++) {
        g.kept_in[d] = step;
        step *= g.kept_size[d];
    }
    return g;
}

static fac_status launch(fac_cuda_run *r, const k_fold *f, fac_acc kind) {
    bool threads = kind == FAC_ACC_C128 || fac__min(f->part, f->n_fold) <= SHORT;
    r->kernel = threads ? by_threads[kind] : by_blocks[kind];
    void **args = FAC_CUDA_ARGS((void *)(uintptr_t)f);
    int64_t items = f->n_out * f->parts;
    return threads ? fac__cuda_run_items(r, args, items)
                   : fac__cuda_run_rows(r, args, items, fac__min(f->part, f->n_fold));
}

/* ---- folds ------------------------------------------------------------------------------------------------------------------ */

static fac_status fold_in_parts(k_fold *f, fac_tensor *in, fac_tensor *out, fac_acc kind, const fac_operator *op) {
    fac_tensor *scratch;
    const int64_t sizes[2] = {f->parts, f->n_out};
    FAC_TRY(fac__empty(sizes, 2, scratch_dtype[kind], in->device, &scratch));
    fac_cuda_run first = {.device = fac__cuda_index(in), .op = op}, second = first;
    k_fold g = plan_of_parts(f, scratch);
    f->out = fac__data(scratch);
    fac__cuda_reads(&first, in);
    fac__cuda_writes(&first, scratch);
    fac__cuda_reads(&second, scratch);
    fac__cuda_writes(&second, out);
    fac_status st = launch(&first, f, kind);
    if (st == FAC_OK) st = launch(&second, &g, kind);
    fac__unref(scratch);
    return st;
}

static fac_status fold(fac_structured *s, const fac_reduction *r, fac_tensor *in) {
    k_fold f;
    fac_tensor *out = s->out[0];
    const fac_operator *op = s->call->op;
    if (out->numel == 0) return FAC_OK;
    FAC_CHECK(r->kind != FAC_ACC_C128 || r->map == FAC_MAP_NONE, FAC_ERR_UNSUPPORTED,
              "there is no CUDA kernel for complex numbers yet");
    FAC_TRY(plan(&f, in, fac__carried_mask(s), (fac_tensor *[]){out, NULL}, false));
    f.op = (int32_t)r->op;
    f.map = (int32_t)r->map;
    f.via = r->via == (fac_dtype)in->dtype ? 0 : (int32_t)r->via;
    f.finish = (int32_t)r->finish;
    f.p = r->p;
    f.finish_p = r->finish_p;
    if (f.parts > 1) return fold_in_parts(&f, in, out, r->kind, op);
    fac_cuda_run run = {.device = fac__cuda_index(in), .op = op};
    fac__cuda_reads(&run, in);
    fac__cuda_writes(&run, out);
    return launch(&run, &f, r->kind);
}

static fac_dtype dtype_of(const fac_tensor *t) { return (fac_dtype)t->dtype; }
fac_status sum_dim_cuda(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim, fac_dtype dtype) {
    (void)dim, (void)keepdim;
    fac_reduction r = fac__fold_as(s, self, FAC_FOLD_SUM, dtype);
    return fold(s, &r, self);
}
fac_status sum_cuda(fac_structured *s, fac_tensor *self, fac_dtype dtype) {
    return sum_dim_cuda(s, self, (fac_ints){0}, false, dtype);
}
fac_status mean_dim_cuda(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim, fac_dtype dtype) {
    (void)dim, (void)keepdim;
    fac_reduction r = fac__mean_as(s, self, dtype);
    return fold(s, &r, self);
}
fac_status mean_cuda(fac_structured *s, fac_tensor *self, fac_dtype dtype) {
    return mean_dim_cuda(s, self, (fac_ints){0}, false, dtype);
}
fac_status prod_cuda(fac_structured *s, fac_tensor *self, fac_dtype dtype) {
    fac_reduction r = fac__fold_as(s, self, FAC_FOLD_PROD, dtype);
    return fold(s, &r, self);
}
fac_status prod_dim_cuda(fac_structured *s, fac_tensor *self, int64_t dim, bool keepdim, fac_dtype dtype) {
    (void)dim, (void)keepdim;
    return prod_cuda(s, self, dtype);
}

static fac_status extreme(fac_structured *s, fac_tensor *self, fac_fold_op op) {
    fac_reduction r = {.op = op, .kind = fac__acc_of(dtype_of(self))};
    return fold(s, &r, self);
}
fac_status amax_cuda(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim) {
    (void)dim, (void)keepdim;
    return extreme(s, self, FAC_FOLD_MAX);
}
fac_status amin_cuda(fac_structured *s, fac_tensor *self, fac_ints dim, bool keepdim) {
    (void)dim, (void)keepdim;
    return extreme(s, self, FAC_FOLD_MIN);
}
fac_status max_cuda(fac_structured *s, fac_tensor *self) { return extreme(s, self, FAC_FOLD_MAX); }
fac_status min_cuda(fac_structured *s, fac_tensor *self) { return extreme(s, self, FAC_FOLD_MIN); }

/* ---- truth: elements become 0 or 1 ----------------------------------------------------------------------------------------- */

static fac_status count(fac_structured *s, fac_tensor *self, fac_fold_op op) {
    fac_reduction r = {.op = op, .kind = FAC_ACC_I64, .map = FAC_MAP_NONZERO};
    return fold(s, &r, self);
}
static fac_status any_of(fac_structured *s, fac_tensor *self) {
    if (self->numel > 0) return count(s, self, FAC_FOLD_MAX);
    return fac__cuda_fill(s->out[0], fac_scalar_i_(0)); /* the identity of a maximum is not a truth value */
}
fac_status any_cuda(fac_structured *s, fac_tensor *self) { return any_of(s, self); }
fac_status any_dim_cuda(fac_structured *s, fac_tensor *self, int64_t dim, bool keepdim) {
    (void)dim, (void)keepdim;
    return any_of(s, self);
}
fac_status all_cuda(fac_structured *s, fac_tensor *self) { return count(s, self, FAC_FOLD_PROD); }
fac_status all_dim_cuda(fac_structured *s, fac_tensor *self, int64_t dim, bool keepdim) {
    (void)dim, (void)keepdim;
    return count(s, self, FAC_FOLD_PROD);
}
fac_status count_nonzero_dims_cuda(fac_structured *s, fac_tensor *self, fac_ints dim) {
    (void)dim;
    return count(s, self, FAC_FOLD_SUM);
}

/* ---- norms -------------------------------------------------------------------------------------------------------------------- */

fac_status vector_norm_cuda(fac_structured *s, fac_tensor *self, fac_scalar ord, fac_ints dim, bool keepdim,
                            fac_dtype dtype) {
    (void)dim, (void)keepdim, (void)dtype;
    FAC_CHECK(!fac_dtype_is_complex(dtype_of(self)), FAC_ERR_UNSUPPORTED,
              "there is no CUDA kernel for complex numbers yet");
    fac_reduction r = fac__norm_as(s, fac__scalar_f64(ord));
    return fold(s, &r, self);
}

fac_status powsum_cuda(fac_structured *s, fac_tensor *self, fac_scalar ord, fac_ints dim, bool keepdim,
                       fac_dtype dtype) {
    (void)dim, (void)keepdim, (void)dtype;
    FAC_CHECK(!fac_dtype_is_complex(dtype_of(self)), FAC_ERR_UNSUPPORTED,
              "there is no CUDA kernel for complex numbers yet");
    fac_reduction r = fac__powsum_as(s, fac__scalar_f64(ord));
    return fold(s, &r, self);
}

/* ---- places of extremes ---------------------------------------------------------------------------------------------------------- */

static fac_status launch_places(fac_cuda_run *r, const k_fold *f, fac_acc kind) {
    r->kernel = of_places[kind];
    void **args = FAC_CUDA_ARGS((void *)(uintptr_t)f);
    return fac__cuda_run_rows(r, args, f->n_out * f->parts, fac__min(f->part, f->n_fold));
}

static fac_status places_in_parts(k_fold *f, fac_tensor *self, fac_tensor *values, fac_tensor *indices, fac_acc kind,
                                  const fac_operator *op) {
    fac_tensor *best, *at;
    const int64_t sizes[2] = {f->parts, f->n_out};
    FAC_TRY(fac__empty(sizes, 2, scratch_dtype[kind], self->device, &best));
    fac_status st = fac__empty(sizes, 2, FAC_I64, self->device, &at);
    if (st == FAC_OK) {
        fac_cuda_run first = {.device = fac__cuda_index(self), .op = op}, second = first;
        k_fold g = plan_of_parts(f, best);
        g.in_index = fac__data(at);
        f->out = fac__data(best);
        f->out_index = fac__data(at);
        fac__cuda_reads(&first, self);
        fac__cuda_writes(&first, best);
        fac__cuda_writes(&first, at);
        fac__cuda_reads(&second, best);
        fac__cuda_reads(&second, at);
        fac__cuda_writes(&second, values);
        fac__cuda_writes(&second, indices);
        st = launch_places(&first, f, kind);
        if (st == FAC_OK) st = launch_places(&second, &g, kind);
        fac__unref(at);
    }
    fac__unref(best);
    return st;
}

/* values may be NULL. */
static fac_status find(fac_structured *s, fac_tensor *self, fac_fold_op sign, fac_tensor *values, fac_tensor *indices) {
    k_fold f;
    if (indices->numel == 0) return FAC_OK;
    fac_acc kind = fac__acc_of(dtype_of(self));
    FAC_TRY(plan(&f, self, fac__carried_mask(s), (fac_tensor *[]){values ? values : indices, indices}, true));
    f.op = (int32_t)sign;
    f.out_index = fac__data(indices);
    if (!values) f.out = NULL;
    if (f.parts > 1) return places_in_parts(&f, self, values, indices, kind, s->call->op);
    fac_cuda_run r = {.device = fac__cuda_index(self), .op = s->call->op};
    fac__cuda_reads(&r, self);
    fac__cuda_writes(&r, values);
    fac__cuda_writes(&r, indices);
    return launch_places(&r, &f, kind);
}

fac_status argmax_cuda(fac_structured *s, fac_tensor *self, fac_opt_int dim, bool keepdim) {
    (void)dim, (void)keepdim;
    return find(s, self, FAC_FOLD_MAX, NULL, s->out[0]);
}
fac_status argmin_cuda(fac_structured *s, fac_tensor *self, fac_opt_int dim, bool keepdim) {
    (void)dim, (void)keepdim;
    return find(s, self, FAC_FOLD_MIN, NULL, s->out[0]);
}
fac_status max_dim_cuda(fac_structured *s, fac_tensor *self, int64_t dim, bool keepdim) {
    (void)dim, (void)keepdim;
    return find(s, self, FAC_FOLD_MAX, s->out[0], s->out[1]);
}
fac_status min_dim_cuda(fac_structured *s, fac_tensor *self, int64_t dim, bool keepdim) {
    (void)dim, (void)keepdim;
    return find(s, self, FAC_FOLD_MIN, s->out[0], s->out[1]);
}
