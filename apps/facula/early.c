/* Counts validations without a gain. */
#include "early.h"
#include <math.h>

bool early_take(early *e, int64_t step, double loss) {
    if (!isnan(e->best) && !(loss < e->best - e->least_gain)) {
        e->waited++;
        return false;
    }
    e->best = loss;
    e->step = step;
    e->waited = 0;
    return true;
}

bool early_over(const early *e) { return e->patience > 0 && e->waited >= e->patience; }

void early_save(const early *e, notes *n) {
    if (isnan(e->best)) return;
    notes_set_double(n, "best_loss", e->best);
    notes_set_int(n, "best_step", e->step);
    notes_set_int(n, "best_waited", e->waited);
}

void early_load(early *e, const notes *n) {
    if (!notes_get(n, "best_loss")) return;
    e->best = notes_double(n, "best_loss");
    e->step = notes_int(n, "best_step");
    e->waited = notes_int(n, "best_waited");
}
