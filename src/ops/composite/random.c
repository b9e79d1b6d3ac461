/* Random factories and functional forms: an empty tensor and a fill of the back end's, below autograd; dropout. */
#include "core/tensor_make.h"
#include "ops/composite/below.h"
#include "ops/composite/factory.h"
#include "ops/structured.h"
#include "ops_gen.h"

/* In-place kernels give another reference to the tensor they fill: it is dropped, and the tensor goes out, or is dropped
   too if the fill failed. */
static fac_status drawn(fac_status st, fac_tensor *t, fac_tensor **out) {
    fac__unref(t);
    if (st == FAC_OK) *out = t;
    return st;
}

/* Of a fill below autograd, which may be the generator's own. */
static fac_keyset fill_keys(const fac_tensor *t, const fac_generator *g) {
    return fac__dense_keys(t) | fac__generator_keys(g);
}

static fac_status fill_uniform(fac_tensor *t, fac_generator *g, fac_tensor **out) {
    fac_tensor *same = NULL;
    return drawn(fac__redispatch_uniform_(fill_keys(t, g), t, 0, 1, g, &same), t, out);
}

static fac_status fill_normal(fac_tensor *t, double mean, double std, fac_generator *g, fac_tensor **out) {
    fac_tensor *same = NULL;
    return drawn(fac__redispatch_normal_(fill_keys(t, g), t, mean, std, g, &same), t, out);
}

static fac_status fill_integers(fac_tensor *t, int64_t low, int64_t high, fac_generator *g, fac_tensor **out) {
    fac_tensor *same = NULL;
    return drawn(fac__redispatch_random__from(fill_keys(t, g), t, low, fac_opt_int_(high), g, &same), t, out);
}

/* ---- factories ------------------------------------------------------------------------------------------------------------- */

static fac_status rand_sized(fac_factory f, fac_ints size, fac_generator *g, fac_tensor **out) {
    fac_tensor *t;
    FAC_TRY(fac__factory_resolve(&f, fac_default_dtype()));
    FAC_TRY(fac__factory_empty(&f, size, FAC_CONTIGUOUS, &t));
    return fill_uniform(t, g, out);
}

static fac_status normal_sized(fac_factory f, fac_ints size, double mean, double std, fac_generator *g,
                               fac_tensor **out) {
    fac_tensor *t;
    FAC_TRY(fac__factory_resolve(&f, fac_default_dtype()));
    FAC_TRY(fac__factory_empty(&f, size, FAC_CONTIGUOUS, &t));
    return fill_normal(t, mean, std, g, out);
}

static fac_status integers_sized(fac_factory f, fac_ints size, int64_t low, int64_t high, fac_generator *g,
                                 fac_tensor **out) {
    fac_tensor *t;
    FAC_CHECK(low < high, FAC_ERR_ARGUMENT, "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld",
              (long long)low, (long long)high);
    FAC_TRY(fac__factory_resolve(&f, FAC_I64));
    FAC_TRY(fac__factory_empty(&f, size, FAC_CONTIGUOUS, &t));
    return fill_integers(t, low, high, g, out);
}

static fac_status empty_as(fac_factory f, fac_tensor *self, fac_memory_format format, fac_tensor **out) {
    FAC_TRY(fac__factory_like(&f, self));
    return fac__factory_empty_like(&f, self, format, out);
}

fac_status rand_explicit(const fac_call_info *c, fac_ints size, fac_dtype dtype, fac_layout layout, fac_device device,
                         fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return rand_sized(FACTORY(dtype, layout, device, pin_memory), size, NULL, out);
}

fac_status rand_generator_explicit(const fac_call_info *c, fac_ints size, fac_generator *generator, fac_dtype dtype,
                                   fac_layout layout, fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return rand_sized(FACTORY(dtype, layout, device, pin_memory), size, generator, out);
}

fac_status randn_explicit(const fac_call_info *c, fac_ints size, fac_dtype dtype, fac_layout layout, fac_device device,
                          fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return normal_sized(FACTORY(dtype, layout, device, pin_memory), size, 0, 1, NULL, out);
}

fac_status randn_generator_explicit(const fac_call_info *c, fac_ints size, fac_generator *generator, fac_dtype dtype,
                                    fac_layout layout, fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return normal_sized(FACTORY(dtype, layout, device, pin_memory), size, 0, 1, generator, out);
}

fac_status normal_float_float_explicit(const fac_call_info *c, double mean, double std, fac_ints size,
                                       fac_generator *generator, fac_dtype dtype, fac_layout layout, fac_device device,
                                       fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return normal_sized(FACTORY(dtype, layout, device, pin_memory), size, mean, std, generator, out);
}

fac_status randint_explicit(const fac_call_info *c, int64_t high, fac_ints size, fac_dtype dtype, fac_layout layout,
                            fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return integers_sized(FACTORY(dtype, layout, device, pin_memory), size, 0, high, NULL, out);
}

fac_status randint_low_explicit(const fac_call_info *c, int64_t low, int64_t high, fac_ints size, fac_dtype dtype,
                                fac_layout layout, fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return integers_sized(FACTORY(dtype, layout, device, pin_memory), size, low, high, NULL, out);
}

fac_status randint_generator_explicit(const fac_call_info *c, int64_t high, fac_ints size, fac_generator *generator,
                                      fac_dtype dtype, fac_layout layout, fac_device device, fac_opt_num pin_memory,
                                      fac_tensor **out) {
    (void)c;
    return integers_sized(FACTORY(dtype, layout, device, pin_memory), size, 0, high, generator, out);
}

fac_status randint_low_generator_explicit(const fac_call_info *c, int64_t low, int64_t high, fac_ints size,
                                          fac_generator *generator, fac_dtype dtype, fac_layout layout,
                                          fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    return integers_sized(FACTORY(dtype, layout, device, pin_memory), size, low, high, generator, out);
}

/* True if the integers below n are all values of d. */
static bool holds_below(fac_dtype d, int64_t n) {
    switch (d) {
    case FAC_BOOL: return n <= 2;
    case FAC_U8: return n <= 256;
    case FAC_I8: return n <= 128;
    case FAC_I16: return n <= 32768;
    case FAC_I32: return n <= INT64_C(1) << 31;
    case FAC_F16: return n <= 2049;
    case FAC_BF16: return n <= 257;
    case FAC_F32: return n <= (1 << 24) + 1;
    case FAC_F64: return n <= (INT64_C(1) << 53) + 1;
    default: return d == FAC_I64;
    }
}

fac_status randperm_generator_explicit(const fac_call_info *c, int64_t n, fac_generator *generator, fac_dtype dtype,
                                       fac_layout layout, fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    fac_factory f = FACTORY(dtype, layout, device, pin_memory);
    fac_tensor *t, *same = NULL;
    FAC_CHECK(n >= 0, FAC_ERR_ARGUMENT, "n must be non-negative, got %lld", (long long)n);
    FAC_TRY(fac__factory_resolve(&f, FAC_I64));
    FAC_CHECK(holds_below(f.dtype, n), FAC_ERR_ARGUMENT, "n is too large for result tensor type: %lld for %s",
              (long long)n, fac_dtype_name(f.dtype));
    FAC_TRY(fac__factory_empty(&f, FAC_INTS(n), FAC_CONTIGUOUS, &t));
    return drawn(fac__redispatch_randperm_(fill_keys(t, generator), t, generator, &same), t, out);
}

fac_status randperm_explicit(const fac_call_info *c, int64_t n, fac_dtype dtype, fac_layout layout, fac_device device,
                             fac_opt_num pin_memory, fac_tensor **out) {
    return randperm_generator_explicit(c, n, NULL, dtype, layout, device, pin_memory, out);
}

#define LIKE_PARAMS                                                                                                 \
    fac_dtype dtype, fac_layout layout, fac_device device, fac_opt_num pin_memory, fac_memory_format memory_format, \
        fac_tensor **out
#define LIKE_ARGS dtype, layout, device, pin_memory, memory_format, out

fac_status rand_like_generator_explicit(const fac_call_info *c, fac_tensor *self, fac_generator *generator,
                                        LIKE_PARAMS) {
    (void)c;
    fac_tensor *t;
    FAC_TRY(empty_as(FACTORY(dtype, layout, device, pin_memory), self, memory_format, &t));
    return fill_uniform(t, generator, out);
}

fac_status randn_like_generator_explicit(const fac_call_info *c, fac_tensor *self, fac_generator *generator,
                                         LIKE_PARAMS) {
    (void)c;
    fac_tensor *t;
    FAC_TRY(empty_as(FACTORY(dtype, layout, device, pin_memory), self, memory_format, &t));
    return fill_normal(t, 0, 1, generator, out);
}

fac_status randint_like_low_generator_explicit(const fac_call_info *c, fac_tensor *self, int64_t low, int64_t high,
                                               fac_generator *generator, LIKE_PARAMS) {
    (void)c;
    fac_tensor *t;
    FAC_TRY(empty_as(FACTORY(dtype, layout, device, pin_memory), self, memory_format, &t));
    return fill_integers(t, low, high, generator, out);
}

/* The others are these with 0 as the lower bound, or the default generator. */
fac_status rand_like_explicit(const fac_call_info *c, fac_tensor *self, LIKE_PARAMS) {
    return rand_like_generator_explicit(c, self, NULL, LIKE_ARGS);
}
fac_status randn_like_explicit(const fac_call_info *c, fac_tensor *self, LIKE_PARAMS) {
    return randn_like_generator_explicit(c, self, NULL, LIKE_ARGS);
}
fac_status randint_like_low_explicit(const fac_call_info *c, fac_tensor *self, int64_t low, int64_t high, LIKE_PARAMS) {
    return randint_like_low_generator_explicit(c, self, low, high, NULL, LIKE_ARGS);
}
fac_status randint_like_generator_explicit(const fac_call_info *c, fac_tensor *self, int64_t high,
                                           fac_generator *generator, LIKE_PARAMS) {
    return randint_like_low_generator_explicit(c, self, 0, high, generator, LIKE_ARGS);
}
fac_status randint_like_explicit(const fac_call_info *c, fac_tensor *self, int64_t high, LIKE_PARAMS) {
    return randint_like_low_generator_explicit(c, self, 0, high, NULL, LIKE_ARGS);
}

/* ---- functional forms --------------------------------------------------------------------------------------------------------- */

fac_status bernoulli_explicit(const fac_call_info *c, fac_tensor *self, fac_generator *generator, fac_tensor **out) {
    (void)c;
    fac_tensor *t, *same = NULL;
    FAC_TRY(fac__empty_like(self, &t));
    return drawn(fac__redispatch_bernoulli__Tensor(fill_keys(t, generator), t, self, generator, &same), t, out);
}

fac_status bernoulli_tensor_explicit(const fac_call_info *c, fac_tensor *self, fac_tensor *p, fac_generator *generator,
                                     fac_tensor **out) {
    (void)c;
    fac_tensor *t, *same = NULL;
    FAC_TRY(fac__check_same_device((const char *[]){"self", "p"}, (fac_tensor *[]){self, p}, 2));
    FAC_TRY(fac__empty_like(self, &t));
    return drawn(fac__redispatch_bernoulli__Tensor(fill_keys(t, generator), t, p, generator, &same), t, out);
}

fac_status bernoulli_p_explicit(const fac_call_info *c, fac_tensor *self, double p, fac_generator *generator,
                                fac_tensor **out) {
    (void)c;
    fac_tensor *t, *same = NULL;
    FAC_TRY(fac__empty_like(self, &t));
    return drawn(fac__redispatch_bernoulli__float(fill_keys(t, generator), t, p, generator, &same), t, out);
}

/* t = t * std + mean for tensors that broadcast to t; NULL leaves a step out. Takes t. */
static fac_status shift_and_scale(fac_tensor *t, fac_tensor *std, fac_tensor *mean, double constant, fac_tensor **out) {
    fac_tensor *same = NULL;
    fac_status st = FAC_OK;
    if (std) st = fac__redispatch_mul__Tensor(fac__dense_keys(t), t, std, &same);
    if (std && st == FAC_OK) fac__unref(same);
    if (st == FAC_OK && mean) st = fac__add_below(t, mean);
    if (st == FAC_OK && !mean && constant != 0) {
        st = fac__redispatch_add__Scalar(fac__dense_keys(t), t, fac_scalar_f_(constant), fac_scalar_i_(1), &same);
        if (st == FAC_OK) fac__unref(same);
    }
    if (st != FAC_OK)
        fac__unref(t);
    else
        *out = t;
    return st;
}

/* Refuses negative deviations; below autograd, as its caller is. */
static fac_status check_deviations(fac_tensor *std) {
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)std->dtype), FAC_ERR_DTYPE,
              "normal expects standard deviation to be floating, got %s", fac_dtype_name((fac_dtype)std->dtype));
    if (std->numel == 0 || std->device.type == FAC_META) return FAC_OK;
    FAC_SCOPE(s);
    fac_tensor *low = fac__s_min(fac__s_detach(std));
    FAC_CHECK(low, fac_error(), "the smallest deviation could not be found");
    fac_scalar v;
    FAC_TRY(fac__c__local_scalar_dense(low, &v));
    FAC_CHECK(fac__scalar_f64(v) >= 0, FAC_ERR_ARGUMENT, "normal expects all elements of std >= 0.0, but found %g",
              fac__scalar_f64(v));
    return FAC_OK;
}

fac_status normal_tensor_float_explicit(const fac_call_info *c, fac_tensor *mean, double std, fac_generator *generator,
                                        fac_tensor **out) {
    (void)c;
    fac_tensor *t;
    FAC_TRY(fac__empty_like(mean, &t));
    FAC_TRY(fill_normal(t, 0, std, generator, &t));
    return shift_and_scale(t, NULL, mean, 0, out);
}

fac_status normal_float_tensor_explicit(const fac_call_info *c, double mean, fac_tensor *std, fac_generator *generator,
                                        fac_tensor **out) {
    (void)c;
    fac_tensor *t;
    FAC_TRY(check_deviations(std));
    FAC_TRY(fac__empty_like(std, &t));
    FAC_TRY(fill_normal(t, 0, 1, generator, &t));
    return shift_and_scale(t, std, NULL, mean, out);
}

fac_status normal_tensor_tensor_explicit(const fac_call_info *c, fac_tensor *mean, fac_tensor *std,
                                         fac_generator *generator, fac_tensor **out) {
    (void)c;
    fac_tensor *t;
    int64_t sizes[FAC_MAX_DIMS];
    int n;
    fac_promotion types = {0};
    FAC_TRY(fac__broadcast(mean->sizes, mean->ndim, std->sizes, std->ndim, sizes, &n));
    FAC_TRY(check_deviations(std));
    fac__promote_tensor(&types, mean);
    fac__promote_tensor(&types, std);
    FAC_TRY(fac__empty(sizes, n, fac__promote_result(&types), mean->device, &t));
    FAC_TRY(fill_normal(t, 0, 1, generator, &t));
    return shift_and_scale(t, std, mean, 0, out);
}

/* ---- dropout ---------------------------------------------------------------------------------------------------------------------- */

static fac_status check_dropout(double p) {
    FAC_CHECK(p >= 0 && p <= 1, FAC_ERR_ARGUMENT, "dropout probability has to be between 0 and 1, but got %g", p);
    return FAC_OK;
}

/* 0 with probability p, else 1 / (1 - p); at p = 1 only zeros. */
static fac_tensor *noise_like(fac_tensor *self, double p) {
    fac_dtype real =
        fac_dtype_is_complex((fac_dtype)self->dtype) ? fac__real_of((fac_dtype)self->dtype) : FAC_DTYPE_DEFAULT;
    fac_tensor *noise =
        fac__s_empty_like(self, real, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0}, FAC_FORMAT_DEFAULT);
    fac__s_bernoulli__float(noise, 1 - p, NULL);
    return p < 1 ? fac__s_div__Scalar(noise, fac_scalar_f_(1 - p)) : noise;
}

fac_status dropout_composite(const fac_call_info *c, fac_tensor *input, double p, bool train, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_dropout(p));
    if (p == 0 || !train || input->numel == 0) {
        *out = fac__ref(input);
        return FAC_OK;
    }
    if (fac_dtype_is_complex((fac_dtype)input->dtype)) {
        FAC_SCOPE(s);
        return fac__give(out, fac__s_mul_Tensor(input, noise_like(input, p)));
    }
    fac_tensor *both[2] = {NULL, NULL};
    FAC_TRY(fac__c_native_dropout(input, p, fac_opt_num_(fac_scalar_b_(true)), both));
    fac__unref(both[1]);
    *out = both[0];
    return FAC_OK;
}

fac_status dropout_composite_(const fac_call_info *c, fac_tensor *self, double p, bool train, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_dropout(p));
    if (p > 0 && train && self->numel) {
        FAC_SCOPE(s);
        if (!fac__s_mul__Tensor(self, noise_like(self, p))) return fac_error();
    }
    *out = fac__ref(self);
    return FAC_OK;
}
