/* The thread's error record: first error wins, and nothing here needs memory to report that there is none. */
#include "core/start.h"
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

static fac_status fail(const char *file, int line, fac_status code, const char *format, va_list args) {
    fac_thread *th = fac__thread();
    if (th->error != FAC_OK) return th->error;
    th->error = code == FAC_OK ? FAC_ERR_INTERNAL : code;
    th->error_file = file;
    th->error_line = line;
    th->error_op[0] = th->error_arg[0] = '\0';
    set_message(th, format, args);
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

fac_status fac__error_context(const char *op, const char *argument) {
    fac_thread *th = fac__thread();
    if (th->error == FAC_OK || th->error_op[0]) return th->error;
    char prefix[sizeof th->error_op + sizeof th->error_arg + 16];
    snprintf(th->error_op, sizeof th->error_op, "%s", op);
    if (argument) snprintf(th->error_arg, sizeof th->error_arg, "%s", argument);
    snprintf(prefix, sizeof prefix, argument ? "%s, argument %s: " : "%s: ", th->error_op, th->error_arg);
    prepend(th, prefix);
    return th->error;
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
    const fac_thread *th = fac__thread_if_any();
    fac_error_info e = {FAC_OK, "", "", "", "", 0};
    if (th && th->error != FAC_OK)
        e = (fac_error_info){th->error, th->error_op, th->error_arg, th->error_message, th->error_file, th->error_line};
    if (out_info) *out_info = e;
    return e.code;
}

void fac_error_clear(void) {
    fac_thread *th = fac__tls;
    fac__thread_forgive();
    if (!th || th->error == FAC_OK) return;
    free_message(th);
    th->error = FAC_OK;
    th->error_op[0] = th->error_arg[0] = th->error_text[0] = '\0';
    th->error_file = "";
    th->error_line = 0;
}

int fac_report(FILE *stream) {
    fac_error_info e;
    if (fac_error_get(&e) == FAC_OK) return 0;
    fprintf(stream, "facula: %s error: %s", fac_status_name(e.code), e.message);
    if (e.line) fprintf(stream, " (%s:%d)", e.file, e.line);
    fputc('\n', stream);
    return 1;
}

/* ---- moving it ------------------------------------------------------------------------------------------------- */

struct fac_saved_error {
    fac_status code;
    int line;
    const char *file;
    char op[64], arg[64];
    char message[];
};

/* Stands for any error that could not be saved because memory was out. */
static fac_saved_error no_memory = {.code = FAC_ERR_MEMORY, .file = ""};

fac_saved_error *fac__error_take(void) {
    const fac_thread *th = fac__thread_if_any();
    if (!th || th->error == FAC_OK) return NULL;
    size_t n = strlen(th->error_message) + 1;
    fac_saved_error *e = fac__alloc(sizeof *e + n);
    if (e) {
        e->code = th->error;
        e->line = th->error_line;
        e->file = th->error_file;
        memcpy(e->op, th->error_op, sizeof e->op);
        memcpy(e->arg, th->error_arg, sizeof e->arg);
        memcpy(e->message, th->error_message, n);
    }
    fac_error_clear();
    return e ? e : &no_memory;
}

void fac__error_restore(fac_saved_error *e) {
    if (!e) return;
    const char *text = e == &no_memory ? "out of memory while an error was being reported" : e->message;
    fac_thread *th = fac__thread();
    if (th->error == FAC_OK) {
        fac__fail(e->file, e->line, e->code, "%s", text);
        memcpy(th->error_op, e->op, sizeof e->op);
        memcpy(th->error_arg, e->arg, sizeof e->arg);
    }
    fac__error_drop(e);
}

void fac__error_drop(fac_saved_error *e) {
    if (e != &no_memory) fac__free(e);
}
