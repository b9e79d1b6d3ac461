/* Operators over lists, such as _foreach_add.List: what another operator, `foreach: add.Tensor`, does of one tensor is done of
   every entry. They are composites, and gradients are those of the calls. What all lists have in common is in src/ops/foreach.h. */
#include "opgen.h"

void settle_foreach(entry *e) {
    if (!e->foreach) return;
    const size_t under = e->op[0] == '_', n = strcspn(e->op, "(");
    char *name = xformat("%.*s_each", (int)(n - under), e->op + under);
    for (char *p = name; *p; p++) *p = *p == '.' ? '_' : *p;
    e->composite = name;
    e->internal = true;
    if (!e->doc)
        e->doc = xformat("%s of every entry of the list, or of the entries at one place of several lists.", e->foreach);
    if (!e->errors)
        e->errors = xformat("ARGUMENT if the list is empty or another has not as many entries; as %s", e->foreach);
    if (!e->source) e->source = xformat("torch.%.*s", (int)strcspn(e->op, ".("), e->op);
}

static bool is_list_of(const fac_schema_arg *a, fac_type_kind kind) { return a->type.list && a->type.kind == kind; }

/* The argument that stands for argument i of the part: that of its name, else the one at its place, if it has no other. */
static const fac_schema_arg *stand_in(const op *o, const op *part, size_t i) {
    const int named = find_arg(o->s, part->s->args[i].name);
    if (named >= 0) return &o->s->args[named];
    const bool free = i < o->s->n_args && find_arg(part->s, o->s->args[i].name) < 0;
    return free ? &o->s->args[i] : NULL;
}

/* The arguments of a call for entry i_. */
static char *part_args(const op *o, const op *part) {
    char *made = "";
    for (size_t i = 0; i < part->s->n_args; i++) {
        const fac_schema_arg *a = stand_in(o, part, i), *own = &part->s->args[i];
        if (!a && !own->default_text)
            die(o->e->file, o->e->line, "%s: nothing stands for '%s' of %s", o->s->full, own->name, part->s->full);
        const bool each = a && a->type.list && !own->type.list;
        made = listed(made, !a ? default_c(part, own) : each ? xformat("%s.v[i_]", a->name) : a->name);
    }
    return made;
}

/* The operator that an entry is given to; NULL if it has no form in place. */
static const op *part_of(const op *o, bool in_place) {
    const op *part = FIND(o->m->ops, short_name, o->e->foreach);
    if (!in_place || part->in_place) return part;
    return find_op(o->m, xformat("%s_", part->s->name), part->s->overload);
}

/* The operator whose loop it is, whichever form that has. */
static const op *loop_part(const op *o) {
    const op *part = part_of(o, writes(o));
    return part ? part : part_of(o, false);
}

static const char *first_list(const op *o) {
    for (size_t i = 0; i < o->s->n_args; i++)
        if (is_list_of(&o->s->args[i], FAC_TYPE_TENSOR)) return o->s->args[i].name;
    die(o->e->file, o->e->line, "%s: 'foreach' needs a list of tensors", o->s->full);
    return NULL;
}

/* lists_: the tensors, of which one alone is a list of one; numbers_: the list of numbers. */
static void emit_lists(FILE *f, const op *o) {
    const char *numbers = "(fac_scalars){0}";
    for (size_t i = 0; i < o->s->n_args; i++)
        if (is_list_of(&o->s->args[i], FAC_TYPE_SCALAR)) numbers = o->s->args[i].name;
    fprintf(f,
            "    (void)c_;\n    const fac_foreach each_ = {.lists = {%s}, .n = %zu, .single = %s, .numbers = %s};\n"
            "    FAC_TRY(fac__foreach_check(&each_));\n",
            each_kind(o, NULL, ", ", "$a", NULL, NULL), strlen(each_kind(o, NULL, "", ".", NULL, NULL)),
            *each_kind(o, NULL, "", NULL, "$a", NULL) ? each_kind(o, NULL, "", NULL, "$a", NULL) : "NULL", numbers);
}

/* Of a part that runs a loop, without a list of numbers: the loop may serve all entries at once. */
static bool may_be_one_loop(const op *o, const op *part) {
    for (size_t i = 0; i < o->s->n_args; i++)
        if (is_list_of(&o->s->args[i], FAC_TYPE_SCALAR)) return false;
    return part && is_pointwise(part->e) && part->s->n_rets == 1;
}

/* X_plan: asks which loop the part would run. Its shape rule has checked the first entry, and made its result. */
static void emit_plan(FILE *f, const op *o, const op *part) {
    const entry *e = part->e;
    emit(f, o, "static fac_status $id_plan(const fac_call_info *c_, fac_pointwise_list *l_, %s) {\n",
         fill(part, "$inputs"));
    if (writes(o)) fprintf(f, "    fac_tensor *const given_[] = {%s};\n", part->s->args[0].name);
    fprintf(f,
            "    fac_structured s_;\n    fac__structured_begin(&s_, c_, %s, 1, %s);\n    s_.plan = &l_->plan;\n"
            "    fac_status st_ = %s_meta(&s_, %s);\n    l_->flat = !st_ && s_.iter.flat;\n"
            "    s_.iter.flat = false; /* a loop that runs on the spot would not be asked for */\n",
            writes(o) ? "FAC_INPLACE" : "FAC_FUNCTIONAL", writes(o) ? "given_" : "NULL", e->meta,
            fill(part, "$passed"));
    if (e->kernel)
        fprintf(f, "    if (!st_) st_ = %s(&s_, %s);\n", e->kernel, fill(part, "$passed"));
    else
        emit_loop_call(f, part);
    fputs("    l_->iter = s_.iter;\n    return fac__structured_end(&s_, st_, &l_->first);\n}\n", f);
}

static void emit_one_loop(FILE *f, const op *o, const op *part) {
    if (!may_be_one_loop(o, part)) return;
    emit(
        f, o,
        "    if (fac__foreach_is_flat(&each_, &fac_op_%s)) {\n        const size_t i_ = 0;\n        fac_pointwise_list l_;\n"
        "        fac_status st_ = $id_plan(c_, &l_, %s);\n"
        "        if (st_ || fac__pointwise_list(&l_, &each_, %s, &st_)) return st_;\n    }\n",
        part->id, part_args(o, part), writes(o) ? "NULL" : "res_");
}

static void emit_functional(FILE *f, const op *o) {
    const op *part = part_of(o, false);
    emit_lists(f, o);
    emit_one_loop(f, o, part);
    fprintf(f,
            "    FAC_TRY(fac__foreach_begin(&each_, res_));\n    fac_status st_ = FAC_OK;\n"
            "    for (size_t i_ = 0; i_ < %s.n && !st_; i_++) st_ = fac__c_%s(%s, &res_->v[i_]);\n"
            "    return fac__foreach_end(res_, st_);\n}\n",
            first_list(o), part->id, part_args(o, part));
}

/* One entry after the other, by the part's own form in place. */
static void emit_each_entry(FILE *f, const op *o, const op *part) {
    fprintf(f,
            "        fac_tensor *same_ = NULL;\n        for (size_t i_ = 0; i_ < %s.n; i_++) {\n"
            "            FAC_TRY(fac__c_%s(%s, &same_));\n            fac__unref(same_);\n        }\n"
            "        return FAC_OK;\n",
            o->s->args[0].name, part->id, part_args(o, part));
}

/* The operator that gives what o writes: of its entry, or of its name without the underscore. */
static const op *functional_twin(const op *o) {
    const char *name = o->s->name;
    return o->functional ? o->functional : find_op(o->m, cut(name, name + strlen(name) - 1), o->s->overload);
}

static void emit_aside(FILE *f, const op *o, const op *twin) {
    emit(f, o,
         "    fac_tensor_list before_ = {0}, made_ = {0}, *res_ = &made_;\n"
         "    fac_status st_ = fac__foreach_before(&each_, &before_);\n    if (!st_) {\n"
         "        $self = (fac_tensors){before_.v, before_.n};\n        st_ = fac__c_%s($inner, res_);\n    }\n"
         "    return fac__foreach_over(&each_, &before_, &made_, st_);\n",
         twin->id);
}

/* Entries that cannot fail are written where they lie, others aside first, as what is made of several operators is. What has no functional
   form cannot fail. */
static void emit_in_place(FILE *f, const op *o) {
    const op *part = part_of(o, true), *twin = functional_twin(o);
    emit_lists(f, o);
    fputs("    FAC_TRY(fac__foreach_check_written(&each_));\n", f);
    if (!twin || !part || !part->e->composite) {
        fprintf(f, "    %s{\n", twin ? "if (fac__foreach_is_plain(&each_)) " : "");
        emit_one_loop(f, o, loop_part(o));
        if (part) emit_each_entry(f, o, part);
        fputs("    }\n", f);
    }
    if (twin) emit_aside(f, o, twin);
    fputs("}\n", f);
}

char *emit_foreach(FILE *f, const op *o) {
    char *name = o->form == FORM_FUNCTION ? o->e->composite : xformat("%s_", o->e->composite);
    const op *part = loop_part(o);
    if (may_be_one_loop(o, part)) emit_plan(f, o, part);
    emit(f, o, "%sfac_status %s(const fac_call_info *c_$,params) {\n", o->form == FORM_FUNCTION ? "" : "static ", name);
    (writes(o) ? emit_in_place : emit_functional)(f, o);
    return name;
}
