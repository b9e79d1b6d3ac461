/* What the back end asks of oneDNN. A build without it has onednn_none.c in place of onednn.c, onednn_conv.c and
   kernels/conv_library.c: nothing suits the library then, and all is computed by our own kernels. */
#ifndef FAC_SRC_BACKEND_CPU_ONEDNN_H
#define FAC_SRC_BACKEND_CPU_ONEDNN_H

#include "backend/cpu/gemm.h"

extern const bool fac__onednn_built_in;

/* oneDNN's builds with OpenMP start threads of their own, and its bits then depend on how many. Between these two calls it
   runs on the calling thread alone, and a fork waits: `int was = fac__onednn_begin(); ...; fac__onednn_end(was);`. */
int fac__onednn_begin(void);
void fac__onednn_end(int was);
/* Finds the OpenMP that oneDNN brought with it, if it did. Facula itself is not linked to any. */
void fac__onednn_start(void);
/* Frees what oneDNN keeps for the next convolution. */
void fac__onednn_stop(void);

/* An f32 block of rows and columns that lie together: c = alpha * a @ b, plus c where `from` is one. errors: INTERNAL */
fac_status fac__onednn_sgemm(const fac_gemm_block *p);

#endif
