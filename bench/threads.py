#!/usr/bin/env python3
"""How several threads fare: on a busy machine beside one thread, and on an idle one beside another build.

    bench/threads.py busy BENCH             each row with 1 and with 2 threads, next to an endless loop on each processor
    bench/threads.py compare BEFORE AFTER   each row with both programs, taking turns; they are builds of bench.c

Options: --pairs N (20), --starts N processes of each side (5), --ms M a measurement (20), --threads 1,2 (compare), --grep TEXT,
--section NAME, --limit R (busy 1.3, compare 1.03), --orders N (compare), --out FILE. The two sides of a pair are measured one right after the other,
in alternating order, and a row's figures are medians over its pairs: of the times, and of the pairs' ratios. The pairs go round
several processes of each side, since where a process happens to lie in memory can cost it half its speed for as long as it
runs. So can where the linker happened to put a function, in every process: with --orders N both libraries are linked in N orders of
their objects (by ninja, in the folders where the programs were built), and N or more --starts go round them. `others` is the median number of other runnable threads that the kernel saw at the row's pairs; loops of our own not
counted. Compare means little where it is not 0. Ends with 1 if a row is over the limit.
"""
import argparse
import os
import pathlib
import random
import shlex
import statistics
import subprocess
import sys
import tempfile


class Bench:
    """A `bench --serve` that measures rows when asked. Threads of a build with OpenMP sleep soon when they have nothing to do, so
    that they do not keep a core from the other side."""

    def __init__(self, program, library=None):
        """`library` is the folder of the libfacula to use, where it is not the program's own."""
        own = {"LD_LIBRARY_PATH": library} if library else {}
        self.process = subprocess.Popen([program, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, GOMP_SPINCOUNT="10000", **own))

    def measure(self, row, threads, ms):
        """The row's median in microseconds."""
        self.process.stdin.write(f"{row}\t{threads}\t{ms}\n")
        self.process.stdin.flush()
        fields = self.process.stdout.readline().split("\t")
        if len(fields) != 5:
            sys.exit(f"bench: the row '{row}' failed")
        return float(fields[3])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def link_in_orders(program, n, folder):
    """Links the library that `program` was built with in n orders of its objects; the folders of the libraries."""
    build = pathlib.Path(program).resolve().parent.parent
    library = next(path for path in build.glob("libfacula.so.*") if not path.is_symlink())
    text = subprocess.run(["ninja", "-t", "commands", library.name], cwd=build, capture_output=True, text=True, check=True).stdout
    words = [word for word in shlex.split(text.splitlines()[-1]) if word not in (":", "&&")]
    places = [i for i, word in enumerate(words) if word.endswith(".o")]
    objects, folders = [words[i] for i in places], []
    for seed in range(n):
        folders.append(pathlib.Path(folder, f"order-{seed}"))
        folders[-1].mkdir(parents=True)
        random.Random(seed).shuffle(objects)
        for i, word in zip(places, objects):
            words[i] = word
        soname = next(word for word in words if word.startswith("-Wl,-soname,")).split(",")[-1]
        words[words.index("-o") + 1] = str(folders[-1] / soname)
        subprocess.run(words + ["-Wl,-s"], cwd=build, check=True)
    return folders


def start_side(program, options, folder):
    libraries = link_in_orders(program, options.orders, folder) if options.orders else [None]
    return [Bench(program, libraries[i % len(libraries)]) for i in range(options.starts)]


def rows_of(program, grep, section):
    lines = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split("\t") for line in lines]
    return [name for part, name in rows if grep in name and section in ("", part)]


def runnable():
    with open("/proc/loadavg") as file:
        return int(file.read().split()[3].split("/")[0])


def pairs_of(first, second, options, loops):
    """Times of both sides and the number of other runnable threads, for each pair. Both are given the pair's number."""
    out = []
    for i in range(options.pairs):
        others = max(0, runnable() - 1 - loops)
        if i // options.starts % 2 == 0:
            a = first(i)
            b = second(i)
        else:
            b = second(i)
            a = first(i)
        out.append((a, b, others))
    return out


def report(row, threads, pairs, limit, out):
    """Prints the row; true if it is over the limit."""
    a, b, others = (statistics.median(column) for column in zip(*pairs))
    ratio = statistics.median(second / first for first, second, _ in pairs)
    line = f"{row}\t{threads}\t{a:.3f}\t{b:.3f}\t{ratio:.3f}\t{others:g}" + ("\tOVER" if ratio > limit else "")
    print(line, flush=True)
    out.append(line)
    return ratio > limit


def busy(options, out):
    benches = [Bench(options.bench) for _ in range(options.starts)]
    measure = lambda threads: lambda i: benches[i % options.starts].measure(row, threads, options.ms)
    cores = sorted(os.sched_getaffinity(0))
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in cores]
    over = 0
    try:
        for row in rows_of(options.bench, options.grep, options.section):
            pairs = pairs_of(measure(1), measure(2), options, len(loops))
            over += report(row, "1,2", pairs, options.limit or 1.3, out)
    finally:
        for loop in loops:
            loop.kill()
        for bench in benches:
            bench.close()
    return over


def compare(options, out):
    options.starts = max(options.starts, options.orders)
    with tempfile.TemporaryDirectory(prefix="facula-orders.") as folder:
        sides = [start_side(program, options, f"{folder}/{name}")
                 for name, program in (("before", options.before), ("after", options.after))]
        return compare_sides(sides, options, out)


def compare_sides(sides, options, out):
    measure = lambda side: lambda i: sides[side][i % options.starts].measure(row, threads, options.ms)
    over = 0
    for row in rows_of(options.before, options.grep, options.section):
        for threads in options.threads.split(","):
            pairs = pairs_of(measure(0), measure(1), options, 0)
            over += report(row, threads, pairs, options.limit or 1.03, out)
    for bench in sides[0] + sides[1]:
        bench.close()
    return over


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    on_busy, on_idle = commands.add_parser("busy"), commands.add_parser("compare")
    on_busy.add_argument("bench")
    on_idle.add_argument("before")
    on_idle.add_argument("after")
    on_idle.add_argument("--threads", default="1,2")
    on_idle.add_argument("--orders", type=int, default=0)
    for command in (on_busy, on_idle):
        command.add_argument("--pairs", type=int, default=20)
        command.add_argument("--starts", type=int, default=5)
        command.add_argument("--ms", type=float, default=20)
        command.add_argument("--grep", default="")
        command.add_argument("--section", default="")
        command.add_argument("--limit", type=float)
        command.add_argument("--out")
    return parser.parse_args()


def main():
    options, out = parse(), []
    sides = "1 thread, 2 threads" if options.command == "busy" else "before, after"
    print(f"# {options.command}: {options.pairs} pairs of {options.ms:g} ms; microseconds with {sides}; "
          f"{len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f}")
    print("row\tthreads\tfirst\tsecond\tratio\tothers")
    over = (busy if options.command == "busy" else compare)(options, out)
    print(f"# {len(out)} rows, {over} over the limit; load {os.getloadavg()[0]:.1f}")
    if options.out:
        with open(options.out, "w") as file:
            file.write("\n".join(out) + "\n")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
