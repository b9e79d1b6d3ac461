"""The compiler as a user of the library calls it."""
import os
import re
import subprocess
from collections import namedtuple

# How the headers' folders are named, and whether FACULA_STRICT is defined.
Mode = namedtuple("Mode", "include strict")
MODES = [Mode(include, strict) for strict in (False, True) for include in ("-I", "-isystem")]
LENIENT = Mode("-isystem", False)
ALL_ERRORS = {"gcc": ["-fmax-errors=0", "-fno-diagnostics-show-caret"],
              "clang": ["-ferror-limit=0", "-fno-caret-diagnostics", "-fmacro-backtrace-limit=1"]}
DIAGNOSTIC = re.compile(r"(.*?):(\d+):\d+: (fatal error|error|warning|note): ")
HERE = os.path.dirname(os.path.abspath(__file__))


class Compiler:
    def __init__(self, path, headers):
        version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
        self.path, self.headers = path, headers
        self.kind = "clang" if "clang" in version else "gcc"

    def command(self, mode, *more):
        folders = [word for folder in self.headers for word in (mode.include, folder)]
        strict = ["-DFACULA_STRICT"] if mode.strict else []
        return [self.path, "-std=c11", "-Wall", "-I", HERE, *folders, *strict, *more]

    def refused(self, mode, file):
        """The lines of a file with an error. Where that is in a header, notes tell the line that the macro came from."""
        done = subprocess.run(self.command(mode, *ALL_ERRORS[self.kind], "-fsyntax-only", file), capture_output=True,
                              text=True, env={**os.environ, "LC_ALL": "C"})
        lines, sought = set(), False
        for at in filter(None, map(DIAGNOSTIC.match, done.stderr.splitlines())):
            if at[3] != "note":
                sought = at[3] != "warning"
            if sought and os.path.abspath(at[1]) == os.path.abspath(file):  # a compiler cache may make it relative
                lines.add(int(at[2]))
                sought = False
        return lines

    def shared_object(self, file):
        """Compiles and links calls that the most lenient mode lets through."""
        out = file[:-2] + ".so"
        subprocess.run(self.command(LENIENT, "-w", "-O0", "-shared", "-fPIC", "-o", out, file), check=True)
        return out
