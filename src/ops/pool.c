/* Reads the arguments of pooling and works out its sizes. */
#include "ops/pool.h"

/* Entry d (of nd) of a list that holds nd entries or one. */
static fac_status entry(const char *name, fac_ints l, int nd, int d, int64_t least, int64_t *out) {
    FAC_CHECK(l.n == 1 || l.n == (size_t)nd, FAC_ERR_ARGUMENT,
              "%s must either be a single int, or a list of %d ints, but has %zu", name, nd, l.n);
    *out = l.v[l.n == 1 ? 0 : d];
    FAC_CHECK(*out >= least, FAC_ERR_ARGUMENT, "%s should be %s, but got %lld", name,
              least ? "greater than zero" : "non-negative", (long long)*out);
    return FAC_OK;
}

static fac_status begin(int nd, const fac_tensor *self, fac_pool *p) {
    *p = (fac_pool){.nd = nd, .in_count = 1, .out_count = 1, .planes = 1};
    FAC_CHECK(self->ndim == nd + 1 || self->ndim == nd + 2, FAC_ERR_SHAPE,
              "Expected %dD or %dD (batch mode) tensor for input, but got size %s", nd + 1, nd + 2,
              FAC_SHAPE_TEXT(self));
    for (int d = self->ndim == nd + 2; d < self->ndim; d++)
        FAC_CHECK(self->sizes[d] > 0, FAC_ERR_SHAPE,
                  "Expected non-zero sizes of all but the batch dimension, but got input of size %s",
                  FAC_SHAPE_TEXT(self));
    int lead = self->ndim - nd;
    for (int d = 0; d < lead; d++) p->planes *= p->sizes[d] = self->sizes[d];
    for (int d = 0; d < FAC_POOL_DIMS; d++) {
        int real = d - (FAC_POOL_DIMS - nd);
        p->in[d] = real >= 0 ? self->sizes[lead + real] : 1;
        p->out[d] = p->kernel[d] = p->stride[d] = p->dilation[d] = 1;
        (void)fac__mul(p->in_count, p->in[d], &p->in_count); /* fits if the padded size does, which end() checks */
    }
    p->ndim = self->ndim;
    return FAC_OK;
}

/* Takes over the output sizes. */
static fac_status end(const fac_tensor *self, fac_pool *p) {
    for (int d = 0; d < p->nd; d++) p->sizes[p->ndim - p->nd + d] = p->out[FAC_POOL_DIMS - p->nd + d];
    int64_t padded[FAC_POOL_DIMS], unused; /* a window's size with padding must be countable too */
    for (int d = 0; d < FAC_POOL_DIMS; d++)
        padded[d] = p->in[d] + 2 * p->padding[d]; /* fits: the windows were counted */
    FAC_CHECK(fac__numel(p->out, FAC_POOL_DIMS, &p->out_count) && fac__numel(padded, FAC_POOL_DIMS, &unused),
              FAC_ERR_OVERFLOW, "the result of pooling %s is too large", FAC_SHAPE_TEXT(self));
    return FAC_OK;
}

/* Positions at which a window starts: those that begin inside the input or its left padding, the last one ragged if
   ceil_mode. */
static fac_status count_windows(const fac_tensor *self, bool ceil_mode, int d, fac_pool *p) {
    int64_t extent, room, unused;
    FAC_CHECK(fac__mul(p->kernel[d] - 1, p->dilation[d], &extent) && fac__add(extent, 1, &extent) &&
                  fac__add(p->in[d], 2 * p->padding[d], &room) && fac__sub(room, extent, &room) &&
                  fac__add(extent, p->in[d], &unused) && fac__add(p->dilation[d], p->in[d], &unused),
              FAC_ERR_OVERFLOW, "kernel_size %lld with dilation %lld is too large", (long long)p->kernel[d],
              (long long)p->dilation[d]);
    int64_t n = -1; /* windows after the first */
    if (room >= 0)
        n = room / p->stride[d] + (ceil_mode && room % p->stride[d] != 0);
    else if (ceil_mode && room > -p->stride[d])
        n = 0;
    int64_t start;
    if (ceil_mode && n > 0 && (!fac__mul(n, p->stride[d], &start) || start >= p->in[d] + p->padding[d])) n--;
    FAC_CHECK(n >= 0, FAC_ERR_SHAPE,
              "Given input size: %s. The window of %lld does not fit %lld with padding %lld: output size is too small",
              FAC_SHAPE_TEXT(self), (long long)extent, (long long)p->in[d], (long long)p->padding[d]);
    p->out[d] = n + 1;
    return FAC_OK;
}

fac_status fac__pool_plan(int nd, const fac_tensor *self, const fac_pool_args *args, fac_pool *out) {
    FAC_TRY(begin(nd, self, out));
    const fac_ints one = {(const int64_t[]){1}, 1};
    for (int d = 0; d < nd; d++) {
        int at = FAC_POOL_DIMS - nd + d;
        FAC_TRY(entry("kernel_size", args->kernel, nd, d, 1, &out->kernel[at]));
        FAC_TRY(entry("stride", args->stride.n ? args->stride : args->kernel, nd, d, 1, &out->stride[at]));
        FAC_TRY(entry("padding", args->padding, nd, d, 0, &out->padding[at]));
        FAC_TRY(entry("dilation", args->dilation.v ? args->dilation : one, nd, d, 1, &out->dilation[at]));
        FAC_CHECK(out->padding[at] <= out->kernel[at] / 2, FAC_ERR_ARGUMENT,
                  "pad should be at most half of kernel size, but got pad=%lld and kernel_size=%lld",
                  (long long)out->padding[at], (long long)out->kernel[at]);
        FAC_TRY(count_windows(self, args->ceil_mode, at, out));
    }
    return end(self, out);
}

fac_status fac__pool_plan_adaptive(int nd, const fac_tensor *self, fac_ints output_size, fac_pool *out) {
    FAC_TRY(begin(nd, self, out));
    out->adaptive = true;
    for (int d = 0; d < nd; d++) {
        int at = FAC_POOL_DIMS - nd + d;
        int64_t unused;
        FAC_TRY(entry("output_size", output_size, nd, d, 0, &out->out[at]));
        FAC_CHECK(fac__mul(out->out[at], out->in[at], &unused) && fac__add(unused, out->in[at], &unused) &&
                      fac__add(unused, out->out[at], &unused),
                  FAC_ERR_OVERFLOW, "output_size %lld is too large", (long long)out->out[at]);
    }
    return end(self, out);
}
