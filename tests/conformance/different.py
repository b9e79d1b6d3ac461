"""Where Facula and PyTorch differ on purpose, or an older PyTorch differs from PyTorch 2, which Facula follows. A sample that
differs so counts as unsupported, with the reason; docs/pytorch.md says the same to users."""

import torch

OLD = int(torch.__version__.split(".")[0]) < 2
HALVES = (torch.float16, torch.bfloat16)

# Whatever the version: operator -> [(part of the message, why)].
DELIBERATE = {
    "mT": [("0-D", "refused, as by current PyTorch")],
    "mH": [("0-D", "refused, as by current PyTorch")],
    "as_strided_scatter": [("", "PyTorch lets elements be written twice, and its gradient reads memory that nobody wrote")],
    "view_as_complex": [("float16", "there is no complex number of two halves")],
    "complex": [("float16", "there is no complex number of two halves")],
    "polar": [("float16", "there is no complex number of two halves")],
    "nn.functional.soft_margin_loss": [("inf", "the exponential of a half does not overflow on the way")],
    "nn.functional.rms_norm": [("floating type", "a root mean square of complex squares is not a norm")],
    "renorm": [("Greatest absolute difference: nan", "PyTorch's gradient of complex numbers is NaN where p is infinite")],
    "native_dropout_backward": [("floating dtype", "a gradient has a floating dtype")],
    "max_pool2d_with_indices_backward": [("require none", "the gradient does not depend on the values of the input")],
    "fmax": [("gradient", "the first of two equal operands has the gradient")],
    "fmin": [("gradient", "the first of two equal operands has the gradient")],
    "nn.functional.embedding_bag": [("sparse must be false", "gradients are dense")],
    "nn.functional.embedding": [("sparse must be false", "gradients are dense")],
    "svd_lowrank": [("not close", "the subspace starts from random numbers, which are Facula's own")],
    "pca_lowrank": [("not close", "the subspace starts from random numbers, which are Facula's own")],
    "digamma": [("difference: inf", "the trigamma function is infinite at its poles; PyTorch divides by a rounded sine there")],
    "polygamma": [("difference: inf", "as digamma")],
    "special.polygamma": [("difference: inf", "as digamma")],
    **{f"special.bessel_{kind}": [("not close", "PyTorch's is off by up to 9e-7 right of 5, where it changes to another formula")]
       for kind in ("j0", "j1", "y0", "y1")},
    "native_layer_norm": [("tangent 1: a tensor", "the mean and the inverse deviation have tangents as well")],
    "native_batch_norm": [("tangent 1: a tensor", "as native_layer_norm")],
    "cholesky_inverse": [("tangent 0", "PyTorch's tangent loses up to a half of the digits")],
    "logcumsumexp": [("tangent 0", "as cholesky_inverse")],
    "scatter_reduce": [("tangent 0: a tensor", "PyTorch has no tangent of a product")],
    "nn.functional.linear_cross_entropy": [("tangent 0: a tensor", "PyTorch loses the tangent")],
    "_native_batch_norm_legit": [("tangent 1: a tensor", "as native_layer_norm")],
    "_batch_norm_with_update": [("tangent 1: a tensor", "as native_layer_norm")],
    "_foreach_add": [("tangent", "a tensor of one number has a tangent as well")],
    "_foreach_maximum": [("tangent", "PyTorch takes the bound for its tangent")],
    "_foreach_minimum": [("tangent", "as _foreach_maximum")],
    "masked.logaddexp": [("tangent 0", "the limit of two equal infinities, which is NaN in PyTorch")],
    "linalg.lstsq": [("tangent 1: a tensor", "the residuals have a tangent as well")],
    "linspace": [("Mismatched", "each half is rounded once; PyTorch rounds the step too")],
}

# Operators that Facula does not have, and why.
ABSENT = {"chalf": "there is no complex number of two halves"}

# Those that concern halves only.
OF_HALVES = {"linspace", "nn.functional.soft_margin_loss"}

# Vectors that are free up to a sign, or a number of modulus 1: what the database's own function makes of the results is compared, which does
# not depend on it.
FREE_FACTORS = {"linalg.svd", "svd", "linalg.eigh", "linalg.eig", "svd_lowrank", "pca_lowrank"}

# Equal keys: which of them comes first is open, unless a stable order is asked for. The part of the message that names indices.
TIES = {"sort": "result 1", "argsort": "result 0", "topk": "result 1", "kthvalue": "result 1", "msort": "gradient"}

# PyTorch 1.13 only: operator -> (part of the message, why). PyTorch 2 gives Facula's answer; test_reference.c has cases.
BEFORE_2 = {
    "aminmax": ("[1]", "a tensor without dimensions has none in the result"),
    "clamp": ("gradient", "nothing passes on a bound that is a number; tensors share where they tie"),
    "clamp_min": ("gradient", "as clamp"),
    "clamp_max": ("gradient", "as clamp"),
    "nn.functional.hardswish": ("gradient", "nothing passes at -3"),
    "unique": ("Mismatched", "slices are ordered by their own elements"),
    "linspace": ("Tensor-likes are not equal", "integers are cut off from numbers that were not rounded on the way"),
    "ldexp": ("PyTorch has", "the result has the dtype of the scaled operand"),
    "stft": ("return_complex", "real inputs need return_complex"),
    "sparse.sampled_addmm": ("to_dense_backward", "a CSR tensor made dense has a gradient"),
    "istft": ("complex-valued input", "pairs of reals are no spectrum"),
}


def draws(op, sample):
    """Whether a sample draws random numbers on the way."""
    attention = op.name == "nn.functional.multi_head_attention_forward" and sample.kwargs.get("training", True)
    return bool(sample.kwargs.get("dropout_p", 0)) or attention


def known_difference(op, dtype, sample, message):
    """Why a failing sample was expected to fail, or None."""
    for part, why in DELIBERATE.get(op.name, []):
        if part in message and (dtype in HALVES or op.name not in OF_HALVES):
            return why
    if op.name in TIES and TIES[op.name] in message and not sample.kwargs.get("stable"):
        return "equal keys: which of them comes first is open"
    if draws(op, sample):
        return "random numbers are Facula's own"
    part, why = BEFORE_2.get(op.name, (None, None)) if OLD else (None, None)
    return f"PyTorch before 2: {why}" if part is not None and part in message else None
