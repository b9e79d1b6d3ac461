#!/usr/bin/env python3
"""Which lines and branches of src/ the tests reached, from a build with the coverage preset after its tests have run.

    scripts/coverage.py [BUILD] [--least PERCENT]

Prints the share of lines by folder and the files with most lines missed; then, for what must be covered whole (allocators,
readers of files, arithmetic of shapes), each branch that was never taken. gcov, which comes with gcc, does the reading."""

import argparse
import collections
import fnmatch
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
WHOLE = ["src/core/alloc*", "src/core/storage*", "src/core/slot.c", "src/core/shape.c", "src/core/resize.c", "src/core/tensor*.c",
         "src/base/memory.c", "src/base/file.c", "src/io/*", "src/jit/*", "src/data/idx.c", "src/data/corpus.c", "src/data/vocab.c",
         "src/iter/*", "src/ops/resize_out.c", "src/ops/structured.c", "src/ops/meta/*", "src/ops/composite/einsum.c",
         "src/dispatch/schema*.c", "src/dispatch/names.c", "src/backend/cuda/runtime/alloc*", "src/backend/cuda/runtime/pinned*"]


def gcov(files):
    """The reports of gcov on some .gcda files, as dictionaries."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["gcov", "--json-format", "--branch-probabilities", "--hash-filenames", *map(str, files)]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return [json.loads(gzip.open(p).read()) for p in pathlib.Path(folder).glob("*.gz")]


def name_in_tree(name, build):
    """The file's path from the root of the tree; None for generated and foreign files."""
    path = pathlib.Path(name)
    path = (path if path.is_absolute() else build / path).resolve()
    inside = path.is_relative_to(ROOT / "src") and not path.is_relative_to(build)
    return str(path.relative_to(ROOT)) if inside else None


def collect(build):
    """Counts by file and line, and by file, line and number of the branch. A file that is compiled several times (per
    instruction set, per dtype) counts as reached where any of its copies is."""
    lines = collections.defaultdict(lambda: collections.defaultdict(int))
    branches = collections.defaultdict(lambda: collections.defaultdict(int))
    data = sorted(build.rglob("*.gcda"))
    with ThreadPoolExecutor() as pool:
        reports = pool.map(gcov, [data[i:i + 20] for i in range(0, len(data), 20)])
        for report in (r for part in reports for r in part):
            for file in report["files"]:
                name = name_in_tree(file["file"], build)
                if name is None:
                    continue
                for line in file["lines"]:
                    lines[name][line["line_number"]] += line["count"]
                    for i, branch in enumerate(line["branches"]):
                        branches[name][line["line_number"], i] += branch["count"]
    return lines, branches


def percent(reached, total):
    return 100 * reached / total if total else 100.0


def print_lines(lines):
    """Prints lines by folder and the worst files; the share of all."""
    folders = collections.defaultdict(lambda: [0, 0])
    for name, counts in lines.items():
        for key in (str(pathlib.Path(name).parent), "all"):
            folders[key][0] += sum(c > 0 for c in counts.values())
            folders[key][1] += len(counts)
    for name, (reached, total) in sorted(folders.items()):
        print(f"{percent(reached, total):6.1f} %  {reached:6} of {total:6} lines  {name}")
    print("\nfiles with most lines missed")
    missed = {name: [n for n, c in sorted(counts.items()) if c == 0] for name, counts in lines.items()}
    for name, numbers in sorted(missed.items(), key=lambda item: -len(item[1]))[:25]:
        print(f"{len(numbers):5}  {name}: {ranges(numbers)}")
    return percent(*folders["all"])


def ranges(numbers):
    """[1, 2, 3, 7] as '1-3 7', cut off."""
    text, start = [], None
    for n, following in zip(numbers, numbers[1:] + [None]):
        start = n if start is None else start
        if following != n + 1:
            text.append(str(start) if start == n else f"{start}-{n}")
            start = None
    return " ".join(text[:40]) + (" ..." if len(text) > 40 else "")


def print_branches(lines, branches):
    """Prints lines in files that should be covered whole of which a branch was never taken; lines never reached are told of as
    such."""
    print("\nbranches never taken, where all should be")
    for name in sorted(branches):
        if not any(fnmatch.fnmatch(name, pattern) for pattern in WHOLE):
            continue
        of_line = collections.defaultdict(list)
        for (line, _), count in branches[name].items():
            of_line[line].append(count)
        partly = [n for n, counts in sorted(of_line.items()) if lines[name][n] and 0 in counts]
        never = [n for n, count in sorted(lines[name].items()) if count == 0]
        taken = sum(c > 0 for counts in of_line.values() for c in counts)
        total = sum(map(len, of_line.values()))
        print(f"{percent(taken, total):6.1f} %  {name}: partly {ranges(partly) or 'none'}; never {ranges(never) or 'none'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build/coverage", type=pathlib.Path)
    parser.add_argument("--least", type=float, default=0, help="fail below this share of lines")
    options = parser.parse_args()
    lines, branches = collect(options.build.resolve())
    if not lines:
        sys.exit(f"coverage: no counts below {options.build}: build with the coverage preset, and run the tests")
    share = print_lines(lines)
    print_branches(lines, branches)
    print(f"\nlines of src/ reached: {share:.1f} %")
    sys.exit(share < options.least)


if __name__ == "__main__":
    main()
