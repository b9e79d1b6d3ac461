#!/usr/bin/env python3
"""Each row of a whole model runs once, and PyTorch's row of the same name has a model of as many parameters.

Usage: bench_models.py PROGRAM [PYTHON]: bench, and a Python that may have PyTorch. Without PyTorch the comparison is left out."""
import pathlib
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
LEAST = 42  # 10 models for training and inference, and one more for inference, in f32 and bf16


def lines_of(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    return done.returncode, [line.split("\t") for line in done.stdout.splitlines()]


def main():
    program = sys.argv[1]
    failed, ran = lines_of(program, "--once", "models")
    listed = [line[1] for line in lines_of(program, "--list")[1] if line[0] == "models"]
    assert not failed, "a row failed: see above"
    assert [row for row, _, _ in ran] == listed and len(listed) >= LEAST, listed
    wrong = [row for row, parameters, finite in ran if int(parameters) < 1 or finite != "finite"]
    assert not wrong, wrong
    kinds = {tuple(row.split()[-2:]) for row in listed}
    assert kinds == {(kind, dtype) for kind in ("train", "infer") for dtype in ("f32", "bf16")}, kinds
    python = sys.argv[2] if len(sys.argv) > 2 else sys.executable
    if lines_of(python, "-c", "import torch")[0]:
        print("no PyTorch to compare with: the rows ran")
        return
    failed, theirs = lines_of(python, "-B", str(BENCH / "torch_rows.py"), "--parameters")
    assert not failed, "torch_rows.py --parameters failed"
    ours = [(row, parameters) for row, parameters, _ in ran]
    different = set(ours) ^ {tuple(line) for line in theirs}
    assert not different, f"the sides have different rows or models: {sorted(different)}"


main()
