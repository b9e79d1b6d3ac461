#!/usr/bin/env python3
"""The rooms of the house, who may include whom, and their drawing.

Checks includes, and that the drawing is what they say. Prints one line per finding and ends with 1 if there is one."""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys

# From the floor up: each room, and which of the rooms before it its files may include.
ROOMS = {
    "base": "",
    "cuda_abi": "",
    "core": "base",
    "jit": "base core",
    "dispatch": "base core",
    "iter": "core",
    "ops": "core dispatch iter",
    "simcuda": "cuda_abi",
    "autograd": "base core dispatch ops",
    "backend/cpu": "base core iter ops",
    "backend/pointwise": "core ops backend/cpu",
    "backend/cuda/driver": "base cuda_abi",
    "backend/cuda/kernels": "core ops simcuda",
    "backend/cuda/runtime": "base core dispatch jit backend/cuda/driver backend/cuda/kernels",
    "backend/cuda/ops": "core iter ops backend/cuda/kernels backend/cuda/runtime",
    "exchange": "base core ops autograd",
    "io": "base core",
    "data": "base core ops",
    "nn": "core ops autograd io",
    "optim": "base core ops autograd nn",
    "func": "base core dispatch ops autograd nn",
    "amp": "base core dispatch ops autograd nn optim",
    "start": "base core dispatch ops autograd amp backend/cpu backend/cuda/runtime backend/cuda/ops",
    "tools/opgen": "dispatch",
}
# The room that a public header speaks for. All others declare what every room may use: values, tensors, devices, operators.
HEADERS = {"cuda": "backend/cuda/runtime", "cuda_memory": "backend/cuda/runtime", "cuda_race": "backend/cuda/runtime", "nn": "nn",
           "optim": "optim", "data": "data", "dataset": "data", "image": "data", "metrics": "data", "io": "io", "files": "io",
           "amp": "amp", "dlpack": "exchange", "facula": "start"}
# The room that a generated header speaks for: the lowest that includes it.
GENERATED = {"ops_gen.h": "ops", "loops_gen.h": "ops", "ops_unread.h": "ops", "keywords_gen.h": "core",
             "modules_gen.h": "nn"}
# Headers of a room that others may include, where the rest is its own; generated code, which is in no room, may include all.
FRONT = {"autograd": "func hook_list init leaf"}
# What is called upwards all the same, by name and at link time.
UPWARDS = {"fac_init": "whatever is called first starts the library",
           "fac__fail": "failing: the library's or the generator's own", "fac_error": "as fac__fail"}
INCLUDE = re.compile(r'^\s*#\s*include(?:_next)?\s*[<"]([^">]+)[">]')
ORDER = list(ROOMS)


def below(room):
    """All rooms that a room rests on."""
    found = set()
    for other in ROOMS[room].split():
        found |= {other} | below(other)
    return found


def room_of(parts):
    """The room of a path below src/, or of one that begins with tools/; None if it is in none."""
    return next((room for n in (3, 2, 1) for room in ["/".join(parts[:n])] if len(parts) > n and room in ROOMS), None)


def room_of_include(text):
    parts = text.split("/")
    if parts[0] == "facula":
        return HEADERS.get(parts[-1].rsplit(".", 1)[0])
    return GENERATED.get(text) or room_of(parts)


def sources(root):
    for path in sorted([*(root / "src").rglob("*"), *(root / "tools/opgen").rglob("*")]):
        if path.suffix in (".c", ".h", ".cu") and path.is_file():
            parts = path.relative_to(root).parts
            yield path, room_of(parts[1:] if parts[0] == "src" else parts)


def resolved(root, path, text):
    """What a file includes, from the folder that the compiler finds it in: "core/tensor.h", "facula/tensor.h"."""
    beside = pathlib.Path(os.path.normpath(path.parent / text))
    if not text.startswith("..") and not beside.exists():
        return os.path.normpath(text)
    folders = (root / "src", root / "include", root)
    return next((beside.relative_to(folder).as_posix() for folder in folders if folder in beside.parents), text)


def includes(root, path):
    """What a file includes, with the line's number."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, resolved(root, path, match[1])


def check_includes(root):
    for room in ROOMS:
        for other in ROOMS[room].split():
            if ORDER.index(other) >= ORDER.index(room):
                yield root / "scripts/house.py", 1, f"{room} stands before {other}, which it may include"
        if room.startswith("backend/cuda") and "backend/cpu" in below(room):
            yield root / "scripts/house.py", 1, f"{room} may see the CPU's headers through another room's"
    for path, room in sources(root):
        if room is None:
            yield path, 1, "the folder is not a known room: add it to scripts/house.py"
            continue
        for number, text in includes(root, path):
            other = room_of_include(text)
            if other and other != room and other not in ROOMS[room].split():
                yield path, number, f"{room} includes {text}: scripts/house.py lists what a room may include"
            elif other in FRONT and other != room and text.rsplit("/")[-1][:-2] not in FRONT[other].split():
                yield path, number, f"{room} includes {text}, which is {other}'s own: scripts/house.py lists what is for others"


# Prefixes of what headers define, besides fac: two rooms are libraries of their own, one has the driver's names, and device code has
# a dialect, which its README lists.
PREFIXES = {"simcuda": "sim", "cuda_abi": "cu", "backend/cuda/kernels": "k"}
DIALECT = {f"backend/cuda/kernels/{name}.h" for name in ("kernel", "kernel_host")}  # the device's own names, and C's where it has none
NAME = re.compile(r"^[A-Za-z][\w *]*?\b(?!__attribute__|_Atomic)(\w+)\(|^#\s*define (\w+)|^\} (\w+);|^typedef [^({]*\b(\w+);", re.M)
WRITTEN = re.compile(r'#include \\"([\w/]+\.h)\\"')


def reached(root, path, headers, found):
    """All headers that a file includes, directly or by others."""
    for _, text in includes(root, path):
        if text in headers and text not in found:
            found.add(text)
            reached(root, headers[text], headers, found)
    return found


def check_names(root):
    """What a header declares that files of other folders see, or generated ones, has a prefix. Headers of one folder may be brief."""
    headers = {path.relative_to(root / "src").as_posix(): path for path in sorted((root / "src").rglob("*.h"))}
    shared = {text for path in (root / "tools/opgen").glob("*.c") for text in WRITTEN.findall(path.read_text())} & set(headers)
    for path, _ in sources(root):
        shared |= {text for text in reached(root, path, headers, set()) if headers[text].parent != path.parent}
    for text in sorted(shared - DIALECT):
        prefix = re.compile(rf"_*({PREFIXES.get(room_of(text.split('/')), 'fac')}|fac)", re.I)
        code = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", "", m[0]), headers[text].read_text(), flags=re.S)
        for match in NAME.finditer(code):
            name = next(filter(None, match.groups()))
            if not prefix.match(name):
                yield headers[text], code.count("\n", 0, match.start()) + 1, f"{name} is seen in other folders, but has no prefix"


def edges(root):
    """For each room, the rooms below it that its files include."""
    found = {room: set() for room in ROOMS}
    for path, room in sources(root):
        for _, text in includes(root, path):
            other = room_of_include(text)
            if room and other and ORDER.index(other) < ORDER.index(room):
                found[room].add(other)
    return found


def thinned(graph):
    """The edges that no longer way replaces."""
    def reach(room):
        return set().union(*({o} | reach(o) for o in graph[room]))
    return [(room, o) for room in graph for o in sorted(graph[room], key=ORDER.index)
            if not any(o in reach(via) for via in graph[room] if via != o)]


def count_lines(root):
    lines = collections.Counter()
    for path, room in sources(root):
        lines[room] += len(path.read_text().splitlines())
    return lines


def drawing(root):
    graph, lines = edges(root), count_lines(root)
    text = ["// Made by scripts/house.py --draw from the includes: a room stands on those that arrows lead to. Arrows that a longer way",
            "// replaces are left out.", "digraph house {", '    graph [rankdir=BT, nodesep=0.25, ranksep=0.35, bgcolor="transparent"];',
            '    node [shape=box, style="rounded,filled", fillcolor="#f4f1ea", color="#7a7266", fontname="Helvetica", fontsize=11];',
            '    edge [dir=back, arrowtail=vee, arrowsize=0.6, color="#7a7266"];']
    for room in ORDER:
        text.append(f'    "{room}" [label="{room}\\n{round(lines[room], -2):,} lines"];')
    text += [f'    "{low}" -> "{high}";' for high, low in thinned(graph)]
    return "\n".join([*text, "}", ""])


LINES = re.compile(r"\\n([\d,]+) lines")


def check_drawing(root):
    """Exact but for the numbers of lines, which may be a tenth off."""
    path = root / "docs/house.dot"
    drawn, now = path.read_text() if path.exists() else "", drawing(root)
    sizes = [[int(n.replace(",", "")) for n in LINES.findall(text)] for text in (drawn, now)]
    same = LINES.sub("", drawn) == LINES.sub("", now) and all(abs(a - b) <= max(200, b / 10) for a, b in zip(*sizes))
    if not same:
        yield path, 1, "the drawing is not what the includes say: scripts/house.py --draw"


def draw(root):
    (root / "docs/house.dot").write_text(drawing(root))
    svg = subprocess.run(["dot", "-Tsvg", root / "docs/house.dot"], capture_output=True, text=True, check=True).stdout
    (root / "docs/house.svg").write_text(re.sub(r"<!-- Generated by.*?-->\n", "", svg, flags=re.S))


def room_of_object(name):
    """Objects of generated code are in no room: they bind operators to kernels and gradients, and so know all."""
    return room_of(pathlib.PurePath(re.sub(r".*\.dir/", "", name)).parts[1:])


def objects_findings(root, names):
    defined, used = {}, collections.defaultdict(set)
    listing = subprocess.run(["nm", "-A", "-P", *names], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        obj, symbol, kind = line.split()[:3]
        room = room_of_object(obj.rstrip(":"))
        if room and kind == "U":
            used[room].add((symbol, obj))
        elif room and kind.isupper():
            defined[symbol] = room
    for room, symbols in used.items():
        for symbol, obj in sorted(symbols):
            other = defined.get(symbol, room)
            if other != room and other not in below(room) and symbol not in UPWARDS:
                yield pathlib.Path(obj.rstrip(":")).name, 0, f"{room} uses {symbol} of {other}, which is not below it"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--draw", action="store_true", help="write docs/house.dot, and docs/house.svg with Graphviz")
    instead.add_argument("--objects", metavar="FILE", type=pathlib.Path,
                         help="check the symbols of built objects, whose names FILE holds (objects.rsp of a build folder): a room uses "
                              "nothing that is defined above it, declared or not")
    options = parser.parse_args()
    if options.draw:
        return draw(root)
    if options.objects:
        found = objects_findings(root, options.objects.read_text().split())
    else:
        found = [*check_includes(root), *check_names(root), *check_drawing(root)]
    errors = [f"{path}:{number}: {message}" for path, number, message in found]
    print("\n".join(errors), end="\n" if errors else "")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
