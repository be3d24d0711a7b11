"""Which algorithms there are: a plain function and a kernel template each. Comparators register theirs here too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

__all__ = ["ALGORITHMS", "Algorithm", "register"]


@dataclass(frozen=True)
class Algorithm:
    """`plain(window, state) -> Outcome`, and the text of the template that defines `uc_panel`."""

    plain: Callable[..., Any]
    package: str  # where the template lies
    template: str  # file name

    def text(self) -> str:
        return (resources.files(self.package) / self.template).read_text()


ALGORITHMS: dict[str, Algorithm] = {}


def register(name: str, plain: Callable[..., Any], package: str, template: str) -> None:
    ALGORITHMS[name] = Algorithm(plain, package, template)
