#!/usr/bin/env python3
"""Usage: train_settings.py FACULA: configuration files, tables and folders of images, reports and event files of `facula train`.

Each function below is a check. Prints one line per check, and ends with 1 if any failed.
"""
import base64
import html.parser
import math
import pathlib
import re
import struct
import subprocess
import sys

from program import (good, left, need, need_same, notes, refused, run_checks, write_flowers, write_houses,
                     write_images, write_png, write_text)


def csv_of(at):
    """Options of a small training on a table."""
    return ["--csv", write_houses(at / "houses.csv"), "--target", "price", "--drop", "id", "--threads", 1]


# ---- configuration files -------------------------------------------------------------------------------------------------


def a_file_says_what_options_say(folder):
    table = write_houses(folder / "houses.csv")
    (folder / "run.yaml").write_text(f"# prices\ncsv: {table}\ntarget: price\ndrop: [id]\nhidden: [16, 8]\nsteps: 30\nlr: 5e-3\n"
                                     "schedule: cosine\neval_every: 10\nquiet: yes\n")
    good("train", "--config", folder / "run.yaml", "--out", folder / "one")
    good("train", "--csv", table, "--target", "price", "--drop", "id", "--hidden", "16,8", "--steps", 30, "--lr", "0.005", "--schedule",
         "cosine", "--eval-every", 10, "--quiet", "--out", folder / "two")
    need_same(folder / "one", folder / "two", "a file and options")


def options_win_over_the_file(folder):
    (folder / "run.yaml").write_text(f"csv: {write_houses(folder / 'houses.csv')}\ntarget: price\ndrop: id\nsteps: 30\nlr: 0.5\n")
    good("train", "--steps", 20, "--config", folder / "run.yaml", "--lr", 0.01, "--quiet", "--out", folder / "run")
    saved = notes(folder / "run")
    need(saved["steps"] == "20" and float(saved["lr"]) == 0.01, f"{saved['steps']} steps, rate {saved['lr']}")
    (folder / "more.yaml").write_text("steps: 40\n")
    good("train", "--resume", "--quiet", "--config", folder / "more.yaml", "--out", folder / "run")
    need(notes(folder / "run")["step"] == "40", "the file of a run that goes on was not read")
    (folder / "other.yaml").write_text("hidden: [3]\n")
    refused("train", "--resume", "--config", folder / "other.yaml", "--out", folder / "run", words=["--hidden 64,64", "with 3"])


def a_printed_configuration_is_the_same(folder):
    write_text(folder / "a text")
    for given in (csv_of(folder) + ["--epochs", 3, "--patience", 4, "--precision", "bf16"],
                  ["--steps", 7, "--dim", 16, "--heads", 2, "--characters", "--ema", "0.9", folder / "a text"],
                  ["--images", write_images(folder / "images"), "--augment", "--size", 12, "--lr", "3.3e-4", "--seconds", 9]):
        printed = good("train", "--print-config", "--out", folder / 'with "quotes"', *given)
        (folder / "printed.yaml").write_text(printed)
        need(good("train", "--config", folder / "printed.yaml", "--print-config") == printed, f"read back it is another: {printed}")
        need(not (folder / 'with "quotes"').exists(), "printing made the run's folder")
    need("lr: 0.00033\n" in printed and "augment: true\n" in printed and "seconds: 9\n" in printed, printed)


def a_run_prints_its_own_configuration(folder):
    good("train", *csv_of(folder), "--steps", 5, "--lr", "0.25", "--quiet", "--out", folder / "run")
    before = left(folder / "run")
    printed = good("train", "--resume", "--print-config", "--out", folder / "run")
    need("lr: 0.25\n" in printed and "steps: 5\n" in printed and "target: price\n" in printed, printed)
    need(left(folder / "run") == before, "printing changed the run")


def every_option_can_stand_in_a_file(folder):
    """All that --help lists, but the two that are about files, are known to a file: it complains of their values alone."""
    options = set(re.findall(r"--([a-z][a-z-]+)", good("train", "--help"))) - {"config", "print-config"}
    need(len(options) > 50, f"only {len(options)} options in the help")
    for option in sorted(options):
        (folder / "run.yaml").write_text(f"{option}: {{a: b}}\n")
        refused("train", "--config", folder / "run.yaml", words=[f"run.yaml:1: {option} takes"])


def errors_name_file_line_and_key(folder):
    path = folder / "run.yaml"
    for text, words in (("steps: 5\n\nstps: 6\n", [f"{path}:3", "no setting 'stps'"]),
                        ("steps: ten\n", [f"{path}:1", "steps takes a whole number from 1", "'ten'"]),
                        ("seed: 1\nlr: -1\n", [f"{path}:2", "lr takes a number from 0", "'-1'"]),
                        ("schedule: cosin\n", [f"{path}:1", "one of trapezoid|constant|cosine", "'cosin'"]),
                        ("augment: maybe\n", [f"{path}:1", "augment takes true or false", "'maybe'"]),
                        ("steps: 5\nsteps: 6\n", [f"{path}:2", "'steps'", "second time"]),
                        ("eval-every: 5\neval_every: 6\n", [f"{path}:2", "second time"]),
                        ("steps: [5, 6]\n", [f"{path}:1", "steps takes", "several"]),
                        ("model:\n  dim: 6\n", [f"{path}:1", "no setting 'model'"]),
                        ("steps: 5\n\"\n", [f"{path}:", "not YAML"]), ("- steps\n", [f"{path}:1", "'steps: 500'"]),
                        ("config: x\n", [f"{path}:1", "no setting 'config'"])):
        path.write_text(text)
        refused("train", "--config", path, "--out", folder / "run", words=words)
    refused("train", "--config", folder / "none.yaml", status=1, words=["cannot open", "none.yaml"])
    need(not (folder / "run").exists(), "a run that could not begin left a folder")


# ---- tables --------------------------------------------------------------------------------------------------------------


def a_table_of_numbers_is_learned(folder):
    said = good("train", *csv_of(folder), "--epochs", 40, "--lr", "0.005", "--out", folder / "run")
    need("360 rows" in said and "40 held out" in said and "3 columns as 5 inputs" in said, said)
    need(float(re.search(r"R2 ([\d.-]+)", said)[1]) > 0.9, said)
    need(notes(folder / "run")["step"] == str(40 * math.ceil(360 / 32)), "another number of steps than 40 epochs have")
    lines = (folder / "run" / "columns.tsv").read_text().splitlines()
    need([line.split("\t")[1:3] for line in lines[1:]] == [["rooms", "-"], ["area", "-"], ["district", "north"],
                                                           ["district", "old town"], ["district", "south"]], lines)


def classes_of_a_table_are_learned(folder):
    table = write_flowers(folder / "flowers.csv")
    said = good("train", "--csv", table, "--target", "kind", "--epochs", 30, "--lr", "0.01", "--out", folder / "run")
    need("'kind', 3 classes" in said and float(re.search(r"accuracy ([\d.]+)%", said)[1]) > 80, said)
    # Columns of kinds and classes of another file are those of the first one.
    write_flowers(folder / "test.csv", 60, 5)
    said = good("train", "--csv", table, "--target", "kind", "--test-csv", folder / "test.csv", "--steps", 200, "--lr", "0.01", "--out",
                folder / "run")
    need("300 rows" in said and "60 held out" in said and float(re.search(r"accuracy ([\d.]+)%", said)[1]) > 80, said)


def what_a_table_cannot_give_is_refused(folder):
    def table(name, *lines):
        (folder / name).write_text("\n".join(lines) + "\n")
        return folder / name
    rows = [f"{i},{i * 2}" for i in range(30)]
    out = ["--steps", 2, "--quiet", "--out", folder / "run"]
    houses = csv_of(folder)[1]
    for given, words in (((houses, "prise"), ["no column 'prise'"]),
                         ((houses, "price"), ["'id'", "400 different texts", "--drop id", "--one-hot id"]),
                         ((houses, "price", "--drop", "identity"), ["--drop", "'identity'"]),
                         ((table("hole", "a,b", *rows, ",7"), "b"), ["'a'", "row 31", "--missing mean"]),
                         ((table("no target", "a,b", *rows, "7,"), "b"), ["'b'", "row 31"]),
                         ((table("text", "a,b", *rows, "7,x"), "b", "--task", "regression"), ["'b'", "--task classification"]),
                         ((table("few", "a,b", "1,2"), "b"), ["too few rows"]), ((table("none", "a,b"), "b"), ["no rows"]),
                         ((table("alone", "b", *map(str, range(30))), "b"), ["no columns beside the target"]),
                         ((table("ragged", "a,b", "1,2", "3"), "b"), ["3"])):
        refused("train", *out, "--csv", given[0], "--target", *given[1:], status=1, words=words)
    for new, words in (("a,k,b\n1,z,2\n", ["'z'", "'k'", "not in the training data"]), ("a,b\n1,2\n", ["no column 'k'"]),
                       ("a,k,b\nx,p,2\n", ["'a'", "text"])):
        (folder / "new.csv").write_text(new)
        old = table("old", "a,k,b", *(f"{i},{'pq'[i % 2]},{i}" for i in range(30)))
        refused("train", *out, "--csv", old, "--target", "b", "--test-csv", folder / "new.csv", status=1, words=words)
    refused("train", *out, "--csv", houses, words=["go together"])
    refused("train", *out, "--csv", houses, "--target", "price", "--hidden", "8,x", "--drop", "id", status=1, words=["--hidden", "'8,x'"])
    need(not (folder / "run").exists(), "a run that could not begin left a folder")
    good("train", *out, "--csv", folder / "hole", "--target", "b", "--missing", "mean")


def another_table_does_not_go_on(folder):
    given = csv_of(folder)
    good("train", *given, "--steps", 5, "--quiet", "--out", folder / "run")
    write_houses(folder / "houses.csv", seed=9)
    refused("train", "--resume", "--steps", 9, "--out", folder / "run", status=1, words=["the data has changed"])


# ---- images --------------------------------------------------------------------------------------------------------------


def a_folder_for_each_class_is_learned(folder):
    images = write_images(folder / "images")
    said = good("train", "--images", images, "--size", 12, "--epochs", 15, "--batch", 16, "--out", folder / "run")
    need("81 to train on, 9 held out, 12x12, 3 classes" in said, said)
    need(float(re.search(r"accuracy ([\d.]+)%", said)[1]) > 80, said)
    write_images(folder / "test", 5, 8)
    said = good("train", "--images", images, "--test-images", folder / "test", "--size", 8, "--channels", 1, "--steps", 3, "--out",
                folder / "run")
    need("90 to train on, 15 held out, 8x8" in said, said)


def damaged_images_and_folders_are_refused(folder):
    images, out = write_images(folder / "images", 12), ["--steps", 2, "--quiet", "--out", folder / "run"]
    (folder / "test" / "violet").mkdir(parents=True)
    write_png(folder / "test" / "violet" / "a.png", 9, 9, bytes(3 * 81))
    refused("train", *out, "--images", images, "--test-images", folder / "test", status=1, words=["'violet'", "training images lack"])
    (folder / "empty").mkdir()
    refused("train", *out, "--images", folder / "empty", status=1, words=["empty", "no folders"])
    (folder / "empty" / "class").mkdir()
    refused("train", *out, "--images", folder / "empty", status=1, words=["class", "no PNG or JPEG"])
    path = images / "green" / "003.png"
    path.write_bytes(path.read_bytes()[:60])
    refused("train", *out, "--images", images, status=1, words=["green/003.png"])
    refused("train", *out, "--images", images, "--channels", 2, words=["--channels"])
    need(not (folder / "run").exists(), "a run that could not begin left a folder")


def the_worked_examples_work(folder):
    examples = pathlib.Path(__file__).resolve().parents[2] / "apps" / "facula" / "examples"
    with open(folder / "houses.csv", "w") as table:
        subprocess.run(["awk", "-f", examples / "houses.awk"], stdout=table, check=True)
    said = good("train", "--config", examples / "houses.yaml", cwd=folder)
    need(float(re.search(r"R2 ([\d.-]+)", said)[1]) > 0.95 and "4 columns as 6 inputs" in said, said)
    subprocess.run([sys.executable, examples / "shapes.py", folder / "shapes", "40"], check=True)
    said = good("train", "--config", examples / "shapes.yaml", "--epochs", 3, cwd=folder)
    need("108 to train on, 12 held out, 32x32, 3 classes" in said and (folder / "runs" / "shapes" / "report.html").exists(), said)


# ---- event files ---------------------------------------------------------------------------------------------------------


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def fields(data):
    """A message of protocol buffers: pairs of a field's number and its value."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 0x7f) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 0x80:
                return value
    while at < len(data):
        key = varint()
        size = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        if size is None:
            need(key & 7 == 2, f"field {key >> 3} is written as {key & 7}")
            size = varint()
        yield key >> 3, data[at:at + size]
        at += size


def read_events(path):
    """Events of a file, each as a dict; every check sum is compared."""
    raw, at, events = path.read_bytes(), 0, []
    while at < len(raw):
        size = struct.unpack("<Q", raw[at:at + 8])[0]
        need(struct.unpack("<I", raw[at + 8:at + 12])[0] == masked(raw[at:at + 8]), f"{path}: check sum of a length at {at}")
        data = raw[at + 12:at + 12 + size]
        need(struct.unpack("<I", raw[at + 12 + size:at + 16 + size])[0] == masked(data), f"{path}: check sum of data at {at}")
        event = {"values": {}}
        for number, value in fields(data):
            if number == 5:
                for _, one in fields(value):
                    parts = dict(fields(one))
                    event["values"][parts[1].decode()] = struct.unpack("<f", parts[2])[0]
            else:
                event[{1: "time", 2: "step", 3: "version", 7: "session"}[number]] = value
        events.append(event)
        at += 16 + size
    return events


def scalars(path, tag):
    return {e["step"]: e["values"][tag] for e in read_events(path) if tag in e["values"]}


def event_files_have_what_the_log_has(folder):
    need(crc32c(b"123456789") == 0xe3069283, "the test's own check sum is wrong")
    good("train", *csv_of(folder), "--steps", 30, "--eval-every", 10, "--quiet", "--tensorboard", folder / "board", "--out",
         folder / "run")
    file, = (folder / "board").iterdir()
    need(re.fullmatch(r"events\.out\.tfevents\.\d{10}\..+", file.name), file.name)
    events = read_events(file)
    need(events[0].get("version") == b"brain.Event:2" and 1.5e9 < struct.unpack("<d", events[0]["time"])[0] < 1e11, events[0])
    training, validation = scalars(file, "loss/training"), scalars(file, "loss/validation")
    rows = [row.split("\t") for row in (folder / "run" / "log.tsv").read_text().splitlines()[2:]]
    need(list(training) == list(range(1, 31)) and list(validation) == [10, 20, 30], f"{list(training)} {list(validation)}")
    for step, one, two in rows:
        need(math.isclose(training[int(step)], float(one), rel_tol=1e-6), f"step {step}: {training[int(step)]}, the log says {one}")
        if two != "-":
            need(math.isclose(validation[int(step)], float(two), rel_tol=1e-6), f"validation at {step}")
    need(set(scalars(file, "R2")) == {10, 20, 30} and len(scalars(file, "gradient_norm")) == 30, "other scalars are missing")
    good("train", "--resume", "--steps", 40, "--quiet", "--out", folder / "run")
    file = max((folder / "board").iterdir(), key=lambda p: p.stat().st_mtime_ns)
    session = read_events(file)[1]
    need(session["step"] == 31 and session.get("session") == b"\x08\x01", f"a run that goes on does not say so: {session}")
    need(list(scalars(file, "loss/training")) == list(range(31, 41)), "its steps")


def rates_are_those_of_the_schedules(folder):
    n, up, peak = 40, 8, 0.01

    def anneal(a, b, x):
        return b + (a - b) / 2 * (1 + math.cos(math.pi * x))
    after = {"constant": lambda s: peak, "cosine": lambda s: anneal(peak, 1e-3, (s - up) / (n - up)),
             "linear": lambda s: peak + (1e-3 - peak) * (s - up) / (n - up), "step": lambda s: peak * 0.5 ** ((s - up) // 10),
             "trapezoid": lambda s: peak * min(1, (n - s) / (0.7 * n)),
             "one-cycle": lambda s: anneal(peak, peak / 25 / 1e4, (s - up + 1) / (n - up))}
    for name, rate in after.items():
        good("train", *csv_of(folder), "--steps", n, "--warmup", up, "--lr", peak, "--schedule", name, "--lr-floor", 1e-3, "--lr-every",
             10, "--quiet", "--tensorboard", folder / name, "--out", folder / "run")
        file, = (folder / name).iterdir()
        for step, said in scalars(file, "learning_rate").items():
            s = step - 1
            wanted = rate(s) if s >= up else anneal(peak / 25, peak, s / (up - 1)) if name == "one-cycle" else peak * (s + 1) / up
            need(math.isclose(said, wanted, rel_tol=1e-5, abs_tol=1e-12), f"{name}, step {step}: {said}, not {wanted}")
    refused("train", *csv_of(folder), "--seconds", 5, "--schedule", "cosine", words=["--schedule cosine", "--steps"])


# ---- reports -------------------------------------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """Checks that tags are closed in order, and keeps text and what tags there are."""
    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text, self.links = [], [], "", []
        self.feed(text)
        need(not self.open, f"not closed: {self.open}")

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.links += [value for name, value in attributes if name in ("src", "href") and not value.startswith("data:")]
        if tag not in ("meta", "br", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        need(self.open and self.open[-1] == tag, f"</{tag}> within {self.open}")
        self.open.pop()

    def handle_data(self, data):
        self.text += data


def page_of(run, *more):
    """The page of a run, with what stands on each; a page that was written later does not know how fast the training was."""
    text = (run / "report.html").read_text()
    need("http:" not in text.replace("http://www.w3.org/2000/svg", "") and "https:" not in text and "@import" not in text
         and "url(" not in text, "the page needs the network")
    page = Page(text)
    need(not page.links, f"the page refers to {page.links}")
    need(sum(tag == "polyline" for tag, _ in page.tags) >= 3, "no curves")
    for word in ("Loss", "validation", "Learning rate", "Model", "parameters", "Settings", "memory at its peak", *more):
        need(word in page.text, f"'{word}' is not on the page")
    return page


def a_report_of_a_table(folder):
    good("train", *csv_of(folder), "--steps", 30, "--eval-every", 10, "--quiet", "--out", folder / "a <b> & 'c'")
    page = page_of(folder / "a <b> & 'c'", "rows in a second", "time")
    need("a <b> & 'c'" in page.text and "target: price" in page.text and "Predictions" in page.text, page.text)
    need(sum(tag == "circle" for tag, _ in page.tags) == 4 + 40, "four validations and 40 predictions")
    need(not any(tag == "b" and "class" in a for tag, a in page.tags), "the name of the run was not escaped")
    good("train", "--csv", write_flowers(folder / "flowers.csv"), "--target", "kind", "--steps", 30, "--quiet", "--out", folder / "run")
    page = page_of(folder / "run")
    need("Confusion" in page.text and page.text.count("versicolor") >= 2 and "30 held out" in page.text, page.text)


def a_report_of_images(folder):
    good("train", "--images", write_images(folder / "images"), "--size", 12, "--epochs", 6, "--quiet", "--out", folder / "run")
    page = page_of(folder / "run")
    pictures = [a["src"] for tag, a in page.tags if tag == "img"]
    need(len(pictures) == 9 and "Confusion" in page.text, f"{len(pictures)} images")
    kind, data = pictures[0].split(",")
    raw = base64.b64decode(data, validate=True)
    need(kind == "data:image/bmp;base64" and raw[:2] == b"BM" and struct.unpack("<2i", raw[18:26]) == (12, 12)
         and struct.unpack("<I", raw[2:6])[0] == len(raw) == 54 + 12 * 36, "no image of 12 by 12 pixels")
    reds = sum(raw[54 + 2::3]) / 144, sum(raw[54::3]) / 144  # of the first one: held out are some of each colour, sorted by it
    need(max(reds) > 100, f"the image is dark: {reds}")


def a_report_of_text(folder):
    write_text(folder / "text")
    good("train", "--steps", 5, "--batch", 2, "--dim", 16, "--heads", 2, "--layers", 1, "--sample", 20, "--quiet", "--out",
         folder / "run", folder / "text")
    need("What it writes" in page_of(folder / "run").text, "no sample")
    good("train", "--steps", 5, "--batch", 2, "--dim", 16, "--heads", 2, "--layers", 1, "--sample", 0, "--no-report", "--quiet", "--out",
         folder / "other", folder / "text")
    need(not (folder / "other" / "report.html").exists(), "a report that was not wanted")


def a_report_that_is_missing_is_written_later(folder):
    good("train", *csv_of(folder), "--steps", 30, "--eval-every", 10, "--quiet", "--out", folder / "run")
    before = left(folder / "run")
    (folder / "run" / "report.html").unlink()
    good("train", "--resume", "--quiet", "--out", folder / "run")
    page = page_of(folder / "run")
    need("Predictions" in page.text and left(folder / "run") == before, "the rest of the run changed")


if __name__ == "__main__":
    sys.exit(run_checks(dict(globals())))
