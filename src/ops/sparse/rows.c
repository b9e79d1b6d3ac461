/* Products of matrices of compressed rows on the host. A row of the product of two gathers in an array of a number for each column;
   bits say which columns it has, and words of bits say which words have some, so that a row is read out in order without a look at
   columns that it has not. Each number is the sum of its terms in the order of the first row's elements, from zero. */
#include "ops/sparse/host.h"

/* An empty row: numbers, bits, and for rows of more than 64 words the bits of words that have some. */
typedef struct gathering {
    void *sum;
    uint64_t *bits, *words, all;
    int64_t tops;
} gathering;

#define PRODUCT(S, T)                                                                                         \
    static int64_t row_##S(gathering *g, int64_t *columns, T *values) {                                       \
        T *sum = g->sum;                                                                                      \
        int64_t z = 0;                                                                                        \
        for (int64_t t = 0; t < g->tops; t++) {                                                               \
            for (uint64_t top = g->tops > 1 ? g->words[t] : g->all; top; top &= top - 1) {                    \
                const int64_t w = t * 64 + __builtin_ctzll(top);                                              \
                for (uint64_t bits = g->bits[w]; bits; bits &= bits - 1) {                                    \
                    const int64_t c = w * 64 + __builtin_ctzll(bits);                                         \
                    columns[z] = c, values[z++] = sum[c], sum[c] = 0;                                         \
                }                                                                                             \
                g->bits[w] = 0;                                                                               \
            }                                                                                                 \
            g->words[t] = 0;                                                                                  \
        }                                                                                                     \
        return z;                                                                                             \
    }                                                                                                         \
    static void terms_##S(gathering *g, const int64_t *columns, const T *values, int64_t n, T factor) {       \
        T *sum = g->sum;                                                                                      \
        for (int64_t k = 0; k < n; k++) {                                                                     \
            const int64_t c = columns[k];                                                                     \
            sum[c] += factor * values[k];                                                                     \
            g->bits[c >> 6] |= UINT64_C(1) << (c & 63);                                                       \
            if (g->tops > 1) g->words[c >> 12] |= UINT64_C(1) << (c >> 6 & 63);                               \
        }                                                                                                     \
    }                                                                                                         \
    static int64_t product_##S(const int64_t *begin, const int64_t *column, const void *x, int64_t n,         \
                               const int64_t *other_begin, const int64_t *other, const void *y, gathering *g, \
                               int64_t *edge, int64_t *to, void *out) {                                       \
        int64_t z = 0;                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                     \
            edge[i] = z;                                                                                      \
            for (int64_t k = begin[i]; k < begin[i + 1]; k++) {                                               \
                const int64_t f = other_begin[column[k]];                                                     \
                terms_##S(g, other + f, (const T *)y + f, other_begin[column[k] + 1] - f, ((const T *)x)[k]); \
            }                                                                                                 \
            z += row_##S(g, to + z, (T *)out + z);                                                            \
        }                                                                                                     \
        return edge[n] = z;                                                                                   \
    }
PRODUCT(f32, float)
PRODUCT(f64, double)

/* Elements that the product has at most, a row no more than p. */
static int64_t room_for(const int64_t *begin, const int64_t *column, int64_t n, const int64_t *other_begin, int64_t p,
                        int64_t *out_terms) {
    int64_t sum = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t terms = 0;
        for (int64_t k = begin[i]; k < begin[i + 1]; k++) terms += other_begin[column[k] + 1] - other_begin[column[k]];
        sum += fac__min(terms, p), all += terms;
    }
    *out_terms = all;
    return sum;
}

/* The first z elements, in memory of their own where few are left. */
static fac_tensor *first_of(fac_tensor *t, int64_t z) {
    fac_tensor *part = fac__s_slice_Tensor(t, 0, fac_opt_int_(0), fac_opt_int_(z), 1);
    return part && z < t->numel / 2 ? fac__s_clone(part, FAC_CONTIGUOUS) : part;
}

/* Makes both row-major; false without an error if no loop reads them. */
static bool operands(fac_tensor **a, fac_tensor **b) {
    if (!fac__sparse_on_host(*a) || !fac__sparse_on_host(*b) || (*a)->dtype != (*b)->dtype) return false;
    if ((*a)->dtype != FAC_F32 && (*a)->dtype != FAC_F64) return false;
    *a = fac__s_contiguous(*a, FAC_FORMAT_DEFAULT), *b = fac__s_contiguous(*b, FAC_FORMAT_DEFAULT);
    return *a && *b;
}

fac_tensor *fac__sparse_host_product(fac_sparse_rows a, fac_sparse_rows b, int64_t n, int64_t m, int64_t p) {
    if (!operands(&a.values, &b.values)) return NULL;
    const int64_t z = a.values->numel, o = b.values->numel, *begin = fac__sparse_host_numbers(&a.begin),
                  *column = fac__sparse_host_numbers(&a.columns), *other_begin = fac__sparse_host_numbers(&b.begin),
                  *other = fac__sparse_host_numbers(&b.columns);
    int64_t terms;
    if (!begin || !column || !other_begin || !other || !fac__mul(z, o, &terms)) return NULL;
    FAC_TRY_NULL(fac__sparse_host_check(begin, n, column, z, m));
    FAC_TRY_NULL(fac__sparse_host_check(other_begin, m, other, o, p));
    const int64_t room = room_for(begin, column, n, other_begin, p, &terms);
    if (!fac__sparse_countable(p, terms)) return NULL; /* more columns than is worth an array */
    const int64_t words = p / 64 + 1, tops = words / 64 + 1;
    fac_tensor *work = fac__sparse_zeros(FAC_INTS(p + words + tops), FAC_I64, a.values->device),
               *edges = fac__sparse_host_empty(FAC_INTS(n + 1), FAC_I64),
               *plain = fac__sparse_host_empty(FAC_INTS(room), FAC_I64),
               *values = fac__sparse_host_empty(FAC_INTS(room), fac__sparse_dtype(a.values));
    if (!work || !edges || !plain || !values) return NULL;
    int64_t *edge = fac__data(edges);
    uint64_t *bits = (uint64_t *)fac__data(work) + p;
    gathering g = {fac__data(work), bits, bits + words, words < 64 ? (UINT64_C(1) << words) - 1 : UINT64_MAX, tops};
    const int64_t count = (a.values->dtype == FAC_F32 ? product_f32 : product_f64)(
        begin, column, fac__data(a.values), n, other_begin, other, fac__data(b.values), &g, edge, fac__data(plain),
        fac__data(values));
    return fac__sparse_compressed(FAC_SPARSE_CSR, FAC_INTS(n, p), edges, first_of(plain, count),
                                  first_of(values, count));
}

/* ---- where another has elements ---------------------------------------------------------------------------------------- */

/* Two rows of b at a time, which share what is read of a row of a; sixteen lanes, or eight of doubles, are added up in pairs. */
#define DOTS(S, T)                                                                                             \
    typedef T vector_##S __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));                      \
    static T total_##S(vector_##S all) {                                                                       \
        T total = all[0] + all[1];                                                                             \
        for (size_t v = 2; v < 16 / sizeof(T); v += 2) total += all[v] + all[v + 1];                           \
        return total;                                                                                          \
    }                                                                                                          \
    static void two_dots_##S(const T *a, const T *b, const T *c, int64_t n, T *to_b, T *to_c) {                \
        enum { LANES = 16 / sizeof(T) };                                                                       \
        vector_##S b0 = {0}, b1 = b0, b2 = b0, b3 = b0, c0 = b0, c1 = b0, c2 = b0, c3 = b0;                    \
        T rest = 0, other = 0;                                                                                 \
        int64_t j = 0;                                                                                         \
        for (; j + 4 * LANES <= n; j += 4 * LANES) {                                                           \
            const vector_##S *x = (const vector_##S *)(a + j), *y = (const vector_##S *)(b + j),               \
                             *z = (const vector_##S *)(c + j);                                                 \
            b0 += x[0] * y[0], b1 += x[1] * y[1], b2 += x[2] * y[2], b3 += x[3] * y[3];                        \
            c0 += x[0] * z[0], c1 += x[1] * z[1], c2 += x[2] * z[2], c3 += x[3] * z[3];                        \
        }                                                                                                      \
        for (; j < n; j++) rest += a[j] * b[j], other += a[j] * c[j];                                          \
        *to_b = total_##S((b0 + b2) + (b1 + b3)) + rest;                                                       \
        *to_c = total_##S((c0 + c2) + (c1 + c3)) + other;                                                      \
    }                                                                                                          \
    static void dots_##S(const int64_t *begin, const int64_t *column, int64_t n, const void *a, const void *b, \
                         int64_t m, void *out) {                                                               \
        const T *x = a, *y = b;                                                                                \
        T *to = out;                                                                                           \
        for (int64_t i = 0; i < n; i++)                                                                        \
            for (int64_t k = begin[i]; k < begin[i + 1]; k += 2) {                                             \
                const int64_t second = k + (k + 1 < begin[i + 1]);                                             \
                two_dots_##S(x + i * m, y + column[k] * m, y + column[second] * m, m, to + k, to + second);    \
            }                                                                                                  \
    }
DOTS(f32, float)
DOTS(f64, double)

fac_tensor *fac__sparse_host_dots(fac_sparse_rows rows, fac_tensor *a, fac_tensor *b) {
    if (!a || !b || !operands(&a, &b)) return NULL;
    const int64_t n = a->sizes[0], m = a->sizes[1], z = rows.columns->numel;
    const int64_t *begin = fac__sparse_host_numbers(&rows.begin), *column = fac__sparse_host_numbers(&rows.columns);
    if (!begin || !column || !m) return NULL;
    FAC_TRY_NULL(fac__sparse_host_check(begin, n, column, z, b->sizes[0]));
    fac_tensor *out = fac__sparse_host_empty(FAC_INTS(z), fac__sparse_dtype(a));
    if (out && z)
        (a->dtype == FAC_F32 ? dots_f32 : dots_f64)(begin, column, n, fac__data(a), fac__data(b), m, fac__data(out));
    return out;
}

/* ---- each row by itself ------------------------------------------------------------------------------------------------ */

/* Two vectors of a row's elements, then the rest. */
#define REDUCE(name, S, T, OP, START)                                                                             \
    static void name##_##S(const int64_t *begin, int64_t n, const void *values, void *out) {                      \
        enum { LANES = 16 / sizeof(T) };                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                         \
            const T *v = (const T *)values + begin[i], *end = (const T *)values + begin[i + 1];                   \
            vector_##S two[2] = {(vector_##S){0} + (START), (vector_##S){0} + (START)};                           \
            for (; end - v >= 2 * LANES; v += 2 * LANES)                                                          \
                two[0] = two[0] OP * (const vector_##S *)v, two[1] = two[1] OP * (const vector_##S *)(v + LANES); \
            two[0] = two[0] OP two[1];                                                                            \
            T all = two[0][0];                                                                                    \
            for (int k = 1; k < LANES; k++) all = all OP two[0][k];                                               \
            for (; v < end; v++) all = all OP * v;                                                                \
            ((T *)out)[i] = all;                                                                                  \
        }                                                                                                         \
    }
REDUCE(sums, f32, float, +, 0)
REDUCE(sums, f64, double, +, 0)
REDUCE(products, f32, float, *, 1)
REDUCE(products, f64, double, *, 1)

fac_tensor *fac__sparse_host_reduce(fac_tensor *begin, fac_tensor *values, bool sum) {
    if (!begin || !values || !operands(&values, &values)) return NULL;
    const int64_t n = begin->numel - 1, *from = fac__sparse_host_numbers(&begin);
    if (!from || !fac__sparse_host_begins(from, n, values->numel)) return NULL;
    fac_tensor *out = fac__sparse_host_empty(FAC_INTS(n), fac__sparse_dtype(values));
    if (!out || !n) return out;
    if (values->dtype == FAC_F32)
        (sum ? sums_f32 : products_f32)(from, n, fac__data(values), fac__data(out));
    else
        (sum ? sums_f64 : products_f64)(from, n, fac__data(values), fac__data(out));
    return out;
}

/* A row is copied, then it has the elements added. False if one is not among the columns. */
#define ADD(S, T)                                                                                                     \
    static bool add_##S(const void *base, const int64_t *begin, const int64_t *column, const void *values, int64_t n, \
                        int64_t p, void *out) {                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                             \
            T *to = (T *)out + i * p;                                                                                 \
            memcpy(to, (const T *)base + i * p, (size_t)p * sizeof(T));                                               \
            for (int64_t k = begin[i]; k < begin[i + 1]; k++) {                                                       \
                if (FAC_UNLIKELY((uint64_t)column[k] >= (uint64_t)p)) return false;                                   \
                to[column[k]] += ((const T *)values)[k];                                                              \
            }                                                                                                         \
        }                                                                                                             \
        return true;                                                                                                  \
    }
ADD(f32, float)
ADD(f64, double)

fac_tensor *fac__sparse_host_add(fac_tensor *dense, fac_sparse_rows rows) {
    if (!dense || !rows.values || rows.values->ndim != 1 || !operands(&dense, &rows.values) || !dense->numel)
        return NULL;
    const int64_t n = dense->sizes[0], p = dense->sizes[1], *begin = fac__sparse_host_numbers(&rows.begin),
                  *column = fac__sparse_host_numbers(&rows.columns);
    if (!begin || !column || !fac__sparse_host_begins(begin, n, rows.values->numel)) return NULL;
    fac_tensor *out = fac__sparse_host_empty(fac__sparse_sizes(dense), fac__sparse_dtype(dense));
    const bool done = out && (dense->dtype == FAC_F32 ? add_f32 : add_f64)(
                                 fac__data(dense), begin, column, fac__data(rows.values), n, p, fac__data(out));
    return done ? out : NULL;
}
