/* One step of a training: the loss of its batches, its gradients, and what the optimiser makes of them. */
#ifndef FACULA_APP_TRAIN_STEP_H
#define FACULA_APP_TRAIN_STEP_H

#include "train.h"

/* Makes what the settings ask for beside the model, which is on its device: optimiser, scaler and mean. */
fac_status step_prepare(train_job *j);
/* Takes a step at this rate; *out_loss gets the loss, in the unit of the validation's, and *out_norm that of the gradients before
   they were clipped, NaN where they are not. */
fac_status step_take(train_job *j, double rate, double *out_loss, double *out_norm);
/* Begins the autocast of the settings. */
fac_autocast_guard step_autocast(const train_job *j);

#endif
