/* What the subcommands share: errors of use, options, sizes as text, the signals that stop a run. */
#include "cli.h"
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

const char *cli_program = "facula";

int cli_usage_error(const cli_command *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "facula %s: ", c->name);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\nTry 'facula %s --help'.\n", c->name);
    va_end(args);
    return CLI_USAGE;
}

int cli_failed(const cli_command *c) {
    fprintf(stderr, "facula %s: %s\n", c->name, fac_error_message());
    fac_error_clear();
    return CLI_FAILED;
}

/* ---- arguments ------------------------------------------------------------------------------------------------ */

const char *cli_next(cli_args *a, bool *is_option) {
    *is_option = false;
    if (a->at >= a->argc) return NULL;
    const char *arg = a->argv[a->at++];
    if (!a->only_operands && strcmp(arg, "--") == 0) {
        a->only_operands = true;
        return cli_next(a, is_option);
    }
    if (a->only_operands || arg[0] != '-' || !arg[1]) return arg;
    *is_option = true;
    const char *equals = strchr(arg, '=');
    a->value = equals ? equals + 1 : NULL;
    if (!equals) return arg;
    snprintf(a->option, sizeof a->option, "%.*s", (int)(equals - arg), arg);
    return a->option;
}

const char *cli_value(cli_args *a, const char *option) {
    if (a->value) return a->value;
    if (a->at < a->argc) return a->argv[a->at++];
    cli_usage_error(a->command, "%s needs a value", option);
    return NULL;
}

bool cli_no_value(const cli_args *a, const char *option) {
    if (a->value) cli_usage_error(a->command, "%s takes no value", option);
    return !a->value;
}

/* ---- stopping ------------------------------------------------------------------------------------------------- */

volatile sig_atomic_t cli_stop;

static void on_signal(int number) {
    (void)number;
    cli_stop = 1;
}

void cli_catch_stop(bool on) {
    struct sigaction a = {.sa_handler = on ? on_signal : SIG_DFL};
    sigemptyset(&a.sa_mask);
    a.sa_flags = (int)SA_RESETHAND | SA_RESTART;
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

/* ---- text ------------------------------------------------------------------------------------------------------ */

static int put(FILE *stream, const char *text) {
    int width = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        bool control = *p < 0x20 || *p == 0x7f || (p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0);
        if (control) {
            width += 4;
            if (stream) fprintf(stream, "\\x%02x", *p == 0xc2 ? p[1] : p[0]);
            p += *p == 0xc2;
        } else {
            width += (*p & 0xc0) != 0x80; /* not for the later bytes of a UTF-8 character */
            if (stream) fputc(*p, stream);
        }
    }
    return width;
}

int cli_put_text(FILE *stream, const char *text) { return put(stream, text); }
int cli_text_width(const char *text) { return put(NULL, text); }

const char *cli_word(int64_t n, const char *one, const char *many) { return n == 1 ? one : many; }

char *cli_bytes(int64_t bytes, char *buf, size_t size) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(buf, size, "%" PRId64 " B", bytes);
        return buf;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) value /= 1024;
    snprintf(buf, size, "%.1f %s", value, units[unit]);
    return buf;
}
