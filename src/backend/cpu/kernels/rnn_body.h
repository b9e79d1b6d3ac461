/* The loops of rnn.h in one element type E, summed and kept in T. Included by rnn.isa.c with E, T, V, LANES, TURN and the naming macro
   N(name). GET widens an element; what is between OPEN(name, at) and CLOSE(name, at) has an array `name` of T to put elements in. Products go by words of DEPTH elements of a row: W, WORD, PART and MULTIPLY_ADD say what these
   are, and WITH_WORDS which instructions they need.

   A tile is MR rows by one strip: MR x 4 accumulators stay in registers, a strip is read front to back, and rows are read where
   they are. An element is the sum over k in order, whatever the tile, so that neither the cut of the rows nor that of the strips
   changes a bit. */

/* t[rows][vectors * LANES] = a[rows, k] w[words of k][vectors * LANES]. `rows` and `vectors` are constant where this is inlined. */
WITH_WORDS static inline __attribute__((always_inline)) void N(tile)(const int rows, const int vectors, int64_t k,
                                                                     const E *a, int64_t lda, const W *w, T *t) {
    V acc[MR][VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) acc[i][v] = (V){0};
    for (int64_t p = 0; p + DEPTH <= k; p += DEPTH, w += vectors * LANES) {
        V b[VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) memcpy(&b[v], w + v * LANES, sizeof b[v]);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            const V x = WORD(a + i * lda + p);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) acc[i][v] = MULTIPLY_ADD(x, b[v], acc[i][v]);
        }
    }
    if (k % DEPTH) {
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            const V x = PART(a + i * lda + k - 1);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                V b;
                memcpy(&b, w + v * LANES, sizeof b);
                acc[i][v] = MULTIPLY_ADD(x, b, acc[i][v]);
            }
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) memcpy(t + (i * vectors + v) * LANES, &acc[i][v], sizeof(V));
}

typedef void (*N(tile_fn))(int64_t k, const E *a, int64_t lda, const W *w, T *t);
#define TILE(rows, vectors)                                                                                 \
    WITH_WORDS static void N(FAC_PASTE(FAC_PASTE(tile, rows), vectors))(int64_t k, const E *a, int64_t lda, \
                                                                        const W *w, T *t) {                 \
        N(tile)(rows, vectors, k, a, lda, w, t);                                                            \
    }
TILE(1, 3)
TILE(2, 3)
TILE(1, 4)
TILE(2, 4)
#if MR > 2
TILE(3, 3)
TILE(4, 3)
TILE(5, 3)
TILE(6, 3)
TILE(3, 4)
TILE(4, 4)
TILE(5, 4)
TILE(6, 4)
#endif
#undef TILE
static const N(tile_fn) N(tiles)[2][MR] = {
#if MR > 2
    {N(tile13), N(tile23), N(tile33), N(tile43), N(tile53), N(tile63)},
    {N(tile14), N(tile24), N(tile34), N(tile44), N(tile54), N(tile64)},
#else
    {N(tile13), N(tile23)},
    {N(tile14), N(tile24)},
#endif
};

/* ---- cells: one row, n <= LANES units from `at` on; part g of t is at t + g * ts ---------------------------------------- */

#define ROW(field, i) ((T *)s->field.at + (i)*s->field.step + at)
#define SHORT(field, i) ((E *)s->field.at + (i)*s->field.step + at)
#define CELL(name)                                                                                                     \
    WITH_WORDS static inline __attribute__((always_inline)) void N(name)(const fac_rnn_step *s, int64_t i, int64_t at, \
                                                                         int64_t n, const T *t, int64_t ts)

CELL(cell_sum) {
    T *gates = ROW(gates, i);
    const T *bias = ROW(given, i);
    for (int64_t g = 0; g < s->w->parts; g++) {
        FAC_IVDEP
        for (int64_t j = 0; j < n; j++) gates[g * s->units + j] = bias[g * s->units + j] + t[g * ts + j];
    }
}

CELL(cell_add) {
    (void)ts;
    const E *given = s->given.at ? SHORT(given, i) : NULL;
    OPEN(out, SHORT(out, i));
    FAC_IVDEP
    for (int64_t j = 0; j < n; j++) out[j] = given ? GET(given[j]) + t[j] : t[j];
    CLOSE(out, SHORT(out, i));
}

CELL(cell_tanh) {
    (void)ts;
    const T *sums = ROW(gates, i);
    OPEN(out, SHORT(out, i));
    FAC_IVDEP
    for (int64_t j = 0; j < n; j++) out[j] = N(tanh)(sums[j] + t[j]);
    CLOSE(out, SHORT(out, i));
}

CELL(cell_relu) {
    (void)ts;
    const T *sums = ROW(gates, i);
    OPEN(out, SHORT(out, i));
    FAC_IVDEP
    for (int64_t j = 0; j < n; j++) {
        const T x = sums[j] + t[j];
        out[j] = x < 0 ? 0 : x;
    }
    CLOSE(out, SHORT(out, i));
}

CELL(cell_lstm) {
    T *gates = ROW(gates, i), *cell = ROW(cell, i);
    const T *prev = ROW(prev, i);
    const int64_t h = s->units;
    OPEN(out, SHORT(out, i));
    FAC_IVDEP
    for (int64_t j = 0; j < n; j++) {
        const T in = N(sigmoid)(gates[j] + t[j]), keep = N(sigmoid)(gates[h + j] + t[ts + j]);
        const T new = N(tanh)(gates[2 * h + j] + t[2 * ts + j]), show = N(sigmoid)(gates[3 * h + j] + t[3 * ts + j]);
        const T c = keep * prev[j] + in * new;
        gates[j] = in;
        gates[h + j] = keep;
        gates[2 * h + j] = new;
        gates[3 * h + j] = show;
        cell[j] = c;
        out[j] = show * N(tanh)(c);
    }
    CLOSE(out, SHORT(out, i));
}

CELL(cell_gru) {
    T *gates = ROW(gates, i);
    const E *prev = SHORT(prev, i);
    const T *bias = ROW(given, i);
    const int64_t h = s->units;
    OPEN(out, SHORT(out, i));
    FAC_IVDEP
    for (int64_t j = 0; j < n; j++) {
        const T reset = N(sigmoid)(gates[j] + t[j]), keep = N(sigmoid)(gates[h + j] + t[ts + j]);
        const T of_h = t[2 * ts + j] + bias[j], new = N(tanh)(gates[2 * h + j] + reset * of_h);
        gates[j] = reset;
        gates[h + j] = keep;
        gates[2 * h + j] = new;
        gates[3 * h + j] = of_h;
        out[j] = new + keep *(GET(prev[j]) - new);
    }
    CLOSE(out, SHORT(out, i));
}

CELL(cell_tanh_back) {
    (void)ts;
    const E *out = SHORT(out, i), *given = SHORT(given, i);
    OPEN(slopes, SHORT(slopes, i));
    FAC_IVDEP
    for (int64_t j = 0; j < n; j++) slopes[j] = (GET(given[j]) + t[j]) * (1 - GET(out[j]) * GET(out[j]));
    CLOSE(slopes, SHORT(slopes, i));
}

CELL(cell_relu_back) {
    (void)ts;
    const E *out = SHORT(out, i), *given = SHORT(given, i);
    OPEN(slopes, SHORT(slopes, i));
    FAC_IVDEP
    for (int64_t j = 0; j < n; j++) slopes[j] = GET(out[j]) > 0 ? GET(given[j]) + t[j] : 0;
    CLOSE(slopes, SHORT(slopes, i));
}

CELL(cell_lstm_back) {
    (void)ts;
    T *carry = ROW(carry, i);
    const T *gates = ROW(gates, i), *cell = ROW(cell, i), *prev = ROW(prev, i);
    const E *given = SHORT(given, i);
    const int64_t h = s->units;
    if (s->out.at) {
        OPEN(out, SHORT(out, i));
        FAC_IVDEP
        for (int64_t j = 0; j < n; j++) out[j] = gates[3 * h + j] * N(tanh)(cell[j]);
        CLOSE(out, SHORT(out, i));
    }
    E *slopes = SHORT(slopes, i);
    OPEN(of_in, slopes);
    OPEN(of_keep, slopes + h);
    OPEN(of_new, slopes + 2 * h);
    OPEN(of_show, slopes + 3 * h);
    FAC_IVDEP
    for (int64_t j = 0; j < n; j++) {
        const T in = gates[j], keep = gates[h + j], new = gates[2 * h + j], show = gates[3 * h + j];
        const T dh = GET(given[j]) + t[j], c = N(tanh)(cell[j]), dc = carry[j] + dh * show * (1 - c * c);
        of_in[j] = dc * new *(in * (1 - in));
        of_keep[j] = dc * prev[j] * (keep * (1 - keep));
        of_new[j] = dc * in * (1 - new *new);
        of_show[j] = dh * c * (show * (1 - show));
        carry[j] = dc * keep;
    }
    CLOSE(of_in, slopes);
    CLOSE(of_keep, slopes + h);
    CLOSE(of_new, slopes + 2 * h);
    CLOSE(of_show, slopes + 3 * h);
}

CELL(cell_gru_back) {
    (void)ts;
    T *carry = ROW(carry, i);
    const T *gates = ROW(gates, i);
    const E *prev = SHORT(prev, i), *given = SHORT(given, i);
    const int64_t h = s->units;
    E *slopes = SHORT(slopes, i);
    OPEN(of_new, slopes);
    OPEN(of_reset, slopes + h);
    OPEN(of_keep, slopes + 2 * h);
    OPEN(of_both, slopes + 3 * h);
    FAC_IVDEP
    for (int64_t j = 0; j < n; j++) {
        const T reset = gates[j], keep = gates[h + j], new = gates[2 * h + j], of_h = gates[3 * h + j];
        const T dh = GET(given[j]) + t[j] + carry[j], dn = dh * (1 - keep) * (1 - new *new);
        of_new[j] = dn;
        of_reset[j] = dn * of_h * (reset * (1 - reset));
        of_keep[j] = dh * (GET(prev[j]) - new) * (keep * (1 - keep));
        of_both[j] = dn * reset;
        carry[j] = dh * keep;
    }
    CLOSE(of_new, slopes);
    CLOSE(of_reset, slopes + h);
    CLOSE(of_keep, slopes + 2 * h);
    CLOSE(of_both, slopes + 3 * h);
}
#undef CELL
#undef ROW
#undef SHORT

/* Rows [i, i + rows), those of t `step` apart. `n` is constant where whole vectors are met. */
WITH_WORDS static inline __attribute__((always_inline)) void N(cells_of)(const fac_rnn_step *s, int64_t i, int64_t rows,
                                                                         int64_t at, int64_t n, const T *t,
                                                                         int64_t step, int64_t ts) {
#define EACH(cell)                                                                 \
    for (int64_t r = 0; r < rows; r++) N(cell)(s, i + r, at, n, t + r * step, ts); \
    break
    switch (s->action) {
    case FAC_RNN_SUM: EACH(cell_sum);
    case FAC_RNN_ADD: EACH(cell_add);
    case FAC_RNN_TANH: EACH(cell_tanh);
    case FAC_RNN_RELU: EACH(cell_relu);
    case FAC_RNN_LSTM: EACH(cell_lstm);
    case FAC_RNN_GRU: EACH(cell_gru);
    case FAC_RNN_TANH_BACK: EACH(cell_tanh_back);
    case FAC_RNN_RELU_BACK: EACH(cell_relu_back);
    case FAC_RNN_LSTM_BACK: EACH(cell_lstm_back);
    case FAC_RNN_GRU_BACK: EACH(cell_gru_back);
    }
#undef EACH
}

WITH_WORDS ALONE static void N(cells)(const fac_rnn_step *s, int64_t i, int64_t rows, int64_t at, int64_t n, const T *t,
                                      int64_t step, int64_t ts) {
    for (; n >= LANES; n -= LANES, at += LANES, t += LANES) N(cells_of)(s, i, rows, at, LANES, t, step, ts);
    if (n) N(cells_of)(s, i, rows, at, n, t, step, ts);
}

/* What a cell is going to write or read of its gates, while the product is made. */
static inline void N(prefetch_gates)(const fac_rnn_step *s, int64_t i, int64_t rows, int64_t at) {
    if (!s->gates.at || s->w->parts == 1) return;
    for (int64_t r = i; r < i + rows; r++)
        for (int64_t g = 0; g < s->w->parts; g++)
            __builtin_prefetch((const T *)s->gates.at + r * s->gates.step + g * s->units + at, 1);
}

/* ---- a step --------------------------------------------------------------------------------------------------------------- */

static void N(step)(const fac_rnn_step *s) {
    const fac_rnn_weights *w = s->w;
    const int64_t width = w->vectors * LANES, wide = w->parts > 1 ? LANES : width;
    if (!w->packed) {
        const int64_t at = s->first * wide, last = s->end * wide < w->columns ? s->end * wide : w->columns;
        N(cells)(s, 0, s->rows, at, last - at, (const T *)s->a.at + at, s->a.step, w->columns);
        return;
    }
    const int64_t words = fac__div_up(w->k, DEPTH), groups = fac__div_up(s->rows, MR),
                  most = groups ? fac__div_up(s->rows, groups) : 1;
    T t[MR * VECTORS * LANES] __attribute__((aligned(64)));
    for (int64_t b = s->first; b < s->end; b++) {
        const W *strip = (const W *)w->packed + b * words * width;
        const int64_t n = w->columns - b * wide < wide ? w->columns - b * wide : wide;
        for (int64_t i = 0; i < s->rows; i += most) {
            const int64_t rows = s->rows - i < most ? s->rows - i : most;
            N(prefetch_gates)(s, i, rows, b * wide);
            N(tiles)[w->vectors - 3][rows - 1](w->k, (const E *)s->a.at + i * s->a.step, s->a.step, strip, t);
            N(cells)(s, i, rows, b * wide, n, t, width, LANES);
        }
    }
}

/* The words of n columns as a vector of a strip whose rows are `width` apart. */
static void N(pack_vector)(W *to, int64_t width, const E *from, int64_t k_step, int64_t column_step, int64_t n,
                           int64_t k) {
    int64_t p = 0;
    if (k_step == 1)
        for (; p + DEPTH * LANES <= k; p += DEPTH * LANES) {
            V v[LANES];
#pragma GCC unroll 16
            for (int j = 0; j < LANES; j++) {
                v[j] = (V){0};
                if (j < n) memcpy(&v[j], from + j * column_step + p, sizeof v[j]);
            }
            TURN(v);
#pragma GCC unroll 16
            for (int j = 0; j < LANES; j++, to += width) memcpy(to, &v[j], sizeof v[j]);
        }
    for (; p < k; p += DEPTH, to += width) {
        const E *row = from + p * k_step;
        for (int64_t j = 0; j < n; j++)
            to[j] = WORD_OF(row[j * column_step], p + 1 < k ? row[j * column_step + k_step] : 0);
        for (int64_t j = n; j < LANES; j++) to[j] = 0;
    }
}

static void N(pack)(const fac_rnn_weights *w, const void *m, int64_t k_step, int64_t column_step, int64_t first,
                    int64_t end) {
    const int64_t width = w->vectors * LANES, words = fac__div_up(w->k, DEPTH);
    for (int64_t b = first; b < end; b++)
        for (int v = 0; v < w->vectors; v++) {
            const int64_t at = w->parts > 1 ? b * LANES : (b * w->vectors + v) * LANES, left = w->columns - at;
            const int64_t n = left < 0 ? 0 : left < LANES ? left : LANES;
            N(pack_vector)
            ((W *)w->packed + b * words * width + v * LANES, width,
             (const E *)m + (at + (w->parts > 1 ? v * w->columns : 0)) * column_step, k_step, column_step, n, w->k);
        }
}

static void N(column_sums)(int64_t rows, int64_t n, const void *from, int64_t ld, void *into, void *room) {
    const E *m = from;
    T *sums = into, *block = room;
    for (int64_t j = 0; j < n; j++) sums[j] = 0;
    for (int64_t i = 0; i < rows; i += 64) {
        for (int64_t j = 0; j < n; j++) block[j] = 0;
        for (int64_t r = i; r < rows && r < i + 64; r++) {
            FAC_IVDEP
            for (int64_t j = 0; j < n; j++) block[j] += GET(m[r * ld + j]);
        }
        for (int64_t j = 0; j < n; j++) sums[j] += block[j];
    }
}

static const fac_rnn_kernels N(kernels) = {LANES, DEPTH, N(pack), N(step), N(column_sums)};
