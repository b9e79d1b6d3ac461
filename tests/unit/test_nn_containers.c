/* Containers of modules and parameters, and modules from text that hold others. */
#include "support/support.h"
#include <facula/facula.h>
#include <stdlib.h>
#include <string.h>

static char *printed(fac_module *m) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    assert_ok(fac_module_print(m, f));
    fclose(f);
    return text;
}

static void assert_prints(fac_module *m, const char *expected) {
    char *text = printed(m);
    assert_string_equal(text, expected);
    free(text);
}

static void list_of_modules_is_changed_in_place(void **state) {
    (void)state;
    fac_module *list = fac_module_list_new(NULL, 0), *relu = fac_relu_new(), *tanh = fac_tanh_new();
    assert_int_equal(fac_module_list_len(list), 0);
    assert_ptr_equal(fac_module_list_append(list, relu), relu);
    assert_ptr_equal(fac_module_list_insert(list, 0, tanh), tanh);
    assert_ptr_equal(fac_module_list_get(list, 0), tanh);
    assert_ptr_equal(fac_module_list_get(list, -1), relu);
    assert_ptr_equal(fac_module_child(list, "1"), relu);
    assert_non_null(fac_module_list_set(list, 0, fac_linear_new(2, 3)));
    assert_ok(fac_module_list_extend(list, list));
    assert_int_equal(fac_module_list_len(list), 4);
    assert_ptr_equal(fac_module_list_get(list, 3), relu);
    fac_module *gone = fac_module_list_pop(list, 1);
    assert_ptr_equal(gone, relu);
    assert_int_equal(fac_module_list_len(list), 3);
    assert_ptr_equal(fac_module_child(list, "2"), relu);
    fac_module_release(gone);
    assert_null(fac_module_list_get(list, 3));
    assert_error(FAC_ERR_INDEX, "index 3 is out of range for a ModuleList of 3");
    assert_null(fac_module_list_append(list, fac_module_keep(list)));
    assert_error(FAC_ERR_ARGUMENT, "below itself");
    assert_null(fac_module_list_set(list, 0, fac_module_keep(list)));
    assert_error(FAC_ERR_ARGUMENT, "below itself");
    assert_null(fac_module_list_insert(list, 9, fac_relu_new()));
    assert_error(FAC_ERR_INDEX, "index 9");
    assert_null(fac_module_list_get(relu, 0));
    assert_error(FAC_ERR_ARGUMENT, "a ModuleList or Sequential is wanted, not ReLU");
    fac_module_release(list);
}

static void sequential_grows_as_a_list(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_sequential(fac_linear_new(3, 4));
    assert_non_null(fac_module_list_append(m, fac_linear_new(4, 2)));
    assert_non_null(fac_module_list_insert(m, 1, fac_relu_new()));
    fac_tensor *y = fac_forward(m, fac_ones(FAC_INTS(5, 3)));
    assert_non_null(y);
    assert_int_equal(fac_tensor_size(y, 1), 2);
    fac_module_release(m);
}

static void dictionary_of_modules_keeps_names(void **state) {
    (void)state;
    fac_module *dict = fac_module_dict_new();
    assert_non_null(fac_module_dict_set(dict, "a", fac_relu_new()));
    assert_non_null(fac_module_dict_set(dict, "b", fac_relu_new()));
    assert_non_null(fac_module_dict_set(dict, "a", fac_tanh_new()));
    assert_string_equal(fac_module_class_of(fac_module_dict_get(dict, "a"))->name, "Tanh");
    assert_true(fac_module_dict_has(dict, "b"));
    fac_module *gone = fac_module_dict_pop(dict, "b");
    assert_non_null(gone);
    fac_module_release(gone);
    assert_false(fac_module_dict_has(dict, "b"));
    assert_null(fac_module_dict_pop(dict, "b"));
    assert_error(FAC_ERR_NOT_FOUND, "ModuleDict has no child 'b'");
    assert_ok(fac_module_dict_clear(dict));
    assert_false(fac_module_dict_has(dict, "a"));
    fac_module_release(dict);
}

static void lists_of_parameters_are_learned(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_ones(FAC_INTS(2, 3)), *b = fac_ones(FAC_INTS(4));
    fac_module *list = fac_parameter_list_new(FAC_TENSORS(a, b));
    assert_true(fac_requires_grad(a));
    assert_ptr_equal(fac_parameter_list_get(list, -1), b);
    assert_non_null(fac_parameter_list_append(list, fac_zeros(FAC_INTS(1), .dtype = FAC_F64)));
    assert_int_equal(fac_parameter_list_len(list), 3);
    assert_ptr_equal(fac_module_parameter(list, "1"), b);
    fac_tensor *c = fac_ones(FAC_INTS(5));
    assert_ptr_equal(fac_parameter_list_set(list, 1, c), c);
    assert_true(fac_requires_grad(c));
    assert_prints(list, "ParameterList(\n"
                        "    (0): Parameter containing: [torch.float32 of size 2x3]\n"
                        "    (1): Parameter containing: [torch.float32 of size 5]\n"
                        "    (2): Parameter containing: [torch.float64 of size 1]\n)\n");
    assert_null(fac_parameter_list_append(list, fac_add(c, 1)));
    assert_error(FAC_ERR_AUTOGRAD, "should be a leaf");
    fac_module *dict = fac_parameter_dict_new();
    assert_ptr_equal(fac_parameter_dict_set(dict, "x", b), b);
    assert_prints(dict, "ParameterDict(  (x): Parameter containing: [torch.FloatTensor of size 4])\n");
    fac_tensor *gone = fac_parameter_dict_pop(dict, "x");
    assert_ptr_equal(gone, b);
    fac_release(gone);
    assert_false(fac_parameter_dict_has(dict, "x"));
    assert_non_null(fac_parameter_dict_set(dict, "y", c));
    assert_ok(fac_parameter_dict_clear(dict));
    assert_null(fac_parameter_dict_get(dict, "y"));
    assert_error(FAC_ERR_NOT_FOUND, "has no parameter or buffer 'y'");
    fac_module_release(list);
    fac_module_release(dict);
}

static void text_that_holds_modules_is_read_and_shown_alike(void **state) {
    (void)state;
    fac_module *m = fac_parse_module("ModuleList([Linear(2, 3), Linear(2, 3), ReLU()])");
    assert_prints(m, "ModuleList(\n"
                     "  (0-1): 2 x Linear(in_features=2, out_features=3, bias=True)\n"
                     "  (2): ReLU()\n)\n");
    fac_module_release(m);
    m = fac_parse_module("nn.ModuleDict({'a': nn.Sequential(nn.ReLU()), \"b\": nn.Tanh(),})");
    assert_prints(m, "ModuleDict(\n  (a): Sequential(\n    (0): ReLU()\n  )\n  (b): Tanh()\n)\n");
    fac_module_release(m);
    m = fac_parse_module("TransformerEncoder(TransformerEncoderLayer(8, 2), num_layers=3, norm=LayerNorm(8))");
    assert_int_equal(fac_module_list_len(fac_module_child(m, "layers")), 3);
    assert_non_null(fac_module_parameter(m, "norm.weight"));
    fac_module_release(m);
}

static void lists_of_numbers_in_text_are_read(void **state) {
    (void)state;
    fac_module *m = fac_parse_module("LayerNorm( [2, 3,] )");
    assert_prints(m, "LayerNorm((2, 3), eps=1e-05, elementwise_affine=True, bias=True)\n");
    fac_module_release(m);
    m = fac_parse_module("FractionalMaxPool2d(2, output_ratio=( 0.5, 0.25 ))");
    assert_no_error();
    assert_non_null(m);
    fac_module_release(m);
}

static void text_that_holds_modules_badly_is_refused(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"ModuleList([ReLU()", "a bracket is not closed at column 19"},
        {"ModuleList([ReLU())", "a bracket is not closed"},
        {"ModuleList([ReLU()]", "a bracket is not closed"},
        {"ModuleDict({'a' ReLU()})", "a colon is missing"},
        {"ModuleDict({a: ReLU()})", "a name in quotes is missing"},
        {"TransformerEncoder(ReLU())", "a layer, or how many there are, is missing"},
        {"TransformerEncoder(ReLU(), layers=2)", "none of a stack of layers"},
        {"TransformerEncoder(ReLU(), 2, num_layers=2)", "given twice"},
        {"TransformerDecoder(ReLU(), two)", "a number of layers is missing"},
        {"MaxPool2d((99999999999999999999, 2))", "kernel_size should be a number or"},
        {"LayerNorm([2, 99999999999999999999])", "should be a list of numbers"},
        {"LayerNorm([2, 3)", "should be a list of numbers"},
        {"LayerNorm([2 3])", "should be a list of numbers"},
        {"FractionalMaxPool2d(2, output_ratio=(0.5, x))", "should be a list of numbers"}};
    for (size_t i = 0; i < FAC_COUNT(rows); i++) {
        assert_null(fac_parse_module(rows[i][0]));
        assert_error(FAC_ERR_FORMAT, rows[i][1]);
    }
}

FAC_TEST_MAIN(FAC_TEST(list_of_modules_is_changed_in_place), FAC_TEST(sequential_grows_as_a_list),
              FAC_TEST(dictionary_of_modules_keeps_names), FAC_TEST(lists_of_parameters_are_learned),
              FAC_TEST(text_that_holds_modules_is_read_and_shown_alike), FAC_TEST(lists_of_numbers_in_text_are_read),
              FAC_TEST(text_that_holds_modules_badly_is_refused))
