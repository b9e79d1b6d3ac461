/* One loop over all tensors of a list: what operators over lists run where every entry lies as the first. The operator is asked once
   what it runs over the first entry; the others get the same loop, numbers and conversions. */
#include "backend/pointwise/pointwise.h"
#include "ops_gen.h"

/* The tensor of argument k of entry i, in the order of the schema; NULL beyond the last. */
static fac_tensor *operand(const fac_foreach *each, size_t k, size_t i) {
    return k < each->n ? each->lists[k].v[i] : k == each->n ? each->single : NULL;
}

/* Whether the iterator's tensors are the arguments in their order. */
static bool is_served(const fac_pointwise_list *l, const fac_foreach *each) {
    const fac_iter *it = &l->iter;
    size_t k = 0;
    if (!l->flat || it->nest.ndim != 1 || it->n_out != 1) return false;
    for (int i = 1; i < it->n; i++)
        if (!it->op[i].is_scalar && it->op[i].t != operand(each, k++, 0)) return false;
    return operand(each, k, 0) == NULL;
}

static void find_places(const fac_pointwise_list *l, const fac_foreach *each, fac_tensor *const *outs,
                        fac_list_place *places) {
    const fac_iter *it = &l->iter;
    int64_t end = 0;
    for (size_t i = 0; i < each->lists[0].n; i++) {
        fac_list_place *at = &places[i];
        size_t k = 0;
        at->data[0] = fac__data(outs[i]);
        for (int j = 1; j < it->n; j++) at->data[j] = it->op[j].is_scalar ? NULL : fac__data(operand(each, k++, i));
        at->end = end += outs[i]->numel;
    }
}

static fac_status run(const fac_pointwise_list *l, const fac_foreach *each, fac_tensor_list *out) {
    const size_t n = each->lists[0].n;
    if (out) FAC_TRY(fac__foreach_results(each, l->first, out));
    fac_list_place *places = fac__alloc_array(n, sizeof *places);
    if (!places) return fac_error();
    find_places(l, each, out ? out->v : each->lists[0].v, places);
    fac_status st = fac__cpu_pointwise_list(&l->iter, &l->plan, places, n);
    for (size_t i = 0; i < n && !out && !st; i++) st = fac__bump_version(each->lists[0].v[i]);
    fac__free(places);
    return st;
}

bool fac__pointwise_list(fac_pointwise_list *l, const fac_foreach *each, fac_tensor_list *out, fac_status *out_st) {
    const bool served = is_served(l, each);
    if (served) *out_st = run(l, each, out);
    if (served && out) *out_st = fac__foreach_end(out, *out_st);
    fac__unref(l->first);
    return served;
}
