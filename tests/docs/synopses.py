#!/usr/bin/env python3
"""What the reference shows is C: every prototype agrees with the header's, every struct has its layout, every call compiles.

Usage: synopses.py API_JSON COMPILER [FLAG...]
"""
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "reference"))
import pages  # noqa: E402


def prototypes(all_pages):
    """Declares each function again, as shown. The header's is another type: an error."""
    for f in (f for p in all_pages for f in p.functions if f["kind"] != "inline"):
        yield f"#undef {f['name']}\n{pages.folded(pages.prototype(f))};"
    yield from (text for p in all_pages for text in p.inits)


def members(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for line in text.split("{", 1)[1].split("}")[0].split(";"):
        line = line.strip()
        if line and "(" not in line:
            yield from (re.search(r"(\w+)(\[\w+\])?$", part.strip())[1] for part in line.split(","))


SAME = """#define SAME(name, m)                                                                                    \\
    _Static_assert(offsetof(name, m) == offsetof(header_##name, m) &&                                                \\
                       __builtin_types_compatible_p(__typeof__(((name *)0)->m), __typeof__(((header_##name *)0)->m)), \\
                   #name "." #m)"""


def structs(all_pages):
    """Each shown struct in a function of its own, with the header's beside it under another name."""
    for name, text in (s for p in all_pages for s in p.structs if "struct" in s[1].split("{")[0] and "{" in s[1]):
        checks = "".join(f'    SAME({name}, {m});\n' for m in members(text))
        shown = re.sub(rf"\bstruct {name}\b", f"struct shown_{name}", text)
        yield (f"typedef {name} header_{name};\nstatic void layout_of_{name}(void) {{\n{shown}\n"
               f"    _Static_assert(sizeof({name}) == sizeof(header_{name}), \"{name}\");\n{checks}}}")


def calls(all_pages):
    number = 0
    for page in all_pages:
        for f in page.functions:
            number += 1
            parameters = ", ".join(pages.declare(p["type"], p["name"]) for p in f["parameters"] if p["name"] != "kw" or
                                   "keyword_struct" not in f)
            yield f"void call_{number}({parameters or 'void'}) {{\n    {pages.folded(pages.call(f))}\n}}"


def compiles(command, what, parts, before=""):
    with tempfile.NamedTemporaryFile("w", suffix=".c", prefix=f"{what}_") as file:
        file.write("#include <facula/facula.h>\n" + before + "\n".join(parts) + "\n")
        file.flush()
        done = subprocess.run(command + ["-fsyntax-only", file.name], stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0, f"{what}:\n{done.stderr[:4000]}"
    print(f"{len(parts)} {what}")


def main():
    _, all_pages = pages.load(sys.argv[1])
    command = sys.argv[2:] + ["-std=c11", "-w"]
    compiles(command, "calls", list(calls(all_pages)))
    compiles(command, "prototypes", list(prototypes(all_pages)))
    compiles(command, "structs", list(structs(all_pages)), SAME + "\n")


main()
