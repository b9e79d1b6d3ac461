/* Inner loops of the element-wise losses for float and double: loss_body.h once for each. */
#include "backend/cpu/kernels/loss.h"
#include "backend/cpu/simd.h"
#include <math.h>

#define MAX(a, b) ((a) > (b) ? (a) : (b))

#define T float
#define S f32
#define ABS fabsf
#define LOG logf
#define LOG1P log1pf
#include "backend/cpu/kernels/loss_body.h"
#undef T
#undef S
#undef ABS
#undef LOG
#undef LOG1P

#define T double
#define S f64
#define ABS fabs
#define LOG log
#define LOG1P log1p
#include "backend/cpu/kernels/loss_body.h"
