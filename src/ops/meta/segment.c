/* Output rules of segment_reduce: where along a dimension segments end is said by their lengths or by offsets. */
#include "ops/meta/check.h"
#include "ops_gen.h"

static fac_status check_reduce(const char *reduce) {
    static const char *const names[] = {"sum", "mean", "max", "min", "prod"};
    for (size_t i = 0; i < FAC_COUNT(names); i++)
        if (strcmp(reduce, names[i]) == 0) return FAC_OK;
    return FAC_FAIL(FAC_ERR_ARGUMENT, "reduce argument must be one of sum, mean, max, min and prod, got %s", reduce);
}

/* What says where segments are: [*, s] or [*, s + 1], whose leading sizes are data's up to the axis. */
static fac_status check_places(const fac_tensor *data, const fac_tensor *places, const char *name, int64_t axis) {
    FAC_CHECK(places->dtype == FAC_I32 || places->dtype == FAC_I64, FAC_ERR_DTYPE, "%s must be int32 or int64, got %s",
              name, fac_dtype_name((fac_dtype)places->dtype));
    FAC_CHECK(places->ndim == axis + 1, FAC_ERR_SHAPE,
              "Expected axis to be the last dimension of %s but got %lld, and %s of sizes %s", name, (long long)axis,
              name, FAC_SHAPE_TEXT(places));
    for (int64_t d = 0; d < axis; d++)
        FAC_CHECK(places->sizes[d] == data->sizes[d], FAC_ERR_SHAPE,
                  "%s of sizes %s should have the leading sizes of data %s", name, FAC_SHAPE_TEXT(places),
                  FAC_SHAPE_TEXT(data));
    FAC_CHECK(strcmp(name, "offsets") != 0 || places->sizes[axis] > 0, FAC_ERR_SHAPE,
              "offsets should have one entry more than there are segments, got none");
    return FAC_OK;
}

/* Checks data and what cuts it; carries the axis, and gives the sizes of the result. */
static fac_status plan_segments(fac_structured *s, fac_tensor *data, const char *reduce, fac_tensor *lengths,
                                fac_tensor *offsets, int64_t axis, fac_opt_num initial, int64_t *sizes) {
    int64_t d;
    FAC_TRY(check_reduce(reduce));
    FAC_TRY(fac__need_floating("data", data));
    FAC_CHECK(data->ndim > 0, FAC_ERR_SHAPE, "data without dimensions has no segments");
    FAC_TRY(fac__wrap_dim(axis, data->ndim, &d));
    FAC_CHECK(lengths || offsets, FAC_ERR_ARGUMENT, "Either lengths or offsets must be defined.");
    if (initial.set) FAC_TRY(fac__check_factor((fac_dtype)data->dtype, initial.v));
    if (offsets) FAC_TRY(check_places(data, offsets, "offsets", d));
    if (lengths) FAC_TRY(check_places(data, lengths, "lengths", d));
    memcpy(sizes, data->sizes, data->ndim * sizeof *sizes);
    sizes[d] = offsets ? offsets->sizes[d] - 1 : lengths->sizes[d];
    FAC_CHECK(!offsets || !lengths || lengths->sizes[d] == sizes[d], FAC_ERR_SHAPE,
              "lengths of sizes %s and offsets of sizes %s do not say the same", FAC_SHAPE_TEXT(lengths),
              FAC_SHAPE_TEXT(offsets));
    s->carry[0] = d;
    return FAC_OK;
}

fac_status segment_reduce_meta(fac_structured *s, fac_tensor *data, const char *reduce, fac_tensor *lengths,
                               fac_tensor *indices, fac_tensor *offsets, int64_t axis, bool unsafe,
                               fac_opt_num initial) {
    (void)unsafe;
    int64_t sizes[FAC_MAX_DIMS];
    FAC_CHECK(!indices || indices->numel == 0, FAC_ERR_UNSUPPORTED,
              "indices based reduction is not supported; give lengths or offsets");
    FAC_TRY(plan_segments(s, data, reduce, lengths, offsets, axis, initial, sizes));
    return fac_out_declare(s, 0, sizes, NULL, data->ndim, (fac_dtype)data->dtype, data->device);
}

fac_status segment_reduce_backward_meta(fac_structured *s, fac_tensor *grad, fac_tensor *output, fac_tensor *data,
                                        const char *reduce, fac_tensor *lengths, fac_tensor *offsets, int64_t axis,
                                        fac_opt_num initial) {
    int64_t sizes[FAC_MAX_DIMS];
    FAC_TRY(plan_segments(s, data, reduce, lengths, offsets, axis, initial, sizes));
    FAC_TRY(fac__need_sizes("grad", grad, sizes, data->ndim));
    FAC_TRY(fac__need_sizes("output", output, sizes, data->ndim));
    FAC_TRY(fac__need_dtype("grad", grad, (fac_dtype)data->dtype));
    FAC_TRY(fac__need_dtype("output", output, (fac_dtype)data->dtype));
    return fac_out_declare(s, 0, data->sizes, NULL, data->ndim, (fac_dtype)data->dtype, data->device);
}
