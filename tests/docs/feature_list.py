#!/usr/bin/env python3
"""scripts/features.py over a list of its own: what it prints of features that are proven, fail, are skipped, hold in part or
have no test."""
import contextlib
import io
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import features  # noqa: E402

ROWS = """
| S-001 | proven | torch | C |
| S-002 | fails | torch | C |
| S-003 | holds in part | torch | C |
| S-004 | waits for a device | torch | C/G |
| S-005 | only skipped | torch | G |
| E-06 | has no test | torch | C |
| X-07 | holds in part, on a device | torch | F/G |
"""
PARTLY = """
## Partly

| id | what is missing |
|---|---|
| S-003 | the other half |
| X-07 | the simulator's |
"""
TESTS = {"S001_one": "ok", "S002_two": "FAILED", "S001_S003_three": "ok", "S004_four": "ok", "S005_five": "skipped", "X07_seven": "ok"}


def run(text):
    """What is printed for a list, and whether a feature fails."""
    with tempfile.TemporaryDirectory() as folder:
        features.ROOT = pathlib.Path(folder)
        (features.ROOT / "docs").mkdir()
        (features.ROOT / "docs" / "features.md").write_text(text)
        tests = {}
        for name, result in TESTS.items():
            for key in features.ids(name):
                tests.setdefault(key, []).append((name, result))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            failed = features.show_all(features.features(), tests, True)
        return out.getvalue().splitlines(), failed


def a_feature_that_holds_in_part_shows_what_is_missing_and_is_not_counted():
    lines, failed = run(ROWS + PARTLY)
    assert failed
    assert "S-003  ok          S001_S003_three" in lines, lines
    assert "S-003  partly      missing: the other half" in lines, lines
    assert lines[-1] == "2 of 7 features are proven by a test, 1 of these need a GPU too; 2 hold in part; 1 fail", lines[-1]


def nothing_waits_for_a_device_while_part_of_it_is_missing():
    lines, _ = run(ROWS + PARTLY)
    assert any(line.startswith("S-004  needs a GPU") for line in lines), lines
    assert not any(line.startswith("X-007  needs a GPU") for line in lines), lines


def without_the_list_the_same_features_count():
    lines, _ = run(ROWS)
    assert lines[-1] == "4 of 7 features are proven by a test, 2 of these need a GPU too; 0 hold in part; 1 fail", lines[-1]
    assert "E-006  no test     has no test" in lines, lines


def a_part_of_no_feature_is_an_error():
    try:
        run(ROWS + PARTLY + "| S-099 | everything |\n")
    except SystemExit as stop:
        assert "S-099" in str(stop), stop
    else:
        raise AssertionError("S-099 was taken")


def main():
    for check in (a_feature_that_holds_in_part_shows_what_is_missing_and_is_not_counted,
                  nothing_waits_for_a_device_while_part_of_it_is_missing, without_the_list_the_same_features_count,
                  a_part_of_no_feature_is_an_error):
        check()
        print("ok", check.__name__)


if __name__ == "__main__":
    main()
