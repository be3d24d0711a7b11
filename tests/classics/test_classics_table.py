"""The lost-sales table and its command."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ucsearch.cli.bench_lost_sales import lost_sales
from ucsearch.errors import InputError
from ucsearch.replay.classics import lost_sales_table, zipkin_instances
from ucsearch.replay.classics.table import CLASSICS, COLUMNS, csv_rows


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command("lost-sales")(lost_sales)
    return app


def test_rows_follow_the_instances_whatever_the_threads() -> None:
    instances = zipkin_instances("poisson")
    one = lost_sales_table(instances, 2, threads=1)
    two = lost_sales_table(instances, 2, threads=2)
    assert one == two
    assert [row.instance for row in one] == [i for i in instances if i.lead_time <= 2]
    for row in one:
        assert tuple(entry.policy for entry in row.classics) == CLASSICS
        assert all(entry.cost.upper >= row.optimum.lower for entry in row.classics)
        assert all(entry.gap_percent >= -1e-6 for entry in row.classics)


def test_progress_reaches_its_total_once() -> None:
    seen: list[tuple[int, int]] = []
    lost_sales_table(zipkin_instances(), 1, lambda what, done, total: seen.append((done, total)))
    steps = 8 * (1 + len(CLASSICS))
    assert seen == [(k, steps) for k in range(1, steps + 1)]


def test_command_prints_the_table_and_writes_the_same_csv(app: typer.Typer, tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    result = CliRunner().invoke(app, ["--max-lead-time", "1", "--demand", "poisson", "--csv", str(out)])
    assert result.exit_code == 0, result.output
    assert "poisson demand" in result.output
    assert "geometric" not in result.output
    assert max(len(line) for line in result.output.splitlines() if "wrote" not in line) <= 80
    for cost in ("4.0407", "5.4382", "6.6757", "7.8359", "12/6"):
        assert cost in result.output
    with out.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    assert tuple(rows[0]) == COLUMNS
    expected = csv_rows(lost_sales_table(zipkin_instances("poisson"), 1))
    assert [tuple(map(str, row)) for row in expected] == [tuple(row) for row in rows[1:]]


@pytest.mark.parametrize("name", ["none/table.csv", "."])
def test_command_refuses_a_hopeless_file_before_any_work(app: typer.Typer, tmp_path: Path, name: str) -> None:
    result = CliRunner().invoke(app, ["--csv", str(tmp_path / name)])
    assert isinstance(result.exception, InputError)
    assert "--csv" in str(result.exception)


@pytest.mark.parametrize("arguments", [["--max-lead-time", "0"], ["--max-lead-time", "5"], ["--demand", "normal"]])
def test_command_refuses_what_it_cannot_run(app: typer.Typer, arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 2


def test_importing_the_command_does_not_load_the_model() -> None:
    code = "import sys, ucsearch.cli.bench_lost_sales; sys.exit('ucsearch.replay.classics' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_importing_the_formulas_does_not_load_the_compiled_loops() -> None:
    code = "import sys, ucsearch.replay.classics; sys.exit('ucsearch.replay.classics.kernels' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
