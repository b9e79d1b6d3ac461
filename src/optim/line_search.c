/* A line search for the strong Wolfe conditions: brackets a place, then narrows the bracket by cubic interpolation.
   source: Nocedal, Wright 2006, algorithms 3.5 and 3.6; PyTorch's _strong_wolfe, whose numbers these are */
#include "optim/lbfgs.h"
#include <facula/ops.h>
#include <math.h>

static const double C1 = 1e-4, C2 = 0.9, LEAST_CHANGE = 1e-9;

typedef struct search {
    const fac_lbfgs_step *step;
    fac_tensor *d;
    fac_tensor **begin; /* copies of the parameters */
    fac_lbfgs_point start, prev, now, bracket[2];
    int64_t most, iter;
    bool done;
} search;

static void set_point(fac_lbfgs_point *to, const fac_lbfgs_point *from) {
    fac__lbfgs_hold(&to->grad, from->grad);
    to->t = from->t, to->loss = from->loss, to->slope = from->slope;
}

/* search->now at t; the parameters are where they were. */
static fac_status look_at(search *s, double t) {
    FAC_SCOPE(scope);
    const fac_tensors p = fac_optimizer_parameters(s->step->o);
    fac_tensor *grad = NULL;
    FAC_TRY(fac__lbfgs_move(s->step, t, s->d));
    fac_status st = fac__lbfgs_evaluate(s->step, &s->now.loss, &grad);
    fac_release(s->now.grad);
    s->now.grad = grad;
    s->now.t = t;
    for (size_t i = 0; i < p.n && !st; i++) (void)fac_copy_(p.v[i], s->begin[i]);
    if (!st) s->now.slope = fac__lbfgs_dot(grad, s->d);
    return st ? st : fac_error();
}

/* Where the cubic through two places and their slopes is least, within bounds. */
static double cubic(const fac_lbfgs_point *a, const fac_lbfgs_point *b, double least, double most) {
    const double d1 = a->slope + b->slope - 3 * (a->loss - b->loss) / (a->t - b->t),
                 square = d1 * d1 - a->slope * b->slope;
    if (!(square >= 0)) return (least + most) / 2;
    const double d2 = sqrt(square);
    const double at = a->t <= b->t ? b->t - (b->t - a->t) * ((b->slope + d2 - d1) / (b->slope - a->slope + 2 * d2))
                                   : a->t - (a->t - b->t) * ((a->slope + d2 - d1) / (a->slope - b->slope + 2 * d2));
    return fmin(fmax(at, least), most);
}

static bool rises(const search *s) { return s->now.loss > s->start.loss + C1 * s->now.t * s->start.slope; }
static bool is_flat(const search *s) { return fabs(s->now.slope) <= -C2 * s->start.slope; }

/* Goes out until a place is found, or a bracket around one. */
static fac_status go_out(search *s, double t) {
    FAC_TRY(look_at(s, t));
    const fac_lbfgs_point *from = &s->start;
    for (; s->iter < s->most; s->iter++) {
        from = &s->prev;
        if (rises(s) || (s->iter > 1 && s->now.loss >= s->prev.loss)) break;
        if (is_flat(s)) {
            s->done = true;
            from = &s->now;
            break;
        }
        if (s->now.slope >= 0) break;
        const double next = cubic(&s->prev, &s->now, s->now.t + 0.01 * (s->now.t - s->prev.t), s->now.t * 10);
        set_point(&s->prev, &s->now);
        FAC_TRY(look_at(s, next));
        from = &s->start;
    }
    set_point(&s->bracket[0], from);
    set_point(&s->bracket[1], &s->now);
    return FAC_OK;
}

/* The next place in the bracket; one close to an end is moved off it if the last was too. */
static double inside(const search *s, bool *slow) {
    const fac_lbfgs_point *b = s->bracket;
    const double least = fmin(b[0].t, b[1].t), most = fmax(b[0].t, b[1].t), margin = 0.1 * (most - least);
    double t = cubic(&b[0], &b[1], least, most);
    const bool close = fmin(most - t, t - least) < margin, move = close && (*slow || t >= most || t <= least);
    *slow = close && !move;
    if (move) t = fabs(t - most) < fabs(t - least) ? most - margin : least + margin;
    return t;
}

/* Narrows the bracket; *low is its better end. */
static fac_status narrow(search *s, int *low) {
    const double longest = fac__lbfgs_most(s->d);
    fac_lbfgs_point *b = s->bracket;
    bool slow = false;
    *low = b[0].loss <= b[1].loss ? 0 : 1;
    while (!s->done && s->iter < s->most && !(fabs(b[1].t - b[0].t) * longest < LEAST_CHANGE)) {
        FAC_TRY(look_at(s, inside(s, &slow)));
        s->iter++;
        if (rises(s) || s->now.loss >= b[*low].loss) {
            set_point(&b[!*low], &s->now);
            *low = b[0].loss <= b[1].loss ? 0 : 1;
            continue;
        }
        s->done = is_flat(s);
        if (!s->done && s->now.slope * (b[!*low].t - b[*low].t) >= 0) set_point(&b[!*low], &b[*low]);
        set_point(&b[*low], &s->now);
    }
    return FAC_OK;
}

static fac_status copy_parameters(search *s, fac_tensors p) {
    s->begin = fac__alloc_array(p.n, sizeof *s->begin);
    for (size_t i = 0; s->begin && i < p.n; i++) s->begin[i] = fac_clone(p.v[i]);
    return fac_error();
}

fac_status fac__lbfgs_search(const fac_lbfgs_step *step, fac_tensor *d, int64_t most, fac_lbfgs_point *point,
                             int64_t *evals) {
    FAC_SCOPE(scope);
    search s = {.step = step, .d = d, .most = most};
    int low = 0;
    set_point(&s.start, point);
    s.start.t = 0;
    set_point(&s.prev, &s.start);
    fac_status st = copy_parameters(&s, fac_optimizer_parameters(step->o));
    if (!st) st = go_out(&s, point->t);
    if (!st) st = narrow(&s, &low);
    if (!st) set_point(point, &s.bracket[low]);
    *evals = s.iter + 1;
    fac_lbfgs_point *const all[] = {&s.start, &s.prev, &s.now, &s.bracket[0], &s.bracket[1]};
    for (size_t i = 0; i < FAC_COUNT(all); i++) fac_release(all[i]->grad);
    fac__free(s.begin);
    return st ? st : fac_error();
}
