/* How right predictions are, of samples whose answer is known. */
#ifndef FACULA_APP_PREDICT_FIGURES_H
#define FACULA_APP_PREDICT_FIGURES_H

#include <facula/facula.h>
#include <stdio.h>

typedef struct figures {
    int64_t n, unknown;    /* samples that count, and those whose answer cannot be predicted */
    int64_t right;         /* of classes */
    double loss;           /* sum of cross entropies */
    double squares, sizes; /* sums of the errors of numbers */
    double mean, spread;   /* of the true numbers, and the sum of squares of the differences from it */
} figures;

/* One sample: whether its class was predicted, and the log probability of that. */
void figures_class(figures *g, bool right, double log);
void figures_number(figures *g, double said, double is);
/* Whether there are any. */
bool figures_any(const figures *g);
/* A line for people about samples that are so called: "row"; `classes`: not numbers. */
void figures_print(FILE *f, const figures *g, bool classes, const char *noun);
/* A file, or stdout for "-", that has them as a JSON object. errors: MEMORY; IO; those of fac_file_replace */
fac_status figures_write(const char *path, const figures *g, bool classes);

#endif
