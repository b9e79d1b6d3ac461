#!/usr/bin/env python3
"""scripts/house.py finds what it is there to find: in a small house, one broken rule at a time."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))
import house  # noqa: E402

GOOD = {"base/base.h": "", "core/tensor.h": '#include "base/base.h"\n', "ops/call.c": '#include "core/tensor.h"\n#include <facula/ops.h>\n',
        "backend/cuda/ops/run.h": '#include "backend/cuda/runtime/runtime.h"\n'}
BROKEN = {
    "a higher room": ({"core/tensor.c": '#include "ops/call.h"\n'}, "core includes ops/call.h"),
    "a room beside it": ({"autograd/node.c": '#include "backend/cpu/cpu.h"\n'}, "autograd includes backend/cpu/cpu.h"),
    "a finer room": ({"backend/cuda/runtime/a.c": '#include "backend/cuda/ops/run.h"\n'}, "runtime includes backend/cuda/ops/run.h"),
    "a header of a higher room": ({"ops/call.c": "#include <facula/nn.h>\n"}, "ops includes facula/nn.h"),
    "a higher room from beside": ({"core/tensor.c": '#include "../ops/call.h"\n'}, "core includes ops/call.h"),
    "a higher room between angles": ({"core/tensor.c": "#include <ops/call.h>\n"}, "core includes ops/call.h"),
    "a higher room by a way round": ({"core/tensor.c": '#include "base/../ops/call.h"\n'}, "core includes ops/call.h"),
    "a room below one's own, from beside": ({"backend/cuda/runtime/a.c": '#include "../ops/run.h"\n'}, "runtime includes backend/cuda/ops/run.h"),
    "a public header of a higher room from beside": ({"ops/call.c": '#include "../../include/facula/nn.h"\n'}, "ops includes facula/nn.h"),
    "a generated header of a higher room": ({"base/a.c": '#include "ops_gen.h"\n'}, "base includes ops_gen.h"),
    "what another room has for itself": ({"nn/forward.c": '#include "autograd/hooks.h"\n', "autograd/hooks.h": ""}, "which is autograd's own"),
    "a function without a prefix": ({"base/base.h": "static inline int\nfac__a(void);\nstatic inline int swap(int a) { return a; }\n"}, "swap is seen"),
    "a macro without a prefix": ({"core/tensor.h": "#define HALF 2\n"}, "HALF is seen"),
    "a type without a prefix": ({"core/tensor.h": "typedef struct fac_a {\n    int b;\n} record;\n"}, "record is seen"),
    "an unknown room": ({"attic/box.c": ""}, "not a known room"),
}


def findings(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / "src" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "src" / name).write_text(text)
        return [message for check in (house.check_includes, house.check_names) for *_, message in check(root)], house.drawing(root)


def main():
    failed = []
    clean, drawn = findings(GOOD)
    if clean:
        failed.append(f"a good house is refused: {clean}")
    if '"base" -> "core";' not in drawn or '"base" -> "ops";' in drawn:
        failed.append("the drawing has not the includes, thinned")
    for name, (files, expected) in BROKEN.items():
        found, _ = findings(GOOD | files)
        if len(found) != 1 or expected not in found[0]:
            failed.append(f"{name}: {found}")
    house.ROOMS["backend/cuda/ops"] += " backend/pointwise"
    if [message for message in findings(GOOD)[0] if "CPU's headers" not in message] or not findings(GOOD)[0]:
        failed.append("a way from CUDA to the CPU's headers is not found")
    print("\n".join(failed) or f"ok: {len(BROKEN) + 1} broken rules are found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
