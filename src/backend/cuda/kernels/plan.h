/* What a pointwise kernel is told of its operands: the iterator's description, by value. Shared with launchers. */
#ifndef FAC_KERNEL_PLAN_H
#define FAC_KERNEL_PLAN_H

#include "kernel.h"

enum { K_DIMS = 8, K_OPERANDS = 5 }; /* an iterator of more dimensions takes several launches */

typedef struct k_operand {
    char *data;              /* NULL for numbers */
    int64_t strides[K_DIMS]; /* bytes, fastest dimension first */
    double number[2];        /* of an operand without data, in all guises that kernels read */
    int64_t integer;
    int32_t dtype; /* of the elements in memory */
    int32_t round; /* K_F16 or K_BF16: the value is rounded to it when it is read; else 0 */
} k_operand;

typedef struct k_plan {
    int64_t numel;
    int64_t shape[K_DIMS]; /* fastest first */
    int32_t ndim;
    int32_t plain; /* every operand is a number or lies without gaps in the dtype that the kernel computes in */
    k_operand op[K_OPERANDS];
    double f[3]; /* numbers that accompany the operation, in both guises: fac_loop_args */
    int64_t i[3];
} k_plan;

/* Byte offsets of element i of every operand. */
KDEV_CALL void k_offsets(const k_plan *p, int n_operands, int64_t i, int64_t *offset) {
    K_UNROLL(1)
    for (int k = 0; k < n_operands; k++) offset[k] = 0;
    K_UNROLL(1)
    for (int d = 0; d < p->ndim; d++) {
        int64_t at;
        if (i <= 0x7fffffff && p->shape[d] <= 0x7fffffff) { /* division of 32 bits is several times as fast */
            uint32_t size = (uint32_t)p->shape[d], q = (uint32_t)i / size;
            at = (uint32_t)i - q * size;
            i = q;
        } else {
            int64_t q = i / p->shape[d];
            at = i - q * p->shape[d];
            i = q;
        }
        K_UNROLL(1)
        for (int k = 0; k < n_operands; k++) offset[k] += at * p->op[k].strides[d];
    }
}

#endif
