"""Power before the look: how likely all bounds of a gate pass, if test series are like the validation series.

Each run first draws the validation series again, because they are a sample themselves and their mean is not the truth,
and then from those as many test series as the suite declares; all opponents of a series together, since their deltas go
with each other. The bound in a run is Student's; the bootstrap-t bound that also decides is about as wide, and the
smaller of two passes a little less often. Families are drawn apart, so their probabilities multiply.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.rows import Row, windows_of
from ucsearch.lab.suites.gates.primary import GATE
from ucsearch.lab.suites.gates.primary import LEAST_POWER as PRIMARY_POWER
from ucsearch.lab.suites.protocol.audit import audit_rows, is_stopped
from ucsearch.lab.suites.protocol.comparison import COMPARATORS, Protocol
from ucsearch.lab.suites.protocol.rates import family_deltas
from ucsearch.replay.statistics import LEAST, LEVEL, bootstrap_key, draws
from ucsearch.student import student_quantile

__all__ = ["LEAST_POWER", "RUNS", "Power", "is_wasted", "may_open", "power", "power_record", "power_words"]

RUNS = 2000
LEAST_POWER = 0.5
"""Below this a look is more likely wasted than not, and has to be asked for."""


class Power(NamedTuple):
    """Probability that every bound passes, and of each family's bounds together."""

    all: float
    families: dict[str, float]


def power(
    deltas: Mapping[str, Mapping[str, Sequence[float]]],
    floors: Mapping[str, float],
    series: Mapping[str, int],
    *,
    seed: int,
    name: str,
    runs: int = RUNS,
) -> Power:
    """`deltas`: by family and opponent one value per validation series, in the same order; `floors`: what an opponent's
    lower bound must exceed; `series`: of each family on test. What is missing, not finite or too little has power 0."""
    shares = {}
    for family in sorted(deltas):
        count = series[family]
        if count < 1:
            raise InputError("series", count, "at least 1", index=family)
        shares[family] = _family(deltas[family], floors, count, bootstrap_key(seed, name, "power", family), runs)
    return Power(math.prod(shares.values()) if shares else 0.0, shares)


def _family(
    by_opponent: Mapping[str, Sequence[float]], floors: Mapping[str, float], count: int, key: int, runs: int
) -> float:
    # Opponents that ran on fewer series are drawn apart; as many of them are tested as were run.
    sizes = sorted({len(line) for line in by_opponent.values()}, reverse=True)
    if len(sizes) > 1:
        groups = [{n: v for n, v in by_opponent.items() if len(v) == size} for size in sizes]
        numbered = enumerate(zip(groups, [count, *sizes[1:]], strict=True))
        return math.prod(_family(group, floors, many, key + i, runs) for i, (group, many) in numbered)
    table = np.array([by_opponent[name] for name in sorted(by_opponent)], np.float64)  # (opponents, series)
    if table.ndim != 2 or table.shape[1] < LEAST or count < LEAST or not np.isfinite(table).all():
        return 0.0
    known_series = table.shape[1]
    flat = draws(key, known_series, math.ceil(runs * (known_series + count) / known_series)).reshape(-1)
    truth = flat[: runs * known_series].reshape(runs, known_series)
    index = np.take_along_axis(
        truth, flat[runs * known_series : runs * (known_series + count)].reshape(runs, count), axis=1
    )
    reach = student_quantile(LEVEL, count - 1) / math.sqrt(count)
    passed = np.ones(runs, np.bool_)
    for line, opponent in zip(table, sorted(by_opponent), strict=True):
        x = line[index]
        passed &= x.mean(axis=1) - reach * x.std(axis=1, ddof=1) > floors[opponent]
    return float(passed.mean())


def power_record(rows: Sequence[Row], protocol: Protocol, selection: Mapping[str, Any]) -> dict[str, Any]:
    """Of the paper's gate: the chosen candidate's validation deltas against CEM, MPPI and risk-random, at the number of
    series the suite declares. Only bounds are counted, not the rates that the gate asks for as well."""
    name = selection["candidate"]
    windows = [] if name is None else windows_of(rows, "validation", name)
    sizes = {f: len({w.series for w in windows if w.family == f}) for f in protocol.families}
    estimated = Power(0.0, dict.fromkeys(protocol.families, 0.0))
    if all(sizes.values()):
        deltas = {f: {c: family_deltas(windows, f, c, protocol) for c in COMPARATORS} for f in protocol.families}
        estimated = power(deltas, dict.fromkeys(COMPARATORS, 0.0), sizes, seed=protocol.seed, name=protocol.suite)
    return {"all": estimated.all, "families": estimated.families}


def _is_sized(selection: Mapping[str, Any]) -> bool:
    """Whether the gates whose power keeps the test closed are likely enough to pass."""
    value, paper = selection.get("value") or {}, selection.get("power")
    if value.get("gate") == GATE and not value["power"] >= PRIMARY_POWER:
        return False
    return paper is None or bool(paper["all"] >= LEAST_POWER)


def is_wasted(selection: Mapping[str, Any]) -> bool:
    """Whether the value gate is so unlikely to pass that the look has to be asked for."""
    return bool((selection.get("value") or {}).get("underpowered"))


def power_words(selection: Mapping[str, Any]) -> list[str]:
    """What is said of the power before the test is opened."""
    value, paper, said = selection.get("value") or {}, selection.get("power"), list[str]()
    if "power_by_family" in value:
        said.append(_words("the value gate", value["power"], value["power_by_family"]))
    if value.get("gate") == GATE:
        said.append(_words("the primary question", value["power"], {}, PRIMARY_POWER))
    if paper is not None:
        said.append(_words("the paper's gate", paper["all"], paper["families"], LEAST_POWER))
    return said


def _words(gate: str, share: float, families: Mapping[str, float], least: float | None = None) -> str:
    """`least`: what the power must reach, or the test stays closed."""
    text = f"power of {gate} at the declared size: {share:.2f}"
    if families:
        text += f" ({', '.join(f'{family} {each:.2f}' for family, each in sorted(families.items()))})"
    if least is None:
        return text
    closed = "" if share >= least else ": the test stays closed; declare more series"
    return f"{text}, at least {least:g} is needed{closed}"


def may_open(rows: Sequence[Row], selection: Mapping[str, Any]) -> bool:
    """Whether the test is opened: something was selected, the audit did not stop the route, and the gates are sized."""
    return selection["candidate"] is not None and not is_stopped(audit_rows(rows)) and _is_sized(selection)
