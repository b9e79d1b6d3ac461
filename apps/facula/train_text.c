/* Training a small GPT on text. */
#include "gpt.h"
#include "muon.h"
#include "optimizers.h"
#include "report.h"
#include "run_vocab.h"
#include "sample.h"
#include "train.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VALIDATION_STRIDE = 8 };

typedef struct text_data {
    fac_corpus *corpus;
    uint64_t order; /* random state of the training windows */
} text_data;

static fac_tensor *batch_loss(train_job *j) {
    text_data *d = j->data;
    const train_options *o = j->options;
    fac_tensor *x = NULL, *y = NULL;
    if (fac_corpus_batch(d->corpus, fac_corpus_training(d->corpus), o->batch, o->context, &d->order, &x, &y))
        return NULL;
    return gpt_loss(j->model, train_on_device(j, x), train_on_device(j, y), FAC_REDUCTION_MEAN);
}

/* Bits per byte of the text that is held out: what the model would need to write it down, over its length. Every token counts
   once, within a window of the model's context. Of the whole, or of every eighth batch of windows. */
static fac_status validate(train_job *j, bool whole, double *out_loss, double *extra) {
    enum { WINDOWS = 16 };
    const text_data *d = j->data;
    const int64_t context = j->options->context;
    fac_span rest = fac_corpus_held_out(d->corpus);
    double nats = 0;
    int64_t bytes = 0;
    while (rest.begin < rest.end) {
        FAC_SCOPE(s);
        fac_tensor *x, *y;
        const int64_t begin = rest.begin;
        if (!fac_corpus_next(d->corpus, &rest, WINDOWS, context, &x, &y)) return fac_error();
        nats += fac_item(gpt_loss(j->shown, train_on_device(j, x), train_on_device(j, y), FAC_REDUCTION_SUM));
        bytes += fac_corpus_span_bytes(d->corpus, (fac_span){begin, rest.begin});
        if (!whole) rest.begin += (VALIDATION_STRIDE - 1) * WINDOWS * context;
    }
    *out_loss = nats / log(2) / (double)bytes;
    *extra = NAN;
    return fac_error();
}

static void save_order(train_job *j) { notes_set_int(&j->notes, "order", (int64_t)((text_data *)j->data)->order); }
static void load_order(train_job *j) { ((text_data *)j->data)->order = (uint64_t)notes_int(&j->notes, "order"); }

static fac_status check_length(const text_data *d, const train_options *o) {
    const fac_span train = fac_corpus_training(d->corpus), held = fac_corpus_held_out(d->corpus);
    if (train.end <= o->context)
        return fac_error_set(FAC_ERR_ARGUMENT,
                             "the text has %lld %s to train on; a context of %lld needs at least %lld",
                             (long long)train.end, cli_word(train.end, "token", "tokens"), (long long)o->context,
                             (long long)o->context + 1);
    if (held.begin < held.end) return FAC_OK;
    const int64_t bytes = fac_corpus_bytes(d->corpus);
    return fac_error_set(FAC_ERR_ARGUMENT, "the text has %lld %s, too few to hold a part of them out", (long long)bytes,
                         cli_word(bytes, "byte", "bytes"));
}

/* A hash (FNV-1a) of the tokens and of where those begin that are held out. */
static int64_t fingerprint(const fac_corpus *c) {
    enum { LENGTH = 4096 };
    fac_span rest = {0, fac_corpus_tokens(c)};
    uint64_t h = 0xcbf29ce484222325u ^ (uint64_t)fac_corpus_training(c).end;
    for (;;) {
        FAC_SCOPE(s);
        fac_tensor *x, *y;
        if (!fac_corpus_next(c, &rest, 1, LENGTH, &x, &y)) break;
        const int64_t *token = fac_tensor_data(y);
        for (int64_t i = 0; i < LENGTH; i++) h = (h ^ (uint64_t)token[i]) * 0x100000001b3u;
    }
    return (int64_t)h;
}

/* A resumed run must see the same text, or its losses mean nothing: a file that has another name may be held out instead of one
   that was before. */
static fac_status check_same_text(const train_job *j, const text_data *d) {
    const int64_t then = notes_int(&j->notes, "tokens"), is = fac_corpus_tokens(d->corpus),
                  hash = notes_int(&j->notes, "text_hash");
    if (fac_error()) return fac_error();
    if (then != is)
        return fac_error_set(FAC_ERR_STATE, "the text has changed since the run began: %lld %s then, %lld now",
                             (long long)then, cli_word(then, "token", "tokens"), (long long)is);
    if (hash != fingerprint(d->corpus))
        fac_error_set(FAC_ERR_STATE, "the text has changed since the run began, or what of it is held out");
    return fac_error();
}

/* The vocabulary of the run that is resumed; NULL for one that begins. */
static fac_vocab *old_vocab(const train_job *j) {
    if (!j->options->resume) return NULL;
    if (notes_get(&j->notes, "vocab_kind")) return run_vocab(&j->notes);
    fac_error_set(FAC_ERR_STATE,
                  "'%s' is a run of Facula 0.1, which held out another part of the text: it can write text, "
                  "but it cannot go on",
                  j->options->out);
    return NULL;
}

/* A line for each file that is held out, with the byte from which on it is. */
static fac_status list_held_out(const train_job *j) {
    const fac_corpus *c = ((const text_data *)j->data)->corpus;
    char path[4096], *text = NULL;
    size_t n = 0;
    fac_status st = run_path(j->options->out, HELD_OUT_NAME, path, sizeof path);
    FILE *f = st ? NULL : open_memstream(&text, &n);
    if (!f) return st ? st : fac_error_set(FAC_ERR_MEMORY, "no memory for the list of files");
    for (int64_t i = 0; i < fac_corpus_files(c); i++) {
        const fac_corpus_file file = fac_corpus_file_at(c, i);
        if (file.held_out > 0) fprintf(f, "%lld\t%s\n", (long long)(file.bytes - file.held_out), file.path);
    }
    st = fclose(f) ? fac_error_set(FAC_ERR_MEMORY, "no memory for the list of files") : FAC_OK;
    if (!st) st = fac_file_replace(path, text, n);
    free(text);
    return st;
}

static fac_corpus *read_corpus(const train_options *o, fac_vocab *vocab) {
    return fac_corpus_new(o->paths, o->n_paths, .characters = o->characters, .bpe = o->characters ? 0 : o->vocab,
                          .vocab = vocab, .hold_out = 0.1, .skip_beside = CHECKPOINT_NAME);
}

static fac_status open_text(train_job *j, text_data *d) {
    const train_options *o = j->options;
    fac_vocab *vocab = old_vocab(j);
    if (fac_error()) return fac_error();
    d->corpus = read_corpus(o, vocab);
    fac_vocab_release(vocab);
    fac_status st = d->corpus ? check_length(d, o) : fac_error();
    if (!st && o->resume) st = check_same_text(j, d);
    if (st) return st;
    run_keep_vocab(&j->notes, fac_corpus_vocab(d->corpus), o->characters);
    notes_set_int(&j->notes, "tokens", fac_corpus_tokens(d->corpus));
    notes_set_int(&j->notes, "text_hash", fingerprint(d->corpus));
    /* A token's loss in nats is worth so many bits per byte. */
    const fac_span train = fac_corpus_training(d->corpus);
    j->scale = (double)(train.end - train.begin) / (double)fac_corpus_span_bytes(d->corpus, train) / log(2);
    return fac_error();
}

/* Whether whole files are held out, and not the end of the text. */
static bool split_by_file(const fac_corpus *c) {
    bool whole = true;
    for (int64_t i = 0; i < fac_corpus_files(c); i++) {
        const fac_corpus_file f = fac_corpus_file_at(c, i);
        whole &= f.held_out == 0 || f.held_out == f.bytes;
    }
    return whole;
}

static void describe(const train_job *j) {
    const text_data *d = j->data;
    const train_options *o = j->options;
    char bytes[32], held[32];
    const fac_corpus *c = d->corpus;
    const int64_t files = fac_corpus_files(c), tokens = fac_corpus_tokens(c),
                  kinds = fac_vocab_size(fac_corpus_vocab(c));
    printf("text: %lld %s, %s, in %lld %s of %lld %s, %.2f bytes each\n", (long long)files,
           cli_word(files, "file", "files"), cli_bytes(fac_corpus_bytes(c), bytes, sizeof bytes), (long long)tokens,
           cli_word(tokens, "token", "tokens"), (long long)kinds, cli_word(kinds, "kind", "kinds"),
           (double)fac_corpus_bytes(c) / (double)tokens);
    printf("held out: %s, %s (listed in %s/" HELD_OUT_NAME ")\n",
           cli_bytes(fac_corpus_span_bytes(c, fac_corpus_held_out(c)), held, sizeof held),
           split_by_file(c) ? "whole files" : "the end of the text, as there are too few files", o->out);
    const int64_t parameters = fac_module_parameter_count(j->model);
    printf("model: GPT, %lld %s of %lld, %lld %s, context %lld; %lld %s\n", (long long)o->layers,
           cli_word(o->layers, "layer", "layers"), (long long)o->dim, (long long)o->heads,
           cli_word(o->heads, "head", "heads"), (long long)o->context, (long long)parameters,
           cli_word(parameters, "parameter", "parameters"));
}

/* Embeddings and the head, whose rows are tokens, move by AdamW. */
static bool is_hidden_matrix(const fac_named *p) {
    return strncmp(p->name, "blocks.", 7) == 0 && fac_tensor_ndim(p->tensor) == 2;
}

static fac_status make(train_job *j) {
    text_data *d = j->data;
    const train_options *o = j->options;
    fac_status st = open_text(j, d);
    if (st) return st;
    const gpt_config config = {
        fac_vocab_size(fac_corpus_vocab(d->corpus)), o->context, o->dim, o->heads, o->layers, o->dropout};
    notes_set_int(&j->notes, "vocab_size", config.vocab);
    d->order = (uint64_t)o->seed;
    if (o->resume && gpt_check_checkpoint(&config, o->out)) return fac_error();
    j->model = gpt_new(&config);
    if (!j->model) return fac_error();
    if (strcmp(o->optimizer, OPTIMIZER_OF_TEXT) == 0)
        j->optimizer = muon_new(j->model, o->lr, o->weight_decay, is_hidden_matrix);
    return fac_error();
}

static fac_status show_sample(train_job *j) {
    const text_data *d = j->data;
    const sample_options s = {
        .tokens = j->options->sample, .temperature = 0.8, .top_k = 40, .seed = 1, .indent = "    "};
    if (s.tokens <= 0) return FAC_OK;
    puts("\na sample of what it learned:");
    return sample_text(j->shown, fac_corpus_vocab(d->corpus), "", &s, stdout, NULL);
}

/* The same beginning every time, so that the samples show how it learns. */
static fac_status glimpse(train_job *j, int64_t step) {
    const text_data *d = j->data;
    const sample_options s = {.tokens = 40, .temperature = 0.8, .top_k = 40, .seed = 1, .indent = "    "};
    printf("after %lld %s it writes:", (long long)step, cli_word(step, "step", "steps"));
    return sample_text(j->shown, fac_corpus_vocab(d->corpus), "", &s, stdout, NULL);
}

static fac_tensor *example(train_job *j) { return fac_zeros(FAC_INTS(1, j->options->context), .dtype = FAC_I64); }

/* What it writes after a new line. */
static fac_status report(train_job *j, FILE *f) {
    const text_data *d = j->data;
    const int64_t most = 300, tokens = j->options->sample < most ? j->options->sample : most;
    const sample_options s = {.tokens = tokens, .temperature = 0.8, .top_k = 40, .seed = 1, .indent = ""};
    char *text = NULL;
    size_t n = 0;
    FILE *out = tokens > 0 ? open_memstream(&text, &n) : NULL;
    if (!out) return FAC_OK;
    fac_status st = sample_text(j->shown, fac_corpus_vocab(d->corpus), "", &s, out, NULL);
    if (fclose(out)) st = fac_error_set(FAC_ERR_MEMORY, "no memory for a sample");
    report_section(f, "What it writes");
    fputs(
        "<p class='note'>Text drawn from the model, token by token, among the 40 likeliest ones at temperature 0.8.</p>"
        "<pre class='sample'>",
        f);
    if (!st) report_text(f, text);
    fputs("</pre></section>\n", f);
    free(text);
    return st;
}

static void release(void *data) { fac_corpus_release(((text_data *)data)->corpus); }

static const train_kind text_kind = {.name = "text",
                                     .unit = "tokens",
                                     .measure = "bits per byte of held-out text:",
                                     .loss_name = "bits/byte",
                                     .axis = "bits per byte",
                                     .parts = VALIDATION_STRIDE,
                                     .make = make,
                                     .describe = describe,
                                     .loss = batch_loss,
                                     .validate = validate,
                                     .save_order = save_order,
                                     .load_order = load_order,
                                     .write_beside = list_held_out,
                                     .show = show_sample,
                                     .glimpse = glimpse,
                                     .example = example,
                                     .report = report,
                                     .release = release};

int train_text(const train_options *o) {
    text_data d = {0};
    return train_run(
        &(train_job){.kind = &text_kind, .options = o, .units_per_step = o->batch * o->context, .data = &d});
}
