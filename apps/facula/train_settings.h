/* The settings of a training: their table, what they are unless said otherwise, and how a checkpoint and a file have them. */
#ifndef FACULA_APP_TRAIN_SETTINGS_H
#define FACULA_APP_TRAIN_SETTINGS_H

#include "config.h"
#include "train.h"

/* All options of `facula train`, but --config and --print-config, which are not settings. */
extern const setting TRAIN_SETTINGS[];
extern const size_t TRAIN_SETTINGS_N;
extern const setting TRAIN_CONFIG_SETTING, TRAIN_PRINT_SETTING;

/* Those that do not depend on what is trained. */
train_options train_defaults(const cli_command *command);
/* What is asked to be trained: "text", "images" or "csv"; NULL where the options do not say. */
const char *train_kind_of(const train_options *o);
/* Gives the others the value that they have for this kind. */
void train_fill_defaults(train_options *o);
/* Whether the settings fit together; an exit code, with a message printed unless it is CLI_OK. */
int train_check(const train_options *o);
/* Writes the settings to the notes, so that --resume needs no others. */
fac_status train_save_settings(notes *n, const train_options *o, const char *kind);
/* The run's own settings, from the checkpoint in o->out. Text stays in the notes, and `paths`, which the caller frees, gets the array
   of the paths: both must outlive the options. */
fac_status train_load_settings(train_options *o, notes *n, const char ***paths);
/* Whether the model is made by the same settings as the saved ones; an exit code as above. */
int train_check_lasting(const train_options *o, const train_options *saved);
/* All settings as a file for --config, but for --resume. */
void train_print_settings(FILE *f, const train_options *o);

#endif
