#!/usr/bin/env python3
"""Writes a man page of section 3 for everything public, and for every other name that it documents a page that leads to it.

Usage: man.py API_JSON DIR
"""
import pathlib
import sys

import pages


def troff(text):
    """Text in which troff sees no request and no escape."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").split("\n")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in lines)


def code(lines):
    return [".nf", ".ft B"] + [troff(line) for line in lines] + [".ft R", ".fi"]


def synopsis(page):
    yield from code(["#include <facula/facula.h>", ""])
    if page.kind == "type":
        yield from code(page.type["text"].split("\n"))
    if page.kind == "macro":
        yield from code(["#define " + text for _, text in page.macros])
    if page.functions:
        yield from code("\n".join(pages.folded(pages.prototype(f) + ";") for f in page.functions).split("\n"))
    if page.calls:
        yield ".SH CALLS"
        yield from code("\n".join(pages.folded(call) for call in page.calls).split("\n"))


def keyword_list(page):
    if not page.keywords:
        return
    yield ".SH KEYWORDS"
    yield "Each may be left out. They go by name or, in this order, by position:"
    for k in page.keywords:
        yield ".TP"
        yield f".BI . {k.name}" + (f" \"\\fR, or \" . {k.other}" if k.other else "")
        kind = f"{k.kind}; {k.other_kind}" if k.other else k.kind
        yield troff(f"{kind}; {'none unless given' if k.default == 'none' else 'default ' + k.default}" +
                    ("; by name only" if k.by_name else ""))


def structs(page):
    if page.kind == "type" or not page.structs:
        return
    yield ".SH STRUCTS"
    for _, text in page.structs:
        yield from code(text.split("\n") + [""])
    if page.inits:
        yield "Bindings fill a keyword struct with its defaults by"
        yield from code(page.inits)


def write(page):
    names = [n for n in page.names if not n.endswith("_kw_init")]
    yield f'.TH {page.name} 3 "" "Facula" "Facula reference"'
    yield ".SH NAME"
    yield troff(f"{', '.join(names)} - {page.brief}").replace(" \\- ", " \\- ", 1)
    yield ".SH SYNOPSIS"
    yield from synopsis(page)
    for title, text in page.sections:
        what, of, name = title.partition(" of ")
        yield f'.SH "{what.upper()}{of.upper()}{name}"'
        separate = "\n.br\n" if title.startswith("Schema") else "\n"
        yield separate.join(troff(line) for line in text.split("\n"))
    yield from keyword_list(page)
    yield from structs(page)
    yield ".SH SEE ALSO"
    yield from (f".BR {name} (3)," for name in page.related)
    yield ".BR facula (1)"


def put(path, text):
    """A file is written only if its text changed."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main():
    _, all_pages = pages.load(sys.argv[1])
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    texts = {f"{page.name}.3": "\n".join(write(page)) + "\n" for page in all_pages}
    for page in all_pages:
        for name in page.names:
            texts.setdefault(f"{name}.3", f".so man3/{page.name}.3\n")
    for name, text in texts.items():
        put(folder / name, text)
    for path in folder.glob("*.3"):
        if path.name not in texts:
            path.unlink()


if __name__ == "__main__":
    main()
