"""The decide job: one row and one record per series, whatever is wrong with others, however often it is cut off."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import ucsearch as uc
from tests.planner.kit import (
    FORECAST_HEAD,
    NAMES,
    STATE_HEAD,
    TOML,
    decide,
    forecast_rows,
    make_settings,
    read_csv,
    state_rows,
    write_csv,
    write_job,
)
from ucsearch.errors import DataError, InputError
from ucsearch.planner.decide.job import StrictError, run_decide
from ucsearch.planner.decide.rows import sentence_in, shown_columns
from ucsearch.planner.decide.states import state_columns
from ucsearch.planner.recorded.explain import explain_series
from ucsearch.planner.settings import parse_settings
from ucsearch.records.log import AuditReader
from ucsearch.tasks import TASKS, LeadTimeInventory
from ucsearch.verify import verify_file


def logged(folder: Path) -> list[tuple[str, str]]:
    with AuditReader(folder / "log.db") as reader:
        assert reader.verify().ok
        return [(row.id, row.record["series"]) for row in reader]


def test_one_row_and_one_record_per_series(tmp_path: Path) -> None:
    write_job(tmp_path)
    report = decide(tmp_path)
    rows = read_csv(tmp_path / "out.csv")
    assert list(rows[0]) == list(shown_columns(True))
    assert [row["series"] for row in rows] == list(NAMES)
    assert logged(tmp_path) == [(row["certificate"], row["series"]) for row in rows]
    assert sum(report.outcomes.values()) == 5
    assert not report.needs_a_person
    assert not (tmp_path / "out.csv.partial").exists()


def test_a_row_of_totals_among_the_states_is_left_out(tmp_path: Path) -> None:
    write_job(tmp_path)
    with (tmp_path / "states.csv").open("a") as file:
        file.write("Grand total,25.0,25.0\n")
    report = decide(tmp_path)
    assert [row["series"] for row in read_csv(tmp_path / "out.csv")] == list(NAMES)
    (note,) = report.problems
    assert (note.place, note.series, note.text) == ("line 7", "Grand total", "a row of totals, left out")
    assert not note.refuses


def test_a_row_is_what_decide_says(tmp_path: Path) -> None:
    write_job(tmp_path)
    decide(tmp_path)
    config = LeadTimeInventory(
        lead_time=1, order_sizes=(0.0, 5.0, 10.0, 15.0), holding=1.0, shortage=9.0, unit_cost=0.5, salvage=0.5
    )
    for i, row in enumerate(read_csv(tmp_path / "out.csv")):
        members = [[float(r[2 + j]) for r in forecast_rows() if r[0] == row["series"]] for j in range(4)]
        d = uc.decide(
            config.task(), config.state(3.0 + i, [5.0]), uc.Trace.from_members(members), uc.Exact(depth=3, risk=0.25),
            run=uc.Run(engine="python"), proof=uc.Proof(node_budget=20_000),
        )  # fmt: skip
        assert row["outcome"] == d.outcome.value
        assert float(row["action"]) == d.action
        assert row["reason"] == d.reason.value
        assert float(row["margin"]) == pytest.approx(d.release_margin, rel=1e-11)
        assert float(row["regret_bound"]) == d.regret_bound
        assert row["sentence"] == sentence_in(d, "EUR")
        assert float(row["order"]) == d.action


def test_the_order_is_what_the_action_orders(tmp_path: Path) -> None:
    write_job(tmp_path)
    text = TOML.replace("lead_time = 1", "lead_time = 1\norders = 'level'\ncase_pack = 4.0")
    text = text.replace("[0.0, 5.0, 10.0, 15.0]", "[0.0, 11.0, 22.0, 33.0]")
    decide(tmp_path, parse_settings(text.encode()))
    for i, row in enumerate(read_csv(tmp_path / "out.csv")):
        wanted = float(row["action"]) - (3.0 + i + 5.0)
        assert float(row["order"]) == max(0.0, -(-wanted // 4.0) * 4.0)


def test_parquet_and_csv_say_the_same(tmp_path: Path) -> None:
    write_job(tmp_path)
    decide(tmp_path)
    decide(tmp_path, out="out.parquet")
    table = pq.read_table(tmp_path / "out.parquet").to_pylist()
    for a, b in zip(read_csv(tmp_path / "out.csv"), table, strict=True):
        assert float(a["margin"]) == pytest.approx(b["margin"], rel=1e-11)
    assert len(logged(tmp_path)) == 10  # another run is another release


def test_csv_needs_no_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_job(tmp_path)
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    assert sum(decide(tmp_path).outcomes.values()) == 5
    with pytest.raises(DataError, match=r"out\.parquet: Parquet needs pyarrow: pip install pyarrow"):
        decide(tmp_path, out="out.parquet", progress=cutting(0))  # found before any work


def test_different_lead_times_in_one_file(tmp_path: Path) -> None:
    write_job(tmp_path)
    rows = [[*row, lead] for row, lead in zip(state_rows(), (1, 2, 1, 2, 1), strict=True)]
    write_csv(tmp_path / "states.csv", [*STATE_HEAD, "lead_time"], rows)
    decide(tmp_path)
    assert [series for _, series in logged(tmp_path)] == list(NAMES)
    with AuditReader(tmp_path / "log.db") as reader:
        lengths = [row.record["inputs"]["state_lengths"] for row in reader]
    assert lengths == [[0, 1, 0], [0, 2, 0], [0, 1, 0], [0, 2, 0], [0, 1, 0]]


@pytest.mark.parametrize("name", TASKS)
def test_every_task_is_decided_from_files(tmp_path: Path, name: str) -> None:
    rows = [
        [s, h + 1, *(0.5 * (i + 1) - 0.25 * j + 0.125 * h for j in range(3))]
        for i, s in enumerate("AB")
        for h in range(3)
    ]
    write_csv(tmp_path / "forecasts.csv", ["series", "step", "member_1", "member_2", "member_3"], rows)
    required = state_columns(TASKS[name].kind()).required
    write_csv(tmp_path / "states.csv", ["series", *required], [[s, *[1 for _ in required]] for s in "AB"])
    text = f"[task]\nname = '{name}'\n[policy]\nname = 'exact'\ndepth = 3\n[run]\nengine = 'python'\n"
    report = decide(tmp_path, parse_settings(text.encode()))
    assert report.outcomes == {"RELEASED": 2}
    assert ("order" in read_csv(tmp_path / "out.csv")[0]) is (name == "lead_time_inventory")
    assert [v.status for v in verify_file(tmp_path / "log.db")] == ["valid", "valid"]
    told = explain_series(tmp_path / "log.db", "B")
    assert told.tracks is not None


# -------------------------------------------------------------------- bad rows


def spoil(folder: Path) -> None:
    """A is fine; B has a bad value, C no state, D a bad state, E steps that are too few, F only a state."""
    write_job(folder)
    rows = forecast_rows()
    rows[4][3] = "abc"
    write_csv(folder / "forecasts.csv", FORECAST_HEAD, rows[:-1])
    states = [row for row in state_rows() if row[0] != "C"]
    states[2][1] = "many"
    write_csv(folder / "states.csv", STATE_HEAD, [*states, ["F", 1.0, 2.0]])


def test_bad_series_are_refused_and_the_rest_is_decided(tmp_path: Path) -> None:
    spoil(tmp_path)
    report = decide(tmp_path)
    rows = {row["series"]: row for row in read_csv(tmp_path / "out.csv")}
    assert list(rows) == ["A", "B", "C", "D", "E", "F"]
    assert rows["A"]["outcome"] in ("RELEASED", "FALLBACK")
    expected = {
        "B": "forecasts.csv, line 6, column member_2, series B: saw 'abc', expected a number",
        "C": "states.csv, series C: saw no row, expected one as in ",
        "D": "states.csv, line 4, column on_hand, series D: saw 'many', expected a number",
        "E": "forecasts.csv, column step, series E: saw 2 steps, expected at least 3",
        "F": "forecasts.csv, series F: saw no rows, expected some as in ",
    }
    for series, text in expected.items():
        row = rows[series]
        assert (row["outcome"], row["reason"], row["action"], row["order"]) == ("REFUSED", "invalid_input", "", "")
        assert "a person has to decide" in row["sentence"]
        assert text in row["problem"]
        assert text in row["sentence"]
    assert report.needs_a_person
    assert report.outcomes["REFUSED"] == 5
    assert {p.series for p in report.problems} == set("BCDEF")
    assert logged(tmp_path) == [(row["certificate"], series) for series, row in rows.items()]
    with AuditReader(tmp_path / "log.db") as reader:
        kinds = {row.record["series"]: (row.record["kind"], row.record["outcome"]["outcome"]) for row in reader}
    assert {s: k for s, k in kinds.items() if s != "A"} == dict.fromkeys(expected, ("refusal", "HOLD"))
    assert [v.status for v in verify_file(tmp_path / "log.db")] == ["valid"] * 6


def test_a_refusal_is_told(tmp_path: Path) -> None:
    spoil(tmp_path)
    decide(tmp_path)
    told = explain_series(tmp_path / "log.db", "B")
    assert told.text.startswith("B: HOLD, entry 2 of the log")
    assert "member_2, series B: saw 'abc', expected a number" in told.text
    assert "Nothing is sent: a person has to decide. Repair the forecast" in told.text
    assert told.members.size == 0
    assert "Nothing is sent" in explain_series(tmp_path / "log.db", "C").text


@pytest.mark.parametrize("sizes", ["multiples = [-1.0, 0.0, 1.0]", "lots = 2"])
def test_a_series_whose_actions_depend_on_its_forecast_has_no_fallback_without_one(sizes: str, tmp_path: Path) -> None:
    spoil(tmp_path)
    text = TOML.replace("order_sizes = [0.0, 5.0, 10.0, 15.0]\n", "") + f"[actions]\n{sizes}\n"
    report = decide(tmp_path, parse_settings(text.encode()))
    assert report.outcomes["REFUSED"] == 5
    with AuditReader(tmp_path / "log.db") as reader:
        refused = [r.record for r in reader.list(kind="refusal") if "inputs" in r.record]
    assert refused
    assert {len(r["task"]["actions"]) for r in refused} == {0}  # no sizes were fitted, so none were offered
    rows = read_csv(tmp_path / "out.csv")
    assert [row["series"] for row in rows if row["action"]] == ["A"]
    assert rows[0]["sentence"].startswith(f"order {float(rows[0]['action']):g} is released")


def test_every_run_is_recorded(tmp_path: Path) -> None:
    spoil(tmp_path)
    decide(tmp_path)
    first = read_csv(tmp_path / "out.csv")
    decide(tmp_path)
    again = read_csv(tmp_path / "out.csv")
    assert [name for name, _ in logged(tmp_path)] == [row["certificate"] for row in first + again]
    with AuditReader(tmp_path / "log.db") as reader:
        asked = [row.record["request"] for row in reader]
    assert [one["item"] for one in asked] == [0, 1, 2, 3, 4, 5] * 2
    assert len({one["key"] for one in asked}) == 2
    assert len({one["body"] for one in asked}) == 1


def test_strict_lists_everything_and_does_nothing(tmp_path: Path) -> None:
    spoil(tmp_path)
    with pytest.raises(StrictError) as caught:
        decide(tmp_path, strict=True)
    assert {p.series for p in caught.value.problems} == set("BCDEF")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["forecasts.csv", "states.csv"]


def test_without_a_forecast_a_series_may_be_on_hold_for_a_person(tmp_path: Path) -> None:
    spoil(tmp_path)
    decide(tmp_path, make_settings("[gate]\nwithout_forecast = 'hold'\n"))
    rows = {row["series"]: row for row in read_csv(tmp_path / "out.csv")}
    assert {s: rows[s]["outcome"] for s in "BCDEF"} == {s: "HOLD" if s in "BEF" else "REFUSED" for s in "BCDEF"}
    assert {rows[s]["order"] for s in "BCDEF"} == {""}
    with AuditReader(tmp_path / "log.db") as reader:
        sent = [row.record["outcome"]["action"] for row in reader.list(kind=("refusal",))]
    assert sent == [None] * 5
    assert {v.status for v in verify_file(tmp_path / "log.db")} == {"valid"}


def test_strict_minds_unknown_columns_too(tmp_path: Path) -> None:
    write_job(tmp_path)
    write_csv(tmp_path / "states.csv", [*STATE_HEAD, "colour"], [[*row, "red"] for row in state_rows()])
    with pytest.raises(StrictError, match="column colour: an unknown column"):
        decide(tmp_path, strict=True)
    assert not decide(tmp_path).needs_a_person


def test_crossed_quantiles_refuse_a_series_or_are_sorted(tmp_path: Path) -> None:
    head = ["series", "step", "q0.1", "q0.5", "q0.9"]
    rows = [[name, h + 1, 1.0, 5.0, 9.0] for name in "AB" for h in range(3)]
    rows[4][2] = 7.0
    write_csv(tmp_path / "forecasts.csv", head, rows)
    write_csv(tmp_path / "states.csv", STATE_HEAD, state_rows("AB"))
    report = decide(tmp_path)
    assert report.reasons["invalid_input"] == 1
    assert report.needs_a_person
    assert "column q0.5, series B: saw crossed quantiles at step 2, 5 below q0.1 (7), expected ascending" in str(
        report.problems[0]
    )
    sorted_too = decide(tmp_path, make_settings("[forecast]\ncrossing = 'sort'\n"))
    assert "invalid_input" not in sorted_too.reasons
    with AuditReader(tmp_path / "log.db") as reader:
        notes = reader.list(newest_first=True, series="B")[0].record["inputs"]["trace"]["meta"]["notes"]
    assert "crossed quantiles, sorted" in notes[1]


def test_an_old_forecast_falls_back(tmp_path: Path) -> None:
    write_job(tmp_path)
    issued = ["2024-05-01T00:00:00+00:00", "2024-04-01T00:00:00+00:00", "2024-05-01T00:00:00+00:00", "", "nonsense"]
    rows = [[*row, issued[NAMES.index(row[0])]] for row in forecast_rows()]
    write_csv(tmp_path / "forecasts.csv", [*FORECAST_HEAD, "issued"], rows)
    settings = make_settings("[gate]\nmax_trace_age_s = 86400.0\n")
    with pytest.raises(InputError, match="now: saw nothing"):
        decide(tmp_path, settings)
    decide(tmp_path, settings, now=datetime(2024, 5, 1, 6, tzinfo=UTC))
    outcomes = {row["series"]: row["reason"] for row in read_csv(tmp_path / "out.csv")}
    assert outcomes == {"A": "none", "B": "stale_trace", "C": "none", "D": "stale_trace", "E": "invalid_input"}


# -------------------------------------------------------------------- cut off and started again


class Cut(BaseException):
    """Stands for a kill."""


def cutting(after: int) -> Any:
    def progress(done: int, total: int) -> None:
        if done >= after:
            raise Cut

    return progress


@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
@pytest.mark.parametrize("after", [0, 2, 4])
def test_a_resumed_run_gives_the_same_bytes_and_nothing_twice(tmp_path: Path, out: str, after: int) -> None:
    spoil(tmp_path)
    whole = decide(tmp_path, out=out)
    expected, entries = (tmp_path / out).read_bytes(), logged(tmp_path)
    for path in (tmp_path / out, *tmp_path.glob("log.db*")):
        path.unlink()
    with pytest.raises(Cut):
        decide(tmp_path, out=out, progress=cutting(after))
    assert not (tmp_path / out).exists()
    seen: list[tuple[int, int]] = []
    report = decide(tmp_path, out=out, progress=lambda done, total: seen.append((done, total)))
    assert report.resumed == after
    assert seen[0] == (after, 6)
    assert (tmp_path / out).read_bytes() == expected
    assert logged(tmp_path) == entries
    assert report.problems == whole.problems
    assert report.outcomes == whole.outcomes


def test_equal_files_give_equal_records_under_any_name(tmp_path: Path) -> None:
    write_job(tmp_path)
    decide(tmp_path, out="a.csv")
    (tmp_path / "log.db").rename(tmp_path / "first.db")
    decide(tmp_path, out="b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_two_runs_that_begin_at_the_same_head_of_the_log(tmp_path: Path) -> None:
    """Each would take the other's entries for its own."""
    write_job(tmp_path)

    def meanwhile(done: int, total: int) -> None:
        if done == 0 and not (tmp_path / "b.csv").exists():
            decide(tmp_path, out="b.csv")

    with pytest.raises(DataError, match="another run on the same files writes to this log"):
        decide(tmp_path, out="a.csv", progress=meanwhile)
    assert len(logged(tmp_path)) == 5
    assert not (tmp_path / "a.csv").exists()
    decide(tmp_path, out="a.csv")
    assert len(logged(tmp_path)) == 10


def test_cut_off_between_log_and_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ucsearch.planner.decide import job as module

    write_job(tmp_path)
    keep = module.keep

    def lost(folder: Path, chunk: Any, rows: Any) -> None:
        if chunk.number == 1:
            raise Cut
        keep(folder, chunk, rows)

    monkeypatch.setattr(module, "keep", lost)
    with pytest.raises(Cut):
        decide(tmp_path)
    assert len(logged(tmp_path)) == 4  # the second chunk is in the log, its rows are lost
    monkeypatch.undo()
    decide(tmp_path)
    rows = read_csv(tmp_path / "out.csv")
    assert logged(tmp_path) == [(row["certificate"], row["series"]) for row in rows]


def test_a_killed_process_resumes(tmp_path: Path) -> None:
    write_job(tmp_path)
    (tmp_path / "job.toml").write_text(TOML)
    code = """
import os, signal, sys
from pathlib import Path
from ucsearch.planner.decide.job import run_decide
from ucsearch.planner.settings import load_settings
folder = Path(sys.argv[1])
def progress(done, total):
    if done >= 2:
        os.kill(os.getpid(), signal.SIGKILL)
run_decide(load_settings(folder / "job.toml"), folder / "forecasts.csv", folder / "states.csv", folder / "out.csv",
           folder / "log.db", progress=progress)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "out.csv.partial").is_dir()
    report = decide(tmp_path, parse_settings(TOML.encode()))
    assert report.resumed == 2
    rows = read_csv(tmp_path / "out.csv")
    assert [row["series"] for row in rows] == list(NAMES)
    assert logged(tmp_path) == [(row["certificate"], row["series"]) for row in rows]
    assert not (tmp_path / "out.csv.partial").exists()


def test_rows_whose_records_are_gone_are_decided_again(tmp_path: Path) -> None:
    write_job(tmp_path)
    with pytest.raises(Cut):
        decide(tmp_path, progress=cutting(4))
    for path in tmp_path.glob("log.db*"):
        path.unlink()
    assert decide(tmp_path).resumed == 0
    assert len(logged(tmp_path)) == 5


def test_a_run_on_other_inputs_is_not_mixed_in(tmp_path: Path) -> None:
    write_job(tmp_path)
    with pytest.raises(Cut):
        decide(tmp_path, progress=cutting(2))
    with pytest.raises(DataError, match="holds a run that was cut off, on other files or settings"):
        decide(tmp_path, make_settings("# other settings\n"))
    write_csv(tmp_path / "states.csv", STATE_HEAD, [[name, 9.0, 5.0] for name in NAMES])
    with pytest.raises(DataError, match="on other files or settings"):
        decide(tmp_path)
    assert decide(tmp_path, fresh=True).resumed == 0


def test_a_run_that_kept_nothing_is_in_nobodys_way(tmp_path: Path) -> None:
    write_job(tmp_path)
    with pytest.raises(Cut):
        decide(tmp_path, progress=cutting(0))
    assert decide(tmp_path, make_settings("# other settings\n")).resumed == 0


def test_a_resumed_run_keeps_its_time(tmp_path: Path) -> None:
    write_job(tmp_path)
    began = datetime(2024, 5, 1, 6, tzinfo=UTC)
    with pytest.raises(Cut):
        decide(tmp_path, now=began, progress=cutting(2))
    decide(tmp_path, now=began + timedelta(days=1))
    with AuditReader(tmp_path / "log.db") as reader:
        assert {row.record["gate"]["now"] for row in reader} == {began.isoformat()}


@pytest.mark.skipif(os.name != "posix", reason="locks of this kind are POSIX's")
def test_two_runs_on_one_output_are_refused(tmp_path: Path) -> None:
    write_job(tmp_path)

    def second(done: int, total: int) -> None:
        with pytest.raises(DataError, match="another run is at work on the same output"):
            decide(tmp_path)

    decide(tmp_path, progress=second)


def test_settings_that_do_not_fit_the_task_stop_at_once(tmp_path: Path) -> None:
    forecasts, states = write_job(tmp_path)
    settings = parse_settings(TOML.replace('name = "exact"', 'name = "certified_beam"\nwidth = 2').encode())
    with pytest.raises(InputError, match=r"policy\.width: saw 2, expected at least 4"):
        run_decide(settings, forecasts, states, tmp_path / "out.csv", tmp_path / "log.db")
    assert not (tmp_path / "out.csv").exists()


def test_packs_that_leave_few_sizes(tmp_path: Path) -> None:
    """Slow items in large packs: eight lots are only a few different orders, and the grid stays finite."""
    write_job(tmp_path)
    text = TOML.replace("order_sizes = [0.0, 5.0, 10.0, 15.0]", "case_pack = 20.0")
    text = text.replace("risk = 0.25", "mode = 'closed'") + "[actions]\nlots = 8\nround_to = 1.0\n"
    settings = parse_settings(text.encode(), "job.toml")
    assert decide(tmp_path, settings).outcomes == {"RELEASED": 5}
    orders = [float(row["order"]) for row in read_csv(tmp_path / "out.csv")]
    assert {order % 20.0 for order in orders} == {0.0}
    assert max(orders) > 0.0
    assert [v.status for v in verify_file(tmp_path / "log.db")] == ["valid"] * 5
