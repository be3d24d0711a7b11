"""Which algorithms there are: a plain function each, and a kernel. Comparators register theirs here too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["ALGORITHMS", "Algorithm", "register"]


@dataclass(frozen=True)
class Algorithm:
    """`plain(window, state) -> Outcome`, and the module that has its kernel: a `build(rules, shape, jit)`."""

    plain: Callable[..., Any]
    module: str


ALGORITHMS: dict[str, Algorithm] = {}


def register(name: str, plain: Callable[..., Any], module: str) -> None:
    ALGORITHMS[name] = Algorithm(plain, module)
