/* Data sets of every kind, and orders of samples. */
#include "support/support.h"

#include <facula/facula.h>
#include <math.h>

static int64_t int_of(fac_tensor *t) {
    assert_no_error();
    return fac_item_int(t);
}

/* ---- data sets -------------------------------------------------------------------------------------------------------- */

/* Sample i is {i, 10 i}. */
typedef struct numbers {
    int64_t n, at;
    int released;
} numbers;

static fac_status numbers_get(void *context, const fac_sample *at, fac_tensor **out) {
    (void)context;
    if (at->index == 7) return fac_error_set(FAC_ERR_IO, "seven is out");
    out[0] = fac_full(FAC_SHAPE(), (double)at->index, .dtype = FAC_I64);
    out[1] = fac_mul(out[0], 10);
    return fac_error();
}

static bool numbers_next(void *context, const fac_sample *at, fac_tensor **out) {
    numbers *s = context;
    if (s->at == s->n) return false;
    assert_true(at->index >= 0);
    out[0] = fac_full(FAC_SHAPE(), (double)s->at, .dtype = FAC_I64);
    out[1] = fac_full(FAC_SHAPE(), (double)s->at++ * 10, .dtype = FAC_I64);
    return !fac_error();
}

static fac_status numbers_start(void *context, int64_t epoch) {
    ((numbers *)context)->at = epoch; /* later epochs begin later, so that a test sees them */
    return FAC_OK;
}

static void numbers_release(void *context) { ((numbers *)context)->released++; }

static const fac_dataset_class map_class = {
    .size = sizeof map_class, .name = "numbers", .get = numbers_get, .release = numbers_release};
static const fac_dataset_class stream_class = {.size = sizeof stream_class,
                                               .name = "numbers",
                                               .next = numbers_next,
                                               .start = numbers_start,
                                               .release = numbers_release};

static fac_status twice(void *context, const fac_sample *at, fac_tensors in, fac_tensor **out) {
    (void)context, (void)at;
    out[0] = fac_add(in.v[0], in.v[1]);
    return fac_error();
}

static void check_sample(fac_dataset *d, int64_t i, int64_t expected) {
    FAC_SCOPE(s);
    fac_tensor *sample[2];
    assert_ok(fac_dataset_get(d, i, sample));
    assert_int_equal(int_of(sample[0]), expected);
    assert_int_equal(int_of(sample[1]), expected * 10);
}

static void dataset_of_functions_gives_samples_and_names_those_that_fail(void **state) {
    (void)state;
    FAC_SCOPE(s);
    numbers n = {0};
    fac_dataset *d = fac_dataset_new(&map_class, &n, 10, 2);
    assert_no_error();
    assert_int_equal(fac_dataset_length(d), 10);
    assert_int_equal(fac_dataset_columns(d), 2);
    check_sample(d, 3, 3);
    fac_tensor *sample[2];
    assert_int_equal(fac_dataset_get(d, 7, sample), FAC_ERR_IO);
    assert_error(FAC_ERR_IO, "sample 7: seven is out");
    assert_int_equal(fac_dataset_get(d, 10, sample), FAC_ERR_INDEX);
    assert_error(FAC_ERR_INDEX, "no sample 10");
    assert_int_equal(fac_dataset_get(d, -1, sample), FAC_ERR_INDEX);
    fac_error_clear();
    assert_false(fac_dataset_next(d, sample));
    assert_error(FAC_ERR_UNSUPPORTED, "no stream");
    fac_dataset_release(fac_dataset_keep(d));
    assert_int_equal(n.released, 0);
    fac_dataset_release(d);
    assert_int_equal(n.released, 1);
}

static fac_status says_nothing(void *context, const fac_sample *at, fac_tensor **out) {
    (void)context;
    if (at->index == 0) return FAC_ERR_IO;
    out[0] = NULL;
    return FAC_OK;
}

static void dataset_whose_functions_break_the_rules_is_an_error(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const fac_dataset_class silent = {.size = sizeof silent, .get = says_nothing};
    fac_dataset *d = fac_dataset_new(&silent, NULL, 2, 1);
    fac_tensor *sample[1];
    assert_int_equal(fac_dataset_get(d, 0, sample), FAC_ERR_IO);
    assert_error(FAC_ERR_IO, "without saying why");
    assert_int_equal(fac_dataset_get(d, 1, sample), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "no tensor for column 0");
    fac_dataset_release(d);
    assert_null(fac_dataset_new(&map_class, NULL, -1, 1));
    assert_error(FAC_ERR_ARGUMENT, "next for a stream");
    assert_null(fac_dataset_new(&stream_class, NULL, 4, 1));
    assert_error(FAC_ERR_ARGUMENT, "length 4");
    assert_null(fac_dataset_new(&map_class, NULL, 4, 0));
    assert_error(FAC_ERR_ARGUMENT, "columns");
    fac_dataset_class other = map_class;
    other.size = 8;
    assert_null(fac_dataset_new(&other, NULL, 4, 1));
    assert_error(FAC_ERR_ARGUMENT, "sizeof");
}

static void dataset_of_tensors_gives_rows(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_arange(5), *y = fac_mul(x, 10), *sample[2];
    fac_dataset *d = fac_dataset_of_tensors(FAC_TENSORS(x, y));
    for (int64_t i = 0; i < 5; i++) check_sample(d, i, i);
    fac_dataset_release(d);
    assert_null(fac_dataset_of_tensors(FAC_TENSORS(x, fac_arange(4))));
    assert_error(FAC_ERR_SHAPE, "column 1 has 4 samples");
    assert_null(fac_dataset_of_tensors(FAC_TENSORS(fac_ones(FAC_SHAPE()))));
    assert_error(FAC_ERR_SHAPE, "no dimension");
    assert_null(fac_dataset_of_tensors(FAC_TENSORS()));
    assert_error(FAC_ERR_ARGUMENT, "at least one column");
    fac_tensor *turned = fac_t(fac_reshape(fac_arange(6), FAC_SHAPE(2, 3)));
    d = fac_dataset_of_tensors(FAC_TENSORS(turned));
    assert_ok(fac_dataset_get(d, 2, sample));
    assert_true(fac_equal(sample[0], fac_to_dtype(fac_tensor_of(2, 5), FAC_I64)));
    fac_dataset_release(d);
}

static void subset_and_concat_find_their_samples(void **state) {
    (void)state;
    FAC_SCOPE(s);
    numbers n = {0};
    fac_dataset *d = fac_dataset_new(&map_class, &n, 10, 2), *part = fac_dataset_subset(d, FAC_INTS(9, 0, 4)),
                *none = fac_dataset_subset(d, FAC_INTS());
    fac_dataset *all = fac_dataset_concat((fac_dataset *[]){none, part, d, none, part}, 5);
    assert_no_error();
    assert_int_equal(fac_dataset_length(all), 16);
    static const int64_t expected[] = {9, 0, 4, 0, 1, 2, 3, 4, 5, 6, -1, 8, 9, 9, 0, 4};
    for (int64_t i = 0; i < 16; i++)
        if (expected[i] >= 0) check_sample(all, i, expected[i]);
    assert_null(fac_dataset_subset(d, FAC_INTS(3, 10)));
    assert_error(FAC_ERR_INDEX, "index 1 of a subset is 10");
    fac_dataset *mapped = fac_dataset_map(part, twice, NULL, 1);
    fac_tensor *sample[1];
    assert_ok(fac_dataset_get(mapped, 2, sample));
    assert_int_equal(int_of(sample[0]), 44);
    assert_null(fac_dataset_concat((fac_dataset *[]){d, mapped}, 2));
    assert_error(FAC_ERR_ARGUMENT, "1 columns");
    fac_dataset_release(d);
    fac_dataset_release(part);
    fac_dataset_release(none);
    fac_dataset_release(mapped);
    assert_int_equal(n.released, 0);
    fac_dataset_release(all);
    assert_int_equal(n.released, 1);
}

static void random_split_shares_all_samples(void **state) {
    (void)state;
    FAC_SCOPE(s);
    numbers n = {0};
    fac_dataset *whole = fac_dataset_of_tensors(FAC_TENSORS(fac_arange(11), fac_mul(fac_arange(11), 10)));
    fac_dataset *parts[3], *again[3];
    assert_ok(fac_dataset_random_split(whole, FAC_FLOATS(0.5, 0.25, 0.25), parts, .seed = 3));
    assert_ok(fac_dataset_random_split(whole, FAC_FLOATS(6, 3, 2), again, .seed = 3));
    int seen[11] = {0}, moved = 0;
    for (int p = 0; p < 3; p++) {
        assert_int_equal(fac_dataset_length(parts[p]), p == 0   ? 6
                                                       : p == 1 ? 3
                                                                : 2); /* 5.5, 2.75, 2.75, and two are left */
        for (int64_t i = 0; i < fac_dataset_length(parts[p]); i++) {
            FAC_SCOPE(inner);
            fac_tensor *a[2], *b[2];
            assert_ok(fac_dataset_get(parts[p], i, a));
            assert_ok(fac_dataset_get(again[p], i, b));
            assert_int_equal(int_of(a[0]), int_of(b[0]));
            moved += seen[int_of(a[0])]++ != 0 || int_of(a[0]) != i;
        }
        fac_dataset_release(parts[p]);
        fac_dataset_release(again[p]);
    }
    for (int i = 0; i < 11; i++) assert_int_equal(seen[i], 1);
    assert_true(moved > 5);
    assert_int_equal(fac_dataset_random_split(whole, FAC_FLOATS(6, 3), parts), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "make 9, but the data set has 11");
    assert_int_equal(fac_dataset_random_split(whole, FAC_FLOATS(10.5, 0.5), parts), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "length 0 is 10.5");
    fac_dataset_release(whole);
    fac_dataset *stream = fac_dataset_new(&stream_class, &n, -1, 2);
    assert_int_equal(fac_dataset_random_split(stream, FAC_FLOATS(1), parts), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "stream");
    fac_dataset_release(stream);
}

static void streams_follow_each_other_and_start_again(void **state) {
    (void)state;
    numbers a = {.n = 3}, b = {.n = 2};
    fac_dataset *first = fac_dataset_new(&stream_class, &a, -1, 2), *second = fac_dataset_new(&stream_class, &b, -1, 2);
    fac_dataset *both = fac_dataset_concat((fac_dataset *[]){first, second}, 2),
                *sums = fac_dataset_map(both, twice, NULL, 1);
    assert_int_equal(fac_dataset_length(sums), -1);
    for (int epoch = 0; epoch < 2; epoch++) {
        static const int64_t expected[2][6] = {{0, 11, 22, 0, 11, -1}, {11, 22, 11, -1}};
        assert_ok(fac_dataset_start(sums, epoch));
        for (int i = 0; expected[epoch][i] >= 0; i++) {
            FAC_SCOPE(s);
            fac_tensor *sample[1];
            assert_true(fac_dataset_next(sums, sample));
            assert_int_equal(int_of(sample[0]), expected[epoch][i]);
        }
        FAC_SCOPE(s);
        fac_tensor *sample[1];
        assert_false(fac_dataset_next(sums, sample));
        assert_no_error();
    }
    assert_int_equal(fac_dataset_get(sums, 0, NULL), FAC_ERR_ARGUMENT);
    fac_error_clear();
    assert_null(fac_dataset_concat((fac_dataset *[]){first, NULL}, 2));
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    fac_dataset_release(first);
    fac_dataset_release(second);
    fac_dataset_release(both);
    fac_dataset_release(sums);
    assert_int_equal(a.released + b.released, 2);
}

/* ---- orders ------------------------------------------------------------------------------------------------------------ */

enum { MOST = 4096 };
static int64_t order[MOST];

static int64_t whole_epoch(fac_sampler *s, int64_t epoch) {
    int64_t n = 0, got;
    fac_sampler_start(s, epoch);
    while ((got = fac_sampler_next(s, order + n, 64)) > 0) n += got;
    assert_no_error();
    return n;
}

static void count(int *counts, int64_t n) {
    for (int64_t i = 0; i < n; i++) counts[order[i]]++;
}

static void samplers_draw_as_many_as_they_are_told(void **state) {
    (void)state;
    int counts[8] = {0};
    fac_sampler *s = fac_sampler_new(8, .shuffle = true, .num_samples = 20);
    assert_int_equal(whole_epoch(s, 0), 20);
    count(counts, 20);
    for (int i = 0; i < 8; i++) assert_in_range(counts[i], 2, 3);
    fac_sampler_release(s);
    s = fac_sampler_new(8, .shuffle = true, .num_samples = 3);
    assert_int_equal(whole_epoch(s, 0), 3);
    fac_sampler_release(s);
    s = fac_sampler_new(8, .num_samples = 3);
    assert_int_equal(whole_epoch(s, 0), 3);
    for (int i = 0; i < 3; i++) assert_int_equal(order[i], i);
    fac_sampler_release(s);
    memset(counts, 0, sizeof counts);
    s = fac_sampler_new(8, .replacement = true, .num_samples = 4000, .seed = 1);
    assert_int_equal(whole_epoch(s, 0), 4000);
    count(counts, 4000);
    for (int i = 0; i < 8; i++) assert_in_range(counts[i], 400, 600); /* 500, deviation 21 */
    fac_sampler_release(s);
    assert_null(fac_sampler_new(8, .num_samples = 9));
    assert_error(FAC_ERR_ARGUMENT, "num_samples is 9");
    assert_null(fac_sampler_new(0, .replacement = true, .num_samples = 1));
    assert_error(FAC_ERR_ARGUMENT, "0 samples");
    assert_null(fac_sampler_new(-1));
    assert_error(FAC_ERR_ARGUMENT, "-1 samples");
    s = fac_sampler_new(0, .shuffle = true);
    assert_int_equal(whole_epoch(s, 0), 0);
    fac_sampler_release(s);
}

static void weighted_sampler_follows_its_weights(void **state) {
    (void)state;
    int counts[5] = {0};
    fac_sampler *s = fac_sampler_weighted(FAC_FLOATS(1, 0, 3, 4, 0), 4000);
    assert_int_equal(whole_epoch(s, 0), 4000);
    count(counts, 4000);
    assert_in_range(counts[0], 400, 600);
    assert_in_range(counts[2], 1350, 1650);
    assert_in_range(counts[3], 1850, 2150);
    assert_int_equal(counts[1] + counts[4], 0);
    fac_sampler_release(s);
    s = fac_sampler_weighted(FAC_FLOATS(1, 0, 9, 2, 0), 3, false);
    int firsts[5] = {0};
    for (int64_t epoch = 0; epoch < 1200; epoch++) {
        memset(counts, 0, sizeof counts);
        assert_int_equal(whole_epoch(s, epoch), 3);
        count(counts, 3);
        assert_true(counts[0] == 1 && counts[2] == 1 && counts[3] == 1);
        firsts[order[0]]++;
    }
    assert_in_range(firsts[2], 840, 960); /* 9 of 12: 900, deviation 15 */
    assert_in_range(firsts[0], 60, 145);
    fac_sampler_release(s);
    s = fac_sampler_weighted(FAC_FLOATS(0, 5e-324, 0), 1,
                             false); /* as small as a weight can be, and yet the only one */
    for (int64_t epoch = 0; epoch < 50; epoch++) {
        assert_int_equal(whole_epoch(s, epoch), 1);
        assert_int_equal(order[0], 1);
    }
    fac_sampler_release(s);
    assert_null(fac_sampler_weighted(FAC_FLOATS(1, -1), 1));
    assert_error(FAC_ERR_ARGUMENT, "weight 1 is -1");
    assert_null(fac_sampler_weighted(FAC_FLOATS(1, NAN), 1));
    assert_error(FAC_ERR_ARGUMENT, "weight 1");
    assert_null(fac_sampler_weighted(FAC_FLOATS(0, 0), 1));
    assert_error(FAC_ERR_ARGUMENT, "0 weights are above 0");
    assert_null(fac_sampler_weighted(FAC_FLOATS(1, 0), 2, false));
    assert_error(FAC_ERR_ARGUMENT, "without replacement");
}

static void subset_sampler_keeps_or_shuffles_its_numbers(void **state) {
    (void)state;
    fac_sampler *s = fac_sampler_subset(FAC_INTS(7, 7, 3));
    assert_int_equal(whole_epoch(s, 0), 3);
    assert_true(order[0] == 7 && order[1] == 7 && order[2] == 3);
    fac_sampler_release(s);
    s = fac_sampler_subset(FAC_INTS(5, 6, 7, 8), .shuffle = true);
    int64_t first = -1, changes = 0;
    for (int64_t epoch = 0; epoch < 40; epoch++) {
        int counts[9] = {0};
        assert_int_equal(whole_epoch(s, epoch), 4);
        count(counts, 4);
        for (int i = 5; i < 9; i++) assert_int_equal(counts[i], 1);
        changes += order[0] != first;
        first = order[0];
    }
    assert_true(changes > 15);
    fac_sampler_release(s);
}

static void ranks_share_an_epoch(void **state) {
    (void)state;
    for (int drop = 0; drop < 2; drop++) {
        int counts[11] = {0};
        fac_sampler *of = fac_sampler_new(11, .shuffle = true, .seed = 5);
        assert_int_equal(whole_epoch(of, 2), 11);
        int64_t whole[11];
        memcpy(whole, order, sizeof whole);
        for (int64_t rank = 0; rank < 4; rank++) {
            fac_sampler *s = fac_sampler_distributed(of, rank, 4, .drop_last = drop);
            assert_int_equal(whole_epoch(s, 2), drop ? 2 : 3);
            for (int i = 0; i < (drop ? 2 : 3); i++) assert_int_equal(order[i], whole[(rank + 4 * i) % 11]);
            count(counts, drop ? 2 : 3);
            fac_sampler_release(s);
        }
        int sum = 0;
        for (int i = 0; i < 11; i++) sum += counts[i];
        assert_int_equal(sum, drop ? 8 : 12);
        fac_sampler_release(of);
    }
    fac_sampler *of = fac_sampler_new(1);
    fac_sampler *s = fac_sampler_distributed(of, 2, 3); /* fewer samples than replicas: they come again */
    assert_int_equal(whole_epoch(s, 0), 1);
    assert_int_equal(order[0], 0);
    fac_sampler_release(s);
    assert_null(fac_sampler_distributed(of, 3, 3));
    assert_error(FAC_ERR_ARGUMENT, "rank 3 of 3");
    fac_sampler_release(of);
}

static void batch_sampler_gives_whole_batches(void **state) {
    (void)state;
    fac_sampler *of = fac_sampler_new(10), *s = fac_sampler_batch(of, 4),
                *full = fac_sampler_batch(of, 4, .drop_last = true);
    assert_int_equal(fac_sampler_length(s), 3);
    assert_int_equal(fac_sampler_length(full), 2);
    assert_int_equal(fac_sampler_next(s, order, 64), 4);
    assert_int_equal(fac_sampler_next(s, order, 3), 0);
    assert_error(FAC_ERR_ARGUMENT, "room for 3 numbers, but the batch has 4");
    assert_int_equal(fac_sampler_next(s, order, 4), 4);
    assert_int_equal(order[3], 7);
    assert_int_equal(fac_sampler_next(s, order, 4), 2);
    assert_int_equal(fac_sampler_next(s, order, 4), 0);
    assert_int_equal(whole_epoch(full, 0), 8);
    assert_null(fac_sampler_batch(s, 2));
    assert_error(FAC_ERR_ARGUMENT, "batches already");
    fac_sampler_release(of);
    fac_sampler_release(s);
    fac_sampler_release(full);
}

static fac_status backwards(void *context, int64_t epoch, int64_t *out, int64_t n) {
    (void)context;
    if (epoch == 9) return fac_error_set(FAC_ERR_IO, "no ninth epoch");
    for (int64_t i = 0; i < n; i++) out[i] = n - 1 - i + epoch;
    return FAC_OK;
}

static void sampler_of_a_function_gives_its_order(void **state) {
    (void)state;
    fac_sampler *s = fac_sampler_of(backwards, NULL, 3);
    assert_int_equal(whole_epoch(s, 2), 3);
    assert_true(order[0] == 4 && order[1] == 3 && order[2] == 2);
    fac_sampler_start(s, 9);
    assert_int_equal(fac_sampler_next(s, order, 3), 0);
    assert_error(FAC_ERR_IO, "no ninth epoch");
    assert_int_equal(whole_epoch(s, 0), 3);
    fac_sampler_release(s);
}

/* Of every kind, those that are left after a break are those that come without one. */
static void check_resumes(fac_sampler *s, fac_sampler *fresh, int64_t step) {
    int64_t expected[64];
    const int64_t n = whole_epoch(s, 3);
    memcpy(expected, order, (size_t)n * sizeof *order);
    for (int64_t at = 0; at < n; at += step) {
        fac_sampler_start(s, 3);
        for (int64_t done = 0; done < at; done += step) assert_int_equal(fac_sampler_next(s, order, step), step);
        const fac_data_state place = fac_sampler_get_state(s);
        assert_true(place.epoch == 3 && place.at == at);
        assert_ok(fac_sampler_set_state(fresh, place));
        int64_t got, left = at;
        for (; (got = fac_sampler_next(fresh, order, step)) > 0; left += got)
            assert_memory_equal(order, expected + left, (size_t)got * sizeof *order);
        assert_int_equal(left, n);
    }
    fac_data_state other = fac_sampler_get_state(s);
    other.length++;
    assert_int_equal(fac_sampler_set_state(fresh, other), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "an order of");
    other = fac_sampler_get_state(s);
    other.at = -1;
    assert_int_equal(fac_sampler_set_state(fresh, other), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "does not stop");
    fac_sampler_release(s);
    fac_sampler_release(fresh);
}

static void every_sampler_resumes_in_the_middle_of_an_epoch(void **state) {
    (void)state;
    check_resumes(fac_sampler_new(13), fac_sampler_new(13), 1);
    check_resumes(fac_sampler_new(13, .shuffle = true, .seed = 8), fac_sampler_new(13, .shuffle = true, .seed = 8), 1);
    check_resumes(fac_sampler_new(5, .replacement = true, .num_samples = 13),
                  fac_sampler_new(5, .replacement = true, .num_samples = 13), 1);
    check_resumes(fac_sampler_weighted(FAC_FLOATS(1, 2, 3), 12), fac_sampler_weighted(FAC_FLOATS(1, 2, 3), 12), 1);
    check_resumes(fac_sampler_subset(FAC_INTS(3, 1, 4, 1), true), fac_sampler_subset(FAC_INTS(3, 1, 4, 1), true), 1);
    fac_sampler *of = fac_sampler_new(24, .shuffle = true);
    check_resumes(fac_sampler_distributed(of, 1, 2), fac_sampler_distributed(of, 1, 2), 1);
    check_resumes(fac_sampler_batch(of, 4), fac_sampler_batch(of, 4), 4);
    fac_sampler_release(of);
}

/* ---- memory ------------------------------------------------------------------------------------------------------------- */

static fac_status make_all(void *context) {
    (void)context;
    FAC_SCOPE(s);
    numbers n = {0};
    fac_dataset *d = fac_dataset_new(&map_class, &n, 6, 2),
                *t = fac_dataset_of_tensors(FAC_TENSORS(fac_ones(4), fac_ones(4)));
    fac_dataset *sub = fac_dataset_subset(d, FAC_INTS(1, 2)), *all = NULL, *map = NULL, *parts[2] = {NULL, NULL};
    if (!fac_error()) all = fac_dataset_concat((fac_dataset *[]){sub, d}, 2);
    if (!fac_error()) map = fac_dataset_map(all, twice, NULL, 1);
    if (!fac_error()) (void)!fac_dataset_random_split(map, FAC_FLOATS(0.5, 0.5), parts);
    fac_tensor *sample[2];
    if (!fac_error()) (void)!fac_dataset_get(map, 5, sample);
    fac_sampler *w = fac_sampler_weighted(FAC_FLOATS(1, 2, 3), 3, false), *b = NULL;
    if (!fac_error()) b = fac_sampler_batch(w, 2);
    if (!fac_error()) (void)fac_sampler_next(b, order, 2);
    for (int i = 0; i < 2; i++) fac_dataset_release(parts[i]);
    fac_dataset_release(map);
    fac_dataset_release(all);
    fac_dataset_release(sub);
    fac_dataset_release(t);
    fac_dataset_release(d);
    fac_sampler_release(b);
    fac_sampler_release(w);
    return fac_error();
}

static void datasets_and_samplers_survive_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(make_all, NULL);
}

FAC_TEST_MAIN(FAC_TEST(dataset_of_functions_gives_samples_and_names_those_that_fail),
              FAC_TEST(dataset_whose_functions_break_the_rules_is_an_error), FAC_TEST(dataset_of_tensors_gives_rows),
              FAC_TEST(subset_and_concat_find_their_samples), FAC_TEST(random_split_shares_all_samples),
              FAC_TEST(streams_follow_each_other_and_start_again), FAC_TEST(samplers_draw_as_many_as_they_are_told),
              FAC_TEST(weighted_sampler_follows_its_weights), FAC_TEST(subset_sampler_keeps_or_shuffles_its_numbers),
              FAC_TEST(ranks_share_an_epoch), FAC_TEST(batch_sampler_gives_whole_batches),
              FAC_TEST(sampler_of_a_function_gives_its_order),
              FAC_TEST(every_sampler_resumes_in_the_middle_of_an_epoch),
              FAC_TEST(datasets_and_samplers_survive_failing_allocations))
