/* Calls kept as JSON with what PyTorch made of them; data/gen_reference_cases.py tells the form. */
#ifndef FAC_TESTS_REPLAY_H
#define FAC_TESTS_REPLAY_H

#include "support/support.h"
#include <jansson.h>

/* A file of tests/data, for the caller to release; NULL, with a line on standard error, if it cannot be read. */
json_t *replay_load(const char *name);
/* A cmocka test whose initial state is a group of cases: makes each call, prints those that differ, and fails if there are any. */
void replay_group(void **state);

#endif
