/* Reading JSON that may be anything: jansson's parser calls itself at each bracket, so that a text which only opens
   brackets takes stack that a small thread does not have. How deep it goes is found before it begins. */
#ifndef FAC_SRC_IO_JSON_H
#define FAC_SRC_IO_JSON_H

#include "base/base.h"
#include <jansson.h>

/* Brackets that a header of tensors opens at once: the whole, one tensor, its list. A few more may come in what it says. */
enum { FAC_JSON_DEPTH = 8 };

/* Parses, with duplicate keys refused. NULL with the reason in `error` if it is no JSON or goes deeper than FAC_JSON_DEPTH. */
json_t *fac__json_parse(const char *text, size_t n, json_error_t *error);

#endif
