#!/usr/bin/env python3
"""Optimisers and schedules against PyTorch, step by step from equal parameters and gradients: compare.py LIBRARY API_JSON [--only TEXT].

Each case takes STEPS steps in both, in float64 within rounding and in float32 within its rounding; in the middle Facula's
optimiser is saved to a file and another one, of other settings, loads it: both must go on bit by bit alike. Cases that the
PyTorch at hand has no counterpart for are counted with the reason. Without PyTorch the exit status is 77.
"""
import argparse
import ctypes as C
import math
import pathlib
import sys
import tempfile
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"))
import facula  # noqa: E402

try:
    import torch
except ImportError:
    print("no PyTorch to compare with")
    sys.exit(77)

STEPS = 100
SHAPES = [(4, 3), (5,), (2, 3, 2), (3, 4)]
VERSION = tuple(int(x) for x in torch.__version__.split("+")[0].split(".")[:2])
# What PyTorch 2.15 has and 1.13 has not; a version between the two counts as the older.
LACKS = {"decoupled": "it has no decoupled_weight_decay", "Adafactor": "it has no Adafactor", "Muon": "it has no Muon",
         "LBFGS": "its LBFGS has no maximize", "NAdam": "its NAdam multiplies by the last momentum twice"}


def old(what):
    return LACKS[what] if VERSION < (2, 15) else None


class Case:
    """One optimiser in both libraries. ours and theirs are keywords; renamed ones are translated."""

    def __init__(self, name, torch_name, lr, ours=None, theirs=None, why=None, shapes=SHAPES, rounding=None, sparse=False):
        self.name, self.torch_name, self.lr = name, torch_name, lr
        self.ours, self.theirs = ours or {}, theirs if theirs is not None else ours or {}
        self.why, self.shapes, self.rounding, self.sparse = why, shapes, rounding, sparse
        self.title = f"{torch_name}({', '.join(f'{k}={v}' for k, v in self.ours.items())})"


def betas(a, b, **more):
    return {"beta1": a, "beta2": b, **more}, {"betas": (a, b), **more}


def cases():
    yield Case("sgd", "SGD", 0.1, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01})
    for name in "adam", "adamw":
        yield Case(name, {"adam": "Adam", "adamw": "AdamW"}[name], 0.01, *betas(0.8, 0.95, amsgrad=True, weight_decay=0.1))
    yield Case("adam", "Adam", 0.01, {"weight_decay": 0.1, "decoupled_weight_decay": True}, why=old("decoupled"))
    yield Case("rmsprop", "RMSprop", 0.01)
    yield Case("rmsprop", "RMSprop", 0.01, {"alpha": 0.9, "momentum": 0.8, "weight_decay": 0.1})
    yield Case("rmsprop", "RMSprop", 0.01, {"centered": True, "eps": 1e-4, "maximize": True})
    yield Case("rmsprop", "RMSprop", 0.01, {"centered": True, "momentum": 0.5})
    yield Case("adagrad", "Adagrad", 0.1)
    yield Case("adagrad", "Adagrad", 0.1, {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-3,
                                         "maximize": True})
    yield Case("adagrad", "Adagrad", 0.1, {"lr_decay": 0.05, "initial_accumulator_value": 0.1}, shapes=[(6, 3), (4, 2)], sparse=True)
    yield Case("adadelta", "Adadelta", 1.0)
    yield Case("adadelta", "Adadelta", 0.5, {"rho": 0.8, "eps": 1e-4, "weight_decay": 0.1, "maximize": True})
    yield Case("adamax", "Adamax", 0.01)
    yield Case("adamax", "Adamax", 0.01, *betas(0.8, 0.9, eps=1e-4, weight_decay=0.1, maximize=True))
    yield Case("nadam", "NAdam", 0.01, why=old("NAdam"))
    yield Case("nadam", "NAdam", 0.01, *betas(0.8, 0.9, momentum_decay=0.01, weight_decay=0.1), why=old("NAdam"))
    yield Case("nadam", "NAdam", 0.01, {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
               why=old("decoupled"))
    yield Case("radam", "RAdam", 0.01)
    yield Case("radam", "RAdam", 0.01, *betas(0.8, 0.9, weight_decay=0.1, eps=1e-12))
    yield Case("radam", "RAdam", 0.01, {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
               why=old("decoupled"))
    yield Case("rprop", "Rprop", 0.01)
    yield Case("rprop", "Rprop", 0.02, {"etaminus": 0.3, "etaplus": 1.5, "step_size_min": 1e-3, "step_size_max": 0.1,
                                       "maximize": True},
               {"etas": (0.3, 1.5), "step_sizes": (1e-3, 0.1), "maximize": True})
    yield Case("asgd", "ASGD", 0.01)
    yield Case("asgd", "ASGD", 0.05, {"lambd": 0.1, "alpha": 0.5, "t0": 10, "weight_decay": 0.1, "maximize": True})
    yield Case("sparse_adam", "SparseAdam", 0.01, shapes=[(6, 3), (4, 2)], sparse=True)
    yield Case("sparse_adam", "SparseAdam", 0.01, *betas(0.8, 0.9, maximize=True), shapes=[(6, 3), (4, 2)], sparse=True)
    yield Case("adafactor", "Adafactor", 0.01, why=old("Adafactor"))
    yield Case("adafactor", "Adafactor", 0.05, {"beta2_decay": -0.5, "eps1": 1e-5, "eps2": 1e-2, "d": 1.5, "weight_decay": 0.1,
                                               "maximize": True},
               {"beta2_decay": -0.5, "eps": (1e-5, 1e-2), "d": 1.5, "weight_decay": 0.1, "maximize": True}, why=old("Adafactor"))
    # Muon computes its steps in bfloat16, whose sums of products round in another order.
    for more in {}, {"nesterov": False, "weight_decay": 0.01, "adjust_lr_fn": "match_rms_adamw"}, \
            {"momentum": 0.8, "ns_steps": 3, "adjust_lr_fn": "spectral_unclamped"}:
        yield Case("muon", "Muon", 0.01, more, why=old("Muon"), shapes=[(4, 3), (3, 4), (8, 8)], rounding=0.03)


# ---- both sides ---------------------------------------------------------------------------------------------------------------


class Ours:
    def __init__(self, f, case, values, keywords=None):
        self.f, self.dtype = f, {torch.float64: f.F64, torch.float32: f.F32}[values[0].dtype]
        self.p = [f.set_requires_grad(self.tensor(v), True) for v in values]
        self.o = getattr(f, case.name + "_of")(self.p, case.lr, **(case.ours if keywords is None else keywords))

    def tensor(self, t):
        """A copy; of nothing but numbers."""
        return self.f.tensor_from(t.contiguous().data_ptr(), self.dtype, list(t.shape))

    def step(self, grads):
        for p, g in zip(self.p, grads):
            self.f.set_grad(p, self.gradient(g))
        self.f.optimizer_step(self.o)

    def gradient(self, g):
        if not g.is_sparse:
            return self.tensor(g)
        indices, values = self.f.tensor(g._indices().tolist(), self.f.I64), self.tensor(g._values())
        return self.f.sparse_coo_tensor_indices_size(indices, values, list(g.shape))

    def values(self):
        made = [torch.empty(p.shape, dtype=torch.float64) for p in self.p]
        for p, t in zip(self.p, made):
            self.f.tensor_read(p, self.f.F64, t.data_ptr(), t.numel())
        return made

    def resumed(self, case):
        """Another optimiser, of default settings and over copies of the parameters, that loads this one's state from a file."""
        other = Ours(self.f, case, [v.to(torch.float64 if self.dtype == self.f.F64 else torch.float32) for v in self.values()], {})
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "state")
            self.f.state_save(self.f.optimizer_state_dict(self.o), path)
            self.f.optimizer_load_state_dict(other.o, self.f.state_load(path))
        return other


def noise(shape, k, sparse):
    """Gradients of a bumpy valley; of a sparse one some rows, in two parts that overlap."""
    g = torch.Generator().manual_seed(1000 * k + len(shape) + shape[0])
    if not sparse:
        return torch.randn(shape, generator=g, dtype=torch.float64)
    rows = torch.tensor([[k % shape[0], (k * 3 + 1) % shape[0], k % shape[0]]])
    return torch.sparse_coo_tensor(rows, torch.randn((3, *shape[1:]), generator=g, dtype=torch.float64), shape)


def distance(a, b):
    """The largest difference, in units of the largest value."""
    return max(((x.double() - y.double()).abs().max() / (1 + y.double().abs().max())).item() for x, y in zip(a, b))


def run(f, case, dtype):
    start = [noise(s, -7, False).to(dtype) for s in case.shapes]
    theirs = [torch.nn.Parameter(v.clone()) for v in start]
    optimizer = getattr(torch.optim, case.torch_name)(theirs, lr=case.lr, **case.theirs)
    ours, twin, worst = Ours(f, case, start), None, 0.0
    for k in range(STEPS):
        grads = []
        for p, shape in zip(theirs, case.shapes):
            g = noise(shape, k, case.sparse).to(dtype)
            p.grad = g if case.sparse else (g + 0.5 * p.detach())
            grads.append(p.grad.clone())
        optimizer.step()
        ours.step(grads)
        if twin:
            twin.step(grads)
        worst = max(worst, distance(ours.values(), [p.detach() for p in theirs]))
        if k == STEPS // 2:
            twin = ours.resumed(case)
    same = all(torch.equal(a, b) for a, b in zip(ours.values(), twin.values()))
    limit = case.rounding or {torch.float64: 1e-11, torch.float32: 2e-5}[dtype]
    moved = distance(ours.values(), start)
    return worst <= limit and same and moved > 1e-3, f"{worst:.1e}{'' if same else ', and the one resumed went another way'}"


# ---- LBFGS --------------------------------------------------------------------------------------------------------------------


def lbfgs_cases():
    for lr, more in (1, {}), (0.1, {"max_iter": 5, "history_size": 3}), (1, {"line_search_fn": "strong_wolfe"}), \
            (1, {"line_search_fn": "strong_wolfe", "max_iter": 4, "history_size": 2, "tolerance_grad": 1e-12}), \
            (0.5, {"line_search_fn": "strong_wolfe", "max_eval": 9}), \
            (0.5, {"max_iter": 4, "maximize": True}), (1, {"line_search_fn": "strong_wolfe", "maximize": True}):
        yield Case("lbfgs", "LBFGS", lr, more, why=old("LBFGS") if "maximize" in more else None, shapes=[(4,), (2, 3)])


def valley(parts, sign, add):
    """A loss that is no quadratic, of both libraries' tensors: sum of (x - 1)^2 + x^4 / 8 with weights, and the root of a sum."""
    total = None
    for weight, x in enumerate(parts, 1):
        d = x - 1.0
        part = (d * d * float(weight) + x * x * x * x * 0.125)
        total = add(total, part)
    return total * sign


def run_lbfgs(f, case, dtype):
    start = [noise(s, -3, False).to(dtype) for s in case.shapes]
    sign = -1.0 if case.ours.get("maximize") else 1.0
    theirs = [torch.nn.Parameter(v.clone()) for v in start]
    optimizer = torch.optim.LBFGS(theirs, lr=case.lr, **case.theirs)
    ours, twin, worst = Ours(f, case, start), None, 0.0

    def torch_closure():
        optimizer.zero_grad()
        loss = valley(theirs, sign, lambda t, x: x.sum() if t is None else t + x.sum())
        loss.backward()
        return loss

    def closure_of(side):
        def closure(_):
            f.optimizer_zero_grad(side.o)
            loss = valley(side.p, sign, lambda t, x: f.sum(x) if t is None else t + f.sum(x))
            loss.backward()
            side.loss = loss
            return loss.pointer
        side.function = C.CFUNCTYPE(C.c_void_p, C.c_void_p)(closure)
        return side

    def step(side):
        out = C.c_double()
        f.raw("fac_optimizer_step_closure", side.o.pointer, C.cast(side.function, C.c_void_p), None, C.addressof(out))
        return out.value

    closure_of(ours)
    for k in range(12):
        wanted, got = optimizer.step(torch_closure).item(), step(ours)
        worst = max(worst, abs(wanted - got) / (1 + abs(wanted)), distance(ours.values(), [p.detach() for p in theirs]))
        if twin:
            step(twin)
        if k == 2:
            twin = closure_of(ours.resumed(case))
    same = all(torch.equal(a, b) for a, b in zip(ours.values(), twin.values()))
    limit = {torch.float64: 1e-9, torch.float32: 1e-4}[dtype]
    return worst <= limit and same, f"{worst:.1e}{'' if same else ', and the one resumed went another way'}"


def defaults_are_those_of_the_class(f):
    """What the keywords say a setting is when it is not given, the class says too."""
    f.symbol("fac_optimizer_class_of")
    for name in sorted({c.name for c in list(cases()) + list(lbfgs_cases())}):
        p = f.tensor([[1.0, 2.0]], requires_grad=True)
        made = getattr(f, name + "_of")([p], 0.5)
        of_class = f.raw("fac_optimizer_class_of", made.pointer)
        plain = f.raw("fac_optimizer_of", of_class, f.list_of("fac_tensors", [p]), f.struct("fac_options")(None, 0))
        plain = facula.Object(f, plain, "fac_optimizer *", True)
        function = f.functions[f"fac_{name}_of"]
        for keyword in function["keywords"]:
            if keyword["name"] != "kw_stray":
                values = [f.optimizer_option(o, 0, keyword["name"]) for o in (made, plain)]
                assert values[0] == values[1], (name, keyword["name"], values)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("api")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_default_dtype(torch.float64)
    f = facula.Facula(options.library, options.api)
    defaults_are_those_of_the_class(f)
    passed, failed, skipped = 0, 0, 0
    jobs = [(c, run) for c in cases()] + [(c, run_lbfgs) for c in lbfgs_cases()]
    for case, runner in jobs:
        if options.only not in case.title:
            continue
        if case.why:
            skipped += 1
            print(f"skipped {case.title}: {case.why}")
            continue
        for dtype in torch.float64, torch.float32:
            good, text = runner(f, case, dtype)
            passed, failed = passed + good, failed + (not good)
            print(f"{'passed ' if good else 'FAILED '} {case.title} {str(dtype)[6:]}: {text}")
    print(f"PyTorch {torch.__version__}: {passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
