/* The loops of rnn.h in one element type. Included by rnn.isa.c with T, V, LANES, LOAD, STORE, SPLAT, FMA and the naming macro
   N(name).

   A tile is MR rows by one strip: MR x 4 accumulators stay in registers, a strip is read front to back, and rows are read where
   they are. An element is the sum over k in order, whatever the tile, so that neither the cut of the rows nor that of the strips
   changes a bit. */

/* t[rows][vectors * LANES] = a[rows, k] w[k][vectors * LANES]. `rows` and `vectors` are constant where this is inlined. */
static inline __attribute__((always_inline)) void N(tile)(const int rows, const int vectors, int64_t k, const T *a,
                                                          int64_t lda, const T *w, T *t) {
    V acc[MR][VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) acc[i][v] = (V){0};
    for (int64_t p = 0; p < k; p++, w += vectors * LANES) {
        V b[VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) b[v] = LOAD(w + v * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            const V x = SPLAT(a[i * lda + p]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) acc[i][v] = FMA(x, b[v], acc[i][v]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) STORE(t + (i * vectors + v) * LANES, acc[i][v]);
}

typedef void (*N(tile_fn))(int64_t k, const T *a, int64_t lda, const T *w, T *t);
#define TILE(rows, vectors)                                                                                          \
    static void N(FAC_PASTE(FAC_PASTE(tile, rows), vectors))(int64_t k, const T *a, int64_t lda, const T *w, T *t) { \
        N(tile)(rows, vectors, k, a, lda, w, t);                                                                     \
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

/* ---- cells: one row, n units from `at` on; part g of t is at t + g * ts ------------------------------------------------ */

#define ROW(field, i) ((T *)s->field.at + (i)*s->field.step + at)
#define CELL(name)                                                                                                     \
    static inline __attribute__((always_inline)) void N(name)(const fac_rnn_step *s, int64_t i, int64_t at, int64_t n, \
                                                              const T *t, int64_t ts)

CELL(cell_add) {
    (void)ts;
    T *out = ROW(out, i);
    const T *given = s->given.at ? ROW(given, i) : NULL;
    FAC_IVDEP
    for (int64_t j = 0; j < n; j++) out[j] = given ? given[j] + t[j] : t[j];
}

CELL(cell_tanh) {
    (void)ts;
    T *out = ROW(out, i);
    FAC_IVDEP
    for (int64_t j = 0; j < n; j++) out[j] = N(tanh)(out[j] + t[j]);
}

CELL(cell_relu) {
    (void)ts;
    T *out = ROW(out, i);
    FAC_IVDEP
    for (int64_t j = 0; j < n; j++) {
        const T x = out[j] + t[j];
        out[j] = x < 0 ? 0 : x;
    }
}

CELL(cell_lstm) {
    T *gates = ROW(gates, i), *cell = ROW(cell, i), *out = ROW(out, i);
    const T *prev = ROW(prev, i);
    const int64_t h = s->units;
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
}

CELL(cell_gru) {
    T *gates = ROW(gates, i), *out = ROW(out, i);
    const T *prev = ROW(prev, i), *bias = ROW(given, i);
    const int64_t h = s->units;
    FAC_IVDEP
    for (int64_t j = 0; j < n; j++) {
        const T reset = N(sigmoid)(gates[j] + t[j]), keep = N(sigmoid)(gates[h + j] + t[ts + j]);
        const T of_h = t[2 * ts + j] + bias[j], new = N(tanh)(gates[2 * h + j] + reset * of_h);
        gates[j] = reset;
        gates[h + j] = keep;
        gates[2 * h + j] = new;
        gates[3 * h + j] = of_h;
        out[j] = new + keep *(prev[j] - new);
    }
}

CELL(cell_tanh_back) {
    (void)ts;
    T *slopes = ROW(slopes, i);
    const T *out = ROW(out, i), *given = ROW(given, i);
    FAC_IVDEP
    for (int64_t j = 0; j < n; j++) slopes[j] = (given[j] + t[j]) * (1 - out[j] * out[j]);
}

CELL(cell_relu_back) {
    (void)ts;
    T *slopes = ROW(slopes, i);
    const T *out = ROW(out, i), *given = ROW(given, i);
    FAC_IVDEP
    for (int64_t j = 0; j < n; j++) slopes[j] = out[j] > 0 ? given[j] + t[j] : 0;
}

CELL(cell_lstm_back) {
    (void)ts;
    T *slopes = ROW(slopes, i), *carry = ROW(carry, i), *out = s->out.at ? ROW(out, i) : NULL;
    const T *gates = ROW(gates, i), *cell = ROW(cell, i), *prev = ROW(prev, i), *given = ROW(given, i);
    const int64_t h = s->units;
    FAC_IVDEP
    for (int64_t j = 0; j < n; j++) {
        const T in = gates[j], keep = gates[h + j], new = gates[2 * h + j], show = gates[3 * h + j];
        const T dh = given[j] + t[j], c = N(tanh)(cell[j]), dc = carry[j] + dh * show * (1 - c * c);
        slopes[j] = dc * new *(in * (1 - in));
        slopes[h + j] = dc * prev[j] * (keep * (1 - keep));
        slopes[2 * h + j] = dc * in * (1 - new *new);
        slopes[3 * h + j] = dh * c * (show * (1 - show));
        carry[j] = dc * keep;
        if (out) out[j] = show * c;
    }
}

CELL(cell_gru_back) {
    (void)ts;
    T *slopes = ROW(slopes, i), *carry = ROW(carry, i);
    const T *gates = ROW(gates, i), *prev = ROW(prev, i), *given = ROW(given, i);
    const int64_t h = s->units;
    FAC_IVDEP
    for (int64_t j = 0; j < n; j++) {
        const T reset = gates[j], keep = gates[h + j], new = gates[2 * h + j], of_h = gates[3 * h + j];
        const T dh = given[j] + t[j] + carry[j], dn = dh * (1 - keep) * (1 - new *new);
        slopes[j] = dn;
        slopes[h + j] = dn * of_h * (reset * (1 - reset));
        slopes[2 * h + j] = dh * (prev[j] - new) * (keep * (1 - keep));
        slopes[3 * h + j] = dn * reset;
        carry[j] = dh * keep;
    }
}
#undef CELL
#undef ROW

/* `n` is constant where whole vectors are met. */
static inline __attribute__((always_inline)) void N(cell_of)(const fac_rnn_step *s, int64_t i, int64_t at, int64_t n,
                                                             const T *t, int64_t ts) {
    switch (s->action) {
    case FAC_RNN_ADD: N(cell_add)(s, i, at, n, t, ts); break;
    case FAC_RNN_TANH: N(cell_tanh)(s, i, at, n, t, ts); break;
    case FAC_RNN_RELU: N(cell_relu)(s, i, at, n, t, ts); break;
    case FAC_RNN_LSTM: N(cell_lstm)(s, i, at, n, t, ts); break;
    case FAC_RNN_GRU: N(cell_gru)(s, i, at, n, t, ts); break;
    case FAC_RNN_TANH_BACK: N(cell_tanh_back)(s, i, at, n, t, ts); break;
    case FAC_RNN_RELU_BACK: N(cell_relu_back)(s, i, at, n, t, ts); break;
    case FAC_RNN_LSTM_BACK: N(cell_lstm_back)(s, i, at, n, t, ts); break;
    case FAC_RNN_GRU_BACK: N(cell_gru_back)(s, i, at, n, t, ts); break;
    }
}

static void N(cell)(const fac_rnn_step *s, int64_t i, int64_t at, int64_t n, const T *t, int64_t ts) {
    if (n == LANES)
        N(cell_of)(s, i, at, LANES, t, ts);
    else
        N(cell_of)(s, i, at, n, t, ts);
}

/* ---- a step --------------------------------------------------------------------------------------------------------------- */

static void N(step)(const fac_rnn_step *s) {
    const fac_rnn_weights *w = s->w;
    const int64_t width = w->vectors * LANES, wide = w->parts > 1 ? LANES : width;
    if (!w->packed) {
        const int64_t at = s->first * wide, last = s->end * wide < w->columns ? s->end * wide : w->columns;
        for (int64_t i = 0; i < s->rows; i++)
            N(cell)(s, i, at, last - at, (const T *)s->a.at + i * s->a.step + at, w->columns);
        return;
    }
    const int64_t groups = fac__div_up(s->rows, MR), most = groups ? fac__div_up(s->rows, groups) : 1;
    T t[MR * VECTORS * LANES] __attribute__((aligned(64)));
    for (int64_t b = s->first; b < s->end; b++) {
        const T *strip = (const T *)w->packed + b * w->k * width;
        const int64_t n = w->columns - b * wide < wide ? w->columns - b * wide : wide;
        for (int64_t i = 0; i < s->rows; i += most) {
            const int64_t rows = s->rows - i < most ? s->rows - i : most;
            N(tiles)[w->vectors - 3][rows - 1](w->k, (const T *)s->a.at + i * s->a.step, s->a.step, strip, t);
            for (int64_t r = 0; r < rows; r++) N(cell)(s, i + r, b * wide, n, t + r * width, LANES);
        }
    }
}

/* Strips are made a vector at a time, from columns that are read along k. */
static void N(pack)(const fac_rnn_weights *w, const T *m, int64_t k_step, int64_t column_step, int64_t first,
                    int64_t end) {
    const int64_t width = w->vectors * LANES;
    for (int64_t b = first; b < end; b++)
        for (int v = 0; v < w->vectors; v++) {
            const int64_t at = w->parts > 1 ? b * LANES : (b * w->vectors + v) * LANES, left = w->columns - at;
            const int64_t n = left < 0 ? 0 : left < LANES ? left : LANES;
            const T *from = m + (at + (w->parts > 1 ? v * w->columns : 0)) * column_step;
            T *to = (T *)w->packed + b * w->k * width + v * LANES;
            for (int64_t p = 0; p < w->k; p++, to += width) {
                for (int64_t j = 0; j < n; j++) to[j] = from[j * column_step + p * k_step];
                for (int64_t j = n; j < LANES; j++) to[j] = 0;
            }
        }
}

static void N(column_sums)(int64_t rows, int64_t n, const T *m, int64_t ld, T *sums, T *block) {
    for (int64_t j = 0; j < n; j++) sums[j] = 0;
    for (int64_t i = 0; i < rows; i += 64) {
        for (int64_t j = 0; j < n; j++) block[j] = 0;
        for (int64_t r = i; r < rows && r < i + 64; r++)
            for (int64_t j = 0; j < n; j++) block[j] += m[r * ld + j];
        for (int64_t j = 0; j < n; j++) sums[j] += block[j];
    }
}
