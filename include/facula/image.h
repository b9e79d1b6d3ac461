/* Images as tensors of the innermost scope: reading PNG and JPEG, and the changes that training makes to them. */
#ifndef FACULA_IMAGE_H
#define FACULA_IMAGE_H

#include <facula/keywords.h>
#include <facula/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads a PNG or JPEG file, whatever its name, as uint8 [C, H, W] of the innermost scope: C is 1 for grey, 3 for
   colours, one more with transparency, or as .channels (1, 3 or 4) says. 16 bits become 8.
   errors: FORMAT for a damaged file or another kind of file; UNSUPPORTED in a library built without libpng or libjpeg;
           OVERFLOW for images of more than 2^28 pixels; IO; MEMORY
   source: torchvision.io.read_image */
FAC_API fac_tensor *fac_image_read(const char *path, const fac_image_read_kw *kw);
/* Writes uint8 [C, H, W] as PNG, C = 1 ... 4, which replaces the old file as a whole.
   errors: SHAPE; DTYPE; UNSUPPORTED in a library built without libpng; IO */
FAC_API FAC_MUST fac_status fac_image_write(const char *path, fac_tensor *image);
/* Images [C, H, W] or [N, C, H, W] with other sizes, bilinear, between pixel centres; smaller ones are smoothed unless
   .antialias = false. uint8 stays uint8. The result is of the innermost scope.
   source: torchvision.transforms.functional.resize */
FAC_API fac_tensor *fac_image_resize(fac_tensor *image, int64_t height, int64_t width, const fac_image_resize_kw *kw);
/* A view, of the innermost scope, of part of the image, or of its middle. errors: ARGUMENT if it is not inside */
FAC_API fac_tensor *fac_image_crop(fac_tensor *image, int64_t top, int64_t left, int64_t height, int64_t width);
FAC_API fac_tensor *fac_image_center_crop(fac_tensor *image, int64_t height, int64_t width);
/* A part, a view of the innermost scope, at a place that depends on `seed` alone, such as fac_sample's.
   errors: ARGUMENT if the image is smaller */
FAC_API fac_tensor *fac_image_random_crop(fac_tensor *image, int64_t height, int64_t width, uint64_t seed);
/* Left becomes right, in an image of the innermost scope. fac_image_random_flip does so for half of all seeds. */
FAC_API fac_tensor *fac_image_flip(fac_tensor *image);
FAC_API fac_tensor *fac_image_random_flip(fac_tensor *image, uint64_t seed);
/* uint8 as float32 between 0 and 1; floating ones as they are. Of the innermost scope.
   source: torchvision.transforms.ToTensor */
FAC_API fac_tensor *fac_image_to_float(fac_tensor *image);
/* (image - mean) / deviation, of each channel, or one for all, as an image of the innermost scope.
   errors: DTYPE if not floating; ARGUMENT if there are neither one nor C numbers, or a deviation is 0 */
FAC_API fac_tensor *fac_image_normalize(fac_tensor *image, fac_floats mean, fac_floats deviation);

#ifdef __cplusplus
}
#endif
#include <facula/image_macros.h>
#endif
