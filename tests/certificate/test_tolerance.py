"""Tolerance by pair: a rival's size has no say in how two others compare, in any currency; and nobody can forge it."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.certificate.api import _reconciled
from ucsearch.certificate.claims import derive
from ucsearch.check import TaskWarning
from ucsearch.records.canonical import seal
from ucsearch.records.record import decision_record
from ucsearch.verify import verify_record


class At(NamedTuple):
    x: float


class Worth(NamedTuple):
    penalty: float
    late: float  # what action 0 earns after action 1
    unit: float


def feasible(s: At, a: float, p: Worth) -> bool:
    return True


def step(s: At, a: float, y: float, p: Worth) -> At:
    return At(a)


def reward(s: At, a: float, y: float, p: Worth) -> float:
    if a == 3.0:
        return p.penalty * p.unit
    if a == 0.0:
        return p.late * p.unit if s.x == 1.0 else 0.0
    return p.unit if a == 2.0 else 0.5 * p.unit


def noisy(s: At, a: float, y: float, p: Worth) -> float:
    return (1.0 + 0.1 * a) * p.unit * y


def fallback(s: At, p: Worth) -> float:
    return 0.0


TASK = uc.Task(
    name="late", state=At, actions=[0, 1, 2, 3], feasible=feasible, step=step, reward=reward, fallback=fallback,
    params=Worth(-1e12, 900.0, 1.0),
)  # fmt: skip
NOISY = dataclasses.replace(TASK, name="noisy", reward=noisy)
EPS = np.array([[1e-12]])
TRACE = uc.Trace.from_members([[0.0, 0.0]])
NARROW, WIDE = uc.UCBeam(depth=2, width=1, top_k=1), uc.UCBeam(depth=2, width=16)


def decide(policy: Any, worth: Worth, task: uc.Task = TASK, trace: uc.Trace = TRACE, **options: Any) -> uc.Decision:
    return uc.decide(task, At(0.0), trace, policy, params=worth, run=uc.Run(engine="python"), **options)


@pytest.mark.parametrize("unit", [2.0**-40, 1.0, 2.0**40])
@pytest.mark.parametrize("penalty", [-1e3, -1e9, -1e12, -1e15])
def test_a_penalty_elsewhere_makes_nothing_equal(penalty: float, unit: float) -> None:
    narrow = decide(NARROW, Worth(penalty, 900.0, unit))
    assert not narrow.released
    assert narrow.certificate is not None
    assert narrow.certificate.gap == -898.5 * unit
    assert narrow.certificate.tau < 1e-6 * unit
    assert narrow.certificate.regret_bound == 898.5 * unit
    wide = decide(WIDE, Worth(penalty, 900.0, unit))
    assert wide.released
    assert wide.action == 1.0
    assert wide.certificate is not None
    assert wide.certificate.unique


@pytest.mark.parametrize("unit", [1e-12, 1e-9, 1e12])
def test_small_differences_are_differences_in_any_currency(unit: float) -> None:
    """Everything below 1e-9 used to be a tie."""
    certificate = decide(WIDE, Worth(-1.0, 0.25, unit)).certificate
    assert certificate is not None
    assert certificate.unique
    assert certificate.gap > 1e-3 * unit


def forged(monkeypatch: pytest.MonkeyPatch, change: Any, *args: Any, **options: Any) -> uc.Decision:
    """A decision whose claims, gate and outcome follow from evidence that was changed before."""
    import ucsearch.decision.api as api

    honest = api.certify_panel

    def certify_panel(*given: Any, **more: Any) -> Any:
        panel = honest(*given, **more)
        evidence = change(panel.evidence)
        claims = derive(evidence, panel.eps_m)
        return dataclasses.replace(panel, evidence=evidence, claims=claims, released=evidence.selected)

    with monkeypatch.context() as patch:
        patch.setattr(api, "certify_panel", certify_panel)
        return decide(*args, **options)


def test_a_record_that_claims_so_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    worth = Worth(-1e12, 900.0, 1.0)
    honest = decide(NARROW, worth)
    assert verify_record(*decision_record(honest), TASK).status == "valid"
    loose = dict(gate=uc.Gate(allow_ties=True))  # by default nothing leaves whose terms are said to cancel
    lie = forged(monkeypatch, lambda e: e._replace(lower_size=e.lower_size * 1e18), NARROW, worth, **loose)
    assert lie.released
    assert lie.pass_kind == "tied"
    found = verify_record(*decision_record(lie), TASK)
    assert (found.status, found.where) == ("invalid", "rivals[2].size")
    large = forged(monkeypatch, lambda e: e._replace(upper_size=e.upper_size * 1e18), NARROW, worth, **loose)
    assert large.released
    assert verify_record(*decision_record(large), TASK).where == "rivals[0].upper_size"


def test_figures_that_are_only_close_carry_no_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small rewards, variance, a large risk: what is within the slack of a figure may decide between two actions."""
    worth = Worth(0.0, 0.0, 1e-5)
    trace = uc.Trace.from_members([[1.0, 1.0], [1.5, 1.5]])
    policy = uc.UCBeam(depth=2, width=16, risk=1e5, spread="variance")
    honest = decide(policy, worth, NOISY, trace)
    assert honest.certificate is not None
    assert honest.certificate.unique
    assert verify_record(*decision_record(honest), NOISY).status == "valid"
    worst = min(honest.certificate.rivals, key=lambda r: r.score).index

    def calmer(e: Any) -> Any:
        """The uncertainty of the worst action is rounded down by less than an absolute 1e-9."""
        own = np.arange(4) == worst
        less = np.where(own, e.lower_uncertainty - 9e-10, e.lower_uncertainty)
        lower = e.lower_reward - 1e5 * less
        return e._replace(
            lower_uncertainty=less, lower=lower, searched=lower, upper=lower, selected=np.array([worst]),
            searched_selected=np.array([worst]),
        )  # fmt: skip

    lie = forged(monkeypatch, calmer, policy, worth, NOISY, trace)
    assert lie.released
    assert lie.certificate is not None
    assert lie.certificate.action_index == worst
    assert verify_record(*decision_record(lie), NOISY).status == "invalid"


@pytest.mark.parametrize("share", [1e-13, 3e-13, 9e-13])
def test_a_lie_within_the_slack_is_found_by_the_claim(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """Two actions that differ by 1.5 tau: a record that moves one figure by less than the slack claims a tie."""
    worth = Worth(-1.0, 0.5 + 1.5e-12, 1.0)  # after 1 comes 0: 1.0 + 1.5e-12 against 2.0 elsewhere
    near_tie = Worth(-1.0, 1.5 + 3e-12, 1.0)  # 2.0 + 3e-12 against 2.0
    assert decide(WIDE, worth).action == 2.0
    honest = decide(WIDE, near_tie)
    assert honest.certificate is not None
    assert honest.certificate.unique
    assert honest.action == 1.0

    def tie(e: Any) -> Any:
        own = np.arange(4) == 1
        lower = np.where(own, e.lower * (1.0 - share), e.lower)
        return e._replace(lower=lower, lower_reward=lower, searched=lower, upper=np.where(own, lower, e.upper))

    lie = forged(monkeypatch, tie, WIDE, near_tie)
    assert lie.certificate is not None
    changes_the_claim = not lie.certificate.unique
    found = verify_record(*decision_record(lie), TASK)
    assert found.status == ("invalid" if changes_the_claim else "valid"), found
    assert changes_the_claim == (share > 5e-13)


def test_cancellation_is_said() -> None:
    """A cost that is sunk and paid back leaves few digits of what is compared."""
    trace = uc.Trace.from_members([[0.0, 0.0]])
    task = dataclasses.replace(TASK, name="sunk", reward=sunk)
    much = decide(WIDE, Worth(0.0, 0.0, 1e9), task, trace).certificate
    little = decide(WIDE, Worth(0.0, 0.0, 1e3), task, trace).certificate
    assert much is not None
    assert much.cancellation
    assert little is not None
    assert not little.cancellation
    assert much.tau > 1e-6 > little.tau


def test_check_task_warns_where_digits_are_lost() -> None:
    sinking = dataclasses.replace(TASK, name="sunk", reward=sunk)
    with pytest.warns(TaskWarning, match="leave few digits"):
        uc.check_task(dataclasses.replace(sinking, params=Worth(0.0, 0.0, 1e9)), At(0.0), [0.0], depth=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TaskWarning)
        uc.check_task(dataclasses.replace(sinking, params=Worth(0.0, 0.0, 1e3)), At(0.0), [0.0], depth=2)


def sunk(s: At, a: float, y: float, p: Worth) -> float:
    """The first step pays, the second gets it back: states after the first are above 0."""
    return (p.unit if s.x >= 1.0 else -p.unit) + 0.1 * a if a >= 1.0 else -4.0 * p.unit


def huge_and_back(s: At, a: float, y: float, p: Worth) -> float:
    return (1.2e308 if s.x == 0.0 else -1.2e308) + a * 1e300


@pytest.mark.parametrize("mode", ["mean", "members"])
@pytest.mark.parametrize(("rule", "eps_m"), [(huge_and_back, 0.0), (noisy, 1.7e308)])
def test_figures_beyond_the_largest_float_prove_nothing_and_their_record_can_be_verified(
    mode: Any, rule: Any, eps_m: float
) -> None:
    task = dataclasses.replace(TASK, reward=rule, step=lambda s, a, y, p: At(s.x + 1.0 + 0.25 * a))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = uc.decide(
            task, At(0.0), [[1.0, 1.0], [2.0, 2.0]], uc.Exact(depth=2, mode=mode), proof=uc.Proof(eps_m=eps_m),
            run=uc.Run(engine="python"), params=Worth(0.0, 0.0, 1.0),
        )  # fmt: skip
    record, blobs = decision_record(found)
    assert not found.released
    assert verify_record(record, blobs, task).status == "valid"
    assert record["claim"]["tau"] == "inf" or eps_m


def test_an_upper_value_that_rounding_left_below_a_known_path_is_that_path() -> None:
    lower = np.array([[-2.8135365351321844, 1.0, 1.0, np.nan]])
    upper = np.array(
        [[-2.813536535133307, 1.0, 2.0, 3.0]]
    )  # of m4-quarterly Q16374, decision 6; and three without doubt
    sizes = np.array([[4.0, 5.0, 6.0, np.nan]]), np.array([[3.0, 1.0, 2.0, 3.0]])
    raised, size, sound = _reconciled(lower, sizes[0], upper, sizes[1], EPS)
    assert raised.tolist() == [[lower[0, 0], 1.0, 2.0, 3.0]]
    assert size.tolist() == [[4.0, 5.0, 2.0, 3.0]]
    assert sound.tolist() == [True]
    below = _reconciled(lower, sizes[0], upper - 1e-3, sizes[1], EPS)  # no bound at all: unknown, and said so
    assert np.isnan(below[0]).tolist() == [[True, True, False, False]]
    assert below[2].tolist() == [False]


@pytest.mark.parametrize("mode", ["mean", "members"])
def test_a_size_that_is_said_to_be_infinite_is_not(mode: Any) -> None:
    found = uc.decide(
        NOISY, At(0.0), [[1.0, 1.0], [2.0, 2.0]], uc.Exact(depth=2, risk=0.5, mode=mode), run=uc.Run(engine="python")
    )
    record, blobs = decision_record(found)
    for k in range(len(record["rivals"])):
        for name in ("size", "upper_size", "reward_only_size", "certain_size"):
            rivals = [{**rival, name: "inf"} if i == k else rival for i, rival in enumerate(record["rivals"])]
            forged = seal({**{x: v for x, v in record.items() if x != "id"}, "rivals": rivals})
            assert verify_record(forged, blobs, NOISY).status == "invalid", (k, name)


def in_common(s: At, a: float, y: float, p: Worth) -> float:
    """Every plan pays the penalty in both steps; what pays most at once (3) is 19.7 worse than what pays later."""
    return p.penalty + (a if s.x == 0.0 else 22.7 if s.x == 1.0 else 0.0)


def there_and_back(s: At, a: float, y: float, p: Worth) -> float:
    return (p.penalty if s.x == 0.0 else -p.penalty) + (a if s.x == 0.0 else 22.7 if s.x == 1.0 else 0.0)


def two_steps(s: At, a: float, y: float, p: Worth) -> At:
    return At(1.0 + a)


SHARED = dataclasses.replace(TASK, name="shared", step=two_steps, reward=in_common)
BACK = dataclasses.replace(SHARED, reward=there_and_back)


@pytest.mark.parametrize("penalty", [0.0, -1e6, -1e9, -1e12])
def test_a_penalty_that_all_plans_share_hides_no_regret(penalty: float) -> None:
    worth = Worth(penalty, 0.0, 1.0)
    narrow, wide = (decide(policy, worth, SHARED) for policy in (NARROW, WIDE))
    assert narrow.certificate is not None
    assert narrow.certificate.action == 3.0
    assert narrow.certificate.regret_bound == pytest.approx(19.7, rel=1e-3)
    assert (narrow.outcome, narrow.reason) == (uc.Outcome.FALLBACK, uc.Reason.NOT_OPTIMAL)
    assert (wide.action, wide.pass_kind) == (0.0, "exact")
    for decision in (narrow, wide):
        assert verify_record(*decision_record(decision), SHARED).status == "valid"


def test_a_tie_to_within_rounding_is_called_one_and_leaves_only_where_digits_are_left() -> None:
    """Beside 1e14 that is paid and comes back, 19.7 may be rounding."""
    worth = Worth(-1e14, 0.0, 1.0)
    usual = decide(NARROW, worth, BACK)
    assert (usual.outcome, usual.reason) == (uc.Outcome.FALLBACK, uc.Reason.TIED)
    assert usual.certificate is not None
    assert usual.certificate.cancellation
    allowed = decide(NARROW, worth, BACK, gate=uc.Gate(allow_ties=True))
    assert (allowed.pass_kind, allowed.action) == ("tied", 3.0)
    assert "it is tied with 0, 2 and 1 to within rounding (gap -19.7" in allowed.sentence
    for decision in (usual, allowed):
        assert verify_record(*decision_record(decision), BACK).status == "valid"


def test_a_gate_may_demand_a_clear_lead() -> None:
    """Actions 1 and 2 of equal worth: a tie of sums that have all their digits leaves, unless `exact` is demanded."""
    level = dataclasses.replace(TASK, name="level", step=two_steps, reward=lambda s, a, y, p: 1.0 if a >= 2.0 else 0.0)
    worth = Worth(0.0, 0.0, 1.0)
    usual, strict = (decide(WIDE, worth, level, gate=uc.Gate(allow_ties=ties)) for ties in (None, False))
    assert usual.pass_kind == "tied"
    assert strict.reason is uc.Reason.TIED
    assert [row.name for row in strict.rows if not row.passed] == ["tie_allowed"]
    for decision in (usual, strict):
        assert verify_record(*decision_record(decision), level).status == "valid"
    with pytest.raises(uc.InputError, match="allow_ties"):
        uc.Gate(allow_ties="no")  # type: ignore[arg-type]


def test_a_figure_of_another_platform_is_no_lie_but_not_verified() -> None:
    record, blobs = decision_record(decide(WIDE, Worth(0.0, 0.0, 1.0)))
    bare = {name: value for name, value in record.items() if name != "id"}
    rivals = [dict(r, step_score=r["step_score"] * (1.0 + 1e-10)) for r in record["rivals"]]
    here = seal({**bare, "rivals": rivals})
    there = seal({**bare, "rivals": rivals, "versions": {**record["versions"], "platform": "Plan9 mips"}})
    assert verify_record(here, blobs, TASK).status == "invalid"
    found = verify_record(there, blobs, TASK)
    assert found.status == "weaker"
    assert "other platform" in found.message


def one_sinks(s: At, a: float, y: float, p: Worth) -> float:
    """Only action 1 pays the unit, and gets it back with 24 more; what pays most at once is 3."""
    if s.x == 0.0:
        return a - p.unit if a == 1.0 else a
    return p.unit + 24.0 if s.x == 2.0 else 0.0


def test_a_tie_with_a_plan_whose_own_terms_cancel_does_not_leave() -> None:
    """3 is 22 worse than 1, which the sums of 1 cannot tell."""
    task, worth = dataclasses.replace(SHARED, name="one sinks", reward=one_sinks), Worth(0.0, 0.0, 1e14)
    usual, allowed = (decide(NARROW, worth, task, gate=uc.Gate(allow_ties=ties)) for ties in (None, True))
    assert (usual.outcome, usual.reason) == (uc.Outcome.FALLBACK, uc.Reason.TIED)
    assert usual.certificate is not None
    assert usual.certificate.cancellation
    assert usual.certificate.regret_bound == pytest.approx(22.0, rel=0.01)
    assert "3 and 1 differ by 22 only" in usual.sentence
    assert (allowed.action, allowed.pass_kind) == (3.0, "tied")
    for decision in (usual, allowed):
        assert verify_record(*decision_record(decision), task).status == "valid"
    far = decide(NARROW, Worth(0.0, 0.0, 1e3), task)  # digits are left: they are told apart
    assert far.reason is uc.Reason.NOT_OPTIMAL
    assert far.certificate is not None
    assert not far.certificate.cancellation
