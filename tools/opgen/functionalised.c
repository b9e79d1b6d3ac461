/* Functional forms of operators that write lists of tensors in place: `functional: made` on _fused_adam_ makes
   _fused_adam, which copies what the other writes, and calls it with the copies. Its results are these, one
   list for each that is written, in order. */
#include "opgen.h"
#include <ctype.h>

/* "Tensor(a!)[] self" as "Tensor[] self", up to the arrow. */
static char *without_marks(const char *from, const char *end) {
    char *made = xalloc((size_t)(end - from) + 1), *to = made;
    while (from < end) {
        const bool mark = from[0] == '(' && islower((unsigned char)from[1]) && from[2] == '!' && from[3] == ')';
        if (mark)
            from += 4;
        else
            *to++ = *from++;
    }
    return made;
}

static char *functional_text(const entry *e, const fac_schema *s) {
    const char *under = strstr(e->op, "_("), *arrow = strstr(e->op, " -> ");
    const char *dot = strstr(e->op, "_."), *end = dot && (!under || dot < under) ? dot : under;
    if (!end || !arrow || s->n_rets)
        die(e->file, e->line, "%s: 'functional: made' needs a form in place without results", s->full);
    char *results = "";
    for (size_t i = 0; i < s->n_args; i++)
        if (s->args[i].type.write)
            results = listed(results, xformat("Tensor%s %s_out", s->args[i].type.list ? "[]" : "", s->args[i].name));
    return xformat("%.*s%s -> (%s)", (int)(end - e->op), e->op, without_marks(end + 1, arrow), results);
}

static entry functionalised(const entry *e) {
    fac_schema *s;
    if (fac__schema_parse(e->op, &s) != FAC_OK) die(e->file, e->line, "%s", fac_error_message());
    entry made = *e;
    made.op = functional_text(e, s);
    made.raw = made.kernels = (pairs){0};
    made.written = s->full + strlen(s->ns) + 2;
    made.explicit = xformat("%s_made", s->full + strlen(s->ns) + 2);
    for (char *p = made.explicit; *p; p++) *p = *p == '.' ? '_' : *p;
    made.functional = NULL;
    made.doc = xformat("As %s, but into new tensors.", made.written);
    return made;
}

void add_functionalised(model *m) {
    const size_t n = m->entries.n;
    for (size_t i = 0; i < n; i++) {
        const entry *e = &m->entries.v[i];
        if (!e->functional || strcmp(e->functional, "made") != 0) continue;
        const entry made = functionalised(e);
        PUSH(m->entries, made);
    }
}

static const op *written_of(const op *o) { return FIND(o->m->ops, short_name, o->e->written); }

void emit_functionalised(FILE *f, const op *o) {
    const op *in_place = written_of(o);
    char *copies = "", *list = "";
    size_t result = 0;
    for (size_t i = 0; i < o->s->n_args; i++) {
        const char *name = o->s->args[i].name;
        if (!in_place->s->args[i].type.write) {
            list = listed(list, name);
            continue;
        }
        copies = xformat("%s    if (!st_) st_ = fac__copy_list(%s, &res_[%zu]);\n", copies, name, result);
        list = listed(list, xformat("(fac_tensors){res_[%zu].v, res_[%zu].n}", result, result));
        result++;
    }
    emit(f, o,
         "fac_status %s(const fac_call_info *c_$,params) {\n    (void)c_;\n    fac_thread *th_ = fac__thread();\n"
         "    const fac_keyset was_ = th_->exclude;\n    fac_status st_ = FAC_OK;\n"
         "    th_->exclude = was_ | FAC_KS_AUTOGRAD | FAC_KS_ADINPLACEORVIEW;\n%s"
         "    if (!st_) st_ = fac__c_%s(%s);\n    th_->exclude = was_;\n"
         "    for (int i_ = 0; i_ < $rets && st_; i_++) fac__tensor_list_free(&res_[i_]);\n    return st_;\n}\n",
         o->e->explicit, copies, in_place->id, list);
}
