/* A training that is cut off and goes on: from its checkpoint it reaches the same weights, bit for bit, as without the cut.

   Shows what a training consists of besides its weights, putting it all into one file that is whole whatever happens, and taking
   it up again in a program that has just begun.

       cc resume.c $(pkg-config --cflags --libs facula) -o resume && ./resume [steps]

   Trains in one go, then again with a cut in the middle, through the file resume.safetensors, which is removed in the end. Prints
   the losses on both ways. Returns 1 if a weight differs. */
#include <facula/facula.h>
#include <stdlib.h>

static const char PATH[] = "resume.safetensors";

/* What a training consists of, but for random numbers: those are the library's. */
typedef struct {
    fac_module *model;
    fac_optimizer *adam;
    int64_t step;
} training;

static training begin(uint64_t seed) {
    fac_manual_seed(seed);
    fac_module *model =
        fac_sequential(fac_linear_new(8, 64), fac_gelu_new(), fac_dropout_new(0.1), fac_linear_new(64, 1));
    return (training){.model = model, .adam = fac_adamw_new(model, 3e-3)};
}

static void end(training *t) {
    fac_optimizer_release(t->adam);
    fac_module_release(t->model);
}

/* Goes on to step `until` of `total`, with random data, dropout, and a rate that depends on the step. */
static void go_on(training *t, int64_t until, int64_t total) {
    const fac_cosine_schedule rate = {.peak = 3e-3, .warmup = 10, .total = total};
    while (t->step < until) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_randn(FAC_SHAPE(64, 8)), *y = fac_sum(fac_sin(x), 1, .keepdim = true);
        fac_tensor *loss = fac_mse_loss(fac_forward(t->model, x), y);
        fac_optimizer_set_lr(t->adam, fac_cosine_lr(&rate, t->step));
        fac_optimizer_zero_grad(t->adam);
        if (fac_backward(loss) || fac_optimizer_step(t->adam)) return;
        if (++t->step % 500 == 0) printf("    step %4d   loss %.6f\n", (int)t->step, fac_item(loss));
    }
}

/* ---- the checkpoint: one list of named tensors ---- */

static void save(const training *t) {
    FAC_SCOPE(s);
    uint64_t random[2]; /* seed and place in the sequence of the generator that all draw from */
    fac_generator_get_state(NULL, &random[0], &random[1]);
    fac_state *all = fac_state_new(), *model = fac_module_state_dict(t->model),
              *adam = fac_optimizer_state_dict(t->adam);
    if (!fac_state_add(all, "model.", model) && !fac_state_add(all, "optimizer.", adam) &&
        !fac_state_set(all, "step", fac_full(FAC_SHAPE(), t->step, .dtype = FAC_I64)) &&
        !fac_state_set(all, "random", fac_tensor_from(random, FAC_I64, FAC_SHAPE(2))) && !fac_state_save(all, PATH))
        printf("    saved %zu tensors at step %d\n", all->n, (int)t->step);
    fac_state_free(adam);
    fac_state_free(model);
    fac_state_free(all);
}

static void load(training *t) {
    uint64_t random[2];
    fac_state *all = fac_state_load(PATH), *model = fac_state_part(all, "model."),
              *adam = fac_state_part(all, "optimizer.");
    if (!fac_module_load_state_dict(t->model, model) && !fac_optimizer_load_state_dict(t->adam, adam) &&
        !fac_tensor_read(fac_state_get(all, "random"), FAC_I64, random, 2)) {
        fac_generator_set_state(NULL, random[0], random[1]);
        t->step = fac_item_int(fac_state_get(all, "step"));
    }
    fac_state_free(adam);
    fac_state_free(model);
    fac_state_free(all);
}

/* Whether two models have the same weights, to the last bit. */
static bool same(fac_module *a, fac_module *b) {
    fac_state *of_a = fac_module_parameters(a), *of_b = fac_module_parameters(b);
    bool all = of_a && of_b && of_a->n == of_b->n;
    for (size_t i = 0; all && i < of_a->n; i++) all = fac_equal(of_a->v[i].tensor, of_b->v[i].tensor);
    fac_state_free(of_b);
    fac_state_free(of_a);
    return all;
}

int main(int argc, char **argv) {
    const int total = argc > 1 ? atoi(argv[1]) : 2000;
    FAC_SCOPE(s);
    puts("in one go:");
    training whole = begin(1);
    go_on(&whole, total, total);

    puts("with a cut:");
    training first = begin(1);
    go_on(&first, total / 2, total);
    save(&first);
    end(&first); /* here the computer is switched off */

    training second = begin(2); /* with other weights and random numbers, until it loads those that were saved */
    load(&second);
    remove(PATH);
    go_on(&second, total, total);

    if (!same(whole.model, second.model))
        fac_error_set(FAC_ERR_STATE, "the weights are not the same");
    else
        puts("the weights are the same, bit for bit");
    end(&second);
    end(&whole);
    return fac_report(stderr);
}
