"""The door to the test split, and results that survive a kill."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ucsearch.data.embedded import sample_demand
from ucsearch.errors import InputError, RecordError
from ucsearch.evaluation.job import Job, TestSplitClosed
from ucsearch.evaluation.sources import Pool

IDENTITY = {"card_sha256": "c", "settings": {}}


def pool() -> Pool:
    series = sample_demand(3, 200).series
    return Pool({"sample": tuple(series)}, {"validation": 1, "test": 2}, 10, 4, 40, "level")


def test_test_split_stays_closed_until_something_is_selected(tmp_path: Path) -> None:
    job = Job(tmp_path / "s", IDENTITY)
    with pytest.raises(TestSplitClosed):
        job.open_test()
    with pytest.raises(TestSplitClosed):
        pool().stretches("test", job)
    assert len(pool().stretches("validation", job)) == 3
    job.select({"candidate": "a"})
    with pytest.raises(TestSplitClosed):
        pool().stretches("test", job)  # selected, but not yet opened: the look must be on record first
    job.open_test()
    assert len(pool().stretches("test", job)) == 6
    assert job.looks == 1


def test_a_second_look_is_visible_and_a_resumed_one_is_not_another(tmp_path: Path) -> None:
    first = Job(tmp_path / "s", IDENTITY)
    first.select({"candidate": "a"})
    first.open_test()
    first.open_test()
    assert first.looks == 1
    killed = Job(tmp_path / "s", IDENTITY)
    killed.select({"candidate": "a"})
    killed.open_test()
    assert killed.looks == 1
    killed.finish()
    again = Job(tmp_path / "s", IDENTITY)
    again.select({"candidate": "a"})
    again.open_test()
    assert again.looks == 2
    lines = [json.loads(x) for x in (tmp_path / "s" / "looks.jsonl").read_bytes().splitlines()]
    assert [x["look"] for x in lines] == [1, 2]
    assert lines[0]["selection"] == lines[1]["selection"]


def test_a_selection_cannot_be_revised(tmp_path: Path) -> None:
    job = Job(tmp_path / "s", IDENTITY)
    job.select({"candidate": "a"})
    job.select({"candidate": "a"})
    with pytest.raises(RecordError, match="another selection"):
        job.select({"candidate": "b"})
    assert json.loads(job.selection_path.read_bytes()) == {"candidate": "a"}


def test_shards_are_computed_once_and_dropped_when_the_settings_change(tmp_path: Path) -> None:
    calls: list[int] = []

    def make() -> dict[str, float]:
        calls.append(1)
        return {"x": 0.1 + 0.2}

    assert Job(tmp_path / "s", IDENTITY).shard("a b/c", make) == {"x": 0.1 + 0.2}
    assert Job(tmp_path / "s", IDENTITY).shard("a b/c", make) == {"x": 0.1 + 0.2}
    assert len(calls) == 1
    Job(tmp_path / "s", IDENTITY).shard("a b_c", make)  # another key, though its file name looks the same
    assert len(calls) == 2
    Job(tmp_path / "s", {**IDENTITY, "settings": {"seed": 1}}).shard("a b/c", make)
    assert len(calls) == 3


def test_a_shard_holds_finite_numbers_only(tmp_path: Path) -> None:
    job = Job(tmp_path / "s", IDENTITY)
    with pytest.raises(InputError, match="not finite"):
        job.shard("bad", lambda: {"x": float("nan")})
    assert not list(job.work.glob("bad*"))


def test_windows_are_disjoint_in_time_and_see_nothing_later(tmp_path: Path) -> None:
    job = Job(tmp_path / "s", IDENTITY)
    job.select({"candidate": "a"})
    job.open_test()
    validation, test = pool().stretches("validation", job), pool().stretches("test", job)
    for v in validation:
        later = [t for t in test if t.series == v.series]
        assert len(v.y) <= min(t.start for t in later)
        assert v.start + v.decisions <= len(v.y)
        np.testing.assert_array_equal(v.y, later[0].y[: len(v.y)])  # one scale, from the fitting part alone
    first, second = (t for t in test if t.series == test[0].series)
    assert first.start + first.decisions == second.start
