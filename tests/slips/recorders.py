#!/usr/bin/env python3
"""Writes a function of the same name for each function of the library's own that takes keywords: it reads them as the real
one does, and records what it read. Usage: recorders.py HEADER_FOLDER... > recorders.h"""
import sys

from keywords import callees

VALUE = {
    "int64_t": "fac_value_int(k.{})", "double": "fac_value_float(k.{})", "bool": "fac_value_bool(k.{})",
    "int": "fac_value_bool(k.{})", "fac_device": "fac_value_device(k.{})", "fac_dtype": "fac_value_dtype(k.{})",
    "object": "k.{0} ? fac_value_object((void *)k.{0}, NULL) : fac_value_none()",
    "fac_generator *": "k.{0} ? fac_value_generator(k.{0}) : fac_value_none()",
    "fac_tensor *": "fac_value_tensor(k.{})", "const char *": "k.{0} ? fac_value_string(k.{0}) : fac_value_none()",
    "fac_loss_reduction": "fac_value_int(k.{})", "fac_memory_format": "fac_value_format(k.{})",
    "fac_ints": "fac_value_ints(k.{0}.v, k.{0}.n)", "fac_floats": "fac_value_floats(k.{0}.v, k.{0}.n)",
    "fac_tensors": "fac_value_tensors(k.{0}.v, k.{0}.n)",
}


def value_of(kind):
    return VALUE.get(kind) or VALUE["object"]


def recorder(callee):
    kw = f"{callee.name}_kw"
    parameters = ", ".join([p.type.replace("(*", f"(*{p.name}", 1) if "(*" in p.type else f"{p.type} {p.name}" for p in callee.parameters] + [f"const {kw} *kw"])
    lines = [f"{callee.returns} ({callee.name})({parameters}) {{",
             f"    {kw} k;"] + [f"    (void){p.name};" for p in callee.parameters]
    lines.append(f"    if (fac__open_{callee.struct}_kw(&k, kw)) return ({callee.returns}){{0}};")
    for keyword in callee.keywords:
        if keyword.names[1] and keyword.type != "fac_ints":
            continue  # the list has it
        lines.append(f'    record("{keyword.argument}", {value_of(keyword.type).format(keyword.names[0])});')
    return "\n".join(lines + [f"    return stop(), ({callee.returns}){{0}};", "}", ""])


print("/* Made by recorders.py. */")
for c in callees(sys.argv[1:]):
    if not c.operator:
        print(recorder(c))
