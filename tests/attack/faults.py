#!/usr/bin/env python3
"""Lets a training meet a system that fails it: full disks, limits, interrupted calls, threads that cannot be made, small stacks.

Usage: faults.py [--every] [--only NAME] FACULA SHIM

Each case goes on with a run that was stopped in the middle. If it fails, its message names a file of the run and the reason, the
checkpoint is whole, the log is the beginning of an undisturbed run's, and no temporary file is left. Then the run goes on without
the fault, and ends byte for byte as the undisturbed one. Without --every only some of the places where a call can fail are tried.
SHIM is the library of fault_shim.c. Ends with 1 if anything was wrong.
"""
import argparse
import errno
import gzip
import os
import pathlib
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

import training
from training import Wrong, need

STEPS = 15
DISK_CALLS = ("write", "pwrite", "fsync", "close", "openat", "renameat")


class Faults:
    def __init__(self, options, folder):
        self.tool, self.shim, self.every = os.path.abspath(options.tool), os.path.abspath(options.shim), options.every
        self.folder = pathlib.Path(folder)
        self.text = training.write_text(folder)
        self.reference = training.Reference(self.tool, folder, self.text, STEPS)
        self.begun = self.folder / "begun"
        self.run = self.folder / "run"
        self.begin()

    def begin(self):
        """A run that stops while it saves: the checkpoint is of one step, and the log goes on behind it."""
        done = subprocess.run(training.command(self.tool, self.begun, self.text, STEPS, False), capture_output=True, text=True,
                              env={**os.environ, "LD_PRELOAD": self.shim, "FAULT_UNDER": str(self.begun),
                                   "FAULT_CALL": "renameat", "FAULT_AT": "10", "FAULT_ERRNO": str(errno.EIO)})
        need(done.returncode == 1 and 5 < training.rows(self.begun).count("\n") < STEPS, f"not stopped in the middle: {done.stderr}")

    def go_on(self, faults=None, **more):
        environment = {**os.environ, **{name: str(value) for name, value in (faults or {}).items()}}
        if faults:
            environment["LD_PRELOAD"] = self.shim
            environment["FAULT_UNDER"] = str(self.run)
        return subprocess.run(training.command(self.tool, self.run, self.text, STEPS, True), capture_output=True, text=True,
                              timeout=120, env=environment, **more)

    def restore(self):
        shutil.rmtree(self.run, ignore_errors=True)
        shutil.copytree(self.begun, self.run)

    def judge(self, done, reason):
        """What a training that met a fault left. True if it failed."""
        training.need_whole(self.run / "checkpoint.safetensors")
        self.reference.need_prefix(self.run)
        need(done.returncode in (0, 1), f"the training ended with {done.returncode}: {done.stderr}")
        if done.returncode == 1:
            need(str(self.run) in done.stderr and reason in done.stderr, f"the message names no file or no reason: {done.stderr}")
            need(not training.temporaries(self.run), "a temporary file is left")
        return done.returncode == 1

    def end_well(self):
        done = self.go_on()
        need(done.returncode == 0, f"going on failed: {done.stderr}")
        self.reference.need_same(self.run)

    def each_call(self, call, code, stay, must_fail=True):
        """Fails one of the calls after the other, until the training makes no more."""
        report, tried, failed, at = self.folder / "report", 0, 0, 1
        while True:
            self.restore()
            report.unlink(missing_ok=True)
            done = self.go_on({"FAULT_CALL": call, "FAULT_AT": at, "FAULT_STAY": int(stay), "FAULT_ERRNO": code,
                               "FAULT_REPORT": report})
            if not report.exists():
                need(done.returncode == 0, f"without a fault: {done.stderr}")
                return tried, failed
            tried += 1
            failed += self.judge(done, os.strerror(code))
            # The first pwrite puts a name into the lock, for others to read: nothing depends on it.
            harmless = not must_fail or (call == "pwrite" and at == 1)
            need(done.returncode == 1 or harmless, f"{call} {at} failed, and the training did not say so")
            self.end_well()
            at += 1 if self.every or at < 4 else 7

    # ---- cases: each returns what it counted, in words ----

    def full_disk_at_each_call(self):
        counts = [self.each_call(call, errno.ENOSPC, True, call != "close") for call in DISK_CALLS]
        return f"{sum(c[0] for c in counts)} places where the disk is full from then on, {sum(c[1] for c in counts)} clear errors"

    def broken_disk_at_each_call(self):
        counts = [self.each_call(call, errno.EIO, False, call != "close") for call in DISK_CALLS]
        return f"{sum(c[0] for c in counts)} single calls fail with EIO, {sum(c[1] for c in counts)} clear errors"

    def small_file_system(self):
        """A real one, where the system lets us have it."""
        mounted, failed, tried = self.folder / "run", 0, 0
        for slack in range(0, 120, 12 if self.every else 24):
            shutil.rmtree(mounted, ignore_errors=True)
            mounted.mkdir()
            pages = sum(p.stat().st_size // 4096 + 1 for p in self.begun.iterdir()) + 2 + slack // 4
            command = ["mount", "-t", "tmpfs", "-o", f"size={pages * 4096}", "tmpfs", str(mounted)]
            if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
                return "skipped: no file system may be mounted here"
            try:
                shutil.copytree(self.begun, mounted, dirs_exist_ok=True)
                failed += self.judge(self.go_on(), "No space left on device")
                tried += 1
                subprocess.run(["mount", "-o", "remount,size=16m", str(mounted)], check=True)
                self.end_well()
            finally:
                subprocess.run(["umount", str(mounted)], check=True)
        need(failed > 0, "none of the file systems was too small")
        return f"{tried} file systems, {failed} of them too small"

    def limit_on_file_sizes(self):
        tried = failed = 0
        largest = (self.begun / "checkpoint.safetensors").stat().st_size + 8192
        for limit in range(0, largest, 2000 if self.every else 12000):
            self.restore()
            set_limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            failed += self.judge(self.go_on(preexec_fn=set_limit), "File too large")
            tried += 1
            self.end_well()
        need(failed > 0, "no limit was too small")
        return f"{tried} limits, {failed} of them too small"

    def interrupted_calls(self):
        for call in ("write", "pwrite", "fsync", "close", "openat", "ftruncate"):
            for every in (2, 3):
                self.restore()
                done = self.go_on({"FAULT_CALL": call, "FAULT_EVERY": every, "FAULT_ERRNO": errno.EINTR})
                need(done.returncode == 0, f"an interrupted {call} ended the training: {done.stderr}")
                self.reference.need_same(self.run)
        for microseconds in (50, 200, 1000):
            self.restore()
            done = self.go_on({"FAULT_TIMER": microseconds})
            need(done.returncode == 0, f"alarms ended the training: {done.stderr}")
            self.reference.need_same(self.run)
        return "12 kinds of calls, 3 storms of alarms, no failure"

    def interrupted_reads(self):
        """Of a checkpoint and a text, and of images, plain and packed by gzip."""
        folder, logs, interrupted = self.folder / "images", set(), 0
        folder.mkdir(exist_ok=True)
        names = write_images(folder)
        for every in (0, 2, 3, 7):
            for suffix in ("", ".gz"):
                shutil.rmtree(self.run, ignore_errors=True)
                report = self.folder / "report"
                report.unlink(missing_ok=True)
                files = [part for option, name in names for part in (option, str(folder / (name + suffix)))]
                done = subprocess.run([self.tool, "train", "--quiet", "--steps", "2", "--batch", "8", "--threads", "1", "--out",
                                       str(self.run), *files], capture_output=True, text=True, timeout=120,
                                      env={**os.environ, "LD_PRELOAD": self.shim, "FAULT_UNDER": str(folder), "FAULT_CALL": "pread",
                                           "FAULT_EVERY": str(every), "FAULT_AT": "0", "FAULT_ERRNO": str(errno.EINTR),
                                           "FAULT_REPORT": str(report)})
                need(done.returncode == 0, f"an interrupted read ended the training: {done.stderr}")
                interrupted += report.exists()
                logs.add(training.rows(self.run))
        need(len(logs) == 1 and interrupted == 6, "interrupted reads changed what was trained on")
        for every in (2, 3):
            self.restore()
            done = self.go_on({"FAULT_CALL": "pread", "FAULT_EVERY": every, "FAULT_ERRNO": errno.EINTR})
            need(done.returncode == 0, f"an interrupted read ended the training: {done.stderr}")
            self.reference.need_same(self.run)
        return "8 trainings whose reads are interrupted, no failure"

    def threads_that_cannot_be_made(self):
        """A model large enough for several threads gives the same log without them. Stays: none can be made from there on."""
        report, logs, tried, failed = self.folder / "report", set(), 0, 0
        settings = "--quiet --steps 2 --batch 16 --context 32 --dim 64 --heads 2 --layers 1 --sample 0 --threads 8".split()
        places = [(at, stay) for at in range(1, 8) for stay in (0, 1)] if self.every else [(1, 0), (1, 1), (2, 0), (3, 1), (7, 0)]
        for at, stay in [(0, 0), *places]:
            shutil.rmtree(self.run, ignore_errors=True)
            report.unlink(missing_ok=True)
            done = subprocess.run([self.tool, "train", *settings, "--out", str(self.run), str(self.text)], capture_output=True,
                                  text=True, timeout=120,
                                  env={**os.environ, "LD_PRELOAD": self.shim, "FAULT_CALL": "pthread_create",
                                       "FAULT_AT": str(at), "FAULT_STAY": str(stay if at else 0),
                                       "FAULT_REPORT": str(report), "FAULT_ERRNO": str(errno.EAGAIN)})
            need(done.returncode == 0, f"thread {at} could not be made, and the training ended: {done.stderr}")
            logs.add(training.rows(self.run))
            failed += report.exists()
            tried += 1
        need(failed == tried - 1, "some of the threads were never asked for")
        need(len(logs) == 1, "the log depends on the threads that could be made")
        return f"{tried} trainings, {failed} of them without a thread that was asked for while others work, all alike"

    def forks_of_a_busy_process(self):
        """By the test of them, which lies beside the shim."""
        test = pathlib.Path(self.shim).parent.parent / "unit" / "test_fork"
        if not test.exists():
            return f"skipped: there is no {test}"
        forks = 1000 if self.every else 100
        done = subprocess.run([test], capture_output=True, text=True, timeout=600, env={**os.environ, "FACULA_FORKS": str(forks)})
        need(done.returncode == 0, f"a child of a busy process: {done.stdout}{done.stderr}")
        return f"{forks} children of a process whose threads compute, none hung"

    def small_stacks(self):
        """64 KiB for every thread, the first too: arguments and environment lie there as well, and may take a quarter."""
        set_limit = lambda: resource.setrlimit(resource.RLIMIT_STACK, (64 << 10, 64 << 10))
        self.restore()
        done = subprocess.run(training.command(self.tool, self.run, self.text, STEPS, True), capture_output=True, text=True,
                              timeout=120, env={}, preexec_fn=set_limit)
        need(done.returncode == 0, f"the training ended with {done.returncode}: {done.stderr}")
        self.reference.need_same(self.run)
        for command in (["generate", self.run, "--tokens", "20"], ["inspect", self.run]):
            done = subprocess.run([self.tool, *map(str, command)], capture_output=True, timeout=120, env={},
                                  preexec_fn=set_limit)
            need(done.returncode == 0, f"{command[0]} ended with {done.returncode}: {done.stderr.decode()}")
        return "3 commands with 64 KiB: train, generate, inspect"


def write_images(folder):
    """IDX files, plain and packed: 64 images of 8 x 8 for training, 16 for the test, and their labels. The options with the names."""
    made = []
    for part, count in (("", 64), ("test-", 16)):
        images = bytes((i * i + 7 * i) % 256 for i in range(count * 64))
        for option, sizes, elements in (("images", (count, 8, 8), images), ("labels", (count,), bytes(i % 10 for i in range(count)))):
            raw = struct.pack(f">BBBB{len(sizes)}I", 0, 0, 8, len(sizes), *sizes) + elements
            (folder / (part + option)).write_bytes(raw)
            (folder / (part + option + ".gz")).write_bytes(gzip.compress(raw))
            made.append((f"--{part}{option}", part + option))
    return made


CASES = ("full_disk_at_each_call", "broken_disk_at_each_call", "small_file_system", "limit_on_file_sizes", "interrupted_calls",
         "interrupted_reads", "threads_that_cannot_be_made", "forks_of_a_busy_process", "small_stacks")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", action="store_true", help="every place where a call can fail")
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("tool")
    parser.add_argument("shim")
    options = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        faults = Faults(options, folder)
        for case in [options.only] if options.only else CASES:
            try:
                print(f"ok      {case}: {getattr(faults, case)()}", flush=True)
            except (Wrong, subprocess.TimeoutExpired) as problem:
                print(f"FAILED  {case}: {problem}", flush=True)
                failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
