/* Autocast: regions, what is cast and what is not, weights' casts that are kept, gradients. */
#include "support/samples.h"
#include "support/support.h"
#include "support/values.h"

#include <facula/facula.h>
#include <pthread.h>

static fac_dtype dtype_of(fac_tensor *t) {
    assert_no_error();
    assert_non_null(t);
    return fac_tensor_dtype(t);
}
#define assert_dtype(t, d) assert_string_equal(fac_dtype_name(dtype_of(t)), fac_dtype_name(d))

/* ---- regions -------------------------------------------------------------------------------------------------------------- */

static void S170_regions_nest_and_end(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_randn(FAC_SHAPE(3, 4)), *b = fac_randn(FAC_SHAPE(4, 5));
    assert_false(fac_is_autocast_enabled(FAC_CPU));
    assert_int_equal(fac_autocast_dtype(FAC_CPU), FAC_BF16);
    assert_int_equal(fac_autocast_dtype(FAC_CUDA), FAC_F16);
    assert_dtype(fac_mm(a, b), FAC_F32);
    {
        FAC_AUTOCAST(outer);
        assert_true(fac_is_autocast_enabled(FAC_CPU));
        assert_false(fac_is_autocast_enabled(FAC_CUDA));
        assert_dtype(fac_mm(a, b), FAC_BF16);
        {
            FAC_AUTOCAST(inner, .dtype = FAC_F16);
            assert_int_equal(fac_autocast_dtype(FAC_CPU), FAC_F16);
            assert_dtype(fac_mm(a, b), FAC_F16);
            FAC_AUTOCAST(again); /* as around it */
            assert_dtype(fac_mm(a, b), FAC_F16);
        }
        {
            FAC_AUTOCAST(off, .enabled = false);
            assert_false(fac_is_autocast_enabled(FAC_CPU));
            assert_dtype(fac_mm(a, b), FAC_F32);
            FAC_AUTOCAST(on, .dtype = FAC_F16);
            assert_dtype(fac_mm(a, b), FAC_F16);
        }
        {
            FAC_AUTOCAST(other, .device = fac_device_make(FAC_CUDA, -1));
            assert_true(fac_is_autocast_enabled(FAC_CUDA));
            assert_dtype(fac_mm(a, b), FAC_BF16); /* the CPU's stays as it was */
        }
        assert_false(fac_is_autocast_enabled(FAC_CUDA));
        assert_dtype(fac_mm(a, b), FAC_BF16);
    }
    assert_false(fac_is_autocast_enabled(FAC_CPU));
    assert_dtype(fac_mm(a, b), FAC_F32);
    fac_autocast_guard g = fac_autocast_begin(.device = fac_tensor_device(a), .dtype = FAC_F16);
    assert_dtype(fac_mm(a, b), FAC_F16);
    fac_autocast_end(&g);
    fac_autocast_end(&g); /* harmless */
    assert_dtype(fac_mm(a, b), FAC_F32);
}

static void S170_other_devices_and_dtypes_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_autocast_guard g = fac_autocast_begin(.dtype = FAC_F32);
    assert_error(FAC_ERR_ARGUMENT, "autocast casts to float16 or bfloat16, got float32");
    fac_autocast_end(&g);
    g = fac_autocast_begin(.device = fac_device_make(FAC_META, -1));
    assert_error(FAC_ERR_UNSUPPORTED, "autocast knows the devices cpu and cuda, got meta");
    fac_autocast_end(&g);
    assert_int_equal(fac_autocast_dtype(FAC_META), FAC_DTYPE_DEFAULT);
    assert_error(FAC_ERR_UNSUPPORTED, "got meta");
    assert_false(fac_is_autocast_enabled(FAC_META));
    assert_dtype(fac_mm(fac_ones(FAC_SHAPE(2, 2)), fac_ones(FAC_SHAPE(2, 2))), FAC_F32);
}

static void *multiply(void *out) {
    FAC_SCOPE(s);
    fac_tensor *a = fac_ones(FAC_SHAPE(2, 2)), *y = fac_mm(a, a);
    *(fac_dtype *)out = y ? fac_tensor_dtype(y) : FAC_DTYPE_DEFAULT;
    return NULL;
}

static void *leave_open(void *out) {
    FAC_SCOPE(s);
    fac_tensor *w = fac_set_requires_grad(fac_ones(FAC_SHAPE(2, 2)), true);
    const fac_autocast_guard g = fac_autocast_begin(.dtype = FAC_BF16);
    *(bool *)out = g.open && fac_mm(w, w);
    return NULL;
}

static void S170_a_region_is_its_threads(void **state) {
    (void)state;
    FAC_AUTOCAST(g);
    pthread_t other;
    fac_dtype got = FAC_DTYPE_DEFAULT;
    assert_int_equal(pthread_create(&other, NULL, multiply, &got), 0);
    pthread_join(other, NULL);
    assert_int_equal(got, FAC_F32);
    bool done = false; /* a thread that ends within a region leaves nothing behind: the teardown counts */
    assert_int_equal(pthread_create(&other, NULL, leave_open, &done), 0);
    pthread_join(other, NULL);
    assert_true(done);
}

/* ---- what is cast ------------------------------------------------------------------------------------------------------------ */

static void S170_operators_are_cast_as_their_entries_say(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_randn(FAC_SHAPE(2, 3, 4)), *w = fac_randn(FAC_SHAPE(4, 4)), *h = fac_to(a, .dtype = FAC_BF16),
               *d = fac_to(w, .dtype = FAC_F64);
    FAC_AUTOCAST(g);
    assert_dtype(fac_matmul(a, w), FAC_BF16);
    assert_dtype(fac_linear(h, w, NULL), FAC_BF16);
    assert_dtype(fac_matmul(d, d), FAC_F64); /* is never cast */
    assert_dtype(fac_matmul(fac_to(w, .dtype = FAC_F16), w), FAC_BF16);
    assert_dtype(fac_add(a, a), FAC_F32);
    assert_dtype(fac_add(h, h), FAC_BF16);
    assert_dtype(fac_mse_loss(h, h), FAC_F32);
    assert_dtype(fac_cat(FAC_TENSORS(h, a)), FAC_F32); /* the widest */
    assert_dtype(fac_cat(FAC_TENSORS(h, h)), FAC_BF16);
    assert_dtype(fac_scaled_dot_product_attention(a, a, a), FAC_BF16);
    /* Forms that write are not cast. */
    fac_tensor *out = fac_zeros(FAC_SHAPE(4, 4));
    assert_dtype(fac_mm_out(out, w, w), FAC_F32);
    fac_tensor *exact = fac_zeros(FAC_SHAPE(2, 3, 4));
    assert_dtype(fac_matmul_out(exact, a, w), FAC_F32);
    /* What a listed operator is made of is not cast again: its losses are those of f32. */
    fac_tensor *logits = fac_to(fac_randn(FAC_SHAPE(5, 7)), .dtype = FAC_BF16);
    fac_tensor *target = fac_tensor_from((int64_t[]){0, 1, 2, 3, 6}, FAC_I64, FAC_INTS(5));
    fac_tensor *loss = fac_cross_entropy(logits, target);
    assert_dtype(loss, FAC_F32);
    fac_tensor *mixed = fac_tensor_from((float[]){1, 2}, FAC_F32, FAC_INTS(2));
    assert_null(fac_cat(FAC_TENSORS(fac_to(mixed, .dtype = FAC_F16), fac_to(mixed, .dtype = FAC_BF16))));
    assert_error(FAC_ERR_DTYPE, "cannot bring a tensor of float16 together");
    FAC_AUTOCAST(off, .enabled = false);
    assert_close(exact, fac_matmul(a, w));
    assert_close(loss, fac_cross_entropy(fac_to(logits, .dtype = FAC_F32), target));
}

static void S170_operators_tell_how_they_are_cast(void **state) {
    (void)state;
    const fac_operator *bce = fac_operator_find("aten::binary_cross_entropy");
    assert_string_equal(fac_operator_autocast(bce, FAC_CPU), "f32");
    assert_string_equal(fac_operator_autocast(bce, FAC_CUDA), "refused");
    assert_string_equal(fac_operator_autocast(fac_operator_find("aten::mm"), FAC_CPU), "lower");
    assert_string_equal(fac_operator_autocast(fac_operator_find("aten::softmax.int"), FAC_CUDA), "f32_dtype");
    assert_string_equal(fac_operator_autocast(fac_operator_find("aten::softmax.int"), FAC_CPU), "");
    assert_string_equal(fac_operator_autocast(fac_operator_find("aten::stack"), FAC_CPU), "widest");
    assert_string_equal(fac_operator_autocast(fac_operator_find("aten::mm.out"), FAC_CPU), "none");
    assert_string_equal(fac_operator_autocast(fac_operator_find("aten::mm"), FAC_META), "");
    assert_string_equal(fac_operator_autocast(NULL, FAC_CPU), "");
    assert_error(FAC_ERR_ARGUMENT, "operator");
}

/* Layers give what PyTorch's give: norms take what halves come in with weights in f32. */
static void S170_layers_run_in_autocast(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(2, 3, 8, 8)), *w = fac_randn(FAC_SHAPE(4, 3, 3, 3)),
               *of4 = fac_ones(FAC_SHAPE(4)), *of8 = fac_ones(FAC_SHAPE(6));
    FAC_AUTOCAST(g);
    fac_tensor *y = fac_conv2d(x, w, NULL);
    assert_dtype(y, FAC_BF16);
    assert_dtype(fac_batch_norm(y, of4, of4, fac_zeros(FAC_SHAPE(4)), fac_ones(FAC_SHAPE(4)), true, 0.1, 1e-5, false),
                 FAC_BF16);
    assert_dtype(fac_group_norm(y, 2, of4, of4), FAC_BF16);
    assert_dtype(fac_layer_norm(y, FAC_INTS(6), of8, of8), FAC_BF16);
    assert_dtype(fac_rms_norm(y, FAC_INTS(6), of8), FAC_BF16);
    assert_dtype(fac_max_pool2d(y, 2), FAC_BF16);
    assert_dtype(fac_softmax(y, -1), FAC_BF16);
    assert_dtype(fac_sum(y), FAC_BF16);
}

/* ---- weights ------------------------------------------------------------------------------------------------------------------ */

static int casts_made;
static void count_casts(void *context, const fac_operator *op, fac_keyset keys, bool enter) {
    (void)context, (void)keys;
    casts_made += enter && strcmp(fac_operator_name(op), "aten::to.dtype") == 0;
}

static int casts_of(fac_tensor *x, fac_tensor *w) {
    casts_made = 0;
    assert_non_null(fac_mm(x, w));
    return casts_made;
}

static void S170_weights_are_cast_once(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_to(fac_randn(FAC_SHAPE(2, 3)), .dtype = FAC_BF16), *plain = fac_randn(FAC_SHAPE(3, 4)),
               *w = fac_set_requires_grad(fac_randn(FAC_SHAPE(3, 4)), true);
    {
        FAC_AUTOCAST(g);
        assert_true(fac_is_autocast_cache_enabled());
        assert_int_equal(casts_of(x, w), 1);
        assert_int_equal(casts_of(x, w), 0);
        assert_int_equal(casts_of(x, plain), 1); /* no weight */
        assert_int_equal(casts_of(x, plain), 1);
        {
            FAC_AUTOCAST(inner);
            assert_int_equal(casts_of(x, w), 0);
        }
        assert_int_equal(casts_of(x, w), 0);
        {
            FAC_AUTOCAST(uncached, .cache_enabled = false);
            assert_false(fac_is_autocast_cache_enabled());
            FAC_AUTOCAST(same);
            assert_int_equal(casts_of(x, w), 1);
        }
        {
            FAC_AUTOCAST(half, .dtype = FAC_F16);
            assert_int_equal(casts_of(fac_to(x, .dtype = FAC_F16), w), 1);
        }
        fac_clear_autocast_cache();
        assert_int_equal(casts_of(x, w), 1);
        {
            FAC_NO_GRAD(no);
            assert_non_null(fac_add_(w, 1.0)); /* a weight that has changed is cast anew */
        }
        assert_int_equal(casts_of(x, w), 1);
        assert_int_equal(casts_of(x, w), 0);
    }
    FAC_AUTOCAST(g);
    assert_int_equal(casts_of(x, w), 1); /* the outermost region's end has dropped it */
}

/* In PyTorch a weight that is cast without recording stays without a gradient until the region ends. */
static void S170_a_cast_without_recording_is_not_kept_for_gradients(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(2, 3)), *w = fac_set_requires_grad(fac_randn(FAC_SHAPE(3, 4)), true);
    FAC_AUTOCAST(g);
    {
        FAC_NO_GRAD(no);
        assert_non_null(fac_mm(x, w));
    }
    assert_ok(fac_backward(fac_sum(fac_mm(x, w))));
    assert_non_null(fac_grad_of(w));
}

/* ---- gradients ------------------------------------------------------------------------------------------------------------------ */

static void S170_gradients_come_back_in_the_dtype_of_the_weight(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(4, 3)), *w = fac_set_requires_grad(fac_randn(FAC_SHAPE(3, 5)), true);
    fac_tensor *want, *loss;
    {
        fac_tensor *wide = fac_set_requires_grad(fac_to(fac_detach(w), .dtype = FAC_BF16), true);
        assert_ok(fac_backward(fac_sum(fac_to(fac_mm(fac_to(x, .dtype = FAC_BF16), wide), .dtype = FAC_F32))));
        want = fac_to(fac_grad_of(wide), .dtype = FAC_F32);
    }
    {
        FAC_AUTOCAST(g);
        fac_tensor *y = fac_mm(x, w);
        loss = fac_sum(fac_to(y, .dtype = FAC_F32));
        assert_ok(fac_backward(loss, .retain_graph = true)); /* within the region: gradients are not cast again */
    }
    assert_dtype(fac_grad_of(w), FAC_F32);
    assert_close(fac_grad_of(w), want);
    assert_ok(fac_set_grad(w, NULL));
    assert_ok(fac_backward(loss)); /* and after it */
    assert_close(fac_grad_of(w), want);
}

/* A cast keeps nothing of what it casts: several losses go back through that of one weight, and a wide activation ends
   with its scope. */
static void S170_several_losses_share_the_cast_of_a_weight(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(2, 3)), *w = fac_randn(FAC_SHAPE(3, 4));
    fac_set_requires_grad(w, true);
    {
        FAC_AUTOCAST(g);
        assert_ok(fac_backward(fac_sum(fac_mm(x, w))));
        fac_tensor *once = fac_clone(fac_grad_of(w));
        assert_ok(fac_backward(fac_sum(fac_mm(x, w))));
        assert_true(fac_equal(fac_grad_of(w), fac_mul(once, 2)));
    }
    fac_tensor *narrow = fac_to(w, .dtype = FAC_BF16);
    assert_ok(fac_backward(fac_sum(narrow)));
    assert_ok(fac_backward(fac_sum(narrow)));
    assert_no_error();
}

static fac_dtype seen_forward, seen_backward;
static bool on_forward, on_backward;

static fac_status square_forward(fac_function_ctx *c, fac_tensors in, fac_tensor **out) {
    on_forward = fac_is_autocast_enabled(FAC_CPU);
    seen_forward = fac_tensor_dtype(in.v[0]);
    out[0] = fac_mm(in.v[0], in.v[0]);
    return out[0] ? fac_function_save(c, in) : fac_error();
}

static fac_status square_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    fac_tensor *x = fac_function_saved(c).v[0];
    on_backward = fac_is_autocast_enabled(FAC_CPU);
    fac_tensor *right = fac_mm(grads.v[0], fac_t(x)), *left = fac_mm(fac_t(x), grads.v[0]);
    seen_backward = right ? fac_tensor_dtype(right) : FAC_DTYPE_DEFAULT;
    out[0] = fac_add(left, right);
    return fac_error();
}

static const fac_function square = {
    .name = "Square", .n_outputs = 1, .forward = square_forward, .backward = square_backward};

static void S170_custom_functions_have_the_autocast_of_their_forward(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_randn(FAC_SHAPE(3, 3)), true), *y = NULL;
    {
        FAC_AUTOCAST(g);
        assert_ok(fac_function_apply(&square, NULL, FAC_TENSORS(x), &y));
        assert_dtype(y, FAC_BF16);
    }
    assert_true(on_forward);
    assert_int_equal(seen_forward, FAC_F32);
    assert_ok(fac_backward(fac_sum(y)));
    assert_true(on_backward);
    assert_int_equal(seen_backward, FAC_BF16);
    assert_false(fac_is_autocast_enabled(FAC_CPU));
    assert_dtype(fac_grad_of(x), FAC_F32);
    {
        FAC_AUTOCAST(g);
        assert_ok(fac_function_apply_cast(&square, NULL, FAC_TENSORS(fac_to(x, .dtype = FAC_BF16)), FAC_F32, &y));
        assert_true(fac_is_autocast_enabled(FAC_CPU));
        assert_dtype(y, FAC_F32);
        assert_false(on_forward);
        assert_int_equal(seen_forward, FAC_F32);
        assert_ok(fac_backward(fac_sum(y)));
        assert_false(on_backward);
        assert_int_equal(seen_backward, FAC_F32);
    }
    /* Outside of a region nothing is cast. */
    assert_ok(fac_function_apply_cast(&square, NULL, FAC_TENSORS(x), FAC_F16, &y));
    assert_dtype(y, FAC_F32);
    assert_int_equal(fac_function_apply_cast(&square, NULL, FAC_TENSORS(x), FAC_I32, &y), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "cast_inputs should be a floating dtype, got int32");
}

static fac_tensor *two_products(void *w, fac_tensors in) { return fac_mm(fac_tanh(fac_mm(in.v[0], w)), w); }

static void S170_checkpoints_run_again_as_they_ran(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_randn(FAC_SHAPE(3, 3)), true),
               *w = fac_set_requires_grad(fac_randn(FAC_SHAPE(3, 3)), true), *y, *plain;
    {
        FAC_AUTOCAST(g);
        y = fac_checkpoint(two_products, w, FAC_TENSORS(x));
        FAC_AUTOCAST(uncached, .cache_enabled = false); /* as within a checkpoint: each use has a cast of its own */
        plain = two_products(w, FAC_TENSORS(x));
    }
    assert_dtype(y, FAC_BF16);
    assert_ok(fac_backward(fac_sum(plain)));
    fac_tensor *gx = fac_clone(fac_grad_of(x)), *gw = fac_clone(fac_grad_of(w));
    assert_ok(fac_set_grad(x, NULL));
    assert_ok(fac_set_grad(w, NULL));
    assert_ok(fac_backward(fac_sum(y)));
    assert_close(fac_grad_of(x), gx);
    assert_close(fac_grad_of(w), gw);
    assert_false(fac_is_autocast_enabled(FAC_CPU));
}

/* ---- transforms, memory ------------------------------------------------------------------------------------------- */

static fac_status product(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = fac_matmul(in.v[0], context);
    return fac_error();
}

static fac_status summed_product(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    FAC_TRY(product(context, in, out, n));
    out[0] = fac_sum(out[0], .dtype = FAC_F32);
    return fac_error();
}

static void S170_transforms_run_in_autocast(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(5, 3)), *y = NULL, *grad = NULL,
               *w = fac_set_requires_grad(fac_randn(FAC_SHAPE(3, 4)), true);
    FAC_AUTOCAST(g);
    fac_tensor *whole = fac_matmul(x, w);
    assert_ok(fac_vmap(product, w, FAC_TENSORS(x), &y, 1));
    assert_dtype(y, FAC_BF16);
    assert_close(y, whole);
    assert_ok(fac_func_grad(summed_product, w, FAC_TENSORS(x), &grad));
    assert_dtype(grad, FAC_F32);
    FAC_DUAL_LEVEL(level);
    fac_tensor *turned = fac_matmul(fac_make_dual(x, x), w); /* linear: its tangent is itself */
    assert_dtype(fac_unpack_dual(turned).tangent, FAC_BF16);
    assert_close(fac_unpack_dual(turned).tangent, whole);
    assert_close(fac_unpack_dual(fac_matmul(x, w)).primal, whole);
}

static void S170_data_that_is_exchanged_is_cast_anew(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_SHAPE(1, 3)), *w = fac_set_requires_grad(fac_ones(FAC_SHAPE(3, 1)), true);
    FAC_AUTOCAST(g);
    assert_true(fac_item(fac_mm(x, w)) == 3);
    assert_ok(fac_set_data(w, fac_full(FAC_SHAPE(3, 1), 2.0)));
    assert_true(fac_item(fac_mm(x, w)) == 6);
}

static fac_status train(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_SHAPE(2, 3)), *w = fac_set_requires_grad(fac_ones(FAC_SHAPE(3, 3)), true);
    FAC_AUTOCAST(g);
    if (fac_error() || !fac_cat(FAC_TENSORS(fac_mm(fac_mm(x, w), w), x))) return fac_error();
    return fac_backward(fac_mse_loss(fac_mm(x, w), x));
}

static void S170_regions_lose_nothing_without_memory(void **state) {
    (void)state;
    support_fail_each_allocation(train, NULL);
}

/* ---- every operator ---------------------------------------------------------------------------------------------------------- */

enum { MOST_RESULTS = 8 };

static fac_status call(const sample_call *x, bool cast, fac_value *out) {
    sample_made m;
    for (size_t k = 0; k < MOST_RESULTS; k++) out[k] = fac_value_none();
    assert_ok(sample_make(x, fac_device_make(FAC_CPU, -1), &m));
    fac_autocast_guard g = {0, false};
    if (cast) g = fac_autocast_begin();
    const fac_status st = fac_call(x->op, m.args, m.n_args, out);
    fac_autocast_end(&g);
    fac_error_clear();
    sample_unmake(&m);
    return st;
}

static bool same_tensor(fac_tensor *a, fac_tensor *b) {
    if (fac_tensor_dtype(a) != fac_tensor_dtype(b)) return false;
    if (fac_tensor_layout(a) != FAC_STRIDED || fac_is_nested(a) || fac_dtype_size(fac_tensor_dtype(a)) == 0)
        return true;
    if (fac_tensor_dtype(a) >= FAC_DTYPE_COUNT) return true;
    return fac_item(fac_all(fac_logical_or(fac_eq(a, b), fac_ne(a, a)))) != 0;
}

static bool same_value(fac_value a, fac_value b) {
    FAC_SCOPE(s);
    if (a.tag != b.tag) return false;
    if (a.tag == FAC_TAG_TENSOR) return same_tensor(fac_value_as_tensor(a), fac_value_as_tensor(b));
    if (a.tag != FAC_TAG_TENSORS) return true;
    const fac_tensors l = fac_value_as_tensors(a), k = fac_value_as_tensors(b);
    bool same = l.n == k.n;
    for (size_t i = 0; i < l.n && same; i++) same = !l.v[i] || same_tensor(l.v[i], k.v[i]);
    return same;
}

/* Of an operator that is not composite: whether it gives in a region what it gives outside. */
static bool is_untouched(const sample_call *x) {
    FAC_SCOPE(s);
    fac_value plain[MOST_RESULTS], cast[MOST_RESULTS];
    const fac_status st = call(x, false, plain), in_region = call(x, true, cast);
    bool same = st == in_region;
    for (size_t k = 0; k < MOST_RESULTS; k++) {
        if (same && st == FAC_OK) same = same_value(plain[k], cast[k]);
        fac_value_release(&plain[k]);
        fac_value_release(&cast[k]);
    }
    return same;
}

/* An operator that casts nothing computes what it always does, whatever its kernel calls: autograd has seen its dtypes. */
static void S170_operators_that_cast_nothing_are_untouched(void **state) {
    (void)state;
    sample_set all;
    int tried = 0, wrong = 0;
    assert_true(samples_load(&all));
    for (size_t i = 0; i < all.n; i++) {
        sample_call x;
        const char *where;
        fac_operator_facts facts;
        assert_true(sample_parse(all.texts[i], &x, &where));
        const fac_operator *op = fac_operator_find(x.op);
        assert_ok(fac_operator_facts_of(op, &facts));
        const bool random = facts.offsets || fac_operator_has_tag(op, "nondeterministic_seeded") ||
                            strstr(x.op, "empty") || strstr(x.op, "resize");
        const char *how = fac_operator_autocast(op, FAC_CPU);
        if (sample_elsewhere(x.op) || facts.combines == FAC_COMBINES_AS_PARTS || random) continue;
        if (*how && strcmp(how, "none") != 0) continue;
        tried++;
        if (is_untouched(&x)) continue;
        print_error("%s is another in autocast\n", all.texts[i]);
        wrong++;
    }
    samples_free(&all);
    print_message("%d calls of operators that cast nothing\n", tried);
    assert_int_equal(wrong, 0);
    assert_true(tried > 2000);
}

/* The first region registers kernels, which stay, as does an observer. */
static int begin(void **state) {
    (void)state;
    fac_set_call_observer(count_casts, NULL);
    fac_autocast_guard g = fac_autocast_begin();
    fac_autocast_end(&g);
    return fac_error() ? -1 : 0;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        FAC_TEST(S170_regions_nest_and_end),
        FAC_TEST(S170_other_devices_and_dtypes_are_refused),
        FAC_TEST(S170_a_region_is_its_threads),
        FAC_TEST(S170_operators_are_cast_as_their_entries_say),
        FAC_TEST(S170_operators_tell_how_they_are_cast),
        FAC_TEST(S170_layers_run_in_autocast),
        FAC_TEST(S170_weights_are_cast_once),
        FAC_TEST(S170_a_cast_without_recording_is_not_kept_for_gradients),
        FAC_TEST(S170_gradients_come_back_in_the_dtype_of_the_weight),
        FAC_TEST(S170_several_losses_share_the_cast_of_a_weight),
        FAC_TEST(S170_custom_functions_have_the_autocast_of_their_forward),
        FAC_TEST(S170_checkpoints_run_again_as_they_ran),
        FAC_TEST(S170_transforms_run_in_autocast),
        FAC_TEST(S170_data_that_is_exchanged_is_cast_anew),
        FAC_TEST(S170_regions_lose_nothing_without_memory),
        FAC_TEST(S170_operators_that_cast_nothing_are_untouched),
    };
    return support_run(tests, FAC_COUNT(tests), begin);
}
