/* How operators are called for a whole batch of samples at once (vmap): one word of an operator's entry each. The
   rules are in src/ops/batch, docs/operators.md tells what the words mean. */
#ifndef FAC_SRC_DISPATCH_BATCH_KINDS_H
#define FAC_SRC_DISPATCH_BATCH_KINDS_H

/* X(identifier, word). The first four follow from an entry, as does pointwise; the others are what `batch` says. */
#define FAC_BATCH_KINDS(X)        \
    X(LOOP, "loop")               \
    X(PARTS, "parts")             \
    X(OUT, "out")                 \
    X(INPLACE, "inplace")         \
    X(POINTWISE, "pointwise")     \
    X(REFUSED, "refused")         \
    X(LIKE, "like")               \
    X(DIM, "dim")                 \
    X(PLACE, "place")             \
    X(REDUCE, "reduce")           \
    X(ALL, "all")                 \
    X(SIZE, "size")               \
    X(TRAILING, "trailing")       \
    X(FOLD, "fold")               \
    X(LOSS, "loss")               \
    X(EXPAND, "expand")           \
    X(TRANSPOSE, "t")             \
    X(SQUEEZE, "squeeze")         \
    X(AS_STRIDED, "as_strided")   \
    X(ROLL, "roll")               \
    X(MATMUL, "matmul")           \
    X(ADDMATMUL, "addmatmul")     \
    X(SOLVE, "solve")             \
    X(CONVOLUTION, "convolution") \
    X(EMBEDDING, "embedding")     \
    X(INDEX, "index")             \
    X(INDEX_PUT, "index_put")     \
    X(NORMALIZED, "normalized")   \
    X(CHANNELS, "channels")       \
    X(NLL, "nll")                 \
    X(SEQUENCES, "sequences")

enum {
#define FAC_BATCH_KIND(id, word) FAC_BATCH_##id,
    FAC_BATCH_KINDS(FAC_BATCH_KIND)
#undef FAC_BATCH_KIND
        FAC_BATCH_COUNT
};

#endif
