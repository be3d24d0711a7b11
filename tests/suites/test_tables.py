"""Tables are filled as their specifications say; checks read from tables."""

from __future__ import annotations

from typing import Any

import pytest

from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.tables import cell, check_row, fill, flatten


def row(family: str, series: str, window: int, **costs: float | None) -> dict[str, Any]:
    return {
        "split": "test", "family": family, "series": series, "window": window, "decisions": 10,
        "policies": {name: {"cost": cost, "nodes": 3} for name, cost in costs.items()},
        "certificate": {"decisions": 10, "passed": 10 - window},
    }  # fmt: skip


ROWS = [
    row("a", "S1", 0, uc=1.0, cem=4.0),
    row("a", "S1", 1, uc=3.0, cem=None),
    row("a", "S2", 0, uc=6.0, cem=8.0),
    row("b", "S1", 0, uc=10.0, cem=20.0),
]


def table(*columns: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "t", "title": "T", "split": "test", "group": ["policy"], "columns": list(columns), **more}


def column(how: str, source: str = "cost", **more: Any) -> dict[str, Any]:
    return {"name": how, "from": source, "how": how, **more}


def test_flatten_joins_the_certificate_to_uc() -> None:
    records = flatten(ROWS)
    assert len(records) == 8
    assert records[0]["cert_passed"] == 10
    assert "cert_passed" not in next(r for r in records if r["policy"] == "cem")


@pytest.mark.parametrize(
    ("how", "uc", "cem"),
    [
        ("mean", 5.0, 32 / 3),
        ("sum", 20.0, 32.0),
        ("min", 1.0, 4.0),
        ("max", 10.0, 20.0),
        ("count", 4, 4),
        ("family_mean", ((1 + 3) / 2 / 2 + 6 / 2 + 10) / 2, ((4 + 8) / 2 + 20) / 2),
        ("cvar20", 1.0, 4.0),
    ],
)
def test_hows(how: str, uc: float, cem: float) -> None:
    filled = fill(table(column(how), order=["uc"]), ROWS)
    assert filled["rows"] == [["uc", pytest.approx(uc)], ["cem", pytest.approx(cem)]]


def test_ratios() -> None:
    rate = column("rate_family_mean", "cert_passed", over="cert_decisions")
    ratio = column("ratio", "cert_passed", over="cert_decisions")
    filled = fill(table(rate, ratio, where={"policy": "uc"}), ROWS)
    assert filled["rows"] == [["uc", pytest.approx(((1 + 0.9 + 1) / 3 + 1) / 2), pytest.approx(39 / 40)]]


def test_order_groups_and_where() -> None:
    filled = fill(table(column("count"), group=["family", "policy"], order=["uc", "cem"]), ROWS[::-1])
    assert [line[:2] for line in filled["rows"]] == [["a", "uc"], ["a", "cem"], ["b", "uc"], ["b", "cem"]]
    some = fill(table(column("count"), where={"policy": ["cem"], "family": "a"}), ROWS)
    assert some["rows"] == [["cem", 3]]
    assert fill(table(column("count"), split="validation"), ROWS)["rows"] == []
    assert len(fill(table(column("count"), split=None, group=["window"]), ROWS)["rows"]) == 2


def test_what_is_not_known_is_null() -> None:
    filled = fill(table(column("mean"), where={"policy": "cem", "window": 1}), ROWS)
    assert filled["rows"] == [["cem", None]]


def test_filling_again_changes_nothing() -> None:
    filled = fill(table(column("mean"), column("count")), ROWS)
    assert fill(filled, ROWS) == filled
    given = {"name": "g", "how": "given", "rows": [[1]]}
    assert fill(given, ROWS) == given


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        (table(column("median")), "how"),
        (table(column("mean", "price")), "price"),
        (table(column("ratio", "cost", over="units")), "units"),
        (table(column("mean"), group=["shop"]), "shop"),
        ({"name": "g", "how": "given"}, "given"),
    ],
)
def test_specifications_that_cannot_be_filled_are_refused(spec: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word):
        fill(spec, ROWS)


def test_checks_take_their_figure_from_a_table() -> None:
    tables = [fill(table(column("mean")), ROWS)]
    place = {"table": "t", "row": ["uc"], "column": "mean"}
    assert cell(tables, place) == 5.0
    made = check_row({"name": "c", "from": place, "left": 99, "op": "<=", "right": 5.0}, tables)
    assert (made["left"], made["pass"]) == (5.0, True)
    assert check_row({"name": "c", "left": 4, "op": "==", "right": 5}, tables)["pass"] is False
    assert check_row({"name": "c", "left": float("nan"), "op": "<=", "right": 5}, tables)["left"] is None
    for wrong in ({"table": "x"}, {"row": ["greedy"]}, {"column": "Mean"}):
        with pytest.raises(InputError, match=r"check\.from"):
            cell(tables, {**place, **wrong})
