#!/usr/bin/env python3
"""Measures Facula beside PyTorch in one run and prints a table of tab-separated values (README.md says what the columns are).

Usage: run.py FOLDER [--quick] [--sections overhead,step] [--grep TEXT] [--threads 1,2] [--out FILE]. FOLDER holds the built
program `bench`. Without python3-torch the PyTorch columns are empty, and the first line says so.
"""
import argparse
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import operators

HERE = pathlib.Path(__file__).resolve().parent
CPUINFO = pathlib.Path("/proc/cpuinfo")  # where there is one
ROUNDS, QUICK_ROUNDS, BUDGET_MS, QUICK_BUDGET_MS = 3, 2, 120, 15
LONG_US = 1e5  # of rows of whole models longer than that, one round is enough to be quick
MEMORY_RUNS = 3  # of a whole model: the first step makes the optimiser's state, the second has all there is
BARE_ROW = "empty 16"  # what the process takes that does nothing
NAMED_ONLY = ("models",)  # sections that are measured only if they are named
MEMORY_ROW = "GPT d128 h4 T64 b16 L4 AdamW"
COLUMNS = ("section", "row", "threads", "facula", "pytorch", "ratio")


def cpuinfo():
    return CPUINFO.read_text(encoding="ascii", errors="replace") if CPUINFO.exists() else ""


def environment():
    """Of both sides: idle threads spin shortly, then sleep, so that neither keeps a core from the other."""
    return dict(os.environ, GOMP_SPINCOUNT="10000")


def preloaded():
    """MKL, which a PyTorch of today brings along, holds its fast kernels back on CPUs that are not Intel's; a library of one function,
    made here, tells it otherwise. Empty where there is no compiler, or on Intel's CPUs."""
    if "AuthenticAMD" not in cpuinfo() or not shutil.which("cc"):
        return ""
    path = pathlib.Path(tempfile.gettempdir()) / f"facula_bench_mkl_{os.getuid()}.so"
    source = "int mkl_serv_intel_cpu_true(void) { return 1; }"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", path, "-x", "c", "-"], input=source, text=True, check=True)
    return str(path)


def torch_environment(threads):
    """PyTorch at its best: the widest kernels, an OpenBLAS or MKL that knows this CPU, a C library that keeps freed pages.
    torch.set_num_threads does not reach OpenBLAS, which reads its number of threads when it is loaded."""
    tuned = dict(environment(), OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads),
                 GLIBC_TUNABLES="glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=34359738368:glibc.malloc.top_pad=16777216")
    if preloaded():
        tuned["LD_PRELOAD"] = preloaded()
    if "avx512f" in cpuinfo():
        tuned.update(ATEN_CPU_CAPABILITY="avx512", OPENBLAS_CORETYPE="SkylakeX")
    return tuned


def torch_command(*arguments):
    """FACULA_BENCH_PYTHON names a Python with another PyTorch. Debian installs python3-torch for the system's Python, which need not be
    the one on PATH."""
    system = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
    python = os.environ.get("FACULA_BENCH_PYTHON") or system
    return [python, str(HERE / "torch_rows.py"), *arguments]


class Side:
    """A process that measures the rows it is asked for."""

    def __init__(self, command, env, errors=None):
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stderr=errors)

    def read(self):
        return self.process.stdout.readline().split("\t")

    def send(self, row, threads, milliseconds):
        self.process.stdin.write(f"{row}\t{threads}\t{milliseconds}\n")
        self.process.stdin.flush()

    def has_ended(self):
        return self.process.poll() is not None

    def answer(self):
        """The row's line, as bench.c has it, in its columns; an empty list if the row failed."""
        answer = self.read()
        if answer == [""]:
            self.process.wait()
        return answer if len(answer) >= 5 else []

    def peak_mib(self, row, runs):
        """Of torch_rows.py --serve-memory; None if the row failed."""
        self.process.stdin.write(f"{row}\t{runs}\n")
        self.process.stdin.flush()
        answer = self.read()[0].strip()
        return float(answer) / 1024 if answer.isdigit() else None

    def measure(self, row, threads, milliseconds):
        """Median microseconds; None if the row failed."""
        self.send(row, threads, milliseconds)
        answer = self.answer()
        return float(answer[3]) if answer else None


def start_torch(threads):
    """The side and its description; (None, None) where PyTorch is not installed."""
    side = Side(torch_command("--serve"), torch_environment(threads), subprocess.DEVNULL)
    ready = side.read()[0].split(maxsplit=1)
    return (side, ready[1].strip()) if ready[:1] == ["ready"] else (None, None)


def header(description):
    lines = ["# Facula beside " + (description or "nothing: PyTorch is not installed (python3-torch)")]
    if description and not any(name in description for name in ("OpenBLAS", "MKL")):
        lines.append("# its matrix products are those of a plain BLAS: install libopenblas0-openmp")
    cpu = next((line.split(":")[1].strip() for line in cpuinfo().splitlines() if line.startswith("model name")), "unknown")
    lines.append(f"# {cpu}, {os.cpu_count()} cores; {os.getloadavg()[0]:.1f} processes wanted them in the minute before")
    return lines


def measure_row(sides, row, threads, rounds, milliseconds, long_us=math.inf):
    """The least of each side's medians. The sides take turns, so that a busy machine slows both. One round if it takes longer than
    long_us."""
    medians = [[] for _ in sides]
    for i in range(rounds):
        if i and max((max(found, default=0) for found in medians)) > long_us:
            break
        for side, found in zip(sides, medians):
            value = side.measure(row, threads, milliseconds) if side else None
            if value is not None:
                found.append(value)
    return [min(found, default=None) for found in medians]


def table_row(section, name, threads, ours, theirs, digits=3):
    cell = lambda value: "" if value is None else f"{value:.{digits}f}"
    ratio = f"{theirs / ours:.2f}" if ours and theirs else ""
    return (section, name, str(threads), cell(ours), cell(theirs), ratio)


def numbers_of(command):
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, check=True, text=True)
    return [float(x) for x in done.stdout.split()]


def model_memory_rows(program, with_torch, wanted):
    """Peak resident MiB of a process that runs the row, on either side; of BARE_ROW first, which is what loading alone takes."""
    torch_side = Side(torch_command("--serve-memory"), environment(), subprocess.DEVNULL) if with_torch else None
    for row in (BARE_ROW, *wanted):
        ours = numbers_of([program, "--memory", row, str(MEMORY_RUNS)])[0] / 1024
        theirs = torch_side.peak_mib(row, MEMORY_RUNS) if torch_side else None
        yield table_row("models_memory", row, 1, ours, theirs, 1)


def memory_rows(program, with_torch):
    """Peak resident MiB of a process that trains the small GPT, and what Facula's tensors took at most."""
    resident_kib, tensors = numbers_of([program, "--memory", MEMORY_ROW])
    theirs = numbers_of(torch_command("--memory", MEMORY_ROW))[0] / 1024 if with_torch else None
    yield table_row("memory_mib", f"{MEMORY_ROW}: resident", 1, resident_kib / 1024, theirs, 1)
    yield table_row("memory_mib", f"{MEMORY_ROW}: tensors", 1, tensors / 2**20, None, 1)


def listed_rows(program):
    """(section, row) in the order of the program."""
    for line in subprocess.run([program, "--list"], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines():
        yield tuple(line.split("\t"))


def wanted_rows(program, options):
    for section, row in listed_rows(program):
        if options.grep in row and (section in options.sections if options.sections else section not in NAMED_ONLY):
            yield section, row
    if options.sections and "operators" in options.sections:
        yield from (("operators", row) for row in operators.rows() if options.grep in row)


def all_rows(program, options, torch_sides):
    facula_side = Side([program, "--serve"], environment())
    rounds, budget = (QUICK_ROUNDS, QUICK_BUDGET_MS) if options.quick else (ROUNDS, BUDGET_MS)
    for section, row in wanted_rows(program, options):
        for threads in options.threads:
            long_us = LONG_US if options.quick and section == "models" else math.inf
            ours, theirs = measure_row((facula_side, torch_sides[threads]), row, threads, rounds, budget, long_us)
            yield table_row(section, row, threads, ours, theirs)
            if section == "overhead":
                break
    if options.grep in MEMORY_ROW and (not options.sections or "memory" in options.sections):
        yield from memory_rows(program, all(torch_sides.values()))
    if options.sections and "models_memory" in options.sections:
        wanted = [row for section, row in listed_rows(program) if section == "models" and options.grep in row]
        yield from model_memory_rows(program, all(torch_sides.values()), wanted)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="where the program `bench` is")
    parser.add_argument("--quick", action="store_true", help="short samples: about a minute")
    parser.add_argument("--sections", type=lambda s: s.split(","), help="overhead, pointwise, reduction, matrix, step, memory; only if named: operators, hundreds of rows, models and models_memory")
    parser.add_argument("--grep", default="", help="only rows with this text in their name")
    parser.add_argument("--threads", type=lambda s: [int(n) for n in s.split(",")], default=[1, 2])
    parser.add_argument("--out", type=pathlib.Path, help="write the table to this file too")
    return parser.parse_args()


def main():
    options = parse_arguments()
    started = {threads: start_torch(threads) for threads in options.threads}
    lines = header(started[options.threads[0]][1]) + ["\t".join(COLUMNS)]
    print(*lines, sep="\n", flush=True)
    for row in all_rows(str(options.folder / "bench"), options, {threads: side for threads, (side, _) in started.items()}):
        lines.append("\t".join(row))
        print(lines[-1], flush=True)
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
