/* The kernel of the key Batched: finds the level of a call, replaces its batched tensors, has a rule called and wraps
   what it gives. */
#include "ops/batch/call.h"
#include "ops_gen.h"

/* ---- arguments -------------------------------------------------------------------------------------------------- */

fac_status batch_set(batch_call *b, size_t i, fac_value v) {
    if (v.tag == FAC_TAG_NONE) return fac_error() ? fac_error() : FAC_OK;
    fac_value_release(&b->args[i]);
    b->args[i] = v;
    return FAC_OK;
}

int batch_find(const batch_call *b, const char *name) {
    for (size_t i = 0; i < b->schema->n_args; i++)
        if (strcmp(b->schema->args[i].name, name) == 0) return (int)i;
    return -1;
}

batch_tensor *batch_tensor_of(const batch_call *b, size_t arg) {
    if (b->schema->args[arg].type.list) return NULL;
    for (size_t i = 0; i < b->n; i++)
        if (b->v[i].arg == arg) return &b->v[i];
    return NULL;
}

static bool is_written(const fac_operator *op, const fac_schema *s, size_t arg) {
    return s->args[arg].type.write || (op->facts && arg < 32 && op->facts->updates >> arg & 1);
}

/* The tensors of an argument, be it one or a list. */
static fac_tensors tensors_of(const fac_value *v, fac_tensor **one) {
    if (v->tag == FAC_TAG_TENSORS) return fac__value_headers(v);
    *one = fac__value_header(v);
    return (fac_tensors){one, *one != NULL};
}

static void gather_arg(batch_call *b, size_t arg) {
    fac_tensor *one = NULL;
    const fac_tensors l = tensors_of(&b->stack[arg], &one);
    for (size_t j = 0; j < l.n; j++) {
        if (!l.v[j]) continue;
        const fac_batched *x = fac__batched(l.v[j]);
        const bool batched = x && x->level == b->level->id;
        b->v[b->n++] = (batch_tensor){.given = l.v[j],
                                      .t = fac__ref(l.v[j]),
                                      .batched = batched,
                                      .written = is_written(b->op, b->schema, arg),
                                      .rank = l.v[j]->ndim,
                                      .arg = arg,
                                      .at = j};
        b->any |= batched;
    }
}

static size_t count_tensors(const fac_value *stack, size_t n_args) {
    size_t n = 0;
    for (size_t i = 0; i < n_args; i++)
        n += stack[i].tag == FAC_TAG_TENSORS ? fac__value_headers(&stack[i]).n : stack[i].tag == FAC_TAG_TENSOR;
    return n;
}

/* ---- steps ------------------------------------------------------------------------------------------------------ */

fac_status batch_become(batch_tensor *x, fac_status st, fac_tensor *const *next) {
    if (st != FAC_OK) return st;
    fac__unref(x->t);
    x->t = *next;
    return FAC_OK;
}

fac_status batch_front(batch_call *b, batch_tensor *x, bool expand) {
    fac_tensor *next = NULL;
    if (x->front) return FAC_OK;
    FAC_TRY(batch_become(x, fac__batch_front(b->level, x->t, expand, &next), &next));
    x->front = x->batched || expand;
    return FAC_OK;
}

fac_status batch_front_all(batch_call *b, bool expand) {
    for (size_t i = 0; i < b->n; i++) FAC_TRY(batch_front(b, &b->v[i], expand));
    return FAC_OK;
}

/* A view, which is always possible: no stride of the others changes. */
fac_status batch_insert(batch_tensor *x, int at, int n) {
    int64_t sizes[FAC_MAX_DIMS];
    fac_tensor *next = NULL;
    if (n == 0) return FAC_OK;
    FAC_CHECK(x->t->ndim + n <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor of %d dimensions has no room for %d more",
              x->t->ndim, n);
    for (int d = 0; d < x->t->ndim + n; d++) sizes[d] = d < at ? x->t->sizes[d] : d < at + n ? 1 : x->t->sizes[d - n];
    return batch_become(x, fac__c_view(x->t, (fac_ints){sizes, (size_t)(x->t->ndim + n)}, &next), &next);
}

fac_status batch_flatten(batch_tensor *x, int at, int n) {
    int64_t sizes[FAC_MAX_DIMS];
    int to = 0;
    fac_tensor *next = NULL;
    for (int d = 0; d < x->t->ndim; d++)
        if (d > at && d < at + n)
            FAC_CHECK(fac__mul(sizes[to - 1], x->t->sizes[d], &sizes[to - 1]), FAC_ERR_OVERFLOW,
                      "a batch of %s has too many rows", FAC_SHAPE_TEXT(x->t));
        else
            sizes[to++] = x->t->sizes[d];
    if (n == 0) { /* nothing to join: one row of one element */
        memmove(sizes + at + 1, sizes + at, (size_t)(to - at) * sizeof *sizes);
        sizes[at] = 1;
        to++;
    }
    return batch_become(x, fac__c_reshape(x->t, (fac_ints){sizes, (size_t)to}, &next), &next);
}

fac_status batch_split(fac_value *out, int64_t first) {
    int64_t sizes[FAC_MAX_DIMS + 1];
    fac_tensor *t = fac__value_header(out), *next = NULL;
    if (!t) return FAC_OK;
    sizes[0] = first;
    sizes[1] = first ? t->sizes[0] / first : 0;
    for (int d = 1; d < t->ndim; d++) sizes[d + 1] = t->sizes[d];
    FAC_TRY(fac__c_reshape(t, (fac_ints){sizes, (size_t)t->ndim + 1}, &next));
    fac_value_release(out);
    *out = fac__value_owned_tensor(next);
    return fac_error();
}

/* What stands for a tensor argument, or a list of them, in the call. */
static fac_status put_tensors(batch_call *b, size_t arg) {
    fac_tensor *one = NULL;
    const fac_tensors l = tensors_of(&b->stack[arg], &one);
    if (l.n == 0) return FAC_OK;
    size_t k = 0;
    while (b->v[k].arg != arg) k++;
    if (b->stack[arg].tag == FAC_TAG_TENSOR) return batch_set(b, arg, fac__value_tensor(b->v[k].t));
    fac_tensor **v = fac__alloc_array(l.n, sizeof *v);
    if (!v) return fac_error();
    for (size_t j = 0; j < l.n; j++) v[j] = l.v[j] ? b->v[k++].t : NULL;
    const fac_value list = fac__value_tensors(v, l.n);
    fac__free(v);
    return batch_set(b, arg, list);
}

static bool has_tensor(const fac_value *v) {
    fac_tensor *one = NULL;
    const fac_tensors l = tensors_of(v, &one);
    for (size_t j = 0; j < l.n; j++)
        if (l.v[j]) return true;
    return false;
}

fac_status batch_call_op(batch_call *b) {
    fac_value few[24], *args = b->op->n_args <= FAC_COUNT(few) ? few : fac__alloc_array(b->op->n_args, sizeof *args);
    if (!args) return fac_error();
    fac_status st = FAC_OK;
    for (size_t i = 0; i < b->op->n_args && st == FAC_OK; i++) {
        if (has_tensor(&b->stack[i])) st = put_tensors(b, i);
        args[i] = *batch_arg(b, i);
    }
    if (st == FAC_OK) st = batch_call_other(b, b->op, args, b->op->n_args);
    if (args != few) fac__free(args);
    return st;
}

fac_status batch_call_other(batch_call *b, const fac_operator *op, const fac_value *args, size_t n) {
    return fac_call_op(op, args, n, b->outs);
}

static fac_status each_of_list(batch_call *b, fac_value *v,
                               fac_status (*f)(batch_call *, fac_tensor *, fac_tensor **)) {
    const fac_tensors l = fac__value_headers(v);
    fac_tensor **made = l.n ? fac__alloc_zero(l.n * sizeof *made) : NULL;
    if (l.n && !made) return fac_error();
    fac_status st = FAC_OK;
    for (size_t j = 0; j < l.n && st == FAC_OK; j++)
        if (l.v[j]) st = f(b, l.v[j], &made[j]);
    fac_value list = fac_value_none();
    if (st == FAC_OK) {
        list = fac__value_tensors(made, l.n);
        st = fac_error();
    }
    for (size_t j = 0; j < l.n; j++) fac__unref(made[j]);
    fac__free(made);
    if (st != FAC_OK) return st;
    fac_value_release(v);
    *v = list;
    return FAC_OK;
}

fac_status batch_each_out(batch_call *b, fac_status (*f)(batch_call *b, fac_tensor *t, fac_tensor **out)) {
    for (size_t i = 0; i < b->schema->n_rets; i++) {
        fac_value *v = &b->outs[i];
        if (v->tag == FAC_TAG_TENSORS) FAC_TRY(each_of_list(b, v, f));
        fac_tensor *t = fac__value_header(v), *next = NULL;
        if (!t) continue;
        FAC_TRY(f(b, t, &next));
        batch_give(b, i, next);
        FAC_TRY(fac_error());
    }
    return FAC_OK;
}

void batch_give(batch_call *b, size_t i, fac_tensor *owned) {
    fac_value_release(&b->outs[i]);
    b->outs[i] = owned ? fac__value_owned_tensor(owned) : fac_value_none();
}

fac_status batch_refuse(const batch_call *b, const char *why) {
    return FAC_FAIL(FAC_ERR_UNSUPPORTED, "vmap cannot run %s: %s", b->op->name, why);
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

static fac_status wrap(batch_call *b, fac_tensor *t, fac_tensor **out) {
    return fac__batch_wrap(b->level, fac__ref(t), 0, out);
}

/* A value that was written may have become dual. */
static void follow_writes(const batch_call *b) {
    for (size_t i = 0; i < b->n; i++)
        if (b->v[i].written && b->v[i].batched)
            b->v[i].given->keys |= fac__batched(b->v[i].given)->value->keys & fac__func_bit(FAC_KEY_FORWARD_AD);
}

/* The argument that result i is, if it is one. */
static const batch_tensor *given_result(const batch_call *b, size_t i) {
    const fac_schema_type *r = &b->schema->rets[i].type;
    for (size_t k = 0; k < b->n && r->write; k++)
        if (b->v[k].written && b->schema->args[b->v[k].arg].type.before & r->before) return &b->v[k];
    return NULL;
}

static fac_status give_results(batch_call *b, fac_value *stack) {
    for (size_t i = 0; i < b->schema->n_rets; i++)
        if (given_result(b, i)) batch_give(b, i, NULL);
    if (!b->plain) FAC_TRY(batch_each_out(b, wrap));
    for (size_t i = 0; i < b->schema->n_rets; i++) {
        const batch_tensor *x = given_result(b, i);
        if (x) b->outs[i] = fac__value_tensor(x->given);
    }
    for (size_t i = 0; i < b->schema->n_rets; i++) {
        stack[i] = b->outs[i];
        b->outs[i] = fac_value_none();
    }
    return fac_error();
}

/* ---- the kernel ------------------------------------------------------------------------------------------------- */

/* A tensor that every sample would write to. */
static fac_status check_written(const batch_call *b) {
    for (size_t i = 0; i < b->n && b->any; i++)
        FAC_CHECK(!b->v[i].written || b->v[i].batched || !b->schema->args[b->v[i].arg].type.write, FAC_ERR_UNSUPPORTED,
                  "within vmap, what differs between samples cannot be written to '%s', which all samples share. Make "
                  "it of a batched tensor (fac_zeros_like, fac_new_zeros), or use the operator that makes a new tensor",
                  b->schema->args[b->v[i].arg].name);
    return FAC_OK;
}

/* A sparse or quantized argument that all samples share: rules know of plain tensors. */
static bool has_opaque(const batch_call *b) {
    for (size_t i = 0; i < b->n; i++)
        if (fac__is_opaque(b->v[i].given)) return true;
    return false;
}

static fac_status apply(batch_call *b, bool random) {
    FAC_TRY(check_written(b));
    if (random) return fac__batch_random_call(b);
    if (has_opaque(b) && b->facts && b->facts->batch != FAC_BATCH_REFUSED) return fac__batch_loop(b);
    return fac__batch_rules[b->facts ? b->facts->batch : FAC_BATCH_LOOP](b);
}

static fac_status run(batch_call *b, fac_value *stack, bool random) {
    const size_t width = b->op->n_args + b->schema->n_rets, most = count_tensors(stack, b->op->n_args);
    fac_value few[32], *values = width <= FAC_COUNT(few) ? few : fac__alloc_array(width, sizeof *values);
    batch_tensor few_tensors[8], *v = most <= FAC_COUNT(few_tensors) ? few_tensors : fac__alloc_array(most, sizeof *v);
    fac_status st = values && v ? FAC_OK : fac_error();
    for (size_t i = 0; i < width && st == FAC_OK; i++) values[i] = fac_value_none();
    if (st == FAC_OK) {
        b->args = values;
        b->outs = values + b->op->n_args;
        b->v = v;
        for (size_t i = 0; i < b->op->n_args; i++) gather_arg(b, i);
        const fac_batch_sight was = fac__batch_hide(b->level->outer);
        st = apply(b, random);
        fac__batch_see(was);
        follow_writes(b);
        if (st == FAC_OK) st = give_results(b, stack);
        for (size_t i = 0; i < width; i++) fac_value_release(&values[i]);
        for (size_t i = 0; i < b->n; i++) fac__unref(b->v[i].t);
    }
    if (v != few_tensors) fac__free(v);
    if (values != few) fac__free(values);
    return st;
}

/* The innermost level among the arguments, NULL if they have none; false with an error if one of them is out of
   sight. */
static bool find_level(const fac_value *stack, size_t n_args, const fac_batch_level **out) {
    *out = NULL;
    for (size_t i = 0; i < n_args; i++) {
        fac_tensor *one = NULL;
        const fac_tensors l = tensors_of(&stack[i], &one);
        for (size_t j = 0; j < l.n; j++) {
            if (!fac__batched(l.v[j])) continue;
            const fac_batch_level *level = fac__batch_level_of(l.v[j]);
            if (!level) return false;
            if (!*out || level->id > (*out)->id) *out = level;
        }
    }
    return true;
}

/* Whether a call draws random numbers: those in training only do not otherwise. */
static bool draws(const fac_operator *op, const fac_schema *s, const fac_value *stack) {
    if (!op->facts || !op->facts->offsets) return false;
    for (size_t i = 0; i < s->n_args; i++)
        if (strcmp(s->args[i].name, "train") == 0 && stack[i].tag == FAC_TAG_BOOL && !fac_value_as_bool(stack[i]))
            return false;
    return true;
}

static fac_status call_batched(const fac_call_info *c, fac_value *stack) {
    const fac_schema *s = atomic_load_explicit(&c->op->schema, memory_order_acquire);
    const fac_batch_level *level, *innermost = fac__thread()->batch;
    if (!find_level(stack, c->op->n_args, &level)) return fac_error();
    const bool random = innermost && draws(c->op, s, stack);
    if (random) level = innermost; /* it decides whether samples differ, batched or not */
    if (!level) return fac_redispatch_below(c, FAC_KEY_BATCHED, stack);
    batch_call b = {.info = c, .op = c->op, .schema = s, .facts = c->op->facts, .level = level, .stack = stack};
    fac_status st = run(&b, stack, random);
    return st == FAC_OK ? st : fac__error_context(c->op->name, NULL);
}

fac_status fac__batch_init(void) {
    return fac_register_fallback("Batched", call_batched, NULL, FAC_HERE) ? FAC_OK : fac_error();
}

const char *fac__batch_kind_name(const fac_operator *op) {
    static const char *const words[] = {
#define FAC_BATCH_KIND(id, word) word,
        FAC_BATCH_KINDS(FAC_BATCH_KIND)
#undef FAC_BATCH_KIND
    };
    return words[op->facts ? op->facts->batch : FAC_BATCH_LOOP];
}
