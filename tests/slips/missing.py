#!/usr/bin/env python3
"""Leaves out the last required argument of every function that takes keywords: the compiler's error is to name both.

Usage: missing.py --compiler CC --work FOLDER HEADER_FOLDER...
"""
import argparse
import os
import subprocess
import sys

import calls
from compiler import ALL_ERRORS, Compiler, LENIENT
from keywords import callees


def short_call(callee):
    """The call without the last argument."""
    given = [calls.valid(callee, p) for p in callee.parameters[:-1]]
    return f"{callee.name}({', '.join(given)})"


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("headers", nargs="+")
    return parser.parse_args()


def main():
    o = options()
    os.makedirs(o.work, exist_ok=True)
    tried = [c for c in callees(o.headers) if len(c.parameters) > 1]
    file = os.path.join(o.work, "missing.c")
    with open(file, "w") as f:
        f.write('#include "slip.h"\n')
        for i, c in enumerate(tried):
            f.write(f"void missing_{i}(void) {{ {calls.statement(c, short_call(c))} }}\n")
    compiler = Compiler(o.compiler, o.headers)
    done = subprocess.run(compiler.command(LENIENT, *ALL_ERRORS[compiler.kind], "-fsyntax-only", file),
                          capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    wrong = [c for c in tried if f"'{c.name}_needs_{c.parameters[-1].name}_'" not in done.stderr]
    for c in wrong:
        print(f"{short_call(c)}: no error names {c.parameters[-1].name}")
    print(f"{len(tried)} functions, {len(wrong)} without a name")
    sys.exit(1 if wrong or len(tried) < 100 else 0)


main()
