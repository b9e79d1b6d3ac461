/* Numerical checks of gradients. The numeric Jacobian has a central difference per component of the inputs; the analytic
   one a backward pass per component of the outputs. Complex numbers count as two real ones: by the conjugate convention the
   gradient of Re f has the derivatives by real and imaginary part as its parts, and i as grad_output selects Im f. */
#include "autograd/autograd_meta.h"
#include "autograd/func.h"
#include "autograd/leaf.h"
#include "autograd/mode.h"
#include "autograd/numeric.h"
#include "keywords_gen.h"
#include "ops/call.h"
#include <math.h>

/* Tensors are headers here; the function under test gets handles, and gives them. */
typedef struct check {
    fac_func fn;
    void *context;
    fac_tensors inputs;
    fac_tensor **outputs; /* n_outputs, of one run on the inputs */
    size_t n_outputs;
    size_t n_in, n_out; /* components of all inputs that require a gradient, of all differentiable outputs */
    double *numeric;    /* [n_in][n_out] */
    double eps, atol, rtol;
    bool forward; /* forward mode is checked too */
    size_t row;   /* of `numeric`, that is compared with forward mode */
} check;

static bool checked_output(const fac_tensor *t) { return t && fac__differentiable((fac_dtype)t->dtype); }

static fac_status run(fac_func fn, void *context, fac_tensors inputs, fac_tensor **outputs, size_t n_outputs) {
    fac_handle_list given;
    memset(outputs, 0, n_outputs * sizeof *outputs);
    FAC_TRY(fac__handle_list(&given, inputs));
    fac_status st;
    FAC_CALLBACK(st = fn(context, given.l, outputs, n_outputs));
    fac__handle_list_free(&given);
    if (st != FAC_OK && fac_error() == FAC_OK) FAC_FAIL(st, "the function under test returned an error");
    FAC_TRY(fac_error());
    return fac__to_headers(outputs, n_outputs, "the function under test", "output");
}

static fac_status call(const check *c, fac_tensors inputs, fac_tensor **outputs) {
    FAC_TRY(run(c->fn, c->context, inputs, outputs, c->n_outputs));
    for (size_t i = 0; i < c->n_outputs; i++)
        FAC_CHECK(outputs[i], FAC_ERR_ARGUMENT, "the function under test left output %zu unset", i);
    return FAC_OK;
}

/* ---- numeric -------------------------------------------------------------------------------------------------------------- */

/* The outputs' components with input i replaced, one after the other. */
static fac_status outputs_with(const check *c, size_t i, const double *components, double *out) {
    FAC_SCOPE(s);
    fac_tensor **inputs = fac__alloc_array(c->inputs.n + c->n_outputs, sizeof *inputs),
               **outputs = inputs + c->inputs.n;
    if (!inputs) return FAC_ERR_MEMORY;
    memcpy(inputs, c->inputs.v, c->inputs.n * sizeof *inputs);
    inputs[i] = fac__tensor_of_components(c->inputs.v[i], components);
    fac_status st = inputs[i] ? fac__set_requires_grad(inputs[i], true) : fac_error();
    if (st == FAC_OK) st = call(c, (fac_tensors){inputs, c->inputs.n}, outputs);
    for (size_t o = 0; st == FAC_OK && o < c->n_outputs; o++) {
        if (!checked_output(outputs[o])) continue;
        FAC_ASSERT(fac__components(outputs[o]) == fac__components(c->outputs[o]));
        st = fac__read_components(outputs[o], outputs[o], out);
        out += fac__components(outputs[o]);
    }
    fac__free(inputs);
    return st;
}

/* Row of the numeric Jacobian for component k of input i. */
static fac_status difference(const check *c, size_t i, double *components, size_t k, double *minus, double *row) {
    double at = components[k];
    components[k] = at + c->eps;
    fac_status st = outputs_with(c, i, components, row);
    components[k] = at - c->eps;
    if (st == FAC_OK) st = outputs_with(c, i, components, minus);
    components[k] = at;
    for (size_t o = 0; o < c->n_out; o++) row[o] = (row[o] - minus[o]) / (2 * c->eps);
    return st;
}

static fac_status difference_input(const check *c, size_t i, double *rows) {
    size_t n = fac__components(c->inputs.v[i]);
    double *components = fac__alloc_array(n + c->n_out, sizeof *components);
    if (!components) return FAC_ERR_MEMORY;
    fac_status st = fac__read_components(c->inputs.v[i], c->inputs.v[i], components);
    for (size_t k = 0; st == FAC_OK && k < n; k++)
        st = difference(c, i, components, k, components + n, rows + k * c->n_out);
    fac__free(components);
    return st;
}

static fac_status differences(const check *c) {
    double *rows = c->numeric;
    for (size_t i = 0; i < c->inputs.n; i++) {
        if (!fac__requires_grad(c->inputs.v[i])) continue;
        FAC_TRY(difference_input(c, i, rows));
        rows += fac__components(c->inputs.v[i]) * c->n_out;
    }
    return FAC_OK;
}

/* ---- analytic, and the comparison ---------------------------------------------------------------------------------------------- */

static fac_status compare(const check *c, size_t o, size_t k, size_t i, const double *analytic, const double *numeric,
                          size_t n) {
    for (size_t e = 0; e < n; e++, numeric += c->n_out) {
        if (fabs(analytic[e] - *numeric) <= c->atol + c->rtol * fabs(*numeric)) continue;
        return FAC_FAIL(FAC_ERR_AUTOGRAD,
                        "Jacobian mismatch for output %zu (component %zu) with respect to input %zu (component %zu), "
                        "numerical: %.10g analytical: %.10g",
                        o, k, i, e, *numeric, analytic[e]);
    }
    return FAC_OK;
}

/* grads[j]: of the j-th input that requires one. `column` is the numeric Jacobian's column for component k of output o. */
static fac_status compare_all(const check *c, size_t o, size_t k, fac_tensor *const *grads, const double *column) {
    size_t j = 0;
    for (size_t i = 0; i < c->inputs.n; i++) {
        fac_tensor *t = c->inputs.v[i];
        if (!fac__requires_grad(t)) continue;
        size_t n = fac__components(t);
        double *analytic = fac__alloc_array(n, sizeof *analytic);
        if (!analytic) return FAC_ERR_MEMORY;
        fac_status st = fac__read_components(grads[j++], t, analytic);
        if (st == FAC_OK) st = compare(c, o, k, i, analytic, column, n);
        fac__free(analytic);
        FAC_TRY(st);
        column += n * c->n_out;
    }
    return FAC_OK;
}

static fac_status check_component(const check *c, fac_tensors wanted, fac_tensor **grads, size_t o, size_t k,
                                  const double *column) {
    FAC_SCOPE(s);
    fac_tensor *out = c->outputs[o], *unit = fac__unit_like(out, k);
    if (!unit) return fac_error();
    memset(grads, 0, wanted.n * sizeof *grads);
    fac_tensor *const outs[] = {out}, *const units[] = {unit};
    fac_grad_kw kw = {.grad_outputs = {units, 1}, .retain_graph = true, .allow_unused = true};
    if (fac__requires_grad(out)) FAC_TRY(fac__grad((fac_tensors){outs, 1}, wanted, grads, &kw));
    return compare_all(c, o, k, grads, column);
}

static fac_status check_all(const check *c, fac_tensors wanted, fac_tensor **grads) {
    const double *column = c->numeric;
    for (size_t o = 0; o < c->n_outputs; o++) {
        if (!checked_output(c->outputs[o])) continue;
        for (size_t k = 0; k < fac__components(c->outputs[o]); k++)
            FAC_TRY(check_component(c, wanted, grads, o, k, column++));
    }
    return FAC_OK;
}

/* ---- forward mode -------------------------------------------------------------------------------------------------------------------- */

static fac_status compare_row(const check *c, fac_tensor *const *tangents, size_t i, size_t k, double *analytic) {
    const double *row = c->numeric + c->row * c->n_out;
    for (size_t o = 0; o < c->n_outputs; o++) {
        if (!checked_output(c->outputs[o])) continue;
        const size_t n = fac__components(c->outputs[o]);
        FAC_TRY(fac__read_components(tangents[o], c->outputs[o], analytic));
        for (size_t e = 0; e < n; e++, row++)
            FAC_CHECK(fabs(analytic[e] - *row) <= c->atol + c->rtol * fabs(*row), FAC_ERR_AUTOGRAD,
                      "Jacobian mismatch in forward mode for output %zu (component %zu) with respect to input %zu "
                      "(component %zu), numerical: %.10g analytical: %.10g",
                      o, e, i, k, *row, analytic[e]);
    }
    return FAC_OK;
}

/* The outputs' derivatives by component k of input i. */
static fac_status check_forward_row(const check *c, size_t i, size_t k, fac_tensor **room, double *analytic) {
    FAC_SCOPE(s);
    fac_tensor **tangents = room, **outputs = tangents + c->inputs.n, **out_tangents = outputs + c->n_outputs;
    for (size_t j = 0; j < c->inputs.n; j++) tangents[j] = NULL;
    tangents[i] = fac__unit_like(c->inputs.v[i], k);
    FAC_TRY(fac_error());
    FAC_TRY(fac__jvp(c->fn, c->context, c->inputs, (fac_tensors){tangents, c->inputs.n}, outputs, out_tangents,
                     c->n_outputs));
    return compare_row(c, out_tangents, i, k, analytic);
}

static fac_status check_forward(check *c) {
    fac_tensor **room = fac__alloc_array(c->inputs.n + 2 * c->n_outputs, sizeof *room);
    double *analytic = room ? fac__alloc_array(c->n_out, sizeof *analytic) : NULL;
    fac_status st = analytic ? FAC_OK : FAC_ERR_MEMORY;
    for (size_t i = 0; i < c->inputs.n; i++) {
        const size_t n = fac__requires_grad(c->inputs.v[i]) ? fac__components(c->inputs.v[i]) : 0;
        for (size_t k = 0; k < n && st == FAC_OK; k++, c->row++) st = check_forward_row(c, i, k, room, analytic);
    }
    fac__free(analytic);
    fac__free(room);
    return st;
}

/* ---- the check ------------------------------------------------------------------------------------------------------------------- */

static size_t gather_wanted(fac_tensors inputs, fac_tensor **out) {
    size_t n = 0;
    for (size_t i = 0; i < inputs.n; i++)
        if (fac__requires_grad(inputs.v[i])) out[n++] = inputs.v[i];
    return n;
}

static fac_status check_inputs(fac_tensors inputs) {
    bool any = false;
    for (size_t i = 0; i < inputs.n; i++) {
        const fac_tensor *t = inputs.v[i];
        if (!t) continue;
        if (!fac__requires_grad(t)) continue;
        FAC_CHECK(
            t->dtype == FAC_F64 || t->dtype == FAC_C128, FAC_ERR_DTYPE,
            "gradcheck needs inputs of float64 or complex128, but input %zu, which requires a gradient, is %s: finite "
            "differences would be too coarse",
            i, fac_dtype_name((fac_dtype)t->dtype));
        any = true;
    }
    FAC_CHECK(any, FAC_ERR_ARGUMENT,
              "gradcheck expects at least one input tensor to require gradient, but none of the them have "
              "requires_grad=True.");
    return FAC_OK;
}

static fac_status run_check(check *c, fac_tensor **room) {
    FAC_SCOPE(s);
    c->outputs = room;
    fac_tensor **wanted = room + c->n_outputs, **grads = wanted + c->inputs.n;
    size_t n_wanted = gather_wanted(c->inputs, wanted);
    FAC_TRY(call(c, c->inputs, c->outputs));
    for (size_t i = 0; i < n_wanted; i++) c->n_in += fac__components(wanted[i]);
    for (size_t i = 0; i < c->n_outputs; i++)
        c->n_out += checked_output(c->outputs[i]) ? fac__components(c->outputs[i]) : 0;
    if (c->n_in == 0 || c->n_out == 0) return FAC_OK;
    FAC_CHECK(c->n_out < SIZE_MAX / c->n_in, FAC_ERR_OVERFLOW, "the Jacobian is too large");
    c->numeric = fac__alloc_array(c->n_in * c->n_out, sizeof *c->numeric);
    if (!c->numeric) return FAC_ERR_MEMORY;
    fac_status st = differences(c);
    if (st == FAC_OK) st = check_all(c, (fac_tensors){wanted, n_wanted}, grads);
    if (st == FAC_OK && c->forward) st = check_forward(c);
    fac__free(c->numeric);
    return st;
}

typedef struct tolerance {
    double eps, atol, rtol;
    bool forward;
} tolerance;

static fac_status gradcheck(fac_func fn, void *context, fac_tensors inputs, size_t n_outputs, tolerance t) {
    FAC_CHECK(fn && n_outputs > 0, FAC_ERR_ARGUMENT, "gradcheck needs a function with at least one output");
    FAC_TRY(check_inputs(inputs));
    check c = {.fn = fn,
               .context = context,
               .inputs = inputs,
               .n_outputs = n_outputs,
               .eps = t.eps,
               .atol = t.atol,
               .rtol = t.rtol,
               .forward = t.forward};
    fac_tensor **room = fac__alloc_array(n_outputs + 2 * inputs.n, sizeof *room);
    if (!room) return FAC_ERR_MEMORY;
    fac_recording was = fac__recording_begin();
    fac_status st = run_check(&c, room);
    fac__recording_end(was);
    fac__free(room);
    return st;
}

fac_status(fac_gradcheck)(fac_func fn, void *context, fac_tensors inputs, size_t n_outputs,
                          const fac_gradcheck_kw *kw) {
    fac_gradcheck_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_gradcheck_kw(&k, kw));
    fac_handle_list open;
    fac_status st = fac__open_list(&open, inputs, true, "gradcheck", "inputs");
    if (st == FAC_OK)
        st = gradcheck(fn, context, open.l, n_outputs, (tolerance){k.eps, k.atol, k.rtol, k.check_forward_ad});
    fac__handle_list_free(&open);
    return st;
}

/* ---- of the gradients themselves ----------------------------------------------------------------------------------------------------- */

typedef struct second {
    fac_func fn;
    void *context;
    size_t n_inputs, n_outputs; /* of fn; grad_outputs follow its inputs */
} second;

/* A function whose outputs are fn's gradients, one for each of its inputs that requires one. */
static fac_status gradients_of(const second *g, fac_tensors all, fac_tensor **room, fac_tensor **out, size_t n_out) {
    fac_tensor **results = room, **roots = results + g->n_outputs, **seeds = roots + g->n_outputs,
               **wanted = seeds + g->n_outputs;
    fac_tensors inputs = {all.v, g->n_inputs};
    FAC_TRY(run(g->fn, g->context, inputs, results, g->n_outputs));
    size_t n_roots = 0, n_wanted = gather_wanted(inputs, wanted);
    for (size_t i = 0; i < g->n_outputs; i++) {
        if (!checked_output(results[i]) || !fac__requires_grad(results[i])) continue;
        roots[n_roots] = results[i];
        seeds[n_roots++] = all.v[g->n_inputs + i];
    }
    FAC_CHECK(n_roots && n_wanted == n_out, FAC_ERR_ARGUMENT,
              "gradgradcheck: no output depends on an input that requires grad");
    fac_grad_kw kw = {.grad_outputs = {seeds, n_roots}, .create_graph = true, .allow_unused = true};
    FAC_TRY(fac__grad((fac_tensors){roots, n_roots}, (fac_tensors){wanted, n_wanted}, out, &kw));
    for (size_t i = 0; i < n_out; i++)
        if (!out[i]) {
            double *zeros = fac__alloc_zero(fac__components(wanted[i]) * sizeof *zeros);
            if (!zeros) return FAC_ERR_MEMORY;
            out[i] = fac__tensor_of_components(wanted[i], zeros);
            fac__free(zeros);
        }
    return fac_error();
}

static fac_status second_fn(void *context, fac_tensors all, fac_tensor **out, size_t n_out) {
    const second *g = context;
    fac_tensor **room = fac__alloc_array(3 * g->n_outputs + g->n_inputs, sizeof *room);
    if (!room) return FAC_ERR_MEMORY;
    fac_handle_list open;
    fac_status st = fac__open_list(&open, all, true, "gradgradcheck", "inputs");
    if (st == FAC_OK) st = gradients_of(g, open.l, room, out, n_out);
    if (st == FAC_OK) fac__to_handles(out, n_out);
    fac__handle_list_free(&open);
    fac__free(room);
    return st;
}

/* Numbers in [-1, 1) that look random and are the same each time. */
static fac_tensor *random_like(const fac_tensor *t, uint64_t *state) {
    size_t n = fac__components(t);
    double *components = fac__alloc_array(n, sizeof *components);
    if (!components) return NULL;
    for (size_t i = 0; i < n; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        components[i] = (double)(*state >> 11) / 4503599627370496.0 - 1;
    }
    fac_tensor *r = fac__tensor_of_components(t, components);
    fac__free(components);
    return r && fac__set_requires_grad(r, true) == FAC_OK ? r : NULL;
}

static fac_status check_second(second *g, fac_tensors inputs, fac_tensor **all, tolerance t) {
    FAC_SCOPE(s);
    fac_tensor **results = all + inputs.n;
    uint64_t state = 42;
    memcpy(all, inputs.v, inputs.n * sizeof *all);
    FAC_TRY(run(g->fn, g->context, inputs, results, g->n_outputs));
    size_t n_wanted = 0;
    for (size_t i = 0; i < inputs.n; i++) n_wanted += fac__requires_grad(inputs.v[i]) ? 1 : 0;
    for (size_t i = 0; i < g->n_outputs; i++) {
        results[i] = checked_output(results[i]) ? random_like(results[i], &state) : NULL;
        FAC_TRY(fac_error());
    }
    return gradcheck(second_fn, g, (fac_tensors){all, inputs.n + g->n_outputs}, n_wanted, t);
}

static fac_status gradgradcheck(fac_func fn, void *context, fac_tensors inputs, size_t n_outputs, tolerance t) {
    FAC_CHECK(fn && n_outputs > 0, FAC_ERR_ARGUMENT, "gradgradcheck needs a function with at least one output");
    FAC_TRY(check_inputs(inputs));
    second g = {fn, context, inputs.n, n_outputs};
    fac_tensor **all = fac__alloc_array(inputs.n + n_outputs, sizeof *all);
    if (!all) return FAC_ERR_MEMORY;
    fac_recording was = fac__recording_begin();
    fac_status st = check_second(&g, inputs, all, t);
    fac__recording_end(was);
    fac__free(all);
    return st;
}

fac_status(fac_gradgradcheck)(fac_func fn, void *context, fac_tensors inputs, size_t n_outputs,
                              const fac_gradgradcheck_kw *kw) {
    fac_gradgradcheck_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_gradgradcheck_kw(&k, kw));
    fac_handle_list open;
    fac_status st = fac__open_list(&open, inputs, true, "gradgradcheck", "inputs");
    if (st == FAC_OK) st = gradgradcheck(fn, context, open.l, n_outputs, (tolerance){k.eps, k.atol, k.rtol, false});
    fac__handle_list_free(&open);
    return st;
}
