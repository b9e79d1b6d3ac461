/* LAPACK's library: it is not there until an operator needs it, and one that cannot be used is told of. Each test has a process of its
   own, since the library is looked for once. */
#include "linalg_test.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool is_mapped(const char *name) {
    char line[4096];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) found |= strstr(line, name) != NULL;
    fclose(maps);
    return found;
}

static bool decomposes(void) {
    FAC_SCOPE(s);
    return fac_linalg_eigvalsh(fac_eye(3)) != NULL;
}

/* What the child says: 0 if all was as it should be. */
static int in_a_child(bool (*works)(void)) {
    int status = -1;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(works() ? 0 : 1);
    assert_true(waitpid(child, &status, 0) == child);
    return status;
}

static bool loads_when_needed(void) {
    if (is_mapped("openblas") || is_mapped("liblapack")) return false;
    return decomposes() && (is_mapped("openblas") || is_mapped("lapack"));
}

/* The kernels that this processor should have of OpenBLAS; NULL where it may choose. */
static const char *expected_core(void) {
    return strcmp(fac_cpu_isa(), "avx512") == 0 ? "SkylakeX" : strcmp(fac_cpu_isa(), "avx2") == 0 ? "Haswell" : NULL;
}

static bool has_core(const char *expected) {
    if (!decomposes()) return false;
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
    void *found = library ? dlsym(library, "openblas_get_corename") : NULL;
    const char *(*core_name)(void);
    if (!is_mapped("openblas") || !expected) return true; /* another library */
    if (!found) return false;
    memcpy(&core_name, &found, sizeof found);
    return strcmp(core_name(), expected) == 0;
}

static bool takes_its_kernels(void) {
    char **before = environ;
    return has_core(expected_core()) && environ == before && !getenv("OPENBLAS_CORETYPE");
}

static bool leaves_a_choice(void) {
    setenv("OPENBLAS_CORETYPE", "Nehalem", 1);
    return has_core("Nehalem");
}

static bool fails_with(const char *library, const char *text) {
    setenv("FACULA_LAPACK_LIBRARY", library, 1);
    for (int i = 0; i < 2; i++) { /* the failure is remembered */
        if (decomposes() || fac_error() != FAC_ERR_UNSUPPORTED || !strstr(fac_error_message(), text)) return false;
        fac_error_clear();
    }
    return true;
}
static bool without_a_library(void) { return fails_with("libnothing.so.9", "LAPACK was not found: libnothing.so.9"); }
static bool with_another_library(void) { return fails_with("libz.so.1", "lacks spotrf_"); }

static void library_is_loaded_when_it_is_needed(void **state) {
    (void)state;
    if (access("/proc/self/maps", R_OK) != 0) skip();
    assert_int_equal(in_a_child(loads_when_needed), 0);
}

static void library_that_is_missing_is_an_error(void **state) {
    (void)state;
    assert_int_equal(in_a_child(without_a_library), 0);
    assert_int_equal(in_a_child(with_another_library), 0);
}

static void openblas_takes_the_kernels_of_the_processor_whatever_its_model(void **state) {
    (void)state;
    assert_int_equal(in_a_child(takes_its_kernels), 0);
    assert_int_equal(in_a_child(leaves_a_choice), 0);
}

FAC_TEST_MAIN(FAC_TEST(openblas_takes_the_kernels_of_the_processor_whatever_its_model),
              FAC_TEST(library_is_loaded_when_it_is_needed), FAC_TEST(library_that_is_missing_is_an_error))
