/* PNG by libpng, where it was there when the library was configured. libpng leaves by longjmp where it fails: what must be freed
   then lies in a struct of the caller's. */
#include "data/image_files.h"

#if FAC_HAVE_PNG

#include "core/tensor_make.h"
#include <png.h>
#include <setjmp.h>

enum { DEFLATE_RATIO = 1032, MOST_SIDE = 1 << 24, MOST_CHUNK = 8 << 20 };

typedef struct png_job {
    const image_source *source;
    size_t at;
    fac_buf *to;
    png_structp png;
    png_infop info;
    fac_tensor *image; /* owned */
    int passes;        /* over the rows: 7 of interlaced images */
    char why[100];
} png_job;

static void fail(png_structp png, png_const_charp why) {
    png_job *j = png_get_error_ptr(png);
    snprintf(j->why, sizeof j->why, "%s", why);
    longjmp(png_jmpbuf(png), 1);
}

static void warn(png_structp png, png_const_charp why) { (void)png, (void)why; }

static png_voidp alloc(png_structp png, png_alloc_size_t n) {
    (void)png;
    return fac__alloc(n);
}

static void release(png_structp png, png_voidp p) {
    (void)png;
    fac__free(p);
}

static void read_bytes(png_structp png, png_bytep out, size_t n) {
    png_job *j = png_get_io_ptr(png);
    if (n > j->source->n - j->at) png_error(png, "it ends too early");
    memcpy(out, j->source->bytes + j->at, n);
    j->at += n;
}

/* To 8 bits of grey or colours, with or without transparency, as the channels say. */
static int set_channels(png_job *j) {
    const int type = png_get_color_type(j->png, j->info);
    const bool alpha = type & PNG_COLOR_MASK_ALPHA || png_get_valid(j->png, j->info, PNG_INFO_tRNS);
    const bool colour = type & PNG_COLOR_MASK_COLOR;
    const int wanted = j->source->channels ? j->source->channels : (colour ? 3 : 1) + alpha;
    png_set_strip_16(j->png);
    png_set_expand(j->png);
    if (wanted >= 3 && !colour) png_set_gray_to_rgb(j->png);
    if (wanted < 3 && colour) png_set_rgb_to_gray_fixed(j->png, 1, 29890, 58700); /* as of JPEG files: Rec. 601 */
    if (wanted % 2 && alpha) png_set_strip_alpha(j->png);
    if (wanted % 2 == 0 && !alpha) png_set_add_alpha(j->png, 255, PNG_FILLER_AFTER);
    j->passes = png_set_interlace_handling(j->png);
    return wanted;
}

static fac_status decode(png_job *j) {
    if (setjmp(png_jmpbuf(j->png)))
        return fac_error() ? fac_error()
                           : FAC_FAIL(FAC_ERR_FORMAT, "'%s' is a damaged PNG file: %s", j->source->path, j->why);
    png_set_user_limits(j->png, MOST_SIDE, MOST_SIDE);
    png_set_chunk_malloc_max(j->png, MOST_CHUNK);
    png_set_chunk_cache_max(j->png, 1); /* text, which may be packed, is passed over */
    png_set_read_fn(j->png, j, read_bytes);
    png_read_info(j->png, j->info);
    const int64_t height = png_get_image_height(j->png, j->info), width = png_get_image_width(j->png, j->info);
    const int64_t row = (int64_t)png_get_rowbytes(j->png, j->info) + 1; /* before deflate, behind its filter's number */
    const int channels = set_channels(j);
    FAC_TRY(fac__image_room(j->source, height, width, channels, height * row / DEFLATE_RATIO, &j->image));
    png_read_update_info(j->png, j->info); /* libpng makes room for rows here */
    if (png_get_rowbytes(j->png, j->info) != (size_t)width * (size_t)channels)
        return FAC_FAIL(FAC_ERR_UNSUPPORTED, "'%s' is a PNG file of a kind that is not read", j->source->path);
    unsigned char *data = fac__data(j->image);
    for (int pass = 0; pass < j->passes; pass++)
        for (int64_t i = 0; i < height; i++) png_read_row(j->png, data + (size_t)(i * width * channels), NULL);
    png_read_end(j->png, NULL);
    return FAC_OK;
}

fac_status fac__png_decode(const image_source *s, fac_tensor **out) {
    png_job j = {.source = s};
    fac_status st = FAC_ERR_MEMORY;
    j.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &j, fail, warn, NULL, alloc, release);
    j.info = j.png ? png_create_info_struct(j.png) : NULL;
    if (j.info)
        st = decode(&j);
    else
        st = FAC_FAIL(FAC_ERR_MEMORY, "out of memory: cannot read '%s'", s->path);
    if (j.png) png_destroy_read_struct(&j.png, &j.info, NULL);
    if (st)
        fac__unref(j.image);
    else
        *out = j.image;
    return st;
}

static void write_bytes(png_structp png, png_bytep bytes, size_t n) {
    const png_job *j = png_get_io_ptr(png);
    if (fac__buf_add(j->to, bytes, n) != FAC_OK) png_error(png, "out of memory");
}

static void flush(png_structp png) { (void)png; }

static fac_status encode(png_job *j, const unsigned char *rows, int64_t height, int64_t width, int channels) {
    static const int types[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                PNG_COLOR_TYPE_RGB_ALPHA};
    if (setjmp(png_jmpbuf(j->png)))
        return fac_error() ? fac_error() : FAC_FAIL(FAC_ERR_ARGUMENT, "the image cannot be a PNG file: %s", j->why);
    png_set_write_fn(j->png, j, write_bytes, flush);
    png_set_IHDR(j->png, j->info, (png_uint_32)width, (png_uint_32)height, 8, types[channels], PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(j->png, j->info);
    for (int64_t i = 0; i < height; i++) png_write_row(j->png, rows + (size_t)(i * width * channels));
    png_write_end(j->png, NULL);
    return FAC_OK;
}

fac_status fac__png_encode(const unsigned char *rows, int64_t height, int64_t width, int channels, fac_buf *out) {
    png_job j = {.to = out};
    fac_status st = FAC_ERR_MEMORY;
    j.png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &j, fail, warn, NULL, alloc, release);
    j.info = j.png ? png_create_info_struct(j.png) : NULL;
    if (j.info)
        st = encode(&j, rows, height, width, channels);
    else
        st = FAC_FAIL(FAC_ERR_MEMORY, "out of memory: cannot write a PNG file");
    if (j.png) png_destroy_write_struct(&j.png, &j.info);
    return st;
}

#else

fac_status fac__png_decode(const image_source *s, fac_tensor **out) {
    (void)out;
    return FAC_FAIL(FAC_ERR_UNSUPPORTED, "'%s' is a PNG file, and this library was built without libpng", s->path);
}

fac_status fac__png_encode(const unsigned char *rows, int64_t height, int64_t width, int channels, fac_buf *out) {
    (void)rows, (void)height, (void)width, (void)channels, (void)out;
    return FAC_FAIL(FAC_ERR_UNSUPPORTED, "this library was built without libpng, which writes PNG files");
}

#endif
