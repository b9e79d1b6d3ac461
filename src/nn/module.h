/* Inside of a module. Names and slots are in order of registration; a slot's tensor may be NULL ("none"). */
#ifndef FAC_SRC_NN_MODULE_H
#define FAC_SRC_NN_MODULE_H

#include "autograd/hook_list.h"
#include "core/handle.h"
#include <facula/io.h>
#include <facula/nn.h>

/* A computed tensor is made of other parts before the module runs (computed.h); it is no part that is listed, saved
   or moved. */
typedef enum { FAC_SLOT_PARAMETER, FAC_SLOT_BUFFER, FAC_SLOT_COMPUTED } fac_slot_kind;

typedef struct fac_slot {
    char *name;
    fac_tensor *tensor; /* owned; a handle */
    fac_slot_kind kind;
    bool persistent;
} fac_slot;

typedef struct fac_child {
    char *name;
    fac_module *module; /* owned */
} fac_child;

typedef struct fac_computed fac_computed;

/* Kinds of hooks in a module's list. */
enum {
    FAC_MODULE_HOOK_PRE,
    FAC_MODULE_HOOK_FORWARD,
    FAC_MODULE_HOOK_BACKWARD_PRE,
    FAC_MODULE_HOOK_BACKWARD,
    FAC_MODULE_HOOK_NODE, /* the older backward hooks */
    FAC_MODULE_HOOK_STATE_PRE,
    FAC_MODULE_HOOK_STATE,
    FAC_MODULE_HOOK_LOAD,
    FAC_MODULE_HOOK_LOAD_POST
};

struct fac_module {
    atomic_int refs;
    bool training;
    bool
        cumulative; /* of a batch normalisation: its running statistics are means of all batches, whatever its momentum */
    const fac_module_class *cls;
    void *state;
    struct {
        fac_slot *v;
        size_t n, cap;
    } slots;
    struct {
        fac_child *v;
        size_t n, cap;
    } children;
    struct {
        fac_computed *v;
        size_t n, cap;
    } computed;
    fac_hooks *hooks;
};

/* The child of a name of len bytes, or the slot of a name, in m itself; or NULL. */
fac_child *fac__module_child_of(fac_module *m, const char *name, size_t len);
fac_slot *fac__module_slot(fac_module *m, const char *name);
/* Whether `wanted` is m or below it. */
bool fac__module_holds(const fac_module *m, const fac_module *wanted);
/* Takes the i-th child, or slot, out; the module, or the handle, goes to the caller. */
fac_module *fac__module_take_child(fac_module *m, size_t i);
fac_tensor *fac__module_take_slot(fac_module *m, fac_slot *s);
/* Frees all parameters, buffers and children, and the room that they are listed in. */
void fac__module_free_parts(const fac_module *m);
/* Puts t in a slot (counted); the old tensor is released. */
void fac__slot_set(fac_slot *s, fac_tensor *t);

/* Every slot (or module) of m and below, in order; visit returns a status that stops the walk. `path` is the dotted
   name. */
typedef fac_status (*fac_slot_visit)(void *context, const char *path, fac_module *owner, fac_slot *slot);
fac_status fac__module_walk_slots(fac_module *m, fac_slot_visit visit, void *context);

/* ---- containers (layers/containers.c, layers/sequential.c) ---- */

extern const fac_module_class fac__sequential_class, fac__module_list_class, fac__module_dict_class,
    fac__parametrization_list_class;
/* A container of children "0", "1", ...; takes over the references, also when it fails. */
fac_module *fac__container_new(const fac_module_class *cls, fac_module *const *modules, size_t n);

/* ---- files of lists ---- */

/* Writes the tensors of a list, none of them NULL, with metadata; or adds those of an open file to a list. */
fac_status fac__state_write(const fac_state *s, const char *path, const fac_metadata *meta, size_t n_meta);
fac_status fac__state_read(fac_safetensors *f, fac_state *s);

/* ---- for layers ---- */

/* An uninitialised leaf parameter in slot `name`; NULL on failure. */
fac_tensor *fac__nn_parameter(fac_module *m, const char *name, fac_ints sizes, fac_dtype dtype, fac_device device);
/* Fills t with uniform numbers in [-bound, bound], with normal(0, 1), or with a constant, without recording. */
fac_status fac__nn_uniform(fac_tensor *t, double bound);
fac_status fac__nn_normal(fac_tensor *t);
fac_status fac__nn_fill(fac_tensor *t, double value);
/* Whether m is a batch normalisation that keeps running statistics. */
bool fac__nn_has_batch_statistics(fac_module *m);
/* Releases m if st is an error; returns m or NULL. */
fac_module *fac__nn_done(fac_module *m, fac_status st);

#endif
