/* Draws axes, lines and dots. */
#include "chart.h"
#include <math.h>
#include <string.h>

enum { WIDTH = 760, HEIGHT = 300, LEFT = 62, RIGHT = 16, TOP = 28, BOTTOM = 44, MOST_POINTS = 400, MOST_MARKS = 120 };

typedef struct frame {
    double x0, x1, y0, y1; /* ranges of the data */
} frame;

static double px(const frame *f, double x) { return LEFT + (x - f->x0) / (f->x1 - f->x0) * (WIDTH - LEFT - RIGHT); }
static double py(const frame *f, double y) {
    return HEIGHT - BOTTOM - (y - f->y0) / (f->y1 - f->y0) * (HEIGHT - TOP - BOTTOM);
}

static void grow(double *lo, double *hi, double v) {
    if (!isfinite(v)) return;
    if (v < *lo) *lo = v;
    if (v > *hi) *hi = v;
}

/* A range that is not empty, and has room beside the data. */
static void widen(double *lo, double *hi, double part) {
    if (!(*lo <= *hi)) *lo = 0, *hi = 1;
    if (*lo == *hi) *hi = *lo + fmax(fabs(*lo) * 0.1, 1e-12);
    const double pad = (*hi - *lo) * part;
    *lo -= pad;
    *hi += pad;
}

static frame frame_of(const chart *c) {
    frame r = {INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (size_t s = 0; s < c->n; s++)
        for (size_t i = 0; i < c->series[s].n; i++) {
            if (!isfinite(c->series[s].y[i])) continue;
            grow(&r.x0, &r.x1, c->series[s].x[i]);
            grow(&r.y0, &r.y1, c->series[s].y[i]);
        }
    if (c->diagonal) {
        r.x0 = r.y0 = fmin(r.x0, r.y0);
        r.x1 = r.y1 = fmax(r.x1, r.y1);
    }
    widen(&r.x0, &r.x1, c->diagonal ? 0.04 : 0);
    widen(&r.y0, &r.y1, c->diagonal ? 0.04 : 0.06);
    return r;
}

/* 1, 2 or 5 times a power of ten, so that a range has about so many steps. */
static double nice_step(double range, double parts) {
    const double raw = range / parts, base = pow(10, floor(log10(raw))), m = raw / base;
    return base * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10);
}

static void axes(FILE *f, const frame *r, const chart *c) {
    const double dx = nice_step(r->x1 - r->x0, 8), dy = nice_step(r->y1 - r->y0, 5);
    for (double y = ceil(r->y0 / dy) * dy; y <= r->y1; y += dy)
        fprintf(
            f,
            "<path class='grid' stroke='#e3e7ed' d='M%d %.1fH%d'/><text x='%d' y='%.1f' text-anchor='end'>%.4g</text>\n",
            LEFT, py(r, y), WIDTH - RIGHT, LEFT - 8, py(r, y) + 4, fabs(y) < dy / 2 ? 0 : y);
    for (double x = ceil(r->x0 / dx) * dx; x <= r->x1 + dx * 1e-9; x += dx)
        fprintf(f, "<text x='%.1f' y='%d' text-anchor='middle'>%g</text>\n", px(r, x), HEIGHT - BOTTOM + 17,
                fabs(x) < dx / 2 ? 0 : x);
    fprintf(f, "<path class='axis' stroke='#667085' d='M%d %dH%d'/>\n", LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT);
    fprintf(f, "<text x='%d' y='%d' text-anchor='middle'>%s</text>\n", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8,
            c->x_label);
    fprintf(f, "<text x='%d' y='14'>%s</text>\n", LEFT, c->y_label);
    if (c->diagonal)
        fprintf(f, "<path class='axis dash' fill='none' stroke='#667085' d='M%.1f %.1fL%.1f %.1f'/>\n", px(r, r->x0),
                py(r, r->y0), px(r, r->x1), py(r, r->y1));
}

/* The colour where the page's style sheet does not reach. */
static const char *colour(const char *style) {
    static const char *const colours[][2] = {{"train", "#8fb0de"}, {"valid", "#d9480f"}, {"rate", "#2f7d5b"}};
    for (size_t i = 0; i < sizeof colours / sizeof *colours; i++)
        if (strcmp(colours[i][0], style) == 0) return colours[i][1];
    return "#667085";
}

/* The mean of the finite points from i on, of a part that is `step` long; false if there is none. */
static bool mean_point(const chart_series *s, size_t i, size_t step, double *x, double *y) {
    double sum_x = 0, sum_y = 0;
    size_t n = 0;
    for (size_t k = i; k < i + step && k < s->n; k++) {
        if (!isfinite(s->y[k])) continue;
        sum_x += s->x[k];
        sum_y += s->y[k];
        n++;
    }
    if (!n) return false;
    *x = sum_x / (double)n;
    *y = sum_y / (double)n;
    return true;
}

static size_t finite_points(const chart_series *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) n += isfinite(s->y[i]) != 0;
    return n;
}

/* Point i, whose numbers show where the pointer rests on it. */
static void dot(FILE *f, const frame *r, const chart_series *s, size_t i) {
    fprintf(f, "<circle class='dot %s' fill='%s' cx='%.1f' cy='%.1f' r='3'><title>%.6g: %.5g</title></circle>\n",
            s->style, colour(s->style), px(r, s->x[i]), py(r, s->y[i]), s->x[i], s->y[i]);
}

/* A sparse series, such as of validations, is not thinned: only its finite points count. */
static void line(FILE *f, const frame *r, const chart_series *s) {
    const size_t finite = finite_points(s), step = finite > MOST_POINTS ? s->n / MOST_POINTS + 1 : 1;
    double x, y;
    fprintf(f, "<polyline class='line %s' fill='none' stroke='%s' stroke-width='1.6' points='", s->style,
            colour(s->style));
    for (size_t i = 0; i < s->n; i += step)
        if (mean_point(s, i, step, &x, &y)) fprintf(f, "%.1f,%.1f ", px(r, x), py(r, y));
    fputs("'/>\n", f);
    for (size_t i = 0; s->marked && finite <= MOST_MARKS && i < s->n; i++)
        if (isfinite(s->y[i])) dot(f, r, s, i);
}

static void dots(FILE *f, const frame *r, const chart_series *s) {
    for (size_t i = 0; i < s->n; i++)
        if (isfinite(s->y[i]) && isfinite(s->x[i])) dot(f, r, s, i);
}

static void legend(FILE *f, const chart *c) {
    int x = WIDTH - RIGHT;
    for (size_t i = c->n; i-- > 0;) {
        if (!c->series[i].name) continue;
        fprintf(f, "<text x='%d' y='14' text-anchor='end'>%s</text>", x, c->series[i].name);
        for (const char *p = c->series[i].name; *p; p++) x -= 7;
        fprintf(f, "<path class='line %s' fill='none' stroke='%s' stroke-width='2' d='M%d 10h20'/>\n",
                c->series[i].style, colour(c->series[i].style), x - 28);
        x -= 44;
    }
}

void chart_write(FILE *f, const chart *c) {
    const frame r = frame_of(c);
    fprintf(f,
            "<svg class='chart' font-size='12' fill='#667085' viewBox='0 0 %d %d' role='img' aria-label='%s by %s'>\n",
            WIDTH, HEIGHT, c->y_label, c->x_label);
    axes(f, &r, c);
    for (size_t i = 0; i < c->n; i++) {
        if (c->series[i].dots)
            dots(f, &r, &c->series[i]);
        else
            line(f, &r, &c->series[i]);
    }
    legend(f, c);
    fputs("</svg>\n", f);
}
