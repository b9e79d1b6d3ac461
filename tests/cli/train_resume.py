#!/usr/bin/env python3
"""Usage: train_resume.py FACULA: what a training does is the same, bit for bit, when it is done again, and when it was killed in the
middle or stopped by a signal and goes on, with each of its options; and stopping early.

Each function below is a check. Prints one line per check, and ends with 1 if any failed.
"""
import re
import signal
import subprocess
import sys
import time

from program import (FACULA, good, kill_at, left, need, need_same, notes, refused, run_checks, tensors, write_flowers, write_houses,
                     write_images, write_text)

EVERY = ["--eval-every", 20, "--save-every", 30, "--threads", 1]


def data_of(at, kind):
    if kind == "numbers":
        return ["--csv", write_houses(at / "houses.csv", 300), "--target", "price", "--drop", "id", "--hidden", "16,16", "--dropout", 0.1]
    if kind == "classes":
        return ["--csv", write_flowers(at / "flowers.csv"), "--target", "kind", "--hidden", "16"]
    if kind == "images":
        return ["--images", write_images(at / "images", 12), "--size", 8, "--batch", 8, "--augment", "--dropout", 0.2]
    return ["--batch", 2, "--context", 12, "--dim", 16, "--heads", 2, "--layers", 1, "--dropout", 0.1, "--vocab", 256, "--sample", 0,
            write_text(at / "text")]


def three_ways(folder, kind, *options, steps=300, kill=100):
    """Left alone twice, and killed; all must end alike. Returns the folder of one."""
    given = [*data_of(folder, kind), *EVERY, "--steps", steps, *options]
    for name in ("one", "two"):
        good("train", "--quiet", "--out", folder / name, *given)
    need_same(folder / "one", folder / "two", f"{kind} {options}, done twice")
    kill_at(folder / "cut", kill, *given)
    at = int(notes(folder / "cut")["step"])
    need(0 < at < steps, f"{kind} {options}: killed when its checkpoint was of step {at}")
    good("train", "--resume", "--quiet", "--out", folder / "cut", "--threads", 1)
    need_same(folder / "one", folder / "cut", f"{kind} {options}, killed after {at}")
    return folder / "one"


def bf16_with_a_mean_and_accumulation(folder):
    run = three_ways(folder, "numbers", "--precision", "bf16", "--ema", 0.95, "--accumulate", 3, "--schedule", "cosine")
    have = tensors(run / "checkpoint.safetensors")
    mean, last = have["ema.module.0.weight"], have["model.0.weight"]
    need(len(mean) == len(last) and mean != last and "ema.n_averaged" in have, "the mean is not in the checkpoint")


def f16_with_its_scaler(folder):
    run = three_ways(folder, "classes", "--precision", "f16", "--schedule", "one-cycle", "--optimizer", "sgd")
    need("scaler.scale" in tensors(run / "checkpoint.safetensors"), "the scaler is not in the checkpoint")


def halves_give_other_weights_than_f32(folder):
    given = [*data_of(folder, "classes"), *EVERY, "--steps", 40, "--quiet"]
    runs = {}
    for precision in ("f32", "bf16", "f16"):
        good("train", *given, "--precision", precision, "--out", folder / precision)
        runs[precision] = tensors(folder / precision / "checkpoint.safetensors")["model.0.weight"]
    need(len(set(runs.values())) == 3, "precision changes nothing")


def images_that_are_moved_about(folder):
    three_ways(folder, "images", "--ema", 0.9, "--schedule", "step", "--lr-every", 25, steps=120, kill=40)


def text_with_another_optimiser(folder):
    three_ways(folder, "text", "--optimizer", "adam", "--precision", "bf16", "--ema", 0.9, "--schedule", "linear", "--accumulate", 2)


def text_in_f16(folder):
    three_ways(folder, "text", "--precision", "f16", "--clip", 0)


def every_optimiser(folder):
    """Stopped at a number of steps, since the rates do not depend on it, and going on."""
    given = [*data_of(folder, "numbers"), "--schedule", "constant", "--quiet", "--threads", 1]
    seen = set()
    for name in ("adamw", "adam", "sgd", "rmsprop", "nadam", "radam", "adamax", "adagrad", "adafactor"):
        good("train", *given, "--optimizer", name, "--steps", 25, "--out", folder / name)
        good("train", *given, "--optimizer", name, "--steps", 12, "--out", folder / "cut")
        good("train", "--resume", "--quiet", "--steps", 25, "--threads", 1, "--out", folder / "cut")
        one, two = tensors(folder / name / "checkpoint.safetensors"), tensors(folder / "cut" / "checkpoint.safetensors")
        need(one == two, f"{name}: {[k for k in one if one[k] != two.get(k)]} differ")
        seen.add(one["model.0.weight"])
    need(len(seen) == 9, "two optimisers do the same")
    refused("train", "--resume", "--optimizer", "sgd", "--steps", 30, "--out", folder / "adam", words=["--optimizer adam", "with sgd"])
    refused("train", *given, "--optimizer", "muon", words=["muon is for text"])


def accumulated_batches_are_one_large_batch(folder):
    """An epoch of 270 rows: 5 steps of 54 rows are as many of two batches of 27, but for rounding."""
    given = [*data_of(folder, "numbers"), "--dropout", 0, "--optimizer", "sgd", "--momentum", 0, "--lr", 0.1, "--warmup", 0, "--schedule",
             "constant", "--eval-every", 0, "--steps", 5, "--quiet"]
    good("train", *given, "--batch", 54, "--out", folder / "large")
    good("train", *given, "--batch", 27, "--accumulate", 2, "--out", folder / "small")
    losses = [[row.split("\t")[1:] for row in (folder / run / "log.tsv").read_text().splitlines()[2:]] for run in ("large", "small")]
    for (one, valid), (two, other) in zip(*losses):
        need(abs(float(one) - float(two)) < 1e-5 * float(one), f"losses {one} and {two}")
    need(abs(float(valid) - float(other)) < 1e-4 * float(valid), f"validation {valid} and {other}")


def a_mean_is_what_is_validated_and_written_with(folder):
    """With a decay so high the mean stays near the first weights, and so does its loss."""
    given = [*data_of(folder, "numbers"), *EVERY, "--steps", 100, "--lr", 0.01, "--quiet"]
    good("train", *given, "--out", folder / "plain")
    good("train", *given, "--ema", 0.99999, "--out", folder / "mean")
    logs = [[row.split("\t") for row in (folder / run / "log.tsv").read_text().splitlines()[1:]] for run in ("plain", "mean")]
    need([row[1] for row in logs[0]] == [row[1] for row in logs[1]], "the mean changed the training")
    first, plain, mean = float(logs[0][0][2]), float(logs[0][-1][2]), float(logs[1][-1][2])
    need(plain < 0.3 * first and abs(mean - first) < 0.1 * first, f"validation losses {first}, then {plain} and {mean}")


# ---- stopping early ------------------------------------------------------------------------------------------------------

OVERFITTING = ["--steps", 3000, "--eval-every", 10, "--save-every", 30, "--lr", 0.02, "--schedule", "constant", "--warmup", 0]


def noise_of(at):
    """A table whose target has nothing to do with the rest: the validation loss only rises."""
    import random
    r = random.Random(4)
    (at / "noise.csv").write_text("a,b,c,y\n" + "".join(",".join(f"{r.gauss(0, 1):.3f}" for _ in range(4)) + "\n" for _ in range(120)))
    return ["--csv", at / "noise.csv", "--target", "y", "--threads", 1]


def a_training_without_gain_stops(folder):
    given = [*noise_of(folder), *OVERFITTING, "--patience", 6]
    said = good("train", *given, "--out", folder / "run")
    stopped = int(re.search(r"stopped early after (\d+) steps", said)[1])
    rows = [row.split("\t") for row in (folder / "run" / "log.tsv").read_text().splitlines()[1:]]
    losses = {int(row[0]): float(row[2]) for row in rows if row[2] != "-" and row[0] != "0"}
    best = min(losses, key=losses.get)
    need(stopped == best + 60 == max(losses) and stopped < 3000, f"stopped after {stopped}; the lowest loss was after {best}")
    need(f"after {best}, kept in best.safetensors" in said, said)
    saved = notes(folder / "run")
    need(abs(float(saved["best_loss"]) - losses[best]) < 1e-6 and saved["best_step"] == str(best), saved)
    have = tensors(folder / "run" / "best.safetensors")
    need(all(name.startswith("model.") for name in have), "more than the model is in best.safetensors")
    need(have["model.0.weight"] != tensors(folder / "run" / "checkpoint.safetensors")["model.0.weight"], "it is the last one")
    # The best weights are those of a training that ends there.
    good("train", *given, "--steps", best, "--quiet", "--out", folder / "short")
    need(have["model.0.weight"] == tensors(folder / "short" / "checkpoint.safetensors")["model.0.weight"], "not those of the best step")
    # It goes on only with more patience.
    need("stopped early" in good("train", "--resume", "--out", folder / "run"), "it went on without a reason")
    good("train", "--resume", "--patience", 8, "--quiet", "--out", folder / "run")
    good("train", *given, "--patience", 8, "--quiet", "--out", folder / "patient")
    need(tensors(folder / "run" / "checkpoint.safetensors") == tensors(folder / "patient" / "checkpoint.safetensors"),
         "with more patience it is another one")


def a_gain_that_is_too_small_is_none(folder):
    given = [*data_of(folder, "numbers"), "--steps", 400, "--eval-every", 10, "--quiet", "--patience", 2]
    good("train", *given, "--least-gain", 50, "--out", folder / "run")
    need(notes(folder / "run")["step"] == "30", f"it stopped after {notes(folder / 'run')['step']}")


def a_killed_training_stops_early_at_the_same_step(folder):
    given = [*noise_of(folder), *OVERFITTING, "--patience", 15, "--ema", 0.5]
    good("train", *given, "--quiet", "--out", folder / "one")
    kill_at(folder / "cut", 70, *given)
    good("train", "--resume", "--quiet", "--threads", 1, "--out", folder / "cut")
    need_same(folder / "one", folder / "cut", "stopped early")


def text_that_stops_early_is_measured_as_a_whole(folder):
    given = [*data_of(folder, "text"), "--lr", 0, "--steps", 500, "--eval-every", 5, "--patience", 2, "--quiet", "--threads", 1]
    good("train", *given, "--out", folder / "run")
    rows = (folder / "run" / "log.tsv").read_text().splitlines()
    need(rows[-1].startswith("15\t"), f"it stopped after {rows[-1]}")
    good("train", *given, "--steps", 15, "--patience", 0, "--out", folder / "other")
    need((folder / "other" / "log.tsv").read_text().splitlines()[-1] == rows[-1], "its last figure is not that of the whole")


def ctrl_c_saves_all_of_it(folder):
    given = [*noise_of(folder), *OVERFITTING, "--patience", 40, "--ema", 0.9, "--precision", "f16"]
    good("train", *given, "--quiet", "--out", folder / "one")
    child = subprocess.Popen([FACULA, "train", "--quiet", "--out", str(folder / "cut"), *map(str, given)],
                             preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    log, deadline = folder / "cut" / "log.tsv", time.monotonic() + 60
    while child.poll() is None and time.monotonic() < deadline and not (log.exists() and log.read_text().count("\n") > 47):
        pass
    child.send_signal(signal.SIGINT)
    need(child.wait() == 130, f"Ctrl-C ended it with {child.returncode}")
    need((folder / "cut" / "report.html").exists() and left(folder / "cut"), "no report of a run that was stopped")
    good("train", "--resume", "--quiet", "--threads", 1, "--out", folder / "cut")
    need_same(folder / "one", folder / "cut", "stopped by Ctrl-C")


if __name__ == "__main__":
    sys.exit(run_checks(dict(globals())))
