/* Makes tensors of the columns of a table. */
#include "table.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Texts of a column that nobody has said to take as kinds: more look like names of the rows. */
enum { MOST_KINDS = 100 };

/* ---- which columns ---- */

/* Whether a name stands in a list with commas. */
static bool in_list(const char *list, const char *name) {
    const size_t n = strlen(name);
    for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == n && strncmp(p, name, n) == 0) return true;
    return false;
}

/* All names of a list must be columns. */
static fac_status check_list(const fac_csv *f, const char *option, const char *list) {
    char name[256];
    for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',') {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, ","), p);
        if (fac_csv_find(f, name) < 0)
            return fac_error_set(FAC_ERR_NOT_FOUND, "%s: there is no column '%s'", option, name);
    }
    return FAC_OK;
}

/* The column's numbers; NULL, without an error, if it has other text. Owned by the caller. */
static double *read_numbers(const fac_csv *f, int64_t column) {
    FAC_SCOPE(s);
    fac_tensor *t = fac_csv_numbers(f, FAC_INTS(column));
    const int64_t n = fac_csv_rows(f);
    if (!t && fac_error() == FAC_ERR_FORMAT) fac_error_clear();
    double *v = t ? malloc((size_t)(n + 1) * sizeof *v) : NULL;
    if (v)
        memcpy(v, fac_tensor_data(t), (size_t)n * sizeof *v);
    else if (t)
        fac_error_set(FAC_ERR_MEMORY, "no memory for a column");
    return v;
}

/* Mean and deviation of the rows to train on, of numbers that are there; a deviation of 0 becomes 1. */
static void measure(const double *v, int64_t n, bool all, double *mean, double *deviation) {
    double sum = 0, squares = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(v[i]) || (!all && samples_hold_out(i))) continue;
        sum += v[i];
        count++;
    }
    *mean = count ? sum / (double)count : 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(v[i]) && (all || !samples_hold_out(i))) squares += (v[i] - *mean) * (v[i] - *mean);
    *deviation = count ? sqrt(squares / (double)count) : 0;
    if (!(*deviation > 0)) *deviation = 1;
}

/* A number must be there, unless the mean may stand for it. */
static fac_status check_numbers(const fac_csv *f, const char *path, int64_t column, const double *v, bool may_miss) {
    for (int64_t i = 0; i < fac_csv_rows(f); i++) {
        if (isfinite(v[i]) || (may_miss && isnan(v[i]))) continue;
        return fac_error_set(FAC_ERR_FORMAT, "'%s': column '%s' has '%s' in row %lld, which is no finite number%s",
                             path, fac_csv_name(f, column), fac_csv_text(f, i, column), (long long)i + 1,
                             isnan(v[i]) ? "; --missing mean takes the column's mean instead" : "");
    }
    return FAC_OK;
}

/* The different texts of a column, in order. */
static fac_status take_texts(fac_csv *f, int64_t column, name_list *out) {
    const int64_t n = fac_csv_class_count(f, column);
    fac_status st = fac_error();
    for (int64_t k = 0; k < n && !st; k++) st = names_add(out, fac_csv_class(f, column, k));
    return st;
}

static fac_status take_kinds(table *t, table_input *in, const train_options *o) {
    const int64_t n = fac_csv_class_count(t->file, in->column);
    if (n > MOST_KINDS && !in_list(o->one_hot, in->name))
        return fac_error_set(
            FAC_ERR_ARGUMENT,
            "column '%s' has %lld different texts: leave it out by --drop %s, or take one input for each of "
            "them by --one-hot %s",
            in->name, (long long)n, in->name, in->name);
    t->features += n;
    return take_texts(t->file, in->column, &in->kinds);
}

static fac_status take_column(table *t, int64_t column, const train_options *o) {
    table_input *in = &t->inputs[t->n_inputs++];
    const bool kinds = in_list(o->one_hot, fac_csv_name(t->file, column));
    *in = (table_input){.column = column, .name = strdup(fac_csv_name(t->file, column))};
    if (!in->name) return fac_error_set(FAC_ERR_MEMORY, "no memory for the columns");
    if (!kinds) in->values = read_numbers(t->file, column);
    if (fac_error()) return fac_error();
    if (!in->values) return take_kinds(t, in, o);
    t->features++;
    measure(in->values, fac_csv_rows(t->file), o->test_csv != NULL, &in->mean, &in->deviation);
    return check_numbers(t->file, o->csv, column, in->values, strcmp(o->missing, "mean") == 0);
}

static fac_status choose_columns(table *t, const train_options *o) {
    const int64_t n = fac_csv_columns(t->file);
    fac_status st = check_list(t->file, "--drop", o->drop);
    if (!st) st = check_list(t->file, "--one-hot", o->one_hot);
    t->inputs = calloc((size_t)n, sizeof *t->inputs);
    if (!st && !t->inputs) st = fac_error_set(FAC_ERR_MEMORY, "no memory for the columns");
    for (int64_t c = 0; !st && c < n; c++)
        if (c != t->target && !in_list(o->drop, fac_csv_name(t->file, c))) st = take_column(t, c, o);
    if (!st && t->n_inputs == 0) st = fac_error_set(FAC_ERR_ARGUMENT, "'%s' has no columns beside the target", o->csv);
    return st;
}

/* ---- inputs ---- */

static fac_status put_numbers(const table *t, const table_input *in, const fac_csv *f, const char *path, int64_t column,
                              const double *v, float *out) {
    for (int64_t i = 0; i < fac_csv_rows(f); i++, out += t->features) {
        *out = isnan(v[i]) ? 0 : (float)((v[i] - in->mean) / in->deviation);
        if (!isfinite(*out))
            return fac_error_set(
                FAC_ERR_FORMAT, "'%s': column '%s' has '%s' in row %lld, which is too far from the training's mean, %g",
                path, in->name, fac_csv_text(f, i, column), (long long)i + 1, in->mean);
    }
    return FAC_OK;
}

static fac_status put_kinds(const table *t, const table_input *in, const fac_csv *f, const char *path, int64_t column,
                            float *out) {
    for (int64_t i = 0; i < fac_csv_rows(f); i++) {
        const char *text = fac_csv_text(f, i, column);
        const int64_t k = names_find_sorted(&in->kinds, text);
        if (k < 0)
            return fac_error_set(FAC_ERR_NOT_FOUND, "'%s': '%s' in row %lld of column '%s' is not in the training data",
                                 path, text, (long long)i + 1, fac_csv_name(f, column));
        out[i * t->features + k] = 1;
    }
    return FAC_OK;
}

/* One column of a file, which may be another one than the table's own. */
static fac_status put_input(const table *t, const table_input *in, fac_csv *f, const char *path, float *out,
                            const train_options *o) {
    const int64_t column = fac_csv_find(f, in->name);
    if (column < 0) return fac_error_set(FAC_ERR_NOT_FOUND, "'%s' has no column '%s'", path, in->name);
    if (in->kinds.n) return put_kinds(t, in, f, path, column, out);
    double *v = f == t->file ? in->values : read_numbers(f, column);
    if (!v && !fac_error())
        fac_error_set(FAC_ERR_FORMAT, "'%s': column '%s' has text, but numbers in '%s'", path, in->name, o->csv);
    fac_status st = v ? check_numbers(f, path, column, v, strcmp(o->missing, "mean") == 0) : fac_error();
    if (!st) st = put_numbers(t, in, f, path, column, v, out);
    if (v != in->values) free(v);
    return st;
}

fac_tensor *table_inputs(const table *t, fac_csv *f, const char *path, const train_options *o) {
    const int64_t n = fac_csv_rows(f);
    fac_tensor *x = fac_zeros(FAC_INTS(n, t->features), .dtype = FAC_F32);
    float *out = fac_tensor_data(x);
    fac_status st = fac_error();
    for (size_t i = 0; i < t->n_inputs && !st; i++) {
        st = put_input(t, &t->inputs[i], f, path, out, o);
        out += t->inputs[i].kinds.n ? t->inputs[i].kinds.n : 1;
    }
    return st ? NULL : fac_keep(x);
}

/* ---- target ---- */

static fac_tensor *read_classes(const table *t, fac_csv *f, const char *path, int64_t column) {
    if (f == t->file) return fac_keep(fac_csv_classes(f, column));
    const int64_t n = fac_csv_rows(f);
    fac_tensor *y = fac_empty(FAC_INTS(n), .dtype = FAC_I64);
    int64_t *v = fac_tensor_data(y);
    for (int64_t i = 0; v && i < n; i++)
        if ((v[i] = names_find_sorted(&t->classes, fac_csv_text(f, i, column))) < 0) {
            fac_error_set(FAC_ERR_NOT_FOUND, "'%s': the class '%s' in row %lld is not in the training data", path,
                          fac_csv_text(f, i, column), (long long)i + 1);
            return NULL;
        }
    return fac_keep(y);
}

static fac_tensor *read_target_numbers(table *t, fac_csv *f, const char *path, int64_t column, bool all) {
    double *v = read_numbers(f, column);
    const int64_t n = fac_csv_rows(f);
    if (!v && !fac_error())
        fac_error_set(FAC_ERR_FORMAT, "'%s': the target '%s' has text: --task classification takes that", path,
                      fac_csv_name(f, column));
    if (!v || check_numbers(f, path, column, v, false)) {
        free(v);
        return NULL;
    }
    if (f == t->file) measure(v, n, all, &t->mean, &t->deviation);
    fac_tensor *y = fac_empty(FAC_INTS(n, 1), .dtype = FAC_F32);
    float *out = fac_tensor_data(y);
    for (int64_t i = 0; out && i < n; i++) out[i] = (float)((v[i] - t->mean) / t->deviation);
    free(v);
    return fac_keep(y);
}

static fac_tensor *read_target(table *t, samples *s, fac_csv *f, const char *path, const train_options *o) {
    const int64_t column = fac_csv_find(f, o->target);
    if (column < 0) {
        fac_error_set(FAC_ERR_NOT_FOUND, "'%s' has no column '%s'", path, o->target);
        return NULL;
    }
    return s->classes ? read_classes(t, f, path, column) : read_target_numbers(t, f, path, column, o->test_csv != NULL);
}

/* Classes, or 0 for numbers. */
static fac_status choose_task(table *t, samples *s, const train_options *o) {
    t->target = fac_csv_find(t->file, o->target);
    if (t->target < 0) return fac_error_set(FAC_ERR_NOT_FOUND, "'%s' has no column '%s'", o->csv, o->target);
    double *v = strcmp(o->task, "auto") == 0 ? read_numbers(t->file, t->target) : NULL;
    const bool numbers = v || strcmp(o->task, "regression") == 0;
    free(v);
    if (fac_error() || numbers || take_texts(t->file, t->target, &t->classes)) return fac_error();
    s->classes = (int64_t)t->classes.n;
    if (s->classes == 1) fac_error_set(FAC_ERR_ARGUMENT, "the target '%s' is the same in all rows", o->target);
    return fac_error();
}

/* ---- the table ---- */

fac_csv *table_open(const char *path, const train_options *o) {
    fac_csv *f = fac_csv_open(path, .delimiter = o->delimiter);
    if (f && fac_csv_rows(f) == 0) {
        fac_error_set(FAC_ERR_ARGUMENT, "'%s' has no rows below its heading", path);
        fac_csv_close(f);
        return NULL;
    }
    return f;
}

static fac_status read_test(table *t, samples *s, const train_options *o) {
    fac_csv *f = table_open(o->test_csv, o);
    if (!f) return fac_error();
    s->test_x = table_inputs(t, f, o->test_csv, o);
    s->test_y = s->test_x ? read_target(t, s, f, o->test_csv, o) : NULL;
    fac_csv_close(f);
    return fac_error();
}

fac_status table_read(table *t, samples *s, const train_options *o) {
    FAC_SCOPE(scope);
    t->file = table_open(o->csv, o);
    if (!t->file || choose_task(t, s, o) || choose_columns(t, o)) return fac_error();
    s->x = table_inputs(t, t->file, o->csv, o);
    s->y = s->x ? read_target(t, s, t->file, o->csv, o) : NULL;
    if (fac_error()) return fac_error();
    return o->test_csv ? read_test(t, s, o) : samples_split(s, "rows");
}

void table_close(table *t) {
    for (size_t i = 0; t->inputs && i < t->n_inputs; i++) {
        free(t->inputs[i].values);
        free(t->inputs[i].name);
        names_free(&t->inputs[i].kinds);
    }
    free(t->inputs);
    names_free(&t->classes);
    fac_csv_close(t->file);
}
