#!/usr/bin/env python3
"""Applies CONTRIBUTING.md's walked-through operator, text by text, to a copy of the sources, generates, and compiles what
changed, with warnings as errors.

Usage: tutorial.py OPGEN BUILD. BUILD holds compile_commands.json.
"""
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NAME = "gaussian"
# Whatever reads a text that the walk adds: the generated code, the CPU's loops, CUDA's kernel and the table that finds it.
COMPILED = ("gen/ops_activation.c", "gen/ops_table.c", "src/backend/cuda/kernels/pointwise.cu", "src/backend/cuda/ops/pointwise.c",
            "src/backend/cpu/kernels/activation.isa.c")


def walk():
    """The two steps' texts: [(text, file)] in order, as CONTRIBUTING.md has them."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    text = text[text.index("## A new operator"):text.index("`make` now generates")]
    steps = re.split(r"^\d\. \*\*", text, flags=re.M)[1:]
    assert len(steps) == 2, f"CONTRIBUTING.md walks in {len(steps)} steps"
    block = r"```\w+\n(.*?)```"
    return [(re.sub(r"^   ", "", re.search(block, s, re.S)[1], flags=re.M), re.search(r"`(src/\S+)`", s)[1]) for s in steps]


def apply(texts, copy):
    for what, file in texts:
        with (copy / file).open("a") as f:
            f.write("\n" + what)


def generate(opgen, copy):
    schemas = sorted((copy / "src/ops/schema").glob("*.yaml"))
    formulas = [p for folder in ("autograd/formulas", "ops/composite", "ops/sparse", "ops/vendor", "ops", "ops/scalar")
                for p in sorted((copy / "src" / folder).glob("*.[ch]"))]
    headers = sorted(p for p in (ROOT / "include/facula").glob("*.h") if p.stem not in ("facula", "strict"))
    (copy / "gen/include/facula").mkdir(parents=True)
    subprocess.run([opgen, "-o", copy / "gen", *schemas, copy / "src/functions.yaml", *headers, *formulas], check=True)


def compile_all(build, copy):
    """Compiles COMPILED with the build's own flags; each file must be known to the build. Returns the object files."""
    commands = json.loads((build / "compile_commands.json").read_text())
    done, objects = set(), []
    for entry in commands:
        command = entry["command"].replace(f"{build}/gen", f"{copy}/gen").replace(f"{ROOT}/src", f"{copy}/src")
        source = next((s for s in COMPILED if f"{copy}/{s}" in command), None)
        flags = shlex.split(command)
        if not source or "FAC_ISA=avx2" in command or "FAC_ISA=avx512" in command:
            continue
        objects.append(copy / f"{len(objects)}.o")
        flags[flags.index("-o") + 1] = str(objects[-1])
        subprocess.run(flags + ["-O0", "-g0", "-Werror"], cwd=entry["directory"], check=True)
        done.add(source)
    missing = set(COMPILED) - done
    assert not missing, f"not compiled: {missing}"
    return objects


def check_bound(objects):
    """Each symbol of the operator that one object wants is defined by another, and the loops carry its name."""
    lines = subprocess.run(["nm", *objects], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    symbols = [line.split()[-2:] for line in lines if NAME in line]
    wanted = {name for kind, name in symbols if kind == "U"}
    defined = {name for kind, name in symbols if kind != "U"}
    assert wanted <= defined, f"nobody defines {wanted - defined}"
    assert f"fac__cuda_kernel_pointwise_{NAME}_f32" in wanted, "the table of CUDA's kernels does not name it"


def main():
    opgen, build = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    texts = walk()
    print("\n".join(f"{file}: {what.splitlines()[0]}" for what, file in texts))
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        shutil.copytree(ROOT / "src", copy / "src")
        apply(texts, copy)
        generate(opgen, copy)
        for form in (f"fac_{NAME}(", f"fac_{NAME}_(", f"fac_{NAME}_out("):
            assert form in (copy / "gen/include/facula/ops_decl.h").read_text(), f"{form} is not generated"
        check_bound(compile_all(build, copy))


if __name__ == "__main__":
    main()
