/* Answers for what is not built in: used where nothing better is linked, since every function here gives way to one of the
   same name. */
#include "backend/cuda/kernels/compile.h"
#include "backend/cuda/kernels/images.h"
#include "backend/cuda/runtime/parts.h"
#include "backend/cuda/runtime/transfer.h"

#define GIVES_WAY __attribute__((weak))

GIVES_WAY fac_status fac__cuda_compile(int index, const fac_cuda_source *source, void **out_image) {
    (void)index, (void)out_image;
    return FAC_FAIL(FAC_ERR_UNSUPPORTED, "%s: this build cannot compile kernels", source->name);
}
GIVES_WAY void fac__cuda_compiled_free(int index, void *image) { (void)index, (void)image; }
