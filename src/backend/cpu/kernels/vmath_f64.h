/* Functions of a vector of doubles for AVX-512, each within the ulps that it names: faster than SLEEF's. For *.isa.c files only.
   Most choose an interval of 16 for each lane, and by its number, with permutations of tables in registers, a centre c and a minimax
   polynomial of the distance from c, fitted in 45 digits or more. Where the function's value at c is not nearly a double, what it lacks
   is the polynomial's constant term. NaN stays NaN. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_VMATH_F64_H
#define FAC_SRC_BACKEND_CPU_KERNELS_VMATH_F64_H

#include "backend/cpu/simd.h"

#include <float.h>
#include <stdbool.h>

#if FAC_VECTOR_BYTES == 64
/* Of a table of 16 the entries that the low bits of `which` name. */
#define FAC_CHOSEN(table) _mm512_permutex2var_pd(_mm512_loadu_pd(table), which, _mm512_loadu_pd((table) + 8))

enum { FAC_ERF_TERMS = 13, FAC_ERFC_TERMS = 15, FAC_ATAN_TERMS = 9 };

/* erf, within 0.87 ulp: |x| lies in one of 16 intervals of 3/8, or beyond 6, where erf is 1. erf(|x|) = erf(c) + (|x| - c) P(|x| - c). In
   the first interval c is 0 and |x| stands for erf(c), so that small results are exact, too. */
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
    const __m512d sign = _mm512_set1_pd(-0.0), size = _mm512_abs_pd((__m512d)x),
                  near = _mm512_min_pd(_mm512_set1_pd(0x1.7ffffffffffffp+2), size); /* NaN passes */
    const __m512i which =
        _mm512_cvtepi32_epi64(_mm512_cvttpd_epi32(_mm512_mul_pd(near, _mm512_set1_pd(0x1.5555555555555p+1))));
    const __m512d t = _mm512_sub_pd(near, FAC_CHOSEN(centre));
    __m512d p = FAC_CHOSEN(term[0]);
    for (int k = 1; k < FAC_ERF_TERMS; k++) p = _mm512_fmadd_pd(p, t, FAC_CHOSEN(term[k]));
    const __mmask8 first = _mm512_testn_epi64_mask(which, which);
    const __m512d r = _mm512_fmadd_pd(t, p, _mm512_mask_mov_pd(FAC_CHOSEN(value), first, near));
    return (fac_vf64)_mm512_or_pd(r, _mm512_and_pd((__m512d)x, sign));
}

/* 2^(i/16), and what of it the double lacks, by its size. */
/* clang-format off */
static const double fac__power[16] = {
    0x1p+0, 0x1.0b5586cf9890fp+0, 0x1.172b83c7d517bp+0, 0x1.2387a6e756238p+0, 0x1.306fe0a31b715p+0, 0x1.3dea64c123422p+0,
    0x1.4bfdad5362a27p+0, 0x1.5ab07dd485429p+0, 0x1.6a09e667f3bcdp+0, 0x1.7a11473eb0187p+0, 0x1.8ace5422aa0dbp+0,
    0x1.9c49182a3f09p+0, 0x1.ae89f995ad3adp+0, 0x1.c199bdd85529cp+0, 0x1.d5818dcfba487p+0, 0x1.ea4afa2a490dap+0};
static const double fac__power_rest[16] = {
    0, 0x1.79aa65d837b6dp-54, -0x1.01b15eaa59348p-55, 0x1.68efde3a8a894p-54, 0x1.34d754db0abb6p-55, 0x1.59f48a72a4c6dp-55,
    0x1.690cebb7aafbp-56, 0x1.063e1e21c5409p-54, -0x1.3b3efbf5e2228p-54, -0x1.b32dcb94da51dp-56, 0x1.db72fc1f0eab4p-55,
    0x1.1affc2b91ce27p-56, 0x1.c1a7792cb3387p-55, 0x1.36eae30af0cb3p-56, 0x1.4a385a63d07a7p-56, -0x1.ff7128fd391fp-55};
/* clang-format on */

/* erfc, within 1.4 ulp and down to the smallest number: exp(-x^2) erfcx(|x|), or 2 less that. The intervals of |x| + 2 are quarters of
   octaves; exp(-x^2) is 2^k 2^(j/16) (1 + q), with the low half of x^2 and of 2^(j/16) in q. */
static inline fac_vf64 fac__verfc_f64(fac_vf64 x) {
    /* clang-format off */
    static const double value[16] = {
        0x1.8a6adcda2ea92p-1, 0x1.038d54ea3d834p-1, 0x1.78a692138767ap-2, 0x1.23cfc2f1dc7ep-2, 0x1.afbb3f3b7343bp-3,
        0x1.3e0a99a0ee914p-3, 0x1.f5b2a049cf4c6p-4, 0x1.9d8a8f2284f2cp-4, 0x1.46dc6bf900f68p-4, 0x1.fe6cc4a0f9538p-5,
        0x1.a273c57e476cep-5, 0x1.627bcc27cb4aep-5, 0x1.204ddcd967373p-5, 0x1.cd9bc89b73548p-6, 0x1.80d1e88d3c62p-6,
        0x1.49ebde7878139p-6};
    static const double term[15][16] = { /* from the highest power down */
        {0x1.c9817119c865ep-15, 0x1.37605a8d89f3ep-18, 0x1.060d706c28838p-21, 0x1.0adbe7e3b793p-24, 0x1.12ad5a8b91cf2p-28,
         0x1.5e98ff2faedbp-33, 0x1.613df32b47859p-37, 0x1.feed8bc761ca9p-41, 0x1.86d9e9d529b2ap-45, 0x1.a090000ae489ep-50,
         0x1.9133457038fa2p-54, 0x1.27460254b4008p-57, 0x1.e4bbcadde2f0cp-62, 0x1.2267d4f1bc46bp-66, 0x1.3816f0be3b2a1p-70,
         0x1.f8ee262b8893bp-74},
        {-0x1.4371ff52e055fp-13, -0x1.e34f70587b39ap-17, -0x1.bde45264f2361p-20, -0x1.f0bcbed45e35cp-23, -0x1.2370f67830e67p-26,
         -0x1.b52b88aa6a398p-31, -0x1.fee5cbcae7c93p-35, -0x1.a7111368968b7p-38, -0x1.84212abf3a1e5p-42, -0x1.fc9d1ab530208p-47,
         -0x1.23f99a5d45c3fp-50, -0x1.f43dfa9f9976fp-54, -0x1.f29c2b0fb6fbcp-58, -0x1.71b64d788782dp-62, -0x1.da2a973e65261p-66,
         -0x1.be020a5de4a76p-69},
        {0x1.adabba7c68524p-12, 0x1.6360666d65e71p-15, 0x1.6a0c2681fb316p-18, 0x1.bc0559c1b2ef4p-21, 0x1.2018a02912bdfp-24,
         0x1.02bd52781813ep-28, 0x1.6345cb2291333p-32, 0x1.53e93e287365bp-35, 0x1.6952d4f47ca0ep-39, 0x1.299aaa99e0d68p-43,
         0x1.9c84379cee3d4p-47, 0x1.9e907b698ae34p-50, 0x1.e5743ab463ecp-54, 0x1.c63cdfbd2752ap-58, 0x1.5f5f55f85f925p-61,
         0x1.82d05fa4bbeb5p-64},
        {-0x1.1aab1e21ecc3bp-10, -0x1.02a2c5796f3cap-13, -0x1.22f10017ec71p-16, -0x1.88f0ad9976924p-19, -0x1.24c8e72be4435p-22,
         -0x1.381bbf4ef7a2ep-26, -0x1.f4c4d68de779p-30, -0x1.13ce55f015bd9p-32, -0x1.6164745f9ce87p-36, -0x1.67af89286ff97p-40,
         -0x1.2a0ca14799993p-43, -0x1.5d4b07f1c5c59p-46, -0x1.f174ef5708eb6p-50, -0x1.206ef32e2b4abp-53, -0x1.0a77bb0e2fa81p-56,
         -0x1.553e5ef207315p-59},
        {0x1.65b0b5bee00f6p-9, 0x1.6b98447124159p-12, 0x1.c57046ca29ee5p-15, 0x1.5273faa3c9b39p-17, 0x1.2350ab075430dp-20,
         0x1.724feba3cc8dcp-24, 0x1.5c64d4876d54fp-27, 0x1.bb09cccbbcfb4p-30, 0x1.578988d528455p-33, 0x1.b0c952186082dp-37,
         0x1.ad454a20fec97p-40, 0x1.258f5487fdbf9p-42, 0x1.fd666022e0365p-46, 0x1.6e08dd21ffe22p-49, 0x1.93e919ef08f1cp-52,
         0x1.2ce4438557ab4p-54},
        {-0x1.b181df76bf71cp-8, -0x1.ec0d1ccb09b6fp-11, -0x1.55c08c80d2503p-13, -0x1.1b2919f9d4442p-15, -0x1.1ad1dd1a8dfd3p-18,
         -0x1.af5dd63878f3cp-22, -0x1.de0985254e968p-25, -0x1.60002e1ef0109p-27, -0x1.4b0122ff7df43p-30, -0x1.02e7fceb326ffp-33,
         -0x1.33ef11b7d311ep-36, -0x1.ec0bb2c8030bbp-39, -0x1.040cb8def242dp-41, -0x1.cfbe33c6a74e9p-45, -0x1.31cbc742083fp-47,
         -0x1.091cffa28da64p-49},
        {0x1.f54ce183c859dp-7, 0x1.3f81896bdc97ap-9, 0x1.f0fe6fa9f3066p-12, 0x1.cb4c687922e48p-14, 0x1.0bcba217d6522p-16,
         0x1.ed2a95f88496p-20, 0x1.4354fb079d898p-22, 0x1.149cd77bdd5c5p-24, 0x1.3c768bc7b96cbp-27, 0x1.342c86fab7eb1p-30,
         0x1.b82d45065512cp-33, 0x1.9b410bab65597p-35, 0x1.09057434c1f86p-37, 0x1.2569bb65492d8p-40, 0x1.cea351cd367dfp-43,
         0x1.d2e2ed2020d7cp-45},
        {-0x1.132db78cf552ep-5, -0x1.8c97dd32ae0e1p-8, -0x1.5b8bc9419d84p-10, -0x1.68388845b02b1p-12, -0x1.edd42152ea56bp-15,
         -0x1.146bc3b72634ap-17, -0x1.aef8ea2825beap-20, -0x1.add7ac91b071bp-22, -0x1.2c2db81dae6fbp-24, -0x1.6ce662b936436p-27,
         -0x1.39728615be803p-29, -0x1.56cb0dcf6d8e7p-31, -0x1.0d97aa0c76701p-33, -0x1.72d79560353e9p-36, -0x1.5daa87aac9cfep-38,
         -0x1.9adb10aaca3c5p-40},
        {0x1.1d0c27d71e612p-4, 0x1.d43a7c7a717ap-7, 0x1.d1b695aabffacp-9, 0x1.106bd5c044111p-10, 0x1.ba8a67d11f9f4p-13,
         0x1.2f839e5468511p-15, 0x1.1ad6a32df395ap-17, 0x1.4a17e19bff5adp-19, 0x1.1a6f6b7b2c8ecp-21, 0x1.adc5f7f2a7f14p-24,
         0x1.bcbee2a20c5d7p-26, 0x1.1cf1ff6c65992p-27, 0x1.11bbc0ef805ccp-29, 0x1.d42321f86a24ap-32, 0x1.080e891d0472ap-33,
         0x1.695291871308p-35},
        {-0x1.146985bdac45dp-3, -0x1.054d68296477dp-5, -0x1.299636d6c9209p-7, -0x1.8bf716a8ec6bep-9, -0x1.809ce8acd7da6p-11,
         -0x1.460abd6b5aac9p-13, -0x1.6d54b133e1dafp-15, -0x1.f4e46d17a1e3p-17, -0x1.078bfe3609edep-18, -0x1.f773505c76068p-21,
         -0x1.3a555d7a8af6fp-22, -0x1.d868cc70fcd1ep-24, -0x1.156b53c660b42p-25, -0x1.271eee811d719p-27, -0x1.8e79b8190b5f9p-29,
         -0x1.3d8fbf04ca957p-30},
        {0x1.f0ac9d31f32bap-3, 0x1.1192f5bd68766p-4, 0x1.68a25a6641f1dp-6, 0x1.13648a11ffe72p-7, 0x1.435c04e20771cp-9,
         0x1.5632136d8cc3dp-11, 0x1.d00785f2ed4dcp-13, 0x1.774f4826dc852p-14, 0x1.e7af6eeff5f25p-16, 0x1.254381038c882p-17,
         0x1.baa1d9d8421e7p-19, 0x1.8682d21856143p-20, 0x1.18a0870879159p-21, 0x1.73a4ded43df82p-23, 0x1.2c675fe0705aap-24,
         0x1.16ecc51155d1p-25},
        {-0x1.97997ad330318p-2, -0x1.09e77d40e0214p-3, -0x1.9b635ac624ac6p-5, -0x1.6cb52fe48945cp-6, -0x1.06320768097e8p-7,
         -0x1.5e5d7e98990adp-9, -0x1.218ed930b239ap-10, -0x1.15976ddda3c9dp-11, -0x1.bf5070ee188bbp-13, -0x1.53c131b5cb21dp-14,
         -0x1.3672f098120aep-15, -0x1.41e750b2e0634p-16, -0x1.1b561359e7442p-17, -0x1.d36fe3dd90093p-19, -0x1.c48d27f6c7d01p-20,
         -0x1.e9ab4c8d1c29ep-21},
        {0x1.2b497df35fa2ep-1, 0x1.d90093ae10928p-3, 0x1.b56f45eef7e58p-4, 0x1.c8d0cef0f810dp-5, 0x1.98958a7a8e4a4p-6,
         0x1.5d581133378edp-7, 0x1.62c12cb5f7577p-8, 0x1.95252b932efe3p-9, 0x1.96a3de47d5b16p-10, 0x1.876373f4a0f3ap-11,
         0x1.b1c8923879d89p-12, 0x1.0898f73586fcfp-12, 0x1.1d875467f863ap-13, 0x1.259993494e472p-14, 0x1.54964558f64cep-15,
         0x1.ad8ccfc089fa9p-16},
        {-0x1.7c857b9b3c191p-1, -0x1.78cdd551ee51ap-2, -0x1.abaacdbfa8b07p-3, -0x1.0c3d538446447p-3, -0x1.3086d7f01ac86p-4,
         -0x1.5285d2eb1ef74p-5, -0x1.aa3eb6a946f7ep-6, -0x1.238ca71b93fc3p-6, -0x1.6e4b45246f92p-7, -0x1.c046699d77d51p-8,
         -0x1.2ddd3d589bfbp-8, -0x1.b1be47a913fc3p-9, -0x1.1f305584ff3edp-9, -0x1.705e8c068805p-10, -0x1.001a68f1b5449p-10,
         -0x1.7892d6052da5dp-11},
        {-0x1.b3e5e8f69dcbfp-57, -0x1.ec2134d851665p-55, 0x1.4797400f19192p-63, 0x1.3b1040eb318c2p-57, -0x1.9f40bca142466p-58,
         -0x1.902cb7976c65ep-60, -0x1.fc4bbbfb1695ap-58, -0x1.5b0277fa1ecb8p-58, -0x1.9c3bae12ae446p-59, 0x1.c95be62ca9a6dp-59,
         -0x1.6d026e15898ddp-59, -0x1.d520e73ec05a6p-60, 0x1.b3dbe954f2106p-61, -0x1.c826601a2f019p-65, -0x1.8f9595af81aacp-67,
         -0x1.d95a8796b0b9fp-62}};
    static const double of[6] = {
        0x1.a01b0cb76698bp-13, 0x1.6c17ede661f5cp-10, 0x1.11111110e0d94p-7, 0x1.55555554e8d7bp-5, 0x1.5555555555556p-3,
        0x1.0000000000001p-1};
    /* clang-format on */
    const __m512d one = _mm512_set1_pd(1), size = _mm512_min_pd(_mm512_set1_pd(28), _mm512_abs_pd((__m512d)x)),
                  moved = _mm512_add_pd(size, _mm512_set1_pd(2));
    __m512i which = _mm512_srli_epi64(_mm512_castpd_si512(moved), 50);
    const __m512d centre =
        _mm512_castsi512_pd(_mm512_or_epi64(_mm512_slli_epi64(which, 50), _mm512_set1_epi64(1LL << 49)));
    const __m512d t = _mm512_sub_pd(size, _mm512_sub_pd(centre, _mm512_set1_pd(2)));
    which = _mm512_sub_epi64(which, _mm512_set1_epi64(0x400 << 2));
    const __m512d at = FAC_CHOSEN(value);
    __m512d p = FAC_CHOSEN(term[0]);
    for (int i = 1; i < FAC_ERFC_TERMS; i++) p = _mm512_fmadd_pd(p, t, FAC_CHOSEN(term[i]));

    const __m512d magic = _mm512_set1_pd(0x1.8p52), square = _mm512_mul_pd(size, size),
                  low = _mm512_fmsub_pd(size, size, square),
                  rounded = _mm512_fnmadd_pd(square, _mm512_set1_pd(0x1.71547652b82fep+4), magic),
                  n = _mm512_sub_pd(rounded, magic);
    __m512d r = _mm512_fnmadd_pd(n, _mm512_set1_pd(0x1.62e42fefap-5), _mm512_sub_pd(_mm512_setzero_pd(), square));
    r = _mm512_sub_pd(_mm512_fnmadd_pd(n, _mm512_set1_pd(0x1.cf79abc9e3b3ap-44), r), low);
    which = _mm512_castpd_si512(rounded);
    __m512d q = _mm512_set1_pd(of[0]);
    for (int i = 1; i < 6; i++) q = _mm512_fmadd_pd(q, r, _mm512_set1_pd(of[i]));
    q = _mm512_fmadd_pd(_mm512_mul_pd(r, r), q, _mm512_add_pd(r, FAC_CHOSEN(fac__power_rest)));
    const __m512d whole = FAC_CHOSEN(fac__power), less = _mm512_fmadd_pd(q, _mm512_add_pd(at, p), p);
    const __m512d tail = _mm512_scalef_pd(_mm512_fmadd_pd(whole, at, _mm512_mul_pd(whole, less)),
                                          _mm512_mul_pd(n, _mm512_set1_pd(0x1p-4)));
    const __mmask8 left = _mm512_cmp_pd_mask((__m512d)x, _mm512_setzero_pd(), _CMP_LT_OQ);
    return (fac_vf64)_mm512_mask_sub_pd(tail, left, _mm512_add_pd(one, one), tail);
}

/* cosh and sinh, within 0.7 ulp: |x| = n ln2/16 + r, A and B are a quarter of 2^(n/16) and of 2^(-n/16), C and S the series of cosh(r) - 1
   and sinh(r). cosh is 2 (A + B + (A + B) C + (A - B) S), sinh 2 (A - B + (A - B) C + (A + B) S) or, below 0.36, S of |x| alone; what
   A, B and their sum lack is added with the small terms. Quarters are numbers where the result is. */
static inline __m512d fac__vhyperbolic_f64(__m512d x, bool sine) {
    const __m512d size = _mm512_abs_pd(x), a = _mm512_min_pd(_mm512_set1_pd(711), size), /* NaN passes */
        magic = _mm512_set1_pd(0x1.8p52);
    const __mmask8 far = _mm512_cmp_pd_mask(a, _mm512_set1_pd(0.36), _CMP_NLT_UQ);
    const __m512d product = _mm512_mul_pd(a, _mm512_set1_pd(0x1.71547652b82fep+4)),
                  rounded = _mm512_add_pd(sine ? _mm512_maskz_mov_pd(far, product) : product, magic),
                  n = _mm512_sub_pd(rounded, magic), turned = _mm512_sub_pd(magic, n);
    __m512d r = _mm512_fnmadd_pd(n, _mm512_set1_pd(0x1.62e42fefap-5), a);
    r = _mm512_fnmadd_pd(n, _mm512_set1_pd(0x1.cf79abc9e3b3ap-44), r);
    const __m512d s = _mm512_mul_pd(r, r), low = _mm512_mul_pd(n, _mm512_set1_pd(0x1p-4)), two = _mm512_set1_pd(2),
                  up_by = _mm512_sub_pd(low, two), down_by = _mm512_sub_pd(_mm512_set1_pd(-2), low);
    __m512i which = _mm512_castpd_si512(rounded);
    const __m512d up = _mm512_scalef_pd(FAC_CHOSEN(fac__power), up_by),
                  up_low = _mm512_mul_pd(up, FAC_CHOSEN(fac__power_rest));
    which = _mm512_castpd_si512(turned);
    const __m512d down = _mm512_scalef_pd(FAC_CHOSEN(fac__power), down_by), down_low = FAC_CHOSEN(fac__power_rest);
    const __m512d sum = _mm512_add_pd(up, down), less = _mm512_sub_pd(up, down);
    __m512d p = _mm512_set1_pd(1.0 / 5040);
    if (sine) {
        p = _mm512_fmadd_pd(_mm512_set1_pd(1.0 / 6227020800), s, _mm512_set1_pd(1.0 / 39916800));
        p = _mm512_fmadd_pd(_mm512_fmadd_pd(p, s, _mm512_set1_pd(1.0 / 362880)), s, _mm512_set1_pd(1.0 / 5040));
    }
    p = _mm512_fmadd_pd(_mm512_fmadd_pd(p, s, _mm512_set1_pd(1.0 / 120)), s, _mm512_set1_pd(1.0 / 6));
    const __m512d series = _mm512_fmadd_pd(_mm512_mul_pd(r, s), p, r);
    __m512d c = _mm512_fmadd_pd(_mm512_set1_pd(1.0 / 720), s, _mm512_set1_pd(1.0 / 24));
    c = _mm512_mul_pd(_mm512_fmadd_pd(c, s, _mm512_set1_pd(0.5)), s);
    const __m512d most = sine ? less : sum, other = sine ? sum : less;
    /* What A +- B has lost, and what A and B lack. */
    const __m512d off = _mm512_sub_pd(up, most), lost = sine ? _mm512_sub_pd(off, down) : _mm512_add_pd(off, down),
                  lack = sine ? _mm512_fnmadd_pd(down, down_low, up_low) : _mm512_fmadd_pd(down, down_low, up_low);
    const __m512d rest = _mm512_fmadd_pd(most, c, _mm512_fmadd_pd(other, series, _mm512_add_pd(lost, lack)));
    const __m512d y = _mm512_mul_pd(_mm512_add_pd(most, rest), two);
    return sine ? _mm512_mask_mov_pd(series, far, y) : y;
}
static inline fac_vf64 fac__vcosh_f64(fac_vf64 x) { return (fac_vf64)fac__vhyperbolic_f64((__m512d)x, false); }
static inline fac_vf64 fac__vsinh_f64(fac_vf64 x) {
    const __m512d sign = _mm512_and_pd((__m512d)x, _mm512_set1_pd(-0.0));
    return (fac_vf64)_mm512_or_pd(fac__vhyperbolic_f64((__m512d)x, true), sign);
}

/* log(1 + x), within 0.8 ulp: 1 + x = 2^k m + what the sum lacks, m in [3/4, 3/2), whose upper bits choose a number near 1 / m and its
   logarithm, both 1 and 0 next to m = 1. */
static inline fac_vf64 fac__vlog1p_f64(fac_vf64 x) {
    /* clang-format off */
    static const double inverse[16] = {
        0x1p+0, 0x1.d4p-1, 0x1.bap-1, 0x1.a4p-1, 0x1.9p-1, 0x1.7ep-1, 0x1.6cp-1, 0x1.5cp-1, 0x1.4ep+0, 0x1.41p+0, 0x1.35p+0, 0x1.2ap+0,
        0x1.1fp+0, 0x1.16p+0, 0x1.0dp+0, 0x1p+0};
    static const double log_high[16] = {
        0, 0x1.700d30aeacp-4, 0x1.2d1610c868p-3, 0x1.95a5adcf7p-3, 0x1.f991c6cb3cp-3, 0x1.2bef07cdc9p-2, 0x1.5d5bddf596p-2,
        0x1.8b639a88b3p-2, -0x1.1058bf9ae5p-2, -0x1.cf6354e09cp-3, -0x1.815c0a1436p-3, -0x1.371fc201e8p-3, -0x1.d4313d66ccp-4,
        -0x1.51b073f06p-4, -0x1.95c830ec9p-5, 0};
    static const double log_low[16] = {
        0, 0x1.c1e8da99ded32p-49, 0x1.39d6ccb81b4a1p-47, 0x1.7f22858a0ff6fp-47, -0x1.90d04cd7cc834p-44, 0x1.a9cfa4a5004f4p-45,
        -0x1.a0b2a08a465dcp-47, -0x1.05ae1e5e7047p-45, 0x1.4ab9d817d52cdp-44, -0x1.771239a07d55bp-45, 0x1.02a52f9201ce8p-44,
        -0x1.ee8779b2d8abcp-44, 0x1.9454379135713p-45, -0x1.83f69278e686ap-44, 0x1.c148297c5feb8p-45, 0};
    static const double of[9] = {
        0x1.48fb64872bd9dp-4, -0x1.98814dc5d25c2p-4, 0x1.c72e1ec9d7d41p-4, -0x1.00005ec3d5091p-3, 0x1.24924829fe3fcp-3,
        -0x1.55555546a208bp-3, 0x1.99999999a11c2p-3, -0x1.000000000047bp-2, 0x1.5555555555555p-2};
    /* clang-format on */
    const __m512d one = _mm512_set1_pd(1), given = (__m512d)x, u = _mm512_add_pd(given, one);
    /* The larger of 1 and x is taken from the sum first. */
    const __m512d large = _mm512_max_pd(given, one), small = _mm512_min_pd(given, one),
                  lack = _mm512_sub_pd(small, _mm512_sub_pd(u, large));
    const __m512d m = _mm512_getmant_pd(u, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_zero),
                  k = _mm512_add_pd(_mm512_getexp_pd(_mm512_mul_pd(u, _mm512_set1_pd(0x1.5555555555555p-1))), one);
    const __m512i which = _mm512_srli_epi64(_mm512_castpd_si512(m), 48);
    const __m512d i = FAC_CHOSEN(inverse), r = _mm512_fmsub_pd(m, i, one);
    /* Of the same size as r: what the sum lacks, by 2^k and by the inverse. */
    const __m512d rest = _mm512_mul_pd(_mm512_scalef_pd(lack, _mm512_sub_pd(_mm512_setzero_pd(), k)), i);
    __m512d p = _mm512_set1_pd(of[0]);
    for (int j = 1; j < 9; j++) p = _mm512_fmadd_pd(p, r, _mm512_set1_pd(of[j]));
    const __m512d square = _mm512_mul_pd(r, r);
    p = _mm512_mul_pd(square, _mm512_fmadd_pd(p, r, _mm512_set1_pd(-0.5)));
    const __m512d base = _mm512_fmadd_pd(k, _mm512_set1_pd(0x1.62e42fefa38p-1), FAC_CHOSEN(log_high)),
                  high = _mm512_add_pd(base, r);
    __m512d low = _mm512_fmadd_pd(k, _mm512_set1_pd(0x1.ef35793c7673p-45), FAC_CHOSEN(log_low));
    low = _mm512_add_pd(low, _mm512_fnmadd_pd(rest, r, rest));
    low = _mm512_add_pd(_mm512_add_pd(low, _mm512_add_pd(_mm512_sub_pd(base, high), r)), p);
    __m512d y = _mm512_add_pd(high, low);
    /* -1, less than -1, inf, NaN; and tiny numbers, whose sign a sum would lose. */
    const __mmask8 special = _mm512_cmp_pd_mask(u, _mm512_set1_pd(DBL_MAX), _CMP_NLE_UQ) |
                             _mm512_cmp_pd_mask(u, _mm512_setzero_pd(), _CMP_LE_OQ),
                   tiny = _mm512_cmp_pd_mask(_mm512_abs_pd(given), _mm512_set1_pd(0x1p-54), _CMP_LT_OQ);
    if (FAC_UNLIKELY(special)) {
        y = _mm512_mask_mov_pd(y, special, _mm512_set1_pd(__builtin_nan("")));
        y = _mm512_mask_mov_pd(y, _mm512_cmp_pd_mask(u, _mm512_setzero_pd(), _CMP_EQ_OQ),
                               _mm512_set1_pd(-__builtin_inf()));
        y = _mm512_mask_mov_pd(y, _mm512_cmp_pd_mask(u, _mm512_set1_pd(__builtin_inf()), _CMP_EQ_OQ), given);
    }
    return (fac_vf64)_mm512_mask_mov_pd(y, tiny, given);
}

/* atan, within 0.95 ulp: of y, |x| or its inverse if that is below 1, and pi/2 less that of the inverse. */
static inline fac_vf64 fac__vatan_f64(fac_vf64 x) {
    /* clang-format off */
    static const double at[16] = {
        0, 0x1.7ee182602f10fp-4, 0x1.3d6eee8c6626cp-3, 0x1.b90d7529260a2p-3, 0x1.18bf5a30bf178p-2, 0x1.530ad9951cd4ap-2,
        0x1.8b24d394a1b25p-2, 0x1.c0db4c94ec9fp-2, 0x1.f40dd0b541418p-2, 0x1.1255d9bfbd2a9p-1, 0x1.2958e59308e31p-1,
        0x1.3f13fb89e96f4p-1, 0x1.538f57b89061fp-1, 0x1.66d663923e087p-1, 0x1.78f6bbd5d315ep-1, 0x1.89ff5ff57f1f8p-1};
    static const double at_low[16] = {
        0, -0x1.cfb654c0c3d98p-58, 0x1.61a3b0ce9281bp-57, 0x1.17b10d2e0e5abp-61, 0x1.30ca4748b1bf9p-57, -0x1.2566480884082p-57,
        0x1.b6d0ba3748fa8p-56, -0x1.cc1ce70934c34p-56, -0x1.a3992dc382a23p-57, -0x1.2bdaee1c0ee35p-58, -0x1.09e73b0c6c087p-56,
        0x1.ecf8b492644fp-56, -0x1.1bb74abda520cp-55, -0x1.6ea6febe8bbbap-56, 0x1.406a08980374p-55, -0x1.55b9a5e177a1bp-55};
    static const double beyond[16] = {
        0x1.921fb54442d18p+0, 0x1.7a319d1e3fe07p+0, 0x1.6a71d772b60cbp+0, 0x1.5afe069f1e104p+0, 0x1.4befdeb8130bap+0,
        0x1.3d5cfedefb9c6p+0, 0x1.2f56805f1a64fp+0, 0x1.21e8e21f07a9cp+0, 0x1.151c4116f2812p+0, 0x1.08f4c864643c4p+0,
        0x1.fae684f57ccp-1, 0x1.e52b6efe9c33cp-1, 0x1.d0b012cff5412p-1, 0x1.bd6906f6479aap-1, 0x1.ab48aeb2b28d2p-1, 0x1.9a400a9306839p-1};
    static const double beyond_low[16] = {
        0x1.1a62633145c07p-54, 0x1.775dc87d51fep-54, -0x1.11d212e88c8fdp-54, 0x1.8330116e9a3b9p-58, 0x1.e89234905f11p-55,
        -0x1.81e1a79b537d2p-55, -0x1.4d472d7231f8dp-56, 0x1.8d699cf392f14p-54, 0x1.4ed588e9b614bp-54, -0x1.a5bfdbd9f2a2cp-55,
        -0x1.46479c173e7afp-55, 0x1.3e486c1959596p-55, -0x1.5f07ddbf9ebccp-56, -0x1.13e7ba3e2ea15p-55, 0x1.e8b57b951019bp-56,
        -0x1.d6064eeff375dp-57};
    static const double of[9][16] = { /* from the highest power down */
        {0x1.b61f4c5cb2bcbp-4, 0x1.23379c2f5ee94p-4, 0x1.1e0fd645a3307p-6, -0x1.08093decefdccp-5, -0x1.f7cb83981e972p-5,
         -0x1.0f578fc4abee3p-4, -0x1.b084b0be32da3p-5, -0x1.02914f138a72bp-5, -0x1.743e14b32a687p-7, 0x1.95db0ec262493p-9,
         0x1.64980db167e41p-7, 0x1.b3f19d9d5787bp-7, 0x1.957b765873a03p-7, 0x1.43d9444d6c5c5p-7, 0x1.cde90d05a1cbbp-8,
         0x1.28b9280a46076p-8},
        {0x1.51f4ee212dd55p-11, 0x1.4f82cb732544cp-4, 0x1.b6e71c346814dp-4, 0x1.a3319824f60c9p-4, 0x1.328392471d7e7p-4,
         0x1.3616f28e16062p-5, 0x1.ed85e8d03a428p-9, -0x1.491bd49ea3951p-6, -0x1.05dc984ad2bbbp-5, -0x1.165555c46f714p-5,
         -0x1.e780e5669111dp-6, -0x1.74bcc319fb802p-6, -0x1.f93d919861b25p-7, -0x1.2ad800e2f8989p-7, -0x1.1dd74c45b5a9ap-8,
         -0x1.27f239ad6bbebp-10},
        {-0x1.24aa30efb5c34p-3, -0x1.c247255faeefdp-4, -0x1.f634cca33b312p-5, -0x1.f6cdebeb8d6d7p-8, 0x1.320e3280f896ep-5,
         0x1.0ce590fd3f221p-4, 0x1.361bf8fc191fp-4, 0x1.2330d26b65546p-4, 0x1.d797f0df29d22p-5, 0x1.4d8f0be8236cp-5,
         0x1.92deaa2a1ed57p-6, 0x1.75a525c9f8668p-7, 0x1.ee0b5e1b592eep-10, -0x1.12637503273f6p-8, -0x1.ea930cf392195p-8,
         -0x1.202e900d0277ap-7},
        {0x1.de5bb52d16d1dp-20, -0x1.61b6309cc9a69p-4, -0x1.fd07cd5b01b1bp-4, -0x1.1d3af522a371bp-3, -0x1.0ee41d5b6c621p-3,
         -0x1.beb4031f344d9p-4, -0x1.3d7ce29b73db5p-4, -0x1.7056fab518ec5p-5, -0x1.1008b2caea437p-6, 0x1.432db4b25ec6bp-8,
         0x1.3991cbd5ea68cp-6, 0x1.b874b1ecd177fp-6, 0x1.e5e10c2c9910fp-6, 0x1.dbbe5986cc56cp-6, 0x1.b07d1fec2b0acp-6,
         0x1.752d5144423ddp-6},
        {0x1.9999943d6f99ap-3, 0x1.65c1f43ff00f7p-3, 0x1.1381bbe964388p-3, 0x1.599799e6d0ebfp-4, 0x1.0d08b8436e2f4p-5,
         -0x1.a3464c2590739p-7, -0x1.888285861d73dp-5, -0x1.220d267b1b6bfp-4, -0x1.5092724ded965p-4, -0x1.5896c5336f2dcp-4,
         -0x1.4532a7caadcdap-4, -0x1.211d2610cf015p-4, -0x1.ea517d4d11c65p-5, -0x1.8f7ccf34ba8ccp-5, -0x1.39f90aa1bfecep-5,
         -0x1.dc97bfbe7035fp-6},
        {0x1.10b388116dbc2p-31, 0x1.6f88578dbe177p-4, 0x1.1b795e8d04321p-3, 0x1.61d22d6160c0fp-3, 0x1.872ffdf02a24dp-3,
         0x1.8d22997d33599p-3, 0x1.7913279fde18ap-3, 0x1.526def72a8117p-3, 0x1.20e80b75d4836p-3, 0x1.d6850f98c65a5p-4,
         0x1.6d4c43fca6ddep-4, 0x1.0d00c1b17dae2p-4, 0x1.72d3716747c37p-5, 0x1.cfb0b3006e8cfp-6, 0x1.e2516fb1a72d3p-7,
         0x1.149fc54f485eep-8},
        {-0x1.5555555562ca8p-2, -0x1.43b8f2037b97ep-2, -0x1.264053fd62b42p-2, -0x1.fc2b8650d332ep-3, -0x1.9e5aef76f9fe5p-3,
         -0x1.3b3493403e0adp-3, -0x1.b3ebc8761b17cp-4, -0x1.006f45a36f1b6p-4, -0x1.8d31fd7365ebdp-6, 0x1.fcb3101e4cbbcp-8,
         0x1.104979386fd57p-5, 0x1.ae63f4c5d36ffp-5, 0x1.0fb5da3a11becp-4, 0x1.3514c8be133a1p-4, 0x1.4ad44144fffacp-4,
         0x1.5447b0136e69cp-4},
        {0x1.0429d4c08be9cp-47, -0x1.7956846635bd8p-4, -0x1.30eddb7d1698ap-3, -0x1.980467f79bf8ap-3, -0x1.eea659814caf3p-3,
         -0x1.1988d432f590dp-2, -0x1.327cb9d57b907p-2, -0x1.42a378d380781p-2, -0x1.4ae10df24b2e1p-2, -0x1.4c5b37fead5c2p-2,
         -0x1.485142f6d4579p-2, -0x1.3ffd23da059f4p-2, -0x1.347ecdb5be2e2p-2, -0x1.26d0aed65571bp-2, -0x1.17c35177d9a83p-2,
         -0x1.07fdeba010926p-2},
        {0, -0x1.1d7da54c14d13p-7, -0x1.8677949f1d877p-6, -0x1.76194a330e8dbp-5, -0x1.2c3ff12c3ff13p-4, -0x1.b0da3700393c9p-4,
         -0x1.221e7898c8dap-3, -0x1.70ef65ddf9d9ep-3, -0x1.c2c743440bb2dp-3, -0x1.0ae7c949c00bdp-2, -0x1.343f9b58f1d88p-2,
         -0x1.5cce61ea920cep-2, -0x1.841d2fa90ffd8p-2, -0x1.a9d6d16a2aef3p-2, -0x1.cdc2c7957b66dp-2, -0x1.efc00840ffdfp-2}};
    /* clang-format on */
    const __m512d one = _mm512_set1_pd(1), size = _mm512_abs_pd((__m512d)x),
                  most = _mm512_min_pd(_mm512_set1_pd(0x1p+600), size);
    const __mmask8 far = _mm512_cmp_pd_mask(size, one, _CMP_GT_OQ);
    __m512d inverse = _mm512_rcp14_pd(most), lack = _mm512_fnmadd_pd(inverse, most, one);
    inverse = _mm512_fmadd_pd(inverse, _mm512_fmadd_pd(lack, lack, lack), inverse);
    lack = _mm512_fnmadd_pd(inverse, most, one);
    const __m512d y = _mm512_mask_mov_pd(size, far, inverse);
    const __m512d magic = _mm512_set1_pd(0x1.8p52), /* rounding down, since the nearest of y 16 - 1/2 is taken */
        rounded =
            _mm512_add_pd(_mm512_max_pd(_mm512_fmsub_pd(y, _mm512_set1_pd(0x1.fffffffffffffp+3), _mm512_set1_pd(0.5)),
                                        _mm512_setzero_pd()),
                          magic);
    const __m512i which = _mm512_castpd_si512(rounded);
    const __m512d n = _mm512_sub_pd(rounded, magic);
    const __mmask8 first = _mm512_cmp_pd_mask(n, _mm512_setzero_pd(), _CMP_EQ_OQ);
    const __m512d centre = _mm512_maskz_fmadd_pd((__mmask8)~first, n, _mm512_set1_pd(0x1p-4), _mm512_set1_pd(0x1p-5));
    __m512d t = _mm512_sub_pd(y, centre);
    t = _mm512_mask3_fmadd_pd(lack, inverse, t, far);
    __m512d p = FAC_CHOSEN(of[0]);
    for (int i = 1; i < FAC_ATAN_TERMS; i++) p = _mm512_fmadd_pd(p, t, FAC_CHOSEN(of[i]));
    const __m512d near = _mm512_add_pd(FAC_CHOSEN(at), _mm512_add_pd(t, _mm512_fmadd_pd(t, p, FAC_CHOSEN(at_low)))),
                  past = _mm512_add_pd(FAC_CHOSEN(beyond),
                                       _mm512_sub_pd(FAC_CHOSEN(beyond_low), _mm512_fmadd_pd(t, p, t)));
    const __m512d sign = _mm512_and_pd((__m512d)x, _mm512_set1_pd(-0.0));
    return (fac_vf64)_mm512_or_pd(_mm512_mask_mov_pd(near, far, past), sign);
}

#define FAC_VTRIG_MOST_F64 100000.0

/* Whether any lane's sine, cosine and tangent are not to be had here. */
static inline bool fac__vtrig_far_f64(fac_vf64 x) {
    return _mm512_cmp_pd_mask(_mm512_abs_pd((__m512d)x), _mm512_set1_pd(FAC_VTRIG_MOST_F64), _CMP_GT_OQ) != 0;
}

/* |x| as some right angles, whose number's low bits are returned, and high + low, |high| <= pi/4, by pi/2 in three parts. */
static inline __m512i fac__vtrig_reduce_f64(__m512d size, __m512d *high, __m512d *low) {
    const __m512d magic = _mm512_set1_pd(0x1.8p52),
                  turns = _mm512_fmadd_pd(size, _mm512_set1_pd(0x1.45f306dc9c883p-1), magic),
                  n = _mm512_sub_pd(turns, magic), c = _mm512_set1_pd(0x1.1a62633145c07p-54);
    const __m512d r = _mm512_fnmadd_pd(n, _mm512_set1_pd(0x1.921fb54442d18p+0), size), p = _mm512_mul_pd(n, c),
                  h = _mm512_sub_pd(r, p), moved = _mm512_sub_pd(r, h);
    const __m512d lost = _mm512_fmsub_pd(n, c, p), l = _mm512_sub_pd(_mm512_sub_pd(moved, p), lost);
    *high = h;
    *low = _mm512_fmadd_pd(n, _mm512_set1_pd(0x1.f1976b7ed8fbcp-110), l);
    return _mm512_castpd_si512(turns);
}

enum { FAC_TRIG_TERMS = 7 };
static const double fac__sine_terms[FAC_TRIG_TERMS] = {
    -0x1.ab17bdcbd3414p-41, 0x1.61217ee5cca1bp-33, -0x1.ae64541295cdfp-26, 0x1.71de3a54607a5p-19,
    -0x1.a01a01a019937p-13, 0x1.111111111111p-7,   -0x1.5555555555555p-3};
static const double fac__cosine_terms[FAC_TRIG_TERMS] = {
    0x1.ab78473be59d7p-45, -0x1.9394b9eb4d56dp-37, 0x1.1eed8deb82809p-29, -0x1.27e4fb7712ca2p-22,
    0x1.a01a01a019d0ap-16, -0x1.6c16c16c16c16p-10, 0x1.5555555555555p-5};

/* The sine of |x| and `more` right angles, within 0.8 ulp: a lane's polynomial is the sine's or the cosine's. */
static inline __m512d fac__vtrig_f64(__m512d size, int more) {
    __m512d h, l;
    const __m512i n = _mm512_add_epi64(fac__vtrig_reduce_f64(size, &h, &l), _mm512_set1_epi64(more));
    const __mmask8 odd = _mm512_test_epi64_mask(n, _mm512_set1_epi64(1));
    const __m512d s = _mm512_mul_pd(h, h), half = _mm512_set1_pd(-0.5), one = _mm512_set1_pd(1);
#define OF(i) _mm512_mask_mov_pd(_mm512_set1_pd(fac__sine_terms[i]), odd, _mm512_set1_pd(fac__cosine_terms[i]))
    __m512d p = OF(0);
    for (int i = 1; i < FAC_TRIG_TERMS; i++) p = _mm512_fmadd_pd(p, s, OF(i));
#undef OF
    /* h + (l - l s/2 + h s P) or, with 1 - s/2 = w + what is lost, w + (lost - h l + s^2 P) */
    const __m512d w = _mm512_fmadd_pd(s, half, one), lost = _mm512_fmadd_pd(s, half, _mm512_sub_pd(one, w));
    const __m512d whole = _mm512_mask_mov_pd(h, odd, w), factor = _mm512_mul_pd(s, _mm512_mask_mov_pd(h, odd, s));
    const __m512d rest =
        _mm512_mask3_fnmadd_pd(h, l, _mm512_mask_mov_pd(_mm512_fmadd_pd(_mm512_mul_pd(l, s), half, l), odd, lost), odd);
    const __m512d y = _mm512_add_pd(whole, _mm512_fmadd_pd(factor, p, rest));
    return _mm512_castsi512_pd(
        _mm512_xor_epi64(_mm512_castpd_si512(y), _mm512_slli_epi64(_mm512_and_epi64(n, _mm512_set1_epi64(2)), 62)));
}
static inline fac_vf64 fac__vsin_f64(fac_vf64 x) {
    const __m512d sign = _mm512_and_pd((__m512d)x, _mm512_set1_pd(-0.0));
    return (fac_vf64)_mm512_xor_pd(fac__vtrig_f64(_mm512_abs_pd((__m512d)x), 0), sign);
}
static inline fac_vf64 fac__vcos_f64(fac_vf64 x) { return (fac_vf64)fac__vtrig_f64(_mm512_abs_pd((__m512d)x), 1); }

/* The tangent, within 1 ulp. Of h it is a quotient, h (1 + s N(s)) over 1 + s D(s) with s = h^2, a fit of relative error 8e-18, and of
   h + l by the theorem of addition; after an odd number of right angles it is the inverse less than no quotient. The quotient is
   corrected by what its product with the divisor lacks. */
static inline fac_vf64 fac__vtan_f64(fac_vf64 x) {
    __m512d h, l;
    const __m512i n = fac__vtrig_reduce_f64(_mm512_abs_pd((__m512d)x), &h, &l);
    const __mmask8 odd = _mm512_test_epi64_mask(n, _mm512_set1_epi64(1));
    const __m512d s = _mm512_mul_pd(h, h), one = _mm512_set1_pd(1), d1 = _mm512_set1_pd(-0x1.dde93c8670d46p-2);
    __m512d p = _mm512_fmadd_pd(_mm512_set1_pd(-0x1.2b72240e66e75p-16), s, _mm512_set1_pd(0x1.c0ccaa2e7b179p-9));
    p = _mm512_fmadd_pd(p, s, _mm512_set1_pd(-0x1.1127ce6236fe1p-3));
    __m512d q = _mm512_fmadd_pd(_mm512_set1_pd(0x1.0b22d822e1191p-21), s, _mm512_set1_pd(-0x1.46d1e6afbd9cep-12));
    q = _mm512_fmadd_pd(q, s, _mm512_set1_pd(0x1.a46cfa34f5ff3p-6));
    const __m512d w = _mm512_fmadd_pd(s, d1, one), lost = _mm512_fmadd_pd(s, d1, _mm512_sub_pd(one, w));
    /* Both as high + low, which of h + l take in l times the other, or less than none of it. */
    const __m512d more = _mm512_mul_pd(_mm512_mul_pd(s, h), p), less = _mm512_fmadd_pd(_mm512_mul_pd(q, s), s, lost);
    const __m512d up = _mm512_add_pd(h, more), down = _mm512_add_pd(w, less);
    const __m512d up_low = _mm512_fmadd_pd(l, down, _mm512_add_pd(_mm512_sub_pd(h, up), more)),
                  down_low = _mm512_fnmadd_pd(l, up, _mm512_add_pd(_mm512_sub_pd(w, down), less));
    const __m512d over = _mm512_mask_mov_pd(down, odd, up), over_low = _mm512_mask_mov_pd(down_low, odd, up_low),
                  top = _mm512_mask_mov_pd(up, odd, down), top_low = _mm512_mask_mov_pd(up_low, odd, down_low);
    const __m512d guess = _mm512_rcp14_pd(over), e = _mm512_fnmadd_pd(guess, over, one),
                  inverse = _mm512_fmadd_pd(guess, _mm512_fmadd_pd(e, e, e), guess), y = _mm512_mul_pd(top, inverse);
    const __m512d left = _mm512_add_pd(_mm512_fnmadd_pd(y, over, top), _mm512_fnmadd_pd(y, over_low, top_low));
    const __m512i signs = _mm512_xor_epi64(_mm512_castpd_si512((__m512d)x), _mm512_slli_epi64(n, 63)),
                  tangent = _mm512_castpd_si512(_mm512_fmadd_pd(left, inverse, y));
    enum { A_XOR_B_AND_C = 0x78 };
    return (fac_vf64)_mm512_castsi512_pd(
        _mm512_ternarylogic_epi64(tangent, signs, _mm512_set1_epi64(INT64_MIN), A_XOR_B_AND_C));
}
#undef FAC_CHOSEN
#endif

#endif
