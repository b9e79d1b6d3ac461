"""Facula in Python, by nothing but ctypes and api.json: what docs/binding.md explains, step by step.

    import facula
    f = facula.Facula("libfacula.so.0.2", "/usr/local/share/facula/api.json")
    x = f.tensor([[1, 2], [3, 4]], requires_grad=True)
    f.sum(x * x).backward()
    print(x.grad)

Every function of the list is an attribute, without its fac_: f.softmax(x, 1), f.linear_new(3, 4, bias=False),
f.max_dim(x, 0).values.
Functions that take functions are left out; they would need ctypes.CFUNCTYPE, and something that keeps the callback alive.
"""
import ctypes as C
import json
import math
import re
import sys
import weakref

BASIC = {"bool": C.c_bool, "int": C.c_int, "unsigned": C.c_uint, "int16_t": C.c_int16, "int32_t": C.c_int32,
         "int64_t": C.c_int64, "uint32_t": C.c_uint32, "uint64_t": C.c_uint64, "size_t": C.c_size_t, "double": C.c_double,
         "float": C.c_float, "char": C.c_char}
LASTING = ("fac_registration *",)  # what stays for the rest of the process unless it is closed
TAKEN_OVER = {"fac_module_add": 2}  # the argument whose reference a function takes over


class Error(Exception):
    """A call that failed. `code` is the name of the status: "SHAPE"; `module` the path of the module that it happened in."""

    def __init__(self, code, message, module):
        super().__init__(f"{code}: {message}" + (f" (in module {module})" if module else ""))
        self.code, self.module = code, module


class Object:
    """A module, an optimiser, a vocabulary, ...: a pointer that is released with the last reference to this, if it is ours. If it is
    borrowed, `lenders` are what it may be borrowed from, which live as long, unless they are closed."""

    def __init__(self, f, pointer, type_, owned, lenders=()):
        self.f, self.address, self.lenders = f, pointer, lenders
        if owned:
            self.finalizer = weakref.finalize(self, f.symbol(f.releases[type_]), C.c_void_p(pointer))
            self.finalizer.atexit = type_ not in LASTING
            f.lasting += [self] * (type_ in LASTING)

    def close(self):
        """Releases it now; afterwards it is NULL to the library."""
        if hasattr(self, "finalizer"):
            self.finalizer()
            self.f.lasting = [other for other in self.f.lasting if other is not self]
        self.address = None

    pointer = property(lambda self: self.address if all(lender.pointer for lender in self.lenders) else None)

    def __call__(self, x):
        return self.f.forward(self, x)


class Tensor:
    """A tensor, held by a reference of its own: no scope outlives a call here."""

    def __init__(self, f, handle):
        self.f, self.pointer = f, handle
        self.finalizer = weakref.finalize(self, f.lib.fac_release, C.c_void_p(handle))

    def close(self):
        self.finalizer()
        self.pointer = None

    shape = property(lambda self: tuple(self.f.tensor_sizes(self)))
    dtype = property(lambda self: self.f.dtype_name(self.f.tensor_dtype(self)))
    grad = property(lambda self: self.f.grad_of(self))

    def item(self):
        return self.f.item(self)

    def tolist(self):
        whole = self.dtype.startswith(("int", "uint"))
        values = ((C.c_int64 if whole else C.c_double) * self.f.tensor_numel(self))()
        self.f.tensor_read(self, self.f.I64 if whole else self.f.F64, C.addressof(values), len(values))
        values = list(values)
        for d in reversed(range(len(self.shape))):
            size, n = self.shape[d], math.prod(self.shape[:d])
            values = [values[i * size:(i + 1) * size] for i in range(n)]
        return values[0]

    def backward(self, **keywords):
        self.f.backward(self, **keywords)

    def __getitem__(self, subscript):
        return self.f.at(self, str(subscript) if isinstance(subscript, int) else subscript)

    def __bool__(self):
        return bool(self.item())  # of one element; an error for others

    def __repr__(self):
        return self.f.text_of(self)


def operators():
    """Python's operators, which f.add and its like serve; numbers may stand on either side."""
    def forward(name):
        return lambda self, other: getattr(self.f, name)(self, other)

    def backward(name):
        return lambda self, other: getattr(self.f, name)(self.f.tensor(other), self)

    for sign, name in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "div"), ("matmul", "matmul"), ("pow", "pow"),
                       ("lt", "lt"), ("le", "le"), ("gt", "gt"), ("ge", "ge"), ("eq", "eq"), ("ne", "ne")):
        setattr(Tensor, f"__{sign}__", forward(name))
        if sign not in ("lt", "le", "gt", "ge", "eq", "ne"):  # whose mirror images Python knows
            setattr(Tensor, f"__r{sign}__", backward(name))
    Tensor.__neg__ = lambda self: self.f.neg(self)
    Tensor.__hash__ = object.__hash__  # by identity, though == compares elements


operators()


class Facula:
    def __init__(self, library, api):
        self.lib = C.CDLL(library)
        with open(api) as file:
            self.api = json.load(file)
        self.types = {t["name"]: t for t in self.api["types"] if t["kind"] != "opaque"}
        self.structs, self.functions, self.choices, self.releases, self.lasting = {}, {}, {}, {}, []
        for f in self.api["functions"]:
            self.functions[f["name"]] = f
            if re.fullmatch(r"fac_(\w+_)?(release|free|close)", f["name"]) and len(f["parameters"]) == 1:
                self.releases[f["parameters"][0]["type"]] = f["name"]
            if f.get("macro"):
                self.choices.setdefault(f["macro"], []).append(f)
        for t in self.api["types"]:  # FAC_F32 is f.F32
            for e in t.get("enumerators", []):
                setattr(self, e["name"].removeprefix("FAC_"), e["value"])
        self.lib.fac_release.argtypes, self.lib.fac_release.restype = [C.c_void_p], None
        self.scope = self.struct("fac_scope")
        self.lib.fac_scope_begin.restype = self.scope

    # ---- types ---------------------------------------------------------------------------------------------------------------

    def ctype(self, text):
        """A C type as ctypes has it: every pointer but a text is an address."""
        if "*" in text:
            return C.c_char_p if text == "const char *" else C.c_void_p
        text = re.sub(r"\b(const|struct)\b", "", text).strip()
        if text == "void":
            return None
        if text in BASIC:
            return BASIC[text]
        kind = self.types[text]["kind"] if text in self.types else "result"
        return C.c_int if kind == "enum" else C.c_uint64 if kind == "alias" else self.struct(text)

    def struct(self, name, fields=None):
        """A struct of the list as a ctypes class; `fields` where it follows from a function."""
        if name not in self.structs:
            fields = [(n, self.ctype(t)) for n, t in fields] if fields else list(self.members(self.types[name]))
            self.structs[name] = type(name, (C.Structure,), {"_fields_": fields})
        return self.structs[name]

    def members(self, type_):
        """Name and ctypes type of each member; a declaration may have several, and arrays: "unsigned grid[3], block[3]"."""
        for m in type_["members"]:
            text, names = re.match(r"(.*?[\s*]+)((?:[*\s]*\w+(?:\[\d+\])?,)*[*\s]*\w+(?:\[\d+\])?)$", m["declaration"]).groups()
            for declarator in names.split(","):
                name, _, size = declarator.strip(" *").rstrip("]").partition("[")
                yield name, self.ctype(text) * int(size) if size else self.ctype(text)

    def keyword_struct(self, f):
        return self.struct(f["keyword_struct"], [("kw_size", "size_t")] + [(k["name"], k["type"]) for k in f["keywords"]])

    def symbol(self, name):
        """The exported function with its types."""
        function, f = getattr(self.lib, name), self.functions[name]
        if function.argtypes is None:
            function.argtypes = [self.ctype(p["type"]) for p in f["parameters"]]
            if f.get("result_fields"):
                self.struct(f["result"], [(n, "fac_tensor *") for n in f["result_fields"]])
            function.restype = self.ctype(f["result"])
        return function

    # ---- arguments -------------------------------------------------------------------------------------------------------------

    def scalar(self, value):
        kinds = {bool: self.KIND_BOOL, int: self.KIND_INT, float: self.KIND_FLOAT}
        bits = C.c_int64.from_buffer_copy(C.c_double(value)).value if isinstance(value, float) else checked(int(value))
        return self.struct("fac_scalar")(bits, kinds[type(value)])

    def list_of(self, type_, values):
        struct, element = self.struct(type_), {"fac_ints": C.c_int64, "fac_floats": C.c_double, "fac_tensors": C.c_void_p}[type_]
        values = [values] if isinstance(values, (int, float)) else values
        plain = [v.pointer if isinstance(v, Tensor) else v if type_ != "fac_ints" else checked(v) for v in values]
        room = (element * max(len(plain), 1))(*plain)
        made = struct(C.cast(room, C.c_void_p), len(plain))
        made.room = room  # lives as long as the struct
        return made

    def argument(self, type_, value):
        if type_ in ("fac_ints", "fac_floats", "fac_tensors"):
            return self.list_of(type_, value)
        if type_ == "fac_scalar":
            return self.scalar(value)
        if type_ == "fac_device":
            return self.raw("fac_device_parse", value.encode()) if isinstance(value, str) else value
        if type_ in ("int64_t", "int", "size_t", "bool") or self.types.get(type_, {}).get("kind") == "enum":
            return checked(value)
        if type_ == "const char *":
            if not isinstance(value, (str, type(None))):
                raise TypeError(f"a text is wanted, not {value!r}")
            return value.encode() if value is not None else None
        return getattr(value, "pointer", value)

    def keywords(self, f, given):
        struct = self.keyword_struct(f)
        kw = struct()
        getattr(self.lib, f["keyword_struct"] + "_init")(C.byref(kw))
        types, alive = {k["name"]: k["type"] for k in f["keywords"]}, []
        for name, value in given.items():
            if name not in types or name == "kw_stray":
                raise TypeError(f"{f['name']} has no keyword '{name}'; it has {', '.join(n for n in types if n != 'kw_stray')}")
            alive.append(self.argument(types[name], value))
            setattr(kw, name, alive[-1])
        return kw, alive

    def by_position(self, f, values, given):
        """Required arguments, which may come by name, and keywords, which may come by position."""
        required = [p for p in f["parameters"] if not ("keyword_struct" in f and p["name"] == "kw")]
        behind = [p["name"] for p in required[len(values):]]
        if behind and all(name in given for name in behind):
            values = [*values, *(given[name] for name in behind)]
            given = {name: value for name, value in given.items() if name not in behind}
        optional = [k["name"] for k in f.get("keywords", []) if not k.get("by_name", True) and "instead_of" not in k]
        extra = values[len(required):]
        if len(values) < len(required) or len(extra) > len(optional):
            raise TypeError(f"{f['name']} takes {len(required)} to {len(required) + len(optional)} values, not {len(values)}")
        return [self.argument(p["type"], v) for p, v in zip(required, values)], {**dict(zip(optional, extra)), **given}

    # ---- calls -----------------------------------------------------------------------------------------------------------------

    def raw(self, name, *arguments):
        result = self.symbol(name)(*arguments)
        self.check()
        return result

    def check(self):
        """Turns a pending error into an exception, told where in the Python program it was."""
        if not self.symbol("fac_error")():
            return
        frame = sys._getframe()
        while frame.f_back and frame.f_code.co_filename == __file__:
            frame = frame.f_back
        self.symbol("fac_error_at")(frame.f_code.co_filename.encode(), frame.f_lineno)
        info = self.struct("fac_error_info")()
        self.symbol("fac_error_get")(C.byref(info))
        code = self.symbol("fac_status_name")(info.code).decode()
        error = Error(code, info.message.decode(), info.module.decode())
        error.place = (info.file.decode(), info.line)
        self.symbol("fac_error_clear")()
        raise error

    def kept(self, pointer):
        return Tensor(self, self.symbol("fac_keep")(pointer)) if pointer else None

    def string(self, address):
        """A text that is ours to free."""
        try:
            return C.string_at(address).decode() if address else None
        finally:
            self.symbol("fac_string_free")(address)

    def result(self, f, value, lenders=()):
        """What a call gave, as Python has it. What can be released is ours unless its comment says that it is borrowed."""
        type_ = f["result"]
        if f["name"] == "fac_keep":
            return Tensor(self, value)
        if type_ == "char *" and "fac_string_free" in f["doc"]:
            return self.string(value)
        if f.get("result_fields"):
            return type("Results", (), {n: self.kept(getattr(value, n)) for n in f["result_fields"]})
        if type_ == "fac_tensor *":
            return self.kept(value)
        if type_ == "fac_tensors":
            return [self.kept(p) for p in C.cast(value.v, C.POINTER(C.c_void_p))[:value.n]]
        if type_ == "fac_ints":
            return C.cast(value.v, C.POINTER(C.c_int64))[:value.n]
        if type_ in self.releases and type_ != "char *":
            return Object(self, value, type_, "borrow" not in f["doc"].lower(), lenders) if value else None
        return value.decode() if isinstance(value, bytes) else None if type_ == "fac_status" else value

    def call(self, f, *values, **given):
        """One call: its scope frees all but what is kept of the results."""
        if f["name"] in self.releases.values() and len(values) == 1 and hasattr(values[0], "close"):
            return values[0].close()  # once, whoever asks
        plain, given = self.by_position(f, values, given)
        if "keyword_struct" in f:
            kw, alive = self.keywords(f, given)
            plain.append(C.cast(C.pointer(kw), C.c_void_p))
        elif given:
            raise TypeError(f"{f['name']} takes no keywords")
        if f["name"] in TAKEN_OVER and plain[TAKEN_OVER[f["name"]]]:
            self.symbol("fac_module_keep")(plain[TAKEN_OVER[f["name"]]])
        scope = self.lib.fac_scope_begin()
        try:
            value = self.symbol(f["name"])(*plain)
            self.check()
            return self.result(f, value, [v for v in values if isinstance(v, Object)])
        finally:
            self.lib.fac_scope_end(C.byref(scope))

    def choose(self, functions, *values, **given):
        """The overload for the values, as C's macro chooses: by whether a number stands in the place of a tensor."""
        for f in functions:
            pairs = list(zip(f["parameters"], values))
            if all(isinstance(v, Tensor) for p, v in pairs if p["type"] == "fac_tensor *") and \
                    all(not isinstance(v, Tensor) for p, v in pairs if p["type"] == "fac_scalar"):
                return self.call(f, *values, **given)
        return self.call(functions[0], *values, **given)

    def __getattr__(self, name):
        full = "fac_" + name
        if full in self.choices:
            return lambda *values, **given: self.choose(self.choices[full], *values, **given)
        if full not in self.functions:
            raise AttributeError(f"there is no function {full}")
        if self.functions[full].get("variadic") or any("(*" in p["type"] for p in self.functions[full]["parameters"]):
            raise AttributeError(f"{full} takes functions, which this binding has not")
        return lambda *values, **given: self.call(self.functions[full], *values, **given)

    # ---- what reads better in Python -------------------------------------------------------------------------------------------

    def tensor(self, values, dtype=None, requires_grad=False):
        """A tensor of nested lists of numbers."""
        shape, flat = [], [values]
        while flat and isinstance(flat[0], (list, tuple)):
            if any(not isinstance(row, (list, tuple)) or len(row) != len(flat[0]) for row in flat):
                raise ValueError("the rows of a tensor should be of one length")
            shape.append(len(flat[0]))
            flat = [v for row in flat for v in row]
        # whole numbers by way of integers: floating-point numbers would round large ones
        whole = dtype is not None and all(isinstance(v, int) for v in flat)
        flat = [checked(v) for v in flat] if whole else flat
        data = ((C.c_int64 if whole else C.c_double) * max(len(flat), 1))(*flat)
        t = self.tensor_from(C.addressof(data), self.I64 if whole else self.F64, shape)
        t = self.to_dtype(t, self.F32 if dtype is None else dtype)
        return self.set_requires_grad(t, True) if requires_grad else t

    def sequential(self, *layers):
        """fac_sequential_new takes over a reference of each layer: one more is taken for Python's own."""
        for layer in layers:
            self.symbol("fac_module_keep")(layer.pointer)
        pointers = (C.c_void_p * len(layers))(*[layer.pointer for layer in layers])
        return Object(self, self.raw("fac_sequential_new", C.addressof(pointers), len(layers)), "fac_module *", True)

    def text_of(self, t):
        return self.tensor_string(t)


def checked(value):
    """ctypes cuts integers that are too long; this does not."""
    value = int(value) if isinstance(value, bool) or value is None else value
    if not isinstance(value, int):
        raise TypeError(f"an integer is wanted, not {value!r}")
    if not -2**63 <= value < 2**63:
        raise OverflowError(f"{value} does not fit into 64 bits")
    return value
