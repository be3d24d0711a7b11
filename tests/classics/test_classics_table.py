"""The lost-sales table and the script that prints it."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from studies.lost_sales import main
from studies.lost_sales_table import CLASSICS, COLUMNS, csv_rows, lost_sales_table
from ucsearch.replay.classics import zipkin_instances


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


def test_the_script_prints_the_table_and_writes_the_same_csv(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "table.csv"
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.argv", ["lost_sales", "--max-lead-time", "1", "--demand", "poisson", "--csv", str(out)])
    main()
    printed = capsys.readouterr().out
    assert "poisson demand" in printed
    assert "geometric" not in printed
    assert max(len(line) for line in printed.splitlines()) <= 80
    for cost in ("4.0407", "5.4382", "6.6757", "7.8359", "12/6"):
        assert cost in printed
    with out.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    assert tuple(rows[0]) == COLUMNS
    expected = csv_rows(lost_sales_table(zipkin_instances("poisson"), 1))
    assert [tuple(map(str, row)) for row in expected] == [tuple(row) for row in rows[1:]]


@pytest.mark.parametrize("arguments", [["--max-lead-time", "0"], ["--max-lead-time", "5"], ["--demand", "normal"]])
def test_the_script_refuses_what_it_cannot_run(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.setattr("sys.argv", ["lost_sales", *arguments])
    with pytest.raises(SystemExit, match="2"):
        main()


def test_importing_the_formulas_does_not_load_the_compiled_loops() -> None:
    code = "import sys, ucsearch.replay.classics; sys.exit('ucsearch.replay.classics.kernels' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
