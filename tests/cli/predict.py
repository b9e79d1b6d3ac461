#!/usr/bin/env python3
"""Usage: predict.py FACULA: what `facula predict` makes of runs on tables and images is what their training measured, and what a
network of these weights gives by hand; and files, formats and mistakes.

Each function below is a check. Prints one line per check, and ends with 1 if any failed.
"""
import csv
import io
import json
import math
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys

from program import (FACULA, call, good, need, notes, refused, run_checks, tensors, write_flowers, write_houses, write_images, write_png,
                     write_text)
from run_folder import rewrite

HERE = pathlib.Path(__file__).resolve().parent


def houses_run(at, *more):
    good("train", "--csv", write_houses(at / "houses.csv"), "--target", "price", "--drop", "id", "--test-csv",
         write_houses(at / "test.csv", 60, 9), "--epochs", 8, "--lr", "0.005", "--threads", 1, "--quiet", "--out", at / "run", *more)
    return at / "run"


def flowers_run(at, *more):
    good("train", "--csv", write_flowers(at / "flowers.csv"), "--target", "kind", "--test-csv", write_flowers(at / "test.csv", 90, 7),
         "--epochs", 8, "--lr", "0.01", "--threads", 1, "--quiet", "--out", at / "run", *more)
    return at / "run"


def images_run(at, *more):
    good("train", "--images", write_images(at / "images"), "--test-images", write_images(at / "test", 7, 8), "--size", 12, "--steps", 60,
         "--warmup", 5, "--batch", 16, "--threads", 1, "--quiet", "--out", at / "run", *more)
    return at / "run"


def predict(*arguments, **more):
    """Rows, each a dict, and what stands on stderr."""
    done = call("predict", "--json", *arguments, **more)
    need(done.returncode == 0, f"{arguments}: exit status {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def near(a, b, tolerance=2e-6):
    return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)


def last_validation(run):
    return float((run / "log.tsv").read_text().splitlines()[-1].split("\t")[2])


def rows_of(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


# ---- tables --------------------------------------------------------------------------------------------------------------


def forward(run, x):
    """The network by hand, in double precision."""
    weights = {name[6:]: struct.unpack(f"<{len(v) // 4}f", v) for name, v in tensors(run / "checkpoint.safetensors").items()
               if name.startswith("model.")}
    layers = sorted({int(name.split(".")[0]) for name in weights})
    for layer in layers:
        w, b = weights[f"{layer}.weight"], weights[f"{layer}.bias"]
        x = [sum(v * y for v, y in zip(w[i * len(x):(i + 1) * len(x)], x)) + b[i] for i in range(len(b))]
        if layer != layers[-1]:
            x = [max(v, 0) for v in x]
    return x


def inputs_of(run, row):
    """What columns.tsv says that the network takes of a row."""
    lines = [line.split("\t") for line in (run / "columns.tsv").read_text().splitlines()[1:]]
    return [float(row[column] == text) if text != "-" else (float(row[column]) - float(mean)) / float(deviation)
            for _, column, text, mean, deviation in lines]


def numbers_are_those_of_the_training(folder):
    run = houses_run(folder)
    said, _ = predict("--metrics", folder / "m.json", run, folder / "test.csv")
    saved, truth = notes(run), rows_of(folder / "test.csv")
    mean, deviation = float(saved["target_mean"]), float(saved["target_deviation"])
    need([row["row"] for row in said] == list(range(1, 61)) and {row["file"] for row in said} == {str(folder / "test.csv")}, said[:3])
    for row, is_ in zip(said, truth):
        by_hand = forward(run, inputs_of(run, is_))[0] * deviation + mean
        need(near(row["prediction"], by_hand, 1e-5), f"{row}: by hand it is {by_hand}")
    errors = [row["prediction"] - float(is_["price"]) for row, is_ in zip(said, truth)]
    figures = json.loads((folder / "m.json").read_text())
    squares = sum(e * e for e in errors) / 60
    need(figures["known"] == 60 and figures["unknown"] == 0, figures)
    need(near(figures["root_mean_square_error"], math.sqrt(squares), 1e-5), figures)
    need(near(figures["mean_absolute_error"], sum(map(abs, errors)) / 60, 1e-5), figures)
    need(near(squares / deviation ** 2, last_validation(run), 1e-4), f"{squares / deviation ** 2}, in the log {last_validation(run)}")
    prices = [float(row["price"]) for row in truth]
    spread = sum((p - sum(prices) / 60) ** 2 for p in prices) / 60
    need(near(figures["R2"], 1 - squares / spread, 1e-5) and 0.5 < figures["R2"] < 1, figures)


def classes_are_those_of_the_training(folder):
    run = flowers_run(folder)
    said, told = predict("--top", 9, "--metrics", folder / "m.json", run, folder / "test.csv")
    truth = rows_of(folder / "test.csv")
    for row, is_ in zip(said, truth):
        p = [row[f"probability{end}"] for end in ("", "_2", "_3")]
        need("class_4" not in row and near(sum(p), 1) and sorted(p, reverse=True) == p, row)
        out = forward(run, inputs_of(run, is_))
        by_hand = math.exp(max(out)) / sum(map(math.exp, out))
        need(row["class"] == ("setosa", "versicolor", "virginica")[out.index(max(out))] and near(p[0], by_hand, 1e-5), f"{row}: {by_hand}")
    right = sum(row["class"] == is_["kind"] for row, is_ in zip(said, truth)) / 90
    figures = json.loads((folder / "m.json").read_text())
    need(near(figures["accuracy"], right) and 0.7 < right and near(figures["loss"], last_validation(run), 1e-5),
         f"{figures}: counted {right}, in the log {last_validation(run)}")
    need(f"of 90 rows whose answer is known: accuracy {100 * right:.2f}%" in told, told)
    printed = good("train", "--resume", "--steps", int(notes(run)["step"]) + 1, "--lr", 0, "--out", run)
    need(f"accuracy {100 * right:.2f}%" in printed, printed)
    need(good("predict", "--quiet", "--batch", 7, "--threads", 2, run, folder / "test.csv").splitlines()[1:]
         == good("predict", run, folder / "test.csv").splitlines()[1:], "batches or threads change the result")


def columns_are_found_by_name(folder):
    run = houses_run(folder)
    truth = rows_of(folder / "test.csv")
    wanted = [row["prediction"] for row in predict(run, folder / "test.csv")[0]]
    other = ["district,comment,area,rooms"] + [f"{r['district']},\"a, b\",{r['area']},{r['rooms']}" for r in truth]
    (folder / "other.csv").write_text("\n".join(other) + "\n")
    said, told = predict("--keep", "comment,area", run, folder / "other.csv")
    need([row["prediction"] for row in said] == wanted and told == "", f"{told}{said[:2]}")
    need(list(said[0]) == ["file", "row", "comment", "area", "prediction"] and said[0]["comment"] == "a, b", said[0])
    refused("predict", "--keep", "price", run, folder / "other.csv", status=1, words=["other.csv", "'price'", "--keep"])
    # An answer that is not there, or is none, does not count.
    lines = (folder / "test.csv").read_text().splitlines()
    (folder / "part.csv").write_text("\n".join([lines[0], lines[1], lines[2].rsplit(",", 1)[0] + ",", lines[3].rsplit(",", 1)[0] + ",?"]))
    said, told = predict(run, folder / "part.csv")
    need(len(said) == 3 and "of 1 row whose answer is known: mean error" in told and "; 1 row has no answer" in told, told)
    refused("predict", "--metrics", folder / "m.json", run, folder / "other.csv", status=1, words=["--metrics", "'price'"])


def standard_input_is_a_table(folder):
    run = houses_run(folder)
    text = (folder / "test.csv").read_text()
    wanted = good("predict", run, folder / "test.csv").replace(str(folder / "test.csv"), "-")
    need(good("predict", run, "-", input=text) == wanted, "through a pipe")
    with open(folder / "test.csv") as table:
        need(good("predict", run, "-", stdin=table) == wanted, "as a file")
    refused("predict", run, "-", status=1, words=["/dev/stdin", "fields"], input="rooms,area\n1\n")


def any_bytes_stand_in_names(folder):
    """Names of columns, texts and classes with separators, quotes, controls and what is no UTF-8."""
    names = [b'a "quoted"', b"tab\there", b"two\nlines", b"back\\x41slash", b"caf\xe9", "größe".encode(), b"", b"c,omma"]
    rows = [b'"x\\y","col\tumn","a\nb"']
    rows += [b'%d,"%s","%s"' % (i % 5, names[i % 8].replace(b'"', b'""'), names[i % 8].replace(b'"', b'""')) for i in range(160)]
    (folder / "odd.csv").write_bytes(b"\n".join(rows) + b"\n")
    good("train", "--csv", folder / "odd.csv", "--target", "a\nb", "--epochs", 30, "--lr", "0.02", "--quiet", "--out", folder / "run")
    said, told = predict(folder / "run", folder / "odd.csv")
    need("accuracy 100.00%" in told, told)
    need([row["class"] for row in said[:8]] == [n.decode(errors="replace") for n in names], said[:8])
    done = subprocess.run([FACULA, "predict", "--format", "csv", "--keep", "col\tumn", folder / "run", folder / "odd.csv"],
                          capture_output=True, check=True)
    table = list(csv.reader(io.StringIO(done.stdout.decode("latin-1"), newline="")))
    need(table[0] == ["file", "row", "col\tumn", "class", "probability"], table[0])
    need([row[2:4] for row in table[1:9]] == [[n.decode("latin-1")] * 2 for n in names], table[1:9])
    need(all(line.count("\t") == 3 for line in good("predict", folder / "run", folder / "odd.csv").splitlines()), "separators in a field")


def columns_to_keep_may_have_any_name(folder):
    """In JSON, one that would take the place of another value of the row is refused."""
    run = flowers_run(folder)
    lines = (folder / "test.csv").read_bytes().splitlines()[:3]
    names = [b"c" * 300 + b"1", b"c" * 300 + b"2", b"caf\xe9", b"class"]
    (folder / "kept.csv").write_bytes(b"".join(line + b"," + b",".join(more) + b"\n"
                                               for line, more in zip(lines, (names, [b"1", b"2", b"3", b"4"], [b"5", b"6", b"7", b"8"]))))
    said, _ = predict("--keep", b",".join(names[:3]).decode(errors="surrogateescape"), run, folder / "kept.csv")
    need([said[1][name] for name in ("c" * 300 + "1", "c" * 300 + "2", "caf\ufffd")] == ["5", "6", "7"], said[1])
    refused("predict", "--json", "--keep", "class", run, folder / "kept.csv", status=1, words=["two values", "'class'", "--format csv"])
    refused("predict", "--json", "--keep", "petal,petal", run, folder / "kept.csv", status=1, words=["two values", "'petal'"])
    table = list(csv.reader(io.StringIO(good("predict", "--format", "csv", "--keep", "class", run, folder / "kept.csv"))))
    need(table[0] == ["file", "row", "class", "class", "probability"] and [row[2] for row in table[1:]] == ["4", "8"], table)


def tables_that_do_not_fit_are_named(folder):
    run = houses_run(folder)
    head, *rows = (folder / "test.csv").read_text().splitlines()
    for name, text, words in (("column", "rooms,area\n1,2\n", ["no column 'district'"]),
                              ("text", f"{head}\nh,1,2,moon,5\n", ["'moon'", "row 1", "'district'", "not in the training data"]),
                              ("number", f"{head}\nh,1,x,south,5\n", ["'area'"]), ("far", f"{head}\nh,1,1e300,south,5\n", ["'area'", "'1e300'", "too far from"]),
                              ("hole", f"{head}\nh,,2,south,5\n", ["'rooms'", "row 1"]),
                              ("ragged", f"{head}\nh,1\n", ["fields"]), ("empty", "", []), ("heading", head, ["no rows"])):
        (folder / f"{name}.csv").write_text(text)
        refused("predict", run, folder / f"{name}.csv", status=1, words=[f"{name}.csv", *words])
    done = call("predict", run, folder / "none.csv", folder / "test.csv", folder / "text.csv", folder / "test.csv", folder)
    need(done.returncode == 1 and done.stdout.count("\n") == 121, f"{done.returncode}: {done.stdout.count(chr(10))} lines")
    need([w in done.stderr for w in ("none.csv", "text.csv", f"'{folder}'", "of 120 rows")] == [True] * 4, done.stderr)
    good("train", "--resume", "--steps", int(notes(run)["step"]) + 1, "--quiet", "--out", run)
    shutil.copy(run / "checkpoint.safetensors", folder / "changed.safetensors")
    rewrite(folder / "changed.safetensors", lambda meta: meta.update(target_mean="-nan"))
    need(all(line.endswith("\tnan") for line in good("predict", folder / "changed.safetensors", folder / "test.csv").splitlines()[1:]),
         "what is no number has a sign")
    run = houses_run(folder, "--missing", "mean")
    said, _ = predict(run, folder / "hole.csv")
    (folder / "mean.csv").write_text((folder / "hole.csv").read_text().replace("h,,", f"h,{mean_of(run, 'rooms')},"))
    need(near(predict(run, folder / "mean.csv")[0][0]["prediction"], said[0]["prediction"]), "an empty number is not the mean")


def mean_of(run, column):
    return next(line.split("\t")[3] for line in (run / "columns.tsv").read_text().splitlines() if line.split("\t")[1] == column)


# ---- images --------------------------------------------------------------------------------------------------------------


def images_are_those_of_the_training(folder):
    run = images_run(folder)
    said, told = predict("--top", 3, run, folder / "test")
    files = [str(p) for p in sorted((folder / "test").rglob("*.png"))]
    need([row["file"] for row in said] == files and told == "", f"another order: {told}{[row['file'] for row in said]}")
    right = sum(row["class"] == pathlib.Path(row["file"]).parent.name for row in said) / 21
    loss = sum(-math.log(row[f"probability{end}"]) for row in said for end in ("", "_2", "_3")
               if row["class" + end] == pathlib.Path(row["file"]).parent.name) / 21
    printed = good("train", "--resume", "--steps", 61, "--lr", 0, "--out", run)
    need(f"accuracy {100 * right:.2f}%" in printed and right > 0.7, f"{right}: {printed}")
    need(near(loss, last_validation(run), 1e-5), f"{loss}, in the log {last_validation(run)}")
    shutil.copytree(folder / "test" / "red", folder / "test" / "violet")
    _, told = predict("--metrics", folder / "m.json", run, folder / "test")
    figures = json.loads((folder / "m.json").read_text())
    need(figures["known"] == 21 and figures["unknown"] == 7 and near(figures["accuracy"], right) and near(figures["loss"], loss, 1e-5)
         and "of 21 images whose" in told and "; 7 images have no answer" in told, f"{figures}{told}")
    refused("predict", "--metrics", folder / "m.json", run, folder / "test" / "violet", status=1, words=["--metrics", "no image"])
    for n in (1, 5):
        for one, two in zip(said, predict("--top", 3, "--batch", n, run, *files)[0]):
            need(one["class"] == two["class"] and near(one["probability"], two["probability"], 1e-5), f"batches of {n}: {one} {two}")


def folders_are_searched_below(folder):
    run = images_run(folder)
    for name in ("b/z.PNG", "b/a/x.jpeg.png", "a.png", "c/.hidden.png", "c/notes.txt", "b/a.png"):
        (folder / "more" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "test" / "red" / "000.png", folder / "more" / name)
    (folder / "more" / "b" / "circle").symlink_to(folder / "more")
    (folder / "more" / "link.png").symlink_to(folder / "more" / "a.png")
    said, _ = predict(run, f"{folder}/more//", folder / "test" / "blue" / "001.png", folder / "more" / "c" / ".hidden.png")
    need([row["file"][len(str(folder)) + 1:] for row in said]
         == ["more/a.png", "more/b/a/x.jpeg.png", "more/b/a.png", "more/b/z.PNG", "more/link.png", "test/blue/001.png",
             "more/c/.hidden.png"], said)
    refused("predict", run, folder / "more" / "c", status=1, words=["/c'", "no PNG or JPEG"])
    refused("predict", run, "-", words=["standard input", "tables"])


def paths_that_are_too_long_are_named(folder):
    run, deep = images_run(folder), folder / "deep"
    deep.mkdir()
    shutil.copy(folder / "test" / "red" / "000.png", deep)
    place = os.open(deep, os.O_RDONLY)
    try:
        for _ in range(2100):
            os.mkdir("d", dir_fd=place)
            above, place = place, os.open("d", os.O_RDONLY, dir_fd=place)
            os.close(above)
        done = call("predict", run, deep)
        need(done.returncode == 1 and "is too long" in done.stderr and done.stdout.count("\n") == 2, f"{done.returncode}: {done.stderr}")
    finally:
        os.close(place)
        subprocess.run(["rm", "-rf", deep], check=True)


def idx_files_are_those_of_the_training(folder):
    for name, n in (("train", 400), ("test", 100)):
        (folder / name).mkdir()
        subprocess.run([sys.executable, HERE / "draw_digits.py", folder / name, str(n)], check=True)
    good("train", "--images", folder / "train" / "images.idx", "--labels", folder / "train" / "labels.idx", "--test-images",
         folder / "test" / "images.idx", "--test-labels", folder / "test" / "labels.idx", "--steps", 80, "--warmup", 5, "--quiet", "--out",
         folder / "run")
    said, _ = predict(folder / "run", folder / "test" / "images.idx")
    labels = (folder / "test" / "labels.idx").read_bytes()[8:]
    right = sum(row["class"] == str(is_) for row, is_ in zip(said, labels))
    printed = good("train", "--resume", "--steps", 81, "--lr", 0, "--out", folder / "run")
    need(f"accuracy {right:.2f}%" in printed and 60 < right, f"{right} of 100: {printed}")
    need([row["index"] for row in said] == list(range(100)), "indices")
    lines = good("predict", folder / "run", folder / "test" / "images.idx.gz").splitlines()
    need(lines[0] == "file\tclass\tprobability", lines[0])
    need([line.split("\t")[:2] for line in lines[1:]]
         == [[f"{folder}/test/images.idx.gz:{row['index']}", row["class"]] for row in said], lines[:3])
    # A grey image of any size is brought to that of the run.
    pixels = (folder / "test" / "images.idx").read_bytes()[16:16 + 256]
    write_png(folder / "same.png", 16, 16, bytes(v for p in pixels for v in (p, p, p)))
    same, _ = predict(folder / "run", folder / "same.png")
    need(same[0]["class"] == said[0]["class"] and near(same[0]["probability"], said[0]["probability"], 1e-3), f"{same[0]} {said[0]}")
    write_png(folder / "wide.png", 50, 31, bytes(3 * 50 * 31))
    predict(folder / "run", folder / "wide.png")
    (folder / "other.idx").write_bytes(struct.pack(">4I", 0x803, 2, 16, 15) + bytes(480))
    refused("predict", folder / "run", folder / "other.idx", status=1, words=["other.idx", "16 x 15", "16 x 16"])
    refused("predict", folder / "run", folder / "test" / "labels.idx", status=1, words=["labels.idx", "does not hold images"])
    (folder / "cut.idx").write_bytes((folder / "test" / "images.idx").read_bytes()[:1000])
    refused("predict", folder / "run", folder / "cut.idx", status=1, words=["cut.idx"])
    refused("predict", images_run(folder / "colours"), folder / "test" / "images.idx", status=1, words=["grey", "colours"])


def damaged_images_do_not_stop_the_others(folder):
    run = images_run(folder)
    path = folder / "test" / "green" / "003.png"
    path.write_bytes(path.read_bytes()[:60])
    (folder / "test" / "green" / "004.jpg").write_text("no image")
    done = call("predict", run, folder / "test", folder / "absent.png", folder / "test" / "red" / "000.png")
    need(done.returncode == 1, f"exit status {done.returncode}")
    need(done.stdout.count("\n") == 1 + 20 + 1 and "green/003.png" not in done.stdout, done.stdout)
    lines = done.stderr.splitlines()
    need(len(lines) == 3 and "green/003.png" in lines[0] and "green/004.jpg" in lines[1] and "absent.png" in lines[2], done.stderr)


# ---- the run -------------------------------------------------------------------------------------------------------------


def a_run_is_enough(folder):
    """It may be somewhere else, without its data."""
    (folder / "here").mkdir()
    run = flowers_run(folder / "here")
    wanted = good("predict", run, folder / "here" / "test.csv").replace(str(folder / "here" / "test.csv"), "test.csv")
    (folder / "there").mkdir()
    shutil.copy(run / "checkpoint.safetensors", folder / "there" / "my.safetensors")
    shutil.move(folder / "here" / "test.csv", folder / "there" / "test.csv")
    shutil.move(run, folder / "there" / "run")
    shutil.rmtree(folder / "here")
    need(good("predict", "run", "test.csv", cwd=folder / "there") == wanted, "the run elsewhere")
    need(good("predict", "my.safetensors", "test.csv", cwd=folder / "there") == wanted, "its checkpoint alone")


def weights_are_chosen(folder):
    run = houses_run(folder, "--ema", "0.9", "--patience", 50, "--eval-every", 5)
    said = {w: predict(*(["--weights", w] if w else []), run, folder / "test.csv")[0] for w in ("", "ema", "last", "best")}
    need(said[""] == said["ema"] and said["last"] != said["ema"], "the mean is not what is used")
    by_hand = forward(run, inputs_of(run, rows_of(folder / "test.csv")[0]))[0]
    saved = notes(run)
    need(near(said["last"][0]["prediction"], by_hand * float(saved["target_deviation"]) + float(saved["target_mean"]), 1e-5),
         "the last weights are others")
    need(predict(run / "best.safetensors", folder / "test.csv")[0] == said["best"], "best.safetensors")
    need(predict("--weights", "best", run / "best.safetensors", folder / "test.csv")[0] == said["best"], "the best of best.safetensors")
    refused("predict", "--weights", "best", run / "checkpoint.safetensors", folder / "test.csv", words=["--weights best", "one checkpoint"])
    _, told = predict("--metrics", folder / "m.json", "--weights", "best", run, folder / "test.csv")
    squares = json.loads((folder / "m.json").read_text())["root_mean_square_error"] ** 2
    need(near(squares / float(saved["target_deviation"]) ** 2, float(saved["best_loss"]), 1e-4), f"{told}, best {saved['best_loss']}")
    plain = houses_run(folder / "plain") if (folder / "plain").mkdir() is None else None
    refused("predict", "--weights", "ema", plain, folder / "test.csv", status=1, words=["no mean", "--ema"])
    refused("predict", "--weights", "best", plain, folder / "test.csv", status=1, words=["no best", "--patience"])


def half_precision_is_that_of_the_training(folder):
    run = flowers_run(folder, "--precision", "bf16")
    predict("--metrics", folder / "m.json", run, folder / "test.csv")
    need(near(json.loads((folder / "m.json").read_text())["loss"], last_validation(run), 1e-5), "another loss")


def set_shape(path, name, shape):
    """Cuts a float32 tensor of a checkpoint to the first numbers, those of a shape."""
    raw, kept = tensors(path), path.read_bytes()
    head = json.loads(kept[8:8 + struct.unpack("<Q", kept[:8])[0]])
    raw[name], head[name]["shape"], at = raw[name][:4 * math.prod(shape)], shape, 0
    for key, data in raw.items():
        head[key]["data_offsets"], at = [at, at + len(data)], at + len(data)
    head["__metadata__"].pop("facula.crc32", None)
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(raw.values()))


def what_is_no_such_run_is_refused(folder):
    write_text(folder / "text")
    good("train", "--steps", 2, "--batch", 2, "--dim", 16, "--heads", 2, "--layers", 1, "--sample", 0, "--quiet", "--out",
         folder / "words", folder / "text")
    refused("predict", folder / "words", folder / "text", status=1, words=["text model", f"facula generate {folder}/words"])
    refused("predict", folder, folder / "text", status=1, words=[f"'{folder}' is not the run of a training", "checkpoint.safetensors"])
    refused("predict", folder / "none", folder / "text", status=1, words=["cannot find the run", "none"])
    refused("predict", folder / "text", folder / "text", status=1, words=["text"])
    run = flowers_run(folder)
    refused("predict", words=["which run"])
    refused("predict", run, words=["give files"])
    refused("predict", "--nonsense", run, folder / "test.csv", words=["no option '--nonsense'"])
    refused("predict", "--top", 0, run, folder / "test.csv", words=["--top takes a whole number from 1"])
    refused("predict", "--json", "--format", "csv", run, folder / "test.csv", words=["--json"])
    refused("predict", "--device", "cuda:99", run, folder / "test.csv", status=1)
    rewrite(run / "checkpoint.safetensors", lambda meta: meta.pop("inputs"))
    refused("predict", run, folder / "test.csv", status=1, words=["does not say what its inputs are", "--resume --steps"])
    good("train", "--resume", "--steps", int(notes(run)["step"]) + 1, "--quiet", "--out", run)
    good("predict", run, folder / "test.csv")
    for change, word in ((lambda m: m.update(inputs="number\tpetal\tx\t1\t\n"), "inputs"), (lambda m: m.update(inputs=""), "inputs"),
                         (lambda m: m.update(class_names="a\nb\n"), "model.6.weight"), (lambda m: m.update(hidden="65536,65536"), "model.0.weight"), (lambda m: m.pop("kind"), "what was trained")):
        shutil.copy(run / "checkpoint.safetensors", folder / "changed.safetensors")
        rewrite(folder / "changed.safetensors", change)
        refused("predict", folder / "changed.safetensors", folder / "test.csv", status=1, words=[word])
    run = houses_run(folder)
    refused("predict", "--top", 2, run, folder / "test.csv", words=["--top", "numbers"])
    run = images_run(folder / "images")
    refused("predict", "--keep", "a", run, folder / "test.csv", words=["--keep", "images"])
    rewrite(run / "checkpoint.safetensors", lambda meta: meta.update(height="400000", width="400000"))
    refused("predict", run, folder / "images" / "test", status=1, words=["model.7.weight"])
    rewrite(run / "checkpoint.safetensors", lambda meta: meta.update(height="12", width="12", classes="0", class_names=""))
    set_shape(run / "checkpoint.safetensors", "model.10.weight", [0, 128])
    set_shape(run / "checkpoint.safetensors", "model.10.bias", [0])
    refused("predict", run, folder / "images" / "test", status=1, words=["says classes = 0"])


# ---- output --------------------------------------------------------------------------------------------------------------


def a_file_is_replaced_as_a_whole(folder):
    run = flowers_run(folder)
    wanted = good("predict", run, folder / "test.csv")
    out = folder / "out.tsv"
    out.write_text("old")
    need(good("predict", "--out", out, run, folder / "test.csv") == "" and out.read_text() == wanted, "--out")
    done = call("predict", "--out", out, run, folder / "none.csv", folder / "test.csv")
    need(done.returncode == 1 and out.read_text() == wanted, "what could be predicted was not written")
    refused("predict", "--out", folder / "no" / "folder", run, folder / "test.csv", status=1, words=["no/folder"])
    need(good("predict", "--out", "-", run, folder / "test.csv") == wanted, "--out -")
    need(json.loads(good("predict", "--out", out, "--metrics", "-", run, folder / "test.csv", cwd=folder))["known"] == 90
         and not (folder / "-").exists(), "--metrics -")
    for where in (["--metrics", "-"], ["--out", "-", "--metrics", "-"], ["--out", out, "--metrics", out]):
        refused("predict", *where, run, folder / "test.csv", words=["both go to"])
    need(out.read_text() == wanted, "the file was replaced by figures")
    need(not list(folder.glob("*.tmp")), "temporary files are left")
    with open("/dev/full", "w") as full:
        done = subprocess.run([FACULA, "predict", run, folder / "test.csv"], stdout=full, stderr=subprocess.PIPE, text=True)
    need(done.returncode == 1 and "cannot write" in done.stderr, f"a full disk goes unnoticed: {done.stderr}")


def ctrl_c_ends_in_good_order(folder):
    """The reader takes nothing until the signal is sent, so that the pipe is full and not all can have been predicted."""
    run = flowers_run(folder)
    write_flowers(folder / "large.csv", 30000)
    child = subprocess.Popen([FACULA, "predict", run, folder / "large.csv"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first = child.stdout.readline()
    child.send_signal(signal.SIGINT)
    rest, told = child.communicate(timeout=60)
    need(child.returncode == 130 and first.startswith("file\t") and told == "", f"{child.returncode}: {told}")
    need(rest.endswith("\n") and rest.count("\n") < 30000, f"{rest.count(chr(10))} rows")


def a_progress_bar_is_for_terminals(folder):
    import pty
    run = flowers_run(folder)
    write_flowers(folder / "large.csv", 20000)
    master, slave = pty.openpty()
    with open(folder / "out", "w") as out:
        done = subprocess.run([FACULA, "predict", run, folder / "large.csv"], stdout=out, stderr=slave, timeout=60)
    os.close(slave)
    told = os.read(master, 1 << 16).decode()
    os.close(master)
    need(done.returncode == 0 and "sample " in told and "20000 rows" in told, told)
    need("\r" not in (folder / "out").read_text() and call("predict", run, folder / "large.csv").stderr.count("\n") == 1, "a bar elsewhere")


def the_help_lists_what_there_is(folder):
    text = good("predict", "--help")
    page = (HERE.parents[1] / "docs" / "man" / "facula-predict.1").read_text().replace("\\-", "-")
    options = set(re.findall(r"^  (--[a-z]+)", text, re.M))
    need(len(options) == 11 and all(f" {o}" in page for o in options), f"{options}: some are not in the man page")
    need("  predict " in good("--help"), "facula --help")
    for option in options - {"--json", "--quiet"}:
        refused("predict", option, words=[f"{option} needs a value"])


def the_worked_examples_work(folder):
    examples = HERE.parents[1] / "apps" / "facula" / "examples"
    with open(folder / "houses.csv", "w") as table:
        subprocess.run(["awk", "-f", examples / "houses.awk"], stdout=table, check=True)
    subprocess.run([sys.executable, examples / "shapes.py", folder / "shapes", "40"], check=True)
    good("train", "--config", examples / "houses.yaml", "--quiet", cwd=folder)
    good("train", "--config", examples / "shapes.yaml", "--epochs", 3, "--quiet", cwd=folder)
    commands = re.findall(r"^    \$ (.*\bfacula predict .*)$", (HERE.parents[1] / "docs" / "training.md").read_text(), re.M)
    need(len(commands) == 4, f"the guide has {commands}")
    path = folder / "bin"
    path.mkdir()
    (path / "facula").symlink_to(pathlib.Path(FACULA).resolve())
    for command in commands:
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}"})
        need(done.returncode == 0, f"{command}: {done.stderr}")


if __name__ == "__main__":
    sys.exit(run_checks(dict(globals())))
