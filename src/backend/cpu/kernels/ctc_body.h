/* The recursions of ctc.c in one type: included with T, S (its suffix) and the type's functions defined. */

#define N(name) FN_(name, S)
#define FN_(name, s) FN__(name, s)
#define FN__(name, s) name##_##s
#define NONE ((T)-INFINITY)

/* log(exp(a) + exp(b) + exp(c)). */
static inline T N(log_sum)(T a, T b, T c) {
    const T m = a > b ? (a > c ? a : c) : (b > c ? b : c);
    if (m == NONE) return NONE;
    return LOG(EXP(a - m) + EXP(b - m) + EXP(c - m)) + m;
}

/* Log-probabilities of sequence n at step t. */
static const T *N(step_of)(const ctc_job *j, int64_t n, int64_t t) {
    return (const T *)j->probs + (t * j->batch + n) * j->classes;
}

static void N(forward)(const ctc_job *j, int64_t n) {
    const int64_t length = j->input_lengths.v[n], last = 2 * j->target_lengths.v[n];
    T *alpha = (T *)j->alpha + n * j->steps * j->width, *loss = (T *)j->loss + n;
    for (int64_t i = 0; i < j->steps * j->width; i++) alpha[i] = NONE;
    *loss = last == 0 ? 0 : (T)INFINITY;
    if (length == 0) return;
    alpha[0] = N(step_of)(j, n, 0)[j->blank];
    if (last) alpha[1] = N(step_of)(j, n, 0)[symbol(j, n, 1)];
    for (int64_t t = 1; t < length; t++) {
        const T *before = alpha, *probs = N(step_of)(j, n, t);
        alpha += j->width;
        for (int64_t s = 0; s <= last; s++) {
            const T stay = before[s], step = s > 0 ? before[s - 1] : NONE, skip = skips(j, n, s) ? before[s - 2] : NONE;
            alpha[s] = N(log_sum)(stay, step, skip) + probs[symbol(j, n, s)];
        }
    }
    *loss = -N(log_sum)(alpha[last], last ? alpha[last - 1] : NONE, NONE);
}

/* sums[class] = the logarithm of the sum of exp(alpha + beta) over its symbols. */
static void N(gather_step)(const ctc_job *j, int64_t n, const T *alpha, const T *beta, T *sums) {
    const int64_t last = 2 * j->target_lengths.v[n];
    for (int64_t c = 0; c < j->classes; c++) sums[c] = NONE;
    for (int64_t s = 0; s <= last; s++) {
        T *sum = sums + symbol(j, n, s);
        *sum = N(log_sum)(*sum, alpha[s] + beta[s], NONE);
    }
}

/* The endings from step t, of those from t + 1; the last step's begin with the last two symbols. */
static void N(beta_step)(const ctc_job *j, int64_t n, int64_t t, const T *after, T *beta) {
    const int64_t last = 2 * j->target_lengths.v[n];
    const T *probs = N(step_of)(j, n, t);
    const bool ends = t + 1 == j->input_lengths.v[n];
    for (int64_t s = 0; s <= last; s++) {
        const T p = probs[symbol(j, n, s)];
        if (ends) {
            beta[s] = s + 1 >= last ? p : NONE;
            continue;
        }
        const bool skip = s + 2 <= last && skips(j, n, s + 2);
        beta[s] = N(log_sum)(after[s], s < last ? after[s + 1] : NONE, skip ? after[s + 2] : NONE) + p;
    }
}

static void N(backward)(const ctc_job *j, int64_t n, T *room) {
    T *after = room, *beta = room + j->width, *sums = room + 2 * j->width;
    const T loss = ((const T *)j->loss)[n], grad = ((const T *)j->grad)[n];
    const T *alpha = (const T *)j->alpha + n * j->steps * j->width;
    const bool nothing = j->zero_infinity && loss == (T)INFINITY;
    const int64_t length = nothing ? 0 : j->input_lengths.v[n];
    for (int64_t t = j->steps - 1; t >= 0; t--) {
        T *out = (T *)j->out + (t * j->batch + n) * j->classes;
        if (t >= length) {
            for (int64_t c = 0; c < j->classes; c++) out[c] = 0;
            continue;
        }
        const T *probs = N(step_of)(j, n, t);
        N(beta_step)(j, n, t, after, beta);
        N(gather_step)(j, n, alpha + t * j->width, beta, sums);
        for (int64_t c = 0; c < j->classes; c++) out[c] = (EXP(probs[c]) - EXP(sums[c] + loss - probs[c])) * grad;
        T *spare = after;
        after = beta;
        beta = spare;
    }
}

#undef N
#undef FN_
#undef FN__
#undef NONE
