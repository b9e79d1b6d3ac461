/* Our declarations of the driver's interface are those of the toolkit's own header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "abi_facts.h"
#include "cuda_abi/entries.h"
#include <ctype.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void our_types_and_values_are_the_drivers(void **state) {
    (void)state;
    assert_int_equal(n_ours, n_theirs);
    for (size_t i = 0; i < n_ours; i++) {
        assert_string_equal(ours[i].name, theirs[i].name);
        if (ours[i].value != theirs[i].value) print_error("%s\n", ours[i].name);
        assert_int_equal(ours[i].value, theirs[i].value);
    }
}

static bool is_fact(const char *name, size_t n) {
    for (size_t i = 0; i < n_ours; i++) {
        if (strlen(ours[i].name) == n && !memcmp(ours[i].name, name, n)) return true;
    }
    return false;
}

/* Every constant of abi.h is among the facts, so that none goes uncompared. */
static void no_constant_goes_uncompared(void **state) {
    (void)state;
    static char text[200000];
    FILE *f = fopen(ABI_H, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f), found = 0;
    fclose(f);
    assert_true(n > 1000 && n < sizeof text - 1);
    for (const char *p = text; (p = strstr(p, "CU")); p++) {
        size_t size = 0;
        while (isupper((unsigned char)p[size]) || isdigit((unsigned char)p[size]) || p[size] == '_') size++;
        bool starts = p == text || !(isalnum((unsigned char)p[-1]) || p[-1] == '_');
        bool constant = size > 5 && (strncmp(p + size, " = ", 3) == 0 || p[-1] == '(' ||
                                     (p - text > 8 && !memcmp(p - 8, "#define ", 8)));
        if (!starts || !constant || isalnum((unsigned char)p[size])) continue;
        if (!is_fact(p, size)) print_error("%.*s is compared with nothing\n", (int)size, p);
        assert_true(is_fact(p, size));
        found++;
    }
    assert_true(found > 200);
}

static void every_symbol_is_in_the_toolkits_stub(void **state) {
    (void)state;
#ifdef CUDA_STUB
    void *stub = dlopen(CUDA_STUB, RTLD_LAZY | RTLD_LOCAL);
    if (!stub) print_error("%s\n", dlerror());
    assert_non_null(stub);
#define IN_STUB(name, symbol, version, need, parameters)     \
    if (!dlsym(stub, #symbol)) print_error("%s\n", #symbol); \
    assert_non_null(dlsym(stub, #symbol));
    FAC_CU_ENTRIES(IN_STUB)
    dlclose(stub);
#else
    print_message("the toolkit has no stub of the driver\n");
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_types_and_values_are_the_drivers),
        cmocka_unit_test(no_constant_goes_uncompared),
        cmocka_unit_test(every_symbol_is_in_the_toolkits_stub),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
