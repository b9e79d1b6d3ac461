/* Registered kernels that follow from an entry: structured wrappers, forms that reuse the functional one, version bumps
   and view records, and the rows that register them all: what writes a kernel adds its row. */
#include "opgen.h"

static void add_row(rows *k, const char *key, const char *fn) { PUSH(*k, ((row){key, fn})); }

/* given_: the tensors that an in-place or out form writes. */
static void emit_given(FILE *f, const op *o) {
    if (o->form != FORM_FUNCTION)
        fprintf(f, "    fac_tensor *const given_[] = {%s};\n",
                each(o, o->form == FORM_OUT ? is_out : is_written, ", ", "$a"));
}

static size_t n_tensors(const op *o) {
    size_t n = 0;
    for (size_t i = 0; i < o->s->n_args; i++) n += is_tensor(&o->s->args[i].type);
    return n;
}

static void emit_device_check(FILE *f, const op *o) {
    if (is_pointwise(o->e) || o->e->device_check || n_tensors(o) < 2) return;
    fprintf(f,
            "    static const char *const names_[] = {%s};\n    fac_tensor *const tensors_[] = {%s};\n"
            "    FAC_TRY(fac__check_same_device(names_, tensors_, %zu));\n",
            each_kind(o, NULL, "", NULL, "\"$a\", ", NULL), each_kind(o, NULL, "", NULL, "$a, ", NULL), n_tensors(o));
}

/* reads_: the tensors that a call reads, self of an in-place form among them. Returns their number. */
static size_t emit_reads(FILE *f, const op *o) {
    const char *list = each_kind(o->functional, NULL, ", ", NULL, "$a", NULL);
    fprintf(f, "    fac_tensor *const reads_[] = {%s};\n", *list ? list : "NULL");
    return n_tensors(o->functional);
}

/* The check between meta and kernel: outputs against each other and against every tensor that is read. */
static void emit_check(FILE *f, const op *o) {
    if (o->form == FORM_FUNCTION) return;
    const size_t n = emit_reads(f, o);
    fprintf(f, "    if (FAC_LIKELY(!st_)) st_ = fac__structured_check(&s_, reads_, %zu);\n%s", n,
            each_kind(o->functional, NULL, "",
                      "    if (FAC_LIKELY(!st_)) st_ = fac__structured_check(&s_, $a.v, $a.n);\n", NULL, NULL));
}

bool is_generator(const op *o, size_t i) { return o->s->args[i].type.kind == FAC_TYPE_GENERATOR; }

/* What the kernel is to draw is taken before it starts. */
static void emit_draw(FILE *f, const op *o) {
    const char *generator = each(o, is_generator, "", "$a");
    fprintf(f, "    fac_draw drawn_;\n    if (FAC_LIKELY(!st_)) st_ = fac__draw(%s, %s, &drawn_);\n",
            *generator ? generator : "NULL", o->e->random);
}

/* Around a kernel that is registered as it is but for what it draws. */
static void emit_drawing(FILE *f, const op *o, const pair *kernel, rows *k) {
    emit(f, o, "static fac_status $id_%s(const fac_call_info *c_$,params) {\n    fac_status st_ = FAC_OK;\n",
         kernel->key);
    emit_draw(f, o);
    fprintf(f, "    return FAC_LIKELY(!st_) ? %s(%s) : st_;\n}\n", kernel->value,
            with_draw(o, fill(o, "c_$,args"), "drawn_"));
    add_row(k, kernel->key, xformat("$id_%s", kernel->key));
}

static void emit_structured(FILE *f, const op *o, const char *key, const char *kernel, rows *k) {
    static const char *const forms[] = {"FAC_FUNCTIONAL", "FAC_INPLACE", "FAC_OUT"};
    const bool meta_only = strcmp(key, "Meta") == 0;
    emit(f, o, "static fac_status $id_%s(const fac_call_info *c_$,params) {\n", key);
    emit_device_check(f, o);
    emit_given(f, o);
    emit(f, o,
         "    fac_structured s_;\n    fac__structured_begin(&s_, c_, %s, $rets, %s);\n"
         "%s    fac_status st_ = %s_meta(&s_$,inner);\n",
         forms[o->form], o->form == FORM_FUNCTION ? "NULL" : "given_", meta_only ? "    s_.meta_only = true;\n" : "",
         o->e->meta);
    emit_check(f, o);
    if (kernel && o->e->random) emit_draw(f, o);
    if (kernel)
        fprintf(f, "    if (FAC_LIKELY(!st_)) st_ = %s(%s);\n", kernel, with_draw(o, fill(o, "&s_$,inner"), "drawn_"));
    else if (!meta_only)
        emit_loop_call(f, o);
    fputs("    return fac__structured_end(&s_, st_, res_);\n}\n", f);
    add_row(k, key, xformat("$id_%s", key));
}

/* Makes an in-place form compute from before_, which the graph may keep while self is overwritten. */
static void emit_before(FILE *f, const op *o) {
    const size_t n = emit_reads(f, o);
    emit(f, o,
         "    fac_tensor *before_ = NULL;\n    FAC_TRY(fac__before_change(reads_, %zu, &before_));\n"
         "    $self = before_;\n",
         n);
}

/* An out argument may be an input of the operator, but not a part of one, nor in a list of them. */
static void emit_out_overlap(FILE *f, const op *o) {
    const size_t n = emit_reads(f, o);
    emit(
        f, o, "    FAC_TRY(fac__check_out_overlap(given_, $outs, reads_, %zu, true));\n%s", n,
        each_kind(o, NULL, "", "    FAC_TRY(fac__check_out_overlap(given_, $outs, $a.v, $a.n, false));\n", NULL, NULL));
}

/* What a form is refused for before anything is computed: the operators it is made of would see it too late. */
static void emit_refused(FILE *f, const op *o) {
    if (o->form == FORM_OUT) emit_out_overlap(f, o);
    if (!o->e->composite) return;
    fprintf(f, "    const bool recorded_ = %s;\n", any_requires_grad(o, is_input));
    emit(f, o,
         o->form == FORM_INPLACE ? "    FAC_TRY(fac__check_inplace($self, recorded_));\n"
                                 : "    FAC_TRY(fac__check_out_form(given_, $outs, recorded_));\n");
}

/* Another name calls the same form of the operator. */
static void emit_alias(FILE *f, const op *o, const char *function, rows *k) {
    const op *other = aliased(o);
    emit(f, o, "%sfac_status %s(const fac_call_info *c_$,params) {\n    (void)c_;\n    return fac__c_%s($args);\n}\n",
         o->form == FORM_FUNCTION ? "" : "static ", function, other->id);
    add_row(k, "CatchAll", function);
}

/* What the functional form is called with: a factory's out form makes what fits the tensor that it fills. */
static char *borrowed_args(const op *o) {
    static const char *const made[][2] = {{"dtype", "(fac_dtype)given_[0]->dtype"},
                                          {"layout", "FAC_STRIDED"},
                                          {"device", "given_[0]->device"},
                                          {"pin_memory", "(fac_opt_num){0}"}};
    if (!is_factory_out(o)) return fill(o, "$inner");
    char *list = "";
    for (size_t i = 0; i < o->functional->s->n_args; i++) {
        const char *text = o->functional->s->args[i].name;
        for (size_t k = 0; k < FAC_COUNT(made); k++)
            if (strcmp(text, made[k][0]) == 0) text = made[k][1];
        list = joined(list, ", ", text);
    }
    return list;
}

/* An in-place or out form in terms of the functional operator. */
static void emit_borrowed(FILE *f, const op *o, rows *k) {
    if (o->e->alias) {
        emit_alias(f, o, fill(o, "$id_alias"), k);
        return;
    }
    emit(f, o, "static fac_status $id_borrowed(const fac_call_info *c_$,params) {\n    (void)c_;\n");
    emit_given(f, o);
    emit_refused(f, o);
    emit(f, o, "    fac_tensor *made_[$rets] = {NULL};\n");
    bool recorded = o->form == FORM_INPLACE && o->e->composite;
    if (recorded) emit_before(f, o);
    fprintf(f, "    fac_status st_ = fac__c_%s(%s);\n", o->functional->id, listed(borrowed_args(o), "made_"));
    if (recorded) fputs("    fac__unref(before_);\n", f);
    emit(f, o,
         o->form == FORM_INPLACE ? "    if (!st_) st_ = fac__copy_over(given_[0], made_[0]);\n"
                                 : "    if (!st_) st_ = fac__copy_to_outs(given_, made_, $rets);\n");
    emit(f, o,
         "    fac__drop_grads(made_, FAC_COUNT(made_));\n    if (st_) return st_;\n"
         "    for (int i_ = 0; i_ < $rets; i_++) res_[i_] = fac__ref(given_[i_]);\n    return FAC_OK;\n}\n");
    add_row(k, o->e->composite ? "CatchAll" : "CompositeExplicit", "$id_borrowed");
}

bool writes(const op *o) { return *each(o, is_written, "", "$a"); }

/* In-place-only operators written for the CPU have nothing to do on the meta device. */
static bool wants_noop_meta(const op *o) {
    if (!o->e->raw.n || !writes(o) || o->form != FORM_FUNCTION || o->e->explicit) return false;
    return (o->s->n_rets == 0 || o->in_place) && FIND(o->e->raw, key, "CPU") && !FIND(o->e->raw, key, "Meta");
}

static bool is_not_self(const op *o, size_t i) { return (void)o, i > 0; }

static void emit_view_record(FILE *f, const op *o) {
    const size_t n = o->s->n_args - 1;
    const char *how = strcmp(o->e->view, "multi") == 0 ? "FAC_VIEW_MULTI_OUTPUT" : "FAC_VIEW_DEFAULT",
               *rest = xformat("%s, &fac_op_%s, %s, %zu", how, o->id, n ? "args_" : "NULL", n);
    if (n)
        fprintf(f, "    fac_value args_[] = {%s};\n    st_ = th_->error; /* of a list without memory */\n",
                each(o, is_not_self, ", ", "$boxed"));
    if (returns_list(o))
        emit(f, o,
             "    for (size_t i_ = 0; i_ < res_->n && !st_; i_++)\n"
             "        st_ = fac__view_record(th_, $self, res_->v[i_], %s);\n",
             rest);
    else
        emit(f, o, "    %sst_ = fac__view_record(th_, $self, res_[0], %s);\n", n ? "if (FAC_LIKELY(!st_)) " : "", rest);
    if (n) fprintf(f, "    for (int i_ = 0; i_ < %zu; i_++) fac_value_release(&args_[i_]);\n", n);
    fputs(returns_list(o) ? "    if (st_) fac__tensor_list_free(res_);\n"
                          : "    if (st_) {\n        fac__unref(res_[0]);\n        res_[0] = NULL;\n    }\n",
          f);
}

/* The ADInplaceOrView kernel: tracks views, bumps versions. What is written has a version counter before it is written, so that
   counting on cannot fail. */
static void emit_adiv(FILE *f, const op *o, rows *k) {
    const bool views = o->e->view && o->form == FORM_FUNCTION;
    emit(f, o,
         "static %sfac_status $id_adiv(const fac_call_info *c_$,params) {\n    fac_thread *th_ = fac__thread();\n%s",
         o->form == FORM_OUT ? "FAC_SMALL " : "",
         each_kind(o, is_written, "",
                   "    for (size_t i_ = 0; i_ < $a.n; i_++) FAC_TRY(fac__version_make($a.v[i_]));\n",
                   "    ${ifgiven}FAC_TRY(fac__version_make($a));\n", NULL));
    emit(f, o,
         "    fac_keyset was_ = th_->exclude;\n    th_->exclude = was_ | FAC_KS_AUTOGRAD | FAC_KS_ADINPLACEORVIEW;\n"
         "    fac_status st_ = fac__redispatch_$id(c_->keys & fac__below(FAC_KEY_AD_INPLACE_OR_VIEW)$,args);\n"
         "    th_->exclude = was_;\n    if (FAC_UNLIKELY(st_)) return st_;\n");
    if (views) emit_view_record(f, o);
    emit_each(f, o, is_written, "    for (size_t i_ = 0; i_ < $a.n && !st_; i_++) st_ = fac__bump_version($a.v[i_]);\n",
              "    if (!st_$andgiven) st_ = fac__bump_version($a);\n", NULL);
    if (!views && returns_tensors(o)) emit(f, o, "    if (FAC_UNLIKELY(st_)) fac__drop_grads(res_, $rets);\n");
    fputs("    return st_;\n}\n", f);
    add_row(k, "ADInplaceOrView", "$id_adiv");
}

static bool has_adiv(const op *o) {
    if (o->e->composite) return false;
    return (o->e->view && o->form == FORM_FUNCTION) || writes(o);
}

/* The first key with the same kernel as key i: structured forms do not look at the key, so one serves all. */
static const char *key_of_form(const pairs *kernels, size_t i) {
    for (size_t j = 0; j < i; j++)
        if (strcmp(kernels->v[j].value, kernels->v[i].value) == 0) return kernels->v[j].key;
    return kernels->v[i].key;
}

static bool is_not_written(const op *o, size_t i) { return !is_written(o, i); }

/* What is written has to be on the meta device, where there is nothing to write. */
static void emit_noop_meta(FILE *f, const op *o, rows *k) {
    emit(f, o, "static fac_status $id_Meta(const fac_call_info *c_$,params) {\n    (void)c_;\n");
    emit_each(f, o, is_written, "    for (size_t i_ = 0; i_ < $a.n; i_++) FAC_TRY(fac__need_meta(\"$a\", $a.v[i_]));\n",
              "    ${ifgiven}FAC_TRY(fac__need_meta(\"$a\", $a));\n", NULL);
    emit_each(f, o, is_not_written, "    (void)$a;\n", "    (void)$a;\n", "    (void)$a;\n");
    emit(f, o, o->s->n_rets ? "    res_[0] = fac__ref($self);\n    return FAC_OK;\n}\n" : "    return FAC_OK;\n}\n");
    add_row(k, "Meta", "$id_Meta");
}

static void emit_structured_forms(FILE *f, const op *o, rows *k) {
    const pairs *v = &o->e->kernels;
    if (is_pointwise(o->e)) emit_structured(f, o, "Pointwise", o->e->kernel, k);
    for (size_t i = 0; i < v->n; i++)
        if (key_of_form(v, i) == v->v[i].key)
            emit_structured(f, o, v->v[i].key, v->v[i].value, k);
        else
            add_row(k, v->v[i].key, xformat("$id_%s", key_of_form(v, i)));
    emit_structured(f, o, "Meta", NULL, k);
}

/* Those that an entry names. */
static void emit_own(FILE *f, const op *o, rows *k) {
    const entry *e = o->e;
    if (e->foreach) emit_foreach(f, o);
    if (e->alias)
        emit_alias(f, o, e->composite, k);
    else if (e->composite)
        add_row(k, "CatchAll", e->composite);
    if (e->written) emit_functionalised(f, o);
    if (e->explicit) add_row(k, "CompositeExplicit", e->explicit);
    EACH_ITEM(const pair, p, e->raw)
        if (e->random && strcmp(p->key, "Meta") != 0)
            emit_drawing(f, o, p, k);
        else
            add_row(k, p->key, p->value);
    if (wants_noop_meta(o)) emit_noop_meta(f, o, k);
}

rows emit_kernels(FILE *f, const op *o) {
    rows k = {0};
    if (o->e->meta)
        emit_structured_forms(f, o, &k);
    else if (o->form == FORM_FUNCTION)
        emit_own(f, o, &k);
    else if (o->e->foreach)
        add_row(&k, "CatchAll", emit_foreach(f, o));
    else
        emit_borrowed(f, o, &k);
    for (size_t i = 0; o->form == FORM_FUNCTION && i < o->e->layouts.n; i++)
        add_row(&k, o->e->layouts.v[i].key, o->e->layouts.v[i].value);
    if (has_adiv(o)) emit_adiv(f, o, &k);
    return k;
}

/* Which kind of tensor a key is of that a small library may not have; NULL: none. */
static const char *kind_of(const char *key) {
    if (strncmp(key, "Sparse", 6) == 0) return "SPARSE";
    if (strncmp(key, "Vendor", 6) == 0) return "VENDOR";
    return strcmp(key, "Nested") == 0 ? "NESTED" : NULL;
}

void emit_rows(FILE *f, const op *o, const rows *k) {
    const entry *e = o->e;
    emit(f, o, "extern const char *const fac__tags_$id[];\nconst char *const fac__tags_$id[] = {");
    for (char **t = e->tags; t && *t; t++) fprintf(f, "\"%s\", ", *t);
    emit(f, o,
         "NULL};\nextern const fac_builtin_kernel fac__kernels_$id[];\n"
         "const fac_builtin_kernel fac__kernels_$id[] = {\n");
    for (size_t i = 0; i < k->n; i++) {
        const char *kind = kind_of(k->v[i].key);
        if (kind) fprintf(f, "#if FAC_HAVE_%s\n", kind);
        fprintf(f, "    {\"%s\", (fac_fn)%s},\n%s", k->v[i].key, fill(o, k->v[i].fn), kind ? "#endif\n" : "");
    }
    if (!e->composite)
        emit(f, o,
             e->nondifferentiable && !writes(o) ? "    {\"Autograd\", (fac_fn)NULL},\n"
                                                : "    {\"Autograd\", (fac_fn)$id_autograd},\n");
    if (takes_pending(o)) fputs("    {\"Conjugate\", (fac_fn)NULL},\n", f);
    fputs("    {NULL, NULL},\n};\n", f);
}
