/* The lock is flock's on the file DIR/.lock. The file stays when the run ends: to remove it would let two runs lock two files of
   the same name. What stands in it only serves the message for others. */
#include "lock.h"
#include "checkpoint.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static int open_lock(const char *path) {
    int fd;
    do fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static int try_lock(int fd) {
    int failed;
    do failed = flock(fd, LOCK_EX | LOCK_NB);
    while (failed && errno == EINTR);
    return failed;
}

static fac_status taken(const char *dir, int fd) {
    char who[160];
    const ssize_t n = pread(fd, who, sizeof who - 1, 0);
    who[n > 0 ? n : 0] = 0;
    who[strcspn(who, "\n")] = 0;
    return fac_error_set(FAC_ERR_STATE,
                         "another training writes to the folder '%s'%s%s%s: wait for its end, or choose another --out",
                         dir, *who ? " (" : "", who, *who ? ")" : "");
}

/* Whoever finds the folder locked reads this. It is not needed, so that a full disk is no reason to stop here. */
static void sign(int fd) {
    char host[80] = "?", who[160];
    gethostname(host, sizeof host - 1);
    const int n = snprintf(who, sizeof who, "process %ld on %s\n", (long)getpid(), host);
    if (ftruncate(fd, 0) == 0 && pwrite(fd, who, (size_t)n, 0) != n) (void)!ftruncate(fd, 0);
}

fac_status run_lock(const char *dir, int *out_lock) {
    char path[4096];
    fac_status st = run_path(dir, ".lock", path, sizeof path);
    if (st) return st;
    const int fd = open_lock(path);
    if (fd < 0) return fac_error_set(FAC_ERR_IO, "cannot open the lock '%s': %s", path, strerror(errno));
    const int failed = try_lock(fd), why = errno;
    if (failed && why == EWOULDBLOCK)
        st = taken(dir, fd);
    else if (failed)
        st = fac_error_set(FAC_ERR_IO, "cannot lock '%s': %s", path, strerror(why));
    if (st) {
        close(fd);
        return st;
    }
    sign(fd);
    *out_lock = fd;
    return FAC_OK;
}

void run_unlock(int lock) {
    if (lock >= 0) close(lock);
}
