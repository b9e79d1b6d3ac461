/* Handles: what users hold in place of a header's address, so that one whose tensor is gone is told from every other.

   A header lies in a slot of FAC_SLOT_BYTES that is never unmapped (core/slot.c), and its `tag` changes each time the slot
   is given back. A handle is the slot's address with the tag in the bits that the address leaves free: the lowest eight and
   the highest sixteen. It is live as long as the tag in the slot is its own. Two bits of a tag are always set, which makes
   a handle an address that no processor accepts: one that is followed by mistake faults at once.

   Inside the library tensors are headers. A public function opens the handles that it is given and makes handles of what it
   returns; so does whoever calls a user's function. See docs/design/006-handles.md. */
#ifndef FAC_SRC_CORE_HANDLE_H
#define FAC_SRC_CORE_HANDLE_H

#include "core/tensor.h"

#define FAC_SLOT_BYTES 256

#if FAC_FREELISTS && UINTPTR_MAX > UINT32_MAX
/* Bit 63 leaves the user's half of the addresses; bit 55 does so where processors ignore the highest byte. */
#define FAC_HANDLE_MARK ((uintptr_t)1 << 63 | (uintptr_t)1 << 55)
#define FAC_HANDLE_ADDRESS ((uintptr_t)0x0000ffffffffff00)
#else
/* Where addresses have no bits to spare, and under AddressSanitizer, whose search for leaks must find the slot through the
   handle: all in the lowest byte. Odd, so that following a handle is a misaligned access. */
#define FAC_HANDLE_MARK ((uintptr_t)1)
#define FAC_HANDLE_ADDRESS (~(uintptr_t)(FAC_SLOT_BYTES - 1))
#endif

/* The tag after `tag`, or 0 if that was the last: the bits between those of the generation let the carry through. */
static inline uintptr_t fac__tag_next(uintptr_t tag) {
    uintptr_t generation = ((tag | FAC_HANDLE_ADDRESS | FAC_HANDLE_MARK) + 1) & ~(FAC_HANDLE_ADDRESS | FAC_HANDLE_MARK);
    return generation ? generation | FAC_HANDLE_MARK : 0;
}

/* The handle of a header, the same for as long as the tensor lives; NULL for NULL. */
static inline fac_tensor *fac__handle(const fac_tensor *header) {
    if (!header) return NULL;
    return (fac_tensor *)((uintptr_t)header | atomic_load_explicit(&header->tag, memory_order_relaxed));
}
/* The header of a handle that surely lives, since the caller owns a reference; NULL for NULL. */
static inline fac_tensor *fac__header(const fac_tensor *handle) {
    return (fac_tensor *)((uintptr_t)handle & FAC_HANDLE_ADDRESS);
}
/* NULL, with an error that names op and argument: the handle is NULL, dead or none at all. */
fac_tensor *fac__open_failed(const fac_tensor *handle, const char *op, const char *argument);
/* The header of a user's handle. May race with the tensor's end on another thread: it is then live or dead, no more. */
static FAC_ALWAYS_INLINE fac_tensor *fac__open_here(const fac_tensor *handle, const char *op, const char *argument) {
    uintptr_t bits = (uintptr_t)handle;
    fac_tensor *header = fac__header(handle);
    if (FAC_LIKELY((bits & FAC_HANDLE_MARK) == FAC_HANDLE_MARK &&
                   atomic_load_explicit(&header->tag, memory_order_relaxed) == (bits & ~FAC_HANDLE_ADDRESS)))
        return header;
    return fac__open_failed(handle, op, argument);
}
fac_tensor *fac__open_called(const fac_tensor *handle, const char *op, const char *argument);
/* A call in what is compiled for size. */
#ifdef __OPTIMIZE_SIZE__
#define fac__open fac__open_called
#else
#define fac__open fac__open_here
#endif
/* Opens a parameter in place; on failure the function returns `failed` (nothing, if left out). */
#define FAC_OPEN(t, op, argument, ...)                                                   \
    do {                                                                                 \
        if (FAC_UNLIKELY(!((t) = fac__open((t), (op), (argument))))) return __VA_ARGS__; \
    } while (0)
/* The same where NULL is legal and stays NULL. */
#define FAC_OPEN_OPTIONAL(t, op, argument, ...)        \
    do {                                               \
        if (t) FAC_OPEN(t, op, argument, __VA_ARGS__); \
    } while (0)

/* What fac__adopt makes of an owned header, as a handle: the last line of a public function. */
static inline fac_tensor *fac__adopt_handle(fac_thread *th, fac_tensor *owned) {
    return fac__handle(fac__adopt(th, owned));
}
/* References of live handles that the caller keeps in place of headers: modules, state lists, boxed values. */
static inline fac_tensor *fac__handle_ref(fac_tensor *handle) {
    fac__ref(fac__header(handle));
    return handle;
}
static inline void fac__handle_unref(fac_tensor *handle) { fac__unref(fac__header(handle)); }

/* ---- lists ------------------------------------------------------------------------------------------------------------ */

#define FAC_FEW_HANDLES 8
/* A converted list; without memory of its own up to FAC_FEW_HANDLES entries. To be freed, also after a failure. */
typedef struct fac_handle_list {
    fac_tensors l;
    fac_tensor **v, *few[FAC_FEW_HANDLES];
} fac_handle_list;
/* The headers of a user's list, whose entries may be NULL where `optional`. A list without an array is an error. */
fac_status fac__open_list(fac_handle_list *out, fac_tensors handles, bool optional, const char *op,
                          const char *argument);
/* The handles of a list of headers, in an array that may be written. */
fac_status fac__handle_list(fac_handle_list *out, fac_tensors headers);
void fac__handle_list_free(fac_handle_list *l);
/* In place. */
static inline void fac__to_handles(fac_tensor **v, size_t n) {
    for (size_t i = 0; i < n; i++) v[i] = fac__handle(v[i]);
}
/* What a user's function left in v, in place: NULL stays NULL. On failure every entry is NULL. */
fac_status fac__to_headers(fac_tensor **v, size_t n, const char *op, const char *argument);

#endif
