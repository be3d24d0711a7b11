import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ucsearch.cli.main import app

runner = CliRunner()


@pytest.fixture(autouse=True)
def _no_ambient_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("UCSEARCH_DATA", raising=False)
    monkeypatch.setenv("UCSEARCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")


def test_list_names_all_data_sets() -> None:
    result = runner.invoke(app, ["data"])
    assert result.exit_code == 0
    for name in ("ett", "m4", "ltsf", "lobster", "fi2010", "CC BY-ND 4.0"):
        assert name in result.output


def test_list_of_one_prefix() -> None:
    result = runner.invoke(app, ["data", "m4/hourly"])
    assert result.exit_code == 0
    assert "m4/hourly_train.parquet" in result.output
    assert "recorded at the first download" in result.output
    assert "ETTh1" not in result.output


@pytest.mark.parametrize("option", ["--full", "--get"])
def test_unknown_name(option: str) -> None:
    result = runner.invoke(app, ["data", "nope", option])
    assert result.exit_code == 2
    assert "nothing is called 'nope'" in result.output


def test_get_without_an_address(tmp_path: Path) -> None:
    result = runner.invoke(app, ["data", "fi2010/noauction-zscore-1-train", "--get"])
    assert result.exit_code == 1
    assert "there is no direct download address. Get it by hand" in result.output


def test_get_takes_what_is_already_there(tmp_path: Path) -> None:
    path = tmp_path / "cache/m4/M4-info.csv"
    path.parent.mkdir(parents=True)
    path.write_text("M4id,category\nY1,Macro\n")
    result = runner.invoke(app, ["data", "m4/info", "--get"])
    assert result.exit_code == 0
    assert "M4-info.csv (23 bytes" in result.output
    assert "unverified" in result.output


def test_check_of_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("UCSEARCH_DATA", str(tmp_path / "empty"))
    result = runner.invoke(app, ["data", "--full"])
    assert result.exit_code == 2
    assert "no known file found" in result.output


def test_check_finds_a_wrong_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UCSEARCH_DATA", str(tmp_path))
    (tmp_path / "ett").mkdir()
    (tmp_path / "ett/ETTh1.csv").write_text("date,HUFL\n")
    result = runner.invoke(app, ["data", "ett"])
    assert result.exit_code == 1
    assert "WRONG" in result.output
    assert "the file is truncated" in result.output


def test_full_check_reads_the_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UCSEARCH_DATA", str(tmp_path))
    # This form of the file has no known hash, so only reading it shows what is wrong.
    (tmp_path / "ltsf").mkdir()
    (tmp_path / "ltsf/traffic.csv").write_text("date,0\n2016-07-01 02:00:00,0.1\n")
    assert runner.invoke(app, ["data", "ltsf"]).exit_code == 0
    result = runner.invoke(app, ["data", "ltsf", "--full"])
    assert result.exit_code == 1
    assert "saw 1 of 17,544 rows" in result.output


def test_import_is_cheap() -> None:
    code = "import sys, ucsearch.cli.data; print(sorted({'pyarrow', 'pooch', 'requests'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
