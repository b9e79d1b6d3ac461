/* Start and end of the dispatcher: the operators that the generator made. */
#include "dispatch/call.h"
#include "dispatch/gather.h"
#include "dispatch/registry.h"
#include <string.h>

extern const size_t fac__n_generated_ops; /* generated */
#if FAC_GATHERED
/* The linker's names for the first line of the list and the end. */
extern FAC_HIDDEN const fac_builtin_op *const __start_fac_ops[];
extern FAC_HIDDEN const fac_builtin_op *const __stop_fac_ops[];
size_t fac__builtin_op_count(void) { return (size_t)(__stop_fac_ops - __start_fac_ops); }
const fac_builtin_op *fac__builtin_op_at(size_t i) { return __start_fac_ops[i]; }
#else
extern const fac_builtin_op *const fac__builtin_ops[]; /* generated */
size_t fac__builtin_op_count(void) { return fac__n_generated_ops; }
const fac_builtin_op *fac__builtin_op_at(size_t i) { return fac__builtin_ops[i]; }
#endif
size_t fac__builtin_ops_left_out(void) { return fac__n_generated_ops - fac__builtin_op_count(); }

const fac_signature *fac__signature_find(const char *text) {
    for (size_t i = 0; i < fac__builtin_op_count(); i++) {
        const fac_signature *s = fac__builtin_op_at(i)->signature;
        if (strcmp(s->text, text) == 0) return s;
    }
    return NULL;
}

fac_status fac__dispatch_init(void) {
    fac_status st = FAC_OK;
    fac__registry_lock();
    fac__tables_hold();
    for (size_t i = 0; i < fac__builtin_op_count() && st == FAC_OK; i++)
        st = fac__builtin_declare(fac__builtin_op_at(i));
    fac__registry_unlock();
    if (st != FAC_OK) fac__dispatch_shutdown();
    return st;
}

void fac__dispatch_shutdown(void) {
    fac__observers_free();
    fac__registry_free();
}
