/* Sleeping until a word of memory changes. */
#ifndef FAC_SRC_BASE_PARK_H
#define FAC_SRC_BASE_PARK_H

#include <stdatomic.h>
#include <stdint.h>

/* Sleeps while *word == expected, until fac__unpark. May return early: callers look again in a loop. The comparison and
   falling asleep are one step for fac__unpark, so whoever changes the word first and wakes then loses no sleeper. */
void fac__park(_Atomic(uint32_t) *word, uint32_t expected);
/* The same for so many seconds at most, which are positive. */
void fac__park_for(_Atomic(uint32_t) *word, uint32_t expected, double seconds);
/* Wakes at least one sleeper on the word, if there is any. The word may belong to something else by now: whoever sleeps
   there is woken early and looks again. */
void fac__unpark(_Atomic(uint32_t) *word);
void fac__unpark_all(_Atomic(uint32_t) *word);
/* In the child of a fork: forgets the sleepers, which are not there. */
void fac__park_forget(void);
/* Between two looks at a word that another core is about to change. */
static inline void fac__pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
