/* Names of dimensions. A list of names is made once and known by a number, so that a header says what its
   dimensions are called by one number, and two lists are equal if their numbers are. Names and lists live
   until the library is shut down. */
#ifndef FAC_SRC_CORE_NAMES_H
#define FAC_SRC_CORE_NAMES_H

#include "core/tensor.h"

/* What dimensions are called, from the first on; NULL has no name. Each name is one string for the whole
   program: equal names are equal pointers. */
typedef struct fac_dim_names {
    const char *v[FAC_MAX_DIMS];
    int n;
} fac_dim_names;

/* The string that stands for a name. errors: ARGUMENT for one that is no identifier (letters, digits and _, no
   digit first) */
fac_status fac__name_of_text(const char *text, const char **out);
/* The number of a list whose names are those of fac__name_of_text; 0 if none of its dimensions has a name.
   errors: ARGUMENT if a name is there twice */
fac_status fac__names_number(const fac_dim_names *l, uint32_t *out);
/* How many dimensions the list of a number is for; 0 for 0. */
int fac__names_count(uint32_t number);
/* What t's dimensions are called, all without names where the thread has names masked. */
void fac__names_of(const fac_tensor *t, fac_dim_names *out);
/* "('N', 'C', None)" into buf; returns buf. */
char *fac__names_text(const fac_dim_names *l, char *buf, size_t size);
#define FAC_NAMES_TEXT(l) fac__names_text((l), (char[256]){0}, 256)

/* Calls t's dimensions what the list says, which has as many; its key follows. */
static inline void fac__set_names(fac_tensor *t, uint32_t number) {
    const fac_keyset key = fac__func_bit(FAC_KEY_NAMED);
    t->names = number;
    t->keys = number ? t->keys | key : t->keys & ~key;
}
/* Whether names are masked in this thread (fac_no_names_begin). */
static inline bool fac__names_masked(void) { return (fac__thread()->exclude & fac__func_bit(FAC_KEY_NAMED)) != 0; }
/* From here to fac__names_see this thread has names masked. */
static inline fac_keyset fac__names_hide(void) {
    fac_thread *th = fac__thread();
    const fac_keyset was = th->exclude;
    th->exclude = was | fac__func_bit(FAC_KEY_NAMED);
    return was;
}
static inline void fac__names_see(fac_keyset was) { fac__thread()->exclude = was; }
/* Calls `begin` unless it was called before, with success, since the start of the library. */
fac_status fac__names_once(fac_status (*begin)(void));
/* Forgets all lists and names; no tensor has one any more. */
void fac__names_forget(void);
/* The same at the end of the library, where what has begun has ended too. */
void fac__names_shutdown(void);

#endif
