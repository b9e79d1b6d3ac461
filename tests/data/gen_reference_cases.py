#!/usr/bin/env python3
"""Writes reference_cases.json: calls of operators and what PyTorch 2.x gives for them, for test_reference.c to replay.

usage: gen_reference_cases.py > reference_cases.json     with a Python that has PyTorch 2

Each case is a line [operator, arguments, results, gradients]: arguments in the schema's order; results a list, or "error: why"
where PyTorch refuses the call; gradients one per tensor among the arguments, where the case asks for them. A tensor is text,
"f32[2,2] 1 2 3 4", row-major, or "f32[1,2>3,2] 1 2" for one expanded to [3,2]. null stands for "not compared" in results.
Where Facula differs on purpose (docs/pytorch.md) there is no case.
"""

import json
import math
import sys
import warnings

import torch

warnings.simplefilter("ignore")
torch.set_num_threads(1)
NAMES = {torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
         torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64", torch.complex64: "c64",
         torch.complex128: "c128"}
DTYPES = {name: dtype for dtype, name in NAMES.items()}
INTEGERS, HALVES, FLOATS, COMPLEX = ["u8", "i8", "i16", "i32", "i64"], ["f16", "bf16"], ["f32", "f64"], ["c64", "c128"]
REAL, ALL = HALVES + FLOATS, ["bool"] + INTEGERS + HALVES + FLOATS + COMPLEX
inf, nan = math.inf, math.nan

GROUPS = {}
_group = None


def group(name):
    global _group
    _group = GROUPS.setdefault(name, [])


# ---- values -----------------------------------------------------------------------------------------------------------------

def T(dtype, values, *sizes):
    """A tensor of this dtype; `sizes` where it is not a vector."""
    t = torch.tensor(values, dtype=DTYPES[dtype])
    return t.reshape(sizes) if sizes else t


def ramp(dtype, *sizes):
    """Small values of both signs (unsigned: none below 0), each different from its neighbours."""
    n = math.prod(sizes)
    v = [(5 * i) % 13 - (0 if dtype in ("u8", "bool") else 6) for i in range(n)]
    if dtype == "bool":
        v = [x % 3 == 0 for x in v]
    elif dtype in COMPLEX:
        v = [complex(x / 2, (3 * i) % 7 - 3) for i, x in enumerate(v)]
    elif dtype in REAL:
        v = [x / 2 for x in v]
    return T(dtype, v, *sizes)


def real_text(x):
    if math.isnan(x):
        return "nan"
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    whole = x == int(x) and abs(x) < 1e15 and (x or math.copysign(1, x) > 0)
    return str(int(x)) if whole else repr(x)


def element_text(x, dtype):
    if dtype.is_complex:
        im = real_text(x.imag)
        return real_text(x.real) + (im if im[0] == "-" else "+" + im) + "j"
    return real_text(shortest(x, dtype)) if dtype.is_floating_point else str(int(x))


def shortest(x, dtype):
    """The number with the fewest digits that rounds to x in its dtype."""
    if dtype == torch.float64 or not math.isfinite(x):
        return x
    for digits in range(1, 10):
        y = float(f"{x:.{digits}g}")
        if torch.tensor(y, dtype=torch.float64).to(dtype).item() == x:
            return y
    return x


def tensor_text(t):
    t = t.detach()
    sizes = ",".join(map(str, t.shape))
    if 0 in t.stride() and t.numel():
        small = t[tuple(slice(0, 1) if s == 0 else slice(None) for s in t.stride())]
        sizes, t = ",".join(map(str, small.shape)) + ">" + sizes, small
    return " ".join([f"{NAMES[t.dtype]}[{sizes}]"] + [element_text(x, t.dtype) for x in t.resolve_conj().resolve_neg().flatten().tolist()])


def result_text(t):
    return tensor_text(torch.zeros(t.shape, dtype=t.dtype) if t._is_zerotensor() else t.detach().contiguous())


def argument(x):
    if isinstance(x, torch.Tensor):
        return tensor_text(x)
    if isinstance(x, torch.dtype):
        return {"dtype": NAMES[x]}
    if isinstance(x, complex):
        return {"complex": [x.real, x.imag]}
    if isinstance(x, float):
        return x if math.isfinite(x) else {"float": real_text(x)}
    if isinstance(x, (list, tuple)):
        if any(isinstance(e, float) for e in x):
            return {"floats": list(x)}
        return [argument(e) for e in x]
    return x


# ---- cases ------------------------------------------------------------------------------------------------------------------

def operator(name):
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")


def flat(x):
    return [x] if isinstance(x, torch.Tensor) else [t for e in x for t in flat(e)] if isinstance(x, (list, tuple)) else []


def seed_like(t):
    """test_reference.c makes the same."""
    v = [(7 * i % 5 - 2) / 2 for i in range(t.numel() + 1)]
    v = [complex(a, b) for a, b in zip(v, v[1:])] if t.is_complex() else v[:-1]
    return torch.tensor(v, dtype=t.dtype).reshape(t.shape)


def copied(x, grad):
    if isinstance(x, torch.Tensor):
        c = x if 0 in x.stride() else x.clone()
        return c.requires_grad_() if grad and (c.is_floating_point() or c.is_complex()) else c
    return [copied(e, grad) for e in x] if isinstance(x, (list, tuple)) else x


def case(name, *args, grad=False, only=None, **keywords):
    """One call. `grad` compares gradients too; `only` lists the results that are compared."""
    op = operator(name)
    arguments = list(args) + [keywords.pop(a.name, a.default_value) for a in op._schema.arguments[len(args):]]
    assert not keywords, keywords
    while len(arguments) > len(args) and arguments[-1] == op._schema.arguments[len(arguments) - 1].default_value:
        arguments.pop()
    line = ["aten::" + name, [argument(a) for a in arguments]]
    given = [copied(a, grad) for a in arguments]
    names = [a.name if a.kwarg_only else None for a in op._schema.arguments]
    try:
        results = flat(op(*[g for g, k in zip(given, names) if not k], **{k: g for g, k in zip(given, names) if k}))
    except (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError) as e:
        _group.append(line + ["error: " + " ".join(str(e).split())[:100]])
        return
    line.append([result_text(t) if only is None or i in only else None for i, t in enumerate(results)])
    if grad:
        flows = [t for t in results if t.requires_grad]
        inputs = flat(given)
        wanted = [t for t in inputs if t.requires_grad]
        if not flows:
            _group.append(line)
            return
        found = iter(torch.autograd.grad(flows, wanted, [seed_like(t) for t in flows], allow_unused=True))
        grads = [next(found) if t.requires_grad else None for t in inputs]
        line.append([g if g is None else result_text(g) for g in grads])
    _group.append(line)


def write():
    print("{")
    print(f' "pytorch": "{torch.__version__.split("+")[0]}",')
    print(' "groups": {')
    names = list(GROUPS)
    for name in names:
        print(f'  "{name}": [')
        print(",\n".join("   " + json.dumps(c, ensure_ascii=True) for c in GROUPS[name]))
        print("  ]" + ("," if name != names[-1] else ""))
    print(" }\n}")


# ---- where 2.x differs from 1.13 ----------------------------------------------------------------------------------------------

def corrections():
    x = ramp("f64", 2, 5)
    for c in (0, 1, 0.5, 2.5, 4.5, 5, 7.25, -0.5, None):
        for op in ("var", "std", "var_mean", "std_mean"):
            case(op + ".correction", x, [1], correction=c, grad=c in (0.5, -0.5))
    for d in HALVES + COMPLEX:
        case("var_mean.correction", ramp(d, 2, 5), [0, 1], correction=0.5, keepdim=True)
        case("std.correction", ramp(d, 2, 5), [0], correction=1.5)
    case("var.correction", x, None, correction=True)
    case("var.correction", x, None, correction=1 + 1j)
    case("var.correction", ramp("i32", 4), None, correction=0.5)


def narrow_indices():
    for d in ("i32", "i64"):
        i = T(d, [0, 2, 1, 0], 2, 2)
        for x in ALL:
            case("gather", ramp(x, 2, 3), 1, i, grad=d == "i32" and x in REAL + COMPLEX)
            case("scatter.src", ramp(x, 2, 3), 1, i, ramp(x, 2, 2))
        case("scatter.value", ramp("f32", 2, 3), 1, i, 7.5, grad=True)
        case("scatter.reduce", ramp("f32", 2, 3), 1, i, ramp("f32", 2, 2), reduce="add")
        case("scatter.value_reduce", ramp("f32", 2, 3), 1, i, 2.0, reduce="multiply")
        case("scatter_add", ramp("f64", 2, 3), 1, i, ramp("f64", 2, 2), grad=True)
        case("scatter_add", ramp("i16", 2, 3), 1, i, ramp("i16", 2, 2))
        for reduce in ("sum", "prod", "mean", "amax", "amin"):
            case("scatter_reduce.two", ramp("f64", 2, 3), 1, i, ramp("f64", 2, 2), reduce, grad=reduce != "prod")
            case("scatter_reduce.two", ramp("f64", 2, 3), 1, i, ramp("f64", 2, 2), reduce, include_self=False)
    x = ramp("f32", 3)
    for d in ("f32", "bool", "u8", "i8", "i16"):
        i = T(d, [1])
        case("gather", x, 0, i)
        case("scatter.value", x, 0, i, 1)
        case("scatter_add", x, 0, i, T("f32", [1]))
        case("gather", x, 0, T(d, []))
        case("scatter.value", x, 0, T(d, []), 1)
    for bad in (3, -1):
        case("gather", x, 0, T("i32", [bad]))
        case("scatter.value", x, 0, T("i32", [bad]), 1)
    for op, *rest in (("take",), ("index_fill.int_Scalar", 5), ("index_copy", T("f32", [5])), ("put", T("f32", [5])),
                      ("index_add", T("f32", [5])), ("index_select",)):
        dim = () if op in ("take", "put") else (0,)
        case(op, x, *dim, T("i32", [1]), *rest)
    case("index.Tensor", x, [T("i32", [1, -1])])
    case("index_put", x, [T("i32", [1, -1])], T("f32", [5, 6]))


def indices_from_the_end():
    x = ramp("f32", 2, 3)
    case("take_along_dim", x, T("i64", [-1, 0], 2, 1), 1, grad=True)
    case("take_along_dim", x, T("i64", [-3, -2, -1], 1, 3), 1, grad=True)
    case("take_along_dim", x, T("i64", [-2, 1, -1], 1, 3), 0)
    case("take_along_dim", x, T("i64", [5, 0]))
    case("take_along_dim", x, T("i64", [-1, 0]))
    case("take_along_dim", x, T("i32", [-1], 1, 1), 1)


def bounds_of_integers():
    for d in INTEGERS:
        top = torch.iinfo(DTYPES[d]).max
        x = T(d, [0, 1, 3, top])
        for lo, hi in ((-5, 2), (2, 300), (None, 2**40), (-2**40, None), (-2**40, 2**40), (5, 3), (300, None), (None, -200), (-9, -5),
                       (2**40, None), (None, -2**40), (True, None), (1.5, None), (-1.5, 2), (None, None)):
            case("clamp", x, lo, hi)
        for v in (-1, 2, 300, -300, 2**40, 1.5):
            case("clamp_min", x, v)
            case("clamp_max", x, v)
        case("hardtanh", x)
        for lo, hi in ((-3, 2), (2, 300), (1, 2**40), (-1.5, 1.5), (0.5, 2.5)):
            case("hardtanh", x, lo, hi)
        case("clamp.Tensor", x, T(d, 1), T(d, [1, 2, 3, 4]))
    case("clamp", ramp("bool", 4), 0, 1)
    for d in HALVES:
        case("clamp", ramp(d, 4), -1e9, 1e39)
    case("clamp", ramp("f32", 5), nan, 1)
    case("clamp", ramp("f32", 5), -inf, 1, grad=True)


def truth_values():
    b, u, v = ramp("bool", 2, 2), T("bool", [1, 0]), T("bool", [1, 1])
    case("square", b)
    for d in INTEGERS + REAL + COMPLEX:
        case("square", ramp(d, 4), grad=d in REAL + COMPLEX)
    for beta in (0, 1, 2, True, False):
        for alpha in (0, 1, 3, True, False):
            case("addr", b, u, v, beta=beta, alpha=alpha)
    case("addr", b, u, v, beta=0.5)
    case("addr", T("bool", 1), u, v)
    case("outer", u, v)


def mixed_addr():
    for d in INTEGERS + REAL + COMPLEX:
        case("addr", ramp(d, 2, 3), ramp(d, 2), ramp(d, 3), beta=2, alpha=3, grad=d in REAL + COMPLEX)
    i, f = ramp("i64", 2, 2), ramp("f32", 2, 2)
    case("addr", i, ramp("i32", 2), ramp("i64", 2))
    case("addr", i, ramp("i64", 2), ramp("f32", 2), beta=0)
    case("addr", i, ramp("bool", 2), ramp("bool", 2), alpha=2)
    case("addr", f, ramp("i64", 2), ramp("bool", 2), beta=0.5, alpha=2.5, grad=True)
    case("addr", f, ramp("f16", 2), ramp("bf16", 2))
    case("addr", i, ramp("i64", 2), ramp("i64", 2), beta=0.5)
    case("addr", i, ramp("i64", 2), ramp("i64", 2), beta=True)
    case("addr", T("f32", [nan, 1]), ramp("f32", 2), ramp("f32", 2), beta=0)
    case("addr", ramp("f32", 3), ramp("f32", 2), ramp("f32", 2))


def extremes_of_a_number():
    for d in ["bool"] + INTEGERS + REAL:
        x = T(d, 1)
        case("aminmax", x)
        for keep in (False, True):
            case("aminmax", x, dim=0, keepdim=keep, grad=d in REAL)
            case("aminmax", x, dim=-1, keepdim=keep)
            case("aminmax", ramp(d, 2, 3), dim=1, keepdim=keep)
        case("aminmax", ramp(d, 2, 3), keepdim=True)
    case("aminmax", T("f32", 1), dim=1)
    case("aminmax", T("f32", []))


def shared_elements():
    for d in ALL:
        case("fill_.Scalar", ramp(d, 1, 3).expand(2, 3), 1)
        case("zero_", ramp(d, 1, 3).expand(2, 3))
    case("fill_.Scalar", T("f32", 1).expand(2, 2), 2.5)
    case("zero_", ramp("i16", 2, 1).expand(2, 4))
    case("fill_.Tensor", ramp("f32", 1, 3).expand(2, 3), T("f32", 2))
    case("add_.Scalar", ramp("f32", 1, 3).expand(2, 3), 1)
    case("copy_", ramp("f32", 1, 3).expand(2, 3), ramp("f32", 2, 3))


def shifts():
    for d in INTEGERS:
        bits = torch.iinfo(DTYPES[d]).bits
        top = torch.iinfo(DTYPES[d]).max
        x = T(d, [1, 3, top, 0] + ([] if d == "u8" else [-1, -5, -top - 1]))
        amounts = [0, 1, bits - 1, bits] + ([bits + 1] if bits + 1 <= top else []) + ([] if d == "u8" else [-1, -bits])
        for op in ("bitwise_left_shift", "bitwise_right_shift"):
            for n in amounts:
                case(op + ".Tensor", x, T(d, n))
                case(op + ".Tensor_Scalar", x, n)


def order_of_slices():
    x = T("i64", [3, 1, 0, 0, 5, 2, 3, 1, 0, 1, 1, 1], 2, 2, 3)
    for d in ("u8", "i32", "i64", "f16", "f32", "f64"):
        for dim in (0, 1, 2, -1):
            case("unique_dim", x.to(DTYPES[d]), dim, True, True, True)
    case("unique_dim", T("i64", [0, 0, 0, 1, 1, 0, 0, 0], 2, 2, 2), 2, True, True, True)
    case("unique_dim", T("bool", [1, 0, 1, 0, 0, 0, 1, 0], 4, 2), 0, True, True, True)


def convolutions_of_integers():
    for d in INTEGERS:
        x, w, b = ramp(d, 1, 2, 4), ramp(d, 2, 2, 2), ramp(d, 2)
        case("convolution", x, w, b, [1], [0], [1], False, [0], 1)
        case("convolution", x, w, None, [2], [1], [1], False, [0], 1)
        case("convolution", x, ramp(d, 2, 1, 2), b, [1], [1], [1], False, [0], 2)
        case("convolution", T(d, [100, 99, 98], 1, 1, 3), T(d, [77, 66], 1, 1, 2), None, [1], [0], [1], False, [0], 1)
    case("convolution", T("i64", [2**40, 2**24 + 1, 7], 1, 1, 3), T("i64", [2**10, 3], 1, 1, 2), None, [1], [0], [1], False, [0], 1)
    case("convolution", ramp("i64", 1, 1, 3, 3), ramp("i64", 2, 1, 2, 2), ramp("i64", 2), [1, 1], [1, 0], [1, 1], False, [0, 0], 1)
    case("convolution", ramp("i64", 1, 2, 2, 2), ramp("i64", 2, 1, 2, 2), ramp("i64", 1), [2, 1], [0, 0], [1, 1], True, [1, 0], 1)
    case("convolution", ramp("i64", 1, 1, 2, 2, 2), ramp("i64", 1, 1, 2, 2, 2), None, [1] * 3, [0] * 3, [1] * 3, True, [0] * 3, 1)
    case("convolution", ramp("bool", 1, 1, 3), ramp("bool", 1, 1, 2), None, [1], [0], [1], False, [0], 1)


def contractions_of_integers():
    for d in INTEGERS + ["bool"]:
        for x, y, dims in ((ramp(d, 2, 3), ramp(d, 3, 2), ([1], [0])), (ramp(d, 2, 3), ramp(d, 1, 2), ([1], [0])),
                           (ramp(d, 2, 1), ramp(d, 2, 3), ([0, 1], [0, 1])), (T(d, [1] * 300), T(d, [1]), ([0], [0]))):
            case("tensordot", x, y, *dims)


def complex_functions():
    for d in COMPLEX:
        x = ramp(d, 6)
        case("sinc", T(d, [0, 1 + 1j, 0.5j, 1, -0.25 + 0.5j]), grad=True)
        case("silu", x)
        case("nan_to_num", T(d, [complex(nan, 1), complex(inf, -inf), complex(2, nan)]))
        case("nan_to_num", T(d, [complex(nan, 1), complex(inf, -inf), 2]), 2.0, 3.0, -4.0, grad=True)
        case("logaddexp", x, T(d, [2j, 1, -1, 0, 3 - 1j, 1 + 1j]), grad=True)


def exact_powers_of_two():
    for d in REAL + COMPLEX + INTEGERS:
        case("ldexp.Tensor", ramp(d, 4), T("i32", [0, 3, -2, 5]), grad=d in REAL)
    case("ldexp.Tensor", T("f16", [1, 2**-14]), T("i64", [3, 20]))
    case("ldexp.Tensor", T("f32", [1, 2e-38]), T("i64", [3, 140]))
    case("ldexp.Tensor", T("f64", [1, 2]), T("i64", [3, 200]))
    case("ldexp.Tensor", T("f16", [1, 2]), T("f16", [3, 0.5]))


def slopes_at_bounds():
    x = T("f64", [0, 1, 1.5, 2, 3, nan])
    for lo, hi in ((1, 2), (2, 1), (1, 1), (1, None), (None, 2), (nan, 1), (1, nan)):
        case("clamp", x, lo, hi, grad=True)
    case("clamp_min", x, 1, grad=True)
    case("clamp_max", x, 2, grad=True)
    each = [(a, b, c) for a in (1, 2, 3) for b in (1, 2, 3) for c in (1, 2, 3)] + [(nan, 1, 2), (1, nan, 2), (nan, nan, 1)]
    case("clamp.Tensor", *(T("f64", [e[i] for e in each]) for i in range(3)), grad=True)
    a, b = T("f64", [1, 1, 2, nan, 1, nan]), T("f64", [1, 2, 1, 1, nan, nan])
    case("clamp.Tensor", a, b, None, grad=True)
    case("clamp.Tensor", a, None, b, grad=True)
    for op in ("maximum", "minimum", "fmax", "fmin", "clamp_min.Tensor", "clamp_max.Tensor"):
        case(op, a, b, grad=True)
    case("hardswish", T("f64", [-3, 3, -3.5, 3.5, 0]), grad=True)
    case("hardsigmoid", T("f64", [-3, 3, -3.5, 3.5, 0]), grad=True)
    case("hardtanh", T("f64", [-1, 1, -0.5, 3]), grad=True)
    for v in ([1, 2, 2, 2, 3], [2, 1], [4]):
        case("median", T("f64", v), grad=True)
        case("median.dim", T("f64", v), 0, grad=True)
    case("margin_ranking_loss", T("f32", [1, 2, 0.5]), T("f32", [1, -1, -1]), T("f32", [1, -1, 1]), reduction=0, grad=True)
    case("logit", T("f64", [0, 0.1, 0.5, 1]), grad=True)
    case("xlogy.Tensor", T("f64", [0, 0, 0, 1, -2, 0]), T("f64", [0.5, 2, -1, 3, 0.5, nan]), grad=True)
    case("special_xlog1py", T("f64", [0, 0, 0, 1, -2, 0]), T("f64", [-0.5, 2, -2, 3, 0.5, nan]), grad=True)
    case("xlogy.Tensor", T("f32", [0, 0, 0]), T("f32", [0, inf, 1]))
    case("pow.Tensor_Tensor", T("f64", [-2, -0.5, 3]), T("c128", [1 + 1j, -2j, 0.5]), grad=True)
    case("renorm", T("f64", [1, 2, 3, 4], 2, 2), 2, 0, inf, grad=True)


def slopes_where_there_is_none():
    for d in FLOATS:
        case("atan2", T(d, [0, 0, -0.0, 1, 0, nan]), T(d, [0, -0.0, 0, 0, -1, 1]), grad=True)
        x = T(d, [0, 1, -0.5, 1.5, 0.5, 0.2, 0.875, nan, inf])
        for eps in (None, 0.25, 0.0, -1.0, 0.5):
            case("logit", x, eps, grad=True)
        for v in ([1, nan, 2], [nan, nan, 2], [3, 1, 1, 3]):
            for op in ("median", "max", "min"):
                case(op, T(d, v), grad=True)
    a, b = T("f64", [[1], [nan], [2]]), T("f64", [1, 2, nan])
    for op in ("fmax", "fmin"):
        case(op, a, b, grad=True)
        case(op, T("f32", [1, 2]), T("f64", [1, 3]), grad=True)
    special = [0, complex(0, -0.0), complex(inf, 1), complex(1, -inf), complex(nan, 1), complex(inf, nan), complex(nan, -inf),
               complex(inf, inf), complex(0, nan), 3 + 4j]
    for d in COMPLEX:
        case("reciprocal", T(d, special))


def scans_in_place():
    for op in ("cumsum_", "cumprod_"):
        for d in INTEGERS + REAL + COMPLEX:
            case(op, ramp(d, 2, 3), 1)
            case(op, ramp(d, 2, 3), 0, dtype=DTYPES[d])
        for d, other in (("f32", "f64"), ("f32", "i64"), ("f16", "f32"), ("u8", "i64"), ("i32", "f32"), ("f64", "c128"), ("c64", "f32")):
            case(op, ramp(d, 3), 0, dtype=DTYPES[other])


def sums_into_another_dtype():
    """An out tensor's dtype is that of the sum: halves do not overflow on the way."""
    for d, to in (("f16", "f32"), ("bf16", "f64"), ("f32", "f64"), ("f64", "f16")):
        x = T(d, [60000, 60000, 0.3, -2.5])
        for name in ("sum.IntList_out", "mean.out", "nansum.out"):
            case(name, x, [0], out=T(to, 0))
        case("prod.int_out", x, 0, out=T(to, 0))
        case("cumsum.out", x, 0, out=torch.zeros_like(x, dtype=DTYPES[to]))
        case("cumprod.out", x, 0, out=torch.zeros_like(x, dtype=DTYPES[to]))
    case("mean.out", T("i32", [1, 2, 4]), [0], out=T("f32", 0))
    case("mean.out", T("f32", [1, 2, 4]), [0], out=T("i32", 0))
    case("sum.IntList_out", T("i32", [2**31 - 1, 1]), [0], out=T("i64", 0))
    case("sum.IntList_out", T("i32", [2**31 - 1, 1]), [0], out=T("i32", 0))
    case("sum.IntList_out", T("u8", [200, 100]), [0], out=T("f16", 0))
    case("prod.int_out", T("i8", [100, 100]), 0, out=T("i16", 0))
    case("cumsum.out", T("i8", [100, 100]), 0, out=T("i8", [0, 0]))


def search_among_another_dtype():
    """Boundaries and values meet in the dtype to which they promote."""
    for d in ["u8", "i16", "i64"] + REAL:
        for e in ["i32", "f16", "f32", "f64"]:
            case("searchsorted.Tensor", T(d, [1, 2, 4, 4, 7]), T(e, [0, 2, 3, 4, 9]))
            case("bucketize.Tensor", T(e, [0, 2, 3, 4, 9]), T(d, [1, 2, 4, 4, 7]), right=True)
    case("searchsorted.Tensor", T("i64", [1, 2, 3]), T("f32", [1.5, 2.5, 3.5]))
    case("searchsorted.Tensor", T("f16", [1, 2, 3]), T("f32", [2.0003]))
    case("searchsorted.Tensor", T("f16", [1, 2, 3]), T("f32", 2.0003))
    case("searchsorted.Tensor", T("c64", [1, 2, 3]), T("f32", [2]))


def statistics_of_halves():
    """Mean and rstd are float32 where the parameters are, else as the input. Parameters that do not go together are refused.
    PyTorch rounds on the way where Facula does not: scale and shift of batch norm of halves, gradients of layer norm's weights beside them."""
    def filled(d, *sizes):
        return ramp(d, *sizes).abs() + 1 if d else None

    for d in REAL:
        other = "bf16" if d == "f16" else "f16"
        rows, groups, points = ramp(d, 4, 4), ramp(d, 2, 4, 3), ramp(d, 5, 4)
        exact = None if d in FLOATS else [1, 2]
        for w, b in ((None, None), (d, None), (None, d), (d, d), ("f32", None), (None, "f32"), ("f32", "f32"), ("f32", d), (d, "f32"),
                     (other, None), (None, other), (other, other), ("f64", "f64")):
            weight, bias = filled(w, 4), filled(b, 4)
            case("native_layer_norm", rows, [4], weight, bias, 0.5)
            case("native_group_norm", groups, weight, bias, 2, 4, 3, 2, 0.5)
            case("native_batch_norm", points, weight, bias, None, None, True, 0.5, 0.5, only=exact)
        for w in (None, d, "f32") if d in HALVES else (None, d):
            if d in FLOATS or not w:
                case("layer_norm", rows, [4], filled(w, 4), filled(w, 4), 0.5, grad=True)
            case("group_norm", groups, 2, filled(w, 4), filled(w, 4), 0.5, grad=True)
            case("batch_norm", points, filled(w, 4), filled(w, 4), None, None, True, 0.5, 0.5, False, grad=True, only=exact)
        for w, mean, var in ((None, d, d), (None, "f32", "f32"), (d, "f32", "f32"), ("f32", "f32", "f32"), (None, other, other), (None, d, other)):
            for training in (True, False):
                case("native_batch_norm", points, filled(w, 4), None, filled(mean, 4), filled(var, 4), training, 0.5, 0.5,
                     only=exact if training else None)
        case("_fused_rms_norm", rows, [4], filled(other, 4), 0.5)


def sums_of_complex_exponentials():
    """All pairs of numbers at the edges, as rows. Gradients where they are numbers in PyTorch too: not at an infinite result."""
    edges = [0, 1 + 2j, -3 + 1j, 800 + 1j, -800 + 3j, 1j * inf, complex(0, nan)]
    edges += [complex(re, im) for re in (-inf, inf) for im in (0, 1, 4, -1, inf, nan)] + [complex(nan, 0), complex(nan, nan)]
    finite = [0, 1 + 2j, -3 + 1j, 80 + 1j, -80 + 3j, complex(-inf, 0), complex(-inf, 1)]
    for d in COMPLEX:
        for op, dim in (("logsumexp", [1]), ("logcumsumexp", 1)):
            case(op, T(d, edges, len(edges), 1), dim)
            case(op, T(d, [[a, b] for a in edges for b in edges]), dim)
            case(op, T(d, [[1 + 1j, a, b] for a in finite for b in finite]), dim, grad=True)
            case(op, ramp(d, 2, 3, 4), dim, grad=True)
            case(op, T(d, [], 2, 0), dim, grad=True)
            case(op, T(d, 1 + 2j), [0] if op == "logsumexp" else 0, grad=True)
        for dims in ([], [0, 1], [-1]):
            case("logsumexp", ramp(d, 2, 3, 4), dims, True, grad=True)
        case("logcumsumexp", ramp(d, 2, 3, 4), -3, grad=True)


DIFFERENCES = {
    "sums of complex exponentials": sums_of_complex_exponentials,
    "statistics of halves": statistics_of_halves,
    "corrections that are fractions": corrections,
    "int32 indices": narrow_indices,
    "indices counted from the end": indices_from_the_end,
    "bounds beyond an integer dtype": bounds_of_integers,
    "square and addr of truth values": truth_values,
    "addr of mixed dtypes": mixed_addr,
    "aminmax without dimensions": extremes_of_a_number,
    "fills of elements that share memory": shared_elements,
    "shifts beyond the width": shifts,
    "the order of unique slices": order_of_slices,
    "convolutions of integers": convolutions_of_integers,
    "contractions of integers": contractions_of_integers,
    "complex functions": complex_functions,
    "exact powers of two": exact_powers_of_two,
    "slopes at bounds and ties": slopes_at_bounds,
    "slopes where there is none": slopes_where_there_is_none,
    "scans in place": scans_in_place,
    "sums into another dtype": sums_into_another_dtype,
    "search among another dtype": search_among_another_dtype,
}

# ---- every dtype ---------------------------------------------------------------------------------------------------------------

UNARY = ("abs neg sign sgn ceil floor round trunc reciprocal sqrt rsqrt square exp exp2 expm1 log log2 log10 log1p sin cos tan asin "
         "acos atan sinh cosh tanh asinh acosh atanh erf erfc sigmoid relu bitwise_not logical_not isnan isfinite angle frac "
         "conj_physical positive silu gelu hardswish softplus").split()
BINARY = ("add.Tensor sub.Tensor mul.Tensor div.Tensor maximum minimum fmax fmin remainder.Tensor fmod.Tensor floor_divide atan2 eq.Tensor "
          "lt.Tensor ge.Tensor logical_and logical_xor bitwise_and.Tensor bitwise_or.Tensor pow.Tensor_Tensor").split()
REDUCTIONS = "sum prod mean any all max min argmax argmin amax std var norm.Scalar logsumexp cumsum cumprod sort median".split()


def has_slope(op, d):
    if op == "silu" and d in COMPLEX:
        return False  # the reference refuses it where the function is called, Facula where a gradient is asked for
    return d in REAL + COMPLEX and op not in ("logical_not", "isnan", "isfinite", "bitwise_not", "acosh")


def unary_of_every_dtype():
    for op in UNARY:
        for d in ALL:
            if op != "frac" or d not in INTEGERS:
                case(op, ramp(d, 5), grad=has_slope(op, d))


def binary_of_every_dtype():
    for op in BINARY:
        for d in ALL:
            y = ramp(d, 3)
            y = torch.where(y == 0, torch.ones_like(y), y).abs() if d not in COMPLEX + ["bool"] else torch.ones_like(y)
            case(op, ramp(d, 2, 3), y)
        for d, e in (("u8", "i8"), ("i32", "i64"), ("bool", "i16"), ("i64", "f16"), ("f16", "bf16"), ("f32", "f64"), ("f64", "c64")):
            case(op, ramp(d, 3), torch.ones_like(ramp(e, 3)))


def reductions_of_every_dtype():
    for op in REDUCTIONS:
        for d in ALL:
            x = ramp(d, 2, 3)
            if op in ("logsumexp", "amax"):
                case(op, x, [1])
            elif op in ("cumsum", "cumprod", "sort"):
                case(op, x, 1)
            else:
                case(op, x)


BROAD = {"unary operators of every dtype": unary_of_every_dtype, "binary operators of every dtype": binary_of_every_dtype,
         "reductions of every dtype": reductions_of_every_dtype}

if __name__ == "__main__":
    if int(torch.__version__.split(".")[0]) < 2:
        sys.exit("a PyTorch 2 is needed")
    for title, cases in (DIFFERENCES | BROAD).items():
        group(title)
        cases()
    write()
