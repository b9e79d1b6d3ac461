/* fac_func_jacrev. */
#include "base/base.h"
#include "core/tensor_make.h"
#include "func/derive.h"
#include "keywords_gen.h"
#include "ops/batch/batch.h"
#include "ops_gen.h"

/* What a Jacobian is made of. Sizes begin with those of the levels in sight. */
typedef struct jacobian {
    derivation d;
    int levels;
    int64_t rows, chunk;
} jacobian;

/* Rows [from, from + n) of the identity, shaped like the output with n in front, the same for all samples; a
   temporary. */
static fac_tensor *cotangents(const jacobian *j, int64_t from, int64_t n) {
    const fac_tensor *value = j->d.values[0];
    int64_t narrow[FAC_MAX_DIMS + 1], wide[FAC_MAX_DIMS + 1];
    if (value->ndim + 1 > FAC_MAX_DIMS) {
        FAC_FAIL(FAC_ERR_SHAPE, "func_jacrev: an output of %d dimensions has no room for one more", value->ndim);
        return NULL;
    }
    narrow[0] = wide[0] = n;
    for (int d = 0; d < value->ndim; d++) {
        narrow[d + 1] = d < j->levels ? 1 : value->sizes[d];
        wide[d + 1] = value->sizes[d];
    }
    const fac_ints as = {narrow, (size_t)value->ndim + 1}, to = {wide, as.n};
    fac_tensor *eye = fac__s_eye(j->rows, (fac_dtype)value->dtype, FAC_STRIDED, value->device, (fac_opt_num){0});
    return fac__s_expand(fac__s_reshape(fac__s_narrow(eye, 0, from, n), as), to, false);
}

/* [n, levels..., in...] of the rows from `from` on, with the levels in front: [levels..., n, in...]; a temporary. */
static fac_tensor *some_rows(const jacobian *j, int64_t from, int64_t n) {
    fac_tensor *grad = NULL, *ct = cotangents(j, from, n), *leaf = j->d.leaves[0];
    if (!ct) return NULL;
    const bool last = from + n == j->rows;
    FAC_TRY_NULL(fac__grad_batched((fac_tensors){j->d.values, 1}, (fac_tensors){&leaf, 1}, (fac_tensors){&ct, 1}, n,
                                   !last || j->d.recorded, j->d.recorded, &grad));
    if (!grad) {
        int64_t sizes[FAC_MAX_DIMS + 1];
        sizes[0] = n;
        for (int d = 0; d < leaf->ndim; d++) sizes[d + 1] = leaf->sizes[d];
        FAC_TRY_NULL(fac__c_zeros((fac_ints){sizes, (size_t)leaf->ndim + 1}, (fac_dtype)leaf->dtype, FAC_STRIDED,
                                  leaf->device, (fac_opt_num){0}, &grad));
    }
    grad = fac__adopt(fac__thread(), grad);
    return j->levels ? fac__s_movedim_int(grad, 0, j->levels) : grad;
}

/* [levels..., out..., in...]; a temporary. */
static fac_tensor *shaped(const jacobian *j, fac_tensor *rows) {
    const fac_tensor *value = j->d.values[0], *leaf = j->d.leaves[0];
    int64_t sizes[2 * FAC_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < value->ndim; d++) sizes[n++] = value->sizes[d];
    for (int d = j->levels; d < leaf->ndim; d++) sizes[n++] = leaf->sizes[d];
    if (n > FAC_MAX_DIMS) {
        FAC_FAIL(FAC_ERR_SHAPE, "func_jacrev: the Jacobian has %d dimensions; at most %d are supported", n,
                 FAC_MAX_DIMS);
        return NULL;
    }
    return fac__s_reshape(rows, (fac_ints){sizes, (size_t)n});
}

static fac_tensor *join(const jacobian *j, fac_tensor **parts, size_t n) {
    return n == 1 ? parts[0] : fac__s_cat((fac_tensors){parts, n}, j->levels);
}

static fac_tensor *empty_rows(const jacobian *j) {
    const fac_tensor *leaf = j->d.leaves[0];
    int64_t sizes[FAC_MAX_DIMS + 1];
    for (int d = 0; d < leaf->ndim; d++) sizes[d < j->levels ? d : d + 1] = leaf->sizes[d];
    sizes[j->levels] = 0;
    return fac__s_zeros((fac_ints){sizes, (size_t)leaf->ndim + 1}, (fac_dtype)leaf->dtype, FAC_STRIDED, leaf->device,
                        (fac_opt_num){0});
}

static fac_tensor *all_rows(const jacobian *j) {
    if (j->rows == 0) return shaped(j, empty_rows(j));
    const size_t n = (size_t)((j->rows - 1) / j->chunk + 1);
    fac_tensor **parts = fac__alloc_array(n, sizeof *parts), *out = NULL;
    if (!parts) return NULL;
    size_t k = 0;
    for (; k < n; k++) {
        const int64_t from = (int64_t)k * j->chunk, left = j->rows - from;
        parts[k] = some_rows(j, from, left < j->chunk ? left : j->chunk);
        if (!parts[k]) break;
    }
    if (k == n) out = shaped(j, join(j, parts, n));
    fac__free(parts);
    return out;
}

/* An output that does not depend on the input has no graph. */
static fac_tensor *rows_of(jacobian *j) {
    if (fac__requires_grad(j->d.values[0])) return all_rows(j);
    const fac_tensor *leaf = j->d.leaves[0];
    int64_t sizes[FAC_MAX_DIMS + 1];
    for (int d = 0; d < leaf->ndim; d++) sizes[d < j->levels ? d : d + 1] = leaf->sizes[d];
    sizes[j->levels] = j->rows;
    return shaped(j, fac__s_zeros((fac_ints){sizes, (size_t)leaf->ndim + 1}, (fac_dtype)leaf->dtype, FAC_STRIDED,
                                  leaf->device, (fac_opt_num){0}));
}

static fac_tensor *compute(jacobian *j, int64_t chunk) {
    fac_tensor *raised = NULL;
    fac_thread *th = fac__thread();
    j->levels = fac__batch_depth();
    j->rows = j->d.outputs[0]->numel;
    j->chunk = chunk == FAC_UNSET ? j->rows : chunk;
    const bool disabled = th->grad_disabled;
    const fac_batch_sight was = fac__batch_hide(NULL);
    th->grad_disabled = !j->d.recorded;
    fac_tensor *rows = rows_of(j);
    th->grad_disabled = disabled;
    fac__batch_see(was);
    if (!rows) return NULL;
    FAC_TRY_NULL(fac__batch_raise(fac__ref(rows), &raised));
    raised = fac__adopt(th, raised);
    return raised ? fac__scope_yield(&j->d.scope, raised) : NULL;
}

static fac_tensor *jacrev(const char *who, fac_func fn, void *context, fac_tensors inputs, int64_t argnum,
                          int64_t chunk) {
    fac_handle_list open;
    jacobian j;
    int64_t which;
    fac_tensor *out = NULL;
    if (fac__open_list(&open, inputs, false, who, "inputs") == FAC_OK &&
        fac__derive_argnum(who, argnum, inputs.n, &which) == FAC_OK) {
        if (fac__derive(&j.d, fn, context, open.l, (fac_ints){&which, 1}, 1) == FAC_OK) out = compute(&j, chunk);
        fac__derive_end(&j.d);
    }
    fac__handle_list_free(&open);
    return fac_error() ? NULL : fac__handle(out);
}

static bool is_ready(const char *who) {
    if (fac_error()) return false;
    if (fac__thread()->n_scopes > 0) return true;
    FAC_FAIL(FAC_ERR_STATE, "no scope is open, so nothing could own the result of %s", who);
    return false;
}

fac_tensor *(fac_func_jacrev)(fac_func fn, void *context, fac_tensors inputs, const fac_func_jacrev_kw *kw) {
    fac_func_jacrev_kw k;
    if (!is_ready("func_jacrev") || fac__open_func_jacrev_kw(&k, kw)) return NULL;
    if (k.chunk_size != FAC_UNSET && k.chunk_size < 1) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "func_jacrev: chunk_size should be at least 1, not %lld", (long long)k.chunk_size);
        return NULL;
    }
    return jacrev("func_jacrev", fn, context, inputs, k.argnum, k.chunk_size);
}
