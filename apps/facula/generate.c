/* facula generate: text from a trained model. */
#include "checkpoint.h"
#include "cli.h"
#include "gpt.h"
#include "run_vocab.h"
#include "sample.h"
#include "settings.h"
#include <string.h>

static const char HELP[] =
    "usage: facula generate [OPTION...] [FOLDER|CHECKPOINT]\n"
    "\n"
    "Writes text with the model of a run folder of 'facula train' (default runs/last), or of a checkpoint in it, such as\n"
    "runs/last/best.safetensors. Of a run with --ema it is the mean of the weights.\n"
    "\n"
    "  --prompt TEXT      what the text begins with (default a new line)\n"
    "  --tokens N         how many tokens to write (default 500)\n"
    "  --temperature X    below 1 safer, above 1 wilder, 0 always the likeliest token (default 0.8)\n"
    "  --top-k N          draw among the N likeliest tokens, 0 for all (default 40)\n"
    "  --seed N           the same seed writes the same text (default 1)\n"
    "  --threads N        of the CPU kernels\n";

typedef struct generate_options {
    const char *run, *prompt;
    sample_options sample;
    int64_t threads;
} generate_options;

#define AT(field) offsetof(generate_options, field)
static const setting SETTINGS[] = {
    {"--prompt", NULL, AT(prompt), SETTING_TEXT, 0, 0, false, NULL},
    {"--tokens", NULL, AT(sample.tokens), SETTING_INT, 1, 1e7, false, NULL},
    {"--temperature", NULL, AT(sample.temperature), SETTING_DOUBLE, 0, 1e9, false, NULL},
    {"--top-k", NULL, AT(sample.top_k), SETTING_INT, 0, 1e9, false, NULL},
    {"--seed", NULL, AT(sample.seed), SETTING_INT, 0, 9e15, false, NULL},
    {"--threads", NULL, AT(threads), SETTING_INT, 1, 1024, false, NULL},
};

static int parse(const cli_command *self, int argc, char **argv, generate_options *o) {
    cli_args a = {.command = self, .argc = argc, .argv = argv, .at = 1};
    bool is_option;
    for (const char *arg; (arg = cli_next(&a, &is_option)) != NULL;) {
        if (is_option) {
            const int code = setting_parse(o, SETTINGS, sizeof SETTINGS / sizeof *SETTINGS, &a, arg);
            if (code != CLI_OK) return code;
        } else if (o->run)
            return cli_usage_error(self, "one run folder is enough: '%s' is not understood", arg);
        else
            o->run = arg;
    }
    if (!o->run) o->run = "runs/last";
    return CLI_OK;
}

static fac_module *load_model(const notes *n, const char *run) {
    const char *kind = notes_get(n, "kind");
    if (!kind || strcmp(kind, "text") != 0) {
        fac_error_set(FAC_ERR_FORMAT, "'%s' is not the run of a text model%s", run,
                      kind ? ", but 'facula predict' uses it" : "");
        return NULL;
    }
    const gpt_config config = {notes_int(n, "vocab_size"), notes_int(n, "context"), notes_int(n, "dim"),
                               notes_int(n, "heads"),      notes_int(n, "layers"),  0};
    fac_module *m = fac_error() || gpt_check_checkpoint(&config, run) ? NULL : gpt_new(&config);
    if (m && !checkpoint_load_model(run, "", m)) return m;
    fac_module_release(m);
    return NULL;
}

static int write_text(const cli_command *self, const generate_options *o) {
    FAC_SCOPE(s);
    notes n = {0};
    fac_module *m = checkpoint_read_notes(o->run, &n) ? NULL : load_model(&n, o->run);
    fac_vocab *vocab = m ? run_vocab(&n) : NULL;
    cli_catch_stop(true);
    fac_status st = vocab ? sample_text(m, vocab, o->prompt, &o->sample, stdout, &cli_stop) : fac_error();
    fac_vocab_release(vocab);
    fac_module_release(m);
    notes_free(&n);
    return st ? cli_failed(self) : cli_stop ? 130 : CLI_OK;
}

static int generate(const cli_command *self, int argc, char **argv) {
    generate_options o = {.prompt = "",
                          .sample = {.tokens = 500, .temperature = 0.8, .top_k = 40, .seed = 1, .indent = ""}};
    int code = parse(self, argc, argv, &o);
    if (code != CLI_OK) return code;
    if (fac_init() || (o.threads && fac_set_num_threads((int)o.threads))) return cli_failed(self);
    return write_text(self, &o);
}

const cli_command cli_generate = {"generate", "write text with a trained model", HELP, generate};
