"""The rows of the sweep: calls of every operator in many sizes, dtypes and layouts, made from those of operators.txt.

A call of the table is rewritten: its sizes grow or shrink together, its float32 becomes another dtype, its tensors another layout, and it
is asked for gradients too. Nothing here knows what an operator demands: what neither side takes is found out by calling, and the
next rewriting takes its place.
"""
import hashlib
import itertools
import math
import random
import re

import operators

SIZES = {"1Ki": 1 << 10, "64Ki": 1 << 16, "4Mi": 1 << 22}
DTYPES = ("f32", "f64", "bf16", "i64", "bool")
LAYOUTS = ("contiguous", "transposed", "strided", "broadcast", "short rows", "long rows")
DIRECTIONS = ("forward", "backward")
FACTORS = (tuple(SIZES), DTYPES, LAYOUTS, DIRECTIONS)
SHORT, FEW = 8, 4  # elements of a short row; long rows
CUBIC = "products and other linear algebra"  # whose work grows faster than its elements: matrices of 4 Mi take minutes
CUBIC_MOST = 1 << 18
SMALLEST = 12  # sizes below it are no extents that grow: kernels, channels of an image, coordinates
PRODUCT = re.compile(r"::(addbmm|addmm|addmv|addr|baddbmm|bmm|mm|mv|dot|vdot|inner|outer|ger|matmul|linear|norm|trace|renorm|cov|"
                     r"linalg_(matmul|vector_norm|norm|cross|vecdot|vander)|cross|vander|cosine_similarity|pairwise_distance)$")
TOKEN = re.compile(operators.TENSOR.pattern + r"|(?<![\w.])(\d+[KM]?)(?![\w.])")


class Call:
    """A row of operators.txt, taken apart."""

    def __init__(self, row, kind):
        self.row, self.kind, self.operator = row, kind, row[:row.index("(")].partition(".")[0]
        self.tensors = [(m[1], [operators.number(n) for n in m[2].split(",") if n], m[3]) for m in operators.TENSOR.finditer(row)]
        self.flat = bool(self.tensors) and all(len(sizes) == 1 and not fill for _, sizes, fill in self.tensors) and len(
            {sizes[0] for _, sizes, _ in self.tensors}) == 1 and self.tensors[0][1][0] >= 1 << 12
        self.plain = not any(fill and fill.partition(":")[0] in ("coo", "csr", "csc", "bsr", "loose", "channels") for _, _, fill in self.tensors)

    def is_base(self):
        """Whether it is of float32, if of any real or complex numbers."""
        return not any(dtype in ("f16", "bf16", "f64", "c64", "c128") for dtype, _, _ in self.tensors) or self.kind.startswith("Fourier")

    def target(self, size):
        return min(SIZES[size], CUBIC_MOST) if self.kind == CUBIC and not PRODUCT.search(self.operator) else SIZES[size]

    def extents(self):
        """The sizes that grow: those of tensors, or where there are none, large numbers."""
        found = {n for _, sizes, _ in self.tensors for n in sizes if n >= SMALLEST}
        return found or {operators.number(n) for n in re.findall(r"(?<![\w.])\d{3,}(?![\w.])", self.row)}


def numel(sizes):
    return math.prod(sizes)


def rounded(n, like):
    """n as a size of the same sort: a power of two, a multiple of eight, or any."""
    if like & (like - 1) == 0:
        return max(1, 2 ** round(math.log2(n)))
    return max(8, 8 * round(n / 8)) if like % 8 == 0 else max(1, round(n))


def growth(call, target):
    """Old size -> new size, such that the largest tensor has about `target` elements; products of sizes follow them."""
    extents = call.extents()
    largest = max((sizes for _, sizes, _ in call.tensors if set(sizes) & extents), key=numel, default=sorted(extents)[-1:])
    growing = sum(n in extents for n in largest)
    if not growing:
        return None
    factor = (target / numel(largest)) ** (1 / growing)
    new = {n: rounded(n * factor, n) for n in extents}
    for _, sizes, _ in call.tensors:
        for length in (2, 3):
            for part in itertools.combinations(sizes, length):
                if set(part) & extents:
                    new.setdefault(numel(part), numel(new.get(n, n) for n in part))
    return new


def replaced(row, tensor, whole):
    """The row with tensor(dtype, sizes, fill, mark) for each tensor and whole(number) for each other whole number."""
    def one(match):
        if match[5] is not None:
            return str(whole(operators.number(match[5])))
        return tensor(match[1], [operators.number(n) for n in match[2].split(",") if n], match[3], match[4] or "")
    head, _, rest = row.partition("(")
    return head + "(" + TOKEN.sub(one, rest)


def written(dtype, sizes, fill, mark):
    return f"{dtype}[{','.join(map(str, sizes))}]" + ("{" + fill + "}" if fill else "") + mark


def grown(call, target):
    new = growth(call, target)
    if new is None:
        return None
    bound = lambda fill: ":".join(str(new.get(int(n), n)) if n.isdigit() else n for n in fill.split(":")) if fill and ":" in fill else fill
    return replaced(call.row, lambda d, sizes, fill, mark: written(d, [new.get(n, n) for n in sizes], bound(fill), mark),
                    lambda n: new.get(n, n))


def matrix(target, layout):
    """Rows and columns."""
    columns = {"short rows": SHORT, "long rows": target // FEW}.get(layout, 1 << round(math.log2(target) / 2))
    return target // columns, columns


def flat_in(call, target, layout, pick):
    """A call whose tensors are all of one size, as matrices of a layout."""
    if layout == "contiguous":
        return replaced(call.row, lambda d, sizes, fill, mark: written(d, [target], fill, mark), lambda n: n)
    rows, columns = matrix(target, layout)
    count = itertools.count()

    def tensor(dtype, _, fill, mark):
        i = next(count)
        sizes, mark = [rows, columns], mark
        if layout == "broadcast" and i > 0:
            sizes = pick.choice(([rows, 1], [columns], [1, columns]))
        if layout == "strided" or (layout == "transposed" and (i == 0 or pick.random() < 0.3)):
            mark = "'t" if layout == "transposed" else "'s"
        return written(dtype, sizes, fill, mark)

    text = replaced(call.row, tensor, lambda n: n)
    return None if layout == "broadcast" and next(count) < 2 else text


def shaped(call, target, layout):
    """Matrices whose rows become short or long: last sizes are the columns."""
    sizes = next((s for _, s, _ in call.tensors if len(s) == 2 and min(s) >= SMALLEST), None)
    if not sizes or any(len(s) > 2 for _, s, _ in call.tensors):
        return None
    rows, columns = matrix(target, layout)
    least = min(rows, columns)
    bound = lambda fill: f"0:{least}" if fill and re.fullmatch(r"0:\d+", fill) and operators.number(fill[2:]) in sizes else fill

    def tensor(dtype, old, fill, mark):
        new = [rows if i + 1 < len(old) else columns for i in range(len(old))]
        return written(dtype, [n if o >= SMALLEST else o for n, o in zip(new, old)], bound(fill), mark)

    return replaced(call.row, tensor, lambda n: columns if n == sizes[1] else rows if n == sizes[0] else n)


def marked(row, mark):
    """The first tensor of two or more sizes transposed, or all tensors strided."""
    count = itertools.count()

    def tensor(dtype, sizes, fill, old):
        fits = len(sizes) >= (2 if mark == "'t" else 1) and (mark == "'s" or next(count) == 0)
        return written(dtype, sizes, fill, mark if fits else old)

    text = replaced(row, tensor, lambda n: n)
    return text if text != replaced(row, written, lambda n: n) else None


def variant(call, size, dtype, layout, direction, pick):
    """The call so, or None where it cannot be written."""
    if not call.plain and (layout != "contiguous" or dtype != "f32"):
        return None
    if call.flat:
        text = flat_in(call, call.target(size), layout, pick)
    elif layout in ("short rows", "long rows"):
        text = shaped(call, call.target(size), layout)
    else:
        text = grown(call, call.target(size))
        if layout == "broadcast":
            return None
        if text and layout != "contiguous":
            text = marked(text, "'t" if layout == "transposed" else "'s")
    if not text or (dtype != "f32" and "f32[" not in text) or (direction == "backward" and dtype in ("i64", "bool")):
        return None
    return ("grad " if direction == "backward" else "") + text.replace("f32[", dtype + "[")


def main_dtype(call):
    """Of a call without float32."""
    return call.tensors[0][0] if call.tensors else "f32"


def calls():
    """Operator -> its calls."""
    found = {}
    for kind, row in operators.rows_by_kind():
        call = Call(row, kind)
        found.setdefault(call.operator, []).append(call)
    return {name: [c for c in bases if c.is_base()] or bases for name, bases in found.items()}


def candidates(operator, bases, seed):
    """(combination, text) in an order that depends on the operator and the seed alone."""
    pick = random.Random(hashlib.sha256(f"{seed} {operator}".encode()).digest())
    combinations = list(itertools.product(*FACTORS))
    pick.shuffle(combinations)
    seen = set()
    for combination in combinations:
        call = pick.choice(bases)
        text = variant(call, *combination, pick)
        if text and text not in seen:
            seen.add(text)
            size, dtype, layout, direction = combination
            yield (size, dtype if f"{dtype}[" in text else main_dtype(call), layout, direction), call.kind, text


class Choice:
    """Chooses among an operator's candidates those that show most pairs of factors not seen yet."""

    def __init__(self, operator, bases, seed):
        self.left = list(candidates(operator, bases, seed))
        self.pairs, self.refused = set(), {}

    def worth(self, combination):
        values = list(enumerate(combination))
        fresh = sum(pair not in self.pairs for pair in itertools.combinations(values, 2))
        return fresh - 3 * sum(self.refused.get(v, 0) for v in values)

    def next(self):
        """(combination, kind, text), or None at the end."""
        if not self.left:
            return None
        best = max(self.left, key=lambda c: self.worth(c[0]))
        self.left.remove(best)
        return best

    def took(self, combination):
        self.pairs.update(itertools.combinations(enumerate(combination), 2))
        for v in enumerate(combination):
            self.refused[v] = min(self.refused.get(v, 0), 0)

    def refuse(self, combination):
        for v in enumerate(combination):
            self.refused[v] = self.refused.get(v, 0) + 1
