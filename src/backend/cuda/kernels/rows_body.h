/* Kernels over rows in one type, a block per row: a template, included by rows.cu after FAC_T, K_NAME, FAC_FN, K_LOAD, K_STORE,
   K_EXP, K_LOG and K_ITEM are defined; it undefines them. Rows lie without gaps; elements may be 16-bit floats. */

#define K_X(p, i) K_LOAD((p) + (i)*K_ITEM(dtype), dtype)

/* The sum, or with `max` the maximum, over the threads of a block, for all of them. */
KDEV FAC_T FAC_FN(over_block)(FAC_T v, bool max) {
    KSHARED(FAC_T, of_warp, 32);
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (int d = 16; d > 0; d >>= 1) {
        const FAC_T u = __shfl_xor_sync(0xffffffffu, v, d);
        v = !max ? v + u : u > v || u != u ? u : v;
    }
    if (warps == 1) return v;
    __syncthreads(); /* of_warp may still be read */
    if (lane == 0) of_warp[threadIdx.x / 32] = v;
    __syncthreads();
    v = of_warp[0];
    for (int w = 1; w < warps; w++)
        v = !max ? v + of_warp[w] : of_warp[w] > v || of_warp[w] != of_warp[w] ? of_warp[w] : v;
    return v;
}

/* softmax or its logarithm; three passes: maximum, sum, result. */
KERNEL(K_NAME(softmax), (OUT, char, out), (IN, char, x), (VAL, int64_t, rows), (VAL, int64_t, n), (VAL, int, dtype),
       (VAL, int, out_dtype), (VAL, int, logarithm)) {
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        const char *row = x + r * n * K_ITEM(dtype);
        FAC_T top = -INFINITY, sum = 0;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            const FAC_T v = K_X(row, i);
            top = v > top || v != v ? v : top;
        }
        top = FAC_FN(over_block)(top, true);
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += K_EXP(K_X(row, i) - top);
        sum = FAC_FN(over_block)(sum, false);
        const FAC_T shift = K_LOG(sum), scale = 1 / sum;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            const FAC_T v = K_X(row, i) - top;
            K_STORE(out + (r * n + i) * K_ITEM(out_dtype), out_dtype, logarithm ? v - shift : K_EXP(v) * scale);
        }
    }
}

/* softmax: dx = y (g - sum g y); its logarithm: dx = g - exp(y) sum g. */
KERNEL(K_NAME(softmax_backward), (OUT, char, dx), (IN, char, g), (IN, char, y), (VAL, int64_t, rows), (VAL, int64_t, n),
       (VAL, int, dtype), (VAL, int, out_dtype), (VAL, int, logarithm)) {
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        const char *g_row = g + r * n * K_ITEM(dtype), *y_row = y + r * n * K_ITEM(dtype);
        FAC_T sum = 0;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
            sum += logarithm ? K_X(g_row, i) : K_X(g_row, i) * K_X(y_row, i);
        sum = FAC_FN(over_block)(sum, false);
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            const FAC_T gi = K_X(g_row, i), yi = K_X(y_row, i);
            K_STORE(dx + (r * n + i) * K_ITEM(out_dtype), out_dtype,
                    logarithm ? gi - K_EXP(yi) * sum : yi * (gi - sum));
        }
    }
}

/* Layer norm, or without `centred` RMS norm; two passes for the moments. mean and rstd may be NULL. */
KERNEL(K_NAME(norm), (OUT, char, out), (OUT, char, mean), (OUT, char, rstd), (IN, char, x), (IN, char, w),
       (IN, char, b), (VAL, int64_t, rows), (VAL, int64_t, n), (VAL, double, eps), (VAL, int, dtype),
       (VAL, int, w_dtype), (VAL, int, stat_dtype), (VAL, int, centred)) {
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        const char *row = x + r * n * K_ITEM(dtype);
        FAC_T mu = 0, square = 0;
        if (centred) {
            for (int64_t i = threadIdx.x; i < n; i += blockDim.x) mu += K_X(row, i);
            mu = FAC_FN(over_block)(mu, false) / (FAC_T)n;
        }
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            const FAC_T d = K_X(row, i) - mu;
            square += d * d;
        }
        square = FAC_FN(over_block)(square, false);
        const FAC_T scale = 1 / (FAC_T)sqrt((double)square / (double)n + eps);
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            FAC_T v = (K_X(row, i) - mu) * scale;
            if (w) v = v * K_LOAD(w + i * K_ITEM(w_dtype), w_dtype);
            if (b) v = v + K_LOAD(b + i * K_ITEM(w_dtype), w_dtype);
            K_STORE(out + (r * n + i) * K_ITEM(dtype), dtype, v);
        }
        if (threadIdx.x == 0 && mean) K_STORE(mean + r * K_ITEM(stat_dtype), stat_dtype, mu);
        if (threadIdx.x == 0 && rstd) K_STORE(rstd + r * K_ITEM(stat_dtype), stat_dtype, scale);
    }
}

/* dx = rstd (g w - mean(g w) - xhat mean(g w xhat)); RMS norm without the second term. */
KERNEL(K_NAME(norm_backward), (OUT, char, dx), (IN, char, g), (IN, char, x), (IN, char, mean), (IN, char, rstd),
       (IN, char, w), (VAL, int64_t, rows), (VAL, int64_t, n), (VAL, int, dtype), (VAL, int, w_dtype),
       (VAL, int, stat_dtype), (VAL, int, centred)) {
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        const char *x_row = x + r * n * K_ITEM(dtype), *g_row = g + r * n * K_ITEM(dtype);
        const FAC_T mu = mean ? K_LOAD(mean + r * K_ITEM(stat_dtype), stat_dtype) : 0;
        const FAC_T scale = K_LOAD(rstd + r * K_ITEM(stat_dtype), stat_dtype);
        FAC_T plain = 0, along = 0;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            const FAC_T gw = w ? K_X(g_row, i) * K_LOAD(w + i * K_ITEM(w_dtype), w_dtype) : K_X(g_row, i);
            plain += gw;
            along += gw * ((K_X(x_row, i) - mu) * scale);
        }
        plain = centred ? FAC_FN(over_block)(plain, false) / (FAC_T)n : 0;
        along = FAC_FN(over_block)(along, false) / (FAC_T)n;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            const FAC_T gw = w ? K_X(g_row, i) * K_LOAD(w + i * K_ITEM(w_dtype), w_dtype) : K_X(g_row, i);
            const FAC_T hat = (K_X(x_row, i) - mu) * scale;
            K_STORE(dx + (r * n + i) * K_ITEM(dtype), dtype, (gw - plain - hat * along) * scale);
        }
    }
}

/* Gradients of weight and bias, either may be NULL: a thread per column, rows in order. */
KERNEL(K_NAME(norm_parameters), (OUT, char, dw), (OUT, char, db), (IN, char, g), (IN, char, x), (IN, char, mean),
       (IN, char, rstd), (VAL, int64_t, rows), (VAL, int64_t, n), (VAL, int, dtype), (VAL, int, w_dtype),
       (VAL, int, stat_dtype)) {
    KLOOP(i, n) {
        FAC_T of_w = 0, of_b = 0;
        for (int64_t r = 0; r < rows; r++) {
            const FAC_T gi = K_X(g, r * n + i), mu = mean ? K_LOAD(mean + r * K_ITEM(stat_dtype), stat_dtype) : 0;
            of_w += gi * ((K_X(x, r * n + i) - mu) * K_LOAD(rstd + r * K_ITEM(stat_dtype), stat_dtype));
            of_b += gi;
        }
        if (dw) K_STORE(dw + i * K_ITEM(w_dtype), w_dtype, of_w);
        if (db) K_STORE(db + i * K_ITEM(w_dtype), w_dtype, of_b);
    }
}

/* Losses over classes: input [outer, classes, inner], targets [outer, inner], a thread per target. Results are each target's
   weighted loss and weight, in double; both 0 for a target that is ignored or no class. With `sums` the input is logits, and
   the two terms of each log-sum-exp are kept: the maximum and the logarithm of the sum beside it. */
KERNEL(K_NAME(nll), (OUT, double, loss), (OUT, double, weight), (OUT, char, sums), (IN, char, x), (IN, char, target),
       (IN, char, w), (VAL, int64_t, n), (VAL, int64_t, classes), (VAL, int64_t, inner), (VAL, int64_t, ignore),
       (VAL, int, dtype), (VAL, int, target_dtype), (VAL, int, sums_dtype), (VAL, k_bounds, bounds)) {
    KLOOP(i, n) {
        const char *row = x + (i / inner * classes * inner + i % inner) * K_ITEM(dtype);
        const int64_t t = k_load_i64(target + i * (target_dtype == K_I64 ? 8 : 1), target_dtype);
        FAC_T sum = 0, top = 0, beside = 0;
        if (sums) {
            top = -INFINITY;
            for (int64_t c = 0; c < classes; c++) {
                const FAC_T v = K_X(row, c * inner);
                top = v > top || v != v ? v : top;
            }
            for (int64_t c = 0; c < classes; c++) sum += K_EXP(K_X(row, c * inner) - top);
            beside = K_LOG(sum);
            K_STORE(sums + 2 * i * K_ITEM(sums_dtype), sums_dtype, top);
            K_STORE(sums + (2 * i + 1) * K_ITEM(sums_dtype), sums_dtype, beside);
        }
        const bool counted = t != ignore && k_in_bounds(&bounds, t, classes);
        const double of_class = !counted ? 0.0 : w ? (double)K_LOAD(w + t * K_ITEM(dtype), dtype) : 1.0;
        loss[i] = counted ? (((double)top - (double)K_X(row, t * inner)) + (double)beside) * of_class : 0.0;
        weight[i] = of_class;
    }
}

/* Its gradient: -scale at the target's class; for logits, scale (softmax - [class]). `g` has an element per target if `each`. With
   mean, the scale is divided by the total weight. */
KERNEL(K_NAME(nll_backward), (OUT, char, dx), (IN, char, g), (IN, char, x), (IN, char, sums), (IN, char, target),
       (IN, char, w), (IN, char, total), (VAL, int64_t, n), (VAL, int64_t, classes), (VAL, int64_t, inner),
       (VAL, int64_t, ignore), (VAL, int, dtype), (VAL, int, target_dtype), (VAL, int, sums_dtype), (VAL, int, each),
       (VAL, k_bounds, bounds)) {
    KLOOP(j, n * classes) {
        const int64_t c = j / inner % classes, i = j / (classes * inner) * inner + j % inner;
        const int64_t t = k_load_i64(target + i * (target_dtype == K_I64 ? 8 : 1), target_dtype);
        const bool counted = t != ignore && k_in_bounds(&bounds, t, classes);
        FAC_T scale = 0;
        if (counted) {
            scale = K_LOAD(g + (each ? i : 0) * K_ITEM(dtype), dtype);
            if (w) scale = scale * K_LOAD(w + t * K_ITEM(dtype), dtype);
            if (total) scale = scale / K_LOAD(total, dtype);
        }
        FAC_T v = c == t ? -scale : 0;
        if (sums && counted) {
            const FAC_T beside = K_LOAD(sums + (2 * i + 1) * K_ITEM(sums_dtype), sums_dtype);
            v += scale * K_EXP((K_X(x, j) - K_LOAD(sums + 2 * i * K_ITEM(sums_dtype), sums_dtype)) - beside);
        }
        K_STORE(dx + j * K_ITEM(dtype), dtype, v);
    }
}

#undef K_X
#undef FAC_T
#undef FAC_FN
#undef K_NAME
#undef K_LOAD
#undef K_STORE
#undef K_EXP
#undef K_LOG
