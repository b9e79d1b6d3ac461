/* Changes of a valid call. Each takes one argument, or one tensor, and makes it into something near that is rarely tried:
   most of what is worth finding lies one step from what works. */
#include "attack.h"

#include "dispatch/operator.h"

#include <math.h>

enum { MOST_ELEMENTS = 1 << 20 };

#define PICK(r, a) ((a)[attack_below((r), (int)FAC_COUNT(a))])

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static int64_t strange_int(attack_random *r, int64_t was) {
    static const int64_t far[] = {INT64_MIN,
                                  INT64_MIN + 1,
                                  -((int64_t)1 << 62),
                                  -((int64_t)1 << 31) - 1,
                                  -((int64_t)1 << 31),
                                  -65,
                                  -3,
                                  -2,
                                  -1,
                                  0,
                                  1,
                                  2,
                                  3,
                                  5,
                                  63,
                                  64,
                                  65,
                                  1000,
                                  ((int64_t)1 << 31) - 1,
                                  (int64_t)1 << 31,
                                  ((int64_t)1 << 31) + 1,
                                  (int64_t)1 << 32,
                                  (int64_t)1 << 62,
                                  INT64_MAX - 1,
                                  INT64_MAX};
    if (attack_chance(r, 40)) return was < INT64_MAX - 2 && was > INT64_MIN + 2 ? was + attack_below(r, 5) - 2 : 0;
    return PICK(r, far);
}

static double strange_double(attack_random *r, double was) {
    static const double far[] = {NAN,    INFINITY, -INFINITY, 0.0,          -0.0,   1.0,     -1.0,   2.0,    -2.0,
                                 0.5,    5e-324,   -5e-324,   1e-310,       1e-45,  1e-38,   3.4e38, 3.5e38, 1e308,
                                 -1e308, 65504.0,  65520.0,   2147483648.0, 9.3e18, -9.3e18, 1e30};
    return attack_chance(r, 20) ? -was : PICK(r, far);
}

/* Values for elements: as floats, and as indices that are out of range. */
static void strange_elements(attack_random *r, sample_tensor *t) {
    t->n_elements = 1 + attack_below(r, 6);
    bool whole = fac_dtype_is_integral(t->dtype, true);
    for (int i = 0; i < t->n_elements; i++)
        t->elements[i] = whole ? (double)strange_int(r, attack_below(r, 4)) : strange_double(r, 0.5);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static void row_major(const sample_tensor *t, int64_t *strides) {
    int64_t n = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        strides[d] = n;
        if (__builtin_mul_overflow(n, t->sizes[d] > 0 ? t->sizes[d] : 1, &n)) n = 1;
    }
}

static void give_strides(sample_tensor *t) {
    if (!t->strided) row_major(t, t->strides);
    t->strided = true;
}

static void insert_dim(sample_tensor *t, int at, int64_t size, int64_t stride) {
    if (t->ndim == SAMPLE_DIMS) return;
    for (int d = t->ndim; d > at; d--) t->sizes[d] = t->sizes[d - 1], t->strides[d] = t->strides[d - 1];
    t->sizes[at] = size;
    t->strides[at] = stride;
    t->ndim++;
}

static void remove_dim(sample_tensor *t, int at) {
    if (!t->ndim) return;
    for (int d = at; d + 1 < t->ndim; d++) t->sizes[d] = t->sizes[d + 1], t->strides[d] = t->strides[d + 1];
    t->ndim--;
}

static void change_size(attack_random *r, sample_tensor *t) {
    static const int64_t sizes[] = {0, 0, 1, 1, 2, 3, 5, 8, 17, 33, 64};
    if (!t->ndim) {
        insert_dim(t, 0, PICK(r, sizes), 1);
        return;
    }
    int64_t *size = &t->sizes[attack_below(r, t->ndim)];
    bool by_one = attack_chance(r, 50), up = attack_chance(r, 50);
    *size = !by_one ? PICK(r, sizes) : up ? (*size < INT64_MAX ? *size + 1 : 0) : *size ? *size - 1 : 0;
}

static void change_ndim(attack_random *r, sample_tensor *t) {
    switch (attack_below(r, 5)) {
    case 0: t->ndim = 0; break;
    case 1: remove_dim(t, attack_below(r, t->ndim + 1) % (t->ndim ? t->ndim : 1)); break;
    case 2: insert_dim(t, attack_below(r, t->ndim + 1), 1, 1); break;
    case 3: insert_dim(t, attack_below(r, t->ndim + 1), 2, 0); break;
    case 4:
        for (int n = attack_chance(r, 10) ? SAMPLE_DIMS : 7; t->ndim < n;) insert_dim(t, 0, 1, 1);
        break;
    }
}

/* Many elements that cost no memory: on the meta device any number, elsewhere none, beside dimensions of any size. */
static void change_to_huge(attack_random *r, sample_tensor *t) {
    static const int64_t sizes[] = {
        ((int64_t)1 << 31) - 1, (int64_t)1 << 31, ((int64_t)1 << 31) + 1, (int64_t)1 << 32, (int64_t)1 << 40,
        (int64_t)1 << 62,       INT64_MAX};
    if (!t->ndim) insert_dim(t, 0, 1, 1);
    give_strides(t);
    int at = attack_below(r, t->ndim);
    t->sizes[at] = PICK(r, sizes);
    t->strides[at] = attack_chance(r, 50) ? 0 : 1;
    if (attack_chance(r, 50))
        t->place = SAMPLE_META;
    else
        t->sizes[attack_below(r, t->ndim)] = 0;
}

static void swap_dims(attack_random *r, sample_tensor *t) {
    if (t->ndim < 2) return;
    int64_t strides[SAMPLE_DIMS], sizes[SAMPLE_DIMS];
    int order[SAMPLE_DIMS];
    for (int d = 0; d < t->ndim; d++) order[d] = d, sizes[d] = t->sizes[d];
    for (int d = t->ndim - 1; d > 0; d--) {
        int k = attack_below(r, d + 1), o = order[d];
        order[d] = order[k];
        order[k] = o;
    }
    sample_tensor permuted = *t;
    for (int d = 0; d < t->ndim; d++) permuted.sizes[d] = sizes[order[d]];
    row_major(&permuted, strides);
    for (int d = 0; d < t->ndim; d++) t->strides[order[d]] = strides[d];
    t->strided = true;
}

static void change_strides(attack_random *r, sample_tensor *t) {
    static const int64_t strides[] = {0, 0, 1, 1, 2, 3, 7, 64};
    switch (attack_below(r, 4)) {
    case 0: swap_dims(r, t); break;
    case 1:
        give_strides(t);
        if (t->ndim) t->strides[attack_below(r, t->ndim)] = PICK(r, strides);
        break;
    case 2: /* gaps */
        give_strides(t);
        for (int d = 0; d < t->ndim; d++)
            if (t->strides[d] < 1 << 20) t->strides[d] *= 2;
        break;
    case 3: t->offset = 1 + attack_below(r, 9); break;
    }
}

static void change_flags(attack_random *r, sample_tensor *t) {
    static const unsigned flags[] = {SAMPLE_GRAD, SAMPLE_GRAD, SAMPLE_GRAD | SAMPLE_NONLEAF, SAMPLE_INFERENCE, 0};
    t->flags = PICK(r, flags);
}

static void change_tensor(attack_random *r, sample_tensor *t) {
    switch (attack_below(r, 12)) {
    case 0:
    case 1: change_size(r, t); break;
    case 2:
    case 3: change_ndim(r, t); break;
    case 4: change_to_huge(r, t); break;
    case 5:
    case 6: change_strides(r, t); break;
    case 7:
    case 8: t->dtype = (fac_dtype)(FAC_BOOL + attack_below(r, FAC_DTYPE_COUNT - FAC_BOOL)); break;
    case 9: t->place = (sample_place)attack_below(r, SAMPLE_PLACES); break;
    case 10: change_flags(r, t); break;
    case 11: strange_elements(r, t); break;
    }
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static sample_value number(attack_random *r) {
    switch (attack_below(r, 4)) {
    case 0: return (sample_value){.kind = SAMPLE_INT, .i = strange_int(r, 1)};
    case 1: return (sample_value){.kind = SAMPLE_BOOL, .i = attack_below(r, 2)};
    case 2: return (sample_value){.kind = SAMPLE_COMPLEX, .re = strange_double(r, 1), .im = strange_double(r, 1)};
    default: return (sample_value){.kind = SAMPLE_FLOAT, .re = strange_double(r, 1)};
    }
}

static sample_value string(attack_random *r) {
    static const char *const texts[] = {
        "",      "mean",  "sum",       "none",  "add",     "multiply",  "amax",     "amin",     "prod",    "floor",
        "trunc", "tanh",  "same",      "valid", "reflect", "replicate", "circular", "constant", "ij",      "xy",
        "left",  "right", "ij,jk->ik", "i->",   "->",      ",",         "...",      "ii",       "\xff%s%n"};
    sample_value v = {.kind = SAMPLE_STRING, .i = attack_chance(r, 10) ? 1 + attack_below(r, 2000) : 1};
    snprintf(v.text, sizeof v.text, "%s", PICK(r, texts));
    return v;
}

static void change_string(attack_random *r, sample_value *v) {
    size_t n = strlen(v->text);
    if (!n || attack_chance(r, 50))
        *v = string(r);
    else
        v->text[attack_below(r, (int)n)] = PICK(r, "abij.,->A \t0");
}

static sample_value some_tensor(attack_random *r, sample_call *c) {
    static const int64_t sizes[] = {2, 3, 4};
    if (c->n_tensors && attack_chance(r, 70))
        return (sample_value){.kind = SAMPLE_TENSOR, .i = attack_below(r, c->n_tensors)};
    int number = sample_add_tensor(c, FAC_F32, sizes, attack_below(r, 4));
    return number < 0 ? (sample_value){.kind = SAMPLE_NONE} : (sample_value){.kind = SAMPLE_TENSOR, .i = number};
}

/* A value of the kind that the schema asks for. */
static sample_value of_type(attack_random *r, sample_call *c, fac_type_kind kind) {
    switch (kind) {
    case FAC_TYPE_TENSOR: return some_tensor(r, c);
    case FAC_TYPE_INT: return (sample_value){.kind = SAMPLE_INT, .i = strange_int(r, 1)};
    case FAC_TYPE_FLOAT: return (sample_value){.kind = SAMPLE_FLOAT, .re = strange_double(r, 1)};
    case FAC_TYPE_BOOL: return (sample_value){.kind = SAMPLE_BOOL, .i = attack_below(r, 2)};
    case FAC_TYPE_SCALAR: return number(r);
    case FAC_TYPE_STRING: return string(r);
    case FAC_TYPE_DTYPE:
        return (sample_value){.kind = SAMPLE_DTYPE,
                              .i = attack_chance(r, 80) ? 1 + attack_below(r, 12) : strange_int(r, 1)};
    case FAC_TYPE_DEVICE:
        return (sample_value){.kind = SAMPLE_DEVICE,
                              .i = attack_chance(r, 80) ? attack_below(r, 4) : strange_int(r, 1)};
    case FAC_TYPE_LAYOUT:
        return (sample_value){.kind = SAMPLE_LAYOUT,
                              .i = attack_chance(r, 80) ? attack_below(r, 4) : strange_int(r, 1)};
    case FAC_TYPE_FORMAT:
        return (sample_value){.kind = SAMPLE_FORMAT,
                              .i = attack_chance(r, 80) ? attack_below(r, 5) : strange_int(r, 1)};
    case FAC_TYPE_GENERATOR: return (sample_value){.kind = SAMPLE_GENERATOR};
    default: return (sample_value){.kind = SAMPLE_NONE};
    }
}

/* Gives the list new items at the end of the pool; sample_tidy drops the old ones. */
static void put_items(sample_call *c, sample_value *list, const sample_value *items, int n) {
    if (c->n_items + n > SAMPLE_ITEMS) return;
    if (n) memcpy(&c->items[c->n_items], items, (size_t)n * sizeof *items);
    *list = (sample_value){.kind = SAMPLE_LIST, .i = c->n_items, .n = n};
    c->n_items += n;
}

static void change_list(attack_random *r, sample_call *c, sample_value *list, fac_type_kind kind) {
    sample_value items[SAMPLE_ITEMS];
    int n = (int)list->n;
    if (n) memcpy(items, &c->items[list->i], (size_t)n * sizeof *items);
    int what = attack_below(r, 5);
    if (what == 0) {
        n = 0;
    } else if (what == 1 && n) {
        n--;
    } else if (what == 2) {
        int more = attack_chance(r, 20) && kind != FAC_TYPE_TENSOR ? 66 : 1;
        for (; more-- && n < SAMPLE_ITEMS; n++) items[n] = n ? items[0] : of_type(r, c, kind);
    } else if (n) {
        items[attack_below(r, n)] = attack_chance(r, 10) ? (sample_value){.kind = SAMPLE_NONE} : of_type(r, c, kind);
    }
    put_items(c, list, items, n);
}

/* ---- which ------------------------------------------------------------------------------------------------------- */

static void change_value(attack_random *r, sample_call *c, sample_value *v, const fac_schema_arg *a) {
    fac_type_kind kind = a ? a->type.kind : FAC_TYPE_INT;
    if (attack_chance(r, 8)) {
        *v = (sample_value){.kind = SAMPLE_NONE};
    } else if (attack_chance(r, 3)) {
        *v = of_type(r, c, (fac_type_kind)attack_below(r, FAC_TYPE_KINDS));
    } else if (a && a->type.list) {
        if (v->kind != SAMPLE_LIST) put_items(c, v, NULL, 0);
        change_list(r, c, v, kind);
    } else if (v->kind == SAMPLE_TENSOR && attack_chance(r, 85)) {
        change_tensor(r, &c->tensors[v->i]);
    } else if (v->kind == SAMPLE_INT) {
        v->i = strange_int(r, v->i);
    } else if (v->kind == SAMPLE_STRING) {
        change_string(r, v);
    } else {
        *v = of_type(r, c, kind);
    }
}

/* Puts a tensor into the storage of another one. */
static void share_storage(attack_random *r, sample_call *c) {
    if (c->n_tensors < 2) return;
    int i = 1 + attack_below(r, c->n_tensors - 1);
    c->tensors[i].base = attack_below(r, i);
    c->tensors[i].dtype = c->tensors[c->tensors[i].base].dtype;
}

/* Gives two arguments the same tensor. */
static void share_tensor(attack_random *r, sample_call *c) {
    sample_value *a = &c->args[attack_below(r, c->n_args)], *b = &c->args[attack_below(r, c->n_args)];
    if (a->kind == SAMPLE_TENSOR && b->kind == SAMPLE_TENSOR) a->i = b->i;
}

static void change_all(attack_random *r, sample_call *c) {
    fac_dtype dtype = (fac_dtype)(FAC_BOOL + attack_below(r, FAC_DTYPE_COUNT - FAC_BOOL));
    fac_dtype was = c->n_tensors ? c->tensors[0].dtype : FAC_F32;
    for (int i = 0; i < c->n_tensors; i++)
        if (c->tensors[i].dtype == was) c->tensors[i].dtype = dtype;
}

/* Swaps a size wherever it stands, so that shapes still agree. */
static void change_size_everywhere(attack_random *r, sample_call *c) {
    static const int64_t sizes[] = {0, 1, 2, 7, 17, 33, 65};
    if (!c->n_tensors || !c->tensors[0].ndim) return;
    int64_t was = c->tensors[0].sizes[attack_below(r, c->tensors[0].ndim)], is = PICK(r, sizes);
    for (int i = 0; i < c->n_tensors; i++)
        for (int d = 0; d < c->tensors[i].ndim; d++)
            if (c->tensors[i].sizes[d] == was) c->tensors[i].sizes[d] = is;
}

static void change_once(attack_random *r, sample_call *c) {
    const fac_operator *op = fac_operator_lookup(c->op);
    const fac_schema *s = op ? atomic_load(&op->schema) : NULL;
    if (!c->n_args) return;
    int i = attack_below(r, c->n_args), what = attack_below(r, 20);
    if (what == 0) {
        share_storage(r, c);
    } else if (what == 1) {
        share_tensor(r, c);
    } else if (what == 2 || what == 3) {
        change_all(r, c);
    } else if (what == 4 || what == 5) {
        change_size_everywhere(r, c);
    } else if (what == 6 && c->n_args > 1) {
        c->n_args -= attack_chance(r, 50);
    } else {
        change_value(r, c, &c->args[i], s && (size_t)i < s->n_args ? &s->args[i] : NULL);
    }
    sample_tidy(c);
}

/* Where elements are really computed there are not so many that a pass over them takes long. */
static void bound_elements(sample_call *c) {
    for (int i = 0; i < c->n_tensors; i++) {
        sample_tensor *t = &c->tensors[i];
        double n = 1;
        for (int d = 0; d < t->ndim; d++) n *= (double)t->sizes[d];
        if (n <= MOST_ELEMENTS) continue;
        t->place = SAMPLE_META;
        t->base = -1; /* a storage shared with another tensor would be the other's, in memory */
    }
}

/* Most tensors require a gradient; those that are written to mostly in a way that allows it. */
static void require_gradients(sample_call *c, attack_random *r) {
    const fac_operator *op = fac_operator_lookup(c->op);
    const fac_schema *s = op ? atomic_load(&op->schema) : NULL;
    for (int i = 0; i < c->n_tensors; i++)
        if (attack_chance(r, 60))
            c->tensors[i].flags = attack_chance(r, 70) ? SAMPLE_GRAD : SAMPLE_GRAD | SAMPLE_NONLEAF;
    for (int i = 0; s && i < c->n_args && (size_t)i < s->n_args; i++)
        if (s->args[i].type.write && c->args[i].kind == SAMPLE_TENSOR && attack_chance(r, 95))
            c->tensors[c->args[i].i].flags = i == 0 ? SAMPLE_GRAD | SAMPLE_NONLEAF : 0;
}

static void change(sample_call *c, attack_random *r) {
    require_gradients(c, r);
    if (attack_chance(r, 10)) return;
    for (int n = 1 + attack_below(r, 3); n > 0; n--) change_once(r, c);
}

void attack_mutate(sample_call *c, attack_random *r) {
    change(c, r);
    bound_elements(c);
}
