"""What a module is given: values for its constructor's arguments, by their names, and inputs. A new module or argument needs a line here
only where its name says too little."""

import random

import torch

OLD = int(torch.__version__.split(".")[0]) < 2

# ---- values of arguments ---------------------------------------------------------------------------------------------------------

# Those that must be given. A list: the module is made with each.
REQUIRED = {
    "in_features": 4, "out_features": 3, "in1_features": 3, "in2_features": 4, "in_channels": 4, "out_channels": 6,
    "kernel_size": 3, "output_size": 3, "padding": 1, "value": 1.5, "norm_type": [2.0, 1.0, 3.0], "num_features": 4, "num_groups": 2,
    "num_channels": 4, "normalized_shape": [[4], [3, 4], (3, 4)], "size": 3, "num_embeddings": 7, "embedding_dim": 3, "dim": 1,
    "input_size": 3, "hidden_size": 5, "embed_dim": 4, "num_heads": 2, "d_model": 4, "nhead": 2, "n_classes": 7, "num_classes": 4,
    "cutoffs": [[2, 4]], "unflattened_size": [(2, 3), (3, -1)], "upscale_factor": 2, "downscale_factor": 2, "groups": 2, "threshold": 0.1, "lambd": 0.5,
}
OF_MODULE = {
    ("Fold", "output_size"): (4, 5), ("Fold", "kernel_size"): 2, ("Unfold", "kernel_size"): (2, 3),
    ("LPPool3d", "kernel_size"): 2, ("MaxUnpool3d", "kernel_size"): 2, ("AvgPool3d", "kernel_size"): 2,
}

# Those that may be left out: what else they may be than their default. Flags are flipped and words chosen without a line.
OPTIONS = {
    "stride": [2], "padding": [1], "dilation": [2], "output_padding": [1], "groups": [2], "kernel_size": [2], "output_size": [1, 4],
    "divisor_override": [3, -2], "eps": [1e-3, 0.0], "momentum": [0.3, 1.0, 0.0], "num_parameters": [4], "init": [0.1, -0.5, 0],
    "negative_slope": [0.2, -0.1, 0], "lower": [0.1], "upper": [0.4], "alpha": [0.7, -0.3, 2], "beta": [2.0, 0.5, 3],
    "threshold": [0.5, 1], "lambd": [0.25, 0.0, 1], "min_val": [-0.5, -2], "max_val": [0.5, 2], "dim": [0, 1, -2], "start_dim": [0, -2],
    "end_dim": [1, -2], "p": [0.3, 0.0, 1.0], "padding_idx": [2, -1, 0], "max_norm": [1.0, 0.5], "norm_type": [1.0, 3.0], "k": [2.0],
    "keepdim": [], "size": [], "scale_factor": [], "margin": [0.5, 1.0, 2], "ignore_index": [1, -1], "label_smoothing": [0.1, 1.0],
    "blank": [2], "delta": [0.3], "value": [-2], "dtype": [torch.float64], "device": ["cpu"],
    "num_layers": [2], "dropout": [0.0, 1.0], "proj_size": [2], "kdim": [3], "vdim": [5], "dim_feedforward": [6], "layer_norm_eps": [1e-3],
    "num_encoder_layers": [1], "num_decoder_layers": [1], "d_model": [6], "nhead": [1], "div_value": [2.0], "out_features": [], "output_ratio": [],
}
OPTIONS_OF_MODULE = {
    ("BatchNorm1d", "momentum"): [0.3, None], ("BatchNorm2d", "momentum"): [0.3, None], ("BatchNorm3d", "momentum"): [0.3, None],
    ("CosineSimilarity", "dim"): [0, -1], ("CosineSimilarity", "eps"): [1e-3, 10.0], ("PairwiseDistance", "p"): [1.0, 3.0, float("inf"), 0.0],
    ("MultiMarginLoss", "p"): [2], ("TripletMarginLoss", "p"): [1.0, 3.0], ("ELU", "alpha"): [0.7, 2], ("CELU", "alpha"): [0.7, 2, -1.0],
    ("LocalResponseNorm", "alpha"): [0.5], ("LocalResponseNorm", "beta"): [0.5], ("SmoothL1Loss", "beta"): [0.3, 0.0, 2],
    ("CTCLoss", "blank"): [2], ("GLU", "dim"): [0, 1], ("Flatten", "start_dim"): [0, 2, -2], ("AdaptiveAvgPool1d", "output_size"): [1, 5],
    ("GroupNorm", "eps"): [1e-3], ("LayerNorm", "eps"): [1e-3], ("BatchNorm1d", "eps"): [1e-3], ("InstanceNorm1d", "momentum"): [0.3, 0.0],
    ("PoissonNLLLoss", "eps"): [1e-3], ("RMSNorm", "eps"): [1e-3, 0.0], ("GaussianNLLLoss", "eps"): [0.1],
    ("LinearCrossEntropyLoss", "ignore_index"): [1],
    ("TripletMarginLoss", "eps"): [1e-3], ("PairwiseDistance", "eps"): [1e-3, 0.0], ("Bilinear", "dtype"): [torch.float64],
}
# Values of which each is refused, or at least what is then computed.
WRONG = {
    "stride": [0, -1], "padding": [-1, 5], "dilation": [0], "output_padding": [2, -1], "groups": [3, 0, -1], "kernel_size": [0, -1, 12],
    "output_size": [-1, 0], "num_groups": [3, 0, -1], "p": [-0.1, 1.5], "padding_mode": ["wrong"], "mode": ["wrong"],
    "approximate": ["wrong"], "reduction": ["wrong"], "norm_type": [0.0], "num_features": [3, 0, -1], "num_channels": [3], "normalized_shape": [[], [5], -1],
    "padding_idx": [7, -8], "dim": [9, -9], "num_embeddings": [-1, 0], "embedding_dim": [-1], "in_features": [5, 0, -1],
    "out_features": [-1, 0], "in_channels": [3, 0, -1], "out_channels": [0, -1], "upscale_factor": [3, 0, -1], "in1_features": [0, -1, 5],
    "in2_features": [-1, 5, 0], "downscale_factor": [3, 0, -1], "lower": [0.9], "upper": [0.01], "min_val": [2.0, 1.0], "max_val": [-3.0, -1.0],
    "unflattened_size": [(2, 2), (-1, -1)], "divisor_override": [0], "num_parameters": [3, 0, -1], "start_dim": [7], "end_dim": [7, 0],
    "label_smoothing": [1.5, -0.1], "size": [0, -1], "alpha": [0.0], "eps": [-1.0], "momentum": [1.5], "beta": [-1.0, 0.0], "delta": [0.0, -1.0],
    "lambd": [-0.5], "max_norm": [0.0],
}
WRONG_OF_MODULE = {**{f"ConvTranspose{d}d": {"kernel_size": [0, -1]} for d in (1, 2, 3)},  # rounding says more than the size does
                   "LinearCrossEntropyLoss": {"out_features": []}}



def as_tuples(kind, name, value, type_):
    """A number for each direction, where they may differ."""
    size = int(type_[type_.index("[") + 1:-1] or 0)
    if size < 2:
        return [(value,)] if size == 1 and name not in ("padding",) else []
    least = 0 if "padding" in name else 1
    return [tuple(max(value - i % 2, least) for i in range(size))]


def option_values(kind, argument):
    """What an argument may be beside its default."""
    name, type_ = argument["name"], argument["type"]
    key = (kind["module"], name)
    if name.endswith("_name"):
        return [(name[:-5], word) for word in argument["choices"]]
    if "choices" in argument:
        return [(name, word) for word in argument["choices"] if repr(word) != argument["default"].replace('"', "'")]
    if type_ == "bool":
        return [(name, argument["default"] != "True")]
    if type_ == "bool?":
        return [(name, True), (name, False)]
    if type_.startswith("Tensor"):
        return [(name, "tensor")]  # of sizes that follow from the input
    if type_.startswith("Device"):
        return [(name, "cpu")]
    values = OPTIONS_OF_MODULE.get(key, OPTIONS.get(name))
    if values is None:
        raise KeyError(f"rules.py says nothing of {key}")
    tuples = [t for v in values[:1] for t in as_tuples(kind, name, v, type_)] if type_.startswith("int[") else []
    return [(name, v) for v in [*values, *tuples]]


def required(kind):
    """Dictionaries of what must be given, each of which is tried with all else left out; the first is that of other sets."""
    names = [a for a in kind["arguments"] if "default" not in a]
    first, more = {}, []
    for a in names:
        name = a["name"]
        value = OF_MODULE.get((kind["module"], name), REQUIRED.get(name))
        if value is None:
            raise KeyError(f"rules.py says nothing of {kind['module']}: {name}")
        values = value if isinstance(value, list) else [value]
        first[name] = values[0]
        more += [(name, v) for v in values[1:]]
        if a["type"].startswith("int[") and isinstance(values[0], int) and (kind["module"], name) not in OF_MODULE:
            more += [(name, v) for v in as_tuples(kind, name, values[0], a["type"])]
        if not more or more[-1][0] != name:
            more += [(name, v) for v in OPTIONS.get(name, [])[:2] if name in ("value", "threshold", "lambd")]
    return [first, *({**first, name: v} for name, v in more)]


# Without dropout in training, since what it draws is Facula's own, and small.
ALWAYS = {"TransformerEncoderLayer": {"dropout": 0.0, "dim_feedforward": 6}, "TransformerDecoderLayer": {"dropout": 0.0, "dim_feedforward": 6},
          "Transformer": {"d_model": 4, "nhead": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "dim_feedforward": 6, "dropout": 0.0}}
EXTRA = {  # what single options do not reach
    **{f"Conv{d}d": [{"padding": p, "padding_mode": m, "kernel_size": k} for p in (1, "same", "valid")
                     for m in ("reflect", "replicate", "circular") for k in (3, 2)]
       + [{"padding": "same", "dilation": 2}, {"padding": "same", "stride": 2}, {"padding": "valid", "stride": 2}] for d in (1, 2, 3)},
    **{f"ConvTranspose{d}d": [{"stride": 2, "output_padding": 1}, {"stride": 3, "output_padding": 1, "padding": 1},
                              {"dilation": 2, "output_padding": 1}] for d in (1, 2, 3)},
    **{f"{kind}Pool{d}d": [{"kernel_size": 3, "stride": 2, "ceil_mode": True, "padding": 1},
                           {"kernel_size": 2, "stride": 3, "ceil_mode": True}] for kind in ("Max", "Avg") for d in (1, 2, 3)},
    **{f"LPPool{d}d": [{"kernel_size": 2, "stride": 2, "ceil_mode": True}] for d in (1, 2, 3)},
    **{f"AvgPool{d}d": [{"padding": 1, "count_include_pad": False, "ceil_mode": True}, {"padding": 1, "count_include_pad": False}]
       for d in (1, 2, 3)},
    "AvgPool2d": [{"padding": 1, "count_include_pad": False, "ceil_mode": True}, {"padding": 1, "divisor_override": 3}],
    **{f"{kind}Pad{d}d": [{"padding": tuple(range(1, 2 * d + 1))}, {"padding": (-1, 2) + (0,) * (2 * d - 2)}]
       for kind in ("Zero", "Constant", "Replication") for d in (1, 2, 3)},
    **{f"{kind}Pad{d}d": [{"padding": (2, 1) + (1, 2) * (d - 1)}, {"padding": 9}, {"padding": (0, -1) * d}]
       for kind in ("Reflection", "Circular") for d in (1, 2, 3)},
    **{f"InstanceNorm{d}d": [{"affine": True, "track_running_stats": True}, {"affine": True, "bias": False},
                             {"track_running_stats": True, "momentum": 0.3}, {"affine": True, "dtype": torch.float64}] for d in (1, 2, 3)},
    **{f"BatchNorm{d}d": [{"affine": False, "track_running_stats": False}, {"momentum": None, "affine": False},
                          {"momentum": None, "track_running_stats": False}] for d in (1, 2, 3)},
    "Upsample": [{"size": s, "mode": m} for s, m in ((5, "nearest"), ((5, 6), "nearest"), ((5, 3), "bilinear"), (6, "linear"),
                                                     ((5, 3), "bicubic"), ((5, 6, 4), "trilinear"), (4, "nearest-exact"))]
    + [{"scale_factor": s, "mode": m} for s, m in ((2.0, "nearest"), ((2.0, 1.5), "nearest"), (1.7, "bilinear"), (0.6, "bicubic"),
                                                   (2.0, "linear"), (1.5, "trilinear"), (2.0, "nearest-exact"), (2, "nearest"))]
    + [{"scale_factor": 1.7, "mode": m, "align_corners": a, "recompute_scale_factor": r}
       for m in ("bilinear", "bicubic") for a in (True, False) for r in (None, True, False)]
    + [{"size": 5, "mode": m, "align_corners": True} for m in ("linear", "bilinear", "bicubic", "trilinear", "nearest")]
    + [{}, {"size": 5, "scale_factor": 2.0}, {"size": (3, 4, 5, 6)}, {"size": 5, "recompute_scale_factor": True},
       {"scale_factor": (1.5, 2.0), "mode": "bilinear", "recompute_scale_factor": True}],
    "UpsamplingNearest2d": [{"size": 5}, {"size": (5, 3)}, {"scale_factor": 2.0}, {"scale_factor": (1.5, 2.0)}, {}],
    "UpsamplingBilinear2d": [{"size": 5}, {"size": (5, 3)}, {"scale_factor": 2.0}, {"scale_factor": (1.5, 2.0)}, {}],
    "EmbeddingBag": [{"mode": m, **more} for m in ("sum", "mean", "max")
                     for more in ({"padding_idx": 2}, {"include_last_offset": True}, {"scale_grad_by_freq": True}, {"max_norm": 0.5})],
    "RReLU": [{"lower": 0.2, "upper": 0.2}, {"lower": -0.5, "upper": 0.5}],
    "Unflatten": [{"dim": -1, "unflattened_size": (3, -1)}, {"dim": 0, "unflattened_size": (2,)}],
    "Hardtanh": [{"min_val": -0.3, "max_val": 0.2, "inplace": True}, {"min_val": 0, "max_val": 1}],
    "PReLU": [{"num_parameters": 4, "init": 0.1, "dtype": torch.float64}],
    "Fold": [{"padding": 1, "stride": 2}, {"output_size": 4}, {"kernel_size": (2, 3), "dilation": (2, 1)}],
    "GroupNorm": [{"num_groups": 1}, {"num_groups": 4}, {"num_groups": 1, "num_channels": 4, "affine": False}],
    "LayerNorm": [{"elementwise_affine": False, "bias": False}],
    **{name: [{"reduction": r, "weight": "tensor"} for r in ("none", "sum")]
       for name in ("CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss")},
    "PoissonNLLLoss": [{"log_input": False, "full": True}, {"full": True, "reduction": "sum"}],
    "GaussianNLLLoss": [{"full": True, "reduction": "none"}],
    "KLDivLoss": [{"log_target": True, "reduction": "sum"}, {"reduction": "batchmean"}, {"reduction": "batchmean", "log_target": True}],
    "CTCLoss": [{"zero_infinity": True, "reduction": "none"}],
    "TripletMarginLoss": [{"swap": True, "p": 1.0}],
    **{f"FractionalMaxPool{d}d": [{"kernel_size": 2, "output_size": 3, "_random_samples": "tensor"},
                                  {"kernel_size": 2, "output_ratio": 0.6, "_random_samples": "tensor"}, {"kernel_size": 2},
                                  {"kernel_size": 2, "output_size": 3, "output_ratio": 0.5}] for d in (2, 3)},
    **{name: [{"num_layers": 2, "bidirectional": True, "batch_first": True}, {"bidirectional": True, "bias": False}]
       for name in ("RNN", "LSTM", "GRU")},
}
ALONE = {"FractionalMaxPool2d", "FractionalMaxPool3d", "Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d"}  # none of their options makes sense by itself


def argument_sets(kind, n_random):
    """[(values, whether they are meant to be wrong)]: defaults, each option at each other value, combinations drawn at random."""
    base, *others = ({**ALWAYS.get(kind["module"], {}), **values} for values in required(kind))
    single = [option for a in kind["arguments"] if "default" in a for option in option_values(kind, a)]
    sets = [(base, False), *((values, False) for values in others)] if kind["module"] not in ALONE else []
    if kind["module"] not in ALONE:
        sets += [({**base, name: value}, False) for name, value in single]
    sets += [({**base, **more}, False) for more in EXTRA.get(kind["module"], [])]
    if kind["module"] not in ALONE:
        names = {a["name"] for a in kind["arguments"]}
        sets += [({**base, name: v}, True) for name in sorted(names) 
                 for v in WRONG_OF_MODULE.get(kind["module"], {}).get(name, WRONG.get(name, []))]
        drawn = random.Random(kind["module"])  # a seed that does not change
        by_name = {}
        for name, value in single:
            by_name.setdefault(name, []).append(value)
        for _ in range(n_random if len(by_name) > 2 else 0):
            chosen = drawn.sample(sorted(by_name), drawn.randint(2, min(4, len(by_name))))
            more = {name: drawn.choice(by_name[name]) for name in chosen}
            sets.append(({**drawn.choice([base, *others]), **more}, False))
    return list(unique(sets))


def unique(sets):
    seen = set()
    for values, wrong in sets:
        key = repr(sorted(values.items()))
        if key not in seen:
            seen.add(key)
            yield values, wrong


# ---- inputs ----------------------------------------------------------------------------------------------------------------------

PLANES = (7, 6, 5)  # odd and even sizes


class Source:
    """Tensors of numbers that a seed gives."""

    def __init__(self, seed, dtype):
        self.g, self.dtype = torch.Generator().manual_seed(seed), dtype

    def normal(self, *sizes):
        return torch.randn(*sizes, generator=self.g, dtype=torch.float64).to(self.dtype)

    def uniform(self, *sizes, low=0.05, high=0.95):
        return (torch.rand(*sizes, generator=self.g, dtype=torch.float64) * (high - low) + low).to(self.dtype)

    def classes(self, n, *sizes):
        return torch.randint(0, n, sizes, generator=self.g)

    def signs(self, *sizes):
        return (torch.randint(0, 2, sizes, generator=self.g) * 2 - 1).to(self.dtype)


def dims_of(name):
    return int(name[-2]) if name[-1] == "d" and name[-2].isdigit() else 0


def by_planes(channels, extra=0):
    def make(s, v, d):
        planes = tuple(n + extra for n in PLANES[:d])
        return [(s.normal(2, channels(v), *planes),), (s.normal(channels(v), *planes),)]
    return make


def any_shape(s, v, d):
    return [(s.normal(3, 4),), (s.normal(2, 4, 3, 5),), (s.normal(6),)]


def unpool_inputs(s, v, d):
    planes = tuple(2 * n for n in (3, 4, 3)[:d])
    pool = getattr(torch.nn.functional, f"max_pool{d}d")
    made = []
    for x in (s.normal(2, 3, *planes), s.normal(3, *planes)):
        try:
            made.append(pool(x, v["kernel_size"], v.get("stride"), v.get("padding", 0), return_indices=True))
        except RuntimeError:  # not with these
            made.append(pool(x, 2, return_indices=True))
    return made


def columns(s, v, d):
    return [(s.normal(*shape),) for shape in ((2, 3, 5, 6), (3, 5, 6))]


def folded(s, v, d):
    two = {k: (x, x) if isinstance(x, int) else tuple(x) for k, x in v.items()}
    windows = 1
    for i in range(2):
        span = two.get("dilation", (1, 1))[i] * (two["kernel_size"][i] - 1) + 1
        step = two.get("stride", (1, 1))[i]
        if step < 1:
            return [(s.normal(2, 12, 12),)]
        windows *= max((two["output_size"][i] + 2 * two.get("padding", (0, 0))[i] - span) // step + 1, 0)
    size = two["kernel_size"][0] * two["kernel_size"][1]
    return [(s.normal(2, 3 * abs(size), windows),), (s.normal(3 * abs(size), windows),)]


def batch_norm(s, v, d):
    c, planes = v["num_features"], (4, 3, 2)[:d]
    c = c if c > 0 else 4
    return [(s.normal(3, 4, *planes),), *([(s.normal(5, 4),)] if d == 1 else []), (s.normal(4, *planes),)]


def instance_norm(s, v, d):
    return [(s.normal(2, 4, *PLANES[:d]),), (s.normal(4, *PLANES[:d]),)]


def layer_norm(s, v, d):
    shape = v["normalized_shape"]
    shape = (4,) if isinstance(shape, int) or len(shape) != 2 else (3, 4)
    return [(s.normal(2, *shape),), (s.normal(*shape),), (s.normal(2, 3, *shape),)]


def indices(s, v, d):
    n = max(v["num_embeddings"], 1)
    return [(s.classes(n, 2, 3),), (s.classes(n, 4).int(),), (s.classes(n),), (torch.tensor([2, 2, 1, 0, 2]) % n,)]


def bags(s, v, d):
    n = max(v["num_embeddings"], 1)
    offsets = [0, 2, 2, 5] + ([7] if v.get("include_last_offset") else [])
    made = [(s.classes(n, 2, 3), None, None), (s.classes(n, 7), torch.tensor(offsets), None),
            (torch.tensor([2, 2, 1, 0, 2, 3, 2]) % n, torch.tensor(offsets), None)]
    if v.get("mode") == "sum":
        made += [(s.classes(n, 2, 3), None, s.normal(2, 3)), (s.classes(n, 7), torch.tensor(offsets), s.normal(7))]
    else:
        made += [(s.classes(n, 2, 3), None, s.normal(2, 3))]
    if OLD and v.get("include_last_offset"):  # it writes where it should not for bags of equal size
        made = [m for m in made if m[1] is not None]
    return made


def upsampled(s, v, d):
    size = v.get("size", v.get("scale_factor"))
    dims = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}.get(v.get("mode"))
    dims = [dims] if dims else [len(size)] if isinstance(size, tuple) else [1, 2, 3]
    return [(s.normal(2, 3, *(4, 5, 3)[:n]),) for n in dims if n < 4] or [(s.normal(2, 3, 4),)]


def pairs(s, v, d):
    return [(s.normal(3, 4), s.normal(3, 4)), (s.normal(2, 3, 4), s.normal(2, 3, 4)), (s.normal(3, 4), s.normal(1, 4))]


def triplets(s, v, d):
    return [tuple(s.normal(3, 4) for _ in range(3)), tuple(s.normal(4) for _ in range(3)), tuple(s.normal(2, 3, 4) for _ in range(3))]


def probabilities(s, v, d):
    return [(s.uniform(3, 4), s.uniform(3, 4)), (s.uniform(4), s.uniform(4)), (s.uniform(2, 3, 4), s.uniform(2, 3, 4))]


def logits(s, v, d):
    return [(s.normal(3, 4), s.uniform(3, 4)), (s.normal(4), s.uniform(4)), (s.normal(2, 3, 4), s.uniform(2, 3, 4))]


def classes_of(log):
    def make(s, v, d):
        shapes = [(5, 4), (2, 4, 3), (2, 4, 3, 2), (4,)]
        made = []
        for shape in shapes:
            x = s.normal(*shape)
            rest = shape[:1] + shape[2:] if len(shape) > 1 else ()
            made.append((x.log_softmax(1 if len(shape) > 1 else 0) if log else x, s.classes(4, *rest)))
        if not log:
            made += [(s.normal(5, 4), s.uniform(5, 4)), (s.normal(2, 4, 3), s.uniform(2, 4, 3))]
        return made
    return make


def ctc(s, v, d):
    x = s.normal(8, 3, 5).log_softmax(-1)
    blank = v.get("blank", 0)
    words = torch.tensor([i for i in range(5) if i != blank])
    targets = words[s.classes(4, 3, 3)]
    lengths, short = torch.tensor([8, 7, 6]), torch.tensor([3, 2, 1])
    flat = torch.cat([targets[i, :n] for i, n in enumerate(short.tolist())])
    return [(x, targets, lengths, short), (x, flat, lengths, short), (x[:, 0].detach(), targets[0], lengths[:1][0], short[:1][0]),
            (x, targets, torch.tensor([8, 2, 6]), torch.tensor([3, 3, 1]))]


def counts(s, v, d):
    x = s.normal(3, 4) if v.get("log_input", True) else s.uniform(3, 4, low=0.5, high=3)
    return [(x, s.uniform(3, 4, low=0, high=5).round()), (x[0], s.uniform(4, low=0, high=5).round())]


def gaussian(s, v, d):
    return [(s.normal(3, 4), s.normal(3, 4), s.uniform(3, 4)), (s.normal(3, 4), s.normal(3, 4), s.uniform(3, 1)),
            (s.normal(3, 4), s.normal(3, 4), s.uniform(3)), (s.normal(3, 4), s.normal(3, 4), s.uniform(3, 4) * 1e-8)]


def divergence(s, v, d):
    target = s.uniform(3, 4).softmax(-1)
    return [(s.normal(3, 4).log_softmax(-1), target.log() if v.get("log_target") else target)]


def ranking(s, v, d):
    return [(s.normal(5), s.normal(5), s.signs(5)), (s.normal(3, 4), s.normal(3, 4), s.signs(3, 4))]


def hinge(s, v, d):
    return [(s.normal(3, 4), s.signs(3, 4)), (s.normal(6), s.signs(6))]


def multilabel(s, v, d):
    return [(s.normal(2, 4), torch.tensor([[1, 3, -1, 0], [2, -1, 0, 0]])), (s.normal(4), torch.tensor([3, 0, -1, 1]))]


def multilabel_soft(s, v, d):
    return [(s.normal(3, 4), s.classes(2, 3, 4).to(s.dtype)), (s.normal(4), s.classes(2, 4).to(s.dtype))]


def cosine_loss(s, v, d):
    return [(s.normal(5, 4), s.normal(5, 4), s.signs(5)), (s.normal(4), s.normal(4), s.signs())]


def multi_margin(s, v, d):
    return [(s.normal(5, 4), s.classes(4, 5)), (s.normal(4), s.classes(4))]


def sequences(states):
    """[T, N, input_size] with states or not, and a sample alone."""
    def make(s, v, d):
        layers = v.get("num_layers", 1) * (2 if v.get("bidirectional") else 1)
        sizes = [v.get("proj_size") or 5, 5][:states]
        batch = (2, 4) if v.get("batch_first") else (4, 2)
        none = (None,) * states
        return [(s.normal(*batch, 3), *none), (s.normal(*batch, 3), *(s.normal(layers, 2, n) for n in sizes)),
                (s.normal(4, 3), *none), (s.normal(4, 3), *(s.normal(layers, n) for n in sizes))]
    return make


def cells(states):
    return lambda s, v, d: [(s.normal(2, 3), *(None,) * states), (s.normal(2, 3), *(s.normal(2, 5) for _ in range(states))),
                            (s.normal(3), *(s.normal(5) for _ in range(states)))]


def attended(s, v, d):
    q, k, w = 4, v.get("kdim") or 4, v.get("vdim") or 4
    size = (lambda t, n: (2, t, n)) if v.get("batch_first") else (lambda t, n: (t, 2, n))
    mask = torch.tensor([[True, False, False, False, False], [False, False, True, False, False]])
    return [(s.normal(*size(3, q)), s.normal(*size(5, k)), s.normal(*size(5, w)), None, None),
            (s.normal(*size(3, q)), s.normal(*size(5, k)), s.normal(*size(5, w)), mask, None),
            (s.normal(*size(3, q)), s.normal(*size(5, k)), s.normal(*size(5, w)), None, s.normal(3, 5)),
            (s.normal(3, q), s.normal(5, k), s.normal(5, w), None, None)]


def transformed(n):
    return lambda s, v, d: [tuple(s.normal(3 + i, 2, 4) for i in range(n)) if not v.get("batch_first") else
                            tuple(s.normal(2, 3 + i, 4) for i in range(n)), tuple(s.normal(3 + i, 4) for i in range(n))]


def adaptive(s, v, d):
    return [(s.normal(6, 4), torch.tensor([0, 6, 3, 1, 5, 2])), (s.normal(4), torch.tensor(3))]


def linear_classes(s, v, d):
    return [(s.normal(5, 4), s.classes(4, 5)), (s.normal(4), s.classes(4))]


def shapes(*sizes):
    return lambda s, v, d: [(s.normal(*size),) for size in sizes]


def fixed(n):
    return lambda v: n


def positive(name):
    return lambda v: v[name] if v[name] > 0 else 4


INPUTS = {
    "Linear": shapes((5, 4), (4,), (2, 3, 4)), "Flatten": shapes((2, 3, 4, 5), (2, 3, 4)), "Unflatten": shapes((2, 6), (2, 6, 6)),
    "Bilinear": lambda s, v, d: [(s.normal(5, 3), s.normal(5, 4)), (s.normal(3), s.normal(4)), (s.normal(2, 5, 3), s.normal(2, 5, 4))],
    "Conv#d": by_planes(fixed(4), 1), "ConvTranspose#d": by_planes(fixed(4), -2), "Unfold": columns, "Fold": folded,
    "MaxPool#d": by_planes(fixed(3)), "AvgPool#d": by_planes(fixed(3)), "LPPool#d": by_planes(fixed(3)),
    "AdaptiveAvgPool#d": by_planes(fixed(3)), "AdaptiveMaxPool#d": by_planes(fixed(3)), "MaxUnpool#d": unpool_inputs,
    "ZeroPad#d": by_planes(fixed(3)), "ConstantPad#d": by_planes(fixed(3)), "ReflectionPad#d": by_planes(fixed(3)),
    "ReplicationPad#d": by_planes(fixed(3)), "CircularPad#d": by_planes(fixed(3)), "Softmax2d": by_planes(fixed(3)),
    "PReLU": shapes((3, 4), (2, 4, 3), (4,), (2, 4, 3, 2)), "GLU": shapes((4, 6), (2, 4, 6)), "BatchNorm#d": batch_norm,
    "InstanceNorm#d": instance_norm, "GroupNorm": shapes((3, 4), (2, 4, 5), (2, 4, 3, 3)), "LayerNorm": layer_norm, "RMSNorm": layer_norm,
    "LocalResponseNorm": shapes((2, 6, 5), (2, 6, 4, 3), (2, 6, 3, 2, 2)), "Dropout#d": by_planes(fixed(4)),
    "FeatureAlphaDropout": shapes((3, 4, 5), (3, 4, 5, 2)), "Embedding": indices, "EmbeddingBag": bags, "CosineSimilarity": pairs,
    "PairwiseDistance": pairs, "Upsample": upsampled, "UpsamplingNearest2d": shapes((2, 3, 4, 5)),
    "UpsamplingBilinear2d": shapes((2, 3, 4, 5)), "PixelShuffle": shapes((2, 8, 3, 4), (8, 3, 4), (2, 1, 4, 3, 2)),
    "PixelUnshuffle": shapes((2, 3, 4, 6), (3, 4, 6)), "ChannelShuffle": shapes((2, 6, 3, 4), (2, 6, 3)),
    "L1Loss": pairs, "MSELoss": pairs, "CrossEntropyLoss": classes_of(False), "NLLLoss": classes_of(True), "CTCLoss": ctc,
    "PoissonNLLLoss": counts, "GaussianNLLLoss": gaussian, "KLDivLoss": divergence, "BCELoss": probabilities, "BCEWithLogitsLoss": logits,
    "MarginRankingLoss": ranking, "HingeEmbeddingLoss": hinge, "MultiLabelMarginLoss": multilabel, "HuberLoss": pairs,
    "SmoothL1Loss": pairs, "SoftMarginLoss": hinge, "MultiLabelSoftMarginLoss": multilabel_soft, "CosineEmbeddingLoss": cosine_loss,
    "RNN": sequences(1), "GRU": sequences(1), "LSTM": sequences(2), "RNNCell": cells(1), "GRUCell": cells(1), "LSTMCell": cells(2),
    "MultiheadAttention": attended, "TransformerEncoderLayer": transformed(1), "TransformerDecoderLayer": transformed(2),
    "Transformer": transformed(2), "AdaptiveLogSoftmaxWithLoss": adaptive, "LinearCrossEntropyLoss": linear_classes,
    "TripletMarginWithDistanceLoss": triplets, "FractionalMaxPool#d": by_planes(fixed(3), 1), "NLLLoss2d": classes_of(True),
    "MultiMarginLoss": multi_margin, "TripletMarginLoss": triplets,
}


def inputs_of(kind, values, seed, dtype):
    """Tuples of tensors, each of which is an input of the module; of those that it should take, and of some that it may not."""
    name, d = kind["module"], dims_of(kind["module"])
    make = INPUTS.get(name, INPUTS.get(f"{name[:-2]}#d" if d else name, any_shape))
    if name == "Softmax2d":
        d = 2
    return make(Source(seed, dtype), values, d)


def odd_inputs(good):
    """Inputs of other numbers of dimensions, channels and samples, and of integers, made of a good one: accepted or not as PyTorch does."""
    x, *rest = good
    made = [x.unsqueeze(0).unsqueeze(0), x.unsqueeze(0).unsqueeze(0).unsqueeze(0)]
    if x.dim():
        made += [x[0], x[:0]]
    if x.dim() > 1:
        made += [x[0][0], x[:, :1], x[:, :0], x[:1], x[..., :0]]
    if x.is_floating_point():
        made += [(x * 3).long(), x.transpose(0, -1) if x.dim() else x]
    return [(m, *rest) for m in made]


WEIGHT_SIZES = {"BCELoss": (4,), "BCEWithLogitsLoss": (4,), "MultiLabelSoftMarginLoss": (4,)}


def with_tensors(kind, values, seed, dtype):
    """The values with tensors in the place of the word that stands for them."""
    s, d = Source(seed + 1, dtype), dims_of(kind["module"])
    if kind["module"].startswith("Fractional"):
        return {name: s.uniform(2, 3, d) if name == "_random_samples" else v for name, v in values.items()}
    return {name: s.uniform(*WEIGHT_SIZES.get(kind["module"], (4,)), low=0.2, high=2) if isinstance(v, str) and v == "tensor" else v
            for name, v in values.items()}
