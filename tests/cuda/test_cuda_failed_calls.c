/* A failed call changes nothing on a device either, also when a kernel cannot be launched. A bad index that a kernel meets
   there is no failed call: it is found when the device has been waited for. */
#include "support/cuda.h"
#include "support/failed_calls.h"

static void failed_call_changes_nothing_on_a_device(void **state) {
    (void)state;
    support_need_devices(1);
    support_need_simulator();
    failed_calls_try(FAILED_CALLS_WRITING, cuda_device(0));
}

FAC_TEST_MAIN(FAC_CUDA_TEST(failed_call_changes_nothing_on_a_device))
