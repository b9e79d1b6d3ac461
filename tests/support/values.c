/* Tensors with known values, and their comparison: see values.h. */
#include "values.h"
#include "support.h"

fac_tensor *numbers(fac_ints sizes) {
    int64_t n = 1;
    for (size_t i = 0; i < sizes.n; i++) n *= sizes.v[i];
    return fac_reshape(fac_div(fac_arange((double)n, .dtype = FAC_F64), 7.0), sizes);
}

void values_close(fac_tensor *a, fac_tensor *b, const char *file, int line) {
    support_no_error(file, line);
    _assert_true(a && b, "a && b", file, line);
    const fac_ints x = fac_tensor_sizes(a), y = fac_tensor_sizes(b);
    _assert_int_equal(x.n, y.n, file, line);
    _assert_memory_equal(x.v, y.v, x.n * sizeof *x.v, file, line);
    _assert_true(fac_allclose(fac_detach(a), fac_detach(b), .rtol = 1e-10, .atol = 1e-10), "a is close to b", file,
                 line);
}
