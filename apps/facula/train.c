/* facula train: settings from the command line, or from the run that is resumed. */
#include "train.h"
#include "plan.h"
#include "settings.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char HELP[] =
    "usage: facula train [OPTION...] FILE|FOLDER...\n"
    "       facula train [OPTION...] --images FILE --labels FILE [--test-images FILE --test-labels FILE]\n"
    "       facula train --resume --out FOLDER\n"
    "\n"
    "Trains a small GPT on text: every text file given and below the folders given. With --images it trains an image\n"
    "classifier instead, on IDX files (MNIST's format), plain or gzipped. Ctrl-C saves and stops; --resume goes on.\n"
    "\n"
    "  --out FOLDER       where the run is kept: checkpoint, log, loss curve (default runs/last);\n"
    "                     a run that is there is replaced\n"
    "  --resume           go on with the run in --out; its settings are used, other options given here win,\n"
    "                     but for those of the model\n"
    "  --steps N          training steps (default 500)\n"
    "  --seconds X        train for about this long instead: the number of steps is decided after a quarter of it;\n"
    "                     until then a run that goes on counts the time that it has taken\n"
    "  --batch N          windows or images per step (default 32; images 64)\n"
    "  --lr X             peak learning rate (default 0.01; images 0.001); it falls to zero in the last part\n"
    "  --warmup N         steps until the peak (default 50)\n"
    "  --clip X           largest norm of the gradients, 0 for no limit (default 1)\n"
    "  --weight-decay X   AdamW's decay (default 0.01)\n"
    "  --dropout X        probability (default 0)\n"
    "  --eval-every N     steps between validations (default 50)\n"
    "  --save-every N     steps between checkpoints (default 100)\n"
    "  --seed N           of weights, order and dropout (default 1)\n"
    "  --device NAME      where to train: cpu (default), cuda, cuda:1\n"
    "  --threads N        of the CPU kernels; results do not depend on it\n"
    "  --quiet            say only what goes wrong\n"
    "\n"
    "text:\n"
    "  --context N        tokens the model sees (default 64)\n"
    "  --dim N --heads N --layers N   of the model (default 128, 4, 4)\n"
    "  --vocab N          kinds of tokens, learned from the text by byte pair encoding (default 4096; 256: bytes)\n"
    "  --characters       tokens are characters instead\n"
    "  --sample N         tokens to write at the end (default 400, 0 for none)\n"
    "  --sample-every N   steps between short samples on the way (default 0: none)\n";

/* ---- settings ---- */

#define AT(field) offsetof(train_options, field)
static const setting SETTINGS[] = {
    {"--out", NULL, AT(out), SETTING_TEXT, 0, 0, false},
    {"--resume", NULL, AT(resume), SETTING_FLAG, 0, 0, false},
    {"--quiet", NULL, AT(quiet), SETTING_FLAG, 0, 0, false},
    {"--threads", NULL, AT(threads), SETTING_INT, 1, 1024, false},
    {"--sample", "sample", AT(sample), SETTING_INT, 0, 1e6, false},
    {"--sample-every", "sample_every", AT(sample_every), SETTING_INT, 0, 1e12, false},
    {"--device", "device", AT(device), SETTING_TEXT, 0, 0, false},
    {"--images", "images", AT(images), SETTING_TEXT, 0, 0, false},
    {"--labels", "labels", AT(labels), SETTING_TEXT, 0, 0, false},
    {"--test-images", "test_images", AT(test_images), SETTING_TEXT, 0, 0, false},
    {"--test-labels", "test_labels", AT(test_labels), SETTING_TEXT, 0, 0, false},
    {"--steps", "steps", AT(steps), SETTING_INT, 1, 1e12, false},
    {"--batch", "batch", AT(batch), SETTING_INT, 1, 1e6, false},
    {"--warmup", "warmup", AT(warmup), SETTING_INT, 0, 1e12, false},
    {"--eval-every", "eval_every", AT(eval_every), SETTING_INT, 0, 1e12, false},
    {"--save-every", "save_every", AT(save_every), SETTING_INT, 0, 1e12, false},
    {"--seed", "seed", AT(seed), SETTING_INT, 0, 9e15, false},
    {"--context", "context", AT(context), SETTING_INT, 1, 1e6, true},
    {"--dim", "dim", AT(dim), SETTING_INT, 1, 1e6, true},
    {"--heads", "heads", AT(heads), SETTING_INT, 1, 1e4, true},
    {"--layers", "layers", AT(layers), SETTING_INT, 1, 1e4, true},
    {"--vocab", "vocab_wanted", AT(vocab), SETTING_INT, 256, 65536, true},
    {"--seconds", "seconds", AT(seconds), SETTING_DOUBLE, 1, 1e9, false},
    {"--lr", "lr", AT(lr), SETTING_DOUBLE, 0, 1e3, false},
    {"--dropout", "dropout", AT(dropout), SETTING_DOUBLE, 0, 1, false},
    {"--clip", "clip", AT(clip), SETTING_DOUBLE, 0, 1e9, false},
    {"--weight-decay", "weight_decay", AT(weight_decay), SETTING_DOUBLE, 0, 1e3, false},
    {"--characters", "characters", AT(characters), SETTING_FLAG, 0, 0, true},
};
enum { N_SETTINGS = sizeof SETTINGS / sizeof *SETTINGS };

static int parse(train_options *o, const char **given, int argc, char **argv) {
    cli_args a = {.command = o->command, .argc = argc, .argv = argv, .at = 1};
    bool is_option;
    size_t n = 0;
    for (const char *arg; (arg = cli_next(&a, &is_option)) != NULL;) {
        int code = CLI_OK;
        if (is_option)
            code = setting_parse(o, SETTINGS, N_SETTINGS, &a, arg);
        else
            given[n++] = arg;
        if (code != CLI_OK) return code;
    }
    if (n) {
        o->paths = given;
        o->n_paths = n;
    }
    return CLI_OK;
}

/* ---- settings in the notes ---- */

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
    for (int i = 0; i < N_SETTINGS; i++) {
        const setting *s = &SETTINGS[i];
        const void *p = (const char *)o + s->offset;
        if (!s->key) continue;
        /* A number below the least is one that was not given, such as that of steps where there are seconds. */
        if (s->kind == SETTING_INT && (double)*(const int64_t *)p >= s->least)
            notes_set_int(n, s->key, *(const int64_t *)p);
        else if (s->kind == SETTING_DOUBLE && *(const double *)p >= s->least)
            notes_set_double(n, s->key, *(const double *)p);
        else if (s->kind == SETTING_FLAG)
            notes_set(n, s->key, *(const bool *)p ? "1" : "0");
        else if (*(const char *const *)p)
            notes_set(n, s->key, *(const char *const *)p);
    }
    save_paths(n, o);
    return fac_error();
}

/* Cuts the saved text into lines; `paths` gets the array, which the caller frees. */
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

/* The run's own settings, under those given now. Text stays in the notes, which must outlive the options. */
static fac_status load_settings(train_options *o, notes *n, const char ***paths) {
    fac_status st = checkpoint_read_notes(o->out, n);
    for (int i = 0; i < N_SETTINGS && !st; i++) {
        const setting *s = &SETTINGS[i];
        const char *text = s->key ? notes_get(n, s->key) : NULL;
        if (text && !setting_set(o, s, text))
            st = fac_error_set(FAC_ERR_FORMAT, "the checkpoint says %s = '%s', which is out of range", s->key, text);
    }
    return st || o->n_paths ? st : load_paths(o, n, paths);
}

/* ---- the command ---- */

/* A run that cannot begin should not make its folder. */
static fac_status check_inputs(const train_options *o) {
    const char *const images[] = {o->images, o->labels, o->test_images, o->test_labels};
    const size_t n_images = sizeof images / sizeof *images;
    for (size_t i = 0; i < n_images + o->n_paths; i++) {
        const char *path = i < n_images ? images[i] : o->paths[i - n_images];
        if (path && access(path, R_OK) != 0)
            return fac_error_set(FAC_ERR_IO, "cannot read '%s': %s", path, strerror(errno));
    }
    return FAC_OK;
}

static int check(const train_options *o) {
    if (!o->images != !o->labels) return cli_usage_error(o->command, "--images and --labels go together");
    if (!o->test_images != !o->test_labels)
        return cli_usage_error(o->command, "--test-images and --test-labels go together");
    if (!o->images && !o->n_paths)
        return cli_usage_error(o->command, "give a file or folder of text, or --images and --labels");
    if (o->images && o->n_paths) return cli_usage_error(o->command, "give text or images, not both");
    if (o->dim % o->heads) return cli_usage_error(o->command, "--dim must be a multiple of --heads");
    return check_inputs(o) ? cli_failed(o->command) : CLI_OK;
}

/* A folder that no run is in gets no lock. */
static fac_status find_run(const char *dir) {
    char path[4096];
    fac_status st = run_path(dir, CHECKPOINT_NAME, path, sizeof path);
    if (!st && access(path, F_OK) != 0)
        st = fac_error_set(FAC_ERR_NOT_FOUND, "there is no run to go on with in '%s': '%s': %s", dir, path,
                           strerror(errno));
    return st;
}

/* Takes the run folder, which a run that begins may have to make. */
static fac_status take_folder(train_options *o, run_folder *folder) {
    o->folder = folder;
    fac_status st = fac_init();
    if (!st && o->resume) st = find_run(o->out);
    if (!st) st = run_take(o->out, !o->resume, folder);
    return st ? st : run_sweep(o->out);
}

/* ---- going on ---- */

/* What the arguments ask to be trained; NULL where they do not say. */
static const char *kind_asked(const train_options *o) {
    if (o->images || o->labels || o->test_images || o->test_labels) return "images";
    return o->n_paths ? "text" : NULL;
}

/* Whether what is asked for now is of the run's kind. */
static int check_kind(const train_options *o, const notes *n, const char *asked) {
    const char *kind = notes_get(n, "kind");
    if (!kind) return cli_usage_error(o->command, "'%s' does not say what was trained: it cannot go on", o->out);
    if (strcmp(kind, "text") != 0 && strcmp(kind, "images") != 0)
        return cli_usage_error(o->command, "'%s' is a training on '%s', which this version does not know", o->out,
                               kind);
    if (!asked || strcmp(asked, kind) == 0) return CLI_OK;
    return cli_usage_error(o->command, "'%s' is a training on %s: it cannot go on with %s; choose another --out",
                           o->out, kind, asked);
}

/* What the model is made by must stay as it was. */
static int check_lasting(const train_options *o, const train_options *saved) {
    char then[32], now[32];
    for (const setting *s = SETTINGS; s < SETTINGS + N_SETTINGS; s++) {
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

/* A time given now is that of the whole run, of which the rate of learning needs a part to fall. */
static int check_time(const train_options *o, const notes *n, double seconds, int64_t steps) {
    if (seconds <= 0) return CLI_OK;
    if (steps)
        return cli_usage_error(o->command, "the run has %lld %s: --steps changes that, --seconds cannot",
                               (long long)steps, cli_word(steps, "step", "steps"));
    const double used = train_seconds_used(n), least = plan_least_seconds(used);
    if (fac_error()) return cli_failed(o->command);
    if (seconds >= least) return CLI_OK;
    return cli_usage_error(
        o->command,
        "the run has taken %.1f s, and its rate has yet to fall: --seconds %g is too short, the least is %.0f", used,
        seconds, ceil(least));
}

/* The run's own settings, then once more those given now, which win where they may. */
static int go_on(train_options *o, notes *n, const char ***paths, const char **given, int argc, char **argv) {
    const double seconds = o->seconds;
    const char *asked = kind_asked(o);
    if (load_settings(o, n, paths)) return cli_failed(o->command);
    const train_options saved = *o;
    int code = check_kind(o, n, asked);
    if (code == CLI_OK) code = parse(o, given, argc, argv);
    if (code == CLI_OK) code = check_lasting(o, &saved);
    if (code == CLI_OK) code = check_time(o, n, seconds, saved.steps);
    return code == CLI_OK ? check(o) : code;
}

static int run(train_options *o) {
    if (o->threads && fac_set_num_threads((int)o->threads)) return cli_failed(o->command);
    if (!o->batch) o->batch = o->images ? 64 : 32;
    if (o->lr < 0) o->lr = o->images ? 0.001 : 0.01;
    if (!o->steps && o->seconds <= 0) o->steps = 500;
    fac_manual_seed((uint64_t)o->seed);
    FAC_SCOPE(s);
    return o->images ? train_images(o) : train_text(o);
}

static int train(const cli_command *self, int argc, char **argv) {
    const char **given = calloc((size_t)argc, sizeof *given), **saved = NULL;
    if (!given) {
        fac_error_set(FAC_ERR_MEMORY, "no memory for the arguments");
        return cli_failed(self);
    }
    notes n = {0};
    train_options o = {.command = self,
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
                       .lr = -1, /* not given */
                       .clip = 1,
                       .weight_decay = 0.01};
    run_folder folder = {.lock = -1};
    int code = parse(&o, given, argc, argv);
    if (code == CLI_OK && o.steps && o.seconds > 0)
        code = cli_usage_error(self, "--steps says how long, or --seconds; not both");
    if (code == CLI_OK && !o.resume) code = check(&o);
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is an error as a full disk is */
    if (code == CLI_OK && take_folder(&o, &folder)) code = cli_failed(self);
    if (code == CLI_OK && o.resume) code = go_on(&o, &n, &saved, given, argc, argv);
    if (code == CLI_OK) code = run(&o);
    run_leave(&folder);
    notes_free(&n);
    free(saved);
    free(given);
    return code;
}

const cli_command cli_train = {"train", "train a small GPT on text, or an image classifier", HELP, train};
