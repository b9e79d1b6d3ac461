"""Where a module differs from PyTorch's on purpose, or from that of an older PyTorch than Facula follows: (modules, what is in the
arguments or the message, why), both regular expressions."""

import torch

INTEGERS = "integers are computed, where PyTorch has no kernel for them"
EMPTY = "an empty batch has a gradient, where PyTorch's fails"
REASONS = [
    (".*", r"not implemented for '(Long|Int)'|Integral inputs not supported|could not infer output dtype|cast to the desired output type Long|"
           r"All tensors must have the same dtype, got input1: long", INTEGERS),
    ("CosineSimilarity", r"torch.int64.*refused", "cosines are of floating-point numbers"),
    ("(Max|Avg|LP)(Pool|Unpool).d|MaxUnpool.d", r"stride=0.*PyTorch refuses", "a stride of 0 is the kernel's size, as it is where none is given"),
    (".*Pool.d", r"\(\d,\).*text|\(2, 2\).*text", "one number for all directions is shown as one"),
    ("LPPool1d", r"\(3,\).*must be Tensor, not tuple", "PyTorch's takes no tuple"),
    ("ConvTranspose.d", r"out_channels=0.*create a primitive", "a layer without outputs gives none, where PyTorch's library fails"),
    ("Adaptive.*", r"output_size=0.*non-zero size", "a gradient of no outputs is zero, where PyTorch's fails"),
    ("Pixel.*|ChannelShuffle", r"\[0, .*PyTorch refuses|Number of groups to divide", EMPTY),
    ("CELU|Hardsigmoid", r"float64.*gradient", "PyTorch's gradient has a constant of single precision"),
    ("GroupNorm", r"num_groups=4.*(output|gradient)", "of groups of one value PyTorch's rounding remains, a hundred times"),
    ("Dropout[23]d", r"refused \(expected", "numbers of dimensions of which PyTorch warns that it will refuse them"),
    ("Embedding", r"sparse=True.*(scale_grad_by_freq not supported|too many indices)", "sparse gradients of all inputs"),
    ("Fractional.*", r"input 1: refused.*_random_samples of the size \[1,", "samples are of the input's sizes; PyTorch reads the first of them"),
    ("EmbeddingBag", r"\[2, 0\].*step must be nonzero", "bags of no elements are allowed, as they are with offsets"),
    ("BatchNorm.d", r"eps=(0.0|-1.0).*num_batches_tracked", "a batch that is refused is not counted"),
    ("EmbeddingBag", r"sparse=True.*dense gradients only", "gradients are dense"),
    ("CrossEntropyLoss", r"label_smoothing=-0.1.*refused", "refused, where PyTorch takes no notice of it"),
    ("SoftMarginLoss", r"doesn't match the broadcast shape", "input and target are broadcast against each other"),
    ("MultiLabelSoftMarginLoss", r"odd input", "the classes are the last dimension of what is broadcast, in PyTorch of the input"),
]

# Of PyTorch 1.13 alone, where Facula follows PyTorch 2.15.
OLDER = [
    ("(Batch|Instance|Group|Layer)Norm.*|Transformer.*", "text: ", "PyTorch 1.13 shows no bias"),
    ("EmbeddingBag|Upsampl.*", "text: ", "PyTorch 1.13 shows words without quotes"),
    ("Softplus", "text: ", "PyTorch 1.13 has whole numbers as defaults"),
    ("Bilinear|MSELoss", r"torch.int64.*(expected scalar type Long|but expected Float)", INTEGERS),
    ("Conv.d", r"padding_mode='circular'.*Invalid padding size", "PyTorch 1.13 has no circular padding of single samples"),
    ("ConvTranspose.d", r"out_channels=0", "a layer without outputs gives none, where PyTorch fails"),
    ("BatchNorm.d", r"eps=(0.0|-1.0).*refused", "PyTorch 1.13 takes any eps"),
    ("GroupNorm", r"\[3, 0\].*refused", "PyTorch 1.13 takes no channels"),
    ("EmbeddingBag", r"scale_grad_by_freq=True.*gradient", "PyTorch 1.13 scales wrongly"),
    ("CosineSimilarity", r"eps=10.0.*gradient|eps=-1.0.*refused", "PyTorch 1.13 bounds the product of the norms, by any eps"),
    ("TripletMarginWithDistanceLoss", "same number of dimensions", "PyTorch 1.13 takes any numbers of dimensions"),
    ("ChannelShuffle", "derivative for channel_shuffle", "PyTorch 1.13 has no gradient"),
]
if int(torch.__version__.split(".")[0]) < 2:
    REASONS += OLDER
