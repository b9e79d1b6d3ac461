/* Kernels of tensors in the vendor layout that read and write memory: zeros, and convolutions.

   A convolution computes blocks of output channels from blocks of input channels where they lie, through oneDNN where it is built in and
   has a compiled kernel for the shape, else by our own loops (blocked.isa.c). bf16 and f16 are computed in f32 and rounded once. What
   the blocks do not suit (transposed, groups that cut blocks, no batch) goes by way of strided tensors. */
#include "backend/cpu/kernels/blocked.h"
#include "backend/cpu/kernels/conv_library.h"
#include "backend/cpu/parallel.h"
#include "ops/vendor/parts.h"

/* ---- zeros -------------------------------------------------------------------------------------------------------------------- */

enum { ZERO_GRAIN = 2048 }; /* elements per chunk: PyTorch's for this operator */

typedef struct zero_job {
    char *data;
    int64_t item;
} zero_job;

/* Zeros of all dtypes of the layout are zero bytes. */
static fac_status zero_range(void *ctx, int64_t begin, int64_t end) {
    const zero_job *j = ctx;
    char *at = j->data + begin * j->item;
    const int64_t bytes = (end - begin) * j->item, whole = bytes / 4;
    FAC_ISA_PICK(fac__blocked_zero)((float *)(void *)at, whole);
    memset(at + whole * 4, 0, (size_t)(bytes - whole * 4));
    return FAC_OK;
}

fac_status zero_vendor(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    const fac_tensor *cells = fac__vendor_of(self)->cells;
    zero_job j = {fac__data(cells), fac__item_size(cells)};
    if (j.data) FAC_TRY(fac__parallel_for(0, cells->numel, ZERO_GRAIN, zero_range, &j));
    *out = fac__ref(self);
    return FAC_OK;
}

/* ---- convolutions ---------------------------------------------------------------------------------------------------------------- */

/* The arguments of a call, as temporaries. */
typedef struct call {
    fac_tensor *input, *weight, *bias;
    fac_conv_args args;
    fac_conv c;
} call;

static fac_tensor *by_strided(const call *k) {
    const fac_conv_args *a = &k->args;
    fac_tensor *y = fac__s_convolution(fac__vendor_strided(k->input), fac__vendor_strided(k->weight),
                                       k->bias ? fac__vendor_strided(k->bias) : NULL, a->stride, a->padding,
                                       a->dilation, a->transposed, a->output_padding, a->groups);
    if (!y || !fac__vendor_of(k->input))
        return y; /* a strided input with a weight in the layout gives a strided result */
    return fac__vendor_of_strided(y, fac__vendor_order_for(y->sizes, y->ndim));
}

static bool is_single(const fac_conv *c) { return c->groups > 1 && c->small == 1 && c->large == 1; }

static bool suits(const call *k) {
    const fac_conv *c = &k->c;
    const int64_t b = fac__vendor_block;
    if (!fac__vendor_of(k->input) || c->transposed || !c->batched || k->input->numel == 0 || k->weight->numel == 0)
        return false;
    return c->groups == 1 || is_single(c) || (c->small % b == 0 && c->large % b == 0);
}

/* The bias of whole blocks. */
static fac_tensor *blocks_of_bias(const call *k) {
    fac_tensor *bias = fac__sparse_cast(fac__vendor_strided(k->bias), FAC_F32);
    const int64_t n = k->c.groups * k->c.small, spare = fac__div_up(n, fac__vendor_block) * fac__vendor_block - n;
    if (bias && spare) bias = fac__s_constant_pad_nd(bias, FAC_INTS(0, spare), fac_scalar_i_(0));
    return bias ? fac__s_contiguous(bias, FAC_CONTIGUOUS) : NULL;
}

static const float *floats(const fac_tensor *t) { return t ? fac__data(t) : NULL; }

static fac_status rows(void *ctx, int64_t begin, int64_t end) {
    FAC_ISA_PICK(fac__blocked_conv_rows)(ctx, begin, end);
    return FAC_OK;
}

static fac_status by_own_loops(const fac_conv *c, fac_blocked_conv *j) {
    const bool single = is_single(c);
    j->blocks = fac__div_up(single ? c->groups : c->small, j->block);
    const int64_t width = c->small_size[c->nd - 1], lines = c->small_count / width;
    j->rows = c->batch * (single ? 1 : c->groups) * j->blocks * lines;
    const int64_t work = width * c->taps * (single ? 1 : c->large) * j->block / 8;
    return fac__parallel_for(0, j->rows, fac__grain(FAC_GRAIN, work), rows, j);
}

static fac_status compute(const call *k, fac_tensor *input, fac_tensor *weight, fac_tensor *bias, fac_tensor *out) {
    const fac_vendor *x = fac__vendor_of(input), *w = fac__vendor_of(weight);
    const bool in_blocks = x->order == FAC_VENDOR_CHANNELS;
    /* oneDNN's weights for row-major input are not those for input in blocks. */
    const bool alike = in_blocks ? w->in_block == w->block : w->in_block == k->c.large;
    bool done = false;
    if (!is_single(&k->c) && alike && fac__conv_library_suits(&k->c, FAC_CONV_SMALL)) {
        const fac_conv_blocked a = {floats(x->cells), floats(w->cells),
                                    floats(bias),     fac__data(fac__vendor_of(out)->cells),
                                    w->block,         in_blocks};
        FAC_TRY(fac__conv_library_blocked(&k->c, &a, &done));
    }
    if (done) return FAC_OK;
    fac_blocked_conv j = {.c = &k->c, .in = floats(x->cells), .weight = floats(w->cells), .bias = floats(bias)};
    j.out = fac__data(fac__vendor_of(out)->cells);
    j.block = w->block, j.in_block = in_blocks ? x->block : 1, j.weight_in = w->in_block;
    return by_own_loops(&k->c, &j);
}

/* Input channels that fill a block, or have a weight each, are needed in blocks. */
static fac_tensor *input_for(const call *k) {
    const bool whole = k->c.large >= fac__vendor_block || is_single(&k->c);
    return fac__vendor_cast(whole ? fac__vendor_in_order(k->input, FAC_VENDOR_CHANNELS) : k->input, FAC_F32);
}

static fac_tensor *by_blocks(const call *k) {
    fac_tensor *input = input_for(k);
    fac_tensor *weight = fac__vendor_cast(fac__vendor_weight(k->weight, k->c.groups), FAC_F32);
    fac_tensor *bias = k->bias ? blocks_of_bias(k) : NULL;
    if (!input || !weight || (k->bias && !bias)) return NULL;
    const fac_ints sizes = {k->c.out_sizes, (size_t)k->c.out_ndim};
    fac_tensor *out = fac__vendor_empty(sizes, FAC_VENDOR_CHANNELS, FAC_F32);
    if (!out || out->numel == 0) return fac__vendor_cast(out, fac__vendor_dtype(k->input));
    if (compute(k, input, weight, bias, out) != FAC_OK || fac__vendor_clear_spare(out) != FAC_OK) return NULL;
    return fac__vendor_cast(out, fac__vendor_dtype(k->input));
}

fac_status convolution_vendor(const fac_call_info *c, fac_tensor *input, fac_tensor *weight, fac_tensor *bias,
                              fac_ints stride, fac_ints padding, fac_ints dilation, bool transposed,
                              fac_ints output_padding, int64_t groups, fac_tensor **out) {
    (void)c;
    FAC_VENDOR_KERNEL;
    call k = {input, weight, bias, {stride, padding, dilation, output_padding, transposed, groups}, {0}};
    FAC_TRY(fac__conv_plan(input, weight, bias, &k.args, &k.c));
    FAC_CHECK(fac__is_cpu(input) && fac__is_cpu(weight) && (!bias || fac__is_cpu(bias)), FAC_ERR_DEVICE,
              "input, weight and bias should be on the CPU where one has the layout _mkldnn");
    return fac__give(out, suits(&k) ? by_blocks(&k) : by_strided(&k));
}
