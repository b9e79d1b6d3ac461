/* Predicts for the rows of tables. */
#include "predict.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the run ---- */

static fac_status make(predictor *p) {
    const predict_options *o = p->options;
    fac_status st = table_of_notes(&p->table, &p->notes);
    p->classes = p->table.classes;
    p->table.classes = (name_list){0};
    if (!st && !p->classes.n && o->top > 1)
        st = predict_misused(p, "--top is for classes, and '%s' is a run on numbers");
    const int64_t out = p->classes.n ? (int64_t)p->classes.n : 1;
    if (!st) st = table_model_check(p->run.out, p->table.features, out, p->run.hidden);
    if (st) return st;
    p->model = table_model_new(p->table.features, out, p->run.hidden, 0);
    return fac_error();
}

/* ---- one file ---- */

typedef struct rows {
    const char *name; /* of the file, as it was given */
    fac_csv *file;    /* owned */
    fac_tensor *x;    /* owned: what the model takes of it */
    int64_t target;   /* column; -1: it is not there */
    int64_t *kept;    /* owned: columns to be printed as well */
    size_t n_kept;
} rows;

/* Finds the columns of --keep. */
static fac_status find_kept(rows *r, const char *path, const char *list) {
    name_list names = {0};
    fac_status st = list ? names_split(&names, list, strlen(list), ',') : FAC_OK;
    r->kept = calloc(names.n + 1, sizeof *r->kept);
    if (!st && !r->kept) st = fac_error_set(FAC_ERR_MEMORY, "no memory for the columns");
    for (size_t i = 0; i < names.n && !st; i++) {
        r->kept[r->n_kept++] = fac_csv_find(r->file, names.v[i]);
        if (r->kept[i] < 0)
            st = fac_error_set(FAC_ERR_NOT_FOUND, "'%s' has no column '%s', which --keep names", path, names.v[i]);
    }
    names_free(&names);
    return st;
}

static fac_status rows_open(rows *r, const predictor *p, const char *name, const char *path) {
    *r = (rows){.name = name, .file = table_open(path, &p->run)};
    fac_status st = r->file ? find_kept(r, path, p->options->keep) : fac_error();
    if (st) return st;
    r->target = fac_csv_find(r->file, p->run.target);
    r->x = table_inputs(&p->table, r->file, path, &p->run);
    return fac_error();
}

static void rows_close(rows *r) {
    fac_release(r->x);
    free(r->kept);
    fac_csv_close(r->file);
}

/* ---- predicting ---- */

/* Compares what was said last with what is true, if that is known. */
static void count(predictor *p, const char *text, const float *said) {
    figures *g = &p->figures;
    char *end = NULL;
    const double is = p->classes.n ? NAN : strtod(text, &end);
    if (!*text) return;
    if (p->classes.n)
        predict_compare(p, names_find_sorted(&p->classes, text), said);
    else if (end > text && !*end && isfinite(is))
        figures_number(g, predict_number(p, said), is);
    else
        g->unknown++;
}

static fac_status put_row(predictor *p, const rows *r, int64_t row, const float *said) {
    fac_status st = output_put(&p->out, (output_cell){.name = "file", .text = r->name});
    if (!st) st = output_put(&p->out, (output_cell){.name = "row", .number = (double)row + 1, .whole = true});
    for (size_t i = 0; i < r->n_kept && !st; i++)
        st = output_put(&p->out, (output_cell){.name = fac_csv_name(r->file, r->kept[i]),
                                               .text = fac_csv_text(r->file, row, r->kept[i])});
    if (!st) st = predict_put(p, said);
    if (!st && r->target >= 0) count(p, fac_csv_text(r->file, row, r->target), said);
    return st;
}

static fac_status predict_rows(predictor *p, const rows *r, int64_t begin, int64_t n) {
    FAC_SCOPE(s);
    const int64_t width = p->classes.n ? (int64_t)p->classes.n : 1;
    fac_tensor *said = predict_batch(p, fac_narrow(r->x, 0, begin, n));
    const float *v = said ? fac_tensor_data(said) : NULL;
    fac_status st = fac_error();
    for (int64_t i = 0; i < n && !st; i++) st = put_row(p, r, begin + i, v + i * width);
    predict_progress(p);
    return st;
}

static fac_status predict_file(predictor *p, const char *name, const char *path) {
    rows r;
    fac_status st = FAC_OK;
    if (rows_open(&r, p, name, path))
        predict_complain(p);
    else {
        const int64_t n = fac_csv_rows(r.file), most = p->options->batch;
        p->total += n;
        for (int64_t i = 0; i < n && !st && !cli_stop; i += most)
            st = predict_rows(p, &r, i, n - i < most ? n - i : most);
    }
    rows_close(&r);
    return st;
}

/* ---- standard input ---- */

/* Standard input becomes a file, as what reads tables wants one. */
static fac_status keep_stdin(void) {
    struct stat st;
    if (fstat(STDIN_FILENO, &st) == 0 && S_ISREG(st.st_mode)) return FAC_OK;
    char part[65536];
    ssize_t n = -1;
    FILE *copy = tmpfile();
    while (copy && (n = read(STDIN_FILENO, part, sizeof part)) > 0)
        if (fwrite(part, 1, (size_t)n, copy) != (size_t)n) break;
    const bool good = n == 0 && fflush(copy) == 0 && dup2(fileno(copy), STDIN_FILENO) >= 0;
    fac_status status = good ? FAC_OK : fac_error_set(FAC_ERR_IO, "cannot read standard input: %s", strerror(errno));
    if (copy) fclose(copy);
    return status;
}

static fac_status predict_stdin(predictor *p) {
    cli_catch_stop(false); /* which would wait for the end of the input */
    const bool kept = keep_stdin() == FAC_OK;
    cli_catch_stop(true);
    if (kept) return predict_file(p, "-", "/dev/stdin");
    return predict_complain(p), FAC_OK;
}

static fac_status predict_one(predictor *p, const char *file) {
    return strcmp(file, "-") == 0 ? predict_stdin(p) : predict_file(p, file, file);
}

static fac_status predict(predictor *p) {
    fac_status st = FAC_OK;
    for (size_t i = 0; i < p->options->n_files && !st && !cli_stop; i++) st = predict_one(p, p->options->files[i]);
    return st;
}

const predict_kind predict_tables = {"csv", make, predict};
