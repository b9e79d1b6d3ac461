/* An event file is a row of records: the length of the data in 8 bytes, a check sum of these in 4, the data, a check sum of it in 4.
   Numbers have their lowest byte first. The data is a message tensorflow.Event in the wire format of protocol buffers.
   source: tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto */
#include "tensorboard.h"
#include "checkpoint.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- records ---- */

/* CRC-32C, lowest bit first. */
static uint32_t crc32c(const unsigned char *p, size_t n) {
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

/* Turned and moved, so that the sum of data that has sums in it is not zero. */
static uint32_t masked(const unsigned char *p, size_t n) {
    const uint32_t crc = crc32c(p, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* A message that grows. What has no room is left out and counted, so that it is noticed. */
typedef struct message {
    unsigned char v[1024];
    size_t n;
    bool full;
} message;

static void put_bytes(message *m, const void *v, size_t n) {
    if (n > sizeof m->v - m->n) {
        m->full = true;
        return;
    }
    memcpy(m->v + m->n, v, n);
    m->n += n;
}

/* The lowest n bytes of v. */
static void put_fixed(message *m, uint64_t v, int n) {
    for (int i = 0; i < n; i++) put_bytes(m, &(unsigned char){(unsigned char)(v >> 8 * i)}, 1);
}

static void put_varint(message *m, uint64_t v) {
    for (; v >= 0x80; v >>= 7) put_bytes(m, &(unsigned char){(unsigned char)(v | 0x80)}, 1);
    put_bytes(m, &(unsigned char){(unsigned char)v}, 1);
}

/* Fields are told by their number and how they are written. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
static void put_key(message *m, unsigned field, unsigned wire) { put_varint(m, field << 3 | wire); }

static void put_field(message *m, unsigned field, const void *v, size_t n) {
    put_key(m, field, BYTES);
    put_varint(m, n);
    put_bytes(m, v, n);
}

static fac_status write_record(board *b, const message *data) {
    message head = {.n = 0}, foot = {.n = 0};
    if (data->full) return fac_error_set(FAC_ERR_ARGUMENT, "too much for one event in '%s'", b->path);
    put_fixed(&head, data->n, 8);
    put_fixed(&head, masked(head.v, 8), 4);
    put_fixed(&foot, masked(data->v, data->n), 4);
    if (fwrite(head.v, 1, head.n, b->f) == head.n && fwrite(data->v, 1, data->n, b->f) == data->n &&
        fwrite(foot.v, 1, foot.n, b->f) == foot.n)
        return FAC_OK;
    return fac_error_set(FAC_ERR_IO, "cannot write '%s': %s", b->path, strerror(errno));
}

/* ---- events ---- */

enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };

static message event_begin(int64_t step) {
    struct timespec t;
    double now;
    uint64_t bits;
    message m = {.n = 0};
    clock_gettime(CLOCK_REALTIME, &t);
    now = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    memcpy(&bits, &now, sizeof bits);
    put_key(&m, EVENT_TIME, FIXED64);
    put_fixed(&m, bits, 8);
    put_key(&m, EVENT_STEP, VARINT);
    put_varint(&m, (uint64_t)step);
    return m;
}

static fac_status put_version(board *b) {
    static const char version[] = "brain.Event:2";
    message m = event_begin(0);
    put_field(&m, EVENT_VERSION, version, sizeof version - 1);
    return write_record(b, &m);
}

/* SessionLog.status = START: what was written of this step and later ones does not count any more. */
static fac_status put_start(board *b, int64_t step) {
    static const unsigned char start[] = {1 << 3 | VARINT, 1};
    message m = event_begin(step);
    put_field(&m, EVENT_SESSION, start, sizeof start);
    return write_record(b, &m);
}

/* Summary.value has the fields tag = 1 and simple_value = 2. */
static void put_value(message *summary, const board_scalar *s) {
    message value = {.n = 0};
    const float number = (float)s->value;
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    put_field(&value, 1, s->tag, strlen(s->tag));
    put_key(&value, 2, FIXED32);
    put_fixed(&value, bits, 4);
    put_field(summary, 1, value.v, value.n);
}

fac_status board_put(board *b, int64_t step, const board_scalar *v, size_t n) {
    message summary = {.n = 0}, m;
    if (!b->f) return FAC_OK;
    for (size_t i = 0; i < n; i++)
        if (!isnan(v[i].value)) put_value(&summary, &v[i]);
    m = event_begin(step);
    put_field(&m, EVENT_SUMMARY, summary.v, summary.n);
    m.full |= summary.full;
    return write_record(b, &m);
}

/* ---- the file ---- */

/* The file's name has the time and the process in it, so that each run has one of its own. */
static fac_status make_path(board *b, const char *dir) {
    char host[80] = "host", name[160];
    gethostname(host, sizeof host - 1);
    for (char *p = host; *p; p++)
        if (*p == '/') *p = '_';
    snprintf(name, sizeof name, "events.out.tfevents.%010lld.%s.%ld", (long long)time(NULL), host, (long)getpid());
    const size_t size = strlen(dir) + sizeof name + 2;
    b->path = malloc(size);
    if (!b->path) return fac_error_set(FAC_ERR_MEMORY, "no memory for an event file in '%s'", dir);
    snprintf(b->path, size, "%s/%s", dir, name);
    return FAC_OK;
}

fac_status board_open(board *b, const char *dir, int64_t first_step) {
    size_t made;
    *b = (board){.f = NULL};
    fac_status st = run_make_dir(dir, &made);
    if (!st) st = make_path(b, dir);
    if (st) return st;
    b->f = fopen(b->path, "wbe");
    if (!b->f) return fac_error_set(FAC_ERR_IO, "cannot make '%s': %s", b->path, strerror(errno));
    st = put_version(b);
    if (!st && first_step >= 0) st = put_start(b, first_step + 1);
    return st ? st : board_flush(b);
}

fac_status board_flush(board *b) {
    if (!b->f || fflush(b->f) == 0) return FAC_OK;
    return fac_error_set(FAC_ERR_IO, "cannot write '%s': %s", b->path, strerror(errno));
}

void board_close(board *b) {
    if (b->f) fclose(b->f);
    free(b->path);
    *b = (board){.f = NULL};
}
