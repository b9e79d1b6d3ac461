#!/usr/bin/env python3
"""Mixed precision against PyTorch's: the losses of a training in bf16 autocast, and the scales of a gradient scaler over 100 steps some of
whose gradients are infinite or NaN.

usage: training.py LIBFACULA.so
"""

import contextlib
import ctypes as C
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance"))
import torch  # noqa: E402

from dtypes import Autocast, declare  # noqa: E402
from facula import Facula, P, Scope, Tensor, Tensors  # noqa: E402

STEPS = 100
INTERVAL = 7


def declare_more(f):
    def fn(name, result, *args):
        g = getattr(f.lib, name)
        g.restype, g.argtypes = result, args

    fn("fac_backward", C.c_int, P, P)
    fn("fac_sgd_of", P, Tensors, C.c_double, P)
    fn("fac_optimizer_step", C.c_int, P)
    fn("fac_optimizer_zero_grad", None, P)
    fn("fac_optimizer_release", None, P)
    fn("fac_grad_scaler_new", P, P)
    fn("fac_grad_scaler_release", None, P)
    fn("fac_grad_scaler_scale", P, P, P)
    fn("fac_grad_scaler_step", C.c_int, P, P)
    fn("fac_grad_scaler_update", C.c_int, P, P)
    fn("fac_grad_scaler_get_scale", C.c_double, P)
    fn("fac_grad_scaler_growth_tracker", C.c_int64, P)
    fn("fac_grad_scaler_set_growth_interval", C.c_int, P, C.c_int64)


def pack(ts):
    return Tensors((P * len(ts))(*[t.h for t in ts]), len(ts))


def parameters():
    torch.manual_seed(3)
    return [torch.randn(64, 16) / 4, torch.zeros(64), torch.randn(8, 64) / 8, torch.zeros(8)]


def data():
    torch.manual_seed(5)
    x = torch.randn(96, 16)
    return x, (x @ torch.randn(16, 8)).argmax(1)


def torch_losses(dtype):
    x, y = data()
    ps = [p.requires_grad_() for p in parameters()]
    o = torch.optim.SGD(ps, lr=0.5)
    losses = []
    for _ in range(STEPS):
        o.zero_grad()
        with contextlib.nullcontext() if dtype is torch.float32 else torch.autocast("cpu", dtype=dtype):
            h = torch.nn.functional.layer_norm(torch.relu(torch.nn.functional.linear(x, ps[0], ps[1])), (64,))
            loss = torch.nn.functional.cross_entropy(torch.nn.functional.linear(h, ps[2], ps[3]), y)
        loss.backward()
        o.step()
        losses.append(loss.item())
    return losses


def forward(s, ps, x, y):
    h, = s.call("aten::linear", {"input": x, "weight": ps[0], "bias": ps[1]})
    h, = s.call("aten::relu", {"self": h})
    h, = s.call("aten::layer_norm", {"input": h, "normalized_shape": [64]})
    h, = s.call("aten::linear", {"input": h, "weight": ps[2], "bias": ps[3]})
    return s.call("aten::cross_entropy_loss", {"self": h, "target": y})[0]


def facula_losses(f, dtype):
    losses = []
    with Scope(f) as s:
        x, y = (s.wrap(t) for t in data())
        ps = [s.wrap(p) for p in parameters()]
        for p in ps:
            p.require_grad()
        o = f.lib.fac_sgd_of(pack(ps), 0.5, None)
        for _ in range(STEPS):
            f.lib.fac_optimizer_zero_grad(o)
            with Autocast(f, dtype):
                loss = forward(s, ps, x, y)
            f.check(f.lib.fac_backward(loss.h, None))
            f.check(f.lib.fac_optimizer_step(o))
            losses.append(loss.torch().item())
        f.lib.fac_optimizer_release(o)
    return losses


def check_training(f):
    theirs, mine, exact = torch_losses(torch.bfloat16), facula_losses(f, torch.bfloat16), torch_losses(torch.float32)
    worst = max(abs(a - b) / b for a, b in zip(mine, theirs))
    rounding = max(abs(a - b) / b for a, b in zip(exact, theirs))
    print(f"losses {mine[0]:.4f} -> {mine[-1]:.4f}, PyTorch {theirs[0]:.4f} -> {theirs[-1]:.4f}; they differ by up to {worst:.2%}, "
          f"PyTorch's in float32 by {rounding:.2%}")
    same = worst < max(0.02, 2 * rounding) and mine[-1] < mine[0] / 4 and mine != exact
    if not same:
        print("FAILED  the losses do not follow PyTorch's")
    return not same


def slope(step):
    return math.inf if step % 13 == 5 else math.nan if step % 31 == 17 else 0.5 + step / 64


def model_scales():
    """What the rule gives, for a PyTorch whose scaler needs a GPU."""
    scale, tracker, out = 65536.0, 0, []
    for step in range(STEPS):
        if not math.isfinite(slope(step)):
            scale, tracker = scale * 0.5, 0
        else:
            tracker += 1
            if tracker == INTERVAL:
                scale, tracker = scale * 2.0, 0
        out.append((scale, tracker))
    return out


def torch_scales():
    scaler = getattr(torch.amp, "GradScaler", None)
    if scaler is None:
        return model_scales(), "the rule written out"
    scaler = scaler("cpu", growth_interval=INTERVAL)
    w = torch.ones(4, requires_grad=True)
    o, out = torch.optim.SGD([w], lr=0.01), []
    for step in range(STEPS):
        o.zero_grad()
        scaler.scale((w * slope(step)).sum()).backward()
        scaler.step(o)
        scaler.update()
        out.append((scaler.get_scale(), scaler._get_growth_tracker(), w.tolist()))
    return out, "torch.amp.GradScaler"


def facula_scales(f):
    out = []
    with Scope(f) as s:
        w = s.wrap(torch.ones(4))
        w.require_grad()
        o, scaler = f.lib.fac_sgd_of(pack([w]), 0.01, None), f.lib.fac_grad_scaler_new(None)
        f.check(f.lib.fac_grad_scaler_set_growth_interval(scaler, INTERVAL))
        for step in range(STEPS):
            f.lib.fac_optimizer_zero_grad(o)
            product, = s.call("aten::mul.Scalar", {"self": w, "other": slope(step)})
            loss, = s.call("aten::sum", {"self": product})
            scaled = Tensor(s, f.lib.fac_grad_scaler_scale(scaler, loss.h))
            f.check(f.lib.fac_backward(scaled.h, None))
            f.check(f.lib.fac_grad_scaler_step(scaler, o))
            f.check(f.lib.fac_grad_scaler_update(scaler, None))
            out.append((f.lib.fac_grad_scaler_get_scale(scaler), f.lib.fac_grad_scaler_growth_tracker(scaler),
                        w.torch().tolist()))
        f.lib.fac_grad_scaler_release(scaler)
        f.lib.fac_optimizer_release(o)
    return out


def check_scales(f):
    theirs, whose = torch_scales()
    mine = facula_scales(f)
    wrong = [i for i, (a, b) in enumerate(zip(mine, theirs)) if a[:2] != b[:2]]
    wrong += [i for i, (a, b) in enumerate(zip(mine, theirs))
              if len(b) > 2 and not torch.allclose(torch.tensor(a[2]), torch.tensor(b[2]), rtol=1e-5)]
    print(f"{len(mine)} steps, {len({m[0] for m in mine})} scales between {min(m[0] for m in mine)} and {max(m[0] for m in mine)}, "
          f"as {whose}: {'no' if not wrong else len(wrong)} step differs")
    if wrong:
        print(f"FAILED  step {wrong[0]}: {mine[wrong[0]]}, PyTorch {theirs[wrong[0]]}")
    return bool(wrong)


def main():
    f = Facula(sys.argv[1])
    declare(f)
    declare_more(f)
    wrong = check_training(f) + check_scales(f)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
