/* Schedules that go up and down, with the momentum or against it, and those that follow a metric or end in an average. */
#include "core/thread.h"
#include "optim/kind.h"
#include "optim/schedule.h"
#include <math.h>

static const double PI = 3.14159265358979323846;
#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})
static const char *const anneals[] = {"cos", "linear", NULL};

/* ---- CyclicLR -------------------------------------------------------------------------------------------------------------- */

enum { UP, DOWN, MODE, GAMMA, BY_ITERATIONS, CYCLES, BASE_MOMENTUM, MAX_MOMENTUM };
enum { TRIANGULAR, TRIANGULAR2, EXP_RANGE };
enum { CYCLIC_BASE = FAC_LR_OWN, CYCLIC_MAX };
static const char *const modes[] = {"triangular", "triangular2", "exp_range", NULL};
static const char *const scale_modes[] = {"cycle", "iterations", NULL};

static double scale_at(const fac_lr_scheduler *s, double x) {
    if (s->scale) {
        double scale;
        FAC_CALLBACK(scale = s->scale->fn(s->scale->context, x));
        return scale;
    }
    switch ((int)s->v[MODE]) {
    case TRIANGULAR2: return 1 / pow(2, x - 1);
    case EXP_RANGE: return pow(s->v[GAMMA], x);
    default: return 1;
    }
}

/* How high the cycle is, from 0 to 1, before it is scaled; and at what. */
static double height(const fac_lr_scheduler *s, double *at) {
    const double now = (double)s->last_epoch, total = s->v[UP] + s->v[DOWN], ratio = s->v[UP] / total;
    const double cycle = floor(1 + now / total), x = 1 + now / total - cycle;
    *at = s->v[BY_ITERATIONS] != 0 ? now : cycle;
    return x <= ratio ? x / ratio : (x - 1) / (ratio - 1);
}

static double cyclic_rate(const fac_lr_scheduler *s, size_t i) {
    double at;
    const double base = fac__lr_row(s, CYCLIC_BASE)[i], h = height(s, &at);
    return base + (fac__lr_row(s, CYCLIC_MAX)[i] - base) * h * scale_at(s, at);
}

static double cyclic_momentum(const fac_lr_scheduler *s, size_t i) {
    double at;
    const double h = height(s, &at);
    (void)i;
    return s->v[MAX_MOMENTUM] - (s->v[MAX_MOMENTUM] - s->v[BASE_MOMENTUM]) * h * scale_at(s, at);
}

static fac_status cyclic_check(const fac_lr_scheduler *s) {
    FAC_CHECK(s->v[UP] != 0 && s->v[UP] + s->v[DOWN] != 0, FAC_ERR_ARGUMENT,
              "CyclicLR: neither step_size_up nor its sum with step_size_down should be 0, but they are %g and %g",
              s->v[UP], s->v[DOWN]);
    return FAC_OK;
}

static const fac_lr_kind cyclic_kind = {.name = "CyclicLR",
                                        .numbers =
                                            NAMES("step_size_up", "step_size_down", "mode", "gamma", "scale_mode",
                                                  "cycle_momentum", "base_momentum", "max_momentum"),
                                        .rows = NAMES("cycle_base_lrs", "max_lrs"),
                                        .rate = cyclic_rate,
                                        .momentum = cyclic_momentum,
                                        .check = cyclic_check};

/* A mode says at what its factor is taken; a function of the program's goes by scale_mode. */
static fac_status cyclic_fill(fac_lr_scheduler *s, double base_lr, double max_lr, const fac_cyclic_lr_new_kw *k) {
    s->scale = k->scale_fn;
    FAC_CHECK(!s->scale || s->scale->fn, FAC_ERR_ARGUMENT, "CyclicLR: scale_fn has no function");
    s->v[MODE] = s->scale ? 0 : fac__optim_choice("CyclicLR", "mode", k->mode, modes);
    const double by = fac__optim_choice("CyclicLR", "scale_mode", k->scale_mode, scale_modes);
    s->v[BY_ITERATIONS] = s->scale ? by : s->v[MODE] == EXP_RANGE;
    if (fac_error()) return fac_error();
    FAC_TRY(fac__lr_fill(s, CYCLIC_BASE, base_lr, k->base_lrs, "base_lrs"));
    FAC_TRY(fac__lr_fill(s, CYCLIC_MAX, max_lr, k->max_lrs, "max_lrs"));
    return k->cycle_momentum ? fac__lr_find_momentum(s) : FAC_OK;
}

/* The groups begin at the rates of a schedule; on an error they are as they were. */
static fac_lr_scheduler *begin_at(fac_lr_scheduler *s, fac_status st, size_t row, int64_t last_epoch) {
    double *had = fac__alloc_array(s->n_groups, sizeof *had);
    if (!had) st = fac_error();
    fac_optimizer *o = s->o;
    const size_t n = s->n_groups;
    const bool sets = !st && last_epoch == -1;
    for (size_t i = 0; sets && i < n; i++) {
        had[i] = o->groups.v[i].initial_lr;
        o->groups.v[i].initial_lr = fac__lr_row(s, row)[i];
    }
    s = fac__lr_begin(s, st, last_epoch);
    for (size_t i = 0; sets && !s && i < n; i++) o->groups.v[i].initial_lr = had[i];
    fac__free(had);
    return s;
}

fac_lr_scheduler *(fac_cyclic_lr_new)(fac_optimizer *o, double base_lr, double max_lr, const fac_cyclic_lr_new_kw *kw) {
    fac_cyclic_lr_new_kw k;
    if (fac_error() || fac__open_cyclic_lr_new_kw(&k, kw)) return NULL;
    const double up = (double)k.step_size_up, down = k.step_size_down == FAC_UNSET ? up : (double)k.step_size_down;
    const double values[] = {up, down, 0, k.gamma, 0, k.cycle_momentum, k.base_momentum, k.max_momentum};
    fac_lr_scheduler *s = fac__lr_make(&cyclic_kind, o, values, FAC_COUNT(values));
    return s ? begin_at(s, cyclic_fill(s, base_lr, max_lr, &k), CYCLIC_BASE, k.last_epoch) : NULL;
}

/* ---- OneCycleLR ------------------------------------------------------------------------------------------------------------ */

enum { TOTAL, PCT_START, LINEAR, THREE_PHASE, ONE_CYCLES, ONE_BASE, ONE_MAX, DIV_FACTOR, FINAL_DIV_FACTOR };
enum { ONE_INITIAL = FAC_LR_OWN, ONE_PEAK, ONE_MIN };

static double anneal(bool linear, double start, double end, double pct) {
    return linear ? (end - start) * pct + start : end + (start - end) / 2.0 * (cos(PI * pct) + 1);
}

/* Which of the phases it is, whose ends are points from 0 on, and how far in it. */
static int phase_of(const fac_lr_scheduler *s, double *pct) {
    const double now = (double)s->last_epoch, total = s->v[TOTAL], first = s->v[PCT_START] * total - 1;
    const bool three = s->v[THREE_PHASE] != 0;
    const double ends[] = {first, three ? 2 * s->v[PCT_START] * total - 2 : total - 1, total - 1};
    int phase = 0;
    while (phase < (three ? 2 : 1) && now > ends[phase]) phase++;
    const double start = phase ? ends[phase - 1] : 0;
    *pct = (now - start) / (ends[phase] - start);
    return phase;
}

/* From one of points to the next. */
static double between(const fac_lr_scheduler *s, const double points[4]) {
    double pct;
    const int phase = phase_of(s, &pct);
    return anneal(s->v[LINEAR] != 0, points[phase], points[phase + 1], pct);
}

static double one_cycle_rate(const fac_lr_scheduler *s, size_t i) {
    const double initial = fac__lr_row(s, ONE_INITIAL)[i], peak = fac__lr_row(s, ONE_PEAK)[i],
                 least = fac__lr_row(s, ONE_MIN)[i];
    const bool three = s->v[THREE_PHASE] != 0;
    return between(s, (const double[]){initial, peak, three ? initial : least, least});
}

static double one_cycle_momentum(const fac_lr_scheduler *s, size_t i) {
    const double base = s->v[ONE_BASE], most = s->v[ONE_MAX];
    (void)i;
    return between(s, (const double[]){most, base, most, most});
}

static fac_status one_cycle_advance(fac_lr_scheduler *s, double epoch) {
    s->last_epoch = isnan(epoch) ? s->last_epoch + 1 : (int64_t)epoch;
    FAC_CHECK((double)s->last_epoch <= s->v[TOTAL], FAC_ERR_ARGUMENT,
              "OneCycleLR: tried to step %lld times; the number of total steps is %g", (long long)s->last_epoch,
              s->v[TOTAL]);
    return FAC_OK;
}

static fac_status one_cycle_check(const fac_lr_scheduler *s) {
    FAC_CHECK(fac__lr_is_whole(s->v[TOTAL]) && s->v[TOTAL] > 0, FAC_ERR_ARGUMENT,
              "OneCycleLR: total_steps, or epochs and steps_per_epoch, should be whole numbers above 0");
    FAC_CHECK(s->v[PCT_START] >= 0 && s->v[PCT_START] <= 1, FAC_ERR_ARGUMENT,
              "OneCycleLR: pct_start should be between 0 and 1, not %g", s->v[PCT_START]);
    return FAC_OK;
}

static const fac_lr_kind one_cycle_kind = {.name = "OneCycleLR",
                                           .numbers = NAMES("total_steps", "pct_start", "anneal_strategy",
                                                            "three_phase", "cycle_momentum", "base_momentum",
                                                            "max_momentum", "div_factor", "final_div_factor"),
                                           .rows = NAMES("initial_lrs", "max_lrs", "min_lrs"),
                                           .rate = one_cycle_rate,
                                           .momentum = one_cycle_momentum,
                                           .check = one_cycle_check,
                                           .advance = one_cycle_advance};

static double total_steps(const fac_one_cycle_lr_new_kw *k) {
    if (k->total_steps != FAC_UNSET) return (double)k->total_steps;
    const bool given = k->epochs != FAC_UNSET && k->steps_per_epoch != FAC_UNSET;
    return given && k->epochs > 0 && k->steps_per_epoch > 0 ? (double)k->epochs * (double)k->steps_per_epoch : 0;
}

static fac_status one_cycle_fill(fac_lr_scheduler *s, double max_lr, const fac_one_cycle_lr_new_kw *k) {
    s->v[LINEAR] = fac__optim_choice("OneCycleLR", "anneal_strategy", k->anneal_strategy, anneals);
    if (fac_error()) return fac_error();
    FAC_TRY(fac__lr_fill(s, ONE_PEAK, max_lr, k->max_lrs, "max_lrs"));
    for (size_t i = 0; i < s->n_groups; i++) {
        const double begin = fac__lr_row(s, ONE_PEAK)[i] / k->div_factor;
        fac__lr_row(s, ONE_INITIAL)[i] = begin;
        fac__lr_row(s, ONE_MIN)[i] = begin / k->final_div_factor;
    }
    return k->cycle_momentum ? fac__lr_find_momentum(s) : FAC_OK;
}

fac_lr_scheduler *(fac_one_cycle_lr_new)(fac_optimizer *o, double max_lr, const fac_one_cycle_lr_new_kw *kw) {
    fac_one_cycle_lr_new_kw k;
    if (fac_error() || fac__open_one_cycle_lr_new_kw(&k, kw)) return NULL;
    const double values[] = {total_steps(&k), k.pct_start,      0,
                             k.three_phase,   k.cycle_momentum, k.base_momentum,
                             k.max_momentum,  k.div_factor,     k.final_div_factor};
    fac_lr_scheduler *s = fac__lr_make(&one_cycle_kind, o, values, FAC_COUNT(values));
    return s ? begin_at(s, one_cycle_fill(s, max_lr, &k), ONE_INITIAL, k.last_epoch) : NULL;
}

/* ---- ReduceLROnPlateau ------------------------------------------------------------------------------------------------------ */

enum { RISES, REDUCTION, PATIENCE, THRESHOLD, ABSOLUTE, COOLDOWN, EPS, BEST, COOLDOWN_COUNTER, BAD_EPOCHS };
enum { MIN_LRS = FAC_LR_OWN };
static const char *const directions[] = {"min", "max", NULL}, *const threshold_modes[] = {"rel", "abs", NULL};

static fac_status plateau_check(const fac_lr_scheduler *s) {
    FAC_CHECK(s->v[REDUCTION] < 1, FAC_ERR_ARGUMENT, "ReduceLROnPlateau: factor should be below 1, not %g",
              s->v[REDUCTION]);
    return FAC_OK;
}

/* The rate after a reduction. */
static double plateau_rate(const fac_lr_scheduler *s, size_t i) {
    const double lr = fac__lr_now(s, i), lower = fmax(lr * s->v[REDUCTION], fac__lr_row(s, MIN_LRS)[i]);
    return lr - lower > s->v[EPS] ? lower : lr;
}

static const fac_lr_kind plateau_kind = {.name = "ReduceLROnPlateau",
                                         .numbers =
                                             NAMES("mode", "factor", "patience", "threshold", "threshold_mode",
                                                   "cooldown", "eps", "best", "cooldown_counter", "num_bad_epochs"),
                                         .rows = NAMES("min_lrs"),
                                         .rate = plateau_rate,
                                         .check = plateau_check,
                                         .wants_metric = true};

static bool is_better(const double *v, double metric) {
    const double margin = v[RISES] != 0 ? v[THRESHOLD] : -v[THRESHOLD];
    const double bound = v[ABSOLUTE] != 0 ? v[BEST] + margin : v[BEST] * (1 + margin);
    return v[RISES] != 0 ? metric > bound : metric < bound;
}

fac_status fac_lr_scheduler_step_metric(fac_lr_scheduler *s, double metric) {
    if (fac_error() || !fac__given(s, "schedule")) return fac_error();
    FAC_CHECK(s->kind->wants_metric, FAC_ERR_ARGUMENT, "%s goes by no metric: call fac_lr_scheduler_step",
              s->kind->name);
    FAC_CHECK(s->n_groups == s->o->groups.n, FAC_ERR_STATE,
              "%s was made for %zu groups, but the optimiser has %zu; make it anew", s->kind->name, s->n_groups,
              s->o->groups.n);
    double *v = s->v;
    const bool better = is_better(v, metric);
    s->last_epoch++;
    if (better) v[BEST] = metric;
    v[BAD_EPOCHS] = better ? 0 : v[BAD_EPOCHS] + 1;
    if (v[COOLDOWN_COUNTER] > 0) v[COOLDOWN_COUNTER]--, v[BAD_EPOCHS] = 0;
    if (v[BAD_EPOCHS] > v[PATIENCE]) {
        for (size_t i = 0; i < s->n_groups; i++) s->o->groups.v[i].options[0] = plateau_rate(s, i);
        v[COOLDOWN_COUNTER] = v[COOLDOWN];
        v[BAD_EPOCHS] = 0;
    }
    fac__lr_note(s);
    return FAC_OK;
}

/* Made without a step: the rates are as they are. */
static fac_status plateau_fill(fac_lr_scheduler *s, const fac_reduce_lr_on_plateau_new_kw *k) {
    s->v[RISES] = fac__optim_choice("ReduceLROnPlateau", "mode", k->mode, directions);
    s->v[ABSOLUTE] = fac__optim_choice("ReduceLROnPlateau", "threshold_mode", k->threshold_mode, threshold_modes);
    s->v[BEST] = s->v[RISES] != 0 ? -INFINITY : INFINITY;
    if (fac_error()) return fac_error();
    FAC_TRY(fac__lr_fill(s, MIN_LRS, k->min_lr, k->min_lrs, "min_lrs"));
    fac__lr_note(s);
    for (size_t i = 0; i < s->n_groups; i++) fac__lr_row(s, FAC_LR_BASE)[i] = s->o->groups.v[i].initial_lr;
    return fac__lr_check(s);
}

fac_lr_scheduler *(fac_reduce_lr_on_plateau_new)(fac_optimizer *o, const fac_reduce_lr_on_plateau_new_kw *kw) {
    fac_reduce_lr_on_plateau_new_kw k;
    if (fac_error() || fac__open_reduce_lr_on_plateau_new_kw(&k, kw)) return NULL;
    const double values[] = {0, k.factor, (double)k.patience, k.threshold, 0, (double)k.cooldown, k.eps};
    fac_lr_scheduler *s = fac__lr_make(&plateau_kind, o, values, FAC_COUNT(values));
    if (!s || plateau_fill(s, &k) == FAC_OK) return s;
    fac_lr_scheduler_release(s);
    return NULL;
}

/* ---- SWALR ------------------------------------------------------------------------------------------------------------------ */

enum { ANNEAL_EPOCHS, SWA_LINEAR };
enum { SWA_LRS = FAC_LR_OWN };

/* How much of the way is gone at a step. */
static double swa_alpha(const fac_lr_scheduler *s, double step) {
    const double t = fmax(0, fmin(1, step / fmax(1, s->v[ANNEAL_EPOCHS])));
    return s->v[SWA_LINEAR] != 0 ? t : (1 - cos(PI * t)) / 2;
}

static double swa_rate(const fac_lr_scheduler *s, size_t i) {
    double step = (double)(s->step_count - 1);
    if (s->v[ANNEAL_EPOCHS] == 0) step = fmax(1, step);
    const double target = fac__lr_row(s, SWA_LRS)[i], before = swa_alpha(s, step - 1), alpha = swa_alpha(s, step);
    const double begin = before == 1 ? target : (fac__lr_now(s, i) - before * target) / (1 - before);
    return target * alpha + begin * (1 - alpha);
}

static fac_status swa_check(const fac_lr_scheduler *s) {
    FAC_CHECK(fac__lr_is_whole(s->v[ANNEAL_EPOCHS]) && s->v[ANNEAL_EPOCHS] >= 0, FAC_ERR_ARGUMENT,
              "SWALR: anneal_epochs should be a whole number from 0, not %g", s->v[ANNEAL_EPOCHS]);
    return FAC_OK;
}

static const fac_lr_kind swa_kind = {.name = "SWALR",
                                     .numbers = NAMES("anneal_epochs", "anneal_strategy"),
                                     .rows = NAMES("swa_lrs"),
                                     .rate = swa_rate,
                                     .check = swa_check};

fac_lr_scheduler *(fac_swa_lr_new)(fac_optimizer *o, double swa_lr, const fac_swa_lr_new_kw *kw) {
    fac_swa_lr_new_kw k;
    if (fac_error() || fac__open_swa_lr_new_kw(&k, kw)) return NULL;
    const double values[] = {(double)k.anneal_epochs,
                             fac__optim_choice("SWALR", "anneal_strategy", k.anneal_strategy, anneals)};
    fac_lr_scheduler *s = fac_error() ? NULL : fac__lr_make(&swa_kind, o, values, FAC_COUNT(values));
    return s ? fac__lr_begin(s, fac__lr_fill(s, SWA_LRS, swa_lr, k.swa_lrs, "swa_lrs"), k.last_epoch) : NULL;
}
