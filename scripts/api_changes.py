#!/usr/bin/env python3
"""Prints a table of the calls that differ between two versions.

Each side is the headers of a version, generated ones included. Functions that only the new version has are counted.
"""
import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "null"))
from declarations import COMMENT, functions  # noqa: E402

STRUCT = re.compile(r"typedef struct (fac_\w+_kw) \{(.*?)\} \1;", re.S)
HIDDEN = {"kw_size", "kw_site", "kw_stray", "head"}


def keyword_names(body):
    """The fields that a caller may name, in order."""
    body = COMMENT.sub("", body)
    fields = [re.sub(r"FAC_DEF\b(\(.*\))?", "", field, flags=re.S) for field in body.split(";") if "FAC_KW_HEAD" not in field]
    names = [part.split()[-1].lstrip("*") for field in fields for part in field.split(",") if part.strip()]
    return [name for name in names if name not in HIDDEN]


def load(paths):
    """name -> (result, parameters, keyword names)"""
    texts = [pathlib.Path(p).read_text() for p in paths]
    keywords = {name: keyword_names(body) for text in texts for name, body in STRUCT.findall(text)}
    calls = {}
    for text in texts:
        for f in functions(text):
            if f.name.endswith("_kw_init"):
                continue
            last = re.search(r"fac_\w+_kw\b", f.parameters[-1].type) if f.parameters else None
            plain = f.parameters[:-1] if last else f.parameters
            calls[f.name] = (f.returns, [(p.type, p.name) for p in plain], keywords.get(last[0], []) if last else [])
    return calls


def spelt(call):
    _, parameters, keywords = call
    return "(" + ", ".join([name or kind for kind, name in parameters] + ["." + k for k in keywords]) + ")"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for side in ("old", "new"):
        parser.add_argument(f"--{side}", nargs="+", required=True, metavar="HEADER")
    options = parser.parse_args()
    old, new = load(options.old), load(options.new)
    print("| call | before | now |\n|---|---|---|")
    for name in sorted(old):
        if name not in new:
            print(f"| `{name}` | `{spelt(old[name])}` | gone |")
        elif old[name] != new[name]:
            before, now = spelt(old[name]), spelt(new[name])
            if before == now:  # types alone
                before = f"{old[name][0]} ({', '.join(kind for kind, _ in old[name][1])})"
                now = f"{new[name][0]} ({', '.join(kind for kind, _ in new[name][1])})"
            print(f"| `{name}` | `{before}` | `{now}` |")
    print(f"\nNew: {len(set(new) - set(old))} functions.")


main()
