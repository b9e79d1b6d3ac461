/* Convolutions as matrix products over windows (im2col), for every dtype, layout of groups and number of dimensions.
   In the words of ops/conv.h, per image and group:

     to_small   small = W . im2col(large)      forward; gradient of a transposed convolution's input
     to_large   large = col2im(W^T . small)    transposed forward; gradient of a plain convolution's input
     to_weight  W     = small . im2col(large)^T

   Windows are made for some positions or channels at a time so that they stay in the L2 cache. Tasks are cut by shape
   alone and each adds in a fixed order; to_weight adds a fixed number of partial sums over the batch. Integers are summed
   in their own dtype, which wraps, bytes in i16, which is then cut to theirs. Halves are summed in f32; those that need
   windows become f32 before, unless they are bf16 and the processor multiplies it faster (fac__cpu_bf16_conv). Most
   convolutions of f32, and of bf16 that stays so, go elsewhere: where channels are innermost, or are many and put
   innermost, to conv_last.c and conv_winograd.c (AVX-512), else to oneDNN (conv_library.c). What comes back here is made
   row-major first. */
#include "backend/cpu/blas.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/im2col.h"
#include "backend/cpu/kernels/conv_last.h"
#include "backend/cpu/kernels/conv_library.h"
#include "backend/cpu/kernels/conv_winograd.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "ops/composite/below.h"
#include "ops_gen.h"

enum {
    WINDOW_BYTES = 1 << 19, /* of windows made at a time */
    MIN_POSITIONS = 128,    /* at a time: below, packing the weight again and again would cost more */
    ROWS = 256,             /* of windows (channels x taps) per task of to_large and to_weight */
    MOVED_CHANNELS = 32,    /* of either side from which it pays to put them last */
    WEIGHT_TASKS = 8        /* parallel tasks wanted of to_weight */
};

typedef struct conv_job {
    fac_conv c;
    fac_dtype dtype, sum; /* of the elements, of sums: f32 for f16 and bf16 */
    const char *weight;
    bool conj_weight, conj_small, conj_large;
    char *small, *large, *result; /* result: to_weight's partial sums */
    const char *bias;
    int64_t positions, steps; /* small positions per step */
    int64_t channels, blocks; /* large channels per task */
    int64_t parts;            /* to_weight: partial sums over the batch */
    int64_t products;         /* bytes of scratch for the products of a task */
    bool last, weight_last;   /* channels are innermost: for oneDNN alone */
} conv_job;

static inline size_t item(const conv_job *j) { return fac__dtype_size(j->dtype); }
static inline fac_dtype sum_type(fac_dtype d) { return fac__is_half(d) ? FAC_F32 : d; }
/* Windows are the large side itself: nothing to make. */
static bool is_pointwise(const fac_conv *c) {
    bool plain = c->taps == 1;
    for (int d = 0; d < FAC_CONV_DIMS; d++) plain = plain && c->stride[d] == 1 && c->padding[d] == 0;
    return plain && c->small_count == c->large_count;
}

/* What a computation in the format f takes in place of d. */
static fac_dtype computed_in(const fac_conv *c, fac_dtype d, fac_memory_format f) {
    if (d == FAC_U8 || d == FAC_I8) return FAC_I16; /* windows have no loops for bytes */
    const bool stays = (f == FAC_CONTIGUOUS && is_pointwise(c)) || (d == FAC_BF16 && fac__cpu_bf16_conv);
    return fac__is_half(d) && !stays ? FAC_F32 : d;
}

/* Of no channels there are no rows, and no work: only the bias is left. */
static void set_steps(conv_job *j, int64_t rows) {
    int64_t fit = WINDOW_BYTES / fac__max(1, rows * (int64_t)item(j));
    j->positions = fac__min(j->c.small_count, fac__max(fit / 32 * 32, MIN_POSITIONS));
    j->steps = fac__div_up(j->c.small_count, j->positions);
}
static void set_blocks(conv_job *j) {
    j->channels = fac__min(j->c.large, fac__max(1, ROWS / j->c.taps));
    j->blocks = fac__div_up(j->c.large, j->channels);
}

/* Start of one image and group on either side, at channel k of the group. */
static char *small_at(const conv_job *j, int64_t n, int64_t g, int64_t k) {
    return j->small + (size_t)(((n * j->c.groups + g) * j->c.small + k) * j->c.small_count) * item(j);
}
static char *large_at(const conv_job *j, int64_t n, int64_t g, int64_t k) {
    return j->large + (size_t)(((n * j->c.groups + g) * j->c.large + k) * j->c.large_count) * item(j);
}

/* ---- depthwise --------------------------------------------------------------------------------------------------------- */

static bool is_depthwise(const conv_job *j) {
    return j->c.small == 1 && j->c.large == 1 && (j->dtype == FAC_F32 || j->dtype == FAC_F64);
}

static const char *taps_of(const conv_job *j, const char *weight, int64_t g) {
    return weight + (size_t)(g * j->c.taps) * item(j);
}

static fac_status depthwise_small(void *ctx, int64_t begin, int64_t end) {
    const conv_job *j = ctx;
    for (int64_t t = begin; t < end; t++) {
        int64_t g = t % j->c.groups, n = t / j->c.groups;
        FAC_ISA_PICK(fac__depthwise_to_small)
        (&j->c, j->dtype, taps_of(j, j->weight, g), large_at(j, n, g, 0),
         j->bias ? j->bias + (size_t)g * item(j) : NULL, small_at(j, n, g, 0));
    }
    return FAC_OK;
}

static fac_status depthwise_large(void *ctx, int64_t begin, int64_t end) {
    const conv_job *j = ctx;
    for (int64_t t = begin; t < end; t++) {
        int64_t g = t % j->c.groups, n = t / j->c.groups;
        FAC_ISA_PICK(fac__depthwise_to_large)
        (&j->c, j->dtype, taps_of(j, j->weight, g), small_at(j, n, g, 0),
         j->bias ? j->bias + (size_t)g * item(j) : NULL, large_at(j, n, g, 0));
    }
    return FAC_OK;
}

/* A task is a group: its planes are added in the order of the batch. */
static fac_status depthwise_weight(void *ctx, int64_t begin, int64_t end) {
    const conv_job *j = ctx;
    for (int64_t g = begin; g < end; g++) {
        char *to = j->result + (size_t)(g * j->c.taps) * item(j);
        memset(to, 0, (size_t)j->c.taps * item(j));
        for (int64_t n = 0; n < j->c.batch; n++)
            FAC_ISA_PICK(fac__depthwise_to_weight)(&j->c, j->dtype, small_at(j, n, g, 0), large_at(j, n, g, 0), to);
    }
    return FAC_OK;
}

static fac_status depthwise(conv_job *j, fac_range_fn fn, int64_t tasks) {
    int64_t work = j->c.taps * j->c.small_count + j->c.large_count;
    return fac__parallel_for(0, tasks, fac__grain(FAC_GRAIN, work), fn, j);
}

/* ---- products of tasks ------------------------------------------------------------------------------------------------ */

/* Splits a task's scratch in that of its products, and the rest. */
static char *beside_products(const conv_job *j, char *scratch) { return scratch + j->products; }
static fac_workspace products(const conv_job *j, char *scratch) { return (fac_workspace){scratch, j->products}; }

/* Runs tasks whose products are at most m x n x k, with `bytes` of scratch beside these. A task alone leaves the threads to
   its products. */
static fac_status run_tasks(conv_job *j, int64_t tasks, int64_t grain, int64_t m, int64_t n, int64_t k, int64_t bytes,
                            fac_scratch_fn fn) {
    const fac_gemm most = {.dtype = j->dtype, .c_dtype = j->sum, .batch = 1, .m = m, .n = n, .k = k, .c_col = 1};
    j->products = fac__workspace_round(fac__gemm_scratch(&most, tasks == 1 ? fac_num_threads() : 1));
    return fac__parallel_for_scratch(0, tasks, grain, j->products + bytes, fn, j);
}

/* ---- to_small ------------------------------------------------------------------------------------------------------- */

/* Rows of C set to the bias of their channel, to which the product is then added. */
static void fill_bias(const conv_job *j, int64_t g, char *c, int64_t n) {
    for (int64_t k = 0; k < j->c.small; k++, c += (size_t)j->c.small_count * item(j))
        fac__items_fill(item(j), c, (int64_t)item(j), j->bias + (size_t)(g * j->c.small + k) * item(j), n);
}

static fac_status to_small_task(const conv_job *j, int64_t task, char *scratch) {
    const fac_conv *c = &j->c;
    char *windows = is_pointwise(c) ? NULL : beside_products(j, scratch);
    int64_t step = task % j->steps, g = task / j->steps % c->groups, n = task / j->steps / c->groups;
    int64_t begin = step * j->positions, end = fac__min(begin + j->positions, c->small_count),
            rows = c->large * c->taps;
    fac_gemm p = {.dtype = j->dtype, .batch = 1, .m = c->small, .n = end - begin, .k = rows, .alpha = fac_scalar_i_(1)};
    p.a = (fac_gemm_matrix){j->weight + (size_t)(g * c->small * rows) * item(j), rows, 1, 0, j->conj_weight};
    if (windows) {
        FAC_ISA_PICK(fac__im2col)(c, item(j), large_at(j, n, g, 0), c->large, begin, end, windows);
        p.b = (fac_gemm_matrix){windows, end - begin, 1, 0, false};
    } else {
        p.b = (fac_gemm_matrix){large_at(j, n, g, 0) + (size_t)begin * item(j), c->large_count, 1, 0, false};
    }
    p.c = small_at(j, n, g, 0) + (size_t)begin * item(j);
    p.c_row = c->small_count;
    p.c_col = 1;
    p.beta = fac_scalar_i_(j->bias != NULL);
    if (j->bias) fill_bias(j, g, p.c, end - begin);
    p.scratch = products(j, scratch);
    return fac__gemm(&p);
}

static fac_status to_small_range(void *ctx, int64_t begin, int64_t end, void *scratch) {
    for (int64_t t = begin; t < end; t++) FAC_TRY(to_small_task(ctx, t, scratch));
    return FAC_OK;
}

/* Without windows to make, our own products are faster, but for channels that are innermost. */
static bool library_takes(const fac_conv *c, fac_conv_side result, fac_dtype d, bool last) {
    const bool takes = d == FAC_F32 || (d == FAC_BF16 && fac__cpu_bf16_conv);
    if (is_pointwise(c) && !(d == FAC_F32 && last)) return false;
    return takes && fac__conv_library_suits(c, result);
}

/* weight: the one to be computed, else NULL. */
static fac_conv_arrays arrays_of(const conv_job *j, char *weight) {
    fac_conv_arrays a = {.bias = j->bias, .bf16 = j->dtype == FAC_BF16, .last = j->last, .weight_last = j->weight_last};
    a.side[FAC_CONV_SMALL] = j->small;
    a.side[FAC_CONV_LARGE] = j->large;
    a.side[FAC_CONV_WEIGHT] = weight ? weight : (char *)(uintptr_t)j->weight;
    return a;
}

/* Through oneDNN, if that is the faster way; weight: as above. */
static fac_status by_library(const conv_job *j, fac_conv_side result, char *weight, bool *done) {
    *done = false;
    if (!library_takes(&j->c, result, j->dtype, j->last)) return FAC_OK;
    const fac_conv_arrays a = arrays_of(j, weight);
    return fac__conv_library(&j->c, result, &a, done);
}

static fac_status to_small(conv_job *j) {
    bool done;
    FAC_TRY(by_library(j, FAC_CONV_SMALL, NULL, &done));
    if (done) return FAC_OK;
    if (is_depthwise(j)) return depthwise(j, depthwise_small, j->c.batch * j->c.groups);
    const int64_t rows = j->c.large * j->c.taps;
    set_steps(j, rows);
    const int64_t work = j->c.small * rows * j->positions;
    const int64_t windows = is_pointwise(&j->c) ? 0 : rows * j->positions * (int64_t)item(j);
    return run_tasks(j, j->c.batch * j->c.groups * j->steps, fac__grain(FAC_GRAIN, work), j->c.small, j->positions,
                     rows, windows, to_small_range);
}

/* ---- to_large ------------------------------------------------------------------------------------------------------- */

/* out[k][i] = sum[k][i] + bias[k] for one task's channels, rounded to the dtype. */
static void store_large(const conv_job *j, const char *sum, char *out, int64_t first_channel, int64_t channels) {
    int64_t n = j->c.large_count;
    size_t sum_item = fac__dtype_size(j->sum);
    for (int64_t k = 0; k < channels; k++) {
        double re_im[2], z[2] = {0, 0};
        const char *at = j->bias ? j->bias + (size_t)(first_channel + k) * item(j) : NULL;
        if (at) fac__scalar_c128(fac__load(at, j->dtype, re_im), z);
        const bool whole = fac_dtype_is_integral(j->dtype, false);
        const uint64_t bias = at && whole ? (uint64_t)fac__scalar_i64(fac__load(at, j->dtype, re_im)) : 0;
        const char *s = sum + (size_t)(k * n) * sum_item;
        char *o = out + (size_t)(k * n) * item(j);
        for (int64_t i = 0; i < n; i++) switch (j->dtype) {
            case FAC_F16:
                ((uint16_t *)(void *)o)[i] = fac__f32_to_f16(((const float *)(const void *)s)[i] + (float)z[0]);
                break;
            case FAC_BF16:
                ((uint16_t *)(void *)o)[i] = fac__f32_to_bf16(((const float *)(const void *)s)[i] + (float)z[0]);
                break;
            case FAC_F64: ((double *)(void *)o)[i] = ((const double *)(const void *)s)[i] + z[0]; break;
            case FAC_I16: ((uint16_t *)(void *)o)[i] = (uint16_t)(((const uint16_t *)(const void *)s)[i] + bias); break;
            case FAC_I32: ((uint32_t *)(void *)o)[i] = (uint32_t)(((const uint32_t *)(const void *)s)[i] + bias); break;
            case FAC_I64: ((uint64_t *)(void *)o)[i] = ((const uint64_t *)(const void *)s)[i] + bias; break;
            case FAC_C64:
                ((float *)(void *)o)[2 * i] = ((const float *)(const void *)s)[2 * i] + (float)z[0];
                ((float *)(void *)o)[2 * i + 1] = ((const float *)(const void *)s)[2 * i + 1] + (float)z[1];
                break;
            case FAC_C128:
                ((double *)(void *)o)[2 * i] = ((const double *)(const void *)s)[2 * i] + z[0];
                ((double *)(void *)o)[2 * i + 1] = ((const double *)(const void *)s)[2 * i + 1] + z[1];
                break;
            default: ((float *)(void *)o)[i] = ((const float *)(const void *)s)[i] + (float)z[0]; break;
            }
    }
}

static int64_t large_windows_bytes(const conv_job *j) {
    return fac__workspace_round(j->channels * j->c.taps * j->positions * fac__dtype_size(j->sum));
}

static fac_status to_large_task(const conv_job *j, int64_t task, char *scratch) {
    const fac_conv *c = &j->c;
    char *windows = beside_products(j, scratch), *sum = windows + large_windows_bytes(j);
    int64_t k = task % j->blocks * j->channels, g = task / j->blocks % c->groups, n = task / j->blocks / c->groups;
    int64_t channels = fac__min(j->channels, c->large - k), depth = c->large * c->taps;
    fac_gemm p = {.dtype = j->dtype, .c_dtype = j->sum, .batch = 1, .m = channels * c->taps, .k = c->small};
    p.alpha = fac_scalar_i_(1);
    p.beta = fac_scalar_i_(0);
    p.a = (fac_gemm_matrix){j->weight + (size_t)(g * c->small * depth + k * c->taps) * item(j), 1, depth, 0,
                            j->conj_weight};
    p.c_col = 1;
    memset(sum, 0, (size_t)(channels * c->large_count) * fac__dtype_size(j->sum));
    for (int64_t begin = 0; begin < c->small_count; begin += j->positions) {
        int64_t end = fac__min(begin + j->positions, c->small_count);
        p.n = p.c_row = end - begin;
        p.b = (fac_gemm_matrix){small_at(j, n, g, 0) + (size_t)begin * item(j), c->small_count, 1, 0, false};
        p.c = windows;
        p.scratch = products(j, scratch);
        FAC_TRY(fac__gemm(&p));
        FAC_ISA_PICK(fac__col2im)(c, j->sum, windows, channels, begin, end, sum);
    }
    store_large(j, sum, large_at(j, n, g, k), g * c->large + k, channels);
    return FAC_OK;
}

static fac_status to_large_range(void *ctx, int64_t begin, int64_t end, void *scratch) {
    for (int64_t t = begin; t < end; t++) FAC_TRY(to_large_task(ctx, t, scratch));
    return FAC_OK;
}

static fac_status to_large(conv_job *j) {
    bool done;
    FAC_TRY(by_library(j, FAC_CONV_LARGE, NULL, &done));
    if (done) return FAC_OK;
    if (is_depthwise(j)) return depthwise(j, depthwise_large, j->c.batch * j->c.groups);
    set_blocks(j);
    set_steps(j, j->channels * j->c.taps);
    const int64_t work = j->channels * j->c.taps * j->c.small * j->c.small_count;
    const int64_t sums = j->channels * j->c.large_count * fac__dtype_size(j->sum);
    return run_tasks(j, j->c.batch * j->c.groups * j->blocks, fac__grain(FAC_GRAIN, work), j->channels * j->c.taps,
                     j->positions, j->c.small, large_windows_bytes(j) + sums, to_large_range);
}

/* ---- to_weight ------------------------------------------------------------------------------------------------------- */

static fac_status to_weight_step(const conv_job *j, fac_gemm *p, int64_t n, int64_t g, int64_t k, int64_t begin,
                                 char *scratch) {
    const fac_conv *c = &j->c;
    char *windows = is_pointwise(c) ? NULL : beside_products(j, scratch);
    int64_t channels = p->n / c->taps, end = fac__min(begin + j->positions, c->small_count);
    p->k = end - begin;
    p->a = (fac_gemm_matrix){small_at(j, n, g, 0) + (size_t)begin * item(j), c->small_count, 1, 0, j->conj_small};
    if (windows) {
        FAC_ISA_PICK(fac__im2col)(c, item(j), large_at(j, n, g, k), channels, begin, end, windows);
        p->b = (fac_gemm_matrix){windows, 1, end - begin, 0, j->conj_large};
    } else {
        p->b = (fac_gemm_matrix){large_at(j, n, g, k) + (size_t)begin * item(j), 1, c->large_count, 0, j->conj_large};
    }
    p->scratch = products(j, scratch);
    fac_status st = fac__gemm(p);
    p->beta = fac_scalar_i_(1);
    return st;
}

/* One group, block of channels and part of the batch: partial sums [small, channels * taps]. */
static fac_status to_weight_task(const conv_job *j, int64_t task, char *scratch) {
    const fac_conv *c = &j->c;
    int64_t part = task % j->parts, k = task / j->parts % j->blocks * j->channels, g = task / j->parts / j->blocks;
    int64_t channels = fac__min(j->channels, c->large - k), depth = c->large * c->taps;
    fac_gemm p = {.dtype = j->dtype, .c_dtype = j->sum, .batch = 1, .m = c->small, .n = channels * c->taps};
    p.alpha = fac_scalar_i_(1);
    p.beta = fac_scalar_i_(0);
    p.c = j->result + (size_t)((part * c->groups + g) * c->small * depth + k * c->taps) * fac__dtype_size(j->sum);
    p.c_row = depth;
    p.c_col = 1;
    for (int64_t n = c->batch * part / j->parts; n < c->batch * (part + 1) / j->parts; n++)
        for (int64_t begin = 0; begin < c->small_count; begin += j->positions)
            FAC_TRY(to_weight_step(j, &p, n, g, k, begin, scratch));
    return FAC_OK;
}

static fac_status to_weight_range(void *ctx, int64_t begin, int64_t end, void *scratch) {
    for (int64_t t = begin; t < end; t++) FAC_TRY(to_weight_task(ctx, t, scratch));
    return FAC_OK;
}

/* out = the parts' sum, in order, rounded to the dtype. */
static void add_parts(const conv_job *j, char *out, int64_t size) {
    int64_t width = fac_dtype_is_complex(j->dtype) ? 2 : 1, n = size * width;
    bool wide = j->sum == FAC_F64 || j->sum == FAC_C128;
    const float *f = (const void *)j->result;
    const double *d = (const void *)j->result;
    for (int64_t i = 0; i < n; i++) {
        double s = wide ? d[i] : 0;
        float t = wide ? 0 : f[i];
        for (int64_t p = 1; p < j->parts; p++) {
            if (wide)
                s += d[p * n + i];
            else
                t += f[p * n + i];
        }
        switch (j->dtype) {
        case FAC_F16: ((uint16_t *)(void *)out)[i] = fac__f32_to_f16(t); break;
        case FAC_BF16: ((uint16_t *)(void *)out)[i] = fac__f32_to_bf16(t); break;
        case FAC_F64:
        case FAC_C128: ((double *)(void *)out)[i] = s; break;
        default: ((float *)(void *)out)[i] = t; break;
        }
    }
}

static fac_status to_weight(conv_job *j, char *out) {
    const fac_conv *c = &j->c;
    int64_t size = c->groups * c->small * c->large * c->taps;
    bool done;
    FAC_TRY(by_library(j, FAC_CONV_WEIGHT, out, &done));
    if (done) return FAC_OK;
    if (is_depthwise(j)) {
        j->result = out;
        return depthwise(j, depthwise_weight, c->groups);
    }
    set_blocks(j);
    set_steps(j, j->channels * c->taps);
    j->parts = c->groups * j->blocks >= WEIGHT_TASKS ? 1 : fac__max(1, fac__min(c->batch, WEIGHT_TASKS));
    j->result = fac__alloc_array((size_t)(j->parts * size), fac__dtype_size(j->sum));
    if (!j->result) return fac_error();
    if (c->batch == 0) memset(j->result, 0, (size_t)(j->parts * size) * fac__dtype_size(j->sum));
    const int64_t width = j->channels * c->taps;
    const int64_t windows = is_pointwise(c) ? 0 : width * j->positions * (int64_t)item(j);
    fac_status st =
        run_tasks(j, c->groups * j->blocks * j->parts, 1, c->small, width, j->positions, windows, to_weight_range);
    if (st == FAC_OK) add_parts(j, out, size);
    fac__free(j->result);
    j->result = NULL;
    return st;
}

/* ---- bias ------------------------------------------------------------------------------------------------------------- */

/* out[k] = sum over batch and positions of grad[n][k][:], as products with ones, then over the batch in order. last: of
   grad[n][:][k]. */
static fac_status to_bias(const fac_tensor *grad, const fac_conv *c, bool last, fac_tensor *out) {
    const fac_dtype dtype = (fac_dtype)grad->dtype, sum = sum_type(dtype);
    int64_t channels = out->numel, count = c->transposed ? c->large_count : c->small_count;
    size_t size = fac__dtype_size(dtype), sum_size = fac__dtype_size(sum);
    char *ones = fac__alloc_array((size_t)count, size);
    char *rows = ones ? fac__alloc_array((size_t)fac__max(1, c->batch * channels), sum_size) : NULL;
    fac_status st = rows ? FAC_OK : fac_error();
    if (st == FAC_OK) {
        for (int64_t i = 0; i < count; i++) fac__store(ones + (size_t)i * size, dtype, fac_scalar_i_(1));
        fac_gemm p = {.dtype = dtype, .c_dtype = sum, .batch = c->batch, .m = channels, .n = 1, .k = count};
        p.a = (fac_gemm_matrix){fac__data(grad), last ? 1 : count, last ? channels : 1, channels * count, false};
        p.b = (fac_gemm_matrix){ones, 1, 1, 0, false};
        p.c = rows;
        p.c_row = p.c_col = 1;
        p.c_batch = channels;
        p.alpha = fac_scalar_i_(1);
        p.beta = fac_scalar_i_(0);
        st = fac__gemm(&p);
    }
    char *at = fac__data(out);
    const size_t item = fac__dtype_size((fac_dtype)out->dtype);
    for (int64_t k = 0; k < channels && st == FAC_OK; k++) {
        double total[2] = {0, 0}, z[2], re_im[2];
        for (int64_t n = 0; n < c->batch; n++) {
            fac__scalar_c128(fac__load(rows + (size_t)(n * channels + k) * sum_size, sum, re_im), z);
            total[0] += z[0];
            total[1] += z[1];
        }
        fac_scalar v = fac_dtype_is_complex(dtype) ? fac_scalar_c_(total) : fac_scalar_f_(total[0]);
        fac__store(at + (size_t)k * item, (fac_dtype)out->dtype, v);
    }
    fac__free(rows);
    fac__free(ones);
    return st;
}

/* ---- kernels ------------------------------------------------------------------------------------------------------------ */

/* One of the three arrays of a call, from the others. */
typedef struct one_side {
    const fac_conv *c;
    fac_conv_side result;
    fac_tensor *from[FAC_CONV_SIDES]; /* NULL at the result */
    fac_tensor *bias, *out;
    fac_dtype dtype; /* computed in */
    bool gradient;
} one_side;

/* Operands in the formats of a computation, owned. */
typedef struct operands {
    fac_tensor *side[FAC_CONV_SIDES], *bias;
} operands;

static fac_status operand_make(fac_tensor *t, fac_dtype dtype, fac_memory_format f, fac_tensor **out) {
    if (!t || (fac_dtype)t->dtype == dtype) return fac__in_format_below(t, f, out);
    FAC_TRY(fac__empty_format(t->sizes, t->ndim, dtype, t->device, f, out));
    const fac_status st = fac__copy_below(*out, t);
    if (st == FAC_OK) return FAC_OK;
    fac__unref(*out);
    *out = NULL;
    return st;
}

/* A row-major weight may stay as it is. */
static fac_status operands_make(const one_side *o, fac_memory_format f, operands *to) {
    for (int i = 0; i < FAC_CONV_SIDES; i++) {
        fac_tensor *t = o->from[i];
        const bool stays = t && i == FAC_CONV_WEIGHT && fac__is_contiguous(t);
        FAC_TRY(operand_make(t, o->dtype, stays ? FAC_CONTIGUOUS : f, &to->side[i]));
    }
    return operand_make(o->bias, o->dtype, FAC_CONTIGUOUS, &to->bias);
}
static void operands_free(operands *o) {
    for (int i = 0; i < FAC_CONV_SIDES; i++) fac__unref(o->side[i]);
    fac__unref(o->bias);
}

/* The result in that format and in the dtype of the computation, until fac__rowmajor_end. */
static fac_status result_begin(const one_side *o, fac_memory_format f, fac_rowmajor *to) {
    fac_tensor *out = o->out;
    if ((fac_dtype)out->dtype == o->dtype) return fac__formatted_begin(out, f, to);
    *to = (fac_rowmajor){.target = out};
    return fac__empty_format(out->sizes, out->ndim, o->dtype, out->device, f, &to->t);
}

static conv_job job_of(const one_side *o, const operands *from, const fac_tensor *out, bool last) {
    const fac_dtype d = (fac_dtype)out->dtype;
    const fac_tensor *weight = o->result == FAC_CONV_WEIGHT ? out : from->side[FAC_CONV_WEIGHT];
    conv_job j = {.c = *o->c, .dtype = d, .sum = sum_type(d), .bias = from->bias ? fac__data(from->bias) : NULL};
    char *data[FAC_CONV_SIDES];
    for (int i = 0; i < FAC_CONV_SIDES; i++) data[i] = i == (int)o->result ? fac__data(out) : fac__data(from->side[i]);
    j.small = data[FAC_CONV_SMALL], j.large = data[FAC_CONV_LARGE], j.weight = data[FAC_CONV_WEIGHT];
    j.conj_weight = o->gradient;
    j.conj_small = o->gradient && o->c->transposed;
    j.conj_large = o->gradient && !o->c->transposed;
    j.last = last;
    j.weight_last = last && !fac__is_contiguous(weight);
    return j;
}

static bool last_takes(const one_side *o) {
    return fac__conv_last_suits(o->c, o->result, o->dtype) || library_takes(o->c, o->result, o->dtype, true);
}

/* From innermost channels to innermost channels; *done says whether that is the faster way. */
static fac_status compute_last(const one_side *o, const operands *from, fac_memory_format f, bool *done) {
    fac_rowmajor to;
    FAC_TRY(result_begin(o, f, &to));
    conv_job j = job_of(o, from, to.t, true);
    fac_status st = FAC_OK;
    if (fac__conv_last_suits(o->c, o->result, j.dtype)) {
        const bool weight = o->result == FAC_CONV_WEIGHT;
        const fac_conv_arrays a = arrays_of(&j, weight ? fac__data(to.t) : NULL);
        if (fac__conv_winograd_suits(o->c, o->result, j.dtype)) st = fac__conv_winograd(o->c, o->result, &a, done);
        if (*done || st != FAC_OK) return fac__rowmajor_end(&to, st);
        st = weight ? fac__conv_last_weight(o->c, &a, done) : fac__conv_last(o->c, o->result, &a, done);
    }
    if (!*done && st == FAC_OK)
        st = by_library(&j, o->result, o->result == FAC_CONV_WEIGHT ? fac__data(to.t) : NULL, done);
    if (*done || st != FAC_OK) return fac__rowmajor_end(&to, st);
    if (to.t != o->out) fac__unref(to.t);
    return FAC_OK;
}

static fac_status compute_row_major(const one_side *o, const operands *from) {
    fac_rowmajor to;
    FAC_TRY(result_begin(o, FAC_CONTIGUOUS, &to));
    conv_job j = job_of(o, from, to.t, false);
    return fac__rowmajor_end(&to, o->result == FAC_CONV_SMALL   ? to_small(&j)
                                  : o->result == FAC_CONV_LARGE ? to_large(&j)
                                                                : to_weight(&j, fac__data(to.t)));
}

/* Row-major images that are worth putting their channels last, and back. */
static bool should_move(const one_side *o) {
    const fac_conv *c = o->c;
    const fac_dtype d = o->dtype;
    if (c->nd == 1 || !c->batched || fac__min(c->small, c->large) < MOVED_CHANNELS) return false;
    return fac__conv_winograd_suits(c, o->result, d) ||
           (d == FAC_BF16 && !is_pointwise(c) && fac__conv_last_suits(c, o->result, d));
}

/* f: the format of the call's results. */
static fac_status compute(const one_side *o, fac_memory_format f) {
    bool done = false;
    fac_status st = FAC_OK;
    if (o->out->numel == 0) return FAC_OK;
    if (f == FAC_CONTIGUOUS && should_move(o)) f = o->c->nd == 3 ? FAC_CHANNELS_LAST_3D : FAC_CHANNELS_LAST;
    if (fac__is_channels_last(f) && last_takes(o)) {
        operands from = {0};
        st = operands_make(o, f, &from);
        if (st == FAC_OK) st = compute_last(o, &from, f, &done);
        operands_free(&from);
    }
    if (done || st != FAC_OK) return st;
    operands from = {0};
    st = operands_make(o, FAC_CONTIGUOUS, &from);
    if (st == FAC_OK) st = compute_row_major(o, &from);
    operands_free(&from);
    return st;
}

fac_status convolution_cpu(fac_structured *s, fac_tensor *input, fac_tensor *weight, fac_tensor *bias, fac_ints stride,
                           fac_ints padding, fac_ints dilation, bool transposed, fac_ints output_padding,
                           int64_t groups) {
    fac_conv_args args = {stride, padding, dilation, output_padding, transposed, groups};
    fac_conv c;
    FAC_TRY(fac__conv_plan(input, weight, bias, &args, &c));
    const fac_memory_format f = fac__conv_format(input, weight);
    one_side o = {.c = &c, .result = transposed ? FAC_CONV_LARGE : FAC_CONV_SMALL, .bias = bias, .out = s->out[0]};
    o.dtype = computed_in(&c, (fac_dtype)input->dtype, f);
    o.from[transposed ? FAC_CONV_SMALL : FAC_CONV_LARGE] = input;
    o.from[FAC_CONV_WEIGHT] = weight;
    return compute(&o, f);
}

/* Gradients of input (out[0]), weight (out[1]) and bias (out[2]), where wanted. grad and input are as operand_make makes them. */
static fac_status backward(const fac_conv *c, fac_tensor *grad, fac_tensor *input, fac_tensor *weight,
                           fac_memory_format f, fac_tensor *const *out) {
    const fac_conv_side of_input = c->transposed ? FAC_CONV_SMALL : FAC_CONV_LARGE,
                        of_grad = c->transposed ? FAC_CONV_LARGE : FAC_CONV_SMALL;
    const fac_dtype d = (fac_dtype)grad->dtype;
    one_side to_input = {.c = c, .result = of_input, .out = out[0], .dtype = d, .gradient = true};
    one_side weights = {.c = c, .result = FAC_CONV_WEIGHT, .out = out[1], .dtype = d, .gradient = true};
    to_input.from[of_grad] = weights.from[of_grad] = grad;
    to_input.from[FAC_CONV_WEIGHT] = weight;
    weights.from[of_input] = input;
    if (out[0]) FAC_TRY(compute(&to_input, f));
    if (out[1]) FAC_TRY(compute(&weights, f));
    return out[2] ? to_bias(grad, c, fac__is_channels_last(f), out[2]) : FAC_OK;
}

fac_status convolution_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *input, fac_tensor *weight,
                                    fac_ints bias_sizes, fac_ints stride, fac_ints padding, fac_ints dilation,
                                    bool transposed, fac_ints output_padding, int64_t groups, fac_ints output_mask) {
    (void)bias_sizes;
    (void)output_mask;
    fac_conv_args args = {stride, padding, dilation, output_padding, transposed, groups};
    fac_conv c;
    FAC_TRY(fac__conv_plan(input, weight, NULL, &args, &c));
    const bool may_be_last = fac__is_half((fac_dtype)input->dtype) || input->dtype == FAC_F32;
    const fac_memory_format f = may_be_last ? fac__conv_format(input, weight) : FAC_CONTIGUOUS;
    const fac_dtype d = computed_in(&c, (fac_dtype)input->dtype, f);
    fac_tensor *grad = NULL, *image = NULL;
    fac_status st = operand_make(grad_output, d, f, &grad);
    if (st == FAC_OK) st = operand_make(input, d, f, &image);
    if (st == FAC_OK) st = backward(&c, grad, image, weight, f, s->out);
    fac__unref(grad);
    fac__unref(image);
    return st;
}
