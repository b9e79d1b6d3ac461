/* Products with weights of 8 and 4 bits, and embeddings of packed rows. Few rows meet the weights as they are read, which is what a
   language model does for one token; for many the weights are made float32 first and multiplied as such. Tasks are cut by shape, and
   no sum is split. */
#include "backend/cpu/kernels/low_bits.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/parallel.h"
#include "core/scalar.h"
#include "core/tensor_make.h"
#include "ops/composite/low_bits.h"
#include "ops_gen.h"

enum { FEW = 8 }; /* rows for which weights are not made float32 */

/* ---- products ------------------------------------------------------------------------------------------------------------- */

typedef struct weights {
    int64_t m, n, k, group; /* group 0: 8 bits */
    const char *codes;      /* row-major */
    const float *numbers;   /* 8 bits: scales [n]; 4 bits: [n, k / group, 2] */
    const float *x;         /* [m, k]; for 4 bits as fac__dot_i4 takes it */
    fac_dtype dtype;
    char *out; /* few rows: [m, n] of dtype; else float32 [n, k] */
} weights;

/* Whether x stays bf16 (fac_row4.narrow). */
static bool is_narrow(const weights *w) {
    return fac__cpu_bf16 && w->dtype == FAC_BF16 && w->k % 64 == 0 && (w->group == 32 || w->group % 64 == 0);
}

static fac_row4 row_of(const weights *w, int64_t j) {
    const float *numbers = w->numbers + 2 * j * (w->k / w->group);
    return (fac_row4){(const uint8_t *)w->codes + j * (w->k / 2), numbers, w->k, w->group, is_narrow(w)};
}

/* From one row of x to the next. */
static int64_t x_stride(const weights *w) {
    return w->group ? (is_narrow(w) ? w->k / 2 : w->k) + 2 * (w->k / w->group) : w->k;
}

/* Columns are stored some at a time, as a call for each would take as long as its sum. */
static fac_status dot_range(void *context, int64_t begin, int64_t end) {
    enum { SOME = 32 };
    const weights *w = context;
    const int64_t item = fac__dtype_size(w->dtype);
    float sums[FEW], all[FEW][SOME];
    for (int64_t at = begin; at < end; at += SOME) {
        const int64_t n = fac__min(SOME, end - at);
        for (int64_t j = 0; j < n; j++) {
            if (w->group) {
                const fac_row4 row = row_of(w, at + j);
                FAC_ISA_PICK(fac__dot_i4)(&row, w->x, x_stride(w), w->m, sums);
            } else {
                const int8_t *codes = (const int8_t *)w->codes + (at + j) * w->k;
                FAC_ISA_PICK(fac__dot_i8)(w->x, w->k, w->m, codes, w->k, sums);
            }
            for (int64_t r = 0; r < w->m; r++) all[r][j] = w->group ? sums[r] : sums[r] * w->numbers[at + j];
        }
        for (int64_t r = 0; r < w->m; r++)
            fac__tile_store(FAC_ACC_F32, all[r], w->out + (r * w->n + at) * item, w->dtype, 1, n);
    }
    return FAC_OK;
}

static fac_status unpack_range(void *context, int64_t begin, int64_t end) {
    const weights *w = context;
    for (int64_t j = begin; j < end; j++) {
        const fac_row4 row = row_of(w, j);
        FAC_ISA_PICK(fac__unpack_i4)(&row, (float *)(void *)w->out + j * w->k);
    }
    return FAC_OK;
}

/* Float32 elements of t, row-major. */
static void load_floats(const fac_tensor *t, float *out) {
    fac__tile_load(FAC_ACC_F32, out, fac__data(t), (fac_dtype)t->dtype, 1, t->numel);
}

/* Numbers [count, n, 2] of 4-bit weights, those of a row side by side: [n, count, 2]. */
static void load_numbers(const fac_tensor *t, float *out) {
    enum { SOME = 64 };
    const int64_t count = t->sizes[0], n = t->sizes[1], item = fac__dtype_size((fac_dtype)t->dtype);
    const char *from = fac__data(t);
    float pairs[2 * SOME];
    for (int64_t j = 0; j < n; j += SOME) {
        const int64_t some = fac__min(SOME, n - j);
        for (int64_t g = 0; g < count; g++) {
            fac__tile_load(FAC_ACC_F32, pairs, from + (g * n + j) * 2 * item, (fac_dtype)t->dtype, 1, 2 * some);
            for (int64_t i = 0; i < some; i++)
                memcpy(out + ((j + i) * count + g) * 2, pairs + 2 * i, 2 * sizeof *pairs);
        }
    }
}

/* A row of x as fac__dot_i4 takes it. */
static void load_row(const weights *w, const char *from, float *out) {
    const int64_t item = fac__dtype_size(w->dtype), half = w->k / 2, count = w->k / w->group;
    const bool narrow = is_narrow(w);
    uint16_t *halves = (uint16_t *)(void *)out;
    float *sums = out + x_stride(w) - 2 * count;
    for (int64_t i = 0; narrow && i < w->k; i++) memcpy(halves + i % 2 * half + i / 2, from + i * item, sizeof *halves);
    for (int64_t odd = 0; !narrow && odd < 2; odd++)
        fac__tile_load(FAC_ACC_F32, out + odd * half, from + odd * item, w->dtype, 2, half);
    for (int64_t i = 0, g = 0; g < count; g++) {
        float sum = 0;
        for (; i < (g + 1) * w->group; i++) {
            const int64_t at = i % 2 * half + i / 2;
            sum += narrow ? fac__bf16_to_f32(halves[at]) : out[at];
        }
        sums[2 * g] = 0, sums[2 * g + 1] = sum;
    }
}

static void load_halves_first(const weights *w, const fac_tensor *x, float *out) {
    for (int64_t r = 0; r < w->m; r++)
        load_row(w, (const char *)fac__data(x) + r * w->k * fac__dtype_size(w->dtype), out + r * x_stride(w));
}

static fac_status take_floats(int64_t n, fac_workspace *out) {
    int64_t bytes;
    FAC_CHECK(fac__mul(n, sizeof(float), &bytes), FAC_ERR_OVERFLOW, "too many elements");
    return fac__workspace_take(fac__max(bytes, 1), out);
}

/* Few rows of x: all operands row-major. */
static fac_status multiply_few(weights *w, const fac_tensor *x, const fac_tensor *numbers, fac_tensor **out) {
    int64_t n;
    FAC_CHECK(fac__mul(w->m, x_stride(w), &n) && fac__add(n, numbers->numel, &n), FAC_ERR_OVERFLOW,
              "too many elements");
    fac_workspace taken;
    FAC_TRY(take_floats(n, &taken));
    float *room = (float *)(void *)taken.at;
    fac_status st = fac__empty((const int64_t[]){w->m, w->n}, 2, w->dtype, x->device, out);
    if (st == FAC_OK && (*out)->numel) {
        float *of_columns = room + w->m * x_stride(w);
        w->x = room, w->numbers = of_columns, w->out = fac__data(*out);
        if (numbers->numel && w->group)
            load_numbers(numbers, of_columns);
        else if (numbers->numel)
            load_floats(numbers, of_columns);
        if (w->k && w->group)
            load_halves_first(w, x, room);
        else if (w->k)
            load_floats(x, room);
        st = fac__parallel_for(0, w->n, fac__grain(FAC_GRAIN, fac__mul_or_max(w->m, w->k)), dot_range, w);
    }
    fac__workspace_give(taken);
    return st;
}

typedef fac_status (*few_fn)(weights *w, const fac_tensor *x, const fac_tensor *numbers, fac_tensor **out);

/* Calls `fn` with row-major operands. */
static fac_status with_rows(few_fn fn, weights *w, fac_tensor *x, fac_tensor *codes, fac_tensor *numbers,
                            fac_tensor **out) {
    fac_tensor *given[] = {x, codes, numbers}, *own[3] = {NULL};
    fac_status st = FAC_OK;
    for (int i = 0; i < 3 && st == FAC_OK; i++) st = fac__cpu_contiguous(given[i], &own[i]);
    if (st == FAC_OK) {
        w->codes = own[1]->numel ? fac__data(own[1]) : NULL;
        st = fn(w, own[0], own[2], out);
    }
    for (int i = 0; i < 3; i++) fac__unref(own[i]);
    return st;
}

fac_status weight_int8pack_mm_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor *mat2, fac_tensor *scales,
                                  fac_tensor **out) {
    FAC_TRY(fac__check_int8pack(self, mat2, scales));
    if (self->sizes[0] > FEW) return weight_int8pack_mm_explicit(c, self, mat2, scales, out);
    weights w = {.m = self->sizes[0], .n = mat2->sizes[0], .k = mat2->sizes[1], .dtype = (fac_dtype)self->dtype};
    return with_rows(multiply_few, &w, self, mat2, scales, out);
}

/* Owned: all weights in float32. */
static fac_status unpack(weights *w, const fac_tensor *x, const fac_tensor *numbers, fac_tensor **out) {
    fac_workspace taken;
    FAC_TRY(take_floats(numbers->numel, &taken));
    float *room = (float *)(void *)taken.at;
    fac_status st = fac__empty((const int64_t[]){w->n, w->k}, 2, FAC_F32, x->device, out);
    if (st == FAC_OK && (*out)->numel) {
        load_numbers(numbers, room);
        w->numbers = room, w->out = fac__data(*out);
        st = fac__parallel_for(0, w->n, fac__grain(FAC_GRAIN, w->k), unpack_range, w);
    }
    fac__workspace_give(taken);
    return st;
}

fac_status weight_int4pack_mm_cpu(const fac_call_info *c, fac_tensor *self, fac_tensor *mat2, int64_t qGroupSize,
                                  fac_tensor *qScaleAndZeros, fac_tensor **out) {
    (void)c;
    FAC_TRY(fac__check_int4pack(self, mat2, qGroupSize, qScaleAndZeros));
    weights w = {.m = self->sizes[0],
                 .n = mat2->sizes[0],
                 .k = self->sizes[1],
                 .group = qGroupSize,
                 .dtype = (fac_dtype)self->dtype};
    if (w.m <= FEW) return with_rows(multiply_few, &w, self, mat2, qScaleAndZeros, out);
    fac_tensor *unpacked;
    FAC_TRY(with_rows(unpack, &w, self, mat2, qScaleAndZeros, &unpacked));
    const fac_status st = fac__float_product(self, unpacked, out);
    fac__unref(unpacked);
    return st;
}

/* ---- embeddings ----------------------------------------------------------------------------------------------------------------- */

typedef struct look_ups {
    fac_rows_of_codes rows;
    bool four; /* codes of 4 bits */
    float *out;
} look_ups;

static fac_status look_up_range(void *context, int64_t begin, int64_t end) {
    const look_ups *l = context;
    float *out = l->out + begin * l->rows.n;
    if (l->four)
        FAC_ISA_PICK(fac__look_up_4)(&l->rows, begin, end, out);
    else
        FAC_ISA_PICK(fac__look_up_8)(&l->rows, begin, end, out);
    return FAC_OK;
}

static fac_status check_indices(const fac_rows_of_codes *r, int64_t n, int64_t rows) {
    if (FAC_ISA_PICK(fac__code_rows_within)(r, n, rows)) return FAC_OK;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = fac__code_row(r, i);
        FAC_CHECK(at >= 0 && at < rows, FAC_ERR_INDEX, "index %lld is out of range for a table of %lld rows",
                  (long long)at, (long long)rows);
    }
    return FAC_OK;
}

static fac_status look_up_rows(look_ups *l, const fac_tensor *table, const fac_tensor *indices, fac_tensor **out) {
    int64_t sizes[FAC_MAX_DIMS];
    if (indices->numel) l->rows.indices = fac__data(indices);
    FAC_TRY(check_indices(&l->rows, indices->numel, table->sizes[0]));
    for (int d = 0; d < indices->ndim; d++) sizes[d] = indices->sizes[d];
    sizes[indices->ndim] = l->rows.n;
    FAC_TRY(fac__empty(sizes, indices->ndim + 1, FAC_F32, table->device, out));
    if (!(*out)->numel) return FAC_OK;
    l->rows.table = fac__data(table), l->out = fac__data(*out);
    return fac__parallel_for(0, indices->numel, fac__grain(FAC_GRAIN, l->rows.n), look_up_range, l);
}

static fac_status look_up(fac_tensor *weight, fac_tensor *indices, bool four, fac_tensor **out) {
    fac_tensor *table, *list = NULL;
    FAC_TRY(fac__check_look_up(weight, indices, four));
    FAC_TRY(fac__cpu_contiguous(weight, &table));
    fac_status st = fac__cpu_contiguous(indices, &list);
    if (st == FAC_OK) {
        const int64_t bytes = weight->sizes[1], codes = bytes - (four ? 4 : 8);
        look_ups l = {.rows = {.wide = indices->dtype == FAC_I64, .bytes = bytes, .n = four ? 2 * codes : codes},
                      .four = four};
        st = look_up_rows(&l, table, list, out);
    }
    fac__unref(list);
    fac__unref(table);
    return st;
}

fac_status embedding_byte_cpu(const fac_call_info *c, fac_tensor *weight, fac_tensor *indices, fac_tensor **out) {
    (void)c;
    return look_up(weight, indices, false, out);
}

fac_status embedding_4bit_cpu(const fac_call_info *c, fac_tensor *weight, fac_tensor *indices, fac_tensor **out) {
    (void)c;
    return look_up(weight, indices, true, out);
}
