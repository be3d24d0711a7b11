"""The door to the test split, and results that survive a kill."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ucsearch.errors import InputError, RecordError
from ucsearch.lab.data.embedded import sample_demand
from ucsearch.lab.suites.evidence import ledger
from ucsearch.lab.suites.evidence.ledger import Look, append_look, check_kept, is_tied, read_ledger, same_choice
from ucsearch.lab.suites.evidence.rows import EvidenceError
from ucsearch.lab.suites.job import AnotherLook, SuiteJob, TestSplitClosed
from ucsearch.lab.suites.kinds.series import Pool
from ucsearch.records.canonical import canonical

IDENTITY = {"card_sha256": "c" * 64, "suite_sha256": "5" * 64, "settings": {"name": "s"}}


def pool() -> Pool:
    series = sample_demand(3, 200).series
    return Pool({"sample": tuple(series)}, {"validation": 1, "test": 2}, 10, 4, 40, "level")


def test_test_split_stays_closed_until_something_is_selected(tmp_path: Path) -> None:
    job = SuiteJob(tmp_path / "s", IDENTITY)
    with pytest.raises(TestSplitClosed):
        job.open_test(pool().opened())
    with pytest.raises(TestSplitClosed):
        pool().stretches("test", job)
    assert len(pool().stretches("validation", job)) == 3
    job.select({"candidate": "a"})
    with pytest.raises(TestSplitClosed):
        pool().stretches("test", job)  # selected, but not yet opened: the look must be on record first
    job.open_test(pool().opened())
    assert len(pool().stretches("test", job)) == 6
    assert job.looks == (1, [])


def look(folder: Path, candidate: str = "a") -> SuiteJob:
    job = SuiteJob(folder, IDENTITY)
    job.select({"candidate": candidate})
    job.open_test(pool().opened())
    return job


def test_a_resumed_look_is_not_another_and_a_repeat_shows_nothing_new(tmp_path: Path) -> None:
    first = look(tmp_path / "s")
    first.open_test(pool().opened())
    assert first.looks == (1, [])
    killed = look(tmp_path / "s")
    assert len(read_ledger(tmp_path / "looks.jsonl")) == 1
    killed.finish()
    again = look(tmp_path / "s")
    assert [x["repeat_of"] for x in read_ledger(tmp_path / "looks.jsonl")] == [None, 1]
    assert again.looks == (1, [])


def test_a_look_in_a_fresh_folder_or_under_another_name_is_not_forgotten(tmp_path: Path) -> None:
    look(tmp_path / "s").finish()
    count, earlier = look(tmp_path / "fresh", "b").looks  # the same suite in another folder, another choice
    assert count == 2
    assert [(x["look"], x["suite"], len(x["periods"])) for x in earlier] == [(1, "s", 3)]
    other = SuiteJob(tmp_path / "t", {**IDENTITY, "settings": {"name": "t"}, "suite_sha256": "6" * 64})
    other.select({"candidate": "a"})
    other.open_test({"sample": {pool().families["sample"][0].id: [100, 190]}})
    count, earlier = other.looks
    assert count == 1
    assert [(x["look"], x["suite"]) for x in earlier] == [(1, "s"), (2, "s")]
    assert list(earlier[0]["periods"].values()) == [[176, 190]]


def test_looks_that_are_written_at_once_make_one_chain(tmp_path: Path) -> None:
    own = [Look("s", "5" * 64, "c" * 64, f"{n:064x}") for n in range(12)]
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda one: append_look(tmp_path / "l", one, {"d": {"x": [0, 1]}}, code=None), own))
    looks = read_ledger(tmp_path / "l")
    assert [x["look"] for x in looks] == list(range(1, 13))
    assert {x["selection_sha256"] for x in looks} == {one.selection_sha256 for one in own}


def test_lines_that_were_moved_doubled_or_left_out(tmp_path: Path) -> None:
    """A chain that somebody makes anew shows it only to who kept a head: `check_kept`."""
    path = tmp_path / "l"
    for n in (0, 1, 2, 0):
        append_look(path, Look("s", "5" * 64, "c" * 64, f"{n:064x}"), {"d": {"x": [0, 1]}}, code=None)
    first, second, third, fourth = lines = path.read_bytes().splitlines()
    assert [x["repeat_of"] for x in read_ledger(path)] == [None, None, None, 1]
    for moved in (
        [second, first, third, fourth], [first, third, second, fourth], [first, second, fourth, third],
        [first, first, second, third], [first, second, second, third, fourth], [*lines, fourth],
        [second, third, fourth], [first, third, fourth], [first, second, fourth], [*lines, b""], [b"", *lines],
    ):  # fmt: skip
        path.write_bytes(b"\n".join(moved) + b"\n")
        with pytest.raises(EvidenceError):
            read_ledger(path)
    for n, changes in ((0, {"look": True}), (1, {"look": 2.5}), (3, {"repeat_of": 3}), (3, {"repeat_of": True})):
        forged = {**json.loads(lines[n]), **changes}
        forged["head"] = ledger._head(forged)
        path.write_bytes(b"\n".join([*lines[:n], canonical(forged)]) + b"\n")
        with pytest.raises(EvidenceError):
            read_ledger(path)
    path.write_bytes(b"\n".join(lines[:-1]) + b"\n")  # a chain without its end is one
    with pytest.raises(EvidenceError, match="cut or rewritten"):
        check_kept(read_ledger(path), json.loads(fourth)["head"])


@pytest.mark.parametrize("opened", [{}, {"d": {}}, {"d": {"x": [3, 3]}}, {"d": {"x": [-1, 3]}}, {"d": {"x": [0]}}])
def test_a_look_must_say_what_it_opens(tmp_path: Path, opened: dict[str, Any]) -> None:
    with pytest.raises(EvidenceError, match="opened"):
        append_look(tmp_path / "l", Look("s", "5" * 64, "c" * 64, "0" * 64), opened, code=None)
    assert not (tmp_path / "l").exists()


def test_a_selection_cannot_be_revised_once_the_test_was_opened_under_it(tmp_path: Path) -> None:
    job = SuiteJob(tmp_path / "s", IDENTITY)
    job.select({"candidate": "a"})
    job.select({"candidate": "b"})  # nobody has looked yet
    job.open_test(pool().opened())
    job.select({"candidate": "b"})
    for later in (job, SuiteJob(tmp_path / "s", IDENTITY)):
        with pytest.raises(RecordError, match="another selection, which stays"):
            later.select({"candidate": "a"})
    assert json.loads(job.selection_path.read_bytes()) == {"candidate": "b"}


def test_shards_are_computed_once_and_dropped_when_the_settings_change(tmp_path: Path) -> None:
    calls: list[int] = []

    def make() -> dict[str, float]:
        calls.append(1)
        return {"x": 0.1 + 0.2}

    assert SuiteJob(tmp_path / "s", IDENTITY).shard("a b/c", make) == {"x": 0.1 + 0.2}
    assert SuiteJob(tmp_path / "s", IDENTITY).shard("a b/c", make) == {"x": 0.1 + 0.2}
    assert len(calls) == 1
    SuiteJob(tmp_path / "s", IDENTITY).shard("a b_c", make)  # another key, though its file name looks the same
    assert len(calls) == 2
    SuiteJob(tmp_path / "s", {**IDENTITY, "settings": {"seed": 1}}).shard("a b/c", make)
    assert len(calls) == 3


def test_a_shard_holds_finite_numbers_only(tmp_path: Path) -> None:
    job = SuiteJob(tmp_path / "s", IDENTITY)
    with pytest.raises(InputError, match="not finite"):
        job.shard("bad", lambda: {"x": float("nan")})
    assert not list(job.work.glob("bad*"))


def test_windows_are_disjoint_in_time_and_see_nothing_later(tmp_path: Path) -> None:
    job = SuiteJob(tmp_path / "s", IDENTITY)
    job.select({"candidate": "a"})
    job.open_test(pool().opened())
    validation, test = pool().stretches("validation", job), pool().stretches("test", job)
    for v in validation:
        later = [t for t in test if t.series == v.series]
        assert len(v.y) <= min(t.start for t in later)
        assert v.start + v.decisions <= len(v.y)
        np.testing.assert_array_equal(v.y, later[0].y[: len(v.y)])  # one scale, from the fitting part alone
    first, second = (t for t in test if t.series == test[0].series)
    assert first.start + first.decisions == second.start


def repeated(tmp_path: Path, record: dict[str, Any]) -> SuiteJob:
    held, folder = tmp_path / "s" / "selection.json", tmp_path / f"again {len(list(tmp_path.iterdir()))}" / "s"
    job = SuiteJob(folder, IDENTITY, repeats=held, ledger=tmp_path / "looks.jsonl")
    job.select(record)
    job.open_test(pool().opened())
    return job


def test_a_run_that_chooses_the_same_repeats_a_look_and_another_choice_stays_closed(tmp_path: Path) -> None:
    first = SuiteJob(tmp_path / "s", IDENTITY)
    first.select({"candidate": "a", "rows_sha256": "0" * 64})
    first.open_test(pool().opened())
    assert repeated(tmp_path, {"candidate": "a", "rows_sha256": "0" * 64}).looks == (1, [])
    later = repeated(tmp_path, {"candidate": "a", "rows_sha256": "1" * 64})  # the rows have other bytes
    assert later.looks == (1, [])
    with pytest.raises(AnotherLook, match="chose otherwise"):
        repeated(tmp_path, {"candidate": "b", "rows_sha256": "1" * 64})
    lines = read_ledger(tmp_path / "looks.jsonl")
    assert [line["repeat_of"] for line in lines] == [None, 1, 1]
    assert ["repeats" in line for line in lines] == [False, False, True]
    assert is_tied(lines[2], {"candidate": "a", "rows_sha256": "1" * 64})
    assert not is_tied(lines[2], {"candidate": "b", "rows_sha256": "1" * 64})


def test_the_last_digits_of_a_number_are_no_other_choice(tmp_path: Path) -> None:
    first = SuiteJob(tmp_path / "s", IDENTITY)
    first.select({"candidate": "a", "losses": [1.0897909070816787, 2.0]})
    first.open_test(pool().opened())
    close = {"candidate": "a", "losses": [1.089790907081679, 2.0]}
    assert repeated(tmp_path, close).looks == (1, [])
    for other in ([1.08979091, 2.0], [1.0897909070816787], [math.nan, 2.0], ["1.0897909070816787", 2.0]):
        assert same_choice({"candidate": "a", "losses": other}, close) is None
    (_, line) = read_ledger(tmp_path / "looks.jsonl")
    assert line["repeat_of"] == 1
    for stood in ([], [{"at": ["candidate"], "value": "b"}], [{"at": ["losses", 7], "value": 1.0}]):
        assert not is_tied({"repeats": line["repeats"] | {"stood": stood}}, close)


def test_a_line_that_repeats_what_no_look_has_is_refused(tmp_path: Path) -> None:
    job = SuiteJob(tmp_path / "s", IDENTITY)
    job.select({"candidate": "a", "rows_sha256": "0" * 64})  # written down, never opened
    with pytest.raises(EvidenceError, match="no earlier look"):
        repeated(tmp_path, {"candidate": "a", "rows_sha256": "1" * 64})
    assert not (tmp_path / "looks.jsonl").exists()
