#!/usr/bin/env python3
"""Every loop over elements that calls elementary functions calls their vector forms.

    tests/house/vectorised.py OBJDUMP OBJECTS   OBJECTS lists object files, those of the library, one in a line

GCC says nothing when it leaves a loop scalar, as it does where it makes a branch of a choice, and such a loop is ten or twenty
times as slow. So each function of the files that are compiled per instruction set is disassembled: one that calls scalar
functions of simd_math.h and none of their vector forms, by which the rest of a row is computed, is an error.
"""
import collections
import re
import subprocess
import sys

# Loops that stay scalar, and functions that have one element to compute for a row, and why.
SCALAR = {
    **{f"level_ldexp_2_{dtype}_{isa}": "the factors of a power are made once" for dtype in ("f32", "f64") for isa in ("default", "avx2", "avx512")},
    "loop_div_floor_f32_default": "SSE2 has no fmod",
    "loop_div_floor_f64_default": "SSE2 has no fmod",
    "wide_digamma_default": "its tangent has no form for SSE2",
    "wide_trigamma_default": "its sine has no form for SSE2",
}
FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
CALL = re.compile(r"R_X86_64_\w+\s+([\w.]+)")
ELEMENTARY = re.compile(r"^fac__\w+_f(32|64)_(default|avx2|avx512)$")
ROWS = re.compile(r"^fac__(argbest|softmax_row|logsumexp_terms)_f")  # of rows of elements, not of one


def calls_of(objdump, path):
    """The symbols that each function of an object file refers to."""
    calls, name = collections.defaultdict(set), None
    text = subprocess.run([objdump, "-dr", "--no-show-raw-insn", path], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        if function := FUNCTION.match(line):
            name = function[1]
        elif call := CALL.search(line):
            calls[name].add(call[1])
    return calls


def main():
    objdump, listing = sys.argv[1:]
    vector = scalar = 0
    with open(listing, encoding="utf-8") as f:
        paths = [line.strip() for line in f if ".isa.c." in line]
    for path in paths:
        isa = re.search(r"facula_(\w+)\.dir", path)[1]
        for name, symbols in sorted(calls_of(objdump, path).items()):
            elementary = sorted(s for s in symbols if ELEMENTARY.match(s) and not ROWS.match(s))
            if any(s.startswith("_ZGV") for s in symbols):
                vector += 1
            elif elementary and f"{name}_{isa}" not in SCALAR:
                scalar += 1
                print(f"{path}: {name} calls {', '.join(elementary)} and no vector form")
    print(f"{vector} functions call vector forms, {scalar} only scalar ones")
    return scalar > 0 or vector < 100


if __name__ == "__main__":
    sys.exit(main())
