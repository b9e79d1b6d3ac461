/* UTF-8, one character at a time. */
#ifndef FAC_SRC_BASE_UTF8_H
#define FAC_SRC_BASE_UTF8_H

#include "base/base.h"

/* Reads the character at p (p < end) into out; returns its length in bytes, 0 if the bytes are not UTF-8: overlong forms,
   surrogates, values above U+10FFFF and cut sequences are not. */
static inline int fac__utf8_read(const char *p, const char *end, uint32_t *out) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)p;
    int n = s[0] < 0x80 ? 1 : (s[0] & 0xe0) == 0xc0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : (s[0] & 0xf8) == 0xf0 ? 4 : 0;
    if (n == 0 || end - p < n) return 0;
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (s[i] & 0x3fu);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
    *out = c;
    return n;
}

/* Writes character c (at most U+10FFFF) to out, room for 4 bytes; returns its length. */
static inline int fac__utf8_write(uint32_t c, char *out) {
    if (c < 0x80) return out[0] = (char)c, 1;
    int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((0xf00u >> n & 0xffu) | c);
    return n;
}

static inline bool fac__utf8_valid(const char *text, size_t n) {
    uint32_t c;
    for (const char *p = text, *end = text + n; p < end;) {
        int length = fac__utf8_read(p, end, &c);
        if (length == 0) return false;
        p += length;
    }
    return true;
}

#endif
