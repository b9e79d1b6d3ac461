#!/usr/bin/env python3
"""The rows of bench.c in PyTorch, by the same names; run.py starts it.

Usage: torch_rows.py --serve | --memory NAME [RUNS], as bench.c has them. The environment must be tuned before the start (run.py does it).
--serve-memory does as --memory for each line NAME<TAB>RUNS of its input. --parameters prints the rows of whole models and how many parameters each has.
"""
import math
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

import operators
import torch_models

MIN_SAMPLES, LONG_SAMPLES, LONG_SECONDS, MAX_SAMPLES, SAMPLE_SECONDS, WARM_RUNS = 7, 3, 0.02, 4096, 2e-4, 3
MI = 1 << 20


# ---- rows: a function that draws the inputs and returns the function to measure


def on(fn, *sizes):
    """fn of normal inputs."""
    return lambda: (lambda x=[torch.randn(*s) for s in sizes]: fn(*x))


def backward_of(fn, *sizes, weights=None):
    """Forward and backward; the inputs' gradients are dropped."""
    def make():
        inputs = [torch.randn(*s).requires_grad_() for s in sizes]
        grad = torch.randn(*weights) if weights else None

        def run():
            fn(*inputs).backward(grad)
            for x in inputs:
                x.grad = None
        return run
    return make


def add_out():
    a, b, out = torch.randn(1), torch.randn(1), torch.randn(1)
    return lambda: torch.add(a, b, out=out)


def add_grad():
    a, b = torch.randn(16).requires_grad_(), torch.randn(16).requires_grad_()
    return lambda: a + b


def where():
    a, b = torch.randn(MI), torch.randn(MI)
    condition = a > 0
    return lambda: torch.where(condition, a, b)


def embedding():
    table, indices = torch.randn(32768, 256), torch.randint(0, 32768, (16384,))
    return lambda: F.embedding(indices, table)


# ---- models


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def attention(self, x, mask):
        n, length, dim = x.shape
        q, k, v = (t.view(n, length, self.heads, dim // self.heads).transpose(1, 2) for t in self.qkv(x).split(dim, 2))
        scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(dim // self.heads))
        weights = F.softmax(scores.masked_fill(mask, float("-inf")), -1)
        return self.out((weights @ v).transpose(1, 2).contiguous().view(n, length, dim))

    def forward(self, x, mask):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, vocab=96, dim=128, heads=4, layers=4, context=64):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, dim), nn.Embedding(context, dim)
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocab, bias=False)
        self.register_buffer("mask", torch.triu(torch.ones(context, context, dtype=torch.bool), 1))

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.norm(x)).view(-1, self.head.out_features)


def nested():
    return torch.nested.nested_tensor([torch.randn(16 + 2 * i, 64) for i in range(64)])


def nested_bmm():
    a = nested()
    b = a.transpose(1, 2)
    return lambda: torch.bmm(a, b)


def nested_linear():
    x, weight, bias = nested(), torch.randn(256, 64), torch.randn(256)
    return lambda: F.linear(x, weight, bias)


def training_step(model, optimizer, x, y):
    def run():
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return run


def tiny_step():
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2))
    return training_step(model, torch.optim.SGD(model.parameters(), 0.01), torch.randn(8, 2), torch.randint(0, 2, (8,)))


def mlp_step():
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    return training_step(model, torch.optim.SGD(model.parameters(), 0.01), torch.randn(64, 784), torch.randint(0, 10, (64,)))


def gpt_step():
    """The optimiser in the faster of PyTorch's two implementations."""
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=True)
    return training_step(model, optimizer, torch.randint(0, 96, (16, 64)), torch.randint(0, 96, (1024,)))


CONV = ((32, 64, 32, 32), (64, 64, 3, 3), (64,))


def vendor_conv():
    """Images and weight in oneDNN's layout, the weight in the order of the convolution."""
    x, w, b = (torch.randn(sizes) for sizes in CONV)
    x, w = x.to_mkldnn(), torch._C._nn.mkldnn_reorder_conv2d_weight(w.to_mkldnn(), 1, 1, 1, 1)
    return lambda: F.conv2d(x, w, b, padding=1)


LINEAR = ((256, 1024), (1024, 1024), (1024,))
ROWS = {
    "empty 16": lambda: (lambda: torch.empty(16)),
    "add 1": on(torch.add, (1,), (1,)),
    "add 1 out": add_out,
    "add 16 grad": add_grad,
    "mm 4x4": on(torch.mm, (4, 4), (4, 4)),
    "view 16": on(lambda a: a.view(4, 4), (16,)),
    "sum 16": on(torch.sum, (16,)),
    "(a*b+c).sum() 16 fwd+bwd": backward_of(lambda a, b, c: (a * b + c).sum(), (16,), (16,), (16,)),
    "add 1M": on(torch.add, (MI,), (MI,)),
    "a*b+c 1M": on(lambda a, b, c: a * b + c, (MI,), (MI,), (MI,)),
    "exp 1M": on(torch.exp, (MI,)),
    "tanh 1M": on(torch.tanh, (MI,)),
    "gelu 1M": on(F.gelu, (MI,)),
    "sigmoid 1M": on(torch.sigmoid, (MI,)),
    "where 1M": where,
    "gt 1M": on(torch.gt, (MI,), (MI,)),
    "cat 2x1M": on(lambda a, b: torch.cat((a, b)), (MI,), (MI,)),
    "add 16M": on(torch.add, (16 * MI,), (16 * MI,)),
    "exp 16M": on(torch.exp, (16 * MI,)),
    "transpose 4096x4096": on(lambda a: a.t().contiguous(), (4096, 4096)),
    "sum 1M": on(torch.sum, (MI,)),
    "mean last 16384x1024": on(lambda a: a.mean(-1), (16384, 1024)),
    "var last 1024x1024": on(lambda a: a.var(-1), (1024, 1024)),
    "softmax 4096x1024": on(lambda a: F.softmax(a, -1), (4096, 1024)),
    "log_softmax 4096x1024": on(lambda a: F.log_softmax(a, -1), (4096, 1024)),
    "layer_norm 4096x1024": on(lambda x, w, b: F.layer_norm(x, (1024,), w, b), (4096, 1024), (1024,), (1024,)),
    "argmax 1M": on(torch.argmax, (MI,)),
    "cumsum 1M": on(lambda a: a.cumsum(0), (MI,)),
    "sort 1M": on(torch.sort, (MI,)),
    "embedding 16384 of 32768x256": embedding,
    "randn 1M": lambda: (lambda: torch.randn(MI)),
    "dropout 1M": on(lambda a: F.dropout(a, 0.1, True), (MI,)),
    **{f"mm {n}": on(torch.mm, (n, n), (n, n)) for n in (64, 128, 256, 512, 1024)},
    "linear 256x1024x1024": on(F.linear, *LINEAR),
    "linear 256x1024x1024 fwd+bwd": backward_of(F.linear, *LINEAR, weights=(256, 1024)),
    "nested bmm 64x(16..142)x64": nested_bmm,
    "nested linear 64x(16..142)x64x256": nested_linear,
    "conv 32x64x32x32 3x3": on(lambda x, w, b: F.conv2d(x, w, b, padding=1), *CONV),
    "conv 32x64x32x32 3x3 mkldnn": vendor_conv,
    "conv 32x64x32x32 3x3 fwd+bwd": backward_of(lambda x, w, b: F.conv2d(x, w, b, padding=1), *CONV, weights=(32, 64, 32, 32)),
    "MLP 2-16-16-2 b8 SGD": tiny_step,
    "MLP 784-512-256-10 b64 SGD": mlp_step,
    "GPT d128 h4 T64 b16 L4 AdamW": gpt_step,
    **torch_models.ROWS,
}


# ---- measuring, as bench.c does it


def time_runs(run, n):
    begin = time.perf_counter()
    for _ in range(n):
        run()
    return (time.perf_counter() - begin) / n


def measure(run, budget):
    """Median and least microseconds of a run."""
    one = time_runs(run, 1)
    if one > LONG_SECONDS:
        one = time_runs(run, 1)  # the first run may have made ready what the others use
    is_long = one > LONG_SECONDS
    if not is_long:
        one = time_runs(run, WARM_RUNS - 1)
        one = time_runs(run, 4 if one < SAMPLE_SECONDS else 1)
    runs = 1 + int(SAMPLE_SECONDS / (one + 1e-9)) if one < SAMPLE_SECONDS else 1
    samples, end = [], time.perf_counter() + budget
    while len(samples) < MAX_SAMPLES and (len(samples) < (LONG_SAMPLES if is_long else MIN_SAMPLES) or time.perf_counter() < end):
        samples.append(time_runs(run, runs))
    return statistics.median(samples) * 1e6, min(samples) * 1e6


def serve():
    for line in sys.stdin:
        name, threads, milliseconds = line.rstrip("\n").split("\t")
        torch.set_num_threads(int(threads))
        try:
            run = operators.torch_call(name) if name.removeprefix("grad ").startswith(("aten::", "quantized::")) else ROWS[name]()
            median, least = measure(run, float(milliseconds) / 1e3)
        except (AttributeError, RuntimeError, TypeError, IndexError, NotImplementedError, ValueError, StopIteration) as e:
            print(f"{name}: {e}".splitlines()[0], file=sys.stderr)
            print("-", flush=True)
            continue
        print(f"-\t{name}\t{threads}\t{median:.4f}\t{least:.4f}", flush=True)


def blas_name():
    """MKL, or what libblas.so.3 turned out to be, once PyTorch has loaded it."""
    if torch.backends.mkl.is_available():
        return "MKL"
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return "OpenBLAS" if "openblas" in maps.read() else "a plain BLAS"


def print_memory(name, runs):
    run = ROWS[name]()
    for _ in range(runs):
        run()
    with open("/proc/self/status", encoding="ascii") as status:
        print(next(line.split()[1] for line in status if line.startswith("VmHWM:")))


def serve_memory():
    """For each line NAME<TAB>RUNS, what print_memory prints, by a process of its own, which is cheaper to fork than to start."""
    for line in sys.stdin:
        name, runs = line.rstrip("\n").split("\t")
        child = os.fork()
        if child == 0:
            try:
                print_memory(name, int(runs))
            except (AttributeError, RuntimeError, TypeError):
                print("-")
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    torch.manual_seed(0)
    if sys.argv[1:] == ["--serve"]:
        print("ready", "PyTorch", torch.__version__, "with " + blas_name(), flush=True)
        serve()
    elif sys.argv[1:2] == ["--memory"] and len(sys.argv) in (3, 4):
        print_memory(sys.argv[2], int((sys.argv + [10])[3]))
    elif sys.argv[1:] == ["--serve-memory"]:
        serve_memory()
    elif sys.argv[1:] == ["--parameters"]:
        for row, make in torch_models.ROWS.items():
            print(row, sum(p.numel() for p in make().model.parameters()), sep="\t")
    else:
        sys.exit(__doc__)
