/* Starts a program by posix_spawn, reads what it says, and kills it when its time is over. */
#define _GNU_SOURCE 1 /* pipe2 */
#include "jit/child.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* All signals as a program expects them, whatever this process and thread have made of them. */
static void set_signals(posix_spawnattr_t *a) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(a, &none);
    posix_spawnattr_setsigdefault(a, &all);
    posix_spawnattr_setpgroup(a, 0);
    posix_spawnattr_setflags(a, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
}

static bool spawn(const char *const *argv, int output, pid_t *pid) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    if (posix_spawn_file_actions_init(&files) != 0) return false;
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return false;
    }
    set_signals(&attributes);
    bool ok = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0) == 0 &&
              posix_spawn_file_actions_adddup2(&files, output, 1) == 0 &&
              posix_spawn_file_actions_adddup2(&files, output, 2) == 0 &&
              posix_spawn(pid, argv[0], &files, &attributes, (char *const *)(uintptr_t)argv, environ) == 0;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return ok;
}

/* Reads until nobody holds the other end, and keeps what there is room for. False when the time is over. */
static bool drain(int fd, double end, char *out, size_t size) {
    char rest[4096];
    size_t n = 0;
    for (;;) {
        const double left = end - fac__now();
        struct pollfd p = {fd, POLLIN, 0};
        if (left <= 0) return false;
        if (poll(&p, 1, left > 1 ? 1000 : (int)(left * 1000) + 1) <= 0) continue;
        const bool keep = n + 1 < size;
        const ssize_t done = read(fd, keep ? out + n : rest, keep ? size - 1 - n : sizeof rest);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return true;
        if (keep) out[n += (size_t)done] = 0;
    }
}

/* A child that closed its output early may still run: it is looked at every millisecond, seldom more than once. */
static int wait_until(pid_t pid, double end) {
    for (;;) {
        int status = 0;
        const pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : FAC_CHILD_KILLED;
        /* Another part of the program has waited for every child: how this one ended, its result has to tell. */
        if (ended < 0 && errno == ECHILD) return 0;
        if (fac__now() >= end) return FAC_CHILD_TOO_LONG;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

static void kill_group(pid_t pid) {
    kill(-pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
}

int fac__child_run(const char *const *argv, double seconds, char *out, size_t size) {
    const double end = fac__now() + seconds;
    int ends[2];
    pid_t pid;
    out[0] = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) return FAC_CHILD_NOT_RUN;
    const bool spawned = spawn(argv, ends[1], &pid);
    close(ends[1]);
    const bool drained = spawned && drain(ends[0], end, out, size);
    close(ends[0]);
    if (!spawned) return FAC_CHILD_NOT_RUN;
    const int status = drained ? wait_until(pid, end) : FAC_CHILD_TOO_LONG;
    if (status == FAC_CHILD_TOO_LONG) kill_group(pid);
    return status;
}
