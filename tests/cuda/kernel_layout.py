#!/usr/bin/env python3
"""Compares the launch table with the device code: every kernel's parameters, their offsets and sizes.

Usage: kernel_layout.py libfacula-simkernels.so kernels.cubin. The simulator's image lists what the sources declare; the
cubin's .nv.info sections say what nvcc made of it. No GPU is needed. Ends with 77 (skipped) if there is no cubin.
"""
import ctypes
import pathlib
import struct
import sys

EIATTR_KPARAM_INFO = 0x17
FORMAT_SIZED = 4


class Param(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint16), ("align", ctypes.c_uint16), ("role", ctypes.c_uint8), ("name", ctypes.c_char_p)]


class Kernel(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("params", ctypes.POINTER(Param)),
                ("n_params", ctypes.c_uint32), ("static_shared", ctypes.c_uint32), ("native", ctypes.c_uint32)]


class Image(ctypes.Structure):
    _fields_ = [("magic", ctypes.c_uint64), ("size", ctypes.c_uint32), ("n_kernels", ctypes.c_uint32),
                ("n_globals", ctypes.c_uint32), ("kernels", ctypes.POINTER(ctypes.POINTER(Kernel))),
                ("globals", ctypes.c_void_p)]


def declared(library):
    """{kernel: [(offset, size)]} as the C ABI lays the parameters out; without those that only the simulator has."""
    image = Image.in_dll(ctypes.CDLL(library), "facula_sim_image")
    assert image.size == ctypes.sizeof(Image), "sim_image has another layout than this script"
    table = {}
    for i in range(image.n_kernels):
        kernel = image.kernels[i].contents
        if kernel.native:
            continue
        offset, params = 0, []
        for p in kernel.params[:kernel.n_params]:
            offset = (offset + p.align - 1) // p.align * p.align
            params.append((offset, p.size))
            offset += p.size
        table[kernel.name.decode()] = params
    return table


def compiled(cubin):
    """The same from a cubin, which is an ELF file."""
    data = pathlib.Path(cubin).read_bytes()
    assert data[:4] == b"\x7fELF"
    section_at, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, section_at + i * size) for i in range(count)]
    text = sections[names][4]
    table = {}
    for section in sections:
        name = data[text + section[0]:data.index(b"\0", text + section[0])].decode()
        if name.startswith(".nv.info."):
            table[name[len(".nv.info."):]] = parameters(data, section[4], section[4] + section[5])
    return table


def parameters(data, at, end):
    found = {}
    while at < end:
        form, attribute, length = struct.unpack_from("<BBH", data, at)
        at += 4
        if form != FORMAT_SIZED:
            continue
        if attribute == EIATTR_KPARAM_INFO:
            _, ordinal, offset, flags = struct.unpack_from("<IHHI", data, at)
            found[ordinal] = (offset, flags >> 18)
        at += length
    return [found[i] for i in sorted(found)]


def main():
    library, cubin = sys.argv[1:3]
    if not pathlib.Path(cubin).exists():
        print(f"skipped: {cubin} is not there; nvcc makes it (FACULA_CUDA_IMAGES=nvcc)")
        return 77
    want, have = declared(library), compiled(cubin)
    wrong = 0
    for name in sorted(want.keys() | have.keys()):
        if want.get(name) != have.get(name):
            print(f"{name}: declared {want.get(name)}, compiled {have.get(name)}")
            wrong += 1
    print(f"{len(want)} kernels declared, {len(have)} compiled, {wrong} differ")
    return 1 if wrong or not want else 0


if __name__ == "__main__":
    sys.exit(main())
