#!/usr/bin/env python3
"""Tensors handed to numpy and PyTorch and taken from them, as DLPack capsules: values, strides and offsets, the same memory both ways, who
frees what and when.

usage: exchange.py LIBFACULA.so
"""

import ctypes as C
import gc
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance"))
import numpy  # noqa: E402
import torch  # noqa: E402

from facula import DTYPES, Facula, P, Scope, Tensor  # noqa: E402

VERSIONED, OLD, USED = b"dltensor_versioned", b"dltensor", b"used_"
NEW = tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 9) and int(numpy.__version__.split(".")[0]) >= 2
api = C.pythonapi
DESTRUCTOR = C.CFUNCTYPE(None, P)


class DlDevice(C.Structure):
    _fields_ = [("type", C.c_int32), ("id", C.c_int32)]


class DlDtype(C.Structure):
    _fields_ = [("code", C.c_uint8), ("bits", C.c_uint8), ("lanes", C.c_uint16)]


class DlTensor(C.Structure):
    _fields_ = [("data", P), ("device", DlDevice), ("ndim", C.c_int32), ("dtype", DlDtype), ("shape", C.POINTER(C.c_int64)),
                ("strides", C.POINTER(C.c_int64)), ("byte_offset", C.c_uint64)]


class Managed(C.Structure):
    _fields_ = [("tensor", DlTensor), ("context", P), ("deleter", C.CFUNCTYPE(None, P))]


class Versioned(C.Structure):
    _fields_ = [("major", C.c_uint32), ("minor", C.c_uint32), ("context", P), ("deleter", C.CFUNCTYPE(None, P)),
                ("flags", C.c_uint64), ("tensor", DlTensor)]


def declare(f):
    def fn(owner, name, result, *args):
        g = getattr(owner, name)
        g.restype, g.argtypes = result, args

    for name in ("fac_to_dlpack", "fac_to_dlpack_unversioned", "fac_from_dlpack", "fac_from_dlpack_unversioned"):
        fn(f.lib, name, P, P, P)
    fn(f.lib, "fac_tensor_data", P, P)
    fn(f.lib, "fac_keep", P, P)
    fn(f.lib, "fac_release", None, P)
    fn(f.lib, "fac_tensor_strides", type(f.lib.fac_tensor_strides.restype()), P)
    fn(api, "PyCapsule_New", C.py_object, P, C.c_char_p, P)
    fn(api, "PyCapsule_GetPointer", P, C.py_object, C.c_char_p)
    fn(api, "PyCapsule_IsValid", C.c_int, C.py_object, C.c_char_p)
    fn(api, "PyCapsule_SetName", C.c_int, C.py_object, C.c_char_p)


KEEP = []  # names of capsules, which do not copy them


class Given:
    """A Facula tensor as an object with the protocol's methods."""

    def __init__(self, f, t):
        self.f, self.t = f, t

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None):
        assert stream is None
        new = max_version is not None and max_version[0] >= 1
        lib = self.f.lib
        m = (lib.fac_to_dlpack if new else lib.fac_to_dlpack_unversioned)(self.t.h, None)
        if not m:
            raise BufferError(self.f.message())
        return api.PyCapsule_New(m, VERSIONED if new else OLD, None)


def take(s, capsule):
    """A Facula tensor of the memory of a capsule, which is used up."""
    new = bool(api.PyCapsule_IsValid(capsule, VERSIONED))
    name = VERSIONED if new else OLD
    m = api.PyCapsule_GetPointer(capsule, name)
    lib = s.lib
    h = (lib.fac_from_dlpack if new else lib.fac_from_dlpack_unversioned)(m, None)
    if not h:
        raise BufferError(s.f.message())
    KEEP.append(USED + name)
    api.PyCapsule_SetName(capsule, KEEP[-1])
    return Tensor(s, h)


def same(a, b, what):
    if a.dtype != b.dtype or a.shape != b.shape or not torch.equal(a, b):
        raise AssertionError(f"{what}: {a} is not {b}")


def of_dtype(dtype):
    x = torch.arange(24) % 2
    return x.to(dtype).reshape(2, 3, 4)


LAYOUTS = {"row-major": lambda x: x, "turned": lambda x: x.permute(2, 0, 1), "a part": lambda x: x[1:, ::2, 1:3],
           "empty": lambda x: x[:, :0], "one": lambda x: x[1, 2, 3], "expanded": lambda x: x[:, :1].expand(2, 5, 4)}


def check_torch(f):
    n = 0
    for dtype in DTYPES[1:]:
        for name, layout in LAYOUTS.items():
            if dtype == torch.bool and not NEW:
                continue  # which PyTorch 1 does not give
            theirs = layout(of_dtype(dtype))
            what = f"{dtype}, {name}"
            with Scope(f) as s:
                mine = take(s, theirs.__dlpack__())
                same(mine.torch(), theirs, f"{what}, taken from PyTorch")
                if theirs.numel() and f.lib.fac_tensor_data(mine.h) != theirs.data_ptr():
                    raise AssertionError(f"{what}: not the same memory")
                back = torch.from_dlpack(Given(f, mine))
                same(back, theirs, f"{what}, given to PyTorch")
                if theirs.numel() and (back.data_ptr() != theirs.data_ptr() or
                                       [k for k, m in zip(back.stride(), back.shape) if m > 1] !=
                                       [k for k, m in zip(theirs.stride(), theirs.shape) if m > 1]):
                    raise AssertionError(f"{what}: not the same memory and strides")
                if NEW:  # the struct of versions 1
                    same(take(s, theirs.__dlpack__(max_version=(1, 0))).torch(), theirs, f"{what}, versioned")
                    same(torch.from_dlpack(Given(f, mine).__dlpack__(max_version=(1, 0))), theirs, f"{what}, versioned")
                n += 1
    return n


def check_numpy(f):
    n = 0
    for dtype in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"):
        if dtype == "bool" and not NEW:
            continue  # which numpy 1 has no dtype of the protocol for
        for name in ("row-major", "part"):
            a = numpy.arange(24).reshape(4, 6).astype(dtype)
            a = a if name == "row-major" else a[1:, 1::2]
            with Scope(f) as s:
                mine = take(s, a.__dlpack__())
                if f.lib.fac_tensor_data(mine.h) != a.ctypes.data:
                    raise AssertionError(f"{dtype}, {name}: not numpy's memory")
                same(mine.torch(), torch.from_numpy(a.copy()), f"{dtype}, {name}, taken from numpy")
                back = numpy.from_dlpack(Given(f, mine))
                if back.dtype != a.dtype or back.strides != a.strides or not (back == a).all() or back.ctypes.data != a.ctypes.data:
                    raise AssertionError(f"{dtype}, {name}: given to numpy it is {back}, not {a}")
                n += 1
    with Scope(f) as s:
        a = numpy.arange(6.0)
        mine = take(s, a.__dlpack__())
        s.call("aten::mul_.Scalar", {"self": mine, "other": 3.0})
        if a.tolist() != [0, 3, 6, 9, 12, 15]:
            raise AssertionError(f"numpy does not see what was written: {a}")
        if NEW:
            a.flags.writeable = False
            try:
                take(s, a.__dlpack__(max_version=(1, 0)))
                raise AssertionError("memory that may not be written was taken")
            except BufferError as e:
                assert "may not be written" in str(e), e
    return n


def check_lifetimes(f):
    a = numpy.ones(1000)
    before = sys.getrefcount(a)
    with Scope(f) as s:
        kept = f.lib.fac_keep(take(s, a.__dlpack__()).h)
        if sys.getrefcount(a) <= before:
            raise AssertionError("numpy's array is not held")
    if sys.getrefcount(a) <= before:
        raise AssertionError("numpy's array is not held by what was kept")
    f.lib.fac_release(kept)
    gc.collect()
    if sys.getrefcount(a) != before:
        raise AssertionError("numpy's array is held longer than the tensor lives")
    live = f.lib.fac_live()
    with Scope(f) as s:
        mine, = s.call("aten::full", {"size": [1000], "fill_value": 7.0})
        theirs, array = torch.from_dlpack(Given(f, mine)), numpy.from_dlpack(Given(f, mine))
    if f.lib.fac_live() == live:
        raise AssertionError("the memory that was given is not held")
    if theirs.sum().item() != 7000 or array.sum() != 7000:
        raise AssertionError("the memory that was given has changed")
    del theirs, array
    gc.collect()
    if f.lib.fac_live() != live:
        raise AssertionError(f"{f.lib.fac_live() - live} objects are held after the deleters")
    unused = Given(f, None)
    with Scope(f) as s:
        unused.t, = s.call("aten::full", {"size": [3], "fill_value": 7.0})
        m = C.cast(f.lib.fac_to_dlpack(unused.t.h, None), C.POINTER(Versioned))
        assert (m.contents.major, m.contents.tensor.ndim, m.contents.tensor.dtype.bits) == (1, 1, 32)
        m.contents.deleter(C.cast(m, P).value)
        old = C.cast(f.lib.fac_to_dlpack_unversioned(unused.t.h, None), C.POINTER(Managed))
        assert (old.contents.tensor.ndim, old.contents.tensor.dtype.code) == (1, 2)
        old.contents.deleter(C.cast(old, P).value)
    if f.lib.fac_live() != live:
        raise AssertionError("what nobody took is held")


def main():
    f = Facula(sys.argv[1])
    declare(f)
    n = check_torch(f), check_numpy(f)
    check_lifetimes(f)
    print(f"{n[0]} tensors went to PyTorch {torch.__version__} and back, {n[1]} to numpy {numpy.__version__}; nothing is held")


if __name__ == "__main__":
    main()
