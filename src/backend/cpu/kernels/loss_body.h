/* The loops of loss.h for one type: included with T, S (its suffix) and the type's functions defined. */

#define FN(name) FAC_ISA_NAME(FAC_PASTE(name, S))
#define EACH(EXPR)                              \
    FAC_IVDEP for (int64_t i = 0; i < n; i++) { \
        const T d = x[i] - t[i], a = ABS(d);    \
        (void)a, (void)d;                       \
        y[i] = (EXPR);                          \
    }                                           \
    break

void FN(fac__loss_)(fac_loss l, const T *x, const T *t, double p, T *y, int64_t n) {
    const T q = (T)p;
    switch (l) {
    case FAC_LOSS_SQUARE: EACH(d * d);
    case FAC_LOSS_SMOOTH: EACH(a < q ? (T)0.5 * d * d / q : a - (T)0.5 * q);
    case FAC_LOSS_HUBER: EACH(a <= q ? (T)0.5 * d * d : q * (a - (T)0.5 * q));
    case FAC_LOSS_BINARY: EACH((t[i] - 1) * MAX(LOG1P(-x[i]), (T)-100) - t[i] * MAX(LOG(x[i]), (T)-100));
    }
}

#define SIGN(d) ((d) > 0 ? (T)1 : (d) < 0 ? (T)-1 : (d)) /* NaN stays */

void FN(fac__loss_back_)(fac_loss l, const T *g, const T *x, const T *t, double p, double scale, T *y, int64_t n) {
    const T q = (T)p, s = (T)scale;
    switch (l) {
    case FAC_LOSS_SQUARE: EACH(2 * d * s * g[i]);
    case FAC_LOSS_SMOOTH: EACH((a < q ? d / q : SIGN(d)) * s * g[i]);
    case FAC_LOSS_HUBER: EACH((a <= q ? d : q * SIGN(d)) * s * g[i]);
    case FAC_LOSS_BINARY: EACH(d / MAX((1 - x[i]) * x[i], (T)1e-12) * s * g[i]);
    }
}

#undef SIGN
#undef EACH
#undef FN
