#!/usr/bin/env python3
"""Every C block of README.md and docs/ compiles, and every line of C in the tables of moving-from-pytorch.md.

Usage: code_blocks.py COMPILER [FLAG...]. A block with an #include is a program; what begins with static, typedef or struct in the
first column goes to the file's scope; other lines become a function. `<!-- given: fac_tensor *x; -->` above a block declares what the
page leaves out, and holds to the page's end. ```c ignore is for C that is not to compile, and the text beside it says why.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIECE = re.compile(r"<!-- given: (?P<given>.*?) -->|^```c\b(?P<words>[^\n]*)\n(?P<code>.*?)^```$|^\|(?P<row>[^\n]*)\|$", re.M | re.S)
TOP = re.compile(r"^(static|typedef|struct|enum|#define|#ifdef|#endif)\b")


def split(code):
    """A block's pieces for the file's scope and its other lines."""
    top, rest, inside = [], [], False
    for line in code.split("\n"):
        begins = bool(TOP.match(line))
        (top if inside or begins else rest).append(line)
        if begins or inside:
            inside = not (re.match(r"^\}|^#", line) or (begins and line.rstrip().endswith((";", "}"))) or
                          (inside and line.rstrip().endswith("};")))
    return "\n".join(top), "\n".join(rest)


def statement(line):
    line = line.strip()
    return line if line.endswith((";", "}")) else line + ";"


def page_parts(path):
    """The page as one C file, the programs in it, and how many blocks and lines there were."""
    text, parts, programs, blocks, lines = path.read_text(), ["#include <facula/facula.h>\n#include <math.h>\n#include <pthread.h>\n#include <stdlib.h>"], [], 0, 0
    for match in PIECE.finditer(text):
        line = text[:match.start()].count("\n") + 1
        place = f'#line {line + 1} "{path.relative_to(ROOT)}"\n'
        if match["given"]:
            parts.append(place + match["given"])
        elif match["code"] is not None and "ignore" not in match["words"]:
            blocks += 1
            if "#include" in match["code"]:
                programs.append(place + match["code"])
                continue
            top, rest = split(match["code"])
            parts.append(place + top)
            if rest.strip():
                parts.append(f"int block_{line}(void) {{\n{place}{rest}\n    return 0;\n}}")
        elif match["row"] and path.name == "moving-from-pytorch.md":
            for code in re.findall(r"`([^`]+)`", match["row"].replace("\\|", "\x00").split("|")[1]):
                lines += 1
                parts.append(f"void line_{line}_{lines}(void) {{\n{place}{statement(code)}\n}}".replace("\x00", "|"))
    return ["\n".join(parts)] + programs, blocks, lines


def compile_text(command, text):
    with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
        file.write(text)
        file.flush()
        return subprocess.run(command + [file.name], cwd=ROOT, stderr=subprocess.PIPE, text=True)


def main():
    command = sys.argv[1:] + ["-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-unused-result",
                              "-Wno-unused-parameter", "-Wno-unknown-warning-option", "-Wno-return-local-addr"]
    failed = total = total_lines = 0
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        texts, blocks, lines = page_parts(path)
        total, total_lines = total + blocks, total_lines + lines
        for text in texts:
            done = compile_text(command, text)
            failed += done.returncode != 0
            print(done.stderr, end="", file=sys.stderr)
    print(f"{total} blocks, {total_lines} lines of tables, {failed} files failed")
    assert total_lines > 90 and total >= 15, "the blocks were not found"
    return 1 if failed else 0


sys.exit(main())
