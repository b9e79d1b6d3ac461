"""What the attacks on training share: a run small enough to be made hundreds of times, and judges of what it leaves behind."""
import pathlib
import re
import struct
import subprocess
import time
import zlib

SETTINGS = ("--eval-every 10 --save-every 3 --batch 1 --context 8 --dim 8 --heads 1 --layers 1 --sample 0 --threads 1 --quiet"
            ).split()
FILES = {"checkpoint.safetensors", "log.tsv", "loss.svg", "held_out.txt", "report.html", ".lock"}
TEMPORARY = re.compile(r"(checkpoint\.safetensors|log\.tsv|loss\.svg|held_out\.txt|report\.html)\.[0-9a-f]{16}\.tmp")


class Wrong(Exception):
    """Something that an attack must not find."""


def need(condition, message):
    if not condition:
        raise Wrong(message)


def write_text(folder):
    text = pathlib.Path(folder) / "text"
    text.write_text("".join(f"{i} times {i} is {i * i}\n" for i in range(200)))
    return text


def command(tool, run, text, steps, resume):
    """The training's command line. A run that goes on is given its last step again: settings of its own may be lost with it."""
    if resume:
        return [tool, "train", "--resume", "--quiet", "--steps", str(steps), "--out", str(run)]
    return [tool, "train", *SETTINGS, "--steps", str(steps), "--out", str(run), str(text)]


def need_whole(checkpoint):
    """The file's own checksum, computed here: CRC-32 with its eight digits as zeros."""
    raw = checkpoint.read_bytes()
    need(len(raw) > 8, f"{checkpoint} has {len(raw)} bytes")
    size = struct.unpack("<Q", raw[:8])[0]
    lead = b'{"__metadata__":{"facula.crc32":"'
    need(raw[8:8 + len(lead)] == lead and 8 + size <= len(raw), f"{checkpoint} has no checksum where it belongs")
    at = 8 + len(lead)
    found = zlib.crc32(raw[:at] + b"0" * 8 + raw[at + 8:])
    need(int(raw[at:at + 8], 16) == found, f"{checkpoint} is damaged")


def rows(run):
    """The rows of a log that are whole, as text; half a row at the end is none."""
    log = run / "log.tsv"
    if not log.exists():
        return ""
    text = log.read_bytes().decode()
    return text[:text.rfind("\n") + 1]


def temporaries(run):
    return {p.name for p in run.iterdir() if TEMPORARY.fullmatch(p.name)} if run.exists() else set()


class Reference:
    """A run that nothing happened to."""

    def __init__(self, tool, folder, text, steps):
        run = pathlib.Path(folder) / "reference"
        began = time.monotonic()
        done = subprocess.run(command(tool, run, text, steps, False), capture_output=True, text=True, timeout=120)
        need(done.returncode == 0, f"the undisturbed run failed: {done.stderr}")
        self.seconds = time.monotonic() - began
        self.log = rows(run)
        self.checkpoint = (run / "checkpoint.safetensors").read_bytes()

    def need_prefix(self, run):
        need(self.log.startswith(rows(run)), f"{run}/log.tsv has rows that the undisturbed run has not")

    def need_same(self, run):
        """The run has ended, as if nothing had happened."""
        need({p.name for p in run.iterdir()} == FILES, f"files in the folder: {sorted(p.name for p in run.iterdir())}")
        need(rows(run) == self.log, f"{run}/log.tsv is not that of the undisturbed run")
        need((run / "checkpoint.safetensors").read_bytes() == self.checkpoint,
             f"{run}/checkpoint.safetensors is not that of the undisturbed run")
