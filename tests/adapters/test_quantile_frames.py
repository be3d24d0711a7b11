"""Chronos and AutoGluon frames, sktime frames: quantile columns named by their level."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.adapters.recorded import AUTOGLUON, BACKENDS, CHRONOS, but, frame
from ucsearch import InputError, Trace
from ucsearch.adapters import from_autogluon, from_chronos, from_sktime


def members(rows: list[list[float]], levels: list[float], points: int) -> Any:
    return Trace.from_quantiles(levels, np.array(rows), points=points).members[0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_chronos_frame(backend: str) -> None:
    made = from_chronos(frame(CHRONOS, backend), coupling="comonotone", points=5, model="chronos-tiny")
    assert made.ids == ("b", "a")  # as they appear
    assert made.ds == ("2020-01-25T00:00:00",) * 2
    want = members([[-83.049, 25.633, 79.974], [-36.911, 41.012, 49.214]], [0.1, 0.5, 0.9], 5)
    assert np.array_equal(made["a"].members[0], want)
    assert made.panel.model == "chronos-tiny"
    assert not any("taken as the median" in note for note in made.panel.notes)


def test_chronos_levels_in_any_column_order_and_without_median() -> None:
    turned = {name: CHRONOS[name] for name in ("0.9", "0.1", "predictions", "timestamp", "item_id")}
    made = from_chronos(frame(turned), coupling="comonotone", points=5)
    want = members([[-83.049, 5.127, 79.974], [-36.911, 16.405, 49.214]], [0.1, 0.5, 0.9], 5)
    assert np.array_equal(made["a"].members[0], want)
    assert "point forecast predictions taken as the median" in made.panel.notes


def test_chronos_targets() -> None:
    two = frame(CHRONOS, item_id=["a"] * 4, target_name=["sales", "sales", "returns", "returns"])
    with pytest.raises(InputError, match=r"2 targets \['sales', 'returns'\].*target='...'"):
        from_chronos(two, coupling="comonotone")
    made = from_chronos(two, coupling="comonotone", target="returns", points=5)
    want = members([[-83.049, 25.633, 79.974], [-36.911, 41.012, 49.214]], [0.1, 0.5, 0.9], 5)
    assert np.array_equal(made["a"].members[0], want)
    with pytest.raises(InputError, match=r"chronos.target: saw 'price', expected one of the targets"):
        from_chronos(two, coupling="comonotone", target="price")
    bad = frame(
        CHRONOS, item_id=["a"] * 4, target_name=["sales", "sales", "returns", "returns"],
        **{"0.5": but(CHRONOS["0.5"], _3=float("nan"))},
    )  # fmt: skip
    with pytest.raises(InputError, match=re.escape("chronos.0.5[row 3, series 'a']: saw nan")):
        from_chronos(bad, coupling="comonotone", target="returns")


def test_chronos_faults() -> None:
    with pytest.raises(InputError, match=r"chronos.coupling: saw none"):
        from_chronos(frame(CHRONOS))
    with pytest.raises(InputError, match="no column 'item_id'"):
        from_chronos(frame(CHRONOS, item_id=None), coupling="comonotone")
    with pytest.raises(InputError, match="an option for arrays beside a frame"):
        from_chronos(frame(CHRONOS), coupling="comonotone", levels=[0.1, 0.9])
    crossed = frame(CHRONOS, **{"0.5": but(CHRONOS["0.5"], _2=90.0)})
    with pytest.raises(InputError, match=re.escape("chronos.0.9[row 2, series 'a']: saw 79.974 at level 0.9")):
        from_chronos(crossed, coupling="comonotone")
    with pytest.raises(InputError, match=r"only level 0.5"):
        from_chronos(frame({k: CHRONOS[k] for k in ("item_id", "timestamp", "0.5")}), coupling="comonotone")


def test_autogluon_index() -> None:
    flat = frame(AUTOGLUON)
    indexed = flat.set_index(["item_id", "timestamp"])
    made = from_autogluon(indexed, coupling="comonotone", points=5)
    want = members([[9.822, 11.689, 13.556], [7.845, 9.713, 11.58]], [0.1, 0.5, 0.9], 5)
    assert made.ids == ("a", "b")
    assert np.array_equal(made["b"].members[0], want)
    for backend in BACKENDS:
        assert from_autogluon(frame(AUTOGLUON, backend), coupling="comonotone", points=5).panel.hash == made.panel.hash


def sktime_quantiles() -> Any:
    """NaiveForecaster(sp=12).predict_quantiles(alpha=[0.1, 0.5, 0.9]) on the airline data"""
    columns = pd.MultiIndex.from_tuples([("Passengers", a) for a in (0.1, 0.5, 0.9)])
    values = [[370.4595, 417.0, 463.5405], [344.4595, 391.0, 437.5405], [372.4595, 419.0, 465.5405]]
    return pd.DataFrame(values, columns=columns, index=pd.period_range("1961-01", periods=3, freq="M"))


def test_sktime_quantiles() -> None:
    made = from_sktime(sktime_quantiles(), coupling="comonotone", points=5, model="naive")
    assert made.ids == ("Passengers",)
    assert made.ds == ("1961-01",)
    assert np.array_equal(made.panel.members[0], members(sktime_quantiles().to_numpy(), [0.1, 0.5, 0.9], 5))
    assert from_sktime(sktime_quantiles(), coupling="comonotone", id="air").ids == ("air",)


def test_sktime_intervals_are_the_same_quantiles() -> None:
    quantiles = sktime_quantiles().iloc[:, [0, 2]]
    columns = pd.MultiIndex.from_tuples([("Passengers", 0.8, "lower"), ("Passengers", 0.8, "upper")])
    intervals = pd.DataFrame(quantiles.to_numpy(), columns=columns, index=quantiles.index)
    made = [from_sktime(f, coupling="comonotone").panel.members for f in (quantiles, intervals)]
    assert np.array_equal(made[0], made[1])


def test_sktime_panel_and_variables() -> None:
    index = pd.MultiIndex.from_product([["x", "y"], ["u"], pd.date_range("2000-01-25", periods=2)])
    columns = pd.MultiIndex.from_tuples([("c0", 0.1), ("c0", 0.9), ("c1", 0.1), ("c1", 0.9)])
    values = np.arange(16.0).reshape(4, 4)
    nested = pd.DataFrame(values, columns=columns, index=index)
    made = from_sktime(nested, variable="c1", coupling="comonotone", points=5)
    assert made.ids == ("x/u", "y/u")
    assert made.ds == ("2000-01-25T00:00:00",) * 2
    assert np.array_equal(made["y/u"].members[0], members(values[2:, 2:], [0.1, 0.9], 5))
    with pytest.raises(InputError, match=r"variables \['c0', 'c1'\]"):
        from_sktime(nested, coupling="comonotone")
    nested.iloc[3, 3] = np.inf
    with pytest.raises(InputError, match=re.escape("sktime.('c1', 0.9)[row 3, series 'y/u']: saw inf")):
        from_sktime(nested, variable="c1", coupling="comonotone")


def test_sktime_faults() -> None:
    with pytest.raises(InputError, match=r"sktime.coupling: saw none"):
        from_sktime(sktime_quantiles())
    with pytest.raises(InputError, match=r"\(variable, alpha\)"):
        from_sktime(frame(CHRONOS), coupling="comonotone")
    with pytest.raises(InputError, match=re.escape("sktime.time[row 2, series 'Passengers']: saw 1961-02, expected")):
        from_sktime(sktime_quantiles().iloc[[0, 2, 1]], coupling="comonotone")
    with pytest.raises(InputError, match=r"only level 0.1"):
        from_sktime(sktime_quantiles().iloc[:, [0]], coupling="comonotone")
