"""One module with one set of arguments, in Facula and in PyTorch: its text, its state, what it computes in either mode with gradients and
statistics, its copy, and what is saved and loaded. Raises Different with what differs; Skipped where PyTorch cannot be asked."""

import ast
import inspect
import pathlib
import tempfile
import warnings

import torch
from library import Refused, Scope, TensorError
from rules import inputs_of, odd_inputs, with_tensors

VERSION = tuple(int(n) for n in torch.__version__.split("+")[0].split(".")[:2])
PATH = pathlib.Path(tempfile.gettempdir()) / "facula-modules.safetensors"  # replaced by run.py
TOLERANCES = {torch.float32: (1e-4, 2e-5), torch.float64: (1e-8, 1e-10)}
MASKED = {"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "RReLU"}  # random in training


class Different(Exception):
    pass


class Skipped(Exception):
    pass


class Counts:
    def __init__(self):
        self.sets = self.texts = self.states = self.outputs = self.gradients = self.buffers = self.refusals = self.copies = self.files = 0
        self.masks = self.inputs = 0

    def __str__(self):
        return ", ".join(f"{n} {name}" for name, n in vars(self).items())


# ---- PyTorch's side ----------------------------------------------------------------------------------------------------------------


def in_python(values):
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def theirs_of(name, values, kind):
    """PyTorch's module; with indices as a second result where Facula's has them."""
    cls = getattr(torch.nn, name, None)
    if cls is None:
        raise Skipped(f"PyTorch {VERSION[0]}.{VERSION[1]} has no {name}")
    known = inspect.signature(cls.__init__).parameters
    if "kwargs" not in known and "args" not in known:
        for argument in values:
            if argument not in known:
                raise Skipped(f"PyTorch {VERSION[0]}.{VERSION[1]}: {name} has no {argument}")
    more = {"return_indices": True} if [o["name"] for o in kind["outputs"]] == ["y", "indices"] else {}
    floats = {a["name"] for a in kind["arguments"] if a["type"].startswith("float")}
    values = {n: v.clone() if isinstance(v, torch.Tensor) else float(v) if n in floats and isinstance(v, int) else v
              for n, v in values.items()}  # Facula shows floating-point numbers as such
    return cls(**values, **more), cls(**values)


# Arguments of PyTorch's that Facula's have not: older ones, those of which one value makes sense, and results that are always there.
LEFT_OUT = {"custom_encoder", "custom_decoder", "distance_function", "options", "size_average", "reduce", "min_value",
            "max_value", "_weight", "_freeze", "return_indices"}
FACULAS_OWN = {"causal"}
ONE_VALUE = {"ConvTranspose1d": {"padding_mode"}, "ConvTranspose2d": {"padding_mode"}, "ConvTranspose3d": {"padding_mode"}}


def same_signature(kind):
    """Facula's arguments are PyTorch's, in their order and with their defaults; some that PyTorch takes by position go by name alone."""
    name, mine = kind["module"], [a for a in kind["arguments"] if not a["name"].endswith("_name") and a["name"] not in FACULAS_OWN]
    left_out = LEFT_OUT | ONE_VALUE.get(name, set())
    theirs = [p for p in inspect.signature(getattr(torch.nn, name).__init__).parameters.values()
              if p.name not in left_out | {"self", "args", "kwargs"}]
    if not theirs:
        return  # (*args, **kwargs) tells nothing
    if [a["name"] for a in mine] != [p.name for p in theirs]:
        raise Different(f"arguments {[a['name'] for a in mine]}, PyTorch has {[p.name for p in theirs]}")
    for a, p in zip(mine, theirs):
        default = ast.literal_eval(a["default"]) if "default" in a else inspect.Parameter.empty
        theirs_default = p.default
        if callable(theirs_default) and theirs_default is not inspect.Parameter.empty:
            theirs_default = theirs_default.__name__  # F.relu: "relu"
        if isinstance(theirs_default, tuple):
            theirs_default = list(theirs_default)
        not_given = p.default is None and a.get("default") in ("0", "[]")
        if default != theirs_default and not not_given:
            raise Different(f"{p.name} is {a.get('default')}, in PyTorch {p.default}")


def attempt(make, *kinds):
    """(result, None), or (None, the error's text)."""
    try:
        return make(), None
    except kinds as e:
        return None, (str(e) or type(e).__name__).splitlines()[0]


PYTHON_ERRORS = (RuntimeError, ValueError, TypeError, IndexError, AssertionError, NotImplementedError, ZeroDivisionError, KeyError)


# ---- comparisons -------------------------------------------------------------------------------------------------------------------


def same_values(mine, theirs, what, exactly=False):
    if (mine is None) != (theirs is None):
        if (mine if theirs is None else theirs).any():
            raise Different(f"{what}: {'nothing' if mine is None else 'a tensor'}, PyTorch has {'nothing' if theirs is None else 'one'}")
        return
    if mine is None:
        return
    theirs = (theirs.to_dense() if theirs.is_sparse else theirs).detach()
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        raise Different(f"{what}: {mine.dtype} {list(mine.shape)}, PyTorch has {theirs.dtype} {list(theirs.shape)}")
    if exactly or not mine.is_floating_point():
        if not torch.equal(mine.nan_to_num(nan=7), theirs.nan_to_num(nan=7)):
            raise Different(f"{what}: other values, by {(mine.double() - theirs.double()).abs().max()}")
        return
    rtol, atol = TOLERANCES[mine.dtype]
    finite = theirs[theirs.isfinite()]
    atol *= max(1.0, finite.abs().max().item() if finite.numel() else 1.0)
    try:
        torch.testing.assert_close(mine, theirs, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as e:
        raise Different(f"{what}: " + " ".join(str(e).split())[:150]) from None


def same_state(mine, theirs, what, exactly):
    if list(mine) != list(theirs):
        raise Different(f"{what}: {list(mine)}, PyTorch has {list(theirs)}")
    for name, value in mine.items():
        if value.shape != theirs[name].shape or value.dtype != theirs[name].dtype:
            raise Different(f"{what}: {name} is {value.dtype} {list(value.shape)}, "
                            f"PyTorch has {theirs[name].dtype} {list(theirs[name].shape)}")
        if exactly:
            same_values(value, theirs[name], f"{what}: {name}", exactly == "bits")


# ---- one input -------------------------------------------------------------------------------------------------------------------


def leaves(tensors, wanted):
    return [t.detach().clone().requires_grad_(i in wanted) if t is not None else None for i, t in enumerate(tensors)]


def list_of(result):
    """The tensors of a result, which may be a tuple in a tuple: (output, (h, c))."""
    return [t for r in result for t in list_of(r)] if isinstance(result, (tuple, list)) else [result]


def called(module, given):
    """PyTorch's module with inputs as Facula has them: states of an LSTM by themselves, masks by position."""
    name = type(module).__name__
    if name in ("LSTM", "LSTMCell") and len(given) == 3:
        return module(given[0], (given[1], given[2]))
    if name == "MultiheadAttention":
        query, key, value, padding, mask = (*given, *[None] * (5 - len(given)))
        key, value = (query if t is None else t for t in (key, value))
        return module(query, key, value, key_padding_mask=padding, attn_mask=mask)
    return module(*given)


class Run:
    """The same step in both: outputs, then gradients of inputs and parameters for a given gradient of the outputs."""

    def __init__(self, check, mine, theirs, tensors, wanted):
        self.c, self.mine, self.theirs, self.tensors, self.wanted = check, mine, theirs, tensors, wanted
        self.inplace = check.values.get("inplace", False)

    def their_step(self):
        xs = leaves(self.tensors, self.wanted)
        given = [x * 1 if self.inplace and i == 0 and x.is_floating_point() else x for i, x in enumerate(xs)]
        while given and given[-1] is None:
            given.pop()
        outputs = list_of(called(self.theirs, given))
        parameters = [p for p in self.theirs.parameters()]
        seed = torch.Generator().manual_seed(5)
        cotangents = [torch.randn(y.shape, generator=seed, dtype=torch.float64).to(y.dtype) for y in outputs if y.requires_grad]
        differentiable = [y for y in outputs if y.requires_grad]
        sources = [x for i, x in enumerate(xs) if i in self.wanted] + parameters
        gradients = torch.autograd.grad(differentiable, sources, cotangents, allow_unused=True) if differentiable and sources else []
        return given, outputs, cotangents, list(gradients), len(sources)

    def my_step(self, cotangents):
        scope = self.c.scope
        xs = []
        for i, t in enumerate(self.tensors):
            x = None if t is None else scope.wrap(t.detach().clone())
            if i in self.wanted:
                x.require_grad()
            xs.append(x)
        given = [scope.call("aten::mul.Tensor", {"self": x, "other": scope.wrap(torch.ones((), dtype=x.dtype()))})[0]
                 if self.inplace and i == 0 and x.dtype().is_floating_point else x for i, x in enumerate(xs)]
        while given and given[-1] is None:
            given.pop()
        outputs = self.mine(scope, *given)
        sources = [x for i, x in enumerate(xs) if i in self.wanted] + [p for _, p in self.mine.parameters(scope)]
        differentiable = [y for y in outputs if y is not None and y.requires_grad()]
        if cotangents is None or len(differentiable) != len(cotangents):
            return given, outputs, None
        gradients = scope.grad(differentiable, sources, [scope.wrap(c) for c in cotangents]) if differentiable and sources else []
        return given, outputs, gradients

    def compare(self, what):
        """False if both refuse."""
        theirs, their_error = attempt(self.their_step, *PYTHON_ERRORS)
        mine, my_error = attempt(lambda: self.my_step(theirs and theirs[2]), Refused, TensorError)
        if their_error or my_error:
            if their_error and my_error:
                return False
            if their_error:
                raise Different(f"{what}: PyTorch refuses ({their_error[:120]})")
            raise Different(f"{what}: refused ({my_error[:120]})")
        given, outputs, _, gradients, n_sources = theirs
        my_given, my_outputs, my_gradients = mine
        if self.c.random(self.theirs):
            masked(self.c, given[0] if not self.inplace else self.tensors[0], my_outputs[0].torch(), my_gradients, what, theirs[2])
            return True
        if len(outputs) != len(my_outputs):
            raise Different(f"{what}: {len(my_outputs)} results, PyTorch has {len(outputs)}")
        for i, (y, my_y) in enumerate(zip(outputs, my_outputs)):
            same_values(my_y and my_y.torch(), y, f"{what}: output {i}")
            if my_y.requires_grad() != y.requires_grad:
                raise Different(f"{what}: output {i} {'needs' if my_y.requires_grad() else 'needs no'} gradient, unlike PyTorch's")
            self.c.counts.outputs += 1
        for i, (g, my_g) in enumerate(zip(gradients, my_gradients or [])):
            same_values(my_g and my_g.torch(), g, f"{what}: gradient {i}")
            self.c.counts.gradients += 1
        if self.inplace:
            same_values(my_given[0].torch(), given[0], f"{what}: the input afterwards")
        return True


def masked(check, x, y, gradients, what, cotangents):
    """Whether what a random layer did to x is one of the things that it may do, in about the right share of places."""
    v, name = check.values, check.kind["module"]
    x = x.detach()
    if x.shape != y.shape or x.dtype != y.dtype:
        raise Different(f"{what}: {y.dtype} {list(y.shape)} of {x.dtype} {list(x.shape)}")
    check.counts.masks += 1
    if name == "RReLU":
        low, high = v.get("lower", 1 / 8), v.get("upper", 1 / 3)
        slope = (y / x)[x < 0]
        good = torch.equal(y[x >= 0], x[x >= 0]) and ((slope >= low - 1e-5) & (slope <= high + 1e-5)).all()
        slopes = y / x
        if high > low:
            check.masks.setdefault(name, []).append((slope.numel(), ((slope - low) / (high - low)).double().sum().item(), 0.5, 1 / 12))
    else:
        p = v.get("p", 0.5)
        if "Alpha" in name:
            a_ = -1.7580993408473766
            scale = ((1 - p) * (1 + p * a_ ** 2)) ** -0.5 if p < 1 else 0
            kept, dropped = scale * x - scale * p * a_, torch.full_like(x, scale * a_ - scale * p * a_)
        else:
            scale = 1 / (1 - p) if p < 1 else 0
            kept, dropped = x * scale, torch.zeros_like(x)
        is_kept, is_dropped = ((y - k).abs() <= 1e-5 * (1 + k.abs()) for k in (kept, dropped))
        good = (is_kept | is_dropped).all()
        dropped = is_dropped & ~is_kept
        if name not in ("Dropout", "AlphaDropout") and good:  # whole channels
            features = 2 if name in ("Dropout2d", "FeatureAlphaDropout") else y.dim() - int(name[-2])
            if features < y.dim():
                flat = dropped.flatten(features)
                good, dropped = bool((flat == flat[..., :1]).all()), flat[..., 0]
        if 0 < p < 1:
            check.masks.setdefault(name, []).append((dropped.numel(), dropped.sum().item(), p, p * (1 - p)))
        slopes = torch.where(is_kept, torch.full_like(x, scale), torch.zeros_like(x))
    if not good:
        raise Different(f"{what}: these are not values that the layer may give")
    if gradients and gradients[0] is not None:
        mine, g = gradients[0].torch(), cotangents[0] if cotangents else None
        expected = g * torch.where(x >= 0, torch.ones_like(x), slopes) if name == "RReLU" else g * slopes
        same_values(mine, expected, f"{what}: gradient under the mask")


# ---- one set of arguments ------------------------------------------------------------------------------------------------------------


class Check:
    def __init__(self, library, kind, values, counts, masks):
        self.library, self.kind, self.counts, self.masks = library, kind, counts, masks
        self.given = values
        self.dtype = values.get("dtype", torch.float32)
        self.values = with_tensors(kind, values, 3, self.dtype)
        self.tensors = {n: v for n, v in self.values.items() if isinstance(v, torch.Tensor)}

    def random(self, theirs):
        return theirs.training and self.kind["module"] in MASKED

    def make_mine(self):
        """From text, and by the constructor; where there are tensors by the constructor alone. Both are made or refused."""
        by_call, error = attempt(lambda: self.library.by_constructor(self.kind, self.values, self.scope), Refused)
        if self.tensors:
            return by_call, error
        text = f"{self.kind['module']}({in_python(self.values)})"
        from_text, text_error = attempt(lambda: self.library.from_text(text), Refused)
        if (by_call is None) != (from_text is None):
            raise Different(f"as text {text_error or 'it is made'}, by the constructor {error or 'it is made'}")
        if by_call and str(by_call) != str(from_text):
            raise Different(f"{text} is {from_text}, by the constructor {by_call}")
        return from_text, error

    def run(self, thorough):
        with warnings.catch_warnings(), Scope(self.library.f) as self.scope:
            warnings.simplefilter("ignore")
            self.counts.sets += 1
            theirs, their_error = attempt(lambda: theirs_of(self.kind["module"], self.values, self.kind), *PYTHON_ERRORS)
            mine, my_error = self.make_mine()
            if their_error and mine:
                raise Different(f"PyTorch refuses to make it ({their_error[:120]})")
            if their_error:
                self.counts.refusals += 1
                return
            self.theirs, shown = theirs
            if my_error:
                self.refused_later(my_error)
                return
            self.same_start(mine)
            self.steps(mine, thorough)
            self.same_text(mine, shown)

    def refused_later(self, my_error):
        """What PyTorch makes may be refused at once if PyTorch refuses to compute it with any input."""
        for tensors in inputs_of(self.kind, self.values, 1, self.dtype):
            made, _ = attempt(lambda: called(self.theirs, [t for t in tensors if t is not None]), *PYTHON_ERRORS)
            if made is not None:
                raise Different(f"it is refused ({my_error[:120]})")
        self.counts.refusals += 1

    def same_text(self, mine, shown):
        """PyTorch's, which is read as the same module if it is read at all: of losses it says nothing."""
        if str(mine) != repr(shown):
            raise Different(f"text: {mine} for {shown!r}")
        self.counts.texts += 1
        again, _ = attempt(lambda: self.library.from_text(str(mine)), Refused)
        if again and str(again) != str(mine):
            raise Different(f"text: {mine} is read as {again}")

    def same_start(self, mine):
        """The names of the state, and constants that it starts with; then PyTorch's values are put in the place of both's."""
        theirs = self.theirs.state_dict()
        same_state(mine.state(self.scope), theirs, "state", False)
        source = torch.Generator().manual_seed(11)
        for name, value in theirs.items():
            if value.is_floating_point() and name != "running_var":
                value.copy_(value + 0.25 * torch.randn(value.shape, generator=source, dtype=torch.float64).to(value.dtype))
        mine.load(theirs, self.scope)
        same_state(mine.state(self.scope), theirs, "state as it was loaded", "bits")
        self.counts.states += 1

    def wanted(self, tensors):
        """Which inputs get a gradient: all that are floating, of which PyTorch refuses none."""
        wanted = [i for i, t in enumerate(tensors) if t is not None and t.is_floating_point()]
        try:
            probe = leaves(tensors, wanted)
            while probe[-1] is None:
                probe.pop()
            state = {n: t.clone() for n, t in self.theirs.state_dict().items()}
            given = [p * 1 if p is not None and p.is_floating_point() else p for p in probe]
            y = list_of(called(self.theirs, given))[0]
            if y.requires_grad and y.numel():
                torch.autograd.grad(y.sum(), [probe[i] for i in wanted], allow_unused=True)
            return wanted
        except PYTHON_ERRORS:
            return wanted[:1]
        finally:
            self.theirs.load_state_dict(state)

    def steps(self, mine, thorough):
        inputs = inputs_of(self.kind, self.values, 1, self.dtype)
        doubles = thorough and not self.theirs.state_dict() and self.dtype != torch.float64
        for mode in (True, False):
            self.theirs.train(mode)
            mine.train(mode)
            for i, tensors in enumerate(inputs):
                if self.one_input(mine, tensors, f"{'training' if mode else 'evaluation'}, input {i}") and not i:
                    self.copy_and_file(mine, tensors, mode)
        if doubles:
            for i, tensors in enumerate(inputs_of(self.kind, self.values, 2, torch.float64)):
                self.one_input(mine, tensors, f"float64, input {i}")
        if thorough:
            self.odd(mine, inputs[0])

    def one_input(self, mine, tensors, what):
        self.counts.inputs += 1
        accepted = Run(self, mine, self.theirs, tensors, self.wanted(tensors)).compare(what)
        if not accepted:
            self.counts.refusals += 1
        theirs = self.theirs.state_dict()
        same_state(mine.state(self.scope), theirs, f"{what}: state afterwards", "about")
        self.counts.buffers += len(theirs) - len(list(self.theirs.parameters()))
        return accepted

    def odd(self, mine, good):
        self.theirs.eval()
        mine.train(False)
        for i, tensors in enumerate(odd_inputs(good)):
            shape = f"{tensors[0].dtype} {list(tensors[0].shape)}"
            self.one_input(mine, tensors, f"odd input {i}, {shape}")

    def copy_and_file(self, mine, tensors, mode):
        """A copy computes the same bits, and so does a module that was loaded from what this one saved."""
        if self.random(self.theirs):
            return
        copy, fresh = mine.copy(), None
        if str(copy) != str(mine):
            raise Different(f"the copy is {copy}, of {mine}")
        if not mode and not self.tensors:
            fresh, _ = attempt(self.make_mine, Refused)
            fresh = fresh[0]
            fresh.train(mode)
            mine.save_file(PATH)
            fresh.load_file(PATH)
            same_state(fresh.state(self.scope), mine.state(self.scope), "state from a file", "bits")
            self.counts.files += 1
        expected = None
        for module, what in ((mine, "itself"), (copy, "the copy"), (fresh, "the loaded one")):
            if module is None:
                continue
            given = [None if t is None else self.scope.wrap(t.detach().clone()) for t in tensors]
            while given[-1] is None:
                given.pop()
            state = module.state(self.scope)
            y = module.first(self.scope, *given).torch()
            after = module.state(self.scope)
            if expected is None:
                expected = y, after
                mine.load(state, self.scope)
            else:
                same_values(y, expected[0], f"{what}: output", True)
                same_state(after, expected[1], f"{what}: state afterwards", "bits")
        self.counts.copies += 1
