"""The evidence folder: equal bytes for equal runs, whole or without a manifest, read strictly."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from tests.suites import evidence_kit as kit
from ucsearch.errors import InputError, RecordError
from ucsearch.lab.suites.evidence import manifest
from ucsearch.lab.suites.evidence.manifest import FalseClaim, find_evidence, read_evidence, write_evidence
from ucsearch.lab.suites.evidence.rows import EvidenceError, check_rows, split_problems
from ucsearch.records.canonical import canonical


def test_equal_runs_give_equal_bytes(tmp_path: Path) -> None:
    one, two = kit.write(tmp_path / "one"), kit.write(tmp_path / "two", kit.make_rows()[::-1])
    names = sorted(path.name for path in one.iterdir())
    assert names == sorted([*manifest.FILES, "manifest.json"])
    for name in names:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    before = {name: (one / name).stat().st_mtime_ns for name in manifest.FILES}
    kit.write(one)  # again in the same place
    assert {name: (one / name).stat().st_mtime_ns for name in manifest.FILES} == before


def test_the_statement_is_in_toto(tmp_path: Path) -> None:
    folder = kit.write(tmp_path)
    statement = kit.manifest_of(folder)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://ucsearch.dev/evidence/v2"
    assert [s["name"] for s in statement["subject"]] == list(manifest.FILES)
    assert canonical(statement) == (folder / "manifest.json").read_bytes()


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    folder = kit.write(tmp_path)
    evidence = read_evidence(folder)
    assert evidence.rows == kit.make_rows()
    assert evidence.selection is not None
    assert evidence.selection["candidate"] == kit.R05
    assert evidence.suite["walkforward"]["splits"]["per_family"] == 6
    assert evidence.sample == folder / "sample.jsonl"


def test_the_selection_of_the_folder_is_taken(tmp_path: Path) -> None:
    one = kit.write(tmp_path / "one")
    two = tmp_path / "two"
    two.mkdir()
    (two / "selection.json").write_bytes((one / "selection.json").read_bytes())
    predicate = {k: v for k, v in read_evidence(one).predicate.items() if k != "seal"}
    files = {"card.md": kit.CARD, "suite.toml": kit.SUITE, "sample.jsonl": (one / "sample.jsonl").read_bytes()}
    write_evidence(two, predicate, kit.make_rows(), files)
    assert (two / "manifest.json").read_bytes() == (one / "manifest.json").read_bytes()


def test_a_write_that_fails_leaves_no_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = kit.write(tmp_path)
    real = manifest.whole_file

    def breaks(path: Path) -> Any:
        if Path(path).name == "rows.jsonl":
            raise RecordError("disk full")
        return real(path)

    monkeypatch.setattr(manifest, "whole_file", breaks)
    with pytest.raises(RecordError, match="disk full"):
        kit.write(tmp_path, kit.make_rows(seed=2))
    assert not (folder / "manifest.json").exists()


def test_a_sample_of_an_earlier_run_does_not_stay(tmp_path: Path) -> None:
    folder = kit.write(tmp_path)
    kit.write(tmp_path, with_sample=False)
    assert not (folder / "sample.jsonl").exists()
    assert read_evidence(folder).sample is None


def test_bad_rows_and_files_are_not_written(tmp_path: Path) -> None:
    predicate = {k: v for k, v in kit.manifest_of(kit.write(tmp_path / "x"))["predicate"].items() if k != "seal"}
    files = {"card.md": kit.CARD, "suite.toml": kit.SUITE}
    rows = kit.make_rows()
    out = tmp_path / "out"
    with pytest.raises(InputError, match=r"suite\.toml"):
        write_evidence(out, predicate, rows, {"card.md": kit.CARD})
    with pytest.raises(InputError, match=r"notes\.txt"):
        write_evidence(out, predicate, rows, {**files, "notes.txt": b""})
    with pytest.raises(EvidenceError, match="unknown member"):
        write_evidence(out, {**predicate, "mood": 1}, rows, files)
    with pytest.raises(EvidenceError, match="missing"):
        write_evidence(out, {k: v for k, v in predicate.items() if k != "gate"}, rows, files)
    with pytest.raises(EvidenceError, match="listed"):
        write_evidence(out, predicate, rows[:-1], files)
    with pytest.raises(RecordError, match="nan"):
        write_evidence(out, {**predicate, "extra": {"x": math.nan}}, rows, files)
    rows[0]["policies"]["uc"]["cost"] = math.nan
    with pytest.raises(EvidenceError, match="nan"):
        write_evidence(out, predicate, rows, files)
    assert not out.exists()


@pytest.mark.parametrize("name", ["manifest.json", *manifest.FILES])
def test_every_file_must_be_there(tmp_path: Path, name: str) -> None:
    folder = kit.write(tmp_path)
    (folder / name).unlink()
    with pytest.raises(EvidenceError, match=name.replace(".", r"\.")):
        read_evidence(folder)


@pytest.mark.parametrize("name", manifest.FILES)
def test_every_byte_of_a_file_counts(tmp_path: Path, name: str) -> None:
    folder = kit.write(tmp_path)
    body = (folder / name).read_bytes()
    for changed in (body[:-1], body + b"\n", body.replace(b"1", b"2", 1) if b"1" in body else body.upper()):
        (folder / name).write_bytes(changed)
        with pytest.raises(FalseClaim, match=name.replace(".", r"\.")):
            read_evidence(folder)


def test_stray_and_linked_files(tmp_path: Path) -> None:
    folder = kit.write(tmp_path, with_sample=False)
    (folder / "sample.jsonl").write_bytes(b"")
    with pytest.raises(EvidenceError, match="does not speak of it"):
        read_evidence(folder)
    (folder / "sample.jsonl").unlink()
    (folder / "timing.json").write_bytes(b"whatever")  # no evidence, not read
    read_evidence(folder)
    (folder / "card.md").rename(folder / "elsewhere.md")
    (folder / "card.md").symlink_to(folder / "elsewhere.md")
    with pytest.raises(EvidenceError, match=r"card\.md"):
        read_evidence(folder)


@pytest.mark.parametrize("name", ["card.md", "rows.jsonl", "suite.toml", "manifest.json"])
def test_a_file_that_is_a_hole_or_a_pipe_is_not_read_to_its_end(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "LONGEST_FILE", 1 << 20)
    folder = kit.write(tmp_path, with_sample=False)
    for path in folder.glob(f"{name}*"):  # rows may be packed
        path.unlink()
    (folder / name).touch()
    os.truncate(folder / name, 2**40)
    assert find_evidence(tmp_path) == [folder]
    with pytest.raises(EvidenceError, match="too long"):
        read_evidence(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert find_evidence(tmp_path) == [folder]
    with pytest.raises(EvidenceError, match="no such file"):
        read_evidence(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s.update(_type="https://in-toto.io/Statement/v0"), "_type"),
        (lambda s: s.update(predicateType="x"), "predicateType"),
        (lambda s: s.update(note="x"), "unknown member"),
        (lambda s: s.pop("subject"), "subject"),
        (lambda s: s["subject"].append(s["subject"][0]), "each once"),
        (lambda s: s["subject"].reverse(), "sorted"),
        (lambda s: s["subject"].pop(0), r"no card\.md"),
        (lambda s: s["subject"][0].update(name="../card.md"), "subject"),
        (lambda s: s["subject"][0]["digest"].update(sha256="zz"), "64 hex digits"),
        (lambda s: s["predicate"].pop("verdict"), "verdict"),
        (lambda s: s["predicate"].update(looks=True), "looks"),
        (lambda s: s["predicate"].update(tables={}), "tables"),
        (lambda s: s["predicate"]["data"][0].pop("sha256"), "data"),
        (lambda s: s["predicate"]["splits"].update(test=["S0"]), "splits"),
        (lambda s: s["predicate"]["protocol"].update(form="money"), "form"),
        (lambda s: s["predicate"]["protocol"].pop("seed"), "protocol"),
        (lambda s: s["predicate"]["tables"].append(3), "tables"),
    ],
)
def test_malformed_manifests(tmp_path: Path, change: Any, words: str) -> None:
    folder = kit.write(tmp_path)
    statement = kit.manifest_of(folder)
    change(statement)
    (folder / "manifest.json").write_bytes(canonical(statement))
    with pytest.raises(EvidenceError, match=words):
        read_evidence(folder)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b'{"a":NaN}', b'{"a":1,"a":2}', b"\xff", b"[" * 100_000])
def test_manifests_that_are_no_json_object(tmp_path: Path, body: bytes) -> None:
    folder = kit.write(tmp_path)
    (folder / "manifest.json").write_bytes(body)
    with pytest.raises(EvidenceError, match=r"manifest\.json"):
        read_evidence(folder)


def test_a_manifest_that_is_not_canonical(tmp_path: Path) -> None:
    folder = kit.write(tmp_path)
    (folder / "manifest.json").write_text(json.dumps(kit.manifest_of(folder), indent=1))
    with pytest.raises(EvidenceError, match="canonical"):
        read_evidence(folder)


def test_find_evidence(tmp_path: Path) -> None:
    kit.write(tmp_path / "b")
    kit.write(tmp_path / "a")
    kit.write(tmp_path / ".work" / "c")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_bytes(b"{")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "manifest.json").write_bytes(b'{"predicateType":"https://slsa.dev/provenance/v1"}')
    found = [path.relative_to(tmp_path).as_posix() for path in find_evidence(tmp_path)]
    assert found == ["a/kit", "b/kit", "broken"]
    assert find_evidence(tmp_path / "a") == [tmp_path / "a" / "kit"]
    with pytest.raises(EvidenceError, match="no such folder"):
        find_evidence(tmp_path / "nowhere")


# -------------------------------------------------------------------- rows


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r.pop("series"), "series"),
        (lambda r: r.update(family=""), "family"),
        (lambda r: r.update(window=-1), "window"),
        (lambda r: r.update(window=True), "window"),
        (lambda r: r.update(start=1.5), "start"),
        (lambda r: r.pop("policies"), "policies"),
        (lambda r: r.update(policies=[1]), "policies"),
        (lambda r: r["policies"]["uc"].update(cost="3"), "cost"),
        (lambda r: r["policies"]["uc"].update(cost=math.inf), "inf"),
        (lambda r: r["policies"]["uc"].update(cost=True), "cost"),
        (lambda r: r["certificate"].update(passed=21), "passed"),
        (lambda r: r["certificate"].update(passed=1.5), "passed"),
        (lambda r: r["certificate"].update(passed=3), "risk_active"),
        (lambda r: r["certificate"].update(decisions=19), "decisions"),
        (lambda r: r["certificate"].update(margin=math.nan), "margin"),
        (lambda r: r.update(candidates={}), "validation only"),
        (lambda r: r.update(audit={}), "validation only"),
        (lambda r: r.update(note=[1]), "note"),
    ],
)
def test_bad_rows(change: Any, words: str) -> None:
    rows = kit.make_rows()
    check_rows(rows)
    change(next(row for row in rows if row["split"] == "test"))
    with pytest.raises(EvidenceError, match=words):
        check_rows(rows)


def test_bad_candidates_in_rows() -> None:
    rows = kit.make_rows()
    held = next(row for row in rows if row["split"] == "validation")["candidates"]
    held[kit.R0]["certificate"]["passed"] = 99
    with pytest.raises(EvidenceError, match=r"candidates\.exact-r0-d3\.certificate\.passed"):
        check_rows(rows)
    held[kit.R0] = {"figures": {}}
    with pytest.raises(EvidenceError, match="unknown member"):
        check_rows(rows)


def test_windows_must_be_whole() -> None:
    rows = kit.make_rows()
    with pytest.raises(EvidenceError, match="occurs 2 times"):
        check_rows([*rows, rows[0]])
    with pytest.raises(EvidenceError, match="expected 0 to 0"):
        check_rows([row for row in rows if row["window"] == 1])


# -------------------------------------------------------------------- splits


def test_clean_splits_have_no_problems() -> None:
    rows = kit.make_rows()
    assert split_problems(rows, kit.splits_of(rows)) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows, splits: splits["test"]["fam-a"].remove("S0"), "not listed"),
        (lambda rows, splits: splits["test"]["fam-a"].append("S9"), "has no rows"),
        (lambda rows, splits: splits["test"]["fam-a"].append("S0"), "listed twice"),
        (lambda rows, splits: splits["design"]["fam-a"].append("S0"), "design series"),
        (lambda rows, splits: rows[0].update(start=119), "do not all come before"),
        (lambda rows, splits: rows[0].update(start=None), "do not all come before"),
        (lambda rows, splits: rows[0].pop("decisions"), None),
        (lambda rows, splits: splits.pop("validation"), "not listed"),
    ],
)
def test_split_problems(change: Any, words: str | None) -> None:
    rows = kit.make_rows()
    splits = kit.splits_of(rows)
    assert rows[0]["split"] == "test"
    change(rows, splits)
    found = split_problems(rows, splits)
    if words is None:  # a test window's length does not matter, a validation window's does
        assert found == []
    else:
        assert any(words in text for text in found)


def test_a_series_in_two_purposes_that_are_not_cut_by_time() -> None:
    rows = kit.make_rows()
    moved = {**rows[0], "split": "extra"}
    splits = kit.splits_of([*rows, moved])
    assert any("cut by time" in text for text in split_problems([*rows, moved], splits))


def test_large_rows_are_packed_and_read_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import shutil

    from tests.kit.suites import run_of, shared_run
    from ucsearch.lab.suites.evidence import manifest
    from ucsearch.lab.suites.run import evaluate

    shutil.copytree(shared_run("known-optimum-mini", tmp_path_factory).folder.parent, tmp_path, dirs_exist_ok=True)
    run = run_of(tmp_path / "known-optimum-mini")
    plain = (run.folder / "rows.jsonl").read_bytes()
    monkeypatch.setattr(manifest, "PACKED_FROM", 10)
    again = evaluate("known-optimum-mini", tmp_path, threads=1)
    assert again.statement == run.statement
    assert not (run.folder / "rows.jsonl").exists()
    packed = run.folder / "rows.jsonl.gz"
    assert manifest.read_part(run.folder, "rows.jsonl") == plain
    assert read_evidence(run.folder).rows
    (run.folder / "rows.jsonl").write_bytes(plain)
    with pytest.raises(EvidenceError, match="there twice"):
        read_evidence(run.folder)
    (run.folder / "rows.jsonl").unlink()
    shutil.copy(packed, tmp_path / "whole.gz")
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(EvidenceError, match="unpacked"):
        read_evidence(run.folder)
    shutil.copy(tmp_path / "whole.gz", packed)
    monkeypatch.setattr(manifest, "MOST_BYTES", len(plain) - 1)
    with pytest.raises(EvidenceError, match="more than"):
        read_evidence(run.folder)
