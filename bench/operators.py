"""Rows of operators.txt, and the calls that they are in PyTorch (boxed.h says how a call is written)."""
import fnmatch
import pathlib
import re

TABLE = pathlib.Path(__file__).resolve().parent / "operators.txt"
DTYPES = {"bool": "bool", "u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16",
          "bf16": "bfloat16", "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128", "qi8": "qint8", "qu8": "quint8"}
TENSOR = re.compile(r"(bool|u8|i8|i16|i32|i64|f16|bf16|f32|f64|c64|c128|qi8|qu8)\[([\dKM,]*)\](?:\{([^}]*)\})?('[cts])?")
NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?([KM])?")


def lines_by_kind():
    """(kind, line) of the table's lines, a kind being the comment above them; what is indented belongs to the line before."""
    kind, text = "", re.sub(r"\n +", " ", TABLE.read_text(encoding="utf-8"))
    for line in text.splitlines():
        if line.startswith("# "):
            kind = line[2:]
        elif line:
            yield kind, line


def lines():
    return [line for _, line in lines_by_kind()]


def full(call):
    """The call with its namespace, which is aten where none is written."""
    return call if call.startswith("quantized::") else "aten::" + call


def rows_by_kind():
    """(kind, call), as "aten::abs(f32[1M])"."""
    for kind, line in lines_by_kind():
        if line.startswith("each "):
            arguments, names = line[5:].rsplit(": ", 1)
            yield from ((kind, full(f"{name}({arguments})")) for name in names.split())
        elif not line.startswith("none "):
            yield kind, full(line)


def rows():
    return [row for _, row in rows_by_kind()]


def reasons():
    """Patterns of names that need no row."""
    return [name for line in lines() if line.startswith("none ") for name in line[5:].split(": ", 1)[0].split()]


def operator(row):
    """Its name without the namespace and the overload."""
    return row[row.index("::") + 2:row.index("(")].partition(".")[0]


def without_row(names):
    """Those operators, by name without an overload, that have neither a row nor a reason."""
    measured, excused = {operator(row) for row in rows()}, reasons()
    return sorted(n for n in set(names) if n not in measured and not any(fnmatch.fnmatch(n, p) for p in excused))


# ---- PyTorch's side


def number(text):
    scale = {"K": 1 << 10, "M": 1 << 20}.get(text[-1], 1)
    text = text.rstrip("KM")
    return (int(text) if re.fullmatch(r"-?\d+", text) else float(text)) * scale


def make_sparse(torch, dtype, sizes, layout, share):
    t = (torch.randn(sizes) * (torch.rand(sizes) < share)).to(dtype)
    if layout in ("csr", "csc"):
        return t.to_sparse_csr() if layout == "csr" else t.to_sparse_csc()
    if layout == "bsr":
        return t.to_sparse_bsr((4, 4))
    t = t.to_sparse()
    if layout == "coo":
        return t
    return torch.sparse_coo_tensor(torch.cat([t.indices()] * 2, 1), torch.cat([t.values()] * 2), sizes, check_invariants=False)


def make_quantized(torch, dtype, sizes, fill):
    if fill == "channels":
        scales, zeros = torch.full(sizes[:1], 0.05, dtype=torch.float64), torch.zeros(sizes[:1], dtype=torch.int64)
        return torch.quantize_per_channel(torch.randn(sizes), scales, zeros, 0, dtype)
    return torch.quantize_per_tensor(torch.randn(sizes), 0.05, 3, dtype)


def laid_out(torch, t, mark):
    if mark == "'c":
        return t.contiguous(memory_format=torch.channels_last)
    if mark == "'s":
        return torch.stack((t, t), -1).select(-1, 0)
    return t.mT.contiguous().mT if mark else t


def make_tensor(torch, dtype, sizes, fill, mark):
    dtype, sizes = getattr(torch, DTYPES[dtype]), [number(n) for n in sizes.split(",") if n]
    if dtype in (torch.qint8, torch.quint8):
        return make_quantized(torch, dtype, sizes, fill)
    if fill and fill.partition(":")[0] in ("coo", "csr", "csc", "bsr", "loose"):
        return make_sparse(torch, dtype, sizes, fill.partition(":")[0], float(fill.partition(":")[2]))
    real = dtype.is_floating_point or dtype.is_complex
    if fill in ("spd", "eye"):
        x, one = torch.randn(sizes, dtype=dtype) / 8, torch.eye(sizes[-1], dtype=dtype)
        t = x @ x.mT + one if fill == "spd" else x + one
    elif fill == "perm":
        t = torch.randperm(sizes[0]).to(dtype)
    elif fill and ":" in fill:
        low, high = (number(n) for n in fill.split(":"))
        t = torch.rand(sizes) * (high - low) + low if dtype.is_floating_point else torch.randint(int(low), int(high), sizes)
        t = t.to(dtype)
    elif fill:
        some, numel = torch.tensor([number(n) for n in fill.split(",")]), 1
        for n in sizes:
            numel *= n
        t = some.repeat(numel // len(some) + 1)[:numel].reshape(sizes).to(dtype)
    else:
        t = torch.randn(sizes, dtype=dtype) if real else torch.randint(2 if dtype == torch.bool else 10, sizes).to(dtype)
    return laid_out(torch, t, mark)


def read_value(torch, text, at):
    """The value at `at`, and where it ends."""
    for word, value in (("None", None), ("True", True), ("False", False)):
        if text.startswith(word, at):
            return value, at + len(word)
    if text[at] == '"':
        end = text.index('"', at + 1)
        return text[at + 1:end], end + 1
    if text[at] == "[":
        return read_values(torch, text, at + 1, "]")
    if text.startswith("dtype(", at):
        end = text.index(")", at)
        return getattr(torch, DTYPES[text[at + 6:end]]), end + 1
    found = TENSOR.match(text, at)
    if found:
        return make_tensor(torch, *found.groups()), found.end()
    found = NUMBER.match(text, at)
    return number(found.group()), found.end()


def read_values(torch, text, at, closing):
    values = []
    while text[at] != closing:
        value, at = read_value(torch, text, at)
        values.append(value)
        at += len(re.match(r"[, ]*", text[at:]).group())
    return values, at + 1


def packed_call(torch, name, values):
    """A call of an operator whose weights PyTorch wants packed, which is done beforehand; None if it is not one."""
    q = torch.ops.quantized
    function = getattr(q, name)
    if name.startswith("linear"):
        weight = q.linear_prepack(values[1], values[2])
        return lambda: function(values[0], weight, *values[3:])
    if name.startswith("conv"):
        weight = getattr(q, name.removesuffix("_relu") + "_prepack")(*values[1:7])
        return lambda: function(values[0], weight, *values[7:])
    if name in ("embedding_byte", "embedding_4bit"):
        bag = getattr(q, name.replace("embedding", "embedding_bag") + "_rowwise_offsets")
        offsets = torch.arange(values[1].numel())
        return lambda: bag(values[0], values[1], offsets)
    return None


def tensors_in(torch, values):
    for v in values if isinstance(values, (list, tuple)) else [values]:
        if isinstance(v, torch.Tensor):
            yield v
        elif isinstance(v, (list, tuple)):
            yield from tensors_in(torch, v)


def backward_call(torch, call, values):
    """A function that makes the call and computes the gradients of all inputs that can have one, from ones for the first result."""
    leaves = [t.requires_grad_() for t in tensors_in(torch, values) if t.is_floating_point() or t.is_complex()]
    root = lambda: next(t for t in tensors_in(torch, call()) if t.requires_grad)
    ones = torch.ones_like(root())
    return lambda: torch.autograd.grad(root(), leaves, ones, allow_unused=True)


def torch_call(row):
    """A function that makes the call; an exception where this PyTorch has no such operator."""
    import torch

    backward, row = row.startswith("grad "), row.removeprefix("grad ")
    namespace, _, rest = row[:row.index("(")].partition("::")
    name, _, overload = rest.partition(".")
    values, _ = read_values(torch, row, row.index("(") + 1, ")")
    if backward and namespace == "quantized":
        raise ValueError("quantized operators have no gradients")
    packed = packed_call(torch, name, values) if namespace == "quantized" else None
    if packed:
        return packed
    function = getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    arguments = function._schema.arguments
    given = [v for v, a in zip(values, arguments) if not a.kwarg_only]
    named = {a.name: v for v, a in zip(values, arguments) if a.kwarg_only}
    call = lambda: function(*given, **named)
    return backward_call(torch, call, values) if backward else call
