/* facula generate: text from a trained model. */
#include "checkpoint.h"
#include "cli.h"
#include "gpt.h"
#include "sample.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const char HELP[] =
    "usage: facula generate [OPTION...] [FOLDER]\n"
    "\n"
    "Writes text with the model of a run folder of 'facula train' (default runs/last).\n"
    "\n"
    "  --prompt TEXT      what the text begins with (default a new line)\n"
    "  --tokens N         how many tokens to write (default 500)\n"
    "  --temperature X    below 1 bolder, above 1 wilder, 0 always the likeliest token (default 0.8)\n"
    "  --top-k N          draw among the N likeliest tokens, 0 for all (default 40)\n"
    "  --seed N           the same seed writes the same text (default 1)\n"
    "  --threads N        of the CPU kernels\n";

typedef struct generate_options {
    const char *run, *prompt;
    sample_options sample;
    int64_t threads;
} generate_options;

static volatile int stop;
static void on_signal(int number) {
    (void)number;
    stop = 1;
}

static bool parse_int(const char *text, int64_t least, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return !errno && end != text && !*end && *out >= least;
}

static bool parse_double(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && *out >= 0 && *out < 1e9;
}

/* Sets the option; false if the value is not one. *known tells whether there is such an option. */
static bool set(generate_options *o, const char *option, const char *value, bool *known) {
    int64_t seed;
    *known = true;
    if (strcmp(option, "--prompt") == 0) return o->prompt = value, true;
    if (strcmp(option, "--tokens") == 0) return parse_int(value, 1, &o->sample.tokens);
    if (strcmp(option, "--top-k") == 0) return parse_int(value, 0, &o->sample.top_k);
    if (strcmp(option, "--threads") == 0) return parse_int(value, 1, &o->threads);
    if (strcmp(option, "--temperature") == 0) return parse_double(value, &o->sample.temperature);
    if (strcmp(option, "--seed") == 0) {
        const bool ok = parse_int(value, 0, &seed);
        o->sample.seed = (uint64_t)seed;
        return ok;
    }
    *known = false;
    return false;
}

static int parse(const cli_command *self, int argc, char **argv, generate_options *o) {
    cli_args a = {.command = self, .argc = argc, .argv = argv, .at = 1};
    bool is_option, known;
    for (const char *arg; (arg = cli_next(&a, &is_option)) != NULL;) {
        if (!is_option) {
            o->run = arg;
            continue;
        }
        const char *value = cli_value(&a, arg);
        if (!value) return CLI_USAGE;
        if (!set(o, arg, value, &known))
            return known ? cli_usage_error(self, "%s does not take '%s'", arg, value)
                         : cli_usage_error(self, "there is no option '%s'", arg);
    }
    return CLI_OK;
}

static fac_module *load_model(const notes *n, const char *run) {
    const char *kind = notes_get(n, "kind");
    if (!kind || strcmp(kind, "text") != 0) {
        fac_error_set(FAC_ERR_FORMAT, "'%s' is not the run of a text model", run);
        return NULL;
    }
    const gpt_config config = {notes_int(n, "vocab_size"), notes_int(n, "context"), notes_int(n, "dim"),
                               notes_int(n, "heads"),      notes_int(n, "layers"),  0};
    fac_module *m = fac_error() ? NULL : gpt_new(&config);
    if (m && !checkpoint_load(run, m, NULL)) return m;
    fac_module_release(m);
    return NULL;
}

static int write_text(const cli_command *self, const generate_options *o) {
    FAC_SCOPE(s);
    notes n = {0};
    fac_module *m = checkpoint_read_notes(o->run, &n) ? NULL : load_model(&n, o->run);
    const char *text = m ? notes_get(&n, "vocab") : NULL;
    fac_vocab *vocab = !text ? NULL : text[0] ? fac_vocab_characters(text, strlen(text)) : fac_vocab_bytes();
    if (m && !text) fac_error_set(FAC_ERR_FORMAT, "the checkpoint does not say which vocabulary it uses");
    signal(SIGINT, on_signal);
    fac_status st = vocab ? sample_text(m, vocab, o->prompt, &o->sample, stdout, &stop) : fac_error();
    fac_vocab_release(vocab);
    fac_module_release(m);
    notes_free(&n);
    return st ? cli_failed(self) : stop ? 130 : CLI_OK;
}

static int generate(const cli_command *self, int argc, char **argv) {
    generate_options o = {"runs/last", "", {500, 0.8, 40, 1}, 0};
    int code = parse(self, argc, argv, &o);
    if (code != CLI_OK) return code;
    if (fac_init() || (o.threads && fac_set_num_threads((int)o.threads))) return cli_failed(self);
    return write_text(self, &o);
}

const cli_command cli_generate = {"generate", "write text with a trained model", HELP, generate};
