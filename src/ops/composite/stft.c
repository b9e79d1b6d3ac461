/* Short-time Fourier transforms and their inverse: frames as a strided view, a window, a transform of each frame. */
#include "ops/composite/brief.h"

static const fac_opt_num unset = {0};

/* What both are given, with defaults in place. */
typedef struct frames {
    int64_t n_fft, hop, win;
    fac_tensor *window;
    bool normalized;
} frames;

static frames frames_of(int64_t n_fft, fac_opt_int hop_length, fac_opt_int win_length, fac_tensor *window,
                        bool normalized) {
    return (frames){.n_fft = n_fft,
                    .hop = hop_length.set ? hop_length.v : n_fft / 4,
                    .win = win_length.set ? win_length.v : n_fft,
                    .window = window,
                    .normalized = normalized};
}

static bool is_complex(const fac_tensor *t) { return t && fac_dtype_is_complex((fac_dtype)t->dtype); }
static bool given_true(fac_opt_num b, bool otherwise) { return b.set ? !fac__scalar_is(b.v, 0) : otherwise; }

/* t of the last dimension `win` with zeros around it, up to n_fft. */
static fac_tensor *centred(fac_tensor *t, const frames *f) {
    const int64_t left = (f->n_fft - f->win) / 2;
    return f->win == f->n_fft ? t
                              : fac__s_constant_pad_nd(t, FAC_INTS(left, f->n_fft - f->win - left), fac_scalar_i_(0));
}
/* The window of n_fft elements; NULL if all are 1. `like` has the dtype and device of one that was not given. */
static fac_tensor *whole_window(const frames *f, fac_tensor *like, bool ones) {
    fac_tensor *w = f->window;
    if (!w && (f->win < f->n_fft || ones))
        w = fac__s_new_ones(like, FAC_INTS(f->win), FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0}, unset);
    return w ? centred(w, f) : NULL;
}

/* ---- stft ------------------------------------------------------------------------------------------------------------------ */

static fac_status check_signal(const fac_tensor *self) {
    FAC_CHECK(!fac_dtype_is_integral((fac_dtype)self->dtype, true), FAC_ERR_DTYPE,
              "expected a tensor of floating point or complex values, but got %s",
              fac_dtype_name((fac_dtype)self->dtype));
    FAC_CHECK(self->ndim == 1 || self->ndim == 2, FAC_ERR_SHAPE, "expected a 1D or 2D tensor, but got %dD", self->ndim);
    return FAC_OK;
}

static fac_status check_frames(const frames *f, int64_t length) {
    FAC_CHECK(f->n_fft > 0 && f->n_fft <= length, FAC_ERR_ARGUMENT, "expected 0 < n_fft < %lld, but got n_fft=%lld",
              (long long)length, (long long)f->n_fft);
    FAC_CHECK(f->hop > 0, FAC_ERR_ARGUMENT, "expected hop_length > 0, but got hop_length=%lld", (long long)f->hop);
    FAC_CHECK(f->win > 0 && f->win <= f->n_fft, FAC_ERR_ARGUMENT,
              "expected 0 < win_length <= n_fft, but got win_length=%lld", (long long)f->win);
    FAC_CHECK(!f->window || (f->window->ndim == 1 && f->window->sizes[0] == f->win), FAC_ERR_SHAPE,
              "expected a 1D window tensor of size equal to win_length=%lld, but got window with size %s",
              (long long)f->win, FAC_SHAPE_TEXT(f->window));
    return FAC_OK;
}

/* The signal as a batch; with zeros around it if the first window shall begin with its first element. */
static fac_status signal_of(fac_tensor *self, const frames *f, bool align, fac_tensor **out) {
    fac_tensor *t = self->ndim == 1 ? fac__s_unsqueeze(self, 0) : self;
    if (t && align && f->win > 0 && f->win <= f->n_fft) {
        const int64_t left = (f->n_fft - f->win) / 2;
        t = fac__s_constant_pad_nd(t, FAC_INTS(left, f->n_fft - f->win - left), fac_scalar_i_(0));
    }
    *out = t;
    return t ? FAC_OK : fac_error();
}

/* frames [batch, frames, n_fft] -> [batch, points, frames] */
static fac_status spectra(fac_tensor *t, const frames *f, fac_opt_num onesided, fac_tensor **out) {
    const fac_ints last = FAC_INTS(-1);
    const bool complex = is_complex(t), half = given_true(onesided, !complex);
    FAC_CHECK(!complex || !half, FAC_ERR_ARGUMENT, "Cannot have onesided output if window or input is complex");
    t = complex ? fac__s__fft_c2c(t, last, f->normalized, true) : fac__s__fft_r2c(t, last, f->normalized, half);
    *out = fac__s_transpose_int(t, 1, 2);
    return *out ? FAC_OK : fac_error();
}

static fac_status stft(fac_tensor *self, const frames *f, fac_opt_num onesided, fac_opt_num return_complex,
                       fac_opt_num align_to_window, fac_tensor **out) {
    const bool complex = is_complex(self) || is_complex(f->window);
    fac_tensor *t;
    FAC_CHECK(complex || return_complex.set, FAC_ERR_ARGUMENT,
              "stft requires the return_complex parameter be given for real inputs; it should be true");
    FAC_TRY(signal_of(self, f, given_true(align_to_window, false), &t));
    FAC_TRY(check_frames(f, t->sizes[1]));
    fac_tensor *window = whole_window(f, self, false);
    t = fac__s_unfold(t, 1, f->n_fft, f->hop);
    if (window) t = mul(t, window);
    if (!t || fac_error()) return fac_error();
    FAC_TRY(spectra(t, f, onesided, &t));
    if (self->ndim == 1) t = fac__s_squeeze_dim(t, 0);
    return fac__give(out, given_true(return_complex, complex) ? t : fac__s_view_as_real(fac__s_resolve_conj(t)));
}

fac_status stft_composite(const fac_call_info *c, fac_tensor *self, int64_t n_fft, fac_opt_int hop_length,
                          fac_opt_int win_length, fac_tensor *window, bool normalized, fac_opt_num onesided,
                          fac_opt_num return_complex, fac_opt_num align_to_window, fac_tensor **out) {
    (void)c;
    const frames f = frames_of(n_fft, hop_length, win_length, window, normalized);
    FAC_TRY(check_signal(self));
    FAC_SCOPE(s);
    return stft(self, &f, onesided, return_complex, align_to_window, out);
}

/* The signal with half a frame in front and behind. */
static fac_tensor *with_borders(fac_tensor *self, int64_t n_fft, const char *pad_mode) {
    fac_tensor *t = fac__s_unsqueeze(self->ndim == 1 ? fac__s_unsqueeze(self, 0) : self, 0);
    t = fac__s_squeeze_dim(fac__s_pad(t, FAC_INTS(n_fft / 2, n_fft / 2), pad_mode, unset), 0);
    return self->ndim == 1 ? fac__s_squeeze_dim(t, 0) : t;
}

fac_status stft_center_composite(const fac_call_info *c, fac_tensor *self, int64_t n_fft, fac_opt_int hop_length,
                                 fac_opt_int win_length, fac_tensor *window, bool center, const char *pad_mode,
                                 bool normalized, fac_opt_num onesided, fac_opt_num return_complex,
                                 fac_opt_num align_to_window, fac_tensor **out) {
    (void)c;
    const frames f = frames_of(n_fft, hop_length, win_length, window, normalized);
    FAC_TRY(check_signal(self));
    FAC_CHECK(!center || !align_to_window.set, FAC_ERR_ARGUMENT,
              "stft only supports align_to_window for center = False.");
    FAC_CHECK(n_fft > 0, FAC_ERR_ARGUMENT, "expected n_fft > 0, but got n_fft=%lld", (long long)n_fft);
    FAC_SCOPE(s);
    fac_tensor *t = center ? with_borders(self, n_fft, pad_mode) : self;
    return t ? stft(t, &f, onesided, return_complex, align_to_window, out) : fac_error();
}

/* ---- istft ------------------------------------------------------------------------------------------------------------------ */

static fac_status check_spectra(const fac_tensor *self, const frames *f, bool onesided) {
    const int64_t points = onesided ? f->n_fft / 2 + 1 : f->n_fft;
    FAC_CHECK(
        self->sizes[self->ndim - 2] == points, FAC_ERR_SHAPE,
        "expected the frequency dimension (3rd to the last) of the input tensor to match %s when onesided=%s, but got %lld",
        onesided ? "n_fft / 2 + 1" : "n_fft", onesided ? "True" : "False", (long long)self->sizes[self->ndim - 2]);
    FAC_CHECK(0 < f->hop && f->hop <= f->win, FAC_ERR_ARGUMENT, "expected 0 < hop_length <= win_length");
    FAC_CHECK(0 < f->win && f->win <= f->n_fft, FAC_ERR_ARGUMENT, "expected 0 < win_length <= n_fft");
    FAC_CHECK(!f->window || (f->window->ndim == 1 && f->window->sizes[0] == f->win), FAC_ERR_SHAPE,
              "Invalid window shape. window has to be 1D and length of `win_length`");
    return FAC_OK;
}

/* spectra [batch, frames, points] -> frames [batch, frames, n_fft] */
static fac_status frames_from(fac_tensor *t, const frames *f, bool onesided, bool return_complex, fac_tensor **out) {
    const fac_ints last = FAC_INTS(-1);
    const int64_t norm = f->normalized ? 1 : 2;
    FAC_CHECK(!return_complex || !onesided, FAC_ERR_ARGUMENT,
              "Cannot have onesided output if window or input is complex");
    FAC_CHECK(return_complex || !is_complex(f->window), FAC_ERR_ARGUMENT,
              "Complex windows are incompatible with return_complex=False");
    if (!onesided && !return_complex) t = fac__s_narrow(t, 2, 0, f->n_fft / 2 + 1);
    t = return_complex ? fac__s__fft_c2c(t, last, norm, false) : fac__s__fft_c2r(t, last, norm, f->n_fft);
    *out = t;
    return t ? FAC_OK : fac_error();
}

/* Frames laid over each other, hop apart, from `start` to `stop`. */
static fac_tensor *overlaid(fac_tensor *t, const frames *f, int64_t length, int64_t start, int64_t stop) {
    if (!t) return NULL;
    t = fac__s_unfold_backward(t, FAC_INTS(t->sizes[0], length), 1, f->n_fft, f->hop);
    return fac__s_slice_Tensor(t, 1, fac_opt_int_(start), fac_opt_int_(stop), 1);
}

/* The sum of squared windows at each element, without which the frames' sum cannot be divided. */
static fac_status envelope_of(fac_tensor *window, const frames *f, int64_t n_frames, int64_t length, int64_t start,
                              int64_t stop, fac_tensor **out) {
    bool vanishes = false;
    fac_tensor *squares = fac__s_expand(mul(window, window), FAC_INTS(1, n_frames, f->n_fft), false);
    fac_tensor *t = overlaid(squares, f, length, start, stop);
    *out = t;
    if (!t || t->numel == 0) return t ? FAC_OK : fac_error();
    fac_tensor *low = fac__s_any(fac__s_lt_Scalar(fac__s_abs(t), fac_scalar_f_(1e-11)));
    if (!low) return fac_error();
    FAC_TRY(fac__c_is_nonzero(low, &vanishes));
    FAC_CHECK(!vanishes, FAC_ERR_ARGUMENT,
              "window overlap add min: the squares of the windows that lie over an element "
              "must add up to more than 1e-11");
    return FAC_OK;
}

static fac_status istft(fac_tensor *self, const frames *f, bool center, bool onesided, fac_opt_int length,
                        bool return_complex, fac_tensor **out) {
    const int64_t n_frames = self->sizes[self->ndim - 1], start = center ? f->n_fft / 2 : 0;
    int64_t whole, stop;
    FAC_CHECK(fac__mul(f->hop, n_frames - 1, &whole) && fac__add(whole, f->n_fft, &whole), FAC_ERR_OVERFLOW,
              "the signal of %lld frames does not fit 64 bits", (long long)n_frames);
    stop = center ? whole - f->n_fft / 2 : whole;
    if (length.set)
        FAC_CHECK(length.v >= 0 && fac__add(start, length.v, &stop), FAC_ERR_ARGUMENT,
                  "expected length >= 0, but got %lld", (long long)length.v);
    fac_tensor *t = fac__s_transpose_int(self->ndim == 2 ? fac__s_unsqueeze(self, 0) : self, 1, 2), *envelope;
    if (!t) return fac_error();
    FAC_TRY(frames_from(t, f, onesided, return_complex, &t));
    fac_tensor *window = whole_window(f, t, true);
    if (!window) return fac_error();
    t = overlaid(mul(t, window), f, whole, start, stop);
    FAC_TRY(envelope_of(window, f, n_frames, whole, start, stop, &envelope));
    t = divide(t, envelope);
    if (self->ndim == 2) t = fac__s_squeeze_dim(t, 0);
    if (stop > whole) {
        fac__warn(
            "istft: the signal is shorter than `length`, and zeros follow it; center and hop_length may not be those of stft");
        t = fac__s_constant_pad_nd(t, FAC_INTS(0, stop - whole), fac_scalar_i_(0));
    }
    return fac__give(out, t);
}

fac_status istft_composite(const fac_call_info *c, fac_tensor *self, int64_t n_fft, fac_opt_int hop_length,
                           fac_opt_int win_length, fac_tensor *window, bool center, bool normalized,
                           fac_opt_num onesided, fac_opt_int length, bool return_complex, fac_tensor **out) {
    (void)c;
    const frames f = frames_of(n_fft, hop_length, win_length, window, normalized);
    FAC_CHECK(is_complex(self), FAC_ERR_DTYPE,
              "istft requires a complex-valued input tensor matching the output from stft with return_complex=True.");
    FAC_CHECK(self->ndim == 2 || self->ndim == 3, FAC_ERR_SHAPE,
              "expected a complex tensor with 2 or 3 dimensions, but got %d", self->ndim);
    FAC_CHECK(self->numel > 0, FAC_ERR_SHAPE, "input tensor cannot be empty.");
    FAC_CHECK(n_fft > 0, FAC_ERR_ARGUMENT, "expected n_fft > 0, but got n_fft=%lld", (long long)n_fft);
    const bool half = given_true(onesided, self->sizes[self->ndim - 2] != n_fft);
    FAC_TRY(check_spectra(self, &f, half));
    FAC_SCOPE(s);
    return istft(self, &f, center, half, length, return_complex, out);
}
