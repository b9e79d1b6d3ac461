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
    const char *out;    /* run folder */
    run_folder *folder; /* the same, taken */
    const char **paths; /* text to train on */
    size_t n_paths;
    const char *device;                                      /* "cuda:1"; NULL: the CPU */
    const char *images, *labels, *test_images, *test_labels; /* IDX files; images chooses the classifier */
    int64_t steps, batch, warmup, eval_every, save_every, sample_every, seed, threads, sample;
    int64_t context, dim, heads, layers, vocab;
    double lr, dropout, clip, weight_decay, seconds;
    bool resume, characters, quiet;
} train_options;

/* One training: what it trains, and on what. */
typedef struct train_job {
    const struct train_kind *kind;
    const train_options *options;
    int64_t units_per_step;
    void *data;        /* the kind's own */
    fac_device device; /* where model and batches are */
    fac_module *model; /* this and the rest: what train_run fills */
    fac_optimizer *optimizer;
    double started; /* when, by progress_now; earlier by the time that the run took before, if that counts */
    double used;    /* that time, in seconds */
    double scale;   /* of the training loss, to be in the unit of the validation's */
    notes notes;    /* saved with every checkpoint */
} train_job;

/* A kind of training: how a step, a validation and a log line of it work. */
typedef struct train_kind {
    const char *name;      /* in the notes: "text" */
    const char *unit;      /* of the rate: "tokens" */
    const char *measure;   /* what validate gives: "test loss" */
    const char *loss_name; /* in the progress line: "loss" */
    const char *axis;      /* of the curve: "cross entropy, nats" */
    int parts;             /* how many times as much as a part the whole is, to validate */
    /* Reads the data and makes model and optimiser. */
    fac_status (*make)(train_job *j);
    /* Prints what will be trained. */
    void (*describe)(const train_job *j);
    /* Loss of one batch, in the innermost scope. */
    fac_tensor *(*loss)(train_job *j);
    /* Validation loss, on all that is held out or on a part of it, which is always the same; *extra gets a second figure to
       show (NaN: none). */
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
/* Writes the settings to the notes, so that --resume needs no others. */
fac_status train_save_settings(notes *n, const train_options *o, const char *kind);
/* The two kinds. */
int train_text(const train_options *o);
int train_images(const train_options *o);

#endif
