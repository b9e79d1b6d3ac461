/* The tensors among the arguments and results of a sample's call. */
#include "sample_tensors.h"

#include <facula/facula.h>
#include <string.h>

size_t sample_tensors_of(fac_value v, fac_tensor **out, size_t room) {
    if (v.tag == FAC_TAG_TENSOR && v.payload) return out[0] = fac_value_as_tensor(v), 1;
    if (v.tag != FAC_TAG_TENSORS) return 0;
    fac_tensors list = fac_value_as_tensors(v);
    size_t n = 0;
    for (size_t i = 0; i < list.n && n < room; i++)
        if (list.v[i]) out[n++] = list.v[i];
    return n;
}

void sample_overwrite(const sample_made *m, uint64_t mask, int byte) {
    fac_tensor *list[SAMPLE_ITEMS];
    for (size_t i = 0; i < m->n_args; i++) {
        size_t n = mask >> i & 1 ? sample_tensors_of(m->args[i], list, SAMPLE_ITEMS) : 0;
        for (size_t k = 0; k < n; k++) {
            fac_storage *s = fac_tensor_storage(list[k]);
            size_t bytes = s ? (size_t)fac_storage_bytes(s) : 0;
            if (bytes) memset(fac_storage_data(s), fac_tensor_dtype(list[k]) == FAC_BOOL ? byte & 1 : byte, bytes);
        }
    }
}
