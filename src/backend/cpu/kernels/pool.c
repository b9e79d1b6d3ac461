/* Pooling, plane by plane. Planes run in parallel; within one, windows are visited in order and summed in f32 (f64 for f64),
   so that results do not depend on the threads. Planes of halves are widened to f32 before and rounded after. Results whose
   channels are innermost are made by pool_last.c. */
#include "ops/pool.h"
#include "backend/cpu/kernels/fold.h"
#include "backend/cpu/kernels/gather.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/pool_last.h"
#include "backend/cpu/kernels/pool_rows.h"
#include "backend/cpu/kernels/scatter_runs.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/parallel.h"
#include "ops/structured.h"
#include "ops_gen.h"

/* A window's clipped range in one dimension, and how far it reaches with the padding. Each call works them out once. */
typedef struct span {
    int64_t begin, end, size;
} span;

/* One call: planes of `in` and `out` sides. */
typedef struct pool_job {
    fac_pool p;
    fac_dtype dtype, stored; /* of the elements computed with, f32 for halves, and of those in memory */
    const char *from;        /* forward: input; backward: grad_output */
    char *to;                /* forward: result; backward: grad_input */
    int64_t *indices;        /* max */
    bool count_pad;          /* mean: the padding counts */
    bool backward;
    int64_t divisor; /* mean: 0 for the window's size */
    span *spans[FAC_POOL_DIMS];
    int64_t step[FAC_POOL_DIMS]; /* from one element of a window to the next */
    /* Forward, of planes with gaps: strides in bytes of the row-major copy, then of the planes; or NULL. */
    const fac_nest *lying;
    void (*plane)(const struct pool_job *j, int64_t plane);
} pool_job;

/* Mean pooling has no dilation, so that its size is the element count with the padding. */
static span span_at(const fac_pool *p, int d, int64_t o) {
    const int64_t step = p->adaptive ? 1 : p->dilation[d];
    span s;
    fac__pool_window(p, d, o, &s.begin, &s.end);
    s.size = fac__min(s.end, p->in[d] + (p->adaptive ? 0 : p->padding[d])) - s.begin;
    if (s.begin < 0) s.begin += fac__div_up(-s.begin, step) * step;
    s.end = fac__min(s.end, p->in[d]);
    return s;
}

/* On success spans[0] is the caller's to free. */
static fac_status make_spans(pool_job *j) {
    const fac_pool *p = &j->p;
    span *all = fac__alloc_array((size_t)p->out[0] + (size_t)p->out[1] + (size_t)p->out[2], sizeof *all);
    if (!all) return fac_error();
    for (int d = 0; d < FAC_POOL_DIMS; all += p->out[d++]) {
        j->spans[d] = all;
        j->step[d] = p->adaptive ? 1 : p->dilation[d];
        for (int64_t o = 0; o < p->out[d]; o++) all[o] = span_at(p, d, o);
    }
    return FAC_OK;
}

/* The windows of a plane in order: their ranges are *s0, *s1 and *s2, and o the result's place. */
#define EACH_WINDOW(j, o)                                                                   \
    for (int64_t o = 0, once_ = 1; once_; once_ = 0)                                        \
        for (const span *s0 = (j)->spans[0], *e0_ = s0 + (j)->p.out[0]; s0 < e0_; s0++)     \
            for (const span *s1 = (j)->spans[1], *e1_ = s1 + (j)->p.out[1]; s1 < e1_; s1++) \
                for (const span *s2 = (j)->spans[2], *e2_ = s2 + (j)->p.out[2]; s2 < e2_; s2++, o++)

#define EACH_IN_WINDOW(j, at)                                                                                          \
    for (int64_t z_ = s0->begin; z_ < s0->end; z_ += (j)->step[0])                                                     \
        for (int64_t y_ = s1->begin; y_ < s1->end; y_ += (j)->step[1])                                                 \
            for (int64_t row_ = (z_ * (j)->p.in[1] + y_) * (j)->p.in[2], at = row_ + s2->begin, end_ = row_ + s2->end; \
                 at < end_; at += (j)->step[2])

/* ---- max -------------------------------------------------------------------------------------------------------------- */

/* The first of equal elements wins; NaN wins over all. A window that lies in the padding alone (possible with dilation)
   gives the least value there is, and index 0: PyTorch's may lie outside the plane. */
#define MAX_PLANE(name, T, LEAST)                                               \
    static void name(const pool_job *j, int64_t plane) {                        \
        const fac_pool *p = &j->p;                                              \
        const T *from = (const T *)(const void *)j->from + plane * p->in_count; \
        T *to = (T *)(void *)j->to + plane * p->out_count;                      \
        int64_t *indices = j->indices + plane * p->out_count;                   \
        EACH_WINDOW(j, o) {                                                     \
            int64_t best = -1;                                                  \
            T top = 0;                                                          \
            EACH_IN_WINDOW(j, at) {                                             \
                const T v = from[at];                                           \
                if (best >= 0 && !(v > top) && v == v) continue;                \
                if (best >= 0 && top != top) continue;                          \
                top = v;                                                        \
                best = at;                                                      \
            }                                                                   \
            indices[o] = fac__max(best, 0);                                     \
            to[o] = best < 0 ? (T)(LEAST) : from[best];                         \
        }                                                                       \
    }
MAX_PLANE(max_u8, uint8_t, 0)
MAX_PLANE(max_i8, int8_t, INT8_MIN)
MAX_PLANE(max_i16, int16_t, INT16_MIN)
MAX_PLANE(max_i32, int32_t, INT32_MIN)
MAX_PLANE(max_i64, int64_t, INT64_MIN)
MAX_PLANE(max_f32, float, -INFINITY)
MAX_PLANE(max_f64, double, -INFINITY)

/* Windows of many columns side by side: rows that hold nothing greater are passed over by vectors. */
enum { MANY_COLUMNS = 8 };
static void max_f64_long(const pool_job *j, int64_t plane) {
    const fac_pool *p = &j->p;
    const double *from = (const double *)(const void *)j->from + plane * p->in_count;
    double *to = (double *)(void *)j->to + plane * p->out_count;
    int64_t *indices = j->indices + plane * p->out_count;
    EACH_WINDOW(j, o) {
        int64_t best = -1;
        double top = 0;
        for (int64_t z = s0->begin; z < s0->end; z += j->step[0])
            for (int64_t y = s1->begin; y < s1->end && top == top; y += j->step[1]) {
                const int64_t row = (z * p->in[1] + y) * p->in[2];
                if (best >= 0 && !FAC_ISA_PICK(fac__any_above_f64)(from + row + s2->begin, s2->end - s2->begin, top))
                    continue;
                for (int64_t at = row + s2->begin; at < row + s2->end && top == top; at++)
                    if (best < 0 || !(from[at] <= top)) top = from[best = at];
            }
        indices[o] = fac__max(best, 0);
        to[o] = best < 0 ? -INFINITY : from[best];
    }
}
static bool are_long(const pool_job *j) {
    const span *middle = &j->spans[2][j->p.out[2] / 2];
    return j->p.out[2] > 0 && j->step[2] == 1 && middle->end - middle->begin >= MANY_COLUMNS;
}

/* The most common case of all, windows of two columns and one or two rows and planes side by side, without clipping. */
#define MAX_BY_2(SUF, T)                                                                                         \
    static void max_##SUF##_by_2(const pool_job *j, int64_t plane) {                                             \
        const fac_pool *p = &j->p;                                                                               \
        const T *from = (const T *)(const void *)j->from + plane * p->in_count;                                  \
        T *to = (T *)(void *)j->to + plane * p->out_count;                                                       \
        int64_t *indices = j->indices + plane * p->out_count, first[4];                                          \
        for (int64_t z = 0; z < p->out[0]; z++)                                                                  \
            for (int64_t y = 0; y < p->out[1]; y++, to += p->out[2], indices += p->out[2]) {                     \
                int rows = 0;                                                                                    \
                for (int64_t dz = 0; dz < p->kernel[0]; dz++)                                                    \
                    for (int64_t dy = 0; dy < p->kernel[1]; dy++)                                                \
                        first[rows++] = ((p->kernel[0] * z + dz) * p->in[1] + p->kernel[1] * y + dy) * p->in[2]; \
                FAC_ISA_PICK(fac__max_pairs_##SUF)(from, first, rows, p->out[2], to, indices);                   \
            }                                                                                                    \
    }
MAX_BY_2(f32, float)
MAX_BY_2(f64, double)

/* Windows of any kind, a row of results by vectors of them. */
static void max_f32_by_vectors(const pool_job *j, int64_t plane) {
    const fac_pool *p = &j->p;
    fac_max_windows w = {.from = (const float *)(const void *)j->from + plane * p->in_count,
                         .z_step = j->step[0],
                         .y_step = j->step[1],
                         .step = (int32_t)j->step[2],
                         .rows = p->in[1],
                         .columns = p->in[2],
                         .to = (float *)(void *)j->to + plane * p->out_count,
                         .indices = j->indices + plane * p->out_count};
    enum { NARROW = 4 };
    const span *middle = &j->spans[2][p->out[2] / 2];
    const bool narrow = middle->end - middle->begin <= NARROW * j->step[2];
    /* Rows of few results, of narrow windows, share a vector. */
    const int64_t n = p->out[1] * p->out[2], together = narrow && p->out[2] < FAC_MAX_WINDOWS ? n : p->out[2];
    for (const span *s0 = j->spans[0], *e0 = s0 + p->out[0]; s0 < e0; s0++) {
        w.z = s0->begin, w.z_end = s0->end;
        for (int64_t o = 0; o < n; o += w.n, w.to += w.n, w.indices += w.n) {
            w.n = (int)fac__min(FAC_MAX_WINDOWS, together - o % together);
            int64_t y = o / p->out[2], x = o % p->out[2];
            for (int i = 0; i < w.n; i++) {
                w.y[i] = (int32_t)j->spans[1][y].begin, w.y_end[i] = (int32_t)j->spans[1][y].end;
                w.begin[i] = (int32_t)j->spans[2][x].begin, w.end[i] = (int32_t)j->spans[2][x].end;
                if (++x == p->out[2]) x = 0, y++;
            }
            (void)FAC_ISA_PICK(fac__max_windows_f32)(&w);
        }
    }
}
static bool suits_vectors(const pool_job *j) {
    return j->dtype == FAC_F32 && j->p.in_count <= INT32_MAX / 4 && j->step[2] <= INT32_MAX / 64 &&
           j->step[1] <= INT32_MAX / 64 && FAC_ISA_PICK(fac__max_windows_f32)(NULL);
}

static bool is_by_2(const fac_pool *p) {
    if (p->adaptive || p->kernel[2] != 2 || p->in_count > INT32_MAX) return false;
    for (int d = 0; d < FAC_POOL_DIMS; d++) {
        const int64_t k = p->kernel[d];
        if (k < 1 || k > 2 || (p->stride[d] != k && p->out[d] > 1) || p->dilation[d] != 1 || p->padding[d] != 0 ||
            k * p->out[d] > p->in[d])
            return false;
    }
    return true;
}

/* grad_input[index] += grad, in the elements' own type; indices are checked before. */
static fac_status scatter_range(void *ctx, int64_t begin, int64_t end) {
    const pool_job *j = ctx;
    const int64_t in = j->p.in_count, out = j->p.out_count, item = fac__dtype_size(j->stored);
    const fac_scatter_run_fn add = FAC_ISA_PICK(fac__scatter_pick)(j->stored, FAC_SCATTER_ADD);
    for (int64_t p = begin; p < end; p++) {
        memset(j->to + p * in * item, 0, (size_t)(in * item));
        add(j->to + p * in * item, 0, j->indices + p * out, 1, 1, j->from + p * out * item, 1, out,
            FAC_SCATTER_ONE_ROW);
    }
    return FAC_OK;
}

/* ---- mean -------------------------------------------------------------------------------------------------------------- */

static inline int64_t divisor_of(const pool_job *j, const span *s0, const span *s1, const span *s2) {
    if (j->divisor) return j->divisor;
    if (j->count_pad && !j->p.adaptive) return s0->size * s1->size * s2->size;
    return fac__max(0, s0->end - s0->begin) * fac__max(0, s1->end - s1->begin) * fac__max(0, s2->end - s2->begin);
}

/* Elements of a window that lie one after the other, if they are many: it takes in whole rows of one plane; else 0. */
static inline int64_t run_of(const pool_job *j, const span *s0, const span *s1, const span *s2) {
    const int64_t width = s2->end - s2->begin, rows = s1->end - s1->begin;
    if (s0->end - s0->begin != 1 || width * rows < 32 || j->step[2] != 1) return 0;
    return width == j->p.in[2] || rows == 1 ? width * rows : 0;
}
#define SUM_RUN_float(from, n, sum) fac__fold_get(FAC_FOLD_SUM, FAC_ACC_F32).row(from, n, sum)
#define SUM_RUN_double(from, n, sum) fac__fold_get(FAC_FOLD_SUM, FAC_ACC_F64).row(from, n, sum)
#define SUM_RUN_int64_t(from, n, sum) (n) = 0

#define DIVIDE(sum, n) ((sum) / (n))
/* Integers wrap around: so does the one quotient that does not fit. */
static uint64_t divide_i64(uint64_t sum, uint64_t n) {
    return n == UINT64_MAX ? 0 - sum : (uint64_t)((int64_t)sum / (int64_t)n);
}

#define MEAN_PLANE(SUF, E, T, DIV)                                                                             \
    static void mean_##SUF(const pool_job *j, int64_t plane) {                                                 \
        const fac_pool *p = &j->p;                                                                             \
        const E *from = (const E *)(const void *)j->from + plane * p->in_count;                                \
        T *to = (T *)(void *)j->to + plane * p->out_count;                                                     \
        EACH_WINDOW(j, o) {                                                                                    \
            T sum = 0;                                                                                         \
            int64_t n = divisor_of(j, s0, s1, s2), run = run_of(j, s0, s1, s2);                                \
            if (run) SUM_RUN_##E(from + (s0->begin * p->in[1] + s1->begin) * p->in[2] + s2->begin, run, &sum); \
            if (!run) EACH_IN_WINDOW(j, at) sum += (T)from[at];                                                \
            to[o] = n ? DIV(sum, (T)n) : 0;                                                                    \
        }                                                                                                      \
    }                                                                                                          \
    /* grad_input += grad / divisor over each window. */                                                       \
    static void mean_back_##SUF(const pool_job *j, int64_t plane) {                                            \
        const fac_pool *p = &j->p;                                                                             \
        const E *from = (const E *)(const void *)j->from + plane * p->out_count;                               \
        T *to = (T *)(void *)j->to + plane * p->in_count;                                                      \
        memset(to, 0, (size_t)p->in_count * sizeof(T));                                                        \
        EACH_WINDOW(j, o) {                                                                                    \
            int64_t n = divisor_of(j, s0, s1, s2);                                                             \
            T g = n ? DIV((T)from[o], (T)n) : 0;                                                               \
            EACH_IN_WINDOW(j, at) to[at] += g;                                                                 \
        }                                                                                                      \
    }
MEAN_PLANE(f32, float, float, DIVIDE)
MEAN_PLANE(f64, double, double, DIVIDE)
MEAN_PLANE(i64, int64_t, uint64_t, divide_i64)

/* Windows that do not overlap, in each dimension; whether they take in all of it as well. */
static bool are_apart(const pool_job *j) {
    for (int d = 0; d < 3; d++)
        for (int64_t i = 1; i < j->p.out[d]; i++)
            if (j->spans[d][i].begin < j->spans[d][i - 1].end) return false;
    return true;
}
static bool cover(const pool_job *j, int d) {
    const int64_t n = j->p.out[d];
    bool all = n > 0 && j->spans[d][0].begin == 0 && j->spans[d][n - 1].end == j->p.in[d];
    for (int64_t i = 1; i < n && all; i++) all = j->spans[d][i].begin == j->spans[d][i - 1].end;
    return all;
}

/* mean_back_f32 of such windows: one row of them is spread, and is that of every row that they take in. */
static void mean_back_rows(const pool_job *j, int64_t plane) {
    const fac_pool *p = &j->p;
    const float *from = (const float *)(const void *)j->from + plane * p->out_count;
    float *to = (float *)(void *)j->to + plane * p->in_count;
    if (!cover(j, 0) || !cover(j, 1) || !cover(j, 2)) memset(to, 0, (size_t)p->in_count * sizeof *to);
    for (const span *s0 = j->spans[0], *e0 = s0 + p->out[0]; s0 < e0; s0++)
        for (const span *s1 = j->spans[1], *e1 = s1 + p->out[1]; s1 < e1; s1++, from += p->out[2]) {
            if (s0->begin >= s0->end || s1->begin >= s1->end) continue;
            float *row = to + (s0->begin * p->in[1] + s1->begin) * p->in[2];
            for (int64_t i = 0; i < p->out[2]; i++) {
                const span *s2 = j->spans[2] + i;
                const int64_t n = divisor_of(j, s0, s1, s2);
                const float g = n ? from[i] / (float)n : 0;
                for (int64_t x = s2->begin; x < s2->end; x++) row[x] = 0 + g; /* a sum, which is never -0 */
            }
            for (int64_t z = s0->begin; z < s0->end; z++)
                for (int64_t y = s1->begin; y < s1->end; y++) {
                    float *other = to + (z * p->in[1] + y) * p->in[2];
                    if (other != row) memcpy(other, row, (size_t)p->in[2] * sizeof *row);
                }
        }
}

/* Means over windows of several rows: the rows of a band of windows are added up first, then the columns of each. */
enum { BAND = 1024 }; /* windows of means have no dilation */
static bool in_bands(const pool_job *j) {
    const fac_pool *p = &j->p;
    if (j->dtype == FAC_I64 || p->in[2] > BAND || p->out[2] < 2) return false;
    return p->adaptive ? p->in[1] * p->in[0] > p->out[1] * p->out[0] : p->kernel[1] * p->kernel[0] > 1;
}

#define MEAN_BANDS(SUF, T)                                                                                       \
    static void mean_bands_##SUF(const pool_job *j, int64_t plane) {                                             \
        const fac_pool *p = &j->p;                                                                               \
        const T *from = (const T *)(const void *)j->from + plane * p->in_count;                                  \
        T *to = (T *)(void *)j->to + plane * p->out_count, band[BAND];                                           \
        for (const span *s0 = j->spans[0], *e0 = s0 + p->out[0]; s0 < e0; s0++)                                  \
            for (const span *s1 = j->spans[1], *e1 = s1 + p->out[1]; s1 < e1; s1++) {                            \
                FAC_ISA_PICK(fac__sum_of_rows_##SUF)                                                             \
                (from + (s0->begin * p->in[1] + s1->begin) * p->in[2], s0->end - s0->begin, p->in[1] * p->in[2], \
                 s1->end - s1->begin, p->in[2], p->in[2], band);                                                 \
                for (const span *s2 = j->spans[2], *e2 = s2 + p->out[2]; s2 < e2; s2++) {                        \
                    const int64_t n = divisor_of(j, s0, s1, s2);                                                 \
                    T sum = 0;                                                                                   \
                    for (int64_t x = s2->begin; x < s2->end; x++) sum += band[x];                                \
                    *to++ = n ? sum / (T)n : 0;                                                                  \
                }                                                                                                \
            }                                                                                                    \
    }
MEAN_BANDS(f32, float)
MEAN_BANDS(f64, double)

/* ---- channels innermost ------------------------------------------------------------------------------------------------- */

#define SAME(x) (x)
#define ADD_AT(E, T, GET, PUT)                                         \
    for (int64_t c = 0; c < n; c++) {                                  \
        E *to = (E *)(void *)image + indices[c] * j->channels + c;     \
        *to = (E)PUT((T)((T)GET(*to) + (T)GET(((const E *)grad)[c]))); \
    }                                                                  \
    break
void fac__pool_add_at(const fac_pool_last *j, char *image, const int64_t *indices, const void *grad, int64_t n) {
    switch (j->dtype) {
    case FAC_U8:
    case FAC_I8: ADD_AT(uint8_t, uint8_t, SAME, SAME);
    case FAC_I16: ADD_AT(uint16_t, uint16_t, SAME, SAME);
    case FAC_I32: ADD_AT(uint32_t, uint32_t, SAME, SAME);
    case FAC_I64: ADD_AT(uint64_t, uint64_t, SAME, SAME);
    case FAC_F16: ADD_AT(uint16_t, float, fac__f16_to_f32, fac__f32_to_f16);
    case FAC_BF16: ADD_AT(uint16_t, float, fac__bf16_to_f32, fac__f32_to_bf16);
    case FAC_F64: ADD_AT(double, double, SAME, SAME);
    default: ADD_AT(float, float, SAME, SAME);
    }
}

#undef ADD_AT

/* ---- running over planes ------------------------------------------------------------------------------------------------ */

typedef void (*plane_fn)(const pool_job *j, int64_t plane);
static const plane_fn max_planes[FAC_DTYPE_COUNT] = {
    [FAC_U8] = max_u8,   [FAC_I8] = max_i8,   [FAC_I16] = max_i16, [FAC_I32] = max_i32,
    [FAC_I64] = max_i64, [FAC_F32] = max_f32, [FAC_F64] = max_f64};
static const plane_fn mean_planes[FAC_DTYPE_COUNT] = {[FAC_I64] = mean_i64, [FAC_F32] = mean_f32, [FAC_F64] = mean_f64};

static plane_fn max_plane(const pool_job *j) {
    if (is_by_2(&j->p) && j->dtype == FAC_F32) return max_f32_by_2;
    if (is_by_2(&j->p) && j->dtype == FAC_F64) return max_f64_by_2;
    if (j->dtype == FAC_F64 && are_long(j)) return max_f64_long;
    return suits_vectors(j) ? max_f32_by_vectors : max_planes[j->dtype];
}
static plane_fn mean_plane(const pool_job *j) {
    if (!in_bands(j)) return mean_planes[j->dtype];
    return j->dtype == FAC_F64 ? mean_bands_f64 : mean_bands_f32;
}
static plane_fn mean_back_plane(const pool_job *j) {
    if (j->dtype == FAC_I64) return mean_back_i64;
    if (j->dtype == FAC_F64) return mean_back_f64;
    return are_apart(j) ? mean_back_rows : mean_back_f32;
}

/* A plane that does not lie row-major, copied to `room`. */
static const char *row_major_plane(const pool_job *j, int64_t plane, char *room) {
    fac_cursor c;
    fac__nest_seek(j->lying, 2, plane * j->p.in_count, &c);
    fac__items_copy_points(
        j->lying, c.index, (size_t)fac__dtype_size(j->stored), (fac_items_side){room, j->lying->stride[0]},
        (fac_items_side){(char *)(uintptr_t)j->from + c.offset[1], j->lying->stride[1]}, j->p.in_count);
    return room;
}

/* room: for halves, the two sides of a plane in f32; then a plane as it is stored, where planes are copied. */
static fac_status plane_range(void *ctx, int64_t begin, int64_t end, void *room) {
    const pool_job *j = ctx;
    const int64_t n_from = j->backward ? j->p.out_count : j->p.in_count,
                  n_to = j->backward ? j->p.in_count : j->p.out_count, item = fac__dtype_size(j->stored);
    const bool widens = j->stored != j->dtype;
    char *copy = (char *)room + (widens ? (size_t)(n_from + n_to) * sizeof(float) : 0);
    pool_job one = *j;
    for (int64_t p = begin; p < end; p++) {
        const char *from = j->lying ? row_major_plane(j, p, copy) : j->from + p * n_from * item;
        char *to = j->to + p * n_to * item;
        one.from = widens ? room : from;
        one.to = widens ? (char *)room + (size_t)n_from * sizeof(float) : to;
        one.indices = j->indices ? j->indices + p * j->p.out_count : NULL;
        if (widens) fac__tile_load(FAC_ACC_F32, room, from, j->stored, 1, n_from);
        j->plane(&one, 0);
        if (widens) fac__tile_store(FAC_ACC_F32, one.to, to, j->stored, 1, n_to);
    }
    return FAC_OK;
}

/* Refuses indices outside their plane, so that nothing is written before all are known to be good. */
static fac_status check_range(void *ctx, int64_t begin, int64_t end) {
    const pool_job *j = ctx;
    if (FAC_ISA_PICK(fac__indices_within)(j->indices + begin, 1, end - begin, 0, j->p.in_count)) return FAC_OK;
    for (int64_t i = begin; i < end; i++)
        FAC_CHECK(j->indices[i] >= 0 && j->indices[i] < j->p.in_count, FAC_ERR_INDEX,
                  "found an invalid max index %lld: it must lie in [0, %lld)", (long long)j->indices[i],
                  (long long)j->p.in_count);
    return FAC_OK;
}

/* Planes of a chunk: chunks are of equal size, but for what the last one lacks. */
static int64_t planes_at_once(const pool_job *j) {
    const int64_t most = fac__grain(FAC_GRAIN / 2, j->p.in_count + j->p.out_count + 1);
    return fac__div_up(j->p.planes, fac__div_up(j->p.planes, most));
}

/* pick chooses the plane's loop by the spans. */
static fac_status run(pool_job *j, plane_fn (*pick)(const pool_job *j)) {
    FAC_TRY(make_spans(j));
    j->plane = pick(j);
    int64_t room = j->stored == j->dtype ? 0 : fac__mul_or_max(j->p.in_count + j->p.out_count, sizeof(float));
    if (j->lying) room += j->p.in_count * fac__dtype_size(j->stored); /* a part of a tensor */
    const fac_status st = fac__parallel_for_scratch(0, j->p.planes, planes_at_once(j), room, plane_range, j);
    fac__free(j->spans[0]);
    return st;
}

/* The results, or tensors of the wanted format that stand in for them; the second is of maxima alone. */
typedef struct results {
    fac_rowmajor r[2];
    int n;
} results;

static fac_status results_begin(fac_structured *s, fac_memory_format f, results *out) {
    for (out->n = 0; out->n < s->n_out; out->n++) {
        fac_status st = fac__formatted_begin(s->out[out->n], f, &out->r[out->n]);
        if (st != FAC_OK && out->n == 1) (void)fac__rowmajor_end(&out->r[0], st);
        FAC_TRY(st);
    }
    return FAC_OK;
}

static fac_status results_end(results *r, fac_status st) {
    for (int i = 0; i < r->n; i++) st = fac__rowmajor_end(&r->r[i], st);
    return st;
}

/* Where the kernels compute: in the format of the results, if they know it. */
static fac_memory_format format_for(const pool_job *j, const fac_tensor *self, bool maxima) {
    return fac__pool_last_fits(&j->p) ? fac__pool_format(&j->p, self, maxima) : FAC_CONTIGUOUS;
}

/* The same job for images of `self`'s channels. */
static fac_pool_last last_of(const pool_job *j, const fac_tensor *self) {
    return (fac_pool_last){.p = j->p,
                           .dtype = j->stored,
                           .batch = self->sizes[0],
                           .channels = self->sizes[1],
                           .from = j->from,
                           .to = j->to,
                           .indices = j->indices,
                           .count_pad = j->count_pad,
                           .divisor = j->divisor};
}

static void set_dtype(pool_job *j, const fac_tensor *t) {
    j->stored = (fac_dtype)t->dtype;
    j->dtype = fac__is_half(j->stored) ? FAC_F32 : j->stored;
}

static fac_status forward_into(const results *r, fac_tensor *in, fac_memory_format f, pool_job *j) {
    set_dtype(j, in);
    j->from = fac__data(in);
    j->to = fac__data(r->r[0].t);
    if (r->n == 2) j->indices = fac__data(r->r[1].t);
    if (fac__is_channels_last(f)) {
        fac_pool_last l = last_of(j, in);
        return fac__pool_last_forward(&l);
    }
    return run(j, r->n == 2 ? max_plane : mean_plane);
}

/* Many planes whose rows lie with small gaps are copied one by one: a copy of all would have to be written to memory and read back. */
static bool goes_by_planes(const pool_job *j, const fac_tensor *self, fac_memory_format f) {
    enum { PLANES = 4, GAP = 4, BYTES = 1 << 20 };
    const int64_t step = self->strides[self->ndim - 1];
    const int64_t bytes = fac__mul_or_max(self->numel, fac__item_size(self)); /* what is expanded may have too many */
    return f == FAC_CONTIGUOUS && !(self->flags & FAC_TF_CONTIGUOUS) && j->p.planes >= PLANES && step > 0 &&
           step <= GAP && bytes >= BYTES && bytes < INT64_MAX;
}

static void lie(const fac_tensor *self, fac_nest *lying) {
    int64_t dense[FAC_MAX_DIMS], next = 1;
    for (int d = self->ndim - 1; d >= 0; next *= self->sizes[d--]) dense[d] = next;
    fac__nest_build(lying, self->sizes, self->ndim, UINT64_MAX, 2, (const int64_t *[]){dense, self->strides}, true);
    for (int k = 0; k < 2; k++)
        for (int d = 0; d < lying->ndim; d++) lying->stride[k][d] *= fac__item_size(self);
}

static fac_status forward(fac_structured *s, fac_tensor *self, pool_job *j) {
    if (j->p.planes == 0 || j->p.out_count == 0) return FAC_OK;
    fac_tensor *in;
    fac_nest lying;
    results r;
    const fac_memory_format f = format_for(j, self, s->n_out == 2);
    if (goes_by_planes(j, self, f)) {
        lie(self, &lying);
        j->lying = &lying;
        in = fac__ref(self);
    } else
        FAC_TRY(fac__in_format_below(self, f, &in));
    fac_status st = results_begin(s, f, &r);
    if (st == FAC_OK) st = results_end(&r, forward_into(&r, in, f, j));
    fac__unref(in);
    return st;
}

/* indices NULL: mean pooling. */
static fac_status backward_into(fac_tensor *out, const fac_tensor *grad, const fac_tensor *places, fac_memory_format f,
                                pool_job *j) {
    set_dtype(j, out);
    j->backward = true;
    j->from = fac__data(grad);
    j->to = fac__data(out);
    j->indices = places ? fac__data(places) : NULL;
    if (places) FAC_TRY(fac__parallel_for(0, places->numel, FAC_GRAIN, check_range, j));
    if (fac__is_channels_last(f)) {
        fac_pool_last l = last_of(j, out);
        return fac__pool_last_backward(&l);
    }
    return places ? fac__parallel_for(0, j->p.planes, planes_at_once(j), scatter_range, j) : run(j, mean_back_plane);
}

static fac_status backward(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, fac_tensor *indices,
                           pool_job *j) {
    fac_tensor *grad = NULL, *places = NULL;
    results r;
    if (s->out[0]->numel == 0) return FAC_OK;
    if (grad_output->numel == 0) return fac__cpu_fill(s->out[0], fac_scalar_i_(0));
    const fac_memory_format f = format_for(j, self, indices);
    fac_status st = fac__in_format_below(grad_output, f, &grad);
    if (st == FAC_OK) st = fac__in_format_below(indices, f, &places);
    if (st == FAC_OK) st = results_begin(s, f, &r);
    if (st == FAC_OK) st = results_end(&r, backward_into(r.r[0].t, grad, places, f, j));
    fac__unref(grad);
    fac__unref(places);
    return st;
}

/* ---- kernels --------------------------------------------------------------------------------------------------------------- */

static fac_ints last_sizes(const fac_tensor *t, int nd) { return (fac_ints){t->sizes + t->ndim - nd, (size_t)nd}; }

#define POOL_CPU(nd)                                                                                                   \
    fac_status max_pool##nd##d_with_indices_cpu(fac_structured *s, fac_tensor *self, fac_ints kernel_size,             \
                                                fac_ints stride, fac_ints padding, fac_ints dilation,                  \
                                                bool ceil_mode) {                                                      \
        pool_job j = {0};                                                                                              \
        FAC_TRY(fac__pool_plan(nd, self, &(fac_pool_args){kernel_size, stride, padding, dilation, ceil_mode}, &j.p));  \
        return forward(s, self, &j);                                                                                   \
    }                                                                                                                  \
    fac_status max_pool##nd##d_with_indices_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *self, \
                                                         fac_ints kernel_size, fac_ints stride, fac_ints padding,      \
                                                         fac_ints dilation, bool ceil_mode, fac_tensor *indices) {     \
        pool_job j = {0};                                                                                              \
        FAC_TRY(fac__pool_plan(nd, self, &(fac_pool_args){kernel_size, stride, padding, dilation, ceil_mode}, &j.p));  \
        return backward(s, grad_output, self, indices, &j);                                                            \
    }                                                                                                                  \
    fac_status avg_pool##nd##d_cpu(fac_structured *s, fac_tensor *self, fac_ints kernel_size, fac_ints stride,         \
                                   fac_ints padding, bool ceil_mode, bool count_include_pad,                           \
                                   fac_opt_int divisor_override) {                                                     \
        pool_job j = {.count_pad = count_include_pad, .divisor = divisor_override.set ? divisor_override.v : 0};       \
        FAC_TRY(fac__pool_plan(                                                                                        \
            nd, self,                                                                                                  \
            &(fac_pool_args){.kernel = kernel_size, .stride = stride, .padding = padding, .ceil_mode = ceil_mode},     \
            &j.p));                                                                                                    \
        return forward(s, self, &j);                                                                                   \
    }                                                                                                                  \
    fac_status avg_pool##nd##d_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *self,              \
                                            fac_ints kernel_size, fac_ints stride, fac_ints padding, bool ceil_mode,   \
                                            bool count_include_pad, fac_opt_int divisor_override) {                    \
        pool_job j = {.count_pad = count_include_pad, .divisor = divisor_override.set ? divisor_override.v : 0};       \
        FAC_TRY(fac__pool_plan(                                                                                        \
            nd, self,                                                                                                  \
            &(fac_pool_args){.kernel = kernel_size, .stride = stride, .padding = padding, .ceil_mode = ceil_mode},     \
            &j.p));                                                                                                    \
        return backward(s, grad_output, self, NULL, &j);                                                               \
    }                                                                                                                  \
    fac_status adaptive_avg_pool##nd##d_cpu(fac_structured *s, fac_tensor *self, fac_ints output_size) {               \
        pool_job j = {0};                                                                                              \
        FAC_TRY(fac__pool_plan_adaptive(nd, self, output_size, &j.p));                                                 \
        return forward(s, self, &j);                                                                                   \
    }                                                                                                                  \
    fac_status adaptive_avg_pool##nd##d_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *self) {   \
        pool_job j = {0};                                                                                              \
        FAC_TRY(fac__pool_plan_adaptive(nd, self, last_sizes(grad_output, nd), &j.p));                                 \
        return backward(s, grad_output, self, NULL, &j);                                                               \
    }                                                                                                                  \
    fac_status adaptive_max_pool##nd##d_cpu(fac_structured *s, fac_tensor *self, fac_ints output_size) {               \
        pool_job j = {0};                                                                                              \
        FAC_TRY(fac__pool_plan_adaptive(nd, self, output_size, &j.p));                                                 \
        return forward(s, self, &j);                                                                                   \
    }                                                                                                                  \
    fac_status adaptive_max_pool##nd##d_backward_cpu(fac_structured *s, fac_tensor *grad_output, fac_tensor *self,     \
                                                     fac_tensor *indices) {                                            \
        pool_job j = {0};                                                                                              \
        FAC_TRY(fac__pool_plan_adaptive(nd, self, last_sizes(grad_output, nd), &j.p));                                 \
        return backward(s, grad_output, self, indices, &j);                                                            \
    }
POOL_CPU(2)
POOL_CPU(3)
