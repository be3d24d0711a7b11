"""Sales forecast and decided in one job: the rows of the two steps one after the other, however the series are cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ucsearch.cli.main import app
from ucsearch.errors import InputError
from ucsearch.planner.forecast import run_forecast
from ucsearch.planner.settings import load_settings
from ucsearch.records import AuditReader
from ucsearch.scale.parts import Folder, plan_job, run_part, seal_job
from ucsearch.scale.segments.audit import verify_segments
from ucsearch.scale.segments.files import part_name, read_part

TOML = """
period = "day"
[task]
name = "lead_time_inventory"
lead_time = 1
order_sizes = [0.0, 5.0, 10.0]
[policy]
name = "exact"
depth = 2
[forecaster]
name = "seasonal_naive"
paths = 5
[run]
engine = "python"
"""
DAYS, NAMES = 42, ("K", "C", "X", "A", "R", "M")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sales")
    (folder / "job.toml").write_text(TOML)
    rng = np.random.default_rng(3)
    days = [str(np.datetime64("2024-01-01") + i) for i in range(DAYS)]
    rows = {n: (days, rng.poisson(5.0, DAYS).astype(float)) for n in NAMES}
    rows["R"] = (days[:-3], rows["R"][1][:-3])  # ends before the others
    for k, own in enumerate((NAMES[:4], NAMES[4:])):
        columns: dict[str, Any] = {
            "series": [n for n in own for _ in rows[n][0]],
            "date": [d for n in own for d in rows[n][0]],
            "demand": np.concatenate([rows[n][1] for n in own]),
        }
        pq.write_table(pa.table(columns), folder / f"sales-{k}.parquet", row_group_size=25)
    states = {"series": NAMES, "on_hand": np.arange(6.0), "open_orders_1": np.full(6, 2.0)}
    pq.write_table(pa.table(states), folder / "states.parquet")
    return folder


def rows_of(made: Folder) -> dict[str, tuple[str, bytes]]:
    for number in range(len(made.items)):
        run_part(made, number)
    seal_job(made.path)
    with AuditReader(made.log) as reader:
        assert [r.fault for r in verify_segments(reader, sample=-1, engine="python")] == [""]
    found = [read_part(made.segment / part_name(n)).table for n in range(len(made.items))]
    rows = pa.concat_tables(found)
    both = zip(rows["detail"].to_pylist(), rows["digest"].to_pylist(), strict=True)
    return dict(zip(rows["series"].to_pylist(), both, strict=True))


def planned(files: Path, folder: Path, parts: int) -> Folder:
    patterns = str(files / "sales-*.parquet"), str(files / "states.parquet")
    return plan_job(files / "job.toml", *patterns, folder, parts=parts, forecaster="seasonal_naive", season=7)


def test_one_job_gives_the_rows_of_two_steps(files: Path, tmp_path: Path) -> None:
    sales = pa.concat_tables([pq.read_table(files / f"sales-{k}.parquet") for k in (0, 1)])
    pq.write_table(sales, tmp_path / "all.parquet")
    run_forecast(load_settings(files / "job.toml"), tmp_path / "all.parquet", tmp_path / "f.parquet", season=7)
    states = str(files / "states.parquet")
    two = plan_job(files / "job.toml", str(tmp_path / "f.parquet"), states, tmp_path / "two", parts=1)
    apart = rows_of(two)
    few, many = (rows_of(planned(files, tmp_path / f"one-{n}", n)) for n in (1, 9))
    assert few == many
    assert "saw 2024-02-08 as its last date, expected 2024-02-11" in few.pop("R")[0]
    assert few == apart
    assert len(few) == 5


def test_the_command_asks_for_one_of_both(files: Path, tmp_path: Path) -> None:
    def run(*words: str) -> tuple[int, str]:
        start = ["job", "plan", str(tmp_path / "job"), "-c", str(files / "job.toml")]
        start += ["--states", str(files / "states.parquet")]
        done = CliRunner().invoke(app, [*start, *words])
        return done.exit_code, done.output

    sales = ("--sales", str(files / "sales-*.parquet"))
    assert run()[0] == run(*sales, "--forecasts", sales[1])[0] == 2
    assert not (tmp_path / "job" / "job.json").exists()
    code, text = run(*sales, "--parts", "2")
    assert (code, "parts planned" in text) == (0, True)
    assert Folder.read(tmp_path / "job").forecasting.last == "2024-02-11"


@pytest.mark.parametrize(
    ("text", "field"),
    [('[columns]\ngaps = "zero"\n', "columns.gaps"), ('[log]\nkeep = "reference"\n', "log.keep")],
)
def test_what_cannot_be_cut_is_refused(files: Path, tmp_path: Path, text: str, field: str) -> None:
    (tmp_path / "job.toml").write_text(TOML + text)
    patterns = str(files / "sales-*.parquet"), str(files / "states.parquet")
    with pytest.raises(InputError, match=field):
        plan_job(tmp_path / "job.toml", *patterns, tmp_path / "job", parts=2, forecaster="seasonal_naive")
    assert not (tmp_path / "job").exists()
