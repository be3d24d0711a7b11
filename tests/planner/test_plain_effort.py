"""A few decisions are made by the plain engine, unless a single one is minutes of work for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ucsearch.planner.decide import inputs
from ucsearch.planner.decide.inputs import is_too_much
from ucsearch.planner.decide.states import Case, Kinds
from ucsearch.planner.new.storage import SETTINGS
from ucsearch.planner.settings import parse_settings
from ucsearch.policies import Exact
from ucsearch.tasks import CapacityPlan
from ucsearch.trace import Trace

QUARTERS = SETTINGS.replace('period = "hour"', 'period = "15min"')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SETTINGS, False),
        (QUARTERS, True),  # a whole day, in steps of charge that are a quarter of an hour's
        (QUARTERS.replace("# level_step", "level_step = 0.25\n# level_step"), False),
        (QUARTERS.replace("# ramp = 1.0", "ramp = 1.0"), True),
        (SETTINGS.replace("# ramp = 1.0", "ramp = 1.0").replace("# cycles = 1.5", "cycles = 1.5"), True),
        (QUARTERS.replace("# ramp = 1.0", "ramp = 1.0").replace('"exact"', '"uc_beam"'), False),
    ],
)
def test_limits_that_remember_make_a_plan_too_much(text: str, expected: bool) -> None:
    settings = parse_settings(text.encode())
    config = settings.task
    case = Case(Kinds(settings).kind(config, {}), config.state(level=1.0), config.params(), config)
    assert is_too_much(case, settings) is expected


@pytest.mark.parametrize(
    ("mode", "budget", "expected"), [("members", 1, "compiled"), ("members", 8_000, "python"), ("mean", 1, "python")]
)
def test_a_tree_over_members_is_tried_before_an_engine_is_chosen(
    monkeypatch: pytest.MonkeyPatch, mode: Any, budget: int, expected: str
) -> None:  # fmt: skip
    monkeypatch.setattr(inputs, "TRIED", budget)
    monkeypatch.setattr(inputs, "_LEAST", 1)
    config = CapacityPlan(changes=(-1.0, 0.0, 1.0), largest=4)
    trace = Trace.from_members(np.random.default_rng(1).gamma(4.0, 3.0, (1, 8, 4)))
    policy = Exact(depth=4, mode=mode, risk=0.0)
    found = inputs.engine_after_a_try(config.task(), [config.state(2)], trace, policy, config.params(), None)
    assert found == expected
