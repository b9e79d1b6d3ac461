#!/usr/bin/python3
"""How exact gradients in float32 are: for each sample of PyTorch's operator database Facula's gradient and PyTorch's are compared with
PyTorch's in float64. Errors are in units: float32's epsilon times the largest exact element of the tensor. Prints the operators whose
worst error is more than twice PyTorch's worst and more than four units, then the counts. A tensor of which PyTorch's own gradient
keeps no three digits is what is left of terms that cancel, and is not counted. README.md tells more.

usage: gradients.py LIBFACULA.so [--ops REGEX] [--limit N] [--seconds N] [--all] [--tsv FILE]
"""

import argparse
import os
import re
import sys
import time
import warnings

import torch

import worker
from database import OPERATORS
from facula import Facula

UNITS, FACTOR = 4, 2  # what is counted as worse
NO_DIGITS = 2 ** 12
# PyTorch's gradient gives nothing to the elements that the source does not replace; the other's samples draw a dropout.
OTHERWISE = {"as_strided_scatter", "nn.functional.multi_head_attention_forward"}


class Errors:
    """The worst of an operator's tensors: Facula's and PyTorch's, and of how many tensors."""

    def __init__(self):
        self.mine = self.theirs = 0.0
        self.tensors = self.samples = self.failed = 0
        self.reason = ""

    def worse(self):
        return self.mine > max(UNITS, FACTOR * self.theirs)

    def add(self, mine, theirs, wide):
        """Elements that are not finite in all three are not looked at: the comparison of values is run.py's."""
        if any(t is None for t in (mine, theirs, wide)) or mine.dtype != torch.float32 or wide.dtype != torch.float64:
            return
        theirs, wide = theirs.detach(), wide.detach()
        finite = mine.isfinite() & theirs.isfinite() & wide.isfinite()
        if mine.shape != wide.shape or not finite.any() or not (wide[finite] != 0).any():
            return
        unit = torch.finfo(torch.float32).eps * wide[finite].abs().max().item()
        of_mine, of_theirs = ((t - wide)[finite].abs().max().item() / unit for t in (mine, theirs))
        if of_theirs > NO_DIGITS:
            return
        self.mine, self.theirs = max(self.mine, of_mine), max(self.theirs, of_theirs)
        self.tensors += 1


def measure(f, op, limit, seconds):
    errors, started = Errors(), time.monotonic()

    def note(_, mine, theirs, what, exact, formats=False):
        if what == "gradient" and len(mine) == len(theirs):
            for triple in zip(mine, theirs, exact()):
                errors.add(*triple)

    worker.compare = note
    for n, sample in enumerate(worker.samples_of(op, torch.float32, True)):
        if n >= limit or time.monotonic() - started > seconds:
            break
        if sample.kwargs.get("dropout_p"):
            continue
        errors.samples += 1
        try:
            worker.check_sample(f, op, sample, True, False, False)
        except Exception as e:  # what cannot be traced, or has no float64 kernel, says nothing of exactness
            errors.failed += 1
            errors.reason = " ".join(str(e).split())[:120]
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library")
    parser.add_argument("--ops", default=".", help="regular expression over operator names")
    parser.add_argument("--limit", type=int, default=200, help="samples per operator")
    parser.add_argument("--seconds", type=float, default=10, help="time per operator")
    parser.add_argument("--all", action="store_true", help="print every operator")
    parser.add_argument("--tsv", help="write all rows to this file")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    f, rows = Facula(args.library, "cpu"), []
    print(f"{'operator':48} {'tensors':>8} {'units':>10} {'PyTorch':>10}")
    for name, op in OPERATORS.items():
        if not re.search(args.ops, name) or not op.supports_autograd or torch.float32 not in op.supported_backward_dtypes("cpu"):
            continue
        if name in worker.RANDOM | OTHERWISE or "lowrank" in name:  # drawn at random
            continue
        try:
            e = measure(f, op, args.limit, args.seconds)
        except Exception as problem:  # the database itself failed
            print(f"{name}: {problem}"[:150], file=sys.stderr)
            continue
        rows.append((name, e))
        if args.all or e.worse():
            print(f"{name:48} {e.tensors:8} {e.mine:10.2f} {e.theirs:10.2f}", flush=True)
    measured = [e for _, e in rows if e.tensors]
    print(f"PyTorch {torch.__version__}: {len(measured)} operators of {len(rows)} measured, {sum(e.tensors for e in measured)} gradients; "
          f"{sum(e.worse() for e in measured)} operators worse than {FACTOR} times PyTorch's error and {UNITS} units; "
          f"{sum(e.mine <= e.theirs for e in measured)} at least as exact as PyTorch's")
    if args.tsv:
        with open(args.tsv, "w", encoding="utf-8") as out:
            print("operator\ttensors\tunits\tpytorch\tsamples\tleft out\treason", file=out)
            for name, e in rows:
                print(name, e.tensors, f"{e.mine:.3f}", f"{e.theirs:.3f}", e.samples, e.failed, e.reason, sep="\t", file=out)
    return 1 if any(e.worse() for e in measured) else 0


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.exit(main())
