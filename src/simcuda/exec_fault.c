/* A kernel that touches what is not there raises a signal on the host. Here that becomes what a device does: the launch fails
   with a code, and the process lives. Signals from anywhere but a kernel go to the handler that was there before. */
#define _GNU_SOURCE 1
#include "exec_internal.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static const int watched[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
enum { N_WATCHED = sizeof(watched) / sizeof(watched[0]), SIGNAL_STACK_BYTES = 64 << 10 };
static struct sigaction earlier[N_WATCHED];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool on_own_stack(const sim_fiber *f, uintptr_t address) {
    uintptr_t low = (uintptr_t)f->stack;
    return address >= low - 4096 && address < low;
}

static int explain(int signal, const siginfo_t *info, const sim_fiber *f, char *text, size_t size) {
    /* Kernels are compiled to trap where a pointer is less aligned than its type; where they are not, instructions that want
       alignment fault without an address. */
    if (signal == SIGILL || (signal == SIGSEGV && info->si_code == SI_KERNEL)) {
        snprintf(text, size, "misaligned address: a vector is read or written where its alignment does not allow it");
        return 716;
    }
    if (signal == SIGFPE) {
        snprintf(text, size, "integer division by zero, whose result no device defines");
        return 719;
    }
    if (on_own_stack(f, (uintptr_t)info->si_addr)) {
        snprintf(text, size, "the thread's stack of %d bytes is used up", (int)SIM_STACK_BYTES);
        return 719;
    }
    int n = snprintf(text, size, "illegal address %p: ", info->si_addr);
    if (n < 0 || (size_t)n >= size) return 700;
    if (!sim_memory_explain(info->si_addr, text + n, size - (size_t)n))
        snprintf(text + n, size - (size_t)n, "no memory of any device");
    return 700;
}

static void hand_on(int signal, siginfo_t *info, void *context) {
    int i = 0;
    while (watched[i] != signal) i++;
    struct sigaction *was = &earlier[i];
    if (was->sa_flags & SA_SIGINFO) {
        was->sa_sigaction(signal, info, context);
    } else if (was->sa_handler == SIG_DFL || was->sa_handler == SIG_IGN) {
        sigaction(signal, was, NULL); /* the instruction runs again, and the default action is taken */
    } else {
        was->sa_handler(signal);
    }
}

#if defined(__GNUC__)
#define NO_FAKE_FRAME __attribute__((no_sanitize("address"))) /* the escape does away with the fiber's fake frames */
#else
#define NO_FAKE_FRAME
#endif

NO_FAKE_FRAME static void on_signal(int signal, siginfo_t *info, void *context) {
    sim_worker *w = sim_worker_of_thread;
    if (!w || !w->launch || !w->current) {
        hand_on(signal, info, context);
        return;
    }
    int code = explain(signal, info, w->current, w->explanation, sizeof(w->explanation));
    sim_note_failure(w, code, w->explanation);
    sim_fiber_escape(w, context);
}

/* Looked at before every launch: test frameworks and others set handlers of their own in between. */
static void handlers_set(void) {
    struct sigaction mine = {.sa_flags = SA_SIGINFO | SA_ONSTACK}, now;
    mine.sa_sigaction = on_signal;
    sigemptyset(&mine.sa_mask);
    if (sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_signal) return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < N_WATCHED; i++) {
        if (sigaction(watched[i], NULL, &now) != 0) continue;
        if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_signal) continue;
        earlier[i] = now;
        sigaction(watched[i], &mine, NULL);
    }
    pthread_mutex_unlock(&lock);
}

/* A kernel may have used up its stack, so the handler has one of its own. */
static void signal_stack_set(sim_worker *w) {
    stack_t now;
    if (w->signal_stack || (sigaltstack(NULL, &now) == 0 && !(now.ss_flags & SS_DISABLE))) return;
    w->signal_stack = malloc(SIGNAL_STACK_BYTES);
    if (!w->signal_stack) return;
    sigaltstack(&(stack_t){.ss_sp = w->signal_stack, .ss_size = SIGNAL_STACK_BYTES}, NULL);
}

void sim_faults_watch(sim_worker *w) {
    signal_stack_set(w);
    handlers_set();
}

void sim_faults_unwatch(sim_worker *w) {
    if (!w->signal_stack) return;
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    free(w->signal_stack);
    w->signal_stack = NULL;
}
