/* Valid calls with one thing changed, in every way of a list: what no operator may crash, hang or read out of bounds on. */
#ifndef FAC_TESTS_VARIATIONS_H
#define FAC_TESTS_VARIATIONS_H

#include "samples.h"

/* Calls made and how many of them failed, as most should, with an error. */
typedef struct variation_count {
    int64_t calls, refused;
} variation_count;

/* Each integer of each call, those in lists too, near the ends of 64 bits, around zero, and past 32 bits. */
variation_count variations_of_integers(const sample_set *s, fac_device device);
/* Each tensor of each call in another size, number of dimensions, dtype, or on another device. */
variation_count variations_of_tensors(const sample_set *s, fac_device device);
/* All tensors of each call together, backward as well: in every dtype, with dimensions of 2^40 beside one of none, and on
   the meta device with such dimensions alone. Defined in variations_together.c. */
variation_count variations_of_all_dtypes(const sample_set *s, fac_device device);
variation_count variations_of_long_dimensions(const sample_set *s, fac_device device);
/* The tensors of the first one's dtype together, as integers at the ends of their range. Defined there too. */
variation_count variations_of_extreme_elements(const sample_set *s, fac_device device);

/* Makes one call, under the bounds of variations_begin. Under AddressSanitizer it makes one in eight, unless FACULA_VARIATIONS is "full". */
void variation_try(const sample_call *c, fac_device device, fac_status (*make)(const sample_call *, fac_device),
                   variation_count *n);
/* Bounds what a call may allocate, and ends the process, naming the call, if one takes longer than ten seconds of the processor.
   Call after the memory hook of the tests is in place. */
void variations_begin(void);

#endif
