/* Variance and standard deviation. Runs of at most 4096 elements (16 KiB, so the second pass reads L1) are reduced to count,
   mean and sum of squared differences by two passes; these are merged in double, in order (Chan, Golub, LeVeque 1979).
   Strips of neighbouring outputs do the same over 128 rows at a time; those of other dtypes and layouts are converted first, but for
   layouts of more than one reduced dimension, which go row by row with Welford's update in double. Complex: the sum of both parts'. */
#include "backend/cpu/kernels/fold.h"
#include "backend/cpu/kernels/norm.h"
#include "backend/cpu/kernels/reduction.h"
#include "backend/cpu/parallel.h"
#include "ops/meta/reduce.h"
#include "ops_gen.h"
#include <math.h>

#define RUN 4096
#define BLOCK 65536 /* elements of one output per task */
#define STRIP FAC_MOMENTS_WIDTH
#define STRIP_ROWS 128 /* times a strip's width: 64 KiB that the second pass finds in L2 */

typedef struct moments {
    double n, mean[2], m2, low[2]; /* the mean is mean + low, of the real and the imaginary part */
} moments;

typedef struct job {
    fac_dim_split split;
    const char *in;
    char *out, *mean_out; /* mean_out NULL if not wanted */
    fac_dtype in_dtype, out_dtype, mean_dtype;
    fac_acc kind;
    bool root, direct;
    double correction;
    moments *partial;
    int64_t blocks, width, strips;
} job;

/* hi + low takes in x; afterwards low is what hi is rounded by (Knuth 1969). */
static inline void normalise(double *hi, double *low, double x) {
    const double more = *low + x, sum = *hi + more, t = sum - *hi;
    *low = (*hi - (sum - t)) + (more - t);
    *hi = sum;
}

static void merge(moments *a, const moments *b) {
    if (b->n == 0) return;
    if (a->n == 0) {
        *a = *b;
        return;
    }
    double n = a->n + b->n, gap2 = 0;
    for (int k = 0; k < 2; k++) {
        double gap = (b->mean[k] - a->mean[k]) + (b->low[k] - a->low[k]);
        gap2 += gap * gap;
        if (isfinite(gap)) {
            normalise(&a->mean[k], &a->low[k], gap * (b->n / n));
        } else {
            a->mean[k] = (a->mean[k] + a->low[k]) * (a->n / n) + (b->mean[k] + b->low[k]) * (b->n / n);
            a->low[k] = 0;
        }
    }
    a->m2 += b->m2 + gap2 * (a->n * b->n / n);
    a->n = n;
}

/* All n, two by two: m[0] becomes the moments of all. */
static void merge_all(moments *m, int64_t n) {
    for (int64_t step = 1; step < n; step *= 2)
        for (int64_t i = 0; i + step < n; i += 2 * step) merge(&m[i], &m[i + step]);
}

enum { SOME = 512 }; /* of a run, on the stack */
static void of_complex(const double *x, int64_t n, moments *out) {
    const fac_fold_row_fn add = fac__fold_get(FAC_FOLD_SUM, FAC_ACC_F64).row;
    double mean[2] = {0, 0}, low[2] = {0, 0}, m2 = 0, squares[SOME];
    fac__fold_get(FAC_FOLD_SUM, FAC_ACC_C128).row(x, n, mean);
    for (int k = 0; k < 2; k++) mean[k] /= (double)n;
    for (int64_t i = 0; i < n; i += SOME) {
        const int64_t some = fac__min(SOME, n - i);
        for (int64_t k = 0; k < some; k++) {
            const double re = x[2 * (i + k)] - mean[0], im = x[2 * (i + k) + 1] - mean[1];
            squares[k] = re * re + im * im;
            low[0] += re, low[1] += im;
        }
        add(squares, some, &m2);
    }
    for (int k = 0; k < 2; k++) low[k] /= (double)n;
    m2 = fmax(m2 - (double)n * (low[0] * low[0] + low[1] * low[1]), m2 == m2 ? 0.0 : NAN);
    *out = (moments){(double)n, {mean[0], mean[1]}, m2, {low[0], low[1]}};
}

/* In double, term by term: for what overflowed a float or holds infinities, whose mean is infinite and not NaN. */
static void of_wide(fac_acc kind, const void *x, int64_t n, moments *out) {
    double mean = 0, m2 = 0;
    for (int64_t i = 0; i < n; i++)
        mean += (kind == FAC_ACC_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i]) / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double d = (kind == FAC_ACC_F32 ? (double)((const float *)x)[i] : ((const double *)x)[i]) - mean;
        m2 += d * d;
    }
    *out = (moments){(double)n, {mean, 0}, m2, {0, 0}};
}

static void of_run(fac_acc kind, const void *x, int64_t n, moments *out) {
    double mean[2];
    *out = (moments){.n = (double)n};
    if (kind == FAC_ACC_F32)
        FAC_ISA_PICK(fac__moments_f32)(x, n, mean, &out->m2);
    else if (kind == FAC_ACC_F64)
        FAC_ISA_PICK(fac__moments_f64)(x, n, mean, &out->m2);
    else
        of_complex(x, n, out);
    if (kind != FAC_ACC_C128) out->mean[0] = mean[0], out->low[0] = mean[1];
    if (kind != FAC_ACC_C128 && FAC_UNLIKELY(!isfinite(out->mean[0] + out->low[0] + out->m2))) of_wide(kind, x, n, out);
}

static void store(const job *j, const moments *m, int64_t out_at, int64_t mean_at) {
    double v = m->m2 / fmax(m->n - j->correction, 0.0);
    if (m->n == 0) v = NAN;
    if (j->root) v = sqrt(v);
    fac__tile_store(FAC_ACC_F64, &v, j->out + out_at * fac__dtype_size(j->out_dtype), j->out_dtype, 1, 1);
    if (!j->mean_out) return;
    double mean[2] = {m->n == 0 ? NAN : m->mean[0] + m->low[0], m->mean[1] + m->low[1]};
    fac__tile_store(j->kind == FAC_ACC_C128 ? FAC_ACC_C128 : FAC_ACC_F64, mean,
                    j->mean_out + mean_at * fac__dtype_size(j->mean_dtype), j->mean_dtype, 1, 1);
}

/* ---- rows ----------------------------------------------------------------------------------------------------------- */

static void fold_range(const job *j, const char *base, int64_t i, int64_t end, moments *acc) {
    const fac_nest *red = &j->split.reduced;
    int64_t step = fac__nest_step(red, 0), item = fac__dtype_size(j->in_dtype);
    fac_cursor c;
    fac_tile_buf tile;
    fac__nest_seek(red, 1, i, &c);
    while (i < end) {
        moments m;
        int64_t n = fac__min(fac__min(fac__nest_run(red, &c), end - i), RUN);
        if (j->direct && step == 1 && (n >= 64 || n == end - i)) {
            of_run(j->kind, base + c.offset[0] * item, n, &m);
            fac__nest_advance(red, 1, n, &c);
        } else {
            int64_t filled = 0;
            while (filled < FAC_TILE && i + filled < end) {
                int64_t part = fac__min(fac__min(fac__nest_run(red, &c), end - i - filled), FAC_TILE - filled);
                fac__tile_load(j->kind, (char *)&tile + (size_t)filled * fac__acc_size(j->kind),
                               base + c.offset[0] * item, j->in_dtype, step, part);
                fac__nest_advance(red, 1, part, &c);
                filled += part;
            }
            n = filled;
            of_run(j->kind, &tile, n, &m);
        }
        merge(acc, &m);
        i += n;
    }
}

static fac_status run_rows(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    fac_cursor c;
    fac__nest_seek(&j->split.kept, 3, begin / j->blocks, &c);
    for (int64_t i = begin; i < end; i++) {
        int64_t b = i % j->blocks;
        moments acc = {0};
        fold_range(j, j->in + c.offset[0] * fac__dtype_size(j->in_dtype), b * BLOCK,
                   fac__min(j->split.reduced.count, (b + 1) * BLOCK), &acc);
        if (j->partial)
            j->partial[i] = acc;
        else
            store(j, &acc, c.offset[1], c.offset[2]);
        if (b == j->blocks - 1) fac__nest_advance(&j->split.kept, 3, 1, &c);
    }
    return FAC_OK;
}

static fac_status reduce_rows(job *j) {
    const fac_nest *kept = &j->split.kept;
    int64_t n = j->split.reduced.count;
    j->blocks = fac__max(1, fac__div_up(n, BLOCK));
    int64_t items = kept->count * j->blocks;
    if (j->blocks > 1) {
        j->partial = fac__alloc_array((size_t)items, sizeof *j->partial);
        if (!j->partial) return fac_error();
    }
    fac_status st = fac__parallel_for(0, items, fac__grain(FAC_GRAIN, fac__min(n, BLOCK)), run_rows, j);
    for (int64_t i = 0; j->partial && st == FAC_OK && i < kept->count; i++) {
        fac_cursor c;
        merge_all(&j->partial[i * j->blocks], j->blocks);
        fac__nest_seek(kept, 3, i, &c);
        store(j, &j->partial[i * j->blocks], c.offset[1], c.offset[2]);
    }
    fac__free(j->partial);
    return st;
}

/* ---- columns ----------------------------------------------------------------------------------------------------------- */

typedef struct strip {
    double mean[STRIP], low[STRIP], m2[STRIP]; /* the mean is mean + low */
} strip;

static void welford(strip *restrict s, const double *restrict x, int64_t w, double n) {
    double inv = 1.0 / n;
    for (int64_t k = 0; k < w; k++) {
        double d = x[k] - s->mean[k];
        s->mean[k] = isfinite(d) ? s->mean[k] + d * inv : s->mean[k] * (1 - inv) + x[k] * inv;
        s->m2[k] += d * (x[k] - s->mean[k]);
    }
}

/* For rows that overflow, or hold infinities. */
static void welford_f32(strip *s, const float *x, int64_t w, double n) {
    double row[STRIP];
    for (int64_t k = 0; k < w; k++) row[k] = (double)x[k];
    welford(s, row, w, n);
}
#define welford_f64 welford

/* merge_strip: merges the moments of `more` rows into those of `n`, which are 0 where n is. */
#define DIRECT(T, S)                                                                                        \
    static bool all_finite_##S(const T *mean, const T *m2, int64_t w) {                                     \
        bool finite = true;                                                                                 \
        for (int64_t k = 0; k < w; k++) finite &= isfinite(mean[k] + m2[k]) != 0;                           \
        return finite;                                                                                      \
    }                                                                                                       \
    static void merge_strip_##S(strip *restrict s, const T *restrict mean, const T *restrict low,           \
                                const T *restrict m2, int64_t w, double n, double more) {                   \
        double part = more / (n + more), cross = n * part;                                                  \
        for (int64_t k = 0; k < w; k++) {                                                                   \
            double gap = ((double)mean[k] - s->mean[k]) + ((double)low[k] - s->low[k]);                     \
            if (n > 0)                                                                                      \
                normalise(&s->mean[k], &s->low[k], gap *part);                                              \
            else                                                                                            \
                s->mean[k] = (double)mean[k], s->low[k] = (double)low[k];                                   \
            s->m2[k] += (double)m2[k] + gap * gap * cross;                                                  \
        }                                                                                                   \
    }                                                                                                       \
    /* `before` of the rows are in s already. */                                                            \
    static void fold_strip_##S(const T *x, int64_t ld, int64_t w, int64_t before, int64_t rows, strip *s) { \
        T mean[STRIP], low[STRIP], m2[STRIP];                                                               \
        for (int64_t i = before; i < before + rows; i += STRIP_ROWS, x += STRIP_ROWS * ld) {                \
            int64_t some = fac__min(STRIP_ROWS, before + rows - i);                                         \
            FAC_ISA_PICK(fac__moments_strip_##S)(x, ld, some, w, mean, low, m2);                            \
            if (FAC_UNLIKELY(!all_finite_##S(mean, m2, w))) {                                               \
                for (int64_t k = 0; k < w; k++) s->mean[k] += s->low[k], s->low[k] = 0;                     \
                for (int64_t r = 0; r < some; r++) welford_##S(s, x + r * ld, w, (double)(i + r + 1));      \
                continue;                                                                                   \
            }                                                                                               \
            merge_strip_##S(s, mean, low, m2, w, (double)i, (double)some);                                  \
        }                                                                                                   \
    }
DIRECT(float, f32)
DIRECT(double, f64)

/* Short rows without gaps: as many as fill half a strip pass as one row, whose moments are merged. */
static int64_t rows_abreast(const job *j, int64_t w, int64_t count) {
    const bool plain = fac__nest_step(&j->split.kept, 0) == 1 && j->split.reduced.ndim == 1 &&
                       fac__nest_step(&j->split.reduced, 0) == w;
    const int64_t abreast = STRIP / 2 / w;
    return plain && (j->direct || j->kind == FAC_ACC_F32) && abreast > 1 && count >= 8 * abreast ? abreast : 1;
}

static void fold_plain(const job *j, const char *base, int64_t w, int64_t count, float *rows, strip *s) {
    memset(s, 0, sizeof *s);
    if (j->direct && j->kind == FAC_ACC_F32) {
        fold_strip_f32((const float *)(const void *)base, w, w, 0, count, s);
    } else if (j->direct) {
        fold_strip_f64((const double *)(const void *)base, w, w, 0, count, s);
    } else {
        for (int64_t i = 0; i < count; i += STRIP_ROWS) {
            const int64_t some = fac__min(STRIP_ROWS, count - i);
            fac__tile_load(FAC_ACC_F32, rows, base + i * w * fac__dtype_size(j->in_dtype), j->in_dtype, 1, some * w);
            fold_strip_f32(rows, w, w, i, some, s);
        }
    }
}

static moments moments_of(const strip *s, int64_t k, int64_t n) {
    return (moments){(double)n, {s->mean[k], 0}, s->m2[k], {s->low[k], 0}};
}

static void fold_abreast(const job *j, const char *base, int64_t w, int64_t abreast, int64_t count, float *rows,
                         strip *s) {
    const int64_t many = count / abreast, rest = count - many * abreast;
    strip wide;
    moments m[STRIP + 1];
    fold_plain(j, base, w * abreast, many, rows, &wide);
    fold_plain(j, base + many * abreast * w * fac__dtype_size(j->in_dtype), w, rest, rows, s);
    for (int64_t k = 0; k < w; k++) {
        for (int64_t i = 0; i < abreast; i++) m[i] = moments_of(&wide, i * w + k, many);
        m[abreast] = moments_of(s, k, rest);
        merge_all(m, abreast + 1);
        s->mean[k] = m->mean[0], s->low[k] = m->low[0], s->m2[k] = m->m2;
    }
}

/* Rows [begin, end) of w neighbouring outputs; `rows` is room for those that are converted. */
static void fold_strip(const job *j, const char *base, int64_t w, int64_t begin, int64_t end, float *rows, strip *s) {
    const fac_nest *red = &j->split.reduced;
    int64_t step = fac__nest_step(&j->split.kept, 0), item = fac__dtype_size(j->in_dtype);
    const int64_t abreast = rows_abreast(j, w, end - begin);
    fac_cursor c;
    double row[STRIP];
    if (abreast > 1) {
        fold_abreast(j, base + begin * w * item, w, abreast, end - begin, rows, s);
        return;
    }
    memset(s, 0, sizeof *s);
    if (j->direct && step == 1 && red->ndim <= 1) {
        const int64_t ld = fac__nest_step(red, 0);
        base += begin * ld * item;
        if (j->kind == FAC_ACC_F32)
            fold_strip_f32((const float *)(const void *)base, ld, w, 0, end - begin, s);
        else
            fold_strip_f64((const double *)(const void *)base, ld, w, 0, end - begin, s);
        return;
    }
    if (j->kind == FAC_ACC_F32 && red->ndim <= 1) {
        for (int64_t i = begin; i < end; i += STRIP_ROWS) {
            const int64_t some = fac__min(STRIP_ROWS, end - i);
            for (int64_t r = 0; r < some; r++)
                fac__tile_load(FAC_ACC_F32, rows + r * w, base + (i + r) * fac__nest_step(red, 0) * item, j->in_dtype,
                               step, w);
            fold_strip_f32(rows, w, w, i - begin, some, s);
        }
        return;
    }
    fac__nest_seek(red, 1, begin, &c);
    for (int64_t i = begin; i < end; i++) {
        fac__tile_load(FAC_ACC_F64, row, base + c.offset[0] * item, j->in_dtype, step, w);
        welford(s, row, w, (double)(i - begin + 1));
        fac__nest_advance(red, 1, 1, &c);
    }
}

/* Of n >= 1 real elements each. */
static void store_strip(const job *j, strip *s, int64_t w, double n, const fac_cursor *c) {
    const fac_nest *kept = &j->split.kept;
    const double scale = fmax(n - j->correction, 0.0);
    for (int64_t k = 0; k < w; k++) s->m2[k] /= scale;
    for (int64_t k = 0; j->root && k < w; k++) s->m2[k] = sqrt(s->m2[k]);
    fac__tile_store(FAC_ACC_F64, s->m2, j->out + c->offset[1] * fac__dtype_size(j->out_dtype), j->out_dtype,
                    fac__nest_step(kept, 1), w);
    if (!j->mean_out) return;
    for (int64_t k = 0; k < w; k++) s->mean[k] += s->low[k];
    fac__tile_store(FAC_ACC_F64, s->mean, j->mean_out + c->offset[2] * fac__dtype_size(j->mean_dtype), j->mean_dtype,
                    fac__nest_step(kept, 2), w);
}

/* Task i is block b of strip t of outer output o, with i = (o * strips + t) * blocks + b. */
static fac_status run_columns(void *ctx, int64_t begin, int64_t end, void *rows) {
    const job *j = ctx;
    const fac_nest *kept = &j->split.kept;
    for (int64_t i = begin; i < end; i++) {
        int64_t b = i % j->blocks, at = i / j->blocks % j->strips * STRIP, o = i / j->blocks / j->strips;
        int64_t w = fac__min(STRIP, j->width - at), first = b * FAC_COL_BLOCK,
                last = fac__min(j->split.reduced.count, first + FAC_COL_BLOCK);
        fac_cursor c;
        strip s;
        fac__nest_seek(kept, 3, o * j->width + at, &c);
        fold_strip(j, j->in + c.offset[0] * fac__dtype_size(j->in_dtype), w, first, last, rows, &s);
        for (int64_t k = 0; j->partial && k < w; k++)
            j->partial[(o * j->width + at + k) * j->blocks + b] = moments_of(&s, k, last - first);
        if (!j->partial) store_strip(j, &s, w, (double)(last - first), &c);
    }
    return FAC_OK;
}

static fac_status reduce_columns(job *j) {
    const fac_nest *kept = &j->split.kept;
    int64_t n = j->split.reduced.count;
    j->width = kept->size[0];
    j->strips = fac__div_up(j->width, STRIP);
    j->blocks = fac__max(1, fac__div_up(n, FAC_COL_BLOCK));
    int64_t items = kept->count / j->width * j->strips * j->blocks;
    if (j->blocks > 1) {
        j->partial = fac__alloc_array((size_t)(kept->count * j->blocks), sizeof *j->partial);
        if (!j->partial) return fac_error();
    }
    int64_t cost = fac__min(n, FAC_COL_BLOCK) * fac__min(j->width, STRIP);
    const bool as_they_are = j->kind != FAC_ACC_F32 || (j->direct && fac__nest_step(kept, 0) == 1);
    const int64_t room = as_they_are ? 0 : STRIP_ROWS * STRIP * (int64_t)sizeof(float);
    fac_status st = fac__parallel_for_scratch(0, items, fac__grain(FAC_GRAIN, cost), room, run_columns, j);
    for (int64_t i = 0; j->partial && st == FAC_OK && i < kept->count; i++) {
        fac_cursor c;
        merge_all(&j->partial[i * j->blocks], j->blocks);
        fac__nest_seek(kept, 3, i, &c);
        store(j, &j->partial[i * j->blocks], c.offset[1], c.offset[2]);
    }
    fac__free(j->partial);
    return st;
}

/* ---- entries ------------------------------------------------------------------------------------------------------------- */

fac_status fac__moments(fac_tensor *in, uint64_t mask, double correction, bool root, fac_tensor *var,
                        fac_tensor *mean) {
    if (var->numel == 0) return FAC_OK;
    fac_tensor *outs[2] = {var, mean ? mean : var};
    job j;
    j.in = fac__data(in);
    j.out = fac__data(var);
    j.mean_out = mean ? fac__data(mean) : NULL;
    j.in_dtype = (fac_dtype)in->dtype;
    j.out_dtype = (fac_dtype)var->dtype;
    j.mean_dtype = (fac_dtype)outs[1]->dtype;
    j.kind = fac__acc_of(j.in_dtype);
    j.direct = fac__acc_is(j.kind, j.in_dtype);
    j.root = root;
    j.correction = correction;
    j.partial = NULL;
    fac__split(&j.split, in, mask, outs, 2, false);
    bool columns = j.kind != FAC_ACC_C128 && j.split.reduced.count > 0 && fac__split_is_columns(&j.split);
    return columns ? reduce_columns(&j) : reduce_rows(&j);
}

static fac_status spread_of(fac_structured *s, fac_tensor *self, fac_opt_num correction, bool root, bool with_mean) {
    double c = correction.set ? fac__scalar_f64(correction.v) : 1.0;
    return fac__moments(self, fac__carried_mask(s), c, root, s->out[0], with_mean ? s->out[1] : NULL);
}

fac_status var_cpu(fac_structured *s, fac_tensor *self, fac_ints dim, fac_opt_num correction, bool keepdim) {
    (void)dim, (void)keepdim;
    return spread_of(s, self, correction, false, false);
}

fac_status std_cpu(fac_structured *s, fac_tensor *self, fac_ints dim, fac_opt_num correction, bool keepdim) {
    (void)dim, (void)keepdim;
    return spread_of(s, self, correction, true, false);
}

fac_status var_mean_cpu(fac_structured *s, fac_tensor *self, fac_ints dim, fac_opt_num correction, bool keepdim) {
    (void)dim, (void)keepdim;
    return spread_of(s, self, correction, false, true);
}

fac_status std_mean_cpu(fac_structured *s, fac_tensor *self, fac_ints dim, fac_opt_num correction, bool keepdim) {
    (void)dim, (void)keepdim;
    return spread_of(s, self, correction, true, true);
}
