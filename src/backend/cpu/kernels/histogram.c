/* Histograms of points of one or more coordinates, and counts of numbers. Points are cut in at most PARTS parts, by their number
   and that of the bins alone; each part counts into a table of its own, and tables are added in order: results do not depend on
   the number of threads. Counts are exact, sums of weights are taken in double.

   A coordinate's bin is computed in its own type (float32 for halves). Of equal bins it is (x - low) * bins / (high - low); histogram
   then corrects it by the edges, as rounding may have put it one beside. Between given edges it is found by bisection. */
#include "backend/cpu/kernels/histogram.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/reduction.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "ops/composite/below.h"
#include "ops_gen.h"
#include <math.h>

enum { PARTS = 16, POINTS = 512 };

/* ---- parts ------------------------------------------------------------------------------------------------------------ */

/* Points per part: so many that a part has more to do than to clear and add its table. */
static int64_t part_size(int64_t points, int64_t bins) {
    const int64_t least = fac__max(FAC_GRAIN, bins);
    return fac__max(least, fac__div_up(points, PARTS));
}

static fac_status take_tables(int64_t parts, int64_t bins, fac_workspace *out) {
    int64_t bytes;
    FAC_CHECK(fac__mul(parts, bins, &bytes) && fac__mul(bytes, 8, &bytes), FAC_ERR_OVERFLOW,
              "%lld bins are too many to be counted", (long long)bins);
    return fac__workspace_take(fac__max(bytes, 1), out);
}

/* ---- coordinates -------------------------------------------------------------------------------------------------------- */

typedef enum bin_rule { BIN_EQUAL, BIN_EQUAL_CORRECTED, BIN_EDGES } bin_rule;

typedef struct axis {
    double low, high;
    int64_t bins;
    fac_tensor *edges; /* row-major, bins + 1; owned; NULL for BIN_EQUAL */
} axis;

typedef struct histogram {
    bin_rule rule;
    int dims;
    axis axes[FAC_MAX_DIMS];
    fac_tensor *self, *weight; /* row-major [points, dims] and [points]; owned */
    int64_t points, bins, part;
    double *tables; /* [parts, bins] */
} histogram;

#define CORRECT(T)                                                                                                       \
    static int32_t correct_##T(const T *edges, int32_t bins, T x, int32_t at) {                                          \
        while (at > 0 && x < edges[at]) at--;                                                                            \
        while (at + 1 < bins && x >= edges[at + 1]) at++;                                                                \
        return at;                                                                                                       \
    }                                                                                                                    \
    /* The bin that ends at the first edge above x, of edges in order; -1 if these are in none and x below the first. */ \
    static int32_t bisect_##T(const T *edges, int32_t bins, T x) {                                                       \
        int32_t first = 0;                                                                                               \
        for (int32_t left = bins + 1; left > 0;) {                                                                       \
            const int32_t half = left / 2;                                                                               \
            const bool above = x < edges[first + half];                                                                  \
            first += above ? 0 : half + 1;                                                                               \
            left = above ? half : left - half - 1;                                                                       \
        }                                                                                                                \
        return first > bins ? bins - 1 : first - 1;                                                                      \
    }                                                                                                                    \
    static void places_##T(const histogram *h, const axis *a, const T *x, int64_t n, int32_t *out) {                     \
        const T *edges = a->edges ? fac__data(a->edges) : NULL;                                                          \
        const int32_t bins = (int32_t)a->bins;                                                                           \
        if (h->rule != BIN_EDGES) BINS_OF_##T(x, n, (T)a->low, (T)a->high, bins, out);                                   \
        for (int64_t i = 0; h->rule == BIN_EQUAL_CORRECTED && i < n; i++)                                                \
            if (out[i] >= 0) out[i] = correct_##T(edges, bins, x[i], out[i]);                                            \
        for (int64_t i = 0; h->rule == BIN_EDGES && i < n; i++)                                                          \
            out[i] = x[i] >= edges[0] && x[i] <= edges[bins] ? bisect_##T(edges, bins, x[i]) : -1;                       \
    }
#define BINS_OF_float FAC_ISA_PICK(fac__bins_f32)
#define BINS_OF_double FAC_ISA_PICK(fac__bins_f64)
CORRECT(float)
CORRECT(double)

/* Bins of n points, of one coordinate after the other; -1 if one is outside. */
static void find_bins(const histogram *h, int64_t begin, int64_t n, int64_t *out) {
    const fac_dtype d = (fac_dtype)h->self->dtype;
    const fac_acc kind = fac__acc_of(d);
    union {
        float f32[POINTS];
        double f64[POINTS];
    } x;
    int32_t at[POINTS];
    for (int k = 0; k < h->dims; k++) {
        const axis *a = &h->axes[k];
        fac__tile_load(kind, &x, (const char *)fac__data(h->self) + (begin * h->dims + k) * fac__dtype_size(d), d,
                       h->dims, n);
        if (kind == FAC_ACC_F32)
            places_float(h, a, x.f32, n, at);
        else
            places_double(h, a, x.f64, n, at);
        for (int64_t i = 0; i < n; i++)
            out[i] = at[i] < 0 || (k && out[i] < 0) ? -1 : (k ? out[i] * a->bins : 0) + at[i];
    }
}

static fac_status count_part(void *ctx, int64_t begin, int64_t end) {
    const histogram *h = ctx;
    int64_t at[POINTS];
    double weights[POINTS];
    for (int64_t part = begin; part < end; part++) {
        double *table = h->tables + part * h->bins;
        const int64_t last = fac__min(h->points, (part + 1) * h->part);
        memset(table, 0, (size_t)h->bins * sizeof *table);
        for (int64_t b = part * h->part, n; b < last; b += n) {
            n = fac__min(POINTS, last - b);
            find_bins(h, b, n, at);
            if (h->weight)
                fac__tile_load(FAC_ACC_F64, weights, (const char *)fac__data(h->weight) + b * fac__item_size(h->weight),
                               (fac_dtype)h->weight->dtype, 1, n);
            for (int64_t i = 0; i < n; i++)
                if (at[i] >= 0) table[at[i]] += h->weight ? weights[i] : 1;
        }
    }
    return FAC_OK;
}

/* ---- density --------------------------------------------------------------------------------------------------------------- */

static double edge_at(const axis *a, int64_t i) {
    double v = 0;
    const fac_dtype d = (fac_dtype)a->edges->dtype;
    fac__tile_load(FAC_ACC_F64, &v, (const char *)fac__data(a->edges) + i * fac__dtype_size(d), d, 1, 1);
    return v;
}

/* Divides by the total, and by each bin's extent. */
static void make_density(const histogram *h, double *table) {
    double total = 0;
    for (int64_t i = 0; i < h->bins; i++) total += table[i];
    for (int64_t i = 0; i < h->bins; i++) {
        table[i] /= total;
        for (int64_t k = h->dims - 1, rest = i; k >= 0; rest /= h->axes[k--].bins) {
            const int64_t bin = rest % h->axes[k].bins;
            table[i] /= edge_at(&h->axes[k], bin + 1) - edge_at(&h->axes[k], bin);
        }
    }
}

/* ---- running ----------------------------------------------------------------------------------------------------------------- */

static void end(histogram *h) {
    for (int k = 0; k < h->dims; k++) fac__unref(h->axes[k].edges);
    fac__unref(h->self);
    fac__unref(h->weight);
}

/* Points of `dims` coordinates, in row-major order. */
static fac_status begin(histogram *h, fac_tensor *self, fac_tensor *weight, int dims, bin_rule rule) {
    *h = (histogram){.rule = rule, .dims = dims, .points = self->numel / dims, .bins = 1};
    FAC_TRY(fac__cpu_contiguous(self, &h->self));
    if (!weight) return FAC_OK;
    fac_status st = fac__cpu_contiguous(weight, &h->weight);
    if (st != FAC_OK) end(h);
    return st;
}

static fac_status count_into(histogram *h, fac_tensor *out, bool density) {
    fac_rowmajor r;
    fac_workspace room;
    h->part = part_size(h->points, h->bins);
    const int64_t parts = fac__max(1, fac__div_up(h->points, h->part));
    FAC_TRY(take_tables(parts, h->bins, &room));
    h->tables = (double *)(void *)room.at;
    fac_status st = fac__rowmajor_begin(out, false, &r);
    if (st == FAC_OK) {
        st = fac__parallel_for(0, parts, 1, count_part, h);
        for (int64_t p = 1; p < parts; p++)
            for (int64_t i = 0; i < h->bins; i++) h->tables[i] += h->tables[p * h->bins + i];
        if (density) make_density(h, h->tables);
        fac__tile_store(FAC_ACC_F64, h->tables, fac__data(r.t), (fac_dtype)out->dtype, 1, h->bins);
        st = fac__rowmajor_end(&r, st);
    }
    fac__workspace_give(room);
    return st;
}

/* ---- ranges and edges ----------------------------------------------------------------------------------------------------------- */

/* The least or the largest of each coordinate, or, where points have one alone, of all elements. */
static fac_status find_extremes(fac_tensor *self, int dims, fac_fold_op op, double *out) {
    fac_tensor *found;
    const int64_t n = dims;
    const int kept = dims > 1;
    const fac_reduction r = {.op = op, .kind = fac__acc_of((fac_dtype)self->dtype)};
    const uint64_t mask = self->ndim > kept ? ~UINT64_C(0) >> (64 - self->ndim + kept) : 0;
    FAC_TRY(fac__empty(&n, kept, (fac_dtype)self->dtype, self->device, &found));
    fac_status st = fac__reduce(&r, self, mask, found);
    if (st == FAC_OK) fac__tile_load(FAC_ACC_F64, out, fac__data(found), (fac_dtype)self->dtype, 1, n);
    fac__unref(found);
    return st;
}

static fac_status check_range(const axis *a, int k) {
    FAC_CHECK(isfinite(a->low) && isfinite(a->high), FAC_ERR_ARGUMENT, "dimension %d's range [%g, %g] is not finite", k,
              a->low, a->high);
    return FAC_OK;
}

/* Ranges of all coordinates: given, or those of the data; a range of one number is widened by `margin` on both sides. */
static fac_status find_ranges(histogram *h, fac_tensor *self, fac_floats range, double margin) {
    double low[FAC_MAX_DIMS] = {0}, high[FAC_MAX_DIMS] = {0};
    if (!range.v && self->numel) {
        FAC_TRY(find_extremes(self, h->dims, FAC_FOLD_MIN, low));
        FAC_TRY(find_extremes(self, h->dims, FAC_FOLD_MAX, high));
    } else if (!range.v) {
        for (int k = 0; k < h->dims; k++) high[k] = margin < 1; /* of nothing: [0, 1] */
    }
    for (int k = 0; k < h->dims; k++) {
        axis *a = &h->axes[k];
        a->low = range.v ? range.v[2 * k] : low[k];
        a->high = range.v ? range.v[2 * k + 1] : high[k];
        FAC_TRY(check_range(a, k));
        if (a->low == a->high) a->low -= margin, a->high += margin;
    }
    return FAC_OK;
}

/* Equal edges, an owned row-major tensor of self's dtype. */
static fac_status make_edges(axis *a, fac_dtype dtype, fac_device device) {
    fac_tensor *t = NULL, *same = NULL;
    const int64_t n = a->bins + 1;
    FAC_TRY(fac__empty(&n, 1, dtype, device, &t));
    fac_status st = fac__redispatch__linspace_(fac__dense_keys(t), t, fac_scalar_f_(a->low), fac_scalar_f_(a->high),
                                               (fac_opt_num){0}, &same);
    fac__unref(same);
    if (st == FAC_OK)
        a->edges = t;
    else
        fac__unref(t);
    return st;
}

static fac_status equal_bins(histogram *h, fac_tensor *self, const int64_t *bins, fac_floats range) {
    FAC_TRY(find_ranges(h, self, range, 0.5));
    for (int k = 0; k < h->dims; k++) {
        h->axes[k].bins = bins[k];
        h->bins *= bins[k];
        FAC_TRY(make_edges(&h->axes[k], (fac_dtype)self->dtype, self->device));
    }
    return FAC_OK;
}

static fac_status given_bins(histogram *h, fac_tensors edges) {
    for (int k = 0; k < h->dims; k++) {
        h->axes[k].bins = edges.v[k]->numel - 1;
        h->bins *= h->axes[k].bins;
        FAC_TRY(fac__cpu_contiguous(edges.v[k], &h->axes[k].edges));
    }
    return FAC_OK;
}

/* ---- kernels ------------------------------------------------------------------------------------------------------------------------ */

fac_status histc_cpu(fac_structured *s, fac_tensor *self, int64_t bins, fac_scalar min, fac_scalar max) {
    histogram h;
    const double low = fac__scalar_f64(min), high = fac__scalar_f64(max), range[2] = {low, high};
    FAC_TRY(begin(&h, self, NULL, 1, BIN_EQUAL));
    h.bins = h.axes[0].bins = bins;
    fac_status st = find_ranges(&h, self, (fac_floats){low == high && self->numel ? NULL : range, 2}, 1);
    if (st == FAC_OK) st = count_into(&h, s->out[0], false);
    end(&h);
    return st;
}

fac_status histogram_count_cpu(fac_structured *s, fac_tensor *self, int64_t bins, fac_floats range, fac_tensor *weight,
                               bool density) {
    histogram h;
    FAC_TRY(begin(&h, self, weight, 1, BIN_EQUAL_CORRECTED));
    fac_status st = equal_bins(&h, self, &bins, range);
    if (st == FAC_OK) st = count_into(&h, s->out[0], density);
    if (st == FAC_OK) st = fac__cpu_copy(s->out[1], h.axes[0].edges);
    end(&h);
    return st;
}

fac_status histogram_edges_cpu(fac_structured *s, fac_tensor *self, fac_tensor *bins, fac_tensor *weight,
                               bool density) {
    histogram h;
    FAC_TRY(begin(&h, self, weight, 1, BIN_EDGES));
    fac_status st = given_bins(&h, (fac_tensors){&bins, 1});
    if (st == FAC_OK) st = count_into(&h, s->out[0], density);
    if (st == FAC_OK) st = fac__cpu_copy(s->out[1], bins);
    end(&h);
    return st;
}

fac_status histogramdd_counts_cpu(fac_structured *s, fac_tensor *self, fac_ints bins, fac_floats range,
                                  fac_tensor *weight, bool density) {
    histogram h;
    if (s->out[0]->numel == 0) return FAC_OK;
    FAC_TRY(begin(&h, self, weight, (int)bins.n, BIN_EQUAL_CORRECTED));
    fac_status st = equal_bins(&h, self, bins.v, range);
    if (st == FAC_OK) st = count_into(&h, s->out[0], density);
    end(&h);
    return st;
}

fac_status histogramdd_edges_cpu(fac_structured *s, fac_tensor *self, fac_tensors bins, fac_tensor *weight,
                                 bool density) {
    histogram h;
    if (s->out[0]->numel == 0) return FAC_OK;
    FAC_TRY(begin(&h, self, weight, (int)bins.n, BIN_EDGES));
    fac_status st = given_bins(&h, bins);
    if (st == FAC_OK) st = count_into(&h, s->out[0], density);
    end(&h);
    return st;
}
