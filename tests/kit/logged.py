"""A small task with rules worth asking, and a log with its decisions, for tests of the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import ucsearch as uc
from ucsearch.decision import Filing

WHERE = "tests.kit.logged:tank"
TRACE = ((3.0, 4.0), (9.0, 12.0))  # (J, H)
NOON = "2024-05-01T12:00:00+00:00"


class Tank(NamedTuple):
    level: float


class Limits(NamedTuple):
    capacity: float


def feasible(s: Tank, a: float, p: Limits) -> bool:
    return a >= 0.0 and s.level + a <= p.capacity


def step(s: Tank, a: float, y: float, p: Limits) -> Tank:
    return Tank(min(p.capacity, max(0.0, s.level + a - y)))


def reward(s: Tank, a: float, y: float, p: Limits) -> float:
    return -abs(s.level + a - y) - 0.01 * a


def fallback(s: Tank, p: Limits) -> float:
    return 0.0


tank = uc.Task(
    name="tank", state=Tank, params=Limits(20.0),
    actions=(0.0, 4.0, 8.0, 16.0), labels=("nothing", "some", "more", "much"),
    feasible=feasible, step=step, reward=reward, fallback=fallback,
)  # fmt: skip


def decide(
    log: Any, level: float = 10.0, trace: Any = TRACE, series: str = "A", request: Any = None, **more: Any
) -> Any:
    """One decision of the tank in the log."""
    policy = uc.Exact(depth=2, risk=0.5)
    return uc.decide(
        tank,
        Tank(level),
        trace,
        policy,
        run=uc.Run(engine="python"),
        log=Filing(log, series=series, where=WHERE, request=request),
        **more,
    )


def refuse(log: Any, level: float = 10.0, series: str = "A") -> Any:
    """One refused forecast in the log."""
    return decide(log, level, ((float("nan"), 1.0),), series)


def new_log(folder: Path, **more: Any) -> uc.AuditLog:
    return uc.AuditLog(folder / "log.db", clock=lambda: NOON, **more)
