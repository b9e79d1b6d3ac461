/* oneDNN's convolutions compute with channels in blocks of the vector's width, so row-major arrays are reordered on their way in
   and out; that costs about a twentieth of a 3x3 convolution. Where channels are innermost it takes arrays without gaps as they
   lie. Its choice of blocks depends on the number of threads at creation: everything here happens on one. */
#include "backend/cpu/onednn_conv.h"
#include "backend/cpu/onednn.h"
#include "base/mutex.h"
#include <pthread.h>

enum { LAYOUT_DIMS = 2 + FAC_CONV_DIMS + 1 /* groups */, BUFFER_ALIGN = 64 };

/* ---- versions 2 and 3 of oneDNN's interface -------------------------------------------------------------------------- */

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t layout;
typedef const_dnnl_memory_desc_t layout_view;
static layout_view view(const layout *l) { return *l; }
static void layout_free(layout *l) {
    if (*l) (void)dnnl_memory_desc_destroy(*l);
}
#define layout_of_strides dnnl_memory_desc_create_with_strides
#define layout_of_tag dnnl_memory_desc_create_with_tag
#else
typedef dnnl_memory_desc_t layout;
typedef const dnnl_memory_desc_t *layout_view;
static layout_view view(const layout *l) { return l; }
static void layout_free(layout *l) { (void)l; }
#define layout_of_strides dnnl_memory_desc_init_by_strides
#define layout_of_tag dnnl_memory_desc_init_by_tag
#endif

/* oneDNN's description of a shape. `plain` is the array's, `any` leaves the layout to oneDNN, `read` does too, for the result as well as
   for what is read, in the elements' own type. */
typedef struct description {
    dnnl_dims_t stride, dilation, before, after;
    layout plain[FAC_CONV_SIDES], any[FAC_CONV_SIDES], read[FAC_CONV_SIDES], bias;
} description;

/* A description of what is computed, for the forward primitive of the shape or (as a hint) with it. */
static dnnl_status_t describe_compute(const description *d, fac_conv_side result, bool bias, dnnl_engine_t engine,
                                      const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint,
                                      dnnl_primitive_desc_t *out) {
    const layout *side = result == FAC_CONV_SMALL ? d->read : d->any;
    layout_view small = view(&side[FAC_CONV_SMALL]), large = view(&side[FAC_CONV_LARGE]),
                weight = view(&side[FAC_CONV_WEIGHT]), with = bias ? view(&d->bias) : NULL;
#if DNNL_VERSION_MAJOR >= 3
    if (result == FAC_CONV_SMALL)
        return dnnl_convolution_forward_primitive_desc_create(out, engine, dnnl_forward_training,
                                                              dnnl_convolution_direct, large, weight, with, small,
                                                              d->stride, d->dilation, d->before, d->after, attr);
    if (result == FAC_CONV_LARGE)
        return dnnl_convolution_backward_data_primitive_desc_create(out, engine, dnnl_convolution_direct, large, weight,
                                                                    small, d->stride, d->dilation, d->before, d->after,
                                                                    hint, attr);
    return dnnl_convolution_backward_weights_primitive_desc_create(out, engine, dnnl_convolution_direct, large, weight,
                                                                   NULL, small, d->stride, d->dilation, d->before,
                                                                   d->after, hint, attr);
#else
    dnnl_convolution_desc_t c;
    dnnl_status_t st;
    if (result == FAC_CONV_SMALL)
        st = dnnl_dilated_convolution_forward_desc_init(&c, dnnl_forward_training, dnnl_convolution_direct, large,
                                                        weight, with, small, d->stride, d->dilation, d->before,
                                                        d->after);
    else if (result == FAC_CONV_LARGE)
        st = dnnl_dilated_convolution_backward_data_desc_init(&c, dnnl_convolution_direct, large, weight, small,
                                                              d->stride, d->dilation, d->before, d->after);
    else
        st = dnnl_dilated_convolution_backward_weights_desc_init(&c, dnnl_convolution_direct, large, weight, NULL,
                                                                 small, d->stride, d->dilation, d->before, d->after);
    return st == dnnl_success ? dnnl_primitive_desc_create(out, &c, attr, engine, hint) : st;
#endif
}

/* ---- one engine ------------------------------------------------------------------------------------------------------ */

static dnnl_engine_t the_engine;
static dnnl_status_t engine_status;
static void make_engine(void) { engine_status = dnnl_engine_create(&the_engine, dnnl_cpu, 0); }
static dnnl_status_t engine_get(dnnl_engine_t *out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_engine);
    *out = the_engine;
    return engine_status;
}

static fac_status fail(dnnl_status_t st) {
    if (st == dnnl_out_of_memory) return FAC_FAIL(FAC_ERR_MEMORY, "oneDNN ran out of memory in a convolution");
    return FAC_FAIL(FAC_ERR_INTERNAL, "oneDNN failed in a convolution (status %d)", (int)st);
}
#define TRY_ONEDNN(expr)                                     \
    do {                                                     \
        dnnl_status_t try_ = (expr);                         \
        if (FAC_UNLIKELY(try_ != dnnl_success)) return try_; \
    } while (0)

/* ---- making a primitive ---------------------------------------------------------------------------------------------- */

/* Strides of dims[first..n), row-major, or with the channels at `first` innermost and points `point` apart. */
static void fill_strides(int64_t *strides, const int64_t *dims, int first, int n, int64_t point) {
    int64_t step = point ? point : 1;
    for (int d = n - 1; d >= first + (point != 0); step *= dims[d--]) strides[d] = step;
    if (point) strides[first] = 1;
}

/* Sizes and strides of [outer, channels, size...]. */
static int array_dims(const fac_conv_shape *s, int64_t channels, const int64_t *size, int64_t pitch, int64_t point,
                      int64_t *dims, int64_t *strides) {
    int n = 2 + (int)s->nd;
    dims[0] = s->images;
    dims[1] = channels;
    memcpy(dims + 2, size, (size_t)s->nd * sizeof *size);
    fill_strides(strides, dims, 1, n, point);
    strides[0] = pitch;
    return n;
}

/* [small, large, kernel...], with the groups in front if there are any. */
static int weight_dims(const fac_conv_shape *s, int64_t *dims, int64_t *strides) {
    int n = 0;
    if (s->groups > 1) {
        dims[n] = s->groups;
        strides[n++] = s->small * s->weight_pitch;
    }
    dims[n] = s->small;
    strides[n++] = s->weight_pitch;
    dims[n++] = s->large;
    memcpy(dims + n, s->kernel, (size_t)s->nd * sizeof *dims);
    fill_strides(strides, dims, n - 1, n + (int)s->nd, s->weight_point);
    return n + (int)s->nd;
}

static int side_dims(const fac_conv_shape *s, int side, int64_t *dims, int64_t *strides) {
    if (side == FAC_CONV_SMALL)
        return array_dims(s, s->groups * s->small, s->small_size, s->small_pitch, s->small_point, dims, strides);
    if (side == FAC_CONV_LARGE)
        return array_dims(s, s->groups * s->large, s->large_size, s->large_pitch, s->large_point, dims, strides);
    return weight_dims(s, dims, strides);
}

/* What lies in blocks, by number of spatial dimensions, for blocks of 8 and of 16: sides; weights of large sides in blocks; the same of
   several groups; weights of large sides that are not. */
static const dnnl_format_tag_t block_tags[4][FAC_CONV_DIMS][2] = {
    {{dnnl_aBc8b, dnnl_aBc16b}, {dnnl_aBcd8b, dnnl_aBcd16b}, {dnnl_aBcde8b, dnnl_aBcde16b}},
    {{dnnl_ABc8b8a, dnnl_ABc16b16a}, {dnnl_ABcd8b8a, dnnl_ABcd16b16a}, {dnnl_ABcde8b8a, dnnl_ABcde16b16a}},
    {{dnnl_aBCd8c8b, dnnl_aBCd16c16b}, {dnnl_aBCde8c8b, dnnl_aBCde16c16b}, {dnnl_aBCdef8c8b, dnnl_aBCdef16c16b}},
    {{dnnl_Acb8a, dnnl_Acb16a}, {dnnl_Acdb8a, dnnl_Acdb16a}, {dnnl_Acdeb8a, dnnl_Acdeb16a}},
};

static dnnl_status_t describe_block(const fac_conv_shape *s, int side, int n, const int64_t *dims,
                                    const int64_t *strides, layout *out) {
    const int wide = s->block == 16;
    if (side == FAC_CONV_LARGE && !s->large_block) return layout_of_strides(out, n, dims, dnnl_f32, strides);
    const int kind = side != FAC_CONV_WEIGHT ? 0 : !s->large_block ? 3 : s->groups > 1 ? 2 : 1;
    return layout_of_tag(out, n, dims, dnnl_f32, block_tags[kind][s->nd - 1][wide]);
}

static dnnl_data_type_t type_of(const fac_conv_shape *s) { return s->bf16 ? dnnl_bf16 : dnnl_f32; }

/* as_it_lies: the two sides are computed with where they are. */
static dnnl_status_t describe(const fac_conv_shape *s, bool as_it_lies, description *d) {
    dnnl_dims_t dims, strides;
    for (int side = 0; side < FAC_CONV_SIDES; side++) {
        const int n = side_dims(s, side, dims, strides);
        layout *const all[] = {&d->plain[side], &d->any[side], &d->read[side]};
        for (size_t i = 0; i < FAC_COUNT(all); i++) {
            const dnnl_data_type_t type = s->wide && side == s->result && i < 2 ? dnnl_f32 : type_of(s);
            if (s->block)
                TRY_ONEDNN(describe_block(s, side, n, dims, strides, all[i]));
            else if (i == 0 || (as_it_lies && side != FAC_CONV_WEIGHT))
                TRY_ONEDNN(layout_of_strides(all[i], n, dims, type, strides));
            else
                TRY_ONEDNN(layout_of_tag(all[i], n, dims, type, dnnl_format_tag_any));
        }
    }
    dims[0] = s->groups * s->small;
    TRY_ONEDNN(layout_of_tag(&d->bias, 1, dims, type_of(s), dnnl_a));
    for (int i = 0; i < s->nd; i++) {
        d->stride[i] = s->stride[i];
        d->dilation[i] = s->dilation[i] - 1;
        d->before[i] = s->padding[i];
        d->after[i] = (s->small_size[i] - 1) * s->stride[i] + s->dilation[i] * (s->kernel[i] - 1) + 1 -
                      s->large_size[i] - s->padding[i];
    }
    return dnnl_success;
}

static void description_free(description *d) {
    for (int side = 0; side < FAC_CONV_SIDES; side++) {
        layout_free(&d->plain[side]);
        layout_free(&d->any[side]);
        layout_free(&d->read[side]);
    }
    layout_free(&d->bias);
}

/* oneDNN's other implementations are matrix products over windows like ours, or plain loops. */
static bool is_compiled(const_dnnl_primitive_desc_t pd) {
    const char *name = "";
    dnnl_status_t st = dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return st == dnnl_success && (strncmp(name, "jit", 3) == 0 || strncmp(name, "brgconv", 7) == 0);
}

static dnnl_query_t query_of(fac_conv_side side, fac_conv_side result) {
    bool gradient = result != FAC_CONV_SMALL;
    switch (side) {
    case FAC_CONV_SMALL: return gradient ? dnnl_query_diff_dst_md : dnnl_query_dst_md;
    case FAC_CONV_LARGE: return result == side ? dnnl_query_diff_src_md : dnnl_query_src_md;
    default: return result == side ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
    }
}
static int argument_of(fac_conv_side side, fac_conv_side result) {
    bool gradient = result != FAC_CONV_SMALL;
    switch (side) {
    case FAC_CONV_SMALL: return gradient ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST;
    case FAC_CONV_LARGE: return result == side ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    default: return result == side ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
    }
}

/* Inputs are reordered from their array to oneDNN's layout, the result the other way. */
static dnnl_status_t make_reorder(layout_view plain, layout_view blocked, bool result, dnnl_engine_t engine,
                                  dnnl_primitive_t *out) {
    dnnl_primitive_desc_t pd = NULL;
    TRY_ONEDNN(dnnl_reorder_primitive_desc_create(&pd, result ? blocked : plain, engine, result ? plain : blocked,
                                                  engine, NULL));
    dnnl_status_t st = dnnl_primitive_create(out, pd);
    (void)dnnl_primitive_desc_destroy(pd);
    return st;
}

static dnnl_status_t make_from(fac_conv_primitive *p, const description *d, const_dnnl_primitive_desc_t pd,
                               dnnl_engine_t engine) {
    fac_conv_side result = (fac_conv_side)p->shape.result;
    for (int side = 0; side < FAC_CONV_SIDES; side++) {
        layout_view blocked = dnnl_primitive_desc_query_md(pd, query_of((fac_conv_side)side, result), 0);
        p->bytes[side] = (int64_t)dnnl_memory_desc_get_size(blocked);
        if (dnnl_memory_desc_equal(view(&d->plain[side]), blocked)) continue;
        TRY_ONEDNN(make_reorder(view(&d->plain[side]), blocked, side == (int)result, engine, &p->reorder[side]));
    }
    p->scratch = (int64_t)dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    return dnnl_primitive_create(&p->compute, pd);
}

/* oneDNN's scratchpad is the caller's, so that threads may run one primitive at once. */
static dnnl_status_t make_compiled(fac_conv_primitive *p, const description *d, dnnl_engine_t engine) {
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t forward = NULL, pd = NULL;
    fac_conv_side result = (fac_conv_side)p->shape.result;
    dnnl_status_t st = dnnl_primitive_attr_create(&attr);
    if (st == dnnl_success) st = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (st == dnnl_success) st = describe_compute(d, FAC_CONV_SMALL, p->shape.bias, engine, attr, NULL, &forward);
    if (st == dnnl_success && result != FAC_CONV_SMALL)
        st = describe_compute(d, result, false, engine, attr, forward, &pd);
    const_dnnl_primitive_desc_t chosen = pd ? pd : forward;
    if (st == dnnl_success && is_compiled(chosen)) st = make_from(p, d, chosen, engine);
    if (pd) (void)dnnl_primitive_desc_destroy(pd);
    if (forward) (void)dnnl_primitive_desc_destroy(forward);
    if (attr) (void)dnnl_primitive_attr_destroy(attr);
    return st;
}

static void primitive_free(fac_conv_primitive *p) {
    if (p->compute) (void)dnnl_primitive_destroy(p->compute);
    for (int side = 0; side < FAC_CONV_SIDES; side++)
        if (p->reorder[side]) (void)dnnl_primitive_destroy(p->reorder[side]);
    *p = (fac_conv_primitive){0};
}

/* What oneDNN does not take (status unimplemented, invalid arguments, or no right to make code) leaves `compute` NULL. */
static fac_status primitive_make_from(const fac_conv_shape *shape, bool as_it_lies, fac_conv_primitive *p) {
    *p = (fac_conv_primitive){.shape = *shape};
    description d = {0};
    dnnl_engine_t engine;
    int was = fac__onednn_begin();
    dnnl_status_t st = engine_get(&engine);
    if (st == dnnl_success) st = describe(shape, as_it_lies, &d);
    if (st == dnnl_success) st = make_compiled(p, &d, engine);
    description_free(&d);
    fac__onednn_end(was);
    if (st == dnnl_success) return FAC_OK;
    primitive_free(p);
    p->shape = *shape;
    return st == dnnl_out_of_memory ? fail(st) : FAC_OK;
}

/* Channels that are innermost are taken as they lie, if oneDNN has a compiled kernel for that. */
static fac_status primitive_make(const fac_conv_shape *shape, fac_conv_primitive *p) {
    if (shape->small_point) {
        FAC_TRY(primitive_make_from(shape, true, p));
        if (p->compute) return FAC_OK;
    }
    return primitive_make_from(shape, false, p);
}

/* ---- keeping them ------------------------------------------------------------------------------------------------------ */

static fac_mutex lock = FAC_MUTEX_INIT; /* the three below */
static fac_conv_primitive kept[FAC_CONV_KEPT];
static int n_kept;
static int64_t uses;

/* The place of a shape, or one for it: a fresh one, else that of the longest unused. NULL: all are in use. */
static fac_conv_primitive *find_place(const fac_conv_shape *shape) {
    fac_conv_primitive *oldest = NULL;
    for (int i = 0; i < n_kept; i++) {
        fac_conv_primitive *p = &kept[i];
        if (memcmp(&p->shape, shape, sizeof *shape) == 0) return p;
        if (p->users == 0 && (!oldest || p->last_use < oldest->last_use)) oldest = p;
    }
    return n_kept < FAC_CONV_KEPT ? &kept[n_kept] : oldest;
}

static fac_status take_kept(fac_conv_primitive *p, const fac_conv_shape *shape) {
    if (p == &kept[n_kept] || memcmp(&p->shape, shape, sizeof *shape) != 0) {
        fac_conv_primitive fresh;
        FAC_TRY(primitive_make(shape, &fresh));
        if (p == &kept[n_kept])
            n_kept++;
        else
            primitive_free(p);
        *p = fresh;
    }
    p->users++;
    p->last_use = ++uses;
    return FAC_OK;
}

fac_status fac__conv_primitive_take(const fac_conv_shape *shape, fac_conv_primitive *room, fac_conv_primitive **out) {
    fac__mutex_lock(&lock);
    fac_conv_primitive *p = find_place(shape);
    fac_status st = p ? take_kept(p, shape) : FAC_OK;
    fac__mutex_unlock(&lock);
    if (!p) st = primitive_make(shape, room);
    *out = st != FAC_OK ? NULL : p ? p : room;
    return st;
}

void fac__conv_primitive_give(fac_conv_primitive *p, fac_conv_primitive *room) {
    if (!p) return;
    if (p == room) {
        primitive_free(p);
        return;
    }
    fac__mutex_lock(&lock);
    p->users--;
    fac__mutex_unlock(&lock);
}

int fac__conv_primitives_kept(void) {
    fac__mutex_lock(&lock);
    int n = 0;
    for (int i = 0; i < n_kept; i++) n += kept[i].compute != NULL;
    fac__mutex_unlock(&lock);
    return n;
}

/* Places in use stay where they are, since their users point at them; free ones behind the last of them go. */
void fac__conv_primitives_trim(void) {
    fac__mutex_lock(&lock);
    while (n_kept > 0 && kept[n_kept - 1].users == 0) primitive_free(&kept[--n_kept]);
    fac__mutex_unlock(&lock);
}

void fac__onednn_stop(void) { fac__conv_primitives_trim(); }

/* ---- running ------------------------------------------------------------------------------------------------------------- */

static dnnl_status_t run_reorder(dnnl_primitive_t reorder, dnnl_stream_t stream, dnnl_memory_t from, dnnl_memory_t to) {
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    return dnnl_primitive_execute(reorder, stream, FAC_COUNT(args), args);
}

static dnnl_status_t memory_of(const_dnnl_primitive_t p, dnnl_query_t what, int index, void *data, dnnl_memory_t *out) {
    const_dnnl_primitive_desc_t pd;
    dnnl_engine_t engine;
    TRY_ONEDNN(engine_get(&engine));
    TRY_ONEDNN(dnnl_primitive_get_primitive_desc(p, &pd));
    return dnnl_memory_create(out, dnnl_primitive_desc_query_md(pd, what, index), engine, data);
}

static dnnl_status_t pack(const fac_conv_primitive *p, const void *weight, void *packed) {
    dnnl_engine_t engine;
    dnnl_stream_t stream = NULL;
    dnnl_memory_t from = NULL, to = NULL;
    dnnl_primitive_t reorder = p->reorder[FAC_CONV_WEIGHT];
    TRY_ONEDNN(engine_get(&engine));
    dnnl_status_t st = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    if (st == dnnl_success) st = memory_of(reorder, dnnl_query_src_md, 0, (void *)(uintptr_t)weight, &from);
    if (st == dnnl_success) st = memory_of(reorder, dnnl_query_dst_md, 0, packed, &to);
    if (st == dnnl_success) st = run_reorder(reorder, stream, from, to);
    if (to) (void)dnnl_memory_destroy(to);
    if (from) (void)dnnl_memory_destroy(from);
    if (stream) (void)dnnl_stream_destroy(stream);
    return st;
}

fac_status fac__conv_pack_weight(const fac_conv_primitive *p, const void *weight, void *packed) {
    int was = fac__onednn_begin();
    dnnl_status_t st = pack(p, weight, packed);
    fac__onednn_end(was);
    return st == dnnl_success ? FAC_OK : fail(st);
}

static bool is_packed_weight(const fac_conv_primitive *p, int side) {
    return side == FAC_CONV_WEIGHT && p->shape.result != FAC_CONV_WEIGHT;
}
static int64_t aligned(int64_t bytes) { return fac__div_up(bytes, BUFFER_ALIGN) * BUFFER_ALIGN; }
/* Whether the lane holds this side in oneDNN's layout. */
static bool has_buffer(const fac_conv_primitive *p, int side) { return p->reorder[side] && !is_packed_weight(p, side); }

static dnnl_status_t open_memory(fac_conv_lane *l) {
    const fac_conv_primitive *p = l->primitive;
    fac_conv_side result = (fac_conv_side)p->shape.result;
    dnnl_engine_t engine;
    TRY_ONEDNN(engine_get(&engine));
    TRY_ONEDNN(dnnl_stream_create(&l->stream, engine, dnnl_stream_default_flags));
    char *at = l->room;
    for (int side = 0; side < FAC_CONV_SIDES; side++) {
        bool buffer = has_buffer(p, side);
        TRY_ONEDNN(
            memory_of(p->compute, query_of((fac_conv_side)side, result), 0, buffer ? at : NULL, &l->blocked[side]));
        if (!buffer) continue;
        at += aligned(p->bytes[side]);
        TRY_ONEDNN(memory_of(p->reorder[side], side == (int)result ? dnnl_query_dst_md : dnnl_query_src_md, 0, NULL,
                             &l->plain[side]));
    }
    if (p->shape.bias) TRY_ONEDNN(memory_of(p->compute, dnnl_query_weights_md, 1, NULL, &l->bias));
    return memory_of(p->compute, dnnl_query_scratchpad_md, 0, at, &l->scratch);
}

int64_t fac__conv_lane_bytes(const fac_conv_primitive *p) {
    int64_t bytes = p->scratch + 1;
    for (int side = 0; side < FAC_CONV_SIDES; side++)
        if (has_buffer(p, side)) bytes += aligned(p->bytes[side]);
    return bytes;
}

fac_status fac__conv_lane_open(fac_conv_lane *l, const fac_conv_primitive *p, void *scratch) {
    *l = (fac_conv_lane){.primitive = p, .room = scratch};
    int was = fac__onednn_begin();
    dnnl_status_t st = open_memory(l);
    fac__onednn_end(was);
    return st == dnnl_success ? FAC_OK : fail(st);
}

void fac__conv_lane_close(fac_conv_lane *l) {
    for (int side = 0; side < FAC_CONV_SIDES; side++) {
        if (l->plain[side]) (void)dnnl_memory_destroy(l->plain[side]);
        if (l->blocked[side]) (void)dnnl_memory_destroy(l->blocked[side]);
    }
    if (l->bias) (void)dnnl_memory_destroy(l->bias);
    if (l->scratch) (void)dnnl_memory_destroy(l->scratch);
    if (l->stream) (void)dnnl_stream_destroy(l->stream);
    *l = (fac_conv_lane){0};
}

static dnnl_status_t point_at(const fac_conv_lane *l, void *const *side, const void *bias) {
    for (int i = 0; i < FAC_CONV_SIDES; i++)
        TRY_ONEDNN(dnnl_memory_set_data_handle(l->plain[i] ? l->plain[i] : l->blocked[i], side[i]));
    return l->bias ? dnnl_memory_set_data_handle(l->bias, (void *)(uintptr_t)bias) : dnnl_success;
}

static dnnl_status_t compute(const fac_conv_lane *l) {
    const fac_conv_primitive *p = l->primitive;
    fac_conv_side result = (fac_conv_side)p->shape.result;
    dnnl_exec_arg_t args[FAC_CONV_SIDES + 2];
    int n = 0;
    for (int side = 0; side < FAC_CONV_SIDES; side++) {
        args[n++] = (dnnl_exec_arg_t){argument_of((fac_conv_side)side, result), l->blocked[side]};
        if (side != (int)result && l->plain[side])
            TRY_ONEDNN(run_reorder(p->reorder[side], l->stream, l->plain[side], l->blocked[side]));
    }
    args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, l->scratch};
    if (l->bias) args[n++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, l->bias};
    TRY_ONEDNN(dnnl_primitive_execute(p->compute, l->stream, n, args));
    if (!l->plain[result]) return dnnl_success;
    return run_reorder(p->reorder[result], l->stream, l->blocked[result], l->plain[result]);
}

fac_status fac__conv_lane_run(fac_conv_lane *l, void *const side[FAC_CONV_SIDES], const void *bias) {
    int was = fac__onednn_begin();
    dnnl_status_t st = point_at(l, side, bias);
    if (st == dnnl_success) st = compute(l);
    fac__onednn_end(was);
    return st == dnnl_success ? FAC_OK : fail(st);
}
