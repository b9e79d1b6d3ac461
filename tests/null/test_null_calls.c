/* Every public function takes NULL for any of its pointers: it is legal, or it is an error. null_calls.h has one call for
   each, made from the headers. They run in a child process, which goes on after the call that ended the one before. */
#include <facula/facula.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- something valid of each type; freed with the process ---- */

static void *a_buffer(void) { return calloc(1, 4096); }
static fac_tensor *a_tensor(void) { return fac_ones(FAC_INTS(2, 3)); }
static fac_module *a_module(void) { return fac_linear_new(3, 3); }
static FILE *a_stream(void) { return fopen("/dev/null", "w"); }
static fac_value *a_value(void) { return a_buffer(); }

static fac_tensors some_tensors(void) {
    fac_tensor **v = a_buffer();
    v[0] = a_tensor();
    v[1] = a_tensor();
    return (fac_tensors){v, 2};
}

static fac_optimizer *an_optimizer(void) { return fac_sgd_new(a_module(), 0.1); }
static fac_node *a_node(void) { return fac_grad_fn(fac_mul(fac_set_requires_grad(a_tensor(), true), 2.0)); }

static fac_state *a_state(void) { return fac_module_state_dict(a_module()); }

static fac_scope *a_scope(void) {
    fac_scope *s = a_buffer();
    *s = fac_scope_begin();
    return s;
}

static fac_vocab *a_vocab(void) { return fac_vocab_bytes(); }
static fac_sampler *a_sampler(void) { return fac_sampler_new(4); }
static fac_loader *a_loader(void) { return fac_loader_new(some_tensors()); }
static fac_lr_scheduler *a_schedule(void) { return fac_exponential_lr_new(an_optimizer(), 0.9); }
static fac_grad_scaler *a_scaler(void) { return fac_grad_scaler_new(); }
static fac_dataset *a_dataset(void) { return fac_dataset_of_tensors(some_tensors()); }
static void *written(const char *name, const char *text) {
    FILE *f = fopen(name, "w");
    if (f && fputs(text, f) >= 0) fclose(f);
    return f;
}
static fac_csv *a_table(void) {
    return written("null_calls.csv", "a,b\n1,2\n") ? fac_csv_open("null_calls.csv") : NULL;
}
static fac_tensor_file *a_file(void) {
    return fac_npz_write("null_calls.npz", NULL, 0) == FAC_OK ? fac_npz_open("null_calls.npz") : NULL;
}
static fac_event *an_event(void) { return fac_event_new(FAC_CUDA); }

#include "null_calls.h"

/* ---- running them ---- */

#define N_CALLS (sizeof null_calls / sizeof null_calls[0])

/* Shared with the child: the call that runs, and what was wrong with those before it. */
typedef struct progress {
    size_t next;
    size_t wrong;
} progress;

static void complain(progress *p, const char *what, const char *how) {
    print_error("%s: %s\n", what, how);
    p->wrong++;
}

static void judge(progress *p, size_t i) {
    const bool failed = fac_error() != FAC_OK;
    if (failed && !fac_error_message()[0]) complain(p, null_calls[i].what, "an error without a message");
    if (!failed && null_calls[i].must_fail) complain(p, null_calls[i].what, "was taken");
    fac_error_clear();
    FAC_SCOPE(s);
    if (!fac_add(fac_ones(FAC_INTS(2)), 1.0)) complain(p, null_calls[i].what, "no operator works after it");
    fac_error_clear();
}

static void run_rest(progress *p) {
    for (; p->next < N_CALLS; p->next++) {
        fac_scope s = fac_scope_begin();
        alarm(10);
        null_calls[p->next].call();
        judge(p, p->next);
        fac_scope_end(&s);
    }
}

static void null_anywhere_in_a_public_call_is_survived(void **state) {
    (void)state;
    progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    size_t crashes = 0;
    for (int status = 1; status != 0;) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            for (int s = 1; s < 32; s++)
                signal(s, SIG_DFL); /* cmocka's handlers would tell it as a test of their own */
            run_rest(p);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status == 0) continue;
        crashes++;
        print_error("%s: ended the process (status 0x%x)\n", null_calls[p->next].what, (unsigned)status);
        p->next++;
    }
    print_message("%zu calls, %zu ended the process, %zu otherwise wrong\n", N_CALLS, crashes, p->wrong);
    assert_int_equal(p->next, N_CALLS);
    assert_int_equal(crashes, 0);
    assert_int_equal(p->wrong, 0);
    munmap(p, sizeof *p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(null_anywhere_in_a_public_call_is_survived)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
