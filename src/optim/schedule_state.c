/* State dicts of schedules: every number by its name, those of parts behind their place ("0.last_epoch"). Loading reads into a copy
   of the whole schedule, which takes its place when all was found good. */
#include "core/handle.h"
#include "core/read.h"
#include "optim/schedule.h"
#include <facula/ops.h>

enum { NAME = 96 };

static const char *row_name(const fac_lr_scheduler *s, size_t row) {
    static const char *const common[FAC_LR_OWN] = {"base_lrs", "last_lr", NULL, NULL}; /* what comes next is not kept */
    return row < FAC_LR_OWN ? common[row] : s->kind->rows[row - FAC_LR_OWN];
}

static size_t row_count(const fac_lr_scheduler *s) {
    size_t n = FAC_LR_OWN;
    while (s->kind->rows && s->kind->rows[n - FAC_LR_OWN]) n++;
    return n;
}

/* ---- saving ---------------------------------------------------------------------------------------------------------------- */

static fac_status put(fac_state *to, const char *prefix, const char *name, const void *v, fac_dtype dtype,
                      fac_ints sizes) {
    char full[NAME];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    FAC_SCOPE(scope);
    return fac_state_set(to, full, fac_tensor_from(v, dtype, sizes));
}

static fac_status save(const fac_lr_scheduler *s, const char *prefix, fac_state *to) {
    const fac_ints one = FAC_INTS(), groups = FAC_INTS((int64_t)s->n_groups);
    FAC_TRY(put(to, prefix, "last_epoch", &s->last_epoch, FAC_I64, one));
    FAC_TRY(put(to, prefix, "step_count", &s->step_count, FAC_I64, one));
    for (size_t i = 0; s->kind->numbers && s->kind->numbers[i]; i++)
        FAC_TRY(put(to, prefix, s->kind->numbers[i], &s->v[i], FAC_F64, one));
    for (size_t i = 0; i < row_count(s); i++)
        if (row_name(s, i)) FAC_TRY(put(to, prefix, row_name(s, i), fac__lr_row(s, i), FAC_F64, groups));
    if (s->milestones.v)
        FAC_TRY(put(to, prefix, "milestones", s->milestones.v, FAC_I64, FAC_INTS((int64_t)s->milestones.n)));
    for (size_t i = 0; i < s->parts.n; i++) {
        char deeper[NAME];
        snprintf(deeper, sizeof deeper, "%s%zu.", prefix, i);
        FAC_TRY(save(s->parts.v[i], deeper, to));
    }
    return FAC_OK;
}

fac_state *fac_lr_scheduler_state_dict(fac_lr_scheduler *s) {
    if (fac_error() || !fac__given(s, "schedule")) return NULL;
    fac_state *to = fac_state_new();
    if (!to || save(s, "", to) == FAC_OK) return to;
    fac_state_free(to);
    return NULL;
}

/* ---- loading --------------------------------------------------------------------------------------------------------------- */

typedef struct loading {
    const fac_state *from;
    size_t taken;
} loading;

/* The entry, counted; NULL with an error if it is not there or is complex. */
static fac_tensor *entry(loading *l, const char *prefix, const char *name) {
    char full[NAME];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    fac_tensor *t = fac_state_get(l->from, full);
    if (!t || fac_dtype_is_complex(fac_tensor_dtype(t))) {
        (void)FAC_FAIL(FAC_ERR_NOT_FOUND, "the state of a schedule does not say %s", full);
        return NULL;
    }
    l->taken++;
    return t;
}

/* n numbers of an entry. */
static fac_status read(loading *l, const char *prefix, const char *name, double *out, size_t n) {
    fac_tensor *t = entry(l, prefix, name);
    if (!t) return fac_error();
    FAC_CHECK(fac_tensor_numel(t) == (int64_t)n, FAC_ERR_SHAPE,
              "%s%s has the shape %s in the state, but should have %zu numbers", prefix, name,
              FAC_SHAPE_TEXT(fac__header(t)), n);
    return fac_tensor_read(t, FAC_F64, out, n);
}

static fac_status read_count(loading *l, const char *prefix, const char *name, int64_t least, int64_t *out) {
    double x = 0;
    FAC_TRY(read(l, prefix, name, &x, 1));
    FAC_CHECK(fac__lr_is_whole(x) && x >= (double)least, FAC_ERR_ARGUMENT, "%s%s is %g in the state of a schedule",
              prefix, name, x);
    *out = (int64_t)x;
    return FAC_OK;
}

static fac_status read_milestones(loading *l, const char *prefix, fac_lr_scheduler *s) {
    fac_tensor *t = entry(l, prefix, "milestones");
    if (!t) return fac_error();
    FAC_CHECK(fac_tensor_ndim(t) == 1 && fac_tensor_dtype(t) == FAC_I64, FAC_ERR_ARGUMENT,
              "%smilestones should be a list of int64 in the state of a schedule", prefix);
    const size_t n = (size_t)fac_tensor_numel(t);
    int64_t *v = fac__alloc_array(n, sizeof *v);
    if (!v) return fac_error();
    fac__free(s->milestones.v);
    s->milestones.v = v;
    s->milestones.n = n;
    return n ? fac_tensor_read(t, FAC_I64, v, n) : FAC_OK;
}

static fac_status read_all(loading *l, const char *prefix, fac_lr_scheduler *s) {
    FAC_TRY(read_count(l, prefix, "last_epoch", -1, &s->last_epoch));
    FAC_TRY(read_count(l, prefix, "step_count", 0, &s->step_count));
    for (size_t i = 0; s->kind->numbers && s->kind->numbers[i]; i++)
        FAC_TRY(read(l, prefix, s->kind->numbers[i], &s->v[i], 1));
    for (size_t i = 0; i < row_count(s); i++)
        if (row_name(s, i)) FAC_TRY(read(l, prefix, row_name(s, i), fac__lr_row(s, i), s->n_groups));
    if (s->milestones.v) FAC_TRY(read_milestones(l, prefix, s));
    for (size_t i = 0; i < s->parts.n; i++) {
        char deeper[NAME];
        snprintf(deeper, sizeof deeper, "%s%zu.", prefix, i);
        FAC_TRY(read_all(l, deeper, s->parts.v[i]));
    }
    return fac__lr_check(s);
}

/* A schedule with numbers and parts of its own; NULL on failure. */
static fac_lr_scheduler *copy_of(const fac_lr_scheduler *s) {
    fac_lr_scheduler *c = fac__lr_make(s->kind, s->o, s->v, FAC_LR_NUMBERS);
    if (!c) return NULL;
    c->momentum = s->momentum;
    if (s->milestones.v) (void)fac__lr_take_milestones(c, (fac_ints){s->milestones.v, s->milestones.n});
    c->parts.v = s->parts.n && !fac_error() ? fac__alloc_array(s->parts.n, sizeof *c->parts.v) : NULL;
    for (size_t i = 0; i < s->parts.n && !fac_error(); i++)
        if ((c->parts.v[i] = copy_of(s->parts.v[i]))) c->parts.n++;
    if (!fac_error()) return c;
    fac_lr_scheduler_release(c);
    return NULL;
}

/* Exchanges the numbers of s and its parts with those of a copy. */
static void exchange(fac_lr_scheduler *s, fac_lr_scheduler *c) {
    double *rows = s->rows;
    s->rows = c->rows;
    c->rows = rows;
    int64_t *milestones = s->milestones.v;
    s->milestones = c->milestones;
    c->milestones.v = milestones;
    s->last_epoch = c->last_epoch;
    s->step_count = c->step_count;
    memcpy(s->v, c->v, sizeof s->v);
    for (size_t i = 0; i < s->parts.n; i++) exchange(s->parts.v[i], c->parts.v[i]);
}

fac_status fac_lr_scheduler_load_state_dict(fac_lr_scheduler *s, const fac_state *state) {
    if (fac_error()) return fac_error();
    FAC_CHECK(s && state, FAC_ERR_ARGUMENT, "a schedule or its state is NULL");
    FAC_CHECK(s->n_groups == s->o->groups.n, FAC_ERR_STATE,
              "%s was made for %zu groups, but the optimiser has %zu; make it anew", s->kind->name, s->n_groups,
              s->o->groups.n);
    loading l = {.from = state};
    fac_lr_scheduler *c = copy_of(s);
    if (!c) return fac_error();
    fac_status st = read_all(&l, "", c);
    if (!st && l.taken != state->n)
        st = FAC_FAIL(FAC_ERR_ARGUMENT, "the state has %zu entries, of which %s knows %zu", state->n, s->kind->name,
                      l.taken);
    if (!st) exchange(s, c);
    fac_lr_scheduler_release(c);
    return st;
}
