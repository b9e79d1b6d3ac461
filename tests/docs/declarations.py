#!/usr/bin/env python3
"""Every exported function, and every type, enumerator, macro and inline function of the public headers, has a man page,
and each page a name and a summary.

Usage: declarations.py MAN_DIR LIBRARY HEADER_DIR... The names come from the library and from the preprocessor's view of the
headers, not from the list that the pages are written from.
"""
import pathlib
import re
import subprocess
import sys

COMMENT = re.compile(r"/\*.*?\*/", re.S)
DIRECTIVE = re.compile(r"^#(?:.*\\\n)*.*$", re.M)
ENUM = re.compile(r"\benum\b[^{;]*\{([^}]*)\}")
TYPEDEF = re.compile(r"^(?:typedef\b[^;{]*|typedef\b[^{]*\{.*?^\}[^;]*|typedef enum[^{]*\{[^}]*\}[^;]*);", re.M | re.S)
INLINE = re.compile(r"^FAC_INLINE_\b[^(]*?(\w+)\(", re.M)
NAMED = re.compile(r"^\.SH NAME\n\w+(?:, \w+)* \\- \S.*\n\.SH ", re.M)
DEFINE = re.compile(r"^#define (\w+)", re.M)


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE, check=True, text=True).stdout
    return {line.split()[2].split("@")[0] for line in lines.splitlines() if line.split()[1] == "T"}


def typedef_name(text):
    callback = re.search(r"\(\*(\w+)\)\s*\(", text) if "{" not in text else None
    return callback[1] if callback else re.search(r"(\w+)\s*;$", text)[1]


def declared(text):
    """Names that a header declares, but for functions, which the library tells."""
    bare = COMMENT.sub("", text)
    yield from DEFINE.findall(bare)
    code = DIRECTIVE.sub("", bare)
    for body in ENUM.findall(code):
        yield from re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", body.strip())
    for match in TYPEDEF.finditer(code):
        yield typedef_name(match[0])
    yield from INLINE.findall(code)


def is_own(name):
    """The headers' own: guards, defaults of keywords, and what their macros are made of."""
    return name.endswith(("_", "_H")) or name.startswith(("FAC_DEFAULTS_", "FAC_KW_", "FAC_AT_")) and name != "FAC_KW_HEAD"


def shows(folder, name, seen=()):
    """Whether the page under a name, or the one it leads to, holds the name."""
    path = folder / f"{name}.3"
    if not path.exists():
        return False
    text = path.read_text()
    if text.startswith(".so "):
        target = folder / pathlib.Path(text.split()[1]).name
        return target != path and target.exists() and name in target.read_text()
    return re.search(rf"\b{name}\b", text) is not None


def main():
    folder, library = pathlib.Path(sys.argv[1]), sys.argv[2]
    names = exported(library)
    for header in (h for d in sys.argv[3:] for h in sorted(pathlib.Path(d).glob("*.h"))):
        if not header.stem.endswith("_macros"):
            names |= {n for n in declared(header.read_text()) if not is_own(n)}
    generated = {n for d in sys.argv[3:] for h in pathlib.Path(d).glob("*_macros.h") for n in DEFINE.findall(h.read_text())}
    names |= {n for n in generated if n.startswith("fac_") and not is_own(n)}
    unnamed = sorted(p.name for p in folder.glob("*.3") if not p.read_text().startswith(".so ") and not NAMED.search(p.read_text()))
    assert not unnamed, f"pages whose NAME is not names and a summary, which an index of pages needs: {unnamed}"
    missing = sorted(n for n in names if not shows(folder, n))
    assert len(names) > 1500, f"only {len(names)} names were found"
    assert not missing, f"without a page: {missing}"
    print(f"{len(names)} names, each with a page")


main()
