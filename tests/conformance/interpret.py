"""Runs a call of PyTorch's through Facula: the call is traced once, and every aten operator of the trace is called by name
in Facula. What PyTorch's Python code does around its operators (reductions by name, defaults) is thus PyTorch's own."""

import warnings

import torch

import forms
from facula import Tensor, Unsupported


class Missing(Exception):
    """An operator that Facula does not have."""


def flatten(x, found):
    """Replaces every tensor in nested lists, tuples and dicts by its index in `found`."""
    if isinstance(x, torch.Tensor):
        found.append(x)
        return _Slot(len(found) - 1)
    if isinstance(x, (list, tuple)):
        return sequence(x, [flatten(e, found) for e in x])
    if isinstance(x, dict):
        return {k: flatten(v, found) for k, v in x.items()}
    return x


def fill(x, tensors):
    if isinstance(x, _Slot):
        return tensors[x.i]
    if isinstance(x, (list, tuple)):
        return sequence(x, [fill(e, tensors) for e in x])
    if isinstance(x, dict):
        return {k: fill(v, tensors) for k, v in x.items()}
    return x


def sequence(like, parts):
    """A list or tuple of the same type."""
    if hasattr(like, "_fields"):
        return type(like)(*parts)
    return tuple(parts) if isinstance(like, torch.Size) else type(like)(parts)


class _Slot:
    def __init__(self, i):
        self.i = i


def tensors_of(x):
    """The tensors of a result, in order."""
    found = []
    flatten(x, found)
    return found


def trace(fn, tensors):
    """The graph of fn(*tensors). Memory that fn would change is the caller's to care for. What PyTorch itself cannot trace
    or compute says nothing of Facula."""
    try:
        return traced(fn, tensors)
    except Unsupported:
        raise
    except Exception as e:
        raise Unsupported(f"PyTorch cannot trace it: {e}") from None


def traced(fn, tensors):
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")

        def run(*ts):
            out = tensors_of(fn(*ts))
            if not out:
                raise Unsupported("the result is no tensor")
            return tuple(out)

        return torch.jit.trace(run, tuple(tensors), check_trace=False).inlined_graph


def missing(facula, graph):
    """The first operator of the graph that Facula does not have, or None."""
    for node in graph.nodes():
        if node.kind().startswith("aten::") and node.kind() not in NUMBERS:
            name = operator_name(node)[0]
            if not facula.schema(name):
                return name
    return None


# A tensor becomes a number of Python's: nothing of it is an operator.
NUMBERS = {"aten::Int": int, "aten::Float": float, "aten::Bool": bool, "aten::ScalarImplicit": lambda v: v,
           "aten::IntImplicit": int, "aten::FloatImplicit": float}


def number(v):
    if isinstance(v, Number):
        return v.tensor.item()
    return v.torch().item() if isinstance(v, Tensor) else v



class Number:
    """A number of Python's where PyTorch's schema wants a tensor: a constant without dimensions, in the widest dtype. It takes
    part in type promotion only by its kind, which Facula says by a Scalar overload."""

    def __init__(self, tensor):
        self.tensor = tensor

    def wrapped(self, scope, others):
        """As a tensor, for operators without such an overload."""
        dtypes = [t.dtype() for t in others if isinstance(t, Tensor)]
        dtype = torch.get_default_dtype() if self.tensor.is_floating_point() else self.tensor.dtype
        if dtypes:
            dtype = torch.result_type(torch.empty(1, dtype=dtypes[0]), self.tensor.item())
        return scope.wrap(self.tensor.to(dtype))


def constant(scope, node):
    if not node.hasAttribute("value"):
        return None
    if node.kindOf("value") != "t":
        return node.output().toIValue()
    t = node.t("value")
    number = t.dim() == 0 and t.dtype in (torch.bool, torch.int64, torch.float64, torch.complex128)
    return Number(t) if number else scope.wrap(t)


def run(scope, graph, inputs):
    """Interprets the graph over Facula tensors; returns the results in order."""
    env = {}
    names = list(graph.inputs())
    if len(names) == len(inputs) + 1:  # a module's self
        names = names[1:]
    for v, t in zip(names, inputs):
        env[v.debugName()] = t
    for node in graph.nodes():
        step(scope, env, node)
    result = []
    for out in graph.outputs():
        v = env[out.debugName()]
        for t in v if isinstance(v, (list, tuple)) else [v]:
            result.append(t.wrapped(scope, []) if isinstance(t, Number) else t)
    return result


def step(scope, env, node):
    kind = node.kind()
    ins = lambda: [env[i.debugName()] for i in node.inputs()]
    outs = [o.debugName() for o in node.outputs()]
    if kind == "prim::Constant":
        env[outs[0]] = constant(scope, node)
    elif kind in ("prim::ListConstruct", "prim::TupleConstruct"):
        env[outs[0]] = [v.wrapped(scope, ins()) if isinstance(v, Number) else v for v in ins()]
    elif kind in ("prim::ListUnpack", "prim::TupleUnpack"):
        for name, v in zip(outs, ins()[0]):
            env[name] = v
    elif kind == "prim::NumToTensor":
        env[outs[0]] = Number(torch.tensor(ins()[0]))
    elif kind in NUMBERS:
        env[outs[0]] = NUMBERS[kind](number(ins()[0]))
    elif kind == "prim::device":
        env[outs[0]] = torch.device("cpu")
    elif kind == "prim::dtype":
        env[outs[0]] = ins()[0].dtype()
    elif kind == "prim::GetAttr":
        raise Unsupported("a trace with attributes")
    elif kind.startswith("aten::"):
        call(scope, env, node, ins(), outs)
    else:
        raise Unsupported(kind)


def operator_name(node):
    """The node's operator, overload included, and the names of its arguments."""
    text = node.schema()
    if text == "(no schema)":
        raise Unsupported(f"{node.kind()} has no schema")
    schema = torch._C.parse_schema(text)
    return schema.name + ("." + schema.overload_name if schema.overload_name else ""), [a.name for a in schema.arguments]


def scalar_overload(scope, name, arguments):
    """The overload of `name` that takes the numbers among its arguments as Scalars, if there is one."""
    numbers = [k for k, v in arguments.items() if isinstance(v, Number)]
    base, _, overload = name.partition(".")
    wanted = base + "." + overload.replace("Tensor", "Scalar", 1) if "Tensor" in overload else base + ".Scalar"
    found = scope.f.schema(wanted) if numbers else None
    kinds = {arg: kind for kind, arg, _ in found[1]} if found else {}
    return wanted if found and all(kinds.get(k, "").startswith("Scalar") for k in numbers) else None


def call(scope, env, node, values, outs):
    name, names = operator_name(node)
    if not scope.f.schema(name):
        raise Missing(name)
    arguments = dict(zip(names, values))
    other = scalar_overload(scope, name, arguments)
    if other:
        name, arguments = other, {k: v.tensor.item() if isinstance(v, Number) else v for k, v in arguments.items()}
    else:
        arguments = {k: v.wrapped(scope, values) if isinstance(v, Number) else v for k, v in arguments.items()}
    results = scope.call(name, arguments)
    if scope.forms:
        forms.check(scope, name, arguments, results)
    for out, v in zip(outs, results):
        env[out] = v
