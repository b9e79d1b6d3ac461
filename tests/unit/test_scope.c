/* Scopes: what they free, and what outlives them. */
#include "core/tensor_make.h"
#include "core/thread.h"
#include "support/support.h"
#include <pthread.h>

static fac_tensor *temporary(void) { return fac_tensor_of(1, 2, 3); }

static void scope_end_frees_its_temporaries(void **state) {
    (void)state;
    int64_t before = fac_live();
    {
        FAC_SCOPE(s);
        assert_non_null(temporary());
        assert_non_null(temporary());
        assert_int_equal(fac_live(), before + 4);
    }
    assert_int_equal(fac_live(), before);
}

static void scope_without_one_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    assert_null(temporary());
    assert_error(FAC_ERR_STATE, "no scope is open");
}

static void scope_keep_outlives_the_scope(void **state) {
    (void)state;
    fac_tensor *t;
    {
        FAC_SCOPE(s);
        t = fac_keep(temporary());
    }
    assert_int_equal(fac_tensor_numel(t), 3);
    fac_release(t);
    fac_release(NULL);
    assert_null(fac_keep(NULL));
}

static fac_tensor *yielding(void) {
    FAC_SCOPE(s);
    temporary();
    fac_tensor *t = temporary();
    temporary();
    return fac_yield(s, t);
}

static void scope_yield_hands_to_the_enclosing_scope(void **state) {
    (void)state;
    int64_t before = fac_live();
    {
        FAC_SCOPE(s);
        fac_tensor *t = yielding();
        assert_int_equal(fac_live(), before + 2);
        assert_int_equal(fac_tensor_numel(t), 3);
        assert_int_equal(atomic_load(&fac__header(t)->refs), 1);
    }
    assert_int_equal(fac_live(), before);
}

static void scope_yield_from_the_outermost_is_an_error(void **state) {
    (void)state;
    {
        FAC_SCOPE(s);
        assert_null(fac_yield(s, temporary()));
        assert_error(FAC_ERR_STATE, "no scope encloses");
    }
}

static void scope_yield_from_an_ended_one_is_an_error(void **state) {
    (void)state;
    FAC_SCOPE(outer);
    fac_scope s = fac_scope_begin();
    fac_scope_end(&s);
    assert_null(fac_scope_yield(&s, temporary()));
    assert_error(FAC_ERR_STATE, "the scope has ended");
    assert_null(fac_scope_yield(&outer, NULL));
    assert_null(fac__adopt(fac__thread(), NULL));
    assert_null(fac__take(NULL));
}

/* Yielding past scopes that are still open, of a tensor that the outer scope made and of one that an inner one made. */
static void scope_yield_works_under_open_inner_scopes(void **state) {
    (void)state;
    fac_scope outer = fac_scope_begin(), middle = fac_scope_begin();
    fac_tensor *a = temporary();
    temporary();
    fac_scope inner = fac_scope_begin();
    temporary();
    fac_tensor *b = temporary();
    assert_ptr_equal(fac_scope_yield(&middle, b), b);
    assert_ptr_equal(fac_scope_yield(&middle, a), a);
    fac_scope_end(&inner);
    assert_int_equal(fac_tensor_numel(a), 3);
    assert_int_equal(fac_tensor_numel(b), 3);
    fac_scope_end(&middle);
    assert_int_equal(fac_tensor_numel(a), 3);
    assert_int_equal(fac_tensor_numel(b), 3);
    assert_int_equal(fac_live(), 4);
    fac_scope_end(&outer);
    assert_int_equal(fac_live(), 0);
}

static void scope_yield_of_a_kept_tensor_leaves_the_keeper_its_reference(void **state) {
    (void)state;
    FAC_SCOPE(outer);
    fac_tensor *kept = fac_keep(temporary());
    {
        FAC_SCOPE(s);
        assert_ptr_equal(fac_yield(s, kept), kept);
    }
    assert_int_equal(atomic_load(&fac__header(kept)->refs), 3);
    fac_release(kept);
}

static void scope_ending_twice_or_out_of_order_is_harmless(void **state) {
    (void)state;
    fac_scope a = fac_scope_begin(), b = fac_scope_begin(), copy = b;
    temporary();
    fac_scope_end(&a); /* ends b too */
    assert_int_equal(fac_live(), 0);
    fac_scope c = fac_scope_begin();
    temporary();
    fac_scope_end(&b);
    fac_scope_end(&copy);
    fac_scope_end(&a);
    assert_int_equal(fac_live(), 2);
    fac_scope_end(&c);
    fac_scope_end(&c);
}

static void scope_unwind_closes_inner_scopes_and_keeps_their_temporaries(void **state) {
    (void)state;
    fac_scope outer = fac_scope_begin(), inner = fac_scope_begin();
    fac_tensor *t = temporary();
    fac_scope_unwind(&outer);
    assert_int_equal(fac_tensor_numel(t), 3);
    fac_scope_end(&inner);
    assert_int_equal(fac_live(), 2);
    fac_scope_end(&outer);
    assert_int_equal(fac_live(), 0);
}

static void scope_drop_frees_early_and_only_in_the_innermost(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = temporary(), *b = temporary();
    fac_drop(a);
    assert_int_equal(fac_live(), 2);
    {
        FAC_SCOPE(inner);
        fac_drop(b);
        assert_error(FAC_ERR_STATE, "innermost scope");
    }
    fac_drop(NULL);
    fac_drop(b);
    assert_int_equal(fac_live(), 0);
    assert_int_equal(fac__thread()->n_temps, 0);
}

static void scope_end_releases_while_an_error_is_pending(void **state) {
    (void)state;
    {
        FAC_SCOPE(s);
        temporary();
        FAC_FAIL(FAC_ERR_SHAPE, "earlier");
        assert_null(temporary());
    }
    assert_int_equal(fac_live(), 0);
    assert_error(FAC_ERR_SHAPE, "earlier");
}

static void scope_take_moves_the_reference_without_counting(void **state) {
    (void)state;
    fac_tensor *t, *kept;
    {
        FAC_SCOPE(s);
        t = temporary();
        kept = fac_keep(temporary());
        fac__take(fac__header(t));
        {
            FAC_SCOPE(inner); /* does not own kept: a reference is counted */
            fac__take(fac__header(kept));
        }
        assert_int_equal(atomic_load(&fac__header(t)->refs), 1);
        assert_int_equal(atomic_load(&fac__header(kept)->refs), 3);
    }
    assert_int_equal(atomic_load(&fac__header(kept)->refs), 2);
    fac__unref(fac__header(t));
    fac_release(kept);
    fac__unref(fac__header(kept));
}

static void scope_dead_handle_is_reported(void **state) {
    (void)state;
    fac_tensor *t;
    {
        FAC_SCOPE(s);
        t = temporary();
    }
    assert_int_equal(fac_tensor_numel(t), 0);
    assert_error(FAC_ERR_STATE, "released already");
    fac_release(t);
    assert_error(FAC_ERR_STATE, "released already");
    assert_null(fac_keep(t));
    assert_error(FAC_ERR_STATE, "released already");
}

static void *use_a_foreign_scope(void *scope) {
    fac_scope mine = fac_scope_begin();
    fac_scope foreign = *(fac_scope *)scope;
    temporary();
    fac_scope_end(&foreign); /* another thread's: nothing happens here */
    int64_t temps = (int64_t)fac__thread()->n_temps;
    fac_scope_end(&mine);
    return (void *)(intptr_t)temps;
}

static void scope_of_another_thread_is_not_ended(void **state) {
    (void)state;
    pthread_t thread;
    void *temps;
    fac_scope s = fac_scope_begin();
    pthread_create(&thread, NULL, use_a_foreign_scope, &s);
    pthread_join(thread, &temps);
    assert_int_equal((intptr_t)temps, 1);
    fac_scope_end(&s);
}

static void *release_it(void *t) {
    fac_release(t);
    return NULL;
}

static void scope_thread_end_frees_what_it_left_open(void **state) {
    (void)state;
    pthread_t thread;
    fac_scope s = fac_scope_begin();
    fac_tensor *t = fac_keep(temporary());
    fac_scope_end(&s);
    pthread_create(&thread, NULL, release_it, t); /* made here, freed there */
    pthread_join(thread, NULL);
    assert_int_equal(fac_live(), 0);
}

static void *leave_open(void *unused) {
    (void)unused;
    (void)fac_scope_begin();
    temporary();
    return NULL;
}

static void scope_left_open_by_a_thread_is_freed_with_it(void **state) {
    (void)state;
    pthread_t thread;
    pthread_create(&thread, NULL, leave_open, NULL);
    pthread_join(thread, NULL);
    assert_int_equal(fac_live(), 0);
}

static fac_status open_scopes_and_fill_them(void *unused) {
    (void)unused;
    FAC_SCOPE(outer);
    for (int i = 0; i < 20; i++) {
        FAC_SCOPE(s);
        fac_yield(s, temporary());
        temporary();
    }
    return fac_error();
}

static void scope_survives_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(open_scopes_and_fill_them, NULL);
}

static void *start_without_memory(void *unused) {
    (void)unused;
    memory_hook_fail(1, true);
    fac_scope s = fac_scope_begin();
    fac_tensor *t = temporary();
    fac_scope_end(&s);
    fac_status st = fac_error();
    memory_hook_fail(0, false);
    fac_error_clear();
    bool well = t == NULL && st == FAC_ERR_MEMORY && fac_error() == FAC_OK;
    s = fac_scope_begin(); /* with memory it works again */
    well = well && temporary() != NULL;
    fac_scope_end(&s);
    return (void *)(intptr_t)well;
}

/* Only the state's own allocation fails: what is asked for next gets memory, but must not be counted nowhere, and the error
   must not be lost when the thread has a state after all. */
static void *start_with_one_failure(void *unused) {
    fac_tensor *t;
    (void)unused;
    memory_hook_fail(1, false);
    bool well = fac__scalar_tensor(fac_scalar_f_(1), FAC_F32, &t) == FAC_ERR_MEMORY && fac_error() == FAC_ERR_MEMORY;
    memory_hook_fail(0, false);
    fac_scope s = fac_scope_begin();
    well = well && temporary() == NULL && fac_error() == FAC_ERR_MEMORY;
    fac_error_clear();
    well = well && temporary() != NULL;
    fac_scope_end(&s);
    return (void *)(intptr_t)well;
}

static void thread_without_memory_for_its_state_reports_that(void **state) {
    void *(*const bodies[])(void *) = {start_without_memory, start_with_one_failure};
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(bodies); i++) {
        pthread_t thread;
        void *well;
        pthread_create(&thread, NULL, bodies[i], NULL);
        pthread_join(thread, &well);
        assert_true((intptr_t)well);
    }
}

static void version_is_that_of_the_header(void **state) {
    (void)state;
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d.%d", FACULA_VERSION_MAJOR, FACULA_VERSION_MINOR, FACULA_VERSION_PATCH);
    assert_string_equal(fac_version(), expected);
}

static void shutdown_and_start_again(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        fac_shutdown();
        assert_false(atomic_load(&fac__started));
        FAC_SCOPE(s);
        assert_true(atomic_load(&fac__started));
        assert_non_null(temporary());
    }
}

FAC_TEST_MAIN(FAC_TEST(scope_end_frees_its_temporaries), FAC_TEST(scope_without_one_is_an_error_and_leaks_nothing),
              FAC_TEST(scope_keep_outlives_the_scope), FAC_TEST(scope_yield_hands_to_the_enclosing_scope),
              FAC_TEST(scope_yield_from_the_outermost_is_an_error), FAC_TEST(scope_yield_from_an_ended_one_is_an_error),
              FAC_TEST(scope_yield_works_under_open_inner_scopes),
              FAC_TEST(scope_yield_of_a_kept_tensor_leaves_the_keeper_its_reference),
              FAC_TEST(scope_ending_twice_or_out_of_order_is_harmless),
              FAC_TEST(scope_unwind_closes_inner_scopes_and_keeps_their_temporaries),
              FAC_TEST(scope_drop_frees_early_and_only_in_the_innermost),
              FAC_TEST(scope_end_releases_while_an_error_is_pending),
              FAC_TEST(scope_take_moves_the_reference_without_counting), FAC_TEST(scope_dead_handle_is_reported),
              FAC_TEST(scope_of_another_thread_is_not_ended), FAC_TEST(scope_thread_end_frees_what_it_left_open),
              FAC_TEST(scope_left_open_by_a_thread_is_freed_with_it), FAC_TEST(scope_survives_failing_allocations),
              FAC_TEST(thread_without_memory_for_its_state_reports_that), FAC_TEST(version_is_that_of_the_header),
              FAC_TEST(shutdown_and_start_again))
