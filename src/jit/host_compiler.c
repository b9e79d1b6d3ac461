/* C compiled by the system's compiler into a shared object. Sources are written to a folder of their own, which nobody else can
   enter and which is removed afterwards. */
#define _GNU_SOURCE 1 /* nftw */
#include "jit/cache.h"
#include "jit/child.h"
#include "jit/load.h"

#include "base/mutex.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATH = 4096,
    COMMAND = 1024,
    MAX_WORDS = 16,
    MAX_OPTIONS = 32,
    MAX_INPUTS = 8,
    MESSAGES = 4000,
    QUESTION_SECONDS = 20
};

static double time_limit(void) { return (double)fac__env_int("FACULA_COMPILE_SECONDS", 1, 86400, 120); }

/* ---- which compiler ------------------------------------------------------------------------------------------------------- */

/* A command of several words, as CC is for make: "ccache gcc", "gcc -m64". A path may have spaces in it. */
typedef struct words {
    char text[COMMAND]; /* one behind the other */
    size_t at[MAX_WORDS], n;
} words;

/* What is known of one: CC as it is set, where its program is, and what tells it from others in a key. */
typedef struct compiler {
    words words;
    char command[COMMAND], path[PATH], file[160], identity[2 * PATH + COMMAND + 1536];
} compiler;

static const char *compiler_name(void) {
    const char *name = fac__env("CC");
    return name && name[strspn(name, " \t")] ? name : "cc";
}

static bool is_program(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode) && access(path, X_OK) == 0;
}

/* A name without a slash is looked for in PATH's absolute folders. */
static bool find_program(const char *name, char *path, size_t size) {
    const char *folders = fac__env("PATH");
    if (strchr(name, '/')) return snprintf(path, size, "%s", name) < (int)size && is_program(path);
    for (const char *at = folders && *folders ? folders : "/usr/bin:/bin"; *at;) {
        const size_t n = strcspn(at, ":");
        if (*at == '/' && snprintf(path, size, "%.*s/%s", (int)n, at, name) < (int)size && is_program(path))
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

static bool split(const char *command, words *w) {
    if (snprintf(w->text, sizeof w->text, "%s", command) >= (int)sizeof w->text) return false;
    w->n = 0;
    if (strchr(command, '/') && is_program(command)) {
        w->at[w->n++] = 0;
        return true;
    }
    char *rest = NULL;
    for (char *word = strtok_r(w->text, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        if (w->n == MAX_WORDS) return false;
        w->at[w->n++] = (size_t)(word - w->text);
    }
    return w->n > 0;
}

/* The program by its path, and the words that come before any others. */
static size_t put_command(const compiler *c, const char **argv) {
    for (size_t i = 0; i < c->words.n; i++) argv[i] = c->words.text + c->words.at[i];
    argv[0] = c->path;
    return c->words.n;
}

static int ask_for(const compiler *c, const char *what, char *answer, size_t size) {
    const char *argv[MAX_WORDS + 2];
    const size_t n = put_command(c, argv);
    argv[n] = what;
    argv[n + 1] = NULL;
    return fac__child_run(argv, QUESTION_SECONDS, answer, size);
}

/* Version and target, as the compiler itself says them. */
static bool ask(compiler *c) {
    char version[1024], target[256], real[PATH];
    if (ask_for(c, "--version", version, sizeof version) != 0) return false;
    if (ask_for(c, "-dumpmachine", target, sizeof target) != 0) target[0] = 0;
    if (!realpath(c->path, real)) return false;
    snprintf(c->identity, sizeof c->identity, "%s\n%s\n%s\n%s\n%s\n%s", c->command, c->path, real, c->file, version,
             target);
    return true;
}

/* The last answer is kept, for as long as the file is the same. */
static fac_status find_compiler(const char *what, compiler *out) {
    static fac_mutex lock = FAC_MUTEX_INIT; /* of known */
    static compiler known;
    FAC_CHECK(fac__env_trusted(), FAC_ERR_UNSUPPORTED,
              "%s: nothing is compiled in a process that has more rights than its user", what);
    bool found = split(compiler_name(), &out->words) &&
                 find_program(out->words.text + out->words.at[0], out->path, sizeof out->path);
    if (found) {
        snprintf(out->command, sizeof out->command, "%s", compiler_name());
        fac__jit_file_identity(out->path, out->file, sizeof out->file);
        fac__mutex_lock(&lock);
        if (strcmp(known.command, out->command) == 0 && strcmp(known.path, out->path) == 0 &&
            strcmp(known.file, out->file) == 0)
            *out = known;
        else if ((found = ask(out)))
            known = *out;
        fac__mutex_unlock(&lock);
    }
    FAC_CHECK(found, FAC_ERR_UNSUPPORTED,
              "%s: it is compiled by the system's C compiler, and %s cannot be run: install one, or name it in CC",
              what, compiler_name());
    return FAC_OK;
}

/* ---- the folder ------------------------------------------------------------------------------------------------------------- */

static int remove_entry(const char *path, const struct stat *s, int type, struct FTW *where) {
    (void)s, (void)type, (void)where;
    return remove(path);
}

static void remove_folder(const char *folder) { nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS); }

static fac_status make_folder(const char *what, char *folder, size_t size) {
    const char *root = fac__env("TMPDIR");
    const int n = snprintf(folder, size, "%s/facula-XXXXXX", root && *root == '/' ? root : "/tmp");
    FAC_CHECK(n > 0 && (size_t)n < size && mkdtemp(folder), FAC_ERR_IO, "%s: no folder can be made at %s: %s", what,
              folder, strerror(errno));
    return FAC_OK;
}

/* A header's name may lead through folders, but not out of ours. */
static fac_status write_text(const char *folder, const char *name, const char *text) {
    char path[PATH];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    FAC_CHECK(n > 0 && (size_t)n < sizeof path && !strstr(name, ".."), FAC_ERR_ARGUMENT,
              "'%.200s' cannot be the name of a header", name);
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        const int made = mkdir(path, 0700);
        *slash = '/';
        FAC_CHECK(made == 0 || errno == EEXIST, FAC_ERR_IO, "%s: %s", path, strerror(errno));
    }
    FILE *f = fopen(path, "we");
    FAC_CHECK(f, FAC_ERR_IO, "%s: %s", path, strerror(errno));
    const bool written = fputs(text, f) >= 0;
    FAC_CHECK((fclose(f) == 0) & written, FAC_ERR_IO, "cannot write '%s': %s", path, strerror(errno));
    return FAC_OK;
}

static fac_status write_texts(const char *folder, const fac_jit_source *s) {
    for (size_t i = 0; i < s->n_headers; i++) FAC_TRY(write_text(folder, s->headers[i].name, s->headers[i].text));
    return write_text(folder, "source.c", s->text);
}

/* ---- the run ------------------------------------------------------------------------------------------------------------------ */

static fac_status report(const fac_jit_source *s, const char *compiler, int status, const char *messages) {
    FAC_CHECK(status != FAC_CHILD_NOT_RUN && status != 127, FAC_ERR_UNSUPPORTED, "%s: %s cannot be run", s->name,
              compiler);
    FAC_CHECK(status != FAC_CHILD_TOO_LONG, FAC_ERR_UNSUPPORTED,
              "%s: %s did not end within %.0f seconds (FACULA_COMPILE_SECONDS) and was killed", s->name, compiler,
              time_limit());
    FAC_CHECK(status != FAC_CHILD_KILLED, FAC_ERR_UNSUPPORTED, "%s: %s was killed:\n%s", s->name, compiler, messages);
    return FAC_FAIL(FAC_ERR_FORMAT, "%s does not compile:\n%s", s->name, messages);
}

static fac_status run_compiler(const fac_jit_source *s, const compiler *c, const char *folder, const char *out) {
    char source[PATH + 16], include[PATH + 16], messages[MESSAGES];
    const char *argv[MAX_WORDS + MAX_OPTIONS + MAX_INPUTS + 24];
    size_t n = put_command(c, argv);
    snprintf(source, sizeof source, "%s/source.c", folder);
    snprintf(include, sizeof include, "-I%s", folder);
    const char *const fixed[] = {"-std=gnu17", "-O2", "-g", "-w", "-fPIC", "-shared", "-ffp-contract=off", include};
    for (size_t i = 0; i < FAC_COUNT(fixed); i++) argv[n++] = fixed[i];
    for (size_t i = 0; i < s->n_options; i++) argv[n++] = s->options[i];
    argv[n++] = "-o";
    argv[n++] = out;
    argv[n++] = source;
    for (size_t i = 0; i < s->n_inputs; i++) argv[n++] = s->inputs[i];
    argv[n++] = "-lm";
    argv[n] = NULL;
    const int status = fac__child_run(argv, time_limit(), messages, sizeof messages);
    return status ? report(s, c->command, status, messages) : FAC_OK;
}

static fac_status read_result(const fac_jit_source *s, const char *path, char **out, size_t *out_bytes) {
    FILE *f = fopen(path, "rbe");
    struct stat info;
    FAC_CHECK(f, FAC_ERR_FORMAT, "%s: the compiler ended well, but made nothing", s->name);
    const bool known = fstat(fileno(f), &info) == 0 && info.st_size > 0 && info.st_size <= FAC_JIT_ENTRY_MAX;
    char *data = known ? fac__alloc((size_t)info.st_size) : NULL;
    const bool whole = data && fread(data, 1, (size_t)info.st_size, f) == (size_t)info.st_size;
    fclose(f);
    if (whole) {
        *out = data;
        *out_bytes = (size_t)info.st_size;
        return FAC_OK;
    }
    fac__free(data);
    if (known && !data) return fac_error();
    return FAC_FAIL(FAC_ERR_IO, "%s: what the compiler made is not to be read, or larger than %d bytes", s->name,
                    FAC_JIT_ENTRY_MAX);
}

static fac_status compile(const fac_jit_source *s, const compiler *c, char **out, size_t *out_bytes) {
    char folder[PATH], made[PATH + 16];
    FAC_CHECK(s->n_options <= MAX_OPTIONS && s->n_inputs <= MAX_INPUTS, FAC_ERR_ARGUMENT,
              "%s: more than %d options or %d inputs", s->name, MAX_OPTIONS, MAX_INPUTS);
    FAC_TRY(make_folder(s->name, folder, sizeof folder));
    snprintf(made, sizeof made, "%s/made.so", folder);
    fac_status st = write_texts(folder, s);
    if (st == FAC_OK) st = run_compiler(s, c, folder, made);
    if (st == FAC_OK) st = read_result(s, made, out, out_bytes);
    remove_folder(folder);
    return st;
}

/* ---- what is loaded ------------------------------------------------------------------------------------------------------------ */

/* Libraries stay, and are found again by their keys. A process that compiles more than fit loads the rest anew each time. */
static struct {
    fac_mutex lock; /* of all below */
    size_t n;
    struct {
        unsigned char key[FAC_SHA256_BYTES];
        void *library;
    } v[256];
} loaded = {.lock = FAC_MUTEX_INIT};

static void *find_loaded(const fac_jit_key *key) {
    for (size_t i = 0; i < loaded.n; i++)
        if (memcmp(loaded.v[i].key, key->bytes, sizeof key->bytes) == 0) return loaded.v[i].library;
    return NULL;
}

/* Of two that were loaded at the same time, the first stays. */
static void *keep_loaded(const fac_jit_key *key, void *library) {
    void *first = find_loaded(key);
    if (first) {
        dlclose(library);
        return first;
    }
    if (loaded.n < FAC_COUNT(loaded.v)) {
        memcpy(loaded.v[loaded.n].key, key->bytes, sizeof key->bytes);
        loaded.v[loaded.n++].library = library;
    }
    return library;
}

static fac_status load_new(const fac_jit_source *s, const compiler *c, const fac_jit_key *key, void **out_library) {
    char *data = NULL;
    size_t bytes = 0;
    const int cache = fac__jit_cache_open();
    fac_status st = fac__jit_cache_read(cache, key, ".so", &data, &bytes);
    if (st == FAC_OK && !data) {
        st = compile(s, c, &data, &bytes);
        if (st == FAC_OK) fac__jit_cache_write(cache, key, ".so", data, bytes);
    }
    if (cache >= 0) close(cache);
    if (st == FAC_OK) st = fac__jit_load(data, bytes, s->name, out_library);
    fac__free(data);
    return st;
}

fac_status fac__jit_compile_host(const fac_jit_source *source, void **out_library) {
    compiler c;
    fac_jit_key key;
    FAC_TRY(find_compiler(source->name, &c));
    fac__jit_key_of(source, c.identity, &key);
    fac__mutex_lock(&loaded.lock);
    *out_library = find_loaded(&key);
    fac__mutex_unlock(&loaded.lock);
    if (*out_library) return FAC_OK;
    FAC_TRY(load_new(source, &c, &key, out_library));
    fac__mutex_lock(&loaded.lock);
    *out_library = keep_loaded(&key, *out_library);
    fac__mutex_unlock(&loaded.lock);
    return FAC_OK;
}
