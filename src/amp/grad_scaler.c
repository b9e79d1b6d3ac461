/* The gradient scaler. Scale and count of good iterations are tensors on the CPU, which _amp_update_scale_ works on; where losses are on
   another device, a copy of the scale there, changed in place, is what they are multiplied by, so that a captured graph follows it. */
#include "core/handle.h"
#include "core/read.h"
#include "core/sparse.h"
#include "core/tensor_make.h"
#include "keywords_gen.h"
#include "ops_gen.h"
#include <facula/amp.h>
#include <math.h>

/* What was found in the gradients of one optimiser since the last update. */
typedef struct seen {
    fac_optimizer *o; /* only compared, and lent to fac_optimizer_step */
    bool unscaled, stepped;
    fac_tensor *found; /* owned, f32 on the CPU: not 0 if a gradient there is infinite or NaN */
    struct {
        fac_tensor **v; /* owned, bool on their devices: the same of other gradients, read when a step is taken */
        size_t n, cap;
    } elsewhere;
    size_t checked; /* gradients */
} seen;

struct fac_grad_scaler {
    bool enabled;
    bool used; /* a loss was scaled */
    double growth_factor, backoff_factor;
    int64_t growth_interval;
    fac_tensor *scale, *tracker; /* owned: f32, i32 on the CPU; NULL if it is disabled */
    fac_tensor *mirror;          /* owned, the scale where losses are; NULL: on the CPU */
    struct {
        seen *v;
        size_t n, cap;
    } seen;
};

/* ---- making --------------------------------------------------------------------------------------------------------- */

static fac_status check_scale(double scale) {
    FAC_CHECK((float)scale > 0 && isfinite((float)scale), FAC_ERR_ARGUMENT,
              "the scale of a gradient scaler should be positive and finite in float32, got %g", scale);
    return FAC_OK;
}

static fac_status check_growth(double factor) {
    FAC_CHECK(factor > 1 && isfinite(factor), FAC_ERR_ARGUMENT, "growth_factor should be more than 1, got %g", factor);
    return FAC_OK;
}

static fac_status check_backoff(double factor) {
    FAC_CHECK(factor > 0 && factor < 1, FAC_ERR_ARGUMENT, "backoff_factor should be between 0 and 1, got %g", factor);
    return FAC_OK;
}

static fac_status check_interval(int64_t interval) {
    FAC_CHECK(interval > 0 && interval < INT32_MAX, FAC_ERR_ARGUMENT,
              "growth_interval should be between 1 and %d, got %lld", INT32_MAX - 1, (long long)interval);
    return FAC_OK;
}

static fac_status check_settings(double scale, double growth, double backoff, int64_t interval) {
    FAC_TRY(check_scale(scale));
    FAC_TRY(check_growth(growth));
    FAC_TRY(check_backoff(backoff));
    return check_interval(interval);
}

static void forget_seen(fac_grad_scaler *s) {
    for (size_t i = 0; i < s->seen.n; i++) {
        seen *e = &s->seen.v[i];
        fac__unref(e->found);
        for (size_t j = 0; j < e->elsewhere.n; j++) fac__unref(e->elsewhere.v[j]);
        fac__free(e->elsewhere.v);
    }
    s->seen.n = 0;
}

void fac_grad_scaler_release(fac_grad_scaler *s) {
    if (!s) return;
    forget_seen(s);
    fac__free(s->seen.v);
    fac__unref(s->scale);
    fac__unref(s->tracker);
    fac__unref(s->mirror);
    fac__free(s);
}

fac_grad_scaler *(fac_grad_scaler_new)(const fac_grad_scaler_new_kw *kw) {
    fac_grad_scaler_new_kw k;
    FAC_TRY_NULL(fac_error());
    FAC_TRY_NULL(fac__open_grad_scaler_new_kw(&k, kw));
    if (k.enabled) FAC_TRY_NULL(check_settings(k.init_scale, k.growth_factor, k.backoff_factor, k.growth_interval));
    fac_grad_scaler *s = fac__alloc_zero(sizeof *s);
    if (!s) return NULL;
    s->enabled = k.enabled;
    s->growth_factor = k.growth_factor;
    s->backoff_factor = k.backoff_factor;
    s->growth_interval = k.growth_interval;
    fac_status st = FAC_OK;
    if (s->enabled) st = fac__scalar_tensor(fac_scalar_f_(k.init_scale), FAC_F32, &s->scale);
    if (s->enabled && st == FAC_OK) st = fac__scalar_tensor(fac_scalar_i_(0), FAC_I32, &s->tracker);
    if (st == FAC_OK) return s;
    fac_grad_scaler_release(s);
    return NULL;
}

static bool is_there(const fac_grad_scaler *s) { return fac__given(s, "gradient scaler"); }

static float scale_of(const fac_grad_scaler *s) { return *(const float *)fac__data(s->scale); }

/* ---- scaling ------------------------------------------------------------------------------------------------------------- */

/* The scale where a loss is: a number of the CPU goes with every device, and only the first device has a mirror. */
static fac_status scale_for(fac_grad_scaler *s, const fac_tensor *loss, fac_tensor **out) {
    *out = s->scale;
    if (!s->used && loss->device.type != FAC_CPU)
        FAC_TRY(fac__c__to_copy(s->scale, FAC_DTYPE_DEFAULT, FAC_STRIDED, loss->device, (fac_opt_num){0}, false,
                                FAC_FORMAT_DEFAULT, &s->mirror));
    if (s->mirror && fac_device_equal(s->mirror->device, loss->device)) *out = s->mirror;
    return FAC_OK;
}

fac_tensor *fac_grad_scaler_scale(fac_grad_scaler *s, fac_tensor *loss) {
    FAC_TRY_NULL(fac_error());
    if (!is_there(s)) return NULL;
    if (!s->enabled) return loss;
    FAC_OPEN(loss, "fac_grad_scaler_scale", "loss", NULL);
    if (!fac_dtype_is_floating((fac_dtype)loss->dtype)) {
        FAC_FAIL(FAC_ERR_DTYPE, "a gradient scaler scales floating losses, got %s",
                 fac_dtype_name((fac_dtype)loss->dtype));
        return NULL;
    }
    fac_tensor *scale;
    FAC_TRY_NULL(scale_for(s, loss, &scale));
    fac_tensor *scaled = fac__s_mul_Tensor(loss, scale);
    if (scaled) s->used = true;
    return fac__handle(scaled);
}

/* ---- unscaling ------------------------------------------------------------------------------------------------------------ */

static seen *find_seen(const fac_grad_scaler *s, const fac_optimizer *o) {
    for (size_t i = 0; i < s->seen.n; i++)
        if (s->seen.v[i].o == o) return &s->seen.v[i];
    return NULL;
}

/* That of the optimiser, made if it is not there; NULL on failure. */
static seen *seen_of(fac_grad_scaler *s, fac_optimizer *o) {
    seen *e = find_seen(s, o), new = {.o = o};
    if (e) return e;
    FAC_TRY_NULL(FAC_VEC_GROW(&s->seen));
    FAC_TRY_NULL(fac__scalar_tensor(fac_scalar_f_(0), FAC_F32, &new.found));
    s->seen.v[s->seen.n] = new;
    return &s->seen.v[s->seen.n++];
}

/* The values of a sparse gradient, each for one place: those that meet are added up first, in a gradient that takes its place. */
static fac_tensor *sparse_values(fac_tensor *parameter, fac_tensor *grad) {
    bool coalesced;
    FAC_TRY_NULL(fac__c_is_coalesced(grad, &coalesced));
    if (!coalesced) {
        grad = fac__s_coalesce(grad);
        if (!grad || fac_set_grad(parameter, fac__handle(grad)) != FAC_OK) return NULL;
    }
    return fac__s__values(grad);
}

/* What of a gradient is divided: its values, where it is sparse. A temporary, or borrowed from the parameter; NULL: there is none. */
static fac_status values_of(fac_tensor *parameter, fac_tensor **out) {
    fac_tensor *grad = fac_grad_of(parameter);
    *out = NULL;
    FAC_TRY(fac_error());
    FAC_OPEN_OPTIONAL(grad, "fac_grad_scaler_unscale", "gradient", fac_error());
    if (!grad) return FAC_OK;
    FAC_CHECK(
        grad->dtype != FAC_F16, FAC_ERR_DTYPE,
        "a gradient scaler was to unscale a gradient in float16; keep parameters in float32, autocast casts them");
    *out = fac__sparse_of(grad) ? sparse_values(parameter, grad) : grad;
    return fac_error();
}

/* The CPU's go into the list together, others are done one by one. */
static fac_status unscale_elsewhere(seen *e, fac_tensor *values, double inverse) {
    FAC_TRY(FAC_VEC_GROW(&e->elsewhere));
    fac_tensor *finite = fac__s_isfinite(values), *bad = finite ? fac__s_any(fac__s_logical_not(finite)) : NULL;
    if (!bad || !fac__s_mul__Scalar(values, fac_scalar_f_(inverse))) return fac_error();
    e->elsewhere.v[e->elsewhere.n++] = fac__ref(bad);
    return FAC_OK;
}

static fac_status unscale_all(const fac_grad_scaler *s, seen *e, fac_tensors parameters, fac_tensor **here) {
    const float inverse = (float)(1 / (double)scale_of(s));
    size_t n = 0;
    for (size_t i = 0; i < parameters.n; i++) { /* all are looked at before one is changed */
        fac_tensor *values;
        FAC_TRY(values_of(parameters.v[i], &values));
        if (values && values->device.type == FAC_CPU) here[n++] = values;
    }
    e->checked = n;
    for (size_t i = 0; i < parameters.n; i++) {
        fac_tensor *values;
        FAC_TRY(values_of(parameters.v[i], &values));
        if (!values || values->device.type == FAC_CPU) continue;
        FAC_TRY(unscale_elsewhere(e, values, inverse));
        e->checked++;
    }
    fac_tensor *factor;
    FAC_TRY(fac__scalar_tensor(fac_scalar_f_(inverse), FAC_F32, &factor));
    const fac_status st = fac__c__amp_foreach_non_finite_check_and_unscale_((fac_tensors){here, n}, e->found, factor);
    fac__unref(factor);
    return st;
}

static fac_status unscale(fac_grad_scaler *s, fac_optimizer *o) {
    FAC_CHECK(s->used, FAC_ERR_STATE,
              "a gradient scaler has nothing to unscale: no loss went through fac_grad_scaler_scale yet");
    seen *e = seen_of(s, o);
    if (!e) return fac_error();
    FAC_CHECK(!e->stepped, FAC_ERR_STATE, "fac_grad_scaler_unscale is being called after fac_grad_scaler_step");
    FAC_CHECK(!e->unscaled, FAC_ERR_STATE,
              "fac_grad_scaler_unscale has already been called on this optimiser since the last update");
    const fac_tensors parameters = fac_optimizer_parameters(o);
    FAC_TRY(fac_error());
    fac_tensor **here = fac__alloc_array(parameters.n + 1, sizeof *here);
    if (!here) return fac_error();
    FAC_NO_GRAD(g);
    fac_scope scope = fac_scope_begin();
    const fac_status st = unscale_all(s, e, parameters, here);
    fac_scope_end(&scope);
    fac__free(here);
    e->unscaled = st == FAC_OK;
    return st;
}

fac_status fac_grad_scaler_unscale(fac_grad_scaler *s, fac_optimizer *o) {
    FAC_TRY(fac_error());
    if (!is_there(s) || !fac__given(o, "optimiser")) return fac_error();
    return s->enabled ? unscale(s, o) : FAC_OK;
}

/* ---- steps -------------------------------------------------------------------------------------------------------------------- */

/* Brings together what was found, in e->found. */
static fac_status gather(seen *e, bool *out_found) {
    float *found = fac__data(e->found);
    for (; e->elsewhere.n; e->elsewhere.n--) {
        fac_tensor *bad = e->elsewhere.v[e->elsewhere.n - 1];
        if (fac__item(bad) != 0) *found = 1;
        FAC_TRY(fac_error());
        fac__unref(bad);
    }
    *out_found = *found != 0;
    return FAC_OK;
}

fac_status fac_grad_scaler_step(fac_grad_scaler *s, fac_optimizer *o) {
    FAC_TRY(fac_error());
    if (!is_there(s) || !fac__given(o, "optimiser")) return fac_error();
    if (!s->enabled) return fac_optimizer_step(o);
    const seen *before = find_seen(s, o);
    FAC_CHECK(!before || !before->stepped, FAC_ERR_STATE,
              "fac_grad_scaler_step has already been called for this optimiser since the last update");
    if (!before || !before->unscaled) FAC_TRY(unscale(s, o));
    seen *e = find_seen(s, o);
    FAC_CHECK(e->checked, FAC_ERR_STATE, "no parameter of the optimiser has a gradient, so nothing was checked");
    bool found;
    FAC_TRY(gather(e, &found));
    if (!found) FAC_TRY(fac_optimizer_step(o));
    e->stepped = true;
    return FAC_OK;
}

/* Into the mirror, if there is one. */
static fac_status show_scale(const fac_grad_scaler *s) {
    if (!s->mirror) return FAC_OK;
    FAC_NO_GRAD(g);
    FAC_SCOPE(scope);
    return fac__s_fill__Scalar(s->mirror, fac_scalar_f_(scale_of(s))) ? FAC_OK : fac_error();
}

static fac_status update_by_findings(fac_grad_scaler *s) {
    bool any = false;
    size_t checked = 0;
    for (size_t i = 0; i < s->seen.n; i++) {
        bool found;
        FAC_TRY(gather(&s->seen.v[i], &found));
        any |= found;
        checked += s->seen.v[i].unscaled && s->seen.v[i].checked;
    }
    FAC_CHECK(checked, FAC_ERR_STATE,
              "no gradients were checked before fac_grad_scaler_update: call fac_grad_scaler_step "
              "first, or give .new_scale");
    fac_tensor *found = NULL, *scale = NULL;
    FAC_TRY(fac__scalar_tensor(fac_scalar_f_(any), FAC_F32, &found));
    const fac_status st = fac__c__amp_update_scale_(s->scale, s->tracker, found, s->growth_factor, s->backoff_factor,
                                                    s->growth_interval, &scale);
    fac__unref(found);
    fac__unref(scale);
    return st;
}

fac_status(fac_grad_scaler_update)(fac_grad_scaler *s, const fac_grad_scaler_update_kw *kw) {
    fac_grad_scaler_update_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_grad_scaler_update_kw(&k, kw));
    if (!is_there(s)) return fac_error();
    if (!s->enabled) return FAC_OK;
    FAC_CHECK(s->used, FAC_ERR_STATE,
              "a gradient scaler has nothing to update: no loss went through fac_grad_scaler_scale yet");
    const fac_opt_num given = fac__plain_float(k.new_scale);
    if (given.set) {
        FAC_TRY(check_scale(k.new_scale));
        *(float *)fac__data(s->scale) = (float)k.new_scale;
    } else {
        FAC_TRY(update_by_findings(s));
    }
    forget_seen(s);
    return show_scale(s);
}

/* ---- settings ------------------------------------------------------------------------------------------------------------- */

bool fac_grad_scaler_is_enabled(const fac_grad_scaler *s) { return is_there(s) && s->enabled; }

double fac_grad_scaler_get_scale(const fac_grad_scaler *s) {
    if (!is_there(s)) return 0;
    return s->enabled ? (double)scale_of(s) : 1;
}

double fac_grad_scaler_growth_factor(const fac_grad_scaler *s) { return is_there(s) ? s->growth_factor : 0; }
double fac_grad_scaler_backoff_factor(const fac_grad_scaler *s) { return is_there(s) ? s->backoff_factor : 0; }
int64_t fac_grad_scaler_growth_interval(const fac_grad_scaler *s) { return is_there(s) ? s->growth_interval : 0; }

int64_t fac_grad_scaler_growth_tracker(const fac_grad_scaler *s) {
    return is_there(s) && s->enabled ? *(const int32_t *)fac__data(s->tracker) : 0;
}

fac_status fac_grad_scaler_set_growth_factor(fac_grad_scaler *s, double factor) {
    FAC_TRY(fac_error());
    if (!is_there(s)) return fac_error();
    FAC_TRY(check_growth(factor));
    s->growth_factor = factor;
    return FAC_OK;
}

fac_status fac_grad_scaler_set_backoff_factor(fac_grad_scaler *s, double factor) {
    FAC_TRY(fac_error());
    if (!is_there(s)) return fac_error();
    FAC_TRY(check_backoff(factor));
    s->backoff_factor = factor;
    return FAC_OK;
}

fac_status fac_grad_scaler_set_growth_interval(fac_grad_scaler *s, int64_t interval) {
    FAC_TRY(fac_error());
    if (!is_there(s)) return fac_error();
    FAC_TRY(check_interval(interval));
    s->growth_interval = interval;
    return FAC_OK;
}

/* ---- state -------------------------------------------------------------------------------------------------------------------- */

static fac_status put(fac_state *state, const char *name, fac_scalar v, fac_dtype dtype) {
    fac_tensor *t = NULL;
    FAC_TRY(fac__scalar_tensor(v, dtype, &t));
    const fac_status st = fac_state_set(state, name, fac__handle(t));
    fac__unref(t);
    return st;
}

static fac_status put_all(const fac_grad_scaler *s, fac_state *state) {
    FAC_TRY(put(state, "scale", fac_scalar_f_((double)scale_of(s)), FAC_F64));
    FAC_TRY(put(state, "growth_factor", fac_scalar_f_(s->growth_factor), FAC_F64));
    FAC_TRY(put(state, "backoff_factor", fac_scalar_f_(s->backoff_factor), FAC_F64));
    FAC_TRY(put(state, "growth_interval", fac_scalar_i_(s->growth_interval), FAC_I64));
    return put(state, "_growth_tracker", fac_scalar_i_(fac_grad_scaler_growth_tracker(s)), FAC_I64);
}

fac_state *fac_grad_scaler_state_dict(const fac_grad_scaler *s) {
    FAC_TRY_NULL(fac_error());
    if (!is_there(s)) return NULL;
    fac_state *state = fac_state_new();
    if (state && (!s->enabled || put_all(s, state) == FAC_OK)) return state;
    fac_state_free(state);
    return NULL;
}

static fac_status get(const fac_state *state, const char *name, double *out) {
    const fac_tensor *t = fac__header(fac_state_get(state, name));
    FAC_CHECK(t, FAC_ERR_NOT_FOUND, "the state of a gradient scaler has no '%s'", name);
    FAC_CHECK(t->numel == 1, FAC_ERR_ARGUMENT, "'%s' in the state of a gradient scaler should be one number, got %s",
              name, FAC_SHAPE_TEXT(t));
    *out = fac__item((fac_tensor *)(uintptr_t)t);
    return fac_error();
}

fac_status fac_grad_scaler_load_state_dict(fac_grad_scaler *s, const fac_state *state) {
    double scale, growth, backoff, interval, tracker;
    FAC_TRY(fac_error());
    if (!is_there(s) || !fac__given(state, "state")) return fac_error();
    if (!s->enabled) return FAC_OK;
    FAC_TRY(get(state, "scale", &scale));
    FAC_TRY(get(state, "growth_factor", &growth));
    FAC_TRY(get(state, "backoff_factor", &backoff));
    FAC_TRY(get(state, "growth_interval", &interval));
    FAC_TRY(get(state, "_growth_tracker", &tracker));
    FAC_CHECK(interval >= 1 && interval < INT32_MAX && tracker >= 0 && tracker < INT32_MAX, FAC_ERR_ARGUMENT,
              "the state of a gradient scaler has an interval of %g and a count of %g", interval, tracker);
    FAC_TRY(check_settings(scale, growth, backoff, (int64_t)interval));
    *(float *)fac__data(s->scale) = (float)scale;
    *(int32_t *)fac__data(s->tracker) = (int32_t)tracker;
    s->growth_factor = growth;
    s->backoff_factor = backoff;
    s->growth_interval = (int64_t)interval;
    return show_scale(s);
}
