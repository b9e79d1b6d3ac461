#!/usr/bin/env python3
"""Writes one call for every overload that the C++ header defines: gen_overloads.py OPS_HPP > overloads.h."""
import re
import sys

INLINE = re.compile(r"^(template <[^>]*(?:<Fac\w+>[^>]*)+> )?inline (.*?)(fac_\w+)\((.*)\) \{ return", re.M)


def argument(parameter):
    """Nothing, of the parameter's type; a number for what a template takes."""
    kind = re.match(r"(.*?)(\w+)$", parameter.split("=")[0].strip())[1].strip()
    if kind.startswith(("FacNum", "FacInt")):
        return "1.5" if kind.startswith("FacNum") else "2"
    return f"static_cast<{kind}>(nullptr)" if kind.endswith("*") else f"{kind[6:-2] if kind.endswith('&') else kind}{{}}"


def main():
    text = re.sub(r"\n {8}", " ", open(sys.argv[1]).read())  # broken lines are whole
    overloads = list(INLINE.finditer(text))
    if len(overloads) != len(re.findall(r"\binline\b.*\bfac_\w+\(.*\{ return fac_", text)):
        raise SystemExit("an overload of the header is not read: look at INLINE")
    print("// Made by gen_overloads.py.\nstatic const overload overloads[] = {")
    for match in overloads:
        arguments = ", ".join(argument(p) for p in match[4].split(", ") if p.strip())
        takes_tensor = "true" if match[4].startswith("fac_tensor *") else "false"
        print(f'    {{"{match[3]}({match[4]})", {takes_tensor}, [] {{ (void)!first({match[3]}({arguments})); }}}},')
    print("};")


main()
