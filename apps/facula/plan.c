/* Works out the learning rate of a step, and the number of steps from the time that they took. */
#include "plan.h"
#include <math.h>
#include <string.h>

/* The part of the steps in which the rate goes down, and the part of the time after which their number is decided: less than what
   stands before it. */
#define DECLINE 0.7
#define DECIDED 0.25

plan_shape plan_kind(const char *name) {
    static const char *const names[] = {"trapezoid", "constant", "cosine", "linear", "step", "one-cycle"};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (strcmp(name, names[i]) == 0) return (plan_shape)i;
    return PLAN_TRAPEZOID;
}

bool plan_needs_steps(plan_shape shape) {
    return shape == PLAN_COSINE || shape == PLAN_LINEAR || shape == PLAN_ONE_CYCLE;
}

/* From a to b along half a cosine, x from 0 to 1. */
static double anneal(double a, double b, double x) { return b + (a - b) / 2 * (1 + cos(M_PI * fmin(fmax(x, 0), 1))); }

/* Up from a 25th of the peak to the peak, and down to a 10000th of where it began. source: Smith, Topin 2018;
   torch.optim.lr_scheduler.OneCycleLR, whose pct_start is warmup / steps */
static double one_cycle(const plan *p, int64_t step) {
    const double up = (double)p->warmup - 1, begin = p->peak / 25, at = (double)step;
    if (at <= up && up > 0) return anneal(begin, p->peak, at / up);
    const double down = (double)p->steps - 1 - fmax(up, 0);
    return anneal(p->peak, begin / 1e4, down > 0 ? (at - fmax(up, 0)) / down : 0);
}

/* The part of the steps behind the warm-up that is done. */
static double progress(const plan *p, int64_t step) {
    const double all = (double)(p->steps - p->warmup);
    return all > 0 ? fmin((double)(step - p->warmup) / all, 1) : 1;
}

/* Behind the warm-up. */
static double shaped(const plan *p, int64_t step) {
    const double floor_rate = fmin(p->floor, p->peak);
    switch (p->shape) {
    case PLAN_COSINE: return anneal(p->peak, floor_rate, progress(p, step));
    case PLAN_LINEAR: return p->peak + (floor_rate - p->peak) * progress(p, step);
    case PLAN_STEP: return p->peak * pow(p->gamma, (double)((step - p->warmup) / p->every));
    case PLAN_TRAPEZOID:
    case PLAN_CONSTANT:
    case PLAN_ONE_CYCLE: break;
    }
    return p->peak;
}

static double trapezoid(const plan *p, int64_t step) {
    double factor = step < p->warmup ? (double)(step + 1) / (double)p->warmup : 1;
    if (p->steps > 0) factor = fmin(factor, (double)(p->steps - step) / (DECLINE * (double)p->steps));
    return p->peak * fmax(factor, 0);
}

double plan_rate(const plan *p, int64_t step) {
    if (p->shape == PLAN_TRAPEZOID) return trapezoid(p, step);
    if (p->shape == PLAN_ONE_CYCLE) return one_cycle(p, step);
    return step < p->warmup ? p->peak * (double)(step + 1) / (double)p->warmup : shaped(p, step);
}

static int64_t steps_in(const plan *p, int64_t step, double rate, double seconds, double least) {
    return p->steps > 0 ? p->steps : (int64_t)fmin(fmax((double)step + floor(rate * seconds), least), 1e12);
}

bool plan_decide(plan *p, int64_t step, double rate, double elapsed, double reserve) {
    if (p->steps > 0 || !(rate > 0) || elapsed < DECIDED * p->seconds) return false;
    /* The decline may not have begun yet. */
    p->steps = steps_in(p, step, rate, p->seconds - elapsed - reserve, ceil((double)step / (1 - DECLINE)));
    return true;
}

double plan_least_seconds(double elapsed) { return elapsed / (1 - DECLINE); }

int64_t plan_expect(const plan *p, int64_t step, double rate, double elapsed) {
    return steps_in(p, step, rate, p->seconds - elapsed, (double)step);
}
