/* Files of tensors: safetensors, written so that a crash never costs the old file, and read with every number
   checked. */
#ifndef FACULA_IO_H
#define FACULA_IO_H

#include <facula/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Replaces a file by these bytes, or makes it: they go to a temporary file in the same folder, which takes the name
   `path` only once it is on the disk. Whatever goes wrong, and whenever the process is killed, `path` is the old file
   or the new one. A limit on the size of files (RLIMIT_FSIZE) is an error like a full disk, not a signal.
   errors: ARGUMENT; IO; MEMORY */
FAC_API FAC_MUST fac_status fac_file_replace(const char *path, const void *bytes, size_t n);
/* Removes the temporary files ("NAME.0123456789abcdef.tmp") that savers of `path` left behind because they were killed.
   Nobody may be saving to `path` meanwhile: hold a lock of your own.
   errors: ARGUMENT; IO; MEMORY */
FAC_API FAC_MUST fac_status fac_file_sweep(const char *path);

/* A tensor under a name, to be saved or loaded into. Borrowed. */
typedef struct fac_named_tensor {
    const char *name; /* UTF-8 */
    fac_tensor *tensor;
} fac_named_tensor;

/* A piece of text that travels with the tensors. Borrowed, UTF-8. */
typedef struct fac_metadata {
    const char *key, *value;
} fac_metadata;

/* Writes tensors and metadata to a safetensors file, with a checksum over all of it. The bytes go to a temporary file
   in the same folder, which replaces `path` only once it is on the disk: whatever goes wrong, the old file is whole.
   Metadata keys that begin with "facula." are Facula's own.
   errors: ARGUMENT for a name that is given twice, reserved or not UTF-8; UNSUPPORTED for complex128, which the format
           does not have; IO; MEMORY
   sync:   waits for the tensors' devices
   source: https://huggingface.co/docs/safetensors */
FAC_API FAC_MUST fac_status fac_safetensors_save(const char *path, const fac_named_tensor *tensors, size_t n_tensors,
                                                 const fac_metadata *metadata, size_t n_metadata);

/* Copies the file's tensors into those given, by name. Names must agree one to one, and sizes too; dtypes are
   converted. The whole file is checked before the first tensor changes.
   errors: NOT_FOUND for a tensor that the file lacks; ARGUMENT for one that only the file has; SHAPE; FORMAT; IO */
FAC_API FAC_MUST fac_status fac_safetensors_load(const char *path, const fac_named_tensor *tensors, size_t n_tensors);

/* An open file, of which only the header has been read. */
typedef struct fac_safetensors fac_safetensors;

/* One tensor of a file. The strings and sizes live as long as the file is open. */
typedef struct fac_safetensors_entry {
    const char *name;
    const char *type; /* as written in the file: "F32" */
    fac_dtype dtype;  /* FAC_DTYPE_DEFAULT if Facula has no such type: listed, but not readable */
    fac_ints sizes;
    int64_t bytes;
    int64_t position; /* of the first byte in the file */
} fac_safetensors_entry;

/* Opens a file, reads its header and checks all of it: lengths, UTF-8, duplicates, shapes against ranges, and that
   ranges cover the data without overlap, holes or rest. NULL on failure; FORMAT says what is wrong. Close it when
   done. */
FAC_API fac_safetensors *fac_safetensors_open(const char *path);
/* NULL is allowed. */
FAC_API void fac_safetensors_close(fac_safetensors *file);
/* How many tensors there are; they are numbered in the order of their data. */
FAC_API size_t fac_safetensors_count(const fac_safetensors *file);
/* Describes tensor i; INDEX if there is none. */
FAC_API FAC_MUST fac_status fac_safetensors_get(const fac_safetensors *file, size_t i,
                                                fac_safetensors_entry *out_entry);
/* Number of the tensor of that name, or -1 (no error is set). */
FAC_API int64_t fac_safetensors_find(const fac_safetensors *file, const char *name);
/* The metadata: how many, the i-th pair (NULLs if there is none), and the value under a key (NULL if there is none). */
FAC_API size_t fac_safetensors_metadata_count(const fac_safetensors *file);
FAC_API fac_metadata fac_safetensors_metadata_at(const fac_safetensors *file, size_t i);
FAC_API const char *fac_safetensors_metadata(const fac_safetensors *file, const char *key);
/* Reads the whole file once and compares with its checksum, if it has one (files of other programs have none).
   errors: FORMAT if a bit has changed; IO */
FAC_API FAC_MUST fac_status fac_safetensors_verify(fac_safetensors *file);
/* Reads tensor i into a new CPU tensor that belongs to the innermost scope. Does not verify the checksum.
   errors: INDEX; UNSUPPORTED for a dtype that Facula has not; IO; MEMORY */
FAC_API fac_tensor *fac_safetensors_read(fac_safetensors *file, size_t i);
/* Maps tensor i into a CPU tensor that belongs to the innermost scope. Nothing is read: the tensor's memory is the
   file's, which the system reads where it is first looked at, and which all processes that map the file share. What is
   written into the tensor is this process's alone and does not reach the file. The file may be closed, replaced or
   removed meanwhile, but whoever cuts it short kills the processes that look at what was there. A tensor that does not
   lie at a multiple of its elements' size in the file is read.
   errors: INDEX; UNSUPPORTED for a dtype that Facula has not; IO; MEMORY */
FAC_API fac_tensor *fac_safetensors_map(fac_safetensors *file, size_t i);

#ifdef __cplusplus
}
#endif
#ifndef FACULA_BUILDING
#include <facula/io_macros.h>
#endif
#endif
