/* Options as a table: how each is called, where its value is kept, and what it may be. */
#ifndef FACULA_APP_SETTINGS_H
#define FACULA_APP_SETTINGS_H

#include "cli.h"
#include <stddef.h>

typedef enum setting_kind { SETTING_INT, SETTING_DOUBLE, SETTING_TEXT, SETTING_FLAG, SETTING_CHOICE } setting_kind;

typedef struct setting {
    const char *option; /* "--steps" */
    const char *key;    /* its name in a checkpoint; NULL: not saved */
    size_t offset;      /* in the struct of options: an int64_t, double, const char * or bool */
    setting_kind kind;
    double least, most;  /* of numbers; one below the least was not given */
    bool lasting;        /* a run that goes on cannot have another one */
    const char *choices; /* what a choice may be: "f32|bf16" */
} setting;

/* Puts the value that `text` says into the options; false if it is not one of the setting's kind and range. Text is borrowed;
   a flag is off for "0". */
bool setting_set(void *options, const setting *s, const char *text);
/* Whether there is a value: a number that is not below the least, a text, a flag. */
bool setting_given(const void *options, const setting *s);
/* The value as text into buf, by which setting_set finds it again; returns buf. */
char *setting_text(const void *options, const setting *s, char *buf, size_t size);
/* What it takes, as words into buf: "a number from 0 to 1"; returns buf. */
char *setting_range(const setting *s, char *buf, size_t size);
/* Takes the present option `name` of `a` from the table. Returns an exit code, with a message printed unless it is CLI_OK. */
int setting_parse(void *options, const setting *table, size_t n, cli_args *a, const char *name);

#endif
