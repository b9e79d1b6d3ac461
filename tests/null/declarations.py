"""Reads the prototypes of public functions out of Facula's headers, which are regular enough for it."""
import re
from collections import namedtuple

# `schema` is the operator's, "" for a function of the library's own.
Function = namedtuple("Function", "name returns parameters schema")
Parameter = namedtuple("Parameter", "type name")

COMMENT = re.compile(r"/\*.*?\*/", re.S)
PROTOTYPE = re.compile(r"FAC_API\s+((?:[^;/]|/(?!\*))*?);", re.S)
PARTS = re.compile(r"(.*?)\b(fac_\w+)\s*\((.*)\)$", re.S)


def split_parameters(text):
    """The parameters between commas that no parentheses enclose."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [part.strip() for part in parts + [text[start:]] if part.strip() not in ("", "void")]


def parameter(text):
    pointer = re.match(r"(.*\(\*)(\w+)(\).*)", text)
    if pointer:  # a function: its name stands inside
        return Parameter(pointer[1] + pointer[3], pointer[2])
    plain = re.match(r"(.*?)(\w+)$", text)
    return Parameter(plain[1].strip(), plain[2]) if plain and plain[1].strip() else Parameter(text, "")


def functions(text):
    """Every prototype marked FAC_API in the text of a header."""
    text = re.sub(r"\\\n", " ", text)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    for match in PROTOTYPE.finditer(text):
        comment = text.rfind("/*", 0, match.start())
        schema = re.search(r"schema: (.*)", text[comment:match.start()]) if comment >= 0 else None
        declaration = re.sub(r" FAC_PRINTF\(.*\)", "", " ".join(COMMENT.sub("", match[1]).split()))
        parts = PARTS.match(declaration)
        if not parts:
            raise SystemExit(f"cannot read the declaration: {declaration}")
        returns = parts[1].replace("FAC_MUST", "").strip()
        yield Function(parts[2], returns, [parameter(p) for p in split_parameters(parts[3])], schema[1] if schema else "")


def is_optional(schema, name):
    """Whether an operator takes None for an argument."""
    return re.search(rf"\b\w+(\(\w+!?\))?\?(\[\d*\])? {re.escape(name)}\b", schema) is not None
