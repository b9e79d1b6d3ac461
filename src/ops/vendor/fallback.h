/* Registers what operators do with tensors in the vendor layout. */
#ifndef FAC_SRC_OPS_VENDOR_FALLBACK_H
#define FAC_SRC_OPS_VENDOR_FALLBACK_H

#include <facula/base.h>

fac_status fac__vendor_init(void);

#endif
