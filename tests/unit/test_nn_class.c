/* A kind of module of one's own that uses all that a class may have: a typed state that owns memory, parameters, buffers, children,
   several inputs, a description, versions, and copies. */
#include "support/files.h"
#include "support/support.h"
#include <facula/facula.h>
#include <stdlib.h>
#include <string.h>

/* ---- a gated sum: y = weight * (a + gate(b)) + calls, which remembers the sizes that it has seen ------------------------------ */

typedef struct gated {
    fac_module *gate;   /* a child */
    fac_tensor *weight; /* a parameter */
    fac_tensor *calls;  /* a buffer */
    int64_t *seen;      /* owned */
    size_t n_seen;
} gated;

static int destroyed;

static fac_tensor *gated_forward(fac_module *self, fac_tensors inputs) {
    gated *g = fac_module_state(self);
    if (inputs.n != 2) return (void)fac_error_set(FAC_ERR_ARGUMENT, "Gated takes two inputs, not %zu", inputs.n), NULL;
    int64_t *grown = realloc(g->seen, (g->n_seen + 1) * sizeof *grown);
    if (!grown) return (void)fac_error_set(FAC_ERR_MEMORY, "no memory for what was seen"), NULL;
    g->seen = grown;
    g->seen[g->n_seen++] = fac_tensor_size(inputs.v[0], 0);
    {
        FAC_NO_GRAD(n);
        fac_add_(g->calls, 1);
    }
    return fac_mul(g->weight, fac_add(inputs.v[0], fac_forward(g->gate, inputs.v[1])));
}

static void gated_destroy(fac_module *self) {
    destroyed++;
    free(((gated *)fac_module_state(self))->seen);
}

static fac_status gated_copy(fac_module *copy, fac_module *self) {
    gated *to = fac_module_state(copy);
    const gated *from = fac_module_state(self);
    *to = (gated){.gate = fac_module_child(copy, "gate"),
                  .weight = fac_module_parameter(copy, "weight"),
                  .calls = fac_module_buffer(copy, "calls"),
                  .n_seen = from->n_seen};
    to->seen = malloc(from->n_seen * sizeof *from->seen + 1);
    if (!to->seen) return fac_error_set(FAC_ERR_MEMORY, "no memory for what was seen");
    if (from->n_seen) memcpy(to->seen, from->seen, from->n_seen * sizeof *from->seen);
    return FAC_OK;
}

static void gated_describe(fac_module *self, char *buf, size_t size) {
    snprintf(buf, size, "seen=%zu", ((gated *)fac_module_state(self))->n_seen);
}

static const fac_module_class gated_class = {.name = "Gated",
                                             .version = 2,
                                             .state_size = sizeof(gated),
                                             .forward_many = gated_forward,
                                             .destroy = gated_destroy,
                                             .describe = gated_describe,
                                             .copy = gated_copy};

static fac_module *gated_new(int64_t size) {
    FAC_SCOPE(s);
    fac_module *m = fac_module_new(&gated_class);
    if (!m) return NULL;
    gated *g = fac_module_state(m);
    g->weight = fac_module_add_parameter(m, "weight", fac_full(FAC_SHAPE(size), 2.0));
    g->calls = fac_module_add_buffer(m, "calls", fac_zeros(FAC_SHAPE(1), .dtype = FAC_I64));
    g->gate = fac_module_add(m, "gate", fac_tanh_new());
    return m;
}

/* ---- tests ---------------------------------------------------------------------------------------------------------------------- */

static void module_class_takes_several_inputs(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = gated_new(3);
    fac_tensor *y = fac_forward_many(m, FAC_TENSORS(fac_ones(FAC_SHAPE(3)), fac_zeros(FAC_SHAPE(3))));
    assert_true(fac_item(fac_sum(y)) == 6);
    assert_ok(fac_backward(fac_sum(y)));
    assert_true(fac_item(fac_sum(fac_grad_of(fac_module_parameter(m, "weight")))) == 3);
    assert_int_equal(fac_item_int(fac_module_buffer(m, "calls")), 1);
    assert_null(fac_forward(m, fac_ones(FAC_SHAPE(3))));
    assert_error(FAC_ERR_ARGUMENT, "Gated takes two inputs, not 1");
    fac_module_release(m);
}

static void module_class_is_printed_and_destroyed(void **state) {
    (void)state;
    FAC_SCOPE(s);
    char text[256] = "";
    destroyed = 0;
    fac_module *m = gated_new(3);
    FILE *f = fmemopen(text, sizeof text, "w");
    assert_ok(fac_module_print(m, f));
    fclose(f);
    assert_string_equal(text, "Gated(\n  seen=0\n  (gate): Tanh()\n)\n");
    fac_module_release(m);
    assert_int_equal(destroyed, 1);
}

static void module_class_copies_what_its_state_owns(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = gated_new(3);
    assert_non_null(fac_forward_many(m, FAC_TENSORS(fac_ones(FAC_SHAPE(3)), fac_zeros(FAC_SHAPE(3)))));
    fac_module *copy = fac_module_copy(m);
    assert_no_error();
    const gated *a = fac_module_state(m), *b = fac_module_state(copy);
    assert_true(b->seen != a->seen && b->n_seen == 1 && b->seen[0] == 3);
    assert_ptr_equal(b->weight, fac_module_parameter(copy, "weight"));
    assert_ptr_equal(b->calls, fac_module_buffer(copy, "calls"));
    assert_ptr_equal(b->gate, fac_module_child(copy, "gate"));
    assert_true(a->weight != b->weight && a->gate != b->gate);
    fac_module_release(m);
    assert_non_null(fac_forward_many(copy, FAC_TENSORS(fac_ones(FAC_SHAPE(3)), fac_zeros(FAC_SHAPE(3)))));
    assert_int_equal(fac_item_int(fac_module_buffer(copy, "calls")), 2);
    fac_module_release(copy);
}

static void module_class_is_saved_and_loaded(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *path = files_path("gated.safetensors");
    fac_module *m = gated_new(3), *other = gated_new(3);
    assert_non_null(fac_forward_many(m, FAC_TENSORS(fac_ones(FAC_SHAPE(3)), fac_zeros(FAC_SHAPE(3)))));
    assert_ok(fac_module_save(m, path));
    assert_ok(fac_module_load(other, path));
    assert_int_equal(fac_item_int(fac_module_buffer(other, "calls")), 1);
    fac_module_release(m);
    fac_module_release(other);
}

static fac_status refuse_to_begin(fac_module *self) {
    assert_int_equal(((gated *)fac_module_state(self))->n_seen, 0);
    return FAC_ERR_UNSUPPORTED;
}

static void module_class_whose_state_cannot_be_made_makes_no_module(void **state) {
    (void)state;
    static fac_module_class cls;
    cls = gated_class;
    cls.init = refuse_to_begin;
    destroyed = 0;
    assert_null(fac_module_new(&cls));
    assert_error(FAC_ERR_UNSUPPORTED, "the state of Gated could not be made");
    assert_int_equal(destroyed, 0);
}

static fac_status begin_with_an_error(fac_module *self) {
    const fac_status st = gated_class.init ? gated_class.init(self) : FAC_OK;
    (void)fac_error_set(FAC_ERR_IO, "left behind");
    return st;
}

static void module_class_whose_init_leaves_an_error_makes_no_module(void **state) {
    (void)state;
    static fac_module_class cls;
    cls = gated_class;
    cls.init = begin_with_an_error;
    destroyed = 0;
    assert_null(fac_module_new(&cls));
    assert_error(FAC_ERR_IO, "left behind");
    assert_int_equal(destroyed, 1);
}

static fac_status refuse_to_copy(fac_module *copy, fac_module *self) {
    (void)copy, (void)self;
    return FAC_ERR_UNSUPPORTED;
}

static void module_class_without_a_copy_function_is_not_copied(void **state) {
    (void)state;
    static fac_module_class cls;
    FAC_SCOPE(s);
    cls = gated_class;
    cls.copy = NULL;
    fac_module *m = fac_module_new(&cls);
    assert_null(fac_module_copy(m));
    assert_error(FAC_ERR_UNSUPPORTED, "Gated cannot be copied: its class has no `copy` function");
    cls.destroy = NULL; /* pointers may be in the state all the same */
    assert_null(fac_module_copy(m));
    assert_error(FAC_ERR_UNSUPPORTED, "Gated cannot be copied: its class has no `copy` function");
    cls.copy = refuse_to_copy;
    assert_null(fac_module_copy(m));
    assert_error(FAC_ERR_UNSUPPORTED, "the state of Gated could not be copied");
    fac_module_release(m);
}

/* ---- a class that adds its child in `init` and uses it in `destroy` -------------------------------------------------------------- */

static fac_status holder_init(fac_module *self) {
    *(fac_module **)fac_module_state(self) = fac_module_add(self, "part", fac_linear_new(1, 1));
    return fac_error();
}

static void holder_destroy(fac_module *self) { fac_module_train(*(fac_module **)fac_module_state(self), false); }

static fac_status holder_copy(fac_module *copy, fac_module *self) {
    (void)self;
    fac_module *part = fac_module_child(copy, "part");
    if (part) *(fac_module **)fac_module_state(copy) = part;
    return fac_error();
}

static const fac_module_class holder_class = {.name = "Holder",
                                              .version = 1,
                                              .state_size = sizeof(fac_module *),
                                              .init = holder_init,
                                              .destroy = holder_destroy,
                                              .copy = holder_copy};

static fac_status copy_a_holder(void *context) {
    fac_module_release(fac_module_copy(context));
    return fac_error();
}

static void module_class_finds_its_parts_when_a_copy_fails(void **state) {
    (void)state;
    fac_module *m = fac_module_new(&holder_class);
    assert_no_error();
    support_fail_each_allocation(copy_a_holder, m);
    fac_module_release(m);
}

/* One of each layer, in a list of its own length. */
static size_t all_layers(fac_module *out[32]) {
    fac_module *const made[] = {fac_linear_new(2, 3),
                                fac_embedding_new(4, 2, .padding_idx = 1),
                                fac_layer_norm_new(FAC_INTS(2)),
                                fac_rms_norm_new(FAC_INTS(2)),
                                fac_batch_norm2d_new(2),
                                fac_conv2d_new(1, 2, FAC_INTS(3)),
                                fac_max_pool2d_new(2),
                                fac_avg_pool2d_new(3, .stride = 2),
                                fac_dropout_new(.p = 0.25),
                                fac_relu_new(),
                                fac_silu_new(),
                                fac_tanh_new(),
                                fac_sigmoid_new(),
                                fac_gelu_new(.approximate = "tanh"),
                                fac_flatten_new(.end_dim = 2),
                                fac_sequential(fac_relu_new()),
                                fac_multihead_attention_new(4, 2, .causal = true),
                                fac_mse_loss_new(.reduction = FAC_REDUCTION_SUM),
                                fac_cross_entropy_loss_new(.ignore_index = 0)};
    memcpy(out, made, sizeof made);
    return FAC_COUNT(made);
}

static void S169_every_layer_is_copied_with_its_settings(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *layers[32];
    const size_t n = all_layers(layers);
    for (size_t i = 0; i < n; i++) {
        fac_module *copy = fac_module_copy(layers[i]);
        assert_no_error();
        const fac_module_class *cls = fac_module_class_of(layers[i]);
        char text[2][512] = {"", ""};
        for (int k = 0; k < 2; k++)
            if (cls->describe) cls->describe(k ? copy : layers[i], text[k], sizeof text[k]);
        assert_string_equal(text[0], text[1]);
        if (cls->state_size) assert_memory_equal(fac_module_state(copy), fac_module_state(layers[i]), cls->state_size);
        fac_module_release(layers[i]);
        fac_module_release(copy);
    }
}

static void module_values_are_copied_within_one_class(void **state) {
    (void)state;
    fac_module *a = fac_linear_new(2, 3), *b = fac_tanh_new();
    assert_int_equal(fac_module_copy_values(a, b), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "between two modules of one class");
    assert_int_equal(fac_module_copy_values(NULL, b), FAC_ERR_ARGUMENT);
    fac_error_clear();
    fac_module_release(a);
    fac_module_release(b);
}

static fac_status copy_once(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_module *m = gated_new(2);
    if (m && !fac_error()) fac_module_release(fac_module_copy(m));
    fac_module_release(m);
    return fac_error();
}

static void module_class_survives_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(copy_once, NULL);
}

FAC_TEST_MAIN(FAC_TEST(module_class_takes_several_inputs), FAC_TEST(module_class_is_printed_and_destroyed),
              FAC_TEST(module_class_copies_what_its_state_owns), FAC_TEST(module_class_is_saved_and_loaded),
              FAC_TEST(module_class_whose_state_cannot_be_made_makes_no_module),
              FAC_TEST(module_class_whose_init_leaves_an_error_makes_no_module),
              FAC_TEST(module_class_without_a_copy_function_is_not_copied),
              FAC_TEST(module_class_finds_its_parts_when_a_copy_fails),
              FAC_TEST(S169_every_layer_is_copied_with_its_settings),
              FAC_TEST(module_values_are_copied_within_one_class), FAC_TEST(module_class_survives_failing_allocations))
