/* Levels of forward mode. The table of open ones is the process's, so that any thread can tell whether the level of a tensor that
   it is given is still open; which of them a thread has opened is in its state. A place is written only by the thread that holds
   it, and its number is published last. */
#include "autograd/forward.h"

enum { PLACES = 256 };

static struct {
    _Atomic(int64_t) number; /* 0: free; TAKEN: a thread is filling it in */
    fac_recording mode;
    bool pure;
} places[PLACES];
enum { TAKEN = -1 };

static _Atomic(int64_t) last_number;

static bool take_place(size_t i) {
    int64_t unused = 0;
    return atomic_compare_exchange_strong(&places[i].number, &unused, TAKEN);
}

fac_status fac__level_open(bool pure, fac_level *out) {
    fac_thread *th = fac__thread();
    size_t i = 0;
    FAC_TRY(fac_error());
    FAC_CHECK(th->dual_depth < FAC_DUAL_DEPTH, FAC_ERR_STATE,
              "%d levels of forward mode are open on this thread, and there is no room for another", FAC_DUAL_DEPTH);
    while (i < PLACES && !take_place(i)) i++;
    FAC_CHECK(i < PLACES, FAC_ERR_STATE, "%d levels of forward mode are open, and there is no room for another",
              PLACES);
    places[i].mode = fac__recording_save(th);
    places[i].pure = pure;
    *out = (fac_level){atomic_fetch_add(&last_number, 1) + 1, (uint8_t)i};
    atomic_store_explicit(&places[i].number, out->number, memory_order_release);
    th->dual_levels[th->dual_depth++] = (uint8_t)i;
    return FAC_OK;
}

static void close_last(fac_thread *th) {
    atomic_store_explicit(&places[th->dual_levels[--th->dual_depth]].number, 0, memory_order_release);
}

void fac__level_close(fac_level level) {
    fac_thread *th = fac__thread();
    int depth = 0;
    while (depth < th->dual_depth && th->dual_levels[depth] != level.place) depth++;
    if (depth == th->dual_depth || !fac__level_is_open(level)) return;
    while (th->dual_depth > depth) close_last(th);
    fac__dual_watch_views(th);
}

void fac__levels_end_thread(fac_thread *th) {
    while (th->dual_depth) close_last(th);
}

bool fac__level_is_open(fac_level level) {
    return level.number > 0 && atomic_load_explicit(&places[level.place].number, memory_order_acquire) == level.number;
}

static fac_level level_at(const fac_thread *th, int depth) {
    if (!th->dual_depth) return (fac_level){0, 0};
    const uint8_t place = th->dual_levels[depth];
    return (fac_level){atomic_load_explicit(&places[place].number, memory_order_relaxed), place};
}

fac_level fac__level_innermost(void) { return level_at(fac__thread(), fac__thread()->dual_depth - 1); }
fac_level fac__level_outermost(void) { return level_at(fac__thread(), 0); }

void fac__level_leave(fac_level level, fac_thread *th) {
    th->exclude &= ~(FAC_KS_AUTOGRAD | FAC_KS_ADINPLACEORVIEW);
    if (!places[level.place].pure) return;
    th->grad_disabled = places[level.place].mode.grad_disabled;
    th->inference = places[level.place].mode.inference;
}
