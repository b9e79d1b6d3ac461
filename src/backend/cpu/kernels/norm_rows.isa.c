/* Inner loops of the normalisations for float and double. */
#include "backend/cpu/kernels/norm_rows.h"
#include "backend/cpu/cascade.h"
#include "backend/cpu/simd.h"

#define LANES 32
#define T float
#define S f32
#include "backend/cpu/kernels/norm_rows_body.h"
#undef T
#undef S
#undef LANES

#define LANES 16
#define T double
#define S f64
#include "backend/cpu/kernels/norm_rows_body.h"
