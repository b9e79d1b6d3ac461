/* Every pointwise operator in every dtype: which a device refuses, compared with the CPU. */
#ifndef FAC_TESTS_POINTWISE_DTYPES_H
#define FAC_TESTS_POINTWISE_DTYPES_H

#include <facula/types.h>

/* Fails the test unless the device refuses the dtypes that the CPU refuses, no others, with its code and words. A device may lack
   kernels for complex numbers. */
void pointwise_dtypes_compare(fac_device device);

#endif
