#!/usr/bin/env python3
"""Writes quantized_cases.h: what PyTorch gives for quantized operators, of codes that the test makes by the same rule.

Run by hand with PyTorch (1.13 or newer, engine qnnpack): tests/data/gen_quantized_cases.py >tests/data/quantized_cases.h"""
import torch

torch.backends.quantized.engine = "qnnpack"
seed = 0


def codes(n):
    """n bytes of a generator that the test has, too."""
    global seed
    out = []
    for _ in range(n):
        seed = (seed * 1664525 + 1013904223) % 2**32
        out.append(seed >> 24)
    return torch.tensor(out)


def restart(s):
    global seed
    seed = s


def quint8(size, scale, zero):
    n = torch.Size(size).numel()
    return torch._make_per_tensor_quantized_tensor(codes(n).to(torch.uint8).view(size), scale, zero)


def qint8(size, scale, zero=0):
    n = torch.Size(size).numel()
    return torch._make_per_tensor_quantized_tensor((codes(n) - 128).to(torch.int8).view(size), scale, zero)


def floats(size):
    n = torch.Size(size).numel()
    return ((codes(n) - 128) / 32).to(torch.float32).view(size)


def put(kind, name, values):
    text = ", ".join(f"{v:.9g}f" if kind == "float" else str(v) for v in values)
    print(f"static const {kind} {name}[] = {{{text}}};")


def ints(name, t):
    put("int64_t", name, (t.int_repr() if t.is_quantized else t).flatten().tolist())


print("/* Written by gen_quantized_cases.py with PyTorch", torch.__version__, "*/\n#include <stdint.h>\n")
restart(1)
x, w, b = quint8((3, 7), 0.5, 100), qint8((5, 7), 0.25), floats((5,))
packed = torch.ops.quantized.linear_prepack(w, b)
ints("torch_linear", torch.ops.quantized.linear(x, packed, 8.0, 120))
ints("torch_linear_relu", torch.ops.quantized.linear_relu(x, packed, 8.0, 120))
restart(2)
x, w, b = quint8((1, 4, 5, 5), 0.5, 100), qint8((6, 2, 3, 3), 0.25), floats((6,))
packed = torch.ops.quantized.conv2d_prepack(w, b, [2, 1], [1, 0], [1, 1], 2)
ints("torch_conv2d", torch.ops.quantized.conv2d(x, packed, 16.0, 130))
restart(3)
x, y = quint8((24,), 0.5, 100), quint8((24,), 0.3, 20)
ints("torch_add", torch.ops.quantized.add(x, y, 0.9, 30))
ints("torch_add_relu", torch.ops.quantized.add_relu(x, y, 0.9, 30))
ints("torch_mul", torch.ops.quantized.mul(x, y, 11.0, 90))
ints("torch_cat", torch.ops.quantized.cat([x, y], 0, 0.7, 60))
restart(4)
x = quint8((1, 3, 2, 2), 0.5, 100)
ints("torch_batch_norm", torch.quantized_batch_norm(x, floats((3,)), floats((3,)), floats((3,)), floats((3,)).abs() + 0.5, 1e-3,
                                                    0.7, 110))
restart(5)
x = quint8((1, 2, 6, 6), 0.5, 100)
torch.backends.quantized.engine = "none"
ints("torch_avg_pool", torch.nn.functional.avg_pool2d(x, 3, 2, 1))
ints("torch_max_pool", torch.nn.functional.max_pool2d(x, 3, 2, 1))
ints("torch_adaptive", torch.nn.functional.adaptive_avg_pool2d(x, (2, 4)))
ints("torch_nearest", torch.nn.functional.interpolate(x, size=(4, 9), mode="nearest"))
ints("torch_bilinear", torch.nn.functional.interpolate(x, size=(4, 9), mode="bilinear"))
ints("torch_sigmoid", torch.sigmoid(x))
ints("torch_tanh", torch.tanh(x))
torch.backends.quantized.engine = "none"  # with qnnpack reduce_range is not heeded
scales, zeros = [], []
for least, most in ((-1, 2), (0.5, 3), (-7, -2), (0, 0), (-1e-6, 2e-6), (-100, 0.001)):
    for dtype, reduce in ((torch.quint8, False), (torch.quint8, True), (torch.qint8, False)):
        q = torch.quantize_per_tensor_dynamic(torch.tensor([least, most], dtype=torch.float32), dtype, reduce)
        scales.append(q.q_scale())
        zeros.append(q.q_zero_point())
print("static const double torch_dynamic_scales[] = {" + ", ".join(f"{s:.17g}" for s in scales) + "};")
put("int64_t", "torch_dynamic_zeros", zeros)
restart(6)
torch.backends.quantized.engine = "qnnpack"
w = floats((3, 8))
ints("torch_byte_rows", torch.ops.quantized.embedding_bag_byte_prepack(w).flatten())
ints("torch_4bit_rows", torch.ops.quantized.embedding_bag_4bit_prepack(w).flatten())
