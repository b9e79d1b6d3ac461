/* Reading zip files, trusting none of their numbers. source: PKWARE's APPNOTE.TXT 6.3.10 */
#include "io/zip.h"
#include "base/file.h"
#include "base/inflate.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <unistd.h>

enum { LOCAL_BYTES = 30, CENTRAL_BYTES = 46, END_BYTES = 22, LOCATOR_BYTES = 20, END64_BYTES = 56 };
enum { DEFLATE_RATIO = 1032, MOST_DIRECTORY = 1 << 28 };
static const unsigned char local_magic[] = "PK\3\4", central_magic[] = "PK\1\2", end_magic[] = "PK\5\6",
                           locator_magic[] = "PK\6\7", end64_magic[] = "PK\6\6";

fac_status fac__zip_bad(const fac_zip *z, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return FAC_FAIL(FAC_ERR_FORMAT, "'%s' is not %s: %s", z->path, z->what, text);
}

static uint16_t two(const unsigned char *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t four(const unsigned char *p) { return two(p) | (uint32_t)two(p + 2) << 16; }
/* Beyond INT64_MAX: INT64_MAX, which no file has. */
static int64_t eight(const unsigned char *p) {
    const uint64_t x = four(p) | (uint64_t)four(p + 4) << 32;
    return x > INT64_MAX ? INT64_MAX : (int64_t)x;
}

static fac_status read_at(const fac_zip *z, int64_t at, void *out, size_t n) {
    if (at < 0 || at > z->file_bytes || (int64_t)n > z->file_bytes - at)
        return fac__zip_bad(z, "its directory points outside the file");
    return fac__file_read(z->fd, z->path, at, out, n);
}

/* ---- the directory -------------------------------------------------------------------------------------------------- */

typedef struct directory {
    int64_t begin, bytes, members;
} directory;

/* The end record lies in the last bytes, with a comment of up to 64 KiB behind it. */
static fac_status find_end(const fac_zip *z, int64_t *out_at, unsigned char *out_end) {
    const int64_t room = fac__min(z->file_bytes, END_BYTES + UINT16_MAX), from = z->file_bytes - room;
    if (room < END_BYTES) return fac__zip_bad(z, "it is too short");
    unsigned char *tail = fac__alloc((size_t)room);
    if (!tail) return fac_error();
    fac_status st = read_at(z, from, tail, (size_t)room);
    int64_t i = room - END_BYTES;
    while (st == FAC_OK && i >= 0 &&
           !(memcmp(tail + i, end_magic, 4) == 0 && two(tail + i + 20) == room - END_BYTES - i))
        i--;
    if (st == FAC_OK && i < 0) st = fac__zip_bad(z, "it has no directory at its end");
    if (st == FAC_OK) memcpy(out_end, tail + i, END_BYTES);
    fac__free(tail);
    *out_at = from + i;
    return st;
}

static fac_status read_end64(const fac_zip *z, int64_t end_at, directory *d) {
    unsigned char locator[LOCATOR_BYTES], end[END64_BYTES];
    FAC_TRY(read_at(z, end_at - LOCATOR_BYTES, locator, sizeof locator));
    if (memcmp(locator, locator_magic, 4) != 0) return fac__zip_bad(z, "its directory's large sizes are missing");
    FAC_TRY(read_at(z, eight(locator + 8), end, sizeof end));
    if (memcmp(end, end64_magic, 4) != 0) return fac__zip_bad(z, "its directory's large sizes are missing");
    *d = (directory){eight(end + 48), eight(end + 40), eight(end + 32)};
    return FAC_OK;
}

static fac_status find_directory(const fac_zip *z, directory *d) {
    unsigned char end[END_BYTES];
    int64_t at = 0;
    FAC_TRY(find_end(z, &at, end));
    *d = (directory){four(end + 16), four(end + 12), two(end + 10)};
    if (d->begin == UINT32_MAX || d->bytes == UINT32_MAX || d->members == UINT16_MAX) FAC_TRY(read_end64(z, at, d));
    if (d->begin > z->file_bytes || d->bytes > z->file_bytes - d->begin || d->bytes > MOST_DIRECTORY ||
        d->members > d->bytes / CENTRAL_BYTES)
        return fac__zip_bad(z, "its directory of %lld members in %lld bytes at %lld cannot be in its %lld bytes",
                            (long long)d->members, (long long)d->bytes, (long long)d->begin, (long long)z->file_bytes);
    return FAC_OK;
}

/* The extra field of large sizes: those of the three numbers that are all ones, in this order. */
static fac_status read_large(const fac_zip *z, const unsigned char *extra, size_t n, zip_member *m) {
    int64_t *const numbers[] = {&m->size, &m->bytes, &m->begin};
    while (n >= 4) {
        const size_t bytes = two(extra + 2);
        if (bytes > n - 4) break;
        if (two(extra) == 1) {
            size_t at = 4;
            for (int i = 0; i < 3; i++) {
                if (*numbers[i] != UINT32_MAX) continue;
                if (at + 8 > 4 + bytes) return fac__zip_bad(z, "a large size of '%.100s' is missing", m->name);
                *numbers[i] = eight(extra + at);
                at += 8;
            }
            return FAC_OK;
        }
        extra += 4 + bytes;
        n -= 4 + bytes;
    }
    return FAC_OK;
}

static fac_status check_member(const fac_zip *z, const zip_member *m, unsigned flags, unsigned method) {
    FAC_CHECK(!(flags & 1), FAC_ERR_UNSUPPORTED, "'%s' is encrypted", z->path);
    FAC_CHECK(method == 0 || method == 8, FAC_ERR_UNSUPPORTED,
              "member '%.100s' of '%s' is packed by method %u; only deflate (8) and none (0) are read", m->name,
              z->path, method);
    if (m->begin > z->file_bytes - LOCAL_BYTES || m->bytes > z->file_bytes - LOCAL_BYTES - m->begin)
        return fac__zip_bad(z, "member '%.100s' does not lie inside it", m->name);
    if (!m->packed && m->bytes != m->size)
        return fac__zip_bad(z, "member '%.100s' has %lld bytes, but says %lld", m->name, (long long)m->bytes,
                            (long long)m->size);
    if (m->packed && m->size / DEFLATE_RATIO > m->bytes)
        return fac__zip_bad(z, "member '%.100s' promises %lld bytes, which %lld cannot hold", m->name,
                            (long long)m->size, (long long)m->bytes);
    return FAC_OK;
}

/* One entry of the directory, of which `left` bytes are left; *out_bytes is its length. */
static fac_status read_entry(fac_zip *z, const unsigned char *p, int64_t left, int64_t *out_bytes) {
    if (left < CENTRAL_BYTES || memcmp(p, central_magic, 4) != 0)
        return fac__zip_bad(z, "entry %zu of its directory is damaged", z->members.n);
    const size_t name = two(p + 28), extra = two(p + 30), comment = two(p + 32);
    *out_bytes = (int64_t)(CENTRAL_BYTES + name + extra + comment);
    if (*out_bytes > left || memchr(p + CENTRAL_BYTES, 0, name) ||
        !fac__utf8_valid((const char *)p + CENTRAL_BYTES, name))
        return fac__zip_bad(z, "the name of entry %zu of its directory is damaged", z->members.n);
    FAC_TRY(FAC_VEC_GROW(&z->members));
    zip_member *m = &z->members.v[z->members.n];
    *m = (zip_member){.name = fac__format("%.*s", (int)name, (const char *)p + CENTRAL_BYTES),
                      .packed = two(p + 10) == 8,
                      .crc = four(p + 16),
                      .bytes = four(p + 20),
                      .size = four(p + 24),
                      .begin = four(p + 42)};
    if (!m->name) return fac_error();
    z->members.n++;
    FAC_TRY(read_large(z, p + CENTRAL_BYTES + name, extra, m));
    return check_member(z, m, two(p + 8), two(p + 10));
}

static int by_begin(const void *a, const void *b) {
    const zip_member *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Members that share bytes make a small file grow without end. */
static fac_status check_apart(fac_zip *z) {
    if (z->members.n > 1) qsort(z->members.v, z->members.n, sizeof *z->members.v, by_begin);
    for (size_t i = 0; i < z->members.n; i++) {
        zip_member *m = &z->members.v[i];
        if (i > 0 && m[-1].begin + LOCAL_BYTES + m[-1].bytes > m->begin)
            return fac__zip_bad(z, "members '%.100s' and '%.100s' overlap", m[-1].name, m->name);
        if (fac__map_get(&z->by_name, m->name)) return fac__zip_bad(z, "it has two members '%.100s'", m->name);
        FAC_TRY(fac__map_set(&z->by_name, m->name, m));
    }
    return FAC_OK;
}

static fac_status read_directory(fac_zip *z) {
    directory d;
    FAC_TRY(find_directory(z, &d));
    unsigned char *bytes = fac__alloc((size_t)d.bytes);
    if (!bytes) return fac_error();
    fac_status st = read_at(z, d.begin, bytes, (size_t)d.bytes);
    int64_t at = 0, n = 0;
    for (int64_t i = 0; i < d.members && st == FAC_OK; i++, at += n) st = read_entry(z, bytes + at, d.bytes - at, &n);
    fac__free(bytes);
    return st ? st : check_apart(z);
}

fac_status fac__zip_open(fac_zip *z, const char *path, const char *what) {
    *z = (fac_zip){.what = what, .fd = -1};
    if (!fac__given(path, "path to read")) return fac_error();
    z->path = fac__strdup(path);
    if (!z->path) return fac_error();
    FAC_TRY(fac__file_open(path, &z->fd, &z->file_bytes));
    return read_directory(z);
}

void fac__zip_close(fac_zip *z) {
    for (size_t i = 0; i < z->members.n; i++) fac__free(z->members.v[i].name);
    fac__free(z->members.v);
    fac__map_free(&z->by_name);
    if (z->fd >= 0) close(z->fd);
    fac__free(z->path);
    *z = (fac_zip){.fd = -1};
}

const zip_member *fac__zip_find(const fac_zip *z, const char *name) { return fac__map_get(&z->by_name, name); }

/* ---- a member -------------------------------------------------------------------------------------------------------- */

fac_status fac__zip_stream_open(zip_stream *s, const fac_zip *z, const zip_member *m) {
    s->zip = z;
    s->member = m;
    s->left = m->size;
    s->packed_left = m->bytes;
    s->crc = 0;
    s->inflating = false;
    unsigned char head[LOCAL_BYTES];
    FAC_TRY(read_at(z, m->begin, head, sizeof head));
    s->at = m->begin + LOCAL_BYTES + two(head + 26) + two(head + 28);
    if (memcmp(head, local_magic, 4) != 0 || s->at > z->file_bytes || m->bytes > z->file_bytes - s->at)
        return fac__zip_bad(z, "member '%.100s' does not begin where its directory says", m->name);
    if (!m->packed) return FAC_OK;
    FAC_TRY(fac__inflate_begin(&s->z, -MAX_WBITS, z->path));
    s->inflating = true;
    return FAC_OK;
}

void fac__zip_stream_close(zip_stream *s) {
    if (s->inflating) (void)inflateEnd(&s->z);
    s->inflating = false;
}

static fac_status fill(zip_stream *s) {
    const size_t n = (size_t)fac__min((int64_t)sizeof s->in, s->packed_left);
    FAC_TRY(fac__file_read(s->zip->fd, s->zip->path, s->at, s->in, n));
    s->z.next_in = s->in;
    s->z.avail_in = (unsigned)n;
    s->at += (int64_t)n;
    s->packed_left -= (int64_t)n;
    return FAC_OK;
}

static fac_status inflate_piece(zip_stream *s, unsigned char *out, size_t n) {
    s->z.next_out = out;
    s->z.avail_out = (unsigned)n;
    while (s->z.avail_out > 0) {
        if (s->z.avail_in == 0 && s->packed_left > 0) FAC_TRY(fill(s));
        const int code = inflate(&s->z, Z_NO_FLUSH);
        FAC_CHECK(code != Z_MEM_ERROR, FAC_ERR_MEMORY, "out of memory: cannot read '%s'", s->zip->path);
        if (s->z.avail_out > 0 && code != Z_OK)
            return fac__zip_bad(s->zip, "member '%.100s' is damaged", s->member->name);
    }
    return FAC_OK;
}

fac_status fac__zip_stream_read(zip_stream *s, void *out, size_t n) {
    if ((uint64_t)n > (uint64_t)s->left) return fac__zip_bad(s->zip, "member '%.100s' ends too early", s->member->name);
    if (!s->inflating) {
        FAC_TRY(fac__file_read(s->zip->fd, s->zip->path, s->at, out, n));
        s->at += (int64_t)n;
    }
    for (size_t done = 0; s->inflating && done < n;) {
        const size_t piece = n - done < 1 << 30 ? n - done : 1 << 30;
        FAC_TRY(inflate_piece(s, (unsigned char *)out + done, piece));
        done += piece;
    }
    s->crc = (uint32_t)crc32_z(s->crc, out, n);
    s->left -= (int64_t)n;
    return FAC_OK;
}

fac_status fac__zip_stream_check(const zip_stream *s) {
    if (s->left > 0) return fac__zip_bad(s->zip, "member '%.100s' goes on behind its end", s->member->name);
    if (s->crc != s->member->crc)
        return fac__zip_bad(s->zip, "member '%.100s' is damaged: its checksum should be %08x, but its bytes make %08x",
                            s->member->name, s->member->crc, s->crc);
    return FAC_OK;
}
