/* The device-neutral part of every operator that has one: it allocates the outputs and says their sizes, strides and dtypes, and a
   kernel of the device fills them. So outputs are the same on the CPU, on CUDA and on meta, where no kernel follows. */
#include "support/cuda.h"
#include "support/samples.h"

#include "dispatch/operator.h"
#include <stdlib.h>

enum { RESULTS = 32 };

static sample_set set;

/* ---- how operators are bound ------------------------------------------------------------------------------------------ */

/* The built-in kernel for a key, NULL if there is none. */
static fac_fn row_of(const fac_builtin_op *op, const char *key) {
    for (const fac_builtin_kernel *k = op->kernels; k->key; k++)
        if (strcmp(k->key, key) == 0) return k->typed;
    return NULL;
}

static const fac_kernel *bound(const fac_operator *op, fac_backend b) {
    return fac__pick(op, &(fac_keyset){fac__backend_bit(b) | FAC_KS_DENSE});
}

static bool serves(const fac_kernel *k, const char *label, fac_fn typed) {
    return strcmp(k->label, label) == 0 && k->direct_typed == typed;
}

static int tell(const char *op, const char *what) {
    print_error("%s: %s\n", op, what);
    return 1;
}

/* One kernel, registered for "Pointwise" alone, serves the CPU and CUDA; the meta device has the neutral part alone. */
static int judge_pointwise(const fac_builtin_op *row, fac_tensor *here, fac_tensor *there) {
    const fac_operator *op = row->op;
    const fac_fn one = row_of(row, "Pointwise"), neutral = row_of(row, "Meta");
    fac_operator_facts facts;
    assert_ok(fac_operator_facts_of(op, &facts));
    if (row_of(row, "CPU") || row_of(row, "CUDA")) return tell(op->name, "a device has a kernel beside that of all");
    if (!serves(bound(op, FAC_BACKEND_CPU), "pointwise", one) ||
        bound(op, FAC_BACKEND_CPU) != bound(op, FAC_BACKEND_CUDA))
        return tell(op->name, "the CPU and CUDA are not served by one kernel");
    if (!fac__has_kernel(op, fac__header(here)) || !fac__has_kernel(op, fac__header(there)))
        return tell(op->name, "a device has no kernel");
    if (!neutral || neutral == one || !serves(bound(op, FAC_BACKEND_META), "kernel", neutral))
        return tell(op->name, "meta has no part of its own");
    return facts.combines == FAC_COMBINES_NOTHING ? 0 : tell(op->name, "the facts do not say that it is pointwise");
}

static void S105_every_pointwise_operator_is_bound_once_for_all_devices(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *here = fac_zeros(1), *there = fac_zeros(1, .device = cuda_device(0));
    int wrong = 0, operators = 0;
    assert_no_error();
    for (size_t i = 0; i < fac__builtin_op_count(); i++) {
        if (!row_of(fac__builtin_op_at(i), "Pointwise")) continue;
        wrong += judge_pointwise(fac__builtin_op_at(i), here, there);
        operators++;
    }
    print_message("%d pointwise operators\n", operators);
    assert_int_equal(wrong, 0);
    assert_true(operators > 300);
}

/* A kernel for each device, and the neutral part apart. */
static int judge_structured(const fac_builtin_op *row) {
    const fac_operator *op = row->op;
    const fac_fn neutral = row_of(row, "Meta"), cpu = row_of(row, "CPU"), cuda = row_of(row, "CUDA");
    if (neutral == cpu || neutral == cuda || !serves(bound(op, FAC_BACKEND_META), "kernel", neutral))
        return tell(op->name, "meta has no part of its own");
    if (!serves(bound(op, FAC_BACKEND_CPU), "kernel", cpu)) return tell(op->name, "the CPU has another kernel");
    if (fac__has_kernel(op, &(fac_tensor){.keys = fac__backend_bit(FAC_BACKEND_CUDA)}) != (cuda != NULL) ||
        (cuda && !serves(bound(op, FAC_BACKEND_CUDA), "kernel", cuda)))
        return tell(op->name, "CUDA has another kernel");
    return 0;
}

/* One kernel for the CPU and meta that tells them apart itself, as those do that read a quantizer; not structured. */
static bool is_whole(const fac_builtin_op *row) {
    const fac_fn meta = row_of(row, "Meta");
    return meta == row_of(row, "CPU") && !row_of(row, "CUDA") && bound(row->op, FAC_BACKEND_META)->direct_typed == meta;
}

static void S105_every_other_structured_operator_has_a_kernel_for_each_device(void **state) {
    (void)state;
    support_need_devices(1);
    int wrong = 0, operators = 0, on_cuda = 0, whole = 0;
    for (size_t i = 0; i < fac__builtin_op_count(); i++) {
        const fac_builtin_op *row = fac__builtin_op_at(i);
        if (!row_of(row, "Meta") || !row_of(row, "CPU")) continue;
        if (is_whole(row)) {
            whole++;
            continue;
        }
        wrong += judge_structured(row);
        operators++;
        on_cuda += row_of(row, "CUDA") != NULL;
    }
    print_message("%d operators with kernels by device, %d of them on CUDA\n", operators, on_cuda);
    assert_int_equal(wrong, 0);
    assert_true(operators > 100 && on_cuda > 50);
    assert_int_equal(whole, 7); /* what makes quantized tensors, and dequantize */
}

/* ---- outputs on three devices ------------------------------------------------------------------------------------------- */

/* What is known of a result without its elements. */
typedef struct geometry {
    fac_dtype dtype;
    int ndim;
    int64_t sizes[SAMPLE_DIMS], strides[SAMPLE_DIMS], bytes;
} geometry;

typedef struct outputs {
    fac_status st;
    size_t n;
    geometry v[RESULTS];
} outputs;

static void look(fac_tensor *handle, outputs *o) {
    const fac_tensor *t = fac__header(handle);
    if (!t || o->n == RESULTS) return;
    geometry *g = &o->v[o->n++];
    g->dtype = (fac_dtype)t->dtype;
    g->ndim = t->ndim;
    for (int d = 0; d < t->ndim; d++) g->sizes[d] = t->sizes[d], g->strides[d] = t->strides[d];
    g->bytes = t->storage ? t->storage->bytes : 0;
}

static outputs run(const fac_operator *op, const sample_call *c, fac_device device) {
    outputs o = {.st = FAC_OK};
    sample_made made;
    fac_value results[8];
    for (size_t i = 0; i < FAC_COUNT(results); i++) results[i] = fac_value_none();
    o.st = sample_make(c, device, &made);
    if (o.st == FAC_OK) {
        o.st = fac_call_op(op, made.args, made.n_args, results);
        sample_unmake(&made);
    }
    fac_error_clear();
    for (size_t i = 0; i < FAC_COUNT(results) && o.st == FAC_OK; i++) {
        fac_tensors list = results[i].tag == FAC_TAG_TENSORS ? fac_value_as_tensors(results[i]) : (fac_tensors){0};
        if (results[i].tag == FAC_TAG_TENSOR) look(fac_value_as_tensor(results[i]), &o);
        for (size_t k = 0; k < list.n; k++) look(list.v[k], &o);
    }
    for (size_t i = 0; i < FAC_COUNT(results); i++) fac_value_release(&results[i]);
    return o;
}

/* fresh: the results are new, so that their memory is what the operator asked for. */
static bool agree(const outputs *a, const outputs *b, bool fresh) {
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        const geometry *x = &a->v[i], *y = &b->v[i];
        const size_t n = (size_t)x->ndim * sizeof(int64_t);
        if (x->dtype != y->dtype || x->ndim != y->ndim || (fresh && x->bytes != y->bytes)) return false;
        if (memcmp(x->sizes, y->sizes, n) != 0 || memcmp(x->strides, y->strides, n) != 0) return false;
    }
    return true;
}

/* The call as it is, with other strides, with one input broadcast, in other dtypes. */
enum { AS_WRITTEN, COLUMNS, BROADCAST, DOUBLES, HALVES, VARIATIONS };

static void set_row_major(sample_tensor *t) {
    int64_t step = 1;
    t->strided = true;
    for (int d = t->ndim - 1; d >= 0; d--) {
        t->strides[d] = step;
        step *= t->sizes[d] ? t->sizes[d] : 1;
    }
}

static void vary_strides(sample_call *c, int how) {
    for (int i = 0; i < c->n_tensors; i++) {
        sample_tensor *t = &c->tensors[i];
        if (t->strided || t->base >= 0 || t->ndim < 2) continue;
        set_row_major(t);
        if (how == BROADCAST) {
            t->strides[0] = 0;
            return; /* one is enough: an output is not to be written like that */
        }
        t->strides[t->ndim - 2] = 1;
        t->strides[t->ndim - 1] = t->sizes[t->ndim - 2] ? t->sizes[t->ndim - 2] : 1;
    }
}

static void vary(sample_call *c, int how) {
    if (how == COLUMNS || how == BROADCAST) vary_strides(c, how);
    if (how == DOUBLES) sample_set_dtype(c, FAC_F64);
    if (how == HALVES) sample_set_dtype(c, FAC_F16);
}

typedef struct tally {
    int calls, on_cuda, without_kernel, wrong;
} tally;

static int complain(const sample_call *c, const char *what) {
    char *text = calloc(1, SAMPLE_TEXT);
    print_error("%s: %s\n", text ? sample_print(c, text, SAMPLE_TEXT) : c->op, what);
    free(text);
    return 1;
}

/* Norms of halves save their statistics in the dtype of the parameters on the CPU, and in float32 elsewhere, as in PyTorch. */
static bool differs_on_the_cpu(const char *op, int how) {
    const size_t n = strlen("aten::native_");
    return how == HALVES && strncmp(op, "aten::native_", n) == 0 && strstr(op + n, "_norm");
}

static bool lacks_kernel(fac_status st) { return st == FAC_ERR_UNSUPPORTED || st == FAC_ERR_NO_KERNEL; }

/* A kernel may lack a dtype on CUDA, and where sizes depend on values meta cannot know them. */
static void compare(const fac_operator *op, const fac_operator_facts *facts, const sample_call *c, int how, tally *t) {
    FAC_SCOPE(s);
    const outputs cpu = run(op, c, fac_device_make(FAC_CPU, -1));
    if (cpu.st != FAC_OK) return;
    const outputs meta = run(op, c, fac_device_make(FAC_META, -1)), cuda = run(op, c, cuda_device(0));
    const bool fresh = facts->aliases == 0 && facts->writes == 0, apart = differs_on_the_cpu(op->name, how);
    t->calls++;
    t->without_kernel += lacks_kernel(cuda.st);
    t->on_cuda += cuda.st == FAC_OK;
    if (!apart && (meta.st == FAC_OK ? !agree(&cpu, &meta, false) : !facts->data_dependent))
        t->wrong += complain(c, "the outputs on meta are not those on the CPU");
    if (lacks_kernel(cuda.st)) return;
    if (apart ? cuda.st != meta.st || !agree(&meta, &cuda, false) : cuda.st != FAC_OK || !agree(&cpu, &cuda, fresh))
        t->wrong += complain(c, "the outputs on CUDA are not those elsewhere");
}

static void compare_samples(const fac_operator *op, tally *t) {
    size_t n;
    fac_operator_facts facts;
    char *const *texts = samples_of(&set, op->name, &n);
    assert_ok(fac_operator_facts_of(op, &facts));
    for (size_t k = 0; k < n; k++)
        for (int how = AS_WRITTEN; how < VARIATIONS; how++) {
            sample_call c;
            assert_true(sample_parse(texts[k], &c, NULL));
            vary(&c, how);
            compare(op, &facts, &c, how, t);
        }
}

static void S105_outputs_are_the_same_on_the_cpu_on_cuda_and_on_meta(void **state) {
    (void)state;
    tally t = {0};
    int operators = 0;
    support_need_devices(1);
    assert_true(samples_load(&set));
    for (size_t i = 0; i < fac__builtin_op_count(); i++) {
        const fac_builtin_op *row = fac__builtin_op_at(i);
        const int before = t.calls;
        if (row_of(row, "Meta")) compare_samples(row->op, &t);
        operators += t.calls > before;
    }
    samples_free(&set);
    print_message("%d calls of %d operators, %d also on CUDA; %d have no kernel there\n", t.calls, operators, t.on_cuda,
                  t.without_kernel);
    assert_int_equal(t.wrong, 0);
    assert_true(operators > 550 && t.on_cuda > 5000);
}

FAC_TEST_MAIN(FAC_CUDA_TEST(S105_every_pointwise_operator_is_bound_once_for_all_devices),
              FAC_CUDA_TEST(S105_every_other_structured_operator_has_a_kernel_for_each_device),
              FAC_CUDA_TEST(S105_outputs_are_the_same_on_the_cpu_on_cuda_and_on_meta))
