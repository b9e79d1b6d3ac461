#!/usr/bin/env python3
"""Writes subscript_cases.json: Python's subscripts of PyTorch tensors, read and assigned to, for test_subscript.c to replay.

usage: gen_subscript_cases.py > subscript_cases.json     with a Python that has PyTorch 2

The form is that of reference_cases.json. Cases are drawn from a fixed seed. A mask of several dimensions is handed to PyTorch as
its nonzero positions, which it stands for: PyTorch 2.15 counts such a mask as one dimension when a slice follows it.
"""

import json
import random
import sys
import warnings

import torch

from gen_reference_cases import argument, result_text, seed_like

warnings.simplefilter("ignore")
torch.set_num_threads(1)
draw = random.Random(7)


def integer(size):
    return draw.randint(-size, size - 1) if size and draw.random() < 0.93 else draw.randint(-size - 2, size + 1)


def bound(size):
    return "" if draw.random() < 0.4 else str(draw.randint(-size - 2, size + 2))


class Drawn:
    """A subscript: its text, the values of its '#' and '%', and what Python indexes with."""

    def __init__(self, shape, tensors, once):
        self.texts, self.index, self.ints, self.tensors, self.wrong = [], [], [], [], False
        self.once, self.common = once, draw.choice([(), (2,), (3,), (2, 1), (1,)])
        dims, whole, d = len(shape), draw.random() < 0.5, 0
        while d < dims:
            if draw.random() < 0.12:
                self.add("None" if draw.random() < 0.7 else "newaxis", None)
                continue
            kind = draw.random()
            if whole is True and draw.random() < 0.3:
                n = draw.randint(0, dims - d)
                self.add("...", Ellipsis)
                whole, d = None, d + n
            elif tensors and kind < 0.45:
                d += self.add_tensor(shape[d:])
            elif kind < 0.7:
                self.add_integer(shape[d])
                d += 1
            else:
                self.add_slice(shape[d])
                d += 1
            if draw.random() < 0.15:
                break
        if draw.random() < 0.03 or not self.texts:
            self.add("0" if self.texts else "...", 0 if self.texts else Ellipsis)

    def add(self, text, value):
        self.texts.append(text)
        self.index.append(value)

    def add_integer(self, size):
        i = integer(size)
        if draw.random() < 0.3:
            self.ints.append(i)
            self.add("#", i)
        else:
            self.add(str(i), i)

    def add_slice(self, size):
        start, stop, step = bound(size), bound(size), draw.choice(["", "", "1", "2", "3"])
        colon = ":" if step or draw.random() < 0.2 else ""
        text = f"{start}:{stop}{colon}{step}"
        self.add(text, slice(*[int(x) if x else None for x in (start, stop, step)]))

    def add_tensor(self, shape):
        if draw.random() < 0.35:
            return self.add_mask(shape)
        size, sizes = shape[0], self.common if draw.random() < 0.8 else ()
        n = int(torch.tensor(sizes).prod()) if sizes else 1
        if self.once:
            places = draw.sample(range(size), n) if n <= size else [0] * n
            values = [p - size * draw.randint(0, 1) for p in places] if n <= size else []
            if not values:
                self.add_slice(size)
                return 1
        else:
            values = [integer(size) for _ in range(n)]
            self.wrong = self.wrong or any(not -size <= v < size for v in values)
        t = torch.tensor(values, dtype=draw.choice([torch.int64, torch.int32])).reshape(sizes)
        self.tensors.append(t)
        self.add("%", t.long())
        return 1

    def add_mask(self, shape):
        n = draw.choice([0, 1, 1, min(2, len(shape))])
        sizes = list(shape[:n])
        if n and draw.random() < 0.05:
            sizes[0] += 1
        t = torch.tensor([draw.random() < 0.5 for _ in range(int(torch.tensor(sizes).prod()) if n else 1)], dtype=torch.bool).reshape(sizes)
        self.tensors.append(t)
        self.add("%", t)
        if n > 1 and tuple(sizes) == tuple(shape[:n]):
            self.index[-1:] = list(t.nonzero(as_tuple=True))
        return n

    def text(self):
        comma = draw.choice([",", ", ", " , "])
        return comma.join(self.texts) + ("," if draw.random() < 0.05 else "")

    def arguments(self):
        return [[argument(t) for t in self.tensors] or {"tensors": []}, self.ints]


def tensor(shape, dtype=torch.float64):
    n = int(torch.tensor(shape).prod()) if shape else 1
    return torch.tensor([(5 * i) % 13 - 6 for i in range(n)], dtype=dtype).reshape(shape)


def shape_drawn():
    return tuple(draw.choice([1, 2, 3, 4, 0 if draw.random() < 0.2 else 5]) for _ in range(draw.randint(0, 4)))


def error(e):
    return ["error: " + " ".join(str(e).split())[:100]]


ERRORS = (RuntimeError, IndexError, ValueError, TypeError)


def reading(tensors):
    x = tensor(shape_drawn())
    s = Drawn(x.shape, tensors, False)
    line = ["aten::at", [argument(x), s.text()] + s.arguments()]
    x.requires_grad_()
    try:
        y = x[tuple(s.index)]
    except ERRORS as e:
        return line + error(e)
    if s.wrong and y.numel() == 0:
        return reading(tensors)  # PyTorch does not look at the indices
    grad = torch.autograd.grad(y, x, seed_like(y))[0]
    return line + [[result_text(y)], [result_text(grad)] + [None] * len(s.tensors)]


def value_for(x, s):
    """A tensor that broadcasts to what is picked, most of the time."""
    try:
        sizes = list(x[tuple(s.index)].shape)
    except ERRORS:
        sizes = []
    sizes = [1 if draw.random() < 0.2 else n for n in sizes][draw.randint(0, len(sizes)) if draw.random() < 0.3 else 0:]
    if draw.random() < 0.2:
        sizes = [1] + sizes
    if sizes and draw.random() < 0.05:
        sizes[-1] += 1
    return tensor(sizes, x.dtype) * 2


def assigning(tensors, number):
    x = tensor(shape_drawn(), draw.choice([torch.float64, torch.float32, torch.int64]))
    s = Drawn(x.shape, tensors, True)
    value = draw.choice([-3, 0.5, 7]) if number else value_for(x, s)
    line = ["aten::at_put_." + ("Scalar" if number else "Tensor"), [argument(x), s.text(), argument(value)] + s.arguments()]
    try:
        x[tuple(s.index)] = value
    except ERRORS as e:
        return line + error(e)
    return line + [[result_text(x)]]


GROUPS = {
    "subscript_reads_views_as_pytorch_does": (150, lambda: reading(False)),
    "subscript_reads_by_tensors_as_pytorch_does": (250, lambda: reading(True)),
    "subscript_assigns_tensors_as_pytorch_does": (150, lambda: assigning(draw.random() < 0.6, False)),
    "subscript_assigns_numbers_as_pytorch_does": (100, lambda: assigning(draw.random() < 0.6, True)),
}

if __name__ == "__main__":
    if int(torch.__version__.split(".")[0]) < 2:
        sys.exit("a PyTorch 2 is needed")
    print("{")
    print(f' "pytorch": "{torch.__version__.split("+")[0]}",')
    print(' "groups": {')
    for i, (name, (n, make)) in enumerate(GROUPS.items()):
        print(f'  "{name}": [')
        print(",\n".join("   " + json.dumps(make()) for _ in range(n)))
        print("  ]" + ("," if i + 1 < len(GROUPS) else ""))
    print(" }\n}")
