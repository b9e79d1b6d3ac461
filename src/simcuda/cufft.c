/* The simulated cuFFT: the entries of cuda_abi/cufft.h. A transform is a launch of a native kernel, so that streams, captures and
   the checks of memory treat it as any other. It computes in double, in the work area, by recursion over the prime factors of
   each length.

   It is as strict as the real library may be: there is no work area but the caller's, a transform to real numbers spoils its
   input, and one whose input is not Hermitian gives NaN. */
#include "cuda_abi/cufft.h"
#include "simcuda/sim.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIM_DECLARE(name, parameters) SIM_API cufftResult name parameters;
FAC_CUFFT_ENTRIES(SIM_DECLARE)
#undef SIM_DECLARE

enum { MAX_RANK = 3, MAX_PLANS = 1 << 16, VERSION = 11200 };
enum { TO_COMPLEX, COMPLEX, TO_REAL };

/* What a transform is, as its kernel's argument. */
typedef struct transform {
    int64_t n[MAX_RANK], batch; /* of missing leading dimensions: 1 */
    int32_t kind, wide, sign;
} transform;

typedef struct plan {
    transform t;
    sim_device *device; /* NULL: not made yet */
    bool automatic;
    void *work;
    CUstream stream;
} plan;

static plan *plans[MAX_PLANS];  /* a handle is an index: 0 is one, too */
static int64_t n_plans, n_made; /* alive; made since the start */

/* ---- the kernel ------------------------------------------------------------------------------------------------------------- */

typedef struct number {
    double re, im;
} number;

static number times(number a, number b) { return (number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

static int64_t least_factor(int64_t n) {
    for (int64_t p = 2; p * p <= n; p++)
        if (n % p == 0) return p;
    return n;
}

/* A line's transform: root[j] is the factor of angle j / all, and n divides all. `room` has the line's length. */
typedef struct line {
    const number *root;
    int64_t all;
    number *room;
} line;

static void combine(const line *l, number *out, int64_t p, int64_t m) {
    const int64_t step = l->all / (p * m);
    for (int64_t k = 0; k < m; k++) {
        for (int64_t r = 0; r < p; r++) l->room[r] = out[r * m + k];
        for (int64_t q = 0; q < p; q++) {
            number sum = {0, 0};
            for (int64_t r = 0; r < p; r++) {
                const number term = times(l->room[r], l->root[(int64_t)((__int128)r * (q * m + k) * step % l->all)]);
                sum = (number){sum.re + term.re, sum.im + term.im};
            }
            out[q * m + k] = sum;
        }
    }
}

static void recurse(const line *l, const number *in, int64_t stride, number *out, int64_t n) {
    if (n == 1) {
        *out = *in;
        return;
    }
    const int64_t p = least_factor(n), m = n / p;
    for (int64_t r = 0; r < p; r++) recurse(l, in + r * stride, stride * p, out + r * m, m);
    combine(l, out, p, m);
}

/* All lines of one dimension, in place: `outer` times n elements that are `inner` apart. */
static void along(number *x, int64_t outer, int64_t n, int64_t inner, int sign) {
    number *root = sim_new(3 * (size_t)n, sizeof *root), *copy = root + n, *result = root + 2 * n;
    line l = {root, n, sim_new((size_t)n, sizeof *root)};
    for (int64_t j = 0; j < n; j++) {
        const double angle = sign * 2 * 3.14159265358979323846 * (double)j / (double)n;
        root[j] = (number){cos(angle), sin(angle)};
    }
    for (int64_t o = 0; o < outer * inner; o++) {
        number *at = x + o / inner * n * inner + o % inner;
        for (int64_t j = 0; j < n; j++) copy[j] = at[j * inner];
        recurse(&l, copy, 1, result, n);
        for (int64_t j = 0; j < n; j++) at[j * inner] = result[j];
    }
    free(l.room);
    free(root);
}

static double read(const void *p, int64_t i, int wide) { return wide ? ((const double *)p)[i] : ((const float *)p)[i]; }
static void write(void *p, int64_t i, int wide, double v) {
    if (wide)
        ((double *)p)[i] = v;
    else
        ((float *)p)[i] = (float)v;
}

static int64_t points(const transform *t) { return t->batch * t->n[0] * t->n[1] * t->n[2]; }
static int64_t half(const transform *t) { return t->n[2] / 2 + 1; }

/* Where the element of a full array is in a halved one; its mirror image's place, and *mirrored, if it is not there. */
static int64_t in_half(const transform *t, int64_t e, bool *mirrored) {
    int64_t k = e % t->n[2], j = e / t->n[2] % t->n[1], i = e / t->n[2] / t->n[1] % t->n[0];
    const int64_t b = e / t->n[2] / t->n[1] / t->n[0];
    *mirrored = k >= half(t);
    if (*mirrored) i = (t->n[0] - i) % t->n[0], j = (t->n[1] - j) % t->n[1], k = t->n[2] - k;
    return ((b * t->n[0] + i) * t->n[1] + j) * half(t) + k;
}

static void load(const transform *t, const void *in, number *x) {
    for (int64_t e = 0; e < points(t); e++) {
        bool mirrored = false;
        const int64_t from = t->kind == TO_REAL ? in_half(t, e, &mirrored) : e;
        if (t->kind == TO_COMPLEX)
            x[e] = (number){read(in, e, t->wide), 0};
        else
            x[e] = (number){read(in, 2 * from, t->wide), (mirrored ? -1 : 1) * read(in, 2 * from + 1, t->wide)};
    }
}

static void store(const transform *t, const number *x, void *out) {
    for (int64_t e = 0; e < points(t); e++) {
        bool mirrored = false;
        const int64_t to = t->kind == TO_COMPLEX ? in_half(t, e, &mirrored) : e;
        if (mirrored) continue;
        if (t->kind == TO_REAL) {
            write(out, e, t->wide, x[e].re);
            continue;
        }
        write(out, 2 * to, t->wide, x[e].re);
        write(out, 2 * to + 1, t->wide, x[e].im);
    }
}

/* Whether points that are their own mirror images along the last dimension are real, of one dimension. */
static bool is_hermitian(const transform *t, const void *in) {
    const int64_t h = half(t);
    if (t->n[0] * t->n[1] != 1) return true;
    for (int64_t b = 0; b < t->batch; b++) {
        if (read(in, 2 * b * h + 1, t->wide) != 0) return false;
        if (t->n[2] % 2 == 0 && read(in, 2 * (b * h + h - 1) + 1, t->wide) != 0) return false;
    }
    return true;
}

static void run(void **args) {
    const transform *t = args[3];
    void *in = *(void **)args[0], *out = *(void **)args[1];
    number *x = *(number **)args[2];
    const bool good = t->kind != TO_REAL || is_hermitian(t, in);
    load(t, in, x);
    for (int d = 0; d < MAX_RANK; d++) {
        int64_t outer = t->batch, inner = 1;
        for (int e = 0; e < d; e++) outer *= t->n[e];
        for (int e = d + 1; e < MAX_RANK; e++) inner *= t->n[e];
        if (t->n[d] > 1) along(x, outer, t->n[d], inner, t->sign);
    }
    if (!good) x[0].re = NAN;
    store(t, x, out);
    if (t->kind != TO_REAL) return;
    for (int64_t e = 0; e < points(t) / t->n[2] * half(t) * 2; e++) write(in, e, t->wide, NAN);
}

static const sim_param reads[] = {{sizeof(void *), _Alignof(void *), SIM_IN, "in"},
                                  {sizeof(void *), _Alignof(void *), SIM_OUT, "out"},
                                  {sizeof(void *), _Alignof(void *), SIM_IO, "work"},
                                  {sizeof(transform), _Alignof(transform), SIM_VAL, "transform"}};
static const sim_param spoils[] = {{sizeof(void *), _Alignof(void *), SIM_IO, "in"},
                                   {sizeof(void *), _Alignof(void *), SIM_OUT, "out"},
                                   {sizeof(void *), _Alignof(void *), SIM_IO, "work"},
                                   {sizeof(transform), _Alignof(transform), SIM_VAL, "transform"}};
static const sim_kernel kernels[] = {[TO_COMPLEX] = {"fft_r2c", run, reads, 4, 0, 1},
                                     [COMPLEX] = {"fft_c2c", run, reads, 4, 0, 1},
                                     [TO_REAL] = {"fft_c2r", run, spoils, 4, 0, 1}};

/* ---- plans ------------------------------------------------------------------------------------------------------------------ */

void sim_cufft_stop(void) {
    for (int i = 0; i < MAX_PLANS && n_plans; i++) {
        if (plans[i]) n_plans--;
        free(plans[i]);
        plans[i] = NULL;
    }
    n_made = 0;
}

int64_t sim_cufft_count(const char *name) {
    if (strcmp(name, "transforms") == 0) return n_plans;
    return strcmp(name, "transforms made") == 0 ? n_made : -1;
}

static plan *plan_of(cufftHandle h) { return h >= 0 && h < MAX_PLANS ? plans[h] : NULL; }

/* With the driver started and a current context, as cuFFT needs them: the driver's own refusals are set-up failures. */
#define CUFFT_ENTER()                                                                 \
    sim_guard sim_guard_ __attribute__((cleanup(sim_leave))) = {0};                   \
    do {                                                                              \
        if (sim_enter(&sim_guard_, __func__, SIM_CURRENT)) return CUFFT_SETUP_FAILED; \
    } while (0)

cufftResult cufftGetVersion(int *version) {
    if (!version) return CUFFT_INVALID_VALUE;
    *version = VERSION;
    return CUFFT_SUCCESS;
}

cufftResult cufftCreate(cufftHandle *out) {
    CUFFT_ENTER();
    if (!out) return CUFFT_INVALID_VALUE;
    for (int i = 0; i < MAX_PLANS; i++) {
        if (plans[i]) continue;
        plans[i] = sim_new(1, sizeof **plans);
        plans[i]->automatic = true;
        n_plans++;
        *out = i;
        return CUFFT_SUCCESS;
    }
    return CUFFT_ALLOC_FAILED;
}

cufftResult cufftDestroy(cufftHandle h) {
    CUFFT_ENTER();
    plan *p = plan_of(h);
    if (!p) return CUFFT_INVALID_PLAN;
    free(p);
    plans[h] = NULL;
    n_plans--;
    return CUFFT_SUCCESS;
}

cufftResult cufftSetAutoAllocation(cufftHandle h, int automatic) {
    CUFFT_ENTER();
    plan *p = plan_of(h);
    if (!p) return CUFFT_INVALID_PLAN;
    p->automatic = automatic != 0;
    return CUFFT_SUCCESS;
}

static bool is_type(cudaDataType t, bool complex, bool *wide) {
    *wide = t == CUDA_R_64F || t == CUDA_C_64F;
    return complex == (t == CUDA_C_32F || t == CUDA_C_64F);
}

static cufftResult set_types(transform *t, cudaDataType in, cudaDataType out, cudaDataType compute) {
    bool in_wide, out_wide, wide;
    const bool from_real = is_type(in, false, &in_wide), to_real = is_type(out, false, &out_wide);
    if (!is_type(compute, true, &wide) || in_wide != wide || out_wide != wide || (from_real && to_real))
        return CUFFT_INVALID_TYPE;
    t->wide = wide;
    t->kind = from_real ? TO_COMPLEX : to_real ? TO_REAL : COMPLEX;
    return CUFFT_SUCCESS;
}

static cufftResult set_sizes(transform *t, int rank, const long long *n, long long batch) {
    __int128 all = batch;
    if (rank < 1 || rank > MAX_RANK || !n) return CUFFT_INVALID_VALUE;
    if (batch < 1) return CUFFT_INVALID_SIZE;
    for (int d = 0; d < MAX_RANK; d++) t->n[d] = 1;
    for (int d = 0; d < rank; d++) {
        if (n[d] < 1) return CUFFT_INVALID_SIZE;
        t->n[MAX_RANK - rank + d] = n[d];
        all *= n[d];
        if (all > INT64_MAX / 32) return CUFFT_INVALID_SIZE;
    }
    t->batch = batch;
    return CUFFT_SUCCESS;
}

cufftResult cufftXtMakePlanMany(cufftHandle h, int rank, long long *n, long long *in_embed, long long in_stride,
                                long long in_distance, cudaDataType in_type, long long *out_embed, long long out_stride,
                                long long out_distance, cudaDataType out_type, long long batch, size_t *work_bytes,
                                cudaDataType compute_type) {
    CUFFT_ENTER();
    (void)in_stride, (void)in_distance, (void)out_stride, (void)out_distance;
    plan *p = plan_of(h);
    transform t = {0};
    if (!p || p->device) return CUFFT_INVALID_PLAN;
    if (!work_bytes) return CUFFT_INVALID_VALUE;
    if (in_embed || out_embed || p->automatic) return CUFFT_NOT_SUPPORTED; /* Facula packs, and brings work areas */
    cufftResult r = set_types(&t, in_type, out_type, compute_type);
    if (r == CUFFT_SUCCESS) r = set_sizes(&t, rank, n, batch);
    if (r == CUFFT_SUCCESS && sim_oom_due()) r = CUFFT_ALLOC_FAILED;
    if (sim_opt.cufft) r = (cufftResult)sim_opt.cufft;
    sim_opt.cufft = 0;
    if (r != CUFFT_SUCCESS) return r;
    p->t = t;
    p->device = sim_current;
    n_made++;
    *work_bytes = (size_t)points(&t) * sizeof(number);
    return CUFFT_SUCCESS;
}

cufftResult cufftSetWorkArea(cufftHandle h, void *work) {
    CUFFT_ENTER();
    plan *p = plan_of(h);
    if (!p || !p->device) return CUFFT_INVALID_PLAN;
    p->work = work;
    return CUFFT_SUCCESS;
}

cufftResult cufftSetStream(cufftHandle h, cudaStream_t stream) {
    CUFFT_ENTER();
    plan *p = plan_of(h);
    if (!p) return CUFFT_INVALID_PLAN;
    p->stream = stream;
    return CUFFT_SUCCESS;
}

/* The arguments and the stream of a launch; cuLaunchKernel takes the lock itself. */
static cufftResult prepare(cufftHandle h, int direction, plan *out, CUfunction *function) {
    CUFFT_ENTER();
    plan *p = plan_of(h);
    if (!p || !p->device) return CUFFT_INVALID_PLAN;
    if (p->device != sim_current) return CUFFT_INVALID_DEVICE;
    if (!p->work) return CUFFT_NO_WORKSPACE;
    if (direction != CUFFT_FORWARD && direction != CUFFT_INVERSE) return CUFFT_INVALID_VALUE;
    *out = *p;
    out->t.sign = p->t.kind == COMPLEX ? direction : p->t.kind == TO_REAL ? CUFFT_INVERSE : CUFFT_FORWARD;
    *function = sim_native_function(&kernels[p->t.kind]);
    return CUFFT_SUCCESS;
}

cufftResult cufftXtExec(cufftHandle h, void *in, void *out, int direction) {
    plan p;
    CUfunction function;
    cufftResult r = prepare(h, direction, &p, &function);
    if (r != CUFFT_SUCCESS) return r;
    void *args[] = {&in, &out, &p.work, &p.t};
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, p.stream, args, NULL) ? CUFFT_EXEC_FAILED : CUFFT_SUCCESS;
}
