/* Lists of named tensors: put together, taken apart, saved and loaded; and modules as groups of an optimiser. */
#include "support/files.h"
#include "support/support.h"
#include <facula/facula.h>

static void state_parts_come_back_under_their_own_names(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(3, 2);
    fac_state *own = fac_module_state_dict(m), *all = fac_state_new();
    assert_ok(fac_state_set(all, "step", fac_tensor_of(7)));
    assert_ok(fac_state_add(all, "model.", own));
    assert_int_equal(all->n, 3);
    assert_ptr_equal(fac_state_get(all, "model.bias"), fac_module_parameter(m, "bias"));
    fac_state *part = fac_state_part(all, "model."), *none = fac_state_part(all, "other.");
    assert_int_equal(part->n, 2);
    assert_string_equal(part->v[0].name, "weight");
    assert_string_equal(part->v[1].name, "bias");
    assert_int_equal(none->n, 0);
    fac_state_free(none);
    fac_state_free(part);
    fac_state_free(all);
    fac_state_free(own);
    fac_module_release(m);
}

static void state_cannot_be_added_to_itself(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_state *all = fac_state_new();
    assert_ok(fac_state_set(all, "a", fac_tensor_of(1)));
    assert_int_equal(fac_state_add(all, "b.", all), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "cannot be added to itself");
    assert_int_equal(fac_state_add(all, NULL, all), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    assert_null(fac_state_part(all, NULL));
    assert_error(FAC_ERR_ARGUMENT, "prefix");
    assert_int_equal(all->n, 1);
    fac_state_free(all);
}

static void state_file_holds_every_dtype_and_shape(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *path = files_path("state.safetensors");
    fac_state *saved = fac_state_new();
    assert_ok(fac_state_set(saved, "f32", fac_rand(FAC_SHAPE(2, 3))));
    assert_ok(fac_state_set(saved, "i64", fac_arange(5, .dtype = FAC_I64)));
    assert_ok(fac_state_set(saved, "none", fac_zeros(FAC_SHAPE(0, 4), .dtype = FAC_F16)));
    assert_ok(fac_state_set(saved, "number", fac_full(FAC_SHAPE(), 2.5, .dtype = FAC_F64)));
    assert_ok(fac_state_save(saved, path));
    fac_state *loaded = fac_state_load(path);
    assert_int_equal(loaded->n, saved->n);
    for (size_t i = 0; i < saved->n; i++) {
        fac_tensor *a = saved->v[i].tensor, *b = fac_state_get(loaded, saved->v[i].name);
        assert_int_equal(fac_tensor_dtype(a), fac_tensor_dtype(b));
        assert_true(fac_equal(a, b));
    }
    fac_state_free(loaded);
    fac_state_free(saved);
}

static void state_file_that_is_damaged_is_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *path = files_path("damaged.safetensors");
    fac_state *saved = fac_state_new();
    assert_ok(fac_state_set(saved, "a", fac_ones(FAC_SHAPE(8))));
    assert_ok(fac_state_save(saved, path));
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    fputc(0x55, f);
    assert_int_equal(fclose(f), 0);
    assert_null(fac_state_load(path));
    assert_error(FAC_ERR_FORMAT, "");
    assert_null(fac_state_load(files_path("absent.safetensors")));
    assert_error(FAC_ERR_IO, "");
    fac_state_free(saved);
}

static void state_of_modules_is_no_file(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(3, 2);
    fac_state *modules = fac_module_modules(m);
    assert_int_equal(fac_state_save(modules, files_path("modules.safetensors")), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "is no tensor");
    fac_state_free(modules);
    fac_module_release(m);
}

/* ---- groups of modules ---- */

static void optimizer_takes_a_module_as_a_group(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *body = fac_linear_new(3, 2), *head = fac_linear_new(2, 1);
    fac_optimizer *o = fac_sgd_new(head, 0.5);
    assert_ok(fac_optimizer_add_module(o, body, FAC_OPTIONS({"lr", 0.25})));
    assert_int_equal(fac_optimizer_group_count(o), 2);
    assert_int_equal(fac_optimizer_group(o, 1).n, 2);
    assert_ptr_equal(fac_optimizer_group(o, 1).v[0], fac_module_parameter(body, "weight"));
    assert_true(fac_optimizer_option(o, 0, "lr") == 0.5 && fac_optimizer_option(o, 1, "lr") == 0.25);
    fac_optimizer_release(o);
    fac_module_release(head);
    fac_module_release(body);
}

static void optimizer_refuses_a_module_that_adds_nothing_new(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(3, 2), *empty = fac_relu_new();
    fac_optimizer *o = fac_sgd_new(m, 0.5);
    assert_int_equal(fac_optimizer_add_module(o, m, FAC_OPTIONS()), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "more than one group");
    assert_int_equal(fac_optimizer_add_module(o, empty, FAC_OPTIONS()), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "without parameters");
    assert_int_equal(fac_optimizer_add_module(o, NULL, FAC_OPTIONS()), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    assert_int_equal(fac_optimizer_group_count(o), 1);
    fac_optimizer_release(o);
    fac_module_release(empty);
    fac_module_release(m);
}

FAC_TEST_MAIN(FAC_TEST(state_parts_come_back_under_their_own_names), FAC_TEST(state_cannot_be_added_to_itself),
              FAC_TEST(state_file_holds_every_dtype_and_shape), FAC_TEST(state_file_that_is_damaged_is_refused),
              FAC_TEST(state_of_modules_is_no_file), FAC_TEST(optimizer_takes_a_module_as_a_group),
              FAC_TEST(optimizer_refuses_a_module_that_adds_nothing_new))
