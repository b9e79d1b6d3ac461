/* Counts the processors that this process may use: environment, affinity, the control group's quota. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "backend/cpu/thread_count.h"
#include "backend/cpu/workers.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef __linux__
#include <sched.h>

/* A machine may have more processors than a cpu_set_t: the set grows until the kernel's mask fits. */
int fac__affinity_count(void) {
    for (size_t cpus = CPU_SETSIZE; cpus <= CPU_SETSIZE * 64; cpus *= 2) {
        const size_t bytes = CPU_ALLOC_SIZE(cpus);
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (!set) return 0;
        const bool fits = sched_getaffinity(0, bytes, set) == 0;
        const bool too_small = !fits && errno == EINVAL;
        const int n = fits ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (!too_small) return n;
    }
    return 0;
}
#else
int fac__affinity_count(void) { return 0; }
#endif

/* ---- control groups ---------------------------------------------------------------------------------------------------- */

/* Rounded up: half a processor is worth a thread. */
static int processors(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return 0;
    const long long n = quota / period + (quota % period != 0);
    return n > INT_MAX ? INT_MAX : (int)n;
}

int fac__quota_v2(const char *text) {
    long long quota, period = 100000;
    return sscanf(text, "%lld %lld", &quota, &period) >= 1 ? processors(quota, period) : 0; /* "max" is no number */
}

int fac__quota_v1(const char *quota, const char *period) {
    long long q, p;
    return sscanf(quota, "%lld", &q) == 1 && sscanf(period, "%lld", &p) == 1 ? processors(q, p) : 0;
}

static int least(int a, int b) { return a == 0 ? b : b == 0 || a < b ? a : b; }

/* The beginning of a small file; empty if there is none. */
static const char *read_text(const char *path, char *text, size_t size) {
    FILE *f = fopen(path, "re");
    text[f ? fread(text, 1, size - 1, f) : 0] = '\0';
    if (f) fclose(f);
    return text;
}

static const char *read_in(const char *folder, const char *name, char *text, size_t size) {
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return read_text(path, text, size);
}

static int quota_of_folder(const char *folder) {
    char a[64], b[64];
    const int v2 = fac__quota_v2(read_in(folder, "cpu.max", a, sizeof a));
    return least(v2, fac__quota_v1(read_in(folder, "cpu.cfs_quota_us", a, sizeof a),
                                   read_in(folder, "cpu.cfs_period_us", b, sizeof b)));
}

/* The group's folder and those around it, up to where its hierarchy is mounted. In a container the path may be the
   host's, and the group itself is what is mounted. */
static int quota_of_path(const char *mount, const char *group) {
    char folder[PATH_MAX];
    const int base = (int)strlen(mount), n = snprintf(folder, sizeof folder, "%s%s", mount, group);
    int quota = 0;
    if (n < 0 || (size_t)n >= sizeof folder) return 0;
    for (;;) {
        quota = least(quota, quota_of_folder(folder));
        char *slash = strrchr(folder + base, '/');
        if (!slash) return quota;
        *slash = '\0';
    }
}

/* One line of /proc/self/cgroup, `number:controllers:path`; v2's has no controllers. */
static int quota_of_line(const char *line, const char *root) {
    static const char *const v1[] = {"/cpu", "/cpu,cpuacct", "/cpuacct,cpu"}, *const v2[] = {"", "/unified"};
    char mount[PATH_MAX], group[PATH_MAX];
    const char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) return 0;
    snprintf(group, sizeof group, "%.*s", (int)strcspn(path + 1, "\n"), path + 1);
    const bool unified = path == controllers + 1;
    int quota = 0;
    for (size_t i = 0; i < (unified ? FAC_COUNT(v2) : FAC_COUNT(v1)); i++) {
        snprintf(mount, sizeof mount, "%s%s", root, unified ? v2[i] : v1[i]);
        quota = least(quota, quota_of_path(mount, group));
    }
    return quota;
}

int fac__cgroup_quota(const char *groups, const char *root) {
    int quota = 0;
    while (*groups) {
        quota = least(quota, quota_of_line(groups, root));
        groups += strcspn(groups, "\n");
        groups += *groups == '\n';
    }
    return quota;
}

/* ---- the environment --------------------------------------------------------------------------------------------------- */

int fac__first_of_list(const char *text) {
    char *end;
    errno = 0;
    const long n = strtol(text, &end, 10);
    while (*end == ' ') end++;
    if (end == text || errno || n < 1 || (*end && *end != ',')) return 0;
    return (int)fac__min(n, FAC_MAX_THREADS);
}

static int of_the_system(void) {
    char groups[8192];
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    int n = fac__affinity_count();
    if (n == 0) n = online > 0 ? (int)online : 1;
    n = least(n, fac__cgroup_quota(read_text("/proc/self/cgroup", groups, sizeof groups), "/sys/fs/cgroup"));
    return (int)fac__min(n, FAC_MAX_THREADS);
}

fac_status fac__thread_count(int *out) {
    const char *own = fac__env("FACULA_NUM_THREADS"), *omp = fac__env("OMP_NUM_THREADS");
    if (own && *own) {
        *out = (int)fac__env_int("FACULA_NUM_THREADS", 1, FAC_MAX_THREADS, 0);
        FAC_CHECK(*out, FAC_ERR_ARGUMENT, "FACULA_NUM_THREADS is \"%s\"; expected 1 to %d", own, FAC_MAX_THREADS);
        return FAC_OK;
    }
    *out = omp ? fac__first_of_list(omp) : 0;
    if (*out == 0) *out = of_the_system();
    return FAC_OK;
}
