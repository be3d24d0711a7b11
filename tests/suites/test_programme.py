"""The suites of the programme, each in its mini version from end to end: run, both verdicts, verified again."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kit.suites import run_of, shared_run
from ucsearch.errors import DataError, InputError
from ucsearch.lab.suites.gates.conclusions import conclusion, standing
from ucsearch.lab.suites.gates.power import power
from ucsearch.lab.suites.kinds.known_optimum.chain import Chain
from ucsearch.lab.suites.kinds.series_files import load_replaced
from ucsearch.lab.suites.recheck.verify import verify_evidence
from ucsearch.lab.suites.report import write_reports
from ucsearch.lab.suites.run import SuiteRun, evaluate
from ucsearch.lab.suites.suite import load_suite, parse_suite
from ucsearch.replay.classics.backorder import optimise_s_s
from ucsearch.replay.classics.demand import poisson

WALKED = ("retail-lots-mini", "battery-fine-mini", "capacity-mini")
ASKED = ("truck200-mini", "staffing-mini")  # with a primary question
OTHERS = ("known-optimum-mini", *ASKED)


def rows_of(run: SuiteRun) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.folder / "rows.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", [*WALKED, *OTHERS])
def test_a_suite_runs_from_end_to_end(name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    shutil.copytree(shared_run(name, tmp_path_factory).folder.parent, tmp_path, dirs_exist_ok=True)
    run = run_of(tmp_path / name)
    report = verify_evidence(run.folder)
    assert (report.problems, report.malformed) == ((), "")
    predicate = run.statement["predicate"]
    assert conclusion(predicate)
    page = write_reports(run.folder)[0].read_text("utf-8")
    if name in WALKED:
        assert predicate["verdict"]["value"]["class"] in ("passed", "not passed")
        assert {row["name"] for row in predicate["gate"]} >= {"selected_risk", "lower_bound"}
        assert page.index('<section id="value"') < page.index("How practitioners") < page.index('<section id="tested"')
        timing = json.loads((run.folder / "timing.json").read_text())
        assert "cem-time on test" in timing
        practice = [name for name in timing if name.endswith("-tuned on test")]
        assert len(practice) == len(load_suite(name).settings.practitioners)
        assert all(timing[one]["us_per_decision"] > 0.0 for one in practice)
        assert timing["whole run"]["seconds"] >= timing["uc"]["seconds"]
    else:
        words = ("shown", "not shown", "behind") if name in ASKED else ("not asked",)
        assert predicate["verdict"]["value"]["class"] in words


def test_samplers_run_on_the_declared_series_only(tmp_path: Path) -> None:
    text = load_suite("retail-lots-mini").text.replace("per_family = 3", "per_family = 4")
    run = evaluate(parse_suite(text), tmp_path, threads=1, underpowered=True)
    tested = [row for row in rows_of(run) if row["split"] == "test"]
    assert len(tested) == 4
    assert sum("cem-time" in row["policies"] for row in tested) == 3
    assert all({"s-S-tuned", "value", "fallback"} <= set(row["policies"]) for row in tested)
    assert verify_evidence(run.folder, decisions=0).ok
    deltas = run.statement["predicate"]["value"]["deltas"]
    assert {d["opponent"]: d["series"] for d in deltas}["cem-time"] == 3
    assert {d["opponent"]: d["series"] for d in deltas}["s-S-tuned"] == 4


def test_a_suite_cannot_leave_samplers_out_silently() -> None:
    text = load_suite("retail-lots-mini").text
    with pytest.raises(InputError, match="validation = false beside"):
        parse_suite(text.replace("validation = false", "validation = true"))
    with pytest.raises(InputError, match="only: some of"):
        parse_suite(text.replace("nodes = 500000", 'only = ["exact-closed-r0-d9"]'))
    assert parse_suite(text).settings.plan().few == 3


# -------------------------------------------------------------------- the optimum


def test_the_chain_finds_known_optima() -> None:
    demand = poisson(5.0)
    _, zipkin = Chain(demand.pmf, 1, 1.0, 4.0, 0.0, 40, 20).solve()
    assert round(zipkin.value, 2) == 4.04  # Zipkin (2008)
    _, zipkin = Chain(demand.pmf, 2, 1.0, 4.0, 0.0, 30, 14).solve()
    assert round(zipkin.value, 2) == 4.40
    chain = Chain(demand.pmf, 0, 1.0, 9.0, 25.0, 50, 60, low=-40)
    orders, found = chain.solve()
    theory = optimise_s_s(demand, 1.0, 9.0, 25.0, 0)
    assert found.value == pytest.approx(theory.cost, rel=1e-6)
    assert chain.cost(orders).value == pytest.approx(theory.cost, rel=1e-6)
    (small, large), _ = chain.best_reorder((5, 20), 4)
    assert (small, large) == (theory.reorder_point, theory.level)
    assert not chain.at_edge(orders)


# -------------------------------------------------------------------- other files


def test_families_are_read_from_files_of_every_form_of_the_data(tmp_path: Path) -> None:
    wide = tmp_path / "wide.csv"
    days = ",".join(f"2015-01-{d:02d}" for d in range(1, 6))
    wide.write_text(f"id,{days}\nFOODS_1_001_CA_2_x,,1,2,3,4\nHOBBIES_1_002_CA_2_x,5,4,3,2,1\nA_1_TX_9,1,1,1,1,1\n")
    found = load_replaced("m5-CA_2", wide)
    assert [(s.id, s.category, s.seasonal_period) for s in found.series] == [
        ("FOODS_1_001_CA_2_x", "FOODS_1", 7), ("HOBBIES_1_002_CA_2_x", "HOBBIES_1", 7)
    ]  # fmt: skip
    assert found.series[0].y.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    table = tmp_path / "load.csv.gz"
    table.write_bytes(gzip.compress(b"date,HUFL,OT\n2016-07-01,1.5,9\n2016-07-02,2.5,9\n"))
    (load,) = load_replaced("ett-ETTh1-loads", table).series
    assert (load.id, load.y.tolist(), load.seasonal_period) == ("ETTh1/HUFL", [1.5, 2.5], 24)
    price = tmp_path / "price.csv"
    price.write_text("timestamp,zonal_price\n" + "\n".join(f"t{i},{i}" for i in range(2100)) + "\n")
    blocks = load_replaced("gefcom-price", price).series
    assert [len(b.y) for b in blocks] == [1008, 1008]
    long = tmp_path / "long.csv"
    long.write_text("unique_id,y\nb,1\na,2\nb,3\n")
    assert [(s.id, s.y.tolist()) for s in load_replaced("m4-weekly", long).series] == [("a", [2.0]), ("b", [1.0, 3.0])]
    for body, words in (
        ("id,2015-01-01,2015-01-02\nx,1,\n", "missing after the first"),
        ("date,a\n1,x\n", "expected a number"),
        ("foo,bar\n1,2\n", "expected the columns"),
        ("date,a,a\n1,2,3\n", "occurs twice"),
    ):
        wide.write_text(body)
        with pytest.raises(DataError, match=words):
            load_replaced("m5-CA_2", wide)


# -------------------------------------------------------------------- words and power


def _delta(low: float | None, high: float | None) -> dict[str, Any]:
    return {"lower": low, "upper": high}


@pytest.mark.parametrize(
    ("deltas", "where"),
    [
        ([_delta(0.01, 0.02), _delta(0.001, 0.1)], "better"),
        ([_delta(0.01, 0.02), _delta(-0.005, 0.1)], "as good"),
        ([_delta(0.01, 0.02), _delta(-0.2, -0.1)], "worse"),
        ([_delta(0.01, 0.02), _delta(-0.2, 0.1)], "open"),
        ([_delta(None, None)], "open"),
        ([], "open"),
    ],
)
def test_where_a_policy_stands(deltas: list[dict[str, Any]], where: str) -> None:
    assert standing(deltas, 0.01) == where


def test_power_of_opponents_that_ran_on_fewer_series() -> None:
    rng = np.random.default_rng(1)
    many, few = (0.05 + 0.05 * rng.standard_normal(n) for n in (40, 8))
    floors = {"rule": 0.0, "cem-time": 0.0}
    both = power({"f": {"rule": many.tolist(), "cem-time": few.tolist()}}, floors, {"f": 40}, seed=1, name="x")
    rule = power({"f": {"rule": many.tolist()}}, {"rule": 0.0}, {"f": 40}, seed=1, name="x")
    cem = power({"f": {"cem-time": few.tolist()}}, {"cem-time": 0.0}, {"f": 8}, seed=1, name="x")
    assert both.all == pytest.approx(rule.all * cem.all, abs=0.05)
    assert both.all < rule.all
