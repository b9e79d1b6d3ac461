/* Gradient expressions: parsed, typed against the operators, and turned into C. What a formula reads of the forward is
   collected on the way, so that the node saves that and nothing else. Grammar and built-ins: docs/operators.md. */
#include "opgen.h"
#include <ctype.h>
#include <stdlib.h>

formula_fn *formula_fns;
size_t n_formula_fns;

typedef struct val {
    etype t;
    char *c;        /* NULL only for T_NONE */
    int arg;        /* index of the forward argument if this is just its name, else -1 */
    int result;     /* likewise for a result */
    bool is_number; /* int, float or scalar */
    bool smooth;    /* a tensor that depends on what has a gradient */
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

static val make(etype t, char *c) { return (val){t, c, -1, -1, t == T_INT || t == T_FLOAT || t == T_SCALAR, false}; }

/* ---- conversions ---- */

/* C text of v as type t; NULL if it cannot be. *cost counts conversions, for choosing an overload. */
static char *coerce(const val *v, etype t, int *cost) {
    if (v->t == t) return v->c;
    ++*cost;
    if (v->t == T_NONE) return xformat("%s", spelt[t].none);
    if (t == T_OPT_NUM) {
        int ignore = 0;
        char *s = coerce(v, T_SCALAR, &ignore);
        return s ? xformat("fac_opt_num_(%s)", s) : NULL;
    }
    if (v->t == T_INT) switch (t) {
        case T_FLOAT: return xformat("(double)(%s)", v->c);
        case T_SCALAR: return xformat("fac_scalar_i_(%s)", v->c);
        case T_OPT_INT: return xformat("fac_opt_int_(%s)", v->c);
        case T_INTS: return xformat("FAC_INTS(%s)", v->c);
        default: return NULL;
        }
    if (v->t == T_FLOAT && t == T_SCALAR) return xformat("fac_scalar_f_(%s)", v->c);
    if (v->t == T_BOOL && t == T_SCALAR) return xformat("fac_scalar_b_(%s)", v->c);
    if (v->t == T_SCALAR && t == T_FLOAT) return xformat("fac__scalar_f64(%s)", v->c);
    return NULL;
}

/* ---- names ---- */

static int find_arg(const fac_schema *s, const char *name) {
    for (size_t i = 0; i < s->n_args; i++)
        if (strcmp(s->args[i].name, name) == 0) return (int)i;
    return -1;
}

/* The text of the operator's gradient for the argument, or NULL. */
static const char *gradient_of(const op *o, const char *arg) {
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
    if (i >= r->o->s->n_rets) fail(r, "the operator has no such result");
    val v = make(is_tensor_list(&r->o->s->rets[i].type) ? T_TENSORS : T_TENSOR, xformat("result%zu_", i));
    v.result = (int)i;
    return i == 0 ? smooth(v) : v;
}

static val name_value(reader *r, const char *name) {
    const fac_schema *s = r->o->s;
    if (strcmp(name, "True") == 0) return make(T_BOOL, "true");
    if (strcmp(name, "False") == 0) return make(T_BOOL, "false");
    if (strcmp(name, "None") == 0) return make(T_NONE, NULL);
    if (strcmp(name, "grads") == 0) {
        r->plan->uses_grad_list = true;
        return smooth(make(T_TENSORS, "grads_"));
    }
    if (strcmp(name, "grad") == 0 || strcmp(name, "result") == 0) {
        size_t i = 0;
        if (eat(r, '[')) {
            char *end;
            space(r);
            i = strtoul(r->p, &end, 10);
            r->p = end;
            need(r, ']');
        }
        if (name[0] == 'r') return result_value(r, i);
        if (i >= s->n_rets) fail(r, "the operator has no such result");
        r->plan->grads_used |= 1u << i;
        return smooth(make(T_TENSOR, xformat("grad%zu_", i)));
    }
    int a = find_arg(s, name);
    if (a >= 0) {
        val v = make(type_of(&s->args[a].type), xformat("%s_", name));
        v.arg = a;
        const char *gradient = gradient_of(r->o, name);
        return gradient && strcmp(gradient, "None") ? smooth(v) : v;
    }
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
    char **names; /* NULL for positional */
    size_t n;
} call_args;

static val expression(reader *r);

static char *identifier(reader *r) {
    space(r);
    const char *b = r->p;
    while (isalnum((unsigned char)*r->p) || *r->p == '_') r->p++;
    return xformat("%.*s", (int)(r->p - b), b);
}

static call_args read_args(reader *r) {
    call_args a = {0};
    size_t nn = 0;
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
        PUSH(a.names, nn, name);
        PUSH(a.v, a.n, expression(r));
    } while (eat(r, ','));
    need(r, ')');
    return a;
}

/* The shape-and-type built-ins. True if `name` is one. */
static bool metadata_call(reader *r, const char *name, const call_args *a, val *out) {
    static const struct {
        const char *name;
        save_kind kind;
        size_t n;
    } table[] = {{"sizes", SAVE_SIZES, 1},  {"size", SAVE_SIZES, 2},  {"numel", SAVE_NUMEL, 1},
                 {"ndim", SAVE_NDIM, 1},    {"dtype", SAVE_DTYPE, 1}, {"strides", SAVE_STRIDES, 1},
                 {"offset", SAVE_OFFSET, 1}};
    for (size_t i = 0; i < FAC_COUNT(table); i++) {
        if (strcmp(name, table[i].name)) continue;
        if (a->n != table[i].n) fail(r, "wrong number of arguments");
        const val *x = &a->v[0];
        if (x->arg < 0 && x->result < 0) { /* of a computed tensor: read it there and then */
            if (x->t != T_TENSOR) fail(r, "a tensor is needed here");
            etype t = (table[i].kind == SAVE_SIZES && a->n == 1) || table[i].kind == SAVE_STRIDES ? T_INTS
                      : table[i].kind == SAVE_DTYPE                                               ? T_DTYPE
                                                                                                  : T_INT;
            *out = make(t, a->n == 2 ? xformat("fac__at(fac__sizes_now(%s), %s)", x->c, a->v[1].c)
                                     : xformat("fac__%s_now(%s)", name, x->c));
            return true;
        }
        use(r, x, table[i].kind);
        const char *of = origin(r, x);
        if (table[i].kind == SAVE_SIZES && x->t == T_TENSORS)
            *out = make(T_SIZES_LIST, xformat("&n->sizes_%s", of));
        else if (table[i].kind == SAVE_SIZES && a->n == 2)
            *out = make(T_INT, xformat("fac__at(fac__ints_of(&n->sizes_%s), %s)", of, a->v[1].c));
        else if (table[i].kind == SAVE_SIZES || table[i].kind == SAVE_STRIDES)
            *out = make(T_INTS, xformat("fac__ints_of(&n->%s_%s)", name, of));
        else
            *out = make(table[i].kind == SAVE_DTYPE ? T_DTYPE : T_INT, xformat("n->%s_%s", name, of));
        return true;
    }
    if (strcmp(name, "needs") == 0) {
        if (a->n != 1 || a->v[0].arg < 0) fail(r, "needs() takes the name of an argument");
        *out = make(T_BOOL, xformat("needs_%s_", r->o->s->args[a->v[0].arg].name));
        return true;
    }
    return false;
}

/* Arithmetic on numbers. True if `name` is one and all arguments are numbers. */
static bool number_call(reader *r, const char *name, const call_args *a, val *out) {
    static const struct {
        const char *name, *sign;
        size_t n;
    } table[] = {{"conj", "", 1}, {"neg", "-", 1}, {"add", "+", 2}, {"sub", "-", 2}, {"mul", "*", 2}, {"div", "/", 2}};
    for (size_t i = 0; i < FAC_COUNT(table); i++) {
        if (strcmp(name, table[i].name) || a->n != table[i].n) continue;
        bool all = true, ints = true, scalar = false;
        for (size_t j = 0; j < a->n; j++) {
            all = all && a->v[j].is_number;
            ints = ints && a->v[j].t == T_INT;
            scalar = scalar || a->v[j].t == T_SCALAR;
        }
        if (!all) return false;
        for (size_t j = 0; j < a->n; j++) use(r, &a->v[j], SAVE_VALUE);
        int cost = 0;
        if (scalar) {
            char *x = coerce(&a->v[0], T_SCALAR, &cost), *y = a->n == 2 ? coerce(&a->v[1], T_SCALAR, &cost) : NULL;
            *out = make(T_SCALAR, y ? xformat("fac__scalar_%s(%s, %s, (double[2]){0})", name, x, y)
                                    : xformat("fac__scalar_%s(%s, (double[2]){0})", name, x));
        } else if (a->n == 1) {
            *out = make(ints ? T_INT : T_FLOAT, xformat("(%s(%s))", table[i].sign, a->v[0].c));
        } else {
            bool whole = ints && table[i].sign[0] != '/';
            *out = make(whole ? T_INT : T_FLOAT,
                        whole ? xformat("(%s %s %s)", a->v[0].c, table[i].sign, a->v[1].c)
                              : xformat("((double)%s %s (double)%s)", a->v[0].c, table[i].sign, a->v[1].c));
        }
        return true;
    }
    return false;
}

/* The value that a call gives to argument i of `o`, or NULL. */
static const val *given_to(const op *o, size_t i, const call_args *a) {
    const fac_schema_arg *to = &o->s->args[i];
    const val *v = i < a->n && !a->names[i] && !to->kwarg_only ? &a->v[i] : NULL;
    for (size_t j = 0; j < a->n; j++)
        if (a->names[j] && strcmp(a->names[j], to->name) == 0) v = &a->v[j];
    return v;
}

/* The C arguments of calling `o` with `a`, or NULL if they do not fit; *cost as in coerce. */
static char *fit(const op *o, const call_args *a, int *cost) {
    const fac_schema *s = o->s;
    char *text;
    size_t size, used = 0;
    FILE *f = open_memstream(&text, &size);
    for (size_t i = 0; i < s->n_args; i++) {
        const val *v = given_to(o, i, a);
        char *c;
        if (v) {
            used++;
            c = coerce(v, type_of(&s->args[i].type), cost);
            if (v->t == T_NONE && !s->args[i].type.optional) c = NULL;
        } else {
            if (!s->args[i].default_text)
                c = NULL;
            else
                c = default_c(o, &s->args[i]);
        }
        if (!c) {
            fclose(f);
            return NULL;
        }
        fprintf(f, "%s%s", i ? ", " : "", c);
    }
    fclose(f);
    return used == a->n ? text : NULL;
}

/* Notes that the formula calls `o`, and whether what it depends on would be lost there. */
static void note_call(reader *r, const op *o, const call_args *a) {
    PUSH(r->f->ops, r->f->n_ops, o);
    for (size_t i = 0; o->e->grad.n && i < o->s->n_args; i++) {
        const val *v = given_to(o, i, a);
        const char *arg = o->s->args[i].name;
        if (v && v->smooth && !gradient_of(o, arg))
            PUSH(r->f->lost, r->f->n_lost, xformat("'%s' of %s, which has no gradient", arg, short_name(o)));
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

static val formula_call(reader *r, const char *name, const call_args *a, bool outermost) {
    if (strcmp(name, "unsupported") == 0) return unsupported_call(r, a, outermost);
    PUSH(r->f->functions, r->f->n_functions, xformat("%s", name));
    char *text, *proto;
    size_t size, psize;
    bool fills = outermost && r->want_many;
    FILE *f = open_memstream(&text, &size), *p = open_memstream(&proto, &psize);
    fprintf(f, "%s(%s", name, fills ? "g_" : "");
    fprintf(p, "%s%s(%s", fills ? "fac_status " : "fac_tensor *", name, fills ? "fac_tensor **grads" : "");
    for (size_t i = 0; i < a->n; i++) {
        const char *sep = i || fills ? ", " : "";
        if (a->names[i]) fail(r, "a C formula takes no keywords");
        use(r, &a->v[i], SAVE_VALUE);
        fprintf(f, "%s%s", sep, a->v[i].c ? a->v[i].c : "NULL");
        fprintf(p, "%s%s", sep, spelt[a->v[i].t].c);
    }
    fputc(')', f);
    fputs(a->n || fills ? ")" : "void)", p);
    fclose(f);
    fclose(p);
    r->fills = r->fills || fills;
    for (size_t i = 0; i < n_formula_fns; i++)
        if (strcmp(formula_fns[i].name, name) == 0) {
            if (strcmp(formula_fns[i].prototype, proto))
                fail(r,
                     xformat("'%s' is called as '%s' here and '%s' elsewhere", name, proto, formula_fns[i].prototype));
            return make(T_TENSOR, text);
        }
    formula_fn fn = {xformat("%s", name), proto};
    PUSH(formula_fns, n_formula_fns, fn);
    return make(T_TENSOR, text);
}

/* A call of an operator, or of anything else that is no built-in. */
static val op_call(reader *r, const char *name, const call_args *a, bool outermost) {
    const op *best = NULL;
    char *best_args = NULL;
    int best_cost = 1 << 20;
    bool known = false;
    for (size_t i = 0; i < r->m->n_ops; i++) {
        const op *o = &r->m->ops[i];
        if (strcmp(o->s->name, name) || o->form != FORM_FUNCTION) continue;
        known = true;
        int cost = 0;
        char *text = fit(o, a, &cost);
        if (text && cost < best_cost) best = o, best_args = text, best_cost = cost;
    }
    if (!known) {
        val v = formula_call(r, name, a, outermost);
        return any_smooth(NULL, a) ? smooth(v) : v;
    }
    if (!best) fail(r, xformat("no overload of '%s' takes these arguments", name));
    for (size_t i = 0; i < a->n; i++) use(r, &a->v[i], SAVE_VALUE);
    note_call(r, best, a);
    char *c = xformat("fac__s_%s(%s)", best->id, best_args);
    bool depends = any_smooth(best, a);
    if ((best->s->n_rets == 1 && returns_tensors(best)) || returns_list(best)) {
        val v = make(returns_list(best) ? T_TENSORS : T_TENSOR, c);
        return depends ? smooth(v) : v;
    }
    if (outermost && r->want_many && returns_tensors(best)) {
        r->multi = best;
        return make(T_TENSOR, c);
    }
    if (returns_tensors(best) && eat(r, '[')) { /* one result of several */
        size_t i = strtoul(r->p, (char **)&r->p, 10);
        need(r, ']');
        if (i >= best->s->n_rets) fail(r, "the operator has no such result");
        val v = make(T_TENSOR, xformat("%s.%s", c, result_field(best, i)));
        return depends && i == 0 ? smooth(v) : v;
    }
    fail(r, xformat("'%s' gives several results; pick one with [i]", name));
    return make(T_NONE, NULL);
}

/* ---- the grammar ---- */

static val number(reader *r) {
    char *end;
    strtod(r->p, &end);
    char *text = xformat("%.*s", (int)(end - r->p), r->p);
    r->p = end;
    bool whole = strpbrk(text, ".eEnN") == NULL;
    return make(whole ? T_INT : T_FLOAT, whole && text[0] == '-' ? xformat("(%s)", text) : text);
}

static val list(reader *r) {
    char *text;
    size_t size, n = 0;
    etype t = T_INTS;
    bool any_is_smooth = false;
    FILE *f = open_memstream(&text, &size);
    while (!eat(r, ']')) {
        val v = expression(r);
        use(r, &v, SAVE_VALUE);
        any_is_smooth = any_is_smooth || v.smooth;
        if (v.t == T_TENSOR)
            t = T_TENSORS;
        else if (v.t == T_FLOAT)
            t = T_FLOATS;
        else if (v.t != T_INT)
            fail(r, "a list holds numbers or tensors");
        fprintf(f, "%s%s", n++ ? ", " : "", v.c);
        eat(r, ',');
    }
    fclose(f);
    const char *maker = t == T_TENSORS ? "FAC_TENSORS" : t == T_FLOATS ? "FAC_FLOATS" : "FAC_INTS";
    val v = make(t, xformat("%s(%s)", maker, text));
    return any_is_smooth ? smooth(v) : v;
}

static val expression(reader *r) {
    bool outermost = r->p == r->start;
    space(r);
    char c = *r->p;
    if (isdigit((unsigned char)c) || ((c == '-' || c == '.') && (isdigit((unsigned char)r->p[1]) || r->p[1] == '.')))
        return number(r);
    if (c == '[') {
        r->p++;
        return list(r);
    }
    if (c == '"') {
        const char *b = ++r->p;
        while (*r->p && *r->p != '"') r->p++;
        val v = make(T_STRING, xformat("\"%.*s\"", (int)(r->p - b), b));
        need(r, '"');
        return v;
    }
    char *name = identifier(r);
    if (!name[0]) fail(r, "expected a name, number or list");
    if (!eat(r, '(')) return name_value(r, name);
    call_args a = read_args(r);
    val v;
    if (metadata_call(r, name, &a, &v) || number_call(r, name, &a, &v)) return v;
    return op_call(r, name, &a, outermost);
}

/* ---- plans ---- */

static formula read_formula(const model *m, const op *o, grad_plan *plan, const pair *p) {
    formula f = {.text = p->value, .line = p->line};
    for (const char *k = p->key; *k;) {
        while (*k == ' ' || *k == ',') k++;
        const char *b = k;
        while (*k && *k != ',' && *k != ' ') k++;
        char *name = xformat("%.*s", (int)(k - b), b);
        int a = find_arg(o->s, name);
        if (a < 0) die(o->e->file, p->line, "%s: gradient of '%s', which is not an argument", o->s->full, name);
        PUSH(f.args, f.n_args, (size_t)a);
        while (*k == ' ' || *k == ',') k++;
    }
    if (!f.n_args) die(o->e->file, p->line, "%s: a gradient of no argument", o->s->full);
    const fac_schema_type *t = &o->s->args[f.args[0]].type;
    reader r = {m, o, plan, &f, p->value, p->value, p->line, f.n_args > 1 || is_tensor_list(t), NULL, false};
    val v = expression(&r);
    space(&r);
    if (*r.p) fail(&r, "text after the expression");
    if (v.t == T_NONE) return f;
    if (v.t == T_TENSORS && is_tensor_list(t) && f.n_args == 1) {
        use(&r, &v, SAVE_VALUE);
        f.c = xformat("fac__spread(g_, %s)", v.c);
        f.fills = true;
        return f;
    }
    if (v.t != T_TENSOR) fail(&r, "the expression is not a tensor");
    use(&r, &v, SAVE_VALUE);
    if (r.want_many && !r.multi && !r.fills) fail(&r, "several gradients need a function that gives them all");
    f.c = v.c;
    f.fills = r.fills;
    f.multi = r.multi;
    return f;
}

/* The gradient of each tensor is refused. */
static formula refusal(const op *o) {
    const char *reason = o->e->double_backward + strlen("unsupported, ");
    formula f = {.text = xformat("%s", o->e->double_backward), .line = o->e->line, .fills = true};
    f.c = xformat("fac__not_differentiable(\"%s\", \"%s\")", o->s->name, reason);
    for (size_t i = 0; i < o->s->n_args; i++)
        if (is_tensor(&o->s->args[i].type)) PUSH(f.args, f.n_args, i);
    return f;
}

static grad_plan *plan_op(const model *m, const op *o) {
    grad_plan *g = xalloc(sizeof *g);
    g->args = xalloc(o->s->n_args * sizeof *g->args);
    g->results = xalloc(o->s->n_rets * sizeof *g->results);
    for (size_t i = 0; i < o->e->grad.n; i++) {
        formula f = read_formula(m, o, g, &o->e->grad.v[i]); /* reads g->n, so before it grows */
        PUSH(g->v, g->n, f);
    }
    if (o->e->double_backward) PUSH(g->v, g->n, refusal(o));
    return g;
}

void plan_gradients(model *m) {
    for (size_t i = 0; i < m->n_ops; i++) {
        op *o = &m->ops[i];
        if ((o->e->grad.n || o->e->double_backward) && o->form != FORM_OUT) o->grad = plan_op(m, o);
    }
}
