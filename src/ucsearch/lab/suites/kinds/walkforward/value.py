"""What a walk-forward suite runs for the value gate: practitioners tuned on validation, samplers at equal time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from time import process_time
from typing import Any, Literal

import numpy as np

from ucsearch.errors import InputError
from ucsearch.lab.suites.kinds.walkforward.rivals import CLASSICS, Rivals
from ucsearch.lab.suites.kinds.walkforward.settings import WalkForwardSettings
from ucsearch.lab.suites.kinds.walkforward.world import without_lattice
from ucsearch.lab.suites.protocol.comparison import COMPARATORS
from ucsearch.replay.linear import LinearStorage, has_solver
from ucsearch.replay.panel import Panel
from ucsearch.replay.roster import Budget, Entry, ordering_rules, practitioners, searches
from ucsearch.replay.tune import tune
from ucsearch.replay.walk import Choice, Seen, Walk, walk
from ucsearch.tasks import Storage

__all__ = ["NAMES", "always_fallback", "timed_walks", "tuned_practitioners", "tuned_walks"]

NAMES = CLASSICS | {
    "mean-plan": "planning on the mean", "quantile-plan": "planning on a quantile", "price-rule": "price rule",
    "quantile-staffing": "quantile staffing", "calendar-staffing": "calendar staffing",
    "newsvendor-staffing": "newsvendor staffing", "greedy-delay": "delay-aware greedy", "greedy": "greedy",
    "lp-mean": "linear programme on the mean", "milp-mean": "mixed-integer programme on the mean",
    "threshold": "threshold",
}  # fmt: skip
"""Practitioners' names in suites -> in the roster. In rows they stand as `<name>-tuned`."""


class _Fallback:
    """Leaves every decision to the task's own fallback."""

    def __call__(self, seen: Seen) -> Choice:
        return Choice.at(seen, np.full(len(seen.table), -1, np.int64))


def always_fallback(panel: Panel, engine: Literal["python", "compiled"]) -> Walk:
    return walk(panel, _Fallback(), engine=engine)


def _entries(panel: Panel, s: WalkForwardSettings, threads: int | None) -> dict[str, Entry]:
    budget = Budget(depth=max(s.candidates.depths), risk=0.0)
    how = s.how(threads)
    found = {entry.name: entry for entry in practitioners(panel, budget, how=how)}
    found |= {
        e.name: e for e in searches(panel, budget, seeds=1, how=how) if e.name in ("greedy", "delay-aware greedy")
    }
    if s.items is not None:
        # Rules may order any number of packs, not only the sizes that the search looks at.
        found |= {e.name: e for e in ordering_rules(panel, free=True, round_to=1.0, how=how)}
    if isinstance(panel.config, Storage) and has_solver():
        for key, whole in (("lp-mean", False), ("milp-mean", True)):
            config = without_lattice(panel).config
            make = partial(LinearStorage, config, whole=whole)
            found[NAMES[key]] = Entry(NAMES[key], "classic", make, "HiGHS, any power, as if the mean were certain")
    out = {}
    for name in s.practitioners:
        if NAMES.get(name) not in found:
            known = sorted(key for key, value in NAMES.items() if value in found)
            raise InputError("practitioners", repr(name), f"one of {', '.join(known)} for this task")
        out[name] = found[NAMES[name]]
    return out


def tuned_practitioners(panel: Panel, s: WalkForwardSettings, threads: int | None) -> dict[str, dict[str, Any]]:
    """Every practitioner's best setting on the validation panel, with how many were tried, and what is asked of it."""
    if s.value_gate is None:
        raise InputError("value_gate", "nothing", "settings of the value gate")
    out = {}
    for name, entry in _entries(panel, s, threads).items():
        settings, tries = {}, 1
        if entry.knobs:  # nothing to tune needs no walk
            best = tune(entry, _walked(name, panel), tries=s.value_gate.tries, engine=s.engine)
            settings, tries = dict(best.knobs), len(best.trials)
        out[f"{name}-tuned"] = {"endpoint": s.practitioners[name], "settings": settings, "tries": tries}
    return out


def _walked(name: str, panel: Panel) -> Panel:
    """A programme of continuous power is walked where levels are continuous, or rounding would be held against it."""
    return without_lattice(panel) if name in ("lp-mean", "milp-mean") else panel


def tuned_walks(
    panel: Panel, s: WalkForwardSettings, tuned: Mapping[str, Mapping[str, Any]], threads: int | None
) -> dict[str, tuple[list[Walk], float]]:
    """The practitioners at their tuned settings, and the seconds they took."""
    entries = _entries(panel, s, threads)
    found = {}
    for name, entry in entries.items():
        makers = entry.choosers(**tuned[f"{name}-tuned"]["settings"])
        world, begun = _walked(name, panel), process_time()
        walks = [walk(world, make(), engine=s.engine) for make in makers]
        found[f"{name}-tuned"] = walks, process_time() - begun
    return found


def timed_walks(rivals: Rivals, candidate: Mapping[str, Any], samples: int) -> dict[str, tuple[list[Walk], float]]:
    """The samplers with as many plans as fit into the judged policy's time, and the seconds they took."""
    names: Sequence[str] = COMPARATORS
    found = {}
    for name in names:
        begun = process_time()
        walks = rivals.walks(name, candidate["options"][name], samples)
        found[f"{name}-time"] = walks, process_time() - begun
    return found
