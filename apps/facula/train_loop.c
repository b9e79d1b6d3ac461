/* The training loop, and the log and picture it leaves behind. */
#include "early.h"
#include "log.h"
#include "models.h"
#include "plan.h"
#include "report.h"
#include "tensorboard.h"
#include "train_settings.h"
#include "train_step.h"
#include <math.h>
#include <unistd.h>

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
    early early;
    board board;
    int64_t step, first, saved, validated; /* saved: -1 before the first checkpoint */
    double loss, norm, rate, valid, extra, first_valid;
    double validating; /* seconds that the last validation took */
} loop;

static bool all_steps(const loop *l) { return l->plan.steps > 0 && l->step >= l->plan.steps; }
static bool finished(const loop *l) { return all_steps(l) || early_over(&l->early); }

static fac_status one_step(loop *l) {
    l->rate = plan_rate(&l->plan, l->step);
    fac_status st = step_take(l->j, l->rate, &l->loss, &l->norm);
    /* A scale that is too large for f16 comes down by itself. */
    const bool scaling = l->j->scaler && fac_grad_scaler_get_scale(l->j->scaler) >= 1;
    if (!st && !isfinite(l->loss) && !scaling)
        st = fac_error_set(FAC_ERR_ARGUMENT, "the loss became %g at step %lld; try a smaller --lr", l->loss,
                           (long long)l->step);
    return st ? st : fac_error();
}

static fac_status validate(loop *l, bool whole) {
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    const double begin = progress_seconds(&l->bar);
    fac_module_train(l->j->shown, false);
    fac_autocast_guard cast = step_autocast(l->j);
    fac_status st = l->j->kind->validate(l->j, whole, &l->valid, &l->extra);
    fac_autocast_end(&cast);
    l->validating = progress_seconds(&l->bar) - begin;
    l->validated = l->step;
    fac_module_train(l->j->shown, true);
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

static checkpoint_parts parts_of(const train_job *j) {
    return (checkpoint_parts){j->model, j->averaged, j->optimizer, j->scaler};
}

/* The log goes to the disk first: a checkpoint never speaks of steps whose rows could still be lost. */
static fac_status save(loop *l) {
    train_job *j = l->j;
    const checkpoint_parts parts = parts_of(j);
    notes_set_int(&j->notes, "step", l->step);
    if (l->plan.steps == 0) notes_set_double(&j->notes, USED_NOTE, elapsed(l));
    j->kind->save_order(j);
    early_save(&l->early, &j->notes);
    fac_status st = log_flush(&l->log);
    if (!st) st = board_flush(&l->board);
    if (!st) st = checkpoint_save(j->options->out, CHECKPOINT_NAME, &parts, &j->notes);
    if (st) return st;
    l->saved = l->step;
    return draw(&l->log, j);
}

/* The weights that validated best so far, without what a run goes on from. */
static fac_status save_best(loop *l) {
    train_job *j = l->j;
    notes_set_int(&j->notes, "step", l->step);
    j->kind->save_order(j);
    early_save(&l->early, &j->notes);
    return checkpoint_save(j->options->out, BEST_NAME, &(checkpoint_parts){.model = j->shown}, &j->notes);
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

static bool due(int64_t step, int64_t every, bool last) { return last || (every > 0 && step % every == 0); }

static fac_status glimpse(loop *l) {
    FAC_SCOPE(s);
    progress_clear(&l->bar);
    return l->j->kind->glimpse(l->j, l->step);
}

/* What is validated on the way is compared; at the end of training text it is the whole, which is another figure. Where that is the end
   since nothing was gained, the whole is measured after all. */
static fac_status evaluate(loop *l, bool last) {
    const bool whole = last || l->j->kind->parts == 1;
    fac_status st = validate(l, whole);
    if (st || l->early.patience == 0 || (whole && l->j->kind->parts > 1)) return st;
    if (early_take(&l->early, l->step, l->valid)) return save_best(l);
    return early_over(&l->early) && !whole ? validate(l, true) : FAC_OK;
}

static fac_status put_scalars(loop *l, bool validated) {
    const train_job *j = l->j;
    const double scale = j->scaler ? fac_grad_scaler_get_scale(j->scaler) : NAN;
    const board_scalar v[] = {{"loss/training", l->loss},
                              {"learning_rate", l->rate},
                              {"gradient_norm", l->norm},
                              {"gradient_scale", scale},
                              {"loss/validation", validated ? l->valid : NAN},
                              {j->kind->extra ? j->kind->extra : "", validated && j->kind->extra ? l->extra : NAN},
                              {"units_per_second", validated ? speed(l) * (double)j->units_per_step : NAN}};
    return board_put(&l->board, l->step, v, sizeof v / sizeof *v);
}

/* After a step: validate, log and save as the settings say. */
static fac_status after_step(loop *l) {
    const train_options *o = l->j->options;
    const bool validated = due(l->step, o->eval_every, all_steps(l));
    fac_status st = validated ? evaluate(l, all_steps(l)) : FAC_OK;
    if (!st) st = log_put(&l->log, (plot_point){l->step, l->loss, validated ? l->valid : NAN});
    if (!st) st = put_scalars(l, validated);
    if (!st) decide(l);
    if (!st && due(l->step, o->save_every, finished(l))) st = save(l);
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
    early_load(&l->early, &j->notes);
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
    if (!st && o->tensorboard) st = board_open(&l->board, o->tensorboard, o->resume ? l->step : -1);
    return st || !j->kind->write_beside ? st : j->kind->write_beside(j);
}

static void print_figures(const loop *l) {
    const train_kind *k = l->j->kind;
    if (isnan(l->valid)) return;
    printf("%s %.4f", k->measure, l->valid);
    if (l->validated != l->step) printf(" after %lld", (long long)l->validated);
    if (l->validated > 0) printf(", from %.4f at the start", l->first_valid);
    if (k->extra && !isnan(l->extra))
        printf(k->percent ? "; %s %.2f%%" : "; %s %.4f", k->extra, l->extra * (k->percent ? 100 : 1));
    if (l->early.step > 0)
        printf("\nbest %.4f after %lld, kept in " BEST_NAME, l->early.best, (long long)l->early.step);
}

static void summary(const loop *l) {
    const train_options *o = l->j->options;
    char clock[32];
    if (o->quiet) return;
    printf("%s after %lld %s, %s\n",
           all_steps(l)  ? "finished"
           : finished(l) ? "stopped early"
                         : "stopped",
           (long long)l->step, cli_word(l->step, "step", "steps"), progress_clock(elapsed(l), clock, sizeof clock));
    print_figures(l);
    printf("\nrun folder: %s (checkpoint.safetensors, log.tsv, loss.svg%s)\n", o->out,
           o->no_report ? "" : ", " REPORT_NAME);
    if (!finished(l)) printf("go on with: %s train --resume --out %s\n", cli_program, o->out);
}

static plan plan_of(const train_job *j) {
    const train_options *o = j->options;
    return (plan){.shape = plan_kind(o->schedule),
                  .peak = o->lr,
                  .warmup = o->warmup,
                  .floor = o->lr_floor,
                  .every = o->lr_every,
                  .gamma = o->lr_gamma,
                  .steps = j->steps,
                  .seconds = o->seconds};
}

/* What is shown and reported is computed on the CPU. */
static fac_status leave_device(train_job *j) {
    fac_status st = fac_module_cpu(j->model);
    if (!st && j->averaged) st = fac_module_cpu(j->averaged);
    j->device = fac_device_parse("cpu");
    return st;
}

static fac_status report(loop *l) {
    const train_job *j = l->j;
    const double seconds = l->step > l->first ? progress_seconds(&l->bar) : 0;
    const report_figures r = {.points = l->log.v,
                              .n_points = l->log.n,
                              .plan = l->plan,
                              .step = l->step,
                              .first = l->first,
                              .seconds = seconds,
                              .units = speed(l) * (double)j->units_per_step,
                              .valid = l->valid,
                              .first_valid = l->first_valid,
                              .extra = l->extra,
                              .best = l->early.best,
                              .best_step = l->early.step,
                              .end = all_steps(l)  ? "finished"
                                     : finished(l) ? "stopped early"
                                                   : "stopped"};
    fac_status st = leave_device(l->j);
    return st || j->options->no_report ? st : report_write(l->j, &r);
}

/* The report of a run that has ended, if it was not written then: a full disk may be the reason. */
static fac_status report_later(loop *l) {
    const train_options *o = l->j->options;
    char path[4096];
    fac_status st = run_path(o->out, REPORT_NAME, path, sizeof path);
    if (st || o->no_report || access(path, F_OK) == 0) return st;
    progress_start(&l->bar, stderr, l->first, true);
    st = log_resume(&l->log, o->out, l->step);
    if (!st) st = validate(l, true);
    if (!st) st = report(l);
    log_close(&l->log);
    return st;
}

/* A run that has come to its end before. */
static int nothing_left(loop *l) {
    const train_options *o = l->j->options;
    const char *word = cli_word(l->step, "step", "steps");
    if (report_later(l)) return cli_failed(o->command);
    if (o->quiet) return CLI_OK;
    if (all_steps(l))
        printf("the run has its %lld %s; --steps N goes further\n", (long long)l->step, word);
    else
        printf("the run stopped early after %lld %s; a larger --patience N goes further\n", (long long)l->step, word);
    return CLI_OK;
}

/* Trains what has been made. */
static int train(train_job *j) {
    loop l = {.j = j,
              .saved = -1,
              .loss = NAN,
              .norm = NAN,
              .valid = NAN,
              .extra = NAN,
              .first_valid = NAN,
              .early = {j->options->patience, j->options->least_gain, NAN, 0, 0}};
    const train_options *o = j->options;
    l.plan = plan_of(j);
    l.log = RUN_LOG_CLOSED;
    fac_status st = o->resume ? go_on(&l) : FAC_OK;
    l.first = l.step;
    if (!st && l.step > 0 && finished(&l)) return nothing_left(&l);
    cli_catch_stop(true);
    if (!st) st = open_files(&l);
    progress_start(&l.bar, stderr, l.first, o->quiet);
    if (!st) st = steps(&l);
    progress_clear(&l.bar);
    cli_catch_stop(false);
    if (!st) st = report(&l);
    if (st) cli_failed(o->command);
    board_close(&l.board);
    log_close(&l.log);
    if (st) return CLI_FAILED;
    summary(&l);
    return finished(&l) ? CLI_OK : 130;
}

fac_tensor *train_on_device(const train_job *j, fac_tensor *t) { return fac_to(t, .device = j->device); }

/* How many steps: as many as are given, or as the epochs have. */
static void count_steps(train_job *j) {
    const train_options *o = j->options;
    j->steps = o->steps;
    j->units_per_step *= o->accumulate;
    if (o->epochs <= 0 || o->steps) return;
    j->steps = (int64_t)fmax(ceil(o->epochs * (double)j->epoch / (double)o->accumulate), 1);
}

static fac_status make(train_job *j) {
    const train_options *o = j->options;
    /* A device that is not there is an error before anything is read. */
    fac_status st = model_device(o->device, &j->device);
    if (!st && o->resume) st = checkpoint_read_notes(o->out, &j->notes);
    if (!st) st = j->kind->make(j);
    if (!st) st = fac_module_to(j->model, .device = j->device);
    if (!st) st = step_prepare(j);
    if (st) return st;
    const checkpoint_parts parts = parts_of(j);
    count_steps(j);
    if (o->resume) st = checkpoint_load(o->out, &parts);
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
    if (code == CLI_OK && !o->quiet && j->kind->show && (leave_device(j) || j->kind->show(j)))
        code = cli_failed(o->command);
    fac_grad_scaler_release(j->scaler);
    fac_optimizer_release(j->optimizer);
    fac_module_release(j->averaged);
    fac_module_release(j->model);
    j->kind->release(j->data);
    notes_free(&j->notes);
    return code;
}
