/* Fourier transforms as torch.fft has them: promotion, sizes, norms and dimensions around _fft_c2c, _fft_r2c and _fft_c2r. */
#include "ops/composite/brief.h"

typedef enum { NONE, BY_ROOT_N, BY_N } normalization;

/* ---- arguments ------------------------------------------------------------------------------------------------------------ */

static fac_status norm_of(const char *norm, bool forward, int64_t *out) {
    if (!norm || strcmp(norm, "backward") == 0)
        *out = forward ? NONE : BY_N;
    else if (strcmp(norm, "forward") == 0)
        *out = forward ? BY_N : NONE;
    else if (strcmp(norm, "ortho") == 0)
        *out = BY_ROOT_N;
    else
        return FAC_FAIL(FAC_ERR_ARGUMENT, "Invalid normalization mode: \"%s\"; expected backward, forward or ortho",
                        norm);
    return FAC_OK;
}

static fac_dtype complex_of(fac_dtype d) { return d == FAC_F64 ? FAC_C128 : d == FAC_F32 ? FAC_C64 : d; }

/* Integers as the default dtype, and real numbers as complex ones if those are needed. */
static fac_status promoted(fac_tensor *t, bool complex, fac_tensor **out) {
    const fac_dtype given = (fac_dtype)t->dtype, real = is_integral(t) ? fac_default_dtype() : given;
    FAC_CHECK(!fac__is_half(real), FAC_ERR_DTYPE, "Unsupported dtype %s: Fourier transforms are of float32 and float64",
              fac_dtype_name(real));
    const fac_dtype dtype = complex ? complex_of(real) : real;
    *out = dtype == given ? t : cast(t, dtype);
    return *out ? FAC_OK : fac_error();
}

static fac_status need_real(const char *name, const fac_tensor *t) {
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)t->dtype), FAC_ERR_DTYPE, "%s expects a real input tensor, but got %s",
              name, fac_dtype_name((fac_dtype)t->dtype));
    return FAC_OK;
}

static fac_status wrap(int64_t dim, const fac_tensor *t, int64_t *out) {
    FAC_CHECK(t->ndim > 0, FAC_ERR_INDEX, "Dimension specified as %lld but tensor has no dimensions", (long long)dim);
    return fac__wrap_dim(dim, t->ndim, out);
}

/* How many points a transform to real numbers has, from `have` complex ones. */
static fac_status points_of(int64_t have, int64_t *out) {
    FAC_CHECK(fac__mul(2, have - 1, out), FAC_ERR_OVERFLOW,
              "%lld complex numbers are too many to be half of a transform", (long long)have);
    return FAC_OK;
}

static fac_status need_points(int64_t n) {
    FAC_CHECK(n >= 1, FAC_ERR_ARGUMENT, "Invalid number of data points (%lld) specified", (long long)n);
    return FAC_OK;
}

/* Dimension d of t cut to n elements, or with zeros behind. */
static fac_status resized(fac_tensor *t, int64_t d, int64_t n, fac_tensor **out) {
    int64_t pad[2 * FAC_MAX_DIMS] = {0};
    const int64_t behind = t->ndim - 1 - d;
    *out = t;
    if (n < t->sizes[d]) *out = fac__s_narrow(t, d, 0, n);
    if (n > t->sizes[d]) {
        pad[2 * behind + 1] = n - t->sizes[d];
        *out = fac__s_constant_pad_nd(t, (fac_ints){pad, 2 * (size_t)behind + 2}, fac_scalar_i_(0));
    }
    return *out ? FAC_OK : fac_error();
}

/* ---- one dimension --------------------------------------------------------------------------------------------------------- */

/* What the transforms of one dimension are given. */
typedef struct line {
    fac_tensor *self;
    fac_opt_int n;
    int64_t dim, points, norm;
} line;

/* The dimension wrapped, and self with n elements of it; complex or not. */
static fac_status prepare(line *l, bool complex, bool forward, const char *norm) {
    FAC_TRY(norm_of(norm, forward, &l->norm));
    FAC_TRY(promoted(l->self, complex, &l->self));
    FAC_TRY(wrap(l->dim, l->self, &l->dim));
    l->points = l->n.set ? l->n.v : l->self->sizes[l->dim];
    FAC_TRY(need_points(l->points));
    return resized(l->self, l->dim, l->points, &l->self);
}

static fac_status from_real(line l, bool forward, bool onesided, const char *norm, fac_tensor **out) {
    FAC_TRY(prepare(&l, false, forward, norm));
    fac_tensor *t = fac__s__fft_r2c(l.self, (fac_ints){&l.dim, 1}, l.norm, onesided);
    return fac__give(out, forward ? t : fac__s_conj(t));
}

static fac_status any_to_complex(line l, bool forward, const char *norm, fac_tensor **out) {
    FAC_SCOPE(s);
    if (!fac_dtype_is_complex((fac_dtype)l.self->dtype)) return from_real(l, forward, false, norm, out);
    FAC_TRY(prepare(&l, true, forward, norm));
    return fac__give(out, fac__s__fft_c2c(l.self, (fac_ints){&l.dim, 1}, l.norm, forward));
}

static fac_status half_of_real(const char *name, line l, bool forward, const char *norm, fac_tensor **out) {
    FAC_SCOPE(s);
    FAC_TRY(need_real(name, l.self));
    return from_real(l, forward, true, norm, out);
}

/* A forward transform is the inverse one of the conjugate. */
static fac_status to_real(line l, bool forward, const char *norm, fac_tensor **out) {
    FAC_SCOPE(s);
    FAC_TRY(norm_of(norm, forward, &l.norm));
    FAC_TRY(promoted(l.self, true, &l.self));
    FAC_TRY(wrap(l.dim, l.self, &l.dim));
    if (l.n.set)
        l.points = l.n.v;
    else
        FAC_TRY(points_of(l.self->sizes[l.dim], &l.points));
    FAC_TRY(need_points(l.points));
    FAC_TRY(resized(l.self, l.dim, l.points / 2 + 1, &l.self));
    fac_tensor *t = forward ? fac__s_conj(l.self) : l.self;
    return fac__give(out, fac__s__fft_c2r(t, (fac_ints){&l.dim, 1}, l.norm, l.points));
}

#define OF_LINE(name, call)                                                                                 \
    fac_status fft_##name##_composite(const fac_call_info *c, fac_tensor *self, fac_opt_int n, int64_t dim, \
                                      const char *norm, fac_tensor **out) {                                 \
        (void)c;                                                                                            \
        const line l = {.self = self, .n = n, .dim = dim};                                                  \
        return call;                                                                                        \
    }
OF_LINE(fft, any_to_complex(l, true, norm, out))
OF_LINE(ifft, any_to_complex(l, false, norm, out))
OF_LINE(rfft, half_of_real("rfft", l, true, norm, out))
OF_LINE(ihfft, half_of_real("ihfft", l, false, norm, out))
OF_LINE(irfft, to_real(l, false, norm, out))
OF_LINE(hfft, to_real(l, true, norm, out))

/* ---- several dimensions ------------------------------------------------------------------------------------------------------ */

typedef struct box {
    int64_t dims[FAC_MAX_DIMS], sizes[FAC_MAX_DIMS];
    size_t n;
    int64_t last_points; /* of the last dimension, before it was halved */
} box;

static fac_status set_dims(box *b, const fac_tensor *t, fac_ints s, fac_ints dim) {
    FAC_CHECK(!s.v || !dim.v || s.n == dim.n, FAC_ERR_ARGUMENT,
              "When given, dim and shape arguments must have the same length");
    FAC_CHECK(!s.v || s.n <= t->ndim, FAC_ERR_ARGUMENT,
              "Got shape with %zu values but input tensor only has %d dimensions.", s.n, t->ndim);
    FAC_CHECK(!dim.v || dim.n <= t->ndim, FAC_ERR_ARGUMENT, "FFT dims must be unique");
    b->n = dim.v ? dim.n : s.v ? s.n : t->ndim;
    uint64_t seen = 0;
    for (size_t i = 0; i < b->n; i++) {
        FAC_TRY(wrap(dim.v ? dim.v[i] : (int64_t)(t->ndim - b->n + i), t, &b->dims[i]));
        FAC_CHECK(!(seen >> b->dims[i] & 1), FAC_ERR_ARGUMENT, "FFT dims must be unique");
        seen |= UINT64_C(1) << b->dims[i];
    }
    return FAC_OK;
}

/* Which dimensions, and their sizes; of a box that is `halved`, the last holds n / 2 + 1 of n points. */
static fac_status set_box(box *b, const fac_tensor *t, fac_ints s, fac_ints dim, bool halved) {
    FAC_TRY(set_dims(b, t, s, dim));
    for (size_t i = 0; i < b->n; i++) {
        const int64_t have = t->sizes[b->dims[i]], wanted = s.v ? s.v[i] : -1;
        const bool last = halved && i == b->n - 1;
        int64_t points = wanted != -1 ? wanted : have;
        if (wanted == -1 && last) FAC_TRY(points_of(have, &points));
        FAC_TRY(need_points(points));
        b->sizes[i] = last ? points / 2 + 1 : points;
        b->last_points = points;
    }
    return FAC_OK;
}
static fac_status need_box(const char *name, const box *b) {
    FAC_CHECK(b->n > 0, FAC_ERR_ARGUMENT, "%s must transform at least one axis", name);
    return FAC_OK;
}
static fac_status fit(fac_tensor **t, const box *b) {
    for (size_t i = 0; i < b->n; i++) FAC_TRY(resized(*t, b->dims[i], b->sizes[i], t));
    return FAC_OK;
}
static fac_ints dims_of(const box *b) { return (fac_ints){b->dims, b->n}; }
static fac_ints last_of(const box *b) { return (fac_ints){b->dims + b->n - 1, 1}; }
static fac_ints others_of(const box *b) { return (fac_ints){b->dims, b->n - 1}; }

static fac_status complex_box(fac_tensor *self, fac_ints s, fac_ints dim, const char *norm, bool forward,
                              fac_tensor **out) {
    FAC_SCOPE(scope);
    box b;
    int64_t by;
    FAC_TRY(norm_of(norm, forward, &by));
    FAC_TRY(set_box(&b, self, s, dim, false));
    FAC_TRY(promoted(self, true, &self));
    FAC_TRY(fit(&self, &b));
    return fac__give(out, fac__s__fft_c2c(self, dims_of(&b), by, forward));
}

static fac_status real_box(const char *name, fac_tensor *self, fac_ints s, fac_ints dim, const char *norm, bool forward,
                           fac_tensor **out) {
    FAC_SCOPE(scope);
    box b;
    int64_t by;
    FAC_TRY(need_real(name, self));
    FAC_TRY(norm_of(norm, forward, &by));
    FAC_TRY(set_box(&b, self, s, dim, false));
    FAC_TRY(need_box(name, &b));
    FAC_TRY(promoted(self, false, &self));
    FAC_TRY(fit(&self, &b));
    if (forward) return fac__give(out, fac__s__fft_r2c(self, dims_of(&b), by, true));
    fac_tensor *t = fac__s_conj(fac__s__fft_r2c(self, last_of(&b), by, true));
    return fac__give(out, b.n > 1 ? fac__s__fft_c2c(t, others_of(&b), by, false) : t);
}

static fac_status box_to_real(const char *name, fac_tensor *self, fac_ints s, fac_ints dim, const char *norm,
                              bool forward, fac_tensor **out) {
    FAC_SCOPE(scope);
    box b;
    int64_t by;
    FAC_TRY(norm_of(norm, forward, &by));
    FAC_TRY(set_box(&b, self, s, dim, true));
    FAC_TRY(need_box(name, &b));
    FAC_TRY(promoted(self, true, &self));
    FAC_TRY(fit(&self, &b));
    if (!forward) return fac__give(out, fac__s__fft_c2r(self, dims_of(&b), by, b.last_points));
    fac_tensor *t = b.n > 1 ? fac__s__fft_c2c(self, others_of(&b), by, true) : self;
    return fac__give(out, fac__s__fft_c2r(fac__s_conj(t), last_of(&b), by, b.last_points));
}

#define OF_BOX(name, call)                                                                                \
    fac_status fft_##name##_composite(const fac_call_info *c, fac_tensor *self, fac_ints s, fac_ints dim, \
                                      const char *norm, fac_tensor **out) {                               \
        (void)c;                                                                                          \
        return call;                                                                                      \
    }
OF_BOX(fft2, complex_box(self, s, dim, norm, true, out))
OF_BOX(fftn, complex_box(self, s, dim, norm, true, out))
OF_BOX(ifft2, complex_box(self, s, dim, norm, false, out))
OF_BOX(ifftn, complex_box(self, s, dim, norm, false, out))
OF_BOX(rfft2, real_box("rfft2", self, s, dim, norm, true, out))
OF_BOX(rfftn, real_box("rfftn", self, s, dim, norm, true, out))
OF_BOX(ihfft2, real_box("ihfft2", self, s, dim, norm, false, out))
OF_BOX(ihfftn, real_box("ihfftn", self, s, dim, norm, false, out))
OF_BOX(irfft2, box_to_real("irfft2", self, s, dim, norm, false, out))
OF_BOX(irfftn, box_to_real("irfftn", self, s, dim, norm, false, out))
OF_BOX(hfft2, box_to_real("hfft2", self, s, dim, norm, true, out))
OF_BOX(hfftn, box_to_real("hfftn", self, s, dim, norm, true, out))
