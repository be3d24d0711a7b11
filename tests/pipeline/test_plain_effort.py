"""A few decisions are made by the plain engine, unless a single one is minutes of work for it."""

from __future__ import annotations

import pytest

from ucsearch.pipeline.cases import Case, Kinds
from ucsearch.pipeline.plain_effort import is_too_much
from ucsearch.pipeline.scaffold_storage import SETTINGS
from ucsearch.settings import parse_settings

QUARTERS = SETTINGS.replace('period = "hour"', 'period = "15min"').replace("depth = 24 ", "depth = 96 ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SETTINGS, False),
        (QUARTERS, False),
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
