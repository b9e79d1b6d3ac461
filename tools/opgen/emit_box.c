/* One pair of adapters per distinct signature: boxed entry over a typed kernel, typed entry over a boxed kernel. */
#include "opgen.h"
#include <stdlib.h>

static char *typed_params(const op *o) {
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    fputs("const fac_call_info *c", f);
    for (size_t i = 0; i < o->s->n_args; i++) fprintf(f, ", %sa%zu", c_type(&o->s->args[i].type), i);
    char *out = out_param(o);
    if (out) fprintf(f, ", %s", out);
    fclose(f);
    return text;
}

static const char *unboxer(const fac_schema_type *t, bool *optional) {
    *optional = t->kind == FAC_TYPE_TENSOR ? !t->list : t->kind == FAC_TYPE_STRING;
    if (t->list) {
        *optional = t->kind != FAC_TYPE_TENSOR;
        return t->kind == FAC_TYPE_TENSOR ? "tensors" : t->kind == FAC_TYPE_FLOAT ? "floats" : "ints";
    }
    switch (type_of(t)) {
    case T_TENSOR: return "tensor";
    case T_INT: return "int";
    case T_OPT_INT: return "opt_int";
    case T_FLOAT: return "float";
    case T_BOOL: return "bool";
    case T_SCALAR: return "scalar";
    case T_OPT_NUM: return "opt_num";
    case T_STRING: return "string";
    case T_DTYPE: return "dtype";
    case T_DEVICE: return "device";
    case T_LAYOUT: return "layout";
    case T_FORMAT: return "format";
    case T_GENERATOR: return "generator";
    default: return "object";
    }
}

static void emit_unbox(FILE *f, const op *o, int id) {
    size_t n = o->s->n_args, r = o->s->n_rets;
    fprintf(f, "static fac_status unbox_%d(const fac_call_info *c, fac_value *st) {\n", id);
    if (n) fputs("    const fac_schema_arg *const as = c->op->schema->args;\n", f);
    for (size_t i = 0; i < n; i++) {
        const fac_schema_type *t = &o->s->args[i].type;
        bool flag;
        const char *u = unboxer(t, &flag);
        fprintf(f, "    %sa%zu;\n    FAC_TRY(fac__unbox_%s(&st[%zu], ", c_type(t), i, u, i);
        if (flag) fprintf(f, "%s, ", t->optional ? "true" : "false");
        fprintf(f, "as[%zu].name, &a%zu));\n", i, i);
    }
    if (r == 0)
        fputs("    return ", f);
    else if (returns_list(o))
        fputs("    fac_tensor_list out = {0};\n    FAC_TRY(", f);
    else if (returns_tensors(o))
        fprintf(f, "    fac_tensor *out[%zu] = {NULL};\n    FAC_TRY(", r);
    else
        fprintf(f, "    %sout = {0};\n    FAC_TRY(",
                type_of(&o->s->rets[0].type) == T_SCALAR ? "fac_scalar " : xformat("%s", c_type(&o->s->rets[0].type)));
    fprintf(f, "((fac_status (*)(%s))c->kernel->typed)(c", typed_params(o));
    for (size_t i = 0; i < n; i++) fprintf(f, ", a%zu", i);
    if (r) fputs(returns_tensors(o) ? ", out" : ", &out", f);
    fputs(r ? "));\n" : ");\n", f);
    if (returns_list(o))
        fputs("    st[0] = fac__box_owned_list(&out);\n", f);
    else if (r && returns_tensors(o))
        for (size_t i = 0; i < r; i++) fprintf(f, "    st[%zu] = fac__value_owned_tensor(out[%zu]);\n", i, i);
    else if (r) {
        static const char *const makers[] = {[T_BOOL] = "fac_value_bool",
                                             [T_INT] = "fac_value_int",
                                             [T_FLOAT] = "fac_value_float",
                                             [T_SCALAR] = "fac_value_scalar",
                                             [T_DTYPE] = "fac_value_dtype"};
        fprintf(f, "    st[0] = %s(out);\n", makers[type_of(&o->s->rets[0].type)]);
    }
    fputs(r ? "    return fac_error();\n}\n" : "}\n", f);
}

void box_numbers(FILE *f, const fac_schema_type *t, const char *name) {
    const char *kind = t->kind == FAC_TYPE_FLOAT ? "floats" : "ints";
    if (t->optional)
        fprintf(f, "fac__box_%s(%s)", kind, name);
    else
        fprintf(f, "fac_value_%s(%s.v, %s.n)", kind, name, name);
}

static void box_arg(FILE *f, const fac_schema_type *t, size_t i) {
    char name[32];
    snprintf(name, sizeof name, "a%zu", i);
    switch (type_of(t)) {
    case T_TENSOR: fprintf(f, "fac__value_tensor(a%zu)", i); break;
    case T_TENSORS: fprintf(f, "fac__value_tensors(a%zu.v, a%zu.n)", i, i); break;
    case T_INT: fprintf(f, "fac_value_int(a%zu)", i); break;
    case T_FLOAT: fprintf(f, "fac_value_float(a%zu)", i); break;
    case T_BOOL: fprintf(f, "fac_value_bool(a%zu)", i); break;
    case T_SCALAR: fprintf(f, "fac_value_scalar(a%zu)", i); break;
    case T_INTS:
    case T_FLOATS: box_numbers(f, t, name); break;
    case T_STRING: fprintf(f, "a%zu ? fac_value_string(a%zu) : fac_value_none()", i, i); break;
    case T_GENERATOR: fprintf(f, "fac_value_generator(a%zu)", i); break;
    case T_OBJECT: fprintf(f, "fac_value_object(a%zu, NULL)", i); break;
    default: {
        bool flag;
        fprintf(f, "fac__box_%s(a%zu)", unboxer(t, &flag), i);
    }
    }
}

static void emit_boxed(FILE *f, const op *o, int id) {
    size_t n = o->s->n_args, r = o->s->n_rets, room = n > r ? n : r;
    fprintf(f, "static fac_status box_%d(%s) {\n    fac_value own[%zu] = {", id, typed_params(o), n ? n : 1);
    for (size_t i = 0; i < n; i++) {
        fputs(i ? ", " : "", f);
        box_arg(f, &o->s->args[i].type, i);
    }
    fprintf(f, "%s}, st[%zu] = {{0, 0}};\n    memcpy(st, own, %zu * sizeof *st);\n", n ? "" : "{0, 0}", room ? room : 1,
            n);
    fputs("    fac_status e = fac_error();\n    if (!e) e = c->kernel->boxed(c, st);\n", f);
    fprintf(f, "    for (int i = 0; i < %zu; i++) fac_value_release(&own[i]);\n    if (e) return e;\n", n);
    if (returns_list(o))
        fputs("    return fac__take_list(&st[0], res_);\n", f);
    else if (r && returns_tensors(o)) {
        for (size_t i = 0; i < r; i++) fprintf(f, "    if (!e) e = fac__take_tensor(&st[%zu], &res_[%zu]);\n", i, i);
        fputs("    return e;\n", f);
    } else if (r) {
        static const char *const readers[] = {
            [T_BOOL] = "bool", [T_INT] = "int", [T_FLOAT] = "float", [T_SCALAR] = "scalar", [T_DTYPE] = "dtype"};
        fprintf(f, "    *res_ = fac_value_as_%s(st[0]);\n    fac_value_release(&st[0]);\n    return fac_error();\n",
                readers[type_of(&o->s->rets[0].type)]);
    } else
        fputs("    return FAC_OK;\n", f);
    fputs("}\n", f);
}

/* Around a user's typed kernel: handles of its tensors in, headers of its results out. */
static void emit_door(FILE *f, const op *o, int id) {
    size_t n = o->s->n_args;
    fprintf(f, "static fac_status door_%d(%s) {\n    fac_status e = FAC_OK;\n", id, typed_params(o));
    if (returns_list(o)) fputs("    *res_ = (fac_tensor_list){NULL, 0};\n", f);
    for (size_t i = 0; i < n; i++) {
        if (is_tensor_list(&o->s->args[i].type))
            fprintf(f, "    fac_handle_list l%zu;\n    if (fac__handle_list(&l%zu, a%zu)) e = fac_error();\n", i, i, i);
        else if (is_tensor(&o->s->args[i].type))
            fprintf(f, "    a%zu = fac__handle(a%zu);\n", i, i);
    }
    fprintf(f, "    if (!e) FAC_CALLBACK(e = ((fac_status (*)(%s))c->kernel->direct_typed)(c", typed_params(o));
    for (size_t i = 0; i < n; i++) fprintf(f, is_tensor_list(&o->s->args[i].type) ? ", l%zu.l" : ", a%zu", i);
    fputs(o->s->n_rets ? ", res_));\n" : "));\n", f);
    for (size_t i = 0; i < n; i++)
        if (is_tensor_list(&o->s->args[i].type)) fprintf(f, "    fac__handle_list_free(&l%zu);\n", i);
    if (returns_list(o))
        fputs("    return fac__results_given(c, e, res_->v, res_->v ? res_->n : 0);\n}\n", f);
    else if (o->s->n_rets && returns_tensors(o))
        fprintf(f, "    return fac__results_given(c, e, res_, %zu);\n}\n", o->s->n_rets);
    else
        fputs("    return e;\n}\n", f);
}

void emit_adapter(FILE *f, const char *signature, const op *example) {
    fprintf(f, "\n/* %s */\n", signature);
    emit_door(f, example, example->sig);
    emit_unbox(f, example, example->sig);
    emit_boxed(f, example, example->sig);
}
