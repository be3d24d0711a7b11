"""Evidence of a run that was made to look better: all digests, selection, tables and gate fit, only the truth does not.

The forger writes the whole folder anew with the project's own code. What he cannot change is the suite file (its hash
is in the ledger), the ledger, and what the rows draw.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.kit.suites import shared_run
from tests.suites import evidence_kit as kit
from ucsearch.lab.suites.evidence.manifest import read_evidence
from ucsearch.lab.suites.gates.primary import PrimaryQuestion
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.recheck.verify import FALSE, verify_evidence
from ucsearch.records.canonical import canonical

Rows = list[dict[str, Any]]
ONE = Protocol("kit", 7, "cost", "cost", "utility", {"fam-a": "one"}, {"validation": 1, "test": 2})


def forged(tmp_path: Path, rows: Rows, **more: Any) -> str:
    """What verification says of a folder that was forged in place of an honest one."""
    honest = kit.write(tmp_path)
    assert verify_evidence(honest, decisions=0).ok
    report = verify_evidence(kit.write(tmp_path, rows, keep_ledger=True, **more), decisions=0)
    assert report.code == FALSE
    return " ".join(map(str, report.problems))


def without(rows: Rows, family: str = "", series: tuple[str, ...] = ()) -> Rows:
    return [row for row in rows if row["family"] != family and row["series"] not in series]


def test_a_folder_without_its_worst_family(tmp_path: Path) -> None:
    text = forged(tmp_path, without(kit.make_rows(), family="fam-b"), protocol=ONE, suite=kit.SUITE)
    assert "families of test" in text
    assert "families of validation" in text


def test_a_folder_without_its_worst_family_under_a_suite_file_of_its_own(tmp_path: Path) -> None:
    own = kit.SUITE.replace(b'["fam-a", "fam-b"]', b'["fam-a"]')
    text = forged(tmp_path, without(kit.make_rows(), family="fam-b"), protocol=ONE, suite=own)
    assert "looks.jsonl suite.toml" in text


def test_a_folder_without_its_worst_series(tmp_path: Path) -> None:
    rows = without(kit.make_rows(), series=("S4", "S5"))
    assert "test fam-a series: the evidence says 4, derived 6" in forged(tmp_path, rows, suite=kit.SUITE)
    assert "looks.jsonl suite.toml" in forged(tmp_path / "own", rows)  # per_family rewritten to 4


def test_other_series_than_those_that_were_opened(tmp_path: Path) -> None:
    rows = kit.make_rows()
    for row in rows:
        row["series"] = "better-" + row["series"] if row["series"] == "S3" else row["series"]
    text = forged(tmp_path, rows)
    assert "none under this suite file, card and selection together" in text


def test_fewer_decisions_than_declared(tmp_path: Path) -> None:
    rows = kit.make_rows()
    for row in rows:
        row["decisions"] = 12
        for side in (row, *row.get("candidates", {}).values()):
            for name, policy in side["policies"].items():
                policy["expansions"] = {"uc": 72}.get(name, 108)
                policy["oracle_nodes"] = 36 if name == "uc" else 0
            if side.get("certificate"):
                side["certificate"] |= {"decisions": 12, "passed": 12, "risk_active": min(12, active(side))}
    text = forged(tmp_path, rows)
    assert "decisions: the evidence says 12, derived 20" in text


def active(side: dict[str, Any]) -> int:
    return int(side["certificate"]["risk_active"])


@pytest.mark.parametrize("honest_count", [True, False])
def test_comparators_at_a_fifth_of_their_budget(tmp_path: Path, honest_count: bool) -> None:
    rows = kit.make_rows()
    for row in rows:
        for side in (row, *row.get("candidates", {}).values()):
            for name in ("cem", "mppi", "risk-random"):
                if name in side["policies"]:
                    side["policies"][name]["expansions"] /= 5
    if not honest_count:  # only the test windows were run on the cheap
        honest = kit.make_rows()
        rows = [b if b["split"] == "validation" else a for a, b in zip(rows, honest, strict=True)]
    text = forged(tmp_path, rows)
    assert "cem.expansions: the evidence says 36, derived a budget of 180, spent" in text


def test_the_sample_left_out(tmp_path: Path) -> None:
    assert "sample.jsonl: the evidence says no sample" in forged(tmp_path, kit.make_rows(), with_sample=False)


def test_a_sample_that_the_writer_chose(tmp_path: Path) -> None:
    folder = kit.write(tmp_path)
    (folder / "sample.jsonl").write_bytes(kit.sample("fam-a/S1/1/3"))
    kit.rewrite(folder, kit.manifest_of(folder), reseal=True)
    report = verify_evidence(folder, decisions=0)
    assert [p.where for p in report.problems] == ["sample.jsonl series[0]"]


def test_the_card_rewritten_after_the_look(tmp_path: Path) -> None:
    text = forged(tmp_path, kit.make_rows(), card=b"# Kit\nA softer promise.\n")
    assert "looks.jsonl card.md" in text


def test_a_selection_that_validation_did_not_make(tmp_path: Path) -> None:
    """The worse candidate's figures swapped in: the rows of validation give another record than the ledger has."""
    rows = kit.make_rows()
    for row in rows:
        if "candidates" in row:
            sides = row["candidates"]
            sides[kit.R0], sides[kit.R05] = sides[kit.R05], sides[kit.R0]
    assert "looks.jsonl selection.json" in forged(tmp_path, rows)


def test_a_bound_that_only_the_shared_code_believes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong formula in the code that runner and verification share is found by the second program."""
    from ucsearch.lab.suites.gates import promotion
    from ucsearch.replay.statistics import Bounds

    right = promotion.bounds

    def wrong(values: Any, key: int) -> Bounds:
        found = right(values, key)
        return found._replace(lower=found.percentile)

    monkeypatch.setattr(promotion, "bounds", wrong)
    report = verify_evidence(kit.write(tmp_path), decisions=0)
    assert report.code == FALSE
    assert {p.where.partition("[")[0] for p in report.problems} == {"predicate.gate (second program)"}


@pytest.mark.parametrize(("member", "value"), [("delta", 9.0), ("endpoint", "as good"), ("rules", None)])
def test_a_power_that_is_raised_by_asking_another_question(
    member: str, value: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A larger expected delta, a weaker endpoint or fewer rules give more power; all that follows is derived anew."""
    honest = shared_run("staffing-mini", tmp_path_factory).folder
    shutil.copytree(honest.parent, tmp_path / "all")
    folder = tmp_path / "all" / honest.name
    evidence = read_evidence(folder)
    assert evidence.selection is not None
    held = evidence.selection["value"]
    asked = {"rules": held["rules"], "endpoint": held["endpoint"], "delta": held["delta"]}
    asked[member] = dict([next(iter(held["rules"].items()))]) if value is None else value
    protocol = Protocol.from_json(evidence.selection["protocol"])
    question = PrimaryQuestion(**asked)
    record = {**evidence.selection, "value": question.record(evidence.rows, protocol, ())}
    (folder / "selection.json").write_bytes(canonical(record))
    kit.rewrite(folder, kit.manifest_of(folder), reseal=True)
    report = verify_evidence(folder, decisions=0)
    assert report.code == FALSE
    assert any(f"selection.json.value.{member}" in problem.where for problem in report.problems)


def test_windows_that_others_opened_before_are_named(tmp_path: Path) -> None:
    folder = kit.write(tmp_path, looks=2)
    report = verify_evidence(folder, decisions=0)
    assert report.ok
    assert report.evidence is not None
    verdict = report.evidence.predicate["verdict"]
    assert any("test periods of 12 series were opened before by look 1 (kit)" in text for text in verdict["reasons"])
    assert report.evidence.predicate["earlier"][0]["periods"]["one/S0"] == [120, 160]
