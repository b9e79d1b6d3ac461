/* Slots for tensor headers: memory that is reused for headers alone and never returned, so that a dead handle can be asked
   whether it is one. */
#ifndef FAC_SRC_CORE_SLOT_H
#define FAC_SRC_CORE_SLOT_H

#include "core/handle.h"

/* A shared slot, for a thread that has none of its own; NULL, with an error, when memory is out. A thread without a state
   gets none: its shared record could not count them. */
fac_tensor *fac__slot_take_shared(const fac_thread *th);
/* A slot whose tag is that of the tensor to be made in it; the rest is not initialised. */
static inline fac_tensor *fac__slot_take(fac_thread *th) {
    fac_tensor *slot = FAC_FREELISTS ? fac__freelist_pop(&th->tensors) : NULL;
    return FAC_LIKELY(slot != NULL) ? slot : fac__slot_take_shared(th);
}
/* To the shared slots, or out of use where no tag is left. */
void fac__slot_give_shared(fac_tensor *slot, bool usable);
/* Gives the slot of a dead tensor back: from now on its handle is dead. th may be NULL. */
static inline void fac__slot_give(fac_thread *th, fac_tensor *slot) {
    uintptr_t next = fac__tag_next(atomic_load_explicit(&slot->tag, memory_order_relaxed));
    atomic_store_explicit(&slot->tag, next, memory_order_relaxed);
    const bool kept = next && th && fac__freelist_push(&th->tensors, slot, FAC_FREELIST_MAX);
    if (FAC_UNLIKELY(!kept)) fac__slot_give_shared(slot, next != 0);
}
/* Hands the thread's own slots to the shared ones. */
void fac__slots_return(fac_thread *th);
/* Blocks of memory that slots lie in: they are kept for ever, so leak checks leave them out. */
int64_t fac__slot_blocks(void);

#endif
