#!/usr/bin/env python3
"""api.json names every function that the library exports, and no other: api_list.py API_JSON LIBRARY."""
import json
import subprocess
import sys


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE, check=True, text=True).stdout
    return {line.split()[2].split("@")[0] for line in lines.splitlines() if line.split()[1] == "T"}


def main():
    api = json.load(open(sys.argv[1]))
    functions = api["functions"] + api["inline_functions"]
    names = [f["name"] for f in functions]
    assert len(names) == len(set(names)), "a function is named twice"
    inits = {f["keyword_struct"] + "_init" for f in functions if "keyword_struct" in f}
    symbols = exported(sys.argv[2])
    assert symbols - set(names) - inits == set(), f"not in the list: {sorted(symbols - set(names) - inits)}"
    assert set(names) - symbols == set(), f"not exported: {sorted(set(names) - symbols)}"
    for f in functions:
        assert f["doc"], f"{f['name']} has no documentation"
        assert not f.get("keywords") or f["parameters"][-1]["name"] == "kw", f"{f['name']} does not end with its keywords"
    print(f"{len(names)} functions, {len(inits)} keyword structs")


main()
