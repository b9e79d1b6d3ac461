/* The training loop, and the log and picture it leaves behind. */
#include "log.h"
#include "plan.h"
#include "train.h"
#include <math.h>

#define USED_NOTE "seconds_used"

static fac_status draw(const run_log *log, const train_job *j) {
    char path[4096];
    fac_status st = run_path(j->options->out, "loss.svg", path, sizeof path);
    return st ? st : plot_loss(path, "Loss by training step", j->kind->axis, log->v, log->n);
}

/* ---- steps ---- */

typedef struct loop {
    train_job *j;
    run_log log;
    progress bar;
    plan plan;
    int64_t step, first, saved, validated; /* saved: -1 before the first checkpoint */
    double loss, valid, extra, first_valid;
    double validating; /* seconds that the last validation took */
} loop;

static bool finished(const loop *l) { return l->plan.steps > 0 && l->step >= l->plan.steps; }

static fac_status one_step(loop *l) {
    train_job *j = l->j;
    const train_options *o = j->options;
    FAC_SCOPE(s);
    fac_optimizer_set_lr(j->optimizer, plan_rate(&l->plan, l->step));
    fac_optimizer_zero_grad(j->optimizer);
    fac_tensor *loss = j->kind->loss(j);
    if (!loss) return fac_error();
    fac_status st = fac_backward(loss);
    if (!st && o->clip > 0) st = fac_clip_grad_norm(fac_optimizer_parameters(j->optimizer), o->clip);
    if (!st) st = fac_optimizer_step(j->optimizer);
    l->loss = fac_item(loss) * j->scale;
    if (!st && !isfinite(l->loss))
        st = fac_error_set(FAC_ERR_ARGUMENT, "the loss became %g at step %lld; try a smaller --lr", l->loss,
                           (long long)l->step);
    return st ? st : fac_error();
}

static fac_status validate(loop *l, bool whole) {
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    const double begin = progress_seconds(&l->bar);
    fac_module_train(l->j->model, false);
    fac_status st = l->j->kind->validate(l->j, whole, &l->valid, &l->extra);
    l->validating = progress_seconds(&l->bar) - begin;
    l->validated = l->step;
    fac_module_train(l->j->model, true);
    if (isnan(l->first_valid)) {
        l->first_valid = l->valid;
        notes_set_double(&l->j->notes, "first_valid", l->valid);
    }
    return st ? st : fac_error();
}

static double elapsed(const loop *l) { return progress_now() - l->j->started; }

double train_seconds_used(const notes *n) {
    const double used = notes_get(n, USED_NOTE) ? notes_double(n, USED_NOTE) : 0;
    if (used >= 0 && used < INFINITY) return used;
    fac_error_set(FAC_ERR_FORMAT, "the checkpoint says that the run took %g seconds, which is impossible", used);
    return 0;
}

/* The log goes to the disk first: a checkpoint never speaks of steps whose rows could still be lost. */
static fac_status save(loop *l) {
    train_job *j = l->j;
    notes_set_int(&j->notes, "step", l->step);
    if (l->plan.steps == 0) notes_set_double(&j->notes, USED_NOTE, elapsed(l));
    j->kind->save_order(j);
    fac_status st = log_flush(&l->log);
    if (!st) st = checkpoint_save(j->options->out, j->model, j->optimizer, &j->notes);
    if (st) return st;
    l->saved = l->step;
    return draw(&l->log, j);
}

/* Steps in a second, since this process began to train. */
static double speed(const loop *l) {
    const double seconds = progress_seconds(&l->bar);
    return seconds > 0 ? (double)(l->step - l->first) / seconds : 0;
}

/* The same of the whole run, where its time counts: a process that just began cannot tell yet. */
static double speed_of_run(const loop *l) { return l->j->used > 0 ? (double)l->step / elapsed(l) : speed(l); }

static void show(loop *l) {
    char text[128];
    const double units = speed(l) * (double)l->j->units_per_step;
    int n = snprintf(text, sizeof text, "%s %.3f", l->j->kind->loss_name, l->loss);
    if (!isnan(l->valid)) n += snprintf(text + n, sizeof text - (size_t)n, "  held out %.3f", l->valid);
    snprintf(text + n, sizeof text - (size_t)n, units >= 1e4 ? "  %.1fk %s/s" : "  %.4g %s/s",
             units >= 1e4 ? units / 1e3 : units, l->j->kind->unit);
    progress_update(&l->bar, l->step, plan_expect(&l->plan, l->step, speed(l), elapsed(l)), text);
}

/* A training that was given a time learns here how many steps that is; the next checkpoint says so. */
static void decide(loop *l) {
    const double reserve = l->j->kind->parts * l->validating;
    if (plan_decide(&l->plan, l->step, speed_of_run(l), elapsed(l), reserve))
        notes_set_int(&l->j->notes, "steps", l->plan.steps);
}

static bool due(int64_t step, int64_t every, int64_t last) { return step == last || (every > 0 && step % every == 0); }

static fac_status glimpse(loop *l) {
    FAC_SCOPE(s);
    progress_clear(&l->bar);
    return l->j->kind->glimpse(l->j, l->step);
}

/* After a step: validate, log and save as the settings say. */
static fac_status after_step(loop *l) {
    const train_options *o = l->j->options;
    const bool evaluate = due(l->step, o->eval_every, l->plan.steps);
    fac_status st = evaluate ? validate(l, l->step == l->plan.steps) : FAC_OK;
    if (!st) st = log_put(&l->log, (plot_point){l->step, l->loss, evaluate ? l->valid : NAN});
    if (!st) decide(l);
    if (!st && due(l->step, o->save_every, l->plan.steps)) st = save(l);
    const bool look = l->j->kind->glimpse && !o->quiet && o->sample_every > 0 && l->step % o->sample_every == 0;
    if (!st && look && !finished(l)) st = glimpse(l);
    show(l);
    return st;
}

static fac_status steps(loop *l) {
    fac_status st = FAC_OK;
    if (l->step == 0) {
        st = validate(l, false);
        if (!st) st = log_put(&l->log, (plot_point){0, NAN, l->valid});
    }
    while (!st && !finished(l) && !cli_stop) {
        st = one_step(l);
        if (st) break;
        l->step++;
        st = after_step(l);
    }
    if (!st && cli_stop && l->saved != l->step) st = save(l);
    if (!st && finished(l)) st = log_finish(&l->log);
    return st;
}

/* A run is there once it has a checkpoint: from its first row on it can be resumed. It replaces the one that was there. */
static fac_status begin(loop *l) {
    fac_status st = save(l);
    return st ? st : log_begin(&l->log, l->j->options->out);
}

static fac_status go_on(loop *l) {
    train_job *j = l->j;
    l->step = l->saved = notes_int(&j->notes, "step");
    if (l->step > 0) l->first_valid = notes_double(&j->notes, "first_valid");
    if (!fac_error() && l->step < 0)
        fac_error_set(FAC_ERR_FORMAT, "the checkpoint is of step %lld, which is impossible", (long long)l->step);
    j->kind->load_order(j);
    j->used = l->plan.steps == 0 ? train_seconds_used(&j->notes) : 0;
    j->started -= j->used;
    return fac_error();
}

/* The step of the last row that the checkpoint speaks of. That of step 0 comes after the first checkpoint. */
static int64_t last_row(const loop *l) { return l->step > 0 ? l->step : -1; }

/* Opens what the run writes to besides the checkpoint. */
static fac_status open_files(loop *l) {
    const train_job *j = l->j;
    const train_options *o = j->options;
    fac_status st = o->resume ? log_resume(&l->log, o->out, last_row(l)) : begin(l);
    if (!st) o->folder->begun = true;
    return st || !j->kind->write_beside ? st : j->kind->write_beside(j);
}

static void summary(const loop *l) {
    const train_options *o = l->j->options;
    char clock[32];
    if (o->quiet) return;
    printf("%s after %lld %s, %s\n", finished(l) ? "finished" : "stopped", (long long)l->step,
           cli_word(l->step, "step", "steps"), progress_clock(elapsed(l), clock, sizeof clock));
    if (!isnan(l->valid)) printf("%s %.4f", l->j->kind->measure, l->valid);
    if (!isnan(l->valid) && l->validated != l->step) printf(" after %lld", (long long)l->validated);
    if (!isnan(l->valid) && l->validated > 0) printf(", from %.4f at the start", l->first_valid);
    if (!isnan(l->extra)) printf("; accuracy %.2f%%", 100 * l->extra);
    printf("\nrun folder: %s (checkpoint.safetensors, log.tsv, loss.svg)\n", o->out);
    if (!finished(l)) printf("go on with: %s train --resume --out %s\n", cli_program, o->out);
}

/* Trains what has been made. */
static int train(train_job *j) {
    loop l = {.j = j, .saved = -1, .loss = NAN, .valid = NAN, .extra = NAN, .first_valid = NAN};
    const train_options *o = j->options;
    l.plan = (plan){o->lr, o->warmup, o->steps, o->seconds};
    l.log = RUN_LOG_CLOSED;
    fac_status st = o->resume ? go_on(&l) : FAC_OK;
    l.first = l.step;
    if (!st && l.step > 0 && finished(&l)) {
        if (!o->quiet)
            printf("the run has its %lld %s; --steps N goes further\n", (long long)l.step,
                   cli_word(l.step, "step", "steps"));
        return CLI_OK;
    }
    cli_catch_stop(true);
    if (!st) st = open_files(&l);
    progress_start(&l.bar, stderr, l.first, o->quiet);
    if (!st) st = steps(&l);
    progress_clear(&l.bar);
    cli_catch_stop(false);
    log_close(&l.log);
    if (st) return cli_failed(o->command);
    summary(&l);
    return finished(&l) ? CLI_OK : 130;
}

fac_tensor *train_on_device(const train_job *j, fac_tensor *t) { return fac_to(t, .device = j->device); }

/* Where the options say; an error if the device is not there, before anything is read. */
static fac_status choose_device(train_job *j) {
    j->device = fac_device_parse(j->options->device ? j->options->device : "cpu");
    if (fac_error() || j->device.type == FAC_CPU) return fac_error();
    return fac_set_device(j->device);
}

static fac_status make(train_job *j) {
    const train_options *o = j->options;
    fac_status st = choose_device(j);
    if (!st && o->resume) st = checkpoint_read_notes(o->out, &j->notes);
    if (!st) st = j->kind->make(j);
    if (!st) st = fac_module_to(j->model, .device = j->device);
    if (!st && o->resume) st = checkpoint_load(o->out, j->model, j->optimizer);
    return st ? st : train_save_settings(&j->notes, o, j->kind->name);
}

int train_run(train_job *j) {
    const train_options *o = j->options;
    int code = CLI_OK;
    j->started = progress_now();
    if (make(j)) code = cli_failed(o->command);
    if (code == CLI_OK && !o->quiet) {
        j->kind->describe(j);
        fflush(stdout);
    }
    if (code == CLI_OK) code = train(j);
    if (code == CLI_OK && !o->quiet && j->kind->show && (fac_module_cpu(j->model) || j->kind->show(j)))
        code = cli_failed(o->command);
    fac_optimizer_release(j->optimizer);
    fac_module_release(j->model);
    j->kind->release(j->data);
    notes_free(&j->notes);
    return code;
}
