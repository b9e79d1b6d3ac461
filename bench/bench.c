/* Measures rows of operators and training steps.

       bench                  every row with one thread
       bench --list           section and name of every row
       bench --call TEXT...   makes each call of an operator once (boxed.h): its error, if it fails
       bench --serve          for each line `name<TAB>threads<TAB>milliseconds` on stdin, that row; run.py asks so
       bench --memory NAME [RUNS]  runs a row ten times, or as often as is said; prints the peak resident KiB and the allocator's
                              peak bytes
       bench --operators NAME what each operator takes of a row, with one thread: its own microseconds of a run, calls, schema
       bench --once SECTION   runs each row of a section once: its name, its model's parameters and whether the result is finite

   A row's line is `section<TAB>name<TAB>threads<TAB>median_us<TAB>min_us`; a call's has two columns more, the bytes that it reads and
   writes and the elements of its first result. A sample is as many runs as take 200 us; samples are taken until the time is up, seven at
   least, or three of what takes 20 ms. */
#include "boxed.h"
#include "rows.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MIN_SAMPLES = 7,
    LONG_SAMPLES = 3,
    LONG_NS = 20000000,
    MAX_SAMPLES = 4096,
    SAMPLE_NS = 200000,
    WARM_RUNS = 3,
    DEFAULT_MS = 200,
    LINE = 1024
};

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds of one run, averaged over n; negative on an error. */
static double time_runs(const row *r, fixture *f, int64_t n) {
    const double begin = now_ns();
    for (int64_t i = 0; i < n; i++) {
        FAC_SCOPE(s);
        if (!r->run(f)) return -1;
    }
    return (now_ns() - begin) / (double)n;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Fills samples in rising order; returns how many, 0 on an error. */
static int take_samples(const row *r, fixture *f, double budget_ms, double *samples) {
    double one = time_runs(r, f, 1);
    if (one > LONG_NS) one = time_runs(r, f, 1); /* the first run may have made ready what the others use */
    const bool is_long = one > LONG_NS;
    if (one >= 0 && !is_long) one = time_runs(r, f, WARM_RUNS - 1);
    if (one >= 0 && !is_long) one = time_runs(r, f, one < SAMPLE_NS ? 4 : 1);
    if (one < 0) return 0;
    const int64_t runs = one < SAMPLE_NS ? 1 + (int64_t)(SAMPLE_NS / (one + 1)) : 1;
    const double end = now_ns() + budget_ms * 1e6;
    int n = 0;
    while (n < MAX_SAMPLES && (n < (is_long ? LONG_SAMPLES : MIN_SAMPLES) || now_ns() < end))
        if ((samples[n++] = time_runs(r, f, runs)) < 0) return 0;
    qsort(samples, (size_t)n, sizeof *samples, by_value);
    return n;
}

static bool make_inputs(const row *r, fixture *f) {
    for (int i = 0; i < ROW_TENSORS; i++) {
        size_t n = 0;
        while (n < ROW_DIMS && r->sizes[i][n]) n++;
        if (n) f->x[i] = fac_randn(((fac_ints){r->sizes[i], n}), .requires_grad = r->grad);
    }
    if (!fac_error() && r->prepare) r->prepare(f);
    return fac_error() == FAC_OK;
}

static void drop_fixture(fixture *f) {
    for (int i = 0; i < ROW_OPTIMIZERS; i++) fac_optimizer_release(f->optimizer[i]);
    fac_module_release(f->model);
}

static int measure(const row *r, int threads, double budget_ms) {
    static double samples[MAX_SAMPLES];
    FAC_SCOPE(s);
    fixture f = {0};
    const int n =
        fac_set_num_threads(threads) == FAC_OK && make_inputs(r, &f) ? take_samples(r, &f, budget_ms, samples) : 0;
    drop_fixture(&f);
    if (n == 0) return fac_report(stderr);
    printf("%s\t%s\t%d\t%.4f\t%.4f\n", r->section, r->name, threads, samples[n / 2] / 1e3, samples[0] / 1e3);
    fflush(stdout);
    return 0;
}

/* A row that is the text of a call. */
static fac_tensor *run_boxed(fixture *f) { return boxed_run(f->call) ? f->x[0] : NULL; }

static int measure_call(const char *text, int threads, double budget_ms) {
    static double samples[MAX_SAMPLES];
    const row r = {.section = "operators", .name = text, .run = run_boxed};
    FAC_SCOPE(s);
    boxed_call call = {0};
    fixture f = {.call = &call};
    double bytes = 0, numel = 0;
    int n = 0;
    if (fac_set_num_threads(threads) == FAC_OK && boxed_make(&call, text)) {
        f.x[0] = fac_empty(FAC_INTS(1)); /* what run_boxed gives: not NULL */
        n = f.x[0] ? take_samples(&r, &f, budget_ms, samples) : 0;
        if (n) bytes = boxed_bytes(&call, &numel);
    }
    boxed_drop(&call);
    if (n == 0) return fac_report(stderr), 1;
    printf("%s\t%s\t%d\t%.4f\t%.4f\t%.0f\t%.0f\n", r.section, r.name, threads, samples[n / 2] / 1e3, samples[0] / 1e3,
           bytes, numel);
    fflush(stdout);
    return 0;
}

static int try_calls(char **texts) {
    int failed = 0;
    for (; *texts; texts++) {
        FAC_SCOPE(s);
        boxed_call call = {0};
        const bool works = boxed_make(&call, *texts) && boxed_run(&call);
        boxed_drop(&call);
        if (!works) fprintf(stderr, "%s: %s\n", *texts, fac_error_message());
        fac_error_clear();
        failed += !works;
    }
    return failed > 0;
}

static const row *row_at(size_t i) {
    return i < n_op_rows ? &op_rows[i] : i - n_op_rows < n_model_rows ? &model_rows[i - n_op_rows] : NULL;
}

static const row *find_row(const char *name) {
    const row *r;
    for (size_t i = 0; (r = row_at(i)); i++)
        if (strcmp(r->name, name) == 0) return r;
    fprintf(stderr, "bench: there is no row '%s'\n", name);
    return NULL;
}

static int serve(void) {
    char line[LINE];
    while (fgets(line, sizeof line, stdin)) {
        const char *name = strtok(line, "\t"), *threads = strtok(NULL, "\t"), *ms = strtok(NULL, "\t");
        const bool is_call = name && threads && ms && boxed_is(name);
        const row *r = !is_call && name && threads && ms ? find_row(name) : NULL;
        if (is_call ? measure_call(name, atoi(threads), atof(ms)) : !r || measure(r, atoi(threads), atof(ms))) {
            puts("-");
            fflush(stdout);
            fac_error_clear();
        }
    }
    return 0;
}

/* The kernel's count of this process's largest resident size, in KiB; 0 where it is not told. */
static long peak_resident_kib(void) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[LINE];
    long kib = 0;
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0) kib = atol(line + 6);
    if (status) fclose(status);
    return kib;
}

static int measure_memory(const row *r, int64_t runs) {
    FAC_SCOPE(s);
    fixture f = {0};
    if (r && make_inputs(r, &f)) time_runs(r, &f, runs);
    const fac_memory_stats stats = fac_memory_get_stats();
    drop_fixture(&f);
    if (!r || fac_report(stderr)) return 1;
    printf("%ld\t%lld\n", peak_resident_kib(), (long long)stats.peak);
    return 0;
}

static int measure_operators(const row *r) {
    FAC_SCOPE(s);
    fixture f = {0};
    if (r && fac_set_num_threads(1) == FAC_OK && make_inputs(r, &f)) print_operators(r, &f);
    drop_fixture(&f);
    return !r || fac_report(stderr);
}

static int run_once(const row *r) {
    FAC_SCOPE(s);
    fixture f = {0};
    fac_tensor *y = make_inputs(r, &f) ? r->run(&f) : NULL;
    const bool finite = y && fac_item_int(fac_all(fac_isfinite(y)));
    const int64_t parameters = f.model ? fac_module_parameter_count(f.model) : 0;
    drop_fixture(&f);
    if (fac_report(stderr)) return fprintf(stderr, "bench: %s failed\n", r->name), 1;
    printf("%s\t%lld\t%s\n", r->name, (long long)parameters, finite ? "finite" : "not finite");
    fflush(stdout);
    return 0;
}

/* Each row of the section, though one fails. */
static int run_section_once(const char *section) {
    int failed = 0;
    const row *r;
    for (size_t i = 0; (r = row_at(i)); i++)
        if (strcmp(r->section, section) == 0) failed += run_once(r), fac_error_clear();
    return failed > 0;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "--serve") == 0) return serve();
    if (strcmp(mode, "--call") == 0) return try_calls(argv + 2);
    if (strcmp(mode, "--memory") == 0 && (argc == 3 || argc == 4))
        return measure_memory(find_row(argv[2]), argc == 4 ? atoll(argv[3]) : 10);
    if (strcmp(mode, "--operators") == 0 && argc == 3) return measure_operators(find_row(argv[2]));
    if (strcmp(mode, "--once") == 0 && argc == 3) return run_section_once(argv[2]);
    const bool list = strcmp(mode, "--list") == 0;
    if (argc > 1 && !list)
        return fputs(
                   "usage: bench [--list | --serve | --call TEXT... | --memory NAME [RUNS] | --operators NAME | --once SECTION]\n",
                   stderr),
               2;
    const row *r;
    for (size_t i = 0; (r = row_at(i)); i++) {
        if (list)
            printf("%s\t%s\n", r->section, r->name);
        else if (measure(r, 1, DEFAULT_MS))
            return 1;
    }
    return 0;
}
