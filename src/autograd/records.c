/* Scratch memory: one block of vectors per thread is kept for the next pass. */
#include "autograd/records.h"

#define KEEP_RECORDS 1024 /* scratch of larger passes is given back at once */

static _Thread_local scratch *idle
    __attribute__((tls_model("initial-exec"))); /* the thread's own; nested passes make more */

static void scratch_free(scratch *s) {
    fac__free(s->records.v);
    fac__free(s->heap.v);
    fac__free(s->stack.v);
    fac__free(s->captures.v);
    fac__free(s->exits.v);
    fac__free(s->table);
    fac__free(s);
}

void fac__scratch_trim(fac_thread *th) {
    (void)th;
    scratch *s = idle;
    if (!s || s->busy) return;
    idle = NULL;
    scratch_free(s);
}

scratch *fac__scratch_take(void) {
    if (FAC_LIKELY(idle && !idle->busy)) {
        idle->busy = true;
        return idle;
    }
    scratch *s = fac__alloc_zero(sizeof *s);
    if (!s) return NULL;
    s->busy = true;
    if (!idle) idle = s;
    return s;
}

void fac__scratch_give(scratch *s) {
    for (size_t i = 0; i < s->records.n; i++) s->table[s->records.v[i].slot] = 0;
    s->records.n = s->heap.n = s->stack.n = s->captures.n = s->exits.n = 0;
    s->busy = false;
    bool large = s->records.cap > KEEP_RECORDS;
    if (s == idle && !large) return;
    if (s == idle) idle = NULL;
    scratch_free(s);
}

fac_status fac__scratch_grow_table(scratch *s) {
    unsigned bits = s->table ? s->table_bits + 1 : 6;
    uint32_t *table = fac__alloc_zero(((size_t)1 << bits) * sizeof *table);
    if (!table) return FAC_ERR_MEMORY;
    fac__free(s->table);
    s->table = table;
    s->table_bits = bits;
    for (size_t i = 0; i < s->records.n; i++) {
        size_t slot = fac__record_probe(s, s->records.v[i].node);
        table[slot] = (uint32_t)i + 1;
        s->records.v[i].slot = (uint32_t)slot;
    }
    return FAC_OK;
}
