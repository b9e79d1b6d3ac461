/* Modules as functions of their parameters, and gradients of each sample. */
#include "nn/module.h"
#include "base/base.h"
#include "core/handle.h"
#include "keywords_gen.h"
#include <facula/func.h>

/* ---- other parameters ------------------------------------------------------------------------------------------- */

typedef struct swapped {
    fac_slot *slot;
    fac_tensor *own; /* the handle that goes back */
} swapped;

typedef struct swap {
    const fac_state *own; /* the module's parameters, each once */
    fac_tensors others;   /* handles */
    struct {
        swapped *v;
        size_t n, cap;
    } done;
} swap;

/* A parameter that is in several places gets the other tensor in each. */
static fac_status swap_slot(void *context, const char *path, fac_module *m, fac_slot *slot) {
    swap *s = context;
    (void)path, (void)m;
    if (slot->kind != FAC_SLOT_PARAMETER || !slot->tensor) return FAC_OK;
    for (size_t i = 0; i < s->own->n; i++) {
        if (s->own->v[i].tensor != slot->tensor) continue;
        FAC_TRY(FAC_VEC_GROW(&s->done));
        s->done.v[s->done.n++] = (swapped){slot, slot->tensor};
        slot->tensor = s->others.v[i];
        return FAC_OK;
    }
    return FAC_OK;
}

static fac_tensor *call_with(fac_module *m, swap *s, fac_tensor *input) {
    fac_tensor *y = NULL;
    if (fac__module_walk_slots(m, swap_slot, s) == FAC_OK) y = fac_forward(m, input);
    for (size_t i = s->done.n; i--;) s->done.v[i].slot->tensor = s->done.v[i].own;
    fac__free(s->done.v);
    return y;
}

fac_tensor *fac_functional_call(fac_module *m, fac_tensors parameters, fac_tensor *input) {
    fac_module_parameters_kw kw;
    FAC_TRY_NULL(fac_error());
    if (!fac__given(m, "module") || !fac__list_given(parameters.v, parameters.n, "parameters")) return NULL;
    for (size_t i = 0; i < parameters.n; i++)
        if (!fac__open(parameters.v[i], "functional_call", "parameters")) return NULL;
    fac_module_parameters_kw_init(&kw);
    fac_state *own = (fac_module_parameters)(m, &kw);
    if (!own) return NULL;
    fac_tensor *y = NULL;
    if (own->n == parameters.n)
        y = call_with(m, &(swap){.own = own, .others = parameters}, input);
    else
        FAC_FAIL(FAC_ERR_ARGUMENT, "functional_call: the module has %zu parameters, but %zu tensors were given", own->n,
                 parameters.n);
    fac_state_free(own);
    return y;
}

/* ---- gradients of each sample ----------------------------------------------------------------------------------- */

/* What the functions below are called with. Inputs of each are the parameters, then the sample, then its target if
   there is one. */
typedef struct sampling {
    fac_module *m;
    fac_sample_loss loss;
    void *context;
    size_t n;       /* parameters */
    int64_t *which; /* 0 to n - 1 */
} sampling;

static fac_status loss_of_sample(void *context, fac_tensors inputs, fac_tensor **out, size_t n_outputs) {
    const sampling *s = context;
    (void)n_outputs;
    fac_tensor *y = fac_functional_call(s->m, (fac_tensors){inputs.v, s->n}, inputs.v[s->n]);
    if (!y) return fac_error();
    FAC_CALLBACK(*out = s->loss(s->context, y, inputs.n > s->n + 1 ? inputs.v[s->n + 1] : NULL));
    return fac_error();
}

static fac_status grads_of_sample(void *context, fac_tensors inputs, fac_tensor **out, size_t n_outputs) {
    const sampling *s = context;
    fac_func_grad_kw kw;
    fac_func_grad_kw_init(&kw);
    kw.argnums = (fac_ints){s->which, n_outputs};
    return (fac_func_grad)(loss_of_sample, context, inputs, out, &kw);
}

/* The parameters are the same for all samples, what follows them is not. */
static fac_status map_samples(sampling *s, const fac_state *own, fac_tensor *input, fac_tensor *target,
                              const fac_func_per_sample_grads_kw *k, fac_tensor **room, int64_t *dims,
                              fac_tensor **out) {
    fac_vmap_kw kw;
    const size_t n = s->n + 1 + (target != NULL);
    for (size_t i = 0; i < s->n; i++) {
        room[i] = own->v[i].tensor;
        dims[i] = FAC_UNSET;
        s->which[i] = (int64_t)i;
    }
    room[s->n] = input;
    room[s->n + 1] = target;
    dims[s->n] = dims[s->n + 1] = 0;
    fac_vmap_kw_init(&kw);
    kw.in_dims = (fac_ints){dims, n};
    kw.randomness = k->randomness;
    kw.chunk_size = k->chunk_size;
    return (fac_vmap)(grads_of_sample, s, (fac_tensors){room, n}, out, s->n, &kw);
}

static fac_status sample(sampling *s, const fac_state *own, fac_tensor *input, fac_tensor *target,
                         const fac_func_per_sample_grads_kw *k, fac_tensor **out) {
    FAC_CHECK(own->n == s->n, FAC_ERR_ARGUMENT,
              "func_per_sample_grads: the module has %zu parameters, but room for %zu gradients was given", own->n,
              s->n);
    FAC_CHECK(s->n > 0, FAC_ERR_ARGUMENT, "func_per_sample_grads: the module has no parameters");
    fac_tensor **room = fac__alloc_array(s->n + 2, sizeof *room);
    int64_t *dims = fac__alloc_array(2 * s->n + 2, sizeof *dims);
    fac_status st = room && dims ? FAC_OK : fac_error();
    if (dims) s->which = dims + s->n + 2;
    if (st == FAC_OK) st = map_samples(s, own, input, target, k, room, dims, out);
    fac__free(room);
    fac__free(dims);
    return st;
}

fac_status(fac_func_per_sample_grads)(fac_module *m, fac_sample_loss loss, void *context, fac_tensor *input,
                                      fac_tensor *target, fac_tensor **out_grads, size_t n_parameters,
                                      const fac_func_per_sample_grads_kw *kw) {
    fac_func_per_sample_grads_kw k;
    fac_module_parameters_kw of;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_func_per_sample_grads_kw(&k, kw));
    FAC_CHECK(m && loss && input && (out_grads || !n_parameters), FAC_ERR_ARGUMENT,
              "func_per_sample_grads needs a module, a loss, inputs and a place for the gradients, but one is NULL");
    for (size_t i = 0; i < n_parameters; i++) out_grads[i] = NULL;
    fac_module_parameters_kw_init(&of);
    fac_state *own = (fac_module_parameters)(m, &of);
    if (!own) return fac_error();
    sampling s = {.m = m, .loss = loss, .context = context, .n = n_parameters};
    const fac_status st = sample(&s, own, input, target, &k, out_grads);
    fac_state_free(own);
    return st;
}
