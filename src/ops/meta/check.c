/* Checks of sizes and dtypes that follow from other arguments, with errors that name the argument. */
#include "ops/meta/check.h"

fac_status fac__need_sizes(const char *name, const fac_tensor *t, const int64_t *sizes, int ndim) {
    bool same = !t || fac__has_sizes(t, sizes, ndim);
    FAC_CHECK(same, FAC_ERR_SHAPE, "%s must have size %s, got %s", name,
              fac__shape_text(sizes, ndim, (char[256]){0}, 256), FAC_SHAPE_TEXT(t));
    return FAC_OK;
}

fac_status fac__need_one(const char *name, const fac_tensor *t) {
    FAC_CHECK(!t || t->numel == 1, FAC_ERR_SHAPE, "%s must have one element, got size %s", name, FAC_SHAPE_TEXT(t));
    return FAC_OK;
}

fac_status fac__need_dtype(const char *name, const fac_tensor *t, fac_dtype dtype) {
    FAC_CHECK(!t || t->dtype == dtype, FAC_ERR_DTYPE, "%s must be %s, got %s", name, fac_dtype_name(dtype),
              fac_dtype_name((fac_dtype)t->dtype));
    return FAC_OK;
}

fac_status fac__need_floating(const char *name, const fac_tensor *t) {
    FAC_CHECK(!t || fac_dtype_is_floating((fac_dtype)t->dtype), FAC_ERR_DTYPE, "%s must be of a floating type, got %s",
              name, fac_dtype_name((fac_dtype)t->dtype));
    return FAC_OK;
}
