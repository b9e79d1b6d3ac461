/* Shapes and dtypes of Fourier transforms. */
#include "ops/structured.h"
#include "ops_gen.h"

/* Dimensions in range, none twice; the last of them. */
static fac_status check(const fac_tensor *self, fac_ints dim, int64_t normalization, int64_t *out_last) {
    uint64_t mask;
    *out_last = 0;
    FAC_CHECK(normalization >= 0 && normalization <= 2, FAC_ERR_ARGUMENT,
              "Unsupported normalization type: %lld; expected 0, 1 or 2", (long long)normalization);
    if (dim.n == 0) return FAC_OK;
    FAC_CHECK(self->ndim > 0, FAC_ERR_INDEX, "a tensor without dimensions has none that could be transformed");
    FAC_TRY(fac__dim_mask(dim, self->ndim, &mask));
    return fac__wrap_dim(dim.v[dim.n - 1], self->ndim, out_last);
}
static fac_status need_some(fac_ints dim) {
    FAC_CHECK(dim.n > 0, FAC_ERR_ARGUMENT, "at least one dimension must be transformed");
    return FAC_OK;
}
static fac_status need_complex(const fac_tensor *self) {
    FAC_CHECK(fac_dtype_is_complex((fac_dtype)self->dtype), FAC_ERR_DTYPE, "expected a complex tensor, but got %s",
              fac_dtype_name((fac_dtype)self->dtype));
    return FAC_OK;
}

static fac_status declare(fac_structured *s, fac_tensor *self, const int64_t *sizes, fac_dtype dtype) {
    FAC_TRY(fac_out_declare(s, 0, sizes, NULL, self->ndim, dtype, self->device));
    return fac_out_check_overlap(s, 0, self, false);
}

fac_status fft_c2c_meta(fac_structured *s, fac_tensor *self, fac_ints dim, int64_t normalization, bool forward) {
    (void)forward;
    int64_t last;
    FAC_TRY(need_complex(self));
    FAC_TRY(check(self, dim, normalization, &last));
    /* As self lies: so lines are as near each other on the way out as on the way in. */
    FAC_TRY(fac_out_declare_like(s, 0, self, (fac_dtype)self->dtype));
    return fac_out_check_overlap(s, 0, self, false);
}

fac_status fft_r2c_meta(fac_structured *s, fac_tensor *self, fac_ints dim, int64_t normalization, bool onesided) {
    int64_t last, sizes[FAC_MAX_DIMS];
    FAC_CHECK(self->dtype == FAC_F32 || self->dtype == FAC_F64, FAC_ERR_DTYPE, "Unsupported dtype %s",
              fac_dtype_name((fac_dtype)self->dtype));
    FAC_TRY(need_some(dim));
    FAC_TRY(check(self, dim, normalization, &last));
    FAC_CHECK(self->sizes[last] > 0, FAC_ERR_SHAPE, "Invalid number of data points (0) specified");
    memcpy(sizes, self->sizes, self->ndim * sizeof *sizes);
    if (onesided) sizes[last] = sizes[last] / 2 + 1;
    return declare(s, self, sizes, self->dtype == FAC_F64 ? FAC_C128 : FAC_C64);
}

fac_status fft_c2r_meta(fac_structured *s, fac_tensor *self, fac_ints dim, int64_t normalization,
                        int64_t last_dim_size) {
    int64_t last, sizes[FAC_MAX_DIMS];
    FAC_TRY(need_complex(self));
    FAC_TRY(need_some(dim));
    FAC_TRY(check(self, dim, normalization, &last));
    FAC_CHECK(last_dim_size >= 1, FAC_ERR_ARGUMENT, "Invalid number of data points (%lld) specified",
              (long long)last_dim_size);
    FAC_CHECK(self->sizes[last] == last_dim_size / 2 + 1, FAC_ERR_SHAPE,
              "%lld points are made of %lld, but dimension %lld has %lld", (long long)last_dim_size,
              (long long)(last_dim_size / 2 + 1), (long long)last, (long long)self->sizes[last]);
    memcpy(sizes, self->sizes, self->ndim * sizeof *sizes);
    sizes[last] = last_dim_size;
    return declare(s, self, sizes, self->dtype == FAC_C128 ? FAC_F64 : FAC_F32);
}
