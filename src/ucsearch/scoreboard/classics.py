"""The inventory classics on the same forecast and under the same rules; a wish becomes the nearest allowed order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.inventory.adaptive import forecast_level, rolling_quantile_level
from ucsearch.planning.cases import Case, Kind
from ucsearch.planning.rivals import base_stock, reorder_point
from ucsearch.scoreboard.problem import Problem
from ucsearch.scoreboard.walk import Choice, Chooser
from ucsearch.settings import Settings, parse_settings
from ucsearch.tasks import inventory_rules as rules
from ucsearch.trace import Trace

__all__ = ["classics"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Rule = Callable[[Case, Floats, int, int], float]  # case, members (J, H), window, step -> units wanted, or an action

_PLAIN = b'[task]\nname = "lead_time_inventory"\n[policy]\nname = "exact"\ndepth = 1\n'


class _Ruled:
    """A rule that wants a quantity (`wish`) or names an action itself, window by window."""

    def __init__(self, problem: Problem, rule: Rule, wish: bool) -> None:
        self.problem, self.rule, self.wish = problem, rule, wish
        config = problem.setup.inventory
        self.config: Any = config
        self.kind = Kind(0, config, problem.setup.task, "")

    def __call__(self, t: int, states: Floats, trace: Trace, mask: Bools) -> Choice:
        task, layout = self.problem.setup.task, self.problem.layout
        params: Any = task.params
        grid = task.action_array
        index = np.full(len(states), -1, np.int64)
        for n, row in enumerate(states.tolist()):
            allowed = np.flatnonzero(mask[n])
            if not allowed.size:
                continue
            state = layout.build(row)
            wanted = self.rule(Case(self.kind, state, params, self.config), trace.members[n, :, :, 0], n, t)
            if self.wish:
                orders = np.array([rules.ordered(state, grid[a], params) for a in allowed])
                index[n] = allowed[int(np.argmin(np.abs(orders - max(wanted, 0.0))))]
            else:
                index[n] = int(np.argmax(grid == wanted)) if (grid == wanted).any() else -1
        return Choice(index, np.zeros(len(states), np.int64))


def classics(problem: Problem) -> list[tuple[str, Callable[[], Chooser], str]]:
    """Name, maker and settings of each."""
    config: Any = problem.setup.inventory
    settings: Settings = parse_settings(_PLAIN)
    lead, p = config.lead_time, config.params()
    under = p.shortage + max(p.price - p.unit_cost, 0.0)
    ratio = min(max(under / (under + p.holding), 0.01), 0.999) if under + p.holding > 0.0 else 0.5
    window = 8 * (lead + 1)

    def capped(case: Case, members: Floats, n: int, t: int) -> float:
        span = np.maximum(members, 0.0)
        level = forecast_level(span[:, : lead + 1], ratio)
        cap = forecast_level(span[:, lead : lead + 1], ratio)
        return min(level - rules.position_of(case.state), cap)

    def rolling(case: Case, members: Floats, n: int, t: int) -> float:
        seen = np.concatenate([problem.history[n], problem.realised[n, :t]])
        level = rolling_quantile_level(np.maximum(seen, 0.0), lead, ratio, window=window)
        return level - rules.position_of(case.state)

    def constant(case: Case, members: Floats, n: int, t: int) -> float:
        return float(np.maximum(problem.history[n], 0.0).mean())

    def ruled(rule: Rule, wish: bool = True) -> Callable[[], Chooser]:
        return lambda: _Ruled(problem, rule, wish)

    text = f"fractile {ratio:.3g} of the forecast of {lead + 1} periods"
    return [
        ("base-stock", ruled(lambda case, members, n, t: base_stock(case, members, settings), False), text),
        ("capped base-stock", ruled(capped), f"{text}, capped by that of the arrival period"),
        (
            "(s,S)",
            ruled(lambda case, members, n, t: reorder_point(case, members, settings), False),
            "power approximation",
        ),
        ("rolling quantile", ruled(rolling), f"fractile {ratio:.3g} of the last {window} periods"),
        ("constant order", ruled(constant), "mean of the history"),
    ]
