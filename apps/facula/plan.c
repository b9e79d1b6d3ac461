/* Works out the learning rate of a step, and the number of steps from the time that they took. */
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
