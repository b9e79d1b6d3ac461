/* Long chains of views, many hooks, long lists of names: time grows with their number, not with its square. */
#include "autograd_test.h"
#include <stdlib.h>
#include <time.h>

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef void (*work)(size_t n);

static double least_seconds(double least, work fn, size_t n) {
    const double begin = cpu_seconds();
    fn(n);
    return fmin(least, cpu_seconds() - begin);
}

/* Sixteen times the work takes about sixteen times as long where growth is linear, 256 times where it is quadratic. The two take
   turns, so that a machine that is slow for a while is slow for both. */
static void assert_linear(work fn, size_t n) {
    double small = INFINITY, large = INFINITY;
    for (int i = 0; i < 12 && (i < 3 || large > 64 * small); i++) {
        small = least_seconds(small, fn, n);
        large = least_seconds(large, fn, 16 * n);
    }
    if (large > 64 * small) print_error("%zu: %.4f s, %zu: %.4f s\n", n, small, 16 * n, large);
    assert_true(large <= 64 * small);
}

static fac_tensor *chain_of_views(fac_tensor *t, size_t n, bool change_each) {
    for (size_t i = 0; i < n && t; i++) {
        t = fac_view(t, FAC_INTS(4));
        if (change_each && !fac_add_(t, 1.0)) return NULL;
    }
    return t;
}

static void change_the_last_view(size_t n) {
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2, 3, 4)), *y = fac_mul(x, 3.0), *last = chain_of_views(y, n, false);
    assert_non_null(fac_mul_(last, 2.0));
    assert_non_null(fac_grad_fn(last));
    assert_ok(fac_backward(fac_sum(y)));
    assert_values(fac_grad_of(x), 6, 6, 6, 6);
}

static void views_long_chain_changed_at_its_end_is_linear(void **state) {
    (void)state;
    assert_linear(change_the_last_view, 2000);
}

static void views_chain_of_100000_is_changed_in_place(void **state) {
    (void)state;
    change_the_last_view(100000);
}

static void change_every_view(size_t n) {
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2, 3, 4)), *y = fac_mul(x, 3.0);
    assert_non_null(chain_of_views(y, n, true));
    assert_ok(fac_backward(fac_sum(y)));
    assert_values(fac_grad_of(x), 3, 3, 3, 3);
}

static void views_long_chain_changed_all_along_is_linear(void **state) {
    (void)state;
    assert_linear(change_every_view, 200);
}

/* Beyond some depth views are recorded by geometry alone: the values must be those of the steps. */
static void views_deep_chain_reaches_the_right_elements(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1, 2, 3, 4, 5, 6)), *y = fac_mul(x, 1.0), *t = fac_view(y, FAC_INTS(2, 3));
    for (int i = 0; i < 50; i++) t = fac_transpose(t, 0, 1);
    t = fac_select(t, 1, 2); /* elements 2 and 5 */
    for (int i = 0; i < 50; i++) t = fac_unsqueeze(t, 0);
    t = fac_narrow(t, -1, 1, 1); /* element 5 */
    fac_mul_(t, 10.0);
    assert_values(y, 1, 2, 3, 4, 5, 60);
    assert_ok(fac_backward(fac_sum(fac_mul(y, y))));
    assert_values(fac_grad_of(x), 2, 4, 6, 8, 10, 1200);
}

/* The offset of as_strided counts from the start of the storage, a gradient's from the start of the base. */
static void views_as_strided_of_a_base_with_an_offset(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *storage = vector(DOUBLES(0, 0, 0, 1, 2, 3)), *x = scalar_leaf(1);
    fac_tensor *base = fac_narrow(fac_detach(storage), 0, 3, 3);
    base = fac_detach(base);
    fac_mul_(base, x);
    fac_tensor *slice = fac_as_strided(base, FAC_INTS(2), FAC_INTS(1), .storage_offset = 4);
    assert_values(slice, 2, 3);
    fac_mul_(slice, 5.0);
    assert_values(base, 1, 10, 15);
    assert_ok(fac_backward(fac_sum(base)));
    assert_values(fac_grad_of(x), 26);
}

/* ---- hooks ------------------------------------------------------------------------------------------------------------ */

static fac_tensor *count(void *context, fac_tensor *grad) {
    (void)grad;
    ++*(size_t *)context;
    return NULL;
}

static void hook_often(size_t n) {
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1));
    size_t calls = 0;
    fac_hook **all = calloc(n, sizeof *all);
    assert_non_null(all);
    for (size_t i = 0; i < n; i++) all[i] = fac_register_hook(x, count, &calls);
    assert_no_error();
    assert_ok(fac_backward(fac_sum(x)));
    assert_int_equal(calls, n);
    for (size_t i = 0; i < n; i++) fac_hook_remove(all[i]);
    assert_ok(fac_backward(fac_sum(x)));
    assert_int_equal(calls, n);
    free(all);
}

static void hooks_many_on_one_tensor_are_linear(void **state) {
    (void)state;
    assert_linear(hook_often, 2000);
}

static void hook_each_output(size_t n) {
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_zeros(FAC_INTS((int64_t)n)), true);
    fac_tensors parts = fac_unbind(x);
    size_t calls = 0;
    for (size_t i = 0; i < n; i++) {
        assert_non_null(fac_register_hook(parts.v[i], count, &calls));
        assert_ok(fac_retain_grad(parts.v[i]));
    }
    assert_ok(fac_backward(fac_sum(fac_stack(parts))));
    assert_int_equal(calls, n);
    assert_true(fac_item(fac_grad_of(parts.v[n - 1])) == 1);
}

static void hooks_on_many_outputs_of_one_node_are_linear(void **state) {
    (void)state;
    assert_linear(hook_each_output, 500);
}

static void hooks_that_were_removed_take_no_memory(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = leaf(DOUBLES(1));
    size_t calls = 0;
    fac_hook *kept = fac_register_hook(x, count, &calls);
    fac_hook_remove(fac_register_hook(x, count, &calls));
    const int64_t blocks = memory_hook_live();
    for (int i = 0; i < 1000; i++) fac_hook_remove(fac_register_hook(x, count, &calls));
    assert_int_equal(memory_hook_live(), blocks);
    assert_ok(fac_backward(fac_sum(x)));
    assert_int_equal(calls, 1);
    fac_hook_remove(kept);
}

/* A hook that removes itself and another, and adds one. */
typedef struct self_removing {
    fac_tensor *x;
    fac_hook *own, *other;
    size_t calls, later;
} self_removing;

static fac_tensor *remove_and_add(void *context, fac_tensor *grad) {
    self_removing *r = context;
    (void)grad;
    r->calls++;
    fac_hook_remove(r->own);
    fac_hook_remove(r->other);
    assert_non_null(fac_register_hook(r->x, count, &r->later));
    return NULL;
}

static void hooks_may_change_the_list_they_are_in(void **state) {
    (void)state;
    FAC_SCOPE(s);
    self_removing r = {.x = leaf(DOUBLES(1))};
    size_t others = 0;
    r.own = fac_register_hook(r.x, remove_and_add, &r);
    r.other = fac_register_hook(r.x, count, &others);
    assert_ok(fac_backward(fac_sum(r.x)));
    assert_true(r.calls == 1 && r.later == 0 && others == 0);
    assert_ok(fac_backward(fac_sum(r.x)));
    assert_true(r.calls == 1 && r.later == 1 && others == 0);
}

/* ---- lists of names ----------------------------------------------------------------------------------------------------- */

static void fill_a_state(size_t n) {
    FAC_SCOPE(s);
    fac_tensor *t = vector(DOUBLES(1));
    fac_state *list = fac_state_new();
    char name[48];
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "block.%zu.weight", i);
        assert_ok(fac_state_set(list, name, t));
    }
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "block.%zu.weight", i);
        assert_ptr_equal(fac_state_get(list, name), t);
    }
    assert_int_equal(list->n, n);
    fac_state_free(list);
}

static void states_of_many_names_are_linear(void **state) {
    (void)state;
    assert_linear(fill_a_state, 1000);
}

static void states_keep_order_and_names_when_entries_go(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = vector(DOUBLES(1)), *b = vector(DOUBLES(2));
    fac_state *list = fac_state_new();
    const char *names[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < 4; i++) assert_ok(fac_state_set(list, names[i], a));
    fac_state_remove(list, "b");
    fac_state_remove(list, "no such name");
    assert_ok(fac_state_set(list, "d", b));
    assert_ok(fac_state_set(list, "b", b));
    assert_int_equal(list->n, 4);
    assert_string_equal(list->v[1].name, "c");
    assert_string_equal(list->v[3].name, "b");
    assert_true(fac_state_get(list, "c") == a && fac_state_get(list, "d") == b && fac_state_get(list, "b") == b);
    fac_state_free(list);
}

FAC_TEST_MAIN(FAC_TEST(views_deep_chain_reaches_the_right_elements),
              FAC_TEST(views_as_strided_of_a_base_with_an_offset),
              FAC_TEST(views_long_chain_changed_at_its_end_is_linear),
              FAC_TEST(views_chain_of_100000_is_changed_in_place),
              FAC_TEST(views_long_chain_changed_all_along_is_linear), FAC_TEST(hooks_many_on_one_tensor_are_linear),
              FAC_TEST(hooks_on_many_outputs_of_one_node_are_linear), FAC_TEST(hooks_that_were_removed_take_no_memory),
              FAC_TEST(hooks_may_change_the_list_they_are_in), FAC_TEST(states_of_many_names_are_linear),
              FAC_TEST(states_keep_order_and_names_when_entries_go))
