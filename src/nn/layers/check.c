/* Arguments of layers that make no sense. */
#include "nn/layers.h"

fac_status fac__check_probability(double p) {
    FAC_CHECK(p >= 0 && p <= 1, FAC_ERR_ARGUMENT, "dropout probability has to be between 0 and 1, but got %g", p);
    return FAC_OK;
}

fac_status fac__check_order(fac_module *m, double low, double high, const char *low_name, const char *high_name) {
    FAC_CHECK(low <= high, FAC_ERR_ARGUMENT, "%s: %s (%g) should not be above %s (%g)", m->cls->name, low_name, low,
              high_name, high);
    return FAC_OK;
}

fac_status fac__check_hardtanh(fac_module *m, double low, double high) {
    FAC_CHECK(low < high, FAC_ERR_ARGUMENT, "%s: max_val (%g) must be greater than min_val (%g)", m->cls->name, high,
              low);
    return FAC_OK;
}

fac_status fac__check_part(fac_module *m, const char *name, double part) {
    FAC_CHECK(part >= 0 && part <= 1, FAC_ERR_ARGUMENT, "%s: %s should be in [0, 1], but is %g", m->cls->name, name,
              part);
    return FAC_OK;
}

fac_status fac__check_size(fac_module *m, const char *name, int64_t size) {
    FAC_CHECK(size >= 0, FAC_ERR_ARGUMENT, "%s: %s should not be negative, but is %lld", m->cls->name, name,
              (long long)size);
    return FAC_OK;
}
