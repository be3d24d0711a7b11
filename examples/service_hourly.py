"""An hourly job on the decision service: forecasts of Nixtla's form in, orders out; what was sold is reported next day.

    python examples/service_hourly.py                                  # with a service of its own, for two made-up days
    python examples/service_hourly.py https://decisions.example.com    # with yours; UCSEARCH_TOKEN is an agent's token

With StatsForecast, MLForecast or NeuralForecast the frame comes from `forecast(df, h=3, level=[50, 80, 90, 98])`; here
it is simulated. Every hour has a key of its own: started again after a crash, the job does nothing twice.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pandas as pd

from ucsearch.client import Answer, Client

PLAN = "shelves"
SETTINGS = """
units = "pieces"
period = "hour"
[task]
name = "lead_time_inventory"
lead_time = 1
order_sizes = [0.0, 10.0, 20.0, 30.0]
holding = 0.1
shortage = 2.0
[policy]
name = "exact"
depth = 2
[forecast]
points = 50            # members made of quantiles; the monitor needs 50
[run]
engine = "python"      # an example should not wait for the compiler
"""
SERVICE = f"""
[server]
bind = "127.0.0.1:0"
[store]
least_free_bytes = 0
[[plan]]
name = "{PLAN}"
settings = "shelves.toml"
[plan.monitor]
max_undercoverage = 0.035
"""
ITEMS = {"bread": 14.0, "milk": 9.0, "apples": 22.0}
LEVELS = (50, 80, 90, 98)
FIRST = datetime(2024, 3, 4, 8, tzinfo=UTC)
HOURS = 4  # of a made-up day

rng = np.random.default_rng(1)


def forecasts_at(now: datetime) -> pd.DataFrame:
    """unique_id, ds, Model, Model-lo-80, ...: three hours ahead, as Nixtla's libraries write it."""
    rows = []
    for item, level in ITEMS.items():
        for h in range(1, 4):
            row = {"unique_id": item, "ds": now + timedelta(hours=h), "cutoff": now, "Model": level}
            for inside in LEVELS:
                z = NormalDist().inv_cdf(0.5 + inside / 200.0)
                row[f"Model-lo-{inside}"] = max(0.0, level - z * 0.3 * level)
                row[f"Model-hi-{inside}"] = level + z * 0.3 * level
            rows.append(row)
    return pd.DataFrame(rows)


def states_at(stock: dict[str, float], coming: dict[str, float]) -> pd.DataFrame:
    return pd.DataFrame([{"unique_id": i, "on_hand": stock[i], "open_orders_1": coming[i]} for i in ITEMS])


def one_day(client: Client, start: datetime, stock: dict[str, float], coming: dict[str, float]) -> None:
    """Decide every hour; the next morning say what was sold."""
    kept: list[tuple[datetime, tuple[Answer, ...], pd.DataFrame]] = []  # a real job keeps this in its database
    for hour in range(HOURS):
        now = start + timedelta(hours=hour)
        answers = client.decide_frame(
            PLAN, forecasts_at(now), states_at(stock, coming), issued=now, key=f"{PLAN}-{now:%Y%m%dT%H}"
        )
        counts = Counter(a.outcome for a in answers)
        orders = ", ".join(f"{a.series} {a.order if a.order == a.order else a.action:g}" for a in answers)
        print(f"{now:%Y-%m-%d %H:%M}  {dict(counts)}  {orders}")
        sold = {i: float(max(0, round(rng.normal(level, 0.3 * level)))) for i, level in ITEMS.items()}
        kept.append(
            (now + timedelta(hours=1), answers, pd.DataFrame({"unique_id": list(sold), "y": list(sold.values())}))
        )
        for a in answers:
            stock[a.series] = max(0.0, stock[a.series] + coming[a.series] - sold[a.series])
            coming[a.series] = 0.0 if a.action != a.action else a.action
    new = 0
    for seen, answers, sales in kept:
        receipts = client.outcomes_frame(answers, sales, observed_at=seen, key=f"{PLAN}-sold-{seen:%Y%m%dT%H}")
        new += sum(r.new for r in receipts)
    monitor = client.monitors(PLAN)
    print(f"next morning: {new} reports of {len(ITEMS)} items each; the monitor is {monitor['state']}")


@contextmanager
def connected(url: str | None) -> Iterator[Client]:
    if url is not None:
        with Client(url, os.environ["UCSEARCH_TOKEN"]) as client:
            yield client
        return
    from ucsearch.service.config import load_config
    from ucsearch.service.run import embedded
    from ucsearch.service.service import Service
    from ucsearch.service.tokens import TokenBook, write_tokens

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "service.toml").write_text(SERVICE)
        (folder / "shelves.toml").write_text(SETTINGS)
        write_tokens(folder / "tokens.toml")
        token = TokenBook(folder / "tokens.toml").add("hourly job", "agent")
        config, place = load_config(folder)
        with embedded(Service.open(config, place)) as address, Client(address, token) as client:
            yield client


def main() -> None:
    stock = {item: 2.0 * level for item, level in ITEMS.items()}
    coming = dict.fromkeys(ITEMS, 10.0)
    with connected(sys.argv[1] if len(sys.argv) > 1 else None) as client:
        for day in range(2):
            one_day(client, FIRST + timedelta(days=day), stock, coming)


if __name__ == "__main__":
    main()
