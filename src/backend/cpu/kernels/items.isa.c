/* The strided copy under every other: loops for one side without gaps vectorise, the general one cannot. One element spread over a row
   and a row from its end to its start have loops of their own, rows of two to four elements are moved without one. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/simd.h"

/* Runs that do not overlap. Four vectors are loaded before one is stored: where the low twelve bits of the destination's address are
   somewhat above the source's, as in rows moved by a few elements, the C library's loads wait for stores that only look like theirs. */
typedef uint8_t bytes __attribute__((vector_size(FAC_VECTOR_BYTES)));
enum { WIDTH = FAC_VECTOR_BYTES, STEP = 4 * WIDTH, LONG_RUN = 1 << 20 /* where the C library goes past the cache */ };
static inline bytes load_bytes(const char *p) {
    bytes v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void store_bytes(char *p, bytes v) { memcpy(p, &v, sizeof v); }
static __attribute__((noinline)) void copy_run(char *dst, const char *src, size_t n) {
    const char *rest = src + n - STEP;
    const bytes head = load_bytes(src), last0 = load_bytes(rest), last1 = load_bytes(rest + WIDTH),
                last2 = load_bytes(rest + 2 * WIDTH), last3 = load_bytes(rest + 3 * WIDTH);
    char *const end = dst + n;
    const size_t to_aligned = WIDTH - ((uintptr_t)dst & (WIDTH - 1));
    char *d = dst + to_aligned;
    const char *s = src + to_aligned;
    store_bytes(dst, head);
    for (; end - d > STEP; d += STEP, s += STEP) {
        const bytes a = load_bytes(s), b = load_bytes(s + WIDTH), c = load_bytes(s + 2 * WIDTH),
                    e = load_bytes(s + 3 * WIDTH);
        store_bytes(d, a), store_bytes(d + WIDTH, b), store_bytes(d + 2 * WIDTH, c), store_bytes(d + 3 * WIDTH, e);
    }
    store_bytes(end - STEP, last0), store_bytes(end - 3 * WIDTH, last1);
    store_bytes(end - 2 * WIDTH, last2), store_bytes(end - WIDTH, last3);
}

#if FAC_ISA_LEVEL >= 2
/* To every other place, as parts of complex numbers go: whole vectors, without a write to the places between. */
#define TO_EVERY_OTHER(name, T, MASK, WIDEN, STORE)                                                   \
    static void name(char *dst, const char *src, int64_t n) {                                         \
        enum { HALF = (int)(32 / sizeof(T)) };                                                        \
        int64_t i = 0;                                                                                \
        for (; i + HALF <= n; i += HALF) {                                                            \
            const __m256i half = _mm256_loadu_si256((const void *)(src + i * (int)sizeof(T)));        \
            STORE(dst + 2 * i * (int)sizeof(T), MASK, WIDEN(half));                                   \
        }                                                                                             \
        for (; i < n; i++) memcpy(dst + 2 * i * (int)sizeof(T), src + i * (int)sizeof(T), sizeof(T)); \
    }
/* From every other place: the lower halves of items twice as wide. What lies behind the last element is not read. Of a run
   that is not short, the lines far ahead are asked for: those of the next run, too, where the runs of two operands take turns. */
#define FROM_EVERY_OTHER(name, T, HALVES)                                                              \
    static void name(char *dst, const char *src, int64_t n) {                                          \
        enum { HALF = (int)(32 / sizeof(T)), LONG_BYTES = 512, AHEAD = 1024 };                         \
        const int ahead = n * (int)sizeof(T) >= LONG_BYTES ? AHEAD : 0;                                \
        int64_t i = 0;                                                                                 \
        for (; i + HALF < n; i += HALF) {                                                              \
            const char *const from = src + 2 * i * (int)sizeof(T);                                     \
            _mm_prefetch(from + ahead, _MM_HINT_T0);                                                   \
            _mm256_storeu_si256((void *)(dst + i * (int)sizeof(T)), HALVES(_mm512_loadu_si512(from))); \
        }                                                                                              \
        for (; i < n; i++) memcpy(dst + i * (int)sizeof(T), src + 2 * i * (int)sizeof(T), sizeof(T));  \
    }
#define HALVES_8(v) _mm512_castsi512_si256(_mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 0, 2, 4, 6), v))
FROM_EVERY_OTHER(of_every_other_1, uint8_t, _mm512_cvtepi16_epi8)
FROM_EVERY_OTHER(of_every_other_2, uint16_t, _mm512_cvtepi32_epi16)
FROM_EVERY_OTHER(of_every_other_4, uint32_t, _mm512_cvtepi64_epi32)
FROM_EVERY_OTHER(of_every_other_8, uint64_t, HALVES_8)
#define SPREAD_4(v) _mm512_cvtepu32_epi64(v)
#define SPREAD_8(v) _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 0, 1, 0, 2, 0, 3, 0), _mm512_castsi256_si512(v))
TO_EVERY_OTHER(every_other_4, uint32_t, 0x5555, SPREAD_4, _mm512_mask_storeu_epi32)
TO_EVERY_OTHER(every_other_8, uint64_t, 0x55, SPREAD_8, _mm512_mask_storeu_epi64)
#endif

#if FAC_ISA_LEVEL >= 2
/* Rows of at most a vector from their ends to their starts; src is the first row's last item. A row lies at a vector's end before, and
   at its start after lanes change places; several in a lane that follow each other stay where they are. */
static void turn_rows(size_t item, char *dst, const char *src, size_t run, int64_t rows, int64_t to_row,
                      int64_t from_row) {
    const bool several = 16 % run == 0 && to_row == (int64_t)run && from_row == to_row;
    const size_t group = several ? run : 16, before = several ? 0 : 64 - run;
    uint8_t order[16];
    for (size_t k = 0; k < 16; k++)
        order[k] = (uint8_t)(k / group * group + group - item - k % group / item * item + k % item);
    const __m512i by = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)order));
    const char *low = src - (run - item);
    if (several)
        for (int64_t left = rows * (int64_t)run; left > 0; left -= 64, low += 64, dst += 64) {
            const __mmask64 some = left < 64 ? ~(~UINT64_C(0) << left) : ~UINT64_C(0);
            _mm512_mask_storeu_epi8(dst, some, _mm512_shuffle_epi8(_mm512_maskz_loadu_epi8(some, low), by));
        }
    else
        for (; rows > 0; rows--, dst += to_row, low += from_row) {
            const __m512i v = _mm512_maskz_loadu_epi8(~UINT64_C(0) << before, (const void *)((uintptr_t)low - before));
            const __m512i lanes = _mm512_shuffle_i64x2(v, v, 0x1b);
            _mm512_mask_storeu_epi8(dst, ~UINT64_C(0) >> before, _mm512_shuffle_epi8(lanes, by));
        }
}
#endif

#define COPY(T)                                                                        \
    do {                                                                               \
        const int64_t size = sizeof(T);                                                \
        T *d = (T *)(void *)dst;                                                       \
        const T *s = (const T *)(const void *)src;                                     \
        if (to == size && from == 0) {                                                 \
            const T v = *s;                                                            \
            FAC_IVDEP for (int64_t i = 0; i < n; i++) d[i] = v;                        \
        } else if (to == size && from == -size) {                                      \
            FAC_IVDEP for (int64_t i = 0; i < n; i++) d[i] = s[-i];                    \
        } else if (to == size) {                                                       \
            FAC_IVDEP for (int64_t i = 0; i < n; i++) d[i] = s[i * (from / size)];     \
        } else if (from == size) {                                                     \
            FAC_IVDEP for (int64_t i = 0; i < n; i++) d[i * (to / size)] = s[i];       \
        } else {                                                                       \
            for (int64_t i = 0; i < n; i++) d[i * (to / size)] = s[i * (from / size)]; \
        }                                                                              \
    } while (0)

/* Rows of 5 bytes and more, shorter than a vector, by two moves that may overlap. */
static void copy_short_runs(size_t run, char *dst, const char *src, int64_t rows, int64_t to_row, int64_t from_row) {
    typedef struct sixteen {
        uint64_t half[2];
    } sixteen;
#define MOVES(T)                                               \
    for (; rows > 0; rows--, dst += to_row, src += from_row) { \
        T first, last;                                         \
        memcpy(&first, src, sizeof first);                     \
        memcpy(&last, src + run - sizeof last, sizeof last);   \
        memcpy(dst, &first, sizeof first);                     \
        memcpy(dst + run - sizeof last, &last, sizeof last);   \
    }
#if FAC_VECTOR_BYTES == 64
    if (run >= 32) {
        MOVES(__m256i)
    } else
#endif
        if (run >= 16) {
        MOVES(sixteen)
    } else if (run >= 8) {
        MOVES(uint64_t)
    } else
        MOVES(uint32_t)
#undef MOVES
}

#define EACH_ROW for (; rows > 0; rows--, dst += to_row, src += from_row)
#define SHORT_ROWS(T, N)                                                                 \
    EACH_ROW {                                                                           \
        T v[N];                                                                          \
        for (int k = 0; k < (N); k++) v[k] = *(const T *)(const void *)(src + k * from); \
        for (int k = 0; k < (N); k++) *(T *)(void *)(dst + k * to) = v[k];               \
    }                                                                                    \
    break
#define COPY_ROWS(T)            \
    switch (rows > 1 ? n : 0) { \
    case 2: SHORT_ROWS(T, 2);   \
    case 3: SHORT_ROWS(T, 3);   \
    case 4: SHORT_ROWS(T, 4);   \
    default: EACH_ROW COPY(T);  \
    }

void FAC_ISA_NAME(fac__items_copy_rows)(size_t item, char *dst, int64_t to, const char *src, int64_t from, int64_t n,
                                        int64_t rows, int64_t to_row, int64_t from_row) {
    const size_t run = (size_t)n * item;
    if (n <= 0) return; /* there may be no element to repeat */
    const bool whole = to == (int64_t)item && from == (int64_t)item && n > 4;
    if (whole && run >= WIDTH && run < STEP) /* the last vector moves some bytes once more */
        for (; rows > 0; rows--, dst += to_row, src += from_row) {
            const bytes last = load_bytes(src + run - WIDTH);
            for (size_t i = 0; i + WIDTH < run; i += WIDTH) store_bytes(dst + i, load_bytes(src + i));
            store_bytes(dst + run - WIDTH, last);
        }
    else if (whole && run < WIDTH)
        copy_short_runs(run, dst, src, rows, to_row, from_row);
    else if (whole && (run < STEP || run > LONG_RUN))
        for (; rows > 0; rows--, dst += to_row, src += from_row) memcpy(dst, src, run);
    else if (whole)
        for (; rows > 0; rows--, dst += to_row, src += from_row) copy_run(dst, src, run);
#if FAC_ISA_LEVEL >= 2
    else if (to == (int64_t)item && from == -to && n > 1 && run <= 64)
        turn_rows(item, dst, src, run, rows, to_row, from_row);
    else if ((item == 4 || item == 8) && from == (int64_t)item && to == 2 * from && n >= 16)
        EACH_ROW(item == 4 ? every_other_4 : every_other_8)(dst, src, n);
    else if (item <= 8 && to == (int64_t)item && from == 2 * to && n >= 16) {
        void (*const copy)(char *, const char *, int64_t) = item == 1   ? of_every_other_1
                                                            : item == 2 ? of_every_other_2
                                                            : item == 4 ? of_every_other_4
                                                                        : of_every_other_8;
        EACH_ROW copy(dst, src, n);
    }
#endif
    else
        FAC_ITEM_SWITCH(item, COPY_ROWS)
}

#define ZIP(T)                                                                  \
    do {                                                                        \
        T *restrict to = (T *)(void *)dst;                                      \
        const T *x = (const T *)(const void *)a;                                \
        const T *y = (const T *)(const void *)b;                                \
        for (int64_t i = 0; i < n; i++) to[2 * i] = x[i], to[2 * i + 1] = y[i]; \
    } while (0)
void FAC_ISA_NAME(fac__items_zip)(size_t item, char *dst, const char *a, const char *b, int64_t n) {
    FAC_ITEM_SWITCH(item, ZIP)
}
