/* Automatic differentiation, watched: f(x1, x2) = (exp(x1) + x2) * (x2 + 1), every node's value and adjoint.

   Shows tensors that want gradients, a backward pass, the gradients of what lies between, and the graph that was walked.

       cc autodiff.c $(pkg-config --cflags --libs facula) -o autodiff && ./autodiff [x1 x2]

   Prints each node with its derivative by Facula and by hand, then the graph. Returns 1 if the two do not agree. */
#include <facula/facula.h>
#include <math.h>
#include <stdlib.h>

typedef struct {
    const char *name, *formula;
    fac_tensor *value;
    double adjoint; /* by hand, for comparison */
} node;

int main(int argc, char **argv) {
    const double a = argc == 3 ? atof(argv[1]) : 0.5, b = argc == 3 ? atof(argv[2]) : 2.0;
    FAC_SCOPE(s);
    fac_tensor *x1 = fac_full(FAC_SHAPE(), a, .dtype = FAC_F64, .requires_grad = true);
    fac_tensor *x2 = fac_full(FAC_SHAPE(), b, .dtype = FAC_F64, .requires_grad = true);
    fac_tensor *v1 = fac_exp(x1);
    fac_tensor *v2 = fac_add(v1, x2);
    fac_tensor *v3 = fac_add(x2, 1);
    fac_tensor *f = fac_mul(v2, v3);

    /* Backwards: the adjoint of a node is df/dnode; x2 is used twice, so it gets two terms. */
    const node nodes[] = {
        {"f", "v2 * v3", f, 1},       {"v3", "x2 + 1", v3, exp(a) + b},       {"v2", "v1 + x2", v2, b + 1},
        {"v1", "exp(x1)", v1, b + 1}, {"x2", "", x2, (b + 1) + (exp(a) + b)}, {"x1", "", x1, (b + 1) * exp(a)},
    };
    enum { N = sizeof nodes / sizeof *nodes };
    for (int i = 0; i < N; i++)
        if (fac_retain_grad(nodes[i].value)) return fac_report(stderr); /* leaves keep theirs anyway */
    if (fac_backward(f)) return fac_report(stderr);

    printf("%-4s %-10s %14s %14s %14s\n", "node", "formula", "value", "adjoint", "by hand");
    for (int i = 0; i < N; i++) {
        const double adjoint = fac_item(fac_grad_of(nodes[i].value)), by_hand = nodes[i].adjoint;
        printf("%-4s %-10s %14.8f %14.8f %14.8f\n", nodes[i].name, nodes[i].formula, fac_item(nodes[i].value), adjoint,
               by_hand);
        if (fabs(adjoint - by_hand) > 1e-12 * (1 + fabs(by_hand)))
            fac_error_set(FAC_ERR_STATE, "the derivative by %s is wrong", nodes[i].name);
    }
    puts("\nthe graph that backward walked:");
    fac_graph_print(f, stdout);
    return fac_report(stderr); /* 1, and says why, if anything went wrong */
}
