/* How long a training step waits for its batch: small convolutional network, images that four workers crop, turn and normalise. The
   share is printed. FACULA_LOADER_WAITING is the most it may be, in percent: 2 by hand on an idle machine, and more where the tests share
   one with other programs; the time of processors is judged everywhere. */
#include "base/sanitizers.h"
#include "support/support.h"

#include <dirent.h>
#include <facula/facula.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { IMAGES = 4096, SIDE = 40, PART = 32, BATCH = 64, EPOCHS = 3, WORKERS = 4, MOST_WAITING = 25 };

static double clock_of(clockid_t which) {
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static fac_status augment(void *context, const fac_sample *at, fac_tensors in, fac_tensor **out) {
    (void)context;
    fac_tensor *x = fac_image_random_flip(fac_image_random_crop(in.v[0], PART, PART, at->seed), at->seed + 1);
    out[0] = fac_image_normalize(fac_image_to_float(x), FAC_FLOATS(0.5, 0.45, 0.4), FAC_FLOATS(0.2));
    out[1] = in.v[1];
    return fac_error();
}

static fac_dataset *images(void) {
    FAC_SCOPE(s);
    fac_tensor *pixels = fac_randint(256, FAC_SHAPE(IMAGES, 3, SIDE, SIDE), .dtype = FAC_U8);
    fac_dataset *d = fac_dataset_of_tensors(FAC_TENSORS(pixels, fac_randint(10, FAC_SHAPE(IMAGES))));
    fac_dataset *changed = fac_dataset_map(d, augment, NULL, 2);
    fac_dataset_release(d);
    return changed;
}

static fac_module *network(void) {
    return fac_sequential(fac_conv2d_new(3, 16, 3, .padding = 1), fac_relu_new(), fac_max_pool2d_new(2),
                          fac_conv2d_new(16, 32, 3, .padding = 1), fac_relu_new(), fac_max_pool2d_new(2),
                          fac_flatten_new(), fac_linear_new(32 * 8 * 8, 10));
}

static void step(fac_module *m, fac_optimizer *o, fac_tensor **batch) {
    fac_tensor *loss = fac_cross_entropy(fac_forward(m, batch[0]), batch[1]);
    fac_optimizer_zero_grad(o);
    assert_ok(fac_backward(loss));
    assert_ok(fac_optimizer_step(o));
}

/* Seconds of an epoch: on the clock, and of processors, which other programs do not change. */
typedef struct seconds {
    double waited, all;              /* on the clock, in fac_loader_next and altogether */
    double asking, training, making; /* of a processor: in fac_loader_next, in the rest of this thread, in others */
} seconds;

/* The first step waits while threads start, and does not count. */
static seconds time_epoch(fac_loader *l, fac_module *m, fac_optimizer *o) {
    seconds s = {0};
    double begun = 0, of_thread = 0, of_process = 0;
    for (int64_t i = 0;; i++) {
        FAC_SCOPE(scope);
        fac_tensor *batch[2];
        const double at = clock_of(CLOCK_MONOTONIC), used = clock_of(CLOCK_THREAD_CPUTIME_ID);
        const bool there = fac_loader_next(l, batch);
        if (i > 0) s.waited += clock_of(CLOCK_MONOTONIC) - at;
        if (i > 0) s.asking += clock_of(CLOCK_THREAD_CPUTIME_ID) - used;
        if (!there) break;
        step(m, o, batch);
        if (i > 0) continue;
        begun = clock_of(CLOCK_MONOTONIC);
        of_thread = clock_of(CLOCK_THREAD_CPUTIME_ID);
        of_process = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    }
    assert_no_error();
    s.all = clock_of(CLOCK_MONOTONIC) - begun;
    s.training = clock_of(CLOCK_THREAD_CPUTIME_ID) - of_thread - s.asking;
    s.making = clock_of(CLOCK_PROCESS_CPUTIME_ID) - of_process - s.asking - s.training;
    return s;
}

static void training_steps_hardly_wait_for_batches(void **state) {
    (void)state;
    const char *wanted = getenv("FACULA_LOADER_WAITING");
    const int threads = fac_num_threads();
    assert_ok(fac_set_num_threads(1)); /* the workers have the other cores */
    fac_dataset *d = images();
    fac_loader *l = fac_loader_of(d, BATCH, true, .num_workers = WORKERS);
    fac_module *m = network();
    fac_optimizer *o = fac_sgd_new(m, 0.01);
    double least = 100, asking = 100, making = 1e9;
    for (int i = 0; i < EPOCHS; i++) {
        const seconds s = time_epoch(l, m, o);
        print_message(
            "epoch %d: steps wait %.2f %% of the time; of processors, asking takes %.2f %% as long as training, and "
            "the workers %.1f %%\n",
            i, 100 * s.waited / s.all, 100 * s.asking / s.training, 100 * s.making / s.training);
        least = fmin(least, 100 * s.waited / s.all);
        asking = fmin(asking, 100 * s.asking / s.training);
        making = fmin(making, 100 * s.making / s.training);
    }
#if FAC_UNDER_ASAN || FAC_UNDER_TSAN
    (void)wanted, (void)least, (void)asking, (void)making;
#else
    assert_true(asking < 2);
    assert_true(making < 100); /* else one core could not keep up */
    assert_true(least < (wanted ? strtod(wanted, NULL) : MOST_WAITING));
#endif
    fac_optimizer_release(o);
    fac_module_release(m);
    fac_loader_release(l);
    fac_dataset_release(d);
    assert_ok(fac_set_num_threads(threads));
}

/* ---- a slow disk, and an end in the middle ------------------------------------------------------------------------------- */

enum { SLOW_SAMPLES = 60 };

/* Some samples take up to 20 ms, as from a disk that has other things to do. */
static fac_status read_slowly(void *context, const fac_sample *at, fac_tensor **out) {
    atomic_fetch_add((atomic_int *)context, 1);
    usleep((useconds_t)(at->index % 7 == 0 ? 20000 : at->index % 3 * 500));
    out[0] = fac_full(FAC_SHAPE(3), (double)at->index);
    return fac_error();
}

static int threads_there(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    if (!d) return 0;
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static void slow_samples_keep_their_order(void **state) {
    (void)state;
    atomic_int asked = 0;
    const fac_dataset_class cls = {.size = sizeof cls, .name = "disk", .get = read_slowly};
    fac_dataset *d = fac_dataset_new(&cls, &asked, SLOW_SAMPLES, 1);
    fac_loader *l = fac_loader_of(d, 4, .num_workers = WORKERS);
    assert_no_error();
    float x[3];
    for (int64_t i = 0; i < SLOW_SAMPLES; i += 4) {
        FAC_SCOPE(s);
        fac_tensor *batch[1];
        assert_true(fac_loader_next(l, batch));
        for (int64_t k = 0; k < 4; k++) {
            assert_ok(fac_tensor_read(fac_select(batch[0], 0, k), FAC_F32, x, 3));
            assert_true(x[0] == (float)(i + k) && x[2] == x[0]);
        }
    }
    assert_int_equal(atomic_load(&asked), SLOW_SAMPLES);
    fac_loader_release(l);
    fac_dataset_release(d);
}

static void *cancel_soon(void *context) {
    usleep(3000);
    assert_true(fac_cancel(*(int64_t *)context)); /* as a handler of Ctrl-C does */
    return NULL;
}

static void cancelled_loader_ends_with_its_threads(void **state) {
    (void)state;
    const int before = threads_there();
    for (int round = 0; round < 5; round++) {
        atomic_int asked = 0;
        const fac_dataset_class cls = {.size = sizeof cls, .name = "disk", .get = read_slowly};
        fac_dataset *d = fac_dataset_new(&cls, &asked, SLOW_SAMPLES, 1);
        fac_loader *l = fac_loader_of(d, 4, .num_workers = WORKERS);
        int64_t self = fac_thread_number();
        pthread_t thread;
        assert_no_error();
        assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &self), 0);
        while (!fac_error()) { /* epoch after epoch */
            FAC_SCOPE(s);
            fac_tensor *batch[1];
            (void)fac_loader_next(l, batch);
        }
        pthread_join(thread, NULL);
        assert_error(FAC_ERR_INTERRUPTED, "cancelled");
        fac_loader_release(l); /* while its workers are at their samples */
        fac_dataset_release(d);
        for (int i = 0; i < 100 && threads_there() > before; i++) usleep(1000); /* until the system has noticed */
        assert_int_equal(threads_there(), before);
    }
}

static fac_status number_alone(void *context, const fac_sample *at, fac_tensor **out) {
    (void)context;
    out[0] = fac_full(FAC_SHAPE(), (double)at->index, .dtype = FAC_I64);
    return fac_error();
}

static void each_of_a_million_shuffled_samples_comes_once(void **state) {
    (void)state;
    const int64_t n = 1000000;
    const fac_dataset_class cls = {.size = sizeof cls, .get = number_alone};
    fac_dataset *d = fac_dataset_new(&cls, NULL, n, 1);
    fac_loader *l = fac_loader_of(d, 500, true, .num_workers = WORKERS);
    unsigned char *seen = calloc((size_t)n, 1);
    assert_non_null(seen);
    int64_t in_place = 0, at = 0;
    for (;;) {
        FAC_SCOPE(s);
        fac_tensor *batch[1];
        if (!fac_loader_next(l, batch)) break;
        const int64_t *labels = fac_tensor_data(batch[0]);
        for (int64_t i = 0; i < 500; i++, at++) {
            in_place += labels[i] == at;
            if (seen[labels[i]]++) fail_msg("sample %lld came twice", (long long)labels[i]);
        }
    }
    assert_no_error();
    assert_int_equal(at, n);
    assert_true(in_place < 100);
    free(seen);
    fac_loader_release(l);
    fac_dataset_release(d);
}

FAC_TEST_MAIN(FAC_TEST(training_steps_hardly_wait_for_batches), FAC_TEST(slow_samples_keep_their_order),
              FAC_TEST(cancelled_loader_ends_with_its_threads), FAC_TEST(each_of_a_million_shuffled_samples_comes_once))
