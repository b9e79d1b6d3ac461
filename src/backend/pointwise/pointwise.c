/* Quotients: what a zero among divisors of integers does. */
#include "backend/pointwise/pointwise.h"
#include "backend/cpu/kernels/zeros.h"
#include "ops_gen.h"

static fac_status zero_divisor(void) { return FAC_FAIL(FAC_ERR_ARGUMENT, "an integer divisor is zero"); }

static fac_status some_zero(fac_structured *s, fac_tensor *t, bool *out) {
    if (fac__is_contiguous(t)) return fac__cpu_some_zero(t, out);
    fac_tensor *all = NULL;
    FAC_TRY(fac__redispatch_all(s->call->keys, t, &all));
    *out = !*(const bool *)fac__data(all);
    fac__unref(all);
    return FAC_OK;
}

/* Looks for a zero among the divisors of integers before the first quotient is written over a caller's tensor. The loop
   itself notes them too, which does for a result that nobody has seen yet. */
static fac_status check_divisors(fac_structured *s) {
    const fac_iter_operand *divisor = &s->iter.op[2];
    if (s->form == FAC_FUNCTIONAL || !fac_dtype_is_integral(s->iter.common, false)) return FAC_OK;
    if (s->iter.device.type != FAC_CPU || s->iter.nest.count == 0) return FAC_OK;
    if (divisor->is_scalar || divisor->t->numel == 1) {
        bool divides;
        fac_iter_number(&s->iter, 2, FAC_BOOL, &divides);
        return divides ? FAC_OK : zero_divisor();
    }
    bool some = false;
    FAC_TRY(some_zero(s, divisor->t, &some));
    return some ? zero_divisor() : FAC_OK;
}

fac_status fac__divide(fac_structured *s, fac_loop_id id) {
    atomic_bool zero = false;
    const fac_loop_args args = {.zero_divisor = &zero};
    FAC_TRY(check_divisors(s));
    FAC_TRY(fac__pointwise(s, id, 0, &args));
    return atomic_load_explicit(&zero, memory_order_relaxed) ? zero_divisor() : FAC_OK;
}
