"""Numbers as people read them, wherever one is told in words or tables."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ucsearch.errors import InputError

__all__ = [
    "ONLY_ONE",
    "Labelled",
    "figure",
    "make_frame",
    "offered_words",
]


_MILLION, _UNREADABLE = 999_999.5, 1e12  # what six digits round to a million is one
ONLY_ONE = "as the only one offered"  # the set of a single action
_EVEN = 1e-9  # share of the largest by which equal steps may differ


def figure(value: float, digits: int = 6) -> str:
    """So many digits; of millions all whole ones, because a quantity of 2.88e+06 cannot be ordered. No commas: it may
    stand in a list, in a file, or be typed again."""
    if _MILLION <= abs(value) < _UNREADABLE:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def moment(written: str) -> str:
    """A time of the log as people read it, to the second."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?\+00:00", written)
    return f"{match[1]} {match[2]} UTC" if match else written


def action_figure(action: Any) -> str:
    """An action, a number or a tuple of them, as people read it."""
    return f"({', '.join(map(figure, action))})" if isinstance(action, tuple) else figure(action)


def amount_figure(amount: Any) -> str:
    """What is ordered, as people read it: of several suppliers "24+6"."""
    return "+".join(map(figure, amount)) if isinstance(amount, tuple) else figure(amount)


def offered_words(actions: Sequence[float], called: str = "actions", pack: float = 0.0, *, ranged: bool = False) -> str:
    """The set that something is best of, as it stands after "best"; NaN is no action. `ranged`: the actions are
    quantities, so that their range and a common step say something."""
    sizes = sorted(a for a in actions if a == a)
    if len(sizes) == 1:
        return ONLY_ONE
    text = f"among {len(sizes)} {called} offered"
    if not ranged or len(sizes) < 3:
        return text
    low, high = sizes[0], sizes[-1]
    step, slack = (high - low) / (len(sizes) - 1), _EVEN * max(abs(low), abs(high))
    even = all(abs(low + i * step - a) <= slack for i, a in enumerate(sizes))
    if even and pack > 0.0 and low == 0.0 and abs(step - pack) <= slack:
        return f"of all whole packs of {figure(pack)} up to {figure(high)}"
    return f"{text} ({figure(low)} to {figure(high)}{f' in steps of {figure(step)}' if even else ''})"


@dataclass(frozen=True)
class Labelled:
    """The name of a value: a word and the number. Travels between processes, as a function made on the way does not."""

    word: str

    def __call__(self, value: float) -> str:
        return f"{self.word} {figure(value)}"


_BACKENDS = ("polars", "pandas", "pyarrow")


def make_frame(columns: Mapping[str, Any], backend: str = "auto") -> Any:
    """A native frame; `auto` takes the first of polars, pandas and pyarrow that is installed."""
    import narwhals as nw

    if backend not in ("auto", *_BACKENDS):
        raise InputError("backend", repr(backend), f"'auto' or one of {_BACKENDS}")
    for name in _BACKENDS if backend == "auto" else (backend,):
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        library: Any = name
        return nw.from_dict(dict(columns), backend=library).to_native()
    raise InputError("backend", repr(backend), "polars, pandas or pyarrow to be installed", hint="pip install pyarrow")
