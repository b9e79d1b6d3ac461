#!/usr/bin/env python3
"""Autocast against PyTorch's, on the CPU: the dtypes of the results of every operator of PyTorch's database, called within autocast by
both, and which operators the two cast. With PyTorch 2 on a machine with no GPU the list of CUDA is compared as well.

usage: dtypes.py LIBFACULA.so [--dtype bfloat16] [--ops REGEX] [--verbose]
"""

import argparse
import collections
import ctypes as C
import itertools
import pathlib
import re
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance"))
import torch  # noqa: E402

import interpret  # noqa: E402
from database import OPERATORS  # noqa: E402
from facula import DTYPE_CODE, Device, Error, Facula, Scope, Tensor, Unsupported  # noqa: E402

NEW = tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 9)

# Where the two differ, and why. Operators of the database, then of the lists.
DIFFERENT = {
    "linalg.pinv": "is one operator here, in f32; PyTorch casts the last product in it",
    "linalg.pinv.hermitian": "as linalg.pinv",
    "broadcast_shapes": "gives no tensor",
    "hash_tensor": "there is no uint64",
}
# PyTorch 1.13's lists are shorter than PyTorch 2's; its casts differ there.
OLDER = {
    **dict.fromkeys(["nn.functional.conv_transpose1d", "nn.functional.conv_transpose2d", "nn.functional.conv_transpose3d",
                     "nn.functional.prelu", "linalg.vecdot"], "is not in its list"),
    **dict.fromkeys(["inner", "tensordot"], "multiplies matrices where PyTorch 2 multiplies elements"),
    **dict.fromkeys(["stft", "istft", "as_strided_scatter", "mT", "mH"], "is an error in PyTorch 2"),
}


class AutocastKw(C.Structure):
    _fields_ = [("kw_size", C.c_size_t), ("device", Device), ("dtype", C.c_int), ("enabled", C.c_int), ("cache_enabled", C.c_int),
                ("kw_stray", C.c_int64)]


class Guard(C.Structure):
    _fields_ = [("was", C.c_uint32), ("open", C.c_bool)]


class Autocast:
    def __init__(self, facula, dtype):
        self.f, self.dtype = facula, dtype

    def __enter__(self):
        kw = AutocastKw()
        self.f.lib.fac_autocast_begin_kw_init(C.byref(kw))
        assert kw.kw_size == C.sizeof(kw), "AutocastKw is not fac_autocast_begin_kw"
        kw.dtype = DTYPE_CODE[self.dtype]
        self.guard = self.f.lib.fac_autocast_begin(C.byref(kw))
        assert self.guard.open, self.f.message()

    def __exit__(self, *_):
        self.f.lib.fac_autocast_end(C.byref(self.guard))


def declare(f):
    f.lib.fac_autocast_begin_kw_init.argtypes, f.lib.fac_autocast_begin_kw_init.restype = [C.POINTER(AutocastKw)], None
    f.lib.fac_autocast_begin.argtypes, f.lib.fac_autocast_begin.restype = [C.POINTER(AutocastKw)], Guard
    f.lib.fac_autocast_end.argtypes, f.lib.fac_autocast_end.restype = [C.POINTER(Guard)], None
    f.lib.fac_operator_autocast.argtypes, f.lib.fac_operator_autocast.restype = [C.c_void_p, C.c_int], C.c_char_p


def fresh(ts):
    return [t.detach().clone() for t in ts]


def check_sample(f, op, sample, dtype, counts):
    """The dtypes that Facula and PyTorch give, where they differ; None where they do not, or one of the two cannot say."""
    inputs = []
    shape = interpret.flatten((sample.input, sample.args, sample.kwargs), inputs)

    def fn(*ts):
        first, args, kwargs = interpret.fill(shape, ts)
        return op.op(first, *args, **kwargs)

    try:
        with torch.no_grad(), torch.autocast("cpu", dtype=dtype):
            theirs = [t.dtype for t in interpret.tensors_of(fn(*fresh(inputs)))]
        graph = interpret.trace(fn, [t.float() if t.dtype == dtype else t for t in fresh(inputs)])
    except (RuntimeError, ValueError, TypeError, NotImplementedError, AssertionError, Unsupported) as e:
        return counts.update(unsupported=1)
    if interpret.missing(f, graph):
        return counts.update(missing=1)
    with Scope(f) as s:
        try:
            wrapped = [s.wrap(t) for t in fresh(inputs)]
            with Autocast(f, dtype):
                mine = [t.dtype() for t in interpret.run(s, graph, wrapped)]
        except (Unsupported, interpret.Missing):
            return counts.update(unsupported=1)
        except Error as e:
            return f"{e}, PyTorch gives {theirs}"
    counts.update(compared=1)
    return None if mine == theirs else f"{mine}, PyTorch gives {theirs}"


def compare_results(f, dtype, pattern, verbose):
    wrong, counts, seen = 0, collections.Counter(), set()
    for name, op in OPERATORS.items():
        if not re.search(pattern, name) or name.startswith("_foreach") or torch.float32 not in op.dtypes:
            continue
        found = None
        try:
            samples = list(op.sample_inputs("cpu", torch.float32))[:3]
        except Exception:
            continue
        for sample in samples:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = found or check_sample(f, op, sample, dtype, counts)
        why = DIFFERENT.get(name) or (None if NEW else OLDER.get(name))
        if found and why:
            seen.add(name)
            if verbose:
                print(f"differs {name}: {why}")
        elif found:
            wrong += 1
            print(f"FAILED  {name}: {found}")
    if pattern == "":
        for name in set(DIFFERENT) - seen if NEW else ():
            print(f"FAILED  {name} does not differ any more")
            wrong += 1
    print(f"{counts['compared']} samples of {len(OPERATORS)} operators have PyTorch {torch.__version__}'s dtypes in {dtype} autocast; "
          f"{wrong} operators differ, {len(seen)} for a known reason; {counts['missing']} samples need what Facula does not have, "
          f"{counts['unsupported']} cannot be compared")
    if counts["compared"] < (1000 if pattern == "" else 1):
        print("FAILED  too few samples were compared")
        wrong += 1
    return wrong


def recurrent(dtype):
    """Recurrent layers and cells, which the database does not have: name, call, inputs; from f32, and from what a layer before them gave."""
    w = [torch.randn(4 * k, n) / 4 for k, n in ((4, 3), (4, 4))] + [torch.randn(16), torch.randn(16)]
    for first in (torch.float32, dtype):
        x, h, c = torch.randn(5, 2, 3).to(first), torch.zeros(1, 2, 4).to(first), torch.zeros(1, 2, 4).to(first)
        for name, parts in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
            ws = [t[:4 * parts] for t in w]
            layer, cell = getattr(torch._VF, name), getattr(torch._VF, name + "_cell")
            lstm = name == "lstm"

            def whole(x, h, c, *ws, layer=layer, lstm=lstm):
                return layer(x, (h, c) if lstm else h, list(ws), True, 1, 0.0, False, False, False)

            def step(x, h, c, *ws, cell=cell, lstm=lstm):
                return cell(x[0], (h[0], c[0]) if lstm else h[0], *ws)

            yield f"{name} of {first}", whole, [x, h, c, *ws]
            yield f"{name}_cell of {first}", step, [x, h, c, *ws]


def products(dtype):
    """Products whose sums decide whether matrices are multiplied, which is cast, or elements, which is not."""
    for equation, *shapes in ("i,i->", (3,), (3,)), ("i,i->i", (3,), (3,)), ("i,j->ij", (3,), (4,)), ("ij,jk->ik", (2, 1), (1, 4)), \
            ("ij,kj->i", (2, 3), (1, 3)), ("ij,k->i", (2, 3), (4,)), ("i,i,i->", (3,), (3,), (3,)), ("bi,bj->bij", (2, 3), (2, 4)):
        yield f"einsum {equation}", lambda *ts, e=equation: torch.einsum(e, *ts), [torch.randn(s) for s in shapes]
    for dims, *shapes in (1, (3,), (3,)), (2, (2, 3), (2, 3)), (0, (2,), (3,)), (([0, 1], [0, 1]), (2, 3), (2, 1)), (1, (2, 3), (3,)):
        yield f"tensordot {dims} of {shapes}", lambda a, b, d=dims: torch.tensordot(a, b, d), [torch.randn(s) for s in shapes]


class Call:
    """A call in the place of an operator of the database and its sample."""

    def __init__(self, fn, inputs):
        self.op, self.input, self.args, self.kwargs = fn, inputs[0], tuple(inputs[1:]), {}


def compare_calls(f, dtype):
    wrong, counts = 0, collections.Counter()
    for name, fn, inputs in itertools.chain(recurrent(dtype), products(dtype)):
        call = Call(fn, inputs)
        found = check_sample(f, call, call, dtype, counts)
        if found:
            print(f"FAILED  {name}: {found}")
            wrong += 1
    print(f"{counts['compared']} recurrent layers, cells and products compared")
    return wrong + (counts["compared"] < 22)


def compare_lists(f):
    """Operators that both have: PyTorch casts those that have a kernel for the key."""
    wrong = 0
    own = {"aten::_convolution": "what PyTorch's traces have in the place of conv1d, conv2d, conv3d",
           "aten::_convolution_mode": "as _convolution",
           "aten::_rnn_layer": "PyTorch's kernels are mkldnn_rnn_layer and _cudnn_rnn",
           "aten::gru.input": "PyTorch's parts are cast, and the result has the dtype of the state", "aten::gru.data": "as gru.input"}
    for key, kind in (("AutocastCPU", 1), ("AutocastCUDA", 2)):
        n = 0
        for i in range(f.lib.fac_operator_count()):
            op = f.lib.fac_operator_at(i)
            name = f.lib.fac_operator_name(op).decode()
            try:
                theirs = torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
            except RuntimeError:
                theirs = None
            mine = f.lib.fac_operator_autocast(op, kind) not in (b"", b"none")
            n += mine
            if name in own or theirs is None and not mine:
                continue
            if mine != bool(theirs):
                print(f"FAILED  {name}: {key} {'casts' if mine else 'does not cast'}, PyTorch {'casts' if theirs else 'does not'}")
                wrong += 1
        print(f"{n} operators are cast by {key}")
        wrong += n < 100
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("library")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--ops", default="")
    parser.add_argument("--verbose", action="store_true")
    a = parser.parse_args()
    torch.manual_seed(0)
    f = Facula(a.library)
    declare(f)
    wrong = compare_results(f, getattr(torch, a.dtype), a.ops, a.verbose)
    if NEW and not a.ops:
        wrong += compare_calls(f, getattr(torch, a.dtype)) + compare_lists(f)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
