/* What graphs, captures and batching may rely on of an operator, beyond its schema: the form that writes nothing, random numbers
   drawn, whether sizes depend on values, how elements are combined. An entry that leaves one open is an error. */
#include "opgen.h"

/* Of an operator that is not made of an entry's functional form: the one of its name without the underscore. */
static const op *by_name(const op *o) {
    size_t n = strlen(o->s->name);
    if (o->s->name[n - 1] != '_') return NULL;
    return find_op(o->m, xformat("%.*s", (int)n - 1, o->s->name), o->s->overload);
}

/* By its schema, or by `updates` beyond it. */
static bool changes(const op *o) { return o->e->updates || writes(o); }

static const op *functional_of(const op *o) {
    if (!changes(o)) return o;
    if (is_factory_out(o)) return NULL;
    if (o->functional) return functional_of(o->functional);
    if (!o->e->functional || strcmp(o->e->functional, "made") == 0) return by_name(o);
    return FIND(o->m->ops, short_name, o->e->functional);
}

static bool fills(const op *o) {
    return is_factory_out(o) || (o->e->functional && strcmp(o->e->functional, "fills") == 0);
}

/* "none, reason", "fills": there is no such form, and a caller can do without. */
static bool needs_none(const op *o) {
    return fills(o) || (o->e->functional && reason_after("none, ", o->e->functional));
}

static const char *combines(const model *m, const entry *e) {
    if (is_pointwise(e) || e->view) return "nothing";
    if (e->combines) return e->combines;
    const family *all = FIND(m->families, file, e->file);
    return all ? all->combines : NULL;
}

static void check_functional(const op *o) {
    const entry *e = o->e;
    if (e->functional && !changes(o))
        die(e->file, e->line, "%s writes none of its arguments: it is its own functional form", o->s->full);
    if (!functional_of(o) && !needs_none(o))
        die(e->file, e->line,
            "%s writes its arguments: 'functional' should name the operator that computes the same into new tensors, "
            "or say 'fills', 'made' or 'none, reason'",
            o->s->full);
}

static void check_combines(const op *o) {
    const entry *e = o->e;
    if (!e->composite && !combines(o->m, e))
        die(e->file, e->line, "%s: 'combines' should be nothing, exactly or rounded", o->s->full);
}

/* Without an argument for it, the default generator is drawn from, and a tag tells so. */
static void check_random(const op *o) {
    const entry *e = o->e;
    const bool takes = *each(o, is_generator, "", "$a");
    if (takes && !e->random && !e->composite)
        die(e->file, e->line, "%s takes a generator: 'random' should say how many offsets of it a call takes",
            o->s->full);
    if (e->random && !takes && !lists(e->tags, "nondeterministic_seeded"))
        die(e->file, e->line, "%s: 'random' needs an argument of type Generator, or the tag nondeterministic_seeded",
            o->s->full);
}

/* The arguments that a key lists, as bits. */
static unsigned long mask_of(const op *o, const char *key, char **v) {
    unsigned long mask = 0;
    for (; v && *v; v++) {
        const int i = find_arg(o->s, *v);
        if (i < 0) die(o->e->file, o->e->line, "%s: '%s' names '%s', which is no argument", o->s->full, key, *v);
        mask |= 1ul << i;
    }
    return mask;
}

/* Its kernels look at no elements, or call what does. A view hands on what is pending. */
bool takes_pending(const op *o) {
    const fac_schema_type *r = o->s->n_rets ? &o->s->rets[0].type : NULL;
    if (o->e->composite) return false;
    return lists(o->e->conjugated, "any") || (r && r->alias && !r->write);
}

static void check_forward(const op *o) {
    const entry *e = o->e;
    if (e->forward && !e->grad.n)
        die(e->file, e->line, "%s: 'forward' says how a tangent passes where there is no gradient", o->s->full);
}

/* "self + mat1 * mat2" with the numbers of the arguments: "0+1*2". */
static const char *products_of(const op *o) {
    const entry *e = o->e;
    char *text = "";
    for (const char *p = e->forward; *p;) {
        const size_t n = strcspn(p, " +*");
        const char *name = xformat("%.*s", (int)n, p);
        const int i = n ? find_arg(o->s, name) : -1;
        if (n && (i < 0 || !gradient_of(o, name)))
            die(e->file, e->line, "%s: 'forward' names '%s', which has no gradient", o->s->full, name);
        if (n) text = xformat("%s%d", text, i);
        if (!n && *p != ' ') text = xformat("%s%c", text, *p);
        p += n ? n : 1;
    }
    return text;
}

/* How a tangent goes through: "0+1*2", what an entry says with the numbers of its arguments; "." of a pointwise operator, whose
   gradient is its own tangent where everything has one size; "^", NULL: by its gradient's gradient. */
static const char *forward_of(const op *o) {
    const entry *e = o->e;
    if (e->forward) return strcmp(e->forward, "ones") == 0 ? "^" : products_of(o);
    if (e->view && o->form == FORM_FUNCTION) return "0";
    return is_pointwise(e) && o->s->n_rets == 1 ? "." : NULL;
}

static void check_autocast(const op *o) {
    const entry *e = o->e;
    for (size_t i = 0; i < e->autocast.n; i++)
        if (strcmp(e->autocast.v[i].value, "f32_dtype") == 0 && find_arg(o->s, "dtype") < 0)
            die(e->file, e->autocast.v[i].line, "%s: autocast 'f32_dtype' is for operators with an argument dtype",
                o->s->full);
    const bool casts = e->autocast.n && strcmp(e->autocast.v[0].value, "none") != 0;
    if (casts && o->form == FORM_FUNCTION && writes(o))
        die(e->file, e->line, "%s: autocast is for operators that write none of their arguments", o->s->full);
}

void check_facts(const model *m) {
    for (size_t i = 0; i < m->ops.n; i++) {
        const op *o = &m->ops.v[i];
        check_functional(o);
        check_combines(o);
        check_random(o);
        check_forward(o);
        check_autocast(o);
        mask_of(o, "updates", o->e->updates);
        mask_of(o, "shares", o->e->shares);
        if (!takes_pending(o)) mask_of(o, "conjugated", o->e->conjugated);
    }
}

/* A form into an out copies. */
static void emit_shares(FILE *f, const op *o) {
    if (o->e->shares && o->form != FORM_OUT) fprintf(f, ".shares = %lu, ", mask_of(o, "shares", o->e->shares));
}

/* What autocast does before a call, on the CPU and on CUDA; of the form that writes nothing alone, as in PyTorch: the others
   of a composite call that one, which then casts nothing either. */
static void emit_autocast(FILE *f, const op *o) {
    const pairs *p = &o->e->autocast;
    if (!p->n) return;
    fputs(".autocast = ", f);
    for (size_t i = 0; i < p->n; i++)
        fprintf(f, "%sFAC_CASTS_%s << %d", i ? " | " : "", o->form == FORM_FUNCTION ? upper(p->v[i].value) : "NONE",
                strcmp(p->v[i].key, "CUDA") == 0 ? 4 : 0);
    fputs(", ", f);
}

void emit_facts(FILE *f, const op *o) {
    const entry *e = o->e;
    const op *functional = functional_of(o);
    const char *how = e->composite ? "as_parts" : combines(o->m, e);
    fputs("{", f);
    if (functional) fprintf(f, ".functional = &fac_op_%s, ", functional->id);
    if (fills(o)) fputs(".fills = true, ", f);
    if (e->updates) fprintf(f, ".updates = %lu, ", mask_of(o, "updates", e->updates));
    emit_shares(f, o);
    if (e->conjugated && !takes_pending(o)) fprintf(f, ".conjugated = %lu, ", mask_of(o, "conjugated", e->conjugated));
    if (e->random) fputs(".offsets = 1, ", f);
    if (e->data_dependent) fputs(".data_dependent = true, ", f);
    emit_batch(f, o);
    emit_autocast(f, o);
    fprintf(f, ".combines = FAC_COMBINES_%s, .gradient = ", upper(how));
    const char *gradient = gradient_source(o), *forward = o->grad ? forward_of(o) : NULL;
    quoted(f, gradient ? gradient : "none: no argument has one");
    if (forward) fprintf(f, ", .forward = \"%s\"", forward);
    fputs("}", f);
}
