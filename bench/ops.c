/* Times single operators and small chains of them. `ops --list` prints the rows; `ops ROW [THREADS]` prints the
   nanoseconds of one run of a row: the fastest of several batches, each long enough for the clock. bench/run.py has the same rows
   for PyTorch and runs both in turn. */
#include <facula/facula.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_INPUTS = 3, BATCHES = 9, BATCH_NS = 30000000 };

typedef struct row {
    const char *name;
    fac_tensor *(*run)(fac_tensor **x); /* result of the innermost scope */
    bool grad;                          /* inputs require gradients */
    int64_t sizes[MAX_INPUTS][5];       /* each up to its first 0 */
} row;

static fac_tensor *run_empty(fac_tensor **x) {
    (void)x;
    return fac_empty(FAC_INTS(16));
}
static fac_tensor *run_add(fac_tensor **x) { return fac_add(x[0], x[1]); }
static fac_tensor *run_add_out(fac_tensor **x) { return fac_add_out(x[2], x[0], x[1]); }
static fac_tensor *run_mul_add(fac_tensor **x) { return fac_add(fac_mul(x[0], x[1]), x[2]); }
static fac_tensor *run_view(fac_tensor **x) { return fac_view(x[0], FAC_INTS(4, 4)); }
static fac_tensor *run_sum(fac_tensor **x) { return fac_sum(x[0]); }
static fac_tensor *run_mean_last(fac_tensor **x) { return fac_mean(x[0], .dim = FAC_INTS(-1)); }
static fac_tensor *run_exp(fac_tensor **x) { return fac_exp(x[0]); }
static fac_tensor *run_tanh(fac_tensor **x) { return fac_tanh(x[0]); }
static fac_tensor *run_gelu(fac_tensor **x) { return fac_gelu(x[0]); }
static fac_tensor *run_sigmoid(fac_tensor **x) { return fac_sigmoid(x[0]); }
static fac_tensor *run_softmax(fac_tensor **x) { return fac_softmax(x[0], -1); }
static fac_tensor *run_layer_norm(fac_tensor **x) { return fac_layer_norm(x[0], FAC_INTS(1024), .weight = x[1], .bias = x[2]); }
static fac_tensor *run_mm(fac_tensor **x) { return fac_mm(x[0], x[1]); }
static fac_tensor *run_linear(fac_tensor **x) { return fac_linear(x[0], x[1], NULL); }
static fac_tensor *run_transpose(fac_tensor **x) { return fac_contiguous(fac_t(x[0])); }
static fac_tensor *run_conv(fac_tensor **x) { return fac_conv2d(x[0], x[1], NULL, .padding = FAC_INTS(1)); }
static fac_tensor *run_backward(fac_tensor **x) {
    fac_tensor *grads[3], *loss = fac_sum(fac_add(fac_mul(x[0], x[1]), x[2]));
    return fac_grad(FAC_TENSORS(loss), FAC_TENSORS(x[0], x[1], x[2]), grads, NULL) ? NULL : loss;
}

static const row ROWS[] = {
    {"empty 16", run_empty, false, {{0}}},
    {"add 1", run_add, false, {{1}, {1}}},
    {"add out 1", run_add_out, false, {{1}, {1}, {1}}},
    {"add 16 grad", run_add, true, {{16}, {16}}},
    {"view 16", run_view, false, {{16}}},
    {"sum 16", run_sum, false, {{16}}},
    {"mm 4", run_mm, false, {{4, 4}, {4, 4}}},
    {"mul add sum backward 16", run_backward, true, {{16}, {16}, {16}}},
    {"add 1M", run_add, false, {{1000000}, {1000000}}},
    {"mul add 1M", run_mul_add, false, {{1000000}, {1000000}, {1000000}}},
    {"exp 1M", run_exp, false, {{1000000}}},
    {"tanh 1M", run_tanh, false, {{1000000}}},
    {"gelu 1M", run_gelu, false, {{1000000}}},
    {"sigmoid 1M", run_sigmoid, false, {{1000000}}},
    {"sum 1M", run_sum, false, {{1000000}}},
    {"add 16M", run_add, false, {{16000000}, {16000000}}},
    {"sum 16M", run_sum, false, {{16000000}}},
    {"mean last 16384x1024", run_mean_last, false, {{16384, 1024}}},
    {"transpose 2048", run_transpose, false, {{2048, 2048}}},
    {"softmax 4096x1024", run_softmax, false, {{4096, 1024}}},
    {"layer_norm 4096x1024", run_layer_norm, false, {{4096, 1024}, {1024}, {1024}}},
    {"mm 64", run_mm, false, {{64, 64}, {64, 64}}},
    {"mm 256", run_mm, false, {{256, 256}, {256, 256}}},
    {"mm 1024", run_mm, false, {{1024, 1024}, {1024, 1024}}},
    {"linear 32x1024x4096", run_linear, false, {{32, 1024}, {4096, 1024}}},
    {"linear 1x4096x4096", run_linear, false, {{1, 4096}, {4096, 4096}}},
    {"conv 8x64x56x56 3x3", run_conv, false, {{8, 64, 56, 56}, {64, 64, 3, 3}}},
};
enum { N_ROWS = sizeof ROWS / sizeof *ROWS };

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Nanoseconds that n runs take; negative on an error. */
static int64_t time_runs(const row *r, fac_tensor **x, int64_t n) {
    int64_t begin = now_ns();
    for (int64_t i = 0; i < n; i++) {
        FAC_SCOPE(s);
        if (!r->run(x)) return -1;
    }
    return now_ns() - begin;
}

static bool make_inputs(const row *r, fac_tensor **x) {
    for (int i = 0; i < MAX_INPUTS; i++) {
        size_t n = 0;
        while (r->sizes[i][n]) n++;
        x[i] = n ? fac_randn(((fac_ints){r->sizes[i], n}), .requires_grad = r->grad) : NULL;
    }
    return fac_error() == FAC_OK;
}

static int run_row(const row *r) {
    FAC_SCOPE(s);
    fac_tensor *x[MAX_INPUTS];
    int64_t n = 1, ns, best = INT64_MAX;
    if (!make_inputs(r, x)) return fac_report(stderr);
    while ((ns = time_runs(r, x, n)) >= 0 && ns < BATCH_NS && n < INT64_MAX / 2) n *= 2;
    for (int i = 0; i < BATCHES && ns >= 0; i++) {
        ns = time_runs(r, x, n);
        if (ns < best) best = ns;
    }
    if (fac_report(stderr)) return 1;
    printf("%.1f\n", (double)best / (double)n);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (int i = 0; i < N_ROWS; i++) puts(ROWS[i].name);
        return 0;
    }
    if (argc < 2 || argc > 3) return fputs("usage: ops --list | ops ROW [THREADS]\n", stderr), 2;
    if (argc == 3 && fac_set_num_threads(atoi(argv[2])) != FAC_OK) return fac_report(stderr);
    for (int i = 0; i < N_ROWS; i++)
        if (strcmp(ROWS[i].name, argv[1]) == 0) return run_row(&ROWS[i]);
    return fprintf(stderr, "ops: there is no row '%s'\n", argv[1]), 2;
}
