/* The table of a training's settings, their defaults and checks, and their way into a checkpoint and back. */
#include "train_settings.h"
#include "optimizers.h"
#include "plan.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define AT(field) offsetof(train_options, field)
#define INT(option, key, field, least, most) \
    { option, key, AT(field), SETTING_INT, least, most, false, NULL }
#define REAL(option, key, field, least, most) \
    { option, key, AT(field), SETTING_DOUBLE, least, most, false, NULL }
#define TEXT(option, key, field) \
    { option, key, AT(field), SETTING_TEXT, 0, 0, false, NULL }
#define FLAG(option, key, field) \
    { option, key, AT(field), SETTING_FLAG, 0, 0, false, NULL }
#define CHOICE(option, key, field, choices) \
    { option, key, AT(field), SETTING_CHOICE, 0, 0, false, choices }
/* The same, of the model: a run that goes on keeps them. */
#define MODEL_INT(option, key, field, least, most) \
    { option, key, AT(field), SETTING_INT, least, most, true, NULL }
#define MODEL_TEXT(option, key, field) \
    { option, key, AT(field), SETTING_TEXT, 0, 0, true, NULL }
#define MODEL_FLAG(option, key, field) \
    { option, key, AT(field), SETTING_FLAG, 0, 0, true, NULL }
#define MODEL_CHOICE(option, key, field, choices) \
    { option, key, AT(field), SETTING_CHOICE, 0, 0, true, choices }

const setting TRAIN_SETTINGS[] = {
    TEXT("--out", NULL, out),
    FLAG("--resume", NULL, resume),
    FLAG("--quiet", NULL, quiet),
    INT("--threads", NULL, threads, 1, 1024),
    TEXT("--device", "device", device),
    /* data */
    TEXT("--images", "images", images),
    TEXT("--labels", "labels", labels),
    TEXT("--test-images", "test_images", test_images),
    TEXT("--test-labels", "test_labels", test_labels),
    TEXT("--csv", "csv", csv),
    TEXT("--test-csv", "test_csv", test_csv),
    MODEL_TEXT("--target", "target", target),
    MODEL_CHOICE("--task", "task", task, "auto|regression|classification"),
    MODEL_TEXT("--drop", "drop", drop),
    MODEL_TEXT("--one-hot", "one_hot", one_hot),
    MODEL_CHOICE("--missing", "missing", missing, "refuse|mean"),
    TEXT("--delimiter", "delimiter", delimiter),
    MODEL_INT("--size", "size", size, 4, 4096),
    MODEL_INT("--channels", "channels", channels, 1, 3),
    FLAG("--augment", "augment", augment),
    /* model */
    MODEL_INT("--context", "context", context, 1, 1e6),
    MODEL_INT("--dim", "dim", dim, 1, 1e6),
    MODEL_INT("--heads", "heads", heads, 1, 1e4),
    MODEL_INT("--layers", "layers", layers, 1, 1e4),
    MODEL_INT("--vocab", "vocab_wanted", vocab, 256, 65536),
    MODEL_FLAG("--characters", "characters", characters),
    MODEL_TEXT("--hidden", "hidden", hidden),
    REAL("--dropout", "dropout", dropout, 0, 1),
    /* length */
    INT("--steps", "steps", steps, 1, 1e12),
    REAL("--epochs", "epochs", epochs, 0.001, 1e9),
    REAL("--seconds", "seconds", seconds, 1, 1e9),
    INT("--batch", "batch", batch, 1, 1e6),
    INT("--accumulate", "accumulate", accumulate, 1, 1e6),
    INT("--seed", "seed", seed, 0, 9e15),
    /* optimisation */
    MODEL_CHOICE("--optimizer", "optimizer", optimizer, OPTIMIZER_CHOICES),
    REAL("--lr", "lr", lr, 0, 1e3),
    REAL("--momentum", "momentum", momentum, 0, 1),
    REAL("--weight-decay", "weight_decay", weight_decay, 0, 1e3),
    REAL("--clip", "clip", clip, 0, 1e9),
    CHOICE("--schedule", "schedule", schedule, PLAN_CHOICES),
    INT("--warmup", "warmup", warmup, 0, 1e12),
    REAL("--lr-floor", "lr_floor", lr_floor, 0, 1e3),
    INT("--lr-every", "lr_every", lr_every, 1, 1e12),
    REAL("--lr-gamma", "lr_gamma", lr_gamma, 0, 1),
    CHOICE("--precision", "precision", precision, "f32|bf16|f16"),
    REAL("--ema", "ema", ema, 0, 1),
    INT("--patience", "patience", patience, 0, 1e9),
    REAL("--least-gain", "least_gain", least_gain, 0, 1e9),
    /* what is looked at and kept */
    INT("--eval-every", "eval_every", eval_every, 0, 1e12),
    INT("--save-every", "save_every", save_every, 0, 1e12),
    INT("--sample", "sample", sample, 0, 1e6),
    INT("--sample-every", "sample_every", sample_every, 0, 1e12),
    TEXT("--tensorboard", "tensorboard", tensorboard),
    FLAG("--no-report", "no_report", no_report),
};
const size_t TRAIN_SETTINGS_N = sizeof TRAIN_SETTINGS / sizeof *TRAIN_SETTINGS;
const setting TRAIN_CONFIG_SETTING = TEXT("--config", NULL, config);
const setting TRAIN_PRINT_SETTING = FLAG("--print-config", NULL, print_config);

/* ---- defaults ---- */

/* What is not given has a number below its least, or no text. */
train_options train_defaults(const cli_command *command) {
    return (train_options){.command = command,
                           .out = "runs/last",
                           .warmup = 50,
                           .eval_every = 50,
                           .save_every = 100,
                           .seed = 1,
                           .sample = 400,
                           .context = 64,
                           .dim = 128,
                           .heads = 4,
                           .layers = 4,
                           .vocab = 4096,
                           .size = 32,
                           .channels = 3,
                           .task = "auto",
                           .missing = "refuse",
                           .hidden = "64,64",
                           .delimiter = ",",
                           .schedule = "trapezoid",
                           .precision = "f32",
                           .accumulate = 1,
                           .lr = -1,
                           .momentum = 0.9,
                           .lr_every = 100,
                           .lr_gamma = 0.5,
                           .clip = 1,
                           .weight_decay = 0.01};
}

const char *train_kind_of(const train_options *o) {
    if (o->images || o->labels || o->test_images || o->test_labels) return "images";
    if (o->csv || o->test_csv || o->target) return "csv";
    return o->n_paths ? "text" : NULL;
}

void train_fill_defaults(train_options *o) {
    if (!o->batch) o->batch = o->images ? 64 : 32;
    if (!o->optimizer) o->optimizer = o->images || o->csv ? "adamw" : OPTIMIZER_OF_TEXT;
    if (o->lr < 0) o->lr = optimizer_rate(o->optimizer);
    if (!o->steps && o->seconds <= 0 && o->epochs <= 0) o->steps = 500;
}

/* ---- checks ---- */

/* A run that cannot begin should not make its folder. */
static fac_status check_inputs(const train_options *o) {
    const char *const files[] = {o->images, o->labels, o->test_images, o->test_labels, o->csv, o->test_csv};
    const size_t n_files = sizeof files / sizeof *files;
    for (size_t i = 0; i < n_files + o->n_paths; i++) {
        const char *path = i < n_files ? files[i] : o->paths[i - n_files];
        if (path && access(path, R_OK) != 0)
            return fac_error_set(FAC_ERR_IO, "cannot read '%s': %s", path, strerror(errno));
    }
    return FAC_OK;
}

static bool is_folder(const char *path) {
    struct stat st;
    return path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Text, images or a table. */
static int check_data(const train_options *o) {
    const cli_command *c = o->command;
    const int kinds = (o->images || o->labels || o->test_images || o->test_labels) +
                      (o->csv || o->test_csv || o->target) + (o->n_paths > 0);
    if (kinds > 1) return cli_usage_error(c, "give text, images or a table, not both");
    if (!kinds) return cli_usage_error(c, "give a file or folder of text, --images, or --csv");
    if (is_folder(o->images) && !o->labels && !o->test_labels) return CLI_OK;
    if (!o->images != !o->labels) return cli_usage_error(c, "--images and --labels go together");
    if (!o->test_images != !o->test_labels) return cli_usage_error(c, "--test-images and --test-labels go together");
    if (!o->csv != !o->target) return cli_usage_error(c, "--csv and --target go together");
    if (o->csv && strlen(o->delimiter) != 1)
        return cli_usage_error(c, "--delimiter takes one character, not '%s'", o->delimiter);
    return CLI_OK;
}

static int check_length(const train_options *o) {
    const int lengths = (o->steps > 0) + (o->epochs > 0) + (o->seconds > 0);
    /* A number of steps that was found for a time stands beside it. */
    if (lengths > 1 && !(o->resume && o->steps > 0))
        return cli_usage_error(o->command, "--steps, --epochs or --seconds says how long; not both");
    if (o->epochs > 0 && o->n_paths) return cli_usage_error(o->command, "text has no epochs: give --steps");
    if (o->seconds > 0 && !o->steps && plan_needs_steps(plan_kind(o->schedule)))
        return cli_usage_error(o->command, "--schedule %s needs to know how many steps there are: give --steps",
                               o->schedule);
    return CLI_OK;
}

int train_check(const train_options *o) {
    int code = check_data(o);
    if (code == CLI_OK) code = check_length(o);
    if (code != CLI_OK) return code;
    if (o->dim % o->heads) return cli_usage_error(o->command, "--dim must be a multiple of --heads");
    if (o->channels == 2) return cli_usage_error(o->command, "--channels takes 1 (grey) or 3 (colours), not '2'");
    if (o->ema >= 1) return cli_usage_error(o->command, "--ema takes a number below 1");
    if (o->optimizer && strcmp(o->optimizer, OPTIMIZER_OF_TEXT) == 0 && !o->n_paths)
        return cli_usage_error(o->command, "--optimizer %s is for text", o->optimizer);
    return check_inputs(o) ? cli_failed(o->command) : CLI_OK;
}

int train_check_lasting(const train_options *o, const train_options *saved) {
    char then[4096], now[4096];
    for (const setting *s = TRAIN_SETTINGS; s < TRAIN_SETTINGS + TRAIN_SETTINGS_N; s++) {
        if (!s->lasting) continue;
        setting_text(saved, s, then, sizeof then);
        setting_text(o, s, now, sizeof now);
        if (strcmp(then, now) == 0) continue;
        if (s->kind == SETTING_FLAG)
            return cli_usage_error(o->command, "the run in '%s' began without %s: it cannot go on with it", o->out,
                                   s->option);
        return cli_usage_error(o->command, "the run in '%s' has %s %s: it cannot go on with %s", o->out, s->option,
                               then, now);
    }
    return CLI_OK;
}

/* ---- in a checkpoint ---- */

/* One path a line. */
static void save_paths(notes *n, const train_options *o) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) {
        fac_error_set(FAC_ERR_MEMORY, "no memory for the settings");
        return;
    }
    for (size_t i = 0; i < o->n_paths; i++) fprintf(f, "%s\n", o->paths[i]);
    if (fclose(f) == 0) notes_set(n, "paths", text);
    free(text);
}

fac_status train_save_settings(notes *n, const train_options *o, const char *kind) {
    notes_set(n, "kind", kind);
    for (size_t i = 0; i < TRAIN_SETTINGS_N; i++) {
        const setting *s = &TRAIN_SETTINGS[i];
        const void *p = (const char *)o + s->offset;
        if (!s->key) continue;
        if (!setting_given(o, s))
            notes_remove(n, s->key);
        else if (s->kind == SETTING_INT)
            notes_set_int(n, s->key, *(const int64_t *)p);
        else if (s->kind == SETTING_DOUBLE)
            notes_set_double(n, s->key, *(const double *)p);
        else if (s->kind == SETTING_FLAG)
            notes_set(n, s->key, *(const bool *)p ? "1" : "0");
        else
            notes_set(n, s->key, *(const char *const *)p);
    }
    save_paths(n, o);
    return fac_error();
}

/* Cuts the saved text into lines; `paths` gets the array. */
static fac_status load_paths(train_options *o, notes *n, const char ***paths) {
    char *text = notes_edit(n, "paths");
    if (!text) return FAC_OK;
    size_t lines = 1;
    for (const char *p = text; *p; p++) lines += *p == '\n';
    *paths = calloc(lines, sizeof **paths);
    if (!*paths) return fac_error_set(FAC_ERR_MEMORY, "no memory for the settings");
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) (*paths)[o->n_paths++] = line;
    o->paths = *paths;
    return FAC_OK;
}

fac_status train_load_settings(train_options *o, notes *n, const char ***paths) {
    fac_status st = checkpoint_read_notes(o->out, n);
    for (size_t i = 0; i < TRAIN_SETTINGS_N && !st; i++) {
        const setting *s = &TRAIN_SETTINGS[i];
        const char *text = s->key ? notes_get(n, s->key) : NULL;
        if (text && !setting_set(o, s, text))
            st = fac_error_set(FAC_ERR_FORMAT, "the checkpoint says %s = '%s', which is out of range", s->key, text);
    }
    return st || o->n_paths ? st : load_paths(o, n, paths);
}

void train_print_settings(FILE *f, const train_options *o) {
    train_options shown = *o;
    /* What only the other kinds use is left out, as is --resume. */
    const bool text = o->n_paths > 0, csv = o->csv != NULL;
    for (size_t i = 0; i < TRAIN_SETTINGS_N; i++) {
        const setting *s = &TRAIN_SETTINGS[i];
        const bool of_text = s->offset == AT(context) || s->offset == AT(dim) || s->offset == AT(heads) ||
                             s->offset == AT(layers) || s->offset == AT(vocab) || s->offset == AT(characters) ||
                             s->offset == AT(sample) || s->offset == AT(sample_every);
        const bool of_csv =
            s->offset == AT(task) || s->offset == AT(missing) || s->offset == AT(hidden) || s->offset == AT(delimiter);
        const bool of_images = s->offset == AT(size) || s->offset == AT(channels) || s->offset == AT(augment);
        if (s->offset == AT(resume) || (of_text && !text) || (of_csv && !csv) || (of_images && !o->images)) continue;
        config_print(f, s, 1, &shown, i ? NULL : o->paths, i ? 0 : o->n_paths);
    }
}
