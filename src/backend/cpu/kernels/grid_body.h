/* The loops of grid.isa.c for one type: included with T, FN(name), TILE (the tile's type), FLOOR and RINT defined, and
   SAMPLE where there is a loop of vectors for the points of a tile in one plane. */

/* The elements that each point of a tile shows along one dimension, -1 beyond it, with weights and their derivatives. */
typedef struct FN(line) {
    int32_t at[4][FAC_GRID_TILE];
    T weight[4][FAC_GRID_TILE], slope[4][FAC_GRID_TILE];
} FN(line);

/* x folded at both ends of a dimension until it lies inside; *sign turns with each fold. Doubled ends, as they may be halves. */
static inline T FN(reflected)(T x, T twice_low, T twice_high, T *sign) {
    const T low = twice_low / 2, span = (twice_high - twice_low) / 2;
    const T side = x < low ? (T)-1 : (T)1, far = side * (x - low);
    const T folds = span > 0 ? FLOOR(far / span) : 0, rest = span > 0 ? far - folds * span : 0;
    const bool even = folds - 2 * FLOOR(folds / 2) == 0;
    *sign = span > 0 ? (even ? side : -side) : 0;
    return even ? rest + low : span - rest + low;
}

static void FN(reflect)(const fac_grid *g, T size, int64_t n, T *restrict x, T *restrict slope) {
    const T low = g->align_corners ? 0 : -1, high = g->align_corners ? 2 * (size - 1) : 2 * size - 1;
    for (int64_t i = 0; i < n; i++) x[i] = FN(reflected)(x[i], low, high, &slope[i]);
}

/* Brings positions inside by the padding; slope: the derivative of that. NaN goes to the first element, or beyond the plane. Far
   positions come near, where they still show nothing, so that they fit an integer. */
static void FN(pad)(const fac_grid *g, T size, int64_t n, T *restrict x, T *restrict slope) {
    const T last = size - 1, far = size + 4;
    for (int64_t i = 0; i < n; i++) slope[i] = 1;
    if (g->padding == FAC_GRID_ZEROS) {
        for (int64_t i = 0; i < n; i++) x[i] = x[i] > -4 ? x[i] < far ? x[i] : far : (T)-4;
        return;
    }
    if (g->padding == FAC_GRID_REFLECTION) FN(reflect)(g, size, n, x, slope);
    for (int64_t i = 0; i < n; i++) {
        slope[i] = x[i] > 0 && x[i] < last ? slope[i] : 0;
        x[i] = x[i] > 0 ? x[i] < last ? x[i] : last : 0;
    }
}

static inline int32_t FN(inside)(int32_t i, int32_t n) { return i >= 0 && i < n ? i : -1; }

static void FN(linear)(const fac_grid *g, int32_t size, T scale, T *restrict x, int64_t n, FN(line) *restrict line) {
    T slope[FAC_GRID_TILE];
    FN(pad)(g, (T)size, n, x, slope);
    for (int64_t i = 0; i < n; i++) {
        const T low = FLOOR(x[i]), part = x[i] - low;
        const int32_t k = (int32_t)low;
        line->at[0][i] = FN(inside)(k, size), line->at[1][i] = FN(inside)(k + 1, size);
        line->weight[0][i] = 1 - part, line->weight[1][i] = part;
        line->slope[0][i] = -slope[i] * scale, line->slope[1][i] = slope[i] * scale;
    }
}

static void FN(nearest)(const fac_grid *g, int32_t size, T scale, T *restrict x, int64_t n, FN(line) *restrict line) {
    T slope[FAC_GRID_TILE];
    (void)scale;
    FN(pad)(g, (T)size, n, x, slope);
    for (int64_t i = 0; i < n; i++) {
        line->at[0][i] = FN(inside)((int32_t)RINT(x[i]), size);
        line->weight[0][i] = 1, line->slope[0][i] = 0;
    }
}

/* Cubic convolution with the coefficient -3/4; the padding is applied to each element by itself. */
static void FN(cubic)(const fac_grid *g, int32_t size, T scale, T *restrict x, int64_t n, FN(line) *restrict line) {
    const T c = (T)-0.75;
    T at[FAC_GRID_TILE], unused[FAC_GRID_TILE];
    for (int k = 0; k < 4; k++) {
        for (int64_t i = 0; i < n; i++) at[i] = FLOOR(x[i]) + (T)(k - 1);
        FN(pad)(g, (T)size, n, at, unused);
        for (int64_t i = 0; i < n; i++) line->at[k][i] = FN(inside)((int32_t)at[i], size);
    }
    for (int64_t i = 0; i < n; i++) {
        const T near0 = x[i] - FLOOR(x[i]), near1 = 1 - near0, far0 = near0 + 1, far1 = near1 + 1;
        line->weight[0][i] = ((c * far0 - 5 * c) * far0 + 8 * c) * far0 - 4 * c;
        line->weight[1][i] = ((c + 2) * near0 - (c + 3)) * near0 * near0 + 1;
        line->weight[2][i] = ((c + 2) * near1 - (c + 3)) * near1 * near1 + 1;
        line->weight[3][i] = ((c * far1 - 5 * c) * far1 + 8 * c) * far1 - 4 * c;
        line->slope[0][i] = scale * ((3 * c * far0 - 10 * c) * far0 + 8 * c);
        line->slope[1][i] = scale * ((3 * (c + 2) * near0 - 2 * (c + 3)) * near0);
        line->slope[2][i] = -scale * ((3 * (c + 2) * near1 - 2 * (c + 3)) * near1);
        line->slope[3][i] = -scale * ((3 * c * far1 - 10 * c) * far1 + 8 * c);
    }
}

/* Lines of dimension d (in the input's order) for points [begin, begin + n). */
static void FN(make_line)(const fac_grid_job *j, int64_t sample, int64_t begin, int64_t n, int d, FN(line) * line) {
    static void (*const make[])(const fac_grid *, int32_t, T, T *, int64_t, FN(line) *) = {
        [FAC_GRID_LINEAR] = FN(linear), [FAC_GRID_NEAREST] = FN(nearest), [FAC_GRID_CUBIC] = FN(cubic)};
    const int nd = j->g.nd;
    const T *grid = (const T *)j->grid + (sample * j->g.points + begin) * nd + (nd - 1 - d);
    const T size = (T)j->g.in[d], scale = j->g.align_corners ? (size - 1) / 2 : size / 2;
    T x[FAC_GRID_TILE];
    if (j->g.align_corners)
        for (int64_t i = 0; i < n; i++) x[i] = (grid[i * nd] + 1) / 2 * (size - 1);
    else
        for (int64_t i = 0; i < n; i++) x[i] = ((grid[i * nd] + 1) * size - 1) / 2;
    make[j->g.mode](&j->g, (int32_t)j->g.in[d], scale, x, n, line);
}

/* The elements of a point fill a tile, or in three dimensions by cubes one for each along the first dimension. */
static int FN(slabs_of)(const fac_grid *g) { return g->nd == 3 && g->mode == FAC_GRID_CUBIC ? 4 : 1; }

/* Lists what is not beyond the plane, tap by tap, without a branch. */
static void FN(list)(TILE *t, int64_t n) {
    int32_t count = 0;
    if (t->inside) return;
    for (int k = 0; k < t->taps; k++)
        for (int64_t i = 0; i < n; i++) {
            t->point[count] = (int32_t)(k * FAC_GRID_TILE + i);
            t->place[count] = t->at[k][i];
            count += t->at[k][i] >= 0;
        }
    t->count = count;
}

/* Products of the lines: tap k of the tile is one tap of each dimension. */
static void FN(join)(const fac_grid_job *j, const FN(line) * lines, int64_t n, bool slopes, int slab, TILE *t) {
    static const int of_mode[] = {[FAC_GRID_LINEAR] = 2, [FAC_GRID_NEAREST] = 1, [FAC_GRID_CUBIC] = 4};
    const int nd = j->g.nd, taps = of_mode[j->g.mode];
    int32_t signs = 0;
    t->taps = 1;
    for (int d = 0; d < nd; d++) t->taps *= taps;
    t->taps /= FN(slabs_of)(&j->g);
    for (int k = 0; k < t->taps; k++) {
        const int tap = slab * t->taps + k;
        const int pick[FAC_GRID_DIMS] = {nd == 3 ? tap / taps / taps : tap / taps,
                                         nd == 3 ? tap / taps % taps : tap % taps, tap % taps};
        const int32_t *a0 = lines[0].at[pick[0]], *a1 = lines[1].at[pick[1]], *a2 = lines[nd - 1].at[pick[2]];
        const T *w0 = lines[0].weight[pick[0]], *w1 = lines[1].weight[pick[1]], *w2 = lines[nd - 1].weight[pick[2]];
        const T *s0 = lines[0].slope[pick[0]], *s1 = lines[1].slope[pick[1]], *s2 = lines[nd - 1].slope[pick[2]];
        const int32_t d0 = (int32_t)j->stride[0], d1 = (int32_t)j->stride[1], d2 = nd == 3 ? (int32_t)j->stride[2] : 0;
        for (int64_t i = 0; i < n; i++) {
            const int32_t at = a0[i] * d0 + a1[i] * d1 + a2[i] * d2;
            const int32_t sign = a0[i] | a1[i] | a2[i];
            signs |= sign;
            t->at[k][i] = sign < 0 ? -1 : at;
            t->weight[k][i] = nd == 3 ? w0[i] * w1[i] * w2[i] : w0[i] * w1[i];
        }
        for (int64_t i = 0; slopes && i < n; i++) {
            t->slope[nd - 1][k][i] = nd == 3 ? s0[i] * w1[i] * w2[i] : s0[i] * w1[i];
            t->slope[nd - 2][k][i] = nd == 3 ? w0[i] * s1[i] * w2[i] : w0[i] * s1[i];
        }
        for (int64_t i = 0; slopes && nd == 3 && i < n; i++) t->slope[0][k][i] = w0[i] * w1[i] * s2[i];
    }
    t->inside = signs >= 0;
}

static void FN(make_lines)(const fac_grid_job *j, int64_t sample, int64_t begin, int64_t end, FN(line) * lines) {
    for (int d = 0; d < j->g.nd; d++) FN(make_line)(j, sample, begin, end - begin, d, &lines[d]);
}

/* A number for each tap of a tile's points. */
typedef struct FN(values) {
    T of[FAC_GRID_TAPS][FAC_GRID_TILE];
} FN(values);
#ifndef SAMPLE
/* What the points of a tile show of a plane, tap by tap; of beyond the plane, what was there. */
static void FN(fetch)(const TILE *t, const T *restrict plane, int64_t n, FN(values) *restrict v) {
    for (int k = 0; k < t->taps && t->inside; k++)
        for (int64_t i = 0; i < n; i++) v->of[k][i] = plane[t->at[k][i]];
    T *all = &v->of[0][0];
    for (int32_t m = 0; !t->inside && m < t->count; m++) all[t->point[m]] = plane[t->place[m]];
}

/* The same times `grad` is added to what was there. */
static void FN(meet)(const TILE *t, const T *restrict plane, const T *restrict grad, int64_t n,
                     T (*restrict v)[FAC_GRID_TILE]) {
    for (int k = 0; k < t->taps && t->inside; k++)
        for (int64_t i = 0; i < n; i++) v[k][i] += grad[i] * plane[t->at[k][i]];
    T *all = v[0];
    for (int32_t m = 0; !t->inside && m < t->count; m++)
        all[t->point[m]] += grad[t->point[m] % FAC_GRID_TILE] * plane[t->place[m]];
}
#endif

/* What lies beyond the plane does not count, as the element read for it may be no number. */
static inline T FN(shown)(T value, int32_t at, T weight, bool inside) {
    const T v = weight * value;
    return inside || at >= 0 ? v : 0;
}

/* sum[i] += the tile's points under `weight`, four taps at once. */
static inline void FN(gather_as)(const TILE *t, T (*weight)[FAC_GRID_TILE], const FN(values) * v, int64_t n,
                                 bool inside, T *restrict sum) {
    for (int k = 0; k < t->taps; k += 4) {
        const int32_t(*at)[FAC_GRID_TILE] = &t->at[k];
        const T(*w)[FAC_GRID_TILE] = &weight[k], (*x)[FAC_GRID_TILE] = &v->of[k];
        for (int64_t i = 0; i < n; i++)
            sum[i] += FN(shown)(x[0][i], at[0][i], w[0][i], inside) + FN(shown)(x[1][i], at[1][i], w[1][i], inside) +
                      FN(shown)(x[2][i], at[2][i], w[2][i], inside) + FN(shown)(x[3][i], at[3][i], w[3][i], inside);
    }
}

static inline void FN(gather)(const TILE *t, T (*weight)[FAC_GRID_TILE], const FN(values) * v, int64_t n,
                              T *restrict sum) {
    if (t->taps == 1)
        for (int64_t i = 0; i < n; i++) sum[i] = FN(shown)(v->of[0][i], t->at[0][i], weight[0][i], t->inside);
    else if (t->inside)
        FN(gather_as)(t, weight, v, n, true, sum);
    else
        FN(gather_as)(t, weight, v, n, false, sum);
}

static const T *FN(plane_of)(const fac_grid_job *j, int64_t sample, int64_t c) {
    return (const T *)j->input + sample * j->sample + c * j->channel;
}

static void FN(forward)(const fac_grid_job *j, int64_t sample, int64_t begin, int64_t end) {
    TILE t;
    FN(line) lines[FAC_GRID_DIMS];
#ifndef SAMPLE
    FN(values) v = {0};
#endif
    FN(make_lines)(j, sample, begin, end, lines);
    for (int slab = 0; slab < FN(slabs_of)(&j->g); slab++) {
        FN(join)(j, lines, end - begin, false, slab, &t);
#ifndef SAMPLE
        FN(list)(&t, end - begin);
#endif
        for (int64_t c = 0; c < j->g.channels; c++) {
            T *out = (T *)j->to + (sample * j->g.channels + c) * j->g.points + begin;
#ifdef SAMPLE
            SAMPLE(&t, FN(plane_of)(j, sample, c), end - begin, slab > 0, out);
#else
            T sum[FAC_GRID_TILE] = {0};
            if (slab) memcpy(sum, out, (size_t)(end - begin) * sizeof(T));
            FN(fetch)(&t, FN(plane_of)(j, sample, c), end - begin, &v);
            FN(gather)(&t, t.weight, &v, end - begin, sum);
            memcpy(out, sum, (size_t)(end - begin) * sizeof(T));
#endif
        }
    }
}

/* Channels are added up for each tap: how it changes with the grid is the same for all of them. */
static void FN(to_grid)(const fac_grid_job *j, int64_t sample, int64_t begin, int64_t end) {
    TILE t;
    FN(line) lines[FAC_GRID_DIMS];
    const int64_t n = end - begin;
    T all[FAC_GRID_DIMS][FAC_GRID_TILE] = {{0}};
    FN(make_lines)(j, sample, begin, end, lines);
    for (int slab = 0; slab < FN(slabs_of)(&j->g); slab++) {
        FN(values) v;
        FN(join)(j, lines, n, true, slab, &t);
        memset(&v, 0, (size_t)t.taps * sizeof v.of[0]);
#ifndef SAMPLE
        FN(list)(&t, n);
#endif
        for (int64_t c = 0; c < j->g.channels; c++) {
            const T *grad = (const T *)j->grad + (sample * j->g.channels + c) * j->g.points + begin;
            FN(meet)(&t, FN(plane_of)(j, sample, c), grad, n, v.of);
        }
        for (int d = 0; d < j->g.nd; d++) FN(gather)(&t, t.slope[d], &v, n, all[d]);
    }
    T *to = (T *)j->to + (sample * j->g.points + begin) * j->g.nd;
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < j->g.nd; d++) to[i * j->g.nd + d] = all[d][i];
}

/* What a tile's points show is added to a plane, tap by tap. */
static void FN(add)(const TILE *t, const T *restrict grad, int64_t n, T *restrict plane) {
    FN(values) v;
    for (int k = 0; k < t->taps; k++)
        for (int64_t i = 0; i < n; i++) v.of[k][i] = t->weight[k][i] * grad[i];
    for (int k = 0; k < t->taps && t->inside; k++)
        for (int64_t i = 0; i < n; i++) plane[t->at[k][i]] += v.of[k][i];
    const T *all = &v.of[0][0];
    for (int32_t m = 0; !t->inside && m < t->count; m++) plane[t->place[m]] += all[t->point[m]];
}

static void FN(to_input)(const fac_grid_job *j, int64_t sample, int64_t begin, int64_t end, int64_t first,
                         int64_t last) {
    TILE t;
    FN(line) lines[FAC_GRID_DIMS];
    int64_t count = 1;
    for (int d = 0; d < j->g.nd; d++) count *= j->g.in[d];
    FN(make_lines)(j, sample, begin, end, lines);
    for (int slab = 0; slab < FN(slabs_of)(&j->g); slab++) {
        FN(join)(j, lines, end - begin, false, slab, &t);
        FN(list)(&t, end - begin);
        for (int64_t c = first; c < last; c++) {
            const T *grad = (const T *)j->grad + (sample * j->g.channels + c) * j->g.points + begin;
            FN(add)(&t, grad, end - begin, (T *)j->to + (sample * j->g.channels + c) * count);
        }
    }
}
