"""The states file: columns, parameters by series, and what can be wrong with its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.planner.kit import STATE_HEAD, TOML, make_settings, state_rows, write_csv
from ucsearch.errors import DataError, InputError
from ucsearch.planner.decide.sizes import panel_inputs
from ucsearch.planner.decide.states import StateFile, state_columns
from ucsearch.planner.files.table import open_table, write_table
from ucsearch.planner.settings import parse_settings
from ucsearch.tasks import LeadTimeInventory
from ucsearch.tasks.inventory.rules import State
from ucsearch.trace import Trace


def opened(folder: Path, head: list[str], rows: list[list[Any]], extra: str = "") -> StateFile:
    return StateFile(open_table(write_csv(folder / "s.csv", head, rows)), make_settings(extra))


def reasons(file: StateFile) -> list[str]:
    return [str(p).partition("s.csv, ")[2] for p in file.problems]


def test_columns_become_states(tmp_path: Path) -> None:
    file = opened(tmp_path, [*STATE_HEAD, "last"], [["A", 7, 5, 3], ["B", 1, "", ""]])
    assert file.cases["A"].state == State(7.0, (5.0,), 3.0)
    assert file.cases["B"].state == State(1.0, (0.0,), 0.0)
    assert not file.problems
    assert file.cases["A"].kind is file.cases["B"].kind


def test_what_a_states_file_may_hold_is_read_off_the_task() -> None:
    columns = state_columns(LeadTimeInventory())
    assert columns.required == ("on_hand",)
    assert columns.several == ("open_orders", "planned", "ages")
    assert columns.numbers["lead_time"] is int
    assert columns.numbers["shortage"] is float
    assert columns.numbers["capacity"] is float
    assert columns.words == ("orders", "unmet", "end_stock", "fallback_rule", "discount")
    assert "level_scale" not in columns.numbers


def test_counts_are_whole_numbers(tmp_path: Path) -> None:
    text = "[task]\nname = 'capacity_plan'\n[policy]\nname = 'exact'\ndepth = 3\n"
    rows = [["A", 3, 1], ["B", 2.5, 0]]
    table = open_table(write_csv(tmp_path / "s.csv", ["series", "online", "starting_1"], rows))
    file = StateFile(table, parse_settings(text.encode()))
    assert file.cases["A"].state.online == 3.0
    assert "line 3, column online, series B: saw 2.5, expected a whole number" in str(file.problems[0])


def test_parameters_by_series_and_tasks_by_lead_time(tmp_path: Path) -> None:
    head = ["series", "on_hand", "open_orders_1", "open_orders_2", "open_orders_3", "lead_time", "shortage", "unmet"]
    file = opened(
        tmp_path, head,
        [["A", 7, 5, "", "", "", 4, ""], ["B", 7, 5, 6, 7, 3, "", ""], ["C", 7, 5, 0, "", 1, 8, ""],
         ["D", -2, "", "", "", "", "", "backordered"]],
    )  # fmt: skip
    a, b, c, d = (file.cases[name] for name in "ABCD")
    assert (a.params.shortage, b.params.shortage, c.params.shortage) == (4.0, 9.0, 8.0)
    assert b.state.pipeline == (5.0, 6.0, 7.0)
    assert b.kind.delay == 3
    assert a.params.lead_time == 1.0
    assert d.params.backorders == 1.0
    assert d.state.on_hand == -2.0
    assert len({a.kind, b.kind, d.kind}) == 3


def test_stacked_parameters_are_those_of_each_series(tmp_path: Path) -> None:
    file = opened(tmp_path, [*STATE_HEAD, "shortage"], [["A", 7, 5, 4], ["B", 8, 6, 3]])
    trace = Trace.from_members(np.ones((2, 3, 3)))
    states, params, actions = panel_inputs([file.cases["A"], file.cases["B"]], trace, make_settings())
    assert params.shortage.tolist() == [4.0, 3.0]
    assert params.grid.tolist() == [[0.0, 5.0, 10.0, 15.0]] * 2
    assert states.on_hand.tolist() == [7.0, 8.0]
    assert states.pipeline.tolist() == [[5.0], [6.0]]
    assert actions is None


def test_a_grid_that_fits_each_series(tmp_path: Path) -> None:
    plain = TOML.replace("order_sizes = [0.0, 5.0, 10.0, 15.0]\n", "")
    settings = parse_settings((plain + "[actions]\nmultiples = [-1.0, 0.0, 1.0, 2.0]\nround_to = 5.0\n").encode())
    file = StateFile(open_table(write_csv(tmp_path / "s.csv", STATE_HEAD, state_rows(["A", "B"]))), settings)
    members = np.array([[[40.0, 40.0], [60.0, 60.0]], [[4.0, 4.0], [4.0, 4.0]]])  # mean 50, spread 10; mean 4, none
    cases = [file.cases["A"], file.cases["B"]]
    _, params, actions = panel_inputs(cases, Trace.from_members(members), settings)
    assert np.array_equal(actions, [[0.0, 40.0, 50.0, 60.0, 70.0], [0.0, 5.0, np.nan, np.nan, np.nan]], equal_nan=True)  # type: ignore[arg-type]
    assert params.grid.tolist() == [[0.0, 40.0, 50.0, 60.0, 70.0], [0.0, 5.0, 5.0, 5.0, 5.0]]
    assert cases[0].kind.task.label(1, 40.0) == "order 40"  # by its size, not by its place


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (["B", "abc", 5], "line 3, column on_hand, series B: saw 'abc', expected a number"),
        (["B", "", 5], "line 3, column on_hand, series B: saw nothing, expected a number"),
        (["B", "inf", 5], "line 3, column on_hand, series B: saw 'inf', expected a number"),
        (["B", -1, 5], "line 3, column on_hand, series B: saw -1.0, expected a number "),
        (["B", 1, -5], "line 3, column open_orders_1, series B: saw -5.0, expected a number "),
        (["A", 1, 5], "line 3, column series, series A: the series twice, expected it once (line 2 has it too)"),
        (["", 1, 5], "line 3, column series: saw nothing, expected a series"),
        (["B", 1], "line 3, series B: saw 2 cells, expected 3 as in the header"),
    ],
)
def test_one_bad_row(tmp_path: Path, row: list[Any], reason: str) -> None:
    file = opened(tmp_path, STATE_HEAD, [["A", 3, 5], row, ["C", 3, 5]])
    (found,) = reasons(file)
    assert found.startswith(reason)
    assert "C" in file.cases
    assert row[0] not in file.cases
    assert row[0] in file.refused


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("lead_time", 1.5, "column lead_time, series A: saw 1.5, expected a whole number from 0 to 12"),
        ("lead_time", 13, "column lead_time, series A: saw 13, expected a whole number from 0 to 12"),
        ("shortage", -1, "column shortage, series A: saw -1.0, expected a number at least 0"),
        ("unmet", "never", "column unmet, series A: saw 'never', expected one of 'lost', 'backordered'"),
        ("open_orders_3", 4, "column open_orders, series A: saw 3 orders, expected at most 1, the lead time"),
    ],
)
def test_the_tasks_own_checks_name_row_and_column(tmp_path: Path, column: str, value: Any, reason: str) -> None:
    file = opened(tmp_path, ["series", "on_hand", column], [["A", 3, value], ["B", 3, ""]])
    assert reasons(file) == [f"line 2, {reason}"]
    assert list(file.cases) == ["B"]


def test_unknown_columns(tmp_path: Path) -> None:
    file = opened(tmp_path, ["series", "on_hand", "colour"], [["A", 1, "red"]])
    assert [p.column for p in file.problems] == ["colour"]
    assert not any(p.refuses for p in file.problems)
    assert "A" in file.cases
    ignored = opened(tmp_path, ["series", "on_hand", "colour"], [["A", 1, "red"]], "[columns]\nignore = ['colour']\n")
    assert not ignored.problems


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        (
            "max_order",
            20,
            "line 2, column 'max_order': saw 20, expected a column we know: .*largest_order.*ignore = .",
        ),
        ("Bestellgrenze", "20", "line 2, column 'Bestellgrenze'"),
        ("order_sizes", 5, "column 'order_sizes'"),
        ("largest_ordr", "", "saw 'largest_ordr', expected largest_order"),
        ("Capacity", 20, "saw 'Capacity', expected capacity"),
        ("unmett", "lost", "saw 'unmett', expected unmet"),
        ("open_orders", 5, "expected open_orders_1, open_orders_2"),
    ],
)
def test_a_limit_under_another_name_is_refused(tmp_path: Path, column: str, value: Any, expected: str) -> None:
    head, rows = ["series", "on_hand", column], [["A", 1, value]]
    with pytest.raises(InputError, match=expected):
        opened(tmp_path, head, rows)
    assert opened(tmp_path, head, rows, f"[columns]\nignore = ['{column}']\n").cases["A"].params.largest_order > 1e9
    if column == "max_order":
        renamed = opened(tmp_path, head, rows, "[columns]\nrename = { max_order = 'largest_order' }\n")
        assert renamed.cases["A"].params.largest_order == 20.0


def test_a_rename_to_what_is_not_ours_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected one of on_hand"):
        opened(tmp_path, ["series", "on_hand", "x"], [["A", 1, 2]], "[columns]\nrename = { x = 'colour' }\n")


def test_other_names(tmp_path: Path) -> None:
    names = "[columns]\nseries = 'sku'\nrename = { stock = 'on_hand', due = 'open_orders_1' }\n"
    file = opened(tmp_path, ["sku", "stock", "due"], [["A", 3, 5]], names)
    assert file.cases["A"].state == State(3.0, (5.0,), 5.0)
    with pytest.raises(InputError, match="two columns of one meaning"):
        opened(tmp_path, ["sku", "stock", "on_hand"], [["A", 3, 5]], names)


def test_a_file_that_holds_no_states(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a column 'on_hand'"):
        opened(tmp_path, ["series", "stock"], [["A", 1]])
    with pytest.raises(InputError, match="a column 'series'"):
        opened(tmp_path, ["on_hand"], [[1]])
    with pytest.raises(DataError, match="saw no rows"):
        opened(tmp_path, STATE_HEAD, [])


def test_parquet_reads_the_same(tmp_path: Path) -> None:
    columns: dict[str, type] = {"series": str, "on_hand": float, "open_orders_1": float}
    write_table(tmp_path / "s.parquet", columns, lambda: iter(state_rows()))
    parquet = StateFile(open_table(tmp_path / "s.parquet"), make_settings())
    csv = opened(tmp_path, STATE_HEAD, state_rows())
    assert {k: v.state for k, v in parquet.cases.items()} == {k: v.state for k, v in csv.cases.items()}
