/* What each operator takes of a row's runs: `bench --operators NAME`. */
#include "rows.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEEPEST = 64, OPERATORS = 4096, RUNS = 3 };

/* Time in the operator itself, without those that it calls. Calls are observed on one thread. */
typedef struct entry {
    const fac_operator *op;
    double ns;
    int64_t calls;
} entry;

static entry entries[OPERATORS];
static size_t n_entries;
static const fac_operator *open_calls[DEEPEST];
static int depth;
static double last_ns;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static entry *entry_of(const fac_operator *op) {
    for (size_t i = 0; i < n_entries; i++)
        if (entries[i].op == op) return &entries[i];
    if (n_entries < OPERATORS) entries[n_entries++] = (entry){op, 0, 0};
    return &entries[n_entries - 1];
}

/* Gives the time since the last event to the innermost open call; what lies outside of all calls has op NULL. */
static void observe(void *context, const fac_operator *op, fac_keyset keys, bool enter) {
    (void)context, (void)keys;
    const double now = now_ns();
    entry_of(depth > 0 && depth <= DEEPEST ? open_calls[depth - 1] : NULL)->ns += now - last_ns;
    if (!enter) {
        depth--;
    } else {
        if (depth < DEEPEST) open_calls[depth] = op;
        depth++;
        entry_of(op)->calls++;
    }
    last_ns = now_ns();
}

static int by_time(const void *a, const void *b) {
    const double x = ((const entry *)a)->ns, y = ((const entry *)b)->ns;
    return (x < y) - (x > y);
}

bool print_operators(const row *r, fixture *f) {
    for (int i = 0; i <= RUNS; i++) {
        FAC_SCOPE(s);
        if (i == 1) { /* the first was to warm up */
            last_ns = now_ns();
            fac_set_call_observer(observe, NULL);
        }
        if (!r->run(f)) break;
    }
    fac_set_call_observer(NULL, NULL);
    qsort(entries, n_entries, sizeof *entries, by_time);
    for (size_t i = 0; i < n_entries && entries[i].ns > 0; i++)
        printf("%.1f\t%lld\t%s\n", entries[i].ns / 1e3 / RUNS, (long long)(entries[i].calls / RUNS),
               entries[i].op ? fac_operator_schema(entries[i].op) : "outside of operators");
    return fac_error() == FAC_OK;
}
