/* Every gradient formula is followed through all that it calls, to see that it can be differentiated again. An operator with
   formulas of its own ends the way, as those are followed for themselves. The rule: docs/operators.md, "Second derivatives". */
#include "opgen.h"
#include <stdlib.h>

typedef struct walk {
    const model *m;
    const op *o; /* whose formula it is */
    const formula *f;
    LIST(const char *) path; /* names on the way */
    LIST(const c_def *) seen;
    size_t *dead_ends;
} walk;

static void dead_end(walk *w, const char *at, const char *why) {
    fprintf(stderr, "%s:%d: error: %s: the gradient of ", w->o->e->file, w->f->line, w->o->short_name);
    for (size_t i = 0; i < w->f->args.n; i++)
        fprintf(stderr, "%s'%s'", i ? ", " : "", w->o->s->args[w->f->args.v[i]].name);
    fputs(" cannot be differentiated: ", stderr);
    for (size_t i = 0; i < w->path.n; i++) fprintf(stderr, "%s -> ", w->path.v[i]);
    fprintf(stderr, "%s, %s\n", at, why);
    ++*w->dead_ends;
}

static void enter(walk *w, const char *name) { PUSH(w->path, name); }

static void walk_c(walk *w, const c_def *d);

static const formula *refusal_of(const op *o) {
    for (size_t i = 0; o->grad && i < o->grad->n; i++)
        if (o->grad->v[i].unsupported) return &o->grad->v[i];
    return NULL;
}

static void walk_op(walk *w, const op *o) {
    const entry *e = o->e;
    if (e->nondifferentiable || e->double_backward) return;
    if (o->form == FORM_OUT) {
        dead_end(w, o->short_name, "an out form, which takes no part in autograd");
        return;
    }
    const formula *refusal = refusal_of(o);
    if (refusal)
        dead_end(w, o->short_name,
                 xformat("whose own gradient is unsupported (%s); give it one, or declare double_backward there",
                         refusal->unsupported));
    if (!e->composite) return;
    enter(w, o->short_name);
    const c_def *d = e->alias ? NULL : find_c(NULL, e->composite);
    if (e->alias)
        walk_op(w, aliased(o));
    else if (d)
        walk_c(w, d);
    else
        dead_end(w, e->composite, "which none of the C files defines by that name");
    w->path.n--;
}

static const char *after(const char *text, const char *prefix) {
    size_t n = strlen(prefix);
    return strncmp(text, prefix, n) ? NULL : text + n;
}

/* Whether a name met in C is one by which `o` is called. */
static bool is_called(const op *o, const char *name) {
    static const char *const internal[] = {"fac__s_", "fac__c_", "fac_op_"};
    for (size_t i = 0; i < FAC_COUNT(internal); i++) {
        const char *id = after(name, internal[i]);
        if (id && strcmp(id, o->id) == 0) return true;
    }
    const char *shown = after(name, "fac_");
    return shown && ((!o->e->internal && strcmp(o->cname, shown) == 0) || (o->macro && strcmp(o->macro, shown) == 0));
}

/* Follows a name met in C if it is a call of operators. */
static bool walk_call(walk *w, const char *name) {
    const char *below = after(name, "fac__redispatch_");
    bool found = false;
    for (size_t i = 0; i < w->m->ops.n; i++) {
        const op *o = &w->m->ops.v[i];
        const bool passes_by = below && strcmp(o->id, below) == 0, calls = is_called(o, name);
        if (passes_by) dead_end(w, name, "which passes autograd by");
        if (calls) walk_op(w, o);
        found = found || calls || passes_by;
    }
    return found;
}

static void walk_c(walk *w, const c_def *d) {
    for (size_t i = 0; i < w->seen.n; i++)
        if (w->seen.v[i] == d) return;
    PUSH(w->seen, d);
    enter(w, xformat("%s (%s:%d)", d->name, d->file, d->line));
    if (d->pastes) dead_end(w, "##", "which hides the names that it makes; write them out");
    for (size_t i = 0; i < d->names.n; i++) {
        if (walk_call(w, d->names.v[i])) continue;
        const c_def *next = find_c(d->file, d->names.v[i]);
        if (next) walk_c(w, next);
    }
    w->path.n--;
}

static void walk_formula(const model *m, const op *o, const formula *f, size_t *dead_ends) {
    walk w = {.m = m, .o = o, .f = f, .dead_ends = dead_ends};
    for (size_t i = 0; i < f->ops.n; i++) walk_op(&w, f->ops.v[i]);
    for (size_t i = 0; i < f->lost.n; i++) dead_end(&w, f->lost.v[i], "to which it passes what depends on the inputs");
    for (size_t i = 0; i < f->functions.n; i++) {
        const c_def *d = find_c(NULL, f->functions.v[i]);
        if (d)
            walk_c(&w, d);
        else
            dead_end(&w, f->functions.v[i], "which is neither an operator nor a function in the C files");
    }
}

void check_closure(const model *m) {
    size_t dead_ends = 0;
    for (size_t i = 0; i < m->ops.n; i++) {
        const op *o = &m->ops.v[i];
        for (size_t j = 0; o->form == FORM_FUNCTION && o->grad && j < o->grad->n; j++)
            walk_formula(m, o, &o->grad->v[j], &dead_ends);
    }
    if (dead_ends) exit(1);
}
