/* How much stack the library takes: threads of other languages and of small systems may have 64 KiB. Frames of sanitizers and
   of builds without optimisation are larger, and are not measured. */
#include "base/sanitizers.h"
#include "core/thread.h"
#include "support/samples.h"
#include "support/support.h"
#include <facula/facula.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAINTED = 1 << 20, PAINT = 0xa5, MOST = 52 << 10, SMALL = 64 << 10 };

#if defined(__OPTIMIZE__) && !FAC_UNDER_ASAN && !FAC_UNDER_TSAN
#define MEASURED 1
#else
#define MEASURED 0
#endif

static void need_plain_frames(void) {
    if (MEASURED) return;
    print_message("skipped: frames of this build are larger than those of a release\n");
    skip();
}

/* Some machines have no stacks that are so small. */
static size_t least_stack(size_t bytes) {
    long least = sysconf(_SC_THREAD_STACK_MIN);
    return least > (long)bytes ? (size_t)least : bytes;
}

static void run_on(void *stack, size_t bytes, void *(*fn)(void *), void *context) {
    pthread_attr_t a;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&a), 0);
    assert_int_equal(
        stack ? pthread_attr_setstack(&a, stack, bytes) : pthread_attr_setstacksize(&a, least_stack(bytes)), 0);
    assert_int_equal(pthread_create(&thread, &a, fn, context), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&a);
}

/* ---- every operator ---------------------------------------------------------------------------------------------------- */

static void *call_sample(void *context) {
    if (sample_try(context, fac_device_make(FAC_CPU, -1)) != FAC_OK) fac_error_clear();
    fac__thread_end();
    return NULL;
}

static void *call_nothing(void *context) { return context; }

static size_t bytes_used(unsigned char *stack, void *(*fn)(void *), void *context) {
    size_t untouched = 0;
    memset(stack, PAINT, PAINTED);
    run_on(stack, PAINTED, fn, context);
    while (untouched < PAINTED && stack[untouched] == PAINT) untouched++;
    return PAINTED - untouched;
}

/* What takes other ways with more elements. */
static const char *const large[] = {
    "sort(f32[100000])",
    "sort(f64[100,1000], 1, True)",
    "topk(f16[100,1000], 5, 1)",
    "unique_dim(i64[40,20], 0)",
    "mm(f32[300,300], f32[300,300])",
    "mm(bf16[300,300]:[1,300], bf16[300,300]:[1,300])",
    "mm(c128[100,100], c128[100,100])",
    "mv(f16[3000,200], f16[200])",
    "convolution(f64[4,16,30,30], f64[16,16,3,3], f64[16], [1,1], [1,1], [1,1], False, [0,0], 1)",
    "convolution(f32[4,16,30,30], f32[32,16,3,3], f32[32], [1,1], [1,1], [1,1], False, [0,0], 1)",
    "addcmul(f16[400,400]:[1,400], f32[400,400]:[1,400], f64[400,400]:[1,400], 0.5)",
    "_softmax(bf16[400,400]:[1,400], 1, False)",
};

static void stack_use_of_every_operator_is_small(void **state) {
    (void)state;
    need_plain_frames();
    static sample_call c;
    sample_set samples;
    size_t most = 0, over = 0;
    unsigned char *stack = mmap(NULL, PAINTED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(stack != MAP_FAILED);
    assert_true(samples_load(&samples));
    const size_t of_a_thread = bytes_used(stack, call_nothing, NULL);
    for (size_t i = 0; i < FAC_COUNT(large); i++) assert_true(samples_add(&samples, large[i]));
    for (size_t i = 0; i < samples.n; i++) {
        assert_true(sample_parse(samples.texts[i], &c, NULL));
        const size_t used = bytes_used(stack, call_sample, &c) - of_a_thread;
        if (used > most) most = used;
        if (used > MOST && over++ < 20) print_error("%zu bytes of stack: %s\n", used, samples.texts[i]);
    }
    print_message("%zu calls, at most %zu bytes of stack\n", samples.n, most);
    samples_free(&samples);
    munmap(stack, PAINTED);
    assert_int_equal(over, 0);
}

/* ---- training ---------------------------------------------------------------------------------------------------------- */

typedef struct outcome {
    fac_status st;
    double first, last;
    char message[256];
} outcome;

static fac_module *classifier(void) {
    return fac_sequential(fac_conv2d_new(1, 4, FAC_INTS(3, 3)), fac_relu_new(), fac_flatten_new(),
                          fac_linear_new(4 * 6 * 6, 10));
}

static void train(outcome *o) {
    FAC_SCOPE(s);
    fac_module *m = classifier();
    fac_optimizer *opt = fac_adamw_new(m, 0.01);
    fac_tensor *x = fac_randn(FAC_SHAPE(16, 1, 8, 8)), *y = fac_arange(16);
    y = fac_remainder(y, 10);
    for (int i = 0; i < 5 && !fac_error(); i++) {
        FAC_SCOPE(step);
        fac_tensor *loss = fac_cross_entropy(fac_forward(m, x), y);
        if (fac_backward(loss) || fac_optimizer_step(opt)) break;
        fac_optimizer_zero_grad(opt);
        *(i ? &o->last : &o->first) = fac_item(loss);
    }
    fac_optimizer_release(opt);
    fac_module_release(m);
}

static void *train_on_thread(void *context) {
    outcome *o = context;
    train(o);
    o->st = fac_error();
    snprintf(o->message, sizeof o->message, "%s", fac_error_message());
    fac_error_clear();
    fac__thread_end();
    return NULL;
}

static void stack_of_64_KiB_is_enough_to_train(void **state) {
    (void)state;
    need_plain_frames();
    outcome o = {0};
    run_on(NULL, SMALL, train_on_thread, &o);
    assert_string_equal(o.message, "");
    assert_int_equal(o.st, FAC_OK);
    assert_true(o.last < o.first);
}

FAC_TEST_MAIN(FAC_TEST(stack_use_of_every_operator_is_small), FAC_TEST(stack_of_64_KiB_is_enough_to_train))
