"""Places where one rounding error, one side of a step or one tie decides, and what must come out there."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.certificate.members.dual import admissible_weights, rounding_is_small
from ucsearch.errors import InputError
from ucsearch.tasks import LeadTimeInventory
from ucsearch.tasks.inventory.rules import ordered
from ucsearch.tasks.inventory.sizes import rounded_up
from ucsearch.trace.members import pmf_quantile


@pytest.mark.parametrize(
    ("pack", "wanted", "units"), [(1.1, 1.1 * 3.0, 3), (0.1, 0.3, 3), (0.7, 0.7 * 3.0, 3), (0.7, 2.2, 4)]
)
def test_packs_that_fit_exactly_are_not_rounded_up(pack: float, wanted: float, units: int) -> None:
    """3.3000000000000003 units are three packs of 1.1, not four."""
    problem = LeadTimeInventory(order_sizes=(0.0, wanted), case_pack=pack)
    state = problem.state(on_hand=0.0)
    assert ordered(state, wanted, problem.params()) == pytest.approx(units * pack)


@pytest.mark.parametrize(
    "pack", [-1.0, math.nan, math.inf, True, "6", 10**400, 5e-324, 1e-300, 1e12, 1e17], ids=lambda x: str(x)[:9]
)
def test_packs_that_no_order_can_be_counted_in_are_refused(pack: Any) -> None:
    """A pack of 1e12 made an order of 3 one of nothing; one of 5e-324 an exception inside a rule."""
    with pytest.raises(InputError, match="case_pack"):
        LeadTimeInventory(order_sizes=(0.0, 3.0, 7.0), case_pack=pack).params()


@pytest.mark.parametrize("pack", [0.0, -0.0, 1e-9, 0.1, 1 / 3, 6, 1e6])
@pytest.mark.parametrize("least", [0.0, 1e-9, 0.25, 7.0, 19.0, 21.0, 1e12])
def test_what_is_ordered_is_whole_packs_of_at_least_the_minimum(pack: float, least: float) -> None:
    problem = LeadTimeInventory(
        order_sizes=(0.0, 3.0, 7.0, 20.0), case_pack=pack, minimum_order=least, capacity=20.0, lead_time=1
    )
    state, p, task = problem.state(2.0), problem.params(), problem.task()
    for wanted in problem.order_sizes:
        amount = ordered(state, wanted, p)
        assert (amount > 0.0) is (wanted > 0.0)
        assert amount == 0.0 or amount >= max(wanted, least) * (1.0 - 1e-9)
        if pack > 0.0:
            assert amount / pack == pytest.approx(round(amount / pack), rel=1e-12, abs=1e-6)
            assert amount <= (max(wanted, least if wanted else 0.0) + pack) * (1.0 + 1e-12)
        assert bool(task.feasible(state, wanted, p)) is (2.0 + amount <= 20.0)


HUGE: Any = 10**400  # no float holds it


@pytest.mark.parametrize(
    "make",
    [
        *(lambda n=n: uc.Gate(**{n: HUGE}) for n in ("regret_limit", "max_trace_age_s", "max_eps_c", "time_budget_s")),
        *(lambda n=n: uc.UCBeam(depth=2, width=2, **{n: HUGE}) for n in ("risk", "discount", "info_bonus")),
        lambda: uc.MCTS(depth=2, simulations=3, c_uct=HUGE), lambda: uc.Proof(eps_m=HUGE),
        lambda: LeadTimeInventory(order_sizes=(0.0, HUGE)).task(), lambda: LeadTimeInventory(holding=HUGE).task(),
    ],
)  # fmt: skip
def test_whole_numbers_that_no_float_holds_are_refused(make: Any) -> None:
    with pytest.raises(InputError):
        make()


def test_scaled_orders_that_are_multiples_stay() -> None:
    assert rounded_up(np.array([0.0, 1.1 * 3.0, 0.3, 3.4]), 1.1) == pytest.approx([0.0, 3.3, 1.1, 4.4])
    assert rounded_up(np.array([0.7, 0.70001, -0.05]), 0.1) == pytest.approx([0.7, 0.8, 0.0])
    assert not np.signbit(rounded_up(np.array([-0.05]), 0.1)).any()


def test_a_level_met_exactly_belongs_to_the_smaller_value() -> None:
    quantile = pmf_quantile(np.array([3.0, 1.0, 2.0]), np.array([0.25, 0.5, 0.25]))
    assert [quantile(level, 0) for level in (0.1, 0.5, 0.75, 1.0)] == [1.0, 1.0, 2.0, 3.0]
    assert quantile(math.nextafter(0.5, 1.0), 0) == 2.0
    assert quantile(math.nextafter(0.75, 1.0), 0) == 3.0


# -------------------------------------------------------------------- ties of exact search over members


class Path(NamedTuple):
    togo: float
    last: float


class Rewards(NamedTuple):
    first: tuple[float, ...]  # (4,) of actions 0 and 1, for the first and the second member
    second: tuple[float, ...]  # (4,) of any action after 0 and after 1, for the first and the second member


def always(s: Path, a: float, p: Rewards) -> bool:
    return s.last < 0.0 or a == 0.0


def move(s: Path, a: float, y: float, p: Rewards) -> Path:
    at = int(a) * 2 + int(y)
    return Path(p.second[at] if s.last < 0.0 else 0.0, a)


def earn(s: Path, a: float, y: float, p: Rewards) -> float:
    return p.first[int(a) * 2 + int(y)] if s.last < 0.0 else p.second[int(s.last) * 2 + int(y)]


def nothing(s: Path, p: Rewards) -> float:
    return 0.0


def prepare(outcomes: Any, p: Rewards) -> Any:
    return outcomes.copy()


def bound(s: Path, h: int, table: Any, p: Rewards) -> float:
    return s.togo


TASK = uc.Task(
    name="ties", state=Path, actions=[0, 1], feasible=always, step=move, reward=earn, fallback=nothing, prepare=prepare,
    bound=bound, params=Rewards((0.0,) * 4, (0.0,) * 4),
)  # fmt: skip
TRACE = uc.Trace.from_members([[0.0, 0.0], [1.0, 1.0]])


def exact(first: tuple[float, ...], second: tuple[float, ...]) -> tuple[float, ...]:
    plan = uc.search(
        TASK, Path(0.0, -1.0), TRACE, uc.Exact(depth=2, mode="members", risk=0.0, order="bound"), engine="python",
        params=Rewards(first, second),
    )  # fmt: skip
    assert plan.score == 1.0
    return plan.path


def test_of_equal_scores_the_calmer_path_wins_although_it_begins_less_calm() -> None:
    """Members' returns may come together again: 0 ends in (0, 2), 1 goes by (-1, 3) to (1, 1)."""
    assert exact((0.0, 2.0, -1.0, 3.0), (0.0, 0.0, 2.0, -2.0)) == (1.0, 0.0)


def test_of_equal_scores_and_equal_calm_the_smaller_path_wins_although_it_is_met_later() -> None:
    """0 begins less calm, so 1 is looked at first; both end in (1, 1)."""
    assert exact((0.0, 2.0, 1.0, 1.0), (1.0, -1.0, 0.0, 0.0)) == (0.0, 0.0)


def test_of_equal_scores_a_less_calm_path_does_not_win() -> None:
    assert exact((1.0, 1.0, 1.0, 1.0), (0.0, 0.0, -1.0, 1.0)) == (0.0, 0.0)
    assert exact((1.0, 1.0, 1.0, 1.0), (-1.0, 1.0, 0.0, 0.0)) == (1.0, 0.0)


# -------------------------------------------------------------------- the members bound


@pytest.mark.parametrize("lam", [1e-9, 1e-6, 0.5])
def test_weights_never_spread_more_than_the_risk(lam: float) -> None:
    """At a small risk rounding alone makes them spread fourteen times as much; then the bound is none."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(500):
        p = rng.dirichlet(np.ones(4))
        w = np.ones(4)
        admissible_weights(1000.0 + rng.normal(size=4), p, lam, (1, 0.2), w)
        mean = math.fsum(p * w)
        worst = max(worst, math.sqrt(math.fsum(p * (w - mean) ** 2)))
        assert mean == pytest.approx(1.0, abs=1e-12)
        assert (w >= 0.0).all()
    assert lam * (1.0 - 1e-3) <= worst <= lam * (1.0 + 1e-5)


@pytest.mark.parametrize("unit", [2.0**-40, 1.0, 2.0**40])
def test_large_penalties_make_no_bound(unit: float) -> None:
    """What penalties add and take away again is rounded; beyond a share of the bound, or of the rewards, it counts."""
    assert rounding_is_small(0.0, 10, 0.0, 0.0)
    assert rounding_is_small(1e3 * unit, 10, 1.0 * unit, 0.0)
    assert not rounding_is_small(1e4 * unit, 10, 1.0 * unit, 0.0)
    assert not rounding_is_small(1e3 * unit, 100, 1.0 * unit, 0.0)
    assert rounding_is_small(1e4 * unit, 10, -10.0 * unit, 0.0)
    assert rounding_is_small(1e4 * unit, 10, 0.0, 100.0 * unit)
    assert not rounding_is_small(1e4 * unit, 10, 0.0, 10.0 * unit)
    assert not rounding_is_small(math.nan, 10, 1.0, 1.0)
