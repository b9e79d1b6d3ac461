/* What a child does: start the library, make cases, count. */
#include "attack.h"

#include <facula/facula.h>

#include <stdlib.h>
#include <time.h>

static void silent(void *context, const char *message) { (void)context, (void)message; }

void attack_start(void) {
    attack_bound_memory();
    if (fac_init() != FAC_OK) {
        fprintf(stderr, "attack: %s\n", fac_error_message());
        exit(ATTACK_BROKEN);
    }
    attack_exact_storages();
    fac_set_warning_handler(silent, NULL);
    (void)!fac_set_num_threads(1);
}

int64_t attack_now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static fac_device device_of(const attack_options *o) {
    return fac_device_make(o->device, o->device == FAC_CUDA ? 0 : -1);
}

/* The call of a case; false if its text is none. */
static bool call_of(const attack_options *o, const attack_seeds *s, uint64_t number, sample_call *c) {
    if (number < s->kept.n) return sample_parse(s->kept.texts[number], c, NULL);
    attack_random r = {o->seed * 0x2545f4914f6cdd1du + number};
    attack_next(&r);
    size_t op = (size_t)attack_below(&r, (int)s->n_ops);
    size_t which = s->first[op] + (size_t)attack_below(&r, (int)s->count[op]);
    if (!sample_parse(s->samples.texts[which], c, NULL)) return false;
    attack_mutate(c, &r);
    return true;
}

/* The operator's number in order of name, for the count of those that were reached. */
static size_t number_of(const char *op) {
    size_t low = 0, high = fac_operator_count();
    while (low + 1 < high) {
        size_t mid = low + (high - low) / 2;
        if (strcmp(fac_operator_name(fac_operator_at(mid)), op) <= 0)
            low = mid;
        else
            high = mid;
    }
    return low;
}

static void make_case(const attack_options *o, const sample_call *c, attack_lane *lane) {
    uint64_t before = lane->counts.by_status[FAC_OK];
    sample_print(c, lane->text, sizeof lane->text);
    atomic_store(&lane->begun_ms, attack_now_ms());
    attack_exercise(c, device_of(o), &lane->counts);
    atomic_store(&lane->begun_ms, 0);
    if (lane->counts.by_status[FAC_OK] > before) lane->counts.reached[number_of(c->op) % ATTACK_OPS] = 1;
}

void attack_work(const attack_options *o, const attack_seeds *s, attack_lane *lane, uint64_t first, uint64_t n) {
    static sample_call c;
    attack_start();
    for (uint64_t i = first; i < first + n && !atomic_load(&lane->stop); i++) {
        atomic_store(&lane->next, i + 1);
        if (call_of(o, s, i, &c)) make_case(o, &c, lane);
    }
    fac_shutdown();
}

void attack_replay_text(const attack_options *o, const char *text, attack_counts *counts) {
    static sample_call c;
    const char *where;
    if (!sample_parse(text, &c, &where)) {
        fprintf(stderr, "attack: not understood from here: %s\n", where);
        exit(ATTACK_BROKEN);
    }
    attack_exercise(&c, device_of(o), counts);
}

/* ---- seeds ------------------------------------------------------------------------------------------------------- */

static size_t name_length(const char *text) { return strcspn(text, "("); }

/* Finds where the samples of each operator stand: texts are sorted, so they stand together. */
bool attack_index_seeds(const attack_options *o, attack_seeds *s) {
    s->first = calloc(s->samples.n + 1, sizeof *s->first);
    s->count = calloc(s->samples.n + 1, sizeof *s->count);
    if (!s->first || !s->count) return false;
    const char *last = NULL;
    for (size_t i = 0; i < s->samples.n; i++) {
        const char *text = s->samples.texts[i];
        size_t n = name_length(text);
        const char *at = o->only ? strstr(text, o->only) : text;
        if (!at || at >= text + n) continue;
        if (!last || name_length(last) != n || strncmp(last, text, n) != 0) s->first[s->n_ops++] = i;
        s->count[s->n_ops - 1]++;
        last = text;
    }
    if (!s->n_ops) fprintf(stderr, "attack: no operator's name contains '%s'\n", o->only ? o->only : "");
    return s->n_ops > 0;
}
