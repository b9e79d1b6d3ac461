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

/* The first n lanes, the others 0. */
static inline __attribute__((always_inline)) V LOCAL(load)(const T *p, int n) {
    if (n == LANES) return LOAD(p);
#if FAC_ISA_LEVEL >= 2
    return (V)LOAD_SOME((1u << n) - 1, p);
#else
    V v = {0};
    for (int i = 0; i < n; i++) v[i] = p[i];
    return v;
#endif
}
static inline __attribute__((always_inline)) void LOCAL(store)(T *p, V v, int n) {
    if (n == LANES) {
        STORE(p, v);
        return;
    }
#if FAC_ISA_LEVEL >= 2
    STORE_SOME(p, (1u << n) - 1, v);
#else
    for (int i = 0; i < n; i++) p[i] = v[i];
#endif
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

#define PARAMETERS                                                                                                \
    const T *x, int64_t rows, int64_t ld, const T *strip, int64_t columns, int64_t depth, T *acc, int64_t acc_ld, \
        fac_distance_part part
#define ADD(name, m)                                                                                                  \
    static void LOCAL(add_##name)(PARAMETERS) {                                                                       \
        int64_t i = 0;                                                                                                \
        for (; i + LOCAL(ROWS) <= rows; i += LOCAL(ROWS))                                                             \
            for (int at = 0; at < columns; at += 2 * LANES)                                                           \
                LOCAL(block)(m, LOCAL(ROWS), x + i * ld, ld, strip + at, depth, acc + i * acc_ld + at, acc_ld, part); \
        for (; i < rows; i++)                                                                                         \
            for (int at = 0; at < columns; at += 2 * LANES)                                                           \
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
        for (int j = 0; part.first && j < columns; j++) acc[j] = 0;
        for (int64_t k = 0; k < depth; k++) {
            const T xi = x[i * ld + k];
            for (int j = 0; j < columns; j++) acc[j] += POW(ABS(xi - strip[k * STRIP + j]), power);
        }
        for (int j = 0; part.last && j < columns; j++) acc[j] = POW(acc[j], root);
    }
}

void FN(fac__distance_add_)(fac_metric m, double p, PARAMETERS) {
    switch (m) {
    case FAC_METRIC_COUNT: LOCAL(add_count)(x, rows, ld, strip, columns, depth, acc, acc_ld, part); break;
    case FAC_METRIC_SUM: LOCAL(add_sum)(x, rows, ld, strip, columns, depth, acc, acc_ld, part); break;
    case FAC_METRIC_SQUARE: LOCAL(add_square)(x, rows, ld, strip, columns, depth, acc, acc_ld, part); break;
    case FAC_METRIC_MOST: LOCAL(add_most)(x, rows, ld, strip, columns, depth, acc, acc_ld, part); break;
    case FAC_METRIC_POWER: LOCAL(add_power)(p, x, rows, ld, strip, columns, depth, acc, acc_ld, part); break;
    }
}
#undef PARAMETERS

/* Sums lie in ROWS vectors, which are joined in order, halves of the last upon each other. */
static inline __attribute__((always_inline)) T LOCAL(line)(const fac_metric m, const T *x, const T *y, int64_t depth) {
    V a[LOCAL(ROWS)] = {{0}};
    int64_t k = 0;
    for (; k + LOCAL(ROWS) * LANES <= depth; k += LOCAL(ROWS) * LANES)
#pragma GCC unroll 4
        for (int i = 0; i < LOCAL(ROWS); i++)
            a[i] = LOCAL(more)(m, a[i], LOAD(x + k + i * LANES) - LOAD(y + k + i * LANES));
    for (; k + LANES <= depth; k += LANES) a[0] = LOCAL(more)(m, a[0], LOAD(x + k) - LOAD(y + k));
    if (k < depth) {
        const int n = (int)(depth - k);
        a[1] = LOCAL(more)(m, a[1], LOCAL(load)(x + k, n) - LOCAL(load)(y + k, n));
    }
    for (int i = 1; i < LOCAL(ROWS); i++) a[0] = m == FAC_METRIC_MOST ? LOCAL(more)(m, a[0], a[i]) : a[0] + a[i];
    T lane[2 * LANES] = {0};
    for (int n = LANES / 2; n; n /= 2) {
        STORE(lane, a[0]);
        const V upper = LOAD(lane + n);
        a[0] = m == FAC_METRIC_MOST ? LOCAL(more)(m, a[0], upper) : a[0] + upper;
    }
    return m == FAC_METRIC_SQUARE ? SQRT(a[0][0]) : a[0][0];
}

T FN(fac__distance_line_)(fac_metric m, const T *x, const T *y, int64_t depth) {
    switch (m) {
    case FAC_METRIC_COUNT: return LOCAL(line)(FAC_METRIC_COUNT, x, y, depth);
    case FAC_METRIC_SUM: return LOCAL(line)(FAC_METRIC_SUM, x, y, depth);
    case FAC_METRIC_MOST: return LOCAL(line)(FAC_METRIC_MOST, x, y, depth);
    default: return LOCAL(line)(FAC_METRIC_SQUARE, x, y, depth);
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------------------- */

#define SIGN(d) ((T)((d) > 0) - (T)((d) < 0))

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

/* The sum so far and b times the slope of the metric at a difference d: d itself, or its sign; for FAC_METRIC_MOST nothing is added but where the
   size of d is the distance. */
static inline __attribute__((always_inline)) V LOCAL(flow)(const fac_metric m, V sum, V b, V d, V dist) {
    typedef LOCAL(mask) M;
    const M sign = (M)SPLAT(-0.0f);
    if (m == FAC_METRIC_SQUARE) return FMA(b, d, sum);
    const V size = (V)((M)d & ~sign), way = (V)((((M)d & sign) | (M)SPLAT(1)) & (size > 0));
    return m == FAC_METRIC_SUM ? FMA(b, way, sum) : sum + (V)((M)(b * way) & (size == dist));
}

/* by[i] times the slope of the metric at x - y[i], of several points x, for vectors of coordinates that stay in registers over all
   rows of y; of the last vector `last` coordinates are there. m, `points`, `vectors` and whether the last is whole are constant where
   this is inlined. */
static inline __attribute__((always_inline)) void LOCAL(back_block)(const fac_metric m, const int points,
                                                                    const int vectors, const int last, const T *x,
                                                                    const T *y, int64_t n, int64_t depth, const T *by,
                                                                    int64_t by_ld, const T *dist, int64_t dist_ld,
                                                                    bool first, T *out) {
    V xs[LOCAL(ROWS)][2], a[LOCAL(ROWS)][2];
#pragma GCC unroll 4
    for (int p = 0; p < points; p++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            xs[p][v] =
                v == vectors - 1 ? LOCAL(load)(x + p * depth + v * LANES, last) : LOAD(x + p * depth + v * LANES);
            if (first)
                a[p][v] = (V){0};
            else
                a[p][v] = v == vectors - 1 ? LOCAL(load)(out + p * depth + v * LANES, last)
                                           : LOAD(out + p * depth + v * LANES);
        }
    for (int64_t i = 0; i < n; i++, y += depth) {
        V ys[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            ys[v] = v == vectors - 1 ? LOCAL(load)(y + v * LANES, last) : LOAD(y + v * LANES);
#pragma GCC unroll 4
        for (int p = 0; p < points; p++) {
            const V b = SPLAT(by[p * by_ld + i]), size = m != FAC_METRIC_MOST ? b : SPLAT(dist[p * dist_ld + i]);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) a[p][v] = LOCAL(flow)(m, a[p][v], b, xs[p][v] - ys[v], size);
        }
    }
#pragma GCC unroll 4
    for (int p = 0; p < points; p++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            LOCAL(store)(out + p * depth + v * LANES, a[p][v], v == vectors - 1 ? last : LANES);
}

static inline __attribute__((always_inline)) void LOCAL(back_points)(const fac_metric m, const int points, const T *x,
                                                                     const T *y, int64_t n, int64_t depth, const T *by,
                                                                     int64_t by_ld, const T *dist, int64_t dist_ld,
                                                                     bool first, T *out) {
#define BLOCK(vectors, last) \
    LOCAL(back_block)(m, points, vectors, last, x + k, y + k, n, depth, by, by_ld, dist, dist_ld, first, out + k)
    int64_t k = 0;
    for (; k + 2 * LANES <= depth; k += 2 * LANES) BLOCK(2, LANES);
    if (k + LANES <= depth) {
        BLOCK(1, LANES);
        k += LANES;
    }
    if (k < depth) BLOCK(1, (int)(depth - k));
#undef BLOCK
}

#define BACK(name, m)                                                                                             \
    static void LOCAL(back_##name)(const T *x, int64_t points, const T *y, int64_t n, int64_t depth, const T *by, \
                                   int64_t by_ld, const T *dist, int64_t dist_ld, bool first, T *out) {           \
        int64_t i = 0;                                                                                            \
        for (; i + LOCAL(ROWS) <= points; i += LOCAL(ROWS)) LOCAL(back_points)                                    \
        (m, LOCAL(ROWS), x + i * depth, y, n, depth, by + i * by_ld, by_ld, dist + i * dist_ld, dist_ld, first,   \
         out + i * depth);                                                                                        \
        for (; i < points; i++) LOCAL(back_points)                                                                \
        (m, 1, x + i * depth, y, n, depth, by + i * by_ld, by_ld, dist + i * dist_ld, dist_ld, first,             \
         out + i * depth);                                                                                        \
    }
BACK(square, FAC_METRIC_SQUARE)
BACK(sum, FAC_METRIC_SUM)
BACK(most, FAC_METRIC_MOST)
#undef BACK

void FN(fac__distance_back_)(fac_metric m, double p, const T *x, int64_t points, const T *y, int64_t n, int64_t depth,
                             const T *by, int64_t by_ld, const T *dist, int64_t dist_ld, bool first, T *out) {
#define METRIC(name) return LOCAL(back_##name)(x, points, y, n, depth, by, by_ld, dist, dist_ld, first, out)
    if (m == FAC_METRIC_SQUARE) METRIC(square);
    if (m == FAC_METRIC_SUM) METRIC(sum);
    if (m == FAC_METRIC_MOST) METRIC(most);
#undef METRIC
    if (first) memset(out, 0, (size_t)(points * depth) * sizeof *out);
    for (int64_t at = 0; m == FAC_METRIC_POWER && at < points; at++)
        for (int64_t i = 0; i < n; i++)
            if (by[at * by_ld + i] != 0)
                LOCAL(back_power)((T)p, x + at * depth, y + i * depth, depth, by[at * by_ld + i], out + at * depth);
}

void FN(fac__distance_ratio_)(const T *grad, const T *dist, int64_t n, T *by) {
    for (int64_t i = 0; i < n; i++) by[i] = dist[i] == 0 ? 0 : grad[i] / dist[i];
}

#undef SIGN
#undef FN
#undef LOCAL
#undef STRIP
