/* The geometry of patches: counts windows, and checks that columns and images fit each other. */
#include "ops/patches.h"

/* Entry d of a list; a list of one entry counts for both dimensions. */
static fac_status entry(const char *name, fac_ints list, int d, int64_t least, int64_t *out) {
    FAC_CHECK(list.n == 1 || list.n == 2, FAC_ERR_ARGUMENT, "expected %s to be a list of two numbers, got %zu", name,
              list.n);
    *out = list.v[list.n == 1 ? 0 : d];
    FAC_CHECK(*out >= least, FAC_ERR_ARGUMENT, "%s should be %s, but got %lld", name,
              least ? "greater than zero" : "non-negative", (long long)*out);
    return FAC_OK;
}

static fac_status count_windows(fac_patches *p, int d) {
    int64_t extent, room;
    FAC_CHECK(fac__mul(p->kernel[d] - 1, p->dilation[d], &extent) && fac__add(extent, 1, &extent) &&
                  fac__mul(p->padding[d], 2, &room) && fac__add(room, p->in[d], &room) && room <= INT64_MAX / 4 &&
                  extent <= INT64_MAX / 4 && p->stride[d] <= INT64_MAX / 4,
              FAC_ERR_OVERFLOW, "kernel_size %lld with dilation %lld and padding %lld is too large",
              (long long)p->kernel[d], (long long)p->dilation[d], (long long)p->padding[d]);
    p->out[d] = room < extent ? 0 : (room - extent) / p->stride[d] + 1;
    FAC_CHECK(
        p->out[d] > 0, FAC_ERR_SHAPE,
        "Given an image with the spatial size %lld and kernel_size=%lld, dilation=%lld, padding=%lld, the shape of the array of "
        "sliding blocks must be at least one, but no block fits",
        (long long)p->in[d], (long long)p->kernel[d], (long long)p->dilation[d], (long long)p->padding[d]);
    return FAC_OK;
}

/* The lists, and with the image's sizes known, the windows. */
static fac_status count(const fac_patches_args *a, fac_patches *p) {
    int64_t unused;
    for (int d = 0; d < 2; d++) {
        FAC_TRY(entry("kernel_size", a->kernel, d, 1, &p->kernel[d]));
        FAC_TRY(entry("dilation", a->dilation, d, 1, &p->dilation[d]));
        FAC_TRY(entry("padding", a->padding, d, 0, &p->padding[d]));
        FAC_TRY(entry("stride", a->stride, d, 1, &p->stride[d]));
        FAC_TRY(count_windows(p, d));
    }
    int64_t *columns = p->columns + p->columns_ndim - 2;
    const int64_t channels = p->image[p->image_ndim - 3];
    FAC_CHECK(fac__mul(p->kernel[0], p->kernel[1], &p->taps) && fac__mul(p->taps, channels, &columns[0]) &&
                  fac__mul(p->out[0], p->out[1], &columns[1]),
              FAC_ERR_OVERFLOW, "patches of an image of %lld channels are too many", (long long)channels);
    if (p->columns_ndim == 3) p->columns[0] = p->image[0];
    FAC_CHECK(fac__numel(p->columns, p->columns_ndim, &unused) && fac__numel(p->image, p->image_ndim, &unused),
              FAC_ERR_OVERFLOW, "the columns of an image with %lld by %lld patches are too large", (long long)p->out[0],
              (long long)p->out[1]);
    p->planes = p->columns_ndim == 3 ? p->image[0] * channels : channels;
    return FAC_OK;
}

fac_status fac__patches_plan(const fac_tensor *image, const fac_patches_args *args, fac_patches *p) {
    const int nd = image->ndim;
    bool fits = nd == 3 || nd == 4;
    for (int d = nd - 3; d >= 0 && fits && d < nd; d++) fits = image->sizes[d] > 0;
    FAC_CHECK(
        fits, FAC_ERR_SHAPE,
        "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: %s",
        FAC_SHAPE_TEXT(image));
    *p = (fac_patches){.image_ndim = nd, .columns_ndim = nd - 1};
    memcpy(p->image, image->sizes, (size_t)nd * sizeof *p->image);
    memcpy(p->in, image->sizes + nd - 2, sizeof p->in);
    return count(args, p);
}

fac_status fac__patches_plan_columns(const fac_tensor *columns, fac_ints output_size, const fac_patches_args *args,
                                     fac_patches *p) {
    const int nd = columns->ndim;
    int64_t taps, kernel[2];
    const bool fits = (nd == 2 || nd == 3) && columns->sizes[nd - 2] > 0 && columns->sizes[nd - 1] > 0;
    FAC_CHECK(
        fits, FAC_ERR_SHAPE,
        "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but got: %s",
        FAC_SHAPE_TEXT(columns));
    *p = (fac_patches){.image_ndim = nd + 1, .columns_ndim = nd};
    for (int d = 0; d < 2; d++) {
        FAC_TRY(entry("output_size", output_size, d, 1, &p->in[d]));
        FAC_TRY(entry("kernel_size", args->kernel, d, 1, &kernel[d]));
    }
    FAC_CHECK(
        fac__mul(kernel[0], kernel[1], &taps) && columns->sizes[nd - 2] % taps == 0, FAC_ERR_SHAPE,
        "Expected size of input's dimension %d to be divisible by the product of kernel_size, but got %lld and kernel_size=(%lld, "
        "%lld)",
        nd - 2, (long long)columns->sizes[nd - 2], (long long)kernel[0], (long long)kernel[1]);
    int64_t *last = p->image + nd - 2;
    if (nd == 3) p->image[0] = columns->sizes[0];
    last[0] = columns->sizes[nd - 2] / taps, last[1] = p->in[0], last[2] = p->in[1];
    FAC_TRY(count(args, p));
    FAC_CHECK(
        columns->sizes[nd - 1] == p->columns[nd - 1], FAC_ERR_SHAPE,
        "Expected size of input's dimension %d to match the calculated number of sliding blocks %lld * %lld, but got %lld",
        nd - 1, (long long)p->out[0], (long long)p->out[1], (long long)columns->sizes[nd - 1]);
    return FAC_OK;
}
