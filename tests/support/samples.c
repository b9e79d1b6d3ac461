/* The set of samples: reading, finding, trying. */
#include "samples.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

bool samples_add(sample_set *s, const char *text) {
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 256;
        char **texts = realloc(s->texts, room * sizeof *texts);
        if (!texts) return false;
        s->texts = texts;
        s->room = room;
    }
    s->texts[s->n] = strdup(text);
    return s->texts[s->n] && ++s->n;
}

void samples_free(sample_set *s) {
    for (size_t i = 0; i < s->n; i++) free(s->texts[i]);
    free(s->texts);
    *s = (sample_set){0};
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

void samples_sort(sample_set *s) {
    if (s->n) qsort(s->texts, s->n, sizeof *s->texts, by_text);
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

static bool read_line(sample_set *s, char *line, const char *path, int number) {
    sample_call call;
    const char *where;
    line[strcspn(line, "\n")] = '\0';
    if (line[strspn(line, " ")] == '\0' || line[0] == '#') return true;
    if (sample_parse(line, &call, &where)) return samples_add(s, line);
    fprintf(stderr, "%s:%d: not understood from here: %s\n", path, number, where);
    return false;
}

bool samples_read_file(sample_set *s, const char *path) {
    static char line[SAMPLE_TEXT];
    FILE *f = fopen(path, "r");
    bool ok = f != NULL;
    for (int number = 1; ok && fgets(line, sizeof line, f); number++) ok = read_line(s, line, path, number);
    if (f) fclose(f);
    return ok;
}

bool samples_read(sample_set *s, const char *folder) {
    DIR *d = opendir(folder);
    bool ok = d != NULL;
    if (!d) fprintf(stderr, "%s: no such folder\n", folder);
    for (struct dirent *e; ok && (e = readdir(d));) {
        char path[1024];
        size_t n = strlen(e->d_name);
        if (n < 4 || strcmp(e->d_name + n - 4, ".txt") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        ok = samples_read_file(s, path);
    }
    if (d) closedir(d);
    samples_sort(s);
    return ok;
}

bool samples_load(sample_set *out) {
    char path[1024];
    const char *data = getenv("FACULA_TEST_DATA");
    *out = (sample_set){0};
    snprintf(path, sizeof path, "%s/samples", data ? data : "tests/data");
    return fac_init() == FAC_OK && samples_read(out, path) && samples_complete(out);
}

/* ---- finding ------------------------------------------------------------------------------------------------------- */

/* Orders a call's text against "name(". */
static int order(const char *text, const char *name) {
    size_t n = strlen(name);
    int c = strncmp(text, name, n);
    return c ? c : (int)(unsigned char)text[n] - '(';
}

char *const *samples_of(const sample_set *s, const char *op, size_t *out_n) {
    const char *name = strncmp(op, "aten::", 6) == 0 ? op + 6 : op;
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (order(s->texts[mid], name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    *out_n = 0;
    while (low + *out_n < s->n && order(s->texts[low + *out_n], name) == 0) ++*out_n;
    return s->texts + low;
}

/* ---- trying --------------------------------------------------------------------------------------------------------- */

const char *sample_elsewhere(const char *op) {
    return strcmp(op, "aten::pin_memory") == 0 ? "page-locked memory needs a CUDA device" : NULL;
}

fac_status sample_try(const sample_call *c, fac_device device) {
    const fac_operator *op = fac_operator_find(c->op);
    sample_made made;
    fac_value results[8];
    if (!op) return fac_error();
    FAC_TRY(sample_make(c, device, &made));
    for (size_t i = 0; i < FAC_COUNT(results); i++) results[i] = fac_value_none();
    fac_status st = fac_call_op(op, made.args, made.n_args, results);
    for (size_t i = 0; i < FAC_COUNT(results); i++) fac_value_release(&results[i]);
    sample_unmake(&made);
    return st;
}
