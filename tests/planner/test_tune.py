"""`ucsearch tune`: chooses on the earlier part, reports once on the later, and says what it rests on."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.planner.kit import TOML
from tests.planner.test_backtest import DEMAND, write_sales
from ucsearch.cli.main import app
from ucsearch.errors import InputError
from ucsearch.planner.backtest import tune
from ucsearch.planner.backtest.tune import TuneResult, run_tune
from ucsearch.planner.settings import load_settings, parse_settings
from ucsearch.planner.settings.edit import edited

TEXT = f"# Ours.\n{TOML}"


def settings_file(folder: Path, text: str = TEXT) -> Path:
    path = folder / "job.toml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> TuneResult:
    folder = tmp_path_factory.mktemp("tune")
    return run_tune(load_settings(settings_file(folder)), write_sales(folder), tries=6)


def test_the_cheapest_on_the_earlier_part_is_chosen(tuned: TuneResult) -> None:
    costs = [t.cost.sum() for t in tuned.trials]
    assert tuned.chosen == int(np.argmin(costs))
    assert tuned.trials[0].label == "as given"
    assert {t.settings.policy.mode for t in tuned.trials} >= {"mean", "members", "closed"}
    assert len(tuned.trials) == 5  # without a season there is less to try
    assert not tuned.skipped
    assert min(one.tries for one in tuned.report.knobs.values()) >= len(tuned.trials)  # rules get no fewer chances


def test_the_settings_written_are_the_ones_that_were_tried(tuned: TuneResult) -> None:
    made = parse_settings(tuned.text.encode(), "x.toml")
    best = tuned.trials[tuned.chosen].settings
    assert (made.policy, made.actions, made.forecast, made.proof) == (
        best.policy, best.actions, best.forecast, best.proof,
    )  # fmt: skip
    assert tuned.report.settings.policy == best.policy
    assert tuned.text.startswith("# Ours.\n")  # comments stay


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> TuneResult:
    folder = tmp_path_factory.mktemp("small")
    return run_tune(load_settings(settings_file(folder)), write_sales(folder), tries=2)


def test_the_counted_periods_have_no_say(tmp_path: Path, small: TuneResult) -> None:
    changed = {name: [*ys[:-6], *(50.0 - y for y in ys[-6:])] for name, ys in DEMAND.items()}
    other = run_tune(load_settings(settings_file(tmp_path)), write_sales(tmp_path, changed), tries=2)
    assert [t.cost.tolist() for t in other.trials] == [t.cost.tolist() for t in small.trials]
    assert other.text == small.text
    assert other.report.tracks["policy"].reward.tolist() != small.report.tracks["policy"].reward.tolist()


def test_evidence_is_plain_and_repeats(tmp_path: Path, tuned: TuneResult, small: TuneResult) -> None:
    found = json.loads(tuned.evidence())
    assert found["format"] == "ucsearch.tune/1"
    assert found["chosen"] == tuned.chosen
    assert [t["cost"] for t in found["trials"]] == [float(t.cost.sum()) for t in tuned.trials]
    assert found["later"]["headline"] == tuned.report.headline()
    again = run_tune(load_settings(settings_file(tmp_path)), write_sales(tmp_path), tries=2, keep=tmp_path)
    assert again.evidence() == small.evidence()
    assert not list(tmp_path.glob(".ucsearch-*"))
    assert "<- chosen" in tuned.table()
    assert "on the later periods, replayed once:" in tuned.table()


def test_a_history_that_is_too_short(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at most 20 periods"):
        run_tune(load_settings(settings_file(tmp_path)), write_sales(tmp_path), earlier=50)


@pytest.mark.parametrize(
    "text",
    [
        "a = 1\n[p]\nname = 'x'  # which\nmany = [\n  1,  # one\n  2,\n]\ngone = 1\n[q]\nz = 2\n",
        "a = 1\np.name = 'x'\np.many = [1, 2]\np.gone = 1\n[q]\nz = 2\n",
        "a = 1\nq = { z = 2 }\n[p]\nname = 'x'\nmany = [1, 2]\ngone = 1\n",
        "a = 1\n[p]\nname = 'x'\nmany = [1, 2]\ngone = 1\n[q]\nz = 2\n[[s]]\nname = 'one'\nlimit = { b = 1.0 }\n",
    ],
)
def test_edited_text_says_what_it_should(text: str) -> None:
    made = edited(text, {"p": {"name": "y", "many": [3.5], "gone": None, "new": True}, "r": {"k": "ä\"'"}})
    found, before = tomllib.loads(made), tomllib.loads(text)
    assert found.pop("p") == {"name": "y", "many": [3.5], "new": True}
    assert found.pop("r") == {"k": "ä\"'"}
    before.pop("p")
    assert found == before


def test_edited_text_keeps_comments() -> None:
    made = edited("# top\n[p]\nx = 1    # why x\n\n# about q\n[q]\ny = 2\n", {"p": {"x": 5}, "q": {"w": 1}})
    assert made == "# top\n[p]\nx = 5    # why x\n\n# about q\n[q]\ny = 2\nw = 1\n"


def test_the_command_writes_beside_its_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings_file(tmp_path)
    write_sales(tmp_path)
    command = ["tune", "-c", "job.toml", "--set", "backtest.tries=2"]
    runner = CliRunner()
    for out in ("job.toml", "sales.csv"):
        refused = runner.invoke(app, [*command, "--set", f"files.tuned={out}"])
        assert refused.exit_code == 2
        assert "which it would replace" in refused.stderr
    refused = runner.invoke(app, [*command, "--set", "files.tuned=no/such/tuned.toml"])
    assert (refused.exit_code, "expected a folder that is there" in refused.stderr) == (2, True)
    done = runner.invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "settings in tuned.toml, evidence in tuned.evidence.json, tuned.evidence.txt" in done.stdout
    assert (tmp_path / "tuned.evidence.txt").read_text() in done.stdout
    assert (tmp_path / "job.toml").read_text() == TEXT


def test_of_many_series_some_are_drawn_and_the_best_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "_DRAWN", 2)
    monkeypatch.setattr(tune, "_FINAL", 3)
    demand = {f"S{i}": [y + i for y in DEMAND["A"]] for i in range(5)}
    result = run_tune(load_settings(settings_file(tmp_path)), write_sales(tmp_path, demand), tries=2)
    assert (result.drawn, len(result.series), len(result.report.series)) == (2, 5, 5)
    finals = [t.final for t in result.trials]
    assert all(x is not None and len(x) == 3 for x in finals)
    assert result.chosen == int(np.argmin([np.sum(x) for x in finals if x is not None]))
    assert "on 3 series: as given" in result.table()
