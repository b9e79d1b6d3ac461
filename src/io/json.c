/* Measures how deep a JSON text nests before jansson parses it. */
#include "io/json.h"
#include <limits.h>
#include <stdio.h>

/* The end of a string that begins behind its quote at `i`: the index of the closing quote, or n. */
static size_t end_of_string(const char *text, size_t n, size_t i) {
    for (; i < n && text[i] != '"'; i++)
        if (text[i] == '\\') i++;
    return i;
}

/* Where more than FAC_JSON_DEPTH brackets are open; n if nowhere. What is not JSON is left to the parser to refuse: it follows
   no bracket that is not counted here. */
static size_t too_deep_at(const char *text, size_t n) {
    int depth = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"') i = end_of_string(text, n, i + 1);
        if (i >= n) break;
        if (text[i] == '[' || text[i] == '{') depth++;
        if (text[i] == ']' || text[i] == '}') depth--;
        if (depth > FAC_JSON_DEPTH) return i;
    }
    return n;
}

json_t *fac__json_parse(const char *text, size_t n, json_error_t *error) {
    const size_t deep = too_deep_at(text, n);
    if (deep == n) return json_loadb(text, n, JSON_REJECT_DUPLICATES, error);
    *error = (json_error_t){.position = deep > INT_MAX ? INT_MAX : (int)deep};
    snprintf(error->text, sizeof error->text, "it nests deeper than %d levels", FAC_JSON_DEPTH);
    return NULL;
}
