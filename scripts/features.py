#!/usr/bin/env python3
"""Prints each feature of docs/features.md with its tests and their result, and ends with a count.

Usage: features.py BUILD [--missing]. A test belongs to a feature if its name carries the id: S003, e12. --missing also
lists the features without a test. Ends with 1 if a test that belongs to a feature fails. The tests of CUDA run on what
FACULA_CUDA names, by default four simulated devices; features of which part is a GPU's alone (kind G) are then "simulated":
the test has passed, and the rest needs a GPU (`make gpu-check`).
"""
import os
import pathlib
import re
import subprocess
import sys

IDENTIFIER = re.compile(r"(?:^|_)([se])_?(\d{2,3})(?=_|$)", re.IGNORECASE)
ROW = re.compile(r"^\| ([SE])-(\d+) \| (.*?) \|.*\| (\S+) \|$")
CUDA = os.environ.get("FACULA_CUDA", "sim:4")
TAP = re.compile(r"^(ok|not ok) \d+ -? ?(?:# SKIP )?(\w+)")


def features(root):
    """(letter, number) -> what must work, its kind."""
    table = {}
    for line in (root / "docs" / "features.md").read_text().splitlines():
        match = ROW.match(line)
        if match:
            table[match[1], int(match[2])] = match[3], match[4]
    return table


def run_tests(build):
    """Yields (test name, "ok" | "FAILED" | "skipped") for every unit test and every test of CUDA."""
    programs = [*sorted((build / "tests" / "unit").glob("test_*")), *sorted((build / "tests" / "cuda").glob("test_*"))]
    for program in programs:
        environment = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP")
        if program.parent.name == "cuda":
            environment["FACULA_CUDA"] = CUDA
        done = subprocess.run([program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in done.stdout.splitlines():
            match = TAP.match(line)
            if match:
                yield match[2], "skipped" if "# SKIP" in line else "ok" if match[1] == "ok" else "FAILED"
        if done.returncode < 0:
            yield program.name + "_crashed", "FAILED"


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("-")]
    if len(arguments) != 1:
        print("usage: features.py BUILD [--missing]", file=sys.stderr)
        return 2
    table = features(pathlib.Path(__file__).resolve().parent.parent)
    tests = {}
    for name, result in run_tests(pathlib.Path(arguments[0]).resolve()):
        for letter, number in IDENTIFIER.findall(name):
            tests.setdefault((letter.upper(), int(number)), []).append((name, result))
    order = sorted(table, key=lambda key: (key[0] != "S", key[1]))
    for key in order:
        for name, result in tests.get(key, []):
            simulated = result == "ok" and "G" in table[key][1] and CUDA.startswith("sim")
            print(f"{key[0]}-{key[1]:03d}  {'simulated' if simulated else result:9} {name}")
        if key not in tests and "--missing" in sys.argv:
            print(f"{key[0]}-{key[1]:03d}  no test   {table[key][0]}")
    failed = [key for key in tests if any(result == "FAILED" for _, result in tests[key])]
    print(f"{len(tests.keys() & table.keys())} of {len(table)} features have a test; {len(failed)} fail")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
