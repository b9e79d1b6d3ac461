/* Puts the page together. */
#include "report.h"
#include "chart.h"
#include "report_style.h"
#include "train_settings.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* ---- head and figures ---- */

static void tile(FILE *f, const char *value, const char *name) {
    fputs("<div class='tile'><b>", f);
    report_text(f, value);
    fputs("</b><span>", f);
    report_text(f, name);
    fputs("</span></div>\n", f);
}

static void number_tile(FILE *f, const char *format, double v, const char *name) {
    char text[64];
    if (isnan(v)) return;
    snprintf(text, sizeof text, format, v);
    tile(f, text, name);
}

/* 1234567 as "1.23 M". */
static char *short_number(double v, char *buf, size_t size) {
    static const char *const units[] = {"", " k", " M", " G", " T"};
    size_t unit = 0;
    for (; v >= 9999.5 && unit + 1 < sizeof units / sizeof *units; unit++) v /= 1000;
    snprintf(buf, size, v >= 100 || v == floor(v) ? "%.0f%s" : "%.3g%s", v, units[unit]);
    return buf;
}

static void memory_tiles(FILE *f, const train_options *o) {
    char text[32];
    struct rusage use;
    if (getrusage(RUSAGE_SELF, &use) == 0)
        tile(f, cli_bytes((int64_t)use.ru_maxrss * 1024, text, sizeof text), "memory at its peak");
    if (!o->device || strncmp(o->device, "cuda", 4) != 0) return;
    const int device = fac_device_parse(o->device).index_plus - 1; /* -1: the current one */
    tile(f, cli_bytes(fac_cuda_max_memory_allocated(device), text, sizeof text), "tensors on the GPU at their peak");
}

static void tiles(FILE *f, train_job *j, const report_figures *r) {
    const train_kind *k = j->kind;
    char text[64], name[96];
    fputs("<div class='tiles'>\n", f);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(k->measure, ":"), k->measure);
    number_tile(f, "%.4f", r->valid, name);
    if (k->extra) number_tile(f, k->percent ? "%.2f %%" : "%.4f", r->extra * (k->percent ? 100 : 1), k->extra);
    if (r->best_step > 0) {
        snprintf(name, sizeof name, "lowest, after step %lld", (long long)r->best_step);
        number_tile(f, "%.4f", r->best, name);
    }
    number_tile(f, "%.4f", r->first_valid, "at the start");
    snprintf(text, sizeof text, "%lld", (long long)r->step);
    tile(f, text, cli_word(r->step, "step", "steps"));
    if (r->seconds > 0) {
        tile(f, progress_clock(r->seconds, text, sizeof text), r->first ? "since it went on" : "time");
        snprintf(name, sizeof name, "%s in a second", k->unit);
        tile(f, short_number(r->units, text, sizeof text), name);
    }
    tile(f, short_number((double)fac_module_parameter_count(j->model), text, sizeof text), "parameters");
    memory_tiles(f, j->options);
    fputs("</div>\n", f);
}

static void head(FILE *f, const train_job *j, const report_figures *r) {
    static const char *const titles[][2] = {
        {"text", "A GPT on text"}, {"images", "An image classifier"}, {"csv", "A network on a table"}};
    const train_options *o = j->options;
    const char *title = j->kind->name;
    char date[64] = "";
    const time_t now = time(NULL);
    struct tm local;
    if (localtime_r(&now, &local)) strftime(date, sizeof date, "%Y-%m-%d %H:%M", &local);
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (strcmp(titles[i][0], title) == 0) title = titles[i][1];
    fputs("<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
          "<meta name='viewport' content='width=device-width,initial-scale=1'><title>",
          f);
    report_text(f, o->out);
    fprintf(f, " - Facula</title>\n<style>\n%s</style></head>\n<body><main>\n<h1>%s</h1>\n<p class='lead'>",
            REPORT_STYLE, title);
    report_text(f, o->out);
    fprintf(f, " &middot; %s after %lld %s &middot; %s</p>\n", r->end, (long long)r->step,
            cli_word(r->step, "step", "steps"), date);
}

/* ---- curves ---- */

typedef struct curves {
    double *step, *train, *valid, *rate;
    size_t n;
} curves;

static fac_status take_curves(const report_figures *r, curves *c) {
    double *room = calloc(4 * r->n_points + 4, sizeof *room);
    if (!room) return fac_error_set(FAC_ERR_MEMORY, "no memory for the report");
    *c = (curves){room, room + r->n_points, room + 2 * r->n_points, room + 3 * r->n_points, r->n_points};
    for (size_t i = 0; i < c->n; i++) {
        const plot_point *p = &r->points[i];
        c->step[i] = (double)p->step;
        c->train[i] = p->train;
        c->valid[i] = p->valid;
        c->rate[i] = p->step > 0 ? plan_rate(&r->plan, p->step - 1) : NAN;
    }
    return FAC_OK;
}

static fac_status write_curves(FILE *f, const train_job *j, const report_figures *r) {
    curves c = {.n = 0};
    if (take_curves(r, &c)) return fac_error();
    const chart_series loss[] = {{"training", "train", c.step, c.train, c.n, false, false},
                                 {"validation", "valid", c.step, c.valid, c.n, false, true}},
                       rate[] = {{NULL, "rate", c.step, c.rate, c.n, false, false}};
    report_section(f, "Loss");
    chart_write(f, &(chart){"step", j->kind->axis, loss, 2, false});
    fputs("</section>\n", f);
    report_section(f, "Learning rate");
    chart_write(f, &(chart){"step", "rate", rate, 1, false});
    if (r->first > 0) fputs("<p class='note'>By the settings that the run went on with.</p>", f);
    fputs("</section>\n", f);
    free(c.step);
    return FAC_OK;
}

/* ---- settings and model ---- */

/* What `write` prints, escaped. */
static fac_status preformatted(FILE *f, train_job *j, fac_status (*write)(train_job *j, FILE *f)) {
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    if (!out) return fac_error_set(FAC_ERR_MEMORY, "no memory for the report");
    fac_status st = write(j, out);
    if (fclose(out) && !st) st = fac_error_set(FAC_ERR_MEMORY, "no memory for the report");
    fputs("<pre>", f);
    if (!st) report_text(f, text);
    fputs("</pre></section>\n", f);
    free(text);
    return st;
}

static fac_status write_summary(train_job *j, FILE *f) {
    FAC_SCOPE(s);
    fac_tensor *x = j->kind->example(j);
    return x ? fac_module_summary(j->shown, FAC_TENSORS(x), f) : fac_error();
}

static fac_status write_settings(train_job *j, FILE *f) {
    train_print_settings(f, j->options);
    return fac_error();
}

/* ---- the page ---- */

static fac_status write_page(FILE *f, train_job *j, const report_figures *r) {
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    fac_module_train(j->shown, false);
    head(f, j, r);
    tiles(f, j, r);
    fac_status st = write_curves(f, j, r);
    if (!st && j->kind->report) st = j->kind->report(j, f);
    report_section(f, "Model");
    if (!st) st = preformatted(f, j, write_summary);
    report_section(f, "Settings");
    fputs("<p class='note'>As a file for <code>facula train --config</code>.</p>", f);
    if (!st) st = preformatted(f, j, write_settings);
    fprintf(f, "<footer>Written by facula %s.</footer>\n</main></body></html>\n", fac_version());
    fac_module_train(j->shown, true);
    return st;
}

/* The model runs in there for its summary, deep in the stack already: no path lies on it meanwhile. */
fac_status report_write(train_job *j, const report_figures *r) {
    enum { PATH = 4096 };
    char *text = NULL, *path = malloc(PATH);
    size_t n = 0;
    FILE *f = path ? open_memstream(&text, &n) : NULL;
    fac_status st = f ? write_page(f, j, r) : FAC_OK;
    if (!f || (fclose(f) && !st)) st = fac_error_set(FAC_ERR_MEMORY, "no memory for " REPORT_NAME);
    if (!st) st = run_path(j->options->out, REPORT_NAME, path, PATH);
    if (!st) st = fac_file_replace(path, text, n);
    free(text);
    free(path);
    return st;
}
