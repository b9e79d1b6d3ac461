"""The other forms of an operator beside its functional one: into tensors given as out, which lie with gaps, and in place. They
compute the same, bit for bit, and write nothing beside."""

import torch

from facula import Error, Tensor

FILL = 77  # what lies in memory that is written to, and in its gaps


def is_written(kind):
    return "!" in kind


def plain(arguments):
    """Kinds and names of the arguments that are not written; a list's marks of aliasing do not count."""
    return [(kind.partition("(")[0], name) for kind, name, _ in arguments if not is_written(kind)]


def out_form(f, name):
    """The operator that computes the same into tensors that it is given: its name and the names of those."""
    wanted = plain(f.schema(name)[1])
    for other in f.overloads(name.partition(".")[0]):
        arguments = f.schema(other)[1]
        outs = [arg for kind, arg, _ in arguments if is_written(kind)]
        if outs and not is_written(arguments[0][0]) and plain(arguments) == wanted:
            return other, outs
    return None


def in_place_form(f, name):
    base, dot, overload = name.partition(".")
    other = base + "_" + dot + overload
    found = f.schema(other)
    if not found or not is_written(found[1][0][0]) or plain(f.schema(name)[1])[1:] != plain(found[1]):
        return None
    return other


def same(a, b):
    """Bit for bit, but for the payloads and signs of NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.is_floating_point() or a.is_complex():
        a, b = (torch.view_as_real(t) if t.is_complex() else t for t in (a, b))
        nan = a.isnan()
        return bool((nan == b.isnan()).all()) and torch.equal(a.masked_fill(nan, 0), b.masked_fill(nan, 0))
    return torch.equal(a, b)


def with_gaps(like):
    """A tensor of its sizes whose last dimension takes every other element of a filled one, and the latter."""
    whole = torch.full([*like.shape[:-1], 2 * like.shape[-1]] if like.dim() else [2], FILL, dtype=torch.uint8).to(like.dtype)
    return (whole[..., ::2] if like.dim() else whole[0]), whole


def gaps_are_whole(whole, like):
    gaps = whole[..., 1::2] if like.dim() else whole[1]
    return bool((gaps == torch.tensor(FILL).to(whole.dtype)).all())


def check_sparse_out(scope, name, other, outs, arguments, results):
    """Into tensors of the results' own layout."""
    zeros = [scope.call("aten::zeros_like", {"self": r})[0] for r in results]
    made = scope.call(other, {**arguments, **dict(zip(outs, zeros))})
    for r, m, z in zip(results, made, zeros):
        if not same(r.torch(), m.torch()) or not same(r.torch(), z.torch()):
            raise AssertionError(f"{other} into a sparse tensor gives other results than {name}")


def check_out(scope, name, arguments, results):
    found = out_form(scope.f, name)
    if not found or len(found[1]) != len(results):
        return
    other, outs = found
    if any(r.is_sparse() for r in results):
        check_sparse_out(scope, name, other, outs, arguments, results)
        return
    expected = [r.torch() for r in results]
    given = [with_gaps(e) for e in expected]
    made = scope.call(other, {**arguments, **{arg: scope.wrap(t) for arg, (t, _) in zip(outs, given)}})
    for e, m, (_, whole) in zip(expected, made, given):
        if not same(e, m.torch()):
            raise AssertionError(f"{other} into a tensor with gaps gives other results than {name}")
        if not gaps_are_whole(whole, e):
            raise AssertionError(f"{other} writes into gaps of its out tensor")


def check_in_place(scope, name, arguments, results):
    other = in_place_form(scope.f, name)
    first = scope.f.schema(name)[1][0][1]
    before, expected = arguments[first], results[0].torch() if other else None
    if not other or not isinstance(before, Tensor) or before.torch().shape != expected.shape or before.dtype() != expected.dtype:
        return
    written = scope.wrap(before.torch().clone())
    made, = scope.call(other, {**arguments, scope.f.schema(other)[1][0][1]: written})
    if not same(expected, written.torch()) or not same(expected, made.torch()):
        raise AssertionError(f"{other} gives other results than {name}")


def check(scope, name, arguments, results):
    if is_written(scope.f.schema(name)[1][0][0]) if scope.f.schema(name)[1] else True:
        return
    if scope.f.is_random(name) or not results or not all(isinstance(r, Tensor) for r in results):
        return
    try:
        check_out(scope, name, arguments, results)
        check_in_place(scope, name, arguments, results)
    except Error as e:
        raise AssertionError(f"a form of {name} fails: {e}") from None
