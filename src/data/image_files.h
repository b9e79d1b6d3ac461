/* Decoders of images: whole files in memory to tensors. */
#ifndef FAC_SRC_DATA_IMAGE_FILES_H
#define FAC_SRC_DATA_IMAGE_FILES_H

#include "core/tensor.h"

typedef struct image_source {
    const char *path; /* for messages */
    const unsigned char *bytes;
    size_t n;
    int channels; /* 0: as the file has them */
} image_source;

/* Owned, uint8 [H, W, C]. errors: FORMAT; UNSUPPORTED without the library; OVERFLOW; MEMORY */
fac_status fac__png_decode(const image_source *s, fac_tensor **out);
fac_status fac__jpeg_decode(const image_source *s, fac_tensor **out);
/* Appends a PNG file of rows [H, W, C] to a buffer. */
fac_status fac__png_encode(const unsigned char *rows, int64_t height, int64_t width, int channels, fac_buf *out);
/* Room for the rows. `least` is how many bytes any file of the image has, so that a small file does not ask for much. */
fac_status fac__image_room(const image_source *s, int64_t height, int64_t width, int channels, int64_t least,
                           fac_tensor **out);

#endif
