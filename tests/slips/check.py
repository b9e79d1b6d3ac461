#!/usr/bin/env python3
"""Puts something that may not belong there in the place of every keyword of every function, and tells what becomes of it.

Usage: check.py --compiler CC --host PROGRAM --work FOLDER --page docs/keywords.md HEADER_FOLDER...

Each call is compiled as a user would, with the headers as the program's own and as the system's, about which compilers say
less, without and with FACULA_STRICT. What the compiler lets through is run by PROGRAM. Each must mean what it says, be refused
by the compiler, or be an error that names the keyword. What C converts is counted apart: the page must name each kind of
it, and under FACULA_STRICT only the kinds of UNSEEN are left. FOLDER is left behind if something is wrong.
"""
import argparse
import os
import shutil
import subprocess
import sys
from collections import Counter, namedtuple
from concurrent.futures import ThreadPoolExecutor

import calls
from compiler import Compiler, LENIENT, MODES
from keywords import callees

CHUNK = 2000  # calls a file: compilers take longer than in proportion
OUTCOMES = ("meant", "refused", "named", "converted", "SILENT")
Outcome = namedtuple("Outcome", "what message")

FRACTION = "a floating-point number for an integer"
NUMBER = "a number for an enumeration"
TRUTH = "a truth value for a number"
ENUMERATOR = "an enumerator for a number"
ZERO = "0 or `false` for a pointer"
ADDRESS = "a `void *` for a pointer"
EMPTY = "a `void *` with `false` behind it for a list"
LARGE = "an integer beyond 53 bits for a floating-point number"
# What a compiler has no warning for.
UNSEEN = {"gcc": {TRUTH, ENUMERATOR, ZERO, LARGE}, "clang": {TRUTH, ENUMERATOR, ZERO, LARGE, NUMBER, ADDRESS, EMPTY}}


def conversion(slip):
    """The kind of conversion that C makes of what is written."""
    kind, field, number = slip.value.written, slip.keyword.type, slip.value.number
    if field.endswith("*"):
        return ADDRESS if kind == "W_POINTER" else ZERO
    if kind == "W_POINTER":
        return EMPTY
    if kind == "W_BOOL":
        return TRUTH
    if field in calls.ENUMERATIONS:
        return NUMBER
    if kind == "W_NUMBER" and "." in number:
        return FRACTION
    return ENUMERATOR if kind == "W_ENUM" else LARGE


def in_chunks(things):
    return [things[i:i + CHUNK] for i in range(0, len(things), CHUNK)]


def written(work, name, slips):
    """Files with the calls."""
    paths = []
    for n, chunk in enumerate(in_chunks(slips)):
        paths.append(os.path.join(work, f"{name}_{n}.c"))
        with open(paths[-1], "w") as f:
            f.write(calls.source(chunk))
    return paths


def refused(compiler, pool, work, slips):
    """For each mode the numbers of the calls that the compiler refuses."""
    files = written(work, "calls", slips)
    jobs = {(mode, n): pool.submit(compiler.refused, mode, file) for mode in MODES for n, file in enumerate(files)}
    found = {mode: set() for mode in MODES}
    for (mode, n), job in jobs.items():
        found[mode] |= {n * CHUNK + line - calls.FIRST_LINE for line in job.result()}
    return found


def run(compiler, pool, work, host, slips):
    """The outcomes of calls that the compiler lets through."""
    objects = list(pool.map(compiler.shared_object, written(work, "runs", slips)))
    done = subprocess.run([host, *objects], stdout=subprocess.PIPE, text=True)
    outcomes = {}
    for line in done.stdout.splitlines():
        where, message = line.split("\t")
        n, i, what = where.split()
        outcomes[int(n) * CHUNK + int(i)] = Outcome(what, message)
    if done.returncode or len(outcomes) != len(slips):
        sys.exit(f"{host} ended with {done.returncode} after {len(outcomes)} of {len(slips)} calls")
    return [outcomes[i] for i in range(len(slips))]


def print_counts(slips, refusals, outcomes):
    print(f"{len(slips)} calls of {len({s.callee.name for s in slips})} functions\n")
    print(f"{'headers':10}{'FACULA_STRICT':15}" + "".join(f"{o:>11}" for o in OUTCOMES))
    for mode in MODES:
        count = Counter("refused" if i in refusals[mode] else outcomes[i].what for i in range(len(slips)))
        print(f"{mode.include:10}{'yes' if mode.strict else 'no':15}" + "".join(f"{count[o]:11}" for o in OUTCOMES))


def fault(mode, slip, outcome, is_refused, unseen, page):
    """What is wrong with what a mode makes of a call; None if nothing is."""
    if is_refused:
        return "is right, and refused" if outcome.what == "meant" else None
    if outcome.what == "SILENT":
        return f"is silently something else, or an error that does not name it: {outcome.message}"
    if outcome.what != "converted":
        return None
    if conversion(slip) not in page:
        return f"is converted, and the page does not name '{conversion(slip)}'"
    return "is converted under FACULA_STRICT" if mode.strict and conversion(slip) not in unseen else None


def faults(slips, refusals, outcomes, unseen, page):
    """The first fault of each kind, and how many there are of it."""
    first, count = {}, Counter()
    for mode in MODES:
        for i, outcome in outcomes.items():
            text = fault(mode, slips[i], outcome, i in refusals[mode], unseen, page)
            if text:
                kind = (mode, slips[i].keyword and slips[i].keyword.type, slips[i].value.text, text.split(":")[0])
                first.setdefault(kind, f"{mode.include}{' -DFACULA_STRICT' * mode.strict} {slips[i].text} {text}")
                count[kind] += 1
    return [f"{first[kind]} ({count[kind]} alike)" for kind in first]


def options():
    parser = argparse.ArgumentParser()
    for name in ("--compiler", "--host", "--work", "--page"):
        parser.add_argument(name, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("headers", nargs="+")
    return parser.parse_args()


def main():
    o = options()
    os.makedirs(o.work, exist_ok=True)
    some = list(callees(o.headers))[:: max(1, int(os.environ.get("FACULA_TEST_ONE_IN", 1)))]
    slips = [s for c in some for s in calls.slips_of(c)]
    compiler = Compiler(o.compiler, o.headers)
    with ThreadPoolExecutor(o.jobs) as pool:
        refusals = refused(compiler, pool, o.work, slips)
        runs = [i for i in range(len(slips)) if i not in refusals[LENIENT]]
        outcomes = dict(zip(runs, run(compiler, pool, o.work, o.host, [slips[i] for i in runs])))
    print_counts(slips, refusals, outcomes)
    with open(o.page) as f:
        found = list(faults(slips, refusals, outcomes, UNSEEN[compiler.kind], f.read()))
    print("\n".join(found))
    if not found:
        shutil.rmtree(o.work)  # more than a hundred megabytes
    sys.exit(f"{len(found)} kinds of faults" if found else 0)


main()
