/* Files of others: NumPy's arrays, PyTorch's checkpoints, safetensors in parts, tables of numbers, and sound. Nothing
   in a file is trusted: sizes are compared with what it can hold before memory is asked for, and no file makes code
   run. */
#ifndef FACULA_FILES_H
#define FACULA_FILES_H

#include <facula/io.h>
#include <facula/keywords.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- NumPy's arrays
   ---------------------------------------------------------------------------------------------- */

/* Reads a .npy file of versions 1 to 3 into a CPU tensor of the innermost scope. Elements of the other byte order, and
   arrays in Fortran's order, become the machine's and row-major.
   errors: FORMAT for what is no such file, is cut or too long; UNSUPPORTED for types that Facula has not, such as
           objects, text, records and unsigned integers of more than 8 bits; IO; MEMORY
   source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
FAC_API fac_tensor *fac_npy_read(const char *path);
/* Writes t as a .npy file of version 1, which replaces the old one as a whole.
   errors: UNSUPPORTED for dtypes that NumPy has not, such as bfloat16; IO
   sync:   waits for the tensor's device */
FAC_API FAC_MUST fac_status fac_npy_write(const char *path, fac_tensor *t);
/* Writes tensors by name as a .npz file, which replaces the old one as a whole. No member is 4 GiB or more.
   errors: ARGUMENT for a name that is given twice or empty; UNSUPPORTED as above; OVERFLOW; IO */
FAC_API FAC_MUST fac_status fac_npz_write(const char *path, const fac_named_tensor *tensors, size_t n_tensors,
                                          const fac_npz_write_kw *kw);

/* ---- files of several tensors
   ------------------------------------------------------------------------------------ */

/* An open file whose tensors are read one by one. */
typedef struct fac_tensor_file fac_tensor_file;
/* One entry. Strings and sizes live as long as the file is open. */
typedef struct fac_tensor_file_entry {
    const char *name; /* of .pt: the keys and places that lead to it, joined by points */
    fac_dtype dtype;  /* FAC_DTYPE_DEFAULT if it is no tensor */
    fac_ints sizes;
    const char
        *text; /* what a .pt file has that is no tensor, as Python prints it: "3", "0.5", "None", "Adam"; NULL for
                         tensors */
} fac_tensor_file_entry;
/* Opens a .npz file: its entries are the arrays, named without ".npy". NULL on failure.
   errors: FORMAT for what is no such file or is damaged; UNSUPPORTED for other kinds of zip files and types that
           Facula has not; IO */
FAC_API fac_tensor_file *fac_npz_open(const char *path);
/* Opens what torch.save wrote, in its format since PyTorch 1.6: tensors in dicts, lists and tuples, and numbers and
   text among them. The pickle inside is read with a closed list of what it may name: tensors, storages, parameters,
   OrderedDict, torch.Size, devices, dtypes. Anything else, which Python would call, is refused by its name.
   errors: FORMAT for what is no such file or is damaged; UNSUPPORTED naming what is refused; IO */
FAC_API fac_tensor_file *fac_pt_open(const char *path);
/* Opens the parts of a set of safetensors files, "model.safetensors.index.json", whose names must be those of files in
   its own folder. Every name must be in its part.
   errors: FORMAT; NOT_FOUND for a tensor that its part lacks; IO for a part that is missing */
FAC_API fac_tensor_file *fac_safetensors_open_index(const char *path);
/* NULL is allowed. */
FAC_API void fac_tensor_file_close(fac_tensor_file *f);
/* How many entries there are. */
FAC_API size_t fac_tensor_file_count(const fac_tensor_file *f);
/* Describes entry i; INDEX if there is none. */
FAC_API FAC_MUST fac_status fac_tensor_file_get(const fac_tensor_file *f, size_t i, fac_tensor_file_entry *out_entry);
/* Number of the entry of that name, or -1 (no error is set). */
FAC_API int64_t fac_tensor_file_find(const fac_tensor_file *f, const char *name);
/* Reads entry i into a new CPU tensor of the innermost scope; checksums are compared.
   errors: INDEX; ARGUMENT if it is no tensor; FORMAT if it is damaged; IO; MEMORY */
FAC_API fac_tensor *fac_tensor_file_read(fac_tensor_file *f, size_t i);
/* Gives entry i as a CPU tensor of the innermost scope: one of safetensors files is mapped (fac_safetensors_map),
   others are read.
   errors: as fac_tensor_file_read */
FAC_API fac_tensor *fac_tensor_file_map(fac_tensor_file *f, size_t i);

/* ---- tables
   ------------------------------------------------------------------------------------------------------ */

/* A table of text in rows and columns (CSV, RFC 4180), all of it in memory. */
typedef struct fac_csv fac_csv;
/* Reads a table. Its first line has the names of columns unless .header = false; the delimiter is one character.
   Fields may stand in double quotes, and empty lines are left out. NULL on failure.
   errors: FORMAT naming the line where rows differ in length or a quote is not closed; ARGUMENT; IO; MEMORY */
FAC_API fac_csv *fac_csv_open(const char *path, const fac_csv_open_kw *kw);
/* NULL is allowed. */
FAC_API void fac_csv_close(fac_csv *t);
/* Rows below the header, and columns. */
FAC_API int64_t fac_csv_rows(const fac_csv *t);
FAC_API int64_t fac_csv_columns(const fac_csv *t);
/* Name of a column, borrowed, "" without a header, and the column of a name, or -1 (no error is set). */
FAC_API const char *fac_csv_name(const fac_csv *t, int64_t column);
FAC_API int64_t fac_csv_find(const fac_csv *t, const char *name);
/* A field as text, borrowed from the table; NULL if there is none. errors: INDEX */
FAC_API const char *fac_csv_text(const fac_csv *t, int64_t row, int64_t column);
/* Columns as numbers: float64 [rows, columns.n] of the innermost scope. An empty field is NaN.
   errors: FORMAT naming line and column of what is no number; INDEX */
FAC_API fac_tensor *fac_csv_numbers(const fac_csv *t, fac_ints columns);
/* A column as classes: int64 [rows] of the innermost scope, the place of each text among the distinct ones of the
   column, which are sorted by their bytes.
   errors: INDEX */
FAC_API fac_tensor *fac_csv_classes(fac_csv *t, int64_t column);
/* How many distinct texts a column has, and the k-th, borrowed from the table. A failure is 0 or NULL.
   errors: INDEX */
FAC_API int64_t fac_csv_class_count(fac_csv *t, int64_t column);
FAC_API const char *fac_csv_class(fac_csv *t, int64_t column, int64_t k);

/* ---- sound
   ------------------------------------------------------------------------------------------------------- */

/* Reads a WAV file of whole numbers (8, 16, 24 or 32 bits) or floats (32 or 64) as float32 [channels, samples] of the
   innermost scope, whole numbers between -1 and 1, and its samples per second.
   errors: FORMAT for what is no such file, is cut or contradicts itself; UNSUPPORTED for compressed sound; IO */
FAC_API fac_tensor *fac_wav_read(const char *path, int64_t *out_rate);
/* Writes a floating tensor [channels, samples] as 32-bit floats.
   errors: SHAPE; DTYPE; ARGUMENT if the rate is not in 1 ... 2^31 - 1; OVERFLOW; IO */
FAC_API FAC_MUST fac_status fac_wav_write(const char *path, fac_tensor *t, int64_t rate);

#ifdef __cplusplus
}
#endif
#include <facula/files_macros.h>
#endif
