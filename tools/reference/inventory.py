#!/usr/bin/env python3
"""Every name that has a man page has a place in the HTML pages: inventory.py MAN_DIR HTML_DIR"""
import pathlib
import sys
import zlib


def places(path):
    """Names in Sphinx's inventory: four lines of text, then compressed lines of name, kind, priority, place and title."""
    data = path.read_bytes().split(b"\n", 4)[4]
    return {line.split()[0] for line in zlib.decompress(data).decode().splitlines() if " c:" in line}


def main():
    names = {path.stem for path in pathlib.Path(sys.argv[1]).glob("*.3")}
    missing = sorted(names - places(pathlib.Path(sys.argv[2]) / "objects.inv"))
    print(f"{len(names)} names of the interface" + (f", without a place: {' '.join(missing)}" if missing else ", each with a place"))
    return 1 if missing or len(names) < 2000 else 0


if __name__ == "__main__":
    sys.exit(main())
