/* The dispatcher: keys, boxed values, operators, and registration of operators and kernels by users.
   source: the model is PyTorch's c10 dispatcher. */
#ifndef FACULA_DISPATCH_H
#define FACULA_DISPATCH_H

#include <facula/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- keys ------------------------------------------------------------------------------------------------------- */

/* A set of keys: 16 backend bits below 48 functionality bits. */
typedef uint64_t fac_keyset;

/* Columns of the operator table: where the data lives. Higher wins. Those without a back end are reserved.
   source: c10::BackendComponent, whose names they have */
typedef enum fac_backend {
    FAC_BACKEND_CPU,
    FAC_BACKEND_CUDA,
    FAC_BACKEND_HIP,
    FAC_BACKEND_XLA,
    FAC_BACKEND_XPU,
    FAC_BACKEND_HPU,
    FAC_BACKEND_VE,
    FAC_BACKEND_LAZY,
    FAC_BACKEND_VULKAN,
    FAC_BACKEND_METAL,
    FAC_BACKEND_MLC,
    FAC_BACKEND_FPGA,
    FAC_BACKEND_META,
    FAC_BACKEND_PRIVATE1,
    FAC_BACKEND_PRIVATE2,
    FAC_BACKEND_PRIVATE3,
    FAC_BACKEND_COUNT
} fac_backend;

/* What kind of handling a call needs. Higher runs first. source: c10::DispatchKey, whose order they have, but for
   Named and Nested: here they are seen to before anything else, so that operators made of others keep names too, and
   look at no nested tensor */
typedef enum fac_functionality {
    FAC_KEY_DENSE,
    FAC_KEY_QUANTIZED,
    FAC_KEY_CUSTOM_RNG,
    FAC_KEY_VENDOR,
    FAC_KEY_SPARSE_CSR,
    FAC_KEY_SPARSE,
    FAC_KEY_BACKEND_SELECT,
    FAC_KEY_WATCH, /* what only looks on: the race checker of CUDA */
    FAC_KEY_CONJUGATE,
    FAC_KEY_FUNCTIONALIZE,
    FAC_KEY_FORWARD_AD, /* a tensor that has a tangent: see fac_make_dual */
    FAC_KEY_AD_INPLACE_OR_VIEW,
    FAC_KEY_AUTOGRAD,
    FAC_KEY_TRACE,
    FAC_KEY_AUTOCAST,
    FAC_KEY_BATCHED,
    FAC_KEY_NAMED,
    FAC_KEY_NESTED, /* a nested tensor: its elements are seen to by all keys below. Composites do not serve it */
    FAC_KEY_COUNT
} fac_functionality;

/* A place to register a kernel: a functionality on a backend, or an alias that stands for many.
   "CPU", "AutogradCUDA", "SparseMeta", "CompositeExplicit", ... parse to it. */
typedef struct fac_key {
    int16_t functionality; /* fac_functionality, or FAC_KEY_ANY for an alias */
    int16_t backend;       /* fac_backend, or FAC_ALL_BACKENDS */
    int16_t alias;         /* FAC_ALIAS_... */
} fac_key;
enum { FAC_ALL_BACKENDS = -1, FAC_KEY_ANY = -1 };
enum {
    FAC_ALIAS_NONE,
    FAC_ALIAS_CATCH_ALL, /* composite implicit: every key that has nothing nearer, differentiable through its parts */
    FAC_ALIAS_COMPOSITE_EXPLICIT, /* every backend's dense key, below autograd */
    FAC_ALIAS_AUTOGRAD,           /* every backend's autograd key */
    FAC_ALIAS_AUTOGRAD_OTHER, /* the autograd keys of backends that PyTorch gives none: HIP, VE, Vulkan, Metal, FPGA */
    FAC_ALIAS_POINTWISE /* the dense key of every kind of device that runs pointwise loops (fac_register_pointwise) */
};
/* Parses a key's name. Unknown text is an error that lists the names. */
FAC_API FAC_MUST fac_status fac_key_parse(const char *text, fac_key *out_key);
/* Writes a key's name into buf (40 bytes suffice); returns buf. */
FAC_API char *fac_key_format(fac_key key, char *buf, size_t size);
/* The backend that serves a device type. A device type without one is an error that asks for a report. */
FAC_API FAC_MUST fac_status fac_backend_of_device(fac_device_type type, fac_backend *out_backend);

/* The set with one functionality bit, for the guards below. */
FAC_API fac_keyset fac_keyset_of(fac_functionality f);
/* The key set of a tensor. */
FAC_API fac_keyset fac_tensor_keys(const fac_tensor *t);
/* Writes a key set as text: "{AutogradCPU, ADInplaceOrView, CPU}"; returns buf. */
FAC_API char *fac_keyset_format(fac_keyset ks, char *buf, size_t size);

/* Whether calls that are given this generator run the kernels that are registered for the key CustomRNG, where there
   are some, before those of the device: so a user's generator brings its own numbers. Such a kernel may read
   fac_generator_get_state and move the offset on by fac_generator_set_state. Formulas of autograd are as ever. */
FAC_API FAC_MUST fac_status fac_generator_set_custom(fac_generator *g, bool custom);

/* Keys that this thread adds to or removes from every call, and keys that the process adds. Setters replace the set and
   return the former one, which the caller puts back:
       fac_keyset was = fac_thread_exclude(fac_thread_excluded() | fac_keyset_of(FAC_KEY_AUTOGRAD)); */
FAC_API fac_keyset fac_thread_include(fac_keyset ks);
FAC_API fac_keyset fac_thread_exclude(fac_keyset ks);
FAC_API fac_keyset fac_thread_included(void);
FAC_API fac_keyset fac_thread_excluded(void);
FAC_API fac_keyset fac_global_include(fac_keyset ks);

/* ---- boxed values ------------------------------------------------------------------------------------------------ */

/* What a boxed value holds. */
enum {
    FAC_TAG_NONE,
    FAC_TAG_TENSOR,
    FAC_TAG_INT,
    FAC_TAG_FLOAT,
    FAC_TAG_BOOL,
    FAC_TAG_COMPLEX,
    FAC_TAG_STRING,
    FAC_TAG_INTS,
    FAC_TAG_FLOATS,
    FAC_TAG_BOOLS,
    FAC_TAG_TENSORS,
    FAC_TAG_SCALARS,
    FAC_TAG_DTYPE,
    FAC_TAG_DEVICE,
    FAC_TAG_LAYOUT,
    FAC_TAG_FORMAT,
    FAC_TAG_GENERATOR,
    FAC_TAG_OBJECT
};

/* A value of any type: 16 bytes. A tensor, string, list or object is a counted reference that the value owns;
   everything else is in the payload. `payload` holds an integer, a bool, the bits of a double, a dtype, layout or
   format, a device (type in the low half, index_plus in the high half) or a pointer. */
typedef struct fac_value {
    int64_t payload;
    int64_t tag; /* FAC_TAG_... */
} fac_value;

/* Makers. Those that take a pointer make a reference or a copy of their own; on a failed allocation they return
   NONE with an error pending. */
FAC_API fac_value fac_value_none(void);
FAC_API fac_value fac_value_tensor(fac_tensor *t); /* NULL gives NONE */
FAC_API fac_value fac_value_int(int64_t x);
FAC_API fac_value fac_value_float(double x);
FAC_API fac_value fac_value_bool(bool x);
FAC_API fac_value fac_value_complex(double re, double im);
FAC_API fac_value fac_value_scalar(fac_scalar x);
FAC_API fac_value fac_value_string(const char *s);
FAC_API fac_value fac_value_ints(const int64_t *v, size_t n);
FAC_API fac_value fac_value_floats(const double *v, size_t n);
FAC_API fac_value fac_value_bools(const bool *v, size_t n);
FAC_API fac_value fac_value_scalars(const fac_scalar *v, size_t n);
FAC_API fac_value fac_value_tensors(fac_tensor *const *v, size_t n); /* entries may be NULL */
FAC_API fac_value fac_value_dtype(fac_dtype d);
FAC_API fac_value fac_value_device(fac_device d);
FAC_API fac_value fac_value_layout(fac_layout l);
FAC_API fac_value fac_value_format(fac_memory_format f);
FAC_API fac_value fac_value_generator(fac_generator *g);
/* An object of the user's, with a count of its own: `release` (may be NULL) is called when the last value drops it, and
   at once if this fails. */
FAC_API fac_value fac_value_object(void *object, void (*release)(void *object));

/* Takes another reference of what v holds. */
FAC_API fac_value fac_value_copy(fac_value v);
/* Drops what v holds and makes it NONE.
   errors: STATE if the tensor in v was released already, through a copy of v that was made without fac_value_copy */
FAC_API void fac_value_release(fac_value *v);
/* Gives what n values hold, such as the results of fac_call, to the innermost scope: they can be read until it ends,
   and are no longer released by the caller. A pending error is returned, and the values are left alone; on any other
   error all are NONE.
   errors: STATE if no scope is open, or a value was released already; MEMORY */
FAC_API FAC_MUST fac_status fac_scope_take(fac_value *values, size_t n);

/* Readers: a value of another tag is an error (and a zero result), except that ints and bools read as floats and
   scalars, bools as ints in lists, and NONE as "not given" (NULL, an unset list, zero) in all but numbers. Pointers are
   borrowed from the value. */
FAC_API fac_tensor *fac_value_as_tensor(fac_value v);
FAC_API int64_t fac_value_as_int(fac_value v);
FAC_API double fac_value_as_float(fac_value v);
FAC_API bool fac_value_as_bool(fac_value v);
FAC_API fac_scalar fac_value_as_scalar(fac_value v);
FAC_API const char *fac_value_as_string(fac_value v);
FAC_API fac_ints fac_value_as_ints(fac_value v);
FAC_API fac_floats fac_value_as_floats(fac_value v);
FAC_API fac_tensors fac_value_as_tensors(fac_value v);
FAC_API const fac_scalar *fac_value_as_scalars(fac_value v, size_t *out_n);
FAC_API fac_dtype fac_value_as_dtype(fac_value v);
FAC_API fac_device fac_value_as_device(fac_value v);
FAC_API fac_layout fac_value_as_layout(fac_value v);
FAC_API fac_memory_format fac_value_as_format(fac_value v);
FAC_API fac_generator *fac_value_as_generator(fac_value v);
FAC_API void *fac_value_as_object(fac_value v);

/* ---- operators --------------------------------------------------------------------------------------------------- */

/* Finds "aten::add.Tensor". Unknown: NULL, with an error that names near misses. Constant time. */
FAC_API const fac_operator *fac_operator_find(const char *name);
/* Like fac_operator_find, but NULL without an error. */
FAC_API const fac_operator *fac_operator_lookup(const char *name);
/* Number of operators with a schema, and the i-th of them in order of name. */
FAC_API size_t fac_operator_count(void);
FAC_API const fac_operator *fac_operator_at(size_t i);
FAC_API const char *fac_operator_name(const fac_operator *op);   /* "aten::add.Tensor" */
FAC_API const char *fac_operator_schema(const fac_operator *op); /* "add.Tensor(Tensor self, ...) -> Tensor" */
FAC_API const char *fac_operator_doc(const fac_operator *op);    /* one line; "" if none */
/* True if the operator carries the tag, such as "core" or "pointwise". */
FAC_API bool fac_operator_has_tag(const fac_operator *op, const char *tag);
/* True if calls that get to `key`, such as "CPU" or "Meta", find a kernel there: the key's own, or one that serves many
   keys. False, with an error pending, for what is none.
   errors: ARGUMENT for an operator that is not declared, a text that is no key, or one that stands for many keys */
FAC_API bool fac_operator_has_kernel(const fac_operator *op, const char *key);
/* Arguments and results that a boxed call takes and gives. */
FAC_API size_t fac_operator_arg_count(const fac_operator *op);
FAC_API size_t fac_operator_return_count(const fac_operator *op);

/* How the results of an operator depend on the order in which elements are taken. */
typedef enum fac_combining {
    FAC_COMBINES_UNKNOWN,
    FAC_COMBINES_NOTHING, /* no two elements of one tensor meet: pointwise, moved or made */
    FAC_COMBINES_EXACTLY, /* elements meet, but in another order they give the same bits: a maximum, a sort */
    FAC_COMBINES_ROUNDED, /* another order gives other bits, as a sum is rounded or the last of equal indices wins: the
                             kernel's is part of the result */
    FAC_COMBINES_AS_PARTS /* the operator is composite: see those that it calls */
} fac_combining;

/* What graphs, captures and batching may rely on. Bit i of a mask stands for argument i. */
typedef struct fac_operator_facts {
    /* The operator itself if it writes none of its arguments; else one that writes none, takes the first of its
       arguments and gives as many results, of the same values, and after them, unless they are among these, what the
       operator writes; NULL if there is none. */
    const fac_operator *functional;
    uint64_t writes;  /* arguments that a call may change: elements, sizes or running statistics */
    uint64_t aliases; /* arguments that a result may be, or be a view of */
    bool fills;       /* what is written does not depend on what was there */
    /* Sizes, of results or on the way to them, or numbers that the host gets may depend on the values of tensors; a
       call in which they do fails on the meta device. */
    bool data_dependent;
    int offsets; /* of the generator, that a call takes at most; of composite operators see the parts */
    fac_combining combines;
    /* Which arguments have a gradient, "none: " and why there is none, or where it comes from, as the operator's page
       says it; "unknown" of a program's own. */
    const char *gradient;
} fac_operator_facts;
/* Facts of a built-in operator, all but `combines` and `gradient` tested in calls of it; of others what the schema
   says, with the rest unknown.
   errors: ARGUMENT for an operator that is not declared; UNSUPPORTED for one of more than 64 arguments */
FAC_API FAC_MUST fac_status fac_operator_facts_of(const fac_operator *op, fac_operator_facts *out_facts);

/* Writes one operator's row of the table, or the whole grid (op NULL), as text. */
FAC_API FAC_MUST fac_status fac_dispatch_dump(const fac_operator *op, FILE *stream);

/* Calls an operator by name with boxed values. `args` are the schema's arguments in order, borrowed; trailing ones
   with defaults may be left out. Results are written to `out_results` (room for fac_operator_return_count values)
   and owned by the caller, who releases them with fac_value_release or gives them to a scope with fac_scope_take. */
FAC_API FAC_MUST fac_status fac_call(const char *name, const fac_value *args, size_t n_args, fac_value *out_results);
/* fac_call with the operator already looked up. */
FAC_API FAC_MUST fac_status fac_call_op(const fac_operator *op, const fac_value *args, size_t n_args,
                                        fac_value *out_results);

/* ---- registration ------------------------------------------------------------------------------------------------ */

/* A kernel as the dispatcher keeps it. */
typedef struct fac_kernel fac_kernel;

/* What a kernel is told of the call it serves. */
typedef struct fac_call_info {
    const fac_operator *op;
    fac_keyset keys;          /* of this call, at and below the kernel's own key */
    const fac_kernel *kernel; /* the record that was chosen */
    void *context;            /* what was given at registration */
} fac_call_info;

/* A boxed kernel: `stack` holds the arguments, borrowed; it writes the results over stack[0], ..., each owned by
   the caller. The stack has room for the larger of the two counts. */
typedef fac_status (*fac_boxed_fn)(const fac_call_info *c, fac_value *stack);
/* Any typed kernel: fac_status k(const fac_call_info *c, args..., fac_tensor **out), cast to this. Each result is a
   reference that the caller takes over, such as fac_keep gives. */
typedef void (*fac_fn)(void);

/* A registration; releasing it puts back what it hid (NULL is allowed). A call that is under way on another thread may
   still finish with the released kernel. fac_shutdown releases what is left; handles are then dead. */
typedef struct fac_registration fac_registration;
FAC_API void fac_registration_release(fac_registration *r);

#define FAC_STRINGIZE_(x) #x
/* The text of what x expands to. */
#define FAC_STRINGIZE(x) FAC_STRINGIZE_(x)
/* File and line as one string, for the `where` of a registration. */
#define FAC_HERE __FILE__ ":" FAC_STRINGIZE(__LINE__)

/* Declares an operator: "ns::name.overload(Tensor self, ...) -> Tensor". A second declaration of the same name is an
   error that names both places. `where` is FAC_HERE. NULL on failure. */
FAC_API fac_registration *fac_register_operator(const char *schema, const char *where);
/* Registers a boxed kernel for an operator and key; the operator's schema may come later. The newest wins. */
FAC_API fac_registration *fac_register_boxed(const char *op, const char *key, fac_boxed_fn fn, void *context,
                                             const char *where);
/* Registers a typed kernel. `signature` says the C types, such as "Tensor, Tensor, Scalar -> Tensor", and must agree
   with the schema's; it must be one that a built-in operator has. */
FAC_API fac_registration *fac_register_typed(const char *op, const char *key, const char *signature, fac_fn fn,
                                             void *context, const char *where);
/* Registers a boxed kernel for a key of every operator that has nothing nearer. fn NULL makes the key fall through. */
FAC_API fac_registration *fac_register_fallback(const char *key, fac_boxed_fn fn, void *context, const char *where);
/* Makes a key of one operator fall through: it is skipped without cost. */
FAC_API fac_registration *fac_register_fallthrough(const char *op, const char *key, const char *where);

/* Called after an operator's schema is registered (added true) or removed (false), under the registration lock: it may
   register and release, but not wait for another thread that does. */
typedef void (*fac_operator_listener)(void *context, const fac_operator *op, bool added);
FAC_API fac_registration *fac_register_listener(fac_operator_listener fn, void *context);

/* Goes on below the kernel's own key: calls the operator again with the call's keys less `functionality` and all above.
   Arguments and results as for a boxed kernel. */
FAC_API FAC_MUST fac_status fac_redispatch_below(const fac_call_info *c, fac_functionality f, fac_value *stack);
/* Calls the operator with exactly these keys. */
FAC_API FAC_MUST fac_status fac_redispatch(const fac_operator *op, fac_keyset keys, fac_value *stack);

/* Called before (enter true) and after each operator call on any thread while set; NULL turns it off. One at a time;
   for profilers and tracers. */
typedef void (*fac_call_observer)(void *context, const fac_operator *op, fac_keyset keys, bool enter);
FAC_API void fac_set_call_observer(fac_call_observer fn, void *context);

#ifdef __cplusplus
}
#endif
#ifndef FACULA_BUILDING
#include <facula/dispatch_macros.h>
#endif
#endif
