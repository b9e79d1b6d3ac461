/* What factorisations of matrices report. */
#ifndef FAC_SRC_OPS_FACTOR_H
#define FAC_SRC_OPS_FACTOR_H

#include "core/tensor.h"

/* Which words tell that a factorisation failed. */
typedef enum fac_factor {
    FAC_FACTOR_CHOLESKY,
    FAC_FACTOR_LU,
    FAC_FACTOR_SOLVE,
    FAC_FACTOR_INVERSE,
    FAC_FACTOR_LDL
} fac_factor;
/* Looks at `info`, int32, of each matrix of a batch; those of the meta device are taken for good. errors: ARGUMENT unless all are 0 */
fac_status fac__check_info(fac_factor what, fac_tensor *info);

#endif
