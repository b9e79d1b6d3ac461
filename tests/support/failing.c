/* Every test again, with one allocation failing each time. A child process per run: what a crash, a hang or an assertion
   leaves behind stays there.

   An assertion that fails because memory was refused is expected, and so is a test that follows a pointer it did not get.
   Outside cmocka's own loop a failed assertion calls exit, so the child's exit handler runs with the test's frames still in
   place: what the test owns is reachable from them, and what is not is the library's leak, which LeakSanitizer finds. The
   handler also sees whether the library still works. A body that runs to its end must leave nothing, and pass when it is run
   again (unless it takes long). */
#define _GNU_SOURCE /* memfd_create, registers of a fault */
#include "failing.h"
#include <execinfo.h>
#include <facula/facula.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/sanitizers.h"
#include "support.h"

#if FAC_UNDER_ASAN
#include <sanitizer/lsan_interface.h>
#define LEAKS_FOUND() (__lsan_do_recoverable_leak_check() != 0)
#else
#define LEAKS_FOUND() false
#endif

#if defined(__x86_64__)
#define PC_OF(u) ((uintptr_t)(u)->uc_mcontext.gregs[REG_RIP])
#elif defined(__aarch64__)
#define PC_OF(u) ((uintptr_t)(u)->uc_mcontext.pc)
#else
#error "tell how the place of a fault is found on this machine"
#endif

enum {
    MOST_RUNS = 24,
    LEAST_RUNS = 1,
    RUNS_OF_A_PROGRAM = 240,
    LONGEST_RUN = 240 /* s, by the clock: a hang uses none of the processor */
};
static const double TIME_OF_A_TEST = 0.4; /* s, beyond the least number of runs */

enum { PASSED, ASSERTED = 3, BROKEN = 4, SKIPPED = 5 }; /* how a child ends; other codes are a sanitizer's */

/* Where a child stands; read by its exit handler. */
static enum { IN_PREPARATION, IN_BODY, IN_AFTERMATH } phase;

/* What a child tells its parent. */
static struct report {
    int64_t requests; /* for memory, by the body */
    bool fails_itself;
} * report;

/* ---- whose mistake a fault is -------------------------------------------------------------------------------------- */

/* The program's symbols: those of a source file's own functions follow an entry with the file's name. */
static struct {
    const ElfW(Sym) * v;
    size_t n;
    const char *names;
    uintptr_t bias;
} symbols;

static int find_bias(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size, (void)context;
    symbols.bias = info->dlpi_addr;
    return 1; /* the first is the program */
}

static void read_symbols(void) {
    struct stat file;
    int fd = open("/proc/self/exe", O_RDONLY);
    if (fd < 0 || fstat(fd, &file)) return;
    const char *image = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (image == MAP_FAILED) return;
    const ElfW(Ehdr) *head = (const void *)image;
    const ElfW(Shdr) *sections = (const void *)(image + head->e_shoff);
    for (size_t i = 0; i < head->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB) continue;
        symbols.v = (const void *)(image + sections[i].sh_offset);
        symbols.n = sections[i].sh_size / sizeof *symbols.v;
        symbols.names = image + sections[sections[i].sh_link].sh_offset;
    }
    dl_iterate_phdr(find_bias, NULL);
}

static bool is_in_library(uintptr_t pc) {
    Dl_info library, here;
    return dladdr((void *)(uintptr_t)fac__thread_start, &library) && dladdr((void *)pc, &here) &&
           here.dli_fbase == library.dli_fbase;
}

/* The source file of the program's function at pc; "" for one that is not static or of the library, NULL if pc is in neither. */
static const char *file_of(uintptr_t pc) {
    const char *file = "";
    for (size_t i = 0; i < symbols.n; i++) {
        const ElfW(Sym) *s = &symbols.v[i];
        if ((s->st_info & 0xf) == STT_FILE) file = symbols.names + s->st_name;
        if ((s->st_info & 0xf) == STT_FUNC && pc - symbols.bias - s->st_value < s->st_size)
            return s->st_info >> 4 == STB_LOCAL ? file : "";
    }
    return is_in_library(pc) ? "" : NULL;
}

/* Whether the innermost of the program's and the library's functions under way is the test's: a fault in strcmp is its caller's. */
static bool is_in_test(uintptr_t pc) {
    void *frames[64];
    int n = backtrace(frames, 64), i = 0;
    while (i < n && (uintptr_t)frames[i] != pc) i++; /* those of the signal's handler */
    const char *file = file_of(pc);
    for (i++; !file && i < n; i++) file = file_of((uintptr_t)frames[i] - 1);
    return file && strncmp(file, "test_", 5) == 0;
}

/* ---- in the child -------------------------------------------------------------------------------------------------- */

static const fac_allocator *allocator; /* before the test */

/* What a test may have left switched. */
static void reset(void) {
    fac_error_clear();
    if (fac_allocator_set(FAC_CPU, allocator)) fac_error_clear();
    (void)fac_set_grad_enabled(true);
    (void)fac_set_inference_mode(false);
    fac__thread()->include = fac__thread()->exclude = 0;
}

static void assert_library_works(void) {
    FAC_SCOPE(s);
    const float two = 2;
    float gradient = 0;
    fac_tensor *x = fac_set_requires_grad(fac_tensor_from(&two, FAC_F32, FAC_INTS()), true);
    assert_ok(fac_backward(fac_mul(x, fac_exp(fac_sub(x, x)))));
    assert_ok(fac_tensor_read(fac_grad_of(x), FAC_F32, &gradient, 1));
    assert_true(gradient == 1);
}

static void at_exit_of_child(void) {
    bool expected = phase == IN_BODY && memory_hook_failures() > 0;
    phase = IN_AFTERMATH;
    memory_hook_fail(0, false);
    fflush(NULL);
    if (!expected) _exit(BROKEN);
    reset();
    assert_library_works();
    _exit(LEAKS_FOUND() ? BROKEN : ASSERTED);
}

static void on_fault(int signal_number, siginfo_t *info, void *context) {
    (void)info;
    const ucontext_t *u = context;
    bool expected = phase == IN_BODY && memory_hook_failures() > 0;
    if (expected && is_in_test(PC_OF(u))) at_exit_of_child();
    signal(signal_number, SIG_DFL); /* the fault comes again */
}

static CMFixtureFunction group_setup;

static void run_whole(const struct CMUnitTest *t, int64_t n) {
    void *state = t->initial_state;
    phase = IN_PREPARATION;
    if (t->setup_func && t->setup_func(&state)) exit(BROKEN);
    allocator = fac_allocator_get(FAC_CPU);
    memory_hook_fail(n, false);
    int64_t arms = memory_hook_arms();
    phase = IN_BODY;
    t->test_func(&state);
    phase = IN_AFTERMATH;
    *report = (struct report){memory_hook_requests(), memory_hook_arms() != arms};
    memory_hook_fail(0, false);
    if (n && !report->fails_itself) fac_error_clear(); /* of the failure; without one it is the test's mistake */
    if (t->teardown_func && t->teardown_func(&state)) exit(BROKEN);
}

static bool in_child;

/* cmocka's own skip would end the child as a failure does. */
void support_skip(const char *file, int line) {
    if (in_child) _exit(SKIPPED);
    _skip(file, line);
}

static void child(const struct CMUnitTest *t, int64_t n, bool again, int log) {
    in_child = true;
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    alarm(LONGEST_RUN);
    memory_hook_install();
    atexit(at_exit_of_child);
    const struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &fault, NULL);
    if (group_setup && group_setup(&(void *){NULL})) exit(BROKEN);
    run_whole(t, n);
    if (n && again) {
        struct report first = *report;
        run_whole(t, 0);
        *report = first;
    }
    fflush(NULL);
    _exit(PASSED);
}

/* ---- in the parent --------------------------------------------------------------------------------------------------- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void print_log(int log) {
    char text[4096];
    lseek(log, 0, SEEK_SET);
    for (ssize_t got; (got = read(log, text, sizeof text)) > 0;) fwrite(text, 1, (size_t)got, stdout);
}

static bool skipped; /* the last run */

/* Runs the test in a child with its n-th request failing (0: none), and then `again` without. True if the child ended as it
   may; says why if not. */
static bool run(const struct CMUnitTest *t, int64_t n, bool again) {
    int status, log = memfd_create("log", 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) child(t, n, again, log);
    bool waited = pid > 0 && waitpid(pid, &status, 0) == pid;
    skipped = waited && WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED;
    bool well = skipped || (waited && WIFEXITED(status) &&
                            (WEXITSTATUS(status) == PASSED || (n && WEXITSTATUS(status) == ASSERTED)));
    if (!well) {
        print_log(log);
        printf("%s: ", t->name);
        if (n) printf("with allocation %lld failing, ", (long long)n);
        if (!waited)
            puts("could not be started");
        else if (WIFSIGNALED(status))
            printf("killed by signal %d\n", WTERMSIG(status));
        else
            printf(WEXITSTATUS(status) == BROKEN ? (n ? "leaks, or leaves the library broken\n" : "fails alone\n")
                                                 : "ended with %d\n",
                   WEXITSTATUS(status));
    }
    close(log);
    return well;
}

/* The same sequence for the same test and seed. */
static uint64_t next_random(uint64_t *x) {
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return *x;
}

/* One request of the k-th of `runs` equal parts of all. */
static int64_t nth_request(int64_t k, int64_t runs, int64_t requests, uint64_t *random) {
    int64_t begin = requests * k / runs, end = requests * (k + 1) / runs;
    return begin + 1 + (int64_t)(next_random(random) % (uint64_t)(end - begin));
}

/* How often one of n tests is run that takes so many seconds. */
static int64_t runs_of(double each, size_t n) {
    const char *wanted = getenv("FACULA_TEST_RUNS"), *text = getenv("FACULA_TEST_ONE_IN");
    if (wanted) return strtoll(wanted, NULL, 10);
    const int64_t one_in = text && strtoll(text, NULL, 10) > 0 ? strtoll(text, NULL, 10) : 1;
    const int64_t all = n * MOST_RUNS > RUNS_OF_A_PROGRAM ? 1 + RUNS_OF_A_PROGRAM / (int64_t)n : MOST_RUNS;
    const double most = (double)((all + one_in - 1) / one_in), in_time = TIME_OF_A_TEST / (double)one_in / each;
    return in_time > most ? (int64_t)most : in_time > LEAST_RUNS ? (int64_t)in_time : LEAST_RUNS;
}

static bool fail_each(const struct CMUnitTest *t, size_t n, uint64_t seed) {
    double start = now();
    if (!run(t, 0, false)) return false;
    if (skipped) {
        printf("[ SKIPPED  ] %s\n", t->name);
        return true;
    }
    double each = now() - start;
    if (report->fails_itself) {
        printf("[  ITSELF  ] %s\n", t->name);
        return true;
    }
    int64_t requests = report->requests, runs = runs_of(each, n);
    if (runs > requests) runs = requests;
    uint64_t random = seed * 0x9e3779b97f4a7c15u + 1;
    int64_t well = 0;
    for (int64_t k = 0; k < runs; k++) well += run(t, nth_request(k, runs, requests, &random), each < TIME_OF_A_TEST);
    printf("[ %s ] %s: %lld of %lld allocations\n", well == runs ? "   OK   " : " FAILED ", t->name, (long long)runs,
           (long long)requests);
    return well == runs;
}

int failing_run(const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup) {
    const char *seed = getenv("FACULA_TEST_SEED"), *only = getenv("FACULA_TEST_ONLY");
    int failed = 0;
    group_setup = setup;
    read_symbols();
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED) return 1;
    for (size_t i = 0; i < n; i++)
        if (!only || strcmp(only, tests[i].name) == 0)
            failed += !fail_each(&tests[i], n, seed ? strtoull(seed, NULL, 10) : 1);
    munmap(report, sizeof *report);
    return failed;
}
