/* Iterators beyond what 32 bits count: more elements, and elements further apart. There is memory for the elements that are touched
   alone: the rest is broadcast, on the meta device, or reserved addresses that nobody fills. */
#include "backend/cuda/kernels/plan.h"
#include "iter/iter.h"

#include "support/support.h"
#include <facula/facula.h>
#include <sys/mman.h>

enum { REACHED = 6 };
static const int64_t FAR = INT64_C(1) << 30; /* elements between neighbours: 4 GiB of floats */

/* Floats 4 GiB apart, the address space of which is only reserved. */
static fac_tensor *far_apart(void **out_base) {
    const size_t bytes = (size_t)(REACHED * FAR) * sizeof(float);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        print_message("no %zu bytes of addresses to be had\n", bytes);
        skip();
    }
    *out_base = p;
    fac_tensor *t = fac_tensor_wrap(p, bytes, FAC_F32, FAC_INTS(REACHED), FAC_INTS(FAR), 0, NULL, NULL);
    assert_no_error();
    for (int i = 0; i < REACHED; i++) ((float *)p)[i * FAR] = (float)(i + 1);
    return t;
}

static void leave(void *base) { munmap(base, (size_t)(REACHED * FAR) * sizeof(float)); }

static void assert_values(fac_tensor *t, const double *want, size_t n) {
    double got[REACHED * 3];
    assert_no_error();
    assert_ok(fac_tensor_read(t, FAC_F64, got, n));
    for (size_t i = 0; i < n; i++) assert_true(got[i] == want[i]);
}

static void S111_elements_4_gib_apart_are_each_reached(void **state) {
    (void)state;
    FAC_SCOPE(s);
    void *base;
    fac_tensor *t = far_apart(&base), *near = fac_tensor_of(10, 20, 30, 40, 50, 60);
    assert_values(fac_add(t, near), (double[]){11, 22, 33, 44, 55, 66}, REACHED);
    assert_values(fac_mul(near, fac_flip(t, FAC_INTS(0))), (double[]){60, 100, 120, 120, 100, 60}, REACHED);
    assert_non_null(fac_add_(t, near));
    assert_values(t, (double[]){11, 22, 33, 44, 55, 66}, REACHED);
    assert_true(((float *)base)[5 * FAR] == 66);
    assert_non_null(fac_copy_(t, near));
    assert_values(fac_gt(t, 25), (double[]){0, 0, 1, 1, 1, 1}, REACHED);
    assert_values(fac_to_dtype(t, FAC_I64), (double[]){10, 20, 30, 40, 50, 60}, REACHED);
    assert_true(fac_item(fac_sum(t)) == 210);
    leave(base);
}

static void S111_rows_and_columns_4_gib_apart_are_each_reached(void **state) {
    (void)state;
    FAC_SCOPE(s);
    void *base;
    fac_tensor *t = far_apart(&base), *column = fac_reshape(t, FAC_SHAPE(REACHED, 1)), *row = fac_tensor_of(1, 10, 100);
    const double want[] = {1, 10, 100, 2, 20, 200, 3, 30, 300, 4, 40, 400, 5, 50, 500, 6, 60, 600};
    assert_ptr_equal(fac_tensor_storage(column), fac_tensor_storage(t));
    assert_values(fac_mul(column, row), want, REACHED * 3);
    assert_values(fac_transpose(fac_mul(fac_transpose(column, 0, 1), fac_reshape(row, FAC_SHAPE(3, 1))), 0, 1), want,
                  REACHED * 3);
    assert_values(fac_sum(fac_expand(column, FAC_INTS(-1, 2)), .dim = 1), (double[]){2, 4, 6, 8, 10, 12}, REACHED);
    leave(base);
}

static void S111_outputs_of_more_elements_than_32_bits_count_are_planned(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const fac_device meta = fac_device_make(FAC_META, -1);
    fac_tensor *tall = fac_empty(FAC_SHAPE(1 << 20, 1, 4096), .device = meta, .dtype = FAC_F16),
               *wide = fac_empty(FAC_SHAPE(1 << 10, 1), .device = meta);
    fac_tensor *sum = fac_add(tall, wide), *turned = fac_neg(fac_permute(sum, FAC_INTS(2, 0, 1)));
    assert_no_error();
    assert_int_equal(fac_tensor_dtype(sum), FAC_F32);
    assert_true(fac_tensor_numel(sum) == INT64_C(1) << 42);
    assert_true(fac_tensor_stride(sum, 0) == INT64_C(1) << 22);
    assert_true(fac_tensor_stride(turned, 1) == INT64_C(1) << 22 && fac_tensor_stride(turned, 0) == 1);
}

/* A cursor that goes there, and one that walks there, over a float that is broadcast to 12 x 2^36 elements, and a row. */
static void S111_a_cursor_goes_beyond_2_31_elements(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_iter it;
    fac_cursor sought, walked;
    fac_tensor *one = fac_expand(fac_tensor_of(1), FAC_INTS(INT64_C(1) << 36, 12)),
               *row = fac_expand(fac_zeros(FAC_SHAPE(12)), FAC_INTS(INT64_C(1) << 36, 12));
    assert_no_error();
    fac_iter_begin(&it, FAC_ITER_PROMOTE);
    assert_ok(fac_iter_out(&it, fac__header(row)));
    assert_ok(fac_iter_in(&it, fac__header(one)));
    assert_ok(fac_iter_build(&it));
    assert_true(it.nest.count == INT64_C(12) << 36);
    const int64_t places[] = {(INT64_C(1) << 31) - 1, INT64_C(1) << 31, (INT64_C(1) << 32) + 7, it.nest.count - 1};
    for (size_t i = 0; i < FAC_COUNT(places); i++) {
        fac__nest_seek(&it.nest, it.n, places[i], &sought);
        assert_int_equal(sought.offset[0], places[i] % 12 * 4);
        assert_int_equal(sought.offset[1], 0);
        assert_true(sought.index[1] == places[i] / 12);
        fac__nest_seek(&it.nest, it.n, places[i] - 1000, &walked);
        fac__nest_advance(&it.nest, it.n, 1000, &walked);
        for (int k = 0; k < it.n; k++) assert_int_equal(walked.offset[k], sought.offset[k]);
        assert_true(walked.index[1] == sought.index[1]);
    }
}

/* A CUDA thread divides in 32 bits where index and size fit them, in 64 elsewhere: the offsets are the same. */
static void check_offsets(const int64_t *shape, int64_t i) {
    k_plan p = {.ndim = 3};
    const int64_t strides[2][3] = {{4, INT64_C(1) << 20, 12}, {INT64_C(1) << 28, 0, 8}};
    int64_t got[2], want[2] = {0}, rest = i;
    for (int d = 0; d < 3; rest /= shape[d++]) {
        p.shape[d] = shape[d];
        for (int k = 0; k < 2; k++) {
            p.op[k].strides[d] = strides[k][d];
            want[k] += rest % shape[d] * strides[k][d];
        }
    }
    k_offsets(&p, 2, i, got);
    for (int k = 0; k < 2; k++) assert_true(got[k] == want[k]);
}

static void S111_a_cuda_thread_finds_its_element_on_both_sides_of_2_31(void **state) {
    (void)state;
    const int64_t big = INT64_C(1) << 31;
    const int64_t shapes[][3] = {{3, 5, big}, {big - 1, 3, 4}, {big, 2, 2}, {big + 1, 2, 2}, {1, 2 * big + 1, 3}};
    const int64_t places[] = {0, 1, big - 2, big - 1, big, big + 1, 2 * big - 1, 2 * big, 2 * big + 1};
    for (size_t s = 0; s < FAC_COUNT(shapes); s++)
        for (size_t i = 0; i < FAC_COUNT(places); i++) check_offsets(shapes[s], places[i]);
}

FAC_TEST_MAIN(FAC_TEST(S111_elements_4_gib_apart_are_each_reached),
              FAC_TEST(S111_rows_and_columns_4_gib_apart_are_each_reached),
              FAC_TEST(S111_outputs_of_more_elements_than_32_bits_count_are_planned),
              FAC_TEST(S111_a_cursor_goes_beyond_2_31_elements),
              FAC_TEST(S111_a_cuda_thread_finds_its_element_on_both_sides_of_2_31))
