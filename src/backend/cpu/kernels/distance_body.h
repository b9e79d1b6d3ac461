/* Distances in one element type: included by distance.isa.c with T, V, I (the integer of its size), S (its suffix), LANES
   and the type's functions defined.

   A block of up to ROWS points by two vectors of a strip stays in registers while depth runs; sums are taken in order of depth in each
   lane, so borders of blocks do not change them. Powers other than 0, 1, 2 and infinity go row by row through pow. */

#define FN(name) FAC_ISA_NAME(FAC_PASTE(name, S))
#define LOCAL(name) FAC_PASTE(name##_, S)
#define STRIP FAC_DISTANCE_STRIP
enum { LOCAL(ROWS) = 4 };
typedef I LOCAL(mask)
    __attribute__((vector_size(FAC_VECTOR_BYTES))); /* what comparing vectors gives: all bits or none */

/* The sum or the largest so far, and one more difference. A NaN stays. */
static inline __attribute__((always_inline)) V LOCAL(more)(const fac_metric m, V acc, V d) {
    typedef LOCAL(mask) M;
    if (m == FAC_METRIC_SQUARE) return FMA(d, d, acc);
    if (m == FAC_METRIC_COUNT) { /* NaN counts as NaN */
        const M number = d == d;
        return acc + (V)((((M)SPLAT(1) & number) | ((M)d & ~number)) & (d != (V){0}));
    }
    const V size = (V)((M)d & ~(M)SPLAT(-0.0f));
    if (m == FAC_METRIC_SUM) return acc + size;
    const M stays = (size <= acc) | (acc != acc);
    return (V)(((M)acc & stays) | ((M)size & ~stays));
}

static inline V LOCAL(root)(V v) {
    T lane[LANES];
    STORE(lane, v);
    for (int i = 0; i < LANES; i++) lane[i] = SQRT(lane[i]);
    return LOAD(lane);
}

/* Two vectors of sums in each row. `rows` and m are constant where this is inlined. */
static inline __attribute__((always_inline)) void LOCAL(block)(const fac_metric m, const int rows, const T *x,
                                                               int64_t ld, const T *strip, int64_t depth, T *acc,
                                                               int64_t acc_ld, fac_distance_part part) {
    V a[LOCAL(ROWS)][2];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
        a[i][0] = part.first ? (V){0} : LOAD(acc + i * acc_ld);
        a[i][1] = part.first ? (V){0} : LOAD(acc + i * acc_ld + LANES);
    }
    for (int64_t k = 0; k < depth; k++, strip += STRIP) {
        const V y0 = LOAD(strip), y1 = LOAD(strip + LANES);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
            const V xi = SPLAT(x[i * ld + k]);
            a[i][0] = LOCAL(more)(m, a[i][0], xi - y0);
            a[i][1] = LOCAL(more)(m, a[i][1], xi - y1);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < 2; k++)
            STORE(acc + i * acc_ld + k * LANES, m == FAC_METRIC_SQUARE && part.last ? LOCAL(root)(a[i][k]) : a[i][k]);
}

#define PARAMETERS \
    const T *x, int64_t rows, int64_t ld, const T *strip, int64_t depth, T *acc, int64_t acc_ld, fac_distance_part part
#define ADD(name, m)                                                                                                  \
    static void LOCAL(add_##name)(PARAMETERS) {                                                                       \
        int64_t i = 0;                                                                                                \
        for (; i + LOCAL(ROWS) <= rows; i += LOCAL(ROWS))                                                             \
            for (int at = 0; at < STRIP; at += 2 * LANES)                                                             \
                LOCAL(block)(m, LOCAL(ROWS), x + i * ld, ld, strip + at, depth, acc + i * acc_ld + at, acc_ld, part); \
        for (; i < rows; i++)                                                                                         \
            for (int at = 0; at < STRIP; at += 2 * LANES)                                                             \
                LOCAL(block)(m, 1, x + i * ld, ld, strip + at, depth, acc + i * acc_ld + at, acc_ld, part);           \
    }
ADD(count, FAC_METRIC_COUNT)
ADD(sum, FAC_METRIC_SUM)
ADD(square, FAC_METRIC_SQUARE)
ADD(most, FAC_METRIC_MOST)
#undef ADD

static void LOCAL(add_power)(double p, PARAMETERS) {
    const T power = (T)p, root = (T)(1 / p);
    for (int64_t i = 0; i < rows; i++, acc += acc_ld) {
        for (int j = 0; part.first && j < STRIP; j++) acc[j] = 0;
        for (int64_t k = 0; k < depth; k++) {
            const T xi = x[i * ld + k];
            for (int j = 0; j < STRIP; j++) acc[j] += POW(ABS(xi - strip[k * STRIP + j]), power);
        }
        for (int j = 0; part.last && j < STRIP; j++) acc[j] = POW(acc[j], root);
    }
}

void FN(fac__distance_add_)(fac_metric m, double p, PARAMETERS) {
    switch (m) {
    case FAC_METRIC_COUNT: LOCAL(add_count)(x, rows, ld, strip, depth, acc, acc_ld, part); break;
    case FAC_METRIC_SUM: LOCAL(add_sum)(x, rows, ld, strip, depth, acc, acc_ld, part); break;
    case FAC_METRIC_SQUARE: LOCAL(add_square)(x, rows, ld, strip, depth, acc, acc_ld, part); break;
    case FAC_METRIC_MOST: LOCAL(add_most)(x, rows, ld, strip, depth, acc, acc_ld, part); break;
    case FAC_METRIC_POWER: LOCAL(add_power)(p, x, rows, ld, strip, depth, acc, acc_ld, part); break;
    }
}
#undef PARAMETERS

/* ---- gradients ------------------------------------------------------------------------------------------------------- */

#define SIGN(d) ((T)((d) > 0) - (T)((d) < 0))
#define EACH(EXPR)                        \
    for (int64_t k = 0; k < depth; k++) { \
        const T d = x[k] - y[k];          \
        out[k] += (EXPR);                 \
    }                                     \
    break

/* by sign(d) |d|^(p - 1), which has no value at 0 where p is below 1: nothing flows there. */
static void LOCAL(back_power)(T p, const T *x, const T *y, int64_t depth, T by, T *out) {
    enum { TILE = 64 };
    T size[TILE];
    for (int64_t k = 0; k < depth; k += TILE) {
        const int n = (int)(depth - k < TILE ? depth - k : TILE);
        for (int i = 0; i < n; i++) size[i] = POW(ABS(x[k + i] - y[k + i]), p - 1);
        for (int i = 0; i < n; i++) {
            const T d = x[k + i] - y[k + i], flow = by * SIGN(d) * size[i];
            out[k + i] += d == 0 ? 0 : flow;
        }
    }
}

/* What one row of y adds. */
static void LOCAL(back_row)(fac_metric m, T p, const T *x, const T *y, int64_t depth, T by, T dist, T *out) {
    switch (m) {
    case FAC_METRIC_COUNT: break;
    case FAC_METRIC_SUM: EACH(by * SIGN(d));
    case FAC_METRIC_SQUARE: EACH(by * d);
    case FAC_METRIC_MOST: EACH(ABS(d) == dist ? by * SIGN(d) : 0);
    case FAC_METRIC_POWER: LOCAL(back_power)(p, x, y, depth, by, out); break;
    }
}

/* by[i] (x - y[i]), for two vectors of coordinates that stay in registers over all rows. */
static void LOCAL(back_square)(const T *x, const T *y, int64_t n, int64_t depth, const T *by, T *out) {
    int64_t k = 0;
    for (; k + 2 * LANES <= depth; k += 2 * LANES) {
        const V x0 = LOAD(x + k), x1 = LOAD(x + k + LANES);
        V a0 = {0}, a1 = {0};
        for (int64_t i = 0; i < n; i++) {
            const V b = SPLAT(by[i]);
            a0 = FMA(b, x0 - LOAD(y + i * depth + k), a0);
            a1 = FMA(b, x1 - LOAD(y + i * depth + k + LANES), a1);
        }
        STORE(out + k, a0);
        STORE(out + k + LANES, a1);
    }
    for (; k < depth; k++) {
        T sum = 0;
        for (int64_t i = 0; i < n; i++) sum = FMA1(by[i], x[k] - y[i * depth + k], sum);
        out[k] = sum;
    }
}

void FN(fac__distance_back_)(fac_metric m, double p, const T *x, const T *y, int64_t n, int64_t depth, const T *by,
                             const T *dist, T *out) {
    if (m == FAC_METRIC_SQUARE) {
        LOCAL(back_square)(x, y, n, depth, by, out);
        return;
    }
    memset(out, 0, (size_t)depth * sizeof *out);
    for (int64_t i = 0; i < n; i++)
        if (by[i] != 0) LOCAL(back_row)(m, (T)p, x, y + i * depth, depth, by[i], dist[i], out);
}

#undef SIGN
#undef EACH
#undef FN
#undef LOCAL
#undef STRIP
