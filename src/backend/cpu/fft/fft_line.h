/* One line, split into columns and rows, in stages that threads can share, for one type of real number: fft_body.h includes it for each. */

/* A last group that is not full starts earlier where it can, and computes some lanes once more. */
static FAC_ALWAYS_INLINE int64_t X(group_start)(int64_t group, int64_t n) {
    return fac__max(0, fac__min(group * LANES, n - LANES));
}

/* The factors of a group of columns: those of its lanes by row, and what each row of them is multiplied by, NULL if by nothing. */
typedef struct X(factors) {
    const T *lane, *group;
} X(factors);
static FAC_ALWAYS_INLINE X(factors) X(factors_of)(const fac_fft_core *c, int64_t group) {
    const int64_t at = group * c->columns.n;
    const T *lane = c->lane_twiddles, *of_group = c->group_twiddles;
    if (!of_group) return (X(factors)){lane + at * POINT, NULL};
    return (X(factors)){lane, group ? of_group + 2 * at : NULL};
}
static FAC_ALWAYS_INLINE CV X(factor)(X(factors) f, int64_t row) {
    const CV w = X(get)(f.lane, row);
    return f.group ? X(times)(w, X(splat)(f.group + 2 * row)) : w;
}

/* A last pass whose results are multiplied by these. */
#define FFT_FACTORS(R)                                                                            \
    static void X(factors_##R)(X(factors) f, int64_t run, const T *x, T *y) {                     \
        for (int64_t q = 0; q < run; q++) {                                                       \
            CV a[R];                                                                              \
            _Pragma("GCC unroll 16") for (int j = 0; j < (R); j++) a[j] = X(get)(x, q + j * run); \
            X(dft_##R)(a, NULL);                                                                  \
            _Pragma("GCC unroll 16") for (int k = 0; k < (R); k++)                                \
                X(put)(y, q + k * run, X(times)(a[k], X(factor)(f, q + k * run)));                \
        }                                                                                         \
    }
FFT_FACTORS(2)
FFT_FACTORS(4)
FFT_FACTORS(8)
#if FAC_VECTOR_BYTES == 64
FFT_FACTORS(16)
#endif
#undef FFT_FACTORS

/* Columns of one pass: from memory to a buffer, multiplied by their factors. */
#define FFT_ONLY(R)                                                                                                 \
    static void X(only_##R)(const fac_fft_core *c, const T *at, int64_t step, bool exchange, int64_t group, T *y) { \
        const X(way) from = X(reading)(exchange, false);                                                            \
        const X(factors) f = X(factors_of)(c, group);                                                               \
        CV a[R];                                                                                                    \
        _Pragma("GCC unroll 16") for (int j = 0; j < (R); j++) a[j] = X(read)(at + j * step, from);                 \
        X(dft_##R)(a, (const T *)c->columns.table + c->columns.pass[0].roots);                                      \
        _Pragma("GCC unroll 16") for (int k = 0; k < (R); k++) X(put)(y, k, X(times)(a[k], X(factor)(f, k)));       \
    }
#if LANES == 8
FFT_ONLY(4)
#endif
FFT_ONLY(8)
#if LANES == 16
FFT_ONLY(6)
FFT_ONLY(7)
#endif
#if FAC_VECTOR_BYTES == 64
FFT_ONLY(16)
#endif
#undef FFT_ONLY
static bool X(only)(const fac_fft_core *c, const T *at, int64_t step, bool exchange, int64_t group, T *y) {
    switch (c->columns.n) {
#if LANES == 8
    case 4: X(only_4)(c, at, step, exchange, group, y); return true;
#endif
    case 8: X(only_8)(c, at, step, exchange, group, y); return true;
#if LANES == 16
    case 6: X(only_6)(c, at, step, exchange, group, y); return true;
    case 7: X(only_7)(c, at, step, exchange, group, y); return true;
#endif
#if FAC_VECTOR_BYTES == 64
    case 16: X(only_16)(c, at, step, exchange, group, y); return true;
#endif
    default: return false;
    }
}

/* The passes of the columns from `begin` on, and the factors, which go in place: into `out`, or wherever the passes end if that is NULL. */
static const T *X(run_columns)(const fac_fft_core *c, int begin, int64_t group, T *buffer, T *other, T *out) {
    const fac_fft_chain *columns = &c->columns;
    const int end = columns->passes - 1;
    const int64_t radix = begin <= end ? columns->pass[end].radix : 0;
    const bool fused = radix == 2 || radix == 4 || radix == 8 || radix == 16;
    const T *x = X(run_passes)(columns, begin, fused ? end : columns->passes, buffer, buffer, other);
    T *y = out ? out : x == buffer ? buffer : other;
    const X(factors) f = X(factors_of)(c, group);
    if (radix == 2)
        X(factors_2)(f, columns->n / 2, x, y);
    else if (radix == 4)
        X(factors_4)(f, columns->n / 4, x, y);
    else if (radix == 8)
        X(factors_8)(f, columns->n / 8, x, y);
#if FAC_VECTOR_BYTES == 64
    else if (radix == 16)
        X(factors_16)(f, columns->n / 16, x, y);
#endif
    else
        for (int64_t r = 0; r < columns->n; r++) X(put)(y, r, X(times)(X(get)(x, r), X(factor)(f, r)));
    return y;
}

/* Rows of as many points as there are lanes, of a line that is one group of columns: LANES of them are a square, which goes through
   registers to its place. */
static FAC_ALWAYS_INLINE bool X(has_squares)(const fac_fft_core *c) {
    return LANES >= 8 && c->rows.n == LANES && c->columns.n >= LANES;
}
#if LANES >= 8
/* The first half of each point's lanes goes to at + i * step, the second one to next + i * step. Where a step is shorter than that,
   the lanes beyond it hold nothing, and the next point is written over them. */
static FAC_ALWAYS_INLINE void X(leave_square)(const VT *re, const VT *im, T *at, T *next, int64_t step, bool exchange,
                                              T scale) {
    const VT s = SPLAT(scale);
    const X(way) to = X(writing)(exchange, false);
    CV a[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) a[i] = (CV){re[i], im[i]};
#if LANES == 16
    X(dft_16)(a, NULL);
#else
    X(dft_8)(a, NULL);
#endif
    if (scale != 1)
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) a[i] = X(scaled)(a[i], s);
#pragma GCC unroll 16
    for (int i = 0; i < LANES - 1; i++) X(write)(at + i * step, next + i * step, a[i], to);
    const int64_t end = (LANES - 1) * step;
#if FAC_VECTOR_BYTES == 64
    if (step < LANES) {
        X(store_first)(at + end, X(pick)(a[LANES - 1].re, to.first, a[LANES - 1].im), step);
        X(store_first)(next + end, X(pick)(a[LANES - 1].re, to.second, a[LANES - 1].im), step);
        return;
    }
#endif
    X(write)(at + end, next + end, a[LANES - 1], to);
}
static void X(row_square)(const T *x, T *at, T *next, int64_t step, bool exchange, T scale) {
    VT re[LANES], im[LANES];
    X(square)(re, x, POINT);
    X(square)(im, x + LANES, POINT);
    X(leave_square)(re, im, at, next, step, exchange, scale);
}
#endif

/* Rows r of a group of columns, from lanes to [row group][column][lanes of rows]. Lanes that another group has are not written. */
static void X(turn)(const fac_fft_core *c, const T *x, int64_t group, T *middle) {
    const int64_t rows = c->columns.n, columns = c->rows.n, start = X(group_start)(group, columns);
    const int64_t skip = group * LANES - start, lanes = fac__min(LANES, columns - start);
    const bool whole = skip == 0 && lanes == LANES && rows >= LANES;
    for (int64_t g = 0; g * LANES < rows; g++) {
        const int64_t first = X(group_start)(g, rows);
        T *to = middle + (g * columns + start) * POINT;
        for (int part = 0; part < POINT; part += LANES) {
            VT v[LANES];
            if (whole) {
                X(square)(v, x + first * POINT + part, POINT);
#pragma GCC unroll 16
                for (int i = 0; i < LANES; i++) STORE(to + i * POINT + part, v[i]);
                continue;
            }
            T room[LANES * LANES];
            for (int i = 0; i < LANES; i++)
                v[i] = LOAD(x + fac__min(first + i, rows - 1) * POINT + part); /* more is not used */
            TRANSPOSE(v);
            for (int i = 0; i < LANES; i++) STORE(room + i * LANES, v[i]);
            for (int64_t lane = skip; lane < lanes; lane++)
                memcpy(to + lane * POINT + part, room + lane * LANES, LANES * sizeof(T));
        }
    }
}

static void X(stage_columns)(const fac_fft_line *l, int64_t begin, int64_t end, T *scratch) {
    const fac_fft_core *c = &l->plan->core;
    const int lanes = (int)fac__min(LANES, c->rows.n);
    const bool squares = X(has_squares)(c);
    T *buffer = squares ? l->middle : scratch, *other = scratch + c->columns.n * POINT;
    for (int64_t g = begin; g < end; g++) {
        const T *from = (const T *)l->from + 2 * X(group_start)(g, c->rows.n), *x = buffer;
        if (lanes != LANES || !X(only)(c, from, 2 * c->rows.n, l->exchange_from, g, buffer)) {
            const int done = X(enter_chain)(&c->columns, from, 2 * c->rows.n, lanes, l->exchange_from, buffer);
            x = X(run_columns)(c, done, g, buffer, other, squares ? buffer : NULL);
        }
        if (!squares) X(turn)(c, x, g, l->middle);
    }
}

/* The last group and what it computes once more belong to one item, so that no two threads write the same element. */
static void X(stage_rows)(const fac_fft_line *l, int64_t begin, int64_t end, T *scratch) {
    const fac_fft_core *c = &l->plan->core;
    const int lanes = (int)fac__min(LANES, c->columns.n);
    const int64_t step = 2 * c->columns.n;
    T *other = scratch + c->rows.n * POINT;
    if (end == fac__fft_stage_items(l, FAC_FFT_ROWS)) end = fac__div_up(c->columns.n, LANES);
    for (int64_t g = begin; g < end; g++) {
        const int64_t first = X(group_start)(g, c->columns.n);
        const T *x = l->middle;
        T *to = (T *)l->to + 2 * first;
#if LANES >= 8
        if (X(has_squares)(c)) {
            X(row_square)(x + first * POINT, to, to + LANES, step, l->exchange_to, (T)l->to_scale);
            continue;
        }
#endif
        X(leave_chain)
        (&c->rows, 0, x + g * c->rows.n * POINT, scratch, other, to, step, lanes, l->exchange_to, (T)l->to_scale);
    }
}

/* LANES complex numbers side by side at 2 * i, or one, in all lanes. */
static FAC_ALWAYS_INLINE CV X(run_at)(const void *x, int64_t i) { return X(read_pairs)((const T *)x + 2 * i, LANES); }
static FAC_ALWAYS_INLINE CV X(one)(T re, T im) { return (CV){SPLAT(re), SPLAT(im)}; }
static FAC_ALWAYS_INLINE CV X(one_at)(const void *x, int64_t i, int64_t step) {
    return X(splat)((const T *)x + i * step);
}
static FAC_ALWAYS_INLINE void X(put_one)(T *x, int64_t i, int64_t step, CV a) {
    x[i * step] = a.re[0];
    x[i * step + 1] = a.im[0];
}

static FAC_ALWAYS_INLINE CV X(chirped)(const fac_fft_plan *p, CV a, int64_t k, bool run) {
    return p->chirped ? X(times)(a, run ? X(run_at)(p->chirp, k) : X(one_at)(p->chirp, k, 2)) : a;
}
/* Points k to k + LANES - 1 of the complex transform in `work`, or point k in all lanes. */
static FAC_ALWAYS_INLINE CV X(transformed)(const fac_fft_plan *p, const T *work, int64_t k, bool run) {
    const CV a = run ? X(run_at)(work, k) : X(one_at)(work, k, 2);
    return X(chirped)(p, X(maybe_exchanged)(a, p->chirped), k, run);
}

/* The same of runs that are read and written in either order. */
#define PAIR_WAYS                                                                      \
    const X(way) read = X(reading)(false, false), read_back = X(reading)(false, true), \
                 write = X(writing)(false, false), write_back = X(writing)(false, true)
static FAC_ALWAYS_INLINE CV X(chirped_run)(const fac_fft_plan *p, CV a, int64_t k, X(way) w) {
    return p->chirped ? X(times)(a, X(read)((const T *)p->chirp + 2 * k, w)) : a;
}
static FAC_ALWAYS_INLINE CV X(transformed_run)(const fac_fft_plan *p, const T *work, int64_t k, X(way) w) {
    const CV a = X(read)(work + 2 * k, w);
    return X(chirped_run)(p, X(maybe_exchanged)(a, p->chirped), k, w);
}
static FAC_ALWAYS_INLINE void X(write_run)(T *at, int64_t k, CV a, X(way) w) {
    X(write)(at + 2 * k, at + 2 * k + LANES, a, w);
}

/* ---- into the work line ---- */

/* Real lines of even length: a point k and its mirror image h - k become points of the half transform. */
static void X(enter_pair)(const fac_fft_line *l, int64_t k) {
    const fac_fft_plan *p = l->plan;
    const int64_t h = p->inner;
    CV a = X(one_at)(l->in, k, l->in_step), b = X(one_at)(l->in, h - k, l->in_step);
    if (k == 0)
        a = X(fold_ends)(a, b);
    else
        X(fold)(&a, &b, X(unfold_one)(p, k));
    X(put_one)(l->work, k, 2, X(chirped)(p, X(exchanged)(a), k, false));
    if (k > 0) X(put_one)(l->work, h - k, 2, X(chirped)(p, X(exchanged)(b), h - k, false));
}
static void X(enter_pairs)(const fac_fft_line *l, int64_t begin, int64_t end) {
    const fac_fft_plan *p = l->plan;
    const int64_t h = p->inner, last = l->in_step == 2 ? fac__min(end, (h + 1) / 2) : 0;
    T *work = l->work;
    PAIR_WAYS;
    int64_t k = begin;
    if (k == 0) X(enter_pair)(l, k++);
    const int64_t first = k;
    for (; k < last && last - first >= LANES; k += LANES) {
        k = fac__min(k, last - LANES); /* the last vector does some once more */
        const int64_t far = h - k - LANES + 1;
        CV a = X(run_at)(l->in, k), b = X(read)((const T *)l->in + 2 * far, read_back);
        X(fold)(&a, &b, X(unfold_run)(p, k));
        X(write_run)(work, k, X(chirped_run)(p, X(exchanged)(a), k, read), write);
        X(write_run)(work, far, X(chirped_run)(p, X(exchanged)(b), far, read_back), write_back);
    }
    for (; k < end; k++) X(enter_pair)(l, k);
}

/* Point k of a line that is not folded. */
static FAC_ALWAYS_INLINE CV X(entering)(const fac_fft_line *l, int64_t k) {
    const T *in = l->in;
    const int64_t step = l->in_step, n = l->plan->n;
    if (l->plan->kind == FAC_FFT_COMPLEX) return X(maybe_exchanged)(X(one_at)(in, k, step), l->inverse);
    if (l->plan->kind == FAC_FFT_FROM_REAL)
        return l->plan->inner < n ? X(one)(in[2 * k * step], in[(2 * k + 1) * step]) : X(one)(in[k * step], 0);
    if (k == 0) return X(one)(0, in[0]);
    return X(exchanged)(2 * k < n ? X(one_at)(in, k, step) : X(conj)(X(one_at)(in, n - k, step)));
}
static void X(enter_each)(const fac_fft_line *l, int64_t begin, int64_t end) {
    const fac_fft_plan *p = l->plan;
    const bool side_by_side = p->kind == FAC_FFT_COMPLEX && l->in_step == 2;
    T *work = l->work;
    int64_t k = begin;
    for (; side_by_side && k + LANES <= end; k += LANES) {
        const CV a = X(maybe_exchanged)(X(run_at)(l->in, k), l->inverse);
        X(write_pairs)(work + 2 * k, X(chirped)(p, a, k, true), LANES);
    }
    for (; k < end; k++) X(put_one)(work, k, 2, X(chirped)(p, X(entering)(l, k), k, false));
}

static void X(stage_enter)(const fac_fft_line *l, int64_t begin, int64_t end) {
    const fac_fft_plan *p = l->plan;
    if (begin == 0) memset((T *)l->work + 2 * p->inner, 0, (size_t)(p->core.n - p->inner) * 2 * sizeof(T));
    if (p->kind == FAC_FFT_TO_REAL && p->inner < p->n)
        X(enter_pairs)(l, begin, end);
    else
        X(enter_each)(l, begin, end);
}

static void X(stage_filter)(const fac_fft_line *l, int64_t begin, int64_t end) {
    const T *filter = l->plan->filter;
    T *work = l->work;
    int64_t k = begin;
    for (; k + LANES <= end; k += LANES)
        X(write_pairs)(work + 2 * k, X(exchanged)(X(times)(X(run_at)(work, k), X(run_at)(filter, k))), LANES);
    for (; k < end; k++) X(put_one)(work, k, 2, X(exchanged)(X(times)(X(one_at)(work, k, 2), X(one_at)(filter, k, 2))));
}

/* ---- out of the work line ---- */

/* Point k of the transform of a real line, and its mirror image if that is wanted. */
static FAC_ALWAYS_INLINE void X(put_real)(const fac_fft_line *l, int64_t k, CV a) {
    const int64_t n = l->plan->n;
    X(put_one)(l->out, k, l->out_step, a);
    if (l->two_sided && k > 0 && 2 * k < n) X(put_one)(l->out, n - k, l->out_step, X(conj)(a));
}
static void X(leave_pair)(const fac_fft_line *l, int64_t k) {
    const fac_fft_plan *p = l->plan;
    const int64_t h = p->inner;
    const VT s = SPLAT((T)l->scale);
    CV a = X(transformed)(p, l->work, k, false), b = k ? X(transformed)(p, l->work, h - k, false) : a;
    if (k == 0)
        X(unfold_ends)(&a, &b);
    else
        X(unfold)(&a, &b, X(unfold_one)(p, k));
    X(put_real)(l, k, X(scaled)(a, s));
    if (2 * k < h) X(put_real)(l, h - k, X(scaled)(b, s));
}
static void X(leave_pairs)(const fac_fft_line *l, int64_t begin, int64_t end) {
    const fac_fft_plan *p = l->plan;
    const int64_t h = p->inner, last = l->out_step == 2 ? fac__min(end, (h + 1) / 2) : 0;
    const VT s = SPLAT((T)l->scale);
    T *out = l->out;
    PAIR_WAYS;
    int64_t k = begin;
    if (k == 0) X(leave_pair)(l, k++);
    const int64_t first = k;
    for (; k < last && last - first >= LANES; k += LANES) {
        k = fac__min(k, last - LANES); /* the last vector does some once more */
        const int64_t far = h - k - LANES + 1;
        CV a = X(transformed_run)(p, l->work, k, read), b = X(transformed_run)(p, l->work, far, read_back);
        X(unfold)(&a, &b, X(unfold_run)(p, k));
        if (l->scale != 1) a = X(scaled)(a, s), b = X(scaled)(b, s);
        X(write_run)(out, k, a, write);
        X(write_run)(out, far, b, write_back);
        if (!l->two_sided) continue;
        X(write_run)(out, h + k, X(conj)(b), write);
        X(write_run)(out, h + far, X(conj)(a), write_back);
    }
    for (; k < end; k++) X(leave_pair)(l, k);
}

/* Point k of a line that is not unfolded. */
static FAC_ALWAYS_INLINE void X(put_each)(const fac_fft_line *l, int64_t k, CV a) {
    T *out = l->out;
    if (l->plan->kind == FAC_FFT_FROM_REAL) {
        X(put_real)(l, k, a);
    } else if (l->plan->kind == FAC_FFT_COMPLEX) {
        X(put_one)(out, k, l->out_step, a);
    } else if (l->plan->inner < l->plan->n) {
        out[2 * k * l->out_step] = a.re[0];
        out[(2 * k + 1) * l->out_step] = a.im[0];
    } else {
        out[k * l->out_step] = a.re[0];
    }
}
static void X(leave_each)(const fac_fft_line *l, int64_t begin, int64_t end) {
    const fac_fft_plan *p = l->plan;
    const bool side_by_side = p->kind == FAC_FFT_COMPLEX && l->out_step == 2;
    const VT s = SPLAT((T)l->scale);
    int64_t k = begin;
    for (; side_by_side && k + LANES <= end; k += LANES) {
        const CV a = X(maybe_exchanged)(X(transformed)(p, l->work, k, true), l->inverse);
        X(write_pairs)((T *)l->out + 2 * k, X(scaled)(a, s), LANES);
    }
    for (; k < end; k++)
        X(put_each)(l, k, X(scaled)(X(maybe_exchanged)(X(transformed)(p, l->work, k, false), l->inverse), s));
}

static void X(stage_leave)(const fac_fft_line *l, int64_t begin, int64_t end) {
    if (l->plan->kind == FAC_FFT_FROM_REAL && l->plan->inner < l->plan->n)
        X(leave_pairs)(l, begin, end);
    else
        X(leave_each)(l, begin, end);
}

void FAC_ISA_NAME(X(fac__fft_stage))(const fac_fft_line *l, fac_fft_stage stage, int64_t begin, int64_t end,
                                     void *scratch) {
    switch (stage) {
    case FAC_FFT_ENTER: X(stage_enter)(l, begin, end); break;
    case FAC_FFT_COLUMNS: X(stage_columns)(l, begin, end, scratch); break;
    case FAC_FFT_ROWS: X(stage_rows)(l, begin, end, scratch); break;
    case FAC_FFT_FILTER: X(stage_filter)(l, begin, end); break;
    default: X(stage_leave)(l, begin, end);
    }
}
