/* Warnings: sentences for the user, through a handler that can be replaced. */
#include "base/base.h"
#include "base/mutex.h"

static fac_mutex lock = FAC_MUTEX_INIT; /* of the handler and its context */
static fac_warning_handler handler;
static void *handler_context;

void fac_set_warning_handler(fac_warning_handler fn, void *context) {
    fac__mutex_lock(&lock);
    handler = fn;
    handler_context = context;
    fac__mutex_unlock(&lock);
}

void fac__warn(const char *format, ...) {
    char text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    fac__mutex_lock(&lock);
    fac_warning_handler fn = handler;
    void *context = handler_context;
    fac__mutex_unlock(&lock);
    if (fn)
        fn(context, text);
    else
        fprintf(stderr, "facula: warning: %s\n", text);
}
