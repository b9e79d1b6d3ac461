/* Images: files, and what is done to them. */
#include "support/files.h"
#include "support/support.h"

#include <facula/facula.h>
#include <stdlib.h>

static fac_tensor *picture(int64_t channels) {
    return fac_to_dtype(
        fac_remainder(fac_reshape(fac_mul(fac_arange(channels * 5 * 7), 37), FAC_SHAPE(channels, 5, 7)), 256), FAC_U8);
}

/* False, and the error is forgotten, in a library without libpng. */
static bool can_write(const char *path, fac_tensor *image) {
    if (fac_image_write(path, image) == FAC_OK) return true;
    assert_error(FAC_ERR_UNSUPPORTED, "without libpng");
    return false;
}

static void png_comes_back_as_it_was(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *path = files_path("image.png");
    for (int64_t channels = 1; channels <= 4; channels++) {
        fac_tensor *x = picture(channels);
        if (!can_write(path, x)) return;
        fac_tensor *y = fac_image_read(path);
        assert_no_error();
        assert_true(fac_equal(x, y));
        assert_true(fac_tensor_is_contiguous(y));
    }
    assert_ok(fac_image_write(path, picture(1)));
    fac_tensor *rgb = fac_image_read(path, .channels = 3);
    for (int64_t c = 0; c < 3; c++) assert_true(fac_equal(fac_select(rgb, 0, c), fac_select(picture(1), 0, 0)));
    fac_tensor *rgba = fac_image_read(path, 4);
    assert_true(fac_equal(fac_select(rgba, 0, 3), fac_full(FAC_SHAPE(5, 7), 255.0, .dtype = FAC_U8)));
    assert_int_equal(fac_tensor_size(fac_image_read(path, 1), 0), 1);
}

static void png_that_is_cut_or_changed_is_an_error_or_an_image(void **state) {
    (void)state;
    const char *path = files_path("image.png");
    fac_scope outer = fac_scope_begin();
    const bool can = can_write(path, picture(3));
    fac_scope_end(&outer);
    if (!can) return;
    size_t n;
    unsigned char *bytes = files_read(path, &n);
    for (size_t i = 0; i < n; i++) {
        FAC_SCOPE(s);
        files_write(path, bytes, i);
        assert_null(fac_image_read(path));
        assert_int_equal(fac_error(), FAC_ERR_FORMAT);
        fac_error_clear();
    }
    for (size_t bit = 0; bit < 8 * n; bit++) {
        FAC_SCOPE(s);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        files_write(path, bytes, n);
        assert_true(fac_image_read(path) != NULL || fac_error());
        fac_error_clear();
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    free(bytes);
}

/* 16 by 16 pixels of one grey, as libjpeg-turbo writes them with quality 75. */
static const unsigned char grey_jpeg[] = {
#include "data/grey_jpeg.h"
};

static void jpeg_is_read_and_cut_ones_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *path = files_path("image.jpg");
    files_write(path, grey_jpeg, sizeof grey_jpeg);
    fac_tensor *x = fac_image_read(path);
    if (!x) {
        assert_error(FAC_ERR_UNSUPPORTED, "without libjpeg");
        return;
    }
    assert_true(fac_equal(x, fac_full(FAC_SHAPE(1, 16, 16), 100.0, .dtype = FAC_U8)));
    assert_int_equal(fac_tensor_size(fac_image_read(path, 3), 0), 3);
    assert_null(fac_image_read(path, 4));
    assert_error(FAC_ERR_UNSUPPORTED, "no transparency");
    for (size_t i = 3; i < sizeof grey_jpeg; i++) {
        FAC_SCOPE(inner);
        files_write(path, grey_jpeg, i);
        if (fac_image_read(path)) continue; /* what is missing was not needed */
        assert_int_equal(fac_error(), FAC_ERR_FORMAT);
        fac_error_clear();
    }
    unsigned char copy[sizeof grey_jpeg];
    for (size_t bit = 0; bit < 8 * sizeof copy; bit++) {
        FAC_SCOPE(inner);
        memcpy(copy, grey_jpeg, sizeof copy);
        copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
        files_write(path, copy, sizeof copy);
        assert_true(fac_image_read(path) != NULL || fac_error());
        fac_error_clear();
    }
}

static void image_files_of_other_kinds_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *path = files_path("image.gif");
    files_write(path, "GIF89a..", 8);
    assert_null(fac_image_read(path));
    assert_error(FAC_ERR_FORMAT, "neither a PNG nor a JPEG");
    assert_null(fac_image_read(path, 2));
    assert_error(FAC_ERR_ARGUMENT, "not 2");
    assert_int_equal(fac_image_write(path, fac_ones(FAC_SHAPE(3, 2, 2))), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "float32");
    assert_int_equal(fac_image_write(path, fac_zeros(FAC_SHAPE(5, 2, 2), .dtype = FAC_U8)), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "[5, 2, 2]");
}

static void images_are_cropped_flipped_and_normalized(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = picture(3);
    assert_true(fac_equal(fac_image_crop(x, 1, 2, 3, 4), fac_at(x, ":, 1:4, 2:6")));
    assert_true(fac_equal(fac_image_center_crop(x, 3, 3), fac_at(x, ":, 1:4, 2:5")));
    assert_true(fac_equal(fac_image_flip(fac_image_flip(x)), x));
    assert_true(fac_equal(fac_select(fac_image_flip(x), 2, 0), fac_select(x, 2, 6)));
    assert_null(fac_image_crop(x, 3, 0, 3, 4));
    assert_error(FAC_ERR_ARGUMENT, "not inside 5 by 7");
    assert_null(fac_image_center_crop(x, 6, 1));
    assert_error(FAC_ERR_ARGUMENT, "no part of 6 by 1");
    assert_null(fac_image_crop(fac_ones(4), 0, 0, 1, 1));
    assert_error(FAC_ERR_SHAPE, "[C, H, W]");
    fac_tensor *f = fac_image_to_float(x);
    assert_true(fac_allclose(fac_mul(f, 255), fac_to_dtype(x, FAC_F32)));
    fac_tensor *n = fac_image_normalize(f, FAC_FLOATS(0.5, 0.25, 0), FAC_FLOATS(2));
    assert_true(fac_allclose(fac_select(n, 0, 1), fac_div(fac_sub(fac_select(f, 0, 1), 0.25), 2)));
    assert_null(fac_image_normalize(f, FAC_FLOATS(0.5, 0.25), FAC_FLOATS(1)));
    assert_error(FAC_ERR_ARGUMENT, "2 numbers were given as the mean of 3 channels");
    assert_null(fac_image_normalize(f, FAC_FLOATS(0), FAC_FLOATS(0)));
    assert_error(FAC_ERR_ARGUMENT, "deviation 0 is 0");
    assert_null(fac_image_normalize(x, FAC_FLOATS(0), FAC_FLOATS(1)));
    assert_error(FAC_ERR_DTYPE, "fac_image_to_float");
}

static void random_changes_follow_their_seed(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = picture(1);
    int flipped = 0, places[5][7] = {{0}};
    for (uint64_t seed = 0; seed < 400; seed++) {
        FAC_SCOPE(inner);
        fac_tensor *a = fac_image_random_crop(x, 3, 4, seed), *b = fac_image_random_crop(x, 3, 4, seed);
        assert_int_equal(fac_tensor_offset(a), fac_tensor_offset(b));
        places[fac_tensor_offset(a) / 7][fac_tensor_offset(a) % 7]++;
        flipped += !fac_equal(fac_image_random_flip(x, seed), x);
    }
    assert_in_range(flipped, 150, 250);
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 7; j++) assert_true(i < 3 && j < 4 ? places[i][j] > 10 : places[i][j] == 0);
    assert_null(fac_image_random_crop(x, 6, 4, 0));
    assert_error(FAC_ERR_ARGUMENT, "no part of 6 by 4");
}

static void resizing_keeps_what_is_constant_and_halves_by_means(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *flat = fac_full(FAC_SHAPE(3, 8, 8), 77.0, .dtype = FAC_U8);
    assert_true(fac_equal(fac_image_resize(flat, 5, 11), fac_full(FAC_SHAPE(3, 5, 11), 77.0, .dtype = FAC_U8)));
    fac_tensor *x = fac_to_dtype(fac_reshape(fac_arange(16), FAC_SHAPE(1, 4, 4)), FAC_F32);
    fac_tensor *half = fac_image_resize(x, 2, 2, .antialias = false);
    assert_true(fac_allclose(half, fac_reshape(fac_tensor_of(2.5, 4.5, 10.5, 12.5), FAC_SHAPE(1, 2, 2))));
    fac_tensor *batch = fac_image_resize(fac_stack(FAC_TENSORS(x, x)), 2, 3);
    assert_int_equal(fac_tensor_size(batch, 0), 2);
    assert_true(fac_equal(fac_select(batch, 0, 1), fac_image_resize(x, 2, 3)));
    assert_null(fac_image_resize(x, 0, 2));
    assert_error(FAC_ERR_ARGUMENT, "0 by 2");
}

static fac_status use_images(void *context) {
    (void)context;
    FAC_SCOPE(s);
    const char *path = files_path("failing.png");
    fac_tensor *x = picture(3);
    if (x && fac_image_write(path, x) == FAC_ERR_UNSUPPORTED) fac_error_clear();
    if (x && !fac_error()) (void)!fac_image_read(path);
    if (fac_error() == FAC_ERR_IO) fac_error_clear(); /* nothing was written, without libpng */
    files_write(path, grey_jpeg, sizeof grey_jpeg);
    if (!fac_error() && !fac_image_read(path) && fac_error() == FAC_ERR_UNSUPPORTED) fac_error_clear();
    return fac_error();
}

static void images_survive_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(use_images, NULL);
}

FAC_TEST_MAIN(FAC_TEST(png_comes_back_as_it_was), FAC_TEST(png_that_is_cut_or_changed_is_an_error_or_an_image),
              FAC_TEST(jpeg_is_read_and_cut_ones_are_refused), FAC_TEST(image_files_of_other_kinds_are_refused),
              FAC_TEST(images_are_cropped_flipped_and_normalized), FAC_TEST(random_changes_follow_their_seed),
              FAC_TEST(resizing_keeps_what_is_constant_and_halves_by_means),
              FAC_TEST(images_survive_failing_allocations))
