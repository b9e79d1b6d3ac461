/* From registrations to tables: kernel records, precedence, and the two registrations that stand for no kernel. */
#include "dispatch/registry.h"

fac_registration *fac__fallbacks[FAC_PLACES];
fac_keyset fac__pointwise_backends = (fac_keyset)1 << FAC_BACKEND_CPU;

static fac_status no_kernel(const fac_call_info *c, fac_value *stack) {
    (void)stack;
    return fac__no_kernel(c);
}

/* Reached only by a call that read the fall-through mask just before the key began to fall through, or the table just before a
   kernel came: goes on below the key, as the mask would have made it. */
static fac_status fall_through(const fac_call_info *c, fac_value *stack) {
    int f = fac__keyset_func(c->keys);
    fac_keyset rest = f < 0 ? 0 : c->keys & fac__below((fac_functionality)f);
    if (fac__keyset_func(rest) < 0) return fac__no_kernel(c);
    return fac_redispatch(c->op, rest, stack);
}

static fac_registration missing = {.kind = FAC_REG_KERNEL, .label = "missing", .boxed = no_kernel, .where = "-"};
static fac_registration default_fallthrough = {.kind = FAC_REG_FALLBACK,
                                               .label = "default fall-through",
                                               .boxed = fall_through,
                                               .fallthrough = true,
                                               .where = "-"};

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* The record for a signature, moved to the front: the next question is mostly for the same one. Only writers, under the
   lock, walk these lists. */
static fac_record *record_of(fac_registration *r, const fac_signature *signature) {
    for (fac_record **at = &r->records, *k; (k = *at); at = &k->next) {
        if (k->signature != signature) continue;
        *at = k->next;
        k->next = r->records;
        return r->records = k;
    }
    return NULL;
}

static fac_status call_out(const fac_call_info *c, fac_value *stack) {
    fac_status st;
    FAC_CALLBACK(st = c->kernel->direct_boxed(c, stack));
    return st;
}

fac_status fac__record_ensure(fac_registration *r, const fac_signature *signature) {
    if (record_of(r, signature)) return FAC_OK;
    fac_record *k = fac__alloc_zero(sizeof *k);
    if (!k) return FAC_ERR_MEMORY;
    k->kernel = (fac_kernel){
        .typed = r->takes_handles ? signature->door
                 : r->typed       ? r->typed
                 : signature      ? signature->box
                                  : NULL,
        .boxed = r->typed         ? signature->unbox
                 : r->fallthrough ? fall_through
                                  : call_out,
        .context = r->context,
        .where = r->where,
        .label = r->label,
        .fallthrough = r->fallthrough,
        .direct_typed = r->typed,
        .direct_boxed = r->typed ? NULL : r->boxed,
    };
    k->signature = signature;
    k->next = r->records;
    r->records = k;
    return FAC_OK;
}

fac_status fac__records_ensure_shared(const fac_signature *signature) {
    FAC_TRY(fac__record_ensure(&missing, signature));
    FAC_TRY(fac__record_ensure(&default_fallthrough, signature));
    for (int p = 0; p < FAC_PLACES; p++)
        for (fac_registration *r = fac__fallbacks[p]; r; r = r->below) FAC_TRY(fac__record_ensure(r, signature));
    return FAC_OK;
}

void fac__records_free(fac_registration *r) {
    while (r->records) {
        fac_record *next = r->records->next;
        fac__free(r->records);
        r->records = next;
    }
}

void fac__table_free(void) {
    fac__records_free(&missing);
    fac__records_free(&default_fallthrough);
    memset(fac__fallbacks, 0, sizeof fac__fallbacks);
    fac__pointwise_backends = fac__backend_bit(FAC_BACKEND_CPU);
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

int fac__place_of(fac_key key) {
    switch (key.alias) {
    case FAC_ALIAS_CATCH_ALL: return FAC_PLACE_CATCH_ALL;
    case FAC_ALIAS_COMPOSITE_EXPLICIT: return FAC_PLACE_EXPLICIT;
    case FAC_ALIAS_AUTOGRAD: return FAC_PLACE_ALL + FAC_KEY_AUTOGRAD;
    case FAC_ALIAS_AUTOGRAD_OTHER: return FAC_PLACE_AUTOGRAD_OTHER;
    case FAC_ALIAS_POINTWISE: return FAC_PLACE_POINTWISE;
    default: break;
    }
    bool spread = fac__slot_mask[key.functionality] && key.backend == FAC_ALL_BACKENDS;
    return spread ? FAC_PLACE_ALL + key.functionality : fac__slot(key.functionality, key.backend);
}

fac_key fac__key_of_place(int place) {
    static const int16_t aliases[] = {FAC_ALIAS_COMPOSITE_EXPLICIT, FAC_ALIAS_CATCH_ALL, FAC_ALIAS_AUTOGRAD_OTHER,
                                      FAC_ALIAS_POINTWISE};
    if (place >= FAC_PLACE_ALL) return (fac_key){(int16_t)(place - FAC_PLACE_ALL), FAC_ALL_BACKENDS, FAC_ALIAS_NONE};
    if (place >= FAC_SLOTS) return (fac_key){FAC_KEY_ANY, FAC_ALL_BACKENDS, aliases[place - FAC_SLOTS]};
    int f = FAC_KEY_COUNT - 1;
    while (fac__slot_offset[f] > place) f--;
    int b = fac__slot_mask[f] ? place - fac__slot_offset[f] : FAC_ALL_BACKENDS;
    return (fac_key){(int16_t)f, (int16_t)b, FAC_ALIAS_NONE};
}

/* ---- precedence -------------------------------------------------------------------------------------------------- */

typedef fac_registration *const *tops; /* the newest registration of each place */

/* Keys that a plain tensor passes on its way down: they fall through where nothing is registered. The others say how
   the data is represented, and a kernel for another representation would misread it. */
static bool falls_through_by_default(int f) {
    switch (f) {
    case FAC_KEY_DENSE:
    case FAC_KEY_QUANTIZED:
    case FAC_KEY_VENDOR:
    case FAC_KEY_SPARSE_CSR:
    case FAC_KEY_SPARSE:
    case FAC_KEY_FORWARD_AD:
    case FAC_KEY_NESTED:
    case FAC_KEY_BATCHED: return false;
    default: return true;
    }
}

/* Backends whose autograd key PyTorch has no name for. */
static bool is_other_backend(int b) {
    return b == FAC_BACKEND_HIP || b == FAC_BACKEND_VE || b == FAC_BACKEND_VULKAN || b == FAC_BACKEND_METAL ||
           b == FAC_BACKEND_FPGA;
}

/* The registration for the slot itself, or for a group of keys that the slot is in. */
static fac_registration *nearest(tops t, int f, int b) {
    fac_registration *r = t[fac__slot(f, b)];
    if (!r && f == FAC_KEY_AUTOGRAD && is_other_backend(b)) r = t[FAC_PLACE_AUTOGRAD_OTHER];
    return r ? r : t[FAC_PLACE_ALL + f];
}

/* The kernel that serves backend b without being registered for it. */
static fac_registration *shared(tops t, int b) {
    bool pointwise = t[FAC_PLACE_POINTWISE] && fac__pointwise_backends & fac__backend_bit((fac_backend)b);
    return pointwise ? t[FAC_PLACE_POINTWISE] : t[FAC_PLACE_EXPLICIT];
}

static bool has_dense_kernel(tops t, int b) {
    const fac_registration *r = nearest(t, FAC_KEY_DENSE, b);
    return (r && !r->fallthrough) || shared(t, b);
}

/* A catch-all serves every key that has nothing nearer, but for Nested: operators made of others look at sizes, which a nested
   tensor does not have. And where the operator has a kernel of its own for the backend
   (or, for keys without backends, for any), the keys on the way down to it are not caught, or it could never run. */
static bool steps_back(tops t, int f, int b) {
    if (f == FAC_KEY_NESTED) return true;
    if (!falls_through_by_default(f)) return false;
    if (fac__slot_mask[f]) return has_dense_kernel(t, b);
    for (int any = 0; any < FAC_BACKEND_COUNT; any++)
        if (has_dense_kernel(t, any)) return true;
    return false;
}

static fac_registration *choose(tops t, int f, int b) {
    fac_registration *r = nearest(t, f, b);
    if (r) return r;
    if (f == FAC_KEY_DENSE && shared(t, b)) return shared(t, b);
    if (t[FAC_PLACE_CATCH_ALL] && !steps_back(t, f, b)) return t[FAC_PLACE_CATCH_ALL];
    r = nearest(fac__fallbacks, f, b);
    if (r) return r;
    return falls_through_by_default(f) ? &default_fallthrough : &missing;
}

static void collect_tops(const fac_operator *op, fac_registration **out) {
    memset(out, 0, FAC_PLACES * sizeof *out);
    for (size_t i = 0; i < op->registry->n; i++) out[op->registry->v[i].place] = op->registry->v[i].top;
}

const fac_registration *fac__table_choose(const fac_operator *op, int f, int b) {
    fac_registration *t[FAC_PLACES];
    collect_tops(op, t);
    return choose(t, f, b);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* Clears the key's bit in the masks of the slot's backends. */
static void drop_key(fac_keyset *mask, int f, int b) {
    fac_keyset others = ~fac__func_bit((fac_functionality)f);
    if (fac__slot_mask[f]) {
        mask[b + 1] &= others;
        if (b == 0) mask[0] &= others;
    } else {
        for (int i = 0; i <= FAC_BACKEND_BITS; i++) mask[i] &= others;
    }
}

/* Each cell has a kernel that can be called both ways, and the masks leave out the keys whose cells fall through, no others. */
static bool row_is_valid(const fac_operator *op) {
    for (int f = 0; f < FAC_KEY_COUNT; f++) {
        for (int b = 0; b < FAC_BACKEND_BITS; b++) {
            const fac_kernel *k = atomic_load_explicit(&op->table[fac__slot(f, b)], memory_order_relaxed);
            const fac_keyset mask = atomic_load_explicit(&op->fallthrough_mask[b + 1], memory_order_relaxed);
            FAC_ASSERT(k && k->boxed && (k->typed || !op->signature));
            FAC_ASSERT(k->fallthrough == !(mask & fac__func_bit((fac_functionality)f)));
        }
    }
    return true;
}

/* Newest first, each at its place and with a record for the operator's signature. */
static bool stacks_are_valid(const fac_operator *op) {
    for (size_t i = 0; i < op->registry->n; i++)
        for (fac_registration *r = op->registry->v[i].top; r; r = r->below)
            FAC_ASSERT(r->kind == FAC_REG_KERNEL && r->place == op->registry->v[i].place && r->op == op &&
                       record_of(r, op->signature));
    return true;
}

static void note_pointwise(const fac_operator *op) {
    bool found = false;
    for (size_t i = 0; op->registry && i < op->registry->n; i++)
        found |= op->registry->v[i].place == FAC_PLACE_POINTWISE && op->registry->v[i].top;
    if (op->registry) atomic_store_explicit(&op->registry->pointwise, found, memory_order_relaxed);
}

void fac__table_refresh(fac_operator *op) {
    fac_registration *t[FAC_PLACES];
    fac_keyset mask[FAC_BACKEND_BITS + 1];
    const fac_registration *last = NULL;
    const fac_record *record = NULL;
    collect_tops(op, t);
    note_pointwise(op);
    for (int i = 0; i <= FAC_BACKEND_BITS; i++) mask[i] = ((fac_keyset)1 << (FAC_BACKEND_BITS + FAC_KEY_COUNT)) - 1;
    for (int f = 0; f < FAC_KEY_COUNT; f++) {
        for (int b = 0; b < (fac__slot_mask[f] ? FAC_BACKEND_BITS : 1); b++) {
            fac_registration *r = choose(t, f, b);
            if (r != last) record = record_of(r, op->signature);
            last = r;
            if (r->fallthrough) drop_key(mask, f, b);
            atomic_store_explicit(&op->table[fac__slot(f, b)], &record->kernel, memory_order_release);
        }
    }
    for (int i = 0; i <= FAC_BACKEND_BITS; i++)
        atomic_store_explicit(&op->fallthrough_mask[i], mask[i], memory_order_release);
    FAC_INVARIANT(row_is_valid(op) && stacks_are_valid(op));
}

void fac__table_clear(fac_operator *op) {
    const fac_record *record = record_of(&missing, op->signature);
    for (int slot = 0; slot < FAC_SLOTS; slot++)
        atomic_store_explicit(&op->table[slot], &record->kernel, memory_order_release);
}
