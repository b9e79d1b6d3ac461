/* Kinds of optimisers of the library's own: a class as users write them, and what only the library may say. A kind is a list
   of its settings, a step, and perhaps a check; FAC_KIND makes the rest of it. */
#ifndef FAC_SRC_OPTIM_KIND_H
#define FAC_SRC_OPTIM_KIND_H

#include "keywords_gen.h"
#include "optim/optimizer.h"

/* A kind that steps all parameters together, calling the loss itself. What it keeps is one object, optimizer->whole. */
typedef struct fac_optim_whole {
    /* Calls closure as often as it likes, without recording; *out is its first loss. */
    fac_status (*step)(fac_optimizer *o, fac_tensor *(*closure)(void *context), void *context, double *out);
    void (*release)(void *whole);
    /* Adds what is kept to a state dict, and makes an object of one (*out NULL: it has none), counting in *taken the entries
       that it has read. */
    fac_status (*save)(const fac_optimizer *o, fac_state *s);
    fac_status (*load)(const fac_optimizer *o, const fac_state *s, void **out, size_t *taken);
} fac_optim_whole;

struct fac_optim_kind {
    fac_optimizer_class cls; /* first: an optimiser has its address */
    unsigned numbers;        /* bit i: state[i] is one number, a float64 on the CPU */
    /* Whether a parameter keeps state i; another shape than its own is put into *form. NULL: as the class says. */
    bool (*keeps)(const double *options, size_t i, fac_optim_form *form);
    /* Whether sparse gradients are taken with these settings, in place of the message that none are. */
    fac_status (*check_sparse)(const double *options);
    bool sparse_only;
    bool fused;                   /* a half is stepped in float32, and rounded once, as PyTorch's fused steps do */
    const fac_optim_whole *whole; /* NULL: parameters are stepped one by one */
};

/* The loss of a closure, which is run with recording. */
fac_status fac__optim_call_closure(fac_tensor *(*closure)(void *context), void *context, double *out);

/* That of a class; NULL for one of the program's, and for its copy of one of the library's. There is no table of all kinds: a
   program that is linked with a part of the library has those that it makes. */
static inline const fac_optim_kind *fac__optim_kind_of(const fac_optimizer_class *cls) {
    return cls->own && &cls->own->cls == cls ? cls->own : NULL;
}

#define FAC_OPTIM_KINDS(X) \
    X(sgd)                 \
    X(adam)                \
    X(adamw)               \
    X(rmsprop)             \
    X(adagrad) X(adadelta) X(adamax) X(nadam) X(radam) X(rprop) X(asgd) X(sparse_adam) X(adafactor) X(muon) X(lbfgs)
#define FAC_KIND_DECLARED_(kind) extern FAC_HIDDEN const fac_optim_kind fac__##kind##_kind;
FAC_OPTIM_KINDS(FAC_KIND_DECLARED_)

/* Settings, constructors and keywords of a kind. LIST(X, Y) has X(name, default) for each setting after the rate, in the order
   of the keywords, or Y(name, default, value) where the value is not simply the keyword k.name. Makes the struct
   <kind>_options, which FAC_KIND_OPTIONS reads, the list <kind>_list for the class, fac_<kind>_new and fac_<kind>_of. */
#define FAC_KIND(kind, rate, LIST)                                                                                \
    typedef struct kind##_options {                                                                               \
        double lr;                                                                                                \
        LIST(FAC_KIND_FIELD_, FAC_KIND_FIELD_AS_)                                                                 \
    } kind##_options;                                                                                             \
    static const fac_option kind##_list[] = {{"lr", rate}, LIST(FAC_KIND_OPTION_, FAC_KIND_OPTION_AS_){NULL, 0}}; \
    fac_optimizer *(fac_##kind##_new)(fac_module * m, double lr, const fac_##kind##_new_kw *kw) {                 \
        fac_##kind##_new_kw k;                                                                                    \
        if (fac_error() || fac__open_##kind##_new_kw(&k, kw)) return NULL;                                        \
        const double values[] = {lr, LIST(FAC_KIND_VALUE_, FAC_KIND_VALUE_AS_)};                                  \
        return fac_error() ? NULL : fac__optim_new(&fac__##kind##_kind.cls, m, values);                           \
    }                                                                                                             \
    fac_optimizer *(fac_##kind##_of)(fac_tensors parameters, double lr, const fac_##kind##_of_kw *kw) {           \
        fac_##kind##_of_kw k;                                                                                     \
        if (fac_error() || fac__open_##kind##_of_kw(&k, kw)) return NULL;                                         \
        const double values[] = {lr, LIST(FAC_KIND_VALUE_, FAC_KIND_VALUE_AS_)};                                  \
        return fac_error() ? NULL : fac__optim_of(&fac__##kind##_kind.cls, parameters, values);                   \
    }
#define FAC_KIND_FIELD_(name, value) double name;
#define FAC_KIND_FIELD_AS_(name, value, as) double name;
#define FAC_KIND_OPTION_(name, value) {#name, value},
#define FAC_KIND_OPTION_AS_(name, value, as) {#name, value},
#define FAC_KIND_VALUE_(name, value) (double)k.name,
#define FAC_KIND_VALUE_AS_(name, value, as) as,

/* The settings of a step or a check, by name. */
#define FAC_KIND_OPTIONS(kind, v, values) const kind##_options *v = (const void *)(values)

/* ---- what several kinds check and do ---- */

#define FAC_KIND_NOT_NEGATIVE(v, name) \
    FAC_CHECK((v)->name >= 0, FAC_ERR_ARGUMENT, "invalid " #name " value: %g", (v)->name)
/* errors: ARGUMENT unless both are in [0, 1) */
fac_status fac__optim_check_betas(double beta1, double beta2);
/* A parameter is real and floating. */
fac_status fac__optim_check_floating(fac_tensor *parameter);
/* The gradient, negated if the step is to rise, and with decay * parameter added. */
fac_tensor *fac__optim_gradient(const fac_optimizer_update *u, bool maximize, double decay);
/* Running means of the gradient and of its square. */
void fac__optim_moments(fac_tensor *mean, fac_tensor *square, fac_tensor *grad, double beta1, double beta2);
/* State i, which is one number. */
static inline double *fac__optim_number(const fac_optimizer_update *u, size_t i) {
    return fac_tensor_data(u->state[i]);
}
static inline bool fac__optim_fresh(const fac_optimizer_update *u, size_t i) { return u->fresh >> i & 1; }
/* Index of a keyword's text in a list that NULL ends; an error that names the function, if it is not there. */
double fac__optim_choice(const char *function, const char *keyword, const char *given, const char *const *choices);

#endif
