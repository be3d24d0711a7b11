"""Recalibration from files to the verifier: the archive, decide, backtest, records and their forgeries."""

from __future__ import annotations

import copy
import io
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.planner.kit import TOML, decide, read_csv, write_csv
from ucsearch.errors import InputError
from ucsearch.forecast import SeasonalNaive, series_stream
from ucsearch.forecast.recalibrate import (
    Archive,
    Correction,
    Recalibration,
    Sums,
    correction_at,
    past_forecasts,
    walk_recalibrated,
)
from ucsearch.planner.backtest.job import run_backtest
from ucsearch.planner.files.archive import Past, read_archive, write_archive
from ucsearch.planner.settings import Settings, parse_settings
from ucsearch.records.log import AuditReader
from ucsearch.scale.segments.audit import verify_segments
from ucsearch.scale.segments.reader import export_records
from ucsearch.verify import verify_file, verify_record

STEPS = 3
LENGTH = 90


def settings_with(method: str, extra: str = "") -> Settings:
    text = f"period = 'day'\n{TOML}[forecast]\nseason = 7\ncycles = 12\nrecalibrate = '{method}'\n{extra}"
    return parse_settings(text.encode())


def past(name: str, seed: int) -> Past:
    rng = np.random.default_rng(seed)
    time = np.datetime64("2024-01-01", "s") + np.arange(LENGTH) * np.timedelta64(1, "D")
    y = 8.0 + 3.0 * (np.arange(LENGTH) % 7 == 5) + rng.normal(0.0, 1.0, LENGTH)
    mean, spread = rng.normal(8.0, 0.5, (LENGTH, STEPS)), rng.uniform(0.5, 1.5, (LENGTH, STEPS))
    return Past(name, time, Archive(y, mean, spread, ("m",) * LENGTH))


def write_job(folder: Path, names: str = "ABC", begin: str = "2024-03-31") -> list[Past]:
    first = np.datetime64(begin)
    rng = np.random.default_rng(5)
    rows = [[n, str(first + h), *np.round(rng.normal(8.0, 2.0, 6), 3)] for n in names for h in range(STEPS)]
    write_csv(folder / "forecasts.csv", ["series", "date", *(f"member_{j}" for j in range(1, 7))], rows)
    write_csv(folder / "states.csv", ["series", "on_hand", "open_orders_1"], [[n, 6.0, 5.0] for n in names])
    found = [past(name, i) for i, name in enumerate("AB")]
    write_archive(folder / "archive.csv", STEPS, iter(found))
    return found


def records(folder: Path) -> dict[str, tuple[dict[str, Any], dict[str, bytes]]]:
    with AuditReader(folder / "log.db") as reader:
        return {row.record["series"]: (row.record, reader.blobs_of(row)) for row in reader}


def test_an_archive_comes_back(tmp_path: Path) -> None:
    found = write_job(tmp_path)
    for a, b in zip(found, read_archive(tmp_path / "archive.csv", settings_with("rolling")), strict=True):
        assert a.series == b.series
        assert np.array_equal(a.time, b.time)
        for x, y in zip(a.archive[:3], b.archive[:3], strict=True):
            assert np.array_equal(x, y, equal_nan=True)
        assert a.archive.model == b.archive.model


def test_an_archive_with_missing_days_keeps_its_phase(tmp_path: Path) -> None:
    found = write_job(tmp_path)
    lines = (tmp_path / "archive.csv").read_text().splitlines()
    (tmp_path / "archive.csv").write_text("\n".join(lines[:30] + lines[40:]) + "\n")
    back = next(iter(read_archive(tmp_path / "archive.csv", settings_with("rolling"))))
    assert len(back.archive.y) == LENGTH
    assert np.isnan(back.archive.y[29:39]).all()
    assert np.array_equal(back.archive.y[39:], found[0].archive.y[39:])


@pytest.mark.parametrize("method", ["rolling", "paths"])
def test_decisions_on_recalibrated_members_are_verified(tmp_path: Path, method: str) -> None:
    found = write_job(tmp_path)
    settings = settings_with(method)
    decide(tmp_path, settings, archive=tmp_path / "archive.csv")
    assert [v.status for v in verify_file(tmp_path / "log.db")] == ["valid"] * 3
    record, blobs = records(tmp_path)["B"]
    part = record["recalibration"]
    how = Recalibration(method, 7, 12, True, -np.inf)  # type: ignore[arg-type]
    fix = correction_at(found[1].archive, how, STEPS)
    raw = np.load(io.BytesIO(blobs[part["members"]["$blob"]])).reshape(-1, STEPS)
    planned = np.load(io.BytesIO(blobs[record["inputs"]["trace"]["members"]["$blob"]])).reshape(-1, STEPS)
    mean = raw.mean(axis=0)
    if method == "rolling":
        assert part["b"] == fix.b.tolist()
        assert part["sums"]["n_p"] == [12, 12, 12]
        expected = mean + fix.b + fix.c * (raw - mean)
    else:
        assert fix.paths is not None
        expected = mean + fix.paths
    assert np.allclose(np.sort(planned, axis=0), np.sort(expected, axis=0))
    other = records(tmp_path)["C"][0]  # not in the archive: as it was
    assert ("recalibration" in other) == (method == "rolling")
    if method == "rolling":
        assert other["recalibration"]["b"] == [0] * STEPS


def test_without_an_archive_or_a_season_it_says_so(tmp_path: Path) -> None:
    write_job(tmp_path)
    with pytest.raises(InputError, match=r"archive: saw nothing.*recalibrate is 'rolling'"):
        decide(tmp_path, settings_with("rolling"))
    text = f"period = 'day'\n{TOML}[forecast]\nrecalibrate = 'rolling'\n"
    decide(tmp_path, parse_settings(text.encode()))  # season 1: nothing to do
    assert "recalibration" not in records(tmp_path)["A"][0]


def test_only_what_was_known_when_the_forecast_begins_counts(tmp_path: Path) -> None:
    found = write_job(tmp_path, begin="2024-03-21")  # the archive goes on for ten days
    decide(tmp_path, settings_with("rolling"), archive=tmp_path / "archive.csv")
    part = records(tmp_path)["A"][0]["recalibration"]
    a = found[0].archive
    cut = Archive(a.y[:80], a.mean[:80], a.spread[:80])
    assert part["b"] == correction_at(cut, Recalibration("rolling", 7, 12), STEPS).b.tolist()
    write_job(tmp_path, begin="2024-04-02")  # the archive ends two days too early
    decide(tmp_path, settings_with("rolling"), archive=tmp_path / "archive.csv", fresh=True)
    with AuditReader(tmp_path / "log.db") as reader:
        part = next(r.record for r in reader.list(series="A", kind="decision", limit=1, newest_first=True))[
            "recalibration"
        ]
    late = Archive(*(np.concatenate([x, np.full((2, *x.shape[1:]), np.nan)]) for x in a[:3]))
    assert part["b"] == correction_at(late, Recalibration("rolling", 7, 12), STEPS).b.tolist()


def forge(record: dict[str, Any], change: Any) -> dict[str, Any]:
    from ucsearch.records.canonical import seal

    forged = copy.deepcopy(record)
    forged.pop("id")
    change(forged)
    return seal(forged)


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["recalibration"]["b"].__setitem__(0, r["recalibration"]["b"][0] + 1e-6),
        lambda r: r["recalibration"]["c"].__setitem__(1, 1.0),
        lambda r: r["recalibration"]["sums"]["e_p"].__setitem__(0, 99.0),
        lambda r: r["recalibration"]["sums"]["n_p"].__setitem__(0, 13),
        lambda r: r["recalibration"].__setitem__("floor", 9.5),
        lambda r: r["recalibration"].__setitem__("scale", False),
        lambda r: r["recalibration"].__setitem__("season", 8),
        lambda r: r["recalibration"].__setitem__("method", "paths"),
        lambda r: r["recalibration"].__setitem__("members", r["inputs"]["trace"]["members"]),
        lambda r: r.pop("recalibration"),
    ],
)
def test_a_forged_recalibration_is_found(tmp_path: Path, change: Any) -> None:
    write_job(tmp_path)
    decide(tmp_path, settings_with("rolling"), archive=tmp_path / "archive.csv")
    record, blobs = records(tmp_path)["A"]
    assert verify_record(record, blobs).status == "valid"
    assert verify_record(forge(record, change), blobs).status in ("invalid", "malformed")


def test_walking_forward_sees_no_future() -> None:
    rng = np.random.default_rng(4)
    y = rng.poisson(6.0, 160).astype(float)
    model, how = SeasonalNaive(paths=9, floor=0.0), Recalibration("rolling", 7, 6, floor=0.0)
    stream = series_stream(1, "x")
    cutoffs = np.arange(120, 150, dtype=np.int64)
    whole = walk_recalibrated(model, y, cutoffs, how, horizon=4, season=7, stream=stream)
    other = y.copy()
    other[131:] = 99.0
    changed = walk_recalibrated(model, other, cutoffs, how, horizon=4, season=7, stream=stream)
    assert np.array_equal(whole[:11], changed[:11])
    archive, members = past_forecasts(model, y, 11, 130, 1, horizon=4, season=7, stream=stream)
    fix = correction_at(archive, how, 4)
    m = members[-1].mean(axis=0)
    assert np.allclose(whole[10], np.maximum(m + fix.b + fix.c * (members[-1] - m), 0.0), rtol=1e-12)
    paths = walk_recalibrated(
        model, y, cutoffs, Recalibration("paths", 7, 12, floor=0.0), horizon=4, season=7, stream=stream
    )
    assert paths.shape[1] >= 8


def test_a_backtest_recalibrates(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    rows = [[n, t + 1, float(rng.poisson(5.0 + 5.0 * (t % 7 == 0)))] for n in "AB" for t in range(130)]
    write_csv(tmp_path / "sales.csv", ["series", "step", "demand"], rows)
    plain = run_backtest(settings_with("off"), tmp_path / "sales.csv")
    for method in ("rolling", "paths"):
        changed = run_backtest(settings_with(method), tmp_path / "sales.csv")
        assert not np.array_equal(plain.tracks["policy"].reward, changed.tracks["policy"].reward), method
        assert np.array_equal(plain.tracks["policy"].parts["demand"], changed.tracks["policy"].parts["demand"]), method


def test_sums_are_what_a_correction_is_made_of() -> None:
    fix = correction_at(past("A", 1).archive, Recalibration("rolling", 7, 12), STEPS)
    assert isinstance(fix, Correction)
    assert isinstance(fix.sums, Sums)
    assert (fix.sums.n_p <= 12).all()


def test_the_log_holds_raw_members_once(tmp_path: Path) -> None:
    write_job(tmp_path)
    decide(tmp_path, settings_with("rolling"), archive=tmp_path / "archive.csv")
    with sqlite3.connect(tmp_path / "log.db") as book:
        names = [name for (name,) in book.execute("SELECT id FROM blobs")]
    assert len(names) == len(set(names))


def test_decide_keeps_the_archive_run_by_run(tmp_path: Path) -> None:
    """Two runs two days apart: what was forecast, before recalibration, and what came."""
    settings = settings_with("rolling")
    kept = tmp_path / "kept.csv"
    for begin in ("2024-03-31", "2024-04-02"):
        write_job(tmp_path, begin=begin)
        until = np.datetime64(begin) - np.datetime64("2024-03-20")
        sold = [["A", str(np.datetime64("2024-03-20") + t), 5.0 + t] for t in range(int(until.astype(int)))]
        write_csv(tmp_path / "sales.csv", ["series", "date", "demand"], sold)
        decide(
            tmp_path, settings, archive=kept, keep=kept, sales=tmp_path / "sales.csv", fresh=True
        )  # fmt: skip
    found = {p.series: p for p in read_archive(kept, settings)}
    assert set(found) == {"A", "B", "C"}
    a = found["A"]
    assert [str(t)[:10] for t in a.time] == ["2024-03-30", "2024-03-31", "2024-04-01"]
    assert a.archive.y.tolist() == [15.0, 16.0, 17.0]
    assert np.isnan(a.archive.mean[1]).all()
    table = np.array([[float(x) for x in row[2:]] for row in _rows(tmp_path / "forecasts.csv") if row[0] == "A"])
    assert np.allclose(a.archive.mean[2], table.mean(axis=1))
    assert np.allclose(a.archive.spread[2], np.abs(table - table.mean(axis=1)[:, None]).mean(axis=1))
    assert np.isnan(found["B"].archive.y).all()
    assert [v.status for v in verify_file(tmp_path / "log.db")] == ["valid"] * 6


def test_what_is_kept_replaces_no_other_input(tmp_path: Path) -> None:
    write_job(tmp_path)
    for name in ("forecasts.csv", "states.csv"):
        with pytest.raises(InputError, match="which it would replace"):
            decide(tmp_path, settings_with("off"), keep=tmp_path / name)


def _rows(path: Path) -> list[list[str]]:
    return [line.split(",") for line in path.read_text().splitlines()[1:]]


@pytest.mark.parametrize("method", ["rolling", "paths"])
def test_rows_of_a_segment_say_how_their_members_came_about(tmp_path: Path, method: str) -> None:
    write_job(tmp_path)
    entries = settings_with(method)
    rows = replace(entries, run=replace(entries.run, segment_from=1))
    decide(tmp_path, entries, archive=tmp_path / "archive.csv", out="entries.csv", log_name="entries.db")
    decide(tmp_path, rows, archive=tmp_path / "archive.csv")
    shown = [read_csv(tmp_path / name) for name in ("entries.csv", "out.csv")]
    for line in (*shown[0], *shown[1]):
        del line["certificate"]
    assert shown[0] == shown[1]
    with AuditReader(tmp_path / "log.db") as reader:
        assert [r.fault for r in verify_segments(reader, engine="python", sample=-1)] == [""]
        export_records(reader, tmp_path / "records.jsonl", engine="python")
    assert [v.status for v in verify_file(tmp_path / "records.jsonl")] == ["valid"] * 3
    lines = (tmp_path / "records.jsonl").read_text().splitlines()
    assert [f'"method":"{method}"' in line for line in lines] == [True, True, method == "rolling"]
