/* Mixed precision: autocast, which runs each operator in the dtype that suits it, and the scaler that keeps small
   gradients from vanishing in f16. docs/mixed-precision.md has the operators.
   source: torch.amp */
#ifndef FACULA_AMP_H
#define FACULA_AMP_H

#include <facula/autograd.h>
#include <facula/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- autocast ---------------------------------------------------------------------------------------------------- */

/* What autocast was before a region of it began, to be put back. Plain data. */
typedef struct fac_autocast_guard {
    uint32_t was;
    bool open;
} fac_autocast_guard;
/* Begins a region in which calls of this thread that have a tensor on this kind of device cast their arguments
   first: operators that are fast and safe in a half (matrix products, convolutions) to .dtype, those that need range
   or precision (sums, norms, losses) to f32, what takes tensors of several dtypes to the widest. The others compute
   in the dtypes that they are given. Only floating tensors of the device are cast, f64 never, and only by forms that
   write none of their arguments. Casts are recorded, so gradients come back in the dtype of what was cast. Regions
   nest; they end in the reverse order.
   .device: f16 and bf16 on the CPU and on CUDA; the CPU if it is not given. An index is not looked at
   .dtype:  if it is not given that of the region around it, or bf16 on the CPU, f16 on CUDA
   .enabled: false casts nothing, within a region that does
   .cache_enabled: whether f32 leaves that require gradients (weights) are cast once, and the casts kept until the
            outermost region ends; if it is not given as in the region around it, or true. A weight that is changed
            meanwhile is cast anew
   errors:  ARGUMENT for another dtype; UNSUPPORTED for another kind of device. No region has begun then
   source:  torch.autocast */
FAC_API fac_autocast_guard fac_autocast_begin(const fac_autocast_begin_kw *kw);
/* Ends it. A pending error does not stop it; one that has ended, or not begun, is harmless. */
FAC_API void fac_autocast_end(fac_autocast_guard *g);
#if defined(__GNUC__)
#ifdef __cplusplus
/* Autocast for the rest of the block: FAC_AUTOCAST(g, .dtype = FAC_F16), where g is any name. */
#define FAC_AUTOCAST(g, ...) \
    fac_autocast_guard g __attribute__((cleanup(fac_autocast_end), unused)) = fac_autocast_begin(__VA_ARGS__)
#else
#define FAC_AUTOCAST(...) FAC_AUTOCAST_(__VA_ARGS__, ) /* FAC_AUTOCAST(g, .device, .dtype, .enabled, .cache_enabled) */
#define FAC_AUTOCAST_(g, ...) \
    fac_autocast_guard g __attribute__((cleanup(fac_autocast_end), unused)) = fac_autocast_begin(__VA_ARGS__)
#endif
#endif
/* Whether calls on this kind of device are cast in this thread now, and to what: the dtype that a region without one
   would have. */
FAC_API bool fac_is_autocast_enabled(fac_device_type type);
FAC_API fac_dtype fac_autocast_dtype(fac_device_type type);
/* Whether casts of weights are kept, and dropping those that are. */
FAC_API bool fac_is_autocast_cache_enabled(void);
FAC_API void fac_clear_autocast_cache(void);
/* What autocast does with calls of an operator on a kind of device: "lower" (casts to the region's dtype), "f32",
   "f32_dtype" (asks for f32 by the argument dtype), "widest", "refused", "none" (casts neither it nor what it is
   made of), or "" for nothing. Never NULL. */
FAC_API const char *fac_operator_autocast(const fac_operator *op, fac_device_type type);

/* fac_function_apply for a function that needs one dtype: where autocast is on for a device, the floating inputs
   there, but f64, are cast to `cast_inputs`, and forward and backward run without autocast. Elsewhere it is
   fac_function_apply; after that, backward runs in the autocast that forward had.
   errors: ARGUMENT for a dtype that is not floating; and as fac_function_apply
   source: torch.amp.custom_fwd(cast_inputs=...) */
FAC_API FAC_MUST fac_status fac_function_apply_cast(const fac_function *fn, void *user, fac_tensors inputs,
                                                    fac_dtype cast_inputs, fac_tensor **out_outputs);

/* ---- gradient scaling -------------------------------------------------------------------------------------------- */

/* Multiplies losses by a scale, so that gradients do not vanish in f16, and divides gradients by it before a step;
   lowers it when they overflow, raises it when they have not for a while. */
typedef struct fac_grad_scaler fac_grad_scaler;
/* A scaler, which the caller releases. Disabled, it hands losses through and steps as the optimiser would. NULL on
   failure.
   errors: ARGUMENT for a scale that is not positive and finite, a growth factor of 1 or less, a backoff factor that
           is not between 0 and 1, an interval below 1
   source: torch.amp.GradScaler */
FAC_API FAC_MUST fac_grad_scaler *fac_grad_scaler_new(const fac_grad_scaler_new_kw *kw);
/* NULL is allowed. */
FAC_API void fac_grad_scaler_release(fac_grad_scaler *s);
/* loss times the scale, recorded; disabled, loss itself. The scale is kept on the device of the first loss.
   own:    the result belongs to the innermost scope
   errors: DTYPE for a loss that is not floating */
FAC_API fac_tensor *fac_grad_scaler_scale(fac_grad_scaler *s, fac_tensor *loss);
/* Divides the gradients of the optimiser's parameters by the scale, in place (a sparse one by one that is
   coalesced), and notes whether any is infinite or NaN: to be called before gradients are looked at or clipped, at
   most once between updates. fac_grad_scaler_step does it where it was not.
   errors: STATE if it was done for this optimiser since the last update, after its step, or if nothing was scaled
           yet; DTYPE for a gradient in f16: parameters are to be in f32 */
FAC_API FAC_MUST fac_status fac_grad_scaler_unscale(fac_grad_scaler *s, fac_optimizer *o);
/* fac_optimizer_step, unless a gradient is infinite or NaN: then no parameter changes.
   errors: STATE if it was called for this optimiser since the last update, if nothing was scaled yet, or if none of
           its parameters has a gradient */
FAC_API FAC_MUST fac_status fac_grad_scaler_step(fac_grad_scaler *s, fac_optimizer *o);
/* Ends an iteration, after all its optimisers' steps: if any found an infinite or NaN gradient the scale is
   multiplied by the backoff factor, else after `growth_interval` iterations in a row without one by the growth
   factor. With .new_scale it becomes that.
   errors: STATE if nothing was scaled, or no optimiser's gradients were looked at; ARGUMENT for a new scale that is
           not positive and finite */
FAC_API FAC_MUST fac_status fac_grad_scaler_update(fac_grad_scaler *s, const fac_grad_scaler_update_kw *kw);
/* Whether it scales; the scale, 1 if it does not; its settings; iterations without overflow since the scale last
   changed. */
FAC_API bool fac_grad_scaler_is_enabled(const fac_grad_scaler *s);
FAC_API double fac_grad_scaler_get_scale(const fac_grad_scaler *s);
FAC_API double fac_grad_scaler_growth_factor(const fac_grad_scaler *s);
FAC_API double fac_grad_scaler_backoff_factor(const fac_grad_scaler *s);
FAC_API int64_t fac_grad_scaler_growth_interval(const fac_grad_scaler *s);
FAC_API int64_t fac_grad_scaler_growth_tracker(const fac_grad_scaler *s);
/* Other settings. errors: ARGUMENT as fac_grad_scaler_new; nothing changes then */
FAC_API FAC_MUST fac_status fac_grad_scaler_set_growth_factor(fac_grad_scaler *s, double factor);
FAC_API FAC_MUST fac_status fac_grad_scaler_set_backoff_factor(fac_grad_scaler *s, double factor);
FAC_API FAC_MUST fac_status fac_grad_scaler_set_growth_interval(fac_grad_scaler *s, int64_t interval);
/* "scale", "growth_factor", "backoff_factor", "growth_interval" and "_growth_tracker" as tensors without dimensions,
   to be taken after an update; empty if it is disabled. Freed with fac_state_free. Loading takes them over, unless
   the scaler is disabled; on an error nothing has changed.
   errors: NOT_FOUND for an entry that is missing; ARGUMENT for one that makes no sense */
FAC_API fac_state *fac_grad_scaler_state_dict(const fac_grad_scaler *s);
FAC_API FAC_MUST fac_status fac_grad_scaler_load_state_dict(fac_grad_scaler *s, const fac_state *state);

#ifdef __cplusplus
}
#endif
#include <facula/amp_macros.h>
#endif
