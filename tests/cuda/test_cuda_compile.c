/* Kernels compiled at run time: users' own in the dialect, on simulated devices by the system's compiler, and by NVRTC, which
   needs no device. */
#include "support/cuda.h"

#include "backend/cuda/runtime/compile.h"

#include <dirent.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char vec_add[] = "#include \"kernel.h\"\n"
                              "KERNEL(VecAdd, (IN, float, a), (IN, float, b), (OUT, float, c), (VAL, int, n)) {\n"
                              "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                              "    if (i < n) c[i] = a[i] + b[i];\n"
                              "}\n";

/* A cache of the test's own, so that something is compiled. */
static char cache[] = "/tmp/facula-test-XXXXXX";
static void begin_cache(void) {
    memcpy(cache + strlen(cache) - 6, "XXXXXX", 6);
    assert_non_null(mkdtemp(cache));
    assert_int_equal(setenv("XDG_CACHE_HOME", cache, 1), 0);
}

/* Files in the cache's folder; they are removed if asked. */
static int cached(bool remove_them) {
    char folder[64], path[400];
    int n = 0;
    snprintf(folder, sizeof folder, "%s/facula", cache);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        n++;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (remove_them) unlink(path);
    }
    if (d) closedir(d);
    if (remove_them) rmdir(folder), rmdir(cache);
    return n;
}

static void run_vec_add(void) {
    FAC_SCOPE(s);
    fac_cuda_module *m = fac_cuda_module_compile(vec_add, "vec_add.cu");
    fac_cuda_function *f = fac_cuda_module_function(m, "VecAdd");
    assert_no_error();
    fac_tensor *a = fac_to(fac_arange(100.0), .device = cuda_device(1)), *b = fac_full_like(a, 0.5),
               *c = fac_empty_like(a);
    assert_ok(
        fac_cuda_run(f, fac_cuda_grid(2, 64), fac_cuda_in(a), fac_cuda_in(b), fac_cuda_out(c), fac_cuda_i32(100)));
    assert_true(fac_equal(c, fac_add(a, b)));
    fac_cuda_module_release(m);
    assert_no_error();
}

static void S053_E09_cuda_users_kernel_is_compiled_and_launched(void **state) {
    (void)state;
    support_need_devices(2);
    begin_cache();
    run_vec_add();
    assert_int_equal(cached(false), 1);
    run_vec_add(); /* from the cache */
    assert_int_equal(cached(true), 1);
}

/* ---- files in the cache that are not what was put there: judged by a process that has loaded nothing yet ---- */

static int compile_once(void) {
    FAC_SCOPE(s);
    fac_cuda_module *m = fac_cuda_module_compile(vec_add, "vec_add.cu");
    const bool found = m && fac_cuda_module_function(m, "VecAdd");
    fac_tensor *a = fac_to(fac_arange(100.0), .device = cuda_device(0)), *c = fac_empty_like(a);
    if (found &&
        fac_cuda_run(fac_cuda_module_function(m, "VecAdd"), fac_cuda_grid(2, 64), fac_cuda_in(a), fac_cuda_in(a),
                     fac_cuda_out(c), fac_cuda_i32(100)) == FAC_OK &&
        fac_equal(c, fac_add(a, a)))
        return 0;
    fprintf(stderr, "%s\n", fac_error_message());
    return 1;
}

static void assert_compiles_in_a_new_process(void) {
    char self[400];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = 0;
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl(self, "test_cuda_compile", "compile-once", (char *)NULL);
        _exit(99);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Path of the only file in the cache. */
static void cached_path(char *path, size_t size) {
    char pattern[100];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/facula/*", cache);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    snprintf(path, size, "%s", found.gl_pathv[0]);
    globfree(&found);
}

static void cuda_broken_cache_file_is_compiled_again(void **state) {
    (void)state;
    support_need_simulator();
    support_need_devices(1);
    begin_cache();
    char path[400];
    assert_compiles_in_a_new_process();
    cached_path(path, sizeof path);
    static const off_t lengths[] = {0, 1000};
    for (size_t i = 0; i < FAC_COUNT(lengths); i++) {
        assert_int_equal(truncate(path, lengths[i]), 0);
        assert_compiles_in_a_new_process();
    }
    cached(true);
}

/* A file that anyone may write to holds a library that leaves a trace when it is loaded. */
static void cuda_planted_cache_file_is_not_loaded(void **state) {
    (void)state;
    support_need_simulator();
    support_need_devices(1);
    begin_cache();
    char path[400], command[1600];
    assert_compiles_in_a_new_process();
    cached_path(path, sizeof path);
    snprintf(command, sizeof command,
             "echo '__attribute__((constructor)) static void f(void) { fclose(fopen(\"%s/trace\", \"w\")); }' | "
             "cc -w -include stdio.h -shared -fPIC -x c -o %s - && chmod 666 %s",
             cache, path, path);
    assert_int_equal(system(command), 0);
    if (geteuid() == 0) assert_int_equal(chown(path, 65534, 65534), 0);
    assert_compiles_in_a_new_process();
    snprintf(command, sizeof command, "%s/trace", cache);
    assert_int_not_equal(access(command, F_OK), 0);
    cached(true);
}

/* What any user may put into /tmp must not be taken for a result of ours. */
static void cuda_without_a_home_nothing_is_kept(void **state) {
    (void)state;
    support_need_simulator();
    support_need_devices(2);
    FAC_SCOPE(s);
    char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    glob_t found;
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    run_vec_add();
    if (home) assert_int_equal(setenv("HOME", home, 1), 0);
    free(home);
    assert_int_equal(glob("/tmp/facula-*.so", 0, NULL, &found), GLOB_NOMATCH);
}

static void S053_cuda_wrong_source_is_an_error_with_the_compilers_words(void **state) {
    (void)state;
    support_need_devices(1);
    begin_cache();
    FAC_SCOPE(s);
    static const char wrong[] = "#include \"kernel.h\"\nKERNEL(k, (OUT, float, x)) { x[0] = nonsense; }\n";
    assert_null(fac_cuda_module_compile(wrong, "wrong.cu"));
    assert_error(FAC_ERR_FORMAT, "wrong.cu:2:");
    assert_int_equal(cached(true), 0);
}

static void S053_cuda_without_a_compiler_the_error_says_so(void **state) {
    (void)state;
    support_need_simulator();
    begin_cache();
    FAC_SCOPE(s);
    assert_int_equal(setenv("CC", "/nonexistent/compiler", 1), 0);
    void *image;
    assert_int_equal(fac__cuda_compile(0, &(fac_jit_source){.name = "k.cu", .text = vec_add}, &image),
                     FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "/nonexistent/compiler cannot be run");
    unsetenv("CC");
    assert_int_equal(cached(true), 0);
}

static CUresult (*load_data)(CUmodule *, const void *);
static int refused;
static CUresult refuse_once(CUmodule *out, const void *image) {
    return refused++ ? load_data(out, image) : CUDA_ERROR_NO_BINARY_FOR_GPU;
}
static CUresult refuse(CUmodule *out, const void *image) {
    (void)out, (void)image;
    refused++;
    return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
}

/* The driver takes no embedded image, as one too old for it or with a device of another architecture: the sources that the
   library carries are compiled instead. */
static void cuda_image_that_is_not_for_this_device_is_compiled(void **state) {
    (void)state;
    support_need_simulator();
    support_need_no_checker(); /* it adds nothing, and all kernels are compiled here */
    begin_cache();
    if (!fac__cuda_n_sources) assert_int_equal(cached(true), 0), support_skip(__FILE__, __LINE__);
    assert_true(fac_cuda_device_count() > 0); /* fills the table */
    load_data = fac__cu.cuModuleLoadData;
    for (int i = 0; i < 2; i++) {
        FAC_SCOPE(s);
        refused = 0;
        fac__cu.cuModuleLoadData = i ? refuse_once : refuse;
        fac_tensor *x = fac_to(fac_arange(5.0), .device = cuda_device(0)), *y = fac_add(x, x);
        fac__cu.cuModuleLoadData = load_data;
        assert_int_equal(refused, 2);
        if (i) {
            float got[5];
            assert_ok(fac_tensor_read(y, FAC_F32, got, 5));
            for (int k = 0; k < 5; k++) assert_true(got[k] == 2 * (float)k);
        } else {
            assert_null(y);
            assert_error(FAC_ERR_DEVICE,
                         "is too old for the library's image of CUDA kernels (nor can its sources be used: ");
        }
        fac_error_clear();
    }
    cached(true);
}

/* The sources that the library carries if it is built so; else a user's kernel. */
static fac_jit_source nvrtc_source(void) {
    static fac_jit_text headers[FAC_CUDA_MAX_HEADERS];
    fac_jit_source s = {.name = "vec_add.cu", .text = vec_add}, all;
    if (fac__cuda_n_sources)
        s = (fac_jit_source){.name = "facula.cu",
                             .text = fac__cuda_sources[0].text,
                             .headers = fac__cuda_sources + 1,
                             .n_headers = fac__cuda_n_sources - 1};
    assert_ok(fac__cuda_with_dialect(&s, headers, &all));
    return all;
}

static void cuda_nvrtc_compiles_and_caches(void **state) {
    (void)state;
    support_need_no_checker(); /* the same */
    begin_cache();
    fac_jit_source s = nvrtc_source();
    char *code = NULL, *again = NULL;
    size_t bytes = 0, bytes_again = 0;
    if (fac__jit_compile_device(&s, 90, 13000, &code, &bytes) == FAC_ERR_UNSUPPORTED) {
        print_message("skipped: %s\n", fac_error_message());
        fac_error_clear();
        cached(true);
        skip();
    }
    assert_no_error();
    assert_memory_equal(code, "\177ELF", 4);
    assert_int_equal(cached(false), 1);
    assert_ok(fac__jit_compile_device(&s, 90, 13000, &again, &bytes_again));
    assert_int_equal(bytes, bytes_again);
    assert_memory_equal(code, again, bytes);
    fac__free(code);
    fac__free(again);
    fac_jit_source wrong = {.name = "wrong.cu",
                            .text = "extern \"C\" __global__ void k(float *x) { x[0] = nonsense; }"};
    assert_int_equal(fac__jit_compile_device(&wrong, 90, 13000, &code, &bytes), FAC_ERR_FORMAT);
    assert_error(FAC_ERR_FORMAT, "nonsense");
    cached(true);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "compile-once") == 0) return compile_once();
    const struct CMUnitTest tests[] = {
        FAC_CUDA_TEST(S053_E09_cuda_users_kernel_is_compiled_and_launched),
        FAC_CUDA_TEST(cuda_broken_cache_file_is_compiled_again),
        FAC_CUDA_TEST(cuda_planted_cache_file_is_not_loaded),
        FAC_CUDA_TEST(cuda_without_a_home_nothing_is_kept),
        FAC_CUDA_TEST(S053_cuda_wrong_source_is_an_error_with_the_compilers_words),
        FAC_CUDA_TEST(S053_cuda_without_a_compiler_the_error_says_so),
        FAC_CUDA_TEST(cuda_image_that_is_not_for_this_device_is_compiled),
        FAC_CUDA_TEST(cuda_nvrtc_compiles_and_caches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
