/* Changes of a call as data. */
#include "sample.h"

int sample_add_tensor(sample_call *c, fac_dtype dtype, const int64_t *sizes, int ndim) {
    if (c->n_tensors == SAMPLE_TENSORS) return -1;
    sample_tensor *t = &c->tensors[c->n_tensors];
    *t = (sample_tensor){.dtype = dtype, .ndim = ndim, .base = -1};
    if (ndim) memcpy(t->sizes, sizes, (size_t)ndim * sizeof *sizes);
    return c->n_tensors++;
}

void sample_set_dtype(sample_call *c, fac_dtype dtype) {
    for (int i = 0; i < c->n_tensors; i++)
        if (fac_dtype_is_floating(c->tensors[i].dtype)) c->tensors[i].dtype = dtype;
}

/* New numbers by old ones, handed out as tensors are met. */
typedef struct numbering {
    const sample_call *was;
    sample_call *call;
    int number[SAMPLE_TENSORS]; /* -1: not met */
} numbering;

static void renumber(numbering *n, sample_value *v) {
    if (v->kind != SAMPLE_TENSOR) return;
    int old = (int)v->i;
    if (n->number[old] < 0) {
        int base = n->was->tensors[old].base;
        sample_tensor *t = &n->call->tensors[n->number[old] = n->call->n_tensors++];
        *t = n->was->tensors[old];
        t->base = base < 0 ? -1 : n->number[base]; /* a base that comes later, or never, is none */
    }
    v->i = n->number[old];
}

void sample_tidy(sample_call *c) {
    sample_call was = *c;
    numbering n = {&was, c, {0}};
    for (int i = 0; i < SAMPLE_TENSORS; i++) n.number[i] = -1;
    c->n_tensors = c->n_items = 0;
    for (int i = 0; i < c->n_args; i++) {
        sample_value *v = &c->args[i];
        if (v->kind == SAMPLE_LIST) {
            int64_t first = v->i;
            v->i = c->n_items;
            for (int64_t k = 0; k < v->n; k++) {
                c->items[c->n_items] = was.items[first + k];
                renumber(&n, &c->items[c->n_items++]);
            }
        } else {
            renumber(&n, v);
        }
    }
}
