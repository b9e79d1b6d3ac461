#!/usr/bin/env python3
"""Usage: run_folder.py FACULA: what a training does to its folder when something else is there, or goes wrong.

Each function below is a check; its first line says what of. Prints one line per check, and ends with 1 if any failed.
"""
import json
import os
import pathlib
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time

FACULA = sys.argv[1]
STEPS = 300  # enough that a run can be killed before its end
SMALL = (f"--steps {STEPS} --eval-every 6 --save-every 20 --batch 1 --context 8 --dim 8 --heads 1 --layers 1 --sample 0 --threads 1"
         " --quiet").split()
TEXT = "".join(f"{i} times {i} is {i * i}\n" for i in range(200))


class Failed(Exception):
    pass


def need(condition, message):
    if not condition:
        raise Failed(message)


def run(*arguments, **more):
    return subprocess.run([FACULA, *map(str, arguments)], capture_output=True, text=True, errors="replace", timeout=60, **more)


def train(folder, *more, **options):
    return run("train", *SMALL, "--out", folder / "run", *more, folder / "text", **options)


def resume(folder, *more, **options):
    return run("train", "--resume", "--quiet", "--out", folder / "run", *more, **options)


def need_success(done):
    need(done.returncode == 0, f"exit status {done.returncode}: {done.stderr}")


def need_failure(done, *words):
    need(done.returncode == 1, f"exit status {done.returncode}, not 1: {done.stderr}")
    for word in words:
        need(word in done.stderr, f"'{word}' is not in: {done.stderr}")


def need_refused(done, *words):
    """Wrong usage, which says so."""
    need(done.returncode == 2, f"exit status {done.returncode}, not 2: {done.stderr}")
    for word in words:
        need(word in done.stderr, f"'{word}' is not in: {done.stderr}")


def content(folder):
    """All files but the report, which tells of times."""
    return {p.name: p.read_bytes() for p in (folder / "run").iterdir() if p.name not in (".lock", "report.html")}


def need_reference(folder, *more):
    """The run ended as one that nothing happened to."""
    other = folder / "reference"
    need_success(run("train", *SMALL, *more, "--out", other / "run", folder / "text"))
    one, two = content(folder), content(other)
    differing = [name for name in one.keys() | two.keys() if one.get(name) != two.get(name)]
    need(not differing, f"these differ from an undisturbed run's: {differing}")


def stop_at(folder, row, *more):
    """A training that is killed once its log has this row."""
    child = subprocess.Popen([FACULA, "train", *SMALL, *more, "--out", folder / "run", folder / "text"])
    log = folder / "run" / "log.tsv"
    deadline = time.monotonic() + 30
    while child.poll() is None and time.monotonic() < deadline:
        if log.exists() and log.read_text().count("\n") > row + 1:
            break
    child.kill()
    need(child.wait() != 0, "the run ended before it could be killed")


def draw_images(folder, name, size, classes):
    """Twenty images of noise and their labels; returns the options that name them."""
    noise = bytes((7919 * i >> 3) % 256 for i in range(20 * size * size))
    (folder / f"{name}.images").write_bytes(struct.pack(">4I", 0x803, 20, size, size) + noise)
    (folder / f"{name}.labels").write_bytes(struct.pack(">2I", 0x801, 20) + bytes(i % classes for i in range(20)))
    return ["--images", folder / f"{name}.images", "--labels", folder / f"{name}.labels"]


def rewrite(checkpoint, change):
    """Changes the metadata of a safetensors file, and takes its checksum away."""
    raw = checkpoint.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    meta = header["__metadata__"]
    for key in ("facula.crc32", "facula.writer"):
        meta.pop(key, None)
    change(meta)
    text = json.dumps(header).encode()
    checkpoint.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + size:])


# ---- checks --------------------------------------------------------------------------------------------------------------


def two_trainings_do_not_share_a_folder(folder):
    child = subprocess.Popen([FACULA, "train", *SMALL, "--steps", "1000000", "--out", folder / "run", folder / "text"])
    try:
        log = folder / "run" / "log.tsv"
        while not (log.exists() and log.read_text().count("\n") > 3):
            time.sleep(0.01)
        need_failure(train(folder), str(folder / "run"), f"process {child.pid} ")
        need_failure(resume(folder), str(folder / "run"), f"process {child.pid} ")
        need(child.poll() is None, "the first training was disturbed")
    finally:
        child.kill()
        child.wait()
    need_success(resume(folder, "--steps", STEPS))


def a_folder_without_a_run_is_not_resumed_and_gets_no_lock(folder):
    need_failure(resume(folder), "there is no run to go on with", "checkpoint.safetensors")
    (folder / "run").mkdir()
    need_failure(resume(folder), "there is no run to go on with", "checkpoint.safetensors")
    need(not list((folder / "run").iterdir()), "something was left in the folder")


def the_lock_of_a_dead_process_is_free(folder):
    (folder / "run").mkdir()
    (folder / "run" / ".lock").write_text("process 1 on elsewhere\n")
    need_success(train(folder))


def what_killed_runs_left_goes_and_foreign_files_stay(folder):
    left = ["checkpoint.safetensors.0123456789abcdef.tmp", "loss.svg.00000000deadbeef.tmp", "log.tsv.ffffffffffffffff.tmp"]
    foreign = ["notes.txt", "loss.svg.tmp", "other.safetensors.0123456789abcdef.tmp", "checkpoint.safetensors.tmp"]
    (folder / "run").mkdir()
    for name in left + foreign:
        (folder / "run" / name).write_text(name)
    need_success(train(folder))
    names = set(content(folder))
    need(not names & set(left), f"still there: {names & set(left)}")
    need(set(foreign) < names, f"removed: {set(foreign) - names}")
    need((folder / "run" / "loss.svg.tmp").read_text() == "loss.svg.tmp", "loss.svg.tmp was written to")


def links_in_the_folder_are_not_followed(folder):
    (folder / "run").mkdir()
    for name in ("loss.svg", "loss.svg.tmp", "log.tsv", "checkpoint.safetensors"):
        (folder / name).write_text("precious")
        (folder / "run" / name).symlink_to(folder / name)
    need_success(train(folder))
    for name in ("loss.svg", "loss.svg.tmp", "log.tsv", "checkpoint.safetensors"):
        need((folder / name).read_text() == "precious", f"{name} was written through a link")


def a_killed_run_keeps_its_rows_and_ends_as_one_left_alone(folder):
    stop_at(folder, 7)
    log = folder / "run" / "log.tsv"
    before = log.read_text()
    stop_at_once = subprocess.Popen([FACULA, "train", "--resume", "--quiet", "--out", folder / "run"])
    time.sleep(0.02)
    stop_at_once.kill()
    stop_at_once.wait()
    need(log.read_text().startswith(before[:before.rfind("\n") + 1]), "rows were lost when the resumed run was killed")
    need_success(resume(folder))
    need_reference(folder)


def half_a_row_is_written_whole(folder):
    """One behind the last checkpoint: those before it were on the disk before it was."""
    stop_at(folder, 9, "--save-every", "1000")
    log = folder / "run" / "log.tsv"
    text = log.read_text()
    log.write_text(text[:text.rfind("\n") - 3])
    need_success(resume(folder))
    need_reference(folder, "--save-every", "1000")


def rows_of_other_settings_are_cut_where_they_differ(folder):
    stop_at(folder, 9, "--save-every", "1000")
    log = folder / "run" / "log.tsv"
    before = log.read_text().splitlines()
    need_success(resume(folder, "--lr", "0.02"))
    after = log.read_text().splitlines()
    need(len(after) == STEPS + 2 and after[:2] == before[:2], f"{len(after)} lines")
    need([row.split("\t")[0] for row in after[1:]] == [str(i) for i in range(STEPS + 1)], "the steps are not in order")
    need(after[10] != before[10], "rows of the old settings are left")


def a_shorter_end_cuts_the_log(folder):
    stop_at(folder, 12, "--save-every", "1000")
    need_success(resume(folder, "--steps", "10"))
    need((folder / "run" / "log.tsv").read_text().count("\n") == 12, "rows behind the last step are left")


def a_log_that_is_none_is_refused_and_left_alone(folder):
    stop_at(folder, 9)
    log = folder / "run" / "log.tsv"
    log.write_text("my own notes, without an end")
    need_failure(resume(folder), str(log), "not the log of a training")
    need(log.read_text() == "my own notes, without an end", "the file was changed")
    log.write_text("step\ttraining_loss\tvalidation_loss\n0\t-\t5.5\nremark\n1\t5.5\t-\n")
    need_failure(resume(folder), "line 3", str(log))
    log.unlink()
    need_success(resume(folder))


def a_limit_on_file_sizes_is_an_error(folder):
    need_success(train(folder))
    before = (folder / "run" / "checkpoint.safetensors").read_bytes()
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (32768, 32768))
    done = resume(folder, "--steps", STEPS + 20, preexec_fn=limit)
    need_failure(done, "checkpoint.safetensors", "File too large")
    need((folder / "run" / "checkpoint.safetensors").read_bytes() == before, "the checkpoint changed")
    need_success(resume(folder, "--steps", STEPS + 20))


def a_log_at_the_limit_is_an_error(folder):
    """Its last row is whole or not there."""
    need_success(train(folder))
    log = folder / "run" / "log.tsv"
    whole = log.read_text()
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 30, len(whole) + 30))
    need_failure(resume(folder, "--steps", STEPS + 20, preexec_fn=limit), "log.tsv", "File too large")
    need(log.read_text().startswith(whole) and log.read_text().endswith("\n"), "the log was damaged")
    need_success(resume(folder, "--steps", STEPS + 20))


def runs_of_version_0_1_write_text_but_do_not_go_on(folder):
    """They had bytes for tokens, and held out the end of the text."""
    need_success(train(folder, "--vocab", "256"))
    path = folder / "run" / "checkpoint.safetensors"
    rewrite(path, lambda meta: [meta.pop(key) for key in ("vocab_kind", "vocab_wanted", "sample_every")])
    before = path.read_bytes()
    need_success(run("generate", folder / "run", "--tokens", 5))
    need_failure(resume(folder, "--steps", STEPS + 20), str(folder / "run"), "Facula 0.1", "cannot go on")
    need(path.read_bytes() == before, "the checkpoint changed")


def a_damaged_vocabulary_is_refused(folder):
    need_success(train(folder))
    path = folder / "run" / "checkpoint.safetensors"
    good = path.read_bytes()
    for change, word in (({"vocab": "97 98\n97"}, "line 2"), ({"vocab": "97 300\n"}, "token 256"),
                         ({"vocab": ""}, "256 tokens"), ({"vocab_kind": "characters"}, "but its model has"),
                         ({"vocab_kind": "runes"}, "which vocabulary")):
        path.write_bytes(good)
        rewrite(path, lambda meta: meta.update(change))
        need_failure(run("generate", folder / "run", "--tokens", 1), word)
        need_failure(resume(folder, "--steps", STEPS + 20), word)


def impossible_settings_of_a_checkpoint_are_refused_at_once(folder):
    need_success(train(folder))
    good = (folder / "run" / "checkpoint.safetensors").read_bytes()
    for key, value, word in (("layers", "1000000", "layers"), ("layers", "9999", "layers"), ("dim", "16777216", "dim"),
                             ("context", "16777216", "context"), ("vocab_size", "16777216", "vocabulary"),
                             ("heads", "3", "heads"), ("heads", "0", "heads"), ("layers", "-1", "layers")):
        path = folder / "run" / "checkpoint.safetensors"
        path.write_bytes(good)
        rewrite(path, lambda meta: meta.update({key: value}))
        began = time.monotonic()
        need_failure(run("generate", folder / "run", "--tokens", 1), word)
        need(time.monotonic() - began < 5, f"{key} = {value} took {time.monotonic() - began:.0f} s to refuse")
        if key != "vocab_size" and int(value) >= 1 and not (key == "heads"):
            need_failure(resume(folder, "--steps", STEPS + 20), word)


def a_run_stopped_before_its_first_step_can_be_resumed(folder):
    stop_at(folder, 1, "--save-every", "1000")
    need_success(resume(folder))
    need_reference(folder, "--save-every", "1000")


def a_run_that_cannot_begin_leaves_nothing(folder):
    (folder / "empty").mkdir()
    (folder / "short").write_text("short")
    def no_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
    failing = [(["empty"], {}), (["short"], {}), (["text", "--device", "cuda"], {"env": {**os.environ, "FACULA_CUDA": "off"}}),
               (["text"], {"preexec_fn": no_room})]
    for out in ("new", "new/in/new/", "old/new", "old"):
        (folder / "old").mkdir(exist_ok=True)
        before = sorted(folder.rglob("*"))
        for (text, *more), options in failing:
            need_failure(run("train", *SMALL, "--out", f"{folder}/{out}", *more, folder / text, **options))
            left = set(folder.rglob("*")) - set(before)
            need(not left, f"{text} {more} with --out {out} left {left}")
            need(sorted(folder.rglob("*")) == before, f"{text} {more} with --out {out} removed something")


def a_run_that_cannot_begin_leaves_the_one_that_is_there_alone(folder):
    (folder / "short").write_text("short")
    need_success(train(folder))
    before = content(folder)
    need_failure(run("train", *SMALL, "--out", folder / "run", folder / "short"))
    need(content(folder) == before, "the run that was there changed")


def a_signal_before_the_run_begins_leaves_nothing(folder):
    words = [f"w{i * 2654435761 % 99991:x}" for i in range(400000)]
    (folder / "long").write_text(" ".join(words))  # takes a while to learn from
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        child = subprocess.Popen([FACULA, "train", *SMALL, "--vocab", "65536", "--out", folder / "new" / "run", folder / "long"],
                                 preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))  # which a shell may have ignored
        while child.poll() is None and not (folder / "new" / "run" / ".lock").exists():
            time.sleep(0.001)
        child.send_signal(number)
        need(child.wait() == -number, f"exit status {child.returncode}, not {-number}")
        need(not (folder / "new").exists(), f"signal {number} left {list((folder / 'new').rglob('*'))}")


def a_run_goes_on_as_what_it_is(folder):
    images = draw_images(folder, "a", 8, 4)
    need_success(train(folder))
    need_success(run("train", *images, "--steps", "2", "--batch", "4", "--quiet", "--out", folder / "other" / "run"))
    for at, given, words in ((folder, images, ("training on text", "with images")),
                             (folder, images[:2], ("training on text", "with images")),
                             (folder / "other", [folder / "text"], ("training on images", "with text")),
                             (folder, ["--dim", "16"], ("--dim 8", "with 16")), (folder, ["--heads", "2"], ("--heads 1", "with 2")),
                             (folder, ["--layers", "2"], ("--layers 1", "with 2")),
                             (folder, ["--context", "9"], ("--context 8", "with 9")),
                             (folder, ["--vocab", "300"], ("--vocab 4096", "with 300")),
                             (folder, ["--characters"], ("began without --characters",))):
        before = content(at)
        need_refused(resume(at, "--steps", STEPS + 20, *given), str(at / "run"), *words)
        need(content(at) == before, f"the run changed: {given}")
    for other, words in ((draw_images(folder, "b", 12, 4), ("height 8", "12")), (draw_images(folder, "c", 8, 5), ("classes 4", "5"))):
        need_failure(resume(folder / "other", "--steps", "4", *other), *words)
    need_success(resume(folder, "--steps", STEPS + 20, "--dim", "8", "--vocab", "4096", folder / "text"))
    need_success(resume(folder / "other", "--steps", "4", *images))


def a_checkpoint_of_something_else_is_not_gone_on_with(folder):
    need_success(train(folder))
    path = folder / "run" / "checkpoint.safetensors"
    good = path.read_bytes()
    for change, word in ((lambda meta: meta.update(kind="speech"), "'speech'"), (lambda meta: meta.pop("kind"), "what was trained")):
        path.write_bytes(good)
        rewrite(path, change)
        need_refused(resume(folder, "--steps", STEPS + 20), word)


def a_time_that_is_over_stops_at_once(folder):
    """Steps are not known yet when the run is killed; the time until then counts, and a part of it is for the rate to fall."""
    timed = SMALL[2:] + ["--seconds", "1000", "--save-every", "1"]
    child = subprocess.Popen([FACULA, "train", *timed, "--out", folder / "run", folder / "text"])
    path = folder / "run" / "checkpoint.safetensors"
    log = folder / "run" / "log.tsv"
    while child.poll() is None and not (log.exists() and log.read_text().count("\n") > 9):
        time.sleep(0.01)
    child.kill()
    need(child.wait() != 0, "the run ended before it could be killed")
    notes = run("inspect", path).stdout
    used = re.search(r"^seconds_used: (.*)$", notes, re.M)
    need(used and float(used[1]) > 0, f"the checkpoint does not say how long the run took: {notes}")
    rewrite(path, lambda meta: meta.update(seconds_used="20.5"))
    for half_written in (folder / "run").glob("*.tmp"):
        half_written.unlink()
    before = content(folder)
    for seconds in (5, 20, 60):
        began = time.monotonic()
        need_refused(resume(folder, "--seconds", seconds), "taken 20.5 s", f"--seconds {seconds} is too short", "69")
        need(time.monotonic() - began < 5, f"it took {time.monotonic() - began:.0f} s to refuse")
        need(content(folder) == before, "the run changed")
    for value in ("-1", "nan", "inf", "soon"):
        rewrite(path, lambda meta: meta.update(seconds_used=value))
        need_failure(resume(folder), "the checkpoint", value)
    rewrite(path, lambda meta: meta.update(seconds_used="0.5"))
    need_success(resume(folder, "--seconds", "2"))
    need("\nsteps: " in "\n" + run("inspect", path).stdout, "the run did not decide how many steps it has")


def one_thing_has_no_plural(folder):
    plural = re.compile(r"(?<![\d.])1 [a-z]*[a-rt-z]s\b")
    one = "--steps 1 --batch 1 --context 8 --dim 8 --heads 1 --layers 1 --sample 4 --sample-every 1".split()
    (folder / "x").write_text("x")
    images = draw_images(folder, "one", 8, 1)
    outputs = [run("train", *one, "--out", folder / "run", folder / "text"), run("train", "--resume", "--out", folder / "run"),
               run("train", *one, "--out", folder / "no", folder / "x"), run("train", *images, "--steps", 1, "--out", folder / "i"),
               run("info", env={**os.environ, "FACULA_CUDA": "sim:1"}), run("inspect", folder / "run")]
    need("1 file," in outputs[0].stdout and "1 layer of 8, 1 head," in outputs[0].stdout, outputs[0].stdout)
    need("after 1 step," in outputs[0].stdout and "its 1 step;" in outputs[1].stdout, outputs[0].stdout + outputs[1].stdout)
    need("1 class\n" in outputs[3].stdout and "1 device," in outputs[4].stdout, outputs[3].stdout + outputs[4].stdout)
    for done in outputs:
        wrong = plural.search(done.stdout + done.stderr)
        need(not wrong, f"'{wrong and wrong[0]}' in the output of {done.args[1:]}")


CHECKS = [value for value in list(globals().values())
          if callable(value) and getattr(value, "__code__", None) and value.__code__.co_varnames[:1] == ("folder",)
          and value.__name__ not in ("train", "resume", "content", "need_reference", "stop_at", "draw_images")]


def main():
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    failures = 0
    chosen = [c for c in CHECKS if len(sys.argv) < 3 or c.__name__ in sys.argv[2:]]
    for check in chosen:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "text").write_text(TEXT)
            try:
                check(folder)
                print(f"ok      {check.__name__}", flush=True)
            except (Failed, subprocess.TimeoutExpired) as problem:
                print(f"FAILED  {check.__name__}: {problem}", flush=True)
                failures += 1
    return 1 if failures or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
