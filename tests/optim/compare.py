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
         "LBFGS": "its LBFGS has no maximize", "NAdam": "its NAdam multiplies by the last momentum twice",
         "fused": "it has no fused steps on the CPU", "odd": "its settings are not those of PyTorch 2",
         "CyclicLR": "its CyclicLR does not cycle beta1", "AveragedModel": "its AveragedModel leaves buffers at their first values"}


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
            {"momentum": 0.8, "ns_steps": 3, "adjust_lr_fn": "spectral_unclamped"}, {"ns_steps": -1}:
        yield Case("muon", "Muon", 0.01, more, why=old("Muon"), shapes=[(4, 3), (3, 4), (8, 8)], rounding=0.03)


# ---- both sides ---------------------------------------------------------------------------------------------------------------


class Ours:
    def __init__(self, f, case, values, keywords=None):
        self.f, self.dtype = f, {torch.float64: f.F64, torch.float32: f.F32, torch.bfloat16: f.BF16, torch.float16: f.F16}[values[0].dtype]
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


# ---- halves ------------------------------------------------------------------------------------------------------------------


FUSED = {"SGD", "Adam", "AdamW", "Adagrad"}
HALF_STEPS = 20


def half_cases():
    for case in [Case("sgd", "SGD", 0.1), Case("sgd", "SGD", 0.1, {"momentum": 0.9, "dampening": 0.5, "maximize": True}), *cases()]:
        if not case.sparse:
            case.why = case.why or old("fused")
            yield case


def run_halves(f, case, dtype):
    """In units of the last place of the largest number of a parameter: one for what rounds the other way, here or in PyTorch's steps,
    which are fused where they can be."""
    fused = case.torch_name in FUSED
    start = [noise(s, -7, False).to(dtype) for s in case.shapes]
    theirs = [torch.nn.Parameter(v.clone()) for v in start]
    how = {} if case.torch_name in ("Adafactor", "Muon") else {"fused": True} if fused else {"foreach": False}
    optimizer = getattr(torch.optim, case.torch_name)(theirs, lr=case.lr, **case.theirs, **how)
    ours, worst, unit = Ours(f, case, start), 0.0, torch.finfo(dtype).eps
    for k in range(HALF_STEPS):
        for p, shape in zip(theirs, case.shapes):
            p.grad = noise(shape, k, False).to(dtype)
        optimizer.step()
        ours.step([p.grad for p in theirs])
        worst = max([worst] + [((a - p.detach().double()).abs() / p.detach().double().abs().max()).max().item() / unit
                               for a, p in zip(ours.values(), theirs)])
    moved = distance(ours.values(), start)
    return worst <= 1 and moved > 1e-3, f"{worst:.2f} units"


# ---- LBFGS --------------------------------------------------------------------------------------------------------------------


def lbfgs_cases():
    for lr, more in (1, {}), (0.1, {"max_iter": 5, "history_size": 3}), (1, {"line_search_fn": "strong_wolfe"}), \
            (1, {"max_iter": -1}), (0.1, {"max_eval": -5}), \
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


# ---- schedules -----------------------------------------------------------------------------------------------------------------

FACTOR = C.CFUNCTYPE(C.c_double, C.c_void_p, C.c_size_t, C.c_int64)
SCALE = C.CFUNCTYPE(C.c_double, C.c_void_p, C.c_double)
wave = FACTOR(lambda _, group, step: 1 / (1 + step / (5 + group)))
ripple = FACTOR(lambda _, group, step: 0.9 + 0.02 * (step % 3))
fall = FACTOR(lambda _, group, step: 3 - step)
low = SCALE(lambda _, x: 1 / (1 + x))


def swa(*args, **keywords):
    return torch.optim.swa_utils.SWALR(*args, **keywords)


def named(name):
    return lambda *args, **keywords: getattr(torch.optim.lr_scheduler, name)(*args, **keywords)


class Schedule:
    """A schedule: how to make it over Ours.o, and over an optimiser of PyTorch's. `milestones` of a step to compare at."""

    def __init__(self, title, ours, theirs, kind="sgd", metric=False, why=None, epochs=None):
        self.title, self.ours, self.theirs, self.kind, self.metric = title, ours, theirs, kind, metric
        self.why, self.epochs, self.still = why, epochs, False


def simple(name, torch_name, *args, ours_too=None, theirs_too=None, kind="sgd", **keywords):
    text = ", ".join([*map(str, args), *(f"{k}={v}" for k, v in keywords.items())])
    return Schedule(f"{torch_name}({text}) of {kind}", lambda f, o: getattr(f, name)(o, *args, **keywords, **(ours_too or {})),
                    lambda o: named(torch_name)(o, *args, **keywords, **(theirs_too or {})), kind=kind)


def of_factor(f, name, o, function):
    kw = f.keyword_struct(f.functions[f"fac_{name}"])()
    getattr(f.lib, f"fac_{name}_kw_init")(C.byref(kw))
    made = f.raw(f"fac_{name}", o.pointer, C.cast(function, C.c_void_p), None, C.addressof(kw))
    return facula.Object(f, made, "fac_lr_scheduler *", True)


def give(f, parts):
    """A list of schedules that the callee takes over."""
    pointers = [p.pointer for p in parts]
    for p in parts:
        p.finalizer.detach()
    room = (C.c_void_p * len(parts))(*pointers)
    made = f.struct("fac_lr_schedulers")(C.cast(room, C.c_void_p), len(parts))
    made.room = room
    return made


def chained(f, o, makers):
    made = f.raw("fac_chained_scheduler_new", give(f, [m(f, o) for m in makers]))
    return facula.Object(f, made, "fac_lr_scheduler *", True)


def sequential(f, o, makers, milestones):
    kw = f.keyword_struct(f.functions["fac_sequential_lr_new"])()
    f.lib.fac_sequential_lr_new_kw_init(C.byref(kw))
    made = f.raw("fac_sequential_lr_new", o.pointer, give(f, [m(f, o) for m in makers]), f.list_of("fac_ints", milestones),
                 C.addressof(kw))
    return facula.Object(f, made, "fac_lr_scheduler *", True)


def cyclic_with_function(f, o):
    scale = f.struct("fac_scale_fn", [("fn", "void *"), ("context", "void *")])(C.cast(low, C.c_void_p).value, None)
    made = f.cyclic_lr_new(o, 0.01, 0.1, step_size_up=5, scale_mode="iterations", scale_fn=C.addressof(scale))
    made.scale = scale
    return made


def schedules():
    yield Schedule("LambdaLR", lambda f, o: of_factor(f, "lambda_lr_new", o, wave),
                   lambda o: named("LambdaLR")(o, [lambda e, g=g: 1 / (1 + e / (5 + g)) for g in range(2)]))
    yield Schedule("MultiplicativeLR", lambda f, o: of_factor(f, "multiplicative_lr_new", o, ripple),
                   lambda o: named("MultiplicativeLR")(o, lambda e: 0.9 + 0.02 * (e % 3)))
    yield simple("step_lr_new", "StepLR", 7, gamma=0.5)
    yield simple("multi_step_lr_new", "MultiStepLR", [3, 9, 9, 20], gamma=0.3)
    yield simple("constant_lr_new", "ConstantLR")
    yield simple("constant_lr_new", "ConstantLR", factor=0.7, total_iters=12)
    yield simple("linear_lr_new", "LinearLR")
    yield simple("linear_lr_new", "LinearLR", start_factor=0.9, end_factor=0.1, total_iters=17)
    yield simple("exponential_lr_new", "ExponentialLR", 0.95)
    yield simple("polynomial_lr_new", "PolynomialLR")
    yield simple("polynomial_lr_new", "PolynomialLR", total_iters=30, power=2.0)
    yield simple("cosine_annealing_lr_new", "CosineAnnealingLR", 9)
    yield simple("cosine_annealing_lr_new", "CosineAnnealingLR", 40, eta_min=0.001)
    yield simple("cosine_annealing_warm_restarts_new", "CosineAnnealingWarmRestarts", 6)
    yield simple("cosine_annealing_warm_restarts_new", "CosineAnnealingWarmRestarts", 4, T_mult=2, eta_min=0.002)
    for kind in "sgd", "adam", "rmsprop":
        made = simple("cyclic_lr_new", "CyclicLR", 0.01, 0.1, step_size_up=6, mode="triangular2", kind=kind)
        made.why = old("CyclicLR") if kind == "adam" else None
        yield made
        yield simple("one_cycle_lr_new", "OneCycleLR", 0.3, total_steps=60, kind=kind)
    yield simple("cyclic_lr_new", "CyclicLR", 0.01, 0.1, step_size_up=4, step_size_down=9, base_momentum=0.5, max_momentum=0.7)
    yield simple("cyclic_lr_new", "CyclicLR", 0.01, 0.1, step_size_up=5, mode="exp_range", gamma=0.97, cycle_momentum=False,
                 kind="adagrad")
    yield Schedule("CyclicLR(scale_fn)", cyclic_with_function,
                   lambda o: named("CyclicLR")(o, 0.01, 0.1, step_size_up=5, scale_mode="iterations", scale_fn=lambda x: 1 / (1 + x)))
    yield Schedule("CyclicLR(lists)", lambda f, o: f.cyclic_lr_new(o, 0, 0, step_size_up=5, base_lrs=[0.01, 0.02], max_lrs=[0.1, 0.4]),
                   lambda o: named("CyclicLR")(o, [0.01, 0.02], [0.1, 0.4], step_size_up=5))
    yield simple("one_cycle_lr_new", "OneCycleLR", 0.2, epochs=5, steps_per_epoch=11, three_phase=True, anneal_strategy="linear",
                 pct_start=0.25, div_factor=10.0, final_div_factor=100.0)
    yield Schedule("OneCycleLR(lists)", lambda f, o: f.one_cycle_lr_new(o, 0, total_steps=55, max_lrs=[0.1, 0.4]),
                   lambda o: named("OneCycleLR")(o, [0.1, 0.4], total_steps=55))
    for more in {}, {"mode": "max", "factor": 0.5, "patience": 2, "threshold": 0.1, "cooldown": 2}, \
            {"patience": 1, "threshold_mode": "abs", "threshold": 0.05, "min_lr": 0.02}:
        made = simple("reduce_lr_on_plateau_new", "ReduceLROnPlateau", **more)
        made.metric = True
        yield made
    yield Schedule("ReduceLROnPlateau(lists)", lambda f, o: f.reduce_lr_on_plateau_new(o, patience=0, min_lrs=[0.01, 0.2]),
                   lambda o: named("ReduceLROnPlateau")(o, patience=0, min_lr=[0.01, 0.2]), metric=True)
    for more in {}, {"anneal_epochs": 5, "anneal_strategy": "linear"}, {"anneal_epochs": 0}:
        yield Schedule(f"SWALR({more})", lambda f, o, more=more: f.swa_lr_new(o, 0.05, **more),
                       lambda o, more=more: swa(o, 0.05, **more))
    warm, fall = lambda f, o: f.linear_lr_new(o, total_iters=6), lambda f, o: f.exponential_lr_new(o, 0.9)
    yield Schedule("ChainedScheduler", lambda f, o: chained(f, o, [warm, fall]), lambda o: named("ChainedScheduler")(
        [named("LinearLR")(o, total_iters=6), named("ExponentialLR")(o, 0.9)]))
    yield Schedule("SequentialLR", lambda f, o: sequential(f, o, [warm, fall, lambda f, o: f.cosine_annealing_lr_new(o, 10)], [5, 20]),
                   lambda o: named("SequentialLR")(o, [named("LinearLR")(o, total_iters=6), named("ExponentialLR")(o, 0.9),
                                                       named("CosineAnnealingLR")(o, 10)], [5, 20]))
    yield Schedule("SequentialLR of warm restarts and SequentialLR",
                   lambda f, o: sequential(f, o, [lambda f, o: f.cosine_annealing_warm_restarts_new(o, 3, T_mult=2),
                                                  lambda f, o: f.cosine_annealing_warm_restarts_new(o, 5)], [9]),
                   lambda o: named("SequentialLR")(o, [named("CosineAnnealingWarmRestarts")(o, 3, T_mult=2),
                                                       named("CosineAnnealingWarmRestarts")(o, 5)], [9]))
    yield Schedule("StepLR and ExponentialLR beside each other", lambda f, o: chained(f, o, [lambda f, o: f.step_lr_new(o, 4), fall]),
                   lambda o: named("ChainedScheduler")([named("StepLR")(o, 4), named("ExponentialLR")(o, 0.9)]))
    for name, arguments, keywords in ("StepLR", (7,), {}), ("MultiStepLR", ([3, 9],), {}), ("ConstantLR", (), {}), \
            ("LinearLR", (), {"total_iters": 9}), ("ExponentialLR", (0.9,), {}), ("PolynomialLR", (), {"total_iters": 20}), \
            ("CosineAnnealingLR", (7,), {}), ("CosineAnnealingWarmRestarts", (3,), {"T_mult": 2}), \
            ("CosineAnnealingWarmRestarts", (4,), {}):
        ours = "".join("_" + c.lower() if c.isupper() else c for c in name.replace("LR", "Lr")).lstrip("_") + "_new"
        made = simple(ours, name, *arguments, **keywords)
        made.epochs = [4, 0, 9, 3, 30, 12] + ([2.5, 7.25, 11.5] if "Restarts" in name else [])
        made.title += " at epochs"
        yield made


def odd_schedules():
    """Settings that make little sense, and that PyTorch takes."""
    for name, *settings in (
            ("StepLR", ((4,), {"gamma": -0.5}), ((4,), {"gamma": 0.0}), ((1,), {"gamma": 1.1}), ((-3,), {"gamma": 0.5})),
            ("MultiStepLR", (([],), {}), (([20, 3, 9, 3],), {"gamma": -0.9}), (([-2, 0, 5],), {"gamma": 0.0})),
            ("ConstantLR", ((), {"total_iters": -1}), ((), {"total_iters": 0}), ((), {"factor": 1.0})),
            ("LinearLR", ((), {"total_iters": -3}), ((), {"total_iters": 0}), ((), {"start_factor": 1.0, "end_factor": 0.0})),
            ("ExponentialLR", ((0.0,), {}), ((-0.9,), {}), ((1.02,), {})),
            ("PolynomialLR", ((), {"total_iters": 0}), ((), {"total_iters": -2}), ((), {"power": 0.0}), ((), {"power": 0.5})),
            ("CosineAnnealingLR", ((-7,), {}), ((1,), {}), ((5,), {"eta_min": 2.0}), ((5,), {"eta_min": -0.5})),
            ("CosineAnnealingWarmRestarts", ((1,), {}), ((3,), {"eta_min": 1.0}), ((3,), {"eta_min": -1.0})),
            ("CyclicLR", ((0.3, 0.1), {"step_size_up": 4}), ((0.01, 0.1), {"step_size_up": -4}), ((-0.1, 0.1), {"step_size_up": 1}),
             ((0.01, 0.1), {"step_size_up": 4, "step_size_down": -2}), ((0.01, 0.1), {"step_size_up": -3, "step_size_down": 5})),
            ("OneCycleLR", ((-0.3,), {"total_steps": 60}), ((0.3,), {"total_steps": 60, "pct_start": 1.0}),
             ((0.3,), {"total_steps": 60, "pct_start": 0.0}), ((0.3,), {"total_steps": 60, "div_factor": -4.0})),
            ("ReduceLROnPlateau", ((), {"factor": -0.5, "patience": 1, "min_lr": -1.0}), ((), {"factor": 0.0}), ((), {"patience": -1}),
             ((), {"cooldown": -2, "patience": 0}), ((), {"threshold": -0.5}), ((), {"eps": -1.0, "min_lr": 0.4}))):
        ours = {"ReduceLROnPlateau": "reduce_lr_on_plateau"}.get(
            name, "".join("_" + c.lower() if c.isupper() else c for c in name.replace("LR", "Lr")).lstrip("_")) + "_new"
        for arguments, keywords in settings:
            made = simple(ours, name, *arguments, **keywords)
            made.metric, made.still, made.why = name == "ReduceLROnPlateau", True, old("odd")
            yield made
    for made in (Schedule("SWALR(-0.1)", lambda f, o: f.swa_lr_new(o, -0.1), lambda o: swa(o, -0.1)),
                 Schedule("LambdaLR below 0", lambda f, o: of_factor(f, "lambda_lr_new", o, fall), lambda o: named("LambdaLR")(o, lambda e: 3 - e))):
        made.why = old("odd")
        yield made
    for milestones in [5, 5], [20, 5], [0, 7], [-3, 9]:
        made = Schedule(
            f"SequentialLR at {milestones}",
            lambda f, o, m=milestones: sequential(f, o, [lambda f, o: f.linear_lr_new(o, total_iters=6), lambda f, o: f.exponential_lr_new(o, 0.9),
                                                         lambda f, o: f.step_lr_new(o, 4)], m),
            lambda o, m=milestones: named("SequentialLR")(o, [named("LinearLR")(o, total_iters=6), named("ExponentialLR")(o, 0.9),
                                                             named("StepLR")(o, 4)], m))
        made.why = old("odd")
        yield made


def optimizers(f, kind):
    """Two groups of one parameter each, in both libraries."""
    case = next(c for c in cases() if c.name == kind)
    p = [f.tensor([1.0, 2.0], requires_grad=True) for _ in range(2)]
    more = {"momentum": 0.9} if kind in ("sgd", "rmsprop") else {}
    ours = getattr(f, kind + "_of")(p[:1], 0.5, **more)
    ours.parameters = p
    name = C.create_string_buffer(b"lr")
    option = f.struct("fac_option")()
    option.name, option.value = C.cast(name, C.c_char_p).value, 0.25
    f.raw("fac_optimizer_add_group", ours.pointer, f.list_of("fac_tensors", p[1:]),
          f.struct("fac_options")(C.cast(C.pointer(option), C.c_void_p), 1))
    q = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    theirs = getattr(torch.optim, case.torch_name)([{"params": q[:1]}, {"params": q[1:], "lr": 0.25}], lr=0.5, **more)
    return ours, theirs


def settings(f, o, theirs):
    """Rate and momentum of each group in both libraries."""
    got, wanted = [], []
    for i, group in enumerate(theirs.param_groups):
        got.append(f.optimizer_option(o, i, "lr"))
        wanted.append(group["lr"])
        momentum = {"momentum": "momentum", "betas": "beta1"}
        for key, name in momentum.items():
            if key in group:
                got.append(f.optimizer_option(o, i, name))
                wanted.append(group[key][0] if key == "betas" else group[key])
    return got, wanted


def run_schedule(f, s, _):
    o, theirs = optimizers(f, s.kind)
    twin, twin_o, worst, moved = None, None, 0.0, False
    first = settings(f, o, theirs)[0]
    ours, reference = s.ours(f, o), s.theirs(theirs)

    def compare():
        nonlocal worst, moved
        got, wanted = settings(f, o, theirs)
        moved |= got != first
        worst = max([worst] + [abs(a - b) / (abs(b) + 1e-6) for a, b in zip(got, wanted)])
        last = [f.lr_scheduler_last_lr(ours, i) for i in range(2)]
        assert last == [f.optimizer_option(o, i, "lr") for i in range(2)], last
        if hasattr(reference, "last_epoch") and s.title != "ChainedScheduler":
            assert f.lr_scheduler_last_epoch(ours) == reference.last_epoch, (f.lr_scheduler_last_epoch(ours), reference.last_epoch)

    def step(schedule, k):
        if s.metric:
            metric = 1 / (1 + min(k, 12)) + 0.01 * (k % 3)
            f.lr_scheduler_step_metric(schedule, metric)
            return metric
        f.lr_scheduler_step(schedule)
        return None

    compare()
    if s.epochs:
        for epoch in s.epochs:
            f.lr_scheduler_step_to(ours, epoch)
            reference.step(epoch)
            compare()
            f.lr_scheduler_step(ours)
            reference.step()
            compare()
        return worst < 1e-12 and moved, f"{worst:.1e}"
    theirs.step()
    for k in range(50):
        metric = step(ours, k)
        reference.step(*([metric] if s.metric else []))
        compare()
        if twin:
            step(twin, k)
        if k == 24:
            twin_o, _ = optimizers(f, s.kind)
            twin = s.ours(f, twin_o)
            with tempfile.TemporaryDirectory() as folder:
                for what, give_, take in (("o", f.optimizer_state_dict(o), lambda st: f.optimizer_load_state_dict(twin_o, st)),
                                          ("s", f.lr_scheduler_state_dict(ours), lambda st: f.lr_scheduler_load_state_dict(twin, st))):
                    path = str(pathlib.Path(folder) / what)
                    f.state_save(give_, path)
                    take(f.state_load(path))
    same = settings(f, o, theirs)[0] == settings(f, twin_o, theirs)[0]
    moved |= s.still
    return worst < 1e-12 and same and moved, \
        f"{worst:.1e}{'' if same else ', and the one resumed went another way'}{'' if moved else ', and nothing moved'}"


# ---- averages ------------------------------------------------------------------------------------------------------------------


def averages():
    for more in {}, {"use_buffers": True}, {"ema_decay": 0.9}, {"ema_decay": 0.7, "use_buffers": True}:
        made = Schedule(f"AveragedModel({', '.join(f'{k}={v}' for k, v in more.items())})", None, None)
        made.more, made.why = more, None if "use_buffers" in more else old("AveragedModel")
        yield made


def run_average(f, case, _):
    """Models whose parameters and buffers are given values; averages of all of them, and new batch statistics."""
    def numbers(module):
        state = f.module_state_dict(module)
        entries = C.cast(state.pointer, C.POINTER(f.struct("fac_state"))).contents
        v = C.cast(entries.v, C.POINTER(f.struct("fac_named")))
        return {v[i].name.decode(): facula.Tensor(f, f.symbol("fac_keep")(v[i].tensor)) for i in range(entries.n)}

    ours = f.sequential(f.conv2d_new(2, 3, [2, 2]), f.batch_norm2d_new(3, momentum=0.3))
    f.module_to(ours, dtype=f.F64)
    theirs = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 2), torch.nn.BatchNorm2d(3, momentum=0.3))
    more = dict(case.more)
    decay = more.pop("ema_decay", None)
    if decay is not None:
        more["avg_fn"] = lambda a, p, n: decay * a + (1 - decay) * p
    reference = torch.optim.swa_utils.AveragedModel(theirs, **more)
    mine = f.averaged_model_new(ours, **case.more)
    worst = 0.0
    for k in range(6):
        for name, t in numbers(ours).items():
            value = noise(tuple(t.shape) or (1,), 10 * k, False).reshape(t.shape)
            value = value.abs() if "var" in name else torch.tensor(3 * k) if "tracked" in name else value
            target = theirs.state_dict()[name]
            target.copy_(value)
            with_no_grad = f.tensor(target.double().tolist(), f.F64)
            f.set_data(t, f.to_dtype(with_no_grad, f.I64 if "tracked" in name else f.F64))
        reference.update_parameters(theirs)
        f.averaged_model_update(mine, ours)
        wanted = reference.state_dict()
        for name, t in numbers(mine).items():
            got = torch.tensor(t.tolist(), dtype=torch.float64)
            worst = max(worst, (got - wanted[name].double()).abs().max().item())
    assert f.item(numbers(mine)["n_averaged"]) == 6
    batches = [noise((4, 2, 5, 5), 90 + i, False) for i in range(4)]
    queue = [f.tensor(b.tolist(), f.F64) for b in batches]
    left = list(queue)
    next_ = C.CFUNCTYPE(C.c_void_p, C.c_void_p)(lambda _: left.pop(0).pointer if left else None)
    f.raw("fac_update_bn", mine.pointer, C.cast(next_, C.c_void_p), None)
    torch.optim.swa_utils.update_bn(batches, reference)
    for name, t in numbers(mine).items():
        worst = max(worst, (torch.tensor(t.tolist(), dtype=torch.float64) - reference.state_dict()[name].double()).abs().max().item())
    limit = 1e-12
    return worst < limit, f"{worst:.1e}"


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
    both, once, halves = (torch.float64, torch.float32), (torch.float64,), (torch.bfloat16, torch.float16)
    jobs = [(c, run, both) for c in cases()] + [(c, run_lbfgs, both) for c in lbfgs_cases()] + \
        [(c, run_halves, halves) for c in half_cases()] + \
        [(s, run_schedule, once) for s in [*schedules(), *odd_schedules()]] + [(a, run_average, once) for a in averages()]
    for case, runner, dtypes in jobs:
        if options.only not in case.title:
            continue
        if case.why:
            skipped += 1
            print(f"skipped {case.title}: {case.why}")
            continue
        for dtype in dtypes:
            try:
                good, text = runner(f, case, dtype)
            except (ValueError, TypeError, RuntimeError, NotImplementedError, AssertionError, facula.Error) as e:
                good, text = False, f"{type(e).__name__}: {e}"
            passed, failed = passed + good, failed + (not good)
            print(f"{'passed ' if good else 'FAILED '} {case.title} {str(dtype)[6:]}: {text}")
    print(f"PyTorch {torch.__version__}: {passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
