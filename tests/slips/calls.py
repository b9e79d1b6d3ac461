"""Writes the calls: each function with something in the place of one keyword, by name and by position."""
from collections import namedtuple

# `text` as written in C, what kind of thing it is (slip.h), its number, and the type of an enumerator.
Value = namedtuple("Value", "text written number enumeration", defaults=("0", ""))
VALUES = [
    Value("3", "W_NUMBER", "3"), Value("-2", "W_NUMBER", "-2"), Value("0", "W_NUMBER"), Value("slip_three", "W_NUMBER", "3"),
    Value("2.5", "W_NUMBER", "2.5"), Value("4.0", "W_NUMBER", "4"), Value("slip_half", "W_NUMBER", "0.5"),
    Value("INT64_C(9007199254740993)", "W_NUMBER", "9007199254740993"),
    Value("true", "W_BOOL", "1"), Value("false", "W_BOOL"), Value("slip_yes", "W_BOOL", "1"), Value("slip_no", "W_BOOL"),
    Value("slip_tensor", "W_TENSOR"), Value("slip_pointer", "W_POINTER"), Value("slip_generator", "W_GENERATOR"),
    Value('"sum"', "W_TEXT"), Value("NULL", "W_NULL"),
    Value("SLIP_INTS", "W_INTS"), Value("SLIP_FLOATS", "W_FLOATS"), Value("SLIP_TENSORS", "W_TENSORS"),
    Value("FAC_SCALAR(3)", "W_SCALAR", "3"), Value("fac_device_make(FAC_CPU, -1)", "W_DEVICE"),
    Value("FAC_I16", "W_ENUM", "FAC_I16", "fac_dtype"), Value("FAC_CUDA", "W_ENUM", "FAC_CUDA", "fac_device_type"),
    Value("FAC_CHANNELS_LAST", "W_ENUM", "FAC_CHANNELS_LAST", "fac_memory_format"),
    Value("FAC_SPARSE_CSR", "W_ENUM", "FAC_SPARSE_CSR", "fac_layout"),
    Value("FAC_REDUCTION_SUM", "W_ENUM", "FAC_REDUCTION_SUM", "fac_loss_reduction"),
]
# What stands for a parameter before the keywords.
VALID = {
    "fac_tensor *": "slip_tensor", "fac_tensors": "SLIP_TENSORS", "fac_ints": "SLIP_INTS", "fac_floats": "SLIP_FLOATS", "fac_scalar": "2", "int64_t": "1",
    "size_t": "1", "double": "1.0", "bool": "true", "fac_dtype": "FAC_F32", "fac_device": "fac_device_make(FAC_CPU, -1)",
    "fac_device_type": "FAC_CPU", "int": "0",
    "const char *": '"sum"', "fac_generator *": "slip_generator", "fac_module *": "slip_module", "fac_func": "NULL",
    "fac_packed_sequence *": "NULL", "const fac_packed_sequence *": "NULL", "fac_module *const *": "NULL", "FILE *": "NULL",
    "double *": "&slip_half", "fac_optimizer *": "slip_optimizer", "fac_lr_schedulers": "FAC_SCHEDULERS(NULL)",
    "fac_sample_loss": "NULL", "fac_grad_scaler *": "NULL", "fac_dl_versioned *": "NULL", "fac_dl_managed *": "NULL",
    "void *": "NULL", "const fac_state *": "NULL", "fac_tensor **": "&slip_result", "const char *const *": "&slip_path",
}
ENUMERATIONS = ("fac_dtype", "fac_layout", "fac_memory_format", "fac_loss_reduction")
STRUCTS = ("fac_ints", "fac_floats", "fac_tensors", "fac_device", "fac_scalar")

# One way of writing one value: `text` is the call, `usual` the one that leaves the keywords out.
Slip = namedtuple("Slip", "callee keyword value text usual")


# And where any value of the type would not do.
VALID_NAMED = {"high": "5", "factor": "slip_factor", "physical_layout": "FAC_INTS(1, 0)", ("start", "fac_tensor *"): "slip_number_tensor", ("end", "fac_tensor *"): "slip_number_tensor"}

VALID_OF = {("fac_sparse_coo_tensor_indices", "indices"): "slip_index_tensor", ("fac_sparse_coo_tensor_indices_size", "indices"): "slip_index_tensor",
            ("fac_sparse_coo_tensor_indices_size", "size"): "FAC_INTS(5, 3)"}


def valid(callee, parameter):
    named = VALID_OF.get((callee.name, parameter.name)) or VALID_NAMED.get((parameter.name, parameter.type)) or VALID_NAMED.get(parameter.name)
    # Functions that are no operators are stopped before they look at their objects.
    return named or VALID.get(parameter.type) or ("NULL" if "*" in parameter.type and not callee.operator else VALID[parameter.type])


def call(callee, keywords):
    given = [valid(callee, p) for p in callee.parameters]
    return f"{callee.name}({', '.join(given + keywords)})"


def places(callee, keyword):
    """The keywords of a call as patterns: by name; by position; and, as numbers spill over into what follows, with the rest."""
    fields = callee.keywords
    at = fields.index(keyword)
    before = [k.default for k in fields[:at] if k.positional]
    after = [k.default for k in fields[at + 1:] if k.positional == keyword.positional]
    yield [f".{keyword.names[0]} = %s"]
    if keyword.type in STRUCTS and after:
        yield [f".{keyword.names[0]} = %s"] + after
    if keyword.positional:
        yield before + ["%s"]
        if after:
            yield before + ["%s"] + after


# Of these no call is right with what stands for any parameter: their indices must fit each other, so that an error says nothing of a keyword.
NEVER_RIGHT = tuple(f"fac_sparse_{layout}_tensor_" for layout in ("compressed", "csr", "csc", "bsr", "bsc"))


def slips_of(callee):
    if callee.name.startswith(NEVER_RIGHT):
        return
    usual = call(callee, [])
    for keyword in callee.keywords:
        for place in places(callee, keyword):
            for value in VALUES:
                text = call(callee, [value.text if part == "%s" else part.replace("%s", value.text) for part in place])
                yield Slip(callee, keyword, value, text, usual)
    for value in VALUES:  # one too many
        text = call(callee, [k.default for k in callee.keywords if k.positional] + [value.text])
        yield Slip(callee, None, value, text, usual)


def statement(callee, text):
    """A call whose result is kept if it is a tensor, since requires_grad shows nowhere else."""
    return f"slip_result = {text};" if callee.returns == "fac_tensor *" else f"(void){text};"


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def row(i, slip):
    k = slip.keyword
    names = (k.names if k else ("", ""))
    return (f"    {{{quoted(slip.text)}, {quoted(k.argument if k else '')}, {{{quoted(names[0])}, {quoted(names[1])}}}, "
            f"{quoted(slip.value.enumeration)}, {quoted(k.type if k else '')}, {slip.value.written}, "
            f"{slip.value.number}, usual_{slip.callee.name}, slip_{i}}},")


def source(slips):
    """A C file with the calls, each on a line of its own: the line of slip i is FIRST_LINE + i."""
    lines = ['#include "slip.h"']
    assert len(lines) + 1 == FIRST_LINE
    lines += [f"static void slip_{i}(void) {{ {statement(s.callee, s.text)} }}" for i, s in enumerate(slips)]
    callees = {s.callee.name: s for s in slips}
    lines += [f"static void usual_{name}(void) {{ {statement(s.callee, s.usual)} }}" for name, s in callees.items()]
    lines += ["extern const slip slips[];", "extern const size_t n_slips;", "const slip slips[] = {"]
    lines += [row(i, s) for i, s in enumerate(slips)]
    lines += ["};", "const size_t n_slips = sizeof slips / sizeof slips[0];", ""]
    return "\n".join(lines)


FIRST_LINE = 2
