#!/usr/bin/env python3
"""What a selective build exports. A list names it, one name a line: an operator with all its overloads and forms ("add", or as in
C "fac_add"), one overload ("add.Tensor", or as linkers call it "fac_add_tensor_"), a function, or a pattern of functions
("fac_module_*"). `#` begins a comment. What every program needs (errors, scopes, tensors, gradients) is always there.

    exports.py check LIST SOURCE            says which names do not exist, when the build is configured
    exports.py map LIST SOURCE NAMES OUT    writes the linker's version script; NAMES is the generator's ops_names.txt"""

import fnmatch
import pathlib
import re
import sys

ALWAYS = ("base.h", "types.h", "tensor.h", "autograd.h")


def wanted(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        name = line.split("#")[0].strip()
        if name:
            yield number, name


def public_functions(source):
    """The functions of each header that is written by hand."""
    functions = {}
    for path in (source / "include/facula").glob("*.h"):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        functions[path.name] = set(re.findall(r"\b(?:FAC_API|FAC_INLINE_)\b[^;(]*?\b(fac_\w+)\s*\(", text))
    return functions


def entries(source):
    """The operators as their files declare them, "add.Tensor", but for the internal ones, and what their forms may be called in C."""
    symbols = {}
    for path in (source / "src/ops/schema").glob("*.yaml"):
        for entry in re.split(r"^- ", path.read_text(), flags=re.M):
            name = re.match(r"op:\s*([\w.]+)\(", entry)
            if name and not re.search(r"^  internal: true", entry, flags=re.M):
                given = re.search(r"^  c: (\w+)", entry, flags=re.M)
                base, _, overload = name[1].partition(".")
                parts = [base.removesuffix("_"), *([overload.lower()] if overload else [])]
                c = "fac_" + (given[1] if given else "_".join(parts))
                symbols.setdefault(name[1], set()).update((c, c + "_", c + "_out"))
    return symbols


def operators(symbols, wish):
    """The entries that a line of the list means. In C an operator has a prefix, and a form "_" or "_out" at its end."""
    name = wish.removeprefix("fac_")
    for spelling in (name, name.removesuffix("_"), name.removesuffix("_out")):
        found = [entry for entry in symbols if spelling in (entry, entry.split(".")[0])]
        if found:
            return found
    return [entry for entry, functions in symbols.items() if wish in functions]


def check(list_file, functions, symbols):
    known = True
    for number, wish in wanted(list_file):
        if not fnmatch.filter(functions, wish) and not operators(symbols, wish):
            print(f"{list_file}:{number}: there is no operator or function '{wish}'", file=sys.stderr)
            known = False
    return known


def select(list_file, functions, symbols):
    selected = set()
    for _, wish in wanted(list_file):
        selected.update(fnmatch.filter(functions, wish))
        for name in operators(symbols, wish):
            selected |= symbols[name]
    return selected


def symbols_of(names_file):
    symbols = {}
    for line in names_file.read_text().splitlines():
        entry, *functions = line.split()
        symbols.setdefault(entry, set()).update(functions)
    return symbols


def main(command, list_file, source, names_file=None, out=None):
    source, list_file = pathlib.Path(source), pathlib.Path(list_file)
    headers = public_functions(source)
    functions = set().union(*headers.values())
    symbols = symbols_of(pathlib.Path(names_file)) if command == "map" else entries(source)
    if not check(list_file, functions, symbols):
        return 1
    if command == "check":
        return 0
    selected = select(list_file, functions, symbols).union(*(headers[name] for name in ALWAYS))
    version = (source / "cmake/facula.map").read_text().split()[0]
    lines = "".join(f"        {name};\n" for name in sorted(selected))
    pathlib.Path(out).write_text(f"{version} {{\n    global:\n{lines}    local:\n        *;\n}};\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
