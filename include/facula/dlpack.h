/* Tensors handed to and taken from other libraries without a copy, as DLPack's structs. The structs are those of its
   version 1 and of the versions before; their names here are Facula's own, so that its header may be included as well.
   source: https://dmlc.github.io/dlpack/latest/ */
#ifndef FACULA_DLPACK_H
#define FACULA_DLPACK_H

#include <facula/keywords.h>
#include <facula/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the structs ------------------------------------------------------------------------------------------------- */

/* Kinds of devices that Facula takes and gives; page-locked memory counts as the CPU's. */
enum { FAC_DL_CPU = 1, FAC_DL_CUDA = 2, FAC_DL_CUDA_HOST = 3 };
/* What elements are, beside the number of their bits. */
enum {
    FAC_DL_INT = 0,
    FAC_DL_UINT = 1,
    FAC_DL_FLOAT = 2,
    FAC_DL_BFLOAT = 4,
    FAC_DL_COMPLEX = 5,
    FAC_DL_BOOL = 6,
    FAC_DL_F8_E4M3FN = 10,
    FAC_DL_F8_E4M3FNUZ = 11,
    FAC_DL_F8_E5M2 = 12,
    FAC_DL_F8_E5M2FNUZ = 13,
    FAC_DL_F8_E8M0FNU = 14
};
/* Flags of fac_dl_versioned: the memory may not be written; it is a copy made for the one who takes it. */
enum { FAC_DL_READ_ONLY = 1, FAC_DL_IS_COPIED = 2 };

/* Where the elements are. */
typedef struct fac_dl_device {
    int32_t type;
    int32_t id;
} fac_dl_device;
/* What they are. */
typedef struct fac_dl_dtype {
    uint8_t code, bits;
    uint16_t lanes;
} fac_dl_dtype;
/* The tensor itself: strides are in elements, NULL for row-major; the first element is byte_offset bytes after data. */
typedef struct fac_dl_tensor {
    void *data;
    fac_dl_device device;
    int32_t ndim;
    fac_dl_dtype dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} fac_dl_tensor;
/* One that has an owner (DLManagedTensor, "dltensor" in Python): whoever takes it calls deleter once, when it is
   done with it. */
typedef struct fac_dl_managed {
    fac_dl_tensor tensor;
    void *context;
    void (*deleter)(struct fac_dl_managed *self);
} fac_dl_managed;
/* The same with a version, to be looked at first, and flags (DLManagedTensorVersioned, "dltensor_versioned"). */
typedef struct fac_dl_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct fac_dl_versioned *self);
    uint64_t flags;
    fac_dl_tensor tensor;
} fac_dl_versioned;

/* ---- giving ------------------------------------------------------------------------------------------------------ */

/* A tensor for another library: the same memory, sizes, strides and offset. It keeps the memory, and is to be given
   back by its deleter, by whoever took it or, if nobody did, by the caller; from any thread.
   .stream: on CUDA the stream that will read it, as Python's __dlpack__ says it: 1 or none the legacy default
            stream, 2 that of the thread, else a CUstream: it waits for what is queued in the current stream. -1:
            nothing waits
   .copy:   of a copy, which the flag tells
   .read_only: the flag tells that nobody is to write
   errors:  AUTOGRAD for a tensor that requires a gradient: fac_detach it; UNSUPPORTED for what has no such form:
            sparse, nested, quantized, batched and meta tensors, the vendor layout, and what has a conjugation or
            negation pending
   source:  torch.utils.dlpack.to_dlpack, torch.Tensor.__dlpack__ */
FAC_API FAC_MUST fac_dl_versioned *fac_to_dlpack(fac_tensor *t, const fac_to_dlpack_kw *kw);
/* The struct of versions before 1, which has no flags; to be given back by its deleter too. */
FAC_API FAC_MUST fac_dl_managed *fac_to_dlpack_unversioned(fac_tensor *t, const fac_to_dlpack_unversioned_kw *kw);
/* The device of fac_to_dlpack's tensor (Python's __dlpack_device__). {0, 0} with an error pending for a device
   without a number */
FAC_API fac_dl_device fac_dlpack_device(const fac_tensor *t);

/* ---- taking ------------------------------------------------------------------------------------------------------ */

/* A tensor over another library's memory, which it takes over: the deleter is called when the last tensor over the
   memory is gone, and never if this fails. On CUDA the producer is to have been told the stream that Facula will
   read in: fac_stream_handle(fac_current_stream(device)).
   .copy:   of a copy; the deleter is called at once
   .read_only: takes memory that may not be written; the caller sees to it that no tensor over it is
   own:     the result belongs to the innermost scope
   errors:  UNSUPPORTED for a version, device, dtype or number of lanes that Facula does not know, negative strides
            between elements, and memory that may not be written without .copy or .read_only; ARGUMENT for a struct that
            is incomplete, or memory that is not aligned for the dtype; SHAPE; OVERFLOW; DEVICE
   source:  torch.utils.dlpack.from_dlpack */
FAC_API fac_tensor *fac_from_dlpack(fac_dl_versioned *m, const fac_from_dlpack_kw *kw);
/* The same of the struct of versions before 1, which may be written; the result belongs to the innermost scope. */
FAC_API fac_tensor *fac_from_dlpack_unversioned(fac_dl_managed *m, const fac_from_dlpack_unversioned_kw *kw);

#ifdef __cplusplus
}
#endif
#include <facula/dlpack_macros.h>
#endif
