"""Tasks of one's own: one that is sound, and some that break when they are asked."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import ucsearch as uc


class Level(NamedTuple):
    level: float


def allowed(s: Any, a: float, p: Any) -> bool:
    return bool(s.level + a >= 0.0)


def moved(s: Any, a: float, y: float, p: Any) -> Level:
    return Level(max(s.level + a - y, 0.0))


def worth(s: Any, a: float, y: float, p: Any) -> float:
    return -a - 3.0 * max(y - s.level - a, 0.0)


def nothing(s: Any, p: Any) -> float:
    return 0.0


def worth_raises(s: Any, a: float, y: float, p: Any) -> float:
    raise ValueError("no price")


def worth_nan(s: Any, a: float, y: float, p: Any) -> float:
    return math.nan


def worth_exits(s: Any, a: float, y: float, p: Any) -> float:
    raise SystemExit(3)


def _task(name: str, reward: Any) -> uc.Task:
    return uc.Task(
        name=name, state=Level, actions=[0.0, 2.0, 4.0], feasible=allowed, step=moved, reward=reward, fallback=nothing
    )


sound = _task("sound", worth)
raises = _task("raises", worth_raises)
nan = _task("nan", worth_nan)
exits = _task("exits", worth_exits)

pairs = uc.Task(
    name="pairs", state=Level, actions=[(0.0, 0.0), (1.0, 2.0)], feasible=lambda s, a, p: True,
    step=lambda s, a, y, p: Level(s.level + a[0] + a[1] - y), reward=lambda s, a, y, p: -a[0] - a[1],
    fallback=lambda s, p: (0.0, 0.0),
)  # fmt: skip


class Both(NamedTuple):
    a: float
    b: float


of_two_fields = uc.Task(
    name="of two fields", state=Level, outcome=Both, actions=[0.0, 2.0], feasible=allowed,
    step=lambda s, a, y, p: Level(s.level + a - y.a), reward=lambda s, a, y, p: -a - y.b, fallback=nothing,
)  # fmt: skip
