/* The npu device: queues on the host and one boxed fallback. */
#include "support/npu.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS = 4, DEPTH = 256 };

/* One entry of a queue: a call, or, without fn, a wait for what another queue had been given up to a point. */
typedef struct item {
    void (*fn)(void *argument);
    void *argument;
    int device, stream;
    int64_t until;
} item;

static struct queue {
    item items[DEPTH];
    int64_t given, done;
} queues[NPU_DEVICES][STREAMS];

typedef struct mark { /* an event */
    int device, stream;
    int64_t until;
    double ms;
} mark;

static _Thread_local int current;
static _Thread_local int64_t current_stream[NPU_DEVICES];
static int next_stream = 1;
static atomic_int blocks[NPU_DEVICES];
static pthread_mutex_t lock; /* of the queues; recursive, since an entry may run others */

fac_device npu(int index) { return fac_device_make(FAC_PRIVATE1, index); }

int npu_blocks(int index) { return blocks[index]; }

/* ---- queues ------------------------------------------------------------------------------------------------------- */

static void run_until(int device, int64_t stream, int64_t until) {
    struct queue *q = &queues[device][stream];
    pthread_mutex_lock(&lock);
    while (q->done < until) {
        item i = q->items[q->done % DEPTH];
        q->done++;
        if (i.fn)
            i.fn(i.argument);
        else
            run_until(i.device, i.stream, i.until);
    }
    pthread_mutex_unlock(&lock);
}

static void drain(int device, int64_t stream) { run_until(device, stream, queues[device][stream].given); }

static void give(int device, int64_t stream, item i) {
    struct queue *q = &queues[device][stream];
    pthread_mutex_lock(&lock);
    if (q->given - q->done == DEPTH) drain(device, stream);
    q->items[q->given++ % DEPTH] = i;
    pthread_mutex_unlock(&lock);
}

void npu_queue(int index, void (*fn)(void *argument), void *argument) {
    give(index, current_stream[index], (item){.fn = fn, .argument = argument});
}

int npu_pending(void) {
    int64_t n = 0;
    for (int d = 0; d < NPU_DEVICES; d++)
        for (int s = 0; s < STREAMS; s++) n += queues[d][s].given - queues[d][s].done;
    return (int)n;
}

/* ---- the table ---------------------------------------------------------------------------------------------------------- */

static int count(const fac_device_guard *g) {
    (void)g;
    return NPU_DEVICES;
}

static fac_status get_device(const fac_device_guard *g, int *out_index) {
    (void)g;
    *out_index = current;
    return FAC_OK;
}

static fac_status set_device(const fac_device_guard *g, int index) {
    (void)g;
    if (index < 0 || index >= NPU_DEVICES)
        return fac_error_set(FAC_ERR_DEVICE, "npu:%d is not there: this machine has %d", index, NPU_DEVICES);
    current = index;
    return FAC_OK;
}

static void set_device_unchecked(const fac_device_guard *g, int index) {
    (void)g;
    current = index;
}

static fac_status synchronize(const fac_device_guard *g, int index) {
    (void)g;
    for (int s = 0; s < STREAMS; s++) drain(index, s);
    return FAC_OK;
}

static void *take(const fac_allocator *self, int64_t bytes) {
    void *p = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64 + 64);
    if (p) ++*(atomic_int *)self->context;
    return p;
}

static void give_back(const fac_allocator *self, void *p, int64_t bytes) {
    (void)bytes;
    --*(atomic_int *)self->context;
    free(p);
}

static const fac_allocator allocators[NPU_DEVICES] = {
    {"npu", take, give_back, &blocks[0]}, {"npu", take, give_back, &blocks[1]}, {"npu", take, give_back, &blocks[2]}};

static const fac_allocator *allocator(const fac_device_guard *g, int index) {
    if (set_device(g, current) != FAC_OK) return NULL;
    if (index >= 0 && index < NPU_DEVICES) return &allocators[index];
    fac_error_set(FAC_ERR_DEVICE, "npu:%d is not there: this machine has %d", index, NPU_DEVICES);
    return NULL;
}

static fac_status copy(const fac_device_guard *g, fac_device to_device, void *to, fac_device from_device,
                       const void *from, int64_t bytes, bool non_blocking) {
    (void)non_blocking;
    if (from_device.type == FAC_PRIVATE1) drain(from_device.index_plus - 1, current_stream[from_device.index_plus - 1]);
    if (to_device.type == FAC_PRIVATE1) drain(to_device.index_plus - 1, current_stream[to_device.index_plus - 1]);
    memmove(to, from, (size_t)bytes);
    return set_device(g, current);
}

static fac_status get_stream(const fac_device_guard *g, int index, int64_t *out_id) {
    (void)g;
    *out_id = current_stream[index];
    return FAC_OK;
}

static fac_status new_stream(const fac_device_guard *g, int index, int priority, int64_t *out_id) {
    (void)g, (void)index, (void)priority;
    *out_id = next_stream;
    next_stream = next_stream % (STREAMS - 1) + 1;
    return FAC_OK;
}

static fac_status wrap_stream(const fac_device_guard *g, int index, void *handle, int64_t *out_id) {
    (void)g;
    for (int s = 0; s < STREAMS; s++)
        if (handle == &queues[index][s]) {
            *out_id = s;
            return FAC_OK;
        }
    return fac_error_set(FAC_ERR_ARGUMENT, "this is no npu queue");
}

static fac_status exchange_stream(const fac_device_guard *g, int index, int64_t id, int64_t *out_was) {
    (void)g;
    *out_was = current_stream[index];
    current_stream[index] = id;
    return FAC_OK;
}

static void *stream_handle(const fac_device_guard *g, int index, int64_t id) {
    (void)g;
    return &queues[index][id];
}

static fac_status query_stream(const fac_device_guard *g, int index, int64_t id, bool *out_done) {
    (void)g;
    *out_done = queues[index][id].done == queues[index][id].given;
    return FAC_OK;
}

static fac_status synchronize_stream(const fac_device_guard *g, int index, int64_t id) {
    (void)g;
    drain(index, id);
    return FAC_OK;
}

static fac_status record_event(const fac_device_guard *g, void **event, int index, int64_t id, bool timing) {
    static double clock;
    (void)g;
    mark *m = *event ? *event : malloc(sizeof *m);
    if (!m) return fac_error_set(FAC_ERR_MEMORY, "no memory for an npu event");
    *m = (mark){index, (int)id, queues[index][id].given, timing ? clock += 1 : 0};
    *event = m;
    return FAC_OK;
}

static fac_status block_stream(const fac_device_guard *g, void *event, int index, int64_t id) {
    const mark *m = event;
    (void)g;
    give(index, id, (item){.device = m->device, .stream = m->stream, .until = m->until});
    return FAC_OK;
}

static fac_status query_event(const fac_device_guard *g, void *event, bool *out_done) {
    const mark *m = event;
    (void)g;
    *out_done = queues[m->device][m->stream].done >= m->until;
    return FAC_OK;
}

static fac_status synchronize_event(const fac_device_guard *g, void *event) {
    const mark *m = event;
    (void)g;
    run_until(m->device, m->stream, m->until);
    return FAC_OK;
}

static fac_status elapsed(const fac_device_guard *g, void *start, void *end, double *out_ms) {
    (void)g;
    *out_ms = ((const mark *)end)->ms - ((const mark *)start)->ms;
    return FAC_OK;
}

static void destroy_event(const fac_device_guard *g, void *event, int index) {
    (void)g, (void)index;
    free(event);
}

static fac_status record_data(const fac_device_guard *g, void *data, int index, int64_t id) {
    (void)g, (void)data;
    drain(index, id); /* simple and safe: nothing can still use the block when it is freed */
    return FAC_OK;
}

static const fac_device_guard guard = {
    .size = sizeof guard,
    .type = FAC_PRIVATE1,
    .count = count,
    .get_device = get_device,
    .set_device = set_device,
    .set_device_unchecked = set_device_unchecked,
    .synchronize = synchronize,
    .allocator = allocator,
    .copy = copy,
    .get_stream = get_stream,
    .new_stream = new_stream,
    .wrap_stream = wrap_stream,
    .exchange_stream = exchange_stream,
    .stream_handle = stream_handle,
    .query_stream = query_stream,
    .synchronize_stream = synchronize_stream,
    .record_event = record_event,
    .block_stream = block_stream,
    .query_event = query_event,
    .synchronize_event = synchronize_event,
    .elapsed = elapsed,
    .destroy_event = destroy_event,
    .record_data = record_data,
};

/* ---- kernels: every operator, on the host ----------------------------------------------------------------------------- */

static bool is_npu(fac_tensor *t) { return t && fac_tensor_device(t).type == FAC_PRIVATE1; }

/* The same elements as a CPU tensor over the same memory. */
static fac_tensor *on_host(fac_tensor *t) {
    fac_storage *s = fac_tensor_storage(t);
    int index = fac_tensor_device(t).index_plus - 1;
    drain(index, current_stream[index]);
    return fac_tensor_wrap(fac_storage_data(s), (size_t)fac_storage_bytes(s), fac_tensor_dtype(t), fac_tensor_sizes(t),
                           fac_tensor_strides(t), fac_tensor_offset(t), NULL, NULL);
}

/* A CPU result as one of this device: the argument it was written over, or a new tensor. */
static fac_value bring(fac_value v, const fac_value *given, const fac_value *host, size_t n, fac_device d) {
    if (v.tag != FAC_TAG_TENSOR) return fac_value_copy(v);
    fac_tensor *t = fac_value_as_tensor(v);
    for (size_t i = 0; i < n; i++)
        if (host[i].tag == FAC_TAG_TENSOR && fac_value_as_tensor(host[i]) == t) return fac_value_copy(given[i]);
    fac_value args[] = {fac_value_ints(fac_tensor_sizes(t).v, fac_tensor_sizes(t).n),
                        fac_value_ints(fac_tensor_strides(t).v, fac_tensor_strides(t).n),
                        fac_value_dtype(fac_tensor_dtype(t)), fac_value_layout(FAC_STRIDED), fac_value_device(d)};
    fac_value made = fac_value_none();
    if (fac_call("aten::empty_strided", args, 5, &made) == FAC_OK)
        memcpy(fac_storage_data(fac_tensor_storage(fac_value_as_tensor(made))), fac_storage_data(fac_tensor_storage(t)),
               (size_t)fac_storage_bytes(fac_tensor_storage(fac_value_as_tensor(made))));
    fac_value_release(&args[0]);
    fac_value_release(&args[1]);
    return made;
}

/* All tensors lie on one device, but for copies and for 0-d tensors of the CPU. */
static fac_status check_devices(const fac_call_info *c, const fac_value *stack, size_t n) {
    fac_device first = {0, 0};
    char a[24], b[24];
    if (strcmp(fac_operator_name(c->op), "aten::copy_") == 0) return FAC_OK;
    for (size_t i = 0; i < n; i++) {
        fac_tensor *t = stack[i].tag == FAC_TAG_TENSOR ? fac_value_as_tensor(stack[i]) : NULL;
        if (!t || (!is_npu(t) && fac_tensor_ndim(t) == 0)) continue;
        fac_device d = fac_tensor_device(t);
        if (first.type && !fac_device_equal(first, d))
            return fac_error_set(FAC_ERR_DEVICE, "%s: tensors on %s and %s", fac_operator_name(c->op),
                                 fac_device_format(first, a, sizeof a), fac_device_format(d, b, sizeof b));
        first = d;
    }
    return FAC_OK;
}

static fac_status compute_on_host(const fac_call_info *c, fac_value *stack) {
    size_t n = fac_operator_arg_count(c->op), results = fac_operator_return_count(c->op);
    fac_value host[32], out[8] = {{0, 0}};
    fac_device d = {0, 0};
    if (n > 32 || results > 8) return fac_error_set(FAC_ERR_UNSUPPORTED, "too many arguments for an npu");
    if (check_devices(c, stack, n) != FAC_OK) return fac_error();
    FAC_SCOPE(s);
    for (size_t i = 0; i < n; i++) {
        fac_tensor *t = stack[i].tag == FAC_TAG_TENSOR ? fac_value_as_tensor(stack[i]) : NULL;
        if (is_npu(t)) d = fac_tensor_device(t);
        host[i] = is_npu(t) ? fac_value_tensor(on_host(t)) : fac_value_copy(stack[i]);
    }
    if (fac_error() == FAC_OK && fac_call_op(c->op, host, n, out) == FAC_OK) {
        fac_value brought[8];
        for (size_t i = 0; i < results; i++) brought[i] = bring(out[i], stack, host, n, d);
        for (size_t i = 0; i < results; i++) stack[i] = brought[i];
    }
    for (size_t i = 0; i < results; i++) fac_value_release(&out[i]);
    for (size_t i = 0; i < n; i++) fac_value_release(&host[i]);
    return fac_error();
}

static void make_lock(void) {
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &a);
    pthread_mutexattr_destroy(&a);
}

fac_status npu_register(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_lock);
    memset(current_stream, 0, sizeof current_stream);
    current = 0;
    if (fac_register_device_guard(&guard) != FAC_OK) return fac_error();
    fac_register_fallback("PrivateUse1", compute_on_host, NULL, FAC_HERE);
    return fac_error();
}
