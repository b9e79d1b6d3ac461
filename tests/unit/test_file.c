/* Replacing files: interrupted, at the limit on sizes, beside foreign files, and after writers that were killed. */
#include "support/files.h"
#include "support/support.h"

#include "base/file.h"
#include <errno.h>
#include <facula/facula.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const fac_file_calls REAL = {write, pwrite, fsync, close, renameat};

static int reset_calls(void **state) {
    fac__file_calls = REAL;
    return support_teardown(state);
}

static void assert_holds(const char *path, const char *text) {
    size_t n;
    unsigned char *bytes = files_read(path, &n);
    assert_int_equal(n, strlen(text));
    assert_memory_equal(bytes, text, n);
    free(bytes);
}

static bool exists(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0;
}

static void file_replace_makes_and_replaces(void **state) {
    (void)state;
    const char *path = files_path("plain");
    assert_ok(fac_file_replace(path, "old", 3));
    assert_holds(path, "old");
    assert_ok(fac_file_replace(path, "newer", 5));
    assert_holds(path, "newer");
    assert_ok(fac_file_replace(path, NULL, 0));
    assert_holds(path, "");
    assert_int_equal(fac_file_replace(NULL, "x", 1), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "path");
    assert_int_equal(fac_file_replace(path, NULL, 1), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "NULL");
    assert_int_equal(fac_file_replace(files_path("folder/"), "x", 1), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "names no file");
}

/* A process may have the number of one that was killed, as every first process of a container has, and find what that left. */
static void file_replace_is_not_stopped_by_what_another_process_left(void **state) {
    (void)state;
    const char *path = files_path("weights.safetensors");
    float one = 1;
    FAC_SCOPE(s);
    fac_named_tensor t = {"x", fac_tensor_from(&one, FAC_F32, FAC_INTS(1))};
    for (unsigned i = 0; i < 64; i++) {
        char old[600];
        snprintf(old, sizeof old, "%s.%ld-%u.tmp", path, (long)getpid(), i);
        files_write(old, "left", 4);
    }
    assert_ok(fac_safetensors_save(path, &t, 1, NULL, 0));
}

/* ---- signals ----------------------------------------------------------------------------------------------------------------- */

static int interruptions; /* left, for each kind of call in turn */
static bool interrupted(void) {
    if (interruptions-- <= 0) {
        interruptions = 3;
        return false;
    }
    errno = EINTR;
    return true;
}
static ssize_t slow_write(int fd, const void *p, size_t n) { return interrupted() ? -1 : write(fd, p, n > 5 ? 5 : n); }
static ssize_t slow_pwrite(int fd, const void *p, size_t n, off_t at) {
    return interrupted() ? -1 : pwrite(fd, p, n > 3 ? 3 : n, at);
}
static int slow_fsync(int fd) { return interrupted() ? -1 : fsync(fd); }
/* Interrupted or not, the descriptor is closed: to close it again would close another's. */
static int slow_close(int fd) {
    assert_int_equal(close(fd), 0);
    errno = EINTR;
    return -1;
}

static void file_replace_goes_on_when_interrupted(void **state) {
    (void)state;
    const char *path = files_path("interrupted.safetensors");
    float values[] = {1, 2, 3};
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_from(values, FAC_F32, FAC_INTS(3)), *y = fac_zeros(FAC_INTS(3));
    interruptions = 3;
    fac__file_calls = (fac_file_calls){slow_write, slow_pwrite, slow_fsync, slow_close, renameat};
    assert_ok(fac_safetensors_save(path, &(fac_named_tensor){"x", x}, 1, NULL, 0));
    fac__file_calls = REAL;
    assert_ok(fac_safetensors_load(path, &(fac_named_tensor){"x", y}, 1));
    assert_true(fac_equal(x, y));
}

/* In a process of its own, since a limit that was set does not go up again for everyone. */
static int in_child(int (*run)(const char *path), const char *path) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(run(path));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static int write_past_limit(const char *path) {
    static char bytes[100000];
    const struct rlimit limit = {4096, 4096};
    sigset_t pending;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 10;
    if (fac_file_replace(path, bytes, sizeof bytes) != FAC_ERR_IO) return 11;
    if (!strstr(fac_error_message(), path) || !strstr(fac_error_message(), "File too large")) return 12;
    /* No signal is left for later, and the thread hears of the next one. */
    if (sigpending(&pending) != 0 || sigismember(&pending, SIGXFSZ)) return 13;
    if (pthread_sigmask(SIG_BLOCK, NULL, &pending) != 0 || sigismember(&pending, SIGXFSZ)) return 14;
    return 0;
}

static void file_past_the_size_limit_is_an_error_not_a_signal(void **state) {
    (void)state;
    const char *path = files_path("limited");
    files_write(path, "old", 3);
    const int files = files_count(), status = in_child(write_past_limit, path);
    assert_false(WIFSIGNALED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_holds(path, "old");
    assert_int_equal(files_count(), files);
}

/* ---- names --------------------------------------------------------------------------------------------------------------------- */

static void file_replace_follows_no_link(void **state) {
    (void)state;
    const char *victim = files_path("victim"), *path = files_path("link");
    files_write(victim, "precious", 8);
    assert_int_equal(symlink(victim, path), 0);
    assert_ok(fac_file_replace(path, "new", 3));
    assert_holds(victim, "precious");
    assert_holds(path, "new");
}

static void file_replace_refuses_devices_and_pipes(void **state) {
    (void)state;
    const char *path = files_path("pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(fac_file_replace(path, "new", 3), FAC_ERR_IO);
    assert_error(FAC_ERR_IO, "not a regular file");
    assert_true(exists(path));
}

static void file_sweep_removes_dead_temporaries_and_nothing_else(void **state) {
    (void)state;
    static const char *const ours[] = {"a.txt.0123456789abcdef.tmp", "a.txt.ffffffffffffffff.tmp"};
    static const char *const foreign[] = {
        "a.txt",
        "a.txt.tmp",
        "a.txt.0123456789abcde.tmp",
        "a.txt.0123456789abcdef0.tmp",
        "a.txt.0123.tmp",
        "b.txt.0123456789abcdef.tmp",
        "a.txt.0123456789ABCDEF.tmp",
        "a.txt.0123456789abcdef.tmp~",
    };
    for (size_t i = 0; i < FAC_COUNT(ours); i++) files_write(files_path(ours[i]), "x", 1);
    for (size_t i = 0; i < FAC_COUNT(foreign); i++) files_write(files_path(foreign[i]), "x", 1);
    assert_int_equal(mkdir(files_path("a.txt.00000000deadbeef.tmp"), 0700), 0);
    assert_ok(fac_file_sweep(files_path("a.txt")));
    for (size_t i = 0; i < FAC_COUNT(ours); i++) assert_false(exists(files_path(ours[i])));
    for (size_t i = 0; i < FAC_COUNT(foreign); i++) assert_true(exists(files_path(foreign[i])));
    assert_true(exists(files_path("a.txt.00000000deadbeef.tmp")));
    assert_int_equal(fac_file_sweep(files_path("none/a.txt")), FAC_ERR_IO);
    assert_error(FAC_ERR_IO, "none/a.txt");
    assert_int_equal(fac_file_sweep(NULL), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "path");
}

static ssize_t die(int fd, const void *p, size_t n) {
    (void)fd, (void)p, (void)n;
    raise(SIGKILL);
    return -1;
}
static int write_and_die(const char *path) {
    fac__file_calls.write = die;
    return fac_file_replace(path, "new", 3) == FAC_OK;
}

static void file_of_a_killed_writer_is_swept(void **state) {
    (void)state;
    const char *path = files_path("killed");
    assert_ok(fac_file_replace(path, "old", 3));
    const int files = files_count(), status = in_child(write_and_die, path), left = files_count();
    assert_ok(fac_file_sweep(path));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(left, files + 1);
    assert_int_equal(files_count(), files);
    assert_holds(path, "old");
}

/* ---- small stacks --------------------------------------------------------------------------------------------------------------- */

enum { SMALL_STACK = 128 << 10 };

static void *open_here(void *path) {
    fac_safetensors *f = fac_safetensors_open(path);
    const bool refused = !f && fac_error() == FAC_ERR_FORMAT && strstr(fac_error_message(), "nests deeper");
    fac_safetensors_close(f);
    fac_error_clear();
    return refused ? path : NULL;
}

static void *on_small_stack(void *(*run)(void *), const char *argument) {
    pthread_attr_t attributes;
    pthread_t thread;
    void *result = NULL;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, SMALL_STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, run, (void *)(uintptr_t)argument), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    pthread_attr_destroy(&attributes);
    return result;
}

/* A header that opens `depth` brackets of the kind that repeats `unit`. */
static void write_nested(const char *path, const char *unit, int depth) {
    fac_buf b = {0};
    unsigned char length[8] = {0};
    assert_ok(fac__buf_printf(&b, "{\"a\":"));
    for (int i = 0; i < depth; i++) assert_ok(fac__buf_add(&b, unit, strlen(unit)));
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)(b.n >> 8 * i);
    assert_int_equal(fwrite(length, 1, 8, f), 8);
    assert_int_equal(fwrite(b.data, 1, b.n, f), b.n);
    fclose(f);
    fac__buf_free(&b);
}

static void open_of_nested_json_needs_no_stack(void **state) {
    (void)state;
    static const char *const units[] = {"[", "{\"a\":", "[{\"\\\"[\":", "[ \"]\" , "};
    static const int depths[] = {9, 100, 1000, 2040, 2048, 100000};
    const char *path = files_path("nested.safetensors");
    for (size_t u = 0; u < FAC_COUNT(units); u++)
        for (size_t d = 0; d < FAC_COUNT(depths); d++) {
            write_nested(path, units[u], depths[d]);
            assert_non_null(on_small_stack(open_here, path));
        }
}

/* Brackets within text are none. */
static void open_takes_brackets_in_names(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const char *path = files_path("brackets.safetensors"), *name = "[[[[[[[[[[{{{{{{{{{{\\\"[[[[[[[[[[";
    fac_tensor *x = fac_ones(FAC_INTS(2)), *y = fac_zeros(FAC_INTS(2));
    assert_ok(fac_safetensors_save(path, &(fac_named_tensor){name, x}, 1, NULL, 0));
    assert_ok(fac_safetensors_load(path, &(fac_named_tensor){name, y}, 1));
    assert_true(fac_equal(x, y));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FAC_TEST(file_replace_makes_and_replaces),
        FAC_TEST(file_replace_is_not_stopped_by_what_another_process_left),
        cmocka_unit_test_setup_teardown(file_replace_goes_on_when_interrupted, support_setup, reset_calls),
        FAC_TEST(file_past_the_size_limit_is_an_error_not_a_signal),
        FAC_TEST(file_replace_follows_no_link),
        FAC_TEST(file_replace_refuses_devices_and_pipes),
        FAC_TEST(file_sweep_removes_dead_temporaries_and_nothing_else),
        FAC_TEST(file_of_a_killed_writer_is_swept),
        FAC_TEST(open_of_nested_json_needs_no_stack),
        FAC_TEST(open_takes_brackets_in_names),
    };
    return support_run(tests, FAC_COUNT(tests), NULL);
}
