/* Lists of hooks, and the handles that name them. A handle is a number and not an address, so removing a hook whose owner
   is gone does nothing, and forgetting a handle leaks nothing. */
#ifndef FAC_SRC_AUTOGRAD_HOOK_LIST_H
#define FAC_SRC_AUTOGRAD_HOOK_LIST_H

#include "core/thread.h"
#include <facula/autograd.h>

typedef struct fac_hooks fac_hooks;

typedef struct fac_listed_hook {
    void (*fn)(void);
    void *context;
    int kind; /* a number of the owner's own, below 32 */
    uint32_t nr;
    void *owner; /* what fac__hook_call's visit should know of it; not counted */
} fac_listed_hook;

/* Appends to *list, making it if NULL. With `named` it returns a handle, else the entry; NULL on failure. */
fac_hook *fac__hook_add(fac_hooks **list, fac_listed_hook hook, bool named);
/* Frees the list and forgets its handles; a list that is being walked goes when the walk ends. NULL allowed. */
void fac__hooks_free(fac_hooks *list);
/* True if the list has a live hook of a kind. Neither this nor fac__hooks_each takes a lock for a kind that was not added. */
bool fac__hooks_any(fac_hooks *list, int kind);
/* Calls visit for each live hook of a kind, in order of registration, until one fails. Hooks may add and remove hooks
   meanwhile: one that was added after the walk began is not visited. No lock is held while visit runs. */
typedef fac_status (*fac_hook_visit)(const fac_listed_hook *h, void *context);
fac_status fac__hooks_each(fac_hooks *list, int kind, fac_hook_visit visit, void *context);
/* Moves a hook, unless it is gone, before all others of its list; false while that is walked. */
bool fac__hook_put_first(fac_hook *h);
/* The handle of a hook that has one; and visit for the hook of a handle, unless it or its owner is gone. */
fac_hook *fac__hook_handle(const fac_listed_hook *h);
fac_status fac__hook_call(fac_hook *h, fac_hook_visit visit, void *context);

#endif
