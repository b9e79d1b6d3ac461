/* What the subcommands share. Exit codes: 0 done, 1 failed (or nothing found), 2 wrong usage. */
#ifndef FACULA_CLI_H
#define FACULA_CLI_H

#include <facula/facula.h>
#include <signal.h>
#include <stdio.h>

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* A subcommand: one row of the table in main.c. */
typedef struct cli_command {
    const char *name;
    const char *summary; /* one line, for `facula --help` */
    const char *help;    /* the whole text of `facula NAME --help` */
    /* argv[0] is the command's name. `--help` has been dealt with. */
    int (*run)(const struct cli_command *self, int argc, char **argv);
} cli_command;

extern const cli_command cli_info, cli_ops, cli_dispatch, cli_inspect, cli_train, cli_generate, cli_predict;

/* How the program was called, for commands that the user is told. */
extern const char *cli_program;

/* Prints "facula NAME: message" and where to find help to stderr; returns CLI_USAGE. */
int cli_usage_error(const cli_command *c, const char *format, ...) FAC_PRINTF(2, 3);
/* Prints Facula's pending error to stderr and clears it; returns CLI_FAILED. */
int cli_failed(const cli_command *c);

/* Walks over arguments: options first or between, in the forms `--name value` and `--name=value`. */
typedef struct cli_args {
    const cli_command *command;
    int argc, at;
    char **argv;
    bool only_operands; /* after `--` */
    const char *value;  /* behind the '=' of the present option; NULL if there is none */
    char option[64];    /* the present option without its value */
} cli_args;
/* The next argument, NULL at the end. Options are returned without their value; `*is_option` tells them from operands. */
const char *cli_next(cli_args *a, bool *is_option);
/* The present option's value; NULL, with a message printed, if there is none. */
const char *cli_value(cli_args *a, const char *option);
/* For options that are only there or not: false, with a message printed, if the present one was given a value. */
bool cli_no_value(const cli_args *a, const char *option);

/* Set by the first Ctrl-C (SIGINT) or SIGTERM after cli_catch_stop(true), for long work to end in good order; a second one ends
   the program at once. */
extern volatile sig_atomic_t cli_stop;
void cli_catch_stop(bool on);

/* Writes text with control characters escaped, so that a file's names cannot drive the terminal. Returns its width, counting
   characters as one column each. */
int cli_put_text(FILE *stream, const char *text);
/* The same without writing. */
int cli_text_width(const char *text);
/* The word for n things: printf("%lld %s", n, cli_word(n, "file", "files")). */
const char *cli_word(int64_t n, const char *one, const char *many);
/* "12 B", "3.4 MiB" into buf; returns buf. */
char *cli_bytes(int64_t bytes, char *buf, size_t size);

#endif
