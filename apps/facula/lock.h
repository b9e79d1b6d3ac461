/* One training at a time writes to a run folder. */
#ifndef FACULA_APP_LOCK_H
#define FACULA_APP_LOCK_H

#include <facula/facula.h>

/* A folder that a training has for itself. */
typedef struct run_folder {
    const char *dir; /* borrowed */
    int lock;        /* descriptor; -1: none */
    bool lock_made;  /* the lock's file was not there before */
    size_t made;     /* length of the part of dir that had to be made first; 0: none */
    bool begun;      /* set by the training: there is something to keep */
    char lock_path[4096];
} run_folder;

/* Takes a run folder, which it makes if `make` says so, or says who has it: STATE. The system lets it go when the process ends,
   however it ends. Call run_leave whatever it returns. One folder at a time. */
fac_status run_take(const char *dir, bool make, run_folder *out);
/* Lets it go. Of a run that has not begun, nothing is left: neither the lock's file nor the folders that were made for it; nor
   when SIGINT, SIGTERM or SIGHUP end the process before. */
void run_leave(run_folder *f);

#endif
