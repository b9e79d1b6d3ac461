/* Data for training: text as tokens, IDX files (MNIST and its kin). facula/dataset.h has data sets and batches. */
#ifndef FACULA_DATA_H
#define FACULA_DATA_H

#include <facula/dataset.h>
#include <facula/keywords.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- vocabularies ------------------------------------------------------------------------------------------------ */

/* What text is cut into: the 256 bytes, the characters (Unicode code points) that some text is made of, or bytes and
   the pairs of tokens that come often in some text. Counted. */
typedef struct fac_vocab fac_vocab;
/* No token has more bytes. */
#define FAC_VOCAB_TOKEN_BYTES 32
/* The 256 bytes: takes any text. NULL on failure. */
FAC_API fac_vocab *fac_vocab_bytes(void);
/* The distinct characters of a UTF-8 text of n bytes, in order of code point. FORMAT if it is not UTF-8. */
FAC_API fac_vocab *fac_vocab_characters(const char *text, size_t n);
/* Byte pair encoding, learned from a text of n bytes: the 256 bytes, then always the commonest pair of neighbours
   within a word, a number, a run of signs or of white space, until there are `size` tokens or no pair comes twice.
   Takes any text. The same text gives the same tokens. NULL on failure.
   errors: ARGUMENT if size is not in 256 ... 65536
   source: Sennrich, Haddow, Birch 2016 */
FAC_API fac_vocab *fac_vocab_bpe(const char *text, size_t n, int64_t size);
/* A vocabulary of byte pairs from the n bytes that fac_vocab_text gave. FORMAT, naming line or token, if they are
   anything else. */
FAC_API fac_vocab *fac_vocab_bpe_of(const char *pairs, size_t n);
/* Takes or drops a reference. NULL is allowed. */
FAC_API fac_vocab *fac_vocab_keep(fac_vocab *v);
FAC_API void fac_vocab_release(fac_vocab *v);
/* Number of tokens. */
FAC_API int64_t fac_vocab_size(const fac_vocab *v);
/* What is to be stored beside a model: all characters in order, as UTF-8, for fac_vocab_characters; the pairs of
   tokens, for fac_vocab_bpe_of; "" for bytes. Lives as long as v. */
FAC_API const char *fac_vocab_text(const fac_vocab *v);
/* Tokens of a text of n bytes, as a 1-d int64 tensor that belongs to the innermost scope.
   errors: NOT_FOUND naming the first character that the vocabulary lacks; FORMAT if the text is not UTF-8 */
FAC_API fac_tensor *fac_vocab_encode(const fac_vocab *v, const char *text, size_t n);
/* Writes the text of one token to out (room for FAC_VOCAB_TOKEN_BYTES, of which bytes and characters need 4; not
   terminated) and its length to out_n.
   errors: INDEX if there is no such token */
FAC_API FAC_MUST fac_status fac_vocab_decode(const fac_vocab *v, int64_t token, char *out, size_t *out_n);

/* ---- text corpora ------------------------------------------------------------------------------------------------ */

/* All text under some files and folders, as tokens of one vocabulary: `vocab` (the text may have no other characters),
   that of the text's `characters`, one of `bpe` byte pairs learned from it, or one of bytes. Folders are read with all
   that is below them in order of name, at most max_bytes of text. Left out, in folders: hidden files and folders,
   symbolic links, folders that hold a file named skip_beside (such as those of results), files that are not text (with
   a zero byte, or not UTF-8), files for which there is no room. Files are joined by a newline.
   `hold_out` is the part of the text, 0.1 for a tenth, that is not to be trained on: whole files, in order of a hash
   (FNV-1a) of their names below the folder given, each that does not make it more than that part. Where fewer than half
   of the part can be had so, as from a single file, it is the end of the text. What is held out comes behind the rest;
   byte pairs are learned from the rest alone.
   NULL on failure; ARGUMENT if nothing was found or a named file is too large. Release it when done. */
FAC_API fac_corpus *fac_corpus_new(const char *const *paths, size_t n_paths, const fac_corpus_new_kw *kw);
FAC_API void fac_corpus_release(fac_corpus *c);
/* Files read, files left out, bytes of text, and tokens. */
FAC_API int64_t fac_corpus_files(const fac_corpus *c);
FAC_API int64_t fac_corpus_skipped(const fac_corpus *c);
FAC_API int64_t fac_corpus_bytes(const fac_corpus *c);
FAC_API int64_t fac_corpus_tokens(const fac_corpus *c);
/* Borrowed from c. */
FAC_API fac_vocab *fac_corpus_vocab(const fac_corpus *c);
/* A file that was read: its path, borrowed from the corpus, its bytes, and how many of them, at its end, are held out.
   errors: INDEX if there is no such file; the path is then NULL */
typedef struct fac_corpus_file {
    const char *path;
    int64_t bytes, held_out;
} fac_corpus_file;
FAC_API fac_corpus_file fac_corpus_file_at(const fac_corpus *c, int64_t i);
/* Which part of a corpus to draw from: tokens [begin, end), end 0 for all. */
typedef struct fac_span {
    int64_t begin, end;
} fac_span;
/* The tokens to train on, and those that are held out. */
FAC_API fac_span fac_corpus_training(const fac_corpus *c);
FAC_API fac_span fac_corpus_held_out(const fac_corpus *c);
/* Bytes of the text that a span's tokens are. */
FAC_API int64_t fac_corpus_span_bytes(const fac_corpus *c, fac_span span);
/* Draws `batch` windows of `length` tokens from the span: inputs and the tokens that follow each, both int64
   [batch, length], of the innermost scope. `state` is the draw's random state: start it with a seed; each call moves
   it.
   errors: SHAPE if the span is shorter than length + 1 */
FAC_API FAC_MUST fac_status fac_corpus_batch(const fac_corpus *c, fac_span span, int64_t batch, int64_t length,
                                             uint64_t *state, fac_tensor **out_inputs, fac_tensor **out_targets);
/* The target of what is to be left out of a loss: the `ignore_index` of fac_cross_entropy. */
#define FAC_IGNORED_TARGET (-100)
/* Goes over a span in order, so that each of its tokens is a target once (but token 0 of the corpus, before which there
   is none): the next `batch` windows of `length` tokens, or as many as are left, and moves rest->begin behind them. The
   last window is filled with targets FAC_IGNORED_TARGET. False at the end of the span, and on an error, which is then
   pending.
   errors: SHAPE if the span is not inside the corpus */
FAC_API bool fac_corpus_next(const fac_corpus *c, fac_span *rest, int64_t batch, int64_t length,
                             fac_tensor **out_inputs, fac_tensor **out_targets);

/* ---- IDX files --------------------------------------------------------------------------------------------------- */

/* Reads an IDX file, plain or compressed with gzip, into a CPU tensor of the file's dtype and shape; it belongs to the
   innermost scope.
   errors: FORMAT for a bad magic number, an unknown type, a file that is cut or too long; OVERFLOW; IO; MEMORY
   source: Y. LeCun, http://yann.lecun.com/exdb/mnist/ */
FAC_API fac_tensor *fac_idx_read(const char *path);

#ifdef __cplusplus
}
#endif
#include <facula/data_macros.h>
#endif
