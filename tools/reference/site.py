#!/usr/bin/env python3
"""Lays out what Sphinx makes the HTML pages from: the reference as reStructuredText, guides, examples and the command's pages.

Usage: site.py API_JSON REPOSITORY DIR. Guides are the repository's own Markdown, with links into the source tree turned to pages of
the site, or to plain text where there is none. A link to a file that does not exist is an error.
"""
import pathlib
import re
import shutil
import subprocess
import sys

import pages

GUIDES = ["moving-from-pytorch", "ownership", "errors", "keywords", "threads", "embedding", "building", "binding", "cuda", "cuda-memory",
          "cuda-races", "simcuda"]
FAMILIES = {"activation": "Activations", "activation_composed": "Activations made of others", "arrange": "Arranging elements",
            "attention": "Attention", "binary": "Two operands", "compare": "Comparisons", "conv": "Convolutions", "copy": "Copies and casts",
            "creation": "Making tensors", "distance": "Distances", "fill": "Filling", "index": "Indexing", "linalg": "Linear algebra",
            "logic": "Logic", "loss": "Losses", "norm": "Normalisation", "numeric": "Numerical tools", "optim": "Optimiser steps",
            "pool": "Pooling", "products": "Products", "random": "Random numbers", "reduce": "Reductions", "shape": "Shapes",
            "softmax": "Softmax", "sort": "Sorting", "ternary": "Three operands", "unary": "One operand", "view": "Views"}
HEADERS = {"tensor": "Tensors", "types": "Dtypes and devices", "autograd": "Gradients", "nn": "Modules", "optim": "Optimisers",
           "data": "Data", "io": "Files", "base": "Errors, scopes, lists", "ops": "Operators' types", "device": "Devices and streams",
           "cuda": "CUDA", "cuda_memory": "Device memory", "cuda_race": "The race checker", "dispatch": "The dispatcher"}
LANGUAGES = {".c": "c", ".cpp": "cpp", ".py": "python"}
OPENING = re.compile(r'\s*(?:/\*(.*?)\*/|"""(.*?)""")', re.S)
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
CODE = re.compile(r"(?<!`)`((?:fac|FAC)_\w+)`(?!`)")
NAME = re.compile(r"(?<![\w:`])((?:fac|FAC|FACULA)_\w*\w)(?!\w|`)")


class Site:
    def __init__(self, root, out):
        self.root, self.out, self.written, self.roles = root, out, set(), {}

    def put(self, name, text):
        """A file is written only if its text changed, so that Sphinx reads only what is new."""
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        self.written.add(path)

    def sweep(self):
        for path in list(self.out.rglob("*")):
            if path.is_file() and path not in self.written:
                path.unlink()

    # ---- text ------------------------------------------------------------------------------------------------------------------

    def note_roles(self, all_pages):
        for page in all_pages:
            for name in page.names:
                kind = "type" if page.kind == "type" else "macro" if page.kind == "macro" else "func"
                self.roles[name] = kind
            for name, _ in page.macros:
                self.roles[name] = "macro"
            for name, _ in page.structs:
                self.roles[name] = "type"
            for e in (page.type or {}).get("enumerators", []):
                self.roles[e["name"]] = "enumerator"

    def words(self, text):
        """Plain words as reST, names of the interface as links."""
        out, at = [], 0
        for match in NAME.finditer(text):
            role = self.roles.get(match[1])
            if role:
                out += [escaped(text[at:match.start()]), f"\\ :c:{role}:`{match[1]}`\\ "]
                at = match.end()
        return "".join(out + [escaped(text[at:])]).replace("\\ \\ ", "\\ ")

    def prose(self, text):
        """The text of a comment: what stands between backquotes is code."""
        parts = " ".join(text.split()).split("`")
        if len(parts) % 2 == 0:
            return self.words("`".join(parts))
        return "".join(f"\\ ``{p}``\\ " if i % 2 else self.words(p) for i, p in enumerate(parts) if p).strip()

    # ---- the reference -----------------------------------------------------------------------------------------------------------

    def fields(self, sections):
        for title, text in sections:
            if title == "Schema":
                yield f":{title}: " + "\n    ".join(f"| ``{line}``" for line in text.split("\n"))
            else:
                yield f":{title}: {self.prose(text)}"

    def keyword_table(self, page):
        if not page.keywords:
            return []
        rows = [".. list-table::", "   :header-rows: 1", "", "   * - keyword", "     - what", "     - default", "     - by position"]
        for k in page.keywords:
            names = f"``.{k.name}``" + (f" or ``.{k.other}``" if k.other else "")
            kind = escaped(k.kind) + (f"; {escaped(k.other_kind)}" if k.other else "")
            default = "none" if k.default == "none" else f"``{k.default}``"
            rows += [f"   * - {names}", f"     - {kind}", f"     - {default}", f"     - {'' if k.by_name else 'yes'}"]
        return rows + [""]

    def struct_blocks(self, page):
        for name, text in page.structs:
            yield from [f".. c:type:: {name}", ""] + code(text, 3)
        for text in page.inits:
            yield from [f".. c:function:: {text.rstrip(';')}", "", "   Puts the defaults into a keyword struct, for bindings.", ""]

    def signatures(self, page):
        lines = [(".. c:function:: " if i == 0 else "                ") + pages.prototype(f) for i, f in enumerate(page.functions)]
        return lines + [""]

    def operator(self, page):
        parts = {}
        for title, text in page.sections:
            title, _, of = title.partition(" of ")
            parts.setdefault(of, []).append((title, text))
        lines = [":orphan:", "", *heading(page.name), f":doc:`{family_title(page.section)} <index_{page.section}>`", ""]
        lines += code("\n".join(pages.folded(c) for c in page.calls))
        symbols = {f["name"] for f in page.functions}
        lines += macro_signatures([signature for name, signature in page.macros if name not in symbols])
        lines += self.signatures(page)
        for of, sections in parts.items():
            lines += heading(of, "-") if of else []
            lines += [self.prose(dict(sections)["Description"]), ""]
            lines += list(self.fields([s for s in sections if s[0] != "Description"])) + [""]
        lines += self.keyword_table(page)
        lines += ["**Structs**", ""] * bool(page.structs) + list(self.struct_blocks(page))
        self.put(f"reference/ops/{page.name}.rst", "\n".join(lines) + "\n")

    def families(self, operators):
        found = {}
        for page in operators:
            found.setdefault(page.section, []).append(page)
        for family, members in found.items():
            lines = [*heading(family_title(family)), ".. list-table::", "   :widths: 35 65", ""]
            for page in members:
                lines += [f"   * - :doc:`{page.name}`", f"     - {self.prose(page.brief)}"]
            self.put(f"reference/ops/index_{family}.rst", "\n".join(lines) + "\n")
        ordered = sorted(found, key=family_title)
        lines = heading("Operators") + ["Each page shows an operator with its in-place and out forms.", "", ".. toctree::", "   :maxdepth: 1", ""]
        self.put("reference/operators.rst", "\n".join(lines + [f"   ops/index_{f}" for f in ordered]) + "\n")

    def enumerators(self, type_):
        for e in type_.get("enumerators", []):
            comment = re.search(rf"\b{e['name']}\b[^/\n]*/\*(.*?)\*/", type_["text"], re.S)
            yield from [f".. c:enumerator:: {e['name']}", "", f"   = {e['value']}" + (f": {self.prose(comment[1])}" if comment else ""), ""]

    def type_lines(self, page):
        t = page.type
        is_enum = t["kind"] == "enum"
        body = [self.prose(text) if title == "Description" else f":{title}: {self.prose(text)}" for title, text in page.sections]
        if not is_enum:
            return [f".. c:type:: {page.name}"] + indented(["", *body, "", *code(t["text"])]) + [""]
        head = [f".. c:enum:: {page.name}"] + indented(["", *body]) if t["name"] else body
        return head + [""] + list(self.enumerators(t)) + [""]  # beside the enumeration, as C has their names

    def function_lines(self, page):
        description = [self.prose(text) for title, text in page.sections if title == "Description"]
        inner = description + [""] + list(self.fields([s for s in page.sections if s[0] != "Description"])) + [""]
        if page.keywords:
            inner = code("\n".join(pages.folded(c) for c in page.calls)) + inner + self.keyword_table(page)
        lines = self.signatures(page) + indented(inner) + [""]
        return lines + [line for line in self.struct_blocks(page)]

    def macro_lines(self, page):
        signatures = [text if "(" in text.split(" ")[0] else name for name, text in page.macros]
        values = [f"| {name} = ``{text[len(name):].strip()}``" for name, text in page.macros if name in signatures]
        inner = [f":{title}: {self.prose(text)}" if title != "Description" else self.prose(text) for title, text in page.sections]
        return macro_signatures(signatures) + indented("\n\n".join(inner).split("\n") + [""] + values) + [""]

    def header(self, header, all_pages):
        name = header["name"].removeprefix("facula/").removesuffix(".h")
        title = f"{HEADERS[name]}: {header['name']}" if name in HEADERS else header["name"]
        lines, section = heading(title) + [self.prose(pages.labelled(header["doc"])[0]), ""], ""
        for page in (p for p in all_pages if p.header == header["name"]):
            if page.section and page.section != section:
                section = page.section
                lines += heading(section[0].upper() + section[1:], "-")
            lines += {"type": self.type_lines, "macro": self.macro_lines}.get(page.kind, self.function_lines)(page)
        self.put(f"reference/{name}.rst", "\n".join(lines) + "\n")
        return name

    def reference(self, api, all_pages):
        operators = [p for p in all_pages if p.kind == "operator"]
        for page in operators:
            self.operator(page)
        self.families(operators)
        headers = api["headers"] + [{"name": "facula/ops.h", "doc": "The operators; here the types that they share."}]
        rest = [p for p in all_pages if p.kind != "operator"]
        return [self.header(h, rest) for h in headers]

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
            role = self.roles.get(match[1])
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
            lines = heading(path.relative_to(folder).as_posix()) + [self.prose(opening), ""]
            lines += [f".. code-block:: {LANGUAGES[path.suffix]}", ""] + indented(text.rstrip().split("\n"))
            self.put(f"examples/{self.example(path)}.rst", "\n".join(lines) + "\n")
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

    def front(self, headers):
        here = pathlib.Path(__file__).parent
        text = (here / "index.rst").read_text()
        there = {p.stem for p in (self.root / "docs").glob("*.md")} - {"README"} - set(re.findall(r"^   docs/(\S+)$", text, re.M))
        guides = [g for g in GUIDES if g in there] + sorted(there - set(GUIDES))
        program = re.search(r"^```c\n(.*?)^```$", (self.root / "README.md").read_text(), re.M | re.S)[1]
        text = text.replace("@PROGRAM@", "\n".join(indented(program.rstrip().split("\n"))))
        text = text.replace("@GUIDES@", "\n".join(f"   docs/{g}" for g in guides))
        order = sorted(headers, key=lambda h: list(HEADERS).index(h) if h in HEADERS else len(HEADERS))
        entries = [f"   {HEADERS.get(h, h)} <reference/{h}>" for h in order]
        self.put("index.rst", text.replace("@HEADERS@", "\n".join(entries)))
        self.put("conf.py", (here / "conf.py").read_text())
        self.put("static/site.css", (here / "site.css").read_text())
        self.put("guides.txt", "\n".join(guides) + "\n")


def family_title(family):
    return FAMILIES.get(family, family.replace("_", " ").capitalize())


def macro_signatures(signatures):
    return [(".. c:macro:: " if i == 0 else "             ") + text for i, text in enumerate(signatures)] + [""]


def escaped(text):
    return re.sub(r"([\\*`|_])", r"\\\1", text)


def heading(text, line="="):
    return [escaped(text), line * (len(escaped(text)) + 1), ""]


def indented(lines):
    return ["   " + line if line.strip() else "" for line in lines]


def code(text, indent=0):
    return [" " * indent + line if line.strip() else "" for line in [".. code-block:: c", "", *indented(text.split("\n")), ""]]


def main():
    api, all_pages = pages.load(sys.argv[1])
    root, out = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    if not shutil.which("mandoc"):
        sys.exit("mandoc is missing: run scripts/setup.sh docs")
    site = Site(root, out)
    site.note_roles(all_pages)
    headers = site.reference(api, all_pages)
    site.guides()
    site.examples()
    site.commands()
    site.front(headers)
    site.sweep()


if __name__ == "__main__":
    main()
