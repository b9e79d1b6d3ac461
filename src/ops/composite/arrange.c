/* Elements in other places: columns, halves, pixels, spectra, pieces. Views and copies of others. */
#include "ops/composite/brief.h"
#include "ops/format.h"

fac_status ravel_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    return fac__c_reshape(self, FAC_INTS(-1), out);
}

fac_status matrix_h_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    if (self->ndim == 0) return fac__c_conj(self, out);
    FAC_CHECK(self->ndim == 2, FAC_ERR_SHAPE, "tensor.H is only supported on matrices (2-D tensors). Got %d-D tensor.",
              self->ndim);
    return fac__c_adjoint(self, out);
}

fac_status diagflat_composite(const fac_call_info *c, fac_tensor *self, int64_t offset, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return fac__give(out, fac__s_diag_embed(fac__s_reshape(self, FAC_INTS(-1)), offset, 0, 1));
}

fac_status narrow_copy_composite(const fac_call_info *c, fac_tensor *self, int64_t dim, int64_t start, int64_t length,
                                 fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return fac__give(out, fac__s_clone(fac__s_narrow(self, dim, start, length), FAC_CONTIGUOUS));
}

/* ---- columns and pieces ------------------------------------------------------------------------------------------------ */

static fac_status columns(fac_tensors l, fac_tensor **room, fac_tensor **out) {
    FAC_SCOPE(s);
    for (size_t i = 0; i < l.n; i++) {
        room[i] = l.v[i]->ndim <= 1 ? fac__s_reshape(l.v[i], FAC_INTS(l.v[i]->numel, 1)) : l.v[i];
        if (!room[i]) return fac_error();
    }
    return fac__c_hstack((fac_tensors){room, l.n}, out);
}

fac_status column_stack_composite(const fac_call_info *c, fac_tensors tensors, fac_tensor **out) {
    (void)c;
    FAC_CHECK(tensors.n > 0, FAC_ERR_ARGUMENT, "column_stack expects a non-empty TensorList");
    fac_tensor **room = fac__alloc_array(tensors.n, sizeof *room);
    if (!room) return fac_error();
    fac_status st = columns(tensors, room, out);
    fac__free(room);
    return st;
}

fac_status cartesian_prod_composite(const fac_call_info *c, fac_tensors tensors, fac_tensor **out) {
    (void)c;
    for (size_t i = 0; i < tensors.n; i++)
        FAC_CHECK(tensors.v[i]->ndim == 1, FAC_ERR_SHAPE, "Expect a 1D vector, but got shape %s",
                  FAC_SHAPE_TEXT(tensors.v[i]));
    FAC_CHECK(tensors.n > 0, FAC_ERR_ARGUMENT, "cartesian_prod expects a non-empty TensorList");
    if (tensors.n == 1) return fac__c_alias(tensors.v[0], out);
    FAC_SCOPE(s);
    fac_tensors grids = fac__s_meshgrid(tensors);
    if (grids.n != tensors.n) return fac_error();
    fac_tensor *stacked = fac__s_stack(grids, -1);
    return fac__give(out, fac__s_reshape(stacked, FAC_INTS(-1, (int64_t)tensors.n)));
}

/* The dimension that hsplit (0), vsplit (1) and dsplit (2) cut, which must divide into `sections` if that is not 0. */
static fac_status check_split(const fac_tensor *self, int need, int64_t dim, const int64_t *sections) {
    FAC_CHECK(self->ndim >= need, FAC_ERR_SHAPE,
              "expected a tensor with at least %d dimension%s, but got a tensor with %d dimensions", need,
              need > 1 ? "s" : "", self->ndim);
    FAC_CHECK(!sections || (*sections > 0 && self->sizes[dim] % *sections == 0), FAC_ERR_SHAPE,
              "dimension %lld has the size %lld, which is not divisible by the split_size %lld", (long long)dim,
              (long long)self->sizes[dim], (long long)*sections);
    return FAC_OK;
}

#define SPLIT(name, need, dim)                                                                    \
    fac_status name##_int_composite(const fac_call_info *c, fac_tensor *self, int64_t sections,   \
                                    fac_tensor_list *out) {                                       \
        (void)c;                                                                                  \
        FAC_TRY(check_split(self, need, dim, &sections));                                         \
        return fac__c_tensor_split_sections(self, sections, dim, out);                            \
    }                                                                                             \
    fac_status name##_array_composite(const fac_call_info *c, fac_tensor *self, fac_ints indices, \
                                      fac_tensor_list *out) {                                     \
        (void)c;                                                                                  \
        FAC_TRY(check_split(self, need, dim, NULL));                                              \
        return fac__c_tensor_split_indices(self, indices, dim, out);                              \
    }
SPLIT(hsplit, 1, self->ndim == 1 ? 0 : 1)
SPLIT(vsplit, 2, 0)
SPLIT(dsplit, 3, 2)

/* ---- pixels ---------------------------------------------------------------------------------------------------------------- */

/* Reshapes to lead + five or so sizes, permutes the last ones, reshapes to lead + three. `lead` dimensions stay. */
static fac_tensor *rearranged(fac_tensor *self, const int64_t *split, const int64_t *order, const int64_t *joined) {
    int64_t sizes[FAC_MAX_DIMS], dims[FAC_MAX_DIMS], final[FAC_MAX_DIMS];
    size_t lead = (size_t)self->ndim - 3;
    for (size_t d = 0; d < lead; d++) sizes[d] = final[d] = self->sizes[d], dims[d] = (int64_t)d;
    for (size_t d = 0; d < 5; d++) sizes[lead + d] = split[d], dims[lead + d] = (int64_t)lead + order[d];
    memcpy(final + lead, joined, 3 * sizeof *final);
    fac_tensor *t = fac__s_reshape(self, (fac_ints){sizes, lead + 5});
    t = fac__s_clone(fac__s_permute(t, (fac_ints){dims, lead + 5}), FAC_CONTIGUOUS);
    return fac__s_reshape(t, (fac_ints){final, lead + 3});
}

/* The same for images whose channels are innermost, and stay so: `order` is of all six sizes, `joined` has the channels last. */
static fac_tensor *rearranged_points(fac_tensor *self, const int64_t *split, fac_ints order, const int64_t *joined) {
    const int64_t n = self->sizes[0];
    fac_tensor *t = fac__s_reshape(self, FAC_INTS(n, split[0], split[1], split[2], split[3], split[4]));
    t = fac__s_clone(fac__s_permute(t, order), FAC_CONTIGUOUS);
    t = fac__s_reshape(t, FAC_INTS(n, joined[1], joined[2], joined[0]));
    return fac__s_permute(t, FAC_INTS(0, 3, 1, 2));
}

static fac_status check_pixels(const fac_tensor *self, int64_t factor) {
    FAC_CHECK(self->ndim >= 3 && self->ndim + 2 <= FAC_MAX_DIMS, FAC_ERR_SHAPE,
              "expected input to have at least 3 dimensions, but got input with %d dimension(s)", self->ndim);
    FAC_CHECK(factor > 0 && factor < (1 << 15), FAC_ERR_ARGUMENT, "expected a positive factor, but got %lld",
              (long long)factor);
    return FAC_OK;
}

/* [*, c r r, h, w] -> [*, c, h r, w r]. */
fac_status pixel_shuffle_composite(const fac_call_info *c, fac_tensor *self, int64_t r, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_pixels(self, r));
    const int64_t *last = self->sizes + self->ndim - 3;
    FAC_CHECK(
        last[0] % (r * r) == 0, FAC_ERR_SHAPE,
        "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
        "input.size(-3)=%lld is not divisible by %lld",
        (long long)last[0], (long long)(r * r));
    FAC_SCOPE(s);
    int64_t channels = last[0] / (r * r), h, w;
    FAC_CHECK(fac__mul(last[1], r, &h) && fac__mul(last[2], r, &w), FAC_ERR_OVERFLOW,
              "%lld times the sizes of %s does not fit", (long long)r, FAC_SHAPE_TEXT(self));
    int64_t split[] = {channels, r, r, last[1], last[2]}, joined[] = {channels, h, w};
    if (fac__is_channels_last(fac__format_of(self)) && self->ndim == 4)
        return fac__give(out, rearranged_points(self, split, FAC_INTS(0, 4, 2, 5, 3, 1), joined));
    return fac__give(out, rearranged(self, split, (int64_t[]){0, 3, 1, 4, 2}, joined));
}

/* [*, c, h r, w r] -> [*, c r r, h, w]. */
fac_status pixel_unshuffle_composite(const fac_call_info *c, fac_tensor *self, int64_t r, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_pixels(self, r));
    const int64_t *last = self->sizes + self->ndim - 3;
    FAC_CHECK(
        last[1] % r == 0 && last[2] % r == 0, FAC_ERR_SHAPE,
        "pixel_unshuffle expects height and width to be divisible by downscale_factor, but got %lld by %lld and %lld",
        (long long)last[1], (long long)last[2], (long long)r);
    FAC_SCOPE(s);
    int64_t channels, h = last[1] / r, w = last[2] / r;
    FAC_CHECK(fac__mul(last[0], r * r, &channels), FAC_ERR_OVERFLOW,
              "the square of %lld times the channels of %s does not fit", (long long)r, FAC_SHAPE_TEXT(self));
    int64_t split[] = {last[0], h, r, w, r}, joined[] = {channels, h, w};
    if (fac__is_channels_last(fac__format_of(self)) && self->ndim == 4)
        return fac__give(out, rearranged_points(self, split, FAC_INTS(0, 2, 4, 1, 3, 5), joined));
    return fac__give(out, rearranged(self, split, (int64_t[]){0, 2, 4, 1, 3}, joined));
}

/* ---- spectra ------------------------------------------------------------------------------------------------------------------ */

/* Rolls each dimension by half its size, rounded up or down. */
static fac_status shift(fac_tensor *self, fac_ints dim, bool up, fac_tensor **out) {
    int64_t shifts[FAC_MAX_DIMS], dims[FAC_MAX_DIMS];
    size_t n = dim.v ? dim.n : (size_t)self->ndim;
    FAC_CHECK(n <= FAC_MAX_DIMS, FAC_ERR_ARGUMENT, "%zu dimensions are more than a tensor has", n);
    for (size_t i = 0; i < n; i++) {
        FAC_TRY(fac__wrap_dim(dim.v ? dim.v[i] : (int64_t)i, self->ndim, &dims[i]));
        const int64_t size = self->ndim ? self->sizes[dims[i]] : 1;
        shifts[i] = size / 2 + (up ? size % 2 : 0);
    }
    if (n == 0) return fac__c_clone(self, FAC_CONTIGUOUS, out);
    return fac__c_roll(self, (fac_ints){shifts, n}, (fac_ints){dims, n}, out);
}

fac_status fft_fftshift_composite(const fac_call_info *c, fac_tensor *self, fac_ints dim, fac_tensor **out) {
    (void)c;
    return shift(self, dim, false, out);
}

fac_status fft_ifftshift_composite(const fac_call_info *c, fac_tensor *self, fac_ints dim, fac_tensor **out) {
    (void)c;
    return shift(self, dim, true, out);
}
