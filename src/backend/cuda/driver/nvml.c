/* Counts devices through libnvidia-ml.so.1 and applies CUDA_VISIBLE_DEVICES as the driver would: numbers or beginnings
   of UUIDs, up to the first that is not there; a device named twice makes the list void. source:
   torch/cuda/__init__.py, _device_count_nvml. */
#include "backend/cuda/driver/nvml.h"
#include "base/base.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <strings.h>

#define MAX_DEVICES 64
#define UUID_BYTES 96

typedef struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *n);
    int (*handle)(unsigned index, void **device);
    int (*uuid)(void *device, char *text, unsigned size);
} nvml;

static bool resolve(void *library, nvml *out) {
    struct {
        const char *symbol;
        void *to;
    } wanted[] = {{"nvmlInit_v2", &out->init},
                  {"nvmlShutdown", &out->shutdown},
                  {"nvmlDeviceGetCount_v2", &out->count},
                  {"nvmlDeviceGetHandleByIndex_v2", &out->handle},
                  {"nvmlDeviceGetUUID", &out->uuid}};
    for (size_t i = 0; i < FAC_COUNT(wanted); i++) {
        void *function = dlsym(library, wanted[i].symbol);
        if (!function) return false;
        memcpy(wanted[i].to, &function, sizeof function);
    }
    return true;
}

/* Index of the only device whose UUID begins with `item`; -1 if there is none or more than one, -2 if NVML fails. */
static int by_uuid(const nvml *m, const char *item, int n) {
    int found = -1;
    for (int i = 0; i < n; i++) {
        void *device;
        char text[UUID_BYTES];
        if (m->handle((unsigned)i, &device) || m->uuid(device, text, sizeof text)) return -2;
        if (strncasecmp(text, item, strlen(item)) != 0) continue;
        if (found >= 0) return -1;
        found = i;
    }
    return found;
}

static int by_number(const char *item, int n) {
    char *end;
    long v = strtol(item, &end, 10);
    return end == item || v < 0 || v >= n ? -1 : (int)v;
}

/* How many of the n devices the list shows; -1 if NVML fails or the list names parts of devices. */
static int visible(const nvml *m, const char *list, int n) {
    bool seen[MAX_DEVICES] = {false};
    int shown = 0;
    for (const char *at = list; *at || at == list;) {
        char item[UUID_BYTES];
        at += strspn(at, " ");
        size_t size = strcspn(at, ",");
        if (size >= sizeof item || strncasecmp(at, "MIG-", 4) == 0) return -1;
        memcpy(item, at, size);
        item[size] = '\0';
        int which = strncasecmp(item, "GPU-", 4) == 0 ? by_uuid(m, item, n) : by_number(item, n);
        if (which == -2) return -1;
        if (which < 0) break;
        if (seen[which]) return 0;
        seen[which] = true;
        shown++;
        at += size;
        if (*at) at++;
    }
    return shown;
}

int fac__nvml_device_count(void) {
    nvml m;
    unsigned n = 0;
    int shown = -1;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return -1;
    if (resolve(library, &m) && !m.init()) {
        const char *list = fac__env("CUDA_VISIBLE_DEVICES");
        bool counted = !m.count(&n);
        if (n > MAX_DEVICES) n = MAX_DEVICES;
        if (counted) shown = list ? visible(&m, list, (int)n) : (int)n;
        m.shutdown();
    }
    dlclose(library);
    return shown;
}
