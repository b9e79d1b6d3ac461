"""The reference as reStructuredText: each function gives the name and the text of files for Sphinx."""
import re

import pages

FAMILIES = {"activation": "Activations", "activation_composed": "Activations made of others", "arrange": "Arranging elements",
            "attention": "Attention", "binary": "Two operands", "compare": "Comparisons", "conv": "Convolutions", "copy": "Copies and casts",
            "creation": "Making tensors", "distance": "Distances", "fill": "Filling", "index": "Indexing", "linalg": "Linear algebra",
            "logic": "Logic", "loss": "Losses", "norm": "Normalisation", "numeric": "Numerical tools", "optim": "Optimiser steps",
            "pool": "Pooling", "products": "Products", "random": "Random numbers", "reduce": "Reductions", "shape": "Shapes",
            "softmax": "Softmax", "sort": "Sorting", "ternary": "Three operands", "unary": "One operand", "view": "Views"}
HEADERS = {"tensor": "Tensors", "types": "Dtypes and devices", "autograd": "Gradients", "nn": "Modules", "optim": "Optimisers",
           "data": "Data", "io": "Files", "base": "Errors, scopes, lists", "ops": "Operators' types", "device": "Devices and streams",
           "cuda": "CUDA", "cuda_memory": "Device memory", "cuda_race": "The race checker", "dispatch": "The dispatcher"}
NAME = re.compile(r"(?<![\w:`])((?:fac|FAC|FACULA)_\w*\w)(?!\w|`)")


def joined(lines):
    return "\n".join(lines) + "\n"


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


class Reference:
    """The pages, with what each name of the interface is: the role by which Sphinx links to it."""

    def __init__(self, api, all_pages):
        self.api, self.pages, self.roles = api, all_pages, {}
        for page in all_pages:
            self.note_roles(page)

    def note_roles(self, page):
        kind = page.kind if page.kind in ("type", "macro") else "func"
        self.roles.update({name: kind for name in page.names})
        self.roles.update({name: "macro" for name, _ in page.macros})
        self.roles.update({name: "type" for name, _ in page.structs})
        self.roles.update({e["name"]: "enumerator" for e in (page.type or {}).get("enumerators", [])})

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

    # ---- parts of a page ---------------------------------------------------------------------------------------------------------

    def told(self, sections):
        """The description as prose, all else as fields."""
        return [self.prose(text) if title == "Description" else f":{title}: {self.prose(text)}" for title, text in sections]

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
        if page.related:
            lines += ["Of the same name in PyTorch: " + ", ".join(f":doc:`{name}`" for name in page.related) + ".", ""]
        lines += ["**Structs**", ""] * bool(page.structs) + list(self.struct_blocks(page))
        return f"reference/ops/{page.name}.rst", joined(lines)

    def families(self, operators):
        found = {}
        for page in operators:
            found.setdefault(page.section, []).append(page)
        for family, members in found.items():
            lines = [*heading(family_title(family)), ".. list-table::", "   :widths: 35 65", ""]
            for page in members:
                lines += [f"   * - :doc:`{page.name}`", f"     - {self.prose(page.brief)}"]
            yield f"reference/ops/index_{family}.rst", joined(lines)
        ordered = sorted(found, key=family_title)
        lines = heading("Operators") + ["Each page shows an operator with its in-place and out forms.", "", ".. toctree::", "   :maxdepth: 1", ""]
        yield "reference/operators.rst", joined(lines + [f"   ops/index_{f}" for f in ordered])

    def enumerators(self, type_):
        for e in type_.get("enumerators", []):
            comment = re.search(rf"\b{e['name']}\b[^/\n]*/\*(.*?)\*/", type_["text"], re.S)
            yield from [f".. c:enumerator:: {e['name']}", "", f"   = {e['value']}" + (f": {self.prose(comment[1])}" if comment else ""), ""]

    def type_lines(self, page):
        t = page.type
        is_enum = t["kind"] == "enum"
        body = self.told(page.sections)
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
        return lines + list(self.struct_blocks(page))

    def macro_lines(self, page):
        signatures = [text if "(" in text.split(" ")[0] else name for name, text in page.macros]
        values = [f"| {name} = ``{text[len(name):].strip()}``" for name, text in page.macros if name in signatures]
        return macro_signatures(signatures) + indented("\n\n".join(self.told(page.sections)).split("\n") + [""] + values) + [""]

    def header(self, header, all_pages):
        name = header["name"].removeprefix("facula/").removesuffix(".h")
        title = f"{HEADERS[name]}: {header['name']}" if name in HEADERS else header["name"]
        lines, section = heading(title) + [self.prose(pages.labelled(header["doc"])[0]), ""], ""
        for page in (p for p in all_pages if p.header == header["name"]):
            if page.section and page.section != section:
                section = page.section
                lines += heading(section[0].upper() + section[1:], "-")
            lines += {"type": self.type_lines, "macro": self.macro_lines}.get(page.kind, self.function_lines)(page)
        return f"reference/{name}.rst", joined(lines)

    def headers(self):
        """Headers as api.json has them, and that of the operators for the types that they share."""
        return self.api["headers"] + [{"name": "facula/ops.h", "doc": "The operators; here the types that they share."}]

    def files(self):
        """(name, text) of every file."""
        operators = [p for p in self.pages if p.kind == "operator"]
        yield from map(self.operator, operators)
        yield from self.families(operators)
        rest = [p for p in self.pages if p.kind != "operator"]
        yield from (self.header(header, rest) for header in self.headers())
