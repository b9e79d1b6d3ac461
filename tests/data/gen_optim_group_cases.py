#!/usr/bin/python3
"""Writes optim_group_cases.h: what PyTorch's optimisers make of three parameters in groups with settings of their own, the third
added after two steps, under a LambdaLR with a function for each group. Run from this folder with python3-torch."""

import warnings

import torch

warnings.simplefilter("ignore")
STEPS = 5
CASES = [
    ("sgd", torch.optim.SGD, dict(lr=0.1, momentum=0.9), [{}, dict(lr=0.01, momentum=0.5, weight_decay=0.1)], dict(lr=0.05, nesterov=True)),
    ("adam", torch.optim.Adam, dict(lr=0.01), [dict(betas=(0.8, 0.99)), dict(lr=0.1, eps=1e-3, amsgrad=True)], dict(weight_decay=0.2)),
    ("adamw", torch.optim.AdamW, dict(lr=0.01, weight_decay=0.3), [dict(weight_decay=0), dict(lr=0.02, maximize=True)], dict(betas=(0.5, 0.9))),
]
LAMBDAS = [lambda k: 0.5**k, lambda k: 1 / (1 + k), lambda k: 1 if k < 4 else 0.25]

with open("optim_group_cases.h", "w") as f:
    print("/* Written by gen_optim_group_cases.py: five steps of parameters a, b, c from 1, -2, 3, -4 with gradient (k+1) * p / 2 - k at", file=f)
    print("   step k; c joins before the third. rates: of the groups at that step. */", file=f)
    print("typedef struct optim_group_case {\n    const char *name;\n    double after[5][3][4], rates[5][3];\n} optim_group_case;", file=f)
    print("static const optim_group_case OPTIM_GROUP_CASES[] = {", file=f)
    for name, cls, kw, groups, late in CASES:
        params = [torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0, -4.0], dtype=torch.float64)) for _ in range(3)]
        opt = cls([dict(params=[p], **g) for p, g in zip(params, groups)], **kw)
        after, rates = [], []
        for k in range(STEPS):
            if k == 2:
                opt.add_param_group(dict(params=[params[2]], **late))
            for g, fn in zip(opt.param_groups, LAMBDAS):
                g.setdefault("initial_lr", g["lr"])
                g["lr"] = g["initial_lr"] * fn(k)
            for p in params:
                p.grad = (k + 1) * p.detach() / 2 - k
            opt.step()
            after.append([p.tolist() for p in params])
            rates.append([g["lr"] for g in opt.param_groups] + [0] * (3 - len(opt.param_groups)))
        brace = lambda x: "{" + ", ".join(map(brace, x)) + "}" if isinstance(x, list) else f"{x:.17g}"
        print(f'    {{"{name}",', file=f)
        print("     {" + ",\n      ".join(brace(row) for row in after) + "},", file=f)
        print("     " + brace(rates) + "},", file=f)
    print("};", file=f)
