/* Gradients of products of matrices of different sizes: again such products. */
#include "ops/call.h"
#include "ops_gen.h"

/* Sizes (rows, inner, columns) of each product as three others of them: 0, 1, 2 in the order that is asked for. */
static fac_tensor *product(fac_tensor *a, fac_tensor *b, fac_ints sizes, const int order[3], int64_t transposed) {
    int64_t *v = fac__alloc_array(sizes.n + 1, sizeof *v);
    if (!v || !a || !b) {
        fac__free(v);
        return NULL;
    }
    for (size_t i = 0; i + 2 < sizes.n; i += 3)
        for (int k = 0; k < 3; k++) v[i + (size_t)k] = sizes.v[i + (size_t)order[k]];
    fac_tensor *t = fac__s__ragged_bmm(a, b, (fac_ints){v, sizes.n}, transposed);
    fac__free(v);
    return t;
}

/* With C = A B: dA = dC B^H, and where A is stored transposed, dA^T = (dC B^H)^T = conj(B) dC^T. */
fac_tensor *ragged_bmm_grad_self(fac_tensor *grad, fac_tensor *mat2, fac_ints sizes, int64_t transposed) {
    static const int plain[] = {0, 2, 1}, turned[] = {1, 2, 0};
    const int64_t second = transposed & 2;
    fac_tensor *b = fac__s_conj(mat2);
    return transposed & 1 ? product(b, grad, sizes, turned, (second ? 1 : 0) + 2)
                          : product(grad, b, sizes, plain, 2 - second);
}

/* dB = A^H dC, and where B is stored transposed, dB^T = dC^T conj(A). */
fac_tensor *ragged_bmm_grad_mat2(fac_tensor *grad, fac_tensor *self, fac_ints sizes, int64_t transposed) {
    static const int plain[] = {1, 0, 2}, turned[] = {2, 0, 1};
    const int64_t first = transposed & 1;
    fac_tensor *a = fac__s_conj(self);
    return transposed & 2 ? product(grad, a, sizes, turned, 1 + (first ? 2 : 0))
                          : product(a, grad, sizes, plain, 1 - first);
}
