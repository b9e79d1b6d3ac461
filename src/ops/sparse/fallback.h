/* Registers what operators without a kernel for sparse tensors do with them. */
#ifndef FAC_SRC_OPS_SPARSE_FALLBACK_H
#define FAC_SRC_OPS_SPARSE_FALLBACK_H

#include <facula/base.h>

fac_status fac__sparse_init(void);

#endif
