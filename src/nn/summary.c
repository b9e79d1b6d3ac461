/* What a model costs: a run in which a hook of each module notes the shape of its output and counts operations. */
#include "nn/module.h"
#include <facula/nn_utils.h>
#include <facula/ops.h>

typedef struct row {
    const char *path;
    fac_module *m;
    char shape[96];
    int64_t operations, bytes;
    int calls, depth;
} row;

static int64_t numel_of(fac_module *m, const char *name) {
    const fac_slot *s = fac__module_slot(m, name);
    return s && s->tensor ? fac_tensor_numel(s->tensor) : 0;
}

static bool named(const fac_module *m, const char *begin) { return strncmp(m->cls->name, begin, strlen(begin)) == 0; }

/* Multiplications and additions of one call; 0 where nothing is counted. */
static int64_t operations_of(fac_module *m, const fac_tensor *x, const fac_tensor *y) {
    const int64_t in = fac_tensor_numel(x), out = fac_tensor_numel(y), w = numel_of(m, "weight");
    if (named(m, "Linear") || named(m, "NonDynamically") || named(m, "Bilinear")) {
        const fac_slot *s = fac__module_slot(m, "weight");
        return s && s->tensor && fac_tensor_size(s->tensor, 0) ? 2 * out * (w / fac_tensor_size(s->tensor, 0)) : 0;
    }
    if (named(m, "ConvTranspose") || named(m, "Conv")) {
        const fac_slot *s = fac__module_slot(m, "weight");
        const int64_t rows = s && s->tensor ? fac_tensor_size(s->tensor, 0) : 0;
        return rows ? 2 * (named(m, "ConvTranspose") ? in : out) * (w / rows) : 0;
    }
    if (named(m, "RNN") || named(m, "LSTM") || named(m, "GRU")) {
        int64_t weights = 0;
        for (size_t i = 0; i < m->slots.n; i++)
            if (m->slots.v[i].tensor && strncmp(m->slots.v[i].name, "weight", 6) == 0)
                weights += fac_tensor_numel(m->slots.v[i].tensor);
        const int64_t features = fac_tensor_size(x, -1);
        return features ? 2 * weights * (in / features) : 0;
    }
    return 0;
}

/* Projections in, scores and their product with the values, of self-attention; the projection out is a module of
   its own. */
static int64_t attention_of(fac_module *m, const fac_tensor *x) {
    const int n = fac_tensor_ndim(x);
    const int64_t dim = fac_tensor_size(x, -1), weights = numel_of(m, "in_proj_weight") + numel_of(m, "q_proj_weight") +
                                                          numel_of(m, "k_proj_weight") + numel_of(m, "v_proj_weight");
    if (n < 2 || !dim) return 0;
    const int64_t positions = fac_tensor_numel(x) / dim, rows = fac_tensor_size(x, 0);
    const int64_t other = rows ? positions / rows : 0;
    const int64_t length = n == 2 ? rows : other < rows ? rows : other;
    return 2 * weights * positions + 4 * positions * length * dim;
}

static fac_tensor *note(void *context, fac_module *m, fac_tensor *x, fac_tensor *y) {
    row *r = context;
    snprintf(r->shape, sizeof r->shape, "%s", FAC_SHAPE_TEXT(fac__header(y)));
    r->operations += named(m, "MultiheadAttention") ? attention_of(m, x) : x ? operations_of(m, x, y) : 0;
    r->bytes += fac_tensor_numel(y) * (int64_t)fac_dtype_size(fac_tensor_dtype(y));
    r->calls++;
    return NULL;
}

static int64_t bytes_of(const fac_state *s) {
    int64_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += fac_tensor_numel(s->v[i].tensor) * (int64_t)fac_dtype_size(fac_tensor_dtype(s->v[i].tensor));
    return n;
}

static int64_t own_parameters(fac_module *m) {
    int64_t n = 0;
    for (size_t i = 0; i < m->slots.n; i++)
        if (m->slots.v[i].kind == FAC_SLOT_PARAMETER && m->slots.v[i].tensor)
            n += fac_tensor_numel(m->slots.v[i].tensor);
    return n;
}

static void print_rows(FILE *f, const row *rows, size_t n) {
    fprintf(f, "%-44s %-24s %14s %16s\n", "module", "output", "parameters", "operations");
    for (size_t i = 0; i < n; i++) {
        const row *r = &rows[i];
        const char *dot = strrchr(r->path, '.'), *name = dot ? dot + 1 : r->path;
        char text[96];
        snprintf(text, sizeof text, "%*s%s%s%s%s", 2 * r->depth, "", name, *name ? " (" : "", r->m->cls->name,
                 *name ? ")" : "");
        fprintf(f, "%-44s %-24s %14lld %16lld\n", text, r->calls ? r->shape : "-", (long long)own_parameters(r->m),
                (long long)r->operations);
    }
}

static fac_status print_sums(FILE *f, fac_module *m, const row *rows, size_t n) {
    int64_t operations = 0, outputs = 0, learned = 0, all = 0;
    fac_state *parameters = fac_module_parameters(m), *buffers = fac_module_buffers(m);
    for (size_t i = 0; i < n; i++) {
        operations += rows[i].operations;
        if (!rows[i].m->children.n) outputs += rows[i].bytes; /* a container's is that of its last part */
    }
    for (size_t i = 0; parameters && i < parameters->n; i++) {
        const int64_t size = fac_tensor_numel(parameters->v[i].tensor);
        all += size;
        if (fac_requires_grad(parameters->v[i].tensor)) learned += size;
    }
    if (parameters && buffers)
        fprintf(
            f,
            "parameters: %lld, learned: %lld\noperations: %lld\nbytes: %lld of parameters, %lld of buffers, %lld of "
            "outputs\n",
            (long long)all, (long long)learned, (long long)operations, (long long)bytes_of(parameters),
            (long long)bytes_of(buffers), (long long)outputs);
    fac_state_free(parameters);
    fac_state_free(buffers);
    FAC_TRY(fac_error());
    FAC_CHECK(!ferror(f), FAC_ERR_IO, "the summary could not be printed");
    return FAC_OK;
}

static int depth_of(const char *path) {
    int n = *path != 0;
    for (; *path; path++) n += *path == '.';
    return n;
}

static fac_status run(fac_module *m, fac_tensors inputs) {
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    return fac_forward_many(m, inputs) ? FAC_OK : fac_error();
}

fac_status fac_module_summary(fac_module *m, fac_tensors inputs, FILE *stream) {
    FAC_TRY(fac_error());
    FAC_CHECK(m && stream, FAC_ERR_ARGUMENT, "the module or the stream is NULL");
    fac_state *all = fac_module_modules(m);
    if (!all) return fac_error();
    row *rows = fac__alloc_zero(all->n * sizeof *rows);
    fac_hook **hooks = fac__alloc_zero(all->n * sizeof(fac_hook *));
    fac_status st = rows && hooks ? FAC_OK : fac_error();
    for (size_t i = 0; i < all->n && !st; i++) {
        rows[i] = (row){.path = all->v[i].name, .m = all->v[i].module, .depth = depth_of(all->v[i].name)};
        if (!(hooks[i] = fac_module_register_forward_hook(rows[i].m, note, &rows[i]))) st = fac_error();
    }
    if (!st) st = run(m, inputs);
    for (size_t i = 0; hooks && i < all->n; i++)
        if (hooks[i]) fac_hook_remove(hooks[i]);
    if (!st) print_rows(stream, rows, all->n);
    if (!st) st = print_sums(stream, m, rows, all->n);
    fac__free(hooks);
    fac__free(rows);
    fac_state_free(all);
    return st;
}
