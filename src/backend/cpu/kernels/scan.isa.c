/* An element waits for the one before it, so that several go side by side: eight of a sum, whose own is found apart, one each of four
   lines, or with AVX-512 sixteen of a line's running extremes. */
#include "backend/cpu/kernels/scan.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/simd.h"

typedef uint64_t eight __attribute__((vector_size(64), aligned(8)));

int64_t FAC_ISA_NAME(fac__prefix_sum_i64)(const int64_t *x, int64_t *out, int64_t n, int64_t before) {
    const eight none = {0};
    uint64_t sum = (uint64_t)before;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        eight v = *(const eight *)(const void *)(x + i);
        v += __builtin_shufflevector(none, v, 0, 8, 9, 10, 11, 12, 13, 14);
        v += __builtin_shufflevector(none, v, 0, 0, 8, 9, 10, 11, 12, 13);
        v += __builtin_shufflevector(none, v, 0, 0, 0, 0, 8, 9, 10, 11);
        *(eight *)(void *)(out + i) = v + sum;
        sum += v[7];
    }
    for (; i < n; i++) out[i] = (int64_t)(sum += (uint64_t)x[i]);
    return (int64_t)sum;
}

/* The error is some units in the last place of 16 at most. */
bool FAC_ISA_NAME(fac__prefix_log_sum_f64)(double *x, int64_t n, double before) {
    double most = before, sum = 0;
    for (int64_t i = 0; i < n; i++) most = x[i] > most ? x[i] : most;
    if (!(most - before <= 16)) return false;
    for (int64_t i = 0; i < n; i++) x[i] = FAC_SIMD(exp, f64)(x[i] - before);
    for (int64_t i = 0; i < n; i++) x[i] = sum += x[i];
    for (int64_t i = 0; i < n; i++) x[i] = before + FAC_SIMD(log1p, f64)(x[i]);
    return true;
}

/* One element after the other. */
static void extreme_each(bool larger, const float *x, float *out, int64_t *at, int64_t begin, int64_t end, float *best,
                         int64_t *place) {
    for (int64_t i = begin; i < end; i++) {
        const float v = x[i];
        if (v != v || (*best == *best && (larger ? v >= *best : v <= *best))) *best = v, *place = i;
        out[i] = *best;
        at[i] = *place;
    }
}

#if FAC_ISA_LEVEL >= 2
/* Lanes move up by k, and -inf (inf) in. */
#define UP(v, fill, k) \
    _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(v), _mm512_castps_si512(fill), 16 - (k)))

static inline __m512 further(bool larger, __m512 a, __m512 b) {
    return larger ? _mm512_max_ps(a, b) : _mm512_min_ps(a, b);
}

/* An element is the latest extreme if it equals the extreme of all up to it; each lane takes the highest such lane that is not above
   itself, whose number is the exponent of the flags up to its own. */
static inline __attribute__((always_inline)) void extreme_line(bool larger, const float *x, float *out, int64_t *at,
                                                               int64_t n) {
    const float worst = larger ? -__builtin_inff() : __builtin_inff();
    const __m512 fill = _mm512_set1_ps(worst);
    const __m512i up_to = _mm512_set_epi32(0xffff, 0x7fff, 0x3fff, 0x1fff, 0xfff, 0x7ff, 0x3ff, 0x1ff, 0xff, 0x7f, 0x3f,
                                           0x1f, 0xf, 7, 3, 1),
                  last = _mm512_set1_epi32(15);
    float best = worst;
    int64_t place = 0;
    for (int64_t i = 0; i < n; i += 16) {
        const int64_t m = n - i < 16 ? n - i : 16;
        const __mmask16 in = (__mmask16)((1u << m) - 1);
        const __m512 v = _mm512_mask_loadu_ps(fill, in, x + i), before = _mm512_set1_ps(best);
        if (_mm512_cmp_ps_mask(v, before, _CMP_UNORD_Q)) {
            extreme_each(larger, x, out, at, i, i + m, &best, &place);
            continue;
        }
        __m512 p = further(larger, v, UP(v, fill, 1));
        p = further(larger, p, UP(p, fill, 2));
        p = further(larger, p, UP(p, fill, 4));
        p = further(larger, p, UP(p, fill, 8));
        p = further(larger, p, before);
        const __m512i flags = _mm512_and_si512(_mm512_set1_epi32(_mm512_mask_cmp_ps_mask(in, v, p, _CMP_EQ_OQ)), up_to);
        const __mmask16 found = _mm512_test_epi32_mask(flags, flags);
        const __m512i lane = _mm512_sub_epi32(_mm512_srli_epi32(_mm512_castps_si512(_mm512_cvtepi32_ps(flags)), 23),
                                              _mm512_set1_epi32(127));
        const __m512 value = _mm512_mask_permutexvar_ps(before, found, lane, v);
        const __m512i place_before = _mm512_set1_epi64(place), first = _mm512_set1_epi64(i);
        const __m512i low = _mm512_mask_add_epi64(place_before, (__mmask8)found, first,
                                                  _mm512_cvtepi32_epi64(_mm512_castsi512_si256(lane))),
                      high = _mm512_mask_add_epi64(place_before, (__mmask8)(found >> 8), first,
                                                   _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(lane, 1)));
        _mm512_mask_storeu_ps(out + i, in, value);
        _mm512_mask_storeu_epi64(at + i, (__mmask8)in, low);
        _mm512_mask_storeu_epi64(at + i + 8, (__mmask8)(in >> 8), high);
        best = _mm512_cvtss_f32(_mm512_permutexvar_ps(last, value));
        place = _mm_cvtsi128_si64(_mm512_castsi512_si128(_mm512_permutexvar_epi64(_mm512_set1_epi64(7), high)));
    }
}

void FAC_ISA_NAME(fac__extreme_lines_f32)(int lines, bool larger, const float *restrict x, int64_t x_line,
                                          float *restrict out, int64_t out_line, int64_t *restrict at, int64_t at_line,
                                          int64_t n) {
    for (int l = 0; l < lines; l++, x += x_line, out += out_line, at += at_line) {
        if (larger)
            extreme_line(true, x, out, at, n);
        else
            extreme_line(false, x, out, at, n);
    }
}
#else
/* Results are put together aside: lines may lie a whole page apart, where a store holds up the next line's load. */
enum { PART = 64 };
typedef struct part {
    float value[FAC_SCAN_LINES][PART];
    int64_t place[FAC_SCAN_LINES][PART];
} part;

#define LINES(NOT_WORSE)                                                       \
    for (int64_t k = 0; k < m; k++)                                            \
        for (int l = 0; l < FAC_SCAN_LINES; l++) {                             \
            const float v = x[l * x_line + i + k];                             \
            const bool take = (v != v) | ((best[l] == best[l]) & (NOT_WORSE)); \
            best[l] = take ? v : best[l];                                      \
            place[l] = take ? i + k : place[l];                                \
            p.value[l][k] = best[l];                                           \
            p.place[l][k] = place[l];                                          \
        }

void FAC_ISA_NAME(fac__extreme_lines_f32)(int lines, bool larger, const float *restrict x, int64_t x_line,
                                          float *restrict out, int64_t out_line, int64_t *restrict at, int64_t at_line,
                                          int64_t n) {
    for (int l = 0; l < lines && lines < FAC_SCAN_LINES; l++) {
        float extreme = larger ? -__builtin_inff() : __builtin_inff();
        int64_t found = 0;
        extreme_each(larger, x + l * x_line, out + l * out_line, at + l * at_line, 0, n, &extreme, &found);
    }
    if (lines < FAC_SCAN_LINES) return;
    float best[FAC_SCAN_LINES];
    int64_t place[FAC_SCAN_LINES] = {0};
    part p;
    for (int l = 0; l < FAC_SCAN_LINES; l++) best[l] = larger ? -__builtin_inff() : __builtin_inff();
    for (int64_t i = 0; i < n; i += PART) {
        const int64_t m = n - i < PART ? n - i : PART;
        if (larger) {
            LINES(v >= best[l])
        } else {
            LINES(v <= best[l])
        }
        for (int l = 0; l < FAC_SCAN_LINES; l++) {
            memcpy(out + l * out_line + i, p.value[l], (size_t)m * sizeof *out);
            memcpy(at + l * at_line + i, p.place[l], (size_t)m * sizeof *at);
        }
    }
}
#endif

/* As many lines as a vector has lanes: squares of them become columns, which are taken one after the other. Where smaller numbers
   win, signs are turned. A square that is not whole is filled with what was there before, which nobody reads. */
typedef int64_t lanes __attribute__((vector_size(FAC_VECTOR_BYTES)));
typedef uint64_t bits __attribute__((vector_size(FAC_VECTOR_BYTES)));
#define L FAC_LANES_F64
static inline void move(void *to, const void *from, size_t bytes) {
    if (bytes == FAC_VECTOR_BYTES)
        memcpy(to, from, FAC_VECTOR_BYTES);
    else
        memcpy(to, from, bytes);
}

typedef struct state {
    fac_vf64 best, hi, lo; /* the sum of all blocks before is in two doubles (Knuth 1969) */
    lanes place, flip;
} state;

/* Of integers, which wrap. */
#define PROD_I64 (-1)
#define SUM_I64 (-2)
#define EXTREME_I64 16

/* What stands in the place of v, number i of the lines. */
static inline __attribute__((always_inline)) fac_vf64 next(int op, state *s, fac_vf64 v, int64_t i) {
    if (op == SCAN_SUM) {
        s->best += v;
        return s->hi + (s->lo + s->best);
    }
    if (op == SCAN_PROD) return s->best *= v;
    if (op == PROD_I64) return s->best = (fac_vf64)((bits)s->best * (bits)v);
    if (op == SUM_I64) return s->best = (fac_vf64)((bits)s->best + (bits)v);
    if (op == EXTREME_I64) {
        const lanes x = (lanes)v ^ s->flip, taken = x >= (lanes)s->best;
        s->best = (fac_vf64)((taken & x) | (~taken & (lanes)s->best));
        s->place = (taken & i) | (~taken & s->place);
        return (fac_vf64)((lanes)s->best ^ s->flip);
    }
    const fac_vf64 y = (fac_vf64)((lanes)v ^ s->flip);
    const lanes take = (y != y) | ((s->best == s->best) & (y >= s->best));
    s->best = (fac_vf64)((take & (lanes)y) | (~take & (lanes)s->best));
    s->place = (take & i) | (~take & s->place);
    return (fac_vf64)((lanes)s->best ^ s->flip);
}

static inline void end_block(state *s) {
    const fac_vf64 x = s->best, sum = s->hi + x, t = sum - s->hi, low = s->lo + ((s->hi - (sum - t)) + (x - t));
    s->hi = sum;
    s->lo = (fac_vf64)((lanes)low & (lanes)(low - low == 0));
    s->best = (fac_vf64){0};
}

/* One square of the lines, from number i on: `bytes` of each. */
static inline __attribute__((always_inline)) void scan_square(int op, state *s, const double *x, int64_t x_line,
                                                              double *out, int64_t out_line, int64_t *at,
                                                              int64_t at_line, int64_t i, size_t bytes) {
    fac_vf64 v[L], p[L];
    for (int l = 0; l < L; l++) {
        if (bytes < FAC_VECTOR_BYTES) v[l] = (fac_vf64){0};
        move(&v[l], x + l * x_line + i, bytes);
    }
    fac_transpose_f64(v);
#pragma GCC unroll 8
    for (int k = 0; k < L; k++) {
        v[k] = next(op, s, v[k], i + k);
        if (op >= SCAN_MAX) p[k] = (fac_vf64)s->place;
    }
    fac_transpose_f64(v);
    for (int l = 0; l < L; l++) move(out + l * out_line + i, &v[l], bytes);
    if (op == SCAN_SUM && (i + L) % FAC_SCAN_BLOCK == 0) end_block(s);
    if (op < SCAN_MAX) return;
    fac_transpose_f64(p);
    for (int l = 0; l < L; l++) move(at + l * at_line + i, &p[l], bytes);
}

#define SCAN_COLUMNS(NAME, OP, FIRST)                                                                                 \
    static void NAME(const double *x, int64_t x_line, double *out, int64_t out_line, int64_t *at, int64_t at_line,    \
                     int64_t n, lanes flip) {                                                                         \
        state s = {.best = (fac_vf64)(FIRST), .flip = flip};                                                          \
        int64_t i = 0;                                                                                                \
        for (; i + L <= n; i += L)                                                                                    \
            scan_square((int)(OP), &s, x, x_line, out, out_line, at, at_line, i, FAC_VECTOR_BYTES);                   \
        if (i < n) scan_square((int)(OP), &s, x, x_line, out, out_line, at, at_line, i, (size_t)(n - i) * sizeof *x); \
    }
SCAN_COLUMNS(sum_f64, SCAN_SUM, fac_splat_f64(0))
SCAN_COLUMNS(prod_f64, SCAN_PROD, fac_splat_f64(1))
SCAN_COLUMNS(prod_i64, PROD_I64, (lanes){0} + 1)
SCAN_COLUMNS(sum_i64, SUM_I64, (lanes){0})
SCAN_COLUMNS(extreme_i64, EXTREME_I64, (lanes){0} + INT64_MIN)
SCAN_COLUMNS(extreme_f64, SCAN_MAX, fac_splat_f64(-__builtin_inf()))

void FAC_ISA_NAME(fac__scan_lines)(scan_op op, fac_acc kind, const void *vx, int64_t x_line, void *vout,
                                   int64_t out_line, int64_t *at, int64_t at_line, int64_t n) {
    const lanes flip = (lanes){0} + (op != SCAN_MIN ? 0 : kind == FAC_ACC_I64 ? -1 : INT64_MIN);
    const double *x = vx;
    double *out = vout;
    for (int l = 0; l < FAC_SCAN_WIDE; l += L, x += L * x_line, out += L * out_line, at += at ? L * at_line : 0)
        (kind == FAC_ACC_I64 ? (op == SCAN_SUM    ? sum_i64
                                : op == SCAN_PROD ? prod_i64
                                                  : extreme_i64)
         : op == SCAN_SUM    ? sum_f64
         : op == SCAN_PROD   ? prod_f64
                             : extreme_f64)(x, x_line, out, out_line, at, at_line, n, flip);
}

/* Without branches, so that they vectorise. */
#define EXTREMES(NAME, T, TAKES)                                                                                \
    static void NAME(T *restrict best, int64_t *restrict where, T *restrict x, int64_t *restrict at, int64_t w, \
                     int64_t rows, int64_t i) {                                                                 \
        for (int64_t r = 0; r < rows; r++, x += w, at += w) {                                                   \
            FAC_IVDEP for (int64_t j = 0; j < w; j++) {                                                         \
                const bool take = (TAKES);                                                                      \
                best[j] = take ? x[j] : best[j];                                                                \
                where[j] = take ? i + r : where[j];                                                             \
                x[j] = best[j];                                                                                 \
                at[j] = where[j];                                                                               \
            }                                                                                                   \
        }                                                                                                       \
    }
EXTREMES(larger_f64, double, (x[j] != x[j]) | ((best[j] == best[j]) & (x[j] >= best[j])))
EXTREMES(smaller_f64, double, (x[j] != x[j]) | ((best[j] == best[j]) & (x[j] <= best[j])))
EXTREMES(larger_i64, int64_t, x[j] >= best[j])
EXTREMES(smaller_i64, int64_t, x[j] <= best[j])

void FAC_ISA_NAME(fac__scan_extremes)(scan_op op, fac_acc kind, void *best, int64_t *where, void *x, int64_t *at,
                                      int64_t w, int64_t rows, int64_t i) {
    if (kind == FAC_ACC_I64)
        (op == SCAN_MAX ? larger_i64 : smaller_i64)(best, where, x, at, w, rows, i);
    else
        (op == SCAN_MAX ? larger_f64 : smaller_f64)(best, where, x, at, w, rows, i);
}

#define RUNNING(NAME, T, OP)                                                          \
    static void NAME(T *restrict acc, T *restrict x, int64_t w, int64_t rows) {       \
        for (int64_t r = 0; r < rows; r++, x += w)                                    \
            FAC_IVDEP for (int64_t j = 0; j < w; j++) x[j] = acc[j] = acc[j] OP x[j]; \
    }
RUNNING(running_sum_f64, double, +)
RUNNING(running_prod_f64, double, *)
RUNNING(running_sum_u64, uint64_t, +)
RUNNING(running_prod_u64, uint64_t, *)

void FAC_ISA_NAME(fac__scan_rows)(scan_op op, fac_acc kind, void *acc, void *x, int64_t w, int64_t rows) {
    if (kind == FAC_ACC_I64)
        (op == SCAN_SUM ? running_sum_u64 : running_prod_u64)(acc, x, w, rows);
    else
        (op == SCAN_SUM ? running_sum_f64 : running_prod_f64)(acc, x, w, rows);
}
