/* System calls that fail, put under a program with LD_PRELOAD. The environment says what happens:

   FAULT_CALL    write, pwrite, pread, fsync, close, openat, renameat, ftruncate or pthread_create
   FAULT_AT      the how many-th of these fails, from 1
   FAULT_STAY    1: all later ones fail too
   FAULT_EVERY   n: instead, every n-th fails
   FAULT_ERRNO   with this number
   FAULT_UNDER   only calls on files below this folder count
   FAULT_REPORT  a file that is made when the first one fails
   FAULT_TIMER   an alarm every so many microseconds, whose handler lets no call go on by itself */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

static bool is_under(int fd) {
    const char *folder = getenv("FAULT_UNDER");
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    return folder && strncmp(path, folder, strlen(folder)) == 0;
}

/* Whether this call is one that fails; then errno is set. */
static bool fails(const char *call) {
    static atomic_long calls;
    const char *chosen = getenv("FAULT_CALL"), *report = getenv("FAULT_REPORT");
    if (!chosen || strcmp(chosen, call) != 0) return false;
    const long n = atomic_fetch_add(&calls, 1) + 1, every = number("FAULT_EVERY"), at = number("FAULT_AT");
    if (every ? n % every != 0 : number("FAULT_STAY") ? n < at : n != at) return false;
    if (report) syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, report, O_CREAT | O_WRONLY, 0600));
    errno = (int)number("FAULT_ERRNO");
    return true;
}

static bool fails_on(const char *call, int fd) { return is_under(fd) && fails(call); }

#define REAL(result, name, ...)         \
    static result (*real)(__VA_ARGS__); \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *p, size_t n) {
    REAL(ssize_t, write, int, const void *, size_t);
    return fails_on("write", fd) ? -1 : real(fd, p, n);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at) {
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
    return fails_on("pwrite", fd) ? -1 : real(fd, p, n, at);
}

/* Reading is cut into small pieces, so that there are many of them. */
ssize_t pread(int fd, void *p, size_t n, off_t at) {
    REAL(ssize_t, pread, int, void *, size_t, off_t);
    if (!is_under(fd)) return real(fd, p, n, at);
    return fails("pread") ? -1 : real(fd, p, n < 512 ? n : 512, at);
}

int fsync(int fd) {
    REAL(int, fsync, int);
    return fails_on("fsync", fd) ? -1 : real(fd);
}

/* As the system does it: a close that fails has closed. */
int close(int fd) {
    REAL(int, close, int);
    const bool failing = fails_on("close", fd);
    const int code = errno, closed = real(fd);
    if (failing) errno = code;
    return failing ? -1 : closed;
}

int ftruncate(int fd, off_t n) {
    REAL(int, ftruncate, int, off_t);
    return fails_on("ftruncate", fd) ? -1 : real(fd, n);
}

int renameat(int a, const char *from, int b, const char *to) {
    REAL(int, renameat, int, const char *, int, const char *);
    return fails_on("renameat", a) ? -1 : real(a, from, b, to);
}

int openat(int folder, const char *path, int flags, ...) {
    REAL(int, openat, int, const char *, int, mode_t);
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list args;
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    return (flags & O_CREAT) && fails_on("openat", folder) ? -1 : real(folder, path, flags, mode);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    REAL(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    return fails("pthread_create") ? errno : real(thread, attributes, run, argument);
}

static void on_alarm(int signal) { (void)signal; }

__attribute__((constructor)) static void start_timer(void) {
    const long every = number("FAULT_TIMER");
    if (every <= 0) return;
    const struct sigaction a = {.sa_handler = on_alarm};
    const struct itimerval t = {{0, every}, {0, every}};
    sigaction(SIGALRM, &a, NULL);
    setitimer(ITIMER_REAL, &t, NULL);
}
