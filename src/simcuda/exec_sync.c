/* Barriers of a block and operations of a warp. The last of the awaited threads answers for all and makes them ready. */
#include "exec_internal.h"

#include <stdio.h>
#include <string.h>

/* Leaves the running thread where it stands until somebody makes it ready. */
static void wait_here(sim_worker *w, sim_fiber *f, sim_wait why) {
    f->wait = why;
    SIM_RELEASE(&w->ended); /* it may never go on */
    sim_fiber *next = sim_next(w);
    if (!next) {
        if (!w->code) {
            char text[384];
            sim_explain_deadlock(w, text, sizeof(text));
            sim_note_failure(w, 719, text);
        }
        sim_fiber_switch(w, f, NULL, true);
    }
    if (next != f) sim_fiber_switch(w, f, next, false);
}

/* Threads that wait at different places, four at most. */
void sim_explain_deadlock(sim_worker *w, char *text, size_t size) {
    int n = snprintf(text, size, "divergent barrier: no thread can go on");
    const char *file = NULL;
    for (unsigned i = 0, line = 0, shown = 0; i < w->n_threads && shown < 4 && n > 0 && (size_t)n < size; i++) {
        const sim_fiber *f = w->by_thread[i];
        if (!f || f->wait == SIM_RUNS || (file == f->file && line == (unsigned)f->line)) continue;
        file = f->file;
        line = (unsigned)f->line;
        shown++;
        n += snprintf(text + n, size - (size_t)n, "; thread %u waits %s at %s:%d", i,
                      f->wait == SIM_AT_BARRIER ? "for its block" : "for its warp", f->file, f->line);
    }
    if (w->live < w->n_threads && n > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, "; %u of %u threads have returned", w->n_threads - w->live, w->n_threads);
}

/* ---- barriers -------------------------------------------------------------------------------------------------------- */

static int fold_of(int fold, unsigned true_, unsigned all) {
    return fold == SIM_COUNT ? (int)true_ : fold == SIM_ALL ? true_ == all : true_ > 0;
}

/* All live threads of the block stand at a barrier; `me`, if not NULL, still runs. */
static void barrier_open(sim_worker *w, sim_fiber *me) {
    unsigned true_ = 0, all = 0;
    const sim_fiber *first = NULL;
    for (unsigned i = 0; i < w->n_threads; i++) {
        sim_fiber *f = w->by_thread[i];
        if (!f) continue;
        if (!first) first = f;
        if (f->line != first->line || strcmp(f->file, first->file) != 0) {
            char text[256];
            snprintf(text, sizeof(text), "divergent barrier: thread %u waits at %s:%d, thread %u at %s:%d",
                     first->thread, first->file, first->line, f->thread, f->file, f->line);
            sim_note_failure(w, 719, text);
        }
        true_ += f->predicate != 0;
        all++;
    }
    w->at_barrier = 0;
    for (unsigned i = 0; i < w->n_threads; i++) {
        sim_fiber *f = w->by_thread[i];
        if (!f) continue;
        f->predicate = fold_of(f->fold, true_, all);
        if (f != me) sim_make_ready(w, f);
    }
}

int sim_syncthreads(int fold, int predicate, const char *file, int line) {
    sim_worker *w = sim_worker_of_thread;
    sim_fiber *f = w->current;
    f->fold = fold;
    f->predicate = predicate != 0;
    f->file = file;
    f->line = line;
    SIM_RELEASE(&w->at_barrier);
    if (++w->at_barrier == w->live) {
        barrier_open(w, f);
        if (w->code) sim_fiber_switch(w, f, NULL, true);
    } else {
        wait_here(w, f, SIM_AT_BARRIER);
    }
    SIM_ACQUIRE(&w->at_barrier);
    return f->predicate;
}

/* ---- warps ----------------------------------------------------------------------------------------------------------- */

static sim_fiber *lane_of(sim_worker *w, unsigned warp, unsigned lane) { return w->by_thread[warp * SIM_WARP + lane]; }

/* The answer for lane f: what __shfl_sync, __ballot_sync or __match_any_sync gives. Lanes that have returned hold no value:
   reading one gives all bits set, which is NaN. */
static uint64_t answer(sim_worker *w, unsigned warp, const sim_fiber *f, unsigned present) {
    if (f->op == SIM_SHFL) {
        unsigned source = (unsigned)f->source % SIM_WARP;
        return present >> source & 1 ? lane_of(w, warp, source)->value : ~UINT64_C(0);
    }
    uint64_t bits = 0;
    for (unsigned l = 0; l < SIM_WARP && f->op != SIM_SYNCWARP; l++) {
        if (!(present >> l & 1)) continue;
        uint64_t value = lane_of(w, warp, l)->value;
        if (f->op == SIM_BALLOT ? value != 0 : value == f->value) bits |= UINT64_C(1) << l;
    }
    return bits;
}

static bool lanes_agree(sim_worker *w, unsigned warp, const sim_fiber *f, unsigned present) {
    for (unsigned l = 0; l < SIM_WARP; l++) {
        if (!(present >> l & 1)) continue;
        const sim_fiber *g = lane_of(w, warp, l);
        if (g->mask == f->mask && g->op == f->op) continue;
        char text[256];
        snprintf(text, sizeof(text), "lanes of one warp operation disagree: mask 0x%08x at %s:%d, mask 0x%08x at %s:%d",
                 f->mask, f->file, f->line, g->mask, g->file, g->line);
        sim_note_failure(w, 719, text);
        return false;
    }
    return true;
}

/* Answers f's operation if all live lanes of its mask have come. */
static bool warp_settle(sim_worker *w, unsigned warp, const sim_fiber *f, const sim_fiber *me) {
    sim_warp *q = &w->warps[warp];
    unsigned present = f->mask & q->live;
    if ((q->waiting & present) != present || !lanes_agree(w, warp, f, present)) return false;
    uint64_t same = f->op == SIM_BALLOT ? answer(w, warp, f, present) : 0;
    for (unsigned l = 0; l < SIM_WARP; l++)
        if (present >> l & 1)
            lane_of(w, warp, l)->result = f->op == SIM_BALLOT ? same : answer(w, warp, lane_of(w, warp, l), present);
    q->waiting &= ~present;
    for (unsigned l = 0; l < SIM_WARP; l++)
        if (present >> l & 1 && lane_of(w, warp, l) != me) sim_make_ready(w, lane_of(w, warp, l));
    return true;
}

static uint64_t warp_op(sim_warp_op op, unsigned mask, uint64_t value, int source, const char *file, int line) {
    sim_worker *w = sim_worker_of_thread;
    sim_fiber *f = w->current;
    unsigned warp = f->thread / SIM_WARP, lane = f->thread % SIM_WARP;
    if (!(mask >> lane & 1)) sim_fail(719, "a lane takes part in a warp operation whose mask leaves it out");
    f->op = op;
    f->mask = mask;
    f->value = value;
    f->source = source;
    f->file = file;
    f->line = line;
    w->warps[warp].waiting |= 1u << lane;
    SIM_RELEASE(&w->warps[warp]);
    if (!warp_settle(w, warp, f, f)) {
        if (w->code) sim_fiber_switch(w, f, NULL, true);
        wait_here(w, f, SIM_AT_WARP);
    }
    SIM_ACQUIRE(&w->warps[warp]);
    return f->result;
}

int sim_lane(void) { return (int)(sim_worker_of_thread->current->thread % SIM_WARP); }

uint64_t sim_shfl(unsigned mask, uint64_t value, int source, const char *file, int line) {
    return warp_op(SIM_SHFL, mask, value, source, file, line);
}

unsigned sim_ballot(unsigned mask, int predicate, const char *file, int line) {
    return (unsigned)warp_op(SIM_BALLOT, mask, predicate != 0, 0, file, line);
}

unsigned sim_match_any(unsigned mask, uint64_t value, const char *file, int line) {
    return (unsigned)warp_op(SIM_MATCH, mask, value, 0, file, line);
}

void sim_syncwarp(unsigned mask, const char *file, int line) { warp_op(SIM_SYNCWARP, mask, 0, 0, file, line); }

/* ---- the end of a thread --------------------------------------------------------------------------------------------- */

/* As on hardware, neither a barrier nor a warp operation waits for threads that have returned. */
void sim_thread_left(sim_worker *w, unsigned thread) {
    unsigned warp = thread / SIM_WARP;
    sim_warp *q = &w->warps[warp];
    q->live &= ~(1u << thread % SIM_WARP);
    for (unsigned left = q->waiting; left && !w->code; left &= left - 1) {
        const sim_fiber *f = lane_of(w, warp, (unsigned)__builtin_ctz(left));
        if (q->waiting >> (f->thread % SIM_WARP) & 1) warp_settle(w, warp, f, NULL);
    }
    if (w->at_barrier && w->at_barrier == w->live) barrier_open(w, NULL);
}
