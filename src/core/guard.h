/* What the core and the rooms above ask of a device's back end through its table. */
#ifndef FAC_SRC_CORE_GUARD_H
#define FAC_SRC_CORE_GUARD_H

#include <facula/device.h>

/* The table of a kind, or a DEVICE error that says there is none. */
fac_status fac__guard_of(int32_t type, const fac_device_guard **out);
/* Gives an index-less device its index: that of the current device of its kind, 0 where the kind has no table. "cpu:0" is
   "cpu". errors: DEVICE for an index that CPU and meta lack */
fac_status fac__device_resolve(fac_device *d);
/* The allocator of page-locked host memory, of whichever back end has one. UNSUPPORTED if none has. */
fac_status fac__host_allocator(const fac_allocator **out);
/* Whether an address lies in page-locked host memory. */
bool fac__is_host_memory(const void *p);
/* Copies bytes between two devices of which at least one is not the CPU. */
fac_status fac__copy_bytes(fac_device to_device, void *to, fac_device from_device, const void *from, int64_t bytes,
                           bool non_blocking);
/* fac_record_stream of a header. */
fac_status fac__record_stream(fac_tensor *t, fac_stream s);
/* What back ends want done first in a thread of the library's own that feeds devices. */
void fac__device_thread_begin(void);
/* Forgets every table but the CPU's; at fac_shutdown. */
void fac__guards_forget(void);

#endif
