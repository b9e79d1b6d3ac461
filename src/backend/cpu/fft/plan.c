/* Plans of Fourier transforms: which passes, split how, with which tables; and the plans that are kept.

   Roots of unity are computed in double precision from angles of at most an eighth of the circle, reduced in integers, and then
   rounded once. A plan depends on the length and the vectors' width alone, and the way that a call takes on its plan and its
   number of lines: nothing depends on threads. */
#include "backend/cpu/fft/fft.h"
#include "base/mutex.h"
#include <math.h>

static const double PI = 3.14159265358979323846;
enum { TABLE_ALIGN = 64 };
static const int64_t LENGTH_LIMIT = INT64_C(1)
                                    << 48; /* beyond which no line has memory, and products of sizes would not fit */

static int64_t real_size(fac_dtype d) { return d == FAC_F64 ? 8 : 4; }
static int lanes_of(fac_dtype d) { return (int)(FAC_ISA_PICK(fac__fft_vector)() / real_size(d)); }

static bool is_wide(const fac_fft_plan *p) { return p->lanes * real_size(p->dtype) == 64; }

/* ---- roots of unity ------------------------------------------------------------------------------------------------------ */

/* exp(-2 pi i k / n) for 0 <= k < n. Angles are counted in 8 n-ths of the circle. */
static void root_of_unity(int64_t k, int64_t n, double w[2]) {
    int64_t a = 8 * k;
    const bool below = a > 4 * n, left = (below ? 8 * n - a : a) > 2 * n;
    if (below) a = 8 * n - a;
    if (left) a = 4 * n - a;
    const bool steep = a > n;
    if (steep) a = 2 * n - a;
    const double angle = PI * (double)a / (double)(4 * n), c = cos(angle), s = sin(angle);
    w[0] = steep ? s : c;
    w[1] = steep ? c : s;
    if (left) w[0] = -w[0];
    if (!below) w[1] = -w[1];
}

static void set_real(void *table, fac_dtype d, int64_t i, double x) {
    if (d == FAC_F64)
        ((double *)table)[i] = x;
    else
        ((float *)table)[i] = (float)x;
}
static void set_complex(void *table, fac_dtype d, int64_t i, const double w[2]) {
    set_real(table, d, 2 * i, w[0]);
    set_real(table, d, 2 * i + 1, w[1]);
}
static void set_root(void *table, fac_dtype d, int64_t i, int64_t k, int64_t n) {
    double w[2];
    root_of_unity(k, n, w);
    set_complex(table, d, i, w);
}

/* Room for `reals` numbers of the plan's type, at least one. */
static fac_status take_table(fac_fft_plan *p, int64_t reals, void **out) {
    const int64_t bytes = fac__max(1, reals) * real_size(p->dtype);
    *out = fac__alloc_aligned((size_t)bytes, TABLE_ALIGN);
    p->bytes += bytes;
    return *out ? FAC_OK : fac_error();
}

/* ---- chains of passes ---------------------------------------------------------------------------------------------------- */

/* The radix of the next pass of a length, 0 if its smallest factor has none. Radix 16, in a last pass, is for vectors of 64 bytes, of
   which there are 32. */
static int64_t next_radix(int64_t n, bool wide) {
    for (int64_t prime = 3; prime <= FAC_FFT_PRIME; prime += 2)
        if (n % prime == 0) return prime;
    if (wide && n == 16) return 16;
    if (n % 8 == 0 && n != 16) return 8;
    return n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : 0;
}

/* Operations on vectors per point of a pass, measured roughly. */
static double pass_cost(int64_t radix) {
    if (radix == 16) return 2.4;
    return radix <= 8 ? 0.6 + 0.17 * (double)radix : 0.5 + 0.25 * (double)radix;
}

/* Of a transform of n points; below 0 if there is none. */
static double chain_cost(int64_t n, bool wide) {
    double each = 0;
    for (int64_t left = n, r; left > 1; left /= r, each += pass_cost(r))
        if ((r = next_radix(left, wide)) == 0) return -1;
    return each * (double)n;
}

/* Lanes beyond the caches cost more. */
static double cache_factor(const fac_fft_plan *p, int64_t n) {
    const double bytes = (double)n * 4 * (double)p->lanes * (double)real_size(p->dtype);
    return bytes <= 1 << 14 ? 1 : bytes <= 1 << 15 ? 1.15 : bytes <= 1 << 19 ? 1.4 : bytes <= 1 << 21 ? 2 : 4;
}

static void fill_pass(const fac_fft_plan *p, fac_fft_chain *c, const fac_fft_pass *pass) {
    const int64_t n = pass->radix * pass->blocks, each = pass->radix - 1;
    for (int64_t b = 1; b < pass->blocks; b++)
        for (int64_t k = 1; k <= each; k++)
            set_root(c->table, p->dtype, pass->twiddles / 2 + (b - 1) * each + k - 1, b * k, n);
    for (int64_t j = 0; j < pass->radix && pass->radix % 2; j++) {
        double w[2];
        root_of_unity(j, pass->radix, w);
        set_real(c->table, p->dtype, pass->roots + j, w[0]);
        set_real(c->table, p->dtype, pass->roots + pass->radix + j, -w[1]);
    }
}

static fac_status make_chain(fac_fft_plan *p, int64_t n, fac_fft_chain *c) {
    int64_t used = 0, run = 1;
    c->n = n;
    c->cost = chain_cost(n, is_wide(p)) * cache_factor(p, n);
    for (int64_t left = n, r; left > 1; run *= r, left /= r) {
        r = next_radix(left, is_wide(p));
        fac_fft_pass *pass = &c->pass[c->passes++];
        *pass = (fac_fft_pass){.radix = r, .blocks = left / r, .run = run, .twiddles = used};
        used += (pass->blocks - 1) * 2 * (r - 1);
        pass->roots = used;
        used += r % 2 ? 2 * r : 0;
    }
    FAC_TRY(take_table(p, used, &c->table));
    for (int i = 0; i < c->passes; i++) fill_pass(p, c, &c->pass[i]);
    return FAC_OK;
}

/* ---- the four steps ------------------------------------------------------------------------------------------------------ */

enum { SQUARES_BYTES = 32 << 10 }; /* longer lines leave the first cache between columns and rows in any way */

static double split_cost(const fac_fft_plan *p, int64_t columns, int64_t rows) {
    const double by_column = chain_cost(rows, is_wide(p)) * cache_factor(p, rows),
                 by_row = chain_cost(columns, is_wide(p)) * cache_factor(p, columns);
    const double column_groups = (double)fac__div_up(columns, p->lanes),
                 row_groups = (double)fac__div_up(rows, p->lanes);
    const double load = columns < p->lanes ? 15 : 3,
                 store = rows < p->lanes ? 12 : 1; /* parts of vectors are copied by bytes */
    const double all = column_groups * (by_column + load * (double)rows) +
                       row_groups * (by_row + store * (double)columns) + (column_groups - 1) * (double)rows;
    const bool squares = columns == p->lanes && rows >= p->lanes &&
                         columns * rows * 2 * real_size(p->dtype) < SQUARES_BYTES; /* they spare a pass */
    return squares ? 0.9 * all : all;
}

/* The cheapest way to split n, into `columns` of n / columns rows. Below 0 if n has no two factors. */
static double best_split(const fac_fft_plan *p, int64_t n, int64_t *out_columns) {
    double best = -1;
    for (int64_t a = 2; a * a <= n; a++) {
        if (n % a != 0) continue;
        const int64_t ways[2] = {a, n / a};
        for (int i = 0; i < 2; i++) {
            const double cost = split_cost(p, ways[i], n / ways[i]);
            if (best >= 0 && cost >= best) continue;
            best = cost;
            *out_columns = ways[i];
        }
    }
    return best;
}

enum {
    EACH_FACTOR = 4096
}; /* the longest line that has a table of all its factors, not of two whose product they are */

/* The factor of row r and column a, lane `lane` of a group that starts with column `start`, is w^(r start) times w^(r lane). */
static fac_status make_split(fac_fft_plan *p, int64_t columns) {
    fac_fft_core *c = &p->core;
    const int64_t rows = c->n / columns, groups = fac__div_up(columns, p->lanes);
    FAC_TRY(make_chain(p, rows, &c->columns));
    FAC_TRY(make_chain(p, columns, &c->rows));
    const bool each = c->n <= EACH_FACTOR;
    FAC_TRY(take_table(p, (each ? groups : 1) * rows * 2 * p->lanes, &c->lane_twiddles));
    if (!each) FAC_TRY(take_table(p, groups * rows * 2, &c->group_twiddles));
    for (int64_t g = 0; g < groups; g++) {
        const int64_t start = fac__max(0, fac__min(g * p->lanes, columns - p->lanes));
        for (int64_t r = 0; r < rows; r++) {
            if (!each) set_root(c->group_twiddles, p->dtype, g * rows + r, start * r % c->n, c->n);
            for (int64_t lane = 0; lane < p->lanes && (each || g == 0); lane++) {
                double w[2];
                root_of_unity(r * ((each ? start : 0) + lane) % c->n, c->n, w);
                const int64_t at = 2 * p->lanes * (g * rows + r) + lane;
                set_real(c->lane_twiddles, p->dtype, at, w[0]);
                set_real(c->lane_twiddles, p->dtype, at + p->lanes, w[1]);
            }
        }
    }
    return FAC_OK;
}

/* Of row r and column a, w = w^(r a) of 4 columns: in each pair of lanes w.re and w.re, -w.im and w.im, w.im and -w.im. */
static fac_status make_pair_factors(fac_fft_plan *p) {
    const int n = (int)p->core.n, lanes = p->lanes;
    FAC_TRY(take_table(p, n / 4 * 3 * lanes, &p->core.short_factors));
    for (int r = 0; r < n / 4; r++)
        for (int lane = 0; lane < lanes; lane++) {
            double w[2];
            root_of_unity(r * (lane / 2 % 4) % n, n, w);
            const double im = lane % 2 ? w[1] : -w[1], parts[3] = {w[0], im, -im};
            for (int i = 0; i < 3; i++) set_real(p->core.short_factors, p->dtype, (3 * r + i) * lanes + lane, parts[i]);
        }
    return FAC_OK;
}

/* Of row r and column a, w^(r a) of 64 points in 8 columns; then of two halves of 128, 1 and w^(8 r + a). */
static fac_status make_short_factors(fac_fft_plan *p) {
    const int half = 8, rows = p->core.n > 64 ? 2 * half : half;
    const int lanes = p->lanes;
    FAC_TRY(take_table(p, rows * 2 * lanes, &p->core.short_factors));
    for (int r = 0; r < rows; r++)
        for (int lane = 0; lane < lanes; lane++) {
            double w[2];
            if (r < half)
                root_of_unity(r * (lane % 8), 64, w);
            else
                root_of_unity(lane < 8 ? 0 : 8 * (r - half) + lane - 8, 128, w);
            set_real(p->core.short_factors, p->dtype, 2 * r * lanes + lane, w[0]);
            set_real(p->core.short_factors, p->dtype, (2 * r + 1) * lanes + lane, w[1]);
        }
    return FAC_OK;
}

static fac_status make_core(fac_fft_plan *p, int64_t n) {
    int64_t columns = 0;
    p->core.n = n;
    p->core.split_cost = best_split(p, n, &columns);
    const int64_t rows = n % p->lanes ? 0 : n / p->lanes;
    const bool threes = p->kind == FAC_FFT_COMPLEX && !p->chirped && (n == 48 || n == 96);
    const bool eights = p->lanes == 16 && (n == 64 || n == 128), fours = is_wide(p) && (n == 16 || n == 32 || threes);
    p->core.short_lines = eights || fours || (p->lanes >= 8 && rows == p->lanes) || (p->lanes == 8 && rows == 4) ||
                          (p->lanes == 16 && (rows == 6 || rows == 7));
    if (p->core.short_lines && !fours) columns = p->lanes;
    if (fours) FAC_TRY(make_pair_factors(p));
    if (eights) FAC_TRY(make_short_factors(p));
    FAC_TRY(make_chain(p, n, &p->core.whole));
    return columns ? make_split(p, columns) : FAC_OK;
}

/* With chirps there are two transforms, and factors before, between and after them. */
bool fac__fft_is_split(const fac_fft_plan *p, int64_t lines) {
    const double groups = (double)fac__div_up(lines, p->lanes), times = p->chirped ? 2 : 1;
    const double factors = p->chirped ? (double)(2 * p->inner + p->core.n) : 0, load = 3 * (double)p->inner;
    const double one = p->core.split_cost * times + 4 * factors / p->lanes;
    if (p->core.short_lines && !p->chirped) return false;
    return p->core.columns.n > 0 && one * (double)lines < (p->core.whole.cost * times + factors + load) * groups;
}

/* ---- chirps -------------------------------------------------------------------------------------------------------------- */

/* The cheapest length of a cyclic convolution of at least `least` points. */
static int64_t convolution_length(const fac_fft_plan *p, int64_t least) {
    static const int odd[] = {1, 3, 5, 7, 9, 15};
    int64_t best = 0, columns;
    double best_cost = 0;
    for (size_t i = 0; i < FAC_COUNT(odd); i++) {
        int64_t n = odd[i];
        while (n < least) n *= 2;
        const double cost = best_split(p, n, &columns);
        if (best && (cost < 0 || cost >= best_cost)) continue;
        best = n;
        best_cost = cost;
    }
    return best;
}

static void plan_free(fac_fft_plan *p);
static fac_status make_plan(fac_fft_kind kind, fac_dtype dtype, int64_t n, fac_fft_plan **out);

/* x becomes its transform by a plan of complex float64 without chirps. `scratch`: see transform_bytes. */
static void transform(const fac_fft_plan *p, double *x, char *scratch) {
    int64_t lane, middle, work;
    if (p->core.columns.n == 0) {
        fac_fft_lines side = {.at = {x}, .step = 2, .complex = true};
        fac_fft_group g = {.plan = p, .lanes = 1, .scale = 1, .in = side, .out = side};
        FAC_ISA_PICK(fac__fft_group_f64)(&g, scratch);
        return;
    }
    fac__fft_line_bytes(p, &lane, &middle, &work);
    fac_fft_line l = {.plan = p, .from = x, .to = x, .to_scale = 1, .middle = scratch + lane};
    for (int s = FAC_FFT_COLUMNS; s <= FAC_FFT_ROWS; s++)
        FAC_ISA_PICK(fac__fft_stage_f64)(&l, (fac_fft_stage)s, 0, fac__fft_stage_items(&l, (fac_fft_stage)s), scratch);
}
static int64_t transform_bytes(const fac_fft_plan *p) {
    int64_t lane, middle, work;
    if (p->core.columns.n == 0) return fac__fft_group_bytes(p);
    fac__fft_line_bytes(p, &lane, &middle, &work);
    return lane + middle;
}

/* The filter in double precision: at j and at n - j the conjugate of chirp j. */
static void filter_of(const fac_fft_plan *p, const fac_fft_plan *wide, double *x, char *scratch) {
    const int64_t n = wide->n;
    memset(x, 0, (size_t)n * 16);
    for (int64_t j = 0; j < p->inner; j++) {
        double w[2];
        root_of_unity((int64_t)((__int128)j * j % (2 * p->inner)), 2 * p->inner, w);
        set_complex(p->chirp, p->dtype, j, w);
        w[1] = -w[1];
        set_complex(x, FAC_F64, j, w);
        if (j > 0) set_complex(x, FAC_F64, n - j, w);
    }
    transform(wide, x, scratch);
    for (int64_t k = 0; k < n; k++) {
        const double w[2] = {x[2 * k] / (double)n, x[2 * k + 1] / (double)n};
        set_complex(p->filter, p->dtype, k, w);
    }
}

static fac_status make_filter(fac_fft_plan *p) {
    fac_fft_plan *wide = NULL;
    FAC_TRY(take_table(p, 2 * p->inner, &p->chirp));
    FAC_TRY(take_table(p, 2 * p->core.n, &p->filter));
    fac_status st = make_plan(FAC_FFT_COMPLEX, FAC_F64, p->core.n, &wide);
    double *x = st == FAC_OK ? fac__alloc_aligned((size_t)p->core.n * 16, TABLE_ALIGN) : NULL;
    char *scratch = x ? fac__alloc_aligned((size_t)transform_bytes(wide), TABLE_ALIGN) : NULL;
    if (scratch) filter_of(p, wide, x, scratch);
    st = scratch ? FAC_OK : fac_error();
    fac__free(scratch);
    fac__free(x);
    if (wide) plan_free(wide);
    return st;
}

/* ---- plans ----------------------------------------------------------------------------------------------------------------- */

static void chain_free(fac_fft_chain *c) { fac__free(c->table); }
static void plan_free(fac_fft_plan *p) {
    chain_free(&p->core.whole);
    chain_free(&p->core.columns);
    chain_free(&p->core.rows);
    fac__free(p->core.lane_twiddles);
    fac__free(p->core.group_twiddles);
    fac__free(p->core.short_factors);
    fac__free(p->chirp);
    fac__free(p->filter);
    fac__free(p->unfold);
    fac__free(p);
}

/* Of w = w^k, -i w / 2. */
static fac_status make_unfold(fac_fft_plan *p) {
    const int64_t points = p->inner / 2 + 1;
    FAC_TRY(take_table(p, 2 * points, &p->unfold));
    for (int64_t k = 0; k < points; k++) {
        double w[2];
        root_of_unity(k, p->n, w);
        set_real(p->unfold, p->dtype, k, w[1] / 2);
        set_real(p->unfold, p->dtype, points + k, -w[0] / 2);
    }
    return FAC_OK;
}

static fac_status fill_plan(fac_fft_plan *p) {
    p->lanes = lanes_of(p->dtype);
    p->inner = p->kind != FAC_FFT_COMPLEX && p->n % 2 == 0 ? p->n / 2 : p->n;
    p->chirped = chain_cost(p->inner, false) < 0;
    FAC_TRY(make_core(p, p->chirped ? convolution_length(p, 2 * p->inner - 1) : p->inner));
    if (p->chirped) FAC_TRY(make_filter(p));
    return p->inner < p->n ? make_unfold(p) : FAC_OK;
}

static fac_status make_plan(fac_fft_kind kind, fac_dtype dtype, int64_t n, fac_fft_plan **out) {
    FAC_CHECK(n <= LENGTH_LIMIT, FAC_ERR_OVERFLOW, "a Fourier transform of %lld points is too large", (long long)n);
    fac_fft_plan *p = fac__alloc_zero(sizeof *p);
    if (!p) return fac_error();
    p->kind = kind;
    p->dtype = dtype;
    p->n = n;
    p->bytes = (int64_t)sizeof *p;
    fac_status st = fill_plan(p);
    if (st != FAC_OK)
        plan_free(p);
    else
        *out = p;
    return st;
}

/* ---- keeping them ---------------------------------------------------------------------------------------------------------- */

static fac_mutex lock = FAC_MUTEX_INIT; /* all below, and users and last_use of kept plans */
static fac_fft_plan *kept[FAC_FFT_KEPT];
static int n_kept;
static int64_t kept_bytes, uses;

static fac_fft_plan *find_kept(fac_fft_kind kind, fac_dtype dtype, int64_t n) {
    for (int i = 0; i < n_kept; i++) {
        fac_fft_plan *p = kept[i];
        if (p->n == n && p->kind == kind && p->dtype == dtype) {
            p->users++;
            p->last_use = ++uses;
            return p;
        }
    }
    return NULL;
}

static int longest_unused(void) {
    int oldest = -1;
    for (int i = 0; i < n_kept; i++)
        if (kept[i]->users == 0 && (oldest < 0 || kept[i]->last_use < kept[oldest]->last_use)) oldest = i;
    return oldest;
}

static void drop(int i) {
    fac_fft_plan *p = kept[i];
    kept[i] = kept[--n_kept];
    kept_bytes -= p->bytes;
    plan_free(p);
}

/* A plan that finds no place is its user's alone. */
static void keep(fac_fft_plan *p) {
    if (p->bytes > FAC_FFT_KEPT_BYTES) return;
    for (int i; n_kept == FAC_FFT_KEPT || kept_bytes + p->bytes > FAC_FFT_KEPT_BYTES; drop(i))
        if ((i = longest_unused()) < 0) return;
    kept[n_kept++] = p;
    kept_bytes += p->bytes;
    p->last_use = ++uses;
}

/* Two threads may make the same plan at once: the second one's goes with its call. */
fac_status fac__fft_plan_take(fac_fft_kind kind, fac_dtype dtype, int64_t n, fac_fft_plan **out) {
    fac__mutex_lock(&lock);
    *out = find_kept(kind, dtype, n);
    fac__mutex_unlock(&lock);
    if (*out) return FAC_OK;
    fac_fft_plan *made = NULL;
    FAC_TRY(make_plan(kind, dtype, n, &made));
    fac__mutex_lock(&lock);
    *out = find_kept(kind, dtype, n);
    if (!*out) {
        made->users = 1;
        keep(*out = made);
    }
    fac__mutex_unlock(&lock);
    if (*out != made) plan_free(made);
    return FAC_OK;
}

static bool is_kept(const fac_fft_plan *p) {
    for (int i = 0; i < n_kept; i++)
        if (kept[i] == p) return true;
    return false;
}

void fac__fft_plan_give(fac_fft_plan *p) {
    if (!p) return;
    fac__mutex_lock(&lock);
    const bool last = --p->users == 0 && !is_kept(p);
    fac__mutex_unlock(&lock);
    if (last) plan_free(p);
}

int fac__fft_plans_kept(void) {
    fac__mutex_lock(&lock);
    const int n = n_kept;
    fac__mutex_unlock(&lock);
    return n;
}

void fac__fft_plans_trim(void) {
    fac__mutex_lock(&lock);
    for (int i; (i = longest_unused()) >= 0;) drop(i);
    fac__mutex_unlock(&lock);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------------------- */

/* Lengths are below 2^48, so that these products fit. */
static int64_t lane_bytes(const fac_fft_plan *p, int64_t points) { return points * 2 * p->lanes * real_size(p->dtype); }

int64_t fac__fft_group_bytes(const fac_fft_plan *p) { return 2 * lane_bytes(p, fac__max(p->core.n, p->n + 1)); }

void fac__fft_line_bytes(const fac_fft_plan *p, int64_t *out_lane, int64_t *out_middle, int64_t *out_work) {
    const fac_fft_core *c = &p->core;
    *out_lane = 2 * lane_bytes(p, fac__max(c->columns.n, c->rows.n));
    *out_middle = fac__div_up(c->columns.n, p->lanes) * lane_bytes(p, c->rows.n);
    *out_work = fac__div_up(c->n * 2 * real_size(p->dtype), TABLE_ALIGN) * TABLE_ALIGN;
}

int64_t fac__fft_stage_items(const fac_fft_line *l, fac_fft_stage stage) {
    const fac_fft_plan *p = l->plan;
    const fac_fft_kind paired = stage == FAC_FFT_ENTER ? FAC_FFT_TO_REAL : FAC_FFT_FROM_REAL;
    switch (stage) {
    case FAC_FFT_COLUMNS: return fac__div_up(p->core.rows.n, p->lanes);
    case FAC_FFT_ROWS: return fac__max(1, p->core.columns.n / p->lanes);
    case FAC_FFT_FILTER: return p->core.n;
    default:
        if (p->kind != paired) return p->inner;
        return p->inner < p->n ? p->inner / 2 + 1 : stage == FAC_FFT_ENTER ? p->n : p->n / 2 + 1;
    }
}
