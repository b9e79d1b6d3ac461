#!/usr/bin/env python3
"""Writes one call for every pointer of every public function: NULL there, and something valid everywhere else.

Usage: gen_calls.py HEADER... > null_calls.h. A parameter of a type without an entry in VALID ends it with an error, so that
a new type cannot be forgotten.
"""
import re
import sys

from declarations import functions, is_optional

# What stands for each type; the functions are those of test_null_calls.c.
VALID = {
    "fac_tensor *": "a_tensor()", "const fac_tensor *": "a_tensor()", "fac_tensors": "some_tensors()",
    "fac_module *": "a_module()", "const fac_module *": "a_module()",
    "fac_optimizer *": "an_optimizer()", "const fac_optimizer *": "an_optimizer()",
    "fac_generator *": "fac_default_generator()", "fac_storage *": "fac_tensor_storage(a_tensor())",
    "const fac_storage *": "fac_tensor_storage(a_tensor())", "fac_node *": "a_node()", "const fac_node *": "a_node()",
    "fac_state *": "a_state()", "const fac_state *": "a_state()", "const fac_operator *": 'fac_operator_find("aten::relu")',
    "const char *": '"/none/such"', "char *": "a_buffer()", "FILE *": "a_stream()", "const void *": "a_buffer()",
    "void *": "a_buffer()", "int64_t *": "(int64_t *)a_buffer()", "const int64_t *": "(int64_t *)a_buffer()",
    "uint64_t *": "(uint64_t *)a_buffer()", "size_t *": "(size_t *)a_buffer()", "double *": "(double *)a_buffer()",
    "const double *": "(double *)a_buffer()", "int *": "(int *)a_buffer()", "bool *": "(bool *)a_buffer()",
    "const bool *": "(bool *)a_buffer()", "fac_tensor **": "(fac_tensor **)a_buffer()",
    "fac_tensor *const *": "some_tensors().v", "const fac_scalar *": "(fac_scalar *)a_buffer()",
    "fac_ints": "FAC_INTS(1)", "fac_floats": "FAC_FLOATS(1)",
    "fac_scalar": "fac_scalar_i_(1)", "int64_t": "1", "int": "1", "size_t": "1", "double": "1", "bool": "true",
    "uint64_t": "1", "fac_dtype": "FAC_F32", "fac_device_type": "FAC_CPU", "fac_status": "FAC_ERR_ARGUMENT",
    "fac_device": "fac_device_make(FAC_CPU, -1)", "fac_memory_format": "FAC_CONTIGUOUS", "fac_layout": "FAC_STRIDED",
    "fac_value": "fac_value_int(1)", "fac_value *": "a_value()", "const fac_value *": "a_value()",
    "fac_scope *": "a_scope()", "fac_vocab *": "a_vocab()", "const fac_vocab *": "a_vocab()",
    "fac_sampler *": "a_sampler()", "fac_loader *": "a_loader()", "const fac_loader *": "a_loader()",
    "fac_event *": "an_event()", "const char *const *": '(const char *const[]){"/none/such"}',
    "fac_module *const *": "(fac_module *const[]){a_module()}",
    "fac_event *": "an_event()", "fac_lr_scheduler *": "a_schedule()", "const fac_lr_scheduler *": "a_schedule()",
    "fac_grad_scaler *": "a_scaler()", "const fac_grad_scaler *": "a_scaler()",
    "fac_event *": "an_event()", "fac_dataset *": "a_dataset()", "const fac_dataset *": "a_dataset()",
    "const fac_sampler *": "a_sampler()", "fac_dataset **": "(fac_dataset **)a_buffer()",
    "fac_tensor_file *": "a_file()", "const fac_tensor_file *": "a_file()", "fac_csv *": "a_table()", "const fac_csv *": "a_table()",
}
# Types that are passed as zeros: no state is needed to see what NULL elsewhere does.
ZERO_STRUCT = re.compile(r"^(const )?fac_\w+( \*)?$")


def is_pointer(p):
    return p.type.endswith("*") or "(*" in p.type or p.type in FUNCTION_TYPES


FUNCTION_TYPES = set()


def valid(p):
    if p.type in VALID:
        return VALID[p.type]
    if p.type == "...":
        return None
    if "(*" in p.type or p.type in FUNCTION_TYPES or p.type.endswith("_kw *"):
        return "NULL"
    if ZERO_STRUCT.match(p.type):
        base = p.type.replace("const ", "")
        return "a_buffer()" if base.endswith("*") else f"({base}){{0}}"
    raise SystemExit(f"{p.type} needs an entry in VALID of gen_calls.py")


def nulls(p):
    """What stands for nothing at a parameter: one or more expressions."""
    if p.type in ("fac_tensors", "fac_ints", "fac_floats"):
        return [f"({p.type}){{NULL, 0}}", f"({p.type}){{NULL, 3}}"]
    return ["NULL"] if is_pointer(p) and not p.type.endswith("_kw *") else []


def must_fail(f, p, value):
    """An operator refuses NULL for a tensor that is not optional, and a list that says it has entries but has none."""
    if not f.schema:
        return False
    if p.type in ("fac_tensor *", "const fac_tensor *"):
        return not is_optional(f.schema, p.name)
    return value.endswith("3}")


def calls(f):
    for i, p in enumerate(f.parameters):
        for value in nulls(p):
            arguments = [value if i == j else valid(q) for j, q in enumerate(f.parameters)]
            text = ", ".join(a for a in arguments if a is not None)
            call = f"({f.name})({text});"
            if f.returns != "void":
                call = f"__extension__ __auto_type r = {call} (void)r;"
            yield call, must_fail(f, p, value), f"{f.name}: {p.name or p.type} is {value}"


def main():
    text = [open(path).read() for path in sys.argv[1:]]
    for header in text:
        FUNCTION_TYPES.update(re.findall(r"typedef [^;{}]*\(\*(\w+)\)\(", header))
    everything = [c for header in text for f in functions(header) for c in calls(f)]
    print("/* Made by gen_calls.py. */")
    for n, (call, _, _) in enumerate(everything):
        print(f"static void call_{n}(void) {{ {call} }}")
    print("static const struct {\n    void (*call)(void);\n    bool must_fail;\n    const char *what;\n} null_calls[] = {")
    for n, (_, fails, what) in enumerate(everything):
        print(f'    {{call_{n}, {"true" if fails else "false"}, "{what}"}},')
    print("};")


main()
