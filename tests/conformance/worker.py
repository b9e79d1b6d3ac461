"""Checks one operator of PyTorch's database after another, as the parent asks by name on standard input, and writes one JSON
line for each. It may crash: the parent then knows which operator did it."""

import json
import sys
import time

import torch
from torch.autograd import forward_ad

import interpret
import lists
from database import OPERATORS
from different import ABSENT, FREE_FACTORS, HALVES, known_difference
from facula import Error, Facula, NoKernel, Scope, Unsupported

# Results of these depend on a generator of PyTorch's own: only shape and dtype are compared.
RANDOM = {"bernoulli", "multinomial", "normal", "normal.number_mean", "nn.functional.dropout", "nn.functional.dropout2d",
          "nn.functional.dropout3d", "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout.with_train",
          "nn.functional.feature_alpha_dropout", "nn.functional.rrelu", "rand_like", "randn", "randn_like", "randint_like",
          "uniform", "exponential", "cauchy", "geometric", "log_normal", "nn.functional.fractional_max_pool2d",
          "nn.functional.fractional_max_pool3d", "randint", "empty_like", "empty", "new_empty", "new_empty_strided", "empty_strided", "empty_permuted"}
UNINITIALISED_OK = {"empty", "empty_like", "new_empty", "new_empty_strided", "empty_strided", "empty_permuted", "resize_", "resize_as_"}


WIDER = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
         torch.complex64: torch.complex128}

# Some distributions link PyTorch with a BLAS whose complex dot products return their result another way.
DOTS = {"dot", "vdot", "matmul", "__rmatmul__", "inner", "linalg.multi_dot", "tensordot", "einsum", "mv", "addmv", "linalg.vecdot"}
# Sums of products: rounding is relative to their terms, so that the error is measured against the largest element, at 4 units of its
# last place, where PyTorch's own happens to be small.
SUMS = {"addbmm", "nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.conv3d", "nn.functional.conv_transpose1d",
        "nn.functional.conv_transpose2d", "nn.functional.conv_transpose3d"}
DOT_IS_BROKEN = not torch.dot(torch.ones(2, dtype=torch.complex64), torch.ones(2, dtype=torch.complex64))


def tolerances(op, dtype):
    """The loosest of PyTorch's default for the dtype and what the database overrides for this operator."""
    rtol, atol = torch.testing._comparison.default_tolerances(dtype)
    for d in op.decorators:
        override = getattr(d, "decorators", [d])
        for o in override:
            tol = getattr(o, "tols", {}).get(dtype) if hasattr(o, "tols") else None
            if tol is not None:
                rtol, atol = max(rtol, tol.rtol), max(atol, tol.atol)
    return rtol, atol


def channels_last(t):
    """A sample's tensor with the channels innermost, if it has four or five dimensions."""
    if t.layout != torch.strided or t.dim() not in (4, 5):
        return t
    memory_format = torch.channels_last if t.dim() == 4 else torch.channels_last_3d
    return t.detach().contiguous(memory_format=memory_format).requires_grad_(t.requires_grad)


def compare_strides(mine, theirs, what, i):
    """Of dimensions of more than one element: no other stride is ever used."""
    if mine.dim() not in (4, 5) or mine.numel() == 0:
        return
    a, b = ([s for s, n in zip(t.stride(), t.shape) if n > 1] for t in (mine, theirs))
    if a != b:
        raise AssertionError(f"{what} {i}: strides {a} of {list(mine.shape)}, PyTorch has {b}")


def compare(op, mine, theirs, what, exact, formats=False):
    """Compares lists of results; with `formats` their strides too. `exact` gives PyTorch's results computed in float64 (or None): where the two differ by more than
    the tolerance, Facula's must be no farther from them than PyTorch's own are."""
    if len(mine) != len(theirs):
        raise AssertionError(f"{what}: {len(mine)} results, PyTorch has {len(theirs)}")
    for i, (a, b) in enumerate(zip(mine, theirs)):
        if a is None and b is None:
            continue
        if a is None or b is None:
            if b is not None and not b.any() or a is not None and not a.any():
                continue  # no gradient and a gradient of zeros mean the same
            raise AssertionError(f"{what} {i}: {'nothing' if a is None else 'a tensor'}, PyTorch has {'nothing' if b is None else 'a tensor'}")
        b = (b if b.layout == torch.strided else b.to_dense()).detach().resolve_conj().resolve_neg()
        if str(b.dtype) == "torch.uint64":
            b = b.view(torch.int64)  # there is no uint64: the same bits
        if a.shape != b.shape or a.dtype != b.dtype:
            raise AssertionError(f"{what} {i}: {a.dtype} {list(a.shape)}, PyTorch has {b.dtype} {list(b.shape)}")
        if formats:
            compare_strides(a, b, what, i)
        if op.name in RANDOM or op.name in UNINITIALISED_OK:
            continue
        rtol, atol = tolerances(op, b.dtype)
        if what == "gradient" and b.dtype in HALVES and b.isfinite().any():
            atol = max(atol, 4 * torch.finfo(b.dtype).eps * b[b.isfinite()].abs().max().item())
        try:
            torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{what} {i}: {m}")
        except AssertionError:
            if not as_exact(a, b, exact, i, atol, 4 if op.name in SUMS else 0):
                raise


def as_exact(mine, theirs, exact, i, atol, units):
    """Whether `mine` is no farther from the exact results than twice PyTorch's error, or than `units` of the largest one's last place."""
    try:
        wide = exact()[i] if mine.dtype in WIDER else None
    except RuntimeError:
        return False  # not in float64
    if wide is None or wide.shape != mine.shape:
        return False
    wide = wide.detach().to(WIDER[mine.dtype])
    more = mine.isfinite() & ~theirs.isfinite()
    if (theirs.isfinite() & ~mine.isfinite()).any() or (more & ~wide.isfinite()).any():
        return False
    finite = wide.isfinite() & mine.isfinite()
    error, allowed = (mine - wide)[finite].abs(), (theirs - wide)[finite & ~more].abs()
    limit = allowed.max() if allowed.numel() else torch.finfo(mine.dtype).eps * wide[finite].abs().max() if finite.any() else 0
    largest = units * torch.finfo(mine.dtype).eps * wide[finite].abs().max() if units and finite.any() else 0
    return bool(error.numel() == 0 or error.max() <= max(2 * limit, largest) + atol)


def differentiable(t):
    return t.requires_grad and (t.is_floating_point() or t.is_complex())


def copied(t):
    """A copy with the same strides and offset in a storage of its own."""
    t = t.detach()
    if t.layout != torch.strided or t.is_conj() or t.is_neg():
        return t.clone()
    storage = torch.empty(0, dtype=t.dtype).set_(t.storage().clone()) if t.numel() else torch.empty(t.storage_offset() + 1, dtype=t.dtype)
    return storage.as_strided(t.shape, t.stride(), t.storage_offset())


def check_sample(f, op, sample, gradients, forms, formats):
    """Raises if Facula and PyTorch disagree."""
    if op.name == "unique" and not sample.kwargs.get("sorted", True):
        raise Unsupported("the order is not specified")
    inputs = []
    shape = interpret.flatten((sample.input, sample.args, sample.kwargs), inputs)

    def fn(*ts):
        first, args, kwargs = interpret.fill(shape, ts)
        result = op.op(first, *args, **kwargs)
        return sample.output_process_fn_grad(result) if op.name in FREE_FACTORS else result

    graph = None
    if not lists.takes(op):
        graph = interpret.trace(fn, [copied(t) for t in inputs])
        absent = interpret.missing(f, graph)
        if absent:
            raise interpret.Missing(absent)
    mine_inputs = [copied(t) for t in inputs]
    theirs_inputs = [copied(t).requires_grad_(t.requires_grad and gradients) for t in inputs]
    wide_inputs = [copied(t).to(WIDER.get(t.dtype, t.dtype)).requires_grad_(t.requires_grad and gradients) for t in inputs]
    compute = lists.theirs if lists.takes(op) else lambda f: f()
    expected = interpret.tensors_of(compute(lambda: fn(*theirs_inputs)))
    if not expected:
        raise Unsupported("the result is no tensor")

    def exact():
        return interpret.tensors_of(fn(*wide_inputs))

    with Scope(f, forms) as scope:
        handles = [scope.wrap(t) for t in mine_inputs]
        wanted = [i for i, t in enumerate(theirs_inputs) if gradients and differentiable(t)]
        for i in wanted:
            handles[i].require_grad()
        results = interpret.run(scope, graph, handles) if graph else run_lists(scope, op, interpret.fill(shape, handles))
        compare(op, [r.torch(formats) for r in results], expected, "result", exact, formats)
        if lists.takes(op) and not gradients and op.inplace_variant:
            check_in_place(scope, op, interpret.fill(shape, [scope.wrap(copied(t)) for t in inputs]),
                           interpret.fill(shape, [copied(t) for t in inputs]), exact)
        if wanted:
            flows = [i for i, t in enumerate(expected) if differentiable(t)]
            stuck = [i for i in flows if not results[i].requires_grad()]
            if stuck:
                raise AssertionError(f"gradient: results {stuck} require none, in PyTorch {flows} do")
            if flows:
                check_gradients(op, scope, [results[i] for i in flows], [handles[i] for i in wanted], [expected[i] for i in flows],
                                [theirs_inputs[i] for i in wanted], lambda: ([exact()[i] for i in flows], [wide_inputs[i] for i in wanted]), formats)


REFUSED = ("vmap cannot run", "of a batched tensor cannot be read", "which all samples share", "not on a batched tensor")


def check_batch(f, op, sample):
    """Two samples in one vmap against PyTorch called for each: the sample, and smaller numbers where they are valid too."""
    inputs = []
    shape = interpret.flatten((sample.input, sample.args, sample.kwargs), inputs)
    if lists.takes(op) or not inputs:
        raise Unsupported("nothing to map over")
    if any(t.layout != torch.strided for t in inputs):
        raise Unsupported("samples of sparse tensors cannot be stacked")

    def fn(*ts):
        first, args, kwargs = interpret.fill(shape, ts)
        return op.op(first, *args, **kwargs)

    graph = interpret.trace(fn, [copied(t) for t in inputs])
    if absent := interpret.missing(f, graph):
        raise interpret.Missing(absent)

    def smaller(t):
        return t.detach() * 0.875 if t.is_floating_point() or t.is_complex() else t.detach()

    first = interpret.tensors_of(fn(*[copied(t) for t in inputs]))
    try:
        second, others = interpret.tensors_of(fn(*[smaller(t) for t in inputs])), [smaller(t) for t in inputs]
        if [t.shape for t in first] != [t.shape for t in second]:
            raise RuntimeError
    except RuntimeError:
        second, others = first, inputs
    if not first:
        raise Unsupported("the result is no tensor")

    def exact():
        wide = [interpret.tensors_of(fn(*[copied(t).to(WIDER.get(t.dtype, t.dtype)) for t in ts])) for ts in (inputs, others)]
        return [torch.stack([a, b]) for a, b in zip(*wide)]

    with Scope(f) as scope:
        handles = [scope.wrap(torch.stack([t.detach(), o.detach()])) for t, o in zip(inputs, others)]
        try:
            results = scope.vmap(lambda ts: interpret.run(scope, graph, ts), handles, len(first))
        except Error as e:
            raise Unsupported(str(e)) if any(text in str(e) for text in REFUSED) else e
        compare(op, [r.torch() for r in results], [torch.stack([a, b]) for a, b in zip(first, second)], "result", exact)


def run_lists(scope, op, call):
    first, args, kwargs = call
    name, results = lists.run(scope, op.name, (first, *args), kwargs)
    if results is None:
        raise interpret.Missing(name)
    return results


def check_in_place(scope, op, mine, theirs, exact):
    """The form that writes its first list; both refuse or both do the same."""
    first, args, kwargs = theirs
    if not isinstance(first, (list, tuple)):
        return
    try:
        op.inplace_variant(first, *args, **kwargs)
    except RuntimeError as e:
        refused = str(e)
    else:
        refused = None
    try:
        name, results = lists.run(scope, op.name + "_", (mine[0], *mine[1]), mine[2])
    except Error:
        if refused is None:
            raise
        return
    if results is None:
        raise interpret.Missing(name)
    if refused:
        raise AssertionError(f"in place: PyTorch refuses it: {refused}")
    compare(op, [t.torch() for t in mine[0]], list(first), "in place", exact)


def check_gradients(op, scope, results, handles, expected, inputs, wide, formats):
    torch.manual_seed(0)
    results = [r if e.layout == torch.strided else scope.call("aten::to_dense", {"self": r})[0] for r, e in zip(results, expected)]
    expected = [e if e.layout == torch.strided else e.to_dense() for e in expected]
    seeds = [torch.randn_like(t.detach()) for t in expected]
    compute = lists.theirs if lists.takes(op) else lambda f: f()
    theirs = compute(lambda: torch.autograd.grad(expected, inputs, seeds, allow_unused=True))
    mine = scope.grad(results, handles, [scope.wrap(s) for s in seeds])

    def exact():
        outputs, wide_inputs = wide()
        return torch.autograd.grad(outputs, wide_inputs, [s.to(o.dtype) for s, o in zip(seeds, outputs)], allow_unused=True)

    compare(op, [g and g.torch(formats) for g in mine], list(theirs), "gradient", exact, formats)


def check_forward(f, op, sample):
    """Tangents of the results along random tangents of all inputs that have one. The call is the one that PyTorch's own checks of
    gradients make: of a Hermitian or a triangular matrix, where the operator reads one triangle and may take the other as it likes."""
    inputs = []
    shape = interpret.flatten((sample.input, sample.args, sample.kwargs), inputs)

    def fn(*ts):
        first, args, kwargs = interpret.fill(shape, ts)
        result = op.op(first, *args, **kwargs) if lists.takes(op) else op.gradcheck_wrapper(op.op, first, *args, **kwargs)
        return sample.output_process_fn_grad(result) if op.name in FREE_FACTORS else result

    graph = None if lists.takes(op) else interpret.trace(fn, [copied(t) for t in inputs])
    if graph and (absent := interpret.missing(f, graph)):
        raise interpret.Missing(absent)
    torch.manual_seed(0)
    along = [torch.randn_like(t.detach()) if differentiable(t) else None for t in inputs]

    def theirs(widen):
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(widen(copied(t)), widen(v)) if v is not None else copied(t) for t, v in zip(inputs, along)]
            return [forward_ad.unpack_dual(t).tangent for t in interpret.tensors_of(fn(*duals))]

    try:
        expected = theirs(lambda t: t)
    except (NotImplementedError, RuntimeError) as e:
        raise Unsupported(f"PyTorch has no tangent: {e}")
    with Scope(f, False) as scope:
        level = scope.enter_level()
        try:
            handles = [scope.wrap(copied(t)) for t in inputs]
            handles = [scope.dual(h, scope.wrap(v)) if v is not None else h for h, v in zip(handles, along)]
            results = interpret.run(scope, graph, handles) if graph else run_lists(scope, op, interpret.fill(shape, handles))
            mine = [scope.tangent(r) for r in results]
            compare(op, [t and t.torch() for t in mine], expected, "tangent", lambda: theirs(lambda t: t.to(WIDER.get(t.dtype, t.dtype))))
        finally:
            scope.exit_level(level)


def samples_of(op, dtype, gradients):
    torch.manual_seed(1)
    return op.sample_inputs("cpu", dtype, requires_grad=gradients)


def check_operator(f, op, dtype, mode, limit, seconds):
    """Counts and reasons for one operator, dtype and mode (plain, noncontiguous, forms, gradient, formats, forward, vmap)."""
    gradients = mode in ("gradient", "forward") or mode == "formats" and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    out = {"samples": 0, "passed": 0, "failed": 0, "missing": 0, "unsupported": 0, "cut": False, "reasons": []}
    started = time.monotonic()
    for n, sample in enumerate(samples_of(op, dtype, gradients)):
        if n >= limit or time.monotonic() - started > seconds:
            out["cut"] = True
            break
        found = []
        interpret.flatten((sample.input, sample.args, sample.kwargs), found)
        if mode == "noncontiguous":
            sample = sample.noncontiguous()
        if mode == "formats":
            if not any(t.dim() in (4, 5) for t in found):
                continue
            sample = sample.transform(lambda t: channels_last(t) if isinstance(t, torch.Tensor) else t)
        out["samples"] += 1
        try:
            if mode == "forward":
                check_forward(f, op, sample)
            elif mode == "vmap":
                check_batch(f, op, sample)
            else:
                check_sample(f, op, sample, gradients, mode == "forms", mode == "formats")
            out["passed"] += 1
            continue
        except interpret.Missing as e:
            out["unsupported" if op.name in ABSENT else "missing"] += 1
            reason = f"unsupported: {ABSENT[op.name]}" if op.name in ABSENT else f"missing {e}"
        except NoKernel as e:
            out["missing"] += 1
            reason = str(e)
        except Unsupported as e:
            out["unsupported"] += 1
            reason = f"unsupported: {e}"
        except Exception as e:  # whatever it is, it is this sample's result
            why = known_difference(op, dtype, sample, " ".join(str(e).split()))
            if not why and dtype.is_complex and DOT_IS_BROKEN and op.name in DOTS:
                why = "this build of PyTorch has a dot product of complex vectors that gives 0"
            out["unsupported" if why else "failed"] += 1
            reason = why or f"{type(e).__name__}: {str(e).strip()}"
        reason = " ".join(reason.split())[:300]
        if reason not in out["reasons"] and len(out["reasons"]) < 4:
            out["reasons"].append(reason)
    return out


def main():
    f = Facula(*sys.argv[1:3])
    torch.set_num_threads(1)
    for line in sys.stdin:
        job = json.loads(line)
        op, dtype = OPERATORS[job["op"]], getattr(torch, job["dtype"])
        result = {"samples": 0, "skipped": True}
        if dtype in op.supported_dtypes("cpu") and (job["mode"] not in ("gradient", "forward") or (op.supports_autograd and dtype in op.supported_backward_dtypes("cpu"))):
            try:
                result = check_operator(f, op, dtype, job["mode"], job["limit"], job["seconds"])
            except Exception as e:  # the database itself failed
                result = {"samples": 0, "skipped": True, "reasons": [f"{type(e).__name__}: {e}"[:200]]}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
