#!/usr/bin/env python3
"""What a selective build exports. A list names it, one name a line: an operator with all its overloads and forms ("add", or as in
C "fac_add"), one overload ("add.Tensor", or as linkers call it "fac_add_tensor_"), a function, or a pattern of functions
("fac_module_*"). `#` begins a comment. What every program needs (errors, scopes, tensors, gradients) is always there.

    exports.py check LIST SOURCE [--without-cuda]
            says, when the build is configured, which names do not exist, or are CUDA's where that is left out
    exports.py map LIST SOURCE NAMES OUT [--without-cuda]
            writes the linker's version script; NAMES is the generator's ops_names.txt"""

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


def modules(source):
    """The constructors that src/nn/modules.yaml describes, of which some stand for several numbers of dimensions."""
    for entry in re.split(r"^- (?=module:)", (source / "src/nn/modules.yaml").read_text(), flags=re.M)[1:]:
        name = re.search(r"^  new: ([\w#]+)\(", entry, flags=re.M)[1]
        dims = re.search(r"^  dims: ([\d ]+)$", entry, flags=re.M)
        yield from (f"fac_{name.replace('#', d)}_new" for d in (dims[1].split() if dims else [""]))


def public_functions(source):
    """The functions of each header: of those written by hand, and of modules. Those of CUDA have headers of their own, cuda*.h."""
    functions = {}
    for path in (source / "include/facula").glob("*.h"):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        functions[path.name] = set(re.findall(r"\b(?:FAC_API|FAC_INLINE_)\b[^;(]*?\b(fac_\w+)\s*\(", text))
    functions["modules.h"] = set(modules(source))
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


def check(list_file, functions, symbols, left_out):
    """`left_out`: functions that the build has not. A pattern may match some of them; it means the others."""
    known = True
    for number, wish in wanted(list_file):
        missing = fnmatch.filter(left_out, wish)
        if fnmatch.filter(functions, wish) or operators(symbols, wish):
            if missing:
                print(f"{list_file}:{number}: CUDA is left out, and with it {len(missing)} of what '{wish}' matches")
            continue
        problem = (f"'{wish}' is a part of CUDA, which this build leaves out: configure with -DFACULA_CUDA=ON" if missing
                   else f"there is no operator or function '{wish}'")
        print(f"{list_file}:{number}: {problem}", file=sys.stderr)
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


def main(command, list_file, source, *more):
    without_cuda = "--without-cuda" in more
    names_file, out, *_ = [*(argument for argument in more if argument != "--without-cuda"), None, None]
    source, list_file = pathlib.Path(source), pathlib.Path(list_file)
    headers = public_functions(source)
    left_out = set().union(*(headers[name] for name in headers if without_cuda and name.startswith("cuda")))
    functions = set().union(*headers.values()) - left_out
    symbols = symbols_of(pathlib.Path(names_file)) if command == "map" else entries(source)
    if not check(list_file, functions, symbols, left_out):
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
