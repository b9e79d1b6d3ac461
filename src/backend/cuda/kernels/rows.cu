/* Softmax, norms and losses: what works on rows. Accumulates in float for 16- and 32-bit floats, else in double. */
#include "number.h"

#define K_ITEM(dtype) ((dtype) == K_F64 ? 8 : (dtype) == K_F32 ? 4 : 2)

#define FAC_T float
#define FAC_FN(name) k_##name##_f32
#define K_NAME(name) rows_##name##_f32
#define K_LOAD k_load_f32
#define K_STORE k_store_f32
#define K_EXP expf
#define K_LOG logf
#include "rows_body.h"

#define FAC_T double
#define FAC_FN(name) k_##name##_f64
#define K_NAME(name) rows_##name##_f64
#define K_LOAD k_load_f64
#define K_STORE k_store_f64
#define K_EXP exp
#define K_LOG log
#include "rows_body.h"

#undef K_ITEM
