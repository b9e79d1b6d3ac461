/* Data for training: text as tokens, IDX files (MNIST and its kin), and batches in a seeded order. */
#ifndef FACULA_DATA_H
#define FACULA_DATA_H

#include <facula/keywords.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- vocabularies ------------------------------------------------------------------------------------------------- */

/* What text is cut into: the 256 bytes, or the characters (Unicode code points) that some text is made of. Counted. */
typedef struct fac_vocab fac_vocab;
/* The 256 bytes: takes any text. NULL on failure. */
FAC_API fac_vocab *fac_vocab_bytes(void);
/* The distinct characters of a UTF-8 text of n bytes, in order of code point. FORMAT if it is not UTF-8. */
FAC_API fac_vocab *fac_vocab_characters(const char *text, size_t n);
FAC_API fac_vocab *fac_vocab_keep(fac_vocab *v);
FAC_API void fac_vocab_release(fac_vocab *v);
/* Number of tokens. */
FAC_API int64_t fac_vocab_size(const fac_vocab *v);
/* All characters in order, as UTF-8, to be stored beside a model and given to fac_vocab_characters again; "" for bytes.
   Lives as long as v. */
FAC_API const char *fac_vocab_text(const fac_vocab *v);
/* Tokens of a text of n bytes, as a 1-d int64 tensor that belongs to the innermost scope.
   errors: NOT_FOUND naming the first character that the vocabulary lacks; FORMAT if the text is not UTF-8 */
FAC_API fac_tensor *fac_vocab_encode(const fac_vocab *v, const char *text, size_t n);
/* Writes the text of one token to out (room for 4 bytes; not terminated) and its length to out_n.
   errors: INDEX if there is no such token */
FAC_API FAC_MUST fac_status fac_vocab_decode(const fac_vocab *v, int64_t token, char *out, size_t *out_n);

/* ---- text corpora --------------------------------------------------------------------------------------------------- */

/* All text under some files and folders, as tokens of one vocabulary: `vocab` (the text may have no other characters), that
   of the text's `characters`, or one of bytes. Folders are read with all that is below them in order of name, at most max_bytes
   of text. Left out, in folders: hidden files and folders, symbolic links, folders that hold a file named skip_beside (such as
   those of results), files that are not text (with a zero byte, or not UTF-8), files for which there is no room. Files are
   joined by a newline. NULL on failure; ARGUMENT if nothing was found or a named file is too large. Release it when done. */
FAC_API fac_corpus *fac_corpus_new(const char *const *paths, size_t n_paths, const fac_corpus_new_kw *kw);
FAC_API void fac_corpus_release(fac_corpus *c);
/* Files read, files left out, bytes of text, and tokens. */
FAC_API int64_t fac_corpus_files(const fac_corpus *c);
FAC_API int64_t fac_corpus_skipped(const fac_corpus *c);
FAC_API int64_t fac_corpus_bytes(const fac_corpus *c);
FAC_API int64_t fac_corpus_tokens(const fac_corpus *c);
/* Borrowed from c. */
FAC_API fac_vocab *fac_corpus_vocab(const fac_corpus *c);
/* Which part of a corpus to draw from: tokens [begin, end), end 0 for all. */
typedef struct fac_span {
    int64_t begin, end;
} fac_span;
/* Draws `batch` windows of `length` tokens from the span: inputs and the tokens that follow each, both int64
   [batch, length], of the innermost scope. `state` is the draw's random state: start it with a seed; each call moves it.
   errors: SHAPE if the span is shorter than length + 1 */
FAC_API FAC_MUST fac_status fac_corpus_batch(const fac_corpus *c, fac_span span, int64_t batch, int64_t length,
                                             uint64_t *state, fac_tensor **out_inputs, fac_tensor **out_targets);

/* ---- IDX files --------------------------------------------------------------------------------------------------------- */

/* Reads an IDX file, plain or compressed with gzip, into a CPU tensor of the file's dtype and shape; it belongs to the
   innermost scope.
   errors: FORMAT for a bad magic number, an unknown type, a file that is cut or too long; OVERFLOW; IO; MEMORY
   source: Y. LeCun, http://yann.lecun.com/exdb/mnist/ */
FAC_API fac_tensor *fac_idx_read(const char *path);

/* ---- batches -------------------------------------------------------------------------------------------------------------- */

/* The order in which samples 0..n-1 are visited, epoch by epoch: a permutation that depends on nothing but seed and epoch. */
typedef struct fac_sampler fac_sampler;
/* shuffle false gives 0, 1, 2, ... NULL on failure. */
FAC_API fac_sampler *fac_sampler_new(int64_t n, bool shuffle, uint64_t seed);
FAC_API void fac_sampler_release(fac_sampler *s);
/* Writes up to `room` indices of the present epoch; returns how many, 0 at its end. */
FAC_API int64_t fac_sampler_next(fac_sampler *s, int64_t *out, int64_t room);
/* Goes to the start of an epoch. */
FAC_API void fac_sampler_start(fac_sampler *s, int64_t epoch);

/* Cuts columns of samples (tensors of equal first size: images, labels, ...) into batches of batch_size samples; drop_last
   leaves out a last one that is not full. It counts references of the columns, which must be contiguous CPU tensors. NULL on
   failure.
   errors: SHAPE if first sizes differ; ARGUMENT if there is no column; DEVICE; UNSUPPORTED if not contiguous */
FAC_API fac_loader *fac_loader_new(fac_tensors columns, const fac_loader_new_kw *kw);
FAC_API void fac_loader_release(fac_loader *l);
/* Batches in an epoch. */
FAC_API int64_t fac_loader_batches(const fac_loader *l);
/* Makes the next batch: one new tensor per column, of the innermost scope. False at the end of the epoch (the next call
   begins another) and on an error, which is then pending. */
FAC_API bool fac_loader_next(fac_loader *l, fac_tensor **out_columns);
/* Goes to the start of an epoch. */
FAC_API void fac_loader_start(fac_loader *l, int64_t epoch);

#ifdef __cplusplus
}
#endif
#include <facula/data_macros.h>
#endif
