/* Trains one of the models of this folder: models NAME f32|f64 STEPS FOLDER [CUT]. compare.py runs it beside PyTorch.

   FOLDER/given.safetensors holds the weights to begin with, "model.*", and what the model's file asks for. Each name, dtype and
   shape of the model's state dict is printed; losses and the state in the end are written to FOLDER/got.safetensors. With a
   CUT the training ends after so many steps, and another one, of other weights, goes on from what was saved. */
#include "training.h"
#include <stdlib.h>
#include <string.h>

fac_tensor *given_now(const training *t, const char *name) {
    fac_tensor *now = fac_select(fac_state_get(t->given, name), 0, t->step);
    return now && fac_dtype_is_floating(fac_tensor_dtype(now)) ? fac_to_dtype(now, fac_default_dtype()) : now;
}

fac_status learn(training *t, fac_tensor *loss) {
    fac_optimizer_zero_grad(t->optimizer[0]);
    if (fac_backward(loss) || fac_optimizer_step(t->optimizer[0])) return fac_error();
    return fac_lr_scheduler_step(t->schedule[0]);
}

static void end(training *t) {
    for (int i = 0; i < PARTS; i++) {
        fac_lr_scheduler_release(t->schedule[i]);
        fac_optimizer_release(t->optimizer[i]);
        t->schedule[i] = NULL;
        t->optimizer[i] = NULL;
    }
    fac_loader_release(t->loader);
    fac_module_release(t->model);
    t->loader = NULL;
    t->model = NULL;
}

/* ---- a checkpoint: one list of named tensors ---- */

/* Adds the entries of `part` under a prefix with a number, "optimizer.0.", and frees it. */
static fac_status add(fac_state *all, const char *prefix, int number, fac_state *part) {
    char name[32];
    snprintf(name, sizeof name, "%s%d.", prefix, number);
    const fac_status status = part ? fac_state_add(all, name, part) : fac_error();
    fac_state_free(part);
    return status;
}

/* The entries under such a prefix. */
static fac_state *part(const fac_state *all, const char *prefix, int number) {
    char name[32];
    snprintf(name, sizeof name, "%s%d.", prefix, number);
    return fac_state_part(all, name);
}

static fac_status save(const training *t, const char *path) {
    FAC_SCOPE(s);
    fac_state *all = fac_state_new();
    fac_status status = all ? FAC_OK : fac_error();
    if (!status) status = add(all, "model.", 0, fac_module_state_dict(t->model));
    for (int i = 0; i < PARTS && t->optimizer[i] && !status; i++) {
        status = add(all, "optimizer.", i, fac_optimizer_state_dict(t->optimizer[i]));
        if (!status) status = add(all, "schedule.", i, fac_lr_scheduler_state_dict(t->schedule[i]));
    }
    if (t->loader && !status) {
        const fac_data_state at = fac_loader_get_state(t->loader);
        const int64_t place[4] = {at.epoch, at.at, at.length, at.seed};
        status = fac_state_set(all, "loader", fac_tensor_from(place, FAC_I64, FAC_SHAPE(4)));
    }
    if (!status) status = fac_state_save(all, path);
    fac_state_free(all);
    return status;
}

static fac_status load(training *t, const char *path) {
    FAC_SCOPE(s);
    fac_state *all = fac_state_load(path), *model = part(all, "model.", 0);
    fac_status status = fac_module_load_state_dict(t->model, model);
    fac_state_free(model);
    for (int i = 0; i < PARTS && t->optimizer[i] && !status; i++) {
        fac_state *optimizer = part(all, "optimizer.", i), *schedule = part(all, "schedule.", i);
        status = fac_optimizer_load_state_dict(t->optimizer[i], optimizer);
        if (!status) status = fac_lr_scheduler_load_state_dict(t->schedule[i], schedule);
        fac_state_free(schedule);
        fac_state_free(optimizer);
    }
    int64_t place[4];
    if (t->loader && !status) status = fac_tensor_read(fac_state_get(all, "loader"), FAC_I64, place, 4);
    if (t->loader && !status)
        status = fac_loader_set_state(t->loader, (fac_data_state){place[0], place[1], place[2], place[3]});
    fac_state_free(all);
    return status;
}

/* ---- the run ---- */

static fac_status load_given(training *t) {
    fac_state *weights = fac_state_part(t->given, "model.");
    const fac_status status = fac_module_load_state_dict(t->model, weights);
    fac_state_free(weights);
    return status;
}

/* A line for each entry of the state dict: "fc1.weight f32 64 144". */
static fac_status show(fac_module *model) {
    fac_state *state = fac_module_state_dict(model);
    for (size_t i = 0; state && i < state->n; i++) {
        fac_tensor *x = state->v[i].tensor;
        printf("%s %s", state->v[i].name, fac_dtype_name(fac_tensor_dtype(x)));
        for (int d = 0; d < fac_tensor_ndim(x); d++) printf(" %lld", (long long)fac_tensor_size(x, d));
        putchar('\n');
    }
    fac_state_free(state);
    return fac_error();
}

/* Ends a training as if the computer were switched off, and begins another, which loads what the first has saved. */
static fac_status cut(const training_kind *kind, training *t, const char *path) {
    if (save(t, path)) return fac_error();
    end(t);
    fac_manual_seed(2);
    return kind->begin(t) || load(t, path) ? fac_error() : FAC_OK;
}

static fac_status run(const training_kind *kind, training *t, int64_t cut_at, double *losses) {
    char path[1024];
    snprintf(path, sizeof path, "%s/checkpoint.safetensors", t->folder);
    fac_manual_seed(1);
    if (kind->begin(t) || load_given(t) || show(t->model)) return fac_error();
    for (t->step = 0; t->step < t->steps; t->step++) {
        FAC_SCOPE(s);
        if (cut_at && t->step == cut_at && cut(kind, t, path)) return fac_error();
        if (kind->step(t, losses + (size_t)t->step * kind->n_losses)) return fac_error();
    }
    return fac_error();
}

/* Writes what the test compares. */
static fac_status give(const training_kind *kind, const training *t, const double *losses) {
    FAC_SCOPE(s);
    char path[1024];
    snprintf(path, sizeof path, "%s/got.safetensors", t->folder);
    fac_state *all = fac_state_new(), *model = fac_module_state_dict(t->model);
    fac_tensor *table = fac_tensor_from(losses, FAC_F64, FAC_SHAPE(t->steps, (int64_t)kind->n_losses));
    fac_status status = fac_state_add(all, "model.", model);
    if (!status) status = fac_state_set(all, "losses", table);
    if (!status) status = fac_state_save(all, path);
    fac_state_free(model);
    fac_state_free(all);
    return status;
}

static const training_kind *find(const char *name) {
    static const training_kind *const ALL[] = {&lenet, &lstm, &resnet18, &transformer, &vae, &dcgan};
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++)
        if (strcmp(ALL[i]->name, name) == 0) return ALL[i];
    return NULL;
}

int main(int argc, char **argv) {
    const training_kind *kind = argc > 4 ? find(argv[1]) : NULL;
    const int64_t steps = argc > 4 ? atoll(argv[3]) : 0;
    if (!kind || steps < 1) {
        fputs("Usage: models NAME f32|f64 STEPS FOLDER [CUT]\n", stderr);
        return 2;
    }
    FAC_SCOPE(s);
    if (fac_set_default_dtype(strcmp(argv[2], "f64") == 0 ? FAC_F64 : FAC_F32)) return fac_report(stderr);
    char path[1024];
    snprintf(path, sizeof path, "%s/given.safetensors", argv[4]);
    fac_state *given = fac_state_load(path);
    double *losses = calloc((size_t)steps * LOSSES, sizeof *losses);
    training t = {.steps = steps, .given = given, .folder = argv[4]};
    if (!given || !losses)
        fac_error_set(FAC_ERR_MEMORY, "there is nothing to begin with");
    else if (!run(kind, &t, argc > 5 ? atoll(argv[5]) : 0, losses) && give(kind, &t, losses))
        fputs("nothing was written\n", stderr);
    end(&t);
    free(losses);
    fac_state_free(given);
    return fac_report(stderr);
}
