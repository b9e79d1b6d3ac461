/* Regions of autocast, and the kernel of its key: it casts the arguments of a call as the operator's entry says (`autocast`), and
   goes on below without the key, so that the parts of an operator are not cast again. It is registered, for the operators that
   have such a line alone, when the first region begins: programs without one start as fast as ever. */
#include "amp/autocast.h"
#include "autograd/leaf.h"
#include "base/mutex.h"
#include "core/handle.h"
#include "dispatch/value.h"
#include "keywords_gen.h"
#include "ops_gen.h"
#include <facula/amp.h>

#define AUTOCAST_KEY (fac__func_bit(FAC_KEY_AUTOCAST))

/* ---- casts of weights that are kept --------------------------------------------------------------------------------- */

typedef struct kept_cast {
    fac_tensor *weight, *cast;  /* owned */
    unsigned version;           /* of the weight when it was cast, */
    const fac_storage *storage; /* and its memory, only compared */
} kept_cast;

/* Open addressing by the weight's address; cap is a power of two, and at most three quarters are taken. */
typedef struct fac_cast_cache {
    kept_cast *v;
    size_t n, cap;
} fac_cast_cache;

/* The place of a weight, or the free one where it belongs. */
static kept_cast *place_of(const fac_cast_cache *c, const fac_tensor *weight) {
    size_t i = (size_t)((uint64_t)(uintptr_t)weight * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (c->cap - 1);
    while (c->v[i].weight && c->v[i].weight != weight) i = (i + 1) & (c->cap - 1);
    return &c->v[i];
}

static fac_status grow(fac_cast_cache *c) {
    fac_cast_cache bigger = {.n = c->n, .cap = c->cap ? c->cap * 2 : 16};
    bigger.v = fac__alloc_zero(bigger.cap * sizeof *bigger.v);
    if (!bigger.v) return fac_error();
    for (size_t i = 0; i < c->cap; i++)
        if (c->v[i].weight) *place_of(&bigger, c->v[i].weight) = c->v[i];
    fac__free(c->v);
    *c = bigger;
    return FAC_OK;
}

static void drop_casts(fac_thread *th) {
    fac_cast_cache *c = th->casts;
    th->casts = NULL;
    if (!c) return;
    for (size_t i = 0; i < c->cap; i++) {
        fac__unref(c->v[i].weight);
        fac__unref(c->v[i].cast);
    }
    fac__free(c->v);
    fac__free(c);
}

/* The cast of a weight that is kept, borrowed; NULL if there is none, or none that serves: the weight has changed, or was cast without
   recording and a gradient is wanted now. */
static fac_tensor *find_cast(const fac_thread *th, fac_tensor *weight, fac_dtype to) {
    const fac_cast_cache *c = th->casts;
    const kept_cast *k = c && c->cap ? place_of(c, weight) : NULL;
    if (!k || !k->weight || k->cast->dtype != to || k->version != fac__version_of(weight)) return NULL;
    if (k->storage != weight->storage) return NULL;
    const bool recording = !th->grad_disabled && !th->inference;
    return recording && !fac__requires_grad(k->cast) ? NULL : k->cast;
}

static fac_status keep_cast(fac_thread *th, fac_tensor *weight, fac_tensor *cast) {
    fac_cast_cache *c = th->casts ? th->casts : fac__alloc_zero(sizeof *c);
    if (!c) return fac_error();
    th->casts = c;
    th->drop_casts = drop_casts; /* for a thread that ends within a region */
    if ((c->n + 1) * 4 > c->cap * 3) FAC_TRY(grow(c));
    kept_cast *k = place_of(c, weight);
    fac_tensor *former = k->cast;
    if (!k->weight) {
        k->weight = fac__ref(weight);
        c->n++;
    }
    k->cast = fac__ref(cast);
    k->version = fac__version_of(weight);
    k->storage = weight->storage;
    fac__unref(former);
    return FAC_OK;
}

/* ---- casting -------------------------------------------------------------------------------------------------------- */

/* What happens to the tensors of one call. */
typedef struct casting {
    fac_thread *th;
    fac_device_type device;
    fac_dtype lower; /* the region's dtype */
    fac_dtype to;
} casting;

static bool is_eligible(const casting *k, const fac_tensor *t) {
    return t && t->device.type == (int32_t)k->device && t->dtype != FAC_F64 &&
           fac_dtype_is_floating((fac_dtype)t->dtype);
}

static bool is_kept(const casting *k, const fac_tensor *t) {
    const fac_keyset passing = fac__func_bit(FAC_KEY_FORWARD_AD) | fac__func_bit(FAC_KEY_BATCHED);
    return !k->th->autocast.uncached && k->to == k->lower && t->dtype == FAC_F32 && fac__requires_grad(t) &&
           fac__is_leaf(t) && !(t->keys & passing);
}

/* Owned. */
static fac_status cast_one(const casting *k, fac_tensor *t, fac_tensor **out) {
    const bool kept = is_kept(k, t);
    *out = fac__ref(kept ? find_cast(k->th, t, k->to) : NULL);
    if (*out) return FAC_OK;
    FAC_TRY(fac__c_to_dtype(t, k->to, false, false, FAC_FORMAT_DEFAULT, out));
    const fac_status st = kept ? keep_cast(k->th, t, *out) : FAC_OK;
    if (st == FAC_OK) return st;
    fac__unref(*out);
    *out = NULL;
    return st;
}

static bool is_changed(const casting *k, const fac_tensor *t) { return is_eligible(k, t) && t->dtype != k->to; }

static fac_status cast_list(const casting *k, fac_tensors l, fac_value *out) {
    fac_tensor **v = fac__alloc_zero((l.n + 1) * sizeof *v);
    fac_status st = v ? FAC_OK : fac_error();
    for (size_t i = 0; i < l.n && st == FAC_OK; i++) {
        if (is_changed(k, l.v[i]))
            st = cast_one(k, l.v[i], &v[i]);
        else
            v[i] = fac__ref(l.v[i]);
    }
    if (st == FAC_OK) {
        *out = fac__value_owned_tensors(v, l.n);
        return fac_error();
    }
    for (size_t i = 0; v && i < l.n; i++) fac__unref(v[i]);
    fac__free(v);
    return st;
}

/* Replaces the value of an argument in *out, owned, if there is something in it to be cast. */
static fac_status cast_value(const casting *k, const fac_value *v, fac_value *out) {
    if (v->tag == FAC_TAG_TENSOR) {
        fac_tensor *t = fac__value_header(v), *cast = NULL;
        if (!is_changed(k, t)) return FAC_OK;
        FAC_TRY(cast_one(k, t, &cast));
        *out = fac__value_owned_tensor(cast);
        return fac_error();
    }
    const fac_tensors l = v->tag == FAC_TAG_TENSORS ? fac__value_headers(v) : (fac_tensors){NULL, 0};
    for (size_t i = 0; i < l.n; i++)
        if (is_changed(k, l.v[i])) return cast_list(k, l, out);
    return FAC_OK;
}

/* ---- what an operator's entry says --------------------------------------------------------------------------------------- */

static fac_status widen(casting *k, const fac_tensor *t) {
    if (!is_eligible(k, t) || k->to == FAC_F32) return FAC_OK;
    FAC_CHECK(t->dtype == FAC_F32 || t->dtype == k->lower, FAC_ERR_DTYPE,
              "autocast to %s cannot bring a tensor of %s together with the others: cast it first",
              fac_dtype_name(k->lower), fac_dtype_name((fac_dtype)t->dtype));
    k->to = (fac_dtype)t->dtype;
    return FAC_OK;
}

static fac_status find_widest(casting *k, const fac_value *args, size_t n) {
    k->to = k->lower;
    for (size_t i = 0; i < n; i++) {
        if (args[i].tag == FAC_TAG_TENSOR) FAC_TRY(widen(k, fac__value_header(&args[i])));
        const fac_tensors l = args[i].tag == FAC_TAG_TENSORS ? fac__value_headers(&args[i]) : (fac_tensors){NULL, 0};
        for (size_t j = 0; j < l.n; j++) FAC_TRY(widen(k, l.v[j]));
    }
    return FAC_OK;
}

/* Puts f32 for a dtype that is not given, where the first argument would be cast. */
static void ask_for_f32(const casting *k, const fac_operator *op, const fac_value *args, fac_value *own) {
    const fac_schema *s = atomic_load_explicit(&op->schema, memory_order_acquire);
    for (size_t i = 0; i < s->n_args; i++)
        if (strcmp(s->args[i].name, "dtype") == 0 && args[i].tag == FAC_TAG_NONE &&
            is_eligible(k, fac__value_header(&args[0])))
            own[i] = fac_value_dtype(FAC_F32);
}

/* Whether the state that a recurrent layer begins with is a half: it stays one then. */
static bool has_low_state(const casting *k, const fac_operator *op, const fac_value *args) {
    const fac_schema *s = atomic_load_explicit(&op->schema, memory_order_acquire);
    for (size_t i = 0; i < s->n_args; i++)
        if (strcmp(s->args[i].name, "hx") == 0 && args[i].tag == FAC_TAG_TENSOR)
            return fac__value_header(&args[i])->dtype == k->lower;
    return false;
}

static fac_status refuse(const fac_operator *op) {
    const char *name = op->name + (strncmp(op->name, "aten::", 6) == 0 ? 6 : 0);
    return FAC_FAIL(
        FAC_ERR_UNSUPPORTED,
        "%s is not safe to autocast, as its gradients overflow in a half; use %s_with_logits on what goes into "
        "the sigmoid, or call it in a region with .enabled = false",
        name, name);
}

static fac_status cast_arguments(casting *k, const fac_call_info *c, int how, const fac_value *args, fac_value *own) {
    switch (how) {
    case FAC_CASTS_REFUSED: return refuse(c->op);
    case FAC_CASTS_NONE: return FAC_OK;
    case FAC_CASTS_F32_DTYPE: return ask_for_f32(k, c->op, args, own), FAC_OK;
    case FAC_CASTS_WIDEST: FAC_TRY(find_widest(k, args, c->op->n_args)); break;
    default: k->to = how == FAC_CASTS_LOWER || has_low_state(k, c->op, args) ? k->lower : FAC_F32;
    }
    for (size_t i = 0; i < c->op->n_args; i++) FAC_TRY(cast_value(k, &args[i], &own[i]));
    return FAC_OK;
}

/* `work` and `own` have room for arguments and results alike. */
static fac_status cast_and_call(casting *k, const fac_call_info *c, int how, fac_value *stack, fac_value *work,
                                fac_value *own) {
    const size_t n_args = c->op->n_args;
    FAC_TRY(cast_arguments(k, c, how, stack, own));
    for (size_t i = 0; i < n_args; i++) work[i] = own[i].tag == FAC_TAG_NONE ? stack[i] : own[i];
    FAC_TRY(fac_redispatch_below(c, FAC_KEY_AUTOCAST, work));
    if (c->op->n_rets) memcpy(stack, work, c->op->n_rets * sizeof *stack);
    return FAC_OK;
}

static fac_status call_without_key(casting *k, const fac_call_info *c, int how, fac_value *stack) {
    const size_t n_args = c->op->n_args, width = n_args > c->op->n_rets ? n_args : c->op->n_rets;
    fac_value few[32], *work = 2 * width <= FAC_COUNT(few) ? few : fac__alloc_array(2 * width, sizeof *work);
    if (!work) return fac_error();
    fac_value *own = work + width;
    for (size_t i = 0; i < width; i++) own[i] = fac_value_none();
    const fac_keyset was = k->th->exclude;
    k->th->exclude = was | AUTOCAST_KEY;
    const fac_status st = cast_and_call(k, c, how, stack, work, own);
    k->th->exclude = was;
    for (size_t i = 0; i < n_args; i++) fac_value_release(&own[i]);
    if (work != few) fac__free(work);
    return st;
}

/* ---- the devices -------------------------------------------------------------------------------------------------------- */

static const struct {
    fac_device_type type;
    fac_backend backend;
    fac_dtype dtype; /* of regions that say none */
    const char *key;
} devices[] = {
    [FAC_AUTOCAST_CPU] = {FAC_CPU, FAC_BACKEND_CPU, FAC_BF16, "AutocastCPU"},
    [FAC_AUTOCAST_CUDA] = {FAC_CUDA, FAC_BACKEND_CUDA, FAC_F16, "AutocastCUDA"},
};

static int device_of_type(fac_device_type type) {
    for (int i = 0; i < (int)FAC_COUNT(devices); i++)
        if (devices[i].type == type) return i;
    return -1;
}

static fac_dtype dtype_of(const fac_thread *th, int device) {
    const uint8_t d = th->autocast.dtype[device];
    return d ? (fac_dtype)d : devices[device].dtype;
}

static int cast_of(const fac_operator *op, int device) {
    return op->facts ? op->facts->autocast >> 4 * device & 15 : FAC_CASTS_NOTHING;
}

static fac_status call_cast(const fac_call_info *c, fac_value *stack) {
    const int device = fac__keyset_backend(c->keys) == FAC_BACKEND_CUDA ? FAC_AUTOCAST_CUDA : FAC_AUTOCAST_CPU;
    fac_thread *th = fac__thread();
    if (!(th->autocast.on & 1u << device)) return fac_redispatch_below(c, FAC_KEY_AUTOCAST, stack);
    casting k = {.th = th, .device = devices[device].type, .lower = dtype_of(th, device)};
    return call_without_key(&k, c, cast_of(c->op, device), stack);
}

/* ---- the beginning and the end --------------------------------------------------------------------------------------------- */

static fac_mutex once = FAC_MUTEX_INIT; /* guards the next while it is being set */
static atomic_bool begun;

static fac_status register_one(const fac_operator *op) {
    for (int i = 0; i < (int)FAC_COUNT(devices); i++)
        if (cast_of(op, i) != FAC_CASTS_NOTHING &&
            !fac_register_boxed(fac_operator_name(op), devices[i].key, call_cast, NULL, FAC_HERE))
            return fac_error();
    return FAC_OK;
}

static fac_status register_all(void) {
    for (size_t i = 0; i < fac_operator_count(); i++) FAC_TRY(register_one(fac_operator_at(i)));
    return FAC_OK;
}

static fac_status begin_once(void) {
    if (FAC_LIKELY(atomic_load_explicit(&begun, memory_order_acquire))) return FAC_OK;
    fac__mutex_lock(&once);
    fac_status st = FAC_OK;
    if (!atomic_load_explicit(&begun, memory_order_relaxed)) st = register_all();
    if (st == FAC_OK) atomic_store_explicit(&begun, true, memory_order_release);
    fac__mutex_unlock(&once);
    return st;
}

void fac__autocast_shutdown(void) {
    atomic_store_explicit(&begun, false, memory_order_relaxed);
    if (fac__thread_if_any()) drop_casts(fac__thread());
}

/* ---- regions ------------------------------------------------------------------------------------------------------------ */

_Static_assert(sizeof(fac_autocast) == sizeof(uint32_t), "a guard holds the state");

static fac_status region_of(const fac_thread *th, const fac_autocast_begin_kw *kw, fac_autocast *out) {
    const fac_device_type type = kw->device.type ? (fac_device_type)kw->device.type : FAC_CPU;
    const int device = device_of_type(type);
    FAC_CHECK(device >= 0, FAC_ERR_UNSUPPORTED, "autocast knows the devices cpu and cuda, got %s",
              fac_device_format(kw->device, (char[24]){0}, 24));
    const fac_dtype dtype = kw->dtype ? kw->dtype : dtype_of(th, device);
    FAC_CHECK(!kw->enabled || fac__is_half(dtype), FAC_ERR_ARGUMENT, "autocast casts to float16 or bfloat16, got %s",
              fac_dtype_name(dtype));
    const unsigned bit = 1u << device;
    out->on = (uint8_t)(kw->enabled ? out->on | bit : out->on & ~bit);
    if (fac__is_half(dtype)) out->dtype[device] = (uint8_t)dtype;
    if (kw->cache_enabled >= 0) out->uncached = !kw->cache_enabled;
    return FAC_OK;
}

fac_autocast_guard(fac_autocast_begin)(const fac_autocast_begin_kw *kw) {
    fac_thread *th = fac__thread();
    fac_autocast_guard g = {0, false};
    fac_autocast_begin_kw k;
    fac_autocast now = th->autocast;
    if (th->error != FAC_OK || fac__open_autocast_begin_kw(&k, kw) != FAC_OK || region_of(th, &k, &now) != FAC_OK ||
        begin_once() != FAC_OK)
        return g;
    memcpy(&g.was, &th->autocast, sizeof g.was);
    g.open = true;
    th->autocast_regions++;
    fac__autocast_set(th, now);
    return g;
}

void fac_autocast_end(fac_autocast_guard *g) {
    if (!g || !g->open) return;
    fac_thread *th = fac__thread();
    fac_autocast was;
    memcpy(&was, &g->was, sizeof was);
    fac__autocast_set(th, was);
    g->open = false;
    if (th->autocast_regions > 0) th->autocast_regions--; /* none: the library was stopped within the region */
    if (th->autocast_regions == 0) drop_casts(th);
}

bool fac_is_autocast_enabled(fac_device_type type) {
    const int device = device_of_type(type);
    return device >= 0 && fac__thread()->autocast.on & 1u << device;
}

fac_dtype fac_autocast_dtype(fac_device_type type) {
    const int device = device_of_type(type);
    if (device >= 0) return dtype_of(fac__thread(), device);
    FAC_FAIL(FAC_ERR_UNSUPPORTED, "autocast knows the devices cpu and cuda, got %s",
             fac_device_format(fac_device_make(type, -1), (char[24]){0}, 24));
    return FAC_DTYPE_DEFAULT;
}

bool fac_is_autocast_cache_enabled(void) { return !fac__thread()->autocast.uncached; }

void fac_clear_autocast_cache(void) { drop_casts(fac__thread()); }

const char *fac_operator_autocast(const fac_operator *op, fac_device_type type) {
    static const char *const words[] = {"", "lower", "f32", "f32_dtype", "widest", "refused", "none"};
    const int device = device_of_type(type);
    if (!fac__given(op, "operator") || device < 0) return "";
    return words[cast_of(op, device)];
}

/* ---- custom functions ---------------------------------------------------------------------------------------------------- */

/* Handles in and out: the inputs, those that a cast changes as temporaries. */
static fac_status cast_inputs_of(fac_thread *th, fac_tensors inputs, fac_dtype to, fac_tensor **out) {
    for (size_t i = 0; i < inputs.n; i++) {
        out[i] = inputs.v[i];
        fac_tensor *t = inputs.v[i];
        FAC_OPEN_OPTIONAL(t, "fac_function_apply_cast", "inputs", fac_error());
        const int device = t ? device_of_type((fac_device_type)t->device.type) : -1;
        if (device < 0 || !(th->autocast.on & 1u << device)) continue;
        const casting k = {.th = th, .device = devices[device].type, .to = to};
        if (is_changed(&k, t)) out[i] = fac__handle(fac__s_to_dtype(t, to, false, false, FAC_FORMAT_DEFAULT));
        FAC_TRY(fac_error());
    }
    return FAC_OK;
}

static fac_status apply_without(fac_thread *th, const fac_function *fn, void *user, fac_tensors inputs, fac_dtype to,
                                fac_tensor **out_outputs) {
    fac_tensor **v = fac__alloc_array(inputs.n + 1, sizeof *v);
    if (!v) return fac_error();
    const fac_autocast was = th->autocast;
    fac_status st = cast_inputs_of(th, inputs, to, v);
    fac_autocast off = was;
    off.on = 0;
    fac__autocast_set(th, off);
    if (st == FAC_OK) st = fac_function_apply(fn, user, (fac_tensors){v, inputs.n}, out_outputs);
    fac__autocast_set(th, was);
    fac__free(v);
    return st;
}

fac_status fac_function_apply_cast(const fac_function *fn, void *user, fac_tensors inputs, fac_dtype cast_inputs,
                                   fac_tensor **out_outputs) {
    fac_thread *th = fac__thread();
    FAC_TRY(th->error);
    FAC_CHECK(fac_dtype_is_floating(cast_inputs), FAC_ERR_ARGUMENT,
              "fac_function_apply_cast: cast_inputs should be a floating dtype, got %s", fac_dtype_name(cast_inputs));
    FAC_CHECK(inputs.v || !inputs.n, FAC_ERR_ARGUMENT, "a list of %zu inputs has no array", inputs.n);
    if (!th->autocast.on) return fac_function_apply(fn, user, inputs, out_outputs);
    return apply_without(th, fn, user, inputs, cast_inputs, out_outputs);
}
