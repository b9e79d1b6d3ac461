/* Draws the loss curve as SVG. */
#include "plot.h"
#include <math.h>
#include <stdlib.h>

enum { WIDTH = 800, HEIGHT = 450, LEFT = 64, RIGHT = 24, TOP = 44, BOTTOM = 52 };

typedef struct frame {
    double x0, x1, y0, y1; /* data range */
} frame;

static double px(const frame *f, double x) { return LEFT + (x - f->x0) / (f->x1 - f->x0) * (WIDTH - LEFT - RIGHT); }
static double py(const frame *f, double y) {
    return HEIGHT - BOTTOM - (y - f->y0) / (f->y1 - f->y0) * (HEIGHT - TOP - BOTTOM);
}

/* 1, 2 or 5 times a power of ten, so that a range has about five steps. */
static double nice_step(double range) {
    const double raw = range / 5, base = pow(10, floor(log10(raw))), m = raw / base;
    return base * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10);
}

static void grow(double *lo, double *hi, double v) {
    if (!isfinite(v)) return;
    if (v < *lo) *lo = v;
    if (v > *hi) *hi = v;
}

static frame frame_of(const plot_point *v, size_t n) {
    double lo = INFINITY, hi = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        grow(&lo, &hi, v[i].train);
        grow(&lo, &hi, v[i].valid);
    }
    if (!(lo <= hi)) lo = 0, hi = 1;
    if (lo == hi) hi = lo + 1;
    const double pad = (hi - lo) * 0.05, first = n ? (double)v[0].step : 0, last = n ? (double)v[n - 1].step : 1;
    return (frame){first, last > first ? last : first + 1, lo - pad, hi + pad};
}

static void axes(FILE *f, const frame *r, const char *y_label) {
    const double dx = nice_step(r->x1 - r->x0), dy = nice_step(r->y1 - r->y0);
    for (double y = ceil(r->y0 / dy) * dy; y <= r->y1; y += dy) {
        fprintf(f, "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#ddd'/>\n", LEFT, py(r, y), WIDTH - RIGHT,
                py(r, y));
        fprintf(f, "<text x='%d' y='%.1f' text-anchor='end'>%g</text>\n", LEFT - 8, py(r, y) + 4,
                fabs(y) < dy / 2 ? 0 : y);
    }
    for (double x = ceil(r->x0 / dx) * dx; x <= r->x1; x += dx)
        fprintf(f, "<text x='%.1f' y='%d' text-anchor='middle'>%g</text>\n", px(r, x), HEIGHT - BOTTOM + 18, x);
    fprintf(f, "<line x1='%d' y1='%d' x2='%d' y2='%d' stroke='#444'/>\n", LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT,
            HEIGHT - BOTTOM);
    fprintf(f, "<text x='%d' y='%d' text-anchor='middle'>step</text>\n", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12);
    fprintf(f, "<text transform='translate(16,%d) rotate(-90)' text-anchor='middle'>%s</text>\n",
            (TOP + HEIGHT - BOTTOM) / 2, y_label);
}

static void curve(FILE *f, const frame *r, const plot_point *v, size_t n, bool valid, const char *colour,
                  double width) {
    fprintf(f, "<polyline fill='none' stroke='%s' stroke-width='%g' points='", colour, width);
    for (size_t i = 0; i < n; i++) {
        const double y = valid ? v[i].valid : v[i].train;
        if (isfinite(y)) fprintf(f, "%.1f,%.1f ", px(r, (double)v[i].step), py(r, y));
    }
    fputs("'/>\n", f);
}

static void legend(FILE *f, int x, const char *colour, const char *text) {
    fprintf(f, "<line x1='%d' y1='26' x2='%d' y2='26' stroke='%s' stroke-width='3'/><text x='%d' y='30'>%s</text>\n", x,
            x + 22, colour, x + 28, text);
}

static void draw(FILE *f, const char *title, const char *y_label, const plot_point *v, size_t n) {
    const frame r = frame_of(v, n);
    fprintf(
        f,
        "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' font-family='sans-serif' font-size='12'>\n",
        WIDTH, HEIGHT, WIDTH, HEIGHT);
    fprintf(f, "<rect width='100%%' height='100%%' fill='white'/>\n<text x='%d' y='30' font-size='15'>%s</text>\n",
            LEFT, title);
    legend(f, WIDTH - 230, "#9bb8e0", "training");
    legend(f, WIDTH - 120, "#d9480f", "validation");
    axes(f, &r, y_label);
    curve(f, &r, v, n, false, "#9bb8e0", 1.5);
    curve(f, &r, v, n, true, "#d9480f", 2.5);
    fputs("</svg>\n", f);
}

fac_status plot_loss(const char *path, const char *title, const char *y_label, const plot_point *v, size_t n) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    if (f) draw(f, title, y_label, v, n);
    const bool drawn = f && !ferror(f);
    const bool closed = f && fclose(f) == 0;
    const fac_status st = drawn && closed ? fac_file_replace(path, text, bytes)
                                          : fac_error_set(FAC_ERR_MEMORY, "no memory for the picture '%s'", path);
    free(text);
    return st;
}
