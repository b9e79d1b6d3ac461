/* Fourier transforms: cuFFT over up to three dimensions at a time, of row-major arrays, whose dimensions are permuted so that those
   to be transformed come last. The scale follows the last of these steps. */
#include "backend/cuda/kernels/fft.h"
#include "backend/cuda/ops/run.h"
#include "backend/cuda/ops/transfer.h"
#include "backend/cuda/runtime/fft.h"
#include "core/tensor_make.h"
#include "ops/structured.h"
#include "ops_gen.h"
#include <math.h>

extern fac_cuda_kernel FAC_CUDA_KERNEL(fft_scale_f32), FAC_CUDA_KERNEL(fft_scale_f64), FAC_CUDA_KERNEL(fft_mirror_f32),
    FAC_CUDA_KERNEL(fft_mirror_f64), FAC_CUDA_KERNEL(fft_ends_f32), FAC_CUDA_KERNEL(fft_ends_f64);

/* Dimensions that one plan transforms. */
typedef struct step {
    int dims[FAC_CUDA_FFT_RANK], rank;
    fac_cuda_fft_kind kind;
} step;

typedef struct transform {
    const fac_operator *op;
    step v[FAC_MAX_DIMS];
    int n;
    bool forward, two_sided, wide;
    double scale;
} transform;

/* ---- kernels ---------------------------------------------------------------------------------------------------------------- */

static fac_cuda_run run_of(const transform *t, fac_cuda_kernel *narrow, fac_cuda_kernel *wide, const fac_tensor *on) {
    return (fac_cuda_run){.kernel = t->wide ? wide : narrow, .device = fac__cuda_index(on), .op = t->op};
}

static fac_status scale(const transform *t, fac_tensor *x) {
    void *data = fac__data(x);
    double by = t->scale;
    int64_t n = x->numel * (fac_dtype_is_complex((fac_dtype)x->dtype) ? 2 : 1);
    if (by == 1) return FAC_OK;
    fac_cuda_run r = run_of(t, &FAC_CUDA_KERNEL(fft_scale_f32), &FAC_CUDA_KERNEL(fft_scale_f64), x);
    fac__cuda_updates(&r, x);
    return fac__cuda_run_items(&r, FAC_CUDA_ARGS(&data, &n, &by), n);
}

static fac_status mirror(const transform *t, const fac_cuda_fft *what, fac_tensor *half, fac_tensor *out) {
    void *to = fac__data(out), *from = fac__data(half);
    k_fft g = {.n = {1, 1, 1}, .elements = out->numel};
    for (int d = 0; d < what->rank; d++) g.n[3 - what->rank + d] = what->n[d];
    fac_cuda_run r = run_of(t, &FAC_CUDA_KERNEL(fft_mirror_f32), &FAC_CUDA_KERNEL(fft_mirror_f64), out);
    fac__cuda_reads(&r, half);
    fac__cuda_writes(&r, out);
    return fac__cuda_run_items(&r, FAC_CUDA_ARGS(&to, &from, &g), g.elements);
}

/* cuFFT may look at what should be zero. */
static fac_status clear_ends(const transform *t, const fac_cuda_fft *what, fac_tensor *half) {
    void *data = fac__data(half);
    int64_t lines = what->batch, n = what->n[0];
    fac_cuda_run r = run_of(t, &FAC_CUDA_KERNEL(fft_ends_f32), &FAC_CUDA_KERNEL(fft_ends_f64), half);
    fac__cuda_updates(&r, half);
    return fac__cuda_run_items(&r, FAC_CUDA_ARGS(&data, &lines, &n), lines);
}

/* ---- one step --------------------------------------------------------------------------------------------------------------- */

/* All dimensions in order, those of the step last. */
static void order_of(const step *s, int ndim, int *out) {
    int n = 0;
    for (int d = 0; d < ndim; d++) {
        bool transformed = false;
        for (int i = 0; i < s->rank; i++) transformed = transformed || s->dims[i] == d;
        if (!transformed) out[n++] = d;
    }
    for (int i = 0; i < s->rank; i++) out[n++] = s->dims[i];
}

static fac_status permuted(fac_tensor *t, const int *order, fac_tensor **out) {
    int64_t sizes[FAC_MAX_DIMS], strides[FAC_MAX_DIMS];
    for (int d = 0; d < t->ndim; d++) sizes[d] = t->sizes[order[d]], strides[d] = t->strides[order[d]];
    return fac__view(t, sizes, strides, t->ndim, t->offset, false, out);
}

/* Row-major, and not memory of t's if it may be spoiled. */
static fac_status operand(fac_tensor *t, bool spoiled, fac_tensor **out) {
    if (!spoiled) return fac__cuda_contiguous(t, out);
    FAC_TRY(fac__empty(t->sizes, t->ndim, (fac_dtype)t->dtype, t->device, out));
    fac_status st = fac__cuda_copy_elements(*out, t);
    if (st != FAC_OK) fac__unref(*out);
    return st;
}

/* What cuFFT is asked for: the sizes of whichever side is not halved. */
static fac_cuda_fft describe(const transform *t, const step *s, const fac_tensor *in, const fac_tensor *out) {
    const fac_tensor *full = s->kind == FAC_CUDA_FFT_C2R ? out : in;
    fac_cuda_fft what = {.rank = s->rank, .kind = (int32_t)s->kind, .wide = t->wide, .batch = 1};
    const int first = full->ndim - s->rank;
    for (int d = 0; d < first; d++) what.batch *= full->sizes[d];
    for (int d = 0; d < s->rank; d++) what.n[d] = full->sizes[first + d];
    return what;
}

/* A real transform gives half of the points; the others follow from these. */
static fac_status two_sides(const transform *t, const fac_cuda_fft *what, fac_tensor *in, fac_tensor *out) {
    int64_t sizes[FAC_MAX_DIMS];
    fac_tensor *half;
    memcpy(sizes, out->sizes, out->ndim * sizeof *sizes);
    sizes[out->ndim - 1] = sizes[out->ndim - 1] / 2 + 1;
    FAC_TRY(fac__empty(sizes, out->ndim, (fac_dtype)out->dtype, out->device, &half));
    fac_status st = fac__cuda_fft_run(what, true, in, half, t->op);
    if (st == FAC_OK) st = mirror(t, what, half, out);
    fac__unref(half);
    return st;
}

static fac_status transform_arrays(const transform *t, const step *s, fac_tensor *in, fac_tensor *out) {
    const fac_cuda_fft what = describe(t, s, in, out);
    if (s->kind == FAC_CUDA_FFT_R2C && t->two_sided) return two_sides(t, &what, in, out);
    if (s->kind == FAC_CUDA_FFT_C2R) FAC_TRY(clear_ends(t, &what, in));
    return fac__cuda_fft_run(&what, t->forward, in, out, t->op);
}

/* From one permuted tensor to another. */
static fac_status run_permuted(const transform *t, const step *s, fac_tensor *from, fac_tensor *home, bool last) {
    fac_tensor *in, *out;
    FAC_TRY(operand(from, s->kind == FAC_CUDA_FFT_C2R, &in));
    fac_status st = fac__cuda_result(home, &out);
    if (st == FAC_OK) {
        st = transform_arrays(t, s, in, out);
        if (st == FAC_OK && last) st = scale(t, out);
        st = fac__cuda_result_done(home, out, st);
    }
    fac__unref(in);
    return st;
}

static fac_status run_step(const transform *t, const step *s, fac_tensor *from, fac_tensor *home, bool last) {
    int order[FAC_MAX_DIMS];
    fac_tensor *in = NULL, *out = NULL;
    order_of(s, from->ndim, order);
    fac_status st = permuted(from, order, &in);
    if (st == FAC_OK) st = permuted(home, order, &out);
    if (st == FAC_OK) st = run_permuted(t, s, in, out, last);
    fac__unref(in);
    fac__unref(out);
    return st;
}

/* ---- all steps --------------------------------------------------------------------------------------------------------------- */

/* Where a step's result waits for the next one: of the sizes of `from`, or of `final` if it is there that sizes change; the
   dimensions of the step are innermost, so that it is written as it lies. */
static fac_status place_between(const step *s, const fac_tensor *from, const fac_tensor *final, fac_tensor **out) {
    const fac_tensor *like = s->kind == FAC_CUDA_FFT_R2C ? final : from;
    int order[FAC_MAX_DIMS];
    int64_t strides[FAC_MAX_DIMS], step = 1;
    order_of(s, like->ndim, order);
    for (int d = like->ndim; d-- > 0;) {
        strides[order[d]] = step;
        step *= like->sizes[order[d]];
    }
    return fac__empty_strided(like->sizes, strides, like->ndim, (fac_dtype)like->dtype, like->device, out);
}

static fac_status run_all(const transform *t, fac_tensor *self, fac_tensor *out) {
    fac_status st = FAC_OK;
    fac_tensor *from = fac__ref(self);
    for (int i = 0; i < t->n && st == FAC_OK; i++) {
        const bool last = i == t->n - 1;
        fac_tensor *to = NULL;
        if (last)
            to = fac__ref(out);
        else
            st = place_between(&t->v[i], from, out, &to);
        if (st == FAC_OK) st = run_step(t, &t->v[i], from, to, last);
        fac__unref(from);
        from = to;
    }
    fac__unref(from);
    return st;
}

static int most_of(fac_ints dims) { return dims.n < FAC_CUDA_FFT_RANK ? (int)dims.n : FAC_CUDA_FFT_RANK; }

/* Adds a step of dims[n - rank, n). */
static fac_status add(transform *t, fac_cuda_fft_kind kind, fac_ints dims, int ndim, int rank) {
    step *s = &t->v[t->n++];
    *s = (step){.rank = rank, .kind = kind};
    for (int i = 0; i < rank; i++) {
        int64_t d;
        FAC_TRY(fac__wrap_dim(dims.v[dims.n - (size_t)rank + (size_t)i], ndim, &d));
        s->dims[i] = (int)d;
    }
    return FAC_OK;
}

static fac_status add_complex(transform *t, fac_ints dims, int ndim) {
    while (dims.n > 0) {
        const int rank = most_of(dims);
        FAC_TRY(add(t, FAC_CUDA_FFT_C2C, dims, ndim, rank));
        dims.n -= (size_t)rank;
    }
    return FAC_OK;
}

/* 1, 1 / sqrt(n) or 1 / n, of the number n of points. */
static double scale_of(const fac_tensor *full, fac_ints dims, int64_t normalization) {
    double n = 1;
    for (size_t i = 0; i < dims.n; i++) n *= (double)full->sizes[dims.v[i] < 0 ? dims.v[i] + full->ndim : dims.v[i]];
    return normalization == 0 ? 1 : normalization == 1 ? 1 / sqrt(n) : 1 / n;
}

static transform transform_of(const fac_structured *s, const fac_tensor *full, fac_ints dims, int64_t normalization,
                              bool forward) {
    return (transform){.op = s->call->op,
                       .forward = forward,
                       .wide = full->dtype == FAC_F64 || full->dtype == FAC_C128,
                       .scale = scale_of(full, dims, normalization)};
}

fac_status fft_c2c_cuda(fac_structured *s, fac_tensor *self, fac_ints dim, int64_t normalization, bool forward) {
    if (s->out[0]->numel == 0) return FAC_OK;
    if (dim.n == 0) return fac__cuda_copy_elements(s->out[0], self);
    transform t = transform_of(s, self, dim, normalization, forward);
    FAC_TRY(add_complex(&t, dim, self->ndim));
    return run_all(&t, self, s->out[0]);
}

fac_status fft_r2c_cuda(fac_structured *s, fac_tensor *self, fac_ints dim, int64_t normalization, bool onesided) {
    if (s->out[0]->numel == 0) return FAC_OK;
    transform t = transform_of(s, self, dim, normalization, true);
    const int rank = most_of(dim);
    t.two_sided = !onesided;
    FAC_TRY(add(&t, FAC_CUDA_FFT_R2C, dim, self->ndim, rank));
    FAC_TRY(add_complex(&t, (fac_ints){dim.v, dim.n - (size_t)rank}, self->ndim));
    return run_all(&t, self, s->out[0]);
}

/* The last dimension by itself, as the others' transforms need not be Hermitian along it. */
fac_status fft_c2r_cuda(fac_structured *s, fac_tensor *self, fac_ints dim, int64_t normalization,
                        int64_t last_dim_size) {
    (void)last_dim_size;
    if (s->out[0]->numel == 0) return FAC_OK;
    transform t = transform_of(s, s->out[0], dim, normalization, false);
    FAC_TRY(add_complex(&t, (fac_ints){dim.v, dim.n - 1}, self->ndim));
    FAC_TRY(add(&t, FAC_CUDA_FFT_C2R, (fac_ints){dim.v, dim.n}, self->ndim, 1));
    return run_all(&t, self, s->out[0]);
}
