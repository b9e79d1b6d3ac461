#!/usr/bin/python3
"""Writes dtype_tables.h: PyTorch's promotion and casting rules. Run with a Python that has torch."""
import torch

TYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
         torch.float32, torch.float64, torch.complex64, torch.complex128]
index = {t: i + 1 for i, t in enumerate(TYPES)}
index[torch.complex32] = index[torch.complex64]  # Facula has no half complex: the next wider one takes its place


def tensor(t, dims):
    return torch.ones([1] * dims, dtype=t)


def rows(name, comment, value):
    print(f"/* {comment} */\nstatic const uint8_t {name}[12][12] = {{")
    for a in TYPES:
        print("    {" + ", ".join(str(value(a, b)) for b in TYPES) + "},")
    print("};")


print(f"/* Rules of PyTorch {torch.__version__} over dtypes 1 to 12. Written by gen_dtype_tables.py. */\n/* clang-format off */")
rows("promoted", "torch.promote_types(row, column).", lambda a, b: index[torch.promote_types(a, b)])
rows("castable", "torch.can_cast(from row, to column).", lambda a, b: int(torch.can_cast(a, b)))
rows("with_zero_dim", "Result of a dimensioned row and a 0-dim column.", lambda a, b: index[torch.result_type(tensor(a, 1), tensor(b, 0))])
print("/* Result of a row and a number: bool, int, float, complex; first with a dimensioned, then with a 0-dim tensor. */")
print("static const uint8_t with_number[12][2][4] = {")
for a in TYPES:
    both = ["{" + ", ".join(str(index[torch.result_type(tensor(a, d), x)]) for x in (True, 1, 1.0, 1j)) + "}" for d in (1, 0)]
    print("    {" + ", ".join(both) + "},")
print("};")
