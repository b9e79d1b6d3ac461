/* The handles of a public stub: those it is given are opened, those it gives are made. Between the two everything is a
   header (src/core/handle.h). */
#include "opgen.h"

/* Where the stub finds argument i: a parameter, or a field of the keywords. */
static bool is_keyword(const op *o, size_t i) {
    const fac_schema *s = o->functional ? o->functional->s : o->s;
    return i >= o->n_pos && i < s->n_args;
}

static bool has_list(const op *o) {
    for (size_t i = 0; i < o->s->n_args; i++)
        if (is_tensor_list(&o->s->args[i].type)) return true;
    return false;
}

static void open_tensor(FILE *f, const op *o, size_t i, const char *fail) {
    const fac_schema_arg *a = &o->s->args[i];
    if (is_keyword(o, i)) fprintf(f, "    fac_tensor *%s = k_->%s;\n", a->name, kw_name(a));
    fprintf(f, "    FAC_OPEN%s(%s, \"%s\", \"%s\", %s);\n", a->type.optional ? "_OPTIONAL" : "", a->name, o->s->name,
            a->name, fail);
}

/* Lists are all opened, so that all can be freed, whether or not one fails. */
static void open_list(FILE *f, const op *o, size_t i) {
    const fac_schema_arg *a = &o->s->args[i];
    fprintf(f, "    fac_handle_list %s_open_;\n", a->name);
    fprintf(f, "    open_ &= fac__open_list(&%s_open_, ", a->name);
    if (is_keyword(o, i)) fprintf(f, "fac__kw_unset(k_->%s.v) ? (fac_tensors){0} : k_->", kw_name(a));
    fprintf(f, "%s, %s, \"%s\", \"%s\") == FAC_OK;\n", is_keyword(o, i) ? kw_name(a) : a->name,
            a->type.elem_optional ? "true" : "false", o->s->name, a->name);
}

void emit_open_handles(FILE *f, const op *o, const char *fail) {
    for (size_t i = 0; i < o->s->n_args; i++)
        if (is_tensor(&o->s->args[i].type)) open_tensor(f, o, i, fail);
    if (has_list(o)) fputs("    bool open_ = true;\n", f);
    for (size_t i = 0; i < o->s->n_args; i++)
        if (is_tensor_list(&o->s->args[i].type)) open_list(f, o, i);
}

void emit_opened_arg(FILE *f, const fac_schema_arg *a) {
    fprintf(f, is_tensor_list(&a->type) ? "%s_open_.l" : "%s", a->name);
}

void emit_result_begin(FILE *f, const op *o) {
    fprintf(f, "    %sr_ = %s", result_type(o), has_list(o) ? "!open_ ? " : "");
    if (has_list(o)) fprintf(f, "%s : ", failure_value(o));
}

void emit_result_end(FILE *f, const op *o) {
    for (size_t i = 0; i < o->s->n_args; i++)
        if (is_tensor_list(&o->s->args[i].type))
            fprintf(f, "    fac__handle_list_free(&%s_open_);\n", o->s->args[i].name);
    if (o->s->n_rets && returns_tensors(o) && o->s->n_rets == 1)
        fputs("    r_ = fac__handle(r_);\n", f);
    else if (o->s->n_rets && returns_list(o))
        fputs("    r_ = fac__list_to_handles(r_);\n", f);
    else if (returns_tensors(o))
        for (size_t i = 0; i < o->s->n_rets; i++) {
            const char *field = result_field(o->functional && o->form == FORM_OUT ? o->functional : o, i);
            fprintf(f, "    r_.%s = fac__handle(r_.%s);\n", field, field);
        }
}
