/* Rows of docs/features.md that no other program of this folder is about. */
#include "support/cuda.h"

#include <math.h>
#include <stdlib.h>

static const int64_t MIB = 1 << 20;

static bool same(fac_tensor *a, fac_tensor *b) {
    static double x[4096], y[4096];
    assert_true(a && b && fac__same_sizes(fac__header(a), fac__header(b)) && fac_tensor_numel(a) <= 4096);
    assert_ok(fac_tensor_read(a, FAC_F64, x, (size_t)fac_tensor_numel(a)));
    assert_ok(fac_tensor_read(b, FAC_F64, y, (size_t)fac_tensor_numel(b)));
    for (int64_t i = 0; i < fac_tensor_numel(a); i++)
        if (!(fabs(x[i] - y[i]) <= 1e-6 * fabs(y[i]))) return false;
    return true;
}
static fac_tensor *on_cuda(fac_tensor *t) { return fac_to(t, .device = cuda_device(0)); }

/* ---- pointwise operators ---------------------------------------------------------------------------------------- */

static void S105_prelu_agrees_on_every_device(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *x[2], *w[2], *y[2];
    for (int i = 0; i < 2; i++) {
        const fac_device d = i ? cuda_device(0) : fac_device_make(FAC_CPU, -1);
        x[i] = fac_view(fac_tensor_of(-1, 2, -3, 4, -5, 6, 7, -8), FAC_INTS(2, 2, 2)), w[i] = fac_tensor_of(0.5, -0.25);
        x[i] = fac_set_requires_grad(fac_to(x[i], .device = d), true);
        w[i] = fac_set_requires_grad(fac_to(w[i], .device = d), true);
        y[i] = fac_prelu(x[i], w[i]);
        assert_no_error();
        assert_true(fac_device_equal(fac_tensor_device(y[i]), d));
        assert_ok(fac_backward(fac_sum(fac_mul(y[i], y[i]))));
    }
    assert_true(same(y[0], fac_view(fac_tensor_of(-0.5, 2, 0.75, 4, -2.5, 6, 7, 2), FAC_INTS(2, 2, 2))));
    assert_true(same(y[1], y[0]) && same(fac_grad_of(x[1]), fac_grad_of(x[0])) &&
                same(fac_grad_of(w[1]), fac_grad_of(w[0])));
}

/* Starts off the vector width, lengths that are no multiple of it, gaps and broadcasts. */
static void S113_cuda_vector_and_strided_paths_agree_with_the_cpu(void **state) {
    (void)state;
    support_need_devices(1);
    const int64_t lengths[] = {1, 3, 4, 31, 256, 1023};
    for (size_t i = 0; i < FAC_COUNT(lengths); i++)
        for (int64_t step = 1; step <= 3; step += 2)
            for (int64_t start = 0; start <= 1; start++) {
                FAC_SCOPE(s);
                const int64_t n = lengths[i];
                fac_tensor *base = fac_arange(n * step + start, .dtype = FAC_F32), *there = on_cuda(base);
                fac_tensor *a = fac_slice(base, 0, .start = start, .step = step),
                           *b = fac_slice(there, 0, .start = start, .step = step);
                assert_true(same(fac_add(b, b), fac_add(a, a)));
                assert_true(same(fac_mul(fac_unsqueeze(b, 0), fac_view(on_cuda(fac_tensor_of(2, 3)), FAC_INTS(2, 1))),
                                 fac_mul(fac_unsqueeze(a, 0), fac_view(fac_tensor_of(2, 3), FAC_INTS(2, 1)))));
                assert_non_null(fac_add_(b, 1.0));
                assert_non_null(fac_add_(a, 1.0));
                assert_true(same(there, base)); /* what lies between was left alone */
            }
}

/* The setting permits to round; Facula's kernels do not make use of it. */
static void S194_cuda_products_are_of_float32_at_every_precision(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_tensor *a = fac_randn(FAC_SHAPE(40, 60)), *b = fac_randn(FAC_SHAPE(60, 50)), *exact = fac_matmul(a, b);
    for (int p = FAC_PRECISION_HIGHEST; p <= FAC_PRECISION_MEDIUM; p++) {
        assert_ok(fac_set_float32_matmul_precision((fac_matmul_precision)p));
        fac_tensor *product = fac_to(fac_matmul(on_cuda(a), on_cuda(b)), .device = fac_device_make(FAC_CPU, -1));
        assert_ok(fac_set_float32_matmul_precision(FAC_PRECISION_HIGHEST));
        assert_true(fac_allclose(product, exact, .rtol = 1e-5, .atol = 1e-4)); /* TF32 is off by some 1e-2 */
    }
}

static void S022_conjugates_are_resolved_on_cuda(void **state) {
    (void)state;
    support_need_devices(1);
    const fac_dtype dtypes[] = {FAC_C64, FAC_C128};
    for (size_t i = 0; i < FAC_COUNT(dtypes); i++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_randn(FAC_SHAPE(5, 6), .dtype = dtypes[i]), *there = on_cuda(x);
        fac_tensor *from[] = {x, fac_t(x)}, *on[] = {there, fac_t(there)};
        for (int k = 0; k < 2; k++) {
            const struct {
                fac_tensor *here, *there;
            } pairs[] = {{fac_conj(from[k]), fac_resolve_conj(fac_conj(on[k]))},
                         {fac_conj(from[k]), fac_conj_physical(on[k])},
                         {fac_conj(from[k]), fac_conj(on[k])},
                         {fac_neg(from[k]), fac_neg(on[k])},
                         {fac_neg(fac_conj(from[k])), fac_neg(fac_conj(on[k]))},
                         {fac_imag(fac_conj(from[k])), fac_resolve_neg(fac_imag(fac_conj(on[k])))}};
            for (size_t p = 0; p < FAC_COUNT(pairs); p++) {
                fac_tensor *back = fac_to(pairs[p].there, .device = fac_device_make(FAC_CPU, -1));
                assert_no_error();
                assert_true(fac_equal(fac_resolve_neg(fac_resolve_conj(back)), pairs[p].here));
            }
        }
    }
}

/* ---- memory ----------------------------------------------------------------------------------------------------------- */

static void S044_a_recorded_block_is_not_reused_before_the_streams_work_is_done(void **state) {
    (void)state;
    support_need_devices(1);
    support_need_simulator(); /* nothing runs there before it is waited for */
    for (int recorded = 0; recorded < 2; recorded++) {
        FAC_SCOPE(s);
        fac_stream side = fac_stream_new(cuda_device(0), 0);
        fac_tensor *t = fac_ones(FAC_SHAPE(MIB), .device = cuda_device(0));
        const void *block = fac_tensor_data(t);
        if (recorded) { /* used by another stream; else by its own alone */
            assert_ok(fac_stream_wait_stream(side, fac_default_stream(cuda_device(0))));
            FAC_STREAM_SCOPE(on, side);
            assert_non_null(fac_mul_(t, 2.0));
            assert_ok(fac_record_stream(t, side));
        }
        fac_drop(t);
        fac_tensor *next = fac_zeros(FAC_SHAPE(MIB), .device = cuda_device(0));
        assert_no_error();
        assert_true((fac_tensor_data(next) == block) == !recorded);
        assert_ok(fac_stream_synchronize(side));
        if (!recorded) continue;
        fac_tensor *after = fac_zeros(FAC_SHAPE(MIB), .device = cuda_device(0));
        assert_ptr_equal(fac_tensor_data(after), block); /* and then it is */
        assert_true(fac_item(fac_sum(next)) == 0 && fac_item(fac_sum(after)) == 0);
    }
}

static void S223_cached_memory_is_in_use_for_the_driver_until_the_cache_is_emptied(void **state) {
    (void)state;
    int64_t before, cached, emptied, total;
    support_need_devices(1);
    FAC_SCOPE(s);
    fac_drop(fac_ones(FAC_SHAPE(1), .device = cuda_device(0))); /* the context is there */
    assert_ok(fac_synchronize(cuda_device(0)));
    assert_ok(fac_cuda_empty_cache());
    assert_ok(fac_cuda_mem_get_info(0, &before, &total));
    fac_drop(fac_empty(FAC_SHAPE(64 * MIB), .dtype = FAC_U8, .device = cuda_device(0)));
    assert_int_equal(fac_cuda_memory_allocated(0), 0);
    assert_int_equal(fac_cuda_memory_reserved(0), 64 * MIB);
    assert_ok(fac_cuda_mem_get_info(0, &cached, &total));
    assert_true(cached <= before - 64 * MIB);
    assert_ok(fac_cuda_empty_cache());
    assert_ok(fac_cuda_mem_get_info(0, &emptied, &total));
    assert_true(emptied >= cached + 64 * MIB);
    assert_true(total >= before);
}

/* With cudaMallocAsync the driver has the segments: the counters that facula/cuda_memory.h calls meaningless stay 0. */
static void S224_counters_without_meaning_are_zero_with_the_stream_ordered_backend(void **state) {
    (void)state;
    support_need_devices(1);
    const char *meant[] = {"allocation.",     "allocated_bytes.", "requested_bytes.", "active",
                           "reserved_bytes.", "num_ooms",         "num_device_",      "max_split_size"};
    support_restart_with("FACULA_CUDA_ALLOC_CONF", "backend:cudaMallocAsync");
    {
        FAC_SCOPE(s);
        fac_tensor *t = fac_ones(FAC_SHAPE(5 * MIB), .device = cuda_device(0));
        fac_drop(fac_ones(FAC_SHAPE(100), .device = cuda_device(0)));
        assert_no_error();
        int others = 0;
        const char *name;
        for (int i = 0; (name = fac_cuda_memory_stat_name(i)); i++) {
            bool means = false;
            for (size_t k = 0; k < FAC_COUNT(meant); k++) means |= strncmp(name, meant[k], strlen(meant[k])) == 0;
            if (means) continue;
            others++;
            if (fac_cuda_memory_stat(0, name) != 0) fail_msg("%s is not 0", name);
        }
        assert_true(others >= 12); /* segments and inactive splits at least */
        assert_int_equal(fac_cuda_memory_stat(0, "allocated_bytes.all.current"), 20 * MIB);
        assert_int_equal(fac_cuda_memory_stat(0, "allocation.all.allocated"), 2);
        fac_drop(t);
    }
    support_restart_with("FACULA_CUDA_ALLOC_CONF", NULL);
}

/* ---- programs ---------------------------------------------------------------------------------------------------------- */

/* A program that knows devices by this choice alone; returns its last loss and where it was. */
static double program(bool disable_cuda, fac_device *where) {
    FAC_SCOPE(s);
    const fac_device device = fac_device_parse(!disable_cuda && fac_cuda_is_available() ? "cuda" : "cpu");
    fac_manual_seed(1);
    fac_module *net = fac_linear_new(3, 1);
    fac_tensor *x = fac_to(fac_randn(FAC_SHAPE(16, 3)), .device = device), *y = fac_sum(x, .dim = 1, .keepdim = true);
    assert_ok(fac_module_to(net, .device = device));
    fac_optimizer *o = fac_sgd_new(net, 0.1);
    double last = 0;
    for (int i = 0; i < 5; i++) {
        FAC_SCOPE(step);
        fac_tensor *loss = fac_mse_loss(fac_forward(net, x), y);
        assert_ok(fac_backward(loss));
        assert_ok(fac_optimizer_step(o));
        fac_optimizer_zero_grad(o);
        last = fac_item(loss);
        *where = fac_tensor_device(loss);
    }
    fac_optimizer_release(o);
    fac_module_release(net);
    assert_no_error();
    return last;
}

static void S247_E82_one_program_runs_on_the_cpu_and_on_cuda(void **state) {
    (void)state;
    support_need_devices(1);
    fac_device where;
    const double there = program(false, &where);
    assert_true(fac_device_equal(where, cuda_device(0)));
    const double refused = program(true, &where);
    assert_int_equal(where.type, FAC_CPU);

    char *kept = getenv("FACULA_CUDA") ? strdup(getenv("FACULA_CUDA")) : NULL;
    support_restart_with("FACULA_CUDA", "off");
    const double without = program(false, &where);
    assert_int_equal(where.type, FAC_CPU);
    support_restart_with("FACULA_CUDA", kept);
    free(kept);
    assert_true(refused == without && refused > 0 && fabs(there - refused) <= 1e-5 * refused);
}

static void S017_new_tensors_are_on_the_device_of_self_whatever_the_current_one(void **state) {
    (void)state;
    support_need_devices(2);
    FAC_SCOPE(s);
    fac_tensor *t = fac_ones(FAC_SHAPE(2), .dtype = FAC_F64, .device = cuda_device(0));
    FAC_DEVICE_SCOPE(other, cuda_device(1));
    fac_tensor *made[] = {fac_new_full(t, FAC_SHAPE(3), 4), fac_new_zeros(t, FAC_SHAPE(3)),
                          fac_new_ones(t, FAC_SHAPE(3)), fac_new_empty(t, FAC_SHAPE(3))};
    for (size_t i = 0; i < FAC_COUNT(made); i++) {
        assert_non_null(made[i]);
        assert_true(fac_device_equal(fac_tensor_device(made[i]), cuda_device(0)) &&
                    fac_tensor_dtype(made[i]) == FAC_F64);
    }
    assert_true(same(made[0], fac_tensor_of(4, 4, 4)));
}

static void S026_item_waits_for_the_device(void **state) {
    (void)state;
    support_need_devices(1);
    FAC_SCOPE(s);
    bool done;
    fac_stream side = fac_stream_new(cuda_device(0), 0);
    FAC_STREAM_SCOPE(on, side);
    fac_tensor *x = fac_zeros(FAC_SHAPE(), .device = cuda_device(0));
    for (int i = 0; i < 100; i++) assert_non_null(fac_add_(x, 1.0));
    assert_ok(fac_stream_query(side, &done));
    if (fac_cuda_is_simulated()) assert_false(done);
    assert_true(fac_item(x) == 100);
    assert_ok(fac_stream_query(side, &done));
    assert_true(done);
}

FAC_TEST_MAIN(FAC_CUDA_TEST(S105_prelu_agrees_on_every_device),
              FAC_CUDA_TEST(S194_cuda_products_are_of_float32_at_every_precision),
              FAC_CUDA_TEST(S022_conjugates_are_resolved_on_cuda),
              FAC_CUDA_TEST(S113_cuda_vector_and_strided_paths_agree_with_the_cpu),
              FAC_CUDA_TEST(S044_a_recorded_block_is_not_reused_before_the_streams_work_is_done),
              FAC_CUDA_TEST(S223_cached_memory_is_in_use_for_the_driver_until_the_cache_is_emptied),
              FAC_CUDA_TEST(S224_counters_without_meaning_are_zero_with_the_stream_ordered_backend),
              FAC_CUDA_TEST(S247_E82_one_program_runs_on_the_cpu_and_on_cuda),
              FAC_CUDA_TEST(S017_new_tensors_are_on_the_device_of_self_whatever_the_current_one),
              FAC_CUDA_TEST(S026_item_waits_for_the_device))
