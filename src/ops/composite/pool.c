/* Pooling without indices, and over one dimension as two. */
#include "ops/call.h"
#include "ops_gen.h"

/* Lists of a one-dimensional operator for two dimensions, the first of which is left alone. */
typedef struct pair {
    int64_t v[2];
} pair;

static fac_status widen(const char *name, fac_ints l, int64_t first, pair *room, fac_ints *out) {
    FAC_CHECK(l.n <= 1, FAC_ERR_ARGUMENT, "%s must be a single int, but has %zu", name, l.n);
    *room = (pair){{first, l.n ? l.v[0] : 0}};
    *out = l.n ? (fac_ints){room->v, 2} : (fac_ints){room->v, 0};
    return FAC_OK;
}

static fac_status check_rank(const fac_tensor *self) {
    FAC_CHECK(self->ndim == 2 || self->ndim == 3, FAC_ERR_SHAPE,
              "Expected 2D or 3D (batch mode) tensor, but got size %s", FAC_SHAPE_TEXT(self));
    return FAC_OK;
}

/* ---- without indices ---- */

#define MAX_POOL(nd)                                                                                                   \
    fac_status max_pool##nd##_composite(const fac_call_info *c, fac_tensor *self, fac_ints kernel_size,                \
                                        fac_ints stride, fac_ints padding, fac_ints dilation, bool ceil_mode,          \
                                        fac_tensor **out) {                                                            \
        (void)c;                                                                                                       \
        FAC_SCOPE(scope);                                                                                              \
        return fac__give(                                                                                              \
            out, fac__s_max_pool##nd##_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode).result0); \
    }
MAX_POOL(1d)
MAX_POOL(2d)
MAX_POOL(3d)

#define ADAPTIVE_AVG_POOL(nd)                                                                                    \
    fac_status adaptive_avg_pool##nd##_composite(const fac_call_info *c, fac_tensor *self, fac_ints output_size, \
                                                 fac_tensor **out) {                                             \
        (void)c;                                                                                                 \
        return fac__c__adaptive_avg_pool##nd(self, output_size, out);                                            \
    }
ADAPTIVE_AVG_POOL(2d)
ADAPTIVE_AVG_POOL(3d)

/* ---- one dimension ---- */

/* The two results, without the added dimension, move to out. */
static fac_status give_two(fac_tensor *values, fac_tensor *indices, fac_tensor **out) {
    FAC_TRY(fac__give(&out[0], fac__s_squeeze_dim(values, -2)));
    fac_status st = fac__give(&out[1], fac__s_squeeze_dim(indices, -2));
    if (st == FAC_OK) return st;
    fac__unref(out[0]);
    out[0] = NULL;
    return st;
}

fac_status max_pool1d_with_indices_composite(const fac_call_info *c, fac_tensor *self, fac_ints kernel_size,
                                             fac_ints stride, fac_ints padding, fac_ints dilation, bool ceil_mode,
                                             fac_tensor **out) {
    (void)c;
    pair room[4];
    fac_ints k, s, p, d;
    FAC_TRY(check_rank(self));
    FAC_TRY(widen("kernel_size", kernel_size, 1, &room[0], &k));
    FAC_TRY(widen("stride", stride, 1, &room[1], &s));
    FAC_TRY(widen("padding", padding, 0, &room[2], &p));
    FAC_TRY(widen("dilation", dilation, 1, &room[3], &d));
    FAC_SCOPE(scope);
    fac_max_pool2d_with_indices_result r =
        fac__s_max_pool2d_with_indices(fac__s_unsqueeze(self, -2), k, s, p, d, ceil_mode);
    return give_two(r.result0, r.result1, out);
}

fac_status avg_pool1d_composite(const fac_call_info *c, fac_tensor *self, fac_ints kernel_size, fac_ints stride,
                                fac_ints padding, bool ceil_mode, bool count_include_pad, fac_tensor **out) {
    (void)c;
    pair room[3];
    fac_ints k, s, p;
    FAC_TRY(check_rank(self));
    FAC_TRY(widen("kernel_size", kernel_size, 1, &room[0], &k));
    FAC_TRY(widen("stride", stride, 1, &room[1], &s));
    FAC_TRY(widen("padding", padding, 0, &room[2], &p));
    FAC_SCOPE(scope);
    fac_tensor *y =
        fac__s_avg_pool2d(fac__s_unsqueeze(self, -2), k, s, p, ceil_mode, count_include_pad, (fac_opt_int){0});
    return fac__give(out, fac__s_squeeze_dim(y, -2));
}

fac_status adaptive_avg_pool1d_composite(const fac_call_info *c, fac_tensor *self, fac_ints output_size,
                                         fac_tensor **out) {
    (void)c;
    pair room;
    fac_ints size;
    FAC_TRY(check_rank(self));
    FAC_TRY(widen("output_size", output_size, 1, &room, &size));
    FAC_SCOPE(scope);
    return fac__give(out, fac__s_squeeze_dim(fac__s_adaptive_avg_pool2d(fac__s_unsqueeze(self, -2), size), -2));
}

fac_status adaptive_max_pool1d_composite(const fac_call_info *c, fac_tensor *self, fac_ints output_size,
                                         fac_tensor **out) {
    (void)c;
    pair room;
    fac_ints size;
    FAC_TRY(check_rank(self));
    FAC_TRY(widen("output_size", output_size, 1, &room, &size));
    FAC_SCOPE(scope);
    fac_adaptive_max_pool2d_result r = fac__s_adaptive_max_pool2d(fac__s_unsqueeze(self, -2), size);
    return give_two(r.result0, r.result1, out);
}

fac_status adaptive_avg_pool3d_backward_grad_input_composite(const fac_call_info *c, fac_tensor *grad_output,
                                                             fac_tensor *self, fac_tensor *grad_input,
                                                             fac_tensor **out) {
    (void)c;
    return fac__c__adaptive_avg_pool3d_backward_out(grad_output, self, grad_input, out);
}
