/* gradcheck and gradgradcheck of every operator that can be called with one, two or three f64 tensors and otherwise defaults.
   Found by the schema, so an operator that is added is checked too. */
#include "autograd_test.h"
#include "dispatch/operator.h"

/* Operators whose results are drawn anew at each call: their gradient is no derivative. */
static const char *const random_ops[] = {"aten::bernoulli", "aten::normal.Tensor_Tensor", "aten::normal.Tensor_float"};

typedef struct shape {
    int64_t sizes[3];
    int ndim;
} shape;

static const shape vectors = {{3}, 1}, matrices = {{3, 3}, 2}, batches = {{2, 3, 3}, 3};

static bool is_random(const char *name) {
    for (size_t i = 0; i < FAC_COUNT(random_ops); i++)
        if (strcmp(random_ops[i], name) == 0) return true;
    return false;
}

/* Number of tensors to call it with; 0 if it is not of that kind. */
static size_t tensors_wanted(const fac_operator *op) {
    const fac_schema *s = op->schema;
    size_t n = 0;
    if (strcmp(s->ns, "aten") != 0 || s->n_rets == 0 || is_random(op->name)) return 0;
    for (size_t i = 0; i < s->n_args; i++) {
        const fac_schema_arg *a = &s->args[i];
        bool plain = a->type.kind == FAC_TYPE_TENSOR && !a->type.list && !a->type.optional && !a->type.write;
        if (a->type.write) return 0;
        if (plain && !a->default_text && n == i)
            n++;
        else if (!a->default_text)
            return 0;
    }
    for (size_t i = 0; i < s->n_rets; i++)
        if (s->rets[i].type.kind != FAC_TYPE_TENSOR || s->rets[i].type.list) return 0;
    return n <= 3 ? n : 0;
}

static fac_status call(void *context, fac_tensors in, fac_tensor **out, size_t n_out) {
    const fac_operator *op = context;
    fac_value args[3], results[8];
    for (size_t i = 0; i < in.n; i++) args[i] = fac_value_tensor(in.v[i]);
    for (size_t i = 0; i < FAC_COUNT(results); i++) results[i] = fac_value_none();
    fac_status st = fac_call_op(op, args, in.n, results);
    for (size_t i = 0; i < in.n; i++) fac_value_release(&args[i]);
    for (size_t i = 0; i < n_out; i++) {
        fac_tensor *t = NULL;
        if (st == FAC_OK) st = fac__take_tensor(&results[i], &t);
        out[i] = fac__adopt_handle(fac__thread(), t);
        fac_value_release(&results[i]);
    }
    return st == FAC_OK ? fac_error() : st;
}

/* Distinct values in (from, from + 1), apart by more than any difference step. */
static fac_tensor *input(const shape *s, int which, double from) {
    double v[18];
    int64_t n = 1;
    for (int d = 0; d < s->ndim; d++) n *= s->sizes[d];
    for (int64_t i = 0; i < n; i++) v[i] = from + 0.05 + 0.9 * fmod(0.618034 * (double)(i + 1) + 0.271 * which, 1.0);
    return fac_set_requires_grad(fac_tensor_from(v, FAC_F64, (fac_ints){s->sizes, (size_t)s->ndim}), true);
}

/* False if the operator does not take this shape, or gives nothing to differentiate. */
static bool differentiates(const fac_operator *op, fac_tensors in) {
    FAC_SCOPE(s);
    fac_tensor *out[8] = {NULL};
    bool any = false;
    if (call((void *)(uintptr_t)op, in, out, op->n_rets) == FAC_OK)
        for (size_t i = 0; i < op->n_rets; i++) any = any || (out[i] && fac_requires_grad(out[i]));
    fac_error_clear();
    return any;
}

static int checked, failed;

static void report(const fac_operator *op, const char *what) {
    print_error("%s of %s: %s\n", what, op->name, fac_error_message());
    fac_error_clear();
    failed++;
}

/* An operator that is recorded and says on the way back that it has no derivative, as PyTorch's do. */
static bool refuses(const fac_operator *op, fac_tensors l) {
    if (fac_gradcheck(call, (void *)(uintptr_t)op, l, op->n_rets) == FAC_OK) return false;
    bool says_so = strstr(fac_error_message(), "is not implemented") != NULL;
    fac_error_clear();
    return says_so;
}

static bool check(const fac_operator *op, size_t n, const shape *shape) {
    FAC_SCOPE(s);
    fac_tensor *in[3];
    double from = strcmp(op->name, "aten::acosh") == 0 ? 1 : 0; /* the one whose domain lies elsewhere */
    for (size_t i = 0; i < n; i++) in[i] = input(shape, (int)i, from);
    fac_tensors l = {in, n};
    if (!differentiates(op, l)) return false;
    checked++;
    if (refuses(op, l)) return true;
    if (fac_gradcheck(call, (void *)(uintptr_t)op, l, op->n_rets))
        report(op, "gradcheck");
    else if (fac_gradgradcheck(call, (void *)(uintptr_t)op, l, op->n_rets))
        report(op, "gradgradcheck");
    return true;
}

static void S125_S134_every_operator_of_tensors_only(void **state) {
    (void)state;
    checked = failed = 0;
    for (size_t i = 0; i < fac_operator_count(); i++) {
        const fac_operator *op = fac_operator_at(i);
        size_t n = tensors_wanted(op);
        if (n == 0 || check(op, n, &matrices) || check(op, n, &vectors)) continue;
        check(op, n, &batches);
    }
    print_message("%d operators checked\n", checked);
    assert_true(checked > 170);
    assert_int_equal(failed, 0);
}

FAC_TEST_MAIN(FAC_TEST(S125_S134_every_operator_of_tensors_only))
