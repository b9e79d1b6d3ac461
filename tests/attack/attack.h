/* The attack: valid calls, changed in one to three places, made by child processes that may die of them.

   The parent never starts the library. It forks one child per lane and tells it which cases to make; the child writes each
   call as text into memory that both see before it makes it. When a child dies, stops or reports, the text says of what; the
   parent saves it, in fewer words where it can, and forks the next child. A case is a number: the same number and seed give
   the same call. */
#ifndef FAC_TESTS_ATTACK_H
#define FAC_TESTS_ATTACK_H

#include "support/samples.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* ---- random numbers (splitmix64) --------------------------------------------------------------------------------- */

typedef struct attack_random {
    uint64_t state;
} attack_random;
static inline uint64_t attack_next(attack_random *r) {
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
/* One of 0 .. n-1; n > 0. */
static inline int attack_below(attack_random *r, int n) { return (int)(attack_next(r) % (uint64_t)n); }
static inline bool attack_chance(attack_random *r, int percent) { return attack_below(r, 100) < percent; }

/* ---- what is counted --------------------------------------------------------------------------------------------- */

enum { ATTACK_CODES = FAC_ERR_INTERNAL + 1, ATTACK_OPS = 4096 };

typedef struct attack_counts {
    uint64_t calls, unmade; /* unmade: a mutated argument could not be made, so that there was no call */
    uint64_t by_status[ATTACK_CODES];
    uint64_t backward, double_backward; /* passes that succeeded */
    uint8_t reached[ATTACK_OPS];        /* by number in order of name: succeeded at least once */
} attack_counts;

/* ---- one case ---------------------------------------------------------------------------------------------------- */

/* Changes a call in one to three places. */
void attack_mutate(sample_call *c, attack_random *r);

/* Makes the call on the device, goes backward through what came of it, twice, and checks all that must hold whatever the
   arguments were. What does not hold is a line on standard error and the end of the process, with status ATTACK_BROKEN. */
void attack_exercise(const sample_call *c, fac_device device, attack_counts *counts);
enum { ATTACK_BROKEN = 70, ATTACK_LEAK = 23 /* LeakSanitizer's */ };

/* Puts a bound on host memory: larger requests fail. Before the library allocates. */
void attack_bound_memory(void);
/* Gives tensors blocks that end where they do. After the library has started. */
void attack_exact_storages(void);

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

/* Memory that a child and the parent share. */
typedef struct attack_lane {
    _Atomic int64_t begun_ms; /* when the present call began, 0 between calls */
    _Atomic uint64_t next;    /* the case after the present one */
    _Atomic bool stop;
    attack_counts counts;
    char text[SAMPLE_TEXT];
} attack_lane;

typedef struct attack_options {
    fac_device_type device;
    uint64_t seed, calls; /* calls: 0 for no bound */
    double seconds;
    int lanes;
    const char *out;    /* folder for findings and logs */
    const char *only;   /* a part of an operator's name */
    const char *replay; /* a file of calls to make in this process */
    bool list;
} attack_options;

/* All calls to start from, and those that are made first as they stand. */
typedef struct attack_seeds {
    sample_set kept, samples;
    size_t *first, *count; /* by operator: where its samples stand */
    size_t n_ops;
} attack_seeds;
/* Finds the samples of each operator whose name contains `only`. False, with a line on standard error, if there is none. */
bool attack_index_seeds(const attack_options *o, attack_seeds *s);

/* In a child: makes cases from `first` on, at most n, or until the lane is told to stop. */
void attack_work(const attack_options *o, const attack_seeds *s, attack_lane *lane, uint64_t first, uint64_t n);
/* In a child: one call from its text. */
void attack_replay_text(const attack_options *o, const char *text, attack_counts *counts);
/* In a child: the library's start, under a bound of memory. */
void attack_start(void);

/* A way to end that is no clean one, as a line that two ends of the same cause share. */
void attack_cause(int status, const char *log, char *out, size_t size);
/* Leaves out of the call what the cause does not need. Forks a child per try. */
void attack_reduce(const attack_options *o, const char *cause, char *text);

int64_t attack_now_ms(void);

#endif
