/* facula train: settings from the command line, or from the run that is resumed. */
#include "train.h"
#include "lock.h"
#include "settings.h"
#include <errno.h>
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
    "  --resume           go on with the run in --out; its settings are used, other options given here win\n"
    "  --steps N          training steps (default 500)\n"
    "  --seconds X        train for about this long instead: the number of steps is decided after a quarter of it\n"
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
    {"--out", NULL, AT(out), SETTING_TEXT, 0, 0},
    {"--resume", NULL, AT(resume), SETTING_FLAG, 0, 0},
    {"--quiet", NULL, AT(quiet), SETTING_FLAG, 0, 0},
    {"--threads", NULL, AT(threads), SETTING_INT, 1, 1024},
    {"--sample", "sample", AT(sample), SETTING_INT, 0, 1e6},
    {"--sample-every", "sample_every", AT(sample_every), SETTING_INT, 0, 1e12},
    {"--device", "device", AT(device), SETTING_TEXT, 0, 0},
    {"--images", "images", AT(images), SETTING_TEXT, 0, 0},
    {"--labels", "labels", AT(labels), SETTING_TEXT, 0, 0},
    {"--test-images", "test_images", AT(test_images), SETTING_TEXT, 0, 0},
    {"--test-labels", "test_labels", AT(test_labels), SETTING_TEXT, 0, 0},
    {"--steps", "steps", AT(steps), SETTING_INT, 1, 1e12},
    {"--batch", "batch", AT(batch), SETTING_INT, 1, 1e6},
    {"--warmup", "warmup", AT(warmup), SETTING_INT, 0, 1e12},
    {"--eval-every", "eval_every", AT(eval_every), SETTING_INT, 0, 1e12},
    {"--save-every", "save_every", AT(save_every), SETTING_INT, 0, 1e12},
    {"--seed", "seed", AT(seed), SETTING_INT, 0, 9e15},
    {"--context", "context", AT(context), SETTING_INT, 1, 1e6},
    {"--dim", "dim", AT(dim), SETTING_INT, 1, 1e6},
    {"--heads", "heads", AT(heads), SETTING_INT, 1, 1e4},
    {"--layers", "layers", AT(layers), SETTING_INT, 1, 1e4},
    {"--vocab", "vocab_wanted", AT(vocab), SETTING_INT, 256, 65536},
    {"--seconds", "seconds", AT(seconds), SETTING_DOUBLE, 1, 1e9},
    {"--lr", "lr", AT(lr), SETTING_DOUBLE, 0, 1e3},
    {"--dropout", "dropout", AT(dropout), SETTING_DOUBLE, 0, 1},
    {"--clip", "clip", AT(clip), SETTING_DOUBLE, 0, 1e9},
    {"--weight-decay", "weight_decay", AT(weight_decay), SETTING_DOUBLE, 0, 1e3},
    {"--characters", "characters", AT(characters), SETTING_FLAG, 0, 0},
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
static fac_status take_folder(const train_options *o, int *lock) {
    fac_status st = fac_init();
    if (!st) st = o->resume ? find_run(o->out) : run_make_dir(o->out);
    if (!st) st = run_lock(o->out, lock);
    return st ? st : run_sweep(o->out);
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
    int lock = -1;
    int code = parse(&o, given, argc, argv);
    if (code == CLI_OK && o.steps && o.seconds > 0)
        code = cli_usage_error(self, "--steps says how long, or --seconds; not both");
    if (code == CLI_OK && !o.resume) code = check(&o);
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is an error as a full disk is */
    if (code == CLI_OK && take_folder(&o, &lock)) code = cli_failed(self);
    if (code == CLI_OK && o.resume) {
        const double seconds = o.seconds;
        if (load_settings(&o, &n, &saved))
            code = cli_failed(self);
        else
            code = parse(&o, given, argc, argv); /* once more: what is given now wins */
        if (code == CLI_OK && seconds > 0 && o.steps)
            code = cli_usage_error(self, "the run has %lld steps: --steps changes that, --seconds cannot",
                                   (long long)o.steps);
        if (code == CLI_OK) code = check(&o);
    }
    if (code == CLI_OK) code = run(&o);
    run_unlock(lock);
    notes_free(&n);
    free(saved);
    free(given);
    return code;
}

const cli_command cli_train = {"train", "train a small GPT on text, or an image classifier", HELP, train};
