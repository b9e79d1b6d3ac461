#!/usr/bin/env python3
"""Compares every module of modules.json with PyTorch's, with the arguments that rules.py gives: text, state, results, gradients,
running statistics, copies and files. Prints a line of TAP for each module and for what is asked of several, then figures.

usage: run.py LIBRARY API_JSON MODULES_JSON [--only REGEX] [--random N] [--verbose]
Ends with 77 where PyTorch is not installed.
"""

import argparse
import pathlib
import re
import sys
import tempfile
import time

try:
    import torch
except ImportError:
    print("PyTorch is not installed: nothing to compare with")
    sys.exit(77)

import check
from check import Check, Counts, Different, Skipped
from on_purpose import REASONS
from library import Library, Scope
from rules import OLD, argument_sets


def known(kind, values, message):
    """Why a difference is one on purpose, or of an older PyTorch."""
    for modules, pattern, reason in REASONS:
        if re.fullmatch(modules, kind["module"]) and re.search(pattern, f"{check.in_python(values)}: {message}", re.S):
            return reason
    return None


class Results:
    def __init__(self):
        self.counts, self.masks, self.failed, self.reasons, self.skipped = Counts(), {}, [], {}, {}

    def module(self, library, kind, n_random):
        """Whether all its sets agree; (sets, those that were skipped)."""
        before, sets = len(self.failed), argument_sets(kind, n_random)
        try:
            if not OLD:
                check.same_signature(kind)
        except Different as e:
            self.failed.append((kind["module"], "", str(e)))
        for number, (values, wrong) in enumerate(sets):
            try:
                Check(library, kind, values, self.counts, self.masks).run(number == 0 or (not wrong and number < 4))
            except Skipped as why:
                self.skipped.setdefault(str(why), []).append(kind["module"])
            except Different as e:
                reason = known(kind, values, str(e))
                if reason:
                    self.reasons.setdefault(reason, []).append(kind["module"])
                else:
                    self.failed.append((kind["module"], check.in_python(values), str(e)))
        return len(self.failed) == before, len(sets)


def share_is_right(rows):
    """Whether the sum of what was drawn, of n numbers each of a mean and a variance, is within five deviations of what it should be."""
    expected, variance = (sum(n * row for n, row in zip(counts, values)) for counts, values in
                          (([r[0] for r in rows], [r[2] for r in rows]), ([r[0] for r in rows], [r[3] for r in rows])))
    return abs(sum(r[1] for r in rows) - expected) <= 5 * variance ** 0.5


def prelu_learns(library):
    """A step of stochastic gradient descent after another, in both: the weights stay the same."""
    theirs, mine = torch.nn.PReLU(4, 0.1), library.from_text("PReLU(4, 0.1)")
    descent, descent_of_mine = torch.optim.SGD(theirs.parameters(), 0.1), library.b.sgd_new(Pointer(mine.pointer), 0.1)
    source = torch.Generator().manual_seed(1)
    for _ in range(5):
        x, target = (torch.randn(6, 4, 3, generator=source) for _ in range(2))
        descent.zero_grad()
        (theirs(x) - target).square().mean().backward()
        descent.step()
        with Scope(library.f) as scope:
            library.b.optimizer_zero_grad(descent_of_mine)
            y, = mine(scope, scope.wrap(x))
            library.check(library.lib.fac_backward(library.lib.fac_mse_loss(y.h, scope.wrap(target).h, None), None))
            library.b.optimizer_step(descent_of_mine)
            weight = mine.state(scope)["weight"]
        if not torch.allclose(weight, theirs.weight.detach(), rtol=1e-5, atol=1e-6):
            return False
    return not torch.equal(weight, torch.full((4,), 0.1))


class Pointer:
    """A module as the binding takes it."""

    def __init__(self, pointer):
        self.pointer = pointer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("api")
    parser.add_argument("modules")
    parser.add_argument("--only", default="")
    parser.add_argument("--random", type=int, default=6, help="combinations drawn for each module")
    parser.add_argument("--verbose", action="store_true", help="show how long each module takes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    library, results, begin = Library(options.library, options.api, options.modules), Results(), time.time()
    kinds = [k for k in library.modules.values() if re.search(options.only, k["module"])]
    with tempfile.TemporaryDirectory() as folder:
        check.PATH = pathlib.Path(folder) / "module.safetensors"
        for i, kind in enumerate(kinds):
            start = time.process_time()
            good, n = results.module(library, kind, options.random)
            print(f"{'ok' if good else 'not ok'} {i + 1} - {kind['module']}_agrees_with_pytorch_in_{n}_sets_of_arguments", flush=True)
            if options.verbose:
                print(f"# {time.process_time() - start:.2f} s of processor time")
        checks = [(f"{name}_draws_as_much_as_it_should", share_is_right(rows)) for name, rows in sorted(results.masks.items())]
        if not options.only:
            checks.append(("S165_E37_prelu_learns_as_pytorch_does", prelu_learns(library)))
        for i, (name, good) in enumerate(checks):
            print(f"{'ok' if good else 'not ok'} {len(kinds) + i + 1} - {name}")
    for module, values, message in results.failed:
        print(f"# {module}({values}): {message}")
    for table, title in ((results.reasons, "differs on purpose"), (results.skipped, "skipped")):
        for reason, modules in sorted(table.items()):
            print(f"# {title}: {reason}: {len(modules)} sets of {', '.join(sorted(set(modules)))}")
    print(f"# PyTorch {torch.__version__}: {len(kinds)} modules; {results.counts}; {len(results.failed)} sets differ; "
          f"{time.time() - begin:.1f} s")
    return bool(results.failed) or not all(good for _, good in checks)


if __name__ == "__main__":
    sys.exit(main())
