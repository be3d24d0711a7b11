"""Decisions in, shares out: fallbacks keep their action, the words name the limit, nothing leaves without a proof."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.decision.gate import Reason
from ucsearch.tasks import LeadTimeInventory

CONFIG = LeadTimeInventory(
    lead_time=1, order_sizes=(0.0, 6.0, 12.0, 18.0, 24.0), holding=1.0, shortage=9.0, fixed_cost=4.0
)
NAMES = [f"SKU-{i}" for i in range(12)]


def decided(**policy: object) -> uc.DecisionPanel:
    rng = np.random.default_rng(4)
    trace = uc.Trace.from_members(rng.poisson(rng.uniform(4.0, 14.0, 12)[:, None, None], (12, 10, 3)).astype(float))
    states = [CONFIG.state(float(rng.integers(0, 8)), [float(rng.integers(0, 6))]) for _ in NAMES]
    settings: dict[str, object] = {"depth": 2, "mode": "members", "every_action": True, **policy}
    return uc.decide_panel(
        CONFIG.task(), states, trace, uc.Exact(**settings), proof=uc.Proof(kind="oracle"), run=uc.Run(engine="python")
    )  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def panel() -> uc.DecisionPanel:
    return decided()


def truck(limit: float = 60.0, **more: object) -> uc.Shared:
    return uc.Shared(name="truck", limit=limit, use="units", **more)  # type: ignore[arg-type]


def test_shares_keep_the_limit_and_say_what_was_cut(panel: uc.DecisionPanel) -> None:
    found = uc.allocate(panel, truck(), series=NAMES, gap_share=1.0)
    assert found.served
    assert math.fsum(s.uses[0] for s in found.shares) <= 60.0
    cut = [s for s in found.shares if s.binding]
    assert cut
    assert all(s.action is not None and s.alone is not None and s.action < s.alone for s in cut)
    text = found.explain()
    assert f"{cut[0].series} got order {cut[0].action:g} instead of order {cut[0].alone:g}: truck is full" in text
    assert found["SKU-3"].pass_kind == "allocated"


def test_a_gap_of_rounding_size_is_no_amount(panel: uc.DecisionPanel) -> None:
    found = uc.allocate(panel, truck(104.0), series=NAMES, gap_share=1.0)
    assert found.result is not None
    assert 0.0 < found.gap <= found.result.rounding
    assert found.explain().splitlines()[0].endswith("no allocation is worth more.")


def test_decisions_one_by_one_and_a_panel_give_the_same(panel: uc.DecisionPanel) -> None:
    one = uc.allocate(panel, truck(), series=NAMES)
    other = uc.allocate([panel[w] for w in range(len(panel))], truck(), series=NAMES)
    assert [s.action for s in one.shares] == [s.action for s in other.shares]
    assert one.result is not None
    assert other.result is not None
    assert (one.result.lower, one.result.upper) == (other.result.lower, other.result.upper)


def test_a_gap_above_the_limit_sends_the_fallbacks(panel: uc.DecisionPanel) -> None:
    tight = uc.allocate(panel, truck(61.0), series=NAMES, gap_share=0.0)
    assert tight.reason is Reason.ALLOCATION_GAP
    assert {s.outcome for s in tight.shares} <= {uc.Outcome.FALLBACK, uc.Outcome.HOLD}
    best = uc.allocate(panel, truck(61.0), series=NAMES, gap_share=0.0, serve="best")
    assert best.served
    assert not best.passed
    assert "not within the asked gap" in best.explain()


def test_fallbacks_that_break_the_limit_do_not_leave(panel: uc.DecisionPanel) -> None:
    """Repeating the last orders needs more than the truck holds, so nothing leaves."""
    total = sum(float(panel.fallback[w]) for w in range(len(panel)))
    found = uc.allocate(panel, truck(max(total - 1.0, 0.0)), series=NAMES, gap_share=0.0)
    if found.served:
        pytest.skip("the allocation is proved without any gap")
    assert {s.outcome for s in found.shares} == {uc.Outcome.HOLD}


def test_a_series_that_fell_back_keeps_its_action_and_its_use_comes_off_first() -> None:
    panel = decided(node_budget=1)
    found = uc.allocate(panel, truck(5.0), series=NAMES)
    stuck = [c for c in found.cases if c.outcome is not uc.Outcome.RELEASED]
    assert stuck
    if sum(c.action or 0.0 for c in stuck) > 5.0:
        assert found.reason is Reason.BUDGET_INFEASIBLE
        assert "is missing" in found.explain()
    assert all(s.action == c.action for s, c in zip(found.shares, found.cases, strict=True) if c in stuck)


def test_what_is_used_does_not_drown_in_a_huge_limit(panel: uc.DecisionPanel) -> None:
    small = uc.allocate(panel, uc.Shared(name="truck", limit=1e6, use="units"), series=NAMES).result
    huge = uc.allocate(panel, uc.Shared(name="truck", limit=1e300, use="units"), series=NAMES).result
    assert small is not None
    assert huge is not None
    assert huge.table()[0].used == small.table()[0].used > 0.0


def test_a_limit_with_room_left_is_not_called_full(panel: uc.DecisionPanel) -> None:
    small = uc.allocate(panel, truck(limit=1.5), series=NAMES, serve="best")
    assert small.result is not None
    assert small.result.table()[0].used == 0.0
    assert "truck is too small for more" in small.explain()
    assert "is full" not in small.explain()


def test_limits_by_group_and_several_at_once(panel: uc.DecisionPanel) -> None:
    per = {name: "A" if i % 2 else "B" for i, name in enumerate(NAMES)}
    both = [truck(limit={"A": 30.0, "B": 36.0}, per=per), uc.Shared(name="lines", limit=5, use="lines")]  # type: ignore[arg-type]
    found = uc.allocate(panel, both, series=NAMES, serve="best")
    for group, limit in (("A", 30.0), ("B", 36.0)):
        assert math.fsum(s.uses[0] for s in found.shares if per[s.series] == group) <= limit
    assert sum(s.uses[1] for s in found.shares) <= 5
    assert "truck of A" in found.explain()
    frame = found.frame("pandas")
    assert list(frame["series"]) == NAMES
    assert "use of lines" in frame


def test_a_function_or_a_multiple_of_a_use(panel: uc.DecisionPanel) -> None:
    litres = dict.fromkeys(NAMES, 2.0)
    named = uc.allocate(panel, truck(120.0, times=litres), series=NAMES, serve="best")
    own = uc.allocate(
        panel, uc.Shared(name="truck", limit=120.0, use=lambda s, a, p: 2.0 * a), series=NAMES, serve="best"
    )
    assert [s.action for s in named.shares] == [s.action for s in own.shares]


@pytest.mark.parametrize(
    ("shared", "words"),
    [
        (lambda: uc.Shared(name="x", limit=1.0, use="weight"), r"one of \['lines', 'spend', 'units'\]"),
        (lambda: uc.Shared(name="x", limit=1.0, use=lambda s, a, p: -a - 1.0), "at least 0"),
        (lambda: uc.Shared(name="x", limit=1.0, use=lambda s, a, p: 1 / 0), "ZeroDivisionError"),
        (lambda: uc.Shared(name="x", limit=1.0, use="units", times={"SKU-0": 1.0}), "finite number"),
        (lambda: uc.Shared(name="x", limit=-1.0, use="units"), "at least 0"),
        (lambda: uc.Shared(name="", limit=1.0, use="units"), "non-empty"),
        (lambda: uc.Shared(name="x", limit={"A": 1.0}, use="units"), "one for each group"),
        (
            lambda: uc.Shared(name="x", limit={"A": 1.0}, use="units", per=dict.fromkeys(NAMES, "B")),
            "a group with a limit",
        ),
    ],
)
def test_bad_limits_are_named(panel: uc.DecisionPanel, shared: object, words: str) -> None:
    with pytest.raises(uc.InputError, match=words):
        uc.allocate(panel, shared(), series=NAMES)  # type: ignore[operator]


def test_names_must_differ(panel: uc.DecisionPanel) -> None:
    with pytest.raises(uc.InputError, match="every series once"):
        uc.allocate(panel, truck(), series=["a"] * 12)


def test_scores_of_different_kinds_are_not_added_up(panel: uc.DecisionPanel) -> None:
    other = decided(mode="mean")
    with pytest.raises(uc.InputError, match="as the first has"):
        uc.allocate([panel, other], truck(), series=[*NAMES, *(f"{n}b" for n in NAMES)])


def test_a_search_without_values_says_which_would_have_them() -> None:
    found = uc.allocate(decided(every_action=False), truck(1.0), series=NAMES)
    assert "every_action=True" in found.explain()


def test_the_picture_shows_the_value_at_other_limits(panel: uc.DecisionPanel) -> None:
    found = uc.allocate(panel, truck(), series=NAMES)
    (picture,) = found.plot("truck").figures
    larger = uc.allocate(panel, truck(120.0), series=NAMES).result
    assert larger is not None
    # The limit itself and twice as much are among the sizes.
    for size, result in ((60, found.result), (120, larger)):
        assert result is not None
        assert f"{size}: {result.lower:.5g} to {result.upper:.5g}" in picture.replace("\u2212", "-").replace(",", "")
    with pytest.raises(uc.InputError, match="shared: saw 'ship', expected one of 'truck'"):
        found.plot("ship")
