/* Whether a checkpoint's tensors are those of a configuration. */
#include "checkpoint.h"
#include "gpt.h"

static fac_status disagree(const char *dir, const char *setting, int64_t says, int64_t is) {
    return fac_error_set(FAC_ERR_FORMAT, "the checkpoint of '%s': %s is %lld, but its tensors make %lld", dir, setting,
                         (long long)says, (long long)is);
}

/* Compares a matrix of the file with [rows, columns], whose settings are so called. */
static fac_status check_matrix(const fac_safetensors *f, const char *dir, const char *name, int64_t rows,
                               const char *row_setting, int64_t columns, const char *column_setting) {
    fac_safetensors_entry e;
    const int64_t i = fac_safetensors_find(f, name);
    if (i < 0 || fac_safetensors_get(f, (size_t)i, &e) || e.sizes.n != 2)
        return fac_error_set(FAC_ERR_FORMAT, "the checkpoint of '%s' has no matrix '%s'", dir, name);
    if (e.sizes.v[0] != rows) return disagree(dir, row_setting, rows, e.sizes.v[0]);
    return e.sizes.v[1] != columns ? disagree(dir, column_setting, columns, e.sizes.v[1]) : FAC_OK;
}

static fac_status check_sizes(const gpt_config *c, const char *dir) {
    const struct {
        const char *name;
        int64_t is;
    } sizes[] = {{"the size of the vocabulary", c->vocab},
                 {"context", c->context},
                 {"dim", c->dim},
                 {"heads", c->heads},
                 {"layers", c->layers}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].is < 1)
            return fac_error_set(FAC_ERR_FORMAT, "the checkpoint of '%s': %s is %lld; it must be at least 1", dir,
                                 sizes[i].name, (long long)sizes[i].is);
    if (c->dim % c->heads == 0 && c->dim <= INT64_MAX / 4) return FAC_OK;
    return fac_error_set(FAC_ERR_FORMAT, "the checkpoint of '%s': dim is %lld, which is no multiple of heads, %lld",
                         dir, (long long)c->dim, (long long)c->heads);
}

/* Each block's largest matrix is there, so that the file is about as large as the model will be. */
static fac_status check_blocks(const gpt_config *c, const char *dir, const fac_safetensors *f) {
    char name[64];
    int64_t n = 0;
    for (;; n++) {
        snprintf(name, sizeof name, "model.blocks.%lld.up.weight", (long long)n);
        if (fac_safetensors_find(f, name) < 0) break;
        const fac_status st = check_matrix(f, dir, name, 4 * c->dim, "4 dim", c->dim, "dim");
        if (st) return st;
    }
    return n == c->layers ? FAC_OK : disagree(dir, "layers", c->layers, n);
}

static fac_status check_tensors(const gpt_config *c, const char *dir, const fac_safetensors *f) {
    static const char words[] = "the size of the vocabulary";
    fac_status st = check_sizes(c, dir);
    if (!st) st = check_matrix(f, dir, "model.tokens.weight", c->vocab, words, c->dim, "dim");
    if (!st) st = check_matrix(f, dir, "model.positions.weight", c->context, "context", c->dim, "dim");
    return st ? st : check_blocks(c, dir, f);
}

fac_status gpt_check_checkpoint(const gpt_config *c, const char *dir) {
    fac_safetensors *f = checkpoint_open(dir);
    if (!f) return fac_error();
    const fac_status st = check_tensors(c, dir, f);
    fac_safetensors_close(f);
    return st;
}
