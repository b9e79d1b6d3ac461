/* Devices of CUDA: counts, current device, properties, start and end of contexts, forks. */
#include "support/child.h"
#include "support/cuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void assert_device(fac_device d, fac_device_type type, int index) {
    char text[24];
    if (!fac_device_equal(d, fac_device_make(type, index)))
        print_error("%s\n", fac_device_format(d, text, sizeof text));
    assert_true(fac_device_equal(d, fac_device_make(type, index)));
}

static void assert_current(int index) { assert_device(fac_current_device(FAC_CUDA), FAC_CUDA, index); }

/* ---- the current device ------------------------------------------------------------------------------------------------------ */

static void S032_cuda_index_less_device_is_the_current_one(void **state) {
    (void)state;
    support_need_devices(3);
    FAC_SCOPE(s);
    assert_current(0);
    assert_device(fac_tensor_device(fac_empty(FAC_SHAPE(2), .device = fac_device_parse("cuda"))), FAC_CUDA, 0);
    assert_ok(fac_set_device(cuda_device(2)));
    assert_current(2);
    assert_device(fac_tensor_device(fac_empty(FAC_SHAPE(2), .device = fac_device_parse("cuda"))), FAC_CUDA, 2);
    assert_ok(fac_set_device(cuda_device(0)));
    assert_no_error();
}

static void *report_device(void *out) {
    *(fac_device *)out = fac_current_device(FAC_CUDA);
    if (fac_set_device(cuda_device(2)) != FAC_OK) return NULL;
    return fac_device_equal(fac_current_device(FAC_CUDA), cuda_device(2)) ? out : NULL;
}

static void S032_cuda_current_device_is_of_the_thread(void **state) {
    (void)state;
    support_need_devices(3);
    pthread_t other;
    fac_device seen;
    void *result;
    assert_ok(fac_set_device(cuda_device(1)));
    assert_int_equal(pthread_create(&other, NULL, report_device, &seen), 0);
    assert_int_equal(pthread_join(other, &result), 0);
    assert_non_null(result);
    assert_device(seen, FAC_CUDA, 0);
    assert_current(1);
}

static void S032_cuda_current_device_is_the_drivers(void **state) {
    (void)state;
    support_need_devices(2);
    fac_cuda_device *d;
    assert_ok(fac__cuda_device(1, &d));
    assert_int_equal(fac__cu.cuCtxSetCurrent(d->context), CUDA_SUCCESS); /* as another library would */
    assert_current(1);
    assert_ok(fac_set_device(cuda_device(0)));
    CUdevice ordinal;
    assert_int_equal(fac__cu.cuCtxGetDevice(&ordinal), CUDA_SUCCESS);
    assert_int_equal(ordinal, 0);
}

static void S033_cuda_device_scopes_nest_and_restore(void **state) {
    (void)state;
    support_need_devices(3);
    assert_ok(fac_set_device(cuda_device(1)));
    {
        FAC_DEVICE_SCOPE(outer, cuda_device(2));
        assert_current(2);
        {
            FAC_DEVICE_SCOPE(inner, cuda_device(0));
            assert_current(0);
        }
        assert_current(2);
    }
    assert_current(1);
}

static fac_status fail_inside(void) {
    FAC_DEVICE_SCOPE(s, cuda_device(1));
    return fac_error_set(FAC_ERR_ARGUMENT, "the body failed");
}

static void S033_cuda_device_scope_restores_on_error_paths(void **state) {
    (void)state;
    support_need_devices(2);
    assert_current(0);
    assert_int_equal(fail_inside(), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "the body failed");
    assert_current(0);
    {
        FAC_DEVICE_SCOPE(s, cuda_device(99));
        assert_error(FAC_ERR_DEVICE, "no device cuda:99");
        assert_current(0);
    }
    assert_current(0);
}

static void S033_cuda_scopes_make_no_context_on_the_device_that_they_leave_for(void **state) {
    (void)state;
    support_need_devices(2);
    {
        FAC_DEVICE_SCOPE(s, cuda_device(1));
        assert_true(support_has_context(1));
    }
    assert_current(0);
    assert_false(support_has_context(0));
}

static void S033_cuda_entering_a_device_leaves_the_thread_where_it_was(void **state) {
    (void)state;
    support_need_devices(2);
    fac_cuda_entry outer, inner;
    assert_ok(fac_set_device(cuda_device(1)));
    assert_ok(fac__cuda_enter(0, &outer));
    assert_current(0);
    assert_ok(fac__cuda_enter(0, &inner));
    fac__cuda_leave(&inner);
    assert_current(0);
    fac__cuda_leave(&outer);
    assert_current(1);
    assert_int_equal(fac__cuda_enter(-1, &outer), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "no device cuda:-1");
    fac__cuda_leave(&outer);
    assert_current(1);
}

static void S035_cuda_explicit_device_overrides_the_current_one(void **state) {
    (void)state;
    support_need_devices(3);
    FAC_SCOPE(s);
    FAC_DEVICE_SCOPE(d, cuda_device(1));
    fac_tensor *host = fac_tensor_of(1, 2);
    assert_device(fac_tensor_device(fac_empty(FAC_SHAPE(2), .device = cuda_device(2))), FAC_CUDA, 2);
    assert_device(fac_tensor_device(fac_to(host, .device = cuda_device(2))), FAC_CUDA, 2);
    assert_device(fac_tensor_device(fac_to(host, .device = fac_device_parse("cuda"))), FAC_CUDA, 1);
    assert_current(1);
    assert_no_error();
}

static void S031_cuda_device_that_is_not_there_is_an_error_naming_how_many_are(void **state) {
    (void)state;
    support_need_devices(1);
    char text[64];
    snprintf(text, sizeof text, "CUDA has %d device", fac_cuda_device_count());
    FAC_SCOPE(s);
    assert_int_equal(fac_set_device(cuda_device(63)), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, text);
    assert_null(fac_empty(FAC_SHAPE(2), .device = cuda_device(63)));
    assert_error(FAC_ERR_DEVICE, "cuda:63");
    assert_int_equal(fac_synchronize(cuda_device(63)), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "cuda:63");
    fac_stream none = fac_stream_new(cuda_device(63), 0);
    assert_int_equal(none.device.type, FAC_DEVICE_UNSET);
    assert_error(FAC_ERR_DEVICE, "cuda:63");
}

/* ---- what there is --------------------------------------------------------------------------------------------------------------- */

static void S051_cuda_counting_and_properties_make_no_context(void **state) {
    (void)state;
    support_need_devices(1);
    fac_cuda_properties p;
    assert_true(fac_cuda_is_available());
    assert_true(fac_device_is_available(FAC_CUDA));
    assert_int_equal(fac_device_count(FAC_CUDA), fac_cuda_device_count());
    assert_true(fac_cuda_driver_version() >= 11000);
    assert_string_equal(fac_cuda_why_unavailable(), "");
    for (int i = 0; i < fac_cuda_device_count(); i++) {
        assert_ok(fac_cuda_get_properties(i, &p));
        assert_true(*p.name && p.major >= 5 && p.multiprocessors > 0 && p.total_memory > 0 && p.warp_size == 32);
        assert_int_equal(strlen(p.uuid), 40);
        assert_memory_equal(p.uuid, "GPU-", 4);
        assert_non_null(strchr(p.pci_id, ':'));
        assert_false(support_has_context(i));
    }
    assert_int_equal(fac_cuda_get_properties(63, &p), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "cuda:63");
}

/* The variable is the driver's to read, which a real one does once in a process. */
static void S052_cuda_visible_devices_limits_and_renumbers(void **state) {
    (void)state;
    support_need_simulator();
    support_need_devices(3);
    const char *const was = getenv("CUDA_VISIBLE_DEVICES");
    char *kept = was ? strdup(was) : NULL;
    fac_cuda_properties all[3], p;
    for (int i = 0; i < 3; i++) assert_ok(fac_cuda_get_properties(i, &all[i]));
    support_restart_with("CUDA_VISIBLE_DEVICES", "2,0");
    assert_int_equal(fac_cuda_device_count(), 2);
    assert_ok(fac_cuda_get_properties(0, &p));
    assert_string_equal(p.uuid, all[2].uuid);
    assert_ok(fac_cuda_get_properties(1, &p));
    assert_string_equal(p.uuid, all[0].uuid);
    assert_int_equal(fac_set_device(cuda_device(2)), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "CUDA has 2 devices");
    support_restart_with("CUDA_VISIBLE_DEVICES", "");
    assert_int_equal(fac_cuda_device_count(), 0);
    assert_false(fac_cuda_is_available());
    assert_string_not_equal(fac_cuda_why_unavailable(), "");
    support_restart_with("CUDA_VISIBLE_DEVICES", kept);
    free(kept);
}

static void S248_cuda_off_is_an_answer_and_using_it_an_error(void **state) {
    (void)state;
    char *kept = getenv("FACULA_CUDA") ? strdup(getenv("FACULA_CUDA")) : NULL;
    support_restart_with("FACULA_CUDA", "off");
    FAC_SCOPE(s);
    assert_false(fac_cuda_is_available());
    assert_int_equal(fac_device_count(FAC_CUDA), 0);
    assert_int_equal(fac_cuda_driver_version(), 0);
    assert_non_null(strstr(fac_cuda_why_unavailable(), "FACULA_CUDA"));
    assert_no_error();
    assert_null(fac_empty(FAC_SHAPE(2), .device = cuda_device(0)));
    assert_error(FAC_ERR_DEVICE, "FACULA_CUDA");
    assert_int_equal(fac_synchronize(cuda_device(0)), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "FACULA_CUDA");
    fac_scope_end(&s);
    support_restart_with("FACULA_CUDA", kept);
    free(kept);
}

/* Every function of the table, optional ones included, and what it says of a device. */
static void E30_cuda_guard_table_is_complete(void **state) {
    (void)state;
    support_need_devices(2);
    const fac_device_guard *g = fac_device_guard_of(FAC_CUDA);
    int index = -1;
    int64_t id = -1, was = -1;
    bool done = false;
    void *event = NULL, *end = NULL;
    double ms = -1;
    assert_non_null(g);
    assert_int_equal(g->type, FAC_CUDA);
    assert_int_equal(g->count(g), fac_cuda_device_count());
    assert_ok(g->set_device(g, 1));
    assert_ok(g->get_device(g, &index));
    assert_int_equal(index, 1);
    g->set_device_unchecked(g, 0);
    assert_ok(g->get_device(g, &index));
    assert_int_equal(index, 0);
    assert_ok(g->synchronize(g, 1));
    assert_non_null(g->allocator(g, 1));
    assert_non_null(g->host_allocator(g));
    assert_false(g->is_host_memory(g, &index));
    assert_ok(g->new_stream(g, 1, -1, &id));
    assert_ok(g->exchange_stream(g, 1, id, &was));
    assert_int_equal(was, 0);
    assert_ok(g->get_stream(g, 1, &was));
    assert_int_equal(was, id);
    assert_ok(g->wrap_stream(g, 1, g->stream_handle(g, 1, id), &was));
    assert_ptr_equal(g->stream_handle(g, 1, was), g->stream_handle(g, 1, id));
    assert_ok(g->record_event(g, &event, 1, id, true));
    assert_ok(g->block_stream(g, event, 0, 0));
    assert_ok(g->record_event(g, &end, 1, id, true));
    assert_ok(g->synchronize_event(g, end));
    assert_ok(g->query_event(g, event, &done));
    assert_true(done);
    assert_ok(g->elapsed(g, event, end, &ms));
    assert_true(ms >= 0);
    assert_ok(g->synchronize_stream(g, 1, id));
    assert_ok(g->query_stream(g, 1, id, &done));
    assert_true(done);
    assert_ok(g->record_data(g, NULL, 1, id));
    g->destroy_event(g, event, 1);
    g->destroy_event(g, end, 1);
    assert_ok(g->exchange_stream(g, 1, 0, &was));
}

/* ---- peers ---------------------------------------------------------------------------------------------------------------------------- */

static void S037_cuda_peer_access_is_asked_for_and_enabled(void **state) {
    (void)state;
    support_need_devices(2);
    bool can;
    assert_ok(fac_cuda_can_access_peer(0, 1, &can));
    assert_false(fac_cuda_peer_access_enabled(0, 1));
    if (can) {
        assert_ok(fac_cuda_enable_peer_access(0, 1));
        assert_true(fac_cuda_peer_access_enabled(0, 1));
        assert_false(fac_cuda_peer_access_enabled(1, 0));
        assert_ok(fac_cuda_enable_peer_access(0, 1));
    } else {
        assert_int_equal(fac_cuda_enable_peer_access(0, 1), FAC_ERR_UNSUPPORTED);
        assert_error(FAC_ERR_UNSUPPORTED, "cuda:0 cannot access");
    }
    assert_ok(fac_cuda_can_access_peer(1, 1, &can));
    assert_false(can);
    assert_int_equal(fac_cuda_enable_peer_access(0, 63), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "cuda:63");
}

static void S037_cuda_devices_without_a_link_still_copy(void **state) {
    (void)state;
    support_need_simulator();
    support_need_devices(2);
    support_sim_set("peers=0");
    bool can = true;
    assert_ok(fac_cuda_can_access_peer(0, 1, &can));
    assert_false(can);
    assert_int_equal(fac_cuda_enable_peer_access(0, 1), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "no link joins them");
    FAC_SCOPE(s);
    float back[2];
    fac_tensor *t = fac_to(fac_to(fac_tensor_of(1, 2), .device = cuda_device(0)), .device = cuda_device(1));
    assert_ok(fac_tensor_read(t, FAC_F32, back, 2));
    assert_true(back[0] == 1 && back[1] == 2);
    assert_false(fac_cuda_peer_access_enabled(0, 1));
}

/* ---- start and end ------------------------------------------------------------------------------------------------------------------------ */

/* Called by the stop instead of the driver's own: contexts are the last to go, so whatever is still there is left over. */
static CUresult (*release_context)(CUdevice device);
static int contexts_released;

static CUresult count_left_over(CUdevice device) {
    static const char *const kinds[] = {"streams", "events", "modules", "handles",
                                        "blocks",  "pinned", "bytes",   "pending"};
    for (size_t i = 0; fac__cu_is_simulated() && i < FAC_COUNT(kinds); i++) {
        int64_t n = support_sim_count(kinds[i]);
        if (n) print_error("%lld %s are left over\n", (long long)n, kinds[i]);
        assert_int_equal(n, 0);
    }
    contexts_released++;
    return release_context(device);
}

static void S248_cuda_shutdown_leaves_nothing(void **state) {
    (void)state;
    support_need_devices(2);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 2; i++) {
            FAC_SCOPE(s);
            fac_stream stream = fac_stream_new(cuda_device(i), -1);
            fac_event *e = fac_event_new(FAC_CUDA, .enable_timing = true);
            FAC_STREAM_SCOPE(on, stream);
            fac_tensor *t = fac_to(fac_tensor_of(1, 2, 3), .device = cuda_device(i));
            assert_ok(fac_event_record(e, stream));
            float back[3];
            assert_ok(fac_tensor_read(t, FAC_F32, back, 3));
            assert_true(back[2] == 3);
            fac_event_free(e);
        }
        assert_true(support_has_context(0) && support_has_context(1));
        release_context = fac__cu.cuDevicePrimaryCtxRelease;
        fac__cu.cuDevicePrimaryCtxRelease = count_left_over;
        contexts_released = 0;
        fac_shutdown();
        assert_int_equal(contexts_released, 2);
        assert_ok(fac_init());
        assert_false(support_has_context(0) || support_has_context(1));
    }
}

static fac_tensor *parents; /* on cuda:0 */

static int use_after_fork(void) {
    FAC_SCOPE(s);
    if (fac_empty(FAC_SHAPE(2), .device = cuda_device(0)) || fac_error() != FAC_ERR_DEVICE) return 1;
    if (!strstr(fac_error_message(), "fork")) return 2;
    fac_error_clear();
    if (fac_synchronize(cuda_device(0)) != FAC_ERR_DEVICE) return 3;
    fac_error_clear();
    fac_release(parents); /* the parent's memory: nothing happens */
    fac_tensor *x = fac_add(fac_tensor_of(1, 2), fac_tensor_of(3, 4));
    if (!x || fac_error()) return 4;
    fac_scope_end(&s);
    fac_shutdown();
    return 0;
}

static void S051_cuda_fork_after_use_is_detected(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    parents = fac_keep(fac_to(fac_tensor_of(1, 2), .device = cuda_device(0)));
    assert_no_error();
    assert_int_equal(in_child(use_after_fork), 0);
    float back[2];
    assert_ok(fac_tensor_read(parents, FAC_F32, back, 2));
    assert_true(back[0] == 1 && back[1] == 2);
    fac_release(parents);
}

static int use_freshly(void) {
    FAC_SCOPE(s);
    float back[2] = {0, 0};
    fac_tensor *t = fac_to(fac_tensor_of(1, 2), .device = cuda_device(0));
    if (!t || fac_tensor_read(t, FAC_F32, back, 2) != FAC_OK) return fac_report(stderr);
    return back[1] == 2 ? 0 : 2;
}

static void S051_cuda_fork_before_use_works(void **state) {
    (void)state;
    support_need_simulator(); /* counting devices is already use; with NVML it is not */
    support_restart_with("FACULA_CUDA", getenv("FACULA_CUDA"));
    assert_int_equal(in_child(use_freshly), 0);
    support_need_devices(1);
}

static void S051_cuda_count_without_the_driver_leaves_forks_usable(void **state) {
    (void)state;
    support_need_devices(1);
    int n = fac_cuda_device_count();
    support_restart_with("FACULA_NVML_BASED_CUDA_CHECK", "1");
    assert_true(fac_cuda_is_available());
    assert_int_equal(fac_cuda_device_count(), n);
    assert_null(fac__cu.cuInit); /* nothing is loaded */
    assert_int_equal(in_child(use_freshly), 0);
    support_restart_with("FACULA_NVML_BASED_CUDA_CHECK", NULL);
}

FAC_TEST_MAIN(FAC_CUDA_TEST(S032_cuda_index_less_device_is_the_current_one),
              FAC_CUDA_TEST(S032_cuda_current_device_is_of_the_thread),
              FAC_CUDA_TEST(S032_cuda_current_device_is_the_drivers),
              FAC_CUDA_TEST(S033_cuda_device_scopes_nest_and_restore),
              FAC_CUDA_TEST(S033_cuda_device_scope_restores_on_error_paths),
              FAC_CUDA_TEST(S033_cuda_scopes_make_no_context_on_the_device_that_they_leave_for),
              FAC_CUDA_TEST(S033_cuda_entering_a_device_leaves_the_thread_where_it_was),
              FAC_CUDA_TEST(S035_cuda_explicit_device_overrides_the_current_one),
              FAC_CUDA_TEST(S031_cuda_device_that_is_not_there_is_an_error_naming_how_many_are),
              FAC_CUDA_TEST(S051_cuda_counting_and_properties_make_no_context),
              FAC_CUDA_TEST(S052_cuda_visible_devices_limits_and_renumbers),
              FAC_CUDA_TEST(S248_cuda_off_is_an_answer_and_using_it_an_error),
              FAC_CUDA_TEST(E30_cuda_guard_table_is_complete),
              FAC_CUDA_TEST(S037_cuda_peer_access_is_asked_for_and_enabled),
              FAC_CUDA_TEST(S037_cuda_devices_without_a_link_still_copy),
              FAC_CUDA_TEST(S248_cuda_shutdown_leaves_nothing), FAC_CUDA_TEST(S051_cuda_fork_after_use_is_detected),
              FAC_CUDA_TEST(S051_cuda_fork_before_use_works),
              FAC_CUDA_TEST(S051_cuda_count_without_the_driver_leaves_forks_usable))
