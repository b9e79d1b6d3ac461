/* Threads that share views and leaves, and users' code that runs while the library works on them: no lock is held then. */
#include "autograd/autograd_meta.h"
#include "autograd_test.h"
#include "core/handle.h"
#include "dispatch/call.h"
#include "support/npu.h"
#include <facula/device.h>
#include <pthread.h>
#include <unistd.h>

enum { THREADS = 4 };

/* ---- users' code inside ------------------------------------------------------------------------------------------------ */

/* What an observer does at the next call of an operator, once. */
static struct {
    const char *op;
    fac_status (*act)(void);
    fac_tensor *t;
    int calls;
    fac_status st; /* what the act gave: an assertion must not jump out of the library */
} seen;

static void observe(void *context, const fac_operator *op, fac_keyset keys, bool enter) {
    (void)context, (void)keys;
    if (!enter || !seen.op || !seen.t || strcmp(fac_operator_name(op), seen.op) != 0) return;
    seen.op = NULL;
    seen.calls++;
    seen.st = seen.act();
}

/* Runs under an alarm: what would wait for itself ends the test instead. */
static void watch(const char *op, fac_status (*act)(void), fac_tensor *t) {
    seen.op = op;
    seen.act = act;
    seen.t = t;
    seen.calls = 0;
    seen.st = FAC_OK;
    alarm(30);
    fac_set_call_observer(observe, NULL);
}

static void unwatch(void) {
    fac__observers_free();
    alarm(0);
    assert_ok(seen.st);
    assert_int_equal(seen.calls, 1);
}

static fac_status ask_for_the_node(void) { return fac_grad_fn(seen.t) ? FAC_OK : fac_error(); }

static void views_observer_of_a_replay_asks_for_another_node(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2)), *y = fac_mul(x, 2.0), *a = fac_view(y, FAC_INTS(2)),
               *b = fac_view(y, FAC_INTS(1, 2));
    fac_mul_(y, 3.0); /* both are out of date now */
    watch("aten::view", ask_for_the_node, b);
    assert_non_null(fac_grad_fn(a));
    unwatch();
    assert_ok(fac_backward(fac_add(fac_sum(a), fac_sum(b))));
    assert_values(fac_grad_of(x), 12, 12);
}

static fac_status run_backward(void) { return fac_backward(seen.t); }

static void leaves_observer_of_an_addition_runs_backward(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2));
    assert_ok(fac_backward(fac_sum(x)));
    watch("aten::add_.Tensor", run_backward, fac_sum(fac_mul(x, 100.0)));
    assert_ok(fac_backward(fac_sum(fac_mul(x, 10.0))));
    unwatch();
    assert_values(fac_grad_of(x), 111, 111);
}

/* ---- threads ------------------------------------------------------------------------------------------------------------ */

static struct {
    fac_tensor *t;
    pthread_barrier_t start;
    atomic_int wrong;
} shared;

static void on_threads(void *(*fn)(void *), fac_tensor *t) {
    pthread_t threads[THREADS];
    shared.t = t;
    atomic_store(&shared.wrong, 0);
    assert_int_equal(pthread_barrier_init(&shared.start, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, fn, NULL), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&shared.start);
    assert_int_equal(atomic_load(&shared.wrong), 0);
}

static void *use_the_view(void *unused) {
    (void)unused;
    FAC_SCOPE(s);
    pthread_barrier_wait(&shared.start);
    fac_tensor *y = fac_sum(shared.t);
    if (!fac_grad_fn(shared.t) || fac_backward(y, .retain_graph = true)) atomic_fetch_add(&shared.wrong, 1);
    if (fac_error()) fac_report(stderr);
    return NULL;
}

static void views_out_of_date_are_read_by_many_threads(void **state) {
    (void)state;
    for (int round = 0; round < 50; round++) {
        FAC_SCOPE(s);
        fac_tensor *x = leaf(DOUBLES(1, 2)), *y = fac_mul(x, 2.0), *v = fac_view(y, FAC_INTS(2));
        fac_mul_(y, 3.0);
        on_threads(use_the_view, v);
        assert_values(fac_grad_of(x), 6 * THREADS, 6 * THREADS);
    }
}

enum { GRAPHS = 20000 };

/* Each count of the accumulator that a thread gets comes with the stream of the graph that holds it. */
static void *begin_graphs(void *unused) {
    (void)unused;
    FAC_SCOPE(s);
    pthread_barrier_wait(&shared.start);
    for (int i = 0; i < GRAPHS; i++) {
        fac_node *n = fac__accumulator_of(fac__header(shared.t));
        if (!n || n->stream.device.type != FAC_PRIVATE1) atomic_fetch_add(&shared.wrong, 1);
        if (n) fac__accumulator_unref(n);
    }
    return NULL;
}

static void leaves_stream_is_set_before_a_graph_holds_them(void **state) {
    (void)state;
    assert_ok(npu_register());
    {
        FAC_SCOPE(s);
        fac_tensor *x = fac_set_requires_grad(fac_zeros(FAC_INTS(2), .device = npu(0)), true);
        assert_no_error();
        on_threads(begin_graphs, x);
    }
    fac_shutdown(); /* forgets the device */
}

/* ---- meta ----------------------------------------------------------------------------------------------------------------- */

static void backward_of_meta_tensors_gives_shapes(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_device meta = fac_device_make(FAC_META, -1);
    fac_tensor *x = fac_set_requires_grad(fac_zeros(FAC_INTS(3, 4), .device = meta), true);
    fac_tensor *w = fac_set_requires_grad(fac_zeros(FAC_INTS(4, 5), .device = meta), true);
    for (int pass = 0; pass < 2; pass++) { /* the second adds to the gradient of the first */
        fac_tensor *y = fac_add(fac_matmul(fac_mul(x, x), w), 1.0);
        fac_mul_(fac_narrow(y, 0, 1, 1), 2.0);
        assert_ok(fac_backward(fac_sum(y)));
        assert_int_equal(fac_tensor_device(fac_grad_of(w)).type, FAC_META);
        assert_int_equal(fac_tensor_size(fac_grad_of(w), 1), 5);
        assert_int_equal(fac_tensor_size(fac_grad_of(x), 0), 3);
    }
    fac_tensor *grad = NULL;
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(fac_pow(x, 3.0))), FAC_TENSORS(x), &grad));
    assert_int_equal(fac_tensor_numel(grad), 12);
}

FAC_TEST_MAIN(FAC_TEST(views_observer_of_a_replay_asks_for_another_node),
              FAC_TEST(leaves_observer_of_an_addition_runs_backward),
              FAC_TEST(views_out_of_date_are_read_by_many_threads),
              FAC_TEST(leaves_stream_is_set_before_a_graph_holds_them), FAC_TEST(backward_of_meta_tensors_gives_shapes))
