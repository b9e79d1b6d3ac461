"""Reads which functions take keywords, and which, out of the generated headers."""
import os
import re
import sys
from collections import namedtuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "null"))
from declarations import functions  # noqa: E402

# `names` are the keyword's, the second "" mostly; `argument` is the schema's; `positional` fields go by position as well.
Keyword = namedtuple("Keyword", "names argument type default positional")
# `parameters` stand before the keywords; `operator` is false for a function of the library's own.
Callee = namedtuple("Callee", "name struct parameters keywords returns operator")

STRUCT = re.compile(r"typedef struct fac_(\w+)_kw \{\n(.*?)\n\} fac_", re.S)
FIELD = re.compile(r"^    (\w.*?)(\w+) FAC_DEF\((.*?)\);(?: /\* (.*?) \*/)?", re.M)
MACRO = re.compile(r"^#define FAC_KW_(\w+)\((.*?),? *\.\.\.\) (.*)$", re.M)


def split_arguments(text):
    """The arguments of a schema between commas that no bracket encloses."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in parts + [text[start:]] if p.strip()]


def schema_arguments(schema):
    inside = schema[schema.index("(") + 1:schema.rindex(") ->")]
    return [re.sub(r"=.*", "", part).split()[-1] for part in split_arguments(inside)]


def struct_keywords(body):
    """The fields of a keyword struct but the stray, as (type, name, default, positional), and second names by first names."""
    fields, second, positional = [], {}, True
    for kind, name, default, comment in FIELD.findall(body):
        if name == "kw_stray":
            positional = False
            continue
        instead = re.match(r"instead of \.(\w+)", comment)
        if instead:
            second[instead[1]] = name
        fields.append((kind.strip(), name, default, positional))
    return fields, second


def keywords(body, arguments):
    fields, second = struct_keywords(body)
    first = {other: name for name, other in second.items()}
    for kind, name, default, positional in fields:
        one = first.get(name, name)
        names = (name, first.get(name) or second.get(name, ""))
        argument = next((n for n in (one, second.get(one)) if n in arguments), one)
        yield Keyword(names, argument, kind, default, positional)


def callees(folders):
    """Every macro that takes keywords."""
    texts = {}
    for folder in folders:
        for file in sorted(os.listdir(os.path.join(folder, "facula"))):
            if file.endswith(".h"):
                text = open(os.path.join(folder, "facula", file)).read()
                texts[file] = re.sub(r"(?: \\)?\n {8,}(?=\S)", " ", text)  # broken lines are whole
    structs = {s[1]: s[2] for text in texts.values() for s in STRUCT.finditer(text)}
    prototypes = {f.name: f for text in texts.values() for f in functions(text)}
    seen = set()
    for text in texts.values():
        for macro in MACRO.finditer(text):
            struct = re.search(r"\(fac_(\w+)_kw\)\{", macro[3])[1]
            called = [prototypes[n] for n in re.findall(r"\b(fac_\w+)\b", macro[3]) if n in prototypes]
            called = [f for f in called if f.parameters[-1].type == f"const fac_{struct}_kw *"]
            if macro[1] in seen:
                continue
            seen.add(macro[1])
            f = called[0]
            arguments = schema_arguments(f.schema) if f.schema else []
            yield Callee(f"fac_{macro[1]}", struct, f.parameters[:-1], list(keywords(structs[struct], arguments)), f.returns,
                         bool(f.schema))
