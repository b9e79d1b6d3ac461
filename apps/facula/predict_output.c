/* Writes rows in three formats, and figures. */
#include "predict_output.h"
#include "cli.h"
#include "names.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 7 }; /* those of float32 */

fac_status output_put(output *o, output_cell cell) {
    if (o->n == o->cap) {
        const size_t cap = o->cap ? 2 * o->cap : 16;
        output_cell *v = realloc(o->cells, cap * sizeof *v);
        if (!v) return fac_error_set(FAC_ERR_MEMORY, "no memory for a row of the output");
        o->cells = v;
        o->cap = cap;
    }
    o->cells[o->n++] = cell;
    return FAC_OK;
}

/* ---- values between separators ---- */

/* RFC 4180: in quotes where it has what means something. */
static void put_quoted(FILE *f, const char *text) {
    if (!text[strcspn(text, ",\"\r\n")]) {
        fputs(text, f);
        return;
    }
    fputc('"', f);
    for (const char *p = text; *p; p++) {
        if (*p == '"') fputc('"', f);
        fputc(*p, f);
    }
    fputc('"', f);
}

/* Text between tabs has its control characters escaped. */
static void put_text(const output *o, const char *text) {
    if (o->format == 'c')
        put_quoted(o->f, text);
    else
        cli_put_text(o->f, text);
}

static void put_name(const output *o, const output_cell *c) {
    put_text(o, c->name);
    if (c->rank > 1) fprintf(o->f, "_%lld", (long long)c->rank);
}

static void put_value(const output *o, const output_cell *c) {
    if (c->text)
        put_text(o, c->text);
    else if (c->whole)
        fprintf(o->f, "%.0f", c->number);
    else
        fprintf(o->f, "%.*g", DIGITS, c->number);
}

static void put_row(const output *o, void (*put)(const output *o, const output_cell *c)) {
    for (const output_cell *c = o->cells; c < o->cells + o->n; c++) {
        if (c > o->cells) fputc(o->format == 'c' ? ',' : '\t', o->f);
        put(o, c);
    }
    fputc('\n', o->f);
}

/* ---- JSON ---- */

/* What is no UTF-8 becomes a sign for that. */
static json_t *json_of_text(const char *text) {
    char *clean = malloc(3 * strlen(text) + 1), *to = clean;
    if (!clean) return NULL;
    for (const char *p = text; *p;) {
        const size_t n = utf8_length(p);
        memcpy(to, n ? p : "\xef\xbf\xbd", n ? n : 3);
        to += n ? n : 3;
        p += n ? n : 1;
    }
    *to = 0;
    json_t *v = json_string(clean);
    free(clean);
    return v;
}

/* What is no finite number is null. */
static json_t *json_of_number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static int set_cell(json_t *row, const output_cell *c) {
    char name[256];
    snprintf(name, sizeof name, c->rank > 1 ? "%s_%lld" : "%s", c->name, (long long)c->rank);
    json_t *v = c->text    ? json_of_text(c->text)
                : c->whole ? json_integer((json_int_t)c->number)
                           : json_of_number(c->number);
    return json_object_set_new(row, name, v);
}

/* Takes over the object, which may be NULL. */
static fac_status put_json(FILE *f, json_t *row) {
    const bool written = row && json_dumpf(row, f, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS)) == 0;
    json_decref(row);
    if (!written && !ferror(f)) return fac_error_set(FAC_ERR_MEMORY, "no memory for a row of JSON");
    fputc('\n', f);
    return FAC_OK;
}

static fac_status put_object(const output *o) {
    json_t *row = json_object();
    for (const output_cell *c = o->cells; row && c < o->cells + o->n; c++)
        if (set_cell(row, c) != 0) {
            json_decref(row);
            row = NULL;
        }
    return put_json(o->f, row);
}

/* ---- rows ---- */

fac_status output_open(output *o, const char *format, const char *path) {
    *o = (output){.format = format[0], .path = path && strcmp(path, "-") != 0 ? path : NULL};
    o->f = o->path ? open_memstream(&o->text, &o->size) : stdout;
    return o->f ? FAC_OK : fac_error_set(FAC_ERR_MEMORY, "no memory for '%s'", path);
}

fac_status output_row(output *o) {
    fac_status st = FAC_OK;
    if (o->format == 'j')
        st = put_object(o);
    else {
        if (!o->begun) put_row(o, put_name);
        put_row(o, put_value);
    }
    o->begun = true;
    o->n = 0;
    if (!st && ferror(o->f)) st = fac_error_set(FAC_ERR_IO, "cannot write what was predicted");
    return st;
}

fac_status output_close(output *o, bool wanted) {
    const bool written = !o->f || (o->path ? fclose(o->f) : fflush(o->f)) == 0;
    fac_status st = FAC_OK;
    if (wanted && !written) st = fac_error_set(FAC_ERR_IO, "cannot write what was predicted");
    if (wanted && !st && o->path) st = fac_file_replace(o->path, o->text, o->size);
    free(o->text);
    free(o->cells);
    *o = (output){0};
    return st;
}
