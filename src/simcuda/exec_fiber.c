/* Stacks for the threads of a block and the switch between them: twenty nanoseconds where we have it in assembler (x86-64,
   AArch64), ucontext elsewhere. A fiber never moves to another OS thread. */
#define _GNU_SOURCE 1 /* the registers' names in ucontext.h */
#include "exec_internal.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef SIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if __has_include(<valgrind/valgrind.h>) /* requests that do nothing outside of Valgrind */
#include <valgrind/valgrind.h>
#else
#define VALGRIND_STACK_REGISTER(low, high) 0u
#define VALGRIND_STACK_DEREGISTER(id) (void)(id)
#endif
#ifdef SIM_TSAN
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void *__tsan_get_current_fiber(void);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
#endif

enum { GUARD = 4096, NO_SYNC = 1 /* __tsan_switch_to_fiber: a switch is no happens-before edge */ };

/* ---- the switch ------------------------------------------------------------------------------------------------------ */

/* Saves the callee-saved registers on the stack, the stack pointer in *save, and goes on where `to` was saved. What stands
   behind sim_context_resume is also where a signal handler sends a kernel that faulted. */
#if defined(__x86_64__)
#define SAVED_WORDS 6
void sim_context_switch(void **save, void *to);
void sim_context_resume(void);
__asm__(".text\n"
        ".globl sim_context_switch\n.hidden sim_context_switch\n.type sim_context_switch,@function\n"
        ".globl sim_context_resume\n.hidden sim_context_resume\n.type sim_context_resume,@function\n"
        "sim_context_switch:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp, (%rdi)\n"
        "  mov %rsi, %rsp\n"
        "sim_context_resume:\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
        "  ret\n"
        ".size sim_context_switch, .-sim_context_switch\n");

static void *context_new(char *top, void (*entry)(void)) {
    void **s = (void **)(void *)(top - 16);
    *--s = NULL; /* where entry would return to */
    *--s = (void *)(uintptr_t)entry;
    for (int i = 0; i < SAVED_WORDS; i++) *--s = NULL;
    return s;
}

static void context_escape(void *sp, ucontext_t *context) {
    context->uc_mcontext.gregs[REG_RSP] = (greg_t)(uintptr_t)sp;
    context->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)sim_context_resume;
}
#elif defined(__aarch64__)
#define SAVED_WORDS 20
void sim_context_switch(void **save, void *to);
void sim_context_resume(void);
__asm__(".text\n"
        ".globl sim_context_switch\n.hidden sim_context_switch\n.type sim_context_switch,%function\n"
        ".globl sim_context_resume\n.hidden sim_context_resume\n.type sim_context_resume,%function\n"
        "sim_context_switch:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n  stp x25, x26, [sp, #48]\n"
        "  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
        "sim_context_resume:\n"
        "  ldp x19, x20, [sp]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n  ldp x25, x26, [sp, #48]\n"
        "  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n"
        "  ret\n"
        ".size sim_context_switch, .-sim_context_switch\n");

static void *context_new(char *top, void (*entry)(void)) {
    void **s = (void **)(void *)(top - 16) - SAVED_WORDS;
    for (int i = 0; i < SAVED_WORDS; i++) s[i] = NULL;
    s[11] = (void *)(uintptr_t)entry; /* x30, where ret goes */
    return s;
}

static void context_escape(void *sp, ucontext_t *context) {
    context->uc_mcontext.sp = (uintptr_t)sp;
    context->uc_mcontext.pc = (uintptr_t)sim_context_resume;
}
#else
/* The saved context lies at the top of the stack that it belongs to; that of the base stack in the switching frame. */
static void sim_context_switch(void **save, void *to) {
    ucontext_t here;
    *save = &here;
    swapcontext(&here, to);
}

static void *context_new(char *top, void (*entry)(void)) {
    ucontext_t *c = (ucontext_t *)(void *)(top - (sizeof(*c) + 63) / 64 * 64);
    getcontext(c);
    c->uc_stack.ss_sp = top - SIM_STACK_BYTES + 4096;
    c->uc_stack.ss_size = (size_t)((char *)c - (char *)c->uc_stack.ss_sp);
    c->uc_link = NULL;
    makecontext(c, entry, 0);
    return c;
}

static void context_escape(void *sp, ucontext_t *context) {
    (void)context;
    setcontext(sp);
}
#endif

/* ---- stacks ---------------------------------------------------------------------------------------------------------- */

/* By raw system call: ThreadSanitizer must not take a stack for memory that threads share. */
static char *stack_new(void) {
    long p = syscall(SYS_mmap, NULL, SIM_STACK_BYTES + GUARD, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (p == -1) return NULL;
    char *stack = (char *)(uintptr_t)p;
    if (mprotect(stack, GUARD, PROT_NONE) != 0) {
        munmap(stack, SIM_STACK_BYTES + GUARD);
        return NULL;
    }
    return stack + GUARD;
}

static bool fiber_make(sim_worker *w, sim_fiber *f) {
    if (f->stack) return true;
    f->stack = stack_new();
    if (!f->stack) return false;
    f->valgrind = VALGRIND_STACK_REGISTER(f->stack, f->stack + SIM_STACK_BYTES - 1);
    w->n_fibers++;
#ifdef SIM_TSAN
    f->tsan = __tsan_create_fiber(0);
#endif
    return true;
}

/* The last one given back is the next one taken, while its stack is in the cache. For ThreadSanitizer each thread of a block
   has a fiber of its own, and none is made by another, which would be a happens-before edge. */
#ifdef SIM_TSAN
bool sim_fibers_prepare(sim_worker *w, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        if (!fiber_make(w, &w->fibers[i])) return false;
    return true;
}
static sim_fiber *any_fiber(sim_worker *w) { return &w->fibers[w->started]; }
void sim_fiber_put(sim_worker *w, sim_fiber *f) { (void)w, (void)f; }
#else
bool sim_fibers_prepare(sim_worker *w, unsigned n) {
    (void)n;
    return w->n_free || fiber_make(w, &w->fibers[w->n_fibers]);
}
static sim_fiber *any_fiber(sim_worker *w) {
    if (w->n_free) return w->free_fibers[--w->n_free];
    sim_fiber *f = &w->fibers[w->n_fibers];
    return fiber_make(w, f) ? f : NULL;
}
void sim_fiber_put(sim_worker *w, sim_fiber *f) { w->free_fibers[w->n_free++] = f; }
#endif

sim_fiber *sim_fiber_take(sim_worker *w, void (*entry)(void)) {
    sim_fiber *f = any_fiber(w);
    if (!f) return NULL;
    /* Tops at different offsets, or the hot ends of all stacks would compete for the same lines of the cache. */
    size_t colour = (size_t)(f - w->fibers) * 320 % 4096 / 64 * 64;
    f->sp = context_new(f->stack + SIM_STACK_BYTES - colour, entry);
    f->fake = NULL;
    return f;
}

void sim_fibers_abandon(sim_worker *w) {
    w->n_free = 0;
    w->current = NULL;
    for (unsigned i = w->n_fibers; i-- > 0;) {
        w->free_fibers[w->n_free++] = &w->fibers[i];
#ifdef SIM_ASAN
        ASAN_UNPOISON_MEMORY_REGION(w->fibers[i].stack, SIM_STACK_BYTES);
#endif
    }
}

void sim_fibers_free(sim_worker *w) {
    for (unsigned i = 0; i < w->n_fibers; i++) {
#ifdef SIM_TSAN
        __tsan_destroy_fiber(w->fibers[i].tsan);
#endif
        VALGRIND_STACK_DEREGISTER(w->fibers[i].valgrind);
        munmap(w->fibers[i].stack - GUARD, SIM_STACK_BYTES + GUARD);
    }
    w->n_fibers = w->n_free = 0;
}

/* ---- switching, as the sanitizers want to be told ---------------------------------------------------------------------- */

static void announce(sim_worker *w, void **from_fake, const sim_fiber *to) {
    (void)w, (void)from_fake, (void)to;
#ifdef SIM_TSAN
    __tsan_switch_to_fiber(to ? to->tsan : w->base_tsan, NO_SYNC);
#endif
#ifdef SIM_ASAN
    if (to)
        __sanitizer_start_switch_fiber(from_fake, to->stack, SIM_STACK_BYTES);
    else
        __sanitizer_start_switch_fiber(from_fake, w->base_stack, w->base_stack_bytes);
#endif
}

void sim_fiber_switch(sim_worker *w, sim_fiber *from, sim_fiber *to, bool done) {
#ifdef SIM_TSAN
    if (!from) w->base_tsan = __tsan_get_current_fiber();
#endif
    if (!from) w->left_base = true;
    announce(w, done ? NULL : from ? &from->fake : &w->base_fake, to);
    w->current = to;
    if (to) sim_self.thread = to->place;
    sim_context_switch(from ? &from->sp : &w->base_sp, to ? to->sp : w->base_sp);
#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(from ? from->fake : w->base_fake, NULL, NULL);
#endif
}

void sim_fiber_entered(sim_worker *w) {
#ifdef SIM_ASAN
    if (w->left_base)
        __sanitizer_finish_switch_fiber(NULL, &w->base_stack, &w->base_stack_bytes);
    else
        __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
    w->left_base = false;
}

void sim_fiber_escape(sim_worker *w, void *signal_context) {
    announce(w, NULL, NULL);
    w->current = NULL;
    context_escape(w->base_sp, signal_context);
}
