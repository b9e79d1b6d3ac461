/* Internal prototypes (ops_gen.h) and the call stubs: public, flat and scoped, dispatching, redispatching. */
#include "opgen.h"

void emit_result_struct(FILE *f, const op *o) {
    const char *type = result_type(o);
    fprintf(f, "typedef struct %s{\n", type);
    if (returns_lists(o))
        for (size_t i = 0; i < o->s->n_rets; i++)
            fprintf(f, "    %s%s;\n", c_type(&o->s->rets[i].type), result_field(o, i));
    else
        fprintf(f, "    fac_tensor %s;\n", each_result(o, ", ", "*$field"));
    fprintf(f, "} %.*s;\n", (int)strlen(type) - 1, type);
}

static void declare(FILE *f, const char *function, const char *list) {
    if (function) fprintf(f, "fac_status %s(%s);\n", function, list);
}

void emit_internal_decl(FILE *f, const op *o) {
    const entry *e = o->e;
    emit(f, o, "extern FAC_HIDDEN fac_operator fac_op_$id; /* $full */\n");
    if (o->s->n_rets > 1 && e->internal && o->form != FORM_OUT) emit_result_struct(f, o);
    emit(f, o, "${result}fac__s_$id($inputs);\nfac_status fac__c_$id($params);\n");
    emit_redispatch(f, o);
    if (o->form != FORM_FUNCTION) return;
    const char *inner = fill(o, "fac_structured *s$,inputs"), *whole = fill(o, "const fac_call_info *c$,params");
    declare(f, e->meta ? xformat("%s_meta", e->meta) : NULL, inner);
    declare(f, e->kernel, inner);
    for (size_t i = 0; i < e->kernels.n; i++) declare(f, e->kernels.v[i].value, with_draw(o, inner, "fac_draw drawn"));
    declare(f, e->composite ? e->composite : e->explicit, whole);
    for (size_t i = 0; i < e->layouts.n; i++) declare(f, e->layouts.v[i].value, whole);
    for (size_t i = 0; i < e->raw.n; i++) /* a shape rule draws nothing */
        declare(f, e->raw.v[i].value, strcmp(e->raw.v[i].key, "Meta") ? with_draw(o, whole, "fac_draw drawn") : whole);
}

/* ---- dispatching ---- */

static bool is_device(const op *o, size_t i) { return o->s->args[i].type.kind == FAC_TYPE_DEVICE; }

static const char *call_keys(const op *o) {
    const char *keys = each_kind(o, NULL, " | ", "fac__list_keys($a)", "$keys", NULL),
               *device = each(o, is_device, "", "$a");
    const char *own = *keys ? keys : xformat("fac__device_keys(%s)", *device ? device : "(fac_device){0}");
    return joined(own, " | ", each(o, is_generator, " | ", "fac__generator_keys($a)"));
}

static void emit_dispatch(FILE *f, const op *o) {
    const bool seeded = lists(o->e->tags, "nondeterministic_seeded");
    const char *checks = each_kind(o, is_written, "",
                                   "    for (size_t i_ = 0; i_ < $a.n; i_++) FAC_TRY(fac__check_writable($a.v[i_]));\n",
                                   "    FAC_TRY(fac__check_writable($a));\n", NULL);
    emit(f, o, "fac_status fac__c_$id($params) {\n%s    fac_keyset keys_ = fac__call_keys(fac__thread(), %s);\n",
         checks, call_keys(o));
    if (seeded) fputs("    const fac_draws outer_ = fac__draws_begin();\n", f);
    emit(f, o, "    return %sfac__dispatch_$sig(&fac_op_$id, keys_$,args)%s;\n}\n",
         seeded ? "fac__draws_end(outer_, " : "", seeded ? ")" : "");
}

/* ---- the scoped form with flat arguments ---- */

/* No tensor, a list without an array, or no text where one is needed. */
static const char *null_check(const fac_schema_arg *a) {
    const etype t = type_of(&a->type);
    if (t == T_TENSORS)
        return "    if (FAC_UNLIKELY(fac__check_list($a, $lacking, \"$name\", \"$a\"))) return $fail;\n";
    if (t == T_INTS || t == T_FLOATS || t == T_SCALARS)
        return "    if (FAC_UNLIKELY($a.n && !$a.v)) {\n        fac__null_given(\"$name\", \"$a\");\n"
               "        return $fail;\n    }\n";
    if (a->type.optional) return "";
    if (t == T_TENSOR) return "    if (FAC_UNLIKELY(fac__check_header($a, \"$name\", \"$a\"))) return $fail;\n";
    if (t == T_STRING)
        return "    if (FAC_UNLIKELY(!$a)) {\n        fac__null_given(\"$name\", \"$a\");\n        return $fail;\n"
               "    }\n";
    return "";
}

/* What the results are put into, and what is returned of that. */
static const char *result_room(const op *o) {
    if (returns_list(o)) return "fac_tensor_list l_ = {0}, *res_ = &l_";
    if (returns_lists(o)) return "fac_tensor_list res_[$rets] = {{0}}";
    if (!returns_tensors(o)) return "${result}r_ = $fail, *res_ = &r_";
    return o->s->n_rets == 1 ? "fac_tensor *r_ = NULL, **res_ = &r_" : "fac_tensor *res_[$rets] = {NULL}";
}

static const char *lists_return(const op *o) {
    char *made = "    ${result}r_;\n";
    for (size_t i = 0; i < o->s->n_rets; i++)
        made =
            xformat("%s%s", made,
                    fill_at(o, i,
                            o->s->rets[i].type.list ? "    r_.$field = fac__adopt_list(th_, &res_[$i]);\n"
                                                    : "    r_.$field = fac__adopt(th_, fac__take_only(&res_[$i]));\n"));
    return xformat("%s    if (FAC_UNLIKELY(th_->error)) return $fail; /* all of them or none */\n    return r_;\n",
                   made);
}

static const char *result_return(const op *o) {
    const bool written = o->s->n_rets && o->s->rets[0].type.write; /* an argument again, counted */
    if (returns_list(o)) return "    return fac__adopt_list(th_, &l_);\n";
    if (returns_lists(o)) return lists_return(o);
    if (!returns_tensors(o)) return "    return r_;\n";
    if (o->s->n_rets > 1)
        return xformat("    ${result}r_;\n%s%s    return r_;\n",
                       each_result(o, "",
                                   written ? "    fac__unref(res_[$i]);\n    r_.$field = $outarg;\n"
                                           : "    r_.$field = fac__adopt(th_, res_[$i]);\n"),
                       written ? "" : "    if (FAC_UNLIKELY(th_->error)) return $fail; /* all of them or none */\n");
    if (!written) return "    return fac__adopt(th_, r_);\n";
    return o->in_place ? "    fac__unref(r_);\n    return $self;\n" : "    fac__unref(r_);\n    return $outarg;\n";
}

static void emit_result(FILE *f, const op *o) {
    /* adds the operator and its tensors to the error */
    const char *failed =
        fill(o, xformat("fac__call_failed(&fac_op_$id, \"$name\"%s)", each_kind(o, NULL, "", ", $a", ", $a", NULL)));
    if (!o->s->n_rets) {
        emit(f, o, "    fac_status st_ = fac__c_$id($args);\n    if (FAC_UNLIKELY(st_)) %s;\n    return st_;\n}\n",
             failed);
        return;
    }
    emit(f, o, "    %s;\n    if (FAC_UNLIKELY(fac__c_$id($args))) {\n        %s;\n        return $fail;\n    }\n%s}\n",
         fill(o, result_room(o)), failed, fill(o, result_return(o)));
}

/* The body is inline in both scoped forms (FAC_BODY): the public one's arguments are then known not to be NULL, and only it, which the
   program calls, marks an error that is pending as that of an earlier call. */
static void emit_flat(FILE *f, const op *o) {
    emit(f, o,
         "static FAC_BODY ${result}scoped_$id(bool public_$,inputs) {\n"
         "    fac_thread *th_ = fac__thread();\n    if (FAC_UNLIKELY(th_->error)) {\n"
         "        if (public_) fac__inert();\n        return $fail;\n    }\n");
    for (size_t i = 0; i < o->s->n_args; i++) fputs(fill_at(o, i, null_check(&o->s->args[i])), f);
    emit_result(f, o);
    emit(f, o, "${result}fac__s_$id($inputs) { return scoped_$id(false$,passed); }\n");
}

/* ---- the public form: keywords into flat arguments ---- */

/* The handles that a public stub is given are opened, those that it gives are made: between the two everything is a header
   (src/core/handle.h). */
#define OPEN "    $opener($a, \"$name\", \"$a\", $fail);\n"

static bool has_list(const op *o) { return *each_kind(o, NULL, "", "$a", NULL, NULL); }

/* A list goes into one of its own, whose name has "_open_" behind it. Lists are all opened, so that all can be freed, whether
   or not one fails. */
static void emit_open_handles(FILE *f, const op *o) {
    emit_each(f, o, is_positional, NULL, OPEN, NULL);
    emit_each(f, o, is_keyword, NULL, "    fac_tensor *$a = $value;\n" OPEN, NULL);
    emit_each(f, o, is_out, NULL, OPEN, NULL);
    if (has_list(o)) fputs("    bool open_ = true;\n", f);
    emit_each(f, o, NULL,
              "    fac_handle_list $a_open_;\n"
              "    open_ &= fac__open_list(&$a_open_, $value, $lacking, \"$name\", \"$a\") == FAC_OK;\n",
              NULL, NULL);
}

static void emit_close_handles(FILE *f, const op *o) {
    emit_each(f, o, NULL, "    fac__handle_list_free(&$a_open_);\n", NULL, NULL);
    if (returns_list(o))
        fputs("    r_ = fac__list_to_handles(r_);\n", f);
    else if (returns_tensors(o))
        fputs(o->s->n_rets == 1 ? "    r_ = fac__handle(r_);\n"
                                : each_result(o, "", "    r_.$field = fac__handle(r_.$field);\n"),
              f);
}

static void emit_public(FILE *f, const op *o) {
    if (o->e->internal) return;
    if (o->kw && !o->kw_again) emit_kw_init(f, o);
    emit(f, o, "${result}(fac_$cname)($public) {\n");
    if (o->kw) emit_kw_open(f, o);
    emit_open_handles(f, o);
    emit(f, o, has_list(o) ? "    ${result}r_ = !open_ ? $fail : " : "    ${result}r_ = ");
    emit(f, o, "scoped_$id(true%s);\n", each_kind(o, NULL, "", ", $a_open_.l", ", $a", ", $value"));
    emit_close_handles(f, o);
    if (is_factory(o))
        emit(f, o,
             "    if (r_ && k_->requires_grad && !(r_ = fac_set_requires_grad(r_, true)))\n"
             "        fac__error_context(\"$name\", \"requires_grad\");\n");
    fputs("    return r_;\n}\n", f);
}

void emit_calls(FILE *f, const op *o) {
    emit(f, o, "\n/* ---- $full ---- */\n\n");
    emit_dispatch(f, o);
    emit_flat(f, o);
    emit_public(f, o);
}
