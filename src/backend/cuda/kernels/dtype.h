/* The dtypes by number, for kernels, which do not see the library's headers. */
#ifndef FAC_KERNEL_DTYPE_H
#define FAC_KERNEL_DTYPE_H

/* The values of fac_dtype; launchers assert that they agree. */
enum { K_BOOL = 1, K_U8, K_I8, K_I16, K_I32, K_I64, K_F16, K_BF16, K_F32, K_F64, K_C64, K_C128 };

#endif
