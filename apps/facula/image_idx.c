/* Reads pairs of IDX files. */
#include "image_files.h"

fac_status image_idx_read(const char *images, const char *labels, fac_tensor **out_x, fac_tensor **out_y) {
    FAC_SCOPE(s);
    fac_tensor *x = fac_idx_read(images), *y = x ? fac_idx_read(labels) : NULL;
    if (!y) return fac_error();
    if (fac_tensor_ndim(x) != 3 || fac_tensor_dtype(x) != FAC_U8)
        return fac_error_set(FAC_ERR_FORMAT, "'%s' does not hold images: three dimensions of bytes", images);
    if (fac_tensor_ndim(y) != 1 || fac_tensor_dtype(y) != FAC_U8)
        return fac_error_set(FAC_ERR_FORMAT, "'%s' does not hold labels: one dimension of bytes", labels);
    const int64_t n = fac_tensor_size(x, 0), m = fac_tensor_size(y, 0);
    if (n != m || n == 0)
        return fac_error_set(FAC_ERR_SHAPE, "'%s' holds %lld %s, '%s' %lld %s", images, (long long)n,
                             cli_word(n, "image", "images"), labels, (long long)m, cli_word(m, "label", "labels"));
    *out_x = fac_keep(fac_unsqueeze(x, 1));
    *out_y = fac_keep(fac_to(y, .dtype = FAC_I64));
    return fac_error();
}
