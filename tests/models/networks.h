/* Networks of the models of this folder that bench/ measures too. Each function's result belongs to its caller; NULL on failure. */
#ifndef FACULA_TESTS_MODELS_NETWORKS_H
#define FACULA_TESTS_MODELS_NETWORKS_H

#include <facula/facula.h>

/* LeNet-5: images [N, 1, 28, 28] -> logits [N, 10].
   source: LeCun et al. 1998 */
fac_module *lenet_new(void);

/* ResNet-18, with the parts and names that it has in torchvision: images [N, 3, H, W] -> logits [N, classes].
   source: He et al. 2016 */
fac_module *resnet18_new(int64_t classes);

/* A generator of transposed convolutions, noise [N, noise, 1, 1] -> images [N, 3, S, S], and a discriminator of convolutions,
   images -> logits [N, 1, 1, 1]: S is 4 doubled `doublings` times, and the layers next to the images have `wide` channels.
   source: Radford, Metz, Chintala 2016; PyTorch's tutorial, whose networks these are */
fac_module *dcgan_generator_new(int64_t noise, int64_t wide, int doublings);
fac_module *dcgan_discriminator_new(int64_t wide, int doublings);

#endif
