/* facula train: settings from the command line, or from the run that is resumed. */
#include "train.h"
#include "plan.h"
#include "train_settings.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Longer than what every compiler of ISO C must take. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
static const char HELP[] =
    "usage: facula train [OPTION...] FILE|FOLDER...\n"
    "       facula train [OPTION...] --images FOLDER [--test-images FOLDER]\n"
    "       facula train [OPTION...] --images FILE --labels FILE [--test-images FILE --test-labels FILE]\n"
    "       facula train [OPTION...] --csv FILE --target COLUMN [--test-csv FILE]\n"
    "       facula train --config FILE [OPTION...]\n"
    "       facula train --resume --out FOLDER\n"
    "\n"
    "Trains a small GPT on text: every text file given and below the folders given. With --images it trains an image\n"
    "classifier instead: on a folder that has a folder of PNG and JPEG files for each class, or on IDX files (MNIST's\n"
    "format), plain or gzipped. With --csv it trains a network on the columns of a table, to predict one of them.\n"
    "Ctrl-C saves and stops; --resume goes on.\n"
    "\n"
    "  --out FOLDER       where the run is kept: checkpoint, log, loss curve, report (default runs/last);\n"
    "                     a run that is there is replaced\n"
    "  --resume           go on with the run in --out; its settings are used, other options given here win,\n"
    "                     but for those of the model\n"
    "  --config FILE      settings in YAML: 'steps: 500' is --steps 500, 'augment: true' is --augment, 'paths: [a, b]'\n"
    "                     are files and folders of text; options given here win\n"
    "  --print-config     print all settings as such a file, and train nothing\n"
    "  --steps N          training steps (default 500)\n"
    "  --epochs X         or so many times over the images or rows\n"
    "  --seconds X        or for about this long: the number of steps is decided after a quarter of it;\n"
    "                     until then a run that goes on counts the time that it has taken\n"
    "  --batch N          windows, images or rows per step (default 32; images 64)\n"
    "  --accumulate N     batches per step, whose gradients are averaged (default 1)\n"
    "  --seed N           of weights, order and dropout (default 1)\n"
    "  --device NAME      where to train: cpu (default), cuda, cuda:1\n"
    "  --threads N        of the CPU kernels; results do not depend on it\n"
    "  --quiet            say only what goes wrong\n"
    "\n"
    "optimisation:\n"
    "  --optimizer NAME   muon (text alone, its default: Muon for matrices, AdamW for the rest), adamw (default), adam,\n"
    "                     sgd, rmsprop, nadam, radam, adamax, adagrad, adafactor\n"
    "  --lr X             peak learning rate (default 0.01 for muon, 0.001 for adamw; others have their own)\n"
    "  --schedule NAME    trapezoid (default: falls to zero in the last seven tenths), constant, cosine, linear, step,\n"
    "                     one-cycle\n"
    "  --warmup N         steps until the peak (default 50)\n"
    "  --lr-floor X       what cosine and linear end at (default 0)\n"
    "  --lr-every N --lr-gamma X   step: every N steps the rate is multiplied by X (default 100, 0.5)\n"
    "  --momentum X       of sgd (default 0.9)\n"
    "  --weight-decay X   (default 0.01)\n"
    "  --clip X           largest norm of the gradients, 0 for no limit (default 1)\n"
    "  --dropout X        probability (default 0)\n"
    "  --precision NAME   f32 (default), bf16 or f16: matrix products in halves, the gradients of f16 scaled\n"
    "  --ema X            keep an exponential mean of the weights with this decay, such as 0.99, which is validated,\n"
    "                     shown and used (default 0: none)\n"
    "  --patience N       stop after N validations without a gain, and keep the best weights in best.safetensors\n"
    "                     (default 0: never)\n"
    "  --least-gain X     what counts as one (default 0)\n"
    "\n"
    "looking at it:\n"
    "  --eval-every N     steps between validations (default 50)\n"
    "  --save-every N     steps between checkpoints (default 100)\n"
    "  --tensorboard FOLDER   write an event file for TensorBoard there\n"
    "  --no-report        write no report.html\n"
    "\n"
    "text:\n"
    "  --context N        tokens the model sees (default 64)\n"
    "  --dim N --heads N --layers N   of the model (default 128, 4, 4)\n"
    "  --vocab N          kinds of tokens, learned from the text by byte pair encoding (default 4096; 256: bytes)\n"
    "  --characters       tokens are characters instead\n"
    "  --sample N         tokens to write at the end (default 400, 0 for none)\n"
    "  --sample-every N   steps between short samples on the way (default 0: none)\n"
    "\n"
    "images:\n"
    "  --size N           folders: height and width that images are brought to (default 32)\n"
    "  --channels N       folders: 3 for colours (default), 1 for grey\n"
    "  --augment          cut images out of larger ones at random, and mirror half of them\n"
    "\n"
    "tables:\n"
    "  --target COLUMN    what is to be predicted\n"
    "  --task NAME        regression, classification, or auto (default): regression if the target has numbers alone\n"
    "  --hidden N,N,...   sizes of the hidden layers (default 64,64)\n"
    "  --drop A,B         columns to leave out\n"
    "  --one-hot A,B      columns of numbers that are names of kinds; columns of other text always are\n"
    "  --missing NAME     empty numbers: refuse them (default), or take the column's mean\n"
    "  --delimiter C      between fields (default ,)\n";
#pragma GCC diagnostic pop

/* ---- what is given ---- */

/* Arguments and the files of settings that they name, which the options point into. */
typedef struct inputs {
    int argc;
    char **argv;
    const char **operands; /* owned */
    const char **paths;    /* owned: of the run that goes on */
    config files[2];       /* as read first, and over the run's own settings */
} inputs;

static int parse(train_options *o, inputs *in) {
    cli_args a = {.command = o->command, .argc = in->argc, .argv = in->argv, .at = 1};
    bool is_option;
    size_t n = 0;
    for (const char *arg; (arg = cli_next(&a, &is_option)) != NULL;) {
        int code = CLI_OK;
        if (!is_option)
            in->operands[n++] = arg;
        else if (strcmp(arg, TRAIN_CONFIG_SETTING.option) == 0)
            code = setting_parse(o, &TRAIN_CONFIG_SETTING, 1, &a, arg);
        else if (strcmp(arg, TRAIN_PRINT_SETTING.option) == 0)
            code = setting_parse(o, &TRAIN_PRINT_SETTING, 1, &a, arg);
        else
            code = setting_parse(o, TRAIN_SETTINGS, TRAIN_SETTINGS_N, &a, arg);
        if (code != CLI_OK) return code;
    }
    if (n) {
        o->paths = in->operands;
        o->n_paths = n;
    }
    return CLI_OK;
}

/* A file that says something else than settings is wrong use. */
static int config_failed(const cli_command *c) {
    const bool use = fac_error() == FAC_ERR_ARGUMENT || fac_error() == FAC_ERR_FORMAT;
    return cli_failed(c), use ? CLI_USAGE : CLI_FAILED;
}

/* Puts what the file says into the options, and over it what the arguments say. */
static int take_inputs(train_options *o, inputs *in, config *file) {
    train_options named = *o;
    int code = parse(&named, in);
    if (code != CLI_OK || !named.config) return code == CLI_OK ? parse(o, in) : code;
    if (config_read(file, named.config, TRAIN_SETTINGS, TRAIN_SETTINGS_N, o)) return config_failed(o->command);
    if (file->n_paths) {
        o->paths = file->paths;
        o->n_paths = file->n_paths;
    }
    return parse(o, in);
}

/* ---- the folder ---- */

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
    if (st || o->print_config) return st;
    st = run_take(o->out, !o->resume, folder);
    return st ? st : run_sweep(o->out);
}

/* ---- going on ---- */

/* Whether what is asked for now is of the run's kind. */
static int check_kind(const train_options *o, const notes *n, const char *asked) {
    const char *kind = notes_get(n, "kind");
    if (!kind) return cli_usage_error(o->command, "'%s' does not say what was trained: it cannot go on", o->out);
    if (strcmp(kind, "text") != 0 && strcmp(kind, "images") != 0 && strcmp(kind, "csv") != 0)
        return cli_usage_error(o->command, "'%s' is a training on '%s', which this version does not know", o->out,
                               kind);
    if (!asked || strcmp(asked, kind) == 0) return CLI_OK;
    return cli_usage_error(o->command, "'%s' is a training on %s: it cannot go on with %s; choose another --out",
                           o->out, kind, asked);
}

/* A time given now is that of the whole run, of which the rate of learning needs a part to fall. */
static int check_time(const train_options *o, const notes *n, double seconds, int64_t steps) {
    if (seconds <= 0) return CLI_OK;
    if (steps)
        return cli_usage_error(o->command, "the run has %lld %s: --steps changes that, --seconds cannot",
                               (long long)steps, cli_word(steps, "step", "steps"));
    if (o->epochs > 0)
        return cli_usage_error(o->command, "the run has %g epochs: --epochs changes that, --seconds cannot", o->epochs);
    const double used = train_seconds_used(n), least = plan_least_seconds(used);
    if (fac_error()) return cli_failed(o->command);
    if (seconds >= least) return CLI_OK;
    return cli_usage_error(
        o->command,
        "the run has taken %.1f s, and its rate has yet to fall: --seconds %g is too short, the least is %.0f", used,
        seconds, ceil(least));
}

/* A length given now takes the place of the run's, of whatever kind that is. */
static void replace_length(train_options *o, const train_options *given) {
    if (given->steps) o->epochs = 0;
    if (given->epochs > 0) {
        o->steps = 0;
        o->seconds = 0;
    }
}

/* The run's own settings, and over them those given now, which win where they may. */
static int go_on(train_options *o, notes *n, inputs *in) {
    const train_options given = *o;
    train_options saved = train_defaults(o->command);
    saved.out = o->out;
    if (train_load_settings(&saved, n, &in->paths)) return cli_failed(o->command);
    int code = check_kind(o, n, train_kind_of(&given));
    *o = saved;
    o->folder = given.folder;
    if (code == CLI_OK) code = take_inputs(o, in, &in->files[1]);
    if (code == CLI_OK) code = train_check_lasting(o, &saved);
    if (code == CLI_OK) code = check_time(o, n, given.seconds, saved.steps);
    replace_length(o, &given);
    return code == CLI_OK ? train_check(o) : code;
}

/* ---- the command ---- */

static int run(train_options *o) {
    train_fill_defaults(o);
    if (o->print_config) return train_print_settings(stdout, o), CLI_OK;
    if (o->threads && fac_set_num_threads((int)o->threads)) return cli_failed(o->command);
    fac_manual_seed((uint64_t)o->seed);
    FAC_SCOPE(s);
    return o->images ? train_images(o) : o->csv ? train_csv(o) : train_text(o);
}

static int train(const cli_command *self, int argc, char **argv) {
    inputs in = {.argc = argc, .argv = argv, .operands = calloc((size_t)argc, sizeof *in.operands)};
    if (!in.operands) {
        fac_error_set(FAC_ERR_MEMORY, "no memory for the arguments");
        return cli_failed(self);
    }
    notes n = {0};
    train_options o = train_defaults(self);
    run_folder folder = {.lock = -1};
    int code = take_inputs(&o, &in, &in.files[0]);
    if (code == CLI_OK && !o.resume) code = train_check(&o);
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is an error as a full disk is */
    if (code == CLI_OK && take_folder(&o, &folder)) code = cli_failed(self);
    if (code == CLI_OK && o.resume) code = go_on(&o, &n, &in);
    if (code == CLI_OK) code = run(&o);
    run_leave(&folder);
    notes_free(&n);
    for (int i = 0; i < 2; i++) config_free(&in.files[i]);
    free(in.paths);
    free(in.operands);
    return code;
}

const cli_command cli_train = {"train", "train a model on text, images or a table", HELP, train};
