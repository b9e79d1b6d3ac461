"""Runs a call of PyTorch's through Facula: the call is traced once, and every aten operator of the trace is called by name
in Facula. What PyTorch's Python code does around its operators (reductions by name, defaults) is thus PyTorch's own."""

import warnings

import torch

from facula import Unsupported


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
    """The graph of fn(*tensors). Memory that fn would change is the caller's to care for."""
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
NUMBERS = ("aten::Int", "aten::Float", "aten::Bool", "aten::ScalarImplicit", "aten::IntImplicit", "aten::FloatImplicit")


def constant(node):
    return node.output().toIValue() if node.hasAttribute("value") else None


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
        result.extend(v if isinstance(v, (list, tuple)) else [v])
    return result


def step(scope, env, node):
    kind = node.kind()
    ins = lambda: [env[i.debugName()] for i in node.inputs()]
    outs = [o.debugName() for o in node.outputs()]
    if kind == "prim::Constant":
        v = constant(node)
        env[outs[0]] = scope.wrap(v) if isinstance(v, torch.Tensor) else v
    elif kind in ("prim::ListConstruct", "prim::TupleConstruct"):
        env[outs[0]] = ins()
    elif kind in ("prim::ListUnpack", "prim::TupleUnpack"):
        for name, v in zip(outs, ins()[0]):
            env[name] = v
    elif kind == "prim::NumToTensor":
        v = ins()[0]
        env[outs[0]] = scope.wrap(torch.tensor(v))
    elif kind in NUMBERS:
        v = ins()[0]
        env[outs[0]] = v.torch().item() if hasattr(v, "torch") else v
    elif kind == "prim::device":
        env[outs[0]] = torch.device("cpu")
    elif kind == "prim::dtype":
        env[outs[0]] = ins()[0].torch().dtype
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


def call(scope, env, node, values, outs):
    name, arguments = operator_name(node)
    if not scope.f.schema(name):
        raise Missing(name)
    for out, v in zip(outs, scope.call(name, dict(zip(arguments, values)))):
        env[out] = v
