/* Dual tensors: their class, making them, and laying tangents out as their primals. */
#include "autograd/autograd_meta.h"
#include "autograd/engine_ops.h"
#include "autograd/forward.h"
#include "autograd/func.h"
#include "core/tensor_make.h"
#include "ops/batch/batch.h"
#include "ops_gen.h"

/* ---- the class ----------------------------------------------------------------------------------------------------------- */

static void destroy(fac_tensor *t) {
    fac_dual_parts *p = t->ext;
    t->ext = NULL;
    t->cls = NULL;
    t->keys &= ~FAC_KS_FORWARD;
    fac__unref(p->primal);
    fac__unref(p->tangent);
    fac__block_free(p, sizeof *p);
}

/* Takes both references, always. */
static fac_status parts_new(fac_tensor *primal, fac_tensor *tangent, fac_level level, void **out) {
    fac_dual_parts *p = fac__block_new(fac__thread(), sizeof *p);
    if (!p) {
        fac__unref(primal);
        fac__unref(tangent);
        return FAC_ERR_MEMORY;
    }
    *p = (fac_dual_parts){primal, tangent, level};
    *out = p;
    return FAC_OK;
}

static fac_status share(const fac_tensor *t, void **out_ext) {
    const fac_dual_parts *p = t->ext;
    return parts_new(fac__ref(p->primal), fac__ref(p->tangent), p->level, out_ext);
}

const fac_tensor_class fac__dual_class = {.name = "dual", .destroy = destroy, .share = share, .in_memory = true};

fac_dual_parts *fac__dual_parts(const fac_tensor *t) {
    fac_dual_parts *p = t && t->cls == &fac__dual_class ? t->ext : NULL;
    return p && fac__level_is_open(p->level) ? p : NULL;
}

fac_tensor *fac__dual_open_part(fac_tensor *t) {
    while (t && t->cls == &fac__dual_class && !fac__dual_parts(t)) t = ((fac_dual_parts *)t->ext)->primal;
    return t;
}

bool fac__dual_requires_grad(const fac_tensor *t) {
    const fac_dual_parts *p = fac__dual_parts(t);
    return fac__requires_grad(t) || (p && (fac__dual_requires_grad(p->primal) || fac__dual_requires_grad(p->tangent)));
}

/* ---- making --------------------------------------------------------------------------------------------------------------- */

fac_status fac__dual_check_kind(const fac_tensor *t) {
    FAC_CHECK(!t->cls || t->cls == &fac__dual_class || fac__batched(t), FAC_ERR_UNSUPPORTED,
              "a %s tensor cannot carry a tangent; make it dense (fac_to_dense, fac_dequantize, fac_to_padded_tensor)",
              t->cls->name);
    return FAC_OK;
}

fac_status fac__dual_wrap(fac_tensor *primal, fac_tensor *tangent, fac_level level, fac_tensor **out) {
    fac_tensor *t = NULL;
    fac_status st = fac__dual_check_kind(primal);
    if (st == FAC_OK) st = fac__alias(primal, false, &t);
    if (st != FAC_OK) {
        fac__unref(primal);
        fac__unref(tangent);
        return st;
    }
    st = fac__dual_become(t, primal, tangent, level);
    if (st == FAC_OK)
        *out = t;
    else
        fac__unref(t);
    return st;
}

fac_status fac__dual_become(fac_tensor *t, fac_tensor *primal, fac_tensor *tangent, fac_level level) {
    if (t->cls == &fac__dual_class) destroy(t); /* of a lower level, which the primal has */
    FAC_TRY(parts_new(primal, tangent, level, &t->ext));
    t->cls = &fac__dual_class;
    t->keys |= FAC_KS_FORWARD;
    return FAC_OK;
}

static bool same_layout(const fac_tensor *a, const fac_tensor *b) {
    for (int d = 0; d < a->ndim; d++)
        if (a->sizes[d] != 1 && a->strides[d] != b->strides[d]) return false;
    return fac__pending(a) == fac__pending(b);
}

/* Nobody but its holder has t or its memory. */
static bool is_alone(const fac_tensor *t) {
    const bool here = atomic_load_explicit(&t->refs, memory_order_acquire) == 1;
    return here && !t->cls && (!t->storage || atomic_load_explicit(&t->storage->refs, memory_order_acquire) == 1);
}

/* Owned memory laid out as that of t, with its pending flags. */
static fac_status room_like(const fac_tensor *t, fac_tensor **out) {
    if (fac__has_internal_overlap(t))
        FAC_TRY(fac__empty(t->sizes, t->ndim, (fac_dtype)t->dtype, t->device, out));
    else
        FAC_TRY(fac__empty_strided(t->sizes, t->strides, t->ndim, (fac_dtype)t->dtype, t->device, out));
    if (fac__pending(t)) fac__turn_pending(*out, fac__pending(t));
    return FAC_OK;
}

static fac_status cast(fac_tensor **t, const fac_tensor *like) {
    fac_tensor *next = NULL;
    if (fac_dtype_is_complex((fac_dtype)(*t)->dtype) && !fac_dtype_is_complex((fac_dtype)like->dtype)) {
        FAC_TRY(fac__ag_real(*t, &next));
        fac__unref(*t);
        *t = next;
    }
    if ((*t)->dtype == like->dtype && fac_device_equal((*t)->device, like->device)) return FAC_OK;
    FAC_TRY(fac__ag_cast(*t, (fac_dtype)like->dtype, like->device, &next));
    fac__unref(*t);
    *t = next;
    return FAC_OK;
}

fac_status fac__dual_settle(fac_tensor *tangent, const fac_tensor *primal, fac_tensor **out) {
    const bool is_ours = is_alone(tangent);
    fac_tensor *t = fac__ref(tangent), *room = NULL;
    fac_status st = cast(&t, primal);
    if (st == FAC_OK && fac__same_sizes(t, primal) && same_layout(t, primal) && (is_ours || is_alone(t))) {
        *out = t;
        return FAC_OK;
    }
    if (st == FAC_OK) st = room_like(primal, &room);
    if (st == FAC_OK) st = fac__ag_copy_in_place(room, t);
    fac__unref(t);
    if (st == FAC_OK)
        *out = room;
    else
        fac__unref(room);
    return st;
}

fac_status fac__dual_cut(fac_tensor *t, fac_tensor **out) {
    FAC_TRY(fac__dual_catch_up(t));
    return t->cls == &fac__dual_class ? fac__alias(t, true, out) : fac__c_detach(t, out);
}

fac_status fac__dual_check(const fac_tensor *primal, const fac_tensor *tangent) {
    FAC_TRY(fac__dual_check_kind(primal));
    FAC_TRY(fac__dual_check_kind(tangent));
    FAC_CHECK(fac__differentiable((fac_dtype)primal->dtype), FAC_ERR_DTYPE,
              "a tensor of %s has no tangent: a dual tensor is made of a floating or complex one",
              fac_dtype_name((fac_dtype)primal->dtype));
    FAC_CHECK(fac__same_sizes(primal, tangent), FAC_ERR_SHAPE,
              "Expected tensor and tangent to have the same size, but got %s and %s", FAC_SHAPE_TEXT(primal),
              FAC_SHAPE_TEXT(tangent));
    FAC_CHECK(primal->dtype == tangent->dtype, FAC_ERR_DTYPE,
              "Expected tangent to have the dtype of the primal, %s, but got %s",
              fac_dtype_name((fac_dtype)primal->dtype), fac_dtype_name((fac_dtype)tangent->dtype));
    FAC_CHECK(fac_device_equal(primal->device, tangent->device), FAC_ERR_DEVICE,
              "Expected tangent to be on the device of the primal");
    return FAC_OK;
}

static fac_status check_levels(const fac_tensor *primal, const fac_tensor *tangent, fac_level level) {
    const fac_dual_parts *p = fac__dual_parts(primal), *t = fac__dual_parts(tangent);
    FAC_CHECK(!(p && p->level.number >= level.number) && !(t && t->level.number >= level.number), FAC_ERR_STATE,
              "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level is not "
              "supported.");
    return FAC_OK;
}

fac_status fac__dual_make(fac_tensor *primal, fac_tensor *tangent, fac_level level, fac_tensor **out) {
    fac_tensor *view = NULL, *copy = NULL;
    primal = fac__dual_open_part(primal);
    tangent = fac__dual_open_part(tangent);
    FAC_TRY(fac__dual_check(primal, tangent));
    FAC_TRY(check_levels(primal, tangent, level));
    FAC_TRY(fac__c_alias(primal, &view));
    fac__ref(tangent); /* which is not ours alone: it is copied */
    const fac_status st = fac__dual_settle(tangent, view, &copy);
    fac__unref(tangent);
    if (st != FAC_OK) {
        fac__unref(view);
        return st;
    }
    return fac__dual_wrap(view, copy, level, out);
}
