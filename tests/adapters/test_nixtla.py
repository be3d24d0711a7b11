"""Frames of statsforecast and its relatives: intervals, paths, cutoffs, and every fault named by row and column."""

import re
from datetime import date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from tests.adapters.recorded import BACKENDS, CROSS_VALIDATION, FORECAST, SIMULATE, but, frame, months
from ucsearch import InputError, Trace
from ucsearch.adapters import from_nixtla

nan, inf = float("nan"), float("inf")


def refused(message: str, columns: dict[str, list[Any]], backend: str = "pandas", **kwargs: Any) -> str:
    options = {"model": "AutoETS", "coupling": "comonotone", **kwargs.pop("options", {})}
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        from_nixtla(frame(columns, backend, **kwargs), **options)
    return str(caught.value)


@pytest.mark.parametrize("backend", BACKENDS)
def test_levels_become_quantiles(backend: str) -> None:
    made = from_nixtla(frame(FORECAST, backend), model="AutoETS", coupling="comonotone", points=5, issued="2023-12-31")
    columns = ["AutoETS-lo-90", "AutoETS-lo-80", "AutoETS", "AutoETS-hi-80", "AutoETS-hi-90"]
    table = np.array([FORECAST[c] for c in columns]).T.reshape(2, 3, 5)
    plain = Trace.from_quantiles([0.05, 0.1, 0.5, 0.9, 0.95], table, points=5)
    assert made.ids == ("a", "b")
    assert made.ds == ("2024-01-01T00:00:00",) * 2
    assert made.cutoff == ()
    assert made.panel.coupling == "comonotone"
    assert made.panel.model == "AutoETS"
    assert made.panel.issued == ("2023-12-31",) * 2
    assert np.array_equal(made.panel.members, plain.members)
    assert any("AutoETS-lo-90: 0.05" in note and "AutoETS-hi-80: 0.9" in note for note in made.panel.notes)
    assert any("AutoETS taken as the median" in note for note in made.panel.notes)
    assert np.array_equal(made["b"].members, plain.members[1:])
    assert not made["b"].panel


def test_library_does_not_show_in_the_hash() -> None:
    for columns in (FORECAST, CROSS_VALIDATION):
        hashes = {from_nixtla(frame(columns, b), model="AutoETS", coupling="comonotone").panel.hash for b in BACKENDS}
        assert len(hashes) == 1


def test_same_times_in_other_types() -> None:
    texts = [t.date().isoformat() for t in FORECAST["ds"]]
    zone = timezone(timedelta(hours=2))
    for ds, start in (
        (texts, "2024-01-01T00:00:00"),
        ([t.date() for t in FORECAST["ds"]], "2024-01-01T00:00:00"),
        ([f"{t}T06:00" for t in texts], "2024-01-01T06:00:00"),
        ([f"{t}T00:00:00+02:00" for t in texts], "2024-01-01T00:00:00+02:00"),
        ([49, 50, 51, 49, 50, 51], "49"),
    ):
        for backend in BACKENDS:
            made = from_nixtla(frame(FORECAST, backend, ds=ds), model="AutoETS", coupling="comonotone")
            assert made.ds[0] == start, backend
    pandas = frame(FORECAST, "pandas")
    pandas["ds"] = pandas["ds"].dt.tz_localize(zone)
    assert from_nixtla(pandas, model="AutoETS", coupling="comonotone").ds[0] == "2024-01-01T00:00:00+02:00"
    pandas["ds"] = frame(FORECAST, "pandas")["ds"].dt.to_period("M")
    assert from_nixtla(pandas, model="AutoETS", coupling="comonotone").ds[0] == "2024-01"


@pytest.mark.parametrize("backend", BACKENDS)
def test_simulated_paths(backend: str) -> None:
    made = from_nixtla(frame(SIMULATE, backend), model="SeasonalNaive", cutoff="2023-12-01")
    paths = np.array(SIMULATE["SeasonalNaive"]).reshape(2, 3, 2)
    assert made.panel.coupling == "joint"
    assert np.array_equal(made.panel.members, Trace.from_members(paths).members)
    assert made.cutoff == made.panel.cutoff == ("2023-12-01",) * 2


def test_paths_in_another_row_order() -> None:
    """Sorted by time first, as a database might return them: windows and paths are still put together."""
    order = sorted(range(12), key=lambda i: (SIMULATE["ds"][i], SIMULATE["sample_id"][i], SIMULATE["unique_id"][i]))
    shuffled = {name: [values[i] for i in order] for name, values in SIMULATE.items()}
    assert (
        from_nixtla(frame(shuffled), model="AutoETS").panel.hash
        == from_nixtla(frame(SIMULATE), model="AutoETS").panel.hash
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_window_per_cutoff(backend: str) -> None:
    made = from_nixtla(frame(CROSS_VALIDATION, backend), coupling="comonotone", points=3)
    assert made.ids == ("a", "a", "b", "b")
    assert made.cutoff == made.panel.cutoff == ("2023-08-01T00:00:00", "2023-10-01T00:00:00") * 2
    assert made.ds == ("2023-09-01T00:00:00", "2023-11-01T00:00:00") * 2
    assert made.panel.model == "AutoETS"  # y is not a model
    middle = made["a", "2023-10-01"]
    assert middle.members[0, 1, :, 0].tolist() == [19.743, 21.298]
    assert made["a", datetime(2023, 10, 1)].hash == made["a", date(2023, 10, 1)].hash == middle.hash
    assert made["a", "2023-11-01T00:00:00"].hash == middle.hash  # its first forecast time
    with pytest.raises(InputError, match=r"id 'a' with 2 windows.*'2023-08-01T00:00:00', '2023-10-01T00:00:00'"):
        made["a"]
    with pytest.raises(InputError, match=r"'a' at '2023-09-15'"):
        made["a", "2023-09-15"]


def test_point_forecast_may_be_left_out() -> None:
    kept = from_nixtla(frame(FORECAST), model="AutoETS", coupling="comonotone", points=3)
    left = from_nixtla(frame(FORECAST), model="AutoETS", coupling="comonotone", points=3, point="ignore")
    assert kept.panel.members[0, 1, 0, 0] == 10.316
    assert left.panel.members[0, 1, 0, 0] == pytest.approx((9.135 + 11.498) / 2)
    assert not any("median" in note for note in left.panel.notes)


def test_other_ways_of_writing_levels() -> None:
    """NeuralForecast writes -lo-90.0 and -median, TimeGPT writes -q-10; the median is not replaced by the point."""
    keys = {"unique_id": FORECAST["unique_id"], "ds": FORECAST["ds"]}
    low, point, high = FORECAST["AutoETS-lo-80"], FORECAST["AutoETS"], FORECAST["AutoETS-hi-80"]
    median = [x + 0.1 for x in point]
    neural = {**keys, "N": point, "N-median": median, "N-lo-80.0": low, "N-hi-80.0": high}
    gpt = {**keys, "N": point, "N-q-10": low, "N-q-50": median, "N-q-90": high}
    traces = [from_nixtla(frame(f), coupling="comonotone", points=3).panel for f in (neural, gpt)]
    assert np.array_equal(traces[0].members, traces[1].members)
    assert traces[0].members[0, 1, 0, 0] == median[0]


def test_pandas_index_and_other_column_names() -> None:
    indexed = frame(FORECAST).set_index("unique_id")
    renamed = frame(FORECAST).rename(columns={"unique_id": "sku", "ds": "week"})
    want = from_nixtla(frame(FORECAST), model="AutoETS", coupling="comonotone").panel.hash
    assert from_nixtla(indexed, model="AutoETS", coupling="comonotone").panel.hash == want
    made = from_nixtla(renamed, model="AutoETS", coupling="comonotone", id_col="sku", time_col="week")
    assert made.panel.hash == want


def test_whole_number_ids_and_lookup() -> None:
    made = from_nixtla(frame(FORECAST, unique_id=[7, 7, 7, 12, 12, 12]), model="AutoETS", coupling="comonotone")
    assert made.ids == ("7", "12")
    assert 12 in made
    assert made[12].hash == made["12"].hash
    with pytest.raises(InputError, match="id 'zz', expected one of '7', '12'"):
        made["zz"]


# ---------------------------------------------------------------- faults


def test_coupling_is_asked_for() -> None:
    with pytest.raises(InputError, match=r"nixtla.coupling: saw none.*coupling='comonotone'.*coupling='independent'"):
        from_nixtla(frame(FORECAST), model="AutoETS")
    with pytest.raises(InputError, match=r"nixtla.coupling: saw 'joint'"):
        from_nixtla(frame(FORECAST), model="AutoETS", coupling="joint")
    with pytest.raises(InputError, match=r"nixtla.coupling: saw 'comonotone', expected 'joint' or 'independent'"):
        from_nixtla(frame(SIMULATE), model="AutoETS", coupling="comonotone")
    with pytest.raises(InputError, match=r"nixtla.rng: saw None"):
        from_nixtla(frame(FORECAST), model="AutoETS", coupling="independent")


def test_independent_draws_are_declared_and_repeat() -> None:
    def draw(seed: int, **kwargs: Any) -> Trace:
        rng = np.random.default_rng(seed)
        return from_nixtla(frame(FORECAST), model="AutoETS", coupling="independent", rng=rng, **kwargs).panel

    assert draw(1).coupling == "independent"
    assert draw(1).size == 64
    assert draw(1).hash == draw(1).hash != draw(2).hash
    assert draw(1, method="sobol", points=16).size == 16
    declared = from_nixtla(frame(SIMULATE), model="AutoETS", coupling="independent")
    assert declared.panel.coupling == "independent"


def test_models_are_listed() -> None:
    with pytest.raises(InputError, match=r"2 models \['SeasonalNaive', 'AutoETS'\]"):
        from_nixtla(frame(FORECAST), coupling="comonotone")
    refused(
        "nixtla.model: saw 'ETS', expected one of the models ['SeasonalNaive', 'AutoETS']", FORECAST,
        options={"model": "ETS"},
    )  # fmt: skip


def test_missing_columns() -> None:
    refused("no column 'ds', expected it among ['unique_id', 'SeasonalNaive'", FORECAST, ds=None)
    refused("no column 'unique_id'", FORECAST, unique_id=None)
    refused("AutoETS-lo-90 alone, expected its hi side too", FORECAST, **{"AutoETS-hi-90": None})
    only_point = {name: FORECAST[name] for name in ("unique_id", "ds", "AutoETS")}
    assert "level=[80, 95]" in refused("no quantiles, intervals or samples", only_point)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("bad", "text"), [(nan, "nan"), (inf, "inf"), (None, "nan")])
def test_values_that_are_not_finite(backend: str, bad: float | None, text: str) -> None:
    changed = {"AutoETS-hi-80": but(FORECAST["AutoETS-hi-80"], _4=bad)}
    refused(
        f"nixtla.AutoETS-hi-80[row 4, series 'b']: saw {text}, expected a finite number", FORECAST, backend, **changed
    )
    paths = {"AutoETS": but(SIMULATE["AutoETS"], _9=bad)}
    refused(
        f"nixtla.AutoETS[row 9, series 'b']: saw {text}, expected a finite number", SIMULATE, backend,
        options={"coupling": "joint"}, **paths,
    )  # fmt: skip


def test_text_among_numbers() -> None:
    bad = but(FORECAST["AutoETS-lo-80"], _1="ten")
    refused("nixtla.AutoETS-lo-80[row 1, series 'a']: saw 'ten', expected a number", FORECAST, **{"AutoETS-lo-80": bad})


@pytest.mark.parametrize("backend", BACKENDS)
def test_duplicates_and_order(backend: str) -> None:
    again = months(1, 2, 2, 1, 2, 3)
    refused(
        "nixtla.ds[row 2, series 'a']: saw 2024-02-01T00:00:00 again, expected one row per series and time; row 1",
        FORECAST, backend, ds=again,
    )  # fmt: skip
    refused("[row 5, series 'b']: saw 2024-01-01T00:00:00 again", FORECAST, backend, ds=months(1, 2, 3, 1, 2, 1))
    text = refused(
        "nixtla.ds[row 4, series 'b']: saw 2024-01-01T00:00:00, expected a time after 2024-02-01T00:00:00 of row 3",
        FORECAST, backend, ds=months(1, 2, 3, 2, 1, 3),
    )  # fmt: skip
    assert "Sort the frame by unique_id and ds." in text


def test_ids_and_times_must_be_there() -> None:
    refused("nixtla.unique_id[row 3]: saw nothing", FORECAST, unique_id=but(FORECAST["unique_id"], _3=None))
    refused("nixtla.unique_id[row 3]: saw ''", FORECAST, unique_id=but(FORECAST["unique_id"], _3=""))
    for backend in BACKENDS:
        refused("nixtla.ds[row 2]: saw nothing", FORECAST, backend, ds=but(FORECAST["ds"], _2=None))
        refused("nixtla.ds[row 0]: saw '1/2/2024', expected a date in ISO form", FORECAST, backend, ds=["1/2/2024"] * 6)
        refused("expected dates, ISO text or whole numbers", FORECAST, backend, ds=[1.5, 2.5, 3.5] * 2)
    mixed = ["2024-01-01T00:00+00:00", "2024-01-02", "2024-01-03"] * 2
    refused("nixtla.ds[row 1]: saw datetime 2024-01-02 00:00:00", FORECAST, ds=mixed)


def test_different_horizons() -> None:
    short = {name: values[:5] for name, values in FORECAST.items()}
    text = refused("nixtla.steps[row 4, series 'b' (the last)]: saw 2 steps, expected 3 steps", short)
    assert "as series 'a' has" in text
    made = from_nixtla(frame(short), model="AutoETS", coupling="comonotone", ragged=True, cutoff={"a": 1, "b": 2})
    assert [trace.horizon for trace in made] == [3, 2]
    assert made["b"].cutoff == ("2",)
    with pytest.raises(InputError, match="windows of different shape"):
        _ = made.panel


def test_paths_must_match() -> None:
    joint = {"options": {"coupling": "joint"}}
    short = {name: values[:3] + values[4:] for name, values in SIMULATE.items()}
    refused("nixtla.ds[row 2, series 'a']: saw a path of 1 steps, expected 2 steps", short, **joint)
    other = but(SIMULATE["ds"], _3=datetime(2024, 3, 1))
    refused("nixtla.ds[row 3, series 'a']: saw 2024-03-01T00:00:00, expected 2024-02-01", SIMULATE, ds=other, **joint)
    refused(
        "nixtla.ds[row 2, series 'a']: saw 2024-01-01T00:00:00 again", SIMULATE, sample_id=[0, 0, 0, 0] * 3, **joint
    )
    fewer = {name: values[:10] for name, values in SIMULATE.items()}
    refused("nixtla.members[row 9, series 'b' (the last)]: saw 2 members, expected 3 members", fewer, **joint)
    made = from_nixtla(frame(fewer), model="AutoETS", ragged=True)
    assert [trace.size for trace in made] == [3, 2]
    refused("nixtla.sample_id[row 1]: saw nothing", SIMULATE, sample_id=but(SIMULATE["sample_id"], _1=None), **joint)


def test_cutoffs_must_come_before() -> None:
    late = but(CROSS_VALIDATION["cutoff"], _5=datetime(2023, 10, 1), _4=datetime(2023, 8, 1))
    refused(
        "nixtla.ds[row 5, series 'b']: saw 2023-10-01T00:00:00, expected a time after the cutoff 2023-10-01T00:00:00",
        CROSS_VALIDATION, cutoff=late,
    )  # fmt: skip
    refused("expected a number, as the cutoff is", CROSS_VALIDATION, cutoff=[1] * 8)
    refused("a cutoff in the forecast and one as option", CROSS_VALIDATION, options={"cutoff": "2023-01-01"})


def test_crossed_quantiles_are_refused_or_sorted_and_noted() -> None:
    low = but(FORECAST["AutoETS-lo-80"], _1=8.0, _5=20.0)
    crossed = frame(FORECAST, **{"AutoETS-lo-80": low})
    text = refused(
        "nixtla.AutoETS-lo-80[row 1, series 'a']: saw 8.0 at level 0.1, expected at least 10.119, "
        "the value of AutoETS-lo-90 at level 0.05",
        FORECAST, **{"AutoETS-lo-80": low},
    )  # fmt: skip
    assert "crossing='sort'" in text
    made = from_nixtla(crossed, model="AutoETS", coupling="comonotone", crossing="sort")
    assert [(r.id, r.steps) for r in made.report] == [("a", (1,)), ("b", (2,))]
    assert "series 'a' from 2024-01-01T00:00:00: crossed quantiles sorted at steps 1" in str(made.report[0])
    assert any("2 steps had crossed quantiles, sorted" in note for note in made.panel.notes)
    assert "crossed quantiles sorted in 2 windows: 'a', 'b'" in made["a"].notes
    assert (np.diff(made.panel.members, axis=1) >= 0).all()
    clean = from_nixtla(frame(FORECAST), model="AutoETS", coupling="comonotone", crossing="sort")
    assert clean.report == ()


def test_point_outside_its_interval_is_told_apart() -> None:
    skewed = but(FORECAST["AutoETS"], _0=12.0)
    text = refused("nixtla.AutoETS-hi-80[row 0, series 'a']: saw 11.498 at level 0.9", FORECAST, AutoETS=skewed)
    assert "point='ignore'" in text


def test_levels_that_cannot_be() -> None:
    wide = {**FORECAST, "AutoETS-lo-100": FORECAST["AutoETS-lo-90"], "AutoETS-hi-100": FORECAST["AutoETS-hi-90"]}
    refused("nixtla.AutoETS-lo-100: saw coverage 1", wide)
    refused("level 0.05 again, expected one column per level; AutoETS-lo-90 is one",
            {**FORECAST, "AutoETS-lo-90.0": FORECAST["AutoETS-lo-90"]})  # fmt: skip


def test_options_are_checked() -> None:
    refused("unknown option 'couplings'", FORECAST, options={"couplings": "x"})
    refused("nixtla.crossing: saw 'fix'", FORECAST, options={"crossing": "fix"})
    refused("nixtla.cutoff[series 'b']: saw no time", FORECAST, options={"cutoff": {"a": 1}})
    refused("nixtla.issued: saw 3 times, expected 1 or 2", FORECAST, options={"issued": ["1", "2", "3"]})


def test_not_a_frame() -> None:
    for thing in (3, [1.0], frame(FORECAST, "polars").lazy()):
        with pytest.raises(InputError, match="a pandas, polars or Arrow frame"):
            from_nixtla(thing, coupling="comonotone")
    empty = frame(FORECAST, "polars").head(0)
    with pytest.raises(InputError, match="a frame without rows"):
        from_nixtla(empty, model="AutoETS", coupling="comonotone")
