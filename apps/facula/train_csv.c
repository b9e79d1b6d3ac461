/* Training a network of linear layers on the columns of a table, to predict classes or numbers. */
#include "chart.h"
#include "models.h"
#include "report.h"
#include "table.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct csv_data {
    samples s; /* first: it is what samples.h takes */
    table table;
} csv_data;

static const char *class_name(const void *s, int64_t k) {
    const csv_data *d = s;
    return d->table.classes.v[k];
}

/* ---- data and model ---- */

static const train_kind numbers_kind, classes_kind;

static fac_status make(train_job *j) {
    csv_data *d = j->data;
    const train_options *o = j->options;
    fac_status st = table_read(&d->table, &d->s, o);
    if (!st) st = samples_open(&d->s, j, NULL);
    if (!st) st = table_keep(&d->table, &j->notes);
    if (st) return st;
    j->kind = d->s.classes ? &classes_kind : &numbers_kind;
    j->model = table_model_new(d->table.features, d->s.classes ? d->s.classes : 1, o->hidden, o->dropout);
    return fac_error();
}

static void describe(const train_job *j) {
    const csv_data *d = j->data;
    const int64_t parameters = fac_module_parameter_count(j->model), inputs = d->table.features, n = d->s.n,
                  columns = (int64_t)d->table.n_inputs;
    printf("table: %lld %s to train on, %lld held out; %lld %s as %lld %s\ntarget: '", (long long)n,
           cli_word(n, "row", "rows"), (long long)fac_tensor_size(d->s.test_y, 0), (long long)columns,
           cli_word(columns, "column", "columns"), (long long)inputs, cli_word(inputs, "input", "inputs"));
    cli_put_text(stdout, j->options->target);
    if (d->s.classes)
        printf("', %lld %s", (long long)d->s.classes, cli_word(d->s.classes, "class", "classes"));
    else
        printf("', numbers, %.4g +- %.4g", d->table.mean, d->table.deviation);
    printf("\nmodel: %s, %lld %s\n", j->options->hidden, (long long)parameters,
           cli_word(parameters, "parameter", "parameters"));
}

static fac_status write_beside(const train_job *j) {
    char path[4096];
    const fac_status st = run_path(j->options->out, COLUMNS_NAME, path, sizeof path);
    return st ? st : table_write_columns(&((const csv_data *)j->data)->table, path);
}

/* ---- report ---- */

enum { ROWS_SHOWN = 15, DOTS_SHOWN = 1500 };

static void put_class_row(FILE *f, const csv_data *d, int64_t is, int64_t said, double probability) {
    fputs("<tr><td>", f);
    report_text(f, class_name(d, is));
    fprintf(f, "</td><td%s>", is == said ? "" : " class='wrong'");
    report_text(f, class_name(d, said));
    fprintf(f, "</td><td class='n'>%.1f %%</td></tr>\n", 100 * probability);
}

static fac_status report_classes(train_job *j, FILE *f) {
    const csv_data *d = j->data;
    fac_tensor *logits = samples_predict(j);
    if (!logits || samples_report_classes(j, f, logits)) return fac_error();
    fac_tensor *said = fac_argmax(logits, .dim = 1), *sure = fac_amax(fac_softmax(logits, 1), .dim = 1);
    if (fac_error()) return fac_error();
    const int64_t n = fac_tensor_size(said, 0), *is = fac_tensor_data(d->s.test_y), *to = fac_tensor_data(said);
    const float *probability = fac_tensor_data(sure);
    report_section(f, "Rows that were held out");
    fputs("<table><tr><th>true</th><th>predicted</th><th class='n'>probability</th></tr>\n", f);
    for (int64_t i = 0; i < n && i < ROWS_SHOWN; i++) put_class_row(f, d, is[i], to[i], (double)probability[i]);
    fputs("</table></section>\n", f);
    return fac_error();
}

/* The numbers as they stand in the table. */
static void unscale(const table *t, const float *v, int64_t n, double *out) {
    for (int64_t i = 0; i < n; i++) out[i] = (double)v[i] * t->deviation + t->mean;
}

static void put_numbers(FILE *f, const double *is, const double *said, int64_t n, const char *target) {
    double squares = 0, sizes = 0;
    for (int64_t i = 0; i < n; i++) {
        squares += (said[i] - is[i]) * (said[i] - is[i]);
        sizes += fabs(said[i] - is[i]);
    }
    report_section(f, "Predictions");
    fputs("<p>Of <b>", f);
    report_text(f, target);
    fprintf(f, "</b> in %lld %s held out. Mean error: %.5g; root of the mean square: %.5g.</p>\n", (long long)n,
            cli_word(n, "row that was", "rows that were"), sizes / (double)n, sqrt(squares / (double)n));
    const chart_series dots = {NULL, "train", is, said, (size_t)(n < DOTS_SHOWN ? n : DOTS_SHOWN), true, false};
    chart_write(f, &(chart){"true", "predicted", &dots, 1, true});
    fputs("<h3>Some of them</h3><table><tr><th class='n'>true</th><th class='n'>predicted</th></tr>\n", f);
    for (int64_t i = 0; i < n && i < ROWS_SHOWN; i++)
        fprintf(f, "<tr><td class='n'>%.5g</td><td class='n'>%.5g</td></tr>\n", is[i], said[i]);
    fputs("</table></section>\n", f);
}

static fac_status report_numbers(train_job *j, FILE *f) {
    const csv_data *d = j->data;
    fac_tensor *out = samples_predict(j);
    if (!out) return fac_error();
    const int64_t n = fac_tensor_size(out, 0);
    double *room = malloc((size_t)(2 * n) * sizeof *room);
    if (!room) return fac_error_set(FAC_ERR_MEMORY, "no memory for the report");
    unscale(&d->table, fac_tensor_data(d->s.test_y), n, room);
    unscale(&d->table, fac_tensor_data(out), n, room + n);
    put_numbers(f, room, room + n, n, j->options->target);
    free(room);
    return fac_error();
}

static void release(void *data) {
    csv_data *d = data;
    samples_close(&d->s);
    table_close(&d->table);
}

#define COMMON                                                                                                  \
    .name = "csv", .unit = "rows", .measure = "test loss", .loss_name = "loss", .parts = 1, .make = make,       \
    .describe = describe, .loss = samples_loss, .validate = samples_validate, .save_order = samples_save_order, \
    .load_order = samples_load_order, .write_beside = write_beside, .example = samples_example, .release = release

static const train_kind numbers_kind = {COMMON, .axis = "mean square, of a deviation 1", .extra = "R2",
                                        .report = report_numbers};
static const train_kind classes_kind = {COMMON, .axis = "cross entropy, nats", .extra = "accuracy", .percent = true,
                                        .report = report_classes};

int train_csv(const train_options *o) {
    csv_data d = {.s = {.class_name = class_name}};
    return train_run(
        &(train_job){.kind = &classes_kind, .options = o, .units_per_step = o->batch, .scale = 1, .data = &d});
}
