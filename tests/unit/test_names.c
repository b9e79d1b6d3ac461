/* Names of dimensions: who gets which, who refuses them, and what they do not change. */
#include "autograd_test.h"
#include "core/handle.h"
#include "core/names.h"
#include "core/valid.h"
#include "ops/names.h"
#include "support/samples.h"

static fac_tensor *ones_of(fac_ints sizes, fac_names names) {
    fac_tensor *t = fac_set_names(fac_ones(sizes), names);
    assert_no_error();
    return t;
}

/* Fails unless t's dimensions are called so; NULL where one has no name. */
static void names_are_(fac_tensor *t, fac_names names, const char *file, int line) {
    support_no_error(file, line);
    _assert_true(t != NULL, "the tensor is there", file, line);
    _assert_int_equal((uintmax_t)fac_tensor_ndim(t), names.n, file, line);
    for (size_t i = 0; i < names.n; i++) {
        const char *got = fac_tensor_name(t, (int64_t)i);
        const bool same = got && names.v[i] ? strcmp(got, names.v[i]) == 0 : got == names.v[i];
        if (same) continue;
        print_error("dimension %zu is called %s, should be %s\n", i, got ? got : "None",
                    names.v[i] ? names.v[i] : "None");
        _fail(file, line);
    }
    const bool key = (fac_tensor_keys(t) & fac_keyset_of(FAC_KEY_NAMED)) != 0;
    _assert_true(key == fac_has_names(t), "the key follows the names", file, line);
}
#define assert_names(t, ...) names_are_((t), FAC_NAMES(__VA_ARGS__), __FILE__, __LINE__)

/* ---- giving and asking --------------------------------------------------------------------------------------------------- */

static void S023_names_are_given_and_asked_for(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_SHAPE(2, 3, 4));
    assert_false(fac_has_names(x));
    assert_null(fac_tensor_name(x, 0));
    fac_tensor *named = fac_rename(x, FAC_NAMES("N", NULL, "C"));
    assert_names(named, "N", NULL, "C");
    assert_false(fac_has_names(x)); /* a view has names of its own */
    assert_true(fac_is_alias_of(named, x));
    assert_int_equal(fac_dim(named, "C"), 2);
    assert_string_equal(fac_tensor_name(named, -1), "C");
    assert_names(fac_rename(named, FAC_NAMES("B", "...")), "B", NULL, "C");
    assert_names(fac_rename(named, FAC_NAMES("...", "D")), "N", NULL, "D");
    assert_names(fac_rename(named, FAC_NAMES()), NULL, NULL, NULL);
    assert_names(fac_set_names(x, FAC_NAMES("a", "b", "c")), "a", "b", "c");
}

static void S023_names_that_are_none_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = ones_of(FAC_SHAPE(2, 3), FAC_NAMES("N", "C"));
    assert_null(fac_rename(x, FAC_NAMES("N")));
    assert_error(FAC_ERR_ARGUMENT, "1 names do not fit a tensor of 2 dimensions");
    assert_null(fac_rename(x, FAC_NAMES("N", "N")));
    assert_error(FAC_ERR_ARGUMENT, "two dimensions cannot have one name, 'N'");
    assert_null(fac_rename(x, FAC_NAMES("N", "2d")));
    assert_error(FAC_ERR_ARGUMENT, "'2d' is no name");
    assert_null(fac_rename(x, FAC_NAMES("...", "...")));
    assert_error(FAC_ERR_ARGUMENT, "stands twice");
    assert_int_equal(fac_dim(x, "H"), INT64_MIN);
    assert_error(FAC_ERR_ARGUMENT, "no dimension is called 'H' in ('N', 'C')");
    assert_names(x, "N", "C");
}

static void S023_names_are_refined(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_rename(fac_ones(FAC_SHAPE(2, 3, 4)), FAC_NAMES(NULL, NULL, "W"));
    assert_names(fac_refine_names(x, FAC_NAMES("N", "H", "W")), "N", "H", "W");
    assert_names(fac_refine_names(x, FAC_NAMES("N", "...")), "N", NULL, "W");
    assert_null(fac_refine_names(x, FAC_NAMES("N", "H", "C")));
    assert_error(FAC_ERR_ARGUMENT, "called 'W' already");
    assert_null(fac_refine_names(x, FAC_NAMES("N", "H", NULL)));
    assert_error(FAC_ERR_ARGUMENT, "called 'W' already");
}

static void S023_names_are_printed(void **state) {
    char *text;
    (void)state;
    FAC_SCOPE(s);
    text = fac_tensor_string(ones_of(FAC_SHAPE(2, 1), FAC_NAMES("N", NULL)));
    assert_non_null(text);
    assert_non_null(strstr(text, "names=('N', None))"));
    fac_string_free(text);
}

/* ---- lining up ------------------------------------------------------------------------------------------------------------ */

static void S023_tensors_are_aligned_by_names(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = ones_of(FAC_SHAPE(2, 3, 4), FAC_NAMES("N", "C", "H")),
               *scale = ones_of(FAC_SHAPE(3), FAC_NAMES("C"));
    fac_tensor *y = fac_align_to(x, FAC_NAMES("H", "W", "N", "C"));
    assert_names(y, "H", "W", "N", "C");
    assert_int_equal(fac_tensor_size(y, 0), 4);
    assert_int_equal(fac_tensor_size(y, 1), 1);
    assert_true(fac_is_alias_of(y, x));
    assert_names(fac_align_to(x, FAC_NAMES("...", "N")), "C", "H", "N");
    fac_tensor *aligned = fac_align_as(scale, x);
    assert_names(aligned, "N", "C", "H");
    assert_names(fac_mul(x, aligned), "N", "C", "H");
    assert_null(fac_align_to(x, FAC_NAMES("N", "C")));
    assert_error(FAC_ERR_ARGUMENT, "'H' of ('N', 'C', 'H') is not among ('N', 'C')");
    assert_null(fac_align_to(fac_rename(x, FAC_NAMES("N", NULL, "H")), FAC_NAMES("N", "H")));
    assert_error(FAC_ERR_ARGUMENT, "has no name to be aligned by");
}

static void S023_dimensions_are_flattened_and_unflattened_by_names(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = ones_of(FAC_SHAPE(2, 3, 4, 5), FAC_NAMES("N", "C", "H", "W"));
    fac_tensor *flat = fac_flatten_names(x, FAC_NAMES("C", "H", "W"), "features");
    assert_names(flat, "N", "features");
    assert_int_equal(fac_tensor_size(flat, 1), 60);
    fac_tensor *back = fac_unflatten_name(flat, "features", FAC_NAMES("C", "H", "W"), FAC_INTS(3, -1, 5));
    assert_names(back, "N", "C", "H", "W");
    assert_int_equal(fac_tensor_size(back, 2), 4);
    assert_null(fac_flatten_names(x, FAC_NAMES("C", "W"), "f"));
    assert_error(FAC_ERR_ARGUMENT, "'W' is not the next dimension after 'C'");
    assert_null(fac_unflatten_name(flat, "features", FAC_NAMES("C", "H"), FAC_INTS(60)));
    assert_error(FAC_ERR_ARGUMENT, "2 names and 1 sizes");
}

/* ---- rules ------------------------------------------------------------------------------------------------------------------ */

static void S023_names_of_operands_are_unified(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = ones_of(FAC_SHAPE(2, 3), FAC_NAMES("N", NULL)), *y = ones_of(FAC_SHAPE(3), FAC_NAMES("C")),
               *plain = fac_ones(FAC_SHAPE(2, 3));
    assert_names(fac_add(x, y), "N", "C");
    assert_names(fac_mul(x, 2.0), "N", NULL);
    assert_names(fac_sub(plain, x), "N", NULL);
    assert_names(fac_relu(x), "N", NULL);
    assert_names(fac_where(fac_gt(x, 0), x, plain), "N", NULL);
    assert_names(fac_add_(plain, x), "N", NULL); /* what is changed in place takes them over */
    assert_null(fac_add(ones_of(FAC_SHAPE(2), FAC_NAMES("N")), y));
    assert_error(FAC_ERR_ARGUMENT, "their names do not match");
    fac_tensor *early = ones_of(FAC_SHAPE(3, 3), FAC_NAMES("C", NULL));
    assert_null(fac_add(early, y));
    assert_error(FAC_ERR_ARGUMENT, "'C' stands at different positions from the right");
}

static void S023_reduced_dimensions_lose_their_names(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = ones_of(FAC_SHAPE(2, 3, 4), FAC_NAMES("N", "C", "W"));
    assert_names(fac_sum(x, .dim = fac_dim(x, "C")), "N", "W");
    assert_names(fac_sum(x, .dims = FAC_INTS(fac_dim(x, "C"), fac_dim(x, "N"))), "W");
    assert_names(fac_mean(x, .dim = fac_dim(x, "W"), .keepdim = true), "N", "C", "W");
    assert_names(fac_sum(x));
    assert_names(fac_max_dim(x, 1).indices, "N", "W");
    assert_names(fac_std(x, .dim = 0), "C", "W");
    assert_names(fac_argmax(x, .dim = 2), "N", "C");
    assert_names(fac_select(x, fac_dim(x, "N"), 0), "C", "W");
    assert_names(fac_unbind(x, 1).v[2], "N", "W");
    assert_names(fac_softmax(x, fac_dim(x, "C")), "N", "C", "W");
    assert_names(fac_cumsum(x, 1), "N", "C", "W");
    assert_names(fac_squeeze(fac_narrow(x, 1, 0, 1)), "N", "W");
    assert_null(fac_sum(x, .dim = fac_dim(x, "H")));
    assert_error(FAC_ERR_ARGUMENT, "no dimension is called 'H'");
}

static void S023_dimensions_move_with_their_names(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = ones_of(FAC_SHAPE(2, 3, 4), FAC_NAMES("N", "C", "W")), *m = fac_select(x, 0, 0);
    assert_names(fac_transpose(x, 0, 2), "W", "C", "N");
    assert_names(fac_permute(x, FAC_INTS(1, 2, 0)), "C", "W", "N");
    assert_names(fac_t(m), "W", "C");
    assert_names(fac_expand(m, FAC_SHAPE(5, 3, 4)), NULL, "C", "W");
    assert_names(fac_cat(FAC_TENSORS(m, fac_ones(FAC_SHAPE(2, 4))), 0), "C", "W");
    assert_names(fac_clone(x), "N", "C", "W");
    assert_names(fac_contiguous(fac_transpose(x, 0, 1)), "C", "N", "W");
    assert_names(fac_to_dtype(x, FAC_F64), "N", "C", "W");
    assert_names(fac_split(x, 1, .dim = 1).v[1], "N", "C", "W");
    assert_names(fac_zeros_like(x), "N", "C", "W");
    assert_true(fac_item(fac_sum(x)) == 24);
}

static void E48_names_flow_through_matmul_S023(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = ones_of(FAC_SHAPE(2, 3, 4), FAC_NAMES("B", "row", "in")),
               *b = ones_of(FAC_SHAPE(4, 5), FAC_NAMES("in", "out"));
    assert_names(fac_matmul(a, b), "B", "row", "out");
    assert_names(fac_matmul(a, fac_ones(FAC_SHAPE(4))), "B", "row");
    assert_names(fac_matmul(fac_rename(fac_ones(FAC_SHAPE(4)), FAC_NAMES("in")), b), "out");
    fac_tensor *m = fac_select(a, 0, 0);
    assert_names(fac_mm(m, b), "row", "out");
    assert_names(fac_mv(m, fac_ones(FAC_SHAPE(4))), "row");
    assert_names(fac_dot(fac_select(m, 0, 0), fac_select(m, 0, 1)));
    assert_names(fac_bmm(a, fac_ones(FAC_SHAPE(2, 4, 6))), "B", "row", NULL);
    assert_names(fac_addmm(fac_rename(fac_ones(FAC_SHAPE(5)), FAC_NAMES("out")), m, b), "row", "out");
    assert_names(fac_linear(a, fac_t(b), NULL), "B", "row", "out");
    assert_true(fac_item(fac_max(fac_rename(fac_matmul(a, b), FAC_NAMES()))) == 4);
    assert_null(fac_mm(m, fac_rename(fac_ones(FAC_SHAPE(4, 5)), FAC_NAMES(NULL, "row"))));
    assert_error(FAC_ERR_ARGUMENT, "would have two dimensions 'row'");
}

static void S023_outputs_are_called_so_or_are_so_already(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = ones_of(FAC_SHAPE(2, 3), FAC_NAMES("N", "C")), *out = fac_zeros(FAC_SHAPE(2, 3)),
               *other = ones_of(FAC_SHAPE(2, 3), FAC_NAMES("N", "D"));
    assert_names(fac_mul_out(out, x, x), "N", "C");
    assert_names(fac_mul_out(out, x, x), "N", "C");
    assert_null(fac_mul_out(other, fac_mul(x, 2.0), x));
    assert_error(FAC_ERR_ARGUMENT, "'out' has dimensions ('N', 'D'), but the result has ('N', 'C')");
    assert_names(other, "N", "D");
    assert_true(fac_item(fac_sum(other)) == 6); /* and nothing was written */
    assert_names(fac_zero_(other), "N", "D");
}

static void S023_operators_without_a_rule_refuse_names(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = ones_of(FAC_SHAPE(4, 4), FAC_NAMES("N", "C"));
    assert_null(fac_view(x, FAC_SHAPE(16)));
    assert_error(FAC_ERR_UNSUPPORTED, "aten::view has no rule for the names of dimensions");
    assert_null(fac_linalg_inv(x));
    assert_error(FAC_ERR_UNSUPPORTED, "has no rule");
    assert_non_null(fac_view(fac_rename(x, FAC_NAMES()), FAC_SHAPE(16)));
}

static void S023_a_guard_masks_names(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = ones_of(FAC_SHAPE(4, 4), FAC_NAMES("N", "C")), *y;
    {
        FAC_NO_NAMES(masked);
        assert_false(fac_has_names(x));
        assert_null(fac_tensor_name(x, 0));
        y = fac_matmul(x, x);
        assert_non_null(fac_view(x, FAC_SHAPE(16)));
        {
            FAC_NO_NAMES(again);
            assert_false(fac_has_names(x));
        }
        assert_false(fac_has_names(x));
    }
    assert_true(fac_has_names(x));
    assert_names(y, NULL, NULL);
    assert_null(fac_matmul(x, fac_rename(x, FAC_NAMES("C", "N"))));
    assert_error(FAC_ERR_ARGUMENT, "two dimensions 'N'");
}

/* A header whose dimensions change below the names has none, however the change comes about. */
static void S023_names_do_not_outlive_their_dimensions(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = ones_of(FAC_SHAPE(2, 3), FAC_NAMES("N", "C")), *one = ones_of(FAC_SHAPE(1, 1), FAC_NAMES("N", "C"));
    fac_tensor *few = ones_of(FAC_SHAPE(1, 2, 1), FAC_NAMES("a", "b", "c")),
               *same = ones_of(FAC_SHAPE(2), FAC_NAMES("K"));
    fac_tensor *out = ones_of(FAC_SHAPE(0), FAC_NAMES("K"));
    {
        FAC_NO_NAMES(masked);
        for (int i = 0; i < 10; i++) assert_non_null(fac_unsqueeze_(x, 0));
        assert_non_null(fac_t_(one));
        assert_non_null(fac_squeeze_(few));
        assert_non_null(fac_add_out(same, fac_ones(FAC_SHAPE(2)), 1));
        assert_non_null(fac_add_out(out, fac_ones(FAC_SHAPE(2, 3)), 1));
    }
    assert_int_equal(fac_tensor_ndim(x), 12);
    for (int i = 0; i < 12; i++) assert_null(fac_tensor_name(x, i));
    assert_names(one, NULL, NULL);
    assert_names(few, NULL);
    assert_names(same, "K");
    assert_names(out, NULL, NULL);
    fac_tensor *found = fac_set_names(fac_zeros(FAC_SHAPE(4), .dtype = FAC_I64), FAC_NAMES("K"));
    assert_non_null(fac_nonzero_out(found, fac_ones(FAC_SHAPE(2, 3))));
    assert_names(found, NULL, NULL);
    assert_names(fac_t_(ones_of(FAC_SHAPE(2, 2), FAC_NAMES("N", "C"))), "C", "N");
    assert_names(fac_squeeze_dims(ones_of(FAC_SHAPE(1, 3), FAC_NAMES("N", "C")), FAC_INTS()), "N", "C");
}

static void S023_names_stay_where_codes_and_patterns_become_numbers(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_SHAPE(2, 3));
    fac_tensor *q = fac_set_names(fac_quantize_per_tensor(x, 0.1, 0, FAC_QUINT8), FAC_NAMES("N", "C"));
    assert_names(fac_dequantize(q), "N", "C");
    assert_names(fac_to_dense(fac_set_names(fac_to_sparse(x), FAC_NAMES("N", "C"))), "N", "C");
}

static void S023_optimisers_step_named_parameters(void **state) {
    (void)state;
    FAC_SCOPE(s);
    for (int k = 0; k < 3; k++) {
        fac_tensor *p = fac_set_requires_grad(ones_of(FAC_SHAPE(2), FAC_NAMES("N")), true);
        fac_tensor *q = fac_set_requires_grad(fac_ones(FAC_SHAPE(2)), true);
        const fac_tensors both = FAC_TENSORS(p, q);
        fac_optimizer *o = k == 0   ? fac_adam_of(both, 0.1)
                           : k == 1 ? fac_sgd_of(both, 0.1, .momentum = 0.9)
                                    : fac_adamw_of(both, 0.1);
        for (int i = 0; i < 2; i++) {
            assert_ok(fac_set_grad(p, fac_full(FAC_SHAPE(2), 2.0)));
            assert_ok(fac_set_grad(q, fac_full(FAC_SHAPE(2), 2.0)));
            assert_ok(fac_optimizer_step(o));
        }
        assert_names(p, "N");
        fac_optimizer_release(o);
        FAC_NO_NAMES(masked);
        assert_true(fac_equal(p, q));
        assert_true(fac_item(fac_select(fac_detach(p), 0, 0)) < 1);
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------------------------- */

static void S023_gradients_have_no_names_and_are_what_they_are_without(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(3, 4), .dtype = FAC_F64), *w = fac_randn(FAC_SHAPE(4, 5), .dtype = FAC_F64),
               *px = fac_set_requires_grad(fac_clone(x), true), *pw = fac_set_requires_grad(fac_clone(w), true);
    fac_set_requires_grad(fac_set_names(x, FAC_NAMES("N", "in")), true);
    fac_set_requires_grad(fac_set_names(w, FAC_NAMES("in", "out")), true);
    fac_tensor *y = fac_tanh(fac_matmul(x, w)), *loss = fac_sum(fac_mul(y, fac_softmax(y, fac_dim(y, "out"))));
    fac_tensor *py = fac_tanh(fac_matmul(px, pw)), *ploss = fac_sum(fac_mul(py, fac_softmax(py, 1)));
    assert_names(y, "N", "out");
    assert_ok(fac_backward(loss));
    assert_ok(fac_backward(ploss));
    assert_names(fac_grad_of(x), NULL, NULL);
    assert_true(fac_equal(fac_grad_of(x), fac_grad_of(px)) && fac_equal(fac_grad_of(w), fac_grad_of(pw)));
    fac_tensor *refined =
        fac_align_to(fac_refine_names(fac_rename(px, FAC_NAMES()), FAC_NAMES("a", "b")), FAC_NAMES("b", "a"));
    fac_tensor *g = NULL;
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(fac_mul(refined, refined))), FAC_TENSORS(px), &g));
    assert_true(fac_allclose(g, fac_mul(fac_detach(px), 2.0)));
}

/* ---- every operator ---------------------------------------------------------------------------------------------------------- */

/* Gives the dimensions of a tensor names by their place from the right, so that operands agree. */
static void name_dims(fac_value v) {
    static const char *const letters[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    fac_tensor *t = v.tag == FAC_TAG_TENSOR ? fac_value_as_tensor(v) : NULL;
    const char *names[FAC_COUNT(letters)];
    const int n = t ? fac_tensor_ndim(t) : 0;
    if (!n || n > (int)FAC_COUNT(letters)) return;
    for (int d = 0; d < n; d++) names[d] = letters[n - 1 - d];
    fac_tensor *named = fac_set_names(t, (fac_names){names, (size_t)n});
    if (fac_is_nested(t))
        assert_error(FAC_ERR_UNSUPPORTED, "not on a nested tensor");
    else
        assert_ptr_equal(named, t);
}

typedef struct counts {
    int named, unnamed, refused, other;
} counts;

static bool fits(fac_value v) {
    fac_tensor *t = v.tag == FAC_TAG_TENSOR ? fac__header(fac_value_as_tensor(v)) : NULL;
    return !t || fac__tensor_is_valid(t);
}

static void call_named(const sample_call *x, counts *c) {
    fac_value out[8];
    sample_made m;
    FAC_SCOPE(s);
    for (size_t k = 0; k < FAC_COUNT(out); k++) out[k] = fac_value_none();
    assert_ok(sample_make(x, fac_device_make(FAC_CPU, -1), &m));
    for (size_t k = 0; k < m.n_tensors; k++) name_dims(m.tensors[k]);
    const fac_status st = fac_call(x->op, m.args, m.n_args, out);
    bool named = false;
    for (size_t k = 0; k < FAC_COUNT(out) && !st; k++) {
        assert_true(fits(out[k]));
        named |= out[k].tag == FAC_TAG_TENSOR && fac_has_names(fac_value_as_tensor(out[k]));
    }
    if (st)
        *(st == FAC_ERR_UNSUPPORTED ? &c->refused : &c->other) += 1;
    else
        *(named ? &c->named : &c->unnamed) += 1;
    fac_error_clear();
    for (size_t k = 0; k < FAC_COUNT(out); k++) fac_value_release(&out[k]);
    sample_unmake(&m);
}

/* Named arguments end in results whose names fit them, or in an error; never in an INTERNAL one. */
static void S023_every_operator_keeps_or_refuses_names(void **state) {
    (void)state;
    counts c = {0, 0, 0, 0};
    sample_set all;
    assert_true(samples_load(&all));
    for (size_t i = 0; i < all.n; i++) {
        sample_call x;
        const char *where;
        assert_true(sample_parse(all.texts[i], &x, &where));
        if (!sample_elsewhere(x.op)) call_named(&x, &c);
    }
    print_message("results with names %d, without %d; refused %d, other errors %d\n", c.named, c.unnamed, c.refused,
                  c.other);
    assert_true(c.named > 400 && c.refused > 200);
    samples_free(&all);
}

/* Names live until the end of the library; here, until that of a test. */
static int forget_names(void **state) {
    fac__names_forget();
    return support_teardown(state);
}
#define NAMES_TEST(f) cmocka_unit_test_setup_teardown(f, support_setup, forget_names)

/* What names need of the dispatcher is made once. */
static int begin(void **state) {
    (void)state;
    return fac_init() || fac__names_begin() ? -1 : 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        NAMES_TEST(S023_names_are_given_and_asked_for),
        NAMES_TEST(S023_names_that_are_none_are_refused),
        NAMES_TEST(S023_names_are_refined),
        NAMES_TEST(S023_names_are_printed),
        NAMES_TEST(S023_tensors_are_aligned_by_names),
        NAMES_TEST(S023_dimensions_are_flattened_and_unflattened_by_names),
        NAMES_TEST(S023_names_of_operands_are_unified),
        NAMES_TEST(S023_reduced_dimensions_lose_their_names),
        NAMES_TEST(S023_dimensions_move_with_their_names),
        NAMES_TEST(E48_names_flow_through_matmul_S023),
        NAMES_TEST(S023_outputs_are_called_so_or_are_so_already),
        NAMES_TEST(S023_operators_without_a_rule_refuse_names),
        NAMES_TEST(S023_a_guard_masks_names),
        NAMES_TEST(S023_names_do_not_outlive_their_dimensions),
        NAMES_TEST(S023_names_stay_where_codes_and_patterns_become_numbers),
        NAMES_TEST(S023_optimisers_step_named_parameters),
        NAMES_TEST(S023_gradients_have_no_names_and_are_what_they_are_without),
        NAMES_TEST(S023_every_operator_keeps_or_refuses_names),
    };
    return support_run(tests, FAC_COUNT(tests), begin);
}
