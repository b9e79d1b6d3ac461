/* Calls that one argument makes wrong: what a backward operator was told of the forward one does not fit it. */
#ifndef FAC_TESTS_REFUSED_H
#define FAC_TESTS_REFUSED_H

#include "sample.h"

typedef struct refused_call {
    const char *text; /* support/sample.h */
    fac_status code;
    const char *message; /* a part of it */
} refused_call;

/* On CUDA too, and those that only the CPU has kernels for. */
extern const refused_call refused_everywhere[], refused_on_cpu[];
extern const size_t refused_everywhere_count, refused_on_cpu_count;
/* Makes each call on the device and expects its error. */
void refused_run(const refused_call *v, size_t n, fac_device device);

#endif
