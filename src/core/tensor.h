/* What a tensor is: allocator -> storage (bytes) -> tensor (a view of them); references, sizes, versions. Internals use
   owned references and status codes. tensor_make.h makes them, scalar.h has their elements. */
#ifndef FAC_SRC_CORE_TENSOR_H
#define FAC_SRC_CORE_TENSOR_H

#include "core/keyset.h"
#include "core/thread.h"
#include <facula/tensor.h>

#define FAC_INLINE_DIMS 9 /* as many as fill a slot: see core/slot.c */

/* The version counter: its own counted object, shared by a base, its views and detached handles. */
typedef struct fac_version_counter {
    atomic_int refs;
    atomic_uint value;
} fac_version_counter;

struct fac_storage {
    atomic_int refs;
    fac_device device;
    char *data;
    int64_t bytes;
    const fac_allocator *allocator; /* freed with it; NULL: `release` instead */
    void (*release)(void *context); /* for memory that is the user's */
    void *release_context;
    bool resizable;
};

struct fac_autograd; /* src/autograd/autograd_meta.h */

/* What a kind of tensor that is not plain (sparse, quantized, batched, private) hangs on it. */
typedef struct fac_tensor_class {
    const char *name;
    void (*destroy)(fac_tensor *t);
    fac_status (*share)(const fac_tensor *t, void **out_ext); /* the ext of an alias of t; NULL: there can be none */
    fac_layout (*layout)(const fac_tensor *t);                /* NULL: strided */
    bool in_memory;     /* its elements lie in its storage, as those of a plain tensor do */
    const char *unread; /* why its elements cannot be read, and what to do instead; NULL: make it dense */
} fac_tensor_class;

enum {
    FAC_TF_CONTIGUOUS = 1,    /* row-major without gaps (sizes 0 and 1 ignored)          */
    FAC_TF_DENSE = 2,         /* some permutation of it is contiguous: no overlap, no gap */
    FAC_TF_CHANNELS_LAST = 4, /* NHWC order, 4-d                                        */
    FAC_TF_WRAPPED = 8,       /* made from a C number: weakest in promotion             */
    FAC_TF_INFERENCE = 16,    /* made in inference mode                                  */
    FAC_TF_CONJ = 32,         /* the conjugates of the elements in memory are meant       */
    FAC_TF_CHANNELS_LAST_3D = 64,
    FAC_TF_NEG = 128 /* their negatives are meant                                */
};
/* What remains to be done to the elements in memory when they are read. A tensor with one of these has the key Conjugate, below
   which kernels see none but where their operator says so (`conjugated` in its entry). */
#define FAC_TF_PENDING (FAC_TF_CONJ | FAC_TF_NEG)

/* A tensor's header. Inside the library `fac_tensor *` is the address of one; users hold handles: core/handle.h. */
struct fac_tensor {
    atomic_int refs; /* all references, the user's among them */
    uint8_t ndim;
    uint8_t dtype; /* fac_dtype */
    uint16_t flags;
    _Atomic(uintptr_t) tag; /* what tells this tensor's handle from those of the slot's former tensors */
    fac_keyset keys;
    fac_storage *storage; /* NULL for meta tensors and opaque classes */
    int64_t offset;       /* in elements */
    int64_t numel;
    int64_t *sizes, *strides; /* inline_dims, or one heap block of 2*ndim */
    fac_device device;
    fac_version_counter *version; /* NULL in inference mode; made on first need elsewhere */
    struct fac_autograd *ag;
    const fac_tensor_class *cls;
    void *ext;
    atomic_int kept; /* references that the user took with fac_keep, so that no other can be released */
    uint32_t
        names; /* what its dimensions are called, and 0 where none has a name (core/names.h); then it lacks the key Named */
    int64_t inline_dims[2 * FAC_INLINE_DIMS];
};

/* ---- references -------------------------------------------------------------------------------------------------- */

static inline fac_tensor *fac__ref(fac_tensor *t) {
    if (t) atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}
void fac__unref(fac_tensor *t); /* NULL allowed */
/* Counts one of t's references as the user's. */
static inline void fac__count_kept(fac_tensor *t) { atomic_fetch_add_explicit(&t->kept, 1, memory_order_relaxed); }
/* Counts one less, which is then the caller's; false if the user has none. */
bool fac__unkeep(fac_tensor *t);
void fac__tensor_free(fac_tensor *t); /* the count has reached zero */
fac_storage *fac__storage_ref(fac_storage *s);
void fac__storage_unref(fac_storage *s);
/* Counts of live objects, for fac_live(). */
void fac__live_add(int64_t n);

/* ---- what is pending ---------------------------------------------------------------------------------------------- */

static inline unsigned fac__pending(const fac_tensor *t) { return t->flags & (unsigned)FAC_TF_PENDING; }
/* Turns flags of FAC_TF_PENDING of a tensor that nobody else has yet; its keys follow. */
static inline void fac__turn_pending(fac_tensor *t, unsigned flags) {
    const fac_keyset key = fac__func_bit(FAC_KEY_CONJUGATE);
    t->flags = (uint16_t)(t->flags ^ flags);
    t->keys = fac__pending(t) ? t->keys | key : t->keys & ~key;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

extern FAC_HIDDEN const uint8_t fac__item_sizes[FAC_DTYPE_END];
static inline bool fac__is_bf16(fac_dtype d) { return d == FAC_BF16; }
static inline bool fac__is_half(fac_dtype d) { return d == FAC_F16 || d == FAC_BF16; }
/* Bytes per element of a dtype; 0 for FAC_DTYPE_DEFAULT and for what is none. */
/* The largest finite number of a dtype of 16, 32 or 64 bits of floats, or of pairs of them. */
double fac__dtype_largest(fac_dtype d);
static inline uint8_t fac__dtype_size(fac_dtype d) {
    return FAC_LIKELY((unsigned)d < FAC_DTYPE_END) ? fac__item_sizes[d] : 0;
}
static inline int64_t fac__item_size(const fac_tensor *t) { return fac__item_sizes[t->dtype]; }
/* Address of the first element; NULL for empty, meta and opaque tensors. Only for kernels, below all capture. */
static inline void *fac__data(const fac_tensor *t) {
    return t->storage && t->storage->data && t->numel ? t->storage->data + t->offset * fac__item_size(t) : NULL;
}
static inline bool fac__is_contiguous(const fac_tensor *t) { return (t->flags & FAC_TF_CONTIGUOUS) != 0; }
static inline bool fac__is_cpu(const fac_tensor *t) { return t->device.type == FAC_CPU; }
/* Whether t has these sizes; NULL is the empty list. A few numbers are compared sooner than memcmp is called. */
static inline bool fac__has_sizes(const fac_tensor *t, const int64_t *sizes, int ndim) {
    if (t->ndim != ndim) return false;
    for (int i = 0; i < ndim; i++)
        if (t->sizes[i] != sizes[i]) return false;
    return true;
}
static inline bool fac__same_sizes(const fac_tensor *a, const fac_tensor *b) {
    return fac__has_sizes(a, b->sizes, b->ndim);
}
/* The error of a NULL where a header is needed, naming op and argument. */
fac_status fac__null_tensor(const char *op, const char *argument);
static inline fac_status fac__check_header(const fac_tensor *t, const char *op, const char *argument) {
    return FAC_LIKELY(t != NULL) ? FAC_OK : fac__null_tensor(op, argument);
}
/* dim in [-ndim, ndim) -> [0, ndim); 0-dim tensors accept -1 and 0. Else FAC_ERR_INDEX with PyTorch's wording. */
fac_status fac__wrap_dim(int64_t dim, int64_t ndim, int64_t *out);
/* Bits of a set of dims, each wrapped; duplicates are an error. Empty or unset list: all dims. ndim <= 64. */
fac_status fac__dim_mask(fac_ints dims, int64_t ndim, uint64_t *out_mask);
/* Product of sizes; false on overflow or a negative size. */
bool fac__numel(const int64_t *sizes, int ndim, int64_t *out);
/* Row-major strides (zero sizes count as one, as PyTorch). */
void fac__row_major(const int64_t *sizes, int ndim, int64_t *out_strides);
/* Common broadcast sizes of two shapes into out (room FAC_MAX_DIMS). Error as PyTorch's. */
fac_status fac__broadcast(const int64_t *a, int na, const int64_t *b, int nb, int64_t *out, int *out_n);
/* One -1 replaced by what numel demands. */
fac_status fac__infer_size(fac_ints sizes, int64_t numel, int64_t *out);
/* "[2, 3]" into buf; returns buf. */
char *fac__shape_text(const int64_t *sizes, int ndim, char *buf, size_t size);
#define FAC_SHAPE_TEXT(t) fac__shape_text((t)->sizes, (t)->ndim, (char[256]){0}, 256)

/* Version counter. */
unsigned fac__version_of(fac_tensor *t);
static inline fac_version_counter *fac__version_counter(fac_tensor *t) {
    return __atomic_load_n(&t->version, __ATOMIC_ACQUIRE);
}
/* Makes t's counter if it has none yet (inference tensors never have one). */
fac_status fac__version_make_first(fac_tensor *t);
static inline fac_status fac__version_make(fac_tensor *t) {
    const bool done = fac__version_counter(t) || (t->flags & FAC_TF_INFERENCE);
    return FAC_LIKELY(done) ? FAC_OK : fac__version_make_first(t);
}
fac_status fac__bump_version(fac_tensor *t); /* cannot fail where there is a counter */

/* True if two tensors share a storage; whether one tensor's elements overlap each other; whether two ranges meet. */
bool fac__is_alias(const fac_tensor *a, const fac_tensor *b);
bool fac__has_internal_overlap(const fac_tensor *t);
/* The error for writing to elements that overlap each other. */
fac_status fac__check_no_overlap(const fac_tensor *t);
typedef enum { FAC_OVERLAP_NO, FAC_OVERLAP_FULL, FAC_OVERLAP_PARTIAL, FAC_OVERLAP_UNKNOWN } fac_overlap;
fac_overlap fac__overlap(const fac_tensor *a, const fac_tensor *b);

/* Keys a dense tensor on this device carries (backend, Dense, Autograd, ADInplaceOrView as the mode says). */
fac_status fac__default_keys(fac_device d, fac_keyset *out);

/* ---- autograd -------------------------------------------------------------------------------------------------------- */

/* What only autograd can tell or do, from its start on; before it no tensor has data of autograd's. */
typedef struct fac_autograd_table {
    void (*free)(struct fac_autograd *ag); /* its tensor dies */
    bool (*requires_grad)(const struct fac_autograd *ag);
    /* "grad_fn=<AddBackward0>", "requires_grad=True" or "", into buf. */
    void (*describe)(fac_tensor *t, char *buf, size_t size);
    void (*end_thread)(fac_thread *th); /* closes the dual levels that it left open */
    /* From now on t, which is not plain, wants a gradient whenever `value` does, which lives as long as t. */
    fac_status (*stand_for)(fac_tensor *t, fac_tensor *value);
} fac_autograd_table;
extern FAC_HIDDEN fac_autograd_table fac__autograd;

/* True if a gradient is wanted for t: it is a floating leaf with requires_grad or has a history. NULL: false. */
static FAC_ALWAYS_INLINE bool fac__requires_grad(const fac_tensor *t) {
    return t && t->ag && fac__autograd.requires_grad(t->ag);
}
/* Puts back a thread's included keys. ForwardAD stays as it is: autograd/forward_views.c knows how long it lasts. */
static inline void fac__include_restore(fac_thread *th, fac_keyset was) {
    const fac_keyset lasting = fac__func_bit(FAC_KEY_FORWARD_AD);
    th->include = (was & ~lasting) | (th->include & lasting);
}
/* Another state of autocast, and the key that goes with it. */
static inline void fac__autocast_set(fac_thread *th, fac_autocast to) {
    const fac_keyset key = fac__func_bit(FAC_KEY_AUTOCAST);
    th->autocast = to;
    th->include = to.on ? th->include | key : th->include & ~key;
}
/* Whether a derivative by t is wanted, in reverse or forward mode: t has a gradient that is recorded, or a tangent, or may get
   one from its base (forward_views.c) when an operator next uses it. NULL: false. */
static inline bool fac__wants_derivative(const fac_tensor *t) {
    const fac_thread *th = fac__thread();
    if (t && (t->keys | th->include) & fac__func_bit(FAC_KEY_FORWARD_AD)) return true;
    return fac__requires_grad(t) && !th->grad_disabled && !th->inference;
}
/* The error for a tensor that is not plain, where memory of its own or a place in a graph is asked for. */
fac_status fac__not_plain(const fac_tensor *t, const char *what);
static inline fac_status fac__check_plain(const fac_tensor *t, const char *what) {
    return FAC_LIKELY(!t || !t->cls) ? FAC_OK : fac__not_plain(t, what);
}
/* Whether t has neither elements nor a history of its own but stands for another tensor, as a batched one does. NULL: no. */
static inline bool fac__stands_for_another(const fac_tensor *t) { return t && t->cls && t->cls->unread; }
static inline fac_status fac__check_own(const fac_tensor *t, const char *what) {
    return FAC_LIKELY(!fac__stands_for_another(t)) ? FAC_OK : fac__not_plain(t, what);
}
/* The error for an inference tensor that is changed outside inference mode. */
fac_status fac__not_writable(void);
static inline fac_status fac__check_writable(const fac_tensor *t) {
    bool inference = t && (t->flags & FAC_TF_INFERENCE) && !fac__thread()->inference;
    return FAC_UNLIKELY(inference) ? fac__not_writable() : FAC_OK;
}

#endif
