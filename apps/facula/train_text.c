/* Training a small GPT on text. */
#include "gpt.h"
#include "sample.h"
#include "train.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VALID_BATCHES = 8 };

typedef struct text_data {
    fac_corpus *corpus;
    fac_span train, valid;
    uint64_t order; /* random state of the training windows */
} text_data;

static fac_tensor *batch_loss(train_job *j) {
    text_data *d = j->data;
    const train_options *o = j->options;
    fac_tensor *x = NULL, *y = NULL;
    if (fac_corpus_batch(d->corpus, d->train, o->batch, o->context, &d->order, &x, &y)) return NULL;
    return gpt_loss(j->model, train_on_device(j, x), train_on_device(j, y));
}

/* The same windows every time, so that figures can be compared. */
static fac_status validate(train_job *j, double *out_loss, double *extra) {
    text_data *d = j->data;
    const train_options *o = j->options;
    uint64_t order = 12345;
    double sum = 0;
    for (int i = 0; i < VALID_BATCHES; i++) {
        FAC_SCOPE(s);
        fac_tensor *x = NULL, *y = NULL;
        fac_status st = fac_corpus_batch(d->corpus, d->valid, o->batch, o->context, &order, &x, &y);
        if (st) return st;
        sum += fac_item(gpt_loss(j->model, train_on_device(j, x), train_on_device(j, y)));
    }
    *out_loss = sum / VALID_BATCHES;
    *extra = NAN;
    return fac_error();
}

static void save_order(train_job *j) { notes_set_int(&j->notes, "order", (int64_t)((text_data *)j->data)->order); }
static void load_order(train_job *j) { ((text_data *)j->data)->order = (uint64_t)notes_int(&j->notes, "order"); }

static fac_status split(text_data *d, const train_options *o) {
    const int64_t n = fac_corpus_tokens(d->corpus), held_out = n / 10, least = o->context + 1;
    if (held_out < least)
        return fac_error_set(FAC_ERR_ARGUMENT,
                             "the text has %lld tokens; with a context of %lld it needs at least %lld", (long long)n,
                             (long long)o->context, (long long)(10 * least));
    d->train = (fac_span){0, n - held_out};
    d->valid = (fac_span){n - held_out, n};
    return FAC_OK;
}

/* A resumed run must see the same text, or its losses mean nothing. */
static fac_status check_same_text(const train_job *j, const text_data *d) {
    const int64_t then = notes_int(&j->notes, "tokens"), is = fac_corpus_tokens(d->corpus);
    if (fac_error() || then == is) return fac_error();
    return fac_error_set(FAC_ERR_STATE, "the text has changed since the run began: %lld tokens then, %lld now",
                         (long long)then, (long long)is);
}

static fac_status open_text(train_job *j, text_data *d) {
    const train_options *o = j->options;
    const char *characters = o->resume ? notes_get(&j->notes, "vocab") : NULL;
    fac_vocab *vocab = NULL;
    if (characters) vocab = characters[0] ? fac_vocab_characters(characters, strlen(characters)) : fac_vocab_bytes();
    if (fac_error()) return fac_error();
    d->corpus = fac_corpus_new(o->paths, o->n_paths, .characters = o->characters, .vocab = vocab,
                               .skip_beside = CHECKPOINT_NAME);
    fac_vocab_release(vocab);
    fac_status st = d->corpus ? split(d, o) : fac_error();
    if (!st && o->resume) st = check_same_text(j, d);
    if (st) return st;
    notes_set(&j->notes, "vocab", fac_vocab_text(fac_corpus_vocab(d->corpus)));
    notes_set_int(&j->notes, "tokens", fac_corpus_tokens(d->corpus));
    return fac_error();
}

static void describe(const train_job *j) {
    const text_data *d = j->data;
    const train_options *o = j->options;
    char bytes[32];
    printf("text: %lld files, %s, %lld tokens of %lld kinds; a tenth is held out\n",
           (long long)fac_corpus_files(d->corpus), cli_bytes(fac_corpus_bytes(d->corpus), bytes, sizeof bytes),
           (long long)fac_corpus_tokens(d->corpus), (long long)fac_vocab_size(fac_corpus_vocab(d->corpus)));
    printf("model: GPT, %lld layers of %lld, %lld heads, context %lld; %lld parameters\n", (long long)o->layers,
           (long long)o->dim, (long long)o->heads, (long long)o->context,
           (long long)fac_module_parameter_count(j->model));
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
    j->optimizer = fac_adamw_new(j->model, o->lr, .beta2 = 0.95, .weight_decay = o->weight_decay);
    return fac_error();
}

static fac_status show_sample(train_job *j) {
    const text_data *d = j->data;
    const sample_options s = {j->options->sample, 0.8, 40, 1};
    if (s.tokens <= 0) return FAC_OK;
    printf("\na sample of what it learned:\n\n");
    return sample_text(j->model, fac_corpus_vocab(d->corpus), "", &s, stdout, NULL);
}

static void release(void *data) { fac_corpus_release(((text_data *)data)->corpus); }

static const train_kind text_kind = {.name = "text",
                                     .unit = "tokens",
                                     .measure = "validation loss",
                                     .make = make,
                                     .describe = describe,
                                     .loss = batch_loss,
                                     .validate = validate,
                                     .save_order = save_order,
                                     .load_order = load_order,
                                     .show = show_sample,
                                     .release = release};

int train_text(const train_options *o) {
    text_data d = {0};
    return train_run(
        &(train_job){.kind = &text_kind, .options = o, .units_per_step = o->batch * o->context, .data = &d});
}
