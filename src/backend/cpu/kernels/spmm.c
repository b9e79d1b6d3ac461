/* A matrix of compressed rows, or rows of blocks, times a dense one: row i of the result is the sum over the row's elements, in their
   order, of value times a row of the dense matrix. Accumulates in the dtype of the operands; loops over floats are in spmm.isa.c. Rows
   are cut by their mean number of elements, so results do not depend on the number of threads. Likewise the largest or least of these
   terms in place of their sum, and which element gives it. */
#include "backend/cpu/kernels/spmm.h"
#include "backend/cpu/parallel.h"
#include "core/tensor_make.h"
#include "ops/sparse/check.h"
#include "ops_gen.h"
#include <complex.h>

#define ROWS(suffix, T)                                                                       \
    static fac_status rows_##suffix(void *ctx, int64_t begin, int64_t end) {                  \
        const fac_spmm *s = ctx;                                                              \
        const int64_t h = s->height, w = s->width;                                            \
        for (int64_t i = begin * h; i < end * h; i++) {                                       \
            const int64_t *at = s->begin + i / h;                                             \
            T *restrict to = (T *)s->out + i * s->n;                                          \
            for (int64_t j = 0; j < s->n; j++) to[j] = 0;                                     \
            for (int64_t k = at[0] * w; k < at[1] * w; k++) {                                 \
                const T v = ((const T *)s->values)[(k / w * h + i % h) * w + k % w];          \
                const T *from = (const T *)s->dense + (s->columns[k / w] * w + k % w) * s->n; \
                for (int64_t j = 0; j < s->n; j++) to[j] = (T)(to[j] + v * from[j]);          \
            }                                                                                 \
        }                                                                                     \
        return FAC_OK;                                                                        \
    }
ROWS(c64, float _Complex)
ROWS(c128, double _Complex)
#define VECTOR_ROWS(suffix)                                                  \
    static fac_status rows_##suffix(void *ctx, int64_t begin, int64_t end) { \
        FAC_ISA_PICK(fac__spmm_##suffix)(ctx, begin, end);                   \
        return FAC_OK;                                                       \
    }
VECTOR_ROWS(f32)
VECTOR_ROWS(f64)
/* Integers wrap around, as unsigned ones do. */
ROWS(u8, uint8_t)
ROWS(u16, uint16_t)
ROWS(u32, uint32_t)
ROWS(u64, uint64_t)

#define EXTREME_ROWS(kernel, suffix, name, sign)                                    \
    static fac_status name##_rows_##suffix(void *ctx, int64_t begin, int64_t end) { \
        FAC_ISA_PICK(fac__spmm_##kernel##_##suffix)(ctx, begin, end, sign);         \
        return FAC_OK;                                                              \
    }
EXTREME_ROWS(extremes, f32, largest, 1)
EXTREME_ROWS(extremes, f64, largest, 1)
EXTREME_ROWS(extremes, f32, least, -1)
EXTREME_ROWS(extremes, f64, least, -1)
EXTREME_ROWS(winners, f32, first_largest, 1)
EXTREME_ROWS(winners, f64, first_largest, 1)
EXTREME_ROWS(winners, f32, first_least, -1)
EXTREME_ROWS(winners, f64, first_least, -1)

/* fns: of f32 and of f64, each of least and of largest. */
static fac_range_fn of_dtype(const fac_range_fn fns[2][2], int dtype, bool largest) {
    return dtype == FAC_F32 ? fns[0][largest] : dtype == FAC_F64 ? fns[1][largest] : NULL;
}

static fac_range_fn rows_of_dtype(int dtype) {
    static const fac_range_fn table[FAC_DTYPE_COUNT] = {
        [FAC_F32] = rows_f32, [FAC_F64] = rows_f64, [FAC_C64] = rows_c64, [FAC_C128] = rows_c128, [FAC_U8] = rows_u8,
        [FAC_I8] = rows_u8,   [FAC_I16] = rows_u16, [FAC_I32] = rows_u32, [FAC_I64] = rows_u64};
    return table[dtype];
}

/* Rows begin where they may, and columns exist: tensors made without a check may say anything. */
static fac_status check(const fac_spmm *s, int64_t rows, int64_t z, int64_t m) {
    bool fine = s->begin[0] == 0 && s->begin[rows] == z;
    for (int64_t i = 0; i < rows && fine; i++) fine = s->begin[i] <= s->begin[i + 1];
    FAC_CHECK(fine, FAC_ERR_ARGUMENT, "rows do not begin in order, from 0 to the number of elements");
    const bool beyond = FAC_ISA_PICK(fac__some_beyond)(s->columns, z, m);
    for (int64_t k = 0; beyond && k < z; k++)
        FAC_CHECK(s->columns[k] >= 0 && s->columns[k] < m, FAC_ERR_INDEX, "column %lld of a matrix of %lld columns",
                  (long long)s->columns[k], (long long)m);
    return FAC_OK;
}

static fac_status row_major(fac_tensor *t, fac_tensor **out) {
    if (fac__is_contiguous(t) && !fac__pending(t)) return *out = fac__ref(t), FAC_OK;
    return fac__c_clone(t, FAC_CONTIGUOUS, out);
}

static fac_status run(fac_tensor *begin, fac_tensor *columns, fac_tensor *values, fac_tensor *dense, fac_range_fn fn,
                      fac_dtype dtype, fac_tensor **out) {
    const bool blocks = values->ndim == 3;
    const int64_t rows = begin->numel - 1, z = columns->numel, none = 0;
    fac_spmm s = {.begin = fac__data(begin),
                  .columns = z ? fac__data(columns) : &none,
                  .values = fac__data(values),
                  .dense = fac__data(dense),
                  .n = dense->sizes[1],
                  .height = blocks ? values->sizes[1] : 1,
                  .width = blocks ? values->sizes[2] : 1,
                  .z = z};
    const int64_t sizes[] = {fac__mul_or_max(rows, s.height), s.n};
    FAC_CHECK(fn, FAC_ERR_DTYPE, "products and extremes of %s are computed in float32",
              fac_dtype_name((fac_dtype)dense->dtype));
    FAC_TRY(check(&s, rows, z, dense->sizes[0] / s.width));
    FAC_TRY(fac__empty(sizes, 2, dtype, dense->device, out));
    if (!(*out)->numel) return FAC_OK;
    s.out = fac__data(*out);
    const int64_t each = fac__mul_or_max(values->numel / rows + s.height, s.n);
    return fac__parallel_for(0, rows, fac__grain(FAC_GRAIN, each), fn, &s);
}

/* fn: NULL where the dtype of `dense` has none. `dtype` is the result's. */
static fac_status run_row_major(fac_tensor *const *given, fac_range_fn fn, fac_dtype dtype, fac_tensor **out) {
    fac_tensor *own[4] = {NULL};
    fac_status st = FAC_OK;
    for (int i = 0; i < 4 && st == FAC_OK; i++) st = row_major(given[i], &own[i]);
    if (st == FAC_OK) st = run(own[0], own[1], own[2], own[3], fn, dtype, out);
    for (int i = 0; i < 4; i++) fac__unref(own[i]);
    return st;
}

fac_status spmm_cpu(const fac_call_info *c, fac_tensor *crow_indices, fac_tensor *col_indices, fac_tensor *values,
                    fac_tensor *dense, fac_tensor **out) {
    (void)c;
    FAC_TRY(fac__sparse_check_spmm(crow_indices, col_indices, values, dense));
    return run_row_major((fac_tensor *const[]){crow_indices, col_indices, values, dense}, rows_of_dtype(dense->dtype),
                         (fac_dtype)dense->dtype, out);
}

fac_status spmm_extremes_cpu(const fac_call_info *c, fac_tensor *crow_indices, fac_tensor *col_indices,
                             fac_tensor *values, fac_tensor *dense, bool largest, fac_tensor **out) {
    (void)c;
    static const fac_range_fn fns[2][2] = {{least_rows_f32, largest_rows_f32}, {least_rows_f64, largest_rows_f64}};
    FAC_TRY(fac__sparse_check_extremes(crow_indices, col_indices, values, dense));
    return run_row_major((fac_tensor *const[]){crow_indices, col_indices, values, dense},
                         of_dtype(fns, dense->dtype, largest), (fac_dtype)dense->dtype, out);
}

fac_status spmm_winners_cpu(const fac_call_info *c, fac_tensor *crow_indices, fac_tensor *col_indices,
                            fac_tensor *values, fac_tensor *dense, bool largest, fac_tensor **out) {
    (void)c;
    static const fac_range_fn fns[2][2] = {{first_least_rows_f32, first_largest_rows_f32},
                                           {first_least_rows_f64, first_largest_rows_f64}};
    FAC_TRY(fac__sparse_check_extremes(crow_indices, col_indices, values, dense));
    return run_row_major((fac_tensor *const[]){crow_indices, col_indices, values, dense},
                         of_dtype(fns, dense->dtype, largest), FAC_I64, out);
}
