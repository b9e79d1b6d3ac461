/* AccumulateGrad: where a gradient reaches a leaf.

   Graph -> accumulator -> leaf would be a cycle with leaf -> accumulator, if all were counted. So the leaf owns the
   accumulator's memory, and an accumulator holds its leaf only while a graph holds the accumulator: each step of its
   count from 0 to 1 takes a reference of the leaf, each from 1 to 0 drops one. Training allocates no accumulator after its
   first step.

   On accelerators the step from 0 to 1 is taken under the accumulator's lock, for it also notes the stream of the graph that
   begins: a count above 0 says that the stream is set. All other steps are a single atomic operation. */
#include "autograd/autograd_meta.h"
#include "autograd/engine_ops.h"
#include "autograd/hooks.h"
#include "autograd/streams.h"
#include "base/mutex.h"

struct fac_accumulator {
    fac_node node;
    fac_tensor *leaf; /* counted while node.refs > 0 */
    fac_mutex lock;   /* of the step from 0 to 1 */
};

static fac_status never_applied(fac_node *n, fac_tensor *const *grads, fac_tensor **out) {
    (void)n, (void)grads, (void)out;
    return FAC_FAIL(FAC_ERR_INTERNAL, "the engine runs accumulators by fac__accumulate");
}

const fac_node_class fac__accumulate_class = {
    .name = "AccumulateGrad", .size = sizeof(fac_accumulator), .apply = never_applied};

fac_tensor *fac__accumulator_leaf(const fac_node *n) { return ((const fac_accumulator *)n)->leaf; }

static fac_accumulator *make(fac_tensor *leaf) {
    fac_accumulator *a = fac__block_new(fac__thread(), sizeof *a);
    if (!a) return NULL;
    memset(a, 0, sizeof *a);
    a->node.cls = &fac__accumulate_class;
    a->node.n_outputs = 1;
    a->node.seq = UINT64_MAX; /* ready ones run at once, which frees their gradients' buffers early */
    a->node.bytes = sizeof *a;
    a->leaf = leaf;
    fac__mutex_init(&a->lock);
    fac__live_add(1);
    return a;
}

void fac__accumulator_free(fac_node *n) {
    if (!n) return;
    fac__mutex_destroy(&((fac_accumulator *)n)->lock);
    fac__hooks_free(n->hooks);
    fac__live_add(-1);
    fac__block_free(n, n->bytes);
}

/* Adds to a count above 0; false if no graph holds the accumulator. */
static bool join(fac_node *n) {
    int refs = atomic_load_explicit(&n->refs, memory_order_acquire);
    while (refs > 0)
        if (atomic_compare_exchange_weak_explicit(&n->refs, &refs, refs + 1, memory_order_acquire,
                                                  memory_order_acquire))
            return true;
    return false;
}

/* The first count of a new graph: it takes the stream that is current now, and holds the leaf, which the caller has in
   hand. Another thread may have done so before the lock was ours. */
static fac_status wake(fac_accumulator *a, fac_tensor *leaf) {
    fac_status st = FAC_OK;
    fac__mutex_lock(&a->lock);
    if (!join(&a->node)) {
        a->node.stream = (fac_stream){{0, 0}, 0};
        st = fac__note_stream(&a->node, leaf->device);
        if (st == FAC_OK) {
            fac__ref(leaf);
            atomic_store_explicit(&a->node.refs, 1, memory_order_release);
        }
    }
    fac__mutex_unlock(&a->lock);
    return st;
}

fac_node *fac__accumulator_of(fac_tensor *t) {
    fac_node *n = atomic_load_explicit(&t->ag->accumulator, memory_order_acquire);
    if (FAC_UNLIKELY(!n)) {
        fac_accumulator *a = make(t);
        if (!a) return NULL;
        if (atomic_compare_exchange_strong(&t->ag->accumulator, &n, &a->node))
            n = &a->node;
        else
            fac__accumulator_free(&a->node);
    }
    if (join(n)) return n;
    if (FAC_LIKELY(!fac__is_accelerator(t->device) && !n->stream.device.type)) {
        if (atomic_fetch_add_explicit(&n->refs, 1, memory_order_acq_rel) == 0) fac__ref(t);
        return n;
    }
    return wake((fac_accumulator *)n, t) == FAC_OK ? n : NULL;
}

void fac__accumulator_unref(fac_node *n) {
    fac_tensor *leaf = ((fac_accumulator *)n)->leaf; /* read while n surely lives */
    /* A count of 1 is not the caller's alone: the leaf can be asked for its accumulator at any time. */
    if (atomic_fetch_sub_explicit(&n->refs, 1, memory_order_acq_rel) == 1) fac__unref(leaf);
}

/* ---- accumulating --------------------------------------------------------------------------------------------------- */

static bool same_strides(const fac_tensor *a, const fac_tensor *b) {
    for (int i = 0; i < a->ndim; i++)
        if (a->sizes[i] != 1 && a->strides[i] != b->strides[i]) return false;
    return true;
}

/* A gradient lies in memory as its leaf does, so that optimisers run over both in one sweep, and has nothing pending. */
static bool laid_out_like(const fac_tensor *grad, const fac_tensor *leaf) {
    if (FAC_UNLIKELY(fac__pending(grad) != 0)) return false;
    if (FAC_LIKELY((grad->flags & leaf->flags & FAC_TF_CONTIGUOUS) != 0)) return true;
    return (leaf->flags & FAC_TF_DENSE) ? same_strides(grad, leaf) : fac__is_contiguous(grad);
}

/* A gradient of another layout is the leaf's if nobody else has it; its parts are never changed in place. */
static fac_status first_opaque(fac_tensor *owned, bool create_graph, fac_tensor **out) {
    if (!create_graph && atomic_load_explicit(&owned->refs, memory_order_acquire) == 1) {
        *out = owned;
        return FAC_OK;
    }
    const fac_status st = fac__ag_clone(owned, out);
    fac__unref(owned);
    return st;
}

/* The leaf's first gradient: the very tensor if nobody else has it, else a copy. */
static fac_status first_grad(fac_tensor *leaf, fac_tensor *owned, bool create_graph, fac_tensor **out) {
    if (FAC_UNLIKELY(owned->cls != NULL)) return first_opaque(owned, create_graph, out);
    if (!create_graph && fac__is_ours_alone(owned) && laid_out_like(owned, leaf)) {
        *out = owned;
        return FAC_OK;
    }
    fac_status st = create_graph ? fac__ag_clone(owned, out) : fac__ag_copy_laid_out_like(owned, leaf, out);
    fac__unref(owned);
    return st;
}

/* *grad += more. In place unless a graph is made, so that who holds the gradient sees the sum; or a strided gradient is added to a
   sparse one, which cannot hold the sum. */
static fac_status add_to(fac_tensor **grad, fac_tensor *more, bool create_graph) {
    const bool grows = FAC_UNLIKELY((*grad)->cls != NULL) && !more->cls;
    if (!create_graph && !grows) {
        FAC_TRY(fac__ag_add_in_place(*grad, more));
        return fac__bump_version(*grad);
    }
    fac_tensor *sum = NULL;
    FAC_TRY(fac__ag_add(*grad, more, &sum));
    fac__unref(*grad);
    *grad = sum;
    return FAC_OK;
}

/* Gives the leaf its gradient back. One that another pass has put there meanwhile is added to it. */
static fac_status put_back(struct fac_autograd *ag, fac_tensor *grad, bool create_graph) {
    fac_status st = FAC_OK;
    for (fac_tensor *other = NULL; !atomic_compare_exchange_strong(&ag->grad, &other, grad);) {
        other = atomic_exchange(&ag->grad, NULL);
        if (other && st == FAC_OK) st = add_to(&grad, other, create_graph);
        fac__unref(other);
        other = NULL;
    }
    return st;
}

/* The gradient is taken from the leaf while it is added to: no lock is held while operators run, and with them perhaps
   users' code, and passes on several threads may add to one leaf. */
static fac_status add_to_leaf(fac_tensor *leaf, fac_tensor *owned, bool create_graph) {
    struct fac_autograd *ag = leaf->ag;
    fac_tensor *grad = atomic_exchange(&ag->grad, NULL);
    if (!grad) {
        FAC_TRY(first_grad(leaf, owned, create_graph, &grad));
        return put_back(ag, grad, create_graph);
    }
    fac_status st = add_to(&grad, owned, create_graph), back = put_back(ag, grad, create_graph);
    fac__unref(owned);
    return st == FAC_OK ? back : st;
}

fac_status fac__accumulate(fac_node *n, fac_tensor *owned, bool create_graph) {
    fac_tensor *leaf = ((fac_accumulator *)n)->leaf;
    FAC_TRY(add_to_leaf(leaf, owned, create_graph));
    fac_hooks *hooks = leaf->ag->hooks;
    return FAC_UNLIKELY(hooks != NULL) ? fac__run_post_accumulate_hooks(hooks, leaf) : FAC_OK;
}
