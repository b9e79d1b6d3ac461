/* Indices out of range that only the device sees: an ordinary error, later, in the CPU's words; the device works
   on. Where the device is fast, the second launch of an operator may tell what went wrong in its first; simulated
   devices are lazy. */
#include "support/cuda.h"

#include "ops_gen.h" /* gradients of operators, which are internal */

#include <pthread.h>

enum { ROWS = 5, WIDTH = 3, COUNT = 4 };

static fac_tensor *table_on(fac_device d) {
    fac_tensor *t = fac_add(fac_arange(ROWS * WIDTH, .dtype = FAC_F32), 1.0);
    return fac_to(fac_reshape(t, FAC_SHAPE(ROWS, WIDTH)), .device = d);
}

/* 1, bad, 4, bad. */
static fac_tensor *indices_on(fac_device d, fac_dtype dtype, int64_t bad) {
    const int64_t v[COUNT] = {1, bad, 4, bad};
    return fac_to(fac_tensor_from(v, FAC_I64, FAC_SHAPE(COUNT)), .dtype = dtype, .device = d);
}

static void assert_values(fac_tensor *t, const float *want, size_t n) {
    float got[ROWS * WIDTH];
    assert_in_range(n, 1, FAC_COUNT(got));
    assert_ok(fac_tensor_read(t, FAC_F32, got, n));
    for (size_t i = 0; i < n; i++)
        if (got[i] != want[i]) fail_msg("element %zu: %g, expected %g", i, (double)got[i], (double)want[i]);
}

/* What a device does right after a failure that has become an error. */
static void assert_works(fac_device d) {
    FAC_SCOPE(s);
    assert_ok(fac_synchronize(d));
    assert_values(fac_embedding(table_on(d), indices_on(d, FAC_I64, 0)),
                  (const float[]){4, 5, 6, 1, 2, 3, 13, 14, 15, 1, 2, 3}, 12);
}

static fac_tensor *header_of_indices(fac_device d, fac_dtype dtype, int64_t v) {
    return fac__header(indices_on(d, dtype, v));
}

/* ---- every operator, every kind of wrong index ----------------------------------------------------------------------------------- */

typedef struct bad_index {
    fac_dtype dtype;
    int64_t v;
} bad_index;

static fac_tensor *of_scope(fac_status st, fac_tensor **t) {
    return st == FAC_OK ? fac__adopt_handle(fac__thread(), *t) : NULL;
}

static fac_tensor *select_rows(fac_device d, bad_index b) {
    return fac_index_select(table_on(d), 0, indices_on(d, b.dtype, b.v));
}
static fac_tensor *select_columns(fac_device d, bad_index b) {
    return fac_index_select(fac_t(table_on(d)), 1, indices_on(d, b.dtype, b.v));
}
static fac_tensor *select_bytes(fac_device d, bad_index b) {
    return fac_index_select(fac_to(table_on(d), .dtype = FAC_I8), 0, indices_on(d, b.dtype, b.v));
}
static fac_tensor *embed(fac_device d, bad_index b) { return fac_embedding(table_on(d), indices_on(d, b.dtype, b.v)); }
static fac_tensor *embed_backward(fac_device d, bad_index b, bool scale) {
    fac_tensor *t = NULL, *g = fac_ones(FAC_SHAPE(COUNT, WIDTH), .device = d);
    return of_scope(
        fac__c_embedding_dense_backward(fac__header(g), header_of_indices(d, b.dtype, b.v), ROWS, -1, scale, &t), &t);
}
static fac_tensor *embed_backward_plain(fac_device d, bad_index b) { return embed_backward(d, b, false); }
static fac_tensor *embed_backward_scaled(fac_device d, bad_index b) { return embed_backward(d, b, true); }

enum { SUM = 2 }; /* the reduction's number below the public enumeration */
static fac_tensor *scores_on(fac_device d) { return fac_zeros(FAC_SHAPE(COUNT, ROWS), .device = d); }
static fac_tensor *nll(fac_device d, bad_index b) {
    fac_tensor *weight = fac_ones(FAC_SHAPE(ROWS), .device = d);
    return fac_nll_loss(scores_on(d), indices_on(d, b.dtype, b.v), .weight = weight);
}
static fac_tensor *cross_entropy(fac_device d, bad_index b) {
    return fac_cross_entropy(scores_on(d), indices_on(d, b.dtype, b.v), .reduction = FAC_REDUCTION_NONE);
}
static fac_tensor *nll_backward(fac_device d, bad_index b) {
    fac_tensor *t = NULL, *one = fac_ones(FAC_SHAPE(), .device = d);
    return of_scope(fac__c_nll_loss_backward(fac__header(one), fac__header(scores_on(d)),
                                             header_of_indices(d, b.dtype, b.v), NULL, SUM, -100, fac__header(one), &t),
                    &t);
}
static fac_tensor *cross_entropy_backward(fac_device d, bad_index b) {
    fac_tensor *t = NULL, *one = fac_ones(FAC_SHAPE(), .device = d), *sums = fac_ones(FAC_SHAPE(COUNT, 2), .device = d);
    return of_scope(fac__c__cross_entropy_backward(fac__header(one), fac__header(scores_on(d)),
                                                   header_of_indices(d, b.dtype, b.v), NULL, SUM, -100,
                                                   fac__header(sums), fac__header(one), &t),
                    &t);
}

static const struct {
    const char *op;
    fac_tensor *(*run)(fac_device d, bad_index b);
    bool target;
} cases[] = {
    {"index_select", select_rows, false},
    {"index_select", select_columns, false},
    {"index_select", select_bytes, false},
    {"embedding", embed, false},
    {"embedding_dense_backward", embed_backward_plain, false},
    {"embedding_dense_backward", embed_backward_scaled, false},
    {"nll_loss_forward", nll, true},
    {"_cross_entropy", cross_entropy, true},
    {"nll_loss_backward", nll_backward, true},
    {"_cross_entropy_backward", cross_entropy_backward, true},
};

static const bad_index wrong[] = {{FAC_I64, ROWS}, {FAC_I64, -1}, {FAC_I64, INT64_MIN}, {FAC_I64, INT64_MAX},
                                  {FAC_I32, ROWS}, {FAC_I32, -1}, {FAC_I32, INT32_MIN}, {FAC_I32, INT32_MAX},
                                  {FAC_U8, ROWS},  {FAC_U8, 255}};

static bool takes(size_t c, fac_dtype d) { return d == FAC_I64 || (d == FAC_U8) == cases[c].target; }

/* What the CPU says of it, without the operator's name. */
static void words_of_the_cpu(size_t c, bad_index b, char *out, size_t size) {
    FAC_SCOPE(s);
    fac_error_info e;
    assert_null(cases[c].run(fac_device_make(FAC_CPU, 0), b));
    assert_int_equal(fac_error_get(&e), FAC_ERR_INDEX);
    const char *words = strstr(e.message, "ndex ");
    if (!words) words = strstr(e.message, "Target ");
    assert_non_null(words);
    snprintf(out, size, "%s", words);
    fac_error_clear();
}

/* There is an index error of this operator, in these words; it is cleared. */
static void assert_index_error(const char *op, const char *words) {
    fac_error_info e;
    assert_int_equal(fac_error_get(&e), FAC_ERR_INDEX);
    assert_string_equal(e.op, op);
    if (!strstr(e.message, words)) fail_msg("\"%s\" does not say \"%s\"", e.message, words);
    fac_error_clear();
}

static void S045_index_out_of_range_is_an_error_in_the_cpus_words(void **state) {
    (void)state;
    support_need_devices(1);
    fac_device d = cuda_device(0);
    for (size_t c = 0; c < FAC_COUNT(cases); c++) {
        for (size_t w = 0; w < FAC_COUNT(wrong); w++) {
            char words[128];
            FAC_SCOPE(s);
            if (!takes(c, wrong[w].dtype)) continue;
            words_of_the_cpu(c, wrong[w], words, sizeof words);
            if (cases[c].run(d, wrong[w])) {
                assert_no_error();
                assert_int_equal(fac_synchronize(d), FAC_ERR_INDEX);
                assert_non_null(strstr(fac_error_message(), "on cuda:0, seen in cuCtxSynchronize"));
            }
            assert_index_error(cases[c].op, words);
            assert_works(d);
        }
    }
}

static void S046_index_out_of_range_is_the_operators_error_when_launches_block(void **state) {
    (void)state;
    support_need_devices(1);
    fac_device d = cuda_device(0);
    assert_false(fac_cuda_set_launch_blocking(true));
    for (size_t c = 0; c < FAC_COUNT(cases); c++) {
        for (size_t w = 0; w < FAC_COUNT(wrong); w++) {
            char words[128];
            FAC_SCOPE(s);
            if (!takes(c, wrong[w].dtype)) continue;
            words_of_the_cpu(c, wrong[w], words, sizeof words);
            assert_null(cases[c].run(d, wrong[w]));
            assert_null(strstr(fac_error_message(), "asynchronously"));
            assert_index_error(cases[c].op, words);
            assert_works(d);
        }
    }
    assert_true(fac_cuda_set_launch_blocking(false));
}

/* ---- what the kernels do ----------------------------------------------------------------------------------------------------------- */

/* Whether there is a result to look at, once the error is out of the way. */
static bool failed(fac_device d, fac_tensor *t) {
    assert_int_equal(t ? fac_synchronize(d) : fac_error(), FAC_ERR_INDEX);
    fac_error_clear();
    return t != NULL;
}

static fac_tensor *is_not_zero(fac_tensor *t) { return fac_to(fac_ne(t, 0.0), .dtype = FAC_F32); }

static void S045_reads_out_of_range_give_zero_and_writes_are_skipped(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_device d = cuda_device(0);
    const bad_index b = {FAC_I64, 1 << 20};
    static const float rows[] = {4, 5, 6, 0, 0, 0, 13, 14, 15, 0, 0, 0};
    static const float named[] = {0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1};
    static const float first_and_third[] = {1, 0, 1, 0};
    fac_tensor *t;
    if (failed(d, t = embed(d, b))) assert_values(t, rows, 12);
    if (failed(d, t = select_rows(d, b))) assert_values(t, rows, 12);
    if (failed(d, t = select_bytes(d, b))) assert_values(t, rows, 12);
    if (failed(d, t = select_columns(d, b))) assert_values(fac_contiguous(fac_t(t)), rows, 12);
    if (failed(d, t = embed_backward_plain(d, b))) assert_values(t, named, 15);
    if (failed(d, t = embed_backward_scaled(d, b))) assert_values(t, named, 15);
    if (failed(d, t = cross_entropy(d, b))) assert_values(is_not_zero(t), first_and_third, 4);
    if (failed(d, t = nll(d, b))) assert_values(t, (const float[]){0}, 1); /* of two zeros, not of four */
    if (failed(d, t = cross_entropy_backward(d, b)))
        assert_values(is_not_zero(fac_select(t, 1, 0)), first_and_third, 4);
}

/* ---- where it shows ------------------------------------------------------------------------------------------------------------------ */

static fac_status wait_for_device(fac_device d, fac_tensor *t) {
    (void)t;
    return fac_synchronize(d);
}
static fac_status wait_for_stream(fac_device d, fac_tensor *t) {
    (void)t;
    return fac_stream_synchronize(fac_current_stream(d));
}
static fac_status wait_for_event(fac_device d, fac_tensor *t) {
    fac_event *e = fac_event_new(FAC_CUDA);
    (void)t;
    fac_status st = fac_event_record(e, fac_current_stream(d));
    if (st == FAC_OK) st = fac_event_synchronize(e);
    fac_event_free(e);
    return st;
}
static fac_status ask_event(fac_device d, fac_tensor *t) {
    fac_event *e = fac_event_new(FAC_CUDA);
    bool done = false;
    (void)t;
    fac_status st = fac_event_record(e, fac_current_stream(d));
    while (st == FAC_OK && !done) st = fac_event_query(e, &done);
    fac_event_free(e);
    return st;
}
static fac_status ask_stream(fac_device d, fac_tensor *t) {
    bool done = false;
    fac_status st = FAC_OK;
    (void)t;
    while (st == FAC_OK && !done) st = fac_stream_query(fac_current_stream(d), &done);
    return st;
}
static fac_status read_elements(fac_device d, fac_tensor *t) {
    float v[COUNT * WIDTH];
    (void)d;
    return fac_tensor_read(t, FAC_F32, v, COUNT * WIDTH);
}
static fac_status read_item(fac_device d, fac_tensor *t) {
    (void)d;
    (void)fac_item(fac_select(fac_select(t, 0, 0), 0, 0));
    return fac_error();
}
static fac_status copy_back(fac_device d, fac_tensor *t) {
    (void)d;
    return fac_to(t, .device = fac_device_make(FAC_CPU, 0)) ? FAC_OK : fac_error();
}
/* The work is done, which this thread has not been told. */
static fac_status launch_next(fac_device d, fac_tensor *t) {
    (void)d;
    if (fac__cu.cuCtxSynchronize() != CUDA_SUCCESS) return FAC_ERR_DEVICE;
    return fac_neg(t) ? FAC_OK : fac_error();
}

static void S045_index_error_shows_wherever_the_host_waits_or_launches(void **state) {
    (void)state;
    support_need_devices(1);
    fac_status (*const places[])(fac_device, fac_tensor *) = {wait_for_device, wait_for_stream, wait_for_event,
                                                              ask_event,       ask_stream,      read_elements,
                                                              read_item,       copy_back,       launch_next};
    fac_device d = cuda_device(0);
    for (int stream = 0; stream < 2; stream++) {
        for (size_t i = 0; i < FAC_COUNT(places); i++) {
            FAC_SCOPE(s);
            FAC_STREAM_SCOPE(on, stream ? fac_stream_new(d, 0) : fac_default_stream(d));
            fac_tensor *t = embed(d, (bad_index){FAC_I64, 77});
            assert_no_error();
            assert_int_equal(places[i](d, t), FAC_ERR_INDEX);
            assert_index_error("embedding", "index 77 is out of bounds for dimension 0 with size 5");
            assert_works(d);
        }
    }
}

static void S045_an_error_that_is_pending_keeps_the_index_error_for_later(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_device d = cuda_device(0);
    assert_non_null(embed(d, (bad_index){FAC_I64, 77}));
    assert_null(fac_add(NULL, 1.0));
    fac_error_info e;
    const fac_device_guard *g = fac_device_guard_of(FAC_CUDA);
    assert_int_equal(g->synchronize(g, 0), FAC_OK); /* below the check that nothing is pending */
    assert_int_equal(fac_error_get(&e), FAC_ERR_ARGUMENT);
    fac_error_clear();
    assert_int_equal(fac_synchronize(d), FAC_ERR_INDEX);
    assert_index_error("embedding", "index 77");
    assert_works(d);
}

static void S045_one_failure_is_one_error_whatever_was_queued_behind_it(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_device d = cuda_device(0);
    fac_tensor *table = table_on(d), *scores = scores_on(d);
    for (int64_t round = 0; round < 3; round++) {
        fac_tensor *first = indices_on(d, FAC_I64, 100 + round), *later = indices_on(d, FAC_I64, 200 + round);
        char words[64];
        snprintf(words, sizeof words, "index %d is out of bounds", 100 + (int)round);
        fac_status st = fac_embedding(table, first) ? FAC_OK : fac_error();
        for (int i = 0; i < 20 && st == FAC_OK; i++) /* a launch may tell already, where devices are fast */
            st = fac_embedding(table, later) && fac_nll_loss(scores, later) ? FAC_OK : fac_error();
        assert_int_equal(st == FAC_OK ? fac_synchronize(d) : st, FAC_ERR_INDEX);
        assert_index_error("embedding", words);
        assert_works(d);
    }
}

static void S045_index_error_leaves_other_devices_alone(void **state) {
    (void)state;
    support_need_devices(2);
    FAC_SCOPE(s);
    assert_non_null(embed(cuda_device(0), (bad_index){FAC_I64, 50}));
    assert_non_null(embed(cuda_device(1), (bad_index){FAC_I64, 51}));
    assert_int_equal(fac_synchronize(cuda_device(1)), FAC_ERR_INDEX);
    assert_non_null(strstr(fac_error_message(), "on cuda:1"));
    assert_index_error("embedding", "index 51");
    assert_works(cuda_device(1));
    assert_int_equal(fac_synchronize(cuda_device(0)), FAC_ERR_INDEX);
    assert_non_null(strstr(fac_error_message(), "on cuda:0"));
    assert_index_error("embedding", "index 50");
    assert_works(cuda_device(0));
}

/* ---- training ------------------------------------------------------------------------------------------------------------------------ */

typedef struct trainee {
    fac_module *net; /* an embedding */
    fac_optimizer *optimizer;
} trainee;

static trainee make(fac_device d, int kind) {
    trainee t = {.net = fac_embedding_new(ROWS, WIDTH, .device = d)};
    assert_no_error();
    FAC_NO_GRAD(g);
    FAC_SCOPE(s);
    assert_non_null(fac_copy_(fac_module_parameter(t.net, "weight"), table_on(d)));
    t.optimizer = kind == 0   ? fac_sgd_new(t.net, 0.5)
                  : kind == 1 ? fac_sgd_new(t.net, 0.5, .momentum = 0.9)
                              : fac_adamw_new(t.net, 0.5, .amsgrad = kind == 3);
    assert_no_error();
    return t;
}

static fac_tensor *parameter_of(const trainee *t) { return fac_module_parameter(t->net, "weight"); }

static fac_status step(const trainee *t, fac_device d, int64_t bad) {
    FAC_SCOPE(s);
    fac_optimizer_zero_grad(t->optimizer);
    fac_tensor *y = fac_forward(t->net, indices_on(d, FAC_I64, bad));
    FAC_TRY(fac_backward(fac_sum(fac_square(y))));
    return fac_optimizer_step(t->optimizer);
}

static void release(trainee *t) {
    fac_optimizer_release(t->optimizer);
    fac_module_release(t->net);
}

static void assert_unchanged(const trainee *t) {
    float want[ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++) want[i] = (float)(i + 1);
    assert_values(parameter_of(t), want, ROWS * WIDTH);
}

static void S045_optimiser_steps_behind_an_index_error_change_nothing(void **state) {
    (void)state;
    support_need_devices(1);
    fac_device d = cuda_device(0);
    for (int kind = 0; kind < 4; kind++) {
        for (int i = 0; i < 3; i++) { /* vocabulary, -1, INT64_MIN */
            static const int64_t bad[] = {ROWS, -1, INT64_MIN};
            FAC_SCOPE(s);
            trainee t = make(d, kind);
            fac_status st = step(&t, d, bad[i]);
            if (st == FAC_OK) st = fac_synchronize(d); /* where devices are fast, a launch may have told already */
            assert_int_equal(st, FAC_ERR_INDEX);
            assert_index_error("embedding", "out of bounds for dimension 0 with size 5");
            assert_ok(fac_synchronize(d));
            assert_unchanged(&t);
            assert_ok(step(&t, d, 0));
            assert_ok(fac_synchronize(d));
            float after[ROWS * WIDTH];
            assert_ok(fac_tensor_read(parameter_of(&t), FAC_F32, after, ROWS * WIDTH));
            assert_true(after[0] < 1 && after[3] < 4 &&
                        after[12] < 13); /* rows 0, 1 and 4 got gradients, all positive */
            if (kind < 2) assert_true(after[6] == 7 && after[9] == 10);
            release(&t);
        }
    }
}

/* A plain step has no state but the parameter: after one that was skipped, the next is as if it were the first. */
static void S045_the_step_after_an_index_error_is_right(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_device d = cuda_device(0);
    trainee t = make(d, 0), fresh = make(fac_device_make(FAC_CPU, 0), 0);
    (void)(step(&t, d, ROWS) == FAC_OK && fac_synchronize(d) == FAC_OK);
    assert_index_error("embedding", "index 5");
    assert_ok(step(&t, d, 2));
    assert_ok(step(&fresh, fac_device_make(FAC_CPU, 0), 2));
    float want[ROWS * WIDTH];
    assert_ok(fac_tensor_read(parameter_of(&fresh), FAC_F32, want, ROWS * WIDTH));
    assert_values(parameter_of(&t), want, ROWS * WIDTH);
    release(&t);
    release(&fresh);
}

/* The error is raised, and so cleared, while the step is still queued in another stream. */
static void S045_a_step_queued_before_the_error_was_raised_stays_skipped(void **state) {
    (void)state;
    support_need_devices(1);
    fac_device d = cuda_device(0);
    for (int round = 0; round < 8; round++) {
        FAC_SCOPE(s);
        trainee t = make(d, 0);
        fac_tensor *index = indices_on(d, FAC_I64, ROWS), *table = table_on(d);
        assert_ok(step(&t, d, 0)); /* makes a gradient */
        assert_ok(fac_synchronize(d));
        float before[ROWS * WIDTH];
        assert_ok(fac_tensor_read(parameter_of(&t), FAC_F32, before, ROWS * WIDTH));
        fac_stream failing = fac_stream_new(d, 0), stepping = fac_stream_new(d, 0);
        {
            FAC_STREAM_SCOPE(on, failing);
            assert_non_null(fac_embedding(table, index));
        }
        {
            FAC_STREAM_SCOPE(on, stepping);
            assert_ok(fac_stream_wait_stream(stepping, failing));
            if (fac_optimizer_step(t.optimizer) == FAC_OK)
                assert_int_equal(fac_stream_synchronize(failing), FAC_ERR_INDEX);
        }
        assert_index_error("embedding", "index 5");
        assert_ok(fac_synchronize(d));
        assert_values(parameter_of(&t), before, ROWS * WIDTH);
        release(&t);
    }
}

static void S046_nothing_changes_when_launches_block(void **state) {
    (void)state;
    support_need_devices(1);
    fac_device d = cuda_device(0);
    FAC_SCOPE(s);
    trainee t = make(d, 2);
    int64_t version = fac_tensor_version(parameter_of(&t));
    assert_false(fac_cuda_set_launch_blocking(true));
    assert_int_equal(step(&t, d, -1), FAC_ERR_INDEX);
    assert_index_error("embedding", "index -1 is out of bounds for dimension 0 with size 5");
    assert_null(fac_grad_of(parameter_of(&t)));
    assert_unchanged(&t);
    assert_int_equal(fac_tensor_version(parameter_of(&t)), version);
    assert_true(fac_cuda_set_launch_blocking(false));
    release(&t);
}

/* ---- threads --------------------------------------------------------------------------------------------------------------------------- */

typedef struct worker {
    fac_device device;
    int rounds, errors, others;
} worker;

static void *fail_often(void *context) {
    worker *w = context;
    for (int i = 0; i < w->rounds; i++) {
        FAC_SCOPE(s);
        FAC_STREAM_SCOPE(on, fac_stream_new(w->device, 0));
        if (embed(w->device, (bad_index){FAC_I64, 9}))
            (void)(fac_stream_synchronize(fac_current_stream(w->device)) == FAC_OK);
        w->errors += fac_error() == FAC_ERR_INDEX;
        w->others += fac_error() != FAC_OK && fac_error() != FAC_ERR_INDEX;
        fac_error_clear();
    }
    return NULL;
}

static void run_two(worker w[2]) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, fail_often, &w[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    assert_int_equal(w[0].others + w[1].others, 0);
}

static void S045_threads_on_devices_of_their_own_get_their_own_errors(void **state) {
    (void)state;
    support_need_devices(2);
    worker w[2] = {{.device = cuda_device(0), .rounds = 20}, {.device = cuda_device(1), .rounds = 20}};
    run_two(w);
    assert_int_equal(w[0].errors, 20);
    assert_int_equal(w[1].errors, 20);
}

/* A failure is told once, to whoever looks first. */
static void S045_threads_on_one_device_share_its_errors(void **state) {
    (void)state;
    support_need_devices(1);
    worker w[2] = {{.device = cuda_device(0), .rounds = 20}, {.device = cuda_device(0), .rounds = 20}};
    run_two(w);
    assert_in_range(w[0].errors + w[1].errors, 1, 40);
    assert_works(cuda_device(0));
}

/* ---- the note itself ------------------------------------------------------------------------------------------------------------------- */

/* A graph is launched long after its kernels were told which note they may write. */
static void S045_a_graph_fails_anew_at_each_launch(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_device d = cuda_device(0);
    fac_stream stream = fac_stream_new(d, 0);
    CUstream handle = fac_stream_handle(stream);
    fac_tensor *table = table_on(d), *good = indices_on(d, FAC_I64, 3), *bad = indices_on(d, FAC_I64, 8);
    fac_tensor *index = fac_clone(good), *out = fac_zeros(FAC_SHAPE(COUNT, WIDTH), .device = d);
    assert_ok(fac_synchronize(d));
    FAC_STREAM_SCOPE(on, stream);
    CUgraph graph;
    CUgraphExec exec;
    assert_int_equal(fac__cu.cuStreamBeginCapture(handle, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
    assert_non_null(fac_index_select_out(out, table, 0, index));
    assert_int_equal(fac__cu.cuStreamEndCapture(handle, &graph), CUDA_SUCCESS);
    assert_int_equal(fac__cu.cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    for (int round = 0; round < 6; round++) {
        assert_non_null(fac_copy_(index, round % 3 ? bad : good));
        assert_int_equal(fac__cu.cuGraphLaunch(exec, handle), CUDA_SUCCESS);
        assert_int_equal(fac_stream_synchronize(stream), round % 3 ? FAC_ERR_INDEX : FAC_OK);
        if (round % 3) assert_index_error("index_select", "index 8 is out of bounds for dimension 0 with size 5");
    }
    assert_int_equal(fac__cu.cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(fac__cu.cuGraphDestroy(graph), CUDA_SUCCESS);
    assert_works(d);
}

/* The first launch that needs it allocates it, and may find the device's memory used up. */
static void S221_no_memory_for_the_note_is_an_error_once(void **state) {
    (void)state;
    support_need_simulator();
    FAC_SCOPE(s);
    fac_device d = cuda_device(0);
    fac_tensor *table = table_on(d), *index = indices_on(d, FAC_I64, 9), *out = fac_zeros_like(index);
    fac_drop(fac_zeros(FAC_SHAPE(COUNT, WIDTH), .device = d)); /* what the result takes is cached */
    (void)out;
    support_sim_set("oom=1");
    assert_non_null(fac_embedding(table, index)); /* once what was cached is given back there is room */
    assert_no_error();
    support_sim_set("oom=0");
    assert_int_equal(fac_synchronize(d), FAC_ERR_INDEX);
    assert_index_error("embedding", "index 9");
    assert_works(d);
}

static void S248_the_note_ends_with_the_shutdown(void **state) {
    (void)state;
    support_need_devices(1);
    for (int round = 0; round < 2; round++) {
        FAC_SCOPE(s);
        assert_non_null(embed(cuda_device(0), (bad_index){FAC_I64, 9}));
        assert_int_equal(fac_synchronize(cuda_device(0)), FAC_ERR_INDEX);
        fac_error_clear();
        assert_non_null(embed(cuda_device(0), (bad_index){FAC_I64, 9})); /* nobody will hear of it */
        fac_scope_end(&s);
        fac_shutdown();
        assert_ok(fac_init());
    }
    assert_works(cuda_device(0));
}

FAC_TEST_MAIN(FAC_CUDA_TEST(S045_index_out_of_range_is_an_error_in_the_cpus_words),
              FAC_CUDA_TEST(S046_index_out_of_range_is_the_operators_error_when_launches_block),
              FAC_CUDA_TEST(S045_reads_out_of_range_give_zero_and_writes_are_skipped),
              FAC_CUDA_TEST(S045_index_error_shows_wherever_the_host_waits_or_launches),
              FAC_CUDA_TEST(S045_an_error_that_is_pending_keeps_the_index_error_for_later),
              FAC_CUDA_TEST(S045_one_failure_is_one_error_whatever_was_queued_behind_it),
              FAC_CUDA_TEST(S045_index_error_leaves_other_devices_alone),
              FAC_CUDA_TEST(S045_optimiser_steps_behind_an_index_error_change_nothing),
              FAC_CUDA_TEST(S045_the_step_after_an_index_error_is_right),
              FAC_CUDA_TEST(S045_a_step_queued_before_the_error_was_raised_stays_skipped),
              FAC_CUDA_TEST(S046_nothing_changes_when_launches_block),
              FAC_CUDA_TEST(S045_threads_on_devices_of_their_own_get_their_own_errors),
              FAC_CUDA_TEST(S045_threads_on_one_device_share_its_errors),
              FAC_CUDA_TEST(S045_a_graph_fails_anew_at_each_launch),
              FAC_CUDA_TEST(S221_no_memory_for_the_note_is_an_error_once),
              FAC_CUDA_TEST(S248_the_note_ends_with_the_shutdown))
