/* The parser of allocator options: a table of keys, a lexer that skips blanks, one reader per kind of value.
   source: PyTorch's PYTORCH_CUDA_ALLOC_CONF (c10::CachingAllocator::AcceleratorAllocatorConfig), whose keys and blanks it takes */
#include "backend/cuda/runtime/alloc_config.h"
#include <stddef.h>
#include <stdlib.h>

enum { TOKEN = 64, VALUE = 256 };
static const int64_t MIB = 1 << 20;

typedef struct parser {
    const char *at, *where;
    char token[TOKEN]; /* the token read last, "" at the end */
    const char *key;   /* of the option being read */
    fac_alloc_option other;
    const void *context;
    fac_alloc_config c;
    bool native_only; /* an option that the asynchronous back end ignores */
} parser;

/* ---- the lexer ----------------------------------------------------------------------------------------------------- */

static bool is_mark(char c) { return c == ',' || c == ':' || c == '[' || c == ']'; }

static const char *skip_blanks(const char *p) {
    while (*p == ' ') p++;
    return p;
}

/* Reads a token: one of , : [ ] or a word, whose blanks are dropped. */
static fac_status next(parser *p) {
    size_t n = 0;
    p->at = skip_blanks(p->at);
    if (is_mark(*p->at)) {
        p->token[n++] = *p->at++;
    } else {
        for (; *p->at && !is_mark(*p->at); p->at++) {
            if (*p->at == ' ') continue;
            FAC_CHECK(n + 1 < TOKEN, FAC_ERR_ARGUMENT, "%s: a word is longer than %d letters: '%.*s...'", p->where,
                      TOKEN - 1, 20, p->token);
            p->token[n++] = *p->at;
        }
    }
    p->token[n] = '\0';
    return FAC_OK;
}

static bool is(const parser *p, const char *text) { return strcmp(p->token, text) == 0; }

static fac_status expect(parser *p, const char *mark, const char *after) {
    FAC_TRY(next(p));
    FAC_CHECK(is(p, mark), FAC_ERR_ARGUMENT, "%s: expected '%s' after '%s', found '%s'", p->where, mark, after,
              *p->token ? p->token : "the end");
    return FAC_OK;
}

static fac_status bad_value(const parser *p, const char *expected) {
    return FAC_FAIL(FAC_ERR_ARGUMENT, "%s: %s is '%s', but must be %s", p->where, p->key,
                    *p->token ? p->token : "missing", expected);
}

/* ---- values ---------------------------------------------------------------------------------------------------------- */

/* The token as a number of at most `hi`; false if it is not one. */
static bool whole(const char *token, int64_t hi, int64_t *out) {
    int64_t v = 0;
    if (!*token) return false;
    for (const char *s = token; *s; s++) {
        if (*s < '0' || *s > '9') return false;
        v = v * 10 + (*s - '0');
        if (v > hi) return false;
    }
    *out = v;
    return true;
}

static bool is_power2(int64_t v) { return v > 0 && (v & (v - 1)) == 0; }

static fac_status read_bool(parser *p, void *out) {
    if (!is(p, "True") && !is(p, "False")) return bad_value(p, "True or False");
    *(bool *)out = is(p, "True");
    return FAC_OK;
}

/* Mebibytes into bytes. */
static fac_status read_mib(parser *p, void *out) {
    int64_t v;
    if (!whole(p->token, INT64_MAX / MIB / 16, &v) || v == 0) return bad_value(p, "a positive number of MiB");
    *(int64_t *)out = v * MIB;
    return FAC_OK;
}

static fac_status read_segment(parser *p, void *out) {
    int64_t v;
    if (!whole(p->token, 1 << 20, &v) || v < 10 || v % 2) return bad_value(p, "an even number of MiB, at least 10");
    *(int64_t *)out = v * MIB;
    return FAC_OK;
}

static fac_status read_threads(parser *p, void *out) {
    int64_t v;
    if (!whole(p->token, FAC_MAX_REGISTER_THREADS, &v) || !is_power2(v))
        return bad_value(p, "a power of two, at most 128");
    *(int64_t *)out = v;
    return FAC_OK;
}

/* A decimal number without sign, such as 0.8 or 1e-3. */
static bool fraction(const char *token, double *out) {
    char *end;
    if (strspn(token, "0123456789.eE+-") != strlen(token) || !(*token == '.' || (*token >= '0' && *token <= '9')))
        return false;
    *out = strtod(token, &end);
    return *end == '\0';
}

static fac_status read_open_fraction(parser *p, void *out) {
    double v;
    if (!fraction(p->token, &v) || !(v > 0 && v < 1)) return bad_value(p, "between 0 and 1, neither included");
    *(double *)out = v;
    return FAC_OK;
}

static fac_status read_fraction(parser *p, void *out) {
    double v;
    if (!fraction(p->token, &v) || !(v >= 0 && v <= 1)) return bad_value(p, "between 0 and 1");
    *(double *)out = v;
    return FAC_OK;
}

static fac_status read_backend(parser *p, void *out) {
    if (!is(p, "native") && !is(p, "cudaMallocAsync")) return bad_value(p, "native or cudaMallocAsync");
    *(bool *)out = is(p, "cudaMallocAsync");
    return FAC_OK;
}

static const int64_t MAX_DIVISIONS = 1 << 20;

/* One "interval:divisions" of a list; *last is the interval named before, -1 at first. PyTorch's rules: the first entry
   also holds for all smaller sizes, '>' for the last named interval and all above it, and what is not named is not rounded. */
static fac_status read_interval(parser *p, int64_t *v, int *last) {
    int64_t mib = 0, divisions;
    bool above = is(p, ">");
    if (!above && (!whole(p->token, INT64_MAX / 16, &mib) || !is_power2(mib)))
        return bad_value(p, "a list whose intervals are powers of two (in MiB), or '>'");
    FAC_TRY(expect(p, ":", "an interval of roundup_power2_divisions"));
    FAC_TRY(next(p));
    if (!whole(p->token, MAX_DIVISIONS, &divisions) || (divisions && !is_power2(divisions)))
        return bad_value(p, "a list whose divisions are 0 or powers of two");
    int i = above ? FAC_ROUNDUP_INTERVALS - 1 : 63 - __builtin_clzll((unsigned long long)mib);
    if (i >= FAC_ROUNDUP_INTERVALS) i = FAC_ROUNDUP_INTERVALS - 1;
    int from = above ? (*last < 0 ? 0 : *last) : *last < 0 ? 0 : i;
    for (int k = from; k <= i; k++) v[k] = divisions;
    if (!above) *last = i;
    return FAC_OK;
}

static fac_status read_roundup(parser *p, void *out) {
    int64_t *v = out, all;
    int last = -1;
    if (!is(p, "[")) {
        if (!whole(p->token, MAX_DIVISIONS, &all) || !is_power2(all)) return bad_value(p, "a power of two or a list");
        for (int i = 0; i < FAC_ROUNDUP_INTERVALS; i++) v[i] = all;
        return FAC_OK;
    }
    memset(v, 0, FAC_ROUNDUP_INTERVALS * sizeof *v);
    FAC_TRY(next(p));
    while (!is(p, "]")) {
        FAC_TRY(read_interval(p, v, &last));
        FAC_TRY(next(p));
        if (is(p, "]")) break;
        if (!is(p, ",")) return bad_value(p, "a list that ends with ']'");
        FAC_TRY(next(p));
    }
    return FAC_OK;
}

/* ---- options ---------------------------------------------------------------------------------------------------------- */

static const struct option {
    const char *key;
    fac_status (*read)(parser *p, void *out);
    size_t field;
    bool native_only;
} options[] = {
#define OPTION(key, read, field, native_only) \
    { key, read, offsetof(fac_alloc_config, field), native_only }
    OPTION("backend", read_backend, async, false),
    OPTION("large_segment_size_mb", read_segment, large_segment, true),
    OPTION("max_split_size_mb", read_mib, max_split, true),
    OPTION("max_non_split_rounding_mb", read_mib, max_non_split_rounding, true),
    OPTION("garbage_collection_threshold", read_open_fraction, gc_threshold, true),
    OPTION("roundup_power2_divisions", read_roundup, roundup, true),
    OPTION("expandable_segments", read_bool, expandable, true),
    OPTION("release_lock_on_cudamalloc", read_bool, release_lock, true),
    OPTION("graph_capture_record_stream_reuse", read_bool, capture_reuse, true),
    OPTION("per_process_memory_fraction", read_fraction, memory_fraction, false),
    OPTION("throw_on_cudamalloc_oom", read_bool, reject_early, true),
    OPTION("pinned_use_cuda_host_register", read_bool, pinned_register, false),
    OPTION("pinned_num_register_threads", read_threads, pinned_threads, false),
    OPTION("pinned_use_background_threads", read_bool, pinned_background, false),
    OPTION("pinned_reserve_segment_size_mb", read_mib, pinned_reserve, false),
    OPTION("pinned_max_round_threshold_mb", read_mib, pinned_max_round, false),
    OPTION("pinned_max_cached_size_mb", read_mib, pinned_max_cached, false),
    OPTION("pinned_free_catch_all", read_bool, pinned_catch_all, false),
#undef OPTION
};

static const struct option *find_option(const char *key) {
    for (size_t i = 0; i < FAC_COUNT(options); i++)
        if (strcmp(options[i].key, key) == 0) return &options[i];
    return NULL;
}

/* The value of an unknown option as text, up to the comma that ends it; the parser is then after it. */
static fac_status hand_over(parser *p) {
    char key[TOKEN], value[VALUE];
    size_t n = 0, depth = 0;
    strcpy(key, p->token);
    FAC_CHECK(p->other, FAC_ERR_ARGUMENT, "%s: there is no option '%s'", p->where, key);
    FAC_TRY(expect(p, ":", key));
    for (; *p->at && (depth || *p->at != ','); p->at++) {
        if (*p->at == ' ') continue;
        if (*p->at == '[') depth++;
        if (*p->at == ']' && depth) depth--;
        FAC_CHECK(n + 1 < VALUE, FAC_ERR_ARGUMENT, "%s: the value of '%s' is too long", p->where, key);
        value[n++] = *p->at;
    }
    value[n] = '\0';
    return p->other(p->context, key, value);
}

static fac_status read_option(parser *p) {
    const struct option *o = find_option(p->token);
    if (!o) return hand_over(p);
    p->key = o->key;
    p->native_only |= o->native_only;
    FAC_TRY(expect(p, ":", o->key));
    FAC_TRY(next(p));
    return o->read(p, (char *)&p->c + o->field);
}

/* What no option alone can tell. */
static fac_status check_together(parser *p) {
    fac_alloc_config *c = &p->c;
    if (c->max_non_split_rounding == 0) c->max_non_split_rounding = c->large_segment;
    const int64_t least = c->large_segment / MIB;
    FAC_CHECK(c->max_split >= c->large_segment, FAC_ERR_ARGUMENT,
              "%s: max_split_size_mb is %lld, but must be at least large_segment_size_mb, %lld", p->where,
              (long long)(c->max_split / MIB), (long long)least);
    FAC_CHECK(c->max_non_split_rounding >= c->large_segment, FAC_ERR_ARGUMENT,
              "%s: max_non_split_rounding_mb is %lld, but must be at least large_segment_size_mb, %lld", p->where,
              (long long)(c->max_non_split_rounding / MIB), (long long)least);
    c->ignores_some = c->async && p->native_only;
    return FAC_OK;
}

fac_status fac__alloc_config_parse(const char *text, const char *where, fac_alloc_option other, const void *context,
                                   fac_alloc_config *out) {
    parser p = {.at = text ? text : "", .where = where, .other = other, .context = context};
    p.c = (fac_alloc_config){.large_segment = 20 * MIB,
                             .max_split = INT64_MAX,
                             .memory_fraction = -1,
                             .release_lock = true,
                             .pinned_threads = 1,
                             .pinned_max_round = INT64_MAX,
                             .pinned_max_cached = INT64_MAX};
    FAC_TRY(next(&p));
    while (*p.token) {
        FAC_TRY(read_option(&p));
        FAC_TRY(next(&p));
        if (!*p.token) break;
        FAC_CHECK(is(&p, ","), FAC_ERR_ARGUMENT, "%s: expected ',' between options, found '%s'", where, p.token);
        FAC_TRY(next(&p));
    }
    FAC_TRY(check_together(&p));
    *out = p.c;
    return FAC_OK;
}

const char *fac__alloc_config_env(const char **out_name) {
    static const char *const names[] = {"FACULA_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};
    for (size_t i = 0; i < FAC_COUNT(names); i++) {
        const char *text = fac__env(*out_name = names[i]);
        if (text) return text;
    }
    *out_name = names[0];
    return "";
}

/* ---- rounding ---------------------------------------------------------------------------------------------------------- */

int64_t fac__alloc_divisions(const fac_alloc_config *c, int64_t bytes) {
    int i = 63 - __builtin_clzll((unsigned long long)bytes | 1) - 20;
    return c->roundup[i < 0 ? 0 : i >= FAC_ROUNDUP_INTERVALS ? FAC_ROUNDUP_INTERVALS - 1 : i];
}

int64_t fac__alloc_roundup(int64_t bytes, int64_t divisions) {
    if (is_power2(bytes)) return bytes;
    int64_t below = (int64_t)1 << (63 - __builtin_clzll((unsigned long long)bytes));
    int64_t step = below / divisions;
    if (step == 0) return below << 1;
    return (bytes + step - 1) & ~(step - 1);
}
