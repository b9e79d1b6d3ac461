/* The tangent of an operator's results. Three rules, by what the operator's entry says (`forward`; opgen passes it on in the facts):

   "0+1*2"  The results are a sum of products, each linear in every one of its factors: arguments by their numbers. The operator is
            called again with tangents in the place of primals: once for each place in a product, with zeros for the sums' other
            terms.
   "."      A pointwise operator. Where all has one size and is real, its Jacobian is diagonal, so what it makes of a gradient it
            makes of a tangent.
   else     The gradient J^H u is linear in u. Going backward through it, from v, gives J v. This is right for whatever has a
            gradient that can be differentiated, of complex numbers too. u is zero, or, where the formula is made of what is not linear
            itself, logarithms, it is ones ("^").

   For the latter two the operator is recorded on its own: the tensors that it gets have a node of ours as their history, which passes
   gradients on to the primals' own history, if that is wanted, and ends the way otherwise. */
#include "autograd/autograd_meta.h"
#include "autograd/engine_ops.h"
#include "autograd/forward_call.h"
#include "autograd/leaf.h"
#include "autograd/saved.h"
#include "core/tensor_make.h"
#include <ctype.h>
#include <stdlib.h>

static const char *rule_of(const dual_call *k) {
    return k->op->facts && k->op->facts->forward ? k->op->facts->forward : "";
}

/* ---- where a recording begins ----------------------------------------------------------------------------------------- */

static fac_status pass_on(fac_node *n, fac_tensor *const *grads, fac_tensor **out) {
    if (n->n_edges) out[0] = fac__ref(grads[0]);
    return FAC_OK;
}

static const fac_node_class beginning = {.name = "TangentBackward", .size = sizeof(fac_node), .apply = pass_on};

fac_status fac__dual_begin(fac_tensor *made, fac_tensor *of) {
    fac_node *n = fac__node_new(fac__thread(), &beginning, of ? 1 : 0, 1);
    if (!n) return fac_error();
    fac_status st = of ? fac__node_connect(n, 0, of) : FAC_OK;
    if (st == FAC_OK) st = fac__set_history(made, n, 0);
    fac__node_unref(n);
    return st;
}

/* An alias of t, which the innermost scope owns, whose history begins here. */
static fac_status begin_at(fac_tensor *t, bool connected, fac_tensor **out) {
    fac_thread *th = fac__thread();
    fac_tensor *alias = NULL;
    FAC_TRY(fac__alias(t, true, &alias));
    alias->flags |= t->flags & FAC_TF_WRAPPED;
    *out = fac__adopt(th, alias);
    return *out ? fac__dual_begin(*out, connected && fac__requires_grad(t) ? t : NULL) : fac_error();
}

/* *out = what a call left in *owned, as a temporary of the innermost scope. */
static fac_status adopt(fac_status st, fac_tensor *const *owned, fac_tensor **out) {
    FAC_TRY(st);
    *out = fac__adopt(fac__thread(), *owned);
    return *out ? FAC_OK : fac_error();
}

static fac_status zeros_like(const fac_tensor *t, fac_tensor **out) {
    fac_tensor *z = NULL;
    const fac_status st = fac__ag_zeros(t->sizes, t->ndim, (fac_dtype)t->dtype, t->device, &z);
    return adopt(st, &z, out);
}

/* ---- linear ------------------------------------------------------------------------------------------------------------ */

/* For argument `arg`: its place in its product, and how many factors that has; false if it is in none. */
static bool find_factor(const char *rule, size_t arg, size_t *place, size_t *factors) {
    bool found = false;
    *place = *factors = 0;
    for (const char *p = rule; *p;) {
        char *end;
        const bool is_it = strtoul(p, &end, 10) == arg;
        if (is_it) *place = *factors, found = true;
        ++*factors;
        if (*end == '+' || !*end) {
            if (found) return true;
            *factors = 0;
        }
        p = *end ? end + 1 : end;
    }
    return false;
}

/* The tensors of one round: in each product the factor at `round` is its tangent. False if all of these are zero. */
static fac_status set_round(const dual_call *k, size_t round, fac_tensor **v, bool *out_any) {
    const char *rule = k->op->facts->forward;
    *out_any = false;
    for (size_t i = 0; i < k->n; i++) {
        const dual_slot *s = &k->slots[i];
        size_t place, factors;
        v[i] = s->primal;
        if (!s->primal || !find_factor(rule, s->arg, &place, &factors)) continue;
        const bool is_tangent = place == (round < factors ? round : 0);
        if (!is_tangent) continue;
        const bool is_zero = round >= factors || !s->tangent;
        if (is_zero)
            FAC_TRY(zeros_like(s->primal, &v[i]));
        else
            v[i] = s->tangent;
        *out_any |= !is_zero;
    }
    return FAC_OK;
}

static fac_status copy_written(const dual_call *k, fac_tensor **v) {
    for (size_t i = 0; i < k->n; i++) {
        fac_tensor *copy = NULL;
        if (k->slots[i].written && v[i]) FAC_TRY(adopt(fac__ag_clone(v[i], &copy), &copy, &v[i]));
    }
    return FAC_OK;
}

static fac_status add_all(dual_list *sum, const dual_list *more) {
    for (size_t i = 0; i < more->n; i++) {
        fac_tensor *r = NULL;
        if (!more->v[i]) continue;
        if (!sum->v[i])
            sum->v[i] = more->v[i];
        else
            FAC_TRY(adopt(fac__ag_add(sum->v[i], more->v[i], &r), &r, &sum->v[i]));
    }
    return FAC_OK;
}

/* Integers and the like among the outputs have no tangent. */
static void keep_differentiable(dual_list *l) {
    for (size_t i = 0; i < l->n; i++)
        if (l->v[i] && !fac__differentiable((fac_dtype)l->v[i]->dtype)) l->v[i] = NULL;
}

static fac_status linear(const dual_call *k, fac_tensor **v, dual_list *out) {
    size_t rounds = 1, in_a_row = 0;
    for (const char *p = k->op->facts->forward; *p; p++) {
        if (!isdigit((unsigned char)*p)) in_a_row = *p == '*' ? in_a_row + 1 : 0;
        if (in_a_row + 1 > rounds) rounds = in_a_row + 1;
    }
    for (size_t r = 0; r < rounds; r++) {
        dual_list more = {NULL, 0};
        bool any;
        FAC_TRY(set_round(k, r, v, &any));
        if (!any) continue;
        FAC_TRY(copy_written(k, v));
        fac_status st = fac__dual_evaluate(k, v, NULL, &more);
        if (st == FAC_OK) keep_differentiable(&more);
        if (st == FAC_OK && out->v) st = add_all(out, &more);
        if (st == FAC_OK && !out->v)
            *out = more;
        else
            fac__free(more.v);
        FAC_TRY(st);
    }
    return FAC_OK;
}

/* ---- by gradients -------------------------------------------------------------------------------------------------------- */

static fac_status gradients(fac_tensors of, fac_tensors by, fac_tensors weights, bool create_graph, fac_tensor **out) {
    const fac_grad_kw kw = {
        .grad_outputs = weights, .retain_graph = true, .create_graph = create_graph, .allow_unused = true};
    for (size_t i = 0; i < by.n; i++) out[i] = NULL;
    return fac__grad(of, by, out, &kw);
}

/* A recorded call: its differentiable inputs, with their tangents, and outputs. */
typedef struct recorded {
    fac_tensor **in, **tangents, **out, **u, **g;
    size_t n_in, n_out;
    size_t *place; /* of each of out among the outputs */
} recorded;

static bool is_diagonal(const dual_call *k, const dual_list *outputs, const recorded *r) {
    if (rule_of(k)[0] != '.' || r->n_out != 1 || outputs->n != 1) return false;
    const fac_tensor *y = r->out[0];
    bool same = !fac_dtype_is_complex((fac_dtype)y->dtype);
    for (size_t i = 0; i < r->n_in; i++)
        same &= fac__same_sizes(r->in[i], y) && !fac_dtype_is_complex((fac_dtype)r->in[i]->dtype);
    return same;
}

static fac_status diagonal(const dual_call *k, const recorded *r, dual_list *out) {
    fac_tensor *y = r->out[0], *sum = NULL;
    for (size_t i = 0; i < r->n_in; i++) {
        fac_tensor *v = r->tangents[i], *g = NULL, *t = NULL;
        if (v->dtype != y->dtype) FAC_TRY(adopt(fac__ag_cast(v, (fac_dtype)y->dtype, y->device, &t), &t, &v));
        FAC_TRY(gradients((fac_tensors){&y, 1}, (fac_tensors){&r->in[i], 1}, (fac_tensors){&v, 1}, k->records, &g));
        if (g && g->dtype != y->dtype) FAC_TRY(adopt(fac__ag_cast(g, (fac_dtype)y->dtype, y->device, &t), &t, &g));
        if (g && sum)
            FAC_TRY(adopt(fac__ag_add(sum, g, &t), &t, &sum));
        else if (g)
            sum = g;
    }
    out->v[r->place[0]] = sum;
    return FAC_OK;
}

static fac_status twice(const dual_call *k, recorded *r, dual_list *out) {
    const bool at_ones = rule_of(k)[0] == '^';
    size_t n = 0;
    for (size_t i = 0; i < r->n_out; i++) {
        fac_tensor *u = NULL;
        if (at_ones)
            FAC_TRY(adopt(fac__ag_ones_like(r->out[i], &u), &u, &u));
        else
            FAC_TRY(zeros_like(r->out[i], &u));
        FAC_TRY(begin_at(u, false, &r->u[i]));
    }
    FAC_TRY(gradients((fac_tensors){r->out, r->n_out}, (fac_tensors){r->in, r->n_in}, (fac_tensors){r->u, r->n_out},
                      true, r->g));
    for (size_t i = 0; i < r->n_in; i++) {
        if (!r->g[i] || !fac__requires_grad(r->g[i])) continue;
        r->g[n] = r->g[i];
        r->tangents[n++] = r->tangents[i];
    }
    if (!n) return FAC_OK;
    fac_tensor **by_output = fac__alloc_zero(r->n_out * sizeof *by_output);
    if (!by_output) return FAC_ERR_MEMORY;
    const fac_status st = gradients((fac_tensors){r->g, n}, (fac_tensors){r->u, r->n_out},
                                    (fac_tensors){r->tangents, n}, k->records, by_output);
    for (size_t i = 0; st == FAC_OK && i < r->n_out; i++) out->v[r->place[i]] = by_output[i];
    fac__free(by_output);
    return st;
}

/* What the slots get: those with a tangent begin a history here, and what will be written is a copy. */
static fac_status begin_all(const dual_call *k, fac_tensor **v, recorded *r) {
    for (size_t i = 0; i < k->n; i++) {
        const dual_slot *s = &k->slots[i];
        v[i] = s->primal;
        if (!s->tangent) continue;
        FAC_TRY(begin_at(s->primal, k->records, &v[i]));
        r->in[r->n_in] = v[i];
        r->tangents[r->n_in++] = s->tangent;
    }
    return copy_written(k, v);
}

static fac_status record_and_go_back(const dual_call *k, fac_tensor **v, recorded *r, dual_outcome *o) {
    fac_recording was = fac__recording_begin();
    fac_status st = begin_all(k, v, r);
    if (st == FAC_OK) st = fac__dual_evaluate(k, v, o->results, &o->outputs);
    fac__recording_end(was);
    FAC_TRY(st);
    o->is_evaluated = true;
    o->tangents.n = o->outputs.n;
    o->tangents.v = fac__alloc_zero((o->outputs.n + 1) * sizeof *o->tangents.v);
    r->out = fac__alloc_zero((o->outputs.n + 1) * (2 * sizeof *r->out + sizeof *r->place));
    if (!o->tangents.v || !r->out) return FAC_ERR_MEMORY;
    r->u = r->out + o->outputs.n;
    r->place = (size_t *)(r->u + o->outputs.n);
    for (size_t i = 0; i < o->outputs.n; i++) {
        if (!fac__requires_grad(o->outputs.v[i])) continue;
        r->place[r->n_out] = i;
        r->out[r->n_out++] = o->outputs.v[i];
    }
    if (!r->n_out) return FAC_OK;
    return is_diagonal(k, &o->outputs, r) ? diagonal(k, r, &o->tangents) : twice(k, r, &o->tangents);
}

/* Hooks of the user's around saved values are not for what is recorded here. */
static fac_status by_gradients(const dual_call *k, fac_tensor **v, dual_outcome *o) {
    const fac_saved_tensor_hooks hooks = fac__saved_tensor_hooks;
    recorded r = {.in = fac__alloc_zero(3 * (k->n + 1) * sizeof *r.in)};
    if (!r.in) return FAC_ERR_MEMORY;
    r.tangents = r.in + k->n;
    r.g = r.tangents + k->n;
    fac__saved_tensor_hooks = (fac_saved_tensor_hooks){NULL, NULL, NULL, NULL};
    const fac_status st = record_and_go_back(k, v, &r, o);
    fac__saved_tensor_hooks = hooks;
    fac__free(r.out);
    fac__free(r.in);
    return st;
}

/* ---- which rule ----------------------------------------------------------------------------------------------------------- */

/* An operator that says why it has no gradient, and changes nothing. */
static bool has_no_tangent(const dual_call *k) {
    const fac_builtin_facts *f = k->op->facts;
    return f && strncmp(f->gradient, "none", 4) == 0 && !k->n_written;
}

/* Whether as_strided of the first slot's tangent, shifted to where that lies, stays within its memory. */
static bool reaches_tangent(const dual_call *k) {
    const fac_tensor *t = k->slots[0].tangent, *primal = k->slots[0].primal;
    const fac_ints sizes = fac_value_as_ints(k->args[1]), strides = fac_value_as_ints(k->args[2]);
    const bool given = k->args[3].tag != FAC_TAG_NONE;
    int64_t from = given ? fac_value_as_int(k->args[3]) - primal->offset + t->offset : t->offset, last = from, step;
    for (size_t d = 0; d < sizes.n && d < strides.n; d++) {
        if (sizes.v[d] == 0) return true;
        if (!fac__mul(sizes.v[d] - 1, strides.v[d], &step) || !fac__add(last, step, &last)) return true; /* refused */
    }
    return from >= 0 && t->storage && last < t->storage->bytes / fac__item_size(t);
}

bool fac__dual_is_restrided(const dual_call *k) {
    if (k->op != fac__ag_as_strided() || !k->slots[0].tangent) return false;
    return fac__has_internal_overlap(k->slots[0].primal) || !reaches_tangent(k);
}

static bool is_linear(const dual_call *k) {
    return isdigit((unsigned char)rule_of(k)[0]) && !fac__dual_is_restrided(k);
}

fac_status fac__dual_tangents(const dual_call *k, dual_outcome *o) {
    if (has_no_tangent(k)) return FAC_OK;
    fac_tensor **v = fac__alloc_array(k->n + 1, sizeof *v);
    if (!v) return FAC_ERR_MEMORY;
    const fac_status st = is_linear(k) ? linear(k, v, &o->tangents) : by_gradients(k, v, o);
    fac__free(v);
    return st;
}
