/* What generated code is written against: keyword structs, handles and lists as arguments, numbers in formulas. */
#ifndef FAC_SRC_OPS_CALL_H
#define FAC_SRC_OPS_CALL_H

#include "core/generator.h"
#include "core/handle.h"
#include "dispatch/operator.h"
#include <math.h>

/* ---- a call that failed -------------------------------------------------------------------------------------- */

/* Adds to the pending error, where they are missing, the operator's name and its tensors and lists of tensors (headers), which
   follow in the order of its schema. */
FAC_COLD void fac__call_failed(const fac_operator *op, const char *name, ...);

/* What an operator gives that fails and has a list to give: an empty one, whose first 1024 entries can be read all the same,
   so that result.v[2] in the next line is a NULL rather than a crash. */
extern fac_tensor *const fac__nulls[1024];
static inline fac_tensors fac__no_tensors(void) { return (fac_tensors){fac__nulls, 0}; }

/* How the body of a generated function goes into its two forms: inline where code is compiled for speed, a call where it is for size. */
#ifdef __OPTIMIZE_SIZE__
#define FAC_BODY __attribute__((noinline))
#else
#define FAC_BODY FAC_ALWAYS_INLINE
#endif

/* ---- keyword structs ---------------------------------------------------------------------------------------- */

struct fac_kw_head {
    size_t kw_size;
};
/* False for NULL and for a struct of another version. */
static inline bool fac__kw_fits(const void *kw, size_t size) {
    return FAC_LIKELY(kw != NULL) && FAC_LIKELY(((const struct fac_kw_head *)kw)->kw_size == size);
}
/* Puts the keywords of a caller of another version, if there are any, over the defaults in `local`. */
fac_status fac__kw_take(const char *op, void *local, const void *kw, size_t size);
void fac__kw_stray_error(const char *op, size_t most);

static inline bool fac__kw_unset(const void *list) { return list == (const void *)UINTPTR_MAX; }
/* No array, or no length: a number or a pointer alone stands where a list belongs. */
static inline bool fac__kw_bad_list(const void *v, size_t n) {
    return !fac__kw_unset(v) && (!v || n > PTRDIFF_MAX / sizeof(int64_t));
}
/* Into *out, which holds the default, goes `many` or n times `one`, in `room`. True if what was given is neither. */
static inline bool fac__kw_list(fac_ints *out, int64_t *room, size_t n, int64_t one, fac_ints many) {
    if (one != FAC_UNSET) {
        for (size_t i = 0; i < n; i++) room[i] = one;
        *out = (fac_ints){room, n};
        return !fac__kw_unset(many.v);
    }
    if (FAC_LIKELY(fac__kw_unset(many.v))) return false;
    *out = many;
    return fac__kw_bad_list(many.v, many.n);
}
/* A number where a list of n belongs, or both names were given. one: the other name, NULL if there is none. */
void fac__kw_list_error(const char *op, const char *one, const char *many, size_t n);

static inline bool fac__kw_bad_device(fac_device d) { return d.index_plus == INT32_MIN && d.type != -1; }
static inline fac_device fac__kw_device(fac_device d) { return d.type == -1 ? (fac_device){0} : d; }
void fac__kw_device_error(const char *op, const char *keyword);
void fac__kw_bool_error(const char *op, const char *keyword, int given);
void fac__kw_enum_error(const char *op, const char *keyword, const char *type, int given);

/* A number given as a double: a whole one is an integer, apart from -0. */
static inline fac_scalar fac__plain_scalar(double v) {
    const bool exact = v >= -0x1p53 && v <= 0x1p53;
    const int64_t i = exact ? (int64_t)v : 0;
    return exact && (double)i == v && (i != 0 || !signbit(v)) ? fac_scalar_i_(i) : fac_scalar_f_(v);
}
static inline fac_opt_int fac__plain_int(int64_t v) { return v == FAC_UNSET ? (fac_opt_int){0} : fac_opt_int_(v); }
static inline fac_opt_num fac__plain_bool(int v) {
    return v < 0 ? (fac_opt_num){0} : fac_opt_num_(fac_scalar_b_(v != 0));
}
static inline fac_opt_num fac__plain_float(double v) {
    return v == FAC_UNSET_FLOAT ? (fac_opt_num){0} : fac_opt_num_(fac_scalar_f_(v));
}
static inline fac_opt_num fac__plain_number(double v) {
    return v == FAC_UNSET_FLOAT ? (fac_opt_num){0} : fac_opt_num_(fac__plain_scalar(v));
}
/* Into *out, which holds the default, goes what was given; an error if that is two numbers, or a bare one as the scalar. */
fac_status fac__kw_scalar_given(fac_opt_num *out, double plain, fac_scalar exact, const char *op,
                                const char *plain_name, const char *exact_name);
static inline fac_status fac__kw_scalar(fac_opt_num *out, double plain, fac_scalar exact, const char *op,
                                        const char *plain_name, const char *exact_name) {
    if (FAC_LIKELY(plain == FAC_UNSET_FLOAT && exact.kind == -1 && exact.bits == FAC_UNSET)) return FAC_OK;
    return fac__kw_scalar_given(out, plain, exact, op, plain_name, exact_name);
}

/* ---- arguments ------------------------------------------------------------------------------------------------ */

/* Reports the first NULL of a list of headers, unless they are `optional`. */
fac_status fac__check_list(fac_tensors l, bool optional, const char *op, const char *argument);
/* The error of a list argument without an array, or of a text that is NULL. */
void fac__null_given(const char *op, const char *argument);
static inline fac_keyset fac__list_keys(fac_tensors l) {
    fac_keyset ks = 0;
    for (size_t i = 0; i < l.n; i++)
        if (l.v[i]) ks |= l.v[i]->keys;
    return ks;
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

/* A list of owned tensors becomes temporaries of the innermost scope, as does the array. Empty on failure. */
fac_tensors fac__adopt_list(fac_thread *th, fac_tensor_list *l);
/* What fac__adopt_list gave, as handles: the array is the result's own, so they are put in place of the headers. */
static inline fac_tensors fac__list_to_handles(fac_tensors l) {
    fac__to_handles((fac_tensor **)(uintptr_t)l.v, l.n);
    return l;
}
/* Owned copies of the tensors of a list. */
fac_status fac__copy_list(fac_tensors l, fac_tensor_list *out);
/* A composite's last line: moves a temporary (or a borrowed tensor, counted) to *out. NULL: the pending error. */
static inline fac_status fac__give(fac_tensor **out, fac_tensor *t) {
    if (FAC_UNLIKELY(!t))
        return fac_error() ? fac_error() : FAC_FAIL(FAC_ERR_INTERNAL, "a composite operator gave no result");
    *out = fac__take(t);
    return *out ? FAC_OK : fac_error();
}
/* Refuses out arguments that share some of the memory of an input, or all of it. */
fac_status fac__check_out_overlap(fac_tensor *const *outs, size_t n_outs, fac_tensor *const *reads, size_t n_reads,
                                  bool whole_allowed);
/* Puts the results of a functional form into out arguments: all are checked, then each is resized (with a warning unless
   empty) and copied to. */
fac_status fac__copy_to_outs(fac_tensor *const *outs, fac_tensor *const *results, size_t n);
/* What an in-place form without a kernel of its own computes from: a new reference to reads[0], or to a recorded copy of it
   if a gradient flows to any of `reads`. The graph may keep what it reads, and reads[0] is about to change. */
fac_status fac__before_change(fac_tensor *const *reads, size_t n, fac_tensor **out_before);
/* Around an operator that moves tensors which are not among its outputs: copies of them (NULL stays NULL), and what goes back if
   st is a failure. fac__put_back frees the copies and returns st. */
fac_status fac__keep_values(fac_tensor *const *moved, fac_tensor **out_kept, size_t n);
fac_status fac__put_back(fac_tensor *const *moved, fac_tensor **kept, size_t n, fac_status st);
/* The in-place form of an operator that has none of its own: result copied over self, whose size must be the same. */
fac_status fac__copy_over(fac_tensor *self, fac_tensor *result);

/* ---- numbers in formulas: `re_im` is room for a complex result ------------------------------------------------------ */

fac_scalar fac__scalar_conj(fac_scalar a, double re_im[2]);
fac_scalar fac__scalar_neg(fac_scalar a, double re_im[2]);
fac_scalar fac__scalar_add(fac_scalar a, fac_scalar b, double re_im[2]);
fac_scalar fac__scalar_sub(fac_scalar a, fac_scalar b, double re_im[2]);
fac_scalar fac__scalar_mul(fac_scalar a, fac_scalar b, double re_im[2]);
fac_scalar fac__scalar_div(fac_scalar a, fac_scalar b, double re_im[2]);
bool fac__scalar_is(fac_scalar a, double v); /* equal to a real number */

/* Entry of a list, counted from the end if negative; 0 with an error if out of range. */
int64_t fac__at(fac_ints l, int64_t i);
static inline fac_ints fac__sizes_now(const fac_tensor *t) {
    fac_ints l = {t ? t->sizes : NULL, t ? t->ndim : 0};
    return l;
}
static inline fac_ints fac__strides_now(const fac_tensor *t) {
    fac_ints l = {t ? t->strides : NULL, t ? t->ndim : 0};
    return l;
}
static inline int64_t fac__offset_now(const fac_tensor *t) { return t ? t->offset : 0; }
static inline int64_t fac__numel_now(const fac_tensor *t) { return t ? t->numel : 0; }
static inline int64_t fac__ndim_now(const fac_tensor *t) { return t ? t->ndim : 0; }
static inline fac_dtype fac__dtype_now(const fac_tensor *t) { return t ? (fac_dtype)t->dtype : FAC_DTYPE_DEFAULT; }

/* A formula's result into an edge's slot: moved out of the scope. NULL without an error is "no gradient". */
static inline fac_status fac__emit_grad(fac_tensor *t, fac_tensor **slot) {
    if (!t) return fac_error();
    *slot = fac__take(t);
    return *slot ? FAC_OK : fac_error();
}
/* Copies a list of gradients into g (room for l.n). */
static inline fac_status fac__spread(fac_tensor **g, fac_tensors l) {
    for (size_t i = 0; i < l.n; i++) g[i] = l.v[i];
    return fac_error();
}
static inline void fac__drop_grads(fac_tensor **out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        fac__unref(out[i]);
        out[i] = NULL;
    }
}

#endif
