/* The layers under a handle (tensor, storage, allocator) and what each counts: handles kept and released count on the tensor, tensors
   on the storage, and only storages ask the allocator, which is the test's own here. In inference mode that is all; elsewhere a
   view holds a reference of its base, for the sake of gradients. */
#include "support/counted.h"
#include "support/support.h"
#include <facula/facula.h>

static counted_allocator counted;
static const fac_allocator *replaced;

static int layers_setup(void **state) {
    int failed = support_setup(state);
    counted_begin(&counted);
    replaced = fac_allocator_get(FAC_CPU);
    return failed ? failed : fac_allocator_set(FAC_CPU, &counted.face) != FAC_OK;
}

static int layers_teardown(void **state) {
    assert_ok(fac_allocator_set(FAC_CPU, replaced));
    assert_int_equal(counted.allocs, counted.frees);
    assert_int_equal(counted.live, 0);
    return support_teardown(state);
}
#define LAYERS_TEST(name) cmocka_unit_test_setup_teardown(name, layers_setup, layers_teardown)

static int tensor_count(fac_tensor *handle) { return fac__header(handle)->refs; }
static int64_t storage_count(fac_tensor *handle) { return fac_storage_use_count(fac_tensor_storage(handle)); }

/* ---- one layer at a time -------------------------------------------------------------------------------------------- */

static void S007_a_kept_handle_counts_on_the_tensor_alone(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_empty(FAC_SHAPE(2, 3));
    assert_no_error();
    const int before = tensor_count(t);
    for (int i = 1; i <= 5; i++) {
        assert_ptr_equal(fac_keep(t), t);
        assert_int_equal(tensor_count(t), before + i);
    }
    assert_int_equal(storage_count(t), 1);
    assert_int_equal(counted.allocs, 1);
    assert_int_equal(counted.live, fac_storage_bytes(fac_tensor_storage(t)));
    for (int i = 0; i < 5; i++) fac_release(t);
    assert_int_equal(tensor_count(t), before);
    assert_int_equal(counted.frees, 0);
}

static void S007_a_view_is_a_tensor_that_counts_on_the_storage_alone(void **state) {
    (void)state;
    FAC_INFERENCE(inference);
    FAC_SCOPE(s);
    fac_tensor *base = fac_ones(FAC_SHAPE(4, 4)), *list[6] = {base};
    list[1] = fac_select(base, 0, 1);
    list[2] = fac_transpose(base, 0, 1);
    list[3] = fac_view(base, FAC_INTS(16));
    list[4] = fac_detach(base);
    list[5] = fac_select(list[2], 0, 1);
    assert_no_error();
    for (int i = 0; i < 6; i++) {
        assert_int_equal(tensor_count(list[i]), 1);
        assert_ptr_equal(fac_tensor_storage(list[i]), fac_tensor_storage(base));
        for (int k = 0; k < i; k++) assert_ptr_not_equal(list[i], list[k]);
    }
    assert_int_equal(storage_count(base), 6);
    assert_int_equal(counted.allocs, 1);
    fac_drop(list[5]);
    assert_int_equal(storage_count(base), 5);
    assert_int_equal(counted.frees, 0);
}

static void S007_a_view_outside_inference_mode_counts_on_its_base_too(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *base = fac_ones(FAC_SHAPE(4, 4)), *view = fac_select(base, 0, 1), *of_view = fac_select(view, 0, 1);
    assert_no_error();
    assert_int_equal(tensor_count(base), 3);
    assert_int_equal(tensor_count(view), 1); /* a view of a view has the same base */
    assert_non_null(fac_detach(base));
    assert_int_equal(tensor_count(base), 3);
    assert_int_equal(storage_count(base), 4);
    fac_drop(of_view);
    assert_int_equal(tensor_count(base), 2);
}

static void S007_a_copy_asks_the_allocator_once_for_each_storage(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_ones(FAC_SHAPE(3, 5)), *copy = fac_clone(t);
    assert_no_error();
    assert_int_equal(counted.allocs, 2);
    assert_ptr_not_equal(fac_tensor_data(copy), fac_tensor_data(t));
    assert_int_equal(storage_count(t), 1);
    assert_int_equal(storage_count(copy), 1);
    fac_drop(copy);
    assert_int_equal(counted.frees, 1);
}

/* The last to let go is not the tensor that the memory was made for, which has gone before. */
static void S007_memory_goes_with_the_last_tensor_over_it(void **state) {
    (void)state;
    fac_tensor *first, *last;
    {
        FAC_SCOPE(s);
        first = fac_ones(FAC_SHAPE(2, 3));
        last = fac_keep(fac_detach(first));
        assert_no_error();
    }
    assert_int_equal(fac_tensor_ndim(first), 0);
    assert_error(FAC_ERR_STATE, "");
    assert_int_equal(storage_count(last), 1);
    assert_int_equal(counted.frees, 0);
    assert_true(((const float *)fac_tensor_data(last))[5] == 1);
    fac_release(last);
    assert_int_equal(counted.frees, 1);
}

static void S007_a_meta_tensor_has_no_storage_under_it(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_empty(FAC_SHAPE(1000, 1000), .device = fac_device_make(FAC_META, -1));
    assert_non_null(fac_transpose(t, 0, 1));
    assert_no_error();
    assert_null(fac_tensor_storage(t));
    assert_int_equal(counted.allocs, 0);
}

/* ---- all layers against a model --------------------------------------------------------------------------------------- */

enum { SLOTS = 12, STEPS = 2000 };

/* What a slot holds, if anything: a handle, the number of its tensor and of its storage. */
typedef struct held {
    fac_tensor *handle;
    int tensor, storage;
} held;

static int count_slots(const held *slots, int tensor) {
    int n = 0;
    for (int i = 0; i < SLOTS; i++) n += slots[i].handle && slots[i].tensor == tensor;
    return n;
}

/* Tensors over a storage; -1: storages. */
static int count_apart(const held *slots, int storage) {
    int n = 0;
    for (int i = 0; i < SLOTS; i++) {
        bool again = !slots[i].handle || (storage >= 0 && slots[i].storage != storage);
        for (int k = 0; k < i && !again; k++)
            again = slots[k].handle &&
                    (storage < 0 ? slots[k].storage == slots[i].storage : slots[k].tensor == slots[i].tensor);
        n += !again;
    }
    return n;
}

static void agree(const held *slots) {
    for (int i = 0; i < SLOTS; i++) {
        if (!slots[i].handle) continue;
        assert_int_equal(tensor_count(slots[i].handle), count_slots(slots, slots[i].tensor));
        assert_int_equal(storage_count(slots[i].handle), count_apart(slots, slots[i].storage));
    }
    assert_int_equal(counted.allocs - counted.frees, count_apart(slots, -1));
}

/* Fills a slot that is empty from another: with the same handle, a view, a copy, or with something new. */
static void fill(held *to, const held *from, unsigned what, int *made) {
    FAC_SCOPE(s);
    *to = *from;
    if (!from->handle || what == 3)
        *to = (held){fac_zeros(FAC_SHAPE(2, 2)), ++*made, *made};
    else if (what == 1)
        *to = (held){fac_transpose(from->handle, 0, 1), ++*made, from->storage};
    else if (what == 2)
        *to = (held){fac_clone(from->handle), ++*made, *made};
    assert_no_error();
    fac_keep(to->handle);
}

static void S007_counts_of_every_layer_agree_with_a_model(void **state) {
    (void)state;
    FAC_INFERENCE(inference);
    held slots[SLOTS] = {{0}};
    unsigned seed = 1;
    int made = 0;
    for (int step = 0; step < STEPS; step++) {
        seed = seed * 1664525u + 1013904223u;
        held *to = &slots[(seed >> 24) % SLOTS], *from = &slots[(seed >> 20) % SLOTS];
        if (!to->handle) {
            fill(to, from, seed >> 16 & 3, &made);
        } else {
            fac_release(to->handle);
            to->handle = NULL;
        }
        agree(slots);
    }
    for (int i = 0; i < SLOTS; i++) fac_release(slots[i].handle);
    assert_true(made > STEPS / 8);
}

FAC_TEST_MAIN(LAYERS_TEST(S007_a_kept_handle_counts_on_the_tensor_alone),
              LAYERS_TEST(S007_a_view_is_a_tensor_that_counts_on_the_storage_alone),
              LAYERS_TEST(S007_a_view_outside_inference_mode_counts_on_its_base_too),
              LAYERS_TEST(S007_a_copy_asks_the_allocator_once_for_each_storage),
              LAYERS_TEST(S007_memory_goes_with_the_last_tensor_over_it),
              LAYERS_TEST(S007_a_meta_tensor_has_no_storage_under_it),
              LAYERS_TEST(S007_counts_of_every_layer_agree_with_a_model))
