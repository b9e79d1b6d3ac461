/* How an operator is called for a batch of samples (vmap): what `batch` says, or what follows from the entry. The
   kinds are those of src/dispatch/batch_kinds.h; after the word stand the names of arguments, numbers, or an operator
   that the kind is told of. */
#include "dispatch/batch_kinds.h"
#include "opgen.h"
#include <ctype.h>
#include <stdlib.h>

static const char *const kind_words[FAC_BATCH_COUNT] = {
#define FAC_BATCH_KIND(id, word) [FAC_BATCH_##id] = word,
    FAC_BATCH_KINDS(FAC_BATCH_KIND)
#undef FAC_BATCH_KIND
};
static const char *const ids[FAC_BATCH_COUNT] = {
#define FAC_BATCH_KIND(id, word) [FAC_BATCH_##id] = #id,
    FAC_BATCH_KINDS(FAC_BATCH_KIND)
#undef FAC_BATCH_KIND
};

/* What a kind is told. */
typedef struct told {
    int kind;
    unsigned long args, ranks;
    const op *with;
} told;

/* Follows from what the entry says anyway. A form without a loop of its own is made of the functional one, as outs
   are. */
static int inferred(const op *o) {
    const entry *e = o->e;
    if (o->form == FORM_OUT) return FAC_BATCH_OUT;
    if (e->composite) return FAC_BATCH_PARTS;
    if (is_pointwise(e)) return FAC_BATCH_POINTWISE;
    if (o->form == FORM_INPLACE) return FAC_BATCH_INPLACE;
    if (e->data_dependent) return FAC_BATCH_REFUSED;
    return FAC_BATCH_LOOP;
}

static int kind_of(const op *o, const char *word) {
    for (int k = 0; k < FAC_BATCH_COUNT; k++)
        if (strcmp(kind_words[k], word) == 0 && (k == FAC_BATCH_LOOP || k > FAC_BATCH_INPLACE)) return k;
    die(o->e->file, o->e->line, "%s: '%s' is no kind of 'batch'", o->s->full, word);
    return FAC_BATCH_LOOP;
}

static void take_word(const op *o, const char *word, int *n_ranks, told *t) {
    const int arg = find_arg(o->s, word);
    if (isdigit((unsigned char)*word))
        t->ranks |= strtoul(word, NULL, 10) << 4 * (*n_ranks)++;
    else if (arg >= 0)
        t->args |= 1ul << arg;
    else if (!(t->with = FIND(o->m->ops, short_name, word)))
        die(o->e->file, o->e->line, "%s: 'batch' names '%s', which is neither an argument nor an operator", o->s->full,
            word);
}

static told told_of(const op *o) {
    told t = {.kind = inferred(o)};
    const bool by_form = o->form == FORM_OUT || (o->form == FORM_INPLACE && !is_pointwise(o->e));
    if (!o->e->batch || by_form) return t;
    int n_ranks = 0;
    bool first = true;
    for (const char *p = o->e->batch; *(p += strspn(p, " ,"));) {
        const size_t n = strcspn(p, " ,");
        const char *word = xformat("%.*s", (int)n, p);
        if (first)
            t.kind = kind_of(o, word);
        else
            take_word(o, word, &n_ranks, &t);
        first = false;
        p += n;
    }
    return t;
}

void check_batch(const model *m) {
    for (size_t i = 0; i < m->ops.n; i++) {
        const op *o = &m->ops.v[i];
        if (o->e->batch && o->e->composite)
            die(o->e->file, o->e->line, "%s is composite: its parts have their own 'batch'", o->s->full);
        told_of(o);
    }
}

void emit_batch(FILE *f, const op *o) {
    const told t = told_of(o);
    if (t.kind != FAC_BATCH_LOOP) fprintf(f, ".batch = FAC_BATCH_%s, ", ids[t.kind]);
    if (t.args) fprintf(f, ".batch_args = %lu, ", t.args);
    if (t.ranks) fprintf(f, ".batch_ranks = %lu, ", t.ranks);
    if (t.with) fprintf(f, ".batch_op = &fac_op_%s, ", t.with->id);
}
