#!/usr/bin/env python3
"""docs/torch-index.md: for each public name of torch.nn, torch.nn.init, torch.optim, torch.optim.lr_scheduler and torch.utils.data the
function of Facula's that does the same, or why there is none. Which functions there are is read from api.json and modules.json.

usage: index.py API_JSON MODULES_JSON [--write]
Without --write it ends with 1 if the document is not what it would write.
"""

import argparse
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = HERE.parents[1] / "docs" / "torch-index.md"

LAZY = "sizes are given when a module is made: nothing that runs has parameters without sizes"
PYTHON = "of Python: "
# Names whose functions do not follow from them.
ELSEWHERE = {
    "torch.nn": {
        "Module": "fac_module_new", "Parameter": "fac_module_add_parameter", "Buffer": "fac_module_add_buffer",
        "Sequential": "fac_sequential_new", "MultiheadAttention": "fac_multihead_attention_new", "NLLLoss2d": "fac_nll_loss_new",
        "Container": "fac_module_new", "ModuleList": "fac_module_list_new fac_module_add", "ModuleDict": "fac_module_dict_new fac_module_add",
        "ParameterList": "fac_parameter_list_new fac_module_add_parameter", "RNN": "fac_rnn_new", "LSTM": "fac_lstm_new",
        "ParameterDict": "fac_parameter_dict_new fac_module_add_parameter", "GRU": "fac_gru_new",
        "RNNCell": "fac_rnn_cell_new", "LSTMCell": "fac_lstm_cell_new", "GRUCell": "fac_gru_cell_new",
        "AdaptiveLogSoftmaxWithLoss": "fac_adaptive_log_softmax_with_loss_new", "CrossMapLRN2d": "fac_local_response_norm_new",
        "LinearCrossEntropyLoss": "fac_linear_cross_entropy_loss_new fac_linear_cross_entropy",
    },
    "torch.nn.init": {name: f"fac_init_{name}" for name in ("calculate_gain",)},
    "torch.optim": {"Optimizer": "fac_optimizer_new", "lr_scheduler": "fac_lr_scheduler_step", "LBFGS": "fac_lbfgs_new",
                    "swa_utils": "fac_averaged_model_new"},
    "torch.optim.lr_scheduler": {
        "LRScheduler": "fac_lr_scheduler_step", "LambdaLR": "fac_lambda_lr_new fac_optimizer_lambda_lr",
        "CosineAnnealingLR": "fac_cosine_annealing_lr_new fac_cosine_lr"},
    "torch.utils.data": {
        "DataLoader": "fac_loader_of fac_loader_new", "BatchSampler": "fac_sampler_batch", "ChainDataset": "fac_dataset_concat",
        "IterableDataset": "fac_dataset_new", "SequentialSampler": "fac_sampler_new", "StackDataset": "fac_dataset_of_tensors",
        "SubsetRandomSampler": "fac_sampler_subset", "TensorDataset": "fac_dataset_of_tensors",
        "WeightedRandomSampler": "fac_sampler_weighted", "DistributedSampler": "fac_sampler_distributed", "Dataset": "fac_dataset_new", "RandomSampler": "fac_random_sampler_new fac_sampler_new",
        "Sampler": "fac_sampler_new", "default_collate": "fac_loader_set_collate", "random_split": "fac_random_split fac_dataset_random_split"},
}
# Names that there will be no function for.
REASONS = {
    "torch.nn": {
        "DataParallel": "one process with several devices in threads: PyTorch itself advises against it",
        "SyncBatchNorm": "statistics over several processes, which the library does not have",
        "RNNBase": "the class behind RNN, LSTM and GRU", "RNNCellBase": "the class behind the cells",
        "UninitializedBuffer": LAZY, "UninitializedParameter": LAZY,
        "factory_kwargs": PYTHON + "it sorts keywords", "LinearCrossEntropyOptions": PYTHON + "options are keywords of a function",
        "CrossMapLRN2d": "an older LocalResponseNorm", "Container": "an older name of Module", "NLLLoss2d": "an older name of NLLLoss",
    },
    "torch.nn.init": {}, "torch.optim.lr_scheduler": {},
    "torch.optim": {"functional": PYTHON + "the optimisers once more, as functions", "lr_scheduler": "a module: below",
                    "swap_in_optimizer_params_and_state": PYTHON + "it exchanges the tensors that an optimiser object holds",
                    "swa_utils": "a module: averages of parameters"},
    "torch.utils.data": {
        **dict.fromkeys(("DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "argument_validation", "functional_datapipe",
                         "guaranteed_datapipes_determinism", "non_deterministic", "runtime_validation", "runtime_validation_disabled"),
                        "data pipes, which PyTorch has given up"),
        "default_convert": PYTHON + "it makes tensors of what a Python data set gives",
        "get_worker_info": "workers are threads of the library, not processes that a data set has to know",
        "DistributedSampler": "several processes, which the library does not have",
    },
}


def names():
    for line in (HERE / "names.txt").read_text().splitlines():
        if not line.startswith("#"):
            yield tuple(line.split())


def snake(name):
    """LogSoftmax, ELU, StepLR, Conv2d: log_softmax, elu, step_lr, conv2d."""
    name = re.sub(r"([a-z])([A-Z])", r"\1_\2", name)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()


def guesses(module, name):
    """What the function would be called."""
    if module == "torch.nn.init":
        return [f"fac_init_{name}", f"fac_init_{name.removesuffix('_')}"] 
    if module == "torch.utils.data":
        return [f"fac_{snake(name)}_new", f"fac_{snake(name)}", f"fac_dataset_{snake(name).replace('_dataset', '')}",
                f"fac_{snake(name).replace('_dataset', '')}_dataset"]
    return [f"fac_{snake(name)}_new", f"fac_{name.lower()}_new"]


class Index:
    def __init__(self, api, modules):
        self.functions = {f["name"] for f in json.loads(pathlib.Path(api).read_text())["functions"]}
        self.modules = {m["module"]: m["new"] for m in json.loads(pathlib.Path(modules).read_text())["modules"]}

    def function(self, module, name):
        """The function, or None."""
        if module == "torch.nn" and name in self.modules:
            return self.modules[name]
        wanted = [*ELSEWHERE[module].get(name, "").split(), *guesses(module, name)]
        return next((w for w in wanted if w in self.functions), None)

    def rows(self):
        """(module, name, function or None, reason or None)."""
        for module, name in names():
            reason = REASONS[module].get(name) or (LAZY if name.startswith("Lazy") else None)
            if module == "torch.nn.init" and name + "_" in {n for m, n in names() if m == module}:
                reason = f"an older name of {name}_"
            function = self.function(module, name)
            if not function and module == "torch.nn.init" and reason:
                function = self.function(module, name + "_")
            yield module, name, function, None if function else reason

    def document(self):
        lines = ["# PyTorch's names", "",
                 "What there is for each public name of PyTorch 2.15's modules for networks and training. Operators have PyTorch's own names",
                 "(`torch.relu`, `torch.nn.functional.relu`: `fac_relu`) and are not listed. Written by `tests/modules/index.py --write`."]
        last = None
        for module, name, function, reason in self.rows():
            if module != last:
                lines += ["", f"## {module}", "", "| name | function |", "|---|---|"]
                last = module
            lines.append(f"| `{name}` | " + (f"`{function}`" if function else f"none: {reason}" if reason else "missing") + " |")
        return "\n".join(lines) + "\n"

    def counts(self):
        for module in dict.fromkeys(m for m, _ in names()):
            rows = [r for r in self.rows() if r[0] == module]
            there, reasons = sum(1 for r in rows if r[2]), sum(1 for r in rows if r[3])
            missing = [r[1] for r in rows if not r[2] and not r[3]]
            yield f"{module}: {len(rows)} names, {there} there, {reasons} with a reason why not, {len(missing)} missing" + \
                (": " + " ".join(missing) if missing else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("api")
    parser.add_argument("modules")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    index = Index(options.api, options.modules)
    known = set(names())
    for table in (ELSEWHERE, REASONS):
        for module in table:
            for name in table[module]:
                if (module, name) not in known:
                    sys.exit(f"index.py: {module} has no {name}")
    print(*index.counts(), sep="\n")
    if options.write:
        DOCUMENT.write_text(index.document())
    elif not DOCUMENT.exists() or DOCUMENT.read_text() != index.document():
        sys.exit(f"{DOCUMENT} is not current: tests/modules/index.py {options.api} {options.modules} --write")


if __name__ == "__main__":
    main()
