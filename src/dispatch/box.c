/* Between boxed values and the C types of typed kernels: what the generated adapters are made of, and the check of a
   caller's values against the schema. */
#include "core/handle.h"
#include "core/scalar.h"
#include "dispatch/operator.h"
#include "dispatch/value.h"

static fac_status mismatch(const char *arg, const char *wanted, const fac_value *v) {
    return FAC_FAIL(FAC_ERR_ARGUMENT, "argument '%s' must be %s, not %s", arg, wanted, fac__tag_name(v->tag));
}

/* ---- unboxing ---------------------------------------------------------------------------------------------------- */

fac_status fac__unbox_tensor(const fac_value *v, bool optional, const char *arg, fac_tensor **out) {
    *out = NULL;
    if (v->tag == FAC_TAG_NONE && optional) return FAC_OK;
    if (FAC_UNLIKELY(v->tag != FAC_TAG_TENSOR)) return mismatch(arg, "Tensor", v);
    *out = fac__open((const fac_tensor *)(intptr_t)v->payload, "a boxed call", arg);
    return *out ? FAC_OK : fac_error();
}

fac_status fac__unbox_int(const fac_value *v, const char *arg, int64_t *out) {
    *out = 0;
    if (v->tag != FAC_TAG_INT && v->tag != FAC_TAG_BOOL) return mismatch(arg, "int", v);
    *out = v->payload;
    return FAC_OK;
}

fac_status fac__unbox_opt_int(const fac_value *v, const char *arg, fac_opt_int *out) {
    *out = (fac_opt_int){NULL, 0};
    if (v->tag == FAC_TAG_NONE) return FAC_OK;
    FAC_TRY(fac__unbox_int(v, arg, &out->v));
    out->set = true;
    return FAC_OK;
}

static bool is_real_number(int64_t tag) { return tag == FAC_TAG_INT || tag == FAC_TAG_BOOL || tag == FAC_TAG_FLOAT; }

fac_status fac__unbox_float(const fac_value *v, const char *arg, double *out) {
    *out = 0;
    if (!is_real_number(v->tag)) return mismatch(arg, "float", v);
    *out = fac_value_as_float(*v);
    return FAC_OK;
}

fac_status fac__unbox_scalar(const fac_value *v, const char *arg, fac_scalar *out) {
    *out = (fac_scalar){0, FAC_KIND_NONE};
    if (!is_real_number(v->tag) && v->tag != FAC_TAG_COMPLEX) return mismatch(arg, "Scalar", v);
    *out = fac_value_as_scalar(*v);
    return FAC_OK;
}

fac_status fac__unbox_opt_num(const fac_value *v, const char *arg, fac_opt_num *out) {
    *out = (fac_opt_num){NULL, {0, FAC_KIND_NONE}};
    if (v->tag == FAC_TAG_NONE) return FAC_OK;
    FAC_TRY(fac__unbox_scalar(v, arg, &out->v));
    out->set = true;
    return FAC_OK;
}

fac_status fac__unbox_bool(const fac_value *v, const char *arg, bool *out) {
    *out = false;
    if (v->tag != FAC_TAG_BOOL) return mismatch(arg, "bool", v);
    *out = v->payload != 0;
    return FAC_OK;
}

fac_status fac__unbox_string(const fac_value *v, bool optional, const char *arg, const char **out) {
    *out = NULL;
    if (v->tag == FAC_TAG_NONE && optional) return FAC_OK;
    if (v->tag != FAC_TAG_STRING) return mismatch(arg, "str", v);
    *out = fac_value_as_string(*v);
    return FAC_OK;
}

/* The rest reads NONE as the C type's "not given". */
#define UNBOX_OR_UNSET(name, c_type, TAG, wanted, reader)                             \
    fac_status fac__unbox_##name(const fac_value *v, const char *arg, c_type *out) {  \
        if (v->tag != FAC_TAG_NONE && v->tag != TAG) return mismatch(arg, wanted, v); \
        *out = reader(*v);                                                            \
        return FAC_OK;                                                                \
    }
UNBOX_OR_UNSET(dtype, fac_dtype, FAC_TAG_DTYPE, "ScalarType", fac_value_as_dtype)
UNBOX_OR_UNSET(device, fac_device, FAC_TAG_DEVICE, "Device", fac_value_as_device)
UNBOX_OR_UNSET(layout, fac_layout, FAC_TAG_LAYOUT, "Layout", fac_value_as_layout)
UNBOX_OR_UNSET(format, fac_memory_format, FAC_TAG_FORMAT, "MemoryFormat", fac_value_as_format)
UNBOX_OR_UNSET(generator, fac_generator *, FAC_TAG_GENERATOR, "Generator", fac_value_as_generator)
UNBOX_OR_UNSET(object, void *, FAC_TAG_OBJECT, "Object", fac_value_as_object)
#undef UNBOX_OR_UNSET

fac_status fac__unbox_ints(const fac_value *v, bool optional, const char *arg, fac_ints *out) {
    *out = (fac_ints){NULL, 0};
    if (v->tag == FAC_TAG_INT || v->tag == FAC_TAG_BOOL) {
        *out = (fac_ints){&v->payload, 1};
        return FAC_OK;
    }
    if (v->tag != FAC_TAG_INTS && v->tag != FAC_TAG_BOOLS && !(v->tag == FAC_TAG_NONE && optional))
        return mismatch(arg, "int[]", v);
    *out = fac_value_as_ints(*v);
    return FAC_OK;
}

fac_status fac__unbox_floats(const fac_value *v, bool optional, const char *arg, fac_floats *out) {
    *out = (fac_floats){NULL, 0};
    if (v->tag != FAC_TAG_FLOATS && !(v->tag == FAC_TAG_NONE && optional)) return mismatch(arg, "float[]", v);
    *out = fac_value_as_floats(*v);
    return FAC_OK;
}

fac_status fac__unbox_scalars(const fac_value *v, const char *arg, fac_scalars *out) {
    *out = (fac_scalars){NULL, 0};
    if (v->tag != FAC_TAG_SCALARS) return mismatch(arg, "Scalar[]", v);
    out->v = fac_value_as_scalars(*v, &out->n);
    return FAC_OK;
}

fac_status fac__unbox_tensors(const fac_value *v, const char *arg, fac_tensors *out) {
    *out = (fac_tensors){NULL, 0};
    if (v->tag != FAC_TAG_TENSORS && v->tag != FAC_TAG_NONE) return mismatch(arg, "Tensor[]", v);
    *out = fac__value_headers(v);
    return FAC_OK;
}

/* ---- boxing ------------------------------------------------------------------------------------------------------ */

fac_value fac__box_opt_int(fac_opt_int x) { return x.set ? fac_value_int(x.v) : fac_value_none(); }
fac_value fac__box_opt_num(fac_opt_num x) { return x.set ? fac_value_scalar(x.v) : fac_value_none(); }
fac_value fac__box_ints(fac_ints x) { return x.v ? fac_value_ints(x.v, x.n) : fac_value_none(); }
fac_value fac__box_floats(fac_floats x) { return x.v ? fac_value_floats(x.v, x.n) : fac_value_none(); }
fac_value fac__box_dtype(fac_dtype d) { return d ? fac_value_dtype(d) : fac_value_none(); }
fac_value fac__box_device(fac_device d) { return d.type ? fac_value_device(d) : fac_value_none(); }
fac_value fac__box_layout(fac_layout l) { return l ? fac_value_layout(l) : fac_value_none(); }
fac_value fac__box_format(fac_memory_format f) { return f ? fac_value_format(f) : fac_value_none(); }

fac_value fac__box_owned_list(fac_tensor_list *l) {
    fac_tensor_list taken = *l;
    *l = (fac_tensor_list){NULL, 0};
    return fac__value_owned_tensors(taken.v, taken.n);
}

void fac__tensor_list_free(fac_tensor_list *l) {
    for (size_t i = 0; i < l->n; i++) fac__unref(l->v[i]);
    fac__free(l->v);
    *l = (fac_tensor_list){NULL, 0};
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static fac_status wrong_result(fac_value *v, const char *wanted) {
    int64_t tag = v->tag;
    fac_value_release(v);
    return FAC_FAIL(FAC_ERR_ARGUMENT, "a boxed kernel gave %s where its schema promises %s", fac__tag_name(tag),
                    wanted);
}

/* The error for a result whose reference is another's: to take it would end the tensor under its owner. */
static fac_status not_given(const char *op, const char *argument) {
    FAC_FAIL(FAC_ERR_STATE, "the kernel gave a tensor without a reference of its own; give what fac_keep returns");
    return fac__error_context(op, argument);
}

fac_status fac__take_tensor(fac_value *v, fac_tensor **out) {
    *out = NULL;
    if (v->tag != FAC_TAG_TENSOR && v->tag != FAC_TAG_NONE) return wrong_result(v, "Tensor");
    if (v->tag == FAC_TAG_TENSOR) {
        *out = fac__open((const fac_tensor *)(intptr_t)v->payload, "a boxed kernel", "result");
        *v = fac_value_none();
        if (!*out) return fac_error();
        if (fac__unkeep(*out)) return FAC_OK;
        *out = NULL;
        return not_given("a boxed kernel", "result");
    }
    return FAC_OK;
}

fac_status fac__take_list(fac_value *v, fac_tensor_list *out) {
    *out = (fac_tensor_list){NULL, 0};
    if (v->tag != FAC_TAG_TENSORS) return wrong_result(v, "Tensor[]");
    fac_tensors l = fac__value_headers(v);
    out->v = fac__alloc_array(l.n, sizeof *out->v);
    if (out->v) {
        for (size_t i = 0; i < l.n; i++) out->v[i] = fac__ref(l.v[i]);
        out->n = l.n;
    }
    fac_value_release(v);
    return out->v ? FAC_OK : FAC_ERR_MEMORY;
}

fac_tensor *fac__take_only(fac_tensor_list *l) {
    fac_tensor *t = l->n ? l->v[0] : NULL;
    fac__free(l->v);
    *l = (fac_tensor_list){NULL, 0};
    return t;
}

fac_status fac__list_of_one(fac_tensor *t, fac_tensor_list *out) {
    out->v = fac__alloc_array(1, sizeof *out->v);
    out->n = out->v != NULL;
    if (out->v)
        out->v[0] = t;
    else
        fac__unref(t);
    return out->v ? FAC_OK : fac_error();
}

static const fac_schema *schema_of(const fac_call_info *c) {
    return atomic_load_explicit(&c->op->schema, memory_order_acquire);
}

fac_status fac__box_lists(const fac_call_info *c, fac_tensor_list *lists, fac_value *st) {
    const fac_schema *s = schema_of(c);
    for (size_t i = 0; i < s->n_rets; i++)
        st[i] =
            s->rets[i].type.list ? fac__box_owned_list(&lists[i]) : fac__value_owned_tensor(fac__take_only(&lists[i]));
    for (size_t i = 0; i < s->n_rets && fac_error(); i++) {
        fac_value_release(&st[i]);
        st[i] = fac_value_none();
    }
    return fac_error();
}

fac_status fac__take_lists(const fac_call_info *c, fac_value *st, fac_tensor_list *out) {
    const fac_schema *s = schema_of(c);
    fac_status e = FAC_OK;
    memset(out, 0, s->n_rets * sizeof *out);
    for (size_t i = 0; i < s->n_rets; i++) {
        fac_tensor *one;
        if (e)
            fac_value_release(&st[i]);
        else if (s->rets[i].type.list)
            e = fac__take_list(&st[i], &out[i]);
        else if ((e = fac__take_tensor(&st[i], &one)) == FAC_OK)
            e = fac__list_of_one(one, &out[i]);
    }
    for (size_t i = 0; i < s->n_rets && e; i++) fac__tensor_list_free(&out[i]);
    return e;
}

fac_scalar fac__take_scalar(fac_value *v) {
    static _Thread_local double re_im[2];
    fac_scalar s = fac_value_as_scalar(*v);
    if (s.kind == FAC_KIND_COMPLEX) {
        fac__scalar_c128(s, re_im);
        s = fac_scalar_c_(re_im);
    }
    fac_value_release(v);
    return s;
}

/* ---- kernels of users -------------------------------------------------------------------------------------------- */

static fac_tensor *given_result(const char *op, const fac_tensor *handle) {
    fac_tensor *t = fac__open(handle, op, "out");
    if (!t || fac__unkeep(t)) return t;
    not_given(op, "out");
    return NULL;
}

fac_status fac__results_given(const fac_call_info *c, fac_status st, fac_tensor **v, size_t n) {
    for (size_t i = 0; i < n; i++) v[i] = st == FAC_OK && v[i] ? given_result(c->op->name, v[i]) : NULL;
    if (st == FAC_OK) st = fac_error();
    for (size_t i = 0; st != FAC_OK && i < n; i++) {
        fac__unref(v[i]);
        v[i] = NULL;
    }
    return st;
}

/* ---- a caller's values against the schema ------------------------------------------------------------------------ */

static const int8_t tag_of_kind[FAC_TYPE_KINDS] = {
    [FAC_TYPE_TENSOR] = FAC_TAG_TENSOR,       [FAC_TYPE_INT] = FAC_TAG_INT,
    [FAC_TYPE_FLOAT] = FAC_TAG_FLOAT,         [FAC_TYPE_BOOL] = FAC_TAG_BOOL,
    [FAC_TYPE_SCALAR] = FAC_TAG_COMPLEX,      [FAC_TYPE_STRING] = FAC_TAG_STRING,
    [FAC_TYPE_DTYPE] = FAC_TAG_DTYPE,         [FAC_TYPE_DEVICE] = FAC_TAG_DEVICE,
    [FAC_TYPE_LAYOUT] = FAC_TAG_LAYOUT,       [FAC_TYPE_FORMAT] = FAC_TAG_FORMAT,
    [FAC_TYPE_GENERATOR] = FAC_TAG_GENERATOR, [FAC_TYPE_OBJECT] = FAC_TAG_OBJECT,
};

/* Whether one value (not a list) is of the kind, without conversion. */
static bool is_of_kind(fac_type_kind kind, int64_t tag) {
    if (kind == FAC_TYPE_SCALAR) return is_real_number(tag) || tag == FAC_TAG_COMPLEX;
    if (kind == FAC_TYPE_FLOAT) return is_real_number(tag);
    return tag == tag_of_kind[kind] || (kind == FAC_TYPE_INT && tag == FAC_TAG_BOOL);
}

static bool is_list_of_kind(fac_type_kind kind, int64_t tag) {
    switch (kind) {
    case FAC_TYPE_TENSOR: return tag == FAC_TAG_TENSORS;
    case FAC_TYPE_INT:
    case FAC_TYPE_BOOL: return tag == FAC_TAG_INTS || tag == FAC_TAG_BOOLS;
    case FAC_TYPE_FLOAT: return tag == FAC_TAG_FLOATS;
    case FAC_TYPE_SCALAR: return tag == FAC_TAG_SCALARS;
    default: return false;
    }
}

static fac_status check_entries(const fac_schema_type *t, const char *arg, fac_value v) {
    fac_tensors l = t->kind == FAC_TYPE_TENSOR ? fac__value_headers(&v) : (fac_tensors){NULL, 0};
    for (size_t i = 0; i < l.n && !t->elem_optional; i++)
        FAC_CHECK(l.v[i], FAC_ERR_ARGUMENT, "argument '%s' must be Tensor[], but its entry %zu is None", arg, i);
    return FAC_OK;
}

/* n floats from ints, or from one number for float[n]. */
static fac_value floats_from(fac_value v, fac_ints from, size_t n) {
    double *x = fac__alloc_array(n, sizeof *x);
    if (!x) return fac_value_none();
    for (size_t i = 0; i < n; i++) x[i] = from.v ? (double)from.v[i] : fac_value_as_float(v);
    fac_value made = fac_value_floats(x, n);
    fac__free(x);
    return made;
}

static fac_value ints_from(int64_t x, size_t n) {
    int64_t *v = fac__alloc_array(n, sizeof *v);
    if (!v) return fac_value_none();
    for (size_t i = 0; i < n; i++) v[i] = x;
    fac_value made = fac_value_ints(v, n);
    fac__free(v);
    return made;
}

/* A list type's value that needs conversion; NONE if there is none (or with an error pending). */
static fac_value convert_list(const fac_schema_type *t, fac_value v) {
    size_t n = (size_t)t->list_size;
    bool real = t->kind == FAC_TYPE_FLOAT, whole = t->kind == FAC_TYPE_INT || t->kind == FAC_TYPE_BOOL;
    if (real && v.tag == FAC_TAG_INTS) return floats_from(v, fac_value_as_ints(v), fac_value_as_ints(v).n);
    if (n && real && is_real_number(v.tag)) return floats_from(v, (fac_ints){NULL, 0}, n);
    if (n && whole && is_of_kind(t->kind, v.tag)) return ints_from(v.payload, n);
    return fac_value_none();
}

bool fac__value_fits(const fac_schema_type *t, fac_value v) {
    if (v.tag == FAC_TAG_NONE) return t->optional;
    return t->list ? is_list_of_kind(t->kind, v.tag) : is_of_kind(t->kind, v.tag);
}

fac_status fac__value_coerce(const fac_schema_type *t, const char *arg, fac_value v, fac_value *held) {
    *held = fac_value_none();
    if (fac__value_fits(t, v)) {
        if (t->list) return check_entries(t, arg, v);
        if (v.tag == FAC_TAG_NONE) return FAC_OK;
        if (t->kind == FAC_TYPE_FLOAT && v.tag != FAC_TAG_FLOAT) *held = fac_value_float(fac_value_as_float(v));
        if (t->kind == FAC_TYPE_INT && v.tag == FAC_TAG_BOOL) *held = fac_value_int(v.payload);
        return FAC_OK;
    }
    if (t->list) *held = convert_list(t, v);
    if (held->tag != FAC_TAG_NONE) return FAC_OK;
    if (fac_error() != FAC_OK) return fac_error();
    char wanted[256];
    return mismatch(arg, fac__type_text(t, wanted, sizeof wanted), &v);
}
