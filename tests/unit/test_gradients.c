/* The gradients of every operator in every sample, in float64 and where it can in complex128, against central differences, and
   so the gradients of gradients. What cannot be checked is listed with its reason, and the numbers are printed. */
#include "base/sanitizers.h"
#include "dispatch/operator.h"
#include "support/checked_calls.h"
#include "support/samples.h"
#include "support/support.h"

#include <facula/facula.h>
#include <string.h>

static sample_set set;

static int load(void **state) {
    (void)state;
    return samples_load(&set) ? 0 : -1;
}

typedef struct counts {
    int operators, once, twice, refused, refused_twice, wrong;
} counts;

/* A difference is wrong. Another error says why there is no derivative: it is shown, and counted. */
static void count(const char *what, const char *text, fac_dtype dtype, int *refused, counts *c) {
    fac_error_info e;
    const fac_status st = fac_error_get(&e);
    const bool wrong = st == FAC_ERR_AUTOGRAD && strstr(e.message, "mismatch");
    (wrong ? print_error : print_message)("%s: %s, %s: %s\n", what, text, fac_dtype_name(dtype), e.message);
    ++*(wrong ? &c->wrong : refused);
    fac_error_clear();
}

static void check(const fac_operator *op, const char *gradient, const char *text, fac_dtype dtype, counts *c) {
    static checked k;
    FAC_SCOPE(s);
    k.peculiar = peculiarity_of(fac_operator_name(op));
    if (!checked_make(&k, op, gradient, text, dtype)) return;
    const fac_tensors leaves = {k.leaves, k.n_leaves};
    if (fac_gradcheck(checked_run, &k, leaves, k.n_outs) != FAC_OK) {
        count("gradient", text, dtype, &c->refused, c);
    } else {
        c->once++;
        if (fac_gradgradcheck(checked_run, &k, leaves, k.n_outs) != FAC_OK)
            count("second gradient", text, dtype, &c->refused_twice, c);
        else
            c->twice++;
    }
    sample_unmake(&k.made);
}

/* AddressSanitizer takes a few of them, since the kernels are seen by other tests. */
#if FAC_UNDER_ASAN
enum { ONE_IN = 8 };
#else
enum { ONE_IN = 1 };
#endif

/* Forms that write are differentiated as the plain ones are, which test_operator_twins compares them with. */
static bool is_checked(const fac_operator *op, const fac_operator_facts *f) {
    const peculiarity *p = peculiarity_of(fac_operator_name(op));
    const bool skipped = (p && p->how == SKIPPED) || sample_elsewhere(fac_operator_name(op));
    return !f->writes && strncmp(f->gradient, "none", 4) != 0 && !skipped;
}

static void check_all(fac_dtype dtype, counts *c) {
    for (size_t i = 0; i < fac_operator_count(); i++) {
        const fac_operator *op = fac_operator_at(i);
        const int before = c->once;
        fac_operator_facts f;
        size_t n;
        char *const *texts = samples_of(&set, fac_operator_name(op), &n);
        assert_ok(fac_operator_facts_of(op, &f));
        if (!is_checked(op, &f)) continue;
        for (size_t k = 0; k < n && i % ONE_IN == 0; k++) check(op, f.gradient, texts[k], dtype, c);
        c->operators += c->once > before;
    }
    print_message(
        "%d operators: %d gradients are right, of these %d second ones; %d and %d say why there is none; %d are wrong\n",
        c->operators, c->once, c->twice, c->refused, c->refused_twice, c->wrong);
}

static void S125_S134_gradients_of_every_operator_in_float64(void **state) {
    (void)state;
    counts c = {0};
    check_all(FAC_F64, &c);
    assert_int_equal(c.wrong, 0);
    assert_true(c.operators > 700 / ONE_IN && c.refused <= 81 && c.refused_twice <= 11);
}

static void S125_S134_gradients_of_every_operator_in_complex128(void **state) {
    (void)state;
    counts c = {0};
    check_all(FAC_C128, &c);
    assert_int_equal(c.wrong, 0);
    assert_true(c.operators > 400 / ONE_IN && c.refused <= 5 && c.refused_twice == 0);
}

static const struct CMUnitTest tests[] = {
    FAC_TEST(S125_S134_gradients_of_every_operator_in_float64),
    FAC_TEST(S125_S134_gradients_of_every_operator_in_complex128),
};
int main(void) {
    int failed = support_run(tests, FAC_COUNT(tests), load);
    samples_free(&set);
    return failed;
}
