/* Start and end of the dispatcher: the operators that the generator made. */
#include "dispatch/call.h"
#include "dispatch/registry.h"
#include <stdlib.h>

static int compare_text(const void *text, const void *signature) {
    return strcmp(text, ((const fac_signature *)signature)->text);
}

const fac_signature *fac__signature_find(const char *text) {
    return bsearch(text, fac__signatures, fac__signature_count, sizeof fac__signatures[0], compare_text);
}

fac_status fac__dispatch_init(void) {
    fac_status st = FAC_OK;
    fac__registry_lock();
    for (size_t i = 0; i < fac__builtin_op_count && st == FAC_OK; i++) st = fac__builtin_declare(&fac__builtin_ops[i]);
    fac__registry_unlock();
    if (st != FAC_OK) fac__dispatch_shutdown();
    return st;
}

void fac__dispatch_shutdown(void) {
    fac__observers_free();
    fac__registry_free();
}
