/* Kernels for simulated devices, compiled by the system's C compiler (`cc`, or what CC names) into a shared object that is
   linked with the simulated driver. Sources are written to a folder of their own, which is removed afterwards. */
#define _GNU_SOURCE 1
#include "backend/cuda/kernels/compile.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { PATH = 4096, MAX_OPTIONS = 32 };

static const char *compiler_name(void) {
    const char *name = getenv("CC");
    return name && *name ? name : "cc";
}

/* ---- the folder ------------------------------------------------------------------------------------------------------------- */

static fac_status write_file(const char *folder, const char *name, const char *header, const char *text,
                             const char *footer) {
    char path[PATH];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    FAC_CHECK(n > 0 && (size_t)n < sizeof path, FAC_ERR_ARGUMENT, "%s: the name is too long", name);
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int made = mkdir(path, 0700);
        *slash = '/';
        FAC_CHECK(made == 0 || errno == EEXIST, FAC_ERR_IO, "%s: %s", path, strerror(errno));
    }
    FILE *f = fopen(path, "w");
    FAC_CHECK(f, FAC_ERR_IO, "%s: %s", path, strerror(errno));
    bool written = fputs(header, f) >= 0 && fputs(text, f) >= 0 && fputs(footer, f) >= 0;
    written = fclose(f) == 0 && written;
    FAC_CHECK(written, FAC_ERR_IO, "%s: %s", path, strerror(errno));
    return FAC_OK;
}

static void remove_file(const char *folder, const char *name) {
    char path[PATH];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return;
    unlink(path);
    for (char *slash = strrchr(path, '/'); slash && slash > path + strlen(folder); slash = strrchr(path, '/')) {
        *slash = 0;
        rmdir(path); /* fails while it holds more */
    }
}

static void remove_folder(const char *folder, const fac_cuda_source *s) {
    for (size_t i = 0; i < fac__cuda_n_dialect; i++) remove_file(folder, fac__cuda_dialect[i].name);
    for (size_t i = 0; i < s->n_headers; i++) remove_file(folder, s->headers[i].name);
    remove_file(folder, "kernels.c");
    remove_file(folder, "messages");
    rmdir(folder);
}

static fac_status write_folder(const char *folder, const fac_cuda_source *s) {
    for (size_t i = 0; i < fac__cuda_n_dialect; i++)
        FAC_TRY(write_file(folder, fac__cuda_dialect[i].name, "", fac__cuda_dialect[i].text, ""));
    for (size_t i = 0; i < s->n_headers; i++)
        FAC_TRY(write_file(folder, s->headers[i].name, "", s->headers[i].text, ""));
    /* Messages and assertions name the source as its author does. */
    char line[256] = "";
    if (!strpbrk(s->name, "\"\\\n")) snprintf(line, sizeof line, "#line 1 \"%.200s\"\n", s->name);
    return write_file(folder, "kernels.c", line, s->text, "\n#include \"kernel.h\"\nKERNEL_IMAGE(facula_user_image)\n");
}

/* ---- the compiler -------------------------------------------------------------------------------------------------------------- */

/* Runs a program with its output in a file; its exit status, or -1 if it could not be run. */
static int run(char *const *argv, const char *messages) {
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status = -1;
    if (posix_spawn_file_actions_init(&actions) != 0) return -1;
    posix_spawn_file_actions_addopen(&actions, 1, messages, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    int failed = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed) return -1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static fac_status report(const fac_cuda_source *s, int status, const char *messages) {
    char *text = NULL;
    size_t bytes = 0;
    FAC_CHECK(
        status != -1 && status != 127, FAC_ERR_UNSUPPORTED,
        "%s: kernels for simulated devices are compiled by the system's C compiler, and %s cannot be run: install one, "
        "or name it in CC",
        s->name, compiler_name());
    FAC_TRY(fac__compile_cache_read(messages, &text, &bytes));
    fac_status st = FAC_FAIL(FAC_ERR_FORMAT, "%s does not compile:\n%.*s", s->name, bytes < 4000 ? (int)bytes : 4000,
                             text ? text : "");
    fac__free(text);
    return st;
}

static fac_status compile_in(const char *folder, const fac_cuda_source *s, const char *simulator, const char *out) {
    char source[PATH + 32], messages[PATH + 32], include[PATH + 32];
    const char *argv[MAX_OPTIONS + 24];
    size_t n = 0;
    FAC_CHECK(s->n_options <= MAX_OPTIONS, FAC_ERR_ARGUMENT, "%s: more than %d options", s->name, (int)MAX_OPTIONS);
    snprintf(source, sizeof source, "%s/kernels.c", folder);
    snprintf(messages, sizeof messages, "%s/messages", folder);
    snprintf(include, sizeof include, "-I%s", folder);
    const char *const fixed[] = {compiler_name(), "-std=gnu17",        "-O2",  "-g", "-w", "-fPIC",
                                 "-shared",       "-ffp-contract=off", include};
    for (size_t i = 0; i < FAC_COUNT(fixed); i++) argv[n++] = fixed[i];
    for (size_t i = 0; i < s->n_options; i++) argv[n++] = s->options[i];
    const char *const last[] = {"-o", out, source, simulator, "-lm", NULL};
    for (size_t i = 0; i < FAC_COUNT(last); i++) argv[n++] = last[i];
    FAC_TRY(write_folder(folder, s));
    int status = run((char *const *)(uintptr_t)argv, messages);
    return status ? report(s, status, messages) : FAC_OK;
}

/* Beside where it will lie, so that the last step is a rename. */
static fac_status compile(const fac_cuda_source *s, const char *simulator, const char *path) {
    char folder[PATH], made[PATH + 16];
    int n = snprintf(folder, sizeof folder, "%s.XXXXXX", path);
    FAC_CHECK(n > 0 && (size_t)n < sizeof folder && mkdtemp(folder), FAC_ERR_IO,
              "%s: no folder can be made beside it: %s", path, strerror(errno));
    snprintf(made, sizeof made, "%s.so", folder);
    fac_status st = compile_in(folder, s, simulator, made);
    remove_folder(folder, s);
    if (st == FAC_OK && rename(made, path) != 0) st = FAC_FAIL(FAC_ERR_IO, "%s: %s", path, strerror(errno));
    if (st != FAC_OK) unlink(made);
    return st;
}

static fac_status load(const fac_cuda_source *s, const char *simulator, const char *path, void **out_image) {
    if (access(path, R_OK) != 0) FAC_TRY(compile(s, simulator, path));
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    FAC_CHECK(library, FAC_ERR_IO, "%s: %s", s->name, dlerror());
    *out_image = dlsym(library, "facula_user_image");
    FAC_CHECK(*out_image, FAC_ERR_FORMAT, "%s: %s", s->name, dlerror());
    return FAC_OK;
}

/* Where nothing can be kept: through a folder that nobody else can write to, and that is gone afterwards. */
static fac_status load_uncached(const fac_cuda_source *s, const char *simulator, void **out_image) {
    char folder[] = "/tmp/facula-XXXXXX", path[sizeof folder + 16];
    FAC_CHECK(mkdtemp(folder), FAC_ERR_IO, "%s: no folder can be made in /tmp: %s", s->name, strerror(errno));
    snprintf(path, sizeof path, "%s/image.so", folder);
    fac_status st = load(s, simulator, path, out_image);
    unlink(path);
    rmdir(folder);
    return st;
}

fac_status fac__host_compile(const fac_cuda_source *source, const char *simulator, void **out_image) {
    char compiler[2 * PATH], key[33], path[PATH];
    *out_image = NULL;
    snprintf(compiler, sizeof compiler, "%s %s", compiler_name(), simulator);
    fac__compile_key(source, compiler, key);
    if (!fac__compile_cache_path(key, ".so", path, sizeof path)) return load_uncached(source, simulator, out_image);
    return load(source, simulator, path, out_image);
}
