/* Output rules of random operators. */
#include "ops_gen.h"

/* Outputs are row-major: element i of the draw is element i of the result. */
fac_status native_dropout_meta(fac_structured *s, fac_tensor *input, double p, fac_opt_num train) {
    (void)train;
    FAC_CHECK(p >= 0 && p <= 1, FAC_ERR_ARGUMENT, "dropout probability has to be between 0 and 1, but got %g", p);
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)input->dtype), FAC_ERR_DTYPE, "dropout needs a floating dtype, got %s",
              fac_dtype_name((fac_dtype)input->dtype));
    FAC_TRY(fac_out_declare(s, 0, input->sizes, NULL, input->ndim, (fac_dtype)input->dtype, input->device));
    return fac_out_declare(s, 1, input->sizes, NULL, input->ndim, FAC_BOOL, input->device);
}

fac_status native_dropout_backward_meta(fac_structured *s, fac_tensor *grad_output, fac_tensor *mask, double scale) {
    (void)scale;
    FAC_CHECK(fac__same_sizes(grad_output, mask), FAC_ERR_SHAPE, "grad_output of sizes %s and mask of sizes %s differ",
              FAC_SHAPE_TEXT(grad_output), FAC_SHAPE_TEXT(mask));
    FAC_CHECK(mask->dtype == FAC_BOOL, FAC_ERR_DTYPE, "mask should be a bool tensor, but got %s",
              fac_dtype_name((fac_dtype)mask->dtype));
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)grad_output->dtype), FAC_ERR_DTYPE,
              "dropout needs a floating dtype, got %s", fac_dtype_name((fac_dtype)grad_output->dtype));
    return fac_out_declare(s, 0, grad_output->sizes, NULL, grad_output->ndim, (fac_dtype)grad_output->dtype,
                           grad_output->device);
}
