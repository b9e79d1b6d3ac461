#!/usr/bin/env python3
"""Draws circles, crosses and squares of all colours and sizes, a folder of PNG files each, for docs/training.md.

usage: shapes.py FOLDER [COUNT]
"""
import pathlib
import random
import struct
import sys
import zlib

SHAPES = {"circle": lambda x, y, r: x * x + y * y <= r * r,
          "cross": lambda x, y, r: min(abs(x), abs(y)) <= r / 4 and max(abs(x), abs(y)) <= r,
          "square": lambda x, y, r: max(abs(x), abs(y)) <= 0.8 * r}


def png(width, height, pixels):
    """The bytes of a file; three bytes for each pixel."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + pixels[3 * width * y:3 * width * (y + 1)] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def draw(inside, rng):
    width, height = rng.randrange(28, 40), rng.randrange(28, 40)
    left, top, radius = rng.randrange(12, width - 11), rng.randrange(12, height - 11), rng.randrange(6, 11)
    ink, paper = ([rng.randrange(low, low + 100) for _ in range(3)] for low in (140, 0))
    pixels = bytearray()
    for y in range(height):
        for x in range(width):
            colour = ink if inside(x - left, y - top, radius) else paper
            pixels += bytes(min(255, max(0, c + rng.randrange(-12, 13))) for c in colour)
    return png(width, height, bytes(pixels))


def main():
    folder, count, rng = pathlib.Path(sys.argv[1]), int((sys.argv[2:] + [100])[0]), random.Random(1)
    for name, inside in SHAPES.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            (folder / name / f"{i:04}.png").write_bytes(draw(inside, rng))


main()
