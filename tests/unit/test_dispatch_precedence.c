/* Which kernel serves a key: every combination of registrations, rows and columns of the grid, fall-through, key sets. */
#include "support/dispatch.h"

static const struct {
    const char *name;
    fac_functionality f;
    fac_backend b;
} cells[] = {
    {"CPU", FAC_KEY_DENSE, FAC_BACKEND_CPU},
    {"PrivateUse1", FAC_KEY_DENSE, FAC_BACKEND_PRIVATE1},
    {"SparseCPU", FAC_KEY_SPARSE, FAC_BACKEND_CPU},
    {"SparseCsrCUDA", FAC_KEY_SPARSE_CSR, FAC_BACKEND_CUDA},
    {"QuantizedCPU", FAC_KEY_QUANTIZED, FAC_BACKEND_CPU},
    {"VendorCPU", FAC_KEY_VENDOR, FAC_BACKEND_CPU},
    {"AutogradMeta", FAC_KEY_AUTOGRAD, FAC_BACKEND_META},
    {"AutocastCUDA", FAC_KEY_AUTOCAST, FAC_BACKEND_CUDA},
    {"Trace", FAC_KEY_TRACE, FAC_BACKEND_CPU},
    {"Batched", FAC_KEY_BATCHED, FAC_BACKEND_CPU},
    {"ADInplaceOrView", FAC_KEY_AD_INPLACE_OR_VIEW, FAC_BACKEND_CPU},
};

/* S-070: exact, then catch-all, then fallback, then an error that names the key; in each kind of cell. */
static void S070_all_eight_combinations(void **state) {
    (void)state;
    declare("t::f(Tensor x) -> int");
    for (size_t i = 0; i < FAC_COUNT(cells); i++) {
        for (int has = 0; has < 8; has++) {
            fac_registration *r[] = {
                has & 1 ? add_fallback(cells[i].name, &three) : NULL,
                has & 2 ? add("t::f", "CatchAll", &two) : NULL,
                has & 4 ? add("t::f", cells[i].name, &one) : NULL,
            };
            fac_keyset keys = keys_on(cells[i].f, cells[i].b);
            if (has)
                assert_int_equal(ask("t::f", keys), has & 4 ? 1 : has & 2 ? 2 : 3);
            else
                ask_in_vain("t::f", keys, "could not run 't::f'");
            for (size_t k = 0; k < FAC_COUNT(r); k++) fac_registration_release(r[k]);
        }
    }
}

/* The same with a composite explicit kernel between the exact one and the catch-all, on dense keys. */
static void S070_explicit_composite_in_all_sixteen_combinations(void **state) {
    static const char *const dense[] = {"CPU", "CUDA", "Meta", "PrivateUse3"};
    static const fac_backend backends[] = {FAC_BACKEND_CPU, FAC_BACKEND_CUDA, FAC_BACKEND_META, FAC_BACKEND_PRIVATE3};
    (void)state;
    declare("t::f(Tensor x) -> int");
    for (size_t i = 0; i < FAC_COUNT(dense); i++) {
        for (int has = 0; has < 16; has++) {
            fac_registration *r[] = {
                has & 8 ? add("t::f", dense[i], &one) : NULL,
                has & 4 ? add("t::f", "CompositeExplicit", &two) : NULL,
                has & 2 ? add("t::f", "CatchAll", &three) : NULL,
                has & 1 ? add_fallback(dense[i], &four) : NULL,
            };
            fac_keyset keys = keys_on(FAC_KEY_DENSE, backends[i]);
            if (has)
                assert_int_equal(ask("t::f", keys), has & 8 ? 1 : has & 4 ? 2 : has & 2 ? 3 : 4);
            else
                ask_in_vain("t::f", keys, dense[i]);
            for (size_t k = 0; k < FAC_COUNT(r); k++) fac_registration_release(r[k]);
        }
    }
}

static void S070_explicit_composite_serves_dense_keys_only(void **state) {
    (void)state;
    declare("t::f(Tensor x) -> int");
    add("t::f", "CompositeExplicit", &one);
    for (int b = 0; b < FAC_BACKEND_COUNT; b++)
        assert_int_equal(ask("t::f", keys_on(FAC_KEY_DENSE, (fac_backend)b)), 1);
    ask_in_vain("t::f", keys_on(FAC_KEY_SPARSE, FAC_BACKEND_CPU), "SparseCPU");
    ask_in_vain("t::f", keys_on(FAC_KEY_QUANTIZED, FAC_BACKEND_CPU), "QuantizedCPU");
}

/* E-43, the three drawings: a cell, a row, a column. */
static void E43_one_cell(void **state) {
    (void)state;
    declare("t::f(Tensor x) -> int");
    declare("t::g(Tensor x) -> int");
    add("t::f", "SparseCUDA", &one);
    for (int f = 0; f < FAC_KEY_COUNT; f++) {
        for (int b = 0; b < FAC_BACKEND_COUNT; b++) {
            bool cell = f == FAC_KEY_SPARSE && b == FAC_BACKEND_CUDA;
            if (cell)
                assert_int_equal(ask("t::f", keys_on((fac_functionality)f, (fac_backend)b)), 1);
            else
                ask_in_vain("t::f", keys_on((fac_functionality)f, (fac_backend)b), "SparseCUDA (");
        }
    }
    ask_in_vain("t::g", keys_on(FAC_KEY_SPARSE, FAC_BACKEND_CUDA), "'SparseCUDA' key");
}

/* But for nested tensors, which have no sizes that an operator made of others could look at. */
static void S068_catch_all_fills_the_row(void **state) {
    (void)state;
    declare("t::f(Tensor x) -> int");
    declare("t::g(Tensor x) -> int");
    add("t::f", "CatchAll", &one);
    for (int f = 0; f < FAC_KEY_COUNT; f++) {
        for (int b = 0; b < FAC_BACKEND_COUNT; b++) {
            if (f == FAC_KEY_NESTED)
                ask_in_vain("t::f", keys_on((fac_functionality)f, (fac_backend)b), "t::f");
            else
                assert_int_equal(ask("t::f", keys_on((fac_functionality)f, (fac_backend)b)), 1);
            ask_in_vain("t::g", keys_on((fac_functionality)f, (fac_backend)b), "t::g");
        }
    }
}

static void S069_fallback_fills_the_column(void **state) {
    (void)state;
    declare("t::f(Tensor x) -> int");
    add_fallback("SparseCPU", &one);
    declare("t::g(Tensor x) -> int"); /* declared later: just the same */
    assert_int_equal(ask("t::f", keys_on(FAC_KEY_SPARSE, FAC_BACKEND_CPU)), 1);
    assert_int_equal(ask("t::g", keys_on(FAC_KEY_SPARSE, FAC_BACKEND_CPU)), 1);
    ask_in_vain("t::g", keys_on(FAC_KEY_SPARSE, FAC_BACKEND_CUDA), "fallback, ");
}

/* A catch-all does not stand in the way of the operator's own kernel for a backend. */
static void S070_catch_all_steps_back_above_a_dense_kernel(void **state) {
    const fac_keyset plain = FAC_KS_AUTOGRAD | FAC_KS_ADINPLACEORVIEW | FAC_KS_DENSE;
    (void)state;
    declare("t::f(Tensor x) -> int");
    add("t::f", "CatchAll", &one);
    assert_int_equal(ask("t::f", plain | fac__backend_bit(FAC_BACKEND_CPU)), 1);
    fac_registration *r = add("t::f", "CPU", &two);
    assert_int_equal(ask("t::f", plain | fac__backend_bit(FAC_BACKEND_CPU)), 2);
    assert_int_equal(ask("t::f", plain | fac__backend_bit(FAC_BACKEND_CUDA)), 1);
    assert_int_equal(ask("t::f", keys_on(FAC_KEY_SPARSE, FAC_BACKEND_CPU)), 1); /* no way down to Dense */
    fac_registration *autograd = add("t::f", "AutogradCPU", &three);
    assert_int_equal(ask("t::f", plain | fac__backend_bit(FAC_BACKEND_CPU)), 3);
    fac_registration_release(autograd);
    fac_registration_release(r);
    assert_int_equal(ask("t::f", plain | fac__backend_bit(FAC_BACKEND_CPU)), 1);
}

static void S081_autograd_groups_of_backends(void **state) {
    (void)state;
    declare("t::f(Tensor x) -> int");
    add("t::f", "Autograd", &one);
    add("t::f", "AutogradOther", &two);
    add("t::f", "AutogradXLA", &three);
    assert_int_equal(ask("t::f", keys_on(FAC_KEY_AUTOGRAD, FAC_BACKEND_CPU)), 1);
    assert_int_equal(ask("t::f", keys_on(FAC_KEY_AUTOGRAD, FAC_BACKEND_PRIVATE2)), 1);
    assert_int_equal(ask("t::f", keys_on(FAC_KEY_AUTOGRAD, FAC_BACKEND_FPGA)), 2);
    assert_int_equal(ask("t::f", keys_on(FAC_KEY_AUTOGRAD, FAC_BACKEND_VULKAN)), 2);
    assert_int_equal(ask("t::f", keys_on(FAC_KEY_AUTOGRAD, FAC_BACKEND_XLA)), 3);
    fac_registration *sparse = add("t::f", "Sparse", &four); /* on every backend */
    assert_int_equal(ask("t::f", keys_on(FAC_KEY_SPARSE, FAC_BACKEND_META)), 4);
    fac_registration_release(sparse);
}

/* ---- fall-through ------------------------------------------------------------------------------------------------ */

static void S071_fall_through_skips_a_key(void **state) {
    const fac_keyset keys = FAC_KS_AUTOGRAD | FAC_KS_DENSE | fac__backend_bit(FAC_BACKEND_CPU);
    (void)state;
    declare("t::f(Tensor x) -> int");
    add("t::f", "CPU", &one);
    add("t::f", "AutogradCPU", &two);
    assert_int_equal(ask("t::f", keys), 2);
    fac_registration *r = fac_register_fallthrough("t::f", "AutogradCPU", FAC_HERE);
    assert_non_null(r);
    assert_int_equal(ask("t::f", keys), 1);
    const fac_operator *op = fac_operator_find("t::f");
    fac_keyset left = keys;
    assert_string_equal(fac__pick(op, &left)->label, "kernel");
    assert_true(left == keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU)); /* masked out: no call for the key */
    fac_registration_release(r);
    assert_int_equal(ask("t::f", keys), 2);
}

static void S071_fall_through_of_one_backend_leaves_the_others(void **state) {
    (void)state;
    declare("t::f(Tensor x) -> int");
    add("t::f", "CompositeExplicit", &one);
    add("t::f", "Autograd", &two);
    fac_register_fallthrough("t::f", "AutogradCUDA", FAC_HERE);
    assert_int_equal(ask("t::f", FAC_KS_AUTOGRAD | keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU)), 2);
    assert_int_equal(ask("t::f", FAC_KS_AUTOGRAD | keys_on(FAC_KEY_DENSE, FAC_BACKEND_CUDA)), 1);
}

static void S071_fallback_may_fall_through(void **state) {
    const fac_keyset keys = fac__func_bit(FAC_KEY_SPARSE) | keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU);
    (void)state;
    declare("t::f(Tensor x) -> int");
    add("t::f", "CPU", &one);
    ask_in_vain("t::f", keys, "'SparseCPU' key"); /* data in another representation does not fall through by itself */
    fac_registration *r = fac_register_fallback("SparseCPU", NULL, NULL, FAC_HERE);
    assert_non_null(r);
    assert_int_equal(ask("t::f", keys), 1);
    fac_registration_release(r);
}

static void S071_modes_fall_through_by_default(void **state) {
    static const fac_functionality modes[] = {
        FAC_KEY_AUTOCAST,  FAC_KEY_TRACE, FAC_KEY_AUTOGRAD,       FAC_KEY_AD_INPLACE_OR_VIEW, FAC_KEY_FUNCTIONALIZE,
        FAC_KEY_CONJUGATE, FAC_KEY_NAMED, FAC_KEY_BACKEND_SELECT, FAC_KEY_CUSTOM_RNG};
    fac_keyset all = keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU);
    (void)state;
    declare("t::f(Tensor x) -> int");
    add("t::f", "CPU", &one);
    for (size_t i = 0; i < FAC_COUNT(modes); i++) {
        all |= fac__func_bit(modes[i]);
        assert_int_equal(ask("t::f", fac__func_bit(modes[i]) | keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU)), 1);
    }
    assert_int_equal(ask("t::f", all), 1);
}

static void S071_nothing_below_a_fall_through_is_reported(void **state) {
    (void)state;
    declare("t::f(Tensor x) -> int");
    fac_register_fallthrough("t::f", "CPU", FAC_HERE);
    ask_in_vain("t::f", keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU), "'CPU' key");
    fac_value out;
    fac_tensor *t = tensor_with_keys(0); /* no key at all reads as a dense CPU tensor */
    out = fac_value_tensor(t);
    assert_int_equal(fac_redispatch(fac_operator_find("t::f"), FAC_KS_AUTOGRAD, &out), FAC_ERR_NO_KERNEL);
    assert_error(FAC_ERR_NO_KERNEL, "t::f");
    fac_value_release(&out);
    fac_release(t);
}

/* E-18: the mask follows each change of a slot. */
static void E18_mask_follows_the_table(void **state) {
    (void)state;
    declare("t::f(Tensor x) -> int");
    const fac_operator *op = fac_operator_find("t::f");
    fac_keyset trace = fac__func_bit(FAC_KEY_TRACE);
    assert_false(atomic_load(&op->fallthrough_mask[1]) & trace);
    fac_registration *r = add("t::f", "Trace", &one);
    for (int i = 0; i <= FAC_BACKEND_COUNT; i++) assert_true(atomic_load(&op->fallthrough_mask[i]) & trace);
    fac_registration *s = fac_register_fallthrough("t::f", "Trace", FAC_HERE);
    for (int i = 0; i <= FAC_BACKEND_COUNT; i++) assert_false(atomic_load(&op->fallthrough_mask[i]) & trace);
    fac_registration_release(s);
    assert_true(atomic_load(&op->fallthrough_mask[0]) & trace);
    fac_registration_release(r);
    assert_false(atomic_load(&op->fallthrough_mask[0]) & trace);
}

/* ---- priorities -------------------------------------------------------------------------------------------------- */

static void S062_highest_functionality_on_the_highest_backend(void **state) {
    (void)state;
    declare("t::f(Tensor x) -> int");
    add("t::f", "CPU", &one);
    add("t::f", "CUDA", &two);
    add("t::f", "SparseCPU", &three);
    add("t::f", "SparseCUDA", &four);
    fac_keyset both = fac__backend_bit(FAC_BACKEND_CPU) | fac__backend_bit(FAC_BACKEND_CUDA);
    assert_int_equal(ask("t::f", FAC_KS_DENSE | fac__backend_bit(FAC_BACKEND_CPU)), 1);
    assert_int_equal(ask("t::f", FAC_KS_DENSE | both), 2);
    assert_int_equal(ask("t::f", FAC_KS_DENSE | fac__func_bit(FAC_KEY_SPARSE) | fac__backend_bit(FAC_BACKEND_CPU)), 3);
    assert_int_equal(ask("t::f", FAC_KS_DENSE | fac__func_bit(FAC_KEY_SPARSE) | both), 4);
}

static void S062_order_of_functionalities(void **state) {
    static const char *const order[] = {"Nested",      "Named",           "Batched",   "AutocastCPU",   "Trace",
                                        "AutogradCPU", "ADInplaceOrView", "ForwardAD", "Functionalize", "Conjugate",
                                        "Watch",       "BackendSelect",   "SparseCPU", "SparseCsrCPU",  "VendorCPU",
                                        "CustomRNG",   "QuantizedCPU",    "CPU"};
    fac_keyset all = ((fac_keyset)((1 << FAC_KEY_COUNT) - 1) << FAC_BACKEND_BITS) | fac__backend_bit(FAC_BACKEND_CPU);
    fac_registration *r[FAC_COUNT(order)];
    int answers[FAC_COUNT(order)];
    (void)state;
    assert_int_equal(FAC_COUNT(order), FAC_KEY_COUNT);
    declare("t::f(Tensor x) -> int");
    for (size_t i = 0; i < FAC_COUNT(order); i++) {
        answers[i] = (int)i;
        r[i] = add("t::f", order[i], &answers[i]);
    }
    for (size_t i = 0; i < FAC_COUNT(order); i++) { /* each serves once those above are no longer in the set */
        assert_int_equal(ask("t::f", all), (int64_t)i);
        all &= fac__below((fac_functionality)(FAC_KEY_COUNT - 1 - i));
        fac_registration_release(r[i]);
    }
}

static void S082_sparse_beats_dense_among_arguments(void **state) {
    fac_value args[2], out;
    (void)state;
    declare("t::f(Tensor x, Tensor y) -> int");
    add("t::f", "CPU", &one);
    add("t::f", "SparseCPU", &two);
    fac_tensor *dense = tensor_with_keys(keys_on(FAC_KEY_DENSE, FAC_BACKEND_CPU)),
               *sparse = tensor_with_keys(keys_on(FAC_KEY_SPARSE, FAC_BACKEND_CPU));
    for (int swap = 0; swap < 2; swap++) {
        args[swap] = fac_value_tensor(dense);
        args[1 - swap] = fac_value_tensor(sparse);
        assert_ok(fac_call("t::f", args, 2, &out));
        assert_int_equal(fac_value_as_int(out), 2);
        fac_value_release(&args[0]);
        fac_value_release(&args[1]);
    }
    fac_release(dense);
    fac_release(sparse);
}

/* A kernel of mm that gives its first argument back and counts its calls. */
static fac_status count_and_return(const fac_call_info *c, fac_value *stack) {
    ++*(int *)c->context;
    stack[0] = fac_value_copy(stack[0]);
    return FAC_OK;
}

static void S085_mm_is_chosen_by_device_and_layout(void **state) {
    (void)state;
    const struct {
        const char *key;
        fac_functionality layout;
        fac_backend device;
    } rows[] = {{"SparseCPU", FAC_KEY_SPARSE, FAC_BACKEND_CPU},
                {"SparseCsrCPU", FAC_KEY_SPARSE_CSR, FAC_BACKEND_CPU},
                {"PrivateUse2", FAC_KEY_DENSE, FAC_BACKEND_PRIVATE2},
                {"SparsePrivateUse2", FAC_KEY_SPARSE, FAC_BACKEND_PRIVATE2}};
    int calls[FAC_COUNT(rows)] = {0};
    for (size_t i = 0; i < FAC_COUNT(rows); i++)
        assert_non_null(fac_register_boxed("aten::mm", rows[i].key, count_and_return, &calls[i], FAC_HERE));
    for (size_t i = 0; i < FAC_COUNT(rows); i++) {
        fac_tensor *t = tensor_with_keys(keys_on(rows[i].layout, rows[i].device));
        fac_value args[] = {fac_value_tensor(t), fac_value_tensor(t)}, out;
        assert_ok(fac_call("aten::mm", args, 2, &out));
        for (size_t k = 0; k < FAC_COUNT(rows); k++) assert_int_equal(calls[k], k <= i);
        fac_value_release(&out);
        fac_value_release(&args[0]);
        fac_value_release(&args[1]);
        fac_release(t);
    }
}

FAC_TEST_MAIN(DISPATCH_TEST(S070_all_eight_combinations), DISPATCH_TEST(S085_mm_is_chosen_by_device_and_layout),
              DISPATCH_TEST(S070_explicit_composite_in_all_sixteen_combinations),
              DISPATCH_TEST(S070_explicit_composite_serves_dense_keys_only), DISPATCH_TEST(E43_one_cell),
              DISPATCH_TEST(S068_catch_all_fills_the_row), DISPATCH_TEST(S069_fallback_fills_the_column),
              DISPATCH_TEST(S070_catch_all_steps_back_above_a_dense_kernel),
              DISPATCH_TEST(S081_autograd_groups_of_backends), DISPATCH_TEST(S071_fall_through_skips_a_key),
              DISPATCH_TEST(S071_fall_through_of_one_backend_leaves_the_others),
              DISPATCH_TEST(S071_fallback_may_fall_through), DISPATCH_TEST(S071_modes_fall_through_by_default),
              DISPATCH_TEST(S071_nothing_below_a_fall_through_is_reported), DISPATCH_TEST(E18_mask_follows_the_table),
              DISPATCH_TEST(S062_highest_functionality_on_the_highest_backend),
              DISPATCH_TEST(S062_order_of_functionalities), DISPATCH_TEST(S082_sparse_beats_dense_among_arguments))
