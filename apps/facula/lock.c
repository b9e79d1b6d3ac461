/* The lock is flock's on the file DIR/.lock. Only who has it removes the file, and who then locked the removed file looks again:
   two runs never have locks on two files of the same name. What stands in the file only serves the message for others. */
#include "lock.h"
#include "checkpoint.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_file(const char *path, int more) {
    int fd;
    do fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | more, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static int open_lock(const char *path, bool *made) {
    const int fd = open_file(path, O_EXCL);
    *made = fd >= 0;
    return fd >= 0 || errno != EEXIST ? fd : open_file(path, 0);
}

/* Whether the file has not been removed since it was opened. */
static bool still_there(const char *path, int fd) {
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
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

/* Opens the file and locks it; a file that goes meanwhile leaves *fd at -1, without an error. */
static fac_status lock_once(const char *dir, const char *path, int *fd, bool *made) {
    *fd = open_lock(path, made);
    if (*fd < 0) return fac_error_set(FAC_ERR_IO, "cannot open the lock '%s': %s", path, strerror(errno));
    fac_status st = FAC_OK;
    if (try_lock(*fd) != 0)
        st = errno == EWOULDBLOCK ? taken(dir, *fd)
                                  : fac_error_set(FAC_ERR_IO, "cannot lock '%s': %s", path, strerror(errno));
    if (!st && still_there(path, *fd)) return FAC_OK;
    close(*fd);
    *fd = -1;
    return st;
}

static fac_status lock(run_folder *out) {
    fac_status st = run_path(out->dir, ".lock", out->lock_path, sizeof out->lock_path);
    while (!st && out->lock < 0) st = lock_once(out->dir, out->lock_path, &out->lock, &out->lock_made);
    if (!st) sign(out->lock);
    return st;
}

/* ---- leaving nothing ---- */

static run_folder *held; /* what a signal that ends the process cleans up; changes while these signals wait */
static const int deadly[] = {SIGINT, SIGTERM, SIGHUP};

/* Only calls that a signal's handler may make. */
static void remove_made(const run_folder *f) {
    if (f->begun) return;
    if (f->lock >= 0 && f->lock_made) unlink(f->lock_path);
    if (f->made) run_remove_dirs(f->dir, f->made);
}

/* The handler is reset: the signal that is raised here ends the process. */
static void on_signal(int number) {
    if (held) remove_made(held);
    raise(number);
}

static void let_wait(sigset_t *before) {
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) sigaddset(&set, deadly[i]);
    sigprocmask(SIG_BLOCK, &set, before);
}

/* A signal that is ignored, as a shell has it for what runs in the background, stays so. */
static void catch_signals(void) {
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND}, is;
    sigemptyset(&a.sa_mask);
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        if (sigaction(deadly[i], NULL, &is) == 0 && is.sa_handler == SIG_DFL) sigaction(deadly[i], &a, NULL);
}

fac_status run_take(const char *dir, bool make, run_folder *out) {
    sigset_t before;
    let_wait(&before);
    *out = (run_folder){.dir = dir, .lock = -1};
    fac_status st = make ? run_make_dir(dir, &out->made) : FAC_OK;
    if (!st) st = lock(out);
    held = out;
    catch_signals();
    sigprocmask(SIG_SETMASK, &before, NULL);
    return st;
}

void run_leave(run_folder *f) {
    sigset_t before;
    let_wait(&before);
    remove_made(f);
    if (f->lock >= 0) close(f->lock);
    *f = (run_folder){.lock = -1};
    held = NULL;
    sigprocmask(SIG_SETMASK, &before, NULL);
}
