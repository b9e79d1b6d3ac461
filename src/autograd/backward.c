/* The doors of differentiation: fac_backward, fac_backward_all, fac_grad. Roots, their gradients and the named inputs are
   gathered and checked here; the engine does the rest. */
#include "autograd/autograd_meta.h"
#include "autograd/engine.h"
#include "autograd/engine_ops.h"
#include "autograd/func.h"
#include "autograd/leaf.h"
#include "autograd/nested.h"
#include "core/tensor_make.h"
#include "core/vendor.h"
#include "keywords_gen.h"
#include "ops/call.h"

#define FEW 8 /* roots or inputs for which no memory is asked */

/* Counted edges and gradients of a list of tensors. */
typedef struct gathered {
    fac_edge *edges, few_edges[FEW];
    fac_tensor **grads, *few_grads[FEW]; /* owned */
    size_t n;
} gathered;

static void gathered_free(gathered *g) {
    for (size_t i = 0; i < g->n; i++) {
        if (g->edges) fac__node_unref(g->edges[i].node);
        if (g->grads) fac__unref(g->grads[i]);
    }
    if (g->edges != g->few_edges) fac__free(g->edges);
    if (g->grads != g->few_grads) fac__free(g->grads);
}

/* n slots, all empty; to be freed also after a failure. */
static fac_status gathered_init(gathered *g, size_t n) {
    g->n = n;
    g->edges = g->few_edges;
    g->grads = g->few_grads;
    if (FAC_UNLIKELY(n > FEW)) {
        FAC_CHECK(n < SIZE_MAX / sizeof(fac_edge), FAC_ERR_OVERFLOW, "a list of %zu tensors is too long", n);
        g->edges = fac__alloc_zero(n * sizeof *g->edges);
        g->grads = fac__alloc_zero(n * sizeof *g->grads);
        return g->edges && g->grads ? FAC_OK : FAC_ERR_MEMORY;
    }
    memset(g->few_edges, 0, n * sizeof *g->edges);
    memset(g->few_grads, 0, n * sizeof *g->grads);
    return FAC_OK;
}

/* ---- roots ------------------------------------------------------------------------------------------------------------ */

static fac_status check_grad(const fac_tensor *root, const fac_tensor *grad, size_t i) {
    FAC_CHECK(fac__same_sizes(root, grad), FAC_ERR_SHAPE,
              "Mismatch in shape: grad_output[%zu] has a shape of %s and output[%zu] has a shape of %s.", i,
              FAC_SHAPE_TEXT(grad), i, FAC_SHAPE_TEXT(root));
    FAC_CHECK(
        fac_dtype_is_complex((fac_dtype)root->dtype) == fac_dtype_is_complex((fac_dtype)grad->dtype), FAC_ERR_DTYPE,
        "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
        "grad_output[%zu] has a dtype of %s and output[%zu] has a dtype of %s.",
        i, fac_dtype_name((fac_dtype)grad->dtype), i, fac_dtype_name((fac_dtype)root->dtype));
    FAC_CHECK(fac__differentiable((fac_dtype)grad->dtype), FAC_ERR_DTYPE,
              "grad_output[%zu] has a dtype of %s; a gradient must be floating or complex", i,
              fac_dtype_name((fac_dtype)grad->dtype));
    char want[24], got[24];
    FAC_CHECK(fac_device_equal(root->device, grad->device), FAC_ERR_DEVICE,
              "Mismatch in device: grad_output[%zu] is on %s and output[%zu] is on %s.", i,
              fac_device_format(grad->device, got, sizeof got), i, fac_device_format(root->device, want, sizeof want));
    return FAC_OK;
}

static fac_status gather_plain_root(gathered *g, size_t i, fac_tensor *root, fac_tensor *grad) {
    FAC_TRY(fac__check_own(root, "a backward pass"));
    FAC_TRY(fac__gradient_edge(root, &g->edges[i]));
    FAC_CHECK(g->edges[i].node, FAC_ERR_AUTOGRAD,
              "element %zu of tensors does not require grad and does not have a grad_fn", i);
    if (!grad) {
        FAC_CHECK(root->numel == 1, FAC_ERR_SHAPE,
                  "grad can be implicitly created only for scalar outputs, but output[%zu] has a shape of %s", i,
                  FAC_SHAPE_TEXT(root));
        if (root->ndim == 0 && fac__is_cpu(root) && !fac__vendor_of(root))
            return fac__scalar_tensor(fac_scalar_f_(1), (fac_dtype)root->dtype, &g->grads[i]);
        return fac__ag_ones_like(root, &g->grads[i]);
    }
    FAC_TRY(check_grad(root, grad, i));
    g->grads[i] = fac__ref(grad);
    return fac__fit_gradient("backward", (uint32_t)i, &g->edges[i], &g->grads[i]);
}

static fac_status gather_root(gathered *g, size_t i, fac_tensor *root, fac_tensor *grad) {
    FAC_TRY(fac__check_header(root, "backward", "tensors"));
    if (FAC_LIKELY(!fac__nested_of(root) && !fac__nested_of(grad))) return gather_plain_root(g, i, root, grad);
    fac_tensor *elements = NULL;
    if (grad) FAC_TRY(fac__nested_grad_elements(root, grad, &elements));
    const fac_status st = gather_plain_root(g, i, fac__history_of(root), elements);
    fac__unref(elements);
    return st;
}

static fac_status gather_roots(gathered *g, fac_tensors roots, fac_tensors grads) {
    FAC_TRY(gathered_init(g, roots.n));
    FAC_CHECK(grads.n == 0 || grads.n == roots.n, FAC_ERR_ARGUMENT, "got %zu tensors and %zu gradients", roots.n,
              grads.n);
    FAC_CHECK(roots.n > 0, FAC_ERR_ARGUMENT, "backward needs at least one tensor to start from");
    for (size_t i = 0; i < roots.n; i++) FAC_TRY(gather_root(g, i, roots.v[i], grads.n ? grads.v[i] : NULL));
    return FAC_OK;
}

/* ---- inputs ----------------------------------------------------------------------------------------------------------- */

/* Edges at which the inputs' gradients arrive. For accumulation a non-leaf is made to retain its gradient. */
static fac_status gather_inputs(gathered *g, fac_tensors inputs, bool accumulate) {
    FAC_TRY(gathered_init(g, inputs.n));
    for (size_t i = 0; i < inputs.n; i++) {
        FAC_TRY(fac__check_header(inputs.v[i], "grad", "inputs"));
        fac_tensor *t = fac__history_of(inputs.v[i]);
        FAC_TRY(fac__check_own(t, "grad"));
        FAC_CHECK(fac__requires_grad(t), FAC_ERR_AUTOGRAD, "One of the differentiated Tensors does not require grad");
        FAC_TRY(fac__gradient_edge(t, &g->edges[i]));
        if (accumulate && fac__history(t->ag)) FAC_TRY(fac__retain_grad(t));
    }
    return FAC_OK;
}

/* ---- backward ------------------------------------------------------------------------------------------------------------ */

static fac_status run_backward(fac_tensors roots, fac_tensors grads, fac_tensors inputs, bool keep, bool create) {
    gathered from = {.n = 0}, to = {.n = 0};
    fac_status st = gather_roots(&from, roots, grads);
    if (st == FAC_OK) st = gather_inputs(&to, inputs, true);
    if (st == FAC_OK)
        st = fac__pass_run(&(fac_pass_request){.roots = from.edges,
                                               .grads = from.grads,
                                               .n_roots = from.n,
                                               .targets = to.edges,
                                               .n_targets = to.n,
                                               .keep_graph = keep || create,
                                               .create_graph = create});
    gathered_free(&to);
    gathered_free(&from);
    return st;
}

/* With the user's handles. */
static fac_status backward(fac_tensors roots, fac_tensors grads, fac_tensors inputs, bool keep, bool create) {
    fac_handle_list r, g, i;
    fac_status st = fac__open_list(&r, roots, false, "backward", "tensors");
    fac_status st_grads = fac__open_list(&g, grads, true, "backward", "gradient");
    fac_status st_inputs = fac__open_list(&i, inputs, false, "backward", "inputs");
    if (st == FAC_OK) st = st_grads != FAC_OK ? st_grads : st_inputs;
    if (st == FAC_OK) st = run_backward(r.l, g.l, i.l, keep, create);
    fac__handle_list_free(&i);
    fac__handle_list_free(&g);
    fac__handle_list_free(&r);
    return st;
}

/* Parenthesised: the names are macros too. */
fac_status(fac_backward_all)(fac_tensors roots, fac_tensors grads, const fac_backward_all_kw *kw) {
    fac_backward_all_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_backward_all_kw(&k, kw));
    return backward(roots, grads, k.inputs, k.retain_graph, k.create_graph);
}

fac_status(fac_backward)(fac_tensor *root, const fac_backward_kw *kw) {
    fac_backward_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_backward_kw(&k, kw));
    fac_tensor *const roots[] = {root}, *const grads[] = {k.gradient};
    return backward((fac_tensors){roots, 1}, (fac_tensors){grads, k.gradient ? 1 : 0}, k.inputs, k.retain_graph,
                    k.create_graph);
}

/* ---- grad ------------------------------------------------------------------------------------------------------------------ */

static fac_status unused(size_t i) {
    return FAC_FAIL(FAC_ERR_AUTOGRAD,
                    "One of the differentiated Tensors (inputs[%zu]) appears to not have been used in the graph. Set "
                    "allow_unused=True if this is the desired behavior.",
                    i);
}

static fac_status check_used(const gathered *to, bool allow_unused) {
    for (size_t i = 0; i < to->n && !allow_unused; i++)
        if (!to->grads[i]) return unused(i);
    return FAC_OK;
}

/* Captured gradients become temporaries of the innermost scope. */
static fac_status give_out(gathered *to, fac_tensors inputs, fac_tensor **out_grads) {
    fac_thread *th = fac__thread();
    for (size_t i = 0; i < to->n; i++) FAC_TRY(fac__nested_show_grad(inputs.v[i], &to->grads[i]));
    for (size_t i = 0; i < to->n; i++) {
        out_grads[i] = fac__adopt(th, to->grads[i]);
        to->grads[i] = NULL;
    }
    return fac_error();
}

fac_status fac__grad(fac_tensors outputs, fac_tensors inputs, fac_tensor **out_grads, const fac_grad_kw *kw) {
    gathered from = {.n = 0}, to = {.n = 0};
    fac_status st = gather_roots(&from, outputs, kw->grad_outputs);
    if (st == FAC_OK) st = gather_inputs(&to, inputs, false);
    if (st == FAC_OK && inputs.n == 0) st = FAC_FAIL(FAC_ERR_ARGUMENT, "grad requires non-empty inputs.");
    if (st == FAC_OK)
        st = fac__pass_run(&(fac_pass_request){.roots = from.edges,
                                               .grads = from.grads,
                                               .n_roots = from.n,
                                               .targets = to.edges,
                                               .n_targets = to.n,
                                               .captured = to.grads,
                                               .keep_graph = kw->retain_graph || kw->create_graph,
                                               .create_graph = kw->create_graph});
    if (st == FAC_OK) st = check_used(&to, kw->allow_unused);
    if (st == FAC_OK) st = give_out(&to, inputs, out_grads);
    gathered_free(&to);
    gathered_free(&from);
    return st;
}

/* grad_outputs have a dimension in front, and so have the results. */
static fac_status grad_in_batch(fac_tensors outputs, fac_tensors inputs, fac_tensor **out_grads,
                                const fac_grad_kw *kw) {
    const fac_tensor *first = kw->grad_outputs.n ? kw->grad_outputs.v[0] : NULL;
    FAC_CHECK(first && kw->grad_outputs.n == outputs.n, FAC_ERR_ARGUMENT,
              "is_grads_batched needs grad_outputs, one for each output, but got %zu for %zu", kw->grad_outputs.n,
              outputs.n);
    FAC_CHECK(first->ndim > 0 && first->sizes[0] > 0, FAC_ERR_SHAPE,
              "is_grads_batched needs grad_outputs with the size of the batch in front, but got %s",
              FAC_SHAPE_TEXT(first));
    FAC_TRY(fac__grad_batched(outputs, inputs, kw->grad_outputs, first->sizes[0], kw->retain_graph, kw->create_graph,
                              out_grads));
    fac_thread *th = fac__thread();
    fac_status st = FAC_OK;
    for (size_t i = 0; i < inputs.n && !kw->allow_unused && st == FAC_OK; i++)
        if (!out_grads[i]) st = unused(i);
    for (size_t i = 0; i < inputs.n; i++) out_grads[i] = fac__adopt(th, out_grads[i]);
    return st == FAC_OK ? fac_error() : st;
}

/* With the user's handles. */
static fac_status grad(fac_tensors outputs, fac_tensors inputs, fac_tensor **out_grads, const fac_grad_kw *kw) {
    fac_handle_list o, i, g;
    fac_grad_kw headers = *kw;
    fac_status st = fac__open_list(&o, outputs, false, "grad", "outputs");
    fac_status st_inputs = fac__open_list(&i, inputs, false, "grad", "inputs");
    fac_status st_grads = fac__open_list(&g, kw->grad_outputs, true, "grad", "grad_outputs");
    if (st == FAC_OK) st = st_inputs != FAC_OK ? st_inputs : st_grads;
    if (st == FAC_OK) {
        headers.grad_outputs = g.l;
        st = (kw->is_grads_batched ? grad_in_batch : fac__grad)(o.l, i.l, out_grads, &headers);
        for (size_t k = 0; k < inputs.n && st != FAC_OK; k++) out_grads[k] = NULL;
        fac__to_handles(out_grads, inputs.n);
    }
    fac__handle_list_free(&g);
    fac__handle_list_free(&i);
    fac__handle_list_free(&o);
    return st;
}

fac_status(fac_grad)(fac_tensors outputs, fac_tensors inputs, fac_tensor **out_grads, const fac_grad_kw *kw) {
    FAC_TRY(fac_error());
    FAC_CHECK((outputs.v || !outputs.n) && ((inputs.v && out_grads) || !inputs.n), FAC_ERR_ARGUMENT,
              "grad: a list of tensors has no array");
    for (size_t i = 0; i < inputs.n; i++) out_grads[i] = NULL;
    fac_grad_kw k;
    FAC_TRY(fac__open_grad_kw(&k, kw));
    return grad(outputs, inputs, out_grads, &k);
}
