/* What a user's first program looks like, built against the installed headers and library. */
#include <facula/facula.h>

/* The macros also work in functions that every file which includes them may define. */
inline fac_tensor *twice(fac_tensor *x) { return fac_sum(fac_cat(FAC_TENSORS(x, x), .dim = 0), 0, .keepdim = true); }
extern fac_tensor *twice(fac_tensor *x);
inline int64_t count(fac_tensor *x) { return fac_tensor_numel(fac_reshape(x, FAC_SHAPE(fac_tensor_numel(x), 1))); }
extern int64_t count(fac_tensor *x);

int main(void) {
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(1, 2, 3);
    double sum = fac_item(twice(x)) * (double)count(x) / 3;
    if (fac_error()) return fac_report(stderr);
    printf("facula %s: %g\n", fac_version(), sum);
    return sum == 12 ? 0 : 1;
}
