/* facula ops --coverage: which operators of PyTorch there are. */
#ifndef FACULA_COVERAGE_H
#define FACULA_COVERAGE_H

#include <stdbool.h>

/* Names of operators, with spaces between. */
typedef struct coverage_group {
    const char *kind, *names;
} coverage_group;
/* Ends with a kind NULL. */
extern const coverage_group coverage_groups[];

/* Prints each operator of the list whose name matches `accepts`, with its kernels and its gradient, or that it is missing, and the totals.
   Returns CLI_OK if none is missing, CLI_FAILED otherwise. */
int coverage_print(bool (*accepts)(const void *context, const char *name), const void *context);

#endif
