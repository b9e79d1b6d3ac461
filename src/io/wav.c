/* WAV files: RIFF chunks, of which "fmt " says how sound is written and "data" has it. */
#include "base/file.h"
#include "core/handle.h"
#include "core/tensor_make.h"
#include "io/npy.h"
#include <facula/files.h>
#include <facula/ops.h>
#include <unistd.h>

enum { PCM = 1, FLOATS = 3, EXTENSIBLE = 0xfffe, MOST_CHANNELS = 1024 };

typedef struct wav {
    const char *path;
    int fd;
    int64_t bytes; /* of the file */
    int format, channels, bits;
    int64_t rate;
    int64_t begin, size; /* of the sound */
} wav;

static uint32_t number(const unsigned char *p, int n) {
    uint32_t x = 0;
    for (int i = 0; i < n; i++) x |= (uint32_t)p[i] << 8 * i;
    return x;
}

static fac_status bad(const wav *w, const char *why) {
    return FAC_FAIL(FAC_ERR_FORMAT, "'%s' is not a whole WAV file: %s", w->path, why);
}

static fac_status read_format(wav *w, int64_t at, int64_t size) {
    unsigned char f[40] = {0};
    if (size < 16) return bad(w, "its format is too short");
    FAC_TRY(fac__file_read(w->fd, w->path, at, f, (size_t)fac__min(size, (int64_t)sizeof f)));
    w->format = (int)number(f, 2);
    w->channels = (int)number(f + 2, 2);
    w->rate = number(f + 4, 4);
    w->bits = (int)number(f + 14, 2);
    if (w->format == EXTENSIBLE && size >= 40) w->format = (int)number(f + 24, 2);
    const bool whole = w->format == PCM && (w->bits == 8 || w->bits == 16 || w->bits == 24 || w->bits == 32);
    const bool real = w->format == FLOATS && (w->bits == 32 || w->bits == 64);
    FAC_CHECK(
        whole || real, FAC_ERR_UNSUPPORTED,
        "'%s' holds sound of format %d with %d bits; whole numbers of 8, 16, 24 or 32 bits (1) and floats of 32 or 64 (3) "
        "are read",
        w->path, w->format, w->bits);
    if (w->channels < 1 || w->channels > MOST_CHANNELS || w->rate < 1 ||
        number(f + 12, 2) != (uint32_t)(w->channels * w->bits / 8))
        return bad(w, "its format contradicts itself");
    return FAC_OK;
}

/* The chunks up to the sound. */
static fac_status read_chunks(wav *w) {
    unsigned char head[12];
    if (w->bytes < (int64_t)sizeof head) return bad(w, "it is too short");
    FAC_TRY(fac__file_read(w->fd, w->path, 0, head, sizeof head));
    if (memcmp(head, "RIFF", 4) != 0 || memcmp(head + 8, "WAVE", 4) != 0) return bad(w, "it does not begin as one");
    for (int64_t at = 12; w->bytes - at >= 8;) {
        FAC_TRY(fac__file_read(w->fd, w->path, at, head, 8));
        const int64_t size = number(head + 4, 4);
        at += 8;
        if (size > w->bytes - at) return bad(w, "a chunk ends behind it");
        if (memcmp(head, "fmt ", 4) == 0) FAC_TRY(read_format(w, at, size));
        if (memcmp(head, "data", 4) == 0) {
            w->begin = at;
            w->size = size;
            return w->channels ? FAC_OK : bad(w, "it has no format before its sound");
        }
        at += size + size % 2;
    }
    return bad(w, "it has no sound");
}

/* Sample i of a block of bytes, whole numbers between -1 and 1. */
static float sample(const wav *w, const unsigned char *p) {
    if (w->format == FLOATS) {
        double d;
        float f;
        memcpy(&d, p, w->bits == 64 ? sizeof d : 0);
        memcpy(&f, p, w->bits == 32 ? sizeof f : 0);
        return w->bits == 64 ? (float)d : f;
    }
    if (w->bits == 8) return (float)(*p - 128) / 128;
    const int32_t x = (int32_t)(number(p, w->bits / 8) << (32 - w->bits)); /* its sign is the highest bit */
    return (float)x / 2147483648.0f;
}

static fac_status read_sound(wav *w, float *out, int64_t frames) {
    enum { ROOM = 1 << 16 };
    const size_t frame = (size_t)(w->channels * w->bits / 8);
    unsigned char *room = fac__alloc(ROOM);
    if (!room) return fac_error();
    const int64_t some = (int64_t)(ROOM / frame);
    fac_status st = FAC_OK;
    for (int64_t i = 0; i < frames && st == FAC_OK; i += some) {
        const int64_t n = fac__min(some, frames - i);
        st = fac__file_read(w->fd, w->path, w->begin + i * (int64_t)frame, room, (size_t)n * frame);
        for (int64_t k = 0; k < n && st == FAC_OK; k++)
            for (int c = 0; c < w->channels; c++)
                out[c * frames + i + k] = sample(w, room + (size_t)k * frame + (size_t)(c * w->bits / 8));
    }
    fac__free(room);
    return st;
}

static fac_status read_wav(wav *w, fac_tensor **out) {
    FAC_TRY(read_chunks(w));
    const int64_t frame = w->channels * w->bits / 8, frames = w->size / frame;
    if (w->size % frame != 0) return bad(w, "its sound ends within a sample");
    FAC_TRY(fac__empty((int64_t[]){w->channels, frames}, 2, FAC_F32, fac_device_make(FAC_CPU, -1), out));
    const fac_status st = frames ? read_sound(w, fac__data(*out), frames) : FAC_OK;
    if (st) fac__unref(*out);
    return st;
}

fac_tensor *fac_wav_read(const char *path, int64_t *out_rate) {
    if (fac_error() || !fac__given(path, "path to read") || !fac__given(out_rate, "place for the rate")) return NULL;
    wav w = {.path = path};
    fac_tensor *t = NULL;
    FAC_TRY_NULL(fac__file_open(path, &w.fd, &w.bytes));
    const fac_status st = read_wav(&w, &t);
    close(w.fd);
    if (st) return NULL;
    *out_rate = w.rate;
    return fac__adopt_handle(fac__thread(), t);
}

static void put(unsigned char *p, int n, uint32_t x) {
    for (int i = 0; i < n; i++) p[i] = (unsigned char)(x >> 8 * i);
}

static fac_status write_wav(const char *path, fac_tensor *handle, int64_t rate) {
    FAC_SCOPE(s);
    fac_tensor *turned = fac_contiguous(fac_t(fac_to_dtype(handle, FAC_F32)));
    if (!turned) return fac_error();
    fac_tensor *t = fac__header(turned);
    const int64_t channels = t->sizes[1], bytes = t->numel * 4;
    FAC_CHECK(channels > 0 && channels <= MOST_CHANNELS, FAC_ERR_SHAPE, "there are %lld channels; 1 to %d are possible",
              (long long)channels, MOST_CHANNELS);
    FAC_CHECK(bytes < (int64_t)UINT32_MAX - 64 && rate * channels * 4 <= UINT32_MAX, FAC_ERR_OVERFLOW,
              "%lld bytes of sound at %lld samples a second are too much for a WAV file", (long long)bytes,
              (long long)rate);
    unsigned char head[44] = "RIFF....WAVEfmt ";
    put(head + 4, 4, (uint32_t)bytes + 36);
    put(head + 16, 4, 16);
    put(head + 20, 2, FLOATS);
    put(head + 22, 2, (uint32_t)channels);
    put(head + 24, 4, (uint32_t)rate);
    put(head + 28, 4, (uint32_t)(rate * channels * 4));
    put(head + 32, 2, (uint32_t)channels * 4);
    put(head + 34, 2, 32);
    memcpy(head + 36, "data", 4);
    put(head + 40, 4, (uint32_t)bytes);
    const void *from;
    void *copy;
    size_t n;
    FAC_TRY(fac__elements_in_order(t, &from, &n, &copy));
    fac_new_file f = FAC_NEW_FILE;
    fac_status st = fac__new_file_open(&f, path, 0666);
    if (st == FAC_OK) st = fac__new_file_write(&f, head, sizeof head);
    if (st == FAC_OK && n > 0) st = fac__new_file_write(&f, from, n);
    if (st == FAC_OK) st = fac__new_file_commit(&f);
    fac__new_file_close(&f);
    fac__free(copy);
    return st;
}

fac_status fac_wav_write(const char *path, fac_tensor *handle, int64_t rate) {
    if (fac_error()) return fac_error();
    if (!fac__given(path, "path to write to")) return fac_error();
    const fac_tensor *t = fac__open(handle, "wav_write", "t");
    if (!t) return fac_error();
    FAC_CHECK(t->ndim == 2, FAC_ERR_SHAPE, "sound is [channels, samples], but the tensor has %d dimensions", t->ndim);
    FAC_CHECK(fac_dtype_is_floating((fac_dtype)t->dtype), FAC_ERR_DTYPE, "sound is floating, but the tensor is %s",
              fac_dtype_name((fac_dtype)t->dtype));
    FAC_CHECK(rate >= 1 && rate <= INT32_MAX, FAC_ERR_ARGUMENT, "the rate is %lld; 1 to 2^31 - 1 are possible",
              (long long)rate);
    return write_wav(path, handle, rate);
}
