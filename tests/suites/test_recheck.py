"""Hostile evidence: every leaf changed, rows forged, and an import list that keeps the recheck independent."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.suites import evidence_kit as kit
from ucsearch.lab.suites.evidence.ledger import Look, append_look, read_ledger
from ucsearch.lab.suites.recheck import verify as recheck
from ucsearch.lab.suites.recheck.verify import FALSE, MALFORMED, VALID, differences, verify_evidence
from ucsearch.records.canonical import canonical, digest, digest_bytes, loads, seal
from ucsearch.verify.read import GENESIS

Path_ = tuple[Any, ...]


def check(folder: Path, decisions: int = 0) -> recheck.EvidenceReport:
    return verify_evidence(folder, decisions=decisions)


def test_honest_evidence_is_valid(tmp_path: Path) -> None:
    report = check(kit.write(tmp_path), decisions=5)
    assert (report.code, report.problems, report.malformed) == (VALID, (), "")
    assert report.ok
    assert "1 of 1 sampled decisions were verified" in report.notes


@pytest.mark.parametrize("looks", [2, 3])
def test_a_boundary_with_more_looks_is_honest_evidence_too(tmp_path: Path, looks: int) -> None:
    report = check(kit.write(tmp_path, looks=looks))
    assert report.ok
    assert report.evidence is not None
    assert report.evidence.predicate["verdict"]["class"] == "boundary"


# -------------------------------------------------------------------- every leaf of the manifest


def leaves(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    if isinstance(value, dict) and value:
        for name in value:
            yield from leaves(value[name], (*path, name))
    elif isinstance(value, list) and value:
        for i, item in enumerate(value):
            yield from leaves(item, (*path, i))
    else:
        yield path


def changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1 if value == 0 else value * 1.001 if isinstance(value, float) else value + 1
    if isinstance(value, str):
        return ("0" if value[0] != "0" else "1") + value[1:] if re.fullmatch("[0-9a-f]{64}", value) else value + "x"
    return {"x": 1} if value == {} else [1] if value == [] else 1


def spoil(statement: dict[str, Any], path: Path_) -> dict[str, Any]:
    copied = copy.deepcopy(statement)
    at: Any = copied
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = changed(at[path[-1]])
    return copied


def test_every_leaf_changed_by_hand_is_found(tmp_path: Path) -> None:
    folder = kit.write(tmp_path)
    statement = kit.manifest_of(folder)
    paths = list(leaves(statement))
    assert len(paths) > 200
    for path in paths:
        kit.rewrite(folder, spoil(statement, path), reseal=False)
        assert check(folder).code != VALID, path


# What no row can tell: it is sealed, and the sources say whether it is right.
ONLY_A_RUN_KNOWS = re.compile(
    r"predicate\.(data\.0\.\w+|seeds\.0|versions\.ucsearch|extra|splits\.design\.fam-a\.0|settings\.walkforward\.paths"
    r"|tables\.\d+\.(name|title|columns\.\d+\.name)|checks\.0\.(name|op|right))"
)


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_every_leaf_forged_with_a_new_seal_is_found(tmp_path: Path, step: int) -> None:
    """A forger mends seal and digests; then the figures must give him away. Every fourth leaf, or all of them."""
    folder = kit.write(tmp_path, kit.make_rows(series=4))
    assert check(folder).ok
    statement = kit.manifest_of(folder)
    unseen = []
    for path in list(leaves(statement))[::step]:
        if path[0] == "subject" or path[-1] == "seal":
            continue  # mended by the forger
        kit.rewrite(folder, spoil(statement, path), reseal=True)
        if check(folder).code == VALID:
            unseen.append(".".join(map(str, path)))
    assert [path for path in unseen if not ONLY_A_RUN_KNOWS.fullmatch(path)] == []
    # Figures that decide are never among those.
    assert not any(re.search("left|pass|gate|verdict|deltas|looks|selection", path) for path in unseen)


def test_every_leaf_of_the_selection_forged_is_found(tmp_path: Path) -> None:
    folder = kit.write(tmp_path)
    content = kit.json.loads((folder / "selection.json").read_bytes())
    for path in leaves(content):
        (folder / "selection.json").write_bytes(canonical(spoil(content, path)))
        kit.rewrite(folder, kit.manifest_of(folder), reseal=True)
        assert check(folder).code != VALID, path


def test_every_leaf_of_a_look_forged_is_found(tmp_path: Path) -> None:
    folder = kit.write(tmp_path)
    ledger = tmp_path / "looks.jsonl"
    content = kit.json.loads(ledger.read_bytes())
    for path in leaves(content):
        ledger.write_bytes(canonical(spoil(content, path)) + b"\n")
        assert check(folder).code != VALID, path


# -------------------------------------------------------------------- rows


def test_every_figure_of_a_row_matters(tmp_path: Path) -> None:
    """Each number that decisions rest on, changed in one test row with all digests mended."""
    folder = kit.write(tmp_path)
    rows = kit.rows_of(folder)
    for path in leaves(rows[0]):
        if path[-1] in ("start", "utility", "margin", "gap") or path == ("policies", "cem", "violations"):
            continue  # neither gate nor table of this suite uses them
        if path[-1] == "violations" and path[1] != "uc":
            continue
        kit.rewrite_rows(folder, [spoil(rows[0], path), *rows[1:]])
        assert check(folder).code != VALID, path


def drop_last_window(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if not (row["split"] == "test" and row["window"] == 1 and row["series"] == "S3")]


def move_to_validation(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    moved = {**rows[0], "split": "validation", "window": 1}
    return [moved, *(row for row in rows if row is not rows[0])]


def silent(row: dict[str, Any]) -> dict[str, Any]:
    changed_row = copy.deepcopy(row)
    changed_row["policies"]["uc"]["violations"] = None
    return changed_row


def overlap(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "start": 110} if row["split"] == "test" and row["window"] == 0 else row for row in rows]


HOSTILE_ROWS = {
    "duplicate": (lambda rows: [*rows, rows[0]], MALFORMED, "occurs 2 times"),
    "window missing": (drop_last_window, FALSE, "test fam-a S3 windows"),
    "series missing": (lambda rows: [r for r in rows if r["series"] != "S3"], FALSE, "no rows"),
    "family missing": (lambda rows: [r for r in rows if r["family"] != "fam-b"], FALSE, "families"),
    "no test rows": (lambda rows: [r for r in rows if r["split"] != "test"], FALSE, "test split"),
    "no validation rows": (lambda rows: [r for r in rows if r["split"] == "test"], FALSE, "validation"),
    "no rows": (lambda rows: [], FALSE, "validation"),
    "moved": (move_to_validation, MALFORMED, "expected 0 to 0"),
    "in two splits": (overlap, FALSE, "do not all come before"),
    "unknown series": (lambda rows: [*rows, {**rows[0], "series": "Z", "window": 0}], FALSE, "not listed"),
    "unknown family": (lambda rows: [*rows, {**rows[0], "family": "zz"}], FALSE, "not listed"),
    "violations unknown": (lambda rows: [silent(rows[0]), *rows[1:]], FALSE, "predicate.gate"),
    "our policy missing": (lambda rows: [{**rows[0], "policies": {}}, *rows[1:]], FALSE, "predicate.gate"),
}


@pytest.mark.parametrize("name", HOSTILE_ROWS)
def test_hostile_rows(tmp_path: Path, name: str) -> None:
    change, code, words = HOSTILE_ROWS[name]
    folder = kit.write(tmp_path)
    kit.rewrite_rows(folder, change(kit.rows_of(folder)))
    report = check(folder)
    text = report.malformed + " ".join(map(str, report.problems))
    assert (report.code, words in text) == (code, True), text


def test_rows_out_of_order_nan_and_cut_off(tmp_path: Path) -> None:
    folder = kit.write(tmp_path)
    rows = kit.rows_of(folder)
    kit.rewrite_rows(folder, rows[::-1], sort=False)
    assert "not sorted" in check(folder).malformed
    body = b"".join(canonical(row) + b"\n" for row in rows)
    for spoilt, words in (
        (body[:-40], "not complete"),
        (body.replace(b'"violations":0', b'"violations":NaN', 1), "NaN"),
        (body.replace(b'{"certificate"', b'{ "certificate"', 1), "canonical"),
        (body + b"\n", "malformed JSON"),
        (body + b"[1]\n", "object"),
    ):
        (folder / "rows.jsonl").write_bytes(spoilt)
        kit.rewrite(folder, kit.manifest_of(folder), reseal=True)
        report = check(folder)
        assert report.code != VALID
        assert words in report.malformed + " ".join(map(str, report.problems)), words


def test_a_digest_is_named(tmp_path: Path) -> None:
    folder = kit.write(tmp_path)
    (folder / "card.md").write_bytes(b"# Another card\n")
    report = check(folder)
    assert report.code == FALSE
    assert "card.md" in report.problems[0].where


def test_another_card_or_suite_under_new_digests_is_found(tmp_path: Path) -> None:
    for name, body in (
        ("card.md", b"# Another\n"),
        ("suite.toml", kit.SUITE.replace(b"depths = [3]", b"depths = [4]")),
    ):
        folder = kit.write(tmp_path / name)
        (folder / name).write_bytes(body)
        kit.rewrite(folder, kit.manifest_of(folder), reseal=True)
        report = check(folder)
        assert report.code == FALSE
        assert any("sha256" in p.where for p in report.problems)


def test_a_look_that_is_gone_is_missed_by_who_kept_its_head(tmp_path: Path) -> None:
    """Another suite's look, whose folder is gone: without it the chain, made anew, is as good as before."""
    folder = kit.write(tmp_path)
    path = tmp_path / "looks.jsonl"
    (own,) = read_ledger(path)
    seen = Look("unloved", "1" * 64, "2" * 64, "3" * 64)
    gone = append_look(path, seen, {"elsewhere": {"a": [0, 9]}}, code=None)
    for kept in (None, own["head"], gone["head"]):
        assert verify_evidence(folder, decisions=0, kept=kept).ok
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    assert verify_evidence(folder, decisions=0).ok
    assert verify_evidence(folder, decisions=0, kept=own["head"]).ok
    report = verify_evidence(folder, decisions=0, kept=gone["head"])
    assert not report.ok
    assert "cut or rewritten" in report.malformed
    for odd in ("", "0" * 63, "G" * 64, gone["head"].upper()):
        assert not verify_evidence(folder, decisions=0, kept=odd).ok


def test_no_ledger_one_that_was_cut_and_a_look_under_another_selection(tmp_path: Path) -> None:
    folder = kit.write(tmp_path, looks=3)
    assert check(folder).ok
    ledger = tmp_path / "looks.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    for body, code in (
        (b"", FALSE),
        (b"".join(lines[:2]), FALSE),  # the run's own look is gone
        (b"".join(lines[1:]), MALFORMED),  # an earlier one is gone
        (lines[0] + lines[2], MALFORMED),
        (b"".join(lines)[:-3], MALFORMED),
    ):
        ledger.write_bytes(body)
        report = check(folder)
        assert report.code == code
        assert "looks.jsonl" in report.malformed + " ".join(map(str, report.problems))
    ledger.unlink()
    assert check(folder).code == FALSE
    ledger.write_bytes(b"".join(lines))
    assert check(folder).ok


def test_tables_of_a_strange_form_are_malformed_not_a_crash(tmp_path: Path) -> None:
    folder = kit.write(tmp_path)
    statement = kit.manifest_of(folder)
    for path in (("tables", 0, "columns"), ("tables", 0, "group"), ("checks", 0, "from"), ("splits", "test")):
        forged = copy.deepcopy(statement)
        at: Any = forged["predicate"]
        for part in path[:-1]:
            at = at[part]
        for value in (3, [3], {"a": 3}, "text"):
            at[path[-1]] = value
            kit.rewrite(folder, forged, reseal=True)
            assert check(folder).code in (FALSE, MALFORMED)


# -------------------------------------------------------------------- the sample


def test_a_false_decision_in_the_sample_is_found(tmp_path: Path) -> None:
    folder = kit.write(tmp_path)
    line = loads((folder / "sample.jsonl").read_bytes())
    record = line["record"]
    record["claim"]["gap"] += 1.0
    (folder / "sample.jsonl").write_bytes(canonical(line) + b"\n")
    kit.rewrite(folder, kit.manifest_of(folder), reseal=True)
    report = check(folder)  # the chain does not fit, whether or not decisions are verified
    assert report.code == FALSE
    assert "digest" in report.problems[0].where
    # A forger makes the record, its id and the chain fit; then only verification tells.
    forged = seal(record)
    own = digest(forged, "audit-entry/1")
    time = line["written_at"].encode()
    link = bytes.fromhex(GENESIS) + (1).to_bytes(8, "big") + bytes.fromhex(own) + time
    line |= {"record": forged, "digest": own, "head": digest_bytes(link, "audit-head/1")}
    (folder / "sample.jsonl").write_bytes(canonical(line) + b"\n")
    kit.rewrite(folder, kit.manifest_of(folder), reseal=True)
    assert check(folder, decisions=0).code == VALID
    report = check(folder, decisions=1)
    assert report.code == FALSE
    assert "gap" in report.problems[0].where


def test_a_decision_that_was_not_drawn_or_is_out_of_budget_is_found(tmp_path: Path) -> None:
    folder = kit.write(tmp_path / "series")
    (folder / "sample.jsonl").write_bytes(kit.sample("fam-a/S0/0/0"))
    kit.rewrite(folder, kit.manifest_of(folder), reseal=True)
    assert [p.where for p in check(folder, decisions=5).problems] == ["sample.jsonl series[0]"]
    folder = kit.write(tmp_path / "budget")
    assert verify_evidence(folder, decisions=5, budget=1).code == FALSE
    (folder / "sample.jsonl").write_bytes(b"{\n")
    kit.rewrite(folder, kit.manifest_of(folder), reseal=True)
    assert check(folder).code == MALFORMED


def test_spread() -> None:
    assert recheck._spread(3, 5) == [0, 1, 2]
    assert recheck._spread(10, 3) == [0, 4, 9]
    assert recheck._spread(10, 1) == [0]
    assert recheck._spread(10, 0) == []


# -------------------------------------------------------------------- comparison, independence


@pytest.mark.parametrize(
    ("a", "b", "count"),
    [
        (1.0, 1.0 + 1e-13, 0), (1.0, 1.0 + 1e-6, 1), (1, 1.0, 0), (1, 2, 1), (True, 1, 1), (None, 0, 1), ("1", 1, 1),
        ([1, 2], [1, 3], 1), ([1], [1, 2], 1), ({"a": 1}, {"a": 1, "b": None}, 1), ({"a": {}}, {"a": []}, 1),
        (2**53 - 1, 2**53 - 2, 1), (float("nan"), float("nan"), 1),
    ],
)  # fmt: skip
def test_differences(a: Any, b: Any, count: int) -> None:
    assert len(list(differences(a, b, "x"))) == count
    assert len(list(differences(b, a, "x"))) == count


# -------------------------------------------------------------------- commands


def command(*arguments: str) -> Any:
    import typer

    from ucsearch.cli.evidence import evidence_app

    app = typer.Typer()
    app.add_typer(evidence_app, name="evidence")
    app.callback()(lambda: None)
    return CliRunner().invoke(app, list(arguments))


def test_commands(tmp_path: Path) -> None:
    kit.write(tmp_path / "one")
    kit.write(tmp_path / "two", kit.make_rows(active=3))
    done = command("evidence", "verify", str(tmp_path))
    assert done.exit_code == 0
    assert "certified" in done.output
    assert "boundary" in done.output
    shown = command("evidence", "list", str(tmp_path), "--json")
    assert [row["class"] for row in kit.json.loads(shown.output)] == ["certified", "boundary"]
    table = command("evidence", "list", str(tmp_path)).output
    assert "Kit endpoint (kit)" in table
    assert "0.1500" in table
    assert command("evidence", "verify", str(tmp_path / "none")).exit_code == MALFORMED
    (tmp_path / "empty").mkdir()
    assert command("evidence", "list", str(tmp_path / "empty")).exit_code == MALFORMED


def test_commands_name_what_is_false(tmp_path: Path) -> None:
    folder = kit.write(tmp_path / "one")
    kit.write(tmp_path / "two")
    statement = kit.manifest_of(folder)
    statement["predicate"]["verdict"]["key"]["risk_active"] = 0.99
    kit.rewrite(folder, statement, reseal=True)
    done = command("evidence", "verify", str(tmp_path))
    assert done.exit_code == FALSE
    assert "predicate.verdict.key.risk_active" in done.output
    report = kit.json.loads(command("evidence", "verify", str(folder), "--json").output)
    assert (report[0]["status"], report[0]["class"]) == ("false", None)
    shown = command("evidence", "list", str(tmp_path))
    assert shown.exit_code == FALSE
    assert "Left out" in shown.output
    (tmp_path / "two" / "kit" / "manifest.json").write_bytes(b"{")
    assert command("evidence", "verify", str(tmp_path)).exit_code == MALFORMED


def test_text_of_evidence_cannot_steer_a_terminal(tmp_path: Path) -> None:
    folder = kit.write(tmp_path)
    statement = kit.manifest_of(folder)
    statement["predicate"]["verdict"]["key"]["\x1b[31mred"] = 1
    kit.rewrite(folder, statement, reseal=True)
    output = command("evidence", "verify", str(folder)).output
    assert "[31mred" in output
    assert "\x1b" not in output
