/* Points times channels: V vectors of a block's channels at P points stay in registers. For each word of a run the block's weights are
   read once, and multiplied with the word of each point, which is broadcast. A word is a number of f32, or a pair of bf16 that one
   instruction multiplies and adds in f32 (it takes numbers below the normal range for zero). Each sum runs over the words of a pass
   in order, and over passes, wherever the points are cut; the bias comes last. Short tiles compute their last point again. */
#include "backend/cpu/kernels/conv_last.h"
#include "backend/cpu/half.h"

#if FAC_ISA_LEVEL >= 2
#define WITH_BF16 __attribute__((target("avx512bf16")))
#define INLINE __attribute__((always_inline)) static inline

static __mmask16 lanes_of(int64_t n) { return (__mmask16)((1u << fac__max(0, fac__min(FAC_CONV_LANES, n))) - 1); }

INLINE __m512 bias_of(const void *bias, bool bf16, int v, __mmask16 lanes) {
    if (!bias) return _mm512_setzero_ps();
    if (!bf16) return _mm512_maskz_loadu_ps(lanes, (const float *)bias + v * FAC_CONV_LANES);
    const __m256i codes = _mm256_maskz_loadu_epi16(lanes, (const uint16_t *)bias + v * FAC_CONV_LANES);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(codes), 16));
}

#define STORE_F32(to, lanes, sum) _mm512_mask_storeu_ps(to, lanes, sum)
#define STORE_BF16(to, lanes, sum) _mm256_mask_storeu_epi16(to, lanes, (__m256i)_mm512_cvtneps_pbh(sum))

/* P and V are constant where this is inlined. */
#define TILE(P, V, MULTIPLY_ADD, STORE)                                                                             \
    __m512 bias[V];                                                                                                 \
    __mmask16 lanes[V];                                                                                             \
    for (int v = 0; v < V; v++) {                                                                                   \
        lanes[v] = lanes_of(t->channels - v * FAC_CONV_LANES);                                                      \
        bias[v] = bias_of(t->bias, t->bf16, v, lanes[v]);                                                           \
    }                                                                                                               \
    const int item = t->bf16 ? 2 : 4;                                                                               \
    const int64_t fetched = t->next_bytes / fac__max(1, t->points / P);                                             \
    const char *next = t->next;                                                                                     \
    for (int64_t first = 0; first < t->points; first += P) {                                                        \
        for (int64_t b = 0; b < fetched; b += 64) _mm_prefetch(next + b, _MM_HINT_T1);                              \
        next += fetched;                                                                                            \
        const int64_t n = fac__min(P, t->points - first);                                                           \
        __m512 acc[P][V];                                                                                           \
        const char *at[P];                                                                                          \
        _Pragma("GCC unroll 16") for (int i = 0; i < P; i++) {                                                      \
            const int64_t point = first + fac__min(i, n - 1);                                                       \
            at[i] = t->in + t->from[point];                                                                         \
            _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) acc[i][v] = _mm512_setzero_ps();                    \
        }                                                                                                           \
        const float *w = t->weight;                                                                                 \
        for (int64_t r = 0; r < t->n_runs; r++) {                                                                   \
            const int64_t offset = t->runs[r].offset, end = offset + t->runs[r].length * 4;                         \
            for (int64_t k = offset; k < end; k += 4, w += V * FAC_CONV_LANES) {                                    \
                __m512 weight[V];                                                                                   \
                _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) weight[v] =                                     \
                    _mm512_loadu_ps(w + v * FAC_CONV_LANES);                                                        \
                _Pragma("GCC unroll 16") for (int i = 0; i < P; i++) {                                              \
                    const __m512 x = word_at(at[i] + k);                                                            \
                    _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) MULTIPLY_ADD(acc[i][v], x, weight[v]);      \
                }                                                                                                   \
            }                                                                                                       \
        }                                                                                                           \
        if (t->more) {                                                                                              \
            _Pragma("GCC unroll 16") for (int i = 0; i < P; i++) {                                                  \
                const float *sums = t->sums + (first + fac__min(i, n - 1)) * V * FAC_CONV_LANES;                    \
                _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) acc[i][v] =                                     \
                    _mm512_add_ps(_mm512_loadu_ps(sums + v * FAC_CONV_LANES), acc[i][v]);                           \
            }                                                                                                       \
        }                                                                                                           \
        if (!t->done) {                                                                                             \
            _Pragma("GCC unroll 16") for (int i = 0; i < P; i++) {                                                  \
                float *to = t->sums + (first + fac__min(i, n - 1)) * V * FAC_CONV_LANES;                            \
                _Pragma("GCC unroll 4") for (int v = 0; v < V; v++)                                                 \
                    _mm512_storeu_ps(to + v * FAC_CONV_LANES, acc[i][v]);                                           \
            }                                                                                                       \
            continue;                                                                                               \
        }                                                                                                           \
        _Pragma("GCC unroll 16") for (int i = 0; i < P; i++) {                                                      \
            char *to = t->out + t->to[first + fac__min(i, n - 1)];                                                  \
            _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) STORE(                                              \
                to + v * FAC_CONV_LANES * item, lanes[v], t->bias ? _mm512_add_ps(acc[i][v], bias[v]) : acc[i][v]); \
        }                                                                                                           \
    }

INLINE __m512 word_at(const char *p) {
    int word;
    memcpy(&word, p, sizeof word);
    return _mm512_castsi512_ps(_mm512_set1_epi32(word));
}
#define MULTIPLY_F32(acc, x, w) acc = _mm512_fmadd_ps(x, w, acc)
#define MULTIPLY_BF16(acc, x, w) acc = _mm512_dpbf16_ps(acc, (__m512bh)(x), (__m512bh)(w))

#define TILES(P, V)                                                                             \
    static void tiles_f32_##V(const fac_conv_tiles *t) { TILE(P, V, MULTIPLY_F32, STORE_F32); } \
    WITH_BF16 static void tiles_bf16_##V(const fac_conv_tiles *t) { TILE(P, V, MULTIPLY_BF16, STORE_BF16); }
TILES(12, 1)
TILES(12, 2)
TILES(8, 3)
TILES(6, 4)

void FAC_ISA_NAME(fac__conv_last_tiles)(const fac_conv_tiles *t) {
    static void (*const by_width[2][FAC_CONV_VECTORS])(const fac_conv_tiles *) = {
        {tiles_f32_1, tiles_f32_2, tiles_f32_3, tiles_f32_4}, {tiles_bf16_1, tiles_bf16_2, tiles_bf16_3, tiles_bf16_4}};
    by_width[t->bf16][t->vectors - 1](t);
}

/* ---- channels of their own ------------------------------------------------------------------------------------------------------- */

/* One line of taps: each point of the input that is read serves the line above with the weights `up`, the one below with `down`. Of the
   last pair of an odd number of taps, the point that is not met is masked, as it may be infinite. */
#define LINE_OF_TAPS(HAS_UP, HAS_DOWN, MULTIPLY_ADD, up, down)                                                         \
    for (int64_t k = 0; k < l->taps; k++) {                                                                            \
        const float *at = (const float *)(const void *)(line + l->offset[k]);                                          \
        const __m512 a = _mm512_loadu_ps((up) + k * FAC_CONV_LANES), b = _mm512_loadu_ps((down) + k * FAC_CONV_LANES); \
        const __m512i met = _mm512_set1_epi32(l->odd && k == l->taps - 1 ? 0xffff : -1);                               \
        _Pragma("GCC unroll 8") for (int i = 0; i < FAC_CONV_WIDTH; i++) {                                             \
            __m512 x = _mm512_loadu_ps(at + i * FAC_CONV_LANES);                                                       \
            if (l->odd) x = (__m512)_mm512_and_si512((__m512i)x, met);                                                 \
            __asm__("" : "+v"(x)); /* read once, not by both sums */                                                   \
            if (HAS_UP) MULTIPLY_ADD(acc[0][i], x, a);                                                                 \
            if (HAS_DOWN) MULTIPLY_ADD(acc[1][i], x, b);                                                               \
        }                                                                                                              \
    }

/* Downwards, as the next lines read what these do. */
#define LINES(MULTIPLY_ADD, STORE)                                                                         \
    const __mmask16 lanes = lanes_of(l->channels);                                                         \
    const __m512 bias = bias_of(l->bias, l->bf16, 0, lanes);                                               \
    const int64_t row = l->taps * FAC_CONV_LANES;                                                          \
    for (int64_t x = 0; x < l->width; x += FAC_CONV_WIDTH) {                                               \
        const int64_t first = fac__min(x, l->width - FAC_CONV_WIDTH);                                      \
        for (int64_t y = 0; y < l->lines; y += 2) {                                                        \
            const char *line = l->in + y * l->in_line + first * (int64_t)sizeof(fac_vf32);                 \
            __m512 acc[2][FAC_CONV_WIDTH];                                                                 \
            _Pragma("GCC unroll 8") for (int i = 0; i < FAC_CONV_WIDTH; i++) acc[0][i] = acc[1][i] = bias; \
            const float *w = l->weight;                                                                    \
            LINE_OF_TAPS(true, false, MULTIPLY_ADD, w, w)                                                  \
            line += l->in_line;                                                                            \
            for (int64_t r = 1; r < l->rows; r++, w += row, line += l->in_line) {                          \
                LINE_OF_TAPS(true, true, MULTIPLY_ADD, w + row, w)                                         \
            }                                                                                              \
            LINE_OF_TAPS(false, true, MULTIPLY_ADD, w, w)                                                  \
            char *to = l->out + y * l->out_line + first * l->out_point;                                    \
            const __mmask16 below = y + 1 < l->lines ? lanes : 0;                                          \
            _Pragma("GCC unroll 8") for (int i = 0; i < FAC_CONV_WIDTH; i++) {                             \
                STORE(to + i * l->out_point, lanes, acc[0][i]);                                            \
                STORE(to + l->out_line + i * l->out_point, below, acc[1][i]);                              \
            }                                                                                              \
        }                                                                                                  \
    }

static void lines_f32(const fac_conv_lines *l) { LINES(MULTIPLY_F32, STORE_F32); }
WITH_BF16 static void lines_bf16(const fac_conv_lines *l) { LINES(MULTIPLY_BF16, STORE_BF16); }
void FAC_ISA_NAME(fac__conv_last_lines)(const fac_conv_lines *l) {
    if (l->bf16)
        lines_bf16(l);
    else
        lines_f32(l);
}

#define SINGLE(STORE)                                                                                               \
    const __mmask16 lanes = lanes_of(t->channels);                                                                  \
    const __m512 bias = bias_of(t->bias, t->bf16, 0, lanes);                                                        \
    for (int64_t first = 0; first < t->points; first += FAC_CONV_POINTS) {                                          \
        const int64_t n = fac__min(FAC_CONV_POINTS, t->points - first);                                             \
        fac_vf32 acc[FAC_CONV_POINTS];                                                                              \
        const char *at[FAC_CONV_POINTS];                                                                            \
        _Pragma("GCC unroll 16") for (int i = 0; i < FAC_CONV_POINTS; i++) {                                        \
            at[i] = t->in + t->from[first + fac__min(i, n - 1)];                                                    \
            acc[i] = (fac_vf32)bias;                                                                                \
        }                                                                                                           \
        const float *w = t->weight;                                                                                 \
        for (int64_t r = 0; r < t->n_runs; r++) {                                                                   \
            const int64_t offset = t->runs[r].offset, end = offset + t->runs[r].length * (int64_t)sizeof(fac_vf32); \
            for (int64_t k = offset; k < end; k += (int64_t)sizeof(fac_vf32), w += FAC_CONV_LANES) {                \
                const fac_vf32 weight = fac_load_f32(w);                                                            \
                _Pragma("GCC unroll 16") for (int i = 0; i < FAC_CONV_POINTS; i++) acc[i] =                         \
                    fac_fma_f32(weight, fac_load_f32((const float *)(const void *)(at[i] + k)), acc[i]);            \
            }                                                                                                       \
        }                                                                                                           \
        _Pragma("GCC unroll 16") for (int i = 0; i < FAC_CONV_POINTS; i++) {                                        \
            char *to = t->out + t->to[first + fac__min(i, n - 1)];                                                  \
            STORE(to, lanes, (__m512)acc[i]);                                                                       \
        }                                                                                                           \
    }

static void single_f32(const fac_conv_tiles *t) { SINGLE(STORE_F32); }
WITH_BF16 static void single_bf16(const fac_conv_tiles *t) { SINGLE(STORE_BF16); }
void FAC_ISA_NAME(fac__conv_last_single)(const fac_conv_tiles *t) {
    if (t->bf16)
        single_bf16(t);
    else
        single_f32(t);
}

INLINE __m512i codes_at(const char *p, __mmask16 lanes) {
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, p));
}

/* What a point holds next is fetched while others are spread. */
void FAC_ISA_NAME(fac__conv_last_spread)(const fac_conv_spread *s) {
    enum { AHEAD = 16 };
    const int64_t item = s->bf16 ? 2 : 4;
    for (int64_t i = fac__max(0, s->begin - s->next); i < s->end; i++) {
        const char *from = s->from + (i - s->begin) * s->point, *next = from + s->next * s->point;
        char *block = s->to + i * (int64_t)sizeof(fac_vf32);
        for (int64_t b = 0; b < s->channels * item; b += 64) _mm_prefetch(from + AHEAD * s->point + b, _MM_HINT_T0);
        for (int64_t c = 0; c < s->channels; c += FAC_CONV_LANES, block += s->plane) {
            const __mmask16 lanes = lanes_of(s->channels - c);
            __m512i v;
            if (s->next) {
                const __m512i high = codes_at(next + c * 2, i + s->next < s->end ? lanes : 0);
                v = _mm512_or_si512(codes_at(from + c * 2, i >= s->begin ? lanes : 0), _mm512_slli_epi32(high, 16));
            } else {
                v = s->bf16 ? _mm512_slli_epi32(codes_at(from + c * 2, lanes), 16)
                            : _mm512_maskz_loadu_epi32(lanes, from + c * 4);
            }
            _mm512_storeu_si512(block, v);
        }
    }
}

/* ---- weights ----------------------------------------------------------------------------------------------------------------- */

/* P rows times V vectors in registers; short tiles compute their last row again. */
#define OUTER(P, V, MULTIPLY_ADD)                                                                                    \
    __mmask16 lanes[V];                                                                                              \
    for (int v = 0; v < V; v++) lanes[v] = lanes_of(o->channels - v * FAC_CONV_LANES);                               \
    for (int64_t first = 0; first < o->rows; first += P) {                                                           \
        const int64_t n = fac__min(P, o->rows - first);                                                              \
        __m512 acc[P][V];                                                                                            \
        const char *at[P];                                                                                           \
        _Pragma("GCC unroll 16") for (int i = 0; i < P; i++) {                                                       \
            const int64_t row = first + fac__min(i, n - 1);                                                          \
            at[i] = o->small + row / FAC_CONV_LANES * o->small_plane + row % FAC_CONV_LANES * 4;                     \
            _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) acc[i][v] =                                          \
                _mm512_maskz_loadu_ps(lanes[v], o->sum + row * o->ld + v * FAC_CONV_LANES);                          \
        }                                                                                                            \
        int64_t p = 0;                                                                                               \
        for (; p < o->points; p++) {                                                                                 \
            const int64_t word = o->at_small[p];                                                                     \
            const char *large = o->large + o->at_large[p];                                                           \
            __m512 x[V];                                                                                             \
            _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) x[v] = _mm512_loadu_ps(large + v * o->large_plane);  \
            _Pragma("GCC unroll 16") for (int i = 0; i < P; i++) {                                                   \
                const __m512 a = word_at(at[i] + word);                                                              \
                _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) MULTIPLY_ADD(acc[i][v], a, x[v]);                \
            }                                                                                                        \
        }                                                                                                            \
        for (; p < o->points + o->odd; p++) { /* what the second would meet may be infinite */                       \
            const int64_t word = o->at_small[p];                                                                     \
            const char *large = o->large + o->at_large[p];                                                           \
            __m512 x[V];                                                                                             \
            _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) x[v] =                                               \
                (__m512)_mm512_and_si512(_mm512_loadu_si512(large + v * o->large_plane), _mm512_set1_epi32(0xffff)); \
            _Pragma("GCC unroll 16") for (int i = 0; i < P; i++) {                                                   \
                const __m512 a = word_at(at[i] + word);                                                              \
                _Pragma("GCC unroll 4") for (int v = 0; v < V; v++) MULTIPLY_ADD(acc[i][v], a, x[v]);                \
            }                                                                                                        \
        }                                                                                                            \
        _Pragma("GCC unroll 16") for (int i = 0; i < P; i++) {                                                       \
            float *to = o->sum + (first + fac__min(i, n - 1)) * o->ld;                                               \
            _Pragma("GCC unroll 4") for (int v = 0; v < V; v++)                                                      \
                _mm512_mask_storeu_ps(to + v * FAC_CONV_LANES, lanes[v], acc[i][v]);                                 \
        }                                                                                                            \
    }

#define OUTERS(P, V)                                                                  \
    static void outer_f32_##V(const fac_conv_outer *o) { OUTER(P, V, MULTIPLY_F32); } \
    WITH_BF16 static void outer_bf16_##V(const fac_conv_outer *o) { OUTER(P, V, MULTIPLY_BF16); }

OUTERS(12, 1)
OUTERS(12, 2)
OUTERS(8, 3)
OUTERS(6, 4)

void FAC_ISA_NAME(fac__conv_last_outer)(const fac_conv_outer *o) {
    static void (*const by_width[2][FAC_CONV_VECTORS])(const fac_conv_outer *) = {
        {outer_f32_1, outer_f32_2, outer_f32_3, outer_f32_4}, {outer_bf16_1, outer_bf16_2, outer_bf16_3, outer_bf16_4}};
    by_width[o->bf16][o->vectors - 1](o);
}

/* TAPS taps of a vector of channels; of the last few, some again. */
#define SINGLE_OUTER(TAPS)                                                                                        \
    static void single_outer_##TAPS(const fac_conv_outer *o, const int64_t *offsets, int64_t n, int v) {          \
        const char *small = o->small + v * o->small_plane, *large = o->large + v * o->large_plane, *at[TAPS];     \
        __m512 acc[TAPS];                                                                                         \
        _Pragma("GCC unroll 9") for (int t = 0; t < TAPS; t++) {                                                  \
            acc[t] = _mm512_setzero_ps();                                                                         \
            at[t] = large + offsets[fac__min(t, n - 1)];                                                          \
        }                                                                                                         \
        for (int64_t p = 0; p < o->points; p++) {                                                                 \
            const int64_t where = o->at_large[p];                                                                 \
            const __m512 s = _mm512_loadu_ps(small + o->at_small[p]);                                             \
            _Pragma("GCC unroll 9") for (int t = 0; t < TAPS; t++) acc[t] =                                       \
                _mm512_fmadd_ps(s, _mm512_loadu_ps(at[t] + where), acc[t]);                                       \
        }                                                                                                         \
        const __mmask16 lanes = lanes_of(o->channels - v * FAC_CONV_LANES);                                       \
        for (int t = 0; t < TAPS; t++) {                                                                          \
            float *to = o->sum + t * o->ld + v * FAC_CONV_LANES;                                                  \
            if (t < n) _mm512_mask_storeu_ps(to, lanes, _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, to), acc[t])); \
        }                                                                                                         \
    }
SINGLE_OUTER(5)
SINGLE_OUTER(7)
SINGLE_OUTER(9)

void FAC_ISA_NAME(fac__conv_last_single_outer)(const fac_conv_outer *o, const int64_t *offsets) {
    const int64_t taps = o->rows, step = taps % 9 == 0 ? 9 : taps % 5 == 0 ? 5 : 7;
    fac_conv_outer part = *o;
    for (int64_t t = 0; t < taps; t += step) {
        const int64_t n = fac__min(step, taps - t);
        part.sum = o->sum + t * o->ld;
        for (int v = 0; v < o->vectors; v++)
            (step == 9 ? single_outer_9 : step == 5 ? single_outer_5 : single_outer_7)(&part, offsets + t, n, v);
    }
}

/* ---- packing ----------------------------------------------------------------------------------------------------------------- */

static uint32_t number(const fac_conv_pack *p, int64_t i, int64_t k) {
    if (i >= p->channels || k >= p->depth) return 0;
    const char *at = p->from + (i * p->is + k * p->ks) * (p->bf16 ? 2 : 4);
    uint32_t word = 0;
    memcpy(&word, at, p->bf16 ? 2 : 4);
    return word;
}
static uint32_t word_of(const fac_conv_pack *p, int64_t i, int64_t k) {
    return p->bf16 ? number(p, i, 2 * k) | number(p, i, 2 * k + 1) << 16 : number(p, i, k);
}

/* Sixteen channels from i on, sixteen words from k on, in memory side by side. */
static void pack_along(const fac_conv_pack *p, int64_t i, int64_t k, int64_t words) {
    fac_vf32 v[FAC_CONV_LANES];
    const int64_t item = p->bf16 ? 2 : 4, bytes = fac__min(4 * FAC_CONV_LANES, p->depth * item - k * 4);
    const __mmask32 halves = (__mmask32)((UINT64_C(1) << bytes / 2) - 1);
#pragma GCC unroll 16
    for (int c = 0; c < FAC_CONV_LANES; c++) {
        const char *row = p->from + (i + c) * p->is * item + k * 4;
        v[c] = (fac_vf32)_mm512_maskz_loadu_epi16(i + c < p->channels ? halves : 0, row);
    }
    fac_transpose_f32(v);
    for (int64_t w = 0; w < words; w++) memcpy(p->to + (k + w) * p->ld + i, &v[w], sizeof v[w]);
}

/* Channels of the result side by side. */
static void pack_across(const fac_conv_pack *p, int64_t i, int64_t k) {
    const __mmask16 lanes = lanes_of(p->channels - i);
    uint32_t *to = p->to + k * p->ld + i;
    if (!p->bf16) {
        _mm512_storeu_si512(to, _mm512_maskz_loadu_epi32(lanes, (const float *)(const void *)p->from + k * p->ks + i));
        return;
    }
    const uint16_t *row = (const uint16_t *)(const void *)p->from + 2 * k * p->ks + i;
    const __m256i low = _mm256_maskz_loadu_epi16(lanes, row),
                  high = _mm256_maskz_loadu_epi16(2 * k + 1 < p->depth ? lanes : 0, row + p->ks);
    _mm512_storeu_si512(
        to, _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16)));
}

void FAC_ISA_NAME(fac__conv_last_pack)(const fac_conv_pack *p) {
    const int64_t words = p->bf16 ? (p->depth + 1) / 2 : p->depth;
    for (int64_t i = 0; i < p->ld; i += FAC_CONV_LANES) {
        for (int64_t k = 0; k < words;) {
            const int64_t n = p->ks == 1 ? fac__min(FAC_CONV_LANES, words - k) : 1;
            if (p->ks == 1)
                pack_along(p, i, k, n);
            else if (p->is == 1)
                pack_across(p, i, k);
            else
                for (int c = 0; c < FAC_CONV_LANES; c++) p->to[k * p->ld + i + c] = word_of(p, i + c, k);
            k += n;
        }
    }
}

/* Sixteen numbers of each channel at a time, which go to sixteen words; the second numbers of pairs come after the first. */
void FAC_ISA_NAME(fac__conv_last_pack_taps)(const fac_conv_pack *p, uint32_t *const *to) {
    const int64_t taps = p->ks, item = p->bf16 ? 2 : 4, all = p->depth * taps;
    for (int64_t i = 0; i < p->ld; i += FAC_CONV_LANES) {
        int64_t k = 0, tap = 0;
        for (int64_t j = 0; j < all; j += FAC_CONV_LANES) {
            fac_vf32 v[FAC_CONV_LANES];
            const __mmask16 in = lanes_of(all - j);
#pragma GCC unroll 16
            for (int c = 0; c < FAC_CONV_LANES; c++) {
                const char *row = p->from + ((i + c) * p->is + j) * item;
                const __mmask16 m = i + c < p->channels ? in : 0;
                v[c] = p->bf16 ? (fac_vf32)_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, row))
                               : (fac_vf32)_mm512_maskz_loadu_ps(m, row);
            }
            fac_transpose_f32(v);
            for (int64_t w = 0; w < fac__min(FAC_CONV_LANES, all - j); w++) {
                uint32_t *at = to[tap];
                if (at) at += (p->bf16 ? k / 2 : k) * p->ld + i;
                __m512i word = (__m512i)v[w];
                if (at && p->bf16 && k % 2) word = _mm512_or_si512(_mm512_loadu_si512(at), _mm512_slli_epi32(word, 16));
                if (at) _mm512_storeu_si512(at, word);
                if (++tap == taps) tap = 0, k++;
            }
        }
    }
}

#else /* not run */
void FAC_ISA_NAME(fac__conv_last_tiles)(const fac_conv_tiles *t) { (void)t; }
void FAC_ISA_NAME(fac__conv_last_single)(const fac_conv_tiles *t) { (void)t; }
void FAC_ISA_NAME(fac__conv_last_lines)(const fac_conv_lines *l) { (void)l; }
void FAC_ISA_NAME(fac__conv_last_outer)(const fac_conv_outer *o) { (void)o; }
void FAC_ISA_NAME(fac__conv_last_single_outer)(const fac_conv_outer *o, const int64_t *offsets) {
    (void)o, (void)offsets;
}
void FAC_ISA_NAME(fac__conv_last_spread)(const fac_conv_spread *s) { (void)s; }
void FAC_ISA_NAME(fac__conv_last_pack)(const fac_conv_pack *p) { (void)p; }
void FAC_ISA_NAME(fac__conv_last_pack_taps)(const fac_conv_pack *p, uint32_t *const *to) { (void)p, (void)to; }
#endif
