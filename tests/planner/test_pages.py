"""Rows and pages of decisions: what they say, and that no name in the data can do anything on a page."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

import ucsearch as uc
from tests.planner.kit import FORECAST_HEAD, STATE_HEAD, TOML, decide, make_settings, read_csv, write_csv, write_job
from tests.planner.pages_kit import Elements, check_harmless
from ucsearch.cli.main import app
from ucsearch.decision import frame_of
from ucsearch.errors import InputError
from ucsearch.planner.backtest.page import write_backtest_page
from ucsearch.planner.backtest.result import BacktestResult, Track
from ucsearch.planner.decide import page as decide_page
from ucsearch.planner.files.table import Problem
from ucsearch.planner.settings import parse_settings
from ucsearch.replay.tune import Chosen
from ucsearch.report.page import render_page
from ucsearch.tasks import LeadTimeInventory

HOSTILE = '<script>alert("1")</script>'
HOLDING = TOML.replace("unit_cost = 0.5", "ramp = 3.0").replace("[policy]", "\n[policy]")


def dated_job(folder: Path) -> None:
    rows = []
    for i, name in enumerate(["A", HOSTILE, "C"]):
        rows += [[name, f"2024-05-{20 + h}", *(4.0 + 2.0 * i + h + 1.5 * j for j in range(4))] for h in range(3)]
    write_csv(folder / "forecasts.csv", ["series", "date", *FORECAST_HEAD[2:]], rows)
    write_csv(
        folder / "states.csv", [*STATE_HEAD, "last"],
        [["A", 3.0, 5.0, 30.0], [HOSTILE, 4.0, 5.0, 5.0], ["C", 4.0, 5.0, 5.0], [f"no {HOSTILE}", 1, 1, 1]],
    )  # fmt: skip


def test_dates_stock_cost_and_what_comes_next(tmp_path: Path) -> None:
    write_job(tmp_path)
    decide(tmp_path)
    row = read_csv(tmp_path / "out.csv")[2]
    assert (row["date"], row["arrival"], row["stock"], row["order"]) == ("", "", "5", "15")
    assert row["next_orders"] == "(not planned yet)"
    assert f"it costs {float(row['expected_cost']):.6g} EUR, its risk counted, over 3 steps" in row["sentence"]
    dated_job(tmp_path)
    settings = parse_settings(f'period = "day"\n{HOLDING.replace("lead_time = 1", "lead_time = 1")}'.encode())
    decide(tmp_path, settings, out="dated.csv")
    rows = {row["series"]: row for row in read_csv(tmp_path / "dated.csv")}
    assert rows["C"]["date"] == "2024-05-20"
    assert rows["C"]["arrival"] == ("2024-05-21" if float(rows["C"]["order"]) else "")
    assert rows["A"]["note"] == "ramp 3 leaves no action now, 15 would"
    assert (rows["A"]["outcome"], rows["A"]["expected_cost"], rows["A"]["next_orders"]) == ("HOLD", "", "")


def test_no_infinite_texts(tmp_path: Path) -> None:
    write_job(tmp_path)
    write_csv(tmp_path / "states.csv", [*STATE_HEAD, "last"], [["A", 3.0, 5.0, 30.0], ["B", 3.0, 5.0, 12.0]])
    decide(tmp_path, parse_settings(HOLDING.replace("ramp = 3.0", "ramp = 3.0\ncapacity = 23.0").encode()))
    rows = {row["series"]: row for row in read_csv(tmp_path / "out.csv")}
    assert "the only one among 4 sizes offered" in rows["B"]["sentence"]  # nothing to lead over
    assert (rows["B"]["outcome"], rows["B"]["margin"]) == ("RELEASED", "")
    assert not {"inf", "-inf", "nan"} & {value for row in rows.values() for value in row.values()}


def test_tasks_without_orders_name_actions(tmp_path: Path) -> None:
    write_job(tmp_path)
    text = '[task]\nname = "storage"\ncapacity = 4.0\n[policy]\nname = "exact"\ndepth = 3\n[run]\nengine = "python"\n'
    write_csv(tmp_path / "states.csv", ["series", "level"], [["A", 2.0], ["B", 0.0]])
    decide(tmp_path, parse_settings(text.encode()), html=tmp_path / "page.html")
    rows = read_csv(tmp_path / "out.csv")
    assert "next_actions" in rows[0]
    assert not {"order", "arrival", "stock", "next_orders"} & set(rows[0])
    assert len(rows[0]["next_actions"].split()) == 2
    assert ">Action</th>" in (tmp_path / "page.html").read_text()


def test_the_page_of_decisions(tmp_path: Path) -> None:
    dated_job(tmp_path)
    settings = parse_settings(f'period = "day"\n{HOLDING}'.encode())
    page = tmp_path / "page.html"
    report = decide(tmp_path, settings, html=page)
    text = page.read_text()
    found = check_harmless(text)
    assert HOSTILE in found.words  # as text, in full
    assert "<script>alert" not in text
    rows = read_csv(tmp_path / "out.csv")
    outcomes = [a["data-group"] for t, a in found.tags if t == "tr" and "data-group" in a]
    assert sorted(map(str, outcomes)) == sorted(row["outcome"] for row in rows)
    assert outcomes[0] == "HOLD"  # who needs a person comes first, also without JavaScript
    assert "ramp 3 leaves no action now, 15 would" in found.words
    for row in rows:
        assert row["sentence"] in found.words
    assert f"{sum(report.outcomes.values())} series decided for 2024-05-20." in " ".join(" ".join(found.words).split())
    assert ("form", "") in [(t, a.get("hidden") or "") for t, a in found.tags if "hidden" in a]  # until a script runs
    again = tmp_path / "again.html"
    (tmp_path / "out.csv").unlink()  # else the page compares with it
    decide(tmp_path, settings, out="out.csv", html=again)
    assert re.sub("[0-9a-f]{16}", "", again.read_text()) == re.sub("[0-9a-f]{16}", "", text)


def test_a_page_holds_some_thousand_rows_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide_page, "MOST", 2)
    write_job(tmp_path)
    decide(tmp_path, html=tmp_path / "page.html")
    found = check_harmless((tmp_path / "page.html").read_text())
    assert sum("data-group" in a for t, a in found.tags if t == "tr") == 2
    assert "Shown are 2 series" in " ".join(" ".join(found.words).split())


def test_the_page_replaces_no_other_file(tmp_path: Path) -> None:
    write_job(tmp_path)
    for name in ("states.csv", "out.csv", "log.db"):
        with pytest.raises(InputError, match="another file"):
            decide(tmp_path, make_settings(), html=tmp_path / name)
    assert not (tmp_path / "log.db").exists()


def test_what_a_template_is_given_is_escaped() -> None:
    template = '{% extends "base" %}{% from "parts" import tiles, tag, num, filter with context %}{% block body %}'
    template += (
        '{{ tiles([(x, x)]) }}{{ tag(x, "good") }}{{ num(x, x) }}{{ filter("t", x, [(x, 1)], x) }}<p>{{ x }}</p>'
    )
    hostile = HOSTILE + "\u202e\x00'\"><b onclick=alert(1)>"
    text = render_page(template + "{% endblock %}", title=hostile, footer=hostile, x=hostile)
    found = check_harmless(text)
    assert not [tag for tag, _ in found.tags if tag == "b"]
    assert "\x00" not in text


# -------------------------------------------------------------------- a backtest's page


def backtest_result(series: int) -> BacktestResult:
    rng = np.random.default_rng(3)

    def track(factor: float) -> Track:
        parts = [np.round(factor * rng.uniform(1.0, 9.0, (series, 4)), 2) for _ in range(3)]
        ones = np.ones((series, 4))
        named = dict(zip(("holding", "shortage", "ordering"), parts, strict=True))
        moved = {"demand": 5.0 * ones, "served": 4.0 * ones, "in_full": 0.0 * ones, "stock": ones, "order": ones}
        return Track(-(parts[0] + parts[1] + parts[2]), {**named, **moved, "orders": ones, "revenue": 0.0 * ones})

    tracks = {"policy": track(1.0), "(s,S), tuned": track(1.5), HOSTILE: track(1.01), "hindsight": track(0.5)}
    names = (HOSTILE, *(f"S{i}" for i in range(1, series)))
    problem = Problem("sales.csv", "line 3", "demand", HOSTILE, f"saw '{HOSTILE}'")
    return BacktestResult(
        names, tracks, 0.75, (problem,), make_settings(), {HOSTILE: 3, "not_proved": 9},
        knobs={HOSTILE: Chosen(({"ratio": 0.9},), 12, 1.0)}, earlier=28, no_hindsight=HOSTILE, notes=(HOSTILE,),
    )  # fmt: skip


@pytest.mark.parametrize("series", [2, 12])
def test_the_page_of_a_backtest(tmp_path: Path, series: int) -> None:
    result = backtest_result(series)
    write_backtest_page(result, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    found = check_harmless(text)
    assert "<script>alert" not in text
    words = " ".join(" ".join(found.words).split())
    headline = result.headline()
    assert headline[:1].upper() + headline[1:] in words
    for name, track in result.tracks.items():
        assert name in found.words
        assert f"{track.figures(result.settings.task)['cost']:,.2f}" in found.words
    ranked = [found.words.index(name) for name in ("policy", HOSTILE, "(s,S), tuned", "hindsight")]
    assert ranked == sorted(ranked)  # from the strongest rule on
    against = result.against("(s,S), tuned")
    if series == 12:
        assert f"+{100.0 * against.low:.1f} to +{100.0 * against.high:.1f} %" in found.words
        assert against.low > 0.0
    else:  # too few for an interval: none is shown
        assert "nan" not in words
        assert "inf" not in words.replace("information", "")
    assert f"{result.tracks['policy'].net[1]:,.2f}" in found.words  # by series
    assert "holding" in found.words
    assert ("svg", "img") in [(t, a.get("role")) for t, a in found.tags]


def test_a_page_of_data_that_cannot_be_read_is_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '[files]\npages = "pages"\n[task]\nname = "storage"\n[policy]\nname = "exact"\ndepth = 3\n'
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(SystemExit) as stopped:
        app(args=["backtest", "-c", str(tmp_path / "s.toml")], prog_name="ucsearch")
    assert stopped.value.code == 2
    assert "files.sales: saw no file" in capsys.readouterr().err
    assert not (tmp_path / "pages" / "backtest.html").exists()


# -------------------------------------------------------------------- in a notebook


def panel(labels: tuple[str, ...] = ("none", "some"), windows: int = 2) -> uc.DecisionPanel:
    config = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 5.0))
    task = dataclasses.replace(config.task(), labels=labels, label_of=None) if labels else config.task()
    return uc.decide_panel(
        task, [config.state(3.0, [0.0], 0.0)] * windows, [[[3.0, 4.0], [4.0, 5.0]]] * windows, uc.Exact(depth=2),
        params=config.params(), run=uc.Run(engine="python"),
    )  # fmt: skip


def test_frames_of_decisions() -> None:
    found = panel()
    frame = found.frame("pandas")
    assert list(frame["outcome"]) == [d.outcome.value for d in (found[0], found[1])]
    assert list(frame["action"]) == [found[0].action, found[1].action]
    assert list(frame["label"]) == ["some", "some"]
    assert f"it scores {frame['score'][0]:.6g} over 2 steps" in frame["sentence"][0]
    several = frame_of([found[0], found[1]], "pandas")
    assert several.equals(frame)
    refused = uc.decide(
        LeadTimeInventory(lead_time=0).task(), LeadTimeInventory(lead_time=0).state(1.0), [[float("nan")]],
        uc.Exact(depth=1), run=uc.Run(engine="python"),
    )  # fmt: skip
    mixed = frame_of([refused, found[0]], "pandas")
    assert mixed["reason"][0] == "invalid_trace"
    assert np.isnan(mixed["score"][0])


def test_short_and_harmless_views() -> None:
    found = panel(("none", HOSTILE), windows=40)
    assert repr(found[0]) == f"Decision(RELEASED, {HOSTILE!r}, score {found.frame('pandas')['score'][0]:.6g})"
    assert repr(found) == "DecisionPanel(40 decisions: 40 RELEASED)"
    for view in (found._repr_html_(), found[0]._repr_html_()):
        seen = Elements(view)
        assert not seen.scripts
        assert any(HOSTILE in word for word in seen.words)
        assert not [a for _, a in seen.tags if any(n.startswith("on") for n in a)]
    assert "and 20 more" in found._repr_html_()
    empty = dataclasses.replace(found[0], certificate=None, action=None)
    assert repr(empty) == "Decision(RELEASED, nothing)"
