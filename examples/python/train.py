"""Trains a small network on two interleaved spirals, in Python: train.py LIBRARY API_JSON"""
import math
import sys

import facula


def spirals(f, n=100):
    points, labels = [], []
    for i in range(n):
        radius, angle = i / n, 3 * i / n * math.pi
        for label in (0, 1):
            points.append([radius * math.cos(angle + label * math.pi), radius * math.sin(angle + label * math.pi)])
            labels.append(label)
    return f.tensor(points), f.tensor(labels, dtype=f.I64)


def main():
    f = facula.Facula(sys.argv[1], sys.argv[2])
    f.manual_seed(1)
    x, y = spirals(f)
    model = f.sequential(f.linear_new(2, 32), f.tanh_new(), f.linear_new(32, 32), f.tanh_new(), f.linear_new(32, 2))
    optimizer = f.adam_new(model, 1e-2)
    for step in range(300):
        f.optimizer_zero_grad(optimizer)
        loss = f.cross_entropy(model(x), y)
        loss.backward()
        f.optimizer_step(optimizer)
    right = f.mean(f.to_dtype(f.eq(f.argmax(model(x), 1), y), f.F32)).item()
    print(f"loss {loss.item():.4f}, {100 * right:.0f}% right")
    return 0 if right > 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
