"""Facula's boxed door through ctypes: no build step, only the shared library.

Tensors are made from raw buffers with strides and offset, operators are called by name with boxed values, results and
gradients are read back. Everything happens inside a Scope, which frees what was made in it.
"""

import ctypes as C
import re

import torch

P, I64, SIZE = C.c_void_p, C.c_int64, C.c_size_t


class Value(C.Structure):
    _fields_ = [("payload", I64), ("tag", I64)]


class Ints(C.Structure):
    _fields_ = [("v", C.POINTER(I64)), ("n", SIZE)]


class Tensors(C.Structure):
    _fields_ = [("v", C.POINTER(P)), ("n", SIZE)]


class Scalar(C.Structure):
    _fields_ = [("bits", I64), ("kind", I64)]


class Device(C.Structure):
    _fields_ = [("type", C.c_int32), ("index_plus", C.c_int32)]


class ScopeMark(C.Structure):
    _fields_ = [("serial", C.c_uint64), ("depth", C.c_uint32)]


class Dual(C.Structure):
    _fields_ = [("primal", P), ("tangent", P)]


class GradKw(C.Structure):
    _fields_ = [("kw_size", SIZE), ("grad_outputs", Tensors), ("retain_graph", C.c_int),
                ("create_graph", C.c_int), ("allow_unused", C.c_int), ("is_grads_batched", C.c_int), ("kw_stray", C.c_int64)]


MAPPED = C.CFUNCTYPE(C.c_int, P, Tensors, C.POINTER(P), SIZE)  # fac_func


(TAG_NONE, TAG_TENSOR, TAG_INT, TAG_FLOAT, TAG_BOOL, TAG_COMPLEX, TAG_STRING, TAG_INTS, TAG_FLOATS, TAG_BOOLS, TAG_TENSORS,
 TAG_SCALARS, TAG_DTYPE, TAG_DEVICE, TAG_LAYOUT, TAG_FORMAT, TAG_GENERATOR, TAG_OBJECT) = range(18)

KIND_BOOL, KIND_INT, KIND_FLOAT, KIND_COMPLEX = 1, 2, 3, 4

# fac_dtype, in the header's order
DTYPES = [None, torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
          torch.float32, torch.float64, torch.complex64, torch.complex128]
DTYPE_CODE = {d: i for i, d in enumerate(DTYPES) if d is not None}
# PyTorch's ScalarType numbers, as they stand in traced graphs
SCALAR_TYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
                None, torch.complex64, torch.complex128, torch.bool, None, None, None, torch.bfloat16]
# PyTorch's MemoryFormat numbers -> fac_memory_format
FORMATS = {0: 1, 1: 2, 2: 3, 3: 4}


class Error(Exception):
    pass


class Unsupported(Exception):
    """A value that this bridge has no boxed form for."""


class NoKernel(Exception):
    """The operator, or this dtype of it, is not there on the device."""


class Facula:
    def __init__(self, path, device="cpu"):
        lib = self.lib = C.CDLL(path)
        self.on_cpu = device == "cpu"
        self.device = Device(1, 0) if self.on_cpu else Device(2, 1)

        def declare(name, result, *args):
            f = getattr(lib, name)
            f.restype, f.argtypes = result, args

        declare("fac_init", C.c_int)
        declare("fac_error", C.c_int)
        declare("fac_error_message", C.c_char_p)
        declare("fac_error_clear", None)
        declare("fac_live", I64)
        declare("fac_scope_begin", ScopeMark)
        declare("fac_scope_end", None, C.POINTER(ScopeMark))
        declare("fac_tensor_wrap", P, P, SIZE, C.c_int, Ints, Ints, I64, P, P)
        declare("fac_tensor_sizes", Ints, P)
        declare("fac_tensor_strides", Ints, P)
        declare("fac_tensor_dtype", C.c_int, P)
        declare("fac_tensor_layout", C.c_int, P)
        declare("fac_tensor_numel", I64, P)
        declare("fac_tensor_read", C.c_int, P, C.c_int, P, SIZE)
        declare("fac_set_requires_grad", P, P, C.c_bool)
        declare("fac_dual_level_enter", I64)
        declare("fac_dual_level_exit", C.c_int, I64)
        declare("fac_make_dual", P, P, P)
        declare("fac_unpack_dual", Dual, P)
        declare("fac_requires_grad", C.c_bool, P)
        declare("fac_grad_kw_init", None, C.POINTER(GradKw))
        declare("fac_vmap", C.c_int, MAPPED, P, Tensors, C.POINTER(P), SIZE, P)
        declare("fac_grad", C.c_int, Tensors, Tensors, C.POINTER(P), C.POINTER(GradKw))
        declare("fac_operator_count", SIZE)
        declare("fac_operator_at", P, SIZE)
        declare("fac_operator_has_tag", C.c_bool, P, C.c_char_p)
        declare("fac_operator_lookup", P, C.c_char_p)
        declare("fac_operator_name", C.c_char_p, P)
        declare("fac_operator_schema", C.c_char_p, P)
        declare("fac_operator_return_count", SIZE, P)
        declare("fac_call_op", C.c_int, P, C.POINTER(Value), SIZE, C.POINTER(Value))
        declare("fac_value_release", None, C.POINTER(Value))
        declare("fac_value_tensor", Value, P)
        declare("fac_value_int", Value, I64)
        declare("fac_value_float", Value, C.c_double)
        declare("fac_value_bool", Value, C.c_bool)
        declare("fac_value_complex", Value, C.c_double, C.c_double)
        declare("fac_value_string", Value, C.c_char_p)
        declare("fac_value_ints", Value, C.POINTER(I64), SIZE)
        declare("fac_value_floats", Value, C.POINTER(C.c_double), SIZE)
        declare("fac_value_bools", Value, C.POINTER(C.c_bool), SIZE)
        declare("fac_value_scalars", Value, C.POINTER(Scalar), SIZE)
        declare("fac_value_tensors", Value, C.POINTER(P), SIZE)
        declare("fac_value_dtype", Value, C.c_int)
        declare("fac_value_device", Value, Device)
        declare("fac_value_layout", Value, C.c_int)
        declare("fac_value_format", Value, C.c_int)
        declare("fac_value_as_tensors", Tensors, Value)
        if lib.fac_init():
            raise Error(self.message())
        self.schemas, self.names = {}, {}

    def message(self):
        text = self.lib.fac_error_message().decode(errors="replace")
        self.lib.fac_error_clear()
        return text

    def check(self, status):
        if not status:
            return
        message = self.message()
        if not self.on_cpu and ("it has no kernel there" in message or "no CUDA kernel" in message):
            raise NoKernel(message)
        raise Error(message)

    def schema(self, name):
        """The operator's record and its arguments as (type, name, default) triples; None if it is not there."""
        if name not in self.schemas:
            op = self.lib.fac_operator_lookup(name.encode())
            self.schemas[name] = op and (op, parse_arguments(self.lib.fac_operator_schema(op).decode()))
        return self.schemas[name] or None


    def overloads(self, base):
        """The names of all operators of a base name, such as "aten::add"."""
        if not self.names:
            for i in range(self.lib.fac_operator_count()):
                name = self.lib.fac_operator_name(self.lib.fac_operator_at(i)).decode()
                self.names.setdefault(name.partition(".")[0], []).append(name)
        return self.names.get(base, [])

    def is_random(self, name):
        op, arguments = self.schema(name)
        return any("Generator" in kind for kind, _, _ in arguments) or self.lib.fac_operator_has_tag(op, b"nondeterministic_seeded")


def parse_arguments(schema):
    """[(type, name, default)] of a schema's argument list, as text."""
    inside = schema[schema.index("(") + 1:]
    depth, end = 1, 0
    while depth:
        depth += {"(": 1, ")": -1}.get(inside[end], 0)
        end += 1
    out = []
    for part in re.split(r",(?![^\[(]*[\])])", inside[:end - 1]):
        part = part.strip()
        if not part or part == "*":
            continue
        left, _, default = part.partition("=")
        kind, _, name = left.strip().rpartition(" ")
        out.append((kind, name, default.strip() or None))
    return out


class Scope:
    """A Facula scope together with the torch tensors whose memory Facula looks at meanwhile."""

    def __init__(self, facula, forms=False):
        self.f, self.lib, self.alive, self.values = facula, facula.lib, [], []
        self.forms = forms  # whether each operator's other forms are called beside it

    def __enter__(self):
        self.mark = self.lib.fac_scope_begin()
        return self

    def __exit__(self, *_):
        for v in self.values:
            self.lib.fac_value_release(C.byref(v))
        self.lib.fac_scope_end(C.byref(self.mark))
        self.lib.fac_error_clear()

    def wrap(self, t):
        """A Facula tensor like a torch tensor: same sizes, strides and offset; on the CPU over its memory. One of compressed rows
        is made of its parts."""
        if t.layout == torch.sparse_csr and t.dtype in DTYPE_CODE:
            t = t.detach()
            parts = {"crow_indices": t.crow_indices(), "col_indices": t.col_indices(), "values": t.values()}
            return self.call("aten::sparse_csr_tensor.crow_col_value_size",
                             {**{name: self.wrap(part) for name, part in parts.items()}, "size": list(t.shape)})[0]
        if t.layout != torch.strided or t.dtype not in DTYPE_CODE:
            raise Unsupported(f"a {t.layout} tensor of {t.dtype}")
        t = t.detach().resolve_conj().resolve_neg()
        if not self.f.on_cpu:
            return self.wrap_on_device(t)
        return self.wrap_memory(t)

    def wrap_on_device(self, t):
        """The whole storage travels; then a view is taken of it."""
        flat = torch.empty(0, dtype=t.dtype).set_(t.storage())
        if flat.numel() == 0:
            flat = torch.zeros(t.storage_offset() + 1, dtype=t.dtype)
        there, = self.call("aten::_to_copy", {"self": self.wrap_memory(flat), "dtype": None, "layout": None, "device": "cpu"})
        return self.call("aten::as_strided", {"self": there, "size": list(t.shape), "stride": list(t.stride()),
                                              "storage_offset": t.storage_offset()})[0]

    def wrap_memory(self, t):
        self.alive.append(t)
        storage = t.storage()
        nbytes = storage.nbytes()
        n = t.dim()
        sizes, strides = (I64 * max(n, 1))(*t.shape), (I64 * max(n, 1))(*t.stride())
        h = self.lib.fac_tensor_wrap(storage.data_ptr(), nbytes, DTYPE_CODE[t.dtype], Ints(sizes, n), Ints(strides, n),
                                     t.storage_offset(), None, None)
        if not h:
            raise Error("wrap: " + self.f.message())
        return Tensor(self, h)

    def box(self, x, kind):
        """A boxed value for argument type `kind`; the scope owns it."""
        v = self._box(x, kind)
        self.values.append(v)
        if self.lib.fac_error():
            raise Error("boxing: " + self.f.message())
        return v

    def _box(self, x, kind):
        lib = self.lib
        if x is None:
            return Value(0, TAG_NONE)
        if kind.startswith("ScalarType"):
            code = DTYPE_CODE.get(SCALAR_TYPES[x] if isinstance(x, int) else x)
            if code is None:
                raise Unsupported(f"dtype {x}")
            return lib.fac_value_dtype(code)
        if kind.startswith("Layout"):
            if x not in (0, torch.strided):
                raise Unsupported(f"layout {x}")
            return lib.fac_value_layout(0)
        if kind.startswith("MemoryFormat"):
            return lib.fac_value_format(FORMATS[x])
        if kind.startswith("Device"):
            if torch.device(x).type != "cpu":
                raise Unsupported(f"device {x}")
            return lib.fac_value_device(self.f.device)  # what is made is made where the operands are
        if isinstance(x, Tensor):
            return lib.fac_value_tensor(x.h)
        if isinstance(x, bool):
            return lib.fac_value_bool(x)
        if isinstance(x, int):
            return lib.fac_value_int(x) if -2**63 <= x < 2**63 else lib.fac_value_float(float(x))
        if isinstance(x, float):
            return lib.fac_value_float(x)
        if isinstance(x, complex):
            return lib.fac_value_complex(x.real, x.imag)
        if isinstance(x, str):
            return lib.fac_value_string(x.encode())
        if isinstance(x, (list, tuple)):
            return self._box_list(list(x), kind)
        raise Unsupported(f"a {type(x).__name__} for {kind}")

    def _box_list(self, x, kind):
        lib, n = self.lib, len(x)
        if kind.startswith("Tensor") or any(isinstance(e, Tensor) for e in x):
            return lib.fac_value_tensors((P * max(n, 1))(*[e.h if e is not None else None for e in x]), n)
        if kind.startswith("Scalar["):
            return lib.fac_value_scalars((Scalar * max(n, 1))(*[self._scalar(e) for e in x]), n)
        if x and all(isinstance(e, bool) for e in x):
            return lib.fac_value_bools((C.c_bool * n)(*x), n)
        if kind.startswith("float") or any(isinstance(e, float) for e in x):
            return lib.fac_value_floats((C.c_double * max(n, 1))(*x), n)
        if not all(isinstance(e, int) for e in x):
            raise Unsupported(f"a list for {kind}")
        return lib.fac_value_ints((I64 * max(n, 1))(*x), n)

    def _scalar(self, x):
        if isinstance(x, complex):
            pair = (C.c_double * 2)(x.real, x.imag)
            self.alive.append(pair)
            return Scalar(C.addressof(pair), KIND_COMPLEX)
        if isinstance(x, float):
            return Scalar(I64.from_buffer(C.c_double(x)).value, KIND_FLOAT)
        return Scalar(int(x), KIND_BOOL if isinstance(x, bool) else KIND_INT)

    def call(self, name, arguments):
        """Calls an operator with {name: value}; a value may be left out. Returns a list of results."""
        found = self.f.schema(name)
        if not found:
            raise KeyError(name)
        op, wanted = found
        extra = {k: v for k, v in arguments.items() if k not in {w[1] for w in wanted}}
        if any(v is not None and v is not False for v in extra.values()):
            raise Unsupported(f"{name}: argument {', '.join(extra)}")
        args = []
        for kind, arg, default in wanted:
            if arg in arguments:
                args.append(self.box(arguments[arg], kind))
            elif default is None and "?" not in kind:
                raise Unsupported(f"{name}: nothing is given for {arg}")
            else:
                break
        given = [w[1] for w in wanted[len(args):] if w[1] in arguments]
        if given:
            raise Unsupported(f"{name}: {given} come after arguments that are left out")
        n = self.lib.fac_operator_return_count(op)
        out = (Value * max(n, 1))()
        self.f.check(self.lib.fac_call_op(op, (Value * max(len(args), 1))(*args), len(args), out))
        return [self.unbox(Value(out[i].payload, out[i].tag)) for i in range(n)]

    def unbox(self, v):
        self.values.append(v)
        if v.tag == TAG_NONE:
            return None
        if v.tag == TAG_TENSOR:
            return Tensor(self, v.payload)
        if v.tag == TAG_TENSORS:
            l = self.lib.fac_value_as_tensors(v)
            return [Tensor(self, l.v[i]) if l.v[i] else None for i in range(l.n)]
        if v.tag == TAG_INT:
            return v.payload
        if v.tag == TAG_BOOL:
            return bool(v.payload)
        if v.tag == TAG_FLOAT:
            return C.c_double.from_buffer(I64(v.payload)).value
        raise Unsupported(f"a result with tag {v.tag}")

    def grad(self, outputs, inputs, grad_outputs):
        """torch.autograd.grad(..., allow_unused=True) over Facula tensors."""
        def pack(ts):
            return Tensors((P * max(len(ts), 1))(*[t.h for t in ts]), len(ts))

        kw = GradKw()
        self.lib.fac_grad_kw_init(kw)
        assert kw.kw_size == C.sizeof(kw), "GradKw is not fac_grad_kw"
        kw.grad_outputs, kw.allow_unused = pack(grad_outputs), True
        out = (P * len(inputs))()
        self.f.check(self.lib.fac_grad(pack(outputs), pack(inputs), out, C.byref(kw)))
        return [Tensor(self, h) if h else None for h in out]


    def enter_level(self):
        return self.lib.fac_dual_level_enter()

    def exit_level(self, level):
        self.lib.fac_dual_level_exit(level)

    def dual(self, t, along):
        h = self.lib.fac_make_dual(t.h, along.h)
        if not h:
            raise Error("make_dual: " + self.f.message())
        return Tensor(self, h)

    def tangent(self, t):
        h = self.lib.fac_unpack_dual(t.h).tangent
        return Tensor(self, h) if h else None
    def vmap(self, fn, inputs, n_outputs):
        """fn of one sample's tensors, for all samples: each input has them in dimension 0, as have the outputs."""
        raised = []

        def call(_, given, out, n):
            try:
                made = fn([Tensor(self, given.v[i]) for i in range(given.n)])
                if len(made) != n:
                    raise Error(f"{len(made)} results for one sample, {n} expected")
                for i, t in enumerate(made):
                    out[i] = t.h
                return 0
            except Exception as e:  # it may not go through C
                raised.append(e)
                return 1

        out = (P * max(n_outputs, 1))()
        given = Tensors((P * max(len(inputs), 1))(*[t.h for t in inputs]), len(inputs))
        status = self.lib.fac_vmap(MAPPED(call), None, given, out, n_outputs, None)
        if raised:
            raise raised[0]
        self.f.check(status)
        return [Tensor(self, out[i]) for i in range(n_outputs)]


class Tensor:
    """A borrowed Facula tensor; lives as long as its scope."""

    def __init__(self, scope, h):
        self.scope, self.h = scope, h

    def require_grad(self):
        if not self.scope.lib.fac_set_requires_grad(self.h, True):
            raise Error("requires_grad: " + self.scope.f.message())

    def requires_grad(self):
        return self.scope.lib.fac_requires_grad(self.h)

    def dtype(self):
        return DTYPES[self.scope.lib.fac_tensor_dtype(self.h)]

    def is_sparse(self):
        return self.scope.lib.fac_tensor_layout(self.h) != 0

    def torch(self, with_strides=False):
        """A copy as a torch tensor, row-major or with the strides of the original; dense where the original is sparse."""
        lib = self.scope.lib
        if self.is_sparse():
            dense, = self.scope.call("aten::to_dense", {"self": self})
            return dense.torch()
        sizes, code = lib.fac_tensor_sizes(self.h), lib.fac_tensor_dtype(self.h)
        out = torch.empty([sizes.v[i] for i in range(sizes.n)], dtype=DTYPES[code])
        self.scope.f.check(lib.fac_tensor_read(self.h, code, out.data_ptr(), out.numel()))
        if not with_strides:
            return out
        strides = lib.fac_tensor_strides(self.h)
        strides = [strides.v[i] for i in range(strides.n)]
        like = torch.empty_strided(out.shape, strides, dtype=out.dtype)
        expanded = any(s == 0 and n > 1 for s, n in zip(strides, out.shape))
        return expand_like(out, like) if expanded else like.copy_(out)


def expand_like(values, like):
    """The values with the zero strides of `like`."""
    seen = values[tuple(slice(0, 1) if s == 0 and n > 1 else slice(None) for s, n in zip(like.stride(), like.shape))]
    narrow = torch.empty_strided(seen.shape, like.stride(), dtype=values.dtype).copy_(seen)
    return narrow.expand(values.shape)
