/* Operators over lists that write: whether each entry may be written, and how results are copied over entries whose history is
   recorded, so that a call that fails has changed none of them. */
#include "autograd/foreach.h"
#include "autograd/autograd_meta.h"
#include "autograd/engine_ops.h"
#include "autograd/mode.h"
#include "core/tensor_make.h"

fac_status fac__foreach_check_written(const fac_foreach *each) {
    for (size_t i = 0; i < each->lists[0].n; i++) {
        fac_tensor *t = each->lists[0].v[i];
        FAC_TRY(fac__check_writable(t));
        if (!(t->flags & FAC_TF_DENSE)) FAC_TRY(fac__check_no_overlap(t));
        if (fac__foreach_is_recorded(each, i)) FAC_TRY(fac__check_inplace(t, true));
        FAC_TRY(fac__version_make(t));
    }
    return FAC_OK;
}

/* ---- results over entries ------------------------------------------------------------------------------------------------- */

/* An entry that will be written, with the history that it then has; history.node is NULL if none is recorded. */
typedef struct written {
    fac_tensor *t, *result; /* borrowed */
    fac_rebase history;
} written;

/* The history that t has after the copy, taken from a recorded copy of t that is written in its stead. */
static fac_status plan_history(fac_tensor *t, fac_tensor *result, fac_rebase *out) {
    fac_tensor *stand_in = NULL;
    FAC_TRY(fac__ag_clone(t, &stand_in));
    fac_status st = fac__ag_copy_in_place(stand_in, result);
    fac_node *fn = st ? NULL : fac__grad_fn(stand_in);
    if (fn) st = fac__rebase_begin(t, fn, stand_in->ag->output_nr, out);
    fac__unref(stand_in);
    return st ? st : fac_error();
}

/* Whose history changes with t's. */
static const fac_tensor *whole_of(const fac_tensor *t) { return t->ag && t->ag->view ? t->ag->base : t; }

static bool meets_earlier(const written *w, size_t from, size_t i) {
    for (size_t k = from; k < i; k++)
        if (w[k].history.node && whole_of(w[i].t) == w[k].history.whole) return true;
    return false;
}

/* Copies below autograd what has its history by now. */
static fac_status write_entry(written *w, fac_status st) {
    if (st || !w->history.node) return st ? st : fac__ag_copy_in_place(w->t, w->result);
    fac_recording was = fac__recording_save(fac__thread());
    fac__thread()->grad_disabled = true;
    st = fac__ag_copy_in_place(w->t, w->result);
    fac__recording_end(was);
    return st;
}

/* Entries whose histories do not meet: all that can fail comes first. Returns where the next begin. */
static size_t write_apart(const fac_foreach *each, written *w, size_t from, fac_status *st) {
    size_t end = from;
    for (; end < each->lists[0].n && !*st && !meets_earlier(w, from, end); end++)
        if (fac__foreach_is_recorded(each, end)) *st = plan_history(w[end].t, w[end].result, &w[end].history);
    for (size_t i = from; i < end; i++) {
        *st = write_entry(&w[i], *st);
        *st = fac__rebase_end(&w[i].history, *st);
    }
    return end;
}

static fac_status write_all(const fac_foreach *each, const fac_tensor_list *made) {
    const size_t n = each->lists[0].n;
    FAC_TRY(fac__foreach_check_results(each, made));
    written *w = fac__alloc_array(n, sizeof *w);
    fac_status st = FAC_OK;
    if (!w) return fac_error();
    for (size_t i = 0; i < n; i++) w[i] = (written){each->lists[0].v[i], made->v[i], {0}};
    for (size_t i = 0; i < n && !st;) i = write_apart(each, w, i, &st);
    fac__free(w);
    return st;
}

fac_status fac__foreach_over(const fac_foreach *each, fac_tensor_list *before, fac_tensor_list *made, fac_status st) {
    fac__tensor_list_free(before);
    if (!st) st = write_all(each, made);
    fac__tensor_list_free(made);
    return st;
}
