/* Fourier transforms on CUDA devices, against the CPU's, and the plans that each device keeps. The simulated cuFFT is code of its
   own: it shares nothing with the CPU's transforms. */
#include "support/cuda.h"

#include "backend/cuda/runtime/fft.h"
#include "base/sanitizers.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

static fac_tensor *on_cuda(fac_tensor *t) { return fac_to(t, .device = cuda_device(0)); }

/* Equal dtypes and sizes, and elements that differ by no more than `tolerance` of the largest. */
static void expect_near(const char *what, fac_tensor *there, fac_tensor *here, double tolerance) {
    assert_no_error();
    assert_true(there && here);
    assert_int_equal(fac_tensor_device(there).type, FAC_CUDA);
    assert_int_equal(fac_tensor_dtype(there), fac_tensor_dtype(here));
    assert_true(fac__same_sizes(fac__header(there), fac__header(here)));
    if (fac_tensor_numel(here) == 0) return;
    fac_tensor *back = fac_to(there, .device = fac_device_make(FAC_CPU, -1));
    const double off = fac_item(fac_amax(fac_abs(fac_sub(back, here)))), most = fac_item(fac_amax(fac_abs(here)));
    assert_no_error();
    if (!(off <= tolerance * most)) fail_msg("%s is off by %g of %g", what, off, most);
}

static double tolerance_of(fac_dtype d) { return d == FAC_F64 || d == FAC_C128 ? 1e-13 : 2e-6; }

/* ---- all transforms ---------------------------------------------------------------------------------------------------------- */

typedef fac_tensor *line_fn(fac_tensor *x, fac_opt_int n, int64_t dim, const char *norm);
typedef fac_tensor *box_fn(fac_tensor *x, fac_ints s, fac_ints dims, const char *norm);
#define OF_LINE(name)                                                                      \
    static fac_tensor *name(fac_tensor *x, fac_opt_int n, int64_t dim, const char *norm) { \
        return n.set ? fac_fft_##name(x, .n = n.v, .dim = dim, .norm = norm)               \
                     : fac_fft_##name(x, .dim = dim, .norm = norm);                        \
    }
#define OF_BOX(name)                                                                      \
    static fac_tensor *name(fac_tensor *x, fac_ints s, fac_ints dims, const char *norm) { \
        return s.v ? fac_fft_##name(x, .ss = s, .dims = dims, .norm = norm)               \
                   : fac_fft_##name(x, .dims = dims, .norm = norm);                       \
    }
OF_LINE(fft)
OF_LINE(ifft)
OF_LINE(rfft)
OF_LINE(irfft)
OF_LINE(hfft)
OF_LINE(ihfft)
OF_BOX(fftn)
OF_BOX(ifftn)
OF_BOX(rfftn)
OF_BOX(irfftn)
OF_BOX(hfftn)
OF_BOX(ihfftn)
OF_BOX(fft2)
OF_BOX(ifft2)
OF_BOX(rfft2)
OF_BOX(irfft2)
OF_BOX(hfft2)
OF_BOX(ihfft2)

static const struct {
    const char *name;
    line_fn *fn;
    bool real;
} lines[] = {{"fft", fft, false},
             {"ifft", ifft, false},
             {"rfft", rfft, true},
             {"irfft", irfft, false},
             {"hfft", hfft, false},
             {"ihfft", ihfft, true},
             {"fft of real numbers", fft, true},
             {"ifft of real numbers", ifft, true}};
static const struct {
    const char *name;
    box_fn *fn;
    bool real, two;
} boxes[] = {{"fftn", fftn, false, false},
             {"ifftn", ifftn, false, false},
             {"rfftn", rfftn, true, false},
             {"irfftn", irfftn, false, false},
             {"hfftn", hfftn, false, false},
             {"ihfftn", ihfftn, true, false},
             {"fft2", fft2, false, true},
             {"ifft2", ifft2, false, true},
             {"rfft2", rfft2, true, true},
             {"irfft2", irfft2, false, true},
             {"hfft2", hfft2, false, true},
             {"ihfft2", ihfft2, true, true},
             {"fftn of real numbers", fftn, true, false}};
static const char *const norms[] = {NULL, "forward", "ortho"};

static fac_tensor *input(fac_ints sizes, bool real, bool wide) {
    return fac_randn(sizes, .dtype = real ? wide ? FAC_F64 : FAC_F32 : wide ? FAC_C128 : FAC_C64);
}

static void expect_line(size_t i, fac_tensor *x, fac_opt_int n, int64_t dim, const char *norm) {
    FAC_SCOPE(s);
    expect_near(lines[i].name, lines[i].fn(on_cuda(x), n, dim, norm), lines[i].fn(x, n, dim, norm),
                tolerance_of(fac_tensor_dtype(x)));
}

static void S239_cuda_transforms_of_one_dimension_agree_with_the_cpu(void **state) {
    (void)state;
    support_need_devices(1);
    const int64_t lengths[] = {1, 2, 3, 8, 15, 16, 37, 100};
    for (size_t i = 0; i < FAC_COUNT(lines); i++)
        for (int wide = 0; wide < 2; wide++)
            for (size_t l = 0; l < FAC_COUNT(lengths); l++) {
                FAC_SCOPE(s);
                fac_tensor *x = input(FAC_INTS(3, lengths[l]), lines[i].real, wide);
                if (lengths[l] > 1) expect_line(i, x, (fac_opt_int){0}, -1, norms[l % 3]);
                expect_line(i, x, (fac_opt_int){.set = true, .v = 1 + 7 * (int64_t)l % 11}, 1, norms[wide]);
                expect_line(i, x, (fac_opt_int){.set = true, .v = 5}, 0, norms[2]);
            }
}

static void S239_cuda_transforms_of_several_dimensions_agree_with_the_cpu(void **state) {
    (void)state;
    support_need_devices(1);
    for (size_t i = 0; i < FAC_COUNT(boxes); i++)
        for (int n = 0; n < 3; n++) {
            FAC_SCOPE(s);
            const bool wide = (i + (size_t)n) % 2;
            fac_tensor *x = input(FAC_INTS(4, 5, 2, 6, 3), boxes[i].real, wide), *there = on_cuda(x);
            const double tolerance = tolerance_of(fac_tensor_dtype(x));
            const fac_ints dims[] = {FAC_INTS(0, 1, 2, 3, 4), FAC_INTS(3, 0, -1, 1), FAC_INTS(4, 1), FAC_INTS(1, 0)};
            for (size_t d = boxes[i].two ? 2 : 0; d < FAC_COUNT(dims); d++)
                expect_near(boxes[i].name, boxes[i].fn(there, (fac_ints){0}, dims[d], norms[n]),
                            boxes[i].fn(x, (fac_ints){0}, dims[d], norms[n]), tolerance);
            expect_near(boxes[i].name, boxes[i].fn(there, FAC_INTS(7, 4), FAC_INTS(1, 3), norms[n]),
                        boxes[i].fn(x, FAC_INTS(7, 4), FAC_INTS(1, 3), norms[n]), tolerance);
        }
}

/* ---- layouts ------------------------------------------------------------------------------------------------------------------ */

static void S239_cuda_transforms_read_and_write_any_layout(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *x = input(FAC_INTS(6, 5, 8), false, true), *there = on_cuda(x);
    expect_near("transposed", fac_fft_fft(fac_transpose(there, 0, 2)), fac_fft_fft(fac_transpose(x, 0, 2)), 1e-13);
    expect_near("with gaps", fac_fft_fft2(fac_slice(there, 2, .step = 2)), fac_fft_fft2(fac_slice(x, 2, .step = 2)),
                1e-13);
    expect_near("conjugate", fac_fft_ifft(fac_conj(there)), fac_fft_ifft(fac_conj(x)), 1e-13);
    expect_near("repeated", fac_fft_fft(fac_expand(fac_narrow(there, 0, 0, 1), FAC_INTS(3, -1, -1))),
                fac_fft_fft(fac_expand(fac_narrow(x, 0, 0, 1), FAC_INTS(3, -1, -1))), 1e-13);
    expect_near("real part", fac_fft_rfft(fac_real(there), .dim = 1), fac_fft_rfft(fac_real(x), .dim = 1), 1e-13);
    fac_tensor *out = fac_select(fac_zeros(FAC_SHAPE(6, 5, 8, 2), .dtype = FAC_C128, .device = cuda_device(0)), 3, 1);
    assert_non_null(fac_fft_fft_out(out, there, .dim = 1));
    expect_near("into gaps", out, fac_fft_fft(x, .dim = 1), 1e-13);
    fac_tensor *real_out =
        fac_select(fac_zeros(FAC_SHAPE(6, 5, 14, 2), .device = cuda_device(0), .dtype = FAC_F64), 3, 0);
    assert_non_null(fac_fft_irfft_out(real_out, there));
    expect_near("real into gaps", real_out, fac_fft_irfft(x), 1e-13);
    assert_non_null(fac_fft_fftn_out(there, there));
    expect_near("over itself", there, fac_fft_fftn(x), 1e-13);
}

/* What is its own mirror image may have any imaginary part, and the input stays what it was, though cuFFT spoils its own. */
static void S239_cuda_transforms_to_real_numbers_leave_their_input(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    for (int64_t n = 6; n <= 7; n++) {
        fac_tensor *x = input(FAC_INTS(3, 4), false, false), *there = on_cuda(x);
        expect_near("irfft", fac_fft_irfft(there, .n = n), fac_fft_irfft(x, .n = n), 2e-6);
        expect_near("the input", there, x, 0);
        expect_near("irfft2", fac_fft_irfft2(there, .ss = FAC_INTS(3, n)), fac_fft_irfft2(x, .ss = FAC_INTS(3, n)),
                    2e-6);
        expect_near("the input", there, x, 0);
    }
}

static void S239_cuda_transforms_without_elements(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *none = fac_zeros(FAC_SHAPE(0, 4)), *number = fac_fft_fftn(on_cuda(fac_squeeze(fac_tensor_of(2))));
    expect_near("no lines", fac_fft_fft(on_cuda(none)), fac_fft_fft(none), 0);
    expect_near("a number", number, fac_fft_fftn(fac_squeeze(fac_tensor_of(2))), 0);
    assert_int_equal(fac_cuda_fft_plan_cache_size(0), 0);
}

/* ---- gradients ---------------------------------------------------------------------------------------------------------------- */

static fac_tensor *by_rfft(fac_tensor *x) { return fac_view_as_real(fac_fft_rfft2(x, .norm = "ortho")); }
static fac_tensor *by_fft(fac_tensor *x) { return fac_view_as_real(fac_fft_fft(x)); }
static fac_tensor *by_irfft(fac_tensor *x) {
    return fac_fft_irfft(fac_view_as_complex(fac_view(x, FAC_INTS(4, 3, 2))));
}
static fac_tensor *by_irfftn(fac_tensor *x) {
    return fac_fft_irfftn(fac_view_as_complex(fac_view(x, FAC_INTS(4, 3, 2))), .ss = FAC_INTS(4, 5));
}
static fac_tensor *by_ifftn(fac_tensor *x) {
    return fac_view_as_real(fac_fft_ifftn(fac_view_as_complex(fac_view(x, FAC_INTS(4, 3, 2)))));
}

/* The gradient of a weighted sum, on a device. */
static fac_tensor *gradient(fac_tensor *(*fn)(fac_tensor *), fac_tensor *x, fac_device d) {
    fac_tensor *leaf = fac_set_requires_grad(fac_to(fac_clone(x), .device = d), true), *y = fn(leaf);
    const fac_ints sizes = fac_tensor_sizes(y);
    fac_tensor *n = fac_arange(FAC_SCALAR((double)fac_tensor_numel(y)), .dtype = FAC_F64, .device = d),
               *weight = fac_reshape(n, sizes);
    assert_ok(fac_backward(fac_sum(fac_mul(fac_mul(y, y), weight))));
    return fac_grad_of(leaf);
}

static void S239_cuda_transforms_have_gradients(void **state) {
    (void)state;
    support_need_devices(1);
    fac_tensor *(*const fns[])(fac_tensor *) = {by_rfft, by_fft, by_irfft, by_irfftn, by_ifftn};
    for (size_t i = 0; i < FAC_COUNT(fns); i++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_randn(FAC_INTS(4, 6), .dtype = FAC_F64);
        expect_near("a gradient", gradient(fns[i], x, cuda_device(0)),
                    gradient(fns[i], x, fac_device_make(FAC_CPU, -1)), 1e-12);
    }
}

/* ---- streams and threads ------------------------------------------------------------------------------------------------------ */

/* Two streams use one plan at once: each transform has a work area of its own, and its own stream's order. */
static void S240_streams_share_a_plan(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_stream side[2] = {fac_stream_new(cuda_device(0), 0), fac_stream_new(cuda_device(0), 0)};
    fac_tensor *x[2], *y[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        FAC_STREAM_SCOPE(on, side[i]);
        x[i] = input(FAC_INTS(4, 30), false, false);
        y[i] = on_cuda(x[i]);
    }
    for (int i = 0; i < 6; i++) {
        FAC_STREAM_SCOPE(on, side[i % 2]);
        y[i % 2] = fac_fft_fft(y[i % 2]);
        x[i % 2] = fac_fft_fft(x[i % 2]);
    }
    for (int i = 0; i < 2; i++) assert_ok(fac_stream_synchronize(side[i]));
    for (int i = 0; i < 2; i++) expect_near("three transforms", y[i], x[i], 1e-5);
    assert_int_equal(fac_cuda_fft_plan_cache_size(0), 1);
}

enum { THREADS = 4, TIMES = 20 };

static void *transform_often(void *failed) {
    for (int i = 0; i < TIMES; i++) {
        FAC_SCOPE(s);
        fac_tensor *x = input(FAC_INTS(3, 4 + i % 5), false, false);
        fac_tensor *back = fac_to(fac_fft_ifft(fac_fft_fft(on_cuda(x))), .device = fac_device_make(FAC_CPU, -1));
        if (!back || !(fac_item(fac_amax(fac_abs(fac_sub(back, x)))) < 1e-5)) *(bool *)failed = true;
    }
    if (fac_error() != FAC_OK) *(bool *)failed = true;
    fac_error_clear();
    return NULL;
}

/* More plans than are kept, so that they go while others use them. */
static void S240_threads_share_plans(void **state) {
    (void)state;
    support_need_devices(1);
    pthread_t t[THREADS];
    bool failed[THREADS] = {false};
    assert_ok(fac_cuda_fft_plan_cache_set_max_size(0, 3));
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&t[i], NULL, transform_often, &failed[i]), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < THREADS; i++) assert_false(failed[i]);
    assert_in_range(fac_cuda_fft_plan_cache_size(0), 1, 3);
    assert_ok(fac_cuda_fft_plan_cache_set_max_size(0, FAC_CUDA_FFT_PLANS));
}

/* ---- the cache of plans -------------------------------------------------------------------------------------------------------- */

static void transform_of(int64_t n, int device) {
    FAC_SCOPE(s);
    assert_non_null(fac_fft_fft(fac_zeros(FAC_SHAPE(n), .dtype = FAC_C64, .device = cuda_device(device))));
    assert_no_error();
}

/* Whether a transform finds its plan. */
static bool finds(int64_t n) {
    const int64_t before = support_sim_count("transforms made");
    transform_of(n, 0);
    return support_sim_count("transforms made") == before;
}

static void S240_a_plan_is_kept_for_each_geometry_and_dtype(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    assert_int_equal(fac_cuda_fft_plan_cache_max_size(0), 4096);
    assert_int_equal(fac_cuda_fft_plan_cache_size(0), 0);
    fac_tensor *x = fac_zeros(FAC_SHAPE(4, 6), .dtype = FAC_C64, .device = cuda_device(0));
    fac_tensor *made[] = {fac_fft_fft(x), fac_fft_fft(x), fac_fft_ifft(x), fac_fft_fft(fac_narrow(x, 1, 0, 6))};
    for (size_t i = 0; i < FAC_COUNT(made); i++) assert_non_null(made[i]);
    assert_int_equal(fac_cuda_fft_plan_cache_size(0), 1); /* for both directions */
    fac_tensor *others[] = {fac_fft_fft(x, .dim = 0),
                            fac_fft_fft2(x),
                            fac_fft_fft(fac_narrow(x, 0, 0, 3)),
                            fac_fft_fft(fac_to_dtype(x, FAC_C128)),
                            fac_fft_irfft(x, .n = 6),
                            fac_fft_irfft(x, .n = 7),
                            fac_fft_rfft(fac_real(x)),
                            fac_fft_fft(fac_real(x))};
    for (size_t i = 0; i < FAC_COUNT(others); i++) assert_non_null(others[i]);
    assert_int_equal(fac_cuda_fft_plan_cache_size(0), 8); /* the last two share theirs */
}

static void S240_the_plan_unused_for_longest_goes(void **state) {
    (void)state;
    support_need_devices(1);
    support_need_simulator();
    assert_ok(fac_cuda_fft_plan_cache_set_max_size(0, 3));
    assert_int_equal(fac_cuda_fft_plan_cache_max_size(0), 3);
    for (int64_t n = 2; n <= 4; n++) assert_false(finds(n));
    assert_true(finds(2));  /* 3, 4, 2 */
    assert_false(finds(5)); /* 4, 2, 5 */
    assert_int_equal(fac_cuda_fft_plan_cache_size(0), 3);
    assert_int_equal(support_sim_count("transforms"), 3);
    assert_true(finds(2) && finds(4) && finds(5));
    assert_false(finds(3)); /* 4, 5, 3 */
    assert_ok(fac_cuda_fft_plan_cache_set_max_size(0, 2));
    assert_int_equal(fac_cuda_fft_plan_cache_size(0), 2);
    assert_true(finds(5) && finds(3));
    assert_ok(fac_cuda_fft_plan_cache_set_max_size(0, 0));
    assert_int_equal(support_sim_count("transforms"), 0);
    assert_false(finds(3) || finds(3));
    assert_int_equal(fac_cuda_fft_plan_cache_size(0), 0);
    assert_int_equal(support_sim_count("transforms"), 0);
    assert_ok(fac_cuda_fft_plan_cache_set_max_size(0, FAC_CUDA_FFT_PLANS));
}

static void S240_each_device_has_a_cache_of_its_own(void **state) {
    (void)state;
    support_need_devices(2);
    for (int64_t n = 2; n <= 5; n++) transform_of(n, 0);
    for (int64_t n = 2; n <= 3; n++) transform_of(n, 1);
    assert_ok(fac_cuda_fft_plan_cache_set_max_size(1, 7));
    assert_int_equal(fac_cuda_fft_plan_cache_max_size(0), 4096);
    assert_int_equal(fac_cuda_fft_plan_cache_max_size(1), 7);
    assert_int_equal(fac_cuda_fft_plan_cache_size(0), 4);
    assert_int_equal(fac_cuda_fft_plan_cache_size(1), 2);
    {
        FAC_DEVICE_SCOPE(on, cuda_device(1));
        assert_int_equal(fac_cuda_fft_plan_cache_size(-1), 2);
    }
    assert_ok(fac_cuda_fft_plan_cache_clear(0));
    assert_int_equal(fac_cuda_fft_plan_cache_size(0), 0);
    assert_int_equal(fac_cuda_fft_plan_cache_size(1), 2);
    assert_ok(fac_cuda_fft_plan_cache_set_max_size(1, FAC_CUDA_FFT_PLANS));
    transform_of(2, 0);
}

static void S240_a_maximum_or_device_that_cannot_be_is_an_error(void **state) {
    (void)state;
    support_need_devices(1);
    assert_int_equal(fac_cuda_fft_plan_cache_set_max_size(0, -1), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "-1");
    assert_int_equal(fac_cuda_fft_plan_cache_max_size(0), 4096);
    assert_int_equal(fac_cuda_fft_plan_cache_size(77), 0);
    assert_error(FAC_ERR_DEVICE, "cuda:77");
    assert_int_equal(fac_cuda_fft_plan_cache_max_size(-2), 0);
    assert_error(FAC_ERR_DEVICE, "cuda:-2");
    assert_int_equal(fac_cuda_fft_plan_cache_clear(77), FAC_ERR_DEVICE);
    assert_error(FAC_ERR_DEVICE, "cuda:77");
}

/* A graph that was captured reads the memory of its plan, so that plan stays alive. */
static void S240_a_captured_plan_outlives_its_place_in_the_cache(void **state) {
    (void)state;
    support_need_devices(1);
    support_need_simulator();
    support_need_no_checker();
#if FAC_UNDER_ASAN
    print_message(
        "skipped: the driver's own capture has no pool of memory, and sanitizers see replays in a freed work area\n");
    skip();
#endif
    FAC_SCOPE(s);
    fac_stream side = fac_stream_new(cuda_device(0), 0);
    FAC_STREAM_SCOPE(on, side);
    CUstream stream = fac__cuda_stream(0);
    CUgraph graph;
    CUgraphExec exec;
    fac_tensor *host = input(FAC_INTS(5, 12), false, false), *x = on_cuda(host), *y = fac_fft_fft(x);
    assert_ok(fac_stream_synchronize(side));
    assert_int_equal(fac__cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
    assert_non_null(fac_fft_fft_out(y, x));
    assert_int_equal(fac__cu.cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    assert_int_equal(fac__cu.cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    assert_ok(fac_cuda_fft_plan_cache_clear(0));
    assert_int_equal(fac_cuda_fft_plan_cache_size(0), 0);
    assert_int_equal(support_sim_count("transforms"), 1);
    assert_non_null(fac_zero_(y));
    assert_int_equal(fac__cu.cuGraphLaunch(exec, stream), CUDA_SUCCESS);
    expect_near("a replayed transform", y, fac_fft_fft(host), 2e-6);
    assert_int_equal(fac__cu.cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(fac__cu.cuGraphDestroy(graph), CUDA_SUCCESS);
}

/* ---- what can fail -------------------------------------------------------------------------------------------------------------- */

static void S239_cuda_transforms_refuse_what_the_cpu_refuses(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *x = on_cuda(fac_tensor_of(1, 2, 3));
    assert_null(fac_fft_fft(fac_to_dtype(x, FAC_F16)));
    assert_error(FAC_ERR_DTYPE, "Unsupported dtype");
    assert_null(fac_fft_rfft(x, .norm = "sideways"));
    assert_error(FAC_ERR_ARGUMENT, "sideways");
    assert_null(fac_fft_fft(x, .dim = 1));
    fac_error_clear();
    assert_null(fac_fft_fft(x, .n = 0));
    assert_error(FAC_ERR_ARGUMENT, "(0)");
}

/* cuFFT may lack memory that the allocator holds: that is given back, and the plan made. */
static void S240_a_plan_without_memory_is_tried_again(void **state) {
    (void)state;
    support_need_devices(1);
    support_need_simulator();
    FAC_SCOPE(s);
    fac_tensor *host = input(FAC_INTS(40), false, false), *x = on_cuda(host), *y;
    transform_of(40, 0); /* the work area's segment is there */
    assert_ok(fac_cuda_fft_plan_cache_clear(0));
    support_sim_set("oom=1");
    y = fac_fft_fft(x);
    support_sim_set("oom=0");
    expect_near("the second try", y, fac_fft_fft(host), 2e-6);
}

static void expect_refused(const char *option, fac_status code, const char *text) {
    FAC_SCOPE(s);
    fac_tensor *x = fac_zeros(FAC_SHAPE(3, 4, 6), .device = cuda_device(0));
    support_sim_set(option);
    assert_null(fac_fft_rfftn(x, .dims = FAC_INTS(1, 2)));
    assert_error(code, text);
    assert_int_equal(fac_cuda_fft_plan_cache_size(0), 0);
    assert_int_equal(support_sim_count("transforms"), 0);
}

static void S240_what_cufft_refuses_is_named(void **state) {
    (void)state;
    support_need_devices(1);
    support_need_simulator();
    expect_refused("cufft=8", FAC_ERR_UNSUPPORTED,
                   "cufftXtMakePlanMany of 3 transforms from real numbers of 4 x 6 points in "
                   "float32 on cuda:0: CUFFT_INVALID_SIZE (8)");
    expect_refused("cufft=5", FAC_ERR_DEVICE, "CUFFT_INTERNAL_ERROR (5)");
    expect_refused("cufft=77", FAC_ERR_DEVICE, "(77)");
}

static void expect_unusable(const char *library, const char *text) {
    support_restart_with("FACULA_CUFFT_LIBRARY", library);
    FAC_SCOPE(s);
    fac_tensor *x = on_cuda(fac_tensor_of(1, 2, 3));
    assert_null(fac_fft_fft(x));
    assert_error(FAC_ERR_UNSUPPORTED, text);
    assert_no_error();
}

static void S239_without_cufft_the_error_says_what_is_missing(void **state) {
    (void)state;
    support_need_devices(1);
    support_need_simulator();
    expect_unusable("/nonexistent/libcufft.so.12", "need cuFFT, which was not found: /nonexistent/libcufft.so.12");
    expect_unusable("libm.so.6", "lacks cufftGetVersion");
    support_restart_with("FACULA_CUFFT_LIBRARY", NULL);
    FAC_SCOPE(s);
    fac_tensor *x = input(FAC_INTS(3, 4), false, false);
    expect_near("afterwards", fac_fft_fft(on_cuda(x)), fac_fft_fft(x), 2e-6);
}

static fac_status transform_once(void *x) {
    FAC_SCOPE(s);
    fac_tensor *y = fac_fft_irfftn(fac_fft_fftn(x, .dims = FAC_INTS(1, 0)));
    (void)y;
    const fac_status st = fac_error();
    assert_int_equal(fac_cuda_fft_plan_cache_clear(0), FAC_OK);
    return st;
}

static void S240_each_allocation_may_fail(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *x = on_cuda(fac_reshape(fac_arange(12, .dtype = FAC_F32), FAC_INTS(3, 4)));
    assert_ok(transform_once(x));
    support_fail_each_allocation(transform_once, x);
}

FAC_TEST_MAIN(FAC_CUDA_TEST(S239_cuda_transforms_of_one_dimension_agree_with_the_cpu),
              FAC_CUDA_TEST(S239_cuda_transforms_of_several_dimensions_agree_with_the_cpu),
              FAC_CUDA_TEST(S239_cuda_transforms_read_and_write_any_layout),
              FAC_CUDA_TEST(S239_cuda_transforms_to_real_numbers_leave_their_input),
              FAC_CUDA_TEST(S239_cuda_transforms_without_elements), FAC_CUDA_TEST(S239_cuda_transforms_have_gradients),
              FAC_CUDA_TEST(S239_cuda_transforms_refuse_what_the_cpu_refuses),
              FAC_CUDA_TEST(S239_without_cufft_the_error_says_what_is_missing),
              FAC_CUDA_TEST(S240_a_plan_is_kept_for_each_geometry_and_dtype),
              FAC_CUDA_TEST(S240_the_plan_unused_for_longest_goes),
              FAC_CUDA_TEST(S240_each_device_has_a_cache_of_its_own),
              FAC_CUDA_TEST(S240_a_maximum_or_device_that_cannot_be_is_an_error),
              FAC_CUDA_TEST(S240_a_captured_plan_outlives_its_place_in_the_cache),
              FAC_CUDA_TEST(S240_what_cufft_refuses_is_named), FAC_CUDA_TEST(S240_a_plan_without_memory_is_tried_again),
              FAC_CUDA_TEST(S240_streams_share_a_plan), FAC_CUDA_TEST(S240_threads_share_plans),
              FAC_CUDA_TEST(S240_each_allocation_may_fail))
