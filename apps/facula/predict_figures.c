/* Counts how right predictions are. */
#include "predict_figures.h"
#include "cli.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void figures_class(figures *g, bool right, double log) {
    g->n++;
    g->right += right;
    g->loss -= log;
}

/* source: Welford 1962 */
void figures_number(figures *g, double said, double is) {
    const double from = is - g->mean;
    g->n++;
    g->mean += from / (double)g->n;
    g->spread += from * (is - g->mean);
    g->squares += (said - is) * (said - is);
    g->sizes += fabs(said - is);
}

bool figures_any(const figures *g) { return g->n > 0; }

typedef struct figure {
    const char *name;
    double is;
} figure;
enum { MOST_FIGURES = 3 };

/* All figures by name; returns how many there are. */
static size_t list(const figures *g, bool classes, figure *out) {
    const double n = (double)g->n;
    if (classes) {
        out[0] = (figure){"accuracy", (double)g->right / n};
        out[1] = (figure){"loss", g->loss / n};
        return 2;
    }
    out[0] = (figure){"R2", 1 - g->squares / g->spread};
    out[1] = (figure){"mean_absolute_error", g->sizes / n};
    out[2] = (figure){"root_mean_square_error", sqrt(g->squares / n)};
    return 3;
}

void figures_print(FILE *f, const figures *g, bool classes, const char *noun) {
    figure v[MOST_FIGURES];
    list(g, classes, v);
    fprintf(f, "of %lld %s%s whose answer is known:", (long long)g->n, noun, cli_word(g->n, "", "s"));
    if (classes)
        fprintf(f, " accuracy %.2f%%, loss %.4f", 100 * v[0].is, v[1].is);
    else {
        if (isfinite(v[0].is)) fprintf(f, " R2 %.4f,", v[0].is);
        fprintf(f, " mean error %.5g, root of the mean square %.5g", v[1].is, v[2].is);
    }
    if (g->unknown)
        fprintf(f, "; %lld %s%s no answer that could be predicted", (long long)g->unknown, noun,
                cli_word(g->unknown, " has", "s have"));
    fputc('\n', f);
}

static bool put_json(FILE *f, const figures *g, bool classes) {
    figure v[MOST_FIGURES];
    const size_t n = list(g, classes, v);
    json_t *all = json_pack("{s:I, s:I}", "known", (json_int_t)g->n, "unknown", (json_int_t)g->unknown);
    bool good = all != NULL;
    for (size_t i = 0; i < n; i++)
        good = good && json_object_set_new(all, v[i].name, isfinite(v[i].is) ? json_real(v[i].is) : json_null()) == 0;
    good = good && json_dumpf(all, f, JSON_INDENT(2) | JSON_REAL_PRECISION(10)) == 0;
    json_decref(all);
    return good && fputc('\n', f) != EOF;
}

fac_status figures_write(const char *path, const figures *g, bool classes) {
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    bool good = f && put_json(f, g, classes);
    good = f && fclose(f) == 0 && good;
    fac_status st = good ? FAC_OK : fac_error_set(FAC_ERR_MEMORY, "no memory for '%s'", path);
    if (!st && strcmp(path, "-") != 0)
        st = fac_file_replace(path, text, n);
    else if (!st && (fwrite(text, 1, n, stdout) != n || fflush(stdout) != 0))
        st = fac_error_set(FAC_ERR_IO, "cannot write the figures");
    free(text);
    return st;
}
