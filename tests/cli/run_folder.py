#!/usr/bin/env python3
"""Usage: run_folder.py FACULA: what a training does to its folder when something else is there, or goes wrong.

Each function below is a check; its first line says what of. Prints one line per check, and ends with 1 if any failed.
"""
import json
import os
import pathlib
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
    return subprocess.run([FACULA, *map(str, arguments)], capture_output=True, text=True, timeout=60, **more)


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


def content(folder):
    return {p.name: p.read_bytes() for p in (folder / "run").iterdir() if p.name != ".lock"}


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


def rewrite(checkpoint, change):
    """Changes the metadata of a safetensors file, and takes its checksum away."""
    raw = checkpoint.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    meta = header["__metadata__"]
    del meta["facula.crc32"], meta["facula.writer"]
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


CHECKS = [value for value in list(globals().values())
          if callable(value) and getattr(value, "__code__", None) and value.__code__.co_varnames[:1] == ("folder",)
          and value.__name__ not in ("train", "resume", "content", "need_reference", "stop_at")]


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
