/* See checked_calls.h. */
#include "checked_calls.h"
#include "dispatch/operator.h"
#include "sample_tensors.h"
#include "support.h"

#include <facula/facula.h>
#include <string.h>

enum { RESULTS = 8, MOST = CHECKED_RESULTS };

/* ---- what is not as it is elsewhere --------------------------------------------------------------------------------------- */

static const peculiarity peculiarities[] = {
    {"cholesky", SYMMETRIC, "reads one triangle"},
    {"linalg_cholesky", SYMMETRIC, "reads one triangle"},
    {"linalg_cholesky_ex", SYMMETRIC, "reads one triangle"},
    {"linalg_eigvalsh", SYMMETRIC, "reads one triangle"},
    {"cholesky_inverse", LOWER, "reads one triangle"},
    {"cholesky_solve", LOWER, "reads one triangle"},
    {"_ctc_loss", SUMS_TO_ONE, "the gradient is that of logarithms of probabilities that sum up to one"},
    {"_ctc_loss.Tensor", SUMS_TO_ONE, "as _ctc_loss"},
    {"ctc_loss.IntList", SUMS_TO_ONE, "as _ctc_loss"},
    {"ctc_loss.Tensor", SUMS_TO_ONE, "as _ctc_loss"},
    {"acosh", ABOVE_ONE, "its domain"},
    {"arccosh", ABOVE_ONE, "its domain"},
    {"special_zeta", ABOVE_ONE, "its domain"},
    {"special_zeta.other_scalar", ABOVE_ONE, "its domain"},
    {"special_zeta.self_scalar", ABOVE_ONE, "its domain"},
    {"linalg_eigh", SKIPPED, "eigenvectors are given up to a phase; test_linalg_decompositions has them"},
    {"_linalg_eigh", SKIPPED, "as linalg_eigh"},
    {"linalg_eig", SKIPPED, "as linalg_eigh"},
    {"linalg_svd", SKIPPED, "as linalg_eigh"},
    {"_linalg_svd", SKIPPED, "as linalg_eigh"},
    {"svd", SKIPPED, "as linalg_eigh"},
    {"embedding", SKIPPED, "scale_grad_by_freq changes the gradient alone; test_embedding_bag has it"},
    {"_embedding_bag", SKIPPED, "as embedding"},
    {"fake_quantize_per_tensor_affine", SKIPPED, "the gradient is that of the identity, as far as values are in range"},
    {"fake_quantize_per_tensor_affine.tensor_qparams", SKIPPED, "as fake_quantize_per_tensor_affine"},
    {"fake_quantize_per_tensor_affine_cachemask", SKIPPED, "as fake_quantize_per_tensor_affine"},
    {"_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", SKIPPED, "as fake_quantize_per_tensor_affine"},
    {"fake_quantize_per_channel_affine", SKIPPED, "as fake_quantize_per_tensor_affine"},
    {"fake_quantize_per_channel_affine_cachemask", SKIPPED, "as fake_quantize_per_tensor_affine"},
    {"_standard_gamma", SKIPPED, "the gradient is that of the inverse distribution function"},
    {"_sample_dirichlet", SKIPPED, "as _standard_gamma"},
    {"binomial", SKIPPED, "draws whole numbers"},
    {"normal.Tensor_float", SKIPPED, "what is drawn has the gradient 0, as in PyTorch"},
    {"normal.float_Tensor", SKIPPED, "as normal.Tensor_float"},
    {"normal.Tensor_Tensor", SKIPPED, "as normal.Tensor_float"},
    {"nll_loss_backward", SKIPPED, "total_weight has to be that of the forward call"},
    {"nll_loss2d_backward", SKIPPED, "as nll_loss_backward"},
    {"_cross_entropy_backward", SKIPPED, "row_sums have to be those of the forward call"},
    {"to_mkldnn", SKIPPED, "the vendor layout is for float32 at most; test_vendor has it"},
    {"to_mkldnn_backward", SKIPPED, "as to_mkldnn"},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", SKIPPED, "logsumexp has to be that of the forward call"},
};

const peculiarity *peculiarity_of(const char *op) {
    for (size_t i = 0; i < FAC_COUNT(peculiarities); i++)
        if (strcmp(op + strlen("aten::"), peculiarities[i].op) == 0) return &peculiarities[i];
    return NULL;
}

/* The argument as the operator is a function of it: the operators above take theirs first. */
static fac_tensor *composed(const peculiarity *p, fac_tensor *x, bool is_first) {
    if (!p || (!is_first && p->how != ABOVE_ONE)) return x;
    switch (p->how) {
    case SYMMETRIC: return fac_mul(fac_add(x, fac_adjoint(x)), 0.5);
    case LOWER: return fac_add(fac_tril(x, -1), fac_diag_embed(fac_real(fac_diagonal(x)))); /* its diagonal is real */
    case SUMS_TO_ONE: return fac_log_softmax(x, -1);
    case ABOVE_ONE: return fac_add(x, 1.25);
    default: return x;
    }
}

/* ---- a call as a function of its leaves ----------------------------------------------------------------------------------- */

/* Which leaf a peculiar operator reads peculiarly: cholesky_solve's is the second. */
static size_t matrix_of(const checked *k) { return strcmp(k->call.op, "aten::cholesky_solve") == 0; }

/* The argument's value with the leaves replaced by others, owned; what the operator writes is a copy. */
static fac_value with_inputs(const checked *k, fac_value v, fac_tensors in) {
    fac_tensor *list[SAMPLE_ITEMS];
    const size_t n = sample_tensors_of(v, list, SAMPLE_ITEMS);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < k->n_leaves; j++)
            if (list[i] == k->leaves[j]) list[i] = composed(k->peculiar, in.v[j], j == matrix_of(k));
    if (v.tag == FAC_TAG_TENSORS) return fac_value_tensors(list, n);
    return v.tag == FAC_TAG_TENSOR && n ? fac_value_tensor(list[0]) : fac_value_copy(v);
}

/* All tensors of the results, which the innermost scope takes. */
static size_t results_of(const checked *k, fac_tensors in, fac_tensor **out) {
    fac_value args[SAMPLE_ARGS], results[RESULTS];
    size_t n = 0;
    for (size_t i = 0; i < RESULTS; i++) results[i] = fac_value_none();
    for (size_t i = 0; i < k->made.n_args; i++) {
        args[i] = with_inputs(k, k->made.args[i], in);
        if (args[i].tag != FAC_TAG_TENSOR || !atomic_load(&k->op->schema)->args[i].type.write) continue;
        const fac_value copy = fac_value_tensor(fac_clone(fac_value_as_tensor(args[i])));
        fac_value_release(&args[i]);
        args[i] = copy;
    }
    fac_generator_set_state(NULL, 11, 0);
    fac_status st = fac_call(k->call.op, args, k->made.n_args, results);
    for (size_t i = 0; i < k->made.n_args; i++) fac_value_release(&args[i]);
    for (size_t i = 0; i < RESULTS && st == FAC_OK; i++) {
        if (results[i].tag != FAC_TAG_TENSOR && results[i].tag != FAC_TAG_TENSORS) {
            fac_value_release(&results[i]); /* a complex number is an object */
            continue;
        }
        st = fac_scope_take(&results[i], 1);
        if (st == FAC_OK)
            n += sample_tensors_of(results[i], out + n, MOST - n);
        else
            while (++i < RESULTS) fac_value_release(&results[i]);
    }
    return st == FAC_OK ? n : 0;
}

fac_status checked_run(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    const checked *k = context;
    fac_tensor *all[MOST];
    if (!results_of(k, in, all)) return fac_error();
    for (size_t i = 0; i < n; i++) out[i] = all[k->outs[i]];
    return fac_error();
}

/* ---- what is checked ------------------------------------------------------------------------------------------------------ */

/* Whether a list of names, "self, mat2", has one. */
static bool names(const char *list, const char *name) {
    const size_t n = strlen(name);
    for (const char *p = list; (p = strstr(p, name)) != NULL; p += n) {
        const bool begins = p == list || p[-1] == ' ', ends = p[n] == 0 || p[n] == ',';
        if (begins && ends) return true;
    }
    return false;
}

/* Makes numbers that a sample leaves open differ in every element, so that no two of a window are equal. */
static void make_differ(const checked *k, fac_tensor *t) {
    for (size_t i = 0; i < k->made.n_tensors; i++) {
        const sample_tensor *given = &k->call.tensors[i];
        if (fac_value_as_tensor(k->made.tensors[i]) != t || given->n_elements != SAMPLE_ELEMENTS || given->strided)
            continue;
        fac_tensor *ramp = fac_add(fac_arange(fac_tensor_numel(t), .dtype = FAC_F64), 1);
        (void)fac_add_(t, fac_view(fac_mul(ramp, 1.7e-4), fac_tensor_sizes(t)));
    }
}

static bool is_differentiable(fac_dtype d) { return fac_dtype_is_floating(d) || fac_dtype_is_complex(d); }

/* Makes the tensors of arguments that have a gradient leaves that require one. */
static void make_leaves(checked *k, const fac_operator *op, const char *gradient) {
    const bool all = strstr(gradient, "through") != NULL;
    for (size_t i = 0; i < k->made.n_args; i++) {
        fac_tensor *list[SAMPLE_ITEMS];
        const size_t n = sample_tensors_of(k->made.args[i], list, SAMPLE_ITEMS);
        const char *name = atomic_load(&op->schema)->args[i].name;
        if (all ? strcmp(name, "scalars") == 0 : !names(gradient, name)) continue; /* scalars are read as numbers */
        for (size_t j = 0; j < n; j++) {
            bool known = fac_is_inference(list[j]) || !is_differentiable(fac_tensor_dtype(list[j]));
            for (size_t l = 0; l < k->n_leaves; l++) known |= k->leaves[l] == list[j];
            if (known || k->n_leaves == SAMPLE_TENSORS || !fac_is_leaf(list[j])) continue;
            make_differ(k, list[j]);
            (void)fac_set_requires_grad(list[j], true);
            k->leaves[k->n_leaves++] = list[j];
        }
    }
}

/* Every floating and complex number of the call in double precision; numbers that the sample leaves open all differ, since a
   maximum of equal ones has no gradient, and lie between 0.1 and 1. */
static void widen(sample_call *c, fac_dtype dtype) {
    sample_set_dtype(c, dtype);
    for (int i = 0; i < c->n_tensors; i++) {
        sample_tensor *t = &c->tensors[i];
        if (fac_dtype_is_complex(t->dtype)) t->dtype = FAC_C128;
        if (t->n_elements || !is_differentiable(t->dtype)) continue;
        for (int j = 0; j < SAMPLE_ELEMENTS; j++)
            t->elements[j] = 0.1 + 0.035 * ((7 * j + 5 * i) % SAMPLE_ELEMENTS) + 0.003 * i;
        t->n_elements = SAMPLE_ELEMENTS;
    }
    for (int i = 0; i < c->n_args; i++) {
        sample_value *v = &c->args[i];
        if (v->kind != SAMPLE_DTYPE || !is_differentiable((fac_dtype)v->i)) continue;
        v->i = fac_dtype_is_complex((fac_dtype)v->i) ? FAC_C128 : dtype;
    }
}

/* False if the call does not work in this dtype, or gives nothing that has a gradient, or no numbers. */
/* Whether a tensor is in the vendor layout, which is for float32 at most; test_vendor has such gradients. */
static bool has_vendor(const sample_call *c) {
    bool has = false;
    for (int i = 0; i < c->n_tensors; i++) has |= c->tensors[i].layout == FAC_VENDOR_LAYOUT;
    return has;
}

bool checked_make(checked *k, const fac_operator *op, const char *gradient, const char *text, fac_dtype dtype) {
    fac_tensor *all[MOST];
    assert_true(sample_parse(text, &k->call, NULL));
    if (has_vendor(&k->call)) return false;
    widen(&k->call, dtype);
    k->op = op;
    k->n_leaves = k->n_outs = 0;
    if (sample_make(&k->call, fac_device_make(FAC_CPU, -1), &k->made) != FAC_OK) return false;
    make_leaves(k, op, gradient);
    const size_t n = results_of(k, (fac_tensors){k->leaves, k->n_leaves}, all);
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        if (!all[i] || !fac_requires_grad(all[i])) continue;
        k->outs[k->n_outs++] = i;
        finite &= fac_item(fac_all(fac_isfinite(all[i]))) != 0;
    }
    const bool works = fac_error() == FAC_OK && k->n_leaves && k->n_outs && finite;
    fac_error_clear();
    if (!works) sample_unmake(&k->made);
    return works;
}
