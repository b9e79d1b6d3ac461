/* A driver or management library that knows just enough to be found wanting; compiled once for each way. */
#include "cuda_abi/entries.h"
#include <stdio.h>
#include <string.h>

#ifndef FAKE_INIT
#define FAKE_INIT 0
#endif
#ifndef FAKE_VERSION
#define FAKE_VERSION 12040
#endif
#ifndef FAKE_DEVICES
#define FAKE_DEVICES 1
#endif
#ifndef FAKE_LACKS
#define FAKE_LACKS ""
#endif

#ifdef FAKE_NVML

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *n);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetUUID(void *device, char *text, unsigned size);

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { return *n = FAKE_NVML, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { return *device = (void *)(uintptr_t)(index + 1), 0; }
int nvmlDeviceGetUUID(void *device, char *text, unsigned size) {
    snprintf(text, size, "GPU-%02x000000-aaaa-bbbb-cccc-000000000000", (unsigned)(uintptr_t)device);
    return 0;
}

#else

CUresult cuInit(unsigned flags) { return flags ? CUDA_ERROR_INVALID_VALUE : (CUresult)FAKE_INIT; }
CUresult cuDriverGetVersion(int *version) { return *version = FAKE_VERSION, CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int *count) { return *count = FAKE_DEVICES, CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult error, const char **text) { return (void)error, *text = "a text", CUDA_SUCCESS; }
static CUresult nothing(void) { return CUDA_ERROR_NOT_SUPPORTED; }

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags, int *status);
/* Every entry is there but for the one it lacks; only those above do something. */
CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags, int *status) {
    static const struct {
        const char *name;
        void (*function)(void);
    } real[] = {{"cuInit", (void (*)(void))cuInit},
                {"cuDriverGetVersion", (void (*)(void))cuDriverGetVersion},
                {"cuDeviceGetCount", (void (*)(void))cuDeviceGetCount},
                {"cuGetErrorString", (void (*)(void))cuGetErrorString}};
    (void)version, (void)flags;
    void (*found)(void) = strcmp(name, FAKE_LACKS) ? (void (*)(void))nothing : NULL;
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        if (!strcmp(name, real[i].name)) found = real[i].function;
    }
    memcpy(function, &found, sizeof found);
    *status = found ? 0 : 1;
    return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#endif
