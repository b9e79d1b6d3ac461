/* Accumulates the gradients of a step's batches, in mixed precision where asked, and takes the step. */
#include "train_step.h"
#include "models.h"
#include "optimizers.h"
#include <math.h>
#include <string.h>

static bool is_f16(const train_options *o) { return strcmp(o->precision, "f16") == 0; }

fac_autocast_guard step_autocast(const train_job *j) { return model_autocast(j->device, j->options->precision); }

fac_status step_prepare(train_job *j) {
    const train_options *o = j->options;
    j->shown = j->model;
    if (!j->optimizer) j->optimizer = optimizer_new(j);
    if (!j->optimizer) return fac_error();
    if (is_f16(o) && !(j->scaler = fac_grad_scaler_new())) return fac_error();
    if (o->ema <= 0) return FAC_OK;
    j->averaged = fac_averaged_model_new(j->model, .ema_decay = o->ema, .use_buffers = true);
    j->shown = j->averaged ? fac_module_child(j->averaged, "module") : NULL;
    return fac_error();
}

/* Adds the gradients of one batch of `n`. */
static fac_status add_batch(train_job *j, int64_t n, double *loss) {
    FAC_SCOPE(s);
    fac_autocast_guard cast = step_autocast(j);
    fac_tensor *l = j->kind->loss(j);
    fac_autocast_end(&cast);
    if (!l) return fac_error();
    *loss += fac_item(l) / (double)n;
    if (n > 1) l = fac_div(l, (double)n);
    if (j->scaler) l = fac_grad_scaler_scale(j->scaler, l);
    return fac_backward(l);
}

static fac_status clip(train_job *j, double *norm) {
    const double most = j->options->clip;
    if (most <= 0) return FAC_OK;
    return fac_clip_grad_norm(fac_optimizer_parameters(j->optimizer), most, .total_norm = norm);
}

static fac_status move(train_job *j, double *norm) {
    if (!j->scaler) {
        const fac_status st = clip(j, norm);
        return st ? st : fac_optimizer_step(j->optimizer);
    }
    fac_status st = fac_grad_scaler_unscale(j->scaler, j->optimizer);
    if (!st) st = clip(j, norm);
    if (!st) st = fac_grad_scaler_step(j->scaler, j->optimizer);
    return st ? st : fac_grad_scaler_update(j->scaler);
}

fac_status step_take(train_job *j, double rate, double *out_loss, double *out_norm) {
    FAC_SCOPE(s);
    const int64_t n = j->options->accumulate;
    fac_status st = FAC_OK;
    *out_loss = 0;
    *out_norm = NAN;
    fac_optimizer_set_lr(j->optimizer, rate);
    fac_optimizer_zero_grad(j->optimizer);
    for (int64_t i = 0; i < n && !st; i++) st = add_batch(j, n, out_loss);
    if (!st) st = move(j, out_norm);
    if (!st && j->averaged) st = fac_averaged_model_update(j->averaged, j->model);
    *out_loss *= j->scale;
    return st ? st : fac_error();
}
