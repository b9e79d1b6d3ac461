/* Inner loops of sampling at given points. A tile of points is worked out dimension by dimension, its elements and weights are then
   the same for every channel: a gather for each element that a point shows. Sums run in the order of these elements, and of the
   points where they are added to one place. */
#include "backend/cpu/kernels/grid.h"
#include <math.h>

#define T float
#define FN(name) name##_f32
#define TILE fac_grid_tile_f32
#define FLOOR __builtin_floorf
#define RINT __builtin_rintf
#include "backend/cpu/kernels/grid_body.h"
#undef T
#undef FN
#undef TILE
#undef FLOOR
#undef RINT

#define T double
#define FN(name) name##_f64
#define TILE fac_grid_tile_f64
#define FLOOR __builtin_floor
#define RINT __builtin_rint
#include "backend/cpu/kernels/grid_body.h"

const fac_grid_loops FAC_ISA_NAME(fac__grid_loops)[2] = {{forward_f32, to_grid_f32, to_input_f32},
                                                         {forward_f64, to_grid_f64, to_input_f64}};
