/* The optimisers that a training may choose by name. */
#ifndef FACULA_APP_OPTIMIZERS_H
#define FACULA_APP_OPTIMIZERS_H

#include "train.h"

/* Of the GPT: Muon for the matrices of its blocks, AdamW for the rest. */
#define OPTIMIZER_OF_TEXT "muon"
#define OPTIMIZER_CHOICES OPTIMIZER_OF_TEXT "|adamw|adam|sgd|rmsprop|nadam|radam|adamax|adagrad|adafactor"

/* A learning rate that suits it. */
double optimizer_rate(const char *name);
/* Over the parameters of j->model, by j's settings; NULL on failure. Not for OPTIMIZER_OF_TEXT. */
fac_optimizer *optimizer_new(const train_job *j);

#endif
