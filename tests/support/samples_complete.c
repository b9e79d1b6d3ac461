/* Calls that follow from an operator's schema, for operators that nobody wrote one for. */
#include "samples.h"

#include "core/tensor.h"
#include "dispatch/operator.h"
#include "dispatch/value.h"

static const fac_schema *schema_of(const fac_operator *op) { return atomic_load(&op->schema); }

/* Adds the call if it works on the CPU. */
static bool add_if_valid(sample_set *s, const sample_call *c, bool *out_added) {
    static char text[SAMPLE_TEXT];
    *out_added = sample_try(c, fac_device_make(FAC_CPU, -1)) == FAC_OK;
    fac_error_clear();
    return !*out_added || samples_add(s, sample_print(c, text, sizeof text));
}

/* ---- in place, and into an out: from the plain form ---------------------------------------------------------------- */

static size_t outs_of(const fac_schema *s) {
    size_t n = 0;
    while (n < s->n_args && s->args[s->n_args - 1 - n].type.write && s->args[s->n_args - 1 - n].kwarg_only) n++;
    return n;
}

static bool is_inplace(const fac_schema *s) { return s->name[strlen(s->name) - 1] == '_'; }

/* Whether `plain` has the arguments of `form` less its outs, and is no such form itself. */
static bool is_plain_form(const fac_schema *plain, const fac_schema *form) {
    size_t outs = outs_of(form), name = strlen(form->name) - is_inplace(form);
    if (strlen(plain->name) != name || strncmp(plain->name, form->name, name) != 0 || outs_of(plain)) return false;
    if (plain->n_args + outs != form->n_args) return false;
    for (size_t i = 0; i < plain->n_args; i++) {
        const fac_schema_type *a = &plain->args[i].type, *b = &form->args[i].type;
        if (a->kind != b->kind || a->list != b->list || a->optional != b->optional) return false;
    }
    return true;
}

static const fac_operator *plain_form(const fac_schema *form) {
    if (!outs_of(form) && !is_inplace(form)) return NULL;
    for (size_t i = 0; i < fac_operator_count(); i++)
        if (is_plain_form(schema_of(fac_operator_at(i)), form)) return fac_operator_at(i);
    return NULL;
}

/* Appends the result of a call as a tensor to write to. */
static bool append_out(sample_call *c, fac_value result) {
    fac_tensor *t = result.tag == FAC_TAG_TENSOR ? fac_value_as_tensor(result) : NULL;
    if (!t) return false;
    fac_ints sizes = fac_tensor_sizes(t);
    int number = sample_add_tensor(c, fac_tensor_dtype(t), sizes.v, (int)sizes.n);
    if (number < 0) return false;
    c->args[c->n_args++] = (sample_value){.kind = SAMPLE_TENSOR, .i = number};
    return true;
}

/* Adds arguments that were left out, at their defaults. */
static bool spell_defaults(sample_call *c, const fac_schema *s, size_t n) {
    while ((size_t)c->n_args < n) {
        fac_value v;
        if (fac__default_value(&s->args[c->n_args], &v) != FAC_OK) return false;
        sample_value *a = &c->args[c->n_args++];
        *a = (sample_value){.kind = SAMPLE_NONE};
        if (v.tag == FAC_TAG_INT) *a = (sample_value){.kind = SAMPLE_INT, .i = fac_value_as_int(v)};
        if (v.tag == FAC_TAG_BOOL) *a = (sample_value){.kind = SAMPLE_BOOL, .i = fac_value_as_bool(v)};
        if (v.tag == FAC_TAG_FLOAT) *a = (sample_value){.kind = SAMPLE_FLOAT, .re = fac_value_as_float(v)};
        if (v.tag == FAC_TAG_STRING) {
            *a = (sample_value){.kind = SAMPLE_STRING, .i = 1};
            snprintf(a->text, sizeof a->text, "%s", fac_value_as_string(v));
        }
        if (v.tag == FAC_TAG_INTS) {
            fac_ints l = fac_value_as_ints(v);
            *a = (sample_value){.kind = SAMPLE_LIST, .i = c->n_items, .n = (int64_t)l.n};
            for (size_t k = 0; k < l.n; k++) c->items[c->n_items++] = (sample_value){.kind = SAMPLE_INT, .i = l.v[k]};
        }
        fac_value_release(&v);
    }
    return true;
}

/* Makes the plain call, and takes its results for outs. */
static bool append_outs(sample_call *c, const fac_operator *plain, size_t outs) {
    sample_made made;
    fac_value results[8];
    bool ok = spell_defaults(c, schema_of(plain), plain->n_args) && outs <= plain->n_rets &&
              sample_make(c, fac_device_make(FAC_CPU, -1), &made) == FAC_OK;
    if (!ok) return fac_error_clear(), false;
    for (size_t i = 0; i < FAC_COUNT(results); i++) results[i] = fac_value_none();
    ok = fac_call_op(plain, made.args, made.n_args, results) == FAC_OK;
    for (size_t i = 0; i < outs; i++) ok = ok && append_out(c, results[i]);
    for (size_t i = 0; i < FAC_COUNT(results); i++) fac_value_release(&results[i]);
    sample_unmake(&made);
    fac_error_clear();
    return ok;
}

/* Calls of a form from those of its plain one, which stand in the set already. */
static bool from_plain(const sample_set *s, sample_set *more, const fac_operator *op, bool *out_any) {
    const fac_operator *plain = plain_form(schema_of(op));
    size_t n = 0;
    char *const *texts = plain ? samples_of(s, plain->name, &n) : NULL;
    for (size_t i = 0; i < n; i++) {
        sample_call c;
        bool added = false;
        if (!sample_parse(texts[i], &c, NULL)) return false;
        if (outs_of(schema_of(op)) && !append_outs(&c, plain, outs_of(schema_of(op)))) continue;
        snprintf(c.op, sizeof c.op, "%s", op->name);
        if (!add_if_valid(more, &c, &added)) return false;
        *out_any = *out_any || added;
    }
    return true;
}

/* ---- all others: tensors of one shape and dtype, small numbers ------------------------------------------------------- */

static const int64_t shapes[][4] = {{3, 3}, {3}, {2, 3, 4}, {2, 4, 4, 4}, {0}};
static const int ndims[] = {2, 1, 3, 4, 0};
static const fac_dtype dtypes[] = {FAC_F32, FAC_I64, FAC_BOOL, FAC_C64};

static sample_value of_kind(const fac_schema_arg *a, sample_call *c, int shape, fac_dtype dtype) {
    switch (a->type.kind) {
    case FAC_TYPE_TENSOR:
        return (sample_value){.kind = SAMPLE_TENSOR, .i = sample_add_tensor(c, dtype, shapes[shape], ndims[shape])};
    case FAC_TYPE_INT: return (sample_value){.kind = SAMPLE_INT, .i = strncmp(a->name, "dim", 3) != 0};
    case FAC_TYPE_FLOAT: return (sample_value){.kind = SAMPLE_FLOAT, .re = 0.5};
    case FAC_TYPE_BOOL: return (sample_value){.kind = SAMPLE_BOOL};
    case FAC_TYPE_SCALAR:
        return fac_dtype_is_integral(dtype, true) ? (sample_value){.kind = SAMPLE_INT, .i = 1}
                                                  : (sample_value){.kind = SAMPLE_FLOAT, .re = 0.5};
    case FAC_TYPE_DTYPE: return (sample_value){.kind = SAMPLE_DTYPE, .i = dtype};
    case FAC_TYPE_DEVICE: return (sample_value){.kind = SAMPLE_DEVICE};
    default: return (sample_value){.kind = SAMPLE_NONE};
    }
}

static sample_value list_of(const fac_schema_arg *a, sample_call *c, int shape, fac_dtype dtype) {
    bool tensors = a->type.kind == FAC_TYPE_TENSOR;
    int64_t n = a->type.list_size ? a->type.list_size : tensors ? 2 : ndims[shape];
    sample_value items[8];
    for (int64_t i = 0; i < n; i++) {
        items[i] = of_kind(a, c, shape, dtype);
        if (a->type.kind == FAC_TYPE_INT) items[i].i = shapes[shape][i % 4];
    }
    memcpy(&c->items[c->n_items], items, (size_t)n * sizeof *items);
    c->n_items += (int)n;
    return (sample_value){.kind = SAMPLE_LIST, .i = c->n_items - n, .n = n};
}

static void from_schema(sample_call *c, const fac_operator *op, int shape, fac_dtype dtype) {
    const fac_schema *s = schema_of(op);
    c->n_args = c->n_tensors = c->n_items = 0;
    snprintf(c->op, sizeof c->op, "%s", op->name);
    for (size_t i = 0; i < s->n_args && !s->args[i].default_text; i++)
        c->args[c->n_args++] =
            s->args[i].type.list ? list_of(&s->args[i], c, shape, dtype) : of_kind(&s->args[i], c, shape, dtype);
}

static bool guessed(sample_set *s, const fac_operator *op, bool *out_any) {
    enum { ENOUGH = 3 };
    int found = 0;
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++)
        for (size_t i = 0; i < FAC_COUNT(ndims) && found < ENOUGH; i++) {
            sample_call c;
            bool added;
            from_schema(&c, op, (int)i, dtypes[d]);
            if (!add_if_valid(s, &c, &added)) return false;
            found += added;
        }
    *out_any = found > 0;
    return true;
}

/* Adds to `more` what follows for operators of one sort: forms of another operator, or those that are none. */
static bool complete(const sample_set *s, sample_set *more, bool forms) {
    for (size_t i = 0; i < fac_operator_count(); i++) {
        const fac_operator *op = fac_operator_at(i);
        const fac_schema *schema = schema_of(op);
        bool any = false;
        size_t n;
        samples_of(s, op->name, &n);
        if (n || forms != (outs_of(schema) || is_inplace(schema))) continue;
        if (forms && !from_plain(s, more, op, &any)) return false;
        if (!any && !guessed(more, op, &any)) return false;
    }
    return true;
}

/* Moves all calls of `more` into s. */
static bool merge(sample_set *s, sample_set *more) {
    bool ok = true;
    for (size_t i = 0; i < more->n; i++) ok = ok && samples_add(s, more->texts[i]);
    samples_free(more);
    samples_sort(s);
    return ok;
}

bool samples_complete(sample_set *s) {
    for (int forms = 0; forms < 2; forms++) { /* plain forms first: the others are made from them */
        sample_set more = {0};
        bool ok = complete(s, &more, forms);
        if (!merge(s, &more) || !ok) return false;
    }
    return true;
}
