#!/usr/bin/python3
"""Writes optim_cases.h: what PyTorch's optimisers make of the same parameter and gradients. Run from this folder with
python3-torch."""

import torch

CASES = [
    ("sgd plain", torch.optim.SGD, dict(lr=0.1)),
    ("sgd momentum", torch.optim.SGD, dict(lr=0.1, momentum=0.9)),
    ("sgd nesterov", torch.optim.SGD, dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)),
    ("sgd dampening", torch.optim.SGD, dict(lr=0.1, momentum=0.8, dampening=0.5)),
    ("sgd maximize", torch.optim.SGD, dict(lr=0.1, maximize=True)),
    ("adam", torch.optim.Adam, dict(lr=0.01)),
    ("adam decay", torch.optim.Adam, dict(lr=0.01, weight_decay=0.1)),
    ("adam amsgrad", torch.optim.Adam, dict(lr=0.01, betas=(0.8, 0.9), amsgrad=True)),
    ("adamw", torch.optim.AdamW, dict(lr=0.01)),
    ("adamw amsgrad", torch.optim.AdamW, dict(lr=0.01, weight_decay=0.2, amsgrad=True, eps=1e-6)),
]
STEPS, N = 5, 4

with open("optim_cases.h", "w") as f:
    print("/* Written by gen_optim_cases.py: five steps from p = 1, -2, 3, -4 with gradient (k+1) * p / 2 - k at step k. */", file=f)
    print("typedef struct optim_case {\n    const char *name;\n    double after[5][4];\n} optim_case;", file=f)
    print("static const optim_case OPTIM_CASES[] = {", file=f)
    for name, cls, kw in CASES:
        p = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0, -4.0], dtype=torch.float64))
        opt = cls([p], **kw)
        print(f'    {{"{name}",\n     {{', file=f, end="")
        for k in range(STEPS):
            p.grad = (k + 1) * p.detach() / 2 - k
            opt.step()
            row = ", ".join(f"{x:.17g}" for x in p.tolist())
            print(("      " if k else "") + "{" + row + "}" + ("}}," if k == STEPS - 1 else ","), file=f)
    print("};", file=f)
