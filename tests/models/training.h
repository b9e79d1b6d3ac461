/* What the six models of this folder have in common: each is made and takes steps as a program of one's own would have it;
   main.c loads what compare.py gives, runs the steps, and cuts a training off and takes it up again. */
#ifndef FACULA_TESTS_MODELS_TRAINING_H
#define FACULA_TESTS_MODELS_TRAINING_H

#include <facula/facula.h>

/* Optimisers and losses that a model has at most. */
enum { PARTS = 2, LOSSES = 3 };

/* A training: all of it but `given` and `folder` is its own, and ends with it. */
typedef struct training {
    fac_module *model;
    fac_optimizer *optimizer[PARTS];   /* NULL where a model has but one */
    fac_lr_scheduler *schedule[PARTS]; /* of the optimiser of the same number */
    fac_loader *loader;                /* NULL where the batches are those of `given` */
    int64_t step, steps;               /* how many were taken, and how many there will be */
    const fac_state *given;            /* what the test gives: batches, noise, orders */
    const char *folder;                /* where its files are */
} training;

/* A kind of model: `begin` fills in the model and what trains it, `step` trains on a batch and writes n_losses losses. */
typedef struct training_kind {
    const char *name;
    size_t n_losses;
    fac_status (*begin)(training *t);
    fac_status (*step)(training *t, double *losses);
} training_kind;

extern const training_kind lenet, lstm, resnet18, transformer, vae, dcgan;

/* What the test gives under a name for the present step, such as a batch; floating numbers in the default dtype. */
fac_tensor *given_now(const training *t, const char *name);

/* Backward from a loss, and a step of optimiser and schedule 0. */
fac_status learn(training *t, fac_tensor *loss);

#endif
