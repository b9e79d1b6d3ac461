/* Rules of single operators, for the table. Private to this folder. */
#ifndef FAC_SRC_OPS_BATCH_RULES_H
#define FAC_SRC_OPS_BATCH_RULES_H

#include "ops/batch/call.h"

/* Samples in front and, where they have fewer dimensions than the others' samples, dimensions of one element after
   them. */
fac_status batch_align(batch_call *b);
/* The dimensions of the sample that has most. */
int batch_most_dims(const batch_call *b);

/* [B, N, C, ...] -> [N, B * C, ...], and back, of an out. Steps of sequences are as images. */
fac_status batch_into_channels(batch_call *b, batch_tensor *x);
fac_status batch_out_of_channels(batch_call *b, size_t i);

/* Gradients have the word of their operator: its rule hands them on. */
fac_status fac__batch_convolution_gradients(batch_call *b);
fac_status fac__batch_channels_gradients(batch_call *b);
fac_status fac__batch_normalized_gradients(batch_call *b);
fac_status fac__batch_embedding_gradients(batch_call *b);

fac_status fac__batch_out(batch_call *b);
fac_status fac__batch_inplace(batch_call *b);
fac_status fac__batch_loss(batch_call *b);
fac_status fac__batch_expand(batch_call *b);
fac_status fac__batch_t(batch_call *b);
fac_status fac__batch_squeeze(batch_call *b);
fac_status fac__batch_as_strided(batch_call *b);
fac_status fac__batch_roll(batch_call *b);
fac_status fac__batch_matmul(batch_call *b);
fac_status fac__batch_addmatmul(batch_call *b);
fac_status fac__batch_solve(batch_call *b);
fac_status fac__batch_convolution(batch_call *b);
fac_status fac__batch_embedding(batch_call *b);
fac_status fac__batch_index(batch_call *b);
fac_status fac__batch_normalized(batch_call *b);
fac_status fac__batch_channels(batch_call *b);
fac_status fac__batch_nll(batch_call *b);
fac_status fac__batch_index_put(batch_call *b);
fac_status fac__batch_sequences(batch_call *b);

#endif
