/* DLPack's structs both ways: what they say, who frees what and when, and what has no such form. */
#include "support/support.h"
#include "support/values.h"

#include <facula/facula.h>

/* ---- giving ------------------------------------------------------------------------------------------------------------- */

static void dlpack_gives_the_same_memory(void **state) {
    (void)state;
    fac_tensor *part;
    const void *data;
    {
        FAC_SCOPE(s);
        fac_tensor *x = numbers(FAC_INTS(4, 6));
        part = fac_keep(fac_t(fac_narrow(fac_narrow(x, 1, 2, 3), 0, 1, 3)));
        data = fac_tensor_data(part);
    }
    fac_dl_versioned *m = fac_to_dlpack(part);
    assert_non_null(m);
    assert_int_equal(m->major, 1);
    assert_true(m->flags == 0);
    assert_ptr_equal((char *)m->tensor.data + m->tensor.byte_offset, data);
    assert_int_equal(m->tensor.ndim, 2);
    assert_true(m->tensor.shape[0] == 3 && m->tensor.shape[1] == 3);
    assert_true(m->tensor.strides[0] == 1 && m->tensor.strides[1] == 6);
    assert_true(m->tensor.device.type == FAC_DL_CPU && m->tensor.device.id == 0);
    assert_true(m->tensor.dtype.code == FAC_DL_FLOAT && m->tensor.dtype.bits == 64 && m->tensor.dtype.lanes == 1);
    const double was = *(double *)m->tensor.data;
    fac_release(part); /* the memory stays */
    assert_true(*(double *)m->tensor.data == was);
    m->deleter(m);
}

static void dlpack_gives_copies_and_says_so(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3));
    fac_dl_versioned *m = fac_to_dlpack(x, .copy = true), *r = fac_to_dlpack(x, .read_only = true);
    assert_true(m->flags == FAC_DL_IS_COPIED);
    assert_ptr_not_equal(m->tensor.data, fac_tensor_data(x));
    assert_true(((double *)m->tensor.data)[1] == ((double *)fac_tensor_data(x))[1]);
    assert_true(r->flags == FAC_DL_READ_ONLY);
    m->deleter(m);
    r->deleter(r);
    fac_dl_managed *old = fac_to_dlpack_unversioned(x);
    assert_ptr_equal(old->tensor.data, fac_tensor_data(x));
    old->deleter(old);
}

static void dlpack_gives_what_it_can_and_refuses_the_rest(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_SHAPE(2, 2)), *z = fac_ones(FAC_SHAPE(2), .dtype = FAC_C64);
    assert_null(fac_to_dlpack(fac_set_requires_grad(fac_clone(x), true)));
    assert_error(FAC_ERR_AUTOGRAD, "fac_detach");
    assert_null(fac_to_dlpack(fac_conj(z)));
    assert_error(FAC_ERR_UNSUPPORTED, "conjugation is pending");
    assert_null(fac_to_dlpack(fac_imag(fac_conj(z))));
    assert_error(FAC_ERR_UNSUPPORTED, "negation is pending");
    assert_null(fac_to_dlpack(fac_to_sparse(x)));
    assert_error(FAC_ERR_UNSUPPORTED, "sparse");
    assert_null(fac_to_dlpack_unversioned(fac_nested_tensor(FAC_TENSORS(x))));
    assert_error(FAC_ERR_UNSUPPORTED, "nested");
    assert_null(fac_to_dlpack(fac_quantize_per_tensor(x, 0.5, 0, FAC_QINT8)));
    assert_error(FAC_ERR_UNSUPPORTED, "quantized");
    assert_null(fac_to_dlpack(fac_ones(FAC_SHAPE(2), .device = fac_device_make(FAC_META, -1))));
    assert_error(FAC_ERR_UNSUPPORTED, "");
    assert_int_equal(fac_dlpack_device(x).type, FAC_DL_CPU);
    assert_int_equal(fac_dlpack_device(fac_ones(FAC_SHAPE(2), .device = fac_device_make(FAC_META, -1))).type, 0);
    assert_error(FAC_ERR_UNSUPPORTED, "DLPack has no device for meta");
    /* Nobody else's memory is freed under them. */
    fac_dl_versioned *m = fac_to_dlpack(x);
    assert_null(fac_resize_(x, FAC_INTS(100)));
    assert_error(FAC_ERR_STATE, "given to another library");
    m->deleter(m);
}

/* ---- taking --------------------------------------------------------------------------------------------------------------- */

/* A struct of the test's own, with a count of how often it was deleted. */
typedef struct foreign {
    fac_dl_versioned m;
    int64_t shape[2], strides[2];
    float data[8];
    int deleted;
} foreign;

static void count_deletion(fac_dl_versioned *m) { ((foreign *)m->context)->deleted++; }

static void foreign_make(foreign *f) {
    *f = (foreign){.shape = {2, 3}, .strides = {1, 2}, .data = {0, 1, 2, 3, 4, 5, 6, 7}};
    f->m = (fac_dl_versioned){.major = 1,
                              .context = f,
                              .deleter = count_deletion,
                              .tensor = {.data = f->data,
                                         .device = {FAC_DL_CPU, 0},
                                         .ndim = 2,
                                         .dtype = {FAC_DL_FLOAT, 32, 1},
                                         .shape = f->shape,
                                         .strides = f->strides,
                                         .byte_offset = 4}};
}

static void dlpack_takes_memory_and_deletes_it_once(void **state) {
    (void)state;
    foreign f;
    foreign_make(&f);
    fac_tensor *kept;
    {
        FAC_SCOPE(s);
        fac_tensor *t = fac_from_dlpack(&f.m);
        assert_non_null(t);
        assert_ptr_equal(fac_tensor_data(t), f.data + 1);
        assert_true(fac_item(fac_select(fac_select(t, 0, 1), 0, 2)) == 6);
        assert_non_null(fac_add_(t, 10.0));
        assert_true(f.data[1] == 11 && f.data[7] == 7);
        kept = fac_keep(fac_select(t, 0, 0)); /* a view keeps the memory too */
    }
    assert_int_equal(f.deleted, 0);
    fac_release(kept);
    assert_int_equal(f.deleted, 1);
    foreign_make(&f);
    f.m.tensor.strides = NULL; /* row-major */
    f.m.tensor.device.type = FAC_DL_CUDA_HOST;
    FAC_SCOPE(s);
    fac_tensor *t = fac_from_dlpack(&f.m);
    assert_true(fac_item(fac_select(fac_select(t, 0, 1), 0, 0)) == 4);
}

/* NumPy gives one element turned round a negative stride, and what has no elements any. */
static void dlpack_takes_any_stride_that_leads_nowhere(void **state) {
    (void)state;
    FAC_SCOPE(s);
    foreign f;
    foreign_make(&f);
    f.shape[0] = 1;
    f.strides[0] = -1;
    fac_tensor *t = fac_from_dlpack(&f.m);
    assert_no_error();
    assert_true(fac_tensor_strides(t).v[0] >= 0);
    assert_true(fac_item(fac_select(fac_select(t, 0, 0), 0, 2)) == 5);
    foreign g;
    foreign_make(&g);
    g.shape[0] = 0;
    g.strides[1] = -7;
    assert_int_equal(fac_tensor_numel(fac_from_dlpack(&g.m)), 0);
    assert_no_error();
}

static void dlpack_takes_copies(void **state) {
    (void)state;
    FAC_SCOPE(s);
    foreign f;
    foreign_make(&f);
    f.m.flags = FAC_DL_READ_ONLY;
    assert_null(fac_from_dlpack(&f.m));
    assert_error(FAC_ERR_UNSUPPORTED, "may not be written");
    assert_int_equal(f.deleted, 0);
    fac_tensor *t = fac_from_dlpack(&f.m, .copy = true);
    assert_int_equal(f.deleted, 1);
    f.data[1] = 100;
    assert_true(fac_item(fac_select(fac_select(t, 0, 0), 0, 0)) == 1);
    f.deleted = 0;
    {
        FAC_SCOPE(inner);
        assert_ptr_equal(fac_tensor_data(fac_from_dlpack(&f.m, .read_only = true)), f.data + 1);
    }
    assert_int_equal(f.deleted, 1);
}

/* Changes the struct, and says what it should be told of it. */
#define REFUSED(change, code, text)         \
    do {                                    \
        foreign_make(&f);                   \
        change;                             \
        assert_null(fac_from_dlpack(&f.m)); \
        assert_error((code), (text));       \
        assert_int_equal(f.deleted, 0);     \
    } while (0)

static void dlpack_refuses_what_it_cannot_take(void **state) {
    (void)state;
    FAC_SCOPE(s);
    foreign f;
    REFUSED(f.m.major = 2, FAC_ERR_UNSUPPORTED, "version 2.0");
    REFUSED(f.m.tensor.dtype.lanes = 4, FAC_ERR_UNSUPPORTED, "4 lanes");
    REFUSED(f.m.tensor.dtype.bits = 128, FAC_ERR_UNSUPPORTED, "128 bits");
    REFUSED(f.m.tensor.dtype.code = FAC_DL_UINT, FAC_ERR_UNSUPPORTED, "code 1, 32 bits");
    REFUSED(f.m.tensor.device.type = 10, FAC_ERR_UNSUPPORTED, "device of type 10");
    REFUSED((f.m.tensor.device = (fac_dl_device){FAC_DL_CUDA, 99}), FAC_ERR_DEVICE, "CUDA device 99");
    REFUSED(f.strides[0] = -1, FAC_ERR_UNSUPPORTED, "stride -1 in dimension 0");
    REFUSED(f.shape[1] = -3, FAC_ERR_SHAPE, "size -3 in dimension 1");
    REFUSED(f.shape[0] = f.strides[0] = INT64_MAX, FAC_ERR_OVERFLOW, "64 bits");
    REFUSED(f.m.tensor.ndim = 1000, FAC_ERR_SHAPE, "1000 dimensions");
    REFUSED(f.m.tensor.ndim = -1, FAC_ERR_SHAPE, "-1 dimensions");
    REFUSED(f.m.tensor.shape = NULL, FAC_ERR_ARGUMENT, "has no sizes");
    REFUSED(f.m.tensor.data = NULL, FAC_ERR_ARGUMENT, "has no data");
    REFUSED(f.m.tensor.byte_offset = 2, FAC_ERR_ARGUMENT, "not aligned for float32");
    REFUSED(f.m.tensor.byte_offset = UINT64_MAX, FAC_ERR_OVERFLOW, "bytes after its data");
    assert_null(fac_from_dlpack(NULL));
    assert_error(FAC_ERR_ARGUMENT, "DLPack tensor");
}

/* ---- there and back ----------------------------------------------------------------------------------------------------------- */

static void dlpack_brings_every_dtype_there_and_back(void **state) {
    (void)state;
    static const fac_dtype all[] = {FAC_BOOL,        FAC_U8,        FAC_I8,        FAC_I16,     FAC_I32,
                                    FAC_I64,         FAC_F16,       FAC_BF16,      FAC_F32,     FAC_F64,
                                    FAC_C64,         FAC_C128,      FAC_F8_E4M3FN, FAC_F8_E5M2, FAC_F8_E4M3FNUZ,
                                    FAC_F8_E5M2FNUZ, FAC_F8_E8M0FNU};
    for (size_t i = 0; i < FAC_COUNT(all); i++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_to(fac_ones(FAC_SHAPE(2, 3)), .dtype = all[i]);
        assert_no_error();
        fac_dl_versioned *m = fac_to_dlpack(x);
        fac_tensor *y = fac_from_dlpack(m);
        assert_no_error();
        assert_int_equal(fac_tensor_dtype(y), all[i]);
        assert_ptr_equal(fac_tensor_data(y), fac_tensor_data(x));
        fac_dl_managed *old = fac_to_dlpack_unversioned(y);
        assert_int_equal(fac_tensor_dtype(fac_from_dlpack_unversioned(old)), all[i]);
    }
    FAC_SCOPE(s); /* without dimensions, and without elements */
    assert_true(fac_item(fac_from_dlpack(fac_to_dlpack(fac_full(FAC_SHAPE(), 3)))) == 3);
    fac_tensor *none = fac_from_dlpack(fac_to_dlpack(fac_zeros(FAC_SHAPE(0, 3))));
    assert_int_equal(fac_tensor_numel(none), 0);
    assert_int_equal(fac_tensor_sizes(none).v[1], 3);
    fac_tensor *wide = fac_from_dlpack(fac_to_dlpack(fac_expand(fac_ones(FAC_SHAPE(1, 3)), FAC_INTS(4, 3))));
    assert_int_equal(fac_tensor_strides(wide).v[0], 0);
}

static fac_status there_and_back(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_dl_versioned *m = fac_to_dlpack(fac_ones(FAC_SHAPE(2, 3)), .copy = true);
    if (m && !fac_from_dlpack(m)) m->deleter(m); /* it is the caller's still */
    return fac_error();
}

static void dlpack_loses_nothing_without_memory(void **state) {
    (void)state;
    support_fail_each_allocation(there_and_back, NULL);
}

FAC_TEST_MAIN(FAC_TEST(dlpack_gives_the_same_memory), FAC_TEST(dlpack_gives_copies_and_says_so),
              FAC_TEST(dlpack_gives_what_it_can_and_refuses_the_rest),
              FAC_TEST(dlpack_takes_memory_and_deletes_it_once), FAC_TEST(dlpack_takes_any_stride_that_leads_nowhere),
              FAC_TEST(dlpack_takes_copies), FAC_TEST(dlpack_refuses_what_it_cannot_take),
              FAC_TEST(dlpack_brings_every_dtype_there_and_back), FAC_TEST(dlpack_loses_nothing_without_memory))
