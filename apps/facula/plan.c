#include "plan.h"
#include <math.h>

/* The part of the steps in which the rate goes down, and the part of the time after which their number is decided: less than what
   stands before it. */
#define DECLINE 0.7
#define DECIDED 0.25

double plan_rate(const plan *p, int64_t step) {
    double factor = step < p->warmup ? (double)(step + 1) / (double)p->warmup : 1;
    if (p->steps > 0) factor = fmin(factor, (double)(p->steps - step) / (DECLINE * (double)p->steps));
    return p->peak * fmax(factor, 0);
}

bool plan_decide(plan *p, int64_t step, double elapsed, double stepping, double reserve) {
    if (p->steps > 0 || step < 1 || elapsed < DECIDED * p->seconds) return false;
    const double left = (p->seconds - elapsed - reserve) * (double)step / stepping;
    /* The decline may not have begun yet. */
    const double least = ceil((double)step / (1 - DECLINE)), steps = floor((double)step + fmax(left, 0));
    p->steps = (int64_t)fmin(fmax(steps, least), 1e12);
    return true;
}

int64_t plan_expect(const plan *p, int64_t step, double elapsed) {
    if (p->steps > 0 || elapsed <= 0) return p->steps;
    return (int64_t)fmin(fmax((double)step * p->seconds / elapsed, (double)step), 1e12);
}
