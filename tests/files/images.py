#!/usr/bin/env python3
"""Image files of every kind against Pillow: images.py LIBRARY API_JSON. Exit status 77 where Pillow, or libpng or libjpeg in the
library, is not there."""
import io
import pathlib
import struct
import sys
import tempfile
import zlib

try:
    import numpy as np
    from PIL import Image
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"))
import facula  # noqa: E402

MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
HEIGHT, WIDTH = 21, 34


def picture(channels):
    """Smooth, so that JPEG keeps it, with a different slope in each channel."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    return np.stack([(x * (5 + c) + y * (3 + 2 * c)) % 256 for c in range(channels)], -1).astype("u1")


def image(channels):
    return Image.fromarray(picture(channels)[..., 0] if channels == 1 else picture(channels), MODES[channels])


def png(samples, bits, type_, palette=b"", interlaced=False):
    """A PNG file that Pillow does not write: samples [H, W, C] of so many bits."""
    def packed(row):
        if bits == 16:
            return row.astype(">u2").tobytes()
        wide = row.reshape(-1).astype("u1")
        return np.packbits(np.unpackbits(wide[:, None], axis=1)[:, 8 - bits:]).tobytes()

    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)] if interlaced else [(0, 0, 1, 1)]
    rows = b"".join(b"\0" + packed(row) for y, x, dy, dx in passes for row in samples[y::dy, x::dx] if row.size)

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", samples.shape[1], samples.shape[0], bits, type_, 0, 0, interlaced)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + (chunk(b"PLTE", palette) if palette else b"") +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def pillows(data, channels):
    with Image.open(io.BytesIO(data)) as i:
        if channels == 1:
            i.draft("L", i.size)  # of a JPEG file the luma alone
        a = np.asarray(i.convert(MODES[channels]))
    return a.reshape(*a.shape[:2], channels).transpose(2, 0, 1).astype(int)


class Reader:
    def __init__(self, f, folder):
        self.f, self.path = f, str(folder / "image")

    def read(self, data, **keywords):
        pathlib.Path(self.path).write_bytes(data)
        return np.array(self.f.image_read(self.path, **keywords).tolist()).astype(int)

    def same(self, what, data, channels, expected=None, near=0):
        got = self.read(data)
        right = pillows(data, channels) if expected is None else expected.transpose(2, 0, 1).astype(int)
        assert got.shape == right.shape, (what, got.shape, right.shape)
        assert abs(got - right).max() <= near, (what, abs(got - right).max())


def saved(i, **options):
    out = io.BytesIO()
    i.save(out, **options)
    return out.getvalue()


def png_files(r):
    for c in MODES:
        r.same(f"png {c}", saved(image(c), format="PNG"), c)
        r.same(f"png 16 bits {c}", png(picture(c).astype("u2") * 256 + 200, 16, (0, 4, 2, 6)[c - 1]), c, picture(c))
        r.same(f"png interlaced {c}", png(picture(c), 8, (0, 4, 2, 6)[c - 1], interlaced=True), c, picture(c))
    palette = image(3).quantize(16)
    r.same("png palette", saved(palette, format="PNG"), 3)
    r.same("png palette with transparency", saved(palette, format="PNG", transparency=3), 4)
    for bits in (1, 2, 4):
        grey = picture(1) >> (8 - bits)
        r.same(f"png {bits} bits", png(grey, bits, 0), 1, grey * (255 // (2**bits - 1)))
        colours = bytes(range(0, 3 * 2**bits))
        expected = np.frombuffer(colours, "u1").reshape(-1, 3)[grey[..., 0]]
        for interlaced in (False, True):
            r.same(f"png palette {bits} bits", png(grey, bits, 3, colours, interlaced), 3, expected)
    colours = saved(image(3), format="PNG")
    assert abs(r.read(colours, channels=1) - pillows(colours, 1)).max() <= 1
    assert (r.read(colours, channels=4) == pillows(colours, 4)).all()
    assert (r.read(saved(image(4), format="PNG"), channels=3) == picture(4)[..., :3].transpose(2, 0, 1)).all()


def jpeg_files(r):
    r.same("jpeg grey", saved(image(1), format="JPEG"), 1, near=1)
    for options in ({}, {"subsampling": 0}, {"subsampling": 1}, {"progressive": True}, {"quality": 5}, {"optimize": True}):
        data = saved(image(3), format="JPEG", **options)
        r.same(f"jpeg {options}", data, 3, near=1)
        assert abs(r.read(data, channels=1) - pillows(data, 1)).max() <= 1, options
    turned = Image.Exif()
    turned[0x112] = 6  # to be turned by 90 degrees: pixels stay as they are in the file
    r.same("jpeg with a turn", saved(image(3), format="JPEG", exif=turned), 3, near=1)
    try:
        r.read(saved(image(3).convert("CMYK"), format="JPEG"))
        raise AssertionError("a CMYK file was read")
    except facula.Error as e:
        assert e.code == "UNSUPPORTED" and "4 colours" in str(e), e


def main():
    f = facula.Facula(sys.argv[1], sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        r = Reader(f, pathlib.Path(name))
        for data in (saved(image(1), format="PNG"), saved(image(1), format="JPEG")):
            try:
                r.read(data)
            except facula.Error as e:
                if e.code != "UNSUPPORTED":
                    raise
                print("skipped:", e)
                sys.exit(77)
        for check in (png_files, jpeg_files):
            check(r)
            print("ok", check.__name__)


main()
