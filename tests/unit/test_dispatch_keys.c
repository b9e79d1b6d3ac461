/* Keys by name, key sets as text, devices' back ends, and the tables as text. */
#include "dispatch/registry.h"
#include "support/dispatch.h"
#include <stdlib.h>

static const char *const backend_names[] = {"CPU",  "CUDA",        "HIP",         "XLA",        "XPU", "HPU",
                                            "VE",   "Lazy",        "Vulkan",      "Metal",      "MLC", "FPGA",
                                            "Meta", "PrivateUse1", "PrivateUse2", "PrivateUse3"};

static void assert_key(const char *text, int f, int b, int alias, const char *written) {
    fac_key k;
    char buf[40];
    assert_ok(fac_key_parse(text, &k));
    assert_int_equal(k.functionality, f);
    assert_int_equal(k.backend, b);
    assert_int_equal(k.alias, alias);
    assert_string_equal(fac_key_format(k, buf, sizeof buf), written ? written : text);
}

static void S080_each_backend_is_a_column(void **state) {
    (void)state;
    assert_int_equal(FAC_COUNT(backend_names), FAC_BACKEND_COUNT);
    for (int b = 0; b < FAC_BACKEND_COUNT; b++) assert_key(backend_names[b], FAC_KEY_DENSE, b, FAC_ALIAS_NONE, NULL);
    assert_key("Private2", FAC_KEY_DENSE, FAC_BACKEND_PRIVATE2, FAC_ALIAS_NONE, "PrivateUse2");
}

static void S081_functionalities_of_each_backend(void **state) {
    static const struct {
        const char *prefix;
        fac_functionality f;
    } cases[] = {{"Quantized", FAC_KEY_QUANTIZED}, {"Vendor", FAC_KEY_VENDOR},     {"SparseCsr", FAC_KEY_SPARSE_CSR},
                 {"Sparse", FAC_KEY_SPARSE},       {"Autograd", FAC_KEY_AUTOGRAD}, {"Autocast", FAC_KEY_AUTOCAST}};
    char text[60];
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        for (int b = 0; b < FAC_BACKEND_COUNT; b++) {
            snprintf(text, sizeof text, "%s%s", cases[i].prefix, backend_names[b]);
            assert_key(text, (int)cases[i].f, b, FAC_ALIAS_NONE, NULL);
        }
    }
    assert_key("MkldnnCPU", FAC_KEY_VENDOR, FAC_BACKEND_CPU, FAC_ALIAS_NONE, "VendorCPU");
    assert_key("Sparse", FAC_KEY_SPARSE, FAC_ALL_BACKENDS, FAC_ALIAS_NONE, NULL);
}

static void S081_single_keys_and_aliases(void **state) {
    (void)state;
    assert_key("CustomRNG", FAC_KEY_CUSTOM_RNG, FAC_ALL_BACKENDS, FAC_ALIAS_NONE, NULL);
    assert_key("BackendSelect", FAC_KEY_BACKEND_SELECT, FAC_ALL_BACKENDS, FAC_ALIAS_NONE, NULL);
    assert_key("Named", FAC_KEY_NAMED, FAC_ALL_BACKENDS, FAC_ALIAS_NONE, NULL);
    assert_key("Conjugate", FAC_KEY_CONJUGATE, FAC_ALL_BACKENDS, FAC_ALIAS_NONE, NULL);
    assert_key("Functionalize", FAC_KEY_FUNCTIONALIZE, FAC_ALL_BACKENDS, FAC_ALIAS_NONE, NULL);
    assert_key("ADInplaceOrView", FAC_KEY_AD_INPLACE_OR_VIEW, FAC_ALL_BACKENDS, FAC_ALIAS_NONE, NULL);
    assert_key("Trace", FAC_KEY_TRACE, FAC_ALL_BACKENDS, FAC_ALIAS_NONE, NULL);
    assert_key("Tracer", FAC_KEY_TRACE, FAC_ALL_BACKENDS, FAC_ALIAS_NONE, "Trace");
    assert_key("Batched", FAC_KEY_BATCHED, FAC_ALL_BACKENDS, FAC_ALIAS_NONE, NULL);
    assert_key("Nested", FAC_KEY_NESTED, FAC_ALL_BACKENDS, FAC_ALIAS_NONE, NULL);
    assert_key("NestedTensor", FAC_KEY_NESTED, FAC_ALL_BACKENDS, FAC_ALIAS_NONE, "Nested");
    assert_key("CatchAll", FAC_KEY_ANY, FAC_ALL_BACKENDS, FAC_ALIAS_CATCH_ALL, NULL);
    assert_key("CompositeImplicitAutograd", FAC_KEY_ANY, FAC_ALL_BACKENDS, FAC_ALIAS_CATCH_ALL, "CatchAll");
    assert_key("CompositeExplicit", FAC_KEY_ANY, FAC_ALL_BACKENDS, FAC_ALIAS_COMPOSITE_EXPLICIT, NULL);
    assert_key("Autograd", FAC_KEY_ANY, FAC_ALL_BACKENDS, FAC_ALIAS_AUTOGRAD, NULL);
    assert_key("AutogradOther", FAC_KEY_ANY, FAC_ALL_BACKENDS, FAC_ALIAS_AUTOGRAD_OTHER, NULL);
}

static void S092_unknown_keys_are_refused(void **state) {
    static const char *const bad[] = {"",         "cpu",   "GPU",      "CPUSparse",   "SparseGPU",
                                      "TraceCPU", "Dense", "DenseCPU", "Autograd CPU"};
    fac_key k;
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(bad); i++) {
        if (fac_key_parse(bad[i], &k) == FAC_OK) fail_msg("accepted: %s", bad[i]);
        assert_error(FAC_ERR_ARGUMENT, "the keys are CPU, CUDA");
    }
    assert_int_equal(fac_key_parse(NULL, &k), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    char buf[40];
    assert_string_equal(fac_key_format((fac_key){99, 0, 0}, buf, sizeof buf), "?");
}

/* Every slot has one key, and the keys of the slots fill the table. */
static void E17_slots_and_keys_correspond(void **state) {
    bool seen[FAC_SLOTS] = {false};
    (void)state;
    for (int f = 0; f < FAC_KEY_COUNT; f++) {
        assert_int_equal(fac__slot_mask[f], FAC_PER_BACKEND(f) ? 15 : 0);
        for (int b = 0; b < (fac__slot_mask[f] ? FAC_BACKEND_COUNT : 1); b++) {
            int slot = fac__slot(f, b);
            assert_true(slot < FAC_SLOTS && !seen[slot]);
            seen[slot] = true;
            fac_key k = fac__key_of_place(slot);
            assert_int_equal(k.functionality, f);
            assert_int_equal(fac__place_of(k), slot);
        }
    }
    for (int i = 0; i < FAC_SLOTS; i++) assert_true(seen[i]);
    for (int p = FAC_SLOTS; p < FAC_PLACES; p++) {
        fac_key k = fac__key_of_place(p);
        if (k.functionality < 0 || fac__slot_mask[k.functionality]) assert_int_equal(fac__place_of(k), p);
    }
}

static void S062_key_sets_as_text(void **state) {
    char buf[600];
    (void)state;
    assert_string_equal(fac_keyset_format(0, buf, sizeof buf), "{}");
    assert_string_equal(
        fac_keyset_format(FAC_KS_AUTOGRAD | FAC_KS_ADINPLACEORVIEW | keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU), buf,
                          sizeof buf),
        "{AutogradCPU, ADInplaceOrView, CPU}");
    assert_string_equal(fac_keyset_format(keys_on(FAC_KEY_SPARSE, FAC_BACKEND_CPU) | fac__backend_bit(FAC_BACKEND_CUDA),
                                          buf, sizeof buf),
                        "{SparseCUDA, SparseCPU}");
    assert_string_equal(fac_keyset_format(FAC_KS_DENSE, buf, sizeof buf), "{Dense}");
    assert_string_equal(fac_keyset_format(~(fac_keyset)0, buf, 12), "{Nested}"); /* whole names only */
    for (size_t size = 0; size < sizeof buf; size++) {
        memset(buf, '#', sizeof buf);
        fac_keyset_format(~(fac_keyset)0, buf, size);
        assert_int_equal(buf[size], '#');
        if (size) assert_true(strnlen(buf, size) < size);
    }
    assert_int_equal(fac_keyset_of(FAC_KEY_DENSE), FAC_KS_DENSE);
    assert_int_equal(fac_keyset_of((fac_functionality)FAC_KEY_COUNT), 0);
}

static void S083_each_device_type_has_a_backend(void **state) {
    static const fac_backend backends[] = {FAC_BACKEND_CPU,      FAC_BACKEND_CUDA,     FAC_BACKEND_META,
                                           FAC_BACKEND_PRIVATE1, FAC_BACKEND_PRIVATE2, FAC_BACKEND_PRIVATE3};
    fac_backend b;
    (void)state;
    for (int d = FAC_CPU; d < FAC_DEVICE_TYPE_COUNT; d++) {
        assert_ok(fac_backend_of_device((fac_device_type)d, &b));
        assert_int_equal(b, backends[d - FAC_CPU]);
    }
}

static void E21_a_device_type_without_a_backend_asks_for_a_report(void **state) {
    fac_backend b;
    (void)state;
    assert_int_equal(fac_backend_of_device((fac_device_type)55, &b), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "report");
    assert_int_equal(fac_backend_of_device(FAC_DEVICE_UNSET, &b), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "report");
}

static void S089_keys_lie_on_tensors(void **state) {
    (void)state;
    fac_tensor *t = tensor_with_keys(FAC_KS_AUTOGRAD | keys_on(FAC_KEY_DENSE, FAC_BACKEND_CUDA));
    assert_int_equal(fac_tensor_keys(t), FAC_KS_AUTOGRAD | keys_on(FAC_KEY_DENSE, FAC_BACKEND_CUDA));
    fac_release(t);
    assert_int_equal(fac_tensor_keys(NULL), 0);
    assert_error(FAC_ERR_ARGUMENT, "fac_tensor_keys");
}

/* ---- the tables as text ------------------------------------------------------------------------------------------ */

static char *dump(const fac_operator *op) {
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    assert_ok(fac_dispatch_dump(op, f));
    fclose(f);
    return text;
}

static void assert_line(const char *text, const char *key, const char *rest) {
    char start[80];
    snprintf(start, sizeof start, "\n  %s ", key);
    const char *line = strstr(text, start);
    if (!line) fail_msg("no line for %s in:\n%s", key, text);
    size_t n = strcspn(line + 1, "\n");
    char copy[400];
    snprintf(copy, sizeof copy, "%.*s", (int)n, line + 1);
    if (!strstr(copy, rest)) fail_msg("the line \"%s\" does not say \"%s\"", copy, rest);
}

static void S061_row_of_an_operator(void **state) {
    (void)state;
    fac_register_operator("t::f(Tensor x) -> int", "schema.c:1");
    fac_register_boxed("t::f", "CPU", ANSWER(one), "old.c:2");
    fac_register_boxed("t::f", "CPU", ANSWER(one), "cpu.c:2");
    fac_register_boxed("t::f", "CompositeExplicit", ANSWER(two), "explicit.c:3");
    fac_register_boxed("t::f", "SparseCPU", ANSWER(two), "sparse.c:4");
    fac_register_fallback("QuantizedCUDA", ANSWER(three), "fallback.c:5");
    fac_register_fallthrough("t::f", "Trace", "skip.c:6");
    char *text = dump(fac_operator_find("t::f"));
    assert_non_null(strstr(text, "t::f(Tensor x) -> int\n  declared: schema.c:1\n"));
    assert_line(text, "CPU", "cpu.c:2");
    assert_line(text, "CUDA .. PrivateUse3", "composite explicit    explicit.c:3");
    assert_line(text, "SparseCPU", "sparse.c:4");
    assert_line(text, "SparseCUDA .. SparsePrivateUse3", "fallback");
    assert_line(text, "QuantizedCUDA", "fallback.c:5");
    assert_line(text, "Trace", "skip.c:6");
    assert_line(text, "Named", "fall-through");
    assert_non_null(strstr(text, "registered for CPU: cpu.c:2 (kernel), which hides old.c:2 (kernel)\n"));
    free(text);
}

static void S061_the_whole_grid(void **state) {
    (void)state;
    fac_register_operator("t::f(Tensor x) -> int", "schema.c:1");
    declare("t::g(Tensor x) -> int");
    fac_register_boxed("t::f", "CPU", ANSWER(one), FAC_HERE);
    fac_register_boxed("t::f", "CompositeExplicit", ANSWER(two), FAC_HERE);
    fac_register_boxed("t::g", "CatchAll", ANSWER(two), FAC_HERE);
    char *text = dump(NULL);
    assert_non_null(strstr(text, "namespace t: first declared at schema.c:1\n"));
    assert_non_null(strstr(text, " Keeeeeeeeeeeeeee t::f\n")); /* the Dense group comes last */
    assert_non_null(strstr(text, " cccccccccccccccc t::g\n"));
    size_t lines = 0, rows = 0;
    for (const char *p = text; *p; p++) lines += *p == '\n';
    for (const char *p = text; (p = strstr(p, "::")); p++) rows++;
    assert_int_equal(rows, fac_operator_count());
    assert_true(lines >= rows + 3);
    free(text);
}

static void S061_dump_refusals(void **state) {
    (void)state;
    assert_int_equal(fac_dispatch_dump(NULL, NULL), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "stream");
    FILE *full = fopen("/dev/full", "w");
    if (!full) return; /* not every system has it */
    setvbuf(full, NULL, _IONBF, 0);
    assert_int_equal(fac_dispatch_dump(NULL, full), FAC_ERR_IO);
    assert_error(FAC_ERR_IO, "could not be written");
    fclose(full);
}

FAC_TEST_MAIN(DISPATCH_TEST(S080_each_backend_is_a_column), DISPATCH_TEST(S081_functionalities_of_each_backend),
              DISPATCH_TEST(S081_single_keys_and_aliases), DISPATCH_TEST(S092_unknown_keys_are_refused),
              DISPATCH_TEST(E17_slots_and_keys_correspond), DISPATCH_TEST(S062_key_sets_as_text),
              DISPATCH_TEST(S083_each_device_type_has_a_backend),
              DISPATCH_TEST(E21_a_device_type_without_a_backend_asks_for_a_report),
              DISPATCH_TEST(S089_keys_lie_on_tensors), DISPATCH_TEST(S061_row_of_an_operator),
              DISPATCH_TEST(S061_the_whole_grid), DISPATCH_TEST(S061_dump_refusals))
