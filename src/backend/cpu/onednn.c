/* Starts oneDNN and keeps its OpenMP threads to the number that the library's own loops use. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "backend/cpu/onednn.h"
#include "base/mutex.h"
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

/* Of each thread's own count: neither call touches another's, nor the user's own loops. */
static int (*get_max_threads)(void);
static void (*set_num_threads)(int);

/* By the order in which oneDNN's own references were bound, so it is the same OpenMP if several are loaded. */
void fac__onednn_start(void) {
    void *get = dlsym(RTLD_DEFAULT, "omp_get_max_threads"), *set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (!get || !set) return;
    memcpy(&get_max_threads, &get, sizeof get);
    memcpy(&set_num_threads, &set, sizeof set);
}

int fac__onednn_begin(void) {
    fac__fork_hold();
    int was = get_max_threads ? get_max_threads() : 1;
    if (was != 1) set_num_threads(1);
    return was;
}

void fac__onednn_end(int was) {
    if (was != 1) set_num_threads(was);
    fac__fork_allow();
}

const bool fac__onednn_built_in = true;

/* dnnl_sgemm takes row-major operands, each plain or transposed. */
static char side(const fac_gemm_operand *x, int64_t *ld) {
    *ld = x->cs == 1 ? x->rs : x->cs;
    return x->cs == 1 ? 'N' : 'T';
}

fac_status fac__onednn_sgemm(const fac_gemm_block *p) {
    int64_t lda, ldb;
    char ta = side(&p->a, &lda), tb = side(&p->b, &ldb);
    int was = fac__onednn_begin();
    dnnl_status_t st =
        dnnl_sgemm(ta, tb, p->m, p->n, p->k, (float)p->alpha[0], (const float *)(const void *)p->a.data, lda,
                   (const float *)(const void *)p->b.data, ldb, p->from ? 1.0f : 0.0f, p->c, p->ldc);
    fac__onednn_end(was);
    FAC_CHECK(st == dnnl_success, FAC_ERR_INTERNAL, "oneDNN's sgemm refused a %lld x %lld x %lld product (status %d)",
              (long long)p->m, (long long)p->n, (long long)p->k, (int)st);
    return FAC_OK;
}
