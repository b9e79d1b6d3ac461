/* What every other header needs: export marks, status codes, the error record, numbers and lists as
   arguments, keyword structs, and scopes. */
#ifndef FACULA_BASE_H
#define FACULA_BASE_H

#include <facula/strict.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
/* In front of what the library exports; of a result that should be looked at; of what takes a format like printf's. */
#define FAC_API __attribute__((visibility("default")))
#define FAC_MUST __attribute__((warn_unused_result))
#define FAC_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define FAC_API
#define FAC_MUST
#define FAC_PRINTF(f, a)
#endif

/* Functions that the headers define. They become part of their callers, which may be `inline` ones of the program's
   with external linkage: those may not use static functions. What is not only for the macros the library has as a
   symbol, too. */
#if defined(__cplusplus)
#define FAC_HELPER_ inline
#elif defined(__GNUC__)
#define FAC_HELPER_ extern inline __attribute__((gnu_inline, always_inline))
#else
#define FAC_HELPER_ static inline
#endif
#ifndef FAC_INLINE_
#define FAC_INLINE_ FAC_HELPER_
#endif

/* The version of the headers; fac_version is the library's. */
#define FACULA_VERSION_MAJOR 0
#define FACULA_VERSION_MINOR 2
#define FACULA_VERSION_PATCH 0

/* ---- status and errors ------------------------------------------------------------------------------------ */

/* Every function that can fail returns a status (0 is success) or a pointer that is NULL on failure. */
typedef enum fac_status {
    FAC_OK = 0,
    FAC_ERR_ARGUMENT,    /* a value no argument of this kind may have                   */
    FAC_ERR_SHAPE,       /* sizes or strides that do not fit                            */
    FAC_ERR_DTYPE,       /* an element type that the operator does not take             */
    FAC_ERR_DEVICE,      /* operands on different devices, or a device that is not there */
    FAC_ERR_INDEX,       /* an index or dimension out of range                          */
    FAC_ERR_OVERFLOW,    /* size arithmetic that does not fit                           */
    FAC_ERR_MEMORY,      /* an allocation failed                                        */
    FAC_ERR_STATE,       /* a call at the wrong time: no scope, a dead handle           */
    FAC_ERR_NOT_FOUND,   /* an unknown operator, parameter, file entry                  */
    FAC_ERR_NO_KERNEL,   /* the operator has no kernel for the chosen dispatch key      */
    FAC_ERR_AUTOGRAD,    /* a graph rule was broken                                     */
    FAC_ERR_IO,          /* the operating system refused a read or write                */
    FAC_ERR_FORMAT,      /* a file or text that is not what it claims to be             */
    FAC_ERR_INTERRUPTED, /* stopped by the user                                         */
    FAC_ERR_UNSUPPORTED, /* a combination that is not there, with the reason            */
    FAC_ERR_INTERNAL     /* a bug in Facula                                             */
} fac_status;

/* The calling thread's pending error, FAC_OK if there is none. While one is pending every operator on the
   thread is inert and returns NULL, so the first error is the one reported. */
FAC_API fac_status fac_error(void);
/* Text of the pending error, "" if there is none. Valid until the error is cleared. */
FAC_API const char *fac_error_message(void);
/* Forgets the pending error. */
FAC_API void fac_error_clear(void);
/* Sets an error of the caller's own, unless one is already pending (the first wins). Returns the pending code. */
FAC_API fac_status fac_error_set(fac_status code, const char *format, ...) FAC_PRINTF(2, 3);
/* Prints the pending error to `stream`: the place of the call in the program, what was wrong, the module it ran in, and
   the tensors that the operator was given; with FACULA_ERROR_SOURCE=1 in the environment, the line of the library, too.
   Returns 1 if there was one, else 0, so that `return fac_report(stderr);` ends main. The error stays pending. */
FAC_API int fac_report(FILE *stream);
/* Name of a status code, such as "SHAPE". Never NULL. */
FAC_API const char *fac_status_name(fac_status code);

/* The parts of the pending error. Strings live until the error is cleared; what is not known is "" or 0. */
typedef struct fac_error_info {
    fac_status code;
    int line;                /* of the call in the program that failed */
    int source_line;         /* in the library, where the error arose */
    const char *file;        /* of `line` */
    const char *source_file; /* of `source_line` */
    const char *message;     /* begins with operator and argument */
    const char *op;          /* "addmm" */
    const char *argument;    /* "mat2" */
    const char
        *operands;      /* the tensors that the operator was given: "self float32[2, 3], mat2 int64[4, 5] on cuda:0" */
    const char *module; /* path of the module whose forward ran: "blocks.3.attn.qkv"; "" for the outermost itself */
    const char *kind;   /* of that module: "Linear" */
} fac_error_info;
/* Fills `out_info`, unless it is NULL, with the pending error; returns its code. */
FAC_API fac_status fac_error_get(fac_error_info *out_info);

/* Says where in the program the call stands that has just failed. The macros of these headers do so after every call of
   a public function; a binding calls it with the place in its own language. Does nothing without a pending error, or if
   its place is known. Then calls the error handler, unless it was called for this error. */
FAC_API void fac_error_at(const char *file, int line);
/* Called once for each error, on the thread that failed, after the public function that failed has returned: outside of
   callbacks nothing of the library is on the stack, so the handler may print and exit, leave by longjmp, or throw. An
   error in a function of the program's that the library calls (a hook, a kernel) is told when the call of the library
   has returned; see docs/errors.md. NULL: none.
   FACULA_BREAK_ON_ERROR=1 in the environment raises SIGTRAP where an error arises, for debuggers. */
typedef void (*fac_error_handler)(void *context, const fac_error_info *error);
FAC_API void fac_set_error_handler(fac_error_handler fn, void *context);

/* Ends what the library does for a thread: the next operator that it runs or node of a backward pass fails with code
   INTERRUPTED, and everything above fails with it; kernels that run are not broken off. If the thread is in no call, or
   an error is pending, the next operator that it runs otherwise fails.
   May be called from any thread and from signal handlers: `fac_cancel(main_thread)` in one for SIGINT, where
   main_thread was got from fac_thread_number before. False, and nothing happens, if there is no such thread. */
FAC_API bool fac_cancel(int64_t thread);
/* Number of the calling thread, for fac_cancel, until it ends or calls fac_shutdown: no two threads of a process have
   the same. 0 if over 4096 threads use the library at a time: those that come last have none. */
FAC_API int64_t fac_thread_number(void);

/* Called with a finished sentence when something is legal but probably not meant, such as resizing a non-empty out
   tensor. NULL restores the default, which prints to standard error. May be called from any thread. */
typedef void (*fac_warning_handler)(void *context, const char *message);
FAC_API void fac_set_warning_handler(fac_warning_handler fn, void *context);

/* ---- start and end ----------------------------------------------------------------------------------------- */

/* Starts the library: registers the operators and picks the CPU kernels. Implied by a thread's first scope;
   call it to see a start-up error early. Thread-safe; later calls do nothing. */
FAC_API FAC_MUST fac_status fac_init(void);
/* Frees what the library caches (pooled buffers, the calling thread's state, tables of custom operators).
   The caller must have ended its scopes and released its objects. The library may be used again afterwards. */
FAC_API void fac_shutdown(void);
/* The library's version, "0.2.0". */
FAC_API const char *fac_version(void);

/* ---- objects ------------------------------------------------------------------------------------------------ */

/* A tensor is held by a handle, which is no address. Used when its tensor is gone (its scope has ended, it was dropped
   or released) it is an error of code STATE, however often the memory was used again. The same tensor has the same
   handle for as long as it lives. */
typedef struct fac_tensor fac_tensor;
typedef struct fac_storage fac_storage;
typedef struct fac_generator fac_generator;
typedef struct fac_module fac_module;
typedef struct fac_node fac_node;
typedef struct fac_operator fac_operator;
typedef struct fac_optimizer fac_optimizer;
typedef struct fac_corpus fac_corpus; /* text: facula/data.h */
typedef struct fac_loader fac_loader;

/* Takes a counted reference, so that `t` outlives its scope. NULL is passed through. Returns t. */
FAC_API fac_tensor *fac_keep(fac_tensor *t);
/* Drops a counted reference taken by fac_keep. NULL is allowed.
   errors: STATE if t is dead, or has been released as often as it was kept */
FAC_API void fac_release(fac_tensor *t);
/* Frees a temporary of the innermost scope before that scope ends. `t` may not be used afterwards. */
FAC_API void fac_drop(fac_tensor *t);

/* A mark in the thread's list of temporaries. Plain data; ending it twice, or after an outer one, is harmless. */
typedef struct fac_scope {
    uint64_t serial;
    uint32_t depth;
} fac_scope;
/* Opens a scope: results of operators belong to it until it ends. */
FAC_API fac_scope fac_scope_begin(void);
/* Ends a scope, releasing its temporaries and ending any inner scope left open by an early return. */
FAC_API void fac_scope_end(fac_scope *s);
/* Makes `s` innermost again after a longjmp past inner scopes; their temporaries stay until `s` ends. */
FAC_API void fac_scope_unwind(fac_scope *s);
/* Hands `t` to the scope that encloses `s`, so that it survives the end of `s`. Returns t, or NULL if t is NULL
   or an error is set. */
FAC_API fac_tensor *fac_scope_yield(fac_scope *s, fac_tensor *t);
/* Number of live tensors, storages, nodes, modules and other counted objects in the process; for leak checks. */
FAC_API int64_t fac_live(void);

#if defined(__GNUC__)
/* Opens a scope that ends with the enclosing block, however the block is left: FAC_SCOPE(s), where s is any name. */
#define FAC_SCOPE(s) fac_scope s __attribute__((cleanup(fac_scope_end), unused)) = fac_scope_begin()
#endif
/* Hands t to the scope around s, which FAC_SCOPE(s) opened, and returns it: `return fac_yield(s, t);`. */
#define fac_yield(s, t) fac_scope_yield(&(s), (t))

/* ---- numbers ------------------------------------------------------------------------------------------------ */

/* What a fac_scalar holds. */
enum { FAC_KIND_NONE, FAC_KIND_BOOL, FAC_KIND_INT, FAC_KIND_FLOAT, FAC_KIND_COMPLEX };

/* A number as an argument: 16 bytes, passed in registers. `bits` holds an integer, or the bits of a double, or
   the address of two doubles (real, imaginary) that live as long as the enclosing block. No union, since
   foreign-function interfaces cannot pass one by value. */
typedef struct fac_scalar {
    int64_t bits;
    int64_t kind; /* FAC_KIND_... */
} FAC_MEMBERS_BY_NAME_ fac_scalar;

/* Scalars from C numbers; FAC_SCALAR(x) picks one by type. */
FAC_HELPER_ fac_scalar fac_scalar_i_(long long x) {
    fac_scalar s = {(int64_t)x, FAC_KIND_INT};
    return s;
}
FAC_HELPER_ fac_scalar fac_scalar_b_(bool x) {
    fac_scalar s = {x ? 1 : 0, FAC_KIND_BOOL};
    return s;
}
FAC_HELPER_ fac_scalar fac_scalar_f_(double x) {
    fac_scalar s = {0, FAC_KIND_FLOAT};
    __builtin_memcpy(&s.bits, &x, sizeof x);
    return s;
}
FAC_HELPER_ fac_scalar fac_scalar_s_(fac_scalar x) { return x; }
/* Unsigned 64-bit values above INT64_MAX become doubles rather than wrapping. */
FAC_HELPER_ fac_scalar fac_scalar_u_(unsigned long long x) {
    return x > (unsigned long long)INT64_MAX ? fac_scalar_f_((double)x) : fac_scalar_i_((long long)x);
}
/* A complex scalar from two doubles {re, im} that must stay alive while the scalar is used. */
FAC_HELPER_ fac_scalar fac_scalar_c_(const double *re_im) {
    fac_scalar s = {(int64_t)(intptr_t)re_im, FAC_KIND_COMPLEX};
    return s;
}

/* Optional numbers, as kernels take them: `set` tells a value from none. */
typedef struct fac_opt_num {
    bool set;
    fac_scalar v;
} fac_opt_num;
typedef struct fac_opt_int {
    bool set;
    int64_t v;
} fac_opt_int;
FAC_HELPER_ fac_opt_num fac_opt_num_(fac_scalar x) {
    fac_opt_num o = {true, x};
    return o;
}
FAC_HELPER_ fac_opt_int fac_opt_int_(int64_t x) {
    fac_opt_int o = {true, x};
    return o;
}

/* A borrowed list of integers. */
typedef struct fac_ints {
    const int64_t *v;
    size_t n;
} fac_ints;
/* A borrowed list of doubles. */
typedef struct fac_floats {
    const double *v;
    size_t n;
} fac_floats;
/* A borrowed list of numbers of any kind. */
typedef struct fac_scalars {
    const fac_scalar *v;
    size_t n;
} fac_scalars;
/* A borrowed list of tensors; entries may be NULL where the operator takes optional tensors. */
typedef struct fac_tensors {
    fac_tensor *const *v;
    size_t n;
} FAC_MEMBERS_BY_NAME_ fac_tensors;

#define FAC_NOWHERE_ ((uintptr_t)sizeof(void *)) /* where an empty list lies: no list at all is NULL */

/* Lists of what lies in an array, which may be NULL if n is 0. */
FAC_INLINE_ fac_ints fac_ints_of(const int64_t *v, size_t n) {
    fac_ints l = {v || n ? v : (const int64_t *)FAC_NOWHERE_, n};
    return l;
}
FAC_INLINE_ fac_tensors fac_tensors_of(fac_tensor *const *v, size_t n) {
    fac_tensors l = {v || n ? v : (fac_tensor *const *)FAC_NOWHERE_, n};
    return l;
}

/* ---- keyword structs ----------------------------------------------------------------------------------------- */

/* Keywords are plain C values, given by name or, in the order of their struct, by position: fac_sum(x, 0, true) or
   fac_sum(x, .keepdim = true, .dim = 0). Their defaults stand before the user's own in the initialiser. A list that may
   be one number has two names, `.dim = 1` or `.dims = FAC_INTS(0, 1)`; a number that must be exact beyond 53 bits,
   complex or of a certain kind has a second one too, `.alpha_scalar = FAC_SCALAR(x)`. A whole number given as `.alpha`
   is an integer. What the compiler refuses in a call, and what FACULA_STRICT adds, stands in facula/strict.h; a number
   may stand where a function requires a list of integers. To fill a struct in steps, begin with fac_..._kw_init; a NULL
   in place of the struct means all defaults. */

/* What an optional keyword holds that was not given, an integer or a floating-point number; may be given, too. */
#define FAC_UNSET INT64_MIN
#define FAC_UNSET_FLOAT (-1.6180339887498949e308)

/* Values that nobody gives by mistake. A bare number for a list, device or scalar leaves the second half as it is
   here. */
#ifdef __cplusplus
#define FAC_UNSET_LIST_(T) \
    { (T) UINTPTR_MAX, SIZE_MAX }
#define FAC_UNSET_DEVICE_ \
    { -1, INT32_MIN }
#define FAC_UNSET_SCALAR_ \
    { FAC_UNSET, -1 }
#else
#define FAC_UNSET_LIST_(T) \
    { .v = (T)UINTPTR_MAX, .n = SIZE_MAX }
#define FAC_UNSET_DEVICE_ \
    { .type = -1, .index_plus = INT32_MIN }
#define FAC_UNSET_SCALAR_ \
    { .bits = FAC_UNSET, .kind = -1 }
#endif
#define FAC_STRAY_OK_ INT64_C(0x6b775f6f6b)

#ifdef __cplusplus
/* A default, where the language has one for members of structs, so that users may name only some keywords. */
#define FAC_DEF(...) = __VA_ARGS__
#else
#define FAC_DEF(...)
#endif
/* The size lets a struct grow without breaking programs that were compiled before. */
#define FAC_KW_HEAD(T) size_t kw_size FAC_DEF(sizeof(T))

#if defined(__GNUC__) && !defined(__cplusplus)
#define FAC_NESTING_ _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wshadow\"")
#define FAC_QUIET_ FAC_NESTING_ _Pragma("GCC diagnostic ignored \"-Woverride-init\"") FAC_REFUSE_SLIPS_
#define FAC_LOUD_ _Pragma("GCC diagnostic pop")
/* A call with keywords. */
#define FAC_CALL_(T, call)          \
    __extension__({                 \
        FAC_QUIET_ T fac_r_ = call; \
        FAC_LOUD_ fac_r_;           \
    })
/* A call that is chosen by the type of `other`, which is fac_o_ in it; and one with keywords. Calls stand in each
   other's arguments, so these names shadow themselves. */
#define FAC_OVERLOADED_(T, other, call)            \
    __extension__({                                \
        FAC_NESTING_ __auto_type fac_o_ = (other); \
        T fac_r_ = call;                           \
        FAC_LOUD_ fac_r_;                          \
    })
#define FAC_OVERLOADED_CALL_(T, other, call)     \
    __extension__({                              \
        FAC_QUIET_ __auto_type fac_o_ = (other); \
        T fac_r_ = call;                         \
        FAC_LOUD_ fac_r_;                        \
    })
#else
#define FAC_CALL_(T, call) (call)
#endif

#ifdef __cplusplus
}
#endif

/* ---- the place of a call ---------------------------------------------------------------------------------------- */

/* Every public function has a macro of its name around it, which tells fac_error_at where the program called it, should
   it fail. That costs a comparison of the result, where that shows a failure. (fac_name)(...) is the function alone. */
#ifdef FACULA_BUILDING
#define FAC_AT_(name, call) (call)
#define FAC_AT_MUST_(name, call) (call)
#elif defined(__cplusplus)
#define FAC_AT_INLINE_(name, T, failed)
template <class T> inline T *fac_at_(T *r, const char *file, int line) {
    if (!r) fac_error_at(file, line);
    return r;
}
template <class T> inline T fac_at_(T r, const char *file, int line) {
    fac_error_at(file, line);
    return r;
}
#define FAC_AT_OF_(T, failed)                           \
    inline T fac_at_(T r, const char *file, int line) { \
        if (failed) fac_error_at(file, line);           \
        return r;                                       \
    }
FAC_AT_OF_(fac_status, r != FAC_OK)
FAC_AT_OF_(bool, !r)
FAC_AT_OF_(int, r <= 0)
FAC_AT_OF_(int64_t, r <= 0)
FAC_AT_OF_(size_t, r == 0)
FAC_AT_OF_(double, !(r < 0 || r > 0))
FAC_AT_OF_(fac_ints, !r.n)
FAC_AT_OF_(fac_floats, !r.n)
FAC_AT_OF_(fac_tensors, !r.n)
FAC_AT_OF_(fac_scope, !r.serial)
#undef FAC_AT_OF_
template <class T> FAC_MUST inline T fac_at_must_(T r, const char *file, int line) { return fac_at_(r, file, line); }
#define FAC_AT_(name, call) fac_at_(call, __FILE__, __LINE__)
#define FAC_AT_MUST_(name, call) fac_at_must_(call, __FILE__, __LINE__)
#else
/* What passes a result r of type T on, and the same for one that the caller should use. */
#define FAC_AT_INLINE_(name, T, failed)                                             \
    FAC_HELPER_ T fac_at_##name##_(T r, const char *file, int line) {               \
        if (__builtin_expect((failed), 0)) fac_error_at(file, line);                \
        return r;                                                                   \
    }                                                                               \
    FAC_HELPER_ FAC_MUST T fac_at_must_##name##_(T r, const char *file, int line) { \
        return fac_at_##name##_(r, file, line);                                     \
    }
FAC_AT_INLINE_(tensor, fac_tensor *, !r)
FAC_AT_INLINE_(status, fac_status, r != FAC_OK)
#define FAC_AT_(name, call) fac_at_##name##_(call, __FILE__, __LINE__)
#define FAC_AT_MUST_(name, call) fac_at_must_##name##_(call, __FILE__, __LINE__)
#endif
#define FAC_AT_VOID_(call) ((void)(call), fac_error_at(__FILE__, __LINE__))

/* ---- lists and numbers in calls ---------------------------------------------------------------------------------- */

#ifndef __cplusplus
#define FAC_NUMS_(P)                                                                                       \
    bool : P##b_,                                                                                          \
           char : P##i_,                                                                                   \
                  signed char : P##i_,                                                                     \
                                unsigned char : P##i_,                                                     \
                                                short : P##i_,                                             \
                                                        unsigned short : P##i_,                            \
                                                                                                           \
                                                                         int : P##i_,                      \
                                                                               unsigned : P##i_,           \
                                                                                          long : P##i_,    \
                                                                                                 long long \
        : P##i_,                                                                                           \
          unsigned long : P##u_,                                                                           \
                                                                                                           \
                          unsigned long long : P##u_,                                                      \
                                               float : P##f_,                                              \
                                                       double : P##f_,                                     \
                                                                fac_scalar : P##s_
/* A fac_scalar from any C number. */
#define FAC_SCALAR(x) _Generic((x), FAC_NUMS_(fac_scalar_))(x)
/* A list of integers: FAC_INTS(1, 2); empty is legal. Lives as long as the enclosing block. */
#define FAC_INTS(...) \
    ((fac_ints){&(const int64_t[]){0, __VA_ARGS__}[1], sizeof((const int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t) - 1})
/* Other names of FAC_INTS, which say what the integers are. */
#define FAC_SHAPE FAC_INTS
#define FAC_DIMS FAC_INTS
/* What a macro passes on where a function requires a list of integers: a list as it is, or a number n times. */
FAC_HELPER_ fac_ints fac_list_as_it_is_(fac_ints l, int64_t *room, size_t n) {
    (void)room, (void)n;
    return l;
}
FAC_HELPER_ fac_ints fac_list_of_number_(int64_t x, int64_t *room, size_t n) {
    for (size_t i = 0; i < n; i++) room[i] = x;
    return fac_ints_of(room, n);
}
/* clang-format off */
#define FAC_LIST_(x, n)                                                                                          \
    _Generic((x), fac_ints: fac_list_as_it_is_,                                                                  \
        char: fac_list_of_number_, signed char: fac_list_of_number_, unsigned char: fac_list_of_number_,         \
        short: fac_list_of_number_, unsigned short: fac_list_of_number_, int: fac_list_of_number_,               \
        unsigned: fac_list_of_number_, long: fac_list_of_number_, unsigned long: fac_list_of_number_,            \
        long long: fac_list_of_number_, unsigned long long: fac_list_of_number_)((x), &(int64_t[n]){0}[0], n)
/* clang-format on */
/* A list of doubles. */
#define FAC_FLOATS(...) \
    ((fac_floats){&(const double[]){0, __VA_ARGS__}[1], sizeof((const double[]){0, __VA_ARGS__}) / sizeof(double) - 1})
/* A list of tensors. */
#define FAC_TENSORS(...)                                              \
    ((fac_tensors){.v = &(fac_tensor *const[]){NULL, __VA_ARGS__}[1], \
                   .n = sizeof((fac_tensor *const[]){NULL, __VA_ARGS__}) / sizeof(fac_tensor *) - 1})
#endif

#ifndef FACULA_BUILDING
#include <facula/base_macros.h>
#endif
#ifdef __cplusplus
/* A literal where keywords belong: 0 would be a null pointer to them, all defaults, so functions refuse an int
   there. */
template <class T> struct fac_literal_;
template <> struct fac_literal_<int> { typedef void type; };
template <class T> using fac_if_literal_ = typename fac_literal_<T>::type;
#endif
#endif
