/* The C face in a program whose other half is C++: its functions are the library's, whatever the C++ header defines. */
#include <facula/facula.h>

int c_part(void);

int c_part(void) {
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(7, -7), *y = fac_tensor_of(2, 2), *condition = fac_gt(x, 0);
    int wrong = 0;
    wrong += fac_item(fac_sum(fac_where(condition, x, y))) != 9;
    wrong += fac_item(fac_sum((fac_floor_divide)(x, y))) != -1;
    wrong += fac_item(fac_sum(fac_where_out(fac_empty(FAC_INTS(2)), condition, x, y))) != 9;
    return wrong + (fac_report(stderr) != 0);
}
