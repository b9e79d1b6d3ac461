/* Indices that the host cannot check before a launch. A kernel that meets one out of range reads zero in its place
   or writes nothing, and leaves a note for the host, which makes an error of it when it next waits or launches
   (runtime/bounds.c). The device goes on. Shared with launchers.

   Notes are numbered. A launch may write the one after those that had become errors when it was queued, and no
   other: so the first thread wins, later ones of the same failure are silent, and what is queued behind a failure
   never counts as new. */
#ifndef FAC_KERNEL_BOUNDS_H
#define FAC_KERNEL_BOUNDS_H

#include "kernel.h"

enum { K_DIM_CLASS = -1 }; /* in the place of a dimension: the index is a loss's target */

/* The note, in page-locked memory of the host; one per device. */
typedef struct k_index_note {
    unsigned written; /* how many were; by devices, the rest of the note first */
    unsigned raised;  /* how many have become errors; by the host */
    int32_t op, dim;
    int64_t index, size;
} k_index_note;

typedef struct k_bounds {
    unsigned *claimed; /* how many notes were begun; in the device's own memory, where looking is cheap */
    k_index_note *note;
    unsigned raised;  /* when the launch was queued */
    int32_t captured; /* the launch is in a graph, which runs later and often: `raised` is the note's */
    int32_t op, dim;
} k_bounds;

KDEV unsigned k_raised(const k_bounds *b) { return b->captured ? k_peek(&b->note->raised) : b->raised; }

KDEV_CALL void k_note_index(const k_bounds *b, int64_t index, int64_t size) {
    const unsigned n = k_raised(b);
    if (atomicCAS(b->claimed, n, n + 1) != n) return;
    b->note->op = b->op;
    b->note->dim = b->dim;
    b->note->index = index;
    b->note->size = size;
    k_publish(&b->note->written, n + 1);
}

/* Whether index is in [0, size). If not, that is noted, and the caller must not use it. */
KDEV bool k_in_bounds(const k_bounds *b, int64_t index, int64_t size) {
    if (index >= 0 && index < size) return true;
    k_note_index(b, index, size);
    return false;
}

/* Whether something failed that is no error yet: what was computed since is not to be trusted. */
KDEV bool k_bounds_failed(const k_bounds *b) { return k_peek(b->claimed) != k_raised(b); }

#endif
