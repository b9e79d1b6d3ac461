/* The race checker: every planted race is found, and what is right is passed over in silence. */
#include "autograd/engine.h"
#include "backend/cuda/runtime/race.h"
#include "support/cuda.h"

static void swallow(void *context, const char *message) {
    (void)message;
    ++*(int *)context;
}

static int warnings;

static int race_setup(void **state) {
    int failed = support_cuda_setup(state);
    fac_set_warning_handler(swallow, &warnings);
    return failed || fac_cuda_set_race_mode(FAC_RACE_REPORT) != FAC_OK;
}

static int race_teardown(void **state) {
    if (fac_synchronize(fac_device_make(FAC_CUDA, 0)) != FAC_OK) return -1;
    fac_set_warning_handler(NULL, NULL);
    if (fac_cuda_set_race_mode(FAC_RACE_OFF) != FAC_OK) return -1;
    return support_cuda_teardown(state);
}
#define RACE_TEST(name) cmocka_unit_test_setup_teardown(name, race_setup, race_teardown)

#define cuda cuda_device
static fac_stream side(void) { return fac_stream_new(cuda(0), 0); }
static fac_stream home(void) { return fac_default_stream(cuda(0)); }
static fac_tensor *empty(int64_t n) { return fac_empty(FAC_SHAPE(n), .device = cuda(0)); }

static void use(fac_tensor *t) { (void)t; }

/* Races found by `planted`, each run from a state in which the host knows that everything is done. */
static size_t races(void (*planted)(void)) {
    assert_ok(fac_synchronize(cuda(0)));
    assert_ok(fac_synchronize(cuda(1)));
    fac_cuda_race_reset();
    {
        FAC_SCOPE(s);
        planted();
        assert_no_error();
    }
    size_t n = fac_cuda_race_count();
    assert_ok(fac_synchronize(cuda(0)));
    assert_ok(fac_synchronize(cuda(1)));
    return n;
}

/* ---- planted ------------------------------------------------------------------------------------------------------- */

static void read_before_written(void) { /* the incorrect example of the notes on CUDA semantics */
    fac_stream s = side();
    fac_tensor *a = fac_normal_(fac_empty(FAC_SHAPE(100, 100), .device = cuda(0)));
    FAC_STREAM_SCOPE(on, s);
    use(fac_sum(a));
}

static void write_only_into_memory_in_use(void) {
    fac_stream s = side();
    fac_tensor *old = fac_zero_(empty(5000));
    fac_drop(old);
    fac_tensor *a = empty(5000); /* the block of `old` */
    FAC_STREAM_SCOPE(on, s);
    fac_normal_(a);
}

static void write_after_read(void) {
    fac_stream s = side();
    fac_tensor *a = fac_ones(FAC_SHAPE(300), .device = cuda(0));
    assert_ok(fac_stream_wait_stream(s, home()));
    {
        FAC_STREAM_SCOPE(on, s);
        use(fac_sum(a));
    }
    fac_zero_(a);
}

static void write_after_write(void) {
    fac_stream s = side();
    fac_tensor *a = empty(300);
    {
        FAC_STREAM_SCOPE(on, s);
        fac_zero_(a);
    }
    fac_fill_(a, 1);
}

static void two_side_streams(void) {
    fac_stream s = side(), t = side();
    fac_tensor *a = empty(300);
    {
        FAC_STREAM_SCOPE(on, s);
        fac_zero_(a);
    }
    FAC_STREAM_SCOPE(on, t);
    use(fac_add(a, 1));
}

static void copied_in_on_the_side(void) {
    fac_stream s = side();
    fac_tensor *host = fac_ones(FAC_SHAPE(300)), *a = empty(300);
    {
        FAC_STREAM_SCOPE(on, s);
        fac_copy_(a, host);
    }
    fac_zero_(a);
    {
        FAC_STREAM_SCOPE(on, s);
        fac_copy_(a, host);
    }
}

static void copied_within_on_the_side(void) {
    fac_stream s = side();
    fac_tensor *a = fac_ones(FAC_SHAPE(300), .device = cuda(0)), *b = empty(300);
    assert_ok(fac_stream_wait_stream(s, home()));
    {
        FAC_STREAM_SCOPE(on, s);
        fac_copy_(b, a);
    }
    use(fac_sum(b));
}

static void block_reused_without_record_stream(void) {
    fac_stream s = side();
    fac_tensor *a = fac_ones(FAC_SHAPE(7000), .device = cuda(0));
    assert_ok(fac_stream_wait_stream(s, home()));
    {
        FAC_STREAM_SCOPE(on, s);
        use(fac_sum(a));
    }
    fac_drop(a);
    fac_zero_(empty(7000));
}

static void waits_the_wrong_way_round(void) {
    fac_stream s = side();
    fac_tensor *a = fac_zero_(empty(300));
    assert_ok(fac_stream_wait_stream(home(), s));
    FAC_STREAM_SCOPE(on, s);
    use(fac_sum(a));
}

static void waits_for_an_event_recorded_too_early(void) {
    fac_stream s = side();
    fac_event *e = fac_event_new(FAC_CUDA);
    assert_ok(fac_event_record(e, home()));
    fac_tensor *a = fac_zero_(empty(300));
    assert_ok(fac_stream_wait_event(s, e));
    {
        FAC_STREAM_SCOPE(on, s);
        use(fac_sum(a));
    }
    fac_event_free(e);
}

static void records_again_after_the_wait(void) {
    fac_stream s = side();
    fac_event *e = fac_event_new(FAC_CUDA);
    assert_ok(fac_event_record(e, home()));
    assert_ok(fac_stream_wait_event(s, e));
    fac_tensor *a = fac_zero_(empty(300));
    assert_ok(fac_event_record(e, home()));
    {
        FAC_STREAM_SCOPE(on, s);
        use(fac_sum(a));
    }
    fac_event_free(e);
}

static void waits_for_another_stream(void) {
    fac_stream s = side(), t = side();
    fac_tensor *a = fac_zero_(empty(300));
    assert_ok(fac_stream_wait_stream(s, t));
    FAC_STREAM_SCOPE(on, s);
    use(fac_sum(a));
}

static void overlapping_slices(void) {
    fac_stream s = side();
    fac_tensor *a = fac_zeros(FAC_SHAPE(100), .device = cuda(0));
    assert_ok(fac_stream_wait_stream(s, home()));
    {
        FAC_STREAM_SCOPE(on, s);
        fac_fill_(fac_narrow(a, 0, 0, 60), 1);
    }
    fac_fill_(fac_narrow(a, 0, 59, 41), 2);
}

static void overlapping_columns(void) {
    fac_stream s = side();
    fac_tensor *a = fac_zeros(FAC_SHAPE(16, 8), .device = cuda(0));
    assert_ok(fac_stream_wait_stream(s, home()));
    {
        FAC_STREAM_SCOPE(on, s);
        fac_fill_(fac_narrow(a, 1, 0, 4), 1);
    }
    fac_fill_(fac_narrow(a, 1, 3, 5), 2);
}

static fac_tensor *leaf(void) { return fac_set_requires_grad(fac_ones(FAC_SHAPE(40), .device = cuda(0)), true); }

/* A loss computed in stream s from a leaf of the default stream. */
static fac_tensor *loss_in(fac_stream s, fac_tensor *x) {
    assert_ok(fac_stream_wait_stream(s, home()));
    FAC_STREAM_SCOPE(on, s);
    return fac_sum(fac_mul(x, x));
}

static void gradients_used_elsewhere(void) { /* E-66, and the old pattern of E-71 */
    fac_stream s = side();
    fac_tensor *x = leaf(), *loss = loss_in(s, x);
    {
        FAC_STREAM_SCOPE(on, s);
        assert_ok(fac_backward(loss));
    }
    use(fac_mul(fac_grad_of(x), 2));
}

static void initial_gradient_from_elsewhere(void) { /* E-69 */
    fac_stream s = side();
    fac_tensor *x = leaf(), *loss = loss_in(s, x);
    fac_tensor *initial = fac_ones_like(loss);
    FAC_STREAM_SCOPE(on, s);
    assert_ok(fac_backward(loss, .gradient = initial));
}

static void pinned_read_by_the_host(void) {
    fac_tensor *a = fac_ones(FAC_SHAPE(300), .device = cuda(0));
    fac_tensor *host = fac_empty(FAC_SHAPE(300), .pin_memory = true);
    fac_copy_(host, a, .non_blocking = true);
    use(fac_add(host, 1));
}

static void pinned_written_by_the_host(void) {
    fac_tensor *a = empty(300);
    fac_tensor *host = fac_ones(FAC_SHAPE(300), .pin_memory = true);
    fac_copy_(a, host, .non_blocking = true);
    fac_zero_(host);
}

static void peer_copy_read_too_early(void) {
    fac_stream s = fac_stream_new(cuda(1), 0);
    fac_tensor *a = fac_ones(FAC_SHAPE(300), .device = cuda(0));
    fac_tensor *b = fac_to(a, .device = cuda(1), .non_blocking = true);
    FAC_STREAM_SCOPE(on, s);
    use(fac_sum(b));
}

static void matrix_product_too_early(void) {
    fac_stream s = side();
    fac_tensor *a = fac_ones(FAC_SHAPE(8, 8), .device = cuda(0)), *b = fac_ones(FAC_SHAPE(8, 8), .device = cuda(0));
    FAC_STREAM_SCOPE(on, s);
    use(fac_mm(a, b));
}

static const struct {
    const char *name;
    void (*plant)(void);
} planted[] = {
#define P(f) \
    { #f, f }
    P(read_before_written),
    P(write_only_into_memory_in_use),
    P(write_after_read),
    P(write_after_write),
    P(two_side_streams),
    P(copied_in_on_the_side),
    P(copied_within_on_the_side),
    P(block_reused_without_record_stream),
    P(waits_the_wrong_way_round),
    P(waits_for_an_event_recorded_too_early),
    P(records_again_after_the_wait),
    P(waits_for_another_stream),
    P(overlapping_slices),
    P(overlapping_columns),
    P(gradients_used_elsewhere),
    P(initial_gradient_from_elsewhere),
    P(pinned_read_by_the_host),
    P(pinned_written_by_the_host),
    P(peer_copy_read_too_early),
    P(matrix_product_too_early),
};

static void X27_twenty_planted_races_are_found(void **state) {
    (void)state;
    size_t found = 0;
    for (size_t i = 0; i < FAC_COUNT(planted); i++) {
        size_t n = races(planted[i].plant);
        if (n == 0) print_message("not found: %s\n", planted[i].name);
        found += n > 0;
    }
    assert_int_equal(FAC_COUNT(planted), 20);
    assert_int_equal(found, FAC_COUNT(planted));
    assert_true(warnings >= 20);
}

static void E62_incorrect_example_is_reported(void **state) {
    (void)state;
    assert_true(races(read_before_written) == 1);
}

static void E64_write_only_example_needs_the_wait(void **state) {
    (void)state;
    assert_true(races(write_only_into_memory_in_use) >= 1);
}

static void E66_S133_gradients_used_in_another_stream_are_reported(void **state) {
    (void)state;
    assert_true(races(gradients_used_elsewhere) >= 1);
}

static void E69_initial_gradient_of_another_stream_is_reported(void **state) {
    (void)state;
    assert_true(races(initial_gradient_from_elsewhere) >= 1);
}

/* ---- right ---------------------------------------------------------------------------------------------------------- */

static void corrected(void) {
    fac_stream s = side();
    fac_tensor *a = fac_normal_(fac_empty(FAC_SHAPE(100, 100), .device = cuda(0))), *b;
    double mean = 0;
    assert_ok(fac_stream_wait_stream(s, home()));
    {
        FAC_STREAM_SCOPE(on, s);
        b = fac_sum(a);
    }
    assert_ok(fac_record_stream(a, s));
    fac_drop(a);
    fac_zero_(fac_empty(FAC_SHAPE(100, 100), .device = cuda(0)));
    assert_ok(fac_stream_wait_stream(home(), s));
    mean = fac_item(b) / 1e4;
    assert_true(mean > -0.1 && mean < 0.1);
}

static void write_only_corrected(void) {
    fac_stream s = side();
    fac_drop(fac_zero_(empty(5000)));
    fac_tensor *a = empty(5000);
    assert_ok(fac_stream_wait_stream(s, home()));
    {
        FAC_STREAM_SCOPE(on, s);
        fac_normal_(a);
    }
    assert_ok(fac_record_stream(a, s));
}

static void gradients_in_the_same_stream(void) { /* E-65 */
    fac_stream s = side();
    fac_tensor *x = leaf(), *loss = loss_in(s, x);
    FAC_STREAM_SCOPE(on, s);
    assert_ok(fac_backward(loss));
    assert_true(fac_item(fac_sum(fac_grad_of(x))) == 80);
}

static void gradients_after_a_wait(void) { /* E-67, and the new pattern of E-71 */
    fac_stream s = side();
    fac_tensor *x = leaf(), *loss = loss_in(s, x);
    {
        FAC_STREAM_SCOPE(on, s);
        assert_ok(fac_backward(loss));
    }
    assert_ok(fac_stream_wait_stream(fac_current_stream(cuda(0)), s));
    assert_true(fac_item(fac_sum(fac_grad_of(x))) == 80);
}

static void initial_gradient_made_in_the_scope(void) { /* E-68 */
    fac_stream s = side();
    fac_tensor *x = leaf(), *loss = loss_in(s, x);
    {
        FAC_STREAM_SCOPE(on, s);
        assert_ok(fac_backward(loss, .gradient = fac_ones_like(loss)));
    }
    assert_ok(fac_stream_wait_stream(home(), s));
    assert_true(fac_item(fac_sum(fac_grad_of(x))) == 80);
}

static void initial_gradient_recorded(void) { /* E-70 */
    fac_stream s = side();
    fac_tensor *x = leaf(), *loss = loss_in(s, x), *initial = fac_ones_like(loss);
    assert_ok(fac_stream_wait_stream(s, fac_current_stream(cuda(0))));
    {
        FAC_STREAM_SCOPE(on, s);
        assert_ok(fac_record_stream(initial, s));
        assert_ok(fac_backward(loss, .gradient = initial));
    }
    assert_ok(fac_stream_wait_stream(home(), s));
    assert_true(fac_item(fac_sum(fac_grad_of(x))) == 80);
}

/* Forward in two streams: backward runs in the same two and orders them itself. */
static void forward_in_two_streams(void) {
    fac_stream s = side(), t = side();
    fac_tensor *x = leaf(), *a, *b;
    assert_ok(fac_stream_wait_stream(s, home()));
    assert_ok(fac_stream_wait_stream(t, home()));
    {
        FAC_STREAM_SCOPE(on, s);
        a = fac_mul(x, x);
    }
    {
        FAC_STREAM_SCOPE(on, t);
        b = fac_mul(x, 3);
    }
    assert_ok(fac_stream_wait_stream(home(), s));
    assert_ok(fac_stream_wait_stream(home(), t));
    assert_ok(fac_record_stream(a, home()));
    assert_ok(fac_record_stream(b, home()));
    assert_ok(fac_backward(fac_sum(fac_add(a, b))));
    assert_true(fac_item(fac_sum(fac_grad_of(x))) == 40 * 5);
}

/* Passes within passes, each over a graph that was made in the stream that its caller is not in. Those that are nested deepest
   run on threads of their own, for which the caller's stream is the current one too. */
static fac_stream both[2];

static fac_status nested_forward(fac_function_ctx *c, fac_tensors inputs, fac_tensor **out) {
    (void)c;
    out[0] = fac_mul(inputs.v[0], 2);
    return fac_error();
}

static fac_status nested_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out);
static const fac_function nested = {
    .name = "Nested", .n_outputs = 1, .forward = nested_forward, .backward = nested_backward};

static fac_status pass_in_the_other_stream(int levels) {
    FAC_SCOPE(s);
    FAC_ENABLE_GRAD(g);
    fac_stream here = fac_current_stream(cuda(0)), there = fac_stream_equal(here, both[0]) ? both[1] : both[0];
    fac_tensor *x = fac_ones(FAC_SHAPE(40), .device = cuda(0), .requires_grad = true), *y = NULL;
    FAC_TRY(fac_stream_wait_stream(there, here));
    {
        FAC_STREAM_SCOPE(on, there);
        FAC_TRY(fac_function_apply(&nested, &levels, FAC_TENSORS(x), &y));
    }
    FAC_TRY(fac_stream_wait_stream(here, there));
    FAC_TRY(fac_backward(y, .gradient = fac_ones_like(y)));
    return fac_item(fac_sum(fac_grad_of(x))) == 80 ? fac_error() : FAC_ERR_AUTOGRAD;
}

static fac_status nested_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    const int *levels = fac_function_user(c);
    out[0] = fac_mul(grads.v[0], 2);
    return *levels ? pass_in_the_other_stream(*levels - 1) : fac_error();
}

static void passes_within_passes(void) {
    both[0] = side();
    both[1] = side();
    FAC_STREAM_SCOPE(on, both[0]);
    assert_ok(pass_in_the_other_stream(FAC_MAX_NESTED_PASSES + 3));
}

static void disjoint_slices_and_columns(void) {
    fac_stream s = side();
    fac_tensor *a = fac_zeros(FAC_SHAPE(16, 8), .device = cuda(0));
    assert_ok(fac_stream_wait_stream(s, home()));
    {
        FAC_STREAM_SCOPE(on, s);
        fac_fill_(fac_narrow(a, 1, 0, 4), 1);
    }
    fac_fill_(fac_narrow(a, 1, 4, 4), 2);
    assert_ok(fac_stream_wait_stream(home(), s));
    assert_true(fac_item(fac_sum(a)) == 16 * 4 * 3);
}

static void readers_side_by_side(void) {
    fac_stream s = side(), t = side();
    fac_tensor *a = fac_ones(FAC_SHAPE(300), .device = cuda(0));
    assert_ok(fac_stream_wait_stream(s, home()));
    assert_ok(fac_stream_wait_stream(t, home()));
    {
        FAC_STREAM_SCOPE(on, s);
        use(fac_sum(a));
    }
    {
        FAC_STREAM_SCOPE(on, t);
        use(fac_sum(a));
    }
    assert_ok(fac_stream_wait_stream(home(), s));
    assert_ok(fac_stream_wait_stream(home(), t));
    fac_zero_(a);
}

static void the_host_waits(void) {
    fac_stream s = side();
    fac_tensor *a = fac_zero_(empty(300));
    assert_ok(fac_stream_synchronize(home()));
    {
        FAC_STREAM_SCOPE(on, s);
        fac_fill_(a, 2);
    }
    assert_ok(fac_stream_synchronize(s));
    assert_true(fac_item(fac_sum(a)) == 600);
}

static void pinned_after_a_wait(void) {
    fac_tensor *a = fac_ones(FAC_SHAPE(300), .device = cuda(0));
    fac_tensor *host = fac_empty(FAC_SHAPE(300), .pin_memory = true);
    fac_copy_(host, a, .non_blocking = true);
    assert_ok(fac_stream_synchronize(home()));
    fac_add_(host, 1);
    fac_copy_(a, host, .non_blocking = true);
    assert_true(fac_item(fac_sum(a)) == 600);
}

static void E63_corrected_example_is_silent_and_right(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) assert_int_equal(races(corrected), 0);
    assert_int_equal(races(write_only_corrected), 0);
}

static void E65_same_scope_is_safe(void **state) {
    (void)state;
    assert_int_equal(races(gradients_in_the_same_stream), 0);
}

static void E67_E71_waiting_for_the_backward_stream_is_safe(void **state) {
    (void)state;
    assert_int_equal(races(gradients_after_a_wait), 0);
    assert_true(races(gradients_used_elsewhere) >= 1);
}

static void E68_initial_gradient_in_the_same_scope_is_safe(void **state) {
    (void)state;
    assert_int_equal(races(initial_gradient_made_in_the_scope), 0);
}

static void E70_initial_gradient_with_wait_and_record_is_safe(void **state) {
    (void)state;
    assert_int_equal(races(initial_gradient_recorded), 0);
}

static void S130_S132_backward_orders_the_streams_of_its_forward(void **state) {
    (void)state;
    assert_int_equal(races(forward_in_two_streams), 0);
    assert_int_equal(races(passes_within_passes), 0);
}

static void X27_what_is_ordered_is_silent(void **state) {
    (void)state;
    assert_int_equal(races(disjoint_slices_and_columns), 0);
    assert_int_equal(races(readers_side_by_side), 0);
    assert_int_equal(races(the_host_waits), 0);
    assert_int_equal(races(pinned_after_a_wait), 0);
}

static void *come_and_go(void *unused) {
    (void)unused;
    fac__mutex_lock(&fac__race_lock);
    uint32_t agent = fac__race_host_agent();
    fac__mutex_unlock(&fac__race_lock);
    return (void *)(uintptr_t)agent;
}

static void X27_threads_that_have_ended_leave_their_place_to_others(void **state) {
    (void)state;
    void *first = NULL;
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        void *agent;
        assert_int_equal(pthread_create(&thread, NULL, come_and_go, NULL), 0);
        pthread_join(thread, &agent);
        if (i == 0) first = agent;
        assert_ptr_equal(agent, first);
    }
}

static void X27_report_names_both_sides(void **state) {
    (void)state;
    fac_race r;
    assert_int_equal(races(read_before_written), 1);
    assert_true(fac_cuda_race_get(0, &r));
    assert_false(fac_cuda_race_get(1, &r));
    assert_non_null(strstr(r.later.op, "sum"));
    assert_non_null(strstr(r.earlier.op, "normal"));
    assert_true(r.earlier.write && !r.later.write);
    assert_true(r.earlier.stream.id == 0 && r.later.stream.id != 0);
    assert_true(*r.later.stack && *r.earlier.stack);
    assert_non_null(strstr(r.text, "fac_stream_wait_stream"));
    assert_non_null(strstr(r.text, "the default stream of cuda:0"));
}

static void X27_error_mode_refuses_the_later_call(void **state) {
    (void)state;
    assert_ok(fac_cuda_set_race_mode(FAC_RACE_ERROR));
    FAC_SCOPE(scope);
    fac_stream s = side();
    fac_tensor *a = fac_normal_(empty(100));
    {
        FAC_STREAM_SCOPE(on, s);
        assert_null(fac_sum(a));
    }
    assert_error(FAC_ERR_STATE, "stream race");
    assert_int_equal(fac_cuda_set_race_mode((fac_race_mode)9), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "no mode");
}

FAC_TEST_MAIN(RACE_TEST(X27_twenty_planted_races_are_found), RACE_TEST(E62_incorrect_example_is_reported),
              RACE_TEST(E63_corrected_example_is_silent_and_right), RACE_TEST(E64_write_only_example_needs_the_wait),
              RACE_TEST(E65_same_scope_is_safe), RACE_TEST(E66_S133_gradients_used_in_another_stream_are_reported),
              RACE_TEST(E67_E71_waiting_for_the_backward_stream_is_safe),
              RACE_TEST(E68_initial_gradient_in_the_same_scope_is_safe),
              RACE_TEST(E69_initial_gradient_of_another_stream_is_reported),
              RACE_TEST(E70_initial_gradient_with_wait_and_record_is_safe),
              RACE_TEST(S130_S132_backward_orders_the_streams_of_its_forward), RACE_TEST(X27_what_is_ordered_is_silent),
              RACE_TEST(X27_threads_that_have_ended_leave_their_place_to_others),
              RACE_TEST(X27_report_names_both_sides), RACE_TEST(X27_error_mode_refuses_the_later_call))
