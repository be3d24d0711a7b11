"""A recorded decision with other numbers, a person's order in its place, and which limit binds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

import ucsearch as uc
from tests.planner.kit import STATE_HEAD, TOML, decide, make_settings, read_csv, write_csv, write_job
from ucsearch.cli.main import app
from ucsearch.errors import InputError, RecordError
from ucsearch.planner.decide.job import run_decide
from ucsearch.planner.decide.rows import plan_orders
from ucsearch.planner.recorded.explain import explain_series
from ucsearch.planner.recorded.limits import action_words, asked_of, blocked_words
from ucsearch.planner.recorded.override import override_decision
from ucsearch.planner.recorded.problem import asked_again, find_decision
from ucsearch.planner.recorded.whatif import WhatIf, parse_changes, what_if
from ucsearch.planner.settings import parse_settings
from ucsearch.records import AuditReader
from ucsearch.records.overrides import NotAllowed, built_in_task
from ucsearch.records.record import decision_record
from ucsearch.tasks import CapacityPlan, Intervention, LeadTimeInventory, Storage
from ucsearch.verify import verify_file

SCALES = (1e-9, 1.0, 1e12)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_job(tmp_path)
    decide(tmp_path)
    return tmp_path


def ask(folder: Path, *changes: str, series: str = "C") -> WhatIf:
    return what_if(folder / "log.db", series, parse_changes(changes), settings=make_settings())


@pytest.mark.parametrize("name", ["exact", "uc_beam", "constrained_beam", "mcts"])
def test_what_was_recorded_is_what_is_decided_again(tmp_path: Path, name: str) -> None:
    text = TOML.replace('"exact"', f'"{name}"') + "[gate]\nregret_limit = 5.0\n[proof]\neps_m = 0.01\n"
    write_job(tmp_path)
    decide(tmp_path, parse_settings(text.encode()))
    with AuditReader(tmp_path / "log.db") as reader:
        for series in "ABCDE":
            row = find_decision(reader, series)
            recorded, task = row.record, built_in_task(row.record["task"])
            assert task is not None
            again = asked_again(reader, row, task).decide()
            made, _ = decision_record(again, series=series, where=recorded["task"]["object"])
            assert {k for k in recorded if recorded[k] != made.get(k)} == {"id", "request"}


def test_side_by_side(folder: Path) -> None:
    before = (folder / "log.db").read_bytes()
    found = ask(folder, "capacity=15", "shortage=5")
    assert [(c.name, c.before, c.after) for c in found.changes] == [("capacity", "none", "15"), ("shortage", "9", "5")]
    assert (found.recorded.action, found.other.action) == (15.0, 5.0)
    text = found.text()
    assert text.startswith("C: what if capacity = 15 (was none), shortage = 5 (was 9)?")
    assert "With these numbers order 5 would be sent instead of order 15." in text
    assert text.endswith("Nothing was written to the log.")
    assert (folder / "log.db").read_bytes() == before


def test_a_change_gives_what_a_run_with_that_setting_gives(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    changes = {
        "capacity=14": "capacity = 14.0", "order_budget=3": "order_budget = 3.0", "spoilage=0.5": "spoilage = 0.5",
        "salvage=0.25": "salvage = 0.25", "unmet=backordered": 'unmet = "backordered"', "lead_time=2": "lead_time = 2",
        "minimum_order=12": "minimum_order = 12.0", "fixed_cost=30": "fixed_cost = 30.0",
    }  # fmt: skip
    for change, line in changes.items():
        other = tmp_path_factory.mktemp("other")
        write_job(other)
        base = TOML.replace("lead_time = 1\n", "") if "lead_time" in line else TOML
        decide(other, parse_settings(base.replace("[policy]", f"{line}\n[policy]").encode()))
        with AuditReader(other / "log.db") as reader:
            outcome = find_decision(reader, "C").record["outcome"]
        found = ask(folder, change).other
        assert (found.outcome.value, found.action) == (outcome["outcome"], outcome["action"]), change
        assert found.sentence == outcome["sentence"], change


def test_the_state_may_change(folder: Path) -> None:
    found = ask(folder, "on_hand=40", "open_orders_1=0")
    assert [(c.before, c.after) for c in found.changes] == [("5", "40"), ("5", "0")]
    assert found.other.action == 0.0
    assert found.changed


def test_a_lead_time_moves_open_orders(folder: Path) -> None:
    assert ask(folder, "lead_time=2").other.certificate.plan.inputs.states[0].tolist() == [5.0, 5.0, 0.0, 5.0]  # type: ignore[union-attr]
    none = ask(folder, "lead_time=0")
    assert none.other.certificate.plan.inputs.states[0].tolist() == [10.0, 0.0, 5.0]  # type: ignore[union-attr]
    assert "The 5 that arrive in this period count as stock." in none.notes
    assert any("no plan sees a use for it" in note for note in ask(folder, "lead_time=3").notes)
    write_csv(folder / "states.csv", [*STATE_HEAD, "open_orders_2", "lead_time"], [["C", 5.0, 5.0, 7.0, 2]])
    decide(folder, out="again.csv")
    with pytest.raises(InputError, match="at least 2") as caught:
        ask(folder, "lead_time=1")
    assert "Open orders of 7 arrive later than a new order would" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("capcity=3", "Did you mean capacity?"),
        ("cost=3", "Did you mean unit_cost or fixed_cost or stability_cost?"),
        ("plan_steps=5", "decide again, with other files.decisions and files.log"),
        ("stock=3", "expected one of on_hand, open_orders_1, last, lead_time"),
        ("orders=level", "gives the recorded actions their meaning"),
        ("lead_time=1.5", "a whole number"),
        ("capacity=nan", "a finite number"),
        ("capacity", "NAME=VALUE"),
        ("on_hand=-1", "at least 0"),
        ("salvage=9", "at most unit_cost"),
        ("stability_cost=1", "previous plan"),
        ("change_budget=5", "previous plan"),
        ("plan_steps=5", "a parameter that a recorded decision depends on"),
        ("unmet=gone", "'backordered'"),
    ],
)
def test_what_cannot_be_asked(folder: Path, change: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        ask(folder, change)
    assert words in str(caught.value)


def test_a_refusal_cannot_be_planned(folder: Path) -> None:
    write_csv(folder / "states.csv", STATE_HEAD, [["Z", 5.0, 5.0]])
    decide(folder, out="again.csv")
    with pytest.raises(RecordError, match=r"refusal: its forecast could not be used.*correct it and decide again"):
        ask(folder, "capacity=3", series="Z")
    with pytest.raises(RecordError, match="refusal: its row of the states could not be used"):
        ask(folder, "capacity=3", series="A")


STORE = """
period = "hour"
[task]
name = "storage"
capacity = 4.0
power = 2.0
level_step = 0.5
end_price = "given"
[policy]
name = "exact"
depth = 3
[run]
engine = "python"
"""


def test_a_store_of_another_power(tmp_path: Path) -> None:
    """What may be chosen follows from the settings alone, so it can be asked; its words speak of the new powers."""
    settings = parse_settings(STORE.encode())
    prices = [["N", h + 1, p, p] for h, p in enumerate((80.0, 10.0, 90.0))]
    forecasts = write_csv(tmp_path / "f.csv", ["series", "step", "member_1", "member_2"], prices)
    states = write_csv(tmp_path / "s.csv", ["series", "level"], [["N", 2.0]])
    run_decide(settings, forecasts, states, tmp_path / "d.csv", tmp_path / "d.db")
    found = what_if(tmp_path / "d.db", "N", parse_changes(["power=1"]))
    assert found.other.released
    assert found.recorded.action is not None
    assert found.other.action is not None
    assert found.recorded.action < -1.0 <= found.other.action < 0.0
    assert (found.changes[0].before, found.changes[0].after) == ("as recorded", "1")
    assert "What may be chosen is another list now" in found.text()


def test_more_power_than_a_store_has_is_refused_and_less_is_not_called_beyond_the_offer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = [["N", h + 1, p, p] for h, p in enumerate((80.0, 10.0, 90.0))]
    forecasts = write_csv(tmp_path / "f.csv", ["series", "step", "member_1", "member_2"], prices)
    states = write_csv(tmp_path / "s.csv", ["series", "level"], [["N", 4.0], ["M", 0.0]])
    run_decide(parse_settings(STORE.encode()), forecasts, states, tmp_path / "d.csv", tmp_path / "log.db")
    for power in ("-2.5", "2.5"):
        assert f"Refused: {power} " in run(tmp_path, capsys, "N", power, code=2)
    assert "than the" not in run(tmp_path, capsys, "N", "-1.7")


WARD = """
period = "day"
[task]
name = "capacity_plan"
unit_output = 5.0
startup_delay = 1
minimum_up_time = 3
changes = [-1.0, 0.0, 1.0]
largest = 9
shortage = 9.0
running = 1.0
[policy]
name = "exact"
mode = "members"
risk = 0.0
depth = 4
[run]
engine = "python"
"""


def test_another_delay_moves_what_a_plan_begins(tmp_path: Path) -> None:
    """A state's tuples are as long as the delay: left as they were, nothing would change."""
    settings = parse_settings(WARD.encode())
    demand = [["W", h + 1, y, y] for h, y in enumerate((10.0, 10.0, 10.0, 15.0))]
    forecasts = write_csv(tmp_path / "f.csv", ["series", "step", "member_1", "member_2"], demand)
    states = write_csv(tmp_path / "s.csv", ["series", "online", "starting_1", "young_2"], [["W", 2, 0, 1]])
    run_decide(settings, forecasts, states, tmp_path / "d.csv", tmp_path / "d.db")

    def plan(change: str) -> tuple[WhatIf, Sequence[float]]:
        found = what_if(tmp_path / "d.db", "W", parse_changes([change]))
        assert found.other.certificate is not None
        return found, plan_orders(found.other)

    for change, begun in (("startup_delay=2", 1), ("startup_delay=0", 3), ("shortage=8", 2)):
        found, path = plan(change)
        assert list(path) == [1.0 if h == begun else 0.0 for h in range(4)], change
        assert ("What is under way already keeps its time." in found.notes) is (change == "startup_delay=2")
    found, _ = plan("minimum_up_time=4")
    assert (found.changes[0].before, found.changes[0].after) == ("3", "4")  # its field has another name
    assert found.other.certificate is not None
    with pytest.raises(InputError, match=r"1 under way .young. would take longer"):
        what_if(tmp_path / "d.db", "W", parse_changes(["minimum_up_time=1"]))


# -------------------------------------------------------------------- limits


@pytest.mark.parametrize("scale", SCALES)
def test_the_smallest_change_of_a_limit(scale: float) -> None:
    config = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 5.0 * scale, 10.0 * scale), capacity=20.0 * scale)
    task, state = config.task(), config.state(12.0 * scale, [2.0 * scale], 2.0 * scale)
    now, needed = f"{20.0 * scale:g}", f"{24.0 * scale:g}"
    assert (
        action_words(task, state, config.params(), 10.0 * scale) == f"capacity {now} does not allow it, {needed} would"
    )
    assert action_words(task, state, config.params(), 5.0 * scale) == ""


def test_limits_that_bind_together_and_those_that_loosen_downwards() -> None:
    config = LeadTimeInventory(
        lead_time=1, order_sizes=(0.0, 5.0, 10.0), capacity=20.0, ramp=3.0, order_budget=7.0, unit_cost=1.0
    )
    task, state = config.task(), config.state(12.0, [2.0], 2.0)
    words = "capacity 20 and ramp 3 and order_budget 7 together do not allow it, 24 and 8 and 10 would"
    assert action_words(task, state, config.params(), 10.0) == words
    least = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 5.0), minimum_order=12.0, largest_order=8.0)
    told = action_words(least.task(), least.state(1.0, [0.0]), least.params(), 5.0)
    assert told == "largest_order 8 does not allow it, 12 would; minimum_order 12 does not allow it, 8 would"
    store = Storage(capacity=4.0)
    assert (
        action_words(store.task(), store.state(3.5), store.params(), 1.0) == "capacity 4 does not allow it, 4.45 would"
    )
    due = Storage(capacity=4.0, power=1.0, charge_efficiency=1.0, level_step=0.5, target=4.0)
    told = action_words(due.task(), due.state(1.0, due=2), due.params(), 0.0)
    assert told == "target 4 does not allow it, 2 would; due 2 does not allow it, 4 would"
    care = Intervention(cooldown=2)
    assert action_words(care.task(), care.state(wait=2), care.params(), 1.0) == "wait 2 does not allow it, 0 would"
    plan = CapacityPlan(largest=4, smallest=1)
    assert "largest 4" in action_words(plan.task(), plan.state(4), plan.params(), 2.0)


@pytest.mark.parametrize("mode", ["mean", "members"])
def test_a_dead_end_names_what_would_let_it_go_on(mode: str) -> None:
    """Orders must come down from 30 by at most the ramp, and 15 is the largest size."""
    config = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 5.0, 10.0, 15.0), capacity=40.0, ramp=3.0)
    made = [
        uc.decide(
            config.task(), config.state(12.0, [2.0], 30.0), [[3.0, 4.0, 5.0], [4.0, 5.0, 6.0]],
            uc.Exact(depth=3, mode=mode), params=config.params()._replace(ramp=ramp), run=uc.Run(engine="python"),  # type: ignore[arg-type]
        )
        for ramp in (3.0, 14.9, 15.0)
    ]  # fmt: skip
    assert [d.outcome.value for d in made] == ["HOLD", "HOLD", "RELEASED"]
    assert blocked_words(asked_of(made[0])) == "ramp 3 leaves no action now, 15 would"


def test_explain_and_the_row_name_it(tmp_path: Path) -> None:
    write_job(tmp_path)
    write_csv(tmp_path / "states.csv", [*STATE_HEAD, "last"], [["A", 3.0, 5.0, 30.0], ["B", 3.0, 5.0, 5.0]])
    settings = parse_settings(TOML.replace("unit_cost = 0.5", "ramp = 3.0").encode())
    decide(tmp_path, settings)
    assert "What binds: ramp 3 leaves no action now, 15 would." in explain_series(tmp_path / "log.db", "A").text
    assert "What binds" not in explain_series(tmp_path / "log.db", "B").text


# -------------------------------------------------------------------- overrides


def run(folder: Path, capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    with pytest.raises(SystemExit) as stopped:
        app(
            args=["override", *args, "--set", f"files.log={folder / 'log.db'}", "--who", "M. Curie", "--why", "a fair"],
            prog_name="ucsearch",
        )
    found = capsys.readouterr()
    assert stopped.value.code == code, found.err
    return found.out if code == 0 else found.err


LEVELS = TOML.replace("lead_time = 1", 'lead_time = 1\norders = "level"\ncapacity = 30.0\ncase_pack = 4.0')


def test_a_quantity_in_units_where_actions_are_levels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_job(tmp_path)
    decide(tmp_path, parse_settings(LEVELS.encode()))
    text = run(tmp_path, capsys, "C", "12")  # 5 in stock and 5 on order: up to 22
    assert "; that orders 12; it is not one of those offered and more than the largest of them, 15" in text
    with AuditReader(tmp_path / "log.db") as reader:
        (made,) = (row.record for row in reader.list(kind="override"))
    assert (made["action"], made["series"]) == (22, "C")
    assert "In force: 22, which orders 12." in explain_series(tmp_path / "log.db", "C").text
    assert "minimum" not in (told := run(tmp_path, capsys, "C", "13", code=2))
    assert "saw 13, expected what can be ordered: 16 is the next" in told
    assert "Packs hold 4" in told
    told = run(tmp_path, capsys, "C", "24", code=2)
    assert "an order of 24 breaks the rules of 'lead_time_inventory': capacity 30 does not allow it, 34 would" in told
    assert "allowed are: 0, 8" in told
    assert {v.status for v in verify_file(tmp_path / "log.db")} == {"valid"}


def test_hold_and_refused_can_be_overridden(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_job(tmp_path)
    write_csv(
        tmp_path / "states.csv", [*STATE_HEAD, "last"], [["A", 3.0, 5.0, 30.0], ["Z", 3.0, 5.0, 5.0], ["Y", "x", 1, 1]]
    )
    settings = parse_settings(TOML.replace("unit_cost = 0.5", "ramp = 3.0\nfallback_order = 40.0").encode())
    decide(tmp_path, settings)
    rows = {row["series"]: row for row in read_csv(tmp_path / "out.csv")}
    assert rows["A"]["outcome"] == "HOLD"
    assert "A: 28 is in force" in run(tmp_path, capsys, "A", "28")
    assert "an order of 20 breaks the rules" in run(tmp_path, capsys, "A", "20", code=2)
    assert "Z: order 5 is in force" in run(tmp_path, capsys, "Z", "5")  # no forecast
    assert "the state could not be used" in run(tmp_path, capsys, "Y", "5", code=2)
    assert "withdrew what replaced" in run(tmp_path, capsys, "A", "--withdraw")
    assert "no decision of a series 'Q'" in run(tmp_path, capsys, "Q", "5", code=2)


def test_half_a_unit_is_no_override_where_units_are_counted(tmp_path: Path) -> None:
    config = CapacityPlan(largest=6, smallest=1)
    trace = uc.Trace.from_members([[12.0, 15.0], [14.0, 18.0]])
    decision = uc.decide(config.task(), config.state(2), trace, uc.Exact(depth=2), run=uc.Run(engine="python"))
    log = tmp_path / "log.db"
    with uc.AuditLog(log) as book:
        entry = book.append(*decision_record(decision))

    def clock() -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    with pytest.raises(NotAllowed, match=r"0\.5 is not in whole units"):
        override_decision(log, entry.id, who="A", why="b", clock=clock, quantity="0.5", task=config.task())
    done = override_decision(log, entry.id, who="A", why="b", clock=clock, quantity="1", task=config.task())
    assert done.record["action"] == 1.0


FITTED = """\
[task]
name = "lead_time_inventory"
lead_time = 1
holding = 0.1
shortage = 2.0
fixed_cost = 4.0
capacity = 12.0
[actions]
lots = 4
points = 3
round_to = 1.0
[policy]
name = "exact"
mode = "closed"
depth = 4
[proof]
node_budget = 500000
[run]
engine = "python"
"""


@pytest.mark.parametrize(
    "changes",
    [
        {"capacity": "40.0"},
        {"fixed_cost": "20.0", "capacity": "90.0"},
        {"capacity": "60.0", "lead_time": "3"},
        {"case_pack": "5.0"},
    ],
)
def test_fitted_order_sizes_are_fitted_to_the_changed_numbers(changes: dict[str, str], tmp_path: Path) -> None:
    rows = [["A", h, *(6.0 + (2 * j + h) % 5 for j in range(6))] for h in range(1, 9)]
    write_csv(tmp_path / "forecasts.csv", ["series", "step", *(f"member_{j + 1}" for j in range(6))], rows)
    write_csv(tmp_path / "states.csv", STATE_HEAD, [["A", 3.0, 5.0]])
    decide(tmp_path, parse_settings(FITTED.encode()))
    found = what_if(tmp_path / "log.db", "A", changes)
    text = FITTED
    for name, value in changes.items():
        line = next((x for x in text.splitlines() if x.startswith(f"{name} =")), "")
        text = (
            text.replace(line, f"{name} = {value}")
            if line
            else text.replace("[actions]", f"{name} = {value}\n[actions]")
        )
    run = decide(tmp_path, parse_settings(text.encode()), out="other.csv", log_name="other.db")
    assert not run.problems
    with AuditReader(tmp_path / "other.db") as reader:
        row = find_decision(reader, "A")
        task = built_in_task(row.record["task"])
        assert task is not None
        asked = asked_again(reader, row, task)
    plan = found.other.certificate.plan  # type: ignore[union-attr]
    assert plan.inputs.params[0].tolist() == task.params_layout.flatten(asked.params, "params")  # type: ignore[union-attr]
    assert plan.trace.hash == asked.trace.hash
    assert float(read_csv(tmp_path / "other.csv")[0]["action"]) == found.other.action
    assert any("fitted to these numbers" in note for note in found.notes)


def test_given_order_sizes_stay_and_it_is_said(folder: Path) -> None:
    found = ask(folder, "capacity=15")
    assert any("they were given" in note for note in found.notes)


def test_empty_places_of_fitted_sizes_are_not_called_forbidden(tmp_path: Path) -> None:
    """Sizes that fall together after rounding leave places without a size; no rule has forbidden those."""
    rows = [["A", h, *(0.1 * ((2 * j + h) % 3) for j in range(6))] for h in range(1, 9)]
    write_csv(tmp_path / "forecasts.csv", ["series", "step", *(f"member_{j + 1}" for j in range(6))], rows)
    write_csv(tmp_path / "states.csv", STATE_HEAD, [["A", 3.0, 0.0]])
    decide(tmp_path, parse_settings(FITTED.replace("fixed_cost = 4.0", "fixed_cost = 0.0").encode()))
    (row,) = read_csv(tmp_path / "out.csv")
    assert row["outcome"] == "RELEASED"
    assert "not allowed" not in row["sentence"]
