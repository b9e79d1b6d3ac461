/* The host's part: while the checker is on, a key that no tensor carries is added to every call, and its fallback names the
   operator that is under way and checks what operators on the CPU do to page-locked memory. */
#include "backend/cuda/runtime/race.h"
#include "dispatch/operator.h"
#include "dispatch/schema.h"
#include "dispatch/value.h"

#define WATCHED FAC_KEY_WATCH /* below autograd, above every back end */

static _Thread_local const char *under_way __attribute__((tls_model("initial-exec")));
static fac_registration *registration;

const char *fac__race_operator(void) { return under_way; }

/* Bytes from the first to the last element, whose storage is page-locked. */
static fac_status check_tensor(fac_tensor *t, bool write, const char *op) {
    fac_cuda_access a;
    if (!t || !fac__is_cpu(t) || !t->storage || !t->numel || !fac__cuda_is_host_memory(t->storage->data)) return FAC_OK;
    fac__cuda_access_tensor(t, !write, write, NULL, &a);
    int64_t bytes = a.rows > 1 ? (a.rows - 1) * a.pitch + a.width : a.width;
    return fac__race_host_access(a.start, bytes, write, op);
}

static fac_status check_value(fac_value v, bool write, const char *op) {
    if (v.tag == FAC_TAG_TENSOR) return check_tensor(fac__value_header(&v), write, op);
    if (v.tag != FAC_TAG_TENSORS) return FAC_OK;
    fac_tensors l = fac__value_headers(&v);
    for (size_t i = 0; i < l.n; i++) FAC_TRY(check_tensor(l.v[i], write, op));
    return FAC_OK;
}

/* Results alone do not say whether data was read: a view of an argument touches nothing. */
static bool makes_view(const fac_schema *s) {
    for (size_t i = 0; i < s->n_rets; i++)
        if (s->rets[i].type.alias && !s->rets[i].type.write) return true;
    return false;
}

/* Copies to a device look at their source themselves. */
static bool is_transfer(const fac_value *stack, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (stack[i].tag == FAC_TAG_TENSOR && fac__value_header(&stack[i])->device.type == FAC_CUDA) return true;
    return false;
}

static fac_status watch(const fac_call_info *c, fac_value *stack) {
    const fac_schema *s = atomic_load_explicit(&c->op->schema, memory_order_acquire);
    const char *outer = under_way;
    bool looks = s && !makes_view(s) && !is_transfer(stack, s->n_args);
    for (size_t i = 0; looks && i < s->n_args; i++) FAC_TRY(check_value(stack[i], s->args[i].type.write, c->op->name));
    under_way = c->op->name;
    fac_status st = fac_redispatch_below(c, WATCHED, stack);
    under_way = outer;
    return st;
}

fac_status fac__race_watch(void) {
    if (registration) return FAC_OK;
    registration = fac_register_fallback("Watch", watch, NULL, FAC_HERE);
    if (!registration) return fac_error();
    fac_global_include(atomic_load(&fac__global_keys) | fac_keyset_of(WATCHED));
    return FAC_OK;
}

void fac__race_unwatch(bool dispatcher_lives) {
    if (!registration) return;
    fac_global_include(atomic_load(&fac__global_keys) & ~fac_keyset_of(WATCHED));
    if (dispatcher_lives) fac_registration_release(registration);
    registration = NULL;
}
