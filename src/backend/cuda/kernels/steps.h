/* Numbers of the fused optimiser steps. Shared with launchers. */
#ifndef FAC_KERNEL_STEPS_H
#define FAC_KERNEL_STEPS_H

#include "kernel.h"

typedef struct k_sgd {
    double lr, weight_decay, momentum, dampening, sign; /* sign -1: maximise */
    int32_t nesterov, first;
} k_sgd;
typedef struct k_adam {
    double lr, beta1, beta2, weight_decay, eps, sign;
    double correction1, correction2_sqrt; /* 1 - beta1^t, sqrt(1 - beta2^t) */
    int32_t decoupled;
} k_adam;

#endif
