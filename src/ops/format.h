/* Memory formats of images: operators over [N, C, ...] give results that lie as their input does, row-major or with the channels
   innermost (PyTorch's channels_last and channels_last_3d). */
#ifndef FAC_SRC_OPS_FORMAT_H
#define FAC_SRC_OPS_FORMAT_H

#include "ops/structured.h"

/* The format that t's strides suggest, with gaps too: FAC_CHANNELS_LAST of four dimensions, FAC_CHANNELS_LAST_3D of five, else
   FAC_CONTIGUOUS. Sizes of one leave strides that fit several formats: the strides themselves then decide, as in PyTorch
   (Tensor.suggest_memory_format), so that [N, 1, H, W] in either format is what it was made as. */
fac_memory_format fac__format_of(const fac_tensor *t);
static inline bool fac__is_channels_last(fac_memory_format f) {
    return f == FAC_CHANNELS_LAST || f == FAC_CHANNELS_LAST_3D;
}
/* Whether t's elements lie in this format, one after the other. */
bool fac__lies_in(const fac_tensor *t, fac_memory_format f);
/* Strides without gaps. Products that do not fit are those of a tensor that cannot be made. */
void fac__format_strides(fac_memory_format f, const int64_t *sizes, int ndim, int64_t *strides);
/* fac_out_declare in a format. */
fac_status fac_out_declare_format(fac_structured *s, int i, const int64_t *sizes, int ndim, fac_dtype dtype,
                                  fac_device device, fac_memory_format f);
/* The format of images [N, C, ...] with a border around their last `dims` dimensions; without a batch they are row-major. */
static inline fac_memory_format fac__border_format(const fac_tensor *image, int dims) {
    return image->ndim == dims + 2 ? fac__format_of(image) : FAC_CONTIGUOUS;
}
/* Owned and uninitialised. */
fac_status fac__empty_format(const int64_t *sizes, int ndim, fac_dtype dtype, fac_device device, fac_memory_format f,
                             fac_tensor **out);
/* Owned: t itself if it lies in the format, else a copy that does, made below autograd. NULL gives NULL. */
fac_status fac__in_format_below(fac_tensor *t, fac_memory_format f, fac_tensor **out);

/* Whether tensors of equal sizes have no gaps and the same strides: their elements then meet in the order of memory. */
bool fac__lie_alike(const fac_tensor *a, const fac_tensor *b);
/* Owned: t itself if it lies like `like`, which has no gaps, else a copy that does, made below autograd. */
fac_status fac__lying_like_below(fac_tensor *t, const fac_tensor *like, fac_tensor **out);

#endif
