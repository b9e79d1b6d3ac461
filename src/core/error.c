/* The thread's error record: first error wins, and nothing here needs memory to report that there is none. */
#include "base/mutex.h"
#include "core/thread.h"
#include <signal.h>
#include <stdlib.h>

static const char *const status_names[] = {
    "OK",        "ARGUMENT",  "SHAPE",    "DTYPE", "DEVICE", "INDEX",       "OVERFLOW",    "MEMORY",  "STATE",
    "NOT_FOUND", "NO_KERNEL", "AUTOGRAD", "IO",    "FORMAT", "INTERRUPTED", "UNSUPPORTED", "INTERNAL"};

const char *fac_status_name(fac_status code) {
    return (size_t)code < FAC_COUNT(status_names) ? status_names[code] : "UNKNOWN";
}

static void free_message(fac_thread *th) {
    if (th->error_message != th->error_text) fac__free(th->error_message);
    th->error_message = th->error_text;
}

/* Formats into the record's own buffer, or the heap when that is too small and memory allows; else cut short. The
   code is set already, so a failing allocation does not replace it. */
static void set_message(fac_thread *th, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(th->error_text, sizeof th->error_text, format, args);
    th->error_message = th->error_text;
    if (n >= (int)sizeof th->error_text) {
        char *text = fac__alloc((size_t)n + 1);
        if (text) {
            vsnprintf(text, (size_t)n + 1, format, again);
            th->error_message = text;
        }
    }
    va_end(again);
}

static void set_text(fac_thread *th, const char *format, ...) {
    va_list args;
    va_start(args, format);
    set_message(th, format, args);
    va_end(args);
}

/* Looked at once: FACULA_BREAK_ON_ERROR=1 stops the program in a debugger, or ends it, where an error arises. */
static void break_if_asked(void) {
    static atomic_int asked = -1;
    int a = atomic_load_explicit(&asked, memory_order_relaxed);
    if (a < 0)
        atomic_store_explicit(&asked, a = (int)fac__env_int("FACULA_BREAK_ON_ERROR", 0, 1, 0), memory_order_relaxed);
    if (a) raise(SIGTRAP);
}

static fac_status fail(const char *file, int line, fac_status code, const char *format, va_list args) {
    fac_thread *th = fac__thread();
    if (th->error != FAC_OK) return th->error;
    th->error = code == FAC_OK ? FAC_ERR_INTERNAL : code;
    th->facts = (fac_error_facts){.source_file = file, .source_line = line};
    set_message(th, format, args);
    break_if_asked();
    return th->error;
}

fac_status fac__fail(const char *file, int line, fac_status code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fac_status st = fail(file, line, code, format, args);
    va_end(args);
    return st;
}

fac_status fac_error_set(fac_status code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fac__inert(); /* an error that is pending already did not arise in this call */
    fac_status st = fail("", 0, code, format ? format : "no message was given with this error", args);
    va_end(args);
    return st;
}

fac_status fac__bug(const char *file, int line, const char *what) {
#ifdef FAC_DEBUG
    fprintf(stderr, "facula: bug at %s:%d: %s\n", file, line, what);
    abort();
#else
    return fac__fail(file, line, FAC_ERR_INTERNAL, "a bug in Facula (please report it): %s does not hold", what);
#endif
}

/* Puts `prefix` before the message; cut short when memory is out. */
static void prepend(fac_thread *th, const char *prefix) {
    size_t a = strlen(prefix), b = strlen(th->error_message);
    char *to = th->error_text;
    if (a + b + 1 > sizeof th->error_text) {
        char *grown = fac__alloc(a + b + 1);
        if (grown)
            to = grown;
        else
            b = sizeof th->error_text - a - 1;
    }
    memmove(to + a, th->error_message, b);
    memcpy(to, prefix, a);
    to[a + b] = '\0';
    if (to != th->error_message) free_message(th);
    th->error_message = to;
}

fac_error_facts *fac__error_facts(void) {
    fac_thread *th = fac__tls;
    return th && th->error != FAC_OK ? &th->facts : NULL;
}

fac_status fac__error_context(const char *op, const char *argument) {
    fac_thread *th = fac__thread();
    fac_error_facts *f = &th->facts;
    if (th->error == FAC_OK || f->op[0]) return th->error;
    char prefix[sizeof f->op + sizeof f->arg + 16];
    snprintf(f->op, sizeof f->op, "%s", op);
    if (argument) snprintf(f->arg, sizeof f->arg, "%s", argument);
    snprintf(prefix, sizeof prefix, argument ? "%s, argument %s: " : "%s: ", f->op, f->arg);
    prepend(th, prefix);
    return th->error;
}

fac_status fac__error_prefix(const char *name) {
    fac_thread *th = fac__tls;
    if (!th || th->error == FAC_OK) return fac_error();
    char prefix[128];
    snprintf(prefix, sizeof prefix, "%s: ", name);
    prepend(th, prefix);
    return th->error;
}

void fac__inert(void) {
    fac_error_facts *f = fac__error_facts();
    if (f && !f->line && !fac__tls->callbacks) f->line = -1;
}

fac_status fac_error(void) {
    const fac_thread *th = fac__thread_if_any();
    return th ? th->error : FAC_OK;
}

const char *fac_error_message(void) {
    const fac_thread *th = fac__thread_if_any();
    return th && th->error != FAC_OK ? th->error_message : "";
}

fac_status fac_error_get(fac_error_info *out_info) {
    static const fac_error_info none = {FAC_OK, 0, 0, "", "", "", "", "", "", "", ""};
    fac_thread *th = fac__thread_if_any();
    fac_error_info e = none;
    if (th && th->error != FAC_OK) {
        const fac_error_facts *f = &th->facts;
        e = (fac_error_info){.code = th->error,
                             .line = f->line > 0 ? f->line : 0,
                             .source_line = f->source_line,
                             .file = f->file,
                             .source_file = f->source_file,
                             .message = th->error_message,
                             .op = f->op,
                             .argument = f->arg,
                             .operands = f->operands,
                             .module = f->path,
                             .kind = f->kind};
    }
    if (out_info) *out_info = e;
    return e.code;
}

void fac_error_clear(void) {
    fac_thread *th = fac__tls;
    fac__thread_forgive();
    if (!th || th->error == FAC_OK) return;
    free_message(th);
    th->error = FAC_OK;
    th->error_text[0] = '\0';
    th->facts = (fac_error_facts){.source_file = ""};
}

int fac_report(FILE *stream) {
    fac_error_info e;
    if (fac_error_get(&e) == FAC_OK) return 0;
    if (e.line) fprintf(stream, "%s:%d: ", e.file, e.line);
    fprintf(stream, "facula: %s error: %s\n", fac_status_name(e.code), e.message);
    if (e.module[0])
        fprintf(stream, "    in module %s (%s)\n", e.module, e.kind);
    else if (e.kind[0])
        fprintf(stream, "    in a module of kind %s\n", e.kind);
    if (e.operands[0]) fprintf(stream, "    given %s\n", e.operands);
    if (e.source_line && fac__env_int("FACULA_ERROR_SOURCE", 0, 1, 0))
        fprintf(stream, "    raised at %s:%d of the library\n", e.source_file, e.source_line);
    return 1;
}

/* ---- telling where and to whom ----------------------------------------------------------------------------------- */

static fac_mutex lock = FAC_MUTEX_INIT; /* of the handler and its context; not held while it runs */
static fac_error_handler handler;
static void *handler_context;

void fac_set_error_handler(fac_error_handler fn, void *context) {
    fac__mutex_lock(&lock);
    handler = fn;
    handler_context = context;
    fac__mutex_unlock(&lock);
}

static void call_handler(void) {
    fac__mutex_lock(&lock);
    const fac_error_handler fn = handler;
    void *context = handler_context;
    fac__mutex_unlock(&lock);
    fac_error_info e;
    if (fn && fac_error_get(&e) != FAC_OK) fn(context, &e);
}

/* The end of a path tells more than its beginning. */
static void copy_path(char *to, size_t size, const char *path) {
    const size_t n = strlen(path);
    if (n < size)
        memcpy(to, path, n + 1);
    else
        snprintf(to, size, "...%s", path + (n - (size - 4)));
}

void fac_error_at(const char *file, int line) {
    fac_error_facts *f = fac__error_facts();
    if (!f) return;
    if (!f->line) {
        f->line = file && line > 0 ? line : -1;
        if (f->line > 0) copy_path(f->file, sizeof f->file, file);
    }
    if (f->told || fac__tls->callbacks) return;
    f->told = true;
    call_handler();
}

/* ---- moving it ------------------------------------------------------------------------------------------------- */

struct fac_saved_error {
    fac_status code;
    fac_error_facts facts;
    char message[];
};

/* Stands for any error that could not be saved because memory was out. */
static fac_saved_error no_memory = {.code = FAC_ERR_MEMORY, .facts = {.source_file = ""}};

fac_saved_error *fac__error_take(void) {
    const fac_thread *th = fac__thread_if_any();
    if (!th || th->error == FAC_OK) return NULL;
    size_t n = strlen(th->error_message) + 1;
    fac_saved_error *e = fac__alloc(sizeof *e + n);
    if (e) {
        e->code = th->error;
        e->facts = th->facts;
        memcpy(e->message, th->error_message, n);
    }
    fac_error_clear();
    return e ? e : &no_memory;
}

/* Not by way of fac__fail, since the error has arisen before. */
void fac__error_restore(fac_saved_error *e) {
    if (!e) return;
    fac_thread *th = fac__thread();
    if (th->error == FAC_OK) {
        th->error = e->code;
        set_text(th, "%s", e == &no_memory ? "out of memory while an error was being reported" : e->message);
        th->facts = e->facts;
    }
    fac__error_drop(e);
}

void fac__error_drop(fac_saved_error *e) {
    if (e != &no_memory) fac__free(e);
}
