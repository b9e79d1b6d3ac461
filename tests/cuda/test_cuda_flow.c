/* The same program on two kinds of device: which kernels are called, seen by the dispatcher's observer. */
#include "support/cuda.h"

enum { MAX_CALLS = 256 };

static struct {
    char op[48];
    bool cuda;
} calls[MAX_CALLS];
static int n_calls;

static void observe(void *context, const fac_operator *op, fac_keyset keys, bool enter) {
    char text[256];
    (void)context;
    if (!enter || n_calls == MAX_CALLS) return;
    fac_keyset_format(keys, text, sizeof text);
    const char *name = fac_operator_name(op), *space = strstr(name, "::");
    snprintf(calls[n_calls].op, sizeof calls[n_calls].op, "%s", space ? space + 2 : name);
    calls[n_calls++].cuda = strstr(text, "CUDA") != NULL;
}

/* Calls seen of an operator (its name up to an overload's) with or without a CUDA key. */
static int seen(const char *op, bool cuda) {
    int n = 0;
    for (int i = 0; i < n_calls; i++) {
        size_t length = strcspn(calls[i].op, ".");
        n += strlen(op) == length && memcmp(calls[i].op, op, length) == 0 && calls[i].cuda == cuda;
    }
    return n;
}

static void assert_on(fac_tensor *t, fac_device d) {
    assert_no_error();
    assert_non_null(t);
    assert_true(fac_device_equal(fac_tensor_device(t), d));
}

static void E42_mm_is_dispatched_by_where_its_operands_are(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *a = fac_reshape(fac_arange(6, .dtype = FAC_F32), FAC_INTS(2, 3)), *b = fac_t(a);
    fac_tensor *x = fac_to(a, .device = cuda_device(0)), *y = fac_to(b, .device = cuda_device(0));
    n_calls = 0;
    fac_set_call_observer(observe, NULL);
    fac_tensor *host = fac_mm(a, b), *device = fac_mm(x, y);
    fac_set_call_observer(NULL, NULL);
    assert_on(host, fac_device_make(FAC_CPU, -1));
    assert_on(device, cuda_device(0));
    assert_int_equal(seen("mm", false), 1);
    assert_int_equal(seen("mm", true), 1);
    float p[4], q[4];
    assert_ok(fac_tensor_read(host, FAC_F32, p, 4));
    assert_ok(fac_tensor_read(device, FAC_F32, q, 4));
    assert_memory_equal(p, q, sizeof p); /* small whole numbers: exact in any order */
}

static void E22_flow_from_inputs_to_loss_stays_on_the_device(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_device gpu = cuda_device(0);
    fac_tensor *inputs = fac_reshape(fac_arange(6, .dtype = FAC_F32), FAC_INTS(2, 3)),
               *weight = fac_ones(FAC_SHAPE(3, 1));
    fac_tensor *labels = fac_tensor_from((const float[]){1, 10}, FAC_F32, FAC_INTS(2, 1));
    fac_tensor *w = fac_to(weight, .device = gpu);
    n_calls = 0;
    fac_set_call_observer(observe, NULL);
    fac_tensor *x = fac_to(inputs, .device = gpu); /* 1: inputs to the GPU */
    fac_tensor *outputs = fac_mm(x, w);            /* 2, 3: an operator by key, its outputs on the GPU */
    fac_tensor *y = fac_to(labels, .device = gpu); /* 4: labels to the GPU */
    fac_tensor *difference = fac_sub(outputs, y);
    fac_tensor *loss = fac_sum(fac_mul(difference, difference)); /* 5, 6, 7: the loss by key, on the GPU */
    fac_set_call_observer(NULL, NULL);
    assert_on(x, gpu);
    assert_on(outputs, gpu);
    assert_on(y, gpu);
    assert_on(loss, gpu);
    assert_true(fac_item(loss) == (3 - 1) * (3 - 1) + (12 - 10) * (12 - 10));
    static const char *const on_gpu[] = {"mm", "sub", "mul", "sum"};
    for (size_t i = 0; i < FAC_COUNT(on_gpu); i++) {
        assert_true(seen(on_gpu[i], true) >= 1);
        assert_int_equal(seen(on_gpu[i], false), 0);
    }
    assert_int_equal(seen("_to_copy", false), 2); /* from the CPU, whose key they carry */
}

FAC_TEST_MAIN(FAC_CUDA_TEST(E42_mm_is_dispatched_by_where_its_operands_are),
              FAC_CUDA_TEST(E22_flow_from_inputs_to_loss_stays_on_the_device))
