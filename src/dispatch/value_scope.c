/* Boxed values as temporaries of a scope. A scope holds tensors: those of values are handed over; what else a value may hold, such
   as a list, is the memory of a tensor that nobody sees and that lets go of it. */
#include "core/handle.h"
#include "dispatch/value.h"
#include <facula/tensor.h>

/* Takes over the value's reference, also on failure. */
static fac_status take_tensor(fac_value v) {
    fac_tensor *t = fac__open((const fac_tensor *)(intptr_t)v.payload, "fac_scope_take", "values");
    if (!t) return fac_error();
    FAC_CHECK(fac__unkeep(t), FAC_ERR_STATE, "the value's reference was released already, through a copy of the value");
    return fac__adopt(fac__thread(), t) ? FAC_OK : fac_error();
}

static void release_held(void *context) {
    fac_value_release(context);
    fac__free(context);
}

/* Takes over what v holds, also on failure. */
static fac_status hold(fac_value v) {
    fac_value *held = fac__alloc(sizeof *held);
    if (held) {
        *held = v;
        if (fac_tensor_wrap(held, sizeof *held, FAC_U8, FAC_INTS(sizeof *held), (fac_ints){0}, 0, release_held, held))
            return FAC_OK;
    }
    fac__free(held);
    fac_value_release(&v);
    return fac_error();
}

static fac_status take(fac_value v) {
    if (v.tag == FAC_TAG_TENSOR) return take_tensor(v);
    return fac__value_is_counted(&v) ? hold(v) : FAC_OK;
}

fac_status fac_scope_take(fac_value *values, size_t n) {
    if (fac_error()) return fac_error();
    if (!fac__list_given(values, n, "values")) return fac_error();
    size_t taken = 0;
    fac_status st = FAC_OK;
    while (taken < n && !st) st = take(values[taken++]);
    if (!st) return FAC_OK;
    for (size_t i = 0; i < taken; i++) values[i] = fac_value_none();
    for (size_t i = taken; i < n; i++) fac_value_release(&values[i]);
    return st;
}
