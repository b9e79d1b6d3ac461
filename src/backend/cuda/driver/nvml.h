/* The management library: how many devices there are, without waking the driver. */
#ifndef FAC_SRC_BACKEND_CUDA_DRIVER_NVML_H
#define FAC_SRC_BACKEND_CUDA_DRIVER_NVML_H

/* Number of devices that CUDA_VISIBLE_DEVICES shows; -1 if the management library is not there or fails. */
int fac__nvml_device_count(void);

#endif
