/* What is said of handles that cannot be opened, and lists of handles. */
#include "core/handle.h"

fac_status fac__null_tensor(const char *op, const char *argument) {
    if (fac_error()) return fac_error();
    FAC_FAIL(FAC_ERR_ARGUMENT, "NULL was given where a tensor is needed");
    return fac__error_context(op, argument);
}

fac_tensor *fac__open_failed(const fac_tensor *handle, const char *op, const char *argument) {
    if (fac_error()) return NULL;
    if (!handle)
        FAC_FAIL(FAC_ERR_ARGUMENT, "NULL was given where a tensor is needed");
    else if (((uintptr_t)handle & FAC_HANDLE_MARK) != FAC_HANDLE_MARK)
        FAC_FAIL(FAC_ERR_ARGUMENT, "%p is no tensor that Facula gave", (const void *)handle);
    else
        FAC_FAIL(FAC_ERR_STATE,
                 "the tensor was released already: its scope has ended, or its last reference was dropped");
    fac__error_context(op, argument);
    return NULL;
}

fac_tensor *fac__open_called(const fac_tensor *handle, const char *op, const char *argument) {
    return fac__open_here(handle, op, argument);
}

/* ---- lists ------------------------------------------------------------------------------------------------------------ */

/* Room for n entries. */
static fac_status reserve(fac_handle_list *l, size_t n) {
    l->v = l->few;
    l->l = (fac_tensors){NULL, 0};
    if (FAC_LIKELY(n <= FAC_FEW_HANDLES)) return FAC_OK;
    l->v = fac__alloc_array(n, sizeof *l->v);
    return l->v ? FAC_OK : fac_error();
}

fac_status fac__open_list(fac_handle_list *out, fac_tensors handles, bool optional, const char *op,
                          const char *argument) {
    out->v = out->few;
    FAC_TRY(fac_error());
    if (handles.n && !handles.v) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "a list of %zu tensors without an array", handles.n);
        return fac__error_context(op, argument);
    }
    FAC_TRY(reserve(out, handles.n));
    for (size_t i = 0; i < handles.n; i++) {
        out->v[i] = NULL;
        if (optional && !handles.v[i]) continue;
        out->v[i] = fac__open(handles.v[i], op, argument);
        if (FAC_UNLIKELY(!out->v[i])) return fac_error();
    }
    out->l = (fac_tensors){handles.v ? out->v : NULL, handles.n};
    return FAC_OK;
}

fac_status fac__handle_list(fac_handle_list *out, fac_tensors headers) {
    FAC_TRY(reserve(out, headers.n));
    for (size_t i = 0; i < headers.n; i++) out->v[i] = fac__handle(headers.v[i]);
    out->l = (fac_tensors){headers.v ? out->v : NULL, headers.n};
    return FAC_OK;
}

void fac__handle_list_free(fac_handle_list *l) {
    if (l->v != l->few) fac__free(l->v);
}

fac_status fac__to_headers(fac_tensor **v, size_t n, const char *op, const char *argument) {
    for (size_t i = 0; i < n; i++) {
        if (!v[i]) continue;
        v[i] = fac__open(v[i], op, argument);
        if (FAC_LIKELY(v[i] != NULL)) continue;
        memset(v, 0, n * sizeof *v);
        return fac_error();
    }
    return FAC_OK;
}
