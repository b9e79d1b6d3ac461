/* erf of a vector of doubles, within 0.8 ulp, for AVX-512. For *.isa.c files only.
   |x| lies in one of 16 intervals of 3/8, or beyond 6, where erf is 1. Permutations choose, by the number of the interval, its centre c,
   erf(c) and a polynomial P of |x| - c, a minimax fit of its own in 60 digits: erf(|x|) = erf(c) + (|x| - c) P(|x| - c). Centres are where
   erf(c) is nearly a double, within 2^-62. In the first interval c is 0 and |x| stands for erf(c), so that small results are exact, too. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_VERF_H
#define FAC_SRC_BACKEND_CPU_KERNELS_VERF_H

#include "backend/cpu/simd.h"

#if FAC_VECTOR_BYTES == 64
enum { FAC_ERF_TERMS = 13 };

static inline fac_vf64 fac__verf_f64(fac_vf64 x) {
    /* clang-format off */
    static const double centre[16] = {0, 0x1.2000002380000p-1, 0x1.dffffff7a0000p-1, 0x1.50000017f0000p+0, 0x1.b000000030000p+0, 0x1.07fffffac0000p+1,
        0x1.37fffffef8000p+1, 0x1.68000000a0000p+1, 0x1.97ffffff68000p+1, 0x1.c7fffffd48000p+1, 0x1.f7ffffff78000p+1,
        0x1.1400000460000p+2, 0x1.2c00002ee0000p+2, 0x1.43ffffd120000p+2, 0x1.5bffffd120000p+2, 0x1.73ffffd120000p+2},
        value[16] = {0, 0x1.25b8a8a89f19ap-1, 0x1.a1551a12be5bbp-1, 0x1.df85ea9757587p-1, 0x1.f74a6d9a3e801p-1, 0x1.fe307f2afa0bep-1,
        0x1.ffb5bdf67cc53p-1, 0x1.fff6dee89396cp-1, 0x1.ffff2436a216fp-1, 0x1.fffff039f9e67p-1, 0x1.ffffff233ee1dp-1,
        0x1.fffffff6d1e56p-1, 0x1.ffffffffb5be5p-1, 0x1.fffffffffe380p-1, 0x1.fffffffffff7bp-1, 0x1.ffffffffffffep-1},
        term[FAC_ERF_TERMS][16] = { /* from the highest power down */
            {0x1.3ba46c66d4d84p-14, -0x1.90df14f96f0b3p-14, -0x1.3813bf4e84d9fp-18, 0x1.a482ce20d0b56p-15, -0x1.8e09a6d038a5ep-17,
             -0x1.a1929fdc253e6p-17, 0x1.157635d63a638p-18, 0x1.00da4d99d4a18p-19, -0x1.103021dba9f5ap-21, -0x1.e5075d753c8ddp-23,
             0x1.2e53790ee075bp-27, 0x1.ee4fe6057f284p-27, 0x1.8851c40fd27fdp-29, 0x1.40a008c177e5bp-32, 0x1.4200fe9cd3d04p-36,
             0x1.a99112f009410p-41},
            {0x1.0c3804589dfc7p-14, 0x1.f91d365b913dcp-14, -0x1.a9a641719f85fp-13, -0x1.5337942bdacfbp-17, 0x1.5015b116206f1p-14,
             -0x1.8e33719892341p-18, -0x1.280ac3fadbe5ap-16, 0x1.7069cdf67c7ebp-21, 0x1.3940168a7b76ap-19, 0x1.02748d31d3534p-22,
             -0x1.177f8c46c9b72p-23, -0x1.757ba70ac05d2p-25, -0x1.acd4b9cfd40d0p-28, -0x1.2163cae1fffc3p-31, -0x1.f8c18cf039d4fp-36,
             -0x1.298e7b2d8736dp-40},
            {-0x1.d79435be2ecc0p-11, 0x1.437e6d30fa100p-11, 0x1.f573a86fa1bafp-13, -0x1.6bb61eb1170a1p-12, -0x1.039ac448eb913p-14,
             0x1.b0744e599ec48p-14, 0x1.1eed89409cd58p-16, -0x1.0aebe9e55c1a8p-16, -0x1.2b3f7277b126fp-18, 0x1.7475ded94c7a4p-21,
             0x1.0a17730c508a7p-21, 0x1.b0d64d4558504p-24, 0x1.84e7eeae78ad9p-27, 0x1.b9a964f90c274p-31, 0x1.4f7330db4a2d0p-35,
             0x1.5f77cd4b38be4p-40},
            {0x1.40c7b5f3f6a41p-16, -0x1.3625d5a9b732dp-10, 0x1.243ec06e2af0bp-10, 0x1.262a46f871c06p-11, -0x1.b882131f704f5p-12,
             -0x1.910024fcbcce2p-13, 0x1.2b1a764a267c5p-14, 0x1.7128077df0472p-15, 0x1.6cc61c3e09b8dp-23, -0x1.1c9c2fbb6f3ebp-18,
             -0x1.570e26fbfcc89p-20, -0x1.9fbe8c01a803dp-23, -0x1.35fbe4a0449c6p-26, -0x1.31c406db72505p-30, -0x1.9de254fe88df3p-35,
             -0x1.88e78cadb6e6ap-40},
            {0x1.560103b27e9ddp-8, -0x1.8d65fbeacb846p-9, -0x1.57b73d4432a0ep-9, 0x1.553ee2194a025p-10, 0x1.319f84ce559e9p-10,
             -0x1.92945c3b2e49cp-13, -0x1.381554eaec3b8p-12, -0x1.51ecf362ffac3p-15, 0x1.bf0ac1b79a1ccp-16, 0x1.a4fcab7e236c9p-17,
             0x1.57e93c1a9d3a1p-19, 0x1.4edda8078e9b8p-22, 0x1.aa776d9caf683p-26, 0x1.72e37e842853cp-30, 0x1.c38b752761649p-35,
             0x1.86ef42e7144a3p-40},
            {0x1.170e19e3a2e14p-20, 0x1.18f36c2cda3bcp-7, -0x1.cb8aae323324ep-9, -0x1.4cc91afcd85fdp-8, 0x1.3a9522f7d7e3dp-13,
             0x1.8eae12f7d941fp-10, 0x1.b325a92125e4ep-12, -0x1.f7872ddfab08bp-14, -0x1.94c36d5a43e36p-14, -0x1.bb6e2150e2395p-16,
             -0x1.175065856ef67p-18, -0x1.c73bee6264268p-22, -0x1.f8af9687ef6f7p-26, -0x1.8726203857afbp-30, -0x1.af254a0e11250p-35,
             -0x1.55dac3f68bc81p-40},
            {-0x1.b82d74def1b56p-6, 0x1.4a5481e697451p-7, 0x1.1a817c6b198a2p-6, 0x1.e377ee174a01ep-11, -0x1.9be7320a299e8p-8,
             -0x1.5478d7c834432p-9, 0x1.88cdc8c9fdd7ap-12, 0x1.36edde533a6bfp-11, 0x1.c1dd1434cfb23p-13, 0x1.696daf8f254fep-15,
             0x1.749204af69f90p-18, 0x1.04be02854e1bep-21, 0x1.fe694178a828ap-26, 0x1.63a31fb5b2f15p-30, 0x1.6502547135e53p-35,
             0x1.0456e47ad9bd0p-40},
            {0x1.96a506e97617cp-27, -0x1.7df888e14dae5p-5, -0x1.476542d4ff166p-9, 0x1.6d1d7258f888cp-6, 0x1.7e8755dfb2991p-7,
             -0x1.bbf7e12e669f4p-11, -0x1.897719af8bf2fp-9, -0x1.6b41871bfbe26p-10, -0x1.6c3dbfe6121adp-12, -0x1.d3842277ef6c4p-15,
             -0x1.9807756870459p-18, -0x1.f34b7d9f3f9eep-22, -0x1.b41f27b414b2ep-26, -0x1.1324fa3c14c1cp-30, -0x1.f9a3bdc7b3229p-36,
             -0x1.546144e54e43ep-41},
            {0x1.ce2f2172e2ab9p-4, -0x1.6410b00e88380p-7, -0x1.1d1f000fa33e7p-4, -0x1.3f4175b6f1e8dp-5, 0x1.69810624e7336p-9,
             0x1.aa2c075aaa780p-7, 0x1.d854f747f1b9dp-8, 0x1.1e84d0fcdd8dbp-9, 0x1.c08253832b840p-12, 0x1.e0a1cb5891680p-15,
             0x1.6b245d8811067p-18, 0x1.899dca0180eccp-22, 0x1.3575335a8d508p-26, 0x1.63a7195637692p-31, 0x1.2c6c2d29a7810p-36,
             0x1.76997a107b1eep-42},
            {0x1.80fe3f0f8daccp-36, 0x1.75bebc136133ap-3, 0x1.747e31d69d557p-4, -0x1.419fa235f950ep-6, -0x1.9647a30b03870p-5,
             -0x1.f155b513893acp-6, -0x1.5eb1c8a3732bep-7, -0x1.4630115b6738dp-9, -0x1.a51fb5157fbabp-12, -0x1.8320fc7b29950p-15,
             -0x1.013b045f3d680p-18, -0x1.f2f6f9718dab0p-23, -0x1.638bbc258d315p-27, -0x1.760ff1f8553fep-32, -0x1.2391e9ff9bef8p-37,
             -0x1.51b18ae1b0533p-43},
            {-0x1.812746b039464p-2, -0x1.9c41d106ab215p-4, 0x1.e4c99745415c9p-4, 0x1.5066cd99424c9p-3, 0x1.a3687c1e16beap-4,
             0x1.48b12821b9920p-5, 0x1.608985422e41bp-7, 0x1.0c2433234ad8bp-9, 0x1.26bf008e4ad11p-12, 0x1.d982bd83a0c17p-16,
             0x1.17f93e59d3f74p-19, 0x1.e9e05a2bb01fbp-24, 0x1.3e3805b40aa35p-28, 0x1.33cded82f5f8cp-33, 0x1.bc42c79076da5p-39,
             0x1.df2dbba116c3ep-45},
            {0x1.6e558da124327p-49, -0x1.d9a837faf27a6p-2, -0x1.c1cd848c52c28p-2, -0x1.0ed7441056d7dp-2, -0x1.c435059c1d8d4p-4,
             -0x1.0ee38476cb8b7p-5, -0x1.d9c2ea96b3ce9p-8, -0x1.3151075961543p-10, -0x1.23c436cba3e92p-13, -0x1.9f19738982444p-17,
             -0x1.b8d7f812c4f60p-21, -0x1.5e32ddb209f06p-25, -0x1.a0ce02d37fd4bp-30, -0x1.74105bd7a9d4cp-35, -0x1.f2a6d0a5ddf50p-41,
             -0x1.f610f93d4d697p-47},
            {0x1.06eba8214db68p-3, 0x1.a5074e007ff82p-1, 0x1.dfca27047311bp-2, 0x1.9cb5bcef4e0d5p-3, 0x1.0bf97e9549126p-4,
             0x1.06ae13dd44790p-6, 0x1.84ba3013e9951p-9, 0x1.b23a5a17f6f6cp-12, 0x1.6e2367e6fbc16p-15, 0x1.d2139831626fbp-19,
             0x1.bfd75568df012p-23, 0x1.44d26d258f481p-27, 0x1.63ac61c4a5699p-32, 0x1.25f9f68fa28c3p-37, 0x1.6ed2fdbb2b1d7p-43,
             0x1.59820c0b87b4ap-49}};
    /* clang-format on */
#define OF(table) _mm512_permutex2var_pd(_mm512_loadu_pd(table), which, _mm512_loadu_pd((table) + 8))
    const __m512d sign = _mm512_set1_pd(-0.0), size = _mm512_abs_pd((__m512d)x),
                  near = _mm512_min_pd(_mm512_set1_pd(0x1.7ffffffffffffp+2), size); /* NaN passes */
    const __m512i which =
        _mm512_cvtepi32_epi64(_mm512_cvttpd_epi32(_mm512_mul_pd(near, _mm512_set1_pd(0x1.5555555555555p+1))));
    const __m512d t = _mm512_sub_pd(near, OF(centre));
    __m512d p = OF(term[0]);
    for (int k = 1; k < FAC_ERF_TERMS; k++) p = _mm512_fmadd_pd(p, t, OF(term[k]));
    const __mmask8 first = _mm512_testn_epi64_mask(which, which);
    const __m512d r = _mm512_fmadd_pd(t, p, _mm512_mask_mov_pd(OF(value), first, near));
#undef OF
    return (fac_vf64)_mm512_or_pd(r, _mm512_and_pd((__m512d)x, sign));
}
#endif

#endif
