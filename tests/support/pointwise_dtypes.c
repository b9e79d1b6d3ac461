/* Samples of pointwise operators, with all numbers in one dtype, are called on the CPU and on another device. */
#include "pointwise_dtypes.h"
#include "samples.h"
#include "support.h"

#include "dispatch/operator.h"

typedef struct verdict {
    fac_status st;
    char message[512];
} verdict;

typedef struct tally {
    int calls, refused, wrong;
} tally;

static verdict ask(const sample_call *c, fac_device device) {
    verdict v = {.st = sample_try(c, device)};
    snprintf(v.message, sizeof v.message, "%s", fac_error_message());
    fac_error_clear();
    return v;
}

static bool agree(const verdict *cpu, const verdict *there, fac_dtype d) {
    if (cpu->st == FAC_ERR_DTYPE) return there->st == FAC_ERR_DTYPE && strcmp(cpu->message, there->message) == 0;
    return there->st == cpu->st || (there->st == FAC_ERR_UNSUPPORTED && fac_dtype_is_complex(d));
}

static void set_ones(sample_tensor *t, fac_dtype d) {
    t->dtype = d;
    t->n_elements = 1;
    t->elements[0] = 1;
}

/* Truth values stay what they are: they choose. The others are 1, with which nothing but the dtype can be wrong. */
static void compare(sample_call *c, fac_dtype d, fac_device device, tally *t) {
    for (int i = 0; i < c->n_tensors; i++)
        if (c->tensors[i].dtype != FAC_BOOL) set_ones(&c->tensors[i], d);
    const verdict cpu = ask(c, fac_device_make(FAC_CPU, -1)), there = ask(c, device);
    t->calls++;
    t->refused += cpu.st == FAC_ERR_DTYPE;
    if (agree(&cpu, &there, d)) return;
    t->wrong++;
    print_error("%s in %s: the CPU says %d \"%s\", the device %d \"%s\"\n", c->op, fac_dtype_name(d), (int)cpu.st,
                cpu.message, (int)there.st, there.message);
}

static bool is_pointwise(const fac_builtin_op *row) {
    for (const fac_builtin_kernel *k = row->kernels; k->key; k++)
        if (strcmp(k->key, "Pointwise") == 0) return true;
    return false;
}

static void compare_samples(char *const *texts, size_t n, fac_device device, tally *t) {
    for (size_t i = 0; i < n; i++)
        for (int d = 0; d < FAC_DTYPE_COUNT; d++) {
            sample_call c;
            assert_true(sample_parse(texts[i], &c, NULL));
            compare(&c, (fac_dtype)d, device, t);
        }
}

void pointwise_dtypes_compare(fac_device device) {
    sample_set set;
    tally t = {0};
    assert_true(samples_load(&set));
    for (size_t i = 0; i < fac__builtin_op_count(); i++) {
        const fac_builtin_op *row = fac__builtin_op_at(i);
        size_t n;
        char *const *texts = samples_of(&set, row->op->name, &n);
        if (is_pointwise(row)) compare_samples(texts, n, device, &t);
    }
    samples_free(&set);
    print_message("%d calls, %d refused\n", t.calls, t.refused);
    assert_int_equal(t.wrong, 0);
    assert_true(t.refused > 500);
}
