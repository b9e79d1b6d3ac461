/* The key Named, which tensors have whose dimensions have names. It stands above all others, so that an
   operator that is made of others is seen as a whole: its rule gives the names of the results, it runs with
   names masked, and the results are called so. One boxed kernel does this for every operator: as the fallback
   of the key, and registered by name for operators with a rule that are made of others, which otherwise would
   be taken apart. Registered when the first name is given, so that programs without names start as fast as
   ever. */
#include "ops/names.h"
#include "dispatch/value.h"

/* ---- what a call gives -------------------------------------------------------------------------------------- */

/* A tensor that the call writes, and the names that it had. */
typedef struct written {
    fac_tensor *t;
    uint32_t before;
} written;

typedef struct naming {
    uint32_t number; /* of the results' names */
    int n;           /* dimensions that they are for */
    bool silent;     /* nothing is said of results: they have none, and what is written keeps its own */
} naming;

static fac_status refused(const fac_operator *op) {
    return FAC_FAIL(
        FAC_ERR_UNSUPPORTED,
        "%s has no rule for the names of dimensions; drop them first with fac_rename(x, FAC_NAMES()), or mask them "
        "with FAC_NO_NAMES",
        op->name);
}

static bool is_output(const fac_schema_arg *a) { return a->type.write && a->kwarg_only; }

/* An output that has names has those of the result already. */
static fac_status check_outputs(const fac_schema *s, const fac_value *args, const fac_dim_names *l, uint32_t number) {
    for (size_t i = 0; i < s->n_args; i++) {
        const fac_tensor *t = is_output(&s->args[i]) ? fac__value_header(&args[i]) : NULL;
        fac_dim_names own;
        if (!t || !t->names || t->names == number) continue;
        fac__names_of(t, &own);
        return FAC_FAIL(FAC_ERR_ARGUMENT, "argument '%s' has dimensions %s, but the result has %s", s->args[i].name,
                        FAC_NAMES_TEXT(&own), FAC_NAMES_TEXT(l));
    }
    return FAC_OK;
}

static fac_status plan(const fac_operator *op, const fac_value *args, naming *out) {
    const fac_schema *s = atomic_load_explicit(&op->schema, memory_order_acquire);
    const fac_name_rule rule = fac__name_rule(op);
    fac_dim_names l;
    if (rule == FAC_NAMES_REFUSE) return refused(op);
    *out = (naming){.silent = rule == FAC_NAMES_FORGET};
    if (out->silent) return FAC_OK;
    FAC_TRY(fac__names_by_rule(rule, s, args, &l));
    FAC_TRY(fac__names_number(&l, &out->number));
    out->n = l.n;
    return check_outputs(s, args, &l, out->number);
}

static void name_one(const naming *p, fac_tensor *t) {
    if (t && !p->silent && (t->ndim == p->n || !p->number)) fac__set_names(t, p->number);
}

static void name_results(const naming *p, const fac_schema *s, const fac_value *stack) {
    for (size_t i = 0; i < s->n_rets; i++) {
        if (stack[i].tag == FAC_TAG_TENSOR) name_one(p, fac__value_header(&stack[i]));
        if (stack[i].tag != FAC_TAG_TENSORS) continue;
        const fac_tensors l = fac__value_headers(&stack[i]);
        for (size_t k = 0; k < l.n; k++) name_one(p, l.v[k]);
    }
}

/* An operator that is given a tensor back as a result, as `contiguous` does, gives it the names that it has. */
static fac_status call_named(const fac_call_info *c, fac_value *stack) {
    const fac_schema *s = atomic_load_explicit(&c->op->schema, memory_order_acquire);
    fac_thread *th = fac__thread();
    const fac_keyset was = th->exclude;
    naming p;
    FAC_TRY(plan(c->op, stack, &p));
    th->exclude = was | fac__func_bit(FAC_KEY_NAMED);
    const fac_status st = fac_redispatch_below(c, FAC_KEY_NAMED, stack);
    th->exclude = was;
    if (st == FAC_OK) name_results(&p, s, stack);
    return st;
}

/* ---- registration ------------------------------------------------------------------------------------------- */

static bool is_made_of_others(const fac_operator *op) { return op->facts->combines == FAC_COMBINES_AS_PARTS; }

static fac_status register_all(void) {
    if (!fac_register_fallback("Named", call_named, NULL, FAC_HERE)) return fac_error();
    for (size_t i = 0; i < fac_operator_count(); i++) {
        const fac_operator *op = fac_operator_at(i);
        if (!op->facts || !is_made_of_others(op) || fac__name_rule(op) == FAC_NAMES_REFUSE) continue;
        if (!fac_register_boxed(fac_operator_name(op), "Named", call_named, NULL, FAC_HERE)) return fac_error();
    }
    return FAC_OK;
}

fac_status fac__names_begin(void) { return fac__names_once(register_all); }
