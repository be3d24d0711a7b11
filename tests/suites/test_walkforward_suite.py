"""Suites as data, and the walk-forward protocol end to end on generated demand."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.kit.suites import shared_run
from ucsearch.cli.main import app
from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.ledger import read_ledger
from ucsearch.lab.suites.evidence.manifest import read_evidence
from ucsearch.lab.suites.evidence.sample import draw_series
from ucsearch.lab.suites.job import SuiteJob, TestSplitClosed
from ucsearch.lab.suites.kinds import KINDS, kind_of
from ucsearch.lab.suites.recheck.rerun import rerun
from ucsearch.lab.suites.recheck.verify import verify_evidence
from ucsearch.lab.suites.run import card_text, evaluate
from ucsearch.lab.suites.suite import Suite, load_suite, parse_suite, suite_names

MINI = "m4-balanced200-mini"
SMALL = load_suite(MINI)
WALKS = [
    pytest.param(name, marks=() if name in (MINI, "ett-inventory-mini") else pytest.mark.slow)
    for name in suite_names()
    if name.endswith("-mini") and load_suite(name).kind == "walkforward" and "delayed-service" not in name
]


@pytest.mark.parametrize("name", suite_names())
def test_every_suite_is_valid_and_has_a_card(name: str) -> None:
    suite = load_suite(name)
    assert suite.name == name
    assert suite.kind in KINDS
    text = card_text(suite)
    for part in ("Purpose", "Data and licence", "Splits", "Metrics", "Known limits", "What may be claimed"):
        # A card is frozen with its look: these were, before they said what may be claimed (the verdict does), or under
        # that heading how series are cut (the stresses' own section does).
        frozen = suite.card in ("battery", "capacity", "fresh", "lob-direction")
        other = suite.card == "stressors" and part == "Splits"
        assert f"## {part}" in text or (frozen and part == "What may be claimed") or other, part


def test_every_kind_has_a_mini() -> None:
    minis = {load_suite(name).kind for name in suite_names() if name.endswith("-mini")}
    assert minis == set(KINDS)


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ('seed = 20240701', 'seed = 20240701\nspeed = 1', "speed"),
        ("[walkforward.splits]", "[walkforward.splits]\nwindows = 3", "splits.windows"),
        ('kind = "walkforward"', 'kind = "run"', "kind"),
        ("paths = 8", "paths = 1", "paths"),
        ("paths = 8", 'paths = "many"', "paths"),
        ('policies = ["exact"]', 'policies = ["magic"]', "policies"),
        ('endpoint = "generated data (protocol check)"', "", "endpoint"),
        ("[walkforward]", "[walkforward", "TOML"),
    ],
)  # fmt: skip
def test_unknown_keys_and_bad_values_are_refused(old: str, new: str, where: str) -> None:
    text = load_suite(MINI).text
    assert old in text
    with pytest.raises(InputError, match=where):
        parse_suite(text.replace(old, new, 1))


def test_a_misspelt_suite_is_named() -> None:
    with pytest.raises(InputError, match="Did you mean m4-balanced200"):
        load_suite("m4-balanced20")


@pytest.mark.parametrize("suite", WALKS)
def test_mini_suites_run_and_verify(suite: Suite | str, tmp_path_factory: pytest.TempPathFactory) -> None:
    found = shared_run(suite, tmp_path_factory)
    predicate = found.statement["predicate"]
    assert predicate["looks"] == 1
    assert predicate["verdict"]["class"] in ("certified", "boundary")
    assert all(row["pass"] for row in predicate["checks"])
    report = verify_evidence(found.folder)
    assert report.code == 0, (report.problems, report.malformed)
    assert not (found.folder / ".work").exists()


def test_equal_runs_give_equal_bytes_and_a_repeat_is_written_down(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    one = shared_run(SMALL, tmp_path_factory)
    shutil.copytree(one.folder.parent, tmp_path / "a")
    names = ("manifest.json", "rows.jsonl", "sample.jsonl", "selection.json")
    for name in names[:3]:
        (tmp_path / "a" / MINI / name).write_bytes(b"")  # whatever is there is written anew
    again = evaluate(SMALL, tmp_path / "a", threads=2)
    assert again.statement == one.statement
    for name in names:
        assert (one.folder / name).read_bytes() == (again.folder / name).read_bytes(), name
    assert [look["repeat_of"] for look in read_ledger(tmp_path / "a" / "looks.jsonl")] == [None, 1]


def test_a_share_that_is_run_again_gives_the_same_bytes_and_shows_a_changed_row(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    found = shared_run(SMALL, tmp_path_factory)
    evidence = read_evidence(found.folder)
    problems, notes = rerun(evidence, 0.2, threads=2)
    assert problems == []
    assert "series were run again from the data" in notes[0]
    rows = json.loads(json.dumps(evidence.rows))
    family, series = draw_series(rows, 0.2)[0]
    for row in rows:
        if (row["family"], row["series"]) == (family, series) and row["split"] == "test":
            row["policies"]["cem"]["cost"] *= 1.0 + 1e-15
    # The rows' own hash draws other series now; all of them are run, so that the changed one is among them.
    problems, _ = rerun(replace(evidence, rows=rows), 1.0, threads=2)
    assert {(f"{family} {series}" in p.where, "policies cem" in p.where) for p in problems} == {(True, True)}
    assert len(list(found.folder.parent.iterdir())) == 2  # the ledger and the folder: no look of ours is left


def test_a_killed_run_goes_on(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shared_run(SMALL, tmp_path_factory)
    kept = SuiteJob.shard
    calls: list[str] = []

    def dying(self: SuiteJob, key: str, make: object) -> object:
        calls.append(key)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return kept(self, key, make)  # type: ignore[arg-type]

    monkeypatch.setattr(SuiteJob, "shard", dying)
    with pytest.raises(KeyboardInterrupt):
        evaluate(SMALL, tmp_path / "cut", threads=1)
    assert any(key.startswith("test-") for key in calls)  # it died with the test split open
    assert not (tmp_path / "cut" / MINI / "manifest.json").exists()
    monkeypatch.setattr(SuiteJob, "shard", kept)
    resumed = evaluate(SMALL, tmp_path / "cut", threads=1)
    assert resumed.statement == whole.statement  # one look, the same bytes


@pytest.mark.slow  # a row of the paper that ends as no-go runs by default
def test_a_stopped_route_leaves_its_test_split_closed(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = shared_run("delayed-service-mini", tmp_path_factory)
    assert not (found.folder.parent / "looks.jsonl").exists()  # a look is written down before the split is opened
    predicate = found.statement["predicate"]
    assert predicate["verdict"]["class"] == "no-go"
    assert predicate["looks"] == 0
    assert "test" not in predicate["splits"]
    assert predicate["audit"][0]["left"] < 0.95
    assert verify_evidence(found.folder).code == 0


def test_a_runner_that_reads_test_early_is_stopped(tmp_path: Path) -> None:
    suite = load_suite(MINI)
    job = SuiteJob(tmp_path / MINI, {"card_sha256": "0" * 64})
    kind = kind_of("walkforward")(suite, job)
    kind.validation()
    with pytest.raises(TestSplitClosed, match="test split has not been opened"):
        kind.test({"candidate": "exact-r0-d3"})


def test_the_command_writes_evidence_and_a_report(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL.text)
    done = CliRunner().invoke(
        app, ["evidence", "run", str(tmp_path / "small.toml"), "--out", str(tmp_path), "--threads", "1"]
    )
    assert done.exit_code == 0, done.output
    assert f"{MINI}: boundary" in done.output
    assert (tmp_path / MINI / "report.html").exists()
    timing = json.loads((tmp_path / MINI / "timing.json").read_text())
    assert timing["uc"]["decisions"] > 0
    listed = CliRunner().invoke(app, ["evidence", "list"])
    assert MINI in listed.output
    status = CliRunner().invoke(app, ["evidence", "list", str(tmp_path)])
    assert status.exit_code == 0
    assert "boundary" in status.output.lower()


def test_a_dry_run_says_what_validation_chose_and_opens_nothing(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = shared_run(SMALL, tmp_path_factory)
    command = ["evidence", "run", MINI, "--out", str(tmp_path), "--threads", "1", "--dry-run"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "the test would be opened; it was not opened" in done.output
    assert not (tmp_path / "looks.jsonl").exists()
    assert not (tmp_path / MINI / "manifest.json").exists()
    assert evaluate(SMALL, tmp_path, threads=1).statement == whole.statement  # it goes on from there
    nothing = CliRunner().invoke(app, [*command[:2], "scaling-mini", *command[3:]])
    assert "this one has no test to open" in str(nothing.exception)
