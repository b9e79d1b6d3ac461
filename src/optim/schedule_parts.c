/* Schedules made of schedules: all at once, or one after another. */
#include "optim/schedule.h"
#include <math.h>

/* ---- parts ----------------------------------------------------------------------------------------------------------------- */

static fac_status check_part(const fac_lr_kind *kind, const fac_optimizer *o, const fac_lr_scheduler *part,
                             bool first) {
    FAC_CHECK(part, FAC_ERR_ARGUMENT, "%s: a schedule of the list is NULL", kind->name);
    FAC_CHECK(!part->taken, FAC_ERR_ARGUMENT, "%s: a schedule is a part already", kind->name);
    FAC_CHECK(!part->kind->wants_metric, FAC_ERR_ARGUMENT, "%s cannot step %s, which goes by a metric", kind->name,
              part->kind->name);
    FAC_CHECK(part->o == o, FAC_ERR_ARGUMENT, "%s: a schedule is of another optimiser", kind->name);
    FAC_CHECK(first || !part->kind->step, FAC_ERR_ARGUMENT, "%s: %s, which cannot begin later, can only be the first",
              kind->name, part->kind->name);
    return FAC_OK;
}

/* Takes over the parts; all that are no parts already are released on an error. */
static fac_lr_scheduler *of_parts(const fac_lr_kind *kind, fac_optimizer *o, fac_lr_schedulers parts, bool sequential) {
    fac_lr_scheduler *s = NULL;
    if (fac__list_given(parts.v, parts.n, "schedules") && !fac_error()) {
        if (!parts.n) (void)FAC_FAIL(FAC_ERR_ARGUMENT, "%s expects at least one schedule", kind->name);
        if (!o && parts.n && parts.v[0]) o = parts.v[0]->o;
        s = o && !fac_error() ? fac__lr_make(kind, o, NULL, 0) : NULL;
        if (!s && !fac_error()) (void)FAC_FAIL(FAC_ERR_ARGUMENT, "%s: a schedule of the list is NULL", kind->name);
    }
    if (s) s->parts.v = fac__alloc_array(parts.n, sizeof *s->parts.v);
    for (size_t i = 0; parts.v && i < parts.n; i++) {
        fac_lr_scheduler *part = parts.v[i];
        if (s && !fac_error() && check_part(kind, o, part, !sequential || i == 0) == FAC_OK) {
            part->taken = true;
            s->parts.v[s->parts.n++] = part;
        } else if (part && !part->taken)
            fac_lr_scheduler_release(part);
    }
    if (!fac_error()) return s;
    fac_lr_scheduler_release(s);
    return NULL;
}

/* ---- ChainedScheduler ------------------------------------------------------------------------------------------------------ */

static fac_status chained_step(fac_lr_scheduler *s) {
    for (size_t i = 0; i < s->parts.n; i++) FAC_TRY(fac__lr_step(s->parts.v[i], NAN));
    s->last_epoch++;
    fac__lr_note(s);
    return FAC_OK;
}

static const fac_lr_kind chained_kind = {.name = "ChainedScheduler", .step = chained_step};

fac_lr_scheduler *fac_chained_scheduler_new(fac_lr_schedulers schedulers) {
    fac_lr_scheduler *s = of_parts(&chained_kind, NULL, schedulers, false);
    if (s) fac__lr_note(s);
    return s;
}

/* ---- SequentialLR ---------------------------------------------------------------------------------------------------------- */

/* The part that an epoch belongs to. The search by halves decides where milestones do not rise, as it does in PyTorch. */
static size_t part_at(const fac_lr_scheduler *s, int64_t epoch) {
    size_t low = 0, high = s->milestones.n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (epoch < s->milestones.v[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static fac_status sequential_step(fac_lr_scheduler *s) {
    const size_t i = part_at(s, s->last_epoch + 1);
    fac_lr_scheduler *part = s->parts.v[i];
    const bool begins = i > 0 && s->milestones.v[i - 1] == s->last_epoch + 1;
    FAC_TRY(begins ? fac__lr_update_at(part, 0) : fac__lr_step(part, NAN));
    s->last_epoch++;
    fac__lr_note(s);
    return FAC_OK;
}

static fac_status sequential_check(const fac_lr_scheduler *s) {
    FAC_CHECK(s->milestones.n + 1 == s->parts.n, FAC_ERR_ARGUMENT,
              "SequentialLR expects one milestone less than there are schedules, but got %zu for %zu", s->milestones.n,
              s->parts.n);
    return FAC_OK;
}

static const fac_lr_kind sequential_kind = {.name = "SequentialLR", .step = sequential_step, .check = sequential_check};

/* Takes back the step that making the parts has taken. */
static void undo(fac_lr_scheduler *s) {
    for (size_t i = 0; i < s->parts.n; i++) undo(s->parts.v[i]);
    if (!s->parts.n) s->last_epoch--;
}

static fac_status sequential_begin(fac_lr_scheduler *s, fac_ints milestones, int64_t last_epoch) {
    FAC_TRY(fac__lr_take_milestones(s, milestones));
    FAC_TRY(fac__lr_check(s));
    FAC_CHECK(last_epoch >= -1, FAC_ERR_ARGUMENT, "SequentialLR: last_epoch should be -1 or more, not %lld",
              (long long)last_epoch);
    s->last_epoch = last_epoch + 1;
    for (size_t i = 0; i < s->n_groups; i++) {
        fac_optim_group *g = &s->o->groups.v[i];
        g->options[0] = fac__lr_row(s, FAC_LR_BASE)[i] = g->initial_lr;
    }
    undo(s);
    FAC_TRY(fac__lr_initial_step(s->parts.v[part_at(s, 0)]));
    fac__lr_note(s);
    return FAC_OK;
}

fac_lr_scheduler *(fac_sequential_lr_new)(fac_optimizer *o, fac_lr_schedulers schedulers, fac_ints milestones,
                                          const fac_sequential_lr_new_kw *kw) {
    fac_sequential_lr_new_kw k = {0};
    if (!fac_error() && fac__open_sequential_lr_new_kw(&k, kw) == FAC_OK)
        (void)fac__given(o, "optimiser of a schedule");
    fac_lr_scheduler *s = of_parts(&sequential_kind, o, schedulers, true);
    if (!s || sequential_begin(s, milestones, k.last_epoch) == FAC_OK) return s;
    fac_lr_scheduler_release(s);
    return NULL;
}
