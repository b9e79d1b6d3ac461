/* Autograd: the node that an operator records, and the kernel that records it. */
#include "opgen.h"
#include <ctype.h>
#include <stdlib.h>

static const char *arg_name(const op *o, size_t i) { return o->s->args[i].name; }

/* The formula for an argument, or NULL. */
static const formula *formula_of(const op *o, size_t arg) {
    for (size_t i = 0; o->grad && i < o->grad->n; i++)
        for (size_t j = 0; j < o->grad->v[i].n_args; j++)
            if (o->grad->v[i].args[j] == arg) return &o->grad->v[i];
    return NULL;
}

static bool is_edge(const op *o, size_t i) {
    const formula *g = formula_of(o, i);
    return o->s->args[i].type.kind == FAC_TYPE_TENSOR && g && g->c;
}

/* C text of the first edge that belongs to argument `arg` (n_edges for arg == n_args). */
static char *edge_of(const op *o, size_t arg, const char *counts) {
    size_t fixed = 0;
    char *lists = xalloc(1);
    for (size_t i = 0; i < arg; i++) {
        if (!is_edge(o, i)) continue;
        if (o->s->args[i].type.list)
            lists = xformat("%s + (uint32_t)%s%s", lists, counts,
                            counts[0] ? xformat("count_%s", arg_name(o, i)) : xformat("%s.n", arg_name(o, i)));
        else
            fixed++;
    }
    return xformat("%zu%s", fixed, lists);
}

/* ---- "AddBackward0" ---- */

static char *node_name(const model *m, const op *o) {
    const op *fn = o->functional ? o->functional : o;
    size_t nth = 0;
    for (const op *p = m->ops; p < fn; p++)
        if (p->form == FORM_FUNCTION && p->e->grad.n && strcmp(p->s->name, fn->s->name) == 0) nth++;
    char *text = xalloc(strlen(fn->s->name) + 32), *w = text;
    bool up = true;
    for (const char *p = fn->s->name; *p; p++) {
        if (*p == '_')
            up = true;
        else {
            *w++ = up ? (char)toupper((unsigned char)*p) : *p;
            up = false;
        }
    }
    sprintf(w, "Backward%zu", nth);
    return text;
}

/* ---- what the node holds ---- */

typedef struct field {
    const char *name; /* of the argument, or "result0" */
    etype t;
    const saved_use *use;
    int result; /* index, or -1 */
    bool list;
} field;

static size_t fields_of(const op *o, field *v) {
    size_t n = 0;
    for (size_t i = 0; i < o->s->n_args; i++)
        v[n++] = (field){arg_name(o, i), type_of(&o->s->args[i].type), &o->grad->args[i], -1, o->s->args[i].type.list};
    for (size_t i = 0; i < o->s->n_rets; i++)
        v[n++] = (field){xformat("result%zu", i), is_tensor_list(&o->s->rets[i].type) ? T_TENSORS : T_TENSOR,
                         &o->grad->results[i], (int)i, o->s->rets[i].type.list};
    return n;
}

static const char *held_type(etype t) {
    switch (t) {
    case T_TENSOR: return "fac_saved ";
    case T_TENSORS: return "fac_saved_list ";
    case T_INTS: return "fac_saved_ints ";
    case T_SCALAR: return "fac_saved_scalar ";
    case T_OPT_NUM: return "fac_saved_opt_num ";
    case T_STRING: return "char *";
    default: return c_type_of_etype(t);
    }
}

static void emit_struct(FILE *f, const op *o, const field *v, size_t n) {
    fprintf(f, "typedef struct %s_node {\n    fac_node node;\n", o->id);
    for (size_t i = 0; i < n; i++) {
        if (v[i].use->used[SAVE_VALUE]) fprintf(f, "    %sv_%s;\n", held_type(v[i].t), v[i].name);
        if (v[i].use->used[SAVE_SIZES])
            fprintf(f, "    %s sizes_%s;\n", v[i].t == T_TENSORS ? "fac_saved_sizes_list" : "fac_saved_ints",
                    v[i].name);
        if (v[i].use->used[SAVE_STRIDES]) fprintf(f, "    fac_saved_ints strides_%s;\n", v[i].name);
        if (v[i].use->used[SAVE_OFFSET]) fprintf(f, "    int64_t offset_%s;\n", v[i].name);
        if (v[i].use->used[SAVE_NUMEL]) fprintf(f, "    int64_t numel_%s;\n", v[i].name);
        if (v[i].use->used[SAVE_NDIM]) fprintf(f, "    int64_t ndim_%s;\n", v[i].name);
        if (v[i].use->used[SAVE_DTYPE]) fprintf(f, "    fac_dtype dtype_%s;\n", v[i].name);
    }
    for (size_t i = 0; i < o->s->n_args; i++)
        if (is_edge(o, i) && o->s->args[i].type.list) fprintf(f, "    size_t count_%s;\n", arg_name(o, i));
    fprintf(f, "} %s_node;\n", o->id);
}

/* Tensors are dropped after the first backward, so that a second one finds out; numbers and sizes stay with the node. */
static void release_body(FILE *f, const field *v) {
    if (!v->use->used[SAVE_VALUE]) return;
    if (v->t == T_TENSOR) fprintf(f, "    fac__saved_release(&n->v_%s);\n", v->name);
    if (v->t == T_TENSORS) fprintf(f, "    fac__saved_list_release(&n->v_%s);\n", v->name);
}

static void destroy_body(FILE *f, const field *v) {
    const bool *used = v->use->used;
    if (used[SAVE_VALUE] && v->t == T_INTS) fprintf(f, "    fac__saved_ints_release(&n->v_%s);\n", v->name);
    if (used[SAVE_VALUE] && v->t == T_STRING) fprintf(f, "    fac__free(n->v_%s);\n", v->name);
    if (used[SAVE_SIZES])
        fprintf(f, "    fac__saved_%s_release(&n->sizes_%s);\n", v->t == T_TENSORS ? "sizes_list" : "ints", v->name);
    if (used[SAVE_STRIDES]) fprintf(f, "    fac__saved_ints_release(&n->strides_%s);\n", v->name);
}

/* A function of the node's class made of what `body` writes for each field. Its line in the class, "" if there is nothing to do. */
static char *emit_method(FILE *f, const op *o, const char *name, void (*body)(FILE *f, const field *v), const field *v,
                         size_t n) {
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    for (size_t i = 0; i < n; i++) body(to, &v[i]);
    fclose(to);
    if (!size) return text;
    fprintf(f, "static void %s_%s(fac_node *n_) {\n    %s_node *n = (%s_node *)n_;\n%s}\n", o->id, name, o->id, o->id,
            text);
    return xformat(", .%s = %s_%s", name, o->id, name);
}

/* ---- running backward ---- */

static void emit_unpack(FILE *f, const field *v) {
    const char *n = v->name;
    switch (v->t) {
    case T_TENSOR: fprintf(f, "    fac_tensor *%s_ = NULL;\n", n); break;
    case T_TENSORS: fprintf(f, "    fac_tensors %s_ = {0};\n", n); break;
    case T_INTS: fprintf(f, "    fac_ints %s_ = fac__ints_of(&n->v_%s);\n", n, n); break;
    case T_SCALAR: fprintf(f, "    fac_scalar %s_ = fac__scalar_of(&n->v_%s);\n", n, n); break;
    case T_OPT_NUM: fprintf(f, "    fac_opt_num %s_ = fac__opt_num_of(&n->v_%s);\n", n, n); break;
    default: fprintf(f, "    %s%s_ = n->v_%s;\n", c_type_of_etype(v->t), n, n); break;
    }
}

static void emit_fill(FILE *f, const op *o, const formula *g) {
    const fac_schema_arg *first = &o->s->args[g->args[0]];
    bool list = is_tensor_list(&first->type);
    fputs("    if (", f);
    for (size_t j = 0; j < g->n_args; j++) fprintf(f, "%sneeds_%s_", j ? " || " : "", arg_name(o, g->args[j]));
    fputs(") {\n", f);
    if (list)
        fprintf(
            f,
            "        fac_tensor **g_ = fac__alloc_zero(n->count_%s * sizeof *g_ + 1);\n        if (!g_) goto failed_;\n",
            first->name);
    else
        fprintf(f, "        fac_tensor *g_[%zu] = {NULL};\n", g->n_args);
    fprintf(f, "#line %d \"%s\"\n", g->line, o->e->file);
    if (g->multi) {
        fprintf(f, "        %sr_ = %s;\n        fac_status st_ = fac_error();\n", result_type(g->multi), g->c);
        for (size_t j = 0; j < g->n_args && j < g->multi->s->n_rets; j++)
            fprintf(f, "        g_[%zu] = r_.%s;\n", j, result_field(g->multi, j));
    } else
        fprintf(f, "        fac_status st_ = %s;\n", g->c);
    fputs("#line 0\n", f);
    if (list) {
        fprintf(
            f,
            "        for (size_t i_ = 0; i_ < n->count_%s && !st_; i_++)\n            if (fac__node_needs(n_, %s + (uint32_t)i_)) st_ = fac__emit_grad(g_[i_], &out_[%s + (uint32_t)i_]);\n",
            first->name, edge_of(o, g->args[0], "n->"), edge_of(o, g->args[0], "n->"));
        fputs("        fac__free(g_);\n", f);
    } else
        for (size_t j = 0; j < g->n_args; j++)
            fprintf(f, "        if (!st_ && needs_%s_) st_ = fac__emit_grad(g_[%zu], &out_[%s]);\n",
                    arg_name(o, g->args[j]), j, edge_of(o, g->args[j], "n->"));
    fputs("        if (FAC_UNLIKELY(st_)) goto failed_;\n    }\n", f);
}

static void emit_formula(FILE *f, const op *o, const formula *g) {
    if (!g->c) return;
    if (g->fills || g->multi) {
        emit_fill(f, o, g);
        return;
    }
    const char *name = arg_name(o, g->args[0]);
    fprintf(f, "    if (needs_%s_) {\n#line %d \"%s\"\n        fac_tensor *r_ = %s;\n#line 0\n", name, g->line,
            o->e->file, g->c);
    fprintf(f, "        if (FAC_UNLIKELY(fac__emit_grad(r_, &out_[%s]))) goto failed_;\n    }\n",
            edge_of(o, g->args[0], "n->"));
}

/* C condition under which the value of v is wanted: that some edge whose formula reads it has a receiver. `test` prints
   the condition for one argument. NULL if every edge does, or v is not a single tensor. */
static char *wanted(const op *o, const field *v, char *(*test)(const op *o, size_t arg)) {
    if (v->t != T_TENSOR) return NULL;
    char *text = NULL;
    bool all = true;
    for (size_t i = 0; i < o->grad->n; i++) {
        const formula *g = &o->grad->v[i];
        if (!g->c) continue;
        if (!(v->use->formulas >> i & 1)) {
            all = false;
            continue;
        }
        for (size_t j = 0; j < g->n_args; j++) {
            char *one = test(o, g->args[j]);
            text = text ? xformat("%s || %s", text, one) : one;
        }
    }
    return all ? NULL : text;
}

static char *test_local(const op *o, size_t arg) { return xformat("needs_%s_", arg_name(o, arg)); }

static char *test_requires(const op *o, size_t arg) {
    return xformat(o->s->args[arg].type.list ? "fac__any_requires_grad(%s)" : "fac__requires_grad(%s)",
                   arg_name(o, arg));
}

static void emit_apply(FILE *f, const op *o, const field *v, size_t n) {
    fprintf(f, "static fac_status %s_apply(fac_node *n_, fac_tensor *const *in_, fac_tensor **out_) {\n", o->id);
    fprintf(f, "    %s_node *n = (%s_node *)n_;\n    fac_scope scope_ = fac_scope_begin();\n    (void)n;\n", o->id,
            o->id);
    for (size_t i = 0; i < o->s->n_args; i++) {
        if (!is_edge(o, i)) continue;
        if (!o->s->args[i].type.list)
            fprintf(f, "    const bool needs_%s_ = fac__node_needs(n_, %s);\n", arg_name(o, i), edge_of(o, i, "n->"));
        else
            fprintf(
                f,
                "    bool needs_%s_ = false;\n    for (size_t i_ = 0; i_ < n->count_%s; i_++) needs_%s_ = needs_%s_ || fac__node_needs(n_, %s + (uint32_t)i_);\n",
                arg_name(o, i), arg_name(o, i), arg_name(o, i), arg_name(o, i), edge_of(o, i, "n->"));
    }
    for (size_t i = 0; i < n; i++)
        if (v[i].use->used[SAVE_VALUE]) emit_unpack(f, &v[i]);
    for (size_t i = 0; i < o->s->n_rets && !returns_list(o); i++)
        if (o->grad->grads_used >> i & 1) {
            if (o->s->n_rets == 1)
                fputs("    fac_tensor *grad0_ = in_[0];\n", f);
            else
                fprintf(
                    f,
                    "    fac_tensor *grad%zu_ = fac__grad_or_zeros(n_, in_, %zu);\n    if (FAC_UNLIKELY(!grad%zu_)) goto failed_;\n",
                    i, i, i);
        }
    if (o->grad->uses_grad_list) fputs("    fac_tensors grads_ = {in_, n_->n_outputs};\n", f);
    fputs("    (void)in_;\n", f);
    for (size_t i = 0; i < n; i++)
        if (v[i].use->used[SAVE_VALUE] && (v[i].t == T_TENSOR || v[i].t == T_TENSORS)) {
            const char *cond = wanted(o, &v[i], test_local);
            fprintf(f, cond ? "    if ((%s) && " : "    if (", cond);
            fprintf(f, "FAC_UNLIKELY(fac__unpack%s(&n->v_%s, n_, \"%s\", &%s_))) goto failed_;\n",
                    v[i].t == T_TENSORS ? "_list" : "", v[i].name, v[i].name, v[i].name);
        }
    for (size_t i = 0; i < o->grad->n; i++) emit_formula(f, o, &o->grad->v[i]);
    fputs(
        "    fac_scope_end(&scope_);\n    return FAC_OK;\nfailed_:\n    fac_scope_end(&scope_);\n    fac__drop_grads(out_, n_->n_edges);\n    return fac_error();\n}\n",
        f);
}

/* ---- recording ---- */

/* What a value is saved as: an input, a result, or a result that will be written over `from`. */
typedef enum { SAVE_INPUT, SAVE_OUTPUT, SAVE_BEGIN } save_as;

static void emit_save(FILE *f, const op *o, const field *v, const char *from, save_as as) {
    const char *n = v->name;
    const char *cond = wanted(o, v, test_requires);
    cond = cond ? xformat(" && (%s)", cond) : "";
    if (v->use->used[SAVE_VALUE]) switch (v->t) {
        case T_TENSOR:
            if (as != SAVE_INPUT)
                fprintf(f, "    if (!st_) st_ = fac__save_output%s(&n->v_%s, %s, %d);\n",
                        as == SAVE_BEGIN ? "_begin" : "", n, from, v->result);
            else
                fprintf(f, "    if (!st_%s) st_ = fac__save(&n->v_%s, %s);\n", cond, n, from);
            break;
        case T_TENSORS: fprintf(f, "    if (!st_) st_ = fac__save_list(&n->v_%s, %s);\n", n, from); break;
        case T_INTS: fprintf(f, "    if (!st_) st_ = fac__save_ints(&n->v_%s, %s);\n", n, from); break;
        case T_SCALAR: fprintf(f, "    fac__save_scalar(&n->v_%s, %s);\n", n, from); break;
        case T_OPT_NUM: fprintf(f, "    fac__save_opt_num(&n->v_%s, %s);\n", n, from); break;
        case T_STRING:
            fprintf(f, "    if (!st_ && %s && !(n->v_%s = fac__strdup(%s))) st_ = fac_error();\n", from, n, from);
            break;
        case T_FLOATS: die(o->e->file, o->e->line, "%s: a list of floats cannot be saved", o->s->full); break;
        default: fprintf(f, "    n->v_%s = %s;\n", n, from); break;
        }
    if (v->use->used[SAVE_SIZES])
        fprintf(f, "    if (!st_) st_ = fac__save_sizes%s(&n->sizes_%s, %s);\n", v->t == T_TENSORS ? "_list" : "", n,
                from);
    if (v->use->used[SAVE_STRIDES])
        fprintf(f, "    if (!st_) st_ = fac__save_ints(&n->strides_%s, fac__strides_now(%s));\n", n, from);
    if (v->use->used[SAVE_OFFSET]) fprintf(f, "    n->offset_%s = fac__offset_now(%s);\n", n, from);
    if (v->use->used[SAVE_NUMEL]) fprintf(f, "    n->numel_%s = fac__numel_now(%s);\n", n, from);
    if (v->use->used[SAVE_NDIM]) fprintf(f, "    n->ndim_%s = fac__ndim_now(%s);\n", n, from);
    if (v->use->used[SAVE_DTYPE]) fprintf(f, "    n->dtype_%s = fac__dtype_now(%s);\n", n, from);
}

static void emit_any(FILE *f, const op *o) {
    const char *sep = "";
    for (size_t i = 0; i < o->s->n_args; i++) {
        if (!is_edge(o, i)) continue;
        fprintf(f, o->s->args[i].type.list ? "%sfac__any_requires_grad(%s)" : "%sfac__requires_grad(%s)", sep,
                arg_name(o, i));
        sep = " || ";
    }
    if (!sep[0]) fputs("false", f);
}

/* Tensor arguments without a formula may not require a gradient. */
static void emit_unsupported(FILE *f, const op *o) {
    for (size_t i = 0; i < o->s->n_args; i++) {
        const fac_schema_arg *a = &o->s->args[i];
        if (a->type.kind != FAC_TYPE_TENSOR || formula_of(o, i)) continue;
        fprintf(f, a->type.list ? "    if (fac__any_requires_grad(%s))\n" : "    if (fac__requires_grad(%s))\n",
                a->name);
        fprintf(f, "        return fac__not_differentiable(\"%s\", \"it has no gradient with respect to '%s'\");\n",
                o->s->name, a->name);
    }
}

static void emit_connect(FILE *f, const op *o) {
    for (size_t i = 0; i < o->s->n_args; i++) {
        if (!is_edge(o, i)) continue;
        const char *n = arg_name(o, i);
        if (o->s->args[i].type.list)
            fprintf(
                f,
                "    n->count_%s = %s.n;\n    for (size_t i_ = 0; i_ < %s.n && !st_; i_++) st_ = fac__node_connect(&n->node, %s + (uint32_t)i_, %s.v[i_]);\n",
                n, n, n, edge_of(o, i, ""), n);
        else
            fprintf(f, "    if (!st_) st_ = fac__node_connect(&n->node, %s, %s);\n", edge_of(o, i, ""), n);
    }
}

static void emit_below(FILE *f, const op *o) {
    fputs("    const fac_keyset was_ = th_->exclude;\n    th_->exclude = was_ | FAC_KS_AUTOGRAD;\n", f);
    fprintf(f, "    st_ = fac__redispatch_%s(%s);\n    th_->exclude = was_;\n", o->id, args(o, "below_", "res_"));
}

/* Copies of the statistics that the operator moves, to be put back if the recording fails after it. */
static void emit_keep(FILE *f, const op *o) {
    size_t n = 0;
    if (!o->e->updates) return;
    fputs("    fac_tensor *const moved_[] = {", f);
    for (char **u = o->e->updates; *u; u++) fprintf(f, "%s%s", n++ ? ", " : "", *u);
    fprintf(f, "};\n    fac_tensor *kept_[%zu] = {NULL};\n    FAC_TRY(fac__keep_values(moved_, kept_, %zu));\n", n, n);
}

static void emit_functional_record(FILE *f, const op *o, const field *v, size_t n) {
    fputs("    fac_status st_;\n", f);
    emit_keep(f, o);
    emit_below(f, o);
    if (o->e->updates)
        fputs("    if (FAC_UNLIKELY(st_)) return fac__put_back(moved_, kept_, FAC_COUNT(kept_), st_);\n", f);
    else
        fputs("    if (FAC_UNLIKELY(st_)) return st_;\n", f);
    const char *outputs = returns_list(o) ? "(uint32_t)res_->n" : xformat("%zu", o->s->n_rets);
    fprintf(f, "    %s_node *n = (%s_node *)fac__node_new(th_, &%s_class, %s, %s);\n", o->id, o->id, o->id,
            edge_of(o, o->s->n_args, ""), outputs);
    fputs("    if (FAC_UNLIKELY(!n)) st_ = fac_error();\n    else {\n", f);
    emit_connect(f, o);
    for (size_t i = 0; i < n; i++) {
        bool result = v[i].result >= 0;
        const char *from = !result           ? v[i].name
                           : returns_list(o) ? "((fac_tensors){res_->v, res_->n})"
                                             : xformat("res_[%d]", v[i].result);
        if (!result) emit_save(f, o, &v[i], from, SAVE_INPUT);
    }
    if (returns_list(o))
        fputs(
            "    for (size_t i_ = 0; i_ < res_->n && !st_; i_++) st_ = fac__set_history(res_->v[i_], &n->node, (uint32_t)i_);\n",
            f);
    else
        for (size_t i = 0; i < o->s->n_rets; i++)
            fprintf(f, "    if (!st_) st_ = fac__set_history(res_[%zu], &n->node, %zu);\n", i, i);
    for (size_t i = 0; i < n; i++)
        if (v[i].result >= 0)
            emit_save(f, o, &v[i],
                      returns_list(o) ? "((fac_tensors){res_->v, res_->n})" : xformat("res_[%d]", v[i].result),
                      SAVE_OUTPUT);
    fputs("    fac__node_unref(&n->node);\n    }\n", f);
    if (returns_list(o))
        fputs("    if (FAC_UNLIKELY(st_)) fac__tensor_list_free(res_);\n", f);
    else
        fprintf(f, "    if (FAC_UNLIKELY(st_)) fac__drop_grads(res_, %zu);\n", o->s->n_rets);
    fputs(o->e->updates ? "    return fac__put_back(moved_, kept_, FAC_COUNT(kept_), st_);\n}\n"
                        : "    return st_;\n}\n",
          f);
}

static void emit_inplace_record(FILE *f, const op *o, const field *v, size_t n) {
    const char *self = arg_name(o, 0);
    bool old = o->grad->args[0].used[SAVE_VALUE];
    fprintf(f, "    fac_status st_ = fac__check_inplace(%s, true);\n    if (FAC_UNLIKELY(st_)) return st_;\n", self);
    if (old)
        fprintf(f, "    fac_tensor *old_ = NULL;\n    FAC_TRY(fac__c_clone(%s, FAC_FORMAT_DEFAULT, &old_));\n", self);
    fprintf(f, "    %s_node *n = (%s_node *)fac__node_new(th_, &%s_class, %s, 1);\n", o->id, o->id, o->id,
            edge_of(o, o->s->n_args, ""));
    fprintf(f, "    if (FAC_UNLIKELY(!n)) {\n%s        return fac_error();\n    }\n",
            old ? "        fac__unref(old_);\n" : "");
    emit_connect(f, o);
    for (size_t i = 0; i < n; i++)
        if (v[i].result < 0) emit_save(f, o, &v[i], i == 0 && old ? "old_" : v[i].name, SAVE_INPUT);
    if (old) fputs("    fac__unref(old_);\n", f);
    for (size_t i = 0; i < n; i++)
        if (v[i].result >= 0) emit_save(f, o, &v[i], self, SAVE_BEGIN);
    fputs("    fac_rebase next_ = {0};\n", f);
    fprintf(f, "    if (!st_) st_ = fac__rebase_begin(%s, &n->node, 0, &next_);\n", self);
    fputs("    if (FAC_UNLIKELY(st_)) {\n        fac__node_unref(&n->node);\n        return st_;\n    }\n", f);
    emit_below(f, o);
    fputs("    const bool ran_ = !st_;\n    st_ = fac__rebase_end(&next_, st_);\n", f);
    for (size_t i = 0; i < n; i++)
        if (v[i].result >= 0 && v[i].use->used[SAVE_VALUE])
            fprintf(f, "    if (!st_) st_ = fac__save_output_end(&n->v_%s);\n", v[i].name);
    fputs(
        "    fac__node_unref(&n->node);\n    if (FAC_UNLIKELY(st_ && ran_)) fac__drop_grads(res_, 1);\n    return st_;\n}\n",
        f);
}

/* Those that record nothing are many, and compiled small. */
static void emit_kernel_head(FILE *f, const op *o, const char *attribute) {
    fprintf(f, "static %sfac_status %s_autograd(%s) {\n", attribute, o->id, params(o, "const fac_call_info *c_"));
    fputs(
        "    fac_thread *th_ = fac__thread();\n    const fac_keyset below_ = c_->keys & fac__below(FAC_KEY_AUTOGRAD);\n",
        f);
}

void emit_any_requires_grad(FILE *f, const op *o) {
    const char *sep = "";
    for (size_t i = 0; i + o->n_out_args < o->s->n_args; i++) {
        if (o->s->args[i].type.kind != FAC_TYPE_TENSOR) continue;
        fprintf(f, o->s->args[i].type.list ? "%sfac__any_requires_grad(%s)" : "%sfac__requires_grad(%s)", sep,
                arg_name(o, i));
        sep = " || ";
    }
    if (!sep[0]) fputs("false", f);
}

static void emit_out_form(FILE *f, const op *o) {
    emit_kernel_head(f, o, "FAC_SMALL ");
    fputs("    if (fac__grad_enabled(th_)) {\n        fac_tensor *const outs_[] = {", f);
    for (size_t i = 0; i < o->n_out_args; i++) fprintf(f, "%s, ", arg_name(o, o->s->n_args - o->n_out_args + i));
    fprintf(f, "};\n        FAC_TRY(fac__check_out_form(outs_, %zu, ", o->n_out_args);
    emit_any_requires_grad(f, o);
    fprintf(f, "));\n    }\n    return fac__redispatch_%s(%s);\n}\n", o->id, args(o, "below_", "res_"));
}

/* In-place operators without a gradient: fine as long as nothing would be lost. */
static void emit_refusal(FILE *f, const op *o) {
    emit_kernel_head(f, o, "FAC_SMALL ");
    fprintf(
        f,
        "    if (fac__grad_enabled(th_) && fac__requires_grad(%s)) return fac__not_differentiable(\"%s\", \"%s\");\n",
        arg_name(o, 0), o->s->name, o->e->nondifferentiable);
    fprintf(f, "    return fac__redispatch_%s(%s);\n}\n", o->id, args(o, "below_", "res_"));
}

void emit_autograd(FILE *f, const model *m, const op *o) {
    const entry *e = o->e;
    bool writes = o->s->n_args && (o->s->args[0].type.write || o->form == FORM_OUT);
    if (e->composite || (e->nondifferentiable && !writes)) return;
    if (o->form == FORM_OUT) {
        emit_out_form(f, o);
        return;
    }
    if (!o->grad) {
        emit_refusal(f, o);
        return;
    }
    field *v = xalloc((o->s->n_args + o->s->n_rets) * sizeof *v);
    size_t n = fields_of(o, v);
    emit_struct(f, o, v, n);
    const char *release = emit_method(f, o, "release", release_body, v, n),
               *destroy = emit_method(f, o, "destroy", destroy_body, v, n);
    emit_apply(f, o, v, n);
    fprintf(
        f, "static const fac_node_class %s_class = {.name = \"%s\", .size = sizeof(%s_node), .apply = %s_apply%s%s};\n",
        o->id, node_name(m, o), o->id, o->id, release, destroy);
    emit_kernel_head(f, o, "");
    fputs("    if (FAC_LIKELY(!fac__grad_enabled(th_)))\n", f);
    fprintf(f, "        return fac__redispatch_%s(%s);\n", o->id, args(o, "below_", "res_"));
    emit_unsupported(f, o);
    fputs("    if (FAC_LIKELY(!(", f);
    emit_any(f, o);
    fprintf(f, ")))\n        return fac__redispatch_%s(%s);\n", o->id, args(o, "below_", "res_"));
    if (o->in_place)
        emit_inplace_record(f, o, v, n);
    else
        emit_functional_record(f, o, v, n);
    free(v);
}
