/* Shapes and dtypes of patches, and of pooling that is undone or whose windows are drawn. */
#include "ops/patches.h"
#include "ops/format.h"
#include "ops/meta/check.h"
#include "ops/unpool.h"
#include "ops_gen.h"

fac_status im2col_meta(fac_structured *s, fac_tensor *self, fac_ints kernel_size, fac_ints dilation, fac_ints padding,
                       fac_ints stride) {
    fac_patches p;
    FAC_TRY(fac__patches_plan(self, &(fac_patches_args){kernel_size, dilation, padding, stride}, &p));
    return fac_out_declare(s, 0, p.columns, NULL, p.columns_ndim, (fac_dtype)self->dtype, self->device);
}

fac_status col2im_meta(fac_structured *s, fac_tensor *self, fac_ints output_size, fac_ints kernel_size,
                       fac_ints dilation, fac_ints padding, fac_ints stride) {
    fac_patches p;
    FAC_CHECK(!fac_dtype_is_integral((fac_dtype)self->dtype, false), FAC_ERR_DTYPE,
              "patches of %s are not added up: expected a floating, complex or bool tensor",
              fac_dtype_name((fac_dtype)self->dtype));
    FAC_TRY(
        fac__patches_plan_columns(self, output_size, &(fac_patches_args){kernel_size, dilation, padding, stride}, &p));
    return fac_out_declare(s, 0, p.image, NULL, p.image_ndim, (fac_dtype)self->dtype, self->device);
}

/* ---- pooling ----------------------------------------------------------------------------------------------------------------- */

/* Images in two dimensions keep their format. */
static fac_status declare_unpooled(fac_structured *s, int nd, const fac_tensor *self, const fac_tensor *indices,
                                   fac_ints output_size) {
    int64_t sizes[FAC_MAX_DIMS];
    FAC_TRY(fac__unpool_sizes(nd, self, indices, output_size, sizes));
    const fac_memory_format f = nd == 2 ? fac__format_of(self) : FAC_CONTIGUOUS;
    return fac_out_declare_format(s, 0, sizes, self->ndim, (fac_dtype)self->dtype, self->device, f);
}

fac_status max_unpool2d_meta(fac_structured *s, fac_tensor *self, fac_tensor *indices, fac_ints output_size) {
    return declare_unpooled(s, 2, self, indices, output_size);
}

fac_status max_unpool3d_meta(fac_structured *s, fac_tensor *self, fac_tensor *indices, fac_ints output_size,
                             fac_ints stride, fac_ints padding) {
    FAC_CHECK(stride.n == 3 && padding.n == 3, FAC_ERR_ARGUMENT,
              "There should be exactly 3 elements (depth, height, width) in stride and padding, but got %zu and %zu",
              stride.n, padding.n);
    for (int d = 0; d < 3; d++)
        FAC_CHECK(stride.v[d] > 0, FAC_ERR_ARGUMENT, "strides should be greater than zero, but got %lld",
                  (long long)stride.v[d]);
    return declare_unpooled(s, 3, self, indices, output_size);
}

static fac_status declare_drawn(fac_structured *s, int nd, const fac_tensor *self, fac_ints kernel_size,
                                fac_ints output_size, const fac_tensor *samples) {
    fac_drawn_pool p;
    FAC_TRY(fac__drawn_pool_plan(nd, self, kernel_size, output_size, samples, &p));
    FAC_TRY(fac_out_declare(s, 0, p.sizes, NULL, self->ndim, (fac_dtype)self->dtype, self->device));
    return fac_out_declare(s, 1, p.sizes, NULL, self->ndim, FAC_I64, self->device);
}

#define DRAWN_META(n)                                                                                    \
    fac_status fractional_max_pool##n##d_meta(fac_structured *s, fac_tensor *self, fac_ints kernel_size, \
                                              fac_ints output_size, fac_tensor *random_samples) {        \
        return declare_drawn(s, n, self, kernel_size, output_size, random_samples);                      \
    }
DRAWN_META(2)
DRAWN_META(3)
