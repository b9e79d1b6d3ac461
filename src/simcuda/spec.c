/* What an op does: checks of the memory it touches, and the work itself. */
#include "simcuda/sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sim_spec_copy(sim_spec *to, const sim_spec *from) {
    *to = *from;
    if (!from->payload) return;
    to->payload = sim_new(1, from->payload_bytes);
    memcpy(to->payload, from->payload, from->payload_bytes);
    if (from->kind == SIM_OP_KERNEL) { /* the block begins with pointers into itself */
        void **args = to->payload;
        for (uint32_t i = 0; i < from->kernel.code->n_params; i++) {
            args[i] = (char *)to->payload + ((char *)args[i] - (char *)from->payload);
        }
    } else {
        to->copy.from = to->payload;
    }
}

void sim_spec_clear(sim_spec *s) {
    free(s->payload);
    s->payload = NULL;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* Bytes from the first to the last that rows of a copy touch on one side. */
static size_t extent(const sim_rows *c, size_t pitch, size_t plane) {
    return !c->width || !c->height || !c->depth ? 0 : c->width + (c->height - 1) * pitch + (c->depth - 1) * plane;
}

/* Parameters that are marked as pointers to device memory must point to such; NULL stands for a missing tensor. */
static CUresult check_arguments(const sim_spec *s) {
    const sim_kernel *k = s->kernel.code;
    void **args = s->payload;
    for (uint32_t i = 0; i < k->n_params; i++) {
        const sim_param *p = &k->params[i];
        char what[160];
        void *pointer;
        if (p->role == SIM_VAL || p->size != sizeof pointer) continue;
        memcpy(&pointer, args[i], sizeof pointer);
        if (!pointer) continue;
        snprintf(what, sizeof what, "kernel %s, argument %s", k->name, p->name ? p->name : "without a name");
        SIM_TRY(sim_check_range(s->device, pointer, 1, p->role != SIM_IN, false, false, what));
    }
    return CUDA_SUCCESS;
}

CUresult sim_spec_check(const sim_spec *s) {
    const sim_rows *c = &s->copy;
    switch (s->kind) {
    case SIM_OP_KERNEL: return check_arguments(s);
    case SIM_OP_COPY:
        if (!s->payload) {
            SIM_TRY(sim_check_range(s->device, c->from, extent(c, c->from_pitch, c->from_plane), false, true,
                                    c->from_host, "the source of a copy"));
        }
        return sim_check_range(s->device, c->to, extent(c, c->to_pitch, c->to_plane), true, true, c->to_host,
                               "the destination of a copy");
    case SIM_OP_SET:
        return sim_check_range(s->device, s->set.to, s->set.width * s->set.element + (s->set.height - 1) * s->set.pitch,
                               true, true, false, "the memory of a fill");
    default: return CUDA_SUCCESS;
    }
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

static void copy_rows(const sim_rows *c) {
    bool flat = c->to_pitch == c->width && c->from_pitch == c->width;
    for (size_t z = 0; z < c->depth; z++) {
        char *to = c->to + z * c->to_plane;
        const char *from = c->from + z * c->from_plane;
        if (flat) memmove(to, from, c->width * c->height);
        for (size_t y = 0; y < (flat ? 0 : c->height); y++)
            memmove(to + y * c->to_pitch, from + y * c->from_pitch, c->width);
    }
}

static void fill(const sim_spec *s) {
    for (size_t y = 0; y < s->set.height; y++) {
        char *row = s->set.to + y * s->set.pitch;
        if (s->set.element == 1) memset(row, (int)s->set.value, s->set.width);
        for (size_t x = 0; s->set.element > 1 && x < s->set.width; x++) {
            memcpy(row + x * s->set.element, &s->set.value, s->set.element);
        }
    }
}

static int run_kernel(const sim_spec *s, uint64_t seed, char *message, size_t size) {
    const sim_launch l = {.kernel = s->kernel.code,
                          .grid = {s->kernel.grid[0], s->kernel.grid[1], s->kernel.grid[2]},
                          .block = {s->kernel.block[0], s->kernel.block[1], s->kernel.block[2]},
                          .dynamic_shared = s->kernel.shared,
                          .args = s->payload,
                          .seed = seed,
                          .multiprocessors = sim_opt.multiprocessors};
    return sim_execute(&l, message, size);
}

int sim_spec_run(const sim_spec *s, uint64_t seed, char *message, size_t size) {
    switch (s->kind) {
    case SIM_OP_KERNEL: return run_kernel(s, seed, message, size);
    case SIM_OP_COPY: copy_rows(&s->copy); return 0;
    case SIM_OP_SET: fill(s); return 0;
    case SIM_OP_HOST: s->host.function(s->host.data); return 0;
    case SIM_OP_ALLOC: return sim_pool_begin(s->pointer, message, size);
    case SIM_OP_FREE: return sim_pool_end(s->pointer, message, size);
    default: return 0;
    }
}
