/* The body of blocked.isa.c for one number of channels in a block: BLOCK, with NAME(f) for its functions. */

typedef float NAME(lanes) __attribute__((vector_size(BLOCK * 4), aligned(4), may_alias));

#if FAC_VECTOR_BYTES == BLOCK * 4
#define MULTIPLY_ADD(a, b, c) fac_fma_f32(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif
#define AT(p) (*(const NAME(lanes) *)(const void *)(p))

/* Where a line is, and what of the input and the weight it reads. */
typedef struct NAME(place) {
    const float *in, *weight, *bias;
    float *out;
    int64_t at[2]; /* in the first dimensions */
} NAME(place);

static NAME(place) NAME(find)(const fac_blocked_conv *j, int64_t row) {
    const fac_conv *c = j->c;
    NAME(place) p;
    /* The line is along the last of c->nd dimensions; those that are missing have size 1 and stand behind it. */
    const int64_t width = c->small_size[c->nd - 1], lines = c->small_count / (width ? width : 1);
    const int64_t line = row % lines, block = row / lines % j->blocks, rest = row / lines / j->blocks;
    const bool single = j->weight_in == 0;
    const int64_t groups = single ? 1 : c->groups, g = rest % groups, n = rest / groups;
    const int64_t second = c->nd == 3 ? c->small_size[1] : 1;
    p.at[0] = c->nd == 1 ? 0 : line / second;
    p.at[1] = c->nd == 3 ? line % second : 0;
    const int64_t in_group =
        j->in_block == 1 ? c->large * c->large_count : fac__div_up(c->large, BLOCK) * c->large_count * BLOCK;
    if (single) {
        p.in = j->in + (n * j->blocks + block) * c->large_count * BLOCK;
        p.weight = j->weight + block * c->taps * BLOCK;
    } else {
        p.in = j->in + (n * groups + g) * in_group;
        p.weight =
            j->weight + (g * j->blocks + block) * fac__div_up(c->large, j->weight_in) * c->taps * j->weight_in * BLOCK;
    }
    p.bias = j->bias ? j->bias + (g * j->blocks + block) * BLOCK : NULL;
    p.out = j->out + (((n * groups + g) * j->blocks + block) * c->small_count + line * width) * BLOCK;
    return p;
}

/* The points [lo, hi) of n from `first` on whose tap lies within the input. */
static inline void NAME(within)(const fac_conv *c, int64_t first, int64_t tap, int64_t n, int64_t *lo, int64_t *hi,
                                int64_t *x) {
    const int d = c->nd - 1;
    const int64_t step = c->stride[d], start = first * step - c->padding[d] + tap * c->dilation[d];
    *x = start;
    *lo = start >= 0 ? 0 : fac__min(n, fac__div_up(-start, step));
    *hi = start >= c->large_size[d] ? 0 : fac__min(n, fac__div_up(c->large_size[d] - start, step));
    if (*hi < *lo) *hi = *lo;
}

/* Where a tap of the outer dimensions lies in the input: the number of its line; -1 outside. */
static inline int64_t NAME(line_of)(const fac_conv *c, const int64_t *at, int64_t outer) {
    int64_t index[2] = {0, 0};
    const int64_t taps[2] = {c->nd == 3 ? outer / c->kernel[1] : outer, c->nd == 3 ? outer % c->kernel[1] : 0};
    for (int d = 0; d < c->nd - 1; d++) {
        index[d] = at[d] * c->stride[d] - c->padding[d] + taps[d] * c->dilation[d];
        if (index[d] < 0 || index[d] >= c->large_size[d]) return -1;
    }
    return c->nd == 3 ? index[0] * c->large_size[1] + index[1] : index[0];
}

/* Points [first, first + n) of a line, n at most TILE. */
static void NAME(points)(const fac_blocked_conv *j, const NAME(place) * p, int64_t first, int64_t n) {
    const fac_conv *c = j->c;
    const int64_t width = c->large_size[c->nd - 1], taps = c->kernel[c->nd - 1],
                  step = c->stride[c->nd - 1] * j->in_block;
    const int64_t outer = c->taps / taps, channel = j->in_block == 1 ? c->large_count : 1;
    const int64_t in_step = (j->in_block == 1 ? j->weight_in : BLOCK) * c->large_count;
    NAME(lanes) sum[TILE];
    for (int t = 0; t < TILE; t++) sum[t] = p->bias ? AT(p->bias) : (NAME(lanes)){0};
    const float *in = p->in, *w = p->weight;
    for (int64_t k = 0; k < c->large; k += j->weight_in, in += in_step) {
        const int64_t channels = fac__min(j->weight_in, c->large - k);
        for (int64_t o = 0; o < outer; o++) {
            const int64_t line = NAME(line_of)(c, p->at, o);
            for (int64_t tap = 0; tap < taps; tap++, w += j->weight_in * BLOCK) {
                int64_t lo, hi, x;
                if (line < 0) continue;
                NAME(within)(c, first, tap, n, &lo, &hi, &x);
                const float *from = in + line * width * j->in_block;
                const int64_t start = x * j->in_block;
                if (lo == 0 && hi == TILE) {
                    for (int64_t i = 0; i < channels; i++) {
                        const NAME(lanes) weight = AT(w + i * BLOCK);
                        const float *at = from + start + i * channel;
                        for (int t = 0; t < TILE; t++)
                            sum[t] = MULTIPLY_ADD(weight, at[t * step] - (NAME(lanes)){0}, sum[t]);
                    }
                } else {
                    for (int64_t t = lo; t < hi; t++)
                        for (int64_t i = 0; i < channels; i++)
                            sum[t] = MULTIPLY_ADD(AT(w + i * BLOCK),
                                                  from[start + t * step + i * channel] - (NAME(lanes)){0}, sum[t]);
                }
            }
        }
    }
    for (int64_t t = 0; t < n; t++) *(NAME(lanes) *)(void *)(p->out + (first + t) * BLOCK) = sum[t];
}

/* The same where every channel has a weight of its own. */
static void NAME(single_points)(const fac_blocked_conv *j, const NAME(place) * p, int64_t first, int64_t n) {
    const fac_conv *c = j->c;
    const int64_t width = c->large_size[c->nd - 1], taps = c->kernel[c->nd - 1], step = c->stride[c->nd - 1] * BLOCK;
    const int64_t outer = c->taps / taps;
    NAME(lanes) sum[TILE];
    for (int t = 0; t < TILE; t++) sum[t] = p->bias ? AT(p->bias) : (NAME(lanes)){0};
    for (int64_t o = 0; o < outer; o++) {
        const int64_t line = NAME(line_of)(c, p->at, o);
        for (int64_t tap = 0; tap < taps && line >= 0; tap++) {
            int64_t lo, hi, x;
            NAME(within)(c, first, tap, n, &lo, &hi, &x);
            const NAME(lanes) weight = AT(p->weight + (o * taps + tap) * BLOCK);
            const float *from = p->in + line * width * BLOCK;
            for (int64_t t = lo; t < hi; t++) sum[t] = MULTIPLY_ADD(weight, AT(from + x * BLOCK + t * step), sum[t]);
        }
    }
    for (int64_t t = 0; t < n; t++) *(NAME(lanes) *)(void *)(p->out + (first + t) * BLOCK) = sum[t];
}

static void NAME(line)(const fac_blocked_conv *j, int64_t row) {
    const int64_t width = j->c->small_size[j->c->nd - 1];
    const NAME(place) p = NAME(find)(j, row);
    for (int64_t first = 0; first < width; first += TILE) {
        const int64_t n = fac__min(TILE, width - first);
        if (j->weight_in == 0)
            NAME(single_points)(j, &p, first, n);
        else
            NAME(points)(j, &p, first, n);
    }
}

#undef MULTIPLY_ADD
#undef AT
