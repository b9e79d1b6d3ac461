/* Makes the variations of a call, each within limits of time and memory. */
#include "variations.h"

#include "base/sanitizers.h"
#include "dispatch/operator.h"
#include <facula/device.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

enum { MOST_BYTES = 64 << 20, MOST_SECONDS = 10 }; /* of the processor: a machine that others use may stand still */

/* ---- one call -------------------------------------------------------------------------------------------------------- */

static char current[SAMPLE_TEXT];

static void name_current(const char *what) {
    (void)!write(STDERR_FILENO, what, strlen(what));
    (void)!write(STDERR_FILENO, current, strlen(current));
    (void)!write(STDERR_FILENO, "\n", 1);
}
static void on_death(void) { name_current("the call was "); }
static void on_alarm(int signal) {
    (void)signal;
    name_current("takes too long: ");
    _exit(1);
}
static void limit_time(int seconds) { setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = seconds}, NULL); }

/* The sanitizers' own, where there are any. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static fac_memory_hook below;
static void *bounded_alloc(void *ctx, size_t bytes, size_t align) {
    return bytes > MOST_BYTES ? NULL : below.alloc(ctx, bytes, align);
}

static void no_warning(void *context, const char *message) { (void)context, (void)message; }

void variations_begin(void) {
    if (fac__memory_hook.alloc != bounded_alloc) {
        below = fac__memory_hook;
        fac__memory_hook.alloc = bounded_alloc;
    }
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(on_death);
    signal(SIGPROF, on_alarm);
    fac_set_warning_handler(no_warning, NULL);
}

/* An index out of range is said once, and the device works on; a fault is said for ever. */
static void end_at_fault(fac_device device) {
    if (fac_synchronize(device) == FAC_OK) return;
    fac_error_clear();
    if (fac_synchronize(device) == FAC_OK) return;
    fprintf(stderr, "%s\n", fac_error_message());
    on_death();
    _exit(1);
}

/* A sanitizer takes its time: there one call in eight is made, spread as by chance. */
static bool is_left_out(void) {
#if FAC_UNDER_ASAN
    static uint32_t made;
    const char *mode = getenv("FACULA_VARIATIONS");
    if (mode && strcmp(mode, "full") == 0) return false;
    return (++made * 0x9E3779B1u) >> 29 != 0;
#else
    return false;
#endif
}

void variation_try(const sample_call *c, fac_device device, fac_status (*make)(const sample_call *, fac_device),
                   variation_count *n) {
    if (is_left_out()) return;
    sample_print(c, current, sizeof current);
    limit_time(MOST_SECONDS);
    n->calls++;
    n->refused += make(c, device) != FAC_OK;
    limit_time(0);
    fac_error_clear();
    if (device.type == FAC_CUDA) end_at_fault(device);
    fac_error_clear();
}

static void try(const sample_call *c, fac_device device, variation_count *n) {
    variation_try(c, device, sample_try, n);
}

/* ---- integers -------------------------------------------------------------------------------------------------------- */

static const int64_t extremes[] = {INT64_MIN,        INT64_MIN + 1, -1,       0, 1, INT64_C(1) << 31, INT64_C(1) << 32,
                                   INT64_C(1) << 62, INT64_MAX - 1, INT64_MAX};

static void vary_integer(const sample_call *c, sample_value *v, fac_device device, variation_count *n) {
    const sample_value was = *v;
    for (size_t i = 0; i < FAC_COUNT(extremes); i++) {
        *v = (sample_value){.kind = SAMPLE_INT, .i = extremes[i]};
        try(c, device, n);
    }
    *v = was;
}

/* Two neighbours of a list that are beyond any size and cancel, or nearly so, as a border and a cut do. */
static void vary_pair(const sample_call *c, sample_value *v, fac_device device, variation_count *n) {
    static const int64_t pairs[][2] = {{-INT64_MAX, INT64_MAX - 1}, {INT64_MAX - 1, -INT64_MAX},
                                       {-INT64_MAX, INT64_MAX},     {INT64_MAX, INT64_MIN},
                                       {INT64_MAX, INT64_MAX},      {INT64_MIN, INT64_MIN}};
    const sample_value was[2] = {v[0], v[1]};
    for (size_t i = 0; i < FAC_COUNT(pairs); i++) {
        v[0].i = pairs[i][0];
        v[1].i = pairs[i][1];
        try(c, device, n);
    }
    v[0] = was[0];
    v[1] = was[1];
}

/* A list of integers one shorter, empty, and one longer. */
static void vary_length(const sample_call *c, sample_value *v, fac_device device, variation_count *n) {
    const sample_value was = *v;
    if (v->kind != SAMPLE_LIST) return;
    v->n = was.n > 0 ? was.n - 1 : 0;
    try(c, device, n);
    v->n = 0;
    try(c, device, n);
    v->n = was.i + was.n < c->n_items ? was.n + 1 : was.n; /* the next list's first item, whatever it is */
    try(c, device, n);
    *v = was;
}

static const fac_schema *schema_of(const sample_call *c) {
    const fac_operator *op = fac_operator_lookup(c->op);
    return op ? atomic_load(&op->schema) : NULL;
}

/* Writes out the arguments that the call leaves to their defaults, as far as a sample's text can say them. */
static void write_defaults(sample_call *c) {
    static sample_call longer;
    static char text[SAMPLE_TEXT];
    const fac_schema *s = schema_of(c);
    for (size_t i = (size_t)c->n_args; s && i < s->n_args && s->args[i].default_text; i++) {
        sample_print(c, text, sizeof text);
        size_t end = strlen(text) - 1; /* the closing bracket */
        snprintf(text + end, sizeof text - end, "%s%s)", c->n_args ? ", " : "", s->args[i].default_text);
        if (!sample_parse(text, &longer, NULL)) return;
        *c = longer;
    }
}

/* Optional integers that are not given are given too. */
static void vary_arguments(sample_call *c, fac_device device, variation_count *n) {
    const fac_schema *s = schema_of(c);
    for (int k = 0; s && k < c->n_args; k++) {
        const fac_schema_type *t = &s->args[k].type;
        bool integer = c->args[k].kind == SAMPLE_INT || (c->args[k].kind == SAMPLE_NONE && t->kind == FAC_TYPE_INT);
        if (integer) vary_integer(c, &c->args[k], device, n);
        if (t->kind == FAC_TYPE_INT && t->list) vary_length(c, &c->args[k], device, n);
    }
    for (int k = 0; k < c->n_items; k++)
        if (c->items[k].kind == SAMPLE_INT) vary_integer(c, &c->items[k], device, n);
    for (int k = 0; k + 1 < c->n_items; k++)
        if (c->items[k].kind == SAMPLE_INT && c->items[k + 1].kind == SAMPLE_INT) vary_pair(c, &c->items[k], device, n);
}

variation_count variations_of_integers(const sample_set *s, fac_device device) {
    variation_count n = {0, 0};
    static sample_call c;
    for (size_t i = 0; i < s->n; i++) {
        if (!sample_parse(s->texts[i], &c, NULL)) continue;
        write_defaults(&c);
        vary_arguments(&c, device, &n);
    }
    return n;
}

/* ---- tensors --------------------------------------------------------------------------------------------------------- */

static void vary_sizes(const sample_call *c, sample_tensor *t, fac_device device, variation_count *n) {
    const sample_tensor was = *t;
    t->strided = false;
    for (int d = 0; d < was.ndim; d++) {
        const int64_t sizes[] = {was.sizes[d] + 1, was.sizes[d] - 1, 0, 1, 2 * was.sizes[d] + 7};
        for (size_t i = 0; i < FAC_COUNT(sizes); i++) {
            t->sizes[d] = sizes[i];
            if (sizes[i] >= 0) try(c, device, n);
        }
        t->sizes[d] = was.sizes[d];
    }
    *t = was;
}

/* A stride that is never stepped by may be anything: that of a dimension of one element, or of a tensor without any. */
static void vary_idle_strides(const sample_call *c, sample_tensor *t, fac_device device, variation_count *n) {
    static const int64_t strides[] = {0, INT64_C(1) << 31, INT64_C(1) << 62, INT64_MAX};
    const sample_tensor was = *t;
    if (!t->strided) fac__row_major(t->sizes, t->ndim, t->strides);
    t->strided = true;
    for (int d = 0; d < was.ndim; d++)
        for (size_t i = 0; i < 2 * FAC_COUNT(strides); i++) {
            t->sizes[d] = i & 1;
            t->strides[d] = strides[i / 2];
            try(c, device, n);
            t->sizes[d] = was.sizes[d];
            if (was.strided)
                t->strides[d] = was.strides[d];
            else
                fac__row_major(t->sizes, t->ndim, t->strides);
        }
    for (int empty = 0; empty < was.ndim; empty++) {
        for (int d = 0; d < was.ndim; d++) {
            t->sizes[d] = d == empty ? 0 : INT64_C(1) << 40;
            t->strides[d] = INT64_C(1) << (d % 2 ? 40 : 62);
        }
        try(c, device, n);
    }
    *t = was;
}

static void vary_dimensions(const sample_call *c, sample_tensor *t, fac_device device, variation_count *n) {
    const sample_tensor was = *t;
    t->strided = false;
    t->ndim = 0;
    try(c, device, n);
    t->ndim = 1;
    t->sizes[0] = 0;
    try(c, device, n);
    if (was.ndim) {
        t->ndim = was.ndim - 1;
        memcpy(t->sizes, was.sizes + 1, (size_t)t->ndim * sizeof *t->sizes);
        try(c, device, n);
    }
    t->ndim = was.ndim + 1;
    t->sizes[0] = 1;
    memcpy(t->sizes + 1, was.sizes, (size_t)was.ndim * sizeof *t->sizes);
    try(c, device, n);
    *t = was;
}

static void vary_dtype_and_place(const sample_call *c, sample_tensor *t, fac_device device, variation_count *n) {
    const sample_tensor was = *t;
    for (int d = FAC_BOOL; d < FAC_DTYPE_COUNT; d++) {
        t->dtype = (fac_dtype)d;
        if (t->dtype != was.dtype) try(c, device, n);
    }
    static const fac_dtype coded[] = {FAC_F8_E4M3FN, FAC_QINT8};
    for (size_t i = 0; i < FAC_COUNT(coded); i++) {
        t->dtype = coded[i];
        if (t->dtype != was.dtype) try(c, device, n);
    }
    t->dtype = was.dtype;
    for (int p = 0; p < SAMPLE_PLACES; p++) {
        t->place = (sample_place)p;
        if (t->place != was.place) try(c, device, n);
    }
    *t = was;
    t->ndim = 0;
    t->strided = false;
    t->place = SAMPLE_CPU; /* a number of the host's */
    try(c, device, n);
    *t = was;
}

variation_count variations_of_tensors(const sample_set *s, fac_device device) {
    variation_count n = {0, 0};
    static sample_call c;
    for (size_t i = 0; i < s->n; i++) {
        if (!sample_parse(s->texts[i], &c, NULL)) continue;
        for (int k = 0; k < c.n_tensors; k++) {
            vary_sizes(&c, &c.tensors[k], device, &n);
            vary_idle_strides(&c, &c.tensors[k], device, &n);
            vary_dimensions(&c, &c.tensors[k], device, &n);
            vary_dtype_and_place(&c, &c.tensors[k], device, &n);
        }
    }
    return n;
}
