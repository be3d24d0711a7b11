"""`ucsearch calibrate`: honest forecasts look honest, wrong phases come first, and the page escapes what it shows."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.planner.kit import write_csv
from tests.planner.pages_kit import check_harmless
from ucsearch.cli.main import app
from ucsearch.errors import DataError, InputError
from ucsearch.planner.calibrate import CalibrateResult, run_calibrate
from ucsearch.planner.calibration_page import write_page
from ucsearch.planner.settings import Settings, parse_settings
from ucsearch.replay.statistics import Interval

BEGIN = np.datetime64("2024-01-01")  # a Monday


def settings_for(model: str, paths: int) -> Settings:
    """Settings that only forecast."""
    changes = {"forecaster": {"name": model, "paths": paths}}
    return parse_settings(b"", "", changes, plans=False)


def history(folder: Path, names: tuple[str, ...] = ("A",), length: int = 300, noisy: int = 5, seed: int = 1) -> Path:
    """Steady demand whose weekday number `noisy` varies far more than the others."""
    rng = np.random.default_rng(seed)
    rows: list[list[Any]] = []
    for name in names:
        spread = np.where(np.arange(length) % 7 == noisy, 12.0, 1.0)
        y = np.maximum(50.0 + rng.normal(0.0, 1.0, length) * spread, 0.0)
        rows += [[name, str(BEGIN + t), float(x)] for t, x in enumerate(y)]
    return write_csv(folder / "sales.csv", ["series", "date", "demand"], rows)


def measured(path: Path, **options: Any) -> CalibrateResult:
    found = settings_for("ridge_paths", 40)
    return run_calibrate(found, path, horizon=2, origins=140, **options)


def test_the_worst_phase_comes_first_and_recalibration_mends_it(tmp_path: Path) -> None:
    result = measured(history(tmp_path, ("A", "B")))
    assert (result.series, result.season, result.period) == (2, 7, "day")
    raw, mended = result.variants
    assert raw.phases[0].label == "Saturday"
    assert raw.phases[0].coverage < 0.75
    assert mended.worst < 0.7 * raw.worst
    assert mended.report.crps < raw.report.crps
    gaps = [abs(p.coverage - 0.9) for p in raw.phases]
    assert gaps == sorted(gaps, reverse=True)
    assert sum(p.count for p in raw.phases) == 2 * 140 * 2
    assert "worst phase, 90 %" in result.text()


def test_figures_are_those_of_the_definitions(tmp_path: Path) -> None:
    """Coverage of all phases together is the report's, and bias by phase averages to bias by step."""
    for variant in measured(history(tmp_path)).variants:
        total = sum(p.count for p in variant.phases)
        covered = sum(p.count * p.coverage for p in variant.phases) / total
        assert covered == pytest.approx(variant.report.coverage[2], abs=1e-12)
        bias = sum(p.count * p.bias for p in variant.phases) / total
        assert bias == pytest.approx(float(variant.bias_by_step.mean()), abs=1e-12)


def test_without_a_season_there_are_no_phases(tmp_path: Path) -> None:
    result = measured(history(tmp_path), season=1)
    assert [v.name for v in result.variants] == ["as forecast"]
    assert result.variants[0].phases == ()
    write_page(result, tmp_path / "page.html")
    assert "no season" in (tmp_path / "page.html").read_text()


def test_the_page_is_whole_and_escapes_names(tmp_path: Path) -> None:
    result = measured(history(tmp_path))
    object.__setattr__(result, "model", "<script>alert(1)</script>")
    write_page(result, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "<script>alert" not in text
    assert "model <script>alert(1)</script>" in " ".join(" ".join(check_harmless(text).words).split())
    assert "://" not in text
    body = text[text.index("<main>") : text.index("</main>") + 7]
    tree = ET.fromstring(body)
    assert len(tree.findall(".//svg")) == 4 + 2
    for chart in tree.findall(".//svg"):
        box = chart.get("viewBox")
        if box is not None:
            width = float(box.split()[2])
            assert all(float(r.get("x", 0)) + float(r.get("width", 0)) <= width for r in chart.findall("rect"))


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = history(tmp_path, length=120)
    given = [f"files.sales={path}", "forecast.steps=2", "forecaster.name=seasonal_naive", "forecaster.paths=20"]
    base = ["calibrate", *(word for text in given for word in ("--set", text))]
    done = CliRunner().invoke(app, [*base, "--set", "files.pages=p", "--set", "backtest.origins=40"])
    assert done.exit_code == 0, done.output
    assert "seasonal-naive: 1 series, 40 origins each" in done.output
    assert (tmp_path / "p" / "calibration.html").exists()
    with pytest.raises(DataError, match="no series"):
        run_calibrate(settings_for("seasonal_naive", 9), history(tmp_path, length=22), horizon=2, season=7)
    with pytest.raises(InputError, match=r"forecast\.steps"):
        run_calibrate(settings_for("seasonal_naive", 9), path, season=7)


def test_three_years_of_weeks_are_enough(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    rows = [["A", str(BEGIN + 7 * t), float(y)] for t, y in enumerate(rng.poisson(30.0, 140))]
    path = write_csv(tmp_path / "weeks.csv", ["series", "date", "demand"], rows)
    found = run_calibrate(settings_for("ridge_paths", 40), path, horizon=2, season=52)
    assert found.series == 1
    assert 28 <= found.origins < 104  # what there is, not what was asked for
    assert f"1 series, {found.origins} origins each" in found.text()


def noise(folder: Path, length: int = 300, trend: float = 0.0, seed: int = 2) -> Path:
    """Demand without a season that rises by `trend` a day; recalibration by phase has nothing to learn from it."""
    rng = np.random.default_rng(seed)
    y = np.round(50.0 + trend * np.arange(length) + rng.normal(0.0, 5.0, length), 2)
    rows = [["A", str(BEGIN + t), float(v)] for t, v in enumerate(y)]
    return write_csv(folder / "noise.csv", ["series", "date", "demand"], rows)


def test_the_verdict_says_whether_intervals_are_right_and_what_is_taken(tmp_path: Path) -> None:
    found = measured(history(tmp_path))
    plain, other = found.variants
    scores = [plain.earlier_crps, other.earlier_crps]
    assert found.earlier == found.origins == 140
    assert found.chosen == int(scores[1] < scores[0])
    taken = found.variants[found.chosen]
    text = found.text()
    assert text.endswith(found.verdict())
    assert f"covered {100 * taken.coverage:.1f} % of the outcomes" in found.verdict()
    assert f"Use {'the forecasts as they are' if taken is plain else 'the recalibrated forecasts'} (" in found.verdict()
    assert f"on the 140 origins before, their CRPS was {taken.earlier_crps:.4f}" in found.verdict()
    write_page(found, tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text()
    assert f"covered {100 * taken.coverage:.1f} % of the outcomes" in page
    assert page.count("outcomes inside</text>") == 2  # what the y axis counts
    assert ">50 %</text>" in page


def test_the_choice_is_made_before_the_origins_that_are_shown(tmp_path: Path) -> None:
    """Outcomes of the origins shown have no say in it, and the scores are those of the definition."""
    path = noise(tmp_path)
    found = run_calibrate(settings_for("seasonal_naive", 20), path, horizon=2, season=7, origins=40)
    y = np.array([float(line.rpartition(",")[2]) for line in path.read_text().splitlines()[1:]])
    first = y.size - 1 - 2 - 40 + 1
    rows = [["A", str(BEGIN + t), float(v if t <= first else 3.0 * v)] for t, v in enumerate(y)]
    changed = write_csv(tmp_path / "changed.csv", ["series", "date", "demand"], rows)
    again = run_calibrate(settings_for("seasonal_naive", 20), changed, horizon=2, season=7, origins=40)
    assert again.chosen == found.chosen
    size = [np.abs(y).mean(), np.mean([row[2] for row in rows])]
    for a, b in zip(found.variants, again.variants, strict=True):
        assert a.earlier_crps * size[0] == pytest.approx(b.earlier_crps * size[1])
        assert a.report.crps != b.report.crps


def test_a_recalibration_that_is_worse_is_said_and_not_taken(tmp_path: Path) -> None:
    found = run_calibrate(settings_for("ridge_paths", 60), noise(tmp_path), horizon=2, season=7)
    worse = replace(found.variants[1], earlier_crps=2.0 * found.variants[0].earlier_crps)
    result = replace(found, variants=(found.variants[0], worse), saved=Interval(-0.1, -0.2, -0.05))
    assert result.chosen == 0
    assert "Recalibration is worse" in result.verdict()
    assert '[forecast] recalibrate = "off"' in result.verdict()
    better = replace(worse, earlier_crps=0.5 * found.variants[0].earlier_crps)
    result = replace(found, variants=(found.variants[0], better), saved=Interval(0.1, 0.05, 0.2))
    assert result.chosen == 1
    assert result.verdict().startswith("Recalibrated, the 90 % intervals are ")
    assert "Recalibration is better" in result.verdict()
    assert '[forecast] recalibrate = "rolling"' in result.verdict()
    unknown = [replace(v, earlier_crps=float("nan")) for v in found.variants]
    assert replace(found, variants=tuple(unknown), earlier=0).chosen == 0
    open_one = replace(found, saved=Interval(0.0, -0.1, 0.1)).verdict()
    assert "Recalibration makes no clear difference" in open_one
