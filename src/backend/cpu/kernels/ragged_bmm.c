/* Products of matrices of different sizes, which lie one after the other in vectors. Matrices of one shape that follow each other
   are one batch; if there are several such runs, products are shared out among the threads, each computed by one of them, unless they
   are so few and so large that each is better computed by all. Which way is taken depends on the shapes alone, and sums are those of
   fac__gemm: results are the same for any number of threads. */
#include "backend/cpu/blas.h"
#include "ops/structured.h"
#include "ops_gen.h"

enum { FLOPS_PER_CHUNK = 1 << 18, LARGE = 1 << 24 }; /* multiplications; about 10 us, and 1 ms, of one thread */

typedef struct product {
    int64_t m, k, n; /* rows, inner size, columns */
    int64_t a, b, c; /* where its matrices begin, in elements */
} product;

typedef struct work {
    const fac_tensor *self, *mat2;
    fac_tensor *out;
    bool ta, tb;
    const product *v;
} work;

static const char *at(const fac_tensor *t, int64_t element) {
    const char *data = fac__data(t);
    return data ? data + element * t->strides[0] * fac__item_size(t) : NULL;
}

/* `batch` products of the shape of p, the first of which is p. */
static fac_gemm gemm_of(const work *w, const product *p, int64_t batch) {
    const int64_t sa = w->self->strides[0], sb = w->mat2->strides[0];
    return (fac_gemm){
        .dtype = (fac_dtype)w->out->dtype,
        .batch = batch,
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .a = {.data = at(w->self, p->a),
              .row = w->ta ? sa : p->k * sa,
              .col = w->ta ? p->m * sa : sa,
              .batch = p->m * p->k * sa},
        .b = {.data = at(w->mat2, p->b),
              .row = w->tb ? sb : p->n * sb,
              .col = w->tb ? p->k * sb : sb,
              .batch = p->k * p->n * sb},
        .c = (char *)fac__data(w->out) + p->c * fac__item_size(w->out),
        .c_row = p->n,
        .c_col = 1,
        .c_batch = p->m * p->n,
        .alpha = fac_scalar_i_(1),
        .beta = fac_scalar_i_(0),
    };
}

static bool same_shape(const product *a, const product *b) { return a->m == b->m && a->k == b->k && a->n == b->n; }

static int64_t flops(const product *p) { return fac__mul_or_max(fac__mul_or_max(p->m, p->k), p->n); }

static fac_status some(void *context, int64_t begin, int64_t end, void *scratch) {
    const work *w = context;
    fac_status st = FAC_OK;
    for (int64_t i = begin; i < end && st == FAC_OK; i++) {
        fac_gemm g = gemm_of(w, &w->v[i], 1);
        if (g.m == 0 || g.n == 0) continue;
        g.scratch = (fac_workspace){scratch, fac__workspace_round(fac__gemm_scratch(&g, 1))};
        st = fac__gemm(&g);
    }
    return st;
}

/* Run after run of equal shapes, each by all threads. */
static fac_status by_runs(const work *w, int64_t n) {
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && same_shape(&w->v[end], &w->v[i]);) end++;
        const fac_gemm g = gemm_of(w, &w->v[i], end - i);
        if (g.m && g.n) FAC_TRY(fac__gemm(&g));
    }
    return FAC_OK;
}

static fac_status shared_out(work *w, int64_t n, int64_t mean) {
    int64_t scratch = 0;
    for (int64_t i = 0; i < n; i++) {
        const fac_gemm g = gemm_of(w, &w->v[i], 1);
        if (g.m && g.n) scratch = fac__max(scratch, fac__workspace_round(fac__gemm_scratch(&g, 1)));
    }
    return fac__parallel_for_scratch(0, n, fac__grain(FLOPS_PER_CHUNK, mean), scratch, some, w);
}

/* The products, and how many runs of equal shapes they are; freed by the caller. */
static fac_status list(fac_ints sizes, product **out, int64_t *out_runs, int64_t *out_mean) {
    const int64_t n = (int64_t)sizes.n / 3;
    int64_t all = 0;
    product *v = fac__alloc_array((size_t)n + 1, sizeof *v), next = {0};
    if (!v) return FAC_ERR_MEMORY;
    *out_runs = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t *s = sizes.v + 3 * i;
        v[i] = (product){s[0], s[1], s[2], next.a, next.b, next.c};
        next.a += s[0] * s[1], next.b += s[1] * s[2], next.c += s[0] * s[2];
        *out_runs += i == 0 || !same_shape(&v[i], &v[i - 1]);
        if (!fac__add(all, flops(&v[i]), &all)) all = INT64_MAX;
    }
    *out = v;
    *out_mean = n ? all / n : 0;
    return FAC_OK;
}

fac_status ragged_bmm_cpu(fac_structured *s, fac_tensor *self, fac_tensor *mat2, fac_ints sizes, int64_t transposed) {
    work w = {.self = self, .mat2 = mat2, .out = s->out[0], .ta = (transposed & 1) != 0, .tb = (transposed & 2) != 0};
    int64_t runs, mean;
    product *v;
    if (w.out->numel == 0) return FAC_OK;
    FAC_TRY(list(sizes, &v, &runs, &mean));
    w.v = v;
    const int64_t n = (int64_t)sizes.n / 3;
    const fac_status st = runs == 1 || mean >= LARGE ? by_runs(&w, n) : shared_out(&w, n, mean);
    fac__free(v);
    return st;
}
