"""The picture of a decision: what is drawn, for every mode, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import matplotlib.pyplot as plt

import ucsearch as uc
from ucsearch.decision.plot import CHOSEN, RETAINED, _quantile, plot_decision


class Tank(NamedTuple):
    level: float
    last: tuple[float, ...]


def feasible(s: Tank, a: float, p: Any) -> bool:
    return 0.0 <= s.level + a <= 4.0


def step(s: Tank, a: float, y: float, p: Any) -> Tank:
    return Tank(s.level + a, s.last[1:] + (a,))


def reward(s: Tank, a: float, y: float, p: Any) -> float:
    return y * a


def fallback(s: Tank, p: Any) -> float:
    return 0.0


TANK = uc.Task(
    name="tank", state=Tank, actions=[-1.0, 0.0, 1.0], labels=["out", "rest", "in"],
    feasible=feasible, step=step, reward=reward, fallback=fallback,
)  # fmt: skip
START = Tank(2.0, (0.0, 0.0))
MEMBERS = np.random.default_rng(3).normal(0.5, 1.0, (12, 6))


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


def decision(**settings: Any) -> uc.Decision:
    policy = uc.CertifiedBeam(**{"depth": 4, "width": 9, "risk": 0.3, "protect": True, **settings})
    return uc.decide(TANK, START, uc.Trace.from_members(MEMBERS), policy, run=uc.Run(engine="python"))


def lines(ax: Any, colour: str) -> list[np.ndarray]:
    return [line.get_ydata() for line in ax.get_lines() if line.get_color() == colour]


def band(ax: Any) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest y of the first filled area at each whole x."""
    points = ax.collections[0].get_paths()[0].vertices
    steps = range(int(points[:, 0].max()) + 1)
    low, high = zip(*((at.min(), at.max()) for at in (points[points[:, 0] == x, 1] for x in steps)), strict=True)
    return np.array(low), np.array(high)


def test_chosen_path_retained_paths_and_fan() -> None:
    made = decision()
    assert made.released
    figure = made.plot()
    upper, lower = figure.axes
    certificate = made.certificate
    assert certificate is not None
    (chosen,) = lines(upper, CHOSEN)
    assert chosen.tolist() == [s.level for s in certificate.plan.states]
    retained = [r for r in certificate.rivals if r.path]
    assert len(lines(upper, RETAINED)) == len(retained) - 1 == 2
    bold = {line.get_color(): line.get_linewidth() for line in upper.get_lines()}
    assert bold[CHOSEN] > 2 * bold[RETAINED]
    assert "RELEASED" in upper.get_title(loc="left")
    assert upper.get_ylabel() == "level"
    assert [text.get_text() for text in lower.get_legend().get_texts()] == ["5-95 %", "25-75 %", "mean"]
    assert lower.get_xlabel() == "step"
    assert lines(lower, "C2")[0] == pytest.approx(MEMBERS.mean(axis=0))
    figure.canvas.draw()


def test_the_cone_is_what_can_be_reached() -> None:
    (upper, _) = plot_decision(decision()).axes
    low, high = band(upper)
    # From 2 in steps of 1, between 0 and 4.
    assert low.tolist() == [2.0, 1.0, 0.0, 0.0, 0.0]
    assert high.tolist() == [2.0, 3.0, 4.0, 4.0, 4.0]


def test_a_path_that_cannot_be_completed_is_not_in_the_cone() -> None:
    def narrow(s: Tank, a: float, p: Any) -> bool:
        # Above 3 nothing is allowed any more, so 4 is never part of a whole path but as its end.
        return 0.0 <= s.level + a <= 4.0 and s.level <= 3.0

    task = uc.Task(
        name="trap", state=Tank, actions=[-1.0, 0.0, 1.0], feasible=narrow, step=step, reward=reward, fallback=fallback
    )
    made = uc.decide(task, START, uc.Trace.from_members(MEMBERS), uc.Exact(depth=4), run=uc.Run(engine="python"))
    _, high = band(plot_decision(made).axes[0])
    assert high.tolist() == [2.0, 3.0, 3.0, 3.0, 4.0]


def test_a_refused_decision_is_drawn_as_such() -> None:
    made = uc.decide(
        TANK,
        START,
        uc.Trace.from_members(MEMBERS),
        uc.UCBeam(depth=4),
        gate=uc.Gate(max_trace_age_s=1.0),
        run=uc.Run(engine="python"),
    )
    assert made.outcome is uc.Outcome.FALLBACK
    upper = plot_decision(made).axes[0]
    (style,) = [line.get_linestyle() for line in upper.get_lines() if line.get_color() == CHOSEN]
    assert style == "--"
    assert "FALLBACK (stale_trace)" in upper.get_title(loc="left")
    assert any("not released" in text.get_text() for text in upper.get_legend().get_texts())


def test_a_dead_end_has_a_forecast_and_no_paths() -> None:
    task = uc.Task(
        name="shut",
        state=Tank,
        actions=[0.0],
        feasible=lambda s, a, p: False,
        step=step,
        reward=reward,
        fallback=fallback,
    )
    made = uc.decide(task, START, uc.Trace.from_members(MEMBERS), uc.UCBeam(depth=2), run=uc.Run(engine="python"))
    assert made.outcome is uc.Outcome.HOLD
    upper, lower = plot_decision(made).axes
    assert not upper.get_lines()
    assert lower.get_lines()
    assert "HOLD (dead_end), action nothing" in upper.get_title(loc="left")


def test_members_mode_draws_the_mean_of_members() -> None:
    def drain(s: Tank, a: float, y: float, p: Any) -> Tank:
        return Tank(s.level + a - y, s.last)

    task = uc.Task(
        name="drain", state=Tank, actions=[0.0, 1.0], feasible=lambda s, a, p: True, step=drain, reward=reward,
        fallback=fallback,
    )  # fmt: skip
    trace = uc.Trace.from_members([[0.1, 0.1], [0.5, 0.5]], weights=[3.0, 1.0], normalise=True)
    made = uc.decide(task, START, trace, uc.UCBeam(depth=2, mode="members"), run=uc.Run(engine="python"))
    upper = plot_decision(made).axes[0]
    (chosen,) = lines(upper, CHOSEN)
    # Both members pour in 1 a step; 0.1 with weight 3/4 and 0.5 with weight 1/4 make 0.2 that drains.
    assert chosen == pytest.approx([2.0, 2.8, 3.6])
    assert upper.get_ylabel() == "level, mean of members"


def test_scores_mode_draws_the_scores() -> None:
    rng = np.random.default_rng(5)
    trace = uc.Trace.from_scores(rng.normal(size=(5, 3)), rng.random((5, 3)))
    made = uc.decide(TANK, START, trace, uc.Exact(depth=4, mode="scores", risk=0.1), run=uc.Run(engine="python"))
    lower = plot_decision(made).axes[1]
    assert lower.get_ylabel() == "action score"


def test_axes_of_the_caller() -> None:
    figure, (above, below) = plt.subplots(2, 1)
    assert plot_decision(decision(), (above, below)) is figure
    assert above.get_lines()
    assert below.get_lines()
    figure, alone = plt.subplots()
    assert decision().plot(alone) is figure
    assert alone.get_xlabel() == "step"
    with pytest.raises(uc.InputError, match="ax: saw 3 axes, expected two"):
        plot_decision(decision(), plt.subplots(3, 1)[1])


def test_another_field() -> None:
    upper = plot_decision(decision(), field="last[1]").axes[0]
    assert upper.get_ylabel() == "last[1]"
    with pytest.raises(uc.InputError, match=r"field: saw 'depth', expected one of level, last\[0\], last\[1\]"):
        plot_decision(decision(), field="depth")


def test_a_refused_trace_cannot_be_drawn() -> None:
    made = uc.decide(TANK, START, [[float("nan"), 1.0]], uc.UCBeam(depth=1))
    with pytest.raises(uc.InputError, match="trace was refused"):
        made.plot()


def test_weights_count_in_the_fan() -> None:
    members = np.array([[1.0, 9.0], [2.0, 8.0], [3.0, 7.0]])
    # A weight of 3/5 is the same as three members of five.
    repeated = np.repeat(members, (1, 1, 3), axis=0)
    for level in (0.05, 0.2, 0.25, 0.4, 0.5, 0.6, 0.75, 0.95):
        equal = _quantile(repeated, np.full(5, 0.2), level)
        assert _quantile(members, np.array([0.2, 0.2, 0.6]), level).tolist() == equal.tolist()
        assert equal.tolist() == np.quantile(repeated, level, axis=0, method="inverted_cdf").tolist()
