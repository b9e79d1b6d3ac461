/* The graph and the passes over it. Values come from closed forms. */
#include "autograd/engine.h"
#include "autograd_test.h"

/* ---- custom functions: the engine without operators' own nodes ---------------------------------------------------------- */

static int backwards; /* calls of backward functions below */

static fac_status double_forward(fac_function_ctx *c, fac_tensors inputs, fac_tensor **out) {
    (void)c;
    out[0] = fac_mul(inputs.v[0], 2.0);
    return fac_error();
}

static fac_status double_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    (void)c;
    backwards++;
    out[0] = fac_mul(grads.v[0], 2.0);
    return fac_error();
}

static const fac_function doubling = {
    .name = "Double", .n_outputs = 1, .forward = double_forward, .backward = double_backward};

static fac_tensor *apply1(const fac_function *fn, fac_tensor *x) {
    fac_tensor *out = NULL;
    return fac_function_apply(fn, NULL, FAC_TENSORS(x), &out) == FAC_OK ? out : NULL;
}

/* ---- the tape -------------------------------------------------------------------------------------------------------------- */

static void S115_tape_is_built_anew_by_each_run(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2));
    fac_tensor *first = fac_mul(x, x), *second = fac_mul(x, x);
    assert_non_null(fac_grad_fn(first));
    assert_ptr_not_equal(fac_grad_fn(first), fac_grad_fn(second));
    assert_string_equal(fac_node_name(fac_grad_fn(first)), "MulBackward0");
    assert_int_equal(fac_node_next_count(fac_grad_fn(first)), 2);
    assert_string_equal(fac_node_name(fac_node_next(fac_grad_fn(first), 0)), "AccumulateGrad");
    for (int steps = 1; steps <= 3; steps++) { /* control flow of C decides the graph */
        fac_tensor *y = x;
        for (int i = 0; i < steps; i++) y = fac_mul(y, 3.0);
        assert_ok(fac_backward(fac_sum(y)));
        double want = pow(3, steps);
        assert_values(fac_grad_of(x), want, want);
        assert_ok(fac_set_grad(x, NULL));
    }
}

static void S116_scalar_root_needs_no_gradient(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2, 3));
    assert_ok(fac_backward(fac_sum(fac_mul(x, x))));
    assert_values(fac_grad_of(x), 2, 4, 6);
    assert_int_equal(fac_backward(fac_mul(x, 2.0)), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "grad can be implicitly created only for scalar outputs");
    assert_ok(fac_backward(fac_mul(x, 2.0), .gradient = vector(DOUBLES(1, 10, 100))));
    assert_values(fac_grad_of(x), 4, 24, 206);
}

static void S117_roots_and_gradients_are_checked(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2)), *y = fac_mul(x, 2.0);
    assert_int_equal(fac_backward(fac_sum(vector(DOUBLES(1, 2)))), FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD, "element 0 of tensors does not require grad and does not have a grad_fn");
    assert_int_equal(fac_backward(y, .gradient = vector(DOUBLES(1, 2, 3))), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "grad_output[0] has a shape of [3] and output[0] has a shape of [2]");
    double z[4] = {1, 0, 1, 0};
    assert_int_equal(fac_backward(y, .gradient = fac_tensor_from(z, FAC_C128, FAC_INTS(2))), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "For complex Tensors, both grad_output and output are required to have the same dtype");
    assert_int_equal(fac_backward_all(FAC_TENSORS(y, y), FAC_TENSORS(y)), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "got 2 tensors and 1 gradients");
    /* A gradient of another floating dtype is cast. */
    assert_ok(fac_backward(y, .gradient = fac_tensor_of(1, 10)));
    assert_values(fac_grad_of(x), 2, 20);
}

static void S118_inputs_name_where_gradients_go(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = leaf(DOUBLES(2)), *b = leaf(DOUBLES(5)), *c = leaf(DOUBLES(7));
    fac_tensor *mid = fac_mul(a, b), *out = fac_sum(fac_mul(mid, mid)), *g[3];
    assert_ok(fac_grad(FAC_TENSORS(out), FAC_TENSORS(mid, a), g, .retain_graph = true));
    assert_values(g[0], 20);
    assert_values(g[1], 100);
    assert_null(fac_grad_of(a));
    assert_int_equal(fac_grad(FAC_TENSORS(out), FAC_TENSORS(c), g, .retain_graph = true), FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD, "appears to not have been used in the graph");
    assert_ok(fac_grad(FAC_TENSORS(out), FAC_TENSORS(c, b), g, .retain_graph = true, .allow_unused = true));
    assert_null(g[0]);
    assert_values(g[1], 40);
    assert_int_equal(fac_grad(FAC_TENSORS(out), FAC_TENSORS(vector(DOUBLES(1))), g), FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD, "One of the differentiated Tensors does not require grad");
    assert_ok(fac_backward(out, .inputs = FAC_TENSORS(b, mid)));
    assert_null(fac_grad_of(a));
    assert_values(fac_grad_of(b), 40);
    assert_values(fac_grad_of(mid), 20);
}

static bool needed_first, needed_second;

static fac_status pick_forward(fac_function_ctx *c, fac_tensors inputs, fac_tensor **out) {
    (void)c;
    out[0] = fac_add(inputs.v[0], inputs.v[1]);
    return fac_error();
}

static fac_status pick_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    needed_first = fac_function_needs_input_grad(c, 0);
    needed_second = fac_function_needs_input_grad(c, 1);
    out[0] = out[1] = grads.v[0];
    return FAC_OK;
}

static void S118_gradients_that_lead_to_no_input_are_not_computed(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const fac_function pick = {.name = "Pick", .n_outputs = 1, .forward = pick_forward, .backward = pick_backward};
    fac_tensor *a = leaf(DOUBLES(1)), *b = leaf(DOUBLES(2)), *y, *g[1];
    assert_ok(fac_function_apply(&pick, NULL, FAC_TENSORS(a, fac_mul(b, 2.0)), &y));
    assert_ok(fac_grad(FAC_TENSORS(y), FAC_TENSORS(a), g, .retain_graph = true));
    assert_true(needed_first && !needed_second);
    assert_ok(fac_grad(FAC_TENSORS(y), FAC_TENSORS(b), g, .retain_graph = true));
    assert_true(!needed_first && needed_second);
    assert_values(g[0], 2);
    assert_ok(fac_backward(y));
    assert_true(needed_first && needed_second);
}

static void S119_each_node_runs_once_with_its_gradients_summed(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2)), *y = apply1(&doubling, x);
    backwards = 0;
    /* Four ways lead back to y; its node runs once, with their sum. */
    fac_tensor *z = fac_add(fac_add(fac_mul(y, 3.0), fac_mul(y, 5.0)), fac_add(y, y));
    assert_ok(fac_backward(fac_sum(z)));
    assert_int_equal(backwards, 1);
    assert_values(fac_grad_of(x), 20, 20);
}

static void S120_a_value_used_twice_gets_both_gradients(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = scalar_leaf(3);
    assert_ok(fac_backward(fac_mul(x, x)));
    assert_values(fac_grad_of(x), 6);
    fac_tensor *y = scalar_leaf(2);
    assert_ok(fac_backward(fac_add(fac_mul(y, y), fac_mul(fac_mul(y, y), y))));
    assert_values(fac_grad_of(y), 2 * 2 + 3 * 4);
}

static void S121_saved_values_are_freed_unless_retained(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(3)), *y = fac_sum(fac_mul(x, x));
    assert_ok(fac_backward(y, .retain_graph = true));
    int64_t with_saved = fac_live();
    assert_ok(fac_backward(y));
    assert_values(fac_grad_of(x), 12);
    assert_true(fac_live() <= with_saved);
    assert_int_equal(fac_backward(y), FAC_ERR_AUTOGRAD);
    assert_error(FAC_ERR_AUTOGRAD, "Trying to backward through the graph a second time");
    assert_values(fac_grad_of(x), 12);
    /* What only the graph holds goes with the first pass that does not retain it. */
    fac_tensor *w;
    {
        FAC_SCOPE(inner);
        fac_tensor *h = fac_mul(x, 2.0);
        w = fac_keep(fac_sum(fac_mul(h, h)));
    }
    assert_ok(fac_backward(w, .retain_graph = true));
    with_saved = fac_live();
    assert_ok(fac_backward(w, .retain_graph = true));
    assert_int_equal(fac_live(), with_saved);
    assert_ok(fac_backward(w));
    assert_true(fac_live() < with_saved);
    fac_release(w);
    /* A graph that saved no tensor may be used again, as in PyTorch. */
    fac_tensor *z = fac_sum(x);
    assert_ok(fac_set_grad(x, NULL));
    assert_ok(fac_backward(z));
    assert_ok(fac_backward(z));
    assert_values(fac_grad_of(x), 2);
}

static void S123_several_roots_and_weights(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2)), *y = fac_mul(x, x), *z = fac_sum(fac_mul(x, 3.0));
    assert_ok(fac_backward_all(FAC_TENSORS(y, z), FAC_TENSORS(vector(DOUBLES(1, 10)), NULL)));
    assert_values(fac_grad_of(x), 2 + 3, 40 + 3);
    fac_tensor *u = fac_mul(x, x), *v = fac_mul(u, x), *g[1];
    assert_ok(fac_grad(FAC_TENSORS(u, v), FAC_TENSORS(x), g,
                       .grad_outputs = FAC_TENSORS(vector(DOUBLES(1, 1)), vector(DOUBLES(1, 2)))));
    assert_values(g[0], 2 * 1 + 3 * 1, 2 * 2 + 2 * 3 * 4);
    assert_values(fac_grad_of(x), 5, 43);
}

/* ---- examples of the papers ---------------------------------------------------------------------------------------------------- */

static size_t count_nodes(fac_node *root, fac_node **seen, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (seen[i] == root) return n;
    seen[n++] = root;
    for (size_t i = 0; i < fac_node_next_count(root); i++)
        if (fac_node_next(root, i)) n = count_nodes(fac_node_next(root, i), seen, n);
    return n;
}

/* l_1 = x, l_(n+1) = 4 l_n (1 - l_n); the derivatives written out for n = 1..4. */
static void E26_S124_no_expression_swell(void **state) {
    (void)state;
    FAC_SCOPE(s);
    double v = 0.3;
    fac_tensor *x = scalar_leaf(v), *l = x, *g[1];
    double p = 1 - 2 * v, q = 1 - 8 * v + 8 * v * v;
    const double derivative[4] = {1, 4 * p, 16 * p * q,
                                  64 * p * q * (1 - 32 * v + 160 * v * v - 256 * v * v * v + 128 * v * v * v * v)};
    size_t nodes[4];
    for (int n = 0; n < 4; n++) {
        if (n) l = fac_mul(fac_mul(l, 4.0), fac_add(fac_neg(l), 1.0));
        fac_tensor *root = fac_mul(l, 1.0);
        fac_node *seen[64];
        nodes[n] = count_nodes(fac_grad_fn(root), seen, 0);
        assert_ok(fac_grad(FAC_TENSORS(root), FAC_TENSORS(x), g, .retain_graph = true));
        assert_values(g[0], derivative[n]);
    }
    assert_int_equal(nodes[2] - nodes[1], nodes[1] - nodes[0]);
    assert_int_equal(nodes[3] - nodes[2], nodes[2] - nodes[1]);
}

/* f(x1, x2) = (exp(x1) + x2) (x2 + 1): every node's value and adjoint. */
static void E27_two_branches_meet_in_x2(void **state) {
    (void)state;
    FAC_SCOPE(s);
    double v1 = 0.5, v2 = 2;
    fac_tensor *x1 = scalar_leaf(v1), *x2 = scalar_leaf(v2);
    fac_tensor *v3 = fac_exp(x1), *v4 = fac_add(v3, x2), *v5 = fac_add(x2, 1.0), *f = fac_mul(v4, v5);
    assert_values(v3, exp(v1));
    assert_values(v4, exp(v1) + v2);
    assert_values(v5, 3);
    assert_values(f, (exp(v1) + v2) * 3);
    assert_ok(fac_retain_grad(v3));
    assert_ok(fac_retain_grad(v4));
    assert_ok(fac_retain_grad(v5));
    assert_ok(fac_backward(f));
    assert_values(fac_grad_of(v4), 3);
    assert_values(fac_grad_of(v5), exp(v1) + v2);
    assert_values(fac_grad_of(v3), 3);
    assert_values(fac_grad_of(x1), 3 * exp(v1));
    assert_values(fac_grad_of(x2), 3 + exp(v1) + v2);
}

static fac_tensor *matrix(int64_t rows, int64_t cols, double first, bool requires_grad) {
    double v[16];
    for (int64_t i = 0; i < rows * cols; i++) v[i] = first + 0.1 * (double)i;
    fac_tensor *t = fac_tensor_from(v, FAC_F64, FAC_INTS(rows, cols));
    return requires_grad ? fac_set_requires_grad(t, true) : t;
}

static void E25_graph_of_an_rnn_cell_grows_line_by_line(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *w_h = matrix(2, 2, 0.1, true), *w_x = matrix(2, 3, -0.2, true), *x = matrix(3, 1, 0.5, false),
               *prev_h = matrix(2, 1, 0.3, false);
    char text[4096];
    FILE *f = fmemopen(text, sizeof text, "w");
    fac_tensor *h2h = fac_mm(w_h, prev_h), *i2h = fac_mm(w_x, x);
    assert_ok(fac_graph_print(h2h, f));
    assert_ok(fac_graph_print(i2h, f));
    fac_tensor *next_h = fac_add(h2h, i2h);
    assert_ok(fac_graph_print(next_h, f));
    next_h = fac_tanh(next_h);
    assert_ok(fac_graph_print(next_h, f));
    fac_tensor *loss = fac_sum(next_h);
    assert_ok(fac_graph_dot(loss, f));
    fclose(f);
    assert_non_null(strstr(text, "%0 = MmBackward0 <- %1\n%1 = AccumulateGrad [2, 2]\n%0 = MmBackward0 <- %1\n"
                                 "%1 = AccumulateGrad [2, 3]\n%0 = AddBackward0 <- %1, %2\n%1 = MmBackward0 <- %3\n"));
    assert_non_null(strstr(text, "%0 = TanhBackward0 <- %1\n%1 = AddBackward0 <- %2, %3\n"));
    assert_non_null(strstr(text, "digraph"));
    assert_non_null(strstr(text, "n0 -> n1;"));
    assert_ok(fac_backward(loss));
    /* d loss / d w_h[i][j] = (1 - tanh(a_i)^2) prev_h[j], a = w_h prev_h + w_x x. */
    double xs[3] = {0.5, 0.6, 0.7}, hs[2] = {0.3, 0.4}, d[2];
    for (int i = 0; i < 2; i++) {
        double a = 0;
        for (int j = 0; j < 2; j++) a += (0.1 + 0.1 * (2 * i + j)) * hs[j];
        for (int j = 0; j < 3; j++) a += (-0.2 + 0.1 * (3 * i + j)) * xs[j];
        d[i] = 1 - tanh(a) * tanh(a);
    }
    assert_values(fac_grad_of(w_h), d[0] * hs[0], d[0] * hs[1], d[1] * hs[0], d[1] * hs[1]);
    assert_values(fac_grad_of(w_x), d[0] * xs[0], d[0] * xs[1], d[0] * xs[2], d[1] * xs[0], d[1] * xs[1], d[1] * xs[2]);
    assert_null(fac_grad_of(x));
}

/* The three steps of a pass, each visible by itself. */
static void E28_roots_edges_execution(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = scalar_leaf(3), *y = fac_mul(x, x), *one = vector(DOUBLES(1)), *captured = NULL;
    one = fac_reshape(one, FAC_INTS());
    assert_no_error();
    fac_edge root = {fac_grad_fn(y), 0}, target = {fac_node_next(fac_grad_fn(y), 0), 0};
    one = fac__header(one);
    fac_pass_request r = {
        .roots = &root, .grads = &one, .n_roots = 1, .targets = &target, .n_targets = 1, .captured = &captured};
    assert_ok(fac__pass_run(&r));
    assert_values(fac__handle(captured), 6);
    assert_null(fac_grad_of(x));
    fac__unref(captured);
}

/* ---- the engine's own properties ------------------------------------------------------------------------------------------------- */

static void engine_long_chain_runs_and_is_freed_without_recursion(void **state) {
    (void)state;
    enum { N = 100000 };
    int64_t before = fac_live();
    fac_tensor *x, *end;
    {
        FAC_SCOPE(s);
        x = fac_keep(scalar_leaf(1));
        end = fac_keep(fac_add(x, 1.0));
        for (int i = 1; i < N; i++) {
            FAC_SCOPE(inner);
            fac_tensor *next = fac_keep(fac_add(end, 1.0));
            fac_release(end);
            end = next;
        }
        assert_no_error();
        assert_true(fac_live() >= before + N);
        assert_ok(fac_backward(end));
        assert_values(fac_grad_of(x), 1);
    }
    fac_release(end);
    fac_release(x);
    assert_int_equal(fac_live(), before);
}

static void engine_long_chain_of_saved_tensors_is_freed_when_dropped(void **state) {
    (void)state;
    int64_t before = fac_live();
    fac_tensor *end;
    {
        FAC_SCOPE(s);
        end = fac_keep(fac_exp(scalar_leaf(0)));
        for (int i = 0; i < 100000; i++) {
            FAC_SCOPE(inner);
            fac_tensor *next = fac_keep(fac_mul(end, end)); /* saves its inputs, which hold the chain */
            fac_release(end);
            end = next;
        }
        assert_no_error();
    }
    fac_release(end);
    assert_int_equal(fac_live(), before);
}

static fac_status nested_forward(fac_function_ctx *c, fac_tensors inputs, fac_tensor **out) {
    (void)c;
    out[0] = fac_clone(inputs.v[0]);
    return fac_error();
}

static int deepest;

/* Runs a backward pass in a backward pass, `user` levels deep. */
static fac_status nested_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out);
static const fac_function nested = {
    .name = "Nested", .n_outputs = 1, .forward = nested_forward, .backward = nested_backward};

static fac_status nested_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    const int *levels = fac_function_user(c);
    out[0] = grads.v[0];
    if (*levels == 0) return FAC_OK;
    if (*levels > deepest) deepest = *levels;
    FAC_SCOPE(s);
    FAC_ENABLE_GRAD(g);
    int below = *levels - 1;
    fac_tensor *x = scalar_leaf(1), *y = NULL;
    FAC_TRY(fac_function_apply(&nested, &below, FAC_TENSORS(x), &y));
    FAC_TRY(fac_backward(y));
    return fac_item(fac_grad_of(x)) == 1 ? FAC_OK : FAC_ERR_AUTOGRAD;
}

static void engine_backward_within_backward_nests_to_any_depth(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int levels = 2 * FAC_MAX_NESTED_PASSES + 5;
    deepest = 0;
    fac_tensor *x = scalar_leaf(1), *y = NULL;
    assert_ok(fac_function_apply(&nested, &levels, FAC_TENSORS(x), &y));
    assert_ok(fac_backward(y));
    assert_int_equal(deepest, levels);
    assert_values(fac_grad_of(x), 1);
}

static fac_status failing_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    (void)c, (void)grads, (void)out;
    return fac_error_set(FAC_ERR_IO, "the disk is full");
}

static void engine_first_failure_stops_and_names_its_node(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const fac_function failing = {
        .name = "Failing", .n_outputs = 1, .forward = nested_forward, .backward = failing_backward};
    fac_tensor *x = leaf(DOUBLES(1)), *w = leaf(DOUBLES(1));
    backwards = 0;
    fac_tensor *y = fac_mul(apply1(&failing, apply1(&doubling, x)), w);
    assert_int_equal(fac_backward(fac_sum(y)), FAC_ERR_IO);
    assert_error(FAC_ERR_IO, "FailingBackward: the disk is full");
    assert_int_equal(backwards, 0);
    assert_null(fac_grad_of(x));
    fac_tensor *fine = leaf(DOUBLES(2));
    assert_ok(fac_backward(fac_sum(fac_mul(fine, fine))));
    assert_values(fac_grad_of(fine), 4);
}

static void engine_gradients_are_summed_to_the_size_of_what_was_broadcast(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *row = leaf(DOUBLES(1, 2, 3)),
               *column = fac_set_requires_grad(fac_clone(fac_reshape(vector(DOUBLES(10, 20)), FAC_INTS(2, 1))), true);
    fac_tensor *f32 = fac_set_requires_grad(fac_tensor_of(1, 1, 1), true);
    assert_ok(fac_backward(fac_sum(fac_mul(fac_mul(row, column), f32))));
    assert_values(fac_grad_of(row), 30, 30, 30);
    assert_values(fac_grad_of(column), 6, 6);
    assert_int_equal(fac_tensor_ndim(fac_grad_of(column)), 2);
    assert_values(fac_grad_of(f32), 30, 60, 90);
    assert_int_equal(fac_tensor_dtype(fac_grad_of(f32)), FAC_F32);
}

static void engine_accumulates_and_never_aliases_gradients(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = leaf(DOUBLES(1, 2)), *b = leaf(DOUBLES(3, 4));
    assert_ok(fac_backward(fac_add(a, b), .gradient = vector(DOUBLES(1, 1))));
    assert_false(fac_is_alias_of(fac_grad_of(a), fac_grad_of(b)));
    fac_tensor *before = fac_grad_of(a);
    int64_t version = fac_tensor_version(before);
    assert_ok(fac_backward(fac_sum(fac_mul(a, 5.0))));
    assert_ptr_equal(fac_grad_of(a), before);
    assert_true(fac_tensor_version(before) > version);
    assert_values(fac_grad_of(a), 6, 6);
    assert_values(fac_grad_of(b), 1, 1);
    fac_tensor *g = vector(DOUBLES(7, 7));
    assert_ok(fac_backward(fac_mul(b, 1.0), .gradient = g));
    assert_values(g, 7, 7);
}

static fac_status train_step(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2)), *w = leaf(DOUBLES(3, 4));
    fac_tensor *y = fac_sum(fac_mul(fac_add(fac_mul(x, w), x), fac_narrow(w, 0, 0, 1)));
    if (!y) return fac_error();
    return fac_backward(y);
}

static void engine_survives_every_failing_allocation(void **state) {
    (void)state;
    support_fail_each_allocation(train_step, NULL);
}

FAC_TEST_MAIN(FAC_TEST(S115_tape_is_built_anew_by_each_run), FAC_TEST(S116_scalar_root_needs_no_gradient),
              FAC_TEST(S117_roots_and_gradients_are_checked), FAC_TEST(S118_inputs_name_where_gradients_go),
              FAC_TEST(S118_gradients_that_lead_to_no_input_are_not_computed),
              FAC_TEST(S119_each_node_runs_once_with_its_gradients_summed),
              FAC_TEST(S120_a_value_used_twice_gets_both_gradients),
              FAC_TEST(S121_saved_values_are_freed_unless_retained), FAC_TEST(S123_several_roots_and_weights),
              FAC_TEST(E26_S124_no_expression_swell), FAC_TEST(E27_two_branches_meet_in_x2),
              FAC_TEST(E25_graph_of_an_rnn_cell_grows_line_by_line), FAC_TEST(E28_roots_edges_execution),
              FAC_TEST(engine_long_chain_runs_and_is_freed_without_recursion),
              FAC_TEST(engine_long_chain_of_saved_tensors_is_freed_when_dropped),
              FAC_TEST(engine_backward_within_backward_nests_to_any_depth),
              FAC_TEST(engine_first_failure_stops_and_names_its_node),
              FAC_TEST(engine_gradients_are_summed_to_the_size_of_what_was_broadcast),
              FAC_TEST(engine_accumulates_and_never_aliases_gradients),
              FAC_TEST(engine_survives_every_failing_allocation))
