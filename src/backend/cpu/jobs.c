/* The board of jobs. A job's blocks are dealt out to lanes, one for each thread that may work on it. A thread claims
   from the front of its own lane and, when that is empty, from the back of the others', so that threads meet only
   towards the end, and the same thread tends to get the same part of tensors of one shape.

   Nobody is waited for who has not begun a block: the caller claims like the rest, and when no block is left to claim it
   waits for those under way alone.

   Slots and lanes are static. A worker may come late, with a lane's word of a job that is long over: what it then claims
   by compare-and-exchange is a block of the job that is in the slot now, and it reads which one only afterwards. So
   words may repeat, and need no generation. */
#include "backend/cpu/jobs.h"
#include "backend/cpu/workers.h"
#include "base/mutex.h"
#include "base/park.h"

enum {
    MAX_JOBS = 64, /* bits of `taken` */
    MAX_LANES = 64,
    CALLER = 0,          /* the caller's lane */
    BLOCKS_A_LANE = 256, /* fine enough to share evenly, few enough that claiming costs nothing */
    CALLER_SPIN_NS = 50000,
};
#define ASLEEP (1u << 31)

/* The blocks that nobody has begun: the low half is the first, the high half one past the last. */
typedef struct lane {
    _Alignas(64) _Atomic(uint64_t) blocks;
} lane;

typedef struct slot {
    _Alignas(64) _Atomic(uint32_t) left; /* blocks not done, and ASLEEP once the caller sleeps until there are none */
    _Atomic(int) lanes;                  /* in use */
    _Atomic(int) helpers, most_helpers;  /* workers that claim here */
    fac_job *job;                        /* written before blocks can be claimed, read by whoever has claimed one */
    lane lane[MAX_LANES];
} slot;

static slot slots[MAX_JOBS];
static _Alignas(64) _Atomic(uint64_t) taken;  /* which slots have a job */
static fac_mutex error_lock = FAC_MUTEX_INIT; /* of the error, status and failed_at of every job */

/* ---- computing a block ------------------------------------------------------------------------------------------- */

/* Keeps the error of the lowest failing chunk, so that what is reported does not depend on timing. A worker's state was
   made for the error, and ends with it: how many there are does not depend on timing either. */
static void note_error(fac_job *job, int64_t chunk, fac_status st) {
    fac_saved_error *drop = fac__error_take();
    fac__mutex_lock(&error_lock);
    if (chunk < atomic_load_explicit(&job->failed_at, memory_order_relaxed)) {
        fac_saved_error *mine = drop;
        drop = job->error;
        job->error = mine;
        job->status = st;
        atomic_store_explicit(&job->failed_at, chunk, memory_order_relaxed);
    }
    fac__mutex_unlock(&error_lock);
    fac__error_drop(drop);
    if (fac__is_worker()) fac__thread_end();
}

static void run_block(fac_job *job, uint32_t block) {
    int64_t last = fac__min(job->chunks, (block + 1) * job->per);
    for (int64_t i = block * job->per; i < last; i++) {
        if (FAC_UNLIKELY(i > atomic_load_explicit(&job->failed_at, memory_order_relaxed))) return;
        int64_t b = job->begin + i * job->grain;
        fac_status st = job->fn(job->ctx, b, job->end - b < job->grain ? job->end : b + job->grain);
        if (FAC_UNLIKELY(st != FAC_OK)) note_error(job, i, st);
    }
}

/* ---- claiming ------------------------------------------------------------------------------------------------------ */

static bool claim_first(lane *l, uint32_t *block) {
    uint64_t v = atomic_load_explicit(&l->blocks, memory_order_relaxed);
    while ((uint32_t)v < (uint32_t)(v >> 32))
        if (atomic_compare_exchange_weak_explicit(&l->blocks, &v, v + 1, memory_order_acquire, memory_order_relaxed)) {
            *block = (uint32_t)v;
            return true;
        }
    return false;
}

static bool claim_last(lane *l, uint32_t *block) {
    uint64_t v = atomic_load_explicit(&l->blocks, memory_order_relaxed);
    while ((uint32_t)v < (uint32_t)(v >> 32))
        if (atomic_compare_exchange_weak_explicit(&l->blocks, &v, v - (UINT64_C(1) << 32), memory_order_acquire,
                                                  memory_order_relaxed)) {
            *block = (uint32_t)(v >> 32) - 1;
            return true;
        }
    return false;
}

static bool claim(slot *s, int home, uint32_t *block) {
    int n = atomic_load_explicit(&s->lanes, memory_order_relaxed);
    if (n == 0) return false;
    if (claim_first(&s->lane[home % n], block)) return true;
    for (int i = 1; i < n; i++)
        if (claim_last(&s->lane[(home + i) % n], block)) return true;
    return false;
}

/* Computes blocks while there are any; returns how many. From the first claim to the report of what was done the slot
   keeps its job, so all are of one. */
static uint32_t run_blocks(slot *s, int home) {
    uint32_t done = 0, block;
    for (; claim(s, home, &block); done++) run_block(s->job, block);
    return done;
}

/* ---- the caller's side ----------------------------------------------------------------------------------------------- */

static slot *slot_take(void) {
    uint64_t v = atomic_load_explicit(&taken, memory_order_relaxed);
    while (~v) {
        uint64_t bit = ~v & (v + 1);
        if (atomic_compare_exchange_weak_explicit(&taken, &v, v | bit, memory_order_acquire, memory_order_relaxed))
            return &slots[__builtin_ctzll(bit)];
    }
    return NULL;
}

static void slot_give(slot *s) {
    atomic_fetch_and_explicit(&taken, ~(UINT64_C(1) << (s - slots)), memory_order_release);
}

/* Deals the blocks out to the lanes, evenly and in order. */
static void publish(slot *s, fac_job *job, int threads) {
    const int lanes = (int)fac__min(threads, MAX_LANES);
    job->per = (job->chunks - 1) / (lanes * BLOCKS_A_LANE) + 1;
    const uint64_t blocks = (uint64_t)((job->chunks - 1) / job->per + 1);
    s->job = job;
    atomic_store_explicit(&s->left, (uint32_t)blocks, memory_order_relaxed);
    atomic_store_explicit(&s->lanes, lanes, memory_order_relaxed);
    atomic_store_explicit(&s->most_helpers, threads - 1, memory_order_relaxed);
    for (uint64_t i = 0; i < (uint64_t)lanes; i++) {
        const uint64_t first = blocks * i / (uint64_t)lanes, end = blocks * (i + 1) / (uint64_t)lanes;
        atomic_store_explicit(&s->lane[i].blocks, first | end << 32, memory_order_release);
    }
}

static void report(slot *s, uint32_t done) {
    if (atomic_fetch_sub_explicit(&s->left, done, memory_order_acq_rel) - done == ASLEEP) fac__unpark(&s->left);
}

/* Until the blocks that workers have begun are done. */
static void wait_for_workers(slot *s) {
    const double end = fac__now() + 1e-9 * CALLER_SPIN_NS;
    do {
        for (int i = 0; i < 32; i++) {
            if (atomic_load_explicit(&s->left, memory_order_acquire) == 0) return;
            fac__pause();
        }
    } while (fac__now() < end);
    uint32_t left = atomic_fetch_or_explicit(&s->left, ASLEEP, memory_order_acquire) | ASLEEP;
    while (left != ASLEEP) {
        fac__park(&s->left, left);
        left = atomic_load_explicit(&s->left, memory_order_acquire);
    }
}

bool fac__job_run(fac_job *job, int threads) {
    slot *s = slot_take();
    if (!s) return false;
    publish(s, job, threads);
    fac__workers_call(threads - 1);
    report(s, run_blocks(s, CALLER));
    if (atomic_load_explicit(&s->left, memory_order_acquire) != 0) wait_for_workers(s);
    slot_give(s);
    return true;
}

/* ---- the workers' side ----------------------------------------------------------------------------------------------- */

static bool has_blocks(const slot *s) {
    int n = atomic_load_explicit(&s->lanes, memory_order_relaxed);
    for (int i = 0; i < n; i++) {
        uint64_t v = atomic_load_explicit(&s->lane[i].blocks, memory_order_relaxed);
        if ((uint32_t)v < (uint32_t)(v >> 32)) return true;
    }
    return false;
}

/* The count of helpers outlives jobs: one that is late in leaving takes a place in the next job for a moment. */
static void help(slot *s, int home) {
    if (!has_blocks(s)) return;
    if (atomic_fetch_add_explicit(&s->helpers, 1, memory_order_relaxed) <
        atomic_load_explicit(&s->most_helpers, memory_order_relaxed)) {
        uint32_t done = run_blocks(s, home);
        if (done) report(s, done);
    }
    atomic_fetch_sub_explicit(&s->helpers, 1, memory_order_relaxed);
}

void fac__jobs_help(int home) {
    uint64_t v = atomic_load_explicit(&taken, memory_order_acquire);
    for (; v; v &= v - 1) help(&slots[__builtin_ctzll(v)], home);
}

int fac__jobs_open(void) { return __builtin_popcountll(atomic_load_explicit(&taken, memory_order_relaxed)); }

void fac__jobs_forget(void) {
    for (int i = 0; i < MAX_JOBS; i++) {
        if (atomic_load_explicit(&slots[i].lanes, memory_order_relaxed) == 0) continue; /* never used */
        atomic_store_explicit(&slots[i].lanes, 0, memory_order_relaxed);
        atomic_store_explicit(&slots[i].helpers, 0, memory_order_relaxed);
        for (int j = 0; j < MAX_LANES; j++) atomic_store_explicit(&slots[i].lane[j].blocks, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&taken, 0, memory_order_relaxed);
}
