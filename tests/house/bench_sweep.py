#!/usr/bin/env python3
"""The sweep: its rows are made for every operator and are calls, it measures beside PyTorch, goes on after a stop, and is reported.

Usage: bench_sweep.py FOLDER, where the built programs bench and bench_limits are. Without PyTorch the part beside it is left out."""
import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import run  # noqa: E402  the path is known only now
import sweep  # noqa: E402
import sweep_rows  # noqa: E402

OPERATOR, ROWS = "aten::logaddexp2", 4


def check_an_end(folder):
    """A Facula that ends is seen at once, so that the next row does not count as one that it refuses, and is spoken of."""
    sides, told = sweep.Sides("", 1), io.StringIO()
    sides.ours = run.Side(["sh", "-c", "read row"], run.environment())
    with contextlib.redirect_stderr(told):
        assert sides.ask_ours("some row", 1) == [] and sides.ours.has_ended()
    assert "Facula ended" in told.getvalue() and "some row" in told.getvalue(), told.getvalue()
    sides.ours = run.Side([str(folder / "bench"), "--serve"], run.environment(), subprocess.DEVNULL)
    with contextlib.redirect_stderr(told := io.StringIO()):
        assert sides.ask_ours("aten::relu()", 1) == [] and not sides.ours.has_ended() and not told.getvalue()
        assert len(sides.ask_ours("aten::relu(f32[8])", 1)) == 7
    sides.ours.process.kill()


def main():
    folder = pathlib.Path(sys.argv[1])
    calls = sweep_rows.calls()
    without = [o for o, bases in calls.items() if not list(sweep_rows.candidates(o, bases, 0)) and any(c.extents() for c in bases)]
    assert len(calls) > 700 and len(without) < 40, without
    first = list(sweep_rows.candidates(OPERATOR, calls[OPERATOR], 0))
    assert first == list(sweep_rows.candidates(OPERATOR, calls[OPERATOR], 0)), "two runs choose differently"
    for factor, values in enumerate(sweep_rows.FACTORS):
        assert {c[factor] for c, _, _ in first} == set(values), "a value never comes up"
    texts = [text for _, _, text in first if "4194304" not in text and "1048576" not in text and "bool" not in text]
    assert len(texts) > 50
    done = subprocess.run([folder / "bench", "--call", *texts], stderr=subprocess.PIPE, text=True, check=False)
    refused = [line for line in done.stderr.splitlines() if "dtype" not in line and line.startswith(("aten", "grad"))]
    assert not refused, refused
    check_an_end(folder)
    if not run.start_torch(1)[0]:
        print("PyTorch is not installed: only the rows were looked at")
        return
    with tempfile.TemporaryDirectory() as made:
        table, page = pathlib.Path(made) / "sweep.tsv", pathlib.Path(made) / "sweep.html"
        command = [sys.executable, BENCH / "sweep.py", folder, table, "--grep", OPERATOR, "--rows", str(ROWS), "--milliseconds", "1"]
        for again in range(2):  # the second finds the operator to be the last, which may not have been finished
            subprocess.run(command, check=True)
            lines = table.read_text().splitlines()
            assert len(lines) == 3 + 2 * ROWS and all(len(line.split("\t")) == 13 for line in lines[2:]), (again, lines)
        done = subprocess.run([*command, "--threads", "2"], stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 1 and "1, 2 threads" in done.stderr and table.read_text().splitlines() == lines, done
        report = subprocess.run([sys.executable, BENCH / "sweep_report.py", table, "--limits", folder, "--html", page, "--below", "1000"],
                                check=True, stdout=subprocess.PIPE, text=True).stdout
        assert report.count(OPERATOR) == 2 * ROWS and page.read_text().count("<code>") == 2 * ROWS, report
    print(f"{len(calls)} operators, {sum(len(list(sweep_rows.candidates(o, b, 0))) for o, b in calls.items())} rows")


if __name__ == "__main__":
    main()
