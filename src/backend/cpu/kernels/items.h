/* Moving elements, by their size alone unless they are converted: kernels that copy do not care what the bytes mean. Strides are in
   bytes. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_ITEMS_H
#define FAC_SRC_BACKEND_CPU_KERNELS_ITEMS_H

#include "backend/cpu/cpu.h"
#include "iter/nest.h"

/* Elements of 1 to 16 bytes; they may lie over memory of any type. */
typedef uint8_t fac_item1;
typedef uint16_t __attribute__((may_alias)) fac_item2;
typedef uint32_t __attribute__((may_alias)) fac_item4;
typedef uint64_t __attribute__((may_alias)) fac_item8;
typedef struct __attribute__((may_alias)) fac_item16 {
    uint64_t half[2];
} fac_item16;

/* Expands DO(T) with the type of elements of `item` bytes. */
#define FAC_ITEM_SWITCH(item, DO)   \
    switch (item) {                 \
    case 1: DO(fac_item1); break;   \
    case 2: DO(fac_item2); break;   \
    case 4: DO(fac_item4); break;   \
    case 8: DO(fac_item8); break;   \
    default: DO(fac_item16); break; \
    }

/* Copies rows of n strided elements each: `to` and `from` lead from one element to the next, to_row and from_row from one row to the
   next; all are multiples of the size. */
FAC_ISA_DECLARE(void, fac__items_copy_rows,
                (size_t item, char *dst, int64_t to, const char *src, int64_t from, int64_t n, int64_t rows,
                 int64_t to_row, int64_t from_row));
/* Elements of a and b, of 1 to 8 bytes, in turn: n of each. */
FAC_ISA_DECLARE(void, fac__items_zip, (size_t item, char *dst, const char *a, const char *b, int64_t n));
/* Copies one row. */
static inline void fac__items_copy(size_t item, char *dst, int64_t to, const char *src, int64_t from, int64_t n) {
    FAC_ISA_PICK(fac__items_copy_rows)(item, dst, to, src, from, n, 1, 0, 0);
}
/* Sets n elements to zero bits. */
void fac__items_zero(size_t item, char *dst, int64_t dst_stride, int64_t n);
/* Sets n elements to the one at `value`. */
void fac__items_fill(size_t item, char *dst, int64_t dst_stride, const void *value, int64_t n);

/* One side of a copy over a nest: where its first point lies, and its strides. */
typedef struct fac_items_side {
    char *p;
    const int64_t *stride;
} fac_items_side;
/* Copies n points of the nest from the one at `index` on. */
void fac__items_copy_points(const fac_nest *nest, const int64_t *index, size_t item, fac_items_side to,
                            fac_items_side from, int64_t n);

/* A copy: the destination is the nest's first operand, the source its second; strides are bytes. */
typedef struct fac_items_job {
    const fac_nest *nest;
    size_t item;
    char *dst;
    const char *src;
} fac_items_job;
/* Carries it out on several threads. */
fac_status fac__items_copy_nest(const fac_items_job *j);
/* dst = src over index space `sizes`, element strides of either sign. */
fac_status fac__items_copy_nd(size_t item, char *dst, const int64_t *dst_strides, const char *src,
                              const int64_t *src_strides, const int64_t *sizes, int ndim);

/* dst <- src with conversion and broadcasting; both on the CPU. */
fac_status fac__cpu_copy(fac_tensor *dst, fac_tensor *src);
/* Every element of dst <- v. */
fac_status fac__cpu_fill(fac_tensor *dst, fac_scalar v);

/* Owned row-major CPU copy of t, or another reference to t if it is row-major already. */
fac_status fac__cpu_contiguous(fac_tensor *t, fac_tensor **out);

/* A row-major stand-in for an output that may have any strides. Begin gives `target` itself if it is row-major, else an owned
   temporary, filled from it if `load`; end writes the temporary back and frees it. */
typedef struct fac_rowmajor {
    fac_tensor *t, *target;
} fac_rowmajor;
fac_status fac__rowmajor_begin(fac_tensor *target, bool load, fac_rowmajor *out);
/* The same with a stand-in in another format. */
fac_status fac__formatted_begin(fac_tensor *target, fac_memory_format f, fac_rowmajor *out);
/* Returns st, or the error of writing back. */
fac_status fac__rowmajor_end(fac_rowmajor *r, fac_status st);

#endif
