/* Autograd: the node that an operator records, and the kernel that records it. */
#include "opgen.h"
#include <ctype.h>

/* The formula for an argument, or NULL. */
static const formula *formula_of(const op *o, size_t arg) {
    for (size_t i = 0; o->grad && i < o->grad->n; i++)
        for (size_t j = 0; j < o->grad->v[i].args.n; j++)
            if (o->grad->v[i].args.v[j] == arg) return &o->grad->v[i];
    return NULL;
}

static bool is_edge(const op *o, size_t i) {
    const formula *g = formula_of(o, i);
    return o->s->args[i].type.kind == FAC_TYPE_TENSOR && g && g->c;
}

/* C text of the first edge that belongs to argument `arg`, their number for n_args; of a node that is, or that is to be. */
char *edge_of(const op *o, size_t arg, bool is_made) {
    size_t fixed = 0;
    char *lists = "";
    for (size_t i = 0; i < arg; i++) {
        if (!is_edge(o, i)) continue;
        const char *count = fill_at(o, i, is_made ? " + (uint32_t)node_->count_$a" : " + (uint32_t)$a.n");
        if (o->s->args[i].type.list)
            lists = xformat("%s%s", lists, count);
        else
            fixed++;
    }
    return xformat("%zu%s", fixed, lists);
}

char *any_requires_grad(const op *o, arg_test which) {
    char *any = each_kind(o, which, " || ", "$requires", "$requires", NULL);
    return *any ? any : "false";
}

/* ---- "AddBackward0" ---- */

static char *node_name(const op *o) {
    const op *fn = base_of(o);
    size_t nth = 0;
    for (const op *p = o->m->ops.v; p < fn; p++)
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
} field;

typedef LIST(field) fields;

static fields fields_of(const op *o) {
    fields k = {0};
    for (size_t i = 0; i < o->s->n_args; i++)
        PUSH(k, ((field){o->s->args[i].name, type_of(&o->s->args[i].type), &o->grad->args[i], -1}));
    for (size_t i = 0; i < o->s->n_rets; i++)
        PUSH(k, ((field){xformat("result%zu", i), is_tensor_list(&o->s->rets[i].type) ? T_TENSORS : T_TENSOR,
                         &o->grad->results[i], (int)i}));
    return k;
}

/* How a member of the node is declared, filled in and read. Tensors are released after the first backward, so that a second one
   finds out; numbers and sizes stay until the node is destroyed. */
typedef enum { DECLARE, SAVE, LOAD, RELEASE, DESTROY, HOLDER_TEXTS } holder_text;
typedef struct holder {
    const char *text[HOLDER_TEXTS];
} holder;

static const holder values[T_NONE] = {
    [T_TENSOR] = {{"fac_saved v_$v", NULL, "fac_tensor *$v_ = NULL", "fac__saved_release(&node_->v_$v)"}},
    [T_TENSORS] = {{"fac_saved_list v_$v", "if (!st_) st_ = fac__save_list(&node_->v_$v, $from)",
                    "fac_tensors $v_ = {0}", "fac__saved_list_release(&node_->v_$v)"}},
    [T_INTS] = {{"fac_saved_ints v_$v", "if (!st_) st_ = fac__save_ints(&node_->v_$v, $from)",
                 "fac_ints $v_ = fac__ints_of(&node_->v_$v)", NULL, "fac__saved_ints_release(&node_->v_$v)"}},
    [T_SCALAR] = {{"fac_saved_scalar v_$v", "fac__save_scalar(&node_->v_$v, $from)",
                   "fac_scalar $v_ = fac__scalar_of(&node_->v_$v)"}},
    [T_OPT_NUM] = {{"fac_saved_opt_num v_$v", "fac__save_opt_num(&node_->v_$v, $from)",
                    "fac_opt_num $v_ = fac__opt_num_of(&node_->v_$v)"}},
    [T_STRING] = {{"char *v_$v", "if (!st_ && $from && !(node_->v_$v = fac__strdup($from))) st_ = fac_error()",
                   "const char *$v_ = node_->v_$v", NULL, "fac__free(node_->v_$v)"}},
};
static const holder metadata[SAVE_KINDS] = {
    [SAVE_SIZES] = {{"fac_saved_ints sizes_$v", "if (!st_) st_ = fac__save_sizes(&node_->sizes_$v, $from)", NULL, NULL,
                     "fac__saved_ints_release(&node_->sizes_$v)"}},
    [SAVE_STRIDES] = {{"fac_saved_ints strides_$v",
                       "if (!st_) st_ = fac__save_ints(&node_->strides_$v, fac__strides_now($from))", NULL, NULL,
                       "fac__saved_ints_release(&node_->strides_$v)"}},
    [SAVE_OFFSET] = {{"int64_t offset_$v", "node_->offset_$v = fac__offset_now($from)"}},
    [SAVE_NUMEL] = {{"int64_t numel_$v", "node_->numel_$v = fac__numel_now($from)"}},
    [SAVE_NDIM] = {{"int64_t ndim_$v", "node_->ndim_$v = fac__ndim_now($from)"}},
    [SAVE_DTYPE] = {{"fac_dtype dtype_$v", "node_->dtype_$v = fac__dtype_now($from)"}},
    [SAVE_DEVICE] = {{"fac_device device_$v", "node_->device_$v = fac__device_now($from)"}},
};
static const holder sizes_of_list = {{"fac_saved_sizes_list sizes_$v",
                                      "if (!st_) st_ = fac__save_sizes_list(&node_->sizes_$v, $from)", NULL, NULL,
                                      "fac__saved_sizes_list_release(&node_->sizes_$v)"}};

/* C condition under which the value of v is wanted: that some edge whose formula reads it has a receiver, which `test` tells of
   one argument. NULL if every edge does, or v is not a single tensor. */
static char *wanted(const op *o, const field *v, const char *test) {
    char *text = "";
    bool all = true;
    for (size_t i = 0; i < o->grad->n && v->t == T_TENSOR; i++) {
        const formula *g = &o->grad->v[i];
        const bool reads = v->use->formulas >> i & 1;
        all = all && (reads || !g->c);
        for (size_t j = 0; reads && g->c && j < g->args.n; j++)
            text = joined(text, " || ", fill_at(o, g->args.v[j], test));
    }
    return all || !*text ? NULL : text;
}

static char *save_tensor(const op *o, const field *v) {
    const char *condition = wanted(o, v, "$requires");
    if (v->result >= 0) /* of an in-place form what will be written over $from */
        return xformat("if (!st_) st_ = fac__save_output%s(&node_->v_$v, $from, %d)", o->in_place ? "_begin" : "",
                       v->result);
    return xformat("if (!st_%s%s%s) st_ = fac__save(&node_->v_$v, $from)", condition ? " && (" : "",
                   condition ? condition : "", condition ? ")" : "");
}

static holder holder_of(const op *o, const field *v, save_kind kind) {
    if (kind != SAVE_VALUE) return kind == SAVE_SIZES && v->t == T_TENSORS ? sizes_of_list : metadata[kind];
    if (v->t == T_FLOATS) die(o->e->file, o->e->line, "%s: a list of floats cannot be saved", o->s->full);
    holder h = values[v->t];
    if (v->t == T_TENSOR) h.text[SAVE] = save_tensor(o, v);
    if (h.text[DECLARE]) return h;
    const char *type = spelt[v->t].c;
    return (holder){{xformat("%sv_$v", type), "node_->v_$v = $from", xformat("%s$v_ = node_->v_$v", type)}};
}

static void emit_held(FILE *f, const op *o, const field *v, holder_text which, const char *from) {
    for (save_kind kind = 0; kind < SAVE_KINDS; kind++) {
        const char *text = v->use->used[kind] ? holder_of(o, v, kind).text[which] : NULL;
        if (text) fprintf(f, "    %s;\n", fill_words((words){o, .v = v->name, .from = from}, text));
    }
}

static void emit_struct(FILE *f, const op *o, const fields *k) {
    emit(f, o, "typedef struct $id_node {\n    fac_node node;\n");
    for (size_t i = 0; i < k->n; i++) emit_held(f, o, &k->v[i], DECLARE, NULL);
    emit(f, o, "%s} $id_node;\n", each_kind(o, is_edge, "", "    size_t count_$a;\n", NULL, NULL));
}

/* A function of the node's class made of a text of each member. Its line in the class, "" if there is nothing to do. */
static char *emit_method(FILE *f, const op *o, const char *name, holder_text which, const fields *k) {
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    for (size_t i = 0; i < k->n; i++) emit_held(to, o, &k->v[i], which, NULL);
    fclose(to);
    if (!size) return text;
    emit(f, o, "static void $id_%s(fac_node *raw_node_) {\n    $id_node *node_ = ($id_node *)raw_node_;\n%s}\n", name,
         text);
    return xformat(", .%s = %s_%s", name, o->id, name);
}

/* ---- running backward ---- */

/* The template for each argument of a formula; $v is its number there. */
static char *each_of(const op *o, const formula *g, const char *sep, const char *text) {
    char *made = "";
    for (size_t j = 0; j < g->args.n; j++)
        made = joined(made, sep, fill_words((words){o, .i = g->args.v[j], .v = xformat("%zu", j)}, text));
    return made;
}

static void emit_fill(FILE *f, const op *o, const formula *g) {
    const words first = {o, .i = g->args.v[0]};
    const bool list = is_tensor_list(&o->s->args[first.i].type);
    const char *room =
        list ? "fac_tensor **g_ = fac__alloc_zero(node_->count_$a * sizeof *g_ + 1);\n        if (!g_) goto failed_"
             : xformat("fac_tensor *g_[%zu] = {NULL}", g->args.n);
    fprintf(f, "    if (%s) {\n        %s;\n#line %d \"%s\"\n", each_of(o, g, " || ", "needs_$a_"),
            fill_words(first, room), g->line, o->e->file);
    if (g->multi) {
        fprintf(f, "        %sr_ = %s;\n        fac_status st_ = fac_error();\n", result_type(g->multi), g->c);
        for (size_t j = 0; j < g->args.n && j < g->multi->s->n_rets; j++)
            fprintf(f, "        g_[%zu] = r_.%s;\n", j, result_field(g->multi, j));
    } else
        fprintf(f, "        fac_status st_ = %s;\n", g->c);
    fputs("#line 0\n", f);
    if (list)
        fputs(fill_words(first, "        for (size_t i_ = 0; i_ < node_->count_$a && !st_; i_++)\n"
                                "            if (fac__node_needs(raw_node_, $edge + (uint32_t)i_)) "
                                "st_ = fac__emit_grad(g_[i_], &out_[$edge + (uint32_t)i_]);\n        fac__free(g_);\n"),
              f);
    else
        fputs(each_of(o, g, "", "        if (!st_ && needs_$a_) st_ = fac__emit_grad(g_[$v], &out_[$edge]);\n"), f);
    fputs("        if (FAC_UNLIKELY(st_)) goto failed_;\n    }\n", f);
}

static void emit_formula(FILE *f, const op *o, const formula *g) {
    if (!g->c) return;
    if (g->fills || g->multi) {
        emit_fill(f, o, g);
        return;
    }
    const words w = {o, .i = g->args.v[0]};
    fprintf(f, "%s#line %d \"%s\"\n        fac_tensor *r_ = %s;\n#line 0\n%s", fill_words(w, "    if (needs_$a_) {\n"),
            g->line, o->e->file, g->c,
            fill_words(w, "        if (FAC_UNLIKELY(fac__emit_grad(r_, &out_[$edge]))) goto failed_;\n    }\n"));
}

/* The gradients of the results, as far as a formula reads them. */
static void emit_grads(FILE *f, const op *o) {
    for (size_t i = 0; i < o->s->n_rets && !returns_list(o); i++)
        if (o->grad->grads_used >> i & 1)
            emit_at(f, o, i,
                    o->s->n_rets == 1 ? "    fac_tensor *grad0_ = in_[0];\n"
                                      : "    fac_tensor *grad$i_ = fac__grad_or_zeros(raw_node_, in_, $i);\n"
                                        "    if (FAC_UNLIKELY(!grad$i_)) goto failed_;\n");
    if (o->grad->uses_grad_list) fputs("    fac_tensors grads_ = {in_, raw_node_->n_outputs};\n", f);
}

static void emit_unpack(FILE *f, const op *o, const field *v) {
    const char *condition = wanted(o, v, "needs_$a_");
    if (!v->use->used[SAVE_VALUE] || (v->t != T_TENSOR && v->t != T_TENSORS)) return;
    fprintf(f, condition ? "    if ((%s) && " : "    if (", condition);
    fputs(fill_words((words){o, .v = v->name, .from = v->t == T_TENSORS ? "_list" : ""},
                     "FAC_UNLIKELY(fac__unpack$from(&node_->v_$v, raw_node_, \"$v\", &$v_))) goto failed_;\n"),
          f);
}

static void emit_apply(FILE *f, const op *o, const fields *k) {
    emit(
        f, o,
        "static fac_status $id_apply(fac_node *raw_node_, fac_tensor *const *in_, fac_tensor **out_) {\n"
        "    $id_node *node_ = ($id_node *)raw_node_;\n    fac_scope scope_ = fac_scope_begin();\n    (void)node_;\n%s",
        each_kind(
            o, is_edge, "",
            "    bool needs_$a_ = false;\n"
            "    for (size_t i_ = 0; i_ < node_->count_$a; i_++) needs_$a_ = needs_$a_ || fac__node_needs(raw_node_, "
            "$edge + (uint32_t)i_);\n",
            "    const bool needs_$a_ = fac__node_needs(raw_node_, $edge);\n", NULL));
    for (size_t i = 0; i < k->n; i++) emit_held(f, o, &k->v[i], LOAD, NULL);
    emit_grads(f, o);
    fputs("    (void)in_;\n", f);
    for (size_t i = 0; i < k->n; i++) emit_unpack(f, o, &k->v[i]);
    for (size_t i = 0; i < o->grad->n; i++) emit_formula(f, o, &o->grad->v[i]);
    fputs("    fac_scope_end(&scope_);\n    return FAC_OK;\nfailed_:\n    fac_scope_end(&scope_);\n"
          "    fac__drop_grads(out_, raw_node_->n_edges);\n    return fac_error();\n}\n",
          f);
}

/* ---- recording ---- */

static void emit_connect(FILE *f, const op *o) {
    emit_each(f, o, is_edge,
              "    node_->count_$a = $a.n;\n"
              "    for (size_t i_ = 0; i_ < $a.n && !st_; i_++) st_ = fac__node_connect(&node_->node, $newedge + "
              "(uint32_t)i_, $a.v[i_]);\n",
              "    if (!st_) st_ = fac__node_connect(&node_->node, $newedge, $a);\n", NULL);
}

static void emit_below(FILE *f, const op *o) {
    emit(f, o,
         "    const fac_keyset was_ = th_->exclude;\n    th_->exclude = was_ | FAC_KS_AUTOGRAD;\n"
         "    st_ = fac__redispatch_$id(below_$,args);\n    th_->exclude = was_;\n");
}

/* Copies of the statistics that the operator moves, to be put back if the recording fails after it. */
static void emit_keep(FILE *f, const op *o) {
    size_t n = 0;
    if (!o->e->updates) return;
    fputs("    fac_tensor *const moved_[] = {", f);
    for (char **u = o->e->updates; *u; u++) fprintf(f, "%s%s", n++ ? ", " : "", *u);
    fprintf(f, "};\n    fac_tensor *kept_[%zu] = {NULL};\n    FAC_TRY(fac__keep_values(moved_, kept_, %zu));\n", n, n);
}

/* Whether the result is differentiable: what the entry says, or else whether a formula reads its gradient. */
static bool has_history(const op *o, size_t result) {
    const grad_plan *g = o->grad;
    if (o->e->output_differentiability) return strcmp(o->e->output_differentiability[result], "True") == 0;
    return g->uses_grad_list || !g->grads_used || g->grads_used >> result & 1;
}

static void emit_functional_record(FILE *f, const op *o, const fields *k) {
    const bool list = returns_list(o);
    const char *put_back = o->e->updates ? "fac__put_back(moved_, kept_, FAC_COUNT(kept_), st_)" : "st_";
    fputs("    fac_status st_;\n", f);
    emit_keep(f, o);
    emit_below(f, o);
    emit(f, o,
         "    if (FAC_UNLIKELY(st_)) return %s;\n"
         "    $id_node *node_ = ($id_node *)fac__node_new(th_, &$id_class, $newedges, %s);\n"
         "    if (FAC_UNLIKELY(!node_)) st_ = fac_error();\n    else {\n",
         put_back, list ? "(uint32_t)res_->n" : fill(o, "$rets"));
    emit_connect(f, o);
    for (size_t i = 0; i < o->s->n_args; i++) emit_held(f, o, &k->v[i], SAVE, k->v[i].name);
    if (list)
        fputs("    for (size_t i_ = 0; i_ < res_->n && !st_; i_++) st_ = fac__set_history(res_->v[i_], &node_->node, "
              "(uint32_t)i_);\n",
              f);
    for (size_t i = 0; i < o->s->n_rets && !list; i++)
        if (has_history(o, i)) emit_at(f, o, i, "    if (!st_) st_ = fac__set_history(res_[$i], &node_->node, $i);\n");
    for (size_t i = o->s->n_args; i < k->n; i++)
        emit_held(f, o, &k->v[i], SAVE,
                  list ? "((fac_tensors){res_->v, res_->n})" : xformat("res_[%d]", k->v[i].result));
    emit(f, o,
         list
             ? "    fac__node_unref(&node_->node);\n    }\n    if (FAC_UNLIKELY(st_)) fac__tensor_list_free(res_);\n"
             : "    fac__node_unref(&node_->node);\n    }\n    if (FAC_UNLIKELY(st_)) fac__drop_grads(res_, $rets);\n");
    fprintf(f, "    return %s;\n}\n", put_back);
}

static void emit_inplace_record(FILE *f, const op *o, const fields *k) {
    const field *result = &k->v[o->s->n_args];
    const bool old = o->grad->args[0].used[SAVE_VALUE];
    emit(f, o, "    fac_status st_ = fac__check_inplace($self, true);\n    if (FAC_UNLIKELY(st_)) return st_;\n");
    if (old) emit(f, o, "    fac_tensor *old_ = NULL;\n    FAC_TRY(fac__c_clone($self, FAC_FORMAT_DEFAULT, &old_));\n");
    emit(f, o,
         "    $id_node *node_ = ($id_node *)fac__node_new(th_, &$id_class, $newedges, 1);\n"
         "    if (FAC_UNLIKELY(!node_)) {\n%s        return fac_error();\n    }\n",
         old ? "        fac__unref(old_);\n" : "");
    emit_connect(f, o);
    for (size_t i = 0; i < o->s->n_args; i++) emit_held(f, o, &k->v[i], SAVE, i == 0 && old ? "old_" : k->v[i].name);
    if (old) fputs("    fac__unref(old_);\n", f);
    emit_held(f, o, result, SAVE, o->s->args[0].name);
    emit(f, o,
         "    fac_rebase next_ = {0};\n    if (!st_) st_ = fac__rebase_begin($self, &node_->node, 0, &next_);\n"
         "    if (FAC_UNLIKELY(st_)) {\n        fac__node_unref(&node_->node);\n        return st_;\n    }\n");
    emit_below(f, o);
    fputs("    const bool ran_ = !st_;\n    st_ = fac__rebase_end(&next_, st_);\n", f);
    if (result->use->used[SAVE_VALUE])
        fprintf(f, "    if (!st_) st_ = fac__save_output_end(&node_->v_%s);\n", result->name);
    fputs("    fac__node_unref(&node_->node);\n    if (FAC_UNLIKELY(st_ && ran_)) fac__drop_grads(res_, 1);\n"
          "    return st_;\n}\n",
          f);
}

/* Those that record nothing are many, and compiled small. */
static void emit_kernel_head(FILE *f, const op *o, const char *attribute) {
    emit(f, o,
         "static %sfac_status $id_autograd(const fac_call_info *c_$,params) {\n    fac_thread *th_ = fac__thread();\n"
         "    const fac_keyset below_ = c_->keys & fac__below(FAC_KEY_AUTOGRAD);\n",
         attribute);
}

static void emit_out_form(FILE *f, const op *o) {
    emit_kernel_head(f, o, "FAC_SMALL ");
    emit(f, o,
         "    if (fac__grad_enabled(th_)) {\n        fac_tensor *const outs_[] = {%s};\n"
         "        FAC_TRY(fac__check_out_form(outs_, $outs, %s));\n    }\n"
         "    return fac__redispatch_$id(below_$,args);\n}\n",
         each(o, is_out, "", "$a, "), any_requires_grad(o, is_input));
}

/* In-place operators without a gradient: fine as long as nothing would be lost. */
static void emit_refusal(FILE *f, const op *o) {
    emit_kernel_head(f, o, "FAC_SMALL ");
    emit(f, o,
         "    if (fac__grad_enabled(th_) && $requires) return "
         "fac__not_differentiable(\"$name\", \"%s\");\n"
         "    return fac__redispatch_$id(below_$,args);\n}\n",
         o->e->nondifferentiable);
}

static bool lacks_gradient(const op *o, size_t i) { return !formula_of(o, i); }

static void emit_recording(FILE *f, const op *o) {
    static const char unsupported[] =
        "    if ($requires)\n"
        "        return fac__not_differentiable(\"$name\", \"it has no gradient with respect to '$a'\");\n";
    const fields k = fields_of(o);
    emit_struct(f, o, &k);
    const char *release = emit_method(f, o, "release", RELEASE, &k),
               *destroy = emit_method(f, o, "destroy", DESTROY, &k);
    emit_apply(f, o, &k);
    emit(f, o,
         "static const fac_node_class $id_class = {.name = \"%s\", .size = sizeof($id_node), .apply = "
         "$id_apply%s%s};\n",
         node_name(o), release, destroy);
    emit_kernel_head(f, o, "");
    emit(f, o,
         "    if (FAC_LIKELY(!fac__grad_enabled(th_)))\n        return fac__redispatch_$id(below_$,args);\n%s"
         "    if (FAC_LIKELY(!(%s)))\n        return fac__redispatch_$id(below_$,args);\n",
         each_kind(o, lacks_gradient, "", unsupported, unsupported, NULL), any_requires_grad(o, is_edge));
    (o->in_place ? emit_inplace_record : emit_functional_record)(f, o, &k);
}

void emit_autograd(FILE *f, const op *o) {
    const bool writes_first = o->s->n_args && (is_written(o, 0) || o->form == FORM_OUT);
    if (o->e->composite || (o->e->nondifferentiable && !writes_first)) return;
    if (o->form == FORM_OUT)
        emit_out_form(f, o);
    else if (o->grad)
        emit_recording(f, o);
    else
        emit_refusal(f, o);
}
