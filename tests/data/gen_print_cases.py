#!/usr/bin/python3
"""Writes print_cases.h: tensors and the text that PyTorch gives for them. Run with a Python that has torch."""
import math
import torch

inf, nan = math.inf, math.nan
KIND = {torch.float32: "FAC_F32", torch.float64: "FAC_F64", torch.float16: "FAC_F16", torch.bfloat16: "FAC_BF16",
        torch.int64: "FAC_I64", torch.int32: "FAC_I32", torch.int16: "FAC_I16", torch.int8: "FAC_I8",
        torch.uint8: "FAC_U8", torch.bool: "FAC_BOOL", torch.complex64: "FAC_C64", torch.complex128: "FAC_C128"}
f32 = torch.float32


def number(x):
    if math.isnan(x):
        return "NAN"
    if math.isinf(x):
        return "INFINITY" if x > 0 else "-INFINITY"
    return repr(float(x))


def quote(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", '\\n"\n     "') + '"'


cases = []


def case(name, values, shape, dtype=f32):
    """values: a list, or (start, step) for start + i * step."""
    n = math.prod(shape)
    if isinstance(values, tuple):
        start, step = values
        flat = [start + i * step for i in range(n)]
        data = "NULL"
    else:
        start = step = 0
        flat = values
        pairs = [(x.real, x.imag) if isinstance(x, complex) else (x, 0) for x in flat]
        data = "(const double[]){" + ", ".join(f"{number(a)}, {number(b)}" for a, b in pairs) + "}" if n else "NULL"
    wide = torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else torch.int64
    t = torch.tensor(flat, dtype=wide).to(dtype).reshape(shape)
    sizes = "{" + ", ".join(map(str, shape or [0])) + "}"
    cases.append(f'    {{"{name}", {KIND[dtype]}, {len(shape)}, {sizes}, {number(start)}, {number(step)}, {data},\n     {quote(str(t))}}},')


case("scalar", [3.5], [])
case("scalar integral", [3], [])
case("scalar int", [3], [], torch.int64)
case("scalar bool", [1], [], torch.bool)
case("scalar nan", [nan], [])
case("scalar big", [1e9], [])
case("scalar tiny", [1.5e-7], [])
case("scalar complex", [1.5 - 2j], [], torch.complex64)
case("vector", [1.0, -2.5, 3.25], [3])
case("vector integral", [1, 2, 30], [3])
case("vector with zeros", [0, 0, 0], [3])
case("vector scientific by ratio", [1e-3, 1234.5], [2])
case("vector scientific by size", [1.5e8 + 0.5, 2.0], [2], torch.float64)
case("vector scientific by smallness", [0.5e-4, 0.5], [2])
case("vector integral scientific", [1, 2000], [2])
case("vector integral thousand", [1, 1000], [2])
case("vector just not scientific", [0.001, 1.0], [2], torch.float64)
case("vector non-finite", [inf, -inf, nan, 1.0], [4])
case("vector non-finite and fractions", [inf, -inf, nan, 1.5], [4])
case("vector only non-finite", [inf, -inf, nan], [3])
case("vector negative zero", [-0.0, 0.5], [2])
case("vector long", (0.1, 0.37), [30])
case("vector long int", (-5, 7), [40], torch.int64)
case("vector int32", [1, -20, 300], [3], torch.int32)
case("vector int16", [1, -20, 300], [3], torch.int16)
case("vector int8", [1, -20, 100], [3], torch.int8)
case("vector uint8", [1, 20, 255], [3], torch.uint8)
case("vector bool", [1, 0, 1], [3], torch.bool)
case("vector bool true", [1, 1], [2], torch.bool)
case("vector f64", [0.1, 0.2], [2], torch.float64)
case("vector f16", [0.1, 65504, 2], [3], torch.float16)
case("vector bf16", [0.1, 3, 2], [3], torch.bfloat16)
case("vector int64 extremes", [-2**53, 2**53], [2], torch.int64)
case("matrix", [1, 2, 3, 4], [2, 2])
case("matrix fractions", [0.1, -22.25, 333.5, 4], [2, 2])
case("matrix wide", (0.5, 1.25), [3, 25])
case("matrix one column", (0, 0.5), [4, 1])
case("cube", (0, 1), [2, 3, 4])
case("cube int32", (0, 1), [2, 2, 2], torch.int32)
case("hypercube", (-3, 0.5), [2, 2, 2, 3])
case("summary vector", (0, 1), [1001])
case("threshold vector", (0, 1), [1000], torch.int64)
case("summary matrix", (0, 0.25), [40, 40])
case("summary narrow matrix", (0, 1), [500, 4])
case("summary cube", (0, 1), [12, 12, 12])
case("summary cube int16", (0, 1), [11, 11, 11], torch.int16)
case("summary short edge", (0, 1), [2, 600])
case("complex vector", [1 + 2j, -3.5 - 4j, 0.25j], [3], torch.complex64)
case("complex integral", [1 + 2j, 3 - 4j], [2], torch.complex128)
case("complex matrix", [1 + 2j, 100.5 - 4j, 0, -1j], [2, 2], torch.complex64)
case("complex non-finite", [complex(nan, inf), complex(1.5, -inf)], [2], torch.complex64)
case("complex long", [complex(i, -i * 0.5) for i in range(12)], [12], torch.complex64)
case("empty", [], [0])
case("empty int64", [], [0], torch.int64)
case("empty shape", [], [2, 0, 3])
case("empty shape f64", [], [0, 2], torch.float64)
case("suffix on a new line", (0.5, 1.25), [8], torch.float64)
case("suffix on a new line by one", (0.5, 100.25), [7], torch.float64)

print("""/* Tensors and their text by PyTorch %s. Written by gen_print_cases.py. */
/* clang-format off */
static const struct print_case {
    const char *name;
    fac_dtype dtype;
    int ndim;
    int64_t sizes[4];
    double start, step;   /* element i is start + i * step ... */
    const double *values; /* ... or the i-th pair (real, imaginary) here */
    const char *text;
} print_cases[] = {""" % torch.__version__)
print("\n".join(cases))
print("};")
