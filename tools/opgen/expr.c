/* Gradient expressions: parsed, typed against the operators, and turned into C. What a formula reads of the forward is
   collected on the way, so that the node saves that and nothing else. Grammar and built-ins: docs/operators.md. */
#include "opgen.h"
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>

formula_fn_list formula_fns;

typedef struct val {
    etype t;
    char *c;     /* NULL only for T_NONE */
    int arg;     /* index of the forward argument if this is just its name, else -1 */
    int result;  /* likewise for a result */
    bool smooth; /* a tensor that depends on what has a gradient */
} val;

typedef struct reader {
    const model *m;
    const op *o;
    grad_plan *plan;
    formula *f;
    const char *p, *start;
    int line;
    bool want_many;  /* the outermost call should fill several gradients */
    const op *multi; /* set by it: the operator with several results */
    bool fills;      /* set by it: a C function that fills */
} reader;

static void fail(reader *r, const char *what) {
    die(r->o->e->file, r->line, "%s: in gradient '%s' at column %d: %s", r->o->s->full, r->start,
        (int)(r->p - r->start) + 1, what);
}

static void space(reader *r) {
    while (isspace((unsigned char)*r->p)) r->p++;
}

static bool eat(reader *r, char c) {
    space(r);
    if (*r->p != c) return false;
    r->p++;
    return true;
}

static void need(reader *r, char c) {
    if (!eat(r, c)) fail(r, xformat("expected '%c'", c));
}

static val make(etype t, char *c) { return (val){t, c, -1, -1, false}; }

/* ---- conversions ---- */

/* C text of v as type t; NULL if it cannot be. *cost counts conversions, for choosing an overload. */
static char *coerce(const val *v, etype t, int *cost) {
    static const struct {
        etype from, to;
        const char *text;
    } conversions[] = {{T_INT, T_FLOAT, "(double)($v)"},          {T_INT, T_SCALAR, "fac_scalar_i_($v)"},
                       {T_INT, T_OPT_INT, "fac_opt_int_($v)"},    {T_INT, T_INTS, "FAC_INTS($v)"},
                       {T_FLOAT, T_SCALAR, "fac_scalar_f_($v)"},  {T_BOOL, T_SCALAR, "fac_scalar_b_($v)"},
                       {T_SCALAR, T_FLOAT, "fac__scalar_f64($v)"}};
    if (v->t == t) return v->c;
    ++*cost;
    if (v->t == T_NONE) return xformat("%s", spelt[t].none);
    if (t == T_OPT_NUM) {
        char *s = coerce(v, T_SCALAR, &(int){0});
        return s ? xformat("fac_opt_num_(%s)", s) : NULL;
    }
    for (size_t i = 0; i < FAC_COUNT(conversions); i++)
        if (conversions[i].from == v->t && conversions[i].to == t)
            return fill_words((words){.v = v->c}, conversions[i].text);
    return NULL;
}

/* ---- names ---- */

const char *gradient_of(const op *o, const char *arg) {
    size_t n = strlen(arg);
    for (size_t i = 0; i < o->e->grad.n; i++)
        for (const char *key = o->e->grad.v[i].key, *at = key; (at = strstr(at, arg)); at++)
            if ((at == key || strchr(" ,", at[-1])) && (!at[n] || strchr(" ,", at[n]))) return o->e->grad.v[i].value;
    return NULL;
}

static val smooth(val v) {
    v.smooth = v.t == T_TENSOR || v.t == T_TENSORS;
    return v;
}

/* Results beyond the first are as often indices, so nothing is said of them. */
static val result_value(reader *r, size_t i) {
    val v = make(is_tensor_list(&r->o->s->rets[i].type) ? T_TENSORS : T_TENSOR, xformat("result%zu_", i));
    v.result = (int)i;
    return i == 0 ? smooth(v) : v;
}

/* "[i]", or 0 where there is none. */
static size_t index_of(reader *r, const fac_schema *s) {
    if (!eat(r, '[')) return 0;
    char *end;
    const size_t i = strtoul(r->p, &end, 10);
    r->p = end;
    need(r, ']');
    if (i >= s->n_rets) fail(r, "the operator has no such result");
    return i;
}

static val argument_value(reader *r, size_t i) {
    const char *name = r->o->s->args[i].name, *gradient = gradient_of(r->o, name);
    val v = make(type_of(&r->o->s->args[i].type), xformat("%s_", name));
    v.arg = (int)i;
    return gradient && strcmp(gradient, "None") ? smooth(v) : v;
}

static val name_value(reader *r, const char *name) {
    const fac_schema *s = r->o->s;
    if (strcmp(name, "True") == 0) return make(T_BOOL, "true");
    if (strcmp(name, "False") == 0) return make(T_BOOL, "false");
    if (strcmp(name, "None") == 0) return make(T_NONE, NULL);
    if (strcmp(name, "result") == 0) return result_value(r, index_of(r, s));
    if (strcmp(name, "grads") == 0) {
        r->plan->uses_grad_list = true;
        return smooth(make(T_TENSORS, "grads_"));
    }
    if (strcmp(name, "grad") == 0) {
        const size_t i = index_of(r, s);
        r->plan->grads_used |= 1u << i;
        return smooth(make(T_TENSOR, xformat("grad%zu_", i)));
    }
    const int a = find_arg(s, name);
    if (a >= 0) return argument_value(r, (size_t)a);
    for (size_t i = 0; i < s->n_rets; i++)
        if (strcmp(s->rets[i].name, name) == 0) return result_value(r, i);
    fail(r, xformat("'%s' is neither an argument nor a result", name));
    return make(T_NONE, NULL);
}

/* Marks what the value reads. */
static void use(reader *r, const val *v, save_kind kind) {
    saved_use *u = v->arg >= 0 ? &r->plan->args[v->arg] : v->result >= 0 ? &r->plan->results[v->result] : NULL;
    if (!u) return;
    u->used[kind] = true;
    if (kind == SAVE_VALUE) u->formulas |= (uint64_t)1 << r->plan->n; /* the one being read */
}

static const char *origin(reader *r, const val *v) {
    return v->arg >= 0 ? r->o->s->args[v->arg].name : xformat("result%d", v->result);
}

/* ---- calls ---- */

typedef struct call_args {
    val *v;
    size_t n;
    texts names; /* NULL for positional */
} call_args;

static val expression(reader *r);

static char *identifier(reader *r) {
    space(r);
    const char *b = r->p;
    r->p = word_end(b);
    return cut(b, r->p);
}

static call_args read_args(reader *r) {
    call_args a = {0};
    if (eat(r, ')')) return a;
    do {
        space(r);
        const char *save = r->p;
        char *name = isalpha((unsigned char)*r->p) || *r->p == '_' ? identifier(r) : NULL;
        space(r);
        if (name && *r->p == '=')
            r->p++;
        else {
            r->p = save;
            name = NULL;
        }
        PUSH(a.names, name);
        PUSH(a, expression(r));
    } while (eat(r, ','));
    need(r, ')');
    return a;
}

static void use_index(reader *r, const val *v) {
    if (v->t != T_INT) fail(r, "the number of a dimension is needed here");
    use(r, v, SAVE_VALUE);
}

/* The shape-and-type built-ins: of a forward's tensor read from what the node keeps, of a computed one there and then. True if
   `name` is one. */
static bool metadata_call(reader *r, const char *name, const call_args *a, val *out) {
    static const struct {
        const char *name;
        save_kind kind;
        size_t n;
        etype t;
        const char *kept, *now;
    } table[] = {
        {"sizes", SAVE_SIZES, 1, T_INTS, "fac__ints_of(&node_->sizes_$v)", "fac__sizes_now($v)"},
        {"size", SAVE_SIZES, 2, T_INT, "fac__at(fac__ints_of(&node_->sizes_$v), $from)",
         "fac__at(fac__sizes_now($v), $from)"},
        {"numel", SAVE_NUMEL, 1, T_INT, "node_->numel_$v", "fac__numel_now($v)"},
        {"ndim", SAVE_NDIM, 1, T_INT, "node_->ndim_$v", "fac__ndim_now($v)"},
        {"dtype", SAVE_DTYPE, 1, T_DTYPE, "node_->dtype_$v", "fac__dtype_now($v)"},
        {"device", SAVE_DEVICE, 1, T_DEVICE, "node_->device_$v", "fac__device_now($v)"},
        {"strides", SAVE_STRIDES, 1, T_INTS, "fac__ints_of(&node_->strides_$v)", "fac__strides_now($v)"},
        {"offset", SAVE_OFFSET, 1, T_INT, "node_->offset_$v", "fac__offset_now($v)"},
    };
    size_t i = 0;
    while (i < FAC_COUNT(table) && strcmp(name, table[i].name)) i++;
    if (i == FAC_COUNT(table)) return false;
    if (a->n != table[i].n) fail(r, "wrong number of arguments");
    const val *x = &a->v[0];
    const bool is_computed = x->arg < 0 && x->result < 0;
    if (is_computed && x->t != T_TENSOR) fail(r, "a tensor is needed here");
    use(r, x, table[i].kind);
    if (a->n == 2) use_index(r, &a->v[1]);
    const words w = {.v = is_computed ? x->c : origin(r, x), .from = a->v[a->n - 1].c};
    *out = make(table[i].t, fill_words(w, is_computed ? table[i].now : table[i].kept));
    if (x->t == T_TENSORS && table[i].kind == SAVE_SIZES) *out = make(T_SIZES_LIST, fill_words(w, "&node_->sizes_$v"));
    return true;
}

/* needs(argument): whether its gradient is wanted. */
static bool needs_call(reader *r, const char *name, const call_args *a, val *out) {
    if (strcmp(name, "needs") != 0) return false;
    if (a->n != 1 || a->v[0].arg < 0) fail(r, "needs() takes the name of an argument");
    *out = make(T_BOOL, xformat("needs_%s_", r->o->s->args[a->v[0].arg].name));
    return true;
}

static size_t n_of_type(const call_args *a, etype t) {
    size_t n = 0;
    for (size_t i = 0; i < a->n; i++) n += a->v[i].t == t;
    return n;
}

/* Arithmetic on numbers; integers wrap, as a caller may give any. True if `name` is one and all arguments are numbers. */
static bool number_call(reader *r, const char *name, const call_args *a, val *out) {
    static const struct {
        const char *name;
        size_t n;
        const char *ints, *floats; /* as C */
    } table[] = {{"conj", 1, "(($v))", "(($v))"},
                 {"neg", 1, "(int64_t)(0 - (uint64_t)($v))", "(-($v))"},
                 {"add", 2, "(int64_t)((uint64_t)$v + (uint64_t)$from)", "((double)$v + (double)$from)"},
                 {"sub", 2, "(int64_t)((uint64_t)$v - (uint64_t)$from)", "((double)$v - (double)$from)"},
                 {"mul", 2, "(int64_t)((uint64_t)$v * (uint64_t)$from)", "((double)$v * (double)$from)"},
                 {"div", 2, NULL, "((double)$v / (double)$from)"}};
    size_t i = 0;
    while (i < FAC_COUNT(table) && (strcmp(name, table[i].name) || a->n != table[i].n)) i++;
    const size_t ints = n_of_type(a, T_INT), scalars = n_of_type(a, T_SCALAR);
    if (i == FAC_COUNT(table) || ints + scalars + n_of_type(a, T_FLOAT) < a->n) return false;
    for (size_t j = 0; j < a->n; j++) use(r, &a->v[j], SAVE_VALUE);
    const words w = {.v = a->v[0].c, .from = a->v[a->n - 1].c};
    const bool whole = ints == a->n && table[i].ints;
    if (scalars) {
        char *list = coerce(&a->v[0], T_SCALAR, &(int){0});
        if (a->n == 2) list = listed(list, coerce(&a->v[1], T_SCALAR, &(int){0}));
        *out = make(T_SCALAR, xformat("fac__scalar_%s(%s, (double[2]){0})", name, list));
    } else
        *out = make(whole ? T_INT : T_FLOAT, fill_words(w, whole ? table[i].ints : table[i].floats));
    return true;
}

/* The value that a call gives to argument i of `o`, or NULL. */
static const val *given_to(const op *o, size_t i, const call_args *a) {
    const fac_schema_arg *to = &o->s->args[i];
    const val *v = i < a->n && !a->names.v[i] && !to->kwarg_only ? &a->v[i] : NULL;
    for (size_t j = 0; j < a->n; j++)
        if (a->names.v[j] && strcmp(a->names.v[j], to->name) == 0) v = &a->v[j];
    return v;
}

/* The C text of argument i when `o` is called with `a`, or NULL if none fits; *cost as in coerce. */
static char *fit_one(const op *o, size_t i, const call_args *a, int *cost) {
    const fac_schema_arg *to = &o->s->args[i];
    const val *v = given_to(o, i, a);
    if (!v) return to->default_text ? default_c(o, to) : NULL;
    return v->t == T_NONE && !to->type.optional ? NULL : coerce(v, type_of(&to->type), cost);
}

static char *fit(const op *o, const call_args *a, int *cost) {
    char *text = "";
    size_t used = 0;
    for (size_t i = 0; i < o->s->n_args; i++) {
        const char *one = fit_one(o, i, a, cost);
        if (!one) return NULL;
        used += given_to(o, i, a) != NULL;
        text = listed(text, one);
    }
    return used == a->n ? text : NULL;
}

/* Notes that the formula calls `o`, and whether what it depends on would be lost there. */
static void note_call(reader *r, const op *o, const call_args *a) {
    PUSH(r->f->ops, o);
    for (size_t i = 0; o->e->grad.n && i < o->s->n_args; i++) {
        const val *v = given_to(o, i, a);
        const char *arg = o->s->args[i].name;
        if (v && v->smooth && !gradient_of(o, arg))
            PUSH(r->f->lost, xformat("'%s' of %s, which has no gradient", arg, o->short_name));
    }
}

static bool any_smooth(const op *o, const call_args *a) {
    for (size_t i = 0; i < a->n; i++)
        if (a->v[i].smooth) return !o || !o->e->nondifferentiable;
    return false;
}

/* unsupported("reason") in place of a gradient. */
static val unsupported_call(reader *r, const call_args *a, bool outermost) {
    if (!outermost || a->n != 1 || a->v[0].t != T_STRING)
        fail(r, "unsupported(\"reason\") takes the place of the whole gradient");
    char *c = a->v[0].c;
    r->f->unsupported = xformat("%.*s", (int)strlen(c) - 2, c + 1);
    r->fills = true;
    return make(T_TENSOR, xformat("fac__not_differentiable(\"%s\", %s)", r->o->s->name, c));
}

/* Notes the prototype of a C formula, which is the same wherever it is called. */
static void note_prototype(reader *r, const char *name, char *prototype) {
    PUSH(r->f->functions, xformat("%s", name));
    const formula_fn *fn = FIND(formula_fns, name, name);
    if (!fn)
        PUSH(formula_fns, ((formula_fn){xformat("%s", name), prototype}));
    else if (strcmp(fn->prototype, prototype))
        fail(r, xformat("'%s' is called as '%s' here and '%s' elsewhere", name, prototype, fn->prototype));
}

static val formula_call(reader *r, const char *name, const call_args *a, bool outermost) {
    if (strcmp(name, "unsupported") == 0) return unsupported_call(r, a, outermost);
    const bool fills = outermost && r->want_many;
    const char *list = fills ? "g_" : "", *types = fills ? "fac_tensor **grads" : "";
    for (size_t i = 0; i < a->n; i++) {
        if (a->names.v[i]) fail(r, "a C formula takes no keywords");
        use(r, &a->v[i], SAVE_VALUE);
        list = listed(list, a->v[i].c ? a->v[i].c : "NULL");
        types = listed(types, spelt[a->v[i].t].c);
    }
    r->fills = r->fills || fills;
    note_prototype(r, name, xformat("%s%s(%s)", fills ? "fac_status " : "fac_tensor *", name, *types ? types : "void"));
    return make(T_TENSOR, xformat("%s(%s)", name, list));
}

/* The overload that takes the arguments with the fewest conversions, NULL if none does; whether there is any of the name. */
static const op *best_overload(reader *r, const char *name, const call_args *a, char **out_args, bool *out_known) {
    const op *best = NULL;
    int best_cost = INT_MAX;
    *out_known = false;
    for (size_t i = 0; i < r->m->ops.n; i++) {
        const op *o = &r->m->ops.v[i];
        if (strcmp(o->s->name, name) || o->form != FORM_FUNCTION) continue;
        *out_known = true;
        int cost = 0;
        char *text = fit(o, a, &cost);
        if (text && cost < best_cost) best = o, *out_args = text, best_cost = cost;
    }
    return best;
}

/* What the call `c` of an operator gives; several results fill the gradients, or one of them is picked. */
static val op_value(reader *r, const op *o, char *c, bool depends, bool outermost) {
    const bool many = o->s->n_rets > 1 && returns_tensors(o);
    size_t i = 0;
    if (many && outermost && r->want_many) {
        r->multi = o;
        return make(T_TENSOR, c);
    }
    if (many && (space(r), *r->p == '[')) {
        i = index_of(r, o->s);
        c = xformat("%s.%s", c, result_field(o, i));
    } else if (many || (!returns_tensors(o) && !returns_list(o)))
        fail(r, xformat("'%s' gives several results; pick one with [i]", o->s->name));
    val v = make(returns_list(o) ? T_TENSORS : T_TENSOR, c);
    return depends && i == 0 ? smooth(v) : v;
}

/* A call of an operator, or of anything else that is no built-in. */
static val op_call(reader *r, const char *name, const call_args *a, bool outermost) {
    bool known;
    char *list;
    const op *o = best_overload(r, name, a, &list, &known);
    if (!known) {
        val v = formula_call(r, name, a, outermost);
        return any_smooth(NULL, a) ? smooth(v) : v;
    }
    if (!o) fail(r, xformat("no overload of '%s' takes these arguments", name));
    for (size_t i = 0; i < a->n; i++) use(r, &a->v[i], SAVE_VALUE);
    note_call(r, o, a);
    return op_value(r, o, xformat("fac__s_%s(%s)", o->id, list), any_smooth(o, a), outermost);
}

/* ---- the grammar ---- */

static val number(reader *r) {
    char *end;
    strtod(r->p, &end);
    char *text = cut(r->p, end);
    r->p = end;
    bool whole = strpbrk(text, ".eEnN") == NULL;
    return make(whole ? T_INT : T_FLOAT, whole && text[0] == '-' ? xformat("(%s)", text) : text);
}

static val list(reader *r) {
    const char *items = "", *maker = "FAC_INTS";
    val made = make(T_INTS, NULL);
    bool any_is_smooth = false;
    for (; !eat(r, ']'); eat(r, ',')) {
        const val v = expression(r);
        use(r, &v, SAVE_VALUE);
        any_is_smooth = any_is_smooth || v.smooth;
        if (v.t != T_TENSOR && v.t != T_FLOAT && v.t != T_INT) fail(r, "a list holds numbers or tensors");
        if (v.t == T_TENSOR) made.t = T_TENSORS, maker = "FAC_TENSORS";
        if (v.t == T_FLOAT) made.t = T_FLOATS, maker = "FAC_FLOATS";
        items = listed(items, v.c);
    }
    made.c = xformat("%s(%s)", maker, items);
    return any_is_smooth ? smooth(made) : made;
}

static val text(reader *r) {
    const char *begin = r->p;
    r->p += strcspn(begin, "\"");
    val v = make(T_STRING, xformat("\"%.*s\"", (int)(r->p - begin), begin));
    need(r, '"');
    return v;
}

static bool begins_number(const char *p) {
    p += *p == '-' || *p == '.';
    return isdigit((unsigned char)*p) || (*p == '.' && p[-1] == '-');
}

static val expression(reader *r) {
    bool outermost = r->p == r->start;
    space(r);
    if (begins_number(r->p)) return number(r);
    if (eat(r, '[')) return list(r);
    if (eat(r, '"')) return text(r);
    char *name = identifier(r);
    if (!name[0]) fail(r, "expected a name, number or list");
    if (!eat(r, '(')) return name_value(r, name);
    call_args a = read_args(r);
    val v;
    if (metadata_call(r, name, &a, &v) || needs_call(r, name, &a, &v) || number_call(r, name, &a, &v)) return v;
    return op_call(r, name, &a, outermost);
}

/* ---- plans ---- */

/* The arguments that a key names: "self, other". */
static void read_names(const op *o, const pair *p, formula *f) {
    for (const char *k = p->key + strspn(p->key, " ,"); *k; k += strspn(k, " ,")) {
        const size_t n = strcspn(k, " ,");
        char *name = cut(k, k + n);
        const int a = find_arg(o->s, name);
        if (a < 0) die(o->e->file, p->line, "%s: gradient of '%s', which is not an argument", o->s->full, name);
        PUSH(f->args, (size_t)a);
        k += n;
    }
    if (!f->args.n) die(o->e->file, p->line, "%s: a gradient of no argument", o->s->full);
}

static formula read_formula(const model *m, const op *o, grad_plan *plan, const pair *p) {
    formula f = {.line = p->line};
    read_names(o, p, &f);
    const bool is_list = is_tensor_list(&o->s->args[f.args.v[0]].type), is_many = f.args.n > 1;
    reader r = {m, o, plan, &f, p->value, p->value, p->line, is_many || is_list, NULL, false};
    val v = expression(&r);
    space(&r);
    if (*r.p) fail(&r, "text after the expression");
    if (v.t == T_NONE) return f;
    const bool spreads = v.t == T_TENSORS && is_list && !is_many;
    if (v.t != T_TENSOR && !spreads) fail(&r, "the expression is not a tensor");
    use(&r, &v, SAVE_VALUE);
    f.c = spreads ? xformat("fac__spread(g_, %s)", v.c) : v.c;
    f.fills = r.fills || spreads;
    f.multi = r.multi;
    if (r.want_many && !f.multi && !f.fills) fail(&r, "several gradients need a function that gives them all");
    return f;
}

static bool has_formula(const grad_plan *g, size_t arg) {
    for (size_t i = 0; i < g->n; i++)
        for (size_t k = 0; k < g->v[i].args.n; k++)
            if (g->v[i].args.v[k] == arg) return true;
    return false;
}

/* The gradient of each tensor that has no formula is refused. */
static formula refusal(const op *o, const grad_plan *g) {
    const char *reason = reason_after("unsupported, ", o->e->double_backward);
    formula f = {.line = o->e->line, .fills = true};
    f.c = xformat("fac__not_differentiable(\"%s\", \"%s\")", o->s->name, reason);
    for (size_t i = 0; i < o->s->n_args; i++)
        if (is_tensor(&o->s->args[i].type) && !has_formula(g, i)) PUSH(f.args, i);
    if (!f.args.n) die(o->e->file, o->e->line, "%s: 'grad' leaves no tensor to 'double_backward'", o->s->full);
    return f;
}

static grad_plan *plan_op(const model *m, const op *o) {
    grad_plan *g = xalloc(sizeof *g);
    g->args = xalloc(o->s->n_args * sizeof *g->args);
    g->results = xalloc(o->s->n_rets * sizeof *g->results);
    for (size_t i = 0; i < o->e->grad.n; i++) {
        formula f = read_formula(m, o, g, &o->e->grad.v[i]); /* reads g->n, so before it grows */
        PUSH(*g, f);
    }
    if (o->e->double_backward) {
        formula f = refusal(o, g);
        PUSH(*g, f);
    }
    return g;
}

void plan_gradients(model *m) {
    for (size_t i = 0; i < m->ops.n; i++) {
        op *o = &m->ops.v[i];
        if ((o->e->grad.n || o->e->double_backward) && o->form != FORM_OUT) o->grad = plan_op(m, o);
    }
}
