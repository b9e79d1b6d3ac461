/* Learning rates over time. */
#include "base/base.h"
#include <facula/optim.h>
#include <math.h>

double fac_cosine_lr(const fac_cosine_schedule *s, int64_t step) {
    if (!fac__given(s, "schedule")) return 0;
    const int64_t warmup = fac__max(s->warmup, 0);
    step = fac__max(step, 0);
    if (step < warmup) return s->peak * (double)(step + 1) / (double)warmup;
    if (step >= s->total || s->total <= warmup) return s->floor;
    const double done = (double)(step - warmup) / (double)(s->total - warmup);
    return s->floor + 0.5 * (s->peak - s->floor) * (1 + cos(acos(-1.0) * done));
}
