/* Prints the progress line, at most a few times a second. */
#include "progress.h"
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

double progress_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_start(progress *p, FILE *stream, int64_t first, bool quiet) {
    *p = (progress){.stream = stream,
                    .terminal = isatty(fileno(stream)),
                    .quiet = quiet,
                    .first = first,
                    .line_every = 5,
                    .noun = "step"};
    p->started = progress_now();
}

double progress_seconds(const progress *p) { return progress_now() - p->started; }

char *progress_clock(double seconds, char *buf, size_t size) {
    const long s = seconds > 0 ? (long)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(buf, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(buf, size, "%ld:%02ld", s / 60, s % 60);
    return buf;
}

static int columns(FILE *f) {
    struct winsize w;
    return ioctl(fileno(f), TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}

/* One line, cut where the terminal ends: a line that wrapped could not be redrawn. */
static void draw_bar(progress *p, double fraction, const char *head, const char *tail) {
    const int beside = columns(p->stream) - 2 - (int)strlen(head), room = beside - (int)strlen(tail) - 3,
              width = room > 30 ? 30 : room;
    fprintf(p->stream, "\r\033[K%s", head);
    if (width >= 5) {
        const int full = (int)(fraction * width + 0.5);
        fputs(" [", p->stream);
        for (int i = 0; i < width; i++) fputc(i < full ? '=' : i == full ? '>' : ' ', p->stream);
        fputc(']', p->stream);
    }
    fprintf(p->stream, " %.*s", beside > 0 ? beside : 0, tail);
    fflush(p->stream);
}

void progress_update(progress *p, int64_t done, int64_t total, const char *text) {
    const double t = progress_now(), pause = p->terminal ? 0.1 : p->line_every;
    if (p->quiet || (done < total && p->drawn > 0 && t - p->drawn < pause)) return;
    p->drawn = t;
    const double worked = (double)(done - p->first),
                 left = worked > 0 ? (t - p->started) / worked * (double)(total - done) : 0;
    char head[64], tail[192], clock[32];
    snprintf(head, sizeof head, "%s %lld/%lld", p->noun, (long long)done, (long long)total);
    snprintf(tail, sizeof tail, "%s  %s left", text, progress_clock(left, clock, sizeof clock));
    if (p->terminal)
        draw_bar(p, total > 0 ? (double)done / (double)total : 1, head, tail);
    else {
        fprintf(p->stream, "%s  %s\n", head, tail);
        fflush(p->stream);
    }
}

void progress_clear(progress *p) {
    if (!p->terminal || p->quiet) return;
    fputs("\r\033[K", p->stream);
    fflush(p->stream);
}
