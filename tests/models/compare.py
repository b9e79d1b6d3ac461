#!/usr/bin/env python3
"""Loss curves of whole models against PyTorch's, from equal weights and equal data: compare.py PROGRAM [MODEL...].

PROGRAM is made of the C files of this folder, each of which builds and trains a model; here PyTorch builds and trains the same one, on
the same batches. Weights go over as safetensors. For each model:

- names, dtypes and shapes of its state dict are those of PyTorch's, in order;
- in float64 each loss of each step is PyTorch's within EXACT, and the state in the end within EXACT_STATE: model, losses, optimiser
  and schedule compute the same, and only rounding is left;
- in float32 each loss is PyTorch's within a multiple of what rounding does to PyTorch's own curve: how far that is from its curve
  in float64 until then. In models with kinks rounding makes curves part that were equal: where it moves a number to the other side
  of 0 the slope is another one, at once. PyTorch's curves part from each other as often and as far: by up to 1e-2, in a third of
  trainings on other data. So far may they be apart there, but for the first loss. The state in the end is not compared: Adam makes steps of
  gradients that are nothing but rounding;
- the loss falls;
- a training that is cut off in the middle and goes on from files, in new objects, has the same losses and the same state in the
  end, bit for bit.

Without PyTorch the exit status is 77.
"""
import argparse
import ctypes
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import warnings

try:
    import torch
except ImportError:
    print("no PyTorch to compare with")
    sys.exit(77)

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

CODES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}
EXACT, EXACT_STATE = 1e-10, 1e-7  # 1e-13 and 1e-10 were seen; a slip in a formula makes 1e-6 and more
# Of float32: how many times PyTorch's own rounding, and at least; beyond the most the test would say nothing. Then with kinks.
TIMES, LEAST, MOST, KINKS = 16, 2.0 ** -20, 1e-2, 3e-2
NAMES = {torch.float32: "float32", torch.float64: "float64", torch.int64: "int64"}


# ---- files ---------------------------------------------------------------------------------------------------------------------


def write_safetensors(path, tensors):
    header, parts, at = {}, [], 0
    for name, t in tensors.items():
        t = t.detach().contiguous()
        size = t.numel() * t.element_size()
        header[name] = {"dtype": CODES[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + size]}
        parts.append(ctypes.string_at(t.data_ptr(), size))
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def read_safetensors(path):
    data = bytearray(path.read_bytes())
    size, = struct.unpack_from("<Q", data)
    types, found = {code: dtype for dtype, code in CODES.items()}, {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        t = torch.frombuffer(data[8 + size + begin:8 + size + end], dtype=types[entry["dtype"]])
        found[name] = t.reshape(entry["shape"])
    return found


def write_idx(path, t):
    """Unsigned bytes as MNIST has them."""
    path.write_bytes(struct.pack(f">HBB{t.dim()}I", 0, 8, t.dim(), *t.shape) + bytes(t.flatten().tolist()))


def source(seed):
    return torch.Generator().manual_seed(seed)


# ---- the models ----------------------------------------------------------------------------------------------------------------


class Model:
    """A model with its data and its training: so many steps, cut off once after `cut`; the loss of number `falling` falls. One with
    kinks has units that are 0, or leak, on one side, before a batch normalisation of few values."""
    steps, cut, falling, kinks = 0, 0, 0, False

    def files(self, folder, data):
        """Files besides the batches."""

    def train(self, model, data):
        """Losses of each step: [steps][losses]."""
        curve = []
        self.begin(model)
        for k in range(self.steps):
            curve.append([x.item() for x in self.step(model, {name: t[k] for name, t in data.items()})])
        return curve

    def learn(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()


class LeNet(Model):
    steps, cut = 60, 31

    def build(self):
        return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(),
                             nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(),
                             nn.Linear(84, 10))

    def data(self):
        """Ten coarse patterns under noise, 632 of them: the last batch of an epoch is not full."""
        g = source(1)
        patterns = torch.randint(0, 160, (10, 1, 7, 7), generator=g, dtype=torch.float32)
        labels = torch.randint(0, 10, (632,), generator=g)
        images = F.interpolate(patterns, scale_factor=4)[labels, 0] + torch.randint(0, 96, (632, 28, 28), generator=g)
        return {"images": images.to(torch.uint8), "labels": labels.to(torch.uint8),
                "order": torch.stack([torch.randperm(632, generator=g) for _ in range(3)])}

    def files(self, folder, data):
        for name in "images", "labels":
            write_idx(folder / f"{name}.idx", data.pop(name))

    def train(self, model, data):
        self.optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 20, gamma=0.5)
        dtype = next(model.parameters()).dtype
        images, labels = data["images"].to(dtype).div(255).unsqueeze(1), data["labels"].to(torch.int64)
        curve = []
        for indices in (i for order in data["order"] for i in order.split(32)):
            loss = F.cross_entropy(model(images[indices]), labels[indices])
            curve.append([loss.item()])
            self.learn(loss)
        return curve[:self.steps]


class Adder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 12)
        self.lstm = nn.LSTM(12, 32, num_layers=2, batch_first=True)
        self.head = nn.Linear(32, 1)

    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0][:, -1]).squeeze(1)


class LSTM(Model):
    steps, cut = 60, 33
    build = Adder

    def data(self):
        """Twelve digits; two of them, to which 10 is added, are marked."""
        g = source(2)
        digits = torch.randint(0, 10, (self.steps, 32, 12), generator=g)
        marked = torch.rand(self.steps, 32, 12, generator=g).argsort(-1) < 2
        return {"tokens": digits + 10 * marked, "sums": (digits * marked).sum(-1).float() / 10}

    def begin(self, model):
        self.optimizer = torch.optim.RMSprop(model.parameters(), 3e-3, alpha=0.9, momentum=0.5, centered=True, eps=1e-3)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(self.optimizer, 20, T_mult=2, eta_min=1e-4)

    def step(self, model, now):
        loss = F.mse_loss(model(now["tokens"]), now["sums"])
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5, error_if_nonfinite=True)
        self.optimizer.step()
        self.schedule.step()
        return [loss]


class Block(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
        self.conv2, self.bn2 = nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)
        self.downsample = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b)) if stride != 1 else None

    def forward(self, x):
        h = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(h + (self.downsample(x) if self.downsample else x))


class ResNet(nn.Module):
    """As torchvision's resnet18."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        for i, (a, b) in enumerate(((64, 64), (64, 128), (128, 256), (256, 512)), 1):
            setattr(self, f"layer{i}", nn.Sequential(Block(a, b, 1 if i == 1 else 2), Block(b, b, 1)))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(512, 10)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        return self.fc(self.avgpool(self.layer4(self.layer3(self.layer2(self.layer1(x))))).flatten(1))


class ResNet18(Model):
    steps, cut, kinks = 6, 3, True
    build = ResNet

    def data(self):
        """One batch again and again, so that its loss falls in a few steps."""
        g = source(3)
        patterns, labels = torch.randn(10, 3, 8, 8, generator=g), torch.randint(0, 10, (16,), generator=g)
        images = F.interpolate(patterns, scale_factor=4)[labels] + 0.5 * torch.randn(16, 3, 32, 32, generator=g)
        return {"images": images.expand(self.steps, -1, -1, -1, -1), "labels": labels.expand(self.steps, -1)}

    def begin(self, model):
        self.optimizer = torch.optim.SGD(model.parameters(), 0.001, momentum=0.9, weight_decay=5e-4)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, 0.004, total_steps=self.steps + 1)

    def step(self, model, now):
        loss = F.cross_entropy(model(now["images"]), now["labels"], label_smoothing=0.1)
        self.learn(loss)
        return [loss]


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(16, 32, padding_idx=0), nn.Embedding(16, 32, padding_idx=0)
        self.places = nn.Embedding(12, 32)
        self.transformer = nn.Transformer(32, 4, 2, 2, 64, dropout=0, activation="gelu", batch_first=True)
        self.head = nn.Linear(32, 16)

    def embed(self, embedding, tokens):
        return embedding(tokens) * math.sqrt(32) + self.places(torch.arange(tokens.shape[1]))

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1]).to(self.head.weight.dtype)
        none = source == 0
        return self.head(self.transformer(self.embed(self.source, source), self.embed(self.target, target), tgt_mask=mask,
                                          src_key_padding_mask=none, tgt_key_padding_mask=target == 0, memory_key_padding_mask=none))


class Transformer(Model):
    steps, cut = 80, 39
    build = Translator

    def data(self):
        """Words of 4 to 9 of the letters 3 ... 15; a translation is the word backwards, each letter another one, between 1 and 2."""
        g = source(4)
        cipher = torch.randperm(13, generator=g) + 3
        words = torch.zeros(self.steps, 32, 9, dtype=torch.int64)
        translated = torch.zeros(self.steps, 32, 11, dtype=torch.int64)
        for word, other in zip(words.flatten(0, 1), translated.flatten(0, 1)):
            n = torch.randint(4, 10, (1,), generator=g).item()
            letters = torch.randint(3, 16, (n,), generator=g)
            word[:n] = letters
            other[0], other[1:n + 1], other[n + 1] = 1, cipher[letters.flip(0) - 3], 2
        return {"source": words, "target": translated}

    def begin(self, model):
        self.optimizer = torch.optim.AdamW(model.parameters(), 3e-3, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.01)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda k: min((k + 1) / 30, math.sqrt(30 / (k + 1))))

    def step(self, model, now):
        logits = model(now["source"], now["target"][:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), now["target"][:, 1:].flatten(), ignore_index=0, label_smoothing=0.05)
        self.learn(loss)
        return [loss]


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(144, 64), nn.Linear(64, 4), nn.Linear(64, 4)
        self.fc3, self.fc4 = nn.Linear(4, 64), nn.Linear(64, 144)

    def forward(self, x, noise):
        h = F.relu(self.fc1(x))
        mean, logvar = self.fc21(h), self.fc22(h)
        z = mean + noise * torch.exp(0.5 * logvar)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mean, logvar


class VAE(Model):
    steps, cut = 100, 9
    build = Autoencoder

    def data(self):
        """A spot at a random place of 12 x 12 pixels."""
        g = source(5)
        centre = 11 * torch.rand(self.steps, 64, 2, 1, generator=g)
        profile = torch.exp(-0.5 * (torch.arange(12) - centre) ** 2)
        pictures = profile[:, :, 0, :, None] * profile[:, :, 1, None, :]
        return {"pictures": pictures.flatten(2), "noise": torch.randn(self.steps, 64, 4, generator=g)}

    def begin(self, model):
        self.optimizer = torch.optim.Adam(model.parameters(), 3e-3, weight_decay=1e-5, amsgrad=True)
        rates = torch.optim.lr_scheduler
        self.schedule = rates.SequentialLR(self.optimizer, [rates.LinearLR(self.optimizer, 0.1, total_iters=10),
                                                            rates.ExponentialLR(self.optimizer, 0.97)], [10])

    def step(self, model, now):
        x = now["pictures"]
        restored, mean, logvar = model(x, now["noise"])
        entropy = F.binary_cross_entropy(restored, x, reduction="sum") / len(x)
        divergence = -0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp()) / len(x)
        loss = entropy + divergence
        self.learn(loss)
        return [loss, entropy, divergence]


class DCGAN(Model):
    steps, cut, falling, kinks = 24, 11, 2, True  # the generator's; the discriminator's rises with it

    def build(self):
        def up(a, b, stride, padding):
            return nn.ConvTranspose2d(a, b, 4, stride, padding, bias=False)

        def down(a, b):
            return nn.Conv2d(a, b, 4, 2, 1, bias=False)

        def leaky():
            return nn.LeakyReLU(0.2, inplace=True)

        model = nn.ModuleDict({
            "generator": nn.Sequential(up(16, 32, 1, 0), nn.BatchNorm2d(32), nn.ReLU(), up(32, 16, 2, 1), nn.BatchNorm2d(16), nn.ReLU(),
                                       up(16, 8, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), up(8, 3, 2, 1), nn.Tanh()),
            "discriminator": nn.Sequential(down(3, 8), leaky(), down(8, 16), nn.BatchNorm2d(16), leaky(), down(16, 32),
                                           nn.BatchNorm2d(32), leaky(), nn.Conv2d(32, 1, 4, bias=False), nn.Sigmoid())})
        for m in model.modules():
            if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
                nn.init.normal_(m.weight, 0, 0.05)
            elif isinstance(m, nn.BatchNorm2d):
                nn.init.normal_(m.weight, 1, 0.02)
        return model

    def data(self):
        """Blurred blocks of colour, and the generator's noise."""
        g = source(6)
        coarse = torch.randn(self.steps * 16, 3, 4, 4, generator=g)
        images = torch.tanh(F.interpolate(coarse, scale_factor=8, mode="bilinear", align_corners=False))
        return {"images": images.reshape(self.steps, 16, 3, 32, 32), "noise": torch.randn(self.steps, 16, 16, 1, 1, generator=g)}

    def begin(self, model):
        self.both = [torch.optim.Adam(model[name].parameters(), lr, betas=(0.5, 0.999))
                     for name, lr in (("generator", 1e-3), ("discriminator", 5e-4))]
        self.schedules = [torch.optim.lr_scheduler.MultiStepLR(o, [8, 16], gamma=0.5) for o in self.both]

    def step(self, model, now):
        def judged(x, answer):
            says = model["discriminator"](x).flatten()
            return F.binary_cross_entropy(says, torch.full_like(says, answer))

        self.both[1].zero_grad()
        real = judged(now["images"], 1)
        real.backward()
        made = model["generator"](now["noise"])
        false = judged(made.detach(), 0)
        false.backward()
        self.both[1].step()
        self.both[0].zero_grad()
        fooled = judged(made, 1)
        fooled.backward()
        self.both[0].step()
        for s in self.schedules:
            s.step()
        return [real, false, fooled]


MODELS = {"lenet": LeNet, "lstm": LSTM, "resnet18": ResNet18, "transformer": Transformer, "vae": VAE, "dcgan": DCGAN}


# ---- both sides ----------------------------------------------------------------------------------------------------------------


class Run:
    """One model's trainings on both sides."""

    def __init__(self, program, name):
        self.program, self.name, self.kind = program, name, MODELS[name]()
        torch.manual_seed(7)
        model = self.kind.build()
        self.start = {k: v.clone() for k, v in model.state_dict().items()}  # float32, which float64 holds as well

    def theirs(self, dtype):
        model = self.kind.build().to(dtype)
        model.load_state_dict(self.start)
        data = {k: v.to(dtype) if v.is_floating_point() else v for k, v in self.kind.data().items()}
        return torch.tensor(self.kind.train(model, data), dtype=torch.float64), model.state_dict()

    def ours(self, dtype, cut=None):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            data = self.kind.data()
            self.kind.files(folder, data)
            weights = {"model." + k: v.to(dtype) if v.is_floating_point() else v for k, v in self.start.items()}
            write_safetensors(folder / "given.safetensors", {**weights, **data})
            environment = {**os.environ, "FACULA_NUM_THREADS": "1"}
            command = [self.program, self.name, "f64" if dtype == torch.float64 else "f32", str(self.kind.steps), name]
            done = subprocess.run(command + ([str(cut)] if cut else []), stdout=subprocess.PIPE, text=True,
                                  env=environment)
            if done.returncode:
                raise RuntimeError(f"{self.program} ended with status {done.returncode}")
            got = read_safetensors(folder / "got.safetensors")
        return got.pop("losses"), {k[6:]: v for k, v in got.items()}, done.stdout.splitlines()


def listing(state):
    return [" ".join([name, NAMES[t.dtype], *map(str, t.shape)]) for name, t in state.items()]


def apart(a, b):
    """How far losses are apart at each step, in units of the largest loss until then: [steps]."""
    return (a - b).abs().max(1).values / b.abs().max(1).values.cummax(0).values


def states_apart(a, b):
    """The largest difference of two states, in units of the largest value of each tensor."""
    return max(((a[k].double() - t.double()).abs().max() / (t.double().abs().max() + 1e-3)).item() for k, t in b.items())


def results(run):
    """(what was checked, whether it holds, in numbers) of a model."""
    exact, exact_state = run.theirs(torch.float64)
    double, double_state, _ = run.ours(torch.float64)
    theirs, theirs_state = run.theirs(torch.float32)
    single, single_state, shown = run.ours(torch.float32)
    again, again_state, _ = run.ours(torch.float32, run.kind.cut)
    yield "has_the_state_dict_of_pytorchs", shown == listing(theirs_state), f"{len(shown)} entries"
    distance, of_state = apart(double, exact).max().item(), states_apart(double_state, exact_state)
    yield ("has_pytorchs_losses_in_float64", len(exact) == run.kind.steps and distance <= EXACT and of_state <= EXACT_STATE,
           f"{distance:.1e} apart, the state {of_state:.1e}")
    rounding, distance = apart(theirs, exact).cummax(0).values, apart(single, theirs)
    limit, most = TIMES * rounding + LEAST, KINKS if run.kind.kinks else MOST
    if run.kind.kinks:
        limit = torch.full_like(limit, KINKS)
        limit[0], distance[0] = LEAST, (single[0, 0] - theirs[0, 0]).abs() / theirs[0, 0]
    yield ("has_pytorchs_losses_in_float32", bool((distance <= limit).all()) and limit.max().item() <= most,
           f"{distance.max():.1e} apart, PyTorch's own rounding {rounding.max():.1e}, at most {(distance / limit).max():.2f} of what may be")
    curve = exact[:, run.kind.falling]
    first, last = curve[:3].mean().item(), curve[-3:].mean().item()
    yield "learns", last < 0.8 * first, f"the loss falls from {first:.4f} to {last:.4f} in {len(curve)} steps"
    same = torch.equal(single, again) and single_state.keys() == again_state.keys() and \
        all(torch.equal(t, again_state[k]) for k, t in single_state.items())
    yield "goes_on_from_files_as_if_it_had_not_been_cut_off", same, f"cut after {run.kind.cut} steps"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("models", nargs="*", default=list(MODELS), help=f"of {', '.join(MODELS)}")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    failed, number, begin = 0, 0, time.time()
    for name in options.models:
        for what, good, text in results(Run(options.program, name)):
            number, failed = number + 1, failed + (not good)
            print(f"{'ok' if good else 'not ok'} {number} - {name}_{what} # {text}", flush=True)
    print(f"# PyTorch {torch.__version__}; {time.time() - begin:.1f} s")
    return failed > 0 or number == 0


if __name__ == "__main__":
    sys.exit(main())
