"""An exact policy's search is its own proof wherever both budgets allowed it: the same bytes, one search less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.counts import sizes
from tests.planner.kit import make_settings
from ucsearch.certificate import api
from ucsearch.planner.decide.states import Kinds

SETTINGS = make_settings()


def panel(count: int) -> tuple[Any, list[Any], uc.Trace]:
    kind = Kinds(SETTINGS).kind(SETTINGS.task, {})
    rng = np.random.default_rng(3)
    members = np.round(rng.gamma(4.0, 2.0, (count, 6, 4)) * rng.uniform(0.5, 3.0, (count, 1, 1)), 1)
    return (
        kind.task,
        [SETTINGS.task.state(float(i % 9), [5.0], 5.0) for i in range(count)],
        uc.Trace.from_members(members),
    )


@pytest.mark.parametrize("windows", sizes(8, 16))
@pytest.mark.parametrize("mode", ["mean", "members"])
def test_the_same_bytes_with_fewer_searches(mode: Any, windows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    task, states, trace = panel(windows)
    policy = uc.Exact(depth=4, risk=0.25, mode=mode)
    spent = uc.search_panel(task, states, trace, policy, engine="python").expansions
    searched: list[int] = []
    real, again = api.search_panel, api.search_again

    def counted(task: Any, states: Any, *args: Any, **options: Any) -> Any:
        searched.append(len(states))
        return real(task, states, *args, **options)

    def counted_again(plan: Any, *args: Any, **options: Any) -> Any:
        searched.append(len(plan))
        return again(plan, *args, **options)

    monkeypatch.setattr(api, "search_panel", counted)
    monkeypatch.setattr(api, "search_again", counted_again)
    for budget in (2_000_000 - 1, int(np.median(spent)), int(spent.min()), 1):
        common: dict[str, Any] = dict(
            run=uc.Run(engine="python"), proof=uc.Proof(kind="bound", node_budget=budget), params=SETTINGS.task.params()
        )
        searched.clear()
        ours = api.certify_panel(task, states, trace, policy, **common)
        rest = int((spent >= budget).sum())
        assert searched[0] == windows
        assert (searched[1] == rest) if rest else (len(searched) == (2 if mode == "mean" else 3))
        with monkeypatch.context() as patch:
            patch.setattr(api, "_with_budget", lambda plan, exact, common: real(
                task, states, plan.trace, exact, keep_paths=True, params=SETTINGS.task.params(), **common
            ))  # fmt: skip
            theirs = api.certify_panel(task, states, trace, policy, **common)
        for name in ("evidence", "claims"):
            for a, b in zip(getattr(ours, name), getattr(theirs, name), strict=True):
                assert a.tobytes() == b.tobytes()
        for name in ("paths", "upper_paths", "oracle_nodes", "activity_nodes", "released"):
            assert getattr(ours, name).tobytes() == getattr(theirs, name).tobytes()
