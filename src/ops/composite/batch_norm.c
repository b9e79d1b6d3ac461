/* Batch norm by other names: native_batch_norm with arguments in other places, and perhaps copies of the running statistics. */
#include "core/tensor_make.h"
#include "ops/composite/brief.h"

/* What every form has. */
typedef struct parameters {
    fac_tensor *input, *weight, *bias;
    double momentum, eps;
} parameters;

static fac_status normalise(const parameters *p, fac_tensor *mean, fac_tensor *var, bool training, fac_tensor **out) {
    return fac__c_native_batch_norm(p->input, p->weight, p->bias, mean, var, training, p->momentum, p->eps, out);
}

/* What other devices keep for their gradient: nothing here. */
static fac_status empty_reserve(const fac_tensor *input, fac_tensor **out) {
    return fac__empty((int64_t[]){0}, 1, FAC_U8, input->device, out);
}

/* `reserve` goes to *place if the call went well. */
static fac_status keep_reserve(fac_status st, fac_tensor *reserve, fac_tensor **place) {
    if (st == FAC_OK)
        *place = reserve;
    else
        fac__unref(reserve);
    return st;
}

/* out[first] and out[first + 1]: the running statistics after the call, which are copies; the first three are the call's results. */
static fac_status with_copies(const parameters *p, fac_tensor *mean, fac_tensor *var, bool training, size_t first,
                              fac_tensor **out) {
    fac_tensor *moved[2] = {NULL, NULL};
    fac_status st = fac__c_clone(mean, FAC_FORMAT_DEFAULT, &moved[0]);
    if (st == FAC_OK) st = fac__c_clone(var, FAC_FORMAT_DEFAULT, &moved[1]);
    if (st == FAC_OK) st = normalise(p, moved[0], moved[1], training, out);
    if (st == FAC_OK) {
        out[first] = moved[0], out[first + 1] = moved[1];
        return FAC_OK;
    }
    fac__unref(moved[0]);
    fac__unref(moved[1]);
    return st;
}

fac_status batch_norm_legit(const fac_call_info *c, fac_tensor *input, fac_tensor *weight, fac_tensor *bias,
                            fac_tensor *running_mean, fac_tensor *running_var, bool training, double momentum,
                            double eps, fac_tensor **out) {
    (void)c;
    return normalise(&(parameters){input, weight, bias, momentum, eps}, running_mean, running_var, training, out);
}

fac_status batch_norm_no_stats(const fac_call_info *c, fac_tensor *input, fac_tensor *weight, fac_tensor *bias,
                               bool training, double momentum, double eps, fac_tensor **out) {
    (void)c;
    return normalise(&(parameters){input, weight, bias, momentum, eps}, NULL, NULL, training, out);
}

fac_status batch_norm_no_training(const fac_call_info *c, fac_tensor *input, fac_tensor *weight, fac_tensor *bias,
                                  fac_tensor *running_mean, fac_tensor *running_var, double momentum, double eps,
                                  fac_tensor **out) {
    (void)c;
    return normalise(&(parameters){input, weight, bias, momentum, eps}, running_mean, running_var, false, out);
}

fac_status batch_norm_legit_functional(const fac_call_info *c, fac_tensor *input, fac_tensor *weight, fac_tensor *bias,
                                       fac_tensor *running_mean, fac_tensor *running_var, bool training,
                                       double momentum, double eps, fac_tensor **out) {
    (void)c;
    return with_copies(&(parameters){input, weight, bias, momentum, eps}, running_mean, running_var, training, 3, out);
}

/* The reserve is made before anything is moved. */
fac_status batch_norm_with_update(const fac_call_info *c, fac_tensor *input, fac_tensor *weight, fac_tensor *bias,
                                  fac_tensor *running_mean, fac_tensor *running_var, double momentum, double eps,
                                  fac_tensor **out) {
    (void)c;
    fac_tensor *reserve;
    const parameters p = {input, weight, bias, momentum, eps};
    FAC_TRY(empty_reserve(input, &reserve));
    return keep_reserve(normalise(&p, running_mean, running_var, true, out), reserve, &out[3]);
}

fac_status batch_norm_with_update_functional(const fac_call_info *c, fac_tensor *input, fac_tensor *weight,
                                             fac_tensor *bias, fac_tensor *running_mean, fac_tensor *running_var,
                                             double momentum, double eps, fac_tensor **out) {
    (void)c;
    fac_tensor *reserve;
    const parameters p = {input, weight, bias, momentum, eps};
    FAC_TRY(empty_reserve(input, &reserve));
    return keep_reserve(with_copies(&p, running_mean, running_var, true, 4, out), reserve, &out[3]);
}

fac_status batch_norm_no_update(const fac_call_info *c, fac_tensor *input, fac_tensor *weight, fac_tensor *bias,
                                fac_tensor *running_mean, fac_tensor *running_var, double momentum, double eps,
                                fac_tensor **out) {
    (void)c;
    fac_tensor *reserve;
    const parameters p = {input, weight, bias, momentum, eps};
    FAC_TRY(empty_reserve(input, &reserve));
    return keep_reserve(normalise(&p, running_mean, running_var, false, out), reserve, &out[3]);
}
