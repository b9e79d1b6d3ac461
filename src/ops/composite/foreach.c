/* Operators over lists that take their numbers from a vector. */
#include "core/read.h"
#include "ops_gen.h"

/* The numbers of `scalars`, which are fac__alloc'ed. */
static fac_status numbers_of(fac_tensor *scalars, size_t n, fac_scalars *out) {
    *out = (fac_scalars){NULL, 0};
    FAC_CHECK(scalars->ndim == 1, FAC_ERR_SHAPE, "Expected packed scalar Tensor to be of dimension 1. Got %d instead.",
              scalars->ndim);
    FAC_CHECK((size_t)scalars->sizes[0] == n, FAC_ERR_ARGUMENT,
              "Expected length of scalars to match input of length %zu but got %lld instead.", n,
              (long long)scalars->sizes[0]);
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)scalars->dtype) ||
                  fac_dtype_is_integral((fac_dtype)scalars->dtype, true),
              FAC_ERR_DTYPE, "scalars should be real numbers, not %s", fac_dtype_name((fac_dtype)scalars->dtype));
    FAC_CHECK(fac__is_cpu(scalars), FAC_ERR_DEVICE, "Expected scalars to be on CPU, got %s instead.",
              fac_device_format(scalars->device, (char[24]){0}, 24));
    fac_tensor *here;
    FAC_TRY(fac__readable(scalars, &here));
    fac_scalar *v = fac__alloc_array(n, sizeof *v);
    const char *data = fac__data(here);
    for (size_t i = 0; v && i < n; i++) {
        double part[2];
        v[i] = fac__load(data + (int64_t)i * here->strides[0] * fac__item_size(here), (fac_dtype)here->dtype, part);
    }
    fac__unref(here);
    if (!v) return fac_error();
    *out = (fac_scalars){v, n};
    return FAC_OK;
}

#define WITH_VECTOR(name)                                                                                \
    fac_status foreach_##name##_tensor(const fac_call_info *c, fac_tensors self, fac_tensors tensor1,    \
                                       fac_tensors tensor2, fac_tensor *scalars, fac_tensor_list *out) { \
        (void)c;                                                                                         \
        fac_scalars numbers;                                                                             \
        FAC_TRY(numbers_of(scalars, self.n, &numbers));                                                  \
        const fac_status st = fac__c__foreach_##name##_ScalarList(self, tensor1, tensor2, numbers, out); \
        fac__free((void *)(uintptr_t)numbers.v);                                                         \
        return st;                                                                                       \
    }                                                                                                    \
    fac_status foreach_##name##_tensor_(const fac_call_info *c, fac_tensors self, fac_tensors tensor1,   \
                                        fac_tensors tensor2, fac_tensor *scalars) {                      \
        (void)c;                                                                                         \
        fac_scalars numbers;                                                                             \
        FAC_TRY(numbers_of(scalars, self.n, &numbers));                                                  \
        const fac_status st = fac__c__foreach_##name##__ScalarList(self, tensor1, tensor2, numbers);     \
        fac__free((void *)(uintptr_t)numbers.v);                                                         \
        return st;                                                                                       \
    }

WITH_VECTOR(addcdiv)
WITH_VECTOR(addcmul)
