#!/usr/bin/env python3
"""Writes scalar_arguments.json: every number among operators' arguments, of type Scalar or float, as NaN, infinite, negative, zero,
fractional, complex, or beyond the dtype, and what PyTorch 2.x makes of the call, for test_scalar_arguments.c to replay.

usage: gen_scalar_arguments.py NAME... > scalar_arguments.json     with a Python that has PyTorch 2, the names being those of all
operators with such arguments, as test_scalar_arguments --names prints them

A group is an operator and one of its arguments; cases are written as gen_reference_cases.py writes them. The other arguments are
in CALLS where they do not follow from their types. test_scalar_arguments.c wants a group for every such argument of every operator.
"""

import re
import sys

import torch

import gen_reference_cases as g
from gen_reference_cases import T, inf, nan

PROBES = [nan, inf, -inf, -2.5, 0, 0.5, 300, 1e39, 2 + 1j, True]
HALF_PROBES = [1e5, -0.5]
RANDOM = "alpha_dropout alpha_dropout_ feature_dropout feature_dropout_ feature_alpha_dropout feature_alpha_dropout_".split()
RANDOM += "bernoulli_ bernoulli dropout dropout_ native_dropout cauchy_ exponential_ geometric_ log_normal_ normal_ normal uniform_".split()
RANDOM += "cauchy exponential geometric log_normal normal_functional uniform".split()


def x(d, *sizes):
    return g.ramp(d, *(sizes or (3,)))


def indices(*v):
    return T("i64", list(v))


# operator (without the _ of its in-place form) -> its arguments, for tensors of dtype d
CALLS = {
    "add.Scalar": lambda d: [x(d), 1], "sub.Scalar": lambda d: [x(d), 1], "rsub.Scalar": lambda d: [x(d), 1],
    "addbmm": lambda d: [x(d, 2, 2), x(d, 1, 2, 2), x(d, 1, 2, 2)], "addmm": lambda d: [x(d, 2, 2)] * 3,
    "addmv": lambda d: [x(d, 2), x(d, 2, 2), x(d, 2)], "addr": lambda d: [x(d, 2, 2), x(d, 2), x(d, 2)],
    "baddbmm": lambda d: [x(d, 1, 2, 2)] * 3,
    "arange": lambda d: [3, g.DTYPES[d]], "arange.start": lambda d: [1, 3, g.DTYPES[d]],
    "arange.start_step": lambda d: [1, 4, 1, g.DTYPES[d]],
    "linspace": lambda d: [0, 2, 3, g.DTYPES[d]], "logspace": lambda d: [0, 2, 3, 2.0, g.DTYPES[d]],
    "full": lambda d: [[2], 1, g.DTYPES[d]], "full_like": lambda d: [x(d), 1], "new_full": lambda d: [x(d), [2], 1],
    "scalar_tensor": lambda d: [1, g.DTYPES[d]],
    "batch_norm": lambda d: [x(d, 2, 2), None, None, None, None, True, 0.5, 0.5, False],
    "native_batch_norm": lambda d: [x(d, 2, 2), None, None, x(d, 2), x(d, 2), True, 0.5, 0.5],
    "native_batch_norm_backward": lambda d: [x(d, 2, 2), x(d, 2, 2), None, None, None, x(d, 2), x(d, 2), True, 0.5, [True] * 3],
    "instance_norm": lambda d: [x(d, 1, 2, 3), None, None, x(d, 2), x(d, 2), True, 0.5, 0.5, False],
    "group_norm": lambda d: [x(d, 1, 2, 3), 1], "native_group_norm": lambda d: [x(d, 1, 2, 3), None, None, 1, 2, 3, 1, 0.5],
    "layer_norm": lambda d: [x(d), [3]], "native_layer_norm": lambda d: [x(d), [3], None, None, 0.5],
    "rms_norm": lambda d: [x(d), [3]],
    "cdist": lambda d: [x(d, 2, 2), x(d, 2, 2)], "pdist": lambda d: [x(d, 3, 2)],
    "cosine_embedding_loss": lambda d: [x(d, 2, 3), x(d, 2, 3), T("i64", [1, -1])],
    "triplet_margin_loss": lambda d: [x(d, 2, 3)] * 3,
    "cosine_similarity": lambda d: [x(d, 2, 3), x(d, 2, 3)],
    "cross_entropy_loss": lambda d: [x(d, 2, 3), indices(0, 2)],
    "constant_pad_nd": lambda d: [x(d), [1, 1]], "pad": lambda d: [x(d), [1, 0]],
    "div.Scalar_mode": lambda d: [x(d), 2, "floor"],
    "index_add": lambda d: [x(d), 0, indices(1), x(d, 1)], "index_fill.int_Scalar": lambda d: [x(d), 0, indices(1), 1],
    "masked_fill.Scalar": lambda d: [x(d), T("bool", [1, 0, 1]), 1],
    "scatter.value": lambda d: [x(d), 0, indices(1), 1], "scatter.value_reduce": lambda d: [x(d), 0, indices(1), 1, "add"],
    "dropout": lambda d: [x(d), 0.5, True], "native_dropout": lambda d: [x(d), 0.5, True],
    "native_dropout_backward": lambda d: [x(d), T("bool", [1, 0, 1]), 2.0],
    "norm.ScalarOpt_dim": lambda d: [x(d, 2, 2), 2, [0]], "norm.ScalarOpt_dtype": lambda d: [x(d), 2, g.DTYPES["f64"]],
    "norm.ScalarOpt_dim_dtype": lambda d: [x(d, 2, 2), 2, [0], False, g.DTYPES["f64"]],
    "normal.Tensor_float": lambda d: [x(d), 1.0], "normal.float_Tensor": lambda d: [1.0, x(d)],
    "normal.float_float": lambda d: [0.0, 1.0, [2]],
    "poisson_nll_loss": lambda d: [x(d), x(d), True, False, 1e-8, 0],
    "renorm": lambda d: [x(d, 2, 2), 2, 0, 1],
    "scaled_dot_product_attention": lambda d: [x(d, 1, 2, 2)] * 3 + [None, 0.0],
    "_scaled_dot_product_attention_math": lambda d: [x(d, 1, 2, 2)] * 3 + [None, 0.0],
    "_scaled_dot_product_flash_attention_for_cpu": lambda d: [x(d, 1, 1, 2, 2)] * 3,
    "_scaled_dot_product_flash_attention_for_cpu_backward":
        lambda d: [x(d, 1, 1, 2, 2)] * 5 + [torch.ones(1, 1, 2), 0.0, False],
    "std.correction": lambda d: [x(d), [0]], "std_mean.correction": lambda d: [x(d), [0]],
    "var.correction": lambda d: [x(d), [0]], "var_mean.correction": lambda d: [x(d), [0]],
    "trapezoid.dx": lambda d: [x(d)], "trapz.dx": lambda d: [x(d)], "cumulative_trapezoid.dx": lambda d: [x(d)],
    "where.Scalar": lambda d: [T("bool", [1, 0]), 1, 2], "where.ScalarOther": lambda d: [T("bool", [1, 0, 1]), x(d), 2],
    "where.ScalarSelf": lambda d: [T("bool", [1, 0, 1]), 1, x(d)],
    "elu_backward": lambda d: [x(d), 1, 1, 1, False, x(d)],
    "huber_loss_backward": lambda d: [x(d), x(d), x(d), 0, 1.0],
    "smooth_l1_loss_backward": lambda d: [x(d), x(d), x(d), 0, 1.0],
    "lerp.Scalar": lambda d: [x(d), x(d), 0.5],
    "leaky_relu_backward": lambda d: [x(d), x(d), 0.5, False],
    "logit": lambda d: [g.T(d, [0, 1, 1])],
    "margin_ranking_loss": lambda d: [x(d)] * 3,
    "_batch_norm_no_update": lambda d: batch_norm(d, True), "_batch_norm_with_update": lambda d: batch_norm(d, True),
    "_batch_norm_with_update_functional": lambda d: batch_norm(d, True),
    "_native_batch_norm_legit": lambda d: batch_norm(d, True, True),
    "_native_batch_norm_legit.no_stats": lambda d: batch_norm(d, False, True),
    "_native_batch_norm_legit_functional": lambda d: batch_norm(d, True, True),
    "_native_batch_norm_legit_no_training": lambda d: batch_norm(d, True),
    "_cdist_forward": lambda d: [x(d, 2, 2), x(d, 2, 2), 2.0, None], "_cdist_backward": lambda d: [x(d, 2, 2)] * 3 + [2.0, x(d, 2, 2)],
    "_pdist_forward": lambda d: [x(d, 3, 2)], "_pdist_backward": lambda d: [x(d, 3), x(d, 3, 2), 2.0, x(d, 3)],
    "_pad_enum": lambda d: [x(d), [1, 0], 3],
    "_pad_packed_sequence": lambda d: [x(d, 3, 1), indices(2, 1), False, 0, 2],
    "segment_reduce": lambda d: [x(d), "sum", indices(1, 2)],
    "_segment_reduce_backward": lambda d: [x(d, 2), x(d, 2), x(d, 3), "prod", indices(1, 2)],
    "_unsafe_masked_index": lambda d: [x(d), T("bool", [1, 0, 1]), [indices(0, 1, 2)], 1],
    "alpha_dropout": lambda d: [x(d), 0.5, True],
    "feature_dropout": lambda d: [x(d, 2, 2), 0.5, True], "feature_alpha_dropout": lambda d: [x(d, 2, 2), 0.5, True],
    "searchsorted.Scalar": lambda d: [T(d, [0, 1, 2]), 1], "bucketize.Scalar": lambda d: [1, T(d, [0, 1, 2])],
    "embedding_renorm": lambda d: [x(d, 2, 2), indices(0, 1), 1.0, 2.0],
    "fill_diagonal": lambda d: [x(d, 2, 2), 1],
    "gradient.scalararray": lambda d: [x(d), 1, [0]], "gradient.scalarint": lambda d: [x(d), 1],
    "gru.input": lambda d: recurrent(d, 3), "lstm.input": lambda d: recurrent(d, 4),
    "rnn_relu.input": lambda d: recurrent(d, 1), "rnn_tanh.input": lambda d: recurrent(d, 1),
    "gru.data": lambda d: recurrent(d, 3, indices(2, 1)), "lstm.data": lambda d: recurrent(d, 4, indices(2, 1)),
    "rnn_relu.data": lambda d: recurrent(d, 1, indices(2, 1)), "rnn_tanh.data": lambda d: recurrent(d, 1, indices(2, 1)),
    "hamming_window.periodic_alpha": lambda d: [3, True, 0.5, g.DTYPES[d]],
    "hamming_window.periodic_alpha_beta": lambda d: [3, True, 0.5, 0.5, g.DTYPES[d]],
    "kaiser_window.beta": lambda d: [3, True, 12.0, g.DTYPES[d]],
    "fft_fftfreq": lambda d: [4, 1.0, g.DTYPES[d]], "fft_rfftfreq": lambda d: [4, 1.0, g.DTYPES[d]],
    "histc": lambda d: [x(d), 3, 0, 2],
    "linalg_cond": lambda d: [x(d, 2, 2)], "linalg_lstsq": lambda d: [x(d, 2, 2), x(d, 2, 1)],
    "linalg_matrix_norm": lambda d: [x(d, 2, 2), 2], "linalg_matrix_rank": lambda d: [x(d, 2, 2)],
    "linalg_matrix_rank.atol_rtol_float": lambda d: [x(d, 2, 2)],
    "linalg_pinv": lambda d: [x(d, 2, 2)], "linalg_pinv.atol_rtol_float": lambda d: [x(d, 2, 2)], "pinverse": lambda d: [x(d, 2, 2)],
    "linspace.Scalar_Tensor": lambda d: [0, T(d, 2), 3, g.DTYPES[d]], "linspace.Tensor_Scalar": lambda d: [T(d, 0), 2, 3, g.DTYPES[d]],
    "logspace.Scalar_Tensor": lambda d: [0, T(d, 2), 3, 2.0, g.DTYPES[d]],
    "logspace.Tensor_Scalar": lambda d: [T(d, 0), 2, 3, 2.0, g.DTYPES[d]],
    "logspace.Tensor_Tensor": lambda d: [T(d, 0), T(d, 2), 3, 2.0, g.DTYPES[d]],
    "multi_margin_loss": lambda d: [x(d, 2, 3), indices(0, 2)],
    "multi_margin_loss_backward": lambda d: [T(d, 1), x(d, 2, 3), indices(0, 2), 1, 1.0],
    "range": lambda d: [1, 3, g.DTYPES[d]], "range.step": lambda d: [1, 4, 1, g.DTYPES[d]],
}


def batch_norm(d, stats, *training):
    return [x(d, 2, 2), None, None] + [x(d, 2), x(d, 2)] * stats + [*training, 0.5, 0.5]


def recurrent(d, gates, batch_sizes=None):
    """One layer over two steps, not in training, so that nothing is random; with batch_sizes, a packed batch."""
    state = x(d, 1, 1 if batch_sizes is None else 2, 1)
    weights = [x(d, gates, 1), x(d, gates, 1), x(d, gates), x(d, gates)]
    data = [x(d, 2, 1, 1)] if batch_sizes is None else [x(d, 3, 1), batch_sizes]
    return data + [[state, state] if gates == 4 else state, weights, True, 1, 0.0, False, False] + [False] * (batch_sizes is None)


def resize(name, d):
    """Two elements along each dimension become three."""
    n, backward = int(re.search(r"(\d)d", name)[1]), name.endswith("_backward")
    sizes = [[1, 1] + [2] * n] if backward else []
    return [x(d, 1, 1, *[3 if backward else 2] * n), [3] * n] + sizes + [False] * ("nearest" not in name)


def beyond_half(d, v):
    return d == "f16" and v == 1e5


def infinite(d, v):
    return not isinstance(v, complex) and abs(v) in (inf, 1e39)


# Where Facula differs on purpose: operator and argument, dtype and value, why. There is no case then.
DIFFERENT = [
    (r"(add|sub|subtract|rsub|addmv|addr|index_add)_?(\.\w+)? (alpha|beta)|(hardshrink|softshrink)(_backward)? lambd|"
     r"(special_)?logit(_|_backward)? eps|_?segment_reduce(_backward)? initial|histc m..|hardtanh_? m.._val|threshold_? value|"
     r"hinge_embedding_loss margin|pow_?\.Tensor_Scalar exponent|(mul|multiply)_\.Scalar other|pow\.Scalar self|remainder\.Scalar_Tensor self",
     beyond_half, "halves are computed in f32, with factors and bounds of f32"),
    (r"scalar_tensor s|where\.Scalar\w+ (self|other)|cosine_similarity eps", beyond_half, "a number beyond f16 is refused, as by full"),
    (r"a?range\S* end", beyond_half, "a hundred thousand elements say no more"),
    (r"range\.step step", lambda d, v: d == "u8" and v == 0.5, "PyTorch divides by the integer 0, and ends"),
    (r"(addmv|baddbmm)_? alpha", infinite, "an infinite factor times a sum, or a sum of infinite products"),
    (r"\S* (p|ord)", lambda d, v: v == 1e39, "the order of a norm that no f32 holds"),
    (r"_?(cdist|pdist)(_forward|_backward)? p|_upsample_\w+_aa(_backward)? scales_.|multi_margin_loss(_backward)? margin|"
     r"special_\w+polynomial\S+ [nx]|special_zeta\.\S+ \w+", lambda d, v: d == "f16", "halves are computed"),
    (r"_(cdist|pdist)(_forward|_backward) p", lambda d, v: not isinstance(v, complex) and not v >= 0, "refused, as by cdist and pdist"),
    (r"_(cdist|pdist)_backward p", lambda d, v: v == 300, "powers that overflow"),
    (r"embedding_renorm_? (max_norm|norm_type)", lambda d, v: not isinstance(v, complex) and not v > 0, "refused, as by renorm"),
    (r"embedding_renorm_? norm_type", lambda d, v: v in (300, 1e39), "powers that overflow"),
    (r"(_batch_norm_with_update|_native_batch_norm_legit)_functional momentum", lambda d, v: v == 1e39, "computed in f64"),
    (r"gradient\.scalar\w+ spacing", lambda d, v: isinstance(v, complex), "the spacing is real"),
    (r"(gru|lstm|rnn_\w+)\.\w+ dropout", lambda d, v: d != "f32", "layers have a floating dtype, and round halves once"),
    (r"upsample_bicubic2d scales_.|hamming_window\S+ \w+", lambda d, v: d == "f16", "halves are rounded once"),
    (r"special_zeta\.self_scalar self", lambda d, v: v != v or infinite(d, v), "the limit, where there is one"),
    (r"_upsample_\w+_aa(_backward)? scales_.", lambda d, v: not isinstance(v, complex) and 0 < v <= 1,
     "windows beyond the input, where PyTorch reads past its end"),
    (r"kaiser_window\.beta beta", lambda d, v: abs(v) in (300, 1e39), "Bessel functions that overflow"),
    (r"isin\.\w+ \w+", lambda d, v: v is True, "truth values are numbers"),
    (r"special_\w+polynomial\S+ n", lambda d, v: infinite(d, v) or v == 300, "PyTorch makes infinity an int, and overflows sooner"),
    (r"rrelu_? (lower|upper)", infinite, "refused, as by the functional form"),
    (r"cross_entropy_loss label_smoothing", lambda d, v: not isinstance(v, complex) and not v >= 0, "refused, as smoothing above 1"),
    (r"hinge_embedding_loss margin", lambda d, v: d == "u8" or v == 1e39, "integers are promoted, and f32 takes what is beyond it as infinite"),
    (r"(feature_|alpha_|feature_alpha_)?dropout_? p", lambda d, v: d == "u8", "dropout needs a floating dtype"),
    (r"(smooth_l1_loss_backward beta|huber_loss_backward delta)", lambda d, v: not isinstance(v, complex) and not v > 0,
     "refused, as by the loss itself; at 0 the slope of equal elements is 0, as of l1_loss"),
    (r"(smooth_l1_loss_backward|threshold_backward|native_dropout_backward) \w+", lambda d, v: d == "u8", "a gradient has a floating dtype"),
    (r"native_dropout_backward scale", lambda d, v: not isinstance(v, complex) and not abs(v) <= 300, "what was dropped has gradient 0, whatever the scale"),
    (r"_scaled_dot_product_flash_attention_for_cpu_backward dropout_p", lambda d, v: True, "fused attention has no dropout"),
    (r"_?scaled_dot_product\S* dropout_p", lambda d, v: v == 0.5, "random"),
    (r"_?scaled_dot_product\S* scale", lambda d, v: infinite(d, v) or v != v or beyond_half(d, v), "scores that are not numbers, or beyond f16"),
    (r"index_add_? alpha", lambda d, v: d == "u8" and v == 0.5, "a fraction is not cut off in silence"),
    (r"(xlogy|special_xlogy|special_xlog1py)\.\S+ \w+", lambda d, v: isinstance(v, complex), "complex numbers are computed"),
    (r"logspace(\.\w+)? base", lambda d, v: d == "u8" and infinite(d, v), "infinities become the ends of an integer dtype's range"),
]


def different(group, d, value):
    return any(re.fullmatch(names, group) and holds(d, value) for names, holds, _ in DIFFERENT)


def plain(name):
    """The functional form's name."""
    base, dot, overload = name.partition(".")
    return (base[:-1] if base.endswith("_") and not base.endswith("__") else base) + dot + overload


def arguments_of(name, schema, d):
    make = CALLS.get(name) or CALLS.get(plain(name))
    if make:
        return make(d)
    if "upsample_" in name:
        return resize(name, d)
    out = []
    for a in schema.arguments:
        kind = str(a.type)
        if a.has_default_value():
            break
        out.append(x(d) if kind == "Tensor" else 1.0 if kind == "float" else 1 if kind in ("number", "Scalar") else
                   False if kind == "bool" else 0)
    return out


def numbers(schema):
    """Places of the arguments that are numbers."""
    return [i for i, a in enumerate(schema.arguments) if re.match(r"(Optional\[)?(number|float|Scalar)\]?$", str(a.type))]


def probe(name, schema, place, d, value):
    args = arguments_of(name, schema, d)
    while len(args) <= place:
        args.append(schema.arguments[len(args)].default_value)
    args[place] = value
    only = [] if schema.name.split("::")[1] in RANDOM else None
    g.case(name, *args, only=only)


def operator(name):
    try:
        schema = g.operator(name)._schema
    except AttributeError:
        return print(f"PyTorch has no {name}", file=sys.stderr)
    for place in numbers(schema):
        title = f"{name} {schema.arguments[place].name}"
        g.group(title)
        for d, values in (("f32", PROBES), ("u8", PROBES), ("f16", HALF_PROBES)):
            for value in values:
                if not different(title, d, value):
                    probe(name, schema, place, d, value)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        operator(name)
    for cases in g.GROUPS.values():
        for case in cases:
            if isinstance(case[2], str):
                case[2] = case[2][:40]
    g.write()
