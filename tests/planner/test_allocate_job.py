"""From a log of decisions to shares, by the command a planner types."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ucsearch.cli.main import app
from ucsearch.verify import verify_file

SHARED = """
[[shared]]
name = "truck"
limit = {limit}
use = "units"
times = "litres"
{more}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample files, decided in a small and quick setting."""
    here = tmp_path_factory.mktemp("allocate")
    run("new", "inventory", "--folder", str(here))
    settings = here / "ucsearch.toml"
    text = settings.read_text().replace("depth = 8 ", "depth = 3 ").replace("lots = 8", "lots = 4")
    settings.write_text(text)
    rows = list(csv.reader((here / "states.csv").open()))
    with (here / "states.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*rows[0], "litres", "truck_of"])
        for i, row in enumerate(rows[1:]):
            writer.writerow([*row, 1.5, "AB"[i % 2]])
    (here / "shared.toml").write_text(text + SHARED.format(limit=120.0, more=""))
    run("decide", "-c", "shared.toml", "--now", "2024-05-20", here=here)
    return here


def run(*words: str, here: Path | None = None, code: int = 0) -> str:
    given = [str(here / w) if here is not None and w == "shared.toml" else w for w in words]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == code, done.output
    return done.output


def allocated(here: Path, *more: str, code: int = 0) -> str:
    return run("allocate", "-c", "shared.toml", *more, here=here, code=code)


def test_shares_prices_and_line_are_written_and_verified(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)  # explain draws a picture where it stands
    text = allocated(folder, "--set", "files.prices=prices.csv", "--best")
    assert "ALLOCATED" in text
    shares = list(csv.DictReader((folder / "shares.csv").open()))
    assert sum(float(s["use of truck"]) for s in shares) <= 120.0
    (price,) = csv.DictReader((folder / "prices.csv").open())
    assert float(price["used"]) <= 120.0
    assert {v.status for v in verify_file(folder / "decisions.db")} == {"valid"}
    changed = next(s for s in shares if s["action"] != s["alone"])
    assert "Sharing truck made it" in run("explain", changed["series"], here=folder)


def test_limits_by_group(folder: Path) -> None:
    settings = folder / "shared.toml"
    before = settings.read_text()
    table = SHARED.format(limit="{ A = 60.0, B = 70.0 }", more='per = "truck_of"')
    settings.write_text((folder / "ucsearch.toml").read_text() + table)
    try:
        assert "truck of A" in allocated(folder, "--best")
    finally:
        settings.write_text(before)


def test_what_is_missing_is_named(folder: Path) -> None:
    text = allocated(folder, "--set", "files.states=", code=2)
    assert "--set: saw 'files.states='" in text
    text = allocated(folder, "--set", "files.states=''", code=2)
    assert "files.states: saw nothing, expected the file with the columns litres" in text
    text = allocated(folder, "--set", "files.states=forecasts.csv", code=2)
    assert "one called 'litres'" in text
    text = allocated(folder, "--set", "files.shares=states.csv", code=2)
    assert "another file" in text


def test_a_log_that_is_not_there_is_not_made(folder: Path, tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.db"
    text = allocated(folder, "--log", str(missing), code=2)
    assert "no such log" in text
    assert not missing.exists()


def test_a_series_twice_is_refused(folder: Path, tmp_path: Path) -> None:
    twice = tmp_path / "twice.csv"
    twice.write_text("series,litres\nSKU-001,1\nSKU-001,2\n")
    text = allocated(folder, "--set", f"files.states={twice}", code=2)
    assert "line 3, column 'series': saw 'SKU-001', expected every series once" in text


def test_limits_at_later_steps(folder: Path) -> None:
    settings = folder / "shared.toml"
    before = settings.read_text()
    settings.write_text((folder / "ucsearch.toml").read_text() + SHARED.format(limit="[120.0, 60.0]", more=""))
    try:
        text = allocated(folder, "--best", "--set", "files.prices=prices.csv")
    finally:
        settings.write_text(before)
    assert "truck, 1 step later" in text
    rows = list(csv.DictReader((folder / "prices.csv").open()))
    assert [row["step"] for row in rows] == ["0", "1"]
    assert float(rows[1]["used"]) <= 60.0
    assert [v.status for v in verify_file(folder / "decisions.db")][-1] == "valid"
