/* Names of dimensions: "N", "C", "height". Operators check them and hand them on; dimensions are found and
   lined up by them.

   A tensor whose dimensions have names has the key Named, and no other tensor has it, so that calls without
   names are what they were. What an operator does with names is a rule of a few: results keep the names, take
   those of all inputs together, lose those of dimensions that are reduced or contracted, or permute them. An
   operator without a rule refuses tensors with names. Gradients have no names, and names do not matter to
   them. Each function that gives a tensor gives NULL with an error pending where it fails.
   source: PyTorch's named tensors */
#ifndef FACULA_NAMES_H
#define FACULA_NAMES_H

#include <facula/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A list of names; NULL is a dimension without one. */
typedef struct fac_names {
    const char *const *v;
    size_t n;
} fac_names;
/* A list of names: FAC_NAMES("N", NULL, "C"); empty is legal. Lives as long as the enclosing block. */
#define FAC_NAMES(...)                                         \
    ((fac_names){&(const char *const[]){NULL, __VA_ARGS__}[1], \
                 sizeof((const char *const[]){NULL, __VA_ARGS__}) / sizeof(const char *) - 1})

/* ---- asking ------------------------------------------------------------------------------------------------- */

/* Whether a dimension of t has a name. */
FAC_API bool fac_has_names(const fac_tensor *t);
/* The name of a dimension, counted from the end if negative; NULL if it has none. It lives until fac_shutdown.
   errors: INDEX */
FAC_API const char *fac_tensor_name(const fac_tensor *t, int64_t dim);
/* The dimension of that name, for any keyword that is one: fac_sum(x, .dim = fac_dim(x, "C")). INT64_MIN with an error
   pending if no dimension of t has it. errors: ARGUMENT */
FAC_API int64_t fac_dim(const fac_tensor *t, const char *name);

/* ---- giving ------------------------------------------------------------------------------------------------- */

/* A view of t whose dimensions have these names; without any they lose theirs. "..." among them stands for the
   names of all dimensions that the others leave.
   own:    the result belongs to the innermost scope
   errors: ARGUMENT if there are not as many names as dimensions, one is no identifier, or one is there twice
   grad:   t
   source: torch.Tensor.rename */
FAC_API fac_tensor *fac_rename(fac_tensor *t, fac_names names);
/* Gives t itself these names, as fac_rename gives them to a view. Returns t. */
FAC_API fac_tensor *fac_set_names(fac_tensor *t, fac_names names);
/* A view of t where dimensions without names get some, and the others' names are checked. "..." leaves those
   that it stands for alone.
   own:    the result belongs to the innermost scope
   errors: ARGUMENT if a dimension has another name already, and as fac_rename
   grad:   t
   source: torch.Tensor.refine_names */
FAC_API fac_tensor *fac_refine_names(fac_tensor *t, fac_names names);

/* ---- lining up ---------------------------------------------------------------------------------------------- */

/* A view of t with its dimensions in the order of names, and dimensions of one element where t has none of the
   name. "..." stands for all dimensions of t that are not among the names, in their order.
   own:    the result belongs to the innermost scope
   errors: ARGUMENT if a dimension of t has no name, or one that is not among the names
   grad:   t
   source: torch.Tensor.align_to */
FAC_API fac_tensor *fac_align_to(fac_tensor *t, fac_names names);
/* fac_align_to with the names of another tensor.
   own:    the result belongs to the innermost scope
   errors: as fac_align_to
   source: torch.Tensor.align_as */
FAC_API fac_tensor *fac_align_as(fac_tensor *t, const fac_tensor *other);
/* Neighbouring dimensions as one, which is called `name`; a view where that can be.
   own:    the result belongs to the innermost scope
   errors: ARGUMENT if the names are not those of neighbours in their order
   grad:   t
   source: torch.Tensor.flatten(dims, out_dim) */
FAC_API fac_tensor *fac_flatten_names(fac_tensor *t, fac_names names, const char *name);
/* The dimension called `name` as several, of these names and sizes, one of which may be -1.
   own:    the result belongs to the innermost scope
   errors: ARGUMENT if no dimension of t has that name, or names and sizes differ in number; SHAPE if the sizes
           do not make up the dimension's
   grad:   t
   source: torch.Tensor.unflatten(dim, namedshape) */
FAC_API fac_tensor *fac_unflatten_name(fac_tensor *t, const char *name, fac_names names, fac_ints sizes);

/* ---- masking ------------------------------------------------------------------------------------------------ */

/* Whether names were masked, to be put back. Plain data. */
typedef struct fac_names_guard {
    bool was;
} fac_names_guard;
/* Masks names in this thread until fac_no_names_end puts back what was: tensors look as if they had none, and
   results have none. Guards nest. source: at::NoNamesGuard */
FAC_API fac_names_guard fac_no_names_begin(void);
FAC_API void fac_no_names_end(fac_names_guard *g);
#if defined(__GNUC__)
/* No names for the rest of the block: FAC_NO_NAMES(g), where g is any name. */
#define FAC_NO_NAMES(g) fac_names_guard g __attribute__((cleanup(fac_no_names_end), unused)) = fac_no_names_begin()
#endif

#ifdef __cplusplus
}
#endif

#endif
