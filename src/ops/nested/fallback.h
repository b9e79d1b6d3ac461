/* The key Nested: registered when the library starts. */
#ifndef FAC_SRC_OPS_NESTED_FALLBACK_H
#define FAC_SRC_OPS_NESTED_FALLBACK_H

#include <facula/base.h>

fac_status fac__nested_init(void);

#endif
