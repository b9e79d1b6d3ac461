/* What `facula predict` prints: a row for each sample, as tab-separated values, CSV or JSON. */
#ifndef FACULA_APP_PREDICT_OUTPUT_H
#define FACULA_APP_PREDICT_OUTPUT_H

#include <facula/facula.h>
#include <stdio.h>

#define OUTPUT_CHOICES "tsv|csv|json"

/* One value of a row. */
typedef struct output_cell {
    const char *name; /* borrowed until the row ends: of the column */
    int64_t rank;     /* above 1: "_2" and so on follows the name */
    const char *text; /* borrowed as well; NULL: a number */
    double number;
    bool whole; /* the number is one of those */
} output_cell;

typedef struct output {
    FILE *f;
    char format;        /* 't', 'c', 'j' */
    const char *path;   /* to be replaced at the end by what was written; NULL: it goes to stdout at once */
    char *text;         /* owned: what was written for the path */
    size_t size;        /* of it */
    output_cell *cells; /* owned: of the present row */
    size_t n, cap;
    bool begun; /* the names of the columns are written */
} output;

/* path: NULL or "-" for stdout. errors: MEMORY */
fac_status output_open(output *o, const char *format, const char *path);
/* Adds a value to the present row. errors: MEMORY */
fac_status output_put(output *o, output_cell cell);
/* Writes the row; before the first one, the names of its columns. errors: IO; MEMORY */
fac_status output_row(output *o);
/* Gives the file that was written its name, if wanted, and frees all. errors: those of fac_file_replace; IO */
fac_status output_close(output *o, bool wanted);

#endif
