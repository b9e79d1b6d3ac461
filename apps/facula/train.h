/* What the two kinds of training share: settings from the command line, the loop, the run folder. */
#ifndef FACULA_APP_TRAIN_H
#define FACULA_APP_TRAIN_H

#include "checkpoint.h"
#include "cli.h"
#include "lock.h"
#include "plot.h"
#include "progress.h"

typedef struct train_options {
    const cli_command *command;
    const char *out;          /* run folder */
    run_folder *folder;       /* the same, taken */
    const char *const *paths; /* text to train on */
    size_t n_paths;
    const char *config;                                      /* file of settings */
    const char *device;                                      /* "cuda:1"; NULL: the CPU */
    const char *images, *labels, *test_images, *test_labels; /* IDX files, or a folder alone; images chooses the kind */
    const char *csv, *test_csv, *target, *task, *hidden, *drop, *one_hot, *missing, *delimiter; /* tables */
    const char *optimizer, *schedule, *precision, *tensorboard;
    int64_t steps, batch, warmup, eval_every, save_every, sample_every, seed, threads, sample, accumulate, patience;
    int64_t context, dim, heads, layers, vocab, size, channels, lr_every;
    double lr, dropout, clip, weight_decay, seconds, epochs, momentum, lr_floor, lr_gamma, ema, least_gain;
    bool resume, characters, quiet, augment, no_report, print_config;
} train_options;

/* One training: what it trains, and on what. */
typedef struct train_job {
    const struct train_kind *kind;
    const train_options *options;
    int64_t units_per_step;
    void *data;           /* the kind's own */
    fac_device device;    /* where model and batches are */
    fac_module *model;    /* this and the rest: what train_run fills */
    fac_module *averaged; /* around the mean of the weights; NULL: none is made */
    fac_module *shown;    /* borrowed: what is validated, shown and reported, the mean where there is one */
    fac_optimizer *optimizer;
    fac_grad_scaler *scaler; /* NULL: gradients are not scaled */
    int64_t steps;           /* to train in all; 0: not known yet */
    int64_t epoch;           /* batches in an epoch; 0: the kind has none */
    double started;          /* when, by progress_now; earlier by the time that the run took before, if that counts */
    double used;             /* that time, in seconds */
    double scale;            /* of the training loss, to be in the unit of the validation's */
    notes notes;             /* saved with every checkpoint */
} train_job;

/* A kind of training: how a step, a validation and a log line of it work. */
typedef struct train_kind {
    const char *name;      /* in the notes: "text" */
    const char *unit;      /* of the rate: "tokens" */
    const char *measure;   /* what validate gives: "test loss" */
    const char *loss_name; /* in the progress line: "loss" */
    const char *axis;      /* of the curve: "cross entropy, nats" */
    const char *extra;     /* the second figure of validate: "accuracy"; NULL: none */
    bool percent;          /* it is shown as a part of a hundred */
    int parts;             /* how many times as much as a part the whole is, to validate */
    /* Reads the data and makes the model; makes the optimiser where options->optimizer says one of its own. It may choose another
       kind, of the same name, for the rest. */
    fac_status (*make)(train_job *j);
    /* Prints what will be trained. */
    void (*describe)(const train_job *j);
    /* Loss of one batch, in the innermost scope. */
    fac_tensor *(*loss)(train_job *j);
    /* Validation loss of j->shown, on all that is held out or on a part of it, which is always the same; *extra gets a second figure
       to show (NaN: none). */
    fac_status (*validate)(train_job *j, bool whole, double *out_loss, double *extra);
    /* State of the data's order, to be kept in the notes and put back. */
    void (*save_order)(train_job *j);
    void (*load_order)(train_job *j);
    /* Writes what lies beside the checkpoint; may be NULL. */
    fac_status (*write_beside)(const train_job *j);
    /* Shows the trained model at work; may be NULL. */
    fac_status (*show)(train_job *j);
    /* Shows it while it is trained; may be NULL. */
    fac_status (*glimpse)(train_job *j, int64_t step);
    /* An input of one sample, of the innermost scope, for the summary of the model. */
    fac_tensor *(*example)(train_job *j);
    /* Writes its sections of the report: what the model makes of samples that it was not trained on; may be NULL. */
    fac_status (*report)(train_job *j, FILE *f);
    /* Frees what data holds. */
    void (*release)(void *data);
} train_kind;

/* Makes what the job needs, or with options->resume takes it from the run folder; trains from where the notes say ("step") to
   options->steps, or for about options->seconds: logs, validates, saves, draws the curve; frees all. Returns an exit code: 130 when stopped by a signal,
   with everything saved. */
int train_run(train_job *j);
/* t on the job's device. */
fac_tensor *train_on_device(const train_job *j, fac_tensor *t);
/* How many seconds a run took while its number of steps was not known, which count when it goes on. An error, and 0, if the notes hold
   something else. */
double train_seconds_used(const notes *n);
/* The kinds. */
int train_text(const train_options *o);
int train_images(const train_options *o);
int train_csv(const train_options *o);

#endif
