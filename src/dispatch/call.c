/* Boxed calls: arguments against the schema, keys of the arguments, kernel, results against the schema. */
#include "dispatch/call.h"
#include "core/generator.h"
#include "core/handle.h"
#include "dispatch/registry.h"

#define INLINE_VALUES 24

/* ---- the observer ------------------------------------------------------------------------------------------------ */

/* Immutable, so that function and context are always read together; kept until shutdown. */
typedef struct observer {
    fac_call_observer fn;
    void *context;
    struct observer *older;
} observer;

static _Atomic(observer *) active, all_observers;

void fac_set_call_observer(fac_call_observer fn, void *context) {
    observer *o = fn ? fac__alloc(sizeof *o) : NULL;
    if (fn && !o) return;
    if (o) {
        *o = (observer){fn, context, atomic_load(&all_observers)};
        while (!atomic_compare_exchange_weak(&all_observers, &o->older, o)) continue;
    }
    const bool was = atomic_exchange(&active, o) != NULL;
    if (was != (o != NULL)) atomic_fetch_add(&fac__watched, o ? FAC_WATCHED_OBSERVER : -FAC_WATCHED_OBSERVER);
}

fac_status fac__observe(const fac_operator *op, fac_keyset keys, bool enter) {
    const observer *o = atomic_load_explicit(&active, memory_order_acquire);
    if (o) FAC_CALLBACK(o->fn(o->context, op, keys, enter));
    return enter ? fac__take_cancel(fac__tls) : FAC_OK;
}

void fac__observers_free(void) {
    fac_set_call_observer(NULL, NULL);
    observer *o = atomic_exchange(&all_observers, NULL);
    while (o) {
        observer *older = o->older;
        fac__free(o);
        o = older;
    }
}

/* ---- with given keys --------------------------------------------------------------------------------------------- */

fac_status fac_redispatch(const fac_operator *op, fac_keyset keys, fac_value *stack) {
    FAC_CHECK(op && stack, FAC_ERR_ARGUMENT, "a redispatch needs an operator and a stack, but one of them is NULL");
    const fac_kernel *k = fac__pick(op, &keys);
    const fac_call_info c = {op, keys, k, k->context};
    return k->boxed(&c, stack);
}

fac_status fac_redispatch_below(const fac_call_info *c, fac_functionality f, fac_value *stack) {
    FAC_CHECK(c && stack, FAC_ERR_ARGUMENT, "a redispatch needs its call and a stack, but one of them is NULL");
    FAC_CHECK((unsigned)f < FAC_KEY_COUNT, FAC_ERR_ARGUMENT, "%d is no functionality to redispatch below", (int)f);
    return fac_redispatch(c->op, c->keys & fac__below(f), stack);
}

static fac_status run(const fac_operator *op, fac_keyset keys, fac_value *stack) {
    if (FAC_LIKELY(!fac__is_observed())) return fac_redispatch(op, keys, stack);
    fac_status st = fac__observe(op, keys, true);
    if (st == FAC_OK) st = fac_redispatch(op, keys, stack);
    (void)fac__observe(op, keys, false);
    return st;
}

/* ---- from a caller's values -------------------------------------------------------------------------------------- */

/* A value may have been released through a copy of it that the caller made without fac_value_copy. */
static fac_status check_live(const fac_operator *op, fac_value v, const char *arg) {
    if (v.tag != FAC_TAG_TENSOR) return FAC_OK;
    return fac__open((const fac_tensor *)(intptr_t)v.payload, op->name, arg) ? FAC_OK : fac_error();
}

/* Fills the stack with borrowed values in the schema's types; what had to be converted is in held, to be released. */
static fac_status fill_stack(const fac_operator *op, const fac_definition *d, const fac_value *args, size_t n,
                             fac_value *stack, fac_value *held) {
    const fac_schema *s = d->schema;
    for (size_t i = 0; i < s->n_args; i++) held[i] = fac_value_none();
    FAC_CHECK(n <= s->n_args, FAC_ERR_ARGUMENT, "%zu arguments were given, but %s takes at most %zu", n, s->text,
              s->n_args);
    for (size_t i = 0; i < s->n_args; i++) {
        const fac_schema_arg *a = &s->args[i];
        if (i >= n) {
            FAC_CHECK(a->default_text, FAC_ERR_ARGUMENT, "argument '%s' is missing, and %s has no default for it",
                      a->name, s->text);
            stack[i] = d->defaults[i];
            continue;
        }
        FAC_TRY(check_live(op, args[i], a->name));
        FAC_TRY(fac__value_coerce(&a->type, a->name, args[i], &held[i]));
        stack[i] = held[i].tag == FAC_TAG_NONE ? args[i] : held[i];
    }
    return FAC_OK;
}

static fac_status check_written(const fac_schema *s, const fac_value *stack) {
    for (size_t i = 0; i < s->n_args; i++) {
        if (!s->args[i].type.write) continue;
        FAC_TRY(fac__check_writable(fac__value_header(&stack[i])));
        fac_tensors l = fac__value_headers(&stack[i]);
        for (size_t j = 0; j < l.n; j++) FAC_TRY(fac__check_writable(l.v[j]));
    }
    return FAC_OK;
}

static fac_keyset keys_of_list(fac_tensors l) {
    fac_keyset keys = 0;
    for (size_t j = 0; j < l.n; j++)
        if (l.v[j]) keys |= l.v[j]->keys;
    return keys;
}

/* The union of all tensors' keys, and of a generator's. Without a tensor argument in the schema, the keys of the device asked for. */
fac_keyset fac__boxed_keys(const fac_schema *s, const fac_value *stack) {
    fac_keyset keys = 0, drawn = 0;
    fac_device device = {0, 0};
    bool tensors = false;
    for (size_t i = 0; i < s->n_args; i++) {
        tensors |= s->args[i].type.kind == FAC_TYPE_TENSOR;
        switch (stack[i].tag) {
        case FAC_TAG_TENSOR: keys |= fac__value_header(&stack[i])->keys; break;
        case FAC_TAG_TENSORS: keys |= keys_of_list(fac__value_headers(&stack[i])); break;
        case FAC_TAG_DEVICE: device = fac_value_as_device(stack[i]); break;
        case FAC_TAG_GENERATOR: drawn = fac__generator_keys(fac_value_as_generator(stack[i])); break;
        }
    }
    return (tensors ? keys : fac__device_keys(device)) | drawn;
}

/* A tensor may be missing among results: a gradient that was not asked for. */
static bool result_fits(const fac_schema_type *t, fac_value v) {
    return fac__value_fits(t, v) || (v.tag == FAC_TAG_NONE && t->kind == FAC_TYPE_TENSOR && !t->list);
}

static fac_status drop_results(const fac_schema *s, fac_value *stack, fac_status st) {
    for (size_t i = 0; i < s->n_rets; i++) fac_value_release(&stack[i]);
    return st;
}

/* Moves the results to the caller, or drops them all if one is not what the schema says. */
static fac_status give_results(const fac_operator *op, const fac_schema *s, fac_keyset keys, fac_value *stack,
                               fac_value *out) {
    if (FAC_UNLIKELY(fac_error() != FAC_OK)) return drop_results(s, stack, fac_error());
    for (size_t i = 0; i < s->n_rets; i++) {
        if (FAC_LIKELY(result_fits(&s->rets[i].type, stack[i]))) continue;
        int64_t tag = stack[i].tag;
        drop_results(s, stack, FAC_OK);
        return FAC_FAIL(FAC_ERR_ARGUMENT, "result %zu is %s, which does not suit %s; the kernel is from %s", i,
                        fac__tag_name(tag), s->text, fac__pick(op, &keys)->where);
    }
    if (s->n_rets) memcpy(out, stack, s->n_rets * sizeof *out);
    return FAC_OK;
}

static fac_status call_on(const fac_operator *op, const fac_schema *s, fac_value *stack, fac_value *out) {
    fac_keyset keys = fac__call_keys(fac__thread(), fac__boxed_keys(s, stack));
    if (FAC_UNLIKELY(fac_error() != FAC_OK)) return fac_error(); /* a device that nothing serves */
    fac_status st = run(op, keys, stack);
    if (st == FAC_OK) return give_results(op, s, keys, stack, out);
    return fac_error() ? fac_error()
                       : FAC_FAIL(st, "the kernel from %s failed and did not say why", fac__pick(op, &keys)->where);
}

fac_status fac_call_op(const fac_operator *op, const fac_value *args, size_t n_args, fac_value *out_results) {
    if (fac_error() != FAC_OK) return fac_error();
    FAC_CHECK(op && (args || !n_args), FAC_ERR_ARGUMENT,
              "a call needs an operator and its arguments, but one of them is NULL");
    const fac_definition *d = atomic_load_explicit(&op->registry->definition, memory_order_acquire);
    FAC_CHECK(d, FAC_ERR_NOT_FOUND, "operator '%s' is not declared (any more)", op->name);
    FAC_CHECK(out_results || !d->schema->n_rets, FAC_ERR_ARGUMENT, "a call of '%s' needs a place for its results",
              op->name);
    fac_value inline_values[2 * INLINE_VALUES];
    size_t width = d->schema->n_args > d->schema->n_rets ? d->schema->n_args : d->schema->n_rets;
    fac_value *values = inline_values;
    if (width > INLINE_VALUES && !(values = fac__alloc_array(2 * width, sizeof *values))) return FAC_ERR_MEMORY;
    for (size_t i = 0; i < d->schema->n_rets; i++) out_results[i] = fac_value_none();
    fac_status st = fill_stack(op, d, args, n_args, values, values + width);
    if (st == FAC_OK) st = check_written(d->schema, values);
    if (st == FAC_OK) {
        const fac_draws outer = fac__draws_begin();
        st = fac__draws_end(outer, call_on(op, d->schema, values, out_results));
    }
    for (size_t i = 0; i < d->schema->n_args; i++) fac_value_release(&values[width + i]);
    if (st != FAC_OK) fac__error_context(op->name, NULL);
    if (values != inline_values) fac__free(values);
    return st;
}

fac_status fac_call(const char *name, const fac_value *args, size_t n_args, fac_value *out_results) {
    if (fac_error() != FAC_OK) return fac_error();
    const fac_operator *op = fac_operator_find(name);
    return op ? fac_call_op(op, args, n_args, out_results) : fac_error();
}

/* ---- no kernel --------------------------------------------------------------------------------------------------- */

static void add_kernel_place(fac_buf *b, const fac_registration *r) {
    char name[40];
    if (!r || r->fallthrough) return;
    fac__buf_printf(b, "%s%s (%s%s)", b->n ? ", " : "", fac_key_format(fac__key_of_place(r->place), name, sizeof name),
                    r->kind == FAC_REG_FALLBACK ? "fallback, " : "", r->where);
}

bool fac__has_kernel(const fac_operator *op, const fac_tensor *t) {
    fac_keyset keys = (t->keys & FAC_BACKEND_MASK) | FAC_KS_DENSE;
    const char *label = fac__pick(op, &keys)->label;
    return strcmp(label, "missing") != 0 && strcmp(label, "fallback") != 0;
}

/* One whose dimension counts runs its loop over parts of its arguments. A form into an out is as what it is a form of. */
bool fac__is_pointwise(const fac_operator *op) {
    const fac_operator *made_of = op->facts ? op->facts->functional : NULL, *base = made_of ? made_of : op;
    const bool by_dim = base->facts && base->facts->batch == FAC_BATCH_DIM;
    return !by_dim && op->registry && atomic_load_explicit(&op->registry->pointwise, memory_order_relaxed);
}

fac_status fac__no_kernel(const fac_call_info *c) {
    char key[40], keys[512];
    int f = fac__keyset_func(c->keys), b = fac__keyset_backend(c->keys);
    if (f < 0) f = FAC_KEY_DENSE;
    if (b < 0) b = FAC_BACKEND_CPU;
    fac_key k = {(int16_t)f, (int16_t)(fac__slot_mask[f] ? b : FAC_ALL_BACKENDS), FAC_ALIAS_NONE};
    fac_buf have = {0};
    fac__registry_lock();
    for (size_t i = 0; i < c->op->registry->n; i++) add_kernel_place(&have, c->op->registry->v[i].top);
    for (int p = 0; p < FAC_PLACES; p++) add_kernel_place(&have, fac__fallbacks[p]);
    fac__registry_unlock();
    fac_status st =
        FAC_FAIL(FAC_ERR_NO_KERNEL,
                 "could not run '%s' with arguments of the '%s' key (of %s): it has no kernel there. %s'%s' is only "
                 "available for these keys: [%s]",
                 c->op->name, fac_key_format(k, key, sizeof key), fac_keyset_format(c->keys, keys, sizeof keys),
                 f == FAC_KEY_QUANTIZED ? "Quantized and float8 tensors hold codes: dequantize(t) or to(t, float32) "
                                          "gives numbers to compute with. "
                                        : "",
                 c->op->name, have.data ? have.data : "");
    fac__buf_free(&have);
    return st;
}
