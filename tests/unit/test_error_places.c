/* Where an error arose, as the program sees it: file and line of its own call, the module, the tensors; and who is told. */
#include "support/support.h"
#include <facula/facula.h>
#include <setjmp.h>
#include <stdlib.h>

/* The pending error, which it clears: where it was. */
static fac_error_info taken(void) {
    static char file[160], operands[256], module[192], kind[48], message[1024];
    fac_error_info e;
    fac_error_get(&e);
    snprintf(file, sizeof file, "%s", e.file);
    snprintf(operands, sizeof operands, "%s", e.operands);
    snprintf(module, sizeof module, "%s", e.module);
    snprintf(kind, sizeof kind, "%s", e.kind);
    snprintf(message, sizeof message, "%s", e.message);
    e.file = file, e.operands = operands, e.module = module, e.kind = kind, e.message = message;
    fac_error_clear();
    return e;
}

static void assert_place(int line) {
    const fac_error_info e = taken();
    assert_int_not_equal(e.code, FAC_OK);
    assert_int_equal(e.line, line);
    assert_non_null(strstr(e.file, "test_error_places.c"));
}

/* Fails, and says that it was in this line. */
#define assert_placed(call)     \
    do {                        \
        (void)(call);           \
        assert_place(__LINE__); \
    } while (0)

/* Calls of every kind: without keywords, with, of two overloads, in place, out, of lists, of results; then other functions. */
static void place_of_a_call_is_its_line(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_SHAPE(2, 3)), *y = fac_ones(FAC_SHAPE(4)),
               *i = fac_ones(FAC_SHAPE(2), .dtype = FAC_I64);
    assert_placed(fac_mm(x, y) == NULL);
    assert_placed(fac_sum(x, 7) == NULL);
    assert_placed(fac_add(x, y) == NULL);
    assert_placed(fac_bitwise_and(x, 2) == NULL);
    assert_placed(fac_add_(x, y));
    assert_placed(fac_add_out(i, x, 2));
    assert_placed(fac_split(x, -1).n);
    assert_placed(fac_topk(x, 9).values);
    assert_placed(fac_item(x));
    assert_placed(fac_linear_new(-1, 2) == NULL);
    assert_placed(fac_backward(x) == FAC_OK);
    assert_placed(fac_tensor_size(x, 9));
    assert_placed(fac_error_set(FAC_ERR_IO, "of the program"));
}

static void place_is_that_of_the_first_call_that_failed(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_SHAPE(2, 3));
    const int line = __LINE__ + 1;
    fac_tensor *y = fac_relu(fac_mm(x, x));
    assert_null(fac_relu(y));
    assert_place(line);
}

static void place_is_not_that_of_a_later_call(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_SHAPE(2, 3));
    assert_null((fac_mm)(x, x)); /* a binding, say, which tells no place */
    assert_int_equal(fac_error_set(FAC_ERR_IO, "of the program"), FAC_ERR_SHAPE);
    assert_null(fac_relu(x));
    const fac_error_info e = taken();
    assert_int_equal(e.line, 0);
    assert_string_equal(e.file, "");
    assert_null((fac_mm)(x, x));
    fac_error_at("model.py", 12);
    fac_error_at("other.py", 13);
    const fac_error_info told = taken();
    assert_int_equal(told.line, 12);
    assert_string_equal(told.file, "model.py");
}

static void operands_are_named_with_dtypes_and_sizes(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_SHAPE(2, 3)), *i = fac_ones(FAC_SHAPE(4), .dtype = FAC_I64);
    assert_null(fac_mm(x, i));
    assert_string_equal(taken().operands, "self float32[2, 3], mat2 int64[4]");
    assert_null(fac_cat(FAC_TENSORS(x, i), 0));
    assert_string_equal(taken().operands, "tensors [float32[2, 3], int64[4]]");
    fac_tensor *many[40];
    for (int k = 0; k < 40; k++) many[k] = k ? x : i;
    assert_null(fac_cat(fac_tensors_of(many, 40), 0));
    const fac_error_info e = taken();
    assert_int_equal(strlen(e.operands), 255);
    assert_string_equal(e.operands + 252, "...");
}

static void lists_that_failed_can_be_indexed(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensors parts = fac_split(fac_ones(FAC_SHAPE(2)), -1);
    assert_int_equal(parts.n, 0);
    assert_null(parts.v[0]);
    assert_null(fac_relu(parts.v[2]));
    fac_error_clear();
}

static void place_is_that_of_the_call_whose_parts_failed(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_SHAPE(2, 3)), *i = fac_ones(FAC_SHAPE(1, 2, 4), .dtype = FAC_I64);
    fac_module *attention = fac_multihead_attention_new(4, 2);
    assert_placed(fac_matmul(fac_ones(FAC_SHAPE(3)), x) == NULL); /* unsqueeze, mm, squeeze */
    assert_placed(fac_forward(attention, i) == NULL);             /* operators in a function of a class */
    fac_module_release(attention);
}

/* ---- modules -------------------------------------------------------------------------------------------------------- */

static int block_line;
static fac_tensor *block_forward(fac_module *self, fac_tensor *x) {
    block_line = __LINE__ + 1;
    fac_tensor *y = fac_forward(fac_module_child(self, "attn.qkv"), x);
    return fac_add(x, y);
}
static fac_tensor *model_forward(fac_module *self, fac_tensor *x) {
    return fac_forward(fac_module_child(self, "blocks"), fac_forward(fac_module_child(self, "embed"), x));
}
static const fac_module_class model_class = {.name = "Model", .forward = model_forward};
static const fac_module_class block_class = {.name = "Block", .forward = block_forward};
static const fac_module_class attention_class = {.name = "Attention"};

static fac_module *block_new(int64_t in, int64_t out) {
    fac_module *attention = fac_module_new(&attention_class), *m = fac_module_new(&block_class);
    fac_module_add(attention, "qkv", fac_linear_new(in, out));
    fac_module_add(m, "attn", attention);
    return m;
}

static void an_error_in_a_model_of_twelve_layers_says_where(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *blocks[12], *model = fac_module_new(&model_class);
    for (int i = 0; i < 12; i++) blocks[i] = block_new(i == 7 ? 9 : 8, 8);
    fac_module_add(model, "embed", fac_linear_new(5, 8));
    fac_module_add(model, "blocks", fac_sequential_new(blocks, 12));
    assert_null(fac_forward(model, fac_ones(FAC_SHAPE(3, 5))));
    const fac_error_info e = taken();
    assert_string_equal(e.module, "blocks.7.attn.qkv");
    assert_string_equal(e.kind, "Linear");
    assert_non_null(strstr(e.operands, "float32[3, 8]"));
    assert_non_null(strstr(e.operands, "weight float32[8, 9]"));
    assert_int_equal(e.line, block_line); /* where the program made the call */
    fac_module_release(model);
}

/* ---- the handler ---------------------------------------------------------------------------------------------------- */

typedef struct told {
    int times, line;
    fac_status code;
} told;

static void tell(void *context, const fac_error_info *e) {
    told *t = context;
    t->times++;
    t->line = e->line;
    t->code = e->code;
}

static void handler_is_called_once_for_an_error(void **state) {
    (void)state;
    FAC_SCOPE(s);
    told t = {0};
    fac_tensor *x = fac_ones(FAC_SHAPE(2, 3));
    fac_set_error_handler(tell, &t);
    const int line = __LINE__ + 1;
    assert_null(fac_relu(fac_mm(x, x)));
    assert_null(fac_relu(x));
    assert_int_equal(t.times, 1);
    assert_int_equal(t.line, line);
    assert_int_equal(t.code, FAC_ERR_SHAPE);
    fac_error_clear();
    assert_null(fac_mm(x, x));
    assert_int_equal(t.times, 2);
    fac_set_error_handler(NULL, NULL);
    fac_error_clear();
    assert_null(fac_mm(x, x));
    assert_int_equal(t.times, 2);
    fac_error_clear();
}

static jmp_buf out;
static void leave(void *context, const fac_error_info *e) {
    (void)context, (void)e;
    longjmp(out, 1);
}

static void handler_may_leave_by_longjmp(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_sequential(block_new(8, 7));
    fac_set_error_handler(leave, NULL);
    if (setjmp(out) == 0) {
        fac_tensor *y = fac_forward(m, fac_ones(FAC_SHAPE(3, 8)));
        fail_msg("the handler was not called: %p", (void *)y);
    }
    fac_set_error_handler(NULL, NULL);
    const fac_error_info e = taken();
    assert_int_equal(e.code, FAC_ERR_SHAPE);
    assert_string_equal(e.module, "0");
    assert_string_equal(e.kind, "Block");
    fac_module_release(m);
}

static void report_is_for_people(void **state) {
    (void)state;
    FAC_SCOPE(s);
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    fac_module *m = fac_linear_new(4, 3);
    assert_null(fac_forward(m, fac_ones(FAC_SHAPE(2, 5))));
    assert_int_equal(fac_report(f), 1);
    fclose(f);
    assert_non_null(strstr(text, "test_error_places.c:"));
    assert_non_null(strstr(text, ": facula: SHAPE error: linear"));
    assert_non_null(strstr(text, "\n    in a module of kind Linear\n"));
    assert_non_null(strstr(text, "\n    given input float32[2, 5], weight float32[3, 4], bias float32[3]\n"));

    free(text);
    fac_error_clear();
    fac_module_release(m);
}

FAC_TEST_MAIN(FAC_TEST(place_of_a_call_is_its_line), FAC_TEST(place_is_that_of_the_first_call_that_failed),
              FAC_TEST(place_is_not_that_of_a_later_call), FAC_TEST(place_is_that_of_the_call_whose_parts_failed),
              FAC_TEST(operands_are_named_with_dtypes_and_sizes), FAC_TEST(lists_that_failed_can_be_indexed),
              FAC_TEST(an_error_in_a_model_of_twelve_layers_says_where), FAC_TEST(handler_is_called_once_for_an_error),
              FAC_TEST(handler_may_leave_by_longjmp), FAC_TEST(report_is_for_people))
