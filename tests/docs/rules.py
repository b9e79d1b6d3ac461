#!/usr/bin/env python3
"""The interface keeps its own rules, function by function: names, ways to fail, whose results are: rules.py API_JSON."""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "reference"))
import ownership  # noqa: E402

OUT = re.compile(r"^(fac_tensor \*\*|(double|int64_t|bool|size_t|int|uint64_t) \*)$")
# By its comment it is read and written, and so no result.
IN_AND_OUT = {("fac_corpus_batch", "state")}
NUMBERS = ("int64_t", "double", "bool", "int", "size_t")
FAILURE = re.compile(r"error (is )?pending|\b(gives?|returns?|is) (0|zeros?|-1|false|NaN)\b|which is then pending", re.I)
MAKES = re.compile(r"_(new|copy|open)$")
# Plain data, or streams, which are never destroyed.
NOT_RELEASED = {"fac_stream", "fac_status", "fac_tensor *", "fac_value"}


def names_say_whose_they_are(api):
    for f in api["functions"] + api["inline_functions"]:
        assert re.fullmatch(r"fac_[a-z][a-z0-9_]*(_H)?", f["name"]), f["name"]  # matrix_H is PyTorch's
    for t in api["types"]:
        assert not t["name"] or re.fullmatch(r"fac_[a-z][a-z0-9_]*", t["name"]), t["name"]
        for e in t.get("enumerators", []):
            assert re.fullmatch(r"FAC_[A-Z0-9_]+", e["name"]), e["name"]
    for m in api["macros"]:
        assert re.fullmatch(r"FACULA_VERSION_\w+|FAC_[A-Z0-9_]+|fac_[a-z][a-z0-9_]*", m["name"]), m["name"]


def parts_of_names_are_the_headers_nouns(api):
    """A new object is released by a function of the same noun: fac_module_new, fac_module_release."""
    names = {f["name"] for f in api["functions"]}
    for f in api["functions"]:
        if f["kind"] == "function" and MAKES.search(f["name"]) and f["result"] not in NOT_RELEASED and f["result"] != "void *":
            noun = f["result"].rstrip("* ")
            assert any(f"{noun}_{verb}" in names for verb in ("release", "free", "close")), f"{f['name']}: nothing lets go of a {noun}"
            assert ownership.RELEASE.get(f["result"]) in names, f["name"]


def failures_can_be_seen(api):
    """What may fail returns a status or a pointer, or else the comment, or its header's, says what a failure looks like."""
    headers = {h["name"]: h["doc"] for h in api["headers"]}
    for f in api["functions"]:
        if f["kind"] == "function" and re.search(r"\berrors:", f["doc"]) and f["result"] in NUMBERS:
            assert FAILURE.search(" ".join(f"{f['doc']} {headers[f['header']]}".split())), f"{f['name']}: what does a failure look like?"


def statuses_may_not_be_dropped(api):
    """The compiler warns of a call whose status nobody looks at, but where the status is only read, and of what prints for people."""
    readers = {"fac_error", "fac_error_get", "fac_error_set", "fac_set_default_dtype"}
    for f in api["functions"]:
        if f["result"] == "fac_status":
            assert f["must_use"] or f["name"] in readers or f["name"].endswith("print"), f["name"]


def owners_are_named(api):
    unclear = [f["name"] for f in api["functions"] if f["kind"] == "function" and ownership.is_unclear(f)]
    assert not unclear, f"whose is the result of {unclear}?"
    for f in api["functions"]:
        if f["kind"] == "operator":
            assert not f["result"].endswith("*") or f["result"] == "fac_tensor *", f["name"]


def results_by_pointer_are_called_out(api):
    for f in api["functions"]:
        if f["kind"] == "function":
            for p in f["parameters"]:
                if OUT.match(p["type"]) and (f["name"], p["name"]) not in IN_AND_OUT:
                    assert p["name"].startswith("out"), f"{f['name']}: {p['name']}"


CALL = re.compile(r"\b(fac_\w+)\(|[()]|\.([a-z]\w*) = ")


def given_keywords(text):
    """(function, keyword) of each keyword in a text, the innermost call's."""
    calls = []
    for match in CALL.finditer(text):
        if match[0].endswith("("):
            calls.append(match[1])
        elif match[0] == ")":
            calls = calls[:-1]
        elif calls and calls[-1]:
            yield calls[-1], match[2]


def keywords_in_prose_exist(api):
    """Blocks of code in guides are compiled by another test; calls within sentences, and those of headers' comments, are not."""
    names = {}
    for f in api["functions"]:
        for name in (f["name"], f.get("macro")):
            names.setdefault(name, set()).update(k["name"] for k in f.get("keywords", []))
    guides = [ROOT / "README.md"] + [p for p in sorted((ROOT / "docs").rglob("*.md")) if p.name != "changes-0.2.md"]
    texts = [(e["name"], e["doc"]) for part in ("headers", "functions", "types", "macros") for e in api[part]]
    texts += [(p.name, span) for p in guides for span in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", p.read_text(), flags=re.S))]
    wrong = [f"{place}: {name} has no .{keyword}" for place, text in texts for name, keyword in given_keywords(text)
             if keyword not in names.get(name, ())]
    assert not wrong, wrong


def main():
    with open(sys.argv[1]) as file:
        api = json.load(file)
    for rule in (names_say_whose_they_are, parts_of_names_are_the_headers_nouns, failures_can_be_seen, statuses_may_not_be_dropped,
                 owners_are_named, results_by_pointer_are_called_out, keywords_in_prose_exist):
        rule(api)
        print("ok", rule.__name__)


main()
