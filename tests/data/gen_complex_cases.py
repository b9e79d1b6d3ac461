#!/usr/bin/python3
"""Writes complex_cases.h: what kind of number PyTorch's complex quotients of special values are. Run with a Python that has
torch."""
import itertools
import math
import pathlib

import torch

PARTS = [0.0, -0.0, 1.0, math.inf, -math.inf, math.nan]
NAMES = ["0.0", "-0.0", "1.0", "INFINITY", "-INFINITY", "NAN"]


def kind(x):
    return "n" if math.isnan(x) else "f" if math.isfinite(x) else "+" if x > 0 else "-"


def row(numerator, dtype):
    """Two letters for each denominator, in the order of the parts."""
    denominators = [complex(c, d) for c, d in itertools.product(PARTS, PARTS)]
    quotients = torch.tensor([numerator] * len(denominators), dtype=dtype) / torch.tensor(denominators, dtype=dtype)
    return "".join(kind(part) for part in torch.view_as_real(quotients).flatten().tolist())


rows = []
for a, b in itertools.product(PARTS, PARTS):
    rows.append(row(complex(a, b), torch.complex64))
    assert rows[-1] == row(complex(a, b), torch.complex128)

with open(pathlib.Path(__file__).parent / "complex_cases.h", "w") as out:
    print(f"/* Kinds of complex quotients by PyTorch {torch.__version__}. Written by gen_complex_cases.py. */", file=out)
    print("/* clang-format off */", file=out)
    print(f"static const double complex_parts[] = {{{', '.join(NAMES)}}};", file=out)
    print("/* By numerator (a + bi, b fastest); in a row by denominator, for each the kind of the real and of the imaginary\n"
          "   part: f finite, n not a number, + and - infinite. */", file=out)
    print("static const char *const complex_quotients[] = {", file=out)
    for r in rows:
        print(f'    "{r}",', file=out)
    print("};\n/* clang-format on */", file=out)
