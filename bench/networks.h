/* Networks of the rows of whole models; torch_models.py has the same. LeNet, ResNet and DCGAN's are of tests/models, the GPT of
   apps/facula. Each function's result belongs to its caller; NULL on failure. */
#ifndef FACULA_BENCH_NETWORKS_H
#define FACULA_BENCH_NETWORKS_H

#include <facula/facula.h>

/* Blocks of ConvNeXt, images [N, channels, H, W] -> as large: x + pointwise MLP(norm(depthwise 7 x 7 convolution(x))).
   source: Liu et al. 2022, without scales of layers and stochastic depth */
fac_module *convnext_new(int64_t channels, int blocks);

/* Two layers of long short-term memory and a classifier of the last output: [N, T, width] -> logits [N, classes].
   source: Hochreiter, Schmidhuber 1997 */
fac_module *lstm_classifier_new(int64_t width, int64_t hidden, int64_t classes);

/* A U-Net of three levels, of wide, 2 wide and 4 wide channels: images [N, 1, H, W] -> logits [N, 1, H, W].
   source: Ronneberger et al. 2015, with padded convolutions and batch norm */
fac_module *unet_new(int64_t wide);

/* Two layers of graph convolution: {features [N, in], from [E] i64, to [E] i64, weights of edges [E, 1]} -> logits [N, classes].
   source: Kipf, Welling 2017 */
fac_module *gcn_new(int64_t in, int64_t hidden, int64_t classes);

#endif
