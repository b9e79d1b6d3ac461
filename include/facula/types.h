/* Element types, devices, layouts and memory formats. */
#ifndef FACULA_TYPES_H
#define FACULA_TYPES_H

#include <facula/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. 0 means "the default". */
typedef enum fac_dtype {
    FAC_DTYPE_DEFAULT = 0,
    FAC_BOOL,
    FAC_U8,
    FAC_I8,
    FAC_I16,
    FAC_I32,
    FAC_I64,
    FAC_F16,
    FAC_BF16,
    FAC_F32,
    FAC_F64,
    FAC_C64,
    FAC_C128,
    FAC_DTYPE_COUNT, /* one past the dtypes that operators compute in */
    /* Dtypes whose elements are codes: tensors of them are stored, moved and converted, and have the key Quantized. An
       8-bit float is read by itself; the code q of a quantized tensor stands for (q - zero point) * scale. */
    FAC_F8_E4M3FN = 64,
    FAC_F8_E5M2,
    FAC_F8_E4M3FNUZ,
    FAC_F8_E5M2FNUZ,
    FAC_F8_E8M0FNU,
    FAC_QINT8 = 80,
    FAC_QUINT8,
    FAC_QINT32,
    FAC_DTYPE_END
} fac_dtype;

/* How the codes of a quantized tensor are read: all by one scale and zero point, or each slice along an axis by its
   own.
   source: torch.qscheme, whose numbers they have */
typedef enum fac_quantization_scheme { FAC_PER_TENSOR_AFFINE = 0, FAC_PER_CHANNEL_AFFINE = 1 } fac_quantization_scheme;

/* PyTorch's name of a dtype: "float32". */
FAC_API const char *fac_dtype_name(fac_dtype d);
/* Parses "float32", "f32", "float", ...; FAC_DTYPE_DEFAULT and an error if the text names none. */
FAC_API fac_dtype fac_dtype_parse(const char *text);
/* Bytes per element; 0 for FAC_DTYPE_DEFAULT. */
FAC_API size_t fac_dtype_size(fac_dtype d);
/* True for f16, bf16, f32, f64: the floating types that operators compute in. */
FAC_API bool fac_dtype_is_floating(fac_dtype d);
/* True for the 8-bit floats. */
FAC_API bool fac_dtype_is_float8(fac_dtype d);
/* True for qint8, quint8, qint32. */
FAC_API bool fac_dtype_is_quantized(fac_dtype d);
/* True for c64, c128. */
FAC_API bool fac_dtype_is_complex(fac_dtype d);
/* True for u8, i8, i16, i32, i64, and, if `with_bool`, bool. */
FAC_API bool fac_dtype_is_integral(fac_dtype d, bool with_bool);
/* The dtype that holds both, by PyTorch's promotion lattice for tensors of equal rank. An 8-bit float or a quantized
   type holds itself alone; with another it is an error, and FAC_DTYPE_DEFAULT. */
FAC_API fac_dtype fac_promote_types(fac_dtype a, fac_dtype b);
/* True if a result of type `from` may be written to a tensor of type `to` (complex->real, float->integral and
   anything->bool may not). */
FAC_API bool fac_can_cast(fac_dtype from, fac_dtype to);
/* The dtype that factories use when none is given; f32 at start. Process-wide. */
FAC_API fac_dtype fac_default_dtype(void);
/* Sets it; only floating types are allowed. */
FAC_API fac_status fac_set_default_dtype(fac_dtype d);

/* Kinds of device. 0 means "not given". */
typedef enum fac_device_type {
    FAC_DEVICE_UNSET = 0,
    FAC_CPU,
    FAC_CUDA,
    FAC_META,
    FAC_PRIVATE1,
    FAC_PRIVATE2,
    FAC_PRIVATE3,
    FAC_DEVICE_TYPE_COUNT
} fac_device_type;

/* A device: a kind and an index counted from 0; index -1 is "the current one of that kind". All zero is "not
   given", so an index is stored plus one. Use the functions below rather than the fields. */
typedef struct fac_device {
    int32_t type;       /* fac_device_type      */
    int32_t index_plus; /* index + 1; 0 = current */
} FAC_MEMBERS_BY_NAME_ fac_device;

/* A device of the given kind and index (-1 for the current one). */
FAC_INLINE_ fac_device fac_device_make(fac_device_type type, int index) {
    fac_device d = {(int32_t)type, index + 1};
    return d;
}
/* Parses "cpu", "cuda", "cuda:2", "meta", "private1:0". Bad text is an error that names it; then type is UNSET. */
FAC_API fac_device fac_device_parse(const char *text);
/* Writes "cpu", "cuda:2", ... into `buf` (24 bytes suffice); returns buf. */
FAC_API char *fac_device_format(fac_device d, char *buf, size_t size);
/* True if both kind and index are equal. */
FAC_API bool fac_device_equal(fac_device a, fac_device b);
/* Renames a private device type for parsing and printing, such as "npu" for FAC_PRIVATE1. */
FAC_API FAC_MUST fac_status fac_device_rename(fac_device_type type, const char *name);

/* Tensor layouts; 0 is strided. Sparse ones: coordinates, compressed rows and columns, and these
   with blocks for elements. FAC_VENDOR_LAYOUT, torch._mkldnn, is what a back end's library chooses. */
typedef enum fac_layout {
    FAC_STRIDED = 0,
    FAC_SPARSE_COO,
    FAC_SPARSE_CSR,
    FAC_VENDOR_LAYOUT,
    FAC_SPARSE_CSC,
    FAC_SPARSE_BSR,
    FAC_SPARSE_BSC
} fac_layout;

/* How the elements of a new tensor are ordered. 0 is "not given". */
typedef enum fac_memory_format {
    FAC_FORMAT_DEFAULT = 0,
    FAC_CONTIGUOUS,
    FAC_PRESERVE,
    FAC_CHANNELS_LAST,
    FAC_CHANNELS_LAST_3D
} fac_memory_format;

/* How the losses of single elements become one: not at all, as their mean, or as their sum. */
typedef enum fac_loss_reduction { FAC_REDUCTION_NONE, FAC_REDUCTION_MEAN, FAC_REDUCTION_SUM } fac_loss_reduction;

#ifdef __cplusplus
}
#endif
#ifndef FACULA_BUILDING
#include <facula/types_macros.h>
#endif
#endif
