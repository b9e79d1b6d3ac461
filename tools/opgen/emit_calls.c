/* Internal prototypes (ops_gen.h) and the call stubs: public, flat and scoped, dispatching, redispatching. */
#include "opgen.h"
#include <stdlib.h>

static const char *display(const op *o) { return o->s->name; }

/* Arguments of the functional schema, as metas and structured kernels take them. */
static char *inner_params(const op *o, const char *lead) {
    const op *fn = o->functional ? o->functional : o;
    op flat = *fn;
    fac_schema s = *fn->s;
    s.n_rets = 0;
    flat.s = &s;
    return params(&flat, lead);
}

/* Of a kernel registered as it is; a shape rule draws nothing. */
static char *raw_params(const op *o, const char *key) {
    char *p = params(o, "const fac_call_info *c");
    return strcmp(key, "Meta") == 0 ? p : with_draw(o, p, "fac_draw drawn");
}

void emit_internal_decl(FILE *f, const op *o) {
    const entry *e = o->e;
    fprintf(f, "extern fac_operator fac_op_%s; /* %s */\n", o->id, o->s->full);
    if (o->s->n_rets > 1 && returns_tensors(o) && (e->internal && o->form != FORM_OUT)) {
        fprintf(f, "typedef struct fac_%s_result {\n    fac_tensor ", o->id);
        for (size_t i = 0; i < o->s->n_rets; i++) fprintf(f, "%s*%s", i ? ", " : "", result_field(o, i));
        fprintf(f, ";\n} fac_%s_result;\n", o->id);
    }
    char *p = params_flat(o, NULL);
    fprintf(f, "%sfac__s_%s(%s);\n", result_type(o), o->id, p[0] ? p : "void");
    char *q = params(o, NULL);
    fprintf(f, "fac_status fac__c_%s(%s);\n", o->id, q);
    fprintf(f, "fac_status fac__redispatch_%s(%s);\n", o->id, params(o, "fac_keyset keys_"));
    if (o->form != FORM_FUNCTION) return;
    if (e->meta) fprintf(f, "fac_status %s_meta(%s);\n", e->meta, inner_params(o, "fac_structured *s"));
    if (e->kernel) fprintf(f, "fac_status %s(%s);\n", e->kernel, inner_params(o, "fac_structured *s"));
    for (size_t i = 0; i < e->kernels.n; i++)
        fprintf(f, "fac_status %s(%s);\n", e->kernels.v[i].value,
                with_draw(o, inner_params(o, "fac_structured *s"), "fac_draw drawn"));
    const char *whole = e->composite ? e->composite : e->explicit_fn;
    if (whole) fprintf(f, "fac_status %s(%s);\n", whole, params(o, "const fac_call_info *c"));
    for (size_t i = 0; i < e->raw.n; i++)
        fprintf(f, "fac_status %s(%s);\n", e->raw.v[i].value, raw_params(o, e->raw.v[i].key));
}

/* ---- dispatching ---- */

static void key_union(FILE *f, const op *o) {
    bool any = false;
    const char *device = NULL;
    for (size_t i = 0; i < o->s->n_args; i++) {
        const fac_schema_arg *a = &o->s->args[i];
        const char *sep = any ? " | " : "";
        if (is_tensor(&a->type))
            fprintf(f, a->type.optional ? "%s(%s ? %s->keys : 0)" : "%s%s->keys", sep, a->name, a->name);
        else if (is_tensor_list(&a->type))
            fprintf(f, "%sfac__list_keys(%s)", sep, a->name);
        else {
            if (a->type.kind == FAC_TYPE_DEVICE) device = a->name;
            continue;
        }
        any = true;
    }
    if (any) return;
    if (device)
        fprintf(f, "fac__device_keys(%s)", device);
    else
        fputs("fac__device_keys((fac_device){0})", f);
}

static bool has_tag(const op *o, const char *tag) {
    for (char **t = o->e->tags; t && *t; t++)
        if (strcmp(*t, tag) == 0) return true;
    return false;
}

static void emit_dispatch(FILE *f, const op *o) {
    fprintf(f, "fac_status fac__redispatch_%s(%s) {\n", o->id, params(o, "fac_keyset keys_"));
    fprintf(f, "    const fac_kernel *k_ = fac__pick(&fac_op_%s, &keys_);\n", o->id);
    fprintf(f, "    const fac_call_info c_ = {&fac_op_%s, keys_, k_, k_->context};\n", o->id);
    fprintf(f, "    return ((fac_status (*)(%s))k_->typed)(%s);\n}\n", params(o, "const fac_call_info *c_"),
            args(o, "&c_", "res_"));
    fprintf(f, "fac_status fac__c_%s(%s) {\n", o->id, params(o, NULL));
    for (size_t i = 0; i < o->s->n_args; i++)
        if (o->s->args[i].type.write && !o->s->args[i].type.list)
            fprintf(f, "    FAC_TRY(fac__check_writable(%s));\n", o->s->args[i].name);
    fputs("    fac_keyset keys_ = fac__call_keys(fac__thread(), ", f);
    key_union(f, o);
    fputs(");\n", f);
    const bool seeded = has_tag(o, "nondeterministic_seeded");
    if (seeded) fputs("    const fac_draws outer_ = fac__draws_begin();\n", f);
    const char *call = xformat("fac__redispatch_%s(%s)", o->id, args(o, "keys_", "res_"));
    fprintf(f,
            seeded ? "    if (FAC_LIKELY(!fac__is_observed())) return fac__draws_end(outer_, %s);\n"
                   : "    if (FAC_LIKELY(!fac__is_observed())) return %s;\n",
            call);
    fprintf(f, "    fac_status st_ = fac__observe(&fac_op_%s, keys_, true);\n    if (!st_) st_ = %s;\n", o->id, call);
    fprintf(f, "    (void)fac__observe(&fac_op_%s, keys_, false);\n", o->id);
    fputs(seeded ? "    return fac__draws_end(outer_, st_);\n}\n" : "    return st_;\n}\n", f);
}

/* ---- the scoped form with flat arguments ---- */

const char *failure_value(const op *o) {
    if (o->s->n_rets == 0) return "fac_error()";
    if (returns_tensors(o) && o->s->n_rets == 1) return "NULL";
    if (returns_tensors(o)) {
        char *t = result_type(o);
        t[strlen(t) - 1] = 0;
        return xformat("(%s){0}", t);
    }
    if (returns_list(o)) return "fac__no_tensors()";
    switch (type_of(&o->s->rets[0].type)) {
    case T_BOOL: return "false";
    case T_SCALAR: return "fac_scalar_i_(0)";
    case T_DTYPE: return "FAC_DTYPE_DEFAULT";
    default: return "0";
    }
}

/* A list without an array, or no text where one is needed. */
static void emit_null_check(FILE *f, const op *o, const fac_schema_arg *a, const char *fail) {
    etype t = type_of(&a->type);
    if (t == T_INTS || t == T_FLOATS)
        fprintf(f, "    if (FAC_UNLIKELY(%s.n && !%s.v))", a->name, a->name);
    else if (t == T_STRING && !a->type.optional)
        fprintf(f, "    if (FAC_UNLIKELY(!%s))", a->name);
    else
        return;
    fprintf(f, " {\n        fac__null_given(\"%s\", \"%s\");\n        return %s;\n    }\n", display(o), a->name, fail);
}

static void emit_null_checks(FILE *f, const op *o, const char *fail) {
    for (size_t i = 0; i < o->s->n_args; i++) {
        const fac_schema_arg *a = &o->s->args[i];
        if (a->type.kind != FAC_TYPE_TENSOR) {
            emit_null_check(f, o, a, fail);
            continue;
        }
        if (a->type.optional && !a->type.list) continue;
        if (a->type.list)
            fprintf(f, "    if (FAC_UNLIKELY(fac__check_list(%s, %s, \"%s\", \"%s\"))) return %s;\n", a->name,
                    a->type.elem_optional ? "true" : "false", display(o), a->name, fail);
        else
            fprintf(f, "    if (FAC_UNLIKELY(fac__check_header(%s, \"%s\", \"%s\"))) return %s;\n", a->name, display(o),
                    a->name, fail);
    }
}

/* What adds the operator and its tensors to the error of a call that failed. */
static char *failed_call(const op *o) {
    char *call = xformat("fac__call_failed(&fac_op_%s, \"%s\"", o->id, display(o));
    for (size_t i = 0; i < o->s->n_args; i++)
        if (o->s->args[i].type.kind == FAC_TYPE_TENSOR) call = xformat("%s, %s", call, o->s->args[i].name);
    return xformat("%s)", call);
}

static void emit_result(FILE *f, const op *o, const char *fail) {
    size_t n = o->s->n_rets;
    const char *call = args(o, NULL, "res_");
    const char *context = xformat("{\n        %s;\n        return %s;\n    }\n", failed_call(o), fail);
    if (n == 0) {
        fprintf(f, "    fac_status st_ = fac__c_%s(%s);\n    if (FAC_UNLIKELY(st_)) %s;\n    return st_;\n}\n", o->id,
                args(o, NULL, NULL), failed_call(o));
    } else if (returns_list(o)) {
        fprintf(
            f,
            "    fac_tensor_list l_ = {0}, *res_ = &l_;\n    if (FAC_UNLIKELY(fac__c_%s(%s))) %s    return fac__adopt_list(th_, &l_);\n}\n",
            o->id, call, context);
    } else if (!returns_tensors(o)) {
        fprintf(f, "    %sr_ = %s, *res_ = &r_;\n    if (FAC_UNLIKELY(fac__c_%s(%s))) %s    return r_;\n}\n",
                result_type(o), fail, o->id, call, context);
    } else if (n == 1) {
        fprintf(f, "    fac_tensor *r_ = NULL, **res_ = &r_;\n    if (FAC_UNLIKELY(fac__c_%s(%s))) %s", o->id, call,
                context);
        if (o->s->rets[0].type.write) { /* r_ is the written argument again, counted */
            const fac_schema_arg *w = o->in_place ? &o->s->args[0] : &o->s->args[o->s->n_args - 1];
            fprintf(f, "    fac__unref(r_);\n    return %s;\n}\n", w->name);
        } else
            fputs("    return fac__adopt(th_, r_);\n}\n", f);
    } else {
        fprintf(f, "    fac_tensor *res_[%zu] = {NULL};\n    if (FAC_UNLIKELY(fac__c_%s(%s))) %s", n, o->id, call,
                context);
        bool outs = o->s->rets[0].type.write;
        fprintf(f, "    %sr_;\n", result_type(o));
        for (size_t i = 0; i < n; i++) {
            const char *field = result_field(o->functional && o->form == FORM_OUT ? o->functional : o, i);
            if (outs)
                fprintf(f, "    fac__unref(res_[%zu]);\n    r_.%s = %s;\n", i, field,
                        o->s->args[o->s->n_args - n + i].name);
            else
                fprintf(f, "    r_.%s = fac__adopt(th_, res_[%zu]);\n", field, i);
        }
        fputs("    return r_;\n}\n", f);
    }
}

/* The body is inline in both scoped forms: the public one's arguments are then known not to be NULL, and only it, which the
   program calls, marks an error that is pending as that of an earlier call. */
static void emit_flat(FILE *f, const op *o) {
    const char *fail = failure_value(o), *type = result_type(o), *p = params_flat(o, NULL);
    fprintf(f, "static FAC_ALWAYS_INLINE %sscoped_%s(%s) {\n", type, o->id, params_flat(o, "bool public_"));
    fputs("    fac_thread *th_ = fac__thread();\n    if (FAC_UNLIKELY(th_->error)) {\n", f);
    fprintf(f, "        if (public_) fac__inert();\n        return %s;\n    }\n", fail);
    emit_null_checks(f, o, fail);
    emit_result(f, o, fail);
    fprintf(f, "%sfac__s_%s(%s) { return scoped_%s(%s); }\n", type, o->id, p[0] ? p : "void", o->id,
            args(o, "false", NULL));
}

/* ---- the public form: keywords into flat arguments ---- */

static void emit_public(FILE *f, const model *m, const op *o) {
    if (o->e->internal) return;
    if (o->kw && kw_struct_first(m, o)) emit_kw_init(f, o);
    const fac_schema *s = o->functional ? o->functional->s : o->s;
    fprintf(f, "%s(fac_%s)(", result_type(o), o->cname);
    const char *sep = "";
    for (size_t i = 0; i < o->n_out_args; i++, sep = ", ")
        fprintf(f, "%sfac_tensor *%s", sep, o->s->args[o->s->n_args - o->n_out_args + i].name);
    for (size_t i = 0; i < o->n_pos; i++, sep = ", ")
        fprintf(f, "%s%s%s", sep, plain_type(&o->s->args[i].type), o->s->args[i].name);
    if (o->kw)
        fprintf(f, "%sconst fac_%s_kw *kw", sep, o->kw);
    else if (!sep[0])
        fputs("void", f);
    fputs(") {\n", f);
    if (o->kw) emit_kw_open(f, o, failure_value(o));
    emit_open_handles(f, o, failure_value(o));
    emit_result_begin(f, o);
    fprintf(f, "scoped_%s(true", o->id);
    for (size_t i = 0; i < s->n_args; i++) {
        fputs(", ", f);
        if (i < o->n_pos && s->args[i].type.kind != FAC_TYPE_TENSOR)
            emit_plain_argument(f, &s->args[i]);
        else if (s->args[i].type.kind == FAC_TYPE_TENSOR)
            emit_opened_arg(f, &s->args[i]);
        else
            emit_kw_value(f, o, &s->args[i]);
    }
    for (size_t i = 0; i < o->n_out_args; i++) fprintf(f, ", %s", o->s->args[o->s->n_args - o->n_out_args + i].name);
    fputs(");\n", f);
    emit_result_end(f, o);
    if (o->e->factory && o->form == FORM_FUNCTION)
        fprintf(
            f,
            "    if (r_ && k_->requires_grad && !(r_ = fac_set_requires_grad(r_, true)))\n        fac__error_context(\"%s\", \"requires_grad\");\n",
            o->s->name);
    fputs("    return r_;\n}\n", f);
}

void emit_calls(FILE *f, const model *m, const op *o) {
    fprintf(f, "\n/* ---- %s ---- */\n\nextern FAC_HIDDEN fac_operator fac_op_%s;\n", o->s->full, o->id);
    emit_dispatch(f, o);
    emit_flat(f, o);
    emit_public(f, m, o);
}
