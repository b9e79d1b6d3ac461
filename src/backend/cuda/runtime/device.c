/* Devices, their primary contexts, and which device a thread is on. The driver's current context is the truth, since other
   libraries in the process may change it; a device whose context does not exist yet is remembered aside. */
#include "backend/cuda/driver/cufft.h"
#include "backend/cuda/runtime/fft.h"
#include "backend/cuda/runtime/parts.h"
#include "backend/cuda/runtime/race.h"
#include "base/mutex.h"

static fac_cuda_device devices[FAC_CUDA_MAX_DEVICES];
static int n_devices;
static atomic_bool running; /* the driver is started and the devices are known */
static atomic_bool gone;    /* the driver has said that it is shut down */
static atomic_uint generation;
static fac_mutex lock = FAC_MUTEX_INIT; /* of starting, and of the making of contexts */

/* Chosen by the calling thread without a context: what counts while the driver has none current. */
static _Thread_local int chosen;

/* ---- start ------------------------------------------------------------------------------------------------------------- */

static fac_status read_device(fac_cuda_device *d, int index) {
    d->index = index;
    FAC_CU(fac__cu.cuDeviceGet(&d->ordinal, index));
    FAC_CU(fac__cu.cuDeviceGetAttribute(&d->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d->ordinal));
    FAC_CU(fac__cu.cuDeviceGetAttribute(&d->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d->ordinal));
    FAC_CU(fac__cu.cuDeviceGetAttribute(&d->multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d->ordinal));
    FAC_CU(fac__cu.cuDeviceTotalMem(&d->total_bytes, d->ordinal));
    return FAC_OK;
}

static fac_status start_locked(void) {
    int n = 0;
    FAC_TRY(fac__cu_load());
    FAC_TRY(fac__cuda_allocators_start());
    FAC_CU(fac__cu.cuDeviceGetCount(&n));
    if (n > FAC_CUDA_MAX_DEVICES) n = FAC_CUDA_MAX_DEVICES;
    for (int i = 0; i < n; i++) FAC_TRY(read_device(&devices[i], i));
    FAC_TRY(fac__race_start()); /* before there is a start: a bad option stops every later one too */
    n_devices = n;
    atomic_store_explicit(&running, true, memory_order_release);
    return FAC_OK;
}

fac_status fac__cuda_start(void) {
    if (FAC_LIKELY(atomic_load_explicit(&running, memory_order_acquire) && !fac__cu_forked())) return FAC_OK;
    if (fac__cu_forked()) return fac__cu_load(); /* says so; a lock may have been held by a thread that is not here */
    FAC_TRY(fac_init());                         /* so that fac_shutdown stops this too */
    fac__mutex_lock(&lock);
    fac_status st = atomic_load_explicit(&running, memory_order_relaxed) ? FAC_OK : start_locked();
    fac__mutex_unlock(&lock);
    if (st == FAC_OK) fac__cuda_allocators_tell();
    return st;
}

const char *fac__cuda_why_not(void) {
    static char why_not[512]; /* written when the reason changes, so that other threads may go on reading it */
    fac_saved_error *pending = fac__error_take();
    bool usable = fac__cuda_start() == FAC_OK;
    fac__mutex_lock(&lock);
    if (!usable && strncmp(why_not, fac_error_message(), sizeof why_not - 1) != 0)
        snprintf(why_not, sizeof why_not, "%s", fac_error_message());
    fac__mutex_unlock(&lock);
    fac_error_clear();
    fac__error_restore(pending);
    return usable ? "" : why_not;
}

bool fac__cuda_running(void) {
    return atomic_load_explicit(&running, memory_order_acquire) && !fac__cu_forked() && !fac__cuda_gone();
}

unsigned fac__cuda_generation(void) { return atomic_load_explicit(&generation, memory_order_relaxed); }

int fac__cuda_count(void) {
    return atomic_load_explicit(&running, memory_order_acquire) ? n_devices : fac__cu_device_count();
}

bool fac__cuda_gone(void) {
    CUcontext c;
    if (!atomic_load_explicit(&running, memory_order_acquire) || fac__cu_forked()) return true;
    if (atomic_load_explicit(&gone, memory_order_relaxed)) return true;
    if (fac__cu.cuCtxGetCurrent(&c) != CUDA_ERROR_DEINITIALIZED) return false;
    atomic_store_explicit(&gone, true, memory_order_relaxed);
    return true;
}

/* ---- devices and contexts ------------------------------------------------------------------------------------------------ */

fac_status fac__cuda_check_index(int index) {
    FAC_TRY(fac__cuda_start());
    FAC_CHECK(index >= 0 && index < n_devices, FAC_ERR_DEVICE, "there is no device cuda:%d: CUDA has %d device%s here",
              index, n_devices, n_devices == 1 ? "" : "s");
    return FAC_OK;
}

static fac_status retain_locked(fac_cuda_device *d) {
    CUcontext c;
    if (atomic_load_explicit(&d->context, memory_order_relaxed)) return FAC_OK;
    CUstreamCaptureMode mode = fac__cuda_relax();
    CUresult r = fac__cu.cuDevicePrimaryCtxRetain(&c, d->ordinal);
    fac__cuda_unrelax(mode);
    FAC_CU_AS(r, "making the device's context");
    atomic_store_explicit(&d->context, c, memory_order_release);
    return FAC_OK;
}

fac_status fac__cuda_device(int index, fac_cuda_device **out) {
    FAC_TRY(fac__cuda_check_index(index));
    fac_cuda_device *d = &devices[index];
    *out = d;
    if (FAC_LIKELY(atomic_load_explicit(&d->context, memory_order_acquire) != NULL)) return FAC_OK;
    fac__mutex_lock(&lock);
    fac_status st = retain_locked(d);
    fac__mutex_unlock(&lock);
    return st;
}

const fac_cuda_device *fac__cuda_known(int index) { return &devices[index]; }

int fac__cuda_index_of(CUcontext context) {
    for (int i = 0; i < n_devices; i++)
        if (atomic_load_explicit(&devices[i].context, memory_order_acquire) == context) return i;
    return -1;
}

/* Of a context that is not ours: another library's, perhaps of a device that we have not used. */
static fac_status index_of_current(int *out) {
    CUdevice ordinal;
    FAC_CU(fac__cu.cuCtxGetDevice(&ordinal));
    for (int i = 0; i < n_devices; i++)
        if (devices[i].ordinal == ordinal) {
            *out = i;
            return FAC_OK;
        }
    return FAC_FAIL(FAC_ERR_DEVICE, "the current CUDA context is of a device that Facula does not know");
}

fac_status fac__cuda_get_device(int *out_index) {
    CUcontext c;
    FAC_TRY(fac__cuda_start());
    FAC_CU(fac__cu.cuCtxGetCurrent(&c));
    *out_index = c ? fac__cuda_index_of(c) : chosen < n_devices ? chosen : 0;
    if (c && *out_index < 0) return index_of_current(out_index);
    return FAC_OK;
}

fac_status fac__cuda_set_device(int index) {
    fac_cuda_device *d;
    FAC_TRY(fac__cuda_device(index, &d));
    FAC_CU(fac__cu.cuCtxSetCurrent(atomic_load_explicit(&d->context, memory_order_relaxed)));
    chosen = index;
    return FAC_OK;
}

void fac__cuda_set_device_lazily(int index) {
    if (!fac__cuda_running() || index < 0 || index >= n_devices) return;
    fac__cu.cuCtxSetCurrent(atomic_load_explicit(&devices[index].context, memory_order_acquire)); /* or none */
    chosen = index;
}

fac_status fac__cuda_enter(int index, fac_cuda_entry *out_entry) {
    fac_cuda_device *d;
    CUcontext was;
    out_entry->changed = false;
    FAC_TRY(fac__cuda_device(index, &d));
    CUcontext context = atomic_load_explicit(&d->context, memory_order_relaxed);
    FAC_CU(fac__cu.cuCtxGetCurrent(&was));
    if (FAC_LIKELY(was == context)) return FAC_OK;
    FAC_CU(fac__cu.cuCtxSetCurrent(context));
    out_entry->was = was;
    out_entry->changed = was || index != chosen; /* the thread's own device stays once it has a context */
    return FAC_OK;
}

void fac__cuda_leave(const fac_cuda_entry *e) {
    if (FAC_UNLIKELY(e->changed)) fac__cu.cuCtxSetCurrent(e->was);
}

/* ---- captures -------------------------------------------------------------------------------------------------------------- */

CUstreamCaptureMode fac__cuda_relax(void) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    fac__cu.cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

void fac__cuda_unrelax(CUstreamCaptureMode was) { fac__cu.cuThreadExchangeStreamCaptureMode(&was); }

void fac__cuda_helper_begin(void) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    if (fac__cuda_running()) fac__cu.cuThreadExchangeStreamCaptureMode(&mode);
}

/* ---- stop -------------------------------------------------------------------------------------------------------------------- */

/* What the device's work still uses must be idle before it is freed; its errors have been reported or concern nobody. */
static void stop_device(fac_cuda_device *d, void (*stop)(int index)) {
    CUcontext c = atomic_load_explicit(&d->context, memory_order_acquire);
    if (!c || fac__cu.cuCtxSetCurrent(c) != CUDA_SUCCESS) return;
    fac__cu.cuCtxSynchronize();
    stop(d->index);
}

static void release_device(fac_cuda_device *d) {
    if (!atomic_load_explicit(&d->context, memory_order_acquire)) return;
    fac__cu.cuDevicePrimaryCtxRelease(d->ordinal);
    atomic_store_explicit(&d->context, NULL, memory_order_release);
}

static void stop_parts(int index) {
    fac__cuda_fft_stop(index);
    fac__cuda_streams_stop(index);
    fac__cuda_events_stop(index);
    fac__cuda_bounds_stop(index);
    fac__cuda_modules_stop(index);
    fac__cuda_recent_forget(index);
}

static void stop_devices(void) {
    CUcontext was = NULL;
    fac__cu.cuCtxGetCurrent(&was);
    bool foreign = was && fac__cuda_index_of(was) < 0;
    fac__cuda_allocators_stop();
    for (int i = 0; i < n_devices; i++) stop_device(&devices[i], stop_parts);
    fac__cu.cuCtxSetCurrent(foreign ? was : NULL);
    fac__cuda_peers_forget();
    for (int i = 0; i < n_devices; i++) release_device(&devices[i]);
}

void fac__cuda_shutdown(void) {
    fac__race_stop(false);
    if (fac__cuda_running()) stop_devices();
    atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
    chosen = 0;
    if (fac__cu_forked()) return; /* never usable here, and the parent's */
    atomic_store_explicit(&running, false, memory_order_release);
    atomic_store_explicit(&gone, false, memory_order_relaxed);
    n_devices = 0;
    memset(devices, 0, sizeof devices);
    fac__cufft_unload();
    fac__cu_unload();
}
