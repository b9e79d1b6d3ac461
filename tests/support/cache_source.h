/* A source of device memory that is none: addresses are handed out, never touched, and every use that a driver would refuse
   fails the test. Streams and events are counters: work is issued to a stream and completed when the test says so. */
#ifndef FAC_TESTS_CACHE_SOURCE_H
#define FAC_TESTS_CACHE_SOURCE_H

#include <facula/cuda_memory.h>
#include <pthread.h>

enum { FAKE_STREAMS = 8 };

typedef struct fake_range {
    char *p;
    int64_t bytes;
    bool mapped; /* else given by alloc */
} fake_range;

typedef struct fake_source {
    fac_memory_source source; /* give this to fac_caching_allocator_new */
    pthread_mutex_t lock;
    int64_t capacity, used;
    int64_t allocs, maps; /* calls that gave memory */
    int64_t fail_at;      /* the n-th call from now finds the device full; 0: none */
    int64_t stream;       /* current, of every thread */
    int64_t issued[FAKE_STREAMS], completed[FAKE_STREAMS];
    uint64_t capture[FAKE_STREAMS]; /* id of the capture of each stream */
    int64_t events;                 /* not dropped yet */
    int64_t ranges_reserved;
    bool refuse_events; /* record fails */
    char *next;         /* address */
    struct {
        fake_range *v;
        size_t n, cap;
    } ranges;
} fake_source;

/* A device of so many bytes with streams 0 to 7, and virtual memory. */
void fake_source_begin(fake_source *f, int64_t capacity);
/* Asserts that everything was given back. */
void fake_source_end(fake_source *f);
/* Takes streams and virtual memory away: what is left is alloc, free and info. */
void fake_source_plain(fake_source *f);
/* Work that runs until fake_complete is called for its stream. */
void fake_issue(fake_source *f, int64_t stream);
void fake_complete(fake_source *f, int64_t stream);

#endif
