#!/usr/bin/env python3
"""Times Facula's rows and the same rows in PyTorch, in turn, in one run; prints a table of ratios.

Usage: run.py FOLDER [--threads N] [--grep TEXT]. FOLDER holds the built program `ops`. PyTorch (python3-torch) is tuned: its best
instruction set, OpenBLAS kernels for this CPU, a C library that keeps freed pages. Without it only Facula is timed.
Figures move with what else the machine does; the ratios of one run are what to look at.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import time

BATCHES, BATCH_SECONDS, ROUNDS = 9, 0.03, 2
SYSTEM_PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable


def torch_rows(torch):
    """Row name -> function of no arguments; the twin of ROWS in ops.c."""
    functional = torch.nn.functional

    def rand(*sizes, grad=False):
        return torch.randn(*sizes, requires_grad=grad)

    def backward(x, y, z):
        loss = (x * y + z).sum()
        torch.autograd.grad(loss, (x, y, z))

    table = {
        "empty 16": (lambda: torch.empty(16),),
        "add 1": (torch.add, rand(1), rand(1)),
        "add out 1": (lambda a, b, out: torch.add(a, b, out=out), rand(1), rand(1), rand(1)),
        "add 16 grad": (torch.add, rand(16, grad=True), rand(16, grad=True)),
        "view 16": (lambda a: a.view(4, 4), rand(16)),
        "sum 16": (torch.sum, rand(16)),
        "mm 4": (torch.mm, rand(4, 4), rand(4, 4)),
        "mul add sum backward 16": (backward, *[rand(16, grad=True) for _ in range(3)]),
        "mul add 1M": (lambda a, b, c: a * b + c, *[rand(1000000) for _ in range(3)]),
        "mean last 16384x1024": (lambda a: a.mean(-1), rand(16384, 1024)),
        "transpose 2048": (lambda a: a.t().contiguous(), rand(2048, 2048)),
        "softmax 4096x1024": (lambda a: a.softmax(-1), rand(4096, 1024)),
        "layer_norm 4096x1024": (lambda x, w, b: functional.layer_norm(x, (1024,), w, b), rand(4096, 1024), rand(1024), rand(1024)),
        "linear 32x1024x4096": (functional.linear, rand(32, 1024), rand(4096, 1024)),
        "linear 1x4096x4096": (functional.linear, rand(1, 4096), rand(4096, 4096)),
        "conv 8x64x56x56 3x3": (lambda x, w: functional.conv2d(x, w, padding=1), rand(8, 64, 56, 56), rand(64, 64, 3, 3)),
    }
    for n in (64, 256, 1024):
        table[f"mm {n}"] = (torch.mm, rand(n, n), rand(n, n))
    for name, size in (("1M", 1000000), ("16M", 16000000)):
        table[f"add {name}"] = (torch.add, rand(size), rand(size))
        table[f"sum {name}"] = (torch.sum, rand(size))
    for name in ("exp", "tanh", "sigmoid"):
        table[f"{name} 1M"] = (getattr(torch, name), rand(1000000))
    table["gelu 1M"] = (functional.gelu, rand(1000000))
    return table


def time_call(function, *arguments):
    """Nanoseconds of one call: the fastest of several batches."""
    def batch(n):
        begin = time.perf_counter_ns()
        for _ in range(n):
            function(*arguments)
        return time.perf_counter_ns() - begin

    n = 1
    while batch(n) < BATCH_SECONDS * 1e9:
        n *= 2
    return min(batch(n) for _ in range(BATCHES)) / n


def serve_torch(threads):
    """Answers each row name on stdin with its nanoseconds, "-" if there is no such row."""
    import torch
    torch.set_num_threads(threads)
    table = torch_rows(torch)
    print("ready", torch.__version__, flush=True)
    for line in sys.stdin:
        row = table.get(line.strip())
        print(time_call(*row) if row else "-", flush=True)


def start_torch(threads):
    """The worker process and PyTorch's version; (None, None) without PyTorch."""
    tuned = dict(os.environ, OPENBLAS_CORETYPE=os.environ.get("OPENBLAS_CORETYPE", "SkylakeX"), GOMP_SPINCOUNT="10000",
                 MALLOC_MMAP_THRESHOLD_="4294967296", MALLOC_TRIM_THRESHOLD_="4294967296", MALLOC_TOP_PAD_="268435456")
    if "avx512f" not in pathlib.Path("/proc/cpuinfo").read_text():
        tuned.pop("OPENBLAS_CORETYPE")
    worker = subprocess.Popen([SYSTEM_PYTHON, __file__, "--serve-torch", str(threads)], env=tuned, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    ready = worker.stdout.readline().split()
    return (worker, ready[1]) if ready[:1] == ["ready"] else (None, None)


def time_facula(program, row, threads):
    return float(subprocess.run([program, row, str(threads)], stdout=subprocess.PIPE, check=True, text=True).stdout)


def time_torch(worker, row):
    worker.stdin.write(row + "\n")
    worker.stdin.flush()
    answer = worker.stdout.readline().strip()
    return float(answer) if answer not in ("", "-") else None


def in_units(ns):
    return f"{ns:8.0f} ns" if ns < 1e4 else f"{ns / 1e3:8.1f} us" if ns < 1e7 else f"{ns / 1e6:8.2f} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--grep", default="", help="only rows with this text in their name")
    options = parser.parse_args()
    program = options.folder / "ops"
    rows = subprocess.run([program, "--list"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    worker, version = start_torch(options.threads)
    print(f"{options.threads} thread(s); " + (f"PyTorch {version}" if worker else "no PyTorch: install python3-torch to compare"))
    print(f"{'row':26} {'Facula':>11} {'PyTorch':>11}  times as fast")
    for row in (r for r in rows if options.grep in r):
        pairs = [(time_facula(program, row, options.threads), time_torch(worker, row) if worker else None) for _ in range(ROUNDS)]
        ours = min(pair[0] for pair in pairs)
        theirs = [pair[1] for pair in pairs if pair[1] is not None]
        tail = f" {in_units(min(theirs))}  {min(theirs) / ours:8.2f}" if theirs else ""
        print(f"{row:26} {in_units(ours)}{tail}", flush=True)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve-torch"]:
        sys.exit(serve_torch(int(sys.argv[2])))
    sys.exit(main())
