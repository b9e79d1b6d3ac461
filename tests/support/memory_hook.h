/* The memory hook of the tests: counts live blocks and fails chosen requests. Safe from any thread. */
#ifndef FAC_TESTS_MEMORY_HOOK_H
#define FAC_TESTS_MEMORY_HOOK_H

#include "base/base.h"

/* Puts the hook in place of the system's; later calls do nothing. Call before the library allocates anything. */
void memory_hook_install(void);
/* Blocks that were given out and not yet freed, but for those that slots of tensor headers lie in: they are kept for ever. */
int64_t memory_hook_live(void);
/* The n-th request from now fails (1 is the next one), and only that one, or each from then on; 0: none. */
void memory_hook_fail(int64_t n, bool and_all_later);
/* Bytes of all requests since the last call of this, freed or not. */
int64_t memory_hook_bytes(void);
/* How many requests failed since memory_hook_fail. */
int64_t memory_hook_failures(void);
/* How many requests there were since, and how often memory_hook_fail was called at all. */
int64_t memory_hook_requests(void);
int64_t memory_hook_arms(void);
/* Requests made within chunks of parallel work since the last call of this. */
int64_t memory_hook_requests_in_chunks(void);

#endif
