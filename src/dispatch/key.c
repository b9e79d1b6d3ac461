/* Keys by name, key sets as text, and the sets that threads and the process add to calls. */
#include "core/handle.h"
#include "dispatch/operator.h"

const uint8_t fac__slot_offset[FAC_KEY_COUNT] = {
    [FAC_KEY_DENSE] = 0,           [FAC_KEY_QUANTIZED] = 16,  [FAC_KEY_CUSTOM_RNG] = 32,
    [FAC_KEY_VENDOR] = 33,         [FAC_KEY_SPARSE_CSR] = 49, [FAC_KEY_SPARSE] = 65,
    [FAC_KEY_BACKEND_SELECT] = 81, [FAC_KEY_WATCH] = 82,      [FAC_KEY_CONJUGATE] = 83,
    [FAC_KEY_FUNCTIONALIZE] = 84,  [FAC_KEY_FORWARD_AD] = 85, [FAC_KEY_AD_INPLACE_OR_VIEW] = 86,
    [FAC_KEY_AUTOGRAD] = 87,       [FAC_KEY_TRACE] = 103,     [FAC_KEY_AUTOCAST] = 104,
    [FAC_KEY_BATCHED] = 120,       [FAC_KEY_NAMED] = 121,     [FAC_KEY_NESTED] = 122,
};
#define PER_BACKEND(f) [f] = FAC_BACKEND_BITS - 1
const uint8_t fac__slot_mask[FAC_KEY_COUNT] = {
    PER_BACKEND(FAC_KEY_DENSE),      PER_BACKEND(FAC_KEY_QUANTIZED), PER_BACKEND(FAC_KEY_VENDOR),
    PER_BACKEND(FAC_KEY_SPARSE_CSR), PER_BACKEND(FAC_KEY_SPARSE),    PER_BACKEND(FAC_KEY_AUTOGRAD),
    PER_BACKEND(FAC_KEY_AUTOCAST),
};
_Static_assert(FAC_SLOTS == 123, "the offsets above fill the table");

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* First the name that is written, then others that are understood (PyTorch's own among them). */
static const char *const backend_names[FAC_BACKEND_COUNT][2] = {
    {"CPU"},
    {"CUDA"},
    {"HIP"},
    {"XLA"},
    {"XPU"},
    {"HPU"},
    {"VE"},
    {"Lazy"},
    {"Vulkan"},
    {"Metal"},
    {"MLC"},
    {"FPGA"},
    {"Meta"},
    {"PrivateUse1", "Private1"},
    {"PrivateUse2", "Private2"},
    {"PrivateUse3", "Private3"},
};
/* Alone for single slots; as a prefix of the backend's name for the others. Dense has none. */
static const char *const functionality_names[FAC_KEY_COUNT][2] = {
    [FAC_KEY_DENSE] = {"Dense"},
    [FAC_KEY_QUANTIZED] = {"Quantized"},
    [FAC_KEY_CUSTOM_RNG] = {"CustomRNG", "CustomRNGKeyId"},
    [FAC_KEY_VENDOR] = {"Vendor", "Mkldnn"},
    [FAC_KEY_SPARSE_CSR] = {"SparseCsr"},
    [FAC_KEY_SPARSE] = {"Sparse"},
    [FAC_KEY_BACKEND_SELECT] = {"BackendSelect"},
    [FAC_KEY_WATCH] = {"Watch"},
    [FAC_KEY_CONJUGATE] = {"Conjugate"},
    [FAC_KEY_FUNCTIONALIZE] = {"Functionalize"},
    [FAC_KEY_FORWARD_AD] = {"ForwardAD"},
    [FAC_KEY_AD_INPLACE_OR_VIEW] = {"ADInplaceOrView"},
    [FAC_KEY_AUTOGRAD] = {"Autograd"},
    [FAC_KEY_TRACE] = {"Trace", "Tracer"},
    [FAC_KEY_AUTOCAST] = {"Autocast"},
    [FAC_KEY_BATCHED] = {"Batched"},
    [FAC_KEY_NAMED] = {"Named"},
    [FAC_KEY_NESTED] = {"Nested", "NestedTensor"},
};
static const struct {
    const char *name;
    int16_t alias;
} alias_names[] = {
    {"CatchAll", FAC_ALIAS_CATCH_ALL},
    {"CompositeExplicit", FAC_ALIAS_COMPOSITE_EXPLICIT},
    {"Autograd", FAC_ALIAS_AUTOGRAD},
    {"AutogradOther", FAC_ALIAS_AUTOGRAD_OTHER},
    {"Pointwise", FAC_ALIAS_POINTWISE},
    {"CompositeImplicit", FAC_ALIAS_CATCH_ALL},
    {"CompositeImplicitAutograd", FAC_ALIAS_CATCH_ALL},
    {"CompositeExplicitAutograd", FAC_ALIAS_COMPOSITE_EXPLICIT},
};

static int find_backend(const char *text) {
    for (int b = 0; b < FAC_BACKEND_COUNT; b++)
        for (int i = 0; i < 2 && backend_names[b][i]; i++)
            if (strcmp(text, backend_names[b][i]) == 0) return b;
    return -1;
}

/* "Sparse", "SparseCsrCPU", "Named", ... Bare names of functionalities with many slots stand for all backends. */
static bool parse_functionality(const char *text, fac_key *out) {
    for (int f = 0; f < FAC_KEY_COUNT; f++) {
        for (int i = 0; i < 2 && functionality_names[f][i]; i++) {
            size_t n = strlen(functionality_names[f][i]);
            if (f == FAC_KEY_DENSE || strncmp(text, functionality_names[f][i], n) != 0) continue;
            int b = text[n] && fac__slot_mask[f] ? find_backend(text + n) : FAC_ALL_BACKENDS;
            if (text[n] && b < 0) continue;
            *out = (fac_key){(int16_t)f, (int16_t)b, FAC_ALIAS_NONE};
            return true;
        }
    }
    return false;
}

static fac_status unknown_key(const char *text) {
    fac_buf b = {0};
    for (int i = 0; i < FAC_BACKEND_COUNT; i++) fac__buf_printf(&b, "%s%s", i ? ", " : "", backend_names[i][0]);
    fac__buf_printf(&b, ", each also after");
    for (int f = 0; f < FAC_KEY_COUNT; f++)
        if (f != FAC_KEY_DENSE && fac__slot_mask[f]) fac__buf_printf(&b, " %s", functionality_names[f][0]);
    for (int f = 0; f < FAC_KEY_COUNT; f++)
        if (!fac__slot_mask[f]) fac__buf_printf(&b, ", %s", functionality_names[f][0]);
    for (int i = 0; i < 5; i++) fac__buf_printf(&b, ", %s", alias_names[i].name);
    fac_status st =
        FAC_FAIL(FAC_ERR_ARGUMENT, "'%s' names no dispatch key; the keys are %s", text, b.data ? b.data : "");
    fac__buf_free(&b);
    return st;
}

fac_status fac_key_parse(const char *text, fac_key *out_key) {
    FAC_CHECK(text && out_key, FAC_ERR_ARGUMENT,
              "fac_key_parse needs a key's name and a place for the key, but one is NULL");
    *out_key = (fac_key){FAC_KEY_ANY, FAC_ALL_BACKENDS, FAC_ALIAS_NONE};
    for (size_t i = 0; i < FAC_COUNT(alias_names); i++) {
        if (strcmp(text, alias_names[i].name) != 0) continue;
        out_key->alias = alias_names[i].alias;
        return FAC_OK;
    }
    int b = find_backend(text);
    if (b >= 0) {
        *out_key = (fac_key){FAC_KEY_DENSE, (int16_t)b, FAC_ALIAS_NONE};
        return FAC_OK;
    }
    return parse_functionality(text, out_key) ? FAC_OK : unknown_key(text);
}

char *fac_key_format(fac_key key, char *buf, size_t size) {
    if (!fac__given(buf, "buffer")) return NULL;
    int f = key.functionality, b = key.backend;
    if (key.alias != FAC_ALIAS_NONE) {
        const char *name = "?";
        for (size_t i = FAC_COUNT(alias_names); i--;)
            if (alias_names[i].alias == key.alias) name = alias_names[i].name;
        snprintf(buf, size, "%s", name);
    } else if (f < 0 || f >= FAC_KEY_COUNT || b >= FAC_BACKEND_COUNT) {
        snprintf(buf, size, "?");
    } else {
        bool bare = f == FAC_KEY_DENSE && b >= 0;
        snprintf(buf, size, "%s%s", bare ? "" : functionality_names[f][0],
                 b >= 0 && fac__slot_mask[f] ? backend_names[b][0] : "");
    }
    return buf;
}

/* ---- key sets ---------------------------------------------------------------------------------------------------- */

fac_keyset fac_keyset_of(fac_functionality f) { return (unsigned)f < FAC_KEY_COUNT ? fac__func_bit(f) : 0; }

fac_keyset fac_tensor_keys(const fac_tensor *t) {
    FAC_OPEN(t, "fac_tensor_keys", "t", 0);
    return t->keys;
}

/* Appends one name; false when buf is full. */
static bool add_name(char *buf, size_t size, size_t *n, fac_key key) {
    char name[40];
    int wrote = snprintf(buf + *n, size - *n, "%s%s", *n > 1 ? ", " : "", fac_key_format(key, name, sizeof name));
    if (wrote < 0 || (size_t)wrote >= size - *n) return false;
    *n += (size_t)wrote;
    return true;
}

char *fac_keyset_format(fac_keyset ks, char *buf, size_t size) {
    if (!fac__given(buf, "buffer")) return NULL;
    if (size < 3) {
        if (size) *buf = 0;
        return buf;
    }
    size_t n = 1;
    bool room = true;
    buf[0] = '{';
    for (int f = FAC_KEY_COUNT - 1; f >= 0 && room; f--) {
        if (!(ks & fac__func_bit((fac_functionality)f))) continue;
        bool spread = fac__slot_mask[f] && (ks & FAC_BACKEND_MASK);
        if (!spread) room = add_name(buf, size - 1, &n, (fac_key){(int16_t)f, FAC_ALL_BACKENDS, FAC_ALIAS_NONE});
        for (int b = FAC_BACKEND_COUNT - 1; b >= 0 && room && spread; b--)
            if (ks & fac__backend_bit((fac_backend)b))
                room = add_name(buf, size - 1, &n, (fac_key){(int16_t)f, (int16_t)b, FAC_ALIAS_NONE});
    }
    buf[n] = '}';
    buf[n + 1] = 0;
    return buf;
}

/* ---- what threads and the process add ---------------------------------------------------------------------------- */

_Atomic(fac_keyset) fac__global_keys;

/* The record that threads share when memory is out is not written. */
static fac_keyset replace(fac_thread *th, fac_keyset *set, fac_keyset ks) {
    fac_keyset before = *set;
    if (th == fac__tls) *set = ks;
    return before;
}

/* ForwardAD is not the caller's to put back: see fac__include_restore. */
fac_keyset fac_thread_include(fac_keyset ks) {
    fac_thread *th = fac__thread();
    const fac_keyset before = replace(th, &th->include, ks | (th->include & fac__func_bit(FAC_KEY_FORWARD_AD)));
    return before & ~fac__func_bit(FAC_KEY_FORWARD_AD);
}

fac_keyset fac_thread_exclude(fac_keyset ks) {
    fac_thread *th = fac__thread();
    return replace(th, &th->exclude, ks);
}

fac_keyset fac_thread_included(void) { return fac__thread()->include; }
fac_keyset fac_thread_excluded(void) { return fac__thread()->exclude; }
fac_keyset fac_global_include(fac_keyset ks) {
    return atomic_exchange_explicit(&fac__global_keys, ks, memory_order_relaxed);
}
