/* Random fills. A tile of numbers is made for logical indices [begin, begin + n) and then stored where self's strides
   say, so that layout, dtype and threads do not change what is drawn. Every operator takes one offset of the generator.
   f16 and bf16 are drawn as f32 and rounded; uniforms have as many random bits as the dtype, so that `to` is not reached
   by rounding on [0, 1). */
#include "backend/cpu/kernels/random.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/parallel.h"
#include "core/generator.h"
#include "core/philox.h"
#include "core/tensor_make.h"
#include "iter/nest.h"
#include "ops/meta/check.h"
#include "ops_gen.h"

typedef struct random_job random_job;
/* Makes the values of elements [begin, begin + n), n <= FAC_TILE, begin a multiple of 4; p holds their parameters, if any. */
typedef void (*make_fn)(const random_job *j, int64_t begin, int64_t n, fac_tile_buf *tile, const double *p);

struct random_job {
    fac_tensor *self, *p; /* p: a parameter per element, broadcast to self; NULL if there is none */
    fac_nest nest;        /* of self and p, in logical order */
    make_fn make;
    fac_acc kind;
    fac_draw drawn;
    double a, b; /* parameters of the distribution */
    int64_t low;
    uint64_t span; /* of integers: low + [0, span); 0 is 2^64 */
};

/* Words of elements [begin, begin + n), `each` (1 or 2) per element. */
static void words_of(const random_job *j, int64_t begin, int64_t n, int each, uint32_t *words) {
    int64_t per_block = 4 / each;
    FAC_ISA_PICK(fac__philox_words)
    (words, (uint64_t)(begin / per_block), fac__div_up(n, per_block), j->drawn.seed, j->drawn.offset);
}

#define MORE 4    /* words that a block may give beyond the last element */
#define ACROSS 16 /* elements from one to the next: each lies in a cache line of its own */

/* Elements [begin, begin + n) as 64 random bits each. */
static void bits_of(const random_job *j, int64_t begin, int64_t n, uint64_t *bits) {
    uint32_t words[2 * FAC_TILE + MORE];
    words_of(j, begin, n, 2, words);
    for (int64_t i = 0; i < n; i++) bits[i] = (uint64_t)words[2 * i + 1] << 32 | words[2 * i];
}

/* ---- storing ----------------------------------------------------------------------------------------------------------- */

static void load_parameters(const random_job *j, fac_cursor c, int64_t n, double *p) {
    fac_dtype d = (fac_dtype)j->p->dtype;
    const char *src = fac__data(j->p);
    for (int64_t i = 0; i < n;) {
        int64_t run = fac__min(fac__nest_run(&j->nest, &c), n - i);
        fac__tile_load(FAC_ACC_F64, p + i, src + c.offset[1] * fac__dtype_size(d), d, fac__nest_step(&j->nest, 1), run);
        fac__nest_advance(&j->nest, 2, run, &c);
        i += run;
    }
}

static void store_values(const random_job *j, fac_cursor *c, int64_t n, const fac_tile_buf *tile) {
    fac_dtype d = (fac_dtype)j->self->dtype;
    int64_t item = fac__dtype_size(d), acc = (int64_t)fac__acc_size(j->kind);
    char *dst = fac__data(j->self);
    for (int64_t i = 0; i < n;) {
        int64_t run = fac__min(fac__nest_run(&j->nest, c), n - i);
        fac__tile_store(j->kind, (const char *)tile + i * acc, dst + c->offset[0] * item, d,
                        fac__nest_step(&j->nest, 0), run);
        fac__nest_advance(&j->nest, 2, run, c);
        i += run;
    }
}

static fac_status fill_range(void *ctx, int64_t begin, int64_t end) {
    const random_job *j = ctx;
    fac_tile_buf tile;
    double p[FAC_TILE];
    fac_cursor c;
    fac__nest_seek(&j->nest, 2, begin, &c);
    for (int64_t i = begin; i < end; i += FAC_TILE) {
        int64_t n = fac__min(FAC_TILE, end - i);
        if (j->p) load_parameters(j, c, n, p);
        j->make(j, i, n, &tile, p);
        store_values(j, &c, n, &tile);
    }
    return FAC_OK;
}

static void build_nest(random_job *j, fac_tensor *self) {
    int64_t none[FAC_MAX_DIMS] = {0}, p_strides[FAC_MAX_DIMS];
    if (j->p) fac__broadcast_strides(j->p, self->ndim, p_strides);
    const int64_t *strides[2] = {self->strides, j->p ? p_strides : none};
    j->self = self;
    fac__nest_build(&j->nest, self->sizes, self->ndim, UINT64_MAX, 2, strides, true);
}

/* Draws for every element of self; *out is self, counted. Numbers follow the logical order: if that leads across the order in memory,
   they are made row-major and then moved. */
static fac_status draw(random_job *j, fac_tensor *self, fac_draw drawn, fac_tensor **out) {
    FAC_TRY(fac__check_no_overlap(self));
    build_nest(j, self);
    fac_rowmajor rows = {self, self};
    if (j->nest.ndim > 1 && j->nest.stride[0][0] >= ACROSS) {
        FAC_TRY(fac__rowmajor_begin(self, false, &rows));
        build_nest(j, rows.t);
    }
    j->drawn = drawn;
    fac_status st = self->numel ? fac__parallel_for(0, self->numel, FAC_GRAIN, fill_range, j) : FAC_OK;
    FAC_TRY(fac__rowmajor_end(&rows, st));
    *out = fac__ref(self);
    return FAC_OK;
}

/* The kind in which real numbers of a dtype are drawn; integers use double. */
static fac_acc real_kind(fac_dtype d) { return fac_dtype_is_floating(d) && d != FAC_F64 ? FAC_ACC_F32 : FAC_ACC_F64; }

/* ---- normal --------------------------------------------------------------------------------------------------------------- */

static void make_normal(const random_job *j, int64_t begin, int64_t n, fac_tile_buf *tile, const double *p) {
    (void)p;
    uint32_t words[2 * FAC_TILE + MORE];
    int64_t even = (n + 1) & ~(int64_t)1; /* pairs are made whole; a tile has room, since FAC_TILE is even */
    words_of(j, begin, even, j->kind == FAC_ACC_F32 ? 1 : 2, words);
    if (j->kind == FAC_ACC_F32)
        FAC_ISA_PICK(fac__normals_f32)(tile->f32, words, even, (float)j->a, (float)j->b);
    else
        FAC_ISA_PICK(fac__normals_f64)(tile->f64, words, even, j->a, j->b);
}

/* Draws the two parts of complex numbers alike; *out is self, counted. */
static fac_status draw_parts(const fac_call_info *c, fac_tensor *self, double a, double b, fac_draw drawn,
                             fac_status (*fill)(const fac_call_info *, fac_tensor *, double, double, fac_draw,
                                                fac_tensor **),
                             fac_tensor **out) {
    fac_tensor *parts, *same = NULL;
    FAC_TRY(view_as_real_view(c, self, &parts));
    fac_status st = fill(c, parts, a, b, drawn, &same);
    fac__unref(same);
    fac__unref(parts);
    if (st == FAC_OK) *out = fac__ref(self);
    return st;
}

fac_status normal_cpu_(const fac_call_info *c, fac_tensor *self, double mean, double std, fac_draw drawn,
                       fac_tensor **out) {
    FAC_CHECK(std >= 0, FAC_ERR_ARGUMENT, "normal expects std >= 0.0, but found std %g", std);
    if (fac_dtype_is_complex((fac_dtype)self->dtype)) /* each part has half the variance */
        return draw_parts(c, self, mean, std * 0x1.6a09e667f3bcdp-1, drawn, normal_cpu_, out);
    FAC_TRY(fac__need_floating("self", self));
    random_job j = {.make = make_normal, .kind = real_kind((fac_dtype)self->dtype), .a = mean, .b = std};
    return draw(&j, self, drawn, out);
}

static void make_log_normal(const random_job *j, int64_t begin, int64_t n, fac_tile_buf *tile, const double *p) {
    make_normal(j, begin, n, tile, p);
    for (int64_t i = 0; i < n; i++) {
        if (j->kind == FAC_ACC_F32)
            tile->f32[i] = expf(tile->f32[i]);
        else
            tile->f64[i] = exp(tile->f64[i]);
    }
}

fac_status log_normal_cpu_(const fac_call_info *c, fac_tensor *self, double mean, double std, fac_draw drawn,
                           fac_tensor **out) {
    (void)c;
    FAC_CHECK(std > 0, FAC_ERR_ARGUMENT, "log_normal_ expects std > 0.0, but found std=%g", std);
    FAC_TRY(fac__need_floating("self", self));
    random_job j = {.make = make_log_normal, .kind = real_kind((fac_dtype)self->dtype), .a = mean, .b = std};
    return draw(&j, self, drawn, out);
}

/* ---- uniform and what follows from it ------------------------------------------------------------------------------------------ */

static int uniform_bits(fac_dtype d) { return d == FAC_F16 ? 11 : d == FAC_BF16 ? 8 : 24; }

static void make_uniform(const random_job *j, int64_t begin, int64_t n, fac_tile_buf *tile, const double *p) {
    (void)p;
    uint32_t words[2 * FAC_TILE + MORE];
    words_of(j, begin, n, j->kind == FAC_ACC_F32 ? 1 : 2, words);
    if (j->kind == FAC_ACC_F32) FAC_ISA_PICK(fac__uniforms_f32)
    (tile->f32, words, n, (float)j->a, (float)j->b, uniform_bits((fac_dtype)j->self->dtype));
    else FAC_ISA_PICK(fac__uniforms_f64)(tile->f64, words, n, j->a, j->b);
}

fac_status uniform_cpu_(const fac_call_info *c, fac_tensor *self, double from, double to, fac_draw drawn,
                        fac_tensor **out) {
    if (fac_dtype_is_complex((fac_dtype)self->dtype)) return draw_parts(c, self, from, to, drawn, uniform_cpu_, out);
    FAC_TRY(fac__need_floating("self", self));
    double most = fac__dtype_largest((fac_dtype)self->dtype);
    FAC_CHECK(from >= -most && from <= most, FAC_ERR_ARGUMENT, "from is out of bounds for %s: %g",
              fac_dtype_name((fac_dtype)self->dtype), from);
    FAC_CHECK(to >= -most && to <= most, FAC_ERR_ARGUMENT, "to is out of bounds for %s: %g",
              fac_dtype_name((fac_dtype)self->dtype), to);
    FAC_CHECK(from <= to, FAC_ERR_ARGUMENT, "uniform_ expects to return a [from, to) range, but found from=%g > to=%g",
              from, to);
    FAC_CHECK(to - from <= most, FAC_ERR_ARGUMENT,
              "uniform_ expects to-from <= the largest %s, but found to=%g and from=%g",
              fac_dtype_name((fac_dtype)self->dtype), to, from);
    random_job j = {.make = make_uniform, .kind = real_kind((fac_dtype)self->dtype), .a = from, .b = to};
    return draw(&j, self, drawn, out);
}

static void make_exponential(const random_job *j, int64_t begin, int64_t n, fac_tile_buf *tile, const double *p) {
    (void)p;
    uint32_t words[2 * FAC_TILE + MORE];
    words_of(j, begin, n, 2, words);
    FAC_ISA_PICK(fac__exponentials)(tile->f64, words, n, j->a);
}

fac_status exponential_cpu_(const fac_call_info *c, fac_tensor *self, double lambd, fac_draw drawn, fac_tensor **out) {
    (void)c;
    FAC_CHECK(lambd > 0, FAC_ERR_ARGUMENT, "exponential_ expects lambda > 0.0, but found lambda=%g", lambd);
    FAC_TRY(fac__need_floating("self", self));
    random_job j = {.make = make_exponential, .kind = FAC_ACC_F64, .a = lambd};
    return draw(&j, self, drawn, out);
}

static void make_geometric(const random_job *j, int64_t begin, int64_t n, fac_tile_buf *tile, const double *p) {
    (void)p;
    uint32_t words[2 * FAC_TILE + MORE];
    words_of(j, begin, n, 2, words);
    FAC_ISA_PICK(fac__geometrics)(tile->f64, words, n, j->a);
}

fac_status geometric_cpu_(const fac_call_info *c, fac_tensor *self, double p, fac_draw drawn, fac_tensor **out) {
    (void)c;
    FAC_CHECK(p > 0 && p < 1, FAC_ERR_ARGUMENT, "geometric_ expects p to be in (0, 1), but got p=%g", p);
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)self->dtype) && self->dtype != FAC_BOOL, FAC_ERR_DTYPE,
              "not implemented for %s", fac_dtype_name((fac_dtype)self->dtype));
    random_job j = {.make = make_geometric, .kind = FAC_ACC_F64, .a = log1p(-p)};
    return draw(&j, self, drawn, out);
}

static void make_cauchy(const random_job *j, int64_t begin, int64_t n, fac_tile_buf *tile, const double *p) {
    (void)p;
    uint32_t words[2 * FAC_TILE + MORE];
    words_of(j, begin, n, 2, words);
    FAC_ISA_PICK(fac__cauchys)(tile->f64, words, n, j->a, j->b);
}

fac_status cauchy_cpu_(const fac_call_info *c, fac_tensor *self, double median, double sigma, fac_draw drawn,
                       fac_tensor **out) {
    (void)c;
    FAC_CHECK(sigma > 0, FAC_ERR_ARGUMENT, "cauchy_ expects sigma > 0.0, but found sigma=%g", sigma);
    FAC_TRY(fac__need_floating("self", self));
    random_job j = {.make = make_cauchy, .kind = FAC_ACC_F64, .a = median, .b = sigma};
    return draw(&j, self, drawn, out);
}

/* ---- bernoulli ------------------------------------------------------------------------------------------------------------------- */

static void make_bernoulli(const random_job *j, int64_t begin, int64_t n, fac_tile_buf *tile, const double *p) {
    uint32_t words[FAC_TILE + MORE];
    words_of(j, begin, n, 1, words);
    uint64_t threshold = fac__bernoulli_threshold(j->a);
    for (int64_t i = 0; i < n; i++) {
        if (j->p) threshold = fac__bernoulli_threshold(p[i]);
        tile->i64[i] = fac__bernoulli(words[i], threshold);
    }
}

static fac_status need_real(const fac_tensor *self) {
    FAC_CHECK(!fac_dtype_is_complex((fac_dtype)self->dtype), FAC_ERR_DTYPE, "not implemented for %s",
              fac_dtype_name((fac_dtype)self->dtype));
    return FAC_OK;
}

fac_status bernoulli_float_cpu_(const fac_call_info *c, fac_tensor *self, double p, fac_draw drawn, fac_tensor **out) {
    (void)c;
    FAC_CHECK(p >= 0 && p <= 1, FAC_ERR_ARGUMENT, "bernoulli_ expects p to be in [0, 1], but got p=%g", p);
    FAC_TRY(need_real(self));
    random_job j = {.make = make_bernoulli, .kind = FAC_ACC_I64, .a = p};
    return draw(&j, self, drawn, out);
}

static fac_status check_probabilities(fac_tensor *p) {
    fac_tensor *rows;
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)p->dtype), FAC_ERR_DTYPE, "probabilities need a floating dtype, got %s",
              fac_dtype_name((fac_dtype)p->dtype));
    FAC_TRY(fac__cpu_contiguous(p, &rows));
    fac_dtype d = (fac_dtype)p->dtype;
    const char *data = fac__data(rows);
    double bad = 0, tile[FAC_TILE];
    for (int64_t i = 0; i < p->numel && bad == 0; i += FAC_TILE) {
        int64_t n = fac__min(FAC_TILE, p->numel - i);
        fac__tile_load(FAC_ACC_F64, tile, data + i * fac__dtype_size(d), d, 1, n);
        for (int64_t k = 0; k < n; k++)
            if (!(tile[k] >= 0 && tile[k] <= 1)) bad = tile[k];
    }
    fac__unref(rows);
    FAC_CHECK(bad == 0, FAC_ERR_ARGUMENT, "Expected p_in >= 0 && p_in <= 1 to be true, but got the probability %g",
              bad);
    return FAC_OK;
}

fac_status bernoulli_tensor_cpu_(const fac_call_info *c, fac_tensor *self, fac_tensor *p, fac_draw drawn,
                                 fac_tensor **out) {
    (void)c;
    int64_t sizes[FAC_MAX_DIMS];
    int n;
    FAC_TRY(need_real(self));
    FAC_TRY(check_probabilities(p));
    FAC_TRY(fac__broadcast(self->sizes, self->ndim, p->sizes, p->ndim, sizes, &n));
    FAC_CHECK(fac__has_sizes(self, sizes, n), FAC_ERR_SHAPE, "probabilities of sizes %s do not broadcast to %s",
              FAC_SHAPE_TEXT(p), FAC_SHAPE_TEXT(self));
    random_job j = {.make = make_bernoulli, .kind = FAC_ACC_I64, .p = p};
    return draw(&j, self, drawn, out);
}

/* ---- integers ----------------------------------------------------------------------------------------------------------------------- */

static void make_integer(const random_job *j, int64_t begin, int64_t n, fac_tile_buf *tile, const double *p) {
    (void)p;
    uint64_t bits[FAC_TILE];
    bits_of(j, begin, n, bits);
    for (int64_t i = 0; i < n; i++)
        tile->i64[i] = (int64_t)((uint64_t)j->low + (j->span ? fac__below_u64(bits[i], j->span) : bits[i]));
}

/* Integers that a dtype holds, all of them exactly: [*low, *high]. */
static fac_status integer_range(fac_dtype d, int64_t *low, int64_t *high) {
    static const int digits[FAC_DTYPE_COUNT] = {
        [FAC_BOOL] = 1, [FAC_U8] = 8,   [FAC_I8] = 7,   [FAC_I16] = 15, [FAC_I32] = 31,
        [FAC_I64] = 63, [FAC_F16] = 11, [FAC_BF16] = 8, [FAC_F32] = 24, [FAC_F64] = 53};
    FAC_CHECK(!fac_dtype_is_complex(d), FAC_ERR_DTYPE, "not implemented for %s", fac_dtype_name(d));
    bool real = fac_dtype_is_floating(d);
    *high = digits[d] == 63 ? INT64_MAX : ((int64_t)1 << digits[d]) - !real;
    *low = d == FAC_BOOL || d == FAC_U8 ? 0 : real ? -*high : -*high - 1;
    return FAC_OK;
}

/* Draws from [from, last], both included. */
static fac_status draw_integers(fac_tensor *self, int64_t from, int64_t last, fac_draw drawn, fac_tensor **out) {
    random_job j = {
        .make = make_integer, .kind = FAC_ACC_I64, .low = from, .span = (uint64_t)last - (uint64_t)from + 1};
    return draw(&j, self, drawn, out);
}

static fac_status random_between(fac_tensor *self, int64_t from, int64_t last, fac_draw drawn, fac_tensor **out) {
    int64_t low, high;
    FAC_TRY(integer_range((fac_dtype)self->dtype, &low, &high));
    FAC_CHECK(from >= low && from <= high, FAC_ERR_ARGUMENT,
              "from is out of bounds for %s: %lld is not in [%lld, %lld]", fac_dtype_name((fac_dtype)self->dtype),
              (long long)from, (long long)low, (long long)high);
    FAC_CHECK(last >= low && last <= high, FAC_ERR_ARGUMENT,
              "to - 1 is out of bounds for %s: %lld is not in [%lld, %lld]", fac_dtype_name((fac_dtype)self->dtype),
              (long long)last, (long long)low, (long long)high);
    return draw_integers(self, from, last, drawn, out);
}

fac_status random_from_cpu_(const fac_call_info *c, fac_tensor *self, int64_t from, fac_opt_int to, fac_draw drawn,
                            fac_tensor **out) {
    (void)c;
    int64_t low, high;
    FAC_TRY(integer_range((fac_dtype)self->dtype, &low, &high));
    FAC_CHECK(!to.set || from < to.v, FAC_ERR_ARGUMENT,
              "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld", (long long)from,
              (long long)to.v);
    return random_between(self, from, to.set ? to.v - 1 : high, drawn, out);
}

fac_status random_to_cpu_(const fac_call_info *c, fac_tensor *self, int64_t to, fac_draw drawn, fac_tensor **out) {
    (void)c;
    FAC_CHECK(to > 0, FAC_ERR_ARGUMENT, "random_ expects 'from' to be less than 'to', but got from=0 >= to=%lld",
              (long long)to);
    return random_between(self, 0, to - 1, drawn, out);
}

fac_status random_cpu_(const fac_call_info *c, fac_tensor *self, fac_draw drawn, fac_tensor **out) {
    (void)c;
    int64_t low, high;
    FAC_TRY(integer_range((fac_dtype)self->dtype, &low, &high));
    return draw_integers(self, 0, high, drawn, out);
}

/* ---- draws of given keys ------------------------------------------------------------------------------------------------------- */

typedef struct keyed {
    double a, b;           /* of real numbers */
    fac_opt_int low, high; /* of integers */
    fac_status (*fill)(const fac_call_info *c, fac_tensor *self, const struct keyed *k, fac_draw drawn,
                       fac_tensor **out);
} keyed;

/* Element `part` (seed 0, offset 1) of the key that the leading indices of event e, in row-major order, stand for. */
static uint64_t key_of(const fac_tensor *self, const fac_tensor *key, int64_t e, int part) {
    int64_t at = part * key->strides[key->ndim - 1];
    for (int d = key->ndim - 2; d >= 0; d--) {
        at += key->sizes[d] == 1 ? 0 : e % self->sizes[d] * key->strides[d];
        e /= self->sizes[d];
    }
    return ((const uint64_t *)fac__data(key))[at];
}

/* Events, one for each key, lie one after the other in a row-major result. */
static fac_status fill_events(const fac_call_info *c, fac_tensor *made, const fac_tensor *key, const keyed *k) {
    const int batch = key->ndim - 1;
    int64_t events = 1;
    for (int d = 0; d < batch; d++) events *= made->sizes[d];
    for (int64_t e = 0; e < events && made->numel; e++) {
        fac_tensor *event, *same = NULL;
        FAC_TRY(fac__view(made, made->sizes + batch, made->strides + batch, made->ndim - batch,
                          made->offset + e * (made->numel / events), false, &event));
        const fac_draw drawn = {key_of(made, key, e, 0), key_of(made, key, e, 1)};
        const fac_status st = k->fill(c, event, k, drawn, &same);
        fac__unref(same);
        fac__unref(event);
        if (st) return st;
    }
    return FAC_OK;
}

/* A result without elements is checked as others are: by a fill of nothing. */
static fac_status draw_keyed(const fac_call_info *c, fac_tensor *self, fac_tensor *key, const keyed *k,
                             fac_tensor **out) {
    fac_tensor *made, *same = NULL;
    FAC_TRY(fac__empty(self->sizes, self->ndim, (fac_dtype)self->dtype, self->device, &made));
    fac_status st = made->numel ? fill_events(c, made, key, k) : k->fill(c, made, k, (fac_draw){0, 0}, &same);
    fac__unref(same);
    if (st)
        fac__unref(made);
    else
        *out = made;
    return st;
}

static fac_status fill_uniform(const fac_call_info *c, fac_tensor *self, const keyed *k, fac_draw drawn,
                               fac_tensor **out) {
    return uniform_cpu_(c, self, k->a, k->b, drawn, out);
}

static fac_status fill_normal(const fac_call_info *c, fac_tensor *self, const keyed *k, fac_draw drawn,
                              fac_tensor **out) {
    return normal_cpu_(c, self, k->a, k->b, drawn, out);
}

static fac_status fill_integers(const fac_call_info *c, fac_tensor *self, const keyed *k, fac_draw drawn,
                                fac_tensor **out) {
    (void)c;
    int64_t low, high;
    FAC_TRY(integer_range((fac_dtype)self->dtype, &low, &high));
    const int64_t from = k->low.set ? k->low.v : low;
    FAC_CHECK(!k->high.set || from < k->high.v, FAC_ERR_ARGUMENT, "[low, high) must be non-empty, but got [%lld, %lld)",
              (long long)from, (long long)k->high.v);
    return random_between(self, from, k->high.set ? k->high.v - 1 : high, drawn, out);
}

fac_status philox_uniform_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor *key, double low, double high,
                              fac_tensor **out) {
    FAC_TRY(fac__check_philox(self, key, FAC_F16, FAC_F64));
    return draw_keyed(c, self, key, &(keyed){.a = low, .b = high, .fill = fill_uniform}, out);
}

fac_status philox_normal_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor *key, double mean, double std,
                             fac_tensor **out) {
    FAC_TRY(fac__check_philox(self, key, FAC_F16, FAC_F64));
    return draw_keyed(c, self, key, &(keyed){.a = mean, .b = std, .fill = fill_normal}, out);
}

fac_status philox_randint_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor *key, fac_opt_int low,
                              fac_opt_int high, fac_tensor **out) {
    FAC_TRY(fac__check_philox(self, key, FAC_U8, FAC_I64));
    return draw_keyed(c, self, key, &(keyed){.low = low, .high = high, .fill = fill_integers}, out);
}

/* ---- permutations ----------------------------------------------------------------------------------------------------------------------- */

/* Fisher and Yates from the end; step i draws element i. Serial, since each step needs the one before. */
static void shuffle(int64_t *v, int64_t n, fac_draw drawn) {
    const random_job j = {.drawn = drawn};
    uint64_t bits[FAC_TILE];
    for (int64_t i = 0; i < n; i++) v[i] = i;
    for (int64_t tile = (n - 1) / FAC_TILE * FAC_TILE; tile >= 0; tile -= FAC_TILE) {
        bits_of(&j, tile, fac__min(FAC_TILE, n - tile), bits);
        for (int64_t i = fac__min(n, tile + FAC_TILE) - 1; i >= tile; i--) {
            const int64_t k = (int64_t)fac__below_u64(bits[i - tile], (uint64_t)i + 1), t = v[i];
            v[i] = v[k];
            v[k] = t;
        }
    }
}

fac_status randperm_cpu_(const fac_call_info *c, fac_tensor *self, fac_draw drawn, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim == 1, FAC_ERR_SHAPE, "a permutation fills a vector, not a tensor of sizes %s",
              FAC_SHAPE_TEXT(self));
    FAC_TRY(fac__check_no_overlap(self));
    int64_t *order = fac__alloc_array((size_t)self->numel, sizeof *order);
    if (!order) return fac_error();
    if (self->numel) shuffle(order, self->numel, drawn);
    if (self->numel)
        fac__tile_store(FAC_ACC_I64, order, fac__data(self), (fac_dtype)self->dtype, self->strides[0], self->numel);
    *out = fac__ref(self);
    fac__free(order);
    return FAC_OK;
}
