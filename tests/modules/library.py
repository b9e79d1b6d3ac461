"""Facula's modules from Python: made from text, and by their constructors with keywords; shown, run, copied, saved and loaded. Tensors
are those of tests/conformance/facula.py, over PyTorch's memory; constructors are called by the binding of examples/python, which knows
keyword structs."""

import ctypes as C
import importlib.util
import json
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "conformance"))
import facula  # noqa: E402
from facula import Error as TensorError, P, SIZE, Scope, Tensor, Tensors  # noqa: E402

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
UNSET = {"int": -2**63, "float": -1.6180339887498949e308}  # FAC_UNSET, FAC_UNSET_FLOAT


class Refused(Exception):
    """The library's error for what it was asked."""


def binding():
    """examples/python/facula.py, whose name is that of tests/conformance/facula.py as well."""
    spec = importlib.util.spec_from_file_location("binding", ROOT / "examples" / "python" / "facula.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Named(C.Structure):
    _fields_ = [("name", C.c_char_p), ("tensor", P), ("module", P)]


class State(C.Structure):
    _fields_ = [("v", C.POINTER(Named)), ("n", SIZE), ("cap", SIZE)]


class Library:
    def __init__(self, path, api, modules):
        self.f = facula.Facula(path)
        self.lib = self.f.lib
        self.binding_error = binding_module.Error
        self.b = binding_module.Facula(path, api)
        with open(modules) as file:
            listing = json.load(file)
        self.modules = {m["module"]: m for m in listing["modules"]}
        self.libc = C.CDLL(None)
        for name, result, arguments in (
                ("open_memstream", P, [C.POINTER(C.c_char_p), C.POINTER(SIZE)]), ("fclose", C.c_int, [P]), ("free", None, [P])):
            function = getattr(self.libc, name)
            function.restype, function.argtypes = result, arguments
        for name, result, arguments in (
                ("fac_module_print", C.c_int, [P, P]), ("fac_module_release", None, [P]), ("fac_module_copy", P, [P]),
                ("fac_parse_module", P, [C.c_char_p]), ("fac_module_keep", P, [P]),
                ("fac_forward_all", C.c_int, [P, Tensors, C.POINTER(P), SIZE]), ("fac_forward_many", P, [P, Tensors]),
                ("fac_forward", P, [P, P]), ("fac_module_output_count", SIZE, [P]), ("fac_module_train", None, [P, C.c_bool]),
                ("fac_module_state_dict", C.POINTER(State), [P]), ("fac_state_free", None, [C.POINTER(State)]),
                ("fac_state_new", C.POINTER(State), []), ("fac_state_set", C.c_int, [C.POINTER(State), C.c_char_p, P]),
                ("fac_module_load_state_dict", C.c_int, [P, C.POINTER(State), P]), ("fac_module_save", C.c_int, [P, C.c_char_p]),
                ("fac_module_load", C.c_int, [P, C.c_char_p, P]), ("fac_module_parameter", P, [P, C.c_char_p]),
                ("fac_module_parameters", C.POINTER(State), [P, P]), ("fac_backward", C.c_int, [P, P]), ("fac_mse_loss", P, [P, P, P])):
            function = getattr(self.lib, name)
            function.restype, function.argtypes = result, arguments

    def check(self, status):
        """Raises Refused with the pending error's text."""
        if status:
            raise Refused(self.f.message())

    def given(self, pointer):
        if not pointer:
            raise Refused(self.f.message())
        return pointer

    def made(self, pointer):
        return Module(self, self.given(pointer))

    def from_text(self, text):
        return self.made(self.lib.fac_parse_module(text.encode()))

    def by_constructor(self, kind, values, scope):
        """The constructor with these arguments: those that are required by position, lists as such."""
        function = self.b.functions[kind["new"]]
        keywords = {k["name"]: k for k in function.get("keywords", [])}
        lists = {k["instead_of"]: k["name"] for k in keywords.values() if "instead_of" in k}
        given = {}
        for name, value in values.items():
            argument = argument_for(kind, name, value)
            if value is None and argument.get("default") == "None":
                continue
            name, value = argument["name"], in_c(argument, value, scope)
            if isinstance(value, list) and name in lists:
                name = lists[name]
            given[name] = value
        try:
            made = self.b.call(function, **given)
        except (self.binding_error, TypeError) as e:  # of the library's, or for a number that is no integer
            raise Refused(str(e)) from None
        return Module(self, self.given(self.lib.fac_module_keep(made.pointer)))


def argument_for(kind, name, value):
    """The argument of a name; where a word may stand in its place, and does, that of the word."""
    named = {a["name"]: a for a in kind["arguments"]}
    word = named.get(name + "_name")
    return word if word and value in word["choices"] else named[name]


def in_c(argument, value, scope):
    """A value as the constructor takes it."""
    if value is None:
        return UNSET[argument["type"].partition("?")[0]] if argument["type"].endswith("?") else None
    if isinstance(value, torch.Tensor):
        return scope.wrap(value).h
    if isinstance(value, torch.dtype):
        return facula.DTYPE_CODE[value]
    if argument.get("choices") == list(REDUCTIONS) and argument["name"] == "reduction":
        return REDUCTIONS.get(value, 3)
    if argument["type"].startswith(("int[", "float[")) and isinstance(value, (int, float)):
        return [value]
    return list(value) if isinstance(value, tuple) else value


class Module:
    """A module, released with this."""

    def __init__(self, library, pointer):
        self.library, self.lib, self.pointer = library, library.lib, pointer

    def __del__(self):
        self.lib.fac_module_release(self.pointer)

    def __str__(self):
        libc, text, size = self.library.libc, C.c_char_p(), SIZE()
        stream = libc.open_memstream(C.byref(text), C.byref(size))
        status = self.lib.fac_module_print(self.pointer, stream)
        libc.fclose(stream)
        shown = text.value.decode()
        libc.free(text)
        self.library.check(status)
        return shown.rstrip("\n")

    def train(self, on):
        self.lib.fac_module_train(self.pointer, on)

    def copy(self):
        return self.library.made(self.lib.fac_module_copy(self.pointer))

    def state(self, scope):
        """Names and values of the state dict, in order."""
        state = self.lib.fac_module_state_dict(self.pointer)
        self.library.given(bool(state))
        try:
            return {e.name.decode(): Tensor(scope, e.tensor).torch() for e in state.contents.v[:state.contents.n]}
        finally:
            self.lib.fac_state_free(state)

    def load(self, values, scope):
        """A state dict of PyTorch's into the module."""
        state = self.lib.fac_state_new()
        try:
            for name, value in values.items():
                self.library.check(self.lib.fac_state_set(state, name.encode(), scope.wrap(value).h))
            self.library.check(self.lib.fac_module_load_state_dict(self.pointer, state, None))
        finally:
            self.lib.fac_state_free(state)

    def save_file(self, path):
        self.library.check(self.lib.fac_module_save(self.pointer, str(path).encode()))

    def load_file(self, path):
        self.library.check(self.lib.fac_module_load(self.pointer, str(path).encode(), None))

    def parameters(self, scope):
        """[(name, tensor)], each of them the module's own."""
        state = self.lib.fac_module_parameters(self.pointer, None)
        self.library.given(bool(state))
        try:
            return [(e.name.decode(), Tensor(scope, e.tensor)) for e in state.contents.v[:state.contents.n]]
        finally:
            self.lib.fac_state_free(state)

    def __call__(self, scope, *inputs):
        """All results."""
        n = self.lib.fac_module_output_count(self.pointer)
        out = (P * n)()
        given = (P * max(len(inputs), 1))(*[t and t.h for t in inputs])
        self.library.check(self.lib.fac_forward_all(self.pointer, Tensors(given, len(inputs)), out, n))
        return [Tensor(scope, h) if h else None for h in out]

    def first(self, scope, *inputs):
        """The result that fac_forward or fac_forward_many gives."""
        given = (P * max(len(inputs), 1))(*[t and t.h for t in inputs])
        if len(inputs) == 1:
            return Tensor(scope, self.library.given(self.lib.fac_forward(self.pointer, given[0])))
        return Tensor(scope, self.library.given(self.lib.fac_forward_many(self.pointer, Tensors(given, len(inputs)))))


binding_module = binding()
__all__ = ["Library", "Module", "Refused", "Scope", "TensorError"]
