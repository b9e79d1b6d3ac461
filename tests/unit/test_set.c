/* The set of addresses against a plain table of truth values. */
#include "support/support.h"

enum { ADDRESSES = 600, STEPS = 200000 };

static char memory[ADDRESSES * 16];
static const void *address(size_t i) { return memory + i * 16; }

static uint32_t next_random(uint64_t *s) {
    return (uint32_t)((*s = *s * 6364136223846793005u + 1442695040888963407u) >> 33);
}

static void check_all(const fac_set *s, const bool *in) {
    size_t n = 0;
    for (size_t i = 0; i < ADDRESSES; i++) {
        assert_int_equal(fac__set_has(s, address(i)), in[i]);
        n += in[i];
    }
    assert_int_equal(s->n, n);
}

static void set_holds_what_was_added_and_not_removed(void **state) {
    (void)state;
    bool in[ADDRESSES] = {0};
    fac_set s = {0};
    uint64_t seed = 1;
    for (int step = 0; step < STEPS; step++) {
        /* It fills up, is emptied, and fills up again. */
        const bool filling = step / (STEPS / 4) % 2 == 0;
        const size_t i = next_random(&seed) % ADDRESSES;
        in[i] = (next_random(&seed) % 4 != 0) == filling;
        if (in[i])
            assert_ok(fac__set_add(&s, address(i)));
        else
            fac__set_remove(&s, address(i));
        if (step % 997 == 0) check_all(&s, in);
    }
    check_all(&s, in);
    fac__set_free(&s);
}

static void set_that_is_empty_holds_nothing(void **state) {
    (void)state;
    fac_set s = {0};
    fac__set_remove(&s, address(1));
    assert_false(fac__set_has(&s, address(1)));
    assert_ok(fac__set_add(&s, address(1)));
    fac__set_remove(&s, address(2));
    assert_true(fac__set_has(&s, address(1)));
    fac__set_free(&s);
    assert_false(fac__set_has(&s, address(1)));
}

static void set_that_cannot_grow_stays_as_it_is(void **state) {
    (void)state;
    fac_set s = {0};
    size_t n = 0;
    while ((s.n + 1) * 4 <= s.cap * 3 || s.cap == 0) assert_ok(fac__set_add(&s, address(n++)));
    memory_hook_fail(1, false);
    assert_int_equal(fac__set_add(&s, address(n)), FAC_ERR_MEMORY);
    memory_hook_fail(0, false);
    assert_error(FAC_ERR_MEMORY, "");
    for (size_t i = 0; i < n; i++) assert_true(fac__set_has(&s, address(i)));
    assert_false(fac__set_has(&s, address(n)));
    fac__set_free(&s);
}

FAC_TEST_MAIN(FAC_TEST(set_holds_what_was_added_and_not_removed), FAC_TEST(set_that_is_empty_holds_nothing),
              FAC_TEST(set_that_cannot_grow_stays_as_it_is))
