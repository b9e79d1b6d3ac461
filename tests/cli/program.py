"""What the tests of `facula train` share: calling it, killing it in the middle, comparing what it leaves, and data to train on."""
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time
import zlib

FACULA = sys.argv[1]


class Failed(Exception):
    pass


def need(condition, message):
    if not condition:
        raise Failed(message)


def call(*arguments, **more):
    return subprocess.run([FACULA, *map(str, arguments)], capture_output=True, text=True, errors="replace", timeout=120, **more)


def good(*arguments, **more):
    """What it printed, where it must succeed."""
    done = call(*arguments, **more)
    need(done.returncode == 0, f"{arguments}: exit status {done.returncode}: {done.stderr}")
    return done.stdout


def refused(*arguments, status=2, words=(), **more):
    done = call(*arguments, **more)
    need(done.returncode == status, f"{arguments}: exit status {done.returncode}, not {status}: {done.stderr}")
    for word in words:
        need(word in done.stderr, f"{arguments}: '{word}' is not in: {done.stderr}")


def kill_at(run, row, *arguments):
    """Begins a training, and kills it once its log has this row."""
    child = subprocess.Popen([FACULA, "train", "--quiet", "--out", str(run), *map(str, arguments)])
    log, deadline = run / "log.tsv", time.monotonic() + 60
    while child.poll() is None and time.monotonic() < deadline:
        if log.exists() and log.read_text().count("\n") > row + 1:
            break
    child.kill()
    need(child.wait() != 0, f"{arguments}: the run ended before it could be killed")


def left(run):
    """The files of a run but its report, which tells of times."""
    return {p.name: p.read_bytes() for p in run.iterdir() if p.is_file() and p.name not in (".lock", "report.html")}


def need_same(one, two, what):
    a, b = left(one), left(two)
    differing = [name for name in a.keys() | b.keys() if a.get(name) != b.get(name)]
    need(not differing, f"{what}: these differ: {differing}")


def notes(file):
    """The metadata of a safetensors file, by name."""
    lines = good("inspect", file).splitlines()
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def tensors(file):
    """Its tensors: name to bytes."""
    import json
    raw = pathlib.Path(file).read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + size])
    head.pop("__metadata__", None)
    return {name: raw[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]] for name, e in head.items()}


# ---- data ----------------------------------------------------------------------------------------------------------------


def write_houses(path, rows=400, seed=1):
    """Prices, which are nearly a sum of the other columns."""
    r = random.Random(seed)
    lines = ["id,rooms,area,district,price"]
    for i in range(rows):
        rooms, district = r.randrange(1, 7), r.choice(["north", "south", "old town"])
        area = rooms * 18 + r.gauss(10, 8)
        price = area * 2.1 + {"north": 0, "south": 20, "old town": 70}[district] + r.gauss(0, 6)
        lines.append(f"h{i},{rooms},{area:.1f},{district},{price:.1f}")
    path.write_text("\n".join(lines) + "\n")
    return path


def write_flowers(path, rows=300, seed=2):
    r = random.Random(seed)
    lines = ["petal,sepal,colour,kind"]
    for i in range(rows):
        k = i % 3
        colour = r.choice(["white", "blue"]) if k != 2 else "red"
        lines.append(f"{r.gauss(2 + 1.4 * k, .6):.2f},{r.gauss(4 + .7 * k, .6):.2f},{colour},{('setosa', 'versicolor', 'virginica')[k]}")
    path.write_text("\n".join(lines) + "\n")
    return path


def write_text(path):
    path.write_text("".join(f"{i} times {i} is {i * i}\n" for i in range(200)))
    return path


def write_png(path, width, height, pixels):
    """Three bytes for each pixel."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + pixels[3 * width * y:3 * width * (y + 1)] for y in range(height))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_images(folder, each=30, seed=3):
    """Red, green and blue images of several sizes, with noise, a folder for each colour."""
    r = random.Random(seed)
    for k, name in enumerate(("blue", "green", "red")):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(each):
            width, height = r.randrange(9, 15), r.randrange(9, 15)
            pixels = bytearray(r.randrange(0, 90) for _ in range(3 * width * height))
            for p in range(width * height):
                pixels[3 * p + 2 - k] = r.randrange(120, 256)
            write_png(folder / name / f"{i:03}.png", width, height, bytes(pixels))
    return folder


# ---- running checks ------------------------------------------------------------------------------------------------------


def run_checks(names):
    """Calls the functions of a module whose first argument is `folder`, or those that the command line names. 1 if any failed."""
    checks = [f for f in names.values() if callable(f) and getattr(f, "__code__", None) and f.__module__ == "__main__"
              and f.__code__.co_varnames[:f.__code__.co_argcount] == ("folder",)]
    chosen = [f for f in checks if len(sys.argv) < 3 or f.__name__ in sys.argv[2:]]
    failures = 0
    for check in chosen:
        with tempfile.TemporaryDirectory() as name:
            try:
                check(pathlib.Path(name))
                print(f"ok      {check.__name__}", flush=True)
            except (Failed, subprocess.TimeoutExpired) as problem:
                print(f"FAILED  {check.__name__}: {problem}", flush=True)
                failures += 1
    return 1 if failures or not chosen else 0
