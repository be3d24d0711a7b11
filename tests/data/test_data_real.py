"""The real files: hashes, published counts, and the known flaws of the weather file."""

import os
from pathlib import Path

import numpy as np
import pytest

from ucsearch.errors import DataError
from ucsearch.lab.data import (
    ETT_COLUMNS,
    FILES,
    load_ett,
    load_gefcom_price,
    load_lobster,
    load_ltsf,
    load_m4,
    load_m4_daily_tails,
    load_m5,
    resolve,
)
from ucsearch.lab.data.resolve import resolve_optional

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def data() -> Path:
    folder = os.environ.get("UCSEARCH_DATA")
    if not folder:
        pytest.skip("UCSEARCH_DATA is not set")
    return Path(folder)


def need(name: str, data: Path) -> None:
    if resolve_optional(name, data_dir=data) is None:
        pytest.skip(f"{name} is not in UCSEARCH_DATA")


def test_every_file_present_passes_its_check(data: Path) -> None:
    found = [resolve_optional(file.name, data_dir=data) for file in FILES]
    assert any(found)
    assert all(one.status in ("verified", "recorded", "unverified") for one in found if one is not None)


@pytest.mark.parametrize(
    ("frequency", "stored", "horizon", "season", "train_rows"),
    [
        ("yearly", 23000, 6, 1, 720458),
        ("quarterly", 6541, 8, 4, 574666),
        ("monthly", 576, 18, 12, 123480),
        ("weekly", 359, 13, 1, 366912),
        ("daily", 717, 14, 1, 298565),
        ("hourly", 414, 48, 24, 353500),
    ],
)
def test_m4(data: Path, frequency: str, stored: int, horizon: int, season: int, train_rows: int) -> None:
    need(f"m4/{frequency}/train", data)
    loaded = load_m4(frequency, data_dir=data)
    if loaded.report.files[0].layout == "m4-parquet":
        assert len(loaded) == stored
        assert sum(one.n_train for one in loaded) == train_rows
        assert loaded.report.subset == (frequency in ("quarterly", "monthly", "daily"))
    for one in loaded:
        assert one.y.size == one.n_train + horizon
        assert (one.horizon, one.seasonal_period) == (horizon, season)
        assert one.category in ("Macro", "Micro", "Demographic", "Industry", "Finance", "Other")
        assert one.y.min() > 0.0


def test_m4_hourly_first_values(data: Path) -> None:
    need("m4/hourly/train", data)
    first = load_m4("hourly", data_dir=data, ids=["H1"]).series[0]
    assert first.train[:3].tolist() == [605.0, 586.0, 586.0]
    assert first.test[:3].tolist() == [619.0, 565.0, 532.0]


def test_m4_daily_tails(data: Path) -> None:
    need("m4/daily-tail/train", data)
    loaded = load_m4_daily_tails(data_dir=data)
    assert len(loaded) == 1578
    assert loaded.report.subset
    assert min(one.n_train for one in loaded) == 74


@pytest.mark.parametrize("name", ["ETTh1", "ETTh2", "ETTm1", "ETTm2"])
def test_ett(data: Path, name: str) -> None:
    need(f"ett/{name}", data)
    table = load_ett(name, data_dir=data)
    assert table.columns == ETT_COLUMNS
    assert table.values.shape == ((17420 if "h" in name else 69680), 7)
    assert str(table.time[0]) == "2016-07-01T00:00:00"
    assert table.report.files[0].status == "verified"


def test_ett_first_row(data: Path) -> None:
    need("ett/ETTh1", data)
    assert load_ett("ETTh1", data_dir=data).column("OT")[0] == 30.5310001373291


def test_weather_flaws_are_handled_and_reported(data: Path) -> None:
    need("ltsf/weather", data)
    table = load_ltsf("weather", data_dir=data)
    assert table.values.shape == (52695, 21)
    assert table.report.count("repeated time stamp") == 1
    assert table.report.count("missing") == 1 + 30 + 50
    assert table.report.count("gap") == 1
    assert (table.values != -9999.0).all()
    assert (np.diff(table.time).astype(int) > 0).all()
    marked = load_ltsf("weather", data_dir=data, missing="nan")
    gaps = np.isnan(marked.values)
    assert gaps.sum() == 81
    assert np.array_equal(marked.values[~gaps], table.values[~gaps])
    # Filled from the past: each filled cell equals the one before it.
    rows, columns = np.nonzero(gaps)
    assert np.array_equal(table.values[rows, columns], table.values[rows - 1, columns])


@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [
        ("exchange_rate", 7588, 8),
        ("electricity", 26304, 321),
        ("traffic", 17544, 862),
        ("traffic_bay100_log", 2000, 100),
    ],
)
def test_other_ltsf_sets(data: Path, name: str, rows: int, columns: int) -> None:
    need(f"ltsf/{name}", data)
    table = load_ltsf(name, data_dir=data)
    assert table.values.shape[0] == rows
    assert table.values.shape[1] == columns or table.report.subset
    assert table.report.subset == (not resolve(f"ltsf/{name}", data_dir=data).whole)
    assert table.report.count("gap") == 0


def test_electricity_subsets_agree(data: Path) -> None:
    need("ltsf/electricity_202x1000", data)
    need("ltsf/electricity", data)
    wide, long = load_ltsf("electricity_202x1000", data_dir=data), load_ltsf("electricity", data_dir=data)
    assert wide.values.shape == (1000, 202)
    assert np.array_equal(wide.values[:, :6], long.values[:1000, :6])


@pytest.mark.parametrize(("ticker", "rows"), [("AAPL", 118497), ("AMZN", 57515)])
def test_lobster(data: Path, ticker: str, rows: int) -> None:
    need(f"lobster/{ticker}/orderbook", data)
    book = load_lobster(ticker, data_dir=data)
    assert book.ask_price.shape == (rows, 1)
    assert book.report.rows() == []
    assert (book.ask_price > book.bid_price).all()


def test_m5(data: Path) -> None:
    need("m5/sales", data)
    one = load_m5(stores=["CA_3"], data_dir=data)
    assert len(one) == 3049
    assert {s.category for s in one} == {"CA_3"}
    assert {s.y.size for s in one} == {447}
    assert one.report.count("missing") == 208_008
    trimmed = load_m5(stores=["CA_3"], leading="trim", data_dir=data)
    late = next(s for s in trimmed if s.y.size < 447)
    assert late.y[0] > 0
    assert np.array_equal(one.get(late.id).y[-late.y.size :], late.y)
    with pytest.raises(DataError, match="M5 store: saw 'XX_1'"):
        load_m5(stores=["XX_1"], data_dir=data)


def test_gefcom_prices(data: Path) -> None:
    need("gefcom/price", data)
    table = load_gefcom_price(data_dir=data)
    assert table.values.shape == (25968, 3)
    assert (np.diff(table.time) == np.timedelta64(1, "h")).all()
    assert table.report.count("relabelled") == 1
    assert table.column("zonal_price")[0] == 43.17
