/* Slots: where tensor headers lie. A slot is reused for headers alone and never returned, so that the tag in it can be read
   through any handle there ever was. Threads keep a few free slots of their own; the others are shared, in a queue.

   A slot that has used its last tag is taken out of use, since another tensor in it would have the handle of a former one.
   That costs FAC_SLOT_BYTES every 4 million tensors that lie in one slot (every 127 where tags have the lowest byte alone). */
#include "core/slot.h"
#include "base/mutex.h"
#include "core/handle.h"

#if FAC_FREELISTS
enum { SLOTS_A_BLOCK = 64, RESTING = 0 };
static void hide(fac_tensor *slot) { (void)slot; }
static void show(fac_tensor *slot) { (void)slot; }
#else
#include <sanitizer/asan_interface.h>
/* One slot a block, or the search for leaks would reach a slot by way of its neighbours. A slot rests before it is used
   again, so that a header which is followed too late is found out. */
enum { SLOTS_A_BLOCK = 1, RESTING = 4096 };
/* What may be read of a free slot: its tag, and `ext`, the link to the next. */
static void poison(char *begin, char *end) { ASAN_POISON_MEMORY_REGION(begin, (size_t)(end - begin)); }
/* Around the two: another thread may read the tag at any time. */
static void hide(fac_tensor *slot) {
    poison((char *)slot, (char *)&slot->tag);
    poison((char *)(&slot->tag + 1), (char *)&slot->ext);
    poison((char *)(&slot->ext + 1), (char *)slot + FAC_SLOT_BYTES);
}
_Static_assert(offsetof(fac_tensor, tag) < offsetof(fac_tensor, ext), "hide() goes by this order");
static void show(fac_tensor *slot) { ASAN_UNPOISON_MEMORY_REGION(slot, FAC_SLOT_BYTES); }
#endif

_Static_assert(sizeof(fac_tensor) <= FAC_SLOT_BYTES, "a header fits its slot");

static fac_mutex lock = FAC_MUTEX_INIT; /* all below, and the links of slots that nobody uses */
static fac_tensor *first, *last;        /* free slots, in the order of their return */
static size_t n_free;
static fac_tensor *retired; /* slots without a tag left: dead handles are still asked there */
static _Atomic(int64_t) n_blocks;

int64_t fac__slot_blocks(void) { return atomic_load_explicit(&n_blocks, memory_order_relaxed); }

/* Under the lock. */
static void append(fac_tensor *slot) {
    slot->ext = NULL;
    if (last)
        last->ext = slot;
    else
        first = slot;
    last = slot;
    n_free++;
}

/* Under the lock; NULL if there is none. */
static fac_tensor *take_first(void) {
    fac_tensor *slot = n_free > RESTING ? first : NULL;
    if (!slot) return NULL;
    first = slot->ext;
    if (!first) last = NULL;
    n_free--;
    return slot;
}

/* A new block: its first slot is the caller's, the others are shared. NULL with an error when memory is out. */
static fac_tensor *grow(void) {
    char *block = fac__alloc_aligned((size_t)SLOTS_A_BLOCK * FAC_SLOT_BYTES, FAC_SLOT_BYTES);
    if (!block) return NULL;
    if ((((uintptr_t)block + SLOTS_A_BLOCK * FAC_SLOT_BYTES - 1) & ~(FAC_HANDLE_ADDRESS | (FAC_SLOT_BYTES - 1))) != 0) {
        FAC_FAIL(FAC_ERR_UNSUPPORTED, "memory at %p lies beyond the 48 bits of an address that a handle holds",
                 (void *)block);
        fac__free(block);
        return NULL;
    }
    atomic_fetch_add_explicit(&n_blocks, 1, memory_order_relaxed);
    fac__mutex_lock(&lock);
    for (int i = 0; i < SLOTS_A_BLOCK; i++) {
        fac_tensor *slot = (fac_tensor *)(void *)(block + (size_t)i * FAC_SLOT_BYTES);
        atomic_init(&slot->tag, fac__tag_next(FAC_HANDLE_MARK));
        if (i) append(slot);
    }
    fac__mutex_unlock(&lock);
    return (fac_tensor *)(void *)block;
}

fac_tensor *fac__slot_take_shared(const fac_thread *th) {
    if (th != fac__tls) return NULL;
    fac__mutex_lock(&lock);
    fac_tensor *slot = take_first();
    fac__mutex_unlock(&lock);
    if (!slot) return grow();
    show(slot);
    return slot;
}

static void give_shared(fac_tensor *slot) {
    hide(slot);
    fac__mutex_lock(&lock);
    append(slot);
    fac__mutex_unlock(&lock);
}

static void retire(fac_tensor *slot) {
    hide(slot);
    fac__mutex_lock(&lock);
    slot->ext = retired;
    retired = slot;
    fac__mutex_unlock(&lock);
}

void fac__slot_give_shared(fac_tensor *slot, bool usable) {
    if (usable)
        give_shared(slot);
    else
        retire(slot);
}

void fac__slots_return(fac_thread *th) {
    for (fac_tensor *slot; (slot = fac__freelist_pop(&th->tensors));) give_shared(slot);
}
