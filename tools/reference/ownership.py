"""Whose a result is, by the rule that the headers keep: what can be released is the caller's unless its comment says borrowed."""
import re

RELEASE = {"fac_module *": "fac_module_release", "fac_optimizer *": "fac_optimizer_release", "fac_state *": "fac_state_free",
           "fac_generator *": "fac_generator_release", "fac_corpus *": "fac_corpus_release", "fac_vocab *": "fac_vocab_release",
           "fac_sampler *": "fac_sampler_release", "fac_loader *": "fac_loader_release", "fac_dataset *": "fac_dataset_release", "fac_event *": "fac_event_free",
           "fac_safetensors *": "fac_safetensors_close", "fac_tensor_file *": "fac_tensor_file_close", "fac_csv *": "fac_csv_close",
           "fac_cuda_module *": "fac_cuda_module_release", "fac_hook *": "fac_hook_remove",
           "fac_registration *": "fac_registration_release", "fac_caching_allocator *": "fac_caching_allocator_free",
           "fac_memory_snapshot *": "fac_memory_snapshot_free", "fac_lr_scheduler *": "fac_lr_scheduler_release",
           "fac_grad_scaler *": "fac_grad_scaler_release"}
ELSEWHERE = re.compile(r"\bborrow|\breturns (t|s|buf|g)\b|\b(valid|live[sd]?) (as long|until|while)|belongs? to|innermost scope|never NULL|"
                       r"\bfreed with\b|to be (freed|given back)|\breturns the former|of the process|static", re.I)


def told(f):
    return ELSEWHERE.search(" ".join(f["doc"].split()))


def of_result(f):
    """A sentence for the page, or "" where the comment tells, or the result is no pointer."""
    if not f["result"].endswith("*") or told(f):
        return ""
    if f["result"].startswith("const "):
        return "The library owns what the result points to."
    release = RELEASE.get(f["result"])
    return f"The caller owns the result and releases it with {release}." if release else ""


def is_unclear(f):
    """Whether a function gives a pointer of which nothing says whose it is."""
    return f["result"].endswith("*") and not of_result(f) and not told(f)
