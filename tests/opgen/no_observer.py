#!/usr/bin/env python3
"""Compiled with FAC_NO_OBSERVER, call paths know nothing of an observer of calls; else they ask for one.

Usage: no_observer.py BUILD. BUILD holds compile_commands.json.
"""
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile


def wanted_symbols(entry, folder, *flags):
    """The undefined symbols of an entry's object when compiled with more flags."""
    command = shlex.split(entry["command"])
    command[command.index("-o") + 1] = f"{folder}/object.o"
    subprocess.run(command + ["-O0", "-g0", *flags], cwd=entry["directory"], check=True)
    return subprocess.run(["nm", "-u", f"{folder}/object.o"], stdout=subprocess.PIPE, check=True, text=True).stdout.split()


def main():
    entries = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text())
    for source in ("gen/ops_dispatch.c",):
        entry = next(e for e in entries if e["file"].endswith(source))
        with tempfile.TemporaryDirectory() as folder:
            assert "fac__watched" in wanted_symbols(entry, folder), f"{source} never looks for an observer"
            assert "fac__watched" not in wanted_symbols(entry, folder, "-DFAC_NO_OBSERVER=1"), f"{source} still looks"


if __name__ == "__main__":
    main()
