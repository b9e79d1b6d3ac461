/* The floor of the house: likely/unlikely, counts, checked arithmetic, the memory hook, failing with a message.
   Everything includes this; it includes nothing of Facula's but the public base header. */
#ifndef FAC_SRC_BASE_H
#define FAC_SRC_BASE_H

#include <facula/base.h>
#include <facula/types.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#define FAC_LIKELY(x) __builtin_expect(!!(x), 1)
#define FAC_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FAC_COLD __attribute__((cold, noinline))
#define FAC_NOINLINE __attribute__((noinline))
/* Of functions that exist once for each operator and are on no short path: compiled for size, beside each other. */
#if defined(__clang__)
#define FAC_SMALL __attribute__((minsize))
#else
#define FAC_SMALL __attribute__((cold))
#endif
/* Of what another file of the library defines: reached without the table of what programs may replace. Tests are programs. */
#ifdef FACULA_BUILDING
#define FAC_HIDDEN __attribute__((visibility("hidden")))
#else
#define FAC_HIDDEN
#endif
#define FAC_ALWAYS_INLINE inline __attribute__((always_inline))
#define FAC_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define FAC_MAX_DIMS 64 /* PyTorch's limit for iterated operands; a tensor may not have more */

static inline int64_t fac__min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t fac__max(int64_t a, int64_t b) { return a > b ? a : b; }

/* Gives up one of an object's references; true if it was the last. Only who holds a reference can make another, so a count of 1
   is the caller's alone, and no locked instruction is needed. */
static inline bool fac__last_ref(atomic_int *refs) {
    return atomic_load_explicit(refs, memory_order_acquire) == 1 ||
           atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

/* ---- failing ------------------------------------------------------------------------------------------------ */

/* Sets the thread's pending error unless one is pending; returns the pending code (never FAC_OK). The message is
   a sentence that says what was wrong with which argument and what would be right; the operator's name is put in
   front by the call path. */
fac_status fac__fail(const char *file, int line, fac_status code, const char *format, ...) FAC_PRINTF(4, 5);
/* Tells the compiler that a failure is never FAC_OK, so that it sees which outputs are set on success. */
static inline fac_status fac__failed(fac_status code) {
#ifndef FAC_COVERAGE /* which would count a branch that nothing can take at each place that fails */
    if (code == FAC_OK) __builtin_unreachable();
#endif
    return code;
}
#define FAC_FAIL(code, ...) fac__failed(fac__fail(__FILE__, __LINE__, (code), __VA_ARGS__))
#define FAC_CHECK(cond, code, ...)                                       \
    do {                                                                 \
        if (FAC_UNLIKELY(!(cond))) return FAC_FAIL((code), __VA_ARGS__); \
    } while (0)
/* Returns the status of a failing expression to the caller. */
#define FAC_TRY(expr)                                          \
    do {                                                       \
        fac_status fac_try_ = (expr);                          \
        if (FAC_UNLIKELY(fac_try_ != FAC_OK)) return fac_try_; \
    } while (0)
/* For functions that return a pointer: NULL when the expression fails. */
#define FAC_TRY_NULL(expr)                               \
    do {                                                 \
        if (FAC_UNLIKELY((expr) != FAC_OK)) return NULL; \
    } while (0)
/* False, with an error that says so, for an object that is NULL. */
static inline bool fac__given(const void *object, const char *what) {
    if (FAC_UNLIKELY(!object)) (void)FAC_FAIL(FAC_ERR_ARGUMENT, "the %s is NULL", what);
    return object != NULL;
}
/* False, with an error that says so, for a list that has entries but no address. */
static inline bool fac__list_given(const void *v, size_t n, const char *what) {
    if (FAC_UNLIKELY(!v && n))
        (void)FAC_FAIL(FAC_ERR_ARGUMENT, "the array of %s is NULL, but has %zu entries", what, n);
    return v || !n;
}
/* Hands a sentence to the warning handler. Never fails. */
void fac__warn(const char *format, ...) FAC_PRINTF(1, 2);
/* A bug in Facula: prints and aborts in debug builds, sets FAC_ERR_INTERNAL otherwise. */
fac_status fac__bug(const char *file, int line, const char *what);
#define FAC_ASSERT(cond) ((void)(FAC_LIKELY(cond) || fac__bug(__FILE__, __LINE__, #cond)))
/* What always holds between two operations on a structure. Debug builds check it after each; others do not compute it. */
#ifdef FAC_DEBUG
#define FAC_INVARIANT(cond) FAC_ASSERT(cond)
#else
#define FAC_INVARIANT(cond) ((void)(false && (cond)))
#endif

/* ---- memory -------------------------------------------------------------------------------------------------- */

/* The one hook under every host allocation. Tests replace it to count and to fail the n-th request. Set it before the first
   allocation. */
typedef struct fac_memory_hook {
    void *(*alloc)(void *ctx, size_t bytes, size_t align); /* NULL on failure; align is a power of two, >= 16 */
    void (*free)(void *ctx, void *p);
    void *ctx;
} fac_memory_hook;
extern fac_memory_hook fac__memory_hook;

/* All return NULL with FAC_ERR_MEMORY pending on failure. Zero bytes yields a valid pointer. */
void *fac__alloc(size_t bytes);
void *fac__alloc_zero(size_t bytes);
void *fac__alloc_array(size_t n, size_t size); /* overflow is FAC_ERR_OVERFLOW; not zeroed */
void *fac__alloc_aligned(size_t bytes, size_t align);
/* Keeps the first `old` bytes. On failure p stays valid. */
void *fac__realloc(void *p, size_t old, size_t bytes);
void fac__free(void *p); /* NULL is allowed; also frees what fac__alloc_aligned gave */
char *fac__strdup(const char *s);
/* printf into a fresh string. */
char *fac__format(const char *format, ...) FAC_PRINTF(1, 2);

/* A growable byte string. Zero-initialise; free with fac__buf_free. Once an append fails every later one does. */
typedef struct fac_buf {
    char *data; /* NUL-terminated once non-NULL */
    size_t n, cap;
    bool failed;
} fac_buf;
fac_status fac__buf_add(fac_buf *b, const void *bytes, size_t n);
fac_status fac__buf_printf(fac_buf *b, const char *format, ...) FAC_PRINTF(2, 3);
void fac__buf_free(fac_buf *b);

/* Ensures room for one more element in a vector { T *v; size_t n, cap; }: FAC_TRY(FAC_VEC_GROW(&vec)). */
fac_status fac__vec_grow(void **v, size_t n, size_t *cap, size_t elem);
#define FAC_VEC_GROW(p) fac__vec_grow((void **)&(p)->v, (p)->n, &(p)->cap, sizeof *(p)->v)

/* ---- checked arithmetic ---------------------------------------------------------------------------------------- */

/* False on overflow; *out is then unspecified. */
static inline bool fac__mul(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool fac__add(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline bool fac__sub(int64_t a, int64_t b, int64_t *out) { return !__builtin_sub_overflow(a, b, out); }
/* The product of numbers that are not negative, or INT64_MAX: for strides that are compared but never stepped by, as those of
   dimensions of one element may be anything. */
static inline int64_t fac__mul_or_max(int64_t a, int64_t b) {
    int64_t product;
    return fac__mul(a, b, &product) ? product : INT64_MAX;
}
/* a / b rounded up, for b > 0; cannot overflow. */
static inline int64_t fac__div_up(int64_t a, int64_t b) { return a / b + (a % b > 0); }

/* ---- hash table: string -> pointer ------------------------------------------------------------------------------- */

typedef struct fac_map {
    struct fac_map_entry {
        const char *key; /* borrowed: must outlive the entry */
        void *value;
    } * v;
    size_t n, cap;
} fac_map;
void *fac__map_get(const fac_map *m, const char *key);
fac_status fac__map_set(fac_map *m, const char *key, void *value); /* replaces */
void fac__map_remove(fac_map *m, const char *key);
void fac__map_free(fac_map *m);

/* ---- set of addresses ---------------------------------------------------------------------------------------------- */

/* Zero-initialise; free with fac__set_free. NULL is no member. */
typedef struct fac_set {
    const void **v;
    size_t n, cap;
} fac_set;
bool fac__set_has(const fac_set *s, const void *p);
fac_status fac__set_add(fac_set *s, const void *p); /* nothing happens if p is in */
void fac__set_remove(fac_set *s, const void *p);
void fac__set_free(fac_set *s);

/* Environment variable `name`; NULL if it is not set, and in a process that has more rights than its user (setuid, setgid, file
   capabilities): such a user must not say what is loaded or run. All reading of the environment goes through here. */
const char *fac__env(const char *name);
/* Whether the process has the rights of its user and no more. */
bool fac__env_trusted(void);
/* Environment variable `name` as an integer in [lo, hi], or `fallback` if unset or not one. */
int64_t fac__env_int(const char *name, int64_t lo, int64_t hi, int64_t fallback);
/* Seconds on a clock that never goes back. */
double fac__now(void);

#endif
