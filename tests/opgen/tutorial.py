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
# Whatever reads a text that the walk adds: the generated code, the CPU's loops, CUDA's kernel, the surface kernel.
COMPILED = ("gen/ops_activation.c", "gen/ops_table.c", "src/backend/surface/unary.c", "src/backend/cuda/kernels/pointwise.cu",
            "src/backend/cpu/kernels/activation.isa.c")


def walk():
    """The four steps' texts: [(what, file)] in order, as CONTRIBUTING.md has them."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    text = text[text.index("## A new operator"):text.index("`make` now generates")]
    steps = re.split(r"^\d\. \*\*", text, flags=re.M)[1:]
    assert len(steps) == 4, f"CONTRIBUTING.md walks in {len(steps)} steps"
    texts = []
    for step in steps[:2]:
        block = re.search(r"```\w+\n(.*?)```", step, re.S)[1]
        texts.append((re.sub(r"^   ", "", block, flags=re.M), re.search(r"`(src/\S+)`", step)[1]))
    for step in steps[2:]:
        waiting = []
        for found in re.findall(r"`([^`]+)`", step):
            if found.startswith("src/"):
                texts += [(what, found) for what in waiting]
                waiting = []
            elif f"({NAME})" in found or re.fullmatch(r"[A-Z]\w+", found):
                waiting.append(found)
        assert not waiting, f"CONTRIBUTING.md does not say where {waiting} goes"
    return texts


def apply(texts, copy):
    """Puts each text where the walk says; a bare name of a list says that the next X(...) belongs into it."""
    lists = {}
    for what, file in texts:
        if re.fullmatch(r"[A-Z]\w+", what):
            lists[file] = what
    for what, file in texts:
        path = copy / file
        content = path.read_text()
        if file.endswith((".yaml", "scalar/activation.h")):
            content += "\n" + what
        elif what in lists.values():
            continue
        elif what.startswith("X("):
            head = f"#define {lists[file]}(X) "
            assert head in content, f"{file} has no list {lists[file]}"
            content = content.replace(head, f"{head}{what} ")
        else:  # beside what the file has of the kind: a line of its own, or one more entry of a list
            of_kind = re.escape(what.split("(")[0]) + r"\(\w+\)"
            found = re.search(rf"^( *){of_kind}([,;]?)", content, re.M)
            assert found, f"{file} has nothing like {what}"
            addition = f"{found[1]}{what};\n" if found[2] else f"{what}\n"
            content = content[:found.start()] + addition + content[found.start():]
        path.write_text(content)


def generate(opgen, copy):
    schemas = sorted((copy / "src/ops/schema").glob("*.yaml"))
    formulas = [p for folder in ("autograd/formulas", "ops/composite", "ops")
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
    assert f"{NAME}_kernel" in wanted, "the table does not name the surface kernel"


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
