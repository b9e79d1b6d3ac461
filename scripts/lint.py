#!/usr/bin/env python3
"""Checks what the compiler does not: include directions, documentation of public declarations, leftovers, file length.

Prints one line per finding and ends with 1 if there is an error; long files are only warned of.
"""
import argparse
import pathlib
import re
import sys

import house

MAX_LINES = 1000
CODE_DIRS = ("include", "src", "tools", "apps", "examples", "bench", "tests")
LEFTOVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")


def code_files(root):
    for folder in CODE_DIRS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".hpp", ".cu", ".py", ".yaml") and path.is_file():
                yield path


def check_apps(root):
    """Programs use the public interface alone, as a user's would, and so do the headers that make it."""
    for folder in ("apps", "examples", "include"):
        for path in sorted((root / folder).rglob("*.[ch]")):
            for number, text in house.includes(root, path):
                if not text.startswith("facula/") and house.room_of_include(text):
                    yield path, number, f"includes {text}: programs and public headers use the public headers only"


def paragraphs(lines):
    """Runs of lines between blank lines at brace depth 0, as (first line number, lines)."""
    start, block, depth, in_comment = 1, [], 0, False
    for number, line in enumerate(lines, 1):
        code = re.sub(r"/\*.*?\*/", "", line)
        if in_comment:
            in_comment = "*/" not in code
            code = code.split("*/", 1)[1] if not in_comment else ""
        if "/*" in code:
            in_comment = True
            code = code.split("/*", 1)[0]
        if 'extern "C" {' not in line and not line.startswith("#"):
            depth = max(0, depth + code.count("{") - code.count("}"))
        if line.strip() or depth or in_comment:
            if not block:
                start = number
            block.append(line)
        elif block:
            yield start, block
            block = []
    if block:
        yield start, block


DECLARATION = re.compile(r"^(FAC_API\b|FAC_INLINE_\b|typedef (struct|enum|union)\b.*\{|struct \w+ \{|enum\b.*\{)")


def check_docs(root):
    """Every public declaration has a comment: its own, or that of the group (no blank line between) it stands in."""
    for path in sorted((root / "include" / "facula").glob("*.h*")):
        for start, block in paragraphs(path.read_text().splitlines()):
            documented = False
            for offset, line in enumerate(block):
                if "/*" in line and not re.match(r"\s*/\* ----", line):
                    documented = True
                if DECLARATION.match(line) and not documented:
                    yield path, start + offset, f"no comment documents: {line.strip()[:70]}"


LOCK = re.compile(r"\b(pthread_(mutex|cond|rwlock|spin)_\w+|PTHREAD_(MUTEX|COND|RWLOCK|RECURSIVE)\w*INIT\w*|mtx_t)\b")
LOCKS_OF_THEIR_OWN = ("base/mutex.h", "base/mutex.c", "base/park.c")


def check_locks(root):
    """Locks are those that a fork waits for. The simulated driver is a library of its own, which refuses all calls in a
    forked child as the real one does."""
    for path in sorted((root / "src").rglob("*.[ch]")):
        name = path.relative_to(root / "src").as_posix()
        if name in LOCKS_OF_THEIR_OWN or name.startswith("simcuda/"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = LOCK.search(line)
            if match:
                yield path, number, f"{match[0]}: locks are of base/mutex.h's type, so that a fork finds them unlocked"


MUTEX = re.compile(r'^(?!.*\bextern\b)[^*/"(]*\bfac_mutex \w+\s*(?:[\[,;={]|$)')
WORD = re.compile(r"[A-Za-z]{2,}")


def check_guards(root):
    """Each lock says what it guards: on its line, or in a comment that ends directly above."""
    for path in sorted((root / "src").rglob("*.[ch]")):
        above = ""
        for number, line in enumerate(path.read_text().splitlines(), 1):
            said = line.partition("/*")[2] or ("" if above.partition("/*")[0].strip() and "/*" in above else above)
            if MUTEX.match(line) and (len(WORD.findall(said)) < 2 or "*/" not in said or "----" in said):
                yield path, number, "a comment says what the lock guards, on its line or directly above"
            above = line


def check_threads(root):
    """Threads are those that take no signals. The simulated driver is a library of its own."""
    for path in sorted((root / "src").rglob("*.[ch]")):
        name = path.relative_to(root / "src").as_posix()
        if name == "base/helper.c" or name.startswith("simcuda/"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if "pthread_create" in line or "thrd_create" in line:
                yield path, number, "threads are started by fac__helper_start, so that they take no signals"


def check_text(root):
    for path in code_files(root):
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            match = LEFTOVER.search(line)
            if match:
                yield path, number, f"{match[1]} is left over"


OPENING = re.compile(r"/\* (.*?)\*/", re.S)


def check_openings(root):
    """Each C file opens with a sentence on what it is for."""
    for path in code_files(root):
        opening = OPENING.match(path.read_text())
        if path.suffix in (".c", ".h", ".hpp", ".cu") and not (opening and len(WORD.findall(opening[1])) > 2):
            yield path, 1, "opens without a comment that says what the file is for, in a sentence"


PATH = re.compile(r"`((?:src|include|tests|tools|scripts|apps|examples|docs|cmake|bench)/[\w./-]+)`")


def check_paths(root):
    """Files and folders that texts and comments name in backquotes are there."""
    for path in sorted(root.glob("*.md")) + [p for f in ("src", "docs", *CODE_DIRS[2:]) for p in sorted((root / f).rglob("*.md"))]:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for name in PATH.findall(line):
                if not any((base / name).exists() for base in (root, path.parent)):
                    yield path, number, f"{name} is not there"


GRAIN = re.compile(r"FAC_GRAIN( / \d+)* / (?!\d)")


def check_grains(root):
    """An item's work is a product of sizes, which may be 0."""
    for path in sorted((root / "src" / "backend" / "cpu").rglob("*.[ch]")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if GRAIN.search(line):
                yield path, number, "chunks are sized by fac__grain, which bears items without work"


ROUNDED_UP = re.compile(r"\+ ([\w.>-]+) - 1\) / \1\b")


def check_rounding(root):
    """Sizes of empty tensors may be any, and a sum that rounds them up would overflow."""
    for room in ("ops", "iter", "backend/cpu", "backend/cuda/ops"):
        for path in sorted((root / "src" / room).rglob("*.[ch]")):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if ROUNDED_UP.search(line) and "__int128" not in line:
                    yield path, number, "sizes are divided upwards by fac__div_up, which cannot overflow"


# Calls that belong in one place, and where: elsewhere they would lack what that place does around them.
ONE_PLACE = {"getenv": ("base/env.c", "the environment is read through fac__env, which a setuid program's user cannot use"),
             "rename": ("base/file.c", "files are replaced by fac__new_file_commit, which flushes"),
             "renameat": ("base/file.c", "files are replaced by fac__new_file_commit, which flushes"),
             "json_loadb": ("io/json.c", "foreign JSON goes through fac__json_parse, which bounds its depth"),
             "json_loads": ("io/json.c", "foreign JSON goes through fac__json_parse, which bounds its depth"),
             "json_load_file": ("io/json.c", "foreign JSON goes through fac__json_parse, which bounds its depth")}
CALL = re.compile(r"(?<![.\w>])(" + "|".join(ONE_PLACE) + r")\(")


PLURAL = re.compile(r'%(?:ll|l|z)?[du] (?!(?:is|was|has|needs)\b)[a-z]*[a-rt-z]s\b')


def check_plurals(root):
    """Programs say "1 file"."""
    for path in sorted((root / "apps").rglob("*.[ch]")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = PLURAL.search(line)
            if match:
                yield path, number, f"'{match[0]}': the word for a number of things comes from cli_word"


OPERATOR_ROOMS = ("ops", "iter", "backend/cpu/kernels", "backend/pointwise", "backend/cuda/ops")
NAMED_TWICE = re.compile(r'FAC_ERR_\w+,\s*"((?:torch\.)?\w+(?:\(\))?|%s)(?:: | is not implemented for)')
NAME_APART = re.compile(r'const char \*op\b|\.op = "')
TELL_NAMES = ("ops/call.c", "ops/call.h")  # what generated calls are written against
OTHER_DTYPE = re.compile(r'"[^"\n]*\b((?:Long|Int|Short|Byte|Char|Half|Float|Double|ComplexFloat|ComplexDouble|Bool)(?:Tensor)?)\b[^"\n]*"')


def check_messages(root):
    """Errors of operators do not name them, since what calls an operator puts its name before them, and name dtypes as
    fac_dtype_name does. A kernel that needs its operator's name takes it from the call, since others may share the kernel."""
    for room in OPERATOR_ROOMS:
        if not (root / "src" / room).is_dir():
            yield root / "scripts/lint.py", 1, f"OPERATOR_ROOMS names src/{room}, which is not there"
        for path in sorted((root / "src" / room).rglob("*.[ch]")):
            text = path.read_text()
            for match in NAMED_TWICE.finditer(text):
                yield path, text.count("\n", 0, match.end()) + 1, f"'{match[1]}' begins a message: the operator's name is put there"
            for match in NAME_APART.finditer("" if path.relative_to(root / "src").as_posix() in TELL_NAMES else text):
                yield path, text.count("\n", 0, match.end()) + 1, f"{match[0]}: the call knows its operator (fac_call_info.op)"
            for match in OTHER_DTYPE.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                yield path, line, f"{match[1]}: messages name dtypes as fac_dtype_name does, such as int64"


MAX_COLUMNS = 120


def check_columns(root):
    """Lines of the public headers are no longer than what clang-format makes of code."""
    for path in sorted((root / "include" / "facula").glob("*.h*")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > MAX_COLUMNS:
                yield path, number, f"{len(line)} columns; {MAX_COLUMNS} are the most"


CALLBACK = re.compile(r"\(\*\w*\)\([^()]*\)")
TAKES_TENSOR = re.compile(r"fac_tensor \*(?:const \*)?\w|fac_tensors \w|const fac_named_tensor \*|const fac_cuda_arg \*")


def check_handles(root):
    """Each public function that takes a tensor is given a dead one in the test of handles. Operators are generated."""
    test = root / "tests" / "unit" / "test_handles.c"
    tried = test.read_text() if test.exists() else ""
    for path in sorted((root / "include" / "facula").glob("*.h")):
        text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", "", m[0]), path.read_text(), flags=re.S)
        for match in re.finditer(r"^FAC_API\b([^;]*);", text, re.M):
            declared = CALLBACK.sub("", " ".join(match[1].split()))
            name, _, parameters = declared.partition("(")
            name = name.split()[-1].lstrip("*")
            if TAKES_TENSOR.search(parameters) and not re.search(rf"\b{name}\(", tried):
                line = text.count("\n", 0, match.start()) + 1
                yield path, line, f"{name} takes a tensor: give it a dead one in {test.relative_to(root)}"


def check_one_place(root):
    for folder in ("src", "apps"):
        for path in sorted((root / folder).rglob("*.[ch]")):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                for match in CALL.finditer(line):
                    place, reason = ONE_PLACE[match[1]]
                    if path != root / "src" / place and not line.lstrip().startswith(("/*", "int (*")):
                        yield path, number, f"{match[1]}: {reason}"


MAX_BRANCHES = 12
NO_CODE = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
FUNCTION = re.compile(r"^(?:\w[^\n;{}=#]*?\b)?(\w+)\([^;{}]*\)\s*\{(?:([^\n]*)\}$|\n(.*?)^\})", re.M | re.S)
BRANCH = re.compile(r"\b(?:if|for|while|case)\b|\?|&&|\|\|")


def check_branches(root):
    """Functions of the tools choose a dozen times at most: what chooses more often is a table, or several functions."""
    for path in sorted((root / "tools").rglob("*.[ch]")):
        text = NO_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), path.read_text())
        for match in FUNCTION.finditer(text):
            count = len(BRANCH.findall(match[2] or match[3] or ""))
            if count > MAX_BRANCHES:
                yield path, text.count("\n", 0, match.start()) + 1, f"{match[1]} has {count} branches; {MAX_BRANCHES} are the most"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent, help="the tree; this one")
    root = parser.parse_args().root.resolve()
    errors = 0
    checks = [f for module in (house, sys.modules[__name__]) for name, f in vars(module).items() if name.startswith("check_")]
    for check in checks:
        for path, number, message in check(root):
            print(f"{path.relative_to(root)}:{number}: {message}")
            errors += 1
    for path in code_files(root):
        count = len(path.read_text(errors="replace").splitlines())
        if count > MAX_LINES and path.suffix != ".yaml":
            print(f"{path.relative_to(root)}: warning: {count} lines; a file of more than {MAX_LINES} wants to be two")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
