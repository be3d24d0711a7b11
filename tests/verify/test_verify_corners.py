"""Corners of the verifier that ordinary records do not reach, one test for each; found by `make mutants`."""

from __future__ import annotations

import dataclasses
import json
import math
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from tests.kit import hostile, stories
from tests.kit.problems import random_problem
from tests.kit.templates import Clock, Stock, Tank, battery, clock, followed, tank
from ucsearch.records import AuditLog as RawLog
from ucsearch.records import blob_id, decode_array, encode_array, seal
from ucsearch.records.canonical import canonical
from ucsearch.records.record import decision_record
from ucsearch.verify import BUDGET, NoTask, Verdict, find_task, verify_file, verify_record
from ucsearch.verify import read as formats
from ucsearch.verify import verdict as figures
from ucsearch.verify.api import _verify, _VerifyTerms
from ucsearch.verify.chain import Link
from ucsearch.verify.trust import tasks

Made = tuple[dict[str, Any], dict[str, bytes], uc.Task]


def record_of(template: str, seed: int, policy: Any, mode: str = "mean", **options: Any) -> Made:
    problem = random_problem(np.random.default_rng(seed), template, mode, gaps=False)
    decision = uc.decide(
        problem.task, problem.state, problem.trace, dataclasses.replace(policy, mode=mode), params=problem.params,
        proof=uc.Proof(**options), run=uc.Run(engine="python"),
    )  # fmt: skip
    return *decision_record(decision, series="A-1"), problem.task


def verdict(made: Made, budget: int = BUDGET, **values: Any) -> Verdict:
    """Of a record with other values; `a__b__0` is the path a.b[0], and a callable gets the old value."""
    record, blobs, task = made
    copied = json.loads(canonical({k: v for k, v in record.items() if k != "id"}))
    for path, value in values.items():
        *parts, last = [int(x) if x.isdigit() else x for x in path.split("__")]
        at: Any = copied
        for part in parts:
            at = at[part]
        at[last] = value(at[last]) if callable(value) else value
    return verify_record(seal(copied), blobs, task, budget=budget)


def lines(path: Path, *records: dict[str, Any]) -> Path:
    """Exported lines of a log with these records, chained."""
    head, text = formats.GENESIS, b""
    for seq, record in enumerate(records, start=1):
        body = canonical(record)
        digest = formats.digest("audit-entry/1", body)
        before, link = head, bytes.fromhex(head) + seq.to_bytes(8, "big") + bytes.fromhex(digest)
        head = formats.digest("audit-head/1", link)
        entry = {"blobs": {}, "digest": digest, "head": head, "previous": before, "record": record, "seq": seq}
        text += canonical({**entry, "written_at": None}) + b"\n"
    path.write_bytes(text)
    return path


# -------------------------------------------------------------------- names, messages, documents


def test_the_budget_is_the_documented_one() -> None:
    page = Path(__file__).parents[2] / "docs" / "concepts" / "certificate.md"
    assert f"The default is {BUDGET:,}," in page.read_text()


def test_what_is_no_task_is_told_by_the_first_thing_it_lacks() -> None:
    with pytest.raises(NoTask, match=r"'math:pi' is no task: it has no name$"):
        find_task("math:pi")


def test_what_has_no_id_is_called_by_its_place(tmp_path: Path) -> None:
    assert verify_record(b"{}", {}, battery).name == "record"
    path = lines(tmp_path / "log.jsonl", {"kind": "decision"}, {"kind": "decision"})
    assert [(v.status, v.name) for v in verify_file(path, battery)] == [
        ("malformed", "entry 1"),
        ("malformed", "entry 2"),
    ]


def test_an_override_of_what_is_no_decision_is_invalid(tmp_path: Path) -> None:
    override = seal(
        {
            "schema": "ucsearch.override/1", "kind": "override", "overrides": "0" * 64, "digest": "0" * 64, "who": "A",
            "why": "b", "action": 0.0, "entry": 1, "at": "2026-01-01T00:00:00+00:00", "series": "", "label": "",
            "off_grid": False,
        }
    )  # fmt: skip
    second = seal({**{k: v for k, v in override.items() if k != "id"}, "overrides": override["id"]})
    found = list(verify_file(lines(tmp_path / "log.jsonl", override, second), battery))
    assert [v.status for v in found] == ["invalid", "invalid"]
    assert found[1].where == "override.overrides"
    assert "expected" not in found[1].message
    assert "'a decision or a refusal'" in found[1].message


# -------------------------------------------------------------------- failures of the task

FAULT_BESIDE = ("risky", 4, uc.UCBeam(depth=3, width=1, top_k=1, risk=0.25, order="score"))  # the path [2, 2] fails


def test_the_task_row_says_what_was_claimed() -> None:
    failed = record_of("risky", 2, uc.UCBeam(depth=3))
    assert failed[0]["outcome"]["cause"] == "task_error"
    found = verdict(failed, gate__rows__0__left=0)
    assert found.message.startswith("gate.rows[0].left: the record says 0, derived 'a failure: risky_reward raised")
    fine = record_of(*FAULT_BESIDE)
    assert verdict(fine, gate__rows__0__left=1).message == "gate.rows[0].left: the record says 1, derived 'no failure'"


def test_a_witness_that_runs_into_a_failure() -> None:
    made = record_of(*FAULT_BESIDE)
    assert [x["index"] for x in made[0]["rivals"]] == [0, 1, 2]
    change = {f"rivals__2__{k}": v for k, v in dict(retained=True, score=1.0, reward=1.0, uncertainty=0.0).items()}
    found = verdict(made, rivals__2__path=[2, 2, 0], **change)
    assert (found.status, found.where) == ("invalid", "rivals[2].path[1]")


def test_where_the_task_fails_nothing_is_bounded() -> None:
    made = record_of(*FAULT_BESIDE)
    assert verdict(made).code == 0
    found = verdict(made, rivals__2__upper=100.0)
    assert (found.status, found.where) == ("invalid", "rivals[2].upper")
    assert "a failure" in found.message
    assert found.message.startswith("rivals[2].upper: the record says 100, derived")
    claims = dict(claim__baseline_index=2, claim__search_active=True)
    claims |= dict(rivals__2__reward_only_score=-100.0, rivals__2__certain_score=-100.0)
    found = verdict(made, **claims)
    assert (found.status, found.where) == ("invalid", "rivals[2].reward_only_upper")
    assert found.message.startswith("rivals[2].reward_only_upper: the record says -100, derived")
    claims["claim__counters__oracle_nodes"] = 5
    for budget, status in ((5, "weaker"), (6, "invalid")):  # used up, a proof may have seen a path beside
        found = verdict(made, settings__proof_budget=budget, **claims)
        assert (found.status, found.where) == (status, "rivals[2].reward_only_upper")


class Nothing(NamedTuple):
    x: float


def _always(s, a, p):
    return True


def _stay(s, a, y, p):
    return s


def _pole(s, a, y, p):
    return a / (y - 1.0)


def _zero(s, p):
    return 0.0


pole = uc.Task(
    name="pole", state=Nothing, actions=[0.0, 1.0], feasible=_always, step=_stay, reward=_pole, fallback=_zero
)  # fmt: skip


def test_figures_of_a_certain_planner_whose_mean_outcome_fails() -> None:
    """Both members can be rewarded, their mean cannot."""
    trace = uc.Trace.from_members([[0.0, 0.0], [2.0, 2.0]])
    policy = uc.UCBeam(depth=2, width=4, mode="members", risk=0.0)
    record, blobs = decision_record(uc.decide(pole, Nothing(0.0), trace, policy, run=uc.Run(engine="python")))
    assert [x["certain_upper"] for x in record["rivals"]] == [None, None]
    assert verdict((record, blobs, pole)).code == 0
    found = verdict((record, blobs, pole), rivals__0__certain_upper=5.0)
    assert (found.status, found.where) == ("invalid", "rivals[0].certain_upper")


# -------------------------------------------------------------------- retained paths and oracle suffixes


def protected(seed: int, protect: bool, template: str = "battery", size: int = 2) -> Made:
    policy = uc.CertifiedBeam(depth=3, width=size, top_k=size, risk=0.5, protect=protect, order="score")
    return record_of(template, seed, policy, kind="oracle")


def test_the_search_passes_by_its_own_score_where_a_better_suffix_was_put_in() -> None:
    made = protected(8, True)
    assert made[0]["claim"]["search_pass"]
    assert made[0]["rivals"] != protected(8, False)[0]["rivals"]
    assert verdict(made).code == 0
    assert verdict(made, claim__search_pass=False).where == "claim.search_pass"


def test_with_protection_the_best_suffix_must_be_there() -> None:
    """All claims of an unprotected search stay true if it calls itself protected, but it did not do what it says."""
    made = protected(1, False)
    assert made[0]["claim"]["eps_a"] > 0.0
    found = verdict(made, settings__protect=True)
    assert (found.status, found.where[:7], found.where[-5:]) == ("invalid", "rivals[", ".path")
    assert "best suffix" in found.message


def test_a_baseline_that_the_beam_lost_is_put_in() -> None:
    policy = uc.ConstrainedBeam(depth=3, width=2, top_k=1, risk=0.5, near_equal=3.0, order="score")
    made = record_of("battery", 6, policy)
    kept = [x for x in made[0]["rivals"] if x["retained"]]
    assert len(kept) == 2  # the beam follows one action only
    assert verdict(made).code == 0


def test_a_tie_keeps_the_searched_path() -> None:
    policy = uc.CertifiedBeam(depth=3, width=5, top_k=3, risk=0.5, protect=True, order="score")
    made = record_of("stock", 2, policy)
    k = next(k for k, x in enumerate(made[0]["rivals"]) if x["index"] == 0)
    assert made[0]["rivals"][k]["path"][:1] == [0]
    assert made[0]["rivals"][k]["path"] != [0, 0, 1]
    found = verdict(made, **{f"rivals__{k}__path": [0, 0, 1]})
    assert (found.status, found.where) == ("invalid", f"rivals[{k}].path")


def test_the_exactness_of_no_values_is_not_claimed() -> None:
    made = record_of("maze", 5, uc.UCBeam(depth=3, width=6, top_k=3, risk=0.25))
    assert made[0]["rivals"] == []
    assert verdict(made, claim__eps_a=0.0).where == "claim.eps_a"


def test_a_search_that_is_no_beam_may_leave_a_dead_end_open() -> None:
    made = record_of("maze", 5, uc.MCTS(depth=3, simulations=40))
    assert made[0]["outcome"]["cause"] == "dead_end"
    rows = [row["name"] for row in made[0]["gate"]["rows"]]
    row, path = (f"gate__rows__{rows.index(name)}" for name in ("completion", "path"))
    assert made[0]["gate"]["rows"][rows.index("path")]["pass"] is False
    change: dict[str, Any] = {f"{row}__left": 1, f"{row}__pass": True, "outcome__cause": "search_exhausted"}
    if made[0]["outcome"]["reason"] == "dead_end":
        change["outcome__reason"] = "search_exhausted"
    assert verdict(made, **change).code == 0
    assert verdict(made, **{f"{path}__left": 1, f"{path}__pass": True}).status == "invalid"


def test_a_first_action_left_out_is_in_doubt_when_the_budget_is_used_up() -> None:
    made = record_of("maze", 4, uc.UCBeam(depth=3, width=6, top_k=3, risk=0.25))
    assert len(made[0]["rivals"]) == 1  # another first action is feasible, but leads nowhere
    assert verdict(made).code == 0
    found = verdict(made, budget=0)
    assert (found.status, found.where) == ("weaker", "rivals")


# -------------------------------------------------------------------- rounding


def test_the_allowance_for_rounding() -> None:
    x = 1e-9
    for _ in range(5):
        x = figures.slack(x)
    assert figures.slack(x) == x
    assert figures.is_close(0.0, x)
    assert not figures.is_close(0.0, 1.5e-9)
    assert figures.slack() == 1e-9
    assert figures.slack(float("inf")) == 1e-9
    assert figures.slack(-3.0, 2.0) == 4e-9


# -------------------------------------------------------------------- formats


def test_numbers_where_exponents_begin() -> None:
    for x, text in (
        (1e15, b"1000000000000000"), (1e16, b"10000000000000000"), (1.5e20, b"150000000000000000000"),
        (9e20, b"900000000000000000000"), (1e21, b"1e+21"), (1.25e21, b"1.25e+21"), (0.0001, b"0.0001"),
        (1.5e-5, b"0.000015"), (1e-6, b"0.000001"), (-1.5e-6, b"-0.0000015"), (9.5e-7, b"9.5e-7"), (1e-7, b"1e-7"),
    ):  # fmt: skip
        assert formats.canonical(x) == text


def test_whole_numbers_up_to_the_last_exact_one() -> None:
    for text in (b"9007199254740992", b"-9007199254740992"):
        assert type(formats.loads(text)) is int
        assert formats.loads(text) == int(text)
    for text in (b"9007199254740993", b"-9007199254740994", b"10000000000000000000000"):
        assert type(formats.loads(text)) is float


def blob(shape: tuple[int, ...], values: int) -> tuple[str, bytes]:
    """The array file of another number of zeros than its header says."""
    whole = encode_array(np.zeros(shape))
    data = whole[: len(whole) - 8 * math.prod(shape)] + bytes(8 * values)
    return sha256(data).hexdigest(), data


def test_blobs_at_the_edges_of_their_header() -> None:
    def read(name: str, data: bytes | None) -> Any:
        return formats.read_blob(name, lambda _: data)

    assert read(*blob((), 1))[::2] == ((), (0.0,))
    assert read(*blob((1,) * 9, 1))[0] == (1,) * 9
    for shape, values, message in (
        ((), 0, r"has 0 bytes of values for the shape \(\)"),
        ((2,), 1, r"has 8 bytes of values for the shape \(2,\)"),
    ):
        with pytest.raises(formats.Malformed, match=message):
            read(*blob(shape, values))
    name, data = blob((2,), 2)
    for bad in (None, b"", data + b"\0"):
        with pytest.raises(formats.Malformed, match="is missing or altered"):
            read(name, bad)
    cut = data[:70]  # the shape itself is cut off
    with pytest.raises(formats.Malformed, match=r"is no \.npy file"):
        read(sha256(cut).hexdigest(), cut)


def test_a_database_of_another_kind_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    RawLog(path).close()
    assert list(verify_file(path, battery)) == []
    with closing(sqlite3.connect(path)) as log:
        log.execute("PRAGMA application_id = 1")
        log.commit()
    (found,) = verify_file(path, battery)
    assert (found.status, "not an audit log" in found.message) == ("malformed", True)


def test_a_gap_in_the_numbers_is_told(tmp_path: Path) -> None:
    path = lines(tmp_path / "log.jsonl", {"a": 1}, {"a": 2}, {"a": 3})
    first, _, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + third)
    assert list(verify_file(path, battery))[-1].message == "missing; the next one present is 3"


def test_base64_with_strange_letters_is_malformed(tmp_path: Path) -> None:
    path = lines(tmp_path / "log.jsonl", {"a": 1})
    entry = json.loads(path.read_text())
    path.write_bytes(canonical({**entry, "blobs": {"a": "AAAA!"}}) + b"\n")
    (found,) = verify_file(path, battery)
    assert "members of other types" in found.message


def test_an_override_of_a_bare_record_is_of_an_entry_that_was_not_given(tmp_path: Path) -> None:
    made, _, _ = record_of("battery", 1, uc.UCBeam(depth=3, width=30, risk=0.25))
    override = seal(
        {
            "schema": "ucsearch.override/1", "kind": "override", "overrides": made["id"], "digest": "0" * 64,
            "who": "A", "why": "b", "action": 0.0, "entry": 1, "at": "2026-01-01T00:00:00+00:00", "series": "A-1",
            "label": "", "off_grid": False,
        }
    )  # fmt: skip
    path = lines(tmp_path / "log.jsonl", override, override)
    second = path.read_bytes().splitlines(keepends=True)[1]
    path.write_bytes(canonical(made) + b"\n" + second)
    assert list(verify_file(path, battery))[-1].where == "entry 1, which was not given"


# -------------------------------------------------------------------- gate and outcome


def test_near_needs_a_limit() -> None:
    made = record_of("battery", 1, uc.UCBeam(depth=3, width=30, risk=0.25))
    assert verdict(made, gate__settings__near=True).where == "gate.settings.near"


def test_a_forecast_issued_this_moment_is_not_from_the_future() -> None:
    trace = uc.Trace.from_members([[20.0, 25.0, 15.0]], issued="2026-01-01T00:00:00+00:00")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    decision = uc.decide(
        battery, battery.state(4.0, 0.0), trace, uc.UCBeam(depth=3, width=30), gate=uc.Gate(max_trace_age_s=0.0),
        now=now, run=uc.Run(engine="python"),
    )  # fmt: skip
    assert decision.released
    assert verdict((*decision_record(decision), battery)).code == 0


def _raises(s, p):
    raise ValueError("no fallback here")


def _between(s, p):
    return 0.5


@pytest.mark.parametrize("fallback", [_raises, _between])
def test_a_fallback_that_raises_or_is_no_action(fallback: Any) -> None:
    task = dataclasses.replace(clock, fallback=fallback)
    trace = uc.Trace.from_members([[1.0, -1.0]])
    decision = uc.decide(
        task, Clock(0.0), trace, uc.UCBeam(depth=2, width=9), gate=uc.Gate(node_budget=0), run=uc.Run(engine="python")
    )
    record, blobs = decision_record(decision)
    outcome = record["outcome"]
    assert (outcome["outcome"], outcome["fallback_action"], outcome["fallback_cost"]) == ("HOLD", None, None)
    assert verdict((record, blobs, task)).code == 0
    assert verdict((record, blobs, task), outcome__fallback_cost=0.0).where == "outcome.fallback_cost"


# -------------------------------------------------------------------- inputs


@pytest.mark.parametrize(
    ("policy", "mode", "options"),
    [
        (uc.ConstrainedBeam(depth=3, width=5, top_k=3, near_equal=0.0, band=0.0, utility_budget=0.5), "mean", {}),
        (uc.UCBeam(depth=3, width=2, top_k=2, risk=0.5), "mean", {"node_budget": 1}),
        (uc.UCBeam(depth=3, width=2, top_k=2, risk=1.0, spread="downside"), "members", {}),
        (uc.MCTS(depth=3, simulations=1), "mean", {}),
        (uc.Exact(depth=3, node_budget=1), "mean", {}),
    ],
)  # fmt: skip
def test_settings_at_their_limits_are_valid(policy: Any, mode: str, options: dict[str, Any]) -> None:
    made = record_of("stock", 18, policy, mode, **options)
    assert verdict(made).code == 0
    if options:
        assert verdict(made, settings__proof_budget=0).where == "settings.proof_budget"


def test_a_search_that_is_no_beam_has_a_width_of_one() -> None:
    found = verdict(record_of("stock", 2, uc.Exact(depth=3)), settings__width=2)
    assert found.message == "settings.width: the record says 2, derived 1"


def with_arrays(made: Made, **arrays: Any) -> Made:
    """The record with other arrays in its trace, all hashes recomputed."""
    record, blobs, task = made
    copied = json.loads(canonical({k: v for k, v in record.items() if k != "id"}))
    held, trace = dict(blobs), copied["inputs"]["trace"]
    for name, values in arrays.items():
        data = encode_array(np.asarray(values, dtype=float), finite=False)
        held[blob_id(data)] = data
        trace[name] = {"$blob": blob_id(data)}
    whole = sha256(b"ucsearch.trace.v1\0" + json.dumps(trace["meta"], sort_keys=True, separators=(",", ":")).encode())
    for name in ("members", "weights", "mean", "q", "u"):
        data = held[trace[name]["$blob"]]
        array = decode_array(data)
        whole.update(f"\0{','.join(map(str, array.shape))}\0".encode() + array.tobytes())
    trace["hash"] = whole.hexdigest()
    return seal(copied), held, task


def test_traces_of_other_shapes() -> None:
    made = record_of("battery", 1, uc.UCBeam(depth=3, width=30, risk=0.25))
    same: dict[str, Any] = dict(members=np.zeros((1, 2, 4, 1)), weights=[[0.5, 0.5]], mean=np.zeros((1, 4, 1)))
    assert verdict(with_arrays(made, **same)).status != "malformed"
    for change in (
        dict(members=np.zeros((1, 0, 4, 1)), weights=np.zeros((1, 0))),  # nobody
        dict(members=np.zeros((2, 4, 1))), dict(weights=[0.5, 0.5]), dict(mean=np.zeros((4, 1))), dict(q=np.zeros(0)),
        dict(u=np.zeros((1, 4, 0, 1))), dict(members=np.zeros((1, 2, 4, 2)), mean=np.zeros((1, 4, 2))),
        dict(q=np.zeros((1, 4, 5)), u=np.zeros((1, 4, 5))),
    ):  # fmt: skip
        assert verdict(with_arrays(made, **{**same, **change})).status == "malformed", change
    found = verdict(with_arrays(made, **{**same, "weights": [[1.0, 0.0]]}))
    assert (found.status, found.where) == ("invalid", "inputs.trace.weights")


def test_an_outcome_of_two_fields_needs_two_except_beside_scores() -> None:
    rng = np.random.default_rng(3)
    q, u = np.round(rng.normal(0, 1, (3, 4)), 1), np.round(rng.random((3, 4)), 1)
    decision = uc.decide(
        tank, Tank(3.0), uc.Trace.from_scores(q, u), uc.UCBeam(depth=3, mode="scores"), run=uc.Run(engine="python")
    )
    record, blobs = decision_record(decision)
    assert verdict((record, blobs, tank)).code == 0
    made = record_of("tank", 0, uc.UCBeam(depth=3, risk=0.25))
    short = dict(members=np.zeros((1, 2, 4, 1)), weights=[[0.5, 0.5]], mean=np.zeros((1, 4, 1)))
    assert verdict(with_arrays(made, **short)).status == "malformed"


def test_a_single_continuation_goes_on_too() -> None:
    task = dataclasses.replace(followed, continuations=[followed.continuations[1]])
    trace = uc.Trace.from_members([[2.0, 3.0, 4.0, 2.0], [3.0, 5.0, 1.0, 2.0]])
    policy = uc.UCBeam(depth=2, width=6, mode="members", risk=0.5)
    decision = uc.decide(task, Stock(3.0, (2.0, 2.0), 2.0), trace, policy, run=uc.Run(engine="python"))
    record, blobs = decision_record(decision)
    assert record["settings"]["reach"] == 4
    assert verdict((record, blobs, task)).code == 0


def _picky(s, a, p):
    if a == 1.0 and s.t > 0.0:
        raise ValueError("not now")
    return True


def test_an_override_on_which_the_rules_raise(tmp_path: Path) -> None:
    task = dataclasses.replace(clock, feasible=_picky)
    trace = uc.Trace.from_members([[1.0]])
    decision = uc.decide(
        task, Clock(1.0), trace, uc.UCBeam(depth=1), actions=[-1.0, 0.0, math.nan], run=uc.Run(engine="python")
    )
    record, _ = decision_record(decision, series="A-1")
    assert record["outcome"]["outcome"] == "RELEASED"
    override = seal(
        {
            "schema": "ucsearch.override/1", "kind": "override", "overrides": record["id"],
            "digest": formats.digest("audit-entry/1", canonical(record)), "who": "A", "why": "b", "action": 1.0,
            "entry": 1, "at": "2026-01-01T00:00:00+00:00", "series": "A-1", "label": "", "off_grid": True,
        }
    )  # fmt: skip
    found = list(verify_file(lines(tmp_path / "log.jsonl", record, override), task))[-1]
    assert (found.status, found.where) == ("invalid", "override.action")
    assert found.message.startswith("override.action: the record says True, derived 'ValueError: not now")


# -------------------------------------------------------------------- every way in which a task can fail


def _fails(kind: str) -> uc.Task:
    """The clock's rules, failing at the second step after action 1."""

    def bad(s: Any) -> bool:
        return bool(s.t >= 10.0)

    def feasible(s: Any, a: float, p: Any) -> bool:
        if kind == "feasible raises" and bad(s):
            raise ValueError("feasible")
        return True

    def step(s: Any, a: float, y: float, p: Any) -> Any:
        if kind == "step raises" and bad(s):
            raise ValueError("step")
        if kind == "step gives nan" and bad(s):
            return Clock(math.nan)
        if kind == "step gives a tuple" and bad(s):
            return Clock((1.0, 2.0))  # type: ignore[arg-type]
        return Clock(s.t + 1.0 + 10.0 * (a == 1.0))

    def reward(s: Any, a: float, y: float, p: Any) -> float:
        if kind == "reward is infinite" and bad(s):
            return math.inf
        if kind == "spread is infinite" and bad(s):
            return 1e200 * y
        if kind == "the sum is infinite" and bad(s):
            return 1e308
        if kind == "an unlikely candidate's spread is infinite" and a == 1.0:
            return 1e200 * y
        return a * y

    def terminal(s: Any, p: Any) -> float:
        return math.nan if kind == "terminal is nan" and bad(s) else 0.0

    return uc.Task(
        name="fails", state=Clock, actions=[0.0, 1.0], feasible=feasible, step=step, reward=reward,
        fallback=lambda s, p: 0.0, terminal=terminal,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["mean", "members"])
@pytest.mark.parametrize(
    "kind",
    [
        "feasible raises", "step raises", "step gives nan", "step gives a tuple", "reward is infinite",
        "spread is infinite", "an unlikely candidate's spread is infinite", "the sum is infinite", "terminal is nan",
    ],
)  # fmt: skip
def test_failures_are_failures_for_both(kind: str, mode: str) -> None:
    task = _fails(kind)
    trace = uc.Trace.from_members([[1.0, 1.0, 1.0], [-2.0, -1.0, 1.0]])
    for policy in (uc.UCBeam(depth=3, width=8, mode=mode), uc.UCBeam(depth=3, width=1, top_k=1, mode=mode, risk=0.5)):
        decision = uc.decide(task, Clock(0.0), trace, policy, run=uc.Run(engine="python"))
        record, blobs = decision_record(decision)
        assert verdict((record, blobs, task)).code == 0, (kind, policy)
    wide = uc.UCBeam(depth=3, width=8, mode=mode)
    assert uc.decide(task, Clock(0.0), trace, wide, run=uc.Run(engine="python")).cause.value == "task_error"


def test_a_continuation_that_gives_no_number_is_a_failure() -> None:
    def lost(s: Any, h: int, p: Any) -> float:
        return math.nan

    def feasible(s: Any, a: float, p: Any) -> bool:
        return a == a  # not a number, not allowed

    for rules in (clock.feasible, feasible):
        task = dataclasses.replace(clock, continuations=[lost], feasible=rules)
        trace = uc.Trace.from_members([[1.0, 1.0, 1.0]])
        decision = uc.decide(task, Clock(0.0), trace, uc.UCBeam(depth=2, mode="members"), run=uc.Run(engine="python"))
        record, blobs = decision_record(decision)
        assert record["outcome"]["cause"] == "task_error"
        assert verdict((record, blobs, task)).code == 0


def test_an_allocation_names_every_decision_once(tmp_path: Path) -> None:
    """Before any is looked for: a thousand members that are one decision would have it read a thousand times."""
    *decisions, (allocation, blobs) = stories.shared()
    twice = {**allocation, "members": [allocation["members"][0], *allocation["members"][:2]]}
    (tmp_path / "file").write_bytes(hostile.text(*hostile.exported(*decisions, (hostile.resealed(twice), blobs))))
    *_, entry = formats.EntrySource(tmp_path / "file")
    asked: list[str] = []
    entry = entry._replace(find=lambda name, number: asked.append(name))
    assert _verify(Link(entry, False), _VerifyTerms(tasks(), BUDGET, None)).where == "members"
    assert asked == []
