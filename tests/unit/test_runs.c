/* What is done to many neighbouring elements at once is what is done to each alone: copies of bytes at any place and of any length, and
   products of complex numbers. */
#include "support/support.h"

#include "backend/cpu/kernels/items.h"
#include <facula/facula.h>
#include <stdlib.h>

enum { ROOM = 2600, AROUND = 64 };

/* Everything from `from` on, n bytes, lands at `to`, and nothing beside it. */
static void check_copy(const unsigned char *src, unsigned char *dst, size_t from, size_t to, size_t n) {
    memset(dst, 0xee, ROOM + 2 * AROUND);
    fac__items_copy(1, (char *)dst + to, 1, (const char *)src + from, 1, (int64_t)n);
    assert_memory_equal(dst + to, src + from, n);
    for (size_t i = 0; i < ROOM + 2 * AROUND; i++)
        if (i < to || i >= to + n) assert_int_equal(dst[i], 0xee);
}

static void runs_are_copied_whole_at_any_place_and_of_any_length(void **state) {
    (void)state;
    unsigned char *src = malloc(ROOM + 2 * AROUND), *dst = malloc(ROOM + 2 * AROUND);
    assert_true(src && dst);
    for (size_t i = 0; i < ROOM + 2 * AROUND; i++) src[i] = (unsigned char)(i * 7 + i / 251);
    for (size_t n = 1; n < ROOM; n += n < 600 ? 1 : 97)
        for (size_t place = 0; place < 5; place++) check_copy(src, dst, place * 13 % AROUND, place * 29 % AROUND, n);
    free(src);
    free(dst);
}

static fac_tensor *numbers(fac_dtype dtype, int64_t n) { return fac_randn(FAC_INTS(n), .dtype = dtype); }

/* Of every length, so that the ends of runs of each instruction set are met. */
static void complex_products_of_runs_are_those_of_single_numbers(void **state) {
    (void)state;
    FAC_SCOPE(all);
    for (int64_t n = 1; n < 40; n++) {
        const fac_dtype dtype = n % 2 ? FAC_C64 : FAC_C128;
        fac_tensor *x = numbers(dtype, n), *y = numbers(dtype, n), *z = fac_mul(x, y);
        for (int64_t i = 0; i < n; i++) {
            FAC_SCOPE(one);
            fac_tensor *a = fac_select(x, 0, i), *b = fac_select(y, 0, i);
            assert_true(fac_equal(fac_select(z, 0, i), fac_mul(a, b)));
            fac_tensor *re = fac_sub(fac_mul(fac_real(a), fac_real(b)), fac_mul(fac_imag(a), fac_imag(b)));
            assert_true(fac_equal(fac_real(fac_select(z, 0, i)), re));
            fac_tensor *im = fac_add(fac_mul(fac_real(a), fac_imag(b)), fac_mul(fac_imag(a), fac_real(b)));
            assert_true(fac_equal(fac_imag(fac_select(z, 0, i)), im));
        }
    }
    assert_no_error();
}

FAC_TEST_MAIN(FAC_TEST(runs_are_copied_whole_at_any_place_and_of_any_length),
              FAC_TEST(complex_products_of_runs_are_those_of_single_numbers))
