/* gradcheck and gradgradcheck of every operator that can be called with one, two or three f64 tensors and otherwise defaults.
   Found by the schema, so an operator that is added is checked too. */
#include "autograd_test.h"
#include "dispatch/operator.h"

typedef struct shape {
    int64_t sizes[3];
    int ndim;
} shape;

static const shape vectors = {{3}, 1}, matrices = {{3, 3}, 2}, batches = {{2, 3, 3}, 3};

/* ---- inputs that an operator can be checked with -------------------------------------------------------------------------- */

typedef fac_tensor *(*wrapper)(fac_tensor *);

/* A Hermitian matrix: operators that read one triangle of a matrix move with the other one by this alone. */
static fac_tensor *hermitian(fac_tensor *t) { return fac_add(t, fac_adjoint(t)); }

/* The same, positive definite. */
static fac_tensor *definite(fac_tensor *t) {
    fac_tensor *eye = fac_eye(fac_tensor_sizes(t).v[fac_tensor_ndim(t) - 1], .dtype = FAC_F64);
    return fac_add(fac_matmul(t, fac_adjoint(t)), eye);
}

/* A Cholesky factor: a lower triangle, whose diagonal is well above zero. */
static fac_tensor *factor(fac_tensor *t) {
    fac_tensor *eye = fac_eye(fac_tensor_sizes(t).v[fac_tensor_ndim(t) - 1], .dtype = FAC_F64);
    return fac_add(fac_tril(t), eye);
}

/* Rows that are no multiples of each other, up to a number that is added: only those have correlations inside (-1, 1), where they
   are not cut off. */
static fac_tensor *uneven(fac_tensor *t) { return fac_sin(fac_mul(t, 9)); }

/* What does not depend on the scale, by a complex number of size 1, of an eigenvector. */
static fac_tensor *size_of(fac_tensor *t) { return fac_tensor_dtype(t) == FAC_C128 ? fac_abs(t) : t; }

/* What stands for an input, and for every result. Most operators take any numbers in (0, 1), in a square matrix. */
typedef struct condition {
    const char *op;
    double from;  /* the numbers lie in (from, from + 1) */
    size_t which; /* the input that is wrapped */
    wrapper wrap, result;
} condition;
static const condition conditions[] = {{"aten::acosh", .from = 1},
                                       {"aten::arccosh", .from = 1},
                                       {"aten::_linalg_eigh", .wrap = hermitian},
                                       {"aten::linalg_eigh", .wrap = hermitian},
                                       {"aten::linalg_eigvalsh", .wrap = hermitian},
                                       {"aten::linalg_eig", .result = size_of},
                                       {"aten::linalg_cholesky_ex", .wrap = definite},
                                       {"aten::linalg_cholesky", .wrap = definite},
                                       {"aten::cholesky", .wrap = definite},
                                       {"aten::logdet", .wrap = definite},
                                       {"aten::cholesky_inverse", .wrap = factor},
                                       {"aten::linalg_matrix_sqrth", .wrap = definite},
                                       {"aten::cholesky_solve", .which = 1, .wrap = factor},
                                       {"aten::corrcoef", .wrap = uneven}};

static const condition *condition_of(const fac_operator *op) {
    static const condition none = {0};
    for (size_t i = 0; i < FAC_COUNT(conditions); i++)
        if (strcmp(conditions[i].op, op->name) == 0) return &conditions[i];
    return &none;
}

/* Whether results are drawn anew at each call: then a gradient is no derivative. */
static bool is_random(const fac_operator *op) { return fac_operator_has_tag(op, "nondeterministic_seeded"); }

/* Number of tensors to call it with; 0 if it is not of that kind. */
static size_t tensors_wanted(const fac_operator *op) {
    const fac_schema *s = op->schema;
    size_t n = 0;
    if (strcmp(s->ns, "aten") != 0 || s->n_rets == 0 || is_random(op)) return 0;
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
    const condition *c = condition_of(op);
    fac_value args[3], results[8];
    for (size_t i = 0; i < in.n; i++) args[i] = fac_value_tensor(c->wrap && c->which == i ? c->wrap(in.v[i]) : in.v[i]);
    for (size_t i = 0; i < FAC_COUNT(results); i++) results[i] = fac_value_none();
    fac_status st = fac_call_op(op, args, in.n, results);
    for (size_t i = 0; i < in.n; i++) fac_value_release(&args[i]);
    for (size_t i = 0; i < n_out; i++) {
        fac_tensor *t = NULL;
        if (st == FAC_OK) st = fac__take_tensor(&results[i], &t);
        out[i] = fac__adopt_handle(fac__thread(), t);
        if (c->result && out[i]) out[i] = c->result(out[i]);
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
    for (size_t i = 0; i < n; i++) in[i] = input(shape, (int)i, condition_of(op)->from);
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
