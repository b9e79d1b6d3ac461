/* Public functions for the names of dimensions: facula/names.h. What they do to the data is done by operators,
   with names masked. */
#include "core/handle.h"
#include "core/nested.h"
#include "ops/call.h"
#include "ops/names.h"
#include "ops_gen.h"
#include <facula/names.h>

/* ---- asking ------------------------------------------------------------------------------------------------- */

bool fac_has_names(const fac_tensor *t) {
    FAC_OPEN(t, "fac_has_names", "t", false);
    return t->names && !fac__names_masked();
}

const char *fac_tensor_name(const fac_tensor *t, int64_t dim) {
    int64_t d;
    fac_dim_names l;
    FAC_OPEN(t, "fac_tensor_name", "t", NULL);
    if (fac__wrap_dim(dim, t->ndim, &d)) return NULL;
    fac__names_of(t, &l);
    return t->ndim ? l.v[d] : NULL;
}

/* The place of a name, which may be another string than that of the list; -1 if it is not there. */
static int find(const fac_dim_names *l, const char *name) {
    for (int i = 0; i < l->n; i++)
        if (l->v[i] && strcmp(l->v[i], name) == 0) return i;
    return -1;
}

static fac_status dim_called(const fac_dim_names *l, const char *name, int *out) {
    FAC_CHECK(name, FAC_ERR_ARGUMENT, "the name of a dimension is NULL");
    *out = find(l, name);
    FAC_CHECK(*out >= 0, FAC_ERR_ARGUMENT, "no dimension is called '%s' in %s", name, FAC_NAMES_TEXT(l));
    return FAC_OK;
}

int64_t fac_dim(const fac_tensor *t, const char *name) {
    fac_dim_names l;
    int at;
    FAC_OPEN(t, "fac_dim", "t", INT64_MIN);
    fac__names_of(t, &l);
    if (dim_called(&l, name, &at) == FAC_OK) return at;
    fac__error_context("fac_dim", "name");
    return INT64_MIN;
}

/* ---- lists of names ----------------------------------------------------------------------------------------- */

static bool is_rest(const char *name) { return name && strcmp(name, "...") == 0; }

/* Whether the list has "...", once at most. errors: ARGUMENT */
static fac_status find_rest(fac_names names, size_t *out_at) {
    *out_at = names.n;
    FAC_CHECK(names.v || !names.n, FAC_ERR_ARGUMENT, "the list of names has entries, but no array");
    for (size_t i = 0; i < names.n; i++) {
        if (!is_rest(names.v[i])) continue;
        FAC_CHECK(*out_at == names.n, FAC_ERR_ARGUMENT, "\"...\" stands twice among the names");
        *out_at = i;
    }
    return FAC_OK;
}

static fac_status add(fac_dim_names *l, const char *text) {
    FAC_CHECK(l->n < FAC_MAX_DIMS, FAC_ERR_ARGUMENT, "there are more than %d names", FAC_MAX_DIMS);
    l->v[l->n++] = NULL;
    if (!text) return FAC_OK;
    FAC_TRY(fac__names_begin());
    return fac__name_of_text(text, &l->v[l->n - 1]);
}

/* The names for t, "..." being those of the dimensions that the others leave. */
static fac_status names_for(const fac_dim_names *own, fac_names names, fac_dim_names *out) {
    size_t rest;
    out->n = 0;
    FAC_TRY(find_rest(names, &rest));
    const int left = own->n - (int)names.n + 1, after = (int)(names.n - rest) - 1;
    FAC_CHECK(rest < names.n ? left >= 0 : (int)names.n == own->n, FAC_ERR_ARGUMENT,
              "%zu names do not fit a tensor of %d dimensions", names.n, own->n);
    for (size_t i = 0; i < names.n; i++) {
        if (i != rest) FAC_TRY(add(out, names.v[i]));
        for (int d = 0; i == rest && d < left; d++) out->v[out->n++] = own->v[own->n - after - left + d];
    }
    return FAC_OK;
}

/* ---- giving ------------------------------------------------------------------------------------------------- */

fac_names_guard fac_no_names_begin(void) {
    const fac_names_guard g = {fac__names_masked()};
    fac__thread()->exclude |= fac__func_bit(FAC_KEY_NAMED);
    return g;
}

void fac_no_names_end(fac_names_guard *g) {
    const fac_keyset key = fac__func_bit(FAC_KEY_NAMED);
    fac_thread *th = fac__thread();
    if (g) th->exclude = g->was ? th->exclude | key : th->exclude & ~key;
}

/* A view of t, recorded. */
static fac_tensor *alias_of(fac_tensor *t) {
    FAC_NO_NAMES(masked);
    return fac__s_alias(t);
}

static fac_status refuse_nested(const fac_tensor *t) {
    return fac__nested_of(t) ? fac__not_plain(t, "a name of a dimension") : FAC_OK;
}

/* Made with names masked; now called so. NULL is passed on. */
static fac_tensor *called(fac_tensor *made, const fac_dim_names *l) {
    uint32_t number;
    if (!made || refuse_nested(made) || fac__names_number(l, &number)) return NULL;
    fac__set_names(made, number);
    return made;
}

static fac_status renamed(const fac_tensor *t, fac_names names, fac_dim_names *out) {
    fac_dim_names own;
    fac__names_of(t, &own);
    *out = (fac_dim_names){.n = own.n};
    return names.n ? names_for(&own, names, out) : FAC_OK;
}

/* What is left of a call that failed is told with its name. */
static fac_tensor *result_of(const char *name, fac_tensor *made) {
    if (!made) fac__error_context(name, NULL);
    return fac__handle(made);
}

fac_tensor *fac_rename(fac_tensor *t, fac_names names) {
    fac_dim_names l;
    FAC_OPEN(t, "fac_rename", "t", NULL);
    return result_of("fac_rename", renamed(t, names, &l) ? NULL : called(alias_of(t), &l));
}

fac_tensor *fac_set_names(fac_tensor *t, fac_names names) {
    fac_dim_names l;
    FAC_OPEN(t, "fac_set_names", "t", NULL);
    return result_of("fac_set_names", renamed(t, names, &l) ? NULL : called(t, &l));
}

fac_tensor *fac_refine_names(fac_tensor *t, fac_names names) {
    fac_dim_names own, l;
    FAC_OPEN(t, "fac_refine_names", "t", NULL);
    fac__names_of(t, &own);
    fac_status st = names_for(&own, names, &l);
    for (int d = 0; !st && d < l.n; d++)
        if (own.v[d] && own.v[d] != l.v[d])
            st = FAC_FAIL(FAC_ERR_ARGUMENT, "dimension %d is called '%s' already, and names can only be refined", d,
                          own.v[d]);
    return result_of("fac_refine_names", st ? NULL : called(alias_of(t), &l));
}

/* ---- lining up ---------------------------------------------------------------------------------------------- */

/* "..." becomes the names of t that are not among the others. */
static fac_status aligned_names(const fac_dim_names *own, fac_names names, fac_dim_names *out) {
    size_t rest;
    fac_dim_names given = {.n = 0};
    out->n = 0;
    FAC_TRY(find_rest(names, &rest));
    for (size_t i = 0; i < names.n; i++) {
        FAC_CHECK(names.v[i], FAC_ERR_ARGUMENT, "a tensor can be aligned to names alone, but entry %zu is none", i);
        if (i != rest) FAC_TRY(add(&given, names.v[i]));
    }
    for (size_t i = 0; i < names.n; i++) {
        if (i != rest) FAC_TRY(add(out, names.v[i]));
        for (int d = 0; i == rest && d < own->n; d++)
            if (!own->v[d] || find(&given, own->v[d]) < 0) FAC_TRY(add(out, own->v[d]));
    }
    for (int d = 0; d < own->n; d++) {
        FAC_CHECK(own->v[d], FAC_ERR_ARGUMENT, "dimension %d of %s has no name to be aligned by", d,
                  FAC_NAMES_TEXT(own));
        FAC_CHECK(find(out, own->v[d]) >= 0, FAC_ERR_ARGUMENT, "dimension '%s' of %s is not among %s", own->v[d],
                  FAC_NAMES_TEXT(own), FAC_NAMES_TEXT(out));
    }
    return FAC_OK;
}

static fac_tensor *aligned(fac_tensor *t, const fac_dim_names *own, const fac_dim_names *to) {
    int64_t order[FAC_MAX_DIMS];
    size_t n = 0;
    FAC_NO_NAMES(masked);
    for (int i = 0; i < to->n; i++)
        if (find(own, to->v[i]) >= 0) order[n++] = find(own, to->v[i]);
    fac_tensor *made = fac__s_permute(t, (fac_ints){order, n});
    for (int i = 0; i < to->n; i++)
        if (made && find(own, to->v[i]) < 0) made = fac__s_unsqueeze(made, i);
    return made;
}

static fac_tensor *align(fac_tensor *t, fac_names names) {
    fac_dim_names own, to;
    uint32_t number;
    fac__names_of(t, &own);
    if (aligned_names(&own, names, &to) || fac__names_number(&to, &number)) return NULL;
    return called(aligned(t, &own, &to), &to);
}

fac_tensor *fac_align_to(fac_tensor *t, fac_names names) {
    FAC_OPEN(t, "fac_align_to", "t", NULL);
    return result_of("fac_align_to", align(t, names));
}

fac_tensor *fac_align_as(fac_tensor *t, const fac_tensor *other) {
    fac_dim_names l;
    FAC_OPEN(t, "fac_align_as", "t", NULL);
    FAC_OPEN(other, "fac_align_as", "other", NULL);
    fac__names_of(other, &l);
    return result_of("fac_align_as", align(t, (fac_names){l.v, (size_t)l.n}));
}

static fac_status neighbours(const fac_dim_names *own, fac_names names, int *out_first) {
    FAC_CHECK(names.n && names.v, FAC_ERR_ARGUMENT, "there are no names of dimensions to flatten");
    FAC_TRY(dim_called(own, names.v[0], out_first));
    for (size_t i = 0; i < names.n; i++) {
        int at;
        FAC_TRY(dim_called(own, names.v[i], &at));
        FAC_CHECK(at == *out_first + (int)i, FAC_ERR_ARGUMENT,
                  "'%s' is not the next dimension after '%s' in %s; align the tensor first", names.v[i],
                  names.v[i ? i - 1 : 0], FAC_NAMES_TEXT(own));
    }
    return FAC_OK;
}

static fac_tensor *flattened(fac_tensor *t, fac_names names, const char *name) {
    fac_dim_names own, l;
    int first;
    fac__names_of(t, &own);
    if (neighbours(&own, names, &first)) return NULL;
    l = own;
    l.n = first;
    if (add(&l, name)) return NULL;
    for (int d = first + (int)names.n; d < own.n; d++) l.v[l.n++] = own.v[d];
    FAC_NO_NAMES(masked);
    return called(fac__s_flatten_using_ints(t, first, first + (int64_t)names.n - 1), &l);
}

fac_tensor *fac_flatten_names(fac_tensor *t, fac_names names, const char *name) {
    FAC_OPEN(t, "fac_flatten_names", "t", NULL);
    return result_of("fac_flatten_names", flattened(t, names, name));
}

static fac_tensor *unflattened(fac_tensor *t, const char *name, fac_names names, fac_ints sizes) {
    fac_dim_names own, l;
    int at;
    fac__names_of(t, &own);
    if (dim_called(&own, name, &at)) return NULL;
    if (names.n != sizes.n || !names.n || !names.v || !sizes.v) {
        (void)FAC_FAIL(FAC_ERR_ARGUMENT, "there should be a size for each name, but there are %zu names and %zu sizes",
                       names.n, sizes.n);
        return NULL;
    }
    l = own;
    l.n = at;
    for (size_t i = 0; i < names.n; i++)
        if (add(&l, names.v[i])) return NULL;
    for (int d = at + 1; d < own.n; d++)
        if (add(&l, own.v[d])) return NULL;
    FAC_NO_NAMES(masked);
    return called(fac__s_unflatten_int(t, at, sizes), &l);
}

fac_tensor *fac_unflatten_name(fac_tensor *t, const char *name, fac_names names, fac_ints sizes) {
    FAC_OPEN(t, "fac_unflatten_name", "t", NULL);
    return result_of("fac_unflatten_name", unflattened(t, name, names, sizes));
}
