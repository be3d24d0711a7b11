"""The verifier's reading of certificate and route against the planner's, on figures that make every comparison tight.

Figures are drawn from a few values a tolerance apart, so that limits are met exactly, missed by one tolerance, tied or
unknown in thousands of combinations that no search would produce.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ucsearch.certificate import api
from ucsearch.certificate.api import _PATH, Suffixes, _route, _select, _with_suffixes
from ucsearch.certificate.claims import Claims, Evidence, derive
from ucsearch.certificate.route import Retained, choose
from ucsearch.engine.arrays import Col, OutI
from ucsearch.policies import ConstrainedBeam
from ucsearch.verify.allocation_later import amount_used
from ucsearch.verify.decision.claims import _Decision
from ucsearch.verify.decision.gate import _age, _nothing_found, _site, certificate
from ucsearch.verify.monitor import _alike, _close
from ucsearch.verify.verdict import Invalid, shown

WINDOWS, M, HIGH = 4000, 4, 4.0
TAU = 5e-10
SIZES = (0.0, 125.0, 500.0, 1000.0)  # tolerances of 0, TAU / 4, TAU and 2 * TAU
EPS = 1e-12
VALUES = (0.0, TAU, -TAU, 2 * TAU, 0.5, 0.5 + TAU, 0.5 + 2 * TAU, 0.25, 1.0)
NAMES = {
    "sole": "sole_action", "passed": "certificate_pass", "tau": "tau", "gap": "gap", "optimal": "optimal",
    "unique": "unique", "robust": "robust", "search_pass": "search_pass", "regret_bound": "regret_bound",
    "exact_regret": "exact_regret", "oracle_retained": "oracle_retained", "margin": "margin", "eps_a": "eps_a",
    "proxy_slack": "proxy_slack", "paper_pass": "paper_pass", "risk_gap": "risk_gap", "risk_active": "risk_active",
    "search_active": "search_active", "uncertainty_active": "uncertainty_active", "cancellation": "cancellation",
    "lead": "lead",
}  # fmt: skip


def draw(rng: np.random.Generator, unknown: float) -> np.ndarray:
    """(W, m) figures; the last action's is -4, which is far below all others."""
    out = rng.choice(VALUES, (WINDOWS, M))
    out[:, -1] = -HIGH
    out[rng.random((WINDOWS, M)) < unknown] = np.nan
    return out


def make_evidence(rng: np.random.Generator, exact: bool) -> Evidence:
    actions = rng.random((WINDOWS, M)) < 0.8
    lower = np.where(actions, draw(rng, 0.3), np.nan)
    upper = np.where(rng.random((WINDOWS, M)) < 0.5, lower, draw(rng, 0.0))
    upper = np.where(np.isnan(upper), draw(rng, 0.0), upper) if exact else np.where(draw(rng, 0.1) > -9, upper, np.nan)
    uncertainty = np.where(np.isnan(lower), np.nan, rng.choice((0.0, 1.0), (WINDOWS, M)))
    selected = _select(np.stack([lower, lower, uncertainty], axis=2), actions)
    searched = np.where(rng.random((WINDOWS, M)) < 0.7, lower, draw(rng, 0.3))
    searched_selected = np.where(rng.random(WINDOWS) < 0.8, selected, rng.integers(-1, M, WINDOWS))
    return Evidence(
        actions=actions, lower=lower, lower_reward=np.where(np.isnan(lower), np.nan, rng.choice(VALUES, (WINDOWS, M))),
        lower_uncertainty=uncertainty, searched=searched, upper=upper, exact=np.full(WINDOWS, exact),
        reward_lower=draw(rng, 0.3), reward_upper=draw(rng, 0.2), certain_lower=draw(rng, 0.3),
        certain_upper=draw(rng, 0.2), selected=selected, searched_selected=searched_selected,
        lower_size=rng.choice(SIZES, (WINDOWS, M)), searched_size=rng.choice(SIZES, (WINDOWS, M)),
        upper_size=rng.choice(SIZES, (WINDOWS, M)), reward_size=rng.choice(SIZES, (WINDOWS, M)),
        certain_size=rng.choice(SIZES, (WINDOWS, M)), share=np.full(WINDOWS, EPS),
    )  # fmt: skip


def record_of(e: Evidence, w: int, eps_m: float, claims: Claims, **settings: Any) -> dict[str, Any]:
    """As much of a record as the arithmetic reads."""
    rivals = [
        {
            "index": i,
            "retained": not math.isnan(e.lower[w, i]),
            "score": shown(float(e.lower[w, i])),
            "reward": shown(float(e.lower_reward[w, i])),
            "uncertainty": shown(float(e.lower_uncertainty[w, i])),
            "upper": shown(float(e.upper[w, i])),
            "reward_only_score": shown(float(e.reward_lower[w, i])),
            "reward_only_upper": shown(float(e.reward_upper[w, i])),
            "certain_score": shown(float(e.certain_lower[w, i])),
            "certain_upper": shown(float(e.certain_upper[w, i])),
            "release_margin": None,
            "size": float(e.lower_size[w, i]),
            "upper_size": float(e.upper_size[w, i]),
            "reward_only_size": float(e.reward_size[w, i]),
            "certain_size": float(e.certain_size[w, i]),
        }
        for i in range(M)
        if e.actions[w, i]
    ]
    claim = {"eps_m": eps_m, "eps_a": shown(float(claims.eps_a[w])), "action_index": -1, "baseline_index": -1}
    settings = {"policy": "UCBeam", "algorithm": "beam", "reach": 1, **settings}
    return {"claim": claim, "settings": settings, "rivals": rivals}


def certificate_of(record: dict[str, Any], searched: Any, first: int | None) -> dict[str, Any]:
    return certificate(record, {rival["index"]: rival for rival in record["rivals"]}, searched, first, EPS)


def searched_of(e: Evidence, w: int) -> tuple[dict[int, tuple[float, float]], int | None]:
    first = int(e.searched_selected[w])
    known = {
        i: (float(e.searched[w, i]), float(e.searched_size[w, i])) for i in range(M) if not math.isnan(e.searched[w, i])
    }
    return known, None if first < 0 else first


def same(a: Any, b: Any) -> bool:
    return bool(a == b or (isinstance(a, float) and math.isnan(a) and math.isnan(b)))


@pytest.mark.parametrize("eps_m", [0.0, 0.25, 0.125])
@pytest.mark.parametrize("exact", [True, False])
def test_every_claim_is_read_alike(eps_m: float, exact: bool) -> None:
    e = make_evidence(np.random.default_rng([int(8 * eps_m), exact]), exact)
    claims = derive(e, eps_m)
    seen: dict[str, set[Any]] = {name: set() for name in NAMES}
    for w in range(WINDOWS):
        found = certificate_of(record_of(e, w, eps_m, claims), *searched_of(e, w))
        assert found["action_index"] == found["selected_index"] == e.selected[w]
        for ours, theirs in NAMES.items():
            value = getattr(claims, ours)[w].item()
            if e.selected[w] < 0 and ours in ("eps_a", "oracle_retained", "tau"):
                continue
            assert same(found[theirs], value), (w, theirs, found[theirs], value)
            seen[ours].add(value)
    flags = {name for name, values in seen.items() if values <= {True, False}}
    alone = {"oracle_retained", "paper_pass"} if not exact else set()
    assert {name for name in flags if len(seen[name]) < 2} == alone


@pytest.mark.parametrize("mode", [0, 2])
def test_every_route_is_read_alike(mode: int) -> None:
    rng = np.random.default_rng(mode)
    e = make_evidence(rng, True)
    # Mostly the first action is the reward-only optimum: it scores less and is more uncertain than others.
    e.lower[:, 0] = rng.choice((-0.25, 0.0, -TAU, 0.25), WINDOWS)
    e.lower_reward[:, 0] = rng.choice((0.5, 1.0, 0.75, 0.0), WINDOWS)
    e.reward_lower[:, 0] = rng.choice((2.0, 2.0, 2.0, np.nan), WINDOWS)
    e.actions[:, 0] = True
    calm = rng.choice((0.0, 0.25, 0.5, 1.0 - 2 * TAU), (WINDOWS, M))
    e.lower_uncertainty[:] = np.where(np.isnan(e.lower), np.nan, calm)
    e.lower_uncertainty[:, 0] = rng.choice((1.0, 2.0), WINDOWS)
    e = e._replace(selected=_select(np.stack([e.lower, e.lower, e.lower_uncertainty], axis=2), e.actions))
    steps = rng.choice((0.0, 0.25, -0.25, TAU), (WINDOWS, M))
    near_equal, band, budget, risk = 0.5, 0.25, 0.75, 0.5
    reward0 = np.where(e.actions, e.reward_lower, np.nan)
    known = ~np.isnan(reward0).all(axis=1)
    baseline = np.where(known, np.argmax(np.where(np.isnan(reward0), -np.inf, reward0), axis=1), -1)
    policy = ConstrainedBeam(depth=2, width=M, risk=risk, near_equal=near_equal, band=band, utility_budget=budget)
    first_steps = steps if mode != 2 else np.full_like(steps, np.nan)
    retained = e.actions & ~np.isnan(e.lower)
    paths = Retained(retained, e.lower, e.lower_reward, e.lower_uncertainty, first_steps, e.lower_size, e.share)
    route = choose(paths, e.selected, baseline, policy)
    claims = derive(e._replace(selected=route.released), 0.0)
    options = dict(
        policy="ConstrainedBeam", mode=mode, risk=risk, near_equal=near_equal, band=band, utility_budget=budget
    )
    routed = 0
    for w in range(WINDOWS):
        record = record_of(e, w, 0.0, claims, **options)
        for rival in record["rivals"]:
            rival["step_score"] = float(steps[w, rival["index"]])
            rival["release_margin"] = shown(float(route.margins[w, rival["index"]]))
        record["claim"]["baseline_index"] = int(baseline[w])
        found = certificate_of(record, *searched_of(e, w))
        assert found["baseline_index"] == baseline[w]
        assert found["action_index"] == route.released[w], w
        assert same(found["release_margin"], float(route.margin[w]))
        assert not route.routed[w] or found["lead"] == route.margin[w] - route.tau[w]
        assert all(same(found["margins"][r["index"]], float(route.margins[w, r["index"]])) for r in record["rivals"])
        routed += bool(route.routed[w]) and route.released[w] != e.selected[w]
    assert routed > 50


def test_any_reward_only_optimum_may_be_the_baseline_and_nothing_else() -> None:
    e = make_evidence(np.random.default_rng(5), True)
    e = e._replace(
        actions=np.ones_like(e.actions), lower=np.full_like(e.lower, np.nan), selected=np.full(WINDOWS, -1),
        reward_lower=np.tile([1.0, 0.5, 1.0, np.nan], (WINDOWS, 1)),
    )  # fmt: skip
    options = dict(policy="ConstrainedBeam", mode=0, risk=0.5, near_equal=0.5, band=0.25, utility_budget=0.75)
    record = record_of(e, 0, 0.0, derive(e, 0.0), **options)
    for claimed, derived in ((0, 0), (2, 2), (1, 0), (3, 0), (-1, 0)):
        record["claim"]["baseline_index"] = claimed
        assert certificate_of(record, {}, None)["baseline_index"] == derived
    for rival in record["rivals"]:
        rival["reward_only_score"] = None
    assert certificate_of(record, {}, None)["baseline_index"] == -1


def test_ages_in_other_zones_and_unknown_ones() -> None:
    noon = "2026-01-01T12:00:00+00:00"
    assert _age(noon, ["2026-01-01T12:00:00+02:00"]) == 7200.0
    assert _age("2026-01-01T12:00:00", ["2026-01-01T11:00:00+00:00"]) == 3600.0
    assert _age("2026-01-01T12:00:00+01:00", ["2026-01-01T11:00:00"]) == 0.0
    for now, issued in (("", [noon]), (noon, []), ("", []), ("now", [noon]), (noon, ["then"])):
        assert math.isnan(_age(now, issued))


@pytest.mark.parametrize("reach", [1, 4, 7])
def test_sums_in_another_order_may_differ_by_their_length(reach: int) -> None:
    """Of what is added up on the path, on the proposed path, or of the value itself, whichever is largest."""
    for value, size, chosen in ((-8.0, 1.0, 1.0), (1.0, 8.0, 1.0), (1.0, 1.0, 8.0), (1.0, math.inf, 8.0)):
        own = SimpleNamespace(own={3: {"size": chosen}}, claim={"action_index": 3}, p=SimpleNamespace(eps=reach * EPS))
        assert _Decision._rounding(own, value, size) == reach * EPS * 8.0  # type: ignore[arg-type]


def test_the_reward_only_path_is_retained_unless_a_better_one_was_found() -> None:
    """Of two first actions the second is reward-only optimal: reward 6, uncertainty 4, so 2 at risk 1."""
    columns = max(_PATH) + 1

    def outputs(rows: list[list[float]], flags: list[int], path: int) -> Any:
        table = np.zeros((1, 2, columns))
        table[0][:, _PATH] = rows
        out_i = np.zeros((1, len(OutI) + 8), int)
        out_i[0, OutI.FIRST] = 1
        paths = np.full((1, 2, 3), path)
        return SimpleNamespace(table=table, flags=np.array([flags]), paths=paths, path=paths[:, 1], out_i=out_i)

    only = SimpleNamespace(outputs=outputs([[0.0] * 4, [6.0, 6.0, 4.0, 7.0]], [0, 0], 9))
    proof = SimpleNamespace(outputs=outputs([[0.0] * 4] * 2, [0, 0], 5))  # has reached nothing
    for score, kept in ((1.0, True), (2.0, False), (3.0, False), (math.nan, True)):
        plan = SimpleNamespace(
            outputs=outputs([[4.0, 5.0, 1.0, 5.0], [score, score + 4.0, 4.0, 9.0]], [0, 0], 1),
            settings=SimpleNamespace(risk=1.0),
        )
        searches: Any = SimpleNamespace(plan=plan, proven=proof, reward_only=only)
        values, paths = _with_suffixes(searches, np.array([[True, True]]), Suffixes(False, True))
        assert values[0, 0].tolist() == [4.0, 5.0, 1.0, 5.0]
        assert (paths[0, 0] == 1).all()
        assert (values[0, 1].tolist() == [2.0, 6.0, 4.0, 7.0]) is kept
        assert (paths[0, 1] == (9 if kept else 1)).all()


@pytest.mark.parametrize("mode", ["mean", "members"])
def test_a_step_s_score_is_its_reward_less_its_risk(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Retained] = []
    monkeypatch.setattr(api, "choose", lambda paths, *_: seen.append(paths))
    table = np.zeros((1, 2, max(Col) + 1))
    table[0, :, Col.STEP_REWARD], table[0, :, Col.STEP_UNCERTAINTY] = (5.0, 7.0), (2.0, 8.0)
    outputs = SimpleNamespace(table=table, out_i=np.zeros((1, len(OutI) + 8), int))
    plan = SimpleNamespace(outputs=outputs, settings=SimpleNamespace(reach=1))
    policy = SimpleNamespace(risk=0.5, mode=mode, near_equal=0.0, band=0.0, utility_budget=0.0)
    _route(plan, policy, make_evidence(np.random.default_rng(1), True), plan)  # type: ignore[arg-type]
    assert np.array_equal(seen[0].step_score[0], [4.0, 3.0] if mode == "mean" else [np.nan] * 2, equal_nan=True)


def test_figures_of_the_monitor_are_close() -> None:
    for derived in (0.25, -3.0, 1e6):
        size = max(1.0, abs(derived))
        _close("evidence", derived + 0.9e-9 * size, derived)
        assert _alike({"a": [derived + 0.9e-9 * size, "x"]}, {"a": [derived, "x"]})
        assert not _alike({"a": [derived + 1.1e-9 * size, "x"]}, {"a": [derived, "x"]})
        with pytest.raises(Invalid):
            _close("evidence", derived + 1.1e-9 * size, derived)


def test_what_is_used_is_a_finite_amount() -> None:
    assert amount_used(lambda s, a, p: a, None, 2.0, None, 1.5, "use") == 3.0
    assert amount_used(lambda s, a, p: -1.0, None, math.nan, None, 1.0, "use") == 0.0  # an action that is not there
    for amount in (-1e-300, math.inf, math.nan, "x", None):
        with pytest.raises(Invalid, match="use"):
            amount_used(lambda s, a, p, amount=amount: amount, None, 2.0, None, 1.0, "use")


def test_a_figure_of_a_site_is_a_finite_number() -> None:
    problem: Any = SimpleNamespace(state=None, actions=[1.0, 2.0], params=None)

    def of(value: Any, index: int = 1) -> float:
        return _site(SimpleNamespace(figure=lambda s, a, p: a * value if value == 0.25 else value), problem, index)

    assert of(0.25) == 0.5
    assert [of(x) for x in (3, True, np.float64(2.0))] == [3.0, 1.0, 2.0]
    for odd in (math.nan, math.inf, "1", b"1", bytearray(b"1"), None, [1.0]):
        assert math.isnan(of(odd))
    figure = SimpleNamespace(figure=lambda s, a, p: np.array([1.0]))
    assert math.isnan(_site(figure, problem, 1))
    assert math.isnan(of(0.25, -1))


def test_a_search_that_was_ended_says_nothing() -> None:
    def record(**claim: Any) -> dict[str, Any]:
        told = {"member_feasible": None, "counters": {"expansions": 0}, **claim}
        return {"claim": told, "rivals": [], "gate": {"settings": {"time_budget_s": 1.0}, "elapsed_s": 2.0}}

    _nothing_found(record())
    _nothing_found(record(states=0, transitions=0, open_value=None, flexibility=None))
    for change in (
        {"states": 1}, {"transitions": 1}, {"open_value": 0.0}, {"flexibility": 0.0}, {"member_feasible": 1.0},
        {"counters": {"expansions": 1}},
    ):  # fmt: skip
        with pytest.raises(Invalid, match=next(iter(change))):
            _nothing_found(record(**change))
    for part, value in (("elapsed_s", 1.0), ("settings", {"time_budget_s": None})):
        late = record()
        late["gate"][part] = value
        with pytest.raises(Invalid, match="elapsed"):
            _nothing_found(late)
