/* A third kind of device, "npu", made of the public interface alone: a guard table, an allocator and one fallback kernel that
   computes on the host. Its streams are queues that run when something waits for them, so a missing wait shows. */
#ifndef FAC_TESTS_NPU_H
#define FAC_TESTS_NPU_H

#include <facula/device.h>
#include <facula/dispatch.h>

enum { NPU_DEVICES = 3 };

/* Registers the device under FAC_PRIVATE1; call again after fac_shutdown. */
fac_status npu_register(void);
fac_device npu(int index);
/* Queues fn(argument) on the current stream of a device. */
void npu_queue(int index, void (*fn)(void *argument), void *argument);
/* Items that wait in all queues; blocks that are allocated on a device. */
int npu_pending(void);
int npu_blocks(int index);

#endif
