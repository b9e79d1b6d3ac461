/* The fallback of the key ForwardAD: a call of any operator with dual tensors. Of the levels among the arguments the innermost is
   carried out here: the operator is called on the primals, which may be dual tensors of other levels, the tangent of what it gives is
   computed (forward_rules.c), and both are put together. What is called in this goes through all keys again, autograd's among them,
   since each level has graphs of its own. */
#include "autograd/forward_call.h"
#include "autograd/autograd_meta.h"
#include "autograd/engine_ops.h"
#include "core/resize.h"
#include "core/sparse.h"
#include "core/tensor_make.h"
#include "dispatch/value.h"
#include "ops_gen.h"

/* ---- calling on other tensors --------------------------------------------------------------------------------------------- */

static fac_value boxed_list(const fac_value *given, fac_tensor *const *v) {
    return fac__value_tensors(v, fac__value_headers(given).n);
}

static size_t tensors_in(const fac_value *v) {
    if (v->tag == FAC_TAG_TENSORS) return fac__value_headers(v).n;
    return v->tag == FAC_TAG_TENSOR;
}

/* as_strided counts its offset from the beginning of the storage, where a tangent may not lie as its primal does. */
static void move_offset(const dual_call *k, const fac_tensor *t, fac_value *stack) {
    if (k->op != fac__ag_as_strided() || !t || stack[3].tag == FAC_TAG_NONE) return;
    stack[3] = fac_value_int(fac_value_as_int(stack[3]) - k->slots[0].primal->offset + t->offset);
}

static fac_status fill_stack(const dual_call *k, fac_tensor *const *v, fac_value *stack) {
    size_t slot = 0;
    for (size_t i = 0; i < k->op->n_args; i++) {
        const fac_value *a = &k->args[i];
        const size_t n = tensors_in(a);
        if (a->tag == FAC_TAG_TENSORS)
            stack[i] = boxed_list(a, v + slot);
        else
            stack[i] = n ? fac__value_tensor(v[slot]) : *a;
        slot += n;
    }
    if (k->n) move_offset(k, v[0], stack);
    return fac_error();
}

static void release_stack(const dual_call *k, fac_value *stack) {
    for (size_t i = 0; i < k->op->n_args; i++)
        if (tensors_in(&k->args[i]) || k->args[i].tag == FAC_TAG_TENSORS) fac_value_release(&stack[i]);
}

static fac_status dispatch(const dual_call *k, fac_value *stack) {
    const fac_keyset keys = fac__call_keys(fac__thread(), fac__boxed_keys(k->schema, stack));
    return fac_redispatch(k->op, keys & fac__below(FAC_KEY_TRACE), stack);
}

static fac_status add_output(dual_list *l, fac_tensor *t) {
    l->v[l->n] = NULL;
    if (t) {
        l->v[l->n] = fac__adopt(fac__thread(), fac__ref(t));
        if (!l->v[l->n]) return fac_error();
    }
    l->n++;
    return FAC_OK;
}

static fac_status outputs_of(const dual_call *k, fac_tensor *const *v, const fac_value *results, dual_list *out) {
    size_t most = k->n_written + 1;
    for (size_t i = 0; i < k->op->n_rets; i++) most += results[i].tag == FAC_TAG_TENSORS ? tensors_in(&results[i]) : 1;
    *out = (dual_list){fac__alloc_array(most, sizeof *out->v), 0};
    if (!out->v) return FAC_ERR_MEMORY;
    for (size_t i = 0; i < k->n && k->n_written; i++)
        if (k->slots[i].written) FAC_TRY(add_output(out, v[i]));
    for (size_t i = 0; i < k->op->n_rets && !k->n_written; i++) {
        const fac_tensors l = fac__value_headers(&results[i]);
        for (size_t j = 0; j < l.n; j++) FAC_TRY(add_output(out, l.v[j]));
        if (results[i].tag != FAC_TAG_TENSORS) FAC_TRY(add_output(out, fac__value_header(&results[i])));
    }
    return FAC_OK;
}

static void drop(fac_value *v, size_t n) {
    for (size_t i = 0; i < n; i++) fac_value_release(&v[i]);
}

fac_status fac__dual_evaluate(const dual_call *k, fac_tensor *const *v, fac_value *results, dual_list *out) {
    const size_t n_args = k->op->n_args, n_rets = k->op->n_rets, width = n_args > n_rets ? n_args : n_rets;
    fac_value *stack = fac__alloc_array(2 * width + 1, sizeof *stack), *kept = stack + width;
    if (!stack) return FAC_ERR_MEMORY;
    for (size_t i = 0; i < width; i++) stack[i] = fac_value_none();
    fac_status st = fill_stack(k, v, stack);
    memcpy(kept, stack, n_args * sizeof *kept);
    if (st == FAC_OK) st = dispatch(k, stack);
    release_stack(k, kept);
    if (st == FAC_OK) {
        st = outputs_of(k, v, stack, out);
        if (st == FAC_OK && results)
            memcpy(results, stack, n_rets * sizeof *results);
        else
            drop(stack, n_rets);
    }
    fac__free(stack);
    return st;
}

/* ---- what is written --------------------------------------------------------------------------------------------------------- */

/* Owned: what t, which is to become a dual tensor, was; it takes its history along. */
static fac_status take_apart(fac_tensor *t, fac_tensor **out) {
    struct fac_autograd *ag = t->ag;
    FAC_TRY(fac__dual_check_kind(t));
    FAC_CHECK(!ag || !ag->requires_grad, FAC_ERR_AUTOGRAD,
              "a leaf that requires grad was changed in place by a tensor that has a tangent, which it cannot take on");
    FAC_TRY(fac__alias(t, false, out));
    fac_node *node = ag ? fac__history(ag) : NULL;
    if (!node) return FAC_OK;
    const fac_status st = fac__set_grad_fn(*out, node, ag->output_nr);
    if (st == FAC_OK) fac__node_unref(atomic_exchange_explicit(&ag->grad_fn, NULL, memory_order_acq_rel));
    return st;
}

static fac_status become_whole(fac_tensor *t, fac_tensor *tangent, fac_level level) {
    fac_tensor *primal = NULL, *laid_out = NULL;
    fac__dual_note_change(level);
    fac_status st = take_apart(t, &primal);
    if (st == FAC_OK && tangent) st = fac__dual_settle(tangent, primal, &laid_out);
    if (st == FAC_OK && !tangent) {
        st = fac__dual_settle(primal, primal, &laid_out); /* a copy, for its layout */
        if (st == FAC_OK) st = fac__ag_zero_in_place(laid_out);
    }
    if (st == FAC_OK) return fac__dual_become(t, primal, laid_out, level);
    fac__unref(primal);
    fac__unref(laid_out);
    return st;
}

/* The part of t, be it a base's primal or tangent, that a view of the base shows. */
static fac_status part_of(fac_tensor *t, const fac_tensor *view, int64_t shift, fac_tensor **out) {
    const fac_ints sizes = {view->sizes, view->ndim}, strides = {view->strides, view->ndim};
    return fac__c_as_strided(t, sizes, strides, (fac_opt_int){true, view->offset + shift}, out);
}

/* A view takes on a tangent that is a view of its base's. */
static fac_status become_view(fac_tensor *t, fac_tensor *tangent, fac_level level) {
    fac_tensor *base = t->ag->base, *primal = NULL, *part = NULL;
    const fac_dual_parts *p = fac__dual_parts(base);
    if (!p || p->level.number != level.number) FAC_TRY(become_whole(base, NULL, level));
    p = fac__dual_parts(base);
    FAC_CHECK(p && t->dtype == base->dtype && t->storage == base->storage, FAC_ERR_UNSUPPORTED,
              "a view of another dtype than its base cannot take on a tangent; write to the base");
    FAC_TRY(part_of(p->primal, t, 0, &primal));
    fac_status st = part_of(p->tangent, t, p->tangent->offset - base->offset, &part);
    if (st == FAC_OK) st = fac__ag_copy_in_place(part, tangent);
    if (st == FAC_OK) {
        fac__node_unref(atomic_exchange_explicit(&t->ag->grad_fn, NULL, memory_order_acq_rel));
        return fac__dual_become(t, primal, part, level);
    }
    fac__unref(primal);
    fac__unref(part);
    return st;
}

/* An operator may have changed the sizes of what it wrote. */
static fac_status follow(fac_tensor *t, fac_dual_parts *p) {
    fac_tensor *next = NULL, *tangent = NULL;
    if (fac__same_sizes(t, p->primal) && t->offset == p->primal->offset) return FAC_OK;
    FAC_TRY(fac__alias(p->primal, false, &next));
    fac__move_geometry(t, next);
    fac__unref(next);
    FAC_TRY(fac__dual_settle(p->primal, p->primal, &tangent));
    fac__unref(p->tangent);
    p->tangent = tangent;
    return FAC_OK;
}

static fac_status write_tangent(const dual_call *k, const dual_slot *s, fac_tensor *tangent) {
    fac_dual_parts *p = fac__dual_parts(s->given);
    if (p && p->level.number == k->level.number) {
        FAC_TRY(follow(s->given, p));
        return tangent ? fac__ag_copy_in_place(p->tangent, tangent) : fac__ag_zero_in_place(p->tangent);
    }
    if (!tangent) return FAC_OK;
    const bool is_view = s->given->ag && s->given->ag->base;
    return (is_view ? become_view : become_whole)(s->given, tangent, k->level);
}

/* ---- results ------------------------------------------------------------------------------------------------------------------- */

/* A primal that nobody goes backward through has no history. */
static fac_status without_history(fac_tensor *t, fac_tensor **out) {
    if (!t->ag) {
        *out = fac__ref(t);
        return FAC_OK;
    }
    FAC_TRY(fac__alias(t, true, out));
    (*out)->flags |= t->flags & FAC_TF_WRAPPED;
    return FAC_OK;
}

/* A tangent would have to be laid out as what it belongs to. */
static fac_status check_strided(const dual_call *k, const fac_tensor *t) {
    const fac_layout layout = fac__layout_of(t);
    FAC_CHECK(layout == FAC_STRIDED, FAC_ERR_UNSUPPORTED,
              "%s: a result of layout %s has no tangent, but one of the arguments has one; detach it first",
              k->op->name, fac__layout_name(layout));
    FAC_CHECK(!fac_dtype_is_quantized((fac_dtype)t->dtype), FAC_ERR_UNSUPPORTED,
              "%s: a quantized result has no tangent, but one of the arguments has one; detach it first", k->op->name);
    return FAC_OK;
}

/* Owned: what stands for an output: a dual tensor, if there is a tangent or a history of its primal's to go on from. */
static fac_status put_together(const dual_call *k, fac_tensor *t, fac_tensor *tangent, bool keep_history,
                               fac_tensor **out) {
    fac_tensor *primal = NULL, *settled = NULL;
    FAC_TRY(check_strided(k, t));
    if (keep_history)
        primal = fac__ref(t);
    else
        FAC_TRY(without_history(t, &primal));
    if (!tangent && !(primal->ag && fac__requires_grad(primal))) {
        *out = primal;
        return FAC_OK;
    }
    fac_status st = fac__dual_check_kind(primal);
    if (st != FAC_OK) {
        fac__unref(primal);
        return st;
    }
    if (tangent && k->is_view && !fac__dual_is_restrided(k))
        settled = fac__ref(tangent);
    else
        st = fac__dual_settle(tangent ? tangent : t, primal, &settled);
    if (st == FAC_OK && !tangent) st = fac__ag_zero_in_place(settled);
    if (st == FAC_OK) return fac__dual_wrap(primal, settled, k->level, out);
    fac__unref(primal);
    fac__unref(settled);
    return st;
}

static fac_status wrap_list(const dual_call *k, const dual_outcome *o, size_t at, bool keep, fac_value *v) {
    const size_t n = fac__value_headers(v).n;
    fac_tensor **list = fac__alloc_zero((n + 1) * sizeof *list);
    if (!list) return FAC_ERR_MEMORY;
    fac_status st = FAC_OK;
    for (size_t i = 0; i < n && st == FAC_OK; i++)
        if (o->outputs.v[at + i])
            st = put_together(k, o->outputs.v[at + i], o->tangents.v ? o->tangents.v[at + i] : NULL, keep, &list[i]);
    if (st == FAC_OK) {
        fac_value_release(v);
        *v = fac__value_owned_tensors(list, n);
        return fac_error();
    }
    for (size_t i = 0; i < n; i++) fac__unref(list[i]);
    fac__free(list);
    return st;
}

/* The results of an operator that writes nothing become dual tensors in place. */
static fac_status wrap_results(const dual_call *k, const dual_outcome *o, bool keep) {
    size_t at = 0;
    for (size_t i = 0; i < k->op->n_rets; i++) {
        fac_value *v = &o->results[i];
        fac_tensor *made = NULL;
        if (v->tag == FAC_TAG_TENSORS) {
            const size_t n = tensors_in(v);
            FAC_TRY(wrap_list(k, o, at, keep, v));
            at += n;
            continue;
        }
        if (v->tag == FAC_TAG_TENSOR) {
            FAC_TRY(put_together(k, o->outputs.v[at], o->tangents.v ? o->tangents.v[at] : NULL, keep, &made));
            fac_value_release(v);
            *v = fac__value_owned_tensor(made);
        }
        at++;
    }
    return FAC_OK;
}

/* A result that is a written primal becomes what was given. */
static void give_back(const dual_call *k, fac_value *result) {
    const fac_tensor *t = fac__value_header(result);
    for (size_t i = 0; t && i < k->n; i++) {
        if (k->slots[i].primal != t || !k->slots[i].written) continue;
        fac_value_release(result);
        *result = fac__value_tensor(k->slots[i].given);
        return;
    }
}

/* ---- the call ------------------------------------------------------------------------------------------------------------------- */

static fac_status evaluate_primals(const dual_call *k, fac_value *results, dual_list *out) {
    fac_tensor **v = fac__alloc_array(k->n + 1, sizeof *v);
    if (!v) return FAC_ERR_MEMORY;
    for (size_t i = 0; i < k->n; i++) v[i] = k->slots[i].primal;
    const fac_status st = fac__dual_evaluate(k, v, results, out);
    fac__free(v);
    return st;
}

static fac_status carry_out_writing(const dual_call *k, dual_outcome *o) {
    dual_list again = {NULL, 0};
    const bool draws =
        k->op->facts && k->op->facts->offsets; /* numbers, once, and what is filled with them has no tangent */
    if (!draws) FAC_TRY(fac__dual_tangents(k, o));
    if (o->is_evaluated) drop(o->results, k->op->n_rets);
    for (size_t i = 0; i < k->op->n_rets; i++) o->results[i] = fac_value_none();
    const fac_status st = evaluate_primals(k, o->results, &again);
    fac__free(again.v);
    FAC_TRY(st);
    for (size_t i = 0, at = 0; i < k->n; i++)
        if (k->slots[i].written) {
            fac_tensor *tangent = o->tangents.v ? o->tangents.v[at] : NULL;
            if (k->slots[i].primal) FAC_TRY(write_tangent(k, &k->slots[i], tangent));
            at++;
        }
    for (size_t i = 0; i < k->op->n_rets; i++) give_back(k, &o->results[i]);
    return FAC_OK;
}

static fac_status carry_out(const dual_call *k, dual_outcome *o) {
    if (k->n_written) return carry_out_writing(k, o);
    FAC_TRY(fac__dual_tangents(k, o));
    const bool is_ours = o->is_evaluated;
    if (!is_ours) FAC_TRY(evaluate_primals(k, o->results, &o->outputs));
    return wrap_results(k, o, !is_ours || k->records);
}

static fac_status in_scope(const dual_call *k, fac_value *stack) {
    FAC_SCOPE(s);
    const size_t n = k->op->n_rets;
    dual_outcome o = {.results = fac__alloc_array(n + 1, sizeof *o.results)};
    if (!o.results) return FAC_ERR_MEMORY;
    for (size_t i = 0; i < n; i++) o.results[i] = fac_value_none();
    const fac_status st = carry_out(k, &o);
    if (st == FAC_OK)
        memcpy(stack, o.results, n * sizeof *stack);
    else
        drop(o.results, n);
    fac__free(o.results);
    fac__free(o.outputs.v);
    fac__free(o.tangents.v);
    return st;
}

/* ---- the arguments -------------------------------------------------------------------------------------------------------------- */

static bool is_written(const dual_call *k, size_t arg) { return k->schema->args[arg].type.write; }

static void note_level(fac_level *highest, const fac_tensor *t) {
    const fac_dual_parts *p = fac__dual_parts(t);
    if (p && p->level.number > highest->number) *highest = p->level;
}

static void add_slot(dual_call *k, size_t arg, fac_tensor *t) {
    dual_slot *s = &k->slots[k->n++];
    *s = (dual_slot){.arg = arg, .given = t, .primal = fac__dual_open_part(t), .written = is_written(k, arg)};
    const fac_dual_parts *p = fac__dual_parts(s->primal);
    k->n_written += s->written;
    if (s->primal != t) s->given = s->written ? t : s->primal;
    if (p && p->level.number == k->level.number) {
        s->given = s->primal;
        s->primal = p->primal;
        s->tangent = p->tangent;
    }
    k->records = k->records || fac__dual_requires_grad(s->primal) || fac__dual_requires_grad(s->tangent);
}

static void fill_slots(dual_call *k) {
    for (size_t i = 0; i < k->op->n_args; i++) {
        const fac_tensors l = fac__value_headers(&k->args[i]);
        for (size_t j = 0; j < l.n; j++) add_slot(k, i, l.v[j]);
        if (k->args[i].tag == FAC_TAG_TENSOR) add_slot(k, i, fac__value_header(&k->args[i]));
    }
}

static fac_status check_no_out(const dual_call *k) {
    for (size_t i = 0; i < k->op->n_args; i++)
        FAC_CHECK(!(is_written(k, i) && k->schema->args[i].kwarg_only), FAC_ERR_AUTOGRAD,
                  "functions with out=... arguments don't support forward mode differentiation, but one of the "
                  "arguments has a tangent");
    return FAC_OK;
}

static fac_status in_mode(dual_call *k, fac_value *stack) {
    fac_thread *th = fac__thread();
    const fac_recording was = fac__recording_save(th);
    fac__level_leave(k->level, th);
    fill_slots(k);
    k->records = k->records && fac__grad_enabled(th);
    fac_status st = check_no_out(k);
    if (st == FAC_OK) st = in_scope(k, stack);
    fac__recording_end(was);
    return st;
}

/* ---- without tangents ------------------------------------------------------------------------------------------------ */

static fac_status plain_alias(fac_tensor *t, fac_tensor **out) {
    fac_tensor *primal = t;
    while (primal->cls == &fac__dual_class) primal = ((fac_dual_parts *)primal->ext)->primal;
    return fac__alias(primal, true, out);
}

/* The levels of all tensors are closed, or tangents switched off: plain tensors over the same memory take their place. */
static fac_status without_levels(const fac_call_info *c, dual_call *k, fac_value *stack) {
    fac_tensor **v = fac__alloc_zero((k->n + 1) * sizeof *v);
    dual_list outputs = {NULL, 0};
    if (!v) return FAC_ERR_MEMORY;
    fac_status st = FAC_OK;
    for (size_t i = 0; i < k->n && st == FAC_OK; i++) {
        fac_tensor *t = k->slots[i].given;
        if (t && t->cls == &fac__dual_class)
            st = plain_alias(t, &v[i]);
        else
            v[i] = fac__ref(t);
        k->slots[i].primal = v[i];
    }
    fac_value *work = fac__alloc_array(k->op->n_args + k->op->n_rets + 1, sizeof *work);
    fac_value *own = work ? fac__alloc_array(k->op->n_args + 1, sizeof *own) : NULL;
    if (st == FAC_OK && !own) st = FAC_ERR_MEMORY;
    if (st == FAC_OK) {
        st = fill_stack(k, v, work);
        memcpy(own, work, k->op->n_args * sizeof *own);
        if (st == FAC_OK) st = fac_redispatch_below(c, FAC_KEY_FORWARD_AD, work);
        release_stack(k, own);
        for (size_t i = 0; i < k->op->n_rets && st == FAC_OK; i++) give_back(k, &work[i]);
        if (st == FAC_OK) memcpy(stack, work, k->op->n_rets * sizeof *stack);
    }
    for (size_t i = 0; i < k->n; i++) fac__unref(v[i]);
    fac__free(own);
    fac__free(work);
    fac__free(v);
    fac__free(outputs.v);
    return st;
}

static fac_status closed_only(const fac_call_info *c, dual_call *k, fac_value *stack) {
    for (size_t i = 0; i < k->op->n_args; i++) {
        const fac_tensors l = fac__value_headers(&k->args[i]);
        for (size_t j = 0; j < l.n; j++)
            k->slots[k->n++] = (dual_slot){.arg = i, .given = l.v[j], .written = is_written(k, i)};
        if (k->args[i].tag == FAC_TAG_TENSOR)
            k->slots[k->n++] =
                (dual_slot){.arg = i, .given = fac__value_header(&k->args[i]), .written = is_written(k, i)};
    }
    return without_levels(c, k, stack);
}

/* ---- the fallback ---------------------------------------------------------------------------------------------------------------- */

static fac_status see_tensor(fac_tensor *t, bool *any) {
    FAC_TRY(fac__dual_catch_up(t));
    *any |= t && t->cls == &fac__dual_class;
    return FAC_OK;
}

/* Views among the arguments catch up with their bases. *any: there are dual tensors. */
static fac_status see_tensors(const fac_call_info *c, const fac_value *stack, bool *any) {
    for (size_t i = 0; i < c->op->n_args; i++) {
        const fac_tensors l = fac__value_headers(&stack[i]);
        for (size_t j = 0; j < l.n; j++) FAC_TRY(see_tensor(l.v[j], any));
        if (stack[i].tag == FAC_TAG_TENSOR) FAC_TRY(see_tensor(fac__value_header(&stack[i]), any));
    }
    return FAC_OK;
}

static fac_status call(const fac_call_info *c, fac_value *stack) {
    const fac_schema *schema = atomic_load_explicit(&c->op->schema, memory_order_acquire);
    const fac_schema_type *first = c->op->n_rets ? &schema->rets[0].type : NULL;
    dual_call k = {.op = c->op, .schema = schema, .args = stack, .is_view = first && first->alias && !first->write};
    size_t n = 0;
    for (size_t i = 0; i < c->op->n_args; i++) {
        const fac_tensors l = fac__value_headers(&stack[i]);
        for (size_t j = 0; j < l.n; j++) note_level(&k.level, fac__dual_open_part(l.v[j]));
        n += l.n + (stack[i].tag == FAC_TAG_TENSOR);
        if (stack[i].tag == FAC_TAG_TENSOR) note_level(&k.level, fac__dual_open_part(fac__value_header(&stack[i])));
    }
    k.slots = fac__alloc_array(n + 1, sizeof *k.slots);
    if (!k.slots) return FAC_ERR_MEMORY;
    const fac_status st =
        k.level.number && !fac__thread()->tangents_off ? in_mode(&k, stack) : closed_only(c, &k, stack);
    fac__free(k.slots);
    return st;
}

static fac_status on_dual_tensors(const fac_call_info *c, fac_value *stack) {
    bool any = false;
    FAC_TRY(see_tensors(c, stack, &any));
    const fac_status st = any ? call(c, stack) : fac_redispatch_below(c, FAC_KEY_FORWARD_AD, stack);
    fac__dual_watch_views(fac__thread());
    return st;
}

fac_status fac__forward_init(void) {
    return fac_register_fallback("ForwardAD", on_dual_tensors, NULL, FAC_HERE) ? FAC_OK : fac_error();
}
