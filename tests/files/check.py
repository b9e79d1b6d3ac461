#!/usr/bin/env python3
"""Files of NumPy and PyTorch against the library: check.py LIBRARY API_JSON. Each reads what another wrote."""
import collections
import ctypes as C
import pathlib
import sys
import tempfile
import wave

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"))
import facula  # noqa: E402


class Ints(C.Structure):
    _fields_ = [("v", C.POINTER(C.c_int64)), ("n", C.c_size_t)]


class Entry(C.Structure):
    _fields_ = [("name", C.c_char_p), ("dtype", C.c_int), ("sizes", Ints), ("text", C.c_char_p)]


class Named(C.Structure):
    _fields_ = [("name", C.c_char_p), ("tensor", C.c_void_p)]


DTYPES = ("?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16")


def arrays():
    random = np.random.default_rng(1)
    for dtype in DTYPES:
        for shape in ((), (0, 3), (4,), (2, 3), (2, 1, 5)):
            x = random.integers(0, 100, shape) + (1j * random.integers(0, 9, shape) if "c" in dtype else 0)
            yield np.asarray(x).astype(dtype)


def is_same(f, t, a):
    """Whether a tensor of the library's has the shape and the numbers of an array."""
    if t.shape != a.shape:
        return False
    if np.iscomplexobj(a):
        t, a = f.view_as_real(t), np.stack([a.real, a.imag], -1)
    return a.size == 0 or t.tolist() == a.astype("f8").tolist()


def npy_goes_both_ways(f, folder):
    path = str(folder / "a.npy")
    for a in arrays():
        for form in (a, a.copy("F"), a.astype(a.dtype.newbyteorder(">"))):
            np.save(path, form)
            t = f.npy_read(path)
            assert is_same(f, t, a), (a.dtype, a.shape)
        f.npy_write(path, t)
        back = np.load(path)
        assert back.dtype == a.dtype and back.shape == a.shape and (back == a).all()


def entries(f, file):
    for i in range(f.tensor_file_count(file)):
        e = Entry()
        f.tensor_file_get(file, i, C.addressof(e))
        yield e.name.decode(), e.text.decode() if e.text is not None else f.tensor_file_read(file, i)


def npz_goes_both_ways(f, folder):
    path = str(folder / "a.npz")
    many = {f"array {i}": a for i, a in enumerate(arrays())}
    for save in (np.savez, np.savez_compressed):
        save(path, **many)
        found = dict(entries(f, f.npz_open(path)))
        assert set(found) == set(many)
        for name, t in found.items():
            assert is_same(f, t, many[name])
    tensors = {name.encode(): t for name, t in found.items()}
    named = (Named * len(tensors))(*(Named(name, t.pointer) for name, t in tensors.items()))
    for compressed in (False, True):
        f.npz_write(path, C.addressof(named), len(named), compressed)
        with np.load(path) as back:
            assert set(back.files) == set(many)
            for name in back.files:
                assert back[name].dtype == many[name].dtype and (back[name] == many[name]).all()


def flat(value, name=""):
    """What the library should have of a value that torch.save wrote."""
    if isinstance(value, torch.Tensor):
        yield name, value.detach()
    elif isinstance(value, (dict, list, tuple)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from flat(item, f"{name}.{key}" if name else str(key))
    else:
        yield name, str(value)


def what_torch_saves_is_read(f, folder):
    path = str(folder / "a.pt")
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(torch.randn(2, 3, 6, 6)).sum().backward()
    optimizer.step()
    base = torch.randn(4, 6)
    values = [model.state_dict(), {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3},
              collections.OrderedDict(a=base, b=base[1:3, ::2], c=base.t(), d=base[0], e=base[:0]), [base, (1, 2.5, None, "text", True)],
              {f"{d}": torch.ones(3).to(getattr(torch, d)) for d in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16",
                                                                    "float32", "float64", "complex64", "complex128")}, torch.tensor(3)]
    for value in values:
        torch.save(value, path)
        found, right = dict(entries(f, f.pt_open(path))), dict(flat(value))
        assert found.keys() == right.keys(), found.keys() ^ right.keys()
        for name, t in found.items():
            if isinstance(t, str):
                assert t == right[name], (name, t, right[name])
            else:
                r = right[name]
                assert t.dtype == str(r.dtype).removeprefix("torch."), name
                assert is_same(f, t, (r if r.is_complex() else r.to(torch.float64)).numpy()), name
    for value in (model, torch.nn.ReLU(), {1, 2}):
        torch.save(value, path)
        try:
            f.pt_open(path)
        except facula.Error as e:
            assert e.code == "UNSUPPORTED", e
        else:
            raise AssertionError("what would run code was read")


def sound_is_what_pythons_own_reader_has(f, folder):
    path, rate = str(folder / "a.wav"), C.c_int64()
    samples = np.random.default_rng(2).integers(-2**15, 2**15, (1000, 2)).astype("<i2")
    with wave.open(path, "wb") as w:
        w.setnchannels(2)
        w.setsampwidth(2)
        w.setframerate(22050)
        w.writeframes(samples.tobytes())
    t = f.wav_read(path, C.addressof(rate))
    assert rate.value == 22050 and t.tolist() == (samples.T / 2.0**15).tolist()


def main():
    f = facula.Facula(sys.argv[1], sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        for check in (npy_goes_both_ways, npz_goes_both_ways, what_torch_saves_is_read, sound_is_what_pythons_own_reader_has):
            check(f, pathlib.Path(name))
            print("ok", check.__name__)


main()
