/* A program's table of loops (fac_register_pointwise) is asked only for loops that there are formulas of; all other dtypes are refused
   before, with the CPU's error. */
#include "support/npu.h"
#include "support/pointwise_dtypes.h"
#include "support/support.h"
#include <facula/facula.h>

static fac_status nothing(const fac_pointwise_table *table, const fac_pointwise_call *c) {
    (void)table, (void)c;
    return FAC_OK;
}

static void refused_dtypes_are_those_of_the_cpu(void **state) {
    static const fac_pointwise_table table = {sizeof table, FAC_PRIVATE1, NULL, nothing};
    (void)state;
    assert_ok(npu_register());
    assert_ok(fac_register_pointwise(&table));
    pointwise_dtypes_compare(npu(0));
    fac_shutdown();
}

static void a_dtype_is_refused_before_a_zero_divisor(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_to(fac_tensor_of(0, 1), .dtype = FAC_BOOL);
    assert_null(fac_remainder_(x, x));
    assert_error(FAC_ERR_DTYPE, "not implemented for 'bool'");
}

FAC_TEST_MAIN(FAC_TEST(refused_dtypes_are_those_of_the_cpu), FAC_TEST(a_dtype_is_refused_before_a_zero_divisor))
