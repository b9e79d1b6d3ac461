/* Registered kernels that follow from an entry: structured wrappers, forms that reuse the functional one, version bumps
   and view records, and the rows that register them all. */
#include "opgen.h"
#include <stdlib.h>

/* Fills given_[] with the tensors that an in-place or out form writes. */
static void emit_given(FILE *f, const op *o) {
    if (o->form == FORM_FUNCTION) return;
    fprintf(f, "    fac_tensor *const given_[] = {");
    if (o->form == FORM_INPLACE) fprintf(f, "%s", o->s->args[0].name);
    for (size_t i = 0; i < o->n_out_args; i++)
        fprintf(f, "%s%s", i ? ", " : "", o->s->args[o->s->n_args - o->n_out_args + i].name);
    fputs("};\n", f);
}

static char *inner_args(const op *o) {
    const fac_schema *s = o->functional ? o->functional->s : o->s;
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    fputs("&s_", f);
    for (size_t i = 0; i < s->n_args; i++) fprintf(f, ", %s", s->args[i].name);
    fclose(f);
    return text;
}

static void emit_device_check(FILE *f, const op *o) {
    if (is_pointwise(o->e) || (o->e->device_check && strcmp(o->e->device_check, "NoCheck") == 0)) return;
    size_t n = 0;
    for (size_t i = 0; i < o->s->n_args; i++) n += is_tensor(&o->s->args[i].type);
    if (n < 2) return;
    fputs("    static const char *const names_[] = {", f);
    for (size_t i = 0; i < o->s->n_args; i++)
        if (is_tensor(&o->s->args[i].type)) fprintf(f, "\"%s\", ", o->s->args[i].name);
    fputs("};\n    fac_tensor *const tensors_[] = {", f);
    for (size_t i = 0; i < o->s->n_args; i++)
        if (is_tensor(&o->s->args[i].type)) fprintf(f, "%s, ", o->s->args[i].name);
    fprintf(f, "};\n    FAC_TRY(fac__check_same_device(names_, tensors_, %zu));\n", n);
}

/* reads_: the tensors that a call reads, self of an in-place form among them. Returns their number. */
static size_t emit_reads(FILE *f, const op *o) {
    const fac_schema *s = o->functional->s;
    size_t n = 0;
    fputs("    fac_tensor *const reads_[] = {", f);
    for (size_t i = 0; i < s->n_args; i++)
        if (is_tensor(&s->args[i].type)) fprintf(f, "%s%s", n++ ? ", " : "", s->args[i].name);
    fputs(n ? "};\n" : "NULL};\n", f);
    return n;
}

/* The check between meta and kernel: outputs against each other and against every tensor that is read. */
static void emit_check(FILE *f, const op *o) {
    if (o->form == FORM_FUNCTION) return;
    const fac_schema *s = o->functional->s;
    size_t n = emit_reads(f, o);
    fprintf(f, "    if (FAC_LIKELY(!st_)) st_ = fac__structured_check(&s_, reads_, %zu);\n", n);
    for (size_t i = 0; i < s->n_args; i++)
        if (type_of(&s->args[i].type) == T_TENSORS)
            fprintf(f, "    if (FAC_LIKELY(!st_)) st_ = fac__structured_check(&s_, %s.v, %s.n);\n", s->args[i].name,
                    s->args[i].name);
}

static const char *generator_of(const op *o) {
    for (size_t i = 0; i < o->s->n_args; i++)
        if (o->s->args[i].type.kind == FAC_TYPE_GENERATOR) return o->s->args[i].name;
    return "NULL";
}

/* What the kernel is to draw is taken before it starts. */
static void emit_draw(FILE *f, const op *o) {
    fprintf(f, "    fac_draw drawn_;\n    if (FAC_LIKELY(!st_)) st_ = fac__draw(%s, %s, &drawn_);\n", generator_of(o),
            o->e->random);
}

/* Around a kernel that is registered as it is but for what it draws. */
static void emit_drawing(FILE *f, const op *o, const pair *kernel) {
    fprintf(f, "static fac_status %s_%s(%s) {\n    fac_status st_ = FAC_OK;\n", o->id, kernel->key,
            params(o, "const fac_call_info *c_"));
    emit_draw(f, o);
    fprintf(f, "    return FAC_LIKELY(!st_) ? %s(%s) : st_;\n}\n", kernel->value,
            with_draw(o, args(o, "c_", "res_"), "drawn_"));
}

/* Whether a raw kernel is registered behind emit_drawing. */
static bool is_drawing(const op *o, const pair *kernel) {
    return o->e->random && o->form == FORM_FUNCTION && strcmp(kernel->key, "Meta") != 0;
}

static void emit_structured(FILE *f, const model *m, const op *o, const char *key, const char *kernel) {
    static const char *const forms[] = {"FAC_FUNCTIONAL", "FAC_INPLACE", "FAC_OUT"};
    const op *fn = o->functional ? o->functional : o;
    fprintf(f, "static fac_status %s_%s(%s) {\n", o->id, key, params(o, "const fac_call_info *c_"));
    emit_device_check(f, o);
    emit_given(f, o);
    fprintf(f, "    fac_structured s_;\n    fac__structured_begin(&s_, c_, %s, %zu, %s);\n", forms[o->form],
            fn->s->n_rets, o->form == FORM_FUNCTION ? "NULL" : "given_");
    bool meta_only = strcmp(key, "Meta") == 0;
    if (meta_only) fputs("    s_.meta_only = true;\n", f);
    fprintf(f, "    fac_status st_ = %s_meta(%s);\n", o->e->meta, inner_args(o));
    emit_check(f, o);
    if (kernel && o->e->random) emit_draw(f, o);
    if (kernel)
        fprintf(f, "    if (FAC_LIKELY(!st_)) st_ = %s(%s);\n", kernel, with_draw(o, inner_args(o), "drawn_"));
    else if (!meta_only)
        emit_loop_call(f, m, o);
    fputs("    return fac__structured_end(&s_, st_, res_);\n}\n", f);
}

/* Makes an in-place form compute from before_, which the graph may keep while self is overwritten. */
static void emit_before(FILE *f, const op *o) {
    size_t n = emit_reads(f, o);
    fputs("    fac_tensor *before_ = NULL;\n", f);
    fprintf(f, "    FAC_TRY(fac__before_change(reads_, %zu, &before_));\n", n);
    fprintf(f, "    %s = before_;\n", o->s->args[0].name);
}

/* An out argument may be an input of the operator, but not a part of one, nor in a list of them. */
static void emit_out_overlap(FILE *f, const op *o) {
    size_t n = emit_reads(f, o);
    fprintf(f, "    FAC_TRY(fac__check_out_overlap(given_, %zu, reads_, %zu, true));\n", o->n_out_args, n);
    for (size_t i = 0; i < o->s->n_args; i++)
        if (type_of(&o->s->args[i].type) == T_TENSORS)
            fprintf(f, "    FAC_TRY(fac__check_out_overlap(given_, %zu, %s.v, %s.n, false));\n", o->n_out_args,
                    o->s->args[i].name, o->s->args[i].name);
}

/* What a form is refused for before anything is computed: the operators it is made of would see it too late. */
static void emit_refused(FILE *f, const op *o) {
    if (o->form == FORM_OUT) emit_out_overlap(f, o);
    if (!o->e->composite) return;
    fputs("    const bool recorded_ = ", f);
    emit_any_requires_grad(f, o);
    if (o->form == FORM_INPLACE)
        fprintf(f, ";\n    FAC_TRY(fac__check_inplace(%s, recorded_));\n", o->s->args[0].name);
    else
        fprintf(f, ";\n    FAC_TRY(fac__check_out_form(given_, %zu, recorded_));\n", o->n_out_args);
}

/* An in-place or out form in terms of the functional operator. */
static void emit_borrowed(FILE *f, const op *o) {
    const op *fn = o->functional;
    size_t n = fn->s->n_rets;
    fprintf(f, "static fac_status %s_borrowed(%s) {\n    (void)c_;\n", o->id, params(o, "const fac_call_info *c_"));
    emit_given(f, o);
    emit_refused(f, o);
    fprintf(f, "    fac_tensor *made_[%zu] = {NULL};\n", n);
    bool recorded = o->form == FORM_INPLACE && o->e->composite;
    if (recorded) emit_before(f, o);
    op view = *fn;
    fprintf(f, "    fac_status st_ = fac__c_%s(%s);\n", fn->id, args(&view, NULL, "made_"));
    if (recorded) fputs("    fac__unref(before_);\n", f);
    if (o->form == FORM_INPLACE)
        fputs("    if (!st_) st_ = fac__copy_over(given_[0], made_[0]);\n", f);
    else
        fprintf(f, "    if (!st_) st_ = fac__copy_to_outs(given_, made_, %zu);\n", n);
    fputs("    fac__drop_grads(made_, FAC_COUNT(made_));\n    if (st_) return st_;\n", f);
    fprintf(f, "    for (int i_ = 0; i_ < %zu; i_++) res_[i_] = fac__ref(given_[i_]);\n    return FAC_OK;\n}\n", n);
}

static bool writes(const op *o) {
    for (size_t i = 0; i < o->s->n_args; i++)
        if (o->s->args[i].type.write) return true;
    return false;
}

/* In-place-only operators written for the CPU have nothing to do on the meta device. */
static bool wants_noop_meta(const op *o) {
    if (!o->e->raw.n || !writes(o) || o->form != FORM_FUNCTION || o->e->explicit_fn) return false;
    if (o->s->n_rets > 0 && !o->in_place) return false;
    for (size_t i = 0; i < o->e->raw.n; i++)
        if (strcmp(o->e->raw.v[i].key, "Meta") == 0) return false;
    return true;
}

static void box_value(FILE *f, const fac_schema_arg *a) {
    const char *n = a->name;
    switch (type_of(&a->type)) {
    case T_TENSOR: fprintf(f, "fac__value_tensor(%s)", n); break;
    case T_TENSORS: fprintf(f, "fac__value_tensors(%s.v, %s.n)", n, n); break;
    case T_INT: fprintf(f, "fac_value_int(%s)", n); break;
    case T_OPT_INT: fprintf(f, "fac__box_opt_int(%s)", n); break;
    case T_FLOAT: fprintf(f, "fac_value_float(%s)", n); break;
    case T_BOOL: fprintf(f, "fac_value_bool(%s)", n); break;
    case T_SCALAR: fprintf(f, "fac_value_scalar(%s)", n); break;
    case T_OPT_NUM: fprintf(f, "fac__box_opt_num(%s)", n); break;
    case T_INTS:
    case T_FLOATS: box_numbers(f, &a->type, n); break;
    case T_STRING: fprintf(f, "%s ? fac_value_string(%s) : fac_value_none()", n, n); break;
    case T_DTYPE: fprintf(f, "fac__box_dtype(%s)", n); break;
    case T_DEVICE: fprintf(f, "fac__box_device(%s)", n); break;
    case T_LAYOUT: fprintf(f, "fac__box_layout(%s)", n); break;
    case T_FORMAT: fprintf(f, "fac__box_format(%s)", n); break;
    case T_GENERATOR: fprintf(f, "fac_value_generator(%s)", n); break;
    default: fprintf(f, "fac_value_none()"); break;
    }
}

static void emit_view_record(FILE *f, const op *o) {
    size_t n = o->s->n_args - 1;
    bool multi = strcmp(o->e->view, "multi") == 0;
    const char *how = multi ? "FAC_VIEW_MULTI_OUTPUT" : "FAC_VIEW_DEFAULT";
    if (n) {
        fputs("    fac_value args_[] = {", f);
        for (size_t i = 1; i <= n; i++) {
            fputs(i > 1 ? ", " : "", f);
            box_value(f, &o->s->args[i]);
        }
        fputs("};\n    st_ = th_->error; /* of a list without memory */\n", f);
    }
    const char *boxed = n ? "args_" : "NULL";
    if (returns_list(o)) {
        fprintf(
            f,
            "    for (size_t i_ = 0; i_ < res_->n && !st_; i_++)\n        st_ = fac__view_record(th_, %s, res_->v[i_], %s, &fac_op_%s, %s, %zu);\n",
            o->s->args[0].name, how, o->id, boxed, n);
    } else
        fprintf(f, "    %sst_ = fac__view_record(th_, %s, res_[0], %s, &fac_op_%s, %s, %zu);\n",
                n ? "if (FAC_LIKELY(!st_)) " : "", o->s->args[0].name, how, o->id, boxed, n);
    if (n) fprintf(f, "    for (int i_ = 0; i_ < %zu; i_++) fac_value_release(&args_[i_]);\n", n);
    if (returns_list(o))
        fputs("    if (st_) fac__tensor_list_free(res_);\n", f);
    else
        fputs("    if (st_) {\n        fac__unref(res_[0]);\n        res_[0] = NULL;\n    }\n", f);
}

/* What is written has a version counter before it is written, so that counting on cannot fail. */
static void emit_counters(FILE *f, const op *o) {
    for (size_t i = 0; i < o->s->n_args; i++) {
        const fac_schema_arg *a = &o->s->args[i];
        if (!a->type.write) continue;
        if (a->type.list)
            fprintf(f, "    for (size_t i_ = 0; i_ < %s.n; i_++) FAC_TRY(fac__version_make(%s.v[i_]));\n", a->name,
                    a->name);
        else
            fprintf(f, "    %s%s%sFAC_TRY(fac__version_make(%s));\n", a->type.optional ? "if (" : "",
                    a->type.optional ? a->name : "", a->type.optional ? ") " : "", a->name);
    }
}

/* The ADInplaceOrView kernel: tracks views, bumps versions. */
static void emit_adiv(FILE *f, const op *o) {
    fprintf(f, "static %sfac_status %s_adiv(%s) {\n    fac_thread *th_ = fac__thread();\n",
            o->form == FORM_OUT ? "FAC_SMALL " : "", o->id, params(o, "const fac_call_info *c_"));
    emit_counters(f, o);
    fputs("    fac_keyset was_ = th_->exclude;\n    th_->exclude = was_ | FAC_KS_AUTOGRAD | FAC_KS_ADINPLACEORVIEW;\n",
          f);
    fprintf(
        f,
        "    fac_status st_ = fac__redispatch_%s(%s);\n    th_->exclude = was_;\n    if (FAC_UNLIKELY(st_)) return st_;\n",
        o->id, args(o, "c_->keys & fac__below(FAC_KEY_AD_INPLACE_OR_VIEW)", "res_"));
    if (o->e->view && o->form == FORM_FUNCTION) emit_view_record(f, o);
    for (size_t i = 0; i < o->s->n_args; i++) {
        const fac_schema_arg *a = &o->s->args[i];
        if (!a->type.write) continue;
        if (a->type.list)
            fprintf(f, "    for (size_t i_ = 0; i_ < %s.n && !st_; i_++) st_ = fac__bump_version(%s.v[i_]);\n", a->name,
                    a->name);
        else
            fprintf(f, "    if (!st_%s%s) st_ = fac__bump_version(%s);\n", a->type.optional ? " && " : "",
                    a->type.optional ? a->name : "", a->name);
    }
    if (!(o->e->view && o->form == FORM_FUNCTION) && returns_tensors(o))
        fprintf(f, "    if (FAC_UNLIKELY(st_)) fac__drop_grads(res_, %zu);\n", o->s->n_rets);
    fputs("    return st_;\n}\n", f);
}

static bool has_adiv(const op *o) {
    if (o->e->composite && o->form == FORM_FUNCTION) return false;
    return (o->e->view && o->form == FORM_FUNCTION) || (writes(o) && !o->e->composite);
}

/* The first key with the same kernel as key i: structured forms do not look at the key, so one serves all. */
static const char *key_of_form(const pairs *kernels, size_t i) {
    for (size_t j = 0; j < i; j++)
        if (strcmp(kernels->v[j].value, kernels->v[i].value) == 0) return kernels->v[j].key;
    return kernels->v[i].key;
}

/* What is written has to be on the meta device, where there is nothing to write. */
static void emit_noop_meta(FILE *f, const op *o) {
    fprintf(f, "static fac_status %s_Meta(%s) {\n    (void)c_;\n", o->id, params(o, "const fac_call_info *c_"));
    for (size_t i = 0; i < o->s->n_args; i++) {
        const fac_schema_arg *a = &o->s->args[i];
        if (a->type.write)
            fprintf(f, "    %sFAC_TRY(fac__need_meta(\"%s\", %s));\n",
                    a->type.optional ? xformat("if (%s) ", a->name) : "", a->name, a->name);
        else
            fprintf(f, "    (void)%s;\n", a->name);
    }
    if (o->s->n_rets) fprintf(f, "    res_[0] = fac__ref(%s);\n", o->s->args[0].name);
    fputs("    return FAC_OK;\n}\n", f);
}

void emit_kernels(FILE *f, const model *m, const op *o) {
    const entry *e = o->e;
    if (e->meta) {
        if (is_pointwise(e)) emit_structured(f, m, o, "Pointwise", e->kernel);
        for (size_t i = 0; i < e->kernels.n; i++)
            if (key_of_form(&e->kernels, i) == e->kernels.v[i].key)
                emit_structured(f, m, o, e->kernels.v[i].key, e->kernels.v[i].value);
        emit_structured(f, m, o, "Meta", NULL);
    } else if (o->form != FORM_FUNCTION)
        emit_borrowed(f, o);
    for (size_t i = 0; i < e->raw.n; i++)
        if (is_drawing(o, &e->raw.v[i])) emit_drawing(f, o, &e->raw.v[i]);
    if (wants_noop_meta(o)) emit_noop_meta(f, o);
    if (has_adiv(o)) emit_adiv(f, o);
}

/* ---- rows ---- */

static void row(FILE *f, const char *key, const char *fn) { fprintf(f, "    {\"%s\", (fac_fn)%s},\n", key, fn); }

static bool falls_through_autograd(const op *o) { return o->e->nondifferentiable && !writes(o); }

void emit_rows(FILE *f, const op *o) {
    const entry *e = o->e;
    fprintf(f, "extern const char *const fac__tags_%s[];\nconst char *const fac__tags_%s[] = {", o->id, o->id);
    for (char **t = e->tags; t && *t; t++) fprintf(f, "\"%s\", ", *t);
    fputs("NULL};\n", f);
    fprintf(f, "extern const fac_builtin_kernel fac__kernels_%s[];\nconst fac_builtin_kernel fac__kernels_%s[] = {\n",
            o->id, o->id);
    if (e->meta) {
        if (is_pointwise(e)) row(f, "Pointwise", xformat("%s_Pointwise", o->id));
        for (size_t i = 0; i < e->kernels.n; i++)
            row(f, e->kernels.v[i].key, xformat("%s_%s", o->id, key_of_form(&e->kernels, i)));
        row(f, "Meta", xformat("%s_Meta", o->id));
    } else if (o->form != FORM_FUNCTION) {
        row(f, e->composite ? "CatchAll" : "CompositeExplicit", xformat("%s_borrowed", o->id));
    } else {
        if (e->composite) row(f, "CatchAll", e->composite);
        if (e->explicit_fn) row(f, "CompositeExplicit", e->explicit_fn);
        for (size_t i = 0; i < e->raw.n; i++)
            row(f, e->raw.v[i].key,
                is_drawing(o, &e->raw.v[i]) ? xformat("%s_%s", o->id, e->raw.v[i].key) : e->raw.v[i].value);
        if (wants_noop_meta(o)) row(f, "Meta", xformat("%s_Meta", o->id));
    }
    if (has_adiv(o)) row(f, "ADInplaceOrView", xformat("%s_adiv", o->id));
    if (!e->composite) row(f, "Autograd", falls_through_autograd(o) ? "NULL" : xformat("%s_autograd", o->id));
    fputs("    {NULL, NULL},\n};\n", f);
}
