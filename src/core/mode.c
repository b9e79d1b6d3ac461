/* no_grad, enable_grad and inference mode. */
#include "core/thread.h"
#include <facula/autograd.h>

bool fac_set_grad_enabled(bool on) {
    fac_thread *th = fac__thread();
    bool was = !th->grad_disabled;
    th->grad_disabled = !on;
    return was;
}

bool fac_is_grad_enabled(void) {
    const fac_thread *th = fac__thread();
    return !th->grad_disabled && !th->inference;
}

bool fac_set_inference_mode(bool on) {
    fac_thread *th = fac__thread();
    bool was = th->inference;
    th->inference = on;
    return was;
}

bool fac_is_inference_mode(void) { return fac__thread()->inference; }

static fac_mode_guard guard(void) {
    const fac_thread *th = fac__thread();
    return (fac_mode_guard){.was = th->grad_disabled, .inference = th->inference};
}

fac_mode_guard fac_no_grad_begin(void) {
    fac_mode_guard g = guard();
    fac__thread()->grad_disabled = true;
    return g;
}

fac_mode_guard fac_enable_grad_begin(void) {
    fac_mode_guard g = guard();
    fac__thread()->grad_disabled = false;
    return g;
}

fac_mode_guard fac_inference_begin(void) {
    fac_mode_guard g = guard();
    fac__thread()->inference = true;
    return g;
}

void fac_mode_end(fac_mode_guard *g) {
    if (!g) return;
    fac_thread *th = fac__thread();
    th->grad_disabled = g->was;
    th->inference = g->inference;
}
