/* Single operators and short chains: what a call costs, and how fast the kernels are. */
#include "rows.h"

enum { MI = 1 << 20 };

static fac_tensor *run_empty(fixture *f) {
    (void)f;
    return fac_empty(FAC_INTS(16));
}
static fac_tensor *run_add(fixture *f) { return fac_add(f->x[0], f->x[1]); }
static fac_tensor *run_add_out(fixture *f) { return fac_add_out(f->x[2], f->x[0], f->x[1]); }
static fac_tensor *run_mm(fixture *f) { return fac_mm(f->x[0], f->x[1]); }
static fac_tensor *run_view(fixture *f) { return fac_view(f->x[0], FAC_INTS(4, 4)); }
static fac_tensor *run_sum(fixture *f) { return fac_sum(f->x[0]); }
static fac_tensor *run_mul_add(fixture *f) { return fac_add(fac_mul(f->x[0], f->x[1]), f->x[2]); }
static fac_tensor *run_exp(fixture *f) { return fac_exp(f->x[0]); }
static fac_tensor *run_tanh(fixture *f) { return fac_tanh(f->x[0]); }
static fac_tensor *run_gelu(fixture *f) { return fac_gelu(f->x[0]); }
static fac_tensor *run_sigmoid(fixture *f) { return fac_sigmoid(f->x[0]); }
static fac_tensor *run_gt(fixture *f) { return fac_gt(f->x[0], f->x[1]); }
static fac_tensor *run_where(fixture *f) { return fac_where(f->x[2], f->x[0], f->x[1]); }
static fac_tensor *run_cat(fixture *f) { return fac_cat(FAC_TENSORS(f->x[0], f->x[1])); }
static fac_tensor *run_transpose(fixture *f) { return fac_contiguous(fac_t(f->x[0])); }
static fac_tensor *run_mean_last(fixture *f) { return fac_mean(f->x[0], .dim = -1); }
static fac_tensor *run_var_last(fixture *f) { return fac_var(f->x[0], .dim = -1); }
static fac_tensor *run_softmax(fixture *f) { return fac_softmax(f->x[0], -1); }
static fac_tensor *run_log_softmax(fixture *f) { return fac_log_softmax(f->x[0], -1); }
static fac_tensor *run_layer_norm(fixture *f) {
    return fac_layer_norm(f->x[0], FAC_INTS(1024), .weight = f->x[1], .bias = f->x[2]);
}
static fac_tensor *run_argmax(fixture *f) { return fac_argmax(f->x[0]); }
static fac_tensor *run_cumsum(fixture *f) { return fac_cumsum(f->x[0], 0); }
static fac_tensor *run_sort(fixture *f) { return fac_sort(f->x[0]).values; }
static fac_tensor *run_embedding(fixture *f) { return fac_embedding(f->x[0], f->x[1]); }
static fac_tensor *run_randn(fixture *f) {
    (void)f;
    return fac_randn(FAC_INTS(MI));
}
static fac_tensor *run_dropout(fixture *f) { return fac_dropout(f->x[0], 0.1, true); }
static fac_tensor *run_linear(fixture *f) { return fac_linear(f->x[0], f->x[1], f->x[2]); }
static fac_tensor *run_bmm(fixture *f) { return fac_bmm(f->x[0], f->x[1]); }
static fac_tensor *run_conv(fixture *f) { return fac_conv2d(f->x[0], f->x[1], f->x[2], .padding = 1); }

/* Backward of y with the weights x[3], then the inputs' gradients are dropped. */
static fac_tensor *backward(fixture *f, fac_tensor *y) {
    if (fac_backward(y, .gradient = f->x[3])) return NULL;
    for (int i = 0; i < 3; i++)
        if (f->x[i] && fac_set_grad(f->x[i], NULL)) return NULL;
    return y;
}
static fac_tensor *run_mul_add_sum_backward(fixture *f) { return backward(f, fac_sum(run_mul_add(f))); }
static fac_tensor *run_linear_backward(fixture *f) { return backward(f, run_linear(f)); }
static fac_tensor *run_conv_backward(fixture *f) { return backward(f, run_conv(f)); }

static void prepare_where(fixture *f) { f->x[2] = fac_gt(f->x[0], 0.0); }
static void prepare_embedding(fixture *f) { f->x[1] = fac_randint(32768, FAC_INTS(16384)); }
/* 64 components of 16, 18 ... 142 rows, of the rows of x[0]. */
enum { COMPONENTS = 64, COMPONENT_ROWS = 5056 };
static void prepare_nested(fixture *f) {
    int64_t rows[COMPONENTS];
    for (int i = 0; i < COMPONENTS; i++) rows[i] = 16 + 2 * i;
    const fac_ints list = {rows, COMPONENTS};
    f->x[0] = fac_nested_tensor(fac_split_with_sizes(f->x[0], list));
}
static void prepare_nested_bmm(fixture *f) {
    prepare_nested(f);
    f->x[1] = fac_transpose(f->x[0], 1, 2);
}
/* The images and the weight of a convolution in the vendor layout. */
static void prepare_vendor(fixture *f) {
    f->x[0] = fac_to_mkldnn(f->x[0]);
    f->x[1] = fac_mkldnn_reorder_conv2d_weight(fac_to_mkldnn(f->x[1]), .padding = 1);
}
static void prepare_backward(fixture *f) { fac_set_requires_grad(f->x[3], false); }

const row op_rows[] = {
    {"overhead", "empty 16", run_empty, NULL, {{0}}, false},
    {"overhead", "add 1", run_add, NULL, {{1}, {1}}, false},
    {"overhead", "add 1 out", run_add_out, NULL, {{1}, {1}, {1}}, false},
    {"overhead", "add 16 grad", run_add, NULL, {{16}, {16}}, true},
    {"overhead", "mm 4x4", run_mm, NULL, {{4, 4}, {4, 4}}, false},
    {"overhead", "view 16", run_view, NULL, {{16}}, false},
    {"overhead", "sum 16", run_sum, NULL, {{16}}, false},
    {"overhead", "(a*b+c).sum() 16 fwd+bwd", run_mul_add_sum_backward, NULL, {{16}, {16}, {16}}, true},

    {"pointwise", "add 1M", run_add, NULL, {{MI}, {MI}}, false},
    {"pointwise", "a*b+c 1M", run_mul_add, NULL, {{MI}, {MI}, {MI}}, false},
    {"pointwise", "exp 1M", run_exp, NULL, {{MI}}, false},
    {"pointwise", "tanh 1M", run_tanh, NULL, {{MI}}, false},
    {"pointwise", "gelu 1M", run_gelu, NULL, {{MI}}, false},
    {"pointwise", "sigmoid 1M", run_sigmoid, NULL, {{MI}}, false},
    {"pointwise", "where 1M", run_where, prepare_where, {{MI}, {MI}}, false},
    {"pointwise", "gt 1M", run_gt, NULL, {{MI}, {MI}}, false},
    {"pointwise", "cat 2x1M", run_cat, NULL, {{MI}, {MI}}, false},
    {"pointwise", "add 16M", run_add, NULL, {{16 * MI}, {16 * MI}}, false},
    {"pointwise", "exp 16M", run_exp, NULL, {{16 * MI}}, false},
    {"pointwise", "transpose 4096x4096", run_transpose, NULL, {{4096, 4096}}, false},

    {"reduction", "sum 1M", run_sum, NULL, {{MI}}, false},
    {"reduction", "mean last 16384x1024", run_mean_last, NULL, {{16384, 1024}}, false},
    {"reduction", "var last 1024x1024", run_var_last, NULL, {{1024, 1024}}, false},
    {"reduction", "softmax 4096x1024", run_softmax, NULL, {{4096, 1024}}, false},
    {"reduction", "log_softmax 4096x1024", run_log_softmax, NULL, {{4096, 1024}}, false},
    {"reduction", "layer_norm 4096x1024", run_layer_norm, NULL, {{4096, 1024}, {1024}, {1024}}, false},
    {"reduction", "argmax 1M", run_argmax, NULL, {{MI}}, false},
    {"reduction", "cumsum 1M", run_cumsum, NULL, {{MI}}, false},
    {"reduction", "sort 1M", run_sort, NULL, {{MI}}, false},
    {"reduction", "embedding 16384 of 32768x256", run_embedding, prepare_embedding, {{32768, 256}}, false},
    {"reduction", "randn 1M", run_randn, NULL, {{0}}, false},
    {"reduction", "dropout 1M", run_dropout, NULL, {{MI}}, false},

    {"matrix", "mm 64", run_mm, NULL, {{64, 64}, {64, 64}}, false},
    {"matrix", "mm 128", run_mm, NULL, {{128, 128}, {128, 128}}, false},
    {"matrix", "mm 256", run_mm, NULL, {{256, 256}, {256, 256}}, false},
    {"matrix", "mm 512", run_mm, NULL, {{512, 512}, {512, 512}}, false},
    {"matrix", "mm 1024", run_mm, NULL, {{1024, 1024}, {1024, 1024}}, false},
    {"matrix", "linear 256x1024x1024", run_linear, NULL, {{256, 1024}, {1024, 1024}, {1024}}, false},
    {"matrix",
     "linear 256x1024x1024 fwd+bwd",
     run_linear_backward,
     prepare_backward,
     {{256, 1024}, {1024, 1024}, {1024}, {256, 1024}},
     true},
    {"matrix", "nested bmm 64x(16..142)x64", run_bmm, prepare_nested_bmm, {{COMPONENT_ROWS, 64}}, false},
    {"matrix",
     "nested linear 64x(16..142)x64x256",
     run_linear,
     prepare_nested,
     {{COMPONENT_ROWS, 64}, {256, 64}, {256}},
     false},
    {"matrix", "conv 32x64x32x32 3x3", run_conv, NULL, {{32, 64, 32, 32}, {64, 64, 3, 3}, {64}}, false},
    {"matrix",
     "conv 32x64x32x32 3x3 mkldnn",
     run_conv,
     prepare_vendor,
     {{32, 64, 32, 32}, {64, 64, 3, 3}, {64}},
     false},
    {"matrix",
     "conv 32x64x32x32 3x3 fwd+bwd",
     run_conv_backward,
     prepare_backward,
     {{32, 64, 32, 32}, {64, 64, 3, 3}, {64}, {32, 64, 32, 32}},
     true},
};
const size_t n_op_rows = sizeof op_rows / sizeof *op_rows;
