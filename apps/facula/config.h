/* A configuration file in YAML: one line for each setting, "steps: 500", and lists for what has several values. Its keys are the
   names of the options without the dashes before them. */
#ifndef FACULA_APP_CONFIG_H
#define FACULA_APP_CONFIG_H

#include "settings.h"

typedef struct config {
    char **texts; /* owned: the values, which options point to */
    size_t n_texts;
    const char **paths; /* owned: what stands under "paths", borrowed from the texts */
    size_t n_paths;
} config;

/* Puts what the file says into the options. What it holds must outlive them.
   errors: IO; ARGUMENT naming file, line and key for one that is unknown or given twice, and for a value that is out of range;
           FORMAT naming file and line for what is no YAML; UNSUPPORTED in a program built without libyaml */
fac_status config_read(config *c, const char *path, const setting *table, size_t n, void *options);
void config_free(config *c);
/* Writes all settings that have a value, but those that are left out of it, so that config_read finds them again. */
void config_print(FILE *f, const setting *table, size_t n, const void *options, const char *const *paths,
                  size_t n_paths);

#endif
