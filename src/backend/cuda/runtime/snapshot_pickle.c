/* Snapshots as Python pickles of protocol 2. Of the format's instructions a writer of plain data needs a dozen; strings are
   written again each time they occur. source: Python's pickletools.py */
#include "backend/cuda/runtime/snapshot_write.h"

static void op(fac_buf *out, char code) { (void)fac__buf_add(out, &code, 1); }

static void le(fac_buf *out, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) op(out, (char)(v >> (8 * i)));
}

static void string(fac_buf *out, const char *v) {
    const size_t n = strlen(v);
    op(out, 'X'); /* BINUNICODE */
    le(out, n, 4);
    (void)fac__buf_add(out, v, n);
}

static void long_integer(fac_buf *out, int64_t v) {
    if (v >= INT32_MIN && v <= INT32_MAX) {
        op(out, 'J'); /* BININT */
        le(out, (uint64_t)v, 4);
    } else {
        op(out, '\x8a'); /* LONG1, in eight bytes */
        op(out, 8);
        le(out, (uint64_t)v, 8);
    }
}

static void key(fac_buf *out, const char *name) {
    if (name) string(out, name);
}

static void open_container(void *self, const char *name, bool is_list) {
    key(self, name);
    op(self, is_list ? ']' : '}');
    op(self, '('); /* MARK: what follows up to the close goes into it at once */
}
static void close_container(void *self, bool is_list) { op(self, is_list ? 'e' : 'u'); }

static void integer(void *self, const char *name, int64_t v) {
    key(self, name);
    long_integer(self, v);
}

static void number(void *self, const char *name, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    key(self, name);
    op(self, 'G'); /* BINFLOAT, the highest byte first */
    le(self, __builtin_bswap64(bits), 8);
}

static void boolean(void *self, const char *name, bool v) {
    key(self, name);
    op(self, v ? '\x88' : '\x89');
}

static void text(void *self, const char *name, const char *v) {
    key(self, name);
    string(self, v);
}

static void pair(void *self, const char *name, int64_t a, int64_t b) {
    key(self, name);
    long_integer(self, a);
    long_integer(self, b);
    op(self, '\x86'); /* TUPLE2 */
}

fac_status fac__snapshot_pickle(const fac_memory_snapshot *s, fac_buf *out) {
    static const fac_emitter emitter = {open_container, close_container, integer, number, boolean, text, pair};
    (void)fac__buf_add(out, "\x80\x02", 2); /* PROTO 2 */
    fac__snapshot_emit(s, &emitter, out);
    op(out, '.');
    return out->failed ? FAC_ERR_MEMORY : FAC_OK;
}
