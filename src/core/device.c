/* Devices as text, the names of private ones, and the keys that their tensors carry. */
#include "base/mutex.h"
#include "core/tensor.h"
#include <ctype.h>

enum { NAME_SIZE = 16, FIRST_PRIVATE = FAC_PRIVATE1, MAX_INDEX = 9999 };

static const char *const fixed_names[FAC_DEVICE_TYPE_COUNT] = {
    [FAC_DEVICE_UNSET] = "unset", [FAC_CPU] = "cpu",           [FAC_CUDA] = "cuda",         [FAC_META] = "meta",
    [FAC_PRIVATE1] = "private1",  [FAC_PRIVATE2] = "private2", [FAC_PRIVATE3] = "private3",
};

/* New names of the private types: written once, then published. */
static char renamed[FAC_DEVICE_TYPE_COUNT - FIRST_PRIVATE][NAME_SIZE];
static _Atomic(const char *) names[FAC_DEVICE_TYPE_COUNT - FIRST_PRIVATE];
static fac_mutex rename_lock = FAC_MUTEX_INIT; /* of `renamed` until its text is published in `names` */

static const char *type_name(int32_t type) {
    if (type < 0 || type >= FAC_DEVICE_TYPE_COUNT) return "invalid";
    const char *name =
        type < FIRST_PRIVATE ? NULL : atomic_load_explicit(&names[type - FIRST_PRIVATE], memory_order_acquire);
    return name ? name : fixed_names[type];
}

static fac_device_type find_type(const char *text, size_t n) {
    for (int i = FAC_CPU; i < FAC_DEVICE_TYPE_COUNT; i++)
        if (strlen(type_name(i)) == n && memcmp(type_name(i), text, n) == 0) return (fac_device_type)i;
    return FAC_DEVICE_UNSET;
}

/* A decimal number without sign or leading zeros; -1 if it is not one. */
static int parse_index(const char *s) {
    int x = 0;
    if (!*s || (s[0] == '0' && s[1])) return -1;
    for (; *s; s++) {
        if (*s < '0' || *s > '9') return -1;
        x = x * 10 + (*s - '0');
        if (x > MAX_INDEX) return -1;
    }
    return x;
}

fac_device fac_device_parse(const char *text) {
    fac_device none = {FAC_DEVICE_UNSET, 0};
    if (!text) text = "";
    size_t n = strcspn(text, ":");
    fac_device_type type = find_type(text, n);
    if (type == FAC_DEVICE_UNSET) {
        FAC_FAIL(FAC_ERR_DEVICE,
                 "invalid device string '%s': expected cpu, cuda, meta, %s, %s or %s, and optionally :index", text,
                 type_name(FAC_PRIVATE1), type_name(FAC_PRIVATE2), type_name(FAC_PRIVATE3));
        return none;
    }
    if (!text[n]) return fac_device_make(type, -1);
    int index = parse_index(text + n + 1);
    if (index < 0) {
        FAC_FAIL(FAC_ERR_DEVICE, "invalid device string '%s': '%s' is no device index; expected a number such as %s:0",
                 text, text + n + 1, type_name((int32_t)type));
        return none;
    }
    return fac_device_make(type, index);
}

char *fac_device_format(fac_device d, char *buf, size_t size) {
    if (!fac__given(buf, "buffer")) return NULL;
    if (d.index_plus > 0)
        snprintf(buf, size, "%s:%d", type_name(d.type), d.index_plus - 1);
    else
        snprintf(buf, size, "%s", type_name(d.type));
    return buf;
}

bool fac_device_equal(fac_device a, fac_device b) { return a.type == b.type && a.index_plus == b.index_plus; }

static bool good_name(const char *name) {
    size_t n = strlen(name);
    if (n == 0 || n >= NAME_SIZE || !islower((unsigned char)*name)) return false;
    for (; *name; name++)
        if (!islower((unsigned char)*name) && !isdigit((unsigned char)*name) && *name != '_') return false;
    return true;
}

fac_status fac_device_rename(fac_device_type type, const char *name) {
    FAC_CHECK(type >= FAC_PRIVATE1 && type <= FAC_PRIVATE3, FAC_ERR_ARGUMENT,
              "only private device types can be renamed, not %s", type_name((int32_t)type));
    FAC_CHECK(
        name && good_name(name), FAC_ERR_ARGUMENT,
        "'%s' is no name for a device type: expected a lower-case letter, then up to %d letters, digits and underscores",
        name ? name : "(null)", NAME_SIZE - 2);
    fac_status st = FAC_OK;
    fac__mutex_lock(&rename_lock);
    fac_device_type holder = find_type(name, strlen(name));
    int slot = (int)type - FIRST_PRIVATE;
    if (holder == type) {
        st = FAC_OK;
    } else if (holder != FAC_DEVICE_UNSET) {
        st = FAC_FAIL(FAC_ERR_ARGUMENT, "the name '%s' is taken by another device type", name);
    } else if (atomic_load(&names[slot])) {
        st = FAC_FAIL(FAC_ERR_STATE, "the device type %s was renamed to '%s' already", fixed_names[type],
                      type_name((int32_t)type));
    } else {
        memcpy(renamed[slot], name, strlen(name) + 1);
        atomic_store_explicit(&names[slot], renamed[slot], memory_order_release);
    }
    fac__mutex_unlock(&rename_lock);
    return st;
}

/* ---- keys ------------------------------------------------------------------------------------------------------------- */

static const int8_t backends[FAC_DEVICE_TYPE_COUNT] = {
    [FAC_DEVICE_UNSET] = -1,
    [FAC_CPU] = FAC_BACKEND_CPU,
    [FAC_CUDA] = FAC_BACKEND_CUDA,
    [FAC_META] = FAC_BACKEND_META,
    [FAC_PRIVATE1] = FAC_BACKEND_PRIVATE1,
    [FAC_PRIVATE2] = FAC_BACKEND_PRIVATE2,
    [FAC_PRIVATE3] = FAC_BACKEND_PRIVATE3,
};

static inline fac_status backend_of(fac_device_type type, fac_backend *out) {
    int b = (unsigned)type < FAC_DEVICE_TYPE_COUNT ? backends[type] : -1;
    FAC_CHECK(b >= 0, FAC_ERR_DEVICE, "no back end serves the device type %s (%d); if it should, please report it",
              type_name((int32_t)type), (int)type);
    *out = (fac_backend)b;
    return FAC_OK;
}

fac_status fac_backend_of_device(fac_device_type type, fac_backend *out_backend) {
    if (!fac__given(out_backend, "place for the backend")) return fac_error();
    return backend_of(type, out_backend);
}

fac_status fac__default_keys(fac_device d, fac_keyset *out) {
    fac_backend b;
    FAC_TRY(backend_of((fac_device_type)d.type, &b));
    fac_keyset graph = FAC_KS_AUTOGRAD | FAC_KS_ADINPLACEORVIEW;
    *out = fac__backend_bit(b) | FAC_KS_DENSE | (fac__thread()->inference ? 0 : graph);
    return FAC_OK;
}
