/* Borders: constant padding as fill of the borders and copy, circular padding as cat, and the choice of a mode. */
#include "core/tensor_make.h"
#include "ops/composite/below.h"
#include "ops/composite/view.h"
#include "ops/format.h"
#include "ops_gen.h"

/* pad lists (before, after) from the last dimension on. */
static int64_t pad_before(fac_ints pad, int ndim, int d) {
    return ndim - 1 - d < (int64_t)pad.n / 2 ? pad.v[2 * (ndim - 1 - d)] : 0;
}
static int64_t pad_after(fac_ints pad, int ndim, int d) {
    return ndim - 1 - d < (int64_t)pad.n / 2 ? pad.v[2 * (ndim - 1 - d) + 1] : 0;
}

static fac_status check_pad(const fac_tensor *self, fac_ints pad) {
    FAC_CHECK(pad.n % 2 == 0, FAC_ERR_ARGUMENT, "Length of pad must be even but instead it equals %zu", pad.n);
    FAC_CHECK(
        pad.n / 2 <= self->ndim, FAC_ERR_ARGUMENT,
        "Length of pad should be no more than twice the number of dimensions of the input. Pad length is %zu while the input has %d "
        "dimensions.",
        pad.n, self->ndim);
    return FAC_OK;
}

/* ---- constant ------------------------------------------------------------------------------------------------------------ */

static fac_status padded_sizes(const fac_tensor *self, fac_ints pad, int64_t *sizes) {
    for (int d = 0; d < self->ndim; d++) {
        int64_t before = pad_before(pad, self->ndim, d), after = pad_after(pad, self->ndim, d);
        FAC_CHECK(fac__add(self->sizes[d], before, &sizes[d]) && fac__add(sizes[d], after, &sizes[d]), FAC_ERR_OVERFLOW,
                  "size %lld padded by %lld and %lld does not fit 64 bits", (long long)self->sizes[d],
                  (long long)before, (long long)after);
        FAC_CHECK(
            sizes[d] >= 0 && before >= -self->sizes[d] && after >= -self->sizes[d], FAC_ERR_SHAPE,
            "The input size %lld, plus negative padding %lld and %lld, resulted in a negative output size, which is invalid. Check "
            "dimension %d of your input.",
            (long long)self->sizes[d], (long long)before, (long long)after, d);
    }
    return FAC_OK;
}

/* The part of t that is neither border nor cut off: from max(side * before, 0), along each dimension. Takes t's reference. */
static fac_status inner_part(fac_tensor *t, fac_ints pad, int sign, fac_tensor **out) {
    for (int d = 0; d < t->ndim; d++) {
        int64_t before = fac__max(0, sign * pad_before(pad, t->ndim, d)),
                after = fac__max(0, sign * pad_after(pad, t->ndim, d));
        fac_tensor *part;
        fac_status st = fac__narrow_view(t, d, before, fac__max(0, t->sizes[d] - before - after), &part);
        fac__unref(t);
        if (st != FAC_OK) return st;
        t = part;
    }
    *out = t;
    return FAC_OK;
}

/* One side of the border along dimension d. */
static fac_status fill_side(fac_tensor *t, int d, int64_t start, int64_t n, fac_scalar value) {
    fac_tensor *side;
    if (n <= 0) return FAC_OK;
    FAC_TRY(fac__narrow_view(t, d, start, n, &side));
    fac_status st = fac__fill_below(side, value);
    fac__unref(side);
    return st;
}

/* Fills what is not `inner`, or everything where that is most of it or a device is called for each part. */
static fac_status fill_border(fac_tensor *t, const fac_tensor *inner, fac_ints pad, fac_scalar value) {
    if (t->device.type != FAC_CPU || inner->numel == 0 || inner->numel < t->numel / 2) return fac__fill_below(t, value);
    for (int d = 0; d < t->ndim; d++) {
        const int64_t after = fac__max(0, pad_after(pad, t->ndim, d));
        FAC_TRY(fill_side(t, d, 0, pad_before(pad, t->ndim, d), value));
        FAC_TRY(fill_side(t, d, t->sizes[d] - after, after, value));
    }
    return FAC_OK;
}

fac_status constant_pad_nd_explicit(const fac_call_info *c, fac_tensor *self, fac_ints pad, fac_scalar value,
                                    fac_tensor **out) {
    (void)c;
    int64_t sizes[FAC_MAX_DIMS];
    fac_tensor *t, *to = NULL, *from = NULL;
    FAC_TRY(check_pad(self, pad));
    FAC_TRY(padded_sizes(self, pad, sizes));
    FAC_TRY(fac__empty_format(sizes, self->ndim, (fac_dtype)self->dtype, self->device, fac__format_of(self), &t));
    fac_status st = inner_part(fac__ref(t), pad, 1, &to);
    if (st == FAC_OK) st = fill_border(t, to, pad, value);
    if (st == FAC_OK) st = inner_part(fac__ref(self), pad, -1, &from);
    if (st == FAC_OK && to->numel) st = fac__copy_below(to, from);
    fac__unref(to);
    fac__unref(from);
    if (st != FAC_OK)
        fac__unref(t);
    else
        *out = t;
    return st;
}

/* ---- circular -------------------------------------------------------------------------------------------------------------- */

/* Wraps one dimension: negative counts cut first; then the end goes before what is left, and its start after it. */
static fac_tensor *wrap_one(fac_tensor *x, int d, int64_t before, int64_t after) {
    int64_t cut_before = fac__max(0, -before), cut_after = fac__max(0, -after);
    fac_tensor *parts[3];
    size_t n = 0;
    if (cut_before || cut_after) x = fac__s_narrow(x, d, cut_before, fac__max(0, x->sizes[d] - cut_before - cut_after));
    if (!x) return NULL;
    if (before > 0) parts[n++] = fac__s_narrow(x, d, x->sizes[d] - before, before);
    parts[n++] = x;
    if (after > 0) parts[n++] = fac__s_narrow(x, d, 0, after);
    return n == 1 ? x : fac__s_cat((fac_tensors){parts, n}, d);
}

static fac_status pad_circular(fac_tensor *self, fac_ints pad, fac_tensor **out) {
    FAC_SCOPE(s);
    fac_tensor *x = self;
    for (int d = self->ndim - 1; d >= self->ndim - (int)(pad.n / 2); d--) {
        int64_t before = pad_before(pad, self->ndim, d), after = pad_after(pad, self->ndim, d), size = self->sizes[d];
        int64_t padded;
        FAC_CHECK(before <= size && after <= size, FAC_ERR_SHAPE,
                  "Padding value causes wrapping around more than once.");
        FAC_CHECK(fac__add(size, before, &padded) && fac__add(padded, after, &padded), FAC_ERR_OVERFLOW,
                  "a size of %lld padded by %lld and %lld is beyond 64 bits", (long long)size, (long long)before,
                  (long long)after);
        FAC_CHECK(before > -size - 1 && after > -size - 1 && padded >= 0, FAC_ERR_SHAPE,
                  "Negative padding value is resulting in an empty dimension.");
        if (!(x = wrap_one(x, d, before, after))) return fac_error();
    }
    return fac__give(out, x == self ? fac__s_clone(self, FAC_CONTIGUOUS) : x);
}

/* ---- modes -------------------------------------------------------------------------------------------------------------------- */

static fac_status pad_mirror(fac_tensor *self, fac_ints pad, bool reflect, fac_tensor **out) {
    int64_t n = (int64_t)pad.n / 2;
    if (n == 1) return reflect ? fac__c_reflection_pad1d(self, pad, out) : fac__c_replication_pad1d(self, pad, out);
    if (n == 2) return reflect ? fac__c_reflection_pad2d(self, pad, out) : fac__c_replication_pad2d(self, pad, out);
    return reflect ? fac__c_reflection_pad3d(self, pad, out) : fac__c_replication_pad3d(self, pad, out);
}

fac_status pad_composite(const fac_call_info *c, fac_tensor *self, fac_ints pad, const char *mode, fac_opt_num value,
                         fac_tensor **out) {
    (void)c;
    FAC_TRY(check_pad(self, pad));
    if (strcmp(mode, "constant") == 0)
        return fac__c_constant_pad_nd(self, pad, value.set ? value.v : fac_scalar_f_(0), out);
    FAC_CHECK(!value.set || fac__scalar_is(value.v, 0), FAC_ERR_ARGUMENT,
              "Padding mode \"%s\" doesn't take in value argument", mode);
    bool reflect = strcmp(mode, "reflect") == 0, circular = strcmp(mode, "circular") == 0;
    FAC_CHECK(reflect || circular || strcmp(mode, "replicate") == 0, FAC_ERR_ARGUMENT,
              "Unrecognised padding mode %s; it should be constant, reflect, replicate or circular", mode);
    size_t n = pad.n / 2;
    FAC_CHECK(
        n >= 1 && n <= 3 && (self->ndim == n + 1 || self->ndim == n + 2), FAC_ERR_UNSUPPORTED,
        "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now: %zu dimensions of a tensor with %d",
        n, self->ndim);
    return circular ? pad_circular(self, pad, out) : pad_mirror(self, pad, reflect, out);
}

fac_status _pad_circular_composite(const fac_call_info *c, fac_tensor *self, fac_ints pad, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_pad(self, pad));
    return pad_circular(self, pad, out);
}

fac_status _pad_enum_composite(const fac_call_info *c, fac_tensor *self, fac_ints pad, int64_t mode, fac_opt_num value,
                               fac_tensor **out) {
    static const char *const modes[] = {"reflect", "replicate", "circular", "constant"};
    FAC_CHECK(mode >= 0 && mode < (int64_t)FAC_COUNT(modes), FAC_ERR_ARGUMENT,
              "Unrecognised padding mode %lld; it should be 0 to 3", (long long)mode);
    return pad_composite(c, self, pad, modes[mode], value, out);
}
