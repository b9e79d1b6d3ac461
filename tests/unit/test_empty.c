/* The one routine that makes empty tensors: what a device gives to it is an allocator and keys, and the rest is the same for all. The
   kinds here are the CPU with an allocator of the test's, one that the test makes up, and meta, which has no memory. */
#include "support/counted.h"
#include "support/support.h"

#include <facula/facula.h>
#include <stdlib.h>

static counted_allocator of_cpu, of_made_up, of_host;
static const fac_allocator *replaced;
static const fac_device cpu = {FAC_CPU, 0};

/* ---- the kind that is made up ------------------------------------------------------------------------------------- */

static int count(const fac_device_guard *g) {
    (void)g;
    return 2;
}
static fac_status get_device(const fac_device_guard *g, int *out_index) {
    (void)g;
    *out_index = 0;
    return FAC_OK;
}
static fac_status accept(const fac_device_guard *g, int index) {
    (void)g, (void)index;
    return FAC_OK;
}
static void ignore(const fac_device_guard *g, int index) { (void)g, (void)index; }
static const fac_allocator *allocator(const fac_device_guard *g, int index) {
    (void)g, (void)index;
    return &of_made_up.face;
}
static const fac_allocator *host_allocator(const fac_device_guard *g) {
    (void)g;
    return &of_host.face;
}
static fac_status copy(const fac_device_guard *g, fac_device to_device, void *to, fac_device from_device,
                       const void *from, int64_t bytes, bool non_blocking) {
    (void)g, (void)to_device, (void)from_device, (void)non_blocking;
    memmove(to, from, (size_t)bytes);
    return FAC_OK;
}
static const fac_device_guard made_up = {.size = sizeof made_up,
                                         .type = FAC_PRIVATE2,
                                         .count = count,
                                         .get_device = get_device,
                                         .set_device = accept,
                                         .set_device_unchecked = ignore,
                                         .synchronize = accept,
                                         .allocator = allocator,
                                         .host_allocator = host_allocator,
                                         .copy = copy};

static int empty_setup(void **state) {
    fac_shutdown();
    setenv("FACULA_CUDA", "off", 1); /* page-locked memory would be its, if there were a device */
    int failed = support_setup(state);
    counted_begin(&of_cpu);
    counted_begin(&of_made_up);
    counted_begin(&of_host);
    replaced = fac_allocator_get(FAC_CPU);
    if (failed || fac_allocator_set(FAC_CPU, &of_cpu.face) != FAC_OK) return -1;
    return fac_register_device_guard(&made_up) == FAC_OK ? 0 : -1;
}

static int empty_teardown(void **state) {
    assert_ok(fac_allocator_set(FAC_CPU, replaced));
    assert_true(of_cpu.live == 0 && of_made_up.live == 0 && of_host.live == 0);
    fac_shutdown();
    return support_teardown(state);
}
#define EMPTY_TEST(name) cmocka_unit_test_setup_teardown(name, empty_setup, empty_teardown)

/* ---- one routine ------------------------------------------------------------------------------------------------------ */

static const struct kind {
    fac_device device;
    fac_backend backend;
    counted_allocator *a; /* NULL: none */
} kinds[] = {{{FAC_CPU, 0}, FAC_BACKEND_CPU, &of_cpu},
             {{FAC_PRIVATE2, 2}, FAC_BACKEND_PRIVATE2, &of_made_up},
             {{FAC_META, 0}, FAC_BACKEND_META, NULL}};

static const struct shape {
    int ndim;
    int64_t numel, sizes[5];
    fac_memory_format format;
    int64_t strides[5];
} shapes[] = {{0, 1, {0}, FAC_CONTIGUOUS, {0}},
              {1, 0, {0}, FAC_CONTIGUOUS, {1}},
              {3, 0, {2, 0, 3}, FAC_CONTIGUOUS, {3, 3, 1}},
              {3, 24, {2, 3, 4}, FAC_CONTIGUOUS, {12, 4, 1}},
              {4, 120, {2, 3, 4, 5}, FAC_CHANNELS_LAST, {60, 1, 15, 3}},
              {5, 240, {2, 3, 4, 5, 2}, FAC_CHANNELS_LAST_3D, {120, 1, 30, 6, 3}}};

static void check_empty(const struct kind *k, const struct shape *w, fac_dtype d) {
    FAC_SCOPE(s);
    const int asked = k->a ? k->a->allocs : 0;
    fac_tensor *t =
        fac_empty(((fac_ints){w->sizes, (size_t)w->ndim}), .dtype = d, .device = k->device, .memory_format = w->format);
    assert_no_error();
    const int64_t bytes = w->numel * (int64_t)fac_dtype_size(d);
    assert_true(fac_tensor_keys(t) ==
                (fac__backend_bit(k->backend) | FAC_KS_DENSE | FAC_KS_AUTOGRAD | FAC_KS_ADINPLACEORVIEW));
    assert_true(fac_device_equal(fac_tensor_device(t), k->device));
    assert_int_equal(fac_tensor_dtype(t), d);
    assert_int_equal(fac_tensor_numel(t), w->numel);
    assert_int_equal(fac_tensor_ndim(t), w->ndim);
    for (int i = 0; i < w->ndim; i++) {
        assert_int_equal(fac_tensor_size(t, i), w->sizes[i]);
        assert_int_equal(fac_tensor_stride(t, i), w->strides[i]);
    }
    assert_true(fac_tensor_is_contiguous_as(t, w->format));
    assert_true(k->a ? k->a->allocs == asked + 1 && k->a->live == bytes : fac_tensor_storage(t) == NULL);
    if (k->a) assert_int_equal(fac_storage_bytes(fac_tensor_storage(t)), bytes);
}

static void E34_empty_is_the_same_routine_on_every_kind_of_device(void **state) {
    (void)state;
    for (size_t k = 0; k < FAC_COUNT(kinds); k++)
        for (size_t w = 0; w < FAC_COUNT(shapes); w++)
            for (int d = 1; d < FAC_DTYPE_COUNT; d++) check_empty(&kinds[k], &shapes[w], (fac_dtype)d);
    assert_int_equal(of_host.allocs, 0);
}

/* empty_cpu chooses the allocator by the flag; on another device it cannot be met. */
static void E34_empty_cpu_takes_page_locked_memory_where_asked(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *plain = fac_empty(FAC_SHAPE(3), .pin_memory = false), *pinned = fac_empty(3, .pin_memory = true);
    assert_no_error();
    assert_true(of_cpu.allocs == 1 && of_cpu.live == 12);
    assert_true(of_host.allocs == 1 && of_host.live == 12);
    assert_true(fac_device_equal(fac_tensor_device(pinned), cpu));
    assert_true(fac_tensor_keys(pinned) == fac_tensor_keys(plain));
    assert_null(fac_empty(3, .pin_memory = true, .device = fac_device_make(FAC_PRIVATE2, 0)));
    assert_error(FAC_ERR_ARGUMENT, "Only dense CPU tensors can be pinned");
    assert_int_equal(of_made_up.allocs, 0);
}

static void E34_empty_in_inference_mode_has_no_autograd_keys(void **state) {
    (void)state;
    FAC_INFERENCE(inference);
    FAC_SCOPE(s);
    for (size_t k = 0; k < FAC_COUNT(kinds); k++) {
        fac_tensor *t = fac_empty(2, .device = kinds[k].device);
        assert_no_error();
        assert_true(fac_tensor_keys(t) == (fac__backend_bit(kinds[k].backend) | FAC_KS_DENSE));
    }
}

static void E34_empty_that_cannot_be_asks_no_allocator(void **state) {
    (void)state;
    const int64_t half = INT64_C(1) << 62;
    for (size_t k = 0; k < FAC_COUNT(kinds); k++) {
        const fac_device d = kinds[k].device;
        assert_null(fac_empty(FAC_SHAPE(2, -1), .device = d));
        assert_error(FAC_ERR_SHAPE, "-1");
        assert_null(fac_empty(FAC_SHAPE(half, 4), .device = d));
        assert_error(FAC_ERR_OVERFLOW, "");
        assert_null(fac_empty(FAC_SHAPE(half), .device = d)); /* the elements can be counted, the bytes cannot */
        assert_error(FAC_ERR_OVERFLOW, "");
        assert_null(fac_empty(2, .dtype = (fac_dtype)77, .device = d));
        assert_error(FAC_ERR_ARGUMENT, "77");
        assert_null(fac_empty(2, .device = d, .layout = FAC_SPARSE_BSR));
        assert_error(FAC_ERR_UNSUPPORTED, "strided");
        assert_null(fac_empty(FAC_SHAPE(2, 2), .device = d, .memory_format = FAC_CHANNELS_LAST));
        assert_error(FAC_ERR_ARGUMENT, "rank 4");
    }
    assert_true(of_cpu.allocs == 0 && of_made_up.allocs == 0);
}

FAC_TEST_MAIN(EMPTY_TEST(E34_empty_is_the_same_routine_on_every_kind_of_device),
              EMPTY_TEST(E34_empty_cpu_takes_page_locked_memory_where_asked),
              EMPTY_TEST(E34_empty_in_inference_mode_has_no_autograd_keys),
              EMPTY_TEST(E34_empty_that_cannot_be_asks_no_allocator))
