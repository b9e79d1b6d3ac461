#!/usr/bin/env python3
"""Prints each feature of docs/features.md with its tests and their result, and ends with a count.

A test belongs to a feature if its name carries the id: S003, e12, X27. Tests are those
of ctest: the cmocka programs of the labels below, test by test, and whole entries whose own name carries an id. A feature
that needs a GPU is passed by a table of `make gpu-check` in bench/results/; until then it shows as "needs a GPU" after
what passed without one. One that docs/features.md lists under "Partly" shows as such with what is missing, and is not
counted, whatever its tests say. Ends with 1 if a test that belongs to a feature fails.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
IDENTIFIER = re.compile(r"(?:^|[_.])([sex])_?(\d{2,3})(?=[_.]|$)", re.IGNORECASE)
ROW = re.compile(r"^\| ([SEX])-(\d+) \| (.*?) \|.*\| *(\S[^|]*?) *\|$")
PARTLY = re.compile(r"^\| ([SEX])-(\d+) \| ([^|]*\S) *\|$")
TAP = re.compile(r"^(ok|not ok) \d+ -? ?(?:# SKIP )?(\w+)")
LABELS = {"unit", "cuda", "simcuda"}


def features():
    """(letter, number) -> (what must work, what a test of it needs)."""
    table = {}
    for line in (ROOT / "docs" / "features.md").read_text().splitlines():
        match = ROW.match(line)
        if match:
            table[match[1], int(match[2])] = match[3], match[4]
    return table


def partly(table):
    """(letter, number) -> what is missing, of the features that hold in part."""
    found = {}
    for line in (ROOT / "docs" / "features.md").read_text().splitlines():
        match = PARTLY.match(line)
        if match:
            found[match[1], int(match[2])] = match[3]
    for letter, number in found.keys() - table.keys():
        sys.exit(f"docs/features.md: {letter}-{number:03d} is said to hold in part, but is no feature")
    return found


def ids(name):
    return {(letter.upper(), int(number)) for letter, number in IDENTIFIER.findall(name)}


def ctest_entries(build):
    """Yields (name, command, labels, environment, folder, seconds) of the tests that are built."""
    done = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], stdout=subprocess.PIPE, check=True)
    for test in json.loads(done.stdout)["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        if "command" in test:
            environment = dict(line.split("=", 1) for line in properties.get("ENVIRONMENT", []))
            yield (test["name"], test["command"], set(properties.get("LABELS", [])), environment,
                   properties.get("WORKING_DIRECTORY", build), properties.get("TIMEOUT", 600))


def run_tests(build):
    """Yields (test name, "ok" | "FAILED" | "skipped"), and (name of an entry, "CRASHED")."""
    for name, command, labels, environment, folder, seconds in ctest_entries(build):
        if not labels & LABELS and not ids(name):
            continue
        environment = dict(os.environ, **environment, CMOCKA_MESSAGE_OUTPUT="TAP")
        try:
            done = subprocess.run(command, env=environment, cwd=folder, timeout=seconds, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace")
            output, status = done.stdout, done.returncode
        except subprocess.TimeoutExpired as expired:
            output, status = (expired.stdout or b"").decode(errors="replace"), -1
        if ids(name):
            yield name, "FAILED" if status else "ok"
        for line in output.splitlines():
            match = TAP.match(line)
            if match:
                yield match[2], "skipped" if "# SKIP" in line else "ok" if match[1] == "ok" else "FAILED"
        if status < 0:
            yield name, "CRASHED"


def passed_on_hardware():
    """(letter, number) -> [(test, table)] of the tables that make gpu-check wrote on real devices."""
    found = {}
    for path in sorted((ROOT / "bench" / "results").glob("*.tsv")):
        lines = path.read_text().splitlines()
        if "program\ttest\tresult\tnote" not in lines or "simulated" in lines[0]:
            continue
        for cells in (line.split("\t") for line in lines):
            if len(cells) >= 3 and cells[2] == "passed":
                for key in ids(cells[1]):
                    found.setdefault(key, []).append((cells[1], path.name))
    return found


def show(key, needs, results, hardware, missing):
    """Prints a feature's lines: its tests, what is missing, and what is to be said of hardware."""
    label = f"{key[0]}-{key[1]:03d}"
    for name, result in results:
        print(f"{label}  {result:11} {name}")
    if missing:
        print(f"{label}  {'partly':11} missing: {missing}")
    if missing or ("G" not in needs and "M" not in needs):
        return
    for name, table in hardware:
        print(f"{label}  {'ok on a GPU':11} {name} ({table})")
    if results and not hardware and all(result == "ok" for _, result in results):
        print(f"{label}  needs a GPU{'' if 'G' in needs else ' or several'}: make gpu-check, its table in bench/results/")


def show_all(table, tests, list_missing):
    """Prints every feature, and the count; returns whether a test of one failed."""
    hardware, parts = passed_on_hardware(), partly(table)
    for key in sorted(table, key=lambda key: ("SEX".index(key[0]), key[1])):
        what, needs = table[key]
        show(key, needs, tests.get(key, []), hardware.get(key, []), parts.get(key))
        if key not in tests and list_missing:
            print(f"{key[0]}-{key[1]:03d}  {'no test':11} {what}{' (needs a GPU)' if needs == 'G' else ''}")
    results = {key: {result for _, result in tests[key]} for key in tests}
    failed = [key for key in results if "FAILED" in results[key]]
    proven = [key for key in table.keys() & results.keys() - parts.keys() if "ok" in results[key] and key not in failed]
    waiting = [key for key in proven if "G" in table[key][1] and key not in hardware]
    print(f"{len(proven)} of {len(table)} features are proven by a test, {len(waiting)} of these need a GPU too; {len(parts)} "
          f"hold in part; {len(failed)} fail")
    return bool(failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="a build folder, such as build/release")
    parser.add_argument("--missing", action="store_true", help="list the features without a test too")
    options = parser.parse_args()
    tests, crashed = {}, False
    for name, result in run_tests(str(pathlib.Path(options.build).resolve())):
        if result == "CRASHED":
            print(f"{name} crashed or hung")
            crashed = True
            continue
        for key in ids(name):
            tests.setdefault(key, []).append((name, result))
    failed = show_all(features(), tests, options.missing)
    return 1 if failed or crashed else 0


if __name__ == "__main__":
    sys.exit(main())
