/* The log of a run, log.tsv: a heading, and a row for each step.

   A row that was written stays, whenever the process is killed. A run that goes on from a checkpoint comes once more by the
   steps behind it that the killed run had logged: it writes the same rows again, bit for bit, so that they are compared and
   left where they are. Only where it does otherwise (with another --lr, say) is the log cut, before the first row that differs.
   A row goes out in one write at the end of the file; half a row at the end is none. */
#ifndef FACULA_APP_LOG_H
#define FACULA_APP_LOG_H

#include "plot.h"
#include <sys/types.h>

typedef struct run_log {
    char path[4096];
    int fd;           /* -1: not open */
    off_t end;        /* of the rows up to the present step, in the file */
    char *ahead;      /* owned: the rows behind them, which an earlier run wrote */
    size_t at, bytes; /* of ahead: compared so far, and in all */
    plot_point *v;    /* owned: the rows up to the present step */
    size_t n, cap;
} run_log;
#define RUN_LOG_CLOSED ((run_log){.fd = -1})

/* Opens the log of a run that begins, in place of one that is there. */
fac_status log_begin(run_log *l, const char *dir);
/* Opens the log of a run that goes on behind the row of this step (-1: it has none yet). A log that is missing begins here.
   errors: FORMAT if the file is no log; IO; MEMORY */
fac_status log_resume(run_log *l, const char *dir, int64_t step);
fac_status log_put(run_log *l, plot_point p);
/* Returns once all rows are on the disk. */
fac_status log_flush(run_log *l);
/* Cuts off rows of a longer run behind the last step of this one. */
fac_status log_finish(run_log *l);
void log_close(run_log *l);

#endif
