"""`ucsearch new inventory --with ...` writes a job that works as printed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ucsearch.errors import InputError
from ucsearch.planner.new.inventory import next_commands, write_scaffold
from ucsearch.planner.new.switches import SWITCHES
from ucsearch.planner.settings import load_settings


def typed(folder: Path, command: str) -> str:
    words = shlex.split(command)
    assert words[0] == "ucsearch"
    done = subprocess.run(
        [sys.executable, "-m", "ucsearch", *words[1:]], cwd=folder, capture_output=True, text=True,
        timeout=600, env={**os.environ, "NO_COLOR": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_order_days_and_shelf_life_as_printed(tmp_path: Path) -> None:
    switches = ("calendar", "shelf_life")
    paths = write_scaffold("inventory", tmp_path, switches=switches)
    assert (tmp_path / "holidays.csv") in paths
    commands = [c for c in next_commands("inventory", switches) if "backtest" not in c]
    said = [typed(tmp_path, command) for command in [*commands, "ucsearch verify"]]
    assert "8 series: 8 RELEASED" in said[0]
    assert "with 3 to go" in said[commands.index("ucsearch explain SKU-006")]
    assert "8 valid" in said[-1]


@pytest.mark.slow
def test_the_backtest_as_printed(tmp_path: Path) -> None:
    write_scaffold("inventory", tmp_path, switches=("calendar", "shelf_life"))
    told = typed(tmp_path, "ucsearch backtest")
    assert "EWA base-stock, tuned" in told
    assert "discarded [pieces]" in told


@pytest.mark.parametrize("switch", SWITCHES)
def test_every_switch_writes_settings_that_are_read(switch: str, tmp_path: Path) -> None:
    write_scaffold("inventory", tmp_path, switches=(switch,))
    task = load_settings(tmp_path / "ucsearch.toml").task
    assert task.is_general
    assert {
        "calendar": task.order_days == ("monday", "thursday") and len(task.holidays) == 3,
        "shelf_life": task.shelf_life == 4,
        "fill_rate": task.fill_rate == 0.95 and task.shortage == 0.0,
    }[switch]


def test_what_is_no_switch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--with.*saw 'weekends', expected some of calendar"):
        write_scaffold("inventory", tmp_path, switches=("calendar", "weekends"))
    with pytest.raises(InputError, match="expected nothing for storage"):
        write_scaffold("storage", tmp_path, switches=("calendar",))
