"""Overrides: one table of cases, judged alike by the library, the command line and the verifier."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ucsearch as uc
from tests.kit.logged import NOON, WHERE, Tank, decide, fallback, new_log, refuse, reward, step, tank
from ucsearch.cli import app
from ucsearch.cli.log import log_app
from ucsearch.decision import Filing
from ucsearch.errors import InputError, RecordError
from ucsearch.records import AuditReader
from ucsearch.records.canonical import canonical, seal
from ucsearch.records.entries import entry_digest, next_head
from ucsearch.records.overrides import NotAllowed
from ucsearch.tasks import Direction, Intervention, LeadTimeInventory, Storage
from ucsearch.verify import verify_file

WORDS: dict[str, Any] = {"who": "M. Curie", "why": "supplier strike"}
# Level 10 of 20: action, what is recorded (action, label, off the grid) or None where it is refused.
CASES: list[tuple[float | str | None, tuple[float | None, str, bool] | None]] = [
    (4.0, (4.0, "some", False)),
    (0.0, (0.0, "nothing", False)),
    (-0.0, (0.0, "nothing", False)),
    ("some", (4.0, "some", False)),
    (3.0, (3.0, "", True)),
    (10.0, (10.0, "", True)),
    (1e-9, (1e-9, "", True)),
    (None, (None, "", False)),
    (10.000001, None),
    (16.0, None),
    ("much", None),
    (700.0, None),
    (-1.0, None),
    ("lots", None),
    ("", None),
    (float("nan"), None),
    (float("inf"), None),
]


def library(log: uc.AuditLog, action: Any) -> bool:
    try:
        log.override(1, task=tank, action=action, **WORDS)
    except (RecordError, InputError):
        return False
    return True


def command(path: Path, action: Any) -> int:
    taken = ["--withdraw"] if action is None else [repr(action) if action != str(action) else action]
    words = ["--who", "M. Curie", "--why", "supplier strike", "--task", WHERE]
    return CliRunner().invoke(app, ["override", "A", "--set", f"files.log={path}", *words, *taken]).exit_code


def verifier(path: Path, out: Path, action: Any) -> str:
    """The verdict on an override that somebody put there without asking the rules."""
    with AuditReader(path) as reader:
        target = reader.get(1)
        reader.export_jsonl(out)
    value, label, off = action, "", False
    if isinstance(action, str):
        labels = list(tank.labels)
        value, label = (tank.actions[labels.index(action)], action) if action in labels else (-1.0, action)
    elif action is not None:
        off = action not in tank.actions
        label = "" if off else tank.labels[tank.actions.index(action)]
        value = action if action == action and abs(action) != float("inf") else 1e300
    record = seal(
        {
            "schema": "ucsearch.override/1", "kind": "override", "overrides": target.id, "entry": 1,
            "digest": target.digest, "series": "A", "who": "x", "why": "y", "at": NOON,
            "action": None if value is None else value + 0.0, "label": label, "off_grid": off,
        }
    )  # fmt: skip
    body = canonical(record)
    head = next_head(target.head, 2, entry_digest(body), None)
    line = {
        "blobs": {}, "digest": entry_digest(body), "head": head, "previous": target.head, "record": record, "seq": 2,
        "written_at": None,
    }  # fmt: skip
    with out.open("ab") as file:
        file.write(canonical(line) + b"\n")
    return [verdict.status for verdict in verify_file(out, tank)][-1]


@pytest.mark.parametrize("make", [decide, refuse])
@pytest.mark.parametrize(("action", "expected"), CASES, ids=repr)
def test_library_command_and_verifier_judge_alike(
    tmp_path: Path, make: Any, action: Any, expected: tuple[Any, ...] | None
) -> None:
    path = tmp_path / "log.db"
    with new_log(tmp_path) as log:
        make(log)
        verdict = verifier(path, tmp_path / "out.jsonl", action)
        assert library(log, action) is (expected is not None)
        assert (command(path, action) == 0) is (expected is not None)
        assert (verdict == "valid") is (expected is not None)
        records = [row.record for row in log][1:]
        for record in records:
            assert (record["action"], record["label"], record["off_grid"]) == expected
        assert len(records) == (0 if expected is None else 2)
        assert log.verify(log.checkpoint()).ok
    assert {verdict.status for verdict in verify_file(path, tank)} == {"valid"}


def test_a_refusal_names_the_rules_and_what_they_allow(tmp_path: Path) -> None:
    with new_log(tmp_path) as log:
        decide(log)
        with pytest.raises(
            NotAllowed, match=r"16 breaks the rules of 'tank' in .*level=10.*allowed are: nothing, some, more"
        ) as e:
            log.override(1, task=tank, action=16.0, **WORDS)
        assert e.value.feasible == ("nothing", "some", "more")
        assert pickle.loads(pickle.dumps(e.value)).feasible == e.value.feasible
        assert log.count() == 1


def test_the_last_one_counts_and_none_withdraws(tmp_path: Path) -> None:
    with new_log(tmp_path) as log:
        released = decide(log).action
        for action, counts in ((4.0, 4), (3.0, 3), (None, released), ("more", 8), (None, released)):
            entry = log.override(1, task=tank, action=action, **WORDS)
            standing = log.effective([log.get(1)])[1]
            assert standing.action == counts
            assert (standing.override is None) is (action is None)
            if standing.override is not None:
                assert standing.override.seq == entry.seq
        assert [row.seq for row in log.overrides(1)] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "odd",
    [
        True, np.True_, b"4", bytearray(b"4"), memoryview(b"4"), np.array([4.0]), np.array(4.0), 10**400, -(10**400),
        4 + 0j, Decimal("NaN"), Decimal("1e400"), float("-inf"), np.float32("nan"), [4.0], "4.0", " some", "some ",
        "\uff53ome", "some\x00", object(),
    ],
    ids=lambda odd: type(odd).__name__,
)  # fmt: skip
def test_what_is_no_number_and_no_label_is_refused(tmp_path: Path, odd: Any) -> None:
    with new_log(tmp_path) as log:
        decide(log)
        with pytest.raises((InputError, NotAllowed)):
            log.override(1, task=tank, action=odd, **WORDS)
        assert [row.seq for row in log] == [1]


@pytest.mark.parametrize(
    "number", [4, np.float64(4.0), np.int64(4), np.float32(4.0), Decimal(4), Fraction(4)], ids=repr
)
def test_numbers_of_other_types_are_the_same_number(tmp_path: Path, number: Any) -> None:
    with new_log(tmp_path) as log:
        decide(log)
        log.override(1, task=tank, action=number, **WORDS)
        assert (log.get(2).record["action"], log.get(2).record["label"]) == (4.0, "some")


def test_withdrawn_again_and_replaced_after_that(tmp_path: Path) -> None:
    with new_log(tmp_path) as log:
        released = decide(log).action
        for action, counts in ((None, released), (None, released), (4.0, 4.0), (None, released), (3.0, 3.0)):
            log.override(1, task=tank, action=action, **WORDS)
            assert log.effective([log.get(1)])[1].action == counts
        with pytest.raises(RecordError, match="expected a decision or a refusal"):
            log.override(2, task=tank, action=4.0, **WORDS)  # an override is no decision
    assert {verdict.status for verdict in verify_file(tmp_path / "log.db", tank)} == {"valid"}


def test_two_writers_at_once_leave_one_order(tmp_path: Path) -> None:
    with new_log(tmp_path) as log:
        decide(log)
    start = threading.Barrier(2)

    def replace(own: float) -> list[int]:
        with uc.AuditLog(tmp_path / "log.db", clock=lambda: NOON, timeout_s=30.0) as log:
            start.wait()
            return [log.override(1, task=tank, action=own, **WORDS).seq for _ in range(6)]

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(replace, (4.0, 3.0))
    assert sorted(one + other) == list(range(2, 14))
    with AuditReader(tmp_path / "log.db") as reader:
        last = 4.0 if max(one) > max(other) else 3.0
        assert reader.effective([reader.get(1)])[1].action == last
    assert {verdict.status for verdict in verify_file(tmp_path / "log.db", tank)} == {"valid"}


def test_equal_releases_are_overridden_one_by_one(tmp_path: Path) -> None:
    with new_log(tmp_path) as log:
        assert decide(log).record_id == decide(log).record_id
        log.override(1, task=tank, action=4.0, **WORDS)
        log.override(2, task=tank, action=8.0, **WORDS)
        log.override(log.get(2).id, task=tank, action=3.0, **WORDS)  # an id means the newest of its entries
        standing = log.effective(list(log))
        assert {seq: one.action for seq, one in standing.items()} == {1: 4, 2: 3}
    assert [verdict.status for verdict in verify_file(tmp_path / "log.db", tank)] == ["valid"] * 5


def other(s: Tank, a: float, p: Any) -> bool:
    return True


def test_the_rules_are_the_recorded_ones(tmp_path: Path) -> None:
    lax = uc.Task(
        name="tank", state=Tank, actions=tank.actions, labels=tank.labels, params=tank.params,
        feasible=other, step=step, reward=reward, fallback=fallback,
    )  # fmt: skip
    with new_log(tmp_path) as log:
        decide(log)
        with pytest.raises(RecordError, match="not the recorded task 'tank': its rules"):
            log.override(1, task=lax, action=700.0, **WORDS)
        with pytest.raises(InputError, match=r"override\.task: saw NoneType"):
            log.override(1, task=None, action=4.0, **WORDS)
        log.override(1, task=None, action=None, **WORDS)  # to withdraw, no rules are needed
        assert log.count() == 2


@pytest.mark.parametrize("answer", ["no", float("nan"), None, 17, [1]])
def test_rules_without_an_answer_allow_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    with new_log(tmp_path) as log:
        decide(log)
        monkeypatch.setitem(tank.__dict__, "feasible", lambda s, a, p: answer)
        monkeypatch.setitem(tank.__dict__, "feasible_at", lambda s, a, h, p: answer)
        monkeypatch.setitem(tank.__dict__, "source_hash", log.get(1).record["task"]["rules"])
        with pytest.raises(NotAllowed, match="cannot judge 4"):
            log.override(1, task=tank, action=4.0, **WORDS)
        assert verifier(tmp_path / "log.db", tmp_path / "out.jsonl", 4.0) == "invalid"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"who": ""}, r"override\.who"),
        ({"who": "  "}, r"override\.who"),
        ({"why": ""}, r"override\.why"),
        ({"why": None}, r"override\.why"),
        ({"action": True}, r"override\.action: saw True"),
        ({"action": b"4"}, r"override\.action"),
        ({"action": [4.0]}, r"override\.action"),
        ({"action": 10**400}, r"override\.action"),
        ({"at": "noon"}, r"override\.at"),
    ],
)
def test_an_override_that_is_incomplete_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with new_log(tmp_path) as log:
        decide(log)
        with pytest.raises((RecordError, InputError), match=message):
            log.override(1, **({"task": tank, "action": 4.0} | WORDS | change))
        assert log.count() == 1


def test_an_override_needs_a_time(tmp_path: Path) -> None:
    with uc.AuditLog(tmp_path / "log.db") as log:
        decide(log)
        with pytest.raises(InputError, match=r"override\.at"):
            log.override(1, task=tank, action=4.0, **WORDS)
        entry = log.override(1, task=tank, action=4.0, at=NOON, **WORDS)
        assert log.get(entry.seq).record["at"] == NOON


def test_only_decisions_and_refusals_are_overridden(tmp_path: Path) -> None:
    with new_log(tmp_path) as log:
        decide(log)
        entry = log.override(1, task=tank, action=4.0, **WORDS)
        with pytest.raises(RecordError, match="of kind 'override', expected a decision or a refusal"):
            log.override(entry.id, task=tank, action=4.0, **WORDS)
        with pytest.raises(RecordError, match="no entry"):
            log.override("0" * 64, task=tank, action=4.0, **WORDS)


def test_a_repeated_request_is_one_override(tmp_path: Path) -> None:
    with new_log(tmp_path) as log:
        decide(log)
        first = log.override(1, task=tank, action=4.0, request="click 1", **WORDS)
        again = log.override(1, task=tank, action=4.0, request="click 1", **WORDS)
        assert (again.seq, again.repeated) == (first.seq, True)
        assert log.count() == 2
    assert [verdict.status for verdict in verify_file(tmp_path / "log.db", tank)] == ["valid"] * 2


def test_a_decision_is_a_repeat_only_under_its_request(tmp_path: Path) -> None:
    with new_log(tmp_path) as log:
        for request in (None, None, "r", "r", "s"):
            decide(log, request=request)
        assert log.count() == 4
        refuse(log)
        refuse(log)
        assert log.count() == 6
    assert {verdict.status for verdict in verify_file(tmp_path / "log.db", tank)} == {"valid"}


def test_a_refusal_keeps_what_the_rules_need(tmp_path: Path) -> None:
    with new_log(tmp_path) as log:
        refuse(log, level=7.0)
        record = log.get(1).record
    assert record["schema"] == "ucsearch.refusal/1"
    assert record["inputs"] == {"state": [7], "state_lengths": [0], "params": [20], "params_lengths": [0]}
    assert record["task"]["actions"] == [0, 4, 8, 16]
    assert record["task"]["rules"] == tank.source_hash
    assert record["outcome"]["outcome"] == "HOLD"


def test_command_line_shows_what_counts(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with new_log(tmp_path) as log:
        decide(log)
    words = ["--who", "M. Curie", "--why", "strike", "--task", WHERE, "--set", f"files.log={path}"]
    result = CliRunner().invoke(app, ["override", "A", "3", *words])
    assert "A: 3 is in force, decided by M. Curie (decision " in result.output
    assert "; it is not one of those offered" in result.output
    assert "3 (entry 2)" in CliRunner().invoke(log_app, ["list", "--log", str(path)]).output
    refused = CliRunner().invoke(app, ["override", "A", "700", *words])
    assert refused.exit_code == 2
    assert "allowed are: nothing, some, more. Nothing was recorded" in refused.output
    for more in ([], ["3", "--withdraw"]):
        assert CliRunner().invoke(app, ["override", "A", *words, *more]).exit_code == 2
    with AuditReader(path) as reader:
        assert reader.count() == 2


def _beyond(where: str) -> tuple[uc.Task, Any, list[list[float]]]:
    """A task of the library, a state of it and members."""
    if where == "storage":
        store = Storage(capacity=1000.0, power=10.0, level_step=5.0)
        return store.task(), store.state(500.0), [[3.0, 4.0]]
    if where == "plain storage":
        store = Storage(capacity=1000.0, powers=(-10.0, 0.0, 10.0))
        return store.task(), store.state(500.0), [[3.0, 4.0]]
    if where == "direction":
        return Direction().task(), Direction().state(), [[0.3, 0.4]]
    if where == "intervention":
        return Intervention().task(), Intervention().state(), [[0.3, 0.4]]
    stock = LeadTimeInventory(order_sizes=(0.0, 10.0, 20.0), lead_time=1)
    return stock.task(), stock.state(5.0), [[3.0, 4.0]]


# What the rules themselves do not know: that a battery has no more power than its own, and that no order is below 0.
@pytest.mark.parametrize(
    ("where", "action", "allowed"),
    [
        ("storage", 10.5, False), ("storage", -11.0, False), ("storage", 9.1, True), ("plain storage", 400.0, False),
        ("plain storage", 3.0, True), ("direction", 700.0, False), ("direction", 0.5, True),
        ("intervention", -5.0, False), ("intervention", 40.0, False), ("intervention", 0.5, True),
        ("inventory", -5.0, False), ("inventory", 150.0, True),
    ],
)  # fmt: skip
def test_nobody_overrides_with_more_than_can_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, action: float, allowed: bool
) -> None:
    task, state, members = _beyond(where)
    with new_log(tmp_path) as log:
        uc.decide(
            task,
            state,
            uc.Trace.from_members(members),
            uc.Exact(depth=2),
            run=uc.Run(engine="python"),
            log=Filing(log, series="A"),
        )
        if allowed:
            log.override(1, task=task, action=action, **WORDS)
        else:
            with pytest.raises(NotAllowed, match="beyond what"):
                log.override(1, task=task, action=action, **WORDS)
            monkeypatch.setattr("ucsearch.records.overrides._problem", lambda *given: None)
            monkeypatch.setattr("ucsearch.records.overrides._off_unit", lambda *given: "")
            log.override(1, task=task, action=action, **WORDS)  # by whom the rules were not asked
    statuses = [verdict.status for verdict in verify_file(tmp_path / "log.db", task)]
    assert statuses == ["valid", "valid" if allowed else "invalid"]


@pytest.mark.parametrize("limits", [(1.0, 20.0), (0.0, 15.0), (0.0, float("nan")), (0.0,), "ab", None, (20.0, 0.0)])
def test_limits_have_all_actions_between_them(limits: Any) -> None:
    with pytest.raises(InputError, match=r"task\.limits"):
        replace(tank, limits=limits, labels=())
