#!/usr/bin/env python3
"""Writes file_cases.h: files that NumPy and PyTorch wrote, for tests/unit/test_files.c. Usage: gen_file_cases.py > file_cases.h"""
import collections
import io
import pickle
import zipfile

import numpy as np
import torch


def array(name, data):
    text = ", ".join(str(b) for b in data)
    lines, line = [], ""
    for word in text.split(" "):
        if len(line) + len(word) > 110:
            lines.append(line.rstrip())
            line = ""
        line += word + " "
    lines.append(line.rstrip())
    print(f"static const unsigned char {name}[] = {{")
    print("\n".join("    " + x for x in lines) + "};")


def npy(a, **k):
    out = io.BytesIO()
    np.lib.format.write_array(out, a, **k)
    return out.getvalue()


def npz(save, **arrays):
    out = io.BytesIO()
    save(out, **arrays)
    return out.getvalue()


def pt(value):
    out = io.BytesIO()
    torch.save(value, out)
    return out.getvalue()


def with_pickle(data):
    """A file of torch.save's form with another pickle in it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("archive/data.pkl", data)
        z.writestr("archive/data/0", bytes(24))
        z.writestr("archive/version", "3\n")
    return out.getvalue()


class Calls:
    def __reduce__(self):
        import os
        return os.system, ("true",)


def main():
    print("/* Made by gen_file_cases.py: files that NumPy and PyTorch wrote. */\n/* clang-format off */")
    x = np.arange(6).reshape(2, 3)
    for name, dtype in (("f32", "<f4"), ("f64_big", ">f8"), ("i16_big", ">i2"), ("bool", "?"), ("c64", "<c8"), ("u8", "u1")):
        array("npy_" + name, npy((x % 2 if dtype == "?" else x + 1j * x if "c" in dtype else x).astype(dtype)))
    array("npy_fortran", npy(np.asfortranarray(x.astype("<i4"))))
    array("npy_scalar", npy(np.array(2.5)))
    array("npy_empty", npy(np.zeros((0, 4), "<f4")))
    array("npy_v3", npy(x.astype("<i8"), version=(3, 0)))
    array("npy_objects", npy(np.array([None, {}], dtype=object)))
    array("npy_records", npy(np.zeros(2, dtype=[("a", "<f4")])))
    array("npy_u16", npy(x.astype("<u2")))
    array("npz_stored", npz(np.savez, a=x.astype("<f4"), b=np.array([7, 8])))
    array("npz_packed", npz(np.savez_compressed, a=x.astype("<f4"), b=np.zeros(100, "<i2")))

    base = torch.arange(12, dtype=torch.float32)
    value = collections.OrderedDict(
        weight=base.reshape(3, 4), part=base[4:10:2], turned=base.reshape(3, 4).t(), grown=torch.ones(1).expand(5),
        half=torch.tensor([0.5], dtype=torch.bfloat16), flags=torch.tensor([True, False]), number=torch.tensor(7),
        parameter=torch.nn.Parameter(torch.tensor([1.0, 2.0])))
    array("pt_state", pt(value))
    array("pt_linear", pt(torch.nn.Linear(2, 1, bias=False).requires_grad_(False).state_dict()))
    array("pt_nested", pt({"model": {"a": torch.tensor([1, 2])}, "step": 3, "lr": 0.1, "big": 2**40, "name": "Adam", "none": None,
                           "list": [torch.tensor([0.5]), (True, -1)], 5: 1e100, "dtype": torch.float32, "size": torch.Size([2, 3])}))
    array("pt_plain", pt(torch.tensor([1.5, 2.5], dtype=torch.float64)))
    array("pt_calls", with_pickle(pickle.dumps({"a": Calls()}, 2)))
    array("pt_set", with_pickle(pickle.dumps({1, 2}, 4)))
    array("pt_module", pt(torch.nn.ReLU()))
    deep = []
    for _ in range(200):
        deep = [deep]
    array("pt_deep", with_pickle(pickle.dumps(deep, 2)))
    wide = [1]
    for _ in range(40):
        wide = [wide, wide]
    array("pt_wide", with_pickle(pickle.dumps(wide, 2)))
    inside = []
    inside.append(inside)
    array("pt_inside", with_pickle(pickle.dumps(inside, 2)))


main()
