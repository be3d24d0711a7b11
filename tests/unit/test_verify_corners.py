"""Corners of the verifier that ordinary records do not reach, one test for each; found by `make mutants`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.problems import random_problem
from tests.kit.templates import battery
from ucsearch.records import seal
from ucsearch.records.canonical import canonical
from ucsearch.records.decisions import decision_record
from ucsearch.verify import BUDGET, NoTask, Verdict, find_task, formats, verify_file, verify_record

Made = tuple[dict[str, Any], dict[str, bytes], uc.Task]


def record_of(template: str, seed: int, policy: Any, mode: str = "mean", **options: Any) -> Made:
    problem = random_problem(np.random.default_rng(seed), template, mode, gaps=False)
    decision = uc.decide(
        problem.task, problem.state, problem.trace, dataclasses.replace(policy, mode=mode), params=problem.params,
        engine="python", **options,
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
        head = formats.digest("audit-head/1", bytes.fromhex(head) + seq.to_bytes(8, "big") + bytes.fromhex(digest))
        entry = {"blobs": {}, "digest": digest, "head": head, "record": record, "seq": seq, "written_at": None}
        text += canonical(entry) + b"\n"
    path.write_bytes(text)
    return path


# -------------------------------------------------------------------- names, messages, documents


def test_the_budget_is_the_documented_one() -> None:
    page = Path(__file__).parents[2] / "docs" / "certificate.md"
    assert f"`--budget` ({BUDGET:,})" in page.read_text()


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


def test_an_override_of_what_is_no_decision_is_malformed(tmp_path: Path) -> None:
    override = seal(
        {
            "schema": "ucsearch.override/1", "kind": "override", "overrides": "0" * 64, "digest": "0" * 64, "who": "A",
            "why": "b", "action": 0.0, "feasible": True, "at": "2026-01-01T00:00:00+00:00", "series": "",
        }
    )  # fmt: skip
    second = seal({**{k: v for k, v in override.items() if k != "id"}, "overrides": override["id"]})
    found = list(verify_file(lines(tmp_path / "log.jsonl", override, second), battery))
    assert [v.status for v in found] == ["invalid", "malformed"]
    assert "record.schema" in found[1].message


# -------------------------------------------------------------------- failures of the task

FAULT_BESIDE = ("risky", 4, uc.UCBeam(depth=3, width=1, top_k=1, risk=0.25, order="score"))  # the path [2, 2] fails


def test_the_task_row_says_what_was_claimed() -> None:
    failed = record_of("risky", 2, uc.UCBeam(depth=3))
    assert failed[0]["outcome"]["cause"] == "task_error"
    found = verdict(failed, gate__rows__0__left=0)
    assert found.message.startswith('gate.rows[0].left: the record says 0, derived "a failure: risky_reward raised')
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
    assert found.message.startswith("rivals[2].upper: the record says 100.0")
    claims = dict(claim__baseline_index=2, claim__search_active=True)
    claims |= dict(rivals__2__reward_only_score=-100.0, rivals__2__certain_score=-100.0)
    found = verdict(made, **claims)
    assert (found.status, found.where) == ("invalid", "rivals[2].reward_only_upper")
    assert found.message.startswith("rivals[2].reward_only_upper: the record says -100.0")
    spent = made[0]["claim"]["counters"]["oracle_nodes"]
    for budget, status in ((spent, "weaker"), (spent + 1, "invalid")):  # used up, a proof may have seen a path beside
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
    record, blobs = decision_record(uc.decide(pole, Nothing(0.0), trace, policy, engine="python"))
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
    assert verdict(made, **{f"{path}__left": 1, f"{path}__pass": True}).code == 1


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
        x = formats.slack(x)
    assert formats.slack(x) == x
    assert formats.is_close(0.0, x)
    assert not formats.is_close(0.0, 1.5e-9)
    assert formats.slack() == 1e-9
    assert formats.slack(float("inf")) == 1e-9
    assert formats.slack(-3.0, 2.0) == 4e-9
