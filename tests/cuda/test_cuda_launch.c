/* Users' kernels, and errors of kernels that fail. What breaks a device for the rest of a process is done by a child: this
   program, run with the name of a case. */
#include "core/tensor_make.h"
#include "support/cuda.h"
#include "user_image.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static fac_cuda_module *load(void) {
    fac_cuda_module *m = load_user_kernels();
    if (!m && fac_error() == FAC_ERR_NOT_FOUND) {
        print_message("%s\n", fac_error_message());
        fac_error_clear();
        skip();
    }
    assert_no_error();
    assert_non_null(m);
    return m;
}

static fac_cuda_function *function(fac_cuda_module *m, const char *name) {
    fac_cuda_function *f = fac_cuda_module_function(m, name);
    assert_no_error();
    assert_non_null(f);
    assert_ptr_equal(fac_cuda_module_function(m, name), f);
    return f;
}

static void assert_floats(fac_tensor *t, const float *expected, size_t n) {
    float got[64];
    assert_ok(fac_tensor_read(t, FAC_F32, got, n));
    for (size_t i = 0; i < n; i++) assert_true(got[i] == expected[i]);
}

/* ---- launches ------------------------------------------------------------------------------------------------------------------ */

/* VecAdd<<<1, N>>>(A, B, C) of the CUDA programming guide. */
static void E09_launch_of_vector_addition(void **state) {
    (void)state;
    support_need_devices(1);
    fac_cuda_module *m = load();
    FAC_SCOPE(s);
    fac_tensor *a = fac_to(fac_tensor_of(1, 2, 3, 4), .device = cuda_device(0));
    fac_tensor *b = fac_to(fac_tensor_of(10, 20, 30, 40), .device = cuda_device(0));
    fac_tensor *c = fac_empty(FAC_SHAPE(4), .device = cuda_device(0));
    assert_ok(
        fac_cuda_run(function(m, "VecAdd"), fac_cuda_grid(1, 4), fac_cuda_in(a), fac_cuda_in(b), fac_cuda_out(c)));
    assert_floats(c, (const float[]){11, 22, 33, 44}, 4);
    assert_int_equal(fac_tensor_version(c), 1);
    assert_int_equal(fac_tensor_version(a), 0);
    fac_cuda_module_release(m);
}

static void S053_launch_runs_on_the_current_stream_of_the_tensors_device(void **state) {
    (void)state;
    support_need_devices(2);
    fac_cuda_module *m = load();
    fac_cuda_function *scale = function(m, "scale");
    for (int device = 0; device < 2; device++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_to(fac_tensor_of(1, 2, 3), .device = cuda_device(device));
        fac_stream stream = fac_stream_new(cuda_device(device), 0);
        bool done = true;
        support_gate_close(stream);
        {
            FAC_STREAM_SCOPE(on, stream);
            FAC_DEVICE_SCOPE(elsewhere, cuda_device(1 - device));
            for (int i = 0; i < 3; i++)
                assert_ok(
                    fac_cuda_run(scale, fac_cuda_grid(2, 32), fac_cuda_inout(x), fac_cuda_f32(2), fac_cuda_i64(3)));
        }
        assert_ok(fac_stream_query(fac_default_stream(cuda_device(device)), &done));
        assert_true(done);
        assert_ok(fac_stream_query(stream, &done));
        assert_false(done);
        support_gate_open();
        assert_ok(fac_stream_synchronize(stream));
        assert_floats(x, (const float[]){8, 16, 24}, 3);
    }
    fac_cuda_module_release(m);
}

static void S053_launch_takes_shared_memory_and_three_dimensions(void **state) {
    (void)state;
    support_need_devices(1);
    fac_cuda_module *m = load();
    FAC_SCOPE(s);
    fac_tensor *x = fac_to(fac_tensor_of(1, 2, 3, 4), .device = cuda_device(0)), *y = fac_empty_like(x);
    fac_cuda_config c = {.block = {4}, .shared = 4 * sizeof(float)};
    assert_ok(fac_cuda_run(function(m, "reverse"), c, fac_cuda_in(x), fac_cuda_out(y), fac_cuda_i32(4)));
    assert_floats(y, (const float[]){4, 3, 2, 1}, 4);
    fac_tensor *out = fac_empty(FAC_SHAPE(12), .dtype = FAC_I32, .device = cuda_device(0));
    fac_cuda_config three = {.grid = {2, 3, 2}, .block = {3, 2, 4}};
    assert_ok(fac_cuda_run(function(m, "where_am_i"), three, fac_cuda_out(out)));
    int got[12];
    assert_ok(fac_tensor_read(out, FAC_I32, got, 12));
    for (int i = 0; i < 12; i++) assert_int_equal(got[i], 324);
    fac_cuda_module_release(m);
}

static void S053_launch_with_wrong_arguments_is_an_error(void **state) {
    (void)state;
    support_need_devices(1);
    fac_cuda_module *m = load();
    fac_cuda_function *scale = function(m, "scale");
    FAC_SCOPE(s);
    fac_tensor *x = fac_to(fac_tensor_of(1, 2, 3), .device = cuda_device(0));
    if (fac__cu.cuFuncGetParamInfo) {
        assert_int_equal(fac_cuda_run(scale, fac_cuda_grid(1, 32), fac_cuda_inout(x), fac_cuda_f32(2)),
                         FAC_ERR_ARGUMENT);
        assert_error(FAC_ERR_ARGUMENT, "takes 3 arguments, but 2 were given");
        assert_int_equal(fac_cuda_run(scale, fac_cuda_grid(1, 32), fac_cuda_inout(x), fac_cuda_f64(2), fac_cuda_i64(3)),
                         FAC_ERR_ARGUMENT);
        assert_error(FAC_ERR_ARGUMENT, "argument 1 of kernel scale has 8 bytes, but the parameter has 4");
    }
    assert_int_equal(fac_cuda_run(scale, fac_cuda_grid(1, 99999), fac_cuda_inout(x), fac_cuda_f32(2), fac_cuda_i64(3)),
                     FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "block (99999, 1, 1)");
    assert_int_equal(
        fac_cuda_run(scale, fac_cuda_grid(1, 32), fac_cuda_inout(fac_tensor_of(1)), fac_cuda_f32(2), fac_cuda_i64(1)),
        FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "argument 0 of kernel scale is a CPU tensor");
    fac_cuda_function *none = function(m, "no_such_kernel");
    assert_int_equal(fac_cuda_launch(none, fac_cuda_grid(1, 1), NULL, 0), FAC_ERR_NOT_FOUND);
    assert_error(FAC_ERR_NOT_FOUND, "no kernel 'no_such_kernel'");
    assert_int_equal(fac_cuda_launch(NULL, fac_cuda_grid(1, 1), NULL, 0), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "the function is NULL");
    assert_floats(x, (const float[]){1, 2, 3}, 3);
    fac_cuda_module_release(m);
    fac_cuda_module_release(NULL);
}

static void S037_launch_reaches_a_peers_memory_once_enabled(void **state) {
    (void)state;
    support_need_devices(2);
    fac_cuda_module *m = load();
    fac_cuda_function *add = function(m, "VecAdd");
    bool can;
    FAC_SCOPE(s);
    fac_tensor *a = fac_to(fac_tensor_of(1, 2, 3, 4), .device = cuda_device(0));
    fac_tensor *b = fac_to(fac_tensor_of(10, 20, 30, 40), .device = cuda_device(1));
    fac_tensor *c = fac_empty(FAC_SHAPE(4), .device = cuda_device(0));
    assert_int_equal(fac_cuda_run(add, fac_cuda_grid(1, 4), fac_cuda_in(a), fac_cuda_in(b), fac_cuda_out(c)),
                     FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "fac_cuda_enable_peer_access(0, 1)");
    assert_ok(fac_cuda_can_access_peer(0, 1, &can));
    if (can) {
        assert_ok(fac_cuda_enable_peer_access(0, 1));
        assert_ok(fac_synchronize(cuda_device(1)));
        assert_ok(fac_cuda_run(add, fac_cuda_grid(1, 4), fac_cuda_in(a), fac_cuda_in(b), fac_cuda_out(c)));
        assert_floats(c, (const float[]){11, 22, 33, 44}, 4);
    }
    fac_cuda_module_release(m);
}

static void S053_launch_reads_page_locked_memory_of_the_host(void **state) {
    (void)state;
    support_need_devices(1);
    fac_cuda_module *m = load();
    FAC_SCOPE(s);
    fac_tensor *a = fac_pin_memory(fac_tensor_of(1, 2, 3, 4)), *c = fac_empty(FAC_SHAPE(4), .device = cuda_device(0));
    assert_no_error();
    assert_ok(
        fac_cuda_run(function(m, "VecAdd"), fac_cuda_grid(1, 4), fac_cuda_in(a), fac_cuda_in(a), fac_cuda_out(c)));
    assert_floats(c, (const float[]){2, 4, 6, 8}, 4);
    fac_cuda_module_release(m);
}

static void S053_launch_sizes_are_chosen_for_the_kernel(void **state) {
    (void)state;
    support_need_devices(1);
    fac_cuda_module *m = load();
    fac_cuda_function *scale = function(m, "scale");
    fac_cuda_config c;
    int blocks;
    assert_ok(fac_cuda_config_for(scale, 0, 1000000, false, &c));
    assert_true(c.block[0] >= 32 && c.block[0] % 32 == 0);
    assert_true((int64_t)c.grid[0] * c.block[0] >= 1000000 && (int64_t)(c.grid[0] - 1) * c.block[0] < 1000000);
    assert_ok(fac_cuda_config_for(scale, 0, 1000000000, true, &c));
    assert_true((int64_t)c.grid[0] * c.block[0] < 1000000000);
    assert_ok(fac_cuda_config_for(scale, -1, 0, false, &c));
    assert_int_equal(c.grid[0], 1);
    assert_ok(fac_cuda_occupancy(scale, 0, 128, 0, &blocks));
    assert_true(blocks >= 1);
    assert_int_equal(fac_cuda_config_for(scale, 0, INT64_MAX, false, &c), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "more than a grid has");
    fac_cuda_module_release(m);
}

static void S053_module_that_is_wrong_is_an_error_with_the_reason(void **state) {
    (void)state;
    support_need_devices(1);
    assert_null(fac_cuda_module_load_file("/nonexistent/file"));
    assert_error(FAC_ERR_IO, "/nonexistent/file");
    assert_null(fac_cuda_module_load(NULL));
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    static const char junk[256] = "this is no image";
    fac_cuda_module *m = fac_cuda_module_load(junk);
    assert_non_null(m);
    assert_int_not_equal(fac_cuda_launch(function(m, "f"), fac_cuda_grid(1, 1), NULL, 0), FAC_OK);
    assert_int_not_equal(fac_error(), FAC_OK);
    fac_error_clear();
    fac_cuda_module_release(m);
}

static void S053_module_is_compiled_from_source(void **state) {
    (void)state;
    support_need_devices(2);
    fac_cuda_module *m = fac_cuda_module_compile("#include \"kernel.h\"\n"
                                                 "KERNEL(twice, (IO, float, x), (VAL, int64_t, n)) {\n"
                                                 "    KLOOP(i, n) x[i] *= 2;\n"
                                                 "}\n",
                                                 "twice.cu");
    if (!m && fac_error() == FAC_ERR_UNSUPPORTED && !fac_cuda_is_simulated()) {
        print_message("%s\n", fac_error_message());
        fac_error_clear();
        skip();
    }
    assert_no_error();
    for (int device = 0; device < 2; device++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_to(fac_tensor_of(1, 2, 3), .device = cuda_device(device));
        assert_ok(fac_cuda_run(function(m, "twice"), fac_cuda_grid(1, 32), fac_cuda_inout(x), fac_cuda_i64(3)));
        assert_floats(x, (const float[]){2, 4, 6}, 3);
    }
    fac_cuda_module_release(m);
    assert_null(fac_cuda_module_compile("this is no C", "bad.cu"));
    assert_error(FAC_ERR_FORMAT, "bad.cu");
    assert_null(fac_cuda_module_compile(NULL, NULL));
    assert_error(FAC_ERR_ARGUMENT, "source is NULL");
}

static void S053_module_survives_a_shutdown(void **state) {
    (void)state;
    support_need_devices(1);
    fac_cuda_module *m = load();
    fac_cuda_function *scale = function(m, "scale");
    for (int round = 0; round < 2; round++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_to(fac_tensor_of(1, 2, 3), .device = cuda_device(0));
        assert_ok(fac_cuda_run(scale, fac_cuda_grid(1, 32), fac_cuda_inout(x), fac_cuda_f32(2), fac_cuda_i64(3)));
        assert_floats(x, (const float[]){2, 4, 6}, 3);
        fac_scope_end(&s);
        fac_shutdown();
        assert_ok(fac_init());
    }
    fac_cuda_module_release(m);
}

static fac_status load_and_launch(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_cuda_module *m = load_user_kernels();
    fac_cuda_function *scale = m ? fac_cuda_module_function(m, "scale") : NULL;
    fac_tensor *x = fac_to(fac_tensor_of(1, 2), .device = cuda_device(0));
    if (scale && x)
        (void)(fac_cuda_run(scale, fac_cuda_grid(1, 32), fac_cuda_inout(x), fac_cuda_f32(2), fac_cuda_i64(2)) ==
               FAC_OK);
    fac_scope_end(&s);
    fac_cuda_module_release(m);
    fac__cuda_shutdown(); /* what is cached is no leak */
    return fac_error();
}

static void S053_module_allocations_may_fail(void **state) {
    (void)state;
    support_need_no_checker();
    support_need_devices(1);
    fac_cuda_module_release(load());
    fac__cuda_shutdown();
    support_fail_each_allocation(load_and_launch, NULL);
}

static void *launch_often(void *f) {
    FAC_SCOPE(s);
    float one = 0;
    fac_tensor *x = fac_to(fac_tensor_of(1), .device = cuda_device(0));
    FAC_STREAM_SCOPE(on, fac_stream_new(cuda_device(0), 0));
    if (fac_stream_wait_stream(fac_current_stream(cuda_device(0)), fac_default_stream(cuda_device(0)))) return NULL;
    for (int i = 0; i < 20; i++)
        if (fac_cuda_run(f, fac_cuda_grid(1, 1), fac_cuda_inout(x), fac_cuda_f32(2), fac_cuda_i64(1))) return NULL;
    if (fac_tensor_read(x, FAC_F32, &one, 1)) return NULL;
    return one == 1048576.0f ? f : NULL;
}

static fac_memory_hook hook;
static atomic_int arrived;
static _Thread_local bool meets;

/* A request of each of two threads waits for the other's. */
static void *alloc_together(void *context, size_t bytes, size_t align) {
    if (meets)
        for (meets = false, atomic_fetch_add(&arrived, 1); atomic_load(&arrived) < 2;) sched_yield();
    return hook.alloc(context, bytes, align);
}

static void *ask_for_scale(void *m) {
    if (fac_error() != FAC_OK) return atomic_fetch_add(&arrived, 1), NULL; /* the thread has its state now, or never */
    meets = true;
    void *f = fac_cuda_module_function(m, "scale");
    if (meets) atomic_fetch_add(&arrived, 1);
    return f;
}

static void S053_threads_that_ask_at_once_get_the_same_function(void **state) {
    (void)state;
    support_need_devices(1);
    fac_cuda_module *m = load();
    pthread_t threads[2];
    void *f[2];
    atomic_store(&arrived, 0);
    hook = fac__memory_hook;
    fac__memory_hook.alloc = alloc_together;
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, ask_for_scale, m), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], &f[i]);
    fac__memory_hook = hook;
    assert_non_null(f[0]);
    assert_ptr_equal(f[0], f[1]);
    fac_cuda_module_release(m);
}

static void S053_launches_come_from_many_threads(void **state) {
    (void)state;
    support_need_devices(1);
    fac_cuda_module *m = load();
    pthread_t threads[4];
    void *result;
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, launch_often, function(m, "scale"));
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &result);
        assert_non_null(result);
    }
    fac_cuda_module_release(m);
}

/* Bytes that a launch reports of an argument: rows where it is made of them, else all from the first to the last. */
static void access_of_a_tensor_is_its_rows(void **state) {
    (void)state;
    const struct {
        int ndim;
        int64_t sizes[3], strides[3], width, pitch, rows;
    } cases[] = {
        {0, {0}, {0}, 1, 0, 1},
        {2, {4, 6}, {6, 1}, 24, 0, 1},
        {2, {6, 4}, {1, 6}, 24, 0, 1},         /* transposed */
        {2, {4, 3}, {6, 1}, 3, 6, 4},          /* columns of a matrix */
        {2, {4, 3}, {6, 2}, 1, 2, 12},         /* every other column */
        {3, {2, 3, 5}, {60, 10, 1}, 85, 0, 1}, /* not at equal distances */
        {3, {2, 3, 5}, {30, 10, 1}, 5, 10, 6},
        {3, {2, 1, 5}, {30, 7, 1}, 5, 30, 2},
        {2, {4, 6}, {0, 1}, 6, 0, 1}, /* expanded */
        {2, {4, 6}, {0, 0}, 1, 0, 1},
        {2, {0, 6}, {6, 1}, 0, 0, 1},
    };
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        fac_tensor *t;
        fac_cuda_access a;
        assert_ok(fac__empty_strided(cases[i].sizes, cases[i].strides, cases[i].ndim, FAC_F32,
                                     fac_device_make(FAC_CPU, -1), &t));
        fac__cuda_access_tensor(t, true, false, "t", &a);
        assert_ptr_equal(a.start, fac__data(t));
        assert_int_equal(a.width, cases[i].width * 4);
        assert_int_equal(a.pitch, cases[i].pitch * 4);
        assert_int_equal(a.rows, cases[i].rows);
        assert_true(a.read && !a.write);
        fac__unref(t);
    }
}

/* ---- kernels that fail ------------------------------------------------------------------------------------------------------------- */

static const char *self;

/* Runs this program again for a case, with a variable set (or NULL); its exit status. */
static int run_case(const char *name, const char *variable) {
    int status = -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (variable) setenv(variable, "1", 1);
        execl(self, self, name, (char *)NULL);
        _exit(127);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static int says(const char *what) {
    if (strstr(fac_error_message(), what)) return 1;
    fprintf(stderr, "\"%s\" is not in: %s\n", what, fac_error_message());
    return 0;
}

/* Launches a kernel that asserts; gives the status of the launch itself. */
static fac_status launch_breaking(fac_cuda_module *m) {
    fac_tensor *x = fac_to(fac_tensor_of(1), .device = fac_device_parse("cuda"));
    fac_cuda_function *breaks = fac_cuda_module_function(m, "breaks");
    return x && breaks ? fac_cuda_run(breaks, fac_cuda_grid(1, 1), fac_cuda_out(x)) : fac_error();
}

/* The launch succeeds; a later call reports, says that it may be of an earlier one, which, and how to find it. */
static int case_async(fac_cuda_module *m) {
    FAC_SCOPE(s);
    if (launch_breaking(m) != FAC_OK) return 2;
    if (fac_synchronize(fac_device_parse("cuda")) != FAC_ERR_DEVICE) return 3;
    if (!says("asynchronously") || !says("FACULA_CUDA_LAUNCH_BLOCKING=1") || !says("breaks")) return 4;
    fac_error_clear();
    if (fac_synchronize(fac_device_parse("cuda")) != FAC_ERR_DEVICE) return 5; /* it stays an error */
    fac_error_clear();
    fac_tensor *host = fac_add(fac_tensor_of(1), fac_tensor_of(2)); /* and the CPU works */
    return host && fac_item(host) == 3 ? 0 : 6;
}

/* The launch itself fails and names the kernel. */
static int case_blocking(fac_cuda_module *m) {
    FAC_SCOPE(s);
    if (launch_breaking(m) != FAC_ERR_DEVICE) return 2;
    if (!says("kernel breaks") || strstr(fac_error_message(), "asynchronously")) return 3;
    return 0;
}

static int child(const char *name) {
    fac_cuda_module *m = load_user_kernels();
    if (!m) return fac_report(stderr);
    int result = strcmp(name, "async") == 0 ? case_async(m) : case_blocking(m);
    fac_error_clear();
    fac_cuda_module_release(m);
    fac_shutdown();
    return result;
}

static void S047_error_of_a_kernel_shows_later_and_says_so(void **state) {
    (void)state;
    support_need_devices(1);
    fac_cuda_module_release(load());
    assert_int_equal(run_case("async", NULL), 0);
}

static void S046_launch_blocking_reports_at_the_launch(void **state) {
    (void)state;
    support_need_devices(1);
    fac_cuda_module_release(load());
    assert_int_equal(run_case("blocking", "FACULA_CUDA_LAUNCH_BLOCKING"), 0);
    assert_int_equal(run_case("blocking", "CUDA_LAUNCH_BLOCKING"), 0);
}

static void S046_launch_blocking_waits_for_each_launch(void **state) {
    (void)state;
    support_need_simulator();
    fac_cuda_module *m = load();
    FAC_SCOPE(s);
    fac_tensor *x = fac_to(fac_tensor_of(1, 2, 3), .device = cuda_device(0));
    assert_false(fac_cuda_set_launch_blocking(true));
    assert_ok(
        fac_cuda_run(function(m, "scale"), fac_cuda_grid(1, 32), fac_cuda_inout(x), fac_cuda_f32(2), fac_cuda_i64(3)));
    assert_int_equal(support_sim_count("pending"), 0);
    assert_true(fac_cuda_set_launch_blocking(false));
    assert_ok(
        fac_cuda_run(function(m, "scale"), fac_cuda_grid(1, 32), fac_cuda_inout(x), fac_cuda_f32(2), fac_cuda_i64(3)));
    assert_true(support_sim_count("pending") > 0);
    assert_floats(x, (const float[]){4, 8, 12}, 3);
    fac_cuda_module_release(m);
}

static void S047_launch_that_the_driver_refuses_is_reported_at_once(void **state) {
    (void)state;
    support_need_simulator();
    fac_cuda_module *m = load();
    FAC_SCOPE(s);
    fac_tensor *x = fac_to(fac_tensor_of(1, 2, 3), .device = cuda_device(0));
    support_sim_set("fail=1");
    assert_int_not_equal(
        fac_cuda_run(function(m, "scale"), fac_cuda_grid(1, 32), fac_cuda_inout(x), fac_cuda_f32(2), fac_cuda_i64(3)),
        FAC_OK);
    assert_non_null(strstr(fac_error_message(), "kernel scale on cuda:0"));
    fac_error_clear();
    support_sim_set("fail=0,clear");
    assert_floats(x, (const float[]){1, 2, 3}, 3);
    fac_cuda_module_release(m);
}

int main(int argc, char **argv) {
    self = argv[0];
    if (argc > 1) return child(argv[1]);
    const struct CMUnitTest tests[] = {
        FAC_CUDA_TEST(E09_launch_of_vector_addition),
        FAC_CUDA_TEST(S053_launch_runs_on_the_current_stream_of_the_tensors_device),
        FAC_CUDA_TEST(S053_launch_takes_shared_memory_and_three_dimensions),
        FAC_CUDA_TEST(S053_launch_with_wrong_arguments_is_an_error),
        FAC_CUDA_TEST(S037_launch_reaches_a_peers_memory_once_enabled),
        FAC_CUDA_TEST(S053_launch_reads_page_locked_memory_of_the_host),
        FAC_CUDA_TEST(S053_launch_sizes_are_chosen_for_the_kernel),
        FAC_CUDA_TEST(S053_module_that_is_wrong_is_an_error_with_the_reason),
        FAC_CUDA_TEST(S053_module_is_compiled_from_source),
        FAC_CUDA_TEST(S053_module_survives_a_shutdown),
        FAC_CUDA_TEST(S053_threads_that_ask_at_once_get_the_same_function),
        FAC_CUDA_TEST(S053_launches_come_from_many_threads),
        FAC_CUDA_TEST(S053_module_allocations_may_fail),
        FAC_CUDA_TEST(access_of_a_tensor_is_its_rows),
        FAC_CUDA_TEST(S047_error_of_a_kernel_shows_later_and_says_so),
        FAC_CUDA_TEST(S046_launch_blocking_reports_at_the_launch),
        FAC_CUDA_TEST(S046_launch_blocking_waits_for_each_launch),
        FAC_CUDA_TEST(S047_launch_that_the_driver_refuses_is_reported_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
