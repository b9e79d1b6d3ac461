/* facula predict: what a trained classifier or regression says of files. */
#include "predict.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char HELP[] =
    "usage: facula predict [OPTION...] FOLDER|CHECKPOINT FILE...\n"
    "\n"
    "Predicts with the run folder of a 'facula train' on images or a table, or with a checkpoint in it. The files are, for a\n"
    "run on images, PNG and JPEG files, folders of them (with those below, in order of name) and IDX files, plain or\n"
    "gzipped; for one on a table, CSV files that have its columns by name, and '-' for standard input. Prints a line for\n"
    "each image or row. If a table has the target too, how right the predictions are is said at the end on stderr. A file\n"
    "that cannot be read is named, the others are predicted, and the exit status is 1.\n"
    "\n"
    "  --top N            print the N likeliest classes, not just one\n"
    "  --format NAME      tsv (default), csv, or json: an object in each line\n"
    "  --json             the same as --format json\n"
    "  --keep A,B         tables: print these columns of the files as well\n"
    "  --out FILE         write there instead of stdout, once all is done\n"
    "  --metrics FILE     write how right the predictions are as JSON; of images, those whose folder has a class's name;\n"
    "                     - is stdout, if --out is given\n"
    "  --weights NAME     ema (the mean of the weights, default if the run made one), last, or best (those that\n"
    "                     --patience kept)\n"
    "  --batch N          images or rows at once (default 256)\n"
    "  --device NAME      where to compute: cpu (default), cuda, cuda:1\n"
    "  --threads N        of the CPU kernels; results do not depend on it\n"
    "  --quiet            say only what goes wrong\n";

/* ---- options ---- */

#define AT(field) offsetof(predict_options, field)
static const setting SETTINGS[] = {
    {"--top", NULL, AT(top), SETTING_INT, 1, 1e6, false, NULL},
    {"--format", NULL, AT(format), SETTING_CHOICE, 0, 0, false, OUTPUT_CHOICES},
    {"--json", NULL, AT(json), SETTING_FLAG, 0, 0, false, NULL},
    {"--keep", NULL, AT(keep), SETTING_TEXT, 0, 0, false, NULL},
    {"--out", NULL, AT(out), SETTING_TEXT, 0, 0, false, NULL},
    {"--metrics", NULL, AT(metrics), SETTING_TEXT, 0, 0, false, NULL},
    {"--weights", NULL, AT(weights), SETTING_CHOICE, 0, 0, false, "ema|last|best"},
    {"--batch", NULL, AT(batch), SETTING_INT, 1, 1e6, false, NULL},
    {"--device", NULL, AT(device), SETTING_TEXT, 0, 0, false, NULL},
    {"--threads", NULL, AT(threads), SETTING_INT, 1, 1024, false, NULL},
    {"--quiet", NULL, AT(quiet), SETTING_FLAG, 0, 0, false, NULL},
};

/* Operands go into room, which the options point into. */
static int parse(predict_options *o, int argc, char **argv, const char **room) {
    cli_args a = {.command = o->command, .argc = argc, .argv = argv, .at = 1};
    bool is_option;
    size_t n = 0;
    for (const char *arg; (arg = cli_next(&a, &is_option)) != NULL;) {
        const int code = is_option ? setting_parse(o, SETTINGS, sizeof SETTINGS / sizeof *SETTINGS, &a, arg) : CLI_OK;
        if (code != CLI_OK) return code;
        if (!is_option) room[n++] = arg;
    }
    if (n == 0) return cli_usage_error(o->command, "which run? Give the folder of one, and files");
    if (n == 1) return cli_usage_error(o->command, "give files to predict for");
    if (o->json && o->format && strcmp(o->format, "json") != 0)
        return cli_usage_error(o->command, "--json is --format json, not %s", o->format);
    if (o->metrics && strcmp(o->out ? o->out : "-", o->metrics) == 0)
        return cli_usage_error(o->command, "predictions and --metrics both go to '%s'", o->metrics);
    if (o->json || !o->format) o->format = o->json ? "json" : "tsv";
    o->run = room[0];
    o->files = room + 1;
    o->n_files = n - 1;
    return CLI_OK;
}

/* ---- the run ---- */

static const predict_kind *const KINDS[] = {&predict_images, &predict_tables};

static fac_status not_a_run(const char *path) {
    return fac_error_set(FAC_ERR_NOT_FOUND, "'%s' is not the run of a training: there is no '%s/" CHECKPOINT_NAME "'",
                         path, path);
}

/* The checkpoint of the weights that are asked for: a file, or a folder's own. */
static fac_status find_checkpoint(predictor *p, char *buf, size_t size) {
    const predict_options *o = p->options;
    const bool best = strcmp(o->weights, "best") == 0;
    struct stat st;
    p->run.out = o->run;
    if (stat(o->run, &st) != 0)
        return fac_error_set(FAC_ERR_IO, "cannot find the run '%s': %s", o->run, strerror(errno));
    if (!S_ISDIR(st.st_mode)) {
        const char *name = strrchr(o->run, '/');
        if (!best || strcmp(name ? name + 1 : o->run, BEST_NAME) == 0) return FAC_OK;
        return predict_misused(p, "--weights best is for the folder of a run, and '%s' is one checkpoint");
    }
    fac_status status = run_path(o->run, CHECKPOINT_NAME, buf, size);
    if (status) return status;
    if (access(buf, F_OK) != 0) return not_a_run(o->run);
    if (!best) return FAC_OK;
    p->run.out = buf;
    status = run_path(o->run, BEST_NAME, buf, size);
    if (!status && access(buf, F_OK) != 0)
        status = fac_error_set(FAC_ERR_NOT_FOUND, "the run in '%s' kept no best weights: only one with --patience does",
                               o->run);
    return status;
}

static const predict_kind *find_kind(const predictor *p) {
    const char *kind = notes_get(&p->notes, "kind"), *run = p->options->run;
    for (size_t i = 0; kind && i < sizeof KINDS / sizeof *KINDS; i++)
        if (strcmp(KINDS[i]->name, kind) == 0) return KINDS[i];
    if (kind && strcmp(kind, "text") == 0)
        fac_error_set(FAC_ERR_ARGUMENT, "'%s' is the run of a text model, with which 'facula generate %s' writes", run,
                      run);
    else if (kind)
        fac_error_set(FAC_ERR_FORMAT, "'%s' is a training on '%s', which this version does not know", run, kind);
    else
        fac_error_set(FAC_ERR_FORMAT, "'%s' does not say what was trained: it is not of a run of facula train", run);
    return NULL;
}

/* Loads the weights into the model, which is then only used. */
static fac_status load(predictor *p) {
    const char *weights = strcmp(p->options->weights, "best") == 0 ? "last" : p->options->weights;
    fac_status st = checkpoint_load_model(p->run.out, weights, p->model);
    if (!st) st = fac_module_to(p->model, .device = p->device);
    if (!st) fac_module_train(p->model, false);
    p->order = calloc(p->classes.n + 1, sizeof *p->order);
    if (!st && !p->order) st = fac_error_set(FAC_ERR_MEMORY, "no memory for the order of classes");
    return st ? st : fac_error();
}

/* ---- samples ---- */

fac_tensor *predict_batch(predictor *p, fac_tensor *x) {
    fac_autocast_guard cast = model_autocast(p->device, p->run.precision);
    fac_tensor *said = fac_forward(p->model, fac_to(x, .device = p->device));
    fac_autocast_end(&cast);
    said = fac_to(said, .dtype = FAC_F32);
    if (p->classes.n) said = fac_log_softmax(said, 1);
    return fac_contiguous(fac_to(said, .device = fac_device_parse("cpu")));
}

double predict_number(const predictor *p, const float *said) {
    return (double)*said * p->table.deviation + p->table.mean;
}

/* The best n classes, in order; those that are equal in that of their numbers. */
static void find_best(const float *said, int64_t classes, int64_t n, int64_t *out) {
    int64_t have = 0;
    for (int64_t k = 0; k < classes; k++) {
        int64_t at = have;
        while (at > 0 && said[k] > said[out[at - 1]]) at--;
        if (at == n) continue;
        have += have < n;
        memmove(&out[at + 1], &out[at], (size_t)(have - 1 - at) * sizeof *out);
        out[at] = k;
    }
}

static fac_status put_classes(predictor *p, const float *said) {
    const int64_t classes = (int64_t)p->classes.n, n = p->options->top < classes ? p->options->top : classes;
    fac_status st = FAC_OK;
    find_best(said, classes, n, p->order);
    for (int64_t i = 0; i < n && !st; i++) {
        const int64_t k = p->order[i];
        st = output_put(&p->out, (output_cell){.name = "class", .rank = i + 1, .text = p->classes.v[k]});
        const double probability = exp((double)said[k]);
        if (!st) st = output_put(&p->out, (output_cell){.name = "probability", .rank = i + 1, .number = probability});
    }
    return st;
}

fac_status predict_put(predictor *p, const float *said) {
    fac_status st = p->classes.n
                        ? put_classes(p, said)
                        : output_put(&p->out, (output_cell){.name = "prediction", .number = predict_number(p, said)});
    p->done++;
    return st ? st : output_row(&p->out);
}

void predict_compare(predictor *p, int64_t is, const float *said) {
    if (is >= 0)
        figures_class(&p->figures, p->order[0] == is, (double)said[is]);
    else
        p->figures.unknown++;
}

fac_status predict_misused(predictor *p, const char *format) {
    p->misused = true;
    return fac_error_set(FAC_ERR_ARGUMENT, format, p->options->run);
}

void predict_complain(predictor *p) {
    progress_clear(&p->bar);
    cli_failed(p->options->command);
    p->failed = true;
}

void predict_progress(predictor *p) { progress_update(&p->bar, p->done, p->total, "predicted"); }

/* ---- the command ---- */

/* Beside lines on the same terminal there is no place for a bar. */
static void start_progress(predictor *p) {
    const bool shown = isatty(STDERR_FILENO) && (p->out.path || !isatty(STDOUT_FILENO));
    progress_start(&p->bar, stderr, 0, p->options->quiet || !shown);
    p->bar.noun = "sample";
}

static fac_status tell_figures(predictor *p) {
    const predict_options *o = p->options;
    const bool any = figures_any(&p->figures);
    if (any && !o->quiet) figures_print(stderr, &p->figures, p->classes.n > 0, p->run.target ? "row" : "image");
    if (o->metrics && any) return figures_write(o->metrics, &p->figures, p->classes.n > 0);
    if (!o->metrics || p->failed) return FAC_OK;
    if (p->run.target)
        return fac_error_set(FAC_ERR_NOT_FOUND, "--metrics: no row has an answer in the target '%s'", p->run.target);
    return fac_error_set(FAC_ERR_NOT_FOUND, "--metrics: no image is in a folder that has the name of a class");
}

static fac_status predict_all(predictor *p, const predict_kind *kind) {
    FAC_NO_GRAD(g);
    fac_status st = load(p);
    if (!st) st = output_open(&p->out, p->options->format, p->options->out);
    if (st) return st;
    start_progress(p);
    cli_catch_stop(true);
    st = kind->predict(p);
    cli_catch_stop(false);
    progress_clear(&p->bar);
    const fac_status closed = output_close(&p->out, !st && !cli_stop);
    if (!st) st = closed;
    return st || cli_stop ? st : tell_figures(p);
}

static fac_status predict_with(predictor *p) {
    char checkpoint[4096];
    fac_status st = model_device(p->options->device, &p->device);
    if (!st) st = find_checkpoint(p, checkpoint, sizeof checkpoint);
    if (!st) st = train_load_settings(&p->run, &p->notes, &p->paths);
    const predict_kind *kind = st ? NULL : find_kind(p);
    if (!kind) return fac_error();
    st = kind->make(p);
    return st ? st : predict_all(p, kind);
}

static int run(const predict_options *o) {
    FAC_SCOPE(s);
    predictor p = {.options = o, .run = train_defaults(o->command)};
    const fac_status st = predict_with(&p);
    if (st) cli_failed(o->command);
    fac_module_release(p.model);
    table_close(&p.table);
    names_free(&p.classes);
    free(p.order);
    free(p.paths);
    notes_free(&p.notes);
    return p.misused ? CLI_USAGE : st ? CLI_FAILED : cli_stop ? 130 : p.failed ? CLI_FAILED : CLI_OK;
}

static int predict(const cli_command *self, int argc, char **argv) {
    predict_options o = {.command = self, .weights = "", .top = 1, .batch = 256};
    const char **room = calloc((size_t)argc, sizeof *room);
    if (!room) {
        fac_error_set(FAC_ERR_MEMORY, "no memory for the arguments");
        return cli_failed(self);
    }
    int code = parse(&o, argc, argv, room);
    if (code == CLI_OK && (fac_init() || (o.threads && fac_set_num_threads((int)o.threads)))) code = cli_failed(self);
    if (code == CLI_OK) code = run(&o);
    free(room);
    return code;
}

const cli_command cli_predict = {"predict", "use a trained classifier or regression", HELP, predict};
