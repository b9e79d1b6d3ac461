#!/usr/bin/env python3
"""Every public operator has a row in bench/operators.txt, or a line there that says why it has none; every row is a call that works.

Usage: bench_rows.py PROGRAM LIBRARY: bench, and the shared library whose operators are listed."""
import ctypes
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import operators  # noqa: E402  the path is known only now

AT_A_TIME = 100


def schemas(library):
    lib = ctypes.CDLL(library)
    lib.fac_operator_count.restype = ctypes.c_size_t
    lib.fac_operator_at.restype, lib.fac_operator_at.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    lib.fac_operator_schema.restype, lib.fac_operator_schema.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    if lib.fac_init():
        sys.exit("the library does not start")
    return [lib.fac_operator_schema(lib.fac_operator_at(i)).decode().removeprefix("aten::") for i in range(lib.fac_operator_count())]


def wants_row(schema):
    """Not forms that write into what they are given, views, and parts of other operators."""
    is_view = re.search(r"\(a(\)|->| )", schema)
    return "!)" not in schema and not is_view and (schema[0] != "_" or schema.startswith("_foreach_"))


def calls_that_fail(program, rows):
    for i in range(0, len(rows), AT_A_TIME):
        done = subprocess.run([program, "--call", *rows[i:i + AT_A_TIME]], stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            yield done.stderr.strip() or f"a call among {rows[i]} ... ended the program with {done.returncode}"


def main():
    program, library = sys.argv[1:]
    names = [s[:s.index("(")].partition(".")[0] for s in schemas(library) if wants_row(s)]
    missing, rows = operators.without_row(names), list(operators.rows())
    for name in missing:
        print(f"bench/operators.txt has no row for {name}, and no reason")
    twice = sorted({row for row in rows if rows.count(row) > 1})
    for row in twice:
        print(f"twice: {row}")
    failed = list(calls_that_fail(program, rows))
    print(*failed, sep="\n")
    print(f"{len(rows)} rows, {len(set(names))} operators")
    return 1 if missing or twice or failed or len(names) < 500 else 0


if __name__ == "__main__":
    sys.exit(main())
