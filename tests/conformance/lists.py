"""Operators over lists of tensors, which PyTorch does not trace: called by name, with the overload that fits the arguments."""

import torch

from facula import Tensor, Unsupported


def takes(op):
    return op.name.startswith("_foreach_")


def fits(value, kind):
    """Whether an argument is of a schema's type."""
    if kind == "Tensor[]":
        return isinstance(value, (list, tuple)) and all(isinstance(e, Tensor) for e in value)
    if kind == "Scalar[]":
        return isinstance(value, (list, tuple)) and all(isinstance(e, (bool, int, float, complex)) for e in value)
    if kind == "Tensor":
        return isinstance(value, Tensor)
    if kind == "Scalar":
        return isinstance(value, (bool, int, float, complex))
    return value is None or not isinstance(value, (list, tuple, Tensor))


def overload(name, args, kwargs):
    """The name of the overload, and its arguments by name."""
    if isinstance(kwargs.get("value"), (list, tuple)):  # PyTorch's Python functions have one name for both
        kwargs = {**kwargs, "scalars": kwargs["value"]}
        del kwargs["value"]
    for text in torch._C._jit_get_schemas_for_operator("aten::" + name):
        wanted = text.arguments
        if any(a.name == "out" for a in wanted) or len(args) > len(wanted) or not set(kwargs) <= {a.name for a in wanted}:
            continue
        given = dict(zip([a.name for a in wanted], args), **kwargs)
        kinds = {a.name: spelt(a.type) for a in wanted}
        if all(fits(v, kinds[k]) for k, v in given.items()) and all(a.name in given or a.has_default_value() for a in wanted):
            return text.name + ("." + text.overload_name if text.overload_name else ""), given
    raise Unsupported(f"no overload of {name} fits")


def spelt(kind):
    text = str(kind)
    return {"List[Tensor]": "Tensor[]", "List[number]": "Scalar[]", "number": "Scalar"}.get(text, text)


def run(scope, name, args, kwargs):
    """The results of one call, in order; None: Facula has no such operator."""
    full, given = overload(name, args, kwargs)
    found = scope.f.schema(full)
    if not found:
        return full, None
    arguments = {}
    for _, arg, default in found[1]:  # up to the last that is given, with defaults between
        arguments[arg] = given.get(arg, literal(default))
    while arguments and list(arguments)[-1] not in given:
        arguments.popitem()
    results = scope.call(full, arguments)
    return full, results[0] if results else []


def literal(text):
    words = {None: None, "None": None, "True": True, "False": False}
    if text in words:
        return words[text]
    return float(text) if set(text) & set(".e") else int(text)


def theirs(fn):
    """PyTorch's results; what it refuses or gets wrong itself says nothing of Facula."""
    try:
        return fn()
    except Exception as e:
        raise Unsupported(f"PyTorch cannot compute it: {e}") from None
