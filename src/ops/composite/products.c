/* Products, differences and integrals in terms of others. */
#include "ops/composite/brief.h"

/* ---- vectors ------------------------------------------------------------------------------------------------------------ */

/* Floats and doubles on the CPU have a kernel. */
static bool in_one_walk(const fac_tensor *a, const fac_tensor *b) {
    return a->device.type == FAC_CPU && b->device.type == FAC_CPU && a->dtype == b->dtype &&
           (a->dtype == FAC_F32 || a->dtype == FAC_F64);
}

static fac_status cross_in_one_walk(fac_tensor *a, fac_tensor *b, int64_t d, fac_tensor **out) {
    int64_t sizes[FAC_MAX_DIMS];
    int n;
    if (fac__same_sizes(a, b)) return fac__give(out, fac__s__linalg_cross(a, b, d));
    FAC_TRY(fac__broadcast(a->sizes, a->ndim, b->sizes, b->ndim, sizes, &n));
    const fac_ints all = {sizes, (size_t)n};
    return fac__give(out, fac__s__linalg_cross(fac__s_expand(a, all, false), fac__s_expand(b, all, false), d));
}

/* (a1 b2 - a2 b1, a2 b0 - a0 b2, a0 b1 - a1 b0) */
fac_status linalg_cross_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, int64_t dim,
                                  fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim == other->ndim, FAC_ERR_SHAPE,
              "linalg.cross: inputs must have the same number of dimensions.");
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    FAC_CHECK(self->ndim && self->sizes[d] == 3 && other->sizes[d] == 3, FAC_ERR_SHAPE,
              "linalg.cross: inputs dimension %lld must have length 3. Got %s and %s", (long long)dim,
              FAC_SHAPE_TEXT(self), FAC_SHAPE_TEXT(other));
    FAC_SCOPE(s);
    if (in_one_walk(self, other)) return cross_in_one_walk(self, other, d, out);
    const fac_tensors a = fac__s_unbind_int(self, d), b = fac__s_unbind_int(other, d);
    if (a.n != 3 || b.n != 3) return fac_error();
    const fac_dtype dtype = (fac_dtype)self->dtype;
    const bool in_one = dtype == (fac_dtype)other->dtype &&
                        (dtype == FAC_F32 || dtype == FAC_F64 || fac_dtype_is_integral(dtype, false));
    fac_tensor *parts[3];
    for (size_t i = 0; i < 3; i++) {
        const size_t j = (i + 1) % 3, k = (i + 2) % 3;
        fac_tensor *first = mul(a.v[j], b.v[k]); /* products are rounded */
        parts[i] = in_one ? fac__s_addcmul(first, a.v[k], b.v[j], fac_scalar_i_(-1)) : sub(first, mul(a.v[k], b.v[j]));
        if (!parts[i]) return fac_error();
    }
    return fac__give(out, fac__s_stack((fac_tensors){parts, 3}, d));
}

/* Along dim, by default the first dimension of size 3. */
fac_status cross_composite(const fac_call_info *c, fac_tensor *self, fac_tensor *other, fac_opt_int dim,
                           fac_tensor **out) {
    (void)c;
    int64_t d = 0;
    while (!dim.set && d < self->ndim && self->sizes[d] != 3) d++;
    FAC_CHECK(dim.set || d < self->ndim, FAC_ERR_SHAPE, "no dimension of size 3 in input");
    return fac__c_linalg_cross(self, other, dim.set ? dim.v : d, out);
}

fac_status linalg_vecdot_composite(const fac_call_info *c, fac_tensor *x, fac_tensor *y, int64_t dim,
                                   fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return fac__give(out, sum_along(mul(fac__s_conj(x), y), dim, false));
}

/* The powers below `columns`, each on its own, with the products that many have. */
enum { FEW_POWERS = 16 };
static fac_tensor *few_powers(fac_tensor *x, int64_t columns) {
    fac_tensor *powers[FEW_POWERS], *power = x;
    powers[0] =
        fac__s_ones_like(x, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0}, FAC_FORMAT_DEFAULT);
    for (int64_t k = 1, more; k < columns; k += more) {
        more = fac__min(k, columns - k);
        powers[k] = power;
        for (int64_t i = 1; i < more; i++) powers[k + i] = mul(powers[i], power);
        if (k + more < columns) power = mul(power, power);
    }
    return fac_error()
               ? NULL
               : fac__s_contiguous(fac__s_movedim_int(fac__s_stack((fac_tensors){powers, (size_t)columns}, 0), 0, -1),
                                   FAC_CONTIGUOUS);
}

fac_status linalg_vander_composite(const fac_call_info *c, fac_tensor *x, fac_opt_int n, fac_tensor **out) {
    (void)c;
    int64_t columns = n.set ? n.v : x->ndim ? x->sizes[x->ndim - 1] : 1;
    FAC_CHECK(columns > 1, FAC_ERR_ARGUMENT, "N must be greater than 1.");
    FAC_SCOPE(s);
    if (is_integral(x)) x = cast(x, FAC_I64);
    /* What has no room as a whole is refused before parts of it are made. */
    if (!x || !fac__s_new_empty(x, FAC_INTS(columns, x->numel), FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0},
                                (fac_opt_num){0}))
        return fac_error();
    if (columns <= FEW_POWERS && x->ndim) return fac__give(out, few_powers(x, columns));
    fac_tensor *power = x->ndim ? fac__s_unsqueeze(x, 0) : fac__s_reshape(x, FAC_INTS(1, 1));
    fac_tensor *rows =
        fac__s_ones_like(power, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0}, FAC_FORMAT_DEFAULT);
    /* The powers below k, each a row, times the k-th are the next k. */
    for (int64_t k = 1, more; k < columns && rows; k += more) {
        more = fac__min(k, columns - k);
        rows = fac__s_cat(FAC_TENSORS(rows, mul(fac__s_narrow(rows, 0, 0, more), power)), 0);
        if (k + more < columns) power = mul(power, power);
    }
    return fac__give(out, fac__s_contiguous(fac__s_movedim_int(rows, 0, -1), FAC_CONTIGUOUS));
}

/* A vector in front is a row and one at the end a column; their dimension goes away again. */
static fac_status multi_dot(fac_tensors l, fac_tensor **room, fac_tensor **out) {
    FAC_SCOPE(s);
    memcpy(room, l.v, l.n * sizeof *room);
    bool row = l.v[0]->ndim == 1, column = l.v[l.n - 1]->ndim == 1;
    if (row) room[0] = fac__s_unsqueeze(room[0], 0);
    if (column) room[l.n - 1] = fac__s_unsqueeze(room[l.n - 1], -1);
    if (fac_error()) return fac_error();
    fac_tensor *product = fac__s_chain_matmul((fac_tensors){room, l.n});
    if (row) product = fac__s_squeeze_dim(product, 0);
    return fac__give(out, column ? fac__s_squeeze_dim(product, -1) : product);
}

fac_status linalg_multi_dot_composite(const fac_call_info *c, fac_tensors tensors, fac_tensor **out) {
    (void)c;
    FAC_CHECK(tensors.n >= 2, FAC_ERR_ARGUMENT, "expected at least 2 tensors but got %zu", tensors.n);
    fac_tensor **room = fac__alloc_array(tensors.n, sizeof *room);
    if (!room) return fac_error();
    fac_status st = multi_dot(tensors, room, out);
    fac__free(room);
    return st;
}

/* ---- differences and integrals -------------------------------------------------------------------------------------------- */

static fac_tensor *all_but(fac_tensor *t, int64_t dim, bool first) {
    int64_t n = t ? t->sizes[dim] : 0;
    return fac__s_narrow(t, dim, first && n > 0 ? 1 : 0, n > 0 ? n - 1 : 0);
}

static fac_tensor *joined(fac_tensor *before, fac_tensor *self, fac_tensor *after, int64_t dim) {
    fac_tensor *parts[3];
    size_t n = 0;
    if (before) parts[n++] = before;
    parts[n++] = self;
    if (after) parts[n++] = after;
    return n == 1 ? self : fac__s_cat((fac_tensors){parts, n}, dim);
}

fac_status diff_composite(const fac_call_info *c, fac_tensor *self, int64_t n, int64_t dim, fac_tensor *prepend,
                          fac_tensor *append, fac_tensor **out) {
    (void)c;
    FAC_CHECK(self->ndim > 0, FAC_ERR_SHAPE, "diff expects input to be at least one-dimensional");
    FAC_CHECK(n >= 0, FAC_ERR_ARGUMENT, "order must be non-negative but got %lld", (long long)n);
    int64_t d;
    FAC_TRY(fac__wrap_dim(dim, self->ndim, &d));
    FAC_SCOPE(s);
    if (n == 0) return fac__give(out, fac__s_clone(self, FAC_FORMAT_DEFAULT));
    fac_tensor *t = joined(prepend, self, append, d);
    if (t) n = fac__min(n, t->sizes[d]); /* nothing is left after as many differences as there are elements */
    if (t && n > 0 && (t->numel == 0 || t->device.type == FAC_META)) { /* nothing is computed: one gives the sizes */
        t = fac__s_narrow(t, d, 0, t->sizes[d] - (n - 1));
        n = 1;
    }
    for (; n > 0 && t; n--) {
        fac_tensor *later = all_but(t, d, true), *earlier = all_but(t, d, false);
        t = t->dtype == FAC_BOOL ? fac__s_logical_xor(later, earlier) : sub(later, earlier);
    }
    return fac__give(out, t);
}

/* The areas of the trapezoids between neighbours along dim; their widths are differences of x, or 2. */
static fac_tensor *trapezoids(fac_tensor *y, fac_tensor *x, int64_t dim) {
    fac_tensor *heights = add(all_but(y, dim, true), all_but(y, dim, false));
    if (!x) return heights;
    int64_t sizes[FAC_MAX_DIMS], xd = dim;
    if (x->ndim == 1) {
        for (int i = 0; i < y->ndim; i++) sizes[i] = i == dim ? x->numel : 1;
        x = fac__s_reshape(x, (fac_ints){sizes, y->ndim});
    } else {
        xd = dim - y->ndim + x->ndim;
    }
    if (!x || xd < 0) return NULL;
    return scaled(mul(sub(all_but(x, xd, true), all_but(x, xd, false)), heights), 0.5);
}

/* The sum along dim, of which the first and the last count by half: trapezoids of width 1. */
static fac_tensor *inner_and_half_ends(fac_tensor *y, int64_t dim) {
    fac_tensor *ends = add(fac__s_select_int(y, dim, 0), fac__s_select_int(y, dim, y->sizes[dim] - 1));
    return sub(sum_along(y, dim, false), scaled(ends, 0.5));
}

static fac_status integral(fac_tensor *y, fac_tensor *x, double dx, int64_t dim, bool cumulative, fac_tensor **out) {
    int64_t d;
    FAC_CHECK(y->dtype != FAC_BOOL && (!x || x->dtype != FAC_BOOL), FAC_ERR_DTYPE,
              "received a bool input, but bool is not supported");
    FAC_TRY(fac__wrap_dim(dim, y->ndim, &d));
    FAC_CHECK(y->ndim > 0 && (!x || (x->ndim > 0 && x->ndim <= y->ndim &&
                                     d - y->ndim + x->ndim >= (x->ndim == 1 ? -FAC_MAX_DIMS : 0))),
              FAC_ERR_SHAPE, "x must have as many dimensions as y, or one");
    FAC_SCOPE(s);
    if (!x && !cumulative && y->sizes[d] > 1) return fac__give(out, scaled(inner_and_half_ends(y, d), dx));
    fac_tensor *areas = trapezoids(y, x, d);
    if (cumulative) return fac__give(out, fac__s_cumsum(x ? areas : scaled(areas, dx / 2), d, FAC_DTYPE_DEFAULT));
    fac_tensor *sum = sum_along(areas, d, false);
    return fac__give(out, x ? sum : scaled(sum, dx / 2));
}

fac_status trapezoid_x_composite(const fac_call_info *c, fac_tensor *y, fac_tensor *x, int64_t dim, fac_tensor **out) {
    (void)c;
    return integral(y, x, 1, dim, false, out);
}

static fac_status check_width(fac_scalar dx) {
    FAC_CHECK(dx.kind == FAC_KIND_INT || dx.kind == FAC_KIND_FLOAT, FAC_ERR_DTYPE,
              "Currently, we only support dx as a real number.");
    return FAC_OK;
}

fac_status trapezoid_dx_composite(const fac_call_info *c, fac_tensor *y, fac_scalar dx, int64_t dim, fac_tensor **out) {
    (void)c;
    FAC_TRY(check_width(dx));
    return integral(y, NULL, fac__scalar_f64(dx), dim, false, out);
}

fac_status trapz_dx_composite(const fac_call_info *c, fac_tensor *y, double dx, int64_t dim, fac_tensor **out) {
    (void)c;
    return integral(y, NULL, dx, dim, false, out);
}

fac_status cumulative_trapezoid_x_composite(const fac_call_info *c, fac_tensor *y, fac_tensor *x, int64_t dim,
                                            fac_tensor **out) {
    (void)c;
    return integral(y, x, 1, dim, true, out);
}

fac_status cumulative_trapezoid_dx_composite(const fac_call_info *c, fac_tensor *y, fac_scalar dx, int64_t dim,
                                             fac_tensor **out) {
    (void)c;
    FAC_TRY(check_width(dx));
    return integral(y, NULL, fac__scalar_f64(dx), dim, true, out);
}
