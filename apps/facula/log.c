/* Appends rows to a run's log, and compares them with those that are there. */
#include "log.h"
#include "checkpoint.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char HEADING[] = "step\ttraining_loss\tvalidation_loss\n";
enum { HEADING_LENGTH = sizeof HEADING - 1, ROW_MAX = 128 };

static fac_status failed(const run_log *l, const char *what) {
    return fac_error_set(FAC_ERR_IO, "cannot %s '%s': %s", what, l->path, strerror(errno));
}

/* ---- rows ---- */

static int format_value(char *buf, size_t size, double v, char end) {
    return isnan(v) ? snprintf(buf, size, "-%c", end) : snprintf(buf, size, "%.9g%c", v, end);
}

static size_t format_row(char *row, const plot_point *p) {
    int n = snprintf(row, ROW_MAX, "%" PRId64 "\t", p->step);
    n += format_value(row + n, ROW_MAX - (size_t)n, p->train, '\t');
    n += format_value(row + n, ROW_MAX - (size_t)n, p->valid, '\n');
    return (size_t)n;
}

/* A value and the character behind it; "-" is none. */
static bool parse_value(const char **text, char end, double *out) {
    char *stop;
    if ((*text)[0] == '-' && (*text)[1] == end) {
        *out = NAN;
        *text += 2;
        return true;
    }
    *out = strtod(*text, &stop);
    if (stop == *text || *stop != end) return false;
    *text = stop + 1;
    return true;
}

/* The row is NUL-terminated somewhere behind its newline. */
static bool parse_row(const char *row, plot_point *p) {
    char *stop;
    errno = 0;
    p->step = strtoll(row, &stop, 10);
    if (errno || stop == row || *stop != '\t') return false;
    row = stop + 1;
    return parse_value(&row, '\t', &p->train) && parse_value(&row, '\n', &p->valid);
}

static fac_status add_point(run_log *l, plot_point p) {
    if (l->n == l->cap) {
        const size_t cap = l->cap ? 2 * l->cap : 256;
        plot_point *v = realloc(l->v, cap * sizeof *v);
        if (!v) return fac_error_set(FAC_ERR_MEMORY, "no memory for the log");
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = p;
    return FAC_OK;
}

/* ---- the file ---- */

static fac_status open_file(run_log *l) {
    struct stat info;
    do l->fd = open(l->path, O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    while (l->fd < 0 && errno == EINTR);
    if (l->fd < 0 || fstat(l->fd, &info) != 0) return failed(l, "open");
    if (!S_ISREG(info.st_mode)) return fac_error_set(FAC_ERR_IO, "cannot write '%s': it is no regular file", l->path);
    l->bytes = (size_t)info.st_size;
    return FAC_OK;
}

/* The whole file, with a NUL behind it. */
static fac_status read_file(run_log *l) {
    l->ahead = malloc(l->bytes + 1);
    if (!l->ahead) return fac_error_set(FAC_ERR_MEMORY, "no memory for the log '%s'", l->path);
    size_t n = 0;
    while (n < l->bytes) {
        const ssize_t done = pread(l->fd, l->ahead + n, l->bytes - n, (off_t)n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return failed(l, "read");
        if (done == 0) break;
        n += (size_t)done;
    }
    l->bytes = n;
    l->ahead[n] = 0;
    return FAC_OK;
}

static fac_status cut_file(run_log *l, off_t end) {
    int no;
    do no = ftruncate(l->fd, end);
    while (no != 0 && errno == EINTR);
    return no ? failed(l, "cut") : FAC_OK;
}

static fac_status check_heading(const run_log *l) {
    if (l->bytes >= HEADING_LENGTH && memcmp(l->ahead, HEADING, HEADING_LENGTH) == 0) return FAC_OK;
    return fac_error_set(FAC_ERR_FORMAT, "'%s' is not the log of a training; move it away", l->path);
}

/* Half a row at the end was never whole: it goes. */
static fac_status drop_half_row(run_log *l) {
    size_t whole = l->bytes;
    while (whole > 0 && l->ahead[whole - 1] != '\n') whole--;
    if (whole == l->bytes) return FAC_OK;
    l->bytes = whole;
    l->ahead[whole] = 0;
    return cut_file(l, (off_t)whole);
}

/* Checks all rows, and takes those up to the step. */
static fac_status take_rows(run_log *l, int64_t step) {
    int64_t before = -1;
    size_t line = 2;
    l->at = HEADING_LENGTH;
    for (size_t i = l->at; i < l->bytes; i += strcspn(l->ahead + i, "\n") + 1, line++) {
        plot_point p;
        if (!parse_row(l->ahead + i, &p) || p.step <= before)
            return fac_error_set(FAC_ERR_FORMAT, "line %zu of '%s' is not a row of a log; repair it or move it away",
                                 line, l->path);
        before = p.step;
        if (p.step > step) continue;
        const fac_status st = add_point(l, p);
        if (st) return st;
        l->at = i + strcspn(l->ahead + i, "\n") + 1;
    }
    l->end = (off_t)l->at;
    return FAC_OK;
}

/* ---- the log ---- */

fac_status log_begin(run_log *l, const char *dir) {
    fac_status st = run_path(dir, "log.tsv", l->path, sizeof l->path);
    if (!st) st = fac_file_replace(l->path, HEADING, HEADING_LENGTH);
    if (!st) st = open_file(l);
    l->bytes = 0;
    l->end = HEADING_LENGTH;
    return st;
}

fac_status log_resume(run_log *l, const char *dir, int64_t step) {
    struct stat info;
    fac_status st = run_path(dir, "log.tsv", l->path, sizeof l->path);
    /* An empty file is what a power failure may leave of one that was never flushed. */
    if (!st && (lstat(l->path, &info) != 0 || (S_ISREG(info.st_mode) && info.st_size == 0))) return log_begin(l, dir);
    if (!st) st = open_file(l);
    if (!st) st = read_file(l);
    if (!st) st = check_heading(l);
    if (!st) st = drop_half_row(l);
    return st ? st : take_rows(l, step);
}

/* In one write; what a full disk took of it is taken back. */
static fac_status append(run_log *l, const char *row, size_t n) {
    size_t sent = 0;
    while (sent < n) {
        const ssize_t done = write(l->fd, row + sent, n - sent);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            const fac_status st = failed(l, "write");
            if (sent) (void)!ftruncate(l->fd, l->end);
            return st;
        }
        sent += (size_t)done;
    }
    return FAC_OK;
}

fac_status log_put(run_log *l, plot_point p) {
    char row[ROW_MAX];
    const size_t n = format_row(row, &p);
    fac_status st = FAC_OK;
    if (l->at < l->bytes && strncmp(l->ahead + l->at, row, n) == 0) {
        l->at += n;
    } else {
        if (l->at < l->bytes) st = log_finish(l);
        if (!st) st = append(l, row, n);
    }
    if (st) return st;
    l->end += (off_t)n;
    return add_point(l, p);
}

fac_status log_flush(run_log *l) {
    int no = 0;
    if (l->fd < 0) return FAC_OK;
    do no = fsync(l->fd);
    while (no != 0 && errno == EINTR);
    return no ? failed(l, "flush") : FAC_OK;
}

fac_status log_finish(run_log *l) {
    if (l->at >= l->bytes) return FAC_OK;
    l->at = l->bytes = 0;
    return cut_file(l, l->end);
}

void log_close(run_log *l) {
    if (l->fd >= 0) close(l->fd);
    free(l->ahead);
    free(l->v);
    *l = RUN_LOG_CLOSED;
}
