/* With the option `trap`, device memory can be touched only while work runs on a device. A host thread that reaches for
   it is told which block it was before it dies. */
#include "simcuda/sim.h"
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int runners; /* pieces of work that run */
static struct sigaction before[2];
static const int watched[2] = {SIGSEGV, SIGBUS};

static void protect(const sim_block *b, bool open) {
    syscall(SYS_mprotect, b->page_start, b->pages, (long)(open ? PROT_READ | PROT_WRITE : PROT_NONE));
}

void sim_block_open(const sim_block *b, bool open) { protect(b, open && (!sim_opt.trap || runners)); }

static void open_granted(const sim_block *b, bool open) {
    bool granted = b->kind == SIM_MEMORY_VIRTUAL ? b->readable != 0 : sim_on_device(b) && !b->pending;
    if (granted) protect(b, open);
}

void sim_memory_acquire(void) {
    if (!runners++ && sim_opt.trap) sim_each_block(open_granted, true);
}

void sim_memory_yield(void) {
    if (!--runners && sim_opt.trap) sim_each_block(open_granted, false);
}

/* Says what was touched and lets the fault happen again, for whoever watched before. */
static void explain(int signal, siginfo_t *info, void *unused) {
    (void)unused;
    char what[256], text[400];
    sim_memory_explain(info->si_addr, what, sizeof what);
    int n = snprintf(text, sizeof text, "simcuda: the host touches memory out of its reach: %s\n", what);
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0) n = 0;
    for (int i = 0; i < 2; i++) {
        if (watched[i] == signal) sigaction(signal, &before[i], NULL);
    }
}

void sim_trap_start(void) {
    struct sigaction action = {.sa_sigaction = explain, .sa_flags = SA_SIGINFO};
    for (int i = 0; sim_opt.trap && i < 2; i++) sigaction(watched[i], &action, &before[i]);
}

void sim_trap_stop(void) {
    for (int i = 0; sim_opt.trap && i < 2; i++) sigaction(watched[i], &before[i], NULL);
}
