/* LBFGS: Newton's steps with the inverse of the curvature that the last steps have shown.
   source: Nocedal, Wright 2006, algorithm 7.4; the order of operations, and where a step ends, are PyTorch's */
#include "optim/lbfgs.h"
#include "core/handle.h"
#include <facula/ops.h>
#include <math.h>

static const char *const searches[] = {"strong_wolfe", NULL};
static double search_of(const char *given) {
    return given ? 1 + fac__optim_choice("fac_lbfgs", "line_search_fn", given, searches) : 0;
}
#define LBFGS(X, Y)                                                                      \
    X(max_iter, 20)                                                                      \
    Y(max_eval, 25, (double)(k.max_eval == FAC_UNSET ? k.max_iter * 5 / 4 : k.max_eval)) \
    X(tolerance_grad, 1e-7)                                                              \
    X(tolerance_change, 1e-9) X(history_size, 100) Y(line_search_fn, 0, search_of(k.line_search_fn)) X(maximize, 0)
FAC_KIND(lbfgs, 1, LBFGS)

static bool is_whole(double x) { return x == floor(x) && fabs(x) < 0x1p53; }
static bool is_count(double x) { return x >= 0 && is_whole(x); }

static fac_status check(const double *values) {
    FAC_KIND_OPTIONS(lbfgs, v, values);
    FAC_CHECK(is_whole(v->max_iter) && is_whole(v->max_eval), FAC_ERR_ARGUMENT,
              "max_iter and max_eval should be whole numbers, but are %g and %g", v->max_iter, v->max_eval);
    FAC_CHECK(is_whole(v->history_size) && v->history_size > 0, FAC_ERR_ARGUMENT,
              "history_size should be a whole number from 1, but is %g", v->history_size);
    FAC_CHECK(v->line_search_fn == 0 || v->line_search_fn == 1, FAC_ERR_ARGUMENT,
              "line_search_fn should be 0 or 1, but is %g", v->line_search_fn);
    return FAC_OK;
}

/* ---- what is kept ---------------------------------------------------------------------------------------------------------- */

/* What a step has changed in the gradient, and in the parameters, and one over their product. */
typedef struct pair {
    fac_tensor *dir, *stp; /* owned */
    double ro;
} pair;

typedef struct lbfgs {
    int64_t n_iter, func_evals;
    double t, h_diag, prev_loss;
    fac_tensor *d, *prev_grad; /* owned */
    struct {
        pair *v;
        size_t n, cap;
    } old;
} lbfgs;

static void free_pair(const pair *p) {
    fac_release(p->dir);
    fac_release(p->stp);
}

static void release(void *whole) {
    lbfgs *l = whole;
    for (size_t i = 0; i < l->old.n; i++) free_pair(&l->old.v[i]);
    fac__free(l->old.v);
    fac_release(l->d);
    fac_release(l->prev_grad);
    fac__free(l);
}

void fac__lbfgs_hold(fac_tensor **slot, fac_tensor *t) {
    if (!t) return;
    fac_keep(t);
    fac_release(*slot);
    *slot = t;
}

/* The oldest goes if there are `most`. */
static fac_status remember(lbfgs *l, fac_tensor *dir, fac_tensor *stp, double product, size_t most) {
    FAC_TRY(FAC_VEC_GROW(&l->old));
    while (l->old.n >= most) {
        free_pair(&l->old.v[0]);
        memmove(l->old.v, l->old.v + 1, --l->old.n * sizeof *l->old.v);
    }
    l->old.v[l->old.n++] = (pair){fac_keep(dir), fac_keep(stp), 1 / product};
    return fac_error();
}

/* ---- vectors of all parameters ---------------------------------------------------------------------------------------------- */

double fac__lbfgs_dot(fac_tensor *a, fac_tensor *b) { return fac_item(fac_dot(a, b)); }
double fac__lbfgs_most(fac_tensor *a) { return fac_item(fac_linalg_vector_norm(a, .ord = INFINITY)); }

static fac_tensor *flat_grad(fac_tensor *p) {
    fac_tensor *g = fac_grad_of(p);
    if (!g)
        return fac_zeros(FAC_INTS(fac_tensor_numel(p)), .dtype = fac_tensor_dtype(p), .device = fac_tensor_device(p));
    if (fac_tensor_layout(g) != FAC_STRIDED) g = fac_to_dense(g);
    return fac_reshape(g, FAC_INTS(-1));
}

fac_status fac__lbfgs_evaluate(const fac_lbfgs_step *s, double *loss, fac_tensor **grad) {
    FAC_SCOPE(scope);
    const fac_tensors p = fac_optimizer_parameters(s->o);
    FAC_TRY(fac__optim_call_closure(s->closure, s->context, loss));
    fac_tensor **parts = fac__alloc_array(p.n, sizeof *parts);
    if (!parts) return fac_error();
    for (size_t i = 0; i < p.n; i++) parts[i] = flat_grad(p.v[i]);
    fac_tensor *all = fac_cat(fac_tensors_of(parts, p.n));
    fac__free(parts);
    if (s->maximize) {
        *loss = -*loss;
        all = fac_neg(all);
    }
    if (fac_error()) return fac_error();
    fac__lbfgs_hold(grad, all);
    return FAC_OK;
}

fac_status fac__lbfgs_move(const fac_lbfgs_step *s, double t, fac_tensor *direction) {
    const fac_tensors p = fac_optimizer_parameters(s->o);
    int64_t begin = 0;
    for (size_t i = 0; i < p.n; i++) {
        FAC_SCOPE(scope);
        const int64_t n = fac_tensor_numel(p.v[i]);
        (void)fac_add_(p.v[i], fac_view_as(fac_narrow(direction, 0, begin, n), p.v[i]), .alpha = t);
        begin += n;
    }
    return fac_error();
}

/* ---- a step ---------------------------------------------------------------------------------------------------------------- */

/* -H grad, where H is made of the pairs. */
static fac_tensor *newton(const lbfgs *l, fac_tensor *grad) {
    double *al = fac__alloc_array(l->old.n, sizeof *al);
    if (!al) return NULL;
    fac_tensor *q = fac_neg(grad);
    for (size_t i = l->old.n; i-- > 0;) {
        const pair *p = &l->old.v[i];
        al[i] = fac__lbfgs_dot(p->stp, q) * p->ro;
        (void)fac_add_(q, p->dir, .alpha = -al[i]);
    }
    (void)fac_mul_(q, l->h_diag);
    for (size_t i = 0; i < l->old.n; i++) {
        const pair *p = &l->old.v[i];
        (void)fac_add_(q, p->stp, .alpha = al[i] - fac__lbfgs_dot(p->dir, q) * p->ro);
    }
    fac__free(al);
    return fac_error() ? NULL : q;
}

/* The direction of iteration l->n_iter. */
static fac_status turn(lbfgs *l, const lbfgs_options *v, fac_tensor *grad) {
    FAC_SCOPE(scope);
    if (l->n_iter == 1 || !l->d) {
        l->h_diag = 1;
        fac__lbfgs_hold(&l->d, fac_neg(grad));
    } else {
        fac_tensor *y = fac_sub(grad, l->prev_grad), *s = fac_mul(l->d, l->t);
        const double product = fac__lbfgs_dot(y, s);
        if (fac_error()) return fac_error();
        if (product > 1e-10) {
            FAC_TRY(remember(l, y, s, product, (size_t)v->history_size));
            l->h_diag = product / fac__lbfgs_dot(y, y);
        }
        fac__lbfgs_hold(&l->d, newton(l, grad));
    }
    fac__lbfgs_hold(&l->prev_grad, fac_clone(grad));
    return fac_error();
}

/* Goes along the direction, to *now, which it evaluates unless it is the last place. */
static fac_status go(const fac_lbfgs_step *s, lbfgs *l, const lbfgs_options *v, int64_t left, bool last,
                     fac_lbfgs_point *now, int64_t *evals) {
    *evals = 0;
    now->t = l->t;
    if (v->line_search_fn != 0) {
        FAC_TRY(fac__lbfgs_search(s, l->d, left, now, evals));
        l->t = now->t;
        return fac__lbfgs_move(s, l->t, l->d);
    }
    FAC_TRY(fac__lbfgs_move(s, l->t, l->d));
    if (last) return FAC_OK;
    *evals = 1;
    return fac__lbfgs_evaluate(s, &now->loss, &now->grad);
}

static fac_status iterate(const fac_lbfgs_step *s, lbfgs *l, const lbfgs_options *v, fac_lbfgs_point *now) {
    int64_t evals = 1, more;
    for (int64_t i = 1; i <= (int64_t)v->max_iter; i++) {
        FAC_SCOPE(scope);
        l->n_iter++;
        FAC_TRY(turn(l, v, now->grad));
        l->prev_loss = now->loss;
        l->t = l->n_iter == 1 ? fmin(1, 1 / fac_item(fac_linalg_vector_norm(now->grad, .ord = 1))) * v->lr : v->lr;
        now->slope = fac__lbfgs_dot(now->grad, l->d);
        if (fac_error() || now->slope > -v->tolerance_change) break;
        FAC_TRY(go(s, l, v, (int64_t)v->max_eval - evals, i == (int64_t)v->max_iter, now, &more));
        evals += more;
        l->func_evals += more;
        if ((double)evals >= v->max_eval || fac__lbfgs_most(now->grad) <= v->tolerance_grad) break;
        if (fac__lbfgs_most(l->d) * fabs(l->t) <= v->tolerance_change) break;
        if (fabs(now->loss - l->prev_loss) < v->tolerance_change || fac_error()) break;
    }
    return fac_error();
}

static fac_status step(fac_optimizer *o, fac_tensor *(*closure)(void *context), void *context, double *out) {
    FAC_KIND_OPTIONS(lbfgs, v, o->groups.v[0].options);
    const fac_lbfgs_step s = {o, closure, context, v->maximize != 0};
    fac_lbfgs_point now = {0};
    FAC_SCOPE(scope);
    for (size_t i = 0; i < o->list.n; i++) FAC_TRY(fac__optim_check_floating(o->list.v[i]));
    if (!o->whole) o->whole = fac__alloc_zero(sizeof(lbfgs));
    lbfgs *l = o->whole;
    if (!l) return fac_error();
    fac_status st = fac__lbfgs_evaluate(&s, &now.loss, &now.grad);
    if (!st) {
        *out = s.maximize ? -now.loss : now.loss;
        l->func_evals++;
        const double most = fac__lbfgs_most(now.grad);
        st = fac_error();
        if (!st && !(most <= v->tolerance_grad)) st = iterate(&s, l, v, &now);
    }
    fac_release(now.grad);
    return st;
}

/* ---- state ------------------------------------------------------------------------------------------------------------------ */

/* Entries are named as PyTorch's, which are those of the first parameter. */
enum { N_ITER, FUNC_EVALS, T, H_DIAG, PREV_LOSS, RO, NUMBERS, D = NUMBERS, PREV_GRAD, DIRS, STPS, ENTRIES };
static const char *const names[ENTRIES] = {"0.n_iter",    "0.func_evals", "0.t", "0.H_diag",
                                           "0.prev_loss", "0.ro",         "0.d", "0.prev_flat_grad",
                                           "0.old_dirs",  "0.old_stps"};

static fac_status put_history(const lbfgs *l, fac_state *s) {
    FAC_SCOPE(scope);
    const size_t n = l->old.n;
    double *ro = fac__alloc_array(n, sizeof *ro);
    fac_tensor **rows = fac__alloc_array(2 * n, sizeof *rows);
    for (size_t i = 0; ro && rows && i < n; i++)
        ro[i] = l->old.v[i].ro, rows[i] = l->old.v[i].dir, rows[n + i] = l->old.v[i].stp;
    fac_status st = ro && rows ? FAC_OK : fac_error();
    if (!st) st = fac_state_set(s, names[RO], fac_tensor_from(ro, FAC_F64, FAC_INTS((int64_t)n)));
    if (!st) st = fac_state_set(s, names[DIRS], fac_stack(fac_tensors_of(rows, n)));
    if (!st) st = fac_state_set(s, names[STPS], fac_stack(fac_tensors_of(rows + n, n)));
    fac__free(ro);
    fac__free(rows);
    return st;
}

static fac_status save(const fac_optimizer *o, fac_state *s) {
    FAC_SCOPE(scope);
    const lbfgs *l = o->whole;
    const double numbers[] = {(double)l->n_iter, (double)l->func_evals, l->t, l->h_diag, l->prev_loss};
    for (size_t i = 0; i < FAC_COUNT(numbers); i++)
        FAC_TRY(fac_state_set(s, names[i], fac_tensor_from(&numbers[i], FAC_F64, FAC_INTS())));
    if (!l->d) return FAC_OK;
    FAC_TRY(fac_state_set(s, names[D], l->d));
    FAC_TRY(fac_state_set(s, names[PREV_GRAD], l->prev_grad));
    return l->old.n ? put_history(l, s) : FAC_OK;
}

/* An entry as it will be kept: of the dtype and device of the parameters, of `ndim` dimensions, the last of all of them. */
static fac_tensor *vector_of(const fac_optimizer *o, const fac_state *s, int entry, int ndim) {
    fac_tensor *t = fac_state_get(s, names[entry]), *p = o->list.v[0];
    int64_t n = 0;
    for (size_t i = 0; i < o->list.n; i++) n += fac_tensor_numel(o->list.v[i]);
    if (!t)
        (void)FAC_FAIL(FAC_ERR_NOT_FOUND, "the state has no %s", names[entry]);
    else if (fac_tensor_ndim(t) != ndim || fac_tensor_size(t, -1) != n)
        (void)FAC_FAIL(FAC_ERR_SHAPE, "%s has the shape %s in the state, but the parameters have %lld elements",
                       names[entry], FAC_SHAPE_TEXT(fac__header(t)), (long long)n);
    return fac_error() ? NULL : fac_clone(fac_to(t, .dtype = fac_tensor_dtype(p), .device = fac_tensor_device(p)));
}

static fac_status load_history(const fac_optimizer *o, const fac_state *s, lbfgs *l) {
    fac_tensor *dirs = vector_of(o, s, DIRS, 2), *stps = vector_of(o, s, STPS, 2), *ro = fac_state_get(s, names[RO]);
    if (fac_error()) return fac_error();
    const int64_t n = fac_tensor_size(dirs, 0);
    FAC_CHECK(ro && fac_tensor_numel(ro) == n && fac_tensor_size(stps, 0) == n, FAC_ERR_SHAPE,
              "the state has histories of different lengths");
    for (int64_t i = 0; i < n; i++) {
        fac_tensor *dir = fac_clone(fac_select(dirs, 0, i)), *stp = fac_clone(fac_select(stps, 0, i));
        const double one = fac_item(fac_select(ro, 0, i));
        if (fac_error()) return fac_error();
        FAC_TRY(remember(l, dir, stp, 1, SIZE_MAX));
        l->old.v[l->old.n - 1].ro = one;
    }
    return FAC_OK;
}

static fac_status load_all(const fac_optimizer *o, const fac_state *s, lbfgs *l) {
    double numbers[RO];
    FAC_SCOPE(scope);
    for (int i = 0; i < RO; i++) {
        fac_tensor *t = fac_state_get(s, names[i]);
        FAC_CHECK(t && fac_tensor_numel(t) == 1, FAC_ERR_NOT_FOUND, "the state has no %s", names[i]);
        numbers[i] = fac_item(t);
    }
    FAC_CHECK(is_count(numbers[N_ITER]) && is_count(numbers[FUNC_EVALS]), FAC_ERR_ARGUMENT,
              "the counts of the state are %g and %g", numbers[N_ITER], numbers[FUNC_EVALS]);
    *l = (lbfgs){.n_iter = (int64_t)numbers[N_ITER],
                 .func_evals = (int64_t)numbers[FUNC_EVALS],
                 .t = numbers[T],
                 .h_diag = numbers[H_DIAG],
                 .prev_loss = numbers[PREV_LOSS]};
    if (!fac_state_get(s, names[D])) return fac_error();
    fac__lbfgs_hold(&l->d, vector_of(o, s, D, 1));
    fac__lbfgs_hold(&l->prev_grad, vector_of(o, s, PREV_GRAD, 1));
    if (fac_error()) return fac_error();
    return fac_state_get(s, names[RO]) ? load_history(o, s, l) : FAC_OK;
}

static fac_status load(const fac_optimizer *o, const fac_state *s, void **out, size_t *taken) {
    FAC_NO_GRAD(g);
    for (int i = 0; i < ENTRIES; i++) *taken += fac_state_get(s, names[i]) != NULL;
    if (!fac_state_get(s, names[N_ITER])) return FAC_OK;
    *out = fac__alloc_zero(sizeof(lbfgs));
    return *out ? load_all(o, s, *out) : fac_error();
}

/* ---- the kind --------------------------------------------------------------------------------------------------------------- */

static fac_status never(const fac_optimizer_update *u) {
    (void)u;
    return FAC_FAIL(FAC_ERR_UNSUPPORTED, "LBFGS steps all parameters together");
}

static const fac_optim_whole whole = {step, release, save, load};
const fac_optim_kind fac__lbfgs_kind = {
    .cls = {.own = &fac__lbfgs_kind, .name = "LBFGS", .options = lbfgs_list, .step = never, .check_options = check},
    .whole = &whole};
