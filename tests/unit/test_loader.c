/* Loaders with threads of their own: order, bits, resuming, errors, cancelling, ending. */
#include "base/sanitizers.h"
#include "support/support.h"

#include <facula/facula.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sample i is {random numbers of its seed, i}; what a test is about happens at `bad`. */
typedef struct source {
    int64_t n, at, bad;
    int delay_us;
    enum { FAILS, HANGS, COUNTS } way;
    atomic_int asked, let_go;
    atomic_int of_worker[8];
} source;

static fac_status make_sample(source *s, const fac_sample *at, int64_t i, fac_tensor **out) {
    atomic_fetch_add(&s->asked, 1);
    if (at->worker >= 0 && at->worker < 8) atomic_fetch_add(&s->of_worker[at->worker], 1);
    if (s->delay_us) usleep((useconds_t)(s->delay_us * (i % 3)));
    if (i == s->bad && s->way == FAILS) return fac_error_set(FAC_ERR_FORMAT, "it is spoilt");
    while (i == s->bad && s->way == HANGS && !atomic_load(&s->let_go)) usleep(200);
    fac_generator *g = fac_generator_new(at->seed);
    if (g) out[0] = fac_randn_generator(FAC_SHAPE(3), g);
    fac_generator_release(g);
    out[1] = fac_full(FAC_SHAPE(), (double)i, .dtype = FAC_I64);
    return fac_error();
}

static fac_status source_get(void *context, const fac_sample *at, fac_tensor **out) {
    return make_sample(context, at, at->index, out);
}

static bool source_next(void *context, const fac_sample *at, fac_tensor **out) {
    source *s = context;
    if (s->at >= s->n) return false;
    return make_sample(s, at, s->at++, out) == FAC_OK;
}

static fac_status source_start(void *context, int64_t epoch) {
    (void)epoch;
    ((source *)context)->at = 0;
    return FAC_OK;
}

static const fac_dataset_class map_class = {.size = sizeof map_class, .name = "source", .get = source_get};
static const fac_dataset_class stream_class = {
    .size = sizeof stream_class, .name = "source", .next = source_next, .start = source_start};

static fac_dataset *make_map(source *s) { return fac_dataset_new(&map_class, s, s->n, 2); }

/* What a loader gave: labels one behind the other, batch sizes, and a sum that changes with any bit. */
typedef struct record {
    int64_t labels[4096], n, batches;
    uint64_t bits;
} record;

static void add_batch(record *r, fac_tensor **batch) {
    const int64_t n = fac_tensor_size(batch[1], 0);
    int64_t *labels = r->labels + r->n;
    float x[3 * 64];
    assert_no_error();
    assert_true(n <= 64 && r->n + n <= 4096);
    assert_ok(fac_tensor_read(batch[1], FAC_I64, labels, (size_t)n));
    assert_ok(fac_tensor_read(batch[0], FAC_F32, x, (size_t)n * 3));
    for (int64_t i = 0; i < n * 3; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        r->bits = (r->bits ^ bits) * 0x100000001b3u;
    }
    r->n += n;
    r->batches++;
}

/* The rest of the epoch. */
static void run_epoch(fac_loader *l, record *r) {
    for (;;) {
        FAC_SCOPE(s);
        fac_tensor *batch[2];
        if (!fac_loader_next(l, batch)) break;
        add_batch(r, batch);
    }
}

static void assert_same(const record *a, const record *b) {
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->batches, b->batches);
    assert_memory_equal(a->labels, b->labels, (size_t)a->n * sizeof *a->labels);
    assert_true(a->bits == b->bits);
}

static void S168_batches_are_the_same_for_any_number_of_workers(void **state) {
    (void)state;
    record first[2] = {{.n = 0}};
    static record r;
    for (int workers = 0; workers < 5; workers++) {
        source s = {.n = 101, .bad = -1, .delay_us = 150};
        fac_dataset *d = make_map(&s);
        fac_loader *l =
            fac_loader_of(d, 8, true, .seed = 3, .num_workers = workers, .prefetch_factor = 1 + workers % 3);
        assert_no_error();
        assert_int_equal(fac_loader_batches(l), 13);
        for (int epoch = 0; epoch < 2; epoch++) {
            memset(&r, 0, sizeof r);
            run_epoch(l, &r);
            assert_no_error();
            assert_int_equal(r.n, 101);
            assert_int_equal(r.batches, 13);
            if (workers == 0) first[epoch] = r;
            assert_same(&r, &first[epoch]);
        }
        assert_true(first[0].bits != first[1].bits);
        int at_work = 0;
        for (int w = 0; w < 8; w++) at_work += atomic_load(&s.of_worker[w]) > 0;
        if (workers > 1) assert_true(at_work > 1);
        assert_true(workers > 0 || at_work == 0);
        fac_loader_release(l);
        fac_dataset_release(d);
    }
}

static void streams_come_in_order_for_any_number_of_workers(void **state) {
    (void)state;
    record first = {.n = 0};
    static record r;
    for (int drop = 0; drop < 2; drop++)
        for (int workers = 0; workers < 4; workers++) {
            source s = {.n = 45, .bad = -1, .delay_us = 100};
            fac_dataset *d = fac_dataset_new(&stream_class, &s, -1, 2);
            fac_loader *l = fac_loader_of(d, 8, .num_workers = workers, .drop_last = drop);
            assert_int_equal(fac_loader_batches(l), -1);
            for (int epoch = 0; epoch < 2; epoch++) {
                memset(&r, 0, sizeof r);
                run_epoch(l, &r);
                assert_no_error();
                assert_int_equal(r.n, drop ? 40 : 45);
                for (int i = 0; i < r.n; i++) assert_int_equal(r.labels[i], i);
                if (workers == 0 && epoch == 0) first = r;
                if (epoch == 0) assert_same(&r, &first);
            }
            fac_loader_release(l);
            fac_dataset_release(d);
        }
}

static void check_resume(fac_dataset *d, bool shuffle, int before, int after) {
    static record whole, rest;
    memset(&whole, 0, sizeof whole);
    fac_loader *l = fac_loader_of(d, 4, shuffle, .seed = 9, .num_workers = before);
    fac_loader_start(l, 5);
    run_epoch(l, &whole);
    for (int at = 0; at <= whole.batches; at += 3) {
        FAC_SCOPE(s);
        fac_tensor *batch[2];
        memset(&rest, 0, sizeof rest);
        fac_loader_start(l, 5);
        for (int i = 0; i < at; i++) {
            assert_true(fac_loader_next(l, batch));
            add_batch(&rest, batch);
        }
        const fac_data_state place = fac_loader_get_state(l);
        assert_true(place.epoch == 5 && place.at == at);
        fac_loader *other = fac_loader_of(d, 4, shuffle, .seed = 9, .num_workers = after);
        assert_ok(fac_loader_set_state(other, place));
        run_epoch(other, &rest);
        assert_no_error();
        assert_same(&rest, &whole);
        fac_loader_release(other);
    }
    fac_loader_release(l);
}

static void loader_resumes_in_the_middle_of_an_epoch(void **state) {
    (void)state;
    source s = {.n = 43, .bad = -1}, t = {.n = 43, .bad = -1};
    fac_dataset *map = make_map(&s), *stream = fac_dataset_new(&stream_class, &t, -1, 2);
    check_resume(map, true, 0, 2);
    check_resume(map, true, 3, 0);
    check_resume(stream, false, 0, 0);
    fac_dataset_release(stream);
    fac_loader *l = fac_loader_of(map, 4, true, .seed = 9);
    fac_data_state place = fac_loader_get_state(l);
    place.seed = 8;
    assert_int_equal(fac_loader_set_state(l, place), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "seed 8");
    place.seed = 9;
    place.at = 12;
    assert_int_equal(fac_loader_set_state(l, place), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "batch 12 of 11");
    fac_loader_release(l);
    fac_dataset_release(map);
}

static void sample_that_fails_is_named_and_the_epoch_goes_on(void **state) {
    (void)state;
    for (int workers = 0; workers < 4; workers++) {
        source s = {.n = 20, .bad = 9, .way = FAILS};
        fac_dataset *d = make_map(&s);
        fac_loader *l = fac_loader_of(d, 4, .num_workers = workers);
        static record r;
        memset(&r, 0, sizeof r);
        run_epoch(l, &r);
        assert_error(FAC_ERR_FORMAT, "sample 9: it is spoilt");
        assert_int_equal(r.n, 8);
        run_epoch(l, &r);
        assert_no_error();
        assert_int_equal(r.n, 16);
        assert_int_equal(r.labels[8], 12);
        fac_loader_release(l);
        fac_dataset_release(d);
    }
}

static void loader_ends_in_the_middle_of_an_epoch(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        FAC_SCOPE(s);
        source from = {.n = 1000, .bad = -1, .delay_us = 50};
        fac_dataset *d = make_map(&from);
        fac_loader *l = fac_loader_of(d, 4, true, .num_workers = 1 + round % 4);
        fac_tensor *batch[2];
        for (int i = 0; i < round; i++) assert_true(fac_loader_next(l, batch));
        if (round % 3 == 0) fac_loader_start(l, 2);
        if (round % 2) assert_true(fac_loader_next(l, batch));
        fac_loader_release(l);
        fac_dataset_release(d);
    }
}

static void prefetch_is_bounded(void **state) {
    (void)state;
    FAC_SCOPE(s);
    source from = {.n = 4000, .bad = -1};
    fac_dataset *d = make_map(&from);
    fac_loader *l = fac_loader_of(d, 5, .num_workers = 2, .prefetch_factor = 3);
    fac_tensor *batch[2];
    usleep(2000);
    assert_int_equal(atomic_load(&from.asked), 0); /* nothing before the first batch is asked for */
    assert_true(fac_loader_next(l, batch));
    for (int i = 0; i < 200 && atomic_load(&from.asked) < 35; i++) usleep(5000);
    usleep(20000);
    assert_int_equal(atomic_load(&from.asked), 35); /* six ahead and the one that was given */
    fac_loader_release(l);
    fac_dataset_release(d);
}

/* ---- waiting ------------------------------------------------------------------------------------------------------------ */

static void late_batch_is_an_error_that_can_be_asked_for_again(void **state) {
    (void)state;
    FAC_SCOPE(s);
    source from = {.n = 8, .bad = 2, .way = HANGS};
    fac_dataset *d = make_map(&from);
    fac_loader *l = fac_loader_of(d, 2, .num_workers = 2, .timeout = 0.05);
    fac_tensor *batch[2];
    assert_true(fac_loader_next(l, batch));
    assert_false(fac_loader_next(l, batch));
    assert_error(FAC_ERR_STATE, "batch 1 of epoch 0 is not there after 0.05 seconds");
    atomic_store(&from.let_go, 1);
    bool there = false;
    for (int i = 0; i < 200 && !there; i++, fac_error_clear()) there = fac_loader_next(l, batch);
    assert_int_equal(fac_item_int(fac_select(batch[1], 0, 0)), 2);
    fac_loader_release(l);
    fac_dataset_release(d);
}

typedef struct canceller {
    int64_t whom;
    source *from;
} canceller;

static void *cancel_soon(void *context) {
    const canceller *c = context;
    while (atomic_load(&c->from->asked) < 3) usleep(100);
    usleep(5000);
    assert_true(fac_cancel(c->whom));
    return NULL;
}

static void cancelled_thread_stops_waiting_and_can_go_on(void **state) {
    (void)state;
    for (int workers = 1; workers < 4; workers++) {
        FAC_SCOPE(s);
        source from = {.n = 8, .bad = 2, .way = HANGS};
        canceller c = {fac_thread_number(), &from};
        fac_dataset *d = make_map(&from);
        fac_loader *l = fac_loader_of(d, 2, .num_workers = workers);
        fac_tensor *batch[2];
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &c), 0);
        assert_true(fac_loader_next(l, batch));
        assert_false(fac_loader_next(l, batch));
        assert_error(FAC_ERR_INTERRUPTED, "cancelled");
        pthread_join(thread, NULL);
        atomic_store(&from.let_go, 1);
        static record r;
        memset(&r, 0, sizeof r);
        run_epoch(l, &r);
        assert_no_error();
        assert_int_equal(r.n, 6);
        assert_int_equal(r.labels[0], 2);
        fac_loader_release(l);
        fac_dataset_release(d);
    }
}

static void cancelled_loop_without_workers_ends(void **state) {
    (void)state;
    FAC_SCOPE(s);
    source from = {.n = 8, .bad = -1};
    fac_dataset *d = make_map(&from);
    fac_loader *l = fac_loader_of(d, 2);
    fac_tensor *batch[2];
    assert_true(fac_loader_next(l, batch));
    assert_true(fac_cancel(fac_thread_number()));
    assert_false(fac_loader_next(l, batch));
    assert_error(FAC_ERR_INTERRUPTED, "cancelled");
    assert_true(fac_loader_next(l, batch));
    assert_int_equal(fac_item_int(fac_select(batch[1], 0, 0)), 2);
    fac_loader_release(l);
    fac_dataset_release(d);
}

/* ---- functions of the program's ------------------------------------------------------------------------------------------ */

static fac_status begin_worker(void *context, int worker) {
    atomic_fetch_or((atomic_int *)context, 1 << worker);
    return FAC_OK;
}

static fac_status refuse_worker(void *context, int worker) {
    if (worker != 1 || atomic_fetch_add((atomic_int *)context, 1) > 0) return FAC_OK;
    return fac_error_set(FAC_ERR_IO, "no file to open");
}

static void workers_begin_with_a_function(void **state) {
    (void)state;
    FAC_SCOPE(s);
    source from = {.n = 40, .bad = -1};
    fac_dataset *d = make_map(&from);
    fac_tensor *batch[2];
    atomic_int seen = 0, tries = 0;
    fac_loader *l = fac_loader_of(d, 4, .num_workers = 3);
    assert_ok(fac_loader_on_worker(l, begin_worker, &seen));
    static record r;
    memset(&r, 0, sizeof r);
    run_epoch(l, &r);
    assert_int_equal(r.n, 40);
    assert_int_equal(fac_loader_on_worker(l, begin_worker, &seen), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "asked for a batch already");
    fac_loader_release(l);
    assert_int_equal(atomic_load(&seen), 7);
    l = fac_loader_of(d, 4, .num_workers = 2);
    assert_ok(fac_loader_on_worker(l, refuse_worker, &tries));
    assert_false(fac_loader_next(l, batch));
    assert_error(FAC_ERR_IO, "worker 1: no file to open");
    memset(&r, 0, sizeof r);
    run_epoch(l, &r);
    assert_no_error();
    assert_int_equal(r.n, 40);
    for (int i = 0; i < 40; i++) assert_int_equal(r.labels[i], i);
    fac_loader_release(l);
    fac_dataset_release(d);
}

/* The sum of the labels, and how many there are. */
static fac_status collate_sum(void *context, fac_tensors samples, int64_t n, fac_tensor **out) {
    (void)context;
    fac_tensor *sum = samples.v[1];
    for (int64_t i = 1; i < n; i++) sum = fac_add(sum, samples.v[2 * i + 1]);
    out[0] = sum;
    out[1] = samples.v[0]; /* one tensor in two columns */
    out[2] = samples.v[0];
    return fac_error();
}

static void collation_is_the_programs_if_it_likes(void **state) {
    (void)state;
    for (int workers = 0; workers < 3; workers++) {
        FAC_SCOPE(s);
        source from = {.n = 9, .bad = -1};
        fac_dataset *d = make_map(&from);
        fac_loader *l = fac_loader_of(d, 4, .num_workers = workers);
        fac_tensor *batch[3];
        static const int64_t expected[] = {6, 22, 8};
        assert_ok(fac_loader_set_collate(l, collate_sum, NULL, 3));
        for (int i = 0; i < 3; i++) {
            assert_true(fac_loader_next(l, batch));
            assert_int_equal(fac_item_int(batch[0]), expected[i]);
            assert_true(fac_equal(batch[1], batch[2]));
        }
        assert_false(fac_loader_next(l, batch));
        fac_loader_release(l);
        fac_dataset_release(d);
    }
}

static fac_status ragged(void *context, const fac_sample *at, fac_tensor **out) {
    (void)context;
    out[0] = fac_ones(FAC_SHAPE(1 + at->index));
    return fac_error();
}

static void samples_that_do_not_stack_name_their_column(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const fac_dataset_class cls = {.size = sizeof cls, .get = ragged};
    fac_dataset *d = fac_dataset_new(&cls, NULL, 4, 1);
    fac_loader *l = fac_loader_of(d, 2, .num_workers = 1);
    fac_tensor *batch[1];
    assert_false(fac_loader_next(l, batch));
    assert_error(FAC_ERR_SHAPE, "column 0 of the batch: stack");
    fac_loader_release(l);
    fac_dataset_release(d);
}

static fac_status wild(void *context, int64_t epoch, int64_t *out, int64_t n) {
    (void)context, (void)epoch;
    for (int64_t i = 0; i < n; i++) out[i] = 5 * i;
    return FAC_OK;
}

static void loader_follows_the_sampler_it_is_given(void **state) {
    (void)state;
    source from = {.n = 10, .bad = -1};
    fac_dataset *d = make_map(&from);
    fac_sampler *of = fac_sampler_subset(FAC_INTS(9, 1, 8, 2, 7)),
                *batches = fac_sampler_batch(of, 2, .drop_last = true);
    static record r;
    for (int workers = 0; workers < 3; workers++) {
        fac_loader *l = fac_loader_of(d, 3, .sampler = of, .num_workers = workers);
        assert_int_equal(fac_loader_batches(l), 2);
        memset(&r, 0, sizeof r);
        run_epoch(l, &r);
        assert_int_equal(r.n, 5);
        assert_true(r.labels[0] == 9 && r.labels[4] == 7);
        fac_loader_release(l);
        l = fac_loader_of(d, .sampler = batches, .num_workers = workers);
        assert_int_equal(fac_loader_batches(l), 2);
        memset(&r, 0, sizeof r);
        run_epoch(l, &r);
        assert_int_equal(r.n, 4);
        assert_int_equal(r.batches, 2);
        fac_loader_release(l);
    }
    fac_sampler_release(of);
    fac_sampler_release(batches);
    fac_dataset_release(d);
}

static void order_beyond_the_data_set_is_an_error(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *batch[1];
    fac_sampler *out = fac_sampler_of(wild, NULL, 3);
    fac_loader *l = fac_loader_new(FAC_TENSORS(fac_arange(8)), .sampler = out, .batch_size = 3, .num_workers = 1);
    assert_false(fac_loader_next(l, batch));
    assert_error(FAC_ERR_INDEX, "the order names sample 10, but the data set has 8");
    fac_loader_release(l);
    fac_sampler_release(out);
}

static void loader_refuses_keywords_that_make_no_sense(void **state) {
    (void)state;
    source from = {.n = 10, .bad = -1};
    fac_dataset *d = make_map(&from), *stream = fac_dataset_new(&stream_class, &from, -1, 2);
    fac_sampler *of = fac_sampler_new(10);
    assert_null(fac_loader_of(d, .num_workers = -1));
    assert_error(FAC_ERR_ARGUMENT, "num_workers should be 0 to 1024, but is -1");
    assert_null(fac_loader_of(d, .num_workers = 1, .prefetch_factor = 0));
    assert_error(FAC_ERR_ARGUMENT, "prefetch_factor");
    assert_null(fac_loader_of(d, .num_workers = 1, .timeout = -1));
    assert_error(FAC_ERR_ARGUMENT, "timeout should not be negative");
    assert_null(fac_loader_of(d, .timeout = 1));
    assert_error(FAC_ERR_ARGUMENT, "needs workers");
    assert_null(fac_loader_of(d, .shuffle = true, .sampler = of));
    assert_error(FAC_ERR_ARGUMENT, "not of both");
    assert_null(fac_loader_of(stream, .shuffle = true));
    assert_error(FAC_ERR_UNSUPPORTED, "own order");
    assert_null(fac_loader_of(NULL));
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    if (!fac_cuda_is_available()) {
        assert_null(fac_loader_of(d, .pin_memory = true));
        assert_error(FAC_ERR_UNSUPPORTED, "pin_memory");
    }
    fac_sampler_release(of);
    fac_dataset_release(d);
    fac_dataset_release(stream);
}

/* ---- the process ------------------------------------------------------------------------------------------------------- */

static void loader_with_workers_is_refused_in_the_child_of_a_fork(void **state) {
    (void)state;
    FAC_SCOPE(s);
    source from = {.n = 100, .bad = -1};
    fac_dataset *d = make_map(&from);
    fac_loader *l = fac_loader_of(d, 2, .num_workers = 2);
    fac_tensor *batch[2];
    assert_true(fac_loader_next(l, batch));
    const pid_t child = fork();
    if (child == 0) {
        const bool right = !fac_loader_next(l, batch) && fac_error() == FAC_ERR_STATE;
        fac_error_clear();
        fac_loader_release(l);
        _exit(right ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(fac_loader_next(l, batch));
    fac_loader_release(l);
    fac_dataset_release(d);
}

static fac_status tiny(void *context, const fac_sample *at, fac_tensor **out) {
    (void)context;
    out[0] = fac_full(FAC_SHAPE(), (double)at->index, .dtype = FAC_I64);
    return fac_error();
}

static long resident(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss; /* KiB */
}

static void a_million_samples_need_no_more_memory_than_some(void **state) {
    (void)state;
    const int64_t n = getenv("FACULA_TEST_ALLOCATIONS") ? 10000 : 1000000;
    const fac_dataset_class cls = {.size = sizeof cls, .get = tiny};
    fac_dataset *d = fac_dataset_new(&cls, NULL, n, 1);
    fac_loader *l = fac_loader_of(d, 500, .num_workers = 3);
    int64_t expected = 0;
    long early = 0;
    for (;;) {
        FAC_SCOPE(s);
        fac_tensor *batch[1];
        if (!fac_loader_next(l, batch)) break;
        const int64_t *labels = fac_tensor_data(batch[0]);
        for (int64_t i = 0; i < 500; i++) assert_int_equal(labels[i], expected++);
        if (expected == n / 10) early = resident();
    }
    assert_no_error();
    assert_int_equal(expected, n);
#if !FAC_UNDER_ASAN /* which keeps what is freed for a while */
    assert_true(resident() - early < 4096);
#else
    (void)early;
#endif
    fac_loader_release(l);
    fac_dataset_release(d);
}

static fac_status use_loader(void *context) {
    FAC_SCOPE(s);
    source from = {.n = 6, .bad = -1};
    fac_dataset *d = make_map(&from);
    fac_loader *l = fac_error() ? NULL : fac_loader_of(d, 2, true, .num_workers = *(int *)context);
    fac_tensor *batch[2];
    int n = 0;
    if (l)
        while (fac_loader_next(l, batch)) n++;
    if (!fac_error()) assert_int_equal(n, 3);
    fac_loader_release(l);
    fac_dataset_release(d);
    return fac_error();
}

static void loader_survives_failing_allocations(void **state) {
    (void)state;
    for (int workers = 0; workers < 3; workers++) support_fail_each_allocation(use_loader, &workers);
}

FAC_TEST_MAIN(FAC_TEST(S168_batches_are_the_same_for_any_number_of_workers),
              FAC_TEST(streams_come_in_order_for_any_number_of_workers),
              FAC_TEST(loader_resumes_in_the_middle_of_an_epoch),
              FAC_TEST(sample_that_fails_is_named_and_the_epoch_goes_on),
              FAC_TEST(loader_ends_in_the_middle_of_an_epoch), FAC_TEST(prefetch_is_bounded),
              FAC_TEST(late_batch_is_an_error_that_can_be_asked_for_again),
              FAC_TEST(cancelled_thread_stops_waiting_and_can_go_on), FAC_TEST(cancelled_loop_without_workers_ends),
              FAC_TEST(workers_begin_with_a_function), FAC_TEST(collation_is_the_programs_if_it_likes),
              FAC_TEST(samples_that_do_not_stack_name_their_column), FAC_TEST(loader_follows_the_sampler_it_is_given),
              FAC_TEST(order_beyond_the_data_set_is_an_error), FAC_TEST(loader_refuses_keywords_that_make_no_sense),
              FAC_TEST(loader_with_workers_is_refused_in_the_child_of_a_fork),
              FAC_TEST(a_million_samples_need_no_more_memory_than_some), FAC_TEST(loader_survives_failing_allocations))
