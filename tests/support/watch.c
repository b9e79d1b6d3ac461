/* Closes pages, steps through the faults and writes down which fields were read. */
#define _GNU_SOURCE
#include "watch.h"
#include "base/sanitizers.h"

#if defined __x86_64__ && defined __linux__ && !FAC_UNDER_TSAN

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGES = 2 * WATCH_TENSORS, TRAP_FLAG = 0x100 };

static struct {
    const char *record[WATCH_TENSORS];
    unsigned read[WATCH_TENSORS];
    char *page[PAGES];
    int n, n_pages;
    size_t page_size;
    struct sigaction fault, trap; /* of before */
} w;

bool watch_is_possible(void) { return true; }

/* ---- what an access means ------------------------------------------------------------------------------------------ */

/* Bytes that the instruction at ip touches, where that is less than eight: neighbours of a narrow field are none of it. */
static size_t width_at(const uint8_t *ip) {
    bool wide = false, half = false;
    for (;; ip++) {
        if (*ip == 0x66)
            half = true;
        else if ((*ip & 0xf0) == 0x40)
            wide = *ip & 8;
        else if (*ip != 0xf2 && *ip != 0xf3 && *ip != 0xf0 && *ip != 0x2e && *ip != 0x3e)
            break;
    }
    if (*ip == 0x62 || *ip == 0xc4 || *ip == 0xc5) return 64; /* vectors */
    if (*ip == 0x0f) {
        if (ip[1] == 0xb6 || ip[1] == 0xbe) return 1;
        if (ip[1] == 0xb7 || ip[1] == 0xbf) return 2;
        return ip[1] < 0x40 || ip[1] > 0x4f ? 16 : wide ? 8 : half ? 2 : 4;
    }
    bool byte = (*ip < 0x40 && (*ip & 1) == 0) || *ip == 0x80 || *ip == 0x84 || *ip == 0x86 || *ip == 0x88 ||
                *ip == 0x8a || *ip == 0xc6 || *ip == 0xf6 || *ip == 0xfe;
    return byte ? 1 : wide ? 8 : half ? 2 : 4;
}

static bool covers(size_t at, size_t width, size_t field, size_t size) {
    return at < field + size && field < at + width;
}
#define COVERS(at, width, field) \
    covers((at), (width), offsetof(struct fac_tensor, field), sizeof((struct fac_tensor *)0)->field)

static unsigned fields(size_t at, size_t width) {
    unsigned read = 0;
    if (COVERS(at, width, sizes) || COVERS(at, width, ndim) || COVERS(at, width, numel)) read |= WATCH_SIZES;
    if (COVERS(at, width, dtype)) read |= WATCH_DTYPE;
    if (COVERS(at, width, device)) read |= WATCH_DEVICE;
    return read;
}

/* ---- faults ---------------------------------------------------------------------------------------------------------- */

static char *page_of(const void *p) { return (char *)((uintptr_t)p & ~(uintptr_t)(w.page_size - 1)); }

static bool is_watched(const char *page) {
    for (int i = 0; i < w.n_pages; i++)
        if (w.page[i] == page) return true;
    return false;
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    const char *at = info->si_addr;
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (!is_watched(page_of(at))) { /* a fault of the library's own: it happens again, unobserved */
        sigaction(signal, &w.fault, NULL);
        return;
    }
    size_t width = width_at((const uint8_t *)regs[REG_RIP]);
    for (int i = 0; i < w.n; i++)
        if (at >= w.record[i] && at < w.record[i] + sizeof(struct fac_tensor))
            w.read[i] |= fields((size_t)(at - w.record[i]), width);
    mprotect(page_of(at), w.page_size, PROT_READ | PROT_WRITE);
    regs[REG_EFL] |= TRAP_FLAG;
}

static void close_pages(void) {
    for (int i = 0; i < w.n_pages; i++) mprotect(w.page[i], w.page_size, PROT_NONE);
}

static void after_instruction(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    close_pages();
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

/* ---- the watch --------------------------------------------------------------------------------------------------------- */

static void add_page(char *page) {
    if (!is_watched(page)) w.page[w.n_pages++] = page;
}

void watch_begin(fac_tensor *const *t, int n) {
    w.n = n;
    w.n_pages = 0;
    w.page_size = (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < n; i++) {
        const fac_tensor *header = fac__header(t[i]);
        w.record[i] = (const char *)header;
        w.read[i] = 0;
        add_page(page_of(header));
        add_page(page_of((const char *)(header + 1) - 1));
    }
    struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO},
                     trap = {.sa_sigaction = after_instruction, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &fault, &w.fault);
    sigaction(SIGTRAP, &trap, &w.trap);
    close_pages();
}

void watch_end(unsigned *out) {
    for (int i = 0; i < w.n_pages; i++) mprotect(w.page[i], w.page_size, PROT_READ | PROT_WRITE);
    sigaction(SIGSEGV, &w.fault, NULL);
    sigaction(SIGTRAP, &w.trap, NULL);
    memcpy(out, w.read, (size_t)w.n * sizeof *out);
}

#else

bool watch_is_possible(void) { return false; }
void watch_begin(fac_tensor *const *t, int n) { (void)t, (void)n; }
void watch_end(unsigned *out) { (void)out; }

#endif
