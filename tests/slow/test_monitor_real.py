"""The monitor on public series that nothing was tuned on: it stops little, and what it stops was worse."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.data, pytest.mark.compiled]


def test_it_stops_little_and_rightly(data_dir: Path) -> None:
    spec = importlib.util.spec_from_file_location("monitor_real", ROOT / "studies" / "monitor_real.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    outcomes = blocked = free = 0
    missed_blocked = missed_free = 0.0
    for name in script.SETS:
        report = script.report_of(name)
        held = [s for s in report.series if s.blocked]
        outcomes += report.outcomes
        blocked += sum(s.blocked for s in held)
        missed_blocked += math.fsum(s.missed_blocked * s.blocked for s in held)
        free += sum(s.outcomes - s.blocked for s in held)
        missed_free += math.fsum(s.missed_free * (s.outcomes - s.blocked) for s in held)
        assert sum(s.blocked for s in held) / report.outcomes <= 0.06, name
    assert blocked > 0
    assert blocked / outcomes <= 0.03
    assert (missed_blocked / blocked) / (missed_free / free) >= 1.3
