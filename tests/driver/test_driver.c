/* Opening the driver, real or simulated: what is tried, what is missing, what forks find, and what the errors say. */
#include "backend/cuda/driver/driver.h"
#include "support/support.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* A false library, loaded under the name of the real one, which a later dlopen by that name then finds. */
static void *preload(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/lib%s.so", FAKE_FOLDER, name);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) print_error("%s\n", dlerror());
    assert_non_null(library);
    return library;
}

/* Until it is gone: the driver's code never closes what it opened under this name. */
static void release(void *library) {
    while (!dlclose(library) && (library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW))) dlclose(library);
}

static int setup(void **state) {
    fac__cu_unload();
    unsetenv("FACULA_CUDA");
    unsetenv("FACULA_NVML_BASED_CUDA_CHECK");
    unsetenv("CUDA_VISIBLE_DEVICES");
    return support_setup(state);
}

static int teardown(void **state) {
    fac__cu_unload();
    return support_teardown(state);
}

static void unusable(const char *name, const char *text) {
    void *library = preload(name);
    assert_int_equal(fac__cu_load(), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, text);
    assert_int_equal(fac__cu_device_count(), 0); /* and that is no error */
    assert_no_error();
    assert_int_equal(fac__cu_load(), FAC_ERR_DEVICE); /* remembered */
    assert_error(FAC_ERR_DEVICE, text);
    assert_null(fac__cu.cuInit);
    fac__cu_unload();
    release(library);
}

static void the_toolkits_stub_is_named(void **state) {
    (void)state;
    unusable("fake_stub", "is the stub of the CUDA toolkit");
}

static void no_device_is_named(void **state) {
    (void)state;
    unusable("fake_no_device", "shows no device");
    setenv("CUDA_VISIBLE_DEVICES", "7", 1);
    unusable("fake_no_device", "CUDA_VISIBLE_DEVICES=7");
}

static void a_missing_symbol_is_named(void **state) {
    (void)state;
    unusable("fake_incomplete", "version 10.0) lacks cuStreamBeginCapture_v2, which drivers since CUDA 10.1 have");
}

static void a_driver_that_does_not_start_is_named(void **state) {
    (void)state;
    unusable("fake_broken", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH");
}

static void S248_no_driver_is_named(void **state) {
    (void)state;
    void *real = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (real) {
        print_message("this machine has a driver\n");
        skip();
    }
    assert_int_equal(fac__cu_load(), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "there is no CUDA driver: libcuda.so.1");
    assert_int_equal(fac__cu_device_count(), 0);
}

static void a_driver_too_old_for_an_image_is_named(void **state) {
    (void)state;
    assert_int_equal(fac__cu_image_error(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the kernels"), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "is too old for the kernels");
    assert_int_equal(fac__cu_image_error(CUDA_ERROR_INVALID_IMAGE, "the kernels"), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "the driver is too old for the toolkit that made it");
    assert_int_equal(fac__cu_image_error(CUDA_ERROR_NO_BINARY_FOR_GPU, "the kernels"), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "no code for this GPU");
    assert_int_equal(fac__cu_image_error(CUDA_ERROR_OUT_OF_MEMORY, "the kernels"), FAC_ERR_MEMORY);
    assert_error(FAC_ERR_MEMORY, "the kernels could not be loaded: CUDA_ERROR_OUT_OF_MEMORY");
}

static void cuda_can_be_turned_off(void **state) {
    (void)state;
    setenv("FACULA_CUDA", "off", 1);
    assert_int_equal(fac__cu_load(), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "turned off");
    assert_int_equal(fac__cu_device_count(), 0);
    fac__cu_unload();
    setenv("FACULA_CUDA", "maybe", 1);
    assert_int_equal(fac__cu_load(), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "FACULA_CUDA=maybe is not understood");
}

static void a_driver_is_loaded_once(void **state) {
    (void)state;
    void *library = preload("fake_driver");
    assert_ok(fac__cu_load());
    assert_ok(fac__cu_load());
    assert_int_equal(fac__cu_device_count(), 3);
    assert_int_equal(fac__cu_version(), 12040);
    assert_false(fac__cu_is_simulated());
    assert_non_null(fac__cu.cuMemAlloc);
    fac__cu_unload();
    release(library);
}

static int count_with(const char *visible) {
    fac__cu_unload();
    if (visible)
        setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    else
        unsetenv("CUDA_VISIBLE_DEVICES");
    return fac__cu_device_count();
}

/* clang-format off */
static const struct { const char *list; int count; } visible[] = {
    {NULL, 4}, {"", 0}, {"2", 1}, {"3,1", 2}, {"0,1,9,2", 2}, {"-1", 0}, {"1,x,2", 1}, {"0,1,0", 0}, {" 1, 2", 2},
};
/* clang-format on */

static void S052_the_simulator_honours_visible_devices(void **state) {
    (void)state;
    setenv("FACULA_CUDA", "sim:4", 1);
    for (size_t i = 0; i < FAC_COUNT(visible); i++) assert_int_equal(count_with(visible[i].list), visible[i].count);
    assert_int_equal(count_with("GPU-"), 0); /* could be any of them */
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static void S052_visible_devices_are_numbered_anew(void **state) {
    (void)state;
    char name[64];
    CUuuid uuid;
    setenv("FACULA_CUDA", "sim:4", 1);
    setenv("CUDA_VISIBLE_DEVICES", "3,1", 1);
    assert_ok(fac__cu_load());
    assert_true(fac__cu_is_simulated());
    assert_int_equal(fac__cu.cuDeviceGetName(name, sizeof name, 0), 0);
    assert_string_equal(name, "Simulated GPU 3");
    assert_int_equal(fac__cu.cuDeviceGetUuid(&uuid, 1), 0);
    char text[64], *p = text + sprintf(text, "GPU-");
    for (int i = 0; i < 16; i++) {
        p += sprintf(p, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)uuid.bytes[i]);
    }
    assert_int_equal(count_with(text), 1);
    assert_ok(fac__cu_load());
    assert_int_equal(fac__cu.cuDeviceGetName(name, sizeof name, 0), 0);
    assert_string_equal(name, "Simulated GPU 1");
}

static void S051_the_count_can_come_from_the_management_library(void **state) {
    (void)state;
    void *driver = preload("fake_broken"), *nvml = preload("fake_nvml");
    setenv("FACULA_NVML_BASED_CUDA_CHECK", "1", 1);
    for (size_t i = 0; i < FAC_COUNT(visible); i++) assert_int_equal(count_with(visible[i].list), visible[i].count);
    assert_int_equal(count_with("GPU-02,GPU-04"), 2);
    assert_int_equal(count_with("GPU-0"), 0);
    unsetenv("FACULA_NVML_BASED_CUDA_CHECK");
    assert_int_equal(count_with(NULL), 0); /* the driver itself does not start */
    dlclose(nvml);
    fac__cu_unload();
    release(driver);
}

/* Runs `body` in a forked child; its result. */
static int in_child(int (*body)(void)) {
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) _exit(body());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int load_and_count(void) { return fac__cu_load() ? 100 : fac__cu_device_count(); }
static int count_only(void) { return fac__cu_device_count(); }
static int is_refused(void) {
    return fac__cu_forked() && fac__cu_load() == FAC_ERR_DEVICE &&
           strstr(fac_error_message(), "cannot re-initialise CUDA in a forked child");
}

static void S051_a_fork_after_the_start_is_detected(void **state) {
    (void)state;
    setenv("FACULA_CUDA", "sim:2", 1);
    assert_ok(fac__cu_load());
    assert_int_equal(in_child(is_refused), 1);
    assert_int_equal(in_child(count_only), 2); /* the count is known from before */
    assert_ok(fac__cu_load());
    fac__cu_unload();
    assert_int_equal(in_child(load_and_count), 2); /* nothing is started here: the child may start */
}

static void S051_asking_the_management_way_leaves_a_fork_unharmed(void **state) {
    (void)state;
    setenv("FACULA_CUDA", "sim:2", 1);
    setenv("FACULA_NVML_BASED_CUDA_CHECK", "1", 1);
    assert_int_equal(fac__cu_device_count(), 2);
    assert_int_equal(in_child(load_and_count), 2);
    unsetenv("FACULA_NVML_BASED_CUDA_CHECK");
    assert_int_equal(fac__cu_device_count(), 2); /* starts the driver */
    assert_int_equal(in_child(is_refused), 1);
}

static void S051_counting_makes_no_context(void **state) {
    (void)state;
    unsigned flags;
    int active = 1;
    setenv("FACULA_CUDA", "sim:1", 1);
    assert_int_equal(fac__cu_device_count(), 1);
    assert_int_equal(fac__cu.cuDevicePrimaryCtxGetState(0, &flags, &active), 0);
    assert_int_equal(active, 0);
}

static void the_simulator_can_be_named(void **state) {
    (void)state;
    const char *was = getenv("FACULA_SIMCUDA_LIBRARY");
    char kept[4096];
    snprintf(kept, sizeof kept, "%s", was ? was : "");
    setenv("FACULA_CUDA", "sim:1", 1);
    setenv("FACULA_SIMCUDA_LIBRARY", "/nowhere/libnothing.so", 1);
    assert_int_equal(fac__cu_load(), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "simulated CUDA driver was not found");
    if (was)
        setenv("FACULA_SIMCUDA_LIBRARY", kept, 1);
    else
        unsetenv("FACULA_SIMCUDA_LIBRARY");
    fac__cu_unload();
    assert_ok(fac__cu_load());
}

#define DRIVER_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        DRIVER_TEST(S248_no_driver_is_named),
        DRIVER_TEST(the_toolkits_stub_is_named),
        DRIVER_TEST(no_device_is_named),
        DRIVER_TEST(a_missing_symbol_is_named),
        DRIVER_TEST(a_driver_that_does_not_start_is_named),
        DRIVER_TEST(a_driver_too_old_for_an_image_is_named),
        DRIVER_TEST(cuda_can_be_turned_off),
        DRIVER_TEST(S052_the_simulator_honours_visible_devices),
        DRIVER_TEST(S052_visible_devices_are_numbered_anew),
        DRIVER_TEST(S051_a_fork_after_the_start_is_detected),
        DRIVER_TEST(S051_asking_the_management_way_leaves_a_fork_unharmed),
        DRIVER_TEST(S051_counting_makes_no_context),
        DRIVER_TEST(the_simulator_can_be_named),
        DRIVER_TEST(S051_the_count_can_come_from_the_management_library),
        DRIVER_TEST(a_driver_is_loaded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
