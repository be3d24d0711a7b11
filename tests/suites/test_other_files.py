"""Files of a user's own in place of a family: what is read, and one clear error for what is not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ucsearch.errors import DataError, InputError
from ucsearch.lab.suites.evidence.ledger import Look, append_look, before
from ucsearch.lab.suites.kinds.series import is_design, price_blocks
from ucsearch.lab.suites.kinds.series_files import load_replaced
from ucsearch.lab.suites.run import evaluate
from ucsearch.lab.suites.suite import load_suite, parse_suite


def stamped(values: Sequence[object], times: Sequence[object], column: str = "zonal_price") -> str:
    return f"timestamp,{column}\n" + "".join(f"{t},{v}\n" for t, v in zip(times, values, strict=True))


HOURS = [f"2013-01-{1 + h // 24:02d} {h % 24:02d}:00:00" for h in range(100)]


@pytest.mark.parametrize(
    ("family", "body", "words"),
    [
        ("gefcom-price", stamped([1.0] * 3, [HOURS[0], HOURS[2], HOURS[1]]), "row 4: timestamp: saw 2013-01-01 01"),
        ("gefcom-price", stamped([1.0] * 6, [h for h in HOURS[:3] for _ in range(2)]), "row 5: .* each once"),
        ("gefcom-price", stamped([1.0] * 3, ["a", "a", "a"]), "row 4: .* each once"),
        ("gefcom-price", stamped([1.0] * 3, [HOURS[0], "", HOURS[2]]), "row 3: timestamp: saw nothing"),
        ("gefcom-price", stamped([1.0] * 3, ["1", "nan", "3"]), "row 3: timestamp: saw nothing"),
        ("gefcom-price", stamped([1.0, "inf", 1.0], HOURS[:3]), "row 3: zonal_price: saw 'inf'"),
        ("gefcom-price", stamped([1.0] * 100, HOURS), "no series for gefcom-price"),
        ("m5-TX_2", "unique_id,ds,y\na,1,2\nb,1,2\na,1,3\na,1,3\n", "row 5: ds: saw 1 of series 'a'"),
        ("m5-TX_2", "unique_id,ds,y\na,2,2\na,1,3\n", "row 3: ds: saw 1 of series 'a'"),
        ("m5-TX_2", "unique_id,y\na,2\na,-1\n", "series 'a': saw -1, expected sales"),
        ("m5-TX_2", "id,2015-01-01,2015-01-02\nx,1,-2\n", "series 'x': saw -2, expected sales"),
        ("m5-TX_2", "id,2015-01-01,2015-01-02\nx,1,2\nx,1,2\n", "id 'x': saw it in several rows"),
        ("m5-TX_2", "id,2015-01-01,2015-01-02\n,1,2\n", "or empty"),
        ("m5-TX_2", "id,2015-01-02,2015-01-01\nx,1,2\n", "periods are out of order"),
        ("m5-TX_2", "id,2015-01-01,2015-01-02\nx,n/a,2\ny,1,2\n", "row 2: 2015-01-01: saw 'n/a', expected a number"),
        ("sample-daily", "series,value\na,-0.5\n", "expected sales"),
    ],
)
def test_a_hostile_file_is_one_clear_error(family: str, body: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text(body)
    with pytest.raises(DataError, match=words):
        load_replaced(family, path)


def test_a_clock_put_back_once_is_no_duplicate_and_prices_may_be_negative(tmp_path: Path) -> None:
    path = tmp_path / "price.csv"
    times = [*(f"t{i}" for i in range(500)), "t499", *(f"t{i}" for i in range(501, 1008))]
    path.write_text(stamped([-5.0] * 1008, times))
    (block,) = load_replaced("gefcom-price", path).series
    assert block.y.min() == -5.0


def test_words_that_describe_an_item_are_no_periods(tmp_path: Path) -> None:
    path = tmp_path / "sales.csv"
    path.write_text("id,dept_id,state_id,d_1,d_2,d_3\nFOODS_1_001_TX_2_x,FOODS_1,TX,,4,5\n")
    (one,) = load_replaced("m5-TX_2", path).series
    assert (one.y.tolist(), one.category) == ([0.0, 4.0, 5.0], "FOODS_1")


def test_too_few_series_are_named_before_any_work(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("series,value\n" + "".join(f"a,{i % 5}\n" for i in range(300)))
    refusals = {
        "retail-lots-mini": r"^sample-daily: \d series of at least .* expected \d+ \(ask for fewer .* of 1, ",
        "truck200-mini": "saw 1 unopened items in sample-daily, expected at least ",
    }
    for name, words in refusals.items():
        with pytest.raises((DataError, InputError), match=words):
            evaluate(name, tmp_path / name, threads=1, families={"sample-daily": path})
        assert not (tmp_path / "looks.jsonl").exists()


# -------------------------------------------------------------------- blocks of one series


def test_blocks_may_begin_at_any_hour() -> None:
    import numpy as np

    blocks = price_blocks("gefcom-price-624", np.arange(2700.0))
    assert [(b.id, b.y[0], len(b.y)) for b in blocks] == [
        ("hours 624-1631", 624.0, 1008), ("hours 1632-2639", 1632.0, 1008)
    ]  # fmt: skip
    for name in ("gefcom-load", "gefcom-price-x", "gefcom-price--1"):
        with pytest.raises(InputError, match="first hour"):
            price_blocks(name, np.arange(2700.0))


def test_hours_that_were_open_before_are_found_however_blocks_are_cut(tmp_path: Path) -> None:
    ledger = tmp_path / "looks.jsonl"
    own = Look("first", "1" * 64, "2" * 64, "3" * 64)
    looks = [append_look(ledger, own, {"gefcom": {"hours 0-1007": [900, 1000], "hours 1008-2015": [0, 9]}}, code=None)]
    other = own._replace(suite="second")
    looks.append(append_look(ledger, other, {"gefcom": {"hours 500-1507": [450, 600]}}, code=None))
    apart = own._replace(suite="third")
    looks.append(append_look(ledger, apart, {"gefcom": {"hours 624-1631": [700, 900]}}, code=None))
    assert before(looks, looks[1])[1][0]["periods"] == {"gefcom/hours 500-1507": [450, 517]}
    assert before(looks, looks[2])[1] == []


def test_series_that_were_seen_before_take_no_part(tmp_path: Path) -> None:
    text = load_suite("retail-lots-mini").text
    assert '"seen"' not in json.dumps(parse_suite(text).as_json())  # older suites keep their bytes
    path = tmp_path / "other.csv"
    used = [one for one in "abcdefgh" if not is_design(one)][:2]
    path.write_text("series,value\n" + "".join(f"{one},{1 + i % 5}\n" for one in used for i in range(300)))
    for line, count in (("", 2), (f'seen = ["{used[0]}"]', 1)):
        suite = parse_suite(text.replace("[walkforward]", f"[walkforward]\n{line}", 1))
        with pytest.raises(DataError, match=f"^sample-daily: {count} series of at least"):
            evaluate(suite, tmp_path / "out", threads=1, families={"sample-daily": path})
    with pytest.raises(InputError, match="recalibrate = "):
        parse_suite(text.replace("[walkforward]", '[walkforward]\nforecaster = "unbiased"\nrecalibrate = "rolling"', 1))
