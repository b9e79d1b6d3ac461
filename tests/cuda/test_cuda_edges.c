/* What is legal but unusual, and what is not legal: host memory that changes after a copy, streams and devices that are not
   there, warning handlers that use the library, options that are not understood. */
#include "support/cuda.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

static void use(fac_tensor *t) { assert_non_null(t); }

static double first(fac_tensor *t) {
    double v[64] = {0};
    assert_non_null(t);
    assert_ok(fac_tensor_read(t, FAC_F64, v, (size_t)fac_tensor_numel(t)));
    return v[0];
}

/* ---- host memory ----------------------------------------------------------------------------------------------------------- */

/* Wherever the device rearranges what it gets, a blocking copy has read its source when it returns. */
static void S049_copy_blocking_lets_pinned_memory_change_afterwards(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *columns = fac_zeros(FAC_SHAPE(3, 2), .device = cuda_device(0));
    fac_tensor *rows = fac_zeros(FAC_SHAPE(4, 3), .device = cuda_device(0));
    fac_tensor *pinned = fac_pin_memory(fac_tensor_of(1, 2, 3)), *number = fac_pin_memory(fac_scalar_tensor(1.0));
    fac_tensor *const targets[] = {fac_select(columns, 1, 0), rows}; /* with gaps; broadcast */
    for (size_t i = 0; i < FAC_COUNT(targets); i++) {
        assert_ok(fac_synchronize(cuda_device(0)));
        fac_fill_(pinned, 1.0);
        assert_non_null(fac_copy_(targets[i], pinned));
        fac_fill_(pinned, 9.0);
        assert_true(first(targets[i]) == 1);
    }
    assert_non_null(fac_fill_(rows, number));
    fac_fill_(number, 9.0);
    assert_true(first(rows) == 1);
}

/* ---- streams and devices that are not there ---------------------------------------------------------------------------------- */

static void S041_default_stream_of_a_missing_device_is_an_error(void **state) {
    (void)state;
    int n = fac_cuda_device_count();
    fac_stream s = fac_default_stream(cuda_device(n));
    assert_int_equal(s.device.type, FAC_DEVICE_UNSET);
    assert_error(FAC_ERR_DEVICE, "there is no device cuda:");
    assert_int_equal(fac_default_stream(fac_device_make(FAC_CPU, -1)).device.type, FAC_CPU);
    assert_no_error();
}

static void S045_unset_streams_wait_for_nothing_and_say_so(void **state) {
    (void)state;
    support_need_devices(1);
    const fac_stream unset = {{0, 0}, 0}, real = fac_default_stream(cuda_device(0));
    fac_event *e = fac_event_new(FAC_CUDA);
    assert_int_equal(fac_stream_wait_event(unset, e), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "unset stream");
    assert_ok(fac_event_record(e, real));
    assert_int_equal(fac_stream_wait_event(unset, e), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "unset stream");
    assert_int_equal(fac_stream_wait_stream(unset, real), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "unset stream");
    assert_int_equal(fac_stream_wait_stream(real, unset), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "unset stream");
    fac_event_free(e);
}

/* Whatever is asked first starts the library, and fac_shutdown stops what was started. */
static void S031_first_question_starts_the_library(void **state) {
    (void)state;
    support_need_devices(1);
    fac_cuda_properties p;
    fac_shutdown();
    assert_true(fac_device_is_available(FAC_CUDA));
    fac_shutdown();
    assert_true(fac_device_equal(fac_current_device(FAC_CUDA), cuda_device(0)));
    fac_shutdown();
    assert_ok(fac_set_device(cuda_device(0)));
    fac_shutdown();
    fac_event *e = fac_event_new(FAC_CUDA);
    assert_non_null(e);
    fac_event_free(e);
    fac_shutdown();
    assert_true(fac_cuda_is_available());
    assert_non_null(fac__cu.cuInit);
    fac_shutdown();
    assert_null(fac__cu.cuInit);
    assert_ok(fac_cuda_get_properties(0, &p));
    assert_non_null(fac__cu.cuInit);
    fac_shutdown();
    assert_null(fac__cu.cuInit);
}

/* ---- options -------------------------------------------------------------------------------------------------------------------- */

/* Asks what asks for the start, in the middle of which the warning came up. */
static void ask_why(void *context, const char *message) {
    if (strstr(message, "cudaMallocAsync ignores")) ++*(int *)context;
    assert_string_equal(fac_cuda_why_unavailable(), "");
}

static void S211_warning_of_ignored_options_comes_once_and_may_use_the_library(void **state) {
    (void)state;
    support_need_devices(1);
    int warned = 0;
    fac_set_warning_handler(ask_why, &warned);
    support_restart_with("FACULA_CUDA_ALLOC_CONF", "backend:cudaMallocAsync,max_split_size_mb:40");
    {
        FAC_SCOPE(s);
        assert_true(first(fac_ones(FAC_SHAPE(2), .device = cuda_device(0))) == 1);
    }
    assert_int_equal(warned, 1);
    assert_ok(fac_cuda_set_allocator_settings("backend:cudaMallocAsync,roundup_power2_divisions:4"));
    assert_int_equal(warned, 2);
    support_restart_with("FACULA_CUDA_ALLOC_CONF", NULL);
    fac_set_warning_handler(NULL, NULL);
}

/* ---- the race checker ---------------------------------------------------------------------------------------------------------- */

static void plant_race(void) {
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_SHAPE(100), .device = cuda_device(0));
    FAC_STREAM_SCOPE(on, fac_stream_new(cuda_device(0), 0));
    fac_add_(x, 1.0);
}

/* Asks the checker, and runs an operator. */
static void ask(void *context, const char *message) {
    (void)message;
    FAC_SCOPE(s);
    *(size_t *)context = fac_cuda_race_count();
    assert_true(fac_item(fac_sum(fac_ones(FAC_SHAPE(3), .device = cuda_device(1)))) == 3);
}

static void X27_warning_handler_may_use_the_library(void **state) {
    (void)state;
    support_need_devices(2);
    size_t asked = 0;
    fac_set_warning_handler(ask, &asked);
    assert_ok(fac_cuda_set_race_mode(FAC_RACE_REPORT));
    plant_race();
    assert_int_equal(asked, 1);
    fac_set_warning_handler(NULL, NULL);
    assert_ok(fac_synchronize(cuda_device(0)));
    assert_ok(fac_cuda_set_race_mode(FAC_RACE_OFF));
}

/* A freed block is poisoned while its cache is locked: what that finds is told once the lock is free. */
static void X27_race_with_a_poisoned_block_is_told_outside_the_cache(void **state) {
    (void)state;
    support_need_devices(2);
    size_t asked = 0;
    support_restart_with("FACULA_CUDA_POISON", "1");
    fac_set_warning_handler(ask, &asked);
    assert_ok(fac_cuda_set_race_mode(FAC_RACE_REPORT));
    {
        FAC_SCOPE(s);
        fac_tensor *x = fac_ones(FAC_SHAPE(100), .device = cuda_device(1));
        fac_stream side = fac_stream_new(cuda_device(1), 0);
        assert_ok(fac_stream_wait_stream(side, fac_default_stream(cuda_device(1))));
        {
            FAC_STREAM_SCOPE(on, side);
            use(fac_neg(x));
        }
        fac_drop(x);
        assert_int_equal(fac_cuda_race_count(), 1);
        use(fac_ones(FAC_SHAPE(7), .device = cuda_device(1)));
        assert_int_equal(asked, 1);
    }
    assert_ok(fac_synchronize(cuda_device(1)));
    assert_ok(fac_cuda_set_race_mode(FAC_RACE_OFF));
    fac_set_warning_handler(NULL, NULL);
    support_restart_with("FACULA_CUDA_POISON", NULL);
}

static void ignore(void *context, const char *message) { (void)context, (void)message; }

static void X27_strings_of_a_race_stay_while_others_are_found(void **state) {
    (void)state;
    support_need_devices(1);
    fac_race before, after;
    fac_set_warning_handler(ignore, NULL);
    assert_ok(fac_cuda_set_race_mode(FAC_RACE_ERROR)); /* files every race, also of known places */
    for (int i = 0; i < 100; i++) {
        plant_race();
        assert_error(FAC_ERR_STATE, "stream race");
        if (i == 0) assert_true(fac_cuda_race_get(0, &before));
    }
    assert_true(fac_cuda_race_get(0, &after));
    assert_ptr_equal(before.later.op, after.later.op);
    assert_ptr_equal(before.text, after.text);
    assert_non_null(strstr(before.later.op, "add_"));
    fac_set_warning_handler(NULL, NULL);
    assert_ok(fac_synchronize(cuda_device(0)));
    assert_ok(fac_cuda_set_race_mode(FAC_RACE_OFF));
}

typedef struct other_thread {
    fac_stream stream;
    sem_t waited, end;
} other_thread;

/* Waits for the stream, and finds the freed block's mark reached: the block may be reused. */
static void *wait_there(void *context) {
    other_thread *o = context;
    fac_status st = fac_stream_synchronize(o->stream);
    {
        FAC_SCOPE(s);
        if (st == FAC_OK && !fac_empty(FAC_SHAPE(1), .device = cuda_device(0))) st = fac_error();
    }
    sem_post(&o->waited);
    sem_wait(&o->end);
    return st == FAC_OK ? context : NULL;
}

static void X27_memory_that_another_thread_found_free_is_no_race(void **state) {
    (void)state;
    support_need_devices(1);
    pthread_t thread;
    void *good;
    other_thread o = {.stream = fac_stream_new(cuda_device(0), 0)};
    assert_ok(fac_cuda_set_race_mode(FAC_RACE_ERROR));
    sem_init(&o.waited, 0, 0);
    sem_init(&o.end, 0, 0);
    FAC_SCOPE(s);
    fac_tensor *old = fac_ones(FAC_SHAPE(1000), .device = cuda_device(0));
    const void *address = fac_tensor_data(old);
    assert_ok(fac_stream_wait_stream(o.stream, fac_default_stream(cuda_device(0))));
    {
        FAC_STREAM_SCOPE(on, o.stream);
        use(fac_neg(old));
    }
    assert_ok(fac_record_stream(old, o.stream));
    fac_drop(old);
    assert_int_equal(pthread_create(&thread, NULL, wait_there, &o), 0);
    sem_wait(&o.waited);
    fac_tensor *again = fac_ones(FAC_SHAPE(1000), .device = cuda_device(0));
    assert_no_error();
    assert_ptr_equal(fac_tensor_data(again), address);
    sem_post(&o.end);
    pthread_join(thread, &good);
    assert_non_null(good);
    assert_ok(fac_synchronize(cuda_device(0)));
    assert_ok(fac_cuda_set_race_mode(FAC_RACE_OFF));
}

static void X27_checker_option_that_is_not_understood_is_an_error_each_time(void **state) {
    (void)state;
    support_need_devices(1);
    const char *was = getenv("FACULA_CUDA_SANITIZER");
    char saved[16];
    snprintf(saved, sizeof saved, "%s", was ? was : "");
    support_restart_with("FACULA_CUDA_SANITIZER", "perhaps");
    for (int i = 0; i < 2; i++) {
        FAC_SCOPE(s);
        assert_null(fac_ones(FAC_SHAPE(2), .device = cuda_device(0)));
        assert_error(FAC_ERR_ARGUMENT, "FACULA_CUDA_SANITIZER is 'perhaps'");
    }
    assert_non_null(strstr(fac_cuda_why_unavailable(), "perhaps"));
    support_restart_with("FACULA_CUDA_SANITIZER", was ? saved : NULL);
    FAC_SCOPE(s);
    assert_true(first(fac_ones(FAC_SHAPE(2), .device = cuda_device(0))) == 1);
}

FAC_TEST_MAIN(FAC_CUDA_TEST(S049_copy_blocking_lets_pinned_memory_change_afterwards),
              FAC_CUDA_TEST(S041_default_stream_of_a_missing_device_is_an_error),
              FAC_CUDA_TEST(S045_unset_streams_wait_for_nothing_and_say_so),
              FAC_CUDA_TEST(S031_first_question_starts_the_library),
              FAC_CUDA_TEST(S211_warning_of_ignored_options_comes_once_and_may_use_the_library),
              FAC_CUDA_TEST(X27_warning_handler_may_use_the_library),
              FAC_CUDA_TEST(X27_race_with_a_poisoned_block_is_told_outside_the_cache),
              FAC_CUDA_TEST(X27_strings_of_a_race_stay_while_others_are_found),
              FAC_CUDA_TEST(X27_memory_that_another_thread_found_free_is_no_race),
              FAC_CUDA_TEST(X27_checker_option_that_is_not_understood_is_an_error_each_time))
