/* What the text of a tensor says of its place in the graph. */
#include "autograd/init.h"
#include "autograd/node.h"

void fac__autograd_describe(fac_tensor *t, char *buf, size_t size) {
    fac_node *n = fac__grad_fn(t);
    if (n)
        snprintf(buf, size, "grad_fn=<%s>", fac_node_name(n));
    else
        snprintf(buf, size, "%s", fac__requires_grad(t) ? "requires_grad=True" : "");
}
