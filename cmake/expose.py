#!/usr/bin/env python3
"""Makes the hidden symbols of a relocatable ELF object visible, in place, so that a shared library linked from it shows its
internals to the tests. Symbols with a leading underscore belong to the compiler and stay as they are.

    expose.py OBJECT"""

import mmap
import struct
import sys

SHT_SYMTAB, STB_GLOBAL, STV_DEFAULT, STV_HIDDEN = 2, 1, 0, 2
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
OTHER = 5  # where st_other lies in a symbol


def expose(image):
    magic, *_, section_offset, _, _, _, _, section_size, n_sections, _ = HEADER.unpack_from(image)
    if magic[:6] != b"\x7fELF\x02\x01":
        sys.exit("expose.py: not a little-endian 64-bit ELF file")
    if n_sections == 0:  # more than fit: the first section header has the number
        n_sections = SECTION.unpack_from(image, section_offset)[5]
    sections = [SECTION.unpack_from(image, section_offset + i * section_size) for i in range(n_sections)]
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind != SHT_SYMTAB:
            continue
        names = sections[link][4]
        for at in range(offset, offset + size, SYMBOL.size):
            name, info, other, *_ = SYMBOL.unpack_from(image, at)
            if info >> 4 == STB_GLOBAL and other & 3 == STV_HIDDEN and image[names + name] != ord("_"):
                image[at + OTHER] = other & ~3 | STV_DEFAULT


with open(sys.argv[1], "r+b") as file, mmap.mmap(file.fileno(), 0) as image:
    expose(image)
