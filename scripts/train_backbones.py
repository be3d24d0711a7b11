"""Train six forecasting networks briefly and keep their walk-forward forecasts for the suites `trained-backbones*`.

    make backbones                                   # its own environment; UCSEARCH_DATA names the data
    python scripts/train_backbones.py SUITE [MODEL ...]
    python scripts/train_backbones.py SUITE --series series.csv          # unique_id, ds, y: what forecasts are made of
    python scripts/train_backbones.py SUITE --coverage                   # how honest the stored forecasts are
    python scripts/train_backbones.py SUITE --from chronos.csv Chronos   # forecasts made elsewhere, of any model

Each network is fitted once, on what comes before the first validation window of the suite's series, and then forecasts
every decision of validation and test from the values before it, without being fitted again. What is kept are quantiles,
float32, in the suite's own unit, beside a file that says how they were made, with their hash.

A network that was trained is kept in build/backbones until all that were asked for are: a run that was killed goes on
with the next one. Other data, settings or versions are other files. What the suites read changes once, at the end.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ucsearch.lab.suites.kinds.series import SALT, Pool, choose, load_family
from ucsearch.lab.suites.kinds.walkforward.stored import FOLDER, LEVELS, read_traces
from ucsearch.lab.suites.suite import load_suite
from ucsearch.records.files import whole_file

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "backbones"
MODELS = ("DLinear", "PatchTST", "iTransformer", "TimesNet", "TFT", "DeepAR")
STEPS = {"DLinear": 300, "PatchTST": 150, "iTransformer": 200, "TimesNet": 60, "TFT": 60, "DeepAR": 100}
INPUT = 48
HORIZON = 4
SEED = 1


def pool_of(settings: Any, inner: str) -> tuple[Pool, list[Any]]:
    """The suite's series, cut as the suite cuts them."""
    s = settings.splits
    pool = Pool({}, {"validation": s.validation, "test": s.test}, s.decisions, HORIZON, s.fit, s.scaling, s.latest)
    family = load_family(inner, None)
    pool.families[inner] = choose(family.series, s.skip + s.per_family, pool.least, "evaluation", SALT)[s.skip :]
    return pool, list(family.files)


def network(name: str, series: int) -> Any:
    """Small widths: minutes on a processor, no more than a sketch of what each network can do."""
    from neuralforecast import models
    from neuralforecast.losses.pytorch import DistributionLoss, MQLoss

    common: dict[str, Any] = {
        "h": HORIZON, "input_size": INPUT, "max_steps": STEPS[name], "scaler_type": "standard", "random_seed": SEED,
        "batch_size": 16, "windows_batch_size": 64, "enable_progress_bar": False, "logger": False,
        "enable_checkpointing": False, "accelerator": "cpu", "devices": 1, "alias": name,
    }  # fmt: skip
    loss = MQLoss(quantiles=list(LEVELS))
    if name == "DLinear":
        return models.DLinear(loss=loss, **common)
    if name == "PatchTST":
        return models.PatchTST(loss=loss, hidden_size=16, n_heads=4, encoder_layers=2, linear_hidden_size=32,
                               patch_len=8, stride=4, **common)  # fmt: skip
    if name == "iTransformer":
        return models.iTransformer(loss=loss, n_series=series, hidden_size=32, n_heads=4, e_layers=2, d_ff=64, **common)
    if name == "TimesNet":
        return models.TimesNet(loss=loss, hidden_size=8, conv_hidden_size=8, top_k=2, num_kernels=2, encoder_layers=1,
                               **common)  # fmt: skip
    if name == "TFT":
        return models.TFT(loss=loss, hidden_size=16, n_head=2, **common)
    return models.DeepAR(
        loss=DistributionLoss("StudentT", quantiles=list(LEVELS), num_samples=100, return_params=False),
        lstm_hidden_size=16, lstm_n_layers=1, trajectory_samples=100, **common,
    )  # fmt: skip


def inputs(suite_name: str) -> tuple[Any, Any, list[str], list[int], list[Any]]:
    """Settings, the series as a frame, their ids, the first period decided of each, and the files read."""
    import pandas as pd

    s = load_suite(suite_name).settings
    inner = s.families[0].split("-", 2)[2]
    pool, files = pool_of(s, inner)
    each = s.splits.decisions * (s.splits.validation + s.splits.test)
    frames, ids, starts = [], [], []
    for one in pool.families[inner]:
        # The last window's stretch holds everything; all of it but the last value is needed.
        stretch = pool._cut(inner, one, "test")[-1]
        y = stretch.y[:-1]
        first = stretch.start + s.splits.decisions - each  # the first period decided
        if len(y) - HORIZON - each + 1 != first:
            raise SystemExit(f"{one.id}: forecasts would not line up with the suite's windows")
        ids.append(one.id)
        starts.append(first)
        frames.append(pd.DataFrame({"unique_id": one.id, "ds": np.arange(len(y)), "y": y.astype(np.float32)}))
    return s, pd.concat(frames, ignore_index=True), ids, starts, files


def quantiles(made: Any, name: str, ids: list[str], starts: list[int], each: int) -> Any:
    """(series, decisions, steps, levels) of a frame with unique_id, cutoff, ds and columns NAME-lo-90 to NAME-hi-90."""
    columns = [c for c in made.columns if c.startswith((f"{name}-lo-", f"{name}-hi-"))]  # from low to high
    if len(columns) != len(LEVELS):
        raise SystemExit(f"{name}: saw columns {list(made.columns)}, expected {len(LEVELS)} quantiles from low to high")
    out = np.empty((len(ids), each, HORIZON, len(LEVELS)), np.float32)
    for i, one in enumerate(ids):
        own = made[made["unique_id"] == one].sort_values(["cutoff", "ds"])
        if len(own) != each * HORIZON or own["cutoff"].iloc[0] + 1 != starts[i]:
            raise SystemExit(f"{one}: expected {HORIZON} steps from each of {each} cutoffs, the first {starts[i] - 1}")
        out[i] = own[columns].to_numpy(np.float32).reshape(each, HORIZON, len(LEVELS))
    return np.sort(out, axis=-1)  # networks may cross their quantiles


def train(suite_name: str, names: list[str], given: Any = None) -> None:
    """Fit and store, or store what is `given`."""
    s, data, ids, starts, files = inputs(suite_name)
    each = s.splits.decisions * (s.splits.validation + s.splits.test)
    folder = ROOT / "src" / "ucsearch" / "lab" / "suites" / FOLDER
    folder.mkdir(exist_ok=True)
    target = folder / f"{s.traces}.npz"
    held: dict[str, Any] = {}
    evidence: dict[str, Any] = {"models": {}}
    if target.exists():
        with np.load(target) as old:
            held = {k: old[k] for k in old.files}
        evidence = json.loads(target.with_suffix(".json").read_text("utf-8"))
    held["ids"], held["starts"] = np.array(ids), np.array(starts, np.int64)
    hashes = {f.name: f.sha256 for f in files}
    used = []
    for name in names:
        if given is not None:
            held[name] = quantiles(given, name, ids, starts, each)
            evidence["models"][name] = {"given": True}
            continue
        versions = {n: version(n) for n in ("neuralforecast", "torch", "numpy")}
        made = {"steps": STEPS[name], "input": INPUT, "seed": SEED}
        path = WORK / f"{s.traces}-{name}-{_mark(hashes, versions, made, ids, starts, each)}.npz"
        if path.exists():
            print(f"{suite_name} {name}: trained before", flush=True)
        else:
            begun = time.perf_counter()
            found = quantiles(_forecasts(name, data, len(ids), each), name, ids, starts, each)
            seconds = round(time.perf_counter() - begun, 1)
            WORK.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as file:
                np.savez_compressed(file, quantiles=found, seconds=np.float64(seconds))
            print(f"{suite_name} {name}: {seconds:.0f} s", flush=True)
        with np.load(path) as one:
            held[name], seconds = one["quantiles"], float(one["seconds"])
        evidence["models"][name] = {**made, "seconds": seconds}
        evidence["versions"] = versions
        used.append(path)
    stream = io.BytesIO()
    np.savez_compressed(stream, **held)
    evidence |= {
        "suite": s.traces, "levels": list(LEVELS), "horizon": HORIZON,
        "fitted_on": "values before the first validation window of each series, once",
        "data": hashes, "sha256": hashlib.sha256(stream.getvalue()).hexdigest(),
    }  # fmt: skip
    with whole_file(target) as file:
        file.write(stream.getvalue())
    with whole_file(target.with_suffix(".json")) as file:
        file.write((json.dumps(evidence, indent=1, sort_keys=True) + "\n").encode())
    for path in used:
        path.unlink()


def _mark(*parts: Any) -> str:
    """Ten digits that another series, cutoff, setting, version or data file changes."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:10]


def _forecasts(name: str, data: Any, series: int, each: int) -> Any:
    import torch
    from neuralforecast import NeuralForecast

    torch.set_num_threads(1)
    forecaster = NeuralForecast(models=[network(name, series)], freq=1)
    return forecaster.cross_validation(data, n_windows=each, step_size=1, val_size=0)


def coverage(suite_name: str) -> None:
    """Share of outcomes between the outer quantiles (90 % if honest), the middle's error beside the last value's."""
    s, data, ids, starts, _ = inputs(suite_name)
    each = s.splits.decisions * (s.splits.validation + s.splits.test)
    values = {name: part["y"].to_numpy() for name, part in data.groupby("unique_id")}
    held = read_traces(s.traces)
    steps = np.arange(each)[:, None] + np.arange(HORIZON)
    actual = np.stack([values[name][start + steps] for name, start in zip(ids, starts, strict=True)])
    last = np.stack([values[name][start - 1 + np.arange(each)] for name, start in zip(ids, starts, strict=True)])
    print(f"last value: mean error of the first step {np.abs(actual - last[:, :, None])[:, :, 0].mean():.3f}")
    for name in (n for n in held if n not in ("ids", "starts")):
        q = held[name]
        inside = ((actual >= q[..., 0]) & (actual <= q[..., -1])).mean()
        middle = q[..., len(LEVELS) // 2 - 1 : len(LEVELS) // 2 + 1].mean(axis=-1)
        print(
            f"{name}: {inside:.1%} inside, mean error of the first step {np.abs(actual - middle)[:, :, 0].mean():.3f}"
        )


def main(words: list[str]) -> None:
    suite, rest = words[0], words[1:]
    if rest[:1] == ["--series"]:
        inputs(suite)[1].to_csv(rest[1], index=False)
    elif rest[:1] == ["--coverage"]:
        coverage(suite)
    elif rest[:1] == ["--from"]:
        import pandas as pd

        train(suite, rest[2:], pd.read_csv(rest[1]))
    else:
        train(suite, rest or list(MODELS))


if __name__ == "__main__":
    main(sys.argv[1:])
