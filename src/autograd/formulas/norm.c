/* Gradients of the normalisations, to any order. Each backward operator is treated as a function of the output's gradient,
   the input, the mean, the reciprocal deviation and the weight, all independent; the way back from mean and deviation to
   the input is part of the forward operator's own gradient. With xhat = (x - mean) rstd, g = go w, <.> the mean over the
   normalised dimensions:  dx = rstd (g - <g> - xhat <g xhat>),  dw = sum go xhat,  db = sum go. */
#include "autograd/formulas/brief.h"

/* Statistics of halves may be halves; what is made of them is computed in float32. */
static fac_tensor *widened(fac_tensor *t) {
    bool half = t && fac__is_half((fac_dtype)t->dtype);
    return half ? fac__s__to_copy(t, FAC_F32, FAC_STRIDED, t->device, (fac_opt_num){0}, false, FAC_FORMAT_DEFAULT) : t;
}

/* The operands of a backward operator, shaped so that they broadcast against x. */
typedef struct terms {
    fac_tensor *go, *x, *mean, *rstd, *w; /* mean NULL: not centred; w NULL: ones */
    fac_ints dims;                        /* that are normalised */
} terms;

/* Gradients with respect to them. w is that of go * w before it is summed to the weight's size. */
typedef struct term_grads {
    fac_tensor *go, *x, *mean, *rstd, *w;
} term_grads;

static fac_tensor *mean_over(fac_tensor *t, fac_ints dims) { return fac__s_mean_dim(t, dims, true, FAC_DTYPE_DEFAULT); }
static fac_tensor *centred(const terms *t) { return t->mean ? sub(t->x, t->mean) : t->x; }
static fac_tensor *weighted(const terms *t, fac_tensor *a) { return t->w ? mul(a, t->w) : a; }

/* What v, the gradient of dx, contributes; *h collects the gradient of xhat, *b that of rstd where it stands alone. */
static void through_input(const terms *t, fac_tensor *v, fac_tensor *xhat, term_grads *d, fac_tensor **h,
                          fac_tensor **b) {
    fac_tensor *g = weighted(t, t->go);
    fac_tensor *vx = mean_over(mul(v, xhat), t->dims), *gx = mean_over(mul(g, xhat), t->dims);
    fac_tensor *v_rest = sub(v, mul(xhat, vx)), *g_rest = sub(g, mul(xhat, gx));
    if (t->mean) {
        v_rest = sub(v_rest, mean_over(v, t->dims));
        g_rest = sub(g_rest, mean_over(g, t->dims));
    }
    fac_tensor *of_g = mul(v_rest, t->rstd);
    d->go = weighted(t, of_g);
    if (t->w) d->w = mul(of_g, t->go);
    *h = fac__s_neg(mul(add(mul(v, gx), mul(g, vx)), t->rstd));
    *b = sum_over(mul(v, g_rest), t->dims, true);
}

/* What came from db alone has the size of the parameter. */
static fac_tensor *filled_out(fac_tensor *t, fac_tensor *like) {
    return t && !fac__same_sizes(t, like) ? fac__s_expand(t, fac__sizes_now(like), false) : t;
}

/* v, of_w, of_b: gradients of dx, dw and db (broadcastable), NULL where none. */
static term_grads double_grads(const terms *t, fac_tensor *v, fac_tensor *of_w, fac_tensor *of_b) {
    term_grads d = {0};
    fac_tensor *xc = centred(t), *xhat = mul(xc, t->rstd), *h = NULL, *b = NULL;
    if (v) through_input(t, v, xhat, &d, &h, &b);
    if (of_w) {
        d.go = plus(d.go, mul(of_w, xhat));
        h = plus(h, mul(of_w, t->go));
    }
    d.go = filled_out(plus(d.go, of_b), t->go);
    if (!h) return d;
    d.x = mul(h, t->rstd);
    if (t->mean) d.mean = fac__s_neg(sum_over(d.x, t->dims, true));
    d.rstd = plus(b, sum_over(mul(h, xc), t->dims, true));
    return d;
}

/* Gradients of the statistics, on their way to the input: mean = <x>, rstd = (<(x - mean)^2> + eps)^(-1/2). */
static fac_tensor *through_statistics(const terms *t, double n, fac_tensor *dx, fac_tensor *of_mean,
                                      fac_tensor *of_rstd) {
    if (of_mean) dx = plus(dx, fac__s_expand(divided_by(of_mean, n), fac__sizes_now(t->x), false));
    if (of_rstd) {
        fac_tensor *cube = mul(mul(t->rstd, t->rstd), t->rstd);
        dx = plus(dx, mul(centred(t), divided_by(fac__s_neg(mul(of_rstd, cube)), n)));
    }
    return dx;
}

/* ---- layer and RMS norm ------------------------------------------------------------------------------------------- */

/* The last `n` of `ndim` dimensions, into room. */
static fac_ints last_dims(int ndim, size_t n, int64_t *room) {
    for (size_t i = 0; i < n; i++) room[i] = ndim - (int)n + (int)i;
    return (fac_ints){room, n};
}

static double product(fac_ints sizes) {
    double n = 1;
    for (size_t i = 0; i < sizes.n; i++) n *= (double)sizes.v[i];
    return n;
}

fac_status layer_norm_grads(fac_tensor **grads, fac_tensors in, fac_tensor *input, fac_ints shape, fac_tensor *weight,
                            fac_tensor *bias, fac_tensor *mean, fac_tensor *rstd, bool needs_input, bool needs_weight,
                            bool needs_bias) {
    if (in.v[0]) {
        fac_native_layer_norm_backward_result r = fac__s_native_layer_norm_backward(
            in.v[0], input, shape, mean, rstd, weight, bias, FAC_INTS(needs_input, needs_weight, needs_bias));
        grads[0] = r.result0, grads[1] = r.result1, grads[2] = r.result2;
    }
    terms t = {.x = input, .mean = widened(mean), .rstd = widened(rstd)};
    if (needs_input) grads[0] = through_statistics(&t, product(shape), grads[0], in.v[1], in.v[2]);
    return fac_error();
}

fac_status layer_norm_double_grads(fac_tensor **grads, fac_tensors in, fac_tensor *grad_out, fac_tensor *input,
                                   fac_ints shape, fac_tensor *mean, fac_tensor *rstd, fac_tensor *weight) {
    int64_t room[FAC_MAX_DIMS];
    terms t = {grad_out, input, widened(mean), widened(rstd), weight, last_dims(input->ndim, shape.n, room)};
    term_grads d = double_grads(&t, in.v[0], in.v[1], in.v[2]);
    grads[0] = d.go, grads[1] = d.x, grads[2] = d.mean, grads[3] = d.rstd, grads[4] = d.w;
    return fac_error();
}

fac_status rms_norm_grads(fac_tensor **grads, fac_tensors in, fac_tensor *input, fac_ints shape, fac_tensor *weight,
                          fac_tensor *rstd, bool needs_input, bool needs_weight) {
    if (in.v[0]) {
        fac_fused_rms_norm_backward_result r =
            fac__s__fused_rms_norm_backward(in.v[0], input, shape, rstd, weight, FAC_INTS(needs_input, needs_weight));
        grads[0] = r.result0, grads[1] = r.result1;
    }
    terms t = {.x = input, .rstd = rstd};
    if (needs_input) grads[0] = through_statistics(&t, product(shape), grads[0], NULL, in.v[1]);
    return fac_error();
}

fac_status rms_norm_double_grads(fac_tensor **grads, fac_tensors in, fac_tensor *grad_out, fac_tensor *input,
                                 fac_ints shape, fac_tensor *rstd, fac_tensor *weight) {
    int64_t room[FAC_MAX_DIMS];
    terms t = {grad_out, input, NULL, rstd, weight, last_dims(input->ndim, shape.n, room)};
    term_grads d = double_grads(&t, in.v[0], in.v[1], NULL);
    grads[0] = d.go, grads[1] = d.x, grads[2] = d.rstd, grads[3] = d.w;
    return fac_error();
}

/* ---- batch norm ----------------------------------------------------------------------------------------------------- */

/* A value per channel as [1, C, 1, ...]. */
static fac_tensor *per_channel(fac_tensor *t, int ndim) {
    int64_t sizes[FAC_MAX_DIMS];
    if (!t) return NULL;
    for (int d = 0; d < ndim; d++) sizes[d] = d == 1 ? t->sizes[0] : 1;
    return fac__s_reshape(t, (fac_ints){sizes, (size_t)ndim});
}

/* Every dimension but the channels. */
static fac_ints but_channels(int ndim, int64_t *room) {
    size_t n = 0;
    for (int d = 0; d < ndim; d++) {
        if (d != 1) room[n++] = d;
    }
    return (fac_ints){room, n};
}

static fac_tensor *to_channels(fac_tensor *t, fac_ints dims) { return t ? sum_over(t, dims, false) : NULL; }
static fac_tensor *flat(fac_tensor *t) { return t ? fac__s_reshape(t, FAC_INTS(-1)) : NULL; }

static fac_tensor *deviation(fac_tensor *var, double eps) {
    return fac__s_rsqrt(fac__s_add_Scalar(var, fac_scalar_f_(eps), fac_scalar_i_(1)));
}

fac_status batch_norm_grads(fac_tensor **grads, fac_tensors in, fac_tensor *input, fac_tensor *weight,
                            fac_tensor *running_mean, fac_tensor *running_var, fac_tensor *mean, fac_tensor *invstd,
                            bool training, double eps, bool needs_input, bool needs_weight, bool needs_bias) {
    if (in.v[0]) {
        fac_native_batch_norm_backward_result r =
            fac__s_native_batch_norm_backward(in.v[0], input, weight, running_mean, running_var, mean, invstd, training,
                                              eps, FAC_INTS(needs_input, needs_weight, needs_bias));
        grads[0] = r.result0, grads[1] = r.result1, grads[2] = r.result2;
    }
    if (!training || !needs_input || !(in.v[1] || in.v[2])) return fac_error();
    terms t = {
        .x = input, .mean = per_channel(widened(mean), input->ndim), .rstd = per_channel(widened(invstd), input->ndim)};
    double n = (double)input->numel / (double)fac__max(1, input->sizes[1]);
    grads[0] =
        through_statistics(&t, n, grads[0], per_channel(in.v[1], input->ndim), per_channel(in.v[2], input->ndim));
    return fac_error();
}

/* With running statistics dx = go w rstd: nothing couples the elements. */
static term_grads frozen_double_grads(const terms *t, fac_tensor *v, fac_tensor *of_w, fac_tensor *of_b) {
    term_grads d = {0};
    if (v) d.go = weighted(t, mul(v, t->rstd));
    if (v && t->w) d.w = mul(mul(v, t->go), t->rstd);
    if (of_w) {
        d.go = plus(d.go, mul(of_w, mul(centred(t), t->rstd)));
        d.x = mul(mul(of_w, t->go), t->rstd);
    }
    d.go = filled_out(plus(d.go, of_b), t->go);
    return d;
}

fac_status batch_norm_double_grads(fac_tensor **grads, fac_tensors in, fac_tensor *grad_out, fac_tensor *input,
                                   fac_tensor *weight, fac_tensor *running_mean, fac_tensor *running_var,
                                   fac_tensor *save_mean, fac_tensor *save_invstd, bool train, double eps) {
    int64_t room[FAC_MAX_DIMS];
    int ndim = input->ndim;
    fac_tensor *rstd = train ? widened(save_invstd) : deviation(widened(running_var), eps);
    terms t = {grad_out,
               input,
               per_channel(widened(train ? save_mean : running_mean), ndim),
               per_channel(rstd, ndim),
               per_channel(weight, ndim),
               but_channels(ndim, room)};
    fac_tensor *of_w = per_channel(in.v[1], ndim), *of_b = per_channel(in.v[2], ndim);
    term_grads d = train ? double_grads(&t, in.v[0], of_w, of_b) : frozen_double_grads(&t, in.v[0], of_w, of_b);
    grads[0] = d.go, grads[1] = d.x, grads[2] = to_channels(d.w, t.dims), grads[3] = flat(d.mean),
    grads[4] = flat(d.rstd);
    return fac_error();
}

/* ---- group norm ------------------------------------------------------------------------------------------------------ */

static fac_tensor *shaped(fac_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d) {
    return t ? fac__s_reshape(t, FAC_INTS(a, b, c, d)) : NULL;
}

fac_status group_norm_grads(fac_tensor **grads, fac_tensors in, fac_tensor *input, fac_tensor *weight, fac_tensor *mean,
                            fac_tensor *rstd, int64_t N, int64_t C, int64_t HxW, int64_t group, bool needs_input,
                            bool needs_weight, bool needs_bias) {
    if (in.v[0]) {
        fac_native_group_norm_backward_result r = fac__s_native_group_norm_backward(
            in.v[0], input, mean, rstd, weight, N, C, HxW, group, FAC_INTS(needs_input, needs_weight, needs_bias));
        grads[0] = r.result0, grads[1] = r.result1, grads[2] = r.result2;
    }
    if (!needs_input || !(in.v[1] || in.v[2])) return fac_error();
    terms t = {.x = shaped(input, N, group, C / group, HxW),
               .mean = shaped(widened(mean), N, group, 1, 1),
               .rstd = shaped(widened(rstd), N, group, 1, 1)};
    fac_tensor *dx = through_statistics(&t, (double)(C / group * HxW), shaped(grads[0], N, group, C / group, HxW),
                                        shaped(in.v[1], N, group, 1, 1), shaped(in.v[2], N, group, 1, 1));
    grads[0] = fac__s_reshape(dx, fac__sizes_now(input));
    return fac_error();
}

fac_status group_norm_double_grads(fac_tensor **grads, fac_tensors in, fac_tensor *grad_out, fac_tensor *input,
                                   fac_tensor *mean, fac_tensor *rstd, fac_tensor *weight, int64_t N, int64_t C,
                                   int64_t HxW, int64_t group) {
    int64_t per = C / group;
    terms t = {shaped(grad_out, N, group, per, HxW),  shaped(input, N, group, per, HxW),
               shaped(widened(mean), N, group, 1, 1), shaped(widened(rstd), N, group, 1, 1),
               shaped(weight, 1, group, per, 1),      FAC_INTS(2, 3)};
    term_grads d = double_grads(&t, shaped(in.v[0], N, group, per, HxW), shaped(in.v[1], 1, group, per, 1),
                                shaped(in.v[2], 1, group, per, 1));
    if (d.go) grads[0] = fac__s_reshape(d.go, fac__sizes_now(grad_out));
    if (d.x) grads[1] = fac__s_reshape(d.x, fac__sizes_now(input));
    if (d.mean) grads[2] = fac__s_reshape(d.mean, FAC_INTS(N, group));
    if (d.rstd) grads[3] = fac__s_reshape(d.rstd, FAC_INTS(N, group));
    if (d.w) grads[4] = flat(sum_over(d.w, FAC_INTS(0, 3), false));
    return fac_error();
}
