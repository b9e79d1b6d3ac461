/* The adding problem: each token is a digit, marked or not, and two layers of long short-term memory tell the sum of the marked
   digits, in tenths. RMSprop with gradients clipped by their norm, and a rate that falls and starts anew.
   source: Hochreiter, Schmidhuber 1997 */
#include "training.h"

enum { TOKENS = 20, WIDTH = 12, HIDDEN = 32 };

typedef struct {
    fac_module *embedding, *lstm, *head;
} adder;

/* Tokens [N, T] -> sums [N]. */
static fac_tensor *adder_forward(fac_module *self, fac_tensor *tokens) {
    adder *a = fac_module_state(self);
    fac_tensor *all = fac_forward(a->lstm, fac_forward(a->embedding, tokens)); /* [N, T, HIDDEN] */
    return fac_squeeze_dim(fac_forward(a->head, fac_select(all, 1, -1)), 1);
}

static const fac_module_class adder_class = {
    .name = "Adder", .version = 1, .state_size = sizeof(adder), .forward = adder_forward};

static fac_module *adder_new(void) {
    fac_module *m = fac_module_new(&adder_class);
    if (!m) return NULL;
    adder *a = fac_module_state(m);
    a->embedding = fac_module_add(m, "embedding", fac_embedding_new(TOKENS, WIDTH));
    a->lstm = fac_module_add(m, "lstm", fac_lstm_new(WIDTH, HIDDEN, .num_layers = 2, .batch_first = true));
    a->head = fac_module_add(m, "head", fac_linear_new(HIDDEN, 1));
    return m;
}

static fac_status begin(training *t) {
    t->model = adder_new();
    t->optimizer[0] = fac_rmsprop_new(t->model, 3e-3, .alpha = 0.9, .momentum = 0.5, .centered = true, .eps = 1e-3);
    t->schedule[0] = fac_cosine_annealing_warm_restarts_new(t->optimizer[0], 20, .T_mult = 2, .eta_min = 1e-4);
    return fac_error();
}

static fac_status step(training *t, double *losses) {
    fac_tensor *loss = fac_mse_loss(fac_forward(t->model, given_now(t, "tokens")), given_now(t, "sums"));
    losses[0] = fac_item(loss);
    fac_optimizer_zero_grad(t->optimizer[0]);
    if (fac_backward(loss) ||
        fac_clip_grad_norm(fac_optimizer_parameters(t->optimizer[0]), 0.5, .error_if_nonfinite = true) ||
        fac_optimizer_step(t->optimizer[0]))
        return fac_error();
    return fac_lr_scheduler_step(t->schedule[0]);
}

const training_kind lstm = {"lstm", 1, begin, step};
