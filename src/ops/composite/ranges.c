/* Factories of numbered contents: arange, range, linspace, logspace, and the indices of triangles. */
#include "core/tensor_make.h"
#include "ops/composite/below.h"
#include "ops/composite/factory.h"
#include "ops_gen.h"
#include <math.h>

static bool is_whole(fac_scalar s) { return s.kind == FAC_KIND_INT || s.kind == FAC_KIND_BOOL; }

/* ---- arange ------------------------------------------------------------------------------------------------------------ */

/* Number of elements of an integral range, exactly. */
static fac_status whole_count(int64_t start, int64_t end, int64_t step, int64_t *out) {
    FAC_CHECK(step != 0, FAC_ERR_ARGUMENT, "step must be nonzero");
    FAC_CHECK(step > 0 ? end >= start : end <= start, FAC_ERR_ARGUMENT,
              "upper bound and larger bound inconsistent with step sign");
    __int128 span = (__int128)end - start, width = step;
    if (width < 0) span = -span, width = -width;
    __int128 n = (span + width - 1) / width;
    FAC_CHECK(n <= INT64_MAX, FAC_ERR_OVERFLOW,
              "invalid size, possible overflow: the range has more than 2^63 elements");
    *out = (int64_t)n;
    return FAC_OK;
}

static fac_status real_count(double start, double end, double step, int64_t *out) {
    FAC_CHECK(isfinite(step), FAC_ERR_ARGUMENT, "step must be finite but got %g", step);
    FAC_CHECK(step != 0, FAC_ERR_ARGUMENT, "step must be nonzero");
    FAC_CHECK(isfinite(start) && isfinite(end), FAC_ERR_ARGUMENT, "unsupported range: %g -> %g", start, end);
    FAC_CHECK(step > 0 ? end >= start : end <= start, FAC_ERR_ARGUMENT,
              "upper bound and larger bound inconsistent with step sign");
    double n = ceil((end - start) / step);
    FAC_CHECK(n >= 0 && n < 0x1p63, FAC_ERR_OVERFLOW, "invalid size, possible overflow: the range has %g elements", n);
    *out = (int64_t)n;
    return FAC_OK;
}

/* n numbers from start on by a step. */
static fac_status numbered(const fac_factory *f, int64_t n, fac_scalar start, fac_scalar step, fac_tensor **out) {
    fac_tensor *t = NULL, *same = NULL;
    FAC_TRY(fac__factory_empty(f, FAC_INTS(n), FAC_CONTIGUOUS, &t));
    fac_status st = fac__redispatch__arange_(fac__dense_keys(t), t, start, step, &same);
    fac__unref(st == FAC_OK ? same : t);
    if (st == FAC_OK) *out = t;
    return st;
}

/* The count is of the range as given; an integral range then starts and steps by whole numbers, without fractions. */
static fac_status arange(fac_factory f, fac_scalar start, fac_scalar end, fac_scalar step, fac_tensor **out) {
    FAC_CHECK(start.kind != FAC_KIND_COMPLEX && end.kind != FAC_KIND_COMPLEX && step.kind != FAC_KIND_COMPLEX,
              FAC_ERR_DTYPE, "a range has real bounds and a real step");
    bool whole = is_whole(start) && is_whole(end) && is_whole(step);
    FAC_TRY(fac__factory_resolve(&f, whole ? FAC_I64 : fac_default_dtype()));
    int64_t n;
    if (whole)
        FAC_TRY(whole_count(fac__scalar_i64(start), fac__scalar_i64(end), fac__scalar_i64(step), &n));
    else
        FAC_TRY(real_count(fac__scalar_f64(start), fac__scalar_f64(end), fac__scalar_f64(step), &n));
    if (fac_dtype_is_integral(f.dtype, false)) FAC_TRY(fac__check_number(FAC_I64, step));
    return numbered(&f, n, start, step, out);
}

fac_status arange_explicit(const fac_call_info *c, fac_scalar end, fac_dtype dtype, fac_layout layout,
                           fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return arange(FACTORY(dtype, layout, device, pin_memory), fac_scalar_i_(0), end, fac_scalar_i_(1), out);
}

fac_status arange_start_explicit(const fac_call_info *c, fac_scalar start, fac_scalar end, fac_dtype dtype,
                                 fac_layout layout, fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return arange(FACTORY(dtype, layout, device, pin_memory), start, end, fac_scalar_i_(1), out);
}

fac_status arange_start_step_explicit(const fac_call_info *c, fac_scalar start, fac_scalar end, fac_scalar step,
                                      fac_dtype dtype, fac_layout layout, fac_device device, fac_opt_num pin_memory,
                                      fac_tensor **out) {
    (void)c;
    return arange(FACTORY(dtype, layout, device, pin_memory), start, end, step, out);
}

/* Number of elements of a range that holds its end. */
static fac_status closed_count(fac_scalar start, fac_scalar end, fac_scalar step, int64_t *out) {
    const double from = fac__scalar_f64(start), to = fac__scalar_f64(end), by = fac__scalar_f64(step);
    if (is_whole(start) && is_whole(end) && is_whole(step)) {
        FAC_TRY(whole_count(fac__scalar_i64(start), fac__scalar_i64(end), fac__scalar_i64(step), out));
        const __int128 span = (__int128)fac__scalar_i64(end) - fac__scalar_i64(start); /* a step may meet the end */
        const bool met = span % fac__scalar_i64(step) == 0;
        FAC_CHECK(!met || fac__add(*out, 1, out), FAC_ERR_OVERFLOW, "the range has more than 2^63 elements");
        return FAC_OK;
    }
    FAC_TRY(real_count(from, to, by, out));
    *out = (int64_t)floor((to - from) / by) + 1;
    return FAC_OK;
}

/* Without its fraction; of what is beyond int64 there is no number. */
static fac_status whole_part(fac_scalar *s) {
    FAC_TRY(fac__check_number(FAC_I64, *s));
    *s = fac_scalar_i_(fac__scalar_i64(*s));
    return FAC_OK;
}

/* A range of an integral dtype is that of the bounds and the step without their fractions. */
static fac_status range(fac_factory f, fac_scalar start, fac_scalar end, fac_scalar step, fac_tensor **out) {
    FAC_CHECK(start.kind != FAC_KIND_COMPLEX && end.kind != FAC_KIND_COMPLEX && step.kind != FAC_KIND_COMPLEX,
              FAC_ERR_DTYPE, "a range has real bounds and a real step");
    int64_t n;
    FAC_TRY(fac__factory_resolve(&f, fac_default_dtype()));
    FAC_TRY(closed_count(start, end, step, &n));
    if (fac_dtype_is_integral(f.dtype, false)) {
        FAC_TRY(whole_part(&start));
        FAC_TRY(whole_part(&end));
        FAC_TRY(whole_part(&step));
        FAC_TRY(closed_count(start, end, step, &n));
    }
    return numbered(&f, n, start, step, out);
}

fac_status range_explicit(const fac_call_info *c, fac_scalar start, fac_scalar end, fac_dtype dtype, fac_layout layout,
                          fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return range(FACTORY(dtype, layout, device, pin_memory), start, end, fac_scalar_i_(1), out);
}

fac_status range_step_explicit(const fac_call_info *c, fac_scalar start, fac_scalar end, fac_scalar step,
                               fac_dtype dtype, fac_layout layout, fac_device device, fac_opt_num pin_memory,
                               fac_tensor **out) {
    (void)c;
    return range(FACTORY(dtype, layout, device, pin_memory), start, end, step, out);
}

/* ---- linspace -------------------------------------------------------------------------------------------------------------- */

static fac_status linspace(fac_factory f, fac_scalar start, fac_scalar end, int64_t steps, fac_opt_num base,
                           fac_tensor **out) {
    FAC_CHECK(steps >= 0, FAC_ERR_ARGUMENT, "number of steps must be non-negative, got %lld", (long long)steps);
    FAC_CHECK(start.kind != FAC_KIND_COMPLEX && end.kind != FAC_KIND_COMPLEX, FAC_ERR_DTYPE,
              "start and end must be real numbers");
    FAC_TRY(fac__factory_resolve(&f, fac_default_dtype()));
    FAC_TRY(fac__check_number(f.dtype, start));
    FAC_TRY(fac__check_number(f.dtype, end));
    fac_tensor *t = NULL, *same = NULL;
    FAC_TRY(fac__factory_empty(&f, FAC_INTS(steps), FAC_CONTIGUOUS, &t));
    fac_status st = fac__redispatch__linspace_(fac__dense_keys(t), t, start, end, base, &same);
    fac__unref(st == FAC_OK ? same : t);
    if (st == FAC_OK) *out = t;
    return st;
}

fac_status linspace_explicit(const fac_call_info *c, fac_scalar start, fac_scalar end, int64_t steps, fac_dtype dtype,
                             fac_layout layout, fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return linspace(FACTORY(dtype, layout, device, pin_memory), start, end, steps, (fac_opt_num){0}, out);
}

fac_status logspace_explicit(const fac_call_info *c, fac_scalar start, fac_scalar end, int64_t steps, double base,
                             fac_dtype dtype, fac_layout layout, fac_device device, fac_opt_num pin_memory,
                             fac_tensor **out) {
    (void)c;
    return linspace(FACTORY(dtype, layout, device, pin_memory), start, end, steps, fac_opt_num_(fac_scalar_f_(base)),
                    out);
}

/* ---- indices of triangles ----------------------------------------------------------------------------------------------------- */

/* Columns [*begin, *end) of row i that belong to the triangle. */
static void triangle_row(int64_t i, int64_t cols, int64_t offset, bool upper, int64_t *begin, int64_t *end) {
    int64_t edge = 0; /* first column above the diagonal of this row (lower: one past the last on it) */
    if (!fac__add(i, offset, &edge)) edge = offset > 0 ? INT64_MAX : INT64_MIN;
    if (!upper && edge < INT64_MAX) edge++;
    edge = fac__max(0, fac__min(edge, cols));
    *begin = upper ? edge : 0;
    *end = upper ? cols : edge;
}

/* Entries of a rows by cols matrix at or below a diagonal: row i has offset + 1 + i of them, within [0, cols]. */
static __int128 lower_count(__int128 rows, __int128 cols, __int128 offset) {
    __int128 first = offset + 1 < 0 ? -(offset + 1) : 0; /* row from which the count grows */
    __int128 full = cols - offset - 1;                   /* row from which it is cols */
    if (first > rows) first = rows;
    if (full < first) full = first;
    if (full > rows) full = rows;
    __int128 ramp = (full - first) * (2 * (offset + 1) + first + full - 1) / 2;
    return ramp + (rows - full) * cols;
}

static fac_status triangle_count(int64_t rows, int64_t cols, int64_t offset, bool upper, int64_t *out) {
    FAC_CHECK(rows >= 0 && cols >= 0, FAC_ERR_ARGUMENT, "row and col must be non-negative, got %lld and %lld",
              (long long)rows, (long long)cols);
    __int128 n =
        upper ? (__int128)rows * cols - lower_count(rows, cols, (__int128)offset - 1) : lower_count(rows, cols, offset);
    FAC_CHECK(n <= INT64_MAX, FAC_ERR_OVERFLOW, "the triangle has more than 2^63 elements");
    *out = (int64_t)n;
    return FAC_OK;
}

/* Writes the n pairs of a triangle, row by row; rows before the first entry and after the last are not visited. */
static void triangle_fill(int64_t n, int64_t cols, int64_t offset, bool upper, int64_t *row, int64_t *col) {
    const int64_t *end_of_rows = row + n;
    for (int64_t i = !upper && offset < -1 ? -(offset + 1) : 0; row < end_of_rows; i++) {
        int64_t b, e;
        triangle_row(i, cols, offset, upper, &b, &e);
        for (int64_t j = b; j < e; j++) *row++ = i, *col++ = j;
    }
}

/* The indices are made on the CPU, and copied if they are wanted elsewhere or in another dtype. */
static fac_status triangle_indices(fac_factory f, int64_t rows, int64_t cols, int64_t offset, bool upper,
                                   fac_tensor **out) {
    int64_t n;
    fac_tensor *t, *host;
    FAC_TRY(fac__factory_resolve(&f, FAC_I64));
    FAC_TRY(triangle_count(rows, cols, offset, upper, &n));
    FAC_TRY(fac__empty(FAC_INTS(2, n).v, 2, FAC_I64, fac_device_make(FAC_CPU, -1), &host));
    int64_t *row = fac__data(host);
    if (n) triangle_fill(n, cols, offset, upper, row, row + n);
    if (f.device.type == FAC_CPU && f.dtype == FAC_I64) {
        *out = host;
        return FAC_OK;
    }
    fac_status st = fac__empty(host->sizes, 2, f.dtype, f.device, &t);
    if (st == FAC_OK) {
        st = fac__copy_below(t, host);
        if (st == FAC_OK)
            *out = t;
        else
            fac__unref(t);
    }
    fac__unref(host);
    return st;
}

fac_status tril_indices_explicit(const fac_call_info *c, int64_t row, int64_t col, int64_t offset, fac_dtype dtype,
                                 fac_layout layout, fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return triangle_indices(FACTORY(dtype, layout, device, pin_memory), row, col, offset, false, out);
}

fac_status triu_indices_explicit(const fac_call_info *c, int64_t row, int64_t col, int64_t offset, fac_dtype dtype,
                                 fac_layout layout, fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return triangle_indices(FACTORY(dtype, layout, device, pin_memory), row, col, offset, true, out);
}
