/* Fourier transforms of tensors: one dimension after the other, each over lines.

   Lines are transformed a group of lanes at a time or one by one, as is faster for their length and number
   (backend/cpu/fft/fft.h). Groups and lines are shared among threads; of a few long lines, the parts of each. Arithmetic is in
   the tensor's own type. Steps run image by image where an image fits in a cache, one after the other over all lines otherwise.
   What a line's bits are depends on the sizes of the tensor alone.
   All memory is taken before the first element is written. */
#include "backend/cpu/fft/fft.h"
#include "backend/cpu/parallel.h"
#include "iter/nest.h"
#include "ops/composite/below.h"
#include "ops/structured.h"
#include "ops_gen.h"
#include <facula/tensor.h>
#include <math.h>

enum { LONG_LINE = 1 << 15, FEW_LINES = 4 }; /* lines whose parts are shared among threads */

/* A tensor, or memory like one. */
typedef struct side {
    char *data;
    fac_dtype dtype;
    const int64_t *sizes, *strides;
} side;

/* Transform of one dimension. */
typedef struct step {
    fac_fft_plan *plan;
    int dim;
    const side *from, *to;
    double scale;
} step;

typedef struct transform {
    int ndim, n;
    bool inverse, two_sided;
    step v[FAC_MAX_DIMS];
    side in, out, between;
    int64_t between_strides[FAC_MAX_DIMS], between_bytes, bytes;
    fac_workspace scratch;
} transform;

/* A step on its way. */
typedef struct work {
    const fac_fft_plan *plan;
    const side *from, *to;
    fac_nest lines;             /* offsets in elements of `from` and of `to` */
    int64_t from_step, to_step; /* in reals */
    bool inverse, two_sided;
    double scale;
    int64_t lane, middle, line; /* bytes: of a thread's lanes, and of a line's middle and work */
    fac_fft_line shared;        /* the line whose parts are shared */
    fac_fft_stage stage;
} work;

static int64_t reals(fac_dtype d) { return d == FAC_C64 || d == FAC_C128 ? 2 : 1; }

/* The step over all lines of a tensor or, where the first `lead` dimensions stay in place, of one of its images. */
static void describe(const transform *t, const step *s, int lead, work *w) {
    *w = (work){.plan = s->plan, .from = s->from, .to = s->to, .inverse = t->inverse, .scale = s->scale};
    if (s->plan->kind == FAC_FFT_TO_REAL && s->plan->inner < s->plan->n) w->scale *= 2; /* folding leaves halves */
    w->two_sided = t->two_sided && s->plan->kind == FAC_FFT_FROM_REAL;
    w->from_step = s->from->strides[s->dim] * reals(s->from->dtype);
    w->to_step = s->to->strides[s->dim] * reals(s->to->dtype);
    const uint64_t others = ~(UINT64_C(1) << s->dim) & (~UINT64_C(0) << lead);
    fac__nest_build(&w->lines, s->from->sizes, t->ndim, others, 2,
                    (const int64_t *const[]){s->from->strides, s->to->strides}, false);
    fac__fft_line_bytes(s->plan, &w->lane, &w->middle, &w->line);
}

/* ---- groups of lines ----------------------------------------------------------------------------------------------------- */

static void set_side(fac_fft_lines *l, const side *s, int64_t step) {
    l->step = step;
    l->complex = reals(s->dtype) == 2;
}

/* Whether lines of one run, `next` bytes apart, are neighbours. */
static bool are_neighbours(const fac_fft_lines *l, const side *s, int64_t next, int lanes) {
    return lanes > 1 && (l->complex || l->step != 1) && next == fac__dtype_size(s->dtype);
}

/* The next lines of the nest, one per lane, run by run. Neighbours are those of one run: others may touch, which nobody looks for. */
static void take_lines(const work *w, fac_cursor *at, fac_fft_group *g) {
    const int64_t from_item = fac__dtype_size(w->from->dtype), to_item = fac__dtype_size(w->to->dtype);
    const int64_t from_next = fac__nest_step(&w->lines, 0) * from_item,
                  to_next = fac__nest_step(&w->lines, 1) * to_item;
    const bool one = fac__nest_run(&w->lines, at) >= g->lanes;
    g->in.adjacent = one && are_neighbours(&g->in, w->from, from_next, g->lanes);
    g->out.adjacent = one && are_neighbours(&g->out, w->to, to_next, g->lanes);
    for (int i = 0; i < g->lanes;) {
        const int run = (int)fac__min(fac__nest_run(&w->lines, at), g->lanes - i);
        char *from = w->from->data + at->offset[0] * from_item, *to = w->to->data + at->offset[1] * to_item;
        for (int k = 0; k < run; k++, i++, from += from_next, to += to_next) {
            g->in.at[i] = from;
            g->out.at[i] = to;
        }
        fac__nest_advance(&w->lines, 2, run, at);
    }
}

static fac_status run_groups(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const work *w = ctx;
    const int lanes = w->plan->lanes;
    fac_cursor at;
    fac_fft_group g = {.plan = w->plan, .inverse = w->inverse, .two_sided = w->two_sided, .scale = w->scale};
    set_side(&g.in, w->from, w->from_step);
    set_side(&g.out, w->to, w->to_step);
    fac__nest_seek(&w->lines, 2, begin * lanes, &at);
    for (int64_t i = begin; i < end; i++) {
        g.lanes = (int)fac__min(lanes, w->lines.count - i * lanes);
        take_lines(w, &at, &g);
        (w->plan->dtype == FAC_F64 ? FAC_ISA_PICK(fac__fft_group_f64) : FAC_ISA_PICK(fac__fft_group_f32))(&g, scratch);
    }
    return FAC_OK;
}

/* ---- lines ------------------------------------------------------------------------------------------------------------------ */

static fac_fft_line line_of(const work *w, const fac_cursor *at, char *room) {
    return (fac_fft_line){.plan = w->plan,
                          .inverse = w->inverse,
                          .two_sided = w->two_sided,
                          .scale = w->scale,
                          .in = w->from->data + at->offset[0] * fac__dtype_size(w->from->dtype),
                          .out = w->to->data + at->offset[1] * fac__dtype_size(w->to->dtype),
                          .in_step = w->from_step,
                          .out_step = w->to_step,
                          .middle = room,
                          .work = room + w->middle};
}

/* Whether a line's elements must be brought into the work line first, or out of it in the end. */
static bool enters(const fac_fft_line *l) {
    const fac_fft_plan *p = l->plan;
    if (p->chirped || p->kind == FAC_FFT_TO_REAL) return true;
    return p->kind == FAC_FFT_COMPLEX ? l->in_step != 2 : p->inner == p->n || l->in_step != 1;
}
static bool leaves(const fac_fft_line *l) {
    const fac_fft_plan *p = l->plan;
    if (p->chirped || p->kind == FAC_FFT_FROM_REAL) return true;
    return p->kind == FAC_FFT_COMPLEX ? l->out_step != 2 : p->inner == p->n || l->out_step != 1;
}

/* The stages of a line; returns how many. */
static int stages_of(const fac_fft_line *l, fac_fft_stage *v) {
    int n = 0;
    if (enters(l)) v[n++] = FAC_FFT_ENTER;
    v[n++] = FAC_FFT_COLUMNS;
    v[n++] = FAC_FFT_ROWS;
    if (l->plan->chirped) {
        v[n++] = FAC_FFT_FILTER;
        v[n++] = FAC_FFT_COLUMNS;
        v[n++] = FAC_FFT_ROWS;
    }
    if (leaves(l)) v[n++] = FAC_FFT_LEAVE;
    return n;
}
enum { MOST_STAGES = 7 };

/* Where columns come from and rows go. */
static void set_ends(fac_fft_line *l) {
    const bool enter = enters(l), leave = leaves(l);
    l->from = enter ? l->work : l->in;
    l->exchange_from = !enter && l->inverse;
    l->to = leave ? l->work : l->out;
    l->exchange_to = !leave && l->inverse;
    l->to_scale = leave ? 1 : l->scale;
}

static void run_stage(const fac_fft_line *l, fac_fft_stage stage, int64_t begin, int64_t end, void *lane) {
    if (l->plan->dtype == FAC_F64)
        FAC_ISA_PICK(fac__fft_stage_f64)(l, stage, begin, end, lane);
    else
        FAC_ISA_PICK(fac__fft_stage_f32)(l, stage, begin, end, lane);
}

static fac_status run_lines(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const work *w = ctx;
    fac_fft_stage stages[MOST_STAGES];
    fac_cursor at;
    fac__nest_seek(&w->lines, 2, begin, &at);
    for (int64_t i = begin; i < end; i++) {
        fac_fft_line l = line_of(w, &at, (char *)scratch + w->lane);
        const int n = stages_of(&l, stages);
        set_ends(&l);
        for (int k = 0; k < n; k++) run_stage(&l, stages[k], 0, fac__fft_stage_items(&l, stages[k]), scratch);
        fac__nest_advance(&w->lines, 2, 1, &at);
    }
    return FAC_OK;
}

static fac_status run_part(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const work *w = ctx;
    run_stage(&w->shared, w->stage, begin, end, scratch);
    return FAC_OK;
}

static int64_t part_grain(const fac_fft_line *l, fac_fft_stage stage) {
    const fac_fft_plan *p = l->plan;
    if (stage == FAC_FFT_COLUMNS) return fac__grain(FAC_GRAIN / 4, p->core.columns.n * p->lanes);
    if (stage == FAC_FFT_ROWS) return fac__grain(FAC_GRAIN / 4, p->core.rows.n * p->lanes);
    return FAC_GRAIN / 4;
}

/* Memory of a line's middle and work. */
static int64_t line_bytes(const work *w) { return fac__workspace_round(w->middle + w->line); }

/* One line after the other, each by all threads. `scratch`: a line's memory, then the threads'. */
static fac_status run_long_lines(work *w, fac_workspace scratch) {
    fac_fft_stage stages[MOST_STAGES];
    const int64_t shared = line_bytes(w);
    fac_workspace threads = {scratch.at + shared, scratch.bytes - shared};
    fac_cursor at;
    fac__nest_seek(&w->lines, 2, 0, &at);
    for (int64_t i = 0; i < w->lines.count; i++) {
        w->shared = line_of(w, &at, scratch.at);
        const int n = stages_of(&w->shared, stages);
        set_ends(&w->shared);
        for (int k = 0; k < n; k++) {
            const int64_t items = fac__fft_stage_items(&w->shared, w->stage = stages[k]);
            FAC_TRY(fac__parallel_for_taken(0, items, part_grain(&w->shared, w->stage), w->lane, threads, run_part, w));
        }
        fac__nest_advance(&w->lines, 2, 1, &at);
    }
    return FAC_OK;
}

/* ---- steps -------------------------------------------------------------------------------------------------------------------- */

typedef enum way { GROUPS, LINES, LONG_LINES } way;
static way way_of(const work *w) {
    const bool side_by_side = w->from_step == reals(w->from->dtype) && w->to_step == reals(w->to->dtype);
    /* Groups read neighbouring lines of a strided dimension by vectors. */
    if (!side_by_side && w->lines.count >= w->plan->lanes && w->plan->core.n <= LONG_LINE) return GROUPS;
    if (!fac__fft_is_split(w->plan, w->lines.count)) return GROUPS;
    return w->lines.count <= FEW_LINES && w->plan->core.n >= LONG_LINE ? LONG_LINES : LINES;
}

static int64_t groups_of(const work *w) { return fac__div_up(w->lines.count, w->plan->lanes); }
static int64_t group_grain(const work *w) { return fac__grain(FAC_GRAIN / 4, w->plan->core.n * w->plan->lanes); }
static int64_t line_grain(const work *w) { return fac__grain(FAC_GRAIN / 4, w->plan->core.n); }

static int64_t scratch_of(const work *w) {
    const way how = way_of(w);
    if (how == GROUPS)
        return fac__parallel_threads(0, groups_of(w), group_grain(w)) *
               fac__workspace_round(fac__fft_group_bytes(w->plan));
    if (how == LINES)
        return fac__parallel_threads(0, w->lines.count, line_grain(w)) * fac__workspace_round(w->lane + line_bytes(w));
    return line_bytes(w) + fac_num_threads() * fac__workspace_round(w->lane);
}

static fac_status run(work *w, fac_workspace scratch) {
    const way how = way_of(w);
    if (how == LONG_LINES) return run_long_lines(w, scratch);
    if (how == LINES)
        return fac__parallel_for_taken(0, w->lines.count, line_grain(w), w->lane + line_bytes(w), scratch, run_lines,
                                       w);
    return fac__parallel_for_taken(0, groups_of(w), group_grain(w), fac__fft_group_bytes(w->plan), scratch, run_groups,
                                   w);
}

/* ---- transforms ----------------------------------------------------------------------------------------------------------------- */

static fac_dtype real_of(fac_dtype d) { return d == FAC_F64 || d == FAC_C128 ? FAC_F64 : FAC_F32; }

static fac_status add_step(transform *t, fac_fft_kind kind, int dim, const side *from, const side *to) {
    const int64_t n = kind == FAC_FFT_FROM_REAL ? from->sizes[dim] : to->sizes[dim];
    work w;
    step *s = &t->v[t->n];
    *s = (step){NULL, dim, from, to, 1};
    FAC_TRY(fac__fft_plan_take(kind, real_of(from->dtype), n, &s->plan));
    t->n++;
    describe(t, s, 0, &w);
    t->bytes = fac__max(t->bytes, scratch_of(&w));
    return FAC_OK;
}

/* The complex transforms of `dims`, the first of them from `from` and the others in place. */
static fac_status add_complex(transform *t, fac_ints dims, const side *from, const side *to) {
    for (size_t i = dims.n; i-- > 0; from = to) {
        int64_t dim;
        FAC_TRY(fac__wrap_dim(dims.v[i], t->ndim, &dim));
        FAC_TRY(add_step(t, FAC_FFT_COMPLEX, (int)dim, from, to));
    }
    return FAC_OK;
}

/* 1, 1 / sqrt(n) or 1 / n, of the number n of points. */
static double scale_of(const int64_t *sizes, int ndim, fac_ints dims, int64_t normalization) {
    double n = 1;
    for (size_t i = 0; i < dims.n; i++) n *= (double)sizes[dims.v[i] < 0 ? dims.v[i] + ndim : dims.v[i]];
    return normalization == 0 ? 1 : normalization == 1 ? 1 / sqrt(n) : 1 / n;
}

static side side_of(const fac_tensor *t) { return (side){fac__data(t), (fac_dtype)t->dtype, t->sizes, t->strides}; }
static void begin(transform *t, const fac_structured *s, const fac_tensor *self, bool inverse) {
    t->ndim = self->ndim;
    t->n = 0;
    t->inverse = inverse;
    t->two_sided = false;
    t->in = side_of(self);
    t->out = side_of(s->out[0]);
    memset(t->between_strides, 0, sizeof t->between_strides);
    t->between_bytes = t->bytes = 0;
}

/* ---- images --------------------------------------------------------------------------------------------------------------------- */

/* Consecutive steps that leave the first `lead` dimensions in place run image by image, each on one thread, where an image fits in a
   cache and all of them do not. Lines are transformed as they would be otherwise. */
typedef struct images {
    const transform *t;
    const step *v;
    int n, lead;
    fac_nest nest;
    int64_t bytes; /* scratch of a thread */
} images;
enum { LEAST_IMAGE = 1 << 14, MOST_IMAGE = 5 << 17, IMAGE_GROUPS = 4 };

static bool suits_images(const images *m, const step *s) {
    work all, one;
    describe(m->t, s, 0, &all);
    describe(m->t, s, m->lead, &one);
    return way_of(&all) == GROUPS && way_of(&one) == GROUPS && groups_of(&one) >= IMAGE_GROUPS;
}

/* How many images there are of the dimensions from `lead` on, and the bytes of each. */
static void image_sizes(const transform *t, int lead, int64_t *count, int64_t *bytes) {
    *count = 1;
    *bytes = fac__dtype_size(t->out.dtype);
    for (int d = 0; d < t->ndim; d++) *(d < lead ? count : bytes) *= t->out.sizes[d];
}

/* The images of as many steps from the i-th on as have some; false if there are fewer than two. */
static bool find_images(const transform *t, int i, images *m) {
    *m = (images){.t = t, .v = t->v + i, .lead = t->ndim};
    int64_t count, bytes;
    for (; i + m->n < t->n; m->n++) {
        const int lead = (int)fac__min(m->lead, m->v[m->n].dim);
        image_sizes(t, lead, &count, &bytes);
        if (bytes > MOST_IMAGE || count < 2) break;
        m->lead = lead;
    }
    if (m->n < 2) return false;
    image_sizes(t, m->lead, &count, &bytes);
    if (bytes < LEAST_IMAGE || count * bytes <= MOST_IMAGE) return false;
    for (int k = 0; k < m->n; k++) {
        if (!suits_images(m, &m->v[k])) return false;
        m->bytes = fac__max(m->bytes, fac__fft_group_bytes(m->v[k].plan));
    }
    fac__nest_build(&m->nest, t->out.sizes, m->lead, ~UINT64_C(0), 3,
                    (const int64_t *const[]){t->in.strides, t->out.strides, t->between_strides}, true);
    return true;
}

static side image_of(const transform *t, const side *s, const fac_cursor *at) {
    side one = *s;
    one.data += at->offset[s == &t->in ? 0 : s == &t->out ? 1 : 2] * fac__dtype_size(s->dtype);
    return one;
}

static fac_status run_image_range(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const images *m = ctx;
    fac_cursor at;
    fac__nest_seek(&m->nest, 3, begin, &at);
    for (int64_t i = begin; i < end; i++) {
        for (int k = 0; k < m->n; k++) {
            work w;
            const side from = image_of(m->t, m->v[k].from, &at), to = image_of(m->t, m->v[k].to, &at);
            describe(m->t, &m->v[k], m->lead, &w);
            w.from = &from, w.to = &to;
            FAC_TRY(run_groups(&w, 0, groups_of(&w), scratch));
        }
        fac__nest_advance(&m->nest, 3, 1, &at);
    }
    return FAC_OK;
}

static int64_t images_scratch(const images *m) {
    return fac__parallel_threads(0, m->nest.count, 1) * fac__workspace_round(m->bytes);
}

/* Runs the i-th step and those that share its images; moves i on. */
static fac_status run_steps(const transform *t, int *i, fac_workspace scratch) {
    images m;
    work w;
    if (find_images(t, *i, &m)) {
        *i += m.n;
        return fac__parallel_for_taken(0, m.nest.count, 1, m.bytes, scratch, run_image_range, &m);
    }
    describe(t, &t->v[(*i)++], 0, &w);
    return run(&w, scratch);
}

/* Runs the steps that were added, unless one could not be, and gives the plans back. */
static fac_status end(transform *t, double scale, fac_status st) {
    for (int i = 0; i < t->n; i++) {
        images m;
        if (st == FAC_OK && find_images(t, i, &m)) t->bytes = fac__max(t->bytes, images_scratch(&m));
    }
    if (st == FAC_OK) st = fac__workspace_take(t->between_bytes + t->bytes, &t->scratch);
    if (st == FAC_OK) {
        const fac_workspace scratch = {t->scratch.at + t->between_bytes, t->bytes};
        t->between.data = t->scratch.at;
        t->v[t->n - 1].scale = scale;
        for (int i = 0; i < t->n && st == FAC_OK;) st = run_steps(t, &i, scratch);
        fac__workspace_give(t->scratch);
    }
    for (int i = 0; i < t->n; i++) fac__fft_plan_give(t->v[i].plan);
    return st;
}

fac_status fft_c2c_cpu(fac_structured *s, fac_tensor *self, fac_ints dim, int64_t normalization, bool forward) {
    if (s->out[0]->numel == 0) return FAC_OK;
    if (dim.n == 0) return fac__copy_below(s->out[0], self);
    transform t;
    begin(&t, s, self, !forward);
    return end(&t, scale_of(self->sizes, self->ndim, dim, normalization), add_complex(&t, dim, &t.in, &t.out));
}

fac_status fft_r2c_cpu(fac_structured *s, fac_tensor *self, fac_ints dim, int64_t normalization, bool onesided) {
    if (s->out[0]->numel == 0) return FAC_OK;
    transform t;
    int64_t last;
    begin(&t, s, self, false);
    t.two_sided = !onesided;
    FAC_TRY(fac__wrap_dim(dim.v[dim.n - 1], self->ndim, &last));
    fac_status st = add_step(&t, FAC_FFT_FROM_REAL, (int)last, &t.in, &t.out);
    if (st == FAC_OK) st = add_complex(&t, (fac_ints){dim.v, dim.n - 1}, &t.out, &t.out);
    return end(&t, scale_of(self->sizes, self->ndim, dim, normalization), st);
}

/* The other dimensions first, into memory of their own. */
fac_status fft_c2r_cpu(fac_structured *s, fac_tensor *self, fac_ints dim, int64_t normalization,
                       int64_t last_dim_size) {
    (void)last_dim_size;
    if (s->out[0]->numel == 0) return FAC_OK;
    transform t;
    int64_t last;
    begin(&t, s, self, true);
    FAC_TRY(fac__wrap_dim(dim.v[dim.n - 1], self->ndim, &last));
    fac__row_major(self->sizes, self->ndim, t.between_strides);
    t.between = (side){NULL, (fac_dtype)self->dtype, self->sizes, t.between_strides};
    if (dim.n > 1) t.between_bytes = fac__workspace_round(self->numel * fac__item_size(self));
    fac_status st = add_complex(&t, (fac_ints){dim.v, dim.n - 1}, &t.in, &t.between);
    if (st == FAC_OK) st = add_step(&t, FAC_FFT_TO_REAL, (int)last, dim.n > 1 ? &t.between : &t.in, &t.out);
    return end(&t, scale_of(s->out[0]->sizes, self->ndim, dim, normalization), st);
}
