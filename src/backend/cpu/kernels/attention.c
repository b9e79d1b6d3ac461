/* Fused attention. Forward: a task is a block of queries of one head; its scores against all keys it may see are made by one
   product, turned into weights, and multiplied by the values, so that only QUERIES x S weights exist at a time. The row's
   log-sum-exp is kept. Backward: a task is one head; block by block the weights are made again, and
       dV += P^T dO,  dP = dO V^T,  dS = P (dP - rowsum(P dP)),  dQ = dS K,  dK += dS^T Q,
   in the order of the blocks. Sums are f32 (f64 for f64): 16-bit operands are widened first, but for bf16 where the processor multiplies
   pairs of it. There the scores are made of the operands as they are, backward too, and the forward's weights are rounded to bf16
   before they meet the values. */
#include "backend/cpu/blas.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels/softmax.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/parallel.h"
#include "ops/contiguous.h"
#include "ops/structured.h"
#include "ops_gen.h"
#include <math.h>

enum { BLOCK_WEIGHTS = 1 << 16, MIN_QUERIES = 16, MAX_QUERIES = 128, MASK_PIECE = 256 };

typedef struct attention_job {
    fac_dtype dtype; /* f32 or f64 */
    int64_t heads, queries, keys, width, value_width;
    int64_t block, blocks;  /* queries per block, blocks per head */
    int64_t products_bytes; /* scratch of a task's products */
    double scale;
    bool causal;
    const fac_tensor *q, *k, *v, *mask, *out, *lse;
    const fac_tensor *q16, *k16, *v16; /* bf16 operands that need not be widened; NULL if there are none */
    const fac_tensor *grad, *grad_q, *grad_k, *grad_v; /* backward */
} attention_job;

/* The scratch of a task: [block, keys] each, and what its products need. */
typedef struct rooms {
    char *weights, *scores; /* scores: backward; forward of bf16, the rounded weights */
    fac_workspace products;
} rooms;

/* One block of one head. */
typedef struct block {
    int64_t b, h, first, rows;
    int64_t keys; /* that any of its rows may see */
} block;

static size_t item(const attention_job *j) { return fac__dtype_size(j->dtype); }

/* Rows [row, ...) of head (b, h) of a 4-d tensor, as a matrix. */
static fac_gemm_matrix rows_of(const fac_tensor *t, int64_t b, int64_t h, int64_t row) {
    int64_t at = b * t->strides[0] + h * t->strides[1] + row * t->strides[2];
    return (fac_gemm_matrix){(char *)fac__data(t) + at * fac__item_size(t), t->strides[2], t->strides[3], 0, false};
}
static fac_gemm_matrix turned(fac_gemm_matrix m) { return (fac_gemm_matrix){m.data, m.col, m.row, 0, m.conj}; }

/* c[m, n] = alpha * a b (+ c), in the job's dtype. */
static fac_status product(const attention_job *j, const rooms *r, int64_t m, int64_t n, int64_t k, double alpha,
                          fac_gemm_matrix a, fac_gemm_matrix b, fac_gemm_matrix c, bool add) {
    fac_gemm g = {.dtype = j->dtype, .batch = 1, .m = m, .n = n, .k = k, .a = a, .b = b, .alpha = fac_scalar_f_(alpha)};
    g.scratch = r->products;
    g.beta = fac_scalar_i_(add);
    g.c = (void *)(uintptr_t)c.data;
    g.c_row = c.row;
    g.c_col = c.col;
    return fac__gemm(&g);
}

/* c[m, n] = a b of bf16, c of c_dtype. */
static fac_status product_16(const rooms *r, int64_t m, int64_t n, int64_t k, fac_gemm_matrix a, fac_gemm_matrix b,
                             fac_gemm_matrix c, fac_dtype c_dtype) {
    fac_gemm g = {.dtype = FAC_BF16, .c_dtype = c_dtype, .batch = 1, .m = m, .n = n, .k = k, .a = a, .b = b};
    g.alpha = fac_scalar_i_(1);
    g.beta = fac_scalar_i_(0);
    g.scratch = r->products;
    g.c = (void *)(uintptr_t)c.data;
    g.c_row = c.row;
    g.c_col = c.col;
    return fac__gemm(&g);
}

static int64_t weights_bytes(const attention_job *j) {
    return fac__workspace_round(j->block * j->keys * (int64_t)item(j));
}

/* For any product of a block: two of its sides are queries, keys or a width. */
static int64_t products_bytes(const attention_job *j, int threads) {
    const int64_t width = fac__max(j->width, j->value_width), longest = fac__max(j->keys, fac__max(j->block, width));
    const fac_gemm sides[] = {{.m = j->block, .n = longest, .k = width},
                              {.m = j->block, .n = width, .k = j->keys},
                              {.m = j->keys, .n = width, .k = j->block}};
    int64_t most = 0;
    for (size_t i = 0; i < FAC_COUNT(sides); i++) {
        fac_gemm g = sides[i];
        g.dtype = j->dtype;
        g.batch = 1;
        most = fac__max(most, fac__gemm_scratch(&g, threads));
        if (!j->q16) continue;
        g.dtype = g.c_dtype = FAC_BF16;
        most = fac__max(most, fac__gemm_scratch(&g, threads));
    }
    return most;
}

static rooms rooms_in(const attention_job *j, char *scratch, int n_weights) {
    const int64_t each = weights_bytes(j);
    char *products = scratch + n_weights * each;
    return (rooms){scratch, scratch + each, {products, j->products_bytes}};
}

static fac_gemm_matrix matrix_in(const attention_job *j, void *p) { return (fac_gemm_matrix){p, j->keys, 1, 0, false}; }

static block block_at(const attention_job *j, int64_t head, int64_t index) {
    block x = {.b = head / j->heads, .h = head % j->heads, .first = index * j->block};
    x.rows = fac__min(j->block, j->queries - x.first);
    x.keys = j->causal ? fac__min(j->keys, x.first + x.rows) : j->keys;
    return x;
}
/* Keys that row i of a block may see. */
static int64_t seen(const attention_job *j, const block *x, int64_t i) {
    return j->causal ? fac__min(j->keys, x->first + i + 1) : j->keys;
}

/* n elements of a mask, `step` apart, as numbers that are added to scores. */
#define MASK_NUMBERS(name, T, TO)                                                                      \
    static void name(const fac_tensor *m, const char *p, int64_t step, T *out, int64_t n) {            \
        if (m->dtype == FAC_BOOL)                                                                      \
            for (int64_t i = 0; i < n; i++) out[i] = *(const bool *)(p + i * step) ? 0 : -(T)INFINITY; \
        else                                                                                           \
            fac__casts[TO][m->dtype](out, 1, p, step, n);                                              \
    }
MASK_NUMBERS(mask_f32, float, FAC_F32)
MASK_NUMBERS(mask_f64, double, FAC_F64)

/* n scores of row `query` times `scale`, plus the mask, which broadcasts. */
static void scale_and_mask(const attention_job *j, const block *x, int64_t query, char *scores, double scale,
                           int64_t n) {
    const fac_tensor *m = j->mask;
    const int64_t place[4] = {x->b, x->h, query, 0};
    int64_t at = 0, step = 0;
    if (!m) {
        FAC_ISA_PICK(fac__scale_add_row_f32)((float *)(void *)scores, (float)scale, NULL, n);
        return;
    }
    for (int d = 0; d < m->ndim; d++) {
        int full = 4 - m->ndim + d;
        if (m->sizes[d] == 1) continue;
        at += place[full] * m->strides[d];
        if (full == 3) step = m->strides[d];
    }
    const int64_t size = fac__item_size(m);
    for (int64_t i = 0, piece; i < n; i += piece) {
        const char *p = (const char *)fac__data(m) + (at + i * step) * size;
        piece = fac__min(MASK_PIECE, n - i);
        if (j->dtype == FAC_F64) {
            double add[MASK_PIECE], *s = (double *)(void *)scores + i;
            mask_f64(m, p, step, add, piece);
            for (int64_t k = 0; k < piece; k++) s[k] += add[k];
        } else {
            float room[MASK_PIECE], *s = (float *)(void *)scores + i;
            const bool as_it_is = m->dtype == FAC_F32 && step == 1;
            if (!as_it_is) mask_f32(m, p, step, room, piece);
            FAC_ISA_PICK(fac__scale_add_row_f32)
            (s, (float)scale, as_it_is ? (const float *)(const void *)p : room, piece);
        }
    }
}

/* weights[rows, keys] = scale * Q K^T + mask; entries that a row may not see are left undefined. Products of bf16 are not scaled. */
static fac_status make_scores(const attention_job *j, const rooms *r, const block *x) {
    if (j->q16)
        FAC_TRY(product_16(r, x->rows, x->keys, j->width, rows_of(j->q16, x->b, x->h, x->first),
                           turned(rows_of(j->k16, x->b, x->h, 0)), matrix_in(j, r->weights), FAC_F32));
    else
        FAC_TRY(product(j, r, x->rows, x->keys, j->width, j->scale, rows_of(j->q, x->b, x->h, x->first),
                        turned(rows_of(j->k, x->b, x->h, 0)), matrix_in(j, r->weights), false));
    for (int64_t i = 0; i < x->rows && (j->mask || j->q16); i++)
        scale_and_mask(j, x, x->first + i, r->weights + (size_t)(i * j->keys) * item(j), j->q16 ? j->scale : 1,
                       seen(j, x, i));
    return FAC_OK;
}

static char *lse_at(const attention_job *j, const block *x, int64_t i) {
    int64_t row = (x->b * j->heads + x->h) * j->queries + x->first + i;
    return (char *)fac__data(j->lse) + (size_t)row * item(j);
}

/* Row i of the scores -> weights, and its log-sum-exp; a row that may see nothing has weights 0. */
static void weigh(const attention_job *j, const block *x, int64_t i, char *weights) {
    void *row = weights + (size_t)(i * j->keys) * item(j), *lse = lse_at(j, x, i);
    int64_t n = seen(j, x, i);
    if (j->dtype == FAC_F64)
        *(double *)lse = FAC_ISA_PICK(fac__softmax_total_f64)(row, row, n);
    else
        *(float *)lse = FAC_ISA_PICK(fac__softmax_total_f32)(row, row, n);
    memset((char *)row + (size_t)n * item(j), 0, (size_t)(x->keys - n) * item(j));
}

/* The same from the log-sum-exp that is given. Whether that is of these keys: the caller may have joined it from more. */
static bool weigh_again(const attention_job *j, const block *x, int64_t i, char *weights) {
    void *row = weights + (size_t)(i * j->keys) * item(j), *lse = lse_at(j, x, i);
    int64_t n = seen(j, x, i);
    bool whole = j->dtype == FAC_F64 ? FAC_ISA_PICK(fac__softmax_of_total_f64)(row, *(double *)lse, row, n)
                                     : FAC_ISA_PICK(fac__softmax_of_total_f32)(row, *(float *)lse, row, n);
    memset((char *)row + (size_t)n * item(j), 0, (size_t)(x->keys - n) * item(j));
    return whole;
}

/* ---- forward ------------------------------------------------------------------------------------------------------------ */

static fac_status forward_block(const attention_job *j, const rooms *r, const block *x) {
    FAC_TRY(make_scores(j, r, x));
    for (int64_t i = 0; i < x->rows; i++) {
        weigh(j, x, i, r->weights);
        if (j->v16)
            fac__casts[FAC_BF16][FAC_F32]((uint16_t *)(void *)r->scores + i * j->keys, 1,
                                          (const float *)(const void *)r->weights + i * j->keys, 1, x->keys);
    }
    if (j->v16)
        return product_16(r, x->rows, j->value_width, x->keys, matrix_in(j, r->scores), rows_of(j->v16, x->b, x->h, 0),
                          rows_of(j->out, x->b, x->h, x->first), FAC_BF16);
    return product(j, r, x->rows, j->value_width, x->keys, 1, matrix_in(j, r->weights), rows_of(j->v, x->b, x->h, 0),
                   rows_of(j->out, x->b, x->h, x->first), false);
}

static int forward_rooms(const attention_job *j) { return j->v16 ? 2 : 1; }

static fac_status forward_range(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const attention_job *j = ctx;
    const rooms r = rooms_in(j, scratch, forward_rooms(j));
    for (int64_t t = begin; t < end; t++) {
        block x = block_at(j, t / j->blocks, t % j->blocks);
        FAC_TRY(forward_block(j, &r, &x));
    }
    return FAC_OK;
}

/* ---- backward ------------------------------------------------------------------------------------------------------------ */

/* d[i] = p[i] * (d[i] - s), s the product of a row of dO and of O: for a row whose keys are not all here. */
#define BACK_PART(name, T)                                                                                            \
    static void name(const T *p, T *d, int64_t n, const fac_gemm_matrix *grad, const fac_gemm_matrix *out, int64_t i, \
                     int64_t width) {                                                                                 \
        const T *g = (const T *)grad->data + i * grad->row, *o = (const T *)out->data + i * out->row;                 \
        T s = 0;                                                                                                      \
        for (int64_t k = 0; k < width; k++) s += g[k * grad->col] * o[k * out->col];                                  \
        for (int64_t k = 0; k < n; k++) d[k] = p[k] * (d[k] - s);                                                     \
    }
BACK_PART(back_part_f32, float)
BACK_PART(back_part_f64, double)

/* Row i of dP -> dS. The row's s is sum(P dP) if all its keys are here: nearer than dO O, whose O was rounded. */
static void back_row(const attention_job *j, const block *x, int64_t i, bool whole, char *weights, char *scores) {
    fac_gemm_matrix grad = rows_of(j->grad, x->b, x->h, x->first), out = rows_of(j->out, x->b, x->h, x->first);
    void *p = weights + (size_t)(i * j->keys) * item(j), *d = scores + (size_t)(i * j->keys) * item(j);
    if (j->dtype == FAC_F64 && whole)
        FAC_ISA_PICK(fac__softmax_back_row_f64)(FAC_SOFTMAX, d, p, d, x->keys);
    else if (whole)
        FAC_ISA_PICK(fac__softmax_back_row_f32)(FAC_SOFTMAX, d, p, d, x->keys);
    else if (j->dtype == FAC_F64)
        back_part_f64(p, d, x->keys, &grad, &out, i, j->value_width);
    else
        back_part_f32(p, d, x->keys, &grad, &out, i, j->value_width);
}

static fac_status backward_block(const attention_job *j, const rooms *r, const block *x) {
    char *weights = r->weights, *scores = r->scores;
    fac_gemm_matrix grad = rows_of(j->grad, x->b, x->h, x->first);
    bool whole[MAX_QUERIES];
    FAC_TRY(make_scores(j, r, x));
    for (int64_t i = 0; i < x->rows; i++) whole[i] = weigh_again(j, x, i, weights);
    FAC_TRY(product(j, r, x->keys, j->value_width, x->rows, 1, turned(matrix_in(j, weights)), grad,
                    rows_of(j->grad_v, x->b, x->h, 0), true));
    FAC_TRY(product(j, r, x->rows, x->keys, j->value_width, 1, grad, turned(rows_of(j->v, x->b, x->h, 0)),
                    matrix_in(j, scores), false));
    for (int64_t i = 0; i < x->rows; i++) back_row(j, x, i, whole[i], weights, scores);
    FAC_TRY(product(j, r, x->rows, j->width, x->keys, j->scale, matrix_in(j, scores), rows_of(j->k, x->b, x->h, 0),
                    rows_of(j->grad_q, x->b, x->h, x->first), false));
    return product(j, r, x->keys, j->width, x->rows, j->scale, turned(matrix_in(j, scores)),
                   rows_of(j->q, x->b, x->h, x->first), rows_of(j->grad_k, x->b, x->h, 0), true);
}

/* The gradients of keys and values are added to from block to block. */
static void zero_head(const attention_job *j, const fac_tensor *t, int64_t b, int64_t h) {
    const fac_gemm_matrix m = rows_of(t, b, h, 0);
    const size_t size = item(j), width = (size_t)t->sizes[3];
    for (int64_t i = 0; i < t->sizes[2] && width; i++) {
        char *at = (char *)(uintptr_t)m.data + (size_t)(i * m.row) * size;
        if (m.col == 1) memset(at, 0, width * size);
        for (size_t k = 0; m.col != 1 && k < width; k++) memset(at + k * (size_t)m.col * size, 0, size);
    }
}

static fac_status backward_range(void *ctx, int64_t begin, int64_t end, void *scratch) {
    const attention_job *j = ctx;
    const rooms r = rooms_in(j, scratch, 2);
    for (int64_t head = begin; head < end; head++) {
        zero_head(j, j->grad_k, head / j->heads, head % j->heads);
        zero_head(j, j->grad_v, head / j->heads, head % j->heads);
        for (int64_t i = 0; i < j->blocks; i++) {
            block x = block_at(j, head, i);
            FAC_TRY(backward_block(j, &r, &x));
        }
    }
    return FAC_OK;
}

/* ---- kernels --------------------------------------------------------------------------------------------------------------- */

static void job_fill(attention_job *j, const fac_tensor *q, const fac_tensor *k, const fac_tensor *v, bool causal,
                     fac_opt_num scale) {
    j->dtype = q->dtype == FAC_F64 ? FAC_F64 : FAC_F32;
    j->heads = q->sizes[1];
    j->queries = q->sizes[2];
    j->keys = k->sizes[2];
    j->width = q->sizes[3];
    j->value_width = v->sizes[3];
    j->causal = causal;
    j->scale = scale.set ? fac__scalar_f64(scale.v) : 1 / sqrt((double)fac__max(1, j->width));
    j->block = fac__min(fac__max(1, j->queries),
                        fac__min(MAX_QUERIES, fac__max(MIN_QUERIES, BLOCK_WEIGHTS / fac__max(1, j->keys))));
    j->blocks = fac__div_up(j->queries, j->block);
}

static void zero(const fac_tensor *t) {
    if (t->numel) memset(fac__data(t), 0, (size_t)t->numel * fac__dtype_size((fac_dtype)t->dtype));
}

/* Operands as they are if f32 or f64, else as owned f32 copies. */
enum { MAX_OPERANDS = 5 };
typedef struct widened {
    fac_tensor *t[MAX_OPERANDS];
    int n;
} widened;
static fac_status widen(widened *w, fac_tensor *t) {
    fac_tensor **slot = &w->t[w->n];
    if (t->dtype == FAC_F32 || t->dtype == FAC_F64) {
        *slot = fac__ref(t);
    } else {
        FAC_TRY(fac__empty(t->sizes, t->ndim, FAC_F32, t->device, slot));
        fac_status st = fac__copy_below(*slot, t);
        if (st != FAC_OK) {
            fac__unref(*slot);
            return st;
        }
    }
    w->n++;
    return FAC_OK;
}
static void widened_free(widened *w) {
    for (int i = 0; i < w->n; i++) fac__unref(w->t[i]);
}

/* A result in which sums are made: `out` itself, or an owned f32 tensor that finish_result copies back. */
static fac_status begin_result(fac_tensor *out, fac_tensor **work) {
    if (out->dtype == FAC_F32 || out->dtype == FAC_F64) {
        *work = fac__ref(out);
        return FAC_OK;
    }
    return fac__empty(out->sizes, out->ndim, FAC_F32, out->device, work);
}
static fac_status finish_result(fac_status st, fac_tensor *out, fac_tensor *work) {
    if (st == FAC_OK && work != out) st = fac__copy_below(out, work);
    fac__unref(work);
    return st;
}

/* Whether these are multiplied as they are. */
static bool multiplies_16(const fac_tensor *q, const fac_tensor *k, const fac_tensor *v) {
    return q->dtype == FAC_BF16 && k->dtype == FAC_BF16 && v->dtype == FAC_BF16 && fac__cpu_bf16_fast;
}

/* Sums of rooms for a block, and of its work, cannot overflow. */
static fac_status check_sides(const attention_job *j) {
    const int64_t most = INT64_C(1) << 40;
    FAC_CHECK(fac__max(j->keys, fac__max(j->width, j->value_width)) <= most, FAC_ERR_OVERFLOW,
              "attention over %lld keys of width %lld to values of width %lld is too large", (long long)j->keys,
              (long long)j->width, (long long)j->value_width);
    return FAC_OK;
}

/* A task alone leaves the threads to its products. */
static fac_status run_tasks(attention_job *j, int64_t tasks, int64_t grain, int n_weights, fac_scratch_fn fn) {
    j->products_bytes = products_bytes(j, tasks == 1 ? fac_num_threads() : 1);
    return fac__parallel_for_scratch(0, tasks, grain, n_weights * weights_bytes(j) + j->products_bytes, fn, j);
}

static fac_status run_forward(attention_job *j) {
    if (j->lse->numel == 0) return FAC_OK;
    if (j->keys == 0) { /* nothing to see: zeros, and the logarithm of an empty sum */
        zero(j->out);
        for (int64_t i = 0; i < j->lse->numel; i++)
            fac__store((char *)fac__data(j->lse) + (size_t)i * item(j), j->dtype, fac_scalar_f_(-INFINITY));
        return FAC_OK;
    }
    FAC_TRY(check_sides(j));
    int64_t work = fac__mul_or_max(fac__mul_or_max(j->block, j->keys), j->width + j->value_width + 8);
    return run_tasks(j, j->lse->sizes[0] * j->heads * j->blocks, fac__grain(2 * FAC_GRAIN, work), forward_rooms(j),
                     forward_range);
}

fac_status flash_attention_cpu(fac_structured *s, fac_tensor *query, fac_tensor *key, fac_tensor *value,
                               double dropout_p, bool is_causal, fac_tensor *attn_mask, fac_opt_num scale) {
    (void)dropout_p;
    attention_job j = {.mask = attn_mask, .lse = s->out[1]};
    job_fill(&j, query, key, value, is_causal, scale);
    if (multiplies_16(query, key, value)) {
        j.q16 = query, j.k16 = key, j.v16 = value, j.out = s->out[0];
        return run_forward(&j);
    }
    widened w = {0};
    fac_tensor *out = NULL;
    fac_status st = widen(&w, query);
    if (st == FAC_OK) st = widen(&w, key);
    if (st == FAC_OK) st = widen(&w, value);
    if (st == FAC_OK) st = begin_result(s->out[0], &out);
    if (st == FAC_OK) {
        j.q = w.t[0], j.k = w.t[1], j.v = w.t[2], j.out = out;
        st = finish_result(run_forward(&j), s->out[0], out);
    }
    widened_free(&w);
    return st;
}

static fac_status run_backward(attention_job *j) {
    if (j->keys == 0 || j->lse->numel == 0) {
        zero(j->grad_q);
        zero(j->grad_k);
        zero(j->grad_v);
        return FAC_OK;
    }
    FAC_TRY(check_sides(j));
    return run_tasks(j, j->q->sizes[0] * j->heads, 1, 2, backward_range);
}

fac_status flash_attention_backward_cpu(fac_structured *s, fac_tensor *grad_out, fac_tensor *query, fac_tensor *key,
                                        fac_tensor *value, fac_tensor *out, fac_tensor *logsumexp, double dropout_p,
                                        bool is_causal, fac_tensor *attn_mask, fac_opt_num scale) {
    (void)dropout_p;
    widened w = {0};
    fac_tensor *const in[MAX_OPERANDS] = {query, key, value, grad_out, out};
    fac_tensor *work[3] = {NULL}, *lse = NULL;
    fac_status st = fac__contiguous_below(logsumexp, &lse);
    for (int i = 0; i < MAX_OPERANDS && st == FAC_OK; i++) st = widen(&w, in[i]);
    for (int i = 0; i < 3 && st == FAC_OK; i++) st = begin_result(s->out[i], &work[i]);
    if (st == FAC_OK) {
        attention_job j = {.q = w.t[0],
                           .k = w.t[1],
                           .v = w.t[2],
                           .grad = w.t[3],
                           .out = w.t[4],
                           .lse = lse,
                           .mask = attn_mask,
                           .grad_q = work[0],
                           .grad_k = work[1],
                           .grad_v = work[2]};
        if (multiplies_16(query, key, value)) j.q16 = query, j.k16 = key;
        job_fill(&j, query, key, value, is_causal, scale);
        st = run_backward(&j);
    }
    for (int i = 0; i < 3; i++) st = work[i] ? finish_result(st, s->out[i], work[i]) : st;
    fac__unref(lse);
    widened_free(&w);
    return st;
}
