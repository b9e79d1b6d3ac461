/* JPEG by libjpeg, where it was there when the library was configured. It leaves by longjmp where it fails: what must be freed
   then lies in a struct of the caller's. */
#include "data/image_files.h"

#if FAC_HAVE_JPEG

#include <stdio.h>

#include <jpeglib.h>
#include <setjmp.h>

/* Each block of 8 by 8 needs a bit at least. Each scan takes a pass over the image, however short it is. */
enum { PIXELS_PER_BYTE = 512, MOST_SCANS = 500 };

typedef struct jpeg_job {
    struct jpeg_error_mgr errors; /* first: libjpeg hands back its address */
    struct jpeg_decompress_struct z;
    struct jpeg_progress_mgr progress;
    const image_source *source;
    fac_tensor *image; /* owned */
    jmp_buf failed;
    char why[JMSG_LENGTH_MAX];
} jpeg_job;

static void fail(j_common_ptr z) {
    jpeg_job *j = (jpeg_job *)z->err;
    z->err->format_message(z, j->why);
    longjmp(j->failed, 1);
}

static void count_scans(j_common_ptr z) {
    jpeg_job *j = (jpeg_job *)z->err;
    if (j->z.input_scan_number <= MOST_SCANS) return;
    snprintf(j->why, sizeof j->why, "it has more than %d scans", MOST_SCANS);
    longjmp(j->failed, 1);
}

static void keep_quiet(j_common_ptr z) { (void)z; }

static fac_status damaged(jpeg_job *j) {
    if (fac_error()) return fac_error();
    if (!j->why[0]) j->z.err->format_message((j_common_ptr)&j->z, j->why);
    return FAC_FAIL(FAC_ERR_FORMAT, "'%s' is a damaged JPEG file: %s", j->source->path, j->why);
}

static fac_status decode(jpeg_job *j) {
    if (setjmp(j->failed)) return damaged(j);
    jpeg_create_decompress(&j->z);
    jpeg_mem_src(&j->z, j->source->bytes, j->source->n);
    j->progress.progress_monitor = count_scans;
    j->z.progress = &j->progress;
    jpeg_read_header(&j->z, TRUE);
    FAC_CHECK(j->z.num_components == 1 || j->z.num_components == 3, FAC_ERR_UNSUPPORTED,
              "'%s' is a JPEG file of %d colours, as of four inks (CMYK); those of 1 and of 3 are read",
              j->source->path, j->z.num_components);
    const bool grey = j->source->channels ? j->source->channels < 3 : j->z.num_components == 1;
    const int channels = grey ? 1 : 3;
    FAC_TRY(fac__image_room(j->source, j->z.image_height, j->z.image_width, channels,
                            (int64_t)j->z.image_height * j->z.image_width / PIXELS_PER_BYTE, &j->image));
    j->z.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&j->z);
    unsigned char *data = fac__data(j->image);
    while (j->z.output_scanline < j->z.output_height) {
        JSAMPROW row = data + (size_t)j->z.output_scanline * j->z.output_width * (size_t)channels;
        (void)jpeg_read_scanlines(&j->z, &row, 1);
    }
    jpeg_finish_decompress(&j->z);
    return j->errors.num_warnings ? damaged(j) : FAC_OK;
}

fac_status fac__jpeg_decode(const image_source *s, fac_tensor **out) {
    FAC_CHECK(s->channels != 4 && s->channels != 2, FAC_ERR_UNSUPPORTED,
              "'%s' is a JPEG file, which has no transparency: channels are 1 or 3", s->path);
    jpeg_job *j = fac__alloc_zero(sizeof *j);
    if (!j) return fac_error();
    j->source = s;
    j->z.err = jpeg_std_error(&j->errors);
    j->errors.error_exit = fail;
    j->errors.output_message = keep_quiet;
    const fac_status st = decode(j);
    jpeg_destroy_decompress(&j->z);
    if (st)
        fac__unref(j->image);
    else
        *out = j->image;
    fac__free(j);
    return st;
}

#else

fac_status fac__jpeg_decode(const image_source *s, fac_tensor **out) {
    (void)out;
    return FAC_FAIL(FAC_ERR_UNSUPPORTED, "'%s' is a JPEG file, and this library was built without libjpeg", s->path);
}

#endif
