/* einsum and tensordot. An equation is parsed into labels; every operand is permuted (and its repeated labels turned into
   diagonals) so that dimension d means the same label everywhere; then operands are multiplied pair by pair, a label being
   summed as soon as no later operand and not the result has it. A pair is one bmm: labels of both that stay are its
   batch, labels of both that go are its inner dimension; without any of these it is multiplied element by element. */
#include "ops/composite/brief.h"

enum {
    LETTERS = 52,
    ELLIPSIS = 52, /* as a subscript */
    MAX_SUBSCRIPTS = 256
};

/* Subscripts of one operand or of the result, as written. */
typedef struct term {
    uint8_t label[MAX_SUBSCRIPTS]; /* 0..51, or ELLIPSIS */
    int n;
    bool ellipsis;
} term;

typedef struct equation {
    term *in;
    size_t n_in;
    term out;
    int count[LETTERS];      /* occurrences over all operands */
    int ellipsis_dims;       /* of the longest ellipsis */
    int dim_of[LETTERS + 1]; /* dimension in the common order; of ELLIPSIS: of its first; -1: not used */
    int n_dims, n_out;       /* common dimensions; the first n_out are the result's */
} equation;

static fac_ints ints(const int64_t *v, int n) { return (fac_ints){v, (size_t)n}; }
static int label_of(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1; }
static char letter_of(int label) { return (char)(label < 26 ? 'A' + label : 'a' + label - 26); }

/* ---- parsing ---------------------------------------------------------------------------------------------------------- */

/* Reads one term from text[*at] up to ',', "->" or the end. `what` names it in messages. */
static fac_status parse_term(const char *text, size_t *at, term *t, const char *what) {
    t->n = 0;
    t->ellipsis = false;
    for (;; (*at)++) {
        char c = text[*at];
        if (c == ' ') continue;
        if (!c || c == ',' || (c == '-' && text[*at + 1] == '>')) return FAC_OK;
        FAC_CHECK(t->n < MAX_SUBSCRIPTS, FAC_ERR_ARGUMENT, "too many subscripts for %s", what);
        if (c == '.') {
            FAC_CHECK(!t->ellipsis, FAC_ERR_ARGUMENT, "found '.' for %s for which an ellipsis was already found", what);
            FAC_CHECK(text[*at + 1] == '.' && text[*at + 2] == '.', FAC_ERR_ARGUMENT,
                      "found '.' for %s that is not part of any ellipsis", what);
            *at += 2;
            t->ellipsis = true;
            t->label[t->n++] = ELLIPSIS;
            continue;
        }
        int label = label_of(c);
        FAC_CHECK(label >= 0, FAC_ERR_ARGUMENT,
                  "invalid subscript given at index %zu in the equation string, subscripts must be in [a-zA-Z]", *at);
        t->label[t->n++] = (uint8_t)label;
    }
}

static fac_status parse_inputs(equation *e, const char *text, size_t *at) {
    for (size_t i = 0;; i++) {
        char what[32];
        FAC_CHECK(i < e->n_in, FAC_ERR_ARGUMENT, "fewer operands were provided than specified in the equation");
        snprintf(what, sizeof what, "operand %zu", i);
        FAC_TRY(parse_term(text, at, &e->in[i], what));
        for (int s = 0; s < e->in[i].n; s++)
            if (e->in[i].label[s] != ELLIPSIS) e->count[e->in[i].label[s]]++;
        if (text[*at] == ',') {
            (*at)++;
            continue;
        }
        FAC_CHECK(i + 1 == e->n_in, FAC_ERR_ARGUMENT, "more operands were provided than specified in the equation");
        return FAC_OK;
    }
}

/* Without "->": the ellipsis, then the labels that occur once, in alphabetical order. */
static void implicit_output(equation *e) {
    for (size_t i = 0; i < e->n_in; i++) e->out.ellipsis |= e->in[i].ellipsis;
    if (e->out.ellipsis) e->out.label[e->out.n++] = ELLIPSIS;
    for (int l = 0; l < LETTERS; l++)
        if (e->count[l] == 1) e->out.label[e->out.n++] = (uint8_t)l;
}

static fac_status check_output(const equation *e) {
    bool seen[LETTERS] = {0};
    for (int s = 0; s < e->out.n; s++) {
        int l = e->out.label[s];
        if (l == ELLIPSIS) continue;
        FAC_CHECK(!seen[l], FAC_ERR_ARGUMENT, "output subscript %c appears more than once in the output", letter_of(l));
        FAC_CHECK(e->count[l] > 0, FAC_ERR_ARGUMENT,
                  "output subscript %c does not appear in the equation for any input operand", letter_of(l));
        seen[l] = true;
    }
    return FAC_OK;
}

static fac_status parse(equation *e, const char *text) {
    size_t at = 0;
    FAC_TRY(parse_inputs(e, text, &at));
    if (!text[at]) {
        implicit_output(e);
        return FAC_OK;
    }
    at += 2;
    FAC_TRY(parse_term(text, &at, &e->out, "the output"));
    FAC_CHECK(!text[at], FAC_ERR_ARGUMENT, "the output has a '%c' at index %zu; it ends the equation", text[at], at);
    return check_output(e);
}

/* ---- the common order of dimensions -------------------------------------------------------------------------------------- */

/* Dimensions that operand i's ellipsis stands for. */
static int ellipsis_of(const equation *e, size_t i, const fac_tensor *t) {
    return e->in[i].ellipsis ? t->ndim - (e->in[i].n - 1) : 0;
}

static fac_status check_ranks(equation *e, fac_tensors tensors) {
    for (size_t i = 0; i < e->n_in; i++) {
        int labels = e->in[i].n - e->in[i].ellipsis, dims = tensors.v[i]->ndim;
        if (e->in[i].ellipsis)
            FAC_CHECK(labels <= dims, FAC_ERR_SHAPE,
                      "the number of subscripts in the equation (%d) is more than the number of dimensions (%d) for "
                      "operand %zu",
                      labels, dims, i);
        else
            FAC_CHECK(labels == dims, FAC_ERR_SHAPE,
                      "the number of subscripts in the equation (%d) does not match the number of dimensions (%d) for "
                      "operand %zu and no ellipsis was given",
                      labels, dims, i);
        int n = ellipsis_of(e, i, tensors.v[i]);
        if (n > e->ellipsis_dims) e->ellipsis_dims = n;
    }
    return FAC_OK;
}

/* The result's labels first, in its order; then an ellipsis that it lacks; then the labels that are summed. */
static fac_status order(equation *e) {
    for (int l = 0; l <= LETTERS; l++) e->dim_of[l] = -1;
    int next = 0;
    for (int s = 0; s < e->out.n; s++) {
        int l = e->out.label[s];
        e->dim_of[l] = next;
        next += l == ELLIPSIS ? e->ellipsis_dims : 1;
    }
    e->n_out = next;
    if (e->dim_of[ELLIPSIS] < 0) {
        e->dim_of[ELLIPSIS] = next;
        next += e->ellipsis_dims;
    }
    for (int l = 0; l < LETTERS; l++)
        if (e->count[l] > 0 && e->dim_of[l] < 0) e->dim_of[l] = next++;
    e->n_dims = next;
    FAC_CHECK(next <= FAC_MAX_DIMS, FAC_ERR_SHAPE, "%d distinct dimensions are too many; at most %d", next,
              FAC_MAX_DIMS);
    return FAC_OK;
}

/* Operand i with dimension d meaning common dimension d: repeated labels become diagonals, missing ones size 1. */
static fac_tensor *aligned(const equation *e, size_t i, fac_tensor *t) {
    const term *w = &e->in[i];
    int at[FAC_MAX_DIMS], n = 0; /* n dimensions so far; common dimension d is t's dimension at[d], -1 if none */
    for (int d = 0; d < e->n_dims; d++) at[d] = -1;
    int ellipsis = ellipsis_of(e, i, t);
    for (int s = 0; s < w->n && t; s++) {
        if (w->label[s] == ELLIPSIS) {
            /* Shorter ellipses are aligned at their ends. */
            for (int k = 0; k < ellipsis; k++) at[e->dim_of[ELLIPSIS] + e->ellipsis_dims - ellipsis + k] = n++;
            continue;
        }
        int d = e->dim_of[w->label[s]];
        if (at[d] < 0) {
            at[d] = n++;
            continue;
        }
        int64_t one = t->sizes[at[d]], two = t->sizes[n];
        if (one != two) {
            FAC_FAIL(FAC_ERR_SHAPE, "subscript %c is repeated for operand %zu but the sizes don't match, %lld != %lld",
                     letter_of(w->label[s]), i, (long long)two, (long long)one);
            return NULL;
        }
        /* The diagonal comes last; it goes back to where the label first was. */
        t = fac__s_movedim_int(fac__s_diagonal(t, 0, at[d], n), -1, at[d]);
    }
    int64_t perm[FAC_MAX_DIMS];
    for (int d = 0; d < e->n_dims; d++) {
        perm[d] = at[d] >= 0 ? at[d] : n++;
        if (at[d] < 0) t = fac__s_unsqueeze(t, -1);
    }
    return fac__s_permute(t, ints(perm, e->n_dims));
}

/* Sizes of one dimension must be equal or 1 over all aligned operands. */
static fac_status check_sizes(const equation *e, fac_tensor *const *t) {
    for (int d = 0; d < e->n_dims; d++) {
        int64_t size = 1;
        for (size_t i = 0; i < e->n_in; i++) {
            int64_t have = t[i]->sizes[d];
            if (have == 1) continue;
            int label = ELLIPSIS;
            for (int l = 0; l < LETTERS; l++)
                if (e->dim_of[l] == d) label = l;
            FAC_CHECK(
                size == 1 || size == have, FAC_ERR_SHAPE,
                "subscript %.3s has size %lld for operand %zu which does not broadcast with previously seen size %lld",
                label == ELLIPSIS ? "..." : (char[]){letter_of(label), 0}, (long long)have, i, (long long)size);
            size = have;
        }
    }
    return FAC_OK;
}

/* ---- contraction -------------------------------------------------------------------------------------------------------- */

/* The kinds of dimension of a pair: both and kept, left's alone, right's alone, both and summed. */
typedef struct split {
    int batch[FAC_MAX_DIMS], left[FAC_MAX_DIMS], right[FAC_MAX_DIMS], sum[FAC_MAX_DIMS];
    int n_batch, n_left, n_right, n_sum;
    int64_t batch_size, left_size, right_size, sum_size;
} split;

static void add_dim(int *list, int *n, int64_t *product, int d, int64_t size) {
    list[(*n)++] = d;
    (void)fac__mul(*product, size, product); /* a product that overflows is refused by reshape */
}

static int64_t *put(int64_t *p, const int *list, int n) {
    for (int i = 0; i < n; i++) *p++ = list[i];
    return p;
}

/* Operands of one dtype for a product: a sum over one of them made an int64 of small integers. */
static void match_dtypes(fac_tensor **x, fac_tensor **y) {
    if (!*x || !*y || (*x)->dtype == (*y)->dtype) return;
    fac_dtype common = fac_promote_types((fac_dtype)(*x)->dtype, (fac_dtype)(*y)->dtype);
    *x = cast(*x, common);
    *y = cast(*y, common);
}

/* t permuted to the dimensions a, b, c (then the rest, all of size 1) and reshaped to three. */
static fac_tensor *as_batch(fac_tensor *t, const int *a, int na, int64_t sa, const int *b, int nb, int64_t sb,
                            const int *c, int nc, int64_t sc, const int *rest, int n_rest) {
    int64_t perm[FAC_MAX_DIMS];
    put(put(put(put(perm, a, na), b, nb), c, nc), rest, n_rest);
    return fac__s_reshape(fac__s_permute(t, ints(perm, na + nb + nc + n_rest)), ints((const int64_t[]){sa, sb, sc}, 3));
}

/* The product of two aligned tensors, summed over the dimensions of `mask`, which keep size 1. */
static fac_tensor *pair(fac_tensor *x, fac_tensor *y, uint64_t mask) {
    if (!x || !y) return NULL;
    split s = {.batch_size = 1, .left_size = 1, .right_size = 1, .sum_size = 1};
    int64_t sizes[FAC_MAX_DIMS];
    int n = x->ndim;
    for (int d = 0; d < n; d++) {
        bool in_x = x->sizes[d] != 1, in_y = y->sizes[d] != 1, summed = mask >> d & 1;
        if (summed && in_x && in_y) {
            add_dim(s.sum, &s.n_sum, &s.sum_size, d, x->sizes[d]);
        } else if (summed && (in_x || in_y)) {
            int64_t dim = d;
            if (in_x) x = fac__s_sum_dim_IntList(x, ints(&dim, 1), true, FAC_DTYPE_DEFAULT);
            if (in_y) y = fac__s_sum_dim_IntList(y, ints(&dim, 1), true, FAC_DTYPE_DEFAULT);
            if (!x || !y) return NULL;
            add_dim(s.batch, &s.n_batch, &s.batch_size, d, 1);
        } else if (in_x == in_y) {
            add_dim(s.batch, &s.n_batch, &s.batch_size, d, x->sizes[d]);
        } else if (in_x) {
            add_dim(s.left, &s.n_left, &s.left_size, d, x->sizes[d]);
        } else {
            add_dim(s.right, &s.n_right, &s.right_size, d, y->sizes[d]);
        }
    }
    match_dtypes(&x, &y);
    if (!x || !y) return NULL;
    if (!s.n_sum) return fac__s_mul_Tensor(x, y);
    fac_tensor *a = as_batch(x, s.batch, s.n_batch, s.batch_size, s.left, s.n_left, s.left_size, s.sum, s.n_sum,
                             s.sum_size, s.right, s.n_right);
    fac_tensor *b = as_batch(y, s.batch, s.n_batch, s.batch_size, s.sum, s.n_sum, s.sum_size, s.right, s.n_right,
                             s.right_size, s.left, s.n_left);
    /* The result's dimensions are batch, left, right, summed; their sizes, and the way back to the common order. */
    int64_t from[FAC_MAX_DIMS], back[FAC_MAX_DIMS];
    put(put(put(put(from, s.batch, s.n_batch), s.left, s.n_left), s.right, s.n_right), s.sum, s.n_sum);
    for (int i = 0; i < n; i++) {
        int64_t d = from[i];
        bool kept = i < n - s.n_sum;
        sizes[i] = !kept ? 1 : x->sizes[d] != 1 ? x->sizes[d] : y->sizes[d];
        back[d] = i;
    }
    fac_tensor *z = fac__s_bmm(a, b);
    return fac__s_permute(fac__s_reshape(z, ints(sizes, n)), ints(back, n));
}

/* Bits of the dimensions that are summed and that no tensor of t[0..n) but those at i and j has. */
static uint64_t finished(const equation *e, fac_tensor *const *t, size_t n, size_t i, size_t j) {
    uint64_t mask = 0;
    for (int d = e->n_out; d < e->n_dims; d++) {
        bool later = false;
        for (size_t k = 0; k < n && !later; k++) later = k != i && k != j && t[k]->sizes[d] != 1;
        if (!later) mask |= (uint64_t)1 << d;
    }
    return mask;
}

/* Replaces operands i < j by their contraction, put last. */
static fac_status contract(const equation *e, fac_tensor **t, size_t *n, size_t i, size_t j) {
    uint64_t mask = finished(e, t, *n, i, j);
    fac_tensor *z = pair(t[i], t[j], mask);
    if (!z) return fac_error();
    size_t m = 0;
    for (size_t k = 0; k < *n; k++)
        if (k != i && k != j) t[m++] = t[k];
    t[m++] = z;
    *n = m;
    return FAC_OK;
}

/* Contracts all; along `path` (pairs of positions, results appended) if given, else the first pair each time, the result
   staying in front. */
static fac_status contract_all(const equation *e, fac_tensor **t, fac_ints path) {
    size_t n = e->n_in;
    for (size_t step = 0; n > 1; step++) {
        if (!path.v) {
            FAC_TRY(contract(e, t, &n, 0, 1));
            fac_tensor *z = t[n - 1];
            memmove(t + 1, t, (n - 1) * sizeof *t);
            t[0] = z;
            continue;
        }
        int64_t i = path.v[2 * step], j = path.v[2 * step + 1];
        FAC_CHECK(i != j && i >= 0 && j >= 0 && i < (int64_t)n && j < (int64_t)n, FAC_ERR_ARGUMENT,
                  "invalid contraction path, step %zu names operands %lld and %lld of %zu", step, (long long)i,
                  (long long)j, n);
        FAC_TRY(contract(e, t, &n, (size_t)fac__min(i, j), (size_t)fac__max(i, j)));
    }
    return FAC_OK;
}

/* What is left: sums that no pair took (a single operand), then the summed dimensions dropped. */
static fac_tensor *finish(const equation *e, fac_tensor *t) {
    int64_t dims[FAC_MAX_DIMS];
    int n = 0;
    bool sum = false;
    for (int d = e->n_out; d < e->n_dims; d++) {
        dims[n++] = d;
        sum |= t->sizes[d] != 1;
    }
    if (n == 0) return t;
    return sum ? fac__s_sum_dim_IntList(t, ints(dims, n), false, FAC_DTYPE_DEFAULT)
               : fac__s_squeeze_dims(t, ints(dims, n));
}

static fac_tensor *einsum(equation *e, const char *text, fac_tensors tensors, fac_ints path, fac_tensor **work) {
    FAC_TRY_NULL(parse(e, text));
    FAC_TRY_NULL(check_ranks(e, tensors));
    FAC_TRY_NULL(order(e));
    for (size_t i = 0; i < tensors.n; i++) {
        work[i] = aligned(e, i, tensors.v[i]);
        if (!work[i]) return NULL;
    }
    FAC_TRY_NULL(check_sizes(e, work));
    FAC_TRY_NULL(contract_all(e, work, path));
    return finish(e, work[0]);
}

fac_status einsum_composite(const fac_call_info *c, const char *text, fac_tensors tensors, fac_ints path,
                            fac_tensor **out) {
    (void)c;
    FAC_CHECK(tensors.n > 0, FAC_ERR_ARGUMENT, "must provide at least one operand");
    FAC_CHECK(!path.v || path.n == 2 * (tensors.n - 1), FAC_ERR_ARGUMENT,
              "expected contraction path given in path parameter to have size %zu but got %zu", 2 * (tensors.n - 1),
              path.n);
    FAC_SCOPE(scope);
    equation e = {.n_in = tensors.n, .in = fac__alloc_array(tensors.n, sizeof(term))};
    fac_tensor **work = fac__alloc_array(tensors.n, sizeof *work);
    fac_tensor *y = e.in && work ? einsum(&e, text, tensors, path, work) : NULL;
    fac__free(e.in);
    fac__free(work);
    return fac__give(out, y);
}

/* ---- tensordot -------------------------------------------------------------------------------------------------------------- */

/* One side of tensordot: its dimensions as a permutation, those kept first (or last), and their sizes. */
typedef struct side {
    int64_t perm[FAC_MAX_DIMS], kept[FAC_MAX_DIMS];
    int n_kept;
    int64_t kept_size, sum_size;
} side;

static fac_status make_side(const fac_tensor *t, const int64_t *dims, size_t n, bool kept_first, side *s) {
    *s = (side){.kept_size = 1, .sum_size = 1};
    uint64_t summed = 0;
    int at = kept_first ? t->ndim - (int)n : 0;
    for (size_t i = 0; i < n; i++) {
        FAC_CHECK(!(summed >> dims[i] & 1), FAC_ERR_ARGUMENT, "dim %lld appears multiple times in the list of dims",
                  (long long)dims[i]);
        summed |= (uint64_t)1 << dims[i];
        s->perm[at++] = dims[i];
        (void)fac__mul(s->sum_size, t->sizes[dims[i]], &s->sum_size); /* an overflow is refused by reshape */
    }
    at = kept_first ? 0 : (int)n;
    for (int d = 0; d < t->ndim; d++) {
        if (summed >> d & 1) continue;
        s->perm[at++] = d;
        s->kept[s->n_kept++] = t->sizes[d];
        (void)fac__mul(s->kept_size, t->sizes[d], &s->kept_size);
    }
    return FAC_OK;
}

/* A contracted dimension of size 1 on one side is broadcast: the other side is summed over it first. */
static fac_status match_sizes(fac_tensor **x, fac_tensor **y, fac_ints dx, fac_ints dy, int64_t *wx, int64_t *wy) {
    for (size_t i = 0; i < dx.n; i++) {
        FAC_TRY(fac__wrap_dim(dx.v[i], (*x)->ndim, &wx[i]));
        FAC_TRY(fac__wrap_dim(dy.v[i], (*y)->ndim, &wy[i]));
        int64_t a = (*x)->sizes[wx[i]], b = (*y)->sizes[wy[i]];
        FAC_CHECK(
            a == b || a == 1 || b == 1, FAC_ERR_SHAPE,
            "contracted dimensions need to match, but first has size %lld in dim %lld and second has size %lld in dim %lld",
            (long long)a, (long long)wx[i], (long long)b, (long long)wy[i]);
        if (a != b && b == 1) *x = fac__s_sum_dim_IntList(*x, ints(&wx[i], 1), true, (fac_dtype)(*x)->dtype);
        if (a != b && a == 1) *y = fac__s_sum_dim_IntList(*y, ints(&wy[i], 1), true, (fac_dtype)(*y)->dtype);
        if (!*x || !*y) return fac_error();
    }
    return FAC_OK;
}

static fac_tensor *tensordot(fac_tensor *x, fac_tensor *y, fac_ints dx, fac_ints dy) {
    int64_t wx[FAC_MAX_DIMS], wy[FAC_MAX_DIMS];
    side a, b;
    FAC_TRY_NULL(match_sizes(&x, &y, dx, dy, wx, wy));
    match_dtypes(&x, &y);
    if (!x || !y) return NULL;
    FAC_TRY_NULL(make_side(x, wx, dx.n, true, &a));
    FAC_TRY_NULL(make_side(y, wy, dy.n, false, &b));
    fac_tensor *left =
        fac__s_reshape(fac__s_permute(x, ints(a.perm, x->ndim)), ints((const int64_t[]){a.kept_size, a.sum_size}, 2));
    fac_tensor *right =
        fac__s_reshape(fac__s_permute(y, ints(b.perm, y->ndim)), ints((const int64_t[]){b.sum_size, b.kept_size}, 2));
    int64_t sizes[2 * FAC_MAX_DIMS];
    memcpy(sizes, a.kept, (size_t)a.n_kept * sizeof *sizes);
    memcpy(sizes + a.n_kept, b.kept, (size_t)b.n_kept * sizeof *sizes);
    const bool whole = a.kept_size == 1 && b.kept_size == 1; /* dot, which autocast leaves as it is */
    fac_tensor *z =
        whole ? fac__s_dot(fac__s_squeeze_dim(left, 0), fac__s_squeeze_dim(right, 1)) : fac__s_mm(left, right);
    return fac__s_reshape(z, ints(sizes, a.n_kept + b.n_kept));
}

fac_status tensordot_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_ints dims_self,
                               fac_ints dims_other, fac_tensor **out) {
    (void)c;
    FAC_CHECK(dims_self.n == dims_other.n && dims_self.n <= FAC_MAX_DIMS, FAC_ERR_ARGUMENT,
              "both dimension lists should have same length, got %zu and %zu", dims_self.n, dims_other.n);
    FAC_CHECK(dims_self.n <= self->ndim && dims_other.n <= other->ndim, FAC_ERR_ARGUMENT,
              "%zu dimensions to contract, but the tensors have %d and %d", dims_self.n, self->ndim, other->ndim);
    FAC_SCOPE(scope);
    return fac__give(out, tensordot(self, other, dims_self, dims_other));
}
