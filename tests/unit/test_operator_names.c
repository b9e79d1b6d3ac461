/* Errors name the operator that was called, whichever operators share its kernel or its shape rule, and name it once. Of an
   operator made of others they name the one that failed. */
#include "support/support.h"
#include <facula/facula.h>
#include <string.h>

enum { M = 2, K = 3, N = 4 };

/* Truth values of these sizes, which no product takes. */
static fac_tensor *truths(fac_ints sizes) { return fac_full(sizes, 1, .dtype = FAC_BOOL); }

static void S010_products_and_orders_name_the_operator_called(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = truths(FAC_INTS(M, K)), *b = truths(FAC_INTS(K, N)), *c = truths(FAC_INTS(M, N));
    fac_tensor *a3 = truths(FAC_INTS(2, M, K)), *b3 = truths(FAC_INTS(2, K, N)), *c3 = truths(FAC_INTS(2, M, N));
    fac_tensor *u = truths(FAC_INTS(K)), *v = truths(FAC_INTS(M)), *z = fac_zeros(FAC_SHAPE(K), .dtype = FAC_C64);
    fac_tensor *i = fac_zeros(FAC_SHAPE(K), .dtype = FAC_I64);
#define TRY(name, result)                                          \
    do {                                                           \
        fac_error_info e;                                          \
        assert_null(result);                                       \
        assert_int_not_equal(fac_error_get(&e), FAC_OK);           \
        assert_string_equal(e.op, name);                           \
        assert_ptr_equal(strstr(e.message, name ": "), e.message); \
        assert_null(strstr(e.message + strlen(name), name));       \
        fac_error_clear();                                         \
    } while (0)
    TRY("mm", fac_mm(a, b));
    TRY("bmm", fac_bmm(a3, b3));
    TRY("mv", fac_mv(a, u));
    TRY("dot", fac_dot(u, u));
    TRY("mm", fac_matmul(a, b)); /* the part of it that fails */
    TRY("addmm", fac_addmm(c, a, b));
    TRY("addmm_", fac_addmm_(c, a, b));
    TRY("addmv", fac_addmv(v, a, u));
    TRY("baddbmm", fac_baddbmm(c3, a3, b3));
    TRY("sort", fac_sort(z).values);
    TRY("topk", fac_topk(z, 1).values);
    TRY("kthvalue", fac_kthvalue(z, 1).values);
    TRY("relu", fac_relu(u));
    TRY("clamp", fac_clamp(z, .min = 0));
    TRY("floor", fac_floor(z));
    TRY("hardshrink", fac_hardshrink(i));
    TRY("softshrink", fac_softshrink(i));
    TRY("pixel_unshuffle", fac_pixel_unshuffle(u, 2));
    TRY("conv1d", fac_conv1d(u, fac_ones(FAC_SHAPE(1, 1, 1)), NULL));
    TRY("normal_", fac_normal_(i));
    TRY("uniform_", fac_uniform_(i));
}

FAC_TEST_MAIN(FAC_TEST(S010_products_and_orders_name_the_operator_called))
