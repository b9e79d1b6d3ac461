/* A layout that cannot be made is refused by every operator that takes one, also where nothing would have to be made. */
#include "support/samples.h"
#include "support/support.h"

#include "dispatch/operator.h"
#include "dispatch/value.h"
#include <facula/facula.h>

static sample_set set;

static int load(void **state) {
    (void)state;
    return samples_load(&set) ? 0 : -1;
}

/* The place of the layout among the arguments; -1 if there is none. */
static int layout_of(const fac_schema *s) {
    for (size_t i = 0; i < s->n_args; i++)
        if (s->args[i].type.kind == FAC_TYPE_LAYOUT) return (int)i;
    return -1;
}

/* The call with that layout, and with the defaults of what stands before it and is not given. */
static fac_status call(const fac_operator *op, const char *text, int at, fac_layout layout) {
    sample_call c;
    sample_made m;
    fac_value result = fac_value_none();
    const fac_schema *s = atomic_load(&op->schema);
    assert_true(sample_parse(text, &c, NULL));
    assert_ok(sample_make(&c, fac_device_make(FAC_CPU, -1), &m));
    for (; (int)m.n_args <= at; m.n_args++) assert_ok(fac__default_value(&s->args[m.n_args], &m.args[m.n_args]));
    fac_value_release(&m.args[at]);
    m.args[at] = fac_value_layout(layout);
    fac_status st = fac_call_op(op, m.args, m.n_args, &result);
    fac_value_release(&result);
    sample_unmake(&m);
    return st;
}

static void every_layout_but_strided_is_refused(void **state) {
    (void)state;
    int operators = 0;
    for (size_t i = 0; i < fac_operator_count(); i++) {
        FAC_SCOPE(s);
        const fac_operator *op = fac_operator_at(i);
        const int at = layout_of(atomic_load(&op->schema));
        size_t n;
        char *const *texts = samples_of(&set, fac_operator_name(op), &n);
        if (at < 0) continue;
        assert_true(n > 0);
        assert_ok(call(op, texts[0], at, FAC_STRIDED));
        for (fac_layout l = FAC_SPARSE_COO; l <= FAC_VENDOR_LAYOUT; l++) {
            if (call(op, texts[0], at, l) == FAC_OK) print_error("%s takes layout %d\n", fac_operator_name(op), (int)l);
            assert_error(FAC_ERR_UNSUPPORTED, "strided");
        }
        operators++;
    }
    assert_true(operators > 30);
}

static const struct CMUnitTest tests[] = {FAC_TEST(every_layout_but_strided_is_refused)};
int main(void) {
    int failed = support_run(tests, FAC_COUNT(tests), load);
    samples_free(&set);
    return failed;
}
