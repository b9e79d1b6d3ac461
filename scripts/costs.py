#!/usr/bin/env python3
"""What adding costs: in how many files the tree names one thing of each kind. Each stands for the next of its kind.

Prints the counts and ends with 1 if one is higher than promised."""
import argparse
import pathlib
import subprocess
import sys

# What is added; the words that name an example of it; where they are looked for; how many files at most.
KINDS = (
    ("a pointwise operator: hardsigmoid", r"\bhardsigmoid(_kernel)?\b", ("src", "tools", ":!src/nn"), 2),
    ("an operator made of others: kron", r"\bkron(_composite)?\b", ("src", "tools"), 2),
    ("an operator with a kernel of its own, on two kinds of devices: tril", r"\btriangle(_meta)?\(|KERNEL\(triangle|op: tril\(",
     ("src", "tools"), 5),
    ("a long gradient: GELU's second", r"\bgelu_double_grad\b", ("src", "tools"), 2),
    ("a layer with a keyword: GELU", r"\bGELU$|gelu_(new|class)\b", ("src", "tools", "include"), 1),
    ("a layer with parameters: PReLU", r"\bPReLU$|build_prelu\b", ("src", "tools", "include"), 3),
    ("an optimiser: SGD, its step apart", r"sgd_(new|class)\b", ("src", "tools", "include"), 3),
    ("an optimiser's fused step, on two kinds of devices: SGD", r"sgd", ("src/backend", "src/ops", "tools", ":!*.md"), 7),
    ("a dtype: bfloat16", r"\bFAC_BF16\b", ("src", "tools", "include"), 37),
    ("a kind of device in a program: npu", r"\bnpu\b", ("src", "tools"), 0),
    ("a kind of device in the library: CUDA, outside its folders", r"\bFAC_CUDA\b|\bfac__cuda_|backend/cuda/",
     ("src", ":!src/backend/cuda", ":!src/simcuda", ":!src/cuda_abi", ":!*.md"), 6),
    ("a public function with a keyword: fac_clip_grad_norm", r"\b(fac_)?clip_grad_norm\b", ("src", "tools", "include"), 3),
)


def files(root, words, where, commit):
    run = subprocess.run(["git", "grep", "-lP", *([] if commit else ["--untracked"]), words, *commit, "--", *where], cwd=root,
                         capture_output=True, text=True)
    if run.returncode > 1:
        sys.exit(run.stderr)
    return run.stdout.split()


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", nargs="?", help="count in it; without one, in the tree as it is")
    parser.add_argument("--files", action="store_true", help="list the files too")
    options = parser.parse_args()
    failed = False
    for name, words, where, most in KINDS:
        found = files(root, words, where, [options.commit] if options.commit else [])
        failed |= len(found) > most
        print(f"{len(found):3} {name}" + (f": more than the {most} that were promised" if len(found) > most else ""))
        if options.files:
            print("".join(f"      {f}\n" for f in found), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
