/* Data sets, orders in which their samples are visited, and loaders, which make batches of them on threads of their
   own. What a loader gives depends on seeds and epochs alone, not on how many threads there are. */
#ifndef FACULA_DATASET_H
#define FACULA_DATASET_H

#include <facula/keywords.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- data sets
   --------------------------------------------------------------------------------------------------- */

/* Samples, of which each is a few tensors: its columns, such as an image and a label. Counted. Either every sample has
   a number (map style), or they come one behind the other (a stream). */
typedef struct fac_dataset fac_dataset;

/* The sample that is asked for. */
typedef struct fac_sample {
    int64_t index; /* its number; of a stream: how many came before it in this epoch */
    int64_t epoch; /* 0 unless a loader asks */
    uint64_t seed; /* for what is random about it, the same whatever thread asks: made of the loader's seed, the epoch
                       and its place in it */
    int worker;    /* number of the loader's thread that asks; -1: the thread that called */
} fac_sample;

/* How a data set of one's own gives its samples. A function that fails leaves an error pending and returns it. Tensors
   that it gives are of the innermost scope, or live longer; they may be views. Functions marked * are called on
   threads of loaders, several at a time. `get` makes a data set one of map style, `next` a stream: one of the two is
   NULL. */
typedef struct fac_dataset_class {
    size_t size;      /* sizeof(fac_dataset_class) */
    const char *name; /* for messages; NULL: "data set" */
    /* * Sample at->index, in 0 ... length - 1, into out, which has room for the columns. */
    fac_status (*get)(void *context, const fac_sample *at, fac_tensor **out);
    /* The next sample, by one thread at a time; false at the end of the epoch, and on an error. What takes long and
       can be done to samples side by side belongs into fac_dataset_map. */
    bool (*next)(void *context, const fac_sample *at, fac_tensor **out);
    /* Goes to the first sample of an epoch of a stream (optional: without, each epoch goes on where the last one
       ended). */
    fac_status (*start)(void *context, int64_t epoch);
    /* Leaves out the next n samples of a stream (optional: without, they are made and dropped). */
    fac_status (*skip)(void *context, int64_t n);
    void (*release)(void *context); /* when the data set ends (optional) */
} fac_dataset_class;

/* A data set of one's own: of `length` samples (-1: a stream) of so many columns. The class is copied. When this
   fails, `context` is not released. NULL on failure.
   errors: ARGUMENT if class and length do not fit together, or there are no columns */
FAC_API fac_dataset *fac_dataset_new(const fac_dataset_class *cls, void *context, int64_t length, size_t columns);
/* Takes or drops a reference. NULL is allowed. */
FAC_API fac_dataset *fac_dataset_keep(fac_dataset *d);
FAC_API void fac_dataset_release(fac_dataset *d);
/* Number of samples, -1 for a stream; and tensors in each. */
FAC_API int64_t fac_dataset_length(const fac_dataset *d);
FAC_API size_t fac_dataset_columns(const fac_dataset *d);
/* Sample i of a data set of map style, of the innermost scope.
   errors: INDEX if there is no such sample; UNSUPPORTED for a stream; those of the data set, with the sample's
           number */
FAC_API FAC_MUST fac_status fac_dataset_get(fac_dataset *d, int64_t i, fac_tensor **out_columns);
/* The next sample of a stream, of the innermost scope; false at its end, and on an error, which is then pending.
   errors: UNSUPPORTED for map style */
FAC_API bool fac_dataset_next(fac_dataset *d, fac_tensor **out_columns);
/* Goes to the first sample of an epoch of a stream; does nothing for map style. */
FAC_API FAC_MUST fac_status fac_dataset_start(fac_dataset *d, int64_t epoch);

/* Row i of each tensor is sample i. It counts references of the tensors.
   errors: SHAPE if first sizes differ; ARGUMENT if there is none
   source: torch.utils.data.TensorDataset */
FAC_API fac_dataset *fac_dataset_of_tensors(fac_tensors columns);
/* The samples of these numbers, in this order.
   errors: INDEX; UNSUPPORTED for a stream
   source: torch.utils.data.Subset */
FAC_API fac_dataset *fac_dataset_subset(fac_dataset *d, fac_ints indices);
/* All samples of the first, then of the second, and so on: of map style, or streams.
   errors: ARGUMENT if some are streams and some are not, or columns differ; OVERFLOW
   source: torch.utils.data.ConcatDataset, ChainDataset */
FAC_API fac_dataset *fac_dataset_concat(fac_dataset *const *sets, size_t n);
/* Cuts a data set into parts of samples chosen at random: `lengths` are numbers of samples, or parts of the whole that
   make 1, of which what is left goes to the first ones. Writes one new data set for each to out_parts.
   errors: ARGUMENT if the lengths do not make that of d; UNSUPPORTED for a stream
   source: torch.utils.data.random_split */
FAC_API FAC_MUST fac_status fac_dataset_random_split(fac_dataset *d, fac_floats lengths, fac_dataset **out_parts,
                                                     const fac_dataset_random_split_kw *kw);
/* Changes a sample: `in` are its columns, `out` has room for those of the new one. Called on threads of loaders,
   several at a time. */
typedef fac_status (*fac_dataset_map_fn)(void *context, const fac_sample *at, fac_tensors in, fac_tensor **out);
/* The samples of d, each through fn, which gives so many columns. */
FAC_API fac_dataset *fac_dataset_map(fac_dataset *d, fac_dataset_map_fn fn, void *context, size_t columns);

/* ---- orders
   ------------------------------------------------------------------------------------------------------ */

/* The order in which samples are visited, epoch by epoch: it depends on nothing but seed and epoch. Counted. */
typedef struct fac_sampler fac_sampler;
/* Of n samples, 0, 1, 2, ... unless .shuffle = true, or .replacement = true, with which each is drawn from all of
   them. .num_samples of them in an epoch, all if left out; more than n only with shuffle (several permutations) or
   replacement. NULL on failure.
   errors: ARGUMENT
   source: torch.utils.data.SequentialSampler, RandomSampler */
FAC_API fac_sampler *fac_sampler_new(int64_t n, const fac_sampler_new_kw *kw);
/* Draws num_samples in an epoch, each with a probability proportional to its weight; without .replacement each once.
   errors: ARGUMENT for weights that are negative or not finite, or too few that are not 0
   source: torch.utils.data.WeightedRandomSampler */
FAC_API fac_sampler *fac_sampler_weighted(fac_floats weights, int64_t num_samples, const fac_sampler_weighted_kw *kw);
/* These numbers, in this order or shuffled. source: torch.utils.data.SubsetRandomSampler */
FAC_API fac_sampler *fac_sampler_subset(fac_ints indices, const fac_sampler_subset_kw *kw);
/* Writes the order of an epoch of n samples; the same whenever it is asked for the same epoch. */
typedef fac_status (*fac_sampler_fn)(void *context, int64_t epoch, int64_t *out, int64_t n);
/* An order of one's own, of n numbers in an epoch. */
FAC_API fac_sampler *fac_sampler_of(fac_sampler_fn fn, void *context, int64_t n);
/* Every replicas-th number of another order, from the rank-th on, so that `replicas` programs share an epoch. Where it
   cannot be shared evenly numbers from its beginning come again, or with .drop_last = true some are left out.
   It keeps a reference of `of`, whose own position does not matter.
   errors: ARGUMENT if rank is not in 0 ... replicas - 1
   source: torch.utils.data.distributed.DistributedSampler */
FAC_API fac_sampler *fac_sampler_distributed(fac_sampler *of, int64_t rank, int64_t replicas,
                                             const fac_sampler_distributed_kw *kw);
/* Another order, of which fac_sampler_next gives a batch at a time, and never part of one.
   source: torch.utils.data.BatchSampler */
FAC_API fac_sampler *fac_sampler_batch(fac_sampler *of, int64_t batch_size, const fac_sampler_batch_kw *kw);
/* Takes or drops a reference. NULL is allowed. */
FAC_API fac_sampler *fac_sampler_keep(fac_sampler *s);
FAC_API void fac_sampler_release(fac_sampler *s);
/* Numbers in an epoch; with fac_sampler_batch: batches. */
FAC_API int64_t fac_sampler_length(const fac_sampler *s);
/* Writes up to `room` indices of the present epoch; returns how many, 0 at its end and on an error, which is then
   pending.
   errors: ARGUMENT if a batch has no room */
FAC_API int64_t fac_sampler_next(fac_sampler *s, int64_t *out, int64_t room);
/* Goes to the start of an epoch. */
FAC_API void fac_sampler_start(fac_sampler *s, int64_t epoch);
/* Where in its order a sampler or a loader is. Plain data, to be stored beside a model. */
typedef struct fac_data_state {
    int64_t epoch;
    int64_t at;     /* numbers, or a loader's batches, that were given in this epoch */
    int64_t length; /* of an epoch; -1 if not known */
    int64_t seed;
} fac_data_state;
/* The present place, and going there, in the middle of an epoch too. `seed` and `length` say that it is the same
   order. errors: ARGUMENT if it is not */
FAC_API fac_data_state fac_sampler_get_state(const fac_sampler *s);
FAC_API FAC_MUST fac_status fac_sampler_set_state(fac_sampler *s, fac_data_state state);

/* ---- loaders
   ----------------------------------------------------------------------------------------------------- */

/* Cuts columns of samples (tensors of equal first size: images, labels, ...) into batches of batch_size samples;
   drop_last leaves out a last one that is not full. It counts references of the columns, which must be contiguous CPU
   tensors. Keywords beyond these as for fac_loader_of. NULL on failure.
   errors: SHAPE if first sizes differ; ARGUMENT if there is no column; DEVICE; UNSUPPORTED if not contiguous */
FAC_API fac_loader *fac_loader_new(fac_tensors columns, const fac_loader_new_kw *kw);
/* Batches of any data set. The order is that of .sampler, of which the loader takes a reference and which it moves, or
   that of fac_sampler_new with shuffle and seed; a batching one says what goes into each batch in place of batch_size
   and drop_last. Streams come in their own order.

   .num_workers threads make batches ahead of the one that asks, .prefetch_factor for each; 0: the caller's thread does
   when it asks. Batches come in order and have the same bits for any number of threads. Gradients are not recorded.
   With .pin_memory = true they lie in page-locked memory. A batch that is not there after .timeout seconds (0: any
   time) is an error of code STATE; it can be asked for again. A thread that waits for a batch can be cancelled by
fac_cancel. 
   An error in a sample names its number and is reported in place of its batch; the next call, once it is cleared, goes
   on with the batch behind it. Threads start with the first batch and end with the loader. NULL on failure.
   errors: ARGUMENT; UNSUPPORTED for pin_memory without a CUDA device, for an order of a stream
   source: torch.utils.data.DataLoader */
FAC_API fac_loader *fac_loader_of(fac_dataset *d, const fac_loader_of_kw *kw);
/* Ends its threads, after the samples that they are at; in the middle of an epoch too. NULL is allowed. */
FAC_API void fac_loader_release(fac_loader *l);
/* Joins n samples of `columns` tensors each, sample after sample in `samples`, into a batch. Called on threads of the
   loader, several at a time. */
typedef fac_status (*fac_collate_fn)(void *context, fac_tensors samples, int64_t n, fac_tensor **out);
/* Makes a batch of so many tensors by fn. NULL: by fac_stack, column by column, as a new loader does.
   errors: STATE after the first batch was asked for */
FAC_API FAC_MUST fac_status fac_loader_set_collate(fac_loader *l, fac_collate_fn fn, void *context, size_t columns);
/* fn is called first on each thread of the loader, with its number; no batch is given before all have done so. If it
   fails, so does the next batch, and the call after that starts the threads anew.
   errors: STATE after the first batch was asked for */
FAC_API FAC_MUST fac_status fac_loader_on_worker(fac_loader *l, fac_status (*fn)(void *context, int worker),
                                                 void *context);
/* Batches in an epoch; -1 for a stream. */
FAC_API int64_t fac_loader_batches(const fac_loader *l);
/* Makes the next batch: one new tensor per column, of the innermost scope. False at the end of the epoch (the next
   call begins another) and on an error, which is then pending.
   errors: INTERRUPTED; STATE after timeout, or in the child of a fork; those of data set and collation */
FAC_API bool fac_loader_next(fac_loader *l, fac_tensor **out_columns);
/* Goes to the start of an epoch. What was made ahead is dropped. */
FAC_API void fac_loader_start(fac_loader *l, int64_t epoch);
/* The place behind the last batch that was given, and going there: the batches that follow are the same as without the
   break.
   errors: ARGUMENT if the state is that of another order */
FAC_API fac_data_state fac_loader_get_state(const fac_loader *l);
FAC_API FAC_MUST fac_status fac_loader_set_state(fac_loader *l, fac_data_state state);

#ifdef __cplusplus
}
#endif
#include <facula/dataset_macros.h>
#endif
