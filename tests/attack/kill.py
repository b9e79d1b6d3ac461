#!/usr/bin/env python3
"""Kills trainings at random moments, many of them while they save, and lets them go on.

Usage: kill.py [--runs N] [--pid1] [--seed N] FACULA

Every folder sees one to eight kills before a training ends in it. After each kill: the checkpoint is whole by a checksum
computed here, every row that was ever seen in the log is still there, and the log is the beginning of an undisturbed run's.
After the training that ends: checkpoint and log equal the undisturbed run's byte for byte, and no other file is left.
With --pid1 each training is process 1 of a namespace of its own, as in a container: all have the same number.
Ends with 1 if anything was wrong, with 77 if there can be no namespace here.
"""
import argparse
import collections
import ctypes
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import training
from training import Wrong, need

STEPS = 90
SKIPPED = 77


CLONE_NEWUSER, CLONE_NEWPID, PR_SET_PDEATHSIG = 0x10000000, 0x20000000, 1
LIBC = ctypes.CDLL(None, use_errno=True)


def as_first_process(flags):
    """What a process does before it becomes another program, so that this is process 1 of a new namespace: its child goes on,
    and it waits for the child and ends as that did."""
    def prepare():
        if LIBC.unshare(flags) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        child = os.fork()
        if child == 0:
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            return
        os.closerange(3, 1 << 12)  # through one of these the program that starts us is told that we have begun
        _, status = os.waitpid(child, 0)
        os._exit(137 if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
    return prepare


def find_namespace():
    """Flags with which a process may become the first of a namespace; None where the system does not allow it."""
    for flags in (CLONE_NEWPID, CLONE_NEWUSER | CLONE_NEWPID):
        try:
            done = subprocess.run(["sh", "-c", "echo $$"], preexec_fn=as_first_process(flags), capture_output=True, text=True,
                                  timeout=30)
        except (OSError, subprocess.SubprocessError):
            continue
        if done.returncode == 0 and done.stdout.strip() == "1":
            return flags
    return None


class Process:
    """A training; with a namespace, the child of the process that was started."""

    def __init__(self, arguments, namespace):
        self.is_child = bool(namespace)
        self.started = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        preexec_fn=as_first_process(namespace) if namespace else None)

    def kill(self):
        """Kills the training itself. True if it was still running."""
        if not self.is_child:
            self.started.kill()
        else:
            for pid in self.children():
                os.kill(pid, signal.SIGKILL)
        _, self.errors = self.started.communicate()
        return self.started.returncode in (-signal.SIGKILL, 137)

    def children(self):
        try:
            return [int(n) for n in pathlib.Path(f"/proc/{self.started.pid}/task/{self.started.pid}/children").read_text().split()]
        except OSError:
            return []


class Attack:
    def __init__(self, tool, folder, namespace, generator):
        self.tool, self.folder, self.namespace, self.random = tool, pathlib.Path(folder), namespace, generator
        self.text = training.write_text(folder)
        self.reference = training.Reference(tool, folder, self.text, STEPS)
        self.count = collections.Counter()

    def start(self, run):
        began = (run / "checkpoint.safetensors").exists()
        self.count["resumed" if began else "begun"] += 1
        return Process(training.command(self.tool, run, self.text, STEPS, began), self.namespace)

    def wait_for_moment(self, process, run):
        """Somewhere in the run; every second time, on from there to the next moment at which something is being saved."""
        time.sleep(self.random.uniform(0, self.reference.seconds))
        while self.random.random() < 0.9995 and process.started.poll() is None and self.count["kills"] % 2:
            if training.temporaries(run):
                break

    def kill_once(self, run):
        """False if the training ended before."""
        process = self.start(run)
        self.wait_for_moment(process, run)
        seen = training.rows(run)
        if not process.kill():
            need(process.started.returncode == 0, f"a training failed: {process.started.returncode}: {process.errors}")
            return False
        self.count["kills"] += 1
        self.count["while saving"] += bool(training.temporaries(run))
        self.judge(run, seen)
        return True

    def judge(self, run, seen):
        kept = training.rows(run)
        self.count["rows seen"] += seen.count("\n")
        need(kept.startswith(seen), f"rows of {run}/log.tsv were lost")
        self.reference.need_prefix(run)
        if (run / "checkpoint.safetensors").exists():
            training.need_whole(run / "checkpoint.safetensors")
        else:
            self.count["before the first checkpoint"] += 1
            need(not kept, f"{run}/log.tsv has rows, and there is no checkpoint to go on from")

    def one_folder(self, kills):
        run = self.folder / "run"
        kept = ""
        while kills > 0 and self.kill_once(run):
            kills -= 1
            now = training.rows(run)
            need(now.startswith(kept), f"rows of {run}/log.tsv were lost by going on")
            kept = now
        done = self.start(run).started
        _, errors = done.communicate(timeout=120)
        need(done.returncode == 0, f"going on ended with {done.returncode}: {errors}")
        need(training.rows(run).startswith(kept), f"rows of {run}/log.tsv were lost by going on")
        self.reference.need_same(run)
        self.count["ended as the undisturbed run"] += 1
        shutil.rmtree(run)

    def run(self, kills):
        shown = time.monotonic()
        while self.count["kills"] < kills:
            self.one_folder(min(self.random.randint(1, 8), kills - self.count["kills"]))
            if time.monotonic() - shown > 10:
                print(f"... {self.count['kills']} kills", flush=True)
                shown = time.monotonic()


def report(count, seed):
    print(f"{count['kills']} kills ({count['while saving']} while saving, {count['before the first checkpoint']} before the first "
          f"checkpoint), seed {seed}: {count['resumed']} trainings went on, {count['begun']} began, "
          f"{count['ended as the undisturbed run']} ended byte for byte as the undisturbed run; "
          f"{count['rows seen']} rows seen before kills, 0 lost; 0 damaged checkpoints; 0 stray files", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500, help="kills (500)")
    parser.add_argument("--pid1", action="store_true", help="each training as process 1 of its own namespace")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("tool")
    options = parser.parse_args()
    namespace = find_namespace() if options.pid1 else 0
    if namespace is None:
        print("skipped: neither root nor user namespaces may make a process namespace here")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        attack = Attack(os.path.abspath(options.tool), folder, namespace, random.Random(options.seed))
        try:
            attack.run(options.runs)
        except Wrong as problem:
            print(f"FAILED after {attack.count['kills']} kills (seed {options.seed}): {problem}")
            return 1
        report(attack.count, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
