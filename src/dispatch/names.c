/* Operators by name: a hash table that is searched without a lock, a sorted list, and guesses at misspelt names. */
#include "dispatch/registry.h"

/* Open addressing; entries are only ever added. Grown by publishing a larger copy; older tables stay readable, since a
   search may be under way in one, until shutdown. */
typedef struct name_table {
    struct name_table *older;
    size_t mask, n;
    _Atomic(fac_operator *) v[];
} name_table;

static _Atomic(name_table *) names;
static struct {
    fac_operator **v;
    size_t n, cap;
} listing;

static size_t hash(const char *s) {
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return (size_t)(h ^ h >> 32);
}

/* The slot that holds the name, or the free one where it belongs. */
static size_t slot_of(const name_table *t, const char *name) {
    size_t i = hash(name) & t->mask;
    for (;; i = (i + 1) & t->mask) {
        const fac_operator *op = atomic_load_explicit(&t->v[i], memory_order_acquire);
        if (!op || strcmp(op->name, name) == 0) return i;
    }
}

/* Without a lock: the entry of this name, declared or not; NULL if there is none. */
static fac_operator *find_entry(const char *name) {
    name_table *t = atomic_load_explicit(&names, memory_order_acquire);
    return t ? atomic_load_explicit(&t->v[slot_of(t, name)], memory_order_acquire) : NULL;
}

/* Room for one more entry at a load of at most one half. */
static fac_status reserve(void) {
    name_table *old = atomic_load_explicit(&names, memory_order_relaxed);
    if (old && 2 * (old->n + 1) <= old->mask + 1) return FAC_OK;
    size_t slots = old ? 2 * (old->mask + 1) : 256;
    name_table *t = fac__alloc_zero(sizeof *t + slots * sizeof t->v[0]);
    if (!t) return FAC_ERR_MEMORY;
    t->older = old;
    t->mask = slots - 1;
    for (size_t i = 0; old && i <= old->mask; i++) {
        fac_operator *op = atomic_load_explicit(&old->v[i], memory_order_relaxed);
        if (!op) continue;
        atomic_init(&t->v[slot_of(t, op->name)], op);
        t->n++;
    }
    atomic_store_explicit(&names, t, memory_order_release);
    return FAC_OK;
}

/* "ns::name" or "ns::name.overload". */
static bool is_full_name(const char *s) {
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t n = strspn(s, word);
    if (!n || strncmp(s + n, "::", 2) != 0) return false;
    s += n + 2;
    n = strspn(s, word);
    if (!n || !s[n]) return n != 0;
    return s[n] == '.' && s[n + 1] && s[n + 1 + strspn(s + n + 1, word)] == 0;
}

static void entry_free(fac_operator *op, bool fixed) {
    if (op->registry) fac__free(op->registry->v);
    fac__free(op->registry);
    fac__free((char *)(uintptr_t)op->name);
    if (fixed)
        memset(op, 0, sizeof *op);
    else
        fac__free(op);
}

fac_status fac__entry_make(const char *name, fac_operator *fixed, fac_operator **out) {
    *out = find_entry(name);
    if (*out) return FAC_OK;
    FAC_CHECK(is_full_name(name), FAC_ERR_ARGUMENT,
              "'%s' is no operator's full name, which reads \"namespace::name\" or \"namespace::name.overload\"", name);
    FAC_TRY(reserve());
    fac_operator *op = fixed ? fixed : fac__alloc_zero(sizeof *op);
    if (!op) return FAC_ERR_MEMORY;
    op->name = fac__strdup(name);
    op->registry = fac__alloc_zero(sizeof *op->registry);
    if (!op->name || !op->registry) {
        entry_free(op, fixed != NULL);
        return FAC_ERR_MEMORY;
    }
    op->registry->fixed = fixed != NULL;
    name_table *t = atomic_load_explicit(&names, memory_order_relaxed);
    atomic_store_explicit(&t->v[slot_of(t, name)], op, memory_order_release);
    t->n++;
    *out = op;
    return FAC_OK;
}

void fac__names_free(void) {
    name_table *t = atomic_exchange_explicit(&names, NULL, memory_order_acq_rel);
    for (size_t i = 0; t && i <= t->mask; i++) {
        fac_operator *op = atomic_load_explicit(&t->v[i], memory_order_relaxed);
        if (op) entry_free(op, op->registry->fixed);
    }
    while (t) {
        name_table *older = t->older;
        fac__free(t);
        t = older;
    }
    fac__free(listing.v);
    listing.v = NULL;
    listing.n = listing.cap = 0;
}

/* ---- in order of name -------------------------------------------------------------------------------------------- */

/* Where the name is or belongs. */
static size_t listing_index(const char *name) {
    size_t lo = 0, hi = listing.n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (strcmp(listing.v[mid]->name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

fac_status fac__listing_reserve(void) { return FAC_VEC_GROW(&listing); }

void fac__listing_add(fac_operator *op) {
    size_t i = listing_index(op->name);
    memmove(listing.v + i + 1, listing.v + i, (listing.n - i) * sizeof *listing.v);
    listing.v[i] = op;
    listing.n++;
}

void fac__listing_remove(const fac_operator *op) {
    size_t i = listing_index(op->name);
    if (i >= listing.n || listing.v[i] != op) return;
    listing.n--;
    memmove(listing.v + i, listing.v + i + 1, (listing.n - i) * sizeof *listing.v);
}

size_t fac__listing(fac_operator *const **out) {
    *out = listing.v;
    return listing.n;
}

size_t fac_operator_count(void) {
    if (fac_init() != FAC_OK) return 0;
    fac__registry_lock();
    size_t n = listing.n;
    fac__registry_unlock();
    return n;
}

const fac_operator *fac_operator_at(size_t i) {
    if (fac_init() != FAC_OK) return NULL;
    fac__registry_lock();
    const fac_operator *op = i < listing.n ? listing.v[i] : NULL;
    size_t n = listing.n;
    fac__registry_unlock();
    if (!op) FAC_FAIL(FAC_ERR_INDEX, "there is no operator %zu; there are %zu", i, n);
    return op;
}

/* ---- misspelt names ---------------------------------------------------------------------------------------------- */

#define MAX_GUESSED 80

/* Edit distance of two texts, of which only the first characters count. */
static size_t distance(const char *a, const char *b) {
    size_t row[MAX_GUESSED + 1], na = strnlen(a, MAX_GUESSED), nb = strnlen(b, MAX_GUESSED);
    for (size_t j = 0; j <= nb; j++) row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[nb];
}

static const char *after_namespace(const char *name) {
    const char *colons = strstr(name, "::");
    return colons ? colons + 2 : name;
}

/* How far an operator's name is from what was asked for: another overload or namespace of the same name is nearest. */
static size_t remoteness(const char *asked, const char *name) {
    const char *a = after_namespace(asked), *b = after_namespace(name);
    size_t base_a = strcspn(a, "."), base_b = strcspn(b, ".");
    if (base_a == base_b && memcmp(a, b, base_a) == 0) return 0;
    size_t whole = distance(a, b);
    char base[MAX_GUESSED];
    snprintf(base, sizeof base, "%.*s", (int)base_b, b);
    size_t part = a[base_a] ? whole : distance(a, base);
    return 1 + (part < whole ? part : whole);
}

#define GUESSES 4

/* Appends the nearest names, if any is near enough, as "; did you mean 'a', 'b'?". */
static void add_guesses(fac_buf *b, const char *asked) {
    const char *best[GUESSES] = {NULL};
    size_t score[GUESSES], n = 0, limit = 2 + strlen(after_namespace(asked)) / 4;
    for (size_t i = 0; i < listing.n; i++) {
        size_t far = remoteness(asked, listing.v[i]->name);
        if (far > limit || (n == GUESSES && far >= score[n - 1])) continue;
        size_t at = n < GUESSES ? n++ : GUESSES - 1;
        for (; at > 0 && score[at - 1] > far; at--) {
            score[at] = score[at - 1];
            best[at] = best[at - 1];
        }
        score[at] = far;
        best[at] = listing.v[i]->name;
    }
    for (size_t i = 0; i < n; i++) fac__buf_printf(b, "%s'%s'", i ? ", " : "; did you mean ", best[i]);
    if (n) fac__buf_printf(b, "?");
}

static void unknown_operator(const char *name, const fac_operator *entry) {
    if (entry) {
        FAC_FAIL(FAC_ERR_NOT_FOUND,
                 "operator '%s' has no schema (kernels may come first, but it must be declared before a call)", name);
        return;
    }
    fac_buf b = {0};
    fac__registry_lock();
    add_guesses(&b, name);
    fac__registry_unlock();
    size_t left_out = fac__builtin_ops_left_out();
    if (left_out) fac__buf_printf(&b, "; %zu operators are left out of this build", left_out);
    FAC_FAIL(FAC_ERR_NOT_FOUND, "there is no operator '%s'%s", name, b.data ? b.data : "");
    fac__buf_free(&b);
}

const fac_operator *fac_operator_lookup(const char *name) {
    if (!name || fac_init() != FAC_OK) return NULL;
    const fac_operator *op = find_entry(name);
    return op && atomic_load_explicit(&op->registry->definition, memory_order_acquire) ? op : NULL;
}

const fac_operator *fac_operator_find(const char *name) {
    const fac_operator *op = fac_operator_lookup(name);
    if (op || fac_error() != FAC_OK) return op;
    if (name)
        unknown_operator(name, find_entry(name));
    else
        FAC_FAIL(FAC_ERR_ARGUMENT, "fac_operator_find needs an operator's name, but it is NULL");
    return NULL;
}

/* ---- what an operator says of itself ----------------------------------------------------------------------------- */

static const fac_schema *schema_of(const fac_operator *op) {
    const fac_schema *s = op ? atomic_load_explicit(&op->schema, memory_order_acquire) : NULL;
    if (!s)
        FAC_FAIL(FAC_ERR_ARGUMENT, "an operator is expected, from fac_operator_find, but %s",
                 op ? "it is not declared" : "it is NULL");
    return s;
}

const char *fac_operator_name(const fac_operator *op) { return schema_of(op) ? op->name : ""; }

const char *fac_operator_schema(const fac_operator *op) {
    const fac_schema *s = schema_of(op);
    return s ? s->text : "";
}

const char *fac_operator_doc(const fac_operator *op) { return schema_of(op) && op->doc ? op->doc : ""; }

bool fac_operator_has_tag(const fac_operator *op, const char *tag) {
    if (!schema_of(op) || !tag) return false;
    for (const char *const *t = op->tags; t && *t; t++)
        if (strcmp(*t, tag) == 0) return true;
    return false;
}

bool fac_operator_has_kernel(const fac_operator *op, const char *key) {
    fac_key k;
    if (!schema_of(op) || fac_key_parse(key, &k) != FAC_OK) return false;
    if (k.functionality == FAC_KEY_ANY || (k.backend == FAC_ALL_BACKENDS && fac__slot_mask[k.functionality])) {
        FAC_FAIL(FAC_ERR_ARGUMENT,
                 "fac_operator_has_kernel needs a key such as CPU or AutogradCPU, but %s stands for many", key);
        return false;
    }
    const int slot = fac__slot(k.functionality, k.backend == FAC_ALL_BACKENDS ? 0 : k.backend);
    const fac_kernel *kernel = atomic_load_explicit(&op->table[slot], memory_order_acquire);
    return !kernel->fallthrough && strcmp(kernel->label, "missing") != 0;
}

static bool is_declared(const fac_operator *op) {
    return op && atomic_load_explicit(&op->schema, memory_order_acquire);
}

fac_status fac_operator_facts_of(const fac_operator *op, fac_operator_facts *out_facts) {
    const fac_schema *s = schema_of(op);
    if (!s) return fac_error();
    FAC_CHECK(out_facts, FAC_ERR_ARGUMENT, "fac_operator_facts_of needs a place for the facts, but it is NULL");
    FAC_CHECK(s->n_args <= 64, FAC_ERR_UNSUPPORTED, "%s has %zu arguments, and facts have room for 64", op->name,
              s->n_args);
    uint64_t shared = 0, writes = 0, aliases = 0;
    for (size_t i = 0; i < s->n_rets; i++) shared |= s->rets[i].type.before;
    for (size_t i = 0; i < s->n_args; i++) {
        const fac_schema_type *t = &s->args[i].type;
        writes |= (uint64_t)t->write << i;
        aliases |= (uint64_t)((t->before & shared) != 0) << i;
    }
    const fac_builtin_facts *f = op->facts;
    *out_facts = (fac_operator_facts){
        .functional = writes ? NULL : op, .writes = writes, .aliases = aliases, .gradient = "unknown"};
    if (!f) return FAC_OK;
    *out_facts = (fac_operator_facts){
        .functional = is_declared(f->functional) ? f->functional : NULL, /* a selective build may lack it */
        .writes = writes | f->updates,
        .aliases = aliases | f->shares,
        .fills = f->fills,
        .data_dependent = f->data_dependent,
        .offsets = f->offsets,
        .combines = (fac_combining)f->combines,
        .gradient = f->gradient,
    };
    return FAC_OK;
}

size_t fac_operator_arg_count(const fac_operator *op) {
    const fac_schema *s = schema_of(op);
    return s ? s->n_args : 0;
}

size_t fac_operator_return_count(const fac_operator *op) {
    const fac_schema *s = schema_of(op);
    return s ? s->n_rets : 0;
}
