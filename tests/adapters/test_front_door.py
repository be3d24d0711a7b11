"""One function for all of them, what it refuses, and what importing it costs."""

import ast
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ucsearch as uc
from tests.adapters.recorded import (
    AUTOGLUON,
    BACKENDS,
    CHRONOS,
    FORECAST,
    SIMULATE,
    QuantileForecast,
    SampleForecast,
    Tensor,
    TimeSeries,
    but,
    frame,
)
from ucsearch import InputError
from ucsearch.adapters import from_nixtla, to_traces
from ucsearch.adapters.front import recognise
from ucsearch.adapters.table import group

START = datetime(2024, 1, 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_frames_are_recognised(backend: str) -> None:
    assert recognise(frame(FORECAST, backend)) == "nixtla"
    assert recognise(frame(SIMULATE, backend)) == "nixtla"
    assert recognise(frame(CHRONOS, backend)) == "chronos"
    assert recognise(frame(AUTOGLUON, backend)) == "autogluon"
    renamed = frame({{"unique_id": "sku", "ds": "day"}.get(k, k): v for k, v in FORECAST.items()}, backend)
    assert recognise(renamed, {"id_col": "sku", "time_col": "day"}) == "nixtla"
    with pytest.raises(InputError, match=r"forecast.columns: saw \['sku', 'day'.*source='...'"):
        to_traces(renamed, coupling="comonotone")


def test_pandas_shapes_are_recognised() -> None:
    assert recognise(frame(AUTOGLUON).set_index(["item_id", "timestamp"])) == "autogluon"
    assert recognise(frame(FORECAST).set_index("unique_id")) == "nixtla"
    columns = pd.MultiIndex.from_tuples([("y", 0.1), ("y", 0.9)])
    assert recognise(pd.DataFrame([[1.0, 2.0]], columns=columns)) == "sktime"


def test_objects_are_recognised() -> None:
    sample = SampleForecast([[1.0, 2.0]], START, "a")
    quantile = QuantileForecast([[1.0], [2.0]], START, ["0.1", "0.9"], "a")
    series = TimeSeries([[[1.0, 2.0]]], ["y"], START)
    for thing, name in (
        (sample, "gluonts"), ([sample], "gluonts"), (quantile, "gluonts"), (series, "darts"), ([series], "darts"),
        (Tensor(np.ones((1, 2, 3))), "chronos"), ([Tensor(np.ones((1, 2, 3)))], "chronos"),
        (([Tensor(np.ones((1, 3, 2)))], [Tensor(np.ones((1, 3)))]), "chronos"),
        (np.ones((1, 2, 3)), "wide"), ([[1.0, 2.0]], "wide"), ({"a": np.ones((2, 3))}, "wide"),
    ):  # fmt: skip
        assert recognise(thing) == name


def test_front_door_passes_everything_on() -> None:
    options = {"model": "AutoETS", "coupling": "comonotone", "points": 4}
    assert to_traces(frame(FORECAST), **options).panel.hash == from_nixtla(frame(FORECAST), **options).panel.hash
    samples = (SampleForecast([[1.0, 2.0]], START, name) for name in "ab")
    assert to_traces(samples).ids == ("a", "b")
    assert to_traces(np.ones((2, 3, 4)), source="chronos").panel.windows == 2


@pytest.mark.parametrize("thing", [3.5, "forecast.csv", None, object()])
def test_strangers_are_refused(thing: object) -> None:
    with pytest.raises(InputError, match="expected a frame, a GluonTS forecast"):
        to_traces(thing)
    with pytest.raises(InputError, match="source: saw 'prophet', expected one of"):
        to_traces(thing, source="prophet")


def test_traces_go_into_the_search() -> None:
    """What comes out is an ordinary trace: the members add up to the forecast and a decision can be made on it."""
    made = to_traces(frame(SIMULATE), model="AutoETS")
    paths = np.array(SIMULATE["AutoETS"]).reshape(2, 3, 2)
    assert made.panel.mean[:, :, 0] == pytest.approx(paths.mean(axis=1))
    assert isinstance(made["a"], uc.Trace)
    assert repr(made).startswith("TraceSet(2 windows of 2 series: Trace(")
    assert len(made) == 2
    assert "c" not in made
    assert [trace.hash for trace in made] == [made["a"].hash, made["b"].hash]


def test_snippets_of_the_page() -> None:
    """Those that need no forecasting library; the others run with the libraries themselves."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "adapters.md").read_text()
    blocks = [part.split("```")[0] for part in page.split("```python\n")[1:]]
    plain = [b for b in blocks if not re.search(r"(?m)^from (?!ucsearch)|pipeline", b)]
    assert len(blocks) == 9
    assert len(plain) == 3
    for block in plain:
        exec(compile(block, "docs/how-to/adapters.md", "exec"), {})


def test_messages_of_the_page() -> None:
    """The table of refusals shows what is really said."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "adapters.md").read_text()
    ascending, short = FORECAST["ds"], {name: values[:5] for name, values in FORECAST.items()}
    low = but(FORECAST["AutoETS-lo-80"], _1=8.0)
    said = 0
    for bad, model in (
        (frame(FORECAST), "ETS"),
        (frame(FORECAST, ds=but(ascending, _2=ascending[1])), "AutoETS"),
        (frame(FORECAST, ds=but(ascending, _3=ascending[1], _4=ascending[0])), "AutoETS"),
        (frame(FORECAST, **{"AutoETS-hi-80": but(FORECAST["AutoETS-hi-80"], _4=None)}), "AutoETS"),
        (frame(FORECAST, **{"AutoETS-lo-80": low}), "AutoETS"),
        (frame(short), "AutoETS"),
        (frame({name: FORECAST[name] for name in ("unique_id", "ds", "AutoETS")}), "AutoETS"),
    ):
        with pytest.raises(InputError) as caught:
            from_nixtla(bad, model=model, coupling="comonotone")
        said += any(str(caught.value).startswith(text) for text in re.findall(r"(?m)\| `(nixtla[^`]*)` \|$", page))
    assert said == 7


def test_grouping_against_a_plain_loop() -> None:
    rng = np.random.default_rng(3)
    for size in (1, 2, 50):
        a = np.array(list("xyz"), dtype=object)[rng.integers(0, 3, size)]
        b = rng.integers(0, 2, size)
        seen: dict[tuple[str, int], int] = {}
        want = [seen.setdefault((x, int(y)), len(seen)) for x, y in zip(a, b, strict=True)]
        assert group(a, b).tolist() == want


def test_nothing_heavy_is_imported() -> None:
    code = "import sys, ucsearch.adapters; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    heavy = {"pandas", "polars", "pyarrow", "torch", "scipy", "narwhals", "numba"}
    assert not loaded & heavy


def test_no_adapter_imports_what_it_adapts() -> None:
    """Not even inside a function: only the attributes of what is handed over are used."""
    import ucsearch.adapters as adapters

    allowed = set(sys.stdlib_module_names) | {"numpy", "narwhals", "ucsearch"}
    files = sorted(Path(adapters.__file__).parent.glob("*.py"))
    assert len(files) > 8
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {name.split(".")[0] for name in names} <= allowed, file
