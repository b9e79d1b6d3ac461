/* Tensors in the vendor layout (torch._mkldnn) against plain loops in double, closed forms and strided tensors. */
#include "core/handle.h"
#include "core/vendor.h"
#include "support/support.h"

#include <facula/facula.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers to look at ------------------------------------------------------------------------------------------------- */

/* Small numbers of both signs that differ. */
static fac_tensor *numbers(fac_ints sizes, double shift) {
    int64_t n = 1;
    for (size_t i = 0; i < sizes.n; i++) n *= sizes.v[i];
    return fac_reshape(fac_sin(fac_mul(fac_add(fac_arange((double)n, .dtype = FAC_F32), shift), 0.7)), sizes);
}
static fac_tensor *vendor(fac_tensor *t) {
    fac_tensor *v = fac_to_mkldnn(t);
    assert_no_error();
    assert_true(fac_is_mkldnn(v));
    return v;
}
static fac_tensor *dense(fac_tensor *t) {
    fac_tensor *d = fac_to_dense(t);
    assert_no_error();
    assert_int_equal(fac_tensor_layout(d), FAC_STRIDED);
    return d;
}
static fac_vendor_order order_of(fac_tensor *t) { return fac__vendor_of(fac__header(t))->order; }
static void assert_same(fac_tensor *a, fac_tensor *b) {
    assert_no_error();
    assert_true(fac_equal(a, b));
    assert_no_error();
}
static void assert_close(fac_tensor *a, fac_tensor *b, double tolerance) {
    assert_no_error();
    const fac_ints x = fac_tensor_sizes(a), y = fac_tensor_sizes(b);
    assert_int_equal(x.n, y.n);
    for (size_t i = 0; i < x.n; i++) assert_int_equal(x.v[i], y.v[i]);
    assert_true(fac_allclose(a, b, .rtol = tolerance, .atol = tolerance));
    assert_no_error();
}
/* Places behind the last channel hold zeros. */
static void assert_spare_is_zero(fac_tensor *t) {
    const fac_tensor *h = fac__header(t);
    const fac_vendor *v = fac__vendor_of(h);
    if (v->order != FAC_VENDOR_CHANNELS || h->numel == 0) return;
    const int64_t blocks = v->cells->sizes[1], block = v->block;
    const int64_t points = v->cells->numel / (v->cells->sizes[0] * blocks * block);
    const char *data = fac__data(v->cells), zero[4] = {0};
    const size_t item = (size_t)fac__item_size(v->cells);
    for (int64_t n = 0; n < h->sizes[0]; n++)
        for (int64_t c = h->sizes[1]; c < blocks * block; c++)
            for (int64_t p = 0; p < points; p++) {
                const int64_t at = ((n * blocks + c / block) * points + p) * block + c % block;
                assert_memory_equal(data + (size_t)at * item, zero, item);
            }
}

/* Sizes on both sides of a block, and of every number of dimensions that there is an order for. */
static const int64_t shapes[][5] = {{2, 3, 4, 5, 0},  {1, 8, 3, 3, 0},  {2, 16, 5, 4, 0},
                                    {1, 17, 2, 3, 0}, {3, 40, 1, 7, 0}, {1, 32, 2, 3, 4},
                                    {2, 19, 3, 1, 2}, {2, 64, 1, 1, 0}, {0, 16, 2, 2, 0}};
static fac_ints shape(size_t i) { return (fac_ints){shapes[i], shapes[i][4] ? 5 : 4}; }

/* ---- the layout ---------------------------------------------------------------------------------------------------------- */

static void S011_vendor_layout_gives_its_elements_back(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (size_t i = 0; i < FAC_COUNT(shapes); i++) {
        FAC_SCOPE(s);
        fac_tensor *x = numbers(shape(i), 0), *v = vendor(x);
        assert_same(dense(v), x);
        assert_spare_is_zero(v);
        assert_int_equal(order_of(v), shapes[i][1] >= fac__vendor_block ? FAC_VENDOR_CHANNELS : FAC_VENDOR_ROWS);
        fac_tensor *last = fac_contiguous(fac_transpose(x, 0, 2));
        assert_same(dense(vendor(fac_transpose(last, 0, 2))), x);
        for (size_t k = 0; k < 2; k++) {
            const fac_dtype half = k ? FAC_BF16 : FAC_F16;
            fac_tensor *h = fac_to_dtype(x, half);
            assert_same(dense(vendor(h)), h);
            assert_same(dense(fac_to_mkldnn(x, .dtype = half)), h);
            assert_same(fac_to_dense(vendor(h), .dtype = FAC_F32), fac_to_dtype(h, FAC_F32));
        }
    }
    fac_tensor *few[] = {numbers(FAC_INTS(), 1), numbers(FAC_INTS(7), 0), numbers(FAC_INTS(3, 40), 0),
                         numbers(FAC_INTS(2, 20, 6), 0), numbers(FAC_INTS(1, 20, 1, 2, 1, 2), 0)};
    for (size_t i = 0; i < FAC_COUNT(few); i++) assert_same(dense(vendor(few[i])), few[i]);
}

/* The very order of the memory: [N, blocks of channels, size..., channels of a block]. */
static void S011_vendor_layout_has_channels_in_blocks(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    const int64_t b = fac__vendor_block, channels = 2 * b + 1;
    fac_tensor *x = numbers(FAC_INTS(2, channels, 3, 2), 0), *v = vendor(x);
    const fac_vendor *parts = fac__vendor_of(fac__header(v));
    const float *cells = fac__data(parts->cells), *plain = fac_tensor_data(x);
    assert_int_equal(parts->cells->ndim, 5);
    assert_int_equal(parts->cells->sizes[1], 3);
    assert_int_equal(parts->cells->sizes[4], b);
    for (int64_t n = 0; n < 2; n++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t p = 0; p < 6; p++)
                assert_true(cells[((n * 3 + c / b) * 6 + p) * b + c % b] == plain[(n * channels + c) * 6 + p]);
}

static void S011_vendor_layout_is_opaque_and_takes_part_in_dispatch(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *v = vendor(numbers(FAC_INTS(2, 16, 3, 3), 0));
    assert_int_equal(fac_tensor_layout(v), FAC_VENDOR_LAYOUT);
    assert_true(fac_tensor_keys(v) & fac_keyset_of(FAC_KEY_VENDOR));
    assert_false(fac_tensor_keys(v) & fac_keyset_of(FAC_KEY_DENSE));
    assert_int_equal(fac_tensor_device(v).type, FAC_CPU);
    assert_int_equal(fac_tensor_numel(v), 288);
    assert_null(fac_tensor_data(v));
    assert_error(FAC_ERR_UNSUPPORTED, "not on a _mkldnn tensor");
    assert_null(fac_tensor_storage(v));
    assert_error(FAC_ERR_UNSUPPORTED, "not on a _mkldnn tensor");
    assert_int_equal(fac_tensor_stride(v, 0), 0);
    assert_error(FAC_ERR_UNSUPPORTED, "_mkldnn tensors do not have strides");
    assert_null(fac_tensor_strides(v).v);
    assert_error(FAC_ERR_UNSUPPORTED, "_mkldnn tensors do not have strides");
    assert_false(fac_is_mkldnn(dense(v)));
}

static void S011_vendor_tensors_are_made_empty_and_zero(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *e = fac_empty(FAC_SHAPE(2, 20, 3, 3), .layout = FAC_VENDOR_LAYOUT);
    assert_true(fac_is_mkldnn(e));
    assert_spare_is_zero(e);
    fac_tensor *zeros = fac_zeros(FAC_SHAPE(2, 20, 3, 3));
    assert_same(dense(fac_zeros(FAC_SHAPE(2, 20, 3, 3), .layout = FAC_VENDOR_LAYOUT)), zeros);
    assert_same(dense(fac_zeros_like(vendor(fac_ones_like(zeros)))), zeros);
    assert_true(fac_is_mkldnn(fac_empty_like(e)));
    assert_int_equal(fac_tensor_dtype(fac_empty_like(e, .dtype = FAC_BF16)), FAC_BF16);
    assert_null(fac_empty(FAC_SHAPE(2, 2), .layout = FAC_VENDOR_LAYOUT, .dtype = FAC_F64));
    assert_error(FAC_ERR_DTYPE, "float64");
    assert_null(fac_empty(FAC_SHAPE(2, 2), .layout = FAC_VENDOR_LAYOUT, .device = fac_device_make(FAC_META, -1)));
    assert_error(FAC_ERR_UNSUPPORTED, "meta");
    assert_null(fac_to_mkldnn(fac_ones(2, .dtype = FAC_I64)));
    assert_error(FAC_ERR_DTYPE, "int64");
    assert_null(fac_to_mkldnn(fac_ones(2), .dtype = FAC_F64));
    assert_error(FAC_ERR_DTYPE, "float64");
}

static void S107_E13_zero_of_the_vendor_layout_writes_zeros_in_place(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (size_t i = 0; i < FAC_COUNT(shapes); i++)
        for (int k = 0; k < 3; k++) {
            FAC_SCOPE(s);
            const fac_dtype d = k == 0 ? FAC_F32 : k == 1 ? FAC_BF16 : FAC_F16;
            fac_tensor *v = fac_to_mkldnn(numbers(shape(i), 1), .dtype = d), *alias = fac_detach(v);
            const int64_t version = fac_tensor_version(v);
            assert_ptr_equal(fac_zero_(v), v);
            assert_true(fac_is_mkldnn(v));
            assert_true(fac_tensor_version(v) > version);
            assert_same(dense(v), fac_zeros_like(dense(v)));
            assert_same(dense(alias), dense(v)); /* the memory itself was written */
        }
    /* More than a chunk for each of several threads, and an odd rest of 16-bit numbers. */
    const int was = fac_num_threads();
    for (int threads = 1; threads <= 4; threads++) {
        FAC_SCOPE(s);
        assert_ok(fac_set_num_threads(threads));
        fac_tensor *v = fac_to_mkldnn(fac_ones(5 * 2048 + 3), .dtype = FAC_BF16);
        assert_non_null(fac_zero_(v));
        assert_true(fac_item(fac_sum(fac_abs(dense(v)))) == 0);
    }
    assert_ok(fac_set_num_threads(was));
}

static void S107_zero_goes_through_one_operator_for_all_layouts(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    const fac_operator *op = fac_operator_find("aten::zero_");
    static const char *const keys[] = {"CPU", "CUDA", "Meta", "SparseCPU", "SparseCsrCPU", "VendorCPU"};
    for (size_t i = 0; i < FAC_COUNT(keys); i++) {
        assert_true(fac_operator_has_kernel(op, keys[i]));
    }
    fac_value arg = fac_value_tensor(vendor(fac_ones(4))), out;
    assert_ok(fac_call_op(op, &arg, 1, &out));
    assert_true(fac_is_mkldnn(fac_value_as_tensor(out)));
    fac_value_release(&arg);
    fac_value_release(&out);
}

/* ---- copies --------------------------------------------------------------------------------------------------------------- */

static void S011_vendor_tensors_are_copied(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (size_t i = 0; i < FAC_COUNT(shapes); i++) {
        FAC_SCOPE(s);
        fac_tensor *x = numbers(shape(i), 0), *v = vendor(x), *c = fac_clone(v);
        assert_true(fac_is_mkldnn(c));
        assert_same(dense(c), x);
        fac_zero_(c);
        assert_same(dense(v), x); /* of memory of its own */
        fac_tensor *half = fac_to_dtype(v, FAC_BF16);
        assert_true(fac_is_mkldnn(half));
        assert_same(dense(half), fac_to_dtype(x, FAC_BF16));
        assert_ptr_equal(fac_copy_(c, v), c);
        assert_same(dense(c), x);
        assert_ptr_equal(fac_copy_(c, half), c);
        assert_same(dense(c), fac_to_dtype(dense(half), FAC_F32));
        fac_tensor *d = dense(v);
        fac_zero_(d);
        assert_same(dense(v), x);
    }
    fac_tensor *v = vendor(fac_ones(FAC_SHAPE(2, 16, 2, 2)));
    assert_null(fac_copy_(v, fac_ones(FAC_SHAPE(2, 16, 2, 2))));
    assert_error(FAC_ERR_UNSUPPORTED, "copy_ between tensors of the layouts _mkldnn and strided");
    assert_null(fac_copy_(fac_ones(FAC_SHAPE(2, 16, 2, 2)), v));
    assert_error(FAC_ERR_UNSUPPORTED, "copy_ between tensors of the layouts strided and _mkldnn");
    assert_null(fac_copy_(v, vendor(fac_ones(FAC_SHAPE(16, 2, 2)))));
    assert_error(FAC_ERR_SHAPE, "equal sizes");
    assert_null(fac_to_device(v, fac_device_make(FAC_META, -1), FAC_F32));
    assert_error(FAC_ERR_UNSUPPORTED, "make the tensor strided by to_dense before it goes to meta");
    assert_null(fac_to_dtype(v, FAC_F64));
    assert_error(FAC_ERR_DTYPE, "float64");
    assert_null(fac_clone(v, .memory_format = FAC_CHANNELS_LAST));
    assert_error(FAC_ERR_UNSUPPORTED, "no memory format");
}

/* ---- pointwise operators ------------------------------------------------------------------------------------------------------ */

typedef fac_tensor *(*unary_fn)(fac_tensor *);
static fac_tensor *relu(fac_tensor *x) { return fac_relu(x); }
static fac_tensor *sigmoid(fac_tensor *x) { return fac_sigmoid(x); }
static fac_tensor *tanh_of(fac_tensor *x) { return fac_tanh(x); }
static fac_tensor *gelu(fac_tensor *x) { return fac_gelu(x); }
static fac_tensor *exp_of(fac_tensor *x) { return fac_exp(x); }
static fac_tensor *thrice(fac_tensor *x) { return fac_mul(x, 3); }
static fac_tensor *more(fac_tensor *x) { return fac_add(x, 0.5); }
static fac_tensor *twice(fac_tensor *x) { return fac_add(x, x); }
static fac_tensor *square(fac_tensor *x) { return fac_mul(x, x); }
static fac_tensor *softmax(fac_tensor *x) { return fac_softmax(x, 1); }
static fac_tensor *log_softmax(fac_tensor *x) { return fac_log_softmax(x, -1); }
static fac_tensor *swapped(fac_tensor *x) { return fac_transpose(x, 0, 1); }
static fac_tensor *unsqueezed(fac_tensor *x) { return fac_unsqueeze(x, 2); }
static fac_tensor *flat(fac_tensor *x) { return fac_flatten(x, .start_dim = 1); }
static fac_tensor *one_row(fac_tensor *x) { return fac_view(x, FAC_INTS(1, -1)); }
static fac_tensor *channel(fac_tensor *x) { return fac_select(x, 1, 2); }
static fac_tensor *some(fac_tensor *x) { return fac_narrow(x, 1, 1, 2); }
static fac_tensor *joined(fac_tensor *x) { return fac_cat(FAC_TENSORS(x, x), .dim = 1); }
static fac_tensor *total(fac_tensor *x) { return fac_sum(x); }
static fac_tensor *mean(fac_tensor *x) { return fac_mean(x); }
static fac_tensor *mean_of_images(fac_tensor *x) { return fac_mean(x, .dims = FAC_INTS(2, 3), .keepdim = true); }
static const struct {
    unary_fn fn;
    bool exact; /* moves elements, or computes each alone */
} unary[] = {{relu, true},          {sigmoid, true}, {tanh_of, true},    {gelu, true},   {exp_of, true},
             {thrice, true},        {more, true},    {twice, true},      {square, true}, {softmax, true},
             {log_softmax, true},   {swapped, true}, {unsqueezed, true}, {flat, true},   {one_row, true},
             {channel, true},       {some, true},    {joined, true},     {total, true},  {mean, true},
             {mean_of_images, true}};

static void S011_operators_of_the_vendor_layout_give_what_strided_ones_do(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (size_t i = 0; i + 1 < FAC_COUNT(shapes); i++) /* the last has no elements, of which there is no mean */
        for (size_t k = 0; k < FAC_COUNT(unary); k++)
            for (int half = 0; half < 2; half++) {
                FAC_SCOPE(s);
                fac_tensor *x = fac_to_dtype(numbers(shape(i), 0), half ? FAC_BF16 : FAC_F32);
                fac_tensor *v = unary[k].fn(vendor(x)), *want = unary[k].fn(x);
                assert_no_error();
                assert_true(fac_is_mkldnn(v));
                if (!fac_equal(dense(v), want)) assert_close(dense(v), want, 1e-6);
                assert_spare_is_zero(v);
            }
}

static void S011_vendor_tensors_change_in_place(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (size_t i = 0; i < FAC_COUNT(shapes); i++) {
        FAC_SCOPE(s);
        fac_tensor *x = numbers(shape(i), 0), *y = numbers(shape(i), 5), *v = vendor(x), *alias = fac_detach(v);
        assert_ptr_equal(fac_add_(v, vendor(y), .alpha = 2), v);
        fac_add_(x, y, .alpha = 2);
        assert_same(dense(v), x);
        assert_same(dense(alias), x);
        assert_ptr_equal(fac_mul_(v, vendor(y)), v);
        assert_same(dense(v), fac_mul_(x, y));
        assert_ptr_equal(fac_relu_(v), v);
        assert_same(dense(v), fac_relu_(x));
        assert_ptr_equal(fac_sigmoid_(v), v);
        assert_same(dense(v), fac_sigmoid_(x));
        assert_ptr_equal(fac_tanh_(v), v);
        assert_same(dense(v), fac_tanh_(x));
        assert_spare_is_zero(v);
        assert_same(dense(alias), x);
        fac_tensor *out = fac_empty_like(v);
        assert_ptr_equal(fac_mul_out(out, v, vendor(y)), out);
        assert_same(dense(out), fac_mul(x, y));
        assert_ptr_equal(fac_add_out(out, v, vendor(y)), out);
        assert_same(dense(out), fac_add(x, y));
    }
    fac_tensor *v = vendor(fac_ones(FAC_SHAPE(2, 16, 2, 2))), *one = vendor(fac_ones(FAC_SHAPE(1, 16, 1, 1)));
    assert_same(dense(fac_add(v, one)), fac_full(FAC_SHAPE(2, 16, 2, 2), 2.0));
    assert_null(fac_add_(one, v));
    assert_error(FAC_ERR_SHAPE, "doesn't match");
    assert_null(fac_add(v, fac_ones(FAC_SHAPE(2, 16, 2, 2))));
    assert_error(FAC_ERR_UNSUPPORTED, "together with strided ones");
    assert_null(fac_add_out(fac_empty(FAC_SHAPE(2, 16, 2, 2)), v, v));
    assert_error(FAC_ERR_UNSUPPORTED, "cannot be written to a tensor of the layout strided");
}

/* ---- convolutions ----------------------------------------------------------------------------------------------------------------- */

typedef struct conv_case {
    int nd;
    int64_t batch, in, out, groups, size[3], kernel[3], stride, padding, dilation;
    bool bias;
} conv_case;

static const conv_case convs[] = {
    {2, 2, 3, 16, 1, {7, 9}, {3, 3}, 1, 1, 1, true},
    {2, 1, 16, 16, 1, {5, 14}, {3, 3}, 1, 1, 1, true},
    {2, 2, 32, 48, 1, {8, 8}, {3, 3}, 2, 1, 1, false},
    {2, 1, 16, 33, 1, {6, 5}, {1, 1}, 1, 0, 1, true},
    {2, 3, 20, 5, 1, {6, 7}, {3, 2}, 1, 2, 2, true},
    {2, 1, 64, 64, 1, {14, 14}, {3, 3}, 1, 1, 1, true},
    {2, 2, 32, 32, 2, {6, 6}, {3, 3}, 1, 1, 1, true},
    {2, 2, 24, 24, 24, {9, 13}, {3, 3}, 1, 1, 1, true},
    {2, 1, 17, 17, 17, {5, 5}, {5, 3}, 2, 2, 1, false},
    {2, 1, 12, 6, 3, {5, 5}, {3, 3}, 1, 1, 1, true},
    {1, 2, 16, 24, 1, {19}, {5}, 2, 3, 1, true},
    {1, 1, 3, 8, 1, {30}, {3}, 1, 1, 3, true},
    {3, 1, 16, 16, 1, {4, 5, 13}, {3, 3, 3}, 1, 1, 1, true},
    {3, 2, 3, 17, 1, {5, 4, 6}, {2, 3, 2}, 2, 1, 1, true},
    {3, 1, 18, 18, 18, {3, 4, 5}, {3, 3, 3}, 1, 1, 1, true},
    {2, 1, 2, 2, 1, {3, 3}, {3, 3}, 1, 4, 1, true},
};

static double at(const float *x, const int64_t *sizes, const int64_t *index, int n) {
    int64_t k = 0;
    for (int d = 0; d < n; d++) k = k * sizes[d] + index[d];
    return (double)x[k];
}

/* By the definition, in double; and the sum of what is added, without signs. */
static double convolved(const conv_case *c, const fac_tensor *x, const fac_tensor *w, const fac_tensor *b, int64_t n,
                        int64_t o, const int64_t *point, double *out_magnitude) {
    const fac_ints xs = fac_tensor_sizes(x), ws = fac_tensor_sizes(w);
    const int64_t ins = c->in / c->groups, group = o / (c->out / c->groups);
    double sum = b ? (double)((const float *)fac_tensor_data((fac_tensor *)(uintptr_t)b))[o] : 0;
    int64_t k[3] = {1, 1, 1}, t[3];
    *out_magnitude = fabs(sum);
    for (int d = 0; d < c->nd; d++) k[d] = c->kernel[d];
    for (int64_t i = 0; i < ins; i++)
        for (t[0] = 0; t[0] < k[0]; t[0]++)
            for (t[1] = 0; t[1] < k[1]; t[1]++)
                for (t[2] = 0; t[2] < k[2]; t[2]++) {
                    int64_t from[5] = {n, group * ins + i}, weight[5] = {o, i};
                    bool inside = true;
                    for (int d = 0; d < c->nd; d++) {
                        from[2 + d] = point[d] * c->stride - c->padding + t[d] * c->dilation;
                        weight[2 + d] = t[d];
                        inside = inside && from[2 + d] >= 0 && from[2 + d] < c->size[d];
                    }
                    if (!inside) continue;
                    const double term = at(fac_tensor_data((fac_tensor *)(uintptr_t)x), xs.v, from, c->nd + 2) *
                                        at(fac_tensor_data((fac_tensor *)(uintptr_t)w), ws.v, weight, c->nd + 2);
                    sum += term;
                    *out_magnitude += fabs(term);
                }
    return sum;
}

static fac_tensor *conv(const conv_case *c, fac_tensor *x, fac_tensor *w, fac_tensor *b) {
    fac_tensor *y = c->nd == 1   ? fac_conv1d(x, w, b, c->stride, c->padding, c->dilation, c->groups)
                    : c->nd == 2 ? fac_conv2d(x, w, b, c->stride, c->padding, c->dilation, c->groups)
                                 : fac_conv3d(x, w, b, c->stride, c->padding, c->dilation, c->groups);
    assert_no_error();
    return y;
}

static void made_for(const conv_case *c, fac_tensor **x, fac_tensor **w, fac_tensor **b) {
    int64_t xs[5] = {c->batch, c->in}, ws[5] = {c->out, c->in / c->groups};
    for (int d = 0; d < c->nd; d++) xs[2 + d] = c->size[d], ws[2 + d] = c->kernel[d];
    *x = numbers((fac_ints){xs, (size_t)c->nd + 2}, 1);
    *w = numbers((fac_ints){ws, (size_t)c->nd + 2}, 2);
    *b = c->bias ? numbers(FAC_INTS(c->out), 3) : NULL;
}

static void assert_convolved(const conv_case *c, fac_tensor *y, fac_tensor *x, fac_tensor *w, fac_tensor *b) {
    const fac_ints s = fac_tensor_sizes(y);
    const float *got = fac_tensor_data(y);
    int64_t points = 1;
    for (int d = 0; d < c->nd; d++) points *= s.v[2 + d];
    for (int64_t n = 0; n < c->batch; n++)
        for (int64_t o = 0; o < c->out; o++)
            for (int64_t p = 0; p < points; p++) {
                int64_t point[3] = {0}, rest = p;
                for (int d = c->nd - 1; d >= 0; d--) point[d] = rest % s.v[2 + d], rest /= s.v[2 + d];
                double magnitude;
                const double want = convolved(c, x, w, b, n, o, point, &magnitude);
                if (!(fabs((double)got[(n * c->out + o) * points + p] - want) <= 1e-6 * magnitude))
                    fail_msg("conv%dd of %d to %d channels: %g, not %g", c->nd, (int)c->in, (int)c->out,
                             (double)got[(n * c->out + o) * points + p], want);
            }
}

static void S011_convolutions_of_the_vendor_layout(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (size_t i = 0; i < FAC_COUNT(convs); i++) {
        FAC_SCOPE(s);
        const conv_case *c = &convs[i];
        fac_tensor *x, *w, *b;
        made_for(c, &x, &w, &b);
        fac_tensor *y = conv(c, vendor(x), w, b);
        assert_true(fac_is_mkldnn(y));
        assert_spare_is_zero(y);
        assert_convolved(c, dense(y), x, w, b);
        /* The weight in either layout, and in the order of convolutions, gives the same bits. */
        assert_same(dense(conv(c, vendor(x), vendor(w), b ? vendor(b) : NULL)), dense(y));
        if (c->nd > 1) {
            fac_tensor *r = c->nd == 2 ? fac_mkldnn_reorder_conv2d_weight(vendor(w), .groups = c->groups)
                                       : fac_mkldnn_reorder_conv3d_weight(vendor(w), .groups = c->groups);
            assert_no_error();
            assert_int_equal(order_of(r), FAC_VENDOR_WEIGHT);
            assert_same(dense(r), w);
            assert_same(dense(conv(c, vendor(x), r, b)), dense(y));
        }
        fac_tensor *halves[] = {fac_to_dtype(x, FAC_BF16), fac_to_dtype(w, FAC_BF16),
                                b ? fac_to_dtype(b, FAC_BF16) : NULL};
        fac_tensor *h = conv(c, vendor(halves[0]), halves[1], halves[2]);
        assert_int_equal(fac_tensor_dtype(h), FAC_BF16);
        assert_close(fac_to_dtype(dense(h), FAC_F32),
                     conv(c, fac_to_dtype(halves[0], FAC_F32), fac_to_dtype(halves[1], FAC_F32),
                          b ? fac_to_dtype(halves[2], FAC_F32) : NULL),
                     0.01);
    }
}

static void S011_convolutions_of_the_vendor_layout_do_not_depend_on_threads(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    const int was = fac_num_threads();
    for (size_t i = 0; i < FAC_COUNT(convs); i++) {
        FAC_SCOPE(s);
        fac_tensor *x, *w, *b, *first = NULL;
        made_for(&convs[i], &x, &w, &b);
        for (int threads = 1; threads <= 4; threads++) {
            assert_ok(fac_set_num_threads(threads));
            fac_tensor *y = dense(conv(&convs[i], vendor(x), w, b));
            if (!first) first = y;
            assert_same(y, first);
        }
    }
    assert_ok(fac_set_num_threads(was));
}

static void S011_convolutions_of_the_vendor_layout_by_way_of_strided(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *x = numbers(FAC_INTS(2, 16, 5, 5), 0), *w = numbers(FAC_INTS(16, 8, 3, 3), 1), *y;
    y = fac_conv_transpose2d(vendor(x), w, NULL, .stride = 2);
    assert_close(dense(y), fac_conv_transpose2d(x, w, NULL, .stride = 2), 1e-5);
    w = numbers(FAC_INTS(8, 16, 3, 3), 1);
    y = fac_conv2d(vendor(fac_select(x, 0, 0)), w, NULL, .padding = 1);
    assert_close(dense(y), fac_conv2d(fac_select(x, 0, 0), w, NULL, .padding = 1), 1e-5);
    y = fac_conv2d(vendor(numbers(FAC_INTS(0, 16, 5, 5), 0)), w, NULL);
    assert_no_error();
    assert_int_equal(fac_tensor_size(y, 0), 0);
    y = fac_mkldnn_convolution(vendor(x), w, NULL, FAC_INTS(1), FAC_INTS(2), FAC_INTS(1), 1);
    assert_close(dense(y), fac_conv2d(x, w, NULL, .stride = 2, .padding = 1), 1e-5);
    assert_null(fac_conv2d(vendor(x), numbers(FAC_INTS(8, 4, 3, 3), 0), NULL));
    assert_error(FAC_ERR_SHAPE, "");
    assert_null(fac_mkldnn_reorder_conv2d_weight(vendor(w), .groups = 3));
    assert_error(FAC_ERR_SHAPE, "groups should divide the 8 output channels");
    assert_null(fac_mkldnn_reorder_conv2d_weight(vendor(w), .stride = 0));
    assert_error(FAC_ERR_ARGUMENT, "stride should be at least 1");
    assert_null(fac_mkldnn_reorder_conv3d_weight(vendor(w)));
    assert_error(FAC_ERR_SHAPE, "conv3d has 5 dimensions");
    assert_null(fac_mkldnn_reorder_conv2d_weight(w));
    assert_error(FAC_ERR_NO_KERNEL, "mkldnn_reorder_conv2d_weight");
}

/* ---- layers ------------------------------------------------------------------------------------------------------------------------ */

static void S171_linear_of_the_vendor_layout(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *w = numbers(FAC_INTS(5, 12), 1), *b = numbers(FAC_INTS(5), 2);
    fac_tensor *in[] = {numbers(FAC_INTS(12), 0), numbers(FAC_INTS(7, 12), 0), numbers(FAC_INTS(2, 3, 12), 0),
                        numbers(FAC_INTS(2, 20, 3, 12), 0)};
    for (size_t i = 0; i < FAC_COUNT(in); i++) {
        fac_tensor *y = fac_linear(vendor(in[i]), w, b);
        assert_true(fac_is_mkldnn(y));
        assert_close(dense(y), fac_linear(in[i], w, b), 1e-6);
        assert_same(dense(fac_mkldnn_linear(vendor(in[i]), vendor(w), vendor(b))), dense(y));
        assert_close(dense(fac_linear(vendor(in[i]), w, NULL)), fac_linear(in[i], w, NULL), 1e-6);
    }
    assert_null(fac_linear(vendor(in[1]), numbers(FAC_INTS(5, 11), 0), NULL));
    assert_error(FAC_ERR_SHAPE, "last size");
    assert_null(fac_mkldnn_linear(in[1], vendor(w), NULL));
    assert_error(FAC_ERR_UNSUPPORTED, "self should be of the layout _mkldnn");
}

static void S011_pooling_of_the_vendor_layout(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    static const int64_t channels[] = {3, 8, 16, 21, 48};
    for (size_t i = 0; i < FAC_COUNT(channels); i++) {
        FAC_SCOPE(s);
        fac_tensor *x = numbers(FAC_INTS(2, channels[i], 9, 11), 0), *v = vendor(x);
        fac_max_pool2d_with_indices_result a = fac_max_pool2d_with_indices(v, 3, .stride = 2, .padding = 1),
                                           b = fac_max_pool2d_with_indices(x, 3, .stride = 2, .padding = 1);
        assert_same(dense(a.result0), b.result0);
        assert_same(a.result1, b.result1);
        assert_spare_is_zero(a.result0);
        /* rows -1 and 9 of nine: the padding alone */
        a = fac_max_pool2d_with_indices(v, FAC_INTS(2, 3), .stride = 1, .padding = 1, .dilations = FAC_INTS(10, 6));
        b = fac_max_pool2d_with_indices(x, FAC_INTS(2, 3), .stride = 1, .padding = 1, .dilations = FAC_INTS(10, 6));
        assert_true(fac_item(fac_max(dense(a.result0))) == -INFINITY);
        assert_same(dense(a.result0), b.result0);
        assert_same(a.result1, b.result1);
        assert_spare_is_zero(a.result0);
        assert_same(dense(fac_max_pool2d(v, 2)), fac_max_pool2d(x, 2));
        assert_same(dense(fac_mkldnn_max_pool2d(v, 2)), fac_max_pool2d(x, 2));
        assert_close(dense(fac_avg_pool2d(v, 3, .padding = 1)), fac_avg_pool2d(x, 3, .padding = 1), 1e-6);
        assert_close(dense(fac_adaptive_avg_pool2d(v, FAC_INTS(4, 3))), fac_adaptive_avg_pool2d(x, FAC_INTS(4, 3)),
                     1e-6);
        assert_close(dense(fac_mkldnn_adaptive_avg_pool2d(v, FAC_INTS(1))), fac_adaptive_avg_pool2d(x, FAC_INTS(1)),
                     1e-6);
        x = numbers(FAC_INTS(2, channels[i], 4, 5, 6), 0), v = vendor(x);
        assert_same(dense(fac_max_pool3d(v, 2)), fac_max_pool3d(x, 2));
        assert_same(dense(fac_mkldnn_max_pool3d(v, 2)), fac_max_pool3d(x, 2));
        assert_close(dense(fac_avg_pool3d(v, 2)), fac_avg_pool3d(x, 2), 1e-6);
        assert_close(dense(fac_adaptive_avg_pool3d(v, FAC_INTS(2, 2, 3))),
                     fac_adaptive_avg_pool3d(x, FAC_INTS(2, 2, 3)), 1e-6);
        x = numbers(FAC_INTS(2, channels[i], 12), 0), v = vendor(x);
        assert_close(dense(fac_avg_pool1d(v, 3)), fac_avg_pool1d(x, 3), 1e-6);
        assert_same(dense(fac_max_pool1d(v, 3)), fac_max_pool1d(x, 3));
    }
}

static void S011_batch_norm_of_the_vendor_layout(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    static const int64_t channels[] = {3, 16, 21};
    for (size_t i = 0; i < FAC_COUNT(channels); i++)
        for (int training = 0; training < 2; training++) {
            FAC_SCOPE(s);
            const int64_t n = channels[i];
            fac_tensor *x = numbers(FAC_INTS(2, n, 4, 5), 0), *w = numbers(FAC_INTS(n), 1),
                       *b = numbers(FAC_INTS(n), 2);
            fac_tensor *mean[] = {numbers(FAC_INTS(n), 3), numbers(FAC_INTS(n), 3)};
            fac_tensor *var[] = {fac_add(fac_abs(numbers(FAC_INTS(n), 4)), 0.5),
                                 fac_add(fac_abs(numbers(FAC_INTS(n), 4)), 0.5)};
            fac_native_batch_norm_result a =
                fac_native_batch_norm(vendor(x), w, b, mean[0], var[0], training, 0.1, 1e-5);
            assert_no_error();
            fac_native_batch_norm_result c = fac_native_batch_norm(x, w, b, mean[1], var[1], training, 0.1, 1e-5);
            assert_true(fac_is_mkldnn(a.result0));
            assert_close(dense(a.result0), c.result0, 2e-6);
            assert_spare_is_zero(a.result0);
            assert_same(a.result1, c.result1);
            assert_same(mean[0], mean[1]);
            assert_same(var[0], var[1]);
        }
    fac_tensor *x = vendor(numbers(FAC_INTS(2, 16, 4, 4), 0)), *few = fac_ones(3);
    assert_null(fac_native_batch_norm(x, NULL, NULL, few, few, false, 0.1, 1e-5).result0);
    assert_error(FAC_ERR_SHAPE, "");
}

/* ---- gradients -------------------------------------------------------------------------------------------------------------------------- */

/* A small network from strided leaves to one element, in either layout. */
static fac_tensor *network(fac_tensor *const *leaf, bool by_vendor) {
    fac_tensor *x = by_vendor ? fac_to_mkldnn(leaf[0]) : leaf[0];
    x = fac_relu(fac_conv2d(x, leaf[1], leaf[2], .padding = 1));
    x = fac_batch_norm(x, leaf[3], leaf[4], NULL, NULL, true, 0.1, 1e-5, false);
    x = fac_add(fac_gelu(x), fac_mul(fac_tanh(x), fac_sigmoid(x)));
    x = fac_max_pool2d(x, 2);
    x = fac_flatten(fac_adaptive_avg_pool2d(fac_avg_pool2d(x, 2), FAC_INTS(1)), .start_dim = 1);
    x = fac_log_softmax(fac_linear(x, leaf[5], leaf[6]), 1);
    x = by_vendor ? fac_to_dense(x) : x;
    return fac_sum(fac_mul(x, numbers(FAC_INTS(2, 4), 9)));
}

static void S011_gradients_go_through_the_vendor_layout(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    enum { LEAVES = 7 };
    fac_tensor *leaf[2][LEAVES];
    for (int k = 0; k < 2; k++) {
        fac_tensor *made[LEAVES] = {numbers(FAC_INTS(2, 16, 8, 8), 0),
                                    numbers(FAC_INTS(20, 16, 3, 3), 1),
                                    numbers(FAC_INTS(20), 2),
                                    numbers(FAC_INTS(20), 3),
                                    numbers(FAC_INTS(20), 4),
                                    numbers(FAC_INTS(4, 20), 5),
                                    numbers(FAC_INTS(4), 6)};
        for (int i = 0; i < LEAVES; i++) leaf[k][i] = fac_set_requires_grad(made[i], true);
        assert_ok(fac_backward(network(leaf[k], k == 1)));
    }
    for (int i = 0; i < LEAVES; i++) {
        assert_non_null(fac_grad_of(leaf[1][i]));
        assert_int_equal(fac_tensor_layout(fac_grad_of(leaf[1][i])), FAC_STRIDED);
        assert_close(fac_grad_of(leaf[1][i]), fac_grad_of(leaf[0][i]), 1e-4);
    }
}

static void S011_gradients_of_vendor_leaves_have_their_layout(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *x = numbers(FAC_INTS(2, 16, 3, 3), 0), *v = fac_set_requires_grad(vendor(x), true);
    fac_set_requires_grad(x, true);
    for (int pass = 0; pass < 2; pass++) { /* the second adds to what the first gave */
        assert_ok(fac_backward(fac_sum(fac_mul(v, v))));
        assert_ok(fac_backward(fac_sum(fac_to_dense(fac_sigmoid(v)))));
        assert_ok(fac_backward(fac_sum(fac_add(fac_mul(x, x), fac_sigmoid(x)))));
    }
    assert_true(fac_is_mkldnn(fac_grad_of(v)));
    assert_close(dense(fac_grad_of(v)), fac_grad_of(x), 1e-5);
    fac_tensor *half = fac_set_requires_grad(numbers(FAC_INTS(3, 4), 0), true);
    assert_ok(fac_backward(fac_sum(fac_to_dense(fac_to_mkldnn(half, .dtype = FAC_BF16)))));
    assert_int_equal(fac_tensor_dtype(fac_grad_of(half)), FAC_F32);
    assert_same(fac_grad_of(half), fac_ones(FAC_SHAPE(3, 4)));
}

static void S011_second_derivatives_go_through_the_vendor_layout(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *second[2];
    for (int k = 0; k < 2; k++) {
        fac_tensor *x = fac_set_requires_grad(numbers(FAC_INTS(2, 6), 0), true), *w = numbers(FAC_INTS(3, 6), 1);
        fac_tensor *y =
            k ? fac_to_dense(fac_tanh(fac_linear(fac_to_mkldnn(x), w, NULL))) : fac_tanh(fac_linear(x, w, NULL));
        fac_tensor *first = NULL;
        assert_ok(fac_grad(FAC_TENSORS(fac_sum(y)), FAC_TENSORS(x), &first, .create_graph = true));
        assert_ok(fac_grad(FAC_TENSORS(fac_sum(fac_mul(first, first))), FAC_TENSORS(x), &second[k]));
    }
    assert_close(second[1], second[0], 1e-5);
}

/* ---- what does not take them ---------------------------------------------------------------------------------------------------------------- */

static fac_status through(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_to_dense(fac_relu(fac_to_mkldnn(in.v[0])));
    return fac_error();
}

static void S011_other_operators_refuse_vendor_tensors_by_name(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *v = vendor(numbers(FAC_INTS(3, 3), 0)), *x = numbers(FAC_INTS(3, 3), 0), *y;
    assert_null(fac_mm(v, x));
    assert_error(FAC_ERR_UNSUPPORTED, "'aten::mm' does not take tensors of the layout _mkldnn");
    assert_null(fac_cat(FAC_TENSORS(v, x)));
    assert_error(FAC_ERR_UNSUPPORTED,
                 "'aten::cat' does not take tensors of the layout _mkldnn together with strided ones");
    assert_null(fac_cat(FAC_TENSORS(x, v)));
    assert_error(FAC_ERR_UNSUPPORTED, "together with strided ones");
    assert_null(fac_cumsum(v, 0));
    assert_error(FAC_ERR_UNSUPPORTED, "'aten::cumsum' does not take tensors of the layout _mkldnn");
    assert_null(fac_eq(v, v));
    assert_error(FAC_ERR_UNSUPPORTED, "aten::eq");
    assert_null(fac_to_sparse(v));
    assert_error(FAC_ERR_UNSUPPORTED, "_mkldnn");
    assert_null(fac_to_mkldnn(v));
    assert_error(FAC_ERR_UNSUPPORTED, "aten::to_mkldnn");
    assert_null(fac_to_mkldnn(fac_to_sparse(x)));
    assert_error(FAC_ERR_UNSUPPORTED, "sparse_coo");
    assert_null(fac_add(fac_to_sparse(x), v));
    assert_int_equal(fac_error(), FAC_ERR_UNSUPPORTED);
    fac_error_clear();
    const fac_named_tensor named[] = {{"v", v}};
    assert_int_equal(fac_safetensors_save("/nonexistent/v.safetensors", named, 1, NULL, 0), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "make it so by to_dense");
    assert_int_equal(fac_vmap(through, NULL, FAC_TENSORS(v), &y, 1), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "cannot be mapped over");
    FAC_DUAL_LEVEL(level);
    assert_null(fac_make_dual(v, v));
    assert_error(FAC_ERR_UNSUPPORTED, "cannot carry a tangent");
    assert_null(fac_to_mkldnn(fac_make_dual(x, x)));
    assert_error(FAC_ERR_UNSUPPORTED, "_mkldnn has no tangent");
}

static void S011_optimisers_refuse_vendor_parameters(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *v = fac_set_requires_grad(vendor(numbers(FAC_INTS(3, 3), 0)), true), *before = dense(v);
    fac_optimizer *of[] = {fac_sgd_of(FAC_TENSORS(v), 0.1), fac_adam_of(FAC_TENSORS(v), 0.1)};
    assert_ok(fac_backward(fac_sum(v)));
    for (size_t i = 0; i < FAC_COUNT(of); i++) {
        assert_non_null(of[i]);
        assert_int_equal(fac_optimizer_step(of[i]), FAC_ERR_UNSUPPORTED);
        assert_error(FAC_ERR_UNSUPPORTED, "a parameter should be strided, but has the layout _mkldnn");
        fac_optimizer_release(of[i]);
    }
    assert_same(dense(v), fac_detach(before));
}

static void S011_linear_of_nothing_has_gradients(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    static const int64_t sizes[][3] = {{0, 4, 3}, {2, 0, 3}, {2, 4, 0}}; /* rows, inputs, outputs */
    for (size_t i = 0; i < FAC_COUNT(sizes); i++) {
        fac_tensor *x = fac_set_requires_grad(fac_ones(FAC_SHAPE(sizes[i][0], sizes[i][1])), true);
        fac_tensor *w = fac_set_requires_grad(fac_ones(FAC_SHAPE(sizes[i][2], sizes[i][1])), true);
        assert_ok(fac_backward(fac_sum(fac_to_dense(fac_linear(fac_to_mkldnn(x), w, NULL)))));
        assert_same(fac_grad_of(w), fac_mul(fac_ones_like(fac_detach(w)), (double)sizes[i][0]));
        assert_same(fac_grad_of(x), fac_mul(fac_ones_like(fac_detach(x)), (double)sizes[i][2]));
    }
}

static void S011_vendor_tensors_are_printed_and_read(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    const float v[] = {1, 2.5f, -3};
    fac_tensor *t = vendor(fac_tensor_from(v, FAC_F32, FAC_INTS(3)));
    char *text = fac_tensor_string(t);
    assert_string_equal(text, "tensor([ 1.0000,  2.5000, -3.0000], layout=torch._mkldnn)");
    fac_string_free(text);
    for (size_t i = 0; i < FAC_COUNT(shapes); i++) {
        FAC_SCOPE(s);
        fac_tensor *x = numbers(shape(i), 0);
        const size_t n = (size_t)fac_tensor_numel(x);
        float *got = malloc((n + 1) * sizeof *got);
        assert_ok(fac_tensor_read(vendor(x), FAC_F32, got, n));
        assert_memory_equal(got, fac_tensor_data(x) ? fac_tensor_data(x) : got, n * sizeof *got);
        free(got);
    }
    assert_true(fac_item(vendor(fac_full(FAC_SHAPE(1, 16, 1, 1), 2.5))
                             ? fac_sum(vendor(fac_full(FAC_SHAPE(1, 16, 1, 1), 2.5)))
                             : NULL) == 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FAC_TEST(S011_vendor_layout_gives_its_elements_back),
        FAC_TEST(S011_vendor_layout_has_channels_in_blocks),
        FAC_TEST(S011_vendor_layout_is_opaque_and_takes_part_in_dispatch),
        FAC_TEST(S011_vendor_tensors_are_made_empty_and_zero),
        FAC_TEST(S107_E13_zero_of_the_vendor_layout_writes_zeros_in_place),
        FAC_TEST(S107_zero_goes_through_one_operator_for_all_layouts),
        FAC_TEST(S011_vendor_tensors_are_copied),
        FAC_TEST(S011_operators_of_the_vendor_layout_give_what_strided_ones_do),
        FAC_TEST(S011_vendor_tensors_change_in_place),
        FAC_TEST(S011_convolutions_of_the_vendor_layout),
        FAC_TEST(S011_convolutions_of_the_vendor_layout_do_not_depend_on_threads),
        FAC_TEST(S011_convolutions_of_the_vendor_layout_by_way_of_strided),
        FAC_TEST(S171_linear_of_the_vendor_layout),
        FAC_TEST(S011_pooling_of_the_vendor_layout),
        FAC_TEST(S011_batch_norm_of_the_vendor_layout),
        FAC_TEST(S011_gradients_go_through_the_vendor_layout),
        FAC_TEST(S011_gradients_of_vendor_leaves_have_their_layout),
        FAC_TEST(S011_second_derivatives_go_through_the_vendor_layout),
        FAC_TEST(S011_other_operators_refuse_vendor_tensors_by_name),
        FAC_TEST(S011_optimisers_refuse_vendor_parameters),
        FAC_TEST(S011_linear_of_nothing_has_gradients),
        FAC_TEST(S011_vendor_tensors_are_printed_and_read),
    };
    return support_run(tests, FAC_COUNT(tests), NULL);
}
