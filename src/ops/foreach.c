/* Checks of lists, and results of one call for each of their entries. */
#include "ops/foreach.h"
#include "core/tensor_make.h"
#include "ops_gen.h"

#include <math.h>

fac_status fac__foreach_check(const fac_foreach *each) {
    const size_t n = each->lists[0].n;
    FAC_CHECK(n > 0, FAC_ERR_ARGUMENT, "Tensor list must have at least one tensor.");
    for (size_t k = 1; k < each->n; k++)
        FAC_CHECK(each->lists[k].n == n, FAC_ERR_ARGUMENT,
                  "Tensor lists must have the same number of tensors, got %zu and %zu", n, each->lists[k].n);
    FAC_CHECK(!each->numbers.v || each->numbers.n == n, FAC_ERR_ARGUMENT,
              "Tensor list must have same number of elements as scalar list, got %zu and %zu", n, each->numbers.n);
    return FAC_OK;
}

fac_status fac__foreach_begin(const fac_foreach *each, fac_tensor_list *out) {
    const size_t n = each->lists[0].n;
    *out = (fac_tensor_list){fac__alloc_array(n, sizeof *out->v), 0};
    if (!out->v) return fac_error();
    memset(out->v, 0, n * sizeof *out->v);
    out->n = n;
    return FAC_OK;
}

fac_status fac__foreach_end(fac_tensor_list *out, fac_status st) {
    if (FAC_UNLIKELY(st)) fac__tensor_list_free(out);
    return st;
}

fac_status fac__foreach_results(const fac_foreach *each, fac_tensor *first, fac_tensor_list *out) {
    FAC_TRY(fac__foreach_begin(each, out));
    out->v[0] = fac__ref(first);
    for (size_t i = 1; i < out->n; i++) {
        const fac_tensor *t = each->lists[0].v[i];
        FAC_TRY(fac__empty(t->sizes, t->ndim, (fac_dtype)first->dtype, t->device, &out->v[i]));
    }
    return FAC_OK;
}

/* ---- in place ------------------------------------------------------------------------------------------------------------- */

bool fac__foreach_is_recorded(const fac_foreach *each, size_t i) {
    bool any = fac__wants_derivative(each->single);
    for (size_t k = 0; k < each->n && !any; k++) any = fac__wants_derivative(each->lists[k].v[i]);
    return any;
}

/* Whether a number is taken by every floating dtype that takes others of its kind. */
static bool is_small(fac_scalar v) {
    return v.kind == FAC_KIND_FLOAT ? fabs(fac__scalar_f64(v)) <= 65504 : fac__fits_every_dtype(v);
}

static bool are_plain_numbers(fac_scalars numbers, fac_dtype d) {
    if (numbers.n && !fac_dtype_is_floating(d)) return false;
    for (size_t i = 0; i < numbers.n; i++)
        if (numbers.v[i].kind != numbers.v[0].kind || !is_small(numbers.v[i])) return false;
    return true;
}

static bool has_keys_of(const fac_tensor *t, const fac_tensor *u) { return t->dtype == u->dtype && t->keys == u->keys; }

static bool is_plain_operand(const fac_tensor *t, const fac_tensor *u) {
    const fac_overlap o = fac__same_sizes(t, u) && has_keys_of(t, u) ? fac__overlap(t, u) : FAC_OVERLAP_PARTIAL;
    return o == FAC_OVERLAP_NO ||
           (o == FAC_OVERLAP_FULL && memcmp(t->strides, u->strides, t->ndim * sizeof *t->strides) == 0);
}

static bool is_plain_single(const fac_tensor *t, const fac_tensor *u) {
    return u->ndim == 0 && !u->cls && t->dtype == u->dtype && !fac__pending(u) &&
           fac_device_equal(t->device, u->device) && fac__overlap(t, u) == FAC_OVERLAP_NO;
}

static bool is_plain_entry(const fac_foreach *each, size_t i) {
    const fac_tensor *t = each->lists[0].v[i];
    if (!(t->flags & FAC_TF_DENSE) || !has_keys_of(t, each->lists[0].v[0]) || fac__foreach_is_recorded(each, i))
        return false;
    if (each->single && !is_plain_single(t, each->single)) return false;
    for (size_t k = 1; k < each->n; k++)
        if (!is_plain_operand(t, each->lists[k].v[i])) return false;
    return true;
}

bool fac__foreach_is_plain(const fac_foreach *each) {
    if (!are_plain_numbers(each->numbers, (fac_dtype)each->lists[0].v[0]->dtype)) return false;
    for (size_t i = 0; i < each->lists[0].n; i++)
        if (!is_plain_entry(each, i)) return false;
    return true;
}

/* The first entry says what the others should be. */
static bool is_flat_entry(const fac_foreach *each, size_t i) {
    const fac_tensor *t = each->lists[0].v[i], *first = each->lists[0].v[0];
    for (size_t k = 0; k < each->n; k++) {
        const fac_tensor *u = each->lists[k].v[i];
        if (!(u->flags & FAC_TF_CONTIGUOUS) || u->flags & (FAC_TF_PENDING | FAC_TF_WRAPPED) || !has_keys_of(u, first))
            return false;
        if (k && !fac__same_sizes(t, u)) return false;
    }
    return !each->single || is_plain_single(t, each->single);
}

static bool goes_straight(const fac_operator *part, const fac_tensor *t) {
    fac_keyset keys = fac__call_keys(fac__thread(), t->keys & ~(FAC_KS_AUTOGRAD | FAC_KS_ADINPLACEORVIEW));
    (void)fac__pick(part, &keys);
    return fac__keyset_func(keys) == FAC_KEY_DENSE && !fac__is_observed();
}

bool fac__foreach_is_flat(const fac_foreach *each, const fac_operator *part) {
    const fac_tensor *first = each->lists[0].v[0];
    if (each->numbers.v || !fac__is_cpu(first) || !goes_straight(part, first)) return false;
    if (first->numel < 2) return false; /* the steps of its iterator are not those of longer entries */
    for (size_t i = 0; i < each->lists[0].n; i++)
        if (!is_flat_entry(each, i) || fac__foreach_is_recorded(each, i)) return false;
    return true;
}

fac_status fac__foreach_before(const fac_foreach *each, fac_tensor_list *out) {
    FAC_TRY(fac__foreach_begin(each, out));
    for (size_t i = 0; i < out->n; i++) {
        fac_tensor *reads[FAC_COUNT(each->lists) + 1];
        for (size_t k = 0; k < each->n; k++) reads[k] = each->lists[k].v[i];
        reads[each->n] = each->single;
        const fac_status st = fac__before_change(reads, each->n + 1, &out->v[i]);
        if (st) return fac__foreach_end(out, st);
    }
    return FAC_OK;
}

/* Of a complex entry only a magnitude is real, which is not written over it. */
static fac_status check_result(const fac_tensor *self, const fac_tensor *result) {
    FAC_CHECK(fac_dtype_is_complex((fac_dtype)result->dtype) || !fac_dtype_is_complex((fac_dtype)self->dtype),
              FAC_ERR_DTYPE, "a real result is not written over a complex entry of the list");
    FAC_CHECK(fac_can_cast((fac_dtype)result->dtype, (fac_dtype)self->dtype), FAC_ERR_DTYPE,
              "result type %s can't be cast to the desired output type %s", fac_dtype_name((fac_dtype)result->dtype),
              fac_dtype_name((fac_dtype)self->dtype));
    FAC_CHECK(fac__same_sizes(self, result), FAC_ERR_SHAPE, "output with shape %s doesn't match the broadcast shape %s",
              FAC_SHAPE_TEXT(self), FAC_SHAPE_TEXT(result));
    FAC_CHECK(fac_device_equal(self->device, result->device), FAC_ERR_DEVICE,
              "an entry is not on the device of its result");
    return FAC_OK;
}

fac_status fac__foreach_check_results(const fac_foreach *each, const fac_tensor_list *made) {
    FAC_TRY(fac_error()); /* a composite may have met an error and still have a result */
    for (size_t i = 0; i < made->n; i++) FAC_TRY(check_result(each->lists[0].v[i], made->v[i]));
    return FAC_OK;
}
