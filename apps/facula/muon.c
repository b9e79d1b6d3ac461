/* Muon as a class of optimiser: options, state, step. */
#include "muon.h"
#include <math.h>
#include <stdlib.h>

/* ---- the kind ---- */

enum { LR, BETA1, BETA2, EPS, DECAY, ORTHOGONAL };
static const fac_option OPTIONS[] = {{"lr", 1e-3},           {"beta1", 0.9},    {"beta2", 0.95}, {"eps", 1e-8},
                                     {"weight_decay", 0.01}, {"orthogonal", 1}, {NULL, 0}};
static const char *const STATE[] = {"momentum", "exp_avg_sq", NULL};

static size_t state_count(const double *v) { return v[ORTHOGONAL] != 0 ? 1 : 2; }

/* x with all its singular values made about 1 (0.7 to 1.2): five steps of Newton and Schulz's iteration, s -> a s + b s^3 + c s^5
   for each of them, with the source's coefficients, which grow small values fast rather than end exactly at 1.
   x [rows, columns], rows <= columns */
static fac_tensor *orthogonal(fac_tensor *x) {
    x = fac_div(x, fac_add(fac_linalg_vector_norm(x), 1e-7));
    for (int i = 0; i < 5; i++) {
        fac_tensor *a = fac_matmul(x, fac_t(x));
        fac_tensor *b = fac_addmm(a, a, a, .beta = -4.7750, .alpha = 2.0315);
        x = fac_addmm(x, b, x, .beta = 3.4445);
    }
    return x;
}

/* The update's elements are about as large as Adam's, so that one rate serves both. source: Liu et al. 2025 */
static fac_status step_orthogonal(const fac_optimizer_update *u, double rate) {
    const double *v = u->options;
    fac_tensor *p = u->parameter, *m = u->state[0];
    const double rows = (double)fac_tensor_size(p, 0), columns = (double)fac_tensor_size(p, 1);
    fac_lerp_(m, u->grad, 1 - v[BETA1]);
    fac_tensor *x = fac_lerp(u->grad, m, v[BETA1]);
    x = rows > columns ? fac_t(orthogonal(fac_t(x))) : orthogonal(x);
    fac_sub_(p, x, .alpha = 0.2 * sqrt(fmax(rows, columns)) * rate);
    return fac_error();
}

/* source: Loshchilov, Hutter 2019 */
static fac_status step_adam(const fac_optimizer_update *u, double rate) {
    const double *v = u->options, step = (double)u->step;
    fac_tensor *m = u->state[0], *square = u->state[1];
    fac_lerp_(m, u->grad, 1 - v[BETA1]);
    fac_addcmul_(fac_mul_(square, v[BETA2]), u->grad, u->grad, .value = 1 - v[BETA2]);
    fac_tensor *root = fac_sqrt(fac_div(square, 1 - pow(v[BETA2], step)));
    fac_addcdiv_(u->parameter, m, fac_add_(root, v[EPS]), .value = -rate / (1 - pow(v[BETA1], step)));
    return fac_error();
}

static fac_status step(const fac_optimizer_update *u) {
    const double *v = u->options;
    fac_mul_(u->parameter, 1 - v[LR] * v[DECAY]);
    return v[ORTHOGONAL] != 0 ? step_orthogonal(u, v[LR]) : step_adam(u, v[LR]);
}

static const fac_optimizer_class muon_class = {
    .name = "Muon", .options = OPTIONS, .state = STATE, .step = step, .state_count = state_count};

/* ---- over a model ---- */

/* Puts the parameters that are made orthogonal at the end of the list; returns how many others there are. */
static size_t partition(const fac_state *all, bool (*orthogonal)(const fac_named *p), fac_tensor **list) {
    size_t n = 0, end = all->n;
    for (size_t i = 0; i < all->n; i++) {
        fac_tensor *t = all->v[i].tensor;
        if (orthogonal(&all->v[i]))
            list[--end] = t;
        else
            list[n++] = t;
    }
    return n;
}

static fac_optimizer *new_over(fac_tensor *const *list, size_t n_adam, size_t n, double lr, double decay) {
    fac_optimizer *o = fac_optimizer_of(&muon_class, fac_tensors_of(list, n_adam),
                                        FAC_OPTIONS({"lr", lr}, {"weight_decay", decay}, {"orthogonal", 0}));
    if (!o || n == n_adam) return o;
    if (!fac_optimizer_add_group(o, fac_tensors_of(list + n_adam, n - n_adam),
                                 FAC_OPTIONS({"beta1", 0.95}, {"orthogonal", 1})))
        return o;
    fac_optimizer_release(o);
    return NULL;
}

fac_optimizer *muon_new(fac_module *m, double lr, double weight_decay, bool (*orthogonal)(const fac_named *p)) {
    fac_state *all = fac_module_parameters(m);
    if (!all) return NULL;
    fac_tensor **list = calloc(all->n + 1, sizeof *list);
    fac_optimizer *o = list ? new_over(list, partition(all, orthogonal, list), all->n, lr, weight_decay) : NULL;
    if (!list) fac_error_set(FAC_ERR_MEMORY, "no memory for a list of parameters");
    free(list);
    fac_state_free(all);
    return o;
}
