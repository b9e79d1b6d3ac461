/* Tensors from C: making them from data, reading them, allocators, random generators, printing. Everything that is an
   operator (zeros, add, view, ...) is in facula/ops.h. */
#ifndef FACULA_TENSOR_H
#define FACULA_TENSOR_H

#include <facula/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- from data -------------------------------------------------------------------------------------------------- */

/* Copies row-major data of the given dtype into a new CPU tensor.
   own:    the result belongs to the innermost scope
   errors: SHAPE for negative sizes; OVERFLOW; MEMORY */
FAC_API fac_tensor *fac_tensor_from(const void *data, fac_dtype dtype, fac_ints sizes);
/* Wraps memory of the caller's: strides and offset are in elements. `release(context)` is called when the last tensor
   over it dies (NULL: nothing is called and the caller keeps it alive). Nothing is copied. The result belongs to the
   innermost scope.
   errors: SHAPE if sizes and strides differ in length or reach outside `bytes` */
FAC_API fac_tensor *fac_tensor_wrap(void *data, size_t bytes, fac_dtype dtype, fac_ints sizes, fac_ints strides,
                                    int64_t offset, void (*release)(void *context), void *context);
#ifndef __cplusplus
/* A 1-d tensor of floats from a literal list: fac_tensor_of(1, 2, 3). */
#define fac_tensor_of(...)                                 \
    fac_tensor_from((const float[]){__VA_ARGS__}, FAC_F32, \
                    FAC_INTS(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)))
#endif

/* ---- reading ----------------------------------------------------------------------------------------------------- */
/* Each of these gives 0, NULL or an unset value, with an error pending, for a NULL or dead handle. */
/* Number of dimensions. */
FAC_API int fac_tensor_ndim(const fac_tensor *t);
/* Size or stride (in elements) of dimension dim, from the end if negative; 0, with an error pending, on failure.
   errors: INDEX; SHAPE for a dimension of a nested tensor in which its components differ; UNSUPPORTED for strides of a
           tensor that is not strided */
FAC_API int64_t fac_tensor_size(const fac_tensor *t, int64_t dim);
FAC_API int64_t fac_tensor_stride(const fac_tensor *t, int64_t dim);
/* All sizes or strides; borrowed from the tensor. Errors as for one. */
FAC_API fac_ints fac_tensor_sizes(const fac_tensor *t);
FAC_API fac_ints fac_tensor_strides(const fac_tensor *t);
/* Number of elements. */
FAC_API int64_t fac_tensor_numel(const fac_tensor *t);
/* Where the first element lies in the storage, in elements. */
FAC_API int64_t fac_tensor_offset(const fac_tensor *t);
/* Element type, device and layout; and whether the layout is FAC_VENDOR_LAYOUT. */
FAC_API fac_dtype fac_tensor_dtype(const fac_tensor *t);
FAC_API fac_device fac_tensor_device(const fac_tensor *t);
FAC_API fac_layout fac_tensor_layout(const fac_tensor *t);
FAC_API bool fac_is_mkldnn(const fac_tensor *t);
/* Whether t is a nested tensor: a list of components whose sizes may differ. */
FAC_API bool fac_is_nested(const fac_tensor *t);
/* True if the elements lie in row-major order without gaps. */
FAC_API bool fac_tensor_is_contiguous(const fac_tensor *t);
/* True if the elements lie in the given order without gaps. */
FAC_API bool fac_tensor_is_contiguous_as(const fac_tensor *t, fac_memory_format format);
/* Address of the first element on the tensor's device; NULL for meta and empty tensors. Valid while the tensor
   lives. These are the elements in memory: where fac_is_conj or fac_is_neg says so, the tensor means their conjugates
   or negatives; fac_resolve_conj and fac_resolve_neg give one whose elements are as they lie. */
FAC_API void *fac_tensor_data(fac_tensor *t);
/* The storage under the tensor, borrowed; NULL for meta tensors. */
FAC_API fac_storage *fac_tensor_storage(fac_tensor *t);
/* True if both tensors use the same storage. */
FAC_API bool fac_is_alias_of(const fac_tensor *a, const fac_tensor *b);
/* Counts the in-place changes to the tensor's memory through any view. Inference tensors have none: error. */
FAC_API int64_t fac_tensor_version(fac_tensor *t);
/* Copies the elements, row-major and converted to `dtype`, to `out` (room for `n` elements; n must be numel).
   sync: waits for the device */
FAC_API FAC_MUST fac_status fac_tensor_read(fac_tensor *t, fac_dtype dtype, void *out, size_t n);
/* The value of a one-element tensor as a double or integer; 0 with an error pending otherwise. Waits for the device. */
FAC_API double fac_item(fac_tensor *t);
FAC_API int64_t fac_item_int(fac_tensor *t);
/* Puts storage, shape, dtype and device of src under the handle t: every holder of t sees them. The version is
   fresh. */
FAC_API FAC_MUST fac_status fac_set_data(fac_tensor *t, fac_tensor *src);

/* ---- storage and allocators -------------------------------------------------------------------------------------- */

/* Address on the storage's device, valid as long as the storage, its size, device, and how many tensors hold the
   storage. */
FAC_API void *fac_storage_data(fac_storage *s);
FAC_API int64_t fac_storage_bytes(const fac_storage *s);
FAC_API fac_device fac_storage_device(const fac_storage *s);
FAC_API int64_t fac_storage_use_count(const fac_storage *s);

/* Where storages of a device get their bytes. `alloc` returns memory aligned to 64 bytes, or NULL when out; zero bytes
   are legal. `free` gets the same size back. Both may be called from any thread. */
typedef struct fac_allocator {
    const char *name;
    void *(*alloc)(const struct fac_allocator *self, int64_t bytes);
    void (*free)(const struct fac_allocator *self, void *p, int64_t bytes);
    void *context;
} fac_allocator;
/* The CPU's allocators: immediate calls malloc and free; pooled keeps freed blocks for reuse. */
FAC_API const fac_allocator *fac_allocator_immediate(void);
FAC_API const fac_allocator *fac_allocator_pooled(void);
/* The allocator of a device type, and its replacement: `a` must outlive every storage it makes. */
FAC_API const fac_allocator *fac_allocator_get(fac_device_type type);
FAC_API FAC_MUST fac_status fac_allocator_set(fac_device_type type, const fac_allocator *a);
/* Bytes the pooled allocator handed out now, at most so far, and holds in reserve. */
typedef struct fac_memory_stats {
    int64_t allocated, peak, reserved, allocations;
} fac_memory_stats;
FAC_API fac_memory_stats fac_memory_get_stats(void);
/* Sets the peak to the present value. */
FAC_API void fac_memory_reset_peak(void);
/* Gives pooled blocks that nobody uses back to the system. */
FAC_API void fac_memory_trim(void);

/* ---- random numbers ---------------------------------------------------------------------------------------------- */

/* Makes a Philox 4x32-10 generator; NULL on failure. Element i of a draw is lane i%4 of the block (i/4, offset) under
   the key `seed`, so numbers do not depend on threads or devices. source: Salmon et al. 2011. */
FAC_API fac_generator *fac_generator_new(uint64_t seed);
/* Takes and drops a counted reference. NULL is allowed. */
FAC_API fac_generator *fac_generator_keep(fac_generator *g);
FAC_API void fac_generator_release(fac_generator *g);
/* The process's default generator, borrowed. */
FAC_API fac_generator *fac_default_generator(void);
/* The seed and the offset of the next draw (NULL: of the default generator). Each random operator moves the offset on
   by one; it may reach 2^48. An out pointer may be NULL. */
FAC_API void fac_generator_set_state(fac_generator *g, uint64_t seed, uint64_t offset);
FAC_API void fac_generator_get_state(fac_generator *g, uint64_t *out_seed, uint64_t *out_offset);
/* Seeds the default generator and sets its offset to zero. */
FAC_API void fac_manual_seed(uint64_t seed);

/* ---- printing ---------------------------------------------------------------------------------------------------- */

/* Writes the tensor as PyTorch's repr does, and a newline. */
FAC_API fac_status fac_print(fac_tensor *t, FILE *stream);
/* The text without the newline, as a string to be freed with fac_string_free; NULL on failure. */
FAC_API char *fac_tensor_string(fac_tensor *t);
/* Frees a string that the library gave. NULL is allowed. */
FAC_API void fac_string_free(char *s);
/* Digits after the point, elements above which the middle is elided, edge items shown, and line width in columns. Zero
   fields keep their value; at start 4, 1000, 3, 80. */
typedef struct fac_print_options {
    int precision, threshold, edge_items, line_width;
} fac_print_options;
FAC_API void fac_set_print_options(fac_print_options o);

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* Threads that CPU kernels called from this thread use, itself included; results do not depend on it. At start
   FACULA_NUM_THREADS or OMP_NUM_THREADS, else the processors that the process may run on, or fewer if its control
   groups grant less time. All callers share the other threads, which are made when first wanted; where the system
   refuses one, there are fewer. In the child of a fork 1 until it is set there. */
FAC_API int fac_num_threads(void);
FAC_API FAC_MUST fac_status fac_set_num_threads(int n);
/* How exact products of float32 matrices are on all devices: PyTorch's set_float32_matmul_precision.
     HIGHEST  factors and sums are float32; so it is at start
     HIGH     on CUDA factors may be rounded to 11 bits (TF32); the CPU computes as for HIGHEST
     MEDIUM   factors may also be rounded to 8 bits (bfloat16): numbers below float32's normal range count as
              zero, those beyond bfloat16's range as infinity; sums are float32
   Each permits, none demands: a product is rounded only where that is faster. On the CPU MEDIUM rounds in mm, addmm,
   bmm and baddbmm, and what is made of them (matmul, linear, tensordot, einsum, gradients), of more than 4,096
   multiplications, where the processor has AVX512_BF16, fac_cpu_isa() is "avx512", and the maker is not Intel, whose
   processors multiply float32 faster. Convolutions, recurrent layers, attention and linear algebra do not heed it, nor
   do matrices times vectors. Facula's CUDA kernels multiply in float32. */
typedef enum fac_matmul_precision {
    FAC_PRECISION_HIGHEST,
    FAC_PRECISION_HIGH,
    FAC_PRECISION_MEDIUM
} fac_matmul_precision;
/* For the whole process, from the next product on; those under way keep theirs.
   errors: ARGUMENT for another value, which changes nothing */
FAC_API FAC_MUST fac_status fac_set_float32_matmul_precision(fac_matmul_precision p);
FAC_API fac_matmul_precision fac_get_float32_matmul_precision(void);
/* The instruction set whose kernels were chosen: "default", "avx2" or "avx512". FACULA_ISA in the environment caps
   it. */
FAC_API const char *fac_cpu_isa(void);

#ifdef __cplusplus
}

/* fac_tensor_of(1, 2, 3), as in C */
template <class... N> inline fac_tensor *fac_tensor_of(N... n) {
    const float v[] = {static_cast<float>(n)...};
    const int64_t count = sizeof...(N);
    return fac_tensor_from(v, FAC_F32, fac_ints_of(&count, 1));
}
#endif
#ifndef FACULA_BUILDING
#include <facula/tensor_macros.h>
#ifdef __cplusplus
#define fac_tensor_of(...) FAC_AT_(tensor, fac_tensor_of(__VA_ARGS__))
#endif
#endif
#endif
