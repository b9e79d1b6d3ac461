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
        fprintf(o->f, "%.*g", DIGITS, isnan(c->number) ? NAN : c->number); /* which has no sign */
}

static void put_row(const output *o, void (*put)(const output *o, const output_cell *c)) {
    for (const output_cell *c = o->cells; c < o->cells + o->n; c++) {
        if (c > o->cells) fputc(o->format == 'c' ? ',' : '\t', o->f);
        put(o, c);
    }
    fputc('\n', o->f);
}

/* ---- JSON ---- */

/* A copy in which what is no UTF-8 has become a sign for that; owned by the caller, NULL without memory. */
static char *clean_text(const char *text) {
    char *clean = malloc(3 * strlen(text) + 1), *to = clean;
    for (const char *p = text; clean && *p;) {
        const size_t n = utf8_length(p);
        memcpy(to, n ? p : "\xef\xbf\xbd", n ? n : 3);
        to += n ? n : 3;
        p += n ? n : 1;
    }
    if (clean) *to = 0;
    return clean;
}

static json_t *json_of_text(const char *text) {
    char *clean = clean_text(text);
    json_t *v = clean ? json_string(clean) : NULL;
    free(clean);
    return v;
}

/* What is no finite number is null. */
static json_t *json_of_number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static fac_status no_memory(void) { return fac_error_set(FAC_ERR_MEMORY, "no memory for a row of JSON"); }

static fac_status set_cell(json_t *row, const output_cell *c) {
    char ranked[64];
    snprintf(ranked, sizeof ranked, "%.32s_%lld", c->name, (long long)c->rank);
    char *name = clean_text(c->rank > 1 ? ranked : c->name);
    if (!name) return no_memory();
    fac_status st = FAC_OK;
    if (json_object_get(row, name))
        st = fac_error_set(FAC_ERR_ARGUMENT,
                           "two values of a row are called '%s', and an object of JSON has one of a name; --format csv "
                           "writes both",
                           name);
    json_t *v = c->text    ? json_of_text(c->text)
                : c->whole ? json_integer((json_int_t)c->number)
                           : json_of_number(c->number);
    if (json_object_set_new(row, name, v) != 0 && !st) st = no_memory();
    free(name);
    return st;
}

static fac_status put_object(const output *o) {
    json_t *row = json_object();
    fac_status st = row ? FAC_OK : no_memory();
    for (const output_cell *c = o->cells; !st && c < o->cells + o->n; c++) st = set_cell(row, c);
    if (!st && json_dumpf(row, o->f, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS)) != 0 && !ferror(o->f))
        st = no_memory();
    if (!st) fputc('\n', o->f);
    json_decref(row);
    return st;
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
