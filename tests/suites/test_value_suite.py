"""A walk-forward suite that asks for both gates, end to end on generated demand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit.suites import changed
from ucsearch.errors import DataError, InputError
from ucsearch.lab.data.embedded import sample_demand
from ucsearch.lab.suites.evidence.ledger import read_ledger
from ucsearch.lab.suites.evidence.manifest import read_evidence
from ucsearch.lab.suites.gates.claims import status_rows
from ucsearch.lab.suites.kinds.series_files import load_replaced
from ucsearch.lab.suites.recheck.rerun import rerun
from ucsearch.lab.suites.recheck.verify import FALSE, verify_evidence
from ucsearch.lab.suites.run import SuiteRun, evaluate
from ucsearch.lab.suites.suite import load_suite, parse_suite

MORE = """
[walkforward.value_gate]
margin = 0.01
tries = 3
time_samples = 12

[walkforward.practitioners]
newsvendor = "non-inferiority"
s-S = "superiority"
"""
SUITE = parse_suite(load_suite("m4-balanced200-mini").text + MORE)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[SuiteRun, list[str]]:
    said: list[str] = []
    folder = tmp_path_factory.mktemp("value")
    with pytest.raises(InputError, match="power"):
        evaluate(SUITE, folder, threads=1, say=said.append)
    assert not (folder / "looks.jsonl").exists()  # refused before the test split was opened
    return evaluate(SUITE, folder, threads=1, underpowered=True, say=said.append), said


def test_power_is_told_before_the_look_and_the_verdict_says_that_it_was_too_small(
    found: tuple[SuiteRun, list[str]],
) -> None:
    run, said = found
    assert len(said) == 2
    assert said[0].startswith("power of the value gate at the declared size: 0.")
    predicate = run.statement["predicate"]
    value = json.loads((run.folder / "selection.json").read_text())["value"]
    assert value["power"] < 0.5
    assert value["underpowered"] is True
    assert any("underpowered" in text for text in predicate["verdict"]["value"]["reasons"])
    assert len(read_ledger(run.folder.parent / "looks.jsonl")) == 1


def test_both_verdicts_are_there_each_under_its_name(found: tuple[SuiteRun, list[str]]) -> None:
    run, _ = found
    predicate = run.statement["predicate"]
    assert {row["name"] for row in predicate["gate"]} >= {"selected_risk", "risk_active"}
    opponents = {d["opponent"] for d in predicate["value"]["deltas"]}
    assert opponents == {"newsvendor-tuned", "s-S-tuned", "cem-time", "mppi-time", "risk-random-time"}
    assert predicate["verdict"]["value"]["class"] in ("passed", "not passed")
    (line,) = status_rows([predicate])
    assert line["value"].startswith(predicate["verdict"]["value"]["class"])
    tuned = json.loads((run.folder / "selection.json").read_text())["value"]["practitioners"]
    assert {name: (one["endpoint"], one["tries"]) for name, one in tuned.items()} == {
        "newsvendor-tuned": ("non-inferiority", 3),
        "s-S-tuned": ("superiority", 3),
    }


def test_it_verifies_and_runs_again_to_the_same_bytes(found: tuple[SuiteRun, list[str]]) -> None:
    run, _ = found
    report = verify_evidence(run.folder)
    assert (report.problems, report.malformed) == ((), "")
    problems, _ = rerun(read_evidence(run.folder), 0.2, threads=1)
    assert problems == []


def test_the_judged_policy_is_the_cheapest_proved_one_on_validation(found: tuple[SuiteRun, list[str]]) -> None:
    run, _ = found
    rows = [json.loads(line) for line in (run.folder / "rows.jsonl").read_text().splitlines()]
    cost: dict[str, float] = {}
    for row in rows:
        for name, side in (row.get("candidates") or {}).items():
            cost[name] = cost.get(name, 0.0) + side["policies"]["uc"]["cost"]
    value = json.loads((run.folder / "selection.json").read_text())["value"]
    proved = {
        name
        for name in cost
        if sum(r["candidates"][name]["certificate"]["passed"] for r in rows if r["split"] == "validation")
        >= 0.95 * sum(r["decisions"] for r in rows if r["split"] == "validation")
    }
    assert value["candidate"] == min(proved, key=lambda name: cost[name])


@pytest.mark.parametrize(
    ("member", "forged"),
    [("margin", 0.009), ("power", 0.99), ("candidate", "exact-r0-d3"), ("underpowered", False)],
)
def test_a_forged_value_record_is_found(
    found: tuple[SuiteRun, list[str]], member: str, forged: Any, tmp_path: Path
) -> None:
    import shutil

    from tests.suites import evidence_kit as kit
    from ucsearch.records.canonical import canonical, loads

    run, _ = found
    shutil.copytree(run.folder.parent, tmp_path / "all")
    folder = tmp_path / "all" / run.folder.name
    record = loads((folder / "selection.json").read_bytes())
    record["value"][member] = forged
    (folder / "selection.json").write_bytes(canonical(record))
    kit.rewrite(folder, kit.manifest_of(folder), reseal=True)
    report = verify_evidence(folder, decisions=0)
    assert report.code == FALSE
    assert any(f"selection.json.value.{member}" in p.where for p in report.problems)


def test_practitioners_and_gate_come_together() -> None:
    with pytest.raises(InputError, match="value_gate and practitioners together"):
        parse_suite(load_suite("m4-balanced200-mini").text + MORE.partition("[walkforward.pract")[0])
    with pytest.raises(InputError, match="less than or equal"):
        parse_suite(load_suite("m4-balanced200-mini").text + MORE.replace("0.01", "0.02"))


def test_a_suite_runs_unchanged_on_another_file_of_the_same_form(tmp_path: Path) -> None:
    lines = ["series,value,cluster"]
    for n, one in enumerate(sample_demand(12, 150, seed=5).series):
        lines += [f"{one.id},{value!r},shop {n % 3}" for value in one.y.tolist()]
    path = tmp_path / "other.csv"
    path.write_text("\n".join(lines) + "\n")
    suite = changed("m4-balanced200-mini", ("decisions = 4", "decisions = 2"), ("risks = [0.0, 0.5]", "risks = [0.5]"))
    run = evaluate(suite, tmp_path / "out", threads=1, families={"sample-daily": path})
    predicate = run.statement["predicate"]
    assert predicate["protocol"]["families"]["sample-daily"].startswith("sample@")
    assert predicate["protocol"]["families"]["sample-other"] == "sample"
    assert [(f["name"], f["status"]) for f in predicate["data"]] == [("sample-daily/other.csv", "unverified")]
    assert str(tmp_path) not in (run.folder / "manifest.json").read_text()
    assert verify_evidence(run.folder, decisions=0).ok
    with pytest.raises(InputError, match="a family of"):
        evaluate(suite, tmp_path / "no", families={"m4-weekly": path})
    for body, words in (("", "header"), ("series,x\n", "value"), ("series,value\na,nan\n", "number"),
                        ("series,value,cluster\na,1,b\na,1,c\n", "two clusters")):  # fmt: skip
        path.write_text(body)
        with pytest.raises(DataError, match=words):
            load_replaced("sample-daily", path)


def test_candidates_of_other_modes_have_names_of_their_own() -> None:
    mini = load_suite("m4-balanced200-mini").text
    text = mini.replace('policies = ["exact"]', 'policies = ["exact", "beam"]\nmodes = ["mean", "members"]')
    suite = parse_suite(text.replace("risks = [0.0, 0.5]", "risks = [0.5]"))
    made = {c["id"]: c for c in suite.settings.candidates.each()}
    assert list(made) == ["exact-r0.5-d3", "exact-members-r0.5-d3", "beam-r0.5-d3-b4-k2", "beam-members-r0.5-d3-b4-k2"]
    policy = suite.settings.candidates.policy(made["exact-members-r0.5-d3"])
    assert (policy.mode, policy.spread) == ("members", None)
    assert suite.settings.candidates.policy(made["exact-r0.5-d3"]).spread == "std"
