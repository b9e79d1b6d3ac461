/* Initial values of parameters. Each function fills a tensor in place, without recording, and returns it. */
#ifndef FACULA_INIT_H
#define FACULA_INIT_H

#include <facula/keywords.h>
#include <facula/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The factor by which the standard deviation of weights grows behind a nonlinearity: "linear", "conv1d" ...
   "conv_transpose3d", "sigmoid" 1, "tanh" 5/3, "relu" sqrt(2), "leaky_relu" sqrt(2 / (1 + param^2)), with a slope
   of 0.01 unless given, "selu" 3/4. A failure gives NaN.
   errors: ARGUMENT for another word
   source: torch.nn.init.calculate_gain */
FAC_API double fac_init_calculate_gain(const char *nonlinearity, const fac_init_calculate_gain_kw *kw);

/* Uniform in [a, b), or normal. Returns t. source: torch.nn.init.uniform_, normal_ */
FAC_API fac_tensor *fac_init_uniform(fac_tensor *t, const fac_init_uniform_kw *kw);
FAC_API fac_tensor *fac_init_normal(fac_tensor *t, const fac_init_normal_kw *kw);
/* Normal, drawn anew where it is outside of [a, b]: values, not numbers of standard deviations. Returns t.
   errors: ARGUMENT if a is not below b, or std is not positive
   source: torch.nn.init.trunc_normal_ */
FAC_API fac_tensor *fac_init_trunc_normal(fac_tensor *t, const fac_init_trunc_normal_kw *kw);
/* One value; ones; zeros. Returns t. source: torch.nn.init.constant_, ones_, zeros_ */
FAC_API fac_tensor *fac_init_constant(fac_tensor *t, double val);
FAC_API fac_tensor *fac_init_ones(fac_tensor *t);
FAC_API fac_tensor *fac_init_zeros(fac_tensor *t);
/* The identity of a matrix. Returns t.
   errors: SHAPE unless t has two dimensions
   source: torch.nn.init.eye_ */
FAC_API fac_tensor *fac_init_eye(fac_tensor *t);
/* The identity of a convolution, in each group: as many channels as there are in and out pass unchanged. Returns t.
   shape:  t [out, in, *] of 3 to 5 dimensions
   errors: SHAPE; ARGUMENT if groups does not divide out
   source: torch.nn.init.dirac_ */
FAC_API fac_tensor *fac_init_dirac(fac_tensor *t, const fac_init_dirac_kw *kw);
/* Uniform in gain * sqrt(6 / (fan_in + fan_out)), or normal of standard deviation gain * sqrt(2 / (fan_in +
   fan_out)): fans are sizes 1 and 0, times the sizes behind. Returns t.
   errors: SHAPE if t has fewer than two dimensions
   source: Glorot, Bengio 2010; torch.nn.init.xavier_uniform_, xavier_normal_ */
FAC_API fac_tensor *fac_init_xavier_uniform(fac_tensor *t, const fac_init_xavier_uniform_kw *kw);
FAC_API fac_tensor *fac_init_xavier_normal(fac_tensor *t, const fac_init_xavier_normal_kw *kw);
/* Uniform in gain * sqrt(3 / fan), or normal of standard deviation gain / sqrt(fan): fan is that of .mode, "fan_in"
   or "fan_out", gain that of .nonlinearity with the slope .a. A tensor without elements is left as it is. Returns t.
   errors: SHAPE; ARGUMENT for another word
   source: He et al. 2015; torch.nn.init.kaiming_uniform_, kaiming_normal_ */
FAC_API fac_tensor *fac_init_kaiming_uniform(fac_tensor *t, const fac_init_kaiming_uniform_kw *kw);
FAC_API fac_tensor *fac_init_kaiming_normal(fac_tensor *t, const fac_init_kaiming_normal_kw *kw);
/* A random matrix [size 0, all others] with orthogonal rows or columns, times gain. Returns t.
   errors: SHAPE if t has fewer than two dimensions
   source: Saxe et al. 2013; torch.nn.init.orthogonal_ */
FAC_API fac_tensor *fac_init_orthogonal(fac_tensor *t, const fac_init_orthogonal_kw *kw);
/* Normal of standard deviation .std, but the part `sparsity` of each column, rounded up, is zero. Returns t.
   errors: SHAPE unless t has two dimensions; ARGUMENT if sparsity is not in [0, 1]
   source: Martens 2010; torch.nn.init.sparse_ */
FAC_API fac_tensor *fac_init_sparse(fac_tensor *t, double sparsity, const fac_init_sparse_kw *kw);

#ifdef __cplusplus
}
#endif
#include <facula/init_macros.h>
#endif
