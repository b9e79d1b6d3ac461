/* The loops of norm_rows.h for one type: included with T, S (its suffix), LANES and FMA defined. */

#define FN(name) FAC_ISA_NAME(FAC_PASTE(name, S))

void FN(fac__norm_apply_)(const T *x, T mean, T rstd, const T *w, const T *b, T *y, int64_t n) {
    if (w && b) {
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd * w[i] + b[i];
    } else if (w) {
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd * w[i];
    } else if (b) {
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd + b[i];
    } else {
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd;
    }
}

static double FAC_PASTE(lane_sum_, S)(const T *lane) {
    double s = 0;
    for (int j = 0; j < LANES; j++) s += (double)lane[j];
    return s;
}

FAC_CASCADE(FAC_PASTE(lanes_, S), T, LANES)
#define PUSH FAC_PASTE(FAC_PASTE(lanes_, S), _push)
#define TOTAL FAC_PASTE(FAC_PASTE(lanes_, S), _total)

/* s += sum g, p += sum g (x - mean), for the lanes of `steps` times LANES elements. */
static inline void FAC_PASTE(sum_steps_, S)(const T *dy, const T *x, T mean, const T *w, int64_t steps, T *restrict s,
                                            T *restrict p) {
    if (w) {
        for (int64_t i = 0; i < steps * LANES; i += LANES) {
            for (int j = 0; j < LANES; j++) {
                T g = dy[i + j] * w[i + j];
                s[j] += g;
                p[j] += g * (x[i + j] - mean);
            }
        }
    } else {
        for (int64_t i = 0; i < steps * LANES; i += LANES) {
            for (int j = 0; j < LANES; j++) {
                s[j] += dy[i + j];
                p[j] += dy[i + j] * (x[i + j] - mean);
            }
        }
    }
}

void FN(fac__norm_sums_)(const T *dy, const T *x, T mean, T rstd, const T *w, int64_t n, double *sums) {
    T s_level[FAC_CASCADE_LEVELS][LANES], p_level[FAC_CASCADE_LEVELS][LANES];
    uint64_t blocks = 0;
    int64_t i = 0;
    for (; n - i >= FAC_CASCADE_STEPS * LANES; i += FAC_CASCADE_STEPS * LANES, blocks++) {
        T s[LANES] = {0}, p[LANES] = {0};
        FAC_PASTE(sum_steps_, S)(dy + i, x + i, mean, w ? w + i : NULL, FAC_CASCADE_STEPS, s, p);
        PUSH(s_level, blocks, s);
        PUSH(p_level, blocks, p);
    }
    T s[LANES] = {0}, p[LANES] = {0};
    const int64_t steps = (n - i) / LANES;
    FAC_PASTE(sum_steps_, S)(dy + i, x + i, mean, w ? w + i : NULL, steps, s, p);
    i += steps * LANES;
    for (int j = 0; i < n; i++, j++) {
        T g = w ? dy[i] * w[i] : dy[i];
        s[j] += g;
        p[j] += g * (x[i] - mean);
    }
    TOTAL(s_level, blocks, s);
    TOTAL(p_level, blocks, p);
    sums[0] = FAC_PASTE(lane_sum_, S)(s);
    sums[1] = FAC_PASTE(lane_sum_, S)(p) * (double)rstd;
}

void FN(fac__norm_moments_each_)(const T *x, const T *shift, double *restrict sum, double *restrict square, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)x[i] - (double)shift[i];
        sum[i] += d;
        square[i] += d * d;
    }
}

void FN(fac__norm_back_)(const T *dy, const T *x, T mean, T rstd, const T *w, T a, T b, T *dx, int64_t n) {
    T c = rstd * b;
    if (w) {
        for (int64_t i = 0; i < n; i++) dx[i] = rstd * (dy[i] * w[i] - a - (x[i] - mean) * c);
    } else {
        for (int64_t i = 0; i < n; i++) dx[i] = rstd * (dy[i] - a - (x[i] - mean) * c);
    }
}

void FN(fac__norm_params_)(const T *dy, const T *x, T mean, T rstd, T *restrict dw, T *restrict db, int64_t n) {
    if (dw && db) {
        for (int64_t i = 0; i < n; i++) {
            dw[i] += dy[i] * ((x[i] - mean) * rstd);
            db[i] += dy[i];
        }
    } else if (dw) {
        for (int64_t i = 0; i < n; i++) dw[i] += dy[i] * ((x[i] - mean) * rstd);
    } else if (db) {
        for (int64_t i = 0; i < n; i++) db[i] += dy[i];
    }
}

void FN(fac__norm_params_each_)(const T *dy, const T *x, const T *mean, T *restrict dw, T *restrict db, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        dw[i] += dy[i] * (x[i] - mean[i]);
        db[i] += dy[i];
    }
}

void FN(fac__scale_)(const T *x, T scale, T shift, T *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * scale + shift;
}

void FN(fac__scale_each_)(const T *x, const T *scale, const T *shift, T *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * scale[i] + shift[i];
}

void FN(fac__blend_)(const T *dy, const T *x, T p, T q, T r, T *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = dy[i] * p + x[i] * q + r;
}

void FN(fac__blend_each_)(const T *dy, const T *x, const T *p, const T *q, const T *r, T *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = dy[i] * p[i] + x[i] * q[i] + r[i];
}

double FN(fac__square_sum_)(const T *x, int64_t n) {
    T level[FAC_CASCADE_LEVELS][LANES];
    uint64_t blocks = 0;
    int64_t i = 0;
    for (;; blocks++) {
        T s[LANES] = {0};
        const int64_t left = (n - i) / LANES, steps = left < FAC_CASCADE_STEPS ? left : FAC_CASCADE_STEPS;
        for (int64_t end = i + steps * LANES; i < end; i += LANES) {
            for (int j = 0; j < LANES; j++) s[j] += x[i + j] * x[i + j];
        }
        if (steps == FAC_CASCADE_STEPS) {
            PUSH(level, blocks, s);
            continue;
        }
        for (int j = 0; i < n; i++, j++) s[j] += x[i] * x[i];
        TOTAL(level, blocks, s);
        return FAC_PASTE(lane_sum_, S)(s);
    }
}

#undef PUSH
#undef TOTAL
#undef FN
