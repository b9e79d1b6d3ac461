/* Storages: fields, references, growth, the user's own memory. */
#include "core/read.h"
#include "core/storage.h"
#include "core/tensor_make.h"
#include "support/support.h"
#include <pthread.h>

static const fac_device cpu = {FAC_CPU, 0};

static void S002_storage_carries_pointer_size_device_and_allocator(void **state) {
    (void)state;
    fac_storage *s;
    assert_ok(fac__storage_new(fac__thread(), cpu, 100, NULL, &s));
    assert_non_null(fac_storage_data(s));
    assert_int_equal(fac_storage_bytes(s), 100);
    assert_true(fac_device_equal(fac_storage_device(s), cpu));
    assert_int_equal(fac_storage_use_count(s), 1);
    assert_ptr_equal(s->allocator, fac_allocator_get(FAC_CPU));
    memset(fac_storage_data(s), 1, 100);
    fac__storage_unref(s);
}

static void S002_storage_is_freed_once_with_its_last_view(void **state) {
    (void)state;
    fac_tensor *t, *views[3];
    assert_ok(fac__empty(FAC_INTS(4).v, 1, FAC_F32, cpu, &t));
    for (int i = 0; i < 3; i++) assert_ok(fac__alias(t, true, &views[i]));
    fac_storage *s = t->storage;
    assert_int_equal(fac_storage_use_count(s), 4);
    fac__unref(t);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fac_storage_use_count(s), 3 - i);
        fac__unref(views[i]);
    }
    assert_int_equal(fac_live(), 0);
}

static void storage_null_is_reported(void **state) {
    (void)state;
    assert_null(fac_storage_data(NULL));
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    assert_int_equal(fac_storage_bytes(NULL), 0);
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    assert_int_equal(fac_storage_device(NULL).type, FAC_DEVICE_UNSET);
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    assert_int_equal(fac_storage_use_count(NULL), 0);
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    fac__storage_unref(NULL);
    assert_null(fac__storage_ref(NULL));
}

/* Room for `bytes`, as resizing makes it. */
static fac_status grow(fac_storage *s, int64_t bytes) {
    fac_storage *larger;
    FAC_TRY(fac__storage_like(s, bytes, s->bytes, &larger));
    fac__storage_swap(s, larger);
    fac__storage_unref(larger);
    return FAC_OK;
}

static void storage_grows_and_keeps_its_bytes(void **state) {
    (void)state;
    fac_storage *s;
    assert_ok(fac__storage_new(fac__thread(), cpu, 4, NULL, &s));
    memcpy(s->data, "abc", 4);
    assert_ok(grow(s, 100000));
    assert_string_equal(s->data, "abc");
    assert_int_equal(s->bytes, 100000);
    fac__storage_unref(s);
}

static void storage_that_cannot_grow_is_unchanged(void **state) {
    (void)state;
    fac_storage *s;
    assert_ok(fac__storage_new(fac__thread(), cpu, 4, NULL, &s));
    char *data = s->data;
    assert_int_equal(grow(s, INT64_MAX / 2), FAC_ERR_MEMORY);
    assert_error(FAC_ERR_MEMORY, "4611686018427387903 bytes");
    assert_ptr_equal(s->data, data);
    assert_int_equal(s->bytes, 4);
    fac__storage_unref(s);
}

static void count_release(void *count) { ++*(int *)count; }

static void storage_over_the_users_memory_calls_release(void **state) {
    (void)state;
    fac_storage *s;
    int released = 0;
    char data[8];
    assert_ok(fac__storage_wrap(data, 8, cpu, count_release, &released, &s));
    assert_ptr_equal(fac_storage_data(s), data);
    fac__storage_ref(s);
    fac__storage_unref(s);
    assert_int_equal(released, 0);
    fac__storage_unref(s);
    assert_int_equal(released, 1);
    assert_ok(fac__storage_wrap(data, 8, cpu, NULL, NULL, &s));
    fac__storage_unref(s);
}

static void S008_storage_on_a_private_device_needs_an_allocator_and_copies(void **state) {
    (void)state;
    fac_device npu = fac_device_make(FAC_PRIVATE2, 0);
    fac_tensor *t;
    assert_int_equal(fac__empty(FAC_INTS(2).v, 1, FAC_F32, npu, &t), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "no back end has registered an allocator");
    assert_ok(fac_allocator_set(FAC_PRIVATE2, fac_allocator_immediate()));
    assert_ok(fac__empty(FAC_INTS(2).v, 1, FAC_F32, npu, &t));
    assert_int_equal(fac_tensor_read(fac__handle(t), FAC_F32, (float[2]){0}, 2), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "'private2' have no back end");
    assert_int_equal(fac__resize(t, FAC_INTS(9).v, 1), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "'private2' have no back end");
    assert_int_equal(t->numel, 2);
    fac__unref(t);
}

/* Many threads take and drop references of one storage; the last to leave frees it. */
static void *hold_and_drop(void *storage) {
    for (int i = 0; i < 20000; i++) {
        fac__storage_ref(storage);
        fac__storage_unref(storage);
    }
    fac__storage_unref(storage);
    return NULL;
}

static void storage_count_is_safe_between_threads(void **state) {
    (void)state;
    fac_storage *s;
    pthread_t threads[4];
    int released = 0;
    char data[8];
    assert_ok(fac__storage_wrap(data, 8, cpu, count_release, &released, &s));
    for (int i = 0; i < 4; i++) {
        fac__storage_ref(s);
        pthread_create(&threads[i], NULL, hold_and_drop, s);
    }
    fac__storage_unref(s);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(released, 1);
}

FAC_TEST_MAIN(FAC_TEST(S002_storage_carries_pointer_size_device_and_allocator),
              FAC_TEST(S002_storage_is_freed_once_with_its_last_view), FAC_TEST(storage_null_is_reported),
              FAC_TEST(storage_grows_and_keeps_its_bytes), FAC_TEST(storage_that_cannot_grow_is_unchanged),
              FAC_TEST(storage_over_the_users_memory_calls_release),
              FAC_TEST(S008_storage_on_a_private_device_needs_an_allocator_and_copies),
              FAC_TEST(storage_count_is_safe_between_threads))
