/* Reductions in one type: a template, included by reduce.cu after FAC_T, FAC_FN, K_NAME, K_ELEMENT(f, address) (a mapped element),
   K_LOWEST, K_HIGHEST, K_FINISH(f, x) and K_STORE are defined; it undefines them. */

KDEV FAC_T FAC_FN(identity)(int op) {
    return op == K_SUM ? (FAC_T)0 : op == K_PROD ? (FAC_T)1 : op == K_MAX ? K_LOWEST : K_HIGHEST;
}
/* NaN wins over every number. */
KDEV FAC_T FAC_FN(combine)(int op, FAC_T a, FAC_T b) {
    if (op == K_SUM) return a + b;
    if (op == K_PROD) return a * b;
    if (op == K_MAX) return a > b || a != a ? a : b;
    return a < b || a != a ? a : b;
}
KDEV void FAC_FN(put)(const k_fold *f, int64_t o, int64_t q, FAC_T v) {
    if (f->parts > 1) {
        ((FAC_T *)(void *)f->out)[q * f->n_out + o] = v;
        return;
    }
    K_STORE(f->out + k_at(f->kept_ndim, f->kept_size, f->kept_out, o), f->out_dtype, K_FINISH(f, v));
}

/* A thread for each part of each output; neighbouring threads have neighbouring outputs. */
KERNEL(K_NAME(fold_threads), (VAL, k_fold, f)) {
    KLOOP(i, f.n_out * f.parts) {
        const int64_t o = i % f.n_out, q = i / f.n_out;
        const int64_t end = (q + 1) * f.part < f.n_fold ? (q + 1) * f.part : f.n_fold;
        const char *base = f.in + k_at(f.kept_ndim, f.kept_size, f.kept_in, o);
        FAC_T v = FAC_FN(identity)(f.op);
        for (int64_t j = q * f.part; j < end; j++)
            v = FAC_FN(combine)(f.op, v, K_ELEMENT(&f, base + k_at(f.fold_ndim, f.fold_size, f.fold_in, j)));
        FAC_FN(put)(&f, o, q, v);
    }
}

/* A block for each part of each output: strided sums of the threads, then shuffles in each warp, then one warp over warps. */
KERNEL(K_NAME(fold_blocks), (VAL, k_fold, f)) {
    KSHARED(FAC_T, of_warp, 32);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int64_t i = blockIdx.x; i < f.n_out * f.parts; i += gridDim.x) {
        const int64_t o = i % f.n_out, q = i / f.n_out;
        const int64_t end = (q + 1) * f.part < f.n_fold ? (q + 1) * f.part : f.n_fold;
        const char *base = f.in + k_at(f.kept_ndim, f.kept_size, f.kept_in, o);
        FAC_T v = FAC_FN(identity)(f.op);
        for (int64_t j = q * f.part + threadIdx.x; j < end; j += blockDim.x)
            v = FAC_FN(combine)(f.op, v, K_ELEMENT(&f, base + k_at(f.fold_ndim, f.fold_size, f.fold_in, j)));
        for (int d = 16; d > 0; d >>= 1) v = FAC_FN(combine)(f.op, v, __shfl_down_sync(0xffffffffu, v, d));
        if (lane == 0) of_warp[warp] = v;
        __syncthreads();
        if (warp == 0) {
            v = lane < warps ? of_warp[lane] : FAC_FN(identity)(f.op);
            for (int d = 16; d > 0; d >>= 1) v = FAC_FN(combine)(f.op, v, __shfl_down_sync(0xffffffffu, v, d));
            if (lane == 0) FAC_FN(put)(&f, o, q, v);
        }
        __syncthreads(); /* before of_warp is used again */
    }
}

/* ---- places of extremes ------------------------------------------------------------------------------------------------- */

/* Whether (a, i) comes before (b, j): more extreme, or as extreme and earlier; NaN beats every number. j < 0: nothing yet. */
KDEV bool FAC_FN(beats)(int op, FAC_T a, int64_t i, FAC_T b, int64_t j) {
    if (j < 0) return i >= 0;
    if (i < 0) return false;
    if (a != a || b != b) return a != a && (b == b || i < j);
    if (a == b) return i < j;
    return op == K_MAX ? a > b : a < b;
}
KDEV void FAC_FN(put_place)(const k_fold *f, int64_t o, int64_t q, FAC_T v, int64_t at) {
    if (f->parts > 1) {
        ((FAC_T *)(void *)f->out)[q * f->n_out + o] = v;
        f->out_index[q * f->n_out + o] = at;
        return;
    }
    if (f->out) K_STORE(f->out + k_at(f->kept_ndim, f->kept_size, f->kept_out, o), f->out_dtype, v);
    f->out_index[k_at(f->kept_ndim, f->kept_size, f->kept_index, o) / 8] = at;
}

KERNEL(K_NAME(place), (VAL, k_fold, f)) {
    KSHARED(FAC_T, best_of_warp, 32);
    KSHARED(int64_t, place_of_warp, 32);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int64_t i = blockIdx.x; i < f.n_out * f.parts; i += gridDim.x) {
        const int64_t o = i % f.n_out, q = i / f.n_out;
        const int64_t end = (q + 1) * f.part < f.n_fold ? (q + 1) * f.part : f.n_fold;
        const char *base = f.in + k_at(f.kept_ndim, f.kept_size, f.kept_in, o);
        FAC_T best = 0;
        int64_t at = -1;
        for (int64_t j = q * f.part + threadIdx.x; j < end; j += blockDim.x) {
            const FAC_T v = K_ELEMENT(&f, base + k_at(f.fold_ndim, f.fold_size, f.fold_in, j));
            const int64_t place = f.in_index ? f.in_index[j * f.n_out + o] : j;
            if (FAC_FN(beats)(f.op, v, place, best, at)) best = v, at = place;
        }
        for (int round = 0; round < 2; round++) {
            for (int d = 16; d > 0; d >>= 1) {
                const FAC_T v = __shfl_down_sync(0xffffffffu, best, d);
                const int64_t place = __shfl_down_sync(0xffffffffu, at, d);
                if (FAC_FN(beats)(f.op, v, place, best, at)) best = v, at = place;
            }
            if (round == 1) break;
            if (lane == 0) best_of_warp[warp] = best, place_of_warp[warp] = at;
            __syncthreads();
            if (warp) break;
            best = lane < warps ? best_of_warp[lane] : (FAC_T)0;
            at = lane < warps ? place_of_warp[lane] : -1;
        }
        if (threadIdx.x == 0) FAC_FN(put_place)(&f, o, q, best, at);
        __syncthreads();
    }
}

#undef FAC_T
#undef FAC_FN
#undef K_NAME
#undef K_ELEMENT
#undef K_LOWEST
#undef K_HIGHEST
#undef K_FINISH
#undef K_STORE
