/* Schedules of rates: making them, stepping, and what is lent of them. Kinds are in schedule_kinds.c, schedule_cycles.c and
   schedule_parts.c. */
#include "optim/schedule.h"
#include <math.h>

double fac_cosine_lr(const fac_cosine_schedule *s, int64_t step) {
    if (!fac__given(s, "schedule")) return 0;
    const int64_t warmup = fac__max(s->warmup, 0);
    step = fac__max(step, 0);
    if (step < warmup) return s->peak * (double)(step + 1) / (double)warmup;
    if (step >= s->total || s->total <= warmup) return s->floor;
    const double done = (double)(step - warmup) / (double)(s->total - warmup);
    return s->floor + 0.5 * (s->peak - s->floor) * (1 + cos(acos(-1.0) * done));
}

/* ---- making ---------------------------------------------------------------------------------------------------------------- */

void fac_lr_scheduler_release(fac_lr_scheduler *s) {
    if (!s) return;
    for (size_t i = 0; i < s->parts.n; i++) fac_lr_scheduler_release(s->parts.v[i]);
    fac__free(s->parts.v);
    fac__free(s->milestones.v);
    fac__free(s->rows);
    fac__free(s);
    fac__live_add(-1);
}

static size_t count(const char *const *names) {
    size_t n = 0;
    while (names && names[n]) n++;
    return n;
}

fac_lr_scheduler *fac__lr_make(const fac_lr_kind *kind, fac_optimizer *o, const double *values, size_t n) {
    if (fac_error() || !fac__given(o, "optimiser of a schedule")) return NULL;
    fac_lr_scheduler *s = fac__alloc_zero(sizeof *s);
    if (!s) return NULL;
    fac__live_add(1);
    s->kind = kind;
    s->o = o;
    s->n_groups = o->groups.n;
    for (size_t i = 0; i < n; i++) s->v[i] = values[i];
    s->rows = fac__alloc_zero((FAC_LR_OWN + count(kind->rows)) * s->n_groups * sizeof *s->rows);
    if (s->rows) return s;
    fac_lr_scheduler_release(s);
    return NULL;
}

fac_status fac__lr_fill(fac_lr_scheduler *s, size_t row, double all, fac_floats each, const char *name) {
    if (!fac__list_given(each.v, each.n, name)) return fac_error();
    FAC_CHECK(!each.n || each.n == s->n_groups, FAC_ERR_ARGUMENT, "%s: %s has %zu numbers for %zu groups",
              s->kind->name, name, each.n, s->n_groups);
    for (size_t i = 0; i < s->n_groups; i++) fac__lr_row(s, row)[i] = each.n ? each.v[i] : all;
    return FAC_OK;
}

fac_status fac__lr_take_milestones(fac_lr_scheduler *s, fac_ints milestones) {
    if (!fac__list_given(milestones.v, milestones.n, "milestones")) return fac_error();
    int64_t *v = fac__alloc_array(milestones.n, sizeof *v);
    if (!v) return fac_error();
    if (milestones.n) memcpy(v, milestones.v, milestones.n * sizeof *v);
    fac__free(s->milestones.v);
    s->milestones.v = v;
    s->milestones.n = milestones.n;
    return FAC_OK;
}

fac_status fac__lr_find_momentum(fac_lr_scheduler *s) {
    static const char *const names[] = {"beta1", "momentum"};
    fac_optim_group *g = s->o->groups.v;
    for (size_t i = 0; i < FAC_COUNT(names); i++) {
        const double *field = fac__optim_field(s->o, g, names[i]);
        if (!field) continue;
        s->momentum = (size_t)(field - g->options);
        return FAC_OK;
    }
    return FAC_FAIL(FAC_ERR_ARGUMENT, "%s: %s has no momentum and no beta1 to cycle; cycle_momentum should be false",
                    s->kind->name, s->o->cls->name);
}

fac_status fac__lr_check(const fac_lr_scheduler *s) {
    for (size_t i = 0; i < count(s->kind->numbers); i++)
        FAC_CHECK(!isnan(s->v[i]), FAC_ERR_ARGUMENT, "%s: %s is not a number", s->kind->name, s->kind->numbers[i]);
    return s->kind->check ? s->kind->check(s) : FAC_OK;
}

fac_lr_scheduler *fac__lr_begin(fac_lr_scheduler *s, fac_status st, int64_t last_epoch) {
    if (!s) return NULL;
    for (size_t i = 0; i < s->n_groups; i++) fac__lr_row(s, FAC_LR_BASE)[i] = s->o->groups.v[i].initial_lr;
    if (!st && last_epoch < -1)
        st = FAC_FAIL(FAC_ERR_ARGUMENT, "%s: last_epoch should be -1 or more, not %lld", s->kind->name,
                      (long long)last_epoch);
    if (!st) st = fac__lr_check(s);
    s->last_epoch = last_epoch;
    if (!st) st = fac__lr_initial_step(s);
    if (!st) return s;
    fac_lr_scheduler_release(s);
    return NULL;
}

/* ---- stepping -------------------------------------------------------------------------------------------------------------- */

void fac__lr_note(fac_lr_scheduler *s) {
    for (size_t i = 0; i < s->n_groups; i++) fac__lr_row(s, FAC_LR_LAST)[i] = fac__lr_now(s, i);
}

/* Settings of a group as they will be. */
static void propose(const fac_lr_scheduler *s, size_t group, double *options) {
    memcpy(options, s->o->groups.v[group].options, FAC_OPTIMIZER_MAX_OPTIONS * sizeof *options);
    options[0] = fac__lr_row(s, FAC_LR_NEXT)[group];
    if (s->momentum) options[s->momentum] = fac__lr_row(s, FAC_LR_NEXT_MOMENTUM)[group];
}

/* All rates are computed and checked before the first changes. */
static fac_status update(fac_lr_scheduler *s, fac_lr_rate rate) {
    double options[FAC_OPTIMIZER_MAX_OPTIONS];
    for (size_t i = 0; i < s->n_groups; i++) {
        fac__lr_row(s, FAC_LR_NEXT)[i] = rate(s, i);
        if (s->momentum) fac__lr_row(s, FAC_LR_NEXT_MOMENTUM)[i] = s->kind->momentum(s, i);
        if (fac_error()) return fac_error();
        FAC_CHECK(isfinite(fac__lr_row(s, FAC_LR_NEXT)[i]), FAC_ERR_ARGUMENT,
                  "%s: the rate of group %zu would be %g at epoch %lld", s->kind->name, i,
                  fac__lr_row(s, FAC_LR_NEXT)[i], (long long)s->last_epoch);
        propose(s, i, options);
        FAC_TRY(fac__optim_check_others(s->o, options));
    }
    for (size_t i = 0; i < s->n_groups; i++) {
        propose(s, i, options);
        memcpy(s->o->groups.v[i].options, options, sizeof options);
    }
    fac__lr_note(s);
    return FAC_OK;
}

fac_status fac__lr_update_at(fac_lr_scheduler *s, int64_t epoch) {
    const int64_t before = s->last_epoch;
    s->last_epoch = epoch;
    const fac_status st = update(s, s->kind->closed ? s->kind->closed : s->kind->rate);
    if (st) s->last_epoch = before;
    return st;
}

static fac_status advance(fac_lr_scheduler *s, double epoch) {
    s->step_count++;
    if (s->kind->advance) return s->kind->advance(s, epoch);
    s->last_epoch = isnan(epoch) ? s->last_epoch + 1 : (int64_t)epoch;
    return FAC_OK;
}

fac_status fac__lr_step(fac_lr_scheduler *s, double epoch) {
    FAC_CHECK(s->n_groups == s->o->groups.n, FAC_ERR_STATE,
              "%s was made for %zu groups, but the optimiser has %zu; make it anew", s->kind->name, s->n_groups,
              s->o->groups.n);
    const fac_lr_scheduler before = *s;
    if (s->kind->step) return s->kind->step(s);
    fac_status st = advance(s, epoch);
    if (!st) st = update(s, !isnan(epoch) && s->kind->closed ? s->kind->closed : s->kind->rate);
    if (st) *s = before;
    return st;
}

fac_status fac__lr_initial_step(fac_lr_scheduler *s) {
    s->step_count = 0;
    s->initial = true;
    const fac_status st = fac__lr_step(s, NAN);
    s->initial = false;
    return st;
}

static fac_status check_plain(const fac_lr_scheduler *s) {
    FAC_CHECK(!s->kind->wants_metric, FAC_ERR_ARGUMENT, "%s goes by a metric: call fac_lr_scheduler_step_metric",
              s->kind->name);
    return FAC_OK;
}

fac_status fac_lr_scheduler_step(fac_lr_scheduler *s) {
    if (fac_error() || !fac__given(s, "schedule")) return fac_error();
    FAC_TRY(check_plain(s));
    return fac__lr_step(s, NAN);
}

fac_status fac_lr_scheduler_step_to(fac_lr_scheduler *s, double epoch) {
    if (fac_error() || !fac__given(s, "schedule")) return fac_error();
    FAC_CHECK(!s->kind->wants_metric && !s->kind->step, FAC_ERR_UNSUPPORTED, "%s cannot be set to an epoch",
              s->kind->name);
    FAC_CHECK(epoch >= 0 && epoch < 0x1p53, FAC_ERR_ARGUMENT, "%s: invalid epoch: %g", s->kind->name, epoch);
    FAC_CHECK(s->kind->advance || fac__lr_is_whole(epoch), FAC_ERR_ARGUMENT, "%s takes whole epochs, not %g",
              s->kind->name, epoch);
    return fac__lr_step(s, epoch);
}

int64_t fac_lr_scheduler_last_epoch(const fac_lr_scheduler *s) { return fac__given(s, "schedule") ? s->last_epoch : 0; }

double fac_lr_scheduler_last_lr(const fac_lr_scheduler *s, size_t group) {
    if (!fac__given(s, "schedule")) return 0;
    if (group < s->n_groups) return fac__lr_row(s, FAC_LR_LAST)[group];
    (void)FAC_FAIL(FAC_ERR_INDEX, "group %zu is out of range: the schedule has %zu", group, s->n_groups);
    return 0;
}
