/* Reads options by their table, with errors that name option and range. */
#include "settings.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool set_int(int64_t *slot, const setting *s, const char *text) {
    char *end = NULL;
    errno = 0;
    const long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || (double)v < s->least || (double)v > s->most) return false;
    *slot = v;
    return true;
}

static bool set_double(double *slot, const setting *s, const char *text) {
    char *end = NULL;
    errno = 0;
    const double v = strtod(text, &end);
    if (errno || end == text || *end || !(v >= s->least && v <= s->most)) return false;
    *slot = v;
    return true;
}

/* Takes the word from the list, which outlives the text. */
static bool set_choice(const char **slot, const setting *s, const char *text) {
    const size_t n = strlen(text);
    for (const char *at = s->choices; *at; at += strcspn(at, "|"), at += *at == '|')
        if (n > 0 && strcspn(at, "|") == n && strncmp(at, text, n) == 0) {
            *slot = text;
            return true;
        }
    return false;
}

bool setting_set(void *options, const setting *s, const char *text) {
    void *slot = (char *)options + s->offset;
    switch (s->kind) {
    case SETTING_INT: return set_int(slot, s, text);
    case SETTING_DOUBLE: return set_double(slot, s, text);
    case SETTING_TEXT: *(const char **)slot = text; return true;
    case SETTING_CHOICE: return set_choice(slot, s, text);
    case SETTING_FLAG: *(bool *)slot = strcmp(text, "0") != 0; return true;
    }
    return false;
}

bool setting_given(const void *options, const setting *s) {
    const void *slot = (const char *)options + s->offset;
    switch (s->kind) {
    case SETTING_INT: return (double)*(const int64_t *)slot >= s->least;
    case SETTING_DOUBLE: return *(const double *)slot >= s->least;
    case SETTING_TEXT:
    case SETTING_CHOICE: return *(const char *const *)slot != NULL;
    case SETTING_FLAG: break;
    }
    return true;
}

/* With as few digits as read back exactly. */
static void write_double(double v, char *buf, size_t size) {
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(buf, size, "%.*g", digits, v);
        if (strtod(buf, NULL) == v) return;
    }
}

char *setting_text(const void *options, const setting *s, char *buf, size_t size) {
    const void *slot = (const char *)options + s->offset;
    const char *text;
    switch (s->kind) {
    case SETTING_INT: snprintf(buf, size, "%" PRId64, *(const int64_t *)slot); break;
    case SETTING_DOUBLE: write_double(*(const double *)slot, buf, size); break;
    case SETTING_FLAG: snprintf(buf, size, "%d", *(const bool *)slot); break;
    case SETTING_CHOICE:
    case SETTING_TEXT: text = *(const char *const *)slot; snprintf(buf, size, "%s", text ? text : "");
    }
    return buf;
}

char *setting_range(const setting *s, char *buf, size_t size) {
    switch (s->kind) {
    case SETTING_INT: snprintf(buf, size, "a whole number from %.15g to %.15g", s->least, s->most); break;
    case SETTING_DOUBLE: snprintf(buf, size, "a number from %.15g to %.15g", s->least, s->most); break;
    case SETTING_CHOICE: snprintf(buf, size, "one of %s", s->choices); break;
    case SETTING_TEXT: snprintf(buf, size, "text"); break;
    case SETTING_FLAG: snprintf(buf, size, "true or false"); break;
    }
    return buf;
}

int setting_parse(void *options, const setting *table, size_t n, cli_args *a, const char *name) {
    char range[160];
    for (const setting *s = table; s < table + n; s++) {
        if (strcmp(s->option, name) != 0) continue;
        if (s->kind == SETTING_FLAG && !cli_no_value(a, name)) return CLI_USAGE;
        const char *value = s->kind == SETTING_FLAG ? "1" : cli_value(a, name);
        if (!value) return CLI_USAGE;
        if (setting_set(options, s, value)) return CLI_OK;
        return cli_usage_error(a->command, "%s takes %s, not '%s'", name, setting_range(s, range, sizeof range), value);
    }
    return cli_usage_error(a->command, "there is no option '%s'", name);
}
