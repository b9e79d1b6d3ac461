/* One training at a time writes to a run folder. */
#ifndef FACULA_APP_LOCK_H
#define FACULA_APP_LOCK_H

#include <facula/facula.h>

/* Takes the lock of a run folder, or says who has it: STATE. The system lets it go when the process ends, however it ends. */
fac_status run_lock(const char *dir, int *out_lock);
/* Lets it go; -1 is allowed. */
void run_unlock(int lock);

#endif
