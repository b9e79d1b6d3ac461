/* Images: reading and writing files of them, and what training does to them. */
#include "base/file.h"
#include "core/handle.h"
#include "core/tensor_make.h"
#include "data/image_files.h"
#include "data/random.h"
#include "keywords_gen.h"
#include <facula/image.h>
#include <facula/ops.h>
#include <facula/tensor.h>
#include <math.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 30, MOST_PIXELS = 1 << 28 };

/* ---- files ----------------------------------------------------------------------------------------------------------- */

fac_status fac__image_room(const image_source *s, int64_t height, int64_t width, int channels, int64_t least,
                           fac_tensor **out) {
    FAC_CHECK(height > 0 && width > 0 && height <= MOST_PIXELS / width, FAC_ERR_OVERFLOW,
              "'%s' has %lld by %lld pixels; %d are the most", s->path, (long long)width, (long long)height,
              MOST_PIXELS);
    FAC_CHECK(least <= (int64_t)s->n, FAC_ERR_FORMAT, "'%s' promises %lld by %lld pixels, which %zu bytes cannot hold",
              s->path, (long long)width, (long long)height, s->n);
    return fac__empty((int64_t[]){height, width, channels}, 3, FAC_U8, fac_device_make(FAC_CPU, -1), out);
}

static fac_status decode(const image_source *s, fac_tensor **out) {
    if (s->n >= 8 && memcmp(s->bytes, "\x89PNG\r\n\x1a\n", 8) == 0) return fac__png_decode(s, out);
    if (s->n >= 3 && memcmp(s->bytes, "\xff\xd8\xff", 3) == 0) return fac__jpeg_decode(s, out);
    return FAC_FAIL(FAC_ERR_FORMAT, "'%s' is neither a PNG nor a JPEG file", s->path);
}

static fac_status read_bytes(const char *path, unsigned char **out, size_t *out_n) {
    int fd;
    int64_t n;
    FAC_TRY(fac__file_open(path, &fd, &n));
    fac_status st = FAC_OK;
    if (n > MOST_BYTES)
        st = FAC_FAIL(FAC_ERR_OVERFLOW, "'%s' has %lld bytes; %d are the most for an image", path, (long long)n,
                      MOST_BYTES);
    unsigned char *bytes = st ? NULL : fac__alloc((size_t)n);
    if (bytes) st = fac__file_read(fd, path, 0, bytes, (size_t)n);
    close(fd);
    if (bytes && st) fac__free(bytes);
    *out = bytes;
    *out_n = (size_t)n;
    return fac_error();
}

fac_tensor *(fac_image_read)(const char *path, const fac_image_read_kw *kw) {
    fac_image_read_kw k;
    if (fac_error() || fac__open_image_read_kw(&k, kw) || !fac__given(path, "path to read")) return NULL;
    if (k.channels != 0 && k.channels != 1 && k.channels != 3 && k.channels != 4)
        return FAC_FAIL(FAC_ERR_ARGUMENT, "channels are 1, 3 or 4, or 0 for those of the file, not %lld",
                        (long long)k.channels),
               NULL;
    image_source s = {.path = path, .channels = (int)k.channels};
    unsigned char *bytes;
    fac_tensor *t = NULL;
    FAC_TRY_NULL(read_bytes(path, &bytes, &s.n));
    s.bytes = bytes;
    const fac_status st = decode(&s, &t);
    fac__free(bytes);
    if (st) return NULL;
    fac_tensor *rows = fac__adopt_handle(fac__thread(), t);
    return fac_contiguous(fac_permute(rows, FAC_DIMS(2, 0, 1)));
}

fac_status fac_image_write(const char *path, fac_tensor *image) {
    if (fac_error()) return fac_error();
    if (!fac__given(path, "path to write to")) return fac_error();
    const fac_tensor *t = fac__open(image, "image_write", "image");
    if (!t) return fac_error();
    FAC_CHECK(t->dtype == FAC_U8, FAC_ERR_DTYPE, "an image is uint8, but the tensor is %s",
              fac_dtype_name((fac_dtype)t->dtype));
    FAC_CHECK(t->ndim == 3 && t->sizes[0] >= 1 && t->sizes[0] <= 4 && t->sizes[1] > 0 && t->sizes[2] > 0 &&
                  t->sizes[1] <= MOST_PIXELS / t->sizes[2],
              FAC_ERR_SHAPE, "an image is [C, H, W] with 1 to 4 channels and pixels up to 2^28, not %s",
              FAC_SHAPE_TEXT(t));
    FAC_SCOPE(s);
    fac_tensor *rows =
        fac_contiguous(fac_permute(fac_to(image, .device = fac_device_make(FAC_CPU, -1)), FAC_DIMS(1, 2, 0)));
    if (!rows) return fac_error();
    fac_buf out = {0};
    fac_status st = fac__png_encode(fac__data(fac__header(rows)), t->sizes[1], t->sizes[2], (int)t->sizes[0], &out);
    if (st == FAC_OK) st = fac__file_replace(path, out.data, out.n);
    fac__buf_free(&out);
    return st;
}

/* ---- changes --------------------------------------------------------------------------------------------------------- */

/* The header of [C, H, W] or [N, C, H, W]; NULL with an error for anything else. */
static const fac_tensor *open_image(fac_tensor *image, const char *op) {
    if (fac_error()) return NULL;
    const fac_tensor *t = fac__open(image, op, "image");
    if (!t || t->ndim == 3 || t->ndim == 4) return t;
    return FAC_FAIL(FAC_ERR_SHAPE, "an image is [C, H, W] or [N, C, H, W], not %s", FAC_SHAPE_TEXT(t)), NULL;
}

fac_tensor *(fac_image_resize)(fac_tensor *image, int64_t height, int64_t width, const fac_image_resize_kw *kw) {
    fac_image_resize_kw k;
    const fac_tensor *t = open_image(image, "image_resize");
    if (!t || fac__open_image_resize_kw(&k, kw)) return NULL;
    if (height < 1 || width < 1)
        return FAC_FAIL(FAC_ERR_ARGUMENT, "an image of %lld by %lld is not possible", (long long)height,
                        (long long)width),
               NULL;
    const bool one = t->ndim == 3;
    FAC_SCOPE(s);
    fac_tensor *in = one ? fac_unsqueeze(image, 0) : image;
    const fac_ints size = FAC_INTS(height, width);
    fac_tensor *out = k.antialias ? fac_upsample_bilinear2d_aa(in, size, false, (fac_floats){0})
                                  : fac_upsample_bilinear2d(in, size, false, (fac_floats){0});
    return fac_scope_yield(&s, one ? fac_squeeze_dim(out, 0) : out);
}

fac_tensor *fac_image_crop(fac_tensor *image, int64_t top, int64_t left, int64_t height, int64_t width) {
    const fac_tensor *t = open_image(image, "image_crop");
    if (!t) return NULL;
    const int64_t h = t->sizes[t->ndim - 2], w = t->sizes[t->ndim - 1];
    if (top < 0 || left < 0 || height < 0 || width < 0 || top > h || left > w || height > h - top || width > w - left)
        return FAC_FAIL(
                   FAC_ERR_ARGUMENT, "%lld by %lld pixels from row %lld and column %lld on are not inside %lld by %lld",
                   (long long)height, (long long)width, (long long)top, (long long)left, (long long)h, (long long)w),
               NULL;
    return fac_narrow(fac_narrow(image, -2, top, height), -1, left, width);
}

/* How many rows and columns a crop of this size leaves over. false, with the error set, if it is larger than the image. */
static bool left_over(const fac_tensor *t, int64_t height, int64_t width, int64_t *rows, int64_t *columns) {
    const int64_t h = t->sizes[t->ndim - 2], w = t->sizes[t->ndim - 1];
    if (height < 0 || width < 0 || height > h || width > w)
        return FAC_FAIL(FAC_ERR_ARGUMENT, "an image of %lld by %lld pixels has no part of %lld by %lld", (long long)h,
                        (long long)w, (long long)height, (long long)width),
               false;
    *rows = h - height;
    *columns = w - width;
    return true;
}

fac_tensor *fac_image_center_crop(fac_tensor *image, int64_t height, int64_t width) {
    const fac_tensor *t = open_image(image, "image_center_crop");
    int64_t rows, columns;
    if (!t || !left_over(t, height, width, &rows, &columns)) return NULL;
    return fac_image_crop(image, (rows + 1) / 2, (columns + 1) / 2, height, width);
}

fac_tensor *fac_image_random_crop(fac_tensor *image, int64_t height, int64_t width, uint64_t seed) {
    const fac_tensor *t = open_image(image, "image_random_crop");
    int64_t rows, columns;
    if (!t || !left_over(t, height, width, &rows, &columns)) return NULL;
    uint64_t state = seed;
    const int64_t top = fac__split_mix_below(&state, rows + 1), left = fac__split_mix_below(&state, columns + 1);
    return fac_image_crop(image, top, left, height, width);
}

fac_tensor *fac_image_flip(fac_tensor *image) {
    return open_image(image, "image_flip") ? fac_flip(image, FAC_DIMS(-1)) : NULL;
}

fac_tensor *fac_image_random_flip(fac_tensor *image, uint64_t seed) {
    if (!open_image(image, "image_random_flip")) return NULL;
    uint64_t state = seed ^ 0x666c6970u; /* not what a crop of the same seed draws first */
    return fac__split_mix(&state) >> 63 ? fac_flip(image, FAC_DIMS(-1)) : fac_alias(image);
}

fac_tensor *fac_image_to_float(fac_tensor *image) {
    const fac_tensor *t = open_image(image, "image_to_float");
    if (!t) return NULL;
    if (fac_dtype_is_floating((fac_dtype)t->dtype)) return fac_alias(image);
    if (t->dtype != FAC_U8)
        return FAC_FAIL(FAC_ERR_DTYPE, "an image is uint8 or floating, but the tensor is %s",
                        fac_dtype_name((fac_dtype)t->dtype)),
               NULL;
    return fac_div(fac_to_dtype(image, FAC_F32), 255.0);
}

/* Numbers as a tensor that broadcasts over channels. */
static fac_tensor *per_channel(const fac_tensor *t, fac_floats v, const char *what) {
    const int64_t channels = t->sizes[t->ndim - 3];
    if (!fac__list_given(v.v, v.n, what)) return NULL;
    if (v.n != 1 && (int64_t)v.n != channels)
        return FAC_FAIL(FAC_ERR_ARGUMENT, "%zu numbers were given as the %s of %lld channels", v.n, what,
                        (long long)channels),
               NULL;
    fac_tensor *numbers = fac_tensor_from(v.v, FAC_F64, FAC_SHAPE((int64_t)v.n, 1, 1));
    return fac_to(numbers, .device = t->device, .dtype = (fac_dtype)t->dtype);
}

fac_tensor *fac_image_normalize(fac_tensor *image, fac_floats mean, fac_floats deviation) {
    const fac_tensor *t = open_image(image, "image_normalize");
    if (!t) return NULL;
    if (!fac_dtype_is_floating((fac_dtype)t->dtype))
        return FAC_FAIL(FAC_ERR_DTYPE, "the image is %s; make it floating by fac_image_to_float",
                        fac_dtype_name((fac_dtype)t->dtype)),
               NULL;
    for (size_t i = 0; deviation.v && i < deviation.n; i++)
        if (deviation.v[i] == 0) return FAC_FAIL(FAC_ERR_ARGUMENT, "deviation %zu is 0", i), NULL;
    FAC_SCOPE(s);
    fac_tensor *m = per_channel(t, mean, "mean"), *d = m ? per_channel(t, deviation, "deviation") : NULL;
    return fac_scope_yield(&s, d ? fac_div(fac_sub(image, m), d) : NULL);
}
