/* Random shapes, strides, dtypes and broadcasts against a loop over indices that knows nothing of the iterator. */
#include "core/scalar.h"
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>
#include <stdlib.h>

#define MAX_DIMS 5
#define ROOM 20000 /* elements of the buffer under an operand */

static uint64_t seed;
static uint64_t random_bits(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 33;
}
static int64_t below(int64_t n) { return (int64_t)(random_bits() % (uint64_t)n); }

typedef struct operand {
    fac_tensor *t;
    int ndim;
    int64_t sizes[MAX_DIMS], strides[MAX_DIMS];
    fac_dtype dtype;
    char *data;
} operand;

static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_I32, FAC_I64, FAC_I16, FAC_U8, FAC_F16, FAC_BF16, FAC_BOOL};

/* Sizes that broadcast to `full`: leading dimensions dropped, some of the rest set to one. */
static void choose_sizes(operand *o, int ndim, const int64_t *full) {
    int drop = below(3) == 0 ? (int)below(ndim + 1) : 0;
    o->ndim = ndim - drop;
    for (int d = 0; d < o->ndim; d++) o->sizes[d] = below(5) == 0 ? 1 : full[d + drop];
}

/* Strides of a random permutation, with random gaps; sometimes 0. */
static void choose_strides(operand *o, bool may_repeat) {
    int order[MAX_DIMS];
    for (int d = 0; d < o->ndim; d++) order[d] = d;
    if (below(3) == 0)
        for (int d = o->ndim - 1; d > 0; d--) {
            int e = (int)below(d + 1), t = order[d];
            order[d] = order[e];
            order[e] = t;
        }
    int64_t stride = below(4) == 0 ? 2 : 1;
    for (int d = o->ndim - 1; d >= 0; d--) {
        o->strides[order[d]] = may_repeat && below(8) == 0 ? 0 : stride;
        stride *= o->sizes[order[d]] ? o->sizes[order[d]] : 1;
        if (below(6) == 0) stride += below(3);
    }
}

static void release(void *data) { free(data); }

static void make(operand *o, fac_dtype d) {
    size_t item = fac_dtype_size(d);
    o->dtype = d;
    o->data = malloc(ROOM * item);
    assert_non_null(o->data);
    for (int64_t i = 0; i < ROOM; i++)
        fac__store(o->data + (size_t)i * item, d,
                   fac_scalar_i_(below(d == FAC_BOOL ? 2
                                       : d == FAC_U8 ? 12
                                                     : 25) -
                                 (d == FAC_U8 || d == FAC_BOOL ? 0 : 12)));
    o->t = fac_tensor_wrap(o->data, ROOM * item, d, (fac_ints){o->sizes, (size_t)o->ndim},
                           (fac_ints){o->strides, (size_t)o->ndim}, 0, release, o->data);
    assert_no_error();
}

static double element(const operand *o, const int64_t *index, int ndim) {
    int64_t at = 0;
    double re_im[2];
    for (int d = 0; d < o->ndim; d++)
        if (o->sizes[d] != 1) at += index[ndim - o->ndim + d] * o->strides[d];
    return fac__scalar_f64(fac__load(o->data + (size_t)at * fac_dtype_size(o->dtype), o->dtype, re_im));
}

/* What dtype d makes of x. */
static double rounded(fac_dtype d, double x) {
    char room[16];
    double re_im[2];
    fac__store(room, d, fac_dtype_is_floating(d) ? fac_scalar_f_(x) : fac_scalar_i_((int64_t)x));
    return fac__scalar_f64(fac__load(room, d, re_im));
}

typedef struct binary_case {
    fac_tensor *(*run)(fac_tensor *a, fac_tensor *b);
    double (*expect)(double a, double b);
    bool to_bool;
} binary_case;

static fac_tensor *run_add(fac_tensor *a, fac_tensor *b) { return fac_add(a, b); }
static fac_tensor *run_mul(fac_tensor *a, fac_tensor *b) { return fac_mul(a, b); }
static fac_tensor *run_maximum(fac_tensor *a, fac_tensor *b) { return fac_maximum(a, b); }
static fac_tensor *run_lt(fac_tensor *a, fac_tensor *b) { return fac_lt(a, b); }
static double add(double a, double b) { return a + b; }
static double mul(double a, double b) { return a * b; }
static double maximum(double a, double b) { return a > b ? a : b; }
static double lt(double a, double b) { return a < b; }
static const binary_case cases[] = {
    {run_add, add, false}, {run_mul, mul, false}, {run_maximum, maximum, false}, {run_lt, lt, true}};

static bool next_index(int64_t *index, const int64_t *sizes, int ndim) {
    for (int d = ndim - 1; d >= 0; d--) {
        if (++index[d] < sizes[d]) return true;
        index[d] = 0;
    }
    return false;
}

static void check_result(fac_tensor *r, const operand *a, const operand *b, const binary_case *c) {
    fac_dtype d = fac_tensor_dtype(r);
    int ndim = fac_tensor_ndim(r);
    int64_t index[MAX_DIMS] = {0};
    size_t n = (size_t)fac_tensor_numel(r), at = 0;
    double *got = malloc((n + 1) * sizeof *got);
    assert_ok(fac_tensor_read(r, FAC_F64, got, n));
    if (n) do {
            double x = element(a, index, ndim), y = element(b, index, ndim), want = c->expect(x, y);
            if (!c->to_bool) want = rounded(d, want);
            if (got[at] != want) {
                print_error("seed case: %g, %g gave %g, should be %g (element %zu of %zu, dtypes %s %s)\n", x, y,
                            got[at], want, at, n, fac_dtype_name(a->dtype), fac_dtype_name(b->dtype));
                fail();
            }
            at++;
        } while (next_index(index, fac_tensor_sizes(r).v, ndim));
    assert_int_equal(at, n);
    free(got);
}

static void one_case(void) {
    FAC_SCOPE(s);
    int64_t full[MAX_DIMS];
    int ndim = (int)below(MAX_DIMS + 1);
    static const int64_t small[] = {1, 2, 3, 5, 0, 7}, large[] = {40, 70, 33, 100, 1, 12};
    for (int d = 0; d < ndim; d++)
        full[d] = below(4) == 0 && ndim <= 2 ? large[below(6)] : small[below(d == 0 ? 6 : 4)];
    operand a, b;
    choose_sizes(&a, ndim, full);
    choose_sizes(&b, ndim, full);
    choose_strides(&a, true);
    choose_strides(&b, true);
    fac_dtype da = dtypes[below(9)], db = below(2) ? da : dtypes[below(9)];
    make(&a, da);
    make(&b, db);
    const binary_case *c = &cases[below(4)];
    fac_tensor *r = c->run(a.t, b.t);
    assert_no_error();
    check_result(r, &a, &b, c);
}

static void S114_broadcasts_and_strides_agree_with_a_plain_loop(void **state) {
    (void)state;
    seed = 1;
    for (int i = 0; i < 3000; i++) one_case();
}

/* In place and out= into strided, differently typed memory. */
static void one_inplace_case(void) {
    FAC_SCOPE(s);
    operand a, b, before;
    int ndim = 1 + (int)below(3);
    int64_t full[MAX_DIMS];
    for (int d = 0; d < ndim; d++) full[d] = 1 + below(ndim == 3 ? 16 : 50);
    a.ndim = ndim;
    memcpy(a.sizes, full, sizeof full);
    choose_sizes(&b, ndim, full);
    choose_strides(&a, false);
    choose_strides(&b, true);
    make(&a, below(2) ? FAC_F32 : FAC_F16);
    make(&b, below(2) ? FAC_F32 : FAC_I32);
    before = a;
    before.data = malloc(ROOM * fac_dtype_size(a.dtype));
    memcpy(before.data, a.data, ROOM * fac_dtype_size(a.dtype));
    fac_tensor *r = fac_add_(a.t, b.t);
    assert_no_error();
    assert_ptr_equal(r, a.t);
    check_result(r, &before, &b, &cases[0]);
    free(before.data);
}

static void S114_in_place_into_strided_memory_agrees_with_a_plain_loop(void **state) {
    (void)state;
    seed = 2;
    for (int i = 0; i < 1000; i++) one_inplace_case();
}

/* Larger than a tile, a chunk and the cache limit for plain stores. */
static void S113_large_operands_agree_on_any_number_of_threads(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int64_t n = 3 * 1000 * 1000 + 7;
    fac_tensor *a = fac_arange((double)n, .dtype = FAC_F32), *b = fac_mul(a, 0.5);
    int threads = fac_num_threads();
    assert_ok(fac_set_num_threads(1));
    fac_tensor *one = fac_exp(fac_mul(fac_add(a, b), -1e-6));
    assert_ok(fac_set_num_threads(3));
    fac_tensor *three = fac_exp(fac_mul(fac_add(a, b), -1e-6));
    assert_ok(fac_set_num_threads(threads));
    assert_no_error();
    assert_memory_equal(fac_tensor_data(one), fac_tensor_data(three), (size_t)n * 4);
    const float *x = fac_tensor_data(one);
    for (int64_t i = 0; i < n; i += 997) assert_true(fabs(x[i] - exp(-1e-6 * 1.5 * (double)i)) < 1e-5);
}

static void S113_outputs_beyond_the_cache_are_whole(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int64_t n = 7 * 1000 * 1000 + 3; /* 28 MB */
    fac_tensor *a = fac_full(FAC_INTS(n + 1), 1.5, .dtype = FAC_F32);
    fac_tensor *whole = fac_add(a, 1.0), *shifted = fac_narrow(a, 0, 1, n);
    fac_add_(shifted, 1.0); /* starts off alignment */
    assert_no_error();
    assert_true(fac_item(fac_all(fac_eq(whole, 2.5))) == 1.0);
    assert_true(fac_item(fac_all(fac_eq(shifted, 2.5))) == 1.0);
    assert_true(*(const float *)fac_tensor_data(a) == 1.5f);
}

FAC_TEST_MAIN(FAC_TEST(S114_broadcasts_and_strides_agree_with_a_plain_loop),
              FAC_TEST(S114_in_place_into_strided_memory_agrees_with_a_plain_loop),
              FAC_TEST(S113_large_operands_agree_on_any_number_of_threads),
              FAC_TEST(S113_outputs_beyond_the_cache_are_whole))
