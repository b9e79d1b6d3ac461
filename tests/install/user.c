/* What a user's first program looks like, built against the installed headers and library. */
#include <facula/facula.h>

int main(void) {
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(1, 2, 3);
    double sum = fac_item(fac_sum(fac_add(x, x)));
    if (fac_error()) return fac_report(stderr);
    printf("facula %s: %g\n", fac_version(), sum);
    return sum == 12 ? 0 : 1;
}
