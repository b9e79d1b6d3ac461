/* The key Conjugate, which tensors have whose conjugation or negation is pending (FAC_TF_PENDING).

   Operators that look at no elements let the key fall through, as views do, which hand the flags on. For all others there is one
   boxed fallback: it calls the operator again below the key, with resolved copies in the place of such tensors. What the operator
   writes to a copy is then written to the tensor that it stands for: what the flags say is done to the copy once more, and the
   result is put where the tensor's elements lie. An argument whose conjugation the CPU's kernels read from the flag is left as
   it is (`conjugated` in the operator's entry). copy_ takes what is pending on both sides into account at once. */
#include "ops/pending.h"
#include "core/tensor_make.h"
#include "dispatch/value.h"
#include "ops/composite/below.h"
#include "ops_gen.h"

/* ---- elements as they lie in memory ------------------------------------------------------------------------------------ */

/* Owned: t's memory with nothing pending. */
static fac_status plain_view(fac_tensor *t, fac_tensor **out) {
    FAC_TRY(fac__alias(t, false, out));
    fac__turn_pending(*out, fac__pending(t));
    return FAC_OK;
}

static fac_status dropping(fac_status st, fac_tensor *result) {
    if (st == FAC_OK) fac__unref(result);
    return st;
}

/* to = f(from), where f is what one or both of the flags say; both tensors are plain. The values of `from` are lost if it is both. */
static fac_status put(fac_tensor *to, fac_tensor *from, unsigned flags) {
    const fac_keyset keys = fac__dense_keys(from);
    fac_tensor *same = NULL;
    if (!flags) return fac__copy_below(to, from);
    if (flags == FAC_TF_CONJ) return dropping(fac__redispatch__conj_physical_out(keys, from, to, &same), to);
    if (flags & FAC_TF_CONJ) FAC_TRY(dropping(fac__redispatch__conj_physical_(keys, from, &same), from));
    return dropping(fac__redispatch_neg_out(keys, from, to, &same), to);
}

/* Owned: f(plain) in memory of its own. */
static fac_status made_of(fac_tensor *plain, unsigned flags, fac_tensor **out) {
    const fac_keyset keys = fac__dense_keys(plain);
    fac_tensor *same = NULL;
    if (flags == FAC_TF_NEG) return fac__redispatch_neg(keys, plain, out);
    FAC_TRY(fac__redispatch__conj_physical(keys, plain, out));
    if (flags == FAC_TF_CONJ) return FAC_OK;
    fac_status st = dropping(fac__redispatch_neg_(keys, *out, &same), *out);
    if (st != FAC_OK) fac__unref(*out), *out = NULL;
    return st;
}

static fac_status resolve(fac_tensor *t, fac_tensor **out) {
    fac_tensor *plain;
    FAC_TRY(plain_view(t, &plain));
    const fac_status st = made_of(plain, fac__pending(t), out);
    fac__unref(plain);
    return st;
}

/* ---- the fallback -------------------------------------------------------------------------------------------------------- */

/* A tensor that is pending, and the resolved copy that a call gets in its place. */
typedef struct stand_in {
    fac_tensor *given, *copy; /* given is borrowed */
    bool written;
} stand_in;

typedef struct stand_ins {
    stand_in few[4], *v;
    size_t n;
    uint32_t as_is; /* arguments whose conjugation the kernels read */
} stand_ins;

static bool is_replaced(const stand_ins *s, size_t arg, const fac_tensor *t) {
    const bool as_is = arg < 32 && s->as_is >> arg & 1 && fac__pending(t) == FAC_TF_CONJ;
    return fac__pending(t) && !as_is;
}

/* The tensors of an argument, be it one or a list. */
static fac_tensors tensors_of(const fac_value *v, fac_tensor **one) {
    if (v->tag == FAC_TAG_TENSORS) return fac__value_headers(v);
    *one = fac__value_header(v);
    return (fac_tensors){one, *one != NULL};
}

static size_t count_replaced(const stand_ins *s, const fac_value *args, size_t n_args) {
    size_t n = 0;
    for (size_t i = 0; i < n_args; i++) {
        fac_tensor *one = NULL;
        const fac_tensors l = tensors_of(&args[i], &one);
        for (size_t j = 0; j < l.n; j++) n += l.v[j] && is_replaced(s, i, l.v[j]);
    }
    return n;
}

/* The copy that stands for t, the same wherever it is among the arguments; borrowed. */
static fac_status stand_in_for(stand_ins *s, fac_tensor *t, bool written, fac_tensor **out) {
    size_t i = 0;
    while (i < s->n && s->v[i].given != t) i++;
    if (i == s->n) {
        s->v[i] = (stand_in){.given = t};
        FAC_TRY(resolve(t, &s->v[i].copy));
        s->n++;
    }
    s->v[i].written |= written;
    *out = s->v[i].copy;
    return FAC_OK;
}

static bool is_written(const fac_operator *op, size_t arg) {
    const fac_schema *schema = atomic_load_explicit(&op->schema, memory_order_acquire);
    return schema->args[arg].type.write || (op->facts && arg < 32 && op->facts->updates >> arg & 1);
}

static fac_status replace_list(stand_ins *s, const fac_operator *op, size_t arg, fac_tensors l, fac_value *out) {
    fac_tensor **v = fac__alloc_array(l.n, sizeof *v);
    if (!v) return fac_error();
    fac_status st = FAC_OK;
    for (size_t j = 0; j < l.n && st == FAC_OK; j++) {
        v[j] = l.v[j];
        if (v[j] && is_replaced(s, arg, v[j])) st = stand_in_for(s, l.v[j], is_written(op, arg), &v[j]);
    }
    if (st == FAC_OK) {
        *out = fac__value_tensors(v, l.n);
        st = fac_error();
    }
    fac__free(v);
    return st;
}

/* Argument `arg` with its pending tensors replaced, in *out; left alone if it has none. */
static fac_status replace(stand_ins *s, const fac_operator *op, size_t arg, const fac_value *v, fac_value *out) {
    fac_tensor *one = NULL, *copy;
    const fac_tensors l = tensors_of(v, &one);
    bool any = false;
    for (size_t j = 0; j < l.n; j++) any |= l.v[j] && is_replaced(s, arg, l.v[j]);
    if (!any) return FAC_OK;
    if (v->tag == FAC_TAG_TENSORS) return replace_list(s, op, arg, l, out);
    FAC_TRY(stand_in_for(s, one, is_written(op, arg), &copy));
    *out = fac__value_tensor(copy);
    return FAC_OK;
}

/* An output may have been resized: so is what the copy stands for. */
static fac_status bring_home(const stand_in *e) {
    fac_tensor *plain;
    if (!fac__same_sizes(e->given, e->copy)) FAC_TRY(fac__resize(e->given, e->copy->sizes, e->copy->ndim));
    FAC_TRY(plain_view(e->given, &plain));
    const fac_status st = put(plain, e->copy, fac__pending(e->given));
    fac__unref(plain);
    return st;
}

/* A result that is a written copy becomes the tensor that it stands for. */
static void give_back(const stand_ins *s, fac_value *result) {
    const fac_tensor *t = fac__value_header(result);
    for (size_t i = 0; t && i < s->n; i++) {
        if (s->v[i].copy != t || !s->v[i].written) continue;
        fac_value_release(result);
        *result = fac__value_tensor(s->v[i].given);
        return;
    }
}

/* The call below the key. `stack` has the arguments, and gets the results; nothing else of it is changed. */
static fac_status call_below(const fac_call_info *c, stand_ins *s, fac_value *stack, fac_value *work, fac_value *own) {
    const size_t n_args = c->op->n_args, n_rets = c->op->n_rets;
    fac_status st = FAC_OK;
    for (size_t i = 0; i < n_args && st == FAC_OK; i++) {
        st = replace(s, c->op, i, &stack[i], &own[i]);
        work[i] = own[i].tag == FAC_TAG_NONE ? stack[i] : own[i];
    }
    if (st != FAC_OK) return st;
    FAC_TRY(fac_redispatch_below(c, FAC_KEY_CONJUGATE, work));
    for (size_t i = 0; i < s->n && st == FAC_OK; i++)
        if (s->v[i].written) st = bring_home(&s->v[i]);
    for (size_t i = 0; i < n_rets && st == FAC_OK; i++) give_back(s, &work[i]);
    if (st == FAC_OK && n_rets) memcpy(stack, work, n_rets * sizeof *stack);
    for (size_t i = 0; i < n_rets && st != FAC_OK; i++) fac_value_release(&work[i]);
    return st;
}

static fac_status with_stand_ins(const fac_call_info *c, stand_ins *s, fac_value *stack) {
    const size_t n_args = c->op->n_args, width = n_args > c->op->n_rets ? n_args : c->op->n_rets;
    fac_value few[32], *work = 2 * width <= FAC_COUNT(few) ? few : fac__alloc_array(2 * width, sizeof *work);
    if (!work) return fac_error();
    fac_value *own = work + width;
    for (size_t i = 0; i < width; i++) own[i] = fac_value_none();
    const fac_status st = call_below(c, s, stack, work, own);
    for (size_t i = 0; i < n_args; i++) fac_value_release(&own[i]);
    for (size_t i = 0; i < s->n; i++) fac__unref(s->v[i].copy);
    if (work != few) fac__free(work);
    return st;
}

static fac_status resolve_and_call(const fac_call_info *c, fac_value *stack) {
    const bool on_cpu = fac__keyset_backend(c->keys) == FAC_BACKEND_CPU;
    stand_ins s = {.n = 0, .as_is = on_cpu && c->op->facts ? c->op->facts->conjugated : 0};
    const size_t most = count_replaced(&s, stack, c->op->n_args);
    if (!most) return fac_redispatch_below(c, FAC_KEY_CONJUGATE, stack);
    s.v = most <= FAC_COUNT(s.few) ? s.few : fac__alloc_array(most, sizeof *s.v);
    if (!s.v) return fac_error();
    const fac_status st = with_stand_ins(c, &s, stack);
    if (s.v != s.few) fac__free(s.v);
    return st;
}

/* ---- copy_ ------------------------------------------------------------------------------------------------------------------ */

/* What is left to be done to the elements of src in memory as they are copied to where dst's lie: what is pending on both
   sides cancels out, if converting changes nothing else. False if it must be done on its own. */
static bool in_one_go(const fac_tensor *dst, const fac_tensor *src, unsigned *out_flags) {
    *out_flags = fac__pending(dst) ^ fac__pending(src);
    if (dst->dtype != src->dtype) return false;
    if (!*out_flags) return true;
    return *out_flags != FAC_TF_PENDING && fac__same_sizes(dst, src) && fac_device_equal(dst->device, src->device) &&
           !fac__is_alias(dst, src);
}

/* The values of src, by way of a copy in dst's sizes, dtype and device, where both have something to be done. */
static fac_status copy_by_steps(fac_tensor *dst, fac_tensor *src) {
    fac_tensor *from, *value = NULL, *plain = NULL;
    if (fac__pending(src))
        FAC_TRY(resolve(src, &from));
    else
        from = fac__ref(src);
    fac_status st = FAC_OK;
    if (!fac__pending(dst)) {
        st = fac__copy_below(dst, from);
    } else {
        st = fac__empty(dst->sizes, dst->ndim, (fac_dtype)dst->dtype, dst->device, &value);
        if (st == FAC_OK) st = fac__copy_below(value, from);
        if (st == FAC_OK) st = plain_view(dst, &plain);
        if (st == FAC_OK) st = put(plain, value, fac__pending(dst));
    }
    fac__unref(from);
    fac__unref(value);
    fac__unref(plain);
    return st;
}

static fac_status copy_plain(fac_tensor *dst, fac_tensor *src, unsigned flags) {
    fac_tensor *to, *from = NULL;
    FAC_TRY(plain_view(dst, &to));
    fac_status st = plain_view(src, &from);
    if (st == FAC_OK) st = put(to, from, flags);
    fac__unref(to);
    fac__unref(from);
    return st;
}

fac_status copy_pending(const fac_call_info *c, fac_tensor *self, fac_tensor *src, bool non_blocking,
                        fac_tensor **out) {
    unsigned flags;
    if (self->cls || src->cls) /* whose kernels read no memory of a strided tensor */
        return fac__redispatch_copy_(c->keys & fac__below(FAC_KEY_CONJUGATE), self, src, non_blocking, out);
    if (self != src) FAC_TRY(in_one_go(self, src, &flags) ? copy_plain(self, src, flags) : copy_by_steps(self, src));
    *out = fac__ref(self);
    return FAC_OK;
}

fac_status fac__pending_init(void) {
    return fac_register_fallback("Conjugate", resolve_and_call, NULL, FAC_HERE) ? FAC_OK : fac_error();
}
