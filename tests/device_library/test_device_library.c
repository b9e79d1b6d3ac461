/* mm chooses twice: the dispatcher by the operands' device, at run time; the kernel by their dtype. A kind of device may come
   with a library that is loaded while the program runs. Only the public interface is used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <facula/facula.h>
#include <stdlib.h>
#include <string.h>

static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_F16, FAC_BF16, FAC_U8,  FAC_I8,
                                   FAC_I16, FAC_I32, FAC_I64, FAC_C64,  FAC_C128};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

typedef struct seen {
    const fac_operator *mm;
    fac_keyset keys;
    int calls;
} seen;

static void watch(void *context, const fac_operator *op, fac_keyset keys, bool enter) {
    seen *s = context;
    if (op == s->mm && enter && s->calls++ == 0) s->keys = keys; /* the outermost: a kernel may call another's */
}

static void expect_error(fac_status code, const char *text) {
    if (!strstr(fac_error_message(), text)) fail_msg("'%s' is not in '%s'", text, fac_error_message());
    assert_int_equal(fac_error(), code);
    fac_error_clear();
}

/* One operator for every dtype: the keys that choose its kernel do not tell them apart, the results do. */
static void check_dtypes_on(fac_device d, const char *key) {
    char text[256];
    fac_keyset first = 0;
    for (int i = 0; i < N_DTYPES; i++) {
        FAC_SCOPE(s);
        float back[4];
        fac_tensor *a = fac_to(fac_view(fac_tensor_of(1, 2, 3, 4), FAC_INTS(2, 2)), .dtype = dtypes[i], .device = d);
        seen was = {.mm = fac_operator_find("aten::mm")};
        fac_set_call_observer(watch, &was);
        fac_tensor *c = fac_mm(a, a);
        fac_set_call_observer(NULL, NULL);
        assert_int_equal(fac_report(stderr), 0);
        assert_true(was.calls > 0);
        if (i == 0) first = was.keys;
        assert_true(was.keys == first);
        assert_non_null(strstr(fac_keyset_format(was.keys, text, sizeof text), key));
        assert_true(fac_device_equal(fac_tensor_device(c), fac_tensor_device(a)));
        assert_int_equal(fac_tensor_dtype(c), dtypes[i]);
        assert_int_equal(fac_tensor_read(fac_real(c), FAC_F32, back, 4), FAC_OK);
        assert_true(back[0] == 7 && back[1] == 10 && back[2] == 15 && back[3] == 22);
    }
}

static void S085_mm_takes_the_dtype_by_a_switch_within_one_kernel(void **state) {
    (void)state;
    FAC_SCOPE(s);
    check_dtypes_on(fac_device_make(FAC_CPU, -1), "CPU");
    assert_null(fac_mm(fac_ones(FAC_SHAPE(2, 2), .dtype = FAC_BOOL), fac_ones(FAC_SHAPE(2, 2), .dtype = FAC_BOOL)));
    expect_error(FAC_ERR_DTYPE, "mm: matrix products are not implemented for 'bool'");
}

static void S085_a_device_library_is_loaded_while_the_program_runs(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const fac_device d = fac_device_make(FAC_PRIVATE1, 1);
    assert_null(fac_ones(FAC_SHAPE(2, 2), .device = d));
    expect_error(FAC_ERR_DEVICE, "private1");

    void *library = dlopen(NPU_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    fac_status (*start)(void) = NULL;
    void *symbol = dlsym(library, "npu_register");
    assert_non_null(symbol);
    memcpy(&start, &symbol, sizeof start); /* ISO C knows no conversion */
    assert_int_equal(start(), FAC_OK);
    check_dtypes_on(d, "PrivateUse1");
    check_dtypes_on(fac_device_make(FAC_CPU, -1), "CPU"); /* the other column is as it was */
}

static int stop(void **state) {
    (void)state;
    fac_shutdown();
    return fac_live() ? -1 : 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(S085_mm_takes_the_dtype_by_a_switch_within_one_kernel),
                                       cmocka_unit_test(S085_a_device_library_is_loaded_while_the_program_runs)};
    return cmocka_run_group_tests(tests, NULL, stop);
}
