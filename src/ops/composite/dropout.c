/* Dropout of features, and for self-normalising networks: a draw of noise, and products with it. */
#include "ops/composite/brief.h"
#include <math.h>

typedef struct kind {
    bool features, alpha;
} kind;

/* Minus the lower limit of selu: its scale times its alpha. */
#define SELU_LIMIT 1.7580993408473766

static fac_status check_probability(double p) {
    FAC_CHECK(p >= 0 && p <= 1, FAC_ERR_ARGUMENT, "dropout probability has to be between 0 and 1, but got %g", p);
    return FAC_OK;
}

static bool changes(const fac_tensor *input, double p, bool train) { return p > 0 && train && input->numel > 0; }

/* What a draw asks of the input. */
static fac_status check(const fac_tensor *input, kind k) {
    FAC_CHECK(!is_integral(input), FAC_ERR_DTYPE, "dropout needs a floating or complex dtype, got %s",
              fac_dtype_name((fac_dtype)input->dtype));
    FAC_CHECK(!k.features || input->ndim >= 2, FAC_ERR_SHAPE,
              "Feature dropout requires at least 2 dimensions in the input, got %d", input->ndim);
    return FAC_OK;
}

/* Ones with probability 1 - p, else zeros: one for each element, or for each feature. */
static fac_tensor *draw(fac_tensor *input, double p, kind k) {
    int64_t sizes[FAC_MAX_DIMS];
    const fac_dtype d = (fac_dtype)input->dtype;
    for (int i = 0; i < input->ndim; i++) sizes[i] = k.features && i >= 2 ? 1 : input->sizes[i];
    fac_tensor *noise = fac__s_new_empty(input, (fac_ints){sizes, (size_t)input->ndim}, fac__real_of(d), FAC_STRIDED,
                                         (fac_device){0}, (fac_opt_num){0});
    return noise ? fac__s_bernoulli__float(noise, 1 - p, NULL) : NULL;
}

/* The factor of the input, and what is added to it (NULL: nothing). With q = 1 - p and L = SELU_LIMIT, a = (q + L^2 p q)^(-1/2)
   keeps the variance and b = a L p the mean of what becomes -L where the noise is zero. */
static fac_tensor *noise_of(fac_tensor *input, double p, kind k, fac_tensor **shift) {
    fac_tensor *kept = draw(input, p, k);
    *shift = NULL;
    if (!kept) return NULL;
    if (!k.alpha) return p < 1 ? scaled(kept, 1 / (1 - p)) : kept;
    if (p == 1) return kept;
    const double a = 1 / sqrt((SELU_LIMIT * SELU_LIMIT * p + 1) * (1 - p));
    *shift = plus(scaled(plus(kept, -1), SELU_LIMIT * a), SELU_LIMIT * a * p);
    return scaled(kept, a);
}

static fac_status drop(fac_tensor *input, double p, bool train, kind k, fac_tensor **out) {
    fac_tensor *shift;
    FAC_TRY(check_probability(p));
    if (!changes(input, p, train)) {
        *out = fac__ref(input);
        return FAC_OK;
    }
    FAC_TRY(check(input, k));
    FAC_SCOPE(scope);
    fac_tensor *noise = noise_of(input, p, k, &shift);
    if (!noise) return fac_error();
    return fac__give(out, shift ? fac__s_addcmul(shift, input, noise, fac_scalar_i_(1)) : mul(input, noise));
}

static fac_status drop_in_place(fac_tensor *self, double p, bool train, kind k, fac_tensor **out) {
    fac_tensor *shift;
    FAC_TRY(check_probability(p));
    if (changes(self, p, train)) {
        FAC_TRY(check(self, k));
        FAC_SCOPE(scope);
        fac_tensor *noise = noise_of(self, p, k, &shift);
        if (!noise) return fac_error();
        /* One operator writes, so that self is as it was if another fails. */
        fac_tensor *y = shift ? add(mul(self, noise), shift) : NULL;
        if (shift && !y) return fac_error();
        if (!(shift ? fac__s_copy_(self, y, false) : fac__s_mul__Tensor(self, noise))) return fac_error();
    }
    *out = fac__ref(self);
    return FAC_OK;
}

#define DROPOUT(name, features, alpha)                                                                               \
    fac_status name##_composite(const fac_call_info *c, fac_tensor *input, double p, bool train, fac_tensor **out) { \
        (void)c;                                                                                                     \
        return drop(input, p, train, (kind){features, alpha}, out);                                                  \
    }                                                                                                                \
    fac_status name##_composite_(const fac_call_info *c, fac_tensor *self, double p, bool train, fac_tensor **out) { \
        (void)c;                                                                                                     \
        return drop_in_place(self, p, train, (kind){features, alpha}, out);                                          \
    }

DROPOUT(feature_dropout, true, false)
DROPOUT(alpha_dropout, false, true)
DROPOUT(feature_alpha_dropout, true, true)
