/* How many threads are worth using: what the environment says, else what the system gives this process. */
#ifndef FAC_SRC_BACKEND_CPU_THREAD_COUNT_H
#define FAC_SRC_BACKEND_CPU_THREAD_COUNT_H

#include "base/base.h"

/* FACULA_NUM_THREADS, else OMP_NUM_THREADS, else the processors that this process may run on, or fewer if its control
   groups grant less time than that. At least 1. ARGUMENT if FACULA_NUM_THREADS is not a number of threads. */
fac_status fac__thread_count(int *out);

/* What it is made of, for tests. */

/* The processors in the calling thread's affinity mask, however many the machine has; 0 if that cannot be told. */
int fac__affinity_count(void);
/* The text of a cgroup v2 cpu.max, such as "150000 100000": processors' worth of time, rounded up; 0: no limit. */
int fac__quota_v2(const char *text);
/* The texts of a cgroup v1 cpu.cfs_quota_us and cpu.cfs_period_us; 0: no limit. */
int fac__quota_v1(const char *quota, const char *period);
/* The least quota of the groups named in `groups`, the text of /proc/self/cgroup, and of those around them, whose files lie
   under `root` (/sys/fs/cgroup); 0: no limit. */
int fac__cgroup_quota(const char *groups, const char *root);
/* OMP_NUM_THREADS: a list of numbers for nested levels, of which the first counts; 0: none. */
int fac__first_of_list(const char *text);

#endif
