/* Checks of pooling that is undone, and of pooling whose windows are drawn. */
#include "ops/unpool.h"

/* Planes of nd dimensions with channels, and perhaps a batch, which alone may be empty. */
static fac_status check_input(int nd, const fac_tensor *self) {
    bool fits = self->ndim == nd + 1 || self->ndim == nd + 2;
    for (int d = self->ndim - nd - 1; d >= 0 && fits && d < self->ndim; d++) fits = self->sizes[d] > 0;
    FAC_CHECK(fits, FAC_ERR_SHAPE,
              "Expected %dD or %dD (batch mode) tensor with non-zero sizes for non-batch dimensions, but got %s",
              nd + 1, nd + 2, FAC_SHAPE_TEXT(self));
    return FAC_OK;
}

static fac_status check_list(const char *name, fac_ints list, int nd, int64_t least) {
    FAC_CHECK(list.n == (size_t)nd, FAC_ERR_ARGUMENT, "There should be exactly %d elements in %s, but got %zu", nd,
              name, list.n);
    for (int d = 0; d < nd; d++)
        FAC_CHECK(list.v[d] >= least, FAC_ERR_ARGUMENT, "%s must be at least %lld, but got %lld", name,
                  (long long)least, (long long)list.v[d]);
    return FAC_OK;
}

fac_status fac__unpool_sizes(int nd, const fac_tensor *self, const fac_tensor *indices, fac_ints output_size,
                             int64_t *sizes) {
    int64_t unused;
    FAC_TRY(check_input(nd, self));
    FAC_TRY(check_list("output_size", output_size, nd, 0));
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)self->dtype), FAC_ERR_DTYPE,
              "complex numbers have no maxima to put back");
    FAC_CHECK(indices->dtype == FAC_I64, FAC_ERR_DTYPE, "elements in indices should be type int64 but got: %s",
              fac_dtype_name((fac_dtype)indices->dtype));
    FAC_CHECK(
        fac__same_sizes(self, indices), FAC_ERR_SHAPE,
        "Expected shape of indices to be same as that of the input tensor (%s), but got indices tensor with shape: %s",
        FAC_SHAPE_TEXT(self), FAC_SHAPE_TEXT(indices));
    memcpy(sizes, self->sizes, (size_t)self->ndim * sizeof *sizes);
    memcpy(sizes + self->ndim - nd, output_size.v, (size_t)nd * sizeof *sizes);
    FAC_CHECK(fac__numel(sizes, self->ndim, &unused), FAC_ERR_OVERFLOW, "a result of this size is too large");
    return FAC_OK;
}

static fac_status check_samples(int nd, const fac_tensor *self, const fac_tensor *samples) {
    const int64_t batch = self->ndim == nd + 2 ? self->sizes[0] : 1, channels = self->sizes[self->ndim - nd - 1];
    const int64_t sizes[] = {batch, channels, nd};
    FAC_CHECK(fac__has_sizes(samples, sizes, 3), FAC_ERR_SHAPE,
              "Expect _random_samples of the size [%lld, %lld, %d], batch, channels and dimensions; got %s",
              (long long)batch, (long long)channels, nd, FAC_SHAPE_TEXT(samples));
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)self->dtype) && samples->dtype == self->dtype, FAC_ERR_DTYPE,
              "Expect _random_samples to have the same floating dtype as input, got %s and %s",
              fac_dtype_name((fac_dtype)samples->dtype), fac_dtype_name((fac_dtype)self->dtype));
    return FAC_OK;
}

fac_status fac__drawn_pool_plan(int nd, const fac_tensor *self, fac_ints kernel_size, fac_ints output_size,
                                const fac_tensor *samples, fac_drawn_pool *p) {
    FAC_TRY(check_input(nd, self));
    FAC_TRY(check_list("kernel_size", kernel_size, nd, 1));
    FAC_TRY(check_list("output_size", output_size, nd, 1));
    FAC_TRY(check_samples(nd, self, samples));
    *p = (fac_drawn_pool){.nd = nd, .planes = samples->sizes[0] * samples->sizes[1]};
    memcpy(p->sizes, self->sizes, (size_t)self->ndim * sizeof *p->sizes);
    for (int d = 0; d < FAC_UNPOOL_DIMS; d++) p->in[d] = p->out[d] = p->kernel[d] = 1;
    for (int k = 0; k < nd; k++) {
        const int d = FAC_UNPOOL_DIMS - nd + k;
        p->in[d] = self->sizes[self->ndim - nd + k];
        p->kernel[d] = kernel_size.v[k];
        p->out[d] = p->sizes[self->ndim - nd + k] = output_size.v[k];
        FAC_CHECK(p->kernel[d] <= p->in[d] && p->out[d] <= p->in[d] - p->kernel[d] + 1, FAC_ERR_SHAPE,
                  "pool %lld too large relative to input %lld, for %lld windows", (long long)p->kernel[d],
                  (long long)p->in[d], (long long)p->out[d]);
    }
    return FAC_OK;
}
