"""Targets of a fill rate or a service level on the earlier part of a history: penalties found on the forecast with
which it begins, then one factor for all series of a target, the smallest power of 1.1 that reaches it in a replay."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.planner.backtest.replay import PROVED, History, Replay
from ucsearch.planner.backtest.resume import Arrays, Parts
from ucsearch.planner.backtest.rules import earlier_part
from ucsearch.planner.files.penalties import Penalty
from ucsearch.planner.history import prepare
from ucsearch.planner.settings import Settings
from ucsearch.planner.targets import find_penalties
from ucsearch.trace import Trace

__all__ = ["least_power", "tune_targets"]

Floats = NDArray[np.float64]
FACTOR = 1.1
_LOWEST, _HIGHEST = -24, 48  # powers of it that are looked at


def tune_targets(
    parts: Parts, settings: Settings, histories: Sequence[History], earlier: int
) -> tuple[list[tuple[str, Penalty]], list[str]]:
    """Penalties by series, and what to say about them.

    Args:
        parts: runs the replays and keeps what is done.
        settings: with a fill rate or a service level, of all series or by series.
        histories: long enough for the earlier part.
        earlier: periods before the counted ones.
    """
    before, past = earlier_part(settings, histories, earlier)
    start = earlier + settings.backtest.warmup
    penalties: dict[str, tuple[Penalty, History]] = {}
    notes: list[str] = []
    kinds: dict[int, list[History]] = {}
    for history in past:
        kinds.setdefault(history.case.kind.number, []).append(history)
    for group in kinds.values():
        config = group[0].case.kind.config
        how = prepare(before, config=config)
        members = [
            how.forecasts(h.series, h.y, np.array([len(h.y) - start - 1]), before.recalibration, h.known)[0]
            for h in group
        ]
        size = min(len(paths) for paths in members)
        reached = find_penalties(
            [h.case for h in group],
            Trace.from_members(np.stack([x[:size] for x in members])),
            before,
            names=[h.series for h in group],
        )
        for i, h in enumerate(group):
            target = float(h.case.config.target)
            penalty = Penalty(
                config.penalty,
                target,
                float(reached.value[i]),
                float(reached.promised[i]),
                float(reached.below[i]),
                1.0,
            )
            penalties[h.series] = (penalty, h)
            if not reached.met[i]:
                notes.append(f"{h.series}: {target:g} is out of reach, {reached.promised[i]:.3f} at most")
    corrected: dict[str, Penalty] = {}
    forecasts: dict[tuple[str, ...], Floats] = {}
    for target in sorted({penalty.target for penalty, _ in penalties.values()}):
        own = {series: pair for series, pair in penalties.items() if pair[0].target == target}

        def share(power: int, own: dict[str, tuple[Penalty, History]] = own, target: float = target) -> float:
            charged = [_charged(h, p.name, p.value * FACTOR**power) for p, h in own.values()]
            return _replayed(parts, f"target-{target:g}-{power}", charged, before, start, forecasts)

        power, reached_share = least_power(share, target)
        notes.append(
            f"target {target:g}: {len(own)} series reach {reached_share:.4f} on the {earlier} periods before, with "
            f"penalties {FACTOR**power:.3g} times what their forecasts ask for"
        )
        for series, (penalty, _) in own.items():
            corrected[series] = penalty._replace(value=penalty.value * FACTOR**power, factor=FACTOR**power)
    return [(h.series, corrected[h.series]) for h in past], notes


def least_power(share: Callable[[int], float], target: float) -> tuple[int, float]:
    """The smallest power of the factor whose `share` reaches the target, and what it reaches."""
    shares = {0: share(0)}

    def at(power: int) -> float:
        if power not in shares:
            shares[power] = share(power)
        return shares[power]

    low, high = 0, 0
    if at(0) >= target:
        step = 2
        while at(low) >= target and low > _LOWEST:
            high, low, step = low, max(low - step, _LOWEST), 2 * step
        if at(low) >= target:
            return low, at(low)
    else:
        step = 2
        while at(high) < target:
            if high >= _HIGHEST:
                raise InputError(
                    "task.fill_rate, task.service_level", target, f"at most {at(high):.3f}, what orders can reach here"
                )
            low, high, step = high, min(high + step, _HIGHEST), 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if at(middle) >= target else (middle, high)
    return high, at(high)


def _charged(history: History, name: str, value: float) -> History:
    """With another penalty."""
    case = history.case
    config = dataclasses.replace(case.config, **{name: value})
    return dataclasses.replace(history, case=case._replace(config=config, params=case.params._replace(**{name: value})))


def _replayed(
    parts: Parts, stage: str, histories: Sequence[History], before: Settings, length: int,
    held: dict[tuple[str, ...], Floats],
) -> float:  # fmt: skip
    """The pooled share that the policy serves in a replay; `held` keeps forecasts for the next one."""
    by_period = histories[0].case.config.service_level is not None

    def work(part: list[History]) -> Arrays:
        names = tuple(history.series for history in part)
        replay = Replay(part, before, parts.tick, held.get(names))
        held[names] = replay.members
        track = replay.track(replay.walk(replay.policy()))
        got, asked = ("in_full", np.ones_like(track["in_full"])) if by_period else ("served", track["demand"])
        return {"got": track[got].sum(axis=1), "asked": asked.sum(axis=1)}

    parts.expect(len(histories) * length * PROVED)
    totals = parts.by_part(stage, histories, work, length * PROVED)
    asked = float(totals["asked"].sum())
    return float(totals["got"].sum()) / asked if asked > 0.0 else 1.0
