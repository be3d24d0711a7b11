"""Train the small networks of `lob-direction` on the fitting part of each book, three seeds of each.

    make backbones           # in .venv-torch; UCSEARCH_DATA names the data

Only samples before the first validation block are read. Weights are stored as float32 beside how they were made. A run
that was broken off goes on with the next network.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ucsearch.lab.learned.store import Evidence, versions_of, write_arrays
from ucsearch.lab.suites.kinds.direction.books import load_book
from ucsearch.lab.suites.kinds.direction.networks import ARCHITECTURES, FOLDER
from ucsearch.lab.suites.suite import load_suite
from ucsearch.records.files import whole_file

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "lob-networks"  # networks of a run that was broken off
EPOCHS, BATCH, RATE, DECAY, SEEDS = 6, 64, 1e-3, 1e-3, 3
WIDE, CHANNELS = 24, 12


class Cnn(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.c1 = nn.Conv1d(features, CHANNELS, 3, padding=1)
        self.c2 = nn.Conv1d(CHANNELS, CHANNELS, 1)
        self.c3 = nn.Conv1d(CHANNELS, CHANNELS, 3, padding=1)
        self.out = nn.Linear(4 * CHANNELS, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        leaky = nn.functional.leaky_relu
        first = leaky(self.c1(x.transpose(1, 2)))
        top = torch.cat([leaky(self.c2(first)), leaky(self.c3(first))], dim=1)
        return self.out(torch.cat([top.mean(dim=2), top[:, :, -1]], dim=1))

    def arrays(self) -> dict[str, Any]:
        found = {}
        for n, layer in (("1", self.c1), ("2", self.c2), ("3", self.c3)):
            found[f"k{n}"] = layer.weight.detach().permute(2, 1, 0).numpy()
            found[f"b{n}"] = layer.bias.detach().numpy()
        return found | {"w": self.out.weight.detach().T.numpy(), "b": self.out.bias.detach().numpy()}


class Mlp(nn.Module):
    def __init__(self, features: int, window: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(features * window, WIDE), nn.Linear(WIDE, WIDE), nn.Linear(WIDE, 3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(1)
        for layer in self.layers[:-1]:
            x = nn.functional.leaky_relu(layer(x))
        return self.layers[-1](x)

    def arrays(self) -> dict[str, Any]:
        found = {}
        for n, layer in enumerate(self.layers, start=1):
            found |= {f"w{n}": layer.weight.detach().T.numpy(), f"b{n}": layer.bias.detach().numpy()}
        return found


def trained(architecture: str, seed: int, x: torch.Tensor, y: torch.Tensor, probe: torch.Tensor) -> dict[str, Any]:
    """Weights of one network, its answers to the probe and its last training loss."""
    torch.manual_seed(seed)
    net = Mlp(x.shape[2], x.shape[1]) if architecture == "mlp" else Cnn(x.shape[2])
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    for _ in range(EPOCHS):
        order = torch.randperm(len(x))
        total = 0.0
        for part in order.split(BATCH):
            loss = nn.functional.cross_entropy(net(x[part]), y[part])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * len(part)
    weights = {f"weights/{k}": np.ascontiguousarray(v, np.float32) for k, v in net.arrays().items()}
    return weights | {"probe": net(probe).detach().numpy(), "loss": np.float64(total / len(x))}


def main() -> None:
    torch.set_num_threads(1)
    suite = load_suite("lob-direction")
    folder = ROOT / "src" / "ucsearch" / "lab" / "suites" / FOLDER
    folder.mkdir(exist_ok=True)
    WORK.mkdir(parents=True, exist_ok=True)
    used = []
    for name in suite.settings.books:
        book = load_book(name, suite.settings.cut, suite.seed, 0, None)
        at = book.fitting()
        x = torch.tensor(book.windows(at), dtype=torch.float32)
        y = torch.tensor(book.labels(at))
        digest = hashlib.sha256(np.ascontiguousarray(x.numpy()).tobytes()).hexdigest()
        settings = {"epochs": EPOCHS, "batch": BATCH, "rate": RATE, "decay": DECAY, "hidden": WIDE,
                    "channels": CHANNELS, "samples": len(x), "architectures": list(ARCHITECTURES)}  # fmt: skip
        versions = versions_of("torch")
        made_by = json.dumps([settings, digest, hashlib.sha256(y.numpy().tobytes()).hexdigest(), versions])
        mark = hashlib.sha256(made_by.encode()).hexdigest()[:10]  # another setting, version or value changes it
        probe = x[::997][:8]
        arrays: dict[str, Any] = {"probe/windows": probe.numpy()}
        losses = []
        for architecture in ARCHITECTURES:
            for seed in range(SEEDS):
                head = f"{architecture}-{seed}"
                path = WORK / f"{name}-{head}-{mark}.npz"
                before = path.exists()
                if not before:
                    with whole_file(path) as file:
                        np.savez(file, **trained(architecture, seed, x, y, probe))
                with np.load(path) as one:
                    found = {k: one[k] for k in one.files}
                losses.append(float(found["loss"]))
                arrays |= {f"{head}/{k.partition('/')[2]}": v for k, v in found.items() if k.startswith("weights/")}
                arrays[f"probe/{head}"] = found["probe"]
                used.append(path)
                print(
                    f"{name} {head}: {'trained before, ' if before else ''}training loss {losses[-1]:.4f}", flush=True
                )
        evidence = Evidence(
            method="cross-entropy, AdamW", settings=settings, seed=0, data=digest, steps=EPOCHS * (len(x) // BATCH + 1),
            loss=float(np.mean(losses)), notes=(f"seeds 0 to {SEEDS - 1} of each architecture, fitting part only",),
            versions=versions,
        )  # fmt: skip
        write_arrays(folder / f"{name}.npz", evidence, **arrays)
    for path in used:
        path.unlink()


if __name__ == "__main__":
    main()
