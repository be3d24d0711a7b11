"""Which algorithms there are: a plain function each, and a kernel. Comparators register theirs here too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

__all__ = ["ALGORITHMS", "Algorithm", "register"]


@dataclass(frozen=True)
class Algorithm:
    """`plain(window, state) -> Outcome`, and what its kernel is made of: a module with `build(rules, shape, jit)`. For
    the GPU, templates of which the last defines `uc_panel`."""

    plain: Callable[..., Any]
    templates: tuple[tuple[str, str], ...]  # (package, file name)
    module: str

    def text(self) -> str:
        """All templates one after another."""
        return "\n\n".join((resources.files(package) / name).read_text() for package, name in self.templates)


ALGORITHMS: dict[str, Algorithm] = {}


def register(name: str, plain: Callable[..., Any], package: str = "", *templates: str, module: str) -> None:
    """`templates` are file names in `package`, or "other.package:file"."""
    places = []
    for template in templates:
        where, colon, file = template.partition(":")
        places.append((where, file) if colon else (package, template))
    ALGORITHMS[name] = Algorithm(plain, tuple(places), module)
