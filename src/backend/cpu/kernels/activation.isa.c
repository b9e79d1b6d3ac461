/* Loops of activations and their derivatives. */
#include "backend/cpu/half.h"
#include "backend/cpu/kernels/loop_macros.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/kernels/vexp.h"
#include "backend/cpu/loops.h"

#define FAC_LOOPS FAC_LOOPS_ACTIVATION
#define FAC_NUMBER_OF FAC_REAL_NUMBER

#define FAC_T float
#define FAC_TD FAC_F32
#define FAC_FN(name) name##_f32
#define FAC_MATH(name) FAC_SIMD(name, f32)
#define FAC_BUILTIN(name) __builtin_##name##f
#include "ops/scalar/activation.h"

#include "backend/cpu/kernels/loops_of_type.h"

#define FAC_T double
#define FAC_TD FAC_F64
#define FAC_FN(name) name##_f64
#define FAC_MATH(name) FAC_SIMD(name, f64)
#define FAC_BUILTIN(name) __builtin_##name
#include "ops/scalar/activation.h"

#include "backend/cpu/kernels/loops_of_type.h"

#if FAC_ISA_LEVEL >= 1
#define FAC_LOOPS_BF16(X)   \
    X(sigmoid, VALUE, 1, 0) \
    X(silu, VALUE, 1, 0) X(gelu_tanh, VALUE, 1, 0) X(silu_backward, VALUE, 2, 0) X(gelu_backward, VALUE, 2, 0)
FAC_LOOPS_BF16(FAC_BF16_LOOP)
#endif
#if FAC_ISA_LEVEL == 1
FAC_BF16_LOOP(gelu, VALUE, 1, 0)
#endif

#if FAC_ISA_LEVEL >= 2
/* x Phi(x) as simd_math.h has it, of numbers whose squares are exact, and by fits whose errors, 3e-5 and 4e-6, vanish in bfloat16. */
static inline fac_vf32 vgelu_of_bf16(fac_vf32 x) {
    const __m512 a = _mm512_min_ps(_mm512_set1_ps(15), _mm512_abs_ps((__m512)x)), s = _mm512_mul_ps(a, a);
    const __m512 magic = _mm512_set1_ps(0x1.8p+23f), t = _mm512_fmadd_ps(s, _mm512_set1_ps(-0x1.715476p-1f), magic);
    const __m512 n = _mm512_sub_ps(t, magic), z = _mm512_fmadd_ps(n, _mm512_set1_ps(0x1.62e430p+0f), s);
    __m512 e = _mm512_set1_ps(0x1.570b98p-9f);
    e = _mm512_fmadd_ps(e, z, _mm512_set1_ps(-0x1.57e730p-6f));
    e = _mm512_fmadd_ps(e, z, _mm512_set1_ps(0x1.fffe5ap-4f));
    e = _mm512_fmadd_ps(e, z, _mm512_set1_ps(-0x1.fffb0ep-2f));
    e = _mm512_fmadd_ps(e, z, _mm512_set1_ps(1));
    __m512 p = _mm512_fmadd_ps(a, _mm512_set1_ps(0x1.02920ap-4f), _mm512_set1_ps(0x1.1e678ap-2f));
    p = _mm512_fmadd_ps(p, a, _mm512_set1_ps(0x1.0001aep-1f));
    __m512 q = _mm512_fmadd_ps(a, _mm512_set1_ps(0x1.43bcd4p-3f), _mm512_set1_ps(0x1.696f18p-1f));
    q = _mm512_fmadd_ps(q, a, _mm512_set1_ps(0x1.5ba9e2p+0f));
    q = _mm512_fmadd_ps(q, a, _mm512_set1_ps(1));
    const __m512 part = _mm512_mul_ps(_mm512_mul_ps(p, a), _mm512_mul_ps(e, (__m512)fac__vinverse((fac_vf32)q)));
    const __mmask16 left = _mm512_cmp_ps_mask((__m512)x, _mm512_setzero_ps(), _CMP_LT_OQ);
    const __m512 top = _mm512_mask_mul_ps((__m512)x, left, (__m512)x, _mm512_setzero_ps());
    return (fac_vf32)_mm512_sub_ps(top, _mm512_scalef_ps(part, n));
}
static void loop_gelu_bf16(char *const *p, int64_t count, const fac_loop_args *args __attribute__((unused))) {
    enum { LANES = FAC_LANES_F32 };
    uint16_t *out = FAC_OPERAND(0, uint16_t);
    const uint16_t *a = FAC_OPERAND(1, const uint16_t);
    for (; count >= LANES; count -= LANES, a += LANES, out += LANES)
        fac_store_bf16(out, vgelu_of_bf16(fac_load_bf16(a)));
    if (count > 0) {
        uint16_t v[LANES] = {0};
        memcpy(v, a, (size_t)count * sizeof *a);
        fac_store_bf16(v, vgelu_of_bf16(fac_load_bf16(v)));
        memcpy(out, v, (size_t)count * sizeof *out);
    }
}
#endif

void FAC_ISA_NAME(fac__install_activation)(fac_loop (*table)[FAC_DTYPE_COUNT]) {
    install_f32(table);
    install_f64(table);
#if FAC_ISA_LEVEL >= 1
    FAC_LOOPS_BF16(FAC_BF16_INSTALL)
    FAC_BF16_INSTALL(gelu, VALUE, 1, 0)
#endif
}
