/* Tensors as text, compared with PyTorch's. */
#include "core/scalar.h"
#include "core/tensor_make.h"
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>
#include <stdlib.h>

#include "data/print_cases.h"

/* Owned by the scope: the case's values in its dtype. */
static fac_tensor *tensor_of(const struct print_case *c) {
    fac_tensor *owned;
    FAC_TRY_NULL(fac__empty(c->sizes, c->ndim, c->dtype, fac_device_make(FAC_CPU, -1), &owned));
    char *p = fac__data(owned);
    for (int64_t i = 0; i < owned->numel; i++, p += fac__item_size(owned)) {
        double linear[2] = {c->start + (double)i * c->step, 0};
        fac__store(p, c->dtype, fac_scalar_c_(c->values ? c->values + 2 * i : linear));
    }
    return fac__adopt_handle(fac__thread(), owned);
}

static void S027_print_agrees_with_pytorch(void **state) {
    (void)state;
    int differing = 0;
    for (size_t i = 0; i < FAC_COUNT(print_cases); i++) {
        FAC_SCOPE(s);
        char *text = fac_tensor_string(tensor_of(&print_cases[i]));
        assert_no_error();
        if (strcmp(text, print_cases[i].text) != 0) {
            print_error("%s: expected\n%s\nbut got\n%s\n", print_cases[i].name, print_cases[i].text, text);
            differing++;
        }
        fac_string_free(text);
    }
    assert_int_equal(differing, 0);
}

static void expect_text(fac_tensor *t, const char *expected) {
    char *text = fac_tensor_string(t);
    assert_no_error();
    assert_string_equal(text, expected);
    fac_string_free(text);
}

static void print_strided_view_and_conjugate(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const float re_im[] = {1, 2, 3, -4};
    fac_tensor *t = fac_tensor_from((const float[]){1, 2, 3, 4}, FAC_F32, FAC_INTS(2, 2)), *v;
    assert_non_null(t);
    assert_ok(fac__view(fac__header(t), FAC_INTS(2, 2).v, FAC_INTS(1, 2).v, 2, 0, true, &v));
    expect_text(fac__adopt_handle(fac__thread(), v), "tensor([[1., 3.],\n        [2., 4.]])");
    fac_tensor *c = fac_tensor_from(re_im, FAC_C64, FAC_INTS(2));
    fac__header(c)->flags |= FAC_TF_CONJ;
    expect_text(c, "tensor([1.-2.j, 3.+4.j])");
}

static void print_meta_shows_size_and_device(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t;
    assert_ok(fac__empty(FAC_INTS(2, 3).v, 2, FAC_F32, fac_device_make(FAC_META, -1), &t));
    expect_text(fac__adopt_handle(fac__thread(), t), "tensor(..., device='meta', size=(2, 3))");
    assert_ok(fac__empty(FAC_INTS(2).v, 1, FAC_I64, fac_device_make(FAC_META, -1), &t));
    expect_text(fac__adopt_handle(fac__thread(), t), "tensor(..., device='meta', size=(2,), dtype=torch.int64)");
}

static void S027_print_shows_the_place_in_the_graph(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *leaf = fac_set_requires_grad(fac_tensor_of(1, 2), true);
    expect_text(leaf, "tensor([1., 2.], requires_grad=True)");
    expect_text(fac_add(leaf, leaf), "tensor([2., 4.], grad_fn=<AddBackward0>)");
}

static void print_options_take_effect(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_tensor_of(0.5, 1.25, 2, 3, 4, 5);
    fac_set_print_options((fac_print_options){.precision = 1, .threshold = 5, .edge_items = 2, .line_width = 12});
    expect_text(t, "tensor([0.5,\n        1.2,\n         ...,\n        4.0,\n        5.0])");
    fac_set_print_options((fac_print_options){4, 1000, 3, 80});
    expect_text(fac_tensor_of(0.5), "tensor([0.5000])");
}

static void print_default_dtype_is_not_shown(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_tensor_from((const double[]){0.5}, FAC_F64, FAC_INTS(1));
    assert_ok(fac_set_default_dtype(FAC_F64));
    expect_text(t, "tensor([0.5000])");
    assert_ok(fac_set_default_dtype(FAC_F32));
    expect_text(t, "tensor([0.5000], dtype=torch.float64)");
}

static void print_to_a_stream_ends_the_line(void **state) {
    (void)state;
    FAC_SCOPE(s);
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    assert_ok(fac_print(fac_tensor_of(1, 2), f));
    fclose(f);
    assert_string_equal(text, "tensor([1., 2.])\n");
    free(text);
}

static void print_reports_bad_handles_and_pending_errors(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_null(fac_tensor_string(NULL));
    assert_error(FAC_ERR_ARGUMENT, "NULL was given");
    fac_tensor *t = fac_tensor_of(1);
    FAC_FAIL(FAC_ERR_SHAPE, "earlier");
    assert_int_equal(fac_print(t, stdout), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "earlier");
}

static fac_status print_first_matrix(void *unused) {
    (void)unused;
    FAC_SCOPE(s);
    size_t i = 0;
    while (print_cases[i].ndim < 2) i++;
    fac_tensor *t = tensor_of(&print_cases[i]);
    if (t) fac_string_free(fac_tensor_string(t));
    return fac_error();
}

static void print_survives_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(print_first_matrix, NULL);
}

FAC_TEST_MAIN(FAC_TEST(S027_print_agrees_with_pytorch), FAC_TEST(print_strided_view_and_conjugate),
              FAC_TEST(print_meta_shows_size_and_device), FAC_TEST(S027_print_shows_the_place_in_the_graph),
              FAC_TEST(print_options_take_effect), FAC_TEST(print_default_dtype_is_not_shown),
              FAC_TEST(print_to_a_stream_ends_the_line), FAC_TEST(print_reports_bad_handles_and_pending_errors),
              FAC_TEST(print_survives_failing_allocations))
