#!/usr/bin/env python3
"""scripts/lint.py's checks of C find what they are there to find, one break at a time, and nothing in sound files."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))
import lint  # noqa: E402

OPENING = "/* What the file is for. */\n"
LOCKS = {
    "on its line": "static fac_mutex lock = FAC_MUTEX_INIT; /* of the table */\n",
    "directly above": "/* Guards the table. Never held while\n   a hook runs. */\nstatic fac_mutex lock = FAC_MUTEX_INIT;\n",
    "declared elsewhere": "extern fac_mutex fac__lock;\n",
    "a lock that is passed": "static void take(fac_mutex *lock) { fac__mutex_lock(lock); }\n",
}
BARE_LOCKS = {
    "several in a row": "fac_mutex a[2];\n",
    "several in a list": "fac_mutex a, b;\n",
    "a member of one line": "struct pair { fac_mutex lock; } pair;\n",
    "below a comment with a blank line": "/* Guards the table. */\n\nstatic fac_mutex lock = FAC_MUTEX_INIT;\n",
    "below another's comment": "static int n; /* of all that is there */\nstatic fac_mutex lock = FAC_MUTEX_INIT;\n",
    "a second one below a comment": "/* Guards the table. */\nstatic int n;\nstatic fac_mutex lock;\n",
    "a comment that says nothing": "static fac_mutex lock; /* . */\n",
    "below a heading": "/* ---- of the table ---- */\nstatic fac_mutex lock;\n",
}
OPENINGS = {"none": "int a;\n", "no sentence": "/* . */\nint a;\n", "a name": "/* a.c */\nint a;\n"}
CHOICE = "    if (a) b();\n"
CHOICES = CHOICE * (lint.MAX_BRANCHES + 1)
BRANCHES = {
    "the brace behind": f"static int f(int a) {{\n{CHOICES}}}\n",
    "the brace on its own line": f"static int f(int a)\n{{\n{CHOICES}}}\n",
    "the brace close by": f"static int f(int a){{\n{CHOICES}}}\n",
    "the type on its own line": f"static int\nf(int a)\n{{\n{CHOICES}}}\n",
}


def findings(check, name, text):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
        return [message for *_, message in check(pathlib.Path(folder))]


def main():
    cases = [("a lock " + name, lint.check_guards, "src/a.c", text, 0) for name, text in LOCKS.items()]
    cases += [("a lock " + name, lint.check_guards, "src/a.c", text, 1) for name, text in BARE_LOCKS.items()]
    cases += [("an opening", lint.check_openings, "src/a.c", OPENING, 0)]
    cases += [("an opening: " + name, lint.check_openings, "src/a.c", text, 1) for name, text in OPENINGS.items()]
    cases += [("enough branches", lint.check_branches, "tools/a.c", text.replace(CHOICE, "", 1), 0) for text in BRANCHES.values()]
    cases += [("branches: " + name, lint.check_branches, "tools/a.c", text, 1) for name, text in BRANCHES.items()]
    cases += [("branches of a header", lint.check_branches, "tools/a.h", BRANCHES["the brace behind"], 1)]
    cases += [("a program's include", lint.check_apps, "apps/a.c", "#include <facula/facula.h>\n", 0)]
    cases += [("a program's include of the inside", lint.check_apps, "apps/a.c", "#include \"../src/core/tensor.h\"\n", 1)]
    cases += [("a program's generated include", lint.check_apps, "apps/a.c", "#include \"ops_gen.h\"\n", 1)]
    failed = [f"{what}: {found}" for what, check, name, text, n in cases for found in [findings(check, name, text)] if len(found) != n]
    print("\n".join(failed) or f"ok: {len(cases)} files are judged as they should be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
