/* What a run keeps of its table: in the checkpoint, to predict with, and in columns.tsv, to be looked at. */
#include "models.h"
#include "table.h"
#include <stdlib.h>
#include <string.h>

/* ---- the checkpoint ---- */

#define INPUTS_NOTE "inputs"

/* A line for each input, of fields that end with tabs: "number", name, mean, deviation; or "kinds", name, the texts. */
static void put_inputs(FILE *f, const table *t) {
    for (const table_input *in = t->inputs; in < t->inputs + t->n_inputs; in++) {
        fputs(in->kinds.n ? "kinds\t" : "number\t", f);
        names_put(f, in->name);
        fputc('\t', f);
        if (!in->kinds.n) fprintf(f, "%.17g\t%.17g\t", in->mean, in->deviation);
        for (size_t k = 0; k < in->kinds.n; k++) {
            names_put(f, in->kinds.v[k]);
            fputc('\t', f);
        }
        fputc('\n', f);
    }
}

fac_status table_keep(const table *t, notes *n) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (f) put_inputs(f, t);
    if (f && fclose(f) == 0)
        notes_set(n, INPUTS_NOTE, text);
    else
        fac_error_set(FAC_ERR_MEMORY, "no memory for what a run keeps of its table");
    free(text);
    if (t->classes.n)
        run_keep_classes(n, &t->classes);
    else {
        notes_set_double(n, "target_mean", t->mean);
        notes_set_double(n, "target_deviation", t->deviation);
    }
    return fac_error();
}

static bool read_number(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end;
}

static fac_status damaged(const char *what) {
    return fac_error_set(FAC_ERR_FORMAT, "the checkpoint is damaged in what it says of its table's %s", what);
}

/* Takes over the texts of a list from the third on. */
static fac_status take_rest(name_list *fields, name_list *out) {
    fac_status st = FAC_OK;
    for (size_t i = 2; i < fields->n && !st; i++) st = names_add(out, fields->v[i]);
    names_sort(out);
    return st;
}

static fac_status take_fields(table *t, name_list *fields) {
    if (fields->n < 3) return damaged("inputs");
    table_input *in = &t->inputs[t->n_inputs++];
    in->name = strdup(fields->v[1]);
    if (!in->name) return fac_error_set(FAC_ERR_MEMORY, "no memory for the columns");
    if (strcmp(fields->v[0], "kinds") == 0) {
        t->features += (int64_t)fields->n - 2;
        return take_rest(fields, &in->kinds);
    }
    t->features++;
    const bool good = fields->n == 4 && strcmp(fields->v[0], "number") == 0 && read_number(fields->v[2], &in->mean) &&
                      read_number(fields->v[3], &in->deviation);
    return good ? FAC_OK : damaged("inputs");
}

static fac_status take_inputs(table *t, const char *text) {
    size_t lines = 1;
    for (const char *p = text; *p; p++) lines += *p == '\n';
    t->inputs = calloc(lines, sizeof *t->inputs);
    fac_status st = t->inputs ? FAC_OK : fac_error_set(FAC_ERR_MEMORY, "no memory for the columns");
    for (const char *p = text; *p && !st;) {
        name_list fields = {0};
        const size_t n = strcspn(p, "\n");
        st = names_split(&fields, p, n, '\t');
        if (!st) st = take_fields(t, &fields);
        names_free(&fields);
        p += n + (p[n] == '\n');
    }
    return st || t->n_inputs ? st : damaged("inputs");
}

fac_status table_of_notes(table *t, const notes *n) {
    const char *text = notes_get(n, INPUTS_NOTE);
    if (!text)
        return fac_error_set(FAC_ERR_FORMAT,
                             "the checkpoint does not say what its inputs are, as an older version wrote it; train "
                             "anew, or some steps more: facula train --resume --steps N --out FOLDER");
    fac_status st = take_inputs(t, text);
    if (!st) st = run_classes(n, &t->classes);
    if (st || t->classes.n) return st;
    t->mean = notes_double(n, "target_mean");
    t->deviation = notes_double(n, "target_deviation");
    return fac_error();
}

/* ---- columns.tsv ---- */

static void print_columns(FILE *f, const table *t) {
    fputs("input\tcolumn\ttext\tmean\tdeviation\n", f);
    int64_t n = 0;
    for (const table_input *in = t->inputs; in < t->inputs + t->n_inputs; in++)
        for (size_t k = 0; k < (in->kinds.n ? in->kinds.n : 1); k++) {
            fprintf(f, "%lld\t", (long long)n++);
            cli_put_text(f, in->name);
            fputc('\t', f);
            if (in->kinds.n) {
                cli_put_text(f, in->kinds.v[k]);
                fputs("\t-\t-\n", f);
            } else
                fprintf(f, "-\t%.17g\t%.17g\n", in->mean, in->deviation);
        }
}

fac_status table_write_columns(const table *t, const char *path) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (f) print_columns(f, t);
    fac_status st = f && fclose(f) == 0 ? FAC_OK : fac_error_set(FAC_ERR_MEMORY, "no memory for '%s'", path);
    if (!st) st = fac_file_replace(path, text, n);
    free(text);
    return st;
}
