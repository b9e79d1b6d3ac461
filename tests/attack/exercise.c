/* One call, the passes backward through what came of it, and what must hold after each. */
#include "attack.h"

#include "core/tensor.h"
#include <facula/facula.h>

#include <stdlib.h>
#include <unistd.h>

enum { RESULTS = 8, OUTPUTS = 24, INPUTS = SAMPLE_TENSORS, READABLE = 1 << 16, DIFFERENTIABLE = 1 << 20 };

/* ---- what must hold ---------------------------------------------------------------------------------------------- */

static void broken(const char *what, const char *more) {
    fprintf(stderr, "attack: %s: %s\n", what, more);
    fflush(stderr);
    _exit(ATTACK_BROKEN);
}

/* An error is pending if and only if the status says so, and it has a code and a message. Clears it. */
static void check_error(const char *what, fac_status st) {
    fac_error_info info = {0};
    fac_status pending = fac_error_get(&info);
    if (pending != st)
        broken(what, st == FAC_OK ? "succeeded, and an error is pending" : "failed, and another error is pending");
    if (st != FAC_OK && (!info.message || !info.message[0])) broken(what, "failed without a message");
    if (st == FAC_ERR_INTERNAL) broken(what, info.message);
    fac_error_clear();
}

/* A plain addition gives its sum, whatever was called before. */
static void check_next_call(fac_device device) {
    FAC_SCOPE(s);
    sample_call add;
    sample_made made;
    fac_value sum = fac_value_none();
    float v = 0;
    if (!sample_parse("add.Tensor(f32[1]{2}, f32[1]{3})", &add, NULL) || sample_make(&add, device, &made) != FAC_OK)
        broken("the next call", fac_error_message());
    if (fac_call(add.op, made.args, made.n_args, &sum) != FAC_OK ||
        fac_tensor_read(fac_value_as_tensor(sum), FAC_F32, &v, 1) != FAC_OK || v != 5)
        broken("the next call", fac_error() ? fac_error_message() : "2 + 3 is not 5");
    fac_value_release(&sum);
    sample_unmake(&made);
}

/* What a kernel did wrong is told when the device is waited for. Only an index out of range may be told so late: no kernel
   runs on with one, and the device stays usable. */
static void check_device(const char *what, fac_device device) {
    if (device.type != FAC_CUDA) return;
    fac_status st = fac_synchronize(device);
    if (st != FAC_OK && st != FAC_ERR_INDEX) broken(what, fac_error_message());
    check_error(what, st);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* Reads every element of what is small enough, so that a result outside its storage is seen. */
static void read_tensor(fac_tensor *t) {
    static char room[READABLE * 16];
    int64_t n = fac_tensor_numel(t);
    if (fac_tensor_device(t).type == FAC_META || n > READABLE) return;
    check_error("reading a result", fac_tensor_read(t, fac_tensor_dtype(t), room, (size_t)n));
}

typedef struct tensor_list {
    fac_tensor *v[OUTPUTS];
    size_t n;
} tensor_list;

static void collect(tensor_list *l, fac_tensor *t) {
    if (!t || l->n == OUTPUTS) return;
    read_tensor(t);
    bool small = fac_tensor_device(t).type == FAC_META || fac_tensor_numel(t) <= DIFFERENTIABLE;
    if (small && fac_requires_grad(t)) l->v[l->n++] = t;
}

/* Reads the results, and gives those through which a gradient flows. */
static void differentiable(const fac_value *results, tensor_list *out) {
    out->n = 0;
    for (size_t i = 0; i < RESULTS; i++) {
        if (results[i].tag == FAC_TAG_TENSOR) collect(out, fac_value_as_tensor(results[i]));
        if (results[i].tag != FAC_TAG_TENSORS) continue;
        fac_tensors l = fac_value_as_tensors(results[i]);
        for (size_t k = 0; k < l.n; k++) collect(out, l.v[k]);
    }
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* Arguments that require a gradient. */
static void wanted(const sample_made *m, tensor_list *out) {
    out->n = 0;
    for (size_t i = 0; i < m->n_tensors; i++) {
        fac_tensor *t = fac_value_as_tensor(m->tensors[i]);
        if (t && fac_requires_grad(t)) out->v[out->n++] = t;
    }
}

/* A random part of the outputs, at least one. */
static void choose(attack_random *r, tensor_list *l) {
    size_t n = 0, sure = (size_t)attack_below(r, (int)l->n);
    for (size_t i = 0; i < l->n; i++)
        if (i == sure || attack_chance(r, 60)) l->v[n++] = l->v[i];
    l->n = n;
}

/* A gradient of the tensor's own shape: ones, expanded from one element, or as the tensor's own values are. NULL on failure. */
static fac_tensor *gradient_for(attack_random *r, fac_tensor *t) {
    switch (attack_below(r, 3)) {
    case 0: return fac_ones_like(t);
    case 1: return fac_expand_as(fac_sum(fac_ones_like(t)), t);
    default: return fac_detach(t);
    }
}

/* fac_grad of outputs with respect to inputs; what it gave, without the NULLs. */
static fac_status pass(attack_random *r, const tensor_list *outputs, const tensor_list *inputs, bool create,
                       tensor_list *out) {
    fac_tensor *seeds[OUTPUTS], *grads[OUTPUTS] = {NULL};
    out->n = 0;
    for (size_t i = 0; i < outputs->n; i++)
        if (!(seeds[i] = gradient_for(r, outputs->v[i]))) return fac_error();
    FAC_TRY(fac_grad(fac_tensors_of(outputs->v, outputs->n), fac_tensors_of(inputs->v, inputs->n), grads,
                     .grad_outputs = fac_tensors_of(seeds, outputs->n), .create_graph = create, .allow_unused = true));
    for (size_t i = 0; i < inputs->n; i++) {
        if (!grads[i]) continue;
        read_tensor(grads[i]);
        if (fac_requires_grad(grads[i])) out->v[out->n++] = grads[i];
    }
    return FAC_OK;
}

/* Adds to the leaves' gradients, and takes them off again. */
static fac_status accumulate(attack_random *r, const tensor_list *outputs, const tensor_list *inputs) {
    fac_tensor *seeds[OUTPUTS];
    for (size_t i = 0; i < outputs->n; i++)
        if (!(seeds[i] = gradient_for(r, outputs->v[i]))) return fac_error();
    fac_status st = fac_backward_all(fac_tensors_of(outputs->v, outputs->n), fac_tensors_of(seeds, outputs->n));
    for (size_t i = 0; i < inputs->n && st == FAC_OK; i++)
        if (fac_is_leaf(inputs->v[i])) st = fac_set_grad(inputs->v[i], NULL);
    return st;
}

static void go_backward(attack_random *r, const sample_made *m, const fac_value *results, fac_device device,
                        attack_counts *counts) {
    tensor_list outputs, inputs, first, second;
    wanted(m, &inputs);
    differentiable(results, &outputs);
    if (!outputs.n || !inputs.n) return;
    FAC_SCOPE(s);
    choose(r, &outputs);
    bool twice = attack_chance(r, 75);
    fac_status st = attack_chance(r, 80) ? pass(r, &outputs, &inputs, twice, &first)
                                         : (first.n = 0, accumulate(r, &outputs, &inputs));
    check_error("backward", st);
    check_device("backward", device);
    counts->backward += st == FAC_OK;
    if (st != FAC_OK || !twice || !first.n) return;
    choose(r, &first);
    st = pass(r, &first, &inputs, false, &second);
    check_error("double backward", st);
    check_device("double backward", device);
    counts->double_backward += st == FAC_OK;
}

/* ---- the case ---------------------------------------------------------------------------------------------------- */

/* The same text takes the same random decisions wherever it is made. */
static attack_random random_of(const sample_call *c) {
    static char text[SAMPLE_TEXT];
    attack_random r = {0xcbf29ce484222325u};
    for (const char *p = sample_print(c, text, sizeof text); *p; p++)
        r.state = (r.state ^ (uint8_t)*p) * 0x100000001b3u;
    return r;
}

static void call(const sample_call *c, fac_device device, attack_random *r, attack_counts *counts) {
    sample_made made;
    fac_value results[RESULTS];
    if (sample_make(c, device, &made) != FAC_OK) {
        counts->unmade++;
        check_error("the arguments", fac_error());
        return;
    }
    FAC_SCOPE(s);
    for (size_t i = 0; i < RESULTS; i++) results[i] = fac_value_none();
    fac_status st = fac_call(c->op, made.args, made.n_args, results);
    check_error("the call", st);
    check_device("the call", device);
    counts->calls++;
    counts->by_status[st]++;
    if (st == FAC_OK) go_backward(r, &made, results, device, counts);
    for (size_t i = 0; i < RESULTS; i++) fac_value_release(&results[i]);
    sample_unmake(&made);
}

void attack_exercise(const sample_call *c, fac_device device, attack_counts *counts) {
    attack_random r = random_of(c);
    fac_manual_seed(attack_next(&r));
    int64_t live = fac_live();
    call(c, device, &r, counts);
    if (attack_chance(&r, 5)) check_next_call(device);
    if (fac_live() != live) {
        char text[80];
        snprintf(text, sizeof text, "%lld objects are left", (long long)(fac_live() - live));
        broken("leak", text);
    }
}
