"""Limit order books on small files in the published formats, made here."""

from pathlib import Path

import numpy as np
import pytest

from ucsearch.errors import DataError, InputError
from ucsearch.lab.data.lob import FI2010_DAYS, FI2010_HORIZONS, load_fi2010, load_lobster, read_fi2010, read_lobster

SAMPLES = 12


def fi2010_table() -> np.ndarray:
    rng = np.random.default_rng(3)
    labels = rng.integers(1, 4, size=(5, SAMPLES)).astype(float)
    return np.vstack([rng.normal(size=(144, SAMPLES)).round(4), labels])


def write_fi2010(path: Path, table: np.ndarray, *, edit: str = "", into: str = "") -> Path:
    """Space-separated text in exponent form, three spaces between numbers, as in the published files."""
    text = "".join("   " + "   ".join(f"{x:.7e}" for x in row) + "\n" for row in table)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace(edit, into, 1) if edit else text)
    return path


def test_fi2010_features_and_labels(tmp_path: Path) -> None:
    table = fi2010_table()
    data = read_fi2010(write_fi2010(tmp_path / "Train_x.txt", table))
    assert data.features.shape == (SAMPLES, 144)
    assert np.array_equal(data.features, table[:144].T)
    assert np.array_equal(data.labels, table[144:].T)
    assert data.horizons == FI2010_HORIZONS == (10, 20, 30, 50, 100)
    assert np.array_equal(data.label(30), table[146])
    # Level 2: rows 5 to 8 of the file are its ask price, ask size, bid price, bid size.
    assert np.array_equal(data.book()[3, 1], table[4:8, 3])
    assert not data.features.flags.writeable
    with pytest.raises(InputError, match="horizon: saw 40"):
        data.label(40)


def test_fi2010_by_fold_reports_the_count(tmp_path: Path) -> None:
    write_fi2010(tmp_path / "fi2010/Test_Dst_NoAuction_ZScore_CF_7.txt", fi2010_table())
    data = load_fi2010("zscore", 7, "test", data_dir=tmp_path)
    assert data.name == "fi2010/noauction-zscore-7-test"
    assert data.report.rows() == [("count differs", 55478 - SAMPLES, "saw 12 samples, published 55,478")]


def test_fi2010_in_the_published_folder_tree(tmp_path: Path) -> None:
    tree = "BenchmarkDatasets/NoAuction/1.NoAuction_Zscore/NoAuction_Zscore_Training"
    write_fi2010(tmp_path / tree / "Train_Dst_NoAuction_ZScore_CF_2.txt", fi2010_table())
    assert load_fi2010("zscore", 2, "train", data_dir=tmp_path).labels.shape == (SAMPLES, 5)


def test_published_days_add_up() -> None:
    assert sum(FI2010_DAYS[:7]) == 254750
    assert sum(FI2010_DAYS) == 394337


def test_fi2010_missing_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Get it by hand and put it at fi2010/Train_Dst_NoAuction_ZScore_CF_1\.txt"):
        load_fi2010(data_dir=tmp_path)


def test_hostile_fi2010(tmp_path: Path) -> None:
    table = fi2010_table()
    path = tmp_path / "x.txt"
    write_fi2010(path, table[:-1])
    with pytest.raises(DataError, match="saw 148 rows, expected 144 features and 5 label rows"):
        read_fi2010(path)
    write_fi2010(path, np.vstack([table, table[:1]]))
    with pytest.raises(DataError, match="saw more than 149 rows"):
        read_fi2010(path)
    path.write_text("")
    with pytest.raises(DataError, match="saw 0 rows"):
        read_fi2010(path)
    number = f"{table[2, 4]:.7e}"
    write_fi2010(path, table, edit=number, into="oops")
    with pytest.raises(DataError, match="row 3, column 5: saw 'oops', expected a finite number"):
        read_fi2010(path)
    write_fi2010(path, table, edit=number, into="NaN")
    with pytest.raises(DataError, match="row 3, column 5: saw 'NaN'"):
        read_fi2010(path)
    write_fi2010(path, table, edit=number, into="")
    with pytest.raises(DataError, match="row 3: saw 11 numbers, expected 12 as in row 1"):
        read_fi2010(path)
    wrong = table.copy()
    wrong[145, 6] = 4.0
    write_fi2010(path, wrong)
    with pytest.raises(DataError, match="row 146, column 7: saw label 4, expected 1, 2 or 3"):
        read_fi2010(path)


BOOK = [
    [5859400, 200, 5853300, 18, 5859800, 200, 5853000, 150],
    [5859100, 18, 5853300, 18, 5859400, 200, 9999999999 * -1, 0],
    [5859100, 18, 5853500, 20, 9999999999, 0, 5853300, 18],
]
MESSAGES = [
    [34200.004241176, 1, 16113575, 18, 5853300, 1],
    [34200.025551909, 1, 16120456, 18, 5859100, -1],
    [34200.201743330, 7, 0, 0, -1, -1],
]


def write_rows(path: Path, rows: list[list[float]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(",".join(str(x) for x in row) + "\n" for row in rows))
    return path


def test_lobster_original_files(tmp_path: Path) -> None:
    book = write_rows(tmp_path / "b.csv", BOOK)
    data = read_lobster(book, write_rows(tmp_path / "m.csv", MESSAGES))
    assert data.levels == 2
    assert data.ask_price.dtype == np.int64
    assert data.ask_price[:, 0].tolist() == [5859400, 5859100, 5859100]
    assert data.bid_size[:, 1].tolist() == [150, 0, 18]
    assert data.seconds is not None
    assert data.seconds[0] == 34200.004241176
    assert data.event_type is not None
    assert data.event_type.tolist() == [1, 1, 7]
    assert data.mid_dollars()[0] == (585.94 + 585.33) / 2
    assert data.report.count("empty level") == 2
    assert data.report.count("trading halt") == 1
    assert data.report.count("crossed book") == 0


def test_lobster_level_one_with_header(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text("ask_price_1,ask_size_1,bid_price_1,bid_size_1\n100,5,90,6\n100,5,101,6\n100,5,90,0\n")
    data = read_lobster(path)
    assert (data.levels, data.seconds) == (1, None)
    assert data.report.rows() == [("crossed book", 1, "ask at or below bid, first in row 2")]
    assert np.isnan(data.mid_dollars()[2])


def test_hostile_lobster(tmp_path: Path) -> None:
    book = write_rows(tmp_path / "b.csv", BOOK)
    with pytest.raises(DataError, match="saw 2 rows, expected 3 as in the order book"):
        read_lobster(book, write_rows(tmp_path / "m.csv", MESSAGES[:2]))
    with pytest.raises(DataError, match=r"row 2: saw time 34200\.02.* after 34200\.20"):
        read_lobster(book, write_rows(tmp_path / "m.csv", [MESSAGES[2], MESSAGES[1], MESSAGES[0]]))
    with pytest.raises(DataError, match=r"row 3: saw event type 8, expected 1\.\.7"):
        read_lobster(book, write_rows(tmp_path / "m.csv", [*MESSAGES[:2], [34300.0, 8, 0, 0, 0, 1]]))
    with pytest.raises(DataError, match="saw 5 columns, expected 6"):
        read_lobster(book, write_rows(tmp_path / "m.csv", [row[:5] for row in MESSAGES]))
    with pytest.raises(DataError, match="saw 7 columns, expected 4 per level"):
        read_lobster(write_rows(tmp_path / "c.csv", [row[:7] for row in BOOK]))
    with pytest.raises(DataError, match=r"row 1, column 2: saw 1\.5, expected a whole number"):
        read_lobster(write_rows(tmp_path / "c.csv", [[100, 1.5, 90, 2]]))
    path = tmp_path / "h.csv"
    path.write_text("ask,ask_size_1,bid_price_1,bid_size_1\n100,5,90,6\n")
    with pytest.raises(DataError, match="row 1: column 'ask_price_1' is missing"):
        read_lobster(path)


def test_lobster_sample_by_ticker(tmp_path: Path) -> None:
    stem = "lob/AAPL_2012-06-21_34200000_57600000"
    write_rows(tmp_path / f"{stem}_orderbook_1.csv", [row[:4] for row in BOOK])
    with pytest.raises(DataError, match="lobster/AAPL/message: not found"):
        load_lobster("AAPL", data_dir=tmp_path)
    write_rows(tmp_path / f"{stem}_message_1.csv", MESSAGES)
    data = load_lobster("AAPL", data_dir=tmp_path)
    assert data.report.count("count differs") == 118497 - 3
    assert len(data.report.files) == 2
    with pytest.raises(DataError, match="saw 'MSFT', expected one of AAPL, AMZN"):
        load_lobster("MSFT", data_dir=tmp_path)
