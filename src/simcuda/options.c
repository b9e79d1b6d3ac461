/* FACULA_CUDA=sim:N,name=value,... and the same text given to simcuda_set. */
#include "simcuda/sim.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sim_options sim_opt;

char sim_option_error[256];

static bool refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Notes what is wrong with the options; returns false. */
static bool refuse(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(sim_option_error, sizeof sim_option_error, format, args);
    va_end(args);
    return false;
}

static const sim_options defaults = {
    .devices = 1, .memory = (size_t)16 << 30, .multiprocessors = 2, .seed = 1, .peers = true, .fill = true};

/* A number with an optional suffix K, M, G or T; false if it is none or is not in [low, high]. */
static bool number(const char *text, int64_t low, int64_t high, int64_t *out) {
    char *end;
    long long v = strtoll(text, &end, 0);
    const char *units = "KMGT", *unit = *end ? strchr(units, *end) : NULL;
    if (end == text || (*end && (!unit || end[1]))) return false;
    for (const char *u = units; unit && u <= unit; u++) {
        if (__builtin_mul_overflow(v, 1024, &v)) return false;
    }
    *out = v;
    return v >= low && v <= high;
}

typedef struct knob {
    const char *name;
    int64_t low, high, absent; /* absent: the value of the name alone */
    void (*set)(int64_t v);
} knob;

static void set_seed(int64_t v) {
    sim_opt.seed = (uint64_t)v;
    sim_random_seed(sim_opt.seed);
}
static void set_memory(int64_t v) { sim_opt.memory = (size_t)v & ~(SIM_PAGE - 1); }
static void set_multiprocessors(int64_t v) { sim_opt.multiprocessors = (int)v; }
static void set_threads(int64_t v) { sim_opt.threads = (int)v; }
static void set_trap(int64_t v) { sim_opt.trap = v; }
static void set_peers(int64_t v) { sim_opt.peers = v; }
static void set_fill(int64_t v) { sim_opt.fill = v; }
static void set_oom(int64_t v) { sim_opt.oom = v; }
static void set_fail(int64_t v) { sim_opt.fail = v; }
static void set_fault(int64_t v) { sim_opt.fault = v; }
static void set_cufft(int64_t v) { sim_opt.cufft = v; }
static void set_delay(int64_t v) { sim_opt.delay = v; }
static void set_clear(int64_t v) {
    for (int i = 0; v && i < sim_n_devices; i++) sim_devices[i].fault = CUDA_SUCCESS;
}

/* clang-format off */
static const knob knobs[] = {
    {"seed",    0, INT64_MAX,        -1, set_seed},
    {"mem",     1 << 20, INT64_C(1) << 42, -1, set_memory},
    {"sms",     1, 1024,             -1, set_multiprocessors},
    {"threads", 0, 64,                4, set_threads},
    {"trap",    0, 1,                 1, set_trap},
    {"peers",   0, 1,                 1, set_peers},
    {"fill",    0, 1,                 1, set_fill},
    {"oom",     0, INT64_MAX,        -1, set_oom},
    {"fail",    0, INT64_MAX,        -1, set_fail},
    {"fault",   0, INT64_MAX,        -1, set_fault},
    {"delay",   0, 1000000,         100, set_delay},
    {"cufft",   0, 255,              -1, set_cufft},
    {"clear",   0, 1,                 1, set_clear},
};
/* clang-format on */

static bool set_one(char *item) {
    char *value = strchr(item, '=');
    if (value) *value++ = '\0';
    for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++) {
        const knob *k = &knobs[i];
        if (strcmp(item, k->name) != 0) continue;
        int64_t v = k->absent;
        bool ok = value ? number(value, k->low, k->high, &v) : k->absent >= 0;
        if (ok) k->set(v);
        return ok || refuse("option %s wants a value in [%lld, %lld], not \"%s\"", k->name, (long long)k->low,
                            (long long)k->high, value ? value : "");
    }
    char names[128] = "";
    for (size_t i = 0, n = 0; i < sizeof knobs / sizeof *knobs; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, " %s", knobs[i].name);
    return refuse("there is no option \"%s\"; there are:%s", item, names);
}

bool sim_options_parse(const char *text) {
    char *copy = strdup(text), *rest = copy, *item;
    bool ok = copy || refuse("out of memory");
    while (ok && (item = strsep(&rest, ","))) {
        if (*item) ok = set_one(item);
    }
    free(copy);
    return ok;
}

bool sim_options_start(void) {
    sim_opt = defaults;
    sim_random_seed(sim_opt.seed);
    const char *text = secure_getenv("FACULA_CUDA");
    if (!text || strncmp(text, "sim", 3) != 0) return true;
    text += 3;
    if (*text == ':') {
        char *end;
        long n = strtol(text + 1, &end, 10);
        if (end == text + 1 || n < 0 || n > SIM_MAX_DEVICES || (*end && *end != ','))
            return refuse("expected sim:N with N devices in [0, %d]", SIM_MAX_DEVICES);
        sim_opt.devices = (int)n;
        text = end;
    }
    return sim_options_parse(text);
}

int64_t simcuda_count(const char *name) {
    /* clang-format off */
    static const struct { const char *name; sim_type type; } types[] = {
        {"streams", SIM_STREAM}, {"events", SIM_EVENT}, {"modules", SIM_MODULE}, {"libraries", SIM_LIBRARY},
        {"graphs", SIM_GRAPH}, {"execs", SIM_EXEC}, {"pools", SIM_POOL}, {"handles", SIM_HANDLE},
    };
    /* clang-format on */
    sim_lock();
    int64_t n = sim_memory_count(name);
    if (n < 0) n = sim_work_count(name);
    if (n < 0) n = sim_code_count(name);
    if (n < 0) n = sim_cufft_count(name);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (!strcmp(name, types[i].name)) n = sim_object_live[types[i].type];
    }
    if (!strcmp(name, "threads")) n = sim_opt.threads;
    if (!strcmp(name, "trap")) n = sim_opt.trap;
    sim_unlock();
    return n;
}
