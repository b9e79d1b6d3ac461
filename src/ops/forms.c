/* In-place and out forms of operators, as fallbacks of layouts see them. */
#include "ops/forms.h"

size_t fac__form_writes(const fac_operator *op, const fac_operator *functional, bool *in_place) {
    const fac_schema *s = atomic_load_explicit(&op->schema, memory_order_acquire);
    size_t outs = 0;
    while (outs < s->n_args && s->args[s->n_args - 1 - outs].type.write && s->args[s->n_args - 1 - outs].kwarg_only)
        outs++;
    *in_place = outs == 0;
    if (functional->n_args != s->n_args - outs || functional->n_rets != s->n_rets) return 0;
    if (outs) return outs == s->n_rets ? outs : 0;
    const bool self = s->n_args && s->args[0].type.write && !s->args[0].type.list && s->n_rets == 1;
    for (size_t i = 1; i < s->n_args; i++)
        if (s->args[i].type.write) return 0;
    return self;
}
