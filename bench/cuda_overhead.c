/* What Facula adds to the CUDA driver's own cost, on whatever FACULA_CUDA names:

       bench_cuda        prints section<TAB>row<TAB>nanoseconds, the least of some rounds

   The queue is emptied between rounds and outside the measured time. */
#include "backend/cuda/runtime/module.h"
#include "user_image.h"
#include <time.h>

enum { ROUNDS = 200, PER_ROUND = 32 };

typedef struct work {
    fac_cuda_function *function;
    CUfunction handle;
    fac_tensor *x;
    fac_stream stream;
    fac_event *event;
} work;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static fac_status launch_bare(work *w) {
    CUdeviceptr x = (CUdeviceptr)(uintptr_t)fac_tensor_data(w->x);
    float by = 2;
    int64_t n = 1;
    void *args[] = {&x, &by, &n};
    return fac__cu.cuLaunchKernel(w->handle, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL) ? FAC_ERR_DEVICE : FAC_OK;
}

static fac_status launch_facula(work *w) {
    return fac_cuda_run(w->function, fac_cuda_grid(1, 32), fac_cuda_inout(w->x), fac_cuda_f32(2), fac_cuda_i64(1));
}

static fac_status allocate_and_free(const fac_allocator *a, int64_t bytes) {
    void *p = a ? a->alloc(a, bytes) : NULL;
    if (!p) return fac_error();
    a->free(a, p, bytes);
    return FAC_OK;
}
static fac_status small_block(work *w) {
    (void)w;
    return allocate_and_free(fac__cuda_allocator(0), 1 << 10);
}
static fac_status large_block(work *w) {
    (void)w;
    return allocate_and_free(fac__cuda_allocator(0), 5 << 20);
}
static fac_status pinned_block(work *w) {
    (void)w;
    return allocate_and_free(fac__cuda_host_allocator(), 1 << 20);
}

static fac_status make_tensor(work *w) {
    (void)w;
    FAC_SCOPE(s);
    return fac_empty(FAC_SHAPE(16, 16), .device = fac_device_make(FAC_CUDA, 0)) ? FAC_OK : fac_error();
}

static fac_status record(work *w) { return fac_event_record(w->event, w->stream); }

static fac_status change_stream(work *w) {
    FAC_STREAM_SCOPE(on, w->stream);
    return fac_error();
}

static const struct {
    const char *name;
    fac_status (*run)(work *w);
} rows[] = {
    {"launch: the bare driver table", launch_bare},
    {"launch: fac_cuda_launch, three arguments", launch_facula},
    {"cached alloc+free, 1 KiB", small_block},
    {"cached alloc+free, 5 MiB", large_block},
    {"cached alloc+free, 1 MiB page-locked", pinned_block},
    {"empty [16, 16] and its end", make_tensor},
    {"event record", record},
    {"stream scope", change_stream},
};

/* The least time of one run; negative on an error. */
static double measure(fac_status (*run)(work *w), work *w) {
    double least = -1;
    for (int round = 0; round < ROUNDS; round++) {
        double begin = now_ns();
        for (int i = 0; i < PER_ROUND; i++)
            if (run(w) != FAC_OK) return -1;
        double ns = (now_ns() - begin) / PER_ROUND;
        if (least < 0 || ns < least) least = ns;
        if (fac_synchronize(fac_device_make(FAC_CUDA, 0)) != FAC_OK) return -1;
    }
    return least;
}

static fac_status prepare(work *w, fac_cuda_module *m) {
    w->function = fac_cuda_module_function(m, "nothing");
    w->x = fac_empty(FAC_SHAPE(4), .device = fac_device_make(FAC_CUDA, 0));
    w->stream = fac_stream_new(fac_device_make(FAC_CUDA, 0), 0);
    w->event = fac_event_new(FAC_CUDA);
    FAC_TRY(fac_error());
    FAC_TRY(fac_set_device(fac_device_make(FAC_CUDA, 0))); /* the bare launch needs a context */
    FAC_TRY(launch_facula(w));
    w->handle = w->function->handles[0];
    return FAC_OK;
}

static fac_status print_rows(work *w) {
    double ns[FAC_COUNT(rows)];
    for (size_t i = 0; i < FAC_COUNT(rows); i++) {
        ns[i] = measure(rows[i].run, w);
        if (ns[i] < 0) return fac_error();
        printf("cuda\t%s\t%.1f\n", rows[i].name, ns[i]);
        fflush(stdout);
    }
    printf("cuda\tlaunch: added by Facula\t%.1f\n", ns[1] - ns[0]);
    return FAC_OK;
}

int main(void) {
    work w = {0};
    fac_scope s = fac_scope_begin();
    fac_cuda_module *m = load_user_kernels();
    fac_status st = m ? prepare(&w, m) : fac_error();
    if (st == FAC_OK) st = print_rows(&w);
    int failed = st == FAC_OK ? 0 : fac_report(stderr);
    fac_event_free(w.event);
    fac_cuda_module_release(m);
    fac_scope_end(&s);
    fac_shutdown();
    return failed;
}
