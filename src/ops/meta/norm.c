/* Shapes and dtypes of the normalisations. */
#include "ops/meta/norm.h"
#include "ops/meta/check.h"
#include "ops_gen.h"

static fac_dtype dtype_of(const fac_tensor *t) { return (fac_dtype)t->dtype; }

static fac_status check_same(const fac_tensor *grad_out, const fac_tensor *input) {
    FAC_CHECK(fac__same_sizes(grad_out, input), FAC_ERR_SHAPE, "grad_out %s and input %s must have the same sizes",
              FAC_SHAPE_TEXT(grad_out), FAC_SHAPE_TEXT(input));
    FAC_TRY(fac__need_floating("input", input));
    return fac__need_dtype("grad_out", grad_out, dtype_of(input));
}

static bool wanted(fac_ints mask, size_t i) { return i >= mask.n || mask.v[i] != 0; }

/* ---- dtypes of parameters and statistics ------------------------------------------------------------------------------ */

/* An argument that was given, or NULL, and how messages call it. */
typedef struct named {
    const char *name;
    const fac_tensor *t;
} named;

/* Parameters and running statistics are of one dtype: the input's, or float32 beside a half. It is put into *shared, the
   input's if none of them was given. */
static fac_status shared_dtype(const fac_tensor *input, const named *given, size_t n, fac_dtype *shared) {
    const named *first = NULL;
    *shared = dtype_of(input);
    for (const named *p = given; p < given + n; p++) {
        if (!p->t) continue;
        bool fits = p->t->dtype == input->dtype || (fac__is_half(dtype_of(input)) && p->t->dtype == FAC_F32);
        FAC_CHECK(fits, FAC_ERR_DTYPE, "%s must be %s, as input%s, got %s", p->name, fac_dtype_name(dtype_of(input)),
                  fac__is_half(dtype_of(input)) ? ", or float32" : "", fac_dtype_name(dtype_of(p->t)));
        if (!first) first = p;
        FAC_CHECK(p->t->dtype == first->t->dtype, FAC_ERR_DTYPE, "%s and %s must be of one dtype, got %s and %s",
                  first->name, p->name, fac_dtype_name(dtype_of(first->t)), fac_dtype_name(dtype_of(p->t)));
        *shared = dtype_of(first->t);
    }
    return FAC_OK;
}
#define SHARED_DTYPE(input, shared, ...) \
    shared_dtype(input, (const named[]){__VA_ARGS__}, FAC_COUNT(((const named[]){__VA_ARGS__})), shared)

/* The dtype of the mean and rstd of layer and batch norm: that of the parameters on the CPU, elsewhere float32 for halves.
   Group norm's have that of the parameters on every device. */
static fac_dtype saved_dtype(const fac_tensor *input, fac_dtype shared) {
    return input->device.type == FAC_CPU ? shared : fac__statistic_dtype(input);
}

/* The dtype of the parameters in a backward operator, which is not given the bias: where nothing else settles it, a
   statistic does. */
static fac_dtype settled_dtype(fac_dtype shared, bool settled, const fac_tensor *input, const fac_tensor *saved) {
    return !settled && fac__is_half(dtype_of(input)) && saved->dtype == FAC_F32 ? FAC_F32 : shared;
}

/* A statistic that the forward operator saved: of these sizes, in the type in which it was saved. */
static fac_status check_saved(const char *name, const fac_tensor *t, fac_dtype dtype, const int64_t *sizes, int ndim) {
    FAC_TRY(fac__need_sizes(name, t, sizes, ndim));
    return fac__need_dtype(name, t, dtype);
}

/* ---- layer and RMS norm -------------------------------------------------------------------------------------------- */

static fac_status check_parameter(const char *name, const fac_tensor *t, fac_ints shape) {
    FAC_CHECK(!t || fac__has_sizes(t, shape.v, (int)shape.n), FAC_ERR_SHAPE,
              "Expected %s to be of same shape as normalized_shape, but got %s of shape %s and normalized_shape = %s",
              name, name, FAC_SHAPE_TEXT(t), fac__shape_text(shape.v, (int)shape.n, (char[256]){0}, 256));
    return fac__need_floating(name, t);
}

static fac_status check_rows(const fac_tensor *input, fac_ints shape, const fac_tensor *weight,
                             const fac_tensor *bias) {
    FAC_TRY(fac__need_floating("input", input));
    FAC_CHECK(
        shape.n >= 1, FAC_ERR_SHAPE,
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []");
    FAC_TRY(check_parameter("weight", weight, shape));
    FAC_TRY(check_parameter("bias", bias, shape));
    size_t n = (size_t)input->ndim;
    bool fits = n >= shape.n && memcmp(input->sizes + (n - shape.n), shape.v, shape.n * sizeof *shape.v) == 0;
    FAC_CHECK(fits, FAC_ERR_SHAPE,
              "Given normalized_shape=%s, expected input with shape [*, %s, but got input of size%s",
              fac__shape_text(shape.v, (int)shape.n, (char[256]){0}, 256),
              fac__shape_text(shape.v, (int)shape.n, (char[256]){0}, 256) + 1, FAC_SHAPE_TEXT(input));
    return FAC_OK;
}

/* Sizes of a statistic per row: the normalised dimensions become 1. */
static void row_sizes(const fac_tensor *input, fac_ints shape, int64_t *sizes) {
    for (int d = 0; d < input->ndim; d++) sizes[d] = d < input->ndim - (int)shape.n ? input->sizes[d] : 1;
}

static fac_status declare_stat(fac_structured *s, int i, const fac_tensor *input, fac_dtype dtype, fac_ints shape) {
    int64_t sizes[FAC_MAX_DIMS];
    row_sizes(input, shape, sizes);
    return fac_out_declare(s, i, sizes, NULL, input->ndim, dtype, input->device);
}

static fac_status check_saved_rows(const char *name, const fac_tensor *t, const fac_tensor *input, fac_dtype dtype,
                                   fac_ints shape) {
    int64_t sizes[FAC_MAX_DIMS];
    row_sizes(input, shape, sizes);
    return check_saved(name, t, dtype, sizes, input->ndim);
}

static fac_status declare_row_major(fac_structured *s, int i, const fac_tensor *like) {
    return fac_out_declare(s, i, like->sizes, NULL, like->ndim, dtype_of(like), like->device);
}

fac_status native_layer_norm_meta(fac_structured *s, fac_tensor *input, fac_ints normalized_shape, fac_tensor *weight,
                                  fac_tensor *bias, double eps) {
    (void)eps;
    fac_dtype dtype;
    FAC_TRY(check_rows(input, normalized_shape, weight, bias));
    FAC_TRY(SHARED_DTYPE(input, &dtype, {"weight", weight}, {"bias", bias}));
    dtype = saved_dtype(input, dtype);
    FAC_TRY(declare_row_major(s, 0, input));
    FAC_TRY(declare_stat(s, 1, input, dtype, normalized_shape));
    return declare_stat(s, 2, input, dtype, normalized_shape);
}

static fac_status declare_parameter(fac_structured *s, int i, const fac_tensor *input, fac_dtype dtype,
                                    fac_ints shape) {
    return fac_out_declare(s, i, shape.v, NULL, (int)shape.n, dtype, input->device);
}

fac_status native_layer_norm_backward_meta(fac_structured *s, fac_tensor *grad_out, fac_tensor *input,
                                           fac_ints normalized_shape, fac_tensor *mean, fac_tensor *rstd,
                                           fac_tensor *weight, fac_tensor *bias, fac_ints output_mask) {
    fac_dtype dtype;
    FAC_TRY(check_same(grad_out, input));
    FAC_TRY(check_rows(input, normalized_shape, weight, bias));
    FAC_TRY(SHARED_DTYPE(input, &dtype, {"weight", weight}, {"bias", bias}));
    const fac_dtype saved = saved_dtype(input, dtype);
    FAC_TRY(check_saved_rows("mean", mean, input, saved, normalized_shape));
    FAC_TRY(check_saved_rows("rstd", rstd, input, saved, normalized_shape));
    if (wanted(output_mask, 0)) FAC_TRY(declare_row_major(s, 0, input));
    if (wanted(output_mask, 1)) FAC_TRY(declare_parameter(s, 1, input, dtype, normalized_shape));
    if (wanted(output_mask, 2)) FAC_TRY(declare_parameter(s, 2, input, dtype, normalized_shape));
    return FAC_OK;
}

fac_status _fused_rms_norm_meta(fac_structured *s, fac_tensor *input, fac_ints normalized_shape, fac_tensor *weight,
                                fac_opt_num eps) {
    (void)eps;
    FAC_TRY(check_rows(input, normalized_shape, weight, NULL));
    FAC_TRY(declare_row_major(s, 0, input));
    return declare_stat(s, 1, input, fac__statistic_dtype(input), normalized_shape);
}

fac_status _fused_rms_norm_backward_meta(fac_structured *s, fac_tensor *grad_out, fac_tensor *input,
                                         fac_ints normalized_shape, fac_tensor *rstd, fac_tensor *weight,
                                         fac_ints output_mask) {
    FAC_TRY(check_same(grad_out, input));
    FAC_TRY(check_rows(input, normalized_shape, weight, NULL));
    FAC_TRY(check_saved_rows("rstd", rstd, input, fac__statistic_dtype(input), normalized_shape));
    if (wanted(output_mask, 0)) FAC_TRY(declare_row_major(s, 0, input));
    if (wanted(output_mask, 1))
        FAC_TRY(declare_parameter(s, 1, input, dtype_of(weight ? weight : input), normalized_shape));
    return FAC_OK;
}

/* ---- batch norm ------------------------------------------------------------------------------------------------------ */

bool fac__channels_fastest(const fac_tensor *x) {
    int64_t expected = 1;
    if (x->ndim < 2 || x->sizes[1] < 2 || x->strides[1] != 1) return false;
    expected = x->sizes[1];
    for (int d = x->ndim - 1; d >= 0; d--) {
        if (d == 1 || x->sizes[d] == 1) continue;
        if (x->strides[d] != expected) return false;
        expected = fac__mul_or_max(expected, x->sizes[d]);
    }
    return true;
}

static fac_status check_channels(const char *name, const fac_tensor *t, int64_t channels) {
    FAC_TRY(fac__need_sizes(name, t, &channels, 1));
    return fac__need_floating(name, t);
}

static fac_status check_batch(const fac_tensor *input, const fac_tensor *weight, const fac_tensor *running_mean,
                              const fac_tensor *running_var, bool training) {
    FAC_TRY(fac__need_floating("input", input));
    FAC_CHECK(input->ndim >= 2, FAC_ERR_SHAPE, "expected input of at least 2 dimensions [N, C, ...], got %s",
              FAC_SHAPE_TEXT(input));
    FAC_CHECK(training || (running_mean && running_var), FAC_ERR_ARGUMENT,
              "Expected running_mean and running_var to be given when training=False");
    FAC_TRY(check_channels("weight", weight, input->sizes[1]));
    FAC_TRY(check_channels("running_mean", running_mean, input->sizes[1]));
    return check_channels("running_var", running_var, input->sizes[1]);
}

fac_status native_batch_norm_meta(fac_structured *s, fac_tensor *input, fac_tensor *weight, fac_tensor *bias,
                                  fac_tensor *running_mean, fac_tensor *running_var, bool training, double momentum,
                                  double eps) {
    (void)momentum, (void)eps;
    FAC_TRY(check_batch(input, weight, running_mean, running_var, training));
    FAC_TRY(check_channels("bias", bias, input->sizes[1]));
    fac_dtype dtype;
    FAC_TRY(SHARED_DTYPE(input, &dtype, {"weight", weight}, {"bias", bias}, {"running_mean", running_mean},
                         {"running_var", running_var}));
    dtype = saved_dtype(input, dtype);
    const int64_t stats[1] = {training ? input->sizes[1] : 0};
    FAC_TRY(fac_out_declare(s, 0, input->sizes, fac__channels_fastest(input) ? input->strides : NULL, input->ndim,
                            dtype_of(input), input->device));
    FAC_TRY(fac_out_declare(s, 1, stats, NULL, 1, dtype, input->device));
    return fac_out_declare(s, 2, stats, NULL, 1, dtype, input->device);
}

fac_status native_batch_norm_backward_meta(fac_structured *s, fac_tensor *grad_out, fac_tensor *input,
                                           fac_tensor *weight, fac_tensor *running_mean, fac_tensor *running_var,
                                           fac_tensor *save_mean, fac_tensor *save_invstd, bool train, double eps,
                                           fac_ints output_mask) {
    (void)eps;
    FAC_TRY(check_same(grad_out, input));
    FAC_TRY(check_batch(input, weight, running_mean, running_var, train));
    FAC_CHECK(!train || (save_mean && save_invstd), FAC_ERR_ARGUMENT,
              "save_mean and save_invstd are needed when train is true");
    fac_dtype dtype;
    FAC_TRY(
        SHARED_DTYPE(input, &dtype, {"weight", weight}, {"running_mean", running_mean}, {"running_var", running_var}));
    if (train) {
        bool settled = weight || running_mean || running_var || input->device.type != FAC_CPU;
        dtype = settled_dtype(dtype, settled, input, save_mean);
        const fac_dtype saved = saved_dtype(input, dtype);
        FAC_TRY(check_saved("save_mean", save_mean, saved, &input->sizes[1], 1));
        FAC_TRY(check_saved("save_invstd", save_invstd, saved, &input->sizes[1], 1));
    }
    const bool points = fac__channels_fastest(input);
    const fac_ints channels = {&input->sizes[1], 1};
    if (wanted(output_mask, 0))
        FAC_TRY(fac_out_declare(s, 0, input->sizes, points ? input->strides : NULL, input->ndim, dtype_of(input),
                                input->device));
    if (wanted(output_mask, 1)) FAC_TRY(declare_parameter(s, 1, input, dtype, channels));
    if (wanted(output_mask, 2)) FAC_TRY(declare_parameter(s, 2, input, dtype, channels));
    return FAC_OK;
}

/* ---- group norm ------------------------------------------------------------------------------------------------------- */

static fac_status check_groups(const fac_tensor *input, const fac_tensor *weight, int64_t N, int64_t C, int64_t HxW,
                               int64_t group) {
    int64_t n;
    FAC_TRY(fac__need_floating("input", input));
    FAC_CHECK(N >= 0 && C >= 0 && HxW >= 0 && fac__mul(N, C, &n) && fac__mul(n, HxW, &n) && n == input->numel,
              FAC_ERR_SHAPE, "input %s does not hold N * C * HxW = %lld * %lld * %lld elements", FAC_SHAPE_TEXT(input),
              (long long)N, (long long)C, (long long)HxW);
    FAC_CHECK(
        group > 0 && C % group == 0, FAC_ERR_SHAPE,
        "Expected number of channels in input to be divisible by num_groups, but got input of shape %s and num_groups=%lld",
        FAC_SHAPE_TEXT(input), (long long)group);
    FAC_CHECK(C > 0, FAC_ERR_SHAPE, "Expected number of channels to be greater than 0, got 0: input %s",
              FAC_SHAPE_TEXT(input));
    FAC_CHECK(HxW > 0, FAC_ERR_SHAPE, "Expected HxW to be greater than 0, got 0: input %s", FAC_SHAPE_TEXT(input));
    return check_channels("weight", weight, C);
}

/* Sizes may be given that are not those of the input, which are then of row-major elements. */
fac_memory_format fac__group_norm_format(const fac_tensor *input, int64_t n, int64_t c) {
    const bool images = input->ndim >= 2 && input->sizes[0] == n && input->sizes[1] == c;
    return images ? fac__format_of(input) : FAC_CONTIGUOUS;
}

static fac_status declare_group_norm(fac_structured *s, const fac_tensor *input, int64_t n, int64_t c) {
    return fac_out_declare_format(s, 0, input->sizes, input->ndim, dtype_of(input), input->device,
                                  fac__group_norm_format(input, n, c));
}

fac_status native_group_norm_meta(fac_structured *s, fac_tensor *input, fac_tensor *weight, fac_tensor *bias, int64_t N,
                                  int64_t C, int64_t HxW, int64_t group, double eps) {
    (void)eps;
    FAC_TRY(check_groups(input, weight, N, C, HxW, group));
    FAC_TRY(check_channels("bias", bias, C));
    fac_dtype dtype;
    FAC_TRY(SHARED_DTYPE(input, &dtype, {"weight", weight}, {"bias", bias}));
    const int64_t stats[2] = {N, group};
    FAC_TRY(declare_group_norm(s, input, N, C));
    FAC_TRY(fac_out_declare(s, 1, stats, NULL, 2, dtype, input->device));
    return fac_out_declare(s, 2, stats, NULL, 2, dtype, input->device);
}

fac_status native_group_norm_backward_meta(fac_structured *s, fac_tensor *grad_out, fac_tensor *input, fac_tensor *mean,
                                           fac_tensor *rstd, fac_tensor *weight, int64_t N, int64_t C, int64_t HxW,
                                           int64_t group, fac_ints output_mask) {
    FAC_TRY(check_same(grad_out, input));
    FAC_TRY(check_groups(input, weight, N, C, HxW, group));
    const fac_ints channels = {&C, 1};
    const int64_t stats[2] = {N, group};
    fac_dtype dtype;
    FAC_TRY(SHARED_DTYPE(input, &dtype, {"weight", weight}));
    dtype = settled_dtype(dtype, weight, input, mean);
    FAC_TRY(check_saved("mean", mean, dtype, stats, 2));
    FAC_TRY(check_saved("rstd", rstd, dtype, stats, 2));
    if (wanted(output_mask, 0)) FAC_TRY(declare_group_norm(s, input, N, C));
    if (wanted(output_mask, 1)) FAC_TRY(declare_parameter(s, 1, input, dtype, channels));
    if (wanted(output_mask, 2)) FAC_TRY(declare_parameter(s, 2, input, dtype, channels));
    return FAC_OK;
}
