#!/usr/bin/env python3
"""Draws digits from 5x7 letters, moved about and with noise, into IDX files: DIR/images.idx, DIR/labels.idx and the same
gzipped. usage: draw_digits.py DIR COUNT"""

import gzip
import os
import random
import struct
import sys

GLYPHS = ["0E11131519110E", "040C040404040E", "0E11010204081F", "1F02040201110E", "02060A121F0202",
          "1F101E0101110E", "0608101E11110E", "1F010204080808", "0E11110E11110E", "0E11110F01020C"]


def draw(digit, rng):
    image = bytearray(16 * 16)
    left, top, ink = rng.randrange(0, 6), rng.randrange(0, 3), rng.randrange(150, 256)
    for row, byte in enumerate(bytes.fromhex(GLYPHS[digit])):
        for column in range(5):
            if byte >> (4 - column) & 1:
                for dy in range(2):  # twice as high as wide, to fill the square
                    y, x = top + 2 * row + dy - 1, left + 2 * column
                    for dx in range(2):
                        if 0 <= y < 16 and x + dx < 16:
                            image[16 * y + x + dx] = ink
    return bytes(min(255, max(0, p + rng.randrange(-20, 21))) for p in image)


def main():
    folder, count, rng = sys.argv[1], int(sys.argv[2]), random.Random(7)
    labels = bytes(rng.randrange(10) for _ in range(count))
    images = b"".join(draw(d, rng) for d in labels)
    for name, data in (("images", struct.pack(">IIII", 0x803, count, 16, 16) + images), ("labels", struct.pack(">II", 0x801, count) + labels)):
        with open(os.path.join(folder, name + ".idx"), "wb") as f:
            f.write(data)
        with gzip.open(os.path.join(folder, name + ".idx.gz"), "wb") as f:
            f.write(data)


main()
