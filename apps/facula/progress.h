/* A progress line for long work: redrawn in place on a terminal, a plain line now and then elsewhere. */
#ifndef FACULA_APP_PROGRESS_H
#define FACULA_APP_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct progress {
    FILE *stream;
    bool terminal, quiet;
    int64_t first; /* units; work began at `first` */
    double started, drawn, line_every;
    const char *noun; /* of what is counted: "step" unless another one is put here */
} progress;

/* Starts the clock. Quiet: nothing is drawn. */
void progress_start(progress *p, FILE *stream, int64_t first, bool quiet);
/* Shows that `done` of `total` units are finished, with `text` beside the bar and the time left. Draws at most ten times a second. */
void progress_update(progress *p, int64_t done, int64_t total, const char *text);
/* Removes the bar, so that something else can be printed. */
void progress_clear(progress *p);
/* Seconds on a clock that never goes back, and those since the start. */
double progress_now(void);
double progress_seconds(const progress *p);
/* "1:05" or "1:02:03" into buf; returns buf. */
char *progress_clock(double seconds, char *buf, size_t size);

#endif
