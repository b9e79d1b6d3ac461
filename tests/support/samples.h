/* At least one valid call of every operator: those written down in tests/data/samples, and for the rest what follows from
   the schema. A form that works in place or into an out takes the arguments of the plain one. */
#ifndef FAC_TESTS_SAMPLES_H
#define FAC_TESTS_SAMPLES_H

#include "sample.h"

typedef struct sample_set {
    char **texts; /* sorted, so that the calls of one operator stand together */
    size_t n, room;
} sample_set;

/* Reads every .txt of a folder: a call a line, # starts a comment. False, with a line on standard error, if one cannot be
   understood. */
bool samples_read(sample_set *s, const char *folder);
bool samples_read_file(sample_set *s, const char *path);
/* Adds what follows from the schemas for operators that have no call yet; the library must have been started. Each call that
   is added has been made once on the CPU, and worked. */
bool samples_complete(sample_set *s);
/* Both, from FACULA_TEST_DATA/samples. */
bool samples_load(sample_set *out);
void samples_free(sample_set *s);
/* The calls of one operator, "aten::add.Tensor": the first, and how many. */
char *const *samples_of(const sample_set *s, const char *op, size_t *out_n);
bool samples_add(sample_set *s, const char *text);
void samples_sort(sample_set *s);

/* Why neither the CPU nor the meta device can serve an operator's calls; NULL if one of them does. */
const char *sample_elsewhere(const char *op);
/* Calls the operator on a device; the results, if any, are released. The status, with an error pending unless it is OK. */
fac_status sample_try(const sample_call *c, fac_device device);

#endif
