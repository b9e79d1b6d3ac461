/* Loops over complex numbers, by the compiler's complex arithmetic and the C library's functions. */
#include "backend/cpu/kernels/loop_macros.h"
#include "backend/cpu/loops.h"

#include <complex.h>
#include <math.h>

#define FAC_T float _Complex
#define FAC_R float
#define FAC_TD FAC_C64
#define FAC_FN(name) name##_c64
#define FAC_C(name) name##f
#include "backend/cpu/kernels/complex_loops.h"

#define FAC_T double _Complex
#define FAC_R double
#define FAC_TD FAC_C128
#define FAC_FN(name) name##_c128
#define FAC_C(name) name
#include "backend/cpu/kernels/complex_loops.h"

void FAC_ISA_NAME(fac__install_complex)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    install_c64(table);
    install_c128(table);
}
