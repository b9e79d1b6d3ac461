/* Schedules of one formula. Each rate is computed from that of the step before, as PyTorch does, so that several schedules over
   one optimiser multiply. */
#include "core/thread.h"
#include "optim/schedule.h"
#include <math.h>

static const double PI = 3.14159265358979323846;

/* fac_NAME_new of a kind, whose numbers are given. */
#define SCHEDULE(name, parameters, ...)                                                                       \
    fac_lr_scheduler *(fac_##name##_new)parameters {                                                          \
        fac_##name##_new_kw k;                                                                                \
        if (fac_error() || fac__open_##name##_new_kw(&k, kw)) return NULL;                                    \
        const double values[] = {__VA_ARGS__};                                                                \
        return fac__lr_begin(fac__lr_make(&name##_kind, o, values, FAC_COUNT(values)), FAC_OK, k.last_epoch); \
    }
#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- functions of the program's --------------------------------------------------------------------------------------------- */

static double factor_of(const fac_lr_scheduler *s, size_t group) {
    double factor;
    FAC_CALLBACK(factor = s->factor(s->context, group, s->last_epoch));
    return factor;
}

static double lambda_rate(const fac_lr_scheduler *s, size_t i) { return fac__lr_base(s, i) * factor_of(s, i); }
static double multiplicative_rate(const fac_lr_scheduler *s, size_t i) {
    return s->initial ? fac__lr_now(s, i) : fac__lr_now(s, i) * factor_of(s, i);
}

static const fac_lr_kind lambda_kind = {.name = "LambdaLR", .rate = lambda_rate},
                         multiplicative_kind = {.name = "MultiplicativeLR", .rate = multiplicative_rate};

static fac_lr_scheduler *of_factor(const fac_lr_kind *kind, fac_optimizer *o, double (*factor)(void *, size_t, int64_t),
                                   void *context, int64_t last_epoch) {
    if (!fac__given((const void *)(uintptr_t)factor, "function of a schedule")) return NULL;
    fac_lr_scheduler *s = fac__lr_make(kind, o, NULL, 0);
    if (!s) return NULL;
    s->factor = factor;
    s->context = context;
    return fac__lr_begin(s, FAC_OK, last_epoch);
}

fac_lr_scheduler *(fac_lambda_lr_new)(fac_optimizer *o, double (*factor)(void *context, size_t group, int64_t step),
                                      void *context, const fac_lambda_lr_new_kw *kw) {
    fac_lambda_lr_new_kw k;
    if (fac_error() || fac__open_lambda_lr_new_kw(&k, kw)) return NULL;
    return of_factor(&lambda_kind, o, factor, context, k.last_epoch);
}

fac_lr_scheduler *(fac_multiplicative_lr_new)(fac_optimizer *o,
                                              double (*factor)(void *context, size_t group, int64_t step),
                                              void *context, const fac_multiplicative_lr_new_kw *kw) {
    fac_multiplicative_lr_new_kw k;
    if (fac_error() || fac__open_multiplicative_lr_new_kw(&k, kw)) return NULL;
    return of_factor(&multiplicative_kind, o, factor, context, k.last_epoch);
}

/* ---- StepLR, MultiStepLR ------------------------------------------------------------------------------------------------------ */

enum { STEP_GAMMA, STEP_SIZE };

static double step_rate(const fac_lr_scheduler *s, size_t i) {
    const bool falls = s->last_epoch != 0 && s->last_epoch % (int64_t)s->v[STEP_SIZE] == 0;
    return falls ? fac__lr_now(s, i) * s->v[STEP_GAMMA] : fac__lr_now(s, i);
}

static double step_closed(const fac_lr_scheduler *s, size_t i) {
    return fac__lr_base(s, i) * pow(s->v[STEP_GAMMA], floor((double)s->last_epoch / s->v[STEP_SIZE]));
}

static fac_status step_check(const fac_lr_scheduler *s) {
    FAC_CHECK(fac__lr_is_whole(s->v[STEP_SIZE]) && s->v[STEP_SIZE] != 0, FAC_ERR_ARGUMENT,
              "StepLR: step_size should be a whole number other than 0, not %g", s->v[STEP_SIZE]);
    return FAC_OK;
}

static const fac_lr_kind step_lr_kind = {.name = "StepLR",
                                         .numbers = NAMES("gamma", "step_size"),
                                         .rate = step_rate,
                                         .closed = step_closed,
                                         .check = step_check};
SCHEDULE(step_lr, (fac_optimizer * o, int64_t step_size, const fac_step_lr_new_kw *kw), k.gamma, (double)step_size)

static double multi_step_rate(const fac_lr_scheduler *s, size_t i) {
    int times = 0;
    for (size_t j = 0; j < s->milestones.n; j++) times += s->milestones.v[j] == s->last_epoch;
    return times ? fac__lr_now(s, i) * pow(s->v[STEP_GAMMA], times) : fac__lr_now(s, i);
}

static double multi_step_closed(const fac_lr_scheduler *s, size_t i) {
    int times = 0;
    for (size_t j = 0; j < s->milestones.n; j++) times += s->milestones.v[j] <= s->last_epoch;
    return fac__lr_base(s, i) * pow(s->v[STEP_GAMMA], times);
}

static const fac_lr_kind multi_step_kind = {
    .name = "MultiStepLR", .numbers = NAMES("gamma"), .rate = multi_step_rate, .closed = multi_step_closed};

fac_lr_scheduler *(fac_multi_step_lr_new)(fac_optimizer *o, fac_ints milestones, const fac_multi_step_lr_new_kw *kw) {
    fac_multi_step_lr_new_kw k;
    if (fac_error() || fac__open_multi_step_lr_new_kw(&k, kw)) return NULL;
    fac_lr_scheduler *s = fac__lr_make(&multi_step_kind, o, &k.gamma, 1);
    return s ? fac__lr_begin(s, fac__lr_take_milestones(s, milestones), k.last_epoch) : NULL;
}

/* ---- ConstantLR, LinearLR ------------------------------------------------------------------------------------------------------ */

enum { FACTOR, TOTAL_ITERS, END_FACTOR };

static fac_status check_total(const fac_lr_scheduler *s) {
    FAC_CHECK(fac__lr_is_whole(s->v[TOTAL_ITERS]), FAC_ERR_ARGUMENT, "%s: total_iters should be a whole number, not %g",
              s->kind->name, s->v[TOTAL_ITERS]);
    return FAC_OK;
}

static double constant_rate(const fac_lr_scheduler *s, size_t i) {
    const double lr = fac__lr_now(s, i);
    if (s->last_epoch == 0) return lr * s->v[FACTOR];
    return (double)s->last_epoch == s->v[TOTAL_ITERS] ? lr * (1.0 / s->v[FACTOR]) : lr;
}

static double constant_closed(const fac_lr_scheduler *s, size_t i) {
    const double done = (double)s->last_epoch >= s->v[TOTAL_ITERS];
    return fac__lr_base(s, i) * (s->v[FACTOR] + done * (1 - s->v[FACTOR]));
}

static fac_status constant_check(const fac_lr_scheduler *s) {
    FAC_CHECK(s->v[FACTOR] >= 0 && s->v[FACTOR] <= 1, FAC_ERR_ARGUMENT,
              "ConstantLR: factor should be between 0 and 1, not %g", s->v[FACTOR]);
    return check_total(s);
}

static const fac_lr_kind constant_lr_kind = {.name = "ConstantLR",
                                             .numbers = NAMES("factor", "total_iters"),
                                             .rate = constant_rate,
                                             .closed = constant_closed,
                                             .check = constant_check};
SCHEDULE(constant_lr, (fac_optimizer * o, const fac_constant_lr_new_kw *kw), k.factor, (double)k.total_iters)

static double linear_rate(const fac_lr_scheduler *s, size_t i) {
    const double lr = fac__lr_now(s, i), start = s->v[FACTOR], change = s->v[END_FACTOR] - start,
                 total = s->v[TOTAL_ITERS];
    if (s->last_epoch == 0) return lr * start;
    if (s->initial || (double)s->last_epoch > total) return lr;
    return lr * (1.0 + change / (total * start + (double)(s->last_epoch - 1) * change));
}

static double linear_closed(const fac_lr_scheduler *s, size_t i) {
    const double start = s->v[FACTOR], total = s->v[TOTAL_ITERS];
    return fac__lr_base(s, i) * (start + (s->v[END_FACTOR] - start) * fmin(total, (double)s->last_epoch) / total);
}

static fac_status linear_check(const fac_lr_scheduler *s) {
    FAC_CHECK(s->v[FACTOR] > 0 && s->v[FACTOR] <= 1, FAC_ERR_ARGUMENT,
              "LinearLR: start_factor should be above 0, and 1 at most, not %g", s->v[FACTOR]);
    FAC_CHECK(s->v[END_FACTOR] >= 0 && s->v[END_FACTOR] <= 1, FAC_ERR_ARGUMENT,
              "LinearLR: end_factor should be between 0 and 1, not %g", s->v[END_FACTOR]);
    return check_total(s);
}

static const fac_lr_kind linear_lr_kind = {.name = "LinearLR",
                                           .numbers = NAMES("start_factor", "total_iters", "end_factor"),
                                           .rate = linear_rate,
                                           .closed = linear_closed,
                                           .check = linear_check};
SCHEDULE(linear_lr, (fac_optimizer * o, const fac_linear_lr_new_kw *kw), k.start_factor, (double)k.total_iters,
         k.end_factor)

/* ---- ExponentialLR, PolynomialLR ------------------------------------------------------------------------------------------------ */

static double exponential_rate(const fac_lr_scheduler *s, size_t i) {
    return s->initial ? fac__lr_now(s, i) : fac__lr_now(s, i) * s->v[STEP_GAMMA];
}

static double exponential_closed(const fac_lr_scheduler *s, size_t i) {
    return fac__lr_base(s, i) * pow(s->v[STEP_GAMMA], (double)s->last_epoch);
}

static const fac_lr_kind exponential_lr_kind = {
    .name = "ExponentialLR", .numbers = NAMES("gamma"), .rate = exponential_rate, .closed = exponential_closed};
SCHEDULE(exponential_lr, (fac_optimizer * o, double gamma, const fac_exponential_lr_new_kw *kw), gamma)

enum { POWER }; /* then TOTAL_ITERS */

static double polynomial_rate(const fac_lr_scheduler *s, size_t i) {
    const double now = (double)s->last_epoch, total = s->v[TOTAL_ITERS];
    if (s->initial || now > total) return fac__lr_now(s, i);
    return fac__lr_now(s, i) * pow((1.0 - now / total) / (1.0 - (now - 1) / total), s->v[POWER]);
}

static double polynomial_closed(const fac_lr_scheduler *s, size_t i) {
    const double total = s->v[TOTAL_ITERS];
    return fac__lr_base(s, i) * pow(1.0 - fmin(total, (double)s->last_epoch) / total, s->v[POWER]);
}

static const fac_lr_kind polynomial_lr_kind = {.name = "PolynomialLR",
                                               .numbers = NAMES("power", "total_iters"),
                                               .rate = polynomial_rate,
                                               .closed = polynomial_closed,
                                               .check = check_total};
SCHEDULE(polynomial_lr, (fac_optimizer * o, const fac_polynomial_lr_new_kw *kw), k.power, (double)k.total_iters)

/* ---- CosineAnnealingLR ------------------------------------------------------------------------------------------------------------ */

enum { ETA_MIN, T_MAX };

static double cosine_closed(const fac_lr_scheduler *s, size_t i) {
    const double least = s->v[ETA_MIN];
    return least + (fac__lr_base(s, i) - least) * (1 + cos(PI * (double)s->last_epoch / s->v[T_MAX])) / 2;
}

static double cosine_rate(const fac_lr_scheduler *s, size_t i) {
    const double lr = fac__lr_now(s, i), least = s->v[ETA_MIN], total = s->v[T_MAX], now = (double)s->last_epoch;
    if (s->initial) return lr;
    if (s->step_count == 1 && s->last_epoch > 0) return cosine_closed(s, i);
    if ((s->last_epoch - 1 - (int64_t)total) % (2 * (int64_t)total) == 0)
        return lr + (fac__lr_base(s, i) - least) * (1 - cos(PI / total)) / 2;
    return (1 + cos(PI * now / total)) / (1 + cos(PI * (now - 1) / total)) * (lr - least) + least;
}

static fac_status cosine_check(const fac_lr_scheduler *s) {
    FAC_CHECK(fac__lr_is_whole(s->v[T_MAX]) && s->v[T_MAX] != 0, FAC_ERR_ARGUMENT,
              "CosineAnnealingLR: T_max should be a whole number other than 0, not %g", s->v[T_MAX]);
    return FAC_OK;
}

static const fac_lr_kind cosine_annealing_lr_kind = {.name = "CosineAnnealingLR",
                                                     .numbers = NAMES("eta_min", "T_max"),
                                                     .rate = cosine_rate,
                                                     .closed = cosine_closed,
                                                     .check = cosine_check};
SCHEDULE(cosine_annealing_lr, (fac_optimizer * o, int64_t T_max, const fac_cosine_annealing_lr_new_kw *kw), k.eta_min,
         (double)T_max)

/* ---- CosineAnnealingWarmRestarts ---------------------------------------------------------------------------------------------------- */

enum { T_0 = 1, T_MULT, T_I, T_CUR };

static double restarts_rate(const fac_lr_scheduler *s, size_t i) {
    const double least = s->v[ETA_MIN];
    return least + (fac__lr_base(s, i) - least) * (1 + cos(PI * s->v[T_CUR] / s->v[T_I])) / 2;
}

/* Where an epoch lies: in which cycle, and how far. */
static void find_epoch(double *v, double epoch) {
    v[T_I] = v[T_0];
    v[T_CUR] = epoch;
    if (epoch < v[T_0]) return;
    if (v[T_MULT] == 1) {
        v[T_CUR] = fmod(epoch, v[T_0]);
        return;
    }
    const double n = floor(log(epoch / v[T_0] * (v[T_MULT] - 1) + 1) / log(v[T_MULT]));
    v[T_CUR] = epoch - v[T_0] * (pow(v[T_MULT], n) - 1) / (v[T_MULT] - 1);
    v[T_I] = v[T_0] * pow(v[T_MULT], n);
}

static fac_status restarts_advance(fac_lr_scheduler *s, double epoch) {
    if (isnan(epoch) && s->last_epoch >= 0) {
        s->last_epoch++;
        if (++s->v[T_CUR] < s->v[T_I]) return FAC_OK;
        s->v[T_CUR] = fmod(s->v[T_CUR], s->v[T_I]);
        s->v[T_I] *= s->v[T_MULT];
        return FAC_OK;
    }
    if (isnan(epoch)) epoch = 0;
    find_epoch(s->v, epoch);
    s->last_epoch = (int64_t)floor(epoch);
    return FAC_OK;
}

static fac_status restarts_check(const fac_lr_scheduler *s) {
    FAC_CHECK(fac__lr_is_whole(s->v[T_0]) && s->v[T_0] > 0, FAC_ERR_ARGUMENT,
              "CosineAnnealingWarmRestarts: T_0 should be a whole number above 0, not %g", s->v[T_0]);
    FAC_CHECK(fac__lr_is_whole(s->v[T_MULT]) && s->v[T_MULT] >= 1, FAC_ERR_ARGUMENT,
              "CosineAnnealingWarmRestarts: T_mult should be a whole number from 1, not %g", s->v[T_MULT]);
    return FAC_OK;
}

static const fac_lr_kind cosine_annealing_warm_restarts_kind = {.name = "CosineAnnealingWarmRestarts",
                                                                .numbers =
                                                                    NAMES("eta_min", "T_0", "T_mult", "T_i", "T_cur"),
                                                                .rate = restarts_rate,
                                                                .check = restarts_check,
                                                                .advance = restarts_advance};
SCHEDULE(cosine_annealing_warm_restarts,
         (fac_optimizer * o, int64_t T_0, const fac_cosine_annealing_warm_restarts_new_kw *kw), k.eta_min, (double)T_0,
         (double)k.T_mult, (double)T_0, (double)k.last_epoch)
