"""Train the learned policies that come with the package; run once, in .venv-torch (see `make test-torch`).

    python scripts/train_policies.py lost-sales                              # PPO, one network per instance
    python scripts/train_policies.py tables                                  # their orders, as the suite reads them
    python scripts/train_policies.py exposure --data-dir data                # DQN and PPO for DelayedExposure, on ETT
    python scripts/train_policies.py exposure --data fit.npz --name mine     # the same on series of your own

Every policy is written to src/ucsearch/lab/learned/policies as NAME.npz, NAME.json beside it (settings, environment,
steps, returns, versions, SHA-256). A policy that is there already is skipped, so a run that was cut off goes on;
--again trains it anew. With --data-dir the series are stretches in the first 60 % of every ETT column: changes in units
of the column's standard deviation. The file for --data holds series_0, features_0, series_1, ...: outcomes (T,) and
what the forecaster knew at each time (T, k), as `ucsearch.lab.learned.forecast_features` makes it.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import Progress

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from studies.training import train_lost_sales, train_network  # noqa: E402
from ucsearch.lab.learned import load_lost_sales  # noqa: E402
from ucsearch.lab.learned.lost_sales import NAME  # noqa: E402
from ucsearch.lab.suites.kinds.lost_sales.chain import chain_space  # noqa: E402
from ucsearch.lab.suites.suite import load_suite  # noqa: E402
from ucsearch.replay.classics.instances import zipkin_instances  # noqa: E402

FOLDER = ROOT / "src" / "ucsearch" / "lab" / "learned" / "policies"
TABLES = FOLDER.parents[1] / "suites" / "policies" / "lost-sales-ppo.npz"
ETT = {"ETTh1": 24, "ETTh2": 24, "ETTm1": 96, "ETTm2": 96}  # file: season
FIT, STRETCH, HORIZON = 0.6, 1_000, 6  # share of a column, values of it that are played, steps of a forecast
# Of the geometric instances those with a published optimum.
INSTANCES = [i for i in zipkin_instances() if i.family == "poisson" or i.published is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("lost-sales", "tables", "exposure"))
    parser.add_argument("--steps", type=int, default=1_000_000, help="environment steps per policy")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="train policies anew that are there already")
    parser.add_argument("--data", type=Path, help="exposure: series and features, .npz")
    parser.add_argument("--data-dir", type=Path, help="exposure: folder with the ETT files")
    parser.add_argument("--name", default="exposure", help="exposure: policies are NAME-dqn and NAME-ppo")
    parser.add_argument("--task", default="{}", help="exposure: settings of DelayedExposure, JSON")
    arguments = parser.parse_args()
    if arguments.what == "tables":
        write_tables()
        return
    torch.set_num_threads(1)  # sums in one order: the same seed gives the same weights
    FOLDER.mkdir(exist_ok=True)
    jobs = lost_sales_jobs(arguments) if arguments.what == "lost-sales" else exposure_jobs(arguments)
    with Progress(transient=True) as bar:
        for name, train in jobs.items():
            if (FOLDER / f"{name}.json").exists() and not arguments.again:
                continue
            row = bar.add_task(name, total=arguments.steps)
            policy = train(lambda done, total, row=row: bar.update(row, completed=done, total=total))
            digest = policy.save(FOLDER / f"{name}.npz")
            bar.remove_task(row)
            bar.console.print(f"{name}  {digest[:12]}  {'; '.join(policy.evidence.notes)}", highlight=False)


def write_tables() -> None:
    """One whole number per state of Morton's space and instance: the suite needs neither torch nor a network."""
    tables = {}
    for name in load_suite("lost-sales").settings.instances:
        policy = load_lost_sales(name)
        tables[name] = policy.orders(chain_space(policy.model).states).astype(np.int16)
    np.savez_compressed(TABLES, **tables)
    print(f"{TABLES.name}: {TABLES.stat().st_size:,} bytes, sha256 {hashlib.sha256(TABLES.read_bytes()).hexdigest()}")


def lost_sales_jobs(arguments: Any) -> dict[str, Callable[[Any], Any]]:
    def job(instance: Any) -> Callable[[Any], Any]:
        return lambda progress: train_lost_sales(
            instance, steps=arguments.steps, seed=arguments.seed, progress=progress
        )

    return {NAME.format(i.name): job(i) for i in INSTANCES}


def exposure_jobs(arguments: Any) -> dict[str, Callable[[Any], Any]]:
    from ucsearch.tasks import DelayedExposure

    config = DelayedExposure(**json.loads(arguments.task))
    if arguments.data is not None:
        with np.load(arguments.data, allow_pickle=False) as file:
            count = sum(name.startswith("series_") for name in file.files)
            series = [file[f"series_{i}"] for i in range(count)]
            features = [file[f"features_{i}"] for i in range(count)]
        about = f"trained on {count} series of {arguments.data.name}"
    elif arguments.data_dir is not None:
        series, features = ett_series(arguments.data_dir, config.delay)
        about = f"trained on {len(series)} stretches in the first {FIT:.0%} of the columns of {', '.join(ETT)}"
    else:
        raise SystemExit("exposure needs --data-dir FOLDER or --data FILE.npz")

    def job(method: Any) -> Callable[[Any], Any]:
        def train(progress: Any) -> Any:
            policy = train_network(
                method, config.task(), config.state(), series, features, steps=arguments.steps, seed=arguments.seed,
                progress=progress,
            )  # fmt: skip
            return dataclasses.replace(policy, evidence=dataclasses.replace(policy.evidence, notes=(about,)))

        return train

    return {f"{arguments.name}-{method}": job(method) for method in ("dqn", "ppo")}


def ett_series(data_dir: Path, delay: int) -> tuple[list[Any], list[Any]]:
    """Outcomes and forecast features of stretches that lie well before any validation or test window."""
    from ucsearch.forecast import RidgePaths, series_stream
    from ucsearch.lab.data import load_ett
    from ucsearch.lab.learned import forecast_features

    model, series, features = RidgePaths(paths=30), [], []
    for name, season in ETT.items():
        table = load_ett(name, data_dir=data_dir)
        for column, y in zip(table.columns, np.asarray(table.values, np.float64).T, strict=True):
            fit = y[: int(FIT * len(y))]
            z = fit / fit.std()
            marks = np.arange(len(z) - STRETCH - 1, len(z) - 1)
            made = model.forecast(z, marks, horizon=HORIZON, season=season, stream=series_stream(1, f"{name}/{column}"))
            before = np.repeat(z[marks][:, None, None], made.members.shape[1], axis=1)
            changes = np.diff(np.asarray(made.members), axis=2, prepend=before)
            series.append(np.diff(z)[marks])
            features.append(forecast_features(changes, delay))
    return series, features


if __name__ == "__main__":
    main()
