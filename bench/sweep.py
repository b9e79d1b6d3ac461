#!/usr/bin/env python3
"""Measures Facula beside PyTorch over every operator in many sizes, dtypes and layouts, forward and backward.

Usage: sweep.py FOLDER OUT.tsv [--rows 12] [--threads 1,2] [--grep TEXT] [--seed N] [--milliseconds 10]. FOLDER holds the built program
`bench`. Rows are appended to OUT.tsv as they are measured, and a run that was stopped goes on where it was. `sweep_report.py` makes a
page of it. FACULA_BENCH_PYTHON names a Python with another PyTorch than the system's (README.md).
"""
import argparse
import pathlib
import resource
import select
import subprocess
import sys
import time

import run
import sweep_rows

COLUMNS = ("operator", "kind", "size", "dtype", "layout", "direction", "threads", "facula", "pytorch", "ratio", "bytes", "numel", "row")
PATIENCE = 30  # seconds for a row; a side that takes longer is ended, and the row counts as one that it does not take
MEMORY = 6 << 30  # bytes of data that a side may have; distances of all pairs, say, would take more
REFUSED_AT_MOST = 60  # calls of an operator that one side does not take, in a row


class Sides:
    """Both processes; one that ended, as some calls of PyTorch do, is started again."""

    def __init__(self, program, threads):
        self.program, self.threads, self.description = program, threads, None
        self.ours = self.theirs = None

    def start(self):
        if not self.ours or self.ours.has_ended():
            self.ours = run.Side([self.program, "--serve"], run.environment(), subprocess.DEVNULL)
        if not self.theirs or self.theirs.has_ended():
            self.theirs, self.description = run.start_torch(self.threads)
            if not self.theirs:
                sys.exit("sweep.py: PyTorch is not installed: FACULA_BENCH_PYTHON names a Python that has it")

    def ask(self, side, row, milliseconds):
        try:
            side.send(row, self.threads, milliseconds)
        except BrokenPipeError:
            side.process.wait()
            return []
        if not select.select([side.process.stdout], [], [], PATIENCE)[0]:
            side.process.kill()
            side.process.wait()
            return []
        return side.answer()

    def ask_ours(self, row, milliseconds):
        """The same of Facula, which refuses, but should neither end nor take so long."""
        answer = self.ask(self.ours, row, milliseconds)
        if not answer and self.ours.has_ended():
            print(f"sweep.py: Facula ended, or took more than {PATIENCE} s: {row}", file=sys.stderr)
        return answer

    def measure(self, row, milliseconds):
        """Our line and theirs; theirs alone, if we do not take the call. Ours is not asked for what PyTorch does not take."""
        self.start()
        theirs = self.ask(self.theirs, row, milliseconds)
        ours = self.ask_ours(row, milliseconds) if theirs else []
        if ours:  # again whatever the ratio was, in turns, so that a busy machine slows both, and luck favours neither
            theirs = min(theirs, self.ask(self.theirs, row, milliseconds) or theirs, key=lambda a: float(a[3]))
            ours = min(ours, self.ask(self.ours, row, milliseconds) or ours, key=lambda a: float(a[3]))
        return ours, theirs


def line_of(operator, kind, combination, threads, ours, theirs, text):
    us, they = float(ours[3]) if ours else None, float(theirs[3])
    return (operator, kind, *combination, str(threads), f"{us:.3f}" if us else "", f"{they:.3f}", f"{they / us:.3f}" if us else "",
            *((ours[5], ours[6].strip()) if ours else ("", "")), text)


def sweep_operator(all_sides, operator, bases, options):
    """The lines of an operator: each row that PyTorch takes, with every number of threads."""
    choice, taken, refused = sweep_rows.Choice(operator, bases, options.seed), 0, 0
    while taken < options.rows and refused < REFUSED_AT_MOST:
        candidate = choice.next()
        if not candidate:
            return
        combination, kind, text = candidate
        found = [(sides.threads, *sides.measure(text, options.milliseconds)) for sides in all_sides]
        if not all(theirs for _, _, theirs in found):
            choice.refuse(combination)
            refused += 1
            continue
        choice.took(combination)
        taken, refused = taken + 1, 0
        for threads, ours, theirs in found:
            yield line_of(operator, kind, combination, threads, ours, theirs, text)


def done_before(path, threads):
    """Operators that were finished: all in the file but the last, whose rows are taken out."""
    if not path.exists():
        return set()
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line and not line.startswith("#") and not line.startswith("operator\t")]
    before = {row.split("\t")[COLUMNS.index("threads")] for row in rows if row.count("\t") == len(COLUMNS) - 1}
    if before and before != {str(t) for t in threads}:
        sys.exit(f"sweep.py: {path} is a table of {', '.join(sorted(before))} threads: name another one")
    last = rows[-1].split("\t")[0] if rows else None
    kept = [line for line in lines if line.split("\t")[0] != last]
    path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
    return {row.split("\t")[0] for row in rows} - {last}


def counts(text):
    """1,2 as [1, 2]."""
    found = [int(part) for part in text.split(",")]
    if min(found) < 1:
        raise ValueError(text)
    return found


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="where the program `bench` is")
    parser.add_argument("out", type=pathlib.Path, help="the table, which a later call goes on with")
    parser.add_argument("--rows", type=int, default=12, help="of each operator at most; 180 are all there are")
    parser.add_argument("--threads", type=counts, default=[1, 2], help="numbers of threads, with commas; each row is measured with all")
    parser.add_argument("--grep", default="", help="only operators with this text in their name")
    parser.add_argument("--seed", default="0", help="another choice of rows")
    parser.add_argument("--milliseconds", type=float, default=10, help="for each row, side and turn")
    return parser.parse_args()


def main():
    options = parse_arguments()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    done = done_before(options.out, options.threads)
    all_sides = [Sides(str(options.folder / "bench"), threads) for threads in options.threads]
    for sides in all_sides:
        sides.start()
    wanted = [(o, b) for o, b in sweep_rows.calls().items() if options.grep in o and o not in done]
    is_new = not options.out.exists() or options.out.stat().st_size == 0
    begin = time.monotonic()
    with options.out.open("a", encoding="utf-8") as out:
        if is_new:
            print(*run.header(all_sides[0].description), "\t".join(COLUMNS), sep="\n", file=out)
        for i, (operator, bases) in enumerate(wanted):
            for line in sweep_operator(all_sides, operator, bases, options):
                print(*line, sep="\t", file=out, flush=True)
            if sys.stderr.isatty() or i % 50 == 49:
                left = (time.monotonic() - begin) / (i + 1) * (len(wanted) - i - 1)
                print(f"{i + 1} of {len(wanted)} operators, {left / 60:.0f} minutes left: {operator}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nstopped; the same call goes on from here")
