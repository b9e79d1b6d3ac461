"""The pages of the reference, from api.json: what man pages and HTML pages are both written from.

A page is an operator with all its forms, a run of functions that share their documentation, a type, or a macro. Its text is
plain: each writer escapes it in its own way.
"""
import dataclasses
import itertools
import json
import re

import ownership

WIDTH = 96
LABELS = {"own": "Ownership", "shape": "Shape", "dtype": "Dtypes", "errors": "Errors", "grad": "Gradient", "init": "Initial values",
          "sync": "Waiting", "settings": "Settings", "source": "Source"}
LABEL = re.compile(r"(?:^|(?<=[.:)] )|(?<=\n))(" + "|".join(LABELS) + r"):\s+", re.M)
KINDS = {"int": "truth value", "int64_t": "integer", "double": "number", "fac_ints": "list of integers",
         "fac_floats": "list of numbers", "fac_scalar": "exact, complex or boolean number", "fac_tensors": "list of tensors",
         "fac_tensor *": "tensor", "fac_generator *": "generator", "const char *": "text", "fac_device": "device"}


@dataclasses.dataclass
class Keyword:
    """A keyword as users give it; `other` is the name under which it is a list, or an exact number."""
    name: str
    kind: str
    default: str
    by_name: bool
    other: str = ""
    other_kind: str = ""


@dataclasses.dataclass
class Page:
    name: str
    names: list  # all that it documents, its own name first
    kind: str  # "operator", "function", "type", "macro"
    header: str
    section: str  # of its header; an operator's family
    line: int
    brief: str = ""
    macros: list = dataclasses.field(default_factory=list)  # (name, signature) of calls that choose a function by type
    functions: list = dataclasses.field(default_factory=list)  # entries of api.json
    calls: list = dataclasses.field(default_factory=list)  # as users write them
    structs: list = dataclasses.field(default_factory=list)  # (name, C text)
    inits: list = dataclasses.field(default_factory=list)  # prototypes of what fills keyword structs
    keywords: list = dataclasses.field(default_factory=list)
    sections: list = dataclasses.field(default_factory=list)  # (title, text)
    related: list = dataclasses.field(default_factory=list)  # names of other pages
    type: dict = None  # entry of api.json


# ---- C text ------------------------------------------------------------------------------------------------------------------

def declare(type_, name):
    """A parameter: of a pointer to a function the type is the whole declaration."""
    return type_ if "(*" in type_ else f"{type_}{name}" if type_.endswith("*") else f"{type_} {name}"


def folded(text):
    """A declaration or call in lines that a page holds, broken behind commas."""
    lines = [""]
    for piece in re.split(r"(?<=,) (?=[^)]*\)[;]?$)", text):
        if lines[-1] and len(lines[-1]) + len(piece) > WIDTH:
            lines.append("   ")
        lines[-1] += (" " if lines[-1] else "") + piece
    return "\n".join(lines)


def prototype(f):
    parameters = [declare(p["type"], p["name"]) for p in f["parameters"]] + ["..."] * bool(f.get("variadic"))
    result = f["result"] + ("" if f["result"].endswith("*") else " ")
    return f"{result}{f['name']}({', '.join(parameters) or 'void'})"


def keyword_struct(f):
    lines = ["    size_t kw_size;"]
    for k in f["keywords"]:
        note = k["comment"] if "default" not in k or "instead_of" in k else f"default {k['default']}"
        note = f"instead of .{k['instead_of']}" if "instead_of" in k else note
        lines.append(f"    {declare(k['type'], k['name'])};" + (f" /* {note} */" if note else ""))
    name = f["keyword_struct"]
    return name, f"typedef struct {name} {{\n" + "\n".join(lines) + f"\n}} {name};"


def result_struct(f):
    return f["result"], (f"typedef struct {f['result']} {{\n    fac_tensor " +
                         ", ".join("*" + n for n in f["result_fields"]) + f";\n}} {f['result']};")


def is_optional_dimension(keyword):
    return keyword["type"] == "int64_t" and keyword["default"] == "none"


def keyword_arguments(f):
    """Those that have a default are given it, by their other name if it is a list, and integers that have none 0."""
    others = {k["instead_of"]: k["name"] for k in f.get("keywords", []) if "instead_of" in k}
    for k in f.get("keywords", []):
        if "default" not in k or "instead_of" in k:
            continue
        if k["default"] != "none" or is_optional_dimension(k):
            name = others.get(k["name"], k["name"]) if k["default"].startswith("FAC_INTS") else k["name"]
            yield f".{name} = {'0' if k['default'] == 'none' else k['default']}"


def call(f):
    arguments = [p["name"] for p in f["parameters"] if p["name"] != "kw" or "keyword_struct" not in f]
    text = f"{f.get('macro') or f['name']}({', '.join(arguments + list(keyword_arguments(f)))});"
    if f.get("form", "functional") != "functional" or f["result"] == "void":
        return text
    name = "status" if f["result"] == "fac_status" else "result"
    return f"{declare(f['result'], name)} = {text}"


# ---- documentation -------------------------------------------------------------------------------------------------------------

def labelled(doc):
    """The text before the first label, and (title, text) of each."""
    parts = LABEL.split(doc)
    pairs = zip(parts[1::2], parts[2::2])
    return parts[0].strip(), [(LABELS[label], text.strip()) for label, text in pairs]


def first_sentence(text):
    text = " ".join(text.split())
    return re.split(r"(?<=[^.]\.)\s", text)[0].rstrip(".")


def keywords(f):
    listed = {}
    for k in f.get("keywords", []):
        if "instead_of" in k:
            listed[k["instead_of"]].other = k["name"]
            listed[k["instead_of"]].other_kind = KINDS.get(k["type"], k["type"])
        elif "default" in k:
            listed[k["name"]] = Keyword(k["name"], KINDS.get(k["type"], k["type"].replace("struct ", "")), k["default"], k["by_name"])
    return list(listed.values())


# ---- pages of operators ----------------------------------------------------------------------------------------------------------

FORMS = {"inplace": "{} writes its first argument and returns it.",
         "out": "{} writes to what comes first, which is resized where needed, and takes no part in autograd."}


def gradient(f):
    text = f["gradient"]
    return text if not text or text.startswith(("none", "through", "of second")) else f"with respect to {text}"


def of_operator(f):
    tensors = "fac_tensor" in f["result"] or f["result_fields"]
    return "The result belongs to the innermost scope." if tensors and f["form"] == "functional" else ""


def operator_sections(forms, titled):
    """What the entry says of an operator whose forms these are."""
    f, title = forms[0], f" of {forms[0]['name']}" if titled else ""
    yield f"Description{title}", f["doc"]
    if f["result_fields"]:
        yield f"Results{title}", f"A struct of {len(f['result_fields'])} tensors: {', '.join(f['result_fields'])}. All are NULL on failure."
    for label, text in (("Shape", f["shape"]), ("Dtypes", f["dtype"]), ("Errors", f["errors"]), ("Gradient", gradient(f)),
                        ("Ownership", of_operator(f)), ("Source", f["source"])):
        if text:
            yield f"{label}{title}", text
    others = [FORMS[g["form"]].format(g["macro"] or g["name"]) for g in forms if g["form"] in FORMS]
    if others:
        yield f"Other forms{title}", " ".join(others)
    yield f"Schema{title}", "\n".join(g["schema"] for g in forms)


def operator_page(name, functions):
    first = functions[0]
    page = Page(name, [], "operator", first["header"], first["family"], 0, first_sentence(first["doc"]))
    entries = {}
    for f in functions:
        entries.setdefault(f["form_of"], []).append(f)
        arguments = ", ".join(p["name"] if p["name"] != "kw" else "..." for p in f["parameters"])
        if f["macro"] and f["macro"] != f["name"] and f["macro"] not in dict(page.macros):
            page.macros.append((f["macro"], f"{f['macro']}({arguments})"))
        if f["result_fields"] and f["form"] == "functional":
            page.structs.append(result_struct(f))
        if "keyword_struct" in f and f["keyword_struct"] not in dict(page.structs):
            page.structs.append(keyword_struct(f))
            page.keywords = page.keywords or keywords(f)
    page.functions = functions
    page.calls = list(dict.fromkeys(call(f) for f in functions))
    for forms in entries.values():
        page.sections += operator_sections(forms, len(entries) > 1)
    page.names = list(dict.fromkeys([name] + [m for m, _ in page.macros] + [f["name"] for f in functions] + [s for s, _ in page.structs]))
    add_inits(page)
    return page


def add_inits(page):
    for name in dict.fromkeys(f["keyword_struct"] for f in page.functions if "keyword_struct" in f):
        page.inits.append(f"void {name}_init({name} *kw);")
        page.names.append(f"{name}_init")


def overload_set(page):
    """The name that PyTorch has for the page's operator and its other overloads: "max" of max.dim."""
    return re.match(r"[^.(]*", page.functions[0]["schema"])[0].rstrip("_")


def relate_overloads(operators):
    """What is one name in PyTorch and several here: each page names the others."""
    sets = {}
    for page in operators:
        sets.setdefault(overload_set(page), []).append(page.name)
    for page in operators:
        page.related = [name for name in sets[overload_set(page)] if name != page.name]


def operator_pages(api):
    operators = [f for f in api["functions"] if f["kind"] == "operator"]
    by_name = {f["name"]: f for f in operators}
    groups = {}
    for f in operators:
        base = by_name.get(f["form_of"], f)
        groups.setdefault(base["macro"] or base["name"], []).append(f)
    operators = [operator_page(name, functions) for name, functions in groups.items()]
    relate_overloads(operators)
    return operators


# ---- pages of headers --------------------------------------------------------------------------------------------------------------

def described(page, doc):
    text, sections = labelled(doc)
    page.brief = first_sentence(text)
    page.sections = [("Description", text)] * bool(text) + sections
    return page


def function_page(functions):
    """Functions that follow each other under one comment."""
    f = functions[0]
    page = Page(f["name"], [g["name"] for g in functions], "function", f["header"], f["section"], f["line"])
    page.functions = functions
    page.calls = [call(g) for g in functions]
    for g in functions:
        if "keyword_struct" in g:
            page.structs.append(keyword_struct(g))
            page.keywords = page.keywords or keywords(g)
    page.names += [s for s, _ in page.structs]
    add_inits(page)
    described(page, max((g["doc"] for g in functions), key=len))
    owned = list(dict.fromkeys(filter(None, map(ownership.of_result, functions))))
    page.sections += [("Ownership", " ".join(owned))] * bool(owned)
    return page


def function_pages(functions):
    """Functions that share a comment share a page; what stands behind a declaration in its line is its own."""
    for _, run in itertools.groupby(functions, key=lambda f: (f["header"], f["doc"].split("\n")[0])):
        yield function_page(list(run))


def type_pages(api):
    best = {}
    for t in api["types"]:
        name = t["name"] or t["enumerators"][0]["name"]
        if name not in best or (t["kind"] != "opaque" and best[name]["kind"] == "opaque"):
            best[name] = t
    for name, t in best.items():
        page = Page(name, [name] + [e["name"] for e in t.get("enumerators", []) if e["name"] != name], "type", t["header"],
                    t["section"], t["line"], type=t)
        page.structs = [(name, t["text"])]
        yield described(page, t["doc"])


def macro_pages(api):
    """Macros that follow each other under one comment share a page."""
    for _, run in itertools.groupby(api["macros"], key=lambda m: (m["header"], m["doc"] or m["name"])):
        macros = list(run)
        first, names = macros[0], [m["name"] for m in macros]
        page = Page(names[0], names, "macro", first["header"], first["section"], first["line"], type=first)
        page.macros = [(m["name"], m["text"]) for m in macros]
        yield described(page, first["doc"])


def load(path):
    """All pages: of operators in the order of their families, of headers in the order of declarations."""
    with open(path) as file:
        api = json.load(file)
    hand_written = [f for f in api["functions"] if f["kind"] == "function"]
    pages = list(function_pages(hand_written)) + list(function_pages(api["inline_functions"]))
    pages += list(type_pages(api)) + list(macro_pages(api))
    pages.sort(key=lambda p: (p.header, p.line))
    return api, operator_pages(api) + pages
