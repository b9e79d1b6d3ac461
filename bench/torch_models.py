"""The rows of whole models in PyTorch: the networks of networks.c, tests/models/networks.c and apps/facula/gpt.c, and their rows.

Each row is PyTorch at its best: optimisers fused, or over whole lists where it has none fused; scaled_dot_product_attention;
inference under torch.inference_mode; bf16 by torch.autocast, as its users have it on CPUs; channels last where that is faster here.
"""
import torch
import torch.nn.functional as F
from torch import nn

# ---- networks


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
                         nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10))


class BasicBlock(nn.Module):
    def __init__(self, old, new, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(old, new, 3, stride, 1, bias=False), nn.BatchNorm2d(new)
        self.conv2, self.bn2 = nn.Conv2d(new, new, 3, 1, 1, bias=False), nn.BatchNorm2d(new)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = nn.Sequential(nn.Conv2d(old, new, 1, stride, bias=False), nn.BatchNorm2d(new)) if stride != 1 else None

    def forward(self, x):
        h = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        h += self.downsample(x) if self.downsample else x
        return self.relu(h)


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    for i in range(4):
        new = 64 << i
        layers += [BasicBlock(new // 2 if i else new, new, 2 if i else 1), BasicBlock(new, new, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class ConvNeXtBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(channels, channels, 7, padding=3, groups=channels), nn.LayerNorm(channels, eps=1e-6)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x):
        h = self.depthwise(x).permute(0, 2, 3, 1)
        return x + self.down(F.gelu(self.up(self.norm(h)))).permute(0, 3, 1, 2)


class LSTMClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(128, 256, 2, batch_first=True), nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def attention(self, x):
        n, length, dim = x.shape
        q, k, v = (t.view(n, length, self.heads, dim // self.heads).transpose(1, 2) for t in self.qkv(x).split(dim, 2))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, length, dim))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, vocab, context, dim, heads, layers):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, dim), nn.Embedding(context, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def twice_convolved(old, new):
    parts = [nn.Conv2d(old, new, 3, padding=1, bias=False), nn.BatchNorm2d(new), nn.ReLU(inplace=True)]
    return nn.Sequential(*parts, nn.Conv2d(new, new, 3, padding=1, bias=False), nn.BatchNorm2d(new), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, wide=32, levels=3):
        super().__init__()
        sizes = [wide << i for i in range(levels)]
        self.down = nn.ModuleList([twice_convolved(sizes[i - 1] if i else 1, new) for i, new in enumerate(sizes)])
        self.grow = nn.ModuleList([nn.ConvTranspose2d(2 * new, new, 2, 2) for new in sizes[:-1]])
        self.up = nn.ModuleList([twice_convolved(2 * new, new) for new in sizes[:-1]])
        self.pool, self.head = nn.MaxPool2d(2), nn.Conv2d(wide, 1, 1)

    def forward(self, x):
        kept = []
        for down in self.down:
            kept.append(down(self.pool(kept[-1]) if kept else x))
        x = kept.pop()
        for grow, up in zip(reversed(self.grow), reversed(self.up)):
            x = up(torch.cat((kept.pop(), grow(x)), 1))
        return self.head(x)


def generator(noise=100, wide=64, doublings=4):
    layers = []
    for i in reversed(range(doublings)):
        first, new = i == doublings - 1, wide << i
        layers += [nn.ConvTranspose2d(noise if first else 2 * new, new, 4, 1 if first else 2, 0 if first else 1, bias=False),
                   nn.BatchNorm2d(new), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(wide, 3, 4, 2, 1, bias=False), nn.Tanh())


def discriminator(wide=64, doublings=4):
    layers = []
    for i in range(doublings):
        layers.append(nn.Conv2d(wide << (i - 1) if i else 3, wide << i, 4, 2, 1, bias=False))
        layers += ([nn.BatchNorm2d(wide << i)] if i else []) + [nn.LeakyReLU(0.2, inplace=True)]
    return nn.Sequential(*layers, nn.Conv2d(wide << (doublings - 1), 1, 4, bias=False))


class GCN(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.first, self.second = nn.Linear(features, hidden), nn.Linear(hidden, classes)

    @staticmethod
    def propagate(h, start, end, weights):
        return torch.zeros(h.shape).index_add(0, end, h.index_select(0, start) * weights)

    def forward(self, x, *edges):
        return self.propagate(self.second(F.relu(self.propagate(self.first(x), *edges))), *edges)


# ---- runs


def best(kind, model, *arguments, **settings):
    """The optimiser fused, where this PyTorch has it on CPUs, or else over lists."""
    try:
        return kind(model.parameters(), *arguments, fused=True, **settings)
    except (RuntimeError, TypeError):
        return kind(model.parameters(), *arguments, foreach=True, **settings)


def autocast(bf16):
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16)


def prepared(model, bf16, channels_last, *inputs):
    """The model and its images in the memory format of the row: channels_last says for (f32, bf16) whether it is that."""
    if not channels_last[bf16]:
        return model, inputs
    as_last = lambda x: x.to(memory_format=torch.channels_last) if x.ndim == 4 else x
    return model.to(memory_format=torch.channels_last), [as_last(x) for x in inputs]


def training(model, loss_of, optimizer, bf16, *inputs):
    """A function that makes a step: inputs are those of the model, and the targets last."""
    *x, y = inputs

    def run():
        with autocast(bf16):
            out = model(*x)
            loss = loss_of(out.view(-1, out.shape[-1]), y.view(-1)) if out.ndim == 3 else loss_of(out, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return run


def inference(model, bf16, *x):
    model.eval()

    def run():
        with torch.inference_mode(), autocast(bf16):
            return model(*x)
    return run


# Where channels last is faster in PyTorch 2.15 on an EPYC of AVX-512 with one thread, for (f32, bf16).
NEVER, IN_BF16, ALWAYS = (False, False), (False, True), (True, True)


def rows_of(name, draw, loss_of, optimizer, channels_last=NEVER, kinds=("train", "infer")):
    """Rows by name. draw gives the model, its inputs and the targets last; optimizer is made of the model."""
    def make(train, bf16):
        model, *inputs = draw()
        model, inputs = prepared(model, bf16, channels_last, *inputs)
        run = training(model, loss_of, optimizer(model), bf16, *inputs) if train else inference(model, bf16, *inputs[:-1])
        run.model = model
        return run
    return {f"{name} {kind} {'bf16' if bf16 else 'f32'}": lambda kind=kind, bf16=bf16: make(kind == "train", bf16)
            for kind in kinds for bf16 in (False, True)}


def adversaries(train, bf16, channels_last=IN_BF16):
    images, noise = torch.randn(16, 3, 64, 64), torch.randn(16, 100, 1, 1)
    both = nn.ModuleList([generator(), discriminator()])
    both, (images, noise) = prepared(both, bf16, channels_last, images, noise)
    making, judging = both
    loss_of = F.binary_cross_entropy_with_logits
    optimizers = [best(torch.optim.Adam, part, 2e-4, betas=(0.5, 0.999)) for part in both]

    def judged(x, answer):
        says = judging(x).flatten()
        return loss_of(says, torch.full_like(says, answer))

    def run():
        with autocast(bf16):
            real = judged(images, 1)
        real.backward()
        with autocast(bf16):
            made = making(noise)
            false = judged(made.detach(), 0)
        false.backward()
        optimizers[1].step()
        optimizers[1].zero_grad(set_to_none=True)
        with autocast(bf16):
            fooled = judged(made, 1)
        fooled.backward()
        optimizers[0].step()
        optimizers[0].zero_grad(set_to_none=True)
        optimizers[1].zero_grad(set_to_none=True)

    run = run if train else inference(making, bf16, noise)
    run.model = both
    return run


def graph(nodes=10000, edges=100000):
    start, end = torch.randint(nodes, (edges,)), torch.randint(nodes, (edges,))
    return GCN(128, 128, 16), torch.randn(nodes, 128), start, end, torch.rand(edges, 1), torch.randint(16, (nodes,))


def texts(batch, vocab, context, *sizes):
    return GPT(vocab, context, *sizes), torch.randint(vocab, (batch, context)), torch.randint(vocab, (batch, context))


def classified(network, *sizes):
    return lambda: (network(), torch.randn(*sizes), torch.randint(10, sizes[:1]))


def convnext():
    return nn.Sequential(*[ConvNeXtBlock(96) for _ in range(3)]), torch.randn(8, 96, 56, 56), torch.randn(8, 96, 56, 56)


def segmented():
    return UNet(), torch.randn(2, 1, 128, 128), (torch.randn(2, 1, 128, 128) > 0).float()


SGD = lambda model: best(torch.optim.SGD, model, 0.01)
MOMENTUM = lambda model: best(torch.optim.SGD, model, 0.01, momentum=0.9)
ADAM = lambda model: best(torch.optim.Adam, model, 1e-3)
ADAMW = lambda model: best(torch.optim.AdamW, model, 1e-3)

ROWS = {
    **rows_of("MLP 784-512-256-10 b64", classified(mlp, 64, 784), F.cross_entropy, SGD),
    **rows_of("LeNet b64 1x28x28", classified(lenet, 64, 1, 28, 28), F.cross_entropy, MOMENTUM, ALWAYS),
    **rows_of("ResNet-18 b16 3x32x32", classified(resnet18, 16, 3, 32, 32), F.cross_entropy, MOMENTUM, IN_BF16),
    **rows_of("ResNet-18 b4 3x224x224", classified(resnet18, 4, 3, 224, 224), F.cross_entropy, MOMENTUM, ALWAYS, kinds=("infer",)),
    **rows_of("ConvNeXt 3 blocks b8 96x56x56", convnext, F.mse_loss, ADAMW, ALWAYS),
    **rows_of("LSTM 2x256 T64 b32", classified(LSTMClassifier, 32, 64, 128), F.cross_entropy, ADAM),
    **rows_of("GPT d128 h4 T64 b16 L4", lambda: texts(16, 96, 64, 128, 4, 4), F.cross_entropy, ADAMW),
    **rows_of("GPT d512 h8 T256 b4 L6", lambda: texts(4, 4096, 256, 512, 8, 6), F.cross_entropy, ADAMW),
    **rows_of("U-Net 3 levels b2 1x128x128", segmented, F.binary_cross_entropy_with_logits, ADAM, ALWAYS),
    **{f"DCGAN b16 3x64x64 {kind} {'bf16' if bf16 else 'f32'}": lambda kind=kind, bf16=bf16: adversaries(kind == "train", bf16)
       for kind in ("train", "infer") for bf16 in (False, True)},
    **rows_of("GCN 10k nodes 100k edges", graph, F.cross_entropy, lambda model: best(torch.optim.Adam, model, 1e-2)),
}
