"""The picture of a decision: what is drawn, for every mode, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.decision.plot import courses_of, plot_decision
from ucsearch.report.charts import LEVELS, quantiles
from ucsearch.report.text import number


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


def decision(**settings: Any) -> uc.Decision:
    policy = uc.CertifiedBeam(**{"depth": 4, "width": 9, "risk": 0.3, "protect": True, **settings})
    return uc.decide(TANK, START, uc.Trace.from_members(MEMBERS), policy, run=uc.Run(engine="python"))


def test_chosen_path_retained_paths_and_fan() -> None:
    made = decision()
    assert made.released
    certificate = made.certificate
    assert certificate is not None
    courses = courses_of(made)
    assert courses.chosen is not None
    assert courses.chosen[1] == [s.level for s in certificate.plan.states]
    assert len(courses.retained) == len([r for r in certificate.rivals if r.path]) - 1 == 2
    assert courses.field == "level"
    picture = made.plot()
    upper, lower = picture.figures
    assert "RELEASED" in picture.title
    assert upper.count('class="other thin"') == 2
    assert upper.count('class="main bar"') == 1
    assert lower.count('class="band') == 2
    middle = float(np.quantile(MEMBERS[:, 0], 0.5, method="inverted_cdf"))
    assert f"step 1: {number(float(f'{middle:.5g}'))} (" in lower


def test_a_picture_is_a_page_and_a_notebook_shows_it(tmp_path: Path) -> None:
    picture = decision().plot()
    picture.save(tmp_path / "decision.html")
    text = (tmp_path / "decision.html").read_text()
    assert text.count("<svg") == 2
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "&lt;svg" in picture._repr_html_()


def test_the_cone_is_what_can_be_reached() -> None:
    # From 2 in steps of 1, between 0 and 4.
    assert courses_of(decision()).reach == [(2.0, 2.0), (1.0, 3.0), (0.0, 4.0), (0.0, 4.0), (0.0, 4.0)]


def test_a_path_that_cannot_be_completed_is_not_in_the_cone() -> None:
    def narrow(s: Tank, a: float, p: Any) -> bool:
        # Above 3 nothing is allowed any more, so 4 is never part of a whole path but as its end.
        return 0.0 <= s.level + a <= 4.0 and s.level <= 3.0

    task = uc.Task(
        name="trap", state=Tank, actions=[-1.0, 0.0, 1.0], feasible=narrow, step=step, reward=reward, fallback=fallback
    )
    made = uc.decide(task, START, uc.Trace.from_members(MEMBERS), uc.Exact(depth=4), run=uc.Run(engine="python"))
    assert [high for _, high in courses_of(made).reach] == [2.0, 3.0, 3.0, 3.0, 4.0]


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
    courses = courses_of(made)
    assert courses.chosen is not None
    assert courses.chosen[0].endswith(", not released")
    assert "FALLBACK (stale_trace)" in made.plot().title


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
    courses = courses_of(made)
    assert (courses.reach, courses.retained, courses.chosen) == ([], [], None)
    upper, lower = plot_decision(made).figures
    assert 'class="main bar"' not in upper
    assert 'class="main bar"' in lower
    assert "HOLD (dead_end), action nothing" in made.plot().title


def test_members_mode_draws_the_mean_of_members() -> None:
    def drain(s: Tank, a: float, y: float, p: Any) -> Tank:
        return Tank(s.level + a - y, s.last)

    task = uc.Task(
        name="drain", state=Tank, actions=[0.0, 1.0], feasible=lambda s, a, p: True, step=drain, reward=reward,
        fallback=fallback,
    )  # fmt: skip
    trace = uc.Trace.from_members([[0.1, 0.1], [0.5, 0.5]], weights=[3.0, 1.0], normalise=True)
    made = uc.decide(task, START, trace, uc.UCBeam(depth=2, mode="members"), run=uc.Run(engine="python"))
    courses = courses_of(made)
    # Both members pour in 1 a step; 0.1 with weight 3/4 and 0.5 with weight 1/4 make 0.2 that drains.
    assert courses.chosen is not None
    assert courses.chosen[1] == pytest.approx([2.0, 2.8, 3.6])
    assert courses.field == "level, mean of members"


def test_scores_mode_draws_the_scores() -> None:
    rng = np.random.default_rng(5)
    trace = uc.Trace.from_scores(rng.normal(size=(5, 3)), rng.random((5, 3)))
    made = uc.decide(TANK, START, trace, uc.Exact(depth=4, mode="scores", risk=0.1), run=uc.Run(engine="python"))
    assert "Scores of the actions" in plot_decision(made).figures[1]


def test_another_field() -> None:
    assert courses_of(decision(), field="last[1]").field == "last[1]"
    assert "last[1]" in plot_decision(decision(), field="last[1]").figures[0]
    with pytest.raises(uc.InputError, match=r"field: saw 'depth', expected one of level, last\[0\], last\[1\]"):
        plot_decision(decision(), field="depth")


def test_a_refused_trace_cannot_be_drawn() -> None:
    made = uc.decide(TANK, START, [[float("nan"), 1.0]], uc.UCBeam(depth=1))
    with pytest.raises(uc.InputError, match="trace was refused"):
        made.plot()


def test_weights_count_in_the_fan() -> None:
    members = np.array([1.0, 2.0, 3.0])
    # A weight of 3/5 is the same as three members of five.
    repeated = np.repeat(members, (1, 1, 3))
    equal = quantiles(repeated.tolist(), [0.2] * 5)
    assert quantiles(members.tolist(), [0.2, 0.2, 0.6]) == equal
    assert list(equal) == np.quantile(repeated, LEVELS, method="inverted_cdf").tolist()
