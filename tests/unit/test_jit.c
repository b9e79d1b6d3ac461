/* Compiling at run time: what is kept is what was made, by us, of this source; all else is made again. */
#define _GNU_SOURCE 1
#include "support/files.h"
#include "support/support.h"

#include "base/file.h"
#include "jit/cache.h"
#include "jit/child.h"
#include "jit/load.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const fac_file_calls REAL = {write, pwrite, fsync, close, renameat};

static int reset(void **state) {
    fac__file_calls = REAL;
    unsetenv("CC");
    unsetenv("FACULA_COMPILE_SECONDS");
    return support_teardown(state);
}

/* ---- the hash ----------------------------------------------------------------------------------------------------------- */

static void assert_digest(const char *text, size_t times, size_t piece, const char *expected) {
    fac_sha256 h;
    unsigned char out[FAC_SHA256_BYTES];
    char hex[2 * FAC_SHA256_BYTES + 1];
    fac__sha256_begin(&h);
    for (size_t i = 0; i < times; i++)
        for (size_t at = 0; at < strlen(text); at += piece)
            fac__sha256_add(&h, text + at, strlen(text) - at < piece ? strlen(text) - at : piece);
    fac__sha256_end(&h, out);
    for (size_t i = 0; i < sizeof out; i++) snprintf(hex + 2 * i, 3, "%02x", out[i]);
    assert_string_equal(hex, expected);
}

/* source: FIPS 180-2, appendix B; NIST's SHA-256 examples */
static void sha256_gives_the_standards_digests(void **state) {
    (void)state;
    static const char abc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    static const char four[] =
        "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
        "mnopqrstnopqrstu";
    assert_digest("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_digest("abc", 1, 3, abc);
    assert_digest("abc", 1, 1, abc);
    for (size_t piece = 1; piece <= 56; piece++)
        assert_digest(two, 1, piece, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_digest(four, 1, 13, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    assert_digest("a", 1000000, 1, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* ---- keys ---------------------------------------------------------------------------------------------------------------- */

static void key_changes_with_everything_that_goes_in(void **state) {
    (void)state;
    const char *input = files_path("input");
    files_write(input, "1", 1);
    const fac_jit_text header = {"a.h", "x"}, renamed = {"b.h", "x"}, other = {"a.h", "y"}, shifted = {"a.hx", ""};
    const char *const options[] = {"-DA", "-DB"}, *const joined[] = {"-DA-DB"};
    const fac_jit_source base = {.name = "n", .text = "t"};
    fac_jit_source v[11];
    for (size_t i = 0; i < FAC_COUNT(v); i++) v[i] = base;
    v[1].name = "m";
    v[2].text = "u";
    v[3].name = "nt", v[3].text = "";
    v[4].headers = &header, v[4].n_headers = 1;
    v[5].headers = &renamed, v[5].n_headers = 1;
    v[6].headers = &other, v[6].n_headers = 1;
    v[7].headers = &shifted, v[7].n_headers = 1;
    v[8].options = options, v[8].n_options = 2;
    v[9].options = joined, v[9].n_options = 1;
    v[10].inputs = &input, v[10].n_inputs = 1;
    fac_jit_key keys[FAC_COUNT(v) + 2], again;
    for (size_t i = 0; i < FAC_COUNT(v); i++) fac__jit_key_of(&v[i], "cc 1", &keys[i]);
    fac__jit_key_of(&base, "cc 2", &keys[FAC_COUNT(v)]);
    files_write(input, "22", 2);
    fac__jit_key_of(&v[10], "cc 1", &keys[FAC_COUNT(v) + 1]);
    for (size_t i = 0; i < FAC_COUNT(keys); i++)
        for (size_t k = 0; k < i; k++) assert_string_not_equal(keys[i].text, keys[k].text);
    fac__jit_key_of(&base, "cc 1", &again);
    assert_string_equal(again.text, keys[0].text);
    assert_int_equal(strlen(again.text), 64);
}

static void build_id_is_known(void **state) {
    (void)state;
    char id[160];
    fac__jit_build_id(id, sizeof id);
    assert_true(strlen(id) >= 16);
}

/* ---- the cache ------------------------------------------------------------------------------------------------------------ */

/* A cache of this run of the test alone. */
static const char *use_cache(const char *test) {
    static int runs;
    char name[100];
    snprintf(name, sizeof name, "%s-%d", test, runs++);
    const char *root = files_path(name);
    assert_int_equal(setenv("XDG_CACHE_HOME", root, 1), 0);
    return root;
}

static int open_cache(void) {
    const int folder = fac__jit_cache_open();
    assert_true(folder >= 0);
    return folder;
}

static fac_jit_key key_of(const char *text) {
    fac_jit_key key;
    fac__jit_key_of(&(fac_jit_source){.name = "test", .text = text}, "none", &key);
    return key;
}

static bool has(int folder, const fac_jit_key *key, const char *expected) {
    char *data = NULL;
    size_t bytes = 0;
    assert_ok(fac__jit_cache_read(folder, key, ".so", &data, &bytes));
    if (data) {
        assert_int_equal(bytes, strlen(expected));
        assert_memory_equal(data, expected, bytes);
    }
    fac__free(data);
    return data != NULL;
}

static const char *path_in(const char *root, const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%.60s/facula/%.200s", strrchr(root, '/') + 1, name);
    return files_path(path);
}

static const char *entry_path(const char *root, const fac_jit_key *key) {
    char name[100];
    snprintf(name, sizeof name, "%s.so", key->text);
    return path_in(root, name);
}

static void cache_gives_back_what_was_written(void **state) {
    (void)state;
    use_cache("plain");
    const int folder = open_cache();
    const fac_jit_key key = key_of("a"), other = key_of("b");
    assert_false(has(folder, &key, ""));
    fac__jit_cache_write(folder, &key, ".so", "first", 5);
    fac__jit_cache_write(folder, &key, ".so", "second!", 7);
    assert_true(has(folder, &key, "second!"));
    assert_false(has(folder, &other, ""));
    close(folder);
}

static void cache_folder_and_entries_are_the_users_alone(void **state) {
    (void)state;
    const char *root = use_cache("modes");
    const mode_t old = umask(0);
    const int folder = open_cache();
    const fac_jit_key key = key_of("a");
    struct stat s;
    fac__jit_cache_write(folder, &key, ".so", "first", 5);
    umask(old);
    assert_int_equal(fstat(folder, &s), 0);
    assert_int_equal(s.st_mode & 07777, 0700);
    assert_int_equal(stat(entry_path(root, &key), &s), 0);
    assert_int_equal(s.st_mode & 07777, 0600);
    close(folder);
}

static void cut_entry_is_none_at_any_length(void **state) {
    (void)state;
    const char *root = use_cache("cut");
    const int folder = open_cache();
    const fac_jit_key key = key_of("a");
    fac__jit_cache_write(folder, &key, ".so", "what was made", 13);
    const char *path = entry_path(root, &key);
    size_t n;
    unsigned char *bytes = files_read(path, &n);
    for (size_t cut = 0; cut < n; cut++) {
        files_write(path, bytes, cut);
        assert_int_equal(chmod(path, 0600), 0);
        assert_false(has(folder, &key, ""));
        assert_int_not_equal(access(path, F_OK), 0); /* what is broken goes */
    }
    free(bytes);
    close(folder);
}

static void entry_with_any_bit_flipped_is_none(void **state) {
    (void)state;
    const char *root = use_cache("flipped");
    const int folder = open_cache();
    const fac_jit_key key = key_of("a");
    fac__jit_cache_write(folder, &key, ".so", "made", 4);
    const char *path = entry_path(root, &key);
    size_t n;
    unsigned char *bytes = files_read(path, &n);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        files_write(path, bytes, n);
        assert_int_equal(chmod(path, 0600), 0);
        assert_false(has(folder, &key, ""));
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    files_write(path, bytes, n);
    assert_int_equal(chmod(path, 0600), 0);
    assert_true(has(folder, &key, "made"));
    free(bytes);
    close(folder);
}

static void entry_of_another_key_is_none(void **state) {
    (void)state;
    const char *root = use_cache("renamed");
    const int folder = open_cache();
    const fac_jit_key key = key_of("a"), other = key_of("b");
    fac__jit_cache_write(folder, &key, ".so", "made", 4);
    assert_int_equal(link(entry_path(root, &key), entry_path(root, &other)), 0);
    assert_false(has(folder, &other, ""));
    assert_true(has(folder, &key, "made"));
    close(folder);
}

/* Ways in which a sound entry may not be the user's own; each is taken back by writing it anew. */
static void entry_that_others_could_have_written_is_none(void **state) {
    (void)state;
    const char *root = use_cache("others");
    const int folder = open_cache();
    const fac_jit_key key = key_of("a");
    const char *path = entry_path(root, &key), *aside = path_in(root, "aside");
    static const mode_t modes[] = {0620, 0602, 0666};
    for (size_t i = 0; i < FAC_COUNT(modes); i++) {
        fac__jit_cache_write(folder, &key, ".so", "made", 4);
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_false(has(folder, &key, ""));
    }
    fac__jit_cache_write(folder, &key, ".so", "made", 4);
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(symlink(aside, path), 0);
    assert_false(has(folder, &key, ""));
    assert_int_equal(access(aside, F_OK), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(has(folder, &key, "")); /* and does not wait for a writer */
    if (geteuid() == 0) {
        fac__jit_cache_write(folder, &key, ".so", "made", 4);
        assert_int_equal(chown(path, 65534, 65534), 0);
        assert_false(has(folder, &key, ""));
    }
    fac__jit_cache_write(folder, &key, ".so", "made", 4);
    assert_true(has(folder, &key, "made"));
    close(folder);
}

static void entry_of_any_size_is_bounded(void **state) {
    (void)state;
    const char *root = use_cache("large");
    const int folder = open_cache();
    const fac_jit_key key = key_of("a");
    fac__jit_cache_write(folder, &key, ".so", "made", 4);
    assert_int_equal(truncate(entry_path(root, &key), (off_t)1 << 40), 0);
    assert_false(has(folder, &key, ""));
    close(folder);
}

static void cache_folder_that_others_may_write_to_is_not_used(void **state) {
    (void)state;
    const char *root = use_cache("open");
    char path[600];
    snprintf(path, sizeof path, "%s/facula", root);
    close(open_cache());
    assert_int_equal(chmod(path, 0770), 0);
    assert_int_equal(fac__jit_cache_open(), -1);
    assert_int_equal(chmod(path, 0702), 0);
    assert_int_equal(fac__jit_cache_open(), -1);
    assert_int_equal(chmod(path, 0755), 0); /* to read is no harm: taken back */
    close(open_cache());
    assert_int_equal(rmdir(path), 0);
    char elsewhere[600];
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", root);
    assert_int_equal(mkdir(elsewhere, 0700), 0);
    assert_int_equal(symlink(elsewhere, path), 0);
    assert_int_equal(fac__jit_cache_open(), -1);
    if (geteuid() == 0) {
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(chown(path, 65534, 65534), 0);
        assert_int_equal(fac__jit_cache_open(), -1);
    }
    assert_int_equal(fac_error(), FAC_OK);
}

static char order[64];
static int note_fsync(int fd) {
    strcat(order, "f");
    return fsync(fd);
}
static int note_rename(int a, const char *from, int b, const char *to) {
    strcat(order, "r");
    return renameat(a, from, b, to);
}

static void entry_is_on_the_disk_before_it_has_its_name(void **state) {
    (void)state;
    use_cache("order");
    order[0] = 0;
    const int folder = open_cache();
    const fac_jit_key key = key_of("a");
    fac__file_calls.fsync = note_fsync;
    fac__file_calls.renameat = note_rename;
    fac__jit_cache_write(folder, &key, ".so", "made", 4);
    assert_string_equal(order, "frf"); /* the file, its name, the folder */
    close(folder);
}

static int files_in(int folder) {
    DIR *d = fdopendir(openat(folder, ".", O_RDONLY | O_DIRECTORY));
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void cache_trim_removes_the_oldest_and_dead_temporaries(void **state) {
    (void)state;
    const char *root = use_cache("trim");
    const int folder = open_cache();
    const fac_jit_key keys[] = {key_of("a"), key_of("b"), key_of("c")};
    char name[100];
    for (int i = 0; i < 3; i++) {
        fac__jit_cache_write(folder, &keys[i], ".so", "made", 4);
        const struct timespec times[2] = {{1000000 + i, 0}, {1000000 + i, 0}};
        assert_int_equal(utimensat(AT_FDCWD, entry_path(root, &keys[i]), times, 0), 0);
    }
    snprintf(name, sizeof name, "%s.so.0123456789abcdef.tmp", keys[0].text);
    files_write(path_in(root, name), "half", 4);
    files_write(path_in(root, "foreign"), "mine", 4);
    fac__jit_cache_trim(folder, 2 * 84);
    assert_int_equal(files_in(folder), 4); /* b, c, a young temporary, a foreign file */
    assert_false(has(folder, &keys[0], ""));
    assert_true(has(folder, &keys[1], "made") && has(folder, &keys[2], "made"));
    const struct timespec old[2] = {{1000, 0}, {1000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path_in(root, name), old, 0), 0);
    fac__jit_cache_trim(folder, 0);
    assert_int_equal(files_in(folder), 1);
    close(folder);
}

static void cache_is_shared_by_processes(void **state) {
    (void)state;
    use_cache("shared");
    enum { PROCESSES = 4, ROUNDS = 200 };
    pid_t children[PROCESSES];
    fflush(NULL);
    for (int p = 0; p < PROCESSES; p++) {
        if ((children[p] = fork()) != 0) continue;
        const int folder = fac__jit_cache_open();
        const fac_jit_key key = key_of("a");
        int wrong = folder < 0;
        for (int i = 0; i < ROUNDS && !wrong; i++) {
            char *data = NULL;
            size_t n = 0;
            fac__jit_cache_write(folder, &key, ".so", "made", 4);
            wrong = fac__jit_cache_read(folder, &key, ".so", &data, &n) != FAC_OK || !data || n != 4 ||
                    memcmp(data, "made", 4);
            fac__free(data);
        }
        _exit(wrong);
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        assert_int_equal(waitpid(children[p], &status, 0), children[p]);
        assert_int_equal(status, 0);
    }
}

/* ---- other programs ---------------------------------------------------------------------------------------------------------- */

static int run_shell(const char *script, double seconds, char *out, size_t size) {
    return fac__child_run((const char *const[]){"/bin/sh", "-c", script, NULL}, seconds, out, size);
}

static void child_gives_status_and_words(void **state) {
    (void)state;
    char out[8];
    assert_int_equal(run_shell("echo one; echo two >&2; exit 3", 20, out, sizeof out), 3);
    assert_string_equal(out, "one\ntwo");
    assert_int_equal(run_shell("cat", 20, out, sizeof out), 0); /* there is no input to wait for */
    assert_int_equal(run_shell("kill -SEGV $$", 20, out, sizeof out), FAC_CHILD_KILLED);
    assert_int_equal(fac__child_run((const char *const[]){"/nonexistent", NULL}, 20, out, sizeof out),
                     FAC_CHILD_NOT_RUN);
    assert_int_equal(run_shell("head -c 10000000 /dev/zero; exit 4", 60, out, sizeof out), 4);
}

static void child_that_takes_too_long_is_killed_with_its_group(void **state) {
    (void)state;
    char out[64];
    const double begin = fac__now();
    assert_int_equal(run_shell("sleep 300 & echo $!; echo $$; wait", 0.5, out, sizeof out), FAC_CHILD_TOO_LONG);
    assert_true(fac__now() - begin < 30);
    int sleeper, shell;
    assert_int_equal(sscanf(out, "%d %d", &sleeper, &shell), 2);
    for (int i = 0; i < 1000 && kill(sleeper, 0) == 0; i++) usleep(10000); /* until init has taken note */
    assert_int_not_equal(kill(shell, 0), 0);
    assert_int_equal(run_shell("exec >/dev/null 2>&1; sleep 300", 0.2, out, sizeof out), FAC_CHILD_TOO_LONG);
}

static void child_is_waited_for_though_others_wait_for_all(void **state) {
    (void)state;
    char out[64];
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction old;
    assert_int_equal(sigaction(SIGCHLD, &ignore, &old), 0);
    assert_int_equal(run_shell("echo done", 20, out, sizeof out), 0);
    assert_int_equal(sigaction(SIGCHLD, &old, NULL), 0);
    assert_string_equal(out, "done\n");
}

/* ---- compiling ------------------------------------------------------------------------------------------------------------------ */

static bool have_compiler(void) { return system("cc --version >/dev/null 2>&1") == 0; }
#define NEED_COMPILER() \
    if (!have_compiler()) print_message("skipped: there is no cc\n"), skip()

static int value_of(const char *text) {
    void *library = NULL;
    assert_ok(fac__jit_compile_host(&(fac_jit_source){.name = "test.c", .text = text}, &library));
    int (*value)(void);
    *(void **)&value = dlsym(library, "value");
    assert_non_null(value);
    return value();
}

static void libraries_are_told_apart(void **state) {
    (void)state;
    NEED_COMPILER();
    use_cache("apart");
    for (int i = 0; i < 12; i++) {
        char text[64];
        snprintf(text, sizeof text, "int value(void) { return %d; }", i);
        assert_int_equal(value_of(text), i);
    }
    assert_int_equal(value_of("int value(void) { return 3; }"), 3);
    void *a = NULL, *b = NULL;
    const fac_jit_source s = {.name = "test.c", .text = "int value(void) { return 3; }"};
    assert_ok(fac__jit_compile_host(&s, &a));
    assert_ok(fac__jit_compile_host(&s, &b));
    assert_ptr_equal(a, b);
}

/* In a process of its own, which has loaded nothing yet. */
static int value_in_child(const char *text) {
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(value_of(text));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The one entry of the cache. */
static void only_entry(const char *root, char *path, size_t size) {
    char folder[600];
    snprintf(folder, sizeof folder, "%s/facula", root);
    DIR *d = opendir(folder);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') n++, snprintf(path, size, "%s/%.200s", folder, e->d_name);
    closedir(d);
    assert_int_equal(n, 1);
}

static void broken_entry_is_compiled_again(void **state) {
    (void)state;
    NEED_COMPILER();
    const char *root = use_cache("broken"), *text = "int value(void) { return 41; }";
    char path[900];
    struct stat whole, now;
    assert_int_equal(value_in_child(text), 41);
    only_entry(root, path, sizeof path);
    assert_int_equal(stat(path, &whole), 0);
    const off_t lengths[] = {0, 1, 100, whole.st_size / 2, whole.st_size - 1};
    for (size_t i = 0; i < FAC_COUNT(lengths); i++) {
        assert_int_equal(truncate(path, lengths[i]), 0);
        assert_int_equal(value_in_child(text), 41);
        assert_int_equal(stat(path, &now), 0);
        assert_int_equal(now.st_size, whole.st_size);
    }
}

static void wrong_source_is_an_error_and_not_kept(void **state) {
    (void)state;
    NEED_COMPILER();
    const char *root = use_cache("wrong");
    void *library;
    char folder[600];
    assert_int_equal(fac__jit_compile_host(
                         &(fac_jit_source){.name = "w.c", .text = "int value(void) { return nonsense; }"}, &library),
                     FAC_ERR_FORMAT);
    assert_error(FAC_ERR_FORMAT, "nonsense");
    snprintf(folder, sizeof folder, "%s/facula", root);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(fac__jit_compile_host(&(fac_jit_source){.name = "h.c",
                                                             .text = "",
                                                             .n_headers = 1,
                                                             .headers = &(fac_jit_text){"../../outside.h", ""}},
                                           &library),
                     FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "outside.h");
}

static const char *script_as_compiler(const char *name, const char *script) {
    const char *path = files_path(name);
    files_write(path, script, strlen(script));
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(setenv("CC", path, 1), 0);
    return path;
}

static void compiler_may_be_a_command_of_several_words(void **state) {
    (void)state;
    char command[1200];
    int (*value)(void) = NULL;
    void *library;
    use_cache("words");
    const char *wrapper = script_as_compiler("wrapping cc", "#!/bin/sh\necho \"$@\" >>\"$0.log\"\nexec \"$@\"\n");
    const fac_jit_source s = {.name = "w.c", .text = "int value(void) { return FOUR; }"};
    assert_int_equal(fac__jit_compile_host(&s, &library),
                     FAC_ERR_UNSUPPORTED); /* a path with a space, but no command behind it */
    fac_error_clear();
    const char *link = files_path("wrapper");
    (void)unlink(link); /* of a run before */
    assert_int_equal(symlink(wrapper, link), 0);
    for (int n = 4; n < 6; n++) {
        snprintf(command, sizeof command, "  %s\tcc  -DFOUR=%d ", link, n);
        assert_int_equal(setenv("CC", command, 1), 0);
        assert_ok(fac__jit_compile_host(&s, &library));
        *(void **)&value = dlsym(library, "value");
        assert_int_equal(value(), n);
    }
    memset(command, 'x', sizeof command - 1);
    command[sizeof command - 1] = 0;
    assert_int_equal(setenv("CC", command, 1), 0);
    assert_int_equal(fac__jit_compile_host(&s, &library), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "cannot be run");
}

static void compiler_that_hangs_or_makes_nothing_is_an_error(void **state) {
    (void)state;
    use_cache("hanging");
    const fac_jit_source s = {.name = "slow.c", .text = "int value(void) { return 1; }"};
    void *library;
    setenv("FACULA_COMPILE_SECONDS", "1", 1);
    script_as_compiler("slow-cc", "#!/bin/sh\ncase $1 in -*version|-dump*) echo slow 1;; *) sleep 300;; esac\n");
    assert_int_equal(fac__jit_compile_host(&s, &library), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "did not end within 1 seconds");
    script_as_compiler("lazy-cc", "#!/bin/sh\necho lazy 1\n");
    assert_int_equal(fac__jit_compile_host(&s, &library), FAC_ERR_FORMAT);
    assert_error(FAC_ERR_FORMAT, "made nothing");
    script_as_compiler(
        "wild-cc", "#!/bin/sh\necho wild 1\nwhile [ $# -gt 1 ]; do [ \"$1\" = -o ] && echo no >\"$2\"; shift; done\n");
    assert_int_equal(fac__jit_compile_host(&s, &library), FAC_ERR_IO);
    assert_error(FAC_ERR_IO, "cannot be loaded");
}

/* ---- more rights than the user ---------------------------------------------------------------------------------------------------- */

/* What the copy of this program that is setuid does: its environment names a cache and a compiler. */
static int as_setuid(void) {
    void *library;
    if (fac__env_trusted() || fac__env("XDG_CACHE_HOME") || fac__env("CC")) return 1;
    if (fac__jit_cache_open() != -1) return 2;
    if (fac__jit_compile_host(&(fac_jit_source){.name = "s.c", .text = ""}, &library) != FAC_ERR_UNSUPPORTED) return 3;
    return strstr(fac_error_message(), "more rights than its user") ? 0 : 4;
}

static void setuid_program_keeps_and_compiles_nothing(void **state) {
    (void)state;
    if (geteuid() != 0) print_message("skipped: only root can make a program of another user\n"), skip();
    const char *copy = files_path("setuid-copy"), *root = use_cache("setuid");
    char command[1200];
    snprintf(command, sizeof command,
             "cp /proc/%ld/exe %s && chown 65534 %s && chmod 4755 %s && chmod 755 $(dirname %s)", (long)getpid(), copy,
             copy, copy, copy);
    assert_int_equal(system(command), 0);
    setenv("CC", "/bin/true", 1);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        execl(copy, copy, "as-setuid", (char *)NULL);
        _exit(99);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_not_equal(access(root, F_OK), 0);
}

int main(int argc, char **argv) {
    /* A sanitizer cannot look for leaks in a process that its user may not trace. */
    if (argc > 1 && strcmp(argv[1], "as-setuid") == 0) _exit(as_setuid());
#define TEST(f) cmocka_unit_test_setup_teardown(f, support_setup, reset)
    const struct CMUnitTest tests[] = {
        TEST(sha256_gives_the_standards_digests),
        TEST(key_changes_with_everything_that_goes_in),
        TEST(build_id_is_known),
        TEST(cache_gives_back_what_was_written),
        TEST(cache_folder_and_entries_are_the_users_alone),
        TEST(cut_entry_is_none_at_any_length),
        TEST(entry_with_any_bit_flipped_is_none),
        TEST(entry_of_another_key_is_none),
        TEST(entry_that_others_could_have_written_is_none),
        TEST(entry_of_any_size_is_bounded),
        TEST(cache_folder_that_others_may_write_to_is_not_used),
        TEST(entry_is_on_the_disk_before_it_has_its_name),
        TEST(cache_trim_removes_the_oldest_and_dead_temporaries),
        TEST(cache_is_shared_by_processes),
        TEST(child_gives_status_and_words),
        TEST(child_that_takes_too_long_is_killed_with_its_group),
        TEST(child_is_waited_for_though_others_wait_for_all),
        TEST(libraries_are_told_apart),
        TEST(broken_entry_is_compiled_again),
        TEST(wrong_source_is_an_error_and_not_kept),
        TEST(compiler_may_be_a_command_of_several_words),
        TEST(compiler_that_hangs_or_makes_nothing_is_an_error),
        TEST(setuid_program_keeps_and_compiles_nothing),
    };
    return support_run(tests, FAC_COUNT(tests), NULL);
}
