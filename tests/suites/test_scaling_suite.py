"""The scaling suite: plain exact methods against brute force, and what the suite must show."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kit.suites import shared_run
from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.rows import check_rows, row_bytes, split_problems
from ucsearch.lab.suites.evidence.tables import check_row, fill
from ucsearch.lab.suites.job import SuiteJob
from ucsearch.lab.suites.kinds.scaling.plain import ExposureProblem, enumerate_plans, programme, unfold
from ucsearch.lab.suites.recheck.verify import verify_evidence
from ucsearch.lab.suites.run import Findings, follow_protocol
from ucsearch.lab.suites.suite import load_suite, parse_suite
from ucsearch.tasks.exposure import DelayedExposure

MINI = "scaling-mini"


def run_in(folder: Path) -> Findings:
    return follow_protocol(load_suite(MINI), SuiteJob(folder, {"suite": MINI}, threads=1))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return run_in(tmp_path_factory.mktemp("scaling"))


def judged(findings: Findings) -> dict[str, dict[str, Any]]:
    tables = [fill(spec, findings.rows) for spec in findings.tables]
    return {spec["name"]: check_row(spec, tables) for spec in findings.checks}


# -------------------------------------------------------------------- plain methods


def problem(seed: int, depth: int = 4, closing: float = 0.0) -> ExposureProblem:
    rng = np.random.default_rng(seed)
    changes = (-2.0, -1.0, 0.0, 1.0, 2.0)
    config = DelayedExposure(delay=1, changes=changes, capacity=2.0, cost=0.2, closing_cost=closing)
    return ExposureProblem(config.task(), config.state(1.0), changes[1:], rng.standard_normal((3, depth)), 0.7)


def brute(p: ExposureProblem) -> dict[tuple[float, ...], float]:
    """Every feasible plan with its score, by the formulas of the task."""
    found = {}
    for plan in product(p.actions, repeat=p.depth):
        position, pending, reward, spread = 1.0, 0.0, 0.0, 0.0
        for h, a in enumerate(plan):
            if abs(position + pending + a) > 2.0:
                break
            held = position + pending
            reward += held * p.members[:, h].mean() - 0.2 * abs(pending)
            spread += abs(held) * p.members[:, h].std()
            position, pending = held, a
        else:
            closing = p.task.params.closing_cost * abs(position + pending)
            found[plan] = reward - closing - 0.7 * spread
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("closing", [0.0, 0.6])
def test_plain_methods_find_the_best_of_all_plans(seed: int, closing: float) -> None:
    p = problem(seed, closing=closing)
    best = max(brute(p).values())
    assert programme(p) == pytest.approx(best, abs=1e-12)
    assert enumerate_plans(p)[0] == pytest.approx(best, abs=1e-12)


def test_the_end_of_a_plan_is_charged() -> None:
    free, charged = problem(0), problem(0, closing=0.6)
    for p, closing in ((free, 0.0), (charged, 0.6)):
        stuck = ExposureProblem(p.task, p.start, (0.0,), p.members, p.risk)  # one unit is held throughout
        wanted = p.members.mean(axis=0).sum() - 0.7 * p.members.std(axis=0).sum() - closing
        assert programme(stuck) == pytest.approx(wanted, abs=1e-12)
        assert enumerate_plans(stuck) == (pytest.approx(wanted, abs=1e-12), 4)


def test_counts_are_those_of_a_walk() -> None:
    p = problem(0)
    plans = list(brute(p))
    graph = unfold(p)
    prefixes = {plan[: h + 1] for plan in plans for h in range(p.depth)}
    # Nothing dies here: doing nothing is always allowed, so every beginning is the beginning of a plan.
    assert graph.plans == len(plans)
    assert graph.prefixes == len(prefixes) == enumerate_plans(p)[1]
    ends = {(len(x), 1.0 + sum(x[:-1]), x[-1]) for x in prefixes}  # step, position, pending
    assert graph.states == len(ends)
    assert graph.states < graph.prefixes
    assert graph.edges == len({((len(x) - 1, sum(x[:-1]), x[-2] if len(x) > 1 else 0.0), x[-1]) for x in prefixes})


# -------------------------------------------------------------------- the suite


def test_everything_it_must_show_is_shown(found: Findings) -> None:
    checks = judged(found)
    assert len(checks) == 13
    assert {name for name, row in checks.items() if not row["pass"]} == set()


def test_the_rows_are_of_the_protocols_form(found: Findings) -> None:
    check_rows(found.rows)
    assert split_problems(found.rows, found.splits) == []
    assert len(found.rows) == 6


def test_the_checks_can_fail(found: Findings) -> None:
    rows = [row | {"policies": {k: dict(v) for k, v in row["policies"].items()}} for row in found.rows]
    rows[0]["policies"]["dp"]["off"] = 1e-6
    rows[1]["policies"]["beam"]["beyond_nodes"] = 1
    rows[2]["policies"]["uc"]["shortfall"] = -1e-6
    rows[3]["policies"]["bnb"]["proved"] = 0
    rows[0]["policies"]["enumeration"]["miscounted"] = 1
    failed = {name for name, row in judged(found._replace(rows=rows)).items() if not row["pass"]}
    assert failed == {
        "dp: relative difference from the exact value",
        "beam: expansions beyond k(1+B(d-1))",
        "uc: shortfall",
        "bnb: proved in every instance",
        "enumeration: beginnings walked less counted",
    }


def test_caps_leave_the_count_and_drop_the_value(found: Findings) -> None:
    large = [row["policies"] for row in found.rows if row["family"] == "c04-m05-d06"]
    assert large
    for p in large:
        assert p["enumeration"]["nodes"] > 2000
        assert p["enumeration"]["value"] is None
        assert p["enumeration"]["off"] is None
        assert p["dp"]["value"] == pytest.approx(p["bnb"]["value"], abs=1e-9)


def test_the_bound_makes_up_for_the_delay(found: Findings) -> None:
    worst = {name: max(row["policies"][name]["shortfall"] for row in found.rows) for name in ("beam", "uc")}
    assert worst["uc"] < worst["beam"]


def test_seconds_are_not_in_the_rows(found: Findings, tmp_path: Path) -> None:
    assert row_bytes(run_in(tmp_path).rows) == row_bytes(found.rows)


def test_its_evidence_stands_up_to_the_recheck(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = shared_run(MINI, tmp_path_factory)
    report = verify_evidence(run.folder)
    assert (report.code, report.problems, report.malformed) == (0, (), "")
    assert run.verdict["class"] == "boundary"
    assert run.verdict["key"]["checks_passed"] == run.verdict["key"]["checks"] > 0


def test_the_full_suite_covers_the_papers_cells_and_goes_beyond() -> None:
    cells = load_suite("scaling").settings.cells
    assert {(4, 5, 3), (8, 9, 5), (16, 17, 8)} <= set(cells)


@pytest.mark.parametrize("bad", ["[4, 4, 3]", "[0, 5, 3]", "[4, 5, 0]", "[4, 5]"])
def test_cells_that_make_no_sense_are_refused(bad: str) -> None:
    text = load_suite(MINI).text.replace("[2, 3, 3]", bad)
    with pytest.raises(InputError, match="cells"):
        parse_suite(text)
