/* A boxed fallback that goes on changes nothing: each operator's calls end beneath one as they do without it, whatever
   the operators that they are made of are called with. */
#include "support/samples.h"
#include "support/support.h"
#include <facula/facula.h>

static sample_set set;
static int64_t seen; /* calls, by the fallback */
static fac_registration *registration;

static fac_status go_on(const fac_call_info *c, fac_value *stack) {
    seen++;
    return fac_redispatch_below(c, FAC_KEY_TRACE, stack);
}

static int load(void **state) {
    (void)state;
    memory_hook_install();
    registration = fac_register_fallback("Trace", go_on, NULL, FAC_HERE);
    return registration && samples_load(&set) ? 0 : -1;
}

static fac_status call(const sample_call *c) {
    fac_status st = sample_try(c, fac_device_make(FAC_CPU, -1));
    fac_error_clear();
    return st;
}

static void boxed_fallback_lets_every_call_end_as_it_would(void **state) {
    static sample_call c;
    int differ = 0;
    (void)state;
    for (size_t i = 0; i < set.n; i++) {
        assert_true(sample_parse(set.texts[i], &c, NULL));
        fac_status plain = call(&c);
        fac_keyset was = fac_thread_include(fac_keyset_of(FAC_KEY_TRACE));
        fac_status traced = call(&c);
        fac_thread_include(was);
        if (traced == plain) continue;
        print_error("%s: %s, beneath a fallback %s\n", set.texts[i], fac_status_name(plain), fac_status_name(traced));
        differ++;
    }
    assert_int_equal(differ, 0);
    assert_true(seen > 0);
}

static const struct CMUnitTest tests[] = {
    FAC_TEST(boxed_fallback_lets_every_call_end_as_it_would),
};
int main(void) {
    int failed = support_run(tests, FAC_COUNT(tests), load);
    fac_registration_release(registration);
    samples_free(&set);
    return failed;
}
