/* Products with operands of few bits: 8-bit floats, weights of 8 and 4 bits, embeddings of packed rows; and products of groups. Operands
   are made float32 and multiplied as such. */
#include "ops/composite/low_bits.h"
#include "core/coded.h"
#include "core/read.h"
#include "core/scalar.h"
#include "ops/composite/below.h"
#include "ops/composite/brief.h"
#include "ops/meta/check.h"

static fac_tensor *as_float(fac_tensor *t) { return cast(t, FAC_F32); }
static fac_tensor *columns(fac_tensor *t, int64_t start, int64_t end, int64_t by) {
    return fac__s_slice_Tensor(t, -1, fac_opt_int_(start), fac_opt_int_(end), by);
}

static fac_status need_matrix(const char *name, const fac_tensor *t) {
    FAC_CHECK(t->ndim == 2, FAC_ERR_SHAPE, "%s should be a matrix, but has size %s", name, FAC_SHAPE_TEXT(t));
    return FAC_OK;
}

static fac_status check_inner(const fac_tensor *a, const fac_tensor *b, int64_t inner) {
    FAC_CHECK(a->sizes[1] == inner, FAC_ERR_SHAPE, "mat1 and mat2 shapes cannot be multiplied: %s and %s",
              FAC_SHAPE_TEXT(a), FAC_SHAPE_TEXT(b));
    return FAC_OK;
}

/* ---- 8-bit floats ----------------------------------------------------------------------------------------------------------- */

/* One for all, or one for each row of the first operand and each column of the second. */
static fac_status check_scale(const char *name, const fac_tensor *t, int64_t rows, int64_t cols) {
    FAC_TRY(fac__need_dtype(name, t, FAC_F32));
    FAC_CHECK(t->numel == 1 || fac__has_sizes(t, (const int64_t[]){rows, cols}, 2), FAC_ERR_SHAPE,
              "%s should have one element or size [%lld, %lld], but has size %s", name, (long long)rows,
              (long long)cols, FAC_SHAPE_TEXT(t));
    return FAC_OK;
}

static fac_status check_scaled(const fac_tensor *self, const fac_tensor *mat2, const fac_tensor *scale_a,
                               const fac_tensor *scale_b, const fac_tensor *bias) {
    FAC_TRY(need_matrix("self", self));
    FAC_TRY(need_matrix("mat2", mat2));
    FAC_CHECK(fac_dtype_is_float8((fac_dtype)self->dtype) && fac_dtype_is_float8((fac_dtype)mat2->dtype), FAC_ERR_DTYPE,
              "Expected both matrices to be 8-bit floats, but got %s and %s", fac_dtype_name((fac_dtype)self->dtype),
              fac_dtype_name((fac_dtype)mat2->dtype));
    FAC_TRY(check_inner(self, mat2, mat2->sizes[0]));
    FAC_TRY(check_scale("scale_a", scale_a, self->sizes[0], 1));
    FAC_TRY(check_scale("scale_b", scale_b, 1, mat2->sizes[1]));
    FAC_TRY(fac__need_sizes("bias", bias, &mat2->sizes[1], 1));
    return bias ? fac__need_floating("bias", bias) : FAC_OK;
}

fac_status scaled_mm_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *mat2, fac_tensor *scale_a,
                               fac_tensor *scale_b, fac_tensor *bias, fac_tensor *scale_result, fac_dtype out_dtype,
                               bool use_fast_accum, fac_tensor **out) {
    (void)c, (void)use_fast_accum;
    FAC_TRY(check_scaled(self, mat2, scale_a, scale_b, bias));
    if (!out_dtype) out_dtype = (fac_dtype)self->dtype;
    const bool narrow = fac_dtype_is_float8(out_dtype);
    FAC_CHECK(narrow || fac_dtype_is_floating(out_dtype), FAC_ERR_DTYPE, "out_dtype should be floating, not %s",
              fac_dtype_name(out_dtype));
    if (scale_result) FAC_TRY(check_scale("scale_result", scale_result, 1, 1));
    FAC_SCOPE(scope);
    fac_tensor *scales[2];
    fac_tensor *const given[2] = {scale_a, scale_b};
    for (int i = 0; i < 2; i++) scales[i] = given[i]->numel == 1 ? fac__s_reshape(given[i], FAC_INTS(1, 1)) : given[i];
    fac_tensor *x = mul(mul(fac__s_mm(as_float(self), as_float(mat2)), scales[0]), scales[1]);
    if (bias) x = add(x, as_float(bias));
    if (scale_result && narrow) x = divide(x, fac__s_reshape(scale_result, FAC_INTS(1, 1)));
    return fac__give(out, cast(x, out_dtype));
}

/* ---- groups ---------------------------------------------------------------------------------------------------------------------- */

typedef struct groups {
    fac_tensor *a, *b;
    int64_t *ends, n, along; /* offs; the size that they cut */
} groups;

static fac_status check_grouped(const fac_tensor *a, const fac_tensor *b, const fac_tensor *bias, fac_dtype out_dtype) {
    FAC_CHECK((a->ndim == 2 || a->ndim == 3) && (b->ndim == 2 || b->ndim == 3), FAC_ERR_SHAPE,
              "self and mat2 should have 2 or 3 dimensions, but have sizes %s and %s", FAC_SHAPE_TEXT(a),
              FAC_SHAPE_TEXT(b));
    FAC_CHECK((a->dtype == FAC_F32 || fac__is_half((fac_dtype)a->dtype)) && b->dtype == a->dtype, FAC_ERR_DTYPE,
              "self and mat2 should be float32, bfloat16 or float16, both, but are %s and %s",
              fac_dtype_name((fac_dtype)a->dtype), fac_dtype_name((fac_dtype)b->dtype));
    FAC_CHECK(!out_dtype || out_dtype == a->dtype, FAC_ERR_DTYPE, "out_dtype should be that of self, %s, but is %s",
              fac_dtype_name((fac_dtype)a->dtype), fac_dtype_name(out_dtype));
    FAC_CHECK(a->sizes[a->ndim - 1] == b->sizes[b->ndim - 2], FAC_ERR_SHAPE,
              "contraction dimension of self and mat2 must match, but sizes are %s and %s", FAC_SHAPE_TEXT(a),
              FAC_SHAPE_TEXT(b));
    FAC_TRY(fac__need_dtype("bias", bias, (fac_dtype)a->dtype));
    return fac__need_sizes("bias", bias, &b->sizes[b->ndim - 1], 1);
}

/* The ends in memory of our own. */
static fac_status read_ends(groups *g, fac_tensor *offs) {
    FAC_CHECK(offs && offs->ndim == 1, FAC_ERR_ARGUMENT, "offs [G] is needed for groups of a matrix");
    FAC_TRY(fac__need_dtype("offs", offs, FAC_I32));
    const fac_tensor *batch = g->a->ndim == 3 ? g->a : g->b->ndim == 3 ? g->b : NULL;
    FAC_CHECK(!batch || batch->sizes[0] == offs->sizes[0], FAC_ERR_SHAPE, "there are %lld groups, but %lld matrices",
              (long long)offs->sizes[0], batch ? (long long)batch->sizes[0] : 0);
    g->n = offs->sizes[0];
    g->ends = fac__alloc_array((size_t)g->n + 1, sizeof *g->ends);
    if (!g->ends) return FAC_ERR_MEMORY;
    FAC_TRY(fac__read(offs, FAC_I64, g->ends, (size_t)g->n));
    for (int64_t i = 0, before = 0; i < g->n; before = g->ends[i++])
        FAC_CHECK(g->ends[i] >= before && g->ends[i] <= g->along, FAC_ERR_ARGUMENT,
                  "offs should not decrease, and end within %lld, but offs[%lld] is %lld", (long long)g->along,
                  (long long)i, (long long)g->ends[i]);
    return FAC_OK;
}

static fac_tensor *one_group(const groups *g, int64_t i) {
    const int64_t start = i ? g->ends[i - 1] : 0, n = g->ends[i] - start;
    fac_tensor *a = g->a, *b = g->b;
    if (a->ndim == 3) return fac__s_mm(fac__s_select_int(a, 0, i), fac__s_narrow(b, 1, start, n));
    if (b->ndim == 3) return fac__s_mm(fac__s_narrow(a, 0, start, n), fac__s_select_int(b, 0, i));
    return fac__s_mm(fac__s_narrow(a, 1, start, n), fac__s_narrow(b, 0, start, n));
}

/* Groups side by side, and zeros for what no group reaches. */
static fac_tensor *joined(const groups *g, fac_tensor **parts) {
    const bool apart = g->a->ndim == 2 && g->b->ndim == 2;
    const int64_t rest = g->along - (g->n ? g->ends[g->n - 1] : 0), dim = g->a->ndim == 3 ? 1 : 0;
    if (apart) return fac__s_stack((fac_tensors){parts, (size_t)g->n}, 0);
    const int64_t rows = dim ? g->a->sizes[1] : rest, cols = dim ? rest : g->b->sizes[2];
    parts[g->n] =
        fac__s_new_zeros(g->a, FAC_INTS(rows, cols), FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0});
    return parts[g->n] ? fac__s_cat((fac_tensors){parts, (size_t)g->n + 1}, dim) : NULL;
}

static fac_tensor *multiply_groups(const groups *g) {
    if (g->n == 0) {
        FAC_FAIL(FAC_ERR_SHAPE, "offs should name at least one group");
        return NULL;
    }
    fac_tensor **parts = fac__alloc_array((size_t)g->n + 1, sizeof *parts), *all = NULL;
    int64_t i = 0;
    while (parts && i < g->n && (parts[i] = one_group(g, i))) i++;
    if (parts && i == g->n) all = joined(g, parts);
    fac__free(parts);
    return all;
}

static fac_status give_biased(fac_tensor *x, fac_tensor *bias, fac_tensor **out) {
    return fac__give(out, x && bias ? add(x, bias) : x);
}

fac_status grouped_mm_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *mat2, fac_tensor *offs,
                                fac_tensor *bias, fac_dtype out_dtype, fac_tensor **out) {
    (void)c;
    groups g = {.a = self, .b = mat2};
    FAC_SCOPE(scope);
    FAC_TRY(check_grouped(self, mat2, bias, out_dtype));
    if (self->ndim == 3 && mat2->ndim == 3) {
        FAC_CHECK(!offs, FAC_ERR_ARGUMENT, "offs must not be given for two batches");
        return give_biased(fac__s_bmm(self, mat2), bias, out);
    }
    g.along = self->ndim == 3 ? mat2->sizes[1] : mat2->ndim == 3 ? self->sizes[0] : self->sizes[1];
    fac_status st = read_ends(&g, offs);
    if (st == FAC_OK) st = give_biased(multiply_groups(&g), bias, out);
    fac__free(g.ends);
    return st;
}

/* ---- weights of 8 and 4 bits -------------------------------------------------------------------------------------------------------- */

static fac_status check_weight_mm(const fac_tensor *self, const fac_tensor *mat2, int64_t inner, fac_dtype dtype) {
    FAC_TRY(need_matrix("self", self));
    FAC_CHECK(self->dtype == FAC_F32 || fac__is_half((fac_dtype)self->dtype), FAC_ERR_DTYPE,
              "self should be float32, bfloat16 or float16, but is %s", fac_dtype_name((fac_dtype)self->dtype));
    FAC_TRY(fac__need_dtype("mat2", mat2, dtype));
    return check_inner(self, mat2, inner);
}

static fac_status same_device(const fac_tensor *self, const fac_tensor *mat2, const char *name, const fac_tensor *t) {
    FAC_CHECK(fac_device_equal(self->device, mat2->device) && fac_device_equal(self->device, t->device), FAC_ERR_DEVICE,
              "self, mat2 and %s should be on one device", name);
    return FAC_OK;
}

fac_status fac__check_int8pack(const fac_tensor *self, const fac_tensor *mat2, const fac_tensor *scales) {
    FAC_TRY(need_matrix("mat2", mat2));
    FAC_TRY(check_weight_mm(self, mat2, mat2->sizes[1], FAC_I8));
    FAC_TRY(fac__need_sizes("scales", scales, &mat2->sizes[0], 1));
    FAC_TRY(fac__need_dtype("scales", scales, (fac_dtype)self->dtype));
    return same_device(self, mat2, "scales", scales);
}

fac_status weight_int8pack_mm_explicit(const fac_call_info *c, fac_tensor *self, fac_tensor *mat2, fac_tensor *scales,
                                       fac_tensor **out) {
    (void)c;
    FAC_BELOW_AUTOGRAD;
    FAC_TRY(fac__check_int8pack(self, mat2, scales));
    fac_tensor *x = mul(fac__s_mm(as_float(self), fac__s_t(as_float(mat2))), as_float(scales));
    return fac__give(out, cast(x, (fac_dtype)self->dtype));
}

static fac_tensor *low_half(fac_tensor *t) { return fac__s_bitwise_and_Scalar(t, fac_scalar_i_(15)); }

/* Bytes of two codes each, the even columns' in the low halves. */
static fac_tensor *pack_halves(fac_tensor *codes) {
    const int64_t n = codes ? codes->sizes[codes->ndim - 1] : 0;
    fac_tensor *even = columns(codes, 0, n, 2), *odd = columns(codes, 1, n, 2);
    fac_tensor *high = fac__s_mul_Scalar(odd, fac_scalar_i_(16));
    return cast(fac__s_bitwise_or_Tensor(even, high), FAC_U8);
}

static fac_tensor *unpack_halves(fac_tensor *bytes) {
    fac_tensor *both[] = {low_half(bytes), fac__s_bitwise_right_shift_Tensor_Scalar(bytes, fac_scalar_i_(4))};
    if (!both[0] || !both[1]) return NULL;
    fac_tensor *pairs = fac__s_stack((fac_tensors){both, 2}, -1);
    return fac__s_flatten_using_ints(pairs, -2, -1);
}

fac_status weight_to_int4pack_composite(const fac_call_info *c, fac_tensor *self, int64_t innerKTiles,
                                        fac_tensor **out) {
    (void)c, (void)innerKTiles;
    FAC_TRY(need_matrix("self", self));
    FAC_TRY(fac__need_dtype("self", self, FAC_I32));
    FAC_CHECK(self->sizes[1] % 2 == 0, FAC_ERR_SHAPE, "weights are packed in pairs, but a row has %lld",
              (long long)self->sizes[1]);
    FAC_SCOPE(scope);
    return fac__give(out, pack_halves(low_half(self)));
}

fac_status fac__check_int4pack(const fac_tensor *self, const fac_tensor *mat2, int64_t group,
                               const fac_tensor *numbers) {
    int64_t k;
    FAC_TRY(need_matrix("mat2", mat2));
    FAC_CHECK(fac__mul(mat2->sizes[1], 2, &k), FAC_ERR_OVERFLOW, "mat2 is too large");
    FAC_TRY(check_weight_mm(self, mat2, k, FAC_U8));
    FAC_CHECK(group > 0 && k % group == 0, FAC_ERR_ARGUMENT, "qGroupSize should divide %lld, but is %lld", (long long)k,
              (long long)group);
    FAC_TRY(fac__need_sizes("qScaleAndZeros", numbers, (const int64_t[]){k / group, mat2->sizes[0], 2}, 3));
    FAC_TRY(fac__need_dtype("qScaleAndZeros", numbers, (fac_dtype)self->dtype));
    return same_device(self, mat2, "qScaleAndZeros", numbers);
}

fac_tensor *fac__int4_centred(fac_tensor *mat2, int64_t group) {
    const int64_t n = mat2->sizes[0], k = 2 * mat2->sizes[1];
    return plus(fac__s_view(as_float(unpack_halves(mat2)), FAC_INTS(n, k / group, group)), -8);
}

fac_tensor *fac__int4_weights(fac_tensor *mat2, int64_t group, fac_tensor *numbers) {
    const int64_t n = mat2->sizes[0], k = 2 * mat2->sizes[1];
    fac_tensor *by_row = fac__s_transpose_int(as_float(numbers), 0, 1);
    fac_tensor *w = add(mul(fac__int4_centred(mat2, group), columns(by_row, 0, 1, 1)), columns(by_row, 1, 2, 1));
    return fac__s_reshape(w, FAC_INTS(n, k));
}

static fac_tensor *float_product(fac_tensor *x, fac_tensor *w) {
    return w ? cast(fac__s_mm(as_float(x), fac__s_t(w)), (fac_dtype)x->dtype) : NULL;
}

fac_status fac__float_product(fac_tensor *x, fac_tensor *w, fac_tensor **out) {
    FAC_BELOW_AUTOGRAD;
    return fac__give(out, float_product(x, w));
}

fac_status weight_int4pack_mm_explicit(const fac_call_info *c, fac_tensor *self, fac_tensor *mat2, int64_t qGroupSize,
                                       fac_tensor *qScaleAndZeros, fac_tensor **out) {
    (void)c;
    FAC_BELOW_AUTOGRAD;
    FAC_TRY(fac__check_int4pack(self, mat2, qGroupSize, qScaleAndZeros));
    return fac__give(out, float_product(self, fac__int4_weights(mat2, qGroupSize, qScaleAndZeros)));
}

/* ---- embeddings ----------------------------------------------------------------------------------------------------------------------- */

static fac_tensor *row_extreme(fac_tensor *t, bool least) {
    const fac_ints last = FAC_INTS(-1);
    return least ? fac__s_amin(t, last, true) : fac__s_amax(t, last, true);
}

/* Codes and, behind them, the bytes of scale and least element. */
static fac_status give_rows(fac_tensor *codes, fac_tensor *scale, fac_tensor *least, fac_tensor **out) {
    fac_tensor *pair[] = {scale, least};
    if (!codes || !scale || !least) return fac_error();
    fac_tensor *rows[] = {codes, fac__s_view_dtype(fac__s_cat((fac_tensors){pair, 2}, 1), FAC_U8)};
    return rows[1] ? fac__give(out, fac__s_cat((fac_tensors){rows, 2}, 1)) : fac_error();
}

static fac_status check_rows(const fac_tensor *weight) {
    FAC_TRY(need_matrix("weight", weight));
    FAC_TRY(fac__need_dtype("weight", weight, FAC_F32));
    FAC_CHECK(weight->sizes[1] > 0, FAC_ERR_SHAPE, "rows of no elements cannot be packed");
    return FAC_OK;
}

fac_status embedding_byte_pack_composite(const fac_call_info *c, fac_tensor *weight, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_rows(weight));
    FAC_SCOPE(scope);
    fac_tensor *least = row_extreme(weight, true), *range = sub(row_extreme(weight, false), least);
    fac_tensor *inverse = fac__s_mul_Scalar(fac__s_reciprocal(plus(range, 1e-8)), fac_scalar_i_(255));
    fac_tensor *codes = cast(fac__s_round(mul(sub(weight, least), inverse)), FAC_U8);
    return give_rows(codes, fac__s_div_Scalar(range, fac_scalar_i_(255)), least, out);
}

fac_status embedding_4bit_pack_composite(const fac_call_info *c, fac_tensor *weight, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_rows(weight));
    FAC_CHECK(weight->sizes[1] % 2 == 0, FAC_ERR_SHAPE, "codes are packed in pairs, but a row has %lld",
              (long long)weight->sizes[1]);
    FAC_SCOPE(scope);
    fac_tensor *least = cast(row_extreme(weight, true), FAC_F16);
    fac_tensor *range = sub(row_extreme(weight, false), as_float(least));
    fac_tensor *exact = cast(fac__s_div_Scalar(range, fac_scalar_i_(15)), FAC_F16);
    fac_tensor *scale = fill_where(exact, is_value(exact, 0), 1);
    fac_tensor *units = divide(sub(weight, as_float(least)), as_float(scale));
    fac_tensor *codes =
        fac__s_clamp(fac__s_round(units), fac_opt_num_(fac_scalar_i_(0)), fac_opt_num_(fac_scalar_i_(15)));
    return give_rows(pack_halves(cast(codes, FAC_I32)), scale, least, out);
}

fac_status fac__check_look_up(const fac_tensor *weight, const fac_tensor *indices, bool four) {
    const int64_t tail = four ? 4 : 8;
    FAC_TRY(need_matrix("weight", weight));
    FAC_TRY(fac__need_dtype("weight", weight, FAC_U8));
    FAC_CHECK(weight->sizes[1] > tail, FAC_ERR_SHAPE, "a row holds its codes and %lld bytes, but has %lld",
              (long long)tail, (long long)weight->sizes[1]);
    FAC_CHECK(!four || weight->sizes[1] <= INT64_MAX / 2, FAC_ERR_OVERFLOW, "rows of %lld bytes hold too many codes",
              (long long)weight->sizes[1]);
    FAC_CHECK(indices->dtype == FAC_I32 || indices->dtype == FAC_I64, FAC_ERR_DTYPE,
              "indices should be int32 or int64, got %s", fac_dtype_name((fac_dtype)indices->dtype));
    FAC_CHECK(indices->ndim < FAC_MAX_DIMS, FAC_ERR_SHAPE, "indices may have at most %d dimensions", FAC_MAX_DIMS - 1);
    FAC_CHECK(fac_device_equal(weight->device, indices->device), FAC_ERR_DEVICE,
              "weight and indices should be on one device");
    return FAC_OK;
}

/* Rows of packed bytes to numbers: the last bytes hold scale and least element, in halves if `four`. */
static fac_status look_up(fac_tensor *weight, fac_tensor *indices, bool four, fac_tensor **out) {
    FAC_TRY(fac__check_look_up(weight, indices, four));
    const int64_t tail = four ? 4 : 8, n = weight->sizes[1];
    FAC_BELOW_AUTOGRAD;
    fac_tensor *rows = fac__s_index_select(weight, 0, fac__s_reshape(indices, FAC_INTS(-1)));
    fac_tensor *bytes = columns(rows, 0, n - tail, 1);
    /* Copied, so that they are aligned to what they are viewed as. */
    fac_tensor *ends = fac__s_clone(columns(rows, n - tail, n, 1), FAC_CONTIGUOUS);
    fac_tensor *pair = as_float(fac__s_view_dtype(ends, four ? FAC_F16 : FAC_F32));
    fac_tensor *x =
        add(mul(as_float(four ? unpack_halves(bytes) : bytes), columns(pair, 0, 1, 1)), columns(pair, 1, 2, 1));
    if (!x) return fac_error();
    int64_t sizes[FAC_MAX_DIMS];
    for (int d = 0; d < indices->ndim; d++) sizes[d] = indices->sizes[d];
    sizes[indices->ndim] = x->sizes[1];
    return fac__give(out, fac__s_view(x, (fac_ints){sizes, (size_t)indices->ndim + 1}));
}

fac_status embedding_byte_explicit(const fac_call_info *c, fac_tensor *weight, fac_tensor *indices, fac_tensor **out) {
    (void)c;
    return look_up(weight, indices, false, out);
}

fac_status embedding_4bit_explicit(const fac_call_info *c, fac_tensor *weight, fac_tensor *indices, fac_tensor **out) {
    (void)c;
    return look_up(weight, indices, true, out);
}
