#!/usr/bin/python3
"""Compares Facula with PyTorch over PyTorch's own operator database: forward for each dtype, inputs that are not contiguous,
forms in place and into given tensors, gradients against torch.autograd. Prints one row per operator, then totals; an operator counts as there only when all its
samples pass. A crash is caught: it costs that operator, not the run.

usage: run.py LIBFACULA.so [--ops REGEX] [--dtypes float32,float64,...] [--limit N] [--jobs N] [--verbose] [--tsv FILE]
"""

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODES = ("plain", "noncontiguous", "forms", "gradient")
MORE_MODES = ("formats", "forward", "vmap")  # not part of what is asked for by default


class Worker:
    """A worker process; started again after a crash or a hang."""

    def __init__(self, library, device):
        self.library, self.device, self.process = library, device, None

    def ask(self, job):
        if self.process is None:
            env = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=HERE)
            self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "worker.py"), self.library, self.device], env=env,
                                            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        timer = threading.Timer(job["seconds"] * 4 + 60, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if line:
            return json.loads(line)
        code = self.process.wait()
        self.process = None
        return {"samples": 1, "passed": 0, "failed": 1, "missing": 0, "unsupported": 0, "crashed": True,
                "reasons": [f"crashed: {'signal ' + str(-code) if code < 0 else 'exit ' + str(code)}"]}

    def stop(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()


def operators(pattern):
    listing = subprocess.run([sys.executable, os.path.join(HERE, "database.py")], check=True, text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL)
    names = listing.stdout.split()
    return [n for n in dict.fromkeys(names) if re.search(pattern, n)]


class Totals:
    def __init__(self):
        self.samples = self.passed = self.failed = self.missing = self.unsupported = 0

    def add(self, r):
        for k in ("samples", "passed", "failed", "missing", "unsupported"):
            setattr(self, k, getattr(self, k) + r.get(k, 0))


def check(args, worker, name):
    """All dtypes and modes of one operator: [(dtype, mode, result)]."""
    rows = []
    for dtype in args.dtypes:
        main = dtype in ("float32", "float64")
        for mode in args.modes:
            if not main and mode == "noncontiguous":
                continue
            limit = args.limit if main else min(args.limit, args.limit_other)
            result = worker.ask({"op": name, "dtype": dtype, "mode": mode, "limit": limit, "seconds": args.seconds})
            rows.append((dtype, mode, result))
            if main and result.get("samples") and result.get("missing") == result["samples"]:
                return rows  # nothing of it is there: the other dtypes would say the same
    return rows


def verdict(rows):
    """What all rows of an operator say together; samples that this harness cannot express count neither way."""
    ran = [r for d, m, r in rows if r.get("samples")]
    if not ran:
        return "no samples"
    if any(r["missing"] for r in ran):
        return "missing"
    if all(r["unsupported"] == r["samples"] for r in ran):
        return "unsupported"
    return "failed" if any(r["failed"] for r in ran) else "passed"


def main():
    parser = argparse.ArgumentParser(description="Compares Facula with PyTorch over PyTorch's operator database.")
    parser.add_argument("library")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where Facula computes; FACULA_CUDA=sim:1 simulates")
    parser.add_argument("--ops", default=".", help="regular expression over operator names")
    parser.add_argument("--dtypes", default="float32,float64,bool,uint8,int32,int64,float16,bfloat16,complex64,complex128")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--limit", type=int, default=1000, help="samples per operator, dtype and mode")
    parser.add_argument("--limit-other", type=int, default=6, help="samples where dtype is neither float32 nor float64")
    parser.add_argument("--seconds", type=float, default=20, help="time per operator, dtype and mode")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--verbose", action="store_true", help="print every operator, also those that are missing")
    parser.add_argument("--tsv", help="write all rows to this file")
    parser.add_argument("--require", type=float, default=0, help="exit 1 unless this share of the samples of present operators passes")
    args = parser.parse_args()
    args.dtypes, args.modes = args.dtypes.split(","), args.modes.split(",")
    if unknown := set(args.modes) - {*MODES, *MORE_MODES}:
        parser.error(f"there is no mode {', '.join(sorted(unknown))}; there are {', '.join(MODES + MORE_MODES)}")

    names, done, lock, started = operators(args.ops), {}, threading.Lock(), time.monotonic()
    queue = iter(names)

    def work():
        worker = Worker(args.library, args.device)
        while True:
            with lock:
                name = next(queue, None)
            if name is None:
                break
            rows = check(args, worker, name)
            with lock:
                done[name] = rows
                if sys.stderr.isatty():
                    print(f"\r\033[K{len(done)}/{len(names)} {name}", end="", file=sys.stderr, flush=True)
        worker.stop()

    threads = [threading.Thread(target=work) for _ in range(max(1, args.jobs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    sys.exit(report(args, names, done, time.monotonic() - started))


def report(args, names, done, seconds):
    tsv = open(args.tsv, "w") if args.tsv else None
    if tsv:
        print("operator\tdtype\tmode\tsamples\tpassed\tfailed\tmissing\tunsupported\treasons", file=tsv)
    counts, present, crashed, missing_ops, by_dtype = {}, Totals(), 0, {}, {}
    print(f"{'operator':44} {'samples':>8} {'passed':>8} {'failed':>8} {'unsupp.':>8} {'missing':>8}  verdict")
    for name in names:
        rows, total, v = done[name], Totals(), verdict(done[name])
        counts[v] = counts.get(v, 0) + 1
        for dtype, mode, r in rows:
            total.add(r)
            by_dtype.setdefault((dtype, mode if mode in ("gradient", "forms") else "forward"), Totals()).add(r)
            crashed += bool(r.get("crashed"))
            if dtype in ("float32", "float64"):
                present.add(r)
            for reason in r.get("reasons", []):
                if reason.startswith("missing "):
                    missing_ops.setdefault(reason[8:], set()).add(name)
            if tsv and r.get("samples"):
                print(name, dtype, mode, r["samples"], r["passed"], r["failed"], r["missing"], r["unsupported"],
                      " | ".join(r["reasons"]), sep="\t", file=tsv)
        if v == "missing" and not total.failed and not args.verbose:
            continue
        print(f"{name:44} {total.samples:8} {total.passed:8} {total.failed:8} {total.unsupported:8} {total.missing:8}  {v}")
        if total.failed:
            for dtype, mode, r in rows:
                for reason in r.get("reasons", []):
                    print(f"    {dtype} {mode}: {reason}")
    print(f"\noperators: {len(names)} in the database, {counts.get('passed', 0)} passed wholly, {counts.get('failed', 0)} failed in part, "
          f"{counts.get('missing', 0)} missing, {counts.get('unsupported', 0)} unsupported here, {counts.get('no samples', 0)} without samples")
    ran = present.samples - present.unsupported - present.missing
    share = 100 * present.passed / ran if ran else 0
    print(f"float32 and float64 samples of the operators present (forward, non-contiguous, gradients): {ran}, "
          f"{present.passed} passed ({share:.2f}%), {present.failed} failed, {crashed} crashed")
    for (dtype, what), t in sorted(by_dtype.items()):
        if t.samples:
            print(f"{dtype:10} {what:8} {t.samples - t.unsupported - t.missing:6} ran, {t.passed:6} passed, {t.failed:4} failed")
    print(f"{seconds:.0f} s")
    if args.verbose:
        for op, users in sorted(missing_ops.items(), key=lambda kv: -len(kv[1])):
            print(f"missing {op}: {', '.join(sorted(users)[:6])}")
    bad = crashed > 0 or share < args.require
    return 1 if bad else 0


if __name__ == "__main__":
    main()
