"""Stored forecasts of trained networks: looked up where they belong, refused where they are not what was trained."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch.lab.suites.kinds.walkforward.stored as module
from ucsearch.errors import DataError, InputError
from ucsearch.lab.suites.evidence.ledger import by_dataset
from ucsearch.lab.suites.kinds.walkforward.stored import LEVELS, StoredTraces, read_traces
from ucsearch.lab.suites.recheck.verify import verify_evidence
from ucsearch.lab.suites.run import evaluate
from ucsearch.lab.suites.suite import load_suite
from ucsearch.replay.panel import Stretch

ROOT = Path(__file__).resolve().parents[2]
MINI = "trained-backbones-mini"
FULL = ("trained-backbones",)


def stretch(series: str, start: int) -> Stretch:
    return Stretch("trained-DLinear-sample-daily", series, 0, start, 2, 7, np.ones(260), 1.0)


def test_a_decision_gets_the_quantiles_stored_for_it() -> None:
    held = read_traces(MINI)
    name, start = str(held["ids"][1]), int(held["starts"][1])
    cutoffs = np.array([start, start + 1])  # the second and third decision
    made = StoredTraces(MINI, 0.0).of(stretch(name, start + 1))
    found = made.forecast(np.ones(260), cutoffs, horizon=3, season=7, stream=np.uint64(0))
    wanted = np.maximum(held["DLinear"][1, 1:3, :3], 0.0).astype(np.float64)  # (decisions, steps, levels)
    np.testing.assert_array_equal(found.members, np.swapaxes(wanted, 1, 2))
    assert found.coupling == "marginal"
    with pytest.raises(DataError, match="decisions"):
        made.forecast(np.ones(260), cutoffs + 100, horizon=3, season=7, stream=np.uint64(0))
    with pytest.raises(DataError, match="no forecasts of DLinear for series X"):
        StoredTraces(MINI, 0.0).of(stretch("X", start)).forecast(
            np.ones(260), cutoffs, horizon=3, season=7, stream=np.uint64(0)
        )


def test_the_ledger_knows_a_series_whoever_forecasts_it() -> None:
    opened = {f"trained-{net}-ett-ETTh": {"ETTh1/OT": [10, 20]} for net in ("DLinear", "TFT")}
    found = by_dataset(opened, dict.fromkeys(opened, "ett"), "s")
    assert found == {"ett": {"ETTh1/OT": [10, 20]}}
    # Ids that two other families use are still kept apart.
    apart = by_dataset({"a": {"L1": [0, 1]}, "b": {"L1": [0, 1]}}, {"a": "z", "b": "z"}, "s")
    assert apart == {"z": {"a/L1": [0, 1], "b/L1": [0, 1]}}


@pytest.mark.parametrize("name", FULL)
def test_stored_forecasts_are_whole_and_in_order(name: str) -> None:
    held, s = read_traces(name), load_suite(name).settings
    decided = s.splits.decisions * (s.splits.validation + s.splits.test)
    for family in s.families:
        found = held[family.split("-", 2)[1]]
        assert found.shape == (s.splits.per_family, decided, 4, len(LEVELS))
        assert np.isfinite(found).all()
        assert (np.diff(found, axis=-1) >= 0.0).all()


def the_script() -> Any:
    spec = importlib.util.spec_from_file_location("train_backbones", ROOT / "scripts" / "train_backbones.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_a_training_that_was_killed_goes_on_with_the_next_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    script, trained = the_script(), []
    made = read_traces(MINI)["DLinear"]

    def forecasts(name: str, *_: Any) -> str:
        trained.append(name)
        if trained == ["DLinear", "TFT"]:
            raise KeyboardInterrupt
        return name

    monkeypatch.setattr(script, "ROOT", tmp_path)
    monkeypatch.setattr(script, "WORK", tmp_path / "build")
    monkeypatch.setattr(script, "version", lambda _: "1")
    monkeypatch.setattr(script, "_forecasts", forecasts)
    monkeypatch.setattr(script, "quantiles", lambda _, name, *__: made + np.float32(name == "TFT"))
    (tmp_path / "src" / "ucsearch" / "lab" / "suites").mkdir(parents=True)
    stored = tmp_path / "src" / "ucsearch" / "lab" / "suites" / "traces" / f"{MINI}.npz"
    with pytest.raises(KeyboardInterrupt):
        script.train(MINI, ["DLinear", "TFT"])
    assert not stored.exists()  # what suites read is whole or as it was
    script.train(MINI, ["DLinear", "TFT"])
    assert trained == ["DLinear", "TFT", "TFT"]
    with np.load(stored) as found:
        np.testing.assert_array_equal(found["DLinear"], made)
        np.testing.assert_array_equal(found["TFT"], made + np.float32(1))
    told = json.loads(stored.with_suffix(".json").read_text())
    assert told["sha256"] == hashlib.sha256(stored.read_bytes()).hexdigest()
    assert set(told["models"]) == {"DLinear", "TFT"}
    assert not list((tmp_path / "build").iterdir())


def test_forecasts_made_elsewhere_are_stored_as_they_are_and_refused_where_they_do_not_fit() -> None:
    pandas = pytest.importorskip("pandas")
    script = the_script()
    _, data, ids, starts, _ = script.inputs(MINI)
    held = read_traces(MINI)
    assert ids == held["ids"].tolist()
    assert starts == held["starts"].tolist()
    names = [f"X-lo-{level}" for level in (90, 70, 50, 30, 10)] + [f"X-hi-{level}" for level in (10, 30, 50, 70, 90)]
    each = held["DLinear"].shape[1]
    rows = [
        (one, starts[i] + t - 1, starts[i] + t + h, *held["DLinear"][i, t, h])
        for i, one in enumerate(ids) for t in range(each) for h in range(4)
    ]  # fmt: skip
    frame = pandas.DataFrame(rows, columns=["unique_id", "cutoff", "ds", *names])
    np.testing.assert_array_equal(script.quantiles(frame, "X", ids, starts, each), held["DLinear"])
    with pytest.raises(SystemExit, match="cutoffs"):
        script.quantiles(frame.assign(cutoff=frame["cutoff"] + 1), "X", ids, starts, each)
    with pytest.raises(SystemExit, match="quantiles from low to high"):
        script.quantiles(frame.drop(columns="X-hi-90"), "X", ids, starts, each)
    # What is handed out ends one value before the series: nothing beyond the last forecast's reach.
    assert data.groupby("unique_id").size().tolist() == [start + each + 3 for start in sorted(starts)]


def test_forecasts_that_are_not_what_was_made_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(str(resources.files("ucsearch.lab.suites") / "traces"), tmp_path / "traces")
    path = tmp_path / "traces" / f"{MINI}.npz"
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(bytes(body))
    monkeypatch.setattr(module.resources, "files", lambda _: tmp_path)
    read_traces.cache_clear()
    with pytest.raises(DataError, match="SHA-256"):
        read_traces(MINI)
    with pytest.raises(InputError, match="make backbones"):
        read_traces("nobody")
    read_traces.cache_clear()


def test_the_mini_suite_runs_under_both_gates_and_verifies(tmp_path: Path) -> None:
    run = evaluate(MINI, tmp_path, threads=1, underpowered=True)
    report = verify_evidence(run.folder)
    assert (report.problems, report.malformed) == ((), "")
    against = {row["comparator"] for row in run.statement["predicate"]["gate"] if row["name"] == "lower_bound"}
    assert against == {"cem", "mppi", "risk-random"}
    value = run.statement["predicate"]["value"]
    assert {row["name"] for row in value["gate"]} >= {"practitioner", "sampler"}
