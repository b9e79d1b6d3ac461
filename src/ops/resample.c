/* Resampling's geometry: the checks of sizes, and the map along each dimension as a banded matrix.

   Output element i lies at position scale * (i + 1/2) - 1/2 of the input, or at scale * i where corners are aligned, and is a sum
   of the elements around it: of one (nearest), of two (linear), of four (cubic convolution; Keys 1981, "Cubic convolution
   interpolation for digital image processing"), or of all under a filter as wide as the scale (the antialiased kinds). Neighbours
   beyond an end count as the last element there: their weights are added to its own. */
#include "ops/resample.h"
#include "core/scalar.h"
#include <math.h>

/* ---- sizes ---------------------------------------------------------------------------------------------------------------- */

static fac_status check_dim(const fac_resample *p, int d) {
    FAC_CHECK(p->in[d] > 0 && p->out[d] > 0, FAC_ERR_SHAPE,
              "Input and output sizes should be greater than 0, but got %lld and %lld", (long long)p->in[d],
              (long long)p->out[d]);
    return FAC_OK;
}

static fac_status check_count(const fac_resample *p) {
    int64_t unused;
    FAC_CHECK(fac__numel(p->in_sizes, p->ndim, &unused) && fac__numel(p->out_sizes, p->ndim, &unused), FAC_ERR_OVERFLOW,
              "resampling %lld channels: a size does not fit 64 bits", (long long)p->channels);
    return FAC_OK;
}

fac_status fac__resample_plan(const fac_resample_args *a, fac_ints input_size, const fac_tensor *like,
                              fac_resample *p) {
    FAC_CHECK(input_size.n == (size_t)a->nd + 2, FAC_ERR_SHAPE,
              "It is expected input_size equals to %d, but got size %zu", a->nd + 2, input_size.n);
    FAC_CHECK(a->output_size.n == (size_t)a->nd || a->output_size.n == 1, FAC_ERR_ARGUMENT,
              "It is expected output_size equals to %d, but got size %zu", a->nd, a->output_size.n);
    *p = (fac_resample){.kind = a->kind, .ndim = a->nd + 2, .align_corners = a->align_corners};
    p->batch = input_size.v[0], p->channels = input_size.v[1];
    FAC_CHECK(p->batch >= 0 && p->channels > 0, FAC_ERR_SHAPE,
              "Non-empty %dD data tensor expected but got a tensor with %lld channels", p->ndim,
              (long long)p->channels);
    memcpy(p->in_sizes, input_size.v, (size_t)p->ndim * sizeof(int64_t));
    memcpy(p->out_sizes, input_size.v, 2 * sizeof(int64_t));
    for (int d = 0; d < FAC_RESAMPLE_DIMS; d++) p->in[d] = p->out[d] = 1;
    for (int k = 0; k < a->nd; k++) {
        const int d = FAC_RESAMPLE_DIMS - a->nd + k;
        p->in[d] = input_size.v[2 + k];
        p->out[d] = p->out_sizes[2 + k] = a->output_size.v[a->output_size.n == 1 ? 0 : k];
        const double scale = a->scales[k].set ? fac__scalar_f64(a->scales[k].v) : 0;
        p->scale[d] = scale > 0 ? scale : 0;
        FAC_TRY(check_dim(p, d));
    }
    const unsigned format = p->ndim == 5 ? FAC_TF_CHANNELS_LAST_3D : FAC_TF_CHANNELS_LAST;
    p->channels_last = p->ndim >= 4 && (like->flags & format) && !fac__is_contiguous(like);
    return check_count(p);
}

void fac__resample_strides(const fac_resample *p, const int64_t *sizes, int64_t *strides) {
    int64_t moved[FAC_RESAMPLE_DIMS + 2] = {0}, of_moved[FAC_RESAMPLE_DIMS + 2];
    const int last = p->ndim - 1;
    if (!p->channels_last) {
        fac__row_major(sizes, p->ndim, strides);
        return;
    }
    for (int d = 0; d <= last; d++) moved[d] = sizes[d == 0 ? 0 : d == last ? 1 : d + 1];
    fac__row_major(moved, p->ndim, of_moved);
    for (int d = 0; d <= last; d++) strides[d] = of_moved[d == 0 ? 0 : d == 1 ? last : d - 1];
}

/* ---- positions ------------------------------------------------------------------------------------------------------------ */

/* One dimension while its matrix is made. */
typedef struct axis {
    fac_resample_kind kind;
    bool align_corners, single;
    int64_t in, out;
    double scale; /* from output to input */
} axis;

static double rounded(const axis *a, double x) { return a->single ? (double)(float)x : x; }

static axis axis_of(const fac_resample *p, int d, bool single) {
    const bool aligns = p->align_corners && p->kind >= FAC_RESAMPLE_LINEAR;
    axis a = {.kind = p->kind, .align_corners = aligns, .single = single, .in = p->in[d], .out = p->out[d]};
    if (aligns)
        a.scale = a.out > 1 ? rounded(&a, rounded(&a, (double)(a.in - 1)) / rounded(&a, (double)(a.out - 1))) : 0;
    else if (p->scale[d] > 0)
        a.scale = rounded(&a, 1 / p->scale[d]);
    else
        a.scale = rounded(&a, rounded(&a, (double)a.in) / rounded(&a, (double)a.out));
    return a;
}

/* Where output element i lies on the input. */
static double position(const axis *a, int64_t i) {
    if (a->align_corners) return rounded(a, a->scale * rounded(a, (double)i));
    const double middle = rounded(a, a->scale * rounded(a, (double)i + 0.5));
    return rounded(a, middle - 0.5);
}

/* The element at or below a position, and how far the position lies beyond it. */
static int64_t below(const axis *a, double x, double *part) {
    int64_t i = x < (double)a->in ? (int64_t)fmax(floor(x), -1) : a->in - 1;
    i = fac__min(i, a->in - 1);
    *part = fmin(fmax(rounded(a, x - (double)i), 0), 1);
    return i;
}

/* ---- rows of the matrix ----------------------------------------------------------------------------------------------------- */

/* Row i with `n` taps from element `first` on, which may lie beyond the ends. */
static void put_row(fac_bands *b, const axis *a, int64_t i, int64_t first, const double *w, int64_t n) {
    const int64_t begin = fac__max(0, fac__min(first, a->in - 1)),
                  end = fac__min(a->in, fac__max(first + n, begin + 1));
    double *row = b->weight + i * b->taps;
    b->start[i] = begin, b->count[i] = end - begin;
    for (int64_t k = 0; k < n; k++) {
        const int64_t at = fac__min(fac__max(first + k, begin), end - 1) - begin;
        row[at] = rounded(a, row[at] + rounded(a, w[k]));
    }
}

static void nearest_row(fac_bands *b, const axis *a, int64_t i) {
    const double place = a->kind == FAC_RESAMPLE_NEAREST ? (double)i : rounded(a, (double)i + 0.5);
    const double x = floor(rounded(a, rounded(a, place) * a->scale));
    const int64_t first = x < (double)a->in ? fac__max(0, (int64_t)x) : a->in - 1;
    put_row(b, a, i, a->kind == FAC_RESAMPLE_NEAREST && a->in == a->out ? i : first, (double[]){1}, 1);
}

static void linear_row(fac_bands *b, const axis *a, int64_t i) {
    double part = 0;
    const int64_t first = a->in == a->out ? i : below(a, fmax(position(a, i), 0), &part);
    const bool last = first + 1 >= a->in;
    put_row(b, a, i, first, (double[]){last ? 1 : 1 - part, part}, last ? 1 : 2);
}

/* Keys' kernel at distance x within 1, and between 1 and 2. */
static double cubic_near(double x, double c) { return ((c + 2) * x - (c + 3)) * x * x + 1; }
static double cubic_far(double x, double c) { return ((c * x - 5 * c) * x + 8 * c) * x - 4 * c; }

static void cubic_row(fac_bands *b, const axis *a, int64_t i) {
    double t;
    const int64_t first = below(a, position(a, i), &t);
    const double c = -0.75;
    put_row(b, a, i, first - 1,
            (double[]){cubic_far(t + 1, c), cubic_near(t, c), cubic_near(1 - t, c), cubic_far(2 - t, c)}, 4);
}

static double filter(const axis *a, double x) {
    x = fabs(x);
    if (a->kind == FAC_RESAMPLE_LINEAR_AA) return x < 1 ? 1 - x : 0;
    return x < 1 ? cubic_near(x, -0.5) : x < 2 ? cubic_far(x, -0.5) : 0;
}

/* Half the width of the filter on the input. */
static double support(const axis *a) {
    const double half = a->kind == FAC_RESAMPLE_LINEAR_AA ? 1 : 2;
    return a->scale >= 1 ? rounded(a, half * a->scale) : half;
}

/* x cut off, within [0, n]. */
static int64_t cut(double x, int64_t n) { return x >= (double)n ? n : x > 0 ? (int64_t)x : 0; }

static void filtered_row(fac_bands *b, const axis *a, int64_t i) {
    const double center = rounded(a, a->scale * rounded(a, (double)i + 0.5)), reach = support(a),
                 inverse = a->scale >= 1 ? rounded(a, 1 / a->scale) : 1;
    const int64_t begin = fac__min(cut(rounded(a, rounded(a, center - reach) + 0.5), a->in), a->in - 1);
    const int64_t end =
        fac__min(fac__max(cut(rounded(a, rounded(a, center + reach) + 0.5), a->in), begin + 1), begin + b->taps);
    double *row = b->weight + i * b->taps, total = 0;
    b->start[i] = begin, b->count[i] = end - begin;
    for (int64_t k = 0; k < end - begin; k++) {
        const double x = rounded(a, rounded(a, (double)(k + begin) - center) + 0.5);
        row[k] = rounded(a, filter(a, rounded(a, x * inverse)));
        total = rounded(a, total + row[k]);
    }
    for (int64_t k = 0; k < end - begin && total != 0; k++) row[k] = rounded(a, row[k] / total);
}

static int64_t widest(const axis *a) {
    switch (a->kind) {
    case FAC_RESAMPLE_NEAREST:
    case FAC_RESAMPLE_NEAREST_EXACT: return 1;
    case FAC_RESAMPLE_LINEAR: return fac__min(2, a->in);
    case FAC_RESAMPLE_CUBIC: return fac__min(4, a->in);
    default: return fac__min(a->in, cut(ceil(support(a)), a->in) * 2 + 1);
    }
}

/* ---- matrices ----------------------------------------------------------------------------------------------------------------- */

/* Room for the rows, with weights of zero. */
static fac_status bands_alloc(fac_bands *b, int64_t rows, int64_t columns, int64_t taps) {
    int64_t weights, bytes;
    *b = (fac_bands){.rows = rows, .columns = columns, .taps = taps};
    FAC_CHECK(fac__mul(rows, taps, &weights) && fac__add(weights, 2 * rows, &bytes) && fac__mul(bytes, 8, &bytes),
              FAC_ERR_OVERFLOW, "%lld weights for each of %lld elements are too many", (long long)taps,
              (long long)rows);
    b->start = fac__alloc_array((size_t)(weights + 2 * rows), 8);
    if (!b->start) return fac_error();
    b->count = b->start + rows;
    b->weight = (double *)(void *)(b->count + rows);
    memset(b->weight, 0, (size_t)weights * sizeof *b->weight);
    return FAC_OK;
}

void fac__bands_free(fac_bands *b) {
    fac__free(b->start);
    *b = (fac_bands){0};
}

fac_status fac__bands_make(const fac_resample *p, int d, bool single, fac_bands *out) {
    static void (*const rows[])(fac_bands *, const axis *, int64_t) = {
        [FAC_RESAMPLE_NEAREST] = nearest_row,    [FAC_RESAMPLE_NEAREST_EXACT] = nearest_row,
        [FAC_RESAMPLE_LINEAR] = linear_row,      [FAC_RESAMPLE_CUBIC] = cubic_row,
        [FAC_RESAMPLE_LINEAR_AA] = filtered_row, [FAC_RESAMPLE_CUBIC_AA] = filtered_row};
    const axis a = axis_of(p, d, single);
    /* A dimension that is not there: the identity, whatever the kind. */
    const bool absent = d < FAC_RESAMPLE_DIMS + 2 - p->ndim;
    FAC_TRY(bands_alloc(out, a.out, a.in, absent ? 1 : widest(&a)));
    for (int64_t i = 0; i < a.out; i++)
        if (absent)
            put_row(out, &a, i, i, (double[]){1}, 1);
        else
            rows[a.kind](out, &a, i);
    return FAC_OK;
}

fac_status fac__bands_transpose(const fac_bands *b, fac_bands *out) {
    int64_t taps = 1, begin = 0, end = 0;
    for (int64_t c = 0; c < b->columns; c++) { /* rows [begin, end) show column c */
        while (end < b->rows && b->start[end] <= c) end++;
        while (begin < end && b->start[begin] + b->count[begin] <= c) begin++;
        taps = fac__max(taps, end - begin);
    }
    FAC_TRY(bands_alloc(out, b->columns, b->rows, taps));
    begin = end = 0;
    for (int64_t c = 0; c < b->columns; c++) {
        while (end < b->rows && b->start[end] <= c) end++;
        while (begin < end && b->start[begin] + b->count[begin] <= c) begin++;
        out->start[c] = fac__min(begin, b->rows - 1), out->count[c] = fac__max(1, end - begin);
        for (int64_t r = begin; r < end; r++)
            out->weight[c * taps + r - begin] = b->weight[r * b->taps + c - b->start[r]];
    }
    return FAC_OK;
}
