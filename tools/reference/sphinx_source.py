#!/usr/bin/env python3
"""Lays out what Sphinx makes the HTML pages from: the reference, guides, examples and the command's pages.

Usage: sphinx_source.py API_JSON REPOSITORY DIR, which is emptied. Guides are the repository's own Markdown, with links into the source
tree turned to pages of the site, or to plain text where there is none. A link to a file that does not exist is an error.
"""
import pathlib
import re
import shutil
import subprocess
import sys

import pages
from rest import HEADERS, Reference, heading, indented, joined

GUIDES = ["moving-from-pytorch", "ownership", "errors", "keywords", "threads", "embedding", "building", "binding", "cuda", "cuda-memory",
          "cuda-races", "simcuda"]
LANGUAGES = {".c": "c", ".cpp": "cpp", ".py": "python"}
OPENING = re.compile(r'\s*(?:/\*(.*?)\*/|"""(.*?)""")', re.S)
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
CODE = re.compile(r"(?<!`)`((?:fac|FAC)_\w+)`(?!`)")


class Source:
    def __init__(self, reference, root, out):
        self.reference, self.root, self.out = reference, root, out

    def put(self, name, text):
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    # ---- guides ------------------------------------------------------------------------------------------------------------------

    def target(self, path, folder):
        """Where a link of a guide leads on the site; None for what is no page of it."""
        file, hash_, anchor = path.partition("#")
        real = (self.root / folder / file).resolve()
        if not real.exists():
            sys.exit(f"{folder}: the link to {path} leads nowhere")
        inside = real.relative_to(self.root.resolve()).as_posix()
        up = "../" * len(pathlib.PurePosixPath(folder).parts)
        if re.fullmatch(r"include/facula/\w+\.h", inside):
            return f"{up}reference/{real.stem}.rst"
        if inside in ("examples", "examples/README.md"):
            return f"{up}examples/index.md"
        if inside.startswith("examples/") and real.suffix in LANGUAGES:
            return f"{up}examples/{self.example(self.root / inside)}.rst"
        if inside == "docs/design":
            return f"{up}docs/design/index.rst"
        is_page = inside.endswith(".md") and (inside.startswith("docs/") or "/" not in inside)
        return up + inside + hash_ + anchor if is_page else None

    def link(self, match, folder):
        if re.match(r"\w+:|#", match[2]):
            return match[0]
        target = self.target(match[2], folder)
        text = "" if match[1].endswith(".md") else match[1]  # the page's title stands there
        return f"[{text}]({target})" if target else match[1]

    def guide(self, name):
        folder = str(pathlib.PurePosixPath(name).parent)
        folder = "" if folder == "." else folder

        def name_link(match):
            role = self.reference.roles.get(match[1])
            return f"{{c:{role}}}`{match[1]}`" if role else match[0]

        text = (self.root / name).read_text()
        fences = re.split(r"(^```.*?^```$|^#[^\n]*$)", text, flags=re.M | re.S)
        text = "".join(part if part.startswith(("```", "#")) else CODE.sub(name_link, LINK.sub(lambda m: self.link(m, folder), part)) for part in fences)
        self.put(name, re.sub(r"^```c ignore$", "```c", text, flags=re.M))

    def guides(self):
        for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]:
            self.guide(name)
        for path in sorted(p for p in (self.root / "docs").rglob("*.md") if p.name != "README.md"):
            self.guide(path.relative_to(self.root).as_posix())
        for path in (self.root / "docs").glob("*.svg"):
            self.put(path.relative_to(self.root).as_posix(), path.read_text())
        designs = sorted(p.stem for p in (self.root / "docs" / "design").glob("*.md"))
        self.put("docs/design/index.rst", "\n".join(heading("Design") + ["Why things are as they are.", "", ".. toctree::", ""] +
                                                    [f"   {d}" for d in designs]) + "\n")

    # ---- examples and commands ---------------------------------------------------------------------------------------------------

    def examples(self):
        """Each program with its opening comment; the folder's README leads to them."""
        folder = self.root / "examples"
        programs = sorted(p for p in folder.rglob("*") if p.suffix in LANGUAGES)
        for path in programs:
            text = path.read_text()
            opening = next(c for c in OPENING.match(text).groups() if c).strip().split("\n\n")[0]
            lines = heading(path.relative_to(folder).as_posix()) + [self.reference.prose(opening), ""]
            lines += [f".. code-block:: {LANGUAGES[path.suffix]}", ""] + indented(text.rstrip().split("\n"))
            self.put(f"examples/{self.example(path)}.rst", joined(lines))
        readme = (folder / "README.md").read_text()
        text = LINK.sub(lambda m: self.link(m, "examples"), readme)
        named = [folder / m[2] for m in LINK.finditer(readme) if (folder / m[2]) in programs]
        ordered = dict.fromkeys(self.example(p) for p in named + programs)
        self.put("examples/index.md", text + "\n```{toctree}\n:hidden:\n\n" + "\n".join(ordered) + "\n```\n")

    def example(self, path):
        """The page's name: python_train of examples/python/train.py."""
        return path.relative_to(self.root / "examples").with_suffix("").as_posix().replace("/", "_")

    def commands(self):
        """The man pages of the command, as mandoc turns them into HTML."""
        names = []
        for path in sorted((self.root / "docs" / "man").glob("*.1")):
            html = subprocess.run(["mandoc", "-T", "html", "-O", "fragment", path], stdout=subprocess.PIPE, check=True, text=True).stdout
            body = re.search(r'<div class="manual-text">(.*?)</div>\s*<table class="foot"', html, re.S)[1]
            body = re.sub(r'<a class="permalink"[^>]*>(.*?)</a>', r"\1", body, flags=re.S)
            body = re.sub(r' id="[^"]*"| href="#[^"]*"', "", body)
            body = re.sub(r'<h1 class="Sh">(.*?)</h1>', r'<p class="rubric">\1</p>', body, flags=re.S)
            self.put(f"commands/{path.stem}.rst", "\n".join(heading(path.stem.replace("-", " ", 1)) + [".. raw:: html", ""] +
                                                              indented(body.split("\n"))) + "\n")
            names.append(path.stem)
        self.put("commands/index.rst", "\n".join(heading("The command line") + [".. toctree::", ""] + [f"   {n}" for n in names]) + "\n")

    def front(self):
        here = pathlib.Path(__file__).parent
        text = (here / "index.rst").read_text()
        there = {p.stem for p in (self.root / "docs").glob("*.md")} - {"README"} - set(re.findall(r"^   docs/(\S+)$", text, re.M))
        guides = [g for g in GUIDES if g in there] + sorted(there - set(GUIDES))
        program = re.search(r"^```c\n(.*?)^```$", (self.root / "README.md").read_text(), re.M | re.S)[1]
        text = text.replace("@PROGRAM@", "\n".join(indented(program.rstrip().split("\n"))))
        text = text.replace("@GUIDES@", "\n".join(f"   docs/{g}" for g in guides))
        headers = [pathlib.PurePosixPath(h["name"]).stem for h in self.reference.headers()]
        order = sorted(headers, key=lambda h: list(HEADERS).index(h) if h in HEADERS else len(HEADERS))
        entries = [f"   {HEADERS.get(h, h)} <reference/{h}>" for h in order]
        self.put("index.rst", text.replace("@HEADERS@", "\n".join(entries)))
        self.put("conf.py", (here / "conf.py").read_text())
        self.put("static/site.css", (here / "site.css").read_text())
        self.put("guides.txt", "".join(f"{g}\t{self.summary(g)}\n" for g in guides))

    def summary(self, guide):
        """What the folder's README says of a guide: the line that an index shows beside its name."""
        row = re.search(rf"^\| `{guide}\.md` \| (.*) \|$", (self.root / "docs" / "README.md").read_text(), re.M)
        if not row:
            sys.exit(f"docs/README.md does not say what {guide}.md is for")
        return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", row[1]).replace("`", "")


def main():
    api, all_pages = pages.load(sys.argv[1])
    root, out = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    if not shutil.which("mandoc"):
        sys.exit("mandoc is missing: run scripts/setup.sh docs")
    shutil.rmtree(out, ignore_errors=True)
    source = Source(Reference(api, all_pages), root, out)
    for name, text in source.reference.files():
        source.put(name, text)
    source.guides()
    source.examples()
    source.commands()
    source.front()


if __name__ == "__main__":
    main()
